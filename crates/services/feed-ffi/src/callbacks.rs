//! What C is told: a listener that calls its functions.

use crate::boundary::Failure;
use crate::convert::{self, Measured};
use crate::error::{BWF_ERR_INVALID, BWF_ERR_VERSION};
use crate::types::*;
use barewire_feed::{
    BookEntry, BookSide, BookView, DefinitionAction, Gap, GapCause, Instrument, Limits, Line, LinePolicy,
    LineState, Listener, Order, PacketInfo, QuoteRequest, Reason, RecoveryInfo, Reset, SecurityStatus,
    Statistic, StatusScope, Trade,
};
use barewire_sbe::Message;
use std::ffi::c_void;
use std::mem::{offset_of, size_of};

/// What to call when something happens; null for what is not wanted, which then costs nothing. What a callback is given is
/// valid until it returns. Inside a callback the calls on the same handler are refused with BWF_ERR_REENTRANT, bwf_stop
/// excepted; other handlers may be used. `channel` is the index of the feed channel in the configuration.
///
/// In order, for one packet: packet, then for each message message and its entries, at the end of an event book for every
/// instrument it touched and end_of_event, then end_of_packet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BwfCallbacks {
    /// Of this structure, in bytes: to be set before the call. A smaller one, of an earlier release, is taken, too.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// Handed to each callback.
    pub user: *mut c_void,
    /// A packet in its order, before its messages.
    pub packet: Option<unsafe extern "C" fn(user: *mut c_void, packet: *const BwfPacket)>,
    /// All messages of the packet have been processed.
    pub end_of_packet: Option<unsafe extern "C" fn(user: *mut c_void, packet: *const BwfPacket)>,
    /// A message of any feed, before it is processed.
    pub message:
        Option<unsafe extern "C" fn(user: *mut c_void, packet: *const BwfPacket, message: *const BwfMessage)>,
    /// A price-level entry. Its book still shows the state before the event.
    pub book_entry: Option<unsafe extern "C" fn(user: *mut c_void, entry: *const BwfBookEntry)>,
    /// An instrument's books at the end of an event that changed them, or good again after recovery.
    pub book: Option<unsafe extern "C" fn(user: *mut c_void, book: *const BwfBook)>,
    /// A trade.
    pub trade: Option<unsafe extern "C" fn(user: *mut c_void, trade: *const BwfTrade)>,
    /// A statistic or a volume.
    pub statistic: Option<unsafe extern "C" fn(user: *mut c_void, statistic: *const BwfStatistic)>,
    /// Price limits.
    pub limits: Option<unsafe extern "C" fn(user: *mut c_void, limits: *const BwfLimits)>,
    /// A status that concerns an instrument, once for each when it is of a group or an asset.
    pub status: Option<unsafe extern "C" fn(user: *mut c_void, status: *const BwfStatus)>,
    /// A request for quotes.
    pub quote_request: Option<unsafe extern "C" fn(user: *mut c_void, request: *const BwfQuoteRequest)>,
    /// A definition; `action` is BWF_DEFINITION_...
    pub definition:
        Option<unsafe extern "C" fn(user: *mut c_void, instrument: *const BwfInstrument, action: u32)>,
    /// The definition loop has been heard in full.
    pub definitions_complete: Option<unsafe extern "C" fn(user: *mut c_void, channel: u32, instruments: u32)>,
    /// An event ended, and all its books have been shown.
    pub end_of_event:
        Option<unsafe extern "C" fn(user: *mut c_void, packet: *const BwfPacket, transact_time_ns: u64)>,
    /// Packets were declared lost.
    pub gap: Option<unsafe extern "C" fn(user: *mut c_void, gap: *const BwfGap)>,
    /// An instrument has missed something.
    pub instrument_stale: Option<unsafe extern "C" fn(user: *mut c_void, channel: u32, security_id: i32)>,
    /// Recovery begins or is over.
    pub recovery: Option<unsafe extern "C" fn(user: *mut c_void, recovery: *const BwfRecovery)>,
    /// The channel, or its numbers, started over (BWF_RESET_...): every book and statistic is empty now, or undefined where
    /// packets behind the reset are missing. The book callback does not tell of it.
    pub reset: Option<unsafe extern "C" fn(user: *mut c_void, channel: u32, reset: u32)>,
    /// A line (`feed` BWF_FEED_..., `side` 0 for A, 1 for B) came up or went down (BWF_STATE_...).
    pub line_state:
        Option<unsafe extern "C" fn(user: *mut c_void, channel: u32, feed: u32, side: u32, state: u32)>,
    /// All lines of the incremental feed are down, or one is up again (BWF_STATE_...).
    pub feed_state: Option<unsafe extern "C" fn(user: *mut c_void, channel: u32, state: u32)>,
    /// Another line is in use, where the configuration says that one replaces the other.
    pub failover: Option<unsafe extern "C" fn(user: *mut c_void, channel: u32, side: u32)>,
    /// A packet, message or entry was not used; bwf_reason_name says what `reason` means.
    pub drop:
        Option<unsafe extern "C" fn(user: *mut c_void, channel: u32, feed: u32, side: u32, reason: u32)>,
    /// There was no room for a snapshot of an instrument's book by order (`orders_max`): it is empty and its state
    /// BWF_BOOK_UNDEFINED, and recovery does not wait for it. Told once.
    pub orders_incomplete: Option<unsafe extern "C" fn(user: *mut c_void, channel: u32, security_id: i32)>,
}

