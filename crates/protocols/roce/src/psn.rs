//! Sequence numbers: 24 bits in a circle (section 9.7.2).

use barewire_wire::roce::MASK_24;

/// `a + n`.
#[inline]
pub(crate) const fn add(a: u32, n: u32) -> u32 {
    a.wrapping_add(n) & MASK_24
}

/// How far `a` is ahead of `b`: negative when it is behind, in `-2^23 .. 2^23`.
#[inline]
pub(crate) const fn ahead(a: u32, b: u32) -> i32 {
    ((a.wrapping_sub(b) << 8) as i32) >> 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circle_closes() {
        assert_eq!(add(0xff_ffff, 1), 0);
        assert_eq!(add(5, MASK_24), 4);
        assert_eq!(ahead(0, 0xff_ffff), 1);
        assert_eq!(ahead(0xff_ffff, 0), -1);
        assert_eq!(ahead(0x7f_ffff, 0), 0x7f_ffff);
        assert_eq!(ahead(0x80_0000, 0), -0x80_0000);
        assert_eq!(ahead(7, 7), 0);
    }
}
