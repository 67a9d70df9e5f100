//! Types of the source, as P4Info describes them.

use barewire_p4_source::ast::{self, Annotation};
use barewire_p4_source::instances::{InstanceId, Instances, external_name};
use barewire_p4_source::types::ty::{Aggregate, EnumId, NewtypeId, StructId, Type, TypeId, TypeVar};
use barewire_p4_source::types::value::Value;
use num_bigint::BigInt;

use super::annotate;
use crate::types::{
    BitstringKind, DataTypeKind, NewTypeRepresentation, P4BitTypeSpec, P4BitstringLikeTypeSpec, P4BoolType,
    P4DataTypeSpec, P4EnumTypeSpec, P4EnumTypeSpecMember, P4ErrorType, P4ErrorTypeSpec,
    P4HeaderStackTypeSpec, P4HeaderTypeSpec, P4HeaderTypeSpecMember, P4HeaderUnionStackTypeSpec,
    P4HeaderUnionTypeSpec, P4HeaderUnionTypeSpecMember, P4IntTypeSpec, P4NamedType, P4NewTypeSpec,
    P4NewTypeTranslation, P4SerializableEnumTypeSpec, P4SerializableEnumTypeSpecMember, P4StructTypeSpec,
    P4StructTypeSpecMember, P4TupleTypeSpec, P4TypeInfo, P4VarbitTypeSpec, SdnString, SdnType,
};

/// Describes types, and collects those that have names.
pub struct Specs<'i, 'a, 't> {
    pub instances: &'i Instances<'a, 't>,
    /// None: nothing that may have a type was told yet.
    pub info: Option<P4TypeInfo>,
    /// Types in types, now.
    pub depth: u32,
    /// Type parameters of the structs that are being told, and what they are.
    pub bound: Vec<(TypeVar, TypeId)>,
}

/// How deep types may stand in types.
const MAX_DEPTH: u32 = 128;

/// Name, annotations and type.
pub type FlatField<'a> = (String, &'a [Annotation], TypeId);

fn named(name: String) -> P4NamedType {
    P4NamedType { name }
}

/// A number in as many bytes as its width takes.
pub fn bytes(value: &BigInt, width: u32) -> Vec<u8> {
    let length = width.div_ceil(8).max(1) as usize;
    let (_, digits) = value.to_bytes_be();
    let mut out = vec![0; length.saturating_sub(digits.len())];
    out.extend_from_slice(&digits[digits.len().saturating_sub(length)..]);
    out
}

impl<'a> Specs<'_, 'a, '_> {
    /// The collection, which is there from now on.
    pub fn open(&mut self) -> &mut P4TypeInfo {
        self.info.get_or_insert_default()
    }

    fn struct_name(&self, id: StructId) -> String {
        let info = &self.instances.typed.structs[id.index()];
        plain(external_name(&info.decl.annotations, &info.name))
    }

    fn enum_name(&self, id: EnumId) -> String {
        let info = &self.instances.typed.enums[id.index()];
        plain(external_name(&info.decl.annotations, &info.name))
    }

    /// The name of a struct with its type arguments: behind its own, unless `@name` gives it one.
    fn specialized_name(&self, within: Option<InstanceId>, id: StructId, args: &[TypeId]) -> String {
        let mut name = self.struct_name(id);
        let given = ast::annotation(&self.instances.typed.structs[id.index()].decl.annotations, "name");
        if given.is_none() {
            for &arg in args {
                name = format!("{name}_{}", self.argument_name(within, arg, 0));
            }
        }
        name
    }

    fn argument_name(&self, within: Option<InstanceId>, ty: TypeId, depth: u32) -> String {
        let typed = self.instances.typed;
        let ty = self.bound_type(within, ty);
        match typed.types.get(ty) {
            _ if depth > MAX_DEPTH => String::new(),
            Type::Struct(id, args) => {
                args.iter().fold(typed.structs[id.index()].name.to_string(), |name, &arg| {
                    format!("{name}_{}", self.argument_name(within, arg, depth + 1))
                })
            }
            Type::Enum(id) => typed.enums[id.index()].name.to_string(),
            Type::Newtype(id) => typed.newtypes[id.index()].name.to_string(),
            Type::Tuple(parts) => parts.iter().fold("tuple".to_owned(), |name, &part| {
                format!("{name}_{}", self.argument_name(within, part, depth + 1))
            }),
            _ => typed.show(ty).replace(['<', '>', ' '], "").replace([',', '.'], "_"),
        }
    }

