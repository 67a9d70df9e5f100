//! Random entries, members, groups, registers, meters and value sets.

use barewire_base::Prng;
use barewire_p4::ir::{
    ActionCall, ActionId, KeyField, KeySource, MatchKind, MeterId, ProfileId, Program, RegisterId,
    TableActions, TableId, ValueSetId,
};
use barewire_p4::key::MatchParam;
use barewire_p4::phv::{Layout, Phv};
use barewire_p4_state::{ProgramState, Rate, TableAction};
use num_bigint::BigUint;

/// Handles of random entries begin here: below are those of the program.
const FIRST_HANDLE: u32 = 4096;

/// A random number of so many bits; often a small one.
pub fn value(width: u32, prng: &mut Prng) -> BigUint {
    let ones = (BigUint::from(1_u8) << width) - 1_u8;
    match prng.below(6) {
        0 => BigUint::from(prng.below(4)) & ones,
        1 => ones,
        2 => BigUint::from(prng.below(256)) & ones,
        _ => {
            let mut bytes = vec![0; width.div_ceil(8) as usize];
            prng.fill(&mut bytes);
            BigUint::from_bytes_be(&bytes) & ones
        }
    }
}

fn call(program: &Program, action: ActionId, prng: &mut Prng) -> ActionCall {
    let args = program.actions[action.at()].params.iter().map(|param| value(param.width, prng)).collect();
    ActionCall { action, args }
}

/// Fill a state. `vectors` are parsed packets that keys are taken from.
pub fn populate(
    program: &Program,
    layout: &Layout,
    vectors: &[Phv],
    prng: &mut Prng,
    state: &mut ProgramState,
) {
    for (index, profile) in program.profiles.iter().enumerate() {
        let id = ProfileId::from(index);
        let users = program.tables.iter().filter(|table| table.source == TableActions::Profile(id));
        let actions: Vec<ActionId> = users.flat_map(|table| table.actions.clone()).collect();
        if actions.is_empty() {
            continue;
        }
        for member in 0..4 {
            let action = actions[prng.below(actions.len() as u64) as usize];
            let _ = state.insert_member(id, member, &call(program, action, prng));
        }
        if profile.selector.is_some() {
            for group in 0..3 {
                let members: Vec<(u32, u32)> = (0..prng.below(4) as u32).map(|member| (member, 1)).collect();
                let _ = state.set_group(id, group, &members);
            }
        }
    }
    for index in 0..program.tables.len() {
        table(program, layout, vectors, TableId::from(index), prng, state);
    }
    for (index, register) in program.registers.iter().enumerate() {
        for _ in 0..prng.below(6) {
            let at = prng.below(u64::from(register.size).max(1));
            let value = value(register.width, prng);
            let _ = state.write_register(RegisterId::from(index), at..at + 1, &value);
        }
    }
    for (index, meter) in program.meters.iter().enumerate() {
        for _ in 0..prng.below(6) {
            let at = prng.below(u64::from(meter.size).clamp(1, 64));
            let mut rate = |scale: f64| Rate { per_us: prng.unit() * scale, burst: 1 + prng.below(2000) };
            let rates: Vec<Rate> = (0..meter.rate_count).map(|i| rate(0.01 * f64::from(i + 1))).collect();
            let _ = state.set_meter(MeterId::from(index), at, Some(&rates));
        }
    }
    for (index, set) in program.value_sets.iter().enumerate() {
        for _ in 0..prng.below(4) {
            let parts = set.widths.iter().map(|width| value(*width, prng)).collect();
            let _ = state.add_to_set(ValueSetId::from(index), parts);
        }
    }
}

fn table(
    program: &Program,
    layout: &Layout,
    vectors: &[Phv],
    id: TableId,
    prng: &mut Prng,
    state: &mut ProgramState,
) {
    let table = &program.tables[id.at()];
    let action = |prng: &mut Prng| match table.source {
        TableActions::Profile(profile) => {
            if program.profiles[profile.at()].selector.is_some() && prng.chance(0.5) {
                Some(TableAction::Group(prng.below(4) as u32))
            } else {
                Some(TableAction::Member(prng.below(5) as u32))
            }
        }
        TableActions::Direct if table.actions.is_empty() => None,
        TableActions::Direct => {
            let action = table.actions[prng.below(table.actions.len() as u64) as usize];
            Some(TableAction::Call(call(program, action, prng)))
        }
    };
    if prng.chance(0.6)
        && let Some(action) = action(prng)
    {
        let _ = state.set_default(id, Some(&action));
    }
    if table.key.is_empty() {
        return;
    }
    for handle in 0..prng.below(10) as u32 {
        let vector = if vectors.is_empty() || prng.chance(0.2) {
            None
        } else {
            Some(&vectors[prng.below(vectors.len() as u64) as usize])
        };
        let key: Vec<MatchParam> =
            table.key.iter().map(|field| param(field, program, layout, vector, prng)).collect();
        let Some(action) = action(prng) else { return };
        let priority = prng.below(5) as u32;
        let _ = state.insert(id, FIRST_HANDLE + handle, &key, priority, &action);
    }
}

fn param(
    field: &KeyField,
    program: &Program,
    layout: &Layout,
    vector: Option<&Phv>,
    prng: &mut Prng,
) -> MatchParam {
    let ones = (BigUint::from(1_u8) << field.width) - 1_u8;
    let mut from_packet = None;
    if let (KeySource::Field(source), Some(vector)) = (&field.source, vector)
        && let Some(id) = source.fixed()
    {
        let valid = program.headers[id.header.at()].metadata || vector.is_valid(layout, id.header);
        from_packet = Some(if valid { vector.field(layout, id) } else { BigUint::ZERO });
    }
    let mut number =
        from_packet.filter(|_| prng.chance(0.85)).unwrap_or_else(|| value(field.width, prng)) & &ones;
    if let Some(mask) = &field.mask {
        number &= mask;
    }
    match field.kind {
        MatchKind::Exact => match field.source {
            KeySource::Valid(_) => MatchParam::Exact(BigUint::from(prng.below(2))),
            KeySource::Field(_) => MatchParam::Exact(number),
        },
        MatchKind::Valid => MatchParam::Valid(prng.chance(0.5)),
        MatchKind::Lpm => {
            let prefix_len = prng.below(u64::from(field.width) + 1) as u32;
            let mask = &ones ^ ((BigUint::from(1_u8) << (field.width - prefix_len)) - 1_u8);
            MatchParam::Lpm { value: number & mask, prefix_len }
        }
        MatchKind::Ternary => {
            let mask = match prng.below(4) {
                0 => BigUint::ZERO,
                1 => ones,
                _ => value(field.width, prng),
            };
            MatchParam::Ternary { value: number & &mask, mask }
        }
        MatchKind::Optional => {
            let mask = if prng.chance(0.4) { BigUint::ZERO } else { ones };
            MatchParam::Ternary { value: number & &mask, mask }
        }
        MatchKind::Range => {
            let spread = value(field.width, prng);
            let low = if spread < number { &number - &spread } else { BigUint::ZERO };
            let high = (&number + value(field.width, prng)).min(ones);
            MatchParam::Range { low, high }
        }
    }
}
