//! From a planned event to messages, and from messages to packets.

use super::book::{Action, Edit, Level};
use super::market::{BID, Order};
use barewire_sbe::mdp3::channel_reset4::ChannelReset4Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_book_long_qty64::MdIncrementalRefreshBookLongQty64Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_book46::MdIncrementalRefreshBook46Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_daily_statistics49::MdIncrementalRefreshDailyStatistics49Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_limits_banding50::MdIncrementalRefreshLimitsBanding50Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_order_book47::MdIncrementalRefreshOrderBook47Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_session_statistics_long_qty67::MdIncrementalRefreshSessionStatisticsLongQty67Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_session_statistics51::MdIncrementalRefreshSessionStatistics51Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_trade_summary_long_qty65::MdIncrementalRefreshTradeSummaryLongQty65Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_trade_summary48::MdIncrementalRefreshTradeSummary48Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_volume_long_qty66::MdIncrementalRefreshVolumeLongQty66Encoder;
use barewire_sbe::mdp3::md_incremental_refresh_volume37::MdIncrementalRefreshVolume37Encoder;
use barewire_sbe::mdp3::quote_request39::QuoteRequest39Encoder;
use barewire_sbe::mdp3::security_status_workup60::SecurityStatusWorkup60Encoder;
use barewire_sbe::mdp3::security_status30::SecurityStatus30Encoder;
use barewire_sbe::mdp3::snapshot_refresh_top_orders59::SnapshotRefreshTopOrders59Encoder;
use barewire_sbe::mdp3::{
    AggressorSide, HaltReason, MatchEventIndicator, MdEntryTypeBook, MdEntryTypeDailyStatistics,
    MdEntryTypeStatistics, MdUpdateAction, OpenCloseSettlFlag, SecurityTradingEvent, SecurityTradingStatus,
    SettlPriceType, WorkupTradingStatus,
};
use barewire_sbe::{EncodeError, Price9};

/// Bytes set aside for one message.
pub(crate) const MESSAGE_MAX: usize = 8_972;

/// One published trade.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TradeEntry {
    pub security_id: i32,
    pub rpt_seq: u32,
    pub price_e9: i64,
    pub quantity: u64,
    pub buy: bool,
    pub trade_id: u32,
    pub resting: u64,
    pub aggressor: u64,
}

/// One entry of a book message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BookEntry {
    pub security_id: i32,
    pub rpt_seq: u32,
    pub kind: MdEntryTypeBook,
    pub edit: Edit,
}

/// One entry of session statistics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatEntry {
    pub security_id: i32,
    pub rpt_seq: u32,
    pub kind: MdEntryTypeStatistics,
    pub price_e9: i64,
}

/// What follows together at one time, in the order in which it is sent.
#[derive(Clone, Debug)]
pub(crate) enum Planned {
    Trades {
        long: bool,
        entries: Vec<TradeEntry>,
    },
    Volume {
        long: bool,
        entries: Vec<(i32, u32, u64)>,
    },
    TopOrders {
        security_id: i32,
        top: [Vec<Order>; 2],
    },
    /// Single orders: what happened to each, its side, the order.
    OrderUpdates {
        security_id: i32,
        updates: Vec<(MdUpdateAction, usize, Order)>,
    },
    Book {
        long: bool,
        implied: bool,
        entries: Vec<BookEntry>,
    },
    Statistics {
        long: bool,
        entries: Vec<StatEntry>,
    },
    Settlement {
        security_id: i32,
        rpt_seq: u32,
        price_e9: i64,
    },
    Limits {
        security_id: i32,
        rpt_seq: u32,
        high_e9: i64,
        low_e9: i64,
        variation_e9: i64,
    },
    Status {
        security_id: Option<i32>,
        group: String,
        asset: String,
        status: SecurityTradingStatus,
    },
    Workup {
        security_id: i32,
        price_e9: Option<i64>,
        link: u32,
    },
    QuoteRequest {
        security_id: i32,
        symbol: String,
        number: u32,
    },
    Reset {
        channel_id: u16,
    },
    /// Encoded already.
    Definition {
        message: Vec<u8>,
    },
}

