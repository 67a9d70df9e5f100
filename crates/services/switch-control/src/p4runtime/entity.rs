//! The entities of P4Runtime (protobuf package `p4.v1`, version 1.4.1): table entries, groups, counters and the like.
//!
//! Written by hand from field numbers and types; fields have protobuf's names. Values are big-endian byte strings,
//! the shortest that hold the number (specification, "Bytestrings").

use crate::p4info::types::Any;
use crate::p4runtime::data::P4Data;

/// Anything that can be written or read.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entity {
    /// The kinds of entity.
    #[prost(oneof = "EntityKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub entity: Option<EntityKind>,
}

/// The kinds of entity.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum EntityKind {
    #[prost(message, tag = "1")]
    ExternEntry(ExternEntry),
    #[prost(message, tag = "2")]
    TableEntry(TableEntry),
    #[prost(message, tag = "3")]
    ActionProfileMember(ActionProfileMember),
    #[prost(message, tag = "4")]
    ActionProfileGroup(ActionProfileGroup),
    #[prost(message, tag = "5")]
    MeterEntry(MeterEntry),
    #[prost(message, tag = "6")]
    DirectMeterEntry(DirectMeterEntry),
    #[prost(message, tag = "7")]
    CounterEntry(CounterEntry),
    #[prost(message, tag = "8")]
    DirectCounterEntry(DirectCounterEntry),
    #[prost(message, tag = "9")]
    PacketReplicationEngineEntry(PacketReplicationEngineEntry),
    #[prost(message, tag = "10")]
    ValueSetEntry(ValueSetEntry),
    #[prost(message, tag = "11")]
    RegisterEntry(RegisterEntry),
    #[prost(message, tag = "12")]
    DigestEntry(DigestEntry),
}

/// An extern that P4Runtime does not know.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExternEntry {
    #[prost(uint32, tag = "1")]
    pub extern_type_id: u32,
    #[prost(uint32, tag = "2")]
    pub extern_id: u32,
    #[prost(message, optional, tag = "3")]
    pub entry: Option<Any>,
}

/// A table entry, its key being table, match and priority; or a default entry.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableEntry {
    #[prost(uint32, tag = "1")]
    pub table_id: u32,
    /// Fields that match anything are left out.
    #[prost(message, repeated, tag = "2")]
    pub r#match: Vec<FieldMatch>,
    #[prost(message, optional, tag = "3")]
    pub action: Option<TableAction>,
    /// Larger wins; zero where no field is ternary, range or optional.
    #[prost(int32, tag = "4")]
    pub priority: i32,
    /// Opaque, deprecated by `metadata`.
    #[prost(uint64, tag = "5")]
    pub controller_metadata: u64,
    #[prost(message, optional, tag = "6")]
    pub meter_config: Option<MeterConfig>,
    #[prost(message, optional, tag = "7")]
    pub counter_data: Option<CounterData>,
    #[prost(message, optional, tag = "12")]
    pub meter_counter_data: Option<MeterCounterData>,
    #[prost(bool, tag = "8")]
    pub is_default_action: bool,
    #[prost(int64, tag = "9")]
    pub idle_timeout_ns: i64,
    #[prost(message, optional, tag = "10")]
    pub time_since_last_hit: Option<IdleTimeout>,
    /// Opaque.
    #[prost(bytes = "vec", tag = "11")]
    pub metadata: Vec<u8>,
    #[prost(bool, tag = "13")]
    pub is_const: bool,
}

/// Nanoseconds since the last packet hit.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct IdleTimeout {
    #[prost(int64, tag = "1")]
    pub elapsed_ns: i64,
}

/// What an entry says of one key field.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FieldMatch {
    #[prost(uint32, tag = "1")]
    pub field_id: u32,
    /// The kinds of match.
    #[prost(oneof = "MatchValue", tags = "2, 3, 4, 6, 7, 100")]
    pub field_match_type: Option<MatchValue>,
}

/// The kinds of match.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum MatchValue {
    #[prost(message, tag = "2")]
    Exact(ExactMatch),
    #[prost(message, tag = "3")]
    Ternary(TernaryMatch),
    #[prost(message, tag = "4")]
    Lpm(LpmMatch),
    #[prost(message, tag = "6")]
    Range(RangeMatch),
    #[prost(message, tag = "7")]
    Optional(OptionalMatch),
    #[prost(message, tag = "100")]
    Other(Any),
}

/// This value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExactMatch {
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
}

/// This value under a mask; bits outside the mask are zero.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TernaryMatch {
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub mask: Vec<u8>,
}

