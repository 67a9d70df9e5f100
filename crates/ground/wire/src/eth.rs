//! Ethernet II (RFC 894).

use crate::field::{array, put, slice, slice_mut, u16_at, view};
use crate::{Error, MacAddr};
use core::fmt;

/// Where the fields are.
mod at {
    pub const DST: usize = 0;
    pub const SRC: usize = 6;
    pub const ETHERTYPE: usize = 12;
    pub const PAYLOAD: usize = 14;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = at::PAYLOAD;

/// What an Ethernet frame carries (IANA "IEEE 802 Numbers").
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(transparent)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP.
    pub const ARP: EtherType = EtherType(0x0806);
    /// A VLAN tag follows (IEEE 802.1Q customer tag).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// A service VLAN tag follows (IEEE 802.1ad, "QinQ").
    pub const QINQ: EtherType = EtherType(0x88a8);

    /// Whether it is no type but the length of an IEEE 802.3 frame.
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }

    /// Whether a VLAN tag follows.
    #[inline]
    pub const fn is_tag(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::QINQ)
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

view! {
    /// An Ethernet frame, without its FCS.
    Packet, min HEADER_LEN
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// `Truncated` when the header is not whole.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        self.check_min()
    }

    /// The destination.
    #[inline]
    pub fn dst(&self) -> MacAddr {
        MacAddr(array(self.data(), at::DST))
    }

    /// The source.
    #[inline]
    pub fn src(&self) -> MacAddr {
        MacAddr(array(self.data(), at::SRC))
    }

    /// The type, which may be that of a VLAN tag or an IEEE 802.3 length.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        EtherType(u16_at(self.data(), at::ETHERTYPE))
    }
}

impl<'a> Packet<&'a [u8]> {
    /// What follows the header: padding of a short frame is not told apart here.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buffer, at::PAYLOAD, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the destination.
    #[inline]
    pub fn set_dst(&mut self, mac: MacAddr) {
        put(self.data_mut(), at::DST, mac.0);
    }

    /// Sets the source.
    #[inline]
    pub fn set_src(&mut self, mac: MacAddr) {
        put(self.data_mut(), at::SRC, mac.0);
    }

    /// Sets the type.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        put(self.data_mut(), at::ETHERTYPE, ethertype.0.to_be_bytes());
    }

    /// What follows the header, to change.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        slice_mut(self.data_mut(), at::PAYLOAD, usize::MAX)
    }
}

/// An Ethernet II header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The destination.
    pub dst: MacAddr,
    /// The source.
    pub src: MacAddr,
    /// What is carried.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads a header. `Malformed` for an IEEE 802.3 length in place of a type.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        packet.check()?;
        if packet.ethertype().is_length() {
            return Err(Error::Malformed);
        }
        Ok(Repr { dst: packet.dst(), src: packet.src(), ethertype: packet.ethertype() })
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_dst(self.dst);
        packet.set_src(self.src);
        packet.set_ethertype(self.ethertype);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: [u8; 18] =
        [0x02, 0, 0, 0, 0, 0x0b, 0x02, 0, 0, 0, 0, 0x0a, 0x08, 0x00, 0xde, 0xad, 0xbe, 0xef];

    #[test]
    fn deconstruct() {
        let packet = Packet::new_checked(&BYTES[..]).unwrap();
        assert_eq!(packet.dst(), MacAddr([2, 0, 0, 0, 0, 0x0b]));
        assert_eq!(packet.src(), MacAddr([2, 0, 0, 0, 0, 0x0a]));
        assert_eq!(packet.ethertype(), EtherType::IPV4);
        assert_eq!(packet.payload(), [0xde, 0xad, 0xbe, 0xef]);
    }

    #[test]
    fn construct() {
        let mut bytes = [0xa5; 18];
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        Repr {
            dst: MacAddr([2, 0, 0, 0, 0, 0x0b]),
            src: MacAddr([2, 0, 0, 0, 0, 0x0a]),
            ethertype: EtherType::IPV4,
        }
        .emit(&mut packet);
        packet.payload_mut().copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn short_frames_and_lengths_are_refused() {
        assert_eq!(Packet::new_checked(&BYTES[..13]).err(), Some(Error::Truncated));
        let mut bytes = BYTES;
        bytes[12..14].copy_from_slice(&[0x00, 0x2e]);
        assert_eq!(Repr::parse(&Packet::new_unchecked(&bytes[..])), Err(Error::Malformed));
    }

    proptest! {
        #[test]
        fn parse_emit(dst: [u8; 6], src: [u8; 6], ethertype in 0x600u16..) {
            let repr = Repr { dst: MacAddr(dst), src: MacAddr(src), ethertype: EtherType(ethertype) };
            let mut bytes = [0xa5; HEADER_LEN];
            repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), Ok(repr));
        }
    }
}
