//! Everything beside finding entries: actions, profiles, counters, meters, time-outs, errors, growth.

mod support;

use barewire_base::Prng;
use barewire_p4::hash::Parameters;
use barewire_p4::ir::MatchKind::{Exact, Lpm, Ternary};
use barewire_p4::ir::*;
use barewire_p4::key::MatchParam;
use barewire_p4::state::State;
use barewire_p4_state::{
    ACTION, ARGS, EntryError, HIT, ProgramState, Rate, StateError, Subject, TableAction, account,
};
use num_bigint::BigUint;
use support::*;

const T: TableId = TableId(0);
const P: ProfileId = ProfileId(0);

fn exact(value: u64) -> Vec<MatchParam> {
    vec![MatchParam::Exact(value.into())]
}

fn word(value: u64) -> [u64; 1] {
    [value << 48]
}

fn no_hash() -> u64 {
    panic!("no group, no hash")
}

fn run(n: u64) -> TableAction {
    TableAction::Call(call(n))
}

fn refused<T>(subject: Subject, name: &str, source: EntryError) -> Result<T, StateError> {
    Err(StateError::Refused { subject, name: name.into(), source })
}

#[test]
fn state_moves_to_its_engine() {
    fn sendable<T: Send>(_: &T) {}
    sendable(&ProgramState::new(&program(vec![])));
}

#[test]
fn actions_and_their_arguments() {
    let mut state = ProgramState::new(&program(vec![table(TableKind::Exact, &[(Exact, 16)])]));
    let miss = state.apply(T, &word(7), 60, 1, &mut no_hash);
    assert_eq!((miss.hit, miss.action, miss.args.len(), miss.handle), (false, None, 0, None));
    let wide = BigUint::from(1_u8) << 129 | BigUint::from(5_u8);
    let b = TableAction::Call(ActionCall { action: ActionId(1), args: vec![wide] });
    state.set_default(T, Some(&b)).unwrap();
    state.insert(T, 3, &exact(7), 0, &run(700)).unwrap();
    let hit = state.apply(T, &word(7), 60, 9, &mut no_hash);
    assert_eq!((hit.hit, hit.action, hit.handle), (true, Some(ActionId(0)), Some(3)));
    assert_eq!(hit.args, [700 - 512, 700]);
    let miss = state.apply(T, &word(8), 60, 9, &mut no_hash);
    assert_eq!((miss.hit, miss.action), (false, Some(ActionId(1))));
    assert_eq!(miss.args, [5, 0, 2]);
    state.modify(T, 3, &b).unwrap();
    assert_eq!(state.apply(T, &word(7), 60, 10, &mut no_hash).args, [5, 0, 2]);
    let record = state.tables[0].find1(word(7)[0]);
    assert_eq!((record[ACTION], &record[1..4], record[ARGS]), (HIT | 1, &[2, 120, 10][..], 5));
    state.modify(T, 3, &run(1)).unwrap();
    assert_eq!(state.apply(T, &word(7), 60, 11, &mut no_hash).args, [1, 1], "nothing of the old arguments");
    state.set_default(T, None).unwrap();
    assert_eq!(state.apply(T, &word(8), 60, 9, &mut no_hash).action, None);
    let short = state.tables[0].find(&[]);
    assert_eq!(short[ACTION], 0, "a key that lacks words is one of zeros");
}