const NONE: BwfCallbacks = BwfCallbacks {
    size: size_of::<BwfCallbacks>() as u32,
    reserved: 0,
    user: std::ptr::null_mut(),
    packet: None,
    end_of_packet: None,
    message: None,
    book_entry: None,
    book: None,
    trade: None,
    statistic: None,
    limits: None,
    status: None,
    quote_request: None,
    definition: None,
    definitions_complete: None,
    end_of_event: None,
    gap: None,
    instrument_stale: None,
    recovery: None,
    reset: None,
    line_state: None,
    feed_state: None,
    failover: None,
    drop: None,
    orders_incomplete: None,
};

/// The callbacks that C hands in, of this release or an earlier one. Null: none.
///
/// # Safety
/// `from` is null, or valid for reads of as many bytes as its `size` says.
pub(crate) unsafe fn read(from: *const BwfCallbacks) -> Result<BwfCallbacks, Failure> {
    if from.is_null() {
        return Ok(NONE);
    }
    // SAFETY: not null, so at least the size is there by this function's contract; aligned or not.
    let size = unsafe { from.cast::<u32>().read_unaligned() } as usize;
    let pointers = offset_of!(BwfCallbacks, packet)..=size_of::<BwfCallbacks>();
    if !pointers.contains(&size) || !(size - pointers.start()).is_multiple_of(size_of::<usize>()) {
        let known = size_of::<BwfCallbacks>();
        let why = format!("bwf_callbacks.size is {size}; this library's has {known} bytes");
        return Err(Failure::new(BWF_ERR_VERSION, why));
    }
    let mut callbacks = NONE;
    // SAFETY: `size` bytes are there by this function's contract, and no more than the structure has. Whatever they are, they
    // are a number, pointers, and functions or null.
    unsafe {
        std::ptr::from_mut(&mut callbacks).cast::<u8>().copy_from_nonoverlapping(from.cast(), size);
    }
    if callbacks.reserved != 0 {
        return Err(BWF_ERR_INVALID.into());
    }
    Ok(callbacks)
}

/// The listener of one feed channel.
pub(crate) struct Calls {
    to: BwfCallbacks,
    channel: u32,
}

/// Calls a function of C's if there is one.
macro_rules! call {
    ($self:ident.$name:ident($($argument:expr),*)) => {
        if let Some(function) = $self.to.$name {
            // SAFETY: whoever opened the handler vouches for the function and its user pointer until the handler is closed.
            // What it is given is valid until it returns.
            unsafe { function($self.to.user, $($argument),*) }
        }
    };
}

impl Calls {
    pub(crate) fn new(to: BwfCallbacks, channel: u32) -> Calls {
        Calls { to, channel }
    }

    fn recovery(&self, phase: u8, info: &RecoveryInfo) {
        let recovery = BwfRecovery {
            size: size_of::<BwfRecovery>() as u32,
            channel: self.channel,
            last_lost: info.last_lost,
            instruments: info.instruments as u32,
            unsettled: info.unsettled as u32,
            unsettled_orders: info.unsettled_orders as u32,
            phase,
            reserved: [0; 3],
        };
        call!(self.recovery(&recovery));
    }
}

/// Levels in place.
fn levels(of: &[barewire_feed::Level]) -> BwfLevels {
    let levels = if of.is_empty() { std::ptr::null() } else { of.as_ptr().cast() };
    BwfLevels { levels, count: of.len() as u32, reserved: 0 }
}

fn orders(of: &[Order]) -> BwfOrders {
    let orders = if of.is_empty() { std::ptr::null() } else { of.as_ptr().cast() };
    BwfOrders { orders, count: of.len() as u32, reserved: 0 }
}

