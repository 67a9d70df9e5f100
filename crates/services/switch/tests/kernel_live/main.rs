//! The switch with its program in the kernel, between interfaces: packets that never leave it, packets that do, writes, program
//! changes, interfaces that come and go.

#[path = "../common/mod.rs"]
mod common;
mod lost_interfaces;
mod rounds;
mod under_load;

use barewire_netns::{LinkConfig, Namespace, VethPair, is_root_capable};
use barewire_switch::control::{
    CarriedCounters, MeterRate, Notification, Range, Switch, SwitchConfig, Takeover,
};
use barewire_switch::datapath::TargetConfig;
use barewire_switch::kernel::HookChoice;
use barewire_switch::prepared::EngineKind;
use barewire_switch::server::{Server, ServerConfig, StartError};
use barewire_testing::{Needs, have};
use common::*;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Two wires: what is sent into `h1` comes to the switch's `s1`, port 1; the same with 2.
fn wires(space: &Namespace) {
    for (switch, host) in [("s1", "h1"), ("s2", "h2")] {
        wire(space, switch, host);
    }
}

fn wire(space: &Namespace, switch: &str, host: &str) {
    let link = LinkConfig { offloads: false, ..LinkConfig::default() };
    VethPair::create(space, switch, space, host, &link).expect("a wire");
    for name in [switch, host] {
        space.set_up(name).expect("up");
    }
    for name in [switch, host] {
        space.wait_running(name).expect("it runs");
    }
}

fn start(json: &str) -> Server {
    start_at(json, HookChoice::Auto).expect("a switch")
}

fn start_at(json: &str, hook: HookChoice) -> Result<Server, StartError> {
    start_with(json, 2, TargetConfig { hook, ..TargetConfig::default() }, None)
}

/// A switch with ports 1, 2, … at `s1`, `s2`, ….
fn start_with(
    program: &str,
    ports: u32,
    target: TargetConfig,
    capture: Option<PathBuf>,
) -> Result<Server, StartError> {
    let ports = (1..=ports).map(|port| (port, format!("s{port}"))).collect();
    let control = SwitchConfig { engine: EngineKind::Kernel, enable_swap: true, ..control() };
    let config = ServerConfig { ports, control, target, capture, ..ServerConfig::default() };
    Server::start(config, Some(ready(program, EngineKind::Kernel)))
}

const HOOKS: [HookChoice; 3] = [HookChoice::Auto, HookChoice::Tc, HookChoice::Clsact];

fn in_a_namespace(test: impl FnOnce(&Namespace) + Send) {
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    let space = Namespace::anonymous().expect("a namespace");
    // Hosts are silent: their IPv6 would speak to the sockets before the programs stand at the interfaces.
    let silence = || std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
    let _ = space.enter(silence).expect("the namespace");
    wires(&space);
    space.enter(|| test(&space)).expect("the namespace");
}

/// Packets that came to the switch's socket at a port, so were not forwarded by the kernel.
fn came_up(switch: &Switch, port: u32) -> u64 {
    switch.ports().iter().find(|info| info.port == port).expect("it is there").rx.packets
}

fn routes(switch: &Switch) -> u64 {
    add(switch, "forward", vec![exact(0xc0a8_0001)], 0, "set_dst_addr", &[0x0200_0000_0005]);
    add(switch, "send_frame", vec![exact(2)], 0, "set_src_addr", &[0x0200_0000_0006]);
    add(switch, "ipv4_lpm", vec![lpm(0x0a00_0000, 8)], 0, "set_next_hop", &[0xc0a8_0001, 2])
}

/// The next packet that is ours: interfaces have news of their own (IPv6).
fn next_of(wire: &mut Wire, ours: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let patience = Patience::new();
    let mut found = None;
    while found.is_none() {
        wire.receive(|packet| {
            if found.is_none() && ours(packet) {
                found = Some(packet.to_vec());
            }
        });
        patience.wait("no packet came");
    }
    found.expect("it was found")
}

