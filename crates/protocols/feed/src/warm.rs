//! Keeping the path to the callback in the caches while nothing arrives.
//!
//! A feed is quiet for milliseconds, and what runs beside the engine (timer ticks, the other hardware thread, other machines of
//! the same host) takes its caches meanwhile: the first packet after a pause would then wait for memory a dozen times. An engine
//! that polls has nothing better to do than to [rehearse](Warmer::rehearse): an update of one entry runs through the same machine
//! code on a small channel of its own, with the listener muted, and a few instruments of the real channel are read.

use crate::line::{Feed, Line, LineSide, LineState};
use crate::listener::*;
use crate::{
    BookSide, Channel, Config, ConfigError, Instrument, Limits, LinePolicy, ORDER_DEPTH, Reason, Recovery,
    Statistic,
};
use barewire_base::Instant;
use barewire_frame::Stamp;
use barewire_sbe::mdp3::{
    MatchEventIndicator, MdEntryTypeBook, MdIncrementalRefreshBook46Encoder,
    MdIncrementalRefreshBookLongQty64Encoder, MdUpdateAction, SnapshotRefreshTopOrders59Encoder,
};
use barewire_sbe::{AnyMessage, Message, PacketEncoder, Price9};
use std::hint::black_box;

/// Instruments of the real channel that one rehearsal reads.
const READ_AT_ONCE: usize = 4;
/// Instruments of the small channel.
const FIRST: i32 = 1;
const SECOND: i32 = 2;
/// Largest packet of the small channel.
const PACKET_MAX: usize = 256;
/// Entries that the small channel has room for: an event has one, and two orders.
const ENTRIES_MAX: usize = 64;
/// The small channel begins anew at this number: numbers must not run out.
const SEQ_MAX: u32 = 1 << 30;

/// A listener that can be muted. Real packets and rehearsals go through one piece of code only if they have one type of listener.
#[derive(Debug)]
pub struct Gate<L> {
    /// The listener behind it.
    pub listener: L,
    muted: bool,
}

impl<L> Gate<L> {
    /// An open gate.
    pub const fn new(listener: L) -> Self {
        Gate { listener, muted: false }
    }
}

/// Forwards each callback unless muted.
macro_rules! forward {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(#[inline]
        fn $name(&mut self, $($arg: $type),*) {
            if !self.muted {
                self.listener.$name($($arg),*);
            }
        })*
    };
}

