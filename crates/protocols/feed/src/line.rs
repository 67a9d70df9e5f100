//! Lines: the copies of a feed that the exchange sends beside each other, and what is known of each.

use barewire_base::{Duration, Instant};
use core::fmt;

/// The feeds of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Feed {
    /// Updates as they happen.
    Incremental = 0,
    /// The loop of market recovery: MBP and MBOLD by instrument.
    Snapshot = 1,
    /// The loop of instrument definitions.
    Instrument = 2,
    /// The loop of whole books by order, on channels that publish every order.
    OrderSnapshot = 3,
}

impl Feed {
    /// How many feeds there are.
    pub(crate) const COUNT: usize = 4;
}

/// Which copy of a feed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum LineSide {
    A = 0,
    B = 1,
    C = 2,
    D = 3,
}

impl LineSide {
    /// All of them, in order.
    pub const ALL: [LineSide; 4] = [LineSide::A, LineSide::B, LineSide::C, LineSide::D];
}

impl fmt::Display for LineSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(["A", "B", "C", "D"][*self as usize])
    }
}

/// Where a packet came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Line {
    /// The feed.
    pub feed: Feed,
    /// The copy.
    pub side: LineSide,
}

impl fmt::Display for Line {
    /// As channel files name lines: the feed's letter and the side's, `IA`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let feed = match self.feed {
            Feed::Incremental => "I",
            Feed::Snapshot => "S",
            Feed::Instrument => "N",
            Feed::OrderSnapshot => "SMBO",
        };
        write!(f, "{feed}{}", self.side)
    }
}

impl Line {
    /// The line `side` of `feed`.
    pub const fn new(feed: Feed, side: LineSide) -> Self {
        Line { feed, side }
    }
}

/// Whether packets come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LineState {
    /// No packet yet.
    #[default]
    Silent,
    /// Packets or heartbeats come.
    Up,
    /// None for longer than the heartbeat time-out.
    Down,
}

/// Figures of one line. Sequence figures are kept for incremental lines only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineStats {
    /// Packets received.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Packets whose first good copy came on this line.
    pub first: u64,
    /// Packets that another line had brought before, or this one twice.
    pub duplicates: u64,
    /// Numbers that never came by this line, as far as later ones tell.
    pub lost: u64,
    /// Packets that arrived after a later one on the same line.
    pub reordered: u64,
    /// First copies of which another line's copy followed: the figures below are over these.
    pub leads: u64,
    /// How long the other copy took longer, added up, in nanoseconds.
    pub lead_ns_total: u64,
    /// The longest lead in nanoseconds.
    pub lead_ns_max: u64,
    /// Whether packets come.
    pub state: LineState,
}

/// What is tracked of a line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LineTrack {
    pub(crate) stats: LineStats,
    pub(crate) last_rx: Instant,
    /// Number after the highest seen; zero before the first packet.
    next: u32,
    /// Bit `i`: number `next - 1 - i` was seen.
    seen: u64,
}

impl LineTrack {
    /// Counts a packet of the incremental feed.
    #[inline]
    pub(crate) fn sequence(&mut self, seq: u32) {
        if seq == self.next {
            self.seen = self.seen << 1 | 1;
            self.next = seq.wrapping_add(1);
        } else {
            self.sequence_slow(seq);
        }
    }

    #[cold]
    fn sequence_slow(&mut self, seq: u32) {
        if self.next == 0 || seq > self.next {
            // A number far ahead is more likely wrong than a sign of that many losses; a reset starts over.
            let skipped = seq - self.next;
            if self.next != 0 && skipped < 1 << 20 {
                self.stats.lost += u64::from(skipped);
            }
            self.seen = if skipped >= 63 || self.next == 0 { 1 } else { self.seen << (skipped + 1) | 1 };
            self.next = seq.wrapping_add(1);
            return;
        }
        let behind = self.next - 1 - seq;
        if behind < 64 && self.seen & (1 << behind) == 0 {
            self.seen |= 1 << behind;
            self.stats.reordered += 1;
            self.stats.lost = self.stats.lost.saturating_sub(1);
        }
    }

    /// The numbers start over.
    pub(crate) fn restart(&mut self) {
        self.next = 0;
        self.seen = 0;
    }
}

/// Remembers who brought the last packets first, and when.
#[derive(Debug)]
pub(crate) struct Recent {
    ring: Box<[(u32, u8, Instant)]>,
}

/// Packets remembered.
const RECENT: usize = 1024;

impl Recent {
    pub(crate) fn new() -> Self {
        Recent { ring: vec![(0, u8::MAX, Instant::ZERO); RECENT].into() }
    }

    #[inline]
    pub(crate) fn first(&mut self, seq: u32, side: LineSide, now: Instant) {
        self.ring[seq as usize % RECENT] = (seq, side as u8, now);
    }

    /// The line that brought `seq` first, and how long ago, once for each packet.
    pub(crate) fn lead(&mut self, seq: u32, side: LineSide, now: Instant) -> Option<(usize, Duration)> {
        let entry = &mut self.ring[seq as usize % RECENT];
        if entry.0 != seq || entry.1 == u8::MAX || entry.1 == side as u8 {
            return None;
        }
        let winner = usize::from(entry.1);
        entry.1 = u8::MAX;
        Some((winner, now.since(entry.2)))
    }

    /// Whether `seq` was brought and by no later numbering overwritten.
    pub(crate) fn knows(&self, seq: u32) -> bool {
        self.ring[seq as usize % RECENT].0 == seq
    }

    pub(crate) fn clear(&mut self) {
        self.ring.fill((0, u8::MAX, Instant::ZERO));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_what_it_loses_and_reorders() {
        let mut line = LineTrack::default();
        for seq in [10, 11, 14, 12, 12, 15] {
            line.sequence(seq);
        }
        assert_eq!((line.stats.lost, line.stats.reordered), (1, 1));
        line.restart();
        line.sequence(1);
        line.sequence(2);
        assert_eq!(line.stats.lost, 1);
        line.sequence(u32::MAX);
        line.sequence(u32::MAX);
        line.sequence(0);
        assert_eq!(line.stats.lost, 1);
    }

    #[test]
    fn a_lead_is_counted_once() {
        let mut recent = Recent::new();
        recent.first(5, LineSide::A, Instant::from_nanos(100));
        assert_eq!(recent.lead(5, LineSide::A, Instant::from_nanos(120)), None);
        assert_eq!(
            recent.lead(5, LineSide::B, Instant::from_nanos(130)),
            Some((0, Duration::from_nanos(30)))
        );
        assert_eq!(recent.lead(5, LineSide::B, Instant::from_nanos(140)), None);
        assert!(recent.knows(5) && !recent.knows(6));
    }
}