fn is_udp(packet: &[u8]) -> bool {
    packet.len() >= 42 && packet[12..14] == [8, 0] && packet[23] == 17
}

#[test]
fn packets_stay_in_the_kernel_and_writes_are_seen_at_once() {
    in_a_namespace(|_| {
        let server = start(ROUTER);
        let switch = server.switch();
        let route = routes(switch);
        let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
        let packet = udp(0x0b00_0001, 0x0a01_0203, (7, 9), 100);
        for _ in 0..20 {
            input.send_now(&packet);
            let got = next_of(&mut output, is_udp);
            assert_eq!(got[0..12], [2, 0, 0, 0, 0, 5, 2, 0, 0, 0, 0, 6]);
            assert_eq!((got.len(), got[22]), (100, 63), "one hop less");
            assert_eq!(barewire_wire::checksum::checksum(&got[14..34]), 0, "the header's sum is right");
        }
        assert!(came_up(switch, 1) < 20, "the kernel forwards: {:?}", switch.ports());
        // A write that has returned is seen by every packet sent afterwards.
        let table = switch.table("ipv4_lpm").expect("a table");
        for round in 0..50_u64 {
            let (mac, hop) = (0x0200_0000_1000 + round, 0xc0a8_0100 + round);
            add(switch, "forward", vec![exact(hop)], 0, "set_dst_addr", &[mac]);
            switch
                .modify_entry(table, route, call(switch, "ipv4_lpm", "set_next_hop", &[hop, 2]))
                .expect("it is there");
            input.send_now(&packet);
            let got = next_of(&mut output, is_udp);
            assert_eq!(number(&got[0..6]), mac, "round {round}");
        }
        // Dropped there, and told here.
        let before = dropped(switch, "program_drop");
        switch.delete_entry(table, route).expect("it is there");
        input.send_now(&packet);
        let patience = Patience::new();
        while dropped(switch, "program_drop") == before {
            patience.wait("the drop is not counted");
        }
        server.stop().expect("the engine is well");
    });
}

#[test]
fn counters_are_one() {
    in_a_namespace(|_| {
        let server = start(ACL);
        let switch = server.switch();
        add(switch, "pair", vec![exact(1)], 0, "forward", &[2]);
        let any = || ternary(0, 0);
        let key = vec![any(), any(), ternary(17, 0xff), any(), ternary(9, 0xffff)];
        let permit = add(switch, "rules", key, 10, "permit", &[]);
        let deny = add(switch, "rules", vec![any(), any(), any(), any(), any()], 20, "deny", &[]);
        let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
        for _ in 0..7 {
            input.send_now(&udp(1, 2, (7, 9), 90));
            next_of(&mut output, is_udp);
        }
        for _ in 0..5 {
            input.send_now(&udp(1, 2, (7, 10), 80));
        }
        let table = switch.table("rules").expect("a table");
        let patience = Patience::new();
        loop {
            let denied = switch.read_direct_counter(table, deny).expect("a counter");
            if denied.packets >= 5 {
                break;
            }
            patience.wait("the kernel counts nothing");
        }
        let permitted = switch.read_direct_counter(table, permit).expect("a counter");
        assert_eq!((permitted.packets, permitted.bytes), (7, 630));
        let again = switch.read_direct_counter(table, permit).expect("a counter");
        assert_eq!(permitted, again, "read once, counted once");
        server.stop().expect("the engine is well");
    });
}

