//! Constructor calls and instances (specification, section 11.3): of externs, parsers, controls and packages.

use super::call::Kind;
use super::resolve::plural;
use super::ty::{BlockId, ExternId, FnId, PackageId, Type, TypeId, TypeList, TypeVar};
use super::{ArgSource, CallInfo, Callee, Checker, FnKind, SymbolKind, code};
use crate::ast::{Arg, Expr, Name, NodeId};
use crate::diag::Diagnostic;
use crate::source::Span;

impl<'a> Checker<'a> {
    /// Type parameters of a declared type.
    pub(super) fn vars_of(&self, of: TypeId) -> Vec<TypeVar> {
        match self.kind(of) {
            Type::Struct(id, _) => self.out.structs[id.index()].vars.clone(),
            Type::Extern(id, _) => self.out.externs[id.index()].vars.clone(),
            Type::Block(id, _) => self.out.blocks[id.index()].vars.clone(),
            Type::Package(id, _) => self.out.packages[id.index()].vars.clone(),
            _ => Vec::new(),
        }
    }

    pub(super) fn with_fresh(&mut self, of: TypeId, vars: &[TypeVar]) -> TypeId {
        let args: TypeList = self.fresh_list(vars).into();
        let ty = match self.kind(of) {
            Type::Struct(id, _) => Type::Struct(*id, args),
            Type::Extern(id, _) => Type::Extern(*id, args),
            Type::Block(id, _) => Type::Block(*id, args),
            Type::Package(id, _) => Type::Package(*id, args),
            _ => return of,
        };
        self.out.types.intern(ty)
    }

    /// A constructor call or instantiation. The result is the type of the object.
    pub(super) fn construct(
        &mut self,
        node: NodeId,
        span: Span,
        of: TypeId,
        args: &'a [Arg],
        implements: bool,
    ) -> TypeId {
        match self.kind(of).clone() {
            Type::Error => {
                self.args_only(args);
                TypeId::ERROR
            }
            Type::Extern(id, list) => self.construct_extern(node, span, (id, list), args, implements),
            Type::Block(id, list) => self.construct_block(node, span, (id, list), args),
            Type::Package(id, list) => self.construct_package(node, span, (id, list), args),
            _ => {
                self.args_only(args);
                let shown = self.show(of);
                self.type_error(span, format!("`{shown}` has no constructor"))
            }
        }
    }

    pub(super) fn construct_extern(
        &mut self,
        node: NodeId,
        span: Span,
        (id, list): (ExternId, TypeList),
        args: &'a [Arg],
        implements: bool,
    ) -> TypeId {
        let info = &self.out.externs[id.index()];
        let (name, vars, declared) = (info.name.clone(), info.vars.clone(), info.decl.span);
        let of_kind = |kind: FnKind, this: &Self| -> Vec<FnId> {
            info.methods
                .iter()
                .copied()
                .filter(|&method| this.out.functions[method.index()].kind == kind)
                .collect()
        };
        let constructors = of_kind(FnKind::Constructor, self);
        let abstracts = of_kind(FnKind::AbstractMethod, self);
        if !abstracts.is_empty() && !implements {
            self.args_only(args);
            self.report(
                Diagnostic::error(
                    code::TYPE,
                    span,
                    format!("`{name}` has abstract methods: an instance implements them"),
                )
                .label(declared, "declared here")
                .help(format!("declare an instance: `{name}(…) x = {{ … }};`")),
            );
            return TypeId::ERROR;
        }
        let fitting: Vec<FnId> =
            constructors.iter().copied().filter(|&method| self.args_fit(method, args)).collect();
        let constructor = match fitting[..] {
            [one] => one,
            [] => {
                self.args_only(args);
                let mut problem = Diagnostic::error(
                    code::TYPE,
                    span,
                    format!("`{name}` has no constructor with {} argument{}", args.len(), plural(args.len())),
                );
                for constructor in &constructors {
                    problem = problem.label(self.out.functions[constructor.index()].span, "a constructor");
                }
                if constructors.is_empty() {
                    problem = problem.label(declared, "declared here, without constructor");
                }
                self.report(problem);
                return TypeId::ERROR;
            }
            _ => {
                self.args_only(args);
                return self.type_error(
                    span,
                    format!("more than one constructor of `{name}` takes these arguments"),
                );
            }
        };
        let mut formals = self.formals(constructor);
        let type_args: Vec<TypeId> = list.iter().map(|&ty| self.open_type(ty)).collect();
        for formal in &mut formals {
            let ty = self.out.types.substitute(formal.ty, &vars, &type_args);
            formal.ty = self.open_type(ty);
        }
        let what = format!("the constructor of `{name}`");
        let Some(sources) = self.assign_args(&what, span, &formals, args, Kind::Constructor) else {
            self.args_only(args);
            return TypeId::ERROR;
        };
        if !self.check_args(&what, &formals, args, &sources, Kind::Constructor) {
            return TypeId::ERROR;
        }
        // A `_` that nothing decides stays a `_`.
        let mut decided: Vec<TypeId> = Vec::with_capacity(type_args.len());
        for (&given, &open) in list.iter().zip(&type_args) {
            let known = self.deep(open);
            let undecided = self.out.types.has_infer(known);
            decided.push(if undecided && self.out.types.has_dont_care(given) { given } else { known });
        }
        if !self.all_inferred(&what, span, &vars, &decided) {
            return TypeId::ERROR;
        }
        let type_args: TypeList = decided.into();
        let info = CallInfo {
            callee: Callee::Constructor(constructor),
            type_args: type_args.clone(),
            args: sources,
        };
        self.out.calls.insert(node, info);
        self.out.types.intern(Type::Extern(id, type_args))
    }

