//! Variables that are read where nothing has written them yet: a walk along the paths of each body.
//!
//! Told are variables of a block whose type is no struct, header or stack: those are written field by field. What is written on some
//! paths only counts as not written; what a loop writes counts as not written behind it.

use std::collections::{HashMap, HashSet};

use super::ty::Type;
use super::{ArgSource, Callee, Checker, Stage, SymbolId, SymbolKind, warn};
use crate::ast::{
    Arg, BinaryOp, Block, Decl, DeclKind, Direction, Expr, ExprKind, ForCollection, NodeId, Program, Stmt,
    StmtKind, SwitchLabel, TransitionKind,
};
use crate::diag::Diagnostic;

/// What is written for certain; none: the place is never reached.
type State = Option<HashSet<SymbolId>>;

/// What is written after either way.
fn join(a: State, b: State) -> State {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.intersection(&b).copied().collect()),
        (Some(one), None) | (None, Some(one)) => Some(one),
        (None, None) => None,
    }
}

struct Walk<'c, 'a> {
    checker: &'c mut Checker<'a>,
    /// Variables by the node that declares each.
    declared: &'c HashMap<NodeId, SymbolId>,
    /// Variables that are declared without a value, and not told yet.
    open: HashSet<SymbolId>,
    state: State,
}

impl<'a> Checker<'a> {
    /// Warns of variables that are read before anything has written them.
    pub(super) fn warn_uninitialized(&mut self, program: &'a Program) {
        let symbols = self.out.symbols.iter().enumerate();
        let declared: HashMap<NodeId, SymbolId> = symbols
            .filter(|(_, symbol)| symbol.kind == SymbolKind::Variable)
            .map(|(at, symbol)| (symbol.node, SymbolId(at as u32)))
            .collect();
        for decl in &program.decls {
            self.warn_uninitialized_in(decl, &declared);
        }
    }

    fn warn_uninitialized_in(&mut self, decl: &'a Decl, declared: &HashMap<NodeId, SymbolId>) {
        match &decl.kind {
            DeclKind::Function(it) => self.body(declared, |walk| walk.block(&it.body)),
            DeclKind::Action(it) => self.body(declared, |walk| walk.block(&it.body)),
            DeclKind::Instance(it) => {
                for inner in it.body.iter().flatten() {
                    self.warn_uninitialized_in(inner, declared);
                }
            }
            DeclKind::Control(it) => {
                for local in &it.locals {
                    self.warn_uninitialized_in(local, declared);
                }
                self.body(declared, |walk| walk.block(&it.apply));
            }
            DeclKind::Parser(it) => {
                for local in &it.locals {
                    self.warn_uninitialized_in(local, declared);
                }
                for state in &it.states {
                    self.body(declared, |walk| {
                        state.stmts.iter().for_each(|stmt| walk.stmt(stmt));
                        if let Some(transition) = &state.transition
                            && let TransitionKind::Select(select) = &transition.kind
                        {
                            select.subjects.iter().for_each(|subject| walk.expr(subject));
                            select
                                .cases
                                .iter()
                                .for_each(|case| case.keyset.values(&mut |value| walk.expr(value)));
                        }
                    });
                }
            }
            _ => {}
        }
    }

    fn body(&mut self, declared: &HashMap<NodeId, SymbolId>, then: impl FnOnce(&mut Walk<'_, 'a>)) {
        then(&mut Walk { checker: self, declared, open: HashSet::new(), state: Some(HashSet::new()) });
    }
}

