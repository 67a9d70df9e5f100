//! Tables (specification, section 14.2): keys, actions, default action, entries, other properties.

use num_traits::Signed as _;

use super::call::{Formal, Kind};
use super::ty::{FnId, TableId, Type, TypeId};
use super::value::Value;
use super::{
    ArgSource, CallInfo, Callee, Checker, Context, FnKind, KeyInfo, Place, Stage, SymbolKind, TableAction,
    TableInfo, code,
};
use crate::ast::{
    self, ActionRef, Arg, Decl, Direction, Expr, ExprKind, Ident, Property, PropertyKind, Table,
};
use crate::diag::Diagnostic;
use crate::source::Span;
use barewire_text::nearest;

impl<'a> Checker<'a> {
    pub(super) fn table(&mut self, decl: &'a Decl, it: &'a Table) {
        let id = TableId(u32::try_from(self.out.tables.len()).unwrap_or(u32::MAX));
        self.out.tables.push(TableInfo {
            name: it.name.name.clone(),
            keys: Vec::new(),
            actions: Vec::new(),
            default_action: None,
            default_is_const: false,
            size: None,
            entries: Vec::new(),
            decl,
        });
        let ty = self.out.types.intern(Type::Table(id));
        let symbol = self.declare(&it.name, SymbolKind::Table(id), ty, decl.id, &decl.annotations);
        self.open.insert(symbol);
        let context = Context { place: Place::Table, result: None, loops: 0 };
        let before = self.current_table.replace(id);
        self.inside(context, |this| this.properties(id, it));
        self.current_table = before;
        self.open.remove(&symbol);
    }