/// What nobody has asked for yet goes on counting when a program changes, and is gone when counters are reset.
#[test]
fn counters_that_nobody_has_read_are_carried_and_reset() {
    in_a_namespace(|_| {
        let server = start(ACL);
        let switch = server.switch();
        let fill = |switch: &Switch| {
            add(switch, "pair", vec![exact(1)], 0, "forward", &[2]);
            let key =
                vec![ternary(0, 0), ternary(0, 0), ternary(17, 0xff), ternary(0, 0), ternary(9, 0xffff)];
            add(switch, "rules", key, 10, "permit", &[])
        };
        let (permit, table) = (fill(switch), switch.table("rules").expect("a table"));
        let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
        let mut pass = |packets: usize| {
            for _ in 0..packets {
                input.send_now(&udp(1, 2, (7, 9), 90));
                next_of(&mut output, is_udp);
            }
        };
        let read = |entry| switch.read_direct_counter(table, entry).expect("a counter").packets;
        pass(3);
        switch.reset_direct_counters(table).expect("reset");
        assert_eq!(read(permit), 0, "they do not come back");
        pass(2);
        assert_eq!(read(permit), 2);
        pass(4);
        let shadow = switch.shadow(ready(ACL, EngineKind::Kernel)).expect("a shadow");
        let moved = fill(&shadow);
        let entries = vec![((table, permit), (table, moved))];
        let carried = CarriedCounters { entries, ..CarriedCounters::default() };
        let takeover = Takeover::Keep { carried, version: switch.version() };
        switch.commit_shadow(&shadow, takeover).expect("it takes its place");
        assert_eq!(read(moved), 6, "to the last packet");
        pass(1);
        assert_eq!(read(moved), 7);
        server.stop().expect("the engine is well");
    });
}

/// A clone is for user space: so is the whole packet that causes one, and it leaves as the program says.
#[test]
fn what_the_kernel_cannot_do_is_done_in_user_space() {
    in_a_namespace(|_| {
        let server = start_at(CLONED, HookChoice::Generic).expect("a switch");
        let switch = server.switch();
        add(switch, "hosts", vec![exact(0x0200_0000_0001)], 0, "cloned", &[2]);
        let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
        for source in 0..20 {
            let packet = ethernet(0x0200_0000_0001, 0x0200_0000_1000 + source, 80);
            input.send_now(&packet);
            assert_eq!(next_of(&mut output, |got| got[6..12] == packet[6..12]), packet);
        }
        assert!(came_up(switch, 1) >= 20, "each is one to clone: {:?}", switch.ports());
        server.stop().expect("the engine is well");
    });
}

/// A rate that was set is that of the next packet; tokens that packets of two wires want at the same time are spent once.
#[test]
fn meters_are_set_and_spent_once() {
    const TOKENS: u32 = 50;
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        for hook in HOOKS {
            let program = include_str!("../../../../../tests/programs/paced.p4");
            let target = TargetConfig { hook, ..TargetConfig::default() };
            let server = start_with(program, 3, target, None).expect("a switch");
            let switch = server.switch();
            let entry = add(switch, "hosts", vec![exact(7)], 0, "metered", &[]);
            let (hosts, wires) =
                (switch.table("hosts").expect("a table"), switch.meter("wires").expect("a meter"));
            let never = |burst| [MeterRate { units_per_us: 0.0, burst }; 2];
            let [mut h1, mut h2] = ["h1", "h2"].map(|name| Wire::open(&format!("packet:{name}")));
            let ours = |got: &[u8]| got[..6] == [0, 0, 0, 0, 0, 7];
            for round in 0..20 {
                let (host, wire) = (round % 2 * 2, round / 2 % 2 * 2);
                switch.set_direct_meter(hosts, entry, &never(if host == 0 { 1 } else { 0 })).expect("rates");
                let rates = if wire == 0 { &[][..] } else { &never(79) };
                switch.set_meter(wires, Range::One(1), rates).expect("rates");
                h1.send_now(&ethernet(7, 0, 80));
                let colours = next_of(&mut h2, ours)[10..12].to_vec();
                assert_eq!(colours, [wire as u8, host as u8], "{hook:?}, round {round}");
            }
            switch.set_direct_meter(hosts, entry, &never(TOKENS)).expect("rates");
            let mut green = 0;
            std::thread::scope(|scope| {
                let senders = ["h1", "h3"].map(|name| {
                    scope.spawn(move || {
                        let send = || {
                            let mut wire = Wire::open(&format!("packet:{name}"));
                            for _ in 0..TOKENS {
                                wire.send_now(&ethernet(7, 0, 80));
                            }
                        };
                        space.enter(send).expect("the namespace");
                    })
                });
                let (patience, mut came) = (Patience::new(), 0);
                while came < 2 * TOKENS {
                    h2.receive(|packet| {
                        if ours(packet) {
                            came += 1;
                            green += u32::from(packet[11] == 0);
                        }
                    });
                    patience.wait("packets are lost");
                }
                for sender in senders {
                    sender.join().expect("it is well");
                }
            });
            assert_eq!(green, TOKENS, "{hook:?}");
            assert_eq!(came_up(switch, 1) + came_up(switch, 3), 0, "{hook:?}");
            server.stop().expect("the engine is well");
        }
    });
}

