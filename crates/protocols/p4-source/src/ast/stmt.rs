use super::{Annotation, Arg, BinaryOp, Decl, Expr, NodeId, Type};
use crate::source::Span;

/// `{ … }`
#[derive(Clone, Debug)]
pub struct Block {
    /// Node.
    pub id: NodeId,
    /// From brace to brace.
    pub span: Span,
    /// In front of it (`@atomic`).
    pub annotations: Vec<Annotation>,
    /// Statements and local declarations.
    pub stmts: Vec<Stmt>,
}

/// A statement (section 12).
#[derive(Clone, Debug)]
pub struct Stmt {
    /// Node.
    pub id: NodeId,
    /// The whole, with its `;`.
    pub span: Span,
    /// Which.
    pub kind: StmtKind,
}

/// Kinds of statements.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `;`
    Empty,
    /// A local variable, constant or instance.
    Decl(Box<Decl>),
    /// `a = b`, `a += b`
    Assign {
        /// `+` of `+=`; none for `=`.
        op: Option<BinaryOp>,
        /// An l-value by its syntax.
        target: Expr,
        /// What is assigned.
        value: Expr,
    },
    /// A call; the expression is an [`super::ExprKind::Call`]. What is called may be a member of a type (`T.f()`).
    Call(Expr),
    /// `T.apply(…)`: applies a parser or control that has no instance (section 15.1).
    DirectApply {
        /// The type.
        ty: Type,
        /// The arguments of `apply`.
        args: Vec<Arg>,
    },
    /// `if … else if … else …`: a chain is one statement.
    If(If),
    /// `switch (…) { … }`
    Switch(Switch),
    /// `for (init; condition; update) body`
    For(Box<For>),
    /// `for (T x in …) body`
    ForIn(Box<ForIn>),
    /// `return;`, `return e;`
    Return(Option<Expr>),
    /// `exit;`
    Exit,
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `{ … }`
    Block(Block),
}

/// A chain of conditions.
#[derive(Clone, Debug)]
pub struct If {
    /// `if`, and each `else if` that follows: never empty.
    pub arms: Vec<IfArm>,
    /// `else`
    pub otherwise: Option<Box<Stmt>>,
}

/// One condition of a chain.
#[derive(Clone, Debug)]
pub struct IfArm {
    /// Node.
    pub id: NodeId,
    /// From `if` to the end of its statement.
    pub span: Span,
    /// The condition.
    pub condition: Expr,
    /// The statement.
    pub body: Stmt,
}

/// `switch`
#[derive(Clone, Debug)]
pub struct Switch {
    /// In parentheses: `t.apply().action_run`, or a value.
    pub subject: Expr,
    /// The cases in order.
    pub cases: Vec<SwitchCase>,
}

/// `label: { … }`
#[derive(Clone, Debug)]
pub struct SwitchCase {
    /// Node.
    pub id: NodeId,
    /// The whole.
    pub span: Span,
    /// The label.
    pub label: SwitchLabel,
    /// Its block. None: falls through to the next that has one.
    pub body: Option<Block>,
}

/// Label of a case.
#[derive(Clone, Debug)]
pub enum SwitchLabel {
    /// `default`
    Default(Span),
    /// An action, or a value.
    Value(Expr),
}

/// `for` with a condition.
#[derive(Clone, Debug)]
pub struct For {
    /// In front of it (`@unroll`).
    pub annotations: Vec<Annotation>,
    /// Declarations and assignments before the first round.
    pub init: Vec<Stmt>,
    /// Checked before each round.
    pub condition: Expr,
    /// Assignments and calls after each round.
    pub update: Vec<Stmt>,
    /// The body.
    pub body: Stmt,
}

/// `for` over a range or a list.
#[derive(Clone, Debug)]
pub struct ForIn {
    /// In front of it (`@unroll`).
    pub annotations: Vec<Annotation>,
    /// The variable: a declaration of the kind [`super::DeclKind::Variable`].
    pub variable: Decl,
    /// What it runs over.
    pub collection: ForCollection,
    /// The body.
    pub body: Stmt,
}

/// What a [`ForIn`] runs over.
#[derive(Clone, Debug)]
pub enum ForCollection {
    /// `first .. last`, both included.
    Range(Expr, Expr),
    /// A list or a stack.
    Value(Expr),
}
