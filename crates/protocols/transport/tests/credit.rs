//! Applications that do not read hold up their own senders and nobody else.

mod common;
use barewire_base::{DropReason, Instant};
use barewire_sim::{LinkConfig, Outcome};
use barewire_transport::*;
use common::*;
use std::net::SocketAddr;

/// One region to receive into for each of two owners.
struct Quotas {
    parts: [HeapMemory; 2],
}

impl Quotas {
    fn new(send: usize, recv: usize) -> Quotas {
        Quotas { parts: [0, 1].map(|_| HeapMemory::new(send, recv)) }
    }
}

impl Memory for Quotas {
    fn read(&mut self, buf: SendBuf, offset: u32, out: &mut [u8]) -> bool {
        self.parts[buf.owner as usize].read(buf, offset, out)
    }
    fn alloc(&mut self, owner: u32, len: u32, turn: Turn) -> Option<RecvBuf> {
        self.parts[owner as usize].alloc(owner, len, turn)
    }
    fn write(&mut self, buf: RecvBuf, offset: u32, bytes: &[u8]) {
        self.parts[buf.owner as usize].write(buf, offset, bytes);
    }
    fn free(&mut self, buf: RecvBuf) {
        self.parts[buf.owner as usize].free(buf);
    }
    fn message_max(&self, owner: u32) -> u32 {
        self.parts[owner as usize].message_max(owner)
    }
}

impl TestMemory for Quotas {
    fn reserve(&mut self, owner: u32, len: u32) -> Option<SendBuf> {
        Some(SendBuf { owner, ..self.parts[owner as usize].reserve(len)? })
    }
    fn send_bytes(&mut self, buf: SendBuf) -> &mut [u8] {
        self.parts[buf.owner as usize].send_bytes(buf)
    }
    fn release_send(&mut self, buf: SendBuf) {
        assert!(self.parts[buf.owner as usize].release_send(buf));
    }
    fn recv_bytes(&self, buf: RecvBuf) -> &[u8] {
        self.parts[buf.owner as usize].recv_bytes(buf)
    }
    fn available(&self) -> (u64, u64) {
        let [a, b] = [&self.parts[0], &self.parts[1]].map(|p| p.available());
        (a.0 + b.0, a.1 + b.1)
    }
}

struct Rig {
    world: barewire_sim::World,
    a: barewire_sim::NodeId,
    b: barewire_sim::NodeId,
    /// Flows to owner 0 and owner 1, as the client names them.
    flows: [FlowId; 2],
}

const MEMORY: usize = 16 << 20;

/// Two applications at the server, each with a flow from the same client. `recv`: memory of each to receive into.
fn rig(link: LinkConfig, config: &Config, recv: usize) -> Rig {
    let mut world = barewire_sim::World::new(1);
    let pool = world.pool().clone();
    let a = world.add_node(Box::new(Station::with_memory(
        1,
        pool.clone(),
        config.clone(),
        Quotas::new(MEMORY, MEMORY),
    )));
    let mut server = Station::with_memory(2, pool, config.clone(), Quotas::new(MEMORY, recv));
    server.keep = false;
    for owner in 0..2 {
        server.endpoint.listen(PORT + owner as u16, owner, 0).unwrap();
    }
    let b = world.add_node(Box::new(server));
    world.connect(a, b, link);
    let now = world.now();
    let flows = [0, 1].map(|owner: u16| {
        let s = world.node_mut::<Station<Quotas>>(a);
        let (local, remote) = (SocketAddr::new(ip(1, false), 0), SocketAddr::new(ip(2, false), PORT + owner));
        s.endpoint.connect(now, 0, local, remote, true, 0).unwrap()
    });
    run(&mut world, 10);
    assert_eq!(world.node::<Station<Quotas>>(b).events.len(), 2);
    Rig { world, a, b, flows }
}

fn run(world: &mut barewire_sim::World, millis: u64) {
    assert_eq!(world.run_for(ms(millis)), Outcome::Done);
}

impl Rig {
    fn a(&mut self) -> &mut Station<Quotas> {
        let now = self.world.now();
        let s = self.world.node_mut::<Station<Quotas>>(self.a);
        s.now = now;
        s
    }
    fn b(&mut self) -> &mut Station<Quotas> {
        let now = self.world.now();
        let s = self.world.node_mut::<Station<Quotas>>(self.b);
        s.now = now;
        s
    }
    fn packets(&mut self) -> u64 {
        self.a().count("packets_tx") + self.b().count("packets_tx")
    }
}

fn gigabit() -> LinkConfig {
    LinkConfig { rate_bps: Some(1_000_000_000), queue_bytes: 1 << 20, ..LinkConfig::perfect(us(20)) }
}

