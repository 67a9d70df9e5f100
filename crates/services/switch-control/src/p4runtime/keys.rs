//! Keys and actions of table entries: from messages to the store's form and back.

use super::entity::{
    Action, ActionParam, ExactMatch, FieldMatch, LpmMatch, MatchValue, OptionalMatch, RangeMatch, TableEntry,
    TernaryMatch,
};
use super::error::{P4Error, Result, denied, invalid};
use super::value::{bytes, number, ones};
use crate::p4info::Index;
use crate::p4info::index::{ActionOf, FieldIndex, TableIndex};
use crate::p4info::message::ActionScope;
use barewire_p4::ir::{ActionCall, MatchKind};
use barewire_p4::key::MatchParam;
use num_bigint::BigUint;

/// P4Runtime's largest priority. The store's lowest number wins, P4Runtime's largest.
const PRIORITY_MAX: u32 = i32::MAX as u32;

/// The key of an entry, one match a field, and its priority in the store's sense.
///
/// # Errors
/// INVALID_ARGUMENT for anything the specification's "Match Format" forbids, OUT_OF_RANGE for values too large.
pub fn key_of(table: &TableIndex, entry: &TableEntry) -> Result<(Vec<MatchParam>, u32)> {
    let priority = match (table.needs_priority, entry.priority) {
        (true, priority) if priority > 0 => store_priority(table, priority),
        (false, 0) => 0,
        (true, given) => {
            return Err(invalid(format!(
                "table '{}': priority is {given}, its key needs one above 0",
                table.name
            )));
        }
        (false, given) => {
            return Err(invalid(format!("table '{}': priority is {given}, its key allows none", table.name)));
        }
    };
    let key = matches_of(&table.fields, &entry.r#match)
        .map_err(|error| error.at(&format!("table '{}'", table.name)))?;
    Ok((key, priority))
}

/// P4Runtime's priority in the store's sense.
pub fn store_priority(table: &TableIndex, priority: i32) -> u32 {
    let priority = u32::try_from(priority).unwrap_or(0);
    // Constant entries keep the numbers of the program, 1 for the first; P4Runtime counts them down to 1.
    if table.is_const { (table.initial + 1).saturating_sub(priority) } else { PRIORITY_MAX - priority }
}

/// A priority of the store in P4Runtime's sense; 0 where the table needs none.
pub fn wire_priority(table: &TableIndex, priority: u32) -> i32 {
    if !table.needs_priority {
        return 0;
    }
    let wire = if table.is_const {
        (table.initial + 1).saturating_sub(priority)
    } else {
        PRIORITY_MAX.saturating_sub(priority)
    };
    i32::try_from(wire.max(1)).unwrap_or(i32::MAX)
}

/// One match a field, in the fields' order; fields left out match anything.
pub fn matches_of(fields: &[FieldIndex], given: &[FieldMatch]) -> Result<Vec<MatchParam>> {
    let mut key: Vec<Option<MatchParam>> = vec![None; fields.len()];
    for field_match in given {
        // Keys have few fields: a scan is faster than a map.
        let Some(at) = fields.iter().position(|field| field.id == field_match.field_id) else {
            let known: Vec<String> = fields.iter().map(|f| format!("{} ('{}')", f.id, f.name)).collect();
            return Err(invalid(format!(
                "it has no field {}; its fields are {}",
                field_match.field_id,
                known.join(", ")
            )));
        };
        let place = |error: P4Error| error.at(&format!("field {} ('{}')", fields[at].id, fields[at].name));
        let param = match_of(&fields[at], field_match.field_match_type.as_ref()).map_err(place)?;
        if key[at].replace(param).is_some() {
            return Err(place(invalid("it is given twice")));
        }
    }
    key.into_iter()
        .zip(fields)
        .map(|(param, field)| match (param, field.kind) {
            (Some(param), _) => Ok(param),
            (None, MatchKind::Lpm) => Ok(MatchParam::Lpm { value: BigUint::ZERO, prefix_len: 0 }),
            (None, MatchKind::Ternary | MatchKind::Optional) => {
                Ok(MatchParam::Ternary { value: BigUint::ZERO, mask: BigUint::ZERO })
            }
            (None, MatchKind::Range) => Ok(MatchParam::Range { low: BigUint::ZERO, high: ones(field.width) }),
            (None, _) => {
                Err(invalid(format!("field {} ('{}') is exact and must be given", field.id, field.name)))
            }
        })
        .collect()
}

fn kind_name(value: &MatchValue) -> &'static str {
    match value {
        MatchValue::Exact(_) => "exact",
        MatchValue::Ternary(_) => "ternary",
        MatchValue::Lpm(_) => "lpm",
        MatchValue::Range(_) => "range",
        MatchValue::Optional(_) => "optional",
        MatchValue::Other(_) => "another kind of match",
    }
}

