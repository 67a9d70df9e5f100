use super::testing::*;
use super::*;
use crate::control::{MeterRate, Range};
use barewire_base::Prng;
use barewire_p4::ir::{CounterId, RegisterId};
use std::collections::HashMap;

fn store() -> Store {
    Store::new(program()).expect("the program is good")
}

fn entry(key: Vec<MatchParam>, action: TableAction) -> NewEntry {
    NewEntry { key, priority: 0, action, ttl_ms: 0, cookie: Vec::new() }
}

fn add(store: &mut Store, table: TableId, key: Vec<MatchParam>, priority: u32) -> Result<u64> {
    store.add_entry(table, &NewEntry { priority, ..entry(key, forward(1)) }, 0, &mut Vec::new())
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("refused").kind
}

fn refused<T: std::fmt::Debug>(result: Result<T>) -> (ErrorKind, String) {
    let error = result.expect_err("refused");
    (error.kind, error.message)
}

#[test]
fn keys_are_checked_field_by_field() {
    let mut s = store();
    let bad = ErrorKind::BadMatchKey;
    assert_eq!(kind(add(&mut s, EXACT, vec![exact(1)], 0)), bad);
    let (kind_, message) = refused(add(&mut s, EXACT, vec![exact(1), exact(0x200)], 0));
    assert_eq!(kind_, bad);
    assert_eq!(message, "table 'ingress.exact', key field 2 ('hdr.b'): 0x200 is wider than 9 bits");
    let (_, message) = refused(add(&mut s, EXACT, vec![lpm(1, 2), exact(1)], 0));
    assert!(message.ends_with("an lpm match was given for an exact field"), "{message}");
    assert_eq!(kind(add(&mut s, LPM, vec![exact(1), lpm(0, 33)], 0)), bad);
    assert_eq!(kind(add(&mut s, RANGE, vec![range(5, 4)], 0)), bad);
    assert_eq!(kind(add(&mut s, RANGE, vec![range(5, 0x1_0000)], 0)), bad);
    let t = |t, o, v| vec![t, o, v, lpm(0, 0)];
    assert_eq!(
        kind(add(&mut s, TERNARY, t(ternary(0, 0x1_0000), exact(1), MatchParam::Valid(true)), 0)),
        bad
    );
    assert_eq!(
        kind(add(&mut s, TERNARY, t(ternary(0, 0), ternary(1, 0xff), MatchParam::Valid(true)), 0)),
        bad
    );
    assert_eq!(kind(add(&mut s, TERNARY, t(ternary(0, 0), exact(1), exact(1)), 0)), bad);
    assert_eq!(kind(add(&mut s, KEYLESS, vec![], 0)), ErrorKind::NoTableKey);
    assert_eq!(kind(add(&mut s, TableId(99), vec![], 0)), ErrorKind::InvalidTableName);
    assert_eq!(s.num_entries(EXACT), Ok(0));
}

#[test]
fn bits_that_do_not_count_are_cut_before_keys_are_compared() {
    let mut s = store();
    let first = add(&mut s, LPM, vec![exact(1), lpm(0x0a01_0203, 8)], 5).unwrap();
    assert_eq!(s.entry(LPM, first).unwrap().key, vec![exact(1), lpm(0x0a00_0000, 8)]);
    assert_eq!(s.entry(LPM, first).unwrap().priority, 0, "a table without priorities keeps none");
    assert_eq!(kind(add(&mut s, LPM, vec![exact(1), lpm(0x0aff_0000, 8)], 6)), ErrorKind::DuplicateEntry);
    add(&mut s, LPM, vec![exact(1), lpm(0x0a00_0000, 9)], 0).unwrap();
    add(&mut s, LPM, vec![exact(2), lpm(0x0a00_0000, 8)], 0).unwrap();

    let key = |o: MatchParam| vec![ternary(0x12ff, 0xff00), o, MatchParam::Valid(true), lpm(7, 0)];
    let a = add(&mut s, TERNARY, key(exact(5)), 1).unwrap();
    let full = ternary(5, 0x1ff);
    assert_eq!(
        s.entry(TERNARY, a).unwrap().key,
        vec![ternary(0x1200, 0xff00), full.clone(), MatchParam::Valid(true), lpm(0, 0)]
    );
    assert_eq!(kind(add(&mut s, TERNARY, key(full), 1)), ErrorKind::DuplicateEntry);
    add(&mut s, TERNARY, key(exact(5)), 2).expect("another priority is another entry");
    let open = add(&mut s, TERNARY, key(ternary(5, 0)), 1).unwrap();
    assert_eq!(s.entry(TERNARY, open).unwrap().key[1], ternary(0, 0));

    add(&mut s, RANGE, vec![range(1, 2)], 3).unwrap();
    assert_eq!(kind(add(&mut s, RANGE, vec![range(1, 2)], 3)), ErrorKind::DuplicateEntry);
    add(&mut s, RANGE, vec![range(1, 3)], 3).unwrap();

    assert_eq!(s.num_entries(MASKED), Ok(2), "what came with the program fits, whatever the size");
    assert_eq!(kind(add(&mut s, MASKED, vec![exact(0xf34f)], 0)), ErrorKind::DuplicateEntry);
    assert_eq!(s.entries(MASKED).unwrap()[0].key, vec![exact(0x120)]);
}

