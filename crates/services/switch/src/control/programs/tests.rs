use super::super::switch::tests::*;
use super::*;
use crate::control::{MeterRate, MirrorSession, NewEntry, Range, SwitchConfig, TableAction, TableWrite};
use crate::pre::PreLimits;
use crate::prepared::EngineKind;
use crate::store::testing::*;
use barewire_base::Prng;
use barewire_p4::hash::Parameters;
use barewire_p4::ir::{CalculationId, CounterId, MeterId, RegisterId, ValueSetId};
use std::sync::atomic::Ordering::Relaxed;

/// What [`Switch::load`] does with a program that was imported.
fn stage(s: &Switch, prepared: Arc<Prepared>) {
    let staged = Staged::new(Master::new(prepared).expect("its entries are good"));
    s.lock().staged = Some(staged);
}

/// The program of the tests with another name for a table.
fn renamed() -> Arc<Prepared> {
    let mut program = (*program()).clone();
    program.tables[EXACT.at()].name = "ingress.renamed".into();
    Arc::new(
        Prepared::new(Arc::new(program), EngineKind::Interpreter).expect("the interpreter takes anything"),
    )
}

#[test]
fn programs_are_swapped_only_with_leave_and_in_order() {
    let s = switch();
    assert_eq!(kind(s.load("{}")), ErrorKind::SwapDisabled);
    assert_eq!(kind(s.swap()), ErrorKind::SwapDisabled);
    assert_eq!(kind(s.commit("{")), ErrorKind::BadProgram);
    let (s, _) = switch_with(|config| config.enable_swap = true);
    assert_eq!(kind(s.swap()), ErrorKind::NoOngoingSwap);
    assert_eq!(kind(s.load("nonsense")), ErrorKind::BadProgram);
    assert!(s.info().enable_swap && s.info().engine == "interpreter");

    s.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    s.set_default(EXACT, forward(8)).unwrap();
    s.mc_create(5).unwrap();
    s.set_mirror(9, MirrorSession { egress_port: Some(2), ..MirrorSession::default() }).unwrap();
    s.set_digest_max_samples(7, 2).unwrap();
    let engine = Engine::spawn(&s, |_| {});
    let notes = s.subscribe(4);
    let old = s.program().unwrap();

    stage(&s, prepared());
    assert_eq!(kind(s.load("{}")), ErrorKind::OngoingSwap);
    s.swap().unwrap();
    assert_eq!(notes.try_recv(), Ok(Notification::ProgramSwapped));
    assert!(!Arc::ptr_eq(&s.program().unwrap(), &old));
    assert_eq!((s.num_entries(EXACT), s.default_entry(EXACT)), (Ok(0), Ok(Some(nop()))));
    assert_eq!(s.num_entries(CONST), Ok(2), "the new program's own");
    assert_eq!((s.mc_dump().groups.len(), s.mirrors().len()), (1, 1), "these stay");
    assert_eq!(kind(s.swap()), ErrorKind::NoOngoingSwap);
    s.add_entry(EXACT, key(2, 2), 0, forward(4)).unwrap();
    s.commit_prepared(prepared()).unwrap();
    assert_eq!((s.mc_dump().groups.len(), s.mirrors().len(), s.num_entries(EXACT)), (0, 0, Ok(0)));
    s.add_entry(EXACT, key(3, 3), 0, forward(5)).unwrap();
    let (mut fake, _) = engine.stop();
    assert_eq!([fake.look_up(1, 1, 0), fake.look_up(2, 2, 0), fake.look_up(3, 3, 0)], [None, None, Some(5)]);
    assert!(fake.mirrors.is_empty() && fake.pre.dump().groups.is_empty());
    assert!(Arc::ptr_eq(&fake.prepared.unwrap().program, &s.program().unwrap()));
}

