//! The TCP header and its options (RFC 9293; window scale, timestamps: RFC 7323; selective acknowledgement: RFC 2018).
//!
//! No TCP runs here: the header is for the switch, for traces and for telling whose packet a frame is.

use crate::field::{put, put_slice, slice, u8_at, u16_at, u32_at, view};
use crate::{Error, Protocol, checksum};
use core::net::IpAddr;

/// Where the fields are.
mod at {
    pub const SRC_PORT: usize = 0;
    pub const DST_PORT: usize = 2;
    pub const SEQ: usize = 4;
    pub const ACK: usize = 8;
    pub const OFFSET_FLAGS: usize = 12;
    pub const WINDOW: usize = 14;
    pub const CHECKSUM: usize = 16;
    pub const URGENT: usize = 18;
    pub const OPTIONS: usize = 20;
}

/// Bytes of a header without options.
pub const HEADER_LEN: usize = at::OPTIONS;
/// Bytes of the longest header.
pub const HEADER_MAX: usize = 60;

/// The nine control bits, FIN the lowest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x001);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x002);
    /// Reset.
    pub const RST: Flags = Flags(0x004);
    /// Push.
    pub const PSH: Flags = Flags(0x008);
    /// The acknowledgement number is significant.
    pub const ACK: Flags = Flags(0x010);
    /// The urgent pointer is significant.
    pub const URG: Flags = Flags(0x020);
    /// ECN echo.
    pub const ECE: Flags = Flags(0x040);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(0x080);
    /// Accurate ECN, once the nonce sum.
    pub const AE: Flags = Flags(0x100);

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    pub const fn union(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// One option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpOption<'a> {
    /// Maximum segment size in bytes.
    MaxSegment(u16),
    /// Window scale, as a shift.
    WindowScale(u8),
    /// Selective acknowledgements are welcome.
    SackPermitted,
    /// Selectively acknowledged blocks, unread: pairs of 32-bit edges.
    Sack(&'a [u8]),
    /// Timestamps: the sender's value and the echoed one.
    Timestamps(u32, u32),
    /// Any other kind, with its data.
    Other(u8, &'a [u8]),
}

/// The options of a header, one at a time; padding is skipped. Ends after the first error.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Over the bytes of options.
    pub const fn new(options: &'a [u8]) -> Self {
        Options { rest: options }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.rest {
                [] | [0, ..] => return None,
                [1, ref rest @ ..] => self.rest = rest,
                _ => break,
            }
        }
        let (kind, len) = (u8_at(self.rest, 0), usize::from(u8_at(self.rest, 1)));
        if len < 2 || len > self.rest.len() {
            self.rest = &[];
            return Some(Err(Error::Malformed));
        }
        let (option, rest) = self.rest.split_at(len);
        self.rest = rest;
        let data = &option[2..];
        Some(Ok(match (kind, len) {
            (2, 4) => TcpOption::MaxSegment(u16_at(data, 0)),
            (3, 3) => TcpOption::WindowScale(u8_at(data, 0)),
            (4, 2) => TcpOption::SackPermitted,
            (5, _) if data.len() % 8 == 0 => TcpOption::Sack(data),
            (8, 10) => TcpOption::Timestamps(u32_at(data, 0), u32_at(data, 4)),
            (2..=5 | 8, _) => {
                self.rest = &[];
                return Some(Err(Error::Malformed));
            }
            _ => TcpOption::Other(kind, data),
        }))
    }
}

view! {
    /// A TCP segment.
    Packet, min HEADER_LEN
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// The header with its options inside the buffer.
    pub fn check(&self) -> Result<(), Error> {
        self.check_min()?;
        if self.header_len() < HEADER_LEN {
            return Err(Error::Malformed);
        }
        if self.data().len() < self.header_len() {
            return Err(Error::Truncated);
        }
        Ok(())
    }

    /// The source port.
    pub fn src_port(&self) -> u16 {
        u16_at(self.data(), at::SRC_PORT)
    }

    /// The destination port.
    pub fn dst_port(&self) -> u16 {
        u16_at(self.data(), at::DST_PORT)
    }

    /// The sequence number.
    pub fn seq(&self) -> u32 {
        u32_at(self.data(), at::SEQ)
    }

    /// The acknowledgement number.
    pub fn ack(&self) -> u32 {
        u32_at(self.data(), at::ACK)
    }

    /// Bytes of the header with its options.
    pub fn header_len(&self) -> usize {
        usize::from(u8_at(self.data(), at::OFFSET_FLAGS) >> 4) * 4
    }

    /// The control bits.
    pub fn flags(&self) -> Flags {
        Flags(u16_at(self.data(), at::OFFSET_FLAGS) & 0x01ff)
    }

    /// The window, unscaled.
    pub fn window(&self) -> u16 {
        u16_at(self.data(), at::WINDOW)
    }

    /// The checksum.
    pub fn checksum(&self) -> u16 {
        u16_at(self.data(), at::CHECKSUM)
    }

    /// The urgent pointer.
    pub fn urgent(&self) -> u16 {
        u16_at(self.data(), at::URGENT)
    }

    /// Whether the checksum holds; the buffer must be the segment and nothing more.
    pub fn verify_checksum(&self, src: IpAddr, dst: IpAddr) -> bool {
        pseudo(src, dst, self.data().len())
            .is_some_and(|pseudo| checksum::is_intact(pseudo + checksum::sum(self.data())))
    }
}

