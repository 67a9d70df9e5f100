//! Values of any P4 type (protobuf package `p4.v1`, `P4Data`): registers and digests carry them.

/// A value of any P4 type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4Data {
    /// The kinds of values.
    #[prost(oneof = "P4DataKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub data: Option<P4DataKind>,
}

/// The kinds of values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum P4DataKind {
    #[prost(bytes = "vec", tag = "1")]
    Bitstring(Vec<u8>),
    #[prost(message, tag = "2")]
    Varbit(P4Varbit),
    #[prost(bool, tag = "3")]
    Bool(bool),
    #[prost(message, tag = "4")]
    Tuple(P4StructLike),
    #[prost(message, tag = "5")]
    Struct(P4StructLike),
    #[prost(message, tag = "6")]
    Header(P4Header),
    #[prost(message, tag = "7")]
    HeaderUnion(P4HeaderUnion),
    #[prost(message, tag = "8")]
    HeaderStack(P4HeaderStack),
    #[prost(message, tag = "9")]
    HeaderUnionStack(P4HeaderUnionStack),
    #[prost(string, tag = "10")]
    Enum(String),
    #[prost(string, tag = "11")]
    Error(String),
    #[prost(bytes = "vec", tag = "12")]
    EnumValue(Vec<u8>),
}

/// Bits of varying number.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4Varbit {
    #[prost(bytes = "vec", tag = "1")]
    pub bitstring: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub bitwidth: i32,
}

/// The members of a struct or tuple, in order.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4StructLike {
    #[prost(message, repeated, tag = "1")]
    pub members: Vec<P4Data>,
}

/// A header.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4Header {
    #[prost(bool, tag = "1")]
    pub is_valid: bool,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub bitstrings: Vec<Vec<u8>>,
}

/// A header union.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderUnion {
    #[prost(string, tag = "1")]
    pub valid_header_name: String,
    #[prost(message, optional, tag = "2")]
    pub valid_header: Option<P4Header>,
}

/// A header stack.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderStack {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<P4Header>,
}

/// A stack of header unions.
#[derive(Clone, PartialEq, prost::Message)]
pub struct P4HeaderUnionStack {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<P4HeaderUnion>,
}
