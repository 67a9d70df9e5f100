//! Memory for machine code: written once, then only executable, unmapped when dropped.

use std::io;
use std::ptr::NonNull;

/// Code functions begin at multiples of so many bytes.
pub const ALIGN: usize = 32;

/// One mapping that holds finished machine code.
#[derive(Debug)]
pub struct CodeMemory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is never written after `new` returns, has no interior mutability and no thread affinity; it is
// unmapped by its one owner.
unsafe impl Send for CodeMemory {}
// SAFETY: as above: shared references allow nothing but reading addresses.
unsafe impl Sync for CodeMemory {}

impl CodeMemory {
    /// Map the functions' code, each aligned to [`ALIGN`]; gives the memory and each function's offset in it.
    pub fn new(functions: &[&[u8]]) -> io::Result<(CodeMemory, Vec<usize>)> {
        let mut offsets = Vec::with_capacity(functions.len());
        let mut len = 0_usize;
        for code in functions {
            offsets.push(len);
            len += code.len().next_multiple_of(ALIGN);
        }
        let len = len.max(1).next_multiple_of(page_size());
        // SAFETY: an anonymous private mapping at an address the kernel chooses touches no memory of ours; the result is
        // checked against MAP_FAILED before it is used.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(io::Error::last_os_error)?;
        // From here on `memory` unmaps the pages on every path.
        let memory = CodeMemory { base, len };
        for (code, offset) in functions.iter().zip(&offsets) {
            // SAFETY: `len` is the sum of all aligned lengths, so `offset + code.len() <= len`; the mapping is new, so it
            // does not overlap `code`.
            unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), base.as_ptr().add(*offset), code.len()) };
        }
        // SAFETY: exactly the pages mapped above, which nothing else refers to.
        if unsafe { libc::mprotect(base.as_ptr().cast(), len, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        synchronize(base.as_ptr(), len);
        Ok((memory, offsets))
    }

    /// The address of the code at an offset.
    pub fn at(&self, offset: usize) -> *const u8 {
        assert!(offset < self.len, "offset within the mapping");
        // SAFETY: just checked to lie inside the mapping.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping; functions in it are only called through the `Code` that owns this value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf reads a constant of the system.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096).max(1)
}

/// Make instruction fetches see what was written.
#[cfg(target_arch = "aarch64")]
fn synchronize(base: *const u8, len: usize) {
    use std::arch::asm;
    // Cache lines are at least 16 bytes; doing some of them twice is harmless.
    for at in (0..len).step_by(16) {
        // SAFETY: `at < len`, so the address is inside the mapping that is being finished; cleaning and invalidating a
        // line changes no data.
        unsafe {
            let address = base.add(at);
            asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", in(reg) address, options(nostack, preserves_flags));
        }
    }
    // SAFETY: barriers.
    unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
}

/// Make instruction fetches see what was written: x86 does so by itself.
#[cfg(not(target_arch = "aarch64"))]
fn synchronize(_base: *const u8, _len: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_lie_aligned_one_after_another_and_can_be_read() {
        let (memory, offsets) = CodeMemory::new(&[&[1, 2, 3], &[4; 40], &[5]]).expect("mapped");
        assert_eq!(offsets, [0, 32, 96]);
        // SAFETY: the three offsets lie in the mapping, which is readable.
        let bytes = unsafe { [*memory.at(0), *memory.at(32), *memory.at(96)] };
        assert_eq!(bytes, [1, 4, 5]);
        assert!(memory.len >= 97);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_was_written_runs() {
        // mov eax, 42; ret
        let (memory, _) = CodeMemory::new(&[&[0xb8, 42, 0, 0, 0, 0xc3]]).expect("mapped");
        // SAFETY: the bytes above are a function of no arguments that returns an int; the memory outlives the call.
        let answer = unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> i32>(memory.at(0))() };
        assert_eq!(answer, 42);
    }
}
