//! What crosses the border by value.
//!
//! Structures only ever grow at their end, and their first member is their size in bytes: C sets it where it hands one in, and
//! finds it set where it is given one.

use std::ffi::{c_char, c_void};

/// A feed handler. The pointer is a handle, not an address: never dereference it.
pub struct BwfFeed {
    _opaque: [u8; 0],
}

/// Open without receiving, for bwf_replay.
pub const BWF_OFFLINE: u32 = 1;

/// Levels of one side of a book, at most.
pub const BWF_DEPTH_MAX: usize = 10;
/// Orders of one side that bwf_book_get gives, at most: the best. A book that a callback shows has all of them.
pub const BWF_ORDERS_MAX: usize = 10;
/// Bytes of a symbol, its final zero included.
pub const BWF_SYMBOL_LEN: usize = 24;
/// Bytes of another text of a definition, its final zero included.
pub const BWF_TEXT_LEN: usize = 8;
/// Bytes of a channel's label, its final zero included.
pub const BWF_LABEL_LEN: usize = 64;
/// Bytes that hold any text of bwf_price_format, its final zero included.
pub const BWF_PRICE_TEXT_MAX: usize = 32;

/// No price. Prices are whole numbers of 10^-9.
pub const BWF_NULL_PRICE: i64 = 0x7fff_ffff_ffff_ffff;
/// No number of orders, or no tradeable size.
pub const BWF_NULL_I32: i32 = 0x7fff_ffff;
/// No quantity.
pub const BWF_NULL_QUANTITY: i64 = 0x7fff_ffff_ffff_ffff;
/// No trade id, or no sequence number.
pub const BWF_NULL_U32: u32 = 0xffff_ffff;

/// Buyers; the highest price is best. An index into the arrays of a book.
pub const BWF_BID: usize = 0;
/// Sellers; the lowest price is best. An index into the arrays of a book.
pub const BWF_OFFER: usize = 1;

/// Nothing is known of the book yet, or not how deep it is: the definition loop is heard, and has not named the instrument.
pub const BWF_BOOK_UNDEFINED: u8 = 0;
/// Complete and current.
pub const BWF_BOOK_LATEST: u8 = 1;
/// Complete and current, by natural refresh.
pub const BWF_BOOK_NATURALLY_REFRESHED: u8 = 2;
/// Packets were lost since its last update; it shows the last good state.
pub const BWF_BOOK_SUSPECT: u8 = 3;
/// It has missed an update; it shows the last good state, or under natural refresh the levels known from the top.
pub const BWF_BOOK_STALE: u8 = 4;

/// An event ended that changed the book.
pub const BWF_CAUSE_EVENT: u8 = 0;
/// A snapshot set it, or showed that it had missed nothing.
pub const BWF_CAUSE_SNAPSHOT: u8 = 1;
/// Natural refresh completed it.
pub const BWF_CAUSE_NATURAL_REFRESH: u8 = 2;
/// It was asked for.
pub const BWF_CAUSE_QUERY: u8 = 3;
/// A definition has named its depth, so that it can be called good.
pub const BWF_CAUSE_DEFINITION: u8 = 4;

/// Updates as they happen.
pub const BWF_FEED_INCREMENTAL: u8 = 0;
/// The snapshot loop.
pub const BWF_FEED_SNAPSHOT: u8 = 1;
/// The loop of instrument definitions.
pub const BWF_FEED_INSTRUMENT: u8 = 2;
/// The loop of whole books by order, on channels that publish every order.
pub const BWF_FEED_ORDER_SNAPSHOT: u8 = 3;

/// No packet yet.
pub const BWF_STATE_SILENT: u8 = 0;
/// Packets or heartbeats come.
pub const BWF_STATE_UP: u8 = 1;
/// None for longer than the heartbeat time-out.
pub const BWF_STATE_DOWN: u8 = 2;

/// Nobody stamped the packet.
pub const BWF_STAMP_NONE: u8 = 0;
/// The engine, when it found the packet (CLOCK_MONOTONIC); of a replay the capture's stamp.
pub const BWF_STAMP_ENGINE: u8 = 1;
/// The kernel.
pub const BWF_STAMP_KERNEL: u8 = 2;
/// The network card.
pub const BWF_STAMP_HARDWARE: u8 = 3;

