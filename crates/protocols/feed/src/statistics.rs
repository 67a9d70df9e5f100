//! Statistics of an instrument: the last value of each kind.

use crate::book::NULL_PRICE;

/// The kinds of statistic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum StatisticKind {
    /// Last trade.
    LastTrade = 0,
    /// Opening price.
    Open,
    /// Indicative opening price.
    IndicativeOpen,
    /// Settlement price.
    Settlement,
    /// Highest trade.
    High,
    /// Lowest trade.
    Low,
    /// Volume-weighted average price, of the session or as its flag says.
    Vwap,
    /// Cleared volume.
    ClearedVolume,
    /// Open interest.
    OpenInterest,
    /// Highest bid.
    HighestBid,
    /// Lowest offer.
    LowestOffer,
    /// Fixing price.
    Fixing,
    /// Electronic volume.
    Volume,
}

const COUNT: usize = StatisticKind::Volume as usize + 1;

/// OpenCloseSettlFlag of an indicative opening price.
const INDICATIVE: u8 = 5;

impl StatisticKind {
    /// The kind of an MDEntryType, with OpenCloseSettlFlag; `None` for types that are no statistic.
    pub(crate) const fn of(entry_type: u8, open_close_flag: u8) -> Option<Self> {
        Some(match entry_type {
            b'2' => StatisticKind::LastTrade,
            b'4' if open_close_flag == INDICATIVE => StatisticKind::IndicativeOpen,
            b'4' => StatisticKind::Open,
            b'6' => StatisticKind::Settlement,
            b'7' => StatisticKind::High,
            b'8' => StatisticKind::Low,
            b'9' => StatisticKind::Vwap,
            b'B' => StatisticKind::ClearedVolume,
            b'C' => StatisticKind::OpenInterest,
            b'N' => StatisticKind::HighestBid,
            b'O' => StatisticKind::LowestOffer,
            b'W' => StatisticKind::Fixing,
            b'e' => StatisticKind::Volume,
            _ => return None,
        })
    }
}

/// One value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statistic {
    /// What it is.
    pub kind: StatisticKind,
    /// Mantissa of 10^-9; [`NULL_PRICE`](crate::NULL_PRICE) for quantities.
    pub price: i64,
    /// Quantity, where there is one.
    pub quantity: Option<i64>,
    /// OpenCloseSettlFlag (tag 286); 255 when missing.
    pub open_close_flag: u8,
    /// SettlPriceType (tag 731), a bit set; 128 when missing.
    pub settl_price_type: u8,
    /// TradingReferenceDate (tag 5796), days since 1970; 65,535 when missing.
    pub reference_date: u16,
    /// RptSeq of the entry, or of the snapshot.
    pub rpt_seq: u32,
}

/// Price limits (template 50 and snapshots). Mantissas of 10^-9, [`NULL_PRICE`](crate::NULL_PRICE) when missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Highest price allowed.
    pub high: i64,
    /// Lowest price allowed.
    pub low: i64,
    /// Band about the market.
    pub max_variation: i64,
    /// RptSeq of the entry, or of the snapshot.
    pub rpt_seq: u32,
}

/// All values of one instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    values: [Option<Statistic>; COUNT],
    limits: Option<Limits>,
    /// The packet with which the exchange reset them last.
    reset_seq: u32,
    /// RptSeq of the first entry behind the last that was missed.
    sure_from: u32,
}

impl Statistics {
    pub(crate) const EMPTY: Statistics =
        Statistics { values: [None; COUNT], limits: None, reset_seq: 0, sure_from: 0 };

    /// The last value of a kind.
    pub fn get(&self, kind: StatisticKind) -> Option<&Statistic> {
        self.values[kind as usize].as_ref()
    }

    /// All values there are.
    pub fn iter(&self) -> impl Iterator<Item = &Statistic> {
        self.values.iter().flatten()
    }

    /// The last limits.
    pub fn limits(&self) -> Option<&Limits> {
        self.limits.as_ref()
    }

    pub(crate) fn set(&mut self, value: Statistic) {
        self.values[value.kind as usize] = Some(value);
    }

    pub(crate) fn remove(&mut self, kind: StatisticKind) {
        self.values[kind as usize] = None;
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = Some(limits);
    }

    /// The exchange resets them with packet `seq`, as it does when the trade date rolls. The limits of the price stay.
    pub(crate) fn reset(&mut self, seq: u32) {
        self.values = [None; COUNT];
        self.reset_seq = seq;
    }

    /// Entries before this one were missed: values from before it may have changed.
    pub(crate) fn missed_before(&mut self, rpt_seq: u32) {
        self.sure_from = rpt_seq;
    }

    /// The instrument is good again, and nothing has said what was missed: what no entry has confirmed since is dropped.
    pub(crate) fn drop_unsure(&mut self) {
        let sure_from = self.sure_from;
        for value in &mut self.values {
            *value = value.filter(|value| value.rpt_seq >= sure_from);
        }
        self.limits = self.limits.filter(|limits| limits.rpt_seq >= sure_from);
    }

    /// The values of a snapshot that holds the packets up to `last_seq` and entries up to `rpt_seq` are about to be told. What it does
    /// not name is gone, unless it is newer. False where the snapshot is from before a reset: its values do not count.
    pub(crate) fn begin_snapshot(&mut self, last_seq: u32, rpt_seq: u32) -> bool {
        if last_seq < self.reset_seq {
            return false;
        }
        for value in &mut self.values {
            if value.is_some_and(|old| old.rpt_seq <= rpt_seq) {
                *value = None;
            }
        }
        true
    }

    /// A snapshot's value, unless an update newer than the snapshot is already there.
    pub(crate) fn set_from_snapshot(&mut self, value: Statistic) {
        if self.get(value.kind).is_none_or(|old| old.rpt_seq <= value.rpt_seq) {
            self.set(value);
        }
    }

    /// A snapshot's limits, unless newer ones are already there. One that names none says that there are none.
    pub(crate) fn set_limits_from_snapshot(&mut self, limits: Limits) {
        if self.limits.is_none_or(|old| old.rpt_seq <= limits.rpt_seq) {
            let named =
                [limits.high, limits.low, limits.max_variation].iter().any(|&price| price != NULL_PRICE);
            self.limits = named.then_some(limits);
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::EMPTY;
    }
}
