//! Instances (specification, chapters 11 and 16): of externs, parsers, controls and packages, and `main`.

use super::resolve::Use;
use super::ty::{ExternId, FnId, Type, TypeId, TypeList};
use super::{BlockKind, Checker, FnKind, Place, SymbolKind, code, warn};
use crate::ast::{self, Decl, DeclKind};
use crate::diag::Diagnostic;
use crate::source::Span;
use barewire_text::nearest;

impl<'a> Checker<'a> {
    pub(super) fn instance(&mut self, decl: &'a Decl, it: &'a ast::Instance) {
        let of = self.type_as(&it.ty, Use::Constructor);
        let top = self.scopes.len() == 1;
        let span = it.ty.span.to(it.name.span);
        let ty = match self.kind(of).clone() {
            // An array of instances, each made with the same arguments.
            Type::Stack(element, size) if self.is_object(element) => {
                let one = self.construct(decl.id, span, element, &it.args, it.body.is_some());
                if one == TypeId::ERROR { one } else { self.out.types.intern(Type::Stack(one, size)) }
            }
            _ => self.construct(decl.id, span, of, &it.args, it.body.is_some()),
        };
        self.check_instance_place(it, of, top);
        if let Some(body) = &it.body {
            match self.kind(of).clone() {
                Type::Extern(id, args) => {
                    let args = match self.kind(ty) {
                        Type::Extern(_, args) => args.clone(),
                        _ => args,
                    };
                    self.implement(it, (id, args), body);
                }
                Type::Error => {}
                _ => {
                    for inner in body {
                        if let DeclKind::Function(function) = &inner.kind {
                            self.function_head(
                                inner.id,
                                &inner.annotations,
                                &function.proto,
                                FnKind::Function,
                                None,
                                false,
                            );
                        }
                    }
                    let shown = self.show(of);
                    self.type_error(
                        decl.span,
                        format!("`{shown}` has no methods to implement: only an extern has"),
                    );
                }
            }
        }
        if top && it.name.as_str() == "main" && !matches!(self.kind(of), Type::Package(..) | Type::Error) {
            let shown = self.show(of);
            self.report(Diagnostic::error(
                code::EXPECTED,
                it.ty.span,
                format!("`main` is an instance of a package, not of `{shown}`"),
            ));
        }
        let id = self.declare(&it.name, SymbolKind::Instance, ty, decl.id, &decl.annotations);
        if top && it.name.as_str() == "main" {
            self.out.symbols[id.index()].used = true;
            self.out.main = Some(id);
        }
    }

    fn check_instance_place(&mut self, it: &'a ast::Instance, of: TypeId, top: bool) {
        match self.kind(of).clone() {
            Type::Block(id, _) => {
                let kind = self.out.blocks[id.index()].kind;
                let name = &it.name;
                if top {
                    self.report(
                        Diagnostic::error(
                            code::INVALID,
                            it.name.span,
                            format!("a {} has no instance at the top level", kind.word()),
                        )
                        .help("instances are made in a control or parser, or as arguments of a package"),
                    );
                } else if kind == BlockKind::Parser
                    && matches!(self.context.place, Place::ControlLocals | Place::Apply)
                {
                    self.report(Diagnostic::error(
                        code::INVALID,
                        name.span,
                        "a control has no instance of a parser",
                    ));
                } else if kind == BlockKind::Control
                    && matches!(self.context.place, Place::ParserLocals | Place::State)
                {
                    self.report(Diagnostic::error(
                        code::INVALID,
                        name.span,
                        "a parser has no instance of a control",
                    ));
                }
            }
            Type::Package(..) if !top && matches!(self.context.place, Place::ParserLocals | Place::State) => {
                self.report(Diagnostic::error(
                    code::INVALID,
                    it.name.span,
                    "a parser has no instance of a package",
                ));
            }
            _ => {}
        }
    }

