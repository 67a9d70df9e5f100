//! Types as written, and which type may hold which (specification, sections 7.1 and 7.2).

use num_traits::{Signed as _, ToPrimitive as _};

use super::ty::{Aggregate, StructId, Type, TypeId, TypeList};
use super::value::MAX_WIDTH;
use super::{Checker, SymbolKind, code};
use crate::ast::{self, Direction, TypeKind};
use crate::diag::{Diagnostic, Severity};
use crate::source::Span;

/// How many parts a type may have, written out in full.
pub(super) const MAX_TYPE_SIZE: u32 = 4096;
/// How deeply types may nest.
pub(super) const MAX_TYPE_DEPTH: u32 = 128;
/// Elements of a header stack or array.
const MAX_STACK: u32 = 1 << 20;

/// What a type is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Of a variable, field, parameter: all type arguments must be there.
    Value,
    /// In front of `(…)` of a constructor: type arguments may be missing.
    Constructor,
    /// A result: `void` is one.
    Result,
}

impl<'a> Checker<'a> {
    /// The type that a program wrote.
    pub(super) fn type_as(&mut self, ty: &'a ast::Type, what: Use) -> TypeId {
        let id = self.type_kind(ty, what);
        let (size, depth) = self.out.types.size(id);
        let id = if size > MAX_TYPE_SIZE || depth > MAX_TYPE_DEPTH {
            self.report(
                Diagnostic::error(code::OVERLIMIT, ty.span, "this type has too many parts")
                    .note(format!("{MAX_TYPE_SIZE} parts, {MAX_TYPE_DEPTH} deep, are the limit")),
            );
            TypeId::ERROR
        } else {
            id
        };
        if id == TypeId::VOID && what != Use::Result {
            return self.type_error(ty.span, "`void` is only the result of a function or method");
        }
        self.set_type(ty.id, id)
    }

    /// The type of a variable, field or parameter.
    pub(super) fn value_type(&mut self, ty: &'a ast::Type) -> TypeId {
        let of = self.type_as(ty, Use::Value);
        if let Type::Block(id, _) = self.out.types.get(of)
            && self.out.blocks[id.index()].has_body
        {
            let info = &self.out.blocks[id.index()];
            let (kind, name, declared) = (info.kind.word(), info.name.clone(), info.decl.span);
            self.report(
                Diagnostic::error(code::TYPE, ty.span, format!("`{name}` is a {kind}, not the type of one"))
                    .label(declared, "declared here, with a body")
                    .help(format!("declare a type: `{kind} T(…);`")),
            );
            return TypeId::ERROR;
        }
        of
    }

    fn type_kind(&mut self, ty: &'a ast::Type, what: Use) -> TypeId {
        match &ty.kind {
            TypeKind::Bool => TypeId::BOOL,
            TypeKind::String => TypeId::STRING,
            TypeKind::Void => TypeId::VOID,
            TypeKind::Integer => TypeId::INT,
            TypeKind::DontCare => TypeId::DONT_CARE,
            TypeKind::Error => {
                if !self.facts.error_declared {
                    self.report_at(
                        super::Stage::Names,
                        Diagnostic::error(code::NOT_FOUND, ty.span, "`error` is not declared")
                            .help("`#include <core.p4>` declares it"),
                    );
                }
                TypeId::ERROR_CODE
            }
            TypeKind::MatchKind => TypeId::MATCH_KIND,
            TypeKind::Bit(None) => self.out.types.bit(1),
            TypeKind::Bit(Some(width)) => match self.width(width, ty.span, false) {
                Some(width) => self.out.types.bit(width),
                None => TypeId::ERROR,
            },
            TypeKind::Int(width) => match self.width(width, ty.span, true) {
                Some(width) => self.out.types.signed(width),
                None => TypeId::ERROR,
            },
            TypeKind::Varbit(width) => match self.width(width, ty.span, false) {
                Some(width) => self.out.types.intern(Type::Varbit(width)),
                None => TypeId::ERROR,
            },
            TypeKind::Stack(of, size) => {
                let of_id =
                    if what == Use::Constructor { self.type_as(of, what) } else { self.value_type(of) };
                let size = self.stack_size(size);
                let Some(size) = size else { return TypeId::ERROR };
                // `E()[4] x;` makes an array of instances.
                let objects =
                    what == Use::Constructor && matches!(self.out.types.get(of_id), Type::Extern(..));
                if !objects
                    && matches!(
                        self.out.types.get(of_id),
                        Type::Extern(..)
                            | Type::Block(..)
                            | Type::Package(..)
                            | Type::Str
                            | Type::Int
                            | Type::MatchKind
                            | Type::List(_)
                            | Type::DontCare
                    )
                {
                    let shown = self.show(of_id);
                    return self.type_error(of.span, format!("a stack cannot hold `{shown}`"));
                }
                self.out.types.intern(Type::Stack(of_id, size))
            }
            TypeKind::List(of) => {
                let id = self.value_type(of);
                if matches!(self.out.types.get(id), Type::Extern(..) | Type::Block(..) | Type::Package(..)) {
                    let shown = self.show(id);
                    return self.type_error(of.span, format!("a list cannot hold `{shown}`"));
                }
                self.out.types.intern(Type::List(id))
            }
            TypeKind::Tuple(parts) => {
                let mut list = Vec::with_capacity(parts.len());
                for part in parts {
                    let id = self.value_type(part);
                    if self.tuple_element(id) {
                        list.push(id);
                    } else {
                        let shown = self.show(id);
                        list.push(self.type_error(part.span, format!("a tuple cannot hold `{shown}`")));
                    }
                }
                self.out.types.intern(Type::Tuple(list.into()))
            }
            TypeKind::Name(name) => self.named_type(ty, name, None, what),
            TypeKind::Specialized(name, args) => self.named_type(ty, name, Some(args), what),
        }
    }