impl Planned {
    /// The bit of the last message of its kind in an event.
    pub(crate) fn last_bit(&self) -> MatchEventIndicator {
        match self {
            Planned::Trades { .. } => MatchEventIndicator::LAST_TRADE_MSG,
            Planned::Volume { .. } => MatchEventIndicator::LAST_VOLUME_MSG,
            Planned::Book { implied: true, .. } => MatchEventIndicator::LAST_IMPLIED_MSG,
            Planned::TopOrders { .. } | Planned::OrderUpdates { .. } | Planned::Book { .. } => {
                MatchEventIndicator::LAST_QUOTE_MSG
            }
            Planned::Statistics { .. } | Planned::Settlement { .. } | Planned::Limits { .. } => {
                MatchEventIndicator::LAST_STATS_MSG
            }
            _ => MatchEventIndicator(0),
        }
    }
}

/// The side's entry type of an order or level.
pub(crate) fn side_type(side: usize, implied: bool) -> MdEntryTypeBook {
    match (side == BID, implied) {
        (true, false) => MdEntryTypeBook::BID,
        (false, false) => MdEntryTypeBook::OFFER,
        (true, true) => MdEntryTypeBook::IMPLIED_BID,
        (false, true) => MdEntryTypeBook::IMPLIED_OFFER,
    }
}

fn action(action: Action) -> MdUpdateAction {
    match action {
        Action::New => MdUpdateAction::NEW,
        Action::Change => MdUpdateAction::CHANGE,
        Action::Delete => MdUpdateAction::DELETE,
        Action::DeleteThru => MdUpdateAction::DELETE_THRU,
        Action::DeleteFrom => MdUpdateAction::DELETE_FROM,
        Action::Overlay => MdUpdateAction::OVERLAY,
    }
}

fn int(quantity: u64) -> i32 {
    quantity.min(i32::MAX as u64 - 1) as i32
}

fn orders(level: &Level) -> Option<i32> {
    level.orders.map(|orders| orders as i32)
}

/// Interleaved as the exchange does it: bid, offer, bid, offer, the rest of the longer side.
pub(crate) fn interleaved(top: &[Vec<Order>; 2]) -> impl Iterator<Item = (usize, Order)> + '_ {
    let longest = top[0].len().max(top[1].len());
    (0..longest).flat_map(move |i| (0..2).filter_map(move |side| top[side].get(i).map(|o| (side, *o))))
}

/// What all messages of an event say, and where the message goes.
struct Out<'b> {
    time_ns: u64,
    bits: MatchEventIndicator,
    buf: &'b mut [u8],
}

// Templates have types of their own, with the same methods: so what they share is a macro.
macro_rules! begin {
    ($encoder:ident, $to:ident) => {{
        let mut message = $encoder::new($to.buf)?;
        message.transact_time($to.time_ns).match_event_indicator($to.bits);
        message
    }};
}

