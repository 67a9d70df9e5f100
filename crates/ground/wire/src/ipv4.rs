//! IPv4 (RFC 791; DS field and ECN: RFC 2474, RFC 3168).

use crate::field::{array, put, slice, slice_mut, u8_at, u16_at, view};
use crate::{Error, Protocol, checksum};
use core::net::Ipv4Addr;

/// Where the fields are.
mod at {
    pub const VERSION_IHL: usize = 0;
    pub const DS: usize = 1;
    pub const TOTAL_LEN: usize = 2;
    pub const IDENT: usize = 4;
    pub const FLAGS_OFFSET: usize = 6;
    pub const TTL: usize = 8;
    pub const PROTOCOL: usize = 9;
    pub const CHECKSUM: usize = 10;
    pub const SRC: usize = 12;
    pub const DST: usize = 16;
    pub const OPTIONS: usize = 20;
}

/// Bytes of a header without options.
pub const HEADER_LEN: usize = at::OPTIONS;
/// Bytes of the longest header.
pub const HEADER_MAX: usize = 60;
/// The hop limit that our own packets start with.
pub const TTL_DEFAULT: u8 = 64;
/// The "don't fragment" bit in the word of flags and offset.
pub const DONT_FRAGMENT: u16 = 0x4000;

const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

view! {
    /// An IPv4 packet. The buffer may be longer than the packet: a padded Ethernet frame is.
    Packet, min HEADER_LEN
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Version 4; header and packet inside the buffer, the one inside the other.
    pub fn check(&self) -> Result<(), Error> {
        self.check_min()?;
        if self.version() != 4 || self.header_len() < HEADER_LEN || self.total_len() < self.header_len() {
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
        u8_at(self.data(), at::VERSION_IHL) >> 4
    }

    /// Bytes of the header with its options.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(u8_at(self.data(), at::VERSION_IHL) & 0x0f) * 4
    }

    /// The DS code point (6 bits).
    #[inline]
    pub fn dscp(&self) -> u8 {
        u8_at(self.data(), at::DS) >> 2
    }

    /// The ECN code point (2 bits): 0 not capable, 1 and 2 capable, 3 congestion experienced.
    #[inline]
    pub fn ecn(&self) -> u8 {
        u8_at(self.data(), at::DS) & 3
    }

    /// Bytes of the packet, header included.
    #[inline]
    pub fn total_len(&self) -> usize {
        usize::from(u16_at(self.data(), at::TOTAL_LEN))
    }

    /// The identification.
    #[inline]
    pub fn ident(&self) -> u16 {
        u16_at(self.data(), at::IDENT)
    }

    /// Whether routers must not fragment it.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        u16_at(self.data(), at::FLAGS_OFFSET) & DONT_FRAGMENT != 0
    }

    /// Whether more fragments follow.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        u16_at(self.data(), at::FLAGS_OFFSET) & MORE_FRAGMENTS != 0
    }

    /// Where the payload belongs in the whole packet's, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(u16_at(self.data(), at::FLAGS_OFFSET) & OFFSET_MASK) * 8
    }

    /// Whether this is one piece of a larger packet.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        u16_at(self.data(), at::FLAGS_OFFSET) & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// The time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        u8_at(self.data(), at::TTL)
    }

    /// What is carried.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        Protocol(u8_at(self.data(), at::PROTOCOL))
    }

    /// The header checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.data(), at::CHECKSUM)
    }

    /// The source.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.data(), at::SRC))
    }

    /// The destination.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        Ipv4Addr::from(array::<4>(self.data(), at::DST))
    }

    /// Whether the header checksum holds.
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::is_intact(checksum::sum(slice(self.data(), 0, self.header_len())))
    }
}

