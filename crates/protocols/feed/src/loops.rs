//! Loops: the packets of a snapshot or definition feed, numbered from 1 in each round, on any line.

use crate::table::IdTable;
use barewire_base::{Duration, Instant};

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

/// A packet sent so much later than the one before belongs to another round, and to none if that time has not gone by here as well.
const MAX_STEP: Duration = Duration::from_secs(3_600);
/// So many strays in a row, and it is the tracker that is wrong.
const MAX_STRAYS: u32 = 64;

/// Which packets of the running loop have been heard.
#[derive(Debug)]
pub(crate) struct LoopTracker {
    seen: Box<[u64]>,
    /// Highest number heard in this loop, and when it was sent.
    max_seq: u32,
    max_time_ns: u64,
    started_ns: u64,
    /// When that packet was received: the loop may have been left for hours.
    heard: Instant,
    strays: u32,
}

impl LoopTracker {
    pub(crate) fn new() -> Self {
        let seen = vec![0; MAX_PACKETS / 64].into();
        LoopTracker { seen, max_seq: 0, max_time_ns: 0, started_ns: 0, heard: Instant::ZERO, strays: 0 }
    }

    /// Forgets what was heard.
    pub(crate) fn restart(&mut self) {
        self.seen.fill(0);
        self.max_seq = 0;
    }

