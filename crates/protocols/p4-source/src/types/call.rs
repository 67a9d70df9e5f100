//! Calls: which function is meant, where each argument goes, what the type arguments are, and where calls may stand
//! (specification, sections 6.8, 8.20 and appendix F).

use super::resolve::{Use, plural};
use super::ty::{BlockId, ExternId, FnId, Type, TypeId, TypeList, TypeVar};
use super::{
    ArgSource, BlockKind, CallInfo, Callee, Checker, FnKind, Place, Stage, SymbolId, SymbolKind, code, warn,
};
use crate::ast::{Arg, Call, Direction, Expr, ExprKind, Ident, Name, NodeId};
use crate::diag::Diagnostic;
use crate::source::Span;
use barewire_text::nearest;

/// A parameter as a call sees it.
#[derive(Clone, Debug)]
pub(super) struct Formal {
    pub name: Name,
    pub direction: Direction,
    pub ty: TypeId,
    pub may_miss: bool,
    pub has_default: bool,
    pub span: Span,
}

/// What is called, as far as arguments go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A function, method, `apply`.
    Function,
    /// An action, called.
    Action,
    /// A constructor.
    Constructor,
}

impl<'a> Checker<'a> {
    pub(super) fn call(&mut self, expr: &'a Expr, call: &'a Call) -> TypeId {
        match &call.callee.kind {
            ExprKind::Path { absolute, name } => {
                let found = self.lookup(&name.name, *absolute).to_vec();
                self.call_named(expr, call, name, &found)
            }
            ExprKind::Type(ty) => {
                if let Some(id) = self.type_symbol(ty)
                    && !self.is_type(id)
                    && let crate::ast::TypeKind::Name(name) = &ty.kind
                {
                    let found = self.lookup(&name.name.name, name.absolute).to_vec();
                    return self.call_named(expr, call, &name.name, &found);
                }
                let of = self.type_as(ty, Use::Constructor);
                self.set_type(call.callee.id, of);
                self.construct(expr.id, expr.span, of, &call.args, false)
            }
            ExprKind::Member(base, name) => self.call_member(expr, call, base, name),
            _ => {
                let ty = self.expr(&call.callee);
                self.args_only(&call.args);
                if ty == TypeId::ERROR {
                    return ty;
                }
                self.type_error(call.callee.span, "this cannot be called")
            }
        }
    }

    /// Looks at arguments of a call that makes no sense.
    pub(super) fn args_only(&mut self, args: &'a [Arg]) {
        for arg in args {
            if !matches!(arg.value.kind, ExprKind::DontCare) {
                self.expr(&arg.value);
            }
        }
    }

    pub(super) fn call_named(
        &mut self,
        expr: &'a Expr,
        call: &'a Call,
        name: &'a Ident,
        found: &[SymbolId],
    ) -> TypeId {
        let Some(&first) = found.first() else {
            self.args_only(&call.args);
            return self.not_found(name);
        };
        let candidates = self.functions_among(found);
        if candidates.is_empty() {
            if self.is_type(first) {
                self.refer(call.callee.id, first, name.span);
                let of = self.symbol(first).ty;
                let args = self.vars_of(of);
                let of = if args.is_empty() { of } else { self.with_fresh(of, &args) };
                return self.construct(expr.id, expr.span, of, &call.args, false);
            }
            self.args_only(&call.args);
            self.refer(call.callee.id, first, name.span);
            let span = self.symbol(first).span;
            self.report(
                Diagnostic::error(code::TYPE, call.callee.span, format!("`{name}` cannot be called"))
                    .label(span, "declared here"),
            );
            return TypeId::ERROR;
        }
        // A scope whose functions do not fit hides none that do.
        let candidates = if candidates.iter().any(|&(_, id)| self.args_fit(id, &call.args)) {
            candidates
        } else {
            self.outer_functions(&name.name, &call.args).unwrap_or(candidates)
        };
        let fns: Vec<FnId> = candidates.iter().map(|&(_, id)| id).collect();
        let Some(id) = self.overload(name, expr.span, &fns, &call.args) else {
            self.args_only(&call.args);
            return TypeId::ERROR;
        };
        if let Some(&(symbol, _)) = candidates.iter().find(|(_, of)| *of == id) {
            self.refer(call.callee.id, symbol, name.span);
            if self.open.contains(&symbol) {
                self.args_only(&call.args);
                return TypeId::ERROR;
            }
        }
        self.set_type(call.callee.id, TypeId::CALLABLE);
        self.call_function(expr, call, id, None, Callee::Function(id))
    }