fn pseudo(src: IpAddr, dst: IpAddr, len: usize) -> Option<u32> {
    match (src, dst) {
        (IpAddr::V4(s), IpAddr::V4(d)) => Some(checksum::pseudo_v4(s, d, Protocol::TCP.0, len as u16)),
        (IpAddr::V6(s), IpAddr::V6(d)) => Some(checksum::pseudo_v6(s, d, Protocol::TCP.0, len as u32)),
        _ => None,
    }
}

impl<'a> Packet<&'a [u8]> {
    /// The options.
    pub fn options(&self) -> Options<'a> {
        Options::new(slice(self.buffer, at::OPTIONS, self.header_len()))
    }

    /// The payload.
    pub fn payload(&self) -> &'a [u8] {
        slice(self.buffer, self.header_len(), usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Sets both ports.
    pub fn set_ports(&mut self, src: u16, dst: u16) {
        put(self.data_mut(), at::SRC_PORT, src.to_be_bytes());
        put(self.data_mut(), at::DST_PORT, dst.to_be_bytes());
    }

    /// Sets sequence and acknowledgement number.
    pub fn set_numbers(&mut self, seq: u32, ack: u32) {
        put(self.data_mut(), at::SEQ, seq.to_be_bytes());
        put(self.data_mut(), at::ACK, ack.to_be_bytes());
    }

    /// Sets the header's length in bytes, rounded down to words, and the control bits.
    pub fn set_header_len_flags(&mut self, len: usize, flags: Flags) {
        let word = ((len / 4) as u16 & 0x0f) << 12 | flags.0 & 0x01ff;
        put(self.data_mut(), at::OFFSET_FLAGS, word.to_be_bytes());
    }

    /// Sets the window, unscaled.
    pub fn set_window(&mut self, window: u16) {
        put(self.data_mut(), at::WINDOW, window.to_be_bytes());
    }

    /// Sets the checksum.
    pub fn set_checksum(&mut self, check: u16) {
        put(self.data_mut(), at::CHECKSUM, check.to_be_bytes());
    }

    /// Sets the urgent pointer.
    pub fn set_urgent(&mut self, urgent: u16) {
        put(self.data_mut(), at::URGENT, urgent.to_be_bytes());
    }

    /// Computes and sets the checksum; the buffer must be the segment and nothing more.
    pub fn fill_checksum(&mut self, src: IpAddr, dst: IpAddr) {
        self.set_checksum(0);
        if let Some(pseudo) = pseudo(src, dst, self.data().len()) {
            let check = checksum::finish(pseudo + checksum::sum(self.data()));
            self.set_checksum(check);
        }
    }
}

/// A TCP header with the options that handshakes use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The source port.
    pub src_port: u16,
    /// The destination port.
    pub dst_port: u16,
    /// The sequence number.
    pub seq: u32,
    /// The acknowledgement number.
    pub ack: u32,
    /// The control bits.
    pub flags: Flags,
    /// The window, unscaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// Maximum segment size in bytes.
    pub max_segment: Option<u16>,
    /// Window scale, as a shift.
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgements are welcome.
    pub sack_permitted: bool,
    /// Timestamps: the sender's value and the echoed one.
    pub timestamps: Option<(u32, u32)>,
}

