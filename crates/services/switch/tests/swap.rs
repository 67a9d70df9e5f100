//! Programs are swapped while packets flow: what a port took comes out or is counted, packets sent after a swap has
//! returned meet the new program, and a program that is refused changes nothing.

mod common;

use barewire_switch::control::{ErrorKind, SwitchConfig};
use barewire_switch::prepared::EngineKind;
use barewire_switch::server::{Server, ServerConfig};
use common::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

/// Packets under way.
const WINDOW: u64 = 256;

/// The program that runs after so many swaps.
fn version(swaps: u64) -> u64 {
    1 + swaps % 2
}

#[test]
fn no_packet_is_lost_and_none_meets_the_old_program_afterwards() {
    let name = "swap-traffic";
    let server = Server::start(config(name, &[1, 2], 512), Some(ready(STAMP_1, EngineKind::Native)))
        .expect("a switch");
    let switch = server.switch();
    let programs = [ready(STAMP_1, EngineKind::Native), ready(STAMP_2, EngineKind::Interpreter)];
    let (mut input, mut output) = (Wire::open(&uri(name, 1, 512)), Wire::open(&uri(name, 2, 512)));
    let (begun, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let end = until(Duration::from_secs(soak_seconds(2)));
    let (mut sent, mut received, mut met) = (0_u64, 0_u64, [0_u64; 3]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _stop = StopAtEnd(&stop);
            while now() < end && !stop.load(Relaxed) {
                let swaps = begun.load(SeqCst) + 1;
                begun.store(swaps, SeqCst);
                // Most are made ready before, which is quick; some are compiled on the way.
                if swaps % 16 == 0 {
                    switch.commit(STAMP_1).expect("a swap");
                } else if swaps % 16 == 1 {
                    switch.commit(STAMP_2).expect("a swap");
                } else {
                    switch.commit_prepared(programs[version(swaps) as usize - 1].clone()).expect("a swap");
                }
                done.store(swaps, SeqCst);
                // Now and then no swap for a while, so that packets certainly meet one program.
                if swaps % 7 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let _stop = StopAtEnd(&stop);
        let mut patience = Patience::new();
        while !stop.load(Relaxed) || received < sent {
            while !stop.load(Relaxed) && sent - received < WINDOW {
                let mut packet = ethernet(0x0200_0000_0001, 0, 64);
                packet[32..40].copy_from_slice(&(sent + 1).to_be_bytes());
                packet[40..48].copy_from_slice(&done.load(SeqCst).to_be_bytes());
                if !input.send(&packet) {
                    break;
                }
                sent += 1;
            }
            input.flush();
            let count = output.receive(|packet| {
                received += 1;
                let since = number(&packet[40..48]);
                let newest = begun.load(SeqCst);
                let seen = number(&packet[6..12]);
                assert_eq!(number(&packet[32..40]), received, "the next packet");
                assert!(
                    (since..=newest).any(|swaps| version(swaps) == seen),
                    "program {seen} after swap {since} and before {newest}"
                );
                if since == newest {
                    met[seen as usize] += 1;
                }
            });
            if count > 0 {
                patience = Patience::new();
            } else {
                patience.wait(&format!("{} packets are lost, {:?}", sent - received, drops(switch)));
            }
        }
    });
    let swaps = begun.load(SeqCst);
    assert_eq!(drops(switch), []);
    assert!(swaps > 10 && met[1] > 0 && met[2] > 0, "{swaps} swaps, {met:?}");
    println!("{swaps} swaps, {sent} packets, {met:?} of each program for certain");
    server.stop().expect("the engine is well");
}

#[test]
fn a_refused_program_leaves_the_running_one_alone() {
    let name = "swap-refused";
    let control = SwitchConfig { enable_swap: true, ..control() };
    let config = ServerConfig { control, ..config(name, &[1, 2, 3], 64) };
    let server = Server::start(config, Some(ready(STAMP_1, EngineKind::Native))).expect("a switch");
    let switch = server.switch();
    let mut wires: Vec<Wire> = (1..=3).map(|port| Wire::open(&uri(name, port, 64))).collect();
    add(switch, "others", vec![exact(0x0200_0000_0005)], 0, "other", &[3]);
    let mut check = |why: &str| {
        wires[0].send_now(&ethernet(0x0200_0000_0005, 0, 64));
        assert_eq!(number(&wires[2].next()[6..12]), 7, "the entry is there after {why}");
        wires[0].send_now(&ethernet(0x0200_0000_0006, 0, 64));
        assert_eq!(number(&wires[1].next()[6..12]), 1, "the program runs after {why}");
        assert_eq!(switch.num_entries(switch.table("others").expect("a table")), Ok(1), "after {why}");
    };
    check("the start");
    let no_parser = STAMP_2.replacen("\"parsers\"", "\"purses\"", 1);
    let half = &STAMP_2[..STAMP_2.len() / 2];
    let unknown = STAMP_2.replacen("\"assign\"", "\"assing\"", 1);
    let wrong_table = STAMP_2.replacen("\"match_type\" : \"exact\"", "\"match_type\" : \"exactly\"", 1);
    for (why, json) in [
        ("nothing", ""),
        ("no JSON", "a program"),
        ("half a program", half),
        ("another document", "{\"a\": [1, 2, 3]}"),
        ("no parsers", &no_parser),
        ("an unknown primitive", &unknown),
        ("an unknown match kind", &wrong_table),
    ] {
        let error = switch.commit(json).expect_err(why);
        assert_eq!(error.kind, ErrorKind::BadProgram, "{why}: {error}");
        check(why);
        let error = switch.load(json).expect_err(why);
        assert_eq!(error.kind, ErrorKind::BadProgram, "{why}: {error}");
        assert_eq!(switch.swap().expect_err("nothing is staged").kind, ErrorKind::NoOngoingSwap);
        check(why);
    }
    // One that is loaded waits, and is not run before it is swapped in.
    switch.load(STAMP_2).expect("a good program");
    assert_eq!(switch.load(STAMP_2).expect_err("one waits").kind, ErrorKind::OngoingSwap);
    wires[0].send_now(&ethernet(0x0200_0000_0006, 0, 64));
    assert_eq!(number(&wires[1].next()[6..12]), 1);
    switch.swap().expect("a swap");
    wires[0].send_now(&ethernet(0x0200_0000_0005, 0, 64));
    assert_eq!(number(&wires[1].next()[6..12]), 2);
    // A program of the old one's names is none of this one's.
    assert_eq!(switch.table("others").expect_err("the old table").kind, ErrorKind::InvalidTableName);
    assert_eq!(drops(switch), []);
    server.stop().expect("the engine is well");
}

/// Packets that wait for a queue's rate are of the old program: a swap drops them, and counts them.
#[test]
fn packets_in_queues_are_counted_when_a_swap_drops_them() {
    let name = "swap-queues";
    let server =
        Server::start(config(name, &[1, 2], 64), Some(ready(STAMP_1, EngineKind::Native))).expect("a switch");
    let switch = server.switch();
    let (mut input, mut output) = (Wire::open(&uri(name, 1, 64)), Wire::open(&uri(name, 2, 64)));
    // One packet a second.
    switch.set_queue_rate(Some(2), None, 1).expect("a rate");
    for seq in 0..20 {
        input.send_now(&ethernet(0x0200_0000_0001, seq, 64));
    }
    assert_eq!(number(&output.next()[6..12]), 1, "the first need not wait");
    let patience = Patience::new();
    while switch.ports()[0].rx.packets < 20 {
        patience.wait("the packets are taken");
    }
    let before = output.receive(|_| {}) as u64;
    switch.commit(STAMP_2).expect("a swap");
    let waiting = dropped(switch, "queue_full");
    let after = output.receive(|_| {}) as u64;
    assert_eq!(1 + before + waiting + after, 20, "in is out and dropped");
    assert!(waiting > 0, "none waited");
    // The rate is still set, and the new program is under it.
    input.send_now(&ethernet(0x0200_0000_0001, 0, 64));
    assert_eq!(number(&output.next()[6..12]), 2);
    server.stop().expect("the engine is well");
}

/// A switch without a program drops and counts, until it gets one.
#[test]
fn a_switch_waits_for_its_first_program() {
    let name = "swap-first";
    let server = Server::start(config(name, &[1, 2], 64), None).expect("a switch");
    let switch = server.switch();
    let (mut input, mut output) = (Wire::open(&uri(name, 1, 64)), Wire::open(&uri(name, 2, 64)));
    for _ in 0..5 {
        input.send_now(&ethernet(0x0200_0000_0001, 0, 64));
    }
    let patience = Patience::new();
    while dropped(switch, "no_program") < 5 {
        patience.wait("the packets are dropped");
    }
    assert!(switch.program().is_none());
    assert_eq!(switch.table("stamps").expect_err("no program").kind, ErrorKind::BadProgram);
    switch.commit(STAMP_2).expect("a program");
    input.send_now(&ethernet(0x0200_0000_0001, 0, 64));
    assert_eq!(number(&output.next()[6..12]), 2);
    assert_eq!(drops(switch), [("no_program".to_owned(), 5)]);
    server.stop().expect("the engine is well");
}