impl<'a> Packet<&'a [u8]> {
    /// The options, unread.
    pub fn options(&self) -> &'a [u8] {
        slice(self.buffer, at::OPTIONS, self.header_len())
    }

    /// What the packet carries, without padding behind the packet.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buffer, self.header_len(), self.total_len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets version 4 and the header's length in bytes, rounded down to words.
    #[inline]
    pub fn set_header_len(&mut self, len: usize) {
        put(self.data_mut(), at::VERSION_IHL, [0x40 | (len / 4) as u8 & 0x0f]);
    }

    /// Sets the DS and ECN code points.
    #[inline]
    pub fn set_ds(&mut self, dscp: u8, ecn: u8) {
        put(self.data_mut(), at::DS, [dscp << 2 | ecn & 3]);
    }

    /// Sets the bytes of the packet, header included.
    #[inline]
    pub fn set_total_len(&mut self, len: u16) {
        put(self.data_mut(), at::TOTAL_LEN, len.to_be_bytes());
    }

    /// Sets the identification.
    #[inline]
    pub fn set_ident(&mut self, ident: u16) {
        put(self.data_mut(), at::IDENT, ident.to_be_bytes());
    }

    /// Sets the word of flags and fragment offset.
    #[inline]
    pub fn set_flags_offset(&mut self, word: u16) {
        put(self.data_mut(), at::FLAGS_OFFSET, word.to_be_bytes());
    }

    /// Sets the time to live.
    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        put(self.data_mut(), at::TTL, [ttl]);
    }

    /// Sets what is carried.
    #[inline]
    pub fn set_protocol(&mut self, protocol: Protocol) {
        put(self.data_mut(), at::PROTOCOL, [protocol.0]);
    }

    /// Sets the header checksum.
    #[inline]
    pub fn set_checksum(&mut self, check: u16) {
        put(self.data_mut(), at::CHECKSUM, check.to_be_bytes());
    }

    /// Sets the source.
    #[inline]
    pub fn set_src(&mut self, addr: Ipv4Addr) {
        put(self.data_mut(), at::SRC, addr.octets());
    }

    /// Sets the destination.
    #[inline]
    pub fn set_dst(&mut self, addr: Ipv4Addr) {
        put(self.data_mut(), at::DST, addr.octets());
    }

    /// Computes and sets the header checksum.
    #[inline]
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let check = checksum::checksum(slice(self.data(), 0, self.header_len()));
        self.set_checksum(check);
    }

    /// Lowers the time to live by one and mends the checksum (RFC 1624): what a router does. False, with nothing
    /// changed, when it would reach zero.
    #[inline]
    pub fn decrement_ttl(&mut self) -> bool {
        if self.ttl() <= 1 {
            return false;
        }
        let (ttl, protocol) = (self.ttl(), self.protocol().0);
        let (old, new) = (u16::from_be_bytes([ttl, protocol]), u16::from_be_bytes([ttl - 1, protocol]));
        self.set_checksum(checksum::update(self.checksum(), old, new));
        self.set_ttl(ttl - 1);
        true
    }

    /// What the packet carries, to change.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (from, to) = (self.header_len(), self.total_len());
        slice_mut(self.data_mut(), from, to)
    }
}

/// An IPv4 header without options of a whole packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The source.
    pub src: Ipv4Addr,
    /// The destination.
    pub dst: Ipv4Addr,
    /// What is carried.
    pub protocol: Protocol,
    /// Bytes carried.
    pub payload_len: u16,
    /// The time to live.
    pub ttl: u8,
    /// The DS code point (6 bits).
    pub dscp: u8,
    /// The ECN code point (2 bits).
    pub ecn: u8,
    /// The identification; zero is right for packets that may not be fragmented (RFC 6864 section 4.1).
    pub ident: u16,
    /// Whether routers must not fragment it.
    pub dont_fragment: bool,
}

impl Repr {
    /// Reads a header and checks its checksum. Options are skipped, a fragment is [`Error::Fragment`].
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        packet.check()?;
        if !packet.verify_checksum() {
            return Err(Error::Checksum);
        }
        if packet.is_fragment() {
            return Err(Error::Fragment);
        }
        Ok(Repr {
            src: packet.src(),
            dst: packet.dst(),
            protocol: packet.protocol(),
            payload_len: (packet.total_len() - packet.header_len()) as u16,
            ttl: packet.ttl(),
            dscp: packet.dscp(),
            ecn: packet.ecn(),
            ident: packet.ident(),
            dont_fragment: packet.dont_fragment(),
        })
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header with its checksum. `payload_len` may be at most 65,515; more saturates.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_header_len(HEADER_LEN);
        packet.set_ds(self.dscp, self.ecn);
        packet.set_total_len(self.payload_len.saturating_add(HEADER_LEN as u16));
        packet.set_ident(self.ident);
        packet.set_flags_offset(if self.dont_fragment { DONT_FRAGMENT } else { 0 });
        packet.set_ttl(self.ttl);
        packet.set_protocol(self.protocol);
        packet.set_src(self.src);
        packet.set_dst(self.dst);
        packet.fill_checksum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sum by hand: 4500+001a+0000+4000+4011+c0a8+0001+c0a8+00c7 = (2) 4743 -> 4745 -> b8ba.
    const BYTES: [u8; 26] = [
        0x45, 0x00, 0x00, 0x1a, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0xba, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
        0xa8, 0x00, 0xc7, 1, 2, 3, 4, 5, 6,
    ];
    const REPR: Repr = Repr {
        src: Ipv4Addr::new(192, 168, 0, 1),
        dst: Ipv4Addr::new(192, 168, 0, 199),
        protocol: Protocol::UDP,
        payload_len: 6,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        ident: 0,
        dont_fragment: true,
    };

