//! The message transport's own header, version 1, carried in UDP. All fields are big-endian.
//!
//! Every packet starts with the same 40 bytes; the kind decides what follows.
//!
//! ```text
//!  0        4    5     6      8         16    20    24      28     32           36       40
//!  | crc32c | VK | flg | zero | dst_cid | seq | ack | stamp | echo | echo_delay | credit | body ...
//! ```
//!
//! - `crc32c` (Castagnoli) covers every byte after itself to the end of the UDP payload. UDP's own 16-bit sum misses one
//!   corruption in 65,536, so it is not what integrity rests on. The addresses are left out: a misdelivered packet is
//!   caught by its connection id, and address translation may stand between two hosts.
//! - `VK`: version in the high nibble, [`Kind`] in the low one.
//! - `dst_cid`: the receiver's own 64-bit connection id. Unguessable, so it proves that the sender saw our packets.
//! - `seq`: number of this segment; in packets that carry none, the next one to be sent.
//! - `ack`: the next segment number expected: everything before it has arrived.
//! - `stamp`, `echo`, `echo_delay`: times in units of [`STAMP_UNIT_NS`], modulo 2^32. The sender's clock, the last stamp
//!   heard from the peer, and how long that one was held back: round-trip time without clock agreement.
//! - `credit`: message bytes the receiver is ready to take since the flow began, in units of [`CREDIT_UNIT`],
//!   modulo 2^32.
//!
//! Encrypted flows have kinds of their own for data, acknowledgements and resets. In these the place of `crc32c` holds the low
//! half of the packet number, the 40 bytes are authenticated and in clear, all after them is encrypted, and [`TAG_LEN`] bytes of
//! authentication tag end the packet. What their handshake adds is in [`secure`].

/// The version this module speaks.
pub const VERSION: u8 = 1;
/// Bytes common to all kinds.
pub const COMMON_LEN: usize = 40;
/// Bytes before the payload of a [`Kind::Data`] packet.
pub const DATA_HEADER_LEN: usize = COMMON_LEN + 12;
/// Nanoseconds in a unit of `stamp`, `echo` and `echo_delay`: they wrap after 68.7 s.
pub const STAMP_UNIT_NS: u64 = 16;
/// Bytes in a unit of `credit`.
pub const CREDIT_UNIT: u32 = 64;
/// Largest message: 64 MiB.
pub const MESSAGE_LEN_MAX: u32 = 64 << 20;
/// Most SACK ranges in one acknowledgement.
pub const SACK_RANGES_MAX: usize = 16;

/// A segment may travel in pieces: each begins at a multiple of so many-eth part of a full segment, rounded up to bytes, and ends at
/// one or with the segment.
pub const PIECES: u16 = 16;

/// Bytes of the tag that ends a sealed packet.
pub const TAG_LEN: usize = 16;

pub mod secure;

/// What a packet is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Client to server: open a flow. Body: [`Init`].
    Init = 1,
    /// Server to client: the flow is open. Body: [`Accept`].
    Accept = 2,
    /// Server to client: prove your address by sending the INIT again with this cookie. Body: 16 bytes of cookie.
    Retry = 3,
    /// Server to client: no. Body: a reason (u16).
    Reject = 4,
    /// A segment of a message. Body: message id, message length, offset (u32 each), then the bytes.
    Data = 5,
    /// An acknowledgement. Body: SACK ranges, each first and one-past-last segment number (u32 each).
    Ack = 6,
    /// The flow is gone. Body: [`Reset`].
    Reset = 7,
    /// Client to server: who the client is, where its INIT did not say so. Body: a handshake message
    /// ([`secure::parse_confirm`]).
    Confirm = 8,
    /// [`Kind::Data`] of an encrypted flow.
    SealedData = 13,
    /// [`Kind::Ack`] of an encrypted flow.
    SealedAck = 14,
    /// [`Kind::Reset`] of an encrypted flow.
    SealedReset = 15,
}

impl Kind {
    /// The kind that an encrypted flow uses for this one; itself where there is none.
    #[inline]
    pub const fn sealed(self) -> Kind {
        match self {
            Kind::Data => Kind::SealedData,
            Kind::Ack => Kind::SealedAck,
            Kind::Reset => Kind::SealedReset,
            other => other,
        }
    }

