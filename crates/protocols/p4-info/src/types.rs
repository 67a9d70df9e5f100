//! Descriptions of P4 types (protobuf package `p4.config.v1`), which P4Info refers to, and annotations.

use std::collections::BTreeMap;

/// Named types of the program.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4TypeInfo {
    #[prost(btree_map = "string, message", tag = "1")]
    pub structs: BTreeMap<String, P4StructTypeSpec>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub headers: BTreeMap<String, P4HeaderTypeSpec>,
    #[prost(btree_map = "string, message", tag = "3")]
    pub header_unions: BTreeMap<String, P4HeaderUnionTypeSpec>,
    #[prost(btree_map = "string, message", tag = "4")]
    pub enums: BTreeMap<String, P4EnumTypeSpec>,
    #[prost(message, optional, tag = "5")]
    pub error: Option<P4ErrorTypeSpec>,
    #[prost(btree_map = "string, message", tag = "6")]
    pub serializable_enums: BTreeMap<String, P4SerializableEnumTypeSpec>,
    #[prost(btree_map = "string, message", tag = "7")]
    pub new_types: BTreeMap<String, P4NewTypeSpec>,
}

/// A type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4DataTypeSpec {
    /// The kinds of types.
    #[prost(oneof = "DataTypeKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub type_spec: Option<DataTypeKind>,
}

/// The kinds of types.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum DataTypeKind {
    #[prost(message, tag = "1")]
    Bitstring(P4BitstringLikeTypeSpec),
    #[prost(message, tag = "2")]
    Bool(P4BoolType),
    #[prost(message, tag = "3")]
    Tuple(P4TupleTypeSpec),
    #[prost(message, tag = "4")]
    Struct(P4NamedType),
    #[prost(message, tag = "5")]
    Header(P4NamedType),
    #[prost(message, tag = "6")]
    HeaderUnion(P4NamedType),
    #[prost(message, tag = "7")]
    HeaderStack(P4HeaderStackTypeSpec),
    #[prost(message, tag = "8")]
    HeaderUnionStack(P4HeaderUnionStackTypeSpec),
    #[prost(message, tag = "9")]
    Enum(P4NamedType),
    #[prost(message, tag = "10")]
    Error(P4ErrorType),
    #[prost(message, tag = "11")]
    SerializableEnum(P4NamedType),
    #[prost(message, tag = "12")]
    NewType(P4NamedType),
}

/// A type's name.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4NamedType {
    #[prost(string, tag = "1")]
    pub name: String,
}

/// `bool`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct P4BoolType {}

/// `error`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct P4ErrorType {}

/// A type of bits.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4BitstringLikeTypeSpec {
    /// `bit`, `int` or `varbit`.
    #[prost(oneof = "BitstringKind", tags = "1, 2, 3")]
    pub type_spec: Option<BitstringKind>,
    #[prost(string, repeated, tag = "4")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "6")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// `bit`, `int` or `varbit`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Oneof)]
pub enum BitstringKind {
    #[prost(message, tag = "1")]
    Bit(P4BitTypeSpec),
    #[prost(message, tag = "2")]
    Int(P4IntTypeSpec),
    #[prost(message, tag = "3")]
    Varbit(P4VarbitTypeSpec),
}

/// `bit<W>`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct P4BitTypeSpec {
    #[prost(int32, tag = "1")]
    pub bitwidth: i32,
}

/// `int<W>`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct P4IntTypeSpec {
    #[prost(int32, tag = "1")]
    pub bitwidth: i32,
}

/// `varbit<W>`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct P4VarbitTypeSpec {
    #[prost(int32, tag = "1")]
    pub max_bitwidth: i32,
}

/// A tuple.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4TupleTypeSpec {
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<P4DataTypeSpec>,
}

/// A struct.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4StructTypeSpec {
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<P4StructTypeSpecMember>,
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A member of a struct.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4StructTypeSpecMember {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub type_spec: Option<P4DataTypeSpec>,
}

/// A header.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderTypeSpec {
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<P4HeaderTypeSpecMember>,
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A field of a header.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderTypeSpecMember {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub type_spec: Option<P4BitstringLikeTypeSpec>,
}