impl<'a> Walk<'_, 'a> {
    fn refers(&self, node: NodeId) -> Option<SymbolId> {
        self.checker.out.refers.get(&node).copied()
    }

    fn written(&mut self, symbol: SymbolId) {
        if let Some(state) = &mut self.state {
            state.insert(symbol);
        }
    }

    fn block(&mut self, block: &'a Block) {
        for stmt in &block.stmts {
            self.stmt(stmt);
        }
    }

    /// A body of its own, which starts with what is written here; what is written at its end.
    fn branch(&mut self, start: State, then: impl FnOnce(&mut Self)) -> State {
        let before = std::mem::replace(&mut self.state, start);
        then(self);
        std::mem::replace(&mut self.state, before)
    }

    fn declare(&mut self, decl: &'a Decl) {
        let DeclKind::Variable(it) = &decl.kind else {
            if let DeclKind::Const(it) = &decl.kind {
                self.expr(&it.value);
            }
            return;
        };
        if let Some(init) = &it.init {
            self.expr(init);
            return;
        }
        let out = &self.checker.out;
        let plain = out.ty(decl.id).is_some_and(|ty| {
            matches!(
                out.types.get(ty),
                Type::Bit(_)
                    | Type::Signed(_)
                    | Type::Bool
                    | Type::Enum(_)
                    | Type::ErrorCode
                    | Type::Newtype(_)
            )
        });
        let symbol = self.declared.get(&decl.id).copied();
        if let Some(symbol) = symbol
            && plain
        {
            self.open.insert(symbol);
            // Once more round a loop it is a new one.
            if let Some(state) = &mut self.state {
                state.remove(&symbol);
            }
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Empty => {}
            StmtKind::Decl(decl) => self.declare(decl),
            StmtKind::Assign { op, target, value } => {
                if op.is_some() {
                    self.expr(target);
                }
                self.expr(value);
                self.target(target);
            }
            StmtKind::Call(expr) => self.expr(expr),
            StmtKind::DirectApply { args, .. } => self.call(stmt.id, args),
            StmtKind::If(it) => {
                let mut ends: State = None;
                for arm in &it.arms {
                    self.expr(&arm.condition);
                    let end = self.branch(self.state.clone(), |walk| walk.stmt(&arm.body));
                    ends = join(ends, end);
                }
                let last = match &it.otherwise {
                    Some(otherwise) => self.branch(self.state.clone(), |walk| walk.stmt(otherwise)),
                    None => self.state.clone(),
                };
                self.state = join(ends, last);
            }
            StmtKind::Switch(it) => {
                self.expr(&it.subject);
                let mut ends: State = None;
                let mut all = false;
                for case in &it.cases {
                    match &case.label {
                        SwitchLabel::Default(_) => all = true,
                        SwitchLabel::Value(_) => {}
                    }
                    if let Some(body) = &case.body {
                        let end = self.branch(self.state.clone(), |walk| walk.block(body));
                        ends = join(ends, end);
                    }
                }
                self.state = if all { ends } else { join(ends, self.state.clone()) };
            }
            StmtKind::For(it) => {
                it.init.iter().for_each(|stmt| self.stmt(stmt));
                self.expr(&it.condition);
                self.branch(self.state.clone(), |walk| {
                    walk.stmt(&it.body);
                    it.update.iter().for_each(|stmt| walk.stmt(stmt));
                });
            }
            StmtKind::ForIn(it) => {
                match &it.collection {
                    ForCollection::Range(a, b) => {
                        self.expr(a);
                        self.expr(b);
                    }
                    ForCollection::Value(value) => self.expr(value),
                }
                self.branch(self.state.clone(), |walk| walk.stmt(&it.body));
            }
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.expr(value);
                }
                self.state = None;
            }
            StmtKind::Exit | StmtKind::Break | StmtKind::Continue => self.state = None,
            StmtKind::Block(block) => self.block(block),
        }
    }

    /// What is assigned to. Some bits of a variable count as the whole.
    fn target(&mut self, target: &'a Expr) {
        match &target.kind {
            ExprKind::Path { .. } => {
                if let Some(symbol) = self.refers(target.id) {
                    self.written(symbol);
                }
            }
            ExprKind::Member(base, _) => self.target(base),
            ExprKind::Index(base, index) => {
                self.target(base);
                self.expr(index);
            }
            ExprKind::Slice { base, .. } => self.target(base),
            ExprKind::PlusSlice { base, low, .. } => {
                self.target(base);
                self.expr(low);
            }
            _ => self.expr(target),
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match &expr.kind {
            ExprKind::Int(_)
            | ExprKind::String(_)
            | ExprKind::Bool(_)
            | ExprKind::This
            | ExprKind::Type(_)
            | ExprKind::Invalid
            | ExprKind::Default
            | ExprKind::DontCare
            | ExprKind::Error => {}
            ExprKind::Path { .. } => self.read(expr),
            ExprKind::Member(of, _) | ExprKind::Unary(_, of) | ExprKind::Cast(_, of) => self.expr(of),
            ExprKind::Binary(op, a, b) => {
                self.expr(a);
                if matches!(op, BinaryOp::And | BinaryOp::Or) {
                    self.branch(self.state.clone(), |walk| walk.expr(b));
                } else {
                    self.expr(b);
                }
            }
            ExprKind::Index(a, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Slice { base, .. } => self.expr(base),
            ExprKind::PlusSlice { base, low, .. } => {
                self.expr(base);
                self.expr(low);
            }
            ExprKind::Conditional(condition, a, b) => {
                self.expr(condition);
                let first = self.branch(self.state.clone(), |walk| walk.expr(a));
                let second = self.branch(self.state.clone(), |walk| walk.expr(b));
                self.state = join(first, second);
            }
            ExprKind::Call(call) => {
                self.expr(&call.callee);
                self.call(expr.id, &call.args);
            }
            ExprKind::List { items, .. } => items.iter().for_each(|item| self.expr(item)),
            ExprKind::Struct { fields, .. } => fields.iter().for_each(|field| self.expr(&field.value)),
        }
    }

    /// Reads what a call takes, then writes what it gives back.
    fn call(&mut self, node: NodeId, args: &'a [Arg]) {
        let out = &self.checker.out;
        let mut directions = vec![None; args.len()];
        if let Some(info) = out.calls.get(&node) {
            let params = match info.callee {
                Callee::Function(id) | Callee::Method(id) | Callee::Constructor(id) => {
                    &out.functions[id.index()].params[..]
                }
                Callee::ApplyBlock(id) | Callee::ApplyType(id) => &out.blocks[id.index()].params[..],
                _ => &[],
            };
            for (param, source) in params.iter().zip(&info.args) {
                if let ArgSource::Arg(at) = source
                    && let Some(slot) = directions.get_mut(*at as usize)
                {
                    *slot = Some(param.direction);
                }
            }
        }
        for (arg, direction) in args.iter().zip(&directions) {
            if *direction != Some(Direction::Out) {
                self.expr(&arg.value);
            }
        }
        for (arg, direction) in args.iter().zip(&directions) {
            if matches!(direction, Some(Direction::Out | Direction::InOut)) {
                self.target(&arg.value);
            }
        }
    }

    fn read(&mut self, expr: &'a Expr) {
        let Some(symbol) = self.refers(expr.id) else { return };
        let Some(state) = &self.state else { return };
        if state.contains(&symbol) || !self.open.remove(&symbol) {
            return;
        }
        let info = &self.checker.out.symbols[symbol.index()];
        if info.kind != SymbolKind::Variable || self.checker.is_builtin(expr.span) {
            return;
        }
        let (name, declared) = (info.name.clone(), info.span);
        self.checker.report_at(
            Stage::Flow,
            Diagnostic::warning(
                warn::UNINITIALIZED_USE,
                expr.span,
                format!("`{name}` may be read before anything is written to it"),
            )
            .label(declared, "declared here, without a value"),
        );
    }
}