#[test]
fn actions_are_checked() {
    let mut s = store();
    let mut add = |action: TableAction| {
        s.add_entry(EXACT, &entry(vec![exact(1), exact(1)], action), 0, &mut Vec::new())
    };
    let call = |action, args: &[u64]| {
        TableAction::Call(ActionCall { action, args: args.iter().map(|a| n(*a)).collect() })
    };
    let (kind_, message) = refused(add(call(OTHER, &[1])));
    assert_eq!(kind_, ErrorKind::InvalidActionName);
    assert!(message.contains("'ingress.other' is not one of table 'ingress.exact'"), "{message}");
    assert_eq!(kind(add(call(barewire_p4::ir::ActionId(77), &[]))), ErrorKind::InvalidActionName);
    assert_eq!(kind(add(call(FORWARD, &[1]))), ErrorKind::BadActionData);
    let (kind_, message) = refused(add(call(FORWARD, &[0x200, 1])));
    assert_eq!(kind_, ErrorKind::BadActionData);
    assert_eq!(message, "action 'ingress.forward', argument 'port': 0x200 is wider than 9 bits");
    assert_eq!(kind(add(TableAction::Member(0))), ErrorKind::WrongTableType);
    assert_eq!(kind(add(TableAction::Group(0))), ErrorKind::WrongTableType);
    let handle = add(call(FORWARD, &[0x1ff, 0xffff_ffff_ffff])).unwrap();
    assert_eq!(s.entry(EXACT, handle).unwrap().action, call(FORWARD, &[0x1ff, 0xffff_ffff_ffff]));
    assert_eq!(
        kind(s.modify_entry(EXACT, handle, &call(NOP, &[1]), &mut Vec::new())),
        ErrorKind::BadActionData
    );
    s.modify_entry(EXACT, handle, &nop(), &mut Vec::new()).unwrap();
    assert_eq!(s.entry(EXACT, handle).unwrap().action, nop());
}

#[test]
fn handles_are_the_lowest_free_index_with_its_version() {
    let mut s = store();
    let out = &mut Vec::new();
    let key = |i| vec![exact(i), exact(0)];
    for i in 0..3 {
        assert_eq!(add(&mut s, EXACT, key(i), 0), Ok(i));
    }
    s.delete_entry(EXACT, 1, out).unwrap();
    assert_eq!(kind(s.delete_entry(EXACT, 1, out)), ErrorKind::InvalidHandle);
    assert_eq!(kind(s.entry(EXACT, 3)), ErrorKind::InvalidHandle);
    s.delete_entry(EXACT, 0, out).unwrap();
    assert_eq!(add(&mut s, EXACT, key(7), 0), Ok(1 << 32));
    assert_eq!(add(&mut s, EXACT, key(8), 0), Ok(1 << 32 | 1));
    assert_eq!(add(&mut s, EXACT, key(9), 0), Ok(3));
    let (kind_, message) = refused(s.modify_entry(EXACT, 1, &nop(), out));
    assert_eq!(kind_, ErrorKind::ExpiredHandle);
    assert!(message.contains(&(1u64 << 32 | 1).to_string()), "{message}");
    assert_eq!(kind(s.set_entry_ttl(EXACT, 1, 5, 0)), ErrorKind::ExpiredHandle);
    assert_eq!(kind(s.set_entry_cookie(EXACT, 1, vec![])), ErrorKind::ExpiredHandle);
    assert_eq!(kind(s.entry(EXACT, 2 << 32)), ErrorKind::ExpiredHandle);
    let versions = 255;
    for _ in 0..versions {
        let handle = s.handle_by_key(EXACT, &key(9), None).unwrap();
        s.delete_entry(EXACT, handle, out).unwrap();
        add(&mut s, EXACT, key(9), 0).unwrap();
    }
    assert_eq!(s.handle_by_key(EXACT, &key(9), None), Ok(255 << 32 | 3));
    s.delete_entry(EXACT, 255 << 32 | 3, out).unwrap();
    assert_eq!(add(&mut s, EXACT, key(9), 0), Ok(3), "8 bits of version");
    s.clear_table(EXACT, false, out).unwrap();
    assert_eq!(add(&mut s, EXACT, key(9), 0), Ok(0), "as after start");
}

#[test]
fn tables_are_full_at_their_size() {
    let mut s = store();
    for i in 0..4 {
        add(&mut s, LPM, vec![exact(i), lpm(0, 0)], 0).unwrap();
    }
    assert_eq!(
        kind(add(&mut s, LPM, vec![exact(0), lpm(0, 0)], 0)),
        ErrorKind::DuplicateEntry,
        "comes first"
    );
    assert_eq!(kind(add(&mut s, LPM, vec![exact(9), lpm(0, 0)], 0)), ErrorKind::TableFull);
    s.delete_entry(LPM, 2, &mut Vec::new()).unwrap();
    add(&mut s, LPM, vec![exact(9), lpm(0, 0)], 0).unwrap();
}

