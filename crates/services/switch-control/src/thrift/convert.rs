//! Keys, actions and entries between the wire and the switch.

use super::codec::{Value, wire};
use super::errors::Refusal;
use super::types::{action_type, match_type};
use barewire_p4::ir::{ActionCall, KeyField, MatchKind, Program, Table, TableId, TableKind};
use barewire_p4::key::MatchParam;
use barewire_switch::control::{
    CounterValue, Entry, ErrorKind, Group, Member, MeterRate, Switch, TableAction,
};
use num_bigint::BigUint;
use num_traits::One;

/// Bits of a handle that are the index on the wire; the 8 above it are the version (bmv2's layout).
const INDEX_BITS: u32 = 24;

/// An entry's handle as the 32 bits that travel.
pub fn handle_to_wire(handle: u64) -> i32 {
    let (version, index) = ((handle >> 32) as u32, handle as u32);
    ((version & 0xff) << INDEX_BITS | index & ((1 << INDEX_BITS) - 1)) as i32
}

/// A handle from its 32 bits.
pub fn handle_from_wire(handle: u32) -> u64 {
    u64::from(handle >> INDEX_BITS) << 32 | u64::from(handle & ((1 << INDEX_BITS) - 1))
}

/// A number's bytes, most significant first, as many as `width` bits need.
pub fn padded(value: &BigUint, width: u32) -> Vec<u8> {
    let bytes = value.to_bytes_be();
    let length = width.div_ceil(8).max(1) as usize;
    let mut padded = vec![0; length.saturating_sub(bytes.len())];
    padded.extend(bytes);
    padded
}

fn mask_of(width: u32) -> BigUint {
    (BigUint::one() << width) - 1u32
}

/// The number in a key field's bytes. bmv2's rule: exactly as many bytes as the width needs, and the bits above the
/// width are ignored.
fn number(field: &KeyField, bytes: &[u8]) -> Result<BigUint, Refusal> {
    let expected = field.width.div_ceil(8).max(1) as usize;
    if bytes.len() != expected {
        return Err(Refusal::kind(
            ErrorKind::BadMatchKey,
            format!(
                "key field {} has {} bits, which is {expected} bytes; {} were given",
                field.name,
                field.width,
                bytes.len()
            ),
        ));
    }
    Ok(BigUint::from_bytes_be(bytes) & mask_of(field.width))
}

/// A key from the wire.
pub fn key_from(table: &Table, params: &Value) -> Result<Vec<MatchParam>, Refusal> {
    let params = params.items();
    if params.len() != table.key.len() {
        return Err(Refusal::kind(
            ErrorKind::BadMatchKey,
            format!("table {} has {} key fields; {} were given", table.name, table.key.len(), params.len()),
        ));
    }
    table.key.iter().zip(params).map(|(field, param)| param_from(field, param)).collect()
}

fn param_from(field: &KeyField, param: &Value) -> Result<MatchParam, Refusal> {
    let given = param.field(1).map_or(-1, Value::int) as i32;
    let wanted = match field.kind {
        MatchKind::Exact => match_type::EXACT,
        MatchKind::Lpm => match_type::LPM,
        MatchKind::Ternary | MatchKind::Optional => match_type::TERNARY,
        MatchKind::Valid => match_type::VALID,
        MatchKind::Range => match_type::RANGE,
    };
    let bad = |why: String| Refusal::kind(ErrorKind::BadMatchKey, why);
    // An optional field is also taken as an exact one.
    let kind = if field.kind == MatchKind::Optional && given == match_type::EXACT { given } else { wanted };
    if given != kind {
        return Err(bad(format!(
            "key field {} is matched {}; match type {given} was given",
            field.name,
            field.kind.name()
        )));
    }
    let body = param
        .field(kind as i16 + 2)
        .ok_or_else(|| bad(format!("key field {}: match type {kind} without its struct", field.name)))?;
    let part = |id: i16| number(field, body.field(id).map_or(&[][..], Value::bytes));
    Ok(match kind {
        match_type::EXACT => MatchParam::Exact(part(1)?),
        match_type::VALID => MatchParam::Valid(body.field(1).map_or(0, Value::int) != 0),
        match_type::LPM => {
            let length = body.field(2).map_or(-1, Value::int);
            let prefix_len =
                u32::try_from(length).ok().filter(|length| *length <= field.width).ok_or_else(|| {
                    bad(format!("key field {} has {} bits: no prefix of {length}", field.name, field.width))
                })?;
            let cut = mask_of(field.width) ^ mask_of(field.width - prefix_len);
            MatchParam::Lpm { value: part(1)? & cut, prefix_len }
        }
        match_type::RANGE => {
            let (low, high) = (part(1)?, part(2)?);
            if low > high {
                return Err(bad(format!("key field {}: the range {low} -> {high} is empty", field.name)));
            }
            MatchParam::Range { low, high }
        }
        _ => {
            let (value, mask) = (part(1)?, part(2)?);
            MatchParam::Ternary { value: value & &mask, mask }
        }
    })
}

