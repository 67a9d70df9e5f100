//! What a user may set of a feed channel, and the checks on it.

use crate::arena::MAX_SIDE_ORDERS;
use crate::book::MAX_DEPTH;
use crate::filter::WhiteList;
use crate::line::LineSide;
use barewire_base::Duration;
use thiserror::Error;

/// The most lines of one feed.
pub const MAX_LINES: usize = 4;
/// The most instruments of one feed channel.
pub const MAX_INSTRUMENTS: usize = 1 << 20;
/// The most packets that can be held out of order.
pub const MAX_HELD: usize = 1 << 12;
/// The largest packet that can be held.
pub const MAX_PACKET_LEN: usize = 1 << 16;
/// The most entries that can wait.
pub const MAX_PENDING: usize = 1 << 24;
/// The most orders of one feed channel.
pub const MAX_ORDERS: usize = 1 << 26;

/// Two and a half of the intervals in which the exchange sends heartbeats: one of them may be lost or late.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(75);

/// Instruments expected where nothing else is said.
const INSTRUMENTS: usize = 10_000;

/// Room that a side of a book by order takes where only the ten best are published.
const BEST_ORDERS_OF_A_SIDE: usize = 16;
/// The same, on average, where every order is: a few instruments have thousands, most have some dozens or none.
const ORDERS_OF_A_SIDE: usize = 64;

/// Orders that there is likely to be enough room for, with so many instruments: what both sides of each take, and the largest book
/// once more, since a snapshot is put together beside the book that it replaces. Where every order is published that is 128 for an
/// instrument and 65,536: with 10,000 instruments 1,345,536 orders, or 44 MB; else 32 for an instrument and 32, or 11 MB.
pub const fn order_room(instruments: usize, every_order: bool) -> usize {
    let (of_a_side, largest) = if every_order {
        (ORDERS_OF_A_SIDE, MAX_SIDE_ORDERS)
    } else {
        (BEST_ORDERS_OF_A_SIDE, BEST_ORDERS_OF_A_SIDE)
    };
    let orders = 2 * (instruments * of_a_side + largest);
    if orders < MAX_ORDERS { orders } else { MAX_ORDERS }
}

/// Which lines of a feed are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LinePolicy {
    /// All: the first copy of each packet wins.
    #[default]
    Arbitrate,
    /// One only.
    Only(LineSide),
    /// One, and another while the first is silent for longer than the heartbeat time-out; then the other way round.
    Failover {
        /// Used at first.
        primary: LineSide,
        /// Used when the primary is silent.
        backup: LineSide,
    },
}

/// How an instrument that has missed something becomes good again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recovery {
    /// By the snapshot loop.
    #[default]
    Snapshot,
    /// By its own updates: once every level has been named, the book is good.
    Natural,
    /// By whichever is done first.
    SnapshotOrNatural,
}

impl Recovery {
    pub(crate) const fn uses_snapshots(self) -> bool {
        !matches!(self, Recovery::Natural)
    }

    pub(crate) const fn uses_updates(self) -> bool {
        !matches!(self, Recovery::Snapshot)
    }
}

/// Whether the instrument definition loop is heard before all else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DefinitionLoop {
    /// Not needed: instruments come from the white-list, from definitions on the incremental feed, or are taken as seen.
    #[default]
    Unused,
    /// From its first packet to its last without a hole; a hole starts over with the next loop.
    Accurate,
    /// From anywhere; holes are filled from later loops.
    Fast,
}

/// The settings of one feed channel. All memory that it will use follows from them and is taken at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The exchange's channel id (ApplID). When set, channel resets of other channels are ignored.
    pub channel_id: Option<i16>,
    /// Lines of each feed, 1 to [`MAX_LINES`]: 2 for A and B.
    pub lines: usize,
    /// Which lines are used.
    pub line_policy: LinePolicy,
    /// A line without a packet for so long is down. The exchange sends a heartbeat after 30 s of silence, so this is to be longer than
    /// two of its intervals: one heartbeat may be lost.
    pub heartbeat_timeout: Duration,
    /// So long the channel waits for a missing packet before it declares it lost.
    pub gap_wait: Duration,
    /// So many packets may be held before what is missing is declared lost, whatever the time; 1 to [`MAX_HELD`].
    pub gap_packets: usize,
    /// The longest packet that can be held, in bytes of UDP payload.
    pub max_packet_len: usize,
    /// Instruments expected at most.
    pub instruments: usize,
    /// Book entries that may wait for the end of an event or for a snapshot, in all.
    pub pending_entries: usize,
    /// Depth of direct books without a definition that says it; at most [`MAX_DEPTH`]. To be the exchange's: it drops levels below its
    /// own depth without a word, and in a deeper book these would be shown as if they were there; in a shallower one levels that move
    /// up would be missing, until an entry or a snapshot names a level below. Where the definition loop is heard this is a guess for
    /// the time before an instrument is named, and no such book is called good.
    pub depth: u8,
    /// Depth of implied books without a definition that says it; at most [`MAX_DEPTH`].
    pub implied_depth: u8,
    /// Whether books by order are kept: the best ten where the feed has these (MBOLD), all of them where it publishes every order.
    pub orders: bool,
    /// Whether books by order have a snapshot loop of their own ([`Feed::OrderSnapshot`](crate::Feed::OrderSnapshot)), as on channels
    /// that are not conflated. Then every instrument has a book by order, and recovery waits for them. Else they come with the
    /// snapshot loop, and are waited for where it or an overlay has brought them before.
    pub order_loop: bool,
    /// Orders that there is room for, in all: [`order_room`] says how many are likely to do. Each takes 33 bytes. A side takes room for
    /// 16, 32, 64, ... of them, up to [`MAX_SIDE_ORDERS`](crate::MAX_SIDE_ORDERS). A book for whose snapshot there is no room is left
    /// out ([`Listener::on_orders_incomplete`](crate::Listener::on_orders_incomplete)).
    pub orders_max: usize,
    /// Order entries that may wait for the end of an event or for a snapshot, in all.
    pub pending_orders: usize,
    /// How instruments recover.
    pub recovery: Recovery,
    /// Whether the definition loop is heard.
    pub definitions: DefinitionLoop,
    /// Whether a security id without a definition makes an instrument when it is first seen.
    pub undefined_instruments: bool,
    /// What is wanted; empty means everything.
    pub white_list: WhiteList,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            channel_id: None,
            lines: 2,
            line_policy: LinePolicy::Arbitrate,
            heartbeat_timeout: HEARTBEAT_TIMEOUT,
            gap_wait: Duration::from_millis(5),
            gap_packets: 64,
            max_packet_len: 1_500,
            instruments: INSTRUMENTS,
            pending_entries: 1 << 16,
            depth: MAX_DEPTH as u8,
            implied_depth: 2,
            orders: true,
            order_loop: false,
            orders_max: order_room(INSTRUMENTS, false),
            pending_orders: 1 << 16,
            recovery: Recovery::Snapshot,
            definitions: DefinitionLoop::Unused,
            undefined_instruments: true,
            white_list: WhiteList::default(),
        }
    }
}

