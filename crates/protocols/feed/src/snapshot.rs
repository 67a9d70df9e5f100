//! The snapshot loop: books (52, 69, and 38 before version 9) and books by order (53, 44), instrument after instrument.

use crate::book::{BookSide, Level, NULL_I32, action, entry_type};
use crate::channel::Channel;
use crate::continuity::SnapshotUse;
use crate::counters::Reason;
use crate::incremental::side_of;
use crate::instrument::TradingStatus;
use crate::line::Feed;
use crate::listener::{Listener, PacketInfo};
use crate::loops::Part;
use crate::orders::{Order, OrderBook};
use crate::read::{Nanos, Quantity};
use crate::statistics::{Limits, Statistic, StatisticKind};
use barewire_base::Instant;
use barewire_sbe::mdp3::*;
use barewire_sbe::{DecodeError, MessageView};

/// A snapshot that claims to be so far ahead of the packets is not believed.
const MAX_AHEAD: u32 = 1 << 16;

/// What the head of a snapshot says.
#[derive(Clone, Copy)]
struct Head {
    security_id: i32,
    last_seq: u32,
    rpt_seq: u32,
    total: u32,
    transact_time_ns: u64,
    status: TradingStatus,
    limits: Limits,
}

/// One entry of a snapshot.
#[derive(Clone, Copy)]
struct Entry {
    kind: u8,
    level: u8,
    content: Level,
    quantity: Option<i64>,
    flag: u8,
    price_type: u8,
    date: u16,
}

/// What the head of a snapshot of a book by order says.
#[derive(Clone, Copy)]
struct OrderHead {
    security_id: i32,
    last_seq: u32,
    total: u32,
    chunks: u32,
    chunk: u32,
}

/// A book by order that comes in chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunks {
    security_id: i32,
    last_seq: u32,
    next: u32,
}

/// Packets that a snapshot knows of and that have not come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Up to which.
    pub(crate) seq: u32,
    /// How many snapshots say so.
    pub(crate) count: u32,
    /// Until when they are waited for.
    pub(crate) at: Instant,
    /// SendingTime of the first of those snapshots.
    pub(crate) sent_ns: u64,
}

macro_rules! head {
    ($view:expr) => {
        Head {
            security_id: $view.security_id(),
            last_seq: $view.last_msg_seq_num_processed(),
            rpt_seq: $view.rpt_seq(),
            total: $view.tot_num_reports(),
            transact_time_ns: $view.transact_time(),
            status: TradingStatus($view.md_security_trading_status().0),
            limits: Limits {
                high: $view.high_limit_price_raw().nanos(),
                low: $view.low_limit_price_raw().nanos(),
                max_variation: $view.max_price_variation_raw().nanos(),
                rpt_seq: $view.rpt_seq(),
            },
        }
    };
}

macro_rules! entry {
    ($e:expr, $price_type:expr, $date:expr, $level:expr) => {
        Entry {
            kind: $e.md_entry_type().0,
            level: $level,
            content: Level {
                price: $e.md_entry_px_raw().nanos(),
                quantity: $e.md_entry_size_raw().or_zero(),
                orders: $e.number_of_orders_raw(),
                tradeable: NULL_I32,
            },
            quantity: $e.md_entry_size_raw().some(),
            flag: $e.open_close_settl_flag().0,
            price_type: $price_type,
            date: $date,
        }
    };
}

/// Orders of a chunk.
macro_rules! orders {
    ($channel:expr, $from:expr, $view:expr, $listener:expr) => {{
        let view = $view;
        let orders = view.md_entries().iter().map(|e| {
            let order = Order {
                id: e.order_id(),
                priority: e.md_order_priority_raw(),
                price: e.md_entry_px().nanos(),
                quantity: e.md_display_qty().or_zero(),
            };
            (e.md_entry_type().0, order)
        });
        let head = OrderHead {
            security_id: view.security_id(),
            last_seq: view.last_msg_seq_num_processed(),
            total: view.tot_num_reports(),
            chunks: view.no_chunks(),
            chunk: view.current_chunk(),
        };
        $channel.order_snapshot($from, head, orders, $listener);
    }};
}

