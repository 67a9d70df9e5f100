//! The messages of P4Info (protobuf package `p4.config.v1`): what of a program a controller can see, and by which ids.
//!
//! Written by hand from field numbers and types; fields have protobuf's names. Widths are in bits.

use crate::types::{Any, P4DataTypeSpec, P4NamedType, P4TypeInfo, SourceLocation, StructuredAnnotation};

/// What a controller can see of a program.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4Info {
    #[prost(message, optional, tag = "1")]
    pub pkg_info: Option<PkgInfo>,
    #[prost(message, repeated, tag = "2")]
    pub tables: Vec<TableInfo>,
    #[prost(message, repeated, tag = "3")]
    pub actions: Vec<ActionInfo>,
    #[prost(message, repeated, tag = "4")]
    pub action_profiles: Vec<ActionProfileInfo>,
    #[prost(message, repeated, tag = "5")]
    pub counters: Vec<CounterInfo>,
    #[prost(message, repeated, tag = "6")]
    pub direct_counters: Vec<DirectCounterInfo>,
    #[prost(message, repeated, tag = "7")]
    pub meters: Vec<MeterInfo>,
    #[prost(message, repeated, tag = "8")]
    pub direct_meters: Vec<DirectMeterInfo>,
    #[prost(message, repeated, tag = "9")]
    pub controller_packet_metadata: Vec<ControllerPacketMetadata>,
    #[prost(message, repeated, tag = "10")]
    pub value_sets: Vec<ValueSetInfo>,
    #[prost(message, repeated, tag = "11")]
    pub registers: Vec<RegisterInfo>,
    #[prost(message, repeated, tag = "12")]
    pub digests: Vec<DigestInfo>,
    #[prost(message, repeated, tag = "100")]
    pub externs: Vec<ExternInfo>,
    #[prost(message, optional, tag = "200")]
    pub type_info: Option<P4TypeInfo>,
}

/// Text for people.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Documentation {
    #[prost(string, tag = "1")]
    pub brief: String,
    #[prost(string, tag = "2")]
    pub description: String,
}

/// Limits of the replication engine that the program assumes.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct PlatformProperties {
    #[prost(int32, tag = "1")]
    pub multicast_group_table_size: i32,
    #[prost(int32, tag = "2")]
    pub multicast_group_table_total_replicas: i32,
    #[prost(int32, tag = "3")]
    pub multicast_group_table_max_replicas_per_entry: i32,
}

/// The program as a whole.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PkgInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
    #[prost(message, optional, tag = "3")]
    pub doc: Option<Documentation>,
    #[prost(string, repeated, tag = "4")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "10")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(string, tag = "5")]
    pub arch: String,
    #[prost(string, tag = "6")]
    pub organization: String,
    #[prost(string, tag = "7")]
    pub contact: String,
    #[prost(string, tag = "8")]
    pub url: String,
    #[prost(message, repeated, tag = "9")]
    pub structured_annotations: Vec<StructuredAnnotation>,
    #[prost(message, optional, tag = "11")]
    pub platform_properties: Option<PlatformProperties>,
}

/// Id and names of an object.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Preamble {
    /// The first byte says the kind of object.
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "3")]
    pub alias: String,
    #[prost(string, repeated, tag = "4")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, optional, tag = "5")]
    pub doc: Option<Documentation>,
    #[prost(message, repeated, tag = "6")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// Instances of an extern that P4Runtime does not know.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExternInfo {
    #[prost(uint32, tag = "1")]
    pub extern_type_id: u32,
    #[prost(string, tag = "2")]
    pub extern_type_name: String,
    #[prost(message, repeated, tag = "3")]
    pub instances: Vec<ExternInstance>,
}

/// One such instance.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExternInstance {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, optional, tag = "2")]
    pub info: Option<Any>,
}

/// A key field.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MatchField {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "10")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(int32, tag = "4")]
    pub bitwidth: i32,
    /// A known kind of match or another by name.
    #[prost(oneof = "MatchFieldKind", tags = "5, 7")]
    pub r#match: Option<MatchFieldKind>,
    #[prost(message, optional, tag = "6")]
    pub doc: Option<Documentation>,
    #[prost(message, optional, tag = "8")]
    pub type_name: Option<P4NamedType>,
    #[prost(message, repeated, tag = "9")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A known kind of match or another by name.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum MatchFieldKind {
    #[prost(enumeration = "MatchType", tag = "5")]
    MatchType(i32),
    #[prost(string, tag = "7")]
    OtherMatchType(String),
}

/// How a key field matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MatchType {
    Unspecified = 0,
    Exact = 2,
    Lpm = 3,
    Ternary = 4,
    Range = 5,
    Optional = 6,
}

/// An action with arguments.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableActionCall {
    #[prost(uint32, tag = "1")]
    pub action_id: u32,
    #[prost(message, repeated, tag = "4")]
    pub arguments: Vec<TableActionArgument>,
}

/// One argument.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableActionArgument {
    #[prost(uint32, tag = "2")]
    pub param_id: u32,
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
}

/// A table.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableInfo {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, repeated, tag = "2")]
    pub match_fields: Vec<MatchField>,
    #[prost(message, repeated, tag = "3")]
    pub action_refs: Vec<ActionRef>,
    #[prost(uint32, tag = "4")]
    pub const_default_action_id: u32,
    #[prost(message, optional, tag = "5")]
    pub initial_default_action: Option<TableActionCall>,
    /// Its action profile; zero for none.
    #[prost(uint32, tag = "6")]
    pub implementation_id: u32,
    #[prost(uint32, repeated, tag = "7")]
    pub direct_resource_ids: Vec<u32>,
    #[prost(int64, tag = "8")]
    pub size: i64,
    #[prost(enumeration = "IdleTimeoutBehavior", tag = "9")]
    pub idle_timeout_behavior: i32,
    #[prost(bool, tag = "10")]
    pub is_const_table: bool,
    #[prost(bool, tag = "11")]
    pub has_initial_entries: bool,
    #[prost(message, optional, tag = "100")]
    pub other_properties: Option<Any>,
}