/// A switch that learns floods from the kernel what it does not know yet, but not back where it came from, and tells of whom it saw.
#[test]
fn a_learning_switch_floods_from_the_kernel() {
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        for hook in HOOKS {
            let target = TargetConfig { hook, ..TargetConfig::default() };
            let server = start_with(L2_LEARNING, 3, target, None).expect("a switch");
            let switch = server.switch();
            let told = switch.subscribe(256);
            switch.mc_set_group(1, &[(1, 0), (2, 0), (3, 0)]).expect("a group");
            let [mut h1, mut h2, mut h3] =
                ["h1", "h2", "h3"].map(|name| Wire::open(&format!("packet:{name}")));
            for round in 0..5 {
                let packet = ethernet(0x0200_0000_0077, 0x0200_0000_1000 + round, 80);
                h1.send_now(&packet);
                for wire in [&mut h2, &mut h3] {
                    assert_eq!(next_of(wire, |got| got[6..12] == packet[6..12]), packet, "{hook:?}");
                }
            }
            assert_eq!(came_up(switch, 1), 0, "{hook:?}: {:?}", switch.ports());
            let mut learned = Vec::new();
            while !(0..5).all(|round| learned.contains(&(0x0200_0000_1000 + round, 1))) {
                if let Notification::Digest(list) = told.recv_timeout(PATIENCE).expect("it is told") {
                    learned
                        .extend(list.samples.iter().map(|sample| (number(&sample[0]), number(&sample[1]))));
                }
            }
            let mut back = 0;
            h1.receive(|packet| back += usize::from(packet[6..10] == [2, 0, 0, 0] && packet[10] == 0x10));
            assert_eq!(back, 0, "{hook:?}: none came back");
            server.stop().expect("the engine is well");
        }
    });
}

#[test]
fn a_program_changes_between_two_packets() {
    in_a_namespace(|_| {
        for hook in HOOKS {
            let server = start_at(STAMP_1, hook).expect("a switch");
            let switch = server.switch();
            let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
            let ours = |packet: &[u8]| packet.len() == 60 && packet[12..14] == [0x88, 0xb5];
            let mut stamp = |packet: &[u8]| {
                input.send_now(packet);
                number(&next_of(&mut output, ours)[6..12])
            };
            let packet = ethernet(0x0200_0000_0001, 0x77, 60);
            assert_eq!(stamp(&packet), 1);
            switch.load(STAMP_2).expect("a program");
            switch.swap().expect("another program");
            let patience = Patience::new();
            while stamp(&packet) != 2 {
                patience.wait("the old program keeps running");
            }
            server.stop().expect("the engine is well");
        }
    });
}

/// Without a program in the kernel user space has all packets, whatever hook the last one stood at; the next one stands there again.
#[test]
fn user_space_takes_over_from_the_kernel_and_gives_back() {
    in_a_namespace(|_| {
        for hook in HOOKS {
            let server = start_at(STAMP_1, hook).expect("a switch");
            let switch = server.switch();
            let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
            let packet = ethernet(0x0200_0000_0001, 0x77, 60);
            let mut waits_for = |stamp: u64| {
                input.send_now(&packet);
                next_of(&mut output, |got| got.len() == 60 && number(&got[6..12]) == stamp);
            };
            waits_for(1);
            let note = switch.ports()[0].note.clone();
            switch.commit_prepared(ready(STAMP_2, EngineKind::Native)).expect("a program");
            // A write is seen when it was done; the program is there then.
            assert_eq!(switch.ports()[0].note, "", "{hook:?}");
            waits_for(2);
            let seen = came_up(switch, 1);
            assert!(seen > 0, "{hook:?}");
            switch.commit_prepared(ready(STAMP_1, EngineKind::Kernel)).expect("a program");
            assert_eq!(switch.ports()[0].note, note, "{hook:?}");
            waits_for(1);
            server.stop().expect("the engine is well");
        }
    });
}

