//! What a feed channel counts: drops by name, and events of its own.

use core::fmt;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a packet, a message or an entry was not used.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Reason { $($(#[$doc])* $name,)* }

        impl Reason {
            /// Every reason, in the order of its counter.
            pub const ALL: &'static [Reason] = &[$(Reason::$name,)*];
            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name that reports and metrics show.
            pub const fn as_str(self) -> &'static str {
                match self { $(Reason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// A packet shorter than its header of 12 bytes, or without a message.
    ShortPacket = "short_packet",
    /// A message size that does not fit the packet, or is smaller than the message's own header.
    BadMessageSize = "bad_message_size",
    /// A block or a group that reaches past its message: the whole packet goes, its copy on another line may be good.
    TruncatedMessage = "truncated_message",
    /// A message of another schema: skipped.
    ForeignSchema = "foreign_schema",
    /// A template that this build does not know: skipped.
    UnknownTemplate = "unknown_template",
    /// A known template that does not belong on the feed it came by: skipped.
    MisplacedTemplate = "misplaced_template",
    /// A packet that another line, or the same, had brought before.
    Duplicate = "duplicate",
    /// A packet that came after its number had been declared lost.
    Late = "late",
    /// A packet that was sent before the numbers in use began: what was under way when they started over.
    OldNumbering = "old_numbering",
    /// A packet that is too long to be held until its turn.
    TooLongToHold = "too_long_to_hold",
    /// A number far from the expected one, which no second packet confirmed.
    Unconfirmed = "unconfirmed_sequence",
    /// A packet of a line that the line policy leaves unused at present.
    Standby = "standby_line",
    /// A line side beyond those configured.
    UnknownLine = "unknown_line",
    /// A security id without an instrument, or one that is not on the white-list.
    NotListed = "not_listed",
    /// No room for another instrument.
    InstrumentTableFull = "instrument_table_full",
    /// An entry that a snapshot had brought already.
    InSnapshot = "in_snapshot",
    /// A book entry with a type, action, level or quantity that makes no sense.
    BadEntry = "bad_entry",
    /// A book entry at a level that the book cannot have now: the instrument goes into recovery. Where the level is below the book's
    /// depth the exchange's is deeper than was said, and the book is made as deep.
    LevelOutOfRange = "level_out_of_range",
    /// RptSeq jumped: the instrument goes into recovery.
    RptSeqGap = "rpt_seq_gap",
    /// No room to remember an entry of an open event or of an instrument in recovery.
    PendingFull = "pending_full",
    /// No room for an order, or too many on one side: the instrument's book by order goes into recovery, and is left out where its
    /// snapshot finds no room either. More `orders_max` helps.
    OrdersFull = "orders_full",
    /// An update of an order that the book by order does not have: it has missed something and goes into recovery.
    OrderMissed = "order_missed",
    /// A snapshot that was of no use: too old, or made before a reset.
    OldSnapshot = "old_snapshot",
    /// A snapshot in several chunks of which one is missing.
    BrokenChunks = "broken_chunks",
    /// A definition of the loop that is older than what the incremental feed has said since.
    OldDefinition = "old_definition",
    /// A definition that is not on the white-list.
    DefinitionNotListed = "definition_not_listed",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Counters of one feed channel since it was made.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    drops: [u64; Reason::COUNT],
    /// Incremental packets processed in order.
    pub packets: u64,
    /// Messages processed, on every feed.
    pub messages: u64,
    /// Book entries applied to books.
    pub book_entries: u64,
    /// Events ended.
    pub events: u64,
    /// Events cut off by a gap or a reset.
    pub abandoned_events: u64,
    /// Gaps declared.
    pub gaps: u64,
    /// Incremental packets lost on all lines.
    pub lost_packets: u64,
    /// Packets that waited for their turn.
    pub held_packets: u64,
    /// Books set from a snapshot.
    pub snapshots_applied: u64,
    /// Books by order set from a snapshot.
    pub order_snapshots_applied: u64,
    /// Books by order that were left out, since there was no room for a snapshot of them.
    pub incomplete_orders: u64,
    /// Books that natural refresh completed.
    pub natural_refreshes: u64,
    /// Snapshot loops heard from the first packet to the last.
    pub loops_completed: u64,
    /// Channel and sequence resets.
    pub resets: u64,
}

impl Counters {
    /// Counts one drop.
    #[inline]
    pub(crate) fn drop(&mut self, reason: Reason) {
        self.drops[reason as usize] += 1;
    }

    /// How often `reason` occurred.
    pub fn get(&self, reason: Reason) -> u64 {
        self.drops[reason as usize]
    }

    /// The reasons that occurred, with their counts.
    pub fn drops(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL.iter().map(|&r| (r, self.get(r))).filter(|&(_, n)| n > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_own_name_and_counter() {
        let mut counters = Counters::default();
        for (i, &a) in Reason::ALL.iter().enumerate() {
            assert_eq!(a as usize, i);
            assert!(Reason::ALL[..i].iter().all(|b| b.as_str() != a.as_str()));
            counters.drop(a);
        }
        assert_eq!(counters.drops().count(), Reason::COUNT);
        assert!(counters.drops().all(|(_, n)| n == 1));
    }
}
