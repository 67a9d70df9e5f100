//! bmv2's rules, one by one.

use super::*;
use crate::ir::{
    Action, ActionId, Calculation, MeterArray, Param, RegisterArray, Table as IrTable, ValueSet,
};

fn n(value: u64) -> BigUint {
    BigUint::from(value)
}

fn table(name: &str, kind: TableKind, key: &[(MatchKind, u32)]) -> IrTable {
    let field = |&(kind, width): &(MatchKind, u32)| crate::ir::KeyField {
        name: "k".to_owned(),
        kind,
        source: crate::ir::KeySource::Valid(crate::ir::HeaderId(0).into()),
        width,
        mask: None,
    };
    let key = key.iter().map(field).collect();
    IrTable {
        default: Some(ActionCall { action: ActionId(0), args: vec![n(99)] }),
        ..IrTable::new(name, kind, key, vec![ActionId(0)], 16)
    }
}

const EXACT: TableId = TableId(0);
const LPM: TableId = TableId(1);
const TERNARY: TableId = TableId(2);
const RANGE: TableId = TableId(3);

fn state() -> PlainState {
    let program = Program {
        value_sets: vec![ValueSet { name: "v".to_owned(), widths: vec![8], max_size: 4 }],
        actions: vec![Action {
            name: "a".to_owned(),
            id: 0,
            params: vec![Param { name: "p".to_owned(), width: 100 }],
            body: Vec::new(),
        }],
        tables: vec![
            table("exact", TableKind::Exact, &[(MatchKind::Exact, 9), (MatchKind::Valid, 1)]),
            table("lpm", TableKind::Lpm, &[(MatchKind::Exact, 8), (MatchKind::Lpm, 32)]),
            table("ternary", TableKind::Ternary, &[(MatchKind::Ternary, 16), (MatchKind::Lpm, 8)]),
            table("range", TableKind::Range, &[(MatchKind::Range, 16), (MatchKind::Optional, 8)]),
        ],
        meters: vec![MeterArray {
            name: "m".to_owned(),
            id: 0,
            size: 2,
            unit: MeterUnit::Packets,
            rate_count: 2,
            direct: None,
            result: None,
        }],
        registers: vec![RegisterArray {
            name: "r".to_owned(),
            id: 0,
            size: 2,
            width: 70,
            initial: BigUint::ZERO,
        }],
        calculations: vec![Calculation {
            name: "c".to_owned(),
            algorithm: HashAlgorithm::Crc16Custom,
            input: Vec::new(),
        }],
        ..Program::empty()
    };
    PlainState::new(Arc::new(program))
}

fn call(arg: u64) -> TableAction {
    TableAction::Call(ActionCall { action: ActionId(0), args: vec![n(arg)] })
}

/// The argument of the action that a key leads to.
fn look(state: &mut PlainState, table: TableId, key: &[u64]) -> (Option<u64>, u64) {
    let layout = state.tables[table.at()].layout.clone();
    let mut words = vec![0; layout.words as usize];
    for (slot, &value) in key.iter().enumerate() {
        layout.put(&mut words, slot, &n(value));
    }
    let applied = state.apply(table, &words, 64, 7, &mut || 0);
    assert_eq!(applied.hit, applied.handle.is_some());
    (applied.handle, applied.args[0])
}

