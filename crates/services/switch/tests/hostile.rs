//! What a switch must survive: packets of every length, mutated, through every sample program in both engines; programs
//! swapped under them; engines that stall or die under a flood of writes; controllers that race.

mod common;

use barewire_base::Prng;
use barewire_frame::{Pool, PoolConfig};
use barewire_p4::engine::Engine;
use barewire_p4::interp::Interpreter;
use barewire_p4::phv::Phv;
use barewire_p4_jit::differential::{entries, packets};
use barewire_p4_state::ProgramState;
use barewire_switch::control::link::MAX_PENDING;
use barewire_switch::control::{
    ErrorKind, MirrorSession, NewEntry, Notification, Replica, Switch, SwitchConfig, TableWrite,
};
use barewire_switch::datapath::{Datapath, TargetConfig};
use barewire_switch::harness::Harness;
use barewire_switch::plane::Plane;
use barewire_switch::ports::Ports;
use barewire_switch::prepared::EngineKind;
use barewire_switch::server::{Publisher, Server, ServerConfig};
use common::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};

/// Jumbo frames, and a little more.
const LONGEST: usize = 9000;
/// Up to this length each is tried several times: here the headers end.
const SHORT: usize = 160;

/// The programs, with the bytes at which some of them can be told to go round for ever.
fn programs() -> Vec<(&'static str, &'static str)> {
    let mut all = SAMPLES.to_vec();
    all.extend([("stamp_1", STAMP_1), ("stamp_2", STAMP_2), ("orders", ORDERS)]);
    all
}

/// A packet of a length that begins like one the program understands.
fn hostile(program: &barewire_p4::ir::Program, name: &str, len: usize, prng: &mut Prng) -> Vec<u8> {
    let mut packet = packets::mutate(packets::structured(program, 0, prng), prng);
    let old = packet.len();
    packet.resize(len, 0);
    if len > old && prng.chance(0.5) {
        prng.fill(&mut packet[old..]);
    }
    if name == "orders" && len > 20 && prng.chance(0.7) {
        packet[16..19].fill(0);
        packet[17] = prng.below(8) as u8;
        packet[19] %= 8;
    }
    tame(name, &mut packet);
    packet
}

/// No endless rounds: they have tests of their own.
fn tame(name: &str, packet: &mut [u8]) {
    if name == "orders" && packet.len() > 20 {
        packet[14] %= 10;
        packet[20] %= 8;
    }
}

/// Entries and groups that this program's packets meet, the same in each engine for the same seed.
fn populate(harness: &mut Harness, sample: &[Vec<u8>], seed: u64) {
    let program = harness.switch().program().expect("it was loaded");
    let mut interpreter = Interpreter::new(Arc::clone(&program));
    let layout = Engine::<ProgramState>::layout(&interpreter).clone();
    let mut scratch = ProgramState::with_program_entries(&program);
    let vectors: Vec<Phv> = sample
        .iter()
        .map(|packet| {
            let mut phv = layout.new_phv();
            layout.reset(&mut phv);
            interpreter.parse(0, &mut phv, packet, &mut scratch);
            phv
        })
        .collect();
    let mut prng = Prng::new(seed);
    let state = harness.plane().state().expect("a program runs");
    entries::populate(&program, &layout, &vectors, &mut prng, state);
    let switch = harness.switch().clone();
    if program.tables.iter().any(|table| table.name.ends_with(".labels")) {
        // The key lies in a stack, where no random entry finds it.
        for packet in sample.iter().filter(|packet| packet.len() > 17) {
            let label = number(&packet[14..17]) >> 4;
            let (action, of): (_, &[u64]) = match prng.below(3) {
                0 => ("swap_label", &[77, 2]),
                1 => ("pop_label", &[3]),
                _ => ("push_label", &[88, 4]),
            };
            let table = switch.table("labels").expect("a table");
            // Two packets may have one label.
            let _ = switch.add_entry(table, vec![exact(label)], 0, call(&switch, "labels", action, of));
        }
    }
    for group in 0..8 {
        let replicas: Vec<(u32, u32)> =
            (0..prng.below(5) as u32).map(|rid| (prng.below(16) as u32, rid)).collect();
        switch.mc_set_group(group, &replicas).expect("a group");
        let session = MirrorSession {
            egress_port: prng.chance(0.8).then(|| prng.below(16) as u32),
            multicast_group: prng.chance(0.3).then_some(group),
            truncate_bytes: if prng.chance(0.5) { prng.below(2000) as u32 } else { 0 },
            ..MirrorSession::default()
        };
        switch.set_mirror(group, session).expect("a session");
    }
    if seed.is_multiple_of(2) {
        switch.set_queue_rate(Some(prng.below(8) as u32), None, 5000).expect("a rate");
    }
    harness.apply();
}

