//! Tests of the neighbour table by itself: the links of its lists, eviction, and a model of its contents.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn ip(n: u32) -> IpAddr {
    IpAddr::V4((0x0a00_0000 + n).into())
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// Every list and chain agrees with every other.
fn check(table: &Neighbours) {
    let live: HashSet<u32> =
        (0..table.entries.len() as u32).filter(|&i| table.entries[i as usize].state.is_some()).collect();
    let mut chained = HashSet::new();
    for (bucket, &head) in table.heads.iter().enumerate() {
        let mut i = head;
        while i != NIL {
            assert!(chained.insert(i), "entry in two chains");
            assert_eq!(table.bucket(table.entries[i as usize].ip), bucket);
            i = table.entries[i as usize].next;
        }
    }
    assert_eq!(chained, live);
    let (mut i, mut last, mut listed) = (table.oldest, NIL, HashSet::new());
    while i != NIL {
        assert_eq!(table.entries[i as usize].older, last);
        assert!(listed.insert(i));
        last = i;
        i = table.entries[i as usize].newer;
    }
    assert_eq!((listed, table.newest), (live.clone(), last));
    let (mut i, mut free) = (table.free, 0);
    while i != NIL {
        assert!(!live.contains(&i));
        free += 1;
        i = table.entries[i as usize].next;
    }
    assert_eq!(free + live.len(), table.entries.len());
    let courtesies = table.entries.iter().filter(|e| e.courtesy).count();
    assert_eq!(courtesies, table.courtesies as usize);
    assert!(courtesies <= COURTESIES_MAX as usize);
    assert!(table.entries.iter().all(|e| !e.courtesy || e.state == Some(NeighbourState::Incomplete)));
    let earliest =
        live.iter().map(|&i| table.entries[i as usize].deadline).min().unwrap_or(Instant::FAR_FUTURE);
    assert!(table.deadline <= earliest, "a deadline would be missed");
    let mut queued = HashSet::new();
    assert!(table.questions.iter().all(|i| queued.insert(*i)), "a question twice in the queue");
}

#[test]
fn strangers_evict_strangers_and_not_the_used() {
    let counters = HostCounters::default();
    let mut table = Neighbours::new(4, 1);
    table.lookup(at(0), ip(1), &counters);
    assert!(table.answered(at(1), ip(1), mac(1), true, &counters));
    assert_eq!(table.lookup(at(2), ip(1), &counters), Lookup::Mac(mac(1)));
    for n in 10..40 {
        table.asked_us(at(10), ip(n), mac(9), &counters);
        check(&table);
    }
    assert_eq!(table.known_mac(ip(1)), Some(mac(1)));
    assert_eq!(table.iter().count(), 4);
    assert_eq!(counters.neighbours_evicted.get(), 27);
    assert_eq!(table.generation(), 0, "evicting strangers makes no template stale");
}

#[test]
fn a_table_of_entries_in_use_makes_room_for_flows_only() {
    let counters = HostCounters::default();
    let mut table = Neighbours::new(2, 1);
    for n in 1..3 {
        table.lookup(at(0), ip(n), &counters);
        table.answered(at(1), ip(n), mac(n as u8), true, &counters);
        table.lookup(at(1), ip(n), &counters);
    }
    assert_eq!(table.lookup_courtesy(at(2), ip(3), &counters), Lookup::Unreachable);
    table.asked_us(at(2), ip(3), mac(3), &counters);
    assert_eq!((table.known_mac(ip(1)), table.known_mac(ip(2))), (Some(mac(1)), Some(mac(2))));
    // The one that was used last stays; whoever has a template of the other's goes on with it.
    table.confirm(at(1_500), ip(1));
    assert_eq!(table.lookup(at(1_500), ip(3), &counters), Lookup::Pending);
    assert_eq!((table.known_mac(ip(1)), table.known_mac(ip(2))), (Some(mac(1)), None));
    assert_eq!((table.generation(), counters.neighbours_full.get()), (0, 0));
    check(&table);
    // What flows wait for makes no room. There may be some later, so that whoever asks goes on asking.
    assert_eq!(table.lookup(at(1_500), ip(4), &counters), Lookup::Pending);
    assert_eq!(table.lookup(at(1_500), ip(5), &counters), Lookup::Pending);
    assert_eq!(table.iter().map(|n| n.ip).collect::<Vec<_>>(), [ip(4), ip(3)]);
    assert_eq!(counters.neighbours_full.get(), 1);
    check(&table);
}