/// The controller hears of digests that the kernel made, gets packets for its port as they would leave, and sends some; a packet for a
/// multicast group leaves by all its ports. None of it leaves the kernel but what is for the controller.
#[test]
fn the_controller_is_told_by_the_kernel() {
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        for hook in HOOKS {
            let target = TargetConfig { cpu_port: Some(CPU), hook, ..TargetConfig::default() };
            let server = start_with(TOLD, 3, target, None).expect("a switch");
            let switch = server.switch();
            let told = switch.subscribe(256);
            for (host, action, arg) in [(1, "forward", 2), (2, "flood", 7), (4, "forward", u64::from(CPU))] {
                add(switch, "hosts", vec![exact(host)], 0, action, &[arg]);
            }
            switch.mc_set_group(7, &[(2, 0), (3, 0)]).expect("a group");
            let [mut h1, mut h2, mut h3] =
                ["h1", "h2", "h3"].map(|name| Wire::open(&format!("packet:{name}")));
            let from = |source: u64| move |packet: &[u8]| number(&packet[6..12]) == source;
            let packet = |to, source| ethernet(to, source, 80);
            h1.send_now(&packet(1, 0xa1));
            assert_eq!(next_of(&mut h2, from(0xa1)), packet(1, 0xa1), "{hook:?}");
            h1.send_now(&packet(2, 0xa2));
            let mut copy = packet(2, 0xa2);
            copy[13] = 0xb6;
            assert_eq!(next_of(&mut h2, from(0xa2)), copy, "{hook:?}");
            assert_eq!(next_of(&mut h3, from(0xa2)), copy, "{hook:?}");
            // Groups change.
            switch.mc_set_group(7, &[(3, 0)]).expect("a group");
            h1.send_now(&packet(2, 0xa3));
            assert_eq!(next_of(&mut h3, from(0xa3))[..12], packet(2, 0xa3)[..12], "{hook:?}");
            assert_eq!(came_up(switch, 1), 0, "{hook:?}");
            h1.send_now(&packet(4, 0xa4));
            let (mut learned, mut in_came) = (Vec::new(), Vec::new());
            while in_came.is_empty() || !(0xa1..=0xa4).all(|source| learned.contains(&source)) {
                match told.recv_timeout(PATIENCE).expect("the controller is told") {
                    Notification::Digest(list) => {
                        learned.extend(list.samples.iter().map(|sample| number(&sample[0])));
                        assert!(list.samples.iter().all(|sample| number(&sample[1]) <= 3));
                    }
                    Notification::PacketIn { bytes } => in_came.push(bytes),
                    _ => {}
                }
            }
            assert_eq!(in_came, [packet(4, 0xa4)], "{hook:?}");
            assert_eq!(came_up(switch, 1), 1, "{hook:?}");
            // Out of a port, and through the pipeline.
            switch.packet_out(Some(3), packet(9, 0xb1)).expect("it is sent");
            assert_eq!(next_of(&mut h3, from(0xb1)), packet(9, 0xb1), "{hook:?}");
            switch.packet_out(None, packet(1, 0xb2)).expect("it is sent");
            assert_eq!(next_of(&mut h2, from(0xb2)), packet(1, 0xb2), "{hook:?}");
            server.stop().expect("the engine is well");
        }
    });
}

const CPU: u32 = 64;
const TOLD: &str = include_str!("../../../../../tests/programs/told.p4");

/// A switch of that program with three ports and a controller; what is for host 4 is for the controller.
fn start_told(hook: HookChoice) -> Server {
    start_told_with(hook, None)
}

