//! ICMP for IPv4 (RFC 792, RFC 1191): echo and destination unreachable.

use crate::field::{put, put_slice, slice, u8_at, u16_at, view};
use crate::{Error, checksum};

/// Where the fields are.
mod at {
    pub const KIND: usize = 0;
    pub const CODE: usize = 1;
    pub const CHECKSUM: usize = 2;
    pub const IDENT: usize = 4;
    pub const SEQ: usize = 6;
    pub const DATA: usize = 8;
}

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

view! {
    /// An ICMP message: the buffer is the message and nothing more.
    Packet, min HEADER_LEN
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// `Truncated` when the header is not whole.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        self.check_min()
    }

    /// The type.
    #[inline]
    pub fn kind(&self) -> u8 {
        u8_at(self.data(), at::KIND)
    }

    /// The code.
    #[inline]
    pub fn code(&self) -> u8 {
        u8_at(self.data(), at::CODE)
    }

    /// The checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.data(), at::CHECKSUM)
    }

    /// The identifier of an echo.
    #[inline]
    pub fn ident(&self) -> u16 {
        u16_at(self.data(), at::IDENT)
    }

    /// The sequence number of an echo; the next hop's MTU of "fragmentation needed".
    #[inline]
    pub fn seq(&self) -> u16 {
        u16_at(self.data(), at::SEQ)
    }

    /// Whether the checksum holds.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::is_intact(checksum::sum(self.data()))
    }
}

impl<'a> Packet<&'a [u8]> {
    /// What follows the eight bytes of header.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buffer, at::DATA, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets type and code.
    #[inline]
    pub fn set_kind(&mut self, kind: u8, code: u8) {
        put(self.data_mut(), at::KIND, [kind, code]);
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, check: u16) {
        put(self.data_mut(), at::CHECKSUM, check.to_be_bytes());
    }

    /// Sets identifier and sequence number.
    #[inline]
    pub fn set_ident_seq(&mut self, ident: u16, seq: u16) {
        put(self.data_mut(), at::IDENT, ident.to_be_bytes());
        put(self.data_mut(), at::SEQ, seq.to_be_bytes());
    }

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
