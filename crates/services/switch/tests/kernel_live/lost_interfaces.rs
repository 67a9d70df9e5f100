//! Interfaces that are away while things change, and whose they are.

use super::*;
use barewire_switch::control::MirrorSession;
use num_bigint::BigUint;
use std::sync::atomic::{AtomicBool, Ordering};

fn from(source: u64) -> impl Fn(&[u8]) -> bool {
    move |packet| number(&packet[6..12]) == source
}

/// While an interface is away groups and programs change: the others go on in the kernel, and it is there again when it is back.
#[test]
fn what_changes_while_an_interface_is_away_is_there_when_it_is_back() {
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        let program = json(TOLD);
        for hook in HOOKS {
            let server = start_told(hook);
            let switch = server.switch();
            switch.mc_set_group(7, &[(2, 0), (3, 0)]).expect("a group");
            let [mut h1, mut h2] = ["h1", "h2"].map(|name| Wire::open(&format!("packet:{name}")));
            let mut reaches = |source: u64, wires: &mut [&mut Wire]| {
                h1.send_now(&ethernet(2, source, 80));
                for wire in wires {
                    next_of(wire, from(source));
                }
            };
            reaches(0xa1, &mut [&mut h2]);
            space.delete_link("s3").expect("it is there");
            // Another group with it, the group itself anew, and another program.
            switch.mc_set_group(8, &[(3, 0), (2, 0)]).expect("a group");
            switch.mc_set_group(7, &[(3, 0), (2, 0)]).expect("a group");
            reaches(0xa2, &mut [&mut h2]);
            switch.load(&program).expect("a program");
            hosts_of_told(switch);
            switch.swap().expect("another program");
            reaches(0xa3, &mut [&mut h2]);
            assert_eq!(came_up(switch, 1), 0, "{hook:?}: {:?}", switch.ports());
            wire(space, "s3", "h3");
            let mut h3 = Wire::open("packet:h3");
            let patience = Patience::new();
            let mut source = 0xb000;
            loop {
                source += 1;
                reaches(source, &mut [&mut h2]);
                let mut came = false;
                h3.receive(|packet| came |= number(&packet[6..12]) >= 0xb000);
                if came {
                    break;
                }
                patience.wait("the interface is back, and no copy comes");
            }
            // And from there.
            let other = ethernet(2, 0xc1, 80);
            h3.send_now(&other);
            next_of(&mut h2, from(0xc1));
            assert_eq!(came_up(switch, 1), 0, "{hook:?}: {:?}", switch.ports());
            server.stop().expect("the engine is well");
        }
    });
}

