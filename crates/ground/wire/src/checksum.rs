//! The Internet checksum (RFC 1071), its incremental update (RFC 1624) and the pseudo-headers.
//!
//! A *sum* here is a `u32` that holds the ones' complement sum of big-endian 16-bit words, not yet folded. [`sum`] gives
//! at most `0xffff`, so tens of thousands of parts may be added with `+` before [`fold`] or [`finish`]. Only the last
//! part may have an odd length.

use core::net::{Ipv4Addr, Ipv6Addr};

const LOW: u64 = 0xffff_ffff;

/// The ones' complement sum of `data` as big-endian 16-bit words, an odd last byte padded with zero; at most `0xffff`.
///
/// The sum does not depend on byte order up to a final swap (RFC 1071 section 2), so eight bytes are read at a time as
/// they stand; four accumulators keep the additions independent, and compilers turn them into vector code.
#[inline]
pub fn sum(data: &[u8]) -> u32 {
    let mut lanes = [0u64; 4];
    let (blocks, rest) = data.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            let word = u64::from_ne_bytes(*word);
            *lane += (word & LOW) + (word >> 32);
        }
    }
    let mut total = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    let (words, mut rest) = rest.as_chunks::<8>();
    for word in words {
        let word = u64::from_ne_bytes(*word);
        total += (word & LOW) + (word >> 32);
    }
    if let Some((word, tail)) = rest.split_first_chunk::<4>() {
        total += u64::from(u32::from_ne_bytes(*word));
        rest = tail;
    }
    if let Some((word, tail)) = rest.split_first_chunk::<2>() {
        total += u64::from(u16::from_ne_bytes(*word));
        rest = tail;
    }
    if let [last] = rest {
        total += u64::from(u16::from_ne_bytes([*last, 0]));
    }
    let total = (total & LOW) + (total >> 32);
    let total = (total & LOW) + (total >> 32);
    u32::from(fold(total as u32).to_be())
}

/// Folds a sum to 16 bits with end-around carry.
#[inline]
pub const fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The checksum that goes into a header: the complement of the folded sum.
#[inline]
pub const fn finish(sum: u32) -> u16 {
    !fold(sum)
}

/// [`finish`] for UDP, where zero means "no checksum" and is sent as `0xffff` (RFC 768).
#[inline]
pub const fn finish_udp(sum: u32) -> u16 {
    match finish(sum) {
        0 => 0xffff,
        check => check,
    }
}

/// Whether a sum that includes the checksum field says the data is intact.
#[inline]
pub const fn is_intact(sum: u32) -> bool {
    fold(sum) == 0xffff
}

/// The checksum of `data` whose own checksum field is zero.
#[inline]
pub fn checksum(data: &[u8]) -> u16 {
    finish(sum(data))
}

/// The checksum after one 16-bit word changed from `old` to `new` (RFC 1624 equation 3).
#[inline]
pub const fn update(check: u16, old: u16, new: u16) -> u16 {
    finish(!check as u32 + !old as u32 + new as u32)
}

/// The checksum after 32 bits, at an even offset, changed from `old` to `new`: an IPv4 address, say.
#[inline]
pub const fn update_u32(check: u16, old: u32, new: u32) -> u16 {
    let removed = (!old >> 16) + (!old & 0xffff);
    finish(!check as u32 + removed + (new >> 16) + (new & 0xffff))
}

/// The sum of an IPv4 address.
#[inline]
pub const fn sum_v4(addr: Ipv4Addr) -> u32 {
    let bits = addr.to_bits();
    (bits >> 16) + (bits & 0xffff)
}

/// The sum of an IPv6 address.
#[inline]
pub fn sum_v6(addr: Ipv6Addr) -> u32 {
    sum(&addr.octets())
}

/// The sum of the pseudo-header of UDP, TCP over IPv4 (RFC 768): `len` is that of the transport header and payload.
#[inline]
pub const fn pseudo_v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, len: u16) -> u32 {
    sum_v4(src) + sum_v4(dst) + protocol as u32 + len as u32
}

/// The sum of the pseudo-header over IPv6 (RFC 8200 section 8.1), ICMPv6 included.
#[inline]
pub fn pseudo_v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: u8, len: u32) -> u32 {
    sum_v6(src) + sum_v6(dst) + u32::from(protocol) + (len >> 16) + (len & 0xffff)
}