/// Writes one message of an event, and says how long it is.
pub(crate) fn encode(
    planned: &Planned,
    time_ns: u64,
    bits: MatchEventIndicator,
    buf: &mut [u8],
) -> Result<usize, EncodeError> {
    let to = Out { time_ns, bits, buf };
    match planned {
        Planned::Trades { long, entries } => trades(to, *long, entries),
        Planned::Volume { long, entries } => volume(to, *long, entries),
        Planned::TopOrders { security_id, top } => top_orders(to, *security_id, top),
        Planned::OrderUpdates { security_id, updates } => order_updates(to, *security_id, updates),
        Planned::Book { long, entries, .. } => book(to, *long, entries),
        Planned::Statistics { long, entries } => statistics(to, *long, entries),
        Planned::Settlement { security_id, rpt_seq, price_e9 } => {
            let mut message = begin!(MdIncrementalRefreshDailyStatistics49Encoder, to);
            message
                .md_entries()?
                .push()?
                .md_entry_px(Price9(*price_e9))
                .security_id(*security_id)
                .rpt_seq(*rpt_seq)
                .settl_price_type(SettlPriceType::FINAL_DAILY)
                .md_update_action(MdUpdateAction::NEW)
                .md_entry_type(MdEntryTypeDailyStatistics::SETTLEMENT_PRICE);
            message.finish()
        }
        Planned::Limits { security_id, rpt_seq, high_e9, low_e9, variation_e9 } => {
            let mut message = begin!(MdIncrementalRefreshLimitsBanding50Encoder, to);
            message
                .md_entries()?
                .push()?
                .high_limit_price(Price9(*high_e9))
                .low_limit_price(Price9(*low_e9))
                .max_price_variation(Price9(*variation_e9))
                .security_id(*security_id)
                .rpt_seq(*rpt_seq);
            message.finish()
        }
        Planned::Status { security_id, group, asset, status } => {
            let mut message = begin!(SecurityStatus30Encoder, to);
            message
                .security_group(group)
                .asset(asset)
                .security_id(*security_id)
                .security_trading_status(*status)
                .halt_reason(HaltReason::GROUP_SCHEDULE)
                .security_trading_event(SecurityTradingEvent::NO_EVENT);
            message.finish()
        }
        Planned::Workup { security_id, price_e9, link } => {
            let mut message = begin!(SecurityStatusWorkup60Encoder, to);
            message
                .md_entry_px(price_e9.map(Price9))
                .security_id(*security_id)
                .trade_link_id(*link)
                .security_trading_status(WorkupTradingStatus::READY_TO_TRADE)
                .halt_reason(HaltReason::GROUP_SCHEDULE)
                .security_trading_event(SecurityTradingEvent::END_OF_WORKUP);
            message.finish()
        }
        Planned::QuoteRequest { security_id, symbol, number } => {
            let mut message = begin!(QuoteRequest39Encoder, to);
            message.quote_req_id(number.to_string());
            message
                .related_sym()?
                .push()?
                .symbol(symbol)
                .security_id(*security_id)
                .order_qty(10)
                .quote_type(1);
            message.finish()
        }
        Planned::Definition { message } => {
            let (needed, room) = (message.len(), to.buf.len());
            let place = to.buf.get_mut(..needed).ok_or(EncodeError::Full { needed, room })?;
            place.copy_from_slice(message);
            Ok(message.len())
        }
        Planned::Reset { channel_id } => {
            let mut message = begin!(ChannelReset4Encoder, to);
            message.md_entries()?.push()?.appl_id(*channel_id as i16);
            message.finish()
        }
    }
}

fn trades(to: Out<'_>, long: bool, entries: &[TradeEntry]) -> Result<usize, EncodeError> {
    macro_rules! trades {
        ($encoder:ident, $quantity:expr) => {{
            let mut message = begin!($encoder, to);
            let mut group = message.md_entries()?;
            for trade in entries {
                let side = if trade.buy { AggressorSide::BUY } else { AggressorSide::SELL };
                group
                    .push()?
                    .md_entry_px(Price9(trade.price_e9))
                    .md_entry_size($quantity(trade.quantity))
                    .security_id(trade.security_id)
                    .rpt_seq(trade.rpt_seq)
                    .number_of_orders(2)
                    .aggressor_side(side)
                    .md_update_action(MdUpdateAction::NEW)
                    .md_trade_entry_id(trade.trade_id);
            }
            let mut group = message.order_id_entries()?;
            for trade in entries {
                group.push()?.order_id(trade.aggressor).last_qty(int(trade.quantity));
                group.push()?.order_id(trade.resting).last_qty(int(trade.quantity));
            }
            message.finish()
        }};
    }
    if long {
        trades!(MdIncrementalRefreshTradeSummaryLongQty65Encoder, |quantity: u64| quantity)
    } else {
        trades!(MdIncrementalRefreshTradeSummary48Encoder, int)
    }
}