    /// A type parameter of a control, or of a struct that is being told, is what it is here.
    fn bound_type(&self, within: Option<InstanceId>, ty: TypeId) -> TypeId {
        let mut ty = self.instances.type_in(within, ty);
        // A struct in itself, as an argument, binds its parameter again: the inner one is meant from the inside out.
        let mut below = self.bound.len();
        while let Type::Var(var) = self.instances.typed.types.get(ty) {
            let Some(at) = self.bound[..below].iter().rposition(|(other, _)| other == var) else { break };
            ty = self.instances.type_in(within, self.bound[at].1);
            below = at;
        }
        ty
    }

    fn newtype_name(&self, id: NewtypeId) -> String {
        let info = &self.instances.typed.newtypes[id.index()];
        plain(external_name(&info.decl.annotations, &info.name))
    }

    /// The name of a type that `type` declares.
    pub fn type_name(&self, ty: TypeId) -> Option<P4NamedType> {
        match self.instances.typed.types.get(ty) {
            Type::Newtype(id) => Some(named(self.instances.typed.newtypes[id.index()].name.to_string())),
            _ => None,
        }
    }

    /// The name of an `enum`.
    pub fn enum_type_name(&self, ty: TypeId) -> Option<P4NamedType> {
        match self.instances.typed.types.get(ty) {
            Type::Enum(id) if self.instances.typed.enums[id.index()].repr.is_none() => {
                Some(named(self.enum_name(*id)))
            }
            _ => None,
        }
    }

    /// What types that `type` declares are made of in the end.
    fn real(&self, ty: TypeId) -> TypeId {
        let typed = self.instances.typed;
        let mut real = ty;
        while let Type::Newtype(id) = typed.types.get(real) {
            real = typed.newtypes[id.index()].of;
        }
        real
    }

    /// How wide a value is for a controller, in bits; zero for strings.
    pub fn width(&self, ty: TypeId) -> u32 {
        self.width_at(ty, 0)
    }

    fn width_at(&self, ty: TypeId, depth: u32) -> u32 {
        if depth > MAX_DEPTH {
            return 0;
        }
        let inner = |ty| self.width_at(ty, depth + 1);
        let typed = self.instances.typed;
        match typed.types.get(ty) {
            Type::Bit(width) | Type::Signed(width) | Type::Varbit(width) => *width,
            Type::Bool => 1,
            Type::Enum(id) => typed.enums[id.index()].repr.map_or(0, inner),
            Type::Newtype(id) => {
                let info = &typed.newtypes[id.index()];
                // A translation is that of this very type, not of one that it is made of.
                match annotate::translation(&info.decl.annotations) {
                    Some((_, width)) => width.unwrap_or(0),
                    None => inner(self.real(info.of)),
                }
            }
            Type::Struct(id, _) => typed.structs[id.index()]
                .fields
                .iter()
                .fold(0, |sum, field| inner(field.ty).saturating_add(sum)),
            Type::Stack(of, size) => inner(*of).saturating_mul(*size),
            Type::Tuple(list) | Type::Sequence(list, _) => {
                list.iter().fold(0, |sum, &part| inner(part).saturating_add(sum))
            }
            _ => 0,
        }
    }

    /// The description of a type; types with names go to the collection. None: P4Info has no such type.
    pub fn spec(&mut self, within: Option<InstanceId>, ty: TypeId) -> Option<P4DataTypeSpec> {
        if self.depth > MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let kind = self.kind(within, ty);
        self.depth -= 1;
        Some(P4DataTypeSpec { type_spec: Some(kind?) })
    }