    #[test]
    fn deconstruct() {
        let packet = Packet::new_checked(&BYTES[..]).unwrap();
        assert_eq!(packet.payload(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(packet.options(), []);
        assert!(packet.verify_checksum());
        assert_eq!(Repr::parse(&packet), Ok(REPR));
    }

    #[test]
    fn construct() {
        let mut bytes = [0xa5; 26];
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        REPR.emit(&mut packet);
        packet.payload_mut().copy_from_slice(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn a_checksum_computed_elsewhere() {
        // A well-known worked example of the header checksum: 0xb861.
        let mut bytes = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xa5, 0xa5, 0xc0, 0xa8, 0x00, 0x01,
            0xc0, 0xa8, 0x00, 0xc7,
        ];
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        packet.fill_checksum();
        assert_eq!(packet.checksum(), 0xb861);
    }

    #[test]
    fn options_are_kept_apart_from_the_payload() {
        let mut bytes = [0u8; 30];
        bytes[0] = 0x46;
        bytes[3] = 26; // four bytes of padding behind the packet
        bytes[20..26].copy_from_slice(&[0x94, 4, 0, 0, 7, 8]); // router alert
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        packet.fill_checksum();
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        assert_eq!(packet.options(), [0x94, 4, 0, 0]);
        assert_eq!(packet.payload(), [7, 8]);
        assert_eq!(Repr::parse(&packet).unwrap().payload_len, 2);
    }

    #[test]
    fn wrong_headers_are_refused() {
        let with = |at: usize, value: u8| {
            let mut bytes = BYTES;
            bytes[at] = value;
            Packet::new_unchecked(&mut bytes[..]).fill_checksum();
            Repr::parse(&Packet::new_unchecked(&bytes[..])).err()
        };
        assert_eq!(with(0, 0x65), Some(Error::Malformed));
        assert_eq!(with(0, 0x44), Some(Error::Malformed));
        assert_eq!(with(0, 0x4f), Some(Error::Malformed));
        assert_eq!(with(3, 19), Some(Error::Malformed));
        assert_eq!(with(3, 27), Some(Error::Truncated));
        assert_eq!(with(6, 0x20), Some(Error::Fragment));
        assert_eq!(with(7, 0x01), Some(Error::Fragment));
        assert_eq!(with(6, 0x00), None);
        let mut bytes = BYTES;
        bytes[15] ^= 1;
        assert_eq!(Repr::parse(&Packet::new_unchecked(&bytes[..])), Err(Error::Checksum));
        assert_eq!(Packet::new_checked(&BYTES[..19]).err(), Some(Error::Truncated));
    }

    #[test]
    fn ttl_goes_down_with_the_checksum() {
        let mut bytes = BYTES;
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        for left in (1..64).rev() {
            assert!(packet.decrement_ttl());
            assert_eq!(packet.ttl(), left);
            assert!(packet.verify_checksum());
        }
        assert!(!packet.decrement_ttl());
        assert_eq!(packet.ttl(), 1);
    }

    proptest! {
        #[test]
        fn parse_emit(
            src: u32, dst: u32, protocol: u8, payload_len in 0u16..200, ttl: u8,
            dscp in 0u8..64, ecn in 0u8..4, ident: u16, dont_fragment: bool,
        ) {
            let repr = Repr {
                src: src.into(), dst: dst.into(), protocol: Protocol(protocol), payload_len, ttl, dscp, ecn, ident,
                dont_fragment,
            };
            let mut bytes = [0xa5; 220];
            repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), Ok(repr));
        }
    }
}
