//! Listeners: what a user is told, at each level from the packet to the book.
//!
//! Every method has an empty body, and the channel is generic over the listener, so a level that is not used costs nothing.
//! The order within one packet: [`on_packet`](Listener::on_packet), for each message [`on_message`](Listener::on_message)
//! and its entries, at the end of an event [`on_book`](Listener::on_book) for every instrument it touched and
//! [`on_end_of_event`](Listener::on_end_of_event), then [`on_end_of_packet`](Listener::on_end_of_packet).

use crate::arena::Arena;
use crate::book::{Book, BookSide, Consolidated, Level};
use crate::config::LinePolicy;
use crate::counters::Reason;
use crate::instrument::{Instrument, TradingStatus};
use crate::line::{Line, LineState};
use crate::orders::{Order, OrderBook};
use crate::statistics::{Limits, Statistic};
use barewire_frame::Stamp;
use barewire_sbe::{AnyMessage, Message};

/// A packet that is being processed.
#[derive(Clone, Copy, Debug)]
pub struct PacketInfo<'a> {
    /// The line that brought this copy.
    pub line: Line,
    /// MsgSeqNum.
    pub seq: u32,
    /// SendingTime: nanoseconds since the Unix epoch, by the exchange's clock.
    pub sending_time_ns: u64,
    /// When it was received.
    pub stamp: Stamp,
    /// Whether it waited for its turn.
    pub held: bool,
    /// The packet.
    pub bytes: &'a [u8],
}

/// What a book is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum BookState {
    /// Nothing is known yet. Or, of the price levels, not how many there are: the definition loop is heard, and has not named the
    /// instrument so far. The exchange drops levels below its own depth without a word, so some of those shown may be gone.
    Undefined,
    /// Complete and current.
    Latest,
    /// Complete and current, by natural refresh. Where that is the only recovery, this speaks of the direct book; of the implied
    /// one the levels known from the top are shown.
    NaturallyRefreshed,
    /// Packets were lost since its last update; whether any concerned it is not known yet. It shows the last good state.
    Suspect,
    /// It has missed an update. It shows the last good state, or under natural refresh the levels known from the top.
    Stale,
}

impl BookState {
    /// Whether the book is complete and current.
    pub const fn is_good(self) -> bool {
        matches!(self, BookState::Latest | BookState::NaturallyRefreshed)
    }

    /// Its word in exports.
    pub const fn as_str(self) -> &'static str {
        match self {
            BookState::Undefined => "undefined",
            BookState::Latest => "latest",
            BookState::NaturallyRefreshed => "naturally_refreshed",
            BookState::Suspect => "suspect",
            BookState::Stale => "stale",
        }
    }
}

/// Why a book is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BookCause {
    /// An event ended that changed it.
    Event,
    /// A snapshot set it, or showed that it had missed nothing.
    Snapshot,
    /// Natural refresh completed it.
    NaturalRefresh,
    /// It was asked for.
    Query,
    /// A definition has named its depth, so that it can be called good.
    Definition,
}

/// One instrument's books at the end of an event.
#[derive(Clone, Copy, Debug)]
pub struct BookView<'a> {
    /// The instrument.
    pub instrument: &'a Instrument,
    /// What the price-level books are worth.
    pub state: BookState,
    /// What the book by order is worth.
    pub orders_state: BookState,
    /// Why it is shown.
    pub cause: BookCause,
    /// RptSeq of the last entry that the book contains.
    pub rpt_seq: u32,
    /// TransactTime of the event that changed it last: nanoseconds since the Unix epoch.
    pub transact_time_ns: u64,
    pub(crate) direct: &'a Book,
    pub(crate) implied: &'a Book,
    pub(crate) orders: Option<&'a OrderBook>,
    pub(crate) arena: &'a Arena,
}