    fn named_type(
        &mut self,
        ty: &'a ast::Type,
        name: &'a ast::TypeName,
        args: Option<&'a [ast::Type]>,
        what: Use,
    ) -> TypeId {
        let found = self.lookup(&name.name.name, name.absolute);
        let Some(&id) = found.first() else {
            for arg in args.unwrap_or_default() {
                self.value_type(arg);
            }
            return self.not_found(&name.name);
        };
        self.refer(ty.id, id, name.name.span);
        if self.open.contains(&id) {
            return TypeId::ERROR;
        }
        let symbol = self.symbol(id);
        let (kind, of, span) = (symbol.kind, symbol.ty, symbol.span);
        let vars = match kind {
            SymbolKind::Struct(id) => self.out.structs[id.index()].vars.clone(),
            SymbolKind::Extern(id) => self.out.externs[id.index()].vars.clone(),
            SymbolKind::Block(id) => self.out.blocks[id.index()].vars.clone(),
            SymbolKind::Package(id) => self.out.packages[id.index()].vars.clone(),
            SymbolKind::Typedef | SymbolKind::Newtype(_) | SymbolKind::Enum(_) | SymbolKind::TypeParam(_) => {
                Vec::new()
            }
            _ => {
                for arg in args.unwrap_or_default() {
                    self.value_type(arg);
                }
                self.report(
                    Diagnostic::error(code::TYPE, name.name.span, format!("`{}` is not a type", name.name))
                        .label(span, "declared here"),
                );
                return TypeId::ERROR;
            }
        };
        let given: Option<Vec<TypeId>> =
            args.map(|args| args.iter().map(|arg| self.type_argument(arg)).collect());
        let list: TypeList = match given {
            None if vars.is_empty() => return of,
            None if what == Use::Constructor => self.fresh_list(&vars).into(),
            None => {
                self.report(
                    Diagnostic::error(
                        code::TYPE,
                        ty.span,
                        format!("`{}` needs {} type argument{}", name.name, vars.len(), plural(vars.len())),
                    )
                    .label(span, "declared here")
                    .help(format!("write `{}<…>`", name.name)),
                );
                return TypeId::ERROR;
            }
            Some(given) if given.len() != vars.len() => {
                self.report(
                    Diagnostic::error(
                        code::TYPE,
                        ty.span,
                        format!(
                            "`{}` has {} type parameter{}, here are {} argument{}",
                            name.name,
                            vars.len(),
                            plural(vars.len()),
                            given.len(),
                            plural(given.len())
                        ),
                    )
                    .label(span, "declared here"),
                );
                return TypeId::ERROR;
            }
            Some(given) => given.into(),
        };
        if list.iter().any(|&arg| self.out.types.has_error(arg)) {
            return TypeId::ERROR;
        }
        let specialized = match kind {
            SymbolKind::Struct(id) => {
                if !self.fields_fit(id, &list, ty.span) {
                    return TypeId::ERROR;
                }
                let made = self.out.types.intern(Type::Struct(id, list));
                if self.too_many_fields(made) {
                    let text = format!("`{}` has too many fields with these arguments", name.name);
                    self.report(Diagnostic::error(code::OVERLIMIT, ty.span, text));
                    return TypeId::ERROR;
                }
                return made;
            }
            SymbolKind::Extern(id) => {
                if !self.methods_fit(id, &list, ty.span) {
                    return TypeId::ERROR;
                }
                Type::Extern(id, list)
            }
            SymbolKind::Block(id) => Type::Block(id, list),
            SymbolKind::Package(id) => Type::Package(id, list),
            _ => return of,
        };
        self.out.types.intern(specialized)
    }

