//! Books of price levels: direct or implied, and the two merged.
//!
//! A ladder is a flat array, best level first. `New` and `Delete` shift what lies below, as the exchange's own book does,
//! so the levels need no sorting.

/// The most levels a ladder has.
pub const MAX_DEPTH: usize = 10;

/// The raw value of an absent `i32` field (number of orders, tradeable size).
pub const NULL_I32: i32 = i32::MAX;
/// The raw value of an absent price.
pub const NULL_PRICE: i64 = i64::MAX;

/// MDUpdateAction.
pub(crate) mod action {
    pub(crate) const NEW: u8 = 0;
    pub(crate) const CHANGE: u8 = 1;
    pub(crate) const DELETE: u8 = 2;
    pub(crate) const DELETE_THRU: u8 = 3;
    pub(crate) const DELETE_FROM: u8 = 4;
    pub(crate) const OVERLAY: u8 = 5;
}

/// MDEntryTypeBook.
pub(crate) mod entry_type {
    pub(crate) const BID: u8 = b'0';
    pub(crate) const OFFER: u8 = b'1';
    pub(crate) const IMPLIED_BID: u8 = b'E';
    pub(crate) const IMPLIED_OFFER: u8 = b'F';
    pub(crate) const BOOK_RESET: u8 = b'J';
    pub(crate) const MARKET_BEST_OFFER: u8 = b'w';
    pub(crate) const MARKET_BEST_BID: u8 = b'x';
}

/// A side of a book.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum BookSide {
    /// Buyers; the highest price is best.
    Bid = 0,
    /// Sellers; the lowest price is best.
    Offer = 1,
}

impl BookSide {
    /// True when price `a` stands before `b` on this side.
    pub const fn is_better(self, a: i64, b: i64) -> bool {
        match self {
            BookSide::Bid => a > b,
            BookSide::Offer => a < b,
        }
    }
}

/// One price level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Level {
    /// Price: a mantissa with the exponent -9. [`NULL_PRICE`] where the message had none.
    pub price: i64,
    /// Quantity at the price.
    pub quantity: i64,
    /// Orders at the price; [`NULL_I32`] where the message had none, as in implied books.
    pub orders: i32,
    /// Tradeable size; [`NULL_I32`] where the message had none.
    pub tradeable: i32,
}

impl Level {
    const ZERO: Level = Level { price: 0, quantity: 0, orders: 0, tradeable: 0 };
}

/// A level that a book cannot have now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no such level in the book now")]
pub(crate) struct LevelOutOfRange;

/// One side of one book. `known` and `filled` have a bit for each level and matter only while the ladder is being
/// refreshed: a level may be unknown, known to be empty, or known with its content.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Ladder {
    len: u8,
    depth: u8,
    known: u16,
    filled: u16,
    /// Of the book: TransactTime of the event that changed it last. It stands here, with the bids, since the line of a ladder's head
    /// is in the cache when a book is shown.
    transact_time_ns: u64,
    levels: [Level; MAX_DEPTH],
}

const fn mask(n: usize) -> u16 {
    ((1u32 << n) - 1) as u16
}

impl Ladder {
    const fn new(depth: u8) -> Self {
        Ladder { len: 0, depth, known: 0, filled: 0, transact_time_ns: 0, levels: [Level::ZERO; MAX_DEPTH] }
    }

    fn set_depth(&mut self, depth: u8) {
        let was_known = self.is_known();
        self.depth = depth.min(MAX_DEPTH as u8);
        let all = mask(usize::from(self.depth));
        self.len = self.len.min(self.depth);
        self.known = if was_known { all } else { self.known & all };
        self.filled &= all;
    }

    #[inline]
    fn clear(&mut self) {
        self.len = 0;
        self.known = mask(usize::from(self.depth));
        self.filled = 0;
    }

    fn forget(&mut self) {
        self.len = 0;
        self.known = 0;
        self.filled = 0;
    }

    fn is_known(&self) -> bool {
        self.known == mask(usize::from(self.depth))
    }