#[test]
fn refusals_name_the_table_and_the_reason() {
    let mut keyless = table(TableKind::Exact, &[]);
    keyless.name = "keyless".into();
    let mut state = ProgramState::new(&program(vec![table(TableKind::Exact, &[(Exact, 16)]), keyless]));
    let t = |source| refused::<()>(Subject::Table, "t", source);
    state.insert(T, 0, &exact(1), 0, &run(1)).unwrap();
    assert_eq!(state.insert(T, 0, &exact(2), 0, &run(1)), t(EntryError::HandleInUse { handle: 0 }));
    assert_eq!(state.insert(T, 1, &exact(1), 0, &run(1)), t(EntryError::Duplicate { handle: 0 }));
    assert_eq!(
        state.insert(T, 1, &exact(65_536), 0, &run(1)),
        t(EntryError::ValueWidth { field: 0, width: 16, bits: 17 })
    );
    assert_eq!(state.insert(T, 1, &[], 0, &run(1)), t(EntryError::FieldCount { expected: 1, given: 0 }));
    assert_eq!(
        state.insert(T, 1, &[MatchParam::Lpm { value: 1_u8.into(), prefix_len: 16 }], 0, &run(1)),
        t(EntryError::MatchKind { field: 0, expected: "exact", given: "a prefix" })
    );
    assert_eq!(
        state.insert(T, u32::MAX, &exact(3), 0, &run(1)),
        t(EntryError::HandleTooLarge { handle: u32::MAX, limit: barewire_p4_state::MAX_HANDLES })
    );
    assert_eq!(state.remove(T, u32::MAX), t(EntryError::NoHandle { handle: u32::MAX }));
    assert_eq!(state.remove(T, 1), t(EntryError::NoHandle { handle: 1 }));
    let bad = |args: &[u64]| {
        TableAction::Call(ActionCall {
            action: ActionId(0),
            args: args.iter().map(|&arg| arg.into()).collect(),
        })
    };
    assert_eq!(
        state.modify(T, 0, &bad(&[1])),
        t(EntryError::ArgCount { action: "a".into(), expected: 2, given: 1 })
    );
    assert_eq!(
        state.modify(T, 0, &bad(&[512, 1])),
        t(EntryError::ArgWidth { action: "a".into(), param: "p0".into(), width: 9, bits: 10 })
    );
    let nine = TableAction::Call(ActionCall { action: ActionId(9), args: vec![] });
    assert_eq!(state.modify(T, 0, &nine), t(EntryError::NoAction { action: 9 }));
    assert_eq!(
        state.modify(T, 0, &TableAction::Member(0)),
        t(EntryError::EntryKind { expected: "actions", given: "a member" })
    );
    assert_eq!(
        state.insert(TableId(1), 0, &[], 0, &run(1)),
        refused(Subject::Table, "keyless", EntryError::NoKey)
    );
    assert_eq!(state.remove(TableId(2), 0), Err(StateError::NoSuch { subject: Subject::Table, id: 2 }));
    let error = state.insert(T, 1, &exact(1), 0, &run(1)).unwrap_err();
    assert_eq!(error.to_string(), "table 't': entry 0 has the same key");
    // Nothing of all that changed anything.
    assert_eq!(state.tables[0].len(), 1);
    assert_eq!(state.apply(T, &word(1), 60, 9, &mut no_hash).args, [1, 1]);
    state.set_default(TableId(1), Some(&run(4))).unwrap();
    assert_eq!(state.apply(TableId(1), &[], 60, 9, &mut no_hash).args, [4, 4]);
}

#[test]
fn counters_and_times_of_entries() {
    let mut state = ProgramState::new(&program(vec![table(TableKind::Exact, &[(Exact, 16)])]));
    for n in 0..5 {
        state.insert(T, n, &exact(n.into()), 0, &run(1)).unwrap();
        for _ in 0..n {
            account(state.tables[0].find1(word(n.into())[0]), 100, 50 + u64::from(n));
        }
    }
    let stats = state.stats(T, Some(4)).unwrap();
    assert_eq!((stats.packets, stats.bytes, stats.last_hit_us, state.hits(T, 4)), (4, 400, 54, Ok(54)));
    state.modify(T, 4, &run(2)).unwrap();
    assert_eq!(state.stats(T, Some(4)).unwrap().packets, 4, "a modified entry goes on counting");
    state.set_direct_counter(T, Some(4), 9, 8).unwrap();
    assert_eq!(state.stats(T, Some(4)).unwrap().bytes, 8);
    let mut next = Some(0);
    let mut rounds = 0;
    while let Some(from) = next {
        next = state.tables[0].reset_counters(from, 4);
        rounds += 1;
    }
    assert_eq!((state.stats(T, Some(4)).unwrap().packets, rounds > 1), (0, true));
    state.remove(T, 4).unwrap();
    assert!(state.stats(T, Some(4)).is_err());
    state.insert(T, 4, &exact(9), 0, &run(1)).unwrap();
    assert_eq!(state.stats(T, Some(4)).unwrap(), Default::default(), "a handle used again starts at 0");
}

