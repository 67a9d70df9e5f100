//! The market behind the feed: instruments with orders, and what happens to them.

use super::book::Level;
use super::config::EmulatorConfig;
use super::definition::TruthDefinition;
use barewire_base::Prng;
use barewire_sbe::mdp3::SecurityTradingStatus;

/// Orders of one side, at most: more than are published, so that levels come up from below.
const ORDERS_MAX: usize = 40;
/// Orders of each side that are published (MBOLD).
pub(crate) const TOP_ORDERS: usize = 10;
/// Implied levels of each side.
const IMPLIED_DEPTH: u64 = 2;
/// Levels away from the best that a new order may be.
const REACH: u64 = 14;

/// One order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    pub id: u64,
    pub priority: u64,
    pub price_e9: i64,
    pub quantity: u32,
}

/// A trade not yet published.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trade {
    pub price_e9: i64,
    pub quantity: u64,
    /// The aggressor bought.
    pub buy: bool,
    pub resting: u64,
    pub aggressor: u64,
}

/// Bids, then offers.
pub(crate) const BID: usize = 0;
pub(crate) const OFFER: usize = 1;

/// Prices of the session, once there are any.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Session {
    pub open_e9: Option<i64>,
    pub high_e9: Option<i64>,
    pub low_e9: Option<i64>,
    pub last_e9: Option<i64>,
    pub last_quantity: u64,
    pub volume: u64,
    pub trades: u64,
}

/// Limits of the price.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub high_e9: i64,
    pub low_e9: i64,
    pub variation_e9: i64,
}

/// One instrument: the market's own view, and what of it has been published.
#[derive(Clone, Debug)]
pub(crate) struct Instrument {
    pub id: i32,
    pub symbol: String,
    pub group: String,
    pub asset: String,
    pub long: bool,
    pub top_orders: bool,
    pub every_order: bool,
    pub implied: bool,
    pub tick_e9: i64,
    /// False of one that has been deleted; how often its id was given to another before; when its definition changed last.
    pub listed: bool,
    pub listing: u32,
    pub defined_ns: u64,
    pub definition: TruthDefinition,
    middle_e9: i64,
    /// Sorted, best first.
    orders: [Vec<Order>; 2],
    implied_now: [Vec<Level>; 2],
    /// Not yet published.
    pub trades: Vec<Trade>,
    pub dirty: bool,
    /// Published.
    pub book: [Vec<Level>; 2],
    pub implied_book: [Vec<Level>; 2],
    pub top: [Vec<Order>; 2],
    pub session: Session,
    pub settlement_e9: Option<i64>,
    pub limits: Limits,
    pub status: SecurityTradingStatus,
    pub rpt_seq: u32,
    pub last_update_ns: u64,
}

/// Numbers that are given out once over all instruments.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    order: u64,
    pub trade: u32,
}

impl Numbers {
    fn order(&mut self) -> u64 {
        self.order += 1;
        self.order
    }
}

impl Instrument {
    /// The number of its next entry.
    pub(crate) fn next_rpt_seq(&mut self) -> u32 {
        self.rpt_seq += 1;
        self.rpt_seq
    }

    /// The instrument of this place, beside `others`; `listing` counts those that had its id before.
    pub(crate) fn new(
        config: &EmulatorConfig,
        index: u32,
        listing: u32,
        others: &[Instrument],
        prng: &mut Prng,
    ) -> Instrument {
        let long = prng.chance(config.long_quantity_share);
        let top_orders = prng.chance(config.top_orders_share) && !config.every_order;
        let implied = prng.chance(config.implied_share);
        let product = index / 8 % 26;
        let letter = char::from(b'A' + product as u8);
        let tick_e9 = [1_000_000, 7_812_500, 250_000_000, 10_000][prng.below(4) as usize];
        let middle_e9 = tick_e9 * (2_000 + prng.below(50_000) as i64);
        let span = tick_e9 * 1_000;
        let definition = TruthDefinition::draw(config, long, middle_e9, tick_e9, others, prng);
        let again = if listing > 0 { format!("R{listing}") } else { String::new() };
        Instrument {
            id: config.first_security_id + index as i32,
            symbol: format!("BW{letter}{index}{again}"),
            group: format!("B{letter}"),
            asset: format!("BW{letter}"),
            long,
            top_orders,
            every_order: config.every_order,
            implied,
            tick_e9,
            listed: true,
            listing,
            defined_ns: config.epoch_ns,
            definition,
            middle_e9,
            orders: [Vec::with_capacity(ORDERS_MAX), Vec::with_capacity(ORDERS_MAX)],
            implied_now: [Vec::new(), Vec::new()],
            trades: Vec::new(),
            dirty: false,
            book: [Vec::new(), Vec::new()],
            implied_book: [Vec::new(), Vec::new()],
            top: [Vec::new(), Vec::new()],
            session: Session::default(),
            settlement_e9: None,
            limits: Limits {
                high_e9: middle_e9 + span,
                low_e9: middle_e9 - span,
                variation_e9: 20 * tick_e9,
            },
            status: SecurityTradingStatus::READY_TO_TRADE,
            rpt_seq: 0,
            last_update_ns: 0,
        }
    }

