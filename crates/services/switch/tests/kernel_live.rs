//! The switch with its program in the kernel, between interfaces: packets that never leave it, packets that do, writes, program
//! changes, interfaces that come and go.

mod common;

use barewire_lab::{LinkConfig, Namespace, VethPair, is_root_capable};
use barewire_switch::control::{Switch, SwitchConfig};
use barewire_switch::prepared::EngineKind;
use barewire_switch::server::{Server, ServerConfig, StartError};
use barewire_testing::{Needs, have};
use common::*;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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
    let ports = vec![(1, "s1".to_owned()), (2, "s2".to_owned())];
    let control = SwitchConfig { engine: EngineKind::Kernel, enable_swap: true, ..control() };
    let config = ServerConfig { ports, control, ..ServerConfig::default() };
    Server::start(config, Some(ready(json, EngineKind::Kernel))).expect("a switch")
}

fn in_a_namespace(test: impl FnOnce(&Namespace) + Send) {
    let Some(()) = have(Needs::Root, is_root_capable()) else { return };
    let space = Namespace::anonymous().expect("a namespace");
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

/// A digest is for user space: so is the whole packet that causes one, and it leaves as the program says.
#[test]
fn what_the_kernel_cannot_do_is_done_in_user_space() {
    in_a_namespace(|_| {
        let server = start(L2_LEARNING);
        let switch = server.switch();
        add(switch, "destinations", vec![exact(0x0200_0000_0001)], 0, "forward", &[2]);
        let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
        for source in 0..20 {
            let packet = ethernet(0x0200_0000_0001, 0x0200_0000_1000 + source, 80);
            input.send_now(&packet);
            assert_eq!(next_of(&mut output, |got| got[6..12] == packet[6..12]), packet);
        }
        assert!(came_up(switch, 1) >= 20, "each is one to learn: {:?}", switch.ports());
        server.stop().expect("the engine is well");
    });
}

#[test]
fn a_program_changes_between_two_packets() {
    in_a_namespace(|_| {
        let server = start(STAMP_1);
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
            patience.wait("the old program goes on");
        }
        server.stop().expect("the engine is well");
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
    if std::env::var_os(VICTIM).is_none() {
        return;
    }
    let server = start(ROUTER);
    routes(server.switch());
    println!("{VICTIM}");
    loop {
        std::thread::park();
    }
}

const VICTIM: &str = "BAREWIRE_TEST_VICTIM";

#[test]
fn a_killed_switch_leaves_nothing() {
    in_a_namespace(|_| {
        let mut victim = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "a_switch_in_a_process_of_its_own", "--ignored", "--nocapture"])
            .env(VICTIM, "1")
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(victim.stdout.take().expect("a pipe")).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.contains(VICTIM));
        let stood = programs();
        // Also when the assertions below fail, nothing may be left.
        victim.kill().expect("SIGKILL");
        victim.wait().expect("it is gone");
        assert!(ready && stood, "the switch forwards in the kernel");
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