    /// The functions among symbols. One whose body is at hand is left out where there are others.
    pub(super) fn functions_among(&self, found: &[SymbolId]) -> Vec<(SymbolId, FnId)> {
        let all: Vec<(SymbolId, FnId)> = found
            .iter()
            .filter_map(|&id| match self.symbol(id).kind {
                SymbolKind::Function(of) => Some((id, of)),
                _ => None,
            })
            .collect();
        let finished: Vec<(SymbolId, FnId)> =
            all.iter().copied().filter(|(symbol, _)| !self.open.contains(symbol)).collect();
        if finished.is_empty() { all } else { finished }
    }

    /// The innermost functions of the name that the arguments fit.
    pub(super) fn outer_functions(&self, name: &Name, args: &[Arg]) -> Option<Vec<(SymbolId, FnId)>> {
        self.scopes.iter().rev().find_map(|scope| {
            let found = self.functions_among(scope.names.get(name)?);
            found.iter().any(|&(_, id)| self.args_fit(id, args)).then_some(found)
        })
    }

    /// The one function that the arguments fit, by their number and names (section 7.2.9.2).
    pub(super) fn overload(
        &mut self,
        name: &Ident,
        whole: Span,
        fns: &[FnId],
        args: &'a [Arg],
    ) -> Option<FnId> {
        if let [only] = fns {
            return Some(*only);
        }
        let fitting: Vec<FnId> = fns.iter().copied().filter(|&id| self.args_fit(id, args)).collect();
        match fitting[..] {
            [one] => Some(one),
            [] => {
                let mut problem = Diagnostic::error(
                    code::TYPE,
                    whole,
                    format!("no `{name}` takes these {} argument{}", args.len(), plural(args.len())),
                );
                for id in fns {
                    problem = problem.label(self.out.functions[id.index()].span, "one that does not fit");
                }
                self.report(problem);
                None
            }
            _ => {
                let mut problem = Diagnostic::error(
                    code::TYPE,
                    whole,
                    format!("more than one `{name}` takes these arguments"),
                );
                for id in &fitting {
                    problem = problem.label(self.out.functions[id.index()].span, "one of them");
                }
                self.report(problem);
                None
            }
        }
    }

    pub(super) fn args_fit(&self, id: FnId, args: &[Arg]) -> bool {
        let info = &self.out.functions[id.index()];
        if args.len() > info.params.len() {
            return false;
        }
        if args.iter().any(|arg| arg.name.is_some()) {
            let named = |name: &Name| {
                args.iter().any(|arg| arg.name.as_ref().is_some_and(|other| other.name == *name))
            };
            return args.iter().all(|arg| {
                arg.name.as_ref().is_some_and(|name| info.params.iter().any(|param| param.name == name.name))
            }) && info.params.iter().all(|param| param.may_miss() || named(&param.name));
        }
        info.params.iter().skip(args.len()).all(super::ParamInfo::may_miss)
            || (info.kind == FnKind::Action
                && info.params.iter().skip(args.len()).all(|param| param.direction == Direction::None))
    }

    /// Type arguments: given ones, or ones to infer.
    pub(super) fn type_args(
        &mut self,
        what: &str,
        call: &'a Call,
        whole: Span,
        vars: &[TypeVar],
    ) -> Option<Vec<TypeId>> {
        if call.type_args.is_empty() {
            return Some(self.fresh_list(vars));
        }
        let given: Vec<TypeId> = call.type_args.iter().map(|arg| self.type_argument(arg)).collect();
        if given.len() != vars.len() {
            self.type_error(
                whole,
                format!(
                    "{what} has {} type parameter{}, here are {} argument{}",
                    vars.len(),
                    plural(vars.len()),
                    given.len(),
                    plural(given.len())
                ),
            );
            return None;
        }
        Some(
            given
                .into_iter()
                .map(|ty| if ty == TypeId::DONT_CARE { self.fresh() } else { self.open_type(ty) })
                .collect(),
        )
    }