#[test]
fn const_tables_and_defaults_stay() {
    let mut s = store();
    let out = &mut Vec::new();
    let immutable = ErrorKind::ImmutableTableEntries;
    assert!(s.entries(CONST).unwrap().iter().all(|e| e.is_const) && s.num_entries(CONST) == Ok(2));
    assert!(s.entries(MASKED).unwrap().iter().all(|e| !e.is_const));
    assert_eq!(kind(add(&mut s, CONST, vec![exact(3)], 0)), immutable);
    assert_eq!(kind(s.delete_entry(CONST, 0, out)), immutable);
    assert_eq!(kind(s.modify_entry(CONST, 0, &nop(), out)), immutable);
    assert_eq!(kind(s.clear_table(CONST, false, out)), immutable);
    assert_eq!(kind(s.set_default(CONST, &nop(), out)), ErrorKind::DefaultEntryIsConst);
    assert_eq!(kind(s.set_default(KEYLESS, &nop(), out)), ErrorKind::DefaultActionIsConst);
    s.set_default(KEYLESS, &forward(9), out).expect("other arguments");
    assert_eq!(s.default_entry(KEYLESS), Ok(Some(forward(9))));
    s.reset_default(KEYLESS, out).unwrap();
    assert_eq!(s.default_entry(KEYLESS), Ok(Some(forward(1))));
    assert_eq!(kind(s.set_default(EXACT, &TableAction::Member(0), out)), ErrorKind::WrongTableType);
    s.set_default(EXACT, &forward(4), out).unwrap();
    s.clear_table(EXACT, false, out).unwrap();
    assert_eq!(s.default_entry(EXACT), Ok(Some(forward(4))));
    s.clear_table(EXACT, true, out).unwrap();
    assert_eq!(s.default_entry(EXACT), Ok(Some(nop())));
}

