//! What happens to the machine under a running daemon: links down and up, interfaces deleted and made again, other MTUs and MAC
//! addresses, under load from two applications, and from RDMA operations beside them. Every kind of port meets every fault, in namespaces
//! of the test's own.
//!
//! Briefly, unless `BAREWIRE_SOAK_SECONDS` says how long each kind of port shall be tormented. The judges are invariants: echoes
//! are what was sent, traffic flows again after the fault, losses are counted, nobody spins meanwhile, and in the end memory and
//! frames are all there.

#![allow(clippy::disallowed_methods, reason = "tests give up by the clock")]

mod common;
#[path = "environment/operations.rs"]
mod operations;
#[path = "environment/rig.rs"]
mod rig;

use barewire_base::Prng;
use barewire_daemon::Daemon;
use barewire_netns::{LinkConfig, Namespace, VethPair};
use common::*;
use rig::{Kind, PACKET, Rig, is_able};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the kinds of port are tormented beyond one round of all faults.
fn soak() -> Duration {
    let seconds = std::env::var("BAREWIRE_SOAK_SECONDS").ok();
    Duration::from_secs(seconds.map_or(0, |text| text.parse().expect("BAREWIRE_SOAK_SECONDS is a number")))
}

/// What may happen to the link. After each of them all is as before, and traffic flows.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The first host's interface is down for a moment.
    Down,
    /// The other end is down: no carrier.
    NoCarrier,
    /// Down and up in turns.
    Flaps,
    /// Deleted and made again, with the same MAC address or another.
    Remade { other_mac: bool },
    /// A larger MTU, and back.
    LargerMtu,
    /// Another MAC address.
    OtherMac,
    /// A smaller MTU, and back. With RDMA only, where it ends the daemon.
    SmallerMtu,
}

const FAULTS: [Fault; 7] = [
    Fault::Down,
    Fault::NoCarrier,
    Fault::Flaps,
    Fault::Remade { other_mac: false },
    Fault::OtherMac,
    Fault::Remade { other_mac: true },
    Fault::LargerMtu,
];

/// RDMA connections keep the MAC address and the MTU that they were made with: the daemon says why it ends, and another takes its place.
fn is_replaced(rig: &mut Rig, words: &str, repair: impl FnOnce(&Rig)) {
    let error = rig.ends(0);
    assert!(error.contains("eth0") && error.contains(words) && error.contains("hint"), "{error}");
    repair(rig);
    rig.start(0);
}

fn inflict(rig: &mut Rig, fault: Fault, random: &mut Prng) {
    let pause = |random: &mut Prng| std::thread::sleep(Duration::from_millis(200 + random.below(300)));
    match fault {
        Fault::Down | Fault::NoCarrier => {
            let host = usize::from(matches!(fault, Fault::NoCarrier));
            let downs = rig.sum(host, "port.link_downs");
            let losses = rig.sum(1 - host, "port.carrier_losses");
            let lost = rig.sum(host, "port.drop.port_down");
            rig.ip(host, &["link", "set", "eth0", "down"]);
            // Before it is up again: the watcher asks how things are, and may have had no core meanwhile.
            eventually("the fault is counted", || rig.sum(host, "port.link_downs") > downs);
            let other = || rig.sum(1 - host, "port.carrier_losses") > losses;
            eventually("the other end has lost its carrier", other);
            std::thread::sleep(Duration::from_millis(100));
            // As far as a machine that is away for a while allows: spinning is a hundred times more.
            rig.nobody_spins();
            rig.ip(host, &["link", "set", "eth0", "up"]);
            let now_lost = rig.sum(host, "port.drop.port_down");
            println!("    {} frames were lost to the link", now_lost - lost);
        }
        Fault::Flaps => {
            for _ in 0..5 {
                rig.ip(0, &["link", "set", "eth0", "down"]);
                rig.ip(0, &["link", "set", "eth0", "up"]);
            }
        }
        Fault::Remade { other_mac } => {
            let reopened = rig.sum(0, "port.reopened");
            rig.remove_wire();
            pause(random);
            rig.nobody_spins();
            let macs = match other_mac {
                false => Some(rig.macs),
                // The other daemon would end, too.
                true if rig.kind.rdma => Some([[2, 0, 0, 1, 0, random.below(256) as u8], rig.macs[1]]),
                true => None,
            };
            rig.make_wire(macs);
            if other_mac && rig.kind.rdma {
                return is_replaced(rig, "MAC address is", |_| {});
            }
            let engines = u64::from(rig.kind.engines);
            eventually("ports are open again", || rig.sum(0, "port.reopened") >= reopened + engines);
        }
        Fault::LargerMtu => {
            let changes = rig.sum(0, "port.mtu_changes");
            let mtu = rig.kind.mtu + 100;
            rig.ip(0, &["link", "set", "eth0", "mtu", &mtu.to_string()]);
            eventually("the change is noticed", || rig.sum(0, "port.mtu_changes") > changes);
            pause(random);
            let mtu = rig.kind.mtu;
            rig.ip(0, &["link", "set", "eth0", "mtu", &mtu.to_string()]);
        }
        Fault::OtherMac => {
            let changes = rig.sum(0, "port.mac_changes");
            let mac = random.below(1 << 24);
            let mac = format!("02:00:01:{:02x}:{:02x}:{:02x}", mac >> 16 & 255, mac >> 8 & 255, mac & 255);
            rig.ip(0, &["link", "set", "eth0", "address", &mac]);
            if rig.kind.rdma {
                return is_replaced(rig, &format!("MAC address is {mac}"), |_| {});
            }
            eventually("the change is noticed", || rig.sum(0, "port.mac_changes") > changes);
        }
        Fault::SmallerMtu => {
            let mtu = rig.kind.mtu;
            rig.ip(0, &["link", "set", "eth0", "mtu", &(mtu - 100).to_string()]);
            is_replaced(rig, &format!("MTU was lowered to {}", mtu - 100), |rig| {
                rig.ip(0, &["link", "set", "eth0", "mtu", &mtu.to_string()]);
            });
        }
    }
}

