//! An allocator that counts, for tests that prove that nothing is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread: the test harness has others.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting for each thread what it is asked for.
///
/// ```standalone_crate
/// use barewire_testing::{Counting, allocations};
///
/// #[global_allocator]
/// static ALLOCATOR: Counting = Counting;
///
/// fn main() {
///     let before = allocations();
///     let _ = std::hint::black_box(Vec::<u8>::with_capacity(1));
///     assert_eq!(allocations(), before + 1);
/// }
/// ```
#[allow(clippy::needless_doctest_main)]
pub struct Counting;

/// How often this thread has asked for memory, new or larger. Counts only where [`Counting`] is the global allocator.
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

fn count() {
    // Fails only while a thread ends.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments; the count is a plain thread-local without
// destructor, so that touching it neither allocates nor fails.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is passed on.
        unsafe { System.realloc(place, layout, new_size) }
    }
}