#[test]
fn a_staged_program_takes_all_writes_and_comes_in_full() {
    let (s, clock_us) = switch_with(|config| config.enable_swap = true);
    let running = s.of_running();
    let engines = [Engine::spawn(&s, |_| {}), Engine::spawn(&s, |_| {})];
    let notes = s.subscribe(10);
    let old = s.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    s.write_registers(RegisterId(0), Range::One(5), &n(7)).unwrap();
    s.write_counter(CounterId(0), 1, value(1, 2)).unwrap();
    s.set_digest_timeout(7, 40).unwrap();

    stage(&s, renamed());
    assert_eq!((s.table("renamed"), running.table("exact")), (Ok(EXACT), Ok(EXACT)));
    assert_eq!(kind(s.table("exact")), ErrorKind::InvalidTableName);
    assert_eq!((s.num_entries(EXACT), running.num_entries(EXACT)), (Ok(0), Ok(1)));
    assert!(!Arc::ptr_eq(&s.program().unwrap(), &running.program().unwrap()));
    let read = |s: &Switch| {
        let counter = s.read_counters(CounterId(0), Range::One(1)).unwrap()[0].1;
        (counter, s.read_registers(RegisterId(0), Range::One(5)).unwrap()[0].1.clone())
    };
    assert_eq!((read(&s), read(&running)), ((value(0, 0), n(0)), (value(1, 2), n(7))));

    let new = NewEntry { key: key(2, 2), priority: 0, action: forward(4), ttl_ms: 1000, cookie: vec![] };
    let a = s.add_entry_with(EXACT, new).unwrap();
    let b = s.add_entry(EXACT, key(3, 3), 0, forward(9)).unwrap();
    s.modify_entry(EXACT, b, forward(5)).unwrap();
    let c = s.add_entry(EXACT, key(4, 4), 0, forward(6)).unwrap();
    s.delete_entry(EXACT, c).unwrap();
    let batch =
        |handle| TableWrite::Modify { table: EXACT, handle, action: forward(8), ttl_ms: None, cookie: None };
    assert!(s.write_batch(vec![batch(b)])[0].is_ok());
    assert_eq!(
        s.write_all(vec![batch(a), batch(7)]).map_err(|(at, e)| (at, e.kind)),
        Err((1, ErrorKind::InvalidHandle))
    );
    s.set_default(EXACT, forward(11)).unwrap();
    s.write_counter(CounterId(0), 1, value(11, 22)).unwrap();
    s.write_direct_counter(EXACT, a, value(3, 4)).unwrap();
    s.write_registers(RegisterId(0), Range::All, &n(0x77)).unwrap();
    let rates = [(0.001, 5), (0.002, 9)].map(|(units_per_us, burst)| MeterRate { units_per_us, burst });
    s.set_meter(MeterId(0), Range::All, &rates).unwrap();
    s.set_direct_meter(EXACT, a, &rates).unwrap();
    s.vs_add(ValueSetId(0), vec![n(1), n(2)]).unwrap();
    s.set_hash_parameters(CalculationId(1), Parameters::Toeplitz(vec![1; 8])).unwrap();
    s.add_member_as(SELECTED, 70, forward_call(6)).unwrap();
    s.create_group_as(SELECTED, 4_000, vec![(70, 3)], 10).unwrap();
    s.add_entry(GROUPS, vec![exact(9)], 0, TableAction::Group(4_000)).unwrap();
    assert_eq!(read(&s), (value(11, 22), n(0x77)), "what was written is read");
    assert_eq!(s.read_direct_counters(EXACT), Ok(vec![(a, value(3, 4)), (b, value(0, 0))]));
    assert_eq!(s.meter_rates(MeterId(0), 2).as_deref(), Ok(&rates[..]));
    clock_us.store(900_000, Relaxed);
    assert_eq!(s.ages(EXACT), Ok(vec![(a, 900), (b, 900)]));

    // What is of the switch is of the switch; digests come from the running program.
    s.mc_create(5).unwrap();
    s.set_digest_max_samples(7, 2).unwrap();
    s.ack_digest(7, 1, None).unwrap();
    assert_eq!(read(&running), (value(1, 2), n(7)), "the running program is as it was");
    assert_eq!(running.entries(EXACT).unwrap()[0].action, forward(3));
    running.add_entry(EXACT, key(5, 5), 0, forward(2)).unwrap();
    running.modify_entry(EXACT, old, forward(30)).unwrap();
    assert_eq!((running.num_entries(EXACT), s.num_entries(EXACT)), (Ok(2), Ok(2)));

    // Saved, reset and restored is the staged one.
    let saved = s.serialize_state().unwrap();
    s.reset_state().unwrap();
    assert_eq!((s.num_entries(EXACT), running.num_entries(EXACT)), (Ok(0), Ok(2)));
    assert_eq!((read(&s), read(&running)), ((value(0, 0), n(0)), (value(1, 2), n(7))));
    s.restore_state(&saved).unwrap();
    assert_eq!(s.entry(EXACT, a).unwrap().action, forward(4));
    assert_eq!(s.serialize_state().unwrap(), saved);
    s.write_counter(CounterId(0), 1, value(11, 22)).unwrap();
    s.write_direct_counter(EXACT, a, value(3, 4)).unwrap();
    s.write_registers(RegisterId(0), Range::One(5), &n(0x77)).unwrap();

    clock_us.store(5_000_000, Relaxed);
    s.swap().unwrap();
    assert_eq!(notes.try_iter().collect::<Vec<_>>(), [Notification::ProgramSwapped]);
    assert!(Arc::ptr_eq(&s.program().unwrap(), &running.program().unwrap()));
    assert_eq!(
        (read(&s), read(&running)),
        ((value(11, 22), n(0x77)), (value(11, 22), n(0x77))),
        "once, not twice"
    );
    assert_eq!(s.read_direct_counter(EXACT, a), Ok(value(3, 4)));
    clock_us.store(5_900_000, Relaxed);
    s.sweep().unwrap();
    assert_eq!(notes.try_iter().count(), 0, "time-outs begin with the swap");
    clock_us.store(6_100_000, Relaxed);
    s.sweep().unwrap();
    assert_eq!(notes.try_iter().collect::<Vec<_>>(), [Notification::Idle(EXACT, vec![a])]);
    let d = s.add_entry(EXACT, key(6, 6), 0, forward(60)).unwrap();
    assert_eq!(d, 2, "the lowest free");
    assert!(s.drops().iter().all(|(reason, _)| reason == "no_port"), "{:?}", s.drops());
    for engine in engines {
        let (mut fake, _) = engine.stop();
        let found = [1, 2, 3, 4, 5, 6].map(|at| fake.look_up(at, at, 0));
        assert_eq!(found, [None, Some(4), Some(8), None, None, Some(60)]);
        assert_eq!(fake.pre.dump().groups.len(), 1);
        let state = fake.state.as_mut().unwrap();
        assert_eq!(state.read_register(RegisterId(0), 5), Ok(n(0x77)), "each engine has the registers");
        assert!(state.meters[0].rates(7).unwrap().is_some());
        assert!(state.value_sets[0].contains(&[n(1), n(2)], None));
    }
}

