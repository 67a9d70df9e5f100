//! Arguments: which goes to which parameter, and what each must be (specification, section 6.8).

use super::call::{Formal, Kind};
use super::resolve::plural;
use super::ty::{FnId, Type, TypeId};
use super::{ArgSource, Checker, Stage, code};
use crate::ast::{Arg, Direction, Expr, ExprKind};
use crate::diag::Diagnostic;
use crate::source::Span;
use barewire_text::nearest;

impl<'a> Checker<'a> {
    /// The parameters of a function as a call sees them.
    pub(super) fn formals(&self, id: FnId) -> Vec<Formal> {
        Self::formals_of(&self.out.functions[id.index()].params)
    }

    pub(super) fn formals_of(params: &[super::ParamInfo<'_>]) -> Vec<Formal> {
        params
            .iter()
            .map(|param| Formal {
                name: param.name.clone(),
                direction: param.direction,
                ty: param.ty,
                may_miss: param.may_miss(),
                has_default: param.decl.default.is_some(),
                span: param.decl.span,
            })
            .collect()
    }

    /// Puts each argument to its parameter. `missing` says what becomes of a parameter without one.
    pub(super) fn assign_args(
        &mut self,
        what: &str,
        whole: Span,
        formals: &[Formal],
        args: &'a [Arg],
        kind: Kind,
    ) -> Option<Vec<ArgSource>> {
        let mut sources: Vec<Option<ArgSource>> = vec![None; formals.len()];
        let named = args.iter().filter(|arg| arg.name.is_some()).count();
        if named != 0 && named != args.len() {
            self.report_at(
                Stage::Names,
                Diagnostic::error(code::INVALID, whole, "either all arguments have names or none")
                    .note("then an argument goes to the parameter of its name"),
            );
            return None;
        }
        for (at, arg) in args.iter().enumerate() {
            let number = u32::try_from(at).unwrap_or(u32::MAX);
            let place = match &arg.name {
                None => at,
                Some(name) => match formals.iter().position(|formal| formal.name == name.name) {
                    Some(place) => place,
                    None => {
                        let near = nearest(&name.name, formals.iter().map(|formal| &*formal.name));
                        let mut problem = Diagnostic::error(
                            code::TYPE,
                            name.span,
                            format!("{what} has no parameter `{name}`"),
                        );
                        if let Some(near) = near {
                            problem = problem.help(format!("there is a `{near}`"));
                        }
                        self.report(problem);
                        return None;
                    }
                },
            };
            let Some(slot) = sources.get_mut(place) else {
                self.report(Diagnostic::error(
                    code::TYPE,
                    arg.span,
                    format!(
                        "{what} has {} parameter{}, here are {} arguments",
                        formals.len(),
                        plural(formals.len()),
                        args.len()
                    ),
                ));
                return None;
            };
            if slot.is_some() {
                self.report(Diagnostic::error(
                    code::DUPLICATE,
                    arg.span,
                    format!("parameter `{}` has two arguments", formals[place].name),
                ));
                return None;
            }
            *slot = Some(ArgSource::Arg(number));
        }
        let mut list = Vec::with_capacity(sources.len());
        for (formal, source) in formals.iter().zip(sources) {
            list.push(match source {
                Some(source) => source,
                None if formal.has_default => ArgSource::Default,
                None if formal.may_miss => ArgSource::Missing,
                None => {
                    let code = if kind == Kind::Action && formal.direction == Direction::None {
                        code::UNINITIALIZED
                    } else {
                        code::TYPE
                    };
                    let stage = if code == code::UNINITIALIZED { Stage::Flow } else { Stage::Types };
                    self.report_at(
                        stage,
                        Diagnostic::error(
                            code,
                            whole,
                            format!("{what} lacks an argument for `{}`", formal.name),
                        )
                        .label(formal.span, "the parameter"),
                    );
                    return None;
                }
            });
        }
        Some(list)
    }

    /// Looks at the arguments with the types of their parameters, which may hold what is to be inferred.
    pub(super) fn check_args(
        &mut self,
        what: &str,
        formals: &[Formal],
        args: &'a [Arg],
        sources: &[ArgSource],
        kind: Kind,
    ) -> bool {
        let mut good = true;
        // Numbers without a width go last: the others say which width they get.
        for numbers in [false, true] {
            for (formal, source) in formals.iter().zip(sources) {
                let ArgSource::Arg(at) = *source else { continue };
                let Some(arg) = args.get(at as usize) else { continue };
                if numbers == self.is_plain_number(&arg.value, formal) {
                    good &= self.check_arg(what, formal, arg, kind);
                }
            }
        }
        good
    }

    pub(super) fn is_plain_number(&mut self, value: &'a Expr, formal: &Formal) -> bool {
        let open = matches!(self.kind(formal.ty), Type::Infer(_));
        let literal = matches!(
            value.kind,
            ExprKind::DontCare
                | ExprKind::List { .. }
                | ExprKind::Struct { .. }
                | ExprKind::Invalid
                | ExprKind::Default
        );
        if !open || literal {
            return open && literal;
        }
        let ty = self.expr(value);
        self.resolve(ty) == TypeId::INT
    }

    pub(super) fn check_arg(&mut self, what: &str, formal: &Formal, arg: &'a Arg, kind: Kind) -> bool {
        let value = &arg.value;
        if matches!(value.kind, ExprKind::DontCare) {
            if formal.direction == Direction::Out {
                return true;
            }
            self.report(
                Diagnostic::error(code::TYPE, arg.span, format!("`_` is no argument for `{}`", formal.name))
                    .label(formal.span, "only an `out` parameter can be ignored"),
            );
            return false;
        }
        if self.out.types.has_dont_care(formal.ty) {
            self.expr(value);
            self.report(
                Diagnostic::error(
                    code::TYPE,
                    arg.span,
                    format!("the type of parameter `{}` is not known", formal.name),
                )
                .label(formal.span, "the parameter")
                .help("write the type argument instead of `_`"),
            );
            return false;
        }
        match formal.direction {
            Direction::Out | Direction::InOut => {
                let ty = self.expr(value);
                let ty = self.resolve(ty);
                if ty == TypeId::ERROR {
                    return true;
                }
                let word = if formal.direction == Direction::Out { "out" } else { "inout" };
                if let Err(problem) = self.lvalue(value) {
                    self.misfit(
                        problem.label(formal.span, format!("parameter `{}` is `{word}`", formal.name)),
                    );
                    return false;
                }
                if self.unify(ty, formal.ty) {
                    return true;
                }
                let (shown, wanted) = (self.show(ty), self.show(formal.ty));
                self.misfit(
                    Diagnostic::error(
                        code::TYPE,
                        value.span,
                        format!("the `{word}` parameter `{}` is `{wanted}`, here is `{shown}`", formal.name),
                    )
                    .label(formal.span, "the parameter"),
                );
                false
            }
            Direction::In | Direction::None => {
                let name = formal.name.clone();
                let before = self.problems.len();
                let open = matches!(self.kind(formal.ty), Type::Infer(_));
                let mut good = self.expect_as(value, formal.ty, &|shown, wanted| {
                    format!("parameter `{name}` is `{wanted}`, here is `{shown}`")
                });
                if let Some((_, problem)) = self.problems.get_mut(before)
                    && !good
                {
                    let labelled = problem.clone().label(formal.span, "the parameter");
                    *problem = labelled;
                }
                if good && open {
                    good = self.inferred_fits(formal, value, kind);
                }
                if good && kind == Kind::Constructor && !self.is_known(value) && !self.is_pure_call(value) {
                    let ty = self.out.ty(value.id).unwrap_or(TypeId::ERROR);
                    if !self.out.types.has_error(ty) {
                        let reason = if kind == Kind::Constructor { "a constructor" } else { what };
                        self.report(
                            Diagnostic::error(
                                code::TYPE,
                                value.span,
                                format!(
                                    "`{}` of {reason} must be known when the program is compiled",
                                    formal.name
                                ),
                            )
                            .here("no constant")
                            .label(formal.span, "a parameter without direction"),
                        );
                        good = false;
                    }
                }
                good
            }
        }
    }

    /// What a type parameter became must be something that there can be a value of.
    pub(super) fn inferred_fits(&mut self, formal: &Formal, value: &'a Expr, kind: Kind) -> bool {
        let ty = self.deep(formal.ty);
        let span = value.span;
        if self.out.types.has_shape(ty) {
            let text = match self.out.types.get(ty) {
                Type::Invalid => "`{#}` has no type here",
                Type::Default => "`...` has no type here",
                _ => "this has no type here",
            };
            self.report(Diagnostic::error(code::TYPE, span, text).help("cast it: `(H) { … }`"));
            return false;
        }
        if ty == TypeId::INT && formal.direction != Direction::None {
            self.report(
                Diagnostic::error(code::TYPE, span, "this number needs a width")
                    .help("write it, such as `8w5`"),
            );
            return false;
        }
        if let Some(why) = self.direction_problem(formal.direction, ty) {
            let problem = if self.is_builtin(formal.span) {
                Diagnostic::error(code::TYPE, span, why).label(formal.span, "the parameter")
            } else {
                Diagnostic::error(code::TYPE, formal.span, why).label(span, "the argument that makes it so")
            };
            self.report(problem);
            return false;
        }
        // An extern can be passed where there is no direction, a parser or control cannot (appendix F).
        let passed = formal.direction == Direction::None && matches!(self.kind(ty), Type::Extern(..));
        if kind == Kind::Function && self.is_object(ty) && !passed {
            let shown = self.show(ty);
            self.type_error(span, format!("`{shown}` cannot be a type argument"));
            return false;
        }
        if matches!(
            self.kind(ty),
            Type::Table(_) | Type::TableResult(_) | Type::ActionRun(_) | Type::Callable | Type::Set(_)
        ) || ty == TypeId::VOID
        {
            let shown = self.show(ty);
            self.type_error(span, format!("`{shown}` cannot be an argument"));
            return false;
        }
        true
    }
}
