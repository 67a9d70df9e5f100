//! Values known when the program is compiled (specification, chapter 18), and what operators do to them.

use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::{One, Signed as _, ToPrimitive as _, Zero as _};

use super::ty::{EnumId, TypeId};
use crate::ast::BinaryOp;

/// The widest number the front end computes with, in bits.
pub const MAX_WIDTH: u32 = 2048;

/// A value known when the program is compiled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// `bool`
    Bool(bool),
    /// `int`, `bit<W>`, `int<W>`: the number itself, negative ones too; its type says the width.
    Int(BigInt),
    /// `string`
    Str(Rc<str>),
    /// A member of an enumeration without representation, by its place; with one it is a [`Value::Member`].
    Enum(EnumId, u32),
    /// A member of an enumeration with representation: its number.
    Member(EnumId, BigInt),
    /// A member of `error`, by its place in the program.
    ErrorCode(u32),
    /// A member of `match_kind`, by its place in the program.
    MatchKind(u32),
    /// A tuple, list, struct, stack: its elements in order.
    List(Rc<[Value]>),
    /// An invalid header or union.
    Invalid(TypeId),
}

impl Value {
    /// A number.
    #[must_use]
    pub fn int(value: impl Into<BigInt>) -> Self {
        Self::Int(value.into())
    }

    /// The number of an `int`, `bit`, `int<W>` or serializable enumeration.
    #[must_use]
    pub fn as_int(&self) -> Option<&BigInt> {
        match self {
            Self::Int(value) | Self::Member(_, value) => Some(value),
            _ => None,
        }
    }

    /// A number that fits.
    #[must_use]
    pub fn as_u32(&self) -> Option<u32> {
        self.as_int().and_then(num_traits::ToPrimitive::to_u32)
    }

    /// The truth value of a `bool`.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }
}

/// `2^width`
fn modulus(width: u32) -> BigInt {
    BigInt::one() << width
}

/// The number that `width` bits hold after wrapping around.
#[must_use]
pub fn wrap(value: &BigInt, width: u32, signed: bool) -> BigInt {
    if width == 0 {
        return BigInt::zero();
    }
    let modulus = modulus(width);
    let mut low = value % &modulus;
    if low.is_negative() {
        low += &modulus;
    }
    if signed && low.bit(u64::from(width) - 1) {
        low -= modulus;
    }
    low
}

/// Smallest and largest number of `width` bits.
#[must_use]
pub fn bounds(width: u32, signed: bool) -> (BigInt, BigInt) {
    if width == 0 {
        (BigInt::zero(), BigInt::zero())
    } else if signed {
        let half = modulus(width - 1);
        (-half.clone(), half - 1)
    } else {
        (BigInt::zero(), modulus(width) - 1)
    }
}

/// Does the number fit? Unsigned types take what `width` bits can write down, signed ones their own range.
#[must_use]
pub fn fits(value: &BigInt, width: u32, signed: bool) -> bool {
    let (low, high) = bounds(width, signed);
    *value >= low && *value <= high
}

/// At the nearest bound, if it does not fit.
#[must_use]
pub fn saturate(value: BigInt, width: u32, signed: bool) -> BigInt {
    let (low, high) = bounds(width, signed);
    value.clamp(low, high)
}

/// The bits `high:low` of a number.
#[must_use]
pub fn slice(value: &BigInt, high: u32, low: u32) -> BigInt {
    wrap(&(value >> low), high - low + 1, false)
}

/// `a ++ b`
#[must_use]
pub fn concat(left: &BigInt, right: &BigInt, left_width: u32, right_width: u32, signed: bool) -> BigInt {
    let bits = (wrap(left, left_width, false) << right_width) + wrap(right, right_width, false);
    wrap(&bits, left_width + right_width, signed)
}

/// `a == b`, numbers by what they are worth.
#[must_use]
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a.as_int(), b.as_int()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// Comparisons, and arithmetic before it wraps. `None`: a division by zero, or an operator whose result depends on widths.
#[must_use]
pub fn compute(op: BinaryOp, a: &BigInt, b: &BigInt) -> Option<Value> {
    let number = match op {
        BinaryOp::Lt => return Some(Value::Bool(a < b)),
        BinaryOp::Le => return Some(Value::Bool(a <= b)),
        BinaryOp::Gt => return Some(Value::Bool(a > b)),
        BinaryOp::Ge => return Some(Value::Bool(a >= b)),
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div if !b.is_zero() => a / b,
        BinaryOp::Mod if !b.is_zero() => a % b,
        BinaryOp::BitAnd => a & b,
        BinaryOp::BitOr => a | b,
        BinaryOp::BitXor => a ^ b,
        _ => return None,
    };
    Some(Value::Int(number))
}

/// How far to shift; `None` past every width there is.
#[must_use]
pub fn distance(by: &BigInt) -> Option<u32> {
    by.to_u32().filter(|&by| by <= MAX_WIDTH)
}