/// CLOCK_MONOTONIC.
pub const BWF_CLOCK_MONOTONIC: u8 = 0;
/// CLOCK_REALTIME.
pub const BWF_CLOCK_REALTIME: u8 = 1;
/// The network card's own clock.
pub const BWF_CLOCK_NIC: u8 = 2;
/// The time written in a capture.
pub const BWF_CLOCK_CAPTURE: u8 = 3;

/// A new instrument.
pub const BWF_DEFINITION_ADD: u8 = 0;
/// Another definition of a known one.
pub const BWF_DEFINITION_MODIFY: u8 = 1;
/// The instrument is gone, and its book with it.
pub const BWF_DEFINITION_DELETE: u8 = 2;

/// Nobody brought the packets in time.
pub const BWF_GAP_TIME: u8 = 0;
/// Too many later ones were held.
pub const BWF_GAP_COUNT: u8 = 1;
/// The numbers went on far ahead.
pub const BWF_GAP_JUMP: u8 = 2;
/// A snapshot knew of later ones, and they did not come.
pub const BWF_GAP_SNAPSHOT: u8 = 3;

/// Recovery begins: some instruments are not good.
pub const BWF_RECOVERY_BEGIN: u8 = 0;
/// Recovery is over: all instruments are good.
pub const BWF_RECOVERY_END: u8 = 1;

/// The exchange reset the channel: books and statistics are empty.
pub const BWF_RESET_CHANNEL: u8 = 0;
/// The packet numbers started over, as they do each week.
pub const BWF_RESET_SEQUENCE: u8 = 1;

/// A status of one security.
pub const BWF_SCOPE_SECURITY: u8 = 0;
/// A status of a security group.
pub const BWF_SCOPE_GROUP: u8 = 1;
/// A status of an asset.
pub const BWF_SCOPE_ASSET: u8 = 2;

/// Last trade.
pub const BWF_STATISTIC_LAST_TRADE: u8 = 0;
/// Opening price.
pub const BWF_STATISTIC_OPEN: u8 = 1;
/// Indicative opening price.
pub const BWF_STATISTIC_INDICATIVE_OPEN: u8 = 2;
/// Settlement price.
pub const BWF_STATISTIC_SETTLEMENT: u8 = 3;
/// Highest trade.
pub const BWF_STATISTIC_HIGH: u8 = 4;
/// Lowest trade.
pub const BWF_STATISTIC_LOW: u8 = 5;
/// Volume-weighted average price.
pub const BWF_STATISTIC_VWAP: u8 = 6;
/// Cleared volume.
pub const BWF_STATISTIC_CLEARED_VOLUME: u8 = 7;
/// Open interest.
pub const BWF_STATISTIC_OPEN_INTEREST: u8 = 8;
/// Highest bid.
pub const BWF_STATISTIC_HIGHEST_BID: u8 = 9;
/// Lowest offer.
pub const BWF_STATISTIC_LOWEST_OFFER: u8 = 10;
/// Fixing price.
pub const BWF_STATISTIC_FIXING: u8 = 11;
/// Electronic volume.
pub const BWF_STATISTIC_VOLUME: u8 = 12;

/// One price level.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfLevel {
    /// In 10^-9.
    pub price: i64,
    /// Quantity at the price.
    pub quantity: i64,
    /// Orders at the price, or BWF_NULL_I32.
    pub orders: i32,
    /// Tradeable size, or BWF_NULL_I32.
    pub tradeable: i32,
}

/// One order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfOrder {
    /// The exchange's order id.
    pub id: u64,
    /// Priority within a price: lower goes first; all ones where there was none.
    pub priority: u64,
    /// In 10^-9.
    pub price: i64,
    /// Quantity on display.
    pub quantity: i64,
}

/// The levels of one side, best first.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfLevels {
    /// The first of them; null when there are none.
    pub levels: *const BwfLevel,
    /// How many.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}

