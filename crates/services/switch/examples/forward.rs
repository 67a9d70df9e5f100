//! How fast one engine forwards 64-byte packets between memory ports with the simple router: a first look, not a
//! measurement (`barewire bench switch` is). Give the number of routes, and `callgrind` to run few packets.

use barewire_base::Instant;
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_p4::key::MatchParam;
use barewire_p4_state::TableAction;
use barewire_port::{MemoryConfig, MemoryLink, Port};
use barewire_switch::control::{ActionCall, Switch, SwitchConfig};
use barewire_switch::datapath::{Datapath, TargetConfig};
use barewire_switch::plane::Plane;
use barewire_switch::ports::Ports;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::source;
use num_bigint::BigUint;
use std::sync::Arc;

fn call(switch: &Switch, table: &str, action: &str, args: &[u64]) -> TableAction {
    let table = switch.table(table).expect("the program has it");
    let action = switch.action_of(table, action).expect("the table has it");
    TableAction::Call(ActionCall { action, args: args.iter().map(|&a| BigUint::from(a)).collect() })
}

fn main() {
    let mut args = std::env::args().skip(1);
    let routes: u32 = args.next().and_then(|a| a.parse().ok()).unwrap_or(1000);
    let few = args.next().is_some();
    let text = include_str!("simple_router.p4");
    let started = barewire_engine::now();
    let program = source::from_text("simple_router.p4", text).expect("our own program");
    let prepared = Arc::new(Prepared::new(Arc::new(program), EngineKind::Native).expect("our own program"));
    eprintln!("ready after {} us", (barewire_engine::now().as_nanos() - started.as_nanos()) / 1000);
    let switch = Switch::new(SwitchConfig::default(), Some(prepared)).expect("a switch");
    let pool =
        || Pool::new(PoolConfig { frames: 2048, headroom: 640, ..PoolConfig::default() }).expect("frames");
    let mine = pool();
    let (a, b) = MemoryLink::new(MemoryConfig::default()).expect("a link");
    let (c, d) = MemoryLink::new(MemoryConfig::default()).expect("a link");
    let mut ports = Ports::new(None);
    ports.add_open(1, "mem:a".into(), Box::new(b.open(mine.clone())));
    ports.add_open(2, "mem:b".into(), Box::new(c.open(mine.clone())));
    let (source_pool, sink_pool) = (pool(), pool());
    let (mut source, mut sink) = (a.open(source_pool.clone()), d.open(sink_pool.clone()));
    let mut plane = Plane::new(Datapath::new(TargetConfig::default(), 0, started), ports, mine, None);
    let mut inbox = switch.attach(Box::new(|| {}));
    let lpm = switch.table("ipv4_lpm").expect("a table");
    for i in 0..routes {
        let prefix = 0x0a00_0000_u32 + (i << 8);
        let key = vec![MatchParam::Lpm { value: BigUint::from(prefix), prefix_len: 24 }];
        let hop = 0xc0a8_0000 + u64::from(i % 16);
        switch.add_entry(lpm, key, 0, call(&switch, "ipv4_lpm", "set_next_hop", &[hop, 2])).expect("a route");
    }
    let forward = switch.table("forward").expect("a table");
    for i in 0..16_u64 {
        let key = vec![MatchParam::Exact(BigUint::from(0xc0a8_0000 + i))];
        let action = call(&switch, "forward", "set_dst_addr", &[0x0200_0000_0000 + i]);
        switch.add_entry(forward, key, 0, action).expect("a next hop");
    }
    let send = switch.table("send_frame").expect("a table");
    let action = call(&switch, "send_frame", "set_src_addr", &[0x0200_0000_ff02]);
    switch.add_entry(send, vec![MatchParam::Exact(BigUint::from(2_u8))], 0, action).expect("a port");
    inbox.drain(&mut plane);

    let mut packets = Vec::new();
    for i in 0..1024_u32 {
        let mut p = vec![0_u8; 64];
        p[12] = 8;
        let ip = &mut p[14..34];
        ip[0] = 0x45;
        ip[3] = 50;
        ip[8] = 64;
        ip[9] = 17;
        ip[12..16].copy_from_slice(&[192, 168, 9, 9]);
        let to = 0x0a00_0000_u32 + ((i.wrapping_mul(2_654_435_761) % routes) << 8) + 7;
        ip[16..20].copy_from_slice(&to.to_be_bytes());
        let sum = barewire_wire::checksum::checksum(ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        packets.push(p);
    }
    let (mut tx, mut rx, mut work) = (Burst::new(), Burst::new(), Burst::new());
    let (mut next, mut switch_ns, mut sent, mut got) = (0_usize, 0_u64, 0_u64, 0_u64);
    let total = if few { 20_000 } else { 20_000_000 };
    let begin = barewire_engine::now();
    let mut now = Instant::ZERO;
    while got < total {
        while tx.room() > 0 {
            let Some(frame) = source_pool.alloc_from(&packets[next % 1024]) else { break };
            next += 1;
            if tx.push(frame).is_err() {
                break;
            }
        }
        sent += source.tx_burst(now, &mut tx).expect("memory") as u64;
        let t0 = barewire_engine::now();
        now = t0;
        cycle(&mut plane, now, &mut work);
        switch_ns += barewire_engine::now().as_nanos() - t0.as_nanos();
        while let Ok(n) = sink.rx_burst(now, &mut rx) {
            if n == 0 {
                break;
            }
            got += n as u64;
            assert_eq!(rx.front().map(|f| f.data()[22]), Some(63), "the TTL counts down");
            rx.clear();
        }
    }
    let all_ns = barewire_engine::now().as_nanos() - begin.as_nanos();
    println!(
        "{routes} routes: {:.1} ns a packet in the switch, {:.1} ns in the whole loop ({sent} sent, {got} received)",
        switch_ns as f64 / got as f64,
        all_ns as f64 / got as f64
    );
}

#[inline(never)]
fn cycle(plane: &mut Plane, now: Instant, work: &mut Burst) {
    let port = plane.ports.receive(0, now, work);
    while let Some(frame) = work.pop() {
        plane.datapath.receive(now, port, frame, &mut plane.ports);
    }
    plane.ports.flush(now);
}
