//! What the core library's functions ask of their arguments beyond their prototypes (specification, chapters 13 and 15).

use super::call::Formal;
use super::ty::{FnId, Type, TypeId};
use super::{ArgSource, Checker, Place, code};
use crate::ast::{Call, Expr, ExprKind};
use crate::diag::Diagnostic;

impl<'a> Checker<'a> {
    /// Rules of the core library that its prototypes do not say.
    pub(super) fn check_core_method(
        &mut self,
        expr: &'a Expr,
        id: FnId,
        formals: &[Formal],
        call: &'a Call,
        sources: &[ArgSource],
    ) {
        let info = &self.out.functions[id.index()];
        let name = info.name.clone();
        let owner = info.owner.map(|owner| self.out.externs[owner.index()].name.clone());
        match (owner.as_deref(), &*name) {
            (Some("packet_in"), "extract") => {
                let Some(formal) = formals.first() else { return };
                let ty = self.deep(formal.ty);
                let Some(ArgSource::Arg(at)) = sources.first() else { return };
                let Some(arg) = call.args.get(*at as usize) else { return };
                if !self.is_header(ty)
                    && !self.out.types.has_error(ty)
                    && !matches!(self.kind(ty), Type::Var(_))
                {
                    let shown = self.show(ty);
                    self.type_error(arg.span, format!("`extract` takes a header, not `{shown}`"));
                    return;
                }
                let varbits = self.varbits(ty);
                if formals.len() == 1 {
                    if varbits > 0 {
                        self.report(
                            Diagnostic::error(code::TYPE, arg.span, "this header has a varbit field")
                                .help("the second argument of `extract` is its width in bits"),
                        );
                    }
                } else if varbits != 1 && self.is_header(ty) {
                    let text = if varbits == 0 {
                        "this header has no varbit field"
                    } else {
                        "this header has more than one varbit field"
                    };
                    self.report(Diagnostic::error(code::TYPE, arg.span, text));
                }
            }
            (Some("packet_in"), "lookahead") => {
                let Some(arg) = call.type_args.first() else { return };
                let ty = self.out.ty(arg.id).unwrap_or(TypeId::ERROR);
                if ty == TypeId::VOID {
                    self.type_error(arg.span, "`lookahead` reads something, not `void`");
                } else if self.has_varbit(ty) {
                    let shown = self.show(ty);
                    self.type_error(
                        expr.span,
                        format!("`lookahead` cannot read `{shown}`: how long a varbit is, is not known"),
                    );
                }
            }
            (Some("packet_out"), "emit") => {
                let Some(formal) = formals.first() else { return };
                let ty = self.deep(formal.ty);
                if !self.emittable(ty) {
                    let shown = self.show(ty);
                    self.type_error(
                        expr.span,
                        format!("`emit` takes headers, stacks, unions and structs of them, not `{shown}`"),
                    );
                }
            }
            (None, "static_assert") => {
                let Some(ArgSource::Arg(at)) = sources.first() else { return };
                let Some(arg) = call.args.get(*at as usize) else { return };
                match self.fold(&arg.value).as_ref().and_then(super::value::Value::as_bool) {
                    Some(true) => {}
                    Some(false) => {
                        let text = call.args.get(1).and_then(|arg| match &arg.value.kind {
                            ExprKind::String(text) => Some(text.to_string()),
                            _ => None,
                        });
                        let mut problem =
                            Diagnostic::error(code::EXPECTED, expr.span, "static_assert failed");
                        if let Some(text) = text {
                            problem = problem.note(text);
                        }
                        self.report(problem);
                    }
                    None => {
                        if !self.is_known(&arg.value) {
                            self.report(Diagnostic::error(
                                code::UNSUPPORTED,
                                arg.span,
                                "`static_assert` needs a constant",
                            ));
                        }
                    }
                }
            }
            (None, "verify") if !matches!(self.context.place, Place::State) && self.is_core(id) => {
                self.type_error(expr.span, "`verify` is for the states of parsers");
            }
            _ => {}
        }
    }

    pub(super) fn is_core(&self, id: FnId) -> bool {
        let span = self.out.functions[id.index()].span;
        self.is_builtin(span)
    }

    /// How many varbit fields.
    pub(super) fn varbits(&mut self, ty: TypeId) -> usize {
        let Type::Struct(id, args) = self.kind(ty).clone() else { return 0 };
        let fields = self.fields_of(id, &args);
        fields
            .into_iter()
            .filter(|&(_, ty)| {
                let plain = self.plain(ty);
                matches!(self.kind(plain), Type::Varbit(_))
            })
            .count()
    }

    pub(super) fn has_varbit(&mut self, ty: TypeId) -> bool {
        match self.kind(ty).clone() {
            Type::Varbit(_) => true,
            Type::Struct(id, args) => {
                self.fields_of(id, &args).into_iter().any(|(_, ty)| self.has_varbit(ty))
            }
            Type::Tuple(parts) => parts.iter().any(|&part| self.has_varbit(part)),
            Type::Stack(of, _) => self.has_varbit(of),
            _ => false,
        }
    }

    /// Headers, and what is made of headers only.
    pub(super) fn emittable(&mut self, ty: TypeId) -> bool {
        match self.kind(ty).clone() {
            Type::Error | Type::Var(_) => true,
            Type::Struct(id, args) => {
                self.is_header(ty)
                    || self.is_union(ty)
                    || self.fields_of(id, &args).into_iter().all(|(_, ty)| self.emittable(ty))
            }
            Type::Stack(of, _) => self.emittable(of),
            Type::Tuple(parts) => parts.iter().all(|&part| self.emittable(part)),
            _ => false,
        }
    }
}