fn start_told_with(hook: HookChoice, capture: Option<PathBuf>) -> Server {
    let target = TargetConfig { cpu_port: Some(CPU), hook, ..TargetConfig::default() };
    let server = start_with(TOLD, 3, target, capture).expect("a switch");
    hosts_of_told(server.switch());
    server
}

fn hosts_of_told(switch: &Switch) {
    for (host, action, arg) in [(2, "flood", 7), (4, "forward", u64::from(CPU))] {
        add(switch, "hosts", vec![exact(host)], 0, action, &[arg]);
    }
}

/// What the kernel puts before a packet for the controller makes it longer than an interface's frames.
#[test]
fn packets_of_any_length_reach_the_controller() {
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        for hook in HOOKS {
            let server = start_told(hook);
            let told = server.switch().subscribe(256);
            let mut h1 = Wire::open("packet:h1");
            let next = || loop {
                if let Notification::PacketIn { bytes } = told.recv_timeout(PATIENCE).expect("a packet") {
                    break bytes;
                }
            };
            for len in [60, 1482, 1483, 1514, 1518] {
                let mut packet = ethernet(4, 0xa4, len);
                if len > 1514 {
                    packet[12..14].copy_from_slice(&[0x81, 0]);
                }
                h1.send_now(&packet);
                assert!(next() == packet, "{hook:?}, {len} bytes");
            }
            server.stop().expect("the engine is well");
        }
    });
}

/// By what packets for the controller are known nobody learns from a capture.
#[test]
fn captures_show_what_the_controller_gets() {
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        let folder = std::env::temp_dir().join(format!("barewire-kernel-live-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let server = start_told_with(HookChoice::Auto, Some(folder.clone()));
        let told = server.switch().subscribe(256);
        let packet = ethernet(4, 0xa4, 80);
        Wire::open("packet:h1").send_now(&packet);
        while !matches!(told.recv_timeout(PATIENCE).expect("a packet"), Notification::PacketIn { .. }) {}
        server.stop().expect("the engine is well");
        let files = std::fs::read_dir(&folder).expect("it is there").map(|file| file.expect("a file").path());
        let bytes: Vec<u8> = files.flat_map(|file| std::fs::read(file).expect("it is there")).collect();
        std::fs::remove_dir_all(&folder).expect("it is ours");
        assert!(bytes.windows(80).any(|window| window == packet), "the packet is there");
        let tag = [&[0; 12][..], &[0x88, 0xb5, 0, 0]].concat();
        assert!(!bytes.windows(16).any(|window| window == tag), "and nothing before it");
    });
}

/// Copies are made by the new program as by the old one, from its first packet on.
#[test]
fn no_copy_is_lost_when_programs_change() {
    const PACKETS: u64 = 4000;
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        let program = json(TOLD);
        for hook in HOOKS {
            let server = start_told(hook);
            let switch = server.switch();
            switch.mc_set_group(7, &[(2, 0), (3, 0)]).expect("a group");
            let [mut h2, mut h3] = ["h2", "h3"].map(|name| Wire::open(&format!("packet:{name}")));
            let done = std::sync::atomic::AtomicBool::new(false);
            let swaps = std::sync::atomic::AtomicU64::new(0);
            std::thread::scope(|scope| {
                let _stop = StopAtEnd(&done);
                let changing = scope.spawn(|| {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        switch.load(&program).expect("a program");
                        hosts_of_told(switch);
                        switch.swap().expect("another program");
                        swaps.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                });
                let mut h1 = Wire::open("packet:h1");
                let (mut came, mut at) = ([0_u64; 2], 0);
                let patience = Patience::new();
                // On a machine that compiles slowly it is more packets.
                while at < PACKETS || swaps.load(std::sync::atomic::Ordering::Relaxed) < 2 {
                    h1.send_now(&ethernet(2, 0xb000 + at, 80));
                    at += 1;
                    // A few under way at most: no queue is full.
                    while came.iter().any(|came| came + 16 < at) {
                        for (wire, came) in [&mut h2, &mut h3].into_iter().zip(&mut came) {
                            wire.receive(|got| {
                                *came += u64::from((0xb000..0xb000 + at).contains(&number(&got[6..12])))
                            });
                        }
                        patience.wait("copies are lost");
                    }
                }
                done.store(true, std::sync::atomic::Ordering::Relaxed);
                changing.join().expect("it is well");
            });
            server.stop().expect("the engine is well");
        }
    });
}

