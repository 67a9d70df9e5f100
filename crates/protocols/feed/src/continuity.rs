//! Continuity: which entries may be applied, what a gap does, how an instrument becomes good again.
//!
//! The rules, instrument by instrument:
//! * RptSeq counts an instrument's entries. The next number: nothing was missed, whatever packets were lost. Another: it is
//!   [`State::Lost`], and its entries are kept in a chain until a snapshot comes that reaches up to the chain.
//! * Entries of an event wait in the chain until the event ends. When a gap cuts the event, what waits is not applied before
//!   the instrument's next entry shows that it was the whole of it.
//! * A packet is compared with `confirmed`, so a gap costs no walk over the instruments.

use crate::book::{BookSide, Level, LevelOutOfRange, entry_type};
use crate::counters::Reason;
use crate::listener::{BookCause, BookEntry, Listener};
use crate::pending::{NIL, Node};
use crate::store::{Slot, State, Store};

/// What a snapshot is worth to an instrument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SnapshotUse {
    /// Nothing.
    Ignore,
    /// The book is set from it, then the chain follows.
    Replace,
}

impl Store {
    /// Takes in an entry's RptSeq. False when the entry is not to be used.
    #[inline]
    pub(crate) fn step<L: Listener>(&mut self, at: usize, rpt_seq: u32, listener: &mut L) -> bool {
        let slot = &mut self.slots[at];
        if slot.state == State::Valid
            && rpt_seq == slot.last_rpt.wrapping_add(1)
            && slot.confirmed >= self.lost_seq
            && self.seq > slot.snap_seq
        {
            slot.last_rpt = rpt_seq;
            slot.confirmed = self.seq;
            return true;
        }
        self.step_slow(at, rpt_seq, listener)
    }

    #[cold]
    fn step_slow<L: Listener>(&mut self, at: usize, rpt_seq: u32, listener: &mut L) -> bool {
        let slot = self.slots[at];
        let was = self.standing(at);
        let next = rpt_seq == slot.last_rpt.wrapping_add(1);
        match slot.state {
            State::Free => return false,
            State::Unseen => {
                // The first entry since the exchange's book was empty.
                let first = rpt_seq == 1;
                self.slots[at].state = if first { State::Valid } else { State::Lost };
                self.slots[at].chain_first = rpt_seq;
                if !first && self.recovery.uses_updates() {
                    self.direct[at].forget();
                    self.implied[at].forget();
                }
            }
            // The snapshot is ahead of the packets. The packet's number decides, not RptSeq: a reset may lie between the two.
            _ if self.seq <= slot.snap_seq => {
                self.counters.drop(Reason::InSnapshot);
                return false;
            }
            State::Valid if next => {}
            // What waits of an event that a gap cut was all that there was so far, but the event may still go on.
            State::Lost if next => {
                if slot.confirmed < self.lost_seq && !slot.chain.is_empty() {
                    self.touch(at);
                }
            }
            State::Doubtful if next => {
                self.slots[at].state = State::Valid;
                self.touch(at);
            }
            _ => {
                self.counters.drop(Reason::RptSeqGap);
                self.statistics[at].missed_before(rpt_seq);
                if rpt_seq <= slot.last_rpt && slot.confirmed < self.lost_seq {
                    // Numbers went back over a gap: a reset was lost with it, for all instruments.
                    self.forget_all(Some(self.seq), self.seq, listener);
                } else {
                    self.lose(at, false, listener);
                }
                // `lose` has counted it out where it was good.
                let was = self.standing(at);
                if rpt_seq == 1 && slot.confirmed < self.lost_seq {
                    self.direct[at].clear();
                    self.implied[at].clear();
                    self.slots[at].state = State::Valid;
                } else {
                    self.slots[at].state = State::Lost;
                }
                self.slots[at].chain_first = rpt_seq;
                self.slots[at].last_rpt = rpt_seq;
                self.slots[at].confirmed = self.seq;
                self.resettle(at, was);
                return true;
            }
        }
        let seq = self.seq;
        let slot = &mut self.slots[at];
        slot.last_rpt = rpt_seq;
        slot.confirmed = slot.confirmed.max(seq);
        self.resettle(at, was);
        true
    }

