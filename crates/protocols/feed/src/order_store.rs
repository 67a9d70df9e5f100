//! Books by order of all instruments: what may be applied, what a gap does, how one becomes good again.
//!
//! Orders have no RptSeq. So a gap puts every book by order in doubt, and only what brings it whole makes it good: an overlay (59), or a
//! snapshot (53) from behind the gap. Updates that come meanwhile are held with the numbers of their packets, and follow a snapshot that
//! does not hold them. Where there is no room to hold them the oldest go, and a snapshot must then be from behind these. A book for whose
//! snapshot itself there is no room is told once and left out, so that recovery does not wait for it for ever.

use crate::book::BookSide;
use crate::counters::Reason;
use crate::listener::{BookCause, Listener};
use crate::orders::{Fault, Order, OrderBook};
use crate::pending::{Kind, Node};
use crate::store::{State, Store};

impl Store {
    /// An order entry of the open event. It waits for the end of the event, or for a snapshot.
    pub(crate) fn order_entry(&mut self, at: usize, kind: Kind, side: BookSide, action: u8, order: Order) {
        let seq = self.seq;
        if seq <= self.orders[at].snap_seq {
            // A snapshot is ahead of the packets.
            return;
        }
        if !self.slots[at].orders_seen {
            let was = self.standing(at);
            self.slots[at].orders_seen = true;
            self.resettle(at, was);
        }
        self.slots[at].orders_wait = true;
        self.touch(at);
        let node = Node {
            rpt_seq: seq,
            order_id: order.id,
            priority: order.priority,
            price: order.price,
            quantity: order.quantity,
            entry_type: side as u8,
            action,
            kind,
            event: self.counters.events as u32,
            ..Node::default()
        };
        let (current, left_out) = (self.orders_current(at), self.orders_left_out(at));
        let book = &mut self.orders[at];
        match kind {
            Kind::OrdersBegin => {
                // What came before it does not matter any more.
                self.order_pool.clear(&mut book.chain);
                book.held_from = seq;
            }
            // An overlay whose beginning had no room is not taken in by halves.
            Kind::Order if !self.is_overlaid(at) => return,
            // Nothing is kept for what there is no room for: others need the places.
            Kind::OrderUpdate if left_out => {
                self.orders[at].held_from = seq;
                return;
            }
            Kind::OrderUpdate if !current && !self.is_overlaid(at) => {
                self.hold(at, node);
                return;
            }
            Kind::Order | Kind::OrderUpdate | Kind::Level => {}
        }
        if self.order_pool.push(&mut self.orders[at].chain, node).is_none() {
            self.counters.drop(Reason::PendingFull);
            self.lose_orders(at);
        }
    }

    /// Whether what waits begins with an overlay: then it needs nothing before it.
    fn is_overlaid(&self, at: usize) -> bool {
        let head = self.order_pool.peek(self.orders[at].chain.head);
        head.is_some_and(|(node, _)| node.kind == Kind::OrdersBegin)
    }

    /// Keeps an update for a snapshot that does not hold it.
    fn hold(&mut self, at: usize, node: Node) {
        let book = &mut self.orders[at];
        if book.held_from < self.lost_seq {
            // A snapshot that is of use holds what came before the loss.
            self.order_pool.clear(&mut book.chain);
            book.held_from = self.lost_seq;
        }
        if self.order_pool.is_nearly_full() && self.swept_seq < self.lost_seq {
            self.sweep_held();
        }
        let book = &mut self.orders[at];
        while self.order_pool.is_nearly_full() {
            match self.order_pool.pop(&mut book.chain) {
                Some(oldest) => book.held_from = oldest.rpt_seq,
                None => {
                    book.held_from = node.rpt_seq;
                    self.counters.drop(Reason::PendingFull);
                    return;
                }
            }
        }
        if self.order_pool.push(&mut book.chain, node).is_none() {
            self.order_pool.clear(&mut book.chain);
            book.held_from = node.rpt_seq;
            self.counters.drop(Reason::PendingFull);
        }
    }

