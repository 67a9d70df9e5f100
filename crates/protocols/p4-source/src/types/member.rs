//! What stands after a dot: fields, members of enumerations and of `error`, parts of stacks, results of tables.

use super::ty::{Type, TypeId};
use super::{Checker, MemberRef, Place, SymbolKind, code};
use crate::ast::{Expr, ExprKind, Ident, TypeKind};
use crate::diag::Diagnostic;
use crate::source::Span;
use barewire_text::nearest;

impl<'a> Checker<'a> {
    pub(super) fn member(&mut self, expr: &'a Expr, base: &'a Expr, name: &'a Ident) -> TypeId {
        if let ExprKind::Type(ty) = &base.kind
            && self.value_behind(ty).is_none()
        {
            return self.type_member(expr, base, ty, name);
        }
        if let ExprKind::Path { absolute, name: path } = &base.kind
            && let Some(&id) = self.lookup(&path.name, *absolute).first()
            && self.is_type(id)
        {
            self.refer(base.id, id, base.span);
            let ty = self.symbol(id).ty;
            self.set_type(base.id, ty);
            return self.member_of_type(expr, ty, name, base);
        }
        let of = self.expr(base);
        self.value_member(expr, base, of, name)
    }

    fn type_member(
        &mut self,
        expr: &'a Expr,
        base: &'a Expr,
        ty: &'a crate::ast::Type,
        name: &'a Ident,
    ) -> TypeId {
        if matches!(ty.kind, TypeKind::Error) {
            let of = self.value_type(ty);
            self.set_type(base.id, of);
            let found = self.out.errors.iter().position(|other| *other == name.name);
            let Some(at) = found else {
                let near = nearest(&name.name, self.out.errors.iter().map(|name| &**name));
                let mut problem =
                    Diagnostic::error(code::TYPE, name.span, format!("`error` has no member `{name}`"));
                if let Some(near) = near {
                    problem = problem.help(format!("there is an `error.{near}`"));
                } else if !self.facts.error_declared {
                    problem = problem.help("`#include <core.p4>` declares some");
                }
                self.report(problem);
                return TypeId::ERROR;
            };
            self.out.members.insert(expr.id, MemberRef::ErrorCode(u32::try_from(at).unwrap_or(u32::MAX)));
            return TypeId::ERROR_CODE;
        }
        let of = self.type_as(ty, super::resolve::Use::Constructor);
        self.set_type(base.id, of);
        self.member_of_type(expr, of, name, base)
    }

    fn member_of_type(&mut self, expr: &'a Expr, of: TypeId, name: &'a Ident, base: &'a Expr) -> TypeId {
        match self.kind(of).clone() {
            Type::Error => TypeId::ERROR,
            Type::Enum(id) => {
                let info = &self.out.enums[id.index()];
                let Some(at) = info.members.iter().position(|(other, _)| *other == name.name) else {
                    let near = nearest(&name.name, info.members.iter().map(|(name, _)| &**name));
                    let mut problem = Diagnostic::error(
                        code::TYPE,
                        name.span,
                        format!("enumeration `{}` has no member `{name}`", info.name),
                    )
                    .label(info.decl.span, "declared here");
                    if let Some(near) = near {
                        problem = problem.help(format!("there is a `{near}`"));
                    }
                    self.report(problem);
                    return TypeId::ERROR;
                };
                self.out
                    .members
                    .insert(expr.id, MemberRef::EnumMember(id, u32::try_from(at).unwrap_or(u32::MAX)));
                of
            }
            _ => {
                let shown = self.show(of);
                self.report(
                    Diagnostic::error(
                        code::TYPE,
                        expr.span,
                        format!("`{shown}` is a type: it has no member `{name}`"),
                    )
                    .label(base.span, "a type, no value"),
                );
                TypeId::ERROR
            }
        }
    }