/// Bytes that owner 1 gets in 100 ms from a sender that always has more.
fn throughput(r: &mut Rig) -> u64 {
    let (a, b, flow) = (r.a, r.b, r.flows[1]);
    let before = r.b().received_bytes;
    let end = r.world.now() + ms(100);
    let _ = r.world.run_while(ms(100), |w| {
        let now: Instant = w.now();
        if w.node::<Station<Quotas>>(a).endpoint.memory().available().0 > (MEMORY as u64) {
            let s = w.node_mut::<Station<Quotas>>(a);
            s.now = now;
            while s.send_as(1, flow, &[0x5a; 20_000], 0).is_ok()
                && s.endpoint.memory().available().0 > MEMORY as u64
            {}
        }
        now < end
    });
    r.world.node::<Station<Quotas>>(b).received_bytes - before
}

#[test]
fn one_that_never_reads_stops_its_sender_alone() {
    let config = Config { recv_window_bytes: 64 << 10, send_messages_max: 8_192, ..Config::default() };
    let alone = throughput(&mut rig(gigabit(), &config, 4 << 20));
    // A fresh rig, in which the other application sleeps.
    let mut r = rig(gigabit(), &config, 4 << 20);
    r.b().idle_owners = vec![0];
    let flow = r.flows[0];
    for i in 0..200 {
        r.a().send(flow, &message(i, 3_000), i).unwrap();
    }
    run(&mut r.world, 100);
    // The window of 64 KiB, and one message over it.
    let held = r.b().held.len() as u64 * 3_000;
    assert!((60_000..=68_600).contains(&held), "{held} bytes");
    let beside = throughput(&mut r);
    println!("simulated: {alone} bytes in 100 ms alone, {beside} beside a flow whose application sleeps");
    assert!(beside > alone * 98 / 100 && alone > 10_000_000, "{beside} of {alone}");
    run(&mut r.world, 200);
    let before = r.packets();
    run(&mut r.world, 10_000);
    let asked = r.packets() - before;
    assert!(asked < 150, "{asked} packets in ten seconds of waiting");
    // It wakes up.
    let got = r.b().received;
    for _ in 0..300 {
        let now = r.world.now();
        while r.b().read_one(now) {}
        run(&mut r.world, 2);
    }
    assert_eq!(r.b().received - got, 200);
    assert_eq!(r.a().count("segments_resent"), 0, "credit is no loss");
    assert_eq!((r.a().closes(), r.b().closes()), (vec![], vec![]));
}

#[test]
fn no_memory_for_thirty_seconds_loses_nothing_and_kills_nothing() {
    for loss in [0.0, 0.05] {
        // The window is far larger than the memory: what arrives is refused again and again.
        let config = Config { recv_window_bytes: 8 << 20, ..Config::default() };
        let mut r = rig(LinkConfig { loss, ..gigabit() }, &config, 128 << 10);
        r.b().idle_owners = vec![0];
        let flow = r.flows[0];
        for i in 0..400u64 {
            let len = [2_000, 30_000, 0, 700][i as usize % 4];
            r.a().send(flow, &message(i, len), i).unwrap();
        }
        run(&mut r.world, 1_000);
        assert!(r.b().drops(DropReason::NoCredit) > 0);
        let before = r.packets();
        run(&mut r.world, 30_000);
        let asked = r.packets() - before;
        assert!(asked < 30 * 120, "{asked} packets in thirty seconds");
        assert_eq!((r.a().closes(), r.b().closes()), (vec![], vec![]));
        // The other application is as quick as ever.
        let other = r.flows[1];
        let now = r.world.now();
        r.a().send_as(1, other, b"quick", 0).unwrap();
        let (b, got) = (r.b, r.b().received);
        r.world.run_while(secs(1), |w| w.node::<Station<Quotas>>(b).received == got).unwrap_done();
        assert!(loss > 0.0 || r.world.now().since(now) < us(100));

        let mut read = vec![];
        for _ in 0..4_000 {
            let now = r.world.now();
            let s = r.b();
            if let Some((_, buf)) = s.held.front().copied() {
                read.push(s.endpoint.memory().recv_bytes(buf).to_vec());
                s.read_one(now);
            }
            run(&mut r.world, 1);
            if read.len() == 400 {
                break;
            }
        }
        assert_eq!(read.len(), 400);
        for (i, bytes) in read.iter().enumerate() {
            assert!(*bytes == message(i as u64, [2_000, 30_000, 0, 700][i % 4]), "message {i}");
        }
        // Memory at hand again, a stream is a stream again: no pause is left over.
        r.b().idle_owners.clear();
        run(&mut r.world, 100);
        let start = r.world.now();
        for i in 0..50 {
            r.a().send(flow, &message(i, 2_000), i).unwrap();
        }
        let (b, got) = (r.b, r.b().received);
        r.world.run_while(secs(1), |w| w.node::<Station<Quotas>>(b).received < got + 50).unwrap_done();
        assert!(loss > 0.0 || r.world.now().since(start) < ms(3), "{}", r.world.now().since(start));
    }
}