    #[inline]
    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels[..usize::from(self.len).min(MAX_DEPTH)]
    }

    /// Applies one action at `level` (from 1) to a ladder that is known throughout.
    #[inline]
    fn apply(&mut self, act: u8, level: u8, new: Level) -> Result<(), LevelOutOfRange> {
        let (len, depth) = (usize::from(self.len), usize::from(self.depth).min(MAX_DEPTH));
        let at = usize::from(level).wrapping_sub(1);
        match act {
            action::CHANGE if at < len => self.levels[at] = new,
            action::OVERLAY if at < len => self.levels[at] = new,
            action::NEW | action::OVERLAY if at <= len && at < depth => {
                let end = (len + 1).min(depth);
                self.levels.copy_within(at..end - 1, at + 1);
                self.levels[at] = new;
                self.len = end as u8;
            }
            action::DELETE if at < len => {
                self.levels.copy_within(at + 1..len, at);
                self.len -= 1;
            }
            action::DELETE_THRU => self.len = 0,
            action::DELETE_FROM if at < len => {
                self.levels.copy_within(at + 1..len, 0);
                self.len = (len - at - 1) as u8;
            }
            _ => return Err(LevelOutOfRange),
        }
        Ok(())
    }

    /// Applies one action to a ladder of which some levels are not known.
    fn refresh(&mut self, act: u8, level: u8, new: Level) -> Result<(), LevelOutOfRange> {
        let depth = usize::from(self.depth).min(MAX_DEPTH);
        let at = usize::from(level).wrapping_sub(1);
        if at >= depth && act != action::DELETE_THRU {
            return Err(LevelOutOfRange);
        }
        // A known empty level above a level that the exchange names would be a contradiction.
        let above = mask(at.min(depth));
        if act != action::DELETE_THRU && self.known & !self.filled & above != 0 {
            return Err(LevelOutOfRange);
        }
        let bit = 1u16 << at.min(15);
        match act {
            action::NEW => {
                self.levels.copy_within(at..depth - 1, at + 1);
                self.levels[at] = new;
                let up = |bits: u16| (bits & above) | ((bits & !above) << 1);
                self.known = (up(self.known) | bit) & mask(depth);
                self.filled = (up(self.filled) | bit) & mask(depth);
            }
            action::CHANGE | action::OVERLAY => {
                self.levels[at] = new;
                self.known |= bit;
                self.filled |= bit;
            }
            action::DELETE => {
                self.levels.copy_within(at + 1..depth, at);
                let down = |bits: u16| (bits & above) | ((bits >> 1) & !above);
                self.known = down(self.known) | (1 << (depth - 1));
                self.filled = down(self.filled) & mask(depth - 1);
            }
            action::DELETE_THRU => self.clear(),
            action::DELETE_FROM => {
                self.levels.copy_within(at + 1..depth, 0);
                self.known = (self.known >> (at + 1)) | (mask(depth) & !mask(depth - at - 1));
                self.filled >>= at + 1;
            }
            _ => return Err(LevelOutOfRange),
        }
        // Below a level that is known to be empty there is nothing.
        let empty = self.known & !self.filled & mask(depth);
        if empty != 0 {
            self.known |= mask(depth) & !mask(empty.trailing_zeros() as usize);
            self.filled &= mask(empty.trailing_zeros() as usize) | !mask(depth);
        }
        // What is shown is what is known from the top without a hole.
        self.len = (self.known & self.filled).trailing_ones() as u8;
        Ok(())
    }
}

/// Both sides of one book, and the market's best quotes where the feed has them.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Book {
    sides: [Ladder; 2],
    best: [Level; 2],
    has_best: [bool; 2],
}

impl Book {
    pub(crate) fn new(depth: u8) -> Self {
        let depth = depth.min(MAX_DEPTH as u8);
        let mut book = Book {
            sides: [Ladder::new(depth), Ladder::new(depth)],
            best: [Level::ZERO; 2],
            has_best: [false; 2],
        };
        book.clear();
        book
    }

    pub(crate) fn set_depth(&mut self, depth: u8) {
        self.sides.iter_mut().for_each(|side| side.set_depth(depth));
    }

