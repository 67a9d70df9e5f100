//! ICMP for IPv6 (RFC 4443): echo, unreachable, packet too big; neighbour discovery is in [`crate::ndisc`].

use crate::field::{put, put_slice, slice, u32_at};
use crate::icmp::{at, message};
use crate::{Error, Protocol, checksum, ndisc};
use core::net::Ipv6Addr;

/// Where what follows type, code and checksum begins.
const BODY: usize = 4;

/// Bytes before the data.
pub const HEADER_LEN: usize = at::DATA;

/// Message types.
pub mod kind {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const TOO_BIG: u8 = 2;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Router solicitation.
    pub const ROUTER_SOLICIT: u8 = 133;
    /// Router advertisement.
    pub const ROUTER_ADVERT: u8 = 134;
    /// Neighbour solicitation.
    pub const NEIGHBOUR_SOLICIT: u8 = 135;
    /// Neighbour advertisement.
    pub const NEIGHBOUR_ADVERT: u8 = 136;
    /// Redirect.
    pub const REDIRECT: u8 = 137;
}

/// Codes of "destination unreachable".
pub mod unreachable {
    /// No route.
    pub const NO_ROUTE: u8 = 0;
    /// Forbidden.
    pub const PROHIBITED: u8 = 1;
    /// The address does not answer.
    pub const ADDRESS: u8 = 3;
    /// Nothing listens on the port.
    pub const PORT: u8 = 4;
}

message! {
    /// An ICMPv6 message: the buffer is the message and nothing more.
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Whether the checksum, which covers the pseudo-header, holds.
    #[inline]
    pub fn verify_checksum(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        let pseudo = checksum::pseudo_v6(src, dst, Protocol::ICMPV6.0, self.data().len() as u32);
        checksum::is_intact(pseudo + checksum::sum(self.data()))
    }
}

impl<'a> Packet<&'a [u8]> {
    /// What follows type, code and checksum.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        slice(self.buffer, BODY, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Computes and sets the checksum over pseudo-header and buffer.
    #[inline]
    pub fn fill_checksum(&mut self, src: Ipv6Addr, dst: Ipv6Addr) {
        self.set_checksum(0);
        let pseudo = checksum::pseudo_v6(src, dst, Protocol::ICMPV6.0, self.data().len() as u32);
        let check = checksum::finish(pseudo + checksum::sum(self.data()));
        self.set_checksum(check);
    }
}

/// An ICMPv6 message.
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
        /// As much of our packet as came back.
        original: &'a [u8],
    },
    /// A packet of ours was larger than a link on its way.
    TooBig {
        /// That link's MTU in bytes.
        mtu: u32,
        /// As much of our packet as came back.
        original: &'a [u8],
    },
    /// Neighbour discovery.
    Ndisc(ndisc::Repr),
}