/// A key for the wire.
pub fn key_to(table: &Table, key: &[MatchParam]) -> Value {
    Value::structs(table.key.iter().zip(key).map(|(field, param)| param_to(field, param)).collect())
}

fn param_to(field: &KeyField, param: &MatchParam) -> Value {
    let bytes = |value: &BigUint| Value::Bytes(padded(value, field.width));
    let (kind, body) = match param {
        MatchParam::Exact(value) if field.kind == MatchKind::Optional => {
            (match_type::TERNARY, vec![(1, bytes(value)), (2, bytes(&mask_of(field.width)))])
        }
        MatchParam::Exact(value) => (match_type::EXACT, vec![(1, bytes(value))]),
        MatchParam::Valid(valid) => (match_type::VALID, vec![(1, Value::Bool(*valid))]),
        MatchParam::Lpm { value, prefix_len } => {
            (match_type::LPM, vec![(1, bytes(value)), (2, Value::I32(*prefix_len as i32))])
        }
        MatchParam::Ternary { value, mask } => {
            (match_type::TERNARY, vec![(1, bytes(value)), (2, bytes(mask))])
        }
        MatchParam::Range { low, high } => (match_type::RANGE, vec![(1, bytes(low)), (2, bytes(high))]),
    };
    Value::Struct(vec![(1, Value::I32(kind)), (kind as i16 + 2, Value::Struct(body))])
}

/// Whether entries of a table have a priority.
pub fn has_priority(table: &Table) -> bool {
    matches!(table.kind, TableKind::Ternary | TableKind::Range)
        || table
            .key
            .iter()
            .any(|field| matches!(field.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional))
}

/// The priority in the options of a call.
pub fn priority_from(table: &Table, options: &Value) -> Result<u32, Refusal> {
    let priority = options.field(1).map_or(0, Value::int);
    if !has_priority(table) {
        return Ok(0);
    }
    u32::try_from(priority).map_err(|_| {
        Refusal::kind(ErrorKind::Other, format!("priority {priority} is negative; 0 wins over all"))
    })
}

fn args_from(data: &Value) -> Vec<BigUint> {
    data.items().iter().map(|item| BigUint::from_bytes_be(item.bytes())).collect()
}

/// An action of a table with its arguments.
pub fn call_from(switch: &Switch, table: TableId, action: &str, data: &Value) -> Result<ActionCall, Refusal> {
    Ok(ActionCall { action: switch.action_of(table, action)?, args: args_from(data) })
}

/// An action of a profile with its arguments.
pub fn profile_call_from(
    switch: &Switch,
    profile: barewire_p4::ir::ProfileId,
    action: &str,
    data: &Value,
) -> Result<ActionCall, Refusal> {
    Ok(ActionCall { action: switch.action_of_profile(profile, action)?, args: args_from(data) })
}

/// An action's name, and its arguments in as few bytes as each needs (bmv2 gives them so).
fn call_to(program: &Program, call: &ActionCall) -> (Value, Value) {
    let name = program.actions.get(call.action.at()).map_or("", |action| action.name.as_str());
    let args = call.args.iter().map(|arg| Value::Bytes(arg.to_bytes_be())).collect();
    (Value::text(name), Value::List(wire::BYTES, args))
}