/// One program, with one set of entries: packets of every `ROUNDS`th length.
struct Twins {
    native: Harness,
    interpreted: Harness,
    heard: [std::sync::mpsc::Receiver<Notification>; 2],
}

/// Sets of entries for each program.
const ROUNDS: usize = 4;
/// The most of them.
const ROUNDS_MAX: usize = 100;

impl Twins {
    fn new(json: &str, sample: &[Vec<u8>], seed: u64) -> Twins {
        let target = TargetConfig { priorities: 8, ..TargetConfig::default() };
        let make = |kind| {
            let mut harness = Harness::new(ready(json, kind), target.clone()).expect("a switch");
            populate(&mut harness, sample, seed);
            harness
        };
        let (native, interpreted) = (make(EngineKind::Native), make(EngineKind::Interpreter));
        let heard = [native.switch().subscribe(100_000), interpreted.switch().subscribe(100_000)];
        Twins { native, interpreted, heard }
    }

    /// Send a packet through both; gives how many came out.
    fn send(&mut self, port: u32, packet: &[u8], what: &str) -> u64 {
        self.native.advance_us(7);
        self.interpreted.advance_us(7);
        let left = self.native.send(port, packet).expect("it fits a frame");
        let right = self.interpreted.send(port, packet).expect("it fits a frame");
        assert!(
            left == right,
            "{what}, {} bytes, port {port}: {packet:02x?}\nnative {left:02x?}\ninterpreter {right:02x?}",
            packet.len()
        );
        left.len() as u64
    }

    /// What was dropped, and how many digests were made.
    fn finish(mut self, what: &str) -> (BTreeMap<String, u64>, usize) {
        let drops = |harness: &mut Harness| {
            harness.advance_us(10_000_000);
            harness.poll_notifications();
            let mut drops = BTreeMap::new();
            harness.plane().drops(&mut |reason, count| *drops.entry(reason.to_owned()).or_default() += count);
            drops
        };
        let (left, right) = (drops(&mut self.native), drops(&mut self.interpreted));
        assert_eq!(left, right, "{what}");
        let [native, interpreted] = self.heard.map(|heard| heard.try_iter().collect::<Vec<Notification>>());
        assert!(native == interpreted, "{what}: other digests");
        (left, native.len())
    }
}