    /// The kind inside a sealed one; `None`: it is not sealed.
    #[inline]
    pub const fn opened(self) -> Option<Kind> {
        match self {
            Kind::SealedData => Some(Kind::Data),
            Kind::SealedAck => Some(Kind::Ack),
            Kind::SealedReset => Some(Kind::Reset),
            _ => None,
        }
    }
}

/// Bits of the flags byte.
pub mod flag {
    /// `echo` and `echo_delay` hold a value.
    pub const ECHO: u8 = 0x01;
    /// The sender wants an acknowledgement without delay.
    pub const ACK_NOW: u8 = 0x02;
    /// The receiver dropped a segment because its application has no room: pause, this is no congestion.
    pub const NOT_READY: u8 = 0x04;
    /// This segment ends the sender's half of the flow; it carries no bytes.
    pub const FIN: u8 = 0x08;
    /// A packet since the last acknowledgement came with Congestion Experienced.
    pub const CE: u8 = 0x10;
    /// These bytes are a piece of their segment, not all of it. Only where both ends have agreed on
    /// [`option::PIECES`](super::option::PIECES).
    pub const PIECE: u8 = 0x20;
    /// All bits that version 1 defines.
    pub const ALL: u8 = 0x3f;
}

/// Bits of the options field of [`Init`] and [`Accept`].
pub mod option {
    /// Messages may be delivered in another order than sent.
    pub const UNORDERED: u16 = 0x0001;
    /// The flow is to be encrypted: a handshake follows the body ([`secure`](super::secure)).
    pub const SECURE: u16 = 0x0002;
    /// Segments may travel in pieces ([`flag::PIECE`](super::flag::PIECE)). Who does not know the bit does not answer with it.
    pub const PIECES: u16 = 0x0004;
}

/// Why a header was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Shorter than its kind needs.
    Truncated,
    /// A version other than ours.
    Version(u8),
    /// An undefined kind, a reserved bit, or a body of the wrong shape.
    Malformed,
}

impl From<Error> for barewire_base::DropReason {
    fn from(e: Error) -> Self {
        match e {
            Error::Truncated => barewire_base::DropReason::Truncated,
            Error::Version(_) => barewire_base::DropReason::UnknownVersion,
            Error::Malformed => barewire_base::DropReason::Malformed,
        }
    }
}

/// The common 40 bytes, without the CRC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the packet is for.
    pub kind: Kind,
    /// Bits of [`flag`].
    pub flags: u8,
    /// The receiver's connection id; zero in an INIT and in a reset by a host that no longer knows the flow.
    pub dst_cid: u64,
    /// Segment number.
    pub seq: u32,
    /// Next segment number expected.
    pub ack: u32,
    /// Sender's clock.
    pub stamp: u32,
    /// Last stamp heard.
    pub echo: u32,
    /// How long it was held.
    pub echo_delay: u32,
    /// Credit granted since the flow began.
    pub credit: u32,
}

fn be16(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([b[at], b[at + 1]])
}

fn be32(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

fn be64(b: &[u8], at: usize) -> u64 {
    (u64::from(be32(b, at)) << 32) | u64::from(be32(b, at + 4))
}

impl Header {
    /// Parses the common part. The CRC has its own check: see [`crc`].
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Header, Error> {
        let h: &[u8; COMMON_LEN] = packet.first_chunk().ok_or(Error::Truncated)?;
        if h[4] >> 4 != VERSION {
            return Err(Error::Version(h[4] >> 4));
        }
        let kind = match h[4] & 0x0f {
            1 => Kind::Init,
            2 => Kind::Accept,
            3 => Kind::Retry,
            4 => Kind::Reject,
            5 => Kind::Data,
            6 => Kind::Ack,
            7 => Kind::Reset,
            8 => Kind::Confirm,
            13 => Kind::SealedData,
            14 => Kind::SealedAck,
            15 => Kind::SealedReset,
            _ => return Err(Error::Malformed),
        };
        if h[5] & !flag::ALL != 0 || h[6] != 0 || h[7] != 0 {
            return Err(Error::Malformed);
        }
        Ok(Header {
            kind,
            flags: h[5],
            dst_cid: be64(h, 8),
            seq: be32(h, 16),
            ack: be32(h, 20),
            stamp: be32(h, 24),
            echo: be32(h, 28),
            echo_delay: be32(h, 32),
            credit: be32(h, 36),
        })
    }

    /// Writes the common part with a zero CRC; [`set_crc`] comes last. `out` must hold [`COMMON_LEN`] bytes.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) {
        let h: &mut [u8; COMMON_LEN] =
            out.first_chunk_mut().expect("a packet buffer holds the common header");
        h[0..4].fill(0);
        h[4] = (VERSION << 4) | self.kind as u8;
        h[5] = self.flags;
        h[6..8].fill(0);
        h[8..16].copy_from_slice(&self.dst_cid.to_be_bytes());
        h[16..20].copy_from_slice(&self.seq.to_be_bytes());
        h[20..24].copy_from_slice(&self.ack.to_be_bytes());
        h[24..28].copy_from_slice(&self.stamp.to_be_bytes());
        h[28..32].copy_from_slice(&self.echo.to_be_bytes());
        h[32..36].copy_from_slice(&self.echo_delay.to_be_bytes());
        h[36..40].copy_from_slice(&self.credit.to_be_bytes());
    }
}