    /// The `{ … }` behind an instance: implementations of abstract methods, and instances of their own.
    fn implement(&mut self, it: &'a ast::Instance, (id, args): (ExternId, TypeList), body: &'a [Decl]) {
        let info = &self.out.externs[id.index()];
        let (owner, vars) = (info.name.clone(), info.vars.clone());
        let abstracts: Vec<FnId> = info
            .methods
            .iter()
            .copied()
            .filter(|&method| self.out.functions[method.index()].kind == FnKind::AbstractMethod)
            .collect();
        if abstracts.is_empty()
            && let Some(first) = body.iter().find(|inner| matches!(inner.kind, DeclKind::Function(_)))
        {
            let declared = self.out.externs[id.index()].decl.name().map_or(Span::NONE, |name| name.span);
            let problem = Diagnostic::error(
                code::TYPE,
                it.name.span,
                format!("`{owner}` has no abstract methods to implement"),
            )
            .label(first.span, "implemented here")
            .label(declared, "the extern");
            self.nothing_to_implement(body, problem);
            return;
        }
        let mut done: Vec<FnId> = Vec::new();
        self.push_scope();
        let before = self.this.replace((id, args.clone()));
        for inner in body {
            match &inner.kind {
                DeclKind::Function(function) => {
                    self.check_annotations(&inner.annotations);
                    let head = self.function_head(
                        inner.id,
                        &inner.annotations,
                        &function.proto,
                        FnKind::Function,
                        None,
                        false,
                    );
                    let found = abstracts.iter().copied().find(|&method| {
                        let (theirs, ours) =
                            (&self.out.functions[method.index()], &self.out.functions[head.index()]);
                        // What is optional may be left out.
                        theirs.name == ours.name
                            && theirs.params.len() >= ours.params.len()
                            && theirs.params[ours.params.len()..].iter().all(super::ParamInfo::may_miss)
                    });
                    match found {
                        None => {
                            let name = &function.proto.name;
                            let names: Vec<ast::Name> = abstracts
                                .iter()
                                .map(|method| self.out.functions[method.index()].name.clone())
                                .collect();
                            let mut problem = Diagnostic::error(
                                code::TYPE,
                                name.span,
                                format!("`{owner}` has no abstract method `{name}` with these parameters"),
                            );
                            if let Some(near) = nearest(&name.name, names.iter().map(|name| &**name)) {
                                problem = problem.help(format!("there is an abstract method `{near}`"));
                            }
                            self.report(problem);
                        }
                        Some(method) => done.push(method),
                    }
                    self.function_body(head, &function.proto, &function.body, Place::Method);
                    if let Some(method) = found {
                        self.check_implements(it, method, head, (&vars, &args), function.proto.span);
                    }
                }
                _ => self.declaration(inner),
            }
        }
        self.this = before;
        self.pop_scope();
        for method in abstracts {
            let optional =
                ast::annotation(self.out.functions[method.index()].annotations, "optional").is_some();
            if !done.contains(&method) && !optional {
                let info = &self.out.functions[method.index()];
                let (name, span) = (info.name.clone(), info.span);
                self.report(
                    Diagnostic::error(
                        code::TYPE,
                        it.name.span,
                        format!("`{}` does not implement `{name}`", it.name),
                    )
                    .label(span, "an abstract method"),
                );
            }
        }
    }

    /// Reports `problem`: the functions of `body` implement nothing. What is wrong with their heads is told, too.
    fn nothing_to_implement(&mut self, body: &'a [Decl], problem: Diagnostic) {
        let before = self.problems.len();
        let mut params = Vec::new();
        for inner in body {
            if let DeclKind::Function(it) = &inner.kind {
                let notes = &inner.annotations;
                self.function_head(inner.id, notes, &it.proto, FnKind::Function, None, false);
                params.extend(it.proto.params.iter().map(|param| param.span));
            }
        }
        // A parameter that cannot be comes first, a result that cannot be does not.
        let early = self.problems.get(before).is_some_and(|(_, problem)| {
            let at = problem.span();
            params.iter().any(|param| param.file == at.file && (param.start..=param.end).contains(&at.start))
        });
        let place = if early { self.problems.len() } else { before };
        self.problems.insert(place, (super::Stage::Types, problem));
    }

    fn check_implements(
        &mut self,
        it: &'a ast::Instance,
        method: FnId,
        head: FnId,
        (vars, args): (&[super::ty::TypeVar], &[TypeId]),
        span: Span,
    ) {
        let theirs = self.out.functions[method.index()].clone();
        let ours = self.out.functions[head.index()].clone();
        let result = self.out.types.substitute(theirs.result, vars, args);
        let mut wrong = None;
        if !self.unify(result, ours.result) {
            let (wanted, shown) = (self.show(result), self.show(ours.result));
            wrong = Some(format!("it returns `{wanted}`, here it returns `{shown}`"));
        }
        for (their, our) in theirs.params.iter().zip(&ours.params) {
            let ty = self.out.types.substitute(their.ty, vars, args);
            if their.direction != our.direction {
                wrong = Some(format!("parameter `{}` has another direction", our.name));
            } else if !self.unify(ty, our.ty) {
                let (wanted, shown) = (self.show(ty), self.show(our.ty));
                wrong = Some(format!("parameter `{}` is `{wanted}`, here it is `{shown}`", our.name));
            }
        }
        if let Some(wrong) = wrong {
            self.report(
                Diagnostic::error(
                    code::TYPE,
                    it.name.span,
                    format!("`{}` does not have the type of the abstract method", ours.name),
                )
                .label(span, wrong)
                .label(theirs.span, "the abstract method"),
            );
        }
    }

    pub(super) fn check_main(&mut self) {
        if let Some(other) = self
            .lookup("main", true)
            .iter()
            .copied()
            .find(|&id| !matches!(self.symbol(id).kind, SymbolKind::Instance | SymbolKind::Function(_)))
        {
            let span = self.symbol(other).span;
            self.report_at(
                super::Stage::Flow,
                Diagnostic::error(code::INVALID, span, "`main` is the instance of a package, nothing else")
                    .help("give this another name"),
            );
        }
        let packages = self.out.packages.iter().any(|package| !self.is_builtin(package.decl.span));
        let included = !self.out.packages.is_empty();
        if self.out.main.is_none() && included && !packages {
            let name = self.out.packages.last().map(|package| package.name.to_string()).unwrap_or_default();
            self.problems.push((
                super::Stage::Flow,
                Diagnostic::warning(warn::MISSING, Span::NONE, "the program has no `main`")
                    .help(format!("`{name}(…) main;` makes one")),
            ));
        }
    }
}
