//! The invariant CRC (section 7.8.1, annex A17.3): what no router may change.
//!
//! It is the CRC-32 of Ethernet and zlib over eight bytes of ones (in place of a local route header), the packet from the
//! IP header to the padding with its variant fields as ones, and stands little-endian behind them. Variant are: DS field,
//! TTL and header checksum (IPv4) or traffic class, flow label and hop limit (IPv6), the UDP checksum, and the byte of the
//! BTH that holds the congestion bits. Ethernet and VLAN tags are not covered.
//!
//! A CRC is linear: the difference of two packets of the same length says the difference of their CRCs. So who sends many
//! packets that differ in a few words computes one, and adds [`Deltas`] for the words that changed.

use super::{ICRC_LEN, bth};
use crate::{Error, Protocol, field, ipv4, ipv6, udp};
use crc32fast::Hasher;

/// The polynomial 0x04c11db7, bits reversed.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// What one byte does to a state of zero.
const STEP: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = (i as u32, 0);
        while bit < 8 {
            crc = if crc & 1 != 0 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

const fn step(state: u32, byte: u8) -> u32 {
    (state >> 8) ^ STEP[((state ^ byte as u32) & 0xff) as usize]
}

/// The CRC of the eight bytes of ones that stand in for the local route header.
const SEED: u32 = {
    let (mut state, mut i) = (u32::MAX, 0);
    while i < 8 {
        state = step(state, 0xff);
        i += 1;
    }
    !state
};

/// Bytes that are copied to set their variant fields: a whole management datagram over IPv6 without a second piece.
const HEAD_MAX: usize = 336;

/// Which bytes of a packet are covered, and how long its IP header is.
#[derive(Clone, Copy)]
struct Span {
    ip_len: usize,
    v4: bool,
    /// One past the last covered byte; the ICRC stands there.
    end: usize,
}

fn span(packet: &[u8]) -> Result<Span, Error> {
    let (ip_len, v4, total, protocol) = match field::u8_at(packet, 0) >> 4 {
        4 => {
            let header = ipv4::Packet::new_checked(packet)?;
            (header.header_len(), true, header.total_len(), header.protocol())
        }
        6 => {
            let header = ipv6::Packet::new_checked(packet)?;
            (ipv6::HEADER_LEN, false, header.total_len(), header.next_header())
        }
        _ => return Err(Error::Malformed),
    };
    if protocol != Protocol::UDP {
        return Err(Error::Unsupported);
    }
    let shortest = ip_len + udp::HEADER_LEN + bth::HEADER_LEN + ICRC_LEN;
    if total < shortest || packet.len() < total {
        return Err(Error::Truncated);
    }
    if usize::from(field::u16_at(packet, ip_len + 4)) != total - ip_len {
        return Err(Error::Malformed);
    }
    Ok(Span { ip_len, v4, end: total - ICRC_LEN })
}

/// Sets the variant fields of a packet's copied head to ones.
#[inline(always)]
fn mask(head: &mut [u8], ip_len: usize, v4: bool) {
    if v4 {
        field::put(head, 1, [0xff]);
        field::put(head, 8, [0xff]);
        field::put(head, 10, [0xff; 2]);
    } else {
        let version = field::u8_at(head, 0) | 0x0f;
        field::put(head, 0, [version, 0xff, 0xff, 0xff]);
        field::put(head, 7, [0xff]);
    }
    field::put(head, ip_len + 6, [0xff; 2]);
    field::put(head, ip_len + udp::HEADER_LEN + 4, [0xff]);
}

#[inline]
fn continued(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// The first bytes, which must be masked, are copied; for short packets that is all of them, so that one pass does.
#[inline]
fn masked_crc(covered: &[u8], ip_len: usize, v4: bool) -> u32 {
    let mut head = [0; HEAD_MAX];
    let n = covered.len().min(HEAD_MAX);
    let (first, rest) = covered.split_at(n);
    head[..n].copy_from_slice(first);
    mask(&mut head, ip_len, v4);
    let crc = continued(SEED, &head[..n]);
    if rest.is_empty() { crc } else { continued(crc, rest) }
}

/// The ICRC of a packet, from its IP header on; bytes behind it are ignored, and the last four of the packet are those that
/// the ICRC is for.
///
/// # Errors
/// `Truncated` or `Malformed` when the lengths of IP, UDP and buffer disagree; `Unsupported` when it is not UDP.
pub fn compute(packet: &[u8]) -> Result<u32, Error> {
    let span = span(packet)?;
    Ok(masked_crc(&packet[..span.end], span.ip_len, span.v4))
}

/// Checks the ICRC of a packet, from its IP header on, in one pass.
///
/// # Errors
/// As [`compute`], and `Checksum` when it is wrong.
pub fn check(packet: &[u8]) -> Result<(), Error> {
    let span = span(packet)?;
    let there = u32::from_le_bytes(field::array(packet, span.end));
    if masked_crc(&packet[..span.end], span.ip_len, span.v4) == there { Ok(()) } else { Err(Error::Checksum) }
}

/// Checks the ICRC where the lengths are known to be right: `packet` starts with an IP header of `ip_len` bytes, and ends
/// with the ICRC.
#[inline]
pub fn check_known(packet: &[u8], ip_len: usize, v4: bool) -> bool {
    let Some((covered, there)) = packet.split_last_chunk::<ICRC_LEN>() else { return false };
    masked_crc(covered, ip_len, v4) == u32::from_le_bytes(*there)
}

/// Computes and writes the ICRC of a packet, from its IP header on.
///
/// # Errors
/// As [`compute`].
pub fn fill(packet: &mut [u8]) -> Result<(), Error> {
    let span = span(packet)?;
    let crc = masked_crc(&packet[..span.end], span.ip_len, span.v4);
    field::put(packet, span.end, crc.to_le_bytes());
    Ok(())
}

/// What a change of each of the last `WORDS` 32-bit words of a covered range does to its CRC. 512 bytes a word, of which one
/// look-up touches eight entries.
pub struct Deltas<const WORDS: usize>([[[u32; 16]; 8]; WORDS]);

impl<const WORDS: usize> Deltas<WORDS> {
    /// The table for a range whose last word is the last bytes covered.
    #[allow(clippy::new_without_default)] // a default would hide that this is work for the compiler
    pub const fn new() -> Self {
        let mut tables = [[[0; 16]; 8]; WORDS];
        let mut word = WORDS;
        while word > 0 {
            word -= 1;
            let mut nibble = 0;
            while nibble < 8 {
                let mut value = 0;
                while value < 16 {
                    tables[word][nibble][value] = if word + 1 < WORDS {
                        // Four zero bytes further from the end than the same nibble of the next word.
                        let s = tables[word + 1][nibble][value];
                        step(step(step(step(s, 0), 0), 0), 0)
                    } else {
                        let bytes = ((value as u32) << (28 - 4 * nibble)).to_be_bytes();
                        step(step(step(step(0, bytes[0]), bytes[1]), bytes[2]), bytes[3])
                    };
                    value += 1;
                }
                nibble += 1;
            }
        }
        Deltas(tables)
    }

    /// What to xor to the CRC when word `word`, read big-endian, changes by `xor`. A word outside the table gives 0.
    #[inline]
    pub fn of(&self, word: usize, xor: u32) -> u32 {
        self.of_half(word, 0, (xor >> 16) as u16) ^ self.of_half(word, 1, xor as u16)
    }

    /// The same when only the first (0) or second (1) half of the word changes, which is half the work.
    #[inline]
    pub fn of_half(&self, word: usize, half: usize, xor: u16) -> u32 {
        let Some(tables) = self.0.get(word).and_then(|t| t.get(4 * half..4 * half + 4)) else { return 0 };
        let mut crc = 0;
        for (i, table) in tables.iter().enumerate() {
            crc ^= table[usize::from(xor >> (12 - 4 * i)) & 15];
        }
        crc
    }
}

/// Words from the sequence number of the BTH to the end of a management datagram: 1 of the BTH, 2 of the DETH, 64 of the MAD.
pub const MAD_WORDS: usize = 67;

/// Deltas of a management datagram: word 0 is that of the sequence number, words 1 and 2 the DETH, 3 to 66 the MAD.
pub static MAD_DELTAS: Deltas<MAD_WORDS> = Deltas::new();

/// Words of the longest headers: IPv6, UDP, BTH.
const HEADER_WORDS: usize = 15;

static HEADER_DELTAS: Deltas<HEADER_WORDS> = Deltas::new();

/// The CRC after IP header, UDP header and BTH, kept for one connection, so that a packet costs the words that changed and
/// what follows the BTH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeaderCrc {
    crc: u32,
    /// The place of word 0 in the table.
    first: u8,
}

impl HeaderCrc {
    /// Takes the headers as they stand: 40 bytes over IPv4 (without options), 60 over IPv6. `None` for another length.
    pub fn new(headers: &[u8]) -> Option<HeaderCrc> {
        let (ip_len, v4) = match headers.len() {
            40 => (ipv4::HEADER_LEN, true),
            60 => (ipv6::HEADER_LEN, false),
            _ => return None,
        };
        Some(HeaderCrc {
            crc: masked_crc(headers, ip_len, v4),
            first: (HEADER_WORDS - headers.len() / 4) as u8,
        })
    }

    /// A state that was taken apart by [`crc`](Self::crc).
    #[inline]
    pub const fn from_crc(crc: u32, v4: bool) -> HeaderCrc {
        HeaderCrc { crc, first: if v4 { 5 } else { 0 } }
    }

    /// The state in four bytes; [`from_crc`](Self::from_crc) puts it together again.
    #[inline]
    pub const fn crc(self) -> u32 {
        self.crc
    }

    /// The state after word `word` of the headers, read big-endian, changed by `xor`. Bits of variant fields must not be
    /// among them.
    #[inline]
    #[must_use]
    pub fn changed(self, word: usize, xor: u32) -> HeaderCrc {
        HeaderCrc { crc: self.crc ^ HEADER_DELTAS.of(usize::from(self.first) + word, xor), ..self }
    }

    /// The same when only the first (0) or second (1) half of the word changed.
    #[inline]
    #[must_use]
    pub fn changed_half(self, word: usize, half: usize, xor: u16) -> HeaderCrc {
        HeaderCrc { crc: self.crc ^ HEADER_DELTAS.of_half(usize::from(self.first) + word, half, xor), ..self }
    }

    /// The ICRC, given all that follows the BTH up to and with the padding.
    #[inline]
    pub fn finish(self, rest: &[u8]) -> u32 {
        continued(self.crc, rest)
    }
}