impl<L: Listener> Listener for Gate<L> {
    forward! {
        on_packet(packet: &PacketInfo<'_>);
        on_end_of_packet(packet: &PacketInfo<'_>);
        on_message(packet: &PacketInfo<'_>, message: &Message<'_>);
        on_book_entry(instrument: &Instrument, entry: &BookEntry);
        on_book(book: &BookView<'_>);
        on_trade(instrument: &Instrument, trade: &Trade);
        on_statistic(instrument: &Instrument, statistic: &Statistic);
        on_limits(instrument: &Instrument, limits: &Limits);
        on_status(instrument: &Instrument, status: &SecurityStatus);
        on_quote_request(instrument: &Instrument, request: &QuoteRequest);
        on_definition(instrument: &Instrument, action: DefinitionAction);
        on_definition_fields(instrument: &Instrument, action: DefinitionAction, fields: &AnyMessage<'_>);
        on_definitions_complete(instruments: usize);
        on_end_of_event(packet: &PacketInfo<'_>, transact_time_ns: u64);
        on_gap(gap: &Gap);
        on_instrument_stale(instrument: &Instrument);
        on_orders_incomplete(instrument: &Instrument);
        on_recovery_begin(info: &RecoveryInfo);
        on_recovery_end(info: &RecoveryInfo);
        on_reset(reset: Reset);
        on_line_state(line: Line, state: LineState);
        on_channel_state(state: LineState);
        on_failover(policy: LinePolicy, line: Line);
        on_drop(line: Line, reason: Reason);
    }
}

impl Channel {
    /// As [`on_packet`](Self::on_packet), in one copy of its code for all callers: what a [`Warmer`] keeps in the caches is what
    /// real packets need.
    #[inline(never)]
    pub fn deliver<L: Listener>(
        &mut self,
        now: Instant,
        line: Line,
        stamp: Stamp,
        bytes: &[u8],
        gate: &mut Gate<L>,
    ) {
        self.on_packet(now, line, stamp, bytes, gate);
    }

    /// Reads `count` instruments from place `from` on, and what every packet needs. Says where to go on.
    fn read_through(&self, from: usize, count: usize) -> usize {
        let store = &self.store;
        black_box((
            self.expected,
            self.last_seq,
            self.last_time_ns,
            self.hold_deadline,
            self.is_recovering(),
        ));
        black_box((
            store.seq,
            store.settled,
            store.lost_seq,
            store.snap_max,
            store.open_since,
            store.keep_orders,
        ));
        black_box((self.config.line_policy, self.config.lines, self.lines[Feed::Incremental as usize]));
        black_box((store.counters.clone(), self.window.count(), store.pool.next().map(|node| node.next)));
        black_box(self.recent.knows(self.expected));
        let len = store.slots.len();
        if len == 0 {
            return 0;
        }
        for at in (from..len).take(count) {
            let slot = &store.slots[at];
            black_box((slot.last_rpt, store.table.get(slot.security_id)));
            black_box((store.instruments[at].security_id, store.instruments[at].depth));
            for side in [BookSide::Bid, BookSide::Offer] {
                // A level has 24 bytes: with every second one each line of the cache is read.
                let levels = store.direct[at].levels(side).iter().step_by(2);
                black_box(levels.fold(0, |sum: i64, level| sum.wrapping_add(level.price)));
                black_box(store.implied[at].levels(side).first().map(|level| level.price));
                // The best of them: books of every order are long.
                let orders =
                    store.orders.get(at).map_or(&[][..], |o| store.arena.orders(&o.sides[side as usize]));
                black_box(
                    orders
                        .iter()
                        .take(ORDER_DEPTH)
                        .step_by(2)
                        .fold(0, |sum: u64, order| sum.wrapping_add(order.id)),
                );
            }
        }
        if from + count >= len { 0 } else { from + count }
    }
}

/// Rehearses a channel's work.
#[derive(Debug)]
pub struct Warmer {
    small: Channel,
    /// MsgSeqNum and RptSeq of its last packet.
    seq: u32,
    next: usize,
}

impl Warmer {
    /// A warmer. It takes its memory here: less than a hundred kilobytes.
    ///
    /// # Errors
    /// None that a user could cause: the small channel's settings are right.
    pub fn new() -> Result<Warmer, ConfigError> {
        let config = Config {
            instruments: 2,
            max_packet_len: PACKET_MAX,
            pending_entries: ENTRIES_MAX,
            orders_max: ENTRIES_MAX,
            pending_orders: ENTRIES_MAX,
            recovery: Recovery::Natural,
            definitions: crate::DefinitionLoop::Unused,
            undefined_instruments: true,
            gap_packets: 1,
            ..Config::default()
        };
        Ok(Warmer { small: Channel::new(config, Instant::ZERO)?, seq: 0, next: 0 })
    }

    /// Runs one update through the code that real packets of listeners like `gate`'s run through, and reads some instruments of
    /// `real`. The listener hears nothing of it, and `real` is not changed. Takes about as long as a packet.
    #[inline]
    pub fn rehearse<L: Listener>(&mut self, real: &Channel, gate: &mut Gate<L>) {
        self.next = real.read_through(self.next, READ_AT_ONCE);
        if self.seq >= SEQ_MAX {
            self.seq = 0;
            self.small.restart(1, 0, &mut ());
        }
        self.seq += 1;
        let mut buf = [0; PACKET_MAX];
        let line = Line::new(Feed::Incremental, LineSide::A);
        if let Some(packet) = update(&mut buf, self.seq) {
            gate.muted = true;
            self.small.deliver(Instant::ZERO, line, Stamp::default(), packet, gate);
            gate.muted = false;
        }
    }
}

/// Adds a message of one entry to the packet.
macro_rules! entry {
    ($encoder:ident, $packet:ident, $seq:ident, $security_id:expr, $rpt_seq:expr) => {{
        let mut message = $encoder::new($packet.room()).ok()?;
        message.transact_time(u64::from($seq)).match_event_indicator(MatchEventIndicator::END_OF_EVENT);
        message
            .md_entries()
            .ok()?
            .push()
            .ok()?
            .md_entry_px(Price9(i64::from($seq)))
            .md_entry_size(1)
            .number_of_orders(1)
            .security_id($security_id)
            .rpt_seq($rpt_seq)
            .md_price_level(1)
            .md_update_action(if $rpt_seq == 1 { MdUpdateAction::NEW } else { MdUpdateAction::CHANGE })
            .md_entry_type(MdEntryTypeBook::BID);
        let len = message.finish().ok()?;
        $packet.advance(len);
    }};
}

/// Packet `seq` of the small channel: of three packets two update the first instrument, the second of them after its best orders, and
/// one the second instrument, which has long quantities.
fn update(buf: &mut [u8], seq: u32) -> Option<&[u8]> {
    let mut packet = PacketEncoder::new(buf, seq, u64::from(seq)).ok()?;
    let (round, place) = ((seq - 1) / 3, (seq - 1) % 3);
    if place == 1 {
        let mut orders = SnapshotRefreshTopOrders59Encoder::new(packet.room()).ok()?;
        orders.transact_time(u64::from(seq)).security_id(FIRST);
        let mut list = orders.md_entries().ok()?;
        for side in [MdEntryTypeBook::BID, MdEntryTypeBook::OFFER] {
            let mut order = list.push().ok()?;
            order.order_id(u64::from(seq)).md_entry_px(Price9(1)).md_display_qty(1).md_entry_type(side);
        }
        let len = orders.finish().ok()?;
        packet.advance(len);
    }
    match place {
        2 => entry!(MdIncrementalRefreshBookLongQty64Encoder, packet, seq, SECOND, round + 1),
        _ => entry!(MdIncrementalRefreshBook46Encoder, packet, seq, FIRST, 2 * round + place + 1),
    }
    Some(packet.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(u64);
    impl Listener for Heard {
        fn on_packet(&mut self, _: &PacketInfo<'_>) {
            self.0 += 1;
        }
        fn on_book(&mut self, _: &BookView<'_>) {
            self.0 += 1;
        }
        fn on_drop(&mut self, _: Line, _: Reason) {
            self.0 += 1;
        }
    }

    #[test]
    fn rehearsals_run_the_whole_way_and_nobody_hears_of_them() {
        let mut real = Channel::new(Config::default(), Instant::ZERO).unwrap();
        let mut gate = Gate::new(Heard::default());
        let line = Line::new(Feed::Incremental, LineSide::A);
        let mut buf = [0; PACKET_MAX];
        let packet = update(&mut buf, 1).unwrap();
        real.deliver(Instant::ZERO, line, Stamp::default(), packet, &mut gate);
        assert_eq!(gate.listener.0, 2, "the real packet and its book");
        let before = format!("{real:?}");
        let mut warmer = Warmer::new().unwrap();
        for _ in 0..1_000 {
            warmer.rehearse(&real, &mut gate);
        }
        assert_eq!((gate.listener.0, format!("{real:?}")), (2, before));
        let book = warmer.small.book(FIRST).unwrap();
        assert!(book.state.is_good() && book.bids()[0].price == 1_000 && book.rpt_seq == 667, "{book:?}");
        assert!(book.orders_state.is_good() && book.orders(BookSide::Offer)[0].id == 998, "{book:?}");
        let book = warmer.small.book(SECOND).unwrap();
        assert!(book.state.is_good() && book.bids()[0].price == 999 && book.rpt_seq == 333, "{book:?}");
        assert_eq!(warmer.small.counters().drops().count(), 0);
        // A real packet is heard again.
        let packet = update(&mut buf, 2).unwrap();
        real.deliver(Instant::ZERO, line, Stamp::default(), packet, &mut gate);
        assert_eq!(gate.listener.0, 4);
    }

    #[test]
    fn numbers_never_run_out() {
        let mut warmer = Warmer::new().unwrap();
        let real = Channel::new(Config::default(), Instant::ZERO).unwrap();
        let mut gate = Gate::new(());
        warmer.rehearse(&real, &mut gate);
        // As after many hours.
        for seq in [SEQ_MAX - 5, SEQ_MAX] {
            warmer.small.expected = seq + 1;
            warmer.seq = seq;
            for _ in 0..20 {
                warmer.rehearse(&real, &mut gate);
            }
        }
        assert_eq!(warmer.seq, 20);
        let book = warmer.small.book(FIRST).unwrap();
        assert!(book.state.is_good() && book.rpt_seq == 14, "{book:?}");
    }
}