impl Channel {
    /// A packet of the snapshot loop that has been checked.
    pub(crate) fn snapshot_packet<L: Listener>(
        &mut self,
        now: Instant,
        packet: &PacketInfo<'_>,
        listener: &mut L,
    ) {
        if packet.sending_time_ns < self.reset_time_ns {
            self.drop(packet.line, Reason::OldSnapshot, listener);
            return;
        }
        let of_orders = packet.line.feed == Feed::OrderSnapshot;
        let round = if of_orders { &mut self.order_books } else { &mut self.books };
        let part = round.tracker.packet(now, packet.seq, packet.sending_time_ns);
        match part {
            Part::Old => {
                self.duplicate(packet, listener);
                return;
            }
            Part::NewLoop => {
                if let Some(rounds) = round.passes() {
                    if of_orders {
                        self.order_loop_completed(rounds, listener);
                    } else {
                        self.loop_completed(rounds, listener);
                    }
                }
                let round = if of_orders { &mut self.order_books } else { &mut self.books };
                round.begin();
                if of_orders == self.store.order_loop {
                    self.chunks = None;
                }
            }
            Part::New | Part::Stray => {}
        }
        listener.on_packet(packet);
        let when = (now, packet.sending_time_ns);
        self.store.sent_ns = packet.sending_time_ns;
        for message in self.messages(packet) {
            listener.on_message(packet, &message);
            self.store.counters.messages += 1;
            let result = (|| {
                let head = match message.template_id {
                    template::ADMIN_HEARTBEAT12 => return Ok(()),
                    SnapshotFullRefresh52::TEMPLATE_ID => {
                        let view = SnapshotFullRefresh52::decode(&message)?;
                        let entries = view.md_entries().iter().map(|e| {
                            let level = u8::try_from(e.md_price_level_raw()).unwrap_or(0);
                            entry!(e, e.settl_price_type().0, e.trading_reference_date_raw(), level)
                        });
                        self.snapshot(when, head!(view), entries, listener)
                    }
                    SnapshotFullRefreshLongQty69::TEMPLATE_ID => {
                        let view = SnapshotFullRefreshLongQty69::decode(&message)?;
                        let entries = view
                            .md_entries()
                            .iter()
                            .map(|e| entry!(e, 128, u16::MAX, e.md_price_level_raw()));
                        self.snapshot(when, head!(view), entries, listener)
                    }
                    SnapshotFullRefresh38::TEMPLATE_ID => {
                        let view = SnapshotFullRefresh38::decode(&message)?;
                        let entries = view.md_entries().iter().map(|e| {
                            let level = u8::try_from(e.md_price_level_raw()).unwrap_or(0);
                            entry!(e, e.settl_price_type().0, e.trading_reference_date_raw(), level)
                        });
                        self.snapshot(when, head!(view), entries, listener)
                    }
                    SnapshotFullRefreshOrderBook53::TEMPLATE_ID => {
                        let view = SnapshotFullRefreshOrderBook53::decode(&message)?;
                        orders!(self, (when, of_orders, part), view, listener);
                        return Ok(());
                    }
                    SnapshotFullRefreshOrderBook44::TEMPLATE_ID => {
                        let view = SnapshotFullRefreshOrderBook44::decode(&message)?;
                        orders!(self, (when, of_orders, part), view, listener);
                        return Ok(());
                    }
                    found => return Err(DecodeError::WrongTemplate { expected: 0, found }),
                };
                self.loop_report(head, part);
                Ok(())
            })();
            if let Err(error) = result {
                self.message_failed(packet, error, listener);
            }
        }
        if self.books.completes() {
            self.loop_completed(1, listener);
        }
        if self.order_books.completes() {
            self.order_loop_completed(1, listener);
        }
        listener.on_end_of_packet(packet);
        self.report_recovery(listener);
    }

    /// Counts an instrument of the loop, once.
    fn loop_report(&mut self, head: Head, part: Part) {
        if part == Part::Stray {
            return;
        }
        let round = &mut self.books;
        let before = match self.store.table.get(head.security_id) {
            Some(at) => std::mem::replace(&mut self.store.slots[at].loop_mark, round.mark),
            None => round.unlisted.mark(head.security_id, round.mark),
        };
        round.report(before, head.last_seq, head.total, 1);
    }

    /// What was heard of the running loops does not count any more.
    pub(crate) fn snapshots_restart(&mut self) {
        self.books.restart();
        self.order_books.restart();
        self.chunks = None;
        self.ahead = None;
    }

    /// Every instrument of the loop was heard. One that was not in the last so many rounds of it has an empty book.
    fn loop_completed<L: Listener>(&mut self, rounds: u16, listener: &mut L) {
        self.store.counters.loops_completed += 1;
        let loop_seq = self.books.seq;
        if loop_seq < self.store.lost_seq.max(self.store.reset_seq) {
            return;
        }
        self.books.wanted = false;
        if self.store.settled < self.store.len {
            for at in 0..self.store.slots.len() {
                if self.books.left_out(self.store.slots[at].loop_mark, rounds) {
                    self.store.absent(at, loop_seq, listener);
                }
            }
        }
        if self.store.keep_orders && !self.store.order_loop && self.store.orders_good < self.store.orders_due
        {
            for at in 0..self.store.slots.len() {
                let left_out = |mark| self.books.left_out(mark, rounds);
                if !left_out(self.store.orders[at].mark) || self.store.orders_current(at) {
                    continue;
                }
                if left_out(self.store.slots[at].loop_mark) {
                    self.store.orders_absent(at, loop_seq, listener);
                } else {
                    self.store.orders_unbound(at);
                }
            }
        }
    }