    /// A call of a function, action or method. `owner`: the extern's type parameters and their arguments.
    pub(super) fn call_function(
        &mut self,
        expr: &'a Expr,
        call: &'a Call,
        id: FnId,
        owner: Option<(Vec<TypeVar>, TypeList)>,
        callee: Callee,
    ) -> TypeId {
        let info = &self.out.functions[id.index()];
        let (name, vars, result, kind) = (info.name.clone(), info.vars.clone(), info.result, info.kind);
        let what = format!("`{name}`");
        let mut formals = self.formals(id);
        let fail = |this: &mut Self| {
            this.args_only(&call.args);
            // The result is known even when the arguments are not right.
            if vars.is_empty() && owner.is_none() { result } else { TypeId::ERROR }
        };
        let Some(type_args) = self.type_args(&what, call, expr.span, &vars) else { return fail(self) };
        if type_args.iter().any(|&ty| self.out.types.has_error(ty)) {
            return fail(self);
        }
        let mut all_vars = vars.clone();
        let mut all_args = type_args.clone();
        if let Some((owner_vars, owner_args)) = &owner {
            all_vars.extend(owner_vars);
            all_args.extend(owner_args.iter());
        }
        for formal in &mut formals {
            formal.ty = self.out.types.substitute(formal.ty, &all_vars, &all_args);
        }
        self.check_call_place(expr.span, id, kind);
        let action = kind == FnKind::Action;
        let argument_kind = if action { Kind::Action } else { Kind::Function };
        let Some(sources) = self.assign_args(&what, expr.span, &formals, &call.args, argument_kind) else {
            return fail(self);
        };
        if !call.type_args.is_empty() {
            for formal in &formals {
                if let Some(why) = self.direction_problem(formal.direction, formal.ty) {
                    self.report(
                        Diagnostic::error(code::TYPE, expr.span, why).label(formal.span, "the parameter"),
                    );
                    return fail(self);
                }
            }
        }
        let fit = self.at_site(expr.span, |checker| {
            checker.check_args(&what, &formals, &call.args, &sources, argument_kind)
        });
        if !fit {
            self.args_only(&call.args);
            let result = self.out.types.substitute(result, &all_vars, &all_args);
            let result = self.deep(result);
            return if self.out.types.has_infer(result) { TypeId::ERROR } else { result };
        }
        // What only an argument that is left out would say does not matter.
        for (formal, source) in formals.iter().zip(&sources) {
            let ty = self.deep(formal.ty);
            if *source == ArgSource::Missing && matches!(self.out.types.get(ty), Type::Infer(_)) {
                self.unify(ty, TypeId::VOID);
            }
        }
        if kind == FnKind::Function
            && let Some(at) = type_args.iter().position(|&ty| self.resolve(ty) == TypeId::INT)
        {
            let _ = at;
            self.report(
                Diagnostic::error(code::TYPE, expr.span, "a number without a width says nothing of its type")
                    .help("write the width, such as `8w5`"),
            );
            return TypeId::ERROR;
        }
        if !self.all_inferred(&what, expr.span, &vars, &type_args) {
            return TypeId::ERROR;
        }
        let type_args: TypeList = type_args.iter().map(|&ty| self.deep(ty)).collect();
        let result = self.out.types.substitute(result, &all_vars, &all_args);
        let result = self.deep(result);
        if matches!(self.kind(result), Type::Block(..) | Type::Package(..)) {
            let shown = self.show(result);
            return self.type_error(expr.span, format!("a function cannot return `{shown}`"));
        }
        self.check_core_method(expr, id, &formals, call, &sources);
        self.out.calls.insert(expr.id, CallInfo { callee, type_args, args: sources });
        result
    }

    pub(super) fn all_inferred(&mut self, what: &str, span: Span, vars: &[TypeVar], args: &[TypeId]) -> bool {
        for (var, &ty) in vars.iter().zip(args) {
            let ty = self.deep(ty);
            if self.out.types.has_infer(ty) {
                let name = self.out.vars[var.index()].clone();
                self.report(
                    Diagnostic::error(
                        code::TYPE,
                        span,
                        format!("type parameter `{name}` of {what} cannot be inferred"),
                    )
                    .help("write the type argument: `<…>`"),
                );
                return false;
            }
        }
        true
    }