#[test]
fn packets_of_every_length_fare_alike_in_both_engines() {
    let seed = seed(0xbad);
    for (name, json) in programs() {
        let mut prng = Prng::new(seed);
        let program = Arc::clone(&ready(json, EngineKind::Interpreter).program);
        let (mut sent, mut out, mut digests) = (0_u64, 0_u64, 0);
        let mut dropped: BTreeMap<String, u64> = BTreeMap::new();
        // Random entries of two tables seldom meet in one packet: some rounds more where none came out.
        for round in 0..ROUNDS_MAX {
            if round >= ROUNDS && out > 0 {
                break;
            }
            let sample: Vec<Vec<u8>> = (0..64).map(|_| packets::structured(&program, 0, &mut prng)).collect();
            let mut twins = Twins::new(json, &sample, prng.next_u64());
            for len in (round % ROUNDS..=LONGEST).step_by(ROUNDS) {
                for _ in 0..if len <= SHORT { 16 } else { 1 } {
                    let packet = if prng.chance(0.5) {
                        hostile(&program, name, len, &mut prng)
                    } else {
                        // One that entries were made for, of this length.
                        let mut packet = sample[prng.below(sample.len() as u64) as usize].clone();
                        packet.resize(len, 0x5a);
                        tame(name, &mut packet);
                        packet
                    };
                    out += twins.send(prng.below(8) as u32, &packet, &format!("{name}, packet {sent}"));
                    sent += 1;
                }
            }
            let (drops, more) = twins.finish(name);
            drops.into_iter().for_each(|(reason, count)| *dropped.entry(reason).or_default() += count);
            digests += more;
        }
        println!("{name}: {sent} packets in, {out} out, {dropped:?}, {digests} digests");
        assert!(out > 0, "{name}: nothing ever came out");
    }
}

/// The same flood into a running switch whose program is swapped again and again: no engine dies, no frame is lost
/// inside, and what is sent afterwards is forwarded.
#[test]
fn a_running_switch_survives_floods_and_swaps() {
    let name = "hostile-server";
    let mut prng = Prng::new(seed(0xf100d));
    let free = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let theirs = Arc::clone(&free);
    let publisher = move |_: usize| -> Publisher {
        let free = Arc::clone(&theirs);
        Box::new(move |plane: &Plane, _| {
            free[0].store(plane.pool.available(), SeqCst);
            free[1].store(plane.pool.capacity(), SeqCst);
        })
    };
    let uri = |port: u32| format!("mem:{name}-{port}?slots=128&slot_bytes=9216");
    let pool = PoolConfig { frames: 2048, chunk_len: 16_384, headroom: 640, ..PoolConfig::default() };
    let target = TargetConfig { priorities: 8, cpu_port: Some(64), ..TargetConfig::default() };
    let config = ServerConfig {
        ports: (1..=3).map(|port| (port, uri(port))).collect(),
        pool,
        target,
        publisher: Some(Arc::new(publisher)),
        control: control(),
        ..ServerConfig::default()
    };
    let server = Server::start(config, None).expect("a switch");
    let switch = server.switch();
    let mut wires: Vec<Wire> = (1..=3).map(|port| Wire::open_with(&uri(port), pool)).collect();
    let _heard = switch.subscribe(16);
    let mut received = 0_u64;
    for round in 0..3 {
        for (program_name, json) in programs() {
            let kind = if prng.chance(0.7) { EngineKind::Native } else { EngineKind::Interpreter };
            let prepared = ready(json, kind);
            let program = Arc::clone(&prepared.program);
            switch.commit_prepared(prepared).expect("a swap");
            for group in 0..8 {
                switch.mc_set_group(group, &[(1, 1), (2, 2), (3, 3), (64, 4), (400, 5)]).expect("a group");
                let session = MirrorSession {
                    egress_port: Some(2),
                    multicast_group: Some(group),
                    truncate_bytes: 70,
                    ..MirrorSession::default()
                };
                switch.set_mirror(group, session).expect("a session");
            }
            for seq in 0..400 {
                let len = 14 + prng.below((LONGEST - 13) as u64) as usize;
                let len = if prng.chance(0.7) { 14 + len % SHORT } else { len };
                let packet = hostile(&program, program_name, len, &mut prng);
                let port = prng.below(3) as usize;
                let patience = Patience::new();
                while !wires[port].send(&packet) {
                    received += wires.iter_mut().map(|wire| wire.receive(|_| {}) as u64).sum::<u64>();
                    patience.wait("the wire is full");
                }
                if seq % 32 == 0 {
                    wires[port].flush();
                    received += wires.iter_mut().map(|wire| wire.receive(|_| {}) as u64).sum::<u64>();
                    switch.packet_out(None, packet).expect("in");
                    // Rates come and go, so that packets wait when the program is swapped.
                    let rate_pps = if prng.chance(0.5) { 100 } else { 0 };
                    switch.set_queue_rate(Some(2), None, rate_pps).expect("a rate");
                }
            }
            assert!(!server.has_failed(), "{program_name}, round {round}");
        }
    }
    switch.set_queue_rate(None, None, 0).expect("no rate");
    switch.commit(STAMP_1).expect("a swap");
    let patience = Patience::new();
    loop {
        received += wires
            .iter_mut()
            .map(|wire| {
                wire.flush();
                wire.receive(|_| {}) as u64
            })
            .sum::<u64>();
        wires[0].send_now(&ethernet(1, 0x77, 60));
        let mut marked = 0;
        wires[1].receive(|packet| marked += u64::from(packet.len() == 60 && number(&packet[6..12]) == 1));
        if marked > 0 && free[0].load(SeqCst) == free[1].load(SeqCst) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        patience.wait(&format!("frames are missing: {free:?}"));
    }
    println!("{received} packets came out, {:?}", drops(switch));
    assert!(received > 0);
    server.stop().expect("the engine is well");
}