#[test]
fn members_and_groups_know_who_uses_them() {
    let mut s = store();
    let out = &mut Vec::new();
    let member = |s: &mut Store, p, id| s.add_member(p, id, forward_call(1), &mut Vec::new());
    assert_eq!(member(&mut s, PLAIN, None), Ok(0));
    assert_eq!(member(&mut s, PLAIN, Some(u32::MAX)), Ok(u32::MAX));
    assert_eq!(member(&mut s, PLAIN, None), Ok(1));
    assert_eq!(kind(member(&mut s, PLAIN, None)), ErrorKind::TableFull);
    s.delete_member(PLAIN, 0, out).unwrap();
    assert_eq!(kind(member(&mut s, PLAIN, Some(1))), ErrorKind::DuplicateEntry);
    assert_eq!(member(&mut s, PLAIN, None), Ok(0));
    assert_eq!(
        kind(s.add_member(PLAIN, None, ActionCall { action: OTHER, args: vec![n(1)] }, out)),
        ErrorKind::InvalidActionName
    );
    assert_eq!(kind(s.modify_member(PLAIN, 5, forward_call(1), out)), ErrorKind::InvalidMember);
    assert_eq!(
        kind(s.modify_member(PLAIN, 0, ActionCall { action: NOP, args: vec![n(1)] }, out)),
        ErrorKind::BadActionData
    );
    assert_eq!(kind(s.delete_member(PLAIN, 5, out)), ErrorKind::InvalidMember);
    assert_eq!(kind(s.add_group(PLAIN, None, &[], 0, out)), ErrorKind::NoActionProfileSelection);
    assert_eq!(kind(s.group(PLAIN, 0)), ErrorKind::NoActionProfileSelection);

    let mut set = |s: &mut Store, t, k, action| s.add_entry(t, &entry(vec![exact(k)], action), 0, out);
    assert_eq!(kind(set(&mut s, MEMBERS, 1, forward(1))), ErrorKind::WrongTableType);
    assert_eq!(kind(set(&mut s, MEMBERS, 1, TableAction::Member(9))), ErrorKind::InvalidMember);
    assert_eq!(kind(set(&mut s, MEMBERS, 1, TableAction::Group(0))), ErrorKind::WrongTableType);
    assert_eq!(kind(set(&mut s, GROUPS, 1, TableAction::Group(0))), ErrorKind::InvalidGroup);
    let entry_ = set(&mut s, MEMBERS, 1, TableAction::Member(u32::MAX)).unwrap();
    assert_eq!(kind(s.delete_member(PLAIN, u32::MAX, out)), ErrorKind::MemberStillUsed);
    s.modify_entry(MEMBERS, entry_, &TableAction::Member(0), out).unwrap();
    s.delete_member(PLAIN, u32::MAX, out).unwrap();
    assert_eq!(
        kind(s.modify_entry(MEMBERS, entry_, &TableAction::Member(u32::MAX), out)),
        ErrorKind::InvalidMember
    );
    assert_eq!(
        kind(s.delete_member(PLAIN, 0, out)),
        ErrorKind::MemberStillUsed,
        "the failed change changed nothing"
    );
    s.set_default(MEMBERS, &TableAction::Member(0), out).unwrap();
    s.clear_table(MEMBERS, false, out).unwrap();
    assert_eq!(kind(s.delete_member(PLAIN, 0, out)), ErrorKind::MemberStillUsed, "by the default entry");
    s.reset_default(MEMBERS, out).unwrap();
    s.delete_member(PLAIN, 0, out).unwrap();

    for id in [30, 10, 20] {
        member(&mut s, SELECTED, Some(id)).unwrap();
    }
    let group = s.add_group(SELECTED, None, &[], 0, out).unwrap();
    assert_eq!(group, 0);
    let on_it = s.add_entry(GROUPS, &entry(vec![exact(1)], TableAction::Group(0)), 0, out);
    let on_it = on_it.expect("an empty group will do: its ports may all be down");
    s.modify_entry(GROUPS, on_it, &TableAction::Group(0), out).expect("and stays");
    s.delete_entry(GROUPS, on_it, out).unwrap();
    s.set_default(GROUPS, &TableAction::Group(0), out).unwrap();
    s.add_to_group(SELECTED, 30, 0, out).unwrap();
    s.add_to_group(SELECTED, 10, 0, out).unwrap();
    assert_eq!(s.group(SELECTED, 0).unwrap().members, [(10, 1), (30, 1)], "in order of their numbers");
    assert_eq!(kind(s.add_to_group(SELECTED, 30, 0, out)), ErrorKind::MemberAlreadyInGroup);
    assert_eq!(kind(s.add_to_group(SELECTED, 31, 0, out)), ErrorKind::InvalidMember);
    assert_eq!(kind(s.add_to_group(SELECTED, 30, 1, out)), ErrorKind::InvalidGroup);
    assert_eq!(kind(s.remove_from_group(SELECTED, 20, 0, out)), ErrorKind::MemberNotInGroup);
    assert_eq!(kind(s.delete_member(SELECTED, 30, out)), ErrorKind::MemberStillUsed);
    assert_eq!(kind(s.delete_group(SELECTED, 0, out)), ErrorKind::GroupStillUsed);
    s.reset_default(GROUPS, out).unwrap();
    s.remove_from_group(SELECTED, 30, 0, out).unwrap();
    s.delete_member(SELECTED, 30, out).unwrap();
    s.delete_group(SELECTED, 0, out).unwrap();
    s.delete_member(SELECTED, 10, out).expect("the group is gone");

    member(&mut s, SELECTED, Some(10)).unwrap();
    let full = ErrorKind::TableFull;
    assert_eq!(kind(s.add_group(SELECTED, Some(5), &[(10, 3), (20, 2)], 4, out)), full);
    assert_eq!(kind(s.add_group(SELECTED, Some(5), &[(10, 65_537)], 0, out)), full);
    assert_eq!(kind(s.add_group(SELECTED, Some(5), &[(10, 0)], 0, out)), ErrorKind::Other);
    assert_eq!(
        kind(s.add_group(SELECTED, Some(5), &[(10, 1), (10, 1)], 0, out)),
        ErrorKind::MemberAlreadyInGroup
    );
    assert_eq!(kind(s.add_group(SELECTED, Some(5), &[(11, 1)], 0, out)), ErrorKind::InvalidMember);
    assert_eq!(s.groups(SELECTED), Ok(vec![]));
    s.add_group(SELECTED, Some(5), &[(20, 2), (10, 2)], 4, out).unwrap();
    assert_eq!(kind(s.add_group(SELECTED, Some(5), &[], 0, out)), ErrorKind::DuplicateEntry);
    assert_eq!(kind(s.set_group(SELECTED, 5, &[(10, 5)], out)), full);
    s.set_group(SELECTED, 5, &[(20, 4)], out).unwrap();
    s.delete_member(SELECTED, 10, out).unwrap();
    assert_eq!(s.groups(SELECTED).unwrap(), [Group { handle: 5, members: vec![(20, 4)], max_size: 4 }]);
}

