//! ICMP for IPv4 (RFC 792, RFC 1191): echo and destination unreachable.

use crate::field::put_slice;
use crate::icmp::{at, message};
use crate::{Error, checksum};

/// Bytes before the data.
pub const HEADER_LEN: usize = at::DATA;

/// Message types.
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
}

/// Codes of "destination unreachable".
pub mod unreachable {
    /// No route to the network.
    pub const NET: u8 = 0;
    /// The host does not answer.
    pub const HOST: u8 = 1;
    /// The host does not speak the protocol.
    pub const PROTOCOL: u8 = 2;
    /// Nothing listens on the port.
    pub const PORT: u8 = 3;
    /// Too large, and may not be fragmented.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
}

message! {
    /// An ICMP message: the buffer is the message and nothing more.
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Whether the checksum holds.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::is_intact(checksum::sum(self.data()))
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and sets the checksum over the whole buffer.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let check = checksum::checksum(self.data());
        self.set_checksum(check);
    }
}

/// An ICMP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repr<'a> {
    /// Echo request.
    EchoRequest {
        /// Whose echo.
        ident: u16,
        /// Which one.
        seq: u16,
        /// To be sent back.
        data: &'a [u8],
    },
    /// Echo reply.
    EchoReply {
        /// Whose echo.
        ident: u16,
        /// Which one.
        seq: u16,
        /// What the request held.
        data: &'a [u8],
    },
    /// A packet of ours did not arrive.
    Unreachable {
        /// Why; see [`mod@unreachable`].
        code: u8,
        /// The next hop's MTU in bytes when `code` is `FRAGMENTATION_NEEDED`; zero otherwise or from old routers.
        mtu: u16,
        /// Our packet's IP header and at least eight bytes more, as far as the router sent it.
        original: &'a [u8],
    },
}

impl<'a> Repr<'a> {
    /// Reads a message and checks its checksum. `Unsupported` for other types, `Malformed` for an echo with a code.
    pub fn parse(packet: &Packet<&'a [u8]>) -> Result<Repr<'a>, Error> {
        packet.check()?;
        if !packet.verify_checksum() {
            return Err(Error::Checksum);
        }
        Repr::parse_unverified(packet)
    }

    /// [`parse`](Self::parse) without the checksum, for a message whose sender left it to an offload.
    pub fn parse_unverified(packet: &Packet<&'a [u8]>) -> Result<Repr<'a>, Error> {
        packet.check()?;
        let (ident, seq, data) = (packet.ident(), packet.seq(), packet.payload());
        match (packet.kind(), packet.code()) {
            (kind::ECHO_REQUEST, 0) => Ok(Repr::EchoRequest { ident, seq, data }),
            (kind::ECHO_REPLY, 0) => Ok(Repr::EchoReply { ident, seq, data }),
            (kind::ECHO_REQUEST | kind::ECHO_REPLY, _) => Err(Error::Malformed),
            (kind::UNREACHABLE, code) => {
                let mtu = if code == unreachable::FRAGMENTATION_NEEDED { seq } else { 0 };
                Ok(Repr::Unreachable { code, mtu, original: data })
            }
            _ => Err(Error::Unsupported),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        match self {
            Repr::EchoRequest { data, .. }
            | Repr::EchoReply { data, .. }
            | Repr::Unreachable { original: data, .. } => HEADER_LEN + data.len(),
        }
    }

    /// Writes the message with its checksum. The buffer must be [`buffer_len`](Self::buffer_len) bytes.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        let (kind, code, ident, seq, data) = match *self {
            Repr::EchoRequest { ident, seq, data } => (kind::ECHO_REQUEST, 0, ident, seq, data),
            Repr::EchoReply { ident, seq, data } => (kind::ECHO_REPLY, 0, ident, seq, data),
            Repr::Unreachable { code, mtu, original } => (kind::UNREACHABLE, code, 0, mtu, original),
        };
        packet.set_kind(kind, code);
        packet.set_ident_seq(ident, seq);
        put_slice(packet.data_mut(), at::DATA, data);
        packet.fill_checksum();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    /// Sum by hand: 0800 + 1234 + 0007 + abcd + ee00 = (1) b408 -> b409 -> 4bf6.
    const ECHO: [u8; 11] = [8, 0, 0x4b, 0xf6, 0x12, 0x34, 0, 7, 0xab, 0xcd, 0xee];
    const REPR: Repr = Repr::EchoRequest { ident: 0x1234, seq: 7, data: &[0xab, 0xcd, 0xee] };

    #[test]
    fn deconstruct() {
        assert_eq!(Repr::parse(&Packet::new_checked(&ECHO[..]).unwrap()), Ok(REPR));
    }

    #[test]
    fn construct() {
        let mut bytes = [0xa5; 11];
        REPR.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, ECHO);
    }

    #[test]
    fn wrong_messages_are_refused() {
        let with = |at: usize, value: u8| {
            let mut bytes = ECHO;
            bytes[at] = value;
            Packet::new_unchecked(&mut bytes[..]).fill_checksum();
            Repr::parse(&Packet::new_unchecked(&bytes[..])).err()
        };
        assert_eq!(with(0, 5), Some(Error::Unsupported));
        assert_eq!(with(1, 1), Some(Error::Malformed));
        let mut bytes = ECHO;
        bytes[9] ^= 1;
        assert_eq!(Repr::parse(&Packet::new_unchecked(&bytes[..])), Err(Error::Checksum));
        assert_eq!(Packet::new_checked(&ECHO[..7]).err(), Some(Error::Truncated));
    }

    proptest! {
        #[test]
        fn parse_emit(which in 0u8..3, a: u16, b: u16, data in prop::collection::vec(any::<u8>(), 0..64)) {
            let repr = match which {
                0 => Repr::EchoRequest { ident: a, seq: b, data: &data },
                1 => Repr::EchoReply { ident: a, seq: b, data: &data },
                _ => {
                    let code = (a % 6) as u8;
                    Repr::Unreachable { code, mtu: if code == 4 { b } else { 0 }, original: &data }
                }
            };
            let mut bytes = vec![0xa5; repr.buffer_len()];
            repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), Ok(repr));
        }
    }
}