/// A setting outside its range.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number outside its range.
    #[error("{name} is {value}, must be {min} to {max}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
    /// A line policy that names a line beyond `lines`.
    #[error("line_policy names line {side}, but there are {lines} lines")]
    NoSuchLine {
        /// The line.
        side: LineSide,
        /// Lines there are.
        lines: usize,
    },
    /// A failover from a line to itself.
    #[error("line_policy fails over from line {side} to itself")]
    SameLine {
        /// The line.
        side: LineSide,
    },
    /// More ids on the white-list than instruments expected.
    #[error("{ids} security ids on the white-list, but room for {instruments} instruments")]
    TooManyIds {
        /// Ids listed.
        ids: usize,
        /// Instruments expected.
        instruments: usize,
    },
}

impl Config {
    /// Checks every setting.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let range = |name, value: usize, min: usize, max: usize| {
            if (min..=max).contains(&value) {
                return Ok(());
            }
            let [value, min, max] = [value, min, max].map(|n| n as u64);
            Err(ConfigError::OutOfRange { name, value, min, max })
        };
        range("lines", self.lines, 1, MAX_LINES)?;
        range("gap_packets", self.gap_packets, 1, MAX_HELD)?;
        range("max_packet_len", self.max_packet_len, 64, MAX_PACKET_LEN)?;
        range("instruments", self.instruments, 1, MAX_INSTRUMENTS)?;
        range("pending_entries", self.pending_entries, 1, MAX_PENDING)?;
        range("orders_max", self.orders_max, 0, MAX_ORDERS)?;
        range("pending_orders", self.pending_orders, 0, MAX_PENDING)?;
        range("depth", usize::from(self.depth), 1, MAX_DEPTH)?;
        range("implied_depth", usize::from(self.implied_depth), 0, MAX_DEPTH)?;
        if self.heartbeat_timeout == Duration::ZERO {
            return Err(ConfigError::OutOfRange {
                name: "heartbeat_timeout",
                value: 0,
                min: 1,
                max: u64::MAX,
            });
        }
        let named = match self.line_policy {
            LinePolicy::Arbitrate => vec![],
            LinePolicy::Only(side) => vec![side],
            LinePolicy::Failover { primary, backup } if primary == backup => {
                return Err(ConfigError::SameLine { side: primary });
            }
            LinePolicy::Failover { primary, backup } => vec![primary, backup],
        };
        for side in named {
            if side as usize >= self.lines {
                return Err(ConfigError::NoSuchLine { side, lines: self.lines });
            }
        }
        let ids = self.white_list.ids().len();
        if ids > self.instruments {
            return Err(ConfigError::TooManyIds { ids, instruments: self.instruments });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_for_orders_is_the_sum_of_its_terms() {
        assert_eq!(order_room(10_000, false), 10_000 * 32 + 32);
        assert_eq!(order_room(10_000, true), 10_000 * 128 + 65_536);
        assert_eq!(order_room(MAX_INSTRUMENTS, true), MAX_ORDERS);
        assert_eq!(Config::default().orders_max, 320_032);
    }

    #[test]
    fn the_default_is_valid_and_each_bad_value_is_named() {
        assert_eq!(Config::default().validate(), Ok(()));
        let bad = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            config.validate().map_err(|e| e.to_string()).expect_err("must be refused")
        };
        assert_eq!(bad(|c| c.lines = 5), "lines is 5, must be 1 to 4");
        assert_eq!(bad(|c| c.gap_packets = 0), "gap_packets is 0, must be 1 to 4096");
        assert_eq!(bad(|c| c.depth = 11), "depth is 11, must be 1 to 10");
        assert!(bad(|c| c.heartbeat_timeout = Duration::ZERO).starts_with("heartbeat_timeout is 0"));
        assert_eq!(
            bad(|c| c.line_policy = LinePolicy::Only(LineSide::C)),
            "line_policy names line C, but there are 2 lines"
        );
        assert_eq!(
            bad(|c| c.line_policy = LinePolicy::Failover { primary: LineSide::A, backup: LineSide::A }),
            "line_policy fails over from line A to itself"
        );
        assert!(
            bad(|c| {
                c.instruments = 1;
                c.white_list = WhiteList::new().id(1).id(2);
            })
            .starts_with("2 security ids")
        );
    }
}