/// All faults, each at least once, with load from two applications.
fn torment(kind: Kind) {
    let name = kind.name;
    if !is_able() {
        return;
    }
    let seed = std::env::var("BAREWIRE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("{name}: seed {seed}");
    let mut random = Prng::new(seed);
    let mut rig = Rig::new(kind);
    rig.flows("at first");
    let end = Instant::now() + soak();
    let mut planned = FAULTS.to_vec();
    if kind.rdma {
        planned.push(Fault::SmallerMtu);
    }
    let faults = planned.clone();
    loop {
        for fault in planned.drain(..) {
            println!("  {name}: {fault:?}");
            inflict(&mut rig, fault, &mut random);
            let took = rig.flows(&format!("after {fault:?}"));
            println!("    traffic flowed again {took:?} later");
        }
        if Instant::now() >= end {
            break;
        }
        planned.push(faults[random.below(faults.len() as u64) as usize]);
    }
    rig.finish();
}

/// The machine's own address on the daemon's interface is served by the kernel, as it was before.
#[test]
fn an_interface_is_shared_with_the_kernel() {
    use std::net::{TcpListener, TcpStream};
    for scheme in ["xdp", "packet"] {
        if !is_able() {
            return;
        }
        let dir = Folder::new("daemon");
        let [ours, other] = [Namespace::anonymous().unwrap(), Namespace::anonymous().unwrap()];
        VethPair::create(&ours, "eth0", &other, "eth0", &LinkConfig::default()).unwrap();
        for (namespace, address) in [(&ours, "10.77.0.1/24"), (&other, "10.77.0.2/24")] {
            namespace.set_up("eth0").unwrap();
            let ip = || Command::new("ip").args(["addr", "add", address, "dev", "eth0"]).status().unwrap();
            assert!(namespace.enter(ip).unwrap().success());
        }
        let listener = ours.enter(|| TcpListener::bind("10.77.0.1:22")).unwrap().unwrap();
        let config = config(dir.path(), &format!("{scheme}:eth0"), 1);
        let daemon = ours.enter(|| Daemon::start(&config)).unwrap().unwrap();
        let to = "10.77.0.1:22".parse().unwrap();
        let operator = other.enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(5))).unwrap();
        operator.unwrap_or_else(|e| panic!("{scheme}: the operator is cut off: {e}"));
        drop((listener, daemon));
    }
}

#[test]
fn packet() {
    torment(PACKET);
}

#[test]
fn packet_without_rings() {
    torment(Kind { name: "packet without rings", options: "?rx=0&tx=0", ..PACKET });
}

#[test]
fn packet_with_datagrams_joined() {
    torment(Kind { name: "gso+packet", scheme: "gso+packet", ..PACKET });
}

#[test]
fn packet_with_engines() {
    torment(Kind { name: "packet with 3 engines", engines: 3, ..PACKET });
}

#[test]
fn packet_in_a_vlan() {
    torment(Kind { name: "packet in a VLAN", vlan: Some(7), ..PACKET });
}

#[test]
fn packet_with_jumbo_frames() {
    torment(Kind { name: "packet, jumbo", mtu: 9000, chunk_len: 16384, ..PACKET });
}

#[test]
fn packet_under_loss() {
    torment(Kind {
        name: "fault+packet",
        scheme: "fault+packet",
        options: "?loss=0.01&reorder=0.01",
        ..PACKET
    });
}

#[test]
fn xdp() {
    torment(Kind { name: "xdp", scheme: "xdp", ..PACKET });
}

#[test]
fn xdp_with_engines() {
    torment(Kind { name: "xdp with 2 engines", scheme: "xdp", engines: 2, queues: 2, ..PACKET });
}

