//! What the names and numbers of a command are in a program.
//!
//! As p4c's runner for bmv2 does it: a name is taken whole first, then as the end of exactly one; a ternary number
//! matches the digits it has; priorities are turned round (there the higher number wins, in a table the lower).

use super::{ActionText, KeyValue, Number};
use barewire_p4::ir::{
    ActionCall, CounterId, Expr, FieldRef, HeaderRef, KeySource, MatchKind, MeterId, Program, RegisterId,
};
use barewire_p4::ir::{TableId, TableKind};
use barewire_p4::key::MatchParam;
use num_bigint::BigUint;
use num_traits::{One, ToPrimitive};

/// A test's priority `p` is the table's priority `HIGHEST - p`.
pub const HIGHEST_PRIORITY: u32 = 10_000;

/// Why a command does not fit a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// No object has this name.
    #[error("the program has no {kind} '{name}'{}", super::hint(nearest))]
    Unknown { kind: &'static str, name: String, nearest: Option<String> },
    /// Several names end so.
    #[error("{kind} '{name}' may be '{first}' or '{second}'")]
    Ambiguous { kind: &'static str, name: String, first: String, second: String },
    /// An action's parameter got no value.
    #[error("action '{action}' needs a value for '{param}'")]
    MissingArgument { action: String, param: String },
    /// A value does not fit its field's or parameter's bytes.
    #[error("{value} is too large for '{name}' of {width} bits")]
    TooLarge { value: String, name: String, width: u32 },
    /// A value of a form the field's match kind does not take.
    #[error("'{name}' matches {kind}: {value} does not say that")]
    Form { name: String, kind: &'static str, value: String },
    /// More than [`HIGHEST_PRIORITY`].
    #[error("priority {0} is above {HIGHEST_PRIORITY}")]
    Priority(u32),
}

/// An entry ready for a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The table.
    pub table: TableId,
    /// One match for each key field.
    pub key: Vec<MatchParam>,
    /// Lower numbers win; 0 where the table needs none.
    pub priority: u32,
    /// What it does.
    pub call: ActionCall,
}

/// The object with this name, or else the only one whose name ends so.
fn find<'a>(
    kind: &'static str,
    name: &str,
    names: impl Iterator<Item = (usize, &'a str)> + Clone,
) -> Result<usize, ResolveError> {
    if let Some((index, _)) = names.clone().find(|(_, known)| *known == name) {
        return Ok(index);
    }
    let mut candidates = names.clone().filter(|(_, known)| known.ends_with(name));
    match (candidates.next(), candidates.next()) {
        (Some((index, _)), None) => Ok(index),
        (Some((_, first)), Some((_, second))) => Err(ResolveError::Ambiguous {
            kind,
            name: name.to_owned(),
            first: first.to_owned(),
            second: second.to_owned(),
        }),
        _ => {
            let nearest = nearest(name, names.map(|(_, known)| known));
            Err(ResolveError::Unknown { kind, name: name.to_owned(), nearest })
        }
    }
}

fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    barewire_text::nearest(name, names).map(str::to_owned)
}

/// A table by its name.
pub fn table(program: &Program, name: &str) -> Result<TableId, ResolveError> {
    let names = program.tables.iter().enumerate().map(|(index, table)| (index, table.name.as_str()));
    find("table", name, names).map(TableId::from)
}

/// A register by its name.
pub fn register(program: &Program, name: &str) -> Result<RegisterId, ResolveError> {
    let names = program.registers.iter().enumerate().map(|(index, register)| (index, register.name.as_str()));
    find("register", name, names).map(RegisterId::from)
}

/// A counter by its name.
pub fn counter(program: &Program, name: &str) -> Result<CounterId, ResolveError> {
    let names = program.counters.iter().enumerate().map(|(index, counter)| (index, counter.name.as_str()));
    find("counter", name, names).map(CounterId::from)
}

/// A meter by its name.
pub fn meter(program: &Program, name: &str) -> Result<MeterId, ResolveError> {
    let names = program.meters.iter().enumerate().map(|(index, meter)| (index, meter.name.as_str()));
    find("meter", name, names).map(MeterId::from)
}

