//! What happens to the machine under a feed handler: links down and up, interfaces deleted and made again, other MTUs and MAC addresses.
//! Every kind of input meets every fault on its A line, in a namespace of the test's own, while the B line goes on.
//!
//! Briefly, unless `BAREWIRE_SOAK_SECONDS` says how long each kind of input shall be tormented.

#![allow(clippy::disallowed_methods, reason = "tests give up by the clock")]

mod common;

use barewire_base::Prng;
use barewire_engine::now;
use barewire_feed_handler::{FeedHandler, Input, PortOptions, Side, SocketOptions};
use barewire_netns::Namespace;
use common::link::{Heard, hears_bytes, ip, pair_of};
use common::{emulation, plan, privileged};
use std::time::{Duration, Instant};

/// What a handler receives from.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    /// Empty: the kernel's sockets.
    scheme: &'static str,
    mtu: u32,
    chunk_bytes: u32,
}

const PACKET: Kind = Kind { name: "packet", scheme: "packet", mtu: 1500, chunk_bytes: 2048 };

impl Kind {
    fn input(&self) -> Input {
        if self.scheme.is_empty() {
            return Input::Sockets(SocketOptions {
                interface_a: Some("a0".into()),
                interface_b: Some("b0".into()),
                packet_bytes_max: self.mtu,
                ..SocketOptions::default()
            });
        }
        Input::Ports(PortOptions {
            port_b: Some(format!("{}:b0", self.scheme)),
            pool_frames: 4096,
            chunk_bytes: self.chunk_bytes,
            ..PortOptions::new(&format!("{}:a0", self.scheme))
        })
    }
}

/// What may happen to the interface of the A line.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Down,
    /// Its other end is down.
    NoCarrier,
    Flaps,
    /// Deleted and made again.
    Remade,
    /// Another MTU, and back.
    OtherMtu,
    OtherMac,
    /// Of the B line, too.
    BothDown,
}

const FAULTS: [Fault; 7] = [
    Fault::Down,
    Fault::NoCarrier,
    Fault::Flaps,
    Fault::Remade,
    Fault::OtherMtu,
    Fault::OtherMac,
    Fault::BothDown,
];

/// A handler, and the largest packets that its lines carry.
struct Rig {
    kind: Kind,
    handler: FeedHandler<Heard>,
    random: Prng,
}

impl Rig {
    /// A packet that has not been there before, and often as large as can be, arrives.
    fn hears(&mut self, name: &str, side: Side, when: &str) {
        // Headers of IPv4 and UDP.
        let most = u64::from(self.kind.mtu) - 28;
        let len = if self.random.chance(0.5) { most } else { 12 + self.random.below(most - 12) };
        let mut payload = vec![0; len as usize];
        self.random.fill(&mut payload);
        let heard = hears_bytes(&mut self.handler, name, side, &payload);
        assert!(heard, "{}: {side} {when}: {:?}", self.kind.name, self.handler.last_fault());
    }

    /// The handler runs on, whatever its sources say.
    fn runs_for(&mut self, millis: u64) {
        let end = now() + barewire_base::Duration::from_millis(millis);
        while now() < end {
            self.handler.process(now()).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn inflict(&mut self, fault: Fault) {
        let while_away = format!("while A has {fault:?}");
        match fault {
            Fault::Down | Fault::NoCarrier => {
                let name = if matches!(fault, Fault::Down) { "a0" } else { "a0x" };
                ip(&format!("link set {name} down"));
                self.hears("b0", Side::B, &while_away);
                let wait = self.random.below(1500);
                self.runs_for(wait);
                ip(&format!("link set {name} up"));
            }
            Fault::Flaps => {
                for _ in 0..5 {
                    ip("link set a0 down");
                    self.runs_for(1);
                    ip("link set a0 up");
                }
            }
            Fault::Remade => {
                ip("link del a0");
                self.hears("b0", Side::B, &while_away);
                let wait = self.random.below(1500);
                self.runs_for(wait);
                pair_of("a0", 1, self.kind.mtu);
            }
            Fault::OtherMtu => {
                ip(&format!("link set a0 mtu {}", self.kind.mtu - 100));
                self.hears("b0", Side::B, &while_away);
                ip(&format!("link set a0 mtu {}", self.kind.mtu));
            }
            Fault::OtherMac => {
                let mac = self.random.below(1 << 16);
                ip(&format!("link set a0 address 02:00:01:00:{:02x}:{:02x}", mac >> 8, mac & 255));
                self.hears("b0", Side::B, &while_away);
            }
            Fault::BothDown => {
                for name in ["a0", "b0"] {
                    ip(&format!("link set {name} down"));
                }
                self.runs_for(1500);
                for name in ["a0", "b0"] {
                    ip(&format!("link set {name} up"));
                }
            }
        }
    }
}

fn torment(kind: Kind) {
    if !privileged() {
        return;
    }
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("BAREWIRE_SEED").unwrap_or(1);
    println!("{}: seed {seed}", kind.name);
    let soak = number("BAREWIRE_SOAK_SECONDS").unwrap_or(0);
    let end = Instant::now() + Duration::from_secs(soak);
    let host = Namespace::anonymous().unwrap();
    host.enter(|| {
        pair_of("a0", 1, kind.mtu);
        pair_of("b0", 2, kind.mtu);
        let handler = FeedHandler::builder(plan(&emulation(4), kind.input(), None))
            .build(|_, _| Heard::default())
            .unwrap();
        let mut rig = Rig { kind, handler, random: Prng::new(seed) };
        let both = [("a0", Side::A), ("b0", Side::B)];
        both.iter().for_each(|(name, side)| rig.hears(name, *side, "at first"));
        // Sockets are not told that their interface was made anew: a line that has been silent for longer than a minute is joined again.
        let is_fit = |fault: &Fault| !kind.scheme.is_empty() || soak > 0 || !matches!(fault, Fault::Remade);
        let mut planned: Vec<Fault> = FAULTS.into_iter().filter(is_fit).collect();
        loop {
            for fault in planned.drain(..) {
                println!("  {}: {fault:?}", kind.name);
                rig.inflict(fault);
                both.iter().for_each(|(name, side)| rig.hears(name, *side, &format!("after {fault:?}")));
            }
            if Instant::now() >= end {
                break;
            }
            planned.push(FAULTS[rig.random.below(FAULTS.len() as u64) as usize]);
        }
    })
    .unwrap();
}

#[test]
fn packet() {
    torment(PACKET);
}

#[test]
fn packet_with_jumbo_frames() {
    torment(Kind { name: "packet, jumbo", mtu: 9000, chunk_bytes: 16384, ..PACKET });
}

#[test]
fn xdp() {
    torment(Kind { name: "xdp", scheme: "xdp", ..PACKET });
}

#[test]
fn xdp_with_jumbo_frames() {
    torment(Kind { name: "xdp, jumbo", scheme: "xdp", mtu: 3400, chunk_bytes: 4096 });
}

#[test]
fn sockets() {
    torment(Kind { name: "sockets", scheme: "", ..PACKET });
}

#[test]
fn sockets_with_jumbo_frames() {
    torment(Kind { name: "sockets, jumbo", scheme: "", mtu: 9000, ..PACKET });
}