#[test]
fn xdp_native() {
    torment(Kind { name: "xdp, native", scheme: "xdp", options: "?attach=native", ..PACKET });
}

#[test]
fn xdp_with_many_queues() {
    torment(Kind { name: "xdp with 12 queues", scheme: "xdp", queues: 12, ..PACKET });
}

#[test]
fn packet_with_many_queues() {
    torment(Kind { name: "packet with 12 queues", queues: 12, engines: 2, ..PACKET });
}

#[test]
fn xdp_in_a_vlan() {
    torment(Kind { name: "xdp in a VLAN", scheme: "xdp", vlan: Some(7), ..PACKET });
}

#[test]
fn xdp_with_jumbo_frames() {
    torment(Kind { name: "xdp, jumbo", scheme: "xdp", mtu: 3400, chunk_len: 4096, ..PACKET });
}

#[test]
fn rdma_over_packet() {
    torment(Kind { name: "RDMA over packet", rdma: true, ..PACKET });
}

#[test]
fn rdma_over_xdp() {
    torment(Kind { name: "RDMA over xdp", scheme: "xdp", rdma: true, ..PACKET });
}

/// Packets of 4096 bytes, the largest path MTU that there is.
#[test]
fn rdma_with_jumbo_frames() {
    torment(Kind { name: "RDMA, jumbo", mtu: 9000, chunk_len: 16384, rdma: true, ..PACKET });
}

#[test]
fn rdma_in_a_vlan_under_loss() {
    torment(Kind {
        name: "RDMA over fault+packet in a VLAN",
        scheme: "fault+packet",
        options: "?loss=0.005&reorder=0.01",
        vlan: Some(7),
        rdma: true,
        ..PACKET
    });
}

/// Segments that were cut for more travel in pieces, and new flows are cut for the smaller MTU.
#[test]
fn a_smaller_mtu_is_followed_by_flows_and_daemon() {
    for kind in [PACKET, Kind { scheme: "xdp", ..PACKET }, Kind { engines: 2, ..PACKET }] {
        if !is_able() {
            return;
        }
        let rig = Rig::new(kind);
        rig.flows("at first");
        // A change that is taken back is none.
        rig.ip(0, &["link", "set", "eth0", "mtu", "1400"]);
        rig.ip(0, &["link", "set", "eth0", "mtu", "1500"]);
        rig.flows("after a change that was taken back");
        for mtu in ["1400", "1300"] {
            let changes = rig.sum(0, "port.mtu_changes");
            let ended = rig.sum(0, "transport.flows_closed");
            rig.ip(0, &["link", "set", "eth0", "mtu", mtu]);
            eventually("the change is noticed", || rig.sum(0, "port.mtu_changes") > changes);
            eventually("new flows are cut for it", || rig.welcomed_mtu(0) == mtu.parse::<u32>().unwrap());
            rig.flows(&format!("with an MTU of {mtu}"));
            assert_eq!(rig.sum(0, "transport.flows_closed"), ended, "a flow ended");
        }
        rig.ip(0, &["link", "set", "eth0", "mtu", "1500"]);
        rig.flows("with the first one again");
        rig.finish();
    }
}

/// RDMA connections keep the MAC address and the MTU that they were made with: a daemon whose interface gets others would be reached by
/// nobody, so it says why and ends. More room is no matter.
#[test]
fn with_rdma_another_mac_or_a_smaller_mtu_ends_the_daemon_in_words() {
    let faults = [
        (["address", "02:00:01:00:00:09"], "MAC address is 02:00:01:00:00:09"),
        (["mtu", "1400"], "MTU was lowered to 1400"),
    ];
    for (fault, word) in faults {
        if !is_able() {
            return;
        }
        let dir = Folder::new("daemon");
        let [ours, other] = [Namespace::anonymous().unwrap(), Namespace::anonymous().unwrap()];
        VethPair::create(&ours, "eth0", &other, "eth0", &LinkConfig::default()).unwrap();
        ours.set_up("eth0").unwrap();
        other.set_up("eth0").unwrap();
        let set = |what: [&str; 2]| {
            let ip = || Command::new("ip").args(["link", "set", "eth0"]).args(what).status().unwrap();
            assert!(ours.enter(ip).unwrap().success());
        };
        let mut settings = config(dir.path(), "packet:eth0", 1);
        settings.rdma.enabled = true;
        let daemon = ours.enter(|| Daemon::start(&settings)).unwrap().unwrap();
        let changes = || counter(&daemon, "port.mtu_changes");
        set(["mtu", "1600"]);
        eventually("more room is noticed", || changes() > 0);
        assert!(!daemon.stop_flag().is_stopped());
        set(fault);
        eventually("it ends", || daemon.stop_flag().is_stopped());
        let error = daemon.wait().expect_err("it did not say why").to_string();
        assert!(error.contains("eth0") && error.contains(word) && error.contains("hint"), "{error}");
    }
}
