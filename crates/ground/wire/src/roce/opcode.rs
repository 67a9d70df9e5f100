//! What each opcode means (table 38): the operation, the packet's place in its message, the headers that follow.

use core::fmt;

/// The opcode of a base transport header: three bits of service, five of operation. Any value can be held;
/// [`shape`](Self::shape) knows the defined ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Opcode(pub u8);

/// What a packet does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Carries a message to a receive request.
    Send,
    /// Carries bytes to an address.
    Write,
    /// Asks for bytes.
    ReadRequest,
    /// Answers a read.
    ReadResponse,
    /// Acknowledges.
    Ack,
    /// Acknowledges an atomic operation, with the value before it.
    AtomicAck,
    /// Compares 64 bits and swaps them if they are equal.
    CompareSwap,
    /// Adds to 64 bits.
    FetchAdd,
    /// Tells the sender of congestion.
    Congestion,
}

/// A packet's place in its message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// More follow.
    First,
    /// More follow, and some went before.
    Middle,
    /// The last of several.
    Last,
    /// A message of one packet.
    Only,
}

impl Position {
    /// Whether a message begins here.
    #[inline]
    pub const fn begins(self) -> bool {
        matches!(self, Position::First | Position::Only)
    }

    /// Whether a message ends here.
    #[inline]
    pub const fn ends(self) -> bool {
        matches!(self, Position::Last | Position::Only)
    }
}

/// A set of extended headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers(u8);

impl Headers {
    /// None.
    pub const NONE: Headers = Headers(0);
    /// Datagram extended header: queue key and sender, 8 bytes.
    pub const DETH: Headers = Headers(1);
    /// RDMA extended header: address, key and length, 16 bytes.
    pub const RETH: Headers = Headers(2);
    /// Atomic extended header: address, key and two operands, 28 bytes.
    pub const ATOMIC: Headers = Headers(4);
    /// ACK extended header: syndrome and message number, 4 bytes.
    pub const AETH: Headers = Headers(8);
    /// The value before an atomic operation, 8 bytes.
    pub const ATOMIC_ACK: Headers = Headers(16);
    /// Immediate data, 4 bytes.
    pub const IMM: Headers = Headers(32);
    /// The key to invalidate, 4 bytes.
    pub const IETH: Headers = Headers(64);
    /// The reserved bytes of a congestion notification, 16 bytes.
    pub const CNP: Headers = Headers(128);

    /// Bytes of each header, in the order in which they stand in a packet.
    const LENGTHS: [u8; 8] = [8, 16, 28, 4, 8, 4, 4, 16];

    /// The headers of both sets.
    pub const fn and(self, other: Headers) -> Headers {
        Headers(self.0 | other.0)
    }

    /// Whether all of `other` are in the set.
    #[inline]
    pub const fn has(self, other: Headers) -> bool {
        self.0 & other.0 == other.0
    }

    /// Bytes of all of them.
    pub const fn len(self) -> usize {
        let (mut len, mut i) = (0, 0);
        while i < 8 {
            if self.0 & (1 << i) != 0 {
                len += Self::LENGTHS[i] as usize;
            }
            i += 1;
        }
        len
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Where one header of the set starts, in bytes behind the BTH; `None` when it is not in the set.
    #[inline]
    pub const fn offset_of(self, header: Headers) -> Option<usize> {
        if header.0 == 0 || !self.has(header) {
            return None;
        }
        // Those in front of it are the lower bits.
        Some(Headers(self.0 & (header.0 & header.0.wrapping_neg()).wrapping_sub(1)).len())
    }
}

/// What an opcode means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// What the packet does.
    pub operation: Operation,
    /// Its place in its message.
    pub position: Position,
    /// The headers between BTH and payload.
    pub headers: Headers,
    /// Whether it belongs to a datagram service rather than a reliable connection.
    pub datagram: bool,
    ext_len: u8,
}

impl Shape {
    /// Bytes of the extended headers.
    #[inline]
    pub const fn ext_len(&self) -> usize {
        self.ext_len as usize
    }
}

macro_rules! opcodes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal, $op:ident $place:ident $($header:ident)*;)*) => {
        impl Opcode {
            $($(#[$doc])* pub const $name: Opcode = Opcode($value);)*

            /// Every defined opcode.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// The name in the words of the specification; `None` for a value that is not defined.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($value => Some($text),)* _ => None }
            }
        }

        static SHAPES: [Option<Shape>; 256] = {
            let mut shapes = [None; 256];
            $(
                let headers = Headers::NONE$(.and(Headers::$header))*;
                shapes[$value] = Some(Shape {
                    operation: Operation::$op,
                    position: Position::$place,
                    headers,
                    datagram: $value >= 0x60,
                    ext_len: headers.len() as u8,
                });
            )*
            shapes
        };
    };
}