/// An interface that was in another namespace comes back with its name and its number, and with nothing of ours.
#[test]
fn an_interface_that_was_elsewhere_gets_the_program_again() {
    in_a_namespace(|_| {
        for hook in HOOKS {
            let server = start_at(ROUTER, hook).expect("a switch");
            let switch = server.switch();
            routes(switch);
            let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
            let packet = udp(0x0b00_0001, 0x0a01_0203, (7, 9), 100);
            input.send_now(&packet);
            next_of(&mut output, is_udp);
            let mut there = Sleeper::start(&["unshare", "-n", "sleep", "60"]);
            let mut here = Sleeper::start(&["sleep", "60"]);
            // Until it is in a namespace of its own.
            let patience = Patience::new();
            while std::fs::read_link(there.namespace()).ok() == std::fs::read_link(here.namespace()).ok() {
                patience.wait("no other namespace");
            }
            let run = |words: &[&str]| {
                assert!(
                    Command::new(words[0]).args(&words[1..]).status().expect("iproute2").success(),
                    "{words:?}"
                );
            };
            let (there_pid, here_pid) = (there.0.id().to_string(), here.0.id().to_string());
            run(&["ip", "link", "set", "s2", "netns", &there_pid]);
            input.send_now(&packet);
            run(&["nsenter", "-t", &there_pid, "-n", "ip", "link", "set", "s2", "netns", &here_pid]);
            run(&["ip", "link", "set", "s2", "up"]);
            there.stop();
            here.stop();
            let patience = Patience::new();
            loop {
                input.send_now(&packet);
                let mut came = false;
                output.receive(|packet| came |= is_udp(packet));
                if came {
                    break;
                }
                patience.wait("the interface is back, and no packet leaves by it");
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            server.stop().expect("the engine is well");
        }
    });
}

/// A process in whose namespace an interface can be put.
struct Sleeper(Child);

impl Sleeper {
    fn start(words: &[&str]) -> Sleeper {
        Sleeper(Command::new(words[0]).args(&words[1..]).spawn().expect("it starts"))
    }

    fn namespace(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    fn stop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An interface is one switch's, at whatever hooks they stand, and one port's.
#[test]
fn an_interface_is_one_switchs() {
    in_a_namespace(|_| {
        for first in HOOKS {
            let server = start_at(ROUTER, first).expect("a switch");
            for second in HOOKS {
                let Err(StartError::Control(why)) = start_at(ROUTER, second) else {
                    panic!("a second switch at one interface: {first:?}, {second:?}")
                };
                let (why, pid) = (why.to_string(), format!("(pid {})", std::process::id()));
                assert!(why.contains("`s1`") && why.contains(&pid), "{first:?}, {second:?}: {why}");
            }
            let switch = server.switch();
            let why = switch.add_port(9, "s1").expect_err("it is port 1 already").to_string();
            assert!(why.contains("another port of this one") || why.contains("another XDP program"), "{why}");
            routes(switch);
            let (mut input, mut output) = (Wire::open("packet:h1"), Wire::open("packet:h2"));
            input.send_now(&udp(0x0b00_0001, 0x0a01_0203, (7, 9), 100));
            next_of(&mut output, is_udp);
            assert_eq!(came_up(switch, 1), 0, "{first:?}");
            server.stop().expect("the engine is well");
        }
    });
}

/// A port that is in a group before and after gets each packet once while the group changes.
#[test]
fn a_port_that_stays_in_a_group_gets_each_copy_once() {
    const PACKETS: u64 = 3000;
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        wire(space, "s4", "h4");
        for hook in HOOKS {
            let target = TargetConfig { hook, ..TargetConfig::default() };
            let server = start_with(TOLD, 4, target, None).expect("a switch");
            let switch = server.switch();
            add(switch, "hosts", vec![exact(2)], 0, "flood", &[7]);
            switch.mc_set_group(7, &[(2, 0), (3, 0)]).expect("a group");
            let mut h3 = Wire::open("packet:h3");
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let _stop = StopAtEnd(&done);
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        for ports in
                            [&[(3, 0), (4, 0)][..], &[(3, 0)], &[(4, 0), (3, 0), (2, 0)], &[(2, 0), (3, 0)]]
                        {
                            switch.mc_set_group(7, ports).expect("a group");
                        }
                    }
                });
                let mut h1 = Wire::open("packet:h1");
                let (mut came, mut twice) = (vec![0_u8; PACKETS as usize], 0);
                let patience = Patience::new();
                let mut next = |h3: &mut Wire| {
                    let mut count = 0;
                    h3.receive(|got| {
                        if let Some(at) = number(&got[6..12]).checked_sub(0xd000).filter(|at| *at < PACKETS) {
                            came[at as usize] += 1;
                            twice += u32::from(came[at as usize] > 1);
                            count += 1;
                        }
                    });
                    (count, twice)
                };
                let mut received = 0;
                for at in 0..PACKETS {
                    h1.send_now(&ethernet(2, 0xd000 + at, 80));
                    while received + 16 < at {
                        let (count, twice) = next(&mut h3);
                        received += count;
                        assert_eq!(twice, 0, "{hook:?}: a packet came twice");
                        patience.wait("copies are lost");
                    }
                }
                while received < PACKETS {
                    let (count, twice) = next(&mut h3);
                    received += count;
                    assert_eq!(twice, 0, "{hook:?}: a packet came twice");
                    patience.wait("copies are lost");
                }
            });
            server.stop().expect("the engine is well");
        }
    });
}

