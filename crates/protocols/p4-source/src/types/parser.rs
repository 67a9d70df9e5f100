//! Parsers and controls: their declarations, states, transitions, `select` (specification, chapters 13 and 14).

use super::ty::{Type, TypeId};
use super::{BlockKind, Checker, Context, Place, Stage, SymbolKind, code, warn};
use crate::ast::{self, Decl, Expr, ExprKind, Ident, Keyset, KeysetKind, NodeId, TransitionKind};
use crate::diag::Diagnostic;

impl<'a> Checker<'a> {
    /// Opens the scope of a parser or control: type parameters, parameters, parameters of the constructor.
    fn open_block(
        &mut self,
        decl: &'a Decl,
        head: &'a ast::BlockType,
        constructor: &'a [ast::Param],
        kind: BlockKind,
    ) -> super::SymbolId {
        let (id, symbol) = self.block_type(decl, head, kind);
        self.out.blocks[id.index()].has_body = true;
        self.open.insert(symbol);
        self.push_scope();
        let vars = self.out.blocks[id.index()].vars.clone();
        self.redeclare_vars(&head.type_params, &vars);
        if let Some(scope) = self.scopes.last_mut() {
            scope.params = true;
        }
        let constructor = self.param_list(constructor);
        let params = self.out.blocks[id.index()].params.clone();
        self.declare_params(&params, false);
        for param in &constructor {
            if matches!(self.kind(param.ty), Type::Package(..)) {
                let text = format!("a {} has no package", kind.word());
                self.type_error(param.decl.name.span, text);
            }
            if let Type::Block(of, _) = self.kind(param.ty).clone()
                && self.out.blocks[of.index()].kind != kind
            {
                let (theirs, ours) = (self.out.blocks[of.index()].kind.word(), kind.word());
                self.report(Diagnostic::error(
                    code::INVALID,
                    param.decl.span,
                    format!("a {ours} has no instance of a {theirs}"),
                ));
            }
            if let Some(other) = params.iter().find(|other| other.name == param.name) {
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        param.decl.name.span,
                        format!("`{}` is a parameter of `apply` and of the constructor", param.name),
                    )
                    .label(other.decl.name.span, "here before"),
                );
            }
        }
        self.declare_params(&constructor, true);
        self.out.blocks[id.index()].constructor = constructor;
        self.check_same_constructor(symbol);
        self.push_scope();
        symbol
    }

    fn close_block(&mut self, symbol: super::SymbolId) {
        self.pop_scope();
        self.pop_scope();
        self.open.remove(&symbol);
    }

    pub(super) fn control(&mut self, decl: &'a Decl, it: &'a ast::Control) {
        let symbol = self.open_block(decl, &it.head, &it.constructor_params, BlockKind::Control);
        self.locals = &it.locals;
        let context = Context { place: Place::ControlLocals, result: None, loops: 0 };
        self.inside(context, |this| {
            for local in &it.locals {
                this.declaration(local);
            }
        });
        let context = Context { place: Place::Apply, result: None, loops: 0 };
        self.inside(context, |this| this.block(&it.apply));
        self.check_ends(&it.apply);
        self.locals = &[];
        self.close_block(symbol);
    }

    pub(super) fn parser(&mut self, decl: &'a Decl, it: &'a ast::Parser) {
        let symbol = self.open_block(decl, &it.head, &it.constructor_params, BlockKind::Parser);
        // States may be named before they stand there.
        for state in &it.states {
            self.check_annotations(&state.annotations);
            let id =
                self.declare(&state.name, SymbolKind::State, TypeId::CALLABLE, state.id, &state.annotations);
            self.out.symbols[id.index()].used = true;
        }
        self.locals = &it.locals;
        let context = Context { place: Place::ParserLocals, result: None, loops: 0 };
        self.inside(context, |this| {
            for local in &it.locals {
                this.declaration(local);
            }
        });
        for state in &it.states {
            let context = Context { place: Place::State, result: None, loops: 0 };
            self.inside(context, |this| this.state(state));
        }
        self.locals = &[];
        self.close_block(symbol);
        self.check_reach(it);
    }

    fn state(&mut self, state: &'a ast::State) {
        self.push_scope();
        for stmt in &state.stmts {
            self.stmt(stmt);
        }
        match &state.transition {
            None => {
                self.warn(
                    Diagnostic::warning(
                        warn::PARSER_TRANSITION,
                        state.name.span,
                        format!("state `{}` goes to `reject` without saying so", state.name),
                    )
                    .help("end it with `transition reject;` or `transition accept;`"),
                );
            }
            Some(transition) => match &transition.kind {
                TransitionKind::Direct(target) => self.target(transition.id, target),
                TransitionKind::Select(select) => self.select(select),
            },
        }
        self.pop_scope();
    }

    fn target(&mut self, node: NodeId, name: &'a Ident) {
        if matches!(name.as_str(), "accept" | "reject") {
            return;
        }
        match self.lookup(&name.name, false).first().copied() {
            Some(id) if matches!(self.symbol(id).kind, SymbolKind::State) => self.refer(node, id, name.span),
            Some(id) => {
                let span = self.symbol(id).span;
                self.report(
                    Diagnostic::error(code::TYPE, name.span, format!("`{name}` is no state"))
                        .label(span, "declared here"),
                );
            }
            None => {
                self.not_found(name);
            }
        }
    }

    fn select(&mut self, select: &'a ast::Select) {
        let mut types = Vec::with_capacity(select.subjects.len());
        for (at, subject) in select.subjects.iter().enumerate() {
            if matches!(subject.kind, ExprKind::Default) && at + 1 < select.subjects.len() {
                self.report_at(
                    Stage::Shape,
                    Diagnostic::error(code::INVALID, subject.span, "`...` is the last element, or none"),
                );
                types.push(TypeId::ERROR);
                continue;
            }
            let ty = self.expr(subject);
            let ty = self.tuple_of(ty);
            types.push(if self.selectable(ty) {
                self.resolve(ty)
            } else {
                let shown = self.show(ty);
                let mut problem =
                    Diagnostic::error(code::TYPE, subject.span, format!("`select` cannot look at `{shown}`"));
                if matches!(self.kind(ty), Type::Struct(..)) {
                    problem = problem.help("select on its fields: `select (h.a, h.b)`");
                }
                self.report(problem);
                TypeId::ERROR
            });
        }
        let mut last: Option<&'a Keyset> = None;
        for case in &select.cases {
            if let Some(all) = last {
                self.warn(
                    Diagnostic::warning(warn::UNREACHABLE, case.span, "this case is never reached")
                        .label(all.span, "matches everything"),
                );
            }
            self.select_case(select, case, &types);
            if matches!(case.keyset.kind, KeysetKind::Default | KeysetKind::DontCare) && last.is_none() {
                last = Some(&case.keyset);
            }
            self.target(case.id, &case.state);
        }
    }

    /// What does not match is said where `select` stands, with the case beside it.
    fn select_case(&mut self, select: &'a ast::Select, case: &'a ast::SelectCase, types: &[TypeId]) {
        let before = self.problems.len();
        self.keyset(&case.keyset, types, "select");
        let head =
            select.subjects.first().zip(select.subjects.last()).map(|(first, last)| first.span.to(last.span));
        let Some(head) = head.filter(|head| head.file == case.keyset.span.file) else { return };
        for (_, problem) in &mut self.problems[before..] {
            let mismatch =
                problem.message.starts_with("the key is") || problem.message.starts_with("`select` looks at");
            if problem.code == code::TYPE && mismatch {
                for label in &mut problem.labels {
                    label.primary = false;
                    if label.text.is_empty() {
                        label.text = "this case".to_owned();
                    }
                }
                problem
                    .labels
                    .insert(0, crate::diag::Label { span: head, text: "selected".to_owned(), primary: true });
            }
        }
    }

    fn selectable(&self, ty: TypeId) -> bool {
        let plain = self.plain(ty);
        match self.kind(plain) {
            // Section 13.6 lists them.
            Type::Error | Type::Bit(_) | Type::Signed(_) | Type::Bool | Type::Enum(_) | Type::Var(_) => true,
            Type::Tuple(parts) | Type::Sequence(parts, _) => parts.iter().all(|&part| self.selectable(part)),
            _ => false,
        }
    }

    /// A key set against the types of what it matches.
    pub(super) fn keyset(&mut self, keyset: &'a Keyset, types: &[TypeId], what: &str) -> bool {
        match &keyset.kind {
            KeysetKind::Default | KeysetKind::DontCare => true,
            KeysetKind::Tuple(parts) => {
                if let [part] = &parts[..]
                    && types.len() == 1
                {
                    return self.keyset(part, types, what);
                }
                if parts.len() != types.len() {
                    // One value that is a tuple itself.
                    keyset.values(&mut |value| {
                        self.expr(value);
                    });
                    self.type_error(
                        keyset.span,
                        format!(
                            "`{what}` looks at {} value{}, this matches {}",
                            types.len(),
                            super::resolve::plural(types.len()),
                            parts.len()
                        ),
                    );
                    return false;
                }
                parts.iter().zip(types).fold(true, |good, (part, &ty)| self.keyset(part, &[ty], what) && good)
            }
            KeysetKind::Value(value) => self.key_value(value, types, what),
            KeysetKind::Mask(low, high) | KeysetKind::Range(low, high) => {
                let [ty] = types else {
                    self.expr(low);
                    self.expr(high);
                    self.type_error(
                        keyset.span,
                        format!("`{what}` looks at {} values, this matches one", types.len()),
                    );
                    return false;
                };
                let plain = self.plain(*ty);
                let number = match self.kind(plain).clone() {
                    Type::Bit(_) | Type::Signed(_) | Type::Int | Type::Error | Type::Bool | Type::Var(_) => {
                        true
                    }
                    Type::Enum(id) => self.out.enums[id.index()].repr.is_some(),
                    _ => false,
                };
                if !number {
                    let shown = self.show(*ty);
                    self.type_error(keyset.span, format!("`{shown}` has no masks and ranges"));
                    return false;
                }
                let mut good = self.key_bound(low, *ty);
                good &= self.key_bound(high, *ty);
                for bound in [low, high] {
                    if good && !self.is_known(bound) {
                        // A range is what the target cannot do then (section 13.6).
                        let range = matches!(keyset.kind, KeysetKind::Range(..));
                        let kind = if range { code::TARGET } else { code::INVALID };
                        self.report_at(
                            Stage::Flow,
                            Diagnostic::error(kind, bound.span, "a mask or range is made of constants"),
                        );
                        good = false;
                    }
                }
                good
            }
        }
    }

    /// One side of a mask or range: of the key's type, or of the numbers behind it.
    fn key_bound(&mut self, bound: &'a Expr, ty: TypeId) -> bool {
        let text = |shown: &str, wanted: &str| format!("the key is `{wanted}`, this is `{shown}`");
        let of = self.expr(bound);
        let of = self.resolve(of);
        let plain = self.plain(ty);
        if of != ty
            && let Type::Enum(id) = self.kind(plain).clone()
            && let Some(repr) = self.out.enums[id.index()].repr
        {
            return self.expect_as(bound, repr, &text);
        }
        if of == TypeId::INT && plain != ty {
            return self.expect_as(bound, plain, &text);
        }
        self.expect_as(bound, ty, &text)
    }

    fn key_value(&mut self, value: &'a Expr, types: &[TypeId], what: &str) -> bool {
        if let (ExprKind::List { items, rest: None }, [ty]) = (&value.kind, types)
            && let [item] = &items[..]
            && !matches!(self.kind(*ty), Type::Tuple(_) | Type::Struct(..))
        {
            self.set_type(value.id, *ty);
            return self.key_value(item, types, what);
        }
        let literal = matches!(value.kind, ExprKind::List { .. } | ExprKind::Struct { .. });
        if !literal {
            let of = self.expr(value);
            if let Type::Set(of) = self.kind(of).clone() {
                return self.value_set_fits(value, of, types);
            }
        }
        let text = |shown: &str, wanted: &str| format!("the key is `{wanted}`, this is `{shown}`");
        match types {
            [ty] => {
                let plain = self.plain(*ty);
                if self.out.ty(value.id) == Some(TypeId::INT) && plain != *ty {
                    return self.expect_as(value, plain, &text);
                }
                self.expect_as(value, *ty, &text)
            }
            _ => {
                let tuple = self.out.types.intern(Type::Tuple(types.into()));
                let of = self.expr(value);
                if self.implicit(of, tuple) && !matches!(self.kind(of), Type::Struct(..)) {
                    return true;
                }
                if self.out.types.has_error(of) {
                    return true;
                }
                self.type_error(
                    value.span,
                    format!("`{what}` looks at {} values, this matches one", types.len()),
                );
                false
            }
        }
    }

    /// A value set of one value, of a tuple, or of a struct with one field for each value.
    fn value_set_fits(&mut self, value: &'a Expr, of: TypeId, types: &[TypeId]) -> bool {
        let fits = match types {
            [ty] => {
                let ty = *ty;
                self.unify(of, ty)
                    || match self.kind(of).clone() {
                        Type::Struct(id, args) => {
                            let fields = self.fields_of(id, &args);
                            fields.len() == 1 && self.unify(fields[0].1, ty)
                        }
                        _ => false,
                    }
            }
            _ => match self.kind(of).clone() {
                Type::Tuple(parts) => self.unify_lists(&parts, types),
                Type::Struct(..) => {
                    let mut fields = Vec::new();
                    self.leaves(of, &mut fields);
                    self.unify_lists(&fields, types)
                }
                _ => false,
            },
        };
        if !fits {
            let shown = self.show(of);
            let wanted: Vec<String> = types.iter().map(|&ty| self.show(ty)).collect();
            self.type_error(
                value.span,
                format!("this is a set of `{shown}`, `select` looks at `{}`", wanted.join(", ")),
            );
        }
        fits
    }

    /// The fields of a struct, those of structs in it one by one.
    fn leaves(&mut self, ty: TypeId, out: &mut Vec<TypeId>) {
        if out.len() > 1024 {
            return;
        }
        match self.kind(ty).clone() {
            Type::Struct(id, args) => {
                for (_, field) in self.fields_of(id, &args) {
                    self.leaves(field, out);
                }
            }
            _ => out.push(ty),
        }
    }
}