/// An action of a table with its arguments.
pub fn action(program: &Program, table: TableId, text: &ActionText) -> Result<ActionCall, ResolveError> {
    let actions = &program.tables[table.at()].actions;
    let names =
        actions.iter().enumerate().map(|(index, action)| (index, program.actions[action.at()].name.as_str()));
    let action = actions[find("action", &text.name, names)?];
    let ir = &program.actions[action.at()];
    if let Some((name, _)) =
        text.args.iter().find(|(name, _)| ir.params.iter().all(|param| param.name != *name))
    {
        let nearest = nearest(name, ir.params.iter().map(|param| param.name.as_str()));
        return Err(ResolveError::Unknown { kind: "parameter", name: name.clone(), nearest });
    }
    let mut args = Vec::with_capacity(ir.params.len());
    for param in &ir.params {
        // The last one counts when a name stands twice.
        let value = text.args.iter().rev().find(|(name, _)| *name == param.name);
        let (_, value) = value.ok_or_else(|| ResolveError::MissingArgument {
            action: ir.name.clone(),
            param: param.name.clone(),
        })?;
        args.push(fit(&value.value(), &param.name, param.width)?);
    }
    Ok(ActionCall { action, args })
}

/// A value within a field's bytes; bits of them above its width are cut off, as bmv2 does.
fn fit(value: &BigUint, name: &str, width: u32) -> Result<BigUint, ResolveError> {
    if value.bits() > u64::from(width.div_ceil(8)) * 8 {
        return Err(ResolveError::TooLarge { value: format!("{value:#x}"), name: name.to_owned(), width });
    }
    Ok(value & ones(width))
}

fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - 1_u8
}

/// An `add` command.
pub fn entry(
    program: &Program,
    table_name: &str,
    priority: Option<u32>,
    key: &[(String, KeyValue)],
    action_text: &ActionText,
) -> Result<Entry, ResolveError> {
    let table = table(program, table_name)?;
    let call = action(program, table, action_text)?;
    let ir = &program.tables[table.at()];
    let mut values: Vec<Option<&KeyValue>> = vec![None; ir.key.len()];
    for (name, value) in key {
        values[key_field(program, table, name)?] = Some(value);
    }
    let mut params = Vec::with_capacity(values.len());
    for (field, value) in ir.key.iter().zip(values) {
        params.push(match_param(&field.name, field.kind, field.width, value)?);
    }
    let priority = match ir.kind {
        TableKind::Ternary | TableKind::Range => {
            let priority = priority.unwrap_or(0);
            HIGHEST_PRIORITY.checked_sub(priority).ok_or(ResolveError::Priority(priority))?
        }
        TableKind::Exact | TableKind::Lpm => 0,
    };
    Ok(Entry { table, key: params, priority, call })
}

/// The names a key field goes by: the control plane's, and that of what it matches.
fn field_names(program: &Program, table: TableId, field: usize) -> Vec<String> {
    let key = &program.tables[table.at()].key[field];
    let mut names = vec![key.name.clone()];
    let header = |header: &HeaderRef| match header {
        HeaderRef::Header(id) => Some(program.headers[id.at()].name.clone()),
        HeaderRef::StackElement(stack, index) => match &**index {
            Expr::Int(index) => Some(format!("{}[{index}]", program.stacks[stack.at()].name)),
            _ => None,
        },
        _ => None,
    };
    match &key.source {
        KeySource::Field(FieldRef { header: of, field }) => names.extend(header(of).map(|header| {
            let ty = &program.header_types[program.type_of_ref(of).at()];
            format!("{header}.{}", ty.fields[*field as usize].name)
        })),
        KeySource::Valid(of) => names.extend(header(of).map(|header| format!("{header}.$valid$"))),
    }
    names
}

/// The key field a test means.
fn key_field(program: &Program, table: TableId, name: &str) -> Result<usize, ResolveError> {
    let name = with_index(name);
    let count = program.tables[table.at()].key.len();
    let names: Vec<Vec<String>> = (0..count).map(|field| field_names(program, table, field)).collect();
    let position = |wanted: &str| names.iter().position(|names| names.iter().any(|name| name == wanted));
    let mut forms = vec![name.clone(), format!("{name}$"), format!("{name}.$valid$")];
    if let Some(header) = name.strip_suffix(".valid").or_else(|| name.strip_suffix(".$valid")) {
        forms.push(format!("{header}.$valid$"));
        forms.push(format!("{header}$valid$"));
        forms.push(format!("{header}.isValid()"));
    }
    if let Some(field) = forms.iter().find_map(|form| position(form)) {
        return Ok(field);
    }
    // The last one counts, as in the runner this follows.
    let ends = |known: &String| {
        known.ends_with(&format!(".{name}"))
            || known.ends_with(&format!(".{name}$"))
            || name == "valid" && (known.ends_with(".$valid$") || known == "$valid$")
    };
    names.iter().rposition(|names| names.iter().any(ends)).ok_or_else(|| {
        let nearest = nearest(&name, names.iter().flatten().map(String::as_str));
        ResolveError::Unknown { kind: "key field", name: name.clone(), nearest }
    })
}

