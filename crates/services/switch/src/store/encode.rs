//! What an entry says of a key, and an action's arguments, checked and packed.
//!
//! A million entries are kept as bytes: of each key field the value, padded to whole bytes, and after it the prefix
//! length (two bytes), the mask or the upper end, as its kind needs. Packed keys are equal exactly when the entries
//! match the same packets by the same means, so duplicates are found by comparing bytes.

use crate::control::{ControlError, ErrorKind};
use barewire_p4::ir::{Action, ActionCall, ActionId, KeyField, MatchKind, Program, Table, TableKind};
use barewire_p4::key::MatchParam;
use num_bigint::BigUint;

type Result<T> = std::result::Result<T, ControlError>;

/// Whether the entries of a table have priorities.
pub fn has_priority(table: &Table) -> bool {
    matches!(table.kind, TableKind::Ternary | TableKind::Range)
}

fn bytes_of(width: u32) -> usize {
    width.div_ceil(8).max(1) as usize
}

fn ones(width: u32) -> BigUint {
    (BigUint::from(1u8) << width) - 1u8
}

fn prefix_mask(width: u32, prefix_len: u32) -> BigUint {
    ones(prefix_len) << (width - prefix_len)
}

/// Append the value, most significant byte first, in exactly `bytes` bytes.
fn put(out: &mut Vec<u8>, value: &BigUint, bytes: usize) {
    let at = out.len();
    out.resize(at + bytes, 0);
    let mut left = &mut out[at..];
    for digit in value.iter_u64_digits() {
        for byte in digit.to_le_bytes() {
            let Some((last, before)) = left.split_last_mut() else { return };
            *last = byte;
            left = before;
        }
    }
}

fn bad_key(table: &Table, at: usize, what: impl std::fmt::Display) -> ControlError {
    let name = table.key.get(at).map_or("", |field| field.name.as_str());
    ControlError::new(
        ErrorKind::BadMatchKey,
        format!("table '{}', key field {} ('{name}'): {what}", table.name, at + 1),
    )
}

fn param_name(param: &MatchParam) -> &'static str {
    match param {
        MatchParam::Exact(_) => "an exact",
        MatchParam::Valid(_) => "a valid",
        MatchParam::Lpm { .. } => "an lpm",
        MatchParam::Ternary { .. } => "a ternary",
        MatchParam::Range { .. } => "a range",
    }
}

/// The parameter as the table keeps it: bits that do not count cut off. The error says what is wrong.
fn normal_param(field: &KeyField, param: &MatchParam) -> std::result::Result<MatchParam, String> {
    let width = field.width;
    let fits = |value: &BigUint| {
        if value.bits() > u64::from(width) {
            Err(format!("0x{value:x} is wider than {width} bits"))
        } else {
            Ok(())
        }
    };
    let counted = |value: &BigUint| field.mask.as_ref().map_or_else(|| value.clone(), |mask| value & mask);
    match (field.kind, param) {
        (MatchKind::Exact, MatchParam::Exact(value)) => {
            fits(value)?;
            Ok(MatchParam::Exact(counted(value)))
        }
        (MatchKind::Valid, MatchParam::Valid(valid)) => Ok(MatchParam::Valid(*valid)),
        (MatchKind::Lpm, MatchParam::Lpm { value, prefix_len }) => {
            fits(value)?;
            if *prefix_len > width {
                return Err(format!("prefix length {prefix_len} is beyond the field's {width} bits"));
            }
            let value = counted(value) & prefix_mask(width, *prefix_len);
            Ok(MatchParam::Lpm { value, prefix_len: *prefix_len })
        }
        (MatchKind::Ternary, MatchParam::Ternary { value, mask }) => {
            fits(value)?;
            fits(mask)?;
            Ok(MatchParam::Ternary { value: counted(value) & mask, mask: mask.clone() })
        }
        (MatchKind::Optional, MatchParam::Ternary { value, mask }) => {
            fits(value)?;
            if mask.bits() == 0 {
                return Ok(MatchParam::Ternary { value: BigUint::ZERO, mask: BigUint::ZERO });
            }
            if *mask != ones(width) {
                return Err(format!(
                    "the mask of an optional field is 0 or all {width} bits, not 0x{mask:x}"
                ));
            }
            Ok(MatchParam::Ternary { value: counted(value), mask: mask.clone() })
        }
        (MatchKind::Optional, MatchParam::Exact(value)) => {
            fits(value)?;
            Ok(MatchParam::Ternary { value: counted(value), mask: ones(width) })
        }
        (MatchKind::Range, MatchParam::Range { low, high }) => {
            fits(low)?;
            fits(high)?;
            if low > high {
                return Err(format!("the range 0x{low:x}..0x{high:x} ends before it begins"));
            }
            Ok(param.clone())
        }
        (kind, param) => Err(format!("{} match was given for {} field", param_name(param), {
            match kind {
                MatchKind::Exact | MatchKind::Optional => format!("an {}", kind.name()),
                _ => format!("a {}", kind.name()),
            }
        })),
    }
}