    pub(super) fn call_member(
        &mut self,
        expr: &'a Expr,
        call: &'a Call,
        base: &'a Expr,
        name: &'a Ident,
    ) -> TypeId {
        let of = match &base.kind {
            ExprKind::Type(ty) if self.value_behind(ty).is_none() => {
                let of = self.type_as(ty, Use::Constructor);
                self.set_type(base.id, of);
                return self.call_on_type(expr, call, base, of, name);
            }
            ExprKind::Path { absolute, name: path } => {
                let found = self.lookup(&path.name, *absolute).first().copied();
                match found {
                    Some(id) if self.is_type(id) => {
                        self.refer(base.id, id, base.span);
                        let of = self.symbol(id).ty;
                        let vars = self.vars_of(of);
                        let of = if vars.is_empty() { of } else { self.with_fresh(of, &vars) };
                        self.set_type(base.id, of);
                        return self.call_on_type(expr, call, base, of, name);
                    }
                    _ => self.expr(base),
                }
            }
            _ => self.expr(base),
        };
        if self.resolve(of) == TypeId::ERROR {
            self.args_only(&call.args);
            return TypeId::ERROR;
        }
        if !call.type_args.is_empty() && !matches!(self.kind(of), Type::Extern(..)) {
            self.args_only(&call.args);
            return self.type_error(expr.span, format!("`{name}` has no type parameters"));
        }
        match self.kind(of).clone() {
            Type::Extern(id, args) => self.call_method(expr, call, base, (id, args), name),
            Type::Block(id, _) if name.as_str() == "apply" => {
                self.apply_block(expr.id, expr.span, id, of, &call.args, Callee::ApplyBlock(id))
            }
            Type::Table(id) if name.as_str() == "apply" => {
                self.args_only(&call.args);
                if !call.args.is_empty() {
                    self.type_error(expr.span, "`apply` of a table has no arguments");
                }
                if self.context.place == Place::Table && self.facts.in_key {
                    // A key may look at another table's result.
                } else if self.context.place == Place::Table {
                    self.report_at(
                        Stage::Flow,
                        Diagnostic::error(
                            code::UNSUPPORTED,
                            expr.span,
                            "a table cannot be applied in an argument of an action",
                        ),
                    );
                } else if self.context.place != Place::Apply {
                    self.report(
                        Diagnostic::error(
                            code::TYPE,
                            expr.span,
                            "tables are applied in the `apply` block of a control",
                        )
                        .label(base.span, "a table"),
                    );
                }
                self.facts.applied.insert(id);
                let info =
                    CallInfo { callee: Callee::ApplyTable(id), type_args: [].into(), args: Vec::new() };
                self.out.calls.insert(expr.id, info);
                self.out.types.intern(Type::TableResult(id))
            }
            _ => self.call_builtin(expr, call, base, of, name),
        }
    }

