//! Expressions: values on unbounded integers, as bmv2 defines them; a field keeps the low bits of what is written.
//!
//! Wrapping is explicit (`&` with a mask for unsigned types, [`Expr::Wrap`] for signed ones), so a front end for
//! P4-16 source says what its types say and the compiler finds the widths it needs by itself.

use super::{HeaderId, StackId, UnionId, UnionStackId};
use num_bigint::BigInt;

/// A header instance, perhaps one known only when the packet is there.
#[derive(Debug, Clone, PartialEq)]
pub enum HeaderRef {
    /// This instance.
    Header(HeaderId),
    /// The element after the last one extracted (`stack.next`); parsers only.
    StackNext(StackId),
    /// The element extracted last (`stack.last`).
    StackLast(StackId),
    /// The element at an index computed from the packet. Out of range: reads give 0 and invalid, writes do nothing.
    StackElement(StackId, Box<Expr>),
    /// The given member of the next union of a stack; parsers only.
    UnionStackNext(UnionStackId, u32),
    /// The given member of the union extracted last.
    UnionStackLast(UnionStackId, u32),
    /// The given member of the union at a computed index.
    UnionStackElement(UnionStackId, Box<Expr>, u32),
}

/// A header union, perhaps one known only when the packet is there.
#[derive(Debug, Clone, PartialEq)]
pub enum UnionRef {
    /// This union.
    Union(UnionId),
    /// The union at a computed index of a stack.
    Element(UnionStackId, Box<Expr>),
}

/// A field of a [`HeaderRef`]: the position among its type's fields.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldRef {
    /// Whose field.
    pub header: HeaderRef,
    /// The position in the type's fields.
    pub field: u32,
}

impl FieldRef {
    /// The field, if it is the same one for every packet.
    pub fn fixed(&self) -> Option<super::FieldId> {
        match self.header {
            HeaderRef::Header(header) => Some(super::FieldId { header, field: self.field }),
            _ => None,
        }
    }
}

impl From<super::FieldId> for FieldRef {
    fn from(id: super::FieldId) -> Self {
        FieldRef { header: HeaderRef::Header(id.header), field: id.field }
    }
}

/// Operators with one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-x`.
    Neg,
    /// `~x` on unbounded integers: `-x - 1`.
    BitNot,
    /// `not x` of a truth value.
    Not,
    /// A truth value as 0 or 1 (`b2d`).
    BoolToInt,
    /// Not zero (`d2b`).
    IntToBool,
}

/// Operators with two operands. A division or remainder by zero gives 0; a shift by a negative count gives 0.
/// Shifts to the left are cut at [`MAX_SHIFT`] bits: no field is that wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    /// Arithmetic: rounds towards minus infinity.
    Shr,
    BitAnd,
    BitOr,
    BitXor,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Of truth values; the right side is not evaluated when the left one settles it.
    And,
    Or,
}

/// A count beyond this shifts everything out: the result of a longer left shift is 0.
pub const MAX_SHIFT: u64 = 4096;

/// A value: an integer, or a truth value (which are never mixed: [`UnaryOp::BoolToInt`] and its inverse convert).
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A constant, perhaps negative.
    Int(BigInt),
    /// A constant truth value.
    Bool(bool),
    /// The value of a field: sign-extended when the field is signed. A varbit field's bits as an unsigned number.
    Field(FieldRef),
    /// A parameter of the running action, unsigned.
    Param(u32),
    /// One operand.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `if .0 { .1 } else { .2 }`; only one branch is evaluated.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Whether a header is valid.
    Valid(HeaderRef),
    /// Whether one of a union's headers is valid.
    UnionValid(UnionRef),
    /// The low `width` bits as a two's complement number (`two_comp_mod`).
    Wrap { value: Box<Expr>, width: u32 },
    /// Clamped to what `width` bits hold: `0..2^width` or, signed, `-2^(width-1)..2^(width-1)` (`usat_cast`, `sat_cast`).
    Saturate { value: Box<Expr>, width: u32, signed: bool },
    /// The index of the stack's last valid-by-extraction element: next index minus 1; 0 when the stack is empty.
    LastIndex(StackId),
    /// The next index of a stack (`size_stack`): how many elements have been extracted or pushed.
    StackSize(StackId),
    /// Headers equal: both invalid, or both valid with equal fields.
    HeadersEqual(HeaderRef, HeaderRef),
    /// Unions equal: member by member.
    UnionsEqual(UnionRef, UnionRef),
    /// Stacks equal: element by element.
    StacksEqual(StackId, StackId),
    /// Stacks of unions equal: element by element.
    UnionStacksEqual(UnionStackId, UnionStackId),
    /// A register's value, unsigned; 0 when the index is out of range (P4_14: `register` operands).
    Register {
        /// The array.
        register: super::RegisterId,
        /// Which of it.
        index: Box<Expr>,
    },
    /// `width` bits of the packet, `offset` bits after the parser's place, which stays; parsers only. Too short a
    /// packet is the parser error PacketTooShort, and parsing ends there.
    Lookahead { offset: u32, width: u32 },
}

impl Expr {
    /// This colour of a meter (green 0, yellow 1, red 2) as PSA numbers it (red 0, green 1, yellow 2).
    pub fn meter_to_psa_color(self) -> Expr {
        self.map_color([(0, 1), (1, 2)], 0)
    }

    /// The same the other way round.
    pub fn psa_to_meter_color(self) -> Expr {
        self.map_color([(1, 0), (2, 1)], 2)
    }

    fn map_color(self, pairs: [(u8, u8); 2], otherwise: u8) -> Expr {
        let number = |color: u8| Box::new(Expr::Int(color.into()));
        pairs.into_iter().rev().fold(*number(otherwise), |rest, (from, to)| {
            let is = Expr::Binary(BinaryOp::Eq, Box::new(self.clone()), number(from));
            Expr::Select(Box::new(is), number(to), Box::new(rest))
        })
    }

    /// The header whose validity this is as a number, if it is the same one for every packet.
    pub fn fixed_validity(&self) -> Option<super::HeaderId> {
        match self {
            Expr::Unary(UnaryOp::BoolToInt, value) => match **value {
                Expr::Valid(HeaderRef::Header(header)) => Some(header),
                _ => None,
            },
            _ => None,
        }
    }
}
