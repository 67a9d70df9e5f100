//! The four rings of an AF_XDP socket: single producer, single consumer, shared with the kernel
//! (kernel `Documentation/networking/af_xdp.rst`, section "Rings").
//!
//! Indices run freely over 32 bits and are masked on use. Each side keeps a private copy of both, so that the shared
//! words are touched once a burst. A ring is generic over what holds its memory: the kernel's mapping, or plain memory
//! in tests, where a producer and a consumer are wired to the same words.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a ring lies. `M` keeps the memory alive.
pub(crate) struct Raw<T, M> {
    pub producer: NonNull<AtomicU32>,
    pub consumer: NonNull<AtomicU32>,
    pub flags: NonNull<AtomicU32>,
    pub entries: NonNull<T>,
    /// A power of two.
    pub len: u32,
    #[expect(dead_code, reason = "held for its drop")]
    pub memory: M,
}

impl<T: Copy, M> Raw<T, M> {
    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: whoever built a ring (its `new` is unsafe) vouches that the pointer is valid while `memory` lives.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as in `producer`.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn flagged(&self) -> bool {
        // SAFETY: as in `producer`.
        unsafe { self.flags.as_ref() }.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    #[inline]
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: masked, the index is below `len`, and `entries` points at `len` entries (vouched for by `new`).
        unsafe { self.entries.add((index & (self.len - 1)) as usize) }
    }
}

/// Our side of a ring that we fill: transmit, fill.
pub(crate) struct Producer<T, M> {
    raw: Raw<T, M>,
    /// Next index to write.
    next: u32,
    /// Where the reader was, last we looked, plus the ring's length: the first index that must not be written.
    limit: u32,
}

impl<T: Copy, M> Producer<T, M> {
    /// Takes the producing side.
    ///
    /// # Safety
    /// All pointers of `raw` are valid and aligned while `raw.memory` lives, `entries` for `len` entries, `len` a power of
    /// two; nobody else produces; the consumer reads an entry only between the two indices, by this protocol.
    pub unsafe fn new(raw: Raw<T, M>) -> Self {
        let next = raw.producer().load(Ordering::Relaxed);
        let limit = raw.consumer().load(Ordering::Acquire).wrapping_add(raw.len);
        Producer { raw, next, limit }
    }