    /// `isValid` and its like, sizes.
    pub(super) fn call_builtin(
        &mut self,
        expr: &'a Expr,
        call: &'a Call,
        base: &'a Expr,
        of: TypeId,
        name: &'a Ident,
    ) -> TypeId {
        let (header, union) = (self.is_header(of), self.is_union(of));
        let stack = match self.kind(of) {
            Type::Stack(element, _) => {
                let element = *element;
                self.is_header(element) || self.is_union(element)
            }
            _ => false,
        };
        let found = match name.as_str() {
            "isValid" if header || union => Some((Callee::IsValid, TypeId::BOOL, 0, false)),
            "setValid" if header => Some((Callee::SetValid, TypeId::VOID, 0, true)),
            "setInvalid" if header => Some((Callee::SetInvalid, TypeId::VOID, 0, true)),
            "push_front" if stack => Some((Callee::PushFront, TypeId::VOID, 1, true)),
            "pop_front" if stack => Some((Callee::PopFront, TypeId::VOID, 1, true)),
            "minSizeInBits" | "minSizeInBytes" | "maxSizeInBits" | "maxSizeInBytes"
                if self.size_in_bits(of, true).is_some() =>
            {
                Some((Callee::Size, TypeId::INT, 0, false))
            }
            _ => None,
        };
        let Some((callee, result, count, writes)) = found else {
            self.args_only(&call.args);
            let shown = self.show(of);
            let known =
                ["isValid", "setValid", "setInvalid", "push_front", "pop_front", "apply", "minSizeInBits"];
            let mut problem =
                Diagnostic::error(code::TYPE, call.callee.span, format!("`{shown}` has no method `{name}`"))
                    .label(base.span, format!("this is `{shown}`"));
            if let Some(near) = nearest(&name.name, known) {
                problem = problem.help(format!("there is a method `{near}`"));
            } else if union && name.as_str().starts_with("set") {
                problem = problem.help("a union is valid when one of its headers is");
            }
            self.report(problem);
            return TypeId::ERROR;
        };
        self.set_type(call.callee.id, TypeId::CALLABLE);
        if call.args.len() != count {
            self.args_only(&call.args);
            self.type_error(
                expr.span,
                format!("`{name}` has {count} argument{}, here are {}", plural(count), call.args.len()),
            );
            return result;
        }
        if writes {
            self.require_lvalue(base);
        }
        for arg in &call.args {
            let ty = self.expr(&arg.value);
            let number = matches!(self.kind(ty), Type::Int | Type::Bit(_) | Type::Error);
            let value = self.fold(&arg.value);
            if !number || (value.is_none() && ty != TypeId::ERROR && !self.is_known(&arg.value)) {
                self.type_error(arg.span, format!("`{name}` moves a constant number of headers"));
            } else if value.and_then(|value| value.as_int().map(num_traits::Signed::is_negative))
                == Some(true)
            {
                self.type_error(arg.span, format!("`{name}` cannot move fewer than no headers"));
            }
        }
        self.out.calls.insert(expr.id, CallInfo { callee, type_args: [].into(), args: Vec::new() });
        result
    }

    /// `T.apply(…)`, `T.minSizeInBits()`
    pub(super) fn call_on_type(
        &mut self,
        expr: &'a Expr,
        call: &'a Call,
        base: &'a Expr,
        of: TypeId,
        name: &'a Ident,
    ) -> TypeId {
        match self.kind(of).clone() {
            Type::Error => {
                self.args_only(&call.args);
                TypeId::ERROR
            }
            Type::Block(id, _) if name.as_str() == "apply" => {
                self.apply_type(expr.id, expr.span, base.span, id, of, &call.args)
            }
            _ if name.as_str().ends_with("SizeInBits") || name.as_str().ends_with("SizeInBytes") => {
                self.call_builtin(expr, call, base, of, name)
            }
            _ => {
                self.args_only(&call.args);
                let shown = self.show(of);
                self.type_error(expr.span, format!("`{shown}` is a type: it has no method `{name}`"))
            }
        }
    }

    /// `T.apply(…)`: a parser or control without an instance (section 15.1).
    pub(super) fn apply_type(
        &mut self,
        node: NodeId,
        span: Span,
        name: Span,
        id: BlockId,
        of: TypeId,
        args: &'a [Arg],
    ) -> TypeId {
        let info = &self.out.blocks[id.index()];
        let (block, has_body, declared) = (info.name.clone(), info.has_body, info.decl.span);
        let needs = info.constructor.iter().any(|param| !param.may_miss());
        if !has_body || needs {
            self.args_only(args);
            let mut problem = Diagnostic::error(
                code::TYPE,
                span,
                format!("`{block}` cannot be applied without an instance"),
            )
            .label(declared, "declared here");
            problem = if has_body {
                problem.note("its constructor has parameters")
            } else {
                problem.label(name, "the type of a block, without a body")
            };
            self.report(problem);
            return TypeId::VOID;
        }
        self.apply_block(node, span, id, of, args, Callee::ApplyType(id))
    }