fn route(switch: &Switch, at: u32) -> NewEntry {
    let action = call(switch, "ipv4_lpm", "set_next_hop", &[0xc0a8_0001, 2]);
    NewEntry { key: vec![lpm(at << 12, 20)], priority: 0, action, ttl_ms: 0, cookie: Vec::new() }
}

/// Packets to routes 0 to `routes`: which of them arrive.
fn arriving(harness: &mut Harness, routes: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut there = Vec::new();
    for at in routes {
        let out = harness.send(1, &udp(1, (at << 12) + 5, (7, 7), 64)).expect("it fits");
        if out.len() == 1 {
            there.push(at);
        }
    }
    there
}

/// An engine that does not take its writes: they are refused in time, with nothing half done; when it goes on, it has
/// exactly what the store has.
#[test]
fn a_stalled_engine_is_said_and_loses_no_write() {
    for batches in [false, true] {
        let mut harness =
            Harness::new(ready(ROUTER, EngineKind::Native), TargetConfig::default()).expect("a switch");
        let switch = harness.switch().clone();
        add(&switch, "forward", vec![exact(0xc0a8_0001)], 0, "set_dst_addr", &[5]);
        add(&switch, "send_frame", vec![exact(2)], 0, "set_src_addr", &[6]);
        harness.apply();
        let table = switch.table("ipv4_lpm").expect("a table");
        // Nobody applies anything from here on.
        const TRIED: u32 = 2 * MAX_PENDING as u32;
        let results: Vec<Result<u64, _>> = if batches {
            let add = |at| TableWrite::Add { table, entry: route(&switch, at) };
            switch.write_batch((0..TRIED).map(add).collect())
        } else {
            let mut results = Vec::new();
            for at in 0..TRIED {
                results.push(switch.add_entry_with(table, route(&switch, at)));
                if results.last().is_some_and(Result::is_err) {
                    break;
                }
            }
            results
        };
        let accepted = results.iter().take_while(|result| result.is_ok()).count();
        assert!((MAX_PENDING..MAX_PENDING + 1024).contains(&accepted), "{accepted} writes wait at most");
        for refused in &results[accepted..] {
            assert_eq!(refused.as_ref().expect_err("the engine is stalled").kind, ErrorKind::Unavailable);
        }
        assert_eq!(switch.num_entries(table), Ok(accepted));
        let key = route(&switch, accepted as u32).key;
        assert_eq!(switch.entry_by_key(table, &key, None).expect_err("refused").kind, ErrorKind::BadMatchKey);
        // Other operations say the same; reads of the store go on.
        let handle = *results[7].as_ref().expect("accepted");
        assert_eq!(switch.delete_entry(table, handle).expect_err("stalled").kind, ErrorKind::Unavailable);
        assert_eq!(switch.ports(), [], "nobody answers");
        assert_eq!(switch.entry(table, handle).expect("the store has it").key, route(&switch, 7).key);
        // It goes on.
        harness.apply();
        let ends = (0..60).chain(accepted as u32 - 60..accepted as u32 + 60);
        let there = arriving(&mut harness, ends);
        assert!(there.into_iter().eq((0..60).chain(accepted as u32 - 60..accepted as u32)));
        switch.delete_entry(table, handle).expect("room again");
        switch.add_entry_with(table, route(&switch, accepted as u32)).expect("room again");
        assert_eq!(arriving(&mut harness, [6, 7, 8, accepted as u32].into_iter()), [6, 8, accepted as u32]);
        assert_eq!(switch.num_entries(table), Ok(accepted));
    }
}