#[test]
fn what_flows_confirm_stays_and_what_strangers_need_does_not() {
    let counters = HostCounters::default();
    let mut table = Neighbours::new(8, 1);
    table.lookup(at(0), ip(1), &counters);
    table.answered(at(1), ip(1), mac(1), true, &counters);
    table.lookup(at(1), ip(1), &counters);
    let mut stranger = 100;
    for second in 1..200u64 {
        let now = at(second * 1000);
        table.handle_timeout(now, &counters);
        // Looked up once, and in use ever since.
        table.confirm(now, ip(1));
        for _ in 0..20 {
            stranger += 1;
            let answer = table.lookup_courtesy(now, ip(stranger), &counters);
            assert!(matches!(answer, Lookup::Pending | Lookup::Unreachable));
            table.asked_us(now, ip(stranger + 100_000), mac(9), &counters);
            check(&table);
        }
        let asked: Vec<_> = std::iter::from_fn(|| table.next_question()).collect();
        assert!(asked.iter().all(|q| q.ip != ip(1)), "a neighbour that is confirmed need not be asked");
        assert_eq!(table.known_mac(ip(1)), Some(mac(1)));
        if second % 6 != 0 {
            continue;
        }
        // Whoever wants a flow finds room among them, at once.
        let wanted = ip(1_000_000 + second as u32);
        assert_eq!(table.lookup(now, wanted, &counters), Lookup::Pending);
        assert!(table.answered(now, wanted, mac(2), true, &counters), "it has an entry");
        assert_eq!(table.lookup(now, wanted, &counters), Lookup::Mac(mac(2)));
    }
    assert!(counters.neighbours_evicted.get() > 1000);
    assert_eq!(counters.neighbours_full.get(), 0);
    let resolved = std::iter::from_fn(|| table.poll_event()).count() as u64;
    assert_eq!(resolved, counters.neighbours_resolved.get(), "nobody is told of strangers");
}

#[test]
fn strangers_are_resolved_a_few_at_a_time() {
    let counters = HostCounters::default();
    let mut table = Neighbours::new(64, 1);
    for n in 1..50 {
        table.lookup_courtesy(at(0), ip(n), &counters);
    }
    assert_eq!(table.iter().count(), COURTESIES_MAX as usize);
    assert_eq!(std::iter::from_fn(|| table.next_question()).count(), COURTESIES_MAX as usize);
    // An answer makes room for the next, and so does giving up.
    assert!(table.answered(at(1), ip(1), mac(1), true, &counters));
    assert_eq!(table.lookup_courtesy(at(1), ip(1), &counters), Lookup::Mac(mac(1)));
    assert_eq!(table.lookup_courtesy(at(1), ip(60), &counters), Lookup::Pending);
    assert_eq!(table.lookup_courtesy(at(1), ip(61), &counters), Lookup::Unreachable);
    // A flow that wants one of them makes it its own.
    assert_eq!(table.lookup(at(2), ip(2), &counters), Lookup::Pending);
    assert_eq!(table.lookup_courtesy(at(2), ip(61), &counters), Lookup::Pending);
    for now in (0..4000).step_by(10) {
        table.handle_timeout(at(now), &counters);
    }
    assert_eq!(table.lookup_courtesy(at(4_000), ip(70), &counters), Lookup::Pending);
    assert_eq!(table.poll_event(), Some(HostEvent::Unreachable(ip(2))));
    assert_eq!(table.poll_event(), None);
    assert_eq!(table.generation(), 0, "a single answer leaves no template behind");
    check(&table);
}

#[test]
fn silence_is_looked_into_and_proof_ends_it() {
    let counters = HostCounters::default();
    for old_proof in [false, true] {
        let mut table = Neighbours::new(8, 1);
        table.lookup(at(0), ip(1), &counters);
        table.answered(at(0), ip(1), mac(1), true, &counters);
        table.lookup(at(0), ip(1), &counters);
        while table.next_question().is_some() {}
        let state = |table: &Neighbours| table.iter().next().map(|n| n.state);
        // Confirmed a moment ago: it is left in peace for a second.
        table.suspect(at(500), ip(1), &counters);
        assert_eq!(state(&table), Some(NeighbourState::Reachable));
        table.handle_timeout(at(1_000), &counters);
        assert_eq!(state(&table), Some(NeighbourState::Doubted));
        assert_eq!(table.next_question(), Some(Question { ip: ip(1), to: Some(mac(1)) }));
        // More of the same changes nothing.
        table.suspect(at(1_001), ip(1), &counters);
        assert_eq!(table.next_question(), None);
        if old_proof {
            // From before the doubt: it says nothing about it.
            table.confirm(at(999), ip(1));
            assert_eq!(state(&table), Some(NeighbourState::Doubted));
            table.confirm(at(1_002), ip(1));
            assert_eq!(state(&table), Some(NeighbourState::Reachable));
            continue;
        }
        for now in 1_000..1_300 {
            table.handle_timeout(at(now), &counters);
        }
        let asked: Vec<_> = std::iter::from_fn(|| table.next_question()).collect();
        assert_eq!(asked.last(), Some(&Question { ip: ip(1), to: None }), "in the end all are asked");
        assert!(table.answered(at(1_301), ip(1), mac(2), true, &counters));
        assert_eq!((table.known_mac(ip(1)), table.generation()), (Some(mac(2)), 1));
        check(&table);
        // One that is being probed at leisure is asked quickly from then on, from the start.
        table.lookup(at(1_400), ip(1), &counters);
        table.handle_timeout(at(31_301), &counters);
        assert_eq!(state(&table), Some(NeighbourState::Probing));
        table.suspect(at(31_302), ip(1), &counters);
        assert_eq!(state(&table), Some(NeighbourState::Doubted));
        assert_eq!(table.poll_timeout(), Some(at(31_312)));
    }
}

