//! A handler's books beside the truth.

use super::book::Level;
use super::definition::TruthDefinition;
use super::truth::{TopOrder, Truth, TruthBook};
use barewire_feed::{BookSide, BookView, Channel, NULL_I32, StatisticKind};
use std::fmt;

/// Something of an instrument that is not the truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// SecurityID.
    pub security_id: i32,
    /// What differs: `state`, `bids`, `volume`.
    pub what: &'static str,
    /// What it is.
    pub ours: String,
    /// What it must be.
    pub truth: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { security_id, what, ours, truth } = self;
        write!(f, "instrument {security_id}: {what} is {ours}, must be {truth}")
    }
}

/// One side of a book of ours in the emulator's terms.
pub fn levels(levels: &[barewire_feed::Level]) -> Vec<Level> {
    let one = |level: &barewire_feed::Level| Level {
        price_e9: level.price,
        quantity: level.quantity as u64,
        orders: (level.orders != NULL_I32).then_some(level.orders as u32),
    };
    levels.iter().map(one).collect()
}

fn top(orders: &[barewire_feed::Order]) -> Vec<TopOrder> {
    let one = |order: &barewire_feed::Order| TopOrder {
        order_id: order.id,
        priority: order.priority,
        price_e9: order.price,
        quantity: u32::try_from(order.quantity).unwrap_or(u32::MAX),
    };
    orders.iter().map(one).collect()
}

impl Truth {
    /// Everything in which the channel's books and statistics differ from the truth, and its definitions where it has heard
    /// their loop in full. Where it has not, an instrument that nothing has happened to may be unknown, and one that is deleted
    /// may still have books, if these are empty. `statistics`: compare these too (volume, open, high, low, settlement).
    pub fn compare(&self, channel: &Channel, statistics: bool) -> Vec<Difference> {
        let mut found = Vec::new();
        let defined = channel.definitions_complete();
        for truth in &self.books {
            match channel.book(truth.security_id) {
                Some(book) if truth.deleted && defined => found.push(Difference {
                    security_id: truth.security_id,
                    what: "instrument",
                    ours: book.instrument.symbol.to_string(),
                    truth: "deleted".into(),
                }),
                Some(book) => {
                    compare(truth, &book, channel, statistics && !truth.deleted, &mut found);
                    if defined {
                        compare_definition(truth, book.instrument, &mut found);
                    }
                }
                None if truth.deleted || truth.rpt_seq == 0 && !defined => {}
                None => found.push(Difference {
                    security_id: truth.security_id,
                    what: "instrument",
                    ours: "unknown".into(),
                    truth: truth.symbol.clone(),
                }),
            }
        }
        found
    }
}

fn compare_definition(
    truth: &TruthBook,
    instrument: &barewire_feed::Instrument,
    found: &mut Vec<Difference>,
) {
    let ours = (
        instrument.symbol.as_str(),
        instrument.group.as_str(),
        instrument.asset.as_str(),
        &TruthDefinition::known(instrument),
    );
    let must = (truth.symbol.as_str(), truth.group.as_str(), truth.asset.as_str(), &truth.definition);
    if ours != must {
        let (ours, truth_is) = (format!("{ours:?}"), format!("{must:?}"));
        let security_id = truth.security_id;
        found.push(Difference { security_id, what: "definition", ours, truth: truth_is });
    }
}

fn compare(
    truth: &TruthBook,
    book: &BookView<'_>,
    channel: &Channel,
    statistics: bool,
    found: &mut Vec<Difference>,
) {
    let mut same = |what, ours: &dyn fmt::Debug, must: &dyn fmt::Debug| {
        let (ours, must) = (format!("{ours:?}"), format!("{must:?}"));
        if ours != must {
            found.push(Difference { security_id: truth.security_id, what, ours, truth: must });
        }
    };
    // What nothing is known of is an empty book that nothing has happened to, too.
    if truth.rpt_seq > 0 {
        same("state", &book.state.is_good(), &true);
        // The book's is that of its own last entry: trades and statistics may have come after it.
        same("rpt_seq", &book.rpt_seq.min(truth.rpt_seq), &book.rpt_seq);
    }
    same("bids", &levels(book.bids()), &truth.bids);
    same("offers", &levels(book.offers()), &truth.offers);
    same("implied bids", &levels(book.implied(BookSide::Bid)), &truth.implied_bids);
    same("implied offers", &levels(book.implied(BookSide::Offer)), &truth.implied_offers);
    if truth.has_top_orders && channel.config().orders {
        same("top bids", &top(book.orders(BookSide::Bid)), &truth.top_bids);
        same("top offers", &top(book.orders(BookSide::Offer)), &truth.top_offers);
    }
    if !statistics {
        return;
    }
    let known = channel.statistics(truth.security_id);
    let price = |kind| known.and_then(|s| s.get(kind)).map(|s| s.price);
    same("open", &price(StatisticKind::Open), &truth.open_e9);
    same("high", &price(StatisticKind::High), &truth.high_e9);
    same("low", &price(StatisticKind::Low), &truth.low_e9);
    same("settlement", &price(StatisticKind::Settlement), &truth.settlement_e9);
    let volume = known.and_then(|s| s.get(StatisticKind::Volume)).and_then(|s| s.quantity);
    same("volume", &volume.unwrap_or(0), &truth.volume);
}