/// The first bits of this value; the others are zero.
#[derive(Clone, PartialEq, prost::Message)]
pub struct LpmMatch {
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub prefix_len: i32,
}

/// From low to high, both included.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RangeMatch {
    #[prost(bytes = "vec", tag = "1")]
    pub low: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub high: Vec<u8>,
}

/// This value (a field left out matches anything).
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionalMatch {
    #[prost(bytes = "vec", tag = "1")]
    pub value: Vec<u8>,
}

/// What an entry does.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TableAction {
    /// An action, or a member or group of an action profile, or a whole group given in place.
    #[prost(oneof = "ActionChoice", tags = "1, 2, 3, 4")]
    pub r#type: Option<ActionChoice>,
}

/// An action, or a member or group of an action profile, or a whole group given in place.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ActionChoice {
    #[prost(message, tag = "1")]
    Action(Action),
    #[prost(uint32, tag = "2")]
    ActionProfileMemberId(u32),
    #[prost(uint32, tag = "3")]
    ActionProfileGroupId(u32),
    #[prost(message, tag = "4")]
    ActionProfileActionSet(ActionProfileActionSet),
}

/// An action with its arguments.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Action {
    #[prost(uint32, tag = "1")]
    pub action_id: u32,
    #[prost(message, repeated, tag = "4")]
    pub params: Vec<ActionParam>,
}

/// One argument.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionParam {
    #[prost(uint32, tag = "2")]
    pub param_id: u32,
    #[prost(bytes = "vec", tag = "3")]
    pub value: Vec<u8>,
}

/// A group given in place ("one shot").
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionProfileActionSet {
    #[prost(message, repeated, tag = "1")]
    pub action_profile_actions: Vec<ActionProfileAction>,
}

/// One choice of a group given in place.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionProfileAction {
    #[prost(message, optional, tag = "1")]
    pub action: Option<Action>,
    #[prost(int32, tag = "2")]
    pub weight: i32,
    /// The port that must be up for the choice to be made.
    #[prost(oneof = "ActionWatch", tags = "3, 4")]
    pub watch_kind: Option<ActionWatch>,
}

/// The port that must be up for the choice to be made.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ActionWatch {
    #[prost(int32, tag = "3")]
    Watch(i32),
    #[prost(bytes = "vec", tag = "4")]
    WatchPort(Vec<u8>),
}

/// An action of an action profile.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionProfileMember {
    #[prost(uint32, tag = "1")]
    pub action_profile_id: u32,
    #[prost(uint32, tag = "2")]
    pub member_id: u32,
    #[prost(message, optional, tag = "3")]
    pub action: Option<Action>,
}

/// Members of an action profile to choose among.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ActionProfileGroup {
    #[prost(uint32, tag = "1")]
    pub action_profile_id: u32,
    #[prost(uint32, tag = "2")]
    pub group_id: u32,
    #[prost(message, repeated, tag = "3")]
    pub members: Vec<GroupMember>,
    #[prost(int32, tag = "4")]
    pub max_size: i32,
}

/// A member of a group, with its weight.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GroupMember {
    #[prost(uint32, tag = "1")]
    pub member_id: u32,
    #[prost(int32, tag = "2")]
    pub weight: i32,
    /// The port that must be up for the member to be chosen.
    #[prost(oneof = "MemberWatch", tags = "3, 4")]
    pub watch_kind: Option<MemberWatch>,
}

/// The port that must be up for the member to be chosen.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum MemberWatch {
    #[prost(int32, tag = "3")]
    Watch(i32),
    #[prost(bytes = "vec", tag = "4")]
    WatchPort(Vec<u8>),
}

/// A position in an array.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Index {
    #[prost(int64, tag = "1")]
    pub index: i64,
}

/// One meter of an array.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MeterEntry {
    #[prost(uint32, tag = "1")]
    pub meter_id: u32,
    #[prost(message, optional, tag = "2")]
    pub index: Option<Index>,
    #[prost(message, optional, tag = "3")]
    pub config: Option<MeterConfig>,
    #[prost(message, optional, tag = "4")]
    pub counter_data: Option<MeterCounterData>,
}

/// The meter of a table entry.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DirectMeterEntry {
    #[prost(message, optional, tag = "1")]
    pub table_entry: Option<TableEntry>,
    #[prost(message, optional, tag = "2")]
    pub config: Option<MeterConfig>,
    #[prost(message, optional, tag = "3")]
    pub counter_data: Option<MeterCounterData>,
}

