//! The book by order, limited (MBOLD): the best orders of each side.
//!
//! Templates 59 and 53 bring the best ten whole. Feeds that publish every order (46, 47, 64) say what was added, changed and
//! deleted; of these the same best ten are kept. What is shown is always the true beginning of the exchange's list: once an
//! order has fallen off the end, orders behind the last one kept are not taken in, since others may stand between.

use crate::book::BookSide;

/// Orders kept on each side.
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

const ZERO: Order = Order { id: 0, priority: 0, price: 0, quantity: 0 };

/// One side, sorted by price, then priority.
#[derive(Clone, Debug)]
struct Queue {
    orders: [Order; ORDER_DEPTH],
    len: u8,
    /// There may be more orders behind the last.
    trimmed: bool,
}

/// Both sides.
#[derive(Clone, Debug)]
pub(crate) struct OrderBook {
    sides: [Queue; 2],
}

impl Queue {
    const EMPTY: Queue = Queue { orders: [ZERO; ORDER_DEPTH], len: 0, trimmed: false };

    fn orders(&self) -> &[Order] {
        &self.orders[..usize::from(self.len).min(ORDER_DEPTH)]
    }

    fn insert(&mut self, side: BookSide, order: Order) {
        let before = |o: &Order| {
            side.is_better(o.price, order.price) || (o.price == order.price && o.priority <= order.priority)
        };
        let at = self.orders().partition_point(before);
        let len = usize::from(self.len);
        if at >= ORDER_DEPTH || (at == len && self.trimmed) {
            self.trimmed = true;
            return;
        }
        self.trimmed |= len == ORDER_DEPTH;
        let end = (len + 1).min(ORDER_DEPTH);
        self.orders.copy_within(at..end - 1, at + 1);
        self.orders[at] = order;
        self.len = end as u8;
    }

    fn remove(&mut self, id: u64) -> bool {
        let Some(at) = self.orders().iter().position(|o| o.id == id) else { return false };
        self.orders.copy_within(at + 1..usize::from(self.len), at);
        self.len -= 1;
        true
    }
}

impl OrderBook {
    pub(crate) const EMPTY: OrderBook = OrderBook { sides: [Queue::EMPTY; 2] };

    pub(crate) fn clear(&mut self) {
        for side in &mut self.sides {
            side.len = 0;
            side.trimmed = false;
        }
    }

    pub(crate) fn orders(&self, side: BookSide) -> &[Order] {
        self.sides[side as usize].orders()
    }

    /// One order of an overlay.
    pub(crate) fn add(&mut self, side: BookSide, order: Order) {
        self.sides[side as usize].insert(side, order);
    }

    /// An overlay is at its end. A side that it filled may have more orders behind.
    pub(crate) fn end_overlay(&mut self) {
        for side in &mut self.sides {
            side.trimmed |= usize::from(side.len) == ORDER_DEPTH;
        }
    }

    /// An order was added (0), changed (1) or deleted (2). A changed order may have moved; of one that was not kept, only
    /// the fact counts.
    pub(crate) fn update(&mut self, side: BookSide, act: u8, order: Order) {
        let queue = &mut self.sides[side as usize];
        match act {
            0 => {
                queue.remove(order.id);
                queue.insert(side, order);
            }
            1 => {
                queue.remove(order.id);
                queue.insert(side, order);
            }
            2 => {
                queue.remove(order.id);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    #[test]
    fn what_is_shown_is_the_beginning_of_the_true_list() {
        for seed in 0..200 {
            let mut prng = Prng::new(seed);
            let side = if seed % 2 == 0 { BookSide::Bid } else { BookSide::Offer };
            let mut book = OrderBook::EMPTY;
            let mut truth: Vec<Order> = Vec::new();
            for step in 0..400u64 {
                if prng.chance(0.55) || truth.is_empty() {
                    let order = Order { id: step, priority: step, price: prng.below(6) as i64, quantity: 1 };
                    truth.push(order);
                    book.update(side, 0, order);
                } else if prng.chance(0.5) {
                    let gone = truth.swap_remove(prng.below(truth.len() as u64) as usize);
                    book.update(side, 2, gone);
                } else {
                    let at = prng.below(truth.len() as u64) as usize;
                    truth[at] = Order { quantity: 1 + prng.below(9) as i64, ..truth[at] };
                    if prng.chance(0.3) {
                        truth[at].price = prng.below(6) as i64;
                        truth[at].priority = 1_000 + step;
                    }
                    book.update(side, 1, truth[at]);
                }
                truth.sort_by_key(|o| (if side == BookSide::Bid { -o.price } else { o.price }, o.priority));
                assert!(truth.starts_with(book.orders(side)), "seed {seed} step {step}");
            }
        }
    }

    #[test]
    fn an_overlay_sorts_interleaved_orders() {
        let mut book = OrderBook::EMPTY;
        for (id, price, priority) in [(1, 10, 5), (2, 10, 3), (3, 11, 9)] {
            book.add(BookSide::Bid, Order { id, priority, price, quantity: 1 });
        }
        book.end_overlay();
        assert_eq!(book.orders(BookSide::Bid).iter().map(|o| o.id).collect::<Vec<_>>(), [3, 2, 1]);
        assert!(book.orders(BookSide::Offer).is_empty());
    }
}
