//! A program for tests of the control side: a table of each kind, and one of everything else.

use barewire_p4::ir::{
    Action, ActionCall, ActionId, ActionProfile, CalcInput, Calculation, CounterArray, CounterId, FieldDef,
    FieldRef, HashAlgorithm, Header, HeaderId, HeaderRef, HeaderType, HeaderTypeId, InitialEntry, KeyField,
    KeySource, LearnList, MatchKind, MeterArray, MeterId, MeterUnit, Param, ProfileId, Program,
    RegisterArray, Selector, Table, TableActions, TableId, TableKind, ValueSet, Width,
};
use barewire_p4::key::MatchParam;
use barewire_p4_state::TableAction;
use num_bigint::BigUint;
use std::sync::Arc;

/// `nop()`.
pub(crate) const NOP: ActionId = ActionId(0);
/// `forward(port: 9 bits, mac: 48 bits)`.
pub(crate) const FORWARD: ActionId = ActionId(1);
/// `other(x: 128 bits)`: of no table but `defaults`.
pub(crate) const OTHER: ActionId = ActionId(2);

/// Exact on 32 and 9 bits, ageing, with direct counter and direct meter, 2,000,000 entries.
pub(crate) const EXACT: TableId = TableId(0);
/// LPM on 32 bits after exact on 12, 4 entries.
pub(crate) const LPM: TableId = TableId(1);
/// Ternary on 16 bits, optional on 9, valid, LPM on 32.
pub(crate) const TERNARY: TableId = TableId(2);
/// Range on 16 bits.
pub(crate) const RANGE: TableId = TableId(3);
/// Without a key; the default action may not be another.
pub(crate) const KEYLESS: TableId = TableId(4);
/// Exact on 8 bits with two const entries, const default entry.
pub(crate) const CONST: TableId = TableId(5);
/// Exact on 8 bits, members of a profile without selector.
pub(crate) const MEMBERS: TableId = TableId(6);
/// Exact on 8 bits, members or groups of a profile with selector.
pub(crate) const GROUPS: TableId = TableId(7);
/// Exact on 16 bits of which the middle 8 count, with two entries of the program that may be changed.
pub(crate) const MASKED: TableId = TableId(8);

/// Without selector, 3 members.
pub(crate) const PLAIN: ProfileId = ProfileId(0);
/// With selector, no size.
pub(crate) const SELECTED: ProfileId = ProfileId(1);

pub(crate) fn n(value: u64) -> BigUint {
    BigUint::from(value)
}

pub(crate) fn exact(value: u64) -> MatchParam {
    MatchParam::Exact(n(value))
}

pub(crate) fn lpm(value: u64, prefix_len: u32) -> MatchParam {
    MatchParam::Lpm { value: n(value), prefix_len }
}

pub(crate) fn ternary(value: u64, mask: u64) -> MatchParam {
    MatchParam::Ternary { value: n(value), mask: n(mask) }
}

pub(crate) fn range(low: u64, high: u64) -> MatchParam {
    MatchParam::Range { low: n(low), high: n(high) }
}

pub(crate) fn nop() -> TableAction {
    TableAction::Call(ActionCall { action: NOP, args: Vec::new() })
}

pub(crate) fn forward_call(port: u64) -> ActionCall {
    ActionCall { action: FORWARD, args: vec![n(port), n(0x0a_0000_0000 + port)] }
}

pub(crate) fn forward(port: u64) -> TableAction {
    TableAction::Call(forward_call(port))
}

fn key(name: &str, kind: MatchKind, width: u32) -> KeyField {
    let header = HeaderRef::Header(HeaderId(0));
    let source = match kind {
        MatchKind::Valid => KeySource::Valid(header),
        _ => KeySource::Field(FieldRef { header, field: 0 }),
    };
    KeyField { name: name.into(), kind, source, width, mask: None }
}

fn table(name: &str, id: TableId, kind: TableKind, key: Vec<KeyField>) -> Table {
    Table {
        id: id.0,
        default: Some(ActionCall { action: NOP, args: Vec::new() }),
        ..Table::new(format!("ingress.{name}"), kind, key, vec![NOP, FORWARD], 100)
    }
}