#[test]
fn too_many_messages_at_once_hold_up_and_lose_nothing() {
    // The table of received messages is the bound, not their memory.
    let config = Config { recv_messages_max: 16, recv_window_bytes: 1 << 20, ..Config::default() };
    let mut r = rig(gigabit(), &config, 1 << 20);
    r.b().idle_owners = vec![0];
    let flow = r.flows[0];
    for i in 0..100 {
        r.a().send(flow, &message(i, 100), i).unwrap();
    }
    run(&mut r.world, 500);
    assert_eq!((r.b().held.len(), r.b().endpoint.received_messages()), (16, 16));
    for _ in 0..200 {
        let now = r.world.now();
        r.b().read_one(now);
        run(&mut r.world, 5);
    }
    assert_eq!((r.b().received, r.b().endpoint.received_messages()), (100, 0));
    run(&mut r.world, 100);
    assert_eq!(r.a().sent.len(), 100);
}

#[test]
fn a_message_that_can_never_fit_ends_its_flow_with_a_reason() {
    let config = Config { recv_window_bytes: 1 << 20, ..Config::default() };
    let mut r = rig(gigabit(), &config, 128 << 10);
    let [flow, other] = r.flows;
    r.a().send(flow, &message(1, 128 << 10), 1).unwrap();
    run(&mut r.world, 50);
    assert_eq!(r.b().received, 1, "this one just fits");
    r.a().send(flow, &message(2, (128 << 10) + 1), 2).unwrap();
    r.a().send(flow, &message(3, 10), 3).unwrap();
    run(&mut r.world, 10);
    assert_eq!(r.a().closes(), [CloseReason::MessageTooLarge]);
    assert_eq!(r.b().closes(), [CloseReason::MessageTooLarge]);
    assert_eq!(r.a().sent, [(1, true), (2, false), (3, false)]);
    assert_eq!(r.b().drops(DropReason::TooLarge), 1);
    assert_eq!(CloseReason::from_code(7), Some(CloseReason::MessageTooLarge));
    r.a().send_as(1, other, b"not concerned", 4).unwrap();
    run(&mut r.world, 10);
    assert_eq!((r.b().received, r.b().endpoint.received_messages()), (2, 0));
}

#[test]
fn credit_goes_around_its_circle() {
    // Credit counts in units of 64 bytes modulo 2^32. A window of one unit grants message by message.
    let config = Config { recv_window_bytes: 1, ..Config::default() };
    let mut r = rig(gigabit(), &config, 1 << 20);
    let flow = r.flows[0];
    for i in 0..500 {
        r.a().send(flow, &message(i, (i as usize * 37) % 2_000), i).unwrap();
    }
    let (b, start) = (r.b, r.world.now());
    r.world.run_while(secs(5), |w| w.node::<Station<Quotas>>(b).received < 500).unwrap_done();
    assert!(r.world.now().since(start) < ms(200), "{}", r.world.now().since(start));
}

/// Where order is free, what fits arrives beside what does not: at a receiver that holds so much that one message has no room.
#[test]
fn what_fits_passes_what_does_not_where_order_is_free() {
    for ordered in [true, false] {
        let config = Config { flows_max: 4, ..Config::default() };
        let memory = || HeapMemory::new(1 << 16, 8 << 10);
        let mut p = pair_with_memory(1, LinkConfig::perfect(us(50)), &config, &config, memory);
        p.b().idle_owners = vec![0];
        let flow = p.connect(ordered, false);
        p.run(ms(5));
        // With this one held the next has no block; those behind it have.
        for (id, len) in [(1, 10), (2, 5_000), (3, 20), (4, 30)] {
            p.a().send(flow, &message(id, len), id).unwrap();
        }
        p.run(secs(3));
        let lengths = |p: &mut Pair| p.b().held.iter().map(|h| h.1.len).collect::<Vec<_>>();
        let mut held = lengths(&mut p);
        held.sort_unstable();
        assert_eq!(held, if ordered { vec![10] } else { vec![10, 20, 30] });
        assert_eq!((p.a().closes(), p.b().closes()), (vec![], vec![]), "nobody is given up for it");
        let now = p.world.now();
        p.b().idle_owners.clear();
        while p.b().read_one(now) {}
        p.run(secs(1));
        assert_eq!(p.b().received, 4);
        let mut sent: Vec<_> = p.a().sent.iter().map(|s| s.0).collect();
        sent.sort_unstable();
        assert_eq!(sent, [1, 2, 3, 4]);
    }
}