    pub(super) fn construct_block(
        &mut self,
        node: NodeId,
        span: Span,
        (id, list): (BlockId, TypeList),
        args: &'a [Arg],
    ) -> TypeId {
        let id = self.block_overload(id, args);
        let info = &self.out.blocks[id.index()];
        let (kind, name, vars, has_body, declared) =
            (info.kind, info.name.clone(), info.vars.clone(), info.has_body, info.decl.span);
        if !has_body {
            self.args_only(args);
            self.report(
                Diagnostic::error(
                    code::TYPE,
                    span,
                    format!("`{name}` is the type of a {}: it has no body", kind.word()),
                )
                .label(declared, "declared here"),
            );
            return TypeId::ERROR;
        }
        let mut formals = Self::formals_of(&info.constructor);
        let type_args: Vec<TypeId> = if list.len() == vars.len() {
            list.iter().map(|&ty| self.open_type(ty)).collect()
        } else {
            self.fresh_list(&vars)
        };
        for formal in &mut formals {
            formal.ty = self.out.types.substitute(formal.ty, &vars, &type_args);
        }
        let what = format!("the constructor of `{name}`");
        let Some(sources) = self.assign_args(&what, span, &formals, args, Kind::Constructor) else {
            self.args_only(args);
            return TypeId::ERROR;
        };
        if !self.check_args(&what, &formals, args, &sources, Kind::Constructor) {
            return TypeId::ERROR;
        }
        // What is still open a package may decide: `top(c())`.
        let type_args: TypeList = type_args.iter().map(|&ty| self.deep(ty)).collect();
        let info =
            CallInfo { callee: Callee::BlockConstructor(id), type_args: type_args.clone(), args: sources };
        self.out.calls.insert(node, info);
        self.out.types.intern(Type::Block(id, type_args))
    }

    /// Of several packages of one name the one that the arguments fit.
    pub(super) fn package_overload(&self, id: PackageId, args: &[Arg]) -> PackageId {
        let of = |kind| if let SymbolKind::Package(id) = kind { Some(id) } else { None };
        let fits = |id: &PackageId| Self::params_fit(&self.out.packages[id.index()].params, args);
        self.fitting(&self.out.packages[id.index()].name, true, id, of, fits)
    }

    /// Of several blocks of one name the one that the arguments of the constructor fit.
    pub(super) fn block_overload(&self, id: BlockId, args: &[Arg]) -> BlockId {
        let of = |kind| if let SymbolKind::Block(id) = kind { Some(id) } else { None };
        let fits = |id: &BlockId| Self::params_fit(&self.out.blocks[id.index()].constructor, args);
        self.fitting(&self.out.blocks[id.index()].name, false, id, of, fits)
    }

    /// `id`, unless its name has others, it does not fit, and one of them does.
    fn fitting<I: Copy>(
        &self,
        name: &Name,
        absolute: bool,
        id: I,
        of: impl Fn(SymbolKind) -> Option<I>,
        fits: impl Fn(&I) -> bool,
    ) -> I {
        let all = self.lookup(name, absolute).iter();
        let others: Vec<I> = all.filter_map(|&symbol| of(self.symbol(symbol).kind)).collect();
        if others.len() < 2 || fits(&id) { id } else { others.into_iter().find(fits).unwrap_or(id) }
    }