fn match_of(field: &FieldIndex, value: Option<&MatchValue>) -> Result<MatchParam> {
    let width = field.width;
    let value = value.ok_or_else(|| invalid("its match is not set"))?;
    match (field.kind, value) {
        (MatchKind::Exact | MatchKind::Valid, MatchValue::Exact(exact)) => {
            let value = number(&exact.value, width)?;
            Ok(if field.validity { MatchParam::Valid(value.bits() != 0) } else { MatchParam::Exact(value) })
        }
        (MatchKind::Lpm, MatchValue::Lpm(lpm)) => {
            let value = number(&lpm.value, width)?;
            let prefix_len = u32::try_from(lpm.prefix_len).ok().filter(|&len| len <= width);
            let prefix_len = prefix_len
                .ok_or_else(|| invalid(format!("prefix length {} is not in 1 to {width}", lpm.prefix_len)))?;
            if prefix_len == 0 {
                return Err(invalid("prefix length 0 matches anything: leave the field out"));
            }
            if value.trailing_zeros().is_some_and(|zeros| zeros < u64::from(width - prefix_len)) {
                return Err(invalid(format!("bits after the prefix of {prefix_len} are not zero")));
            }
            Ok(MatchParam::Lpm { value, prefix_len })
        }
        (MatchKind::Ternary, MatchValue::Ternary(ternary)) => {
            let (value, mask) = (number(&ternary.value, width)?, number(&ternary.mask, width)?);
            if mask == BigUint::ZERO {
                return Err(invalid("mask 0 matches anything: leave the field out"));
            }
            if &value & &mask != value {
                return Err(invalid("bits outside the mask are not zero"));
            }
            Ok(MatchParam::Ternary { value, mask })
        }
        (MatchKind::Range, MatchValue::Range(range)) => {
            let (low, high) = (number(&range.low, width)?, number(&range.high, width)?);
            if low > high {
                return Err(invalid(format!("the range {low} to {high} ends before it begins")));
            }
            if low == BigUint::ZERO && high == ones(width) {
                return Err(invalid("the whole range matches anything: leave the field out"));
            }
            Ok(MatchParam::Range { low, high })
        }
        (MatchKind::Optional, MatchValue::Optional(optional)) => {
            Ok(MatchParam::Ternary { value: number(&optional.value, width)?, mask: ones(width) })
        }
        (kind, given) => Err(invalid(format!("it is {kind:?}, {} was given", kind_name(given)))),
    }
}