/// `extra$0.h` is `extra[0].h`.
fn with_index(name: &str) -> String {
    for (at, _) in name.match_indices('$').rev() {
        let behind = &name[at + 1..];
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            return format!("{}[{}]{}", &name[..at], &behind[..digits], &behind[digits..]);
        }
    }
    name.to_owned()
}

fn match_param(
    name: &str,
    kind: MatchKind,
    width: u32,
    value: Option<&KeyValue>,
) -> Result<MatchParam, ResolveError> {
    let form = |kind: &'static str, value: String| ResolveError::Form { name: name.to_owned(), kind, value };
    let plain = |number: &Number, kind: &'static str| match number.has_wildcards() {
        true => Err(form(kind, number.to_string())),
        false => fit(&number.value(), name, width),
    };
    let none = Number { base: 10, digits: "0".to_owned() };
    Ok(match kind {
        MatchKind::Exact => match value {
            None => MatchParam::Exact(plain(&none, "exactly")?),
            Some(KeyValue::Number(number)) => MatchParam::Exact(plain(number, "exactly")?),
            Some(other) => return Err(form("exactly", written(other))),
        },
        MatchKind::Valid => match value {
            None => MatchParam::Valid(false),
            Some(KeyValue::Number(number)) => MatchParam::Valid(number.value() != BigUint::ZERO),
            Some(other) => return Err(form("a header's validity", written(other))),
        },
        MatchKind::Lpm => {
            let (value, prefix_len) = match value {
                None => (BigUint::ZERO, 0),
                Some(KeyValue::Number(number)) => {
                    let digits = number.digits.chars().filter(|c| *c != '*').count() as u32;
                    let prefix_len = number.digit_bits().map_or(width, |bits| digits.saturating_mul(bits));
                    (fit(&number.value(), name, width)?, prefix_len)
                }
                Some(KeyValue::Prefix(number, len)) => {
                    let too_large =
                        || ResolveError::TooLarge { value: len.to_string(), name: name.to_owned(), width };
                    let len = len.value().to_u32().filter(|len| *len <= width).ok_or_else(too_large)?;
                    (fit(&number.value(), name, width)?, len)
                }
                Some(other) => return Err(form("a prefix", written(other))),
            };
            let prefix_len = prefix_len.min(width);
            let rest = width - prefix_len;
            MatchParam::Lpm { value: value >> rest << rest, prefix_len }
        }
        MatchKind::Ternary | MatchKind::Optional => {
            let (value, mask) = match value {
                None => (BigUint::ZERO, BigUint::ZERO),
                Some(KeyValue::Number(number)) if kind == MatchKind::Optional => {
                    (plain(number, "one value or any")?, ones(width))
                }
                Some(KeyValue::Number(number)) => {
                    (fit(&number.value(), name, width)?, number.mask(width) & ones(width))
                }
                Some(KeyValue::Masked(value, mask)) => {
                    (fit(&value.value(), name, width)?, fit(&mask.value(), name, width)?)
                }
                Some(other) => return Err(form("by a mask", written(other))),
            };
            MatchParam::Ternary { value: value & &mask, mask }
        }
        MatchKind::Range => match value {
            None => MatchParam::Range { low: BigUint::ZERO, high: ones(width) },
            Some(KeyValue::Number(number)) => {
                let value = plain(number, "a range")?;
                MatchParam::Range { low: value.clone(), high: value }
            }
            Some(KeyValue::Range(low, high)) => {
                let (low, high) = (plain(low, "a range")?, plain(high, "a range")?);
                if low > high {
                    return Err(form("a range", format!("{low:#x} -> {high:#x}")));
                }
                MatchParam::Range { low, high }
            }
            Some(other) => return Err(form("a range", written(other))),
        },
    })
}

fn written(value: &KeyValue) -> String {
    match value {
        KeyValue::Number(number) => number.to_string(),
        KeyValue::Prefix(value, len) => format!("{value}/{len}"),
        KeyValue::Masked(value, mask) => format!("{value} &&& {mask}"),
        KeyValue::Range(low, high) => format!("{low} -> {high}"),
    }
}
