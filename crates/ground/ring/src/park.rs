//! Sleeping without losing a wake-up.
//!
//! ```text
//! consumer                                      producer
//!   poll every ring: nothing                      commit to a ring
//!   flag.prepare()      parked = 1, fence         flag.should_wake()   fence, test and clear parked
//!   poll every ring again                         if true: write the consumer's eventfd
//!   if something: flag.cancel(), work
//!   else: sleep on the eventfd, flag.cancel()
//! ```
//!
//! Each side stores one word and then loads the other's. Without the two `SeqCst` fences both loads may miss both stores
//! (store buffering): the consumer sleeps on an entry that nobody announces. With them at least one sees the other's
//! store. Every write of the flag is a swap, never a plain store: so each write follows the one that it read, and a
//! producer's late clearing of one sleep's flag cannot be taken for newer than the next sleep's setting of it. (C++'s
//! rules give that for plain stores too; loom does not model it, and the code that runs is the code that was checked.)
//!
//! The wake-up itself must stick, as an eventfd's count does: it may come before the sleep begins.
//!
//! In shared memory the flag may be scribbled over: that costs spurious wake-ups, or wake-ups that never come. So a
//! consumer that serves several parties has a flag for each, or bounds its sleep.

use crate::Region;
use crate::sync::Ordering::{AcqRel, Relaxed, SeqCst};
use crate::sync::{AtomicU32, fence};

/// One `u32` in a region: 1 while the consumer sleeps or is about to, else 0. Zeroed memory is a consumer that is awake.
/// Keep it off the lines that data moves through; a ring's consumer line is good company.
#[derive(Clone, Debug)]
pub struct ParkFlag {
    /// Exactly the four bytes.
    word: Region,
}

impl ParkFlag {
    /// The flag in the four bytes at `offset`. `None` when out of bounds or when their address is not a multiple of 4.
    pub fn new(region: &Region, offset: usize) -> Option<ParkFlag> {
        let word = region.slice(offset, 4)?;
        word.atomic_u32(0)?;
        Some(ParkFlag { word })
    }

    /// Consumer: says that it is about to sleep. Look at every ring once more afterwards, and sleep only if all are
    /// empty.
    #[inline]
    pub fn prepare(&self) {
        self.flag().swap(1, AcqRel);
        fence(SeqCst);
    }

    /// Consumer: says that it is awake: after a sleep, or instead of one.
    #[inline]
    pub fn cancel(&self) {
        self.flag().swap(0, AcqRel);
    }

    /// Producer: call it after publishing. True when the consumer must be woken, which is the caller's to do; of several
    /// producers one is told. Once per burst: the fence is the whole cost while the consumer is awake.
    #[inline]
    #[must_use]
    pub fn should_wake(&self) -> bool {
        fence(SeqCst);
        let flag = self.flag();
        // The load first: a swap would take the line for writing each time.
        flag.load(Relaxed) != 0 && flag.swap(0, AcqRel) != 0
    }

    #[inline]
    fn flag(&self) -> &AtomicU32 {
        // `new` checked bounds and alignment; a region's place and length never change.
        self.word.atomic_u32(0).expect("four aligned bytes")
    }
}
