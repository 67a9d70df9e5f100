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

/// Declares a struct of named [`Counter`]s, with one [`DropCounters`] named `drops`: a counter's field, its name in every
/// output and the sentence that explains it are written once, as a documented field.
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* pub struct $Counters:ident { $($(#[doc = $doc:literal])* $name:ident,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub struct $Counters {
            $($(#[doc = $doc])* pub $name: $crate::Counter,)*
            /// What went no further, by reason.
            pub drops: $crate::DropCounters,
        }

        impl $Counters {
            /// What each counter counts: its name and a sentence.
            pub const HELP: &'static [(&'static str, &'static str)] = &[$((stringify!($name), concat!($($doc),*)),)*];

            /// Every count but those of drops, with its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.get()),)*].into_iter()
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_named_and_explained_once() {
        counters! {
            /// Counts of a test.
            pub struct Counts {
                /// Frames
                /// taken in.
                rx,
                /// Frames written.
                tx,
            }
        }
        let counts = Counts::default();
        counts.tx.add(3);
        assert!(counts.iter().eq([("rx", 0), ("tx", 3)]));
        assert_eq!(Counts::HELP, [("rx", " Frames taken in."), ("tx", " Frames written.")]);
        assert_eq!(counts.drops.total(), 0);
    }

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
