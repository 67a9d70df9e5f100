//! Books by order.
//!
//! Templates 59 and 53 of conflated channels bring the best ten of each side whole (MBOLD): what is shown is the beginning of the
//! exchange's list. Feeds that publish every order (46, 47, 64, and 53 of the loop `SMBO`) say what was added, changed and deleted: of
//! these the book is kept to its full depth. It is right as long as nothing was missed; an update of an order that is not there shows
//! that something was.

use crate::arena::{Arena, NoRoom, Run};
use crate::book::BookSide;
use crate::pending::Chain;

/// Orders of each side that an overlay (MBOLD) has at most. A side that is full may have more orders behind.
pub const ORDER_DEPTH: usize = 10;

/// The raw value of an absent priority.
pub const NULL_PRIORITY: u64 = u64::MAX;

/// One order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Order {
    /// The exchange's order id.
    pub id: u64,
    /// Priority within a price: lower goes first. [`NULL_PRIORITY`] where the message had none.
    pub priority: u64,
    /// Price: a mantissa with the exponent -9.
    pub price: i64,
    /// Quantity on display.
    pub quantity: i64,
}

/// OrderUpdateAction, and MDUpdateAction of template 47.
const NEW: u8 = 0;
const CHANGE: u8 = 1;
const DELETE: u8 = 2;

/// Why an order could not be taken in: the book is not right any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// There is no room for it.
    NoRoom,
    /// It is not in the book, or the best orders of a book that has only those are gone.
    Missed,
}

impl From<NoRoom> for Fault {
    fn from(_: NoRoom) -> Self {
        Fault::NoRoom
    }
}

/// Both sides of one instrument, and what waits for them. What every event needs to know of them is in the instrument's slot.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct OrderBook {
    pub(crate) sides: [Run; 2],
    /// Entries of the open event. Of a book that is not current, all since packet `held_from`.
    pub(crate) chain: Chain,
    /// Updates of this packet and those before it are not in the chain.
    pub(crate) held_from: u32,
    /// LastMsgSeqNumProcessed of the snapshot that was applied last.
    pub(crate) snap_seq: u32,
    /// Round of its loop that had the book last.
    pub(crate) mark: u16,
}

const _: () = assert!(size_of::<OrderBook>() == 64, "one cache line");

/// Where an order goes: behind those of better prices, and of its price behind those of lower priority.
fn place(orders: &[Order], side: BookSide, order: &Order) -> usize {
    orders.partition_point(|o| {
        side.is_better(o.price, order.price) || (o.price == order.price && o.priority <= order.priority)
    })
}

/// Where the order of this id is. Price and priority say it, unless they are new; then the best orders are looked at first.
fn find(orders: &[Order], side: BookSide, order: &Order) -> Option<usize> {
    let end = place(orders, side, order);
    let near = end.checked_sub(1).filter(|&at| orders.get(at).is_some_and(|o| o.id == order.id));
    near.or_else(|| orders.iter().position(|o| o.id == order.id))
}

impl OrderBook {
    pub(crate) const EMPTY: OrderBook =
        OrderBook { sides: [Run::EMPTY; 2], chain: Chain::EMPTY, held_from: 0, snap_seq: 0, mark: 0 };

    /// Gives the room of both sides back: they are empty.
    pub(crate) fn clear(&mut self, arena: &mut Arena) {
        self.sides.iter_mut().for_each(|side| arena.release(side));
    }

    /// One order of a snapshot or overlay.
    pub(crate) fn add(&mut self, arena: &mut Arena, side: BookSide, order: Order) -> Result<(), NoRoom> {
        let run = &mut self.sides[side as usize];
        let at = place(arena.orders(run), side, &order);
        arena.insert(run, at, order)
    }

    /// An overlay of the best orders is at its end. A side that it filled may have more orders behind.
    pub(crate) fn end_overlay(&mut self) {
        for side in &mut self.sides {
            side.trimmed = side.len() >= ORDER_DEPTH;
        }
    }

    /// An order was added (0), changed (1) or deleted (2). A changed order may have moved.
    pub(crate) fn update(
        &mut self,
        arena: &mut Arena,
        side: BookSide,
        act: u8,
        order: Order,
    ) -> Result<(), Fault> {
        let run = &mut self.sides[side as usize];
        let found = find(arena.orders(run), side, &order);
        match (act, found) {
            (NEW, None) => {}
            (CHANGE, Some(at)) if arena.orders(run).get(at).is_some_and(|o| same_place(o, &order)) => {
                if let Some(old) = arena.order_mut(run, at) {
                    *old = order;
                }
                return Ok(());
            }
            // It stands behind what is known, or comes up from there.
            (CHANGE | DELETE, None) if run.trimmed => {}
            (CHANGE | DELETE, None) => return Err(Fault::Missed),
            (_, Some(at)) => arena.remove(run, at),
            _ => return Ok(()),
        }
        if act != DELETE {
            let at = place(arena.orders(run), side, &order);
            // Others may stand between the last order that is known and this one.
            if at < run.len() || !run.trimmed {
                arena.insert(run, at, order)?;
            }
        }
        // Nothing is left of the beginning of the list that was known.
        if run.trimmed && run.len() == 0 { Err(Fault::Missed) } else { Ok(()) }
    }
}