/// Check a key, pack it onto `out`, and give it back as the table keeps it.
///
/// # Errors
/// [`ErrorKind::NoTableKey`] for a table without a key, [`ErrorKind::BadMatchKey`] with the field's place.
pub fn encode_key(table: &Table, key: &[MatchParam], out: &mut Vec<u8>) -> Result<Vec<MatchParam>> {
    if table.key.is_empty() {
        return Err(ControlError::new(
            ErrorKind::NoTableKey,
            format!("table '{}' has no key: it has a default entry only", table.name),
        ));
    }
    if table.key.len() != key.len() {
        return Err(ControlError::new(
            ErrorKind::BadMatchKey,
            format!("table '{}' has {} key fields, {} were given", table.name, table.key.len(), key.len()),
        ));
    }
    let mut normal = Vec::with_capacity(key.len());
    for (at, (field, param)) in table.key.iter().zip(key).enumerate() {
        let param = normal_param(field, param).map_err(|what| bad_key(table, at, what))?;
        let bytes = bytes_of(field.width);
        match &param {
            MatchParam::Exact(value) => put(out, value, bytes),
            MatchParam::Valid(valid) => out.push(u8::from(*valid)),
            MatchParam::Lpm { value, prefix_len } => {
                put(out, value, bytes);
                // A field of more than 65,535 bits does not exist; and if one did, its long prefixes would still differ
                // in their values.
                out.extend_from_slice(&u16::try_from(*prefix_len).unwrap_or(u16::MAX).to_be_bytes());
            }
            MatchParam::Ternary { value, mask } => {
                put(out, value, bytes);
                put(out, mask, bytes);
            }
            MatchParam::Range { low, high } => {
                put(out, low, bytes);
                put(out, high, bytes);
            }
        }
        normal.push(param);
    }
    Ok(normal)
}

/// What [`encode_key`] packed.
pub fn decode_key(table: &Table, packed: &[u8]) -> Vec<MatchParam> {
    let mut rest = packed;
    let mut take = |bytes: usize| {
        let (value, after) = rest.split_at(bytes.min(rest.len()));
        rest = after;
        value
    };
    let number = BigUint::from_bytes_be;
    table
        .key
        .iter()
        .map(|field| {
            let bytes = bytes_of(field.width);
            match field.kind {
                MatchKind::Exact => MatchParam::Exact(number(take(bytes))),
                MatchKind::Valid => MatchParam::Valid(take(1) != [0]),
                MatchKind::Lpm => {
                    let value = number(take(bytes));
                    let prefix_len = take(2).iter().fold(0, |len, byte| len << 8 | u32::from(*byte));
                    MatchParam::Lpm { value, prefix_len }
                }
                MatchKind::Ternary | MatchKind::Optional => {
                    let value = number(take(bytes));
                    MatchParam::Ternary { value, mask: number(take(bytes)) }
                }
                MatchKind::Range => {
                    let low = number(take(bytes));
                    MatchParam::Range { low, high: number(take(bytes)) }
                }
            }
        })
        .collect()
}

/// Check an action with its arguments.
///
/// # Errors
/// [`ErrorKind::InvalidActionName`] when it is not one of `allowed`, [`ErrorKind::BadActionData`].
pub fn check_call(program: &Program, allowed: &[ActionId], owner: &str, call: &ActionCall) -> Result<()> {
    let Some(action) = program.actions.get(call.action.at()) else {
        let why = format!("there is no action number {}", call.action.0);
        return Err(ControlError::new(ErrorKind::InvalidActionName, why));
    };
    if !allowed.contains(&call.action) {
        let names: Vec<&str> = allowed.iter().map(|a| program.actions[a.at()].name.as_str()).collect();
        return Err(ControlError::new(
            ErrorKind::InvalidActionName,
            format!(
                "action '{}' is not one of {owner}: {}",
                action.name,
                barewire_text::suggest(&action.name, &names)
            ),
        ));
    }
    let bad = |what: String| ControlError::new(ErrorKind::BadActionData, what);
    if call.args.len() != action.params.len() {
        return Err(bad(format!(
            "action '{}' takes {} arguments, {} were given",
            action.name,
            action.params.len(),
            call.args.len()
        )));
    }
    for (arg, param) in call.args.iter().zip(&action.params) {
        if arg.bits() > u64::from(param.width) {
            return Err(bad(format!(
                "action '{}', argument '{}': 0x{arg:x} is wider than {} bits",
                action.name, param.name, param.width
            )));
        }
    }
    Ok(())
}

/// The arguments of a checked call, packed.
pub fn encode_args(action: &Action, args: &[BigUint]) -> Box<[u8]> {
    let mut out = Vec::new();
    for (param, arg) in action.params.iter().zip(args) {
        put(&mut out, arg, bytes_of(param.width));
    }
    out.into()
}

/// What [`encode_args`] packed.
pub fn decode_args(action: &Action, packed: &[u8]) -> Vec<BigUint> {
    let mut rest = packed;
    action
        .params
        .iter()
        .map(|param| {
            let (value, after) = rest.split_at(bytes_of(param.width).min(rest.len()));
            rest = after;
            BigUint::from_bytes_be(value)
        })
        .collect()
}