    /// Gives back what is held from before the last loss, which no snapshot of use needs. Once for each loss at most.
    #[cold]
    fn sweep_held(&mut self) {
        self.swept_seq = self.lost_seq;
        for at in 0..self.orders.len() {
            // What waits of a book that is current, or begins anew, is of the open event.
            let waits = at < self.slots.len() && (self.orders_current(at) || self.is_overlaid(at));
            let book = &mut self.orders[at];
            if book.held_from < self.lost_seq && !waits {
                self.order_pool.clear(&mut book.chain);
                book.held_from = self.lost_seq;
            }
        }
    }

    /// The book by order is not right any more, and nothing is known of it.
    fn lose_orders(&mut self, at: usize) {
        let was = self.standing(at);
        let book = &mut self.orders[at];
        self.order_pool.clear(&mut book.chain);
        book.held_from = self.seq;
        book.clear(&mut self.arena);
        self.slots[at].orders_known = false;
        self.resettle(at, was);
    }

    /// There was no room for a snapshot that holds the packets up to `last_seq`. What the book has is given back first, and the next
    /// round may find room by that. Else the book is left out: no snapshot can be waited for.
    pub(crate) fn orders_no_room<L: Listener>(&mut self, at: usize, last_seq: u32, listener: &mut L) {
        self.counters.drop(Reason::OrdersFull);
        if self.orders[at].sides.iter().any(|side| side.len() > 0) {
            self.lose_orders(at);
            return;
        }
        let was = self.standing(at);
        if !self.is_overlaid(at) {
            let book = &mut self.orders[at];
            self.order_pool.clear(&mut book.chain);
            book.held_from = book.held_from.max(last_seq.min(self.seq));
        }
        let told = self.slots[at].orders_full;
        self.set_orders_full(at, true);
        let slot = &mut self.slots[at];
        slot.orders_known = false;
        slot.orders_confirmed = slot.orders_confirmed.max(last_seq);
        self.snap_max = self.snap_max.max(last_seq);
        self.resettle(at, was);
        if !told {
            self.counters.incomplete_orders += 1;
            listener.on_orders_incomplete(&self.instruments[at]);
        }
    }

    fn set_orders_full(&mut self, at: usize, full: bool) {
        let had = std::mem::replace(&mut self.slots[at].orders_full, full);
        self.orders_full = self.orders_full + usize::from(full) - usize::from(had);
    }

    /// Nothing that was known of the book by order counts any more.
    pub(crate) fn forget_orders(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        (slot.orders_known, slot.orders_seen, slot.orders_bound, slot.orders_wait) =
            (false, false, false, false);
        slot.orders_confirmed = 0;
        self.set_orders_full(at, false);
        if let Some(book) = self.orders.get_mut(at) {
            self.order_pool.clear(&mut book.chain);
            book.clear(&mut self.arena);
            *book = OrderBook { mark: book.mark, ..OrderBook::EMPTY };
        }
    }

    /// Applies what waits, but for the entries of event `open`. False when the book is lost by it.
    fn apply_orders(&mut self, at: usize, open: Option<u32>) -> bool {
        let mut overlay = false;
        let mut fault = None;
        let book = &mut self.orders[at];
        while self.order_pool.peek(book.chain.head).is_some_and(|(node, _)| Some(node.event) != open) {
            let Some(node) = self.order_pool.pop(&mut book.chain) else { break };
            let side = if node.entry_type == BookSide::Bid as u8 { BookSide::Bid } else { BookSide::Offer };
            let order = Order {
                id: node.order_id,
                priority: node.priority,
                price: node.price,
                quantity: node.quantity,
            };
            let result = match node.kind {
                Kind::OrdersBegin => {
                    book.clear(&mut self.arena);
                    (overlay, fault) = (true, None);
                    Ok(())
                }
                Kind::Order => book.add(&mut self.arena, side, order).map_err(Fault::from),
                Kind::OrderUpdate => book.update(&mut self.arena, side, node.action, order),
                Kind::Level => Ok(()),
            };
            fault = fault.or(result.err());
            if overlay
                && self.order_pool.peek(book.chain.head).is_none_or(|(next, _)| next.kind != Kind::Order)
            {
                book.end_overlay();
                overlay = false;
            }
        }
        if let Some(fault) = fault {
            self.counters.drop(match fault {
                Fault::NoRoom => Reason::OrdersFull,
                Fault::Missed => Reason::OrderMissed,
            });
            self.lose_orders(at);
        }
        fault.is_none()
    }