    /// A type argument: no parser, control or package can be one.
    pub(super) fn type_argument(&mut self, arg: &'a ast::Type) -> TypeId {
        let id = self.type_as(arg, Use::Result);
        if matches!(self.out.types.get(id), Type::Block(..) | Type::Package(..) | Type::Extern(..)) {
            let shown = self.show(id);
            return self.type_error(arg.span, format!("`{shown}` cannot be a type argument"));
        }
        id
    }

    /// The fields of a struct with type arguments: each must be something the struct may hold.
    fn fields_fit(&mut self, id: StructId, args: &[TypeId], span: Span) -> bool {
        let info = &self.out.structs[id.index()];
        let (kind, name, vars) = (info.kind, info.name.clone(), info.vars.clone());
        let fields: Vec<(ast::Name, TypeId, Span)> =
            info.fields.iter().map(|field| (field.name.clone(), field.ty, field.decl.span)).collect();
        for (field, ty, at) in fields {
            let ty = self.out.types.substitute(ty, &vars, args);
            if !self.field_ok(kind, ty) {
                let shown = self.show(ty);
                let text =
                    format!("field `{field}` of {} `{name}` cannot have the type `{shown}`", kind.word());
                self.report(Diagnostic::error(code::TYPE, at, text).label(span, "made so here"));
                return false;
            }
        }
        true
    }

    /// The methods of an extern with type arguments: each parameter must be something a parameter may be.
    fn methods_fit(&mut self, id: super::ExternId, args: &[TypeId], span: Span) -> bool {
        let info = &self.out.externs[id.index()];
        let vars = info.vars.clone();
        let mut all = Vec::new();
        for &method in &info.methods {
            for param in &self.out.functions[method.index()].params {
                all.push((param.direction, param.ty, param.decl.span));
            }
        }
        for (direction, ty, at) in all {
            let ty = self.out.types.substitute(ty, &vars, args);
            if let Some(why) = self.direction_problem(direction, ty) {
                self.report(Diagnostic::error(code::TYPE, span, why).label(at, "the parameter"));
                return false;
            }
            if !self.well_formed(ty) {
                let shown = self.show(ty);
                self.report(
                    Diagnostic::error(code::TYPE, span, format!("`{shown}` is not a type that can be"))
                        .label(at, "the parameter"),
                );
                return false;
            }
        }
        true
    }

    /// Do tuples in it hold what they may hold? Asked of types that came out of type arguments.
    pub(super) fn well_formed(&self, ty: TypeId) -> bool {
        let ty = self.resolve(ty);
        match self.out.types.get(ty) {
            Type::Tuple(parts) => {
                parts.iter().all(|&part| self.tuple_element(part) && self.well_formed(part))
            }
            Type::Struct(id, args) => {
                let info = &self.out.structs[id.index()];
                args.iter().all(|&arg| self.well_formed(arg))
                    && (args.is_empty()
                        || info.fields.iter().all(|field| match self.out.types.get(field.ty) {
                            Type::Var(var) => info
                                .vars
                                .iter()
                                .position(|other| other == var)
                                .and_then(|at| args.get(at))
                                .is_none_or(|&arg| self.field_ok(info.kind, arg)),
                            _ => true,
                        }))
            }
            _ => self.out.types.parts(ty).into_iter().all(|part| self.well_formed(part)),
        }
    }

    fn tuple_element(&self, ty: TypeId) -> bool {
        !matches!(
            self.kind(ty),
            Type::Void
                | Type::Extern(..)
                | Type::Block(..)
                | Type::Package(..)
                | Type::List(_)
                | Type::Table(_)
                | Type::Set(_)
        )
    }

    /// May a struct, header or union have a field of this type?
    pub(super) fn field_ok(&self, kind: Aggregate, ty: TypeId) -> bool {
        let plain = self.plain(ty);
        let shape = self.kind(plain);
        if matches!(shape, Type::Error | Type::Var(_) | Type::Infer(_)) {
            return true;
        }
        match kind {
            Aggregate::Struct => !matches!(
                shape,
                Type::Void
                    | Type::Str
                    | Type::Int
                    | Type::MatchKind
                    | Type::Extern(..)
                    | Type::Block(..)
                    | Type::Package(..)
                    | Type::List(_)
                    | Type::DontCare
                    | Type::Table(_)
                    | Type::Set(_)
            ),
            Aggregate::Header => match shape {
                Type::Bit(_) | Type::Signed(_) | Type::Varbit(_) | Type::Bool => true,
                Type::Enum(id) => self.out.enums[id.index()].repr.is_some(),
                Type::Struct(id, args) => {
                    let info = &self.out.structs[id.index()];
                    let vars = &info.vars;
                    info.kind == Aggregate::Struct
                        && info.fields.iter().all(|field| match self.out.types.get(field.ty) {
                            Type::Var(var) => vars
                                .iter()
                                .position(|other| other == var)
                                .and_then(|at| args.get(at))
                                .is_none_or(|&arg| self.field_ok(Aggregate::Header, arg)),
                            _ => self.field_ok(Aggregate::Header, field.ty),
                        })
                }
                Type::Stack(of, _) => !self.is_header(*of) && self.field_ok(Aggregate::Header, *of),
                _ => false,
            },
            Aggregate::Union => self.is_header(plain),
        }
    }