fn volume(to: Out<'_>, long: bool, entries: &[(i32, u32, u64)]) -> Result<usize, EncodeError> {
    macro_rules! volume {
        ($encoder:ident, $quantity:expr) => {{
            let mut message = begin!($encoder, to);
            let mut group = message.md_entries()?;
            for (security_id, rpt_seq, volume) in entries {
                group
                    .push()?
                    .md_entry_size($quantity(*volume))
                    .security_id(*security_id)
                    .rpt_seq(*rpt_seq)
                    .md_update_action(MdUpdateAction::NEW);
            }
            message.finish()
        }};
    }
    if long {
        volume!(MdIncrementalRefreshVolumeLongQty66Encoder, |quantity: u64| quantity)
    } else {
        volume!(MdIncrementalRefreshVolume37Encoder, int)
    }
}

fn top_orders(to: Out<'_>, security_id: i32, top: &[Vec<Order>; 2]) -> Result<usize, EncodeError> {
    let mut message = begin!(SnapshotRefreshTopOrders59Encoder, to);
    message.security_id(security_id);
    let mut group = message.md_entries()?;
    for (side, order) in interleaved(top) {
        group
            .push()?
            .order_id(order.id)
            .md_order_priority(order.priority)
            .md_entry_px(Price9(order.price_e9))
            .md_display_qty(int(order.quantity.into()))
            .md_entry_type(side_type(side, false));
    }
    message.finish()
}

fn order_updates(
    to: Out<'_>,
    security_id: i32,
    updates: &[(MdUpdateAction, usize, Order)],
) -> Result<usize, EncodeError> {
    let mut message = begin!(MdIncrementalRefreshOrderBook47Encoder, to);
    let mut group = message.md_entries()?;
    for (action, side, order) in updates {
        group
            .push()?
            .order_id(order.id)
            .md_order_priority(order.priority)
            .md_entry_px(Price9(order.price_e9))
            .md_display_qty(int(order.quantity.into()))
            .security_id(security_id)
            .md_update_action(*action)
            .md_entry_type(side_type(*side, false));
    }
    message.finish()
}

fn book(to: Out<'_>, long: bool, entries: &[BookEntry]) -> Result<usize, EncodeError> {
    macro_rules! book {
        ($encoder:ident, $quantity:expr) => {{
            let mut message = begin!($encoder, to);
            let mut group = message.md_entries()?;
            for BookEntry { security_id, rpt_seq, kind, edit } in entries {
                group
                    .push()?
                    .md_entry_px(Price9(edit.value.price_e9))
                    .md_entry_size($quantity(edit.value.quantity))
                    .security_id(*security_id)
                    .rpt_seq(*rpt_seq)
                    .number_of_orders(orders(&edit.value))
                    .md_price_level(edit.level)
                    .md_update_action(action(edit.action))
                    .md_entry_type(*kind);
            }
            message.finish()
        }};
    }
    if long {
        book!(MdIncrementalRefreshBookLongQty64Encoder, |quantity: u64| quantity)
    } else {
        book!(MdIncrementalRefreshBook46Encoder, int)
    }
}

fn statistics(to: Out<'_>, long: bool, entries: &[StatEntry]) -> Result<usize, EncodeError> {
    macro_rules! statistics {
        ($encoder:ident) => {{
            let mut message = begin!($encoder, to);
            let mut group = message.md_entries()?;
            for StatEntry { security_id, rpt_seq, kind, price_e9 } in entries {
                group
                    .push()?
                    .md_entry_px(Price9(*price_e9))
                    .security_id(*security_id)
                    .rpt_seq(*rpt_seq)
                    .open_close_settl_flag(OpenCloseSettlFlag::DAILY_OPEN_PRICE)
                    .md_update_action(MdUpdateAction::NEW)
                    .md_entry_type(*kind);
            }
            message.finish()
        }};
    }
    if long {
        statistics!(MdIncrementalRefreshSessionStatisticsLongQty67Encoder)
    } else {
        statistics!(MdIncrementalRefreshSessionStatistics51Encoder)
    }
}
