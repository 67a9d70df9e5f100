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

thread_local! {
    /// What this thread's freed blocks are searched for, and how many had it.
    static SOUGHT: Cell<Option<[u8; 16]>> = const { Cell::new(None) };
    static FOUND: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, searching what it is given back: for tests that prove that secrets are written over.
///
/// ```standalone_crate
/// use barewire_testing::{Searching, search_freed};
///
/// #[global_allocator]
/// static ALLOCATOR: Searching = Searching;
///
/// fn main() {
///     let search = search_freed([7; 16]);
///     drop(std::hint::black_box(vec![7_u8; 100]));
///     assert_eq!(search.found(), 1);
/// }
/// ```
#[allow(clippy::needless_doctest_main)]
pub struct Searching;

/// A search in the blocks that this thread frees, until it is dropped.
#[must_use = "it ends when it is dropped"]
pub struct Search(());

/// Begins to look for these bytes. Finds something only where [`Searching`] is the global allocator.
pub fn search_freed(bytes: [u8; 16]) -> Search {
    FOUND.set(0);
    SOUGHT.set(Some(bytes));
    Search(())
}

impl Search {
    /// Blocks that were freed with these bytes in them.
    pub fn found(&self) -> u64 {
        FOUND.get()
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        SOUGHT.set(None);
    }
}

fn look_at(block: &[u8]) {
    // Fails only while a thread ends.
    let sought = SOUGHT.try_with(Cell::get).ok().flatten();
    if let Some(sought) = sought
        && block.windows(sought.len()).any(|window| window == sought)
    {
        let _ = FOUND.try_with(|found| found.set(found.get() + 1));
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own layout; the search reads, before a block is freed, the bytes
// that the block was handed out with. All of them are initialised, as every block comes zeroed. What is touched else are plain
// thread-locals without destructor, so that touching them neither allocates nor fails.
unsafe impl GlobalAlloc for Searching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the block is the caller's until `System.dealloc`, and has so many bytes.
        look_at(unsafe { std::slice::from_raw_parts(place, layout.size()) });
        // SAFETY: the caller's contract is passed on.
        unsafe { System.dealloc(place, layout) }
    }
}
