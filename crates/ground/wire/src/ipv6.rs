//! IPv6 and its extension headers (RFC 8200).

use crate::field::{array, put, slice, slice_mut, u8_at, u16_at, u32_at, view};
use crate::{Error, Protocol};
use core::net::Ipv6Addr;

/// Where the fields are.
mod at {
    pub const VERSION_CLASS_FLOW: usize = 0;
    pub const PAYLOAD_LEN: usize = 4;
    pub const NEXT_HEADER: usize = 6;
    pub const HOP_LIMIT: usize = 7;
    pub const SRC: usize = 8;
    pub const DST: usize = 24;
    pub const PAYLOAD: usize = 40;
}

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = at::PAYLOAD;
/// The hop limit that our own packets start with.
pub const HOP_LIMIT_DEFAULT: u8 = 64;
/// Most extension headers that [`Packet::upper`] walks: each kind at most once, with destination options twice, is five
/// (RFC 8200 section 4.1); more is an attack.
pub const EXTENSIONS_MAX: usize = 8;

view! {
    /// An IPv6 packet. The buffer may be longer than the packet: a padded Ethernet frame is.
    Packet, min HEADER_LEN
}

/// What stands behind the extension headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Upper {
    /// The protocol.
    pub protocol: Protocol,
    /// Where it starts, from the start of the packet.
    pub at: usize,
    /// Whether the packet is one piece of a larger one, so that `at` is the piece's data.
    pub fragment: bool,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Version 6, the packet inside the buffer.
    pub fn check(&self) -> Result<(), Error> {
        self.check_min()?;
        if self.version() != 6 {
            return Err(Error::Malformed);
        }
        if self.data().len() < self.total_len() {
            return Err(Error::Truncated);
        }
        Ok(())
    }

    /// The version.
    #[inline]
    pub fn version(&self) -> u8 {
        u8_at(self.data(), at::VERSION_CLASS_FLOW) >> 4
    }

    /// The DS code point (6 bits).
    #[inline]
    pub fn dscp(&self) -> u8 {
        (u16_at(self.data(), at::VERSION_CLASS_FLOW) >> 6) as u8 & 0x3f
    }

    /// The ECN code point (2 bits).
    #[inline]
    pub fn ecn(&self) -> u8 {
        (u16_at(self.data(), at::VERSION_CLASS_FLOW) >> 4) as u8 & 3
    }

    /// The flow label (20 bits).
    #[inline]
    pub fn flow_label(&self) -> u32 {
        u32_at(self.data(), at::VERSION_CLASS_FLOW) & 0x000f_ffff
    }

    /// Bytes behind the fixed header.
    #[inline]
    pub fn payload_len(&self) -> usize {
        usize::from(u16_at(self.data(), at::PAYLOAD_LEN))
    }

    /// Bytes of the packet, header included.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + self.payload_len()
    }

    /// What follows the fixed header: an extension header or a protocol.
    #[inline]
    pub fn next_header(&self) -> Protocol {
        Protocol(u8_at(self.data(), at::NEXT_HEADER))
    }

    /// The hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        u8_at(self.data(), at::HOP_LIMIT)
    }

    /// The source.
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.data(), at::SRC))
    }

    /// The destination.
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.data(), at::DST))
    }

    /// Walks the extension headers as the packet's final destination must (RFC 8200 section 4).
    ///
    /// `Malformed`: hop-by-hop options anywhere but first, a routing header with segments left (type 0 is dead, RFC 5095,
    /// and we are no router), an option that demands to be understood (section 4.2) and is not, or more than
    /// [`EXTENSIONS_MAX`] headers. `Truncated`: a header that leaves the packet. An atomic fragment is a whole packet
    /// (RFC 6946).
    pub fn upper(&self) -> Result<Upper, Error> {
        let packet = slice(self.data(), 0, self.total_len());
        let mut upper = Upper { protocol: self.next_header(), at: HEADER_LEN, fragment: false };
        for _ in 0..EXTENSIONS_MAX {
            let len = match upper.protocol {
                Protocol::HOP_BY_HOP if upper.at != HEADER_LEN => return Err(Error::Malformed),
                Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS | Protocol::ROUTING => {
                    8 + usize::from(u8_at(packet, upper.at + 1)) * 8
                }
                Protocol::FRAGMENT => 8,
                _ => return Ok(upper),
            };
            if packet.len() < upper.at + len {
                return Err(Error::Truncated);
            }
            let header = slice(packet, upper.at, upper.at + len);
            match upper.protocol {
                Protocol::ROUTING if u8_at(header, 3) != 0 => return Err(Error::Malformed),
                Protocol::ROUTING => {}
                Protocol::FRAGMENT => {
                    // Offset and "more": zero in an atomic fragment.
                    upper.fragment = u16_at(header, 2) & 0xfff9 != 0;
                }
                _ => check_options(slice(header, 2, len))?,
            }
            upper.protocol = Protocol(u8_at(header, 0));
            upper.at += len;
            if upper.fragment {
                return Ok(upper);
            }
        }
        Err(Error::Malformed)
    }
}