    /// Something happens to the orders.
    pub(crate) fn act(&mut self, prng: &mut Prng, numbers: &mut Numbers) {
        let side = prng.below(2) as usize;
        match prng.below(100) {
            0..50 => self.add(side, prng, numbers),
            50..72 => self.cancel(side, prng),
            72..86 => self.modify(side, prng),
            86..97 => self.trade(side, prng, numbers),
            97 => self.sweep(side, prng),
            _ => self.middle_e9 += self.tick_e9 * (prng.below(5) as i64 - 2),
        }
        if self.implied && prng.chance(0.2) {
            self.draw_implied(prng);
        }
    }

    /// Orders until each side has some depth.
    pub(crate) fn fill(&mut self, prng: &mut Prng, numbers: &mut Numbers) {
        for _ in 0..20 {
            self.add(BID, prng, numbers);
            self.add(OFFER, prng, numbers);
        }
        if self.implied {
            self.draw_implied(prng);
        }
    }

    fn quantity(&self, prng: &mut Prng) -> u32 {
        if self.long { 1 + prng.below(100_000_000) as u32 } else { 1 + prng.below(500) as u32 }
    }

    fn add(&mut self, side: usize, prng: &mut Prng, numbers: &mut Numbers) {
        if self.orders[side].len() == ORDERS_MAX {
            return self.cancel(side, prng);
        }
        let away = self.tick_e9 * prng.below(REACH).min(prng.below(REACH)) as i64;
        let other = self.orders[1 - side].first().map(|order| order.price_e9);
        let price_e9 = if side == BID {
            other.map_or(self.middle_e9, |offer| (offer - self.tick_e9).min(self.middle_e9)) - away
        } else {
            other.map_or(self.middle_e9 + self.tick_e9, |bid| (bid + self.tick_e9).max(self.middle_e9)) + away
        };
        let order =
            Order { id: numbers.order(), priority: numbers.order(), price_e9, quantity: self.quantity(prng) };
        self.insert(side, order);
    }

    fn insert(&mut self, side: usize, order: Order) {
        let orders = &mut self.orders[side];
        // Behind those of its price: it came last.
        let at = orders.partition_point(|o| {
            if side == BID { o.price_e9 >= order.price_e9 } else { o.price_e9 <= order.price_e9 }
        });
        orders.insert(at, order);
    }

    fn pick(&self, side: usize, prng: &mut Prng) -> Option<usize> {
        let count = self.orders[side].len() as u64;
        (count > 0).then(|| prng.below(count) as usize)
    }

    fn cancel(&mut self, side: usize, prng: &mut Prng) {
        if let Some(at) = self.pick(side, prng) {
            self.orders[side].remove(at);
        }
    }

    /// The best levels vanish, or all.
    fn sweep(&mut self, side: usize, prng: &mut Prng) {
        let all = prng.chance(0.3);
        let count = if all { self.orders[side].len() } else { self.orders[side].len() / 3 };
        self.orders[side].drain(..count);
    }

    fn modify(&mut self, side: usize, prng: &mut Prng) {
        let quantity = self.quantity(prng);
        if let Some(at) = self.pick(side, prng) {
            self.orders[side][at].quantity = quantity;
        }
    }

