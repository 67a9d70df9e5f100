//! The calls in a body, in the order of the text. What a condition that is known beforehand rules out is left out.

use crate::ast::{
    BinaryOp, Block, DeclKind, Expr, ExprKind, ForCollection, State, Stmt, StmtKind, SwitchLabel,
    TransitionKind,
};

/// A call of a body.
#[derive(Clone, Copy, Debug)]
pub enum CallSite<'a> {
    /// A call; the expression is an [`ExprKind::Call`].
    Call(&'a Expr),
    /// `T.apply(…)`, by its statement.
    Direct(&'a Stmt),
}

/// Walks through bodies.
pub struct Walk<'f, 'a> {
    /// What a condition is, where that is known.
    pub known: &'f dyn Fn(&'a Expr) -> Option<bool>,
    /// Told of each call.
    pub call: &'f mut dyn FnMut(CallSite<'a>),
}

impl<'a> Walk<'_, 'a> {
    /// A block.
    pub fn block(&mut self, block: &'a Block) {
        for stmt in &block.stmts {
            self.stmt(stmt);
        }
    }

    /// A state of a parser.
    pub fn state(&mut self, state: &'a State) {
        for stmt in &state.stmts {
            self.stmt(stmt);
        }
        if let Some(transition) = &state.transition
            && let TransitionKind::Select(select) = &transition.kind
        {
            for subject in &select.subjects {
                self.expr(subject);
            }
            for case in &select.cases {
                case.keyset.values(&mut |value| self.expr(value));
            }
        }
    }

    /// A statement.
    pub fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Empty | StmtKind::Exit | StmtKind::Break | StmtKind::Continue => {}
            StmtKind::Decl(decl) => match &decl.kind {
                DeclKind::Variable(it) => {
                    if let Some(init) = &it.init {
                        self.expr(init);
                    }
                }
                DeclKind::Const(it) => self.expr(&it.value),
                _ => {}
            },
            StmtKind::Assign { target, value, .. } => {
                self.expr(target);
                self.expr(value);
            }
            StmtKind::Call(expr) => self.expr(expr),
            StmtKind::DirectApply { args, .. } => {
                for arg in args {
                    self.expr(&arg.value);
                }
                (self.call)(CallSite::Direct(stmt));
            }
            StmtKind::If(it) => {
                for arm in &it.arms {
                    self.expr(&arm.condition);
                    match (self.known)(&arm.condition) {
                        Some(false) => {}
                        Some(true) => {
                            self.stmt(&arm.body);
                            return;
                        }
                        None => self.stmt(&arm.body),
                    }
                }
                if let Some(otherwise) = &it.otherwise {
                    self.stmt(otherwise);
                }
            }
            StmtKind::Switch(it) => {
                self.expr(&it.subject);
                for case in &it.cases {
                    if let SwitchLabel::Value(value) = &case.label {
                        self.expr(value);
                    }
                    if let Some(body) = &case.body {
                        self.block(body);
                    }
                }
            }
            StmtKind::For(it) => {
                for stmt in &it.init {
                    self.stmt(stmt);
                }
                self.expr(&it.condition);
                self.stmt(&it.body);
                for stmt in &it.update {
                    self.stmt(stmt);
                }
            }
            StmtKind::ForIn(it) => {
                match &it.collection {
                    ForCollection::Range(a, b) => {
                        self.expr(a);
                        self.expr(b);
                    }
                    ForCollection::Value(value) => self.expr(value),
                }
                self.stmt(&it.body);
            }
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.expr(value);
                }
            }
            StmtKind::Block(block) => self.block(block),
        }
    }

    /// An expression: arguments before the call that takes them.
    pub fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Int(_)
            | ExprKind::String(_)
            | ExprKind::Bool(_)
            | ExprKind::This
            | ExprKind::Path { .. }
            | ExprKind::Type(_)
            | ExprKind::Invalid
            | ExprKind::Default
            | ExprKind::DontCare
            | ExprKind::Error => {}
            ExprKind::Member(of, _) | ExprKind::Unary(_, of) | ExprKind::Cast(_, of) => self.expr(of),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                self.expr(a);
                // What a known left side decides is never looked at.
                if (self.known)(a) != Some(*op == BinaryOp::Or) {
                    self.expr(b);
                }
            }
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Slice { base, high, low } => {
                self.expr(base);
                self.expr(high);
                self.expr(low);
            }
            ExprKind::PlusSlice { base, low, width } => {
                self.expr(base);
                self.expr(low);
                self.expr(width);
            }
            ExprKind::Conditional(condition, a, b) => {
                self.expr(condition);
                match (self.known)(condition) {
                    Some(true) => self.expr(a),
                    Some(false) => self.expr(b),
                    None => {
                        self.expr(a);
                        self.expr(b);
                    }
                }
            }
            ExprKind::Call(call) => {
                self.expr(&call.callee);
                for arg in &call.args {
                    self.expr(&arg.value);
                }
                (self.call)(CallSite::Call(expr));
            }
            ExprKind::List { items, .. } => {
                for item in items {
                    self.expr(item);
                }
            }
            ExprKind::Struct { fields, .. } => {
                for field in fields {
                    self.expr(&field.value);
                }
            }
        }
    }
}
