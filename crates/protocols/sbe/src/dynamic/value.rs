//! What a field holds.

use crate::layout::{ByteOrder, EnumValue, Kind, Member, NamedType, Primitive};
use crate::value::{fmt_decimal, fmt_set};
use crate::{MonthYear, Text};
use std::fmt;

/// A field's value, of the type that the schema gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No value: the null value, a field that the message's version does not have, or one past the acting block.
    Null,
    /// A number of a signed type.
    Int(i64),
    /// A number of an unsigned type.
    Uint(u64),
    /// A floating-point number.
    Float(f64),
    /// Several numbers of one kind.
    Array(ArrayValue<'a>),
    /// A character.
    Char(u8),
    /// Text.
    Text(Text<'a>),
    /// A number with a constant exponent of ten.
    Decimal {
        /// What it counts.
        mantissa: i64,
        /// The power of ten of one.
        exponent: i8,
    },
    /// A month.
    Month(MonthYear),
    /// A value that may have a name.
    Enum(EnumRef<'a>),
    /// Bits that may have names.
    Set(SetRef<'a>),
    /// Several numbers.
    Composite(CompositeValue<'a>),
}

/// A value of an enum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnumRef<'a> {
    /// The value as it was sent; a character's code.
    pub raw: u64,
    primitive: Primitive,
    values: &'a [EnumValue],
}

impl<'a> EnumRef<'a> {
    /// The value's name; `None` for a value that the schema does not know.
    pub fn name(&self) -> Option<&'a str> {
        self.values.iter().find(|value| value.value == self.raw).map(|value| value.name.as_str())
    }

    /// Whether the value is a character.
    pub fn is_char(&self) -> bool {
        self.primitive == Primitive::Char
    }
}

/// The bits of a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetRef<'a> {
    /// The bits as they were sent.
    pub raw: u64,
    choices: &'a [EnumValue],
}

impl<'a> SetRef<'a> {
    /// The names of the bits that are set, lowest bit first as the schema has them.
    pub fn names(self) -> impl Iterator<Item = &'a str> {
        self.choices
            .iter()
            .filter(move |choice| self.raw & bit(choice) != 0)
            .map(|choice| choice.name.as_str())
    }

    /// The bits that are set and have no name.
    pub fn unnamed(&self) -> u64 {
        self.choices.iter().fold(self.raw, |rest, choice| rest & !bit(choice))
    }
}

fn bit(choice: &EnumValue) -> u64 {
    u32::try_from(choice.value).ok().and_then(|n| 1u64.checked_shl(n)).unwrap_or(0)
}

/// The parts of a composite that is neither decimal nor month.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompositeValue<'a> {
    bytes: &'a [u8],
    members: &'a [Member],
    order: ByteOrder,
}

impl<'a> CompositeValue<'a> {
    /// Each part with its name.
    pub fn parts(self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        self.members.iter().map(move |member| {
            (member.name.as_str(), Value::read(&member.ty, self.bytes, member.offset, self.order))
        })
    }
}

/// Several numbers of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayValue<'a> {
    bytes: &'a [u8],
    primitive: Primitive,
    order: ByteOrder,
}

impl<'a> ArrayValue<'a> {
    /// Each.
    pub fn values(self) -> impl Iterator<Item = Value<'a>> {
        let each = self.bytes.chunks_exact(self.primitive.size());
        each.map(move |bytes| {
            self.primitive.read(bytes, self.order).map_or(Value::Null, |v| number(self.primitive, v))
        })
    }
}

/// Whether `value` says "no value".
fn is_null(primitive: Primitive, value: i128, null: Option<i128>) -> bool {
    let nan = |value| match number(primitive, value) {
        Value::Float(value) => value.is_nan(),
        _ => false,
    };
    null.is_some_and(|null| value == null || nan(value) && nan(null))
}