/// The orders of one side, best first.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfOrders {
    /// The first of them; null when there are none.
    pub orders: *const BwfOrder,
    /// How many.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}

/// One instrument's books at the end of an event. What it points to is valid in the callback only, or lies in the room that
/// bwf_book_get was given. Arrays of two are by BWF_BID and BWF_OFFER.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfBook {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// The exchange's id.
    pub security_id: i32,
    /// RptSeq of the last entry that the book contains.
    pub rpt_seq: u32,
    /// Symbol.
    pub symbol: [c_char; BWF_SYMBOL_LEN],
    /// TransactTime of the event that changed it last: nanoseconds since 1970.
    pub transact_time_ns: u64,
    /// What the price-level books are worth: BWF_BOOK_...
    pub state: u8,
    /// What the book by order is worth: BWF_BOOK_...
    pub orders_state: u8,
    /// Why it is shown: BWF_CAUSE_...
    pub cause: u8,
    /// 1 when `state` means complete and current.
    pub is_good: u8,
    /// Zero.
    pub reserved: u32,
    /// The direct book.
    pub direct: [BwfLevels; 2],
    /// The implied book.
    pub implied: [BwfLevels; 2],
    /// The orders: the best ten (MBOLD), or all where the feed publishes every order.
    pub orders: [BwfOrders; 2],
    /// The market's best quote where the feed has one, or null.
    pub market_best: [*const BwfLevel; 2],
}

/// Where bwf_book_get puts levels and orders. Its members are for the library; read them through the book.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfBookRoom {
    /// Of this structure, in bytes: to be set before the call.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// For the library.
    pub direct: [[BwfLevel; BWF_DEPTH_MAX]; 2],
    /// For the library.
    pub implied: [[BwfLevel; BWF_DEPTH_MAX]; 2],
    /// For the library.
    pub orders: [[BwfOrder; BWF_ORDERS_MAX]; 2],
    /// For the library.
    pub market_best: [BwfLevel; 2],
}

/// A packet that is being processed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfPacket {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// MsgSeqNum.
    pub seq_num: u32,
    /// Bytes of the packet.
    pub len: u32,
    /// The packet, from its header of 12 bytes on. Valid in the callback only.
    pub bytes: *const u8,
    /// SendingTime: nanoseconds since 1970, by the exchange's clock.
    pub sending_time_ns: u64,
    /// When it was received, by the clock that `stamp_clock` names, in nanoseconds.
    pub stamp_ns: u64,
    /// Bound on the error of a conversion of the stamp, in nanoseconds.
    pub stamp_error_ns: u32,
    /// Who stamped it: BWF_STAMP_...
    pub stamp_source: u8,
    /// By which clock: BWF_CLOCK_...
    pub stamp_clock: u8,
    /// Which feed it came by: BWF_FEED_...
    pub feed: u8,
    /// Which line: 0 is A, 1 is B.
    pub side: u8,
    /// 1 when it waited for its turn.
    pub held: u8,
    /// Zero.
    pub reserved: [u8; 7],
}

/// A message, before it is processed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfMessage {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Which template.
    pub template_id: u16,
    /// Acting length of the root block.
    pub block_length: u16,
    /// Which schema.
    pub schema_id: u16,
    /// The schema's version that the sender acted by.
    pub version: u16,
    /// Where the message (its size field) begins in the packet.
    pub at: u32,
    /// Root block and groups. Valid in the callback only.
    pub body: *const u8,
    /// Bytes of them.
    pub len: u32,
    /// Zero.
    pub reserved: u32,
}

/// A price-level entry as it arrives. Its event has not ended yet.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfBookEntry {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// The exchange's id.
    pub security_id: i32,
    /// RptSeq.
    pub rpt_seq: u32,
    /// Symbol.
    pub symbol: [c_char; BWF_SYMBOL_LEN],
    /// Its content; the price may be BWF_NULL_PRICE.
    pub level: BwfLevel,
    /// MDPriceLevel, from 1.
    pub price_level: u8,
    /// MDUpdateAction (tag 279).
    pub action: u8,
    /// MDEntryType (tag 269).
    pub entry_type: u8,
    /// Zero.
    pub reserved: [u8; 5],
}