/// Walks hop-by-hop or destination options: pads and options that may be skipped are fine.
fn check_options(mut options: &[u8]) -> Result<(), Error> {
    while let [kind, rest @ ..] = options {
        if *kind == 0 {
            options = rest; // Pad1 has no length
            continue;
        }
        let [len, body @ ..] = rest else { return Err(Error::Malformed) };
        let Some(next) = body.get(usize::from(*len)..) else { return Err(Error::Malformed) };
        if kind & 0xc0 != 0 {
            return Err(Error::Malformed);
        }
        options = next;
    }
    Ok(())
}

impl<'a> Packet<&'a [u8]> {
    /// What follows the fixed header, without padding behind the packet.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buffer, at::PAYLOAD, self.total_len())
    }

    /// The data of `upper`, without padding behind the packet.
    #[inline]
    pub fn upper_payload(&self, upper: &Upper) -> &'a [u8] {
        slice(self.buffer, upper.at, self.total_len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets version 6, DS and ECN code points and the flow label.
    #[inline]
    pub fn set_class_flow(&mut self, dscp: u8, ecn: u8, flow_label: u32) {
        let class = u32::from(dscp & 0x3f) << 2 | u32::from(ecn & 3);
        let word = 6 << 28 | class << 20 | flow_label & 0x000f_ffff;
        put(self.data_mut(), at::VERSION_CLASS_FLOW, word.to_be_bytes());
    }

    /// Sets the bytes behind the fixed header.
    #[inline]
    pub fn set_payload_len(&mut self, len: u16) {
        put(self.data_mut(), at::PAYLOAD_LEN, len.to_be_bytes());
    }

    /// Sets what follows the fixed header.
    #[inline]
    pub fn set_next_header(&mut self, protocol: Protocol) {
        put(self.data_mut(), at::NEXT_HEADER, [protocol.0]);
    }

    /// Sets the hop limit.
    #[inline]
    pub fn set_hop_limit(&mut self, hop_limit: u8) {
        put(self.data_mut(), at::HOP_LIMIT, [hop_limit]);
    }

    /// Sets the source.
    #[inline]
    pub fn set_src(&mut self, addr: Ipv6Addr) {
        put(self.data_mut(), at::SRC, addr.octets());
    }

    /// Sets the destination.
    #[inline]
    pub fn set_dst(&mut self, addr: Ipv6Addr) {
        put(self.data_mut(), at::DST, addr.octets());
    }

    /// What follows the fixed header, to change.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let to = self.total_len();
        slice_mut(self.data_mut(), at::PAYLOAD, to)
    }
}

/// An IPv6 header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The source.
    pub src: Ipv6Addr,
    /// The destination.
    pub dst: Ipv6Addr,
    /// What follows: an extension header or a protocol.
    pub next_header: Protocol,
    /// Bytes behind the fixed header.
    pub payload_len: u16,
    /// The hop limit.
    pub hop_limit: u8,
    /// The DS code point (6 bits).
    pub dscp: u8,
    /// The ECN code point (2 bits).
    pub ecn: u8,
    /// The flow label (20 bits).
    pub flow_label: u32,
}