    /// Every instrument of the loop of books by order was heard. One that was not in the last so many rounds of it has no orders.
    fn order_loop_completed<L: Listener>(&mut self, rounds: u16, listener: &mut L) {
        self.store.counters.loops_completed += 1;
        let loop_seq = self.order_books.seq;
        if !self.store.order_loop || loop_seq < self.store.lost_seq.max(self.store.reset_seq) {
            return;
        }
        self.order_books.wanted = false;
        if self.store.orders_good < self.store.orders_due {
            for at in 0..self.store.slots.len() {
                // Where two rounds were taken for one, since the end of the first and the beginning of the second were lost, it may have
                // been in the part of either that was not heard. Then it has levels.
                let empty = self.store.is_settled(at) && self.store.has_no_levels(at);
                if self.order_books.left_out(self.store.orders[at].mark, rounds) && empty {
                    self.store.orders_absent(at, loop_seq, listener);
                }
            }
        }
    }

    /// Whether a snapshot counts by another numbering than the packets: within one, whoever knows of later packets was sent
    /// later.
    fn is_of_other_numbering(&self, sent_ns: u64, last_seq: u32) -> bool {
        self.synced && last_seq > self.last_seq && sent_ns < self.last_time_ns
    }

    /// Whether a snapshot's number of packets is to be believed; notes those that know of packets we have not seen.
    fn believes(&mut self, now: Instant, sent_ns: u64, last_seq: u32) -> bool {
        if !self.synced {
            if last_seq >= self.before_join.0 {
                self.before_join = (last_seq, sent_ns);
            }
            return true;
        }
        if last_seq < self.expected {
            return true;
        }
        if last_seq - self.expected >= MAX_AHEAD || self.is_of_other_numbering(sent_ns, last_seq) {
            self.store.counters.drop(Reason::OldSnapshot);
            return false;
        }
        self.ahead = Some(match self.ahead {
            Some(ahead) if last_seq >= ahead.seq && ahead.seq >= self.expected => {
                Ahead { count: ahead.count + 1, ..ahead }
            }
            _ => Ahead { seq: last_seq, count: 1, at: now + self.config.gap_wait, sent_ns },
        });
        true
    }

    fn snapshot<L: Listener>(
        &mut self,
        (now, sent_ns): (Instant, u64),
        head: Head,
        entries: impl Iterator<Item = Entry>,
        listener: &mut L,
    ) -> Head {
        if !self.believes(now, sent_ns, head.last_seq) {
            return head;
        }
        if self.is_of_deleted(head.security_id, head.last_seq) {
            self.store.counters.drop(Reason::OldSnapshot);
            return head;
        }
        let Some(at) = self.store.find(head.security_id) else { return head };
        match self.store.judge_snapshot(at, head.last_seq, head.rpt_seq) {
            SnapshotUse::Ignore => {
                if !self.store.is_settled(at) {
                    self.store.counters.drop(Reason::OldSnapshot);
                }
            }
            SnapshotUse::Replace => self.replace(at, &head, entries, listener),
        }
        head
    }

    /// Whether a snapshot may be of an instrument that has been deleted since, perhaps by a packet that is lost: it must not
    /// bring it back.
    fn is_of_deleted(&self, id: i32, last_seq: u32) -> bool {
        last_seq < self.store.deleted_seq.max(self.store.lost_seq) && self.store.table.get(id).is_none()
    }