/// One trade.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfTrade {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// The exchange's id.
    pub security_id: i32,
    /// RptSeq.
    pub rpt_seq: u32,
    /// Symbol.
    pub symbol: [c_char; BWF_SYMBOL_LEN],
    /// TransactTime: nanoseconds since 1970.
    pub transact_time_ns: u64,
    /// In 10^-9.
    pub price: i64,
    /// Quantity.
    pub quantity: i64,
    /// Orders that took part.
    pub orders: i32,
    /// MDTradeEntryID, or BWF_NULL_U32.
    pub trade_id: u32,
    /// AggressorSide (tag 5797): 0 none, 1 buy, 2 sell, 255 missing.
    pub aggressor: u8,
    /// MDUpdateAction: 0 new, 1 correction, 2 cancelled.
    pub action: u8,
    /// Zero.
    pub reserved: [u8; 6],
}

/// A statistic or a volume.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfStatistic {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// The exchange's id.
    pub security_id: i32,
    /// RptSeq of the entry, or of the snapshot.
    pub rpt_seq: u32,
    /// Symbol.
    pub symbol: [c_char; BWF_SYMBOL_LEN],
    /// In 10^-9, or BWF_NULL_PRICE for quantities.
    pub price: i64,
    /// Quantity, or BWF_NULL_QUANTITY.
    pub quantity: i64,
    /// What it is: BWF_STATISTIC_...
    pub kind: u8,
    /// OpenCloseSettlFlag (tag 286); 255 when missing.
    pub open_close_flag: u8,
    /// SettlPriceType (tag 731), a bit set; 128 when missing.
    pub settl_price_type: u8,
    /// Zero.
    pub reserved: u8,
    /// TradingReferenceDate (tag 5796), days since 1970; 65,535 when missing.
    pub reference_date: u16,
    /// Zero.
    pub reserved2: u16,
}

/// Price limits. BWF_NULL_PRICE for what is missing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfLimits {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// The exchange's id.
    pub security_id: i32,
    /// RptSeq of the entry, or of the snapshot.
    pub rpt_seq: u32,
    /// Symbol.
    pub symbol: [c_char; BWF_SYMBOL_LEN],
    /// Highest price allowed, in 10^-9.
    pub high: i64,
    /// Lowest price allowed, in 10^-9.
    pub low: i64,
    /// Band about the market, in 10^-9.
    pub max_variation: i64,
}

/// A status that concerns an instrument.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfStatus {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// The exchange's id.
    pub security_id: i32,
    /// Whether it was of one security, a group or an asset: BWF_SCOPE_...
    pub scope: u8,
    /// SecurityTradingStatus (tag 326).
    pub status: u8,
    /// HaltReason (tag 327).
    pub halt_reason: u8,
    /// SecurityTradingEvent (tag 1174).
    pub event: u8,
    /// Symbol.
    pub symbol: [c_char; BWF_SYMBOL_LEN],
    /// TransactTime: nanoseconds since 1970.
    pub transact_time_ns: u64,
}

/// A request for quotes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfQuoteRequest {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// The exchange's id.
    pub security_id: i32,
    /// Quantity, or BWF_NULL_I32.
    pub quantity: i32,
    /// Symbol.
    pub symbol: [c_char; BWF_SYMBOL_LEN],
    /// TransactTime: nanoseconds since 1970.
    pub transact_time_ns: u64,
    /// QuoteType (tag 537).
    pub quote_type: i8,
    /// Side (tag 54): 1 buy, 2 sell, 8 cross; 127 missing.
    pub side: i8,
    /// Zero.
    pub reserved: [u8; 6],
}

