//! The messages of the incremental feed.

use crate::book::{BookSide, Level, NULL_I32, entry_type};
use crate::channel::Channel;
use crate::counters::Reason;
use crate::definition::is_definition;
use crate::instrument::TradingStatus;
use crate::listener::*;
use crate::orders::Order;
use crate::pending::Kind;
use crate::read::{Nanos, Quantity};
use crate::statistics::{Limits, Statistic, StatisticKind};
use barewire_sbe::mdp3::*;
use barewire_sbe::{DecodeError, Message, MessageView};

/// The side of a book entry type.
#[inline]
pub(crate) fn side_of(kind: u8) -> Option<BookSide> {
    match kind {
        entry_type::BID | entry_type::IMPLIED_BID | entry_type::MARKET_BEST_BID => Some(BookSide::Bid),
        entry_type::OFFER | entry_type::IMPLIED_OFFER | entry_type::MARKET_BEST_OFFER => {
            Some(BookSide::Offer)
        }
        _ => None,
    }
}

/// Entries of a book message.
macro_rules! book {
    ($channel:expr, $packet:expr, $view:expr, $listener:expr, $tradeable:expr) => {{
        let (view, indicator) = ($view, $view.match_event_indicator());
        for e in view.md_entries() {
            let entry = BookEntry {
                level: Level {
                    price: e.md_entry_px_raw().nanos(),
                    quantity: e.md_entry_size_raw().or_zero(),
                    orders: e.number_of_orders_raw(),
                    tradeable: $tradeable(&e),
                },
                rpt_seq: e.rpt_seq(),
                price_level: e.md_price_level(),
                action: e.md_update_action().0,
                entry_type: e.md_entry_type().0,
            };
            $channel.book_entry(e.security_id(), &entry, indicator.end_of_event(), $listener);
        }
        if $channel.store.keep_orders && !view.order_id_entries().is_empty() {
            for o in view.order_id_entries() {
                // ReferenceID counts the entries of the first group from 1.
                let reference = usize::from(o.reference_id_raw()).wrapping_sub(1);
                let Some(e) = view.md_entries().get(reference) else {
                    $channel.store.counters.drop(Reason::BadEntry);
                    continue;
                };
                let order = Order {
                    id: o.order_id(),
                    priority: o.md_order_priority_raw(),
                    price: e.md_entry_px_raw().nanos(),
                    quantity: o.md_display_qty_raw().or_zero(),
                };
                let (kind, action) = (e.md_entry_type().0, o.order_update_action().0);
                $channel.order_update(e.security_id(), kind, action, order);
            }
        }
        $channel.message_end($packet, indicator, view.transact_time(), $listener);
    }};
}

/// Entries of a message of orders alone.
macro_rules! orders {
    ($channel:expr, $packet:expr, $view:expr, $listener:expr) => {{
        let view = $view;
        if $channel.store.keep_orders {
            for e in view.md_entries() {
                let order = Order {
                    id: e.order_id_raw(),
                    priority: e.md_order_priority_raw(),
                    price: e.md_entry_px_raw().nanos(),
                    quantity: e.md_display_qty_raw().or_zero(),
                };
                $channel.order_update(e.security_id(), e.md_entry_type().0, e.md_update_action().0, order);
            }
        }
        $channel.message_end($packet, view.match_event_indicator(), view.transact_time(), $listener);
    }};
}

/// Entries of a trade message `$view`: how many orders an entry counts, and what its trade is called.
macro_rules! trades {
    ($view:ident: $channel:expr, $packet:expr, $message:expr, $listener:expr, |$e:ident| ($orders:expr, $id:expr)) => {{
        let view = $view::decode($message)?;
        for $e in view.md_entries() {
            let trade = Trade {
                price: $e.md_entry_px().nanos(),
                quantity: $e.md_entry_size().or_zero(),
                orders: $orders,
                aggressor: $e.aggressor_side().0,
                action: $e.md_update_action().0,
                trade_id: $id,
                rpt_seq: $e.rpt_seq(),
                transact_time_ns: view.transact_time(),
            };
            $channel.trade_entry($e.security_id(), &trade, $listener);
        }
        $channel.message_end($packet, view.match_event_indicator(), view.transact_time(), $listener);
    }};
}

