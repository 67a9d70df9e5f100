//! One producer, one consumer.
//!
//! ```text
//! offset 0     tail  u64   entries ever committed; the producer writes it
//! offset 128   head  u64   entries ever released; the consumer writes it
//! offset 256   entry 0, entry 1, … entry capacity-1, each `W` u64 words
//! ```
//!
//! Indices count up for ever and wrap at 2^64; the low bits are the slot. Each side works on a cached view of the other's
//! index and looks at the other's cache line only when that view is exhausted: a ring that is neither full nor empty
//! moves entries without a single shared read. A burst costs one release store on each side.
//!
//! Safe code that attaches two producers or two consumers to one ring loses entries and marks the ring corrupt; it breaks
//! no memory.

use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::{ENTRIES, HEAD, Region, TAIL, ring_size, shape_is_valid};

/// The shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Entries: a power of two, at most [`CAPACITY_MAX`](crate::CAPACITY_MAX).
    pub capacity: u32,
    /// u64 words of each entry, at most [`WORDS_MAX`](crate::WORDS_MAX).
    pub words: u32,
}

impl Layout {
    /// A shape, or `None` when it breaks one of the bounds of its fields.
    pub const fn new(capacity: u32, words: u32) -> Option<Layout> {
        if shape_is_valid(capacity, words) { Some(Layout { capacity, words }) } else { None }
    }

    /// Bytes of region that the ring needs: a multiple of 128, so that rings may follow one another.
    pub const fn size(&self) -> usize {
        ring_size(self.capacity, self.words as usize)
    }
}

/// Whether a ring of this shape fits the region.
fn fits<const W: usize>(region: &Region, capacity: u32) -> bool {
    u32::try_from(W)
        .ok()
        .and_then(|words| Layout::new(capacity, words))
        .is_some_and(|l| l.size() <= region.len())
        && region.is_aligned_at(0, 8)
}

/// Attaches the producer of a new ring: a zeroed region is an empty ring. It starts at sequence number 0 whatever the
/// region says, so a region that was used before must be zeroed first, or attached with [`producer_resume`].
///
/// `None` when `capacity` or `W` breaks the bounds of [`Layout`], when the region is smaller than [`Layout::size`], or
/// when it does not start at a multiple of 8 (128 is better: the two indices then have lines of their own).
pub fn producer<const W: usize>(region: Region, capacity: u32) -> Option<Producer<W>> {
    fits::<W>(&region, capacity).then(|| {
        let capacity = u64::from(capacity);
        Producer { region, capacity, tail: 0, limit: capacity, corrupt: false }
    })
}

/// Attaches the consumer of a new ring; as [`producer`]. Either side may attach first, and the producer may have
/// committed entries before the consumer comes.
pub fn consumer<const W: usize>(region: Region, capacity: u32) -> Option<Consumer<W>> {
    fits::<W>(&region, capacity).then(|| {
        let capacity = u64::from(capacity);
        Consumer { region, capacity, head: 0, seen: 0, corrupt: false }
    })
}

/// Attaches a producer that continues where the published indices stand; entries that were written but not committed are
/// forgotten. Indices that contradict each other make a producer that is corrupt from the start. Trusts the published
/// tail, so it is for a side that reads memory it wrote itself, or that only risks itself.
///
/// `None` as for [`producer`].
pub fn producer_resume<const W: usize>(region: Region, capacity: u32) -> Option<Producer<W>> {
    let mut producer = producer::<W>(region, capacity)?;
    producer.tail = producer.index(TAIL).load(Acquire);
    producer.limit = producer.tail;
    producer.look_again();
    Some(producer)
}

/// Attaches a consumer that continues where the published indices stand; entries that were read but not released come
/// again. Otherwise as [`producer_resume`].
pub fn consumer_resume<const W: usize>(region: Region, capacity: u32) -> Option<Consumer<W>> {
    let mut consumer = consumer::<W>(region, capacity)?;
    consumer.head = consumer.index(HEAD).load(Acquire);
    consumer.seen = consumer.head;
    consumer.look_again();
    Some(consumer)
}

/// Both sides of a ring of its own on the heap, for two threads. `None` when the shape breaks the bounds of [`Layout`].
pub fn heap<const W: usize>(capacity: u32) -> Option<(Producer<W>, Consumer<W>)> {
    let region = Region::heap(Layout::new(capacity, u32::try_from(W).ok()?)?.size());
    Some((producer(region.clone(), capacity)?, consumer(region, capacity)?))
}