    /// The event has ended: what waited of orders is applied, where the book is current or begins anew. True when it has changed.
    pub(crate) fn commit_orders(&mut self, at: usize) -> bool {
        if self.orders[at].chain.is_empty() {
            return false;
        }
        let overlaid = self.is_overlaid(at);
        if !overlaid && !self.orders_current(at) {
            return false;
        }
        let was = self.standing(at);
        let slot = &mut self.slots[at];
        slot.orders_known = true;
        slot.orders_confirmed = slot.orders_confirmed.max(self.seq);
        slot.orders_bound |= overlaid && self.recovery.uses_snapshots();
        self.resettle(at, was);
        if self.apply_orders(at, None) {
            let was = self.standing(at);
            self.set_orders_full(at, false);
            self.resettle(at, was);
        }
        true
    }

    /// Whether a snapshot of a book by order that holds the packets up to `last_seq` is of use.
    pub(crate) fn wants_orders(&self, at: usize, last_seq: u32) -> bool {
        let slot = &self.slots[at];
        let open = self.open_since.is_some_and(|first| last_seq >= first) && last_seq <= self.seq;
        // What is held may be from before the last loss: then nothing of it counts.
        let held_from = self.orders[at].held_from;
        let current = self.orders_current(at) && slot.orders_seen;
        // The rest of a snapshot that found no room.
        let tried = self.orders_left_out(at) && last_seq <= slot.orders_confirmed;
        !current
            && !tried
            && !open
            && last_seq >= self.lost_seq.max(self.reset_seq).max(slot.unheard).max(held_from)
    }

    /// A snapshot that holds the packets up to `last_seq` has the book by order, which is put in place of what there was. What has
    /// been held follows.
    pub(crate) fn orders_replaced<L: Listener>(
        &mut self,
        at: usize,
        last_seq: u32,
        staged: &mut OrderBook,
        listener: &mut L,
    ) {
        let was = self.standing(at);
        let book = &mut self.orders[at];
        book.clear(&mut self.arena);
        std::mem::swap(&mut book.sides, &mut staged.sides);
        book.snap_seq = last_seq;
        while self.order_pool.peek(book.chain.head).is_some_and(|(node, _)| node.rpt_seq <= last_seq) {
            self.order_pool.pop(&mut book.chain);
        }
        let slot = &mut self.slots[at];
        (slot.orders_known, slot.orders_seen) = (true, true);
        slot.orders_bound |= !self.order_loop && self.recovery.uses_snapshots();
        slot.orders_confirmed = slot.orders_confirmed.max(last_seq);
        self.snap_max = self.snap_max.max(last_seq);
        self.set_orders_full(at, false);
        self.counters.order_snapshots_applied += 1;
        self.resettle(at, was);
        // Entries of the open event wait for its end.
        let open = self.open_since.map(|_| self.counters.events as u32);
        self.apply_orders(at, open);
        listener.on_book(&self.view(at, BookCause::Snapshot));
    }

    /// The loop that ended did not have a book by order: there is none, since the exchange's state was empty.
    pub(crate) fn orders_absent<L: Listener>(&mut self, at: usize, loop_seq: u32, listener: &mut L) {
        if self.slots[at].state == State::Free || self.orders_current(at) || !self.wants_orders(at, loop_seq)
        {
            return;
        }
        self.orders_replaced(at, loop_seq, &mut OrderBook::EMPTY.clone(), listener);
    }

    /// The snapshot loop that ended did not have a book by order, though it had others' or the instrument's levels: it is not waited
    /// for any more.
    pub(crate) fn orders_unbound(&mut self, at: usize) {
        let was = self.standing(at);
        self.slots[at].orders_bound = false;
        self.resettle(at, was);
    }
}