/// The messages of a key; fields that match anything are left out.
pub fn wire_matches(fields: &[FieldIndex], key: &[MatchParam]) -> Vec<FieldMatch> {
    let mut out = Vec::with_capacity(fields.len());
    for (field, param) in fields.iter().zip(key) {
        let value = match param {
            MatchParam::Exact(value) if field.kind == MatchKind::Optional => {
                MatchValue::Optional(OptionalMatch { value: bytes(value) })
            }
            MatchParam::Exact(value) => MatchValue::Exact(ExactMatch { value: bytes(value) }),
            MatchParam::Valid(valid) => MatchValue::Exact(ExactMatch { value: vec![u8::from(*valid)] }),
            MatchParam::Lpm { prefix_len: 0, .. } => continue,
            MatchParam::Lpm { value, prefix_len } => MatchValue::Lpm(LpmMatch {
                value: bytes(value),
                prefix_len: i32::try_from(*prefix_len).unwrap_or(i32::MAX),
            }),
            MatchParam::Ternary { mask, .. } if *mask == BigUint::ZERO => continue,
            MatchParam::Ternary { value, .. } if field.kind == MatchKind::Optional => {
                MatchValue::Optional(OptionalMatch { value: bytes(value) })
            }
            MatchParam::Ternary { value, mask } => {
                MatchValue::Ternary(TernaryMatch { value: bytes(value), mask: bytes(mask) })
            }
            MatchParam::Range { low, high } if *low == BigUint::ZERO && *high == ones(field.width) => {
                continue;
            }
            MatchParam::Range { low, high } => {
                MatchValue::Range(RangeMatch { low: bytes(low), high: bytes(high) })
            }
        };
        out.push(FieldMatch { field_id: field.id, field_match_type: Some(value) });
    }
    out
}

/// Where an action is to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stand {
    /// In an entry or a member.
    Entry,
    /// As the default action.
    Default,
    /// It stands there already: another control plane does not ask for the scope.
    Anywhere,
}

/// An action with its arguments, one of those allowed.
///
/// # Errors
/// INVALID_ARGUMENT for unknown actions and for arguments missing, extra or malformed, PERMISSION_DENIED for an action
/// where its scope forbids it.
pub fn call_of(
    index: &Index,
    owner: &str,
    allowed: &[ActionOf],
    action: &Action,
    stand: Stand,
) -> Result<ActionCall> {
    let Some(of) = allowed.iter().find(|of| of.id == action.action_id) else {
        let name = |id: u32| index.actions.get(id).map_or("?", |action| action.name.as_str());
        let known: Vec<String> = allowed.iter().map(|of| format!("{} ('{}')", of.id, name(of.id))).collect();
        let what = match index.actions.get(action.action_id) {
            Some(action) => format!("'{}' is not an action of it", action.name),
            None => format!("there is no action {}", action.action_id),
        };
        return Err(invalid(format!("{owner}: {what}; its actions are {}", known.join(", "))));
    };
    match (of.scope, stand) {
        (ActionScope::TableOnly, Stand::Default) => {
            return Err(denied(format!("{owner}: action {} may not be the default action", of.id)));
        }
        (ActionScope::DefaultOnly, Stand::Entry) => {
            return Err(denied(format!("{owner}: action {} may be the default action only", of.id)));
        }
        _ => {}
    }
    let Some(known) = index.actions.get(of.id) else {
        return Err(invalid(format!("there is no action {}", of.id)));
    };
    let mut args: Vec<Option<BigUint>> = vec![None; known.params.len()];
    for param in &action.params {
        let place = |error: P4Error| {
            error.at(&format!("{owner}: action '{}', parameter {}", known.name, param.param_id))
        };
        let Some(at) = known.params.iter().position(|p| p.id == param.param_id) else {
            let ids: Vec<String> = known.params.iter().map(|p| format!("{} ('{}')", p.id, p.name)).collect();
            return Err(place(invalid(format!("there is no such one; they are {}", ids.join(", ")))));
        };
        let value = number(&param.value, known.params[at].width).map_err(place)?;
        if args[at].replace(value).is_some() {
            return Err(place(invalid("it is given twice")));
        }
    }
    let args = args
        .into_iter()
        .zip(&known.params)
        .map(|(arg, param)| {
            arg.ok_or_else(|| {
                invalid(format!(
                    "{owner}: action '{}': parameter {} ('{}') is missing",
                    known.name, param.id, param.name
                ))
            })
        })
        .collect::<Result<_>>()?;
    Ok(ActionCall { action: of.action, args })
}