#[test]
fn events_are_bounded() {
    let counters = HostCounters::default();
    let mut table = Neighbours::new(1, 1);
    for round in 0..1000u64 {
        let now = at(round * 40_000);
        table.lookup(now, ip(1), &counters);
        table.answered(now, ip(1), mac(1), true, &counters);
        table.handle_timeout(now + REACHABLE_TIME, &counters);
    }
    assert!(counters.events_lost.get() > 0);
    let queued = std::iter::from_fn(|| table.poll_event()).count() as u64;
    assert_eq!(queued + counters.events_lost.get(), counters.neighbours_resolved.get());
}

#[derive(Clone, Debug)]
enum Operation {
    Lookup(u32),
    Courtesy(u32),
    Confirm(u32, u64),
    Suspect(u32),
    Answered(u32, u8, bool),
    AskedUs(u32, u8),
    Claimed(u32, u8),
    Question,
    Wait(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    let n = 1u32..12;
    prop_oneof![
        n.clone().prop_map(Operation::Lookup),
        n.clone().prop_map(Operation::Courtesy),
        (n.clone(), 0u64..2_000).prop_map(|(n, ago)| Operation::Confirm(n, ago)),
        n.clone().prop_map(Operation::Suspect),
        (n.clone(), 0u8..3, any::<bool>()).prop_map(|(n, m, r)| Operation::Answered(n, m, r)),
        (n.clone(), 0u8..3).prop_map(|(n, m)| Operation::AskedUs(n, m)),
        (n, 0u8..3).prop_map(|(n, m)| Operation::Claimed(n, m)),
        Just(Operation::Question),
        prop_oneof![0u64..20, 0u64..2_000, 0u64..40_000].prop_map(Operation::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever happens: the lists agree, no deadline is missed, and a MAC that was handed out never changes without a
    /// new generation.
    #[test]
    fn lists_agree_and_templates_are_never_silently_stale(
        operations in prop::collection::vec(operation(), 1..120), max in 1usize..9, key: u64,
    ) {
        let counters = HostCounters::default();
        let mut table = Neighbours::new(max, key);
        let mut now = at(100_000);
        let mut evicted = 0;
        let mut handed: std::collections::HashMap<u32, (MacAddr, u32)> = Default::default();
        for operation in operations {
            match operation {
                Operation::Lookup(n) => {
                    if let Lookup::Mac(mac) = table.lookup(now, ip(n), &counters) {
                        handed.insert(n, (mac, table.generation()));
                    }
                }
                Operation::Courtesy(n) => {
                    table.lookup_courtesy(now, ip(n), &counters);
                }
                Operation::Confirm(n, ago) => {
                    table.confirm(Instant::from_nanos(now.as_nanos() - ago * 1_000_000), ip(n));
                }
                Operation::Suspect(n) => table.suspect(now, ip(n), &counters),
                Operation::Answered(n, m, replace) => {
                    table.answered(now, ip(n), mac(m), replace, &counters);
                }
                Operation::AskedUs(n, m) => table.asked_us(now, ip(n), mac(m), &counters),
                Operation::Claimed(n, m) => table.claimed(now, ip(n), mac(m), &counters),
                Operation::Question => {
                    table.next_question();
                }
                Operation::Wait(ms) => {
                    now += Duration::from_millis(ms);
                    table.handle_timeout(now, &counters);
                    prop_assert!(table.poll_timeout().is_none_or(|t| t > now));
                }
            }
            check(&table);
            prop_assert!(table.iter().count() <= max);
            if std::mem::replace(&mut evicted, counters.neighbours_evicted.get()) != evicted {
                // Of what was forgotten nothing is promised.
                handed.retain(|&n, _| table.known_mac(ip(n)).is_some());
            }
            for (&n, &(mac, generation)) in &handed {
                if generation == table.generation() {
                    prop_assert_eq!(table.known_mac(ip(n)), Some(mac));
                }
            }
        }
    }
}