#[test]
fn entries_age_one_by_one() {
    let mut state = ProgramState::new(&program(vec![table(TableKind::Exact, &[(Exact, 16)])]));
    for n in 0..10 {
        state.insert(T, n, &exact(n.into()), 0, &run(1)).unwrap();
    }
    for n in 0..5 {
        state.set_ttl(T, n, 100, 1_000).unwrap();
    }
    let idle = |state: &mut ProgramState, now| {
        let mut handles = vec![];
        let mut calls = 1;
        while !state.idle(T, now, 2, &mut handles).unwrap() {
            calls += 1;
        }
        (handles, calls)
    };
    assert_eq!(idle(&mut state, 1_099).0, [0; 0]);
    account(state.tables[0].find1(word(2)[0]), 60, 1_050);
    assert_eq!(idle(&mut state, 1_100), (vec![0, 1, 3, 4], 3));
    assert_eq!(idle(&mut state, 1_150).0, [0, 1, 2, 3, 4], "reported until hit or removed");
    state.remove(T, 3).unwrap();
    state.set_ttl(T, 4, 0, 1_150).unwrap();
    state.insert(T, 3, &exact(77), 0, &run(1)).unwrap();
    assert_eq!(idle(&mut state, 9_999).0, [0, 1, 2]);
    state.clear(T).unwrap();
    assert_eq!(idle(&mut state, 9_999).0, [0; 0]);
}

fn with_profile(selector: Option<HashAlgorithm>) -> Program {
    let mut of = table(TableKind::Exact, &[(Exact, 16)]);
    of.source = TableActions::Profile(P);
    let mut other = table(TableKind::Exact, &[(Exact, 16)]);
    other.source = TableActions::Profile(P);
    other.actions.reverse();
    let profile = ActionProfile {
        name: "p".into(),
        id: 0,
        max_size: 100,
        selector: selector.map(|algorithm| Selector { algorithm, input: vec![] }),
    };
    Program { profiles: vec![profile], ..program(vec![of, other]) }
}

#[test]
fn members_and_groups() {
    let mut state = ProgramState::new(&with_profile(Some(HashAlgorithm::Crc16)));
    let p = |source| refused::<()>(Subject::Profile, "p", source);
    assert_eq!(
        state.insert(T, 0, &exact(1), 0, &TableAction::Member(1)),
        p(EntryError::NoMember { member: 1 })
    );
    assert_eq!(state.insert(T, 0, &exact(1), 0, &TableAction::Group(1)), p(EntryError::NoGroup { group: 1 }));
    for member in 0..4 {
        state.insert_member(P, member, &call(10 + u64::from(member))).unwrap();
    }
    assert_eq!(state.insert_member(P, 0, &call(1)), p(EntryError::MemberExists { member: 0 }));
    state.set_group(P, 5, &[(0, 1), (2, 3), (3, 0)]).unwrap();
    assert_eq!(state.set_group(P, 5, &[(9, 1)]), p(EntryError::NoMember { member: 9 }));
    assert_eq!(
        state.set_group(P, 5, &[(0, u32::MAX)]),
        p(EntryError::GroupTooLarge { total: u32::MAX.into(), limit: barewire_p4_state::MAX_GROUP_SLOTS })
    );
    for table in [T, TableId(1)] {
        state.insert(table, 0, &exact(1), 0, &TableAction::Member(1)).unwrap();
        state.insert(table, 1, &exact(2), 0, &TableAction::Group(5)).unwrap();
    }
    assert_eq!(
        state.insert(T, 2, &exact(3), 0, &run(1)),
        refused(
            Subject::Table,
            "t",
            EntryError::EntryKind { expected: "members or groups", given: "an action" }
        )
    );
    let applied = state.apply(T, &word(1), 60, 9, &mut no_hash);
    assert_eq!((applied.hit, applied.action, applied.args), (true, Some(ActionId(0)), vec![11, 11]));
    let outcome = state.apply_into(T, &word(1), 60, 9, &mut no_hash);
    assert_eq!((outcome.action, outcome.record[ARGS]), (2, 11));
    let outcome = state.apply_into(TableId(1), &word(1), 60, 9, &mut no_hash);
    assert_eq!(
        (outcome.action, outcome.record[ARGS]),
        (1, 11),
        "the other table counts its actions otherwise"
    );
    let chosen: Vec<u64> = (0..5).map(|hash| state.apply(T, &word(2), 60, 9, &mut || hash).args[0]).collect();
    assert_eq!(chosen, [10, 12, 12, 12, 10]);
    assert_eq!(state.stats(T, Some(1)).unwrap().packets, 5, "the entry counts, not the member");
    state.modify_member(P, 2, &call(99)).unwrap();
    assert_eq!(state.apply(T, &word(2), 60, 9, &mut || 1).args[0], 99);
    state.remove_member(P, 2).unwrap();
    let applied = state.apply(T, &word(2), 60, 9, &mut || 1);
    assert_eq!((applied.hit, applied.action), (true, None), "a member that is gone does nothing");
    state.set_group(P, 5, &[]).unwrap();
    assert_eq!(state.apply(T, &word(2), 60, 9, &mut no_hash).action, None);
    state.remove_group(P, 5).unwrap();
    assert_eq!(state.remove_group(P, 5), p(EntryError::NoGroup { group: 5 }));
    assert_eq!(state.apply(T, &word(2), 60, 9, &mut no_hash).action, None);
    state.set_default(T, Some(&TableAction::Member(3))).unwrap();
    let miss = state.apply(T, &word(7), 60, 9, &mut no_hash);
    assert_eq!((miss.hit, miss.args), (false, vec![13, 13]));
    state.set_default(T, Some(&run(5))).unwrap();
    assert_eq!(
        state.apply(T, &word(7), 60, 9, &mut no_hash).args,
        [5, 5],
        "a program's default is an action"
    );
    let mut plain = ProgramState::new(&with_profile(None));
    assert_eq!(plain.set_group(P, 0, &[]), p(EntryError::NoSelector));
    assert!(!plain.tables[0].is_plain());
}

