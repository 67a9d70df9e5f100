//! Interfaces of a namespace that come and go, and what a handler hears over them.

use super::{channel, emulation};
use barewire_base::{Duration, Instant};
use barewire_engine::now;
use barewire_feed_emulator::{Emitted, Sender};
use barewire_feed_handler::{Consumer, FeedHandler, FeedType, LineId, Packet, Side, SourceError};
use std::process::Command;

/// Within a namespace.
pub fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status().expect("ip");
    assert!(status.success(), "ip {words}");
}

/// A pair of interfaces; what is sent from `{name}x` arrives at `name`.
pub fn pair(name: &str, net: u8) {
    pair_of(name, net, 1500);
}

/// The same, with an MTU.
pub fn pair_of(name: &str, net: u8, mtu: u32) {
    ip(&format!("link add {name} mtu {mtu} type veth peer name {name}x mtu {mtu}"));
    ip(&format!("address add 10.90.{net}.2/24 dev {name}"));
    ip(&format!("address add 10.90.{net}.1/24 dev {name}x"));
    // Both ends are here: sockets must not take the sender's address for a forged one.
    for (key, value) in [("accept_local", "1"), ("rp_filter", "0")] {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/{key}");
        std::fs::write(path, value).expect("a setting of the interface");
    }
    ip(&format!("link set {name}x up"));
    ip(&format!("link set {name} up"));
}

/// Sends to the group of a side, from the other end of `name`, until the handler has heard it; whether it has, within two
/// minutes: sockets of an interface that was made anew are joined again after 75 s.
pub fn hears(handler: &mut FeedHandler<Heard>, name: &str, side: Side) -> bool {
    hears_bytes(handler, name, side, &[7; 40])
}

/// The same, of a packet with these bytes.
pub fn hears_bytes(handler: &mut FeedHandler<Heard>, name: &str, side: Side, payload: &[u8]) -> bool {
    let lines = channel(&emulation(4)).connections;
    let sender = Sender::open(&lines, Some(&format!("{name}x"))).unwrap();
    let before = handler.channels()[0].of(side);
    let end = now() + Duration::from_secs(120);
    // Copies of what was sent before may be under way still.
    while handler.channels()[0].of(side) == before || handler.channels()[0].last[side as usize] != payload {
        if now() > end {
            return false;
        }
        // A link that has just come up may refuse.
        let packet = Emitted { at: now(), feed: FeedType::Incremental, side, payload };
        let _ = sender.send(&packet);
        for _ in 0..50 {
            handler.process(now()).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    true
}

/// Counts what came, by side, and keeps the last of it.
#[derive(Default)]
pub struct Heard {
    sides: [u64; 2],
    last: [Vec<u8>; 2],
    pub faults: Vec<LineId>,
}

impl Heard {
    pub fn of(&self, side: Side) -> u64 {
        self.sides[side as usize]
    }
}

impl Consumer for Heard {
    fn on_packet(&mut self, _: Instant, packet: &Packet<'_>) {
        let side = packet.line.side as usize;
        self.sides[side] += 1;
        self.last[side].clear();
        self.last[side].extend_from_slice(packet.payload);
    }
    fn on_line_fault(&mut self, _: Instant, line: LineId, _: &SourceError) {
        self.faults.push(line);
    }
}