/// Whether entries may age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum IdleTimeoutBehavior {
    NoTimeout = 0,
    NotifyControl = 1,
}

/// An action a table may run.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionRef {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(enumeration = "ActionScope", tag = "3")]
    pub scope: i32,
    #[prost(string, repeated, tag = "2")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "5")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(message, repeated, tag = "4")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// Where in a table an action may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ActionScope {
    TableAndDefault = 0,
    TableOnly = 1,
    DefaultOnly = 2,
}

/// An action.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionInfo {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, repeated, tag = "2")]
    pub params: Vec<ParamInfo>,
}

/// A parameter.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ParamInfo {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "8")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(int32, tag = "4")]
    pub bitwidth: i32,
    #[prost(message, optional, tag = "5")]
    pub doc: Option<Documentation>,
    #[prost(message, optional, tag = "6")]
    pub type_name: Option<P4NamedType>,
    #[prost(message, repeated, tag = "7")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// An action profile, with or without selector.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionProfileInfo {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(uint32, repeated, tag = "2")]
    pub table_ids: Vec<u32>,
    #[prost(bool, tag = "3")]
    pub with_selector: bool,
    #[prost(int64, tag = "4")]
    pub size: i64,
    #[prost(int32, tag = "5")]
    pub max_group_size: i32,
    /// What the size of a group counts.
    #[prost(oneof = "SelectorSizeSemantics", tags = "6, 7")]
    pub selector_size_semantics: Option<SelectorSizeSemantics>,
}

/// What the size of a group counts.
#[derive(Clone, Copy, PartialEq, Eq, prost::Oneof)]
pub enum SelectorSizeSemantics {
    #[prost(message, tag = "6")]
    SumOfWeights(SumOfWeights),
    #[prost(message, tag = "7")]
    SumOfMembers(SumOfMembers),
}

/// A group is as large as its weights add up to.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SumOfWeights {}

/// A group is as large as it has members.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SumOfMembers {
    #[prost(int32, tag = "1")]
    pub max_member_weight: i32,
}

/// What a counter counts.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CounterSpec {
    #[prost(enumeration = "CounterUnit", tag = "1")]
    pub unit: i32,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum CounterUnit {
    Unspecified = 0,
    Bytes = 1,
    Packets = 2,
    Both = 3,
}

/// A counter array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CounterInfo {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<CounterSpec>,
    #[prost(int64, tag = "3")]
    pub size: i64,
    #[prost(message, optional, tag = "4")]
    pub index_type_name: Option<P4NamedType>,
}

/// The counters of a table's entries.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DirectCounterInfo {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<CounterSpec>,
    #[prost(uint32, tag = "3")]
    pub direct_table_id: u32,
}

/// What a meter meters.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MeterSpec {
    #[prost(enumeration = "MeterUnit", tag = "1")]
    pub unit: i32,
    #[prost(enumeration = "MeterType", tag = "2")]
    pub r#type: i32,
}

/// What a meter meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MeterUnit {
    Unspecified = 0,
    Bytes = 1,
    Packets = 2,
}

/// Which marker a meter is (RFC 2698, RFC 2697, or two colours).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum MeterType {
    TwoRateThreeColor = 0,
    SingleRateThreeColor = 1,
    SingleRateTwoColor = 2,
}

/// A meter array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MeterInfo {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<MeterSpec>,
    #[prost(int64, tag = "3")]
    pub size: i64,
    #[prost(message, optional, tag = "4")]
    pub index_type_name: Option<P4NamedType>,
}

/// The meters of a table's entries.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DirectMeterInfo {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<MeterSpec>,
    #[prost(uint32, tag = "3")]
    pub direct_table_id: u32,
}

/// The header between switch and controller: `packet_in` or `packet_out`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ControllerPacketMetadata {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, repeated, tag = "2")]
    pub metadata: Vec<PacketMetadataInfo>,
}

/// A field of that header.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PacketMetadataInfo {
    #[prost(uint32, tag = "1")]
    pub id: u32,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, repeated, tag = "3")]
    pub annotations: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub annotation_locations: Vec<SourceLocation>,
    #[prost(int32, tag = "4")]
    pub bitwidth: i32,
    #[prost(message, optional, tag = "5")]
    pub type_name: Option<P4NamedType>,
    #[prost(message, repeated, tag = "6")]
    pub structured_annotations: Vec<StructuredAnnotation>,
}

/// A parser value set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueSetInfo {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, repeated, tag = "2")]
    pub r#match: Vec<MatchField>,
    #[prost(int32, tag = "3")]
    pub size: i32,
}

/// A register array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterInfo {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, optional, tag = "2")]
    pub type_spec: Option<P4DataTypeSpec>,
    #[prost(int32, tag = "3")]
    pub size: i32,
    #[prost(message, optional, tag = "4")]
    pub index_type_name: Option<P4NamedType>,
}

/// A digest.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DigestInfo {
    #[prost(message, optional, tag = "1")]
    pub preamble: Option<Preamble>,
    #[prost(message, optional, tag = "2")]
    pub type_spec: Option<P4DataTypeSpec>,
}