#[test]
fn round_robin() {
    let take = |algorithm, hashes: &[u64]| {
        let mut state = ProgramState::new(&with_profile(Some(algorithm)));
        for member in 0..3 {
            state.insert_member(P, member, &call(member.into())).unwrap();
        }
        state.set_group(P, 0, &[(0, 1), (1, 1), (2, 1)]).unwrap();
        state.insert(T, 0, &exact(1), 0, &TableAction::Group(0)).unwrap();
        hashes.iter().map(|&hash| state.apply(T, &word(1), 60, 9, &mut || hash).args[0]).collect::<Vec<_>>()
    };
    assert_eq!(take(HashAlgorithm::RoundRobin, &[5, 5, 5, 5]), [0, 1, 2, 0]);
    assert_eq!(take(HashAlgorithm::RoundRobinConsistent, &[50, 60, 50, 70, 80, 60]), [0, 1, 0, 2, 0, 1]);
}

#[test]
fn direct_meters_follow_their_entries() {
    let mut of = table(TableKind::Exact, &[(Exact, 16)]);
    of.meter = Some(MeterId(0));
    let meter = MeterArray {
        name: "m".into(),
        id: 0,
        size: 8,
        unit: MeterUnit::Packets,
        rate_count: 2,
        direct: Some(T),
        result: None,
    };
    let mut state = ProgramState::new(&Program { meters: vec![meter], ..program(vec![of]) });
    assert!(!state.tables[0].is_plain());
    state.insert(T, 5, &exact(1), 0, &run(1)).unwrap();
    let rates = [Rate { per_us: 0.0, burst: 1 }, Rate { per_us: 0.0, burst: 2 }];
    assert_eq!(
        state.set_direct_meter(T, 6, Some(&rates)),
        refused(Subject::Table, "t", EntryError::NoHandle { handle: 6 })
    );
    assert_eq!(state.apply(T, &word(1), 60, 9, &mut no_hash).color, Some(0));
    state.set_direct_meter(T, 5, Some(&rates)).unwrap();
    assert_eq!(state.direct_meter_rates(T, 5).unwrap().unwrap(), rates);
    let colours: Vec<_> = (0..3).map(|_| state.apply(T, &word(1), 60, 9, &mut no_hash).color).collect();
    assert_eq!(colours, [Some(0), Some(1), Some(2)]);
    assert_eq!(state.apply(T, &word(2), 60, 9, &mut no_hash).color, None, "a miss is not metered");
    state.remove(T, 5).unwrap();
    state.insert(T, 5, &exact(1), 0, &run(1)).unwrap();
    assert_eq!(state.apply(T, &word(1), 60, 9, &mut no_hash).color, Some(0), "a new entry, a new meter");
    assert_eq!(state.direct_meter_rates(T, 5).unwrap(), None);
}

