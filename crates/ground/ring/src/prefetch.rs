//! Asking for memory before it is needed.
//!
//! A program that knows which of a million entries it will touch next need not wait for memory when it does: a line comes in some
//! 80 ns, in which a processor executes hundreds of instructions.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for every line of `value`; of one that is shorter than a line, for that in which it begins. It changes nothing, and on processors that it is not written for it does nothing.
#[inline]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        for at in (0..size_of::<T>()).step_by(LINE) {
            // SAFETY: a prefetch never faults and writes nothing; the address is inside the value.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(at)) };
        }
        if size_of::<T>() > LINE {
            // A value that does not begin with a line ends in one more.
            // SAFETY: as above: its last byte.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(size_of::<T>() - 1)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, LINE);
}

#[cfg(test)]
mod tests {
    use super::prefetch;

    #[test]
    fn changes_nothing() {
        let values = [0xa5_u8; 200];
        prefetch(&values);
        prefetch(&());
        assert_eq!(values, [0xa5; 200]);
    }
}