    fn trade(&mut self, side: usize, prng: &mut Prng, numbers: &mut Numbers) {
        let Some(best) = self.orders[side].first_mut() else { return };
        let quantity = 1 + prng.below(u64::from(best.quantity)) as u32;
        let trade = Trade {
            price_e9: best.price_e9,
            quantity: quantity.into(),
            buy: side == OFFER,
            resting: best.id,
            aggressor: numbers.order(),
        };
        best.quantity -= quantity;
        if best.quantity == 0 {
            self.orders[side].remove(0);
        }
        self.middle_e9 = trade.price_e9;
        self.trades.push(trade);
    }

    fn draw_implied(&mut self, prng: &mut Prng) {
        for side in [BID, OFFER] {
            let direction = if side == BID { -1 } else { 1 };
            let mut price_e9 = self.middle_e9 + direction * self.tick_e9;
            self.implied_now[side].clear();
            for _ in 0..prng.below(IMPLIED_DEPTH + 1) {
                let quantity = self.quantity(prng).into();
                self.implied_now[side].push(Level { price_e9, quantity, orders: None });
                price_e9 += direction * self.tick_e9 * (1 + prng.below(3) as i64);
            }
        }
    }

    /// The best levels of a side, from its orders.
    pub(crate) fn levels(&self, side: usize, depth: usize) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::with_capacity(depth);
        for order in &self.orders[side] {
            let full = levels.len() == depth;
            match levels.last_mut() {
                Some(level) if level.price_e9 == order.price_e9 => {
                    level.quantity += u64::from(order.quantity);
                    level.orders = level.orders.map(|orders| orders + 1);
                }
                _ if full => break,
                _ => levels.push(Level {
                    price_e9: order.price_e9,
                    quantity: order.quantity.into(),
                    orders: Some(1),
                }),
            }
        }
        levels
    }

    /// The implied levels of a side.
    pub(crate) fn implied_levels(&self, side: usize) -> &[Level] {
        &self.implied_now[side]
    }

    /// The orders of a side that are published: all of them, or the best.
    pub(crate) fn published_orders(&self, side: usize) -> &[Order] {
        let orders = &self.orders[side];
        let most = if self.every_order { orders.len() } else { TOP_ORDERS };
        &orders[..orders.len().min(most)]
    }

    /// Whether a book by order of it has anything to say: it has orders or levels.
    pub(crate) fn has_orders(&self) -> bool {
        self.listed
            && [BID, OFFER].iter().any(|&side| !self.top[side].is_empty() || !self.book[side].is_empty())
    }

    /// All orders are gone.
    pub(crate) fn clear_orders(&mut self) {
        for side in [BID, OFFER] {
            self.orders[side].clear();
            self.implied_now[side].clear();
        }
        self.trades.clear();
    }

    /// It is deleted, and its books with it.
    pub(crate) fn delist(&mut self) {
        self.reset();
        self.clear_orders();
        self.listed = false;
    }

    /// Forgets what has been published: a channel reset.
    pub(crate) fn reset(&mut self) {
        for side in [BID, OFFER] {
            self.book[side].clear();
            self.implied_book[side].clear();
            self.top[side].clear();
        }
        self.session = Session::default();
        self.settlement_e9 = None;
        self.rpt_seq = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_never_cross_and_stay_sorted() {
        let seed = 0xfeed_0003;
        let mut prng = Prng::new(seed);
        let config = EmulatorConfig { implied_share: 1.0, ..EmulatorConfig::default() };
        let (mut most, mut empty, mut trades) = (0, 0, 0);
        for index in 0..8 {
            let mut instrument = Instrument::new(&config, index, 0, &[], &mut prng);
            let mut numbers = Numbers::default();
            instrument.fill(&mut prng, &mut numbers);
            for step in 0..4_000 {
                instrument.act(&mut prng, &mut numbers);
                trades += instrument.trades.drain(..).count();
                let (bids, offers) = (instrument.levels(BID, 10), instrument.levels(OFFER, 10));
                assert!(bids.windows(2).all(|w| w[0].price_e9 > w[1].price_e9), "seed {seed} step {step}");
                assert!(offers.windows(2).all(|w| w[0].price_e9 < w[1].price_e9), "seed {seed} step {step}");
                if let (Some(bid), Some(offer)) = (bids.first(), offers.first()) {
                    assert!(bid.price_e9 < offer.price_e9, "seed {seed} step {step}");
                }
                most = most.max(bids.len());
                empty += usize::from(bids.is_empty());
            }
        }
        assert!(most == 10 && empty > 0 && trades > 100, "{most} levels, {empty} empty, {trades} trades");
    }
}