/// The CRC that stands in the packet; the bytes it covers are `packet[4..]`. `None` below four bytes.
#[inline]
pub fn crc(packet: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*packet.first_chunk()?))
}

/// Writes the CRC of `packet[4..]`.
#[inline]
pub fn set_crc(packet: &mut [u8], crc: u32) {
    packet[..4].copy_from_slice(&crc.to_be_bytes());
}

/// Body of a DATA packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Number of the message in its flow, counting from zero.
    pub msg_id: u32,
    /// Length of the whole message in bytes.
    pub msg_len: u32,
    /// Where this segment's bytes belong in it.
    pub offset: u32,
}

impl Data {
    /// Parses the body; the segment's bytes follow at [`DATA_HEADER_LEN`].
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<(Data, &[u8]), Error> {
        if packet.len() < DATA_HEADER_LEN {
            return Err(Error::Truncated);
        }
        let data = Data { msg_id: be32(packet, 40), msg_len: be32(packet, 44), offset: be32(packet, 48) };
        let payload = &packet[DATA_HEADER_LEN..];
        let end = u64::from(data.offset) + payload.len() as u64;
        if data.msg_len > MESSAGE_LEN_MAX || end > u64::from(data.msg_len) {
            return Err(Error::Malformed);
        }
        Ok((data, payload))
    }

    /// Writes the body. `out` must hold [`DATA_HEADER_LEN`] bytes.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) {
        out[40..44].copy_from_slice(&self.msg_id.to_be_bytes());
        out[44..48].copy_from_slice(&self.msg_len.to_be_bytes());
        out[48..52].copy_from_slice(&self.offset.to_be_bytes());
    }
}

/// Body of an INIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Init {
    /// The client's connection id.
    pub src_cid: u64,
    /// Most payload bytes of a segment that the client takes.
    pub mss: u16,
    /// Bits of [`option`].
    pub options: u16,
    /// The cookie of a RETRY, or zeros.
    pub cookie: [u8; 16],
}

/// Bytes of an INIT packet.
pub const INIT_LEN: usize = COMMON_LEN + 28;

impl Init {
    /// Parses the body. Bytes after it are ignored: a later version may add some.
    pub fn parse(packet: &[u8]) -> Result<Init, Error> {
        if packet.len() < INIT_LEN {
            return Err(Error::Truncated);
        }
        let mut cookie = [0; 16];
        cookie.copy_from_slice(&packet[52..68]);
        let init =
            Init { src_cid: be64(packet, 40), mss: be16(packet, 48), options: be16(packet, 50), cookie };
        if init.src_cid == 0 || init.mss == 0 {
            return Err(Error::Malformed);
        }
        Ok(init)
    }

    /// Writes the body. `out` must hold [`INIT_LEN`] bytes.
    pub fn emit(&self, out: &mut [u8]) {
        out[40..48].copy_from_slice(&self.src_cid.to_be_bytes());
        out[48..50].copy_from_slice(&self.mss.to_be_bytes());
        out[50..52].copy_from_slice(&self.options.to_be_bytes());
        out[52..68].copy_from_slice(&self.cookie);
    }
}

