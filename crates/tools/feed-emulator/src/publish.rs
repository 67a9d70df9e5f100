//! Publication: what changed since the last time, as events.

use super::Emulator;
use super::book::edits;
use super::encode::{BookEntry, Planned, StatEntry, TradeEntry, encode, side_type};
use super::market::{BID, Instrument, OFFER, Order, Session};
use barewire_base::{Instant, Prng};
use barewire_sbe::PACKET_HEADER_LEN;
use barewire_sbe::mdp3::{MatchEventIndicator, MdEntryTypeStatistics, MdUpdateAction};

/// Implied levels that are published.
const IMPLIED_DEPTH: usize = 2;
/// Bytes of a trade's entry with its two orders, and of any other entry, at most.
const TRADE_BYTES: usize = 40 + 2 * 16;
const ENTRY_BYTES: usize = 32;
/// Bytes of an order's entry.
const ORDER_BYTES: usize = 40;
/// Bytes of headers and blocks around the entries of any message.
const AROUND_BYTES: usize = 40;

/// What turns the published orders into those that there are.
fn order_updates(was: &[Vec<Order>; 2], is: &[Vec<Order>; 2]) -> Vec<(MdUpdateAction, usize, Order)> {
    let mut updates = Vec::new();
    for side in [BID, OFFER] {
        let of = |orders: &[Order], id: u64| orders.iter().copied().find(|order| order.id == id);
        for order in was[side].iter().filter(|order| of(&is[side], order.id).is_none()) {
            updates.push((MdUpdateAction::DELETE, side, *order));
        }
        for order in &is[side] {
            match of(&was[side], order.id) {
                None => updates.push((MdUpdateAction::NEW, side, *order)),
                Some(old) if old != *order => updates.push((MdUpdateAction::CHANGE, side, *order)),
                Some(_) => {}
            }
        }
    }
    updates
}

/// What the instrument's market is becomes what is published, without a word to anybody: before the emulation begins.
pub(crate) fn adopt(instrument: &mut Instrument, depth: usize) {
    for side in [BID, OFFER] {
        instrument.book[side] = instrument.levels(side, depth);
        instrument.implied_book[side] = instrument.implied_levels(side).to_vec();
        if instrument.top_orders || instrument.every_order {
            instrument.top[side] = instrument.published_orders(side).to_vec();
        }
    }
    let entries: usize =
        [&instrument.book, &instrument.implied_book].iter().flat_map(|b| b.iter()).map(Vec::len).sum();
    instrument.rpt_seq = entries as u32;
}

impl Emulator {
    /// Publishes everything that is pending.
    pub(super) fn publish(&mut self, at: Instant) {
        while !self.dirty.is_empty() {
            let most = u64::from(self.config.event_instruments_max);
            let count = (1 + self.prng.below(most) as usize).min(self.dirty.len());
            let batch: Vec<usize> = self.dirty.drain(..count).map(|index| index as usize).collect();
            let planned = self.plan_event(at, &batch);
            for index in batch {
                self.instruments[index].dirty = false;
                self.remember(index);
            }
            if !planned.is_empty() {
                self.put_event(at, planned);
            }
        }
        self.flush_packet(at);
    }

    /// Sends one event, alone in its packet.
    pub(super) fn send_event(&mut self, at: Instant, planned: Vec<Planned>) {
        self.flush_packet(at);
        self.put_event(at, planned);
        self.flush_packet(at);
    }

    /// Entries of this size that one message holds.
    fn entries_max(&self, bytes: usize) -> usize {
        ((self.config.packet_bytes_max - PACKET_HEADER_LEN - AROUND_BYTES) / bytes).min(100)
    }

    /// Appends an event's messages to the packet being put together, beginning new packets as they fill.
    fn put_event(&mut self, at: Instant, planned: Vec<Planned>) {
        let time_ns = self.time_ns(at);
        self.counts.events += 1;
        for (index, message) in planned.iter().enumerate() {
            let bit = message.last_bit();
            let mut bits = MatchEventIndicator(0);
            if !planned[index + 1..].iter().any(|later| later.last_bit() == bit) {
                bits |= bit;
            }
            if index + 1 == planned.len() {
                bits |= MatchEventIndicator::END_OF_EVENT;
            }
            let Ok(len) = encode(message, time_ns, bits, &mut self.scratch) else {
                debug_assert!(false, "a message that does not fit");
                continue;
            };
            if PACKET_HEADER_LEN + self.body.len() + len > self.config.packet_bytes_max {
                self.flush_packet(at);
            }
            self.body.extend_from_slice(&self.scratch[..len]);
            self.counts.messages += 1;
        }
    }

    /// Plans one event of these instruments, and takes down what it publishes. An instrument's entries are numbered in the
    /// order in which they are sent: trades, volume, books, implied books, statistics.
    fn plan_event(&mut self, at: Instant, batch: &[usize]) -> Vec<Planned> {
        let time_ns = self.time_ns(at);
        let depth = usize::from(self.config.depth);
        let most_orders = self.entries_max(ORDER_BYTES);
        let mut entries = Entries::default();
        for &index in batch {
            let instrument = &mut self.instruments[index];
            let (rpt_seq, session) = (instrument.rpt_seq, instrument.session);
            entries.take_trades(instrument, &mut self.numbers.trade);
            if instrument.session.volume != session.volume {
                let rpt_seq = instrument.next_rpt_seq();
                let volume = (instrument.id, rpt_seq, instrument.session.volume);
                entries.volumes[usize::from(instrument.long)].push(volume);
            }
            entries.take_orders(instrument, most_orders);
            entries.take_books(instrument, depth, &mut self.prng);
            entries.take_statistics(instrument, &session);
            if instrument.rpt_seq != rpt_seq {
                instrument.last_update_ns = time_ns;
            }
        }
        entries.into_messages(self.entries_max(TRADE_BYTES), self.entries_max(ENTRY_BYTES))
    }
}