/// What is at `s1`'s traffic-control hook without tcx.
fn filters() -> String {
    let show = |what: &[&str]| {
        let out = Command::new("tc").args(what).output().expect("iproute2");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    show(&["filter", "show", "dev", "s1", "ingress"]) + &show(&["qdisc", "show", "dev", "s1"])
}

/// Without tcx a killed process leaves its filter; the next switch takes it away and says so, and leaves nothing itself.
#[test]
fn a_filter_that_was_left_is_taken_away() {
    in_a_namespace(|_| {
        assert!(!filters().contains("clsact"), "{}", filters());
        let mut victim = victim("clsact");
        let stood = filters();
        // A second one is refused while that lives.
        let second = start_at(ROUTER, HookChoice::Clsact);
        victim.kill().expect("SIGKILL");
        victim.wait().expect("it is gone");
        let Err(StartError::Control(why)) = second else { panic!("a second switch at one interface") };
        assert!(
            why.to_string().contains("another switch, or another port of this one, already uses `s1`: "),
            "{why}"
        );
        assert!(stood.contains("barewire_p4") && stood.contains("clsact"), "{stood}");
        assert!(filters().contains("barewire_p4"), "it stays");
        let server = start_at(ROUTER, HookChoice::Clsact).expect("a switch");
        let switch = server.switch();
        routes(switch);
        let note = &switch.ports()[0].note;
        assert!(note.contains("clsact") && note.contains("a killed process had left"), "{note}");
        let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
        input.send_now(&udp(0x0b00_0001, 0x0a01_0203, (7, 9), 100));
        next_of(&mut output, is_udp);
        assert_eq!(came_up(switch, 1), 0, "the kernel forwards");
        server.stop().expect("the engine is well");
        assert!(!filters().contains("barewire_p4") && !filters().contains("clsact"), "{}", filters());
    });
}

/// The same where the next switch stands at another hook: packets would meet the old program, too.
#[test]
fn a_filter_that_was_left_is_taken_away_at_every_hook() {
    in_a_namespace(|_| {
        // Without tcx the next switch at tc has a filter itself.
        let tcx = has_tcx().then_some((HookChoice::Tc, "tcx"));
        for (hook, name) in [(HookChoice::Auto, "XDP"), (HookChoice::Generic, "XDP")].into_iter().chain(tcx) {
            let mut victim = victim("clsact");
            victim.kill().expect("SIGKILL");
            victim.wait().expect("it is gone");
            assert!(filters().contains("barewire_p4"), "it stays");
            let server = start_at(ROUTER, hook).expect("a switch");
            assert!(
                !filters().contains("barewire_p4") && !filters().contains("clsact"),
                "{hook:?}: {}",
                filters()
            );
            let note = &server.switch().ports()[0].note;
            assert!(note.contains(name) && note.contains("a killed process had left"), "{note}");
            server.stop().expect("the engine is well");
        }
    });
}

/// A filter in the place of ours keeps a switch away, which then takes nothing with it.
#[test]
fn a_filter_of_somebody_else_stays() {
    in_a_namespace(|_| {
        for line in [
            "qdisc add dev s1 clsact",
            "filter add dev s1 ingress protocol all prio 45056 handle 1 bpf bytecode 1,6_0_0_0,",
        ] {
            let words = line.split(' ').map(|word| word.replace('_', " "));
            assert!(Command::new("tc").args(words).status().expect("iproute2").success(), "{line}");
        }
        let before = filters();
        assert!(before.contains("pref 45056"), "{before}");
        let Err(StartError::Control(why)) = start_at(ROUTER, HookChoice::Clsact) else {
            panic!("one place, two filters")
        };
        assert!(why.to_string().contains("another filter has replaced the switch's"), "{why}");
        assert_eq!(filters(), before);
    });
}

/// A queueing discipline that was there stays.
#[test]
fn what_others_made_stays() {
    in_a_namespace(|_| {
        let made =
            Command::new("tc").args(["qdisc", "add", "dev", "s1", "clsact"]).status().expect("iproute2");
        assert!(made.success());
        let before = filters();
        let server = start_at(ROUTER, HookChoice::Clsact).expect("a switch");
        assert!(filters().contains("barewire_p4"));
        server.stop().expect("the engine is well");
        assert_eq!(filters(), before);
    });
}

/// Whether a program is at `s1`.
fn programs() -> bool {
    let out = Command::new("ip").args(["-d", "link", "show", "dev", "s1"]).output().expect("iproute2");
    String::from_utf8_lossy(&out.stdout).contains("xdp")
}

/// The process that [`a_killed_switch_leaves_nothing`] kills; by itself it does nothing.
#[test]
#[ignore = "the child of a_killed_switch_leaves_nothing"]
fn a_switch_in_a_process_of_its_own() {
    let Ok(hook) = std::env::var(VICTIM) else { return };
    let hook = if hook == "clsact" { HookChoice::Clsact } else { HookChoice::Auto };
    let server = start_at(ROUTER, hook).expect("a switch");
    routes(server.switch());
    println!("{VICTIM}");
    loop {
        std::thread::park();
    }
}

const VICTIM: &str = "BAREWIRE_TEST_VICTIM";

/// That process, when its switch runs at a hook.
fn victim(hook: &str) -> Child {
    let mut victim = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "a_switch_in_a_process_of_its_own", "--ignored", "--nocapture"])
        .env(VICTIM, hook)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
    if !lines.map_while(Result::ok).any(|line| line.contains(VICTIM)) {
        let _ = victim.kill();
        let _ = victim.wait();
        panic!("the switch does not start");
    }
    victim
}