    /// Makes a book that is kept deep enough for a level, if it can be.
    pub(crate) fn deepen(&mut self, level: u8) {
        let depth = self.sides[0].depth;
        if depth > 0 && level > depth && usize::from(level) <= MAX_DEPTH {
            self.set_depth(level);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.sides.iter_mut().for_each(Ladder::clear);
        self.has_best = [false; 2];
    }

    /// Every level becomes unknown.
    pub(crate) fn forget(&mut self) {
        self.sides.iter_mut().for_each(Ladder::forget);
        self.has_best = [false; 2];
    }

    /// TransactTime of the event that changed it last.
    #[inline]
    pub(crate) fn transact_time_ns(&self) -> u64 {
        self.sides[0].transact_time_ns
    }

    #[inline]
    pub(crate) fn set_transact_time(&mut self, ns: u64) {
        self.sides[0].transact_time_ns = ns;
    }

    pub(crate) fn is_known(&self) -> bool {
        self.sides.iter().all(Ladder::is_known)
    }

    #[inline]
    pub(crate) fn levels(&self, side: BookSide) -> &[Level] {
        self.sides[side as usize].levels()
    }

    pub(crate) fn market_best(&self, side: BookSide) -> Option<&Level> {
        self.has_best[side as usize].then(|| &self.best[side as usize])
    }

    /// Applies one action; levels that natural refresh has not named yet are taken care of.
    #[inline]
    pub(crate) fn apply(
        &mut self,
        side: BookSide,
        act: u8,
        level: u8,
        new: Level,
    ) -> Result<(), LevelOutOfRange> {
        let ladder = &mut self.sides[side as usize];
        if ladder.depth == 0 {
            // A book that is not kept.
            Ok(())
        } else if ladder.is_known() {
            ladder.apply(act, level, new)
        } else {
            ladder.refresh(act, level, new)
        }
    }

    pub(crate) fn set_market_best(&mut self, side: BookSide, act: u8, new: Level) {
        let gone = matches!(act, action::DELETE | action::DELETE_THRU | action::DELETE_FROM);
        self.has_best[side as usize] = !gone;
        self.best[side as usize] = new;
    }

    /// Puts a snapshot's level where its number says. Levels of a side come in order. The exchange's book is as deep as its snapshot, so
    /// this one becomes so.
    pub(crate) fn set_level(&mut self, side: BookSide, level: u8, new: Level) -> Result<(), LevelOutOfRange> {
        self.deepen(level);
        let ladder = &mut self.sides[side as usize];
        if level > ladder.depth { Ok(()) } else { ladder.apply(action::OVERLAY, level, new) }
    }
}

/// The merge of direct and implied levels: by price, quantities of one price added, best first.
#[derive(Clone, Debug)]
pub struct Consolidated<'a> {
    side: BookSide,
    direct: &'a [Level],
    implied: &'a [Level],
    left: usize,
}

impl<'a> Consolidated<'a> {
    /// Merges two ladders of one side, to [`MAX_DEPTH`] levels.
    pub fn new(side: BookSide, direct: &'a [Level], implied: &'a [Level]) -> Self {
        Consolidated { side, direct, implied, left: MAX_DEPTH }
    }
}

