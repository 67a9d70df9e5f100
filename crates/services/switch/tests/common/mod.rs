//! What the tests of the running switch share: the programs, wires into its memory ports, packets, entries.
#![allow(dead_code, reason = "each test file uses its part")]

use barewire_base::Instant;
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_p4::ir::Program;
use barewire_p4::key::MatchParam;
use barewire_p4_state::TableAction;
use barewire_port::{Port, PortUri};
use barewire_switch::control::{ActionCall, Switch, SwitchConfig};
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::server::ServerConfig;
use barewire_switch::source;
use num_bigint::BigUint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const ROUTER: &str = include_str!("../../../../../programs/simple_router.p4");
pub const ECMP: &str = include_str!("../../../../../programs/ecmp_router.p4");
pub const ACL: &str = include_str!("../../../../../programs/acl.p4");
pub const MANY_TABLES: &str = include_str!("../../../../../programs/many_tables.p4");
pub const DEEP_HEADERS: &str = include_str!("../../../../../programs/deep_headers.p4");
pub const L2_LEARNING: &str = include_str!("../../../../../programs/l2_learning.p4");
pub const CLONED: &str = include_str!("../../../../../tests/programs/cloned.p4");
/// Writes 1 into the source address, goes out of port 2.
pub const STAMP_1: &str = include_str!("../../../../../tests/programs/stamp_1.json");
/// Writes 2; has a register, and another layout.
pub const STAMP_2: &str = include_str!("../../../../../tests/programs/stamp_2.json");
/// Packets that are orders to the traffic manager.
pub const ORDERS: &str = include_str!("../../../../../tests/programs/orders.json");

/// Every program of `programs/`.
pub const SAMPLES: [(&str, &str); 6] = [
    ("simple_router", ROUTER),
    ("ecmp_router", ECMP),
    ("acl", ACL),
    ("many_tables", MANY_TABLES),
    ("deep_headers", DEEP_HEADERS),
    ("l2_learning", L2_LEARNING),
];

/// How long anything may stand still before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The control side of a test's switch: it waits for engines that other programs keep from their core.
pub fn control() -> SwitchConfig {
    SwitchConfig { answer_timeout: Duration::from_secs(60), ..SwitchConfig::default() }
}

/// A program of its source or of its JSON.
pub fn program(text: &str) -> Program {
    match text.starts_with('{') {
        true => barewire_p4_formats::import::import(text).expect("our own program"),
        false => source::from_text("sample.p4", text).unwrap_or_else(|why| panic!("{why}")),
    }
}

/// A program's JSON.
pub fn json(text: &str) -> String {
    program(text).source
}

pub fn ready(text: &str, kind: EngineKind) -> Arc<Prepared> {
    Arc::new(Prepared::new(Arc::new(program(text)), kind).expect("our own program"))
}

/// Seconds a test under load runs: few, unless `BAREWIRE_SOAK_SECONDS` asks for more.
pub fn soak_seconds(usual: u64) -> u64 {
    match std::env::var("BAREWIRE_SOAK_SECONDS") {
        Ok(text) => text.parse().expect("BAREWIRE_SOAK_SECONDS is a number"),
        Err(_) => usual,
    }
}

/// The seed of a test's randomness: `BAREWIRE_SEED`, or this. It is printed, so that a failure can be had again.
pub fn seed(usual: u64) -> u64 {
    let seed = std::env::var("BAREWIRE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    eprintln!("seed {seed} (BAREWIRE_SEED={seed})");
    seed
}

/// The URI of one port of a test: unlike any other of this process, with room for `slots` frames of 2 KiB.
pub fn uri(test: &str, port: u32, slots: u32) -> String {
    format!("mem:{test}-{port}?slots={slots}")
}

/// A switch with these memory ports; `slots` frames may wait on each wire.
pub fn config(test: &str, ports: &[u32], slots: u32) -> ServerConfig {
    let ports = ports.iter().map(|&port| (port, uri(test, port, slots))).collect();
    ServerConfig { ports, control: control(), ..ServerConfig::default() }
}

/// The other end of a memory port.
pub struct Wire {
    pool: Pool,
    port: Box<dyn Port>,
    tx: Burst,
    rx: Burst,
}

impl Wire {
    pub fn open(uri: &str) -> Wire {
        Wire::open_with(uri, PoolConfig { frames: 256, ..PoolConfig::default() })
    }

    pub fn open_with(uri: &str, pool: PoolConfig) -> Wire {
        let pool = Pool::new(pool).expect("frames");
        let parsed: PortUri = uri.parse().expect("a URI");
        let port = barewire_engine::open_port(&parsed, &pool).expect("the other end of the wire");
        Wire { pool, port, tx: Burst::new(), rx: Burst::new() }
    }

    /// Send a packet, perhaps not before [`Wire::flush`]. False when the wire is full: nothing was taken.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        if self.tx.room() == 0 {
            self.flush();
        }
        if self.tx.room() == 0 {
            return false;
        }
        let Some(frame) = self.pool.alloc_from(bytes) else { return false };
        self.tx.push(frame).is_ok()
    }

    /// True when all is on its way.
    pub fn flush(&mut self) -> bool {
        self.port.tx_burst(now(), &mut self.tx).expect("the switch is there");
        self.tx.is_empty()
    }

    /// Send a packet, waiting for room.
    pub fn send_now(&mut self, bytes: &[u8]) {
        let patience = Patience::new();
        while !self.send(bytes) {
            patience.wait("the wire is full");
        }
        while !self.flush() {
            patience.wait("the wire is full");
        }
    }

    /// Look at what came; says how many packets.
    pub fn receive(&mut self, mut each: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        loop {
            self.port.rx_burst(now(), &mut self.rx).expect("the switch is there");
            if self.rx.is_empty() {
                return count;
            }
            while let Some(frame) = self.rx.pop() {
                count += 1;
                each(frame.data());
            }
        }
    }

    /// The next packet, which must come.
    pub fn next(&mut self) -> Vec<u8> {
        let patience = Patience::new();
        loop {
            self.port.rx_burst(now(), &mut self.rx).expect("the switch is there");
            if let Some(frame) = self.rx.pop() {
                assert!(self.rx.is_empty(), "one packet at a time");
                return frame.data().to_vec();
            }
            patience.wait("no packet came");
        }
    }
}

