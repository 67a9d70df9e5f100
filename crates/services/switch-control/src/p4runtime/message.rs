//! The messages of the P4Runtime service (protobuf package `p4.v1`, version 1.4.1): requests, answers, the stream; and the
//! RPC status that carries errors. Written by hand from field numbers and types; fields have protobuf's names.

use crate::p4info::message::P4Info;
use crate::p4info::types::Any;
use crate::p4runtime::data::P4Data;
use crate::p4runtime::entity::{Entity, TableEntry};

/// Entities to insert, modify and delete.
#[derive(Clone, PartialEq, prost::Message)]
pub struct WriteRequest {
    #[prost(uint64, tag = "1")]
    pub device_id: u64,
    /// Deprecated by the name in `role`.
    #[prost(uint64, tag = "2")]
    pub role_id: u64,
    #[prost(string, tag = "6")]
    pub role: String,
    #[prost(message, optional, tag = "3")]
    pub election_id: Option<Uint128>,
    #[prost(message, repeated, tag = "4")]
    pub updates: Vec<Update>,
    #[prost(enumeration = "Atomicity", tag = "5")]
    pub atomicity: i32,
}

/// What happens to the rest of a batch when an update fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Atomicity {
    ContinueOnError = 0,
    RollbackOnError = 1,
    DataplaneAtomic = 2,
}

/// All updates succeeded.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct WriteResponse {}

/// Patterns of entities to read; a default key is a wildcard.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadRequest {
    #[prost(uint64, tag = "1")]
    pub device_id: u64,
    #[prost(string, tag = "3")]
    pub role: String,
    #[prost(message, repeated, tag = "2")]
    pub entities: Vec<Entity>,
}

/// A part of what a read found.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ReadResponse {
    #[prost(message, repeated, tag = "1")]
    pub entities: Vec<Entity>,
}

/// One change.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Update {
    #[prost(enumeration = "UpdateType", tag = "1")]
    pub r#type: i32,
    #[prost(message, optional, tag = "2")]
    pub entity: Option<Entity>,
}

/// What kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum UpdateType {
    Unspecified = 0,
    Insert = 1,
    Modify = 2,
    Delete = 3,
}

/// What a controller sends on the stream.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamMessageRequest {
    /// The kinds of messages from a controller.
    #[prost(oneof = "StreamRequest", tags = "1, 2, 3, 4")]
    pub update: Option<StreamRequest>,
}

/// The kinds of messages from a controller.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum StreamRequest {
    #[prost(message, tag = "1")]
    Arbitration(MasterArbitrationUpdate),
    #[prost(message, tag = "2")]
    Packet(PacketOut),
    #[prost(message, tag = "3")]
    DigestAck(DigestListAck),
    #[prost(message, tag = "4")]
    Other(Any),
}

/// A packet from the controller.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PacketOut {
    #[prost(bytes = "vec", tag = "1")]
    pub payload: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub metadata: Vec<PacketMetadata>,
}

/// The controller has acted on a digest list.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DigestListAck {
    #[prost(uint32, tag = "1")]
    pub digest_id: u32,
    #[prost(uint64, tag = "2")]
    pub list_id: u64,
}

/// What the switch sends on the stream.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamMessageResponse {
    /// The kinds of messages to a controller.
    #[prost(oneof = "StreamResponse", tags = "1, 2, 3, 4, 5, 6")]
    pub update: Option<StreamResponse>,
}

/// The kinds of messages to a controller.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum StreamResponse {
    #[prost(message, tag = "1")]
    Arbitration(MasterArbitrationUpdate),
    #[prost(message, tag = "2")]
    Packet(PacketIn),
    #[prost(message, tag = "3")]
    Digest(DigestList),
    #[prost(message, tag = "4")]
    IdleTimeoutNotification(IdleTimeoutNotification),
    #[prost(message, tag = "5")]
    Other(Any),
    #[prost(message, tag = "6")]
    Error(StreamError),
}

/// A packet for the controller.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PacketIn {
    #[prost(bytes = "vec", tag = "1")]
    pub payload: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub metadata: Vec<PacketMetadata>,
}

/// Digests, all distinct.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DigestList {
    #[prost(uint32, tag = "1")]
    pub digest_id: u32,
    #[prost(uint64, tag = "2")]
    pub list_id: u64,
    #[prost(message, repeated, tag = "3")]
    pub data: Vec<P4Data>,
    /// Nanoseconds since 1970.
    #[prost(int64, tag = "4")]
    pub timestamp: i64,
}