    /// Takes in a packet's number and time, received `now`. Rounds follow one another, so a lower number with a later time than the
    /// highest's begins another.
    pub(crate) fn packet(&mut self, now: Instant, seq: u32, sending_time_ns: u64) -> Part {
        let mut part = Part::New;
        let step_ns = sending_time_ns.saturating_sub(self.max_time_ns);
        let heard_ago_ns = now.since(self.heard).as_nanos();
        let odd =
            sending_time_ns < self.started_ns || step_ns > heard_ago_ns.saturating_add(MAX_STEP.as_nanos());
        if odd && self.max_time_ns != 0 {
            self.strays += 1;
            if self.strays > MAX_STRAYS {
                self.restart();
                (self.max_time_ns, self.started_ns, self.strays) = (0, 0, 0);
            }
            return Part::Stray;
        }
        self.strays = 0;
        self.heard = now;
        let later = sending_time_ns > self.max_time_ns;
        if self.max_seq != 0 && later && (seq <= self.max_seq || step_ns > MAX_STEP.as_nanos()) {
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

/// Security ids that can be remembered as passed over; behind the last of them all count as such.
const MAX_PASSED_OVER: usize = 1 << 16;

/// Security ids of which something was not taken in.
#[derive(Debug)]
pub(crate) struct PassedOver {
    ids: IdTable,
    room: usize,
    is_noting: bool,
}

impl PassedOver {
    pub(crate) fn new(is_noting: bool) -> Self {
        PassedOver { ids: IdTable::new(MAX_PASSED_OVER), room: MAX_PASSED_OVER, is_noting }
    }

    /// Nothing has been passed over yet.
    pub(crate) fn clear(&mut self) {
        if self.room < MAX_PASSED_OVER {
            self.ids.clear();
            self.room = MAX_PASSED_OVER;
        }
    }

    /// Ids are noted while it is not known which there are. Else one is passed over without a note, so that what is not wanted costs
    /// nothing, and any that is named later counts as passed over.
    pub(crate) fn set_noting(&mut self, is_noting: bool) {
        self.is_noting = is_noting;
    }

    #[cold]
    pub(crate) fn note(&mut self, id: i32) {
        if self.is_noting && self.room > 0 && self.ids.get(id).is_none() {
            self.ids.insert(id, 0);
            self.room -= 1;
        }
    }

    pub(crate) fn has(&self, id: i32) -> bool {
        self.room == 0 || !self.is_noting || self.ids.get(id).is_some()
    }
}

/// How far the running round of a snapshot loop has been heard. What rounds have in common cannot be told from numbers alone when one's
/// end and the next's beginning are lost; so a round counts as heard when it has had as many different instruments as it says.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) tracker: LoopTracker,
    /// Instruments that it has had have this mark.
    pub(crate) mark: u16,
    /// Instruments that it says there are, and different ones that it has had so far.
    total: u32,
    reports: u32,
    pub(crate) unlisted: Unlisted,
    /// Least LastMsgSeqNumProcessed of the round.
    pub(crate) seq: u32,
    done: bool,
    /// Which instruments there are is not known before a round has been heard.
    pub(crate) wanted: bool,
}

impl Round {
    pub(crate) fn new(unlisted: usize) -> Self {
        Round {
            tracker: LoopTracker::new(),
            mark: 1,
            total: 0,
            reports: 0,
            unlisted: Unlisted::new(unlisted),
            seq: u32::MAX,
            done: false,
            wanted: false,
        }
    }

    /// Another round begins.
    pub(crate) fn begin(&mut self) {
        self.mark = self.mark.wrapping_add(1).max(1);
        self.seq = u32::MAX;
        (self.reports, self.total) = (0, 0);
        self.done = false;
    }

    /// What was heard of the round does not count any more.
    pub(crate) fn restart(&mut self) {
        self.tracker.restart();
        self.begin();
    }

    /// Counts an instrument, once: `before` is the mark that it had.
    pub(crate) fn report(&mut self, before: u16, last_seq: u32, total: u32) {
        self.reports += u32::from(before != self.mark);
        // A late packet of the round before may say less.
        self.total = self.total.max(total);
        self.seq = self.seq.min(last_seq);
    }

    /// An instrument with this mark is not handled any more.
    pub(crate) fn give_back(&mut self, id: i32, mark: u16) {
        if mark == self.mark {
            self.unlisted.mark(id, mark);
        }
    }

    /// Whether every instrument of the round has been heard, told once.
    pub(crate) fn completes(&mut self) -> bool {
        let completes = !self.done && self.total != 0 && self.reports == self.total;
        self.done |= completes;
        completes
    }
}

/// The round of the loop that last had each instrument that has no slot.
#[derive(Debug)]
pub(crate) struct Unlisted {
    marks: IdTable,
    room: usize,
    /// The round in which room was made last.
    swept: u16,
}

impl Unlisted {
    pub(crate) fn new(capacity: usize) -> Self {
        Unlisted { marks: IdTable::new(capacity), room: capacity, swept: 0 }
    }

    /// The mark of an instrument; zero where it has none.
    pub(crate) fn get(&self, id: i32) -> u16 {
        self.marks.get(id).map_or(0, |mark| mark as u16)
    }

    /// Marks an instrument and gives its mark before. Where there is no room those that the round has not had so far
    /// are forgotten: some of them are listed no longer. Without room even so it counts as marked, so that the loop never seems complete.
    pub(crate) fn mark(&mut self, id: i32, mark: u16) -> u16 {
        let before = self.marks.get(id);
        if before.is_none() && self.room == 0 {
            if self.swept != mark {
                self.swept = mark;
                self.room += self.marks.retain(|had| had == usize::from(mark));
            }
            if self.room == 0 {
                return mark;
            }
        }
        self.room -= usize::from(before.is_none());
        self.marks.insert(id, usize::from(mark));
        before.map_or(0, |before| before as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn a_round_is_told_from_the_next_and_copies_from_both() {
        let mut tracker = LoopTracker::new();
        assert_eq!(tracker.packet(NOW, 2, 200), Part::New);
        assert_eq!(tracker.packet(NOW, 1, 300), Part::NewLoop);
        assert_eq!(tracker.packet(NOW, 1, 300), Part::Old);
        assert_eq!(tracker.packet(NOW, 3, 320), Part::New);
        assert_eq!(tracker.packet(NOW, 2, 310), Part::New, "reordered within the loop");
        assert_eq!(tracker.packet(NOW, 3, 120), Part::Stray, "of the round before");
        assert_eq!(tracker.packet(NOW, 9, u64::MAX), Part::Stray);
        assert_eq!(tracker.packet(NOW, u32::MAX, 330), Part::New);
        assert_eq!(tracker.packet(NOW, 3, 320), Part::Old);
    }

    #[test]
    fn a_wrong_time_does_not_deafen_it() {
        let mut tracker = LoopTracker::new();
        tracker.packet(NOW, 1, u64::MAX - 5);
        assert!((0..100).any(|i| tracker.packet(NOW, 2, 100 + i) == Part::New));
    }

    #[test]
    fn a_loop_that_was_left_for_hours_goes_on_with_another_round() {
        let (hour, start) = (MAX_STEP.as_nanos(), 1 << 60);
        let later = |ns: u64| Instant::from_nanos(2 * hour + ns);
        for seq in [1, 5, 9] {
            let mut tracker = LoopTracker::new();
            assert_eq!(tracker.packet(NOW, 5, start), Part::New);
            assert_eq!(tracker.packet(later(0), seq, start + 2 * hour), Part::NewLoop, "packet {seq}");
            assert_eq!(tracker.packet(later(1), seq, start + 2 * hour), Part::Old);
            assert_eq!(tracker.packet(later(2), seq + 1, start + 2 * hour + 9), Part::New);
            // Time that has not gone by here is wrong, and a packet from before is late.
            assert_eq!(tracker.packet(later(3), seq + 2, start + 4 * hour), Part::Stray);
            assert_eq!(tracker.packet(later(4), 6, start + 7), Part::Stray);
        }
    }

    #[test]
    fn room_for_instruments_without_a_slot_comes_back() {
        let mut unlisted = Unlisted::new(3);
        for round in 1..200u16 {
            // One of three changes in each round.
            for i in 0..3 {
                let id = i32::from(round) + i;
                let before = unlisted.mark(id, round);
                assert!(before == 0 || before == round - 1, "round {round}: {before}");
            }
        }
        // Four are too many: the fourth counts as had.
        for (id, before) in [(201, 199), (202, 0), (203, 0), (204, 200)] {
            assert_eq!(unlisted.mark(id, 200), before, "{id}");
        }
    }

    #[test]
    fn ids_are_passed_over_until_they_are_forgotten() {
        let mut it = PassedOver::new(true);
        it.note(7);
        it.note(7);
        assert!(it.has(7) && !it.has(8));
        it.clear();
        assert!(!it.has(7));
        it.set_noting(false);
        assert!(it.has(8), "nobody looks any more");
        it.set_noting(true);
        for id in 0..=MAX_PASSED_OVER as i32 {
            it.note(id);
        }
        assert!(it.has(-1), "no room to remember which");
    }
}
