//! The packets' CRC32C.

/// Of these bytes.
///
/// Never inlined: in one place the optimiser sees that its crate is asked for this one polynomial, and leaves out the tables of all others
/// (more than half a megabyte). What computes is a call in any case.
#[inline(never)]
pub(crate) fn of(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_crc32c() {
        // RFC 3720, B.4.
        assert_eq!(super::of(&[0; 32]), 0x8a91_36aa);
        assert_eq!(super::of(b"123456789"), 0xe306_9283);
    }
}