/// A field of the header between switch and controller.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PacketMetadata {
    #[prost(uint32, tag = "1")]
    pub metadata_id: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// Who is primary.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MasterArbitrationUpdate {
    #[prost(uint64, tag = "1")]
    pub device_id: u64,
    #[prost(message, optional, tag = "2")]
    pub role: Option<Role>,
    #[prost(message, optional, tag = "3")]
    pub election_id: Option<Uint128>,
    #[prost(message, optional, tag = "4")]
    pub status: Option<RpcStatus>,
}

/// A role that controllers share.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Role {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "3")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<Any>,
}

/// Entries that no packet hit for their time-out.
#[derive(Clone, PartialEq, prost::Message)]
pub struct IdleTimeoutNotification {
    #[prost(message, repeated, tag = "1")]
    pub table_entry: Vec<TableEntry>,
    /// Nanoseconds since 1970.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

/// A message on the stream that could not be served.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamError {
    #[prost(int32, tag = "1")]
    pub canonical_code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(string, tag = "3")]
    pub space: String,
    #[prost(int32, tag = "4")]
    pub code: i32,
    /// The message that failed.
    #[prost(oneof = "StreamErrorDetails", tags = "5, 6, 7")]
    pub details: Option<StreamErrorDetails>,
}

/// The message that failed.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum StreamErrorDetails {
    #[prost(message, tag = "5")]
    PacketOut(PacketOutError),
    #[prost(message, tag = "6")]
    DigestListAck(DigestListAckError),
    #[prost(message, tag = "7")]
    Other(StreamOtherError),
}

/// A packet-out failed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PacketOutError {
    #[prost(message, optional, tag = "1")]
    pub packet_out: Option<PacketOut>,
}

/// An acknowledgement failed.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DigestListAckError {
    #[prost(message, optional, tag = "1")]
    pub digest_list_ack: Option<DigestListAck>,
}

/// Another message failed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamOtherError {
    #[prost(message, optional, tag = "1")]
    pub other: Option<Any>,
}

/// An election id.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Uint128 {
    #[prost(uint64, tag = "1")]
    pub high: u64,
    #[prost(uint64, tag = "2")]
    pub low: u64,
}

/// A new program.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetForwardingPipelineConfigRequest {
    #[prost(uint64, tag = "1")]
    pub device_id: u64,
    /// Deprecated by the name in `role`.
    #[prost(uint64, tag = "2")]
    pub role_id: u64,
    #[prost(string, tag = "6")]
    pub role: String,
    #[prost(message, optional, tag = "3")]
    pub election_id: Option<Uint128>,
    #[prost(enumeration = "ConfigAction", tag = "4")]
    pub action: i32,
    #[prost(message, optional, tag = "5")]
    pub config: Option<ForwardingPipelineConfig>,
}

/// What to do with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ConfigAction {
    Unspecified = 0,
    Verify = 1,
    VerifyAndSave = 2,
    VerifyAndCommit = 3,
    Commit = 4,
    ReconcileAndCommit = 5,
}

/// The program was taken.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct SetForwardingPipelineConfigResponse {}

/// A program: P4Info and the target's own file (here bmv2 JSON).
#[derive(Clone, PartialEq, prost::Message)]
pub struct ForwardingPipelineConfig {
    #[prost(message, optional, tag = "1")]
    pub p4info: Option<P4Info>,
    #[prost(bytes = "vec", tag = "2")]
    pub p4_device_config: Vec<u8>,
    #[prost(message, optional, tag = "3")]
    pub cookie: Option<ConfigCookie>,
}

/// A number by which the controller knows its program again.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ConfigCookie {
    #[prost(uint64, tag = "1")]
    pub cookie: u64,
}

/// Which program runs?
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct GetForwardingPipelineConfigRequest {
    #[prost(uint64, tag = "1")]
    pub device_id: u64,
    #[prost(enumeration = "ResponseType", tag = "2")]
    pub response_type: i32,
}

/// How much of the answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ResponseType {
    All = 0,
    CookieOnly = 1,
    P4infoAndCookie = 2,
    DeviceConfigAndCookie = 3,
}

/// The program that runs.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetForwardingPipelineConfigResponse {
    #[prost(message, optional, tag = "1")]
    pub config: Option<ForwardingPipelineConfig>,
}

/// What became of one update of a batch.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Error {
    #[prost(int32, tag = "1")]
    pub canonical_code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(string, tag = "3")]
    pub space: String,
    #[prost(int32, tag = "4")]
    pub code: i32,
    #[prost(message, optional, tag = "5")]
    pub details: Option<Any>,
}

/// Which version is spoken?
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct CapabilitiesRequest {}

/// The version.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CapabilitiesResponse {
    #[prost(string, tag = "1")]
    pub p4runtime_api_version: String,
}

/// A status with details (protobuf `google.rpc.Status`).
#[derive(Clone, PartialEq, prost::Message)]
pub struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}