#[test]
fn ageing_meters_and_arrays_are_checked() {
    let mut s = store();
    let out = &mut Vec::new();
    let a = add(&mut s, EXACT, vec![exact(1), exact(1)], 0).unwrap();
    assert_eq!(kind(s.set_entry_ttl(LPM, 0, 5, 0)), ErrorKind::AgeingDisabled);
    let new = NewEntry { ttl_ms: 5, ..entry(vec![exact(1), lpm(0, 0)], nop()) };
    assert_eq!(kind(s.add_entry(LPM, &new, 0, out)), ErrorKind::AgeingDisabled);
    s.set_entry_ttl(EXACT, a, 5, 1000).unwrap();
    assert_eq!(s.ageing(), [(EXACT, vec![0])]);
    assert!(s.take_idle(EXACT, &[(0, 0), (7, 0)], 5999).is_empty());
    assert!(s.take_idle(EXACT, &[(0, 2000)], 6999).is_empty());
    assert_eq!(s.take_idle(EXACT, &[(0, 2000)], 7000), [a]);
    assert!(s.take_idle(EXACT, &[(0, 2000)], 11_999).is_empty(), "reported already");
    assert_eq!(s.take_idle(EXACT, &[(0, 2000)], 12_000), [a], "reported again");
    s.set_entry_ttl(EXACT, a, 0, 0).unwrap();
    assert!(s.ageing().is_empty() && s.take_idle(EXACT, &[(0, 0)], 99_000).is_empty());

    let rates = |all: &[(f64, u32)]| -> Vec<MeterRate> {
        all.iter()
            .map(|(units_per_us, burst)| MeterRate { units_per_us: *units_per_us, burst: *burst })
            .collect()
    };
    let two = rates(&[(0.5, 10), (1.0, 20)]);
    let m = MeterId(0);
    let wrong = ErrorKind::InvalidMeterOperation;
    assert_eq!(kind(s.set_meter(m, Range::One(0), &two[..1])), wrong);
    assert_eq!(kind(s.set_meter(m, Range::One(0), &rates(&[(2.0, 1), (1.0, 1)]))), wrong);
    assert_eq!(kind(s.set_meter(m, Range::One(0), &rates(&[(f64::NAN, 1), (1.0, 1)]))), wrong);
    assert_eq!(kind(s.set_meter(m, Range::One(0), &rates(&[(-1.0, 1), (1.0, 1)]))), wrong);
    assert_eq!(kind(s.set_meter(m, Range::One(3000), &two)), ErrorKind::InvalidIndex);
    assert_eq!(kind(s.set_meter(m, Range::One(u64::MAX), &two)), ErrorKind::InvalidIndex);
    assert_eq!(kind(s.set_meter(m, Range::Span(2, 1), &two)), ErrorKind::InvalidIndex);
    assert_eq!(kind(s.set_meter(MeterId(1), Range::All, &two)), wrong);
    assert_eq!(kind(s.set_meter(MeterId(9), Range::All, &two)), ErrorKind::InvalidMeterName);
    s.set_meter(m, Range::All, &two).unwrap();
    s.set_meter(m, Range::Span(10, 12), &[]).unwrap();
    let read = |s: &Store, at| s.meter_rates(m, at).unwrap().len();
    assert_eq!([read(&s, 9), read(&s, 10), read(&s, 11), read(&s, 12)], [2, 0, 0, 2]);
    assert_eq!(kind(s.set_direct_meter(LPM, 0, &two, out)), ErrorKind::MetersDisabled);
    assert_eq!(kind(s.set_direct_meter(EXACT, 9, &two, out)), ErrorKind::InvalidHandle);
    assert_eq!(s.direct_meter_rates(EXACT, a), Ok(vec![]));
    s.set_direct_meter(EXACT, a, &two, out).unwrap();
    assert_eq!(s.direct_meter_rates(EXACT, a), Ok(two));
    s.delete_entry(EXACT, a, out).unwrap();
    let b = add(&mut s, EXACT, vec![exact(1), exact(1)], 0).unwrap();
    assert_eq!(s.direct_meter_rates(EXACT, b), Ok(vec![]), "the next entry has none");

    assert_eq!(kind(s.check_direct_counter(LPM)), ErrorKind::CountersDisabled);
    assert_eq!(kind(s.counter_span(CounterId(1), Range::All)), ErrorKind::InvalidCounterName);
    assert_eq!(s.counter_span(CounterId(0), Range::All), Ok((0, 5000)));
    assert_eq!(kind(s.counter_span(CounterId(0), Range::Span(0, 5001))), ErrorKind::InvalidIndex);
    assert_eq!(s.register_span(RegisterId(1), Range::Span(2, 2)), Ok((2, 2)));
    assert_eq!(kind(s.register_span(RegisterId(7), Range::All)), ErrorKind::InvalidRegisterName);
    assert_eq!(kind(s.check_register_value(RegisterId(0), &n(1 << 48))), ErrorKind::BadActionData);

    let v = ValueSetId(0);
    assert_eq!(kind(s.value_set_add(v, vec![n(1)], out)), ErrorKind::BadMatchKey);
    assert_eq!(kind(s.value_set_add(v, vec![n(1), n(0x200)], out)), ErrorKind::BadMatchKey);
    for value in [5, 4, 5] {
        s.value_set_add(v, vec![n(value), n(1)], out).unwrap();
    }
    assert_eq!(kind(s.value_set_add(v, vec![n(6), n(1)], out)), ErrorKind::TableFull);
    assert_eq!(s.value_set(v).unwrap(), [vec![n(5), n(1)], vec![n(4), n(1)]]);
    s.value_set_remove(v, vec![n(9), n(1)], out).unwrap();
    s.value_set_remove(v, vec![n(5), n(1)], out).unwrap();
    assert_eq!(s.value_set(v).unwrap(), [vec![n(4), n(1)]]);

    let crc = Parameters::Crc16 {
        polynomial: 0x8005,
        initial: 0,
        final_xor: 0,
        reflect_data: true,
        reflect_remainder: true,
    };
    s.set_hash_parameters(CalculationId(0), crc.clone(), out).unwrap();
    assert_eq!(kind(s.set_hash_parameters(CalculationId(1), crc.clone(), out)), ErrorKind::Other);
    assert_eq!(kind(s.set_hash_parameters(CalculationId(2), crc.clone(), out)), ErrorKind::Other);
    assert_eq!(kind(s.set_hash_parameters(CalculationId(3), crc, out)), ErrorKind::InvalidCalculationName);
    assert_eq!(
        kind(s.set_hash_parameters(CalculationId(1), Parameters::Toeplitz(vec![1]), out)),
        ErrorKind::Other
    );
}

