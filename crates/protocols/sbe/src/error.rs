//! What can be wrong with a packet, a message, or a buffer that is to be written. Small and `Copy`: a handler counts
//! them by kind.

use thiserror::Error;

/// A packet whose message framing makes no sense. The messages before the place were whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// Less than a packet header.
    #[error("{len} bytes are less than the 12 of a packet header")]
    NoPacketHeader {
        /// Bytes there were.
        len: usize,
    },
    /// Less than a message header is left.
    #[error("at byte {at}: {left} bytes left, less than a message header")]
    NoMessageHeader {
        /// Offset in the packet.
        at: usize,
        /// Bytes left.
        left: usize,
    },
    /// A `MsgSize` that does not even cover the message header.
    #[error("at byte {at}: a message of {size} bytes, less than its header's 10")]
    SizeTooSmall {
        /// Offset in the packet.
        at: usize,
        /// The size it claims.
        size: u16,
    },
    /// A `MsgSize` that runs past the packet.
    #[error("at byte {at}: a message of {size} bytes, but {left} are left")]
    SizePastEnd {
        /// Offset in the packet.
        at: usize,
        /// The size it claims.
        size: u16,
        /// Bytes left.
        left: usize,
    },
    /// A number in the message header that is above 65,535.
    #[error("a message header with a number above 65,535")]
    HeaderTooWide,
}

/// A message that cannot be read. Offsets count from the message's root block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The message is of another schema.
    #[error("schema id {schema_id} is not ours")]
    ForeignSchema {
        /// The id it bears.
        schema_id: u16,
    },
    /// The schema has no such template.
    #[error("no template {template_id}")]
    UnknownTemplate {
        /// The id it bears.
        template_id: u16,
    },
    /// The message is of another template than the view asked for.
    #[error("template {found} where {expected} was asked for")]
    WrongTemplate {
        /// The view's template.
        expected: u16,
        /// The message's.
        found: u16,
    },
    /// The root block runs past the message.
    #[error("a root block of {block_length} bytes in {left}")]
    BlockPastEnd {
        /// The acting block length.
        block_length: u16,
        /// Bytes there are.
        left: usize,
    },
    /// The root block ends before fields that every version has.
    #[error("a root block of {block_length} bytes lacks fields that every version has ({needed} bytes)")]
    BlockTooShort {
        /// The acting block length.
        block_length: u16,
        /// Bytes that the fields of the first version take.
        needed: usize,
    },
    /// A group's header runs past the message.
    #[error("at byte {at}: no room for the header of a group")]
    GroupHeaderPastEnd {
        /// Offset from the root block.
        at: usize,
    },
    /// A group's entries run past the message.
    #[error("at byte {at}: {count} entries of {block_length} bytes in {left}")]
    GroupPastEnd {
        /// Offset of the group's header from the root block.
        at: usize,
        /// The acting block length of an entry.
        block_length: usize,
        /// Entries it claims.
        count: usize,
        /// Bytes left for them.
        left: usize,
    },
    /// A group's entries end before fields that every version has.
    #[error(
        "at byte {at}: entries of {block_length} bytes lack fields that every version has ({needed} bytes)"
    )]
    EntryTooShort {
        /// Offset of the group's header from the root block.
        at: usize,
        /// The acting block length of an entry.
        block_length: usize,
        /// Bytes that the fields of the first version take.
        needed: usize,
    },
    /// Data of variable length run past the message.
    #[error("at byte {at}: data of {len} bytes in {left}")]
    DataPastEnd {
        /// Offset of their header from the root block.
        at: usize,
        /// Their length, or that of their header where that is not whole.
        len: usize,
        /// Bytes left.
        left: usize,
    },
}

/// A message or a packet that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The buffer is full.
    #[error("{needed} bytes needed, {room} left in the buffer")]
    Full {
        /// Bytes that were to be written next.
        needed: usize,
        /// Bytes left.
        room: usize,
    },
    /// The message would be longer than its size field can say.
    #[error("a message of {len} bytes, more than 65,535")]
    MessageTooLong {
        /// Its length.
        len: usize,
    },
    /// A group was begun after one that follows it in the message, or twice.
    #[error("group {group} must come earlier, and once")]
    GroupOrder {
        /// The group.
        group: &'static str,
    },
    /// A group has more entries than its header can count.
    #[error("group {group} has more entries than its header can count")]
    TooManyEntries {
        /// The group.
        group: &'static str,
    },
    /// Data that are longer than their length can say.
    #[error("{data} of {len} bytes are more than their length can say")]
    DataTooLong {
        /// The data's name.
        data: &'static str,
        /// Their length.
        len: usize,
    },
    /// A group that the version being written does not know.
    #[error("group {group} exists since version {since}, the message is of version {version}")]
    GroupVersion {
        /// The group.
        group: &'static str,
        /// The first version that has it.
        since: u16,
        /// The version of the message.
        version: u16,
    },
}
