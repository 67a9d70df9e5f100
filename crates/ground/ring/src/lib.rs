//! Rings over any memory: between threads (heap), between processes that do not trust each other (shared memory).
//!
//! A [`Region`] is memory that somebody else may write at any time, so it never yields a `&[u8]`: bytes are copied out
//! once by relaxed atomic words, the copy is validated, the copy is used. [`spsc`] and [`mpsc`] lay rings of fixed-size
//! entries over a region; [`park`] lets a consumer sleep without losing a wake-up.
//!
//! # Hostile memory
//! Each side of a ring keeps its own index in private memory and only ever publishes it. The other side's index is read
//! once, checked (it may only move forward, and by no more than there is room for), then used. An index that fails the
//! check marks the ring corrupt: it yields nothing more and says so through `is_corrupt()`. Entries are whatever the other
//! side wrote, possibly while they were being read: validate the copy.
//!
//! # Invariants that the unsafe code here rests on
//! 1. The `len` bytes at a region's pointer stay mapped, readable and writable while any clone or slice of the region
//!    lives: the owner inside sees to it.
//! 2. This crate touches region memory through atomics only and never makes any other reference to it.
//! 3. A ring's offsets are computed from private, masked indices and from sizes that were checked against the region
//!    when the ring was attached. Nothing read from the region ever becomes an offset.
//!
//! # Under loom
//! With `--cfg loom` a region is a list of loom's atomics, so that `tests/loom.rs` explores the very code that runs.
//!
//! # Example
//!
//! ```
//! use barewire_ring::spsc;
//!
//! // Sixteen entries of two words, on the heap, between two threads.
//! let (mut producer, mut consumer) = spsc::heap::<2>(16).expect("a power of two");
//! let consuming = std::thread::spawn(move || {
//!     loop {
//!         if let Some(entry) = consumer.pop() {
//!             return entry;
//!         }
//!         std::hint::spin_loop();
//!     }
//! });
//! assert!(producer.push(&[1, 2]), "there is room");
//! assert_eq!(consuming.join().unwrap(), [1, 2]);
//! ```
//!
//! Capacities are entries, widths are 64-bit words. A shape or region that does not fit is `None`; a full ring is `false`; a ring whose other side broke
//! the rules says so by `is_corrupt()` and yields nothing more.
#![warn(missing_docs)]

pub mod huge;
pub mod mpsc;
pub mod park;
mod prefetch;
mod region;
pub mod spsc;
mod sync;

pub use prefetch::prefetch;
pub use region::Region;

/// Bytes between things that different cores write: two 64-byte lines, because x86 prefetches lines in pairs. A model
/// under loom has no caches and pays for every word.
const LINE: usize = if cfg!(loom) { 8 } else { 128 };
/// Offset of the producers' index.
const TAIL: usize = 0;
/// Offset of the consumer's index.
const HEAD: usize = LINE;
/// Offset of the first entry.
const ENTRIES: usize = 2 * LINE;

/// Largest number of entries of a ring.
pub const CAPACITY_MAX: u32 = 1 << 30;
/// Largest number of words of an entry: 4 KiB. What is larger belongs beside the ring, not in it.
pub const WORDS_MAX: u32 = 512;

/// Whether a ring of this shape is allowed at all.
const fn shape_is_valid(capacity: u32, words: u32) -> bool {
    capacity.is_power_of_two() && capacity <= CAPACITY_MAX && words != 0 && words <= WORDS_MAX
}

/// Bytes of a ring, rounded up so that the next ring in the same region starts on a line of its own.
const fn ring_size(capacity: u32, words_per_slot: usize) -> usize {
    let entries = (capacity as usize).saturating_mul(words_per_slot).saturating_mul(8);
    entries.saturating_add(ENTRIES).saturating_add(LINE - 1) / LINE * LINE
}
