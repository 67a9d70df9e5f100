//! UDP (RFC 768; over IPv6: RFC 8200 section 8.1).

use crate::field::{put, slice, slice_mut, u16_at, view};
use crate::{Error, Protocol, checksum};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where the fields are.
mod at {
    pub const SRC_PORT: usize = 0;
    pub const DST_PORT: usize = 2;
    pub const LEN: usize = 4;
    pub const CHECKSUM: usize = 6;
    pub const PAYLOAD: usize = 8;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = at::PAYLOAD;

view! {
    /// A UDP datagram. The buffer may be longer than the datagram.
    Packet, min HEADER_LEN
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// The header whole, the datagram inside the buffer.
    pub fn check(&self) -> Result<(), Error> {
        self.check_min()?;
        if self.len() < HEADER_LEN {
            return Err(Error::Malformed);
        }
        if self.data().len() < self.len() {
            return Err(Error::Truncated);
        }
        Ok(())
    }

    /// The source port.
    #[inline]
    pub fn src_port(&self) -> u16 {
        u16_at(self.data(), at::SRC_PORT)
    }

    /// The destination port.
    #[inline]
    pub fn dst_port(&self) -> u16 {
        u16_at(self.data(), at::DST_PORT)
    }

    /// Bytes of header and payload.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        usize::from(u16_at(self.data(), at::LEN))
    }

    /// The checksum; zero means that the sender computed none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        u16_at(self.data(), at::CHECKSUM)
    }

    /// Whether the checksum holds over IPv4; a sender may have computed none.
    #[inline]
    pub fn verify_v4(&self, src: Ipv4Addr, dst: Ipv4Addr) -> bool {
        if self.checksum() == 0 {
            return true;
        }
        let pseudo = checksum::pseudo_v4(src, dst, Protocol::UDP.0, self.len() as u16);
        checksum::is_intact(pseudo + checksum::sum(slice(self.data(), 0, self.len())))
    }

    /// Whether the checksum holds over IPv6, where every sender must compute one.
    #[inline]
    pub fn verify_v6(&self, src: Ipv6Addr, dst: Ipv6Addr) -> bool {
        if self.checksum() == 0 {
            return false;
        }
        let pseudo = checksum::pseudo_v6(src, dst, Protocol::UDP.0, self.len() as u32);
        checksum::is_intact(pseudo + checksum::sum(slice(self.data(), 0, self.len())))
    }
}

impl<'a> Packet<&'a [u8]> {
    /// The payload, without anything behind the datagram.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buffer, at::PAYLOAD, self.len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets the source port.
    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        put(self.data_mut(), at::SRC_PORT, port.to_be_bytes());
    }

    /// Sets the destination port.
    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        put(self.data_mut(), at::DST_PORT, port.to_be_bytes());
    }

    /// Sets the bytes of header and payload.
    #[inline]
    pub fn set_len(&mut self, len: u16) {
        put(self.data_mut(), at::LEN, len.to_be_bytes());
    }

    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, check: u16) {
        put(self.data_mut(), at::CHECKSUM, check.to_be_bytes());
    }

    /// Computes and sets the checksum of the datagram as it stands; a pair of unequal families sets none (zero).
    pub fn fill_checksum(&mut self, src: IpAddr, dst: IpAddr) {
        self.set_checksum(0);
        let len = self.len();
        let pseudo = match (src, dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => checksum::pseudo_v4(s, d, Protocol::UDP.0, len as u16),
            (IpAddr::V6(s), IpAddr::V6(d)) => checksum::pseudo_v6(s, d, Protocol::UDP.0, len as u32),
            _ => return,
        };
        let check = checksum::finish_udp(pseudo + checksum::sum(slice(self.data(), 0, len)));
        self.set_checksum(check);
    }

    /// The payload, to change.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let to = self.len();
        slice_mut(self.data_mut(), at::PAYLOAD, to)
    }
}

/// A UDP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The source port; zero when no reply is wanted.
    pub src_port: u16,
    /// The destination port.
    pub dst_port: u16,
    /// Bytes of the payload.
    pub payload_len: u16,
}

