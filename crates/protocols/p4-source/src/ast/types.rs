use super::{Annotation, Expr, Ident, NodeId};
use crate::source::Span;

/// A type as written (section 7).
#[derive(Clone, Debug)]
pub struct Type {
    /// Node.
    pub id: NodeId,
    /// The whole.
    pub span: Span,
    /// Which.
    pub kind: TypeKind,
}

/// Kinds of types.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `bool`
    Bool,
    /// `error`
    Error,
    /// `match_kind`
    MatchKind,
    /// `string`
    String,
    /// `void`, as a result or a type argument.
    Void,
    /// `int`, of any size.
    Integer,
    /// `bit<W>`; `bit` alone has no width here and means `bit<1>`.
    Bit(Option<Box<Expr>>),
    /// `int<W>`
    Int(Box<Expr>),
    /// `varbit<W>`: W is the most.
    Varbit(Box<Expr>),
    /// `T`, `.T`: a type, a type parameter, or a parser, control, package or extern.
    Name(TypeName),
    /// `T<A, B>`
    Specialized(TypeName, Vec<Type>),
    /// `T[n]`
    Stack(Box<Type>, Box<Expr>),
    /// `list<T>`
    List(Box<Type>),
    /// `tuple<A, B>`
    Tuple(Vec<Type>),
    /// `_` as a type argument.
    DontCare,
}

/// `T` or `.T`
#[derive(Clone, Debug)]
pub struct TypeName {
    /// With a dot in front: of the top level.
    pub absolute: bool,
    /// The name.
    pub name: Ident,
}

/// `<A, B>` of a declaration.
#[derive(Clone, Debug)]
pub struct TypeParam {
    /// Node.
    pub id: NodeId,
    /// The name.
    pub name: Ident,
}

/// Which way a parameter goes (section 6.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// No word: compile time, or from the control plane for actions.
    None,
    /// `in`
    In,
    /// `out`
    Out,
    /// `inout`
    InOut,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Node.
    pub id: NodeId,
    /// The whole with its annotations.
    pub span: Span,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Which way.
    pub direction: Direction,
    /// Its type.
    pub ty: Type,
    /// Its name.
    pub name: Ident,
    /// `= e`
    pub default: Option<Expr>,
}