impl Repr {
    /// Reads the fixed header.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        packet.check()?;
        Ok(Repr {
            src: packet.src(),
            dst: packet.dst(),
            next_header: packet.next_header(),
            payload_len: packet.payload_len() as u16,
            hop_limit: packet.hop_limit(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            flow_label: packet.flow_label(),
        })
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the fixed header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_class_flow(self.dscp, self.ecn, self.flow_label);
        packet.set_payload_len(self.payload_len);
        packet.set_next_header(self.next_header);
        packet.set_hop_limit(self.hop_limit);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const BYTES: [u8; 44] = [
        0x6b, 0x81, 0x23, 0x45, 0x00, 0x04, 0x11, 0x40, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 9, 8, 7, 6,
    ];
    const REPR: Repr = Repr {
        src: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
        next_header: Protocol::UDP,
        payload_len: 4,
        hop_limit: 64,
        dscp: 46,
        ecn: 0,
        flow_label: 0x12345,
    };

    #[test]
    fn deconstruct() {
        let packet = Packet::new_checked(&BYTES[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(REPR));
        assert_eq!(packet.payload(), [9, 8, 7, 6]);
        assert_eq!(packet.upper(), Ok(Upper { protocol: Protocol::UDP, at: 40, fragment: false }));
    }

    #[test]
    fn construct() {
        let mut bytes = [0xa5; 44];
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        REPR.emit(&mut packet);
        packet.payload_mut().copy_from_slice(&[9, 8, 7, 6]);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn wrong_headers_are_refused() {
        let mut bytes = BYTES;
        bytes[0] = 0x45;
        assert_eq!(Packet::new_checked(&bytes[..]).err(), Some(Error::Malformed));
        assert_eq!(Packet::new_checked(&BYTES[..43]).err(), Some(Error::Truncated));
        assert_eq!(Packet::new_checked(&BYTES[..39]).err(), Some(Error::Truncated));
    }

    /// A packet whose payload is `payload`, starting with header `next`.
    fn packet(next: Protocol, payload: &[u8]) -> Vec<u8> {
        let mut bytes = std::vec![0xa5; HEADER_LEN];
        let repr = Repr { next_header: next, payload_len: payload.len() as u16, ..REPR };
        repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        bytes.extend_from_slice(payload);
        bytes
    }

    fn upper(next: Protocol, payload: &[u8]) -> Result<Upper, Error> {
        Packet::new_checked(&packet(next, payload)[..]).unwrap().upper()
    }

    #[test]
    fn extension_headers_are_walked() {
        // Hop-by-hop (router alert, PadN), routing with none left, destination (16 bytes, pads), atomic fragment, UDP.
        let chain = [
            43, 0, 5, 2, 0, 0, 1, 0, // hop-by-hop
            60, 0, 4, 0, 0, 0, 0, 0, // routing
            44, 1, 0, 1, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // destination
            17, 0, 0, 0, 1, 2, 3, 4, // atomic fragment
            0xaa,
        ];
        let got = upper(Protocol::HOP_BY_HOP, &chain).unwrap();
        assert_eq!(got, Upper { protocol: Protocol::UDP, at: 80, fragment: false });
        let bytes = packet(Protocol::HOP_BY_HOP, &chain);
        assert_eq!(Packet::new_checked(&bytes[..]).unwrap().upper_payload(&got), [0xaa]);
    }

    #[test]
    fn fragments_are_recognised() {
        let got = upper(Protocol::FRAGMENT, &[17, 0, 0, 1, 0, 0, 0, 9, 1, 2]).unwrap();
        assert!(got.fragment);
        let got = upper(Protocol::FRAGMENT, &[17, 0, 0, 8, 0, 0, 0, 9, 1, 2]).unwrap();
        assert!(got.fragment && got.at == 48);
    }

    #[test]
    fn hostile_chains_are_refused() {
        // Hop-by-hop behind another header.
        let late = [0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(upper(Protocol::DESTINATION_OPTIONS, &late), Err(Error::Malformed));
        // Segments left.
        assert_eq!(upper(Protocol::ROUTING, &[17, 0, 0, 1, 0, 0, 0, 0]), Err(Error::Malformed));
        // A jumbo option demands to be understood; an option longer than its header.
        let jumbo = [17, 0, 0xc2, 4, 0, 1, 0, 0];
        assert_eq!(upper(Protocol::HOP_BY_HOP, &jumbo), Err(Error::Malformed));
        assert_eq!(upper(Protocol::HOP_BY_HOP, &[17, 0, 5, 5, 0, 0, 0, 0]), Err(Error::Malformed));
        // A header longer than the packet.
        assert_eq!(upper(Protocol::DESTINATION_OPTIONS, &[17, 1, 1, 4, 0, 0, 0, 0]), Err(Error::Truncated));
        assert_eq!(upper(Protocol::DESTINATION_OPTIONS, &[]), Err(Error::Truncated));
        // Too many.
        let many: Vec<u8> = [60, 0, 1, 4, 0, 0, 0, 0].repeat(EXTENSIONS_MAX + 1);
        assert_eq!(upper(Protocol::DESTINATION_OPTIONS, &many), Err(Error::Malformed));
    }

    proptest! {
        #[test]
        fn parse_emit(
            src: u128, dst: u128, next: u8, payload_len in 0u16..100, hop_limit: u8, dscp in 0u8..64, ecn in 0u8..4,
            flow_label in 0u32..1 << 20,
        ) {
            let repr = Repr {
                src: src.into(), dst: dst.into(), next_header: Protocol(next), payload_len, hop_limit, dscp, ecn,
                flow_label,
            };
            let mut bytes = [0xa5; 140];
            repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), Ok(repr));
        }
    }
}