impl BwfBook {
    /// The book with pointers into the view's own levels.
    #[inline]
    pub(crate) fn of(channel: u32, book: &BookView<'_>) -> BwfBook {
        const SIDES: [BookSide; 2] = [BookSide::Bid, BookSide::Offer];
        BwfBook {
            size: Self::SIZE,
            channel,
            security_id: book.instrument.security_id,
            rpt_seq: book.rpt_seq,
            symbol: convert::symbol(book.instrument),
            transact_time_ns: book.transact_time_ns,
            state: convert::book_state(book.state),
            orders_state: convert::book_state(book.orders_state),
            cause: convert::book_cause(book.cause),
            is_good: book.state.is_good().into(),
            reserved: 0,
            direct: SIDES.map(|side| levels(book.levels(side))),
            implied: SIDES.map(|side| levels(book.implied(side))),
            orders: SIDES.map(|side| orders(book.orders(side))),
            market_best: SIDES.map(|side| {
                book.market_best(side).map_or(std::ptr::null(), |level| std::ptr::from_ref(level).cast())
            }),
        }
    }
}

impl Listener for Calls {
    #[inline]
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {
        if self.to.packet.is_some() {
            call!(self.packet(&BwfPacket::new(self.channel, packet)));
        }
    }

    #[inline]
    fn on_end_of_packet(&mut self, packet: &PacketInfo<'_>) {
        if self.to.end_of_packet.is_some() {
            call!(self.end_of_packet(&BwfPacket::new(self.channel, packet)));
        }
    }

    #[inline]
    fn on_message(&mut self, packet: &PacketInfo<'_>, message: &Message<'_>) {
        if self.to.message.is_some() {
            let packet = BwfPacket::new(self.channel, packet);
            let message = BwfMessage {
                size: size_of::<BwfMessage>() as u32,
                template_id: message.template_id,
                block_length: message.block_length,
                schema_id: message.schema_id,
                version: message.version,
                at: message.at as u32,
                body: message.body.as_ptr(),
                len: message.body.len() as u32,
                reserved: 0,
            };
            call!(self.message(&packet, &message));
        }
    }

    #[inline]
    fn on_book_entry(&mut self, instrument: &Instrument, entry: &BookEntry) {
        if self.to.book_entry.is_some() {
            let BookEntry { level, rpt_seq, price_level, action, entry_type } = *entry;
            let entry = BwfBookEntry {
                size: size_of::<BwfBookEntry>() as u32,
                channel: self.channel,
                security_id: instrument.security_id,
                rpt_seq,
                symbol: convert::symbol(instrument),
                level: BwfLevel {
                    price: level.price,
                    quantity: level.quantity,
                    orders: level.orders,
                    tradeable: level.tradeable,
                },
                price_level,
                action,
                entry_type,
                reserved: [0; 5],
            };
            call!(self.book_entry(&entry));
        }
    }

    #[inline]
    fn on_book(&mut self, book: &BookView<'_>) {
        if self.to.book.is_some() {
            call!(self.book(&BwfBook::of(self.channel, book)));
        }
    }

    #[inline]
    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {
        if self.to.trade.is_some() {
            let Trade { price, quantity, orders, aggressor, action, trade_id, rpt_seq, transact_time_ns } =
                *trade;
            let trade = BwfTrade {
                size: size_of::<BwfTrade>() as u32,
                channel: self.channel,
                security_id: instrument.security_id,
                rpt_seq,
                symbol: convert::symbol(instrument),
                transact_time_ns,
                price,
                quantity,
                orders,
                trade_id: trade_id.unwrap_or(BWF_NULL_U32),
                aggressor,
                action,
                reserved: [0; 6],
            };
            call!(self.trade(&trade));
        }
    }

    fn on_statistic(&mut self, instrument: &Instrument, statistic: &Statistic) {
        if self.to.statistic.is_some() {
            call!(self.statistic(&BwfStatistic::new(self.channel, instrument, statistic)));
        }
    }

    fn on_limits(&mut self, instrument: &Instrument, limits: &Limits) {
        if self.to.limits.is_some() {
            call!(self.limits(&BwfLimits::new(self.channel, instrument, limits)));
        }
    }

    fn on_status(&mut self, instrument: &Instrument, status: &SecurityStatus) {
        let scope = match status.scope {
            StatusScope::Security => BWF_SCOPE_SECURITY,
            StatusScope::Group => BWF_SCOPE_GROUP,
            StatusScope::Asset => BWF_SCOPE_ASSET,
        };
        let status = BwfStatus {
            size: size_of::<BwfStatus>() as u32,
            channel: self.channel,
            security_id: instrument.security_id,
            scope,
            status: status.status.0,
            halt_reason: status.halt_reason,
            event: status.event,
            symbol: convert::symbol(instrument),
            transact_time_ns: status.transact_time_ns,
        };
        call!(self.status(&status));
    }

