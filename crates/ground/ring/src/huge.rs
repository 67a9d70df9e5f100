//! Huge pages for large tables.
//!
//! A table of tens of megabytes that is read here and there costs a page walk for each access when its pages have 4 KiB: the
//! processor remembers some thousand of them. With pages of 2 MiB it remembers them all.

/// Bytes of a huge page on x86-64 and, with 4 KiB granules, on AArch64.
const HUGE_PAGE: usize = 2 << 20;

/// A vector of `len` times `value` that lies in huge pages where it is large enough and the system grants them (transparent huge
/// pages, which `madvise` or `always` in `/sys/kernel/mm/transparent_hugepage/enabled` allows).
pub fn filled<T: Copy>(value: T, len: usize) -> Vec<T> {
    let mut table: Vec<T> = Vec::with_capacity(len);
    // Before the first touch: pages that are there already are not exchanged at once.
    let spare = table.spare_capacity_mut().as_mut_ptr_range();
    let (start, end) = (spare.start as usize, spare.end as usize);
    let (start, end) = (start.next_multiple_of(HUGE_PAGE), end / HUGE_PAGE * HUGE_PAGE);
    if start < end {
        // SAFETY: whole pages inside memory that the vector owns. The advice changes neither contents nor validity, and a refusal
        // leaves everything as it was.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
    table.resize(len, value);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_every_size_are_filled() {
        for len in [0, 1, 1000, HUGE_PAGE / 8 - 1, HUGE_PAGE / 2 + 3] {
            let table = filled(0xa5a5_u64, len);
            assert_eq!(table.len(), len);
            assert!(table.iter().all(|&v| v == 0xa5a5));
        }
    }
}