/// What a definition said, or defaults without one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfInstrument {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// The exchange's id (tag 48).
    pub security_id: i32,
    /// Template of the definition; 0 without one.
    pub template_id: u16,
    /// Whether a definition has been seen: 0 or 1.
    pub defined: u8,
    /// SecurityTradingStatus as of the definition, a snapshot or the last status; 255 when unknown.
    pub trading_status: u8,
    /// Symbol (tag 55).
    pub symbol: [c_char; BWF_SYMBOL_LEN],
    /// Security group (tag 1151).
    pub group: [c_char; BWF_TEXT_LEN],
    /// Asset (tag 6937).
    pub asset: [c_char; BWF_TEXT_LEN],
    /// Security type (tag 167).
    pub security_type: [c_char; BWF_TEXT_LEN],
    /// CFI code (tag 461).
    pub cfi_code: [c_char; BWF_TEXT_LEN],
    /// Currency (tag 15).
    pub currency: [c_char; BWF_TEXT_LEN],
    /// Tick (tag 969), in 10^-9.
    pub min_price_increment: i64,
    /// Factor from prices on the wire to display (tag 9787), in 10^-9.
    pub display_factor: i64,
    /// Channel at the exchange (tag 1180).
    pub channel_id: i16,
    /// Market segment (tag 1300).
    pub market_segment: u8,
    /// Depth of the direct book.
    pub depth: u8,
    /// Depth of the implied book.
    pub implied_depth: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

/// Packets of the incremental feed that are lost.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfGap {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// First number lost.
    pub first: u32,
    /// Last number lost.
    pub last: u32,
    /// Instruments of the event that the gap cut.
    pub cut_instruments: u32,
    /// How it was found: BWF_GAP_...
    pub cause: u8,
    /// Zero.
    pub reserved: [u8; 3],
}

/// How a recovery goes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfRecovery {
    /// Of this structure, in bytes.
    pub size: u32,
    /// Index of the feed channel in the configuration.
    pub channel: u32,
    /// Last incremental packet lost before.
    pub last_lost: u32,
    /// Instruments of the channel.
    pub instruments: u32,
    /// Of those, the ones whose price levels are not good.
    pub unsettled: u32,
    /// BWF_RECOVERY_...
    pub phase: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Books by order that are not good, of those that the loop or overlays will make so.
    pub unsettled_orders: u32,
}

/// A feed channel of the configuration.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfChannel {
    /// Of this structure, in bytes: to be set before the call.
    pub size: u32,
    /// Index in the configuration: what other calls and callbacks say `channel` to.
    pub channel: u32,
    /// The exchange's number.
    pub channel_id: u32,
    /// Number of the next incremental packet, or BWF_NULL_U32 before the first.
    pub expected_seq_num: u32,
    /// What the configuration calls it.
    pub label: [c_char; BWF_LABEL_LEN],
    /// Instruments.
    pub instruments: u32,
    /// Of those, the ones whose price levels are not good.
    pub unsettled: u32,
    /// Whether packets come: BWF_STATE_...
    pub state: u8,
    /// 1 while some instrument is not good, or it is not known yet which there are.
    pub recovering: u8,
    /// 1 once the definition loop has been heard in full.
    pub definitions_complete: u8,
    /// Zero.
    pub reserved: u8,
    /// Books by order that are not good, of those that the loop or overlays will make so.
    pub unsettled_orders: u32,
}

/// Figures of one line. Those from `first` on are kept for incremental lines only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwfLine {
    /// Of this structure, in bytes: to be set before the call.
    pub size: u32,
    /// Whether packets come: BWF_STATE_...
    pub state: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Packets received.
    pub packets: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Packets of which this line brought the first good copy.
    pub first: u64,
    /// Packets that another line had brought before, or this one twice.
    pub duplicates: u64,
    /// Numbers that never came by this line.
    pub lost: u64,
    /// Packets that came behind a later one of the same line.
    pub reordered: u64,
    /// First copies of which another line's copy followed.
    pub leads: u64,
    /// How long the other copy took longer, added up, in nanoseconds.
    pub lead_ns_total: u64,
    /// The longest lead in nanoseconds.
    pub lead_ns_max: u64,
}

/// Takes a counter: its name, which is valid during the call only, and its value.
pub type BwfEachCount = Option<unsafe extern "C" fn(user: *mut c_void, name: *const c_char, value: u64)>;