    fn kind(&mut self, within: Option<InstanceId>, ty: TypeId) -> Option<DataTypeKind> {
        let typed = self.instances.typed;
        let ty = self.bound_type(within, ty);
        self.open();
        let bits = |kind| {
            Some(DataTypeKind::Bitstring(P4BitstringLikeTypeSpec {
                type_spec: Some(kind),
                ..Default::default()
            }))
        };
        match typed.types.get(ty) {
            Type::Bit(width) => bits(BitstringKind::Bit(P4BitTypeSpec { bitwidth: *width as i32 })),
            Type::Signed(width) => bits(BitstringKind::Int(P4IntTypeSpec { bitwidth: *width as i32 })),
            Type::Varbit(width) => {
                bits(BitstringKind::Varbit(P4VarbitTypeSpec { max_bitwidth: *width as i32 }))
            }
            Type::Bool => Some(DataTypeKind::Bool(P4BoolType {})),
            Type::ErrorCode => {
                let members = typed.errors.iter().map(ToString::to_string).collect();
                self.open().error.get_or_insert(P4ErrorTypeSpec { members });
                Some(DataTypeKind::Error(P4ErrorType {}))
            }
            Type::Enum(id) => {
                let name = self.enum_name(*id);
                if typed.enums[id.index()].repr.is_some() {
                    self.serializable(*id, &name);
                    Some(DataTypeKind::SerializableEnum(named(name)))
                } else {
                    self.plain_enum(*id, &name);
                    Some(DataTypeKind::Enum(named(name)))
                }
            }
            Type::Newtype(id) => {
                let name = self.newtype_name(*id);
                self.new_type(within, *id, &name);
                Some(DataTypeKind::NewType(named(name)))
            }
            Type::Struct(id, args) => {
                let name = self.specialized_name(within, *id, args);
                let kind = typed.structs[id.index()].kind;
                let around = self.bound.len();
                self.bound.extend(typed.structs[id.index()].vars.iter().copied().zip(args.iter().copied()));
                self.aggregate(within, *id, &name);
                self.bound.truncate(around);
                Some(match kind {
                    Aggregate::Struct => DataTypeKind::Struct(named(name)),
                    Aggregate::Header => DataTypeKind::Header(named(name)),
                    Aggregate::Union => DataTypeKind::HeaderUnion(named(name)),
                })
            }
            Type::Stack(of, size) => {
                let size = *size as i32;
                match self.kind(within, *of)? {
                    DataTypeKind::Header(header) => {
                        Some(DataTypeKind::HeaderStack(P4HeaderStackTypeSpec { header: Some(header), size }))
                    }
                    DataTypeKind::HeaderUnion(union) => {
                        Some(DataTypeKind::HeaderUnionStack(P4HeaderUnionStackTypeSpec {
                            header_union: Some(union),
                            size,
                        }))
                    }
                    _ => None,
                }
            }
            Type::Tuple(list) | Type::Sequence(list, _) => {
                let members =
                    list.clone().iter().map(|&part| self.spec(within, part)).collect::<Option<Vec<_>>>()?;
                Some(DataTypeKind::Tuple(P4TupleTypeSpec { members }))
            }
            Type::Record(fields, _) => {
                let parts: Vec<TypeId> = fields.iter().map(|(_, ty)| *ty).collect();
                let members =
                    parts.iter().map(|&part| self.spec(within, part)).collect::<Option<Vec<_>>>()?;
                Some(DataTypeKind::Tuple(P4TupleTypeSpec { members }))
            }
            _ => None,
        }
    }