    pub(super) fn properties(&mut self, id: TableId, it: &'a Table) {
        let mut seen: Vec<(&str, Span)> = Vec::new();
        for property in &it.properties {
            if let Some((_, first)) = seen.iter().find(|(name, _)| *name == property.name.as_str()) {
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        property.name.span,
                        format!("property `{}` stands twice", property.name),
                    )
                    .label(*first, "here before"),
                );
            }
            seen.push((property.name.as_str(), property.name.span));
        }
        for property in &it.properties {
            self.check_annotations(&property.annotations);
            if let PropertyKind::Key(elements) = &property.kind {
                for element in elements {
                    self.key(id, element);
                }
            }
        }
        for property in &it.properties {
            if let PropertyKind::Actions(list) = &property.kind {
                for reference in list {
                    self.listed_action(id, reference);
                }
            }
        }
        let mut default = false;
        for property in &it.properties {
            if let PropertyKind::Value(value) = &property.kind {
                if property.name.as_str() == "default_action" {
                    default = true;
                    let behind = it
                        .properties
                        .iter()
                        .take_while(|other| other.id != property.id)
                        .any(|other| matches!(other.kind, PropertyKind::Actions(_)));
                    if !behind
                        && it.properties.iter().any(|other| matches!(other.kind, PropertyKind::Actions(_)))
                    {
                        self.type_error(property.span, "`default_action` stands behind `actions`");
                    }
                    self.default_action(id, property, value);
                } else {
                    self.other_property(id, property, value);
                }
            }
        }
        if !default {
            self.no_action(id);
        }
        for property in &it.properties {
            if let PropertyKind::Entries(entries) = &property.kind {
                let key_before = it
                    .properties
                    .iter()
                    .take_while(|other| other.id != property.id)
                    .any(|other| matches!(other.kind, PropertyKind::Key(_)));
                let has_key = it.properties.iter().any(|other| matches!(other.kind, PropertyKind::Key(_)));
                if has_key && !key_before {
                    self.type_error(property.span, "`entries` stands behind `key`");
                    continue;
                }
                self.entries(id, it, property, entries);
            }
        }
    }

    pub(super) fn key(&mut self, id: TableId, element: &'a ast::KeyElement) {
        self.check_annotations(&element.annotations);
        self.facts.in_key = true;
        let ty = self.expr(&element.expr);
        self.facts.in_key = false;
        let plain = self.plain(ty);
        let ok = matches!(
            self.kind(plain),
            Type::Bit(_)
                | Type::Signed(_)
                | Type::Bool
                | Type::Enum(_)
                | Type::ErrorCode
                | Type::Var(_)
                | Type::Error
        );
        if !ok {
            let shown = self.show(ty);
            let mut problem =
                Diagnostic::error(code::TYPE, element.expr.span, format!("a key cannot be `{shown}`"));
            if ty == TypeId::INT {
                problem = problem.help("give the number a width, such as `8w5`");
            }
            self.report(problem);
        }
        let match_kind = self.match_kind(&element.match_kind);
        if ok && !self.simple_key(&element.expr) && ast::annotation(&element.annotations, "name").is_none() {
            self.report_at(
                Stage::Flow,
                Diagnostic::error(code::EXPECTED, element.expr.span, "this key needs a name")
                    .help(format!("write `: {} @name(\"…\")`", element.match_kind)),
            );
        }
        self.out.tables[id.index()].keys.push(KeyInfo { ty, match_kind, element });
    }

    /// The member of `match_kind` that a name stands for.
    pub(super) fn match_kind(&mut self, name: &'a Ident) -> Option<u32> {
        let found = self.lookup(&name.name, false).first().copied();
        let Some(symbol) = found else {
            let mut problem =
                Diagnostic::error(code::NOT_FOUND, name.span, format!("match kind `{name}` is not declared"));
            if let Some(near) = nearest(&name.name, self.out.match_kinds.iter().map(|name| &**name)) {
                problem = problem.help(format!("there is a `{near}`"));
            } else if let Some(file) = super::declare::architecture_of(&name.name) {
                problem = problem.help(format!("`#include <{file}>` declares it"));
            } else if !self.out.match_kinds.is_empty() {
                let known: Vec<String> =
                    self.out.match_kinds.iter().map(|kind| format!("`{kind}`")).collect();
                problem = problem.help(format!("there are {}", known.join(", ")));
            }
            self.report_at(Stage::Names, problem);
            return None;
        };
        let (node, ty, span) = {
            let symbol = self.symbol(symbol);
            (symbol.node, symbol.ty, symbol.span)
        };
        if ty != TypeId::MATCH_KIND {
            self.report(
                Diagnostic::error(code::TYPE, name.span, format!("`{name}` is no match kind"))
                    .label(span, "declared here"),
            );
            return None;
        }
        match self.out.constants.get(&node) {
            Some(Value::MatchKind(at)) => Some(*at),
            _ => None,
        }
    }

    /// Keys that have a name by themselves (section 14.2.1.1).
    pub(super) fn simple_key(&mut self, expr: &'a Expr) -> bool {
        match &expr.kind {
            ExprKind::Path { .. }
            | ExprKind::Type(_)
            | ExprKind::Error
            | ExprKind::Int(_)
            | ExprKind::Bool(_) => true,
            ExprKind::Member(base, _) => self.simple_key(base),
            ExprKind::Index(base, _) => self.simple_key(base),
            ExprKind::Slice { base, high, low } => {
                self.simple_key(base) && self.fold(high).is_some() && self.fold(low).is_some()
            }
            ExprKind::Call(call) => {
                matches!(self.out.calls.get(&expr.id).map(|info| info.callee), Some(Callee::IsValid))
                    && matches!(&call.callee.kind, ExprKind::Member(base, _) if self.simple_key(base))
            }
            ExprKind::Binary(ast::BinaryOp::BitAnd, left, right) => {
                (self.simple_key(left) && self.fold(right).is_some())
                    || (self.simple_key(right) && self.fold(left).is_some())
            }
            _ => self.out.ty(expr.id) == Some(TypeId::ERROR),
        }
    }

    /// The action that a name stands for.
    pub(super) fn action_named(
        &mut self,
        node: ast::NodeId,
        name: &Ident,
        absolute: bool,
        whole: Span,
        args: &'a [Arg],
    ) -> Option<FnId> {
        let found = self.lookup(&name.name, absolute).first().copied();
        let Some(symbol) = found else {
            self.args_only(args);
            self.not_found(name);
            return None;
        };
        self.refer(node, symbol, name.span);
        let (kind, span) = (self.symbol(symbol).kind, self.symbol(symbol).span);
        match kind {
            SymbolKind::Function(id) if self.out.functions[id.index()].kind == FnKind::Action => Some(id),
            _ => {
                self.args_only(args);
                self.report(
                    Diagnostic::error(code::TYPE, whole, format!("`{name}` is no action"))
                        .label(span, "declared here"),
                );
                None
            }
        }
    }

    pub(super) fn listed_action(&mut self, table: TableId, reference: &'a ActionRef) {
        self.check_annotations(&reference.annotations);
        let args = reference.args.as_deref().unwrap_or_default();
        let Some(action) =
            self.action_named(reference.id, &reference.name, reference.absolute, reference.span, args)
        else {
            return;
        };
        let twice = self.out.tables[table.index()]
            .actions
            .iter()
            .find(|listed| {
                listed.action == action
                    || listed.listed.is_some_and(|other| other.name.name == reference.name.name)
            })
            .and_then(|listed| listed.listed)
            .map(|other| other.span);
        if let Some(first) = twice {
            self.report_at(
                Stage::List,
                Diagnostic::error(
                    code::DUPLICATE,
                    reference.span,
                    format!("action `{}` stands twice", reference.name),
                )
                .label(first, "here before"),
            );
            self.args_only(args);
            return;
        }
        let what = format!("action `{}`", reference.name);
        let formals = self.formals(action);
        // Parameters with a direction come from here, those without from the control plane.
        let directed: Vec<Formal> =
            formals.iter().filter(|formal| formal.direction != Direction::None).cloned().collect();
        if let Some(arg) = args.get(directed.len())
            && args.iter().all(|arg| arg.name.is_none())
            && args.len() <= formals.len()
        {
            let name = formals[directed.len()].name.clone();
            let span = formals[directed.len()].span;
            self.args_only(args);
            self.report(
                Diagnostic::error(
                    code::TYPE,
                    arg.span,
                    format!("`{name}` comes from the control plane, not from here"),
                )
                .label(span, "a parameter without direction"),
            );
            return;
        }
        if let Some(sources) = self.bound(&what, reference.span, &formals, &directed, args) {
            self.out.calls.insert(
                reference.id,
                CallInfo { callee: Callee::Function(action), type_args: [].into(), args: sources },
            );
        }
        self.out.tables[table.index()].actions.push(TableAction { action, listed: Some(reference) });
    }

    /// Arguments for the parameters with a direction; the others come from the control plane.
    pub(super) fn bound(
        &mut self,
        what: &str,
        span: Span,
        formals: &[Formal],
        directed: &[Formal],
        args: &'a [Arg],
    ) -> Option<Vec<ArgSource>> {
        let Some(sources) = self.assign_args(what, span, directed, args, Kind::Action) else {
            self.args_only(args);
            return None;
        };
        if !self.check_args(what, directed, args, &sources, Kind::Action) {
            return None;
        }
        let mut given = sources.into_iter();
        Some(
            formals
                .iter()
                .map(|formal| match formal.direction {
                    Direction::None => ArgSource::ControlPlane,
                    _ => given.next().unwrap_or(ArgSource::Missing),
                })
                .collect(),
        )
    }

    /// A table without a default action has `NoAction`.
    pub(super) fn no_action(&mut self, table: TableId) {
        let found = self.lookup("NoAction", true).first().copied();
        let Some(symbol) = found else { return };
        let SymbolKind::Function(action) = self.symbol(symbol).kind else { return };
        let info = &mut self.out.tables[table.index()];
        info.default_action = Some((action, None));
        if !info.actions.iter().any(|listed| listed.action == action) {
            info.actions.push(TableAction { action, listed: None });
        }
        self.out.symbols[symbol.index()].used = true;
    }

    pub(super) fn default_action(&mut self, table: TableId, property: &'a Property, value: &'a Expr) {
        let (callee, args, called): (&'a Expr, &'a [Arg], bool) = match &value.kind {
            ExprKind::Call(call) => (&call.callee, &call.args, true),
            _ => (value, &[], false),
        };
        let (absolute, name) = match &callee.kind {
            ExprKind::Path { absolute, name } => (*absolute, name),
            ExprKind::Type(ty) => match &ty.kind {
                ast::TypeKind::Name(name) => (name.absolute, &name.name),
                _ => {
                    self.type_error(value.span, "the default action is an action");
                    return;
                }
            },
            ExprKind::Error => return,
            _ => {
                self.args_only(args);
                self.type_error(value.span, "the default action is an action, perhaps with arguments");
                return;
            }
        };
        let Some(action) = self.action_named(callee.id, name, absolute, value.span, args) else { return };
        self.set_type(callee.id, TypeId::CALLABLE);
        let listed =
            self.out.tables[table.index()].actions.iter().find(|listed| listed.action == action).cloned();
        let Some(listed) = listed else {
            self.args_only(args);
            let names: Vec<ast::Name> = self.out.tables[table.index()]
                .actions
                .iter()
                .map(|listed| self.out.functions[listed.action.index()].name.clone())
                .collect();
            let mut problem =
                Diagnostic::error(code::TYPE, value.span, format!("`{name}` is not in the list of actions"));
            if let Some(near) = nearest(&name.name, names.iter().map(|name| &**name)) {
                problem = problem.help(format!("the list has `{near}`"));
            } else {
                problem = problem.help(format!("add `{name};` to `actions`"));
            }
            self.report(problem);
            return;
        };
        if let Some(note) = self.marked(&listed, "tableonly") {
            let text = format!("`{name}` is for entries only");
            let problem = Diagnostic::error(code::TYPE, property.span, text).label(note, "says the list");
            self.report_at(Stage::Flow, problem);
        }
        self.action_call(value.id, name, value.span, action, (args, called), &listed);
        let info = &mut self.out.tables[table.index()];
        info.default_action = Some((action, Some(value)));
        info.default_is_const = property.is_const;
    }

    /// An annotation of an action in the list of a table.
    pub(super) fn marked(&self, listed: &TableAction<'a>, name: &str) -> Option<Span> {
        listed.listed.and_then(|listed| ast::annotation(&listed.annotations, name)).map(|note| note.span)
    }

    /// The call of an action by `default_action` or an entry: directed arguments as in the list, the others constants.
    pub(super) fn action_call(
        &mut self,
        node: ast::NodeId,
        name: &Ident,
        span: Span,
        action: FnId,
        (args, called): (&'a [Arg], bool),
        listed: &TableAction<'a>,
    ) {
        let formals = self.formals(action);
        let what = format!("action `{name}`");
        let list_args: &'a [Arg] =
            listed.listed.and_then(|reference| reference.args.as_deref()).unwrap_or_default();
        let directed = formals.iter().filter(|formal| formal.direction != Direction::None).count();
        let positional = args.iter().all(|arg| arg.name.is_none());
        // Arguments that the list binds may be left out with the parentheses.
        if !called && directed > 0 && formals.len() == directed {
            self.type_error(span, format!("{what} lacks its arguments"));
            return;
        }
        let formals_open: Vec<Formal> =
            formals.iter().map(|formal| Formal { direction: formal.direction, ..formal.clone() }).collect();
        let given = args.len();
        if positional && given < formals.len() && formals[given..].iter().any(|formal| !formal.may_miss) {
            self.args_only(args);
            let lacking = &formals[given];
            self.report(
                Diagnostic::error(
                    code::TYPE,
                    span,
                    format!("{what} lacks an argument for `{}`", lacking.name),
                )
                .label(lacking.span, "the parameter"),
            );
            return;
        }
        let Some(sources) = self.assign_args(&what, span, &formals_open, args, Kind::Function) else {
            self.args_only(args);
            return;
        };
        if !self.check_args(&what, &formals_open, args, &sources, Kind::Action) {
            return;
        }
        let mut wrong = false;
        for (place, (formal, source)) in formals.iter().zip(&sources).enumerate() {
            let ArgSource::Arg(at) = source else { continue };
            let Some(arg) = args.get(*at as usize) else { continue };
            if formal.direction == Direction::None {
                if !self.is_known(&arg.value) {
                    self.report(
                        Diagnostic::error(
                            code::TYPE,
                            arg.span,
                            "this argument is not known when the program is compiled",
                        )
                        .label(formal.span, format!("`{}` has no direction", formal.name)),
                    );
                    wrong = true;
                } else {
                    self.fold(&arg.value);
                }
            } else {
                let same = list_args
                    .iter()
                    .enumerate()
                    .find(|(number, other)| match &other.name {
                        Some(name) => name.name == formal.name,
                        None => *number == place,
                    })
                    .is_some_and(|(_, other)| same_expr(&arg.value, &other.value));
                if !same {
                    let mut problem = Diagnostic::error(
                        code::TYPE,
                        arg.span,
                        format!("the argument for `{}` differs from the list of actions", formal.name),
                    );
                    if let Some(reference) = listed.listed {
                        problem = problem.label(reference.span, "the list binds it here");
                    }
                    self.report(problem);
                    wrong = true;
                }
            }
        }
        if !wrong {
            self.out.calls.insert(
                node,
                CallInfo { callee: Callee::Function(action), type_args: [].into(), args: sources },
            );
        }
    }

    pub(super) fn other_property(&mut self, table: TableId, property: &'a Property, value: &'a Expr) {
        let name = property.name.as_str();
        match name {
            "size" => {
                if let Some(size) = self.known_number(value, "the size of a table", code::INVALID) {
                    self.out.tables[table.index()].size = size;
                }
            }
            "largest_priority_wins" => {
                if self.expect(value, TypeId::BOOL) && self.fold(value).is_none() {
                    self.type_error(value.span, "this is a constant");
                }
            }
            "priority_delta" => {
                if let Some(Some(delta)) = self.known_number(value, "the distance of priorities", code::TYPE)
                    && delta.as_int().is_some_and(|delta| !delta.is_positive())
                {
                    self.type_error(value.span, "the distance of priorities is at least 1");
                }
            }
            "key" | "actions" | "entries" => {
                self.expr(value);
                self.type_error(value.span, format!("`{name}` is a list in braces"));
            }
            _ => {
                let ty = self.expr(value);
                if ty == TypeId::VOID || ty == TypeId::CALLABLE {
                    self.type_error(value.span, format!("this is no value for `{name}`"));
                }
            }
        }
    }

    /// A number that is known at the latest when the instance is made.
    pub(super) fn known_number(
        &mut self,
        value: &'a Expr,
        what: &str,
        kind: &'static str,
    ) -> Option<Option<Value>> {
        let ty = self.expr(value);
        let ty = self.resolve(ty);
        match self.out.types.get(ty) {
            Type::Error => return None,
            Type::Int | Type::Bit(_) | Type::Signed(_) => {}
            _ => {
                let shown = self.show(ty);
                let text = format!("{what} is a number, not `{shown}`");
                self.report(Diagnostic::error(kind, value.span, text));
                return None;
            }
        }
        if !self.is_known(value) {
            let text = format!("{what} is not known when the program is compiled");
            self.report(Diagnostic::error(kind, value.span, text));
            return None;
        }
        Some(self.fold(value))
    }
}