/// Entries of one event: those with regular quantities, and those with long ones, which have templates of their own.
#[derive(Default)]
struct Entries {
    trades: [Vec<TradeEntry>; 2],
    volumes: [Vec<(i32, u32, u64)>; 2],
    /// Of each instrument whole messages.
    orders: Vec<Planned>,
    books: [Vec<BookEntry>; 2],
    implied: [Vec<BookEntry>; 2],
    statistics: [Vec<StatEntry>; 2],
}

impl Entries {
    /// The trades since the last event, which make the session's statistics.
    fn take_trades(&mut self, instrument: &mut Instrument, number: &mut u32) {
        for trade in std::mem::take(&mut instrument.trades) {
            *number = number.wrapping_add(1);
            let rpt_seq = instrument.next_rpt_seq();
            self.trades[usize::from(instrument.long)].push(TradeEntry {
                security_id: instrument.id,
                rpt_seq,
                price_e9: trade.price_e9,
                quantity: trade.quantity,
                buy: trade.buy,
                trade_id: *number,
                resting: trade.resting,
                aggressor: trade.aggressor,
            });
            let session = &mut instrument.session;
            session.open_e9.get_or_insert(trade.price_e9);
            session.high_e9 = session.high_e9.max(Some(trade.price_e9));
            session.low_e9 = Some(session.low_e9.map_or(trade.price_e9, |low| low.min(trade.price_e9)));
            session.last_e9 = Some(trade.price_e9);
            session.last_quantity = trade.quantity;
            session.volume += trade.quantity;
            session.trades += 1;
        }
    }

    /// The top orders, or every order, where they are published. They have no numbers.
    fn take_orders(&mut self, instrument: &mut Instrument, most: usize) {
        let security_id = instrument.id;
        if instrument.top_orders {
            let top = [BID, OFFER].map(|side| instrument.published_orders(side).to_vec());
            if top != instrument.top {
                instrument.top = top.clone();
                self.orders.push(Planned::TopOrders { security_id, top });
            }
        }
        if instrument.every_order {
            let now = [BID, OFFER].map(|side| instrument.published_orders(side).to_vec());
            let updates = order_updates(&instrument.top, &now);
            instrument.top = now;
            for some in updates.chunks(most) {
                self.orders.push(Planned::OrderUpdates { security_id, updates: some.to_vec() });
            }
        }
    }

    /// What turns the published books into those that there are.
    fn take_books(&mut self, instrument: &mut Instrument, depth: usize, prng: &mut Prng) {
        for is_implied in [false, true] {
            for side in [BID, OFFER] {
                let wanted = if is_implied {
                    let levels = instrument.implied_levels(side);
                    levels[..levels.len().min(IMPLIED_DEPTH)].to_vec()
                } else {
                    instrument.levels(side, depth)
                };
                let published = if is_implied { &mut instrument.implied_book } else { &mut instrument.book };
                let mut steps = Vec::new();
                edits(&published[side], &wanted, prng, &mut steps);
                published[side] = wanted;
                let list = if is_implied { &mut self.implied } else { &mut self.books };
                for edit in steps {
                    let (rpt_seq, kind) = (instrument.next_rpt_seq(), side_type(side, is_implied));
                    let entry = BookEntry { security_id: instrument.id, rpt_seq, kind, edit };
                    list[usize::from(instrument.long)].push(entry);
                }
            }
        }
    }

    /// What changed of the session since it was like `was`.
    fn take_statistics(&mut self, instrument: &mut Instrument, was: &Session) {
        let is = instrument.session;
        for (kind, was, is) in [
            (MdEntryTypeStatistics::OPEN_PRICE, was.open_e9, is.open_e9),
            (MdEntryTypeStatistics::HIGH_TRADE, was.high_e9, is.high_e9),
            (MdEntryTypeStatistics::LOW_TRADE, was.low_e9, is.low_e9),
        ] {
            if let Some(price_e9) = is.filter(|_| was != is) {
                let rpt_seq = instrument.next_rpt_seq();
                let entry = StatEntry { security_id: instrument.id, rpt_seq, kind, price_e9 };
                self.statistics[usize::from(instrument.long)].push(entry);
            }
        }
    }

    /// The messages, in the order in which they are sent: trades and volume, orders, books of price levels, statistics.
    fn into_messages(self, most_trades: usize, most: usize) -> Vec<Planned> {
        let mut planned = Vec::new();
        for (long, entries) in [false, true].into_iter().zip(self.trades) {
            for some in entries.chunks(most_trades) {
                planned.push(Planned::Trades { long, entries: some.to_vec() });
            }
        }
        for (long, entries) in [false, true].into_iter().zip(self.volumes) {
            for some in entries.chunks(most) {
                planned.push(Planned::Volume { long, entries: some.to_vec() });
            }
        }
        planned.extend(self.orders);
        for (implied, both) in [(false, self.books), (true, self.implied)] {
            for (long, entries) in [false, true].into_iter().zip(both) {
                for some in entries.chunks(most) {
                    planned.push(Planned::Book { long, implied, entries: some.to_vec() });
                }
            }
        }
        for (long, entries) in [false, true].into_iter().zip(self.statistics) {
            for some in entries.chunks(most) {
                planned.push(Planned::Statistics { long, entries: some.to_vec() });
            }
        }
        planned
    }
}
