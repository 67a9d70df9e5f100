//! The core's values as C's structures. The numbers are the ABI's own: those of the core may change without it.

use crate::types::*;
use barewire_feed::{
    BookCause, BookState, Feed, Instrument, Level, Limits, LineState, NULL_I32, NULL_PRICE, Order,
    PacketInfo, Statistic, StatisticKind, Text, TradingStatus,
};
use std::ffi::c_char;
use std::mem::{offset_of, size_of};

// Books are shown in place: a level of C's is a level of the core.
const _: () = {
    assert!(size_of::<BwfLevel>() == size_of::<Level>() && size_of::<BwfOrder>() == size_of::<Order>());
    assert!(align_of::<BwfLevel>() == align_of::<Level>() && align_of::<BwfOrder>() == align_of::<Order>());
    assert!(offset_of!(BwfLevel, price) == offset_of!(Level, price));
    assert!(offset_of!(BwfLevel, quantity) == offset_of!(Level, quantity));
    assert!(offset_of!(BwfLevel, orders) == offset_of!(Level, orders));
    assert!(offset_of!(BwfLevel, tradeable) == offset_of!(Level, tradeable));
    assert!(offset_of!(BwfOrder, id) == offset_of!(Order, id));
    assert!(offset_of!(BwfOrder, priority) == offset_of!(Order, priority));
    assert!(offset_of!(BwfOrder, price) == offset_of!(Order, price));
    assert!(offset_of!(BwfOrder, quantity) == offset_of!(Order, quantity));
    assert!(BWF_DEPTH_MAX == barewire_feed::MAX_DEPTH && BWF_ORDERS_MAX == barewire_feed::ORDER_DEPTH);
    assert!(BWF_NULL_PRICE == NULL_PRICE && BWF_NULL_I32 == NULL_I32);
};

/// A structure that begins with its size.
///
/// # Safety
/// `repr(C)`, and the first member is the `u32` size.
pub(crate) unsafe trait Measured: Copy {
    /// What `size` has to be.
    const SIZE: u32 = size_of::<Self>() as u32;
}

macro_rules! measured {
    ($($name:ident)*) => {$(
        const _: () = assert!(offset_of!($name, size) == 0);
        // SAFETY: repr(C) above, and `size` is at its beginning, as the line before proves.
        unsafe impl Measured for $name {}
    )*};
}
measured!(BwfBook BwfBookRoom BwfInstrument BwfChannel BwfLine BwfStatistic BwfLimits);

/// A text with zeros behind it. `N` leaves room for the last zero.
pub(crate) fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut chars = [0; N];
    // Cut between characters.
    let mut len = text.len().min(N - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    for (to, from) in chars.iter_mut().zip(&text.as_bytes()[..len]) {
        *to = *from as c_char;
    }
    chars
}

pub(crate) fn symbol(instrument: &Instrument) -> [c_char; BWF_SYMBOL_LEN] {
    chars(instrument.symbol.as_str())
}

pub(crate) fn book_state(state: BookState) -> u8 {
    match state {
        BookState::Undefined => BWF_BOOK_UNDEFINED,
        BookState::Latest => BWF_BOOK_LATEST,
        BookState::NaturallyRefreshed => BWF_BOOK_NATURALLY_REFRESHED,
        BookState::Suspect => BWF_BOOK_SUSPECT,
        BookState::Stale => BWF_BOOK_STALE,
    }
}

pub(crate) fn book_cause(cause: BookCause) -> u8 {
    match cause {
        BookCause::Event => BWF_CAUSE_EVENT,
        BookCause::Snapshot => BWF_CAUSE_SNAPSHOT,
        BookCause::NaturalRefresh => BWF_CAUSE_NATURAL_REFRESH,
        BookCause::Query => BWF_CAUSE_QUERY,
        BookCause::Definition => BWF_CAUSE_DEFINITION,
    }
}

pub(crate) fn feed(feed: Feed) -> u8 {
    match feed {
        Feed::Incremental => BWF_FEED_INCREMENTAL,
        Feed::Snapshot => BWF_FEED_SNAPSHOT,
        Feed::Instrument => BWF_FEED_INSTRUMENT,
        Feed::OrderSnapshot => BWF_FEED_ORDER_SNAPSHOT,
    }
}

pub(crate) fn line_state(state: LineState) -> u8 {
    match state {
        LineState::Silent => BWF_STATE_SILENT,
        LineState::Up => BWF_STATE_UP,
        LineState::Down => BWF_STATE_DOWN,
    }
}