/// XDP has no clones: a program that nobody asked to stay there moves to tc with the first packet that wants one.
#[test]
fn a_program_that_clones_moves_to_tc() {
    const MIRRORED: &str = include_str!("../../../../../tests/programs/mirrored.p4");
    in_a_namespace(|space| {
        wire(space, "s3", "h3");
        let target = TargetConfig::default();
        let server = start_with(MIRRORED, 3, target, None).expect("a switch");
        let switch = server.switch();
        add(switch, "hosts", vec![exact(1)], 0, "forward", &[2]);
        add(switch, "hosts", vec![exact(2)], 0, "plain", &[2, 5]);
        switch
            .set_mirror(5, MirrorSession { egress_port: Some(3), ..MirrorSession::default() })
            .expect("a session");
        let [mut h1, mut h2, mut h3] = ["h1", "h2", "h3"].map(|name| Wire::open(&format!("packet:{name}")));
        let note = |switch: &Switch| switch.ports()[0].note.clone();
        // The label is in the packet's rest; egress writes into it.
        let of = |at: u64| move |got: &[u8]| got.len() == 90 && got[40..48] == at.to_be_bytes();
        let packet = |to: u64, at: u64| {
            let mut packet = ethernet(to, 9, 90);
            packet[40..48].copy_from_slice(&at.to_be_bytes());
            packet
        };
        for at in 0..10 {
            h1.send_now(&packet(1, at));
            next_of(&mut h2, of(at));
        }
        assert!(note(switch).contains("XDP") && came_up(switch, 1) == 0, "{}", note(switch));
        let patience = Patience::new();
        let mut at = 10;
        while !note(switch).contains("packets to clone came") {
            at += 1;
            h1.send_now(&packet(2, at));
            patience.wait("it stays at XDP");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let before = came_up(switch, 1);
        for at in 10_000..10_050 {
            h1.send_now(&packet(2, at));
            next_of(&mut h2, of(at));
            next_of(&mut h3, of(at));
        }
        assert_eq!(came_up(switch, 1), before, "{:?}", switch.ports());
        server.stop().expect("the engine is well");
    });
}

/// What is written to the registers of a program that waits is there when it runs.
#[test]
fn registers_of_a_program_that_waits_are_there_when_it_runs() {
    in_a_namespace(|_| {
        let server = start(STAMP_1);
        let switch = server.switch();
        switch.load(STAMP_2).expect("a program");
        let name = &program(STAMP_2).registers[0].name;
        let registers = switch.register(name).expect("registers");
        switch.write_registers(registers, Range::One(3), &BigUint::from(41_u8)).expect("a register");
        switch.swap().expect("another program");
        let read = switch.read_registers(registers, Range::One(3)).expect("a register");
        assert_eq!(read, [(3, BigUint::from(41_u8))]);
        server.stop().expect("the engine is well");
    });
}

/// Killed while it forwards: the interfaces are as they were before, and what comes in on one is its host's again.
#[test]
fn a_switch_that_is_killed_under_load_leaves_the_wire_as_it_was() {
    in_a_namespace(|space| {
        let links = || {
            let out =
                Command::new("ip").args(["-d", "link", "show", "dev", "s1"]).output().expect("iproute2");
            (String::from_utf8_lossy(&out.stdout).into_owned(), filters())
        };
        let before = links();
        let packet = udp(0x0b00_0001, 0x0a01_0203, (7, 9), 100);
        // Killed also where an assertion below fails.
        let mut victim = Sleeper(victim("auto"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _stop = StopAtEnd(&done);
            let (done, sent) = (&done, &packet);
            let send = move || {
                let mut input = Wire::open("packet:h1");
                while !done.load(Ordering::Relaxed) {
                    input.send_now(sent);
                }
            };
            scope.spawn(move || space.enter(send).expect("the namespace"));
            let mut output = Wire::open("packet:h2");
            for _ in 0..100 {
                let got = next_of(&mut output, is_udp);
                assert_eq!(got[22], 63, "one hop less");
            }
            victim.stop();
            let patience = Patience::new();
            while links() != before {
                patience.wait("the interface is not as it was");
            }
            // While packets go on coming: they are not changed any more, and none is forwarded.
            let mut own = Wire::open("packet:s1");
            for _ in 0..100 {
                assert!(next_of(&mut own, is_udp) == packet);
            }
            let mut output = Wire::open("packet:h2");
            let mut forwarded = 0;
            for _ in 0..20 {
                std::thread::sleep(std::time::Duration::from_millis(5));
                output.receive(|got| forwarded += usize::from(is_udp(got)));
            }
            assert_eq!(forwarded, 0);
        });
    });
}