    fn aggregate(&mut self, within: Option<InstanceId>, id: StructId, name: &str) {
        let typed = self.instances.typed;
        let info = &typed.structs[id.index()];
        let member = |field: &barewire_p4_source::types::FieldInfo<'_>| {
            plain(external_name(&field.decl.annotations, &field.name))
        };
        match info.kind {
            Aggregate::Struct => {
                if self.open().structs.contains_key(name) {
                    return;
                }
                let mut spec = P4StructTypeSpec::default();
                for field in &info.fields {
                    let type_spec = self.spec(within, field.ty);
                    spec.members.push(P4StructTypeSpecMember { name: member(field), type_spec });
                }
                self.open().structs.insert(name.to_owned(), spec);
            }
            Aggregate::Header => {
                if self.open().headers.contains_key(name) {
                    return;
                }
                let mut spec = P4HeaderTypeSpec::default();
                for (name, _, ty) in self.flat(id) {
                    let mut real = self.real(ty);
                    if let Type::Enum(id) = typed.types.get(real)
                        && let Some(repr) = typed.enums[id.index()].repr
                    {
                        real = repr;
                    }
                    let type_spec = match self.kind(within, real) {
                        Some(DataTypeKind::Bitstring(bits)) => Some(bits),
                        Some(DataTypeKind::Bool(_)) => Some(P4BitstringLikeTypeSpec {
                            type_spec: Some(BitstringKind::Bit(P4BitTypeSpec { bitwidth: 1 })),
                            ..Default::default()
                        }),
                        _ => None,
                    };
                    spec.members.push(P4HeaderTypeSpecMember { name, type_spec });
                }
                self.open().headers.insert(name.to_owned(), spec);
            }
            Aggregate::Union => {
                if self.open().header_unions.contains_key(name) {
                    return;
                }
                let mut spec = P4HeaderUnionTypeSpec::default();
                for field in &info.fields {
                    let header = match self.kind(within, field.ty) {
                        Some(DataTypeKind::Header(header)) => Some(header),
                        _ => None,
                    };
                    spec.members.push(P4HeaderUnionTypeSpecMember { name: member(field), header });
                }
                self.open().header_unions.insert(name.to_owned(), spec);
            }
        }
    }

    /// The fields of a header; those of structs in it under `outer.inner`.
    pub fn flat(&self, id: StructId) -> Vec<FlatField<'a>> {
        let mut found = Vec::new();
        self.flatten(id, "", 0, &mut found);
        found
    }

    fn flatten(&self, id: StructId, around: &str, depth: u32, found: &mut Vec<FlatField<'a>>) {
        let typed = self.instances.typed;
        for field in &typed.structs[id.index()].fields {
            let name = format!("{around}{}", plain(external_name(&field.decl.annotations, &field.name)));
            match typed.types.get(field.ty) {
                Type::Struct(inner, _) if depth < MAX_DEPTH => {
                    self.flatten(*inner, &format!("{name}."), depth + 1, found);
                }
                _ => found.push((name, &field.decl.annotations, field.ty)),
            }
        }
    }

    fn plain_enum(&mut self, id: EnumId, name: &str) {
        let info = &self.instances.typed.enums[id.index()];
        let members = info
            .members
            .iter()
            .map(|(name, _)| P4EnumTypeSpecMember { name: name.to_string(), ..Default::default() })
            .collect();
        self.open().enums.entry(name.to_owned()).or_insert(P4EnumTypeSpec { members, ..Default::default() });
    }

    fn serializable(&mut self, id: EnumId, name: &str) {
        let info = &self.instances.typed.enums[id.index()];
        let width = info.repr.map_or(0, |repr| self.width(repr));
        let members = info
            .members
            .iter()
            .map(|(name, value)| P4SerializableEnumTypeSpecMember {
                name: name.to_string(),
                value: value.as_int().map(|number| bytes(number, width)).unwrap_or_default(),
                ..Default::default()
            })
            .collect();
        self.open().serializable_enums.entry(name.to_owned()).or_insert(P4SerializableEnumTypeSpec {
            underlying_type: Some(P4BitTypeSpec { bitwidth: width as i32 }),
            members,
            ..Default::default()
        });
    }

    fn new_type(&mut self, within: Option<InstanceId>, id: NewtypeId, name: &str) {
        if self.open().new_types.contains_key(name) {
            return;
        }
        let typed = self.instances.typed;
        let info = &typed.newtypes[id.index()];
        let original = self.spec(within, self.real(info.of));
        let representation = match annotate::translation(&info.decl.annotations) {
            Some((uri, width)) => {
                let sdn_type = match width {
                    Some(width) => SdnType::SdnBitwidth(width as i32),
                    None => SdnType::SdnString(SdnString {}),
                };
                Some(NewTypeRepresentation::TranslatedType(P4NewTypeTranslation {
                    uri,
                    sdn_type: Some(sdn_type),
                }))
            }
            None => original.map(NewTypeRepresentation::OriginalType),
        };
        let notes =
            annotate::notes(self.instances, &info.decl.annotations, &|name| name == "p4runtime_translation");
        let spec = P4NewTypeSpec {
            representation,
            annotations: notes.texts,
            annotation_locations: Vec::new(),
            structured_annotations: notes.structured,
        };
        self.open().new_types.insert(name.to_owned(), spec);
    }

    /// A value as P4Runtime writes it: big-endian, as long as its type takes. None: it has no such form.
    pub fn value_bytes(&self, value: &Value, ty: TypeId) -> Option<Vec<u8>> {
        let width = self.width(ty);
        match value {
            Value::Bool(value) => Some(vec![u8::from(*value)]),
            Value::Int(number) | Value::Member(_, number) if number.sign() != num_bigint::Sign::Minus => {
                Some(bytes(number, width))
            }
            _ => None,
        }
    }
}

/// A name without the dot that makes it global.
pub fn plain(name: String) -> String {
    match name.strip_prefix('.') {
        Some(rest) => rest.to_owned(),
        None => name,
    }
}