fn tables() -> Vec<Table> {
    use MatchKind::{Exact, Lpm, Optional, Range, Ternary, Valid};
    let own = |value: u64, port: u64| InitialEntry {
        key: vec![exact(value)],
        call: forward_call(port),
        priority: 0,
    };
    let mut masked = key("hdr.masked", Exact, 16);
    masked.mask = Some(n(0x0ff0));
    vec![
        Table {
            max_size: 2_000_000,
            counter: Some(CounterId(1)),
            meter: Some(MeterId(1)),
            support_timeout: true,
            ..table("exact", EXACT, TableKind::Exact, vec![key("hdr.a", Exact, 32), key("hdr.b", Exact, 9)])
        },
        Table {
            max_size: 4,
            ..table("lpm", LPM, TableKind::Lpm, vec![key("hdr.vlan", Exact, 12), key("hdr.dst", Lpm, 32)])
        },
        table(
            "ternary",
            TERNARY,
            TableKind::Ternary,
            vec![
                key("hdr.t", Ternary, 16),
                key("hdr.o", Optional, 9),
                key("hdr.v", Valid, 1),
                key("hdr.l", Lpm, 32),
            ],
        ),
        table("range", RANGE, TableKind::Range, vec![key("hdr.port", Range, 16)]),
        Table {
            default: Some(forward_call(1)),
            default_action_const: true,
            ..table("keyless", KEYLESS, TableKind::Exact, Vec::new())
        },
        Table {
            default_entry_const: true,
            entries: vec![own(1, 1), own(2, 2)],
            immutable: true,
            ..table("const", CONST, TableKind::Exact, vec![key("hdr.c", Exact, 8)])
        },
        Table {
            source: TableActions::Profile(PLAIN),
            ..table("members", MEMBERS, TableKind::Exact, vec![key("hdr.m", Exact, 8)])
        },
        Table {
            source: TableActions::Profile(SELECTED),
            ..table("groups", GROUPS, TableKind::Exact, vec![key("hdr.g", Exact, 8)])
        },
        Table {
            max_size: 1,
            entries: vec![own(0x120, 1), own(0x340, 2)],
            ..table("masked", MASKED, TableKind::Exact, vec![masked])
        },
    ]
}

/// The program.
pub(crate) fn program() -> Arc<Program> {
    let field = |name: &str, bits| FieldDef { name: name.into(), width: Width::Fixed(bits), signed: false };
    let param = |name: &str, width| Param { name: name.into(), width };
    let action =
        |name: &str, id: ActionId, params| Action { name: name.into(), id: id.0, params, body: Vec::new() };
    let counter = |name: &str, id, size, direct| CounterArray { name: name.into(), id, size, direct };
    let meter = |name: &str, id, size, direct| MeterArray {
        name: name.into(),
        id,
        size,
        unit: MeterUnit::Bytes,
        rate_count: 2,
        direct,
        result: None,
    };
    let calculation = |name: &str, algorithm| Calculation { name: name.into(), algorithm, input: Vec::new() };
    let item = |width| (CalcInput::Const { value: BigUint::ZERO, width }, width);
    Arc::new(Program {
        name: "testing".into(),
        source: "{}".into(),
        header_types: vec![HeaderType { name: "h_t".into(), fields: vec![field("f", 32)] }],
        headers: vec![Header {
            name: "h".into(),
            ty: HeaderTypeId(0),
            metadata: false,
            union: None,
            length_exp: None,
        }],
        learn_lists: vec![
            LearnList { id: 7, name: "mac_learn".into(), items: vec![item(48), item(9)] },
            LearnList { id: 3, name: "ingress.digest".into(), items: vec![item(4)] },
        ],
        value_sets: vec![ValueSet { name: "parser.set".into(), widths: vec![16, 9], max_size: 2 }],
        actions: vec![
            action("NoAction", NOP, Vec::new()),
            action("ingress.forward", FORWARD, vec![param("port", 9), param("mac", 48)]),
            action("ingress.other", OTHER, vec![param("x", 128)]),
        ],
        tables: tables(),
        profiles: vec![
            ActionProfile { name: "plain".into(), id: 0, max_size: 3, selector: None },
            ActionProfile {
                name: "selected".into(),
                id: 1,
                max_size: 0,
                selector: Some(Selector { algorithm: HashAlgorithm::Crc16, input: Vec::new() }),
            },
        ],
        counters: vec![counter("ingress.c", 0, 5000, None), counter("ingress.direct_c", 1, 100, Some(EXACT))],
        meters: vec![meter("ingress.m", 0, 3000, None), meter("ingress.direct_m", 1, 100, Some(EXACT))],
        registers: vec![
            RegisterArray { name: "ingress.r".into(), id: 0, size: 5000, width: 48, initial: BigUint::ZERO },
            RegisterArray { name: "ingress.wide".into(), id: 1, size: 2, width: 200, initial: BigUint::ZERO },
        ],
        calculations: vec![
            calculation("crc", HashAlgorithm::Crc16Custom),
            calculation("toeplitz", HashAlgorithm::Toeplitz),
            calculation("fixed", HashAlgorithm::Crc32),
        ],
        ..Program::empty()
    })
}