/// Body of an ACCEPT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accept {
    /// The server's connection id.
    pub src_cid: u64,
    /// Payload bytes of a full segment in both directions: the smaller of what the two ends take.
    pub mss: u16,
    /// Bits of [`option`] that hold for the flow.
    pub options: u16,
}

/// Bytes of an ACCEPT packet.
pub const ACCEPT_LEN: usize = COMMON_LEN + 12;

impl Accept {
    /// Parses the body.
    pub fn parse(packet: &[u8]) -> Result<Accept, Error> {
        if packet.len() < ACCEPT_LEN {
            return Err(Error::Truncated);
        }
        let accept = Accept { src_cid: be64(packet, 40), mss: be16(packet, 48), options: be16(packet, 50) };
        if accept.src_cid == 0 || accept.mss == 0 {
            return Err(Error::Malformed);
        }
        Ok(accept)
    }

    /// Writes the body. `out` must hold [`ACCEPT_LEN`] bytes.
    pub fn emit(&self, out: &mut [u8]) {
        out[40..48].copy_from_slice(&self.src_cid.to_be_bytes());
        out[48..50].copy_from_slice(&self.mss.to_be_bytes());
        out[50..52].copy_from_slice(&self.options.to_be_bytes());
    }
}

/// Bytes of a RETRY packet: the common part and the cookie.
pub const RETRY_LEN: usize = COMMON_LEN + 16;

/// The cookie of a RETRY packet.
pub fn parse_retry(packet: &[u8]) -> Result<[u8; 16], Error> {
    let body = packet.get(COMMON_LEN..RETRY_LEN).ok_or(Error::Truncated)?;
    let mut cookie = [0; 16];
    cookie.copy_from_slice(body);
    Ok(cookie)
}

/// Bytes of a REJECT packet: the common part and the reason.
pub const REJECT_LEN: usize = COMMON_LEN + 2;

/// The reason code of a REJECT packet.
pub fn parse_reject(packet: &[u8]) -> Result<u16, Error> {
    packet.get(COMMON_LEN..REJECT_LEN).map(|b| be16(b, 0)).ok_or(Error::Truncated)
}

/// Body of a RESET.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reset {
    /// The connection id that the offending packet was sent to: proof that the resetter saw it. Zero in a reset that
    /// names the receiver's own `dst_cid`.
    pub proof: u64,
    /// Why.
    pub reason: u16,
}

/// Bytes of a RESET packet.
pub const RESET_LEN: usize = COMMON_LEN + 10;

impl Reset {
    /// Parses the body.
    pub fn parse(packet: &[u8]) -> Result<Reset, Error> {
        if packet.len() < RESET_LEN {
            return Err(Error::Truncated);
        }
        Ok(Reset { proof: be64(packet, 40), reason: be16(packet, 48) })
    }

    /// Writes the body. `out` must hold [`RESET_LEN`] bytes.
    pub fn emit(&self, out: &mut [u8]) {
        out[40..48].copy_from_slice(&self.proof.to_be_bytes());
        out[48..50].copy_from_slice(&self.reason.to_be_bytes());
    }
}

/// The SACK ranges of an ACK packet, as (first, one past last). Surplus bytes and ranges beyond the limit are ignored.
pub fn sack_ranges(packet: &[u8]) -> impl Iterator<Item = (u32, u32)> + '_ {
    packet
        .get(COMMON_LEN..)
        .unwrap_or_default()
        .chunks_exact(8)
        .take(SACK_RANGES_MAX)
        .map(|r| (be32(r, 0), be32(r, 4)))
}