impl<'a> BookView<'a> {
    /// Levels of the direct book, best first.
    #[inline]
    pub fn levels(&self, side: BookSide) -> &'a [Level] {
        self.direct.levels(side)
    }

    /// Bids of the direct book, best first.
    #[inline]
    pub fn bids(&self) -> &'a [Level] {
        self.direct.levels(BookSide::Bid)
    }

    /// Offers of the direct book, best first.
    #[inline]
    pub fn offers(&self) -> &'a [Level] {
        self.direct.levels(BookSide::Offer)
    }

    /// Levels of the implied book, best first.
    #[inline]
    pub fn implied(&self, side: BookSide) -> &'a [Level] {
        self.implied.levels(side)
    }

    /// Direct and implied levels merged by price, best first.
    pub fn consolidated(&self, side: BookSide) -> Consolidated<'a> {
        Consolidated::new(side, self.levels(side), self.implied(side))
    }

    /// The market's best quote (entry types `x` and `w`), where the feed has one.
    pub fn market_best(&self, side: BookSide) -> Option<&'a Level> {
        self.direct.market_best(side)
    }

    /// The orders, best first: all of them where the feed publishes every order, else a true beginning of the exchange's list.
    pub fn orders(&self, side: BookSide) -> &'a [Order] {
        self.orders.map_or(&[], |orders| self.arena.orders(&orders.sides[side as usize]))
    }
}

/// One price-level entry as it arrives. Its event has not ended yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BookEntry {
    /// Its content; the price may be null.
    pub level: Level,
    /// RptSeq.
    pub rpt_seq: u32,
    /// MDPriceLevel, from 1.
    pub price_level: u8,
    /// MDUpdateAction (tag 279).
    pub action: u8,
    /// MDEntryType (tag 269): `0`, `1`, `E`, `F`, `J`, `w`, `x`.
    pub entry_type: u8,
}

/// One trade.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trade {
    /// Mantissa of 10^-9.
    pub price: i64,
    /// Quantity.
    pub quantity: i64,
    /// Orders that took part.
    pub orders: i32,
    /// AggressorSide (tag 5797): 0 none, 1 buy, 2 sell, 255 missing.
    pub aggressor: u8,
    /// MDUpdateAction: 0 new, 1 correction, 2 cancelled.
    pub action: u8,
    /// MDTradeEntryID (tag 37711), where the message has it.
    pub trade_id: Option<u32>,
    /// RptSeq.
    pub rpt_seq: u32,
    /// TransactTime: nanoseconds since the Unix epoch.
    pub transact_time_ns: u64,
}

/// Whom a status message concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum StatusScope {
    Security,
    Group,
    Asset,
}

/// A security status (templates 30 and 60).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecurityStatus {
    /// Whether it concerns one security, a group or an asset.
    pub scope: StatusScope,
    /// The status.
    pub status: TradingStatus,
    /// HaltReason (tag 327).
    pub halt_reason: u8,
    /// SecurityTradingEvent (tag 1174).
    pub event: u8,
    /// TransactTime: nanoseconds since the Unix epoch.
    pub transact_time_ns: u64,
}

impl SecurityStatus {
    /// The `event` with which the exchange resets statistics. They are empty when the listener is told.
    pub const RESET_STATISTICS: u8 = 4;
}

/// A request for quotes, for one instrument (template 39).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuoteRequest {
    /// Quantity, where it has one.
    pub quantity: Option<i32>,
    /// QuoteType (tag 537).
    pub quote_type: i8,
    /// Side (tag 54), where it has one: 1 buy, 2 sell, 8 cross.
    pub side: Option<i8>,
    /// TransactTime: nanoseconds since the Unix epoch.
    pub transact_time_ns: u64,
}

/// What a definition does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefinitionAction {
    /// A new instrument.
    Add,
    /// Another definition of a known one.
    Modify,
    /// The instrument is gone. It is told of once more, and its book with it.
    Delete,
}

/// Why packets were declared lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapCause {
    /// Nobody brought them in `gap_wait`.
    Time,
    /// `gap_packets` later ones were held.
    Count,
    /// The numbers went on far ahead.
    Jump,
    /// A snapshot knew of later ones, and they did not come.
    Snapshot,
}

/// Packets of the incremental feed that are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// First number lost.
    pub first: u32,
    /// Last number lost.
    pub last: u32,
    /// How it was found.
    pub cause: GapCause,
    /// Instruments of the event that the gap cut.
    pub cut_instruments: usize,
}

/// How a recovery went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveryInfo {
    /// Last incremental packet lost before.
    pub last_lost: u32,
    /// Instruments of the channel.
    pub instruments: usize,
    /// Of those, the ones whose price levels are not good: at its beginning all that the gap may have concerned.
    pub unsettled: usize,
    /// Books by order that are not good, of those that the loop or overlays will make so.
    pub unsettled_orders: usize,
}

