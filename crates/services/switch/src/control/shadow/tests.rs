use super::super::link::ANSWER_TIMEOUT;
use super::super::switch::tests::*;
use super::super::{MirrorSession, NewEntry, Range, TableWrite};
use super::*;
use crate::store::testing::*;
use barewire_p4::ir::{MeterId, RegisterId};
use barewire_p4_state::TableAction;
use std::sync::atomic::Ordering::Relaxed;

fn array(s: &Switch) -> Vec<(u64, CounterValue)> {
    s.read_counters(CounterId(0), Range::All).unwrap()
}

#[test]
fn a_shadow_takes_all_writes_and_is_put_in_place_whole() {
    let (s, clock_us) = switch_with(|_| {});
    let engine = Engine::spawn(&s, |_| {});
    s.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    s.mc_create(5).unwrap();
    s.set_mirror(9, MirrorSession { egress_port: Some(2), ..MirrorSession::default() }).unwrap();
    let shadow = s.shadow(prepared()).unwrap();
    assert_eq!((shadow.num_entries(EXACT), s.num_entries(EXACT)), (Ok(0), Ok(1)));
    let entry = shadow.add_entry(EXACT, key(2, 2), 0, forward(4)).unwrap();
    shadow.set_entry_ttl(EXACT, entry, 1000).unwrap();
    shadow.add_member_as(SELECTED, 70, forward_call(6)).unwrap();
    shadow.create_group_as(SELECTED, 4_000, vec![(70, 3)], 10).unwrap();
    shadow.add_entry(GROUPS, vec![exact(9)], 0, TableAction::Group(4_000)).unwrap();
    shadow.write_registers(RegisterId(0), Range::One(5), &n(7)).unwrap();
    shadow.write_counter(CounterId(0), 1, value(1, 2)).unwrap();
    shadow.write_direct_counter(EXACT, entry, value(3, 4)).unwrap();
    shadow.set_digest_max_samples(7, 2).unwrap();
    shadow.mc_set_group(6, &[(1, 0)]).unwrap();
    let session = MirrorSession { egress_port: Some(3), ..MirrorSession::default() };
    shadow.set_mirror(10, session.clone()).unwrap();
    assert_eq!(array(&shadow)[1], (1, value(1, 2)), "what was written is read");
    assert_eq!(kind(shadow.set_digest_max_samples(99, 2)), ErrorKind::InvalidLearnList);
    assert!(shadow.ports().is_empty());

    let before = s.epoch();
    clock_us.store(5_000_000, Relaxed);
    let epoch = s.commit_shadow(&shadow, Takeover::Fresh).unwrap();
    assert!(epoch > before && s.epoch() == epoch);
    assert_eq!(kind(s.commit_shadow(&shadow, Takeover::Fresh)), ErrorKind::NoOngoingSwap, "it is empty");
    assert_eq!(kind(s.commit_shadow(&s, Takeover::Fresh)), ErrorKind::NoOngoingSwap);
    assert_eq!(s.mirrors(), [(10, session)]);
    assert_eq!(s.mc_dump().groups.len(), 1);
    assert_eq!(array(&s)[1], (1, value(1, 2)));
    assert_eq!(s.read_direct_counter(EXACT, entry), Ok(value(3, 4)));
    assert_eq!(s.read_registers(RegisterId(0), Range::One(5)).unwrap()[0].1, n(7));
    let notes = s.subscribe(4);
    clock_us.store(5_900_000, Relaxed);
    s.sweep().unwrap();
    assert_eq!(notes.try_iter().count(), 0, "time-outs begin with the program");
    assert!(s.drops().iter().all(|(reason, _)| reason == "no_port"), "{:?}", s.drops());
    let (mut fake, _) = engine.stop();
    assert_eq!([fake.look_up(1, 1, 0), fake.look_up(2, 2, 0)], [None, Some(4)]);
    assert_eq!(fake.mirrors.keys().copied().collect::<Vec<_>>(), [10]);
    assert_eq!(fake.pre.dump().groups.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [6]);
}

#[test]
fn counters_go_on_counting_to_the_last_packet() {
    let s = switch_with(|_| {}).0;
    let kept = s.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    let gone = s.add_entry(EXACT, key(2, 2), 0, forward(3)).unwrap();
    s.mc_create(5).unwrap();
    // An engine that has not applied anything yet when the program changes. (The program's meters allow one only.)
    let mut inboxes = [s.attach(Box::new(|| {}))];
    let mut fakes = [Fake::new(&inboxes[0])];
    for (fake, inbox) in fakes.iter_mut().zip(&mut inboxes) {
        inbox.drain(fake);
    }
    let shadow = s.shadow(prepared()).unwrap();
    shadow.add_entry(EXACT, key(9, 9), 0, forward(1)).unwrap();
    let moved = shadow.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    assert_ne!(moved, kept);
    let carried = CarriedCounters {
        arrays: vec![(CounterId(0), CounterId(0))],
        entries: vec![
            ((EXACT, kept), (EXACT, moved)),
            // These are not there, or have no counter.
            ((EXACT, gone), (EXACT, 77)),
            ((EXACT, 78), (EXACT, moved)),
            ((GROUPS, 0), (GROUPS, 0)),
        ],
    };
    let version = s.version();
    let committed = std::thread::scope(|scope| {
        let committing = scope.spawn(|| s.commit_shadow(&shadow, Takeover::Keep { carried, version }));
        // Packets that come before the engines notice.
        for (fake, hits) in fakes.iter_mut().zip([7]) {
            (0..hits).for_each(|_| assert_eq!(fake.look_up(1, 1, 0), Some(3)));
            let state = fake.state.as_mut().unwrap();
            state.write_counter(CounterId(0), 3..4, hits, 10 * hits).unwrap();
        }
        while !committing.is_finished() {
            for (fake, inbox) in fakes.iter_mut().zip(&mut inboxes) {
                inbox.drain(fake);
            }
            std::thread::yield_now();
        }
        committing.join().unwrap()
    });
    committed.unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            assert_eq!(array(&s)[3], (3, value(7, 70)));
            assert_eq!(s.read_direct_counter(EXACT, moved), Ok(value(7, 700)));
            assert_eq!(s.meter_rates(MeterId(0), 0), Ok(vec![]));
            stop.store(true, Relaxed);
        });
        while !stop.load(Relaxed) && !reading.is_finished() {
            for (fake, inbox) in fakes.iter_mut().zip(&mut inboxes) {
                inbox.drain(fake);
            }
        }
    });
    assert_eq!(s.mc_dump().groups.len(), 1, "what is the switch's stays");
    assert!(fakes.iter().all(|fake| fake.pre.dump().groups.len() == 1));
}

