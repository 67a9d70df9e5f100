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
    /// Different packets of this loop that were heard.
    count: u32,
    /// It was left while this loop ran.
    left: bool,
    /// The loop before this one was heard from its first packet to its highest, without a hole.
    passed: bool,
    strays: u32,
}

impl LoopTracker {
    pub(crate) fn new() -> Self {
        let seen = vec![0; MAX_PACKETS / 64].into();
        LoopTracker {
            seen,
            max_seq: 0,
            max_time_ns: 0,
            started_ns: 0,
            heard: Instant::ZERO,
            count: 0,
            left: false,
            passed: false,
            strays: 0,
        }
    }

    /// The loop is heard again after it was left: what is missing of the running one is not heard.
    pub(crate) fn rejoin(&mut self) {
        self.left = self.max_seq != 0;
    }

    /// Whether the loop before the running one was whole, as far as numbers tell: its last packets may be lost.
    pub(crate) fn has_passed(&self) -> bool {
        self.passed
    }

    fn is_whole(&self) -> bool {
        !self.left && self.count == self.max_seq && (self.max_seq as usize) < MAX_PACKETS
    }

    /// Forgets what was heard.
    pub(crate) fn restart(&mut self) {
        self.seen.fill(0);
        (self.max_seq, self.count) = (0, 0);
        (self.left, self.passed) = (false, false);
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
            let passed = seq == 1 && step_ns <= MAX_STEP.as_nanos() && self.is_whole();
            self.restart();
            self.passed = passed;
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
        self.count += u32::from(seq != 0);
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

/// Whole rounds that must have as many messages as they say, but not as many instruments, before messages are taken for what they
/// count: the end of one may be lost where by chance it fits.
const ROUNDS_THAT_FIT: u32 = 2;
/// Whole rounds that must pass without their number fitting anything before it is not waited for: ends that are lost time and again
/// are less likely than a number that counts something else.
const ROUNDS_THAT_PASS: u32 = 8;

/// How far the running round of a snapshot loop has been heard. What rounds have in common cannot be told from numbers alone when one's
/// end and the next's beginning are lost; so a round counts as heard when it has had as many as it says.
///
/// As many of what is not certain. The exchange's words for TotNumReports are the messages of the loop, of which an instrument may have
/// several: chunks of its book by order, or books of both kinds. In other feeds it is the instruments. Where both come to the same
/// there is nothing to know. Else rounds that have passed whole, by the numbers of their packets, show which it is.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) tracker: LoopTracker,
    /// Instruments that it has had have this mark.
    pub(crate) mark: u16,
    /// How many it says there are, different instruments that it has had so far, and messages that there are of these.
    total: u32,
    reports: u32,
    messages: u32,
    /// What is known of what it counts.
    counts: Counts,
    /// Whole rounds that have passed since one was complete, and those of them that fit messages.
    passed: u32,
    fitted: u32,
    pub(crate) unlisted: Unlisted,
    /// Those whose books by order it has had beside their price levels.
    with_orders: Unlisted,
    /// Least LastMsgSeqNumProcessed of the round.
    pub(crate) seq: u32,
    done: bool,
    /// Which instruments there are is not known before a round has been heard.
    pub(crate) wanted: bool,
}

impl Round {
    /// `with_orders`: instruments whose books by order may come beside their price levels.
    pub(crate) fn new(unlisted: usize, with_orders: usize) -> Self {
        Round {
            tracker: LoopTracker::new(),
            mark: 1,
            total: 0,
            reports: 0,
            messages: 0,
            counts: Counts::Unknown,
            passed: 0,
            fitted: 0,
            unlisted: Unlisted::new(unlisted),
            with_orders: Unlisted::new(with_orders),
            seq: u32::MAX,
            done: false,
            wanted: false,
        }
    }

    /// Another round begins.
    pub(crate) fn begin(&mut self) {
        self.mark = self.mark.wrapping_add(1).max(1);
        self.seq = u32::MAX;
        (self.reports, self.messages, self.total) = (0, 0, 0);
        self.done = false;
    }

    /// What was heard of the round does not count any more.
    pub(crate) fn restart(&mut self) {
        self.tracker.restart();
        (self.passed, self.fitted) = (0, 0);
        self.begin();
    }