/// The message of an action.
pub fn wire_call(index: &Index, allowed: &[ActionOf], call: &ActionCall) -> Option<Action> {
    let of = allowed.iter().find(|of| of.action == call.action)?;
    let known = index.actions.get(of.id)?;
    let params = known
        .params
        .iter()
        .zip(&call.args)
        .map(|(param, arg)| ActionParam { param_id: param.id, value: bytes(arg) })
        .collect();
    Some(Action { action_id: of.id, params })
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    fn random_number(random: &mut Prng, width: u32) -> BigUint {
        let mut raw = [0; 20];
        random.fill(&mut raw);
        (BigUint::from_bytes_be(&raw) >> random.below(160)) & ones(width)
    }

    fn random_param(random: &mut Prng, field: &FieldIndex) -> MatchParam {
        let width = field.width;
        let value = random_number(random, width);
        match field.kind {
            MatchKind::Exact | MatchKind::Valid if field.validity => MatchParam::Valid(value.bits() != 0),
            MatchKind::Exact | MatchKind::Valid => MatchParam::Exact(value),
            MatchKind::Lpm => {
                let prefix_len = random.below(u64::from(width) + 1) as u32;
                let host = width - prefix_len;
                MatchParam::Lpm { value: (value >> host) << host, prefix_len }
            }
            MatchKind::Ternary => {
                let mask = random_number(random, width);
                MatchParam::Ternary { value: value & &mask, mask }
            }
            MatchKind::Range => {
                let other = random_number(random, width);
                MatchParam::Range { low: value.clone().min(other.clone()), high: value.max(other) }
            }
            MatchKind::Optional if random.chance(0.3) => {
                MatchParam::Ternary { value: BigUint::ZERO, mask: BigUint::ZERO }
            }
            MatchKind::Optional => MatchParam::Ternary { value, mask: ones(width) },
        }
    }

    #[test]
    fn a_key_that_is_told_is_the_key_that_is_read() {
        let seed = 99;
        let mut random = Prng::new(seed);
        let kinds =
            [MatchKind::Exact, MatchKind::Lpm, MatchKind::Ternary, MatchKind::Range, MatchKind::Optional];
        for round in 0..5_000 {
            let fields: Vec<FieldIndex> = (1..=1 + random.below(5) as u32)
                .map(|id| {
                    let kind = kinds[random.below(5) as usize];
                    let validity = kind == MatchKind::Exact && random.chance(0.2);
                    let width = if validity { 1 } else { 1 + random.below(140) as u32 };
                    FieldIndex { id, name: format!("f{id}"), kind, width, validity }
                })
                .collect();
            let key: Vec<MatchParam> = fields.iter().map(|field| random_param(&mut random, field)).collect();
            let mut wire = wire_matches(&fields, &key);
            // The order of fields means nothing.
            wire.reverse();
            let back = matches_of(&fields, &wire);
            assert_eq!(back.as_ref(), Ok(&key), "seed {seed}, round {round}: {fields:?} {wire:?}");
        }
    }

    #[test]
    fn priorities_turn_round_and_back() {
        let mut table = TableIndex {
            id: 1,
            name: "t".into(),
            table: barewire_p4::ir::TableId(0),
            fields: Vec::new(),
            actions: Vec::new(),
            const_default: false,
            needs_priority: true,
            profile: None,
            counter: None,
            meter: None,
            idle: false,
            is_const: false,
            initial: 3,
        };
        for priority in [1, 2, 1000, i32::MAX] {
            assert_eq!(wire_priority(&table, store_priority(&table, priority)), priority);
        }
        assert!(store_priority(&table, 2) < store_priority(&table, 1), "the larger wins");
        table.is_const = true;
        assert_eq!([1, 2, 3].map(|stored| wire_priority(&table, stored)), [3, 2, 1]);
        assert_eq!([3, 2, 1].map(|wire| store_priority(&table, wire)), [1, 2, 3]);
    }
}