    /// An instrument has missed something. Its book shows the last good state, unless half an event is in it already.
    pub(crate) fn lose<L: Listener>(&mut self, at: usize, half: bool, listener: &mut L) {
        let was = self.standing(at);
        let slot = &mut self.slots[at];
        let half = half || slot.book_changed;
        let told = matches!(slot.state, State::Valid | State::Doubtful);
        self.pool.clear(&mut slot.chain);
        slot.fresh_from = NIL;
        slot.state = State::Lost;
        slot.natural = false;
        slot.book_changed = false;
        slot.chain_first = slot.last_rpt.wrapping_add(1);
        if self.recovery.uses_updates() {
            self.direct[at].forget();
            self.implied[at].forget();
        } else if half {
            self.direct[at].clear();
            self.implied[at].clear();
        }
        self.resettle(at, was);
        if told {
            listener.on_instrument_stale(&self.instruments[at]);
        }
    }

    /// Nothing that is known of any instrument counts any more; except of those that a snapshot of packet `kept` or later has set.
    /// What was heard of them up to packet `heard` is dropped, so that a snapshot must hold it.
    pub(crate) fn forget_all<L: Listener>(&mut self, kept: Option<u32>, heard: u32, listener: &mut L) {
        self.whole = false;
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            if slot.state == State::Free {
                continue;
            }
            let orders_seq = self.orders.get(at).map_or(0, |orders| orders.snap_seq);
            if kept.is_none_or(|seq| orders_seq < seq) {
                let was = self.standing(at);
                self.forget_orders(at);
                if let Some(orders) = self.orders.get_mut(at) {
                    orders.held_from = heard;
                }
                self.resettle(at, was);
            }
            let slot = &self.slots[at];
            if slot.state == State::Valid && kept.is_some_and(|seq| slot.snap_seq >= seq) {
                continue;
            }
            if slot.state != State::Unseen {
                self.lose(at, true, listener);
            }
            let slot = &mut self.slots[at];
            slot.state = State::Unseen;
            (slot.last_rpt, slot.book_rpt, slot.snap_seq, slot.confirmed, slot.unheard) = (0, 0, 0, 0, heard);
            self.statistics[at].clear();
        }
    }

    /// The exchange's state is empty as of packet `seq`: books, statistics and RptSeq begin anew. An instrument that a later
    /// snapshot has set is ahead of that already.
    pub(crate) fn clear_all(&mut self, seq: u32) {
        self.abandon_event();
        self.whole = true;
        self.passed_over.clear();
        self.reset_seq = seq;
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            if slot.state == State::Free {
                continue;
            }
            if self.orders.get(at).is_some_and(|orders| orders.snap_seq < seq) {
                self.forget_orders(at);
                let slot = &mut self.slots[at];
                (slot.orders_known, slot.orders_confirmed) = (true, seq.max(self.lost_seq));
            }
            if slot_is_behind(&self.slots[at], seq) {
                self.drop_chains(at);
                self.direct[at].clear();
                self.implied[at].clear();
                self.direct[at].set_transact_time(0);
                self.statistics[at].clear();
                let slot = &mut self.slots[at];
                slot.state = State::Valid;
                (slot.last_rpt, slot.book_rpt, slot.snap_seq, slot.unheard) = (0, 0, 0, 0);
                slot.confirmed = seq.max(self.lost_seq);
                slot.natural = false;
            }
        }
        self.recount();
    }

    /// The first packet is the first since the exchange's state was empty: so is every instrument that no snapshot has set.
    pub(crate) fn assume_empty(&mut self) {
        self.whole = true;
        self.passed_over.clear();
        for at in 0..self.slots.len() {
            if self.slots[at].state == State::Unseen {
                // Natural refresh would take the levels for unknown.
                self.direct[at].clear();
                self.implied[at].clear();
                self.slots[at].state = State::Valid;
            }
            self.slots[at].orders_known |= self.slots[at].state != State::Free;
        }
        self.recount();
    }

    /// Packets up to `last` are lost. Returns how many instruments the cut event had touched.
    pub(crate) fn gap(&mut self, last: u32) -> usize {
        let cut = self.abandon_event();
        self.lost_seq = last;
        self.whole = false;
        if self.snap_max >= last {
            // Some snapshots are ahead of the packets: their instruments stay good.
            self.recount();
        } else {
            (self.settled, self.orders_good) = (0, 0);
        }
        cut
    }

    /// The open event will not be completed.
    pub(crate) fn abandon_event(&mut self) -> usize {
        if self.open_since.take().is_some() {
            self.counters.abandoned_events += 1;
        }
        let touched = std::mem::take(&mut self.touched);
        for &at in &touched {
            let slot = &mut self.slots[at as usize];
            slot.touched = false;
            slot.orders_wait = false;
            if let Some(orders) = self.orders.get_mut(at as usize) {
                // Whatever makes the book good again holds what waited.
                self.order_pool.clear(&mut orders.chain);
                orders.held_from = self.seq;
            }
            if slot.state == State::Valid && !slot.chain.is_empty() {
                slot.state = State::Doubtful;
            }
        }
        let cut = touched.len();
        self.touched = touched;
        self.touched.clear();
        cut
    }

    #[inline]
    pub(crate) fn touch(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if !slot.touched {
            slot.touched = true;
            self.touched.push(at as u32);
        }
    }

    /// A price-level entry. Where its event ends with the message it is applied at once: nobody can look before the end.
    #[inline]
    pub(crate) fn level_entry<L: Listener>(
        &mut self,
        at: usize,
        entry: &BookEntry,
        ends_event: bool,
        listener: &mut L,
    ) {
        if !self.step(at, entry.rpt_seq, listener) {
            return;
        }
        listener.on_book_entry(&self.instruments[at], entry);
        self.touch(at);
        let slot = &mut self.slots[at];
        if ends_event && slot.state == State::Valid && slot.chain.is_empty() {
            slot.book_changed = true;
            let (act, level) = (entry.action, entry.price_level);
            if self.apply_level(at, entry.entry_type, act, level, entry.level).is_err() {
                self.level_failed(at, listener);
                self.deepen(at, entry.entry_type, level);
            }
            self.slots[at].book_rpt = entry.rpt_seq;
        } else {
            self.push_level(at, entry, listener);
        }
    }

    #[cold]
    fn level_failed<L: Listener>(&mut self, at: usize, listener: &mut L) {
        self.counters.drop(Reason::LevelOutOfRange);
        self.lose(at, true, listener);
    }

    /// An entry names a level that the book has no room for: the exchange's is deeper than was said. It is made as deep, so that the
    /// snapshot that makes it good is not contradicted by the next such entry.
    #[cold]
    fn deepen(&mut self, at: usize, kind: u8, level: u8) {
        match kind {
            entry_type::BID | entry_type::OFFER => self.direct[at].deepen(level),
            entry_type::IMPLIED_BID | entry_type::IMPLIED_OFFER => self.implied[at].deepen(level),
            _ => {}
        }
    }

    fn push_level<L: Listener>(&mut self, at: usize, entry: &BookEntry, listener: &mut L) {
        let node = Node {
            rpt_seq: entry.rpt_seq,
            price: entry.level.price,
            quantity: entry.level.quantity,
            orders: entry.level.orders,
            tradeable: entry.level.tradeable,
            level: entry.price_level,
            action: entry.action,
            entry_type: entry.entry_type,
            ..Node::default()
        };
        let slot = &mut self.slots[at];
        match self.pool.push(&mut slot.chain, node) {
            Some(index) if slot.fresh_from == NIL => slot.fresh_from = index,
            Some(_) => {}
            None => {
                self.counters.drop(Reason::PendingFull);
                self.lose(at, false, listener);
            }
        }
    }

    #[inline]
    fn apply_level(
        &mut self,
        at: usize,
        kind: u8,
        act: u8,
        level: u8,
        new: Level,
    ) -> Result<(), LevelOutOfRange> {
        self.counters.book_entries += 1;
        match kind {
            entry_type::BID => self.direct[at].apply(BookSide::Bid, act, level, new),
            entry_type::OFFER => self.direct[at].apply(BookSide::Offer, act, level, new),
            entry_type::IMPLIED_BID => self.implied[at].apply(BookSide::Bid, act, level, new),
            entry_type::IMPLIED_OFFER => self.implied[at].apply(BookSide::Offer, act, level, new),
            entry_type::MARKET_BEST_BID => {
                self.direct[at].set_market_best(BookSide::Bid, act, new);
                Ok(())
            }
            entry_type::MARKET_BEST_OFFER => {
                self.direct[at].set_market_best(BookSide::Offer, act, new);
                Ok(())
            }
            entry_type::BOOK_RESET => {
                self.direct[at].clear();
                self.implied[at].clear();
                Ok(())
            }
            _ => Err(LevelOutOfRange),
        }
    }

    fn apply_node(&mut self, at: usize, node: &Node) -> Result<(), LevelOutOfRange> {
        let new = Level {
            price: node.price,
            quantity: node.quantity,
            orders: node.orders,
            tradeable: node.tradeable,
        };
        self.slots[at].book_rpt = node.rpt_seq;
        let result = self.apply_level(at, node.entry_type, node.action, node.level, new);
        if result.is_err() {
            self.deepen(at, node.entry_type, node.level);
        }
        result
    }

    /// Applies the chain to a book that it continues. False when an entry does not fit: then the book is
    /// empty, and the instrument must be told lost.
    fn apply_chain(&mut self, at: usize) -> bool {
        let mut good = true;
        self.slots[at].fresh_from = NIL;
        while let Some(node) = self.pool.pop(&mut self.slots[at].chain) {
            good = good && self.apply_node(at, &node).is_ok();
        }
        good
    }

    /// The event has ended: what waited is applied, and every book it touched is shown.
    #[inline]
    pub(crate) fn end_event<L: Listener>(&mut self, transact_time_ns: u64, listener: &mut L) {
        self.open_since = None;
        self.counters.events += 1;
        if self.touched.is_empty() {
            return;
        }
        let mut touched = std::mem::take(&mut self.touched);
        for &at in &touched {
            self.commit(at as usize, transact_time_ns, listener);
        }
        touched.clear();
        self.touched = touched;
    }

    #[inline]
    fn commit<L: Listener>(&mut self, at: usize, transact_time_ns: u64, listener: &mut L) {
        let slot = &mut self.slots[at];
        slot.touched = false;
        let mut changed = std::mem::take(&mut slot.book_changed);
        let mut cause = BookCause::Event;
        let (chain, state) = (!slot.chain.is_empty(), slot.state);
        let orders = std::mem::take(&mut slot.orders_wait) && self.commit_orders(at);
        if chain && state == State::Valid {
            changed = self.apply_chain(at);
            if !changed {
                self.level_failed(at, listener);
            }
        } else if chain && state == State::Lost && self.refresh(at, listener) {
            changed = true;
            cause = BookCause::NaturalRefresh;
        }
        if changed || orders {
            if transact_time_ns != 0 {
                self.direct[at].set_transact_time(transact_time_ns);
            }
            listener.on_book(&self.view(at, cause));
        }
    }

    /// Applies the event's entries to an instrument that has missed some before: a book reset makes it known at once, and
    /// natural refresh when every level of its direct book has been named. True when the book is good again.
    fn refresh<L: Listener>(&mut self, at: usize, listener: &mut L) -> bool {
        let mut next = std::mem::replace(&mut self.slots[at].fresh_from, NIL);
        let mut known = false;
        while let Some((&node, after)) = self.pool.peek(next) {
            next = after;
            known |= node.entry_type == entry_type::BOOK_RESET;
            if !known && !self.recovery.uses_updates() {
                continue;
            }
            if self.apply_node(at, &node).is_err() {
                self.level_failed(at, listener);
                return false;
            }
        }
        // Implied books may never be named in full; where snapshots come as well they are waited for.
        let implied = self.implied[at].is_known() || !self.recovery.uses_snapshots();
        let complete = self.recovery.uses_updates() && self.direct[at].is_known() && implied;
        if !known && !complete {
            return false;
        }
        let was = self.standing(at);
        let slot = &mut self.slots[at];
        self.pool.clear(&mut slot.chain);
        slot.state = State::Valid;
        slot.natural = !known;
        self.counters.natural_refreshes += u64::from(!known);
        // The levels are named anew; of the statistics nobody has said what was missed.
        self.statistics[at].drop_unsure();
        self.resettle(at, was);
        true
    }

    /// What a snapshot that holds the packets up to `last_seq` and the instrument's entries up to `rpt_seq` is worth.
    pub(crate) fn judge_snapshot(&self, at: usize, last_seq: u32, rpt_seq: u32) -> SnapshotUse {
        let slot = &self.slots[at];
        if last_seq < self.reset_seq || !self.recovery.uses_snapshots() {
            return SnapshotUse::Ignore;
        }
        // The packets processed may be in the middle of an event that the snapshot holds a part of.
        if self.open_since.is_some_and(|first| last_seq >= first) && last_seq <= self.seq {
            return SnapshotUse::Ignore;
        }
        let fresh = last_seq >= self.lost_seq.max(slot.unheard);
        let went_back = rpt_seq < slot.last_rpt && last_seq >= slot.confirmed;
        let replace = match slot.state {
            State::Free => false,
            State::Valid if slot.confirmed >= self.lost_seq => false,
            // Its levels are taken even so: a reset may be among what was lost, and the numbers be the same by chance.
            // What a gap cut off of an event waits in vain: a snapshot that holds it shows it.
            State::Valid | State::Doubtful => fresh && (rpt_seq >= slot.last_rpt || went_back),
            State::Unseen => fresh,
            State::Lost if rpt_seq > slot.last_rpt => fresh,
            // It reaches up to the chain, and nothing is missing behind the chain.
            State::Lost if rpt_seq.wrapping_add(1) >= slot.chain_first => {
                fresh || slot.confirmed >= self.lost_seq
            }
            State::Lost => fresh && went_back,
        };
        if replace { SnapshotUse::Replace } else { SnapshotUse::Ignore }
    }

    /// A snapshot's levels are in the book: the instrument is good, and the chain follows.
    pub(crate) fn replaced<L: Listener>(
        &mut self,
        at: usize,
        last_seq: u32,
        rpt_seq: u32,
        transact_time_ns: u64,
        listener: &mut L,
    ) {
        let was = self.standing(at);
        let slot = &mut self.slots[at];
        let continues = slot.state == State::Lost
            && rpt_seq <= slot.last_rpt
            && rpt_seq.wrapping_add(1) >= slot.chain_first;
        if continues {
            while self.pool.peek(slot.chain.head).is_some_and(|(node, _)| node.rpt_seq <= rpt_seq) {
                self.pool.pop(&mut slot.chain);
            }
            slot.confirmed = slot.confirmed.max(last_seq);
        } else {
            self.pool.clear(&mut slot.chain);
            slot.last_rpt = rpt_seq;
            slot.confirmed = last_seq;
        }
        slot.fresh_from = NIL;
        slot.state = State::Valid;
        slot.natural = false;
        slot.book_changed = false;
        slot.snap_seq = last_seq;
        self.snap_max = self.snap_max.max(last_seq);
        self.slots[at].book_rpt = rpt_seq;
        self.direct[at].set_transact_time(transact_time_ns);
        self.counters.snapshots_applied += 1;
        // Entries of the open event stay in the chain until it ends.
        let open = self.slots[at].touched && !self.slots[at].chain.is_empty();
        self.resettle(at, was);
        if open {
            return;
        }
        if !self.apply_chain(at) {
            self.level_failed(at, listener);
            return;
        }
        listener.on_book(&self.view(at, BookCause::Snapshot));
    }

    /// The loop that ended did not have an instrument: nothing has happened on it since the exchange's state was empty.
    pub(crate) fn absent<L: Listener>(&mut self, at: usize, loop_seq: u32, listener: &mut L) {
        let slot = self.slots[at];
        let after = matches!(slot.state, State::Lost | State::Valid) && slot.confirmed >= loop_seq;
        if slot.state == State::Free || self.is_settled(at) || after || loop_seq < slot.unheard {
            return;
        }
        self.drop_chains(at);
        self.direct[at].clear();
        self.implied[at].clear();
        self.statistics[at].clear();
        let slot = &mut self.slots[at];
        slot.state = State::Unseen;
        self.replaced(at, loop_seq, 0, 0, listener);
    }
}

/// Whether what an instrument shows is of before packet `seq`.
fn slot_is_behind(slot: &Slot, seq: u32) -> bool {
    slot.state != State::Valid || slot.snap_seq < seq
}