    pub(super) fn params_fit(params: &[super::ParamInfo<'_>], args: &[Arg]) -> bool {
        let named =
            |name: &Name| args.iter().any(|arg| arg.name.as_ref().is_some_and(|other| other.name == *name));
        if args.iter().any(|arg| arg.name.is_some()) {
            return args.iter().all(|arg| {
                arg.name.as_ref().is_some_and(|name| params.iter().any(|param| param.name == name.name))
            }) && params.iter().all(|param| param.may_miss() || named(&param.name));
        }
        args.len() <= params.len() && params.iter().skip(args.len()).all(super::ParamInfo::may_miss)
    }

    /// The package says what it wants: that is the place, unless it is one of ours.
    fn say_at_package(&mut self, declared: &'a crate::ast::Decl, before: usize) {
        let place = declared.name().map(|name| name.span).filter(|&place| !self.is_builtin(place));
        let Some(place) = place else { return };
        for (_, problem) in &mut self.problems[before..] {
            if problem.message.starts_with("parameter `") || problem.message.starts_with("package `") {
                for label in &mut problem.labels {
                    label.primary = false;
                }
                problem
                    .labels
                    .insert(0, crate::diag::Label { span: place, text: String::new(), primary: true });
            }
        }
    }

    /// Does a type parameter stand in the types of parameters that nothing is given for, and in no other?
    fn only_of_missing(&mut self, var: TypeVar, params: &[TypeId], sources: &[ArgSource]) -> bool {
        let mut seen = false;
        for (&ty, source) in params.iter().zip(sources) {
            if self.mentions(ty, var) {
                if *source != ArgSource::Missing {
                    return false;
                }
                seen = true;
            }
        }
        seen
    }

    fn mentions(&mut self, ty: TypeId, var: TypeVar) -> bool {
        let mut found = false;
        self.out.types.replace(ty, &mut |leaf| {
            found |= *leaf == Type::Var(var);
            None
        });
        found
    }

    pub(super) fn construct_package(
        &mut self,
        node: NodeId,
        span: Span,
        (id, list): (PackageId, TypeList),
        args: &'a [Arg],
    ) -> TypeId {
        let id = self.package_overload(id, args);
        let info = &self.out.packages[id.index()];
        let (name, vars, declared) = (info.name.clone(), info.vars.clone(), info.decl);
        let mut formals = Self::formals_of(&info.params);
        let params: Vec<TypeId> = info.params.iter().map(|param| param.ty).collect();
        let defaults: Vec<Option<&'a Expr>> =
            info.params.iter().map(|param| param.decl.default.as_ref()).collect();
        let type_args: Vec<TypeId> = if list.len() == vars.len() {
            list.iter().map(|&ty| self.open_type(ty)).collect()
        } else {
            self.fresh_list(&vars)
        };
        for formal in &mut formals {
            let ty = self.out.types.substitute(formal.ty, &vars, &type_args);
            formal.ty = self.open_type(ty);
        }
        let what = format!("package `{name}`");
        let before = self.problems.len();
        let Some(sources) = self.assign_args(&what, span, &formals, args, Kind::Constructor) else {
            self.say_at_package(declared, before);
            self.args_only(args);
            return TypeId::ERROR;
        };
        let before = self.problems.len();
        if !self.check_args(&what, &formals, args, &sources, Kind::Constructor) {
            self.say_at_package(declared, before);
            return TypeId::ERROR;
        }
        for ((formal, source), default) in formals.iter().zip(&sources).zip(defaults) {
            if let (ArgSource::Default, Some(default)) = (source, default) {
                let ty = self.type_of(default.id);
                let ty = self.out.types.substitute(ty, &vars, &type_args);
                self.unify(ty, formal.ty);
            }
        }
        // A `_` that nothing decides stays a `_`.
        let mut decided: Vec<TypeId> = Vec::with_capacity(type_args.len());
        for (at, &open) in type_args.iter().enumerate() {
            let known = self.deep(open);
            let given = list.get(at).copied().unwrap_or(TypeId::ERROR);
            let open = self.out.types.has_infer(known);
            decided.push(if open && self.out.types.has_dont_care(given) {
                given
            } else if open && self.only_of_missing(vars[at], &params, &sources) {
                // What nobody gives may be of any type (section 6.8.2).
                TypeId::DONT_CARE
            } else {
                known
            });
        }
        if !self.all_inferred(&what, span, &vars, &decided) {
            return TypeId::ERROR;
        }
        let type_args: TypeList = decided.into();
        let info =
            CallInfo { callee: Callee::PackageConstructor(id), type_args: type_args.clone(), args: sources };
        self.out.calls.insert(node, info);
        self.out.types.intern(Type::Package(id, type_args))
    }
}