/// Rates in units (bytes or packets) a second, bursts in units.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MeterConfig {
    #[prost(int64, tag = "1")]
    pub cir: i64,
    #[prost(int64, tag = "2")]
    pub cburst: i64,
    #[prost(int64, tag = "3")]
    pub pir: i64,
    #[prost(int64, tag = "4")]
    pub pburst: i64,
    #[prost(int64, tag = "5")]
    pub eburst: i64,
}

/// One counter of an array.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CounterEntry {
    #[prost(uint32, tag = "1")]
    pub counter_id: u32,
    #[prost(message, optional, tag = "2")]
    pub index: Option<Index>,
    #[prost(message, optional, tag = "3")]
    pub data: Option<CounterData>,
}

/// The counter of a table entry.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DirectCounterEntry {
    #[prost(message, optional, tag = "1")]
    pub table_entry: Option<TableEntry>,
    #[prost(message, optional, tag = "2")]
    pub data: Option<CounterData>,
}

/// Bytes and packets.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CounterData {
    #[prost(int64, tag = "1")]
    pub byte_count: i64,
    #[prost(int64, tag = "2")]
    pub packet_count: i64,
}

/// Counters for each colour a meter gave.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MeterCounterData {
    #[prost(message, optional, tag = "1")]
    pub green: Option<CounterData>,
    #[prost(message, optional, tag = "2")]
    pub yellow: Option<CounterData>,
    #[prost(message, optional, tag = "3")]
    pub red: Option<CounterData>,
}

/// An entry of the packet replication engine.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PacketReplicationEngineEntry {
    /// The kinds of such entries.
    #[prost(oneof = "ReplicationEntry", tags = "1, 2")]
    pub r#type: Option<ReplicationEntry>,
}

/// The kinds of such entries.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ReplicationEntry {
    #[prost(message, tag = "1")]
    MulticastGroupEntry(MulticastGroupEntry),
    #[prost(message, tag = "2")]
    CloneSessionEntry(CloneSessionEntry),
}

/// One copy of a packet: a port and a replication id.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Replica {
    /// The port as a number (deprecated) or as a byte string.
    #[prost(oneof = "ReplicaPort", tags = "1, 3")]
    pub port_kind: Option<ReplicaPort>,
    #[prost(uint32, tag = "2")]
    pub instance: u32,
}

/// The port as a number (deprecated) or as a byte string.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ReplicaPort {
    #[prost(uint32, tag = "1")]
    EgressPort(u32),
    #[prost(bytes = "vec", tag = "3")]
    Port(Vec<u8>),
}

/// A multicast group.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MulticastGroupEntry {
    #[prost(uint32, tag = "1")]
    pub multicast_group_id: u32,
    #[prost(message, repeated, tag = "2")]
    pub replicas: Vec<Replica>,
    #[prost(bytes = "vec", tag = "3")]
    pub metadata: Vec<u8>,
}

/// A clone session.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CloneSessionEntry {
    #[prost(uint32, tag = "1")]
    pub session_id: u32,
    #[prost(message, repeated, tag = "2")]
    pub replicas: Vec<Replica>,
    #[prost(uint32, tag = "3")]
    pub class_of_service: u32,
    /// Clones are cut at so many bytes; zero for no cut.
    #[prost(int32, tag = "4")]
    pub packet_length_bytes: i32,
}

/// A value of a parser value set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueSetMember {
    #[prost(message, repeated, tag = "1")]
    pub r#match: Vec<FieldMatch>,
}

/// All values of a parser value set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ValueSetEntry {
    #[prost(uint32, tag = "1")]
    pub value_set_id: u32,
    #[prost(message, repeated, tag = "2")]
    pub members: Vec<ValueSetMember>,
}

/// One register of an array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RegisterEntry {
    #[prost(uint32, tag = "1")]
    pub register_id: u32,
    #[prost(message, optional, tag = "2")]
    pub index: Option<Index>,
    #[prost(message, optional, tag = "3")]
    pub data: Option<P4Data>,
}

/// How digests of one kind are sent.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DigestEntry {
    #[prost(uint32, tag = "1")]
    pub digest_id: u32,
    #[prost(message, optional, tag = "2")]
    pub config: Option<DigestConfig>,
}

/// When a digest list is sent, and how long one waits for its acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DigestConfig {
    #[prost(int64, tag = "1")]
    pub max_timeout_ns: i64,
    #[prost(int32, tag = "2")]
    pub max_list_size: i32,
    #[prost(int64, tag = "3")]
    pub ack_timeout_ns: i64,
}
