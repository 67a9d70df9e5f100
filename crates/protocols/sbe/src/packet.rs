//! Packet framing: the packet header, and the messages behind it.
//!
//! ```text
//!  0  u32 MsgSeqNum     one a packet
//!  4  u64 SendingTime   ns since the Unix epoch
//! 12  repeat: u16 MsgSize (with these two and the next eight bytes)
//!             u16 BlockLength | u16 TemplateID | u16 SchemaID | u16 Version | root block | groups
//! ```

use crate::{EncodeError, FrameError};

/// Bytes of the packet header.
pub const PACKET_HEADER_LEN: usize = 12;
/// Bytes of a message's size field and header.
pub const MESSAGE_HEADER_LEN: usize = 10;
/// The id of CME's MDP 3.0 schema.
pub const SCHEMA_ID: u16 = 1;

/// A packet of a feed channel: one UDP datagram's payload.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    seq_num: u32,
    sending_time_ns: u64,
    body: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the packet header; messages are looked at as they are iterated.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let Some((head, body)) = bytes.split_first_chunk::<PACKET_HEADER_LEN>() else {
            return Err(FrameError::NoPacketHeader { len: bytes.len() });
        };
        let [a, b, c, d, t @ ..] = *head;
        Ok(Packet { seq_num: u32::from_le_bytes([a, b, c, d]), sending_time_ns: u64::from_le_bytes(t), body })
    }

    /// `MsgSeqNum`: counts packets of this feed.
    #[inline]
    pub fn seq_num(&self) -> u32 {
        self.seq_num
    }

    /// `SendingTime`, nanoseconds since the Unix epoch.
    #[inline]
    pub fn sending_time_ns(&self) -> u64 {
        self.sending_time_ns
    }

    /// The bytes behind the packet header.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The messages, in order. Framing that makes no sense is the last item, as an error.
    #[inline]
    pub fn messages(&self) -> Messages<'a> {
        Messages { rest: self.body, at: PACKET_HEADER_LEN }
    }
}

impl<'a> IntoIterator for Packet<'a> {
    type Item = Result<Message<'a>, FrameError>;
    type IntoIter = Messages<'a>;

    fn into_iter(self) -> Messages<'a> {
        self.messages()
    }
}

/// The messages of a packet; made by [`Packet::messages`].
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Messages<'a> {
    /// Messages without a packet header before them; `at` is where they begin in the packet, for errors.
    pub fn of_body(body: &'a [u8], at: usize) -> Self {
        Messages { rest: body, at }
    }

    /// Bytes not yet iterated.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[cold]
    fn fail(&mut self, error: FrameError) -> Option<Result<Message<'a>, FrameError>> {
        self.rest = &[];
        Some(Err(error))
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, FrameError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (at, left) = (self.at, self.rest.len());
        if left == 0 {
            return None;
        }
        let Some(head) = self.rest.first_chunk::<MESSAGE_HEADER_LEN>() else {
            return self.fail(FrameError::NoMessageHeader { at, left });
        };
        let [s0, s1, b0, b1, t0, t1, i0, i1, v0, v1] = *head;
        let size = u16::from_le_bytes([s0, s1]);
        let len = usize::from(size);
        if len < MESSAGE_HEADER_LEN {
            return self.fail(FrameError::SizeTooSmall { at, size });
        }
        let Some((whole, rest)) = self.rest.split_at_checked(len) else {
            return self.fail(FrameError::SizePastEnd { at, size, left });
        };
        self.rest = rest;
        self.at = at + len;
        Some(Ok(Message {
            block_length: u16::from_le_bytes([b0, b1]),
            template_id: u16::from_le_bytes([t0, t1]),
            schema_id: u16::from_le_bytes([i0, i1]),
            version: u16::from_le_bytes([v0, v1]),
            at,
            body: whole.get(MESSAGE_HEADER_LEN..).unwrap_or(&[]),
        }))
    }
}

impl std::iter::FusedIterator for Messages<'_> {}

/// A framed message: its header and its bytes, which nobody has judged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Acting length of the root block.
    pub block_length: u16,
    /// Which template.
    pub template_id: u16,
    /// Which schema; [`SCHEMA_ID`] is ours.
    pub schema_id: u16,
    /// The schema's version that the sender acted by.
    pub version: u16,
    /// Where the message (its size field) begins in the packet.
    pub at: usize,
    /// Root block and groups.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// One message from its size field on: what an encoder wrote. Bytes behind it are not looked at.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FrameError> {
        match Messages::of_body(bytes, 0).next() {
            Some(message) => message,
            None => Err(FrameError::NoMessageHeader { at: 0, left: 0 }),
        }
    }

    /// Bytes of the message with its size field and header.
    pub fn size(&self) -> usize {
        MESSAGE_HEADER_LEN + self.body.len()
    }
}

/// Writes a packet: header, then messages one after the other.
#[derive(Debug)]
pub struct PacketEncoder<'b> {
    buf: &'b mut [u8],
    len: usize,
}

impl<'b> PacketEncoder<'b> {
    /// Writes the packet header.
    pub fn new(buf: &'b mut [u8], seq_num: u32, sending_time_ns: u64) -> Result<Self, EncodeError> {
        let room = buf.len();
        let Some(head) = buf.first_chunk_mut::<PACKET_HEADER_LEN>() else {
            return Err(EncodeError::Full { needed: PACKET_HEADER_LEN, room });
        };
        head[..4].copy_from_slice(&seq_num.to_le_bytes());
        head[4..].copy_from_slice(&sending_time_ns.to_le_bytes());
        Ok(PacketEncoder { buf, len: PACKET_HEADER_LEN })
    }

    /// Where the next message is to be written, by an encoder's `new`; then [`advance`](Self::advance).
    pub fn room(&mut self) -> &mut [u8] {
        self.buf.get_mut(self.len..).unwrap_or_default()
    }

    /// Takes in the message of `len` bytes that was written to [`room`](Self::room).
    pub fn advance(&mut self, len: usize) {
        self.len = self.len.saturating_add(len).min(self.buf.len());
    }

    /// Appends a message that lies elsewhere, from its size field on.
    pub fn push(&mut self, message: &[u8]) -> Result<(), EncodeError> {
        let room = self.room();
        let (needed, left) = (message.len(), room.len());
        let Some(place) = room.get_mut(..needed) else {
            return Err(EncodeError::Full { needed, room: left });
        };
        place.copy_from_slice(message);
        self.len += needed;
        Ok(())
    }

    /// Bytes written so far.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The packet.
    pub fn finish(self) -> &'b [u8] {
        let PacketEncoder { buf, len } = self;
        buf.get(..len).unwrap_or_default()
    }
}