    pub(super) fn apply_block(
        &mut self,
        node: NodeId,
        span: Span,
        id: BlockId,
        of: TypeId,
        args: &'a [Arg],
        callee: Callee,
    ) -> TypeId {
        let info = &self.out.blocks[id.index()];
        let (kind, name, vars) = (info.kind, info.name.clone(), info.vars.clone());
        let mut formals = Self::formals_of(&info.params);
        let what = format!("`apply` of `{name}`");
        let type_args: Vec<TypeId> = match self.kind(of).clone() {
            Type::Block(_, list) if list.len() == vars.len() => list.to_vec(),
            _ => self.fresh_list(&vars),
        };
        for formal in &mut formals {
            formal.ty = self.out.types.substitute(formal.ty, &vars, &type_args);
        }
        let place_ok = match (kind, self.context.place) {
            (BlockKind::Parser, Place::State) | (BlockKind::Control, Place::Apply) => None,
            (_, Place::Action) => Some((code::TYPE, "`apply` cannot be called from actions".to_owned())),
            (BlockKind::Parser, Place::Apply) => {
                Some((code::INVALID, "a parser cannot be applied in a control".to_owned()))
            }
            (BlockKind::Control, Place::State) => {
                Some((code::INVALID, "a control cannot be applied in a parser".to_owned()))
            }
            (kind, _) => Some((code::TYPE, format!("a {} cannot be applied here", kind.word()))),
        };
        if let Some((code, text)) = place_ok {
            self.report(Diagnostic::error(code, span, text));
        }
        let Some(sources) = self.assign_args(&what, span, &formals, args, Kind::Function) else {
            self.args_only(args);
            return TypeId::VOID;
        };
        let fit =
            self.at_site(span, |checker| checker.check_args(&what, &formals, args, &sources, Kind::Function));
        if fit && self.all_inferred(&what, span, &vars, &type_args) {
            let type_args: TypeList = type_args.iter().map(|&ty| self.deep(ty)).collect();
            self.out.calls.insert(node, CallInfo { callee, type_args, args: sources });
        }
        TypeId::VOID
    }

    pub(super) fn call_method(
        &mut self,
        expr: &'a Expr,
        call: &'a Call,
        base: &'a Expr,
        (id, args): (ExternId, TypeList),
        name: &'a Ident,
    ) -> TypeId {
        let info = &self.out.externs[id.index()];
        let (owner, vars) = (info.name.clone(), info.vars.clone());
        let methods: Vec<FnId> = info
            .methods
            .iter()
            .copied()
            .filter(|method| {
                let method = &self.out.functions[method.index()];
                method.name == name.name && method.kind != FnKind::Constructor
            })
            .collect();
        if methods.is_empty() {
            let all: Vec<Name> = info
                .methods
                .iter()
                .map(|method| &self.out.functions[method.index()])
                .filter(|method| method.kind != FnKind::Constructor)
                .map(|method| method.name.clone())
                .collect();
            self.args_only(&call.args);
            let mut problem = Diagnostic::error(
                code::TYPE,
                call.callee.span,
                format!("extern `{owner}` has no method `{name}`"),
            )
            .label(base.span, format!("a `{owner}`"));
            if let Some(near) = nearest(&name.name, all.iter().map(|name| &**name)) {
                problem = problem.help(format!("there is a method `{near}`"));
            }
            self.report(problem);
            return TypeId::ERROR;
        }
        let Some(method) = self.overload(name, expr.span, &methods, &call.args) else {
            self.args_only(&call.args);
            return TypeId::ERROR;
        };
        self.set_type(call.callee.id, TypeId::CALLABLE);
        let declared = &self.out.functions[method.index()];
        if let Some(note) = crate::ast::annotation(declared.annotations, "deprecated") {
            let text = note.string().unwrap_or_default();
            self.warn(
                Diagnostic::warning(warn::DEPRECATED, expr.span, format!("`{name}` is deprecated"))
                    .note(text),
            );
        }
        self.call_function(expr, call, method, Some((vars, args)), Callee::Method(method))
    }

    /// Where actions and functions may be called.
    pub(super) fn check_call_place(&mut self, span: Span, id: FnId, kind: FnKind) {
        let name = self.out.functions[id.index()].name.clone();
        if kind == FnKind::Action
            && matches!(
                self.context.place,
                Place::Function
                    | Place::State
                    | Place::Method
                    | Place::ParserLocals
                    | Place::Top
                    | Place::ControlLocals
            )
        {
            let place = match self.context.place {
                Place::Function => "functions",
                Place::Method => "methods",
                Place::State | Place::ParserLocals => "parsers",
                _ => "declarations",
            };
            self.type_error(span, format!("action `{name}` cannot be called from {place}"));
        }
    }
}
