//! The truth beside the feed: what every book must be in the end, as JSON lines.
//!
//! The first line is the [`TruthHeader`], each other one a [`TruthBook`]. Prices are whole numbers of 10^-9.

use super::book::Level;
use super::definition::TruthDefinition;
use super::market::{BID, Instrument, OFFER, Order};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

/// What the truth is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthHeader {
    /// The exchange's number of the channel.
    pub channel_id: u16,
    /// The seed.
    pub seed: u64,
    /// MsgSeqNum of the last incremental packet.
    pub last_seq_num: u32,
    /// Incremental packets that were sent (on each line).
    pub packets: u64,
    /// Channel resets that there were.
    pub resets: u64,
    /// Weeks that began.
    pub weeks: u64,
}

/// One order of the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopOrder {
    /// OrderID.
    pub order_id: u64,
    /// MDOrderPriority.
    pub priority: u64,
    /// The price in units of 10^-9.
    pub price_e9: i64,
    /// MDDisplayQty.
    pub quantity: u32,
}

/// What one instrument must be in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruthBook {
    /// SecurityID.
    pub security_id: i32,
    /// Symbol.
    pub symbol: String,
    /// SecurityGroup.
    pub group: String,
    /// Asset.
    pub asset: String,
    /// Whether it has been deleted: then there must be nothing of it.
    pub deleted: bool,
    /// What its definition says.
    pub definition: TruthDefinition,
    /// RptSeq of the last entry; zero when there was none since the start or the last reset.
    pub rpt_seq: u32,
    /// SecurityTradingStatus.
    pub status: u8,
    /// Direct bids, best first.
    pub bids: Vec<Level>,
    /// Direct offers, best first.
    pub offers: Vec<Level>,
    /// Implied bids.
    pub implied_bids: Vec<Level>,
    /// Implied offers.
    pub implied_offers: Vec<Level>,
    /// Whether the top orders are published.
    pub has_top_orders: bool,
    /// Top bids by price, then priority.
    pub top_bids: Vec<TopOrder>,
    /// Top offers.
    pub top_offers: Vec<TopOrder>,
    /// Traded quantity of the session, as published.
    pub volume: u64,
    /// Trades since the start or the last reset.
    pub trades: u64,
    /// First traded price.
    pub open_e9: Option<i64>,
    /// Highest traded price.
    pub high_e9: Option<i64>,
    /// Lowest traded price.
    pub low_e9: Option<i64>,
    /// Last traded price.
    pub last_e9: Option<i64>,
    /// Settlement price.
    pub settlement_e9: Option<i64>,
    /// HighLimitPrice.
    pub limit_high_e9: i64,
    /// LowLimitPrice.
    pub limit_low_e9: i64,
    /// MaxPriceVariation.
    pub variation_e9: i64,
}

/// Header and books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truth {
    /// What it is about.
    pub header: TruthHeader,
    /// One for each instrument that ever was, by SecurityID.
    pub books: Vec<TruthBook>,
}

impl TruthBook {
    pub(crate) fn of(instrument: &Instrument) -> TruthBook {
        let top = |orders: &[Order]| {
            let order = |o: &Order| TopOrder {
                order_id: o.id,
                priority: o.priority,
                price_e9: o.price_e9,
                quantity: o.quantity,
            };
            orders.iter().map(order).collect()
        };
        let Instrument { session, limits, .. } = instrument;
        TruthBook {
            security_id: instrument.id,
            symbol: instrument.symbol.clone(),
            group: instrument.group.clone(),
            asset: instrument.asset.clone(),
            deleted: !instrument.listed,
            definition: instrument.definition.clone(),
            rpt_seq: instrument.rpt_seq,
            status: instrument.status.0,
            bids: instrument.book[BID].clone(),
            offers: instrument.book[OFFER].clone(),
            implied_bids: instrument.implied_book[BID].clone(),
            implied_offers: instrument.implied_book[OFFER].clone(),
            has_top_orders: instrument.top_orders || instrument.every_order,
            top_bids: top(&instrument.top[BID]),
            top_offers: top(&instrument.top[OFFER]),
            volume: session.volume,
            trades: session.trades,
            open_e9: session.open_e9,
            high_e9: session.high_e9,
            low_e9: session.low_e9,
            last_e9: session.last_e9,
            settlement_e9: instrument.settlement_e9,
            limit_high_e9: limits.high_e9,
            limit_low_e9: limits.low_e9,
            variation_e9: limits.variation_e9,
        }
    }
}

impl Truth {
    /// Writes the JSON lines.
    ///
    /// # Errors
    /// What the sink says.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &self.header)?;
        out.write_all(b"\n")?;
        for book in &self.books {
            serde_json::to_writer(&mut *out, book)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// What the source says; [`io::ErrorKind::InvalidData`] with the line for what is no truth.
    pub fn read(from: &mut dyn BufRead) -> io::Result<Truth> {
        let bad = |line: usize, e: serde_json::Error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("line {line}: {e}"))
        };
        let mut lines = from.lines().enumerate();
        let Some((_, first)) = lines.next() else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "line 1: empty; expected the header"));
        };
        let header = serde_json::from_str(&first?).map_err(|e| bad(1, e))?;
        let mut books = Vec::new();
        for (index, line) in lines {
            let line = line?;
            if !line.trim().is_empty() {
                books.push(serde_json::from_str(&line).map_err(|e| bad(index + 1, e))?);
            }
        }
        Ok(Truth { header, books })
    }
}