    fn replace<L: Listener>(
        &mut self,
        at: usize,
        head: &Head,
        entries: impl Iterator<Item = Entry>,
        listener: &mut L,
    ) {
        let store = &mut self.store;
        if head.rpt_seq < store.slots[at].last_rpt && head.last_seq >= store.slots[at].confirmed {
            // A reset was lost: values with higher numbers are from before it.
            store.statistics[at].clear();
        }
        store.direct[at].clear();
        store.implied[at].clear();
        let counts = store.statistics[at].begin_snapshot(head.last_seq, head.rpt_seq);
        let mut fits = true;
        for entry in entries {
            let (direct, implied) = (&mut store.direct[at], &mut store.implied[at]);
            let (level, new) = (entry.level, entry.content);
            let result = match entry.kind {
                entry_type::BID => direct.set_level(BookSide::Bid, level, new),
                entry_type::OFFER => direct.set_level(BookSide::Offer, level, new),
                entry_type::IMPLIED_BID => implied.set_level(BookSide::Bid, level, new),
                entry_type::IMPLIED_OFFER => implied.set_level(BookSide::Offer, level, new),
                entry_type::MARKET_BEST_BID => {
                    direct.set_market_best(BookSide::Bid, action::NEW, new);
                    Ok(())
                }
                entry_type::MARKET_BEST_OFFER => {
                    direct.set_market_best(BookSide::Offer, action::NEW, new);
                    Ok(())
                }
                entry_type::BOOK_RESET => Ok(()),
                kind => {
                    let kind = StatisticKind::of(kind, entry.flag);
                    if kind.is_none() && entry.kind != b'g' {
                        store.counters.drop(Reason::BadEntry);
                    }
                    if let Some(kind) = kind.filter(|_| counts) {
                        store.statistics[at].set_from_snapshot(Statistic {
                            kind,
                            price: new.price,
                            quantity: entry.quantity,
                            open_close_flag: entry.flag,
                            settl_price_type: entry.price_type,
                            reference_date: entry.date,
                            rpt_seq: head.rpt_seq,
                        });
                    }
                    Ok(())
                }
            };
            fits &= result.is_ok();
        }
        if !fits {
            store.counters.drop(Reason::LevelOutOfRange);
            store.lose(at, true, listener);
            return;
        }
        store.statistics[at].set_limits_from_snapshot(head.limits);
        if !matches!(head.status, TradingStatus::NULL | TradingStatus::NO_CHANGE) {
            store.instruments[at].trading_status = head.status;
            store.learned[at].status_seq = head.last_seq;
        }
        store.replaced(at, head.last_seq, head.rpt_seq, head.transact_time_ns, listener);
    }

    fn order_snapshot<L: Listener>(
        &mut self,
        ((now, sent_ns), of_orders, part): ((Instant, u64), bool, Part),
        head: OrderHead,
        orders: impl Iterator<Item = (u8, Order)>,
        listener: &mut L,
    ) {
        let OrderHead { security_id: id, last_seq, total, chunks, chunk } = head;
        if !of_orders && part != Part::Stray {
            self.books.report_orders(id, chunks);
        }
        // Those of one loop count: two would take each other's chunks for their own.
        if !self.store.keep_orders || of_orders != self.store.order_loop {
            return;
        }
        let first = chunk <= 1;
        if of_orders && first {
            if !self.believes(now, sent_ns, last_seq) {
                return;
            }
        } else if (self.synced && last_seq.saturating_sub(self.expected) >= MAX_AHEAD)
            || self.is_of_other_numbering(sent_ns, last_seq)
        {
            return;
        }
        let at = if self.is_of_deleted(id, last_seq) { None } else { self.store.find(id) };
        if part != Part::Stray {
            let round = if of_orders { &mut self.order_books } else { &mut self.books };
            let before = match at.or_else(|| self.store.table.get(id)) {
                Some(at) => std::mem::replace(&mut self.store.orders[at].mark, round.mark),
                None if of_orders => round.unlisted.mark(id, round.mark),
                None => 0,
            };
            if of_orders {
                round.report(before, last_seq, total, chunks);
            }
        }
        let Some(at) = at else { return };
        if !self.store.wants_orders(at, last_seq) {
            return;
        }
        let follows =
            self.chunks.is_some_and(|c| (c.security_id, c.last_seq, c.next) == (id, last_seq, chunk));
        if !first && !follows {
            self.store.counters.drop(Reason::BrokenChunks);
            self.chunks = None;
            return;
        }
        if first {
            self.staged.clear(&mut self.store.arena);
        }
        self.chunks = None;
        for (kind, order) in orders {
            let Some(side) = side_of(kind) else {
                self.store.counters.drop(Reason::BadEntry);
                continue;
            };
            if self.staged.add(&mut self.store.arena, side, order).is_err() {
                self.staged.clear(&mut self.store.arena);
                self.store.orders_no_room(at, last_seq, listener);
                return;
            }
        }
        if chunks > chunk {
            self.chunks = Some(Chunks { security_id: id, last_seq, next: chunk + 1 });
            return;
        }
        if !of_orders {
            // The loop of a conflated channel has the best orders only.
            self.staged.end_overlay();
        }
        self.store.orders_replaced(at, last_seq, &mut self.staged, listener);
        self.staged = OrderBook::EMPTY;
    }
}
