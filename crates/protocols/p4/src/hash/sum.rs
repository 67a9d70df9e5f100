//! The one's complement sum of IP (RFC 1071).

/// The sum of the bytes as big-endian 16-bit words (a last odd byte padded with a zero byte on the right), not yet
/// folded: at most 17 bits. Sums of pieces may be added and folded together, if all but the last piece have an even
/// length.
pub fn ones_complement_sum(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut sum = 0_u64;
    for &word in words {
        let word = u64::from_be_bytes(word);
        let (more, carry) = sum.overflowing_add(word);
        sum = more + u64::from(carry);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let (more, carry) = sum.overflowing_add(u64::from_be_bytes(last));
    sum = more + u64::from(carry);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    ((sum >> 16) + (sum & 0xffff)) as u32
}

/// Fold a sum of 16-bit words to 16 bits.
pub fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The Internet checksum: the complement of the folded sum.
pub fn csum16(bytes: &[u8]) -> u16 {
    !fold(ones_complement_sum(bytes))
}