#[test]
fn the_rest_of_a_program() {
    let program = Program {
        counters: vec![CounterArray { name: "c".into(), id: 0, size: 4, direct: None }],
        registers: vec![RegisterArray {
            name: "r".into(),
            id: 0,
            size: 4,
            width: 100,
            initial: BigUint::ZERO,
        }],
        value_sets: vec![ValueSet { name: "v".into(), widths: vec![16], max_size: 0 }],
        calculations: vec![Calculation { name: "h".into(), algorithm: HashAlgorithm::Crc16, input: vec![] }],
        ..program(vec![table(TableKind::Exact, &[(Exact, 16)])])
    };
    let mut state = ProgramState::new(&program);
    state.count(CounterId(0), 3, 60);
    state.count(CounterId(0), 4, 60);
    state.count(CounterId(1), 0, 60);
    assert_eq!(state.read_counter(CounterId(0), 3), Ok([1, 60]));
    state.write_counter(CounterId(0), 0..2, 7, 8).unwrap();
    assert_eq!(state.counters[0].read_range(0..4).unwrap(), [[7, 8], [7, 8], [0, 0], [1, 60]]);
    let wide = ones(100) - 1_u8;
    state.set_register(RegisterId(0), 2, &(&wide + (BigUint::from(1_u8) << 100)));
    assert_eq!((state.register(RegisterId(0), 2), state.register(RegisterId(0), 9)), (wide, BigUint::ZERO));
    let error = state.read_register(RegisterId(0), 4).unwrap_err();
    assert_eq!(error.to_string(), "register 'r': index 4 is not below 4");
    state.write_register(RegisterId(0), 0..4, &5_u8.into()).unwrap();
    assert_eq!(state.read_register(RegisterId(0), 3), Ok(5_u8.into()));
    state.add_to_set(ValueSetId(0), vec![6_u8.into()]).unwrap();
    assert!(state.value_set_contains(ValueSetId(0), &[6_u8.into()], None));
    assert!(!state.value_set_contains(ValueSetId(1), &[6_u8.into()], None));
    assert_eq!(state.hash_parameters(CalculationId(0)), None);
    state.set_hash_parameters(CalculationId(0), Some(Parameters::Toeplitz(vec![1]))).unwrap();
    assert_eq!(state.hash_parameters(CalculationId(0)), Some(&Parameters::Toeplitz(vec![1])));
    assert!(state.set_hash_parameters(CalculationId(1), None).is_err());
    for n in 0..barewire_p4_state::MAX_LOGS + 3 {
        state.log(&format!("message {n}"));
    }
    let (logs, lost) = state.take_logs();
    assert_eq!((logs.len(), &logs[0][..], lost), (barewire_p4_state::MAX_LOGS, "message 0", 3));
    assert_eq!(state.take_logs(), (vec![], 0));
    state.seed_random(3);
    let first: Vec<u64> = (0..100).map(|_| state.random(10, 12)).collect();
    assert!(first.iter().all(|n| (10..=12).contains(n)) && (10..=12).all(|n| first.contains(&n)));
    state.seed_random(3);
    assert_eq!(first, (0..100).map(|_| state.random(10, 12)).collect::<Vec<_>>());
    assert_eq!((state.random(5, 4), state.random(7, 7)), (5, 7));
    state.random(0, u64::MAX);
    state.insert(T, 0, &exact(1), 0, &run(1)).unwrap();
    state.set_default(T, Some(&run(1))).unwrap();
    state.reset();
    assert_eq!(state.read_counter(CounterId(0), 3), Ok([0, 0]));
    assert_eq!(state.register(RegisterId(0), 3), BigUint::ZERO);
    assert!(!state.value_set_contains(ValueSetId(0), &[6_u8.into()], None));
    assert_eq!(state.hash_parameters(CalculationId(0)), None);
    assert!(state.tables[0].is_empty());
    assert_eq!(state.apply(T, &word(1), 60, 9, &mut no_hash).action, None);
    assert_eq!(state.take_garbage().len(), 1);
}

