//! The messages of gNMI (protobuf package `gnmi`), as far as interfaces need them.
//!
//! Written by hand from field numbers and types; fields have protobuf's names. Extensions are not read.

use std::collections::BTreeMap;

/// A step of a path.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PathElem {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Keys of a list's element.
    #[prost(btree_map = "string, string", tag = "2")]
    pub key: BTreeMap<String, String>,
}

/// A place in the tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Path {
    #[prost(string, tag = "2")]
    pub origin: String,
    #[prost(message, repeated, tag = "3")]
    pub elem: Vec<PathElem>,
    #[prost(string, tag = "4")]
    pub target: String,
}

/// A value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TypedValue {
    #[prost(oneof = "ValueKind", tags = "1, 2, 3, 4, 10, 11, 12")]
    pub value: Option<ValueKind>,
}

/// The kinds of values used here.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ValueKind {
    #[prost(string, tag = "1")]
    StringVal(String),
    #[prost(int64, tag = "2")]
    IntVal(i64),
    #[prost(uint64, tag = "3")]
    UintVal(u64),
    #[prost(bool, tag = "4")]
    BoolVal(bool),
    #[prost(bytes = "vec", tag = "10")]
    JsonVal(Vec<u8>),
    #[prost(bytes = "vec", tag = "11")]
    JsonIetfVal(Vec<u8>),
    #[prost(string, tag = "12")]
    AsciiVal(String),
}

/// A place and its value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Update {
    #[prost(message, optional, tag = "1")]
    pub path: Option<Path>,
    #[prost(message, optional, tag = "3")]
    pub val: Option<TypedValue>,
    #[prost(uint32, tag = "4")]
    pub duplicates: u32,
}

/// Values at one time.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Notification {
    /// Nanoseconds since 1970.
    #[prost(int64, tag = "1")]
    pub timestamp: i64,
    #[prost(message, optional, tag = "2")]
    pub prefix: Option<Path>,
    #[prost(message, repeated, tag = "4")]
    pub update: Vec<Update>,
    #[prost(message, repeated, tag = "5")]
    pub delete: Vec<Path>,
    #[prost(bool, tag = "6")]
    pub atomic: bool,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Encoding {
    Json = 0,
    Bytes = 1,
    Proto = 2,
    Ascii = 3,
    JsonIetf = 4,
}

/// A data model.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ModelData {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub organization: String,
    #[prost(string, tag = "3")]
    pub version: String,
}

/// What can the target do?
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CapabilityRequest {}

/// What the target can do.
#[derive(Clone, PartialEq, prost::Message)]
pub struct CapabilityResponse {
    #[prost(message, repeated, tag = "1")]
    pub supported_models: Vec<ModelData>,
    #[prost(enumeration = "Encoding", repeated, tag = "2")]
    pub supported_encodings: Vec<i32>,
    #[prost(string, tag = "3")]
    pub gnmi_version: String,
}

/// Which data a Get wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DataType {
    All = 0,
    Config = 1,
    State = 2,
    Operational = 3,
}

/// Values wanted once.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetRequest {
    #[prost(message, optional, tag = "1")]
    pub prefix: Option<Path>,
    #[prost(message, repeated, tag = "2")]
    pub path: Vec<Path>,
    #[prost(enumeration = "DataType", tag = "3")]
    pub r#type: i32,
    #[prost(enumeration = "Encoding", tag = "5")]
    pub encoding: i32,
    #[prost(message, repeated, tag = "6")]
    pub use_models: Vec<ModelData>,
}

/// Those values.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetResponse {
    #[prost(message, repeated, tag = "1")]
    pub notification: Vec<Notification>,
}

/// Values to be set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetRequest {
    #[prost(message, optional, tag = "1")]
    pub prefix: Option<Path>,
    #[prost(message, repeated, tag = "2")]
    pub delete: Vec<Path>,
    #[prost(message, repeated, tag = "3")]
    pub replace: Vec<Update>,
    #[prost(message, repeated, tag = "4")]
    pub update: Vec<Update>,
}

/// They were set.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SetResponse {
    #[prost(message, optional, tag = "1")]
    pub prefix: Option<Path>,
    #[prost(int64, tag = "4")]
    pub timestamp: i64,
}

/// When values of one subscription are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum SubscriptionMode {
    TargetDefined = 0,
    OnChange = 1,
    Sample = 2,
}

/// One subscription; times in nanoseconds.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Subscription {
    #[prost(message, optional, tag = "1")]
    pub path: Option<Path>,
    #[prost(enumeration = "SubscriptionMode", tag = "2")]
    pub mode: i32,
    #[prost(uint64, tag = "3")]
    pub sample_interval: u64,
    #[prost(bool, tag = "4")]
    pub suppress_redundant: bool,
    #[prost(uint64, tag = "5")]
    pub heartbeat_interval: u64,
}

/// How long a list of subscriptions lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum ListMode {
    Stream = 0,
    Once = 1,
    Poll = 2,
}

/// Subscriptions.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubscriptionList {
    #[prost(message, optional, tag = "1")]
    pub prefix: Option<Path>,
    #[prost(message, repeated, tag = "2")]
    pub subscription: Vec<Subscription>,
    #[prost(enumeration = "ListMode", tag = "5")]
    pub mode: i32,
    #[prost(bool, tag = "6")]
    pub allow_aggregation: bool,
    #[prost(message, repeated, tag = "7")]
    pub use_models: Vec<ModelData>,
    #[prost(enumeration = "Encoding", tag = "8")]
    pub encoding: i32,
    #[prost(bool, tag = "9")]
    pub updates_only: bool,
}

/// Send again now.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Poll {}

/// What a subscriber sends.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SubscribeRequest {
    #[prost(oneof = "SubscribeKind", tags = "1, 3")]
    pub request: Option<SubscribeKind>,
}

/// The kinds of messages from a subscriber.
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum SubscribeKind {
    #[prost(message, tag = "1")]
    Subscribe(SubscriptionList),
    #[prost(message, tag = "3")]
    Poll(Poll),
}

/// What a subscriber is sent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SubscribeResponse {
    #[prost(oneof = "ResponseKind", tags = "1, 3")]
    pub response: Option<ResponseKind>,
}

/// The kinds of messages to a subscriber.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum ResponseKind {
    #[prost(message, tag = "1")]
    Update(Notification),
    /// All that was there when the subscription was made has been sent.
    #[prost(bool, tag = "3")]
    SyncResponse(bool),
}