/// Every kind with its number.
pub(crate) const STATISTICS: [(StatisticKind, u8); 13] = [
    (StatisticKind::LastTrade, BWF_STATISTIC_LAST_TRADE),
    (StatisticKind::Open, BWF_STATISTIC_OPEN),
    (StatisticKind::IndicativeOpen, BWF_STATISTIC_INDICATIVE_OPEN),
    (StatisticKind::Settlement, BWF_STATISTIC_SETTLEMENT),
    (StatisticKind::High, BWF_STATISTIC_HIGH),
    (StatisticKind::Low, BWF_STATISTIC_LOW),
    (StatisticKind::Vwap, BWF_STATISTIC_VWAP),
    (StatisticKind::ClearedVolume, BWF_STATISTIC_CLEARED_VOLUME),
    (StatisticKind::OpenInterest, BWF_STATISTIC_OPEN_INTEREST),
    (StatisticKind::HighestBid, BWF_STATISTIC_HIGHEST_BID),
    (StatisticKind::LowestOffer, BWF_STATISTIC_LOWEST_OFFER),
    (StatisticKind::Fixing, BWF_STATISTIC_FIXING),
    (StatisticKind::Volume, BWF_STATISTIC_VOLUME),
];

impl BwfPacket {
    pub(crate) fn new(channel: u32, packet: &PacketInfo<'_>) -> BwfPacket {
        BwfPacket {
            size: size_of::<BwfPacket>() as u32,
            channel,
            seq_num: packet.seq,
            len: packet.bytes.len() as u32,
            bytes: packet.bytes.as_ptr(),
            sending_time_ns: packet.sending_time_ns,
            stamp_ns: packet.stamp.ns,
            stamp_error_ns: packet.stamp.error_ns,
            // These two are numbered in the open: they stand in captures' reports, too.
            stamp_source: packet.stamp.source as u8,
            stamp_clock: packet.stamp.clock as u8,
            feed: feed(packet.line.feed),
            side: packet.line.side as u8,
            held: packet.held.into(),
            reserved: [0; 7],
        }
    }
}

impl BwfInstrument {
    pub(crate) fn new(channel: u32, of: &Instrument) -> BwfInstrument {
        fn text<const N: usize>(text: &Text<N>) -> [c_char; BWF_TEXT_LEN] {
            chars(text.as_str())
        }
        let TradingStatus(trading_status) = of.trading_status;
        BwfInstrument {
            size: Self::SIZE,
            channel,
            security_id: of.security_id,
            template_id: of.template_id,
            defined: of.defined.into(),
            trading_status,
            symbol: symbol(of),
            group: text(&of.group),
            asset: text(&of.asset),
            security_type: text(&of.security_type),
            cfi_code: text(&of.cfi_code),
            currency: text(&of.currency),
            min_price_increment: of.min_price_increment,
            display_factor: of.display_factor,
            channel_id: of.channel_id,
            market_segment: of.market_segment,
            depth: of.depth,
            implied_depth: of.implied_depth,
            reserved: [0; 3],
        }
    }
}

impl BwfStatistic {
    pub(crate) fn new(channel: u32, of: &Instrument, statistic: &Statistic) -> BwfStatistic {
        let kind = STATISTICS.iter().find(|(kind, _)| *kind == statistic.kind).map_or(u8::MAX, |(_, n)| *n);
        BwfStatistic {
            size: Self::SIZE,
            channel,
            security_id: of.security_id,
            rpt_seq: statistic.rpt_seq,
            symbol: symbol(of),
            price: statistic.price,
            quantity: statistic.quantity.unwrap_or(BWF_NULL_QUANTITY),
            kind,
            open_close_flag: statistic.open_close_flag,
            settl_price_type: statistic.settl_price_type,
            reserved: 0,
            reference_date: statistic.reference_date,
            reserved2: 0,
        }
    }
}

impl BwfLimits {
    pub(crate) fn new(channel: u32, of: &Instrument, limits: &Limits) -> BwfLimits {
        BwfLimits {
            size: Self::SIZE,
            channel,
            security_id: of.security_id,
            rpt_seq: limits.rpt_seq,
            symbol: symbol(of),
            high: limits.high,
            low: limits.low,
            max_variation: limits.max_variation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_a_zero_and_are_cut_between_characters() {
        let read = |chars: &[c_char]| chars.iter().map(|c| *c as u8).collect::<Vec<_>>();
        assert_eq!(read(&chars::<4>("ab")), b"ab\0\0");
        assert_eq!(read(&chars::<4>("abcdef")), b"abc\0");
        assert_eq!(read(&chars::<3>("a\u{e9}")), b"a\0\0");
        assert_eq!(read(&chars::<1>("a")), b"\0");
    }

    #[test]
    fn every_kind_of_statistic_has_a_number() {
        for (i, (kind, number)) in STATISTICS.iter().enumerate() {
            assert_eq!((*kind as usize, usize::from(*number)), (i, i));
        }
    }
}
