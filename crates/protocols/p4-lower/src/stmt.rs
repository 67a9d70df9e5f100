//! Statements.

use barewire_p4::ir::{ActionId, Expr, Stmt};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, DeclKind, ExprKind, StmtKind, SwitchLabel};
use barewire_p4_source::types::ty::{TableId, TypeId};
use barewire_p4_source::types::{Callee, MemberRef, SymbolKind};

use super::code::{Ins, Label};
use super::ops::{int, not};
use super::{Lower, Lowered, Mode, Result, Val, refuse};

impl<'a> Lower<'a> {
    pub(crate) fn block(&mut self, stmts: &'a [ast::Stmt]) -> Result<()> {
        for stmt in stmts {
            self.stmt(stmt)?;
        }
        Ok(())
    }

    pub(crate) fn stmt(&mut self, stmt: &'a ast::Stmt) -> Result<()> {
        let around = std::mem::replace(&mut self.at, stmt.span);
        let done = self.stmt_at(stmt);
        self.at = around;
        done
    }

    fn stmt_at(&mut self, stmt: &'a ast::Stmt) -> Result<()> {
        let span = stmt.span;
        self.bounded(span)?;
        match &stmt.kind {
            StmtKind::Empty => Ok(()),
            StmtKind::Decl(decl) => self.local(decl, span),
            StmtKind::Assign { op, target, value } => {
                let (mut place, ty) = self.value(target)?;
                if self.acts(value) {
                    place = self.pinned(place, span)?;
                }
                if let Some(op) = op {
                    let left =
                        if self.acts(value) { self.saved(&place, ty, "tmp", span)? } else { place.clone() };
                    let (right, right_ty) = self.value(value)?;
                    let new = self.operate(*op, (&left, ty), (&right, right_ty), ty, span)?;
                    return self.assign(&place, &new, ty, span);
                }
                let (val, from) = self.value(value)?;
                let val = self.cast(val, from, ty, span)?;
                self.assign(&place, &val, ty, span)
            }
            StmtKind::Call(expr) => self.value(expr).map(|_| ()),
            StmtKind::DirectApply { args, .. } => {
                let Some(info) = self.t.calls.get(&stmt.id) else {
                    return refuse(span, "this application is not known");
                };
                let Callee::ApplyType(block) = info.callee else {
                    return refuse(span, "this application is not lowered");
                };
                let decl = &self.t.blocks[block.index()];
                let before = self.after.len();
                let args = self.args(args, info, &decl.params, span)?;
                let type_args = info.type_args.iter().map(|&ty| self.closed(ty)).collect();
                // Each application is of an instance of its own.
                let id = self.instance_of(stmt.id, span)?;
                let instance = super::BlockInstance { block, type_args, args: Vec::new(), id };
                self.apply_block(&std::rc::Rc::new(instance), args, span)?;
                self.copy_back(before, span)
            }
            StmtKind::If(chain) => {
                let end = self.label();
                for arm in &chain.arms {
                    let no = self.label();
                    let known = self.condition(&arm.condition, no)?;
                    if known != Some(false) {
                        self.stmt(&arm.body)?;
                        self.emit(Ins::Jump(end));
                    }
                    self.emit(Ins::Label(no));
                    if known == Some(true) {
                        self.emit(Ins::Label(end));
                        return Ok(());
                    }
                }
                if let Some(otherwise) = &chain.otherwise {
                    self.stmt(otherwise)?;
                }
                self.emit(Ins::Label(end));
                Ok(())
            }
            StmtKind::Switch(switch) => self.switch(switch, span),
            StmtKind::For(repeat) => self.looped(span, |lower, leave| lower.for_rounds(repeat, leave)),
            StmtKind::ForIn(repeat) => self.for_in(repeat, span),
            StmtKind::Return(value) => {
                let Some(frame) = self.frames.last().cloned() else {
                    return refuse(span, "nothing to return from");
                };
                if let (Some(value), Some((place, ty))) = (value, &frame.result) {
                    let (val, from) = self.value(value)?;
                    let val = self.cast(val, from, *ty, span)?;
                    self.assign(place, &val, *ty, span)?;
                }
                self.emit(Ins::Jump(frame.leave));
                Ok(())
            }
            StmtKind::Exit => self.exit(span),
            StmtKind::Break | StmtKind::Continue => {
                let Some(&(leave, next)) = self.loops.last() else {
                    return refuse(span, "this is in no loop");
                };
                self.emit(Ins::Jump(if matches!(stmt.kind, StmtKind::Break) { leave } else { next }));
                Ok(())
            }
            StmtKind::Block(block) => self.block(&block.stmts),
        }
    }