/// An engine that is gone: the store goes on without it, and what only engines know is said to be unavailable at once.
#[test]
fn a_dead_engine_is_said_and_the_store_goes_on() {
    let harness = Harness::new(ready(ROUTER, EngineKind::Native), TargetConfig::default()).expect("a switch");
    let switch = harness.switch().clone();
    drop(harness);
    let table = switch.table("ipv4_lpm").expect("a table");
    let begin = now();
    let handle = switch.add_entry_with(table, route(&switch, 1)).expect("the store goes on");
    assert_eq!(switch.num_entries(table), Ok(1));
    assert_eq!(switch.entry(table, handle).expect("it is there").key, route(&switch, 1).key);
    assert_eq!(
        switch.packet_out(Some(1), vec![0; 60]).expect_err("nobody sends").kind,
        ErrorKind::Unavailable
    );
    assert_eq!(switch.add_port(1, "mem:nobody").expect_err("nobody opens").kind, ErrorKind::Unavailable);
    assert!(switch.remove_port(1).is_err() && switch.ports().is_empty());
    for at in 2..200_000_u32 {
        switch.add_entry_with(table, route(&switch, at)).expect("nothing piles up");
    }
    assert!((now().as_nanos() - begin.as_nanos()) / 1_000_000 < 20_000);
    // An engine that comes later gets them all at once.
    let mut inbox = switch.attach(Box::new(|| {}));
    let pool = Pool::new(PoolConfig::default()).expect("frames");
    let datapath = Datapath::new(TargetConfig::default(), 1, now());
    let mut plane = Plane::new(datapath, Ports::new(None), pool, None);
    inbox.drain(&mut plane);
    let state = plane.state().expect("the program runs");
    assert_eq!(state.tables[table.at()].len(), 199_999);
}