/// Where the kernel forwards, its maps hold what nobody has asked for yet.
#[test]
fn counters_that_only_the_kernel_has_go_on_counting() {
    let s = switch_with(|_| {}).0;
    let kept = s.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    let engine = Engine::spawn(&s, |fake| {
        fake.in_kernel.0 = [(3, 4), (5, 1)].into();
        fake.in_kernel.1 = [(0, 6)].into();
    });
    let shadow = s.shadow(prepared()).unwrap();
    let moved = shadow.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    let carried = CarriedCounters {
        arrays: vec![(CounterId(0), CounterId(0))],
        entries: vec![((EXACT, kept), (EXACT, moved))],
    };
    let version = s.version();
    s.commit_shadow(&shadow, Takeover::Keep { carried, version }).unwrap();
    let array = array(&s);
    assert_eq!((array[3].1, array[5].1), (value(4, 40), value(1, 10)));
    assert_eq!(s.read_direct_counter(EXACT, moved), Ok(value(6, 600)));
    engine.stop();
}

/// What was read for a shadow is true as long as nobody writes.
#[test]
fn a_write_that_a_shadow_does_not_have_keeps_it_from_its_place() {
    let (s, _) = switch_with(|config| config.enable_swap = true);
    let engine = Engine::spawn(&s, |_| {});
    let old = s.add_entry(EXACT, key(1, 1), 0, forward(3)).unwrap();
    let session = MirrorSession { egress_port: Some(2), ..MirrorSession::default() };
    let delete = TableWrite::Delete { table: EXACT, handle: old };
    let add = |a| TableWrite::Add {
        table: EXACT,
        entry: NewEntry { key: key(a, 0), priority: 0, action: nop(), ttl_ms: 0, cookie: Vec::new() },
    };
    let writes: [&dyn Fn(); 9] = [
        &|| assert!(s.add_entry(EXACT, key(2, 2), 0, forward(4)).is_ok()),
        &|| assert!(s.write_batch(vec![delete.clone()])[0].is_ok()),
        &|| assert!(s.write_all(vec![add(3)]).is_ok()),
        &|| s.set_meter(MeterId(0), Range::One(1), &[]).unwrap(),
        &|| s.write_registers(RegisterId(0), Range::One(1), &n(4)).unwrap(),
        &|| s.set_mirror(3, session.clone()).unwrap(),
        &|| {
            let staged = Staged::new(Master::new(prepared()).unwrap());
            s.lock().staged = Some(staged);
            s.swap().unwrap();
        },
        &|| s.commit_prepared(prepared()).unwrap(),
        &|| s.reset_state().unwrap(),
    ];
    for (at, write) in writes.into_iter().enumerate() {
        let shadow = s.shadow(prepared()).unwrap();
        let keep = |version| Takeover::Keep { carried: CarriedCounters::default(), version };
        let version = s.version();
        write();
        let before = (s.epoch(), s.entries(EXACT).map_err(|error| error.kind));
        assert_eq!(kind(s.commit_shadow(&shadow, keep(version))), ErrorKind::Overtaken, "write {at}");
        assert_eq!((s.epoch(), s.entries(EXACT).map_err(|error| error.kind)), before, "write {at}");
    }
    // What changes nothing that was read keeps nobody.
    let shadow = s.shadow(prepared()).unwrap();
    let version = s.version();
    s.packet_out(Some(1), vec![0; 60]).unwrap();
    s.ack_digest(7, 1, None).unwrap();
    shadow.add_entry(EXACT, key(2, 2), 0, forward(4)).unwrap();
    s.read_registers(RegisterId(0), Range::One(1)).unwrap();
    s.commit_shadow(&shadow, Takeover::Keep { carried: CarriedCounters::default(), version }).unwrap();
    assert!(s.num_entries(EXACT) == Ok(1) && s.version() != version);
    engine.stop();
}

#[test]
fn an_engine_that_does_not_catch_up_leaves_all_as_it_was() {
    let s = switch_with(|config| (config.max_pending, config.answer_timeout) = (1, ANSWER_TIMEOUT)).0;
    let stalled = s.attach(Box::new(|| {}));
    let shadow = s.shadow(prepared()).unwrap();
    shadow.add_entry(EXACT, key(2, 2), 0, forward(4)).unwrap();
    let before = s.epoch();
    assert_eq!(kind(s.commit_shadow(&shadow, Takeover::Fresh)), ErrorKind::Unavailable);
    assert_eq!((s.epoch(), s.num_entries(EXACT), shadow.num_entries(EXACT)), (before, Ok(0), Ok(1)));
    drop(stalled);
    s.commit_shadow(&shadow, Takeover::Fresh).unwrap();
    assert_eq!(s.num_entries(EXACT), Ok(1));
}
