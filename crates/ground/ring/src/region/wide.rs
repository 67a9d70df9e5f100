//! Copies in 32-byte words, in assembly.
//!
//! Rust has no atomic wider than 8 bytes (16 at best), and a plain vector load of memory that somebody else writes would be a
//! data race. Assembly is neither: the compiler sees an opaque block that may read and write memory, and the machine's own rules
//! hold. It matters because of what a store buffer is: 64 entries hold half a kilobyte of 8-byte stores but two of 32-byte
//! ones, so the lines of a whole frame are fetched from the other core at once instead of in turns.

use core::arch::asm;

/// Bytes of one step.
pub(super) const STEP: usize = 128;

/// Whether [`copy`] may be called.
#[inline]
pub(super) fn is_available() -> bool {
    std::arch::is_x86_feature_detected!("avx")
}

/// Copies `len` bytes, a multiple of [`STEP`] and not zero, from `src` to `dst`.
///
/// # Safety
/// Both ranges are valid for that many bytes and do not overlap, [`is_available`] holds, and whoever else touches them
/// at the same time accepts bytes that are torn at any boundary.
#[inline]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize) {
    debug_assert!(len.is_multiple_of(STEP) && len > 0);
    // SAFETY: the caller vouches for both ranges; the loop ends after `len / STEP` steps of `STEP` bytes. All vector registers
    // are declared clobbered, as `vzeroupper` clears the upper half of each.
    unsafe {
        asm!(
            "2:",
            "vmovdqu ymm0, [rsi]",
            "vmovdqu ymm1, [rsi + 32]",
            "vmovdqu ymm2, [rsi + 64]",
            "vmovdqu ymm3, [rsi + 96]",
            "vmovdqu [rdi], ymm0",
            "vmovdqu [rdi + 32], ymm1",
            "vmovdqu [rdi + 64], ymm2",
            "vmovdqu [rdi + 96], ymm3",
            "add rsi, 128",
            "add rdi, 128",
            "sub rcx, 128",
            "jnz 2b",
            "vzeroupper",
            inout("rsi") src => _,
            inout("rdi") dst => _,
            inout("rcx") len => _,
            clobber_abi("C"),
            options(nostack),
        );
    }
}
