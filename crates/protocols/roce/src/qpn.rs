//! Queue pair numbers: counted up, and handed out again only when nobody who might mean the old queue pair is left at this end.
//!
//! A connection that is being closed, or is remembered (time-wait), keeps its queue pair's number from coming again, also when
//! the queue pair itself is gone. So with short times of remembering a number rests for 2^24 others, and with long ones for as
//! long as it takes.

use crate::index::Index;
use crate::psn;
use barewire_wire::roce::{MASK_24, QPN_GSI};

/// Bits of a word of `held`.
const WORD: usize = u64::BITS as usize;

pub(crate) struct Numbers {
    index: Index,
    /// One bit for each number that a connection holds. Numbers are counted up, so those of one time lie together.
    held: Vec<u64>,
    /// How many of them there are.
    holding: usize,
    next: u32,
}

impl Numbers {
    pub(crate) fn new(salt: u64, first: u32) -> Numbers {
        // Two megabytes, of which only what is used becomes memory.
        Numbers {
            index: Index::new(salt),
            held: vec![0; (1 << 24) / WORD],
            holding: 0,
            next: first & MASK_24,
        }
    }

    /// The place of a living queue pair.
    #[inline]
    pub(crate) fn get(&self, qpn: u32) -> Option<u32> {
        self.index.get(u64::from(qpn))
    }

    #[inline]
    fn is_held(&self, qpn: u32) -> bool {
        self.held[qpn as usize / WORD] >> (qpn as usize % WORD) & 1 != 0
    }

    /// The next number that nobody has or remembers, for the queue pair in a place.
    pub(crate) fn take(&mut self, slot: u32) -> u32 {
        // There are 2^24 numbers, and fewer queue pairs and connections together.
        loop {
            let qpn = self.next;
            self.next = psn::add(qpn, 1);
            // 0 and 1 are for management, the last one is for multicast.
            let usable = qpn > QPN_GSI && qpn != MASK_24 && !self.is_held(qpn);
            if usable && self.index.get(u64::from(qpn)).is_none() {
                // One that finds no place in the table is passed over.
                if self.index.insert(u64::from(qpn), slot) {
                    return qpn;
                }
            }
        }
    }

    /// A connection names the queue pair. False when another one does, or still remembers it: the same two queue pairs must not
    /// meet again before that is over.
    #[inline]
    pub(crate) fn hold(&mut self, qpn: u32) -> bool {
        let free = !self.is_held(qpn & MASK_24);
        self.holding += usize::from(free);
        self.held[(qpn & MASK_24) as usize / WORD] |= 1 << (qpn as usize % WORD);
        free
    }

    /// The connection that held the number is forgotten.
    #[inline]
    pub(crate) fn release(&mut self, qpn: u32) {
        self.holding -= usize::from(self.is_held(qpn & MASK_24));
        self.held[(qpn & MASK_24) as usize / WORD] &= !(1 << (qpn as usize % WORD));
    }

    /// Numbers of living queue pairs.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Numbers that connections hold.
    pub(crate) fn held(&self) -> usize {
        self.holding
    }

    /// The queue pair is gone.
    #[inline]
    pub(crate) fn give(&mut self, qpn: u32) {
        self.index.remove(u64::from(qpn));
    }

    /// Moves the counter, so that a test need not make millions.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, qpn: u32) {
        self.next = qpn & MASK_24;
    }
}

const _: () = assert!(crate::config::QPS_MAX + crate::config::CONNECTIONS_MAX < (1 << 24) - 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_rests_while_anybody_remembers_it() {
        let mut numbers = Numbers::new(7, 0xff_fffd);
        let a = numbers.take(5);
        let b = numbers.take(6);
        // The last one, 0 and 1 are nobody's.
        assert_eq!((a, b, numbers.take(7)), (0xff_fffd, 0xff_fffe, 2));
        assert!(numbers.hold(a) && !numbers.hold(a));
        numbers.give(a);
        numbers.give(b);
        assert_eq!((numbers.get(a), numbers.get(b), numbers.get(2)), (None, None, Some(7)));
        numbers.skip_to(a);
        assert_eq!(numbers.take(8), b);
        numbers.release(a);
        numbers.skip_to(a);
        assert_eq!((numbers.take(10), numbers.get(a)), (a, Some(10)));
        // One that lives is not ended by who forgets it.
        assert!(numbers.hold(b));
        numbers.release(b);
        assert_eq!(numbers.get(b), Some(8));
        assert!(numbers.hold(b));
    }
}