#[test]
fn a_program_with_one_entry_twice_is_refused() {
    let mut program = (*program()).clone();
    let again = program.tables[CONST.at()].entries[0].clone();
    program.tables[CONST.at()].entries.push(again);
    assert_eq!(kind(Store::new(Arc::new(program))), ErrorKind::BadProgram);
}

/// A replica that has seen the writes from the start, and one that was built from the store, agree with the store.
fn agree(s: &Store, replica: &mut ProgramState, seed: u64) {
    use barewire_p4::key::KeyLayout;
    use barewire_p4::state::State;
    let mut built = s.build_state();
    for table in [EXACT, LPM, TERNARY, RANGE, GROUPS] {
        let definition = &s.program().tables[table.at()];
        let layout = KeyLayout::of(definition);
        for entry in s.entries(table).unwrap() {
            let mut words = vec![0; layout.words as usize];
            for (at, param) in entry.key.iter().enumerate() {
                let value = match param {
                    MatchParam::Exact(value)
                    | MatchParam::Lpm { value, .. }
                    | MatchParam::Ternary { value, .. } => value.clone(),
                    MatchParam::Valid(valid) => n(u64::from(*valid)),
                    MatchParam::Range { high, .. } => high.clone(),
                };
                layout.put(&mut words, at, &value);
            }
            let a = replica.apply(table, &words, 1, 1, &mut || 7);
            let b = built.apply(table, &words, 1, 1, &mut || 7);
            assert_eq!(a, b, "seed {seed}, table {}, entry {entry:?}", definition.name);
            assert!(a.hit, "seed {seed}, table {}, entry {entry:?}", definition.name);
            if table == EXACT {
                assert_eq!(a.handle, Some(entry.handle & 0xffff_ffff), "seed {seed}");
            }
        }
    }
}

fn applies(write: Write, replica: &mut ProgramState) -> bool {
    match write {
        Write::State(write) => write.apply(replica),
        _ => false,
    }
}

/// Table, key as text, priority.
type ModelKey = (u32, String, u32);