    /// A declaration among statements.
    fn local(&mut self, decl: &'a ast::Decl, span: Span) -> Result<()> {
        match &decl.kind {
            DeclKind::Variable(variable) => {
                let symbol = self.symbol_at(decl.id, span)?;
                let ty = self.closed(self.t.symbol(symbol).ty);
                // Where its block is lowered again it is the same storage: what a control is given is one place.
                let key = (self.here, symbol, ty);
                let place = match self.in_blocks.get(&key) {
                    Some(place) => place.clone(),
                    None => {
                        let place = self.storage(&variable.name.name.clone(), ty, span)?;
                        self.in_blocks.insert(key, place.clone());
                        place
                    }
                };
                self.initial(&place, variable, ty, span)?;
                self.env.insert(symbol, place);
            }
            DeclKind::Instance(instance) => {
                let symbol = self.symbol_at(decl.id, span)?;
                let val = self.instance(decl, instance)?;
                self.env.insert(symbol, val);
            }
            _ => {}
        }
        Ok(())
    }

    /// Leaves everything. What is to be copied out is, from the inside out (section 12.5).
    pub(crate) fn exit(&mut self, span: Span) -> Result<()> {
        for frame in self.frames.clone().iter().rev() {
            for (to, from, ty) in &frame.copies {
                self.assign(to, from, *ty, span)?;
            }
        }
        match (self.mode, self.exits.is_some()) {
            (Mode::Parser, _) => return refuse(span, "`exit` in a parser"),
            // The controls around the table have copies to make: it tells them.
            (Mode::Action, true) => {
                let known = self.exits.take().flatten();
                let flag = match known {
                    Some(flag) => flag,
                    None => self.temp("exits", 1, false),
                };
                self.exits = Some(Some(flag.clone()));
                self.assign(&Val::Field(flag), &Val::Num(int(1)), TypeId::BOOL, span)?;
            }
            (Mode::Action, false) => self.stmt_out(Stmt::Exit),
            (Mode::Pipeline | Mode::Deparser, _) => {}
        }
        self.emit(Ins::Jump(Label::END));
        Ok(())
    }

    /// Goes to `next`, or leaves everything if an action of the table said so.
    pub(crate) fn unless_exits(&mut self, lowered: &Lowered, next: Label, span: Span) -> Result<()> {
        let Some(flag) = &lowered.exits else { return Ok(()) };
        self.emit(Ins::Unless(super::ops::to_truth(Expr::Field(flag.clone())), next));
        self.exit(span)
    }

    /// Goes to `no` if a condition is false; says whether it is known.
    pub(crate) fn condition(&mut self, expr: &'a ast::Expr, no: Label) -> Result<Option<bool>> {
        // What a table finds decides by itself.
        let (inner, negated) = match &expr.kind {
            ExprKind::Unary(ast::UnaryOp::Not, inner) => (&**inner, true),
            _ => (expr, false),
        };
        if let ExprKind::Member(base, _) = &inner.kind
            && let Some(member @ (MemberRef::Hit | MemberRef::Miss)) = self.t.members.get(&inner.id)
        {
            let yes = self.label();
            if (*member == MemberRef::Hit) == negated {
                self.apply_hit(base, no, yes)?;
            } else {
                self.apply_hit(base, yes, no)?;
            }
            self.emit(Ins::Label(yes));
            return Ok(None);
        }
        let (val, _) = self.value(expr)?;
        match self.truth(&val, expr.span)? {
            Expr::Bool(known) => Ok(Some(known)),
            truth => {
                self.emit(Ins::Unless(truth, no));
                Ok(None)
            }
        }
    }