/// What an entry does, for the wire; nothing where there is no default entry.
pub fn action_to(program: &Program, action: Option<&TableAction>) -> Value {
    Value::Struct(match action {
        None => vec![(1, Value::I32(action_type::NONE))],
        Some(TableAction::Call(call)) => {
            let (name, args) = call_to(program, call);
            vec![(1, Value::I32(action_type::ACTION_DATA)), (2, name), (3, args)]
        }
        Some(TableAction::Member(member)) => {
            vec![(1, Value::I32(action_type::MEMBER)), (4, Value::I32(*member as i32))]
        }
        Some(TableAction::Group(group)) => {
            vec![(1, Value::I32(action_type::GROUP)), (5, Value::I32(*group as i32))]
        }
    })
}

/// An entry for the wire. `since_hit_ms` is for entries that age.
pub fn entry_to(program: &Program, table: &Table, entry: &Entry, since_hit_ms: Option<u64>) -> Value {
    let priority = if has_priority(table) { entry.priority as i32 } else { -1 };
    let mut fields = vec![
        (1, key_to(table, &entry.key)),
        (2, Value::Struct(vec![(1, Value::I32(priority))])),
        (3, Value::I32(handle_to_wire(entry.handle))),
        (4, action_to(program, Some(&entry.action))),
    ];
    if let Some(since) = since_hit_ms {
        let since = i32::try_from(since).unwrap_or(i32::MAX);
        let life = vec![(1, Value::I32(entry.ttl_ms as i32)), (2, Value::I32(since))];
        fields.push((5, Value::Struct(life)));
    }
    Value::Struct(fields)
}

/// A member of a profile for the wire.
pub fn member_to(program: &Program, member: &Member) -> Value {
    let (name, args) = call_to(program, &member.call);
    Value::Struct(vec![(1, Value::I32(member.handle as i32)), (2, name), (3, args)])
}

/// A group of a profile for the wire.
pub fn group_to(group: &Group) -> Value {
    let members = group.members.iter().map(|(member, _)| Value::I32(*member as i32)).collect();
    Value::Struct(vec![(1, Value::I32(group.handle as i32)), (2, Value::List(wire::I32, members))])
}

/// Packets and bytes for the wire.
pub fn counter_to(value: CounterValue) -> Value {
    Value::Struct(vec![(1, Value::I64(value.bytes as i64)), (2, Value::I64(value.packets as i64))])
}

/// Packets and bytes from the wire.
pub fn counter_from(value: &Value) -> CounterValue {
    let part = |id| value.field(id).map_or(0, Value::int) as u64;
    CounterValue { packets: part(2), bytes: part(1) }
}

/// Rates for the wire.
pub fn rates_to(rates: &[MeterRate]) -> Value {
    let rate = |rate: &MeterRate| {
        Value::Struct(vec![(1, Value::Double(rate.units_per_us)), (2, Value::I32(rate.burst as i32))])
    };
    Value::structs(rates.iter().map(rate).collect())
}

/// Which of a meter's rates is wrong, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WrongRates {
    Count(String),
    Rate(String),
    Burst(String),
}