/// The side that writes. Entries go in by [`write`](Producer::write) and [`commit`](Producer::commit), a burst for one
/// release store, or one by one with [`push`](Producer::push).
#[derive(Debug)]
pub struct Producer<const W: usize> {
    region: Region,
    capacity: u64,
    /// Entries ever committed. Private: the copy in the region is for the consumer only.
    tail: u64,
    /// The tail that must not be passed: the head as last seen, plus the capacity. Equal to `tail` once corrupt, so that
    /// the fast paths need no test of their own.
    limit: u64,
    corrupt: bool,
}

impl<const W: usize> Producer<W> {
    /// Entries that the ring holds at most.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Slots known to be free; looks at the consumer's index only when none is. So it is zero when the ring is full (or
    /// corrupt), and otherwise a lower bound: for a burst, ask [`free_at_least`](Producer::free_at_least).
    #[inline]
    pub fn free(&mut self) -> usize {
        self.free_at_least(1)
    }

    /// Slots known to be free; looks at the consumer's index when fewer than `n` are. So it is exact when the answer is
    /// below `n`, and otherwise a lower bound.
    #[inline]
    pub fn free_at_least(&mut self, n: usize) -> usize {
        let known = self.known();
        if known >= n { known } else { self.look_again() }
    }

    /// Writes the `i`-th entry after those committed, without publishing it. `i` must be below what
    /// [`free`](Producer::free) returned; beyond that, entries that the consumer may be reading are overwritten (and
    /// debug builds panic).
    #[inline]
    pub fn write(&mut self, i: usize, entry: &[u64; W]) {
        debug_assert!(i < self.known() || self.corrupt, "write past the free slots");
        let slot = self.tail.wrapping_add(i as u64) & (self.capacity - 1);
        let first = ENTRIES + slot as usize * (W * 8);
        for (k, word) in entry.iter().enumerate() {
            // SAFETY: `slot < capacity` and `k < W`, and `fits` checked that the region holds `capacity` entries of `W`
            // words after `ENTRIES`, at an address that is a multiple of 8.
            unsafe { self.region.word(first + k * 8) }.store(*word, Relaxed);
        }
    }

    /// Publishes the next `n` written entries. `n` must be at most what [`free`](Producer::free) returned; committing
    /// more marks the ring corrupt (and debug builds panic). A corrupt ring publishes nothing.
    #[inline]
    pub fn commit(&mut self, n: usize) {
        // One test for both: zero would dirty the line for nothing, too many would lie to the consumer.
        if n.wrapping_sub(1) >= self.known() {
            return self.commit_refused(n);
        }
        self.tail = self.tail.wrapping_add(n as u64);
        self.index(TAIL).store(self.tail, Release);
    }

    /// Writes and publishes one entry. False when the ring is full or corrupt.
    #[inline]
    #[must_use]
    pub fn push(&mut self, entry: &[u64; W]) -> bool {
        if self.free_at_least(1) == 0 {
            return false;
        }
        self.write(0, entry);
        self.commit(1);
        true
    }

    /// Sequence number of the next entry to commit. Side arrays are indexed by `position & (capacity - 1)`.
    #[inline]
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Whether the consumer's index was found impossible. Final: the ring takes nothing more.
    #[inline]
    pub fn is_corrupt(&self) -> bool {
        self.corrupt
    }

    #[inline]
    fn known(&self) -> usize {
        self.limit.wrapping_sub(self.tail) as usize
    }

    #[inline]
    fn index(&self, offset: usize) -> &crate::sync::AtomicU64 {
        // SAFETY: `TAIL` and `HEAD` are multiples of 8 below `ENTRIES`, and `fits` checked that the region holds those
        // bytes at an address that is a multiple of 8.
        unsafe { self.region.word(offset) }
    }

    /// Refreshes the view of the consumer's index; returns the free slots, exactly.
    fn look_again(&mut self) -> usize {
        if self.corrupt {
            return 0;
        }
        // Acquire pairs with the consumer's release: its reads of a slot end before our next write of it.
        let head = self.index(HEAD).load(Acquire);
        let limit = head.wrapping_add(self.capacity);
        let free = limit.wrapping_sub(self.tail);
        // More than the capacity free: the head is ahead of the tail. Less than before: it moved back.
        if free > self.capacity || (free as usize) < self.known() {
            self.mark_corrupt();
            return 0;
        }
        self.limit = limit;
        free as usize
    }

    #[cold]
    fn commit_refused(&mut self, n: usize) {
        if n != 0 && !self.corrupt {
            debug_assert!(false, "commit of {n} entries with {} free", self.known());
            self.mark_corrupt();
        }
    }

    #[cold]
    fn mark_corrupt(&mut self) {
        self.corrupt = true;
        self.limit = self.tail;
    }
}

