//! Room for orders: blocks of one region that is taken at start.
//!
//! A side of a book by order is one run of orders, best first, inside a block of 16, 32, 64, ... orders; so it is shown as a slice and
//! searched by bisection. Blocks are split and merged in halves (a buddy allocator), and nothing is allocated after start.

use crate::orders::Order;

/// Orders of the smallest block: enough for the ten of an overlay.
const UNIT: usize = 16;
/// Blocks have `UNIT << class` orders; the largest holds [`MAX_SIDE_ORDERS`].
const CLASSES: usize = 12;
/// The most orders of one side of one instrument.
pub const MAX_SIDE_ORDERS: usize = UNIT << (CLASSES - 1);

const NIL: u32 = u32::MAX;
/// No free block begins here.
const TAKEN: u8 = u8::MAX;

const ZERO: Order = Order { id: 0, priority: 0, price: 0, quantity: 0 };

/// What is known of a unit: whether a free block begins there, and its neighbours in the list of its class.
#[derive(Clone, Copy, Debug)]
struct Unit {
    class: u8,
    next: u32,
    before: u32,
}

/// A run of orders in a block of the arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// First unit of the block.
    block: u32,
    /// Place of the first order within the block.
    start: u32,
    len: u32,
    class: u8,
    /// There may be more orders behind the last, of which nothing is known.
    pub(crate) trimmed: bool,
}

impl Run {
    pub(crate) const EMPTY: Run = Run { block: NIL, start: 0, len: 0, class: 0, trimmed: false };

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    fn capacity(&self) -> usize {
        if self.block == NIL { 0 } else { UNIT << self.class }
    }

    fn first(&self) -> usize {
        self.block as usize * UNIT + self.start as usize
    }
}

/// There is no room for an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoRoom;

/// All blocks.
#[derive(Debug)]
pub(crate) struct Arena {
    orders: Box<[Order]>,
    units: Box<[Unit]>,
    /// First free block of each class.
    free: [u32; CLASSES],
    used: usize,
}

impl Arena {
    /// Room for `orders` orders, rounded down to whole units.
    pub(crate) fn new(orders: usize) -> Self {
        let count = orders / UNIT;
        let mut arena = Arena {
            orders: vec![ZERO; count * UNIT].into(),
            units: vec![Unit { class: TAKEN, next: NIL, before: NIL }; count].into(),
            free: [NIL; CLASSES],
            used: 0,
        };
        let mut at = 0;
        while at < count {
            let fits = |class: &usize| at.is_multiple_of(1 << class) && at + (1 << class) <= count;
            let class = (0..CLASSES).rev().find(fits).unwrap_or(0);
            arena.put(at, class);
            at += 1 << class;
        }
        arena
    }

    /// Orders that the blocks in use have room for.
    /// Orders that the blocks in use have room for.
    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// The orders of a run, best first.
    #[inline]
    pub(crate) fn orders(&self, run: &Run) -> &[Order] {
        self.orders.get(run.first()..run.first() + run.len()).unwrap_or(&[])
    }

    /// An order of a run, to change.
    pub(crate) fn order_mut(&mut self, run: &Run, at: usize) -> Option<&mut Order> {
        if at >= run.len() {
            return None;
        }
        self.orders.get_mut(run.first() + at)
    }

    /// Puts an order at its place. The fewer of the orders before and behind it are moved.
    pub(crate) fn insert(&mut self, run: &mut Run, at: usize, order: Order) -> Result<(), NoRoom> {
        let len = run.len();
        if len == run.capacity() {
            self.grow(run)?;
        }
        let (start, spare) = (run.start as usize, run.capacity() - len);
        let to_front = at * 2 <= len;
        // A run that has come to the end of its block moves to the middle, once for as many orders as there is room.
        if to_front && start == 0 {
            self.place(run, spare.div_ceil(2));
        } else if !to_front && start == spare {
            self.place(run, spare / 2);
        }
        let first = run.first();
        if to_front {
            self.orders.copy_within(first..first + at, first - 1);
            run.start -= 1;
        } else {
            self.orders.copy_within(first + at..first + len, first + at + 1);
        }
        run.len += 1;
        let place = run.first() + at;
        self.orders[place] = order;
        Ok(())
    }

    /// Takes an order out.
    pub(crate) fn remove(&mut self, run: &mut Run, at: usize) {
        let (first, len) = (run.first(), run.len());
        if at >= len {
            return;
        }
        if at * 2 < len {
            self.orders.copy_within(first..first + at, first + 1);
            run.start += 1;
        } else {
            self.orders.copy_within(first + at + 1..first + len, first + at);
        }
        run.len -= 1;
        if run.class > 0 && run.len() * 4 <= run.capacity() {
            self.shrink(run);
        }
    }

    /// Gives a run's block back. The run is empty then.
    pub(crate) fn release(&mut self, run: &mut Run) {
        if run.block != NIL {
            self.used -= run.capacity();
            self.give(run.block as usize, usize::from(run.class));
        }
        *run = Run::EMPTY;
    }

    /// Moves a run within its block.
    fn place(&mut self, run: &mut Run, start: usize) {
        let (first, len) = (run.first(), run.len());
        run.start = start as u32;
        self.orders.copy_within(first..first + len, run.first());
    }