pub fn now() -> Instant {
    barewire_engine::now()
}

/// Ends a test that waits in vain.
pub struct Patience {
    until: Instant,
}

impl Patience {
    pub fn new() -> Patience {
        Patience { until: until(PATIENCE) }
    }

    /// Let others run.
    pub fn wait(&self, why: &str) {
        assert!(now() < self.until, "{why}, for {PATIENCE:?}");
        std::thread::yield_now();
    }
}

/// Stops the others when one ends, however it ends.
pub struct StopAtEnd<'a>(pub &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The time so long from now.
pub fn until(wait: Duration) -> Instant {
    Instant::from_nanos(now().as_nanos() + wait.as_nanos() as u64)
}

pub fn big(value: u64) -> BigUint {
    BigUint::from(value)
}

pub fn exact(value: u64) -> MatchParam {
    MatchParam::Exact(big(value))
}

pub fn lpm(value: u32, prefix_len: u32) -> MatchParam {
    MatchParam::Lpm { value: BigUint::from(value), prefix_len }
}

pub fn ternary(value: u64, mask: u64) -> MatchParam {
    MatchParam::Ternary { value: big(value & mask), mask: big(mask) }
}

pub fn args(args: &[u64]) -> Vec<BigUint> {
    args.iter().map(|&arg| big(arg)).collect()
}

pub fn call(switch: &Switch, table: &str, action: &str, of: &[u64]) -> TableAction {
    let table = switch.table(table).expect("the program has the table");
    let action = switch.action_of(table, action).expect("the table has the action");
    TableAction::Call(ActionCall { action, args: args(of) })
}

/// Add an entry by names.
pub fn add(
    switch: &Switch,
    table: &str,
    key: Vec<MatchParam>,
    priority: u32,
    action: &str,
    of: &[u64],
) -> u64 {
    let action = call(switch, table, action, of);
    switch.add_entry(switch.table(table).expect("the table"), key, priority, action).expect("an entry")
}

/// An Ethernet, IPv4, UDP packet of `len` bytes (at least 42), its header checksum right.
pub fn udp(source: u32, destination: u32, ports: (u16, u16), len: usize) -> Vec<u8> {
    let mut p = vec![0_u8; len.max(42)];
    let len = p.len();
    p[0..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    p[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 8]);
    p[12] = 8;
    let ip = &mut p[14..34];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&((len - 14) as u16).to_be_bytes());
    ip[8] = 64;
    ip[9] = 17;
    ip[12..16].copy_from_slice(&source.to_be_bytes());
    ip[16..20].copy_from_slice(&destination.to_be_bytes());
    let sum = barewire_wire::checksum::checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    p[34..36].copy_from_slice(&ports.0.to_be_bytes());
    p[36..38].copy_from_slice(&ports.1.to_be_bytes());
    p[38..40].copy_from_slice(&((len - 34) as u16).to_be_bytes());
    p
}

/// An Ethernet packet of `len` bytes (at least 14) of an experimental type.
pub fn ethernet(destination: u64, source: u64, len: usize) -> Vec<u8> {
    let mut p = vec![0_u8; len.max(14)];
    p[0..6].copy_from_slice(&destination.to_be_bytes()[2..]);
    p[6..12].copy_from_slice(&source.to_be_bytes()[2..]);
    p[12..14].copy_from_slice(&[0x88, 0xb5]);
    p
}

/// A number of at most 8 bytes in network order.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// How many packets were dropped, by reason; only reasons that count something.
pub fn drops(switch: &Switch) -> Vec<(String, u64)> {
    switch.drops().into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Packets dropped for one reason.
pub fn dropped(switch: &Switch, reason: &str) -> u64 {
    drops(switch).iter().find(|(name, _)| name == reason).map_or(0, |(_, count)| *count)
}

/// Whether the kernel has `tcx`: since 6.6.
pub fn has_tcx() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(6))
}