#[test]
fn exact_entries_and_what_is_refused() {
    let mut s = state();
    let key = |value, valid| [MatchParam::Exact(n(value)), MatchParam::Valid(valid)];
    s.insert(EXACT, 7, &key(0x1ff, true), 0, call(1)).unwrap();
    assert_eq!(look(&mut s, EXACT, &[0x1ff, 1]), (Some(7), 1));
    assert_eq!(look(&mut s, EXACT, &[0x1ff, 0]), (None, 99));
    let again = s.insert(EXACT, 8, &key(0x1ff, true), 5, call(1));
    assert_eq!(again, Err(PlainError::Duplicate { handle: 7 }));
    assert_eq!(
        s.insert(EXACT, 7, &key(1, true), 0, call(1)),
        Err(PlainError::Taken { kind: "entry", handle: 7 })
    );
    let short = s.insert(EXACT, 1, &key(1, true)[..1], 0, call(1));
    assert_eq!(short, Err(PlainError::KeyFields { expected: 2, found: 1 }));
    let wrong = [MatchParam::Valid(true), MatchParam::Valid(true)];
    assert_eq!(s.insert(EXACT, 1, &wrong, 0, call(1)), Err(PlainError::KeyKind { field: 0 }));
    assert_eq!(s.insert(EXACT, 1, &key(1, true), 0, TableAction::Member(0)), Err(PlainError::Action));
    let wide = TableAction::Call(ActionCall { action: ActionId(0), args: vec![n(1) << 100] });
    assert_eq!(s.insert(EXACT, 1, &key(1, true), 0, wide), Err(PlainError::Action));
    assert!(matches!(s.insert(TableId(9), 1, &[], 0, call(1)), Err(PlainError::Unknown { .. })));
    s.modify(EXACT, 7, call(2)).unwrap();
    assert_eq!(look(&mut s, EXACT, &[0x1ff, 1]), (Some(7), 2));
    s.remove(EXACT, 7).unwrap();
    assert_eq!(s.remove(EXACT, 7), Err(PlainError::Missing { kind: "entry", handle: 7 }));
    s.set_default(EXACT, None).unwrap();
    assert_eq!(s.apply(EXACT, &[0], 1, 1, &mut || 0).action, None);
}

#[test]
fn the_longest_prefix_wins() {
    let mut s = state();
    let key = |port, value, prefix_len| {
        [MatchParam::Exact(n(port)), MatchParam::Lpm { value: n(value), prefix_len }]
    };
    for (handle, (value, len)) in
        [(0, 0), (0x0a00_0000, 8), (0x0a01_0000, 16), (0x0a01_0203, 32)].into_iter().enumerate()
    {
        s.insert(LPM, handle as u32, &key(1, value, len), 0, call(handle as u64)).unwrap();
    }
    for (address, entry) in [(0x0a01_0203, 3), (0x0a01_0204, 2), (0x0a02_0000, 1), (0x0b00_0000, 0)] {
        assert_eq!(look(&mut s, LPM, &[1, address]), (Some(entry), entry), "{address:#x}");
    }
    assert_eq!(look(&mut s, LPM, &[2, 0x0a01_0203]), (None, 99), "the exact part differs");
}

#[test]
fn lower_priorities_win_then_lower_handles() {
    let mut s = state();
    let key = |value, mask, len| {
        [
            MatchParam::Ternary { value: n(value), mask: n(mask) },
            MatchParam::Lpm { value: n(0), prefix_len: len },
        ]
    };
    s.insert(TERNARY, 5, &key(0, 0, 0), 30, call(5)).unwrap();
    s.insert(TERNARY, 4, &key(0x12, 0xff, 0), 20, call(4)).unwrap();
    s.insert(TERNARY, 9, &key(0x1200, 0xff00, 0), 10, call(9)).unwrap();
    s.insert(TERNARY, 2, &key(0x1200, 0xff00, 1), 10, call(2)).unwrap();
    assert_eq!(look(&mut s, TERNARY, &[0x1212, 0]), (Some(2), 2));
    assert_eq!(look(&mut s, TERNARY, &[0x1212, 0x80]), (Some(9), 9));
    assert_eq!(look(&mut s, TERNARY, &[0x3412, 0]), (Some(4), 4));
    assert_eq!(look(&mut s, TERNARY, &[0, 0]), (Some(5), 5));
    let same = s.insert(TERNARY, 1, &key(0, 0, 0), 30, call(0));
    assert_eq!(same, Err(PlainError::Duplicate { handle: 5 }));
    s.insert(TERNARY, 1, &key(0, 0, 0), 31, call(0)).expect("another priority makes another entry");
}