/// Do two expressions say the same, word for word?
fn same_expr(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Int(x), ExprKind::Int(y)) => x.value == y.value && x.width == y.width,
        (ExprKind::Bool(x), ExprKind::Bool(y)) => x == y,
        (ExprKind::String(x), ExprKind::String(y)) => x == y,
        (ExprKind::Path { absolute: p, name: x }, ExprKind::Path { absolute: q, name: y }) => {
            p == q && x.name == y.name
        }
        (ExprKind::Member(x, m), ExprKind::Member(y, n)) => m.name == n.name && same_expr(x, y),
        (ExprKind::Index(x, i), ExprKind::Index(y, j)) => same_expr(x, y) && same_expr(i, j),
        (ExprKind::Slice { base: x, high: h, low: l }, ExprKind::Slice { base: y, high: i, low: m }) => {
            same_expr(x, y) && same_expr(h, i) && same_expr(l, m)
        }
        (ExprKind::Unary(p, x), ExprKind::Unary(q, y)) => p == q && same_expr(x, y),
        (ExprKind::Binary(p, x, u), ExprKind::Binary(q, y, v)) => {
            p == q && same_expr(x, y) && same_expr(u, v)
        }
        (ExprKind::Cast(s, x), ExprKind::Cast(t, y)) => same_type(s, t) && same_expr(x, y),
        (ExprKind::List { items: x, rest: p }, ExprKind::List { items: y, rest: q }) => {
            p.is_some() == q.is_some() && x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_expr(x, y))
        }
        (ExprKind::Struct { fields: x, rest: p }, ExprKind::Struct { fields: y, rest: q }) => {
            p.is_some() == q.is_some()
                && x.len() == y.len()
                && x.iter()
                    .all(|x| y.iter().any(|y| x.key.name == y.key.name && same_expr(&x.value, &y.value)))
        }
        (ExprKind::Conditional(a, b, c), ExprKind::Conditional(x, y, z)) => {
            same_expr(a, x) && same_expr(b, y) && same_expr(c, z)
        }
        (ExprKind::Call(x), ExprKind::Call(y)) => {
            same_expr(&x.callee, &y.callee)
                && x.args.len() == y.args.len()
                && x.args.iter().zip(&y.args).all(|(x, y)| same_expr(&x.value, &y.value))
        }
        (ExprKind::Type(x), ExprKind::Type(y)) => same_type(x, y),
        (ExprKind::Invalid, ExprKind::Invalid)
        | (ExprKind::Default, ExprKind::Default)
        | (ExprKind::DontCare, ExprKind::DontCare)
        | (ExprKind::This, ExprKind::This) => true,
        _ => false,
    }
}

fn same_type(a: &ast::Type, b: &ast::Type) -> bool {
    use ast::TypeKind;
    match (&a.kind, &b.kind) {
        (TypeKind::Name(x), TypeKind::Name(y)) => x.absolute == y.absolute && x.name.name == y.name.name,
        (TypeKind::Bit(None), TypeKind::Bit(None)) | (TypeKind::Bool, TypeKind::Bool) => true,
        (TypeKind::Bit(Some(x)), TypeKind::Bit(Some(y))) | (TypeKind::Int(x), TypeKind::Int(y)) => {
            same_expr(x, y)
        }
        (TypeKind::Error, TypeKind::Error) => true,
        _ => false,
    }
}
