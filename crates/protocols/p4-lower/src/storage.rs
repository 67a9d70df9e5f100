//! Where values live: header types, instances, fields of `scalars`.

use std::rc::Rc;

use barewire_p4::ir::{
    Expr, FieldDef, FieldRef, Header, HeaderId, HeaderRef, HeaderStack, HeaderType, HeaderTypeId,
    HeaderUnion, StackId, UnionId, UnionRef, UnionStack, UnionStackId, Width,
};
use barewire_p4_source::Span;
use barewire_p4_source::ast::Name;
use barewire_p4_source::types::ty::{Aggregate, StructId, Type, TypeId, TypeList};

use super::{Lower, Result, Val, refuse};

/// `scalars`, the first header: metadata, and variables that are numbers.
pub(crate) const SCALARS: HeaderId = HeaderId(0);
/// Numbers that an array may come to.
const CELLS_MAX: u64 = 1 << 14;
/// Bits of an enumeration without representation, and of an error.
pub(crate) const ENUM_BITS: u32 = 32;

/// The shape of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub width: u32,
    pub signed: bool,
    pub truth: bool,
}

impl Lower<'_> {
    /// The fields of a struct, header or union, type parameters replaced.
    pub(crate) fn fields(&mut self, id: StructId, args: &TypeList) -> Vec<(Name, TypeId)> {
        let info = &self.t.structs[id.index()];
        info.fields
            .iter()
            .map(|field| {
                let ty = self.types.substitute(field.ty, &info.vars, args);
                (field.name.clone(), self.closed(ty))
            })
            .collect()
    }

    /// A type behind `type` names.
    pub(crate) fn bare(&mut self, ty: TypeId) -> TypeId {
        let mut ty = self.closed(ty);
        while let Type::Newtype(id) = self.types.get(ty) {
            ty = self.t.newtypes[id.index()].of;
        }
        ty
    }

    pub(crate) fn scalar(&mut self, ty: TypeId) -> Option<Scalar> {
        let ty = self.bare(ty);
        let (width, signed, truth) = match self.types.get(ty) {
            Type::Bool => (1, false, true),
            Type::Bit(width) => (*width, false, false),
            Type::Signed(width) => (*width, true, false),
            Type::ErrorCode | Type::MatchKind => (ENUM_BITS, false, false),
            Type::Enum(id) => match self.t.enums[id.index()].repr {
                Some(repr) => return self.scalar(repr),
                None => (ENUM_BITS, false, false),
            },
            _ => return None,
        };
        Some(Scalar { width, signed, truth })
    }

    /// The parts of a struct or tuple.
    pub(crate) fn parts_of(&mut self, ty: TypeId) -> Option<Vec<(Name, TypeId)>> {
        let ty = self.bare(ty);
        match self.types.get(ty).clone() {
            Type::Struct(id, args) if self.t.structs[id.index()].kind == Aggregate::Struct => {
                Some(self.fields(id, &args))
            }
            Type::Tuple(list) | Type::Sequence(list, _) => {
                Some(list.iter().enumerate().map(|(at, ty)| (Name::from(format!("f{at}")), *ty)).collect())
            }
            Type::Record(fields, _) => Some(fields.to_vec()),
            // An array of anything but headers: the specification has none, the reference compiler's front end does.
            Type::Stack(of, size) if self.is_cell(of) && size > 0 && self.cells(ty) <= CELLS_MAX => {
                Some((0..size).map(|at| (Name::from(at.to_string()), of)).collect())
            }
            _ => None,
        }
    }

    /// Whether stacks of a type are arrays of numbers and structs rather than of headers or unions.
    fn is_cell(&mut self, ty: TypeId) -> bool {
        self.header_fields(ty).is_none() && self.union_members(ty).is_none()
    }

    /// How many numbers a type comes to, arrays element by element.
    fn cells(&mut self, ty: TypeId) -> u64 {
        let ty = self.bare(ty);
        match self.types.get(ty).clone() {
            Type::Stack(of, size) if self.is_cell(of) => self.cells(of).saturating_mul(u64::from(size)),
            Type::Struct(id, args) => {
                let fields = self.fields(id, &args);
                fields.into_iter().fold(0, |sum: u64, (_, ty)| sum.saturating_add(self.cells(ty)))
            }
            _ => 1,
        }
    }

    /// The fields of a header.
    pub(crate) fn header_fields(&mut self, ty: TypeId) -> Option<Vec<(Name, TypeId)>> {
        let ty = self.bare(ty);
        match self.types.get(ty).clone() {
            Type::Struct(id, args) if self.t.structs[id.index()].kind == Aggregate::Header => {
                Some(self.fields(id, &args))
            }
            _ => None,
        }
    }

    pub(crate) fn union_members(&mut self, ty: TypeId) -> Option<Vec<(Name, TypeId)>> {
        let ty = self.bare(ty);
        match self.types.get(ty).clone() {
            Type::Struct(id, args) if self.t.structs[id.index()].kind == Aggregate::Union => {
                Some(self.fields(id, &args))
            }
            _ => None,
        }
    }

    /// The fields of a type one after another, structs in it field by field.
    pub(crate) fn flat(&mut self, name: &str, ty: TypeId, span: Span, out: &mut Vec<FieldDef>) -> Result<()> {
        if let Some(Scalar { width, signed, .. }) = self.scalar(ty) {
            out.push(FieldDef { name: name.to_owned(), width: Width::Fixed(width), signed });
            return Ok(());
        }
        let bare = self.bare(ty);
        if let Type::Varbit(width) = self.types.get(bare) {
            out.push(FieldDef { name: name.to_owned(), width: Width::Varbit(*width), signed: false });
            return Ok(());
        }
        let Some(parts) = self.parts_of(ty) else {
            return refuse(span, format!("a field of type {} in a header", self.t.show(ty)));
        };
        for (part, ty) in parts {
            self.flat(&format!("{name}.{part}"), ty, span, out)?;
        }
        Ok(())
    }

    pub(crate) fn flat_count(&mut self, ty: TypeId) -> u32 {
        match self.parts_of(ty) {
            Some(parts) => parts.into_iter().map(|(_, ty)| self.flat_count(ty)).sum(),
            None => 1,
        }
    }

    /// The value of a type whose fields stand one after another in a header.
    pub(crate) fn tree(&mut self, header: &HeaderRef, ty: TypeId, next: &mut u32) -> Val {
        match self.parts_of(ty) {
            Some(parts) => Val::Parts(parts.into_iter().map(|(_, ty)| self.tree(header, ty, next)).collect()),
            None => {
                *next += 1;
                Val::Field(FieldRef { header: header.clone(), field: *next - 1 })
            }
        }
    }

    /// The type of a header.
    pub(crate) fn header_type(&mut self, ty: TypeId, span: Span) -> Result<HeaderTypeId> {
        let ty = self.bare(ty);
        if let Some(&id) = self.header_types.get(&ty) {
            return Ok(id);
        }
        let Some(fields) = self.header_fields(ty) else { return refuse(span, "this is no header") };
        let mut flat = Vec::new();
        for (name, ty) in fields {
            self.flat(&name, ty, span, &mut flat)?;
        }
        let varbits = flat.iter().filter(|f| matches!(f.width, Width::Varbit(_))).count();
        if varbits > 1 {
            return refuse(span, "a header with several varbit fields");
        }
        let Type::Struct(id, _) = self.types.get(ty) else { return refuse(span, "this is no header") };
        let name = self.t.structs[id.index()].name.to_string();
        let mut header = HeaderType {
            name: self.unique(&format!("type {name}")).trim_start_matches("type ").to_owned(),
            fields: flat,
        };
        let bits = header.fixed_bits();
        if !bits.is_multiple_of(8) {
            header.fields.push(FieldDef {
                name: "_padding".into(),
                width: Width::Fixed(8 - bits % 8),
                signed: false,
            });
        }
        self.program.header_types.push(header);
        let id = HeaderTypeId::from(self.program.header_types.len() - 1);
        self.header_types.insert(ty, id);
        Ok(id)
    }

    fn new_header(&mut self, name: &str, ty: HeaderTypeId, union: Option<UnionId>) -> HeaderId {
        let name = self.unique(name);
        self.program.headers.push(Header { name, ty, metadata: false, union, length_exp: None });
        HeaderId::from(self.program.headers.len() - 1)
    }

    fn new_union(&mut self, name: &str, ty: TypeId, span: Span) -> Result<UnionId> {
        let id = UnionId::from(self.program.unions.len());
        let members = self.union_members(ty).unwrap_or_default();
        let (mut ids, mut names) = (Vec::new(), Vec::new());
        let union_name = self.unique(name);
        self.program.unions.push(HeaderUnion {
            name: union_name,
            member_names: Vec::new(),
            members: Vec::new(),
        });
        for (member, ty) in members {
            let ty = self.header_type(ty, span)?;
            ids.push(self.new_header(&format!("{name}.{member}"), ty, Some(id)));
            names.push(member.to_string());
        }
        let union = &mut self.program.unions[id.at()];
        (union.members, union.member_names) = (ids, names);
        Ok(id)
    }

    /// New storage for a value.
    pub(crate) fn storage(&mut self, name: &str, ty: TypeId, span: Span) -> Result<Val> {
        let ty = self.bare(ty);
        if let Some(Scalar { width, signed, .. }) = self.scalar(ty) {
            return Ok(Val::Field(self.temp(name, width, signed)));
        }
        if let Type::Varbit(width) = *self.types.get(ty) {
            // A type has room for one: each such variable is metadata of its own.
            // The type is one for all of a width: bmv2 finds headers of different types different.
            let of_type = format!("$varbit{width}");
            let known = self.program.header_types.iter().position(|other| other.name == of_type);
            let id = HeaderTypeId::from(known.unwrap_or(self.program.header_types.len()));
            if known.is_none() {
                let field = FieldDef { name: "value".into(), width: Width::Varbit(width), signed: false };
                self.program.header_types.push(HeaderType { name: of_type, fields: vec![field] });
            }
            let name = self.unique(name);
            self.program.headers.push(Header { name, ty: id, metadata: true, union: None, length_exp: None });
            let header = HeaderId::from(self.program.headers.len() - 1);
            return Ok(Val::Field(FieldRef { header: header.into(), field: 0 }));
        }
        if let Some(parts) = self.parts_of(ty) {
            let mut list = Vec::new();
            for (part, ty) in parts {
                list.push(self.storage(&format!("{name}.{part}"), ty, span)?);
            }
            return Ok(Val::Parts(list.into()));
        }
        if self.header_fields(ty).is_some() {
            let id = self.header_type(ty, span)?;
            return Ok(Val::Header(self.new_header(name, id, None).into()));
        }
        if self.union_members(ty).is_some() {
            return Ok(Val::Union(UnionRef::Union(self.new_union(name, ty, span)?)));
        }
        if let Type::Stack(of, size) = *self.types.get(ty) {
            if size == 0 {
                return refuse(span, "a stack without elements");
            }
            if size > 4096 {
                return refuse(span, format!("a stack of {size} elements: 4096 are the most"));
            }
            if self.union_members(of).is_some() {
                let mut elements = Vec::new();
                for at in 0..size {
                    elements.push(self.new_union(&format!("{name}[{at}]"), of, span)?);
                }
                let name = self.unique(name);
                self.program.union_stacks.push(UnionStack { name, elements });
                return Ok(Val::UnionStack(UnionStackId::from(self.program.union_stacks.len() - 1)));
            }
            let id = self.header_type(of, span)?;
            let elements = (0..size).map(|at| self.new_header(&format!("{name}[{at}]"), id, None)).collect();
            let name = self.unique(name);
            self.program.stacks.push(HeaderStack { name, ty: id, elements });
            return Ok(Val::Stack(StackId::from(self.program.stacks.len() - 1)));
        }
        refuse(span, format!("a variable of type {}", self.t.show(ty)))
    }

    /// A field of `scalars`.
    /// A header that no packet has, for what is there or not.
    pub(crate) fn hidden_header(&mut self, name: &str, fields: Vec<FieldDef>) -> HeaderId {
        let name = self.unique(name);
        let ty = HeaderTypeId::from(self.program.header_types.len());
        self.program.header_types.push(HeaderType { name: format!("{name}_t"), fields });
        self.program.headers.push(Header { name, ty, metadata: false, union: None, length_exp: None });
        HeaderId::from(self.program.headers.len() - 1)
    }

    pub(crate) fn temp(&mut self, name: &str, width: u32, signed: bool) -> FieldRef {
        let name = self.unique(&format!("scalars.{name}")).trim_start_matches("scalars.").to_owned();
        let fields = &mut self.program.header_types[0].fields;
        fields.push(FieldDef { name, width: Width::Fixed(width), signed });
        FieldRef { header: SCALARS.into(), field: fields.len() as u32 - 1 }
    }

    /// What `...` stands for (section 8.26): zero, false, the first member, an invalid header.
    pub(crate) fn default_of(&mut self, ty: TypeId, span: Span) -> Result<Val> {
        let ty = self.bare(ty);
        if let Some(shape) = self.scalar(ty) {
            return Ok(if shape.truth {
                Val::Truth(Expr::Bool(false))
            } else {
                Val::Num(super::ops::int(0))
            });
        }
        if self.header_fields(ty).is_some() || self.union_members(ty).is_some() {
            return Ok(Val::Invalid);
        }
        if let Type::Stack(of, size) = *self.types.get(ty)
            && !self.is_cell(of)
        {
            return Ok(Val::Parts(vec![Val::Invalid; size as usize].into()));
        }
        let Some(parts) = self.parts_of(ty) else { return refuse(span, "a default of this type") };
        let mut list = Vec::new();
        for (_, ty) in parts {
            list.push(self.default_of(ty, span)?);
        }
        Ok(Val::Parts(list.into()))
    }

    /// The parts of a struct or tuple value.
    pub(crate) fn parts(&mut self, val: &Val, span: Span) -> Result<Rc<[Val]>> {
        match val {
            Val::Parts(parts) | Val::HeaderParts(parts) => Ok(Rc::clone(parts)),
            _ => refuse(span, "this is not lowered as a struct"),
        }
    }
}