/// Entries of a statistics or volume message `$view`: the kind, price, quantity, flag, price type and date of an entry.
macro_rules! statistics {
    ($view:ident: $channel:expr, $packet:expr, $message:expr, $listener:expr, |$e:ident| $values:expr) => {{
        let view = $view::decode($message)?;
        for $e in view.md_entries() {
            let (kind, price, quantity, flag, price_type, date) = $values;
            let kind = StatisticKind::of(kind, flag);
            let value = kind.map(|kind| Statistic {
                kind,
                price,
                quantity,
                open_close_flag: flag,
                settl_price_type: price_type,
                reference_date: date,
                rpt_seq: $e.rpt_seq(),
            });
            $channel.statistic_entry(
                $e.security_id(),
                $e.rpt_seq(),
                $e.md_update_action().0,
                value,
                $listener,
            );
        }
        $channel.message_end($packet, view.match_event_indicator(), view.transact_time(), $listener);
    }};
}

/// Entries of a volume message.
macro_rules! volume {
    ($view:ident: $($context:expr),*) => {
        statistics!($view: $($context),*, |e| (b'e', NO_PRICE, e.md_entry_size().some(), NO_FLAG, NO_TYPE, NO_DATE))
    };
}

/// Entries of a message of daily statistics.
macro_rules! daily_statistics {
    ($view:ident: $($context:expr),*) => {
        statistics!($view: $($context),*, |e| {
            let (price, size) = (e.md_entry_px_raw().nanos(), e.md_entry_size_raw().some());
            (e.md_entry_type().0, price, size, NO_FLAG, e.settl_price_type().0, e.trading_reference_date_raw())
        })
    };
}

/// Entries of a message of a session's statistics.
macro_rules! session_statistics {
    ($view:ident: $($context:expr),*) => {
        statistics!($view: $($context),*, |e| {
            let (price, size) = (e.md_entry_px().nanos(), e.md_entry_size_raw().some());
            (e.md_entry_type().0, price, size, e.open_close_settl_flag().0, NO_TYPE, NO_DATE)
        })
    };
}

/// Entries of a limits message.
macro_rules! limits {
    ($channel:expr, $packet:expr, $view:expr, $listener:expr) => {{
        let view = $view;
        for e in view.md_entries() {
            let limits = Limits {
                high: e.high_limit_price_raw().nanos(),
                low: e.low_limit_price_raw().nanos(),
                max_variation: e.max_price_variation_raw().nanos(),
                rpt_seq: e.rpt_seq(),
            };
            $channel.limits_entry(e.security_id(), &limits, $listener);
        }
        $channel.message_end($packet, view.match_event_indicator(), view.transact_time(), $listener);
    }};
}

const NO_PRICE: i64 = crate::book::NULL_PRICE;
const NO_FLAG: u8 = u8::MAX;
const NO_TYPE: u8 = 128;
const NO_DATE: u16 = u16::MAX;