impl<'a> Repr<'a> {
    /// Reads a message and checks its checksum. `Unsupported` for other types.
    pub fn parse(packet: &Packet<&'a [u8]>, src: Ipv6Addr, dst: Ipv6Addr) -> Result<Repr<'a>, Error> {
        packet.check()?;
        if !packet.verify_checksum(src, dst) {
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
            (kind::UNREACHABLE, code) => Ok(Repr::Unreachable { code, original: data }),
            // The code of "packet too big" is to be ignored (section 3.2).
            (kind::TOO_BIG, _) => Ok(Repr::TooBig { mtu: u32_at(packet.data(), BODY), original: data }),
            (kind::ROUTER_SOLICIT..=kind::NEIGHBOUR_ADVERT, 0) => {
                Ok(Repr::Ndisc(ndisc::Repr::parse(packet.kind(), packet.body())?))
            }
            (kind::ECHO_REQUEST | kind::ECHO_REPLY | kind::ROUTER_SOLICIT..=kind::NEIGHBOUR_ADVERT, _) => {
                Err(Error::Malformed)
            }
            _ => Err(Error::Unsupported),
        }
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        match self {
            Repr::EchoRequest { data, .. }
            | Repr::EchoReply { data, .. }
            | Repr::Unreachable { original: data, .. }
            | Repr::TooBig { original: data, .. } => HEADER_LEN + data.len(),
            Repr::Ndisc(repr) => BODY + repr.body_len(),
        }
    }

    /// Writes the message with its checksum. The buffer must be [`buffer_len`](Self::buffer_len) bytes.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>, src: Ipv6Addr, dst: Ipv6Addr) {
        match *self {
            Repr::EchoRequest { ident, seq, data } => {
                packet.set_kind(kind::ECHO_REQUEST, 0);
                packet.set_ident_seq(ident, seq);
                put_slice(packet.data_mut(), at::DATA, data);
            }
            Repr::EchoReply { ident, seq, data } => {
                packet.set_kind(kind::ECHO_REPLY, 0);
                packet.set_ident_seq(ident, seq);
                put_slice(packet.data_mut(), at::DATA, data);
            }
            Repr::Unreachable { code, original } => {
                packet.set_kind(kind::UNREACHABLE, code);
                put(packet.data_mut(), BODY, [0; 4]);
                put_slice(packet.data_mut(), at::DATA, original);
            }
            Repr::TooBig { mtu, original } => {
                packet.set_kind(kind::TOO_BIG, 0);
                put(packet.data_mut(), BODY, mtu.to_be_bytes());
                put_slice(packet.data_mut(), at::DATA, original);
            }
            Repr::Ndisc(repr) => {
                packet.set_kind(repr.kind(), 0);
                repr.emit(packet.data_mut().get_mut(BODY..).unwrap_or(&mut []));
            }
        }
        packet.fill_checksum(src, dst);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    const SRC: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const DST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    /// Sum by hand: pseudo fe80+1+fe80+2+a+3a = (1) fd47 -> fd48; 8000+1234+0007+abcd = (1) 3e08 -> 3e09;
    /// together (1) 3b51 -> 3b52 -> c4ad.
    const ECHO: [u8; 10] = [128, 0, 0xc4, 0xad, 0x12, 0x34, 0, 7, 0xab, 0xcd];
    const REPR: Repr = Repr::EchoRequest { ident: 0x1234, seq: 7, data: &[0xab, 0xcd] };

    #[test]
    fn deconstruct() {
        assert_eq!(Repr::parse(&Packet::new_checked(&ECHO[..]).unwrap(), SRC, DST), Ok(REPR));
    }

    #[test]
    fn construct() {
        let mut bytes = [0xa5; 10];
        REPR.emit(&mut Packet::new_unchecked(&mut bytes[..]), SRC, DST);
        assert_eq!(bytes, ECHO);
    }

    #[test]
    fn the_pseudo_header_counts() {
        let packet = Packet::new_checked(&ECHO[..]).unwrap();
        let other = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 3);
        assert_eq!(Repr::parse(&packet, SRC, other), Err(Error::Checksum));
        assert_eq!(Packet::new_checked(&ECHO[..7]).err(), Some(Error::Truncated));
    }

    #[test]
    fn wrong_messages_are_refused() {
        let with = |kind: u8, code: u8| {
            let mut bytes = ECHO;
            bytes[..2].copy_from_slice(&[kind, code]);
            Repr::parse_unverified(&Packet::new_unchecked(&bytes[..])).err()
        };
        assert_eq!(with(kind::REDIRECT, 0), Some(Error::Unsupported));
        assert_eq!(with(kind::ECHO_REQUEST, 1), Some(Error::Malformed));
        assert_eq!(with(kind::NEIGHBOUR_SOLICIT, 1), Some(Error::Malformed));
        assert_eq!(with(kind::NEIGHBOUR_SOLICIT, 0), Some(Error::Truncated));
        assert_eq!(with(kind::TOO_BIG, 9), None);
    }

    proptest! {
        #[test]
        fn parse_emit(
            which in 0u8..4, a: u16, b: u16, mtu: u32, src: u128, dst: u128,
            data in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let repr = match which {
                0 => Repr::EchoRequest { ident: a, seq: b, data: &data },
                1 => Repr::EchoReply { ident: a, seq: b, data: &data },
                2 => Repr::Unreachable { code: a as u8, original: &data },
                _ => Repr::TooBig { mtu, original: &data },
            };
            let (src, dst) = (src.into(), dst.into());
            let mut bytes = vec![0xa5; repr.buffer_len()];
            repr.emit(&mut Packet::new_unchecked(&mut bytes[..]), src, dst);
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap(), src, dst), Ok(repr));
        }
    }
}