impl Repr {
    /// Reads a header; the checksum is the caller's, who has the addresses. Options of other kinds are skipped.
    pub fn parse(packet: &Packet<&[u8]>) -> Result<Repr, Error> {
        packet.check()?;
        let mut repr = Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            seq: packet.seq(),
            ack: packet.ack(),
            flags: packet.flags(),
            window: packet.window(),
            urgent: packet.urgent(),
            max_segment: None,
            window_scale: None,
            sack_permitted: false,
            timestamps: None,
        };
        for option in packet.options() {
            match option? {
                TcpOption::MaxSegment(bytes) => repr.max_segment = Some(bytes),
                TcpOption::WindowScale(shift) => repr.window_scale = Some(shift),
                TcpOption::SackPermitted => repr.sack_permitted = true,
                TcpOption::Timestamps(value, echo) => repr.timestamps = Some((value, echo)),
                TcpOption::Sack(_) | TcpOption::Other(..) => {}
            }
        }
        Ok(repr)
    }

    /// Bytes that [`emit`](Self::emit) writes: at most [`HEADER_MAX`].
    pub const fn buffer_len(&self) -> usize {
        let mut len: usize = 0;
        if self.max_segment.is_some() {
            len += 4;
        }
        if self.window_scale.is_some() {
            len += 3;
        }
        if self.sack_permitted {
            len += 2;
        }
        if self.timestamps.is_some() {
            len += 10;
        }
        HEADER_LEN + len.div_ceil(4) * 4
    }

    /// Writes the header, with no checksum: write the payload, then [`Packet::fill_checksum`].
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        packet.set_ports(self.src_port, self.dst_port);
        packet.set_numbers(self.seq, self.ack);
        packet.set_header_len_flags(self.buffer_len(), self.flags);
        packet.set_window(self.window);
        packet.set_checksum(0);
        packet.set_urgent(self.urgent);
        let mut options = [0u8; HEADER_MAX - HEADER_LEN];
        let mut end = 0;
        let mut push = |bytes: &[u8]| {
            put_slice(&mut options, end, bytes);
            end += bytes.len();
        };
        if let Some(bytes) = self.max_segment {
            push(&[2, 4]);
            push(&bytes.to_be_bytes());
        }
        if let Some(shift) = self.window_scale {
            push(&[3, 3, shift]);
        }
        if self.sack_permitted {
            push(&[4, 2]);
        }
        if let Some((value, echo)) = self.timestamps {
            push(&[8, 10]);
            push(&value.to_be_bytes());
            push(&echo.to_be_bytes());
        }
        put_slice(packet.data_mut(), at::OPTIONS, &options[..self.buffer_len() - HEADER_LEN]);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;
    use std::vec;

    const SYN: [u8; 40] = [
        0x30, 0x39, 0x00, 0x50, 0x01, 0x02, 0x03, 0x04, 0x00, 0x00, 0x00, 0x00, 0xa0, 0xc2, 0xfa, 0xf0, 0x00,
        0x00, 0x00, 0x00, 2, 4, 5, 0xb4, 3, 3, 7, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0,
    ];
    const REPR: Repr = Repr {
        src_port: 12345,
        dst_port: 80,
        seq: 0x0102_0304,
        ack: 0,
        flags: Flags(0xc2),
        window: 0xfaf0,
        urgent: 0,
        max_segment: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((1, 0)),
    };

    #[test]
    fn deconstruct() {
        let packet = Packet::new_checked(&SYN[..]).unwrap();
        assert_eq!(Repr::parse(&packet), Ok(REPR));
        assert!(packet.flags().contains(Flags::SYN.union(Flags::ECE)));
        assert!(!packet.flags().contains(Flags::ACK));
        assert_eq!(packet.payload(), []);
    }

    #[test]
    fn construct() {
        let mut bytes = [0xa5; 40];
        REPR.emit(&mut Packet::new_unchecked(&mut bytes[..]));
        assert_eq!(bytes, SYN);
    }

    #[test]
    fn checksums_hold_until_a_bit_flips() {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1).into(), Ipv4Addr::new(10, 0, 0, 2).into());
        let mut bytes = SYN;
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        packet.fill_checksum(a, b);
        assert!(packet.verify_checksum(a, b));
        bytes[5] ^= 4;
        assert!(!Packet::new_unchecked(&bytes[..]).verify_checksum(a, b));
    }

    #[test]
    fn options_of_other_kinds_pass_and_wrong_ones_do_not() {
        let all = |options: &'static [u8]| Options::new(options).collect::<vec::Vec<_>>();
        assert_eq!(all(&[1, 1, 254, 4, 9, 9, 0, 2]), vec![Ok(TcpOption::Other(254, &[9, 9]))]);
        assert_eq!(
            all(&[5, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
            vec![Ok(TcpOption::Sack(&[0, 0, 0, 1, 0, 0, 0, 2]))]
        );
        for bad in
            [&[2u8, 0][..], &[2, 5, 0, 0, 0], &[3], &[8, 10, 0], &[5, 9, 0, 0, 0, 0, 0, 0, 0], &[254, 1]]
        {
            assert_eq!(Options::new(bad).last(), Some(Err(Error::Malformed)), "{bad:?}");
        }
    }

    #[test]
    fn short_headers_are_refused() {
        assert_eq!(Packet::new_checked(&SYN[..19]).err(), Some(Error::Truncated));
        assert_eq!(Packet::new_checked(&SYN[..39]).err(), Some(Error::Truncated));
        let mut bytes = SYN;
        bytes[12] = 0x40;
        assert_eq!(Packet::new_checked(&bytes[..]).err(), Some(Error::Malformed));
    }

    proptest! {
        #[test]
        fn parse_emit(
            ports: (u16, u16), numbers: (u32, u32), flags in 0u16..0x200, window: u16, urgent: u16,
            max_segment: Option<u16>, window_scale: Option<u8>, sack_permitted: bool,
            timestamps: Option<(u32, u32)>,
        ) {
            let repr = Repr {
                src_port: ports.0, dst_port: ports.1, seq: numbers.0, ack: numbers.1, flags: Flags(flags), window,
                urgent, max_segment, window_scale, sack_permitted, timestamps,
            };
            let mut bytes = vec![0xa5; repr.buffer_len()];
            repr.emit(&mut Packet::new_unchecked(&mut bytes[..]));
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), Ok(repr));
        }
    }
}