    fn value_member(&mut self, expr: &'a Expr, base: &'a Expr, of: TypeId, name: &'a Ident) -> TypeId {
        match self.kind(of).clone() {
            Type::Error => return TypeId::ERROR,
            Type::Struct(id, args) => {
                let fields = self.fields_of(id, &args);
                if let Some(at) = fields.iter().position(|(other, _)| *other == name.name) {
                    self.out.members.insert(expr.id, MemberRef::Field(u32::try_from(at).unwrap_or(u32::MAX)));
                    return fields[at].1;
                }
                let near = nearest(&name.name, fields.iter().map(|(name, _)| &**name));
                let declared = self.out.structs[id.index()].decl.name().map(|name| name.span);
                return self.no_such_field(of, name, near, declared);
            }
            Type::Stack(element, _) => {
                let bits = self.out.types.bit(32);
                let header = self.is_header(element) || self.is_union(element);
                let found = match &*name.name {
                    "next" => Some((MemberRef::Next, element)),
                    "last" => Some((MemberRef::Last, element)),
                    "lastIndex" => Some((MemberRef::LastIndex, bits)),
                    "size" => Some((MemberRef::Size, bits)),
                    _ => None,
                };
                if let Some((member, ty)) = found {
                    if !header && member != MemberRef::Size {
                        let shown = self.show(of);
                        return self.type_error(
                            name.span,
                            format!("`{shown}` is no header stack: it has no `{name}`"),
                        );
                    }
                    let in_parser = matches!(self.context.place, Place::State | Place::ParserLocals);
                    if member != MemberRef::Size && !in_parser {
                        self.report(
                            Diagnostic::error(
                                code::TYPE,
                                name.span,
                                format!("`{name}` of a stack is for parsers"),
                            )
                            .label(base.span, "a header stack")
                            .help("an index such as `[0]` takes an element"),
                        );
                        return TypeId::ERROR;
                    }
                    self.out.members.insert(expr.id, member);
                    return ty;
                }
            }
            Type::TableResult(table) => {
                let found = match &*name.name {
                    "hit" => Some((MemberRef::Hit, TypeId::BOOL)),
                    "miss" => Some((MemberRef::Miss, TypeId::BOOL)),
                    "action_run" => {
                        let ty = self.out.types.intern(Type::ActionRun(table));
                        Some((MemberRef::ActionRun, ty))
                    }
                    _ => None,
                };
                if let Some((member, ty)) = found {
                    if member == MemberRef::ActionRun && self.switch_subject != Some(expr.id) {
                        self.report(
                            Diagnostic::error(
                                code::TYPE,
                                expr.span,
                                "`action_run` stands only in `switch (…)`",
                            )
                            .help("`apply().hit` says whether an entry matched"),
                        );
                        return TypeId::ERROR;
                    }
                    self.out.members.insert(expr.id, member);
                    return ty;
                }
            }
            _ => {}
        }
        let shown = self.show(of);
        let mut problem =
            Diagnostic::error(code::TYPE, expr.span, format!("`{shown}` has no member `{name}`"))
                .label(base.span, format!("this is `{shown}`"));
        if let Some(symbol) = self.out.refers_to(base.id)
            && let SymbolKind::Instance = symbol.kind
        {
            problem = problem.note("what an instance declares is its own");
        }
        self.report(problem);
        TypeId::ERROR
    }

    /// Reports a field that a struct or header has not. `near`: one with such a name; `declared`: the struct.
    fn no_such_field(
        &mut self,
        of: TypeId,
        name: &'a Ident,
        near: Option<&str>,
        declared: Option<Span>,
    ) -> TypeId {
        let shown = self.show(of);
        let mut problem =
            Diagnostic::error(code::TYPE, name.span, format!("`{shown}` has no field `{name}`"));
        if let Some(near) = near {
            problem = problem.help(format!("there is a field `{near}`"));
        } else if self.is_header(of)
            && let Some(method) = nearest_method(&name.name)
        {
            problem = problem.help(format!("headers have a method `{method}()`"));
        }
        if let Some(declared) = declared {
            problem = problem.label(declared, "declared here");
        }
        self.report(problem);
        TypeId::ERROR
    }
}

fn nearest_method(name: &str) -> Option<&'static str> {
    if name.eq_ignore_ascii_case("valid") {
        return Some("isValid");
    }
    nearest(name, ["isValid", "setValid", "setInvalid"])
}