/// Writes SACK range number `i`. `out` must hold `COMMON_LEN + 8 * (i + 1)` bytes.
pub fn emit_sack_range(out: &mut [u8], i: usize, first: u32, end: u32) {
    let at = COMMON_LEN + 8 * i;
    out[at..at + 4].copy_from_slice(&first.to_be_bytes());
    out[at + 4..at + 8].copy_from_slice(&end.to_be_bytes());
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_data_packet_is_these_bytes() {
        let mut p = [0xa5u8; DATA_HEADER_LEN + 2];
        Header {
            kind: Kind::Data,
            flags: flag::ECHO | flag::ACK_NOW,
            dst_cid: 0x0102_0304_0506_0708,
            seq: 0x1112_1314,
            ack: 0x2122_2324,
            stamp: 0x3132_3334,
            echo: 0x4142_4344,
            echo_delay: 0x5152_5354,
            credit: 0x6162_6364,
        }
        .emit(&mut p);
        Data { msg_id: 7, msg_len: 1024, offset: 1022 }.emit(&mut p);
        p[DATA_HEADER_LEN..].copy_from_slice(b"hi");
        set_crc(&mut p, 0xdead_beef);
        #[rustfmt::skip]
        let expect = [
            0xde, 0xad, 0xbe, 0xef, 0x15, 0x03, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
            0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44,
            0x51, 0x52, 0x53, 0x54, 0x61, 0x62, 0x63, 0x64, 0, 0, 0, 7, 0, 0, 4, 0, 0, 0, 3, 0xfe, b'h', b'i',
        ];
        assert_eq!(p, expect);
        assert_eq!(Data::parse(&p).unwrap().1, b"hi");
        assert_eq!(crc(&p), Some(0xdead_beef));
    }

    #[test]
    fn what_no_sender_writes_is_refused() {
        let mut p = [0u8; COMMON_LEN];
        assert_eq!(Header::parse(&p), Err(Error::Version(0)));
        p[4] = 0x16;
        assert!(Header::parse(&p).is_ok());
        for (at, value) in [(4, 0x10), (4, 0x19), (5, 0x40), (6, 1), (7, 1)] {
            let mut q = p;
            q[at] = value;
            assert_eq!(Header::parse(&q), Err(Error::Malformed), "byte {at}");
        }
        assert_eq!(Header::parse(&p[..39]), Err(Error::Truncated));
    }

    #[test]
    fn a_segment_beyond_its_message_is_refused() {
        let mut p = [0u8; DATA_HEADER_LEN + 4];
        Data { msg_id: 0, msg_len: 10, offset: 7 }.emit(&mut p);
        assert_eq!(Data::parse(&p), Err(Error::Malformed));
        Data { msg_id: 0, msg_len: u32::MAX, offset: u32::MAX - 1 }.emit(&mut p);
        assert_eq!(Data::parse(&p), Err(Error::Malformed));
    }

    proptest! {
        #[test]
        fn headers_survive_the_wire(kind in prop_oneof![1u8..=8, 13u8..=15], flags in 0u8..=0x3f, cid: u64, a: [u32; 6]) {
            let mut raw = [0xa5u8; COMMON_LEN];
            raw[4] = 0x10 | kind;
            raw[5] = flags;
            raw[6..8].fill(0);
            let mut h = Header::parse(&raw).unwrap();
            (h.dst_cid, h.seq, h.ack, h.stamp, h.echo, h.echo_delay, h.credit) = (cid, a[0], a[1], a[2], a[3], a[4], a[5]);
            let mut out = [0xa5u8; COMMON_LEN];
            h.emit(&mut out);
            prop_assert_eq!(Header::parse(&out), Ok(h));
        }

        #[test]
        fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            let _ = Header::parse(&bytes);
            let _ = Data::parse(&bytes);
            let _ = Init::parse(&bytes);
            let _ = Accept::parse(&bytes);
            let _ = Reset::parse(&bytes);
            let _ = parse_retry(&bytes);
            let _ = parse_reject(&bytes);
            prop_assert!(sack_ranges(&bytes).count() <= SACK_RANGES_MAX);
            let _ = secure::Init::parse(&bytes);
            let _ = secure::parse_accept(&bytes);
            let _ = secure::parse_confirm(&bytes);
            let _ = secure::Terms::parse(&bytes);
        }

        #[test]
        fn bodies_survive_the_wire(cid in 1u64.., mss in 1u16.., options: u16, cookie: [u8; 16], reason: u16) {
            let mut p = [0xa5u8; 96];
            let init = Init { src_cid: cid, mss, options, cookie };
            init.emit(&mut p);
            prop_assert_eq!(Init::parse(&p), Ok(init));
            let accept = Accept { src_cid: cid, mss, options };
            accept.emit(&mut p);
            prop_assert_eq!(Accept::parse(&p), Ok(accept));
            let reset = Reset { proof: cid, reason };
            reset.emit(&mut p);
            prop_assert_eq!(Reset::parse(&p), Ok(reset));
        }
    }
}