/// Random writes against plain maps; every answer, and at the end every entry, is the same.
#[test]
fn random_writes_do_what_a_naive_map_does() {
    for seed in 0..20u64 {
        let mut prng = Prng::new(seed);
        let mut s = store();
        let mut replica = s.build_state();
        let mut model: HashMap<ModelKey, (u64, TableAction)> = HashMap::new();
        let mut versions: HashMap<(u32, u32), u32> = HashMap::new();
        let mut dead: Vec<(TableId, u64)> = Vec::new();
        for id in 0..4 {
            let mut out = Vec::new();
            s.add_member(SELECTED, Some(id * 1000), forward_call(u64::from(id)), &mut out).unwrap();
            s.add_group(
                SELECTED,
                Some(id * 7 + 1),
                &[(0, 1), (id * 1000, 2)][usize::from(id == 0)..],
                0,
                &mut out,
            )
            .unwrap();
            assert!(out.into_iter().all(|w| applies(w, &mut replica)));
        }
        for _ in 0..2000 {
            let table = [EXACT, LPM, TERNARY, RANGE, GROUPS][prng.below(5) as usize];
            let small = |prng: &mut Prng| prng.below(6);
            let key = match table {
                EXACT => vec![exact(small(&mut prng)), exact(small(&mut prng))],
                LPM => vec![exact(prng.below(2)), lpm(prng.below(4) << 30, prng.below(3) as u32)],
                TERNARY => vec![
                    ternary(small(&mut prng), small(&mut prng)),
                    ternary(1, if prng.chance(0.5) { 0x1ff } else { 0 }),
                    MatchParam::Valid(prng.chance(0.5)),
                    lpm(0, 3),
                ],
                RANGE => vec![range(prng.below(3), 3 + prng.below(3))],
                _ => vec![exact(small(&mut prng))],
            };
            let normal: Vec<MatchParam> = key
                .iter()
                .map(|param| match param {
                    MatchParam::Lpm { value, prefix_len } => MatchParam::Lpm {
                        value: (value >> (32 - prefix_len)) << (32 - prefix_len),
                        prefix_len: *prefix_len,
                    },
                    MatchParam::Ternary { value, mask } => {
                        MatchParam::Ternary { value: value & mask, mask: mask.clone() }
                    }
                    other => other.clone(),
                })
                .collect();
            let normal = format!("{normal:?}");
            let given = prng.below(2) as u32;
            let priority = if table == TERNARY || table == RANGE { given } else { 0 };
            let action = match table {
                GROUPS if prng.chance(0.5) => TableAction::Group(prng.below(4) as u32 * 7 + 1),
                GROUPS => TableAction::Member(prng.below(4) as u32 * 1000),
                _ => forward(prng.below(100)),
            };
            let mut out = Vec::new();
            let known = model.get(&(table.0, normal.clone(), priority)).cloned();
            match prng.below(4) {
                0 | 1 => {
                    let new = NewEntry { priority: given, ..entry(key, action.clone()) };
                    let result = s.add_entry(table, &new, 0, &mut out);
                    let count = model.keys().filter(|(t, _, _)| *t == table.0).count();
                    if known.is_some() {
                        assert_eq!(kind(result), ErrorKind::DuplicateEntry, "seed {seed}");
                    } else if table == LPM && count == 4 {
                        assert_eq!(kind(result), ErrorKind::TableFull, "seed {seed}");
                    } else {
                        let handle = result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                        let version = versions.get(&(table.0, handle as u32)).copied().unwrap_or(0);
                        assert_eq!(handle >> 32, u64::from(version), "seed {seed}");
                        let taken: Vec<u32> =
                            model.iter().filter(|(k, _)| k.0 == table.0).map(|(_, v)| v.0 as u32).collect();
                        let free = (0..).find(|index| !taken.contains(index));
                        assert_eq!(Some(handle as u32), free, "seed {seed}: the lowest free index");
                        model.insert((table.0, normal, priority), (handle, action));
                    }
                }
                2 => match known {
                    Some((handle, _)) => {
                        s.modify_entry(table, handle, &action, &mut out).unwrap();
                        model.insert((table.0, normal, priority), (handle, action));
                    }
                    None => {
                        assert_eq!(kind(s.handle_by_key(table, &key, Some(given))), ErrorKind::BadMatchKey);
                        if let Some((table, handle)) = dead.last() {
                            let action = if *table == GROUPS { TableAction::Member(0) } else { nop() };
                            let kind = kind(s.modify_entry(*table, *handle, &action, &mut out));
                            assert!(matches!(kind, ErrorKind::InvalidHandle | ErrorKind::ExpiredHandle));
                        }
                    }
                },
                _ => {
                    if let Some((handle, _)) = known {
                        assert_eq!(s.handle_by_key(table, &key, Some(given)), Ok(handle), "seed {seed}");
                        s.delete_entry(table, handle, &mut out).unwrap();
                        model.remove(&(table.0, normal, priority));
                        *versions.entry((table.0, handle as u32)).or_default() += 1;
                        dead.push((table, handle));
                    }
                }
            }
            assert!(
                out.into_iter().all(|w| applies(w, &mut replica)),
                "seed {seed}: a replica accepts what the store accepted"
            );
        }
        for table in [EXACT, LPM, TERNARY, RANGE, GROUPS] {
            let mut here: Vec<_> = s
                .entries(table)
                .unwrap()
                .into_iter()
                .map(|e| (e.handle, format!("{:?}", e.key), e.priority, e.action))
                .collect();
            let of_table = model.iter().filter(|(key, _)| key.0 == table.0);
            let mut there: Vec<_> = of_table
                .map(|((_, key, p), (handle, action))| (*handle, key.clone(), *p, action.clone()))
                .collect();
            here.sort_by_key(|e| e.0 as u32);
            there.sort_by_key(|e| e.0 as u32);
            assert_eq!(here, there, "seed {seed}");
        }
        agree(&s, &mut replica, seed);
    }
}