    fn grow(&mut self, run: &mut Run) -> Result<(), NoRoom> {
        let class = if run.block == NIL { 0 } else { usize::from(run.class) + 1 };
        self.resize(run, class)
    }

    /// Half the room is enough. Where there is no such block the run stays where it is.
    #[cold]
    fn shrink(&mut self, run: &mut Run) {
        let _ = self.resize(run, usize::from(run.class) - 1);
    }

    #[cold]
    fn resize(&mut self, run: &mut Run, class: usize) -> Result<(), NoRoom> {
        let block = self.take(class).ok_or(NoRoom)?;
        let (from, len) = (run.first(), run.len());
        let mut moved = Run { block: block as u32, class: class as u8, ..*run };
        self.used += moved.capacity();
        moved.start = ((moved.capacity() - len) / 2) as u32;
        if run.block != NIL {
            self.orders.copy_within(from..from + len, moved.first());
            self.release(run);
        }
        *run = moved;
        Ok(())
    }

    /// A block of this class, cut off a larger one where there is none.
    fn take(&mut self, class: usize) -> Option<usize> {
        let mut from = (class..CLASSES).find(|&c| self.free[c] != NIL)?;
        let at = self.free[from] as usize;
        self.unlink(at);
        while from > class {
            from -= 1;
            self.put(at + (1 << from), from);
        }
        Some(at)
    }

    /// Takes a block back, together with its free neighbours.
    fn give(&mut self, mut at: usize, mut class: usize) {
        while class + 1 < CLASSES {
            let other = at ^ (1 << class);
            if self.units.get(other).is_none_or(|unit| usize::from(unit.class) != class) {
                break;
            }
            self.unlink(other);
            at &= !(1 << class);
            class += 1;
        }
        self.put(at, class);
    }

    fn put(&mut self, at: usize, class: usize) {
        let next = self.free[class];
        self.units[at] = Unit { class: class as u8, next, before: NIL };
        if let Some(unit) = self.units.get_mut(next as usize) {
            unit.before = at as u32;
        }
        self.free[class] = at as u32;
    }

    fn unlink(&mut self, at: usize) {
        let Unit { class, next, before } = self.units[at];
        if let Some(unit) = self.units.get_mut(next as usize) {
            unit.before = before;
        }
        match self.units.get_mut(before as usize) {
            Some(unit) => unit.next = next,
            None => self.free[usize::from(class)] = next,
        }
        self.units[at].class = TAKEN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    fn order(id: u64) -> Order {
        Order { id, ..ZERO }
    }

    #[test]
    fn runs_keep_their_orders_and_the_arena_its_blocks() {
        for seed in 0..40 {
            let mut prng = Prng::new(seed);
            let mut arena = Arena::new(UNIT * (40 + prng.below(60) as usize));
            let mut runs = [Run::EMPTY; 5];
            let mut models: [Vec<u64>; 5] = Default::default();
            let mut refused = 0;
            for step in 0..6_000u64 {
                let which = prng.below(5) as usize;
                let (run, model) = (&mut runs[which], &mut models[which]);
                // Long runs come and go.
                let adds = if step / 500 % 2 == 0 { 0.7 } else { 0.35 };
                if prng.chance(adds) {
                    let at = [0, model.len(), prng.below(model.len() as u64 + 1) as usize];
                    let at = at[prng.below(3) as usize];
                    match arena.insert(run, at, order(step)) {
                        Ok(()) => model.insert(at, step),
                        Err(NoRoom) => refused += 1,
                    }
                } else if prng.chance(0.01) {
                    arena.release(run);
                    model.clear();
                } else if !model.is_empty() {
                    let at = prng.below(model.len() as u64) as usize;
                    model.remove(at);
                    arena.remove(run, at);
                }
                for (run, model) in runs.iter().zip(&models) {
                    assert!(arena.orders(run).iter().map(|o| o.id).eq(model.iter().copied()), "seed {seed}");
                }
                let taken: usize = runs.iter().map(Run::capacity).sum();
                assert_eq!(arena.used(), taken, "seed {seed} step {step}");
            }
            assert!(refused > 0 || seed % 2 == 1 || arena.used() > 0, "seed {seed}");
            // Everything that was given back is one whole again.
            runs.iter_mut().for_each(|run| arena.release(run));
            let fresh = Arena::new(arena.orders.len());
            let lens = |arena: &Arena| {
                (0..CLASSES)
                    .map(|class| arena.units.iter().filter(|unit| usize::from(unit.class) == class).count())
                    .collect::<Vec<_>>()
            };
            assert_eq!((arena.used(), lens(&arena)), (0, lens(&fresh)), "seed {seed}");
        }
    }

    #[test]
    fn a_side_has_its_limit_and_an_empty_arena_none() {
        let mut arena = Arena::new(4 * MAX_SIDE_ORDERS);
        let mut run = Run::EMPTY;
        for id in 0..MAX_SIDE_ORDERS as u64 {
            assert_eq!(arena.insert(&mut run, 0, order(id)), Ok(()));
        }
        assert_eq!(arena.insert(&mut run, 7, order(1)), Err(NoRoom));
        assert_eq!(arena.orders(&run).len(), MAX_SIDE_ORDERS);
        let mut none = Arena::new(UNIT - 1);
        assert_eq!(none.insert(&mut Run::EMPTY.clone(), 0, order(1)), Err(NoRoom));
        assert!(none.orders(&Run::EMPTY).is_empty());
    }
}