/// A scalar or constant at the start of `bytes`.
fn scalar<'a>(kind: &'a Kind, bytes: &[u8], order: ByteOrder) -> Value<'a> {
    match kind {
        Kind::Constant { primitive, value } => number(*primitive, *value),
        Kind::ConstantText { text } => Value::Text(Text::new(text.as_bytes())),
        Kind::ConstantEnum { of, value, .. } => match &of.kind {
            Kind::Enum { primitive, values, .. } => {
                Value::Enum(EnumRef { raw: *value, primitive: *primitive, values })
            }
            _ => Value::Null,
        },
        Kind::Scalar { primitive, null } => match primitive.read(bytes, order) {
            Some(value) if !is_null(*primitive, value, *null) => number(*primitive, value),
            _ => Value::Null,
        },
        _ => Value::Null,
    }
}

fn number<'a>(primitive: Primitive, value: i128) -> Value<'a> {
    match primitive {
        Primitive::Char => Value::Char(value as u8),
        Primitive::F32 => Value::Float(f32::from_bits(value as u32).into()),
        Primitive::F64 => Value::Float(f64::from_bits(value as u64)),
        _ if primitive.is_signed() => Value::Int(value as i64),
        _ => Value::Uint(value as u64),
    }
}

impl<'a> Value<'a> {
    /// The field of type `ty` at `offset` in `block`; null where the block ends before the field does.
    pub fn read(ty: &'a NamedType, block: &'a [u8], offset: usize, order: ByteOrder) -> Value<'a> {
        let size = ty.kind.size();
        let Some(bytes) = block.get(offset..).and_then(|rest| rest.get(..size)) else { return Value::Null };
        match &ty.kind {
            Kind::Array { primitive, .. } => Value::Array(ArrayValue { bytes, primitive: *primitive, order }),
            Kind::Text { .. } => Value::Text(Text::new(bytes)),
            Kind::Enum { primitive, null, values } => match primitive.read(bytes, order) {
                Some(value) if Some(value) != *null => {
                    Value::Enum(EnumRef { raw: value as u64, primitive: *primitive, values })
                }
                _ => Value::Null,
            },
            Kind::Set { primitive, choices } => match primitive.read(bytes, order) {
                Some(value) => Value::Set(SetRef { raw: value as u64, choices }),
                None => Value::Null,
            },
            kind @ Kind::Composite { members } => composite(kind, CompositeValue { bytes, members, order }),
            kind => scalar(kind, bytes, order),
        }
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

fn composite<'a>(kind: &Kind, parts: CompositeValue<'a>) -> Value<'a> {
    let CompositeValue { bytes, order, .. } = parts;
    if let Some((primitive, null, exponent)) = kind.as_decimal() {
        return match primitive.read(bytes, order) {
            Some(value) if Some(value) != null => match i64::try_from(value) {
                Ok(mantissa) => Value::Decimal { mantissa, exponent },
                Err(_) => Value::Composite(parts),
            },
            _ => Value::Null,
        };
    }
    if let (true, ByteOrder::Little, Some(month)) = (kind.is_month_year(), order, bytes.first_chunk::<5>()) {
        let month = MonthYear::from_bytes(*month);
        return if month.is_null() { Value::Null } else { Value::Month(month) };
    }
    Value::Composite(parts)
}

/// For people: a value's name where it has one, exact decimals, `null`.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.pad("null"),
            Value::Int(value) => fmt::Display::fmt(value, f),
            Value::Uint(value) => fmt::Display::fmt(value, f),
            Value::Float(value) => fmt::Display::fmt(value, f),
            Value::Array(array) => f.debug_list().entries(array.values().map(|v| v.to_string())).finish(),
            Value::Char(byte) => write!(f, "{}", byte.escape_ascii()),
            Value::Text(text) => fmt::Display::fmt(text, f),
            Value::Decimal { mantissa, exponent } => fmt_decimal(f, *mantissa, *exponent),
            Value::Month(month) => fmt::Display::fmt(month, f),
            Value::Enum(value) => match value.name() {
                Some(name) => f.pad(name),
                None if value.is_char() => write!(f, "{}", (value.raw as u8).escape_ascii()),
                None => fmt::Display::fmt(&value.raw, f),
            },
            Value::Set(set) => {
                fmt_set(f, set.raw, set.choices.iter().map(|choice| (choice.name.as_str(), bit(choice))))
            }
            Value::Composite(composite) => {
                for (i, (name, value)) in composite.parts().enumerate() {
                    write!(f, "{}{name}={value}", if i == 0 { "" } else { " " })?;
                }
                Ok(())
            }
        }
    }
}