/// A header union.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderUnionTypeSpec {
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<P4HeaderUnionTypeSpecMember>,
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A member of a header union.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderUnionTypeSpecMember {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub header: Option<P4NamedType>,
}

/// A header stack.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderStackTypeSpec {
    #[prost(message, optional, tag = "1")]
    pub header: Option<P4NamedType>,
    #[prost(int32, tag = "2")]
    pub size: i32,
}

/// A stack of header unions.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderUnionStackTypeSpec {
    #[prost(message, optional, tag = "1")]
    pub header_union: Option<P4NamedType>,
    #[prost(int32, tag = "2")]
    pub size: i32,
}

/// A named value of an annotation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValuePair {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Expression>,
}

/// Named values of an annotation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct KeyValuePairList {
    #[prost(message, repeated, tag = "1")]
    pub kv_pairs: Vec<KeyValuePair>,
}

/// A value of an annotation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Expression {
    /// The kinds of values in annotations.
    #[prost(oneof = "ExpressionValue", tags = "1, 2, 3")]
    pub value: Option<ExpressionValue>,
}

/// The kinds of values in annotations.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ExpressionValue {
    #[prost(string, tag = "1")]
    StringValue(String),
    #[prost(int64, tag = "2")]
    Int64Value(i64),
    #[prost(bool, tag = "3")]
    BoolValue(bool),
}

/// Values of an annotation.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExpressionList {
    #[prost(message, repeated, tag = "1")]
    pub expressions: Vec<Expression>,
}

/// An annotation with a structure.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StructuredAnnotation {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its body.
    #[prost(oneof = "AnnotationBody", tags = "2, 3")]
    pub body: Option<AnnotationBody>,
    #[prost(message, optional, tag = "4")]
    pub source_location: Option<SourceLocation>,
}

/// Its body.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum AnnotationBody {
    #[prost(message, tag = "2")]
    ExpressionList(ExpressionList),
    #[prost(message, tag = "3")]
    KvPairList(KeyValuePairList),
}

/// A place in the source.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SourceLocation {
    #[prost(string, tag = "1")]
    pub file: String,
    #[prost(int32, tag = "2")]
    pub line: i32,
    #[prost(int32, tag = "3")]
    pub column: i32,
}

/// An `enum`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4EnumTypeSpec {
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<P4EnumTypeSpecMember>,
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "3")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A member of an `enum`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4EnumTypeSpecMember {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "3")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// An `enum` with numbers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4SerializableEnumTypeSpec {
    #[prost(message, optional, tag = "1")]
    pub underlying_type: Option<P4BitTypeSpec>,
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<P4SerializableEnumTypeSpecMember>,
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A member with its number.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4SerializableEnumTypeSpecMember {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// The errors of the program.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4ErrorTypeSpec {
    #[prost(string, repeated, tag = "1")]
    pub members: Vec<String>,
}

/// A type's form for controllers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4NewTypeTranslation {
    #[prost(string, tag = "1")]
    pub uri: String,
    /// Numbers of another width, or strings.
    #[prost(oneof = "SdnType", tags = "2, 3")]
    pub sdn_type: Option<SdnType>,
}

/// Numbers of another width, or strings.
#[derive(Clone, Copy, PartialEq, Eq, prost::Oneof)]
pub enum SdnType {
    #[prost(int32, tag = "2")]
    SdnBitwidth(i32),
    #[prost(message, tag = "3")]
    SdnString(SdnString),
}

/// Controllers use strings.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SdnString {}

/// A `type` declaration.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4NewTypeSpec {
    /// What stands behind the type.
    #[prost(oneof = "NewTypeRepresentation", tags = "1, 2")]
    pub representation: Option<NewTypeRepresentation>,
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// What stands behind the type.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum NewTypeRepresentation {
    #[prost(message, tag = "1")]
    OriginalType(P4DataTypeSpec),
    #[prost(message, tag = "2")]
    TranslatedType(P4NewTypeTranslation),
}

/// Any message, with its type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Any {
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}