    /// Another round has begun; this one is still in place. Whether what it did not name is not there: then how many rounds, this one
    /// the last of them, agree on that.
    pub(crate) fn passes(&mut self) -> Option<u16> {
        if self.done || self.total == 0 || !self.tracker.has_passed() {
            return None;
        }
        self.passed += 1;
        self.fitted = if self.messages == self.total { self.fitted + 1 } else { 0 };
        let fits = self.fitted >= ROUNDS_THAT_FIT;
        let rounds = match self.counts {
            Counts::Unknown if fits => ROUNDS_THAT_FIT,
            _ if self.passed >= ROUNDS_THAT_PASS => ROUNDS_THAT_PASS,
            _ => return None,
        };
        if fits {
            self.counts = Counts::Messages;
        }
        self.is_done();
        Some(rounds as u16)
    }

    fn is_done(&mut self) {
        self.done = true;
        (self.passed, self.fitted) = (0, 0);
    }

    /// Whether an instrument with this mark was in none of the last rounds, the running one among them.
    pub(crate) fn left_out(&self, mark: u16, rounds: u16) -> bool {
        // Marks go round, and zero is none of them.
        let ago = self.mark.wrapping_sub(mark) - u16::from(mark > self.mark);
        mark == 0 || ago >= rounds
    }

    /// Counts a book by order beside price levels, of so many messages, once.
    pub(crate) fn report_orders(&mut self, id: i32, messages: u32) {
        if self.with_orders.mark(id, self.mark) != self.mark {
            self.messages = self.messages.saturating_add(messages.max(1));
        }
    }

    /// Counts an instrument of so many messages, once: `before` is the mark that it had.
    pub(crate) fn report(&mut self, before: u16, last_seq: u32, total: u32, messages: u32) {
        if before != self.mark {
            self.reports += 1;
            self.messages = self.messages.saturating_add(messages.max(1));
        }
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
        let of_instruments = self.total != 0 && self.reports == self.total;
        if of_instruments && self.messages > self.total {
            self.counts = Counts::Instruments;
        }
        let of_messages = self.counts == Counts::Messages && self.messages == self.total;
        let completes = !self.done && (of_instruments || of_messages && self.total != 0);
        if completes {
            self.is_done();
        }
        completes
    }
}

/// What the number of a loop's reports counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counts {
    /// Nothing has told yet.
    Unknown,
    /// Instruments: a round had as many, and more messages.
    Instruments,
    /// Messages: rounds had as many, and fewer instruments.
    Messages,
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

    /// A round of so many instruments, each of so many messages, that says `total`; the last of them are lost. Whether what it did not
    /// name is known: of how many rounds.
    fn hear(round: &mut Round, time: u64, each: &[u32], lost: usize, total: u32) -> Option<u16> {
        let (mut ends, heard) = (None, &each[..each.len() - lost]);
        for (seq, messages) in (1..).zip(heard) {
            if round.tracker.packet(NOW, seq, time + u64::from(seq)) == Part::NewLoop {
                ends = round.passes();
                round.begin();
            }
            let before = round.unlisted.mark(seq as i32, round.mark);
            round.report(before, 7, total, *messages);
            if round.completes() {
                ends = Some(1);
            }
        }
        ends
    }

    #[test]
    fn what_a_round_counts_is_learned() {
        let mut round = Round::new(9, 0);
        // Four instruments; the end is lost twice where as many messages have come, but not twice in a row.
        assert_eq!(hear(&mut round, 100, &[2, 2, 1, 1], 2, 4), None);
        assert_eq!(hear(&mut round, 200, &[2, 2, 1, 1], 3, 4), None);
        assert_eq!(hear(&mut round, 300, &[2, 2, 1, 1], 2, 4), None);
        assert_eq!(hear(&mut round, 400, &[2, 2, 1, 1], 0, 4), Some(1));
        // It is known now, and two such rounds do not change it.
        for n in 5..8 {
            assert_eq!(hear(&mut round, n * 100, &[2, 2, 1, 1], 2, 4), None);
        }
        // Messages are counted: two rounds tell, and then each by itself.
        let mut round = Round::new(9, 0);
        assert_eq!(hear(&mut round, 100, &[2, 2, 1], 0, 5), None);
        assert_eq!(hear(&mut round, 200, &[2, 2, 1], 0, 5), None);
        assert_eq!(hear(&mut round, 300, &[2, 2, 1], 1, 5), Some(2));
        assert_eq!(hear(&mut round, 400, &[2, 2, 1], 0, 5), Some(1));
        assert!(!round.left_out(round.mark, 1) && round.left_out(round.mark - 1, 1) && round.left_out(0, 9));
        round.mark = 2;
        assert!(!round.left_out(u16::MAX, 3) && round.left_out(u16::MAX, 2));
    }
}