/// What started over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reset {
    /// The exchange reset the channel (template 4): books and statistics are empty.
    Channel,
    /// The packet numbers started over, as they do each week.
    Sequence,
}

/// Told what happens on a feed channel.
#[allow(unused_variables)]
pub trait Listener {
    /// A packet in its order, before its messages.
    #[inline]
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {}
    /// All messages of the packet have been processed.
    #[inline]
    fn on_end_of_packet(&mut self, packet: &PacketInfo<'_>) {}
    /// A message of any feed, before it is processed.
    #[inline]
    fn on_message(&mut self, packet: &PacketInfo<'_>, message: &Message<'_>) {}
    /// A price-level entry of an instrument. Its book still shows the state before the event.
    #[inline]
    fn on_book_entry(&mut self, instrument: &Instrument, entry: &BookEntry) {}
    /// An instrument's books at the end of an event that changed them, or good again after recovery.
    #[inline]
    fn on_book(&mut self, book: &BookView<'_>) {}
    /// A trade.
    #[inline]
    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {}
    /// A statistic or a volume.
    #[inline]
    fn on_statistic(&mut self, instrument: &Instrument, statistic: &Statistic) {}
    /// Price limits.
    #[inline]
    fn on_limits(&mut self, instrument: &Instrument, limits: &Limits) {}
    /// A status that concerns an instrument, once for each when it is of a group or an asset.
    #[inline]
    fn on_status(&mut self, instrument: &Instrument, status: &SecurityStatus) {}
    /// A request for quotes.
    #[inline]
    fn on_quote_request(&mut self, instrument: &Instrument, request: &QuoteRequest) {}
    /// A definition.
    #[inline]
    fn on_definition(&mut self, instrument: &Instrument, action: DefinitionAction) {}
    /// Behind [`on_definition`](Listener::on_definition), all fields of the message that it came by, typed by its template: what
    /// [`Instrument`] keeps is a selection. Told alone of a message of the incremental feed that changes none of these.
    #[inline]
    fn on_definition_fields(
        &mut self,
        instrument: &Instrument,
        action: DefinitionAction,
        fields: &AnyMessage<'_>,
    ) {
    }
    /// The definition loop has been heard in full.
    #[inline]
    fn on_definitions_complete(&mut self, instruments: usize) {}
    /// An event ended, and all its books have been shown.
    #[inline]
    fn on_end_of_event(&mut self, packet: &PacketInfo<'_>, transact_time_ns: u64) {}
    /// Packets were declared lost.
    #[inline]
    fn on_gap(&mut self, gap: &Gap) {}
    /// An instrument has missed something.
    #[inline]
    fn on_instrument_stale(&mut self, instrument: &Instrument) {}
    /// There was no room for a snapshot of an instrument's book by order ([`Config::orders_max`](crate::Config::orders_max)). It is
    /// empty, its [`orders_state`](BookView::orders_state) undefined, and recovery does not wait for it. Told once; snapshots are tried
    /// again while the loop is heard for others, and after each gap.
    #[inline]
    fn on_orders_incomplete(&mut self, instrument: &Instrument) {}
    /// Some instruments are not good: the snapshot feed is wanted.
    #[inline]
    fn on_recovery_begin(&mut self, info: &RecoveryInfo) {}
    /// All instruments are good.
    #[inline]
    fn on_recovery_end(&mut self, info: &RecoveryInfo) {}
    /// The channel, or its numbers, started over: every book and statistic is empty now, or undefined where packets behind the
    /// reset are missing. No [`on_book`](Listener::on_book) tells of it.
    #[inline]
    fn on_reset(&mut self, reset: Reset) {}
    /// A line came up or went down.
    #[inline]
    fn on_line_state(&mut self, line: Line, state: LineState) {}
    /// All lines of the incremental feed are down, or one is up again.
    #[inline]
    fn on_channel_state(&mut self, state: LineState) {}
    /// Another line is in use, under [`LinePolicy::Failover`].
    #[inline]
    fn on_failover(&mut self, policy: LinePolicy, line: Line) {}
    /// A packet, message or entry was not used.
    #[inline]
    fn on_drop(&mut self, line: Line, reason: Reason) {}
}

/// A listener that is told nothing.
impl Listener for () {}