/// Several controllers write the same keys at once, with handles that may be stale: each write is done whole or
/// refused, and in the end the engine forwards by exactly what the store holds.
#[test]
fn controllers_that_race_leave_store_and_engine_alike() {
    const KEYS: u64 = 200;
    const CONTROLLERS: u64 = 4;
    let name = "hostile-race";
    let seed = seed(0xace);
    let ports: Vec<u32> = (1..=9).collect();
    let server =
        Server::start(config(name, &ports, 256), Some(ready(ROUTER, EngineKind::Native))).expect("a switch");
    let switch = server.switch();
    add(switch, "forward", vec![exact(0xc0a8_0001)], 0, "set_dst_addr", &[5]);
    for port in 2..=9 {
        add(switch, "send_frame", vec![exact(port)], 0, "set_src_addr", &[6]);
    }
    let table = switch.table("ipv4_lpm").expect("a table");
    let (accepted, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for controller in 0..CONTROLLERS {
            let (switch, accepted, refused) = (switch.clone(), &accepted, &refused);
            scope.spawn(move || {
                let mut prng = Prng::new(seed + controller);
                let mut handles: Vec<u64> = Vec::new();
                let hop = |port| call(&switch, "ipv4_lpm", "set_next_hop", &[0xc0a8_0001, port]);
                let entry = |at: u64, port| NewEntry { action: hop(port), ..route(&switch, at as u32) };
                for _ in 0..2500 {
                    let at = prng.below(KEYS);
                    let port = 2 + prng.below(8);
                    let known =
                        handles.get(prng.below(handles.len() as u64 + 1) as usize).copied().unwrap_or(at);
                    let results = match prng.below(6) {
                        0 => vec![switch.add_entry_with(table, entry(at, port))],
                        1 => vec![switch.delete_entry(table, known).map(|()| 0)],
                        2 => vec![switch.modify_entry(table, known, hop(port)).map(|()| 0)],
                        3 => switch.write_batch(vec![
                            TableWrite::DeleteByKey {
                                table,
                                key: route(&switch, at as u32).key,
                                priority: 0,
                            },
                            TableWrite::Add { table, entry: entry(at, port) },
                            TableWrite::ModifyByKey { table, entry: entry(at, 11 - port) },
                        ]),
                        4 => switch.write_batch(vec![TableWrite::Add { table, entry: entry(at, port) }; 3]),
                        // Rarely.
                        _ if prng.chance(0.01) => vec![switch.clear_table(table, true).map(|()| 0)],
                        _ => vec![
                            switch
                                .entry_by_key(table, &route(&switch, at as u32).key, None)
                                .map(|e| e.handle),
                        ],
                    };
                    for result in results {
                        match result {
                            Ok(handle) => {
                                accepted.fetch_add(1, Relaxed);
                                handles.push(handle);
                            }
                            Err(error) => {
                                refused.fetch_add(1, Relaxed);
                                assert!(
                                    matches!(
                                        error.kind,
                                        ErrorKind::DuplicateEntry
                                            | ErrorKind::InvalidHandle
                                            | ErrorKind::ExpiredHandle
                                            | ErrorKind::BadMatchKey
                                    ),
                                    "{error:?}"
                                );
                            }
                        }
                    }
                }
            });
        }
    });
    println!("{accepted:?} accepted, {refused:?} refused");
    let mut wires: Vec<Wire> = ports.iter().map(|&port| Wire::open(&uri(name, port, 256))).collect();
    let entries = switch.entries(table).expect("the store");
    let mut routes = 0;
    for at in 0..KEYS {
        let key = route(switch, at as u32).key;
        let stored = entries.iter().find(|entry| entry.key == key);
        let before = dropped(switch, "program_drop");
        wires[0].send_now(&udp(1, ((at << 12) + 5) as u32, (7, 7), 64));
        match stored {
            Some(entry) => {
                let barewire_p4_state::TableAction::Call(call) = &entry.action else { panic!("{entry:?}") };
                let port: u32 = (&call.args[1]).try_into().expect("a port");
                assert_eq!(wires[port as usize - 1].next().len(), 64, "route {at}");
                routes += 1;
            }
            None => {
                let patience = Patience::new();
                while dropped(switch, "program_drop") == before {
                    patience.wait("the packet is dropped");
                }
            }
        }
    }
    assert_eq!(routes, entries.len(), "every entry is one of these routes");
    assert!(routes > 0 && refused.load(Relaxed) > 0);
    let others: Vec<_> = drops(switch).into_iter().filter(|(reason, _)| reason != "program_drop").collect();
    assert!(others.is_empty(), "{others:?}");
    server.stop().expect("the engine is well");
}

/// The switch's clock and its sweeper end with the switch; many of them leave nothing behind.
#[test]
fn switches_come_and_go() {
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let prepared = ready(ROUTER, EngineKind::Native);
    for _ in 0..20 {
        drop(Switch::new(SwitchConfig::default(), Some(Arc::clone(&prepared))).expect("a switch"));
    }
    let before = threads();
    for at in 0..60 {
        let server =
            Server::start(config(&format!("hostile-go-{at}"), &[1], 64), Some(Arc::clone(&prepared)));
        server.expect("a switch").stop().expect("the engine is well");
    }
    let patience = Patience::new();
    while threads() > before + 20 {
        patience.wait("threads end");
    }
}