/// The side that reads. Entries come out by [`read`](Consumer::read) and [`release`](Consumer::release), a burst for one
/// release store, or one by one with [`pop`](Consumer::pop).
#[derive(Debug)]
pub struct Consumer<const W: usize> {
    region: Region,
    capacity: u64,
    /// Entries ever released. Private: the copy in the region is for the producer only.
    head: u64,
    /// The producer's index as last seen and found possible. Equal to `head` once corrupt.
    seen: u64,
    corrupt: bool,
}

impl<const W: usize> Consumer<W> {
    /// Entries that the ring holds at most.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Entries known to be ready; looks at the producer's index only when none is. So it is zero when the ring is empty
    /// (or corrupt), and otherwise a lower bound.
    #[inline]
    pub fn available(&mut self) -> usize {
        self.available_at_least(1)
    }

    /// Entries known to be ready; looks at the producer's index when fewer than `n` are. So it is exact when the answer
    /// is below `n`, and otherwise a lower bound.
    #[inline]
    pub fn available_at_least(&mut self, n: usize) -> usize {
        let known = self.known();
        if known >= n { known } else { self.look_again() }
    }

    /// A copy of the `i`-th ready entry. `i` must be below what [`available`](Consumer::available) returned; beyond that,
    /// the words are stale or half-written (and debug builds panic). From an untrusted producer any words may come, and
    /// other ones at the next call: read once, validate the copy.
    #[inline]
    pub fn read(&self, i: usize) -> [u64; W] {
        debug_assert!(i < self.known() || self.corrupt, "read past the ready entries");
        let slot = self.head.wrapping_add(i as u64) & (self.capacity - 1);
        let first = ENTRIES + slot as usize * (W * 8);
        // SAFETY: `slot < capacity` and `k < W`, and `fits` checked that the region holds `capacity` entries of `W` words
        // after `ENTRIES`, at an address that is a multiple of 8.
        std::array::from_fn(|k| unsafe { self.region.word(first + k * 8) }.load(Relaxed))
    }

    /// Gives the first `n` ready entries back to the producer. `n` must be at most what
    /// [`available`](Consumer::available) returned; releasing more marks the ring corrupt (and debug builds panic). A
    /// corrupt ring releases nothing.
    #[inline]
    pub fn release(&mut self, n: usize) {
        // One test for both, as in `commit`.
        if n.wrapping_sub(1) >= self.known() {
            return self.release_refused(n);
        }
        self.head = self.head.wrapping_add(n as u64);
        // Release: our reads of the slots end before the producer, who acquires this index, writes them again.
        self.index(HEAD).store(self.head, Release);
    }

    /// Reads and releases one entry. `None` when the ring is empty or corrupt.
    #[inline]
    pub fn pop(&mut self) -> Option<[u64; W]> {
        if self.available_at_least(1) == 0 {
            return None;
        }
        let entry = self.read(0);
        self.release(1);
        Some(entry)
    }

    /// Sequence number of the next entry to release. Side arrays are indexed by `position & (capacity - 1)`.
    #[inline]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Whether the producer's index was found impossible. Final: the ring yields nothing more.
    #[inline]
    pub fn is_corrupt(&self) -> bool {
        self.corrupt
    }

    #[inline]
    fn known(&self) -> usize {
        self.seen.wrapping_sub(self.head) as usize
    }

    #[inline]
    fn index(&self, offset: usize) -> &crate::sync::AtomicU64 {
        // SAFETY: `TAIL` and `HEAD` are multiples of 8 below `ENTRIES`, and `fits` checked that the region holds those
        // bytes at an address that is a multiple of 8.
        unsafe { self.region.word(offset) }
    }

    /// Refreshes the view of the producer's index; returns the ready entries, exactly.
    fn look_again(&mut self) -> usize {
        if self.corrupt {
            return 0;
        }
        // Acquire pairs with the producer's release: the entries below this index are written.
        let tail = self.index(TAIL).load(Acquire);
        let ready = tail.wrapping_sub(self.head);
        // More than the capacity: the tail is ahead of any room, or behind the head. Less than before: it moved back.
        if ready > self.capacity || (ready as usize) < self.known() {
            self.mark_corrupt();
            return 0;
        }
        self.seen = tail;
        ready as usize
    }

    #[cold]
    fn release_refused(&mut self, n: usize) {
        if n != 0 && !self.corrupt {
            debug_assert!(false, "release of {n} entries with {} ready", self.known());
            self.mark_corrupt();
        }
    }

    #[cold]
    fn mark_corrupt(&mut self) {
        self.corrupt = true;
        self.seen = self.head;
    }
}
