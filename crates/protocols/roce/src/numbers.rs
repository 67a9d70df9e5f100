//! Queue pair numbers: counted up, and handed out again only when nobody who might mean the old queue pair is left at this end.
//!
//! A connection that is being closed, or is remembered (time-wait), keeps its queue pair's number from coming again, also when
//! the queue pair itself is gone. So with short times of remembering a number rests for 2^24 others, and with long ones for as
//! long as it takes.

use crate::index::Index;
use crate::psn;
use barewire_wire::roce::{MASK_24, QPN_GSI};

/// The queue pair is gone, connections remember it.
const GONE: u32 = 1 << 31;
/// Connections that remember the number, in the bits between its place and `GONE`.
const ONE: u32 = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 23;
const SLOT_MASK: u32 = ONE - 1;
const COUNT_MASK: u32 = GONE - ONE;

pub(crate) struct Numbers {
    index: Index,
    next: u32,
}

impl Numbers {
    pub(crate) fn new(salt: u64, first: u32) -> Numbers {
        Numbers { index: Index::new(salt), next: first & MASK_24 }
    }

    /// The place of a living queue pair.
    #[inline]
    pub(crate) fn get(&self, qpn: u32) -> Option<u32> {
        let value = self.index.get(u64::from(qpn))?;
        (value & GONE == 0).then_some(value & SLOT_MASK)
    }

    /// The next number that nobody has or remembers, for the queue pair in a place.
    pub(crate) fn take(&mut self, slot: u32) -> u32 {
        // There are 2^24 numbers, and fewer queue pairs and connections together.
        loop {
            let qpn = self.next;
            self.next = psn::add(qpn, 1);
            // 0 and 1 are for management, the last one is for multicast.
            if qpn > QPN_GSI && qpn != MASK_24 && self.index.get(u64::from(qpn)).is_none() {
                // One that finds no place in the table is passed over.
                if self.index.insert(u64::from(qpn), slot) {
                    return qpn;
                }
            }
        }
    }

    /// A connection names the queue pair. False when too many do already.
    #[inline]
    pub(crate) fn hold(&mut self, qpn: u32) -> bool {
        match self.index.get_mut(u64::from(qpn)) {
            Some(value) if *value & COUNT_MASK != COUNT_MASK => {
                *value += ONE;
                true
            }
            _ => false,
        }
    }

    /// A connection that held the number is forgotten.
    #[inline]
    pub(crate) fn release(&mut self, qpn: u32) {
        let Some(value) = self.index.get_mut(u64::from(qpn)) else { return };
        if *value & COUNT_MASK != 0 {
            *value -= ONE;
        }
        if *value & (COUNT_MASK | GONE) == GONE {
            self.index.remove(u64::from(qpn));
        }
    }

    /// The queue pair is gone.
    #[inline]
    pub(crate) fn give(&mut self, qpn: u32) {
        let Some(value) = self.index.get_mut(u64::from(qpn)) else { return };
        if *value & COUNT_MASK != 0 {
            *value |= GONE;
        } else {
            self.index.remove(u64::from(qpn));
        }
    }

    /// Moves the counter, so that a test need not make millions.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, qpn: u32) {
        self.next = qpn & MASK_24;
    }
}

const _: () = assert!(crate::config::QPS_MAX <= 1 << SLOT_BITS);
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
        assert!(numbers.hold(a) && numbers.hold(a));
        numbers.give(a);
        numbers.give(b);
        assert_eq!((numbers.get(a), numbers.get(b), numbers.get(2)), (None, None, Some(7)));
        numbers.skip_to(a);
        assert_eq!(numbers.take(8), b);
        numbers.release(a);
        numbers.skip_to(a);
        assert_eq!(numbers.take(9), 3);
        numbers.release(a);
        numbers.skip_to(a);
        assert_eq!((numbers.take(10), numbers.get(a)), (a, Some(10)));
        // One that lives is not ended by who forgets it.
        assert!(numbers.hold(b));
        numbers.release(b);
        assert_eq!(numbers.get(b), Some(8));
        // And nobody holds what is not there.
        assert!(!numbers.hold(0x1234));
        numbers.release(0x1234);
    }

    #[test]
    fn as_many_may_hold_it_as_there_are_bits() {
        let mut numbers = Numbers::new(7, 100);
        let qpn = numbers.take(1);
        let held = (0..1000).filter(|_| numbers.hold(qpn)).count();
        assert_eq!(held, 255);
        assert_eq!(numbers.get(qpn), Some(1));
    }
}