impl Iterator for Consolidated<'_> {
    type Item = Level;

    fn next(&mut self) -> Option<Level> {
        self.left = self.left.checked_sub(1)?;
        let (direct, implied) = (self.direct.first().copied(), self.implied.first().copied());
        let (take_direct, take_implied, level) = match (direct, implied) {
            (Some(d), Some(i)) if d.price == i.price => {
                (true, true, Level { quantity: d.quantity.saturating_add(i.quantity), ..d })
            }
            (Some(d), Some(i)) if self.side.is_better(d.price, i.price) => (true, false, d),
            (Some(d), None) => (true, false, d),
            (_, Some(i)) => (false, true, i),
            (None, None) => return None,
        };
        self.direct = &self.direct[usize::from(take_direct)..];
        self.implied = &self.implied[usize::from(take_implied)..];
        Some(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    fn level(price: i64) -> Level {
        Level { price, quantity: price * 2, orders: 1, tradeable: NULL_I32 }
    }

    fn prices(book: &Book, side: BookSide) -> Vec<i64> {
        book.levels(side).iter().map(|l| l.price).collect()
    }

    #[test]
    fn each_action_does_what_the_exchange_says() {
        let mut book = Book::new(3);
        let side = BookSide::Bid;
        for (i, price) in [100, 99, 98].into_iter().enumerate() {
            book.apply(side, action::NEW, i as u8 + 1, level(price)).unwrap();
        }
        book.apply(side, action::NEW, 2, level(995)).unwrap();
        assert_eq!(prices(&book, side), [100, 995, 99], "the level that falls off the depth is trimmed");
        book.apply(side, action::CHANGE, 3, level(97)).unwrap();
        assert_eq!(prices(&book, side), [100, 995, 97]);
        book.apply(side, action::DELETE, 1, level(0)).unwrap();
        assert_eq!(prices(&book, side), [995, 97]);
        book.apply(side, action::OVERLAY, 3, level(96)).unwrap();
        book.apply(side, action::OVERLAY, 1, level(101)).unwrap();
        assert_eq!(prices(&book, side), [101, 97, 96]);
        book.apply(side, action::DELETE_FROM, 2, level(0)).unwrap();
        assert_eq!(prices(&book, side), [96]);
        book.apply(side, action::DELETE_THRU, 1, level(0)).unwrap();
        assert!(prices(&book, side).is_empty());
    }

    #[test]
    fn levels_that_cannot_be_are_refused() {
        let mut book = Book::new(2);
        let side = BookSide::Offer;
        for (act, at) in [
            (action::CHANGE, 1),
            (action::DELETE, 1),
            (action::NEW, 2),
            (action::NEW, 0),
            (action::DELETE_FROM, 0),
            (action::OVERLAY, 3),
            (6, 1),
            (255, 255),
        ] {
            assert!(book.apply(side, act, at, level(1)).is_err(), "action {act} level {at}");
        }
        assert!(book.levels(side).is_empty());
    }

    #[test]
    fn consolidated_merges_by_price() {
        let (direct, implied) = ([level(10), level(8)], [level(9), level(8), level(7)]);
        let merged: Vec<_> = Consolidated::new(BookSide::Bid, &direct, &implied).collect();
        assert_eq!(
            merged.iter().map(|l| (l.price, l.quantity)).collect::<Vec<_>>(),
            [(10, 20), (9, 18), (8, 32), (7, 14)]
        );
        let full: Vec<_> = (0..MAX_DEPTH as i64).map(level).collect();
        assert_eq!(Consolidated::new(BookSide::Offer, &full, &full[..3]).count(), MAX_DEPTH);
        let lower: Vec<_> = (-3..0).map(level).collect();
        assert_eq!(Consolidated::new(BookSide::Offer, &full, &lower).count(), MAX_DEPTH);
    }

    /// A ladder that starts unknown shows at every step a prefix of the true one, and when it says that it is known, the
    /// whole.
    #[test]
    fn refresh_converges_on_the_truth() {
        for seed in 0..300 {
            let mut prng = Prng::new(seed);
            let depth = 1 + prng.below(MAX_DEPTH as u64) as u8;
            let (mut truth, mut seen) = (Book::new(depth), Book::new(depth));
            let mut completed = false;
            let side = BookSide::Bid;
            for step in 0..3_000 {
                if step == 50 {
                    seen.forget();
                }
                let len = truth.levels(side).len() as u64;
                let (act, at) = match prng.below(if step > 2_000 { 40 } else { 39 }) {
                    0..=13 => (action::NEW, 1 + prng.below((len + 1).min(u64::from(depth)))),
                    14..=28 if len > 0 => (action::CHANGE, 1 + prng.below(len)),
                    29..=36 if len > 0 => (action::DELETE, 1 + prng.below(len)),
                    37 if len > 0 => (action::DELETE_FROM, 1 + prng.below(len)),
                    38 if len > 0 => (action::OVERLAY, 1 + prng.below(len)),
                    39 => (action::DELETE_THRU, 1),
                    _ => continue,
                };
                let new = level(prng.below(1 << 40) as i64);
                truth.apply(side, act, at as u8, new).unwrap();
                if step < 50 {
                    seen.apply(side, act, at as u8, new).unwrap();
                    continue;
                }
                seen.apply(side, act, at as u8, new)
                    .unwrap_or_else(|e| panic!("seed {seed} step {step}: {e}"));
                let (t, s) = (truth.levels(side), seen.levels(side));
                assert!(t.starts_with(s), "seed {seed} step {step}");
                if seen.sides[0].is_known() {
                    assert_eq!(t, s, "seed {seed} step {step}");
                    completed = true;
                }
            }
            assert!(completed, "seed {seed}: never complete");
        }
    }

    #[test]
    fn no_action_at_any_level_panics() {
        for seed in 0..200 {
            let mut prng = Prng::new(seed);
            let mut book = Book::new(prng.below(12) as u8);
            if prng.chance(0.5) {
                book.forget();
            }
            for _ in 0..500 {
                let (act, at) = (prng.below(8) as u8, prng.below(14) as u8);
                let new = level(prng.next_u64() as i64 >> 2);
                let _ = book.apply(BookSide::Bid, act, at, new);
                assert!(book.levels(BookSide::Bid).len() <= MAX_DEPTH);
            }
        }
    }
}