#[test]
fn entries_of_the_program() {
    let mut of = table(TableKind::Ternary, &[(Ternary, 16)]);
    of.default = Some(call(9));
    let entry = |value: u16, mask: u16, priority, n| InitialEntry {
        key: vec![MatchParam::Ternary { value: value.into(), mask: mask.into() }],
        call: call(n),
        priority,
    };
    of.entries = vec![entry(0, 0, 5, 1), entry(0x100, 0xff00, 4, 2), entry(0x101, 0xffff, 9, 3)];
    let program = program(vec![of]);
    let mut state = ProgramState::with_program_entries(&program);
    let mut args = |key| state.apply(T, &word(key), 60, 1, &mut no_hash).args[0];
    assert_eq!((args(0x101), args(0x201)), (2, 1));
    state.clear(T).unwrap();
    assert_eq!(state.apply(T, &word(0x101), 60, 1, &mut no_hash).args[0], 9, "the default entry stays");
    assert_eq!(ProgramState::new(&program).tables[0].len(), 0);
}

#[test]
fn among_equals_the_lowest_handle_wins() {
    let mut state = ProgramState::new(&program(vec![table(TableKind::Ternary, &[(Ternary, 16)])]));
    let ternary = |mask: u16| vec![MatchParam::Ternary { value: 0_u8.into(), mask: mask.into() }];
    state.insert(T, 7, &ternary(1), 3, &run(7)).unwrap();
    state.insert(T, 2, &ternary(2), 3, &run(2)).unwrap();
    state.insert(T, 9, &ternary(4), 3, &run(9)).unwrap();
    assert_eq!(state.apply(T, &word(0), 60, 1, &mut no_hash).handle, Some(2));
    state.remove(T, 2).unwrap();
    assert_eq!(state.apply(T, &word(0), 60, 1, &mut no_hash).handle, Some(7));
}

#[test]
fn a_million_entries_grow_in_small_steps() {
    let mut state = ProgramState::new(&program(vec![table(TableKind::Exact, &[(Exact, 48)])]));
    let action = run(1);
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let mut before = 0;
    for n in 0..1_000_000_u32 {
        state.insert(T, n, &exact(key(n.into())), 0, &action).unwrap();
        let work = state.tables[0].work();
        assert!(work - before <= 512, "insertion {n} moved {} entries", work - before);
        before = work;
    }
    for n in (0..1_000_000_u32).step_by(97) {
        assert_eq!(state.tables[0].find_index(&[key(n.into()) << 16]), n + 1);
        assert_eq!(state.tables[0].find_index(&[key(u64::from(n) + 1_000_000) << 16]), 0);
    }
    let before = state.tables[0].work();
    state.clear(T).unwrap();
    assert_eq!((state.tables[0].len(), state.tables[0].find_index(&[key(5) << 16])), (0, 0));
    assert!(state.tables[0].work() < before);
    assert_eq!(state.take_garbage().len(), 1, "the memory goes to whoever may stall");
}

#[test]
fn masked_entries_move_in_small_steps() {
    let fields = [(Ternary, 32), (Lpm, 32), (Ternary, 16)];
    let mut state = ProgramState::new(&program(vec![table(TableKind::Ternary, &fields)]));
    let mut prng = Prng::new(11);
    let mut before = 0;
    let mut most = 0;
    for n in 0..30_000_u32 {
        let a = prng.below(33) as u32;
        let mask = ones(a) << (32 - a);
        let prefix_len = prng.below(4) as u32 * 8;
        let params = vec![
            MatchParam::Ternary { value: BigUint::from(prng.next_u64() as u32) & &mask, mask },
            MatchParam::Lpm {
                value: BigUint::from(prng.next_u64() as u32) & (ones(prefix_len) << (32 - prefix_len)),
                prefix_len,
            },
            MatchParam::Ternary { value: BigUint::from(prng.below(4)), mask: ones(16) },
        ];
        let priority = prng.below(1 << 30) as u32;
        state.insert(T, n, &params, priority, &run(1)).unwrap();
        let work = state.tables[0].work();
        most = most.max(work - before);
        before = work;
    }
    assert!(most <= 2_000, "an update moved {most} entries");
    let (tuples, blocks) = state.tables[0].ternary_parts().unwrap();
    assert!(tuples > 3 && blocks < 6, "{tuples} tuples, {blocks} blocks: sharing masks keeps blocks few");
}
