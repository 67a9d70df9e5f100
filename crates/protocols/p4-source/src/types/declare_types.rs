//! Declarations of types (specification, chapter 7): externs, structs, headers, unions, enumerations, `error`, `match_kind`,
//! `typedef`, `type`.

use super::declare::index;
use super::ty::{Aggregate, EnumId, ExternId, NewtypeId, StructId, Type, TypeId, TypeList};
use super::value::Value;
use super::{
    Checker, EnumInfo, ExternInfo, FieldInfo, FnKind, NewtypeInfo, Stage, StructInfo, SymbolKind, code,
};
use crate::ast::{self, Decl, DeclKind, StructKind, TypedefOf};
use crate::diag::Diagnostic;

/// Fields of a struct, those of structs in it one by one: walks through them take no longer.
const MAX_FIELDS: u64 = 1 << 14;

impl<'a> Checker<'a> {
    /// An upper bound of the fields in a type.
    fn weight(&self, ty: TypeId) -> u64 {
        let parts = self
            .out
            .types
            .parts(ty)
            .into_iter()
            .fold(0u64, |sum, part| sum.saturating_add(self.weight(part)));
        match self.out.types.get(ty) {
            // Each field may be of a type argument.
            Type::Struct(id, _) => {
                let own = self.facts.weights.get(id.index()).copied().unwrap_or(1);
                own.saturating_mul(parts.max(1))
            }
            _ => parts.saturating_add(1),
        }
    }

    /// Has a struct with type arguments more fields than there may be?
    pub(super) fn too_many_fields(&mut self, ty: TypeId) -> bool {
        self.field_count(ty) > MAX_FIELDS
    }

    /// How many fields a type has, those of structs in it one by one.
    fn field_count(&mut self, ty: TypeId) -> u64 {
        if let Some(&count) = self.facts.counts.get(&ty) {
            return count;
        }
        let parts: Vec<TypeId> = match self.out.types.get(ty).clone() {
            Type::Struct(id, args) => self.fields_of(id, &args).into_iter().map(|(_, ty)| ty).collect(),
            _ => self.out.types.parts(ty),
        };
        let mut count = 1u64;
        for part in parts {
            count = count.saturating_add(self.field_count(part));
        }
        self.facts.counts.insert(ty, count);
        count
    }

