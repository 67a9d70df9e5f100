//! Statements (specification, chapter 12).

use super::ty::{Type, TypeId};
use super::{Checker, Context, Place, Stage, SymbolKind, code};
use crate::ast::{self, Block, DeclKind, Expr, ExprKind, ForCollection, Stmt, StmtKind, SwitchLabel};
use crate::diag::Diagnostic;
use barewire_text::nearest;
use std::collections::HashSet;

impl<'a> Checker<'a> {
    /// A block with its own scope.
    pub(super) fn block(&mut self, block: &'a Block) {
        self.check_annotations(&block.annotations);
        self.push_scope();
        for stmt in &block.stmts {
            self.stmt(stmt);
        }
        self.pop_scope();
    }

    fn scoped(&mut self, stmt: &'a Stmt) {
        self.push_scope();
        self.stmt(stmt);
        self.pop_scope();
    }

    pub(super) fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Empty => {}
            StmtKind::Decl(decl) => self.declaration(decl),
            StmtKind::Assign { op, target, value } => self.assign(stmt, *op, target, value),
            StmtKind::Call(expr) => {
                self.expr(expr);
            }
            StmtKind::DirectApply { ty, args } => {
                let of = self.type_as(ty, super::resolve::Use::Constructor);
                match self.kind(of).clone() {
                    Type::Block(id, _) => {
                        self.apply_type(stmt.id, stmt.span, ty.span, id, of, args);
                    }
                    Type::Error => self.args_only(args),
                    _ => {
                        self.args_only(args);
                        let shown = self.show(of);
                        self.type_error(stmt.span, format!("`{shown}` cannot be applied"));
                    }
                }
            }
            StmtKind::If(it) => {
                for arm in &it.arms {
                    self.condition(&arm.condition);
                    self.scoped(&arm.body);
                }
                if let Some(otherwise) = &it.otherwise {
                    self.scoped(otherwise);
                }
            }
            StmtKind::Switch(it) => self.switch(stmt, it),
            StmtKind::For(it) => {
                self.check_annotations(&it.annotations);
                self.push_scope();
                for init in &it.init {
                    self.stmt(init);
                }
                self.condition(&it.condition);
                for update in &it.update {
                    self.stmt(update);
                }
                self.loop_body(&it.body);
                self.pop_scope();
            }
            StmtKind::ForIn(it) => {
                self.check_annotations(&it.annotations);
                self.push_scope();
                self.for_in(it);
                self.loop_body(&it.body);
                self.pop_scope();
            }
            StmtKind::Return(value) => self.return_stmt(stmt, value.as_ref()),
            StmtKind::Exit => {}
            StmtKind::Break | StmtKind::Continue => {
                if self.context.loops == 0 {
                    let word = if matches!(stmt.kind, StmtKind::Break) { "break" } else { "continue" };
                    self.report_at(
                        Stage::Shape,
                        Diagnostic::error(
                            code::INVALID,
                            stmt.span,
                            format!("`{word}` stands outside of a loop"),
                        ),
                    );
                }
            }
            StmtKind::Block(block) => self.block(block),
        }
    }

    fn loop_body(&mut self, body: &'a Stmt) {
        let context = Context { loops: self.context.loops + 1, ..self.context };
        self.inside(context, |this| this.scoped(body));
    }

    pub(super) fn condition(&mut self, expr: &'a Expr) {
        self.expect_as(expr, TypeId::BOOL, &|shown, _| format!("a condition is a `bool`, not `{shown}`"));
    }

    fn assign(&mut self, stmt: &'a Stmt, op: Option<ast::BinaryOp>, target: &'a Expr, value: &'a Expr) {
        let to = self.expr(target);
        let to = self.resolve(to);
        let writable = to == TypeId::ERROR || self.require_lvalue(target);
        if let Some(op) = op {
            let from = self.expr(value);
            let from = self.resolve(from);
            let result = self.binary_of(op, stmt.span, (target, to), (value, from));
            if !self.implicit(result, to) {
                let (shown, wanted) = (self.show(result), self.show(to));
                self.type_error(stmt.span, format!("the result is `{shown}`, the target `{wanted}`"));
            }
            return;
        }
        if to == TypeId::ERROR || !writable {
            // A wrong target says nothing of the value.
            self.expr(value);
            return;
        }
        if self.is_object(to) {
            self.expr(value);
            self.type_error(stmt.span, "an object cannot be assigned");
            return;
        }
        let span = target.span;
        let before = self.problems.len();
        let good = self.at_site(span, |checker| {
            checker.expect_as(value, to, &|shown, wanted| format!("cannot assign `{shown}` to `{wanted}`"))
        });
        if !good
            && let Some((_, problem)) = self.problems.get_mut(before)
            && problem.span() != span
        {
            let shown = self.out.show(to);
            let labelled = problem.clone().label(span, format!("this is `{shown}`"));
            *problem = labelled;
        }
    }

    fn return_stmt(&mut self, stmt: &'a Stmt, value: Option<&'a Expr>) {
        let wanted = self.context.result;
        match (wanted, value) {
            (None, Some(value)) => {
                self.expr(value);
                self.type_error(stmt.span, "there is nothing to return a value to");
            }
            (None | Some(TypeId::VOID), None) => {}
            (Some(TypeId::VOID), Some(value)) => {
                self.expr(value);
                self.type_error(stmt.span, "a `void` function returns no value");
            }
            (Some(ty), None) => {
                if ty != TypeId::ERROR {
                    let shown = self.show(ty);
                    self.type_error(stmt.span, format!("this function returns a value of type `{shown}`"));
                }
            }
            (Some(ty), Some(value)) => {
                self.at_site(stmt.span, |checker| {
                    checker.expect_as(value, ty, &|shown, wanted| {
                        format!("the function returns `{wanted}`, this is `{shown}`")
                    })
                });
            }
        }
    }

    fn for_in(&mut self, it: &'a ast::ForIn) {
        // The collection does not see the variable.
        match &it.collection {
            ForCollection::Range(first, last) => {
                self.expr(first);
                self.expr(last);
            }
            ForCollection::Value(value) => {
                if !matches!(value.kind, ExprKind::List { .. }) {
                    self.expr(value);
                }
            }
        }
        let DeclKind::Variable(variable) = &it.variable.kind else { return };
        let id = self.variable(&it.variable, variable, SymbolKind::LoopVariable);
        let ty = self.symbol(id).ty;
        match &it.collection {
            ForCollection::Range(first, last) => {
                let text =
                    |shown: &str, wanted: &str| format!("the variable is `{wanted}`, the range `{shown}`");
                self.expect_as(first, ty, &text);
                self.expect_as(last, ty, &text);
            }
            ForCollection::Value(value) => {
                if let ExprKind::List { items, .. } = &value.kind {
                    for item in items {
                        self.expect(item, ty);
                    }
                    let of = self.out.types.intern(Type::List(ty));
                    self.set_type(value.id, of);
                    return;
                }
                let of = self.expr(value);
                let element = match self.kind(of).clone() {
                    Type::Stack(element, _) | Type::List(element) => element,
                    Type::Tuple(parts) => parts.first().copied().unwrap_or(ty),
                    Type::Error => return,
                    _ => {
                        let shown = self.show(of);
                        self.type_error(
                            value.span,
                            format!("a loop runs over a range, a list or a stack, not over `{shown}`"),
                        );
                        return;
                    }
                };
                if !self.implicit(element, ty) {
                    let (shown, wanted) = (self.show(element), self.show(ty));
                    self.type_error(
                        value.span,
                        format!("the variable is `{wanted}`, the elements are `{shown}`"),
                    );
                }
            }
        }
    }

    fn switch(&mut self, stmt: &'a Stmt, it: &'a ast::Switch) {
        let before = self.switch_subject.replace(it.subject.id);
        let ty = self.expr(&it.subject);
        self.switch_subject = before;
        let ty = self.resolve(ty);
        if self.context.place == Place::State {
            self.type_error(stmt.span, "`switch` cannot stand in a parser");
        }
        let table = match self.out.types.get(ty) {
            Type::ActionRun(table) => Some(*table),
            _ => None,
        };
        let usable = table.is_some()
            || matches!(
                self.kind(self.plain(ty)),
                Type::Bit(_)
                    | Type::Signed(_)
                    | Type::Bool
                    | Type::Enum(_)
                    | Type::ErrorCode
                    | Type::Int
                    | Type::Error
            );
        if !usable {
            let shown = self.show(ty);
            self.type_error(it.subject.span, format!("`switch` cannot look at `{shown}`"));
        }
        let mut labels = HashSet::new();
        let mut actions: Vec<(&str, crate::source::Span)> = Vec::new();
        for case in &it.cases {
            match &case.label {
                SwitchLabel::Default(_) => {}
                SwitchLabel::Value(label) => {
                    if let Some(table) = table {
                        if let ExprKind::Path { name, .. } = &label.kind {
                            if let Some((_, first)) =
                                actions.iter().find(|(other, _)| *other == name.as_str())
                            {
                                let text = format!("label `{name}` stands twice");
                                self.report_at(
                                    Stage::Names,
                                    Diagnostic::error(code::INVALID, label.span, text)
                                        .label(*first, "here before"),
                                );
                            }
                            actions.push((name.as_str(), label.span));
                        }
                        self.action_label(table, label);
                    } else if usable {
                        let text = |shown: &str, wanted: &str| {
                            format!("`switch` looks at `{wanted}`, this label is `{shown}`")
                        };
                        let before = self.problems.len();
                        let fits = self.expect_as(label, ty, &text);
                        if !fits {
                            self.say_at_subject(&it.subject, label, before);
                        } else if ty != TypeId::ERROR {
                            match self.fold(label) {
                                Some(value) => {
                                    if !labels.insert(value) {
                                        let text = "an earlier label has this value";
                                        self.report_at(
                                            Stage::Names,
                                            Diagnostic::error(code::INVALID, label.span, text),
                                        );
                                    }
                                }
                                None => {
                                    let of = self.out.ty(label.id).unwrap_or(TypeId::ERROR);
                                    if of != TypeId::ERROR {
                                        self.type_error(label.span, "a label is a constant");
                                    }
                                }
                            }
                        }
                    }
                }
            }
            if let Some(body) = &case.body {
                self.block(body);
            }
        }
    }

    /// What does not match is said where `switch` stands, with the label beside it.
    fn say_at_subject(&mut self, subject: &'a Expr, label: &'a Expr, before: usize) {
        if subject.span.file != label.span.file {
            return;
        }
        for (_, problem) in &mut self.problems[before..] {
            if problem.code == code::TYPE && problem.message.starts_with("`switch` looks at") {
                for label in &mut problem.labels {
                    label.primary = false;
                }
                let text = "looked at".to_owned();
                problem.labels.insert(0, crate::diag::Label { span: subject.span, text, primary: true });
            }
        }
    }

    /// The label of a `switch` over `action_run`: an action of the table.
    fn action_label(&mut self, table: super::TableId, label: &'a Expr) {
        let (absolute, name) = match &label.kind {
            ExprKind::Path { absolute, name } => (*absolute, name),
            ExprKind::Type(ty) => match &ty.kind {
                ast::TypeKind::Name(name) => (name.absolute, &name.name),
                _ => {
                    self.type_error(label.span, "a label is the name of an action");
                    return;
                }
            },
            _ => {
                self.type_error(label.span, "a label is the name of an action, or `default`");
                return;
            }
        };
        let found = self.lookup(&name.name, absolute).first().copied();
        let Some(id) = found else {
            self.not_found(name);
            return;
        };
        self.refer(label.id, id, label.span);
        let symbol = self.symbol(id);
        let (span, action) = (symbol.span, symbol.kind);
        let info = &self.out.tables[table.index()];
        let listed = match action {
            SymbolKind::Function(action) => info.actions.iter().any(|listed| listed.action == action),
            _ => false,
        };
        if !listed {
            let table_name = info.name.clone();
            let names: Vec<ast::Name> = info
                .actions
                .iter()
                .map(|listed| self.out.functions[listed.action.index()].name.clone())
                .collect();
            let mut problem = Diagnostic::error(
                code::TYPE,
                label.span,
                format!("`{name}` is no action of table `{table_name}`"),
            )
            .label(span, "declared here");
            if let Some(near) = nearest(&name.name, names.iter().map(|name| &**name)) {
                problem = problem.help(format!("the table has `{near}`"));
            }
            self.report(problem);
        }
        self.set_type(label.id, TypeId::CALLABLE);
    }
}