#[test]
fn ranges_and_optional_fields() {
    let mut s = state();
    let key = |low, high, optional: Option<u64>| {
        let (value, mask) = optional.map_or((0, 0), |value| (value, 0xff));
        [
            MatchParam::Range { low: n(low), high: n(high) },
            MatchParam::Ternary { value: n(value), mask: n(mask) },
        ]
    };
    s.insert(RANGE, 0, &key(100, 200, Some(6)), 1, call(0)).unwrap();
    s.insert(RANGE, 1, &key(150, 0xffff, None), 2, call(1)).unwrap();
    for (port, protocol, entry) in [
        (100, 6, Some(0)),
        (200, 6, Some(0)),
        (200, 17, Some(1)),
        (99, 6, None),
        (0xffff, 0, Some(1)),
        (149, 17, None),
    ] {
        assert_eq!(look(&mut s, RANGE, &[port, protocol]).0, entry, "{port} {protocol}");
    }
}

#[test]
fn two_rates_three_colours() {
    // bmv2's own example: committed 2 packets a second with a burst of 3, peak 10 a second with a burst of 1.
    let mut s = state();
    let rates = [Rate { per_us: 0.000_002, burst: 3 }, Rate { per_us: 0.000_01, burst: 1 }];
    s.set_rates(MeterId(0), 1, &rates).unwrap();
    let times = [0, 90, 180, 270, 360, 450, 540, 630, 720, 810, 820, 830, 1040];
    let colors = times.map(|ms| s.meter(MeterId(0), 1, 128, ms * 1000, 0));
    assert_eq!(colors, [0, 2, 0, 0, 1, 1, 0, 1, 1, 1, 2, 2, 0]);
    assert_eq!(s.meter(MeterId(0), 0, 128, 0, 0), 0, "no rates");
    assert_eq!(s.meter(MeterId(0), 0, 128, 0, 1), 1, "never below the colour it had");
    assert_eq!(s.meter(MeterId(0), 2, 128, 0, 1), 0, "out of range");
    let expected = PlainError::Rates { expected: 2 };
    assert_eq!(s.set_rates(MeterId(0), 0, &rates[..1]), Err(expected.clone()));
    assert_eq!(s.set_rates(MeterId(0), 0, &[rates[1], rates[0]]), Err(expected));
    s.set_rates(MeterId(0), 1, &[]).unwrap();
    assert_eq!(s.meter(MeterId(0), 1, 128, 0, 0), 0);
}

#[test]
fn registers_value_sets_and_parameters() {
    let mut s = state();
    let (r, v, c) = (RegisterId(0), ValueSetId(0), CalculationId(0));
    s.set_register(r, 1, &((n(1) << 80_u8) + 5_u8));
    assert_eq!((s.register(r, 1), s.register(r, 2), s.register(r, u64::MAX)), (n(5), n(0), n(0)));
    s.insert_value(v, vec![n(0x45)]).unwrap();
    assert!(s.value_set_contains(v, &[n(0x45)], None));
    assert!(s.value_set_contains(v, &[n(0x40)], Some(&[n(0xf0)])));
    assert!(!s.value_set_contains(v, &[n(0x46)], None));
    assert!(s.insert_value(v, vec![]).is_err());
    assert!(s.remove_value(v, &[n(0x45)]) && !s.remove_value(v, &[n(0x45)]));
    let toeplitz = Parameters::Toeplitz(vec![0; 4]);
    assert_eq!(s.set_hash_parameters(c, toeplitz), Err(PlainError::Parameters));
    let crc = Parameters::Crc16 {
        polynomial: 0x1021,
        initial: 0,
        final_xor: 0,
        reflect_data: false,
        reflect_remainder: false,
    };
    s.set_hash_parameters(c, crc.clone()).unwrap();
    assert_eq!(s.hash_parameters(c), Some(&crc));
}
