//! A management datagram of the connection manager, whole.

use super::{Apr, Drep, Dreq, Lap, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq};
use crate::Error;
use crate::field::slice_mut;
use crate::roce::mad;

/// What a message is, by its attribute id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Attribute {
    /// Connect request.
    Req = 0x10,
    /// Message receipt acknowledged.
    Mra = 0x11,
    /// Refusal.
    Rej = 0x12,
    /// Connect reply.
    Rep = 0x13,
    /// Ready to use.
    Rtu = 0x14,
    /// Disconnect request.
    Dreq = 0x15,
    /// Disconnect reply.
    Drep = 0x16,
    /// Service id resolution request.
    SidrReq = 0x17,
    /// Service id resolution reply.
    SidrRep = 0x18,
    /// Load alternate path.
    Lap = 0x19,
    /// Alternate path response.
    Apr = 0x1a,
}

macro_rules! messages {
    ($($name:ident $doc:literal,)*) => {
        /// A message of the connection manager.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(clippy::large_enum_variant)] // lives on the stack, for the time of one packet
        pub enum Message<'a> {
            $(#[doc = $doc] $name($name<'a>),)*
        }

        impl<'a> Message<'a> {
            /// What the message is.
            pub const fn attribute(&self) -> Attribute {
                match self { $(Message::$name(_) => Attribute::$name,)* }
            }

            fn parse(attribute: u16, data: &'a [u8]) -> Option<Message<'a>> {
                Some(match attribute {
                    $(x if x == Attribute::$name as u16 => Message::$name($name::parse(data)?),)*
                    _ => return None,
                })
            }

            fn emit(&self, data: &mut [u8]) {
                match self { $(Message::$name(m) => m.emit(data),)* }
            }
        }
    };
}

messages! {
    Req "Connect request.",
    Mra "Message receipt acknowledged.",
    Rej "Refusal.",
    Rep "Connect reply.",
    Rtu "Ready to use.",
    Dreq "Disconnect request.",
    Drep "Disconnect reply.",
    SidrReq "Service id resolution request.",
    SidrRep "Service id resolution reply.",
    Lap "Load alternate path.",
    Apr "Alternate path response.",
}

/// A management datagram of the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mad<'a> {
    /// The transaction id.
    pub transaction: u64,
    /// The message.
    pub message: Message<'a>,
}

impl<'a> Mad<'a> {
    /// Reads a datagram. Reserved fields are ignored.
    ///
    /// # Errors
    /// `Truncated`; `Unsupported` for another class, version, method or attribute.
    pub fn parse(bytes: &'a [u8]) -> Result<Mad<'a>, Error> {
        let packet = mad::Packet::new_checked(bytes)?;
        if packet.base_version() != 1
            || packet.class() != mad::CLASS_CM
            || packet.class_version() != mad::CLASS_VERSION_CM
            || packet.method() != mad::METHOD_SEND
        {
            return Err(Error::Unsupported);
        }
        let message = Message::parse(packet.attribute(), packet.payload()).ok_or(Error::Unsupported)?;
        Ok(Mad { transaction: packet.transaction(), message })
    }

    /// Writes the datagram's 256 bytes, as many of them as `out` has.
    pub fn emit(&self, out: &mut [u8]) {
        slice_mut(out, 0, mad::LEN).fill(0);
        mad::emit_header(out, self.transaction, self.message.attribute() as u16);
        self.message.emit(slice_mut(out, mad::HEADER_LEN, mad::LEN));
    }
}