    /// Whether `push` has room; looks at the shared word only when the private copy says full.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        if self.next != self.limit {
            return true;
        }
        // Acquire: the reader has finished with the entries it passed.
        self.limit = self.raw.consumer().load(Ordering::Acquire).wrapping_add(self.raw.len);
        self.next != self.limit
    }

    /// Writes one entry, not yet visible. False when the ring is full.
    #[inline]
    #[must_use]
    pub fn push(&mut self, entry: T) -> bool {
        if !self.has_room() {
            return false;
        }
        // SAFETY: the index is outside the reader's range until `publish`, so the entry is ours alone.
        unsafe { self.raw.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Makes every pushed entry visible.
    #[inline]
    pub fn publish(&mut self) {
        // Release: the entries are written before the index that covers them.
        self.raw.producer().store(self.next, Ordering::Release);
    }

    /// Entries that the reader has not taken yet, and where it stands.
    #[inline]
    pub fn unread(&self) -> u32 {
        self.next.wrapping_sub(self.raw.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel asks for a system call to make it look.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        self.raw.flagged()
    }
}

/// Our side of a ring that the kernel fills: receive, completion.
pub(crate) struct Consumer<T, M> {
    raw: Raw<T, M>,
    /// Next index to read.
    next: u32,
    /// Where the writer was, last we looked.
    end: u32,
}

impl<T: Copy, M> Consumer<T, M> {
    /// Takes the consuming side.
    ///
    /// # Safety
    /// As for [`Producer::new`], with the sides exchanged.
    pub unsafe fn new(raw: Raw<T, M>) -> Self {
        let next = raw.consumer().load(Ordering::Relaxed);
        Consumer { raw, next, end: next }
    }

    /// Entries that can be popped, at most `most`. An empty ring costs one comparison and one load.
    #[inline]
    pub fn available(&mut self, most: u32) -> u32 {
        if self.end == self.next {
            // Acquire: the entries below the index are written.
            self.end = self.raw.producer().load(Ordering::Acquire);
        }
        self.end.wrapping_sub(self.next).min(most)
    }

    /// Reads one entry; `None` when [`available`](Self::available) saw no more.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.next == self.end {
            return None;
        }
        // SAFETY: the writer published this index and does not write it again until `release`.
        let entry = unsafe { self.raw.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives the popped entries back to the writer.
    #[inline]
    pub fn release(&mut self) {
        // Release: the entries are read before the writer may overwrite them.
        self.raw.consumer().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::UnsafeCell;
    use std::collections::VecDeque;
    use std::sync::Arc;

    /// Plain memory that one producer and one consumer share.
    struct Plain {
        producer: AtomicU32,
        consumer: AtomicU32,
        flags: AtomicU32,
        entries: Box<[UnsafeCell<u64>]>,
    }

    // SAFETY: entries are touched by the protocol under test only, which gives each index to one side at a time.
    unsafe impl Sync for Plain {}

    fn raw(plain: &Arc<Plain>) -> Raw<u64, Arc<Plain>> {
        Raw {
            producer: NonNull::from(&plain.producer),
            consumer: NonNull::from(&plain.consumer),
            flags: NonNull::from(&plain.flags),
            entries: NonNull::new(UnsafeCell::raw_get(plain.entries.as_ptr())).unwrap(),
            len: plain.entries.len() as u32,
            memory: plain.clone(),
        }
    }

    type Wired = (Producer<u64, Arc<Plain>>, Consumer<u64, Arc<Plain>>, Arc<Plain>);

    fn wired(len: usize, start: u32) -> Wired {
        let plain = Arc::new(Plain {
            producer: AtomicU32::new(start),
            consumer: AtomicU32::new(start),
            flags: AtomicU32::new(0),
            entries: (0..len).map(|_| UnsafeCell::new(0xa5a5_a5a5_a5a5_a5a5)).collect(),
        });
        // SAFETY: the pointers are into the `Arc`, the length is a power of two, and each side is made once.
        unsafe { (Producer::new(raw(&plain)), Consumer::new(raw(&plain)), plain) }
    }

    #[test]
    fn nothing_is_seen_before_publish_nor_overwritten_before_release() {
        let (mut p, mut c, _) = wired(2, 0);
        assert!(p.push(1) && p.push(2) && !p.push(3));
        assert_eq!((c.available(9), c.pop()), (0, None));
        p.publish();
        assert_eq!((p.unread(), c.available(1), c.available(9)), (2, 1, 2));
        assert_eq!((c.pop(), c.pop(), c.pop()), (Some(1), Some(2), None));
        assert!(!p.has_room());
        c.release();
        assert!(p.has_room());
        assert_eq!(p.unread(), 0);
    }

    #[test]
    fn the_wakeup_flag_is_one_bit() {
        let (p, _, plain) = wired(2, 0);
        plain.flags.store(!1, Ordering::Relaxed);
        assert!(!p.needs_wakeup());
        plain.flags.store(1, Ordering::Relaxed);
        assert!(p.needs_wakeup());
    }

    #[test]
    fn two_threads_hand_over_every_entry_in_order() {
        const COUNT: u64 = 200_000;
        let (mut p, mut c, _) = wired(64, u32::MAX - 1000);
        struct Send<T>(T);
        // SAFETY: the pointers are into an `Arc` that moves along; each side is used by one thread.
        unsafe impl<T> std::marker::Send for Send<T> {}
        let side = Send(move || {
            let mut next = 0;
            while next < COUNT {
                while next < COUNT && p.push(next) {
                    next += 1;
                }
                p.publish();
                std::thread::yield_now();
            }
        });
        let writer = std::thread::spawn(move || {
            // The whole value is captured: a field of it alone would not be `Send`.
            let mut side = side;
            (side.0)();
        });
        let mut expected = 0;
        while expected < COUNT {
            if c.available(32) == 0 {
                std::thread::yield_now();
            }
            while let Some(entry) = c.pop() {
                assert_eq!(entry, expected);
                expected += 1;
            }
            c.release();
        }
        writer.join().unwrap();
    }

    proptest! {
        #[test]
        fn a_ring_is_a_bounded_queue(start: u32, steps in proptest::collection::vec((0u8..4, 0u32..6), 0..200)) {
            let (mut p, mut c, _) = wired(8, start);
            // Entries pushed, published, popped but not released.
            let (mut hidden, mut visible, mut held) = (VecDeque::new(), VecDeque::new(), 0usize);
            let mut value = 0u64;
            for (step, n) in steps {
                match step {
                    0 => for _ in 0..n {
                        let room = hidden.len() + visible.len() + held < 8;
                        prop_assert_eq!(p.push(value), room);
                        if room { hidden.push_back(value); }
                        value += 1;
                    },
                    1 => { p.publish(); visible.append(&mut hidden); }
                    2 => {
                        let seen = c.available(n);
                        prop_assert!(seen <= n && seen as usize <= visible.len());
                        for _ in 0..seen {
                            prop_assert_eq!(c.pop(), visible.pop_front());
                            held += 1;
                        }
                    }
                    _ => { c.release(); held = 0; }
                }
            }
        }
    }
}