impl Channel {
    /// Processes one message of an incremental packet that has been checked.
    #[inline]
    pub(crate) fn incremental_message<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        message: &Message<'_>,
        listener: &mut L,
    ) {
        let result = match MdIncrementalRefreshBook46::decode(message) {
            Ok(view) => {
                book!(self, packet, &view, listener, |e: &md_incremental_refresh_book46::MdEntry<'_>| e
                    .tradeable_size_raw());
                Ok(())
            }
            Err(DecodeError::WrongTemplate { .. }) => self.other_message(packet, message, listener),
            Err(e) => Err(e),
        };
        if let Err(error) = result {
            self.message_failed(packet, error, listener);
        }
    }

    /// Counts a message that was not used. Faulty ones do not come here: their packets were refused.
    #[cold]
    pub(crate) fn message_failed<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        error: DecodeError,
        listener: &mut L,
    ) {
        let reason = match error {
            DecodeError::ForeignSchema { .. } => Reason::ForeignSchema,
            DecodeError::UnknownTemplate { .. } => Reason::UnknownTemplate,
            DecodeError::WrongTemplate { .. } => Reason::MisplacedTemplate,
            _ => Reason::TruncatedMessage,
        };
        self.drop(packet.line, reason, listener);
    }

    fn other_message<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        message: &Message<'_>,
        listener: &mut L,
    ) -> Result<(), DecodeError> {
        use template::*;
        let no_tradeable = NULL_I32;
        match message.template_id {
            ADMIN_HEARTBEAT12 => {}
            MD_INCREMENTAL_REFRESH_BOOK32 => {
                let view = MdIncrementalRefreshBook32::decode(message)?;
                book!(self, packet, &view, listener, |_: &_| no_tradeable);
            }
            MD_INCREMENTAL_REFRESH_BOOK_LONG_QTY64 => {
                let view = MdIncrementalRefreshBookLongQty64::decode(message)?;
                book!(self, packet, &view, listener, |_: &_| no_tradeable);
            }
            MD_INCREMENTAL_REFRESH_ORDER_BOOK43 => {
                orders!(self, packet, MdIncrementalRefreshOrderBook43::decode(message)?, listener);
            }
            MD_INCREMENTAL_REFRESH_ORDER_BOOK47 => {
                orders!(self, packet, MdIncrementalRefreshOrderBook47::decode(message)?, listener);
            }
            SNAPSHOT_REFRESH_TOP_ORDERS59 => {
                self.top_orders(packet, &SnapshotRefreshTopOrders59::decode(message)?, listener);
            }
            MD_INCREMENTAL_REFRESH_TRADE36
            | MD_INCREMENTAL_REFRESH_TRADE_SUMMARY42
            | MD_INCREMENTAL_REFRESH_TRADE_SUMMARY48
            | MD_INCREMENTAL_REFRESH_TRADE_SUMMARY_LONG_QTY65 => {
                self.trade_message(packet, message, listener)?;
            }
            MD_INCREMENTAL_REFRESH_LIMITS_BANDING34 => {
                limits!(self, packet, MdIncrementalRefreshLimitsBanding34::decode(message)?, listener);
            }
            MD_INCREMENTAL_REFRESH_LIMITS_BANDING50 => {
                limits!(self, packet, MdIncrementalRefreshLimitsBanding50::decode(message)?, listener);
            }
            SECURITY_STATUS30 => self.status(packet, &SecurityStatus30::decode(message)?, listener),
            SECURITY_STATUS_WORKUP60 => {
                self.workup_status(packet, &SecurityStatusWorkup60::decode(message)?, listener);
            }
            QUOTE_REQUEST39 => self.quote_request(packet, &QuoteRequest39::decode(message)?, listener),
            COLLATERAL_MARKET_VALUE62 => {
                // No book and no instrument of ours: `on_message` has it.
                let view = CollateralMarketValue62::decode(message)?;
                self.message_end(packet, view.match_event_indicator(), view.transact_time(), listener);
            }
            CHANNEL_RESET4 => self.channel_reset(packet, &ChannelReset4::decode(message)?, listener),
            id if is_definition(id) => {
                let (indicator, _) = self.definition(packet, message, listener)?;
                self.message_end(packet, indicator, 0, listener);
            }
            ADMIN_LOGIN15
            | ADMIN_LOGOUT16
            | SNAPSHOT_FULL_REFRESH38
            | SNAPSHOT_FULL_REFRESH_ORDER_BOOK44
            | SNAPSHOT_FULL_REFRESH52
            | SNAPSHOT_FULL_REFRESH_ORDER_BOOK53
            | SNAPSHOT_FULL_REFRESH_TCP61
            | SNAPSHOT_FULL_REFRESH_TCP_LONG_QTY68
            | SNAPSHOT_FULL_REFRESH_LONG_QTY69 => {
                return Err(DecodeError::WrongTemplate { expected: 0, found: message.template_id });
            }
            _ => self.statistics_message(packet, message, listener)?,
        }
        Ok(())
    }

    fn trade_message<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        message: &Message<'_>,
        listener: &mut L,
    ) -> Result<(), DecodeError> {
        match message.template_id {
            template::MD_INCREMENTAL_REFRESH_TRADE36 => {
                trades!(MdIncrementalRefreshTrade36: self, packet, message, listener, |e| (
                    e.number_of_orders_raw(),
                    u32::try_from(e.trade_id()).ok()
                ));
            }
            template::MD_INCREMENTAL_REFRESH_TRADE_SUMMARY42 => {
                trades!(MdIncrementalRefreshTradeSummary42: self, packet, message, listener, |e| (
                    e.number_of_orders_raw(),
                    e.md_trade_entry_id()
                ));
            }
            template::MD_INCREMENTAL_REFRESH_TRADE_SUMMARY48 => {
                trades!(MdIncrementalRefreshTradeSummary48: self, packet, message, listener, |e| (
                    e.number_of_orders(),
                    e.md_trade_entry_id()
                ));
            }
            _ => {
                trades!(MdIncrementalRefreshTradeSummaryLongQty65: self, packet, message, listener, |e| (
                    e.number_of_orders(),
                    Some(e.md_trade_entry_id())
                ));
            }
        }
        Ok(())
    }

    fn statistics_message<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        message: &Message<'_>,
        listener: &mut L,
    ) -> Result<(), DecodeError> {
        use template::*;
        match message.template_id {
            MD_INCREMENTAL_REFRESH_VOLUME37 => {
                volume!(MdIncrementalRefreshVolume37: self, packet, message, listener);
            }
            MD_INCREMENTAL_REFRESH_VOLUME_LONG_QTY66 => {
                volume!(MdIncrementalRefreshVolumeLongQty66: self, packet, message, listener);
            }
            MD_INCREMENTAL_REFRESH_DAILY_STATISTICS33 => {
                daily_statistics!(MdIncrementalRefreshDailyStatistics33: self, packet, message, listener);
            }
            MD_INCREMENTAL_REFRESH_DAILY_STATISTICS49 => {
                daily_statistics!(MdIncrementalRefreshDailyStatistics49: self, packet, message, listener);
            }
            MD_INCREMENTAL_REFRESH_SESSION_STATISTICS35 => {
                session_statistics!(MdIncrementalRefreshSessionStatistics35: self, packet, message, listener);
            }
            MD_INCREMENTAL_REFRESH_SESSION_STATISTICS51 => {
                session_statistics!(MdIncrementalRefreshSessionStatistics51: self, packet, message, listener);
            }
            MD_INCREMENTAL_REFRESH_SESSION_STATISTICS_LONG_QTY67 => {
                session_statistics!(MdIncrementalRefreshSessionStatisticsLongQty67: self, packet, message, listener);
            }
            template_id => return Err(DecodeError::UnknownTemplate { template_id }),
        }
        Ok(())
    }

    /// A workup begins or ends.
    fn workup_status<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        view: &SecurityStatusWorkup60<'_>,
        listener: &mut L,
    ) {
        let status = SecurityStatus {
            scope: StatusScope::Security,
            status: TradingStatus(view.security_trading_status().0),
            halt_reason: view.halt_reason().0,
            event: view.security_trading_event().0,
            transact_time_ns: view.transact_time(),
        };
        if let Some(at) = self.store.find(view.security_id()) {
            self.set_status(at, &status, listener);
        }
        self.message_end(packet, view.match_event_indicator(), view.transact_time(), listener);
    }

    /// After a message's entries: the event ends, or goes on.
    #[inline]
    fn message_end<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        indicator: MatchEventIndicator,
        transact_time_ns: u64,
        listener: &mut L,
    ) {
        if indicator.end_of_event() {
            let mut time_ns = transact_time_ns;
            if time_ns == 0 && self.store.open_since.is_some() {
                // A definition has no TransactTime: the event's is that of the messages before.
                time_ns = self.store.event_time_ns;
            }
            self.store.end_event(time_ns, listener);
            listener.on_end_of_event(packet, time_ns);
        } else {
            if self.store.open_since.is_none() {
                (self.store.open_since, self.store.event_time_ns) = (Some(packet.seq), 0);
            }
            self.store.event_time_ns = self.store.event_time_ns.max(transact_time_ns);
        }
    }

    #[inline]
    fn book_entry<L: Listener>(&mut self, id: i32, entry: &BookEntry, ends_event: bool, listener: &mut L) {
        let Some(at) = self.store.find(id) else { return };
        if side_of(entry.entry_type).is_none() && entry.entry_type != entry_type::BOOK_RESET {
            self.store.counters.drop(Reason::BadEntry);
            self.store.step(at, entry.rpt_seq, listener);
            return;
        }
        self.store.level_entry(at, entry, ends_event, listener);
    }

    fn order_update(&mut self, id: i32, kind: u8, action: u8, order: Order) {
        let Some(at) = self.store.find(id) else { return };
        match side_of(kind) {
            Some(side) => self.store.order_entry(at, Kind::OrderUpdate, side, action, order),
            None => self.store.counters.drop(Reason::BadEntry),
        }
    }

    fn top_orders<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        view: &SnapshotRefreshTopOrders59<'_>,
        listener: &mut L,
    ) {
        if self.store.keep_orders
            && let Some(at) = self.store.find(view.security_id())
        {
            let none = Order { id: 0, priority: 0, price: 0, quantity: 0 };
            self.store.order_entry(at, Kind::OrdersBegin, BookSide::Bid, 0, none);
            for e in view.md_entries() {
                let order = Order {
                    id: e.order_id(),
                    priority: e.md_order_priority(),
                    price: e.md_entry_px().nanos(),
                    quantity: e.md_display_qty().or_zero(),
                };
                match side_of(e.md_entry_type().0) {
                    Some(side) => self.store.order_entry(at, Kind::Order, side, 0, order),
                    None => self.store.counters.drop(Reason::BadEntry),
                }
            }
        }
        self.message_end(packet, view.match_event_indicator(), view.transact_time(), listener);
    }

    fn trade_entry<L: Listener>(&mut self, id: i32, trade: &Trade, listener: &mut L) {
        let Some(at) = self.store.find(id) else { return };
        // A trade is news even where a snapshot has counted it.
        if self.store.step(at, trade.rpt_seq, listener) && trade.action < 2 {
            self.store.statistics[at].set(Statistic {
                kind: StatisticKind::LastTrade,
                price: trade.price,
                quantity: Some(trade.quantity),
                open_close_flag: NO_FLAG,
                settl_price_type: NO_TYPE,
                reference_date: NO_DATE,
                rpt_seq: trade.rpt_seq,
            });
        }
        listener.on_trade(&self.store.instruments[at], trade);
    }

    fn statistic_entry<L: Listener>(
        &mut self,
        id: i32,
        rpt_seq: u32,
        action: u8,
        value: Option<Statistic>,
        listener: &mut L,
    ) {
        let Some(at) = self.store.find(id) else { return };
        if !self.store.step(at, rpt_seq, listener) {
            return;
        }
        let Some(value) = value else {
            self.store.counters.drop(Reason::BadEntry);
            return;
        };
        match action {
            2..=4 => self.store.statistics[at].remove(value.kind),
            _ => self.store.statistics[at].set(value),
        }
        listener.on_statistic(&self.store.instruments[at], &value);
    }

    fn limits_entry<L: Listener>(&mut self, id: i32, limits: &Limits, listener: &mut L) {
        let Some(at) = self.store.find(id) else { return };
        if self.store.step(at, limits.rpt_seq, listener) {
            self.store.statistics[at].set_limits(*limits);
            listener.on_limits(&self.store.instruments[at], limits);
        }
    }

    fn status<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        view: &SecurityStatus30<'_>,
        listener: &mut L,
    ) {
        let mut status = SecurityStatus {
            scope: StatusScope::Security,
            status: TradingStatus(view.security_trading_status().0),
            halt_reason: view.halt_reason().0,
            event: view.security_trading_event().0,
            transact_time_ns: view.transact_time(),
        };
        if let Some(id) = view.security_id() {
            if let Some(at) = self.store.find(id) {
                self.set_status(at, &status, listener);
            }
        } else {
            let (group, asset) = (view.security_group().as_bytes(), view.asset().as_bytes());
            status.scope = if asset.is_empty() { StatusScope::Group } else { StatusScope::Asset };
            let named = |want: &[u8], has: &str| want.is_empty() || want == has.as_bytes();
            for at in 0..self.store.slots.len() {
                let it = &self.store.instruments[at];
                let meant = it.defined && named(group, it.group.as_str()) && named(asset, it.asset.as_str());
                if meant && self.store.slots[at].state != crate::store::State::Free {
                    self.set_status(at, &status, listener);
                }
            }
        }
        self.message_end(packet, view.match_event_indicator(), view.transact_time(), listener);
    }

    fn set_status<L: Listener>(&mut self, at: usize, status: &SecurityStatus, listener: &mut L) {
        let snap_seq = self.store.slots[at].snap_seq;
        let in_snapshot = self.store.seq <= snap_seq;
        if in_snapshot && self.store.learned[at].status_seq == snap_seq {
            // The snapshot is ahead of the packets, and its status and statistics are newer.
            self.store.counters.drop(Reason::InSnapshot);
            return;
        }
        if !matches!(status.status, TradingStatus::NO_CHANGE | TradingStatus::NULL) {
            self.store.instruments[at].trading_status = status.status;
        }
        if status.event == SecurityStatus::RESET_STATISTICS && !in_snapshot {
            self.store.statistics[at].reset(self.store.seq);
        }
        listener.on_status(&self.store.instruments[at], status);
    }

    fn quote_request<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        view: &QuoteRequest39<'_>,
        listener: &mut L,
    ) {
        for e in view.related_sym() {
            let Some(at) = self.store.find(e.security_id()) else { continue };
            let request = QuoteRequest {
                quantity: e.order_qty(),
                quote_type: e.quote_type(),
                side: e.side(),
                transact_time_ns: view.transact_time(),
            };
            listener.on_quote_request(&self.store.instruments[at], &request);
        }
        self.message_end(packet, view.match_event_indicator(), view.transact_time(), listener);
    }

    fn channel_reset<L: Listener>(
        &mut self,
        packet: &PacketInfo<'_>,
        view: &ChannelReset4<'_>,
        listener: &mut L,
    ) {
        let entries = view.md_entries();
        let ours = match self.config.channel_id {
            Some(id) if !entries.is_empty() => entries.iter().any(|e| e.appl_id().is_none_or(|a| a == id)),
            _ => true,
        };
        if ours {
            self.store.clear_all(packet.seq);
            self.store.counters.resets += 1;
            self.snapshots_restart();
            listener.on_reset(Reset::Channel);
        }
        self.message_end(packet, view.match_event_indicator(), view.transact_time(), listener);
    }
}