    /// A newtype down to what it is made of.
    pub(super) fn plain(&self, ty: TypeId) -> TypeId {
        let mut ty = self.resolve(ty);
        while let Type::Newtype(id) = self.out.types.get(ty) {
            ty = self.resolve(self.out.newtypes[id.index()].of);
        }
        ty
    }

    /// A header?
    pub(super) fn is_header(&self, ty: TypeId) -> bool {
        matches!(self.kind(ty), Type::Struct(id, _) if self.out.structs[id.index()].kind == Aggregate::Header)
    }

    /// A header union?
    pub(super) fn is_union(&self, ty: TypeId) -> bool {
        matches!(self.kind(ty), Type::Struct(id, _) if self.out.structs[id.index()].kind == Aggregate::Union)
    }

    /// Why a parameter of this type cannot have this direction.
    pub(super) fn direction_problem(&mut self, direction: Direction, ty: TypeId) -> Option<String> {
        if direction == Direction::None {
            return None;
        }
        let what = match self.kind(ty) {
            Type::Str => "a string",
            Type::Int => "an `int` of any size",
            Type::Extern(..) => "an extern object",
            Type::Package(..) => "a package",
            Type::Void => "`void`",
            _ => return None,
        };
        let shown = self.show(ty);
        Some(format!(
            "a parameter of the type `{shown}` has no direction: {what} is known when the program is compiled"
        ))
    }

    /// The fields of a struct, header or union, type arguments put in.
    pub(super) fn fields_of(&mut self, id: StructId, args: &[TypeId]) -> Vec<(ast::Name, TypeId)> {
        let info = &self.out.structs[id.index()];
        let vars = info.vars.clone();
        let fields: Vec<(ast::Name, TypeId)> =
            info.fields.iter().map(|field| (field.name.clone(), field.ty)).collect();
        if vars.is_empty() {
            return fields;
        }
        fields.into_iter().map(|(name, ty)| (name, self.out.types.substitute(ty, &vars, args))).collect()
    }

    /// The width in `bit<W>`.
    fn width(&mut self, expr: &'a ast::Expr, whole: Span, signed: bool) -> Option<u32> {
        let none = (super::Stage::Names, code::EXPECTED);
        let before = self.problems.len();
        let value = self.constant_int_or(expr, "the width of a type", none);
        if value.is_none()
            && let Some(first) =
                self.problems[before..].iter_mut().find(|(_, problem)| problem.severity == Severity::Error)
            && first.0 == super::Stage::Types
        {
            // A width has to be a number before anything has a type: what is no number, for whatever reason, is no width.
            (first.0, first.1.code) = none;
        }
        let value = value?;
        if value.is_negative() {
            self.report_at(
                super::Stage::Shape,
                Diagnostic::error(code::INVALID, whole, format!("a type cannot be {value} bits wide")),
            );
            return None;
        }
        if signed && value.bits() == 0 {
            self.report_at(
                super::Stage::Shape,
                Diagnostic::error(code::INVALID, whole, "a signed type is at least one bit wide"),
            );
            return None;
        }
        match value.to_u32().filter(|&width| width <= MAX_WIDTH) {
            Some(width) => Some(width),
            None => {
                // More than a number of the compiler, or more than it computes with.
                let kind = if value.to_i32().is_none() { code::OVERLIMIT } else { code::UNSUPPORTED };
                self.report(
                    Diagnostic::error(kind, whole, format!("a type of {value} bits is too wide"))
                        .note(format!("{MAX_WIDTH} bits are the limit")),
                );
                None
            }
        }
    }

    fn stack_size(&mut self, expr: &'a ast::Expr) -> Option<u32> {
        let value = self.constant_int(expr, "the size of a stack")?;
        let size = value.to_u32().filter(|&size| size <= MAX_STACK);
        if size.is_none() {
            self.type_error(expr.span, format!("a stack cannot have {value} elements"));
        }
        size
    }

    /// Can a variable have this type?
    pub(super) fn variable_ok(&self, ty: TypeId) -> bool {
        !matches!(
            self.kind(ty),
            Type::Extern(..)
                | Type::Block(..)
                | Type::Package(..)
                | Type::Void
                | Type::Int
                | Type::Str
                | Type::Table(_)
                | Type::Set(_)
                | Type::DontCare
        )
    }
}

/// "s", unless there is one.
pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
