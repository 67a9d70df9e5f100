//! Counters that one thread writes and any thread or process reads.

use crate::DropReason;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with a single writer. Adding is a plain load and store, not a locked instruction; readers elsewhere (another
/// thread, or another process that maps the counters page) see whole values, a little late.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Adds `n`. Two writers would lose counts: each counter belongs to one engine.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Replaces the value, for gauges.
    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One counter for each [`DropReason`].
#[derive(Debug)]
pub struct DropCounters([Counter; DropReason::COUNT]);

impl DropCounters {
    /// All at zero.
    pub const fn new() -> Self {
        DropCounters([const { Counter::new() }; DropReason::COUNT])
    }

    /// Counts one drop.
    #[inline]
    pub fn count(&self, reason: DropReason) {
        self.0[reason as usize].add(1);
    }

    /// How many were dropped for `reason`.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize].get()
    }

    /// How many were dropped in all.
    pub fn total(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }

    /// The reasons that have occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&r| (r, self.get(r))).filter(|&(_, n)| n > 0)
    }
}

impl Default for DropCounters {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_by_reason() {
        let drops = DropCounters::new();
        drops.count(DropReason::BadChecksum);
        drops.count(DropReason::BadChecksum);
        drops.count(DropReason::Truncated);
        assert_eq!(drops.get(DropReason::BadChecksum), 2);
        assert_eq!(drops.total(), 3);
        assert_eq!(drops.iter().count(), 2);
    }
}