#[test]
fn what_is_saved_comes_back_with_its_handles() {
    let mut s = store();
    let out = &mut Vec::new();
    for i in 0..5 {
        add(&mut s, EXACT, vec![exact(i), exact(1)], 0).unwrap();
    }
    s.delete_entry(EXACT, 1, out).unwrap();
    s.delete_entry(EXACT, 3, out).unwrap();
    add(&mut s, EXACT, vec![exact(9), exact(1)], 0).unwrap();
    s.set_entry_ttl(EXACT, 0, 77, 0).unwrap();
    s.set_entry_cookie(EXACT, 0, vec![1, 2]).unwrap();
    let rate = MeterRate { units_per_us: 0.125, burst: 9 };
    s.set_direct_meter(EXACT, 0, &[rate, rate], out).unwrap();
    s.set_meter(MeterId(0), Range::All, &[rate, rate]).unwrap();
    s.set_meter(MeterId(0), Range::One(4), &[]).unwrap();
    add(&mut s, RANGE, vec![range(3, 9)], 5).unwrap();
    add(&mut s, TERNARY, vec![ternary(3, 3), exact(1), MatchParam::Valid(true), lpm(1 << 31, 1)], 5).unwrap();
    s.delete_entry(MASKED, 0, out).unwrap();
    s.set_default(KEYLESS, &forward(3), out).unwrap();
    s.add_member(SELECTED, Some(4_000_000_000), forward_call(5), out).unwrap();
    s.add_group(SELECTED, Some(3), &[(4_000_000_000, 2)], 8, out).unwrap();
    s.add_entry(GROUPS, &entry(vec![exact(1)], TableAction::Group(3)), 0, out).unwrap();
    s.set_group(SELECTED, 3, &[], out).unwrap();
    s.value_set_add(ValueSetId(0), vec![n(1), n(2)], out).unwrap();
    s.set_hash_parameters(CalculationId(1), Parameters::Toeplitz(vec![1, 2, 3, 4]), out).unwrap();

    let json = serde_json::to_string(&s.save()).unwrap();
    let mut t = Store::restore(program(), serde_json::from_str(&json).unwrap(), 0).unwrap();
    for at in 0..s.tables.len() {
        let id = TableId::from(at);
        assert_eq!(s.entries(id), t.entries(id));
        assert_eq!(s.default_entry(id), t.default_entry(id));
    }
    assert_eq!(s.members(SELECTED), t.members(SELECTED));
    assert_eq!(s.groups(SELECTED), t.groups(SELECTED));
    assert_eq!(t.direct_meter_rates(EXACT, 0), Ok(vec![rate, rate]));
    assert_eq!(
        (t.meter_rates(MeterId(0), 3).unwrap().len(), t.meter_rates(MeterId(0), 4).unwrap().len()),
        (2, 0)
    );
    assert_eq!(t.value_set(ValueSetId(0)), s.value_set(ValueSetId(0)));
    assert_eq!(serde_json::to_string(&t.save()).unwrap(), json);
    assert_eq!(kind(t.delete_group(SELECTED, 3, out)), ErrorKind::GroupStillUsed, "uses are counted again");
    assert_eq!(
        add(&mut t, EXACT, vec![exact(77), exact(1)], 0),
        Ok(3),
        "the gap is free; its version is not kept"
    );
    let mut replica = t.build_state();
    agree(&t, &mut replica, 0);
    assert_eq!(replica.tables[EXACT.at()].len(), t.num_entries(EXACT).unwrap());

    for (from, to) in [
        ("\"ingress.exact\"", "\"ingress.exakt\""),
        ("\"ingress.forward\"", "\"ingress.forwart\""),
        ("{\"exact\":\"0x9\"}", "{\"exact\":\"9\"}"),
        ("{\"exact\":\"0x9\"}", "{\"exact\":\"0x4\"}"),
        ("{\"exact\":\"0x9\"}", "{\"exact\":\"0x100000000\"}"),
        ("{\"group\":3}", "{\"group\":4}"),
        ("\"index\":2,", "\"index\":16777217,"),
        ("\"index\":2,", "\"index\":0,"),
        ("\"members\":[],\"max_size\":8", "\"members\":[[5,1]],\"max_size\":8"),
        ("\"ttl_ms\":77", "\"ttl_us\":77"),
    ] {
        assert!(json.contains(from), "{from} in {json}");
        let read: std::result::Result<SavedStore, _> = serde_json::from_str(&json.replacen(from, to, 1));
        assert!(read.is_err() || Store::restore(program(), read.unwrap(), 0).is_err(), "{from} -> {to}");
    }
    let mut prng = Prng::new(1);
    for _ in 0..5000 {
        // Whatever comes of it, nothing breaks.
        let mut bytes = json.clone().into_bytes();
        for _ in 0..1 + prng.below(3) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] = b"0123456789[]{},\"x"[prng.below(17) as usize];
        }
        if let Ok(read) = serde_json::from_slice::<SavedStore>(&bytes)
            && let Ok(store) = Store::restore(program(), read, 0)
        {
            agree(&store, &mut store.build_state(), 1);
        }
    }
}

/// A million entries, and taking half of them out again; how fast is told.
#[test]
fn a_million_entries_are_fine() {
    let started = barewire_engine::now();
    let mut s = store();
    let out = &mut Vec::new();
    let count = 1_000_000u64;
    for i in 0..count {
        let new = entry(vec![exact((i * 4095) & 0xffff_ffff), exact(i & 0x1ff)], forward(i & 0x1ff));
        s.add_entry(EXACT, &new, 0, out).unwrap();
        out.clear();
    }
    for i in (0..count).step_by(2) {
        s.delete_entry(EXACT, i, out).unwrap();
        out.clear();
    }
    assert_eq!(s.num_entries(EXACT), Ok(500_000));
    assert_eq!(s.handle_by_key(EXACT, &[exact(4095 * 3), exact(3)], None), Ok(3));
    let seconds = (barewire_engine::now().as_nanos() - started.as_nanos()) as f64 / 1e9;
    let rate = 1.5 * count as f64 / seconds;
    eprintln!("{rate:.0} writes/s to the store");
}
