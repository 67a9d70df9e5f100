use num_bigint::BigInt;

use super::{Ident, KeyValue, Name, NodeId, Type};
use crate::source::Span;

/// An expression (section 8).
#[derive(Clone, Debug)]
pub struct Expr {
    /// Node.
    pub id: NodeId,
    /// The whole. Parentheses around it belong to it.
    pub span: Span,
    /// Which.
    pub kind: ExprKind,
}

/// Kinds of expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// `7`, `0xff`, `8w7`, `4s0b1`
    Int(IntLiteral),
    /// `"…"`, without quotes, `\"` and `\\` resolved.
    String(Name),
    /// `true`, `false`
    Bool(bool),
    /// `this`
    This,
    /// `x`, `.x`: a value, a function, an instance, a table.
    Path {
        /// With a dot in front: of the top level.
        absolute: bool,
        /// The name.
        name: Ident,
    },
    /// A type where an expression stands: what is before the dot of `E.A` and `error.E`, and what is called in a constructor call
    /// `T<A>(x)`.
    Type(Box<Type>),
    /// `a.b`
    Member(Box<Expr>, Ident),
    /// `a[i]`
    Index(Box<Expr>, Box<Expr>),
    /// `a[high:low]`
    Slice {
        /// What.
        base: Box<Expr>,
        /// The highest bit.
        high: Box<Expr>,
        /// The lowest bit.
        low: Box<Expr>,
    },
    /// `a[low +: width]`
    PlusSlice {
        /// What.
        base: Box<Expr>,
        /// The lowest bit, perhaps known at run time only.
        low: Box<Expr>,
        /// How many bits.
        width: Box<Expr>,
    },
    /// `-a`
    Unary(UnaryOp, Box<Expr>),
    /// `a + b`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a ? b : c`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `(T) a`
    Cast(Box<Type>, Box<Expr>),
    /// `f<T>(a)`, `x.m(a)`; a constructor call has a type as its callee.
    Call(Box<Call>),
    /// `{a, b}`, `{a, ...}`
    List {
        /// The elements.
        items: Vec<Expr>,
        /// `...` at the end: the rest are defaults.
        rest: Option<Span>,
    },
    /// `{a = 1, b = 2}`, `{a = 1, ...}`
    Struct {
        /// The fields.
        fields: Vec<KeyValue>,
        /// `...` at the end: the rest are defaults.
        rest: Option<Span>,
    },
    /// `{#}`
    Invalid,
    /// `...`: the default value.
    Default,
    /// `_` as an argument.
    DontCare,
    /// What could not be parsed and has been reported.
    Error,
}

/// An integer as written (section 6.4.3.2).
#[derive(Clone, Debug)]
pub struct IntLiteral {
    /// The value without regard to the width.
    pub value: BigInt,
    /// `8w` or `8s`; none: of any size.
    pub width: Option<LiteralWidth>,
    /// 2, 8, 10 or 16.
    pub base: u8,
}

/// `8w`, `8s`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiteralWidth {
    /// In bits.
    pub bits: u32,
    /// `s`
    pub signed: bool,
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called: a path, a member, or a type.
    pub callee: Expr,
    /// `<A, B>` of a function or method; those of a constructor call are in its type.
    pub type_args: Vec<Type>,
    /// `(…)`
    pub args: Vec<Arg>,
}

/// An argument: `e`, `name = e`, `_`, `name = _`.
#[derive(Clone, Debug)]
pub struct Arg {
    /// Node.
    pub id: NodeId,
    /// The whole.
    pub span: Span,
    /// `name =`
    pub name: Option<Ident>,
    /// The value; [`ExprKind::DontCare`] for `_`.
    pub value: Expr,
}

/// Operators with one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// `!`
    Not,
    /// `~`
    Complement,
    /// `-`
    Minus,
    /// `+`
    Plus,
}

impl UnaryOp {
    /// As written.
    pub fn text(self) -> &'static str {
        match self {
            UnaryOp::Not => "!",
            UnaryOp::Complement => "~",
            UnaryOp::Minus => "-",
            UnaryOp::Plus => "+",
        }
    }
}

/// Operators with two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `|+|`
    AddSat,
    /// `|-|`
    SubSat,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `<=`
    Le,
    /// `>=`
    Ge,
    /// `<`
    Lt,
    /// `>`
    Gt,
    /// `!=`
    Ne,
    /// `==`
    Eq,
    /// `&`
    BitAnd,
    /// `^`
    BitXor,
    /// `|`
    BitOr,
    /// `++`
    Concat,
    /// `&&`
    And,
    /// `||`
    Or,
}

impl BinaryOp {
    /// As written.
    pub fn text(self) -> &'static str {
        match self {
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Mod => "%",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::AddSat => "|+|",
            BinaryOp::SubSat => "|-|",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::Le => "<=",
            BinaryOp::Ge => ">=",
            BinaryOp::Lt => "<",
            BinaryOp::Gt => ">",
            BinaryOp::Ne => "!=",
            BinaryOp::Eq => "==",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitXor => "^",
            BinaryOp::BitOr => "|",
            BinaryOp::Concat => "++",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
        }
    }
}

/// What a `select` case, a table entry or a switch label matches (section 8.13).
#[derive(Clone, Debug)]
pub struct Keyset {
    /// Node.
    pub id: NodeId,
    /// The whole.
    pub span: Span,
    /// Which.
    pub kind: KeysetKind,
}

impl Keyset {
    /// Gives its expressions to `each`, in the order of the source.
    pub fn values<'a>(&'a self, each: &mut impl FnMut(&'a Expr)) {
        match &self.kind {
            KeysetKind::Default | KeysetKind::DontCare => {}
            KeysetKind::Value(value) => each(value),
            KeysetKind::Mask(a, b) | KeysetKind::Range(a, b) => {
                each(a);
                each(b);
            }
            KeysetKind::Tuple(parts) => parts.iter().for_each(|part| part.values(each)),
        }
    }
}

/// Kinds of key sets.
#[derive(Clone, Debug)]
pub enum KeysetKind {
    /// `default`
    Default,
    /// `_`
    DontCare,
    /// A value, or the name of a value set.
    Value(Expr),
    /// `a &&& b`
    Mask(Expr, Expr),
    /// `a .. b`
    Range(Expr, Expr),
    /// `(a, b)`: one of each key.
    Tuple(Vec<Keyset>),
}
