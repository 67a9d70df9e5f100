//! Writes while packets are under way on another CPU.

use super::*;
use barewire_p4::ir::ActionCall;
use barewire_p4::key::MatchParam;
use barewire_p4_state::TableAction;
use barewire_switch::control::link::Replica;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A key of each table of `pairs.p4`; the packet of [`while_packets_run`] has the one of 1.
fn key(table: &str, last: u64) -> Vec<MatchParam> {
    let to = (0x0200_0000_0000 + last).into();
    match table {
        "exacts" => vec![MatchParam::Exact(to)],
        "prefixes" => vec![MatchParam::Lpm { value: to, prefix_len: 48 }],
        _ => vec![MatchParam::Ternary { value: to, mask: ((1_u64 << 48) - 1).into() }],
    }
}

/// For three seconds `write` changes entries again and again, while one packet runs in so many threads. Returns how often it did.
fn while_packets_run(side: &mut Harness, threads: usize, mut write: impl FnMut()) -> u64 {
    let mut packet = vec![0_u8; 60];
    (packet[0], packet[5]) = (2, 1);
    side.apply();
    let runner = side.plane().kernel.as_ref().expect("the kernel has it").runner().expect("its place");
    assert_eq!(side.send(1, &packet).expect("it fits").len(), 1);
    let (done, packets) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    const AT_ONCE: u32 = 20_000;
                    runner.test_run(&packet, AT_ONCE).expect("it runs");
                    packets.fetch_add(AT_ONCE.into(), Ordering::Relaxed);
                }
            });
        }
        let begin = barewire_engine::now().as_nanos();
        while barewire_engine::now().as_nanos() - begin < 3_000_000_000 {
            write();
            side.apply();
        }
        done.store(true, Ordering::Relaxed);
    });
    packets.into_inner()
}

/// However fast entries and defaults change, no packet sees the half of one.
#[test]
fn no_packet_sees_half_an_entry() {
    if !may_load() {
        return;
    }
    let program = from_source(include_str!("../../../../../tests/programs/pairs.p4"));
    for tc in [false, true] {
        let [_, mut side] = both(&program, &at(tc));
        let control = side.switch().clone();
        let pair = |table, value: u64| {
            let action = control.action_of(table, "set").expect("its action");
            TableAction::Call(ActionCall { action, args: vec![value.into(), value.into()] })
        };
        let tables =
            ["exacts", "prefixes", "masks"].map(|name| (name, control.table(name).expect("a table")));
        let defaults = control.table("defaults").expect("a table");
        // The packet finds the second entry of each table; the others come and go, and change.
        let mut entries = Vec::new();
        for (name, table) in tables {
            for last in 0..3 {
                entries.push((
                    table,
                    control.add_entry(table, key(name, last), 0, pair(table, 0)).expect("an entry"),
                ));
            }
        }
        let mut writes = 0_u64;
        let packets = while_packets_run(&mut side, 1, || {
            for (table, entry) in &entries {
                writes += 1;
                control.modify_entry(*table, *entry, pair(*table, writes)).expect("it is there");
            }
            control.set_default(defaults, pair(defaults, writes)).expect("a default");
            for (at, (name, table)) in tables.into_iter().enumerate() {
                let place = 3 * at + (writes as usize / 9) % 3;
                control.delete_entry(table, entries[place].1).expect("it is there");
                let last = place as u64 % 3;
                entries[place].1 =
                    control.add_entry(table, key(name, last), 0, pair(table, writes)).expect("an entry");
            }
        });
        let halves = counted(&mut side);
        println!("{writes} writes, {packets} packets, at tc: {tc}: {halves:?}");
        assert!(halves[7][0] > 10_000 && writes > 1000);
        assert_eq!(halves[..4], [[0, 0]; 4], "packets that saw halves, by table");
        assert_eq!(side.failures, Vec::<String>::new());
        let kernel = side.plane().kernel.as_ref().expect("the kernel has it");
        assert_eq!(kernel.trouble(), None);
    }
}

/// A packet gets its own entry, whatever becomes of others meanwhile: the kernel gives the memory of an entry that went or changed to
/// the next one that is written.
#[test]
fn no_packet_sees_the_entry_of_another() {
    if !may_load() {
        return;
    }
    let program = from_source(include_str!("../../../../../tests/programs/pairs.p4"));
    for tc in [false, true] {
        let [_, mut side] = both(&program, &at(tc));
        let control = side.switch().clone();
        // The packet's own entries have the same number twice; all others, and what a miss does, have not.
        let call = |table, value: u64, own: bool| {
            let action = control.action_of(table, "set").expect("its action");
            let args = vec![value.into(), (value + u64::from(!own)).into()];
            TableAction::Call(ActionCall { action, args })
        };
        let tables =
            ["exacts", "prefixes", "masks"].map(|name| (name, control.table(name).expect("a table")));
        let mut entries = Vec::new();
        for (name, table) in tables {
            control.set_default(table, call(table, 0, false)).expect("a default");
            for last in 0..4 {
                let added = control.add_entry(table, key(name, last), 0, call(table, 1, last == 1));
                entries.push(added.expect("an entry"));
            }
        }
        let mut writes = 0_u64;
        let packets = while_packets_run(&mut side, 3, || {
            for (at, (name, table)) in tables.into_iter().enumerate() {
                for last in 0..4 {
                    let entry = entries[4 * at + last];
                    writes += 1;
                    let new = call(table, writes, last == 1);
                    control.modify_entry(table, entry, new).expect("it is there");
                }
                let last = 2 + writes % 2;
                let place = 4 * at + last as usize;
                control.delete_entry(table, entries[place]).expect("it is there");
                let new = call(table, writes, false);
                entries[place] = control.add_entry(table, key(name, last), 0, new).expect("an entry");
            }
        });
        let others = counted(&mut side);
        println!("{writes} writes, {packets} packets, at tc: {tc}: {others:?}");
        assert!(others[7][0] > 10_000 && writes > 1000);
        assert_eq!(others[..3], [[0, 0]; 3], "packets that saw the entries of others, by table");
        assert_eq!(side.failures, Vec::<String>::new());
    }
}

/// Programs come and go without end: nothing of them is left.
#[test]
fn programs_that_went_leave_nothing() {
    if !may_load() {
        return;
    }
    let open = || std::fs::read_dir("/proc/self/fd").expect("it is there").count();
    let program = from_source(include_str!("../../../../../tests/programs/rounds.p4"));
    let prepared = Arc::new(Prepared::for_kernel(program, 511).expect("it has a form for the kernel"));
    let mut side = Harness::new(Arc::clone(&prepared), at(false)).expect("a switch");
    let mut before = 0;
    for round in 0..40 {
        side.switch().commit_prepared(Arc::clone(&prepared)).expect("a program");
        side.apply();
        if round == 2 {
            before = open();
        }
    }
    // Other tests of this process have some of their own.
    assert!(open() < before + 200, "{before} descriptors, then {}", open());
    assert!(side.plane().state().is_some());
}