    fn on_quote_request(&mut self, instrument: &Instrument, request: &QuoteRequest) {
        let request = BwfQuoteRequest {
            size: size_of::<BwfQuoteRequest>() as u32,
            channel: self.channel,
            security_id: instrument.security_id,
            quantity: request.quantity.unwrap_or(BWF_NULL_I32),
            symbol: convert::symbol(instrument),
            transact_time_ns: request.transact_time_ns,
            quote_type: request.quote_type,
            side: request.side.unwrap_or(i8::MAX),
            reserved: [0; 6],
        };
        call!(self.quote_request(&request));
    }

    fn on_definition(&mut self, instrument: &Instrument, action: DefinitionAction) {
        let action = match action {
            DefinitionAction::Add => BWF_DEFINITION_ADD,
            DefinitionAction::Modify => BWF_DEFINITION_MODIFY,
            DefinitionAction::Delete => BWF_DEFINITION_DELETE,
        };
        call!(self.definition(&BwfInstrument::new(self.channel, instrument), action.into()));
    }

    fn on_definitions_complete(&mut self, instruments: usize) {
        call!(self.definitions_complete(self.channel, instruments as u32));
    }

    #[inline]
    fn on_end_of_event(&mut self, packet: &PacketInfo<'_>, transact_time_ns: u64) {
        if self.to.end_of_event.is_some() {
            call!(self.end_of_event(&BwfPacket::new(self.channel, packet), transact_time_ns));
        }
    }

    fn on_gap(&mut self, gap: &Gap) {
        let cause = match gap.cause {
            GapCause::Time => BWF_GAP_TIME,
            GapCause::Count => BWF_GAP_COUNT,
            GapCause::Jump => BWF_GAP_JUMP,
            GapCause::Snapshot => BWF_GAP_SNAPSHOT,
        };
        let gap = BwfGap {
            size: size_of::<BwfGap>() as u32,
            channel: self.channel,
            first: gap.first,
            last: gap.last,
            cut_instruments: gap.cut_instruments as u32,
            cause,
            reserved: [0; 3],
        };
        call!(self.gap(&gap));
    }

    fn on_instrument_stale(&mut self, instrument: &Instrument) {
        call!(self.instrument_stale(self.channel, instrument.security_id));
    }

    fn on_orders_incomplete(&mut self, instrument: &Instrument) {
        call!(self.orders_incomplete(self.channel, instrument.security_id));
    }

    fn on_recovery_begin(&mut self, info: &RecoveryInfo) {
        self.recovery(BWF_RECOVERY_BEGIN, info);
    }

    fn on_recovery_end(&mut self, info: &RecoveryInfo) {
        self.recovery(BWF_RECOVERY_END, info);
    }

    fn on_reset(&mut self, reset: Reset) {
        let reset = match reset {
            Reset::Channel => BWF_RESET_CHANNEL,
            Reset::Sequence => BWF_RESET_SEQUENCE,
        };
        call!(self.reset(self.channel, reset.into()));
    }

    fn on_line_state(&mut self, line: Line, state: LineState) {
        let (feed, state) = (convert::feed(line.feed), convert::line_state(state));
        call!(self.line_state(self.channel, feed.into(), line.side as u32, state.into()));
    }

    fn on_channel_state(&mut self, state: LineState) {
        call!(self.feed_state(self.channel, convert::line_state(state).into()));
    }

    fn on_failover(&mut self, _: LinePolicy, line: Line) {
        call!(self.failover(self.channel, line.side as u32));
    }

    #[inline]
    fn on_drop(&mut self, line: Line, reason: Reason) {
        let feed = convert::feed(line.feed);
        call!(self.drop(self.channel, feed.into(), line.side as u32, reason as u32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn on_book(user: *mut c_void, _: *const BwfBook) {
        // SAFETY: the test hands in a counter.
        unsafe { *user.cast::<u32>() += 1 };
    }

    #[test]
    fn callbacks_of_an_earlier_release_are_taken_and_of_a_later_one_refused() {
        let mut calls = 0u32;
        let mut given = BwfCallbacks { user: (&raw mut calls).cast(), book: Some(on_book), ..NONE };
        given.gap = None;
        // SAFETY: the structure is whole whatever its size says.
        let read = |given: &BwfCallbacks| unsafe { super::read(given) };
        assert!(read(&given).unwrap().book.is_some());
        given.size = offset_of!(BwfCallbacks, trade) as u32;
        assert!(read(&given).unwrap().book.is_some());
        given.size = offset_of!(BwfCallbacks, book) as u32;
        assert!(read(&given).unwrap().book.is_none(), "what lies behind the size is not looked at");
        for size in [0, 8, 15, 17, size_of::<BwfCallbacks>() as u32 + 8, u32::MAX] {
            given.size = size;
            assert_eq!(read(&given).err().unwrap().code, BWF_ERR_VERSION, "{size}");
        }
        // SAFETY: null is allowed.
        assert!(unsafe { super::read(std::ptr::null()) }.unwrap().book.is_none());
    }
}