fn same_place(old: &Order, new: &Order) -> bool {
    (old.price, old.priority) == (new.price, new.priority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    fn ids(arena: &Arena, book: &OrderBook, side: BookSide) -> Vec<u64> {
        arena.orders(&book.sides[side as usize]).iter().map(|o| o.id).collect()
    }

    /// Every order is published, or the best ten are said now and then and updates come between: the first book is the true list,
    /// the second its beginning, for as long as it says so.
    #[test]
    fn what_is_shown_is_the_true_list_or_its_beginning() {
        let (mut most, mut missed, mut shorter) = (0, 0, 0);
        for seed in 0..200 {
            let mut prng = Prng::new(seed);
            let side = if seed % 2 == 0 { BookSide::Bid } else { BookSide::Offer };
            let mut arena = Arena::new(4_096);
            let (mut book, mut limited) = (OrderBook::EMPTY, OrderBook::EMPTY);
            let mut truth: Vec<Order> = Vec::new();
            let mut good = true;
            for step in 0..600u64 {
                let adds = if step < 300 { 0.65 } else { 0.4 };
                let (act, order) = if prng.chance(adds) || truth.is_empty() {
                    let order = Order { id: step, priority: step, price: prng.below(6) as i64, quantity: 1 };
                    truth.push(order);
                    (NEW, order)
                } else if prng.chance(0.5) {
                    // Mostly the best go, as they trade.
                    let most = if prng.chance(0.6) { 1 } else { truth.len() as u64 };
                    (DELETE, truth.remove(prng.below(most) as usize))
                } else {
                    let at = prng.below(truth.len() as u64) as usize;
                    truth[at] = Order { quantity: 1 + prng.below(9) as i64, ..truth[at] };
                    if prng.chance(0.3) {
                        truth[at].price = prng.below(6) as i64;
                        truth[at].priority = 1_000 + step;
                    }
                    (CHANGE, truth[at])
                };
                truth.sort_by_key(|o| (if side == BookSide::Bid { -o.price } else { o.price }, o.priority));
                assert_eq!(book.update(&mut arena, side, act, order), Ok(()), "seed {seed} step {step}");
                assert_eq!(arena.orders(&book.sides[side as usize]), truth, "seed {seed} step {step}");
                most = most.max(truth.len());
                match limited.update(&mut arena, side, act, order) {
                    Ok(()) if good => {
                        let shown = arena.orders(&limited.sides[side as usize]);
                        assert!(truth.starts_with(shown), "seed {seed} step {step}");
                        shorter += usize::from(shown.len() < truth.len());
                    }
                    result => {
                        good = false;
                        missed += usize::from(result == Err(Fault::Missed));
                    }
                }
                if prng.chance(0.008) {
                    limited.clear(&mut arena);
                    for order in truth.iter().take(ORDER_DEPTH).rev() {
                        limited.add(&mut arena, side, *order).unwrap();
                    }
                    limited.end_overlay();
                    good = true;
                }
            }
        }
        assert!(most > 60 && missed > 20 && shorter > 5_000, "{most} {missed} {shorter}");
    }

    #[test]
    fn an_overlay_sorts_interleaved_orders() {
        let mut arena = Arena::new(64);
        let mut book = OrderBook::EMPTY;
        for (id, price, priority) in [(1, 10, 5), (2, 10, 3), (3, 11, 9)] {
            let order = Order { id, priority, price, quantity: 1 };
            book.add(&mut arena, BookSide::Bid, order).unwrap();
        }
        book.end_overlay();
        assert_eq!(ids(&arena, &book, BookSide::Bid), [3, 2, 1]);
        assert!(ids(&arena, &book, BookSide::Offer).is_empty());
    }

    #[test]
    fn an_order_that_is_not_there_shows_that_something_was_missed() {
        let mut arena = Arena::new(16);
        let mut book = OrderBook::EMPTY;
        let order = |id| Order { id, priority: id, price: 5, quantity: 1 };
        assert_eq!(book.update(&mut arena, BookSide::Bid, DELETE, order(1)), Err(Fault::Missed));
        assert_eq!(book.update(&mut arena, BookSide::Bid, CHANGE, order(1)), Err(Fault::Missed));
        for id in 0..16 {
            assert_eq!(book.update(&mut arena, BookSide::Bid, NEW, order(id)), Ok(()));
        }
        assert_eq!(book.update(&mut arena, BookSide::Bid, NEW, order(99)), Err(Fault::NoRoom));
        // Deleted without price and priority, as a feed may do.
        let bare = Order { id: 3, priority: NULL_PRIORITY, price: crate::NULL_PRICE, quantity: 0 };
        assert_eq!(book.update(&mut arena, BookSide::Bid, DELETE, bare), Ok(()));
        assert!(!ids(&arena, &book, BookSide::Bid).contains(&3));
        // Added twice is once.
        assert_eq!(book.update(&mut arena, BookSide::Bid, NEW, order(4)), Ok(()));
        assert_eq!(ids(&arena, &book, BookSide::Bid).iter().filter(|&&id| id == 4).count(), 1);
        book.clear(&mut arena);
        assert_eq!(arena.used(), 0);
    }
}