impl Repr {
    /// Reads a header and checks the checksum. `Malformed` for destination port 0 or addresses of unequal families.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>, src: IpAddr, dst: IpAddr) -> Result<Repr, Error> {
        packet.check()?;
        let intact = match (src, dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => packet.verify_v4(s, d),
            (IpAddr::V6(s), IpAddr::V6(d)) => packet.verify_v6(s, d),
            _ => return Err(Error::Malformed),
        };
        if !intact {
            return Err(Error::Checksum);
        }
        if packet.dst_port() == 0 {
            return Err(Error::Malformed);
        }
        Ok(Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            payload_len: (packet.len() - HEADER_LEN) as u16,
        })
    }

    /// Bytes that [`emit`](Self::emit) writes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header, with no checksum: write the payload, then [`Packet::fill_checksum`].
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_src_port(self.src_port);
        packet.set_dst_port(self.dst_port);
        packet.set_len(self.payload_len.saturating_add(HEADER_LEN as u16));
        packet.set_checksum(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SRC: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 1, 1));
    const DST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 1, 2));
    /// Checksum by hand: c0a8+0101+c0a8+0102+0011+000c + bf00+0035+000c + aa00+00ff = (2) edb0 -> edb2 -> 124d.
    const BYTES: [u8; 12] = [0xbf, 0x00, 0x00, 0x35, 0x00, 0x0c, 0x12, 0x4d, 0xaa, 0x00, 0x00, 0xff];
    const REPR: Repr = Repr { src_port: 48896, dst_port: 53, payload_len: 4 };

    #[test]
    fn deconstruct() {
        let packet = Packet::new_checked(&BYTES[..]).unwrap();
        assert_eq!(packet.payload(), [0xaa, 0x00, 0x00, 0xff]);
        assert_eq!(Repr::parse(&packet, SRC, DST), Ok(REPR));
    }

    #[test]
    fn construct() {
        let mut bytes = [0xa5; 12];
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        REPR.emit(&mut packet);
        packet.payload_mut().copy_from_slice(&[0xaa, 0x00, 0x00, 0xff]);
        packet.fill_checksum(SRC, DST);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn zero_is_no_checksum_on_ipv4_and_an_error_on_ipv6() {
        let mut bytes = BYTES;
        bytes[6..8].fill(0);
        let packet = Packet::new_checked(&bytes[..]).unwrap();
        assert_eq!(Repr::parse(&packet, SRC, DST), Ok(REPR));
        let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
        assert_eq!(Repr::parse(&packet, v6, v6), Err(Error::Checksum));
        assert_eq!(Repr::parse(&packet, SRC, v6), Err(Error::Malformed));
    }

    #[test]
    fn a_sum_of_zero_is_sent_as_ones() {
        // The payload makes the whole sum 0xffff, whose complement is zero.
        let mut bytes = [0u8; 10];
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        Repr { src_port: 1, dst_port: 2, payload_len: 2 }.emit(&mut packet);
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let partial = checksum::pseudo_v4(a, b, 17, 10) + 1 + 2 + 10;
        packet.payload_mut().copy_from_slice(&checksum::finish(partial).to_be_bytes());
        packet.fill_checksum(a.into(), b.into());
        assert_eq!(packet.checksum(), 0xffff);
        assert!(packet.verify_v4(a, b));
    }

    #[test]
    fn impossible_lengths_and_ports_are_refused() {
        let with = |at: usize, value: u8| {
            let mut bytes = BYTES;
            bytes[at] = value;
            bytes[6..8].fill(0);
            Repr::parse(&Packet::new_unchecked(&bytes[..]), SRC, DST).err()
        };
        assert_eq!(with(5, 7), Some(Error::Malformed));
        assert_eq!(with(5, 13), Some(Error::Truncated));
        assert_eq!(with(3, 0), Some(Error::Malformed));
        assert_eq!(with(8, 0), None);
        let mut bytes = BYTES;
        bytes[11] ^= 0x10;
        assert_eq!(Repr::parse(&Packet::new_unchecked(&bytes[..]), SRC, DST), Err(Error::Checksum));
    }

    proptest! {
        #[test]
        fn parse_emit(
            src_port: u16, dst_port in 1u16.., payload in prop::collection::vec(any::<u8>(), 0..64),
            src: u128, dst: u128, v6: bool,
        ) {
            let repr = Repr { src_port, dst_port, payload_len: payload.len() as u16 };
            let addr = |bits: u128| -> IpAddr {
                if v6 { Ipv6Addr::from_bits(bits).into() } else { Ipv4Addr::from_bits(bits as u32).into() }
            };
            let mut bytes = [0xa5; 80];
            let mut packet = Packet::new_unchecked(&mut bytes[..]);
            repr.emit(&mut packet);
            packet.payload_mut().copy_from_slice(&payload);
            packet.fill_checksum(addr(src), addr(dst));
            let packet = Packet::new_checked(&bytes[..]).unwrap();
            prop_assert_eq!(Repr::parse(&packet, addr(src), addr(dst)), Ok(repr));
        }
    }
}