#[test]
fn a_killed_switch_leaves_nothing() {
    in_a_namespace(|_| {
        let mut victim = victim("auto");
        let stood = programs();
        // Also when the assertions below fail, nothing may be left.
        victim.kill().expect("SIGKILL");
        victim.wait().expect("it is gone");
        assert!(stood, "the switch forwards in the kernel");
        let patience = Patience::new();
        while programs() {
            patience.wait("the program stays after its process");
        }
        // Its place is free.
        let server = start(ROUTER);
        assert!(programs());
        server.stop().expect("the engine is well");
    });
}

#[test]
fn interfaces_are_as_they_were() {
    in_a_namespace(|space| {
        assert!(!programs());
        let server = start(ROUTER);
        routes(server.switch());
        assert!(programs());
        // A second one is refused, and the first goes on.
        let ports = vec![(1, "s1".to_owned())];
        let control = SwitchConfig { engine: EngineKind::Kernel, ..control() };
        let config = ServerConfig { ports, control, ..ServerConfig::default() };
        let second = Server::start(config, Some(ready(ROUTER, EngineKind::Kernel)));
        let Err(StartError::Control(why)) = second else { panic!("a second program at one interface") };
        let (why, pid) = (why.to_string(), format!("(pid {})", std::process::id()));
        assert!(why.contains("another XDP program is attached to `s1`: `barewire_p4`, program "), "{why}");
        assert!(why.contains(&pid), "{why}");
        let through = || {
            let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
            input.send_now(&udp(0x0b00_0001, 0x0a01_0203, (7, 9), 100));
            next_of(&mut output, is_udp);
        };
        through();
        // An interface that is made anew under its name gets the program again.
        space.delete_link("s1").expect("it is there");
        wire(space, "s1", "h1");
        let patience = Patience::new();
        while !programs() {
            patience.wait("the new interface has no program");
        }
        through();
        server.stop().expect("the engine is well");
        let patience = Patience::new();
        while programs() {
            patience.wait("the program stays");
        }
    });
}