/// Rates from the wire: as many as the meter has, none negative, none below the one before it.
pub fn rates_from(rates: &Value, count: u32) -> Result<Vec<MeterRate>, WrongRates> {
    let items = rates.items();
    if items.len() != count as usize {
        return Err(WrongRates::Count(format!("the meter has {count} rates; {} were given", items.len())));
    }
    let mut before = 0.0;
    let mut read = Vec::with_capacity(items.len());
    for item in items {
        let units_per_us = match item.field(1) {
            Some(Value::Double(rate)) => *rate,
            _ => f64::NAN,
        };
        if !units_per_us.is_finite() || units_per_us < before {
            return Err(WrongRates::Rate(format!(
                "a rate of {units_per_us} units a microsecond after one of {before}: rates may not fall"
            )));
        }
        before = units_per_us;
        let burst = item.field(2).map_or(-1, Value::int);
        let burst = u32::try_from(burst).map_err(|_| WrongRates::Burst(format!("a burst of {burst}")))?;
        read.push(MeterRate { units_per_us, burst });
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_keep_index_and_version() {
        for (handle, on_wire) in [(0, 0), (7, 7), (1 << 32 | 5, 0x0100_0005), (0xff << 32 | 0xff_ffff, -1)] {
            assert_eq!(handle_to_wire(handle), on_wire);
            assert_eq!(handle_from_wire(on_wire as u32), handle);
        }
    }

    fn field(kind: MatchKind, width: u32) -> KeyField {
        let id = barewire_p4::ir::FieldId { header: barewire_p4::ir::HeaderId(0), field: 0 };
        KeyField {
            name: "f".into(),
            kind,
            source: barewire_p4::ir::KeySource::Field(id.into()),
            width,
            mask: None,
        }
    }

    #[test]
    fn a_key_must_have_the_bytes_of_its_width_and_bits_above_it_are_ignored() {
        let exact = |bytes: &[u8]| {
            Value::Struct(vec![
                (1, Value::I32(0)),
                (2, Value::Struct(vec![(1, Value::Bytes(bytes.to_vec()))])),
            ])
        };
        let nine = field(MatchKind::Exact, 9);
        assert_eq!(param_from(&nine, &exact(&[0xff, 0x02])).unwrap(), MatchParam::Exact(0x102u32.into()));
        for bad in [&[][..], &[1], &[0, 0, 1]] {
            let error = param_from(&nine, &exact(bad)).unwrap_err();
            assert!(error.to_string().contains("9 bits, which is 2 bytes"), "{error}");
        }
        assert!(
            param_from(&field(MatchKind::Lpm, 9), &exact(&[0, 1])).unwrap_err().to_string().contains("lpm")
        );
        // The type without its struct.
        assert!(param_from(&nine, &Value::Struct(vec![(1, Value::I32(0))])).is_err());
    }

    #[test]
    fn prefixes_masks_and_ranges() {
        let lpm = |length: i32| {
            let body = vec![(1, Value::Bytes(vec![10, 0, 0, 1])), (2, Value::I32(length))];
            param_from(
                &field(MatchKind::Lpm, 32),
                &Value::Struct(vec![(1, Value::I32(1)), (3, Value::Struct(body))]),
            )
        };
        assert_eq!(lpm(12).unwrap(), MatchParam::Lpm { value: 0x0a00_0000u32.into(), prefix_len: 12 });
        assert_eq!(lpm(0).unwrap(), MatchParam::Lpm { value: 0u32.into(), prefix_len: 0 });
        assert_eq!(lpm(32).unwrap(), MatchParam::Lpm { value: 0x0a00_0001u32.into(), prefix_len: 32 });
        assert!(lpm(33).is_err() && lpm(-1).is_err());
        let two = |kind: i32, a: u8, b: u8, of: MatchKind| {
            let body = vec![(1, Value::Bytes(vec![a])), (2, Value::Bytes(vec![b]))];
            let param = Value::Struct(vec![(1, Value::I32(kind)), (kind as i16 + 2, Value::Struct(body))]);
            (param_from(&field(of, 8), &param), param)
        };
        let (ternary, _) = two(2, 0xff, 0x0f, MatchKind::Ternary);
        assert_eq!(ternary.unwrap(), MatchParam::Ternary { value: 15u32.into(), mask: 15u32.into() });
        let (range, on_wire) = two(4, 3, 9, MatchKind::Range);
        assert_eq!(param_to(&field(MatchKind::Range, 8), &range.unwrap()), on_wire);
        assert!(two(4, 9, 3, MatchKind::Range).0.is_err());
    }

    #[test]
    fn rates_may_not_fall() {
        let rates = |list: &[(f64, i32)]| {
            let rate = |(rate, burst): &(f64, i32)| {
                Value::Struct(vec![(1, Value::Double(*rate)), (2, Value::I32(*burst))])
            };
            rates_from(&Value::structs(list.iter().map(rate).collect()), 2)
        };
        assert_eq!(rates(&[(1.0, 1), (2.0, 1)]).unwrap()[1], MeterRate { units_per_us: 2.0, burst: 1 });
        assert!(matches!(rates(&[(2.0, 1), (1.0, 1)]), Err(WrongRates::Rate(_))));
        assert!(matches!(rates(&[(f64::NAN, 1), (1.0, 1)]), Err(WrongRates::Rate(_))));
        assert!(matches!(rates(&[(1.0, 1)]), Err(WrongRates::Count(_))));
        assert!(matches!(rates(&[(1.0, -1), (1.0, 1)]), Err(WrongRates::Burst(_))));
    }
}