#[test]
fn a_staged_program_needs_no_engine_and_gives_way_to_a_commit() {
    let (s, _) = switch_with(|config| config.enable_swap = true);
    let mut stalled = s.attach(Box::new(|| {}));
    stage(&s, renamed());
    let most = crate::control::link::MAX_PENDING as u64;
    for at in 0..most + 10 {
        s.add_entry(EXACT, key(at, 0), 0, forward(1)).unwrap();
    }
    s.write_counter(CounterId(0), 4, value(1, 2)).unwrap();
    assert_eq!(s.read_counters(CounterId(0), Range::One(4)), Ok(vec![(4, value(1, 2))]));
    assert_eq!(kind(s.load("{}")), ErrorKind::OngoingSwap);
    s.commit_prepared(prepared()).unwrap();
    assert_eq!((s.num_entries(EXACT), s.table("exact")), (Ok(0), Ok(EXACT)));
    assert_eq!(kind(s.swap()), ErrorKind::NoOngoingSwap);
    stalled.drain(&mut Fake::new(&stalled));

    // The first program of a switch may be staged too.
    let config =
        SwitchConfig { enable_swap: true, replication: PreLimits::default(), ..SwitchConfig::default() };
    let s = Switch::new(config, None).unwrap();
    let engine = Engine::spawn(&s, |_| {});
    stage(&s, prepared());
    s.add_entry(EXACT, key(1, 1), 0, forward(1)).unwrap();
    assert!(s.of_running().program().is_none());
    assert_eq!(kind(s.of_running().num_entries(EXACT)), ErrorKind::BadProgram);
    assert_eq!(kind(s.set_digest_timeout(7, 5)), ErrorKind::BadProgram);
    s.swap().unwrap();
    assert_eq!(engine.stop().0.look_up(1, 1, 0), Some(1));
}

