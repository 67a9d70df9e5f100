//! Loops: the packets of a snapshot or definition feed, numbered from 1 in each round, on any line.

use crate::table::IdTable;

/// The most packets of a loop that can be told apart; copies of later ones are read again.
const MAX_PACKETS: usize = 1 << 16;

/// What a packet is to its loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// The first copy of a packet of the running loop.
    New,
    /// The first packet of another loop.
    NewLoop,
    /// Heard before.
    Old,
    /// Of a round that is over, or with a time that does not fit: to be used for what it says, but not counted.
    Stray,
}

/// A packet sent so much later than the one before does not belong to the loop.
const MAX_STEP_NS: u64 = 3_600 * 1_000_000_000;
/// So many strays in a row, and it is the tracker that is wrong.
const MAX_STRAYS: u32 = 4_096;

/// Which packets of the running loop have been heard.
#[derive(Debug)]
pub(crate) struct LoopTracker {
    seen: Box<[u64]>,
    /// Highest number heard in this loop, and when it was sent.
    max_seq: u32,
    max_time_ns: u64,
    started_ns: u64,
    strays: u32,
}

impl LoopTracker {
    pub(crate) fn new() -> Self {
        let seen = vec![0; MAX_PACKETS / 64].into();
        LoopTracker { seen, max_seq: 0, max_time_ns: 0, started_ns: 0, strays: 0 }
    }

    /// Forgets what was heard.
    pub(crate) fn restart(&mut self) {
        self.seen.fill(0);
        self.max_seq = 0;
    }

    /// Takes in a packet's number and time. Rounds follow one another, so a lower number with a later time than the
    /// highest's begins another.
    pub(crate) fn packet(&mut self, seq: u32, sending_time_ns: u64) -> Part {
        let mut part = Part::New;
        let odd = sending_time_ns < self.started_ns
            || sending_time_ns > self.max_time_ns.saturating_add(MAX_STEP_NS);
        if odd && self.max_time_ns != 0 {
            self.strays += 1;
            if self.strays > MAX_STRAYS {
                self.restart();
                (self.max_time_ns, self.started_ns, self.strays) = (0, 0, 0);
            }
            return Part::Stray;
        }
        self.strays = 0;
        if self.max_seq != 0 && seq <= self.max_seq && sending_time_ns > self.max_time_ns {
            part = Part::NewLoop;
            self.restart();
            self.started_ns = sending_time_ns;
        } else if self.max_seq == 0 {
            self.started_ns = sending_time_ns;
        }
        if seq >= self.max_seq {
            self.max_seq = seq;
            self.max_time_ns = self.max_time_ns.max(sending_time_ns);
        }
        let Some(word) = self.seen.get_mut(seq as usize / 64) else { return part };
        let bit = 1 << (seq % 64);
        if *word & bit != 0 {
            return if part == Part::NewLoop { part } else { Part::Old };
        }
        *word |= bit;
        part
    }
}

/// The round of the loop that last had each instrument that has no slot.
#[derive(Debug)]
pub(crate) struct Unlisted {
    marks: IdTable,
    room: usize,
}

impl Unlisted {
    pub(crate) fn new(capacity: usize) -> Self {
        Unlisted { marks: IdTable::new(capacity), room: capacity }
    }

    /// Marks an instrument and gives its mark before. Without room it counts as marked, so that the loop never seems complete.
    pub(crate) fn mark(&mut self, id: i32, mark: u16) -> u16 {
        let before = self.marks.get(id);
        if before.is_none() && self.room == 0 {
            return mark;
        }
        self.room -= usize::from(before.is_none());
        self.marks.insert(id, usize::from(mark));
        before.map_or(0, |before| before as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_told_from_the_next_and_copies_from_both() {
        let mut tracker = LoopTracker::new();
        assert_eq!(tracker.packet(2, 200), Part::New);
        assert_eq!(tracker.packet(1, 300), Part::NewLoop);
        assert_eq!(tracker.packet(1, 300), Part::Old);
        assert_eq!(tracker.packet(3, 320), Part::New);
        assert_eq!(tracker.packet(2, 310), Part::New, "reordered within the loop");
        assert_eq!(tracker.packet(3, 120), Part::Stray, "of the round before");
        assert_eq!(tracker.packet(9, u64::MAX), Part::Stray);
        assert_eq!(tracker.packet(u32::MAX, 330), Part::New);
        assert_eq!(tracker.packet(3, 320), Part::Old);
    }

    #[test]
    fn a_wrong_time_does_not_deafen_it() {
        let mut tracker = LoopTracker::new();
        tracker.packet(1, u64::MAX - 5);
        assert!((0..10_000).any(|i| tracker.packet(2, 100 + i) == Part::New));
    }
}