/// Completes a transport checksum that a sender left to an offload: the field at `start + offset` holds the sum of the
/// pseudo-header, and the bytes from `start` to the end of `frame` are covered. The caller has cut any padding off.
/// False, with nothing changed, when the field does not lie inside the frame.
///
/// A result of zero is written as `0xffff`: equal in ones' complement, and UDP needs it.
pub fn complete(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = frame.get_mut(start..) else { return false };
    if offset.checked_add(2).is_none_or(|end| end > covered.len()) {
        return false;
    }
    let check = finish_udp(sum(covered));
    covered[offset..offset + 2].copy_from_slice(&check.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// RFC 1071 section 4.1, word by word.
    fn naive(data: &[u8]) -> u16 {
        let mut total = 0u64;
        for pair in data.chunks(2) {
            total += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
        }
        while total >> 16 != 0 {
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(sum(&data), 0xddf2);
        assert_eq!(checksum(&data), 0x220d);
        assert_eq!(sum(&[]), 0);
        assert_eq!(sum(&[0xab]), 0xab00);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        // Section 4: HC = 0xDD2F, m = 0x5555, m' = 0x3285 gives 0x0000, where equation 2 would give 0xFFFF.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn largest_inputs_do_not_overflow() {
        let data = std::vec![0xff; 65_536 * 4 + 1];
        assert_eq!(fold(sum(&data)), naive(&data));
    }

    #[test]
    fn pseudo_headers_sum_their_fields() {
        let (a, b) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(255, 255, 255, 254));
        let bytes = [192, 0, 2, 1, 255, 255, 255, 254, 0, 17, 0x12, 0x34];
        assert_eq!(fold(pseudo_v4(a, b, 17, 0x1234)), naive(&bytes));
        let (a, b) = (Ipv6Addr::from_bits(u128::MAX - 7), Ipv6Addr::LOCALHOST);
        let mut bytes = Vec::from(a.octets());
        bytes.extend(b.octets());
        bytes.extend([0x00, 0x01, 0x23, 0x45, 0, 0, 0, 58]);
        assert_eq!(fold(pseudo_v6(a, b, 58, 0x12345)), naive(&bytes));
    }

    #[test]
    fn unfinished_checksums_are_completed() {
        // UDP 1 -> 2, "hi!", over 10.0.0.1 -> 10.0.0.2.
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let mut frame = *b"\xa5\xa5\0\x01\0\x02\0\x0b\0\0hi!";
        let pseudo = pseudo_v4(src, dst, 17, 11);
        frame[8..10].copy_from_slice(&fold(pseudo).to_be_bytes());
        assert!(complete(&mut frame, 2, 6));
        assert!(is_intact(pseudo + sum(&frame[2..])));
        assert!(!complete(&mut frame, 2, 10));
        assert!(!complete(&mut frame, 14, 0));
        assert!(!complete(&mut frame, 2, usize::MAX));
    }

    proptest! {
        #[test]
        fn fast_equals_naive(data in prop::collection::vec(any::<u8>(), 0..300), skip in 0usize..9) {
            let data = data.get(skip..).unwrap_or(&[]);
            prop_assert_eq!(fold(sum(data)), naive(data));
        }

        #[test]
        fn parts_add_up(data in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..100) {
            let cut = (cut * 2).min(data.len() & !1);
            prop_assert_eq!(fold(sum(&data[..cut]) + sum(&data[cut..])), naive(&data));
        }

        #[test]
        fn updates_equal_recomputation(mut data in prop::collection::vec(any::<u8>(), 8..64), new in any::<u32>()) {
            data[0] = 1; // an all-zero header has two checksums
            let before = checksum(&data);
            let old = u32::from_be_bytes([data[4], data[5], data[6], data[7]]);
            data[4..8].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update_u32(before, old, new), checksum(&data));
            let half = (data[4..6].to_vec(), 0x5aa5u16);
            let before = checksum(&data);
            data[4..6].copy_from_slice(&half.1.to_be_bytes());
            prop_assert_eq!(update(before, u16::from_be_bytes([half.0[0], half.0[1]]), half.1), checksum(&data));
        }
    }
}