/// A random write to a table of few keys, so that many are refused.
fn random_write(prng: &mut Prng, handles: &[u64]) -> TableWrite {
    let mut below = |most: u64| prng.next_u64() % most;
    let a = below(12);
    let handle = handles.get(below(handles.len() as u64 + 1) as usize).copied().unwrap_or(below(3) << 32 | a);
    if below(3) == 0 {
        let action = match below(3) {
            0 => TableAction::Member(below(3) as u32),
            1 => TableAction::Group(below(2) as u32),
            _ => TableAction::Member(0),
        };
        let entry = NewEntry { key: vec![exact(a)], priority: 0, action, ttl_ms: 0, cookie: vec![] };
        return match below(3) {
            0 => TableWrite::Add { table: GROUPS, entry },
            1 => TableWrite::ModifyByKey { table: GROUPS, entry },
            _ => TableWrite::DeleteByKey { table: GROUPS, key: vec![exact(a)], priority: 0 },
        };
    }
    let entry = NewEntry {
        key: key(a, 0),
        priority: 0,
        action: forward(below(500)),
        ttl_ms: (below(2) * 1000) as u32,
        cookie: vec![below(256) as u8],
    };
    match below(6) {
        0 | 1 => TableWrite::Add { table: EXACT, entry },
        2 => TableWrite::Modify {
            table: EXACT,
            handle,
            action: entry.action,
            ttl_ms: (below(2) == 0).then_some(entry.ttl_ms),
            cookie: (below(2) == 0).then_some(entry.cookie),
        },
        3 => TableWrite::Delete { table: EXACT, handle },
        4 => TableWrite::ModifyByKey { table: EXACT, entry },
        _ => TableWrite::DeleteByKey { table: EXACT, key: entry.key, priority: 0 },
    }
}

#[test]
fn all_or_none_leaves_no_trace_of_what_is_refused() {
    let seed = 0x5eed_0a11;
    println!("seed {seed:#x}");
    let mut prng = Prng::new(seed);
    let (s, twin) = (switch(), switch());
    for s in [&s, &twin] {
        (0..3).for_each(|at| s.add_member_as(SELECTED, at, forward_call(at.into())).unwrap());
        s.create_group_as(SELECTED, 0, vec![(1, 1)], 0).unwrap();
        s.create_group_as(SELECTED, 1, vec![(2, 1)], 0).unwrap();
    }
    let engine = Engine::spawn(&s, |_| {});
    let rates = [(0.001, 5), (0.002, 9)].map(|(units_per_us, burst)| MeterRate { units_per_us, burst });
    let (mut done, mut refused) = (0, 0);
    for _ in 0..3000 {
        let handles: Vec<u64> = s.entries(EXACT).unwrap().iter().map(|entry| entry.handle).collect();
        if let Some(handle) = handles.first() {
            s.set_direct_meter(EXACT, *handle, &rates).unwrap();
            twin.set_direct_meter(EXACT, *handle, &rates).unwrap();
        }
        let count = 1 + prng.next_u64() % 5;
        let batch: Vec<TableWrite> = (0..count).map(|_| random_write(&mut prng, &handles)).collect();
        match s.write_all(batch.clone()) {
            Ok(handles) => {
                let single: Result<Vec<u64>> = twin.write_batch(batch).into_iter().collect();
                assert_eq!(single, Ok(handles));
                done += 1;
            }
            Err((at, error)) => {
                // The same write is refused where the batch is done one by one, on a third switch with the same state.
                let third = switch();
                third.restore_state(&twin.serialize_state().unwrap()).unwrap();
                let single = third.write_batch(batch).into_iter().position(|result| result.is_err());
                assert_eq!(single, Some(at), "{error}");
                refused += 1;
            }
        }
        assert_eq!(s.serialize_state(), twin.serialize_state());
    }
    assert!(done > 300 && refused > 300, "{done} done, {refused} refused");
    let table = s.entries(GROUPS).unwrap();
    for member in 0..3 {
        let used = table.iter().any(|entry| entry.action == TableAction::Member(member)) || member > 0;
        assert_eq!(s.delete_member(SELECTED, member).is_err(), used, "member {member}");
    }
    for group in 0..2 {
        let used = table.iter().any(|entry| entry.action == TableAction::Group(group));
        assert_eq!(s.delete_group(SELECTED, group).is_err(), used, "group {group}");
    }
    let entries = s.entries(EXACT).unwrap();
    assert!(s.drops().iter().all(|(reason, _)| reason == "no_port"), "{:?}", s.drops());
    let (mut fake, _) = engine.stop();
    for a in 0..12 {
        let expected = entries.iter().find(|entry| entry.key == key(a, 0)).map(|entry| &entry.action);
        assert_eq!(fake.look_up(a, 0, 0).map(forward).as_ref(), expected);
    }
    let many = vec![TableWrite::Delete { table: EXACT, handle: 0 }; crate::control::link::MAX_ATOMIC + 1];
    assert_eq!(s.write_all(many).unwrap_err().1.kind, ErrorKind::Other);
}