    pub(super) fn extern_type(&mut self, decl: &'a Decl, it: &'a ast::Extern) {
        let id = ExternId(index(self.out.externs.len()));
        self.out.externs.push(ExternInfo {
            name: it.name.name.clone(),
            vars: Vec::new(),
            methods: Vec::new(),
            decl,
        });
        let of = self.out.types.intern(Type::Extern(id, [].into()));
        let symbol = self.declare(&it.name, SymbolKind::Extern(id), of, decl.id, &decl.annotations);
        self.open.insert(symbol);
        self.push_scope();
        let vars = self.new_vars(&it.type_params);
        self.out.externs[id.index()].vars.clone_from(&vars);
        let args: TypeList = vars.iter().map(|&var| self.out.types.intern(Type::Var(var))).collect();
        let of = self.out.types.intern(Type::Extern(id, args));
        self.out.symbols[symbol.index()].ty = of;
        self.set_type(decl.id, of);
        for method in &it.methods {
            self.check_annotations(&method.annotations);
            let kind = match (method.is_constructor(), method.is_abstract) {
                (true, _) => FnKind::Constructor,
                (false, true) => FnKind::AbstractMethod,
                (false, false) => FnKind::Method,
            };
            let function =
                self.function_head(method.id, &method.annotations, &method.proto, kind, Some(id), false);
            let same = self.out.externs[id.index()].methods.iter().find(|&&other| {
                let (a, b) = (&self.out.functions[other.index()], &self.out.functions[function.index()]);
                a.name == b.name
                    && (a.kind == FnKind::Constructor) == (b.kind == FnKind::Constructor)
                    && a.params.len() == b.params.len()
                    && a.params.iter().zip(&b.params).all(|(x, y)| x.name == y.name)
            });
            if let Some(other) = same {
                let first = self.out.functions[other.index()].span;
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        method.proto.span,
                        format!("`{}` with these parameters is declared twice", method.proto.name),
                    )
                    .label(first, "declared here before"),
                );
            }
            self.out.externs[id.index()].methods.push(function);
        }
        self.pop_scope();
        self.open.remove(&symbol);
    }

    pub(super) fn structure(&mut self, decl: &'a Decl, it: &'a ast::Struct) -> TypeId {
        let kind = match it.kind {
            StructKind::Header => Aggregate::Header,
            StructKind::HeaderUnion => Aggregate::Union,
            StructKind::Struct => Aggregate::Struct,
        };
        let id = StructId(index(self.out.structs.len()));
        self.out.structs.push(StructInfo {
            kind,
            name: it.name.name.clone(),
            vars: Vec::new(),
            fields: Vec::new(),
            decl,
        });
        let of = self.out.types.intern(Type::Struct(id, [].into()));
        let symbol = self.declare(&it.name, SymbolKind::Struct(id), of, decl.id, &decl.annotations);
        self.open.insert(symbol);
        self.push_scope();
        let vars = self.new_vars(&it.type_params);
        self.out.structs[id.index()].vars.clone_from(&vars);
        let args: TypeList = vars.iter().map(|&var| self.out.types.intern(Type::Var(var))).collect();
        let of = self.out.types.intern(Type::Struct(id, args));
        self.out.symbols[symbol.index()].ty = of;
        self.set_type(decl.id, of);
        let mut fields: Vec<FieldInfo<'a>> = Vec::with_capacity(it.fields.len());
        let mut seen: std::collections::HashMap<ast::Name, crate::source::Span> =
            std::collections::HashMap::new();
        for field in &it.fields {
            let mut ty = self.value_type(&field.ty);
            if !self.field_ok(kind, ty) {
                let shown = self.show(ty);
                ty = self.type_error(
                    field.span,
                    format!(
                        "field `{}` of {} `{}` cannot have the type `{shown}`",
                        field.name,
                        kind.word(),
                        it.name
                    ),
                );
            }
            self.check_field_annotations(field, &fields);
            self.set_type(field.id, ty);
            if let Some(first) = seen.insert(field.name.name.clone(), field.name.span) {
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        field.name.span,
                        format!("field `{}` stands twice", field.name),
                    )
                    .label(first, "here before"),
                );
                continue;
            }
            fields.push(FieldInfo { name: field.name.name.clone(), ty, decl: field });
        }
        let weight = fields.iter().fold(1u64, |sum, field| sum.saturating_add(self.weight(field.ty)));
        self.facts.weights.resize(id.index(), 1);
        if weight > MAX_FIELDS {
            self.report(
                Diagnostic::error(
                    code::OVERLIMIT,
                    it.name.span,
                    format!("`{}` has too many fields", it.name),
                )
                .note(format!("{MAX_FIELDS}, those of structs in it one by one, are the limit")),
            );
            // What follows from it stays small.
            fields.clear();
            self.facts.weights.push(1);
        } else {
            self.facts.weights.push(weight);
        }
        self.out.structs[id.index()].fields = fields;
        self.pop_scope();
        self.open.remove(&symbol);
        of
    }

    pub(super) fn enumeration(&mut self, decl: &'a Decl, it: &'a ast::Enum) -> TypeId {
        let repr = it.ty.as_ref().map(|ty| {
            let of = self.value_type(ty);
            if matches!(self.kind(of), Type::Bit(_) | Type::Signed(_) | Type::Error) {
                return of;
            }
            let shown = self.show(of);
            let mut problem = Diagnostic::error(
                code::TYPE,
                ty.span,
                format!("an enumeration is made of `bit<W>` or `int<W>`, not `{shown}`"),
            );
            if matches!(self.kind(of), Type::Newtype(_)) {
                problem = problem.note("a type made by `type` is not one of them");
            }
            self.report(problem);
            TypeId::ERROR
        });
        let id = EnumId(index(self.out.enums.len()));
        self.out.enums.push(EnumInfo { name: it.name.name.clone(), repr, members: Vec::new(), decl });
        let of = self.out.types.intern(Type::Enum(id));
        let symbol = self.declare(&it.name, SymbolKind::Enum(id), of, decl.id, &decl.annotations);
        self.open.insert(symbol);
        // The braces are a scope (section 6.4.1): a value may name the members in front of it.
        self.push_scope();
        let mut members: Vec<(ast::Name, Value)> = Vec::with_capacity(it.members.len());
        let mut seen: std::collections::HashMap<ast::Name, crate::source::Span> =
            std::collections::HashMap::new();
        for (at, member) in it.members.iter().enumerate() {
            self.check_annotations(&member.annotations);
            if let Some(first) = seen.insert(member.name.name.clone(), member.name.span) {
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        member.name.span,
                        format!("member `{}` stands twice", member.name),
                    )
                    .label(first, "here before"),
                );
            }
            let value = match (repr, &member.value) {
                (None, None) => Value::int(at),
                (None, Some(value)) => {
                    self.report(
                        Diagnostic::error(
                            code::TYPE,
                            value.span,
                            "a member has a value only where the type is given",
                        )
                        .help(format!("write `enum bit<8> {}`", it.name)),
                    );
                    Value::int(at)
                }
                (Some(_), None) => {
                    self.type_error(member.span, format!("member `{}` needs a value", member.name));
                    Value::int(0)
                }
                (Some(repr), Some(value)) => {
                    let plain = self.expr(value);
                    let unfit = self.unfit(value, plain, repr);
                    let good = self.expect(value, repr);
                    if let Some(number) = unfit {
                        let shown = self.show(repr);
                        self.type_error(value.span, format!("{number} does not fit `{shown}`"));
                    }
                    match self.fold(value) {
                        Some(number) if number.as_int().is_some() => number,
                        _ => {
                            if good && repr != TypeId::ERROR {
                                self.type_error(
                                    value.span,
                                    format!("the value of `{}` is no constant", member.name),
                                );
                            }
                            Value::int(0)
                        }
                    }
                }
            };
            if let (Some(_), Some(number)) = (repr, value.as_int()) {
                let number = Value::Member(id, number.clone());
                let here = self.put(&member.name, SymbolKind::Const, of, member.id, &member.annotations);
                self.out.symbols[here.index()].used = true;
                self.out.constants.insert(member.id, number);
            }
            self.set_type(member.id, of);
            members.push((member.name.name.clone(), value));
        }
        self.pop_scope();
        self.out.enums[id.index()].members = members;
        self.open.remove(&symbol);
        of
    }

    /// A number without a width that the representation cannot hold.
    pub(super) fn unfit(
        &mut self,
        value: &'a ast::Expr,
        plain: TypeId,
        repr: TypeId,
    ) -> Option<num_bigint::BigInt> {
        let (width, signed) = match self.kind(repr) {
            Type::Bit(width) => (*width, false),
            Type::Signed(width) => (*width, true),
            _ => return None,
        };
        if self.resolve(plain) != TypeId::INT {
            return None;
        }
        let number = self.fold_plain(value)?.as_int()?.clone();
        (!super::value::fits(&number, width, signed)).then_some(number)
    }

    pub(super) fn error_members(&mut self, members: &'a [ast::Member]) {
        self.facts.error_declared = true;
        for member in members {
            if self.out.errors.contains(&member.name.name) {
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        member.name.span,
                        format!("error `{}` is declared twice", member.name),
                    ),
                );
                continue;
            }
            self.out.errors.push(member.name.name.clone());
            self.set_type(member.id, TypeId::ERROR_CODE);
        }
    }

    pub(super) fn match_kind_members(&mut self, members: &'a [ast::Member]) {
        for member in members {
            if self.out.match_kinds.contains(&member.name.name) {
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        member.name.span,
                        format!("match kind `{}` is declared twice", member.name),
                    ),
                );
                continue;
            }
            let at = index(self.out.match_kinds.len());
            self.out.match_kinds.push(member.name.name.clone());
            let id = self.declare(
                &member.name,
                SymbolKind::Const,
                TypeId::MATCH_KIND,
                member.id,
                &member.annotations,
            );
            self.out.symbols[id.index()].used = true;
            self.out.constants.insert(member.id, Value::MatchKind(at));
        }
    }

    pub(super) fn typedef(&mut self, decl: &'a Decl, it: &'a ast::Typedef) {
        let of = match &it.of {
            TypedefOf::Type(ty) => {
                let of = self.value_type(ty);
                if self.out.types.has_dont_care(of) {
                    self.type_error(ty.span, "`_` cannot stand here")
                } else if it.is_new && !self.newtype_ok(of) {
                    let shown = self.show(of);
                    self.type_error(
                        ty.span,
                        format!(
                            "`type` makes a new type of `bit`, `int`, `bool` and their like, not of `{shown}`"
                        ),
                    )
                } else if matches!(self.kind(of), Type::Block(..) | Type::Package(..)) {
                    let shown = self.show(of);
                    self.type_error(ty.span, format!("`{shown}` cannot have a second name"))
                } else {
                    of
                }
            }
            TypedefOf::Decl(inner) => {
                self.check_annotations(&inner.annotations);
                match &inner.kind {
                    DeclKind::Struct(it) => self.structure(inner, it),
                    DeclKind::Enum(it) => self.enumeration(inner, it),
                    _ => TypeId::ERROR,
                }
            }
        };
        if it.is_new {
            let id = NewtypeId(index(self.out.newtypes.len()));
            self.out.newtypes.push(NewtypeInfo { name: it.name.name.clone(), of, decl });
            let ty = if of == TypeId::ERROR { of } else { self.out.types.intern(Type::Newtype(id)) };
            self.declare(&it.name, SymbolKind::Newtype(id), ty, decl.id, &decl.annotations);
        } else {
            self.declare(&it.name, SymbolKind::Typedef, of, decl.id, &decl.annotations);
        }
    }

    pub(super) fn newtype_ok(&self, of: TypeId) -> bool {
        match self.kind(of) {
            Type::Bit(_)
            | Type::Signed(_)
            | Type::Bool
            | Type::Varbit(_)
            | Type::ErrorCode
            | Type::Newtype(_)
            | Type::Error => true,
            Type::Enum(id) => self.out.enums[id.index()].repr.is_some(),
            _ => false,
        }
    }
}
