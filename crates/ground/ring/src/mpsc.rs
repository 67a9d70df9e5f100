//! Many producers, one consumer.
//!
//! ```text
//! offset 0     tail  u64   entries ever claimed; producers compare and swap it
//! offset 128   unused      (the consumer's index is private; the line keeps the shape of `spsc`)
//! offset 256   slot 0, slot 1, … slot capacity-1, each one state word and `W` u64 words of entry
//! ```
//!
//! The bounded queue of Dmitry Vyukov (1024cores, "Bounded MPMC queue") with one consumer. A slot's state is `2 * lap` when
//! it waits for the producer of that lap and `2 * lap + 1` when it holds that producer's entry, so that a zeroed region is
//! an empty ring. A producer claims a sequence number, writes the slot, then publishes it by its state; no producer waits
//! for another.
//!
//! A producer that dies between claim and publish corrupts nothing, but its slot is never filled: the consumer stops
//! before it and the ring fills up behind. Between threads that cannot happen (there is no panic between the two); between
//! processes it can, so barewire uses this ring inside one process only.
//!
//! Entries of one producer come out in its order; entries of several in the order of their claims. Sequence numbers do not
//! wrap: at one entry per nanosecond they last for centuries.

use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::{ENTRIES, Region, TAIL, ring_size, shape_is_valid};

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
        ring_size(self.capacity, self.words as usize + 1)
    }
}

/// A region that holds a ring of entries of `W` words: what both sides share.
#[derive(Clone, Debug)]
struct Slots<const W: usize> {
    region: Region,
    /// log2 of the capacity.
    shift: u32,
}

impl<const W: usize> Slots<W> {
    fn attach(region: Region, capacity: u32) -> Option<Slots<W>> {
        let layout = Layout::new(capacity, u32::try_from(W).ok()?)?;
        (layout.size() <= region.len() && region.is_aligned_at(0, 8))
            .then(|| Slots { region, shift: capacity.trailing_zeros() })
    }

    #[inline]
    fn capacity(&self) -> usize {
        1 << self.shift
    }

    /// State of the slot of sequence number `position` while it waits for that number's producer.
    #[inline]
    fn empty_state(&self, position: u64) -> u64 {
        (position >> self.shift) << 1
    }

    #[inline]
    fn tail(&self) -> &AtomicU64 {
        // SAFETY: `TAIL` is a multiple of 8 below `ENTRIES`, and `attach` checked that the region holds those bytes at an
        // address that is a multiple of 8.
        unsafe { self.region.word(TAIL) }
    }

    /// The state (`k == 0`) or the entry's word `k - 1` of the slot of sequence number `position`.
    #[inline]
    fn word(&self, position: u64, k: usize) -> &AtomicU64 {
        debug_assert!(k <= W);
        let slot = position as usize & (self.capacity() - 1);
        // SAFETY: `slot` is masked by the capacity and `k <= W` at every call (the callers below are all there are);
        // `attach` checked that the region holds `capacity` slots of `W + 1` words after `ENTRIES`, aligned to 8.
        unsafe { self.region.word(ENTRIES + slot * ((W + 1) * 8) + k * 8) }
    }
}

/// Attaches a producer: a zeroed region is an empty ring. Producers may come at any time; cloning one is the same.
///
/// `None` when `capacity` or `W` breaks the bounds of [`Layout`], when the region is smaller than [`Layout::size`], or
/// when it does not start at a multiple of 8.
pub fn producer<const W: usize>(region: Region, capacity: u32) -> Option<Producer<W>> {
    Some(Producer { slots: Slots::attach(region, capacity)? })
}

/// Attaches the consumer, which starts at sequence number 0: a region that was used before must be zeroed first.
///
/// `None` as for [`producer`].
pub fn consumer<const W: usize>(region: Region, capacity: u32) -> Option<Consumer<W>> {
    Some(Consumer { slots: Slots::attach(region, capacity)?, head: 0, corrupt: false })
}

/// Both sides of a ring of its own on the heap. `None` when the shape breaks the bounds of [`Layout`].
pub fn heap<const W: usize>(capacity: u32) -> Option<(Producer<W>, Consumer<W>)> {
    let region = Region::heap(Layout::new(capacity, u32::try_from(W).ok()?)?.size());
    Some((producer(region.clone(), capacity)?, consumer(region, capacity)?))
}

/// A side that writes. Clone it for every thread, or share it.
#[derive(Clone, Debug)]
pub struct Producer<const W: usize> {
    slots: Slots<W>,
}

impl<const W: usize> Producer<W> {
    /// Entries that the ring holds at most.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Writes and publishes one entry. False when the ring is full. Lock-free: it tries again only when another producer
    /// got ahead.
    #[inline]
    #[must_use]
    pub fn push(&self, entry: &[u64; W]) -> bool {
        let tail = self.slots.tail();
        let mut position = tail.load(Relaxed);
        loop {
            let state = self.slots.word(position, 0);
            let empty = self.slots.empty_state(position);
            // Acquire pairs with the consumer's release: its reads of the slot end before we write it.
            match state.load(Acquire).wrapping_sub(empty) as i64 {
                0 => match tail.compare_exchange_weak(position, position.wrapping_add(1), Relaxed, Relaxed) {
                    Ok(_) => {
                        for (k, word) in entry.iter().enumerate() {
                            self.slots.word(position, k + 1).store(*word, Relaxed);
                        }
                        state.store(empty + 1, Release);
                        return true;
                    }
                    Err(now) => position = now,
                },
                // It still holds the entry of the lap before.
                ..0 => return false,
                // Another producer took this number: then the tail has moved on. If it has not, somebody scribbled over
                // the region, and there is nothing to wait for.
                _ => {
                    let now = tail.load(Relaxed);
                    if now == position {
                        return false;
                    }
                    position = now;
                }
            }
        }
    }
}

/// The side that reads.
#[derive(Debug)]
pub struct Consumer<const W: usize> {
    slots: Slots<W>,
    /// Entries ever popped.
    head: u64,
    corrupt: bool,
}

impl<const W: usize> Consumer<W> {
    /// Entries that the ring holds at most.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Whether the next [`pop`](Consumer::pop) would yield nothing: what a consumer asks before it sleeps.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.corrupt || self.slots.word(self.head, 0).load(Acquire) == self.slots.empty_state(self.head)
    }

    /// Reads and releases one entry. `None` when the ring is empty or corrupt, or when the next entry was claimed but is
    /// not yet published.
    #[inline]
    pub fn pop(&mut self) -> Option<[u64; W]> {
        if self.corrupt {
            return None;
        }
        let state = self.slots.word(self.head, 0);
        let empty = self.slots.empty_state(self.head);
        // Acquire pairs with the producer's release: the entry is written.
        match state.load(Acquire).wrapping_sub(empty) {
            1 => {}
            0 => return None,
            _ => {
                self.corrupt = true;
                return None;
            }
        }
        let entry = std::array::from_fn(|k| self.slots.word(self.head, k + 1).load(Relaxed));
        // Release: our reads end before the producer of the next lap, who acquires this state, writes the slot.
        state.store(empty.wrapping_add(2), Release);
        self.head = self.head.wrapping_add(1);
        Some(entry)
    }

    /// Sequence number of the next entry to pop.
    #[inline]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Whether a slot was found in an impossible state. Final: the ring yields nothing more.
    #[inline]
    pub fn is_corrupt(&self) -> bool {
        self.corrupt
    }
}