#[test]
fn large_tables_are_read_in_pieces() {
    let s = switch();
    for at in 0..10_000 {
        s.add_entry(EXACT, key(at, 1), 0, forward(at % 500)).unwrap();
    }
    for handle in (0..10_000).filter(|at| at % 3 == 0 || (4096..8192).contains(at)) {
        s.delete_entry(EXACT, handle).unwrap();
    }
    let entries = s.entries(EXACT).unwrap();
    let expected: Vec<u64> = (0..10_000).filter(|at| at % 3 != 0 && !(4096..8192).contains(at)).collect();
    assert_eq!(entries.iter().map(|entry| entry.handle).collect::<Vec<_>>(), expected);
    assert!(entries.iter().all(|entry| Ok(entry.clone()) == s.entry(EXACT, entry.handle)));
    assert_eq!(s.num_entries(EXACT), Ok(expected.len()));
    assert_eq!(s.entries(KEYLESS), Ok(vec![]));
}

/// Who has to know of which program something is told is told that too.
#[test]
fn notifications_are_dated_by_the_program_that_they_are_of() {
    let s = switch();
    let mut inbox = s.attach(Box::new(|| {}));
    let mut fake = Fake::new(&inbox);
    let dated = s.subscribe_dated(10);
    let (_, first) = s.running().unwrap();
    inbox.drain(&mut fake);
    let port = || Notification::Port { port: 1, up: true };
    inbox.notify(port());
    s.commit_prepared(prepared()).unwrap();
    // The engine has not heard of it: what it tells is of the old program.
    inbox.notify(port());
    inbox.drain(&mut fake);
    inbox.notify(port());
    let (_, second) = s.running().unwrap();
    assert!(second > first && second <= s.epoch());
    let swapped = (second, Notification::ProgramSwapped);
    let told: Vec<(u64, Notification)> = dated.try_iter().collect();
    assert_eq!(told, [(first, port()), swapped, (first, port()), (second, port())]);
    let late = s.attach(Box::new(|| {}));
    let mut late = (Fake::new(&late), late);
    late.1.drain(&mut late.0);
    late.1.notify(port());
    assert_eq!(dated.try_recv().unwrap().0, second, "an engine that comes later");
}

/// A handle of one program means no other, whose tables have other numbers.
#[test]
fn a_handle_of_a_program_refuses_what_is_meant_for_it_once_another_runs() {
    let s = switch();
    let engine = Engine::spawn(&s, |_| {});
    let (program, _) = s.running().unwrap();
    let only = s.of_program(program);
    let entry = only.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    only.write_direct_counter(EXACT, entry, CounterValue { packets: 1, bytes: 2 }).unwrap();
    // Another state of the same program is no other program.
    s.reset_state().unwrap();
    assert_eq!(only.num_entries(EXACT), Ok(0));
    let entry = only.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    s.commit_prepared(prepared()).unwrap();
    let there = s.add_entry(EXACT, key(1, 1), 0, forward(4)).unwrap();
    assert_eq!(there, entry, "the numbers are good there, too");
    let overtaken = ErrorKind::Overtaken;
    let add = |a| TableWrite::Add {
        table: EXACT,
        entry: NewEntry { key: key(a, 0), priority: 0, action: nop(), ttl_ms: 0, cookie: Vec::new() },
    };
    assert_eq!(kind(only.add_entry(EXACT, key(2, 2), 0, forward(3))), overtaken);
    assert_eq!(kind(only.delete_entry(EXACT, entry)), overtaken);
    assert_eq!(kind(only.write_batch(vec![add(1), add(2)]).remove(1)), overtaken);
    assert_eq!(only.write_all(vec![add(3)]).unwrap_err().1.kind, overtaken);
    assert_eq!(kind(only.write_direct_counter(EXACT, entry, CounterValue::default())), overtaken);
    assert_eq!(kind(only.reset_direct_counters(EXACT)), overtaken);
    assert_eq!(kind(only.write_registers(RegisterId(0), Range::One(0), &n(1))), overtaken);
    assert_eq!(kind(only.set_digest_timeout(7, 1)), overtaken);
    assert_eq!(kind(only.ack_digest(7, 1, None)), overtaken);
    assert_eq!(kind(only.entries(EXACT)), overtaken);
    assert_eq!(kind(only.read_direct_counter(EXACT, entry)), overtaken);
    assert_eq!(kind(only.read_registers(RegisterId(0), Range::One(0))), overtaken);
    assert_eq!(s.num_entries(EXACT), Ok(1));
    // What is the switch's is no program's.
    only.mc_create(5).unwrap();
    assert_eq!(only.mc_dump().groups.len(), 1);
    engine.stop();
}
