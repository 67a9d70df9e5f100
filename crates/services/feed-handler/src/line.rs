//! Which line a packet came by: the feed channel, the feed, the side.

use std::fmt;

/// One of a feed channel's feeds, by the letters of the exchange's channel file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FeedType {
    /// `I`: what happens, as it happens.
    Incremental,
    /// `S`: the snapshot loop (conflated channels: MBP and MBOLD of each instrument).
    Snapshot,
    /// `SMBO`: the snapshot loop of whole order books.
    SnapshotMbo,
    /// `N`: the instrument definition loop.
    Instrument,
    /// `H`: historical replay over TCP. Known by name, not connected to.
    Historical,
}

impl FeedType {
    /// Every feed with its letters.
    pub const WORDS: &'static [(&'static str, FeedType)] = &[
        ("I", FeedType::Incremental),
        ("S", FeedType::Snapshot),
        ("SMBO", FeedType::SnapshotMbo),
        ("N", FeedType::Instrument),
        ("H", FeedType::Historical),
    ];

    /// The letters of the channel file.
    pub fn letters(self) -> &'static str {
        Self::WORDS.iter().find(|(_, feed)| *feed == self).map_or("?", |(word, _)| word)
    }
}

/// One of two lines that carry the same packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

impl Side {
    /// Both, with their letters.
    pub const WORDS: &'static [(&'static str, Side)] = &[("A", Side::A), ("B", Side::B)];
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::A => "A",
            Side::B => "B",
        })
    }
}

/// A line: what a socket or a group stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LineId {
    /// Index of the feed channel in the plan (not its number at the exchange).
    pub channel: u16,
    /// The feed.
    pub feed: FeedType,
    /// The side.
    pub side: Side,
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.feed.letters(), self.side)
    }
}
