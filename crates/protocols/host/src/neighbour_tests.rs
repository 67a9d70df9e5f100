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
fn a_table_of_entries_in_use_refuses_more() {
    let counters = HostCounters::default();
    let mut table = Neighbours::new(2, 1);
    for n in 1..3 {
        table.lookup(at(0), ip(n), &counters);
        table.answered(at(1), ip(n), mac(n as u8), true, &counters);
        table.lookup(at(1), ip(n), &counters);
    }
    assert_eq!(table.lookup(at(2), ip(3), &counters), Lookup::Unreachable);
    assert_eq!(counters.neighbours_full.get(), 1);
    // Unused for as long as a neighbour counts as reachable, the older one makes room, and its templates are stale.
    assert_eq!(table.lookup(at(31_000), ip(3), &counters), Lookup::Pending);
    assert_eq!(table.known_mac(ip(1)), None);
    assert_eq!(table.generation(), 1);
    check(&table);
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
    Confirm(u32),
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
        n.clone().prop_map(Operation::Confirm),
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
        let mut handed: std::collections::HashMap<u32, (MacAddr, u32)> = Default::default();
        for operation in operations {
            match operation {
                Operation::Lookup(n) => {
                    if let Lookup::Mac(mac) = table.lookup(now, ip(n), &counters) {
                        handed.insert(n, (mac, table.generation()));
                    }
                }
                Operation::Confirm(n) => table.confirm(now, ip(n)),
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
            for (&n, &(mac, generation)) in &handed {
                if generation == table.generation() {
                    prop_assert_eq!(table.known_mac(ip(n)), Some(mac));
                }
            }
        }
    }
}