    /// The table of `t.apply()`.
    fn applied_table(&self, expr: &'a ast::Expr) -> Option<TableId> {
        match self.t.calls.get(&expr.id)?.callee {
            Callee::ApplyTable(table) => Some(table),
            _ => None,
        }
    }

    pub(crate) fn apply_hit(&mut self, call: &'a ast::Expr, hit: Label, miss: Label) -> Result<()> {
        match self.applied_table(call) {
            Some(table) => self.table_hit(table, hit, miss, call.span),
            None => refuse(call.span, "this is no application of a table"),
        }
    }

    fn switch(&mut self, switch: &'a ast::Switch, span: Span) -> Result<()> {
        let end = self.label();
        // Each case leads to the block of the next one that has one.
        let mut labels = Vec::new();
        for _ in &switch.cases {
            labels.push(self.label());
        }
        let mut default = end;
        for (case, label) in switch.cases.iter().zip(&labels) {
            if matches!(case.label, SwitchLabel::Default(_)) {
                default = *label;
            }
        }
        let table = match &switch.subject.kind {
            ExprKind::Member(base, _)
                if self.t.members.get(&switch.subject.id) == Some(&MemberRef::ActionRun) =>
            {
                self.applied_table(base)
            }
            _ => None,
        };
        if let Some(table) = table {
            let lowered = self.ready(table, span)?;
            let mut cases: Vec<(ActionId, Label)> = Vec::new();
            for (case, label) in switch.cases.iter().zip(&labels) {
                let SwitchLabel::Value(value) = &case.label else { continue };
                let found = self.t.refers_to(value.id).and_then(|symbol| match symbol.kind {
                    SymbolKind::Function(id) => lowered.actions.iter().find(|(f, _)| *f == id),
                    _ => None,
                });
                let Some((_, action)) = found else {
                    return refuse(value.span, "the table has no such action");
                };
                cases.push((*action, *label));
            }
            if lowered.exits.is_some() {
                // Each way out is asked for first whether it goes on.
                let mut asked: Vec<(Label, Label)> = Vec::new();
                let mut through = |lower: &mut Self, to: Label| {
                    let by = lower.label();
                    asked.push((by, to));
                    by
                };
                let cases = cases.iter().map(|(action, to)| (*action, through(self, *to))).collect();
                let other = through(self, default);
                self.by_action(lowered.id, cases, other);
                for (by, to) in asked {
                    self.emit(Ins::Label(by));
                    self.unless_exits(&lowered, to, span)?;
                }
            } else {
                self.by_action(lowered.id, cases, default);
            }
        } else {
            let (subject, ty) = self.value(&switch.subject)?;
            let subject = self.saved(&subject, ty, "switch", span)?;
            for (case, label) in switch.cases.iter().zip(&labels) {
                let SwitchLabel::Value(value) = &case.label else { continue };
                let (val, from) = self.value(value)?;
                let same = self.equal((&subject, ty), (&val, from), value.span)?;
                match not(same) {
                    Expr::Bool(true) => {}
                    Expr::Bool(false) => self.emit(Ins::Jump(*label)),
                    differs => self.emit(Ins::Unless(differs, *label)),
                }
            }
            self.emit(Ins::Jump(default));
        }
        for (case, label) in switch.cases.iter().zip(&labels) {
            self.emit(Ins::Label(*label));
            if let Some(body) = &case.body {
                self.block(&body.stmts)?;
                self.emit(Ins::Jump(end));
            }
        }
        self.emit(Ins::Label(end));
        Ok(())
    }
}