opcodes! {
    /// RC: a message begins.
    SEND_FIRST = 0x00, "SEND_FIRST", Send First;
    /// RC: a message goes on.
    SEND_MIDDLE = 0x01, "SEND_MIDDLE", Send Middle;
    /// RC: a message ends.
    SEND_LAST = 0x02, "SEND_LAST", Send Last;
    /// RC: a message ends, with immediate data.
    SEND_LAST_IMM = 0x03, "SEND_LAST_WITH_IMMEDIATE", Send Last IMM;
    /// RC: a message of one packet.
    SEND_ONLY = 0x04, "SEND_ONLY", Send Only;
    /// RC: a message of one packet, with immediate data.
    SEND_ONLY_IMM = 0x05, "SEND_ONLY_WITH_IMMEDIATE", Send Only IMM;
    /// RC: a write begins.
    WRITE_FIRST = 0x06, "RDMA_WRITE_FIRST", Write First RETH;
    /// RC: a write goes on.
    WRITE_MIDDLE = 0x07, "RDMA_WRITE_MIDDLE", Write Middle;
    /// RC: a write ends.
    WRITE_LAST = 0x08, "RDMA_WRITE_LAST", Write Last;
    /// RC: a write ends, with immediate data.
    WRITE_LAST_IMM = 0x09, "RDMA_WRITE_LAST_WITH_IMMEDIATE", Write Last IMM;
    /// RC: a write of one packet.
    WRITE_ONLY = 0x0a, "RDMA_WRITE_ONLY", Write Only RETH;
    /// RC: a write of one packet, with immediate data.
    WRITE_ONLY_IMM = 0x0b, "RDMA_WRITE_ONLY_WITH_IMMEDIATE", Write Only RETH IMM;
    /// RC: asks for bytes.
    READ_REQUEST = 0x0c, "RDMA_READ_REQUEST", ReadRequest Only RETH;
    /// RC: an answer begins.
    READ_RESPONSE_FIRST = 0x0d, "RDMA_READ_RESPONSE_FIRST", ReadResponse First AETH;
    /// RC: an answer goes on.
    READ_RESPONSE_MIDDLE = 0x0e, "RDMA_READ_RESPONSE_MIDDLE", ReadResponse Middle;
    /// RC: an answer ends.
    READ_RESPONSE_LAST = 0x0f, "RDMA_READ_RESPONSE_LAST", ReadResponse Last AETH;
    /// RC: an answer of one packet.
    READ_RESPONSE_ONLY = 0x10, "RDMA_READ_RESPONSE_ONLY", ReadResponse Only AETH;
    /// RC: acknowledges, or refuses.
    ACKNOWLEDGE = 0x11, "ACKNOWLEDGE", Ack Only AETH;
    /// RC: answers an atomic operation.
    ATOMIC_ACKNOWLEDGE = 0x12, "ATOMIC_ACKNOWLEDGE", AtomicAck Only AETH ATOMIC_ACK;
    /// RC: compares and swaps.
    COMPARE_SWAP = 0x13, "COMPARE_SWAP", CompareSwap Only ATOMIC;
    /// RC: fetches and adds.
    FETCH_ADD = 0x14, "FETCH_ADD", FetchAdd Only ATOMIC;
    /// RC: a message ends and takes back a key.
    SEND_LAST_INVALIDATE = 0x16, "SEND_LAST_WITH_INVALIDATE", Send Last IETH;
    /// RC: a message of one packet that takes back a key.
    SEND_ONLY_INVALIDATE = 0x17, "SEND_ONLY_WITH_INVALIDATE", Send Only IETH;
    /// UD: a datagram.
    UD_SEND_ONLY = 0x64, "UD_SEND_ONLY", Send Only DETH;
    /// UD: a datagram with immediate data.
    UD_SEND_ONLY_IMM = 0x65, "UD_SEND_ONLY_WITH_IMMEDIATE", Send Only DETH IMM;
    /// A congestion notification (annex A17.9).
    CNP = 0x81, "CNP", Congestion Only CNP;
}

impl Opcode {
    /// What the opcode means; `None` for a value that is not defined here.
    #[inline]
    pub fn shape(self) -> Option<&'static Shape> {
        SHAPES[usize::from(self.0)].as_ref()
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Opcode({:#04x})", self.0),
        }
    }
}
