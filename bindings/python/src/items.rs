//! What a feed channel tells, item by item: made on the handler's thread, shown to Python as tuples.

use barewire_feed::{
    BookSide, BookView, Gap, GapCause, Instrument, Level, Line, LineState, Listener, NULL_I32, NULL_PRICE,
    PacketInfo, RecoveryInfo, Reset, SecurityStatus, Statistic, Trade,
};
use barewire_feed_handler::{action_word, aggressor_word, cause_word};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Items of a batch.
pub const BATCH: usize = 4096;
/// Levels of each side that are kept.
pub const DEPTH: usize = 10;

/// Price, quantity and orders of a level.
pub type Row = (Option<i64>, i64, Option<i32>);

/// What every item has; an item that is of no instrument has the id 0 and no symbol.
pub struct Head {
    pub channel: u32,
    pub seq: u32,
    pub sending_time_ns: u64,
    pub stamp_ns: u64,
    pub stamp_source: &'static str,
    pub transact_time_ns: u64,
    pub security_id: i32,
    pub symbol: String,
}

pub enum Kind {
    Book {
        state: &'static str,
        cause: &'static str,
        rpt_seq: u32,
        bids: Vec<Row>,
        offers: Vec<Row>,
    },
    Trade {
        price: Option<i64>,
        quantity: i64,
        orders: i32,
        aggressor: Option<&'static str>,
        action: Option<&'static str>,
        id: Option<u32>,
    },
    Statistic {
        kind: String,
        price: Option<i64>,
        quantity: Option<i64>,
        rpt_seq: u32,
        date: Option<u16>,
    },
    Status {
        status: u8,
        halt_reason: u8,
        event: u8,
    },
    Gap {
        first: u32,
        last: u32,
        cause: &'static str,
    },
    Recovery {
        phase: &'static str,
        instruments: usize,
        unsettled: usize,
    },
    Reset {
        what: &'static str,
    },
    Line {
        line: String,
        state: &'static str,
    },
}

pub struct Item {
    pub head: Head,
    pub kind: Kind,
}

/// What is wanted, as bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Wanted(u8);

impl Wanted {
    pub const BOOKS: Wanted = Wanted(1);
    pub const TRADES: Wanted = Wanted(2);
    pub const STATISTICS: Wanted = Wanted(4);
    pub const STATUS: Wanted = Wanted(8);
    pub const RECOVERY: Wanted = Wanted(16);
    pub const LINES: Wanted = Wanted(32);
    const WORDS: [(&'static str, Wanted); 6] = [
        ("books", Wanted::BOOKS),
        ("trades", Wanted::TRADES),
        ("statistics", Wanted::STATISTICS),
        ("status", Wanted::STATUS),
        ("recovery", Wanted::RECOVERY),
        ("lines", Wanted::LINES),
    ];

    pub fn of<S: AsRef<str>>(names: &[S]) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        for name in names {
            let name = name.as_ref();
            let found = Wanted::WORDS.iter().find(|(word, _)| *word == name);
            let why = || {
                format!("there is no '{name}'; there are books, trades, statistics, status, recovery, lines")
            };
            wanted = wanted | found.ok_or_else(why)?.1;
        }
        Ok(wanted)
    }

    pub fn has(self, other: Wanted) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for Wanted {
    type Output = Wanted;

    fn bitor(self, other: Wanted) -> Wanted {
        Wanted(self.0 | other.0)
    }
}

/// Where a listener's items go. It allocates, which a listener of the data plane would not: Python takes far longer.
pub trait Sink {
    fn take(&self, item: Item);
}

/// The listener of one feed channel.
pub struct Collector<S> {
    channel: u32,
    wanted: Wanted,
    packet: (u32, u64, u64, &'static str),
    sink: S,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn price(mantissa: i64) -> Option<i64> {
    (mantissa != NULL_PRICE).then_some(mantissa)
}

fn row(level: &Level) -> Row {
    (price(level.price), level.quantity, (level.orders != NULL_I32).then_some(level.orders))
}

pub fn state_word(state: LineState) -> &'static str {
    match state {
        LineState::Silent => "silent",
        LineState::Up => "up",
        LineState::Down => "down",
    }
}

impl<S: Sink> Collector<S> {
    pub fn new(channel: u32, wanted: Wanted, sink: S) -> Collector<S> {
        Collector { channel, wanted, packet: (0, 0, 0, "none"), sink }
    }

    fn head(&self, transact_time_ns: u64, of: Option<&Instrument>) -> Head {
        let (seq, sending_time_ns, stamp_ns, stamp_source) = self.packet;
        Head {
            channel: self.channel,
            seq,
            sending_time_ns,
            stamp_ns,
            stamp_source,
            transact_time_ns,
            security_id: of.map_or(0, |instrument| instrument.security_id),
            symbol: of.map_or_else(String::new, |instrument| instrument.symbol.as_str().to_owned()),
        }
    }

    /// A book, with the last packet that came before it.
    pub fn book(&self, book: &BookView<'_>) -> Item {
        let side = |side| book.levels(side).iter().take(DEPTH).map(row).collect();
        let (bids, offers) = (side(BookSide::Bid), side(BookSide::Offer));
        let (state, cause, rpt_seq) = (book.state.as_str(), cause_word(book.cause), book.rpt_seq);
        let kind = Kind::Book { state, cause, rpt_seq, bids, offers };
        Item { head: self.head(book.transact_time_ns, Some(book.instrument)), kind }
    }

    fn of_instrument(&self, instrument: &Instrument, transact_time_ns: u64, kind: Kind) {
        self.sink.take(Item { head: self.head(transact_time_ns, Some(instrument)), kind });
    }

    fn of_channel(&self, kind: Kind) {
        self.sink.take(Item { head: self.head(0, None), kind });
    }

    fn recovery(&self, phase: &'static str, info: &RecoveryInfo) {
        if self.wanted.has(Wanted::RECOVERY) {
            let RecoveryInfo { instruments, unsettled, .. } = *info;
            self.of_channel(Kind::Recovery { phase, instruments, unsettled });
        }
    }
}

impl<S: Sink> Listener for Collector<S> {
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {
        self.packet = (packet.seq, packet.sending_time_ns, packet.stamp.ns, packet.stamp.source.as_str());
    }

    fn on_book(&mut self, book: &BookView<'_>) {
        if self.wanted.has(Wanted::BOOKS) {
            self.sink.take(self.book(book));
        }
    }

    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {
        if self.wanted.has(Wanted::TRADES) {
            let (aggressor, action) = (aggressor_word(trade.aggressor), action_word(trade.action));
            let Trade { quantity, orders, trade_id: id, .. } = *trade;
            let kind = Kind::Trade { price: price(trade.price), quantity, orders, aggressor, action, id };
            self.of_instrument(instrument, trade.transact_time_ns, kind);
        }
    }

    fn on_statistic(&mut self, instrument: &Instrument, statistic: &Statistic) {
        if self.wanted.has(Wanted::STATISTICS) {
            let Statistic { quantity, rpt_seq, .. } = *statistic;
            let kind = Kind::Statistic {
                kind: snake(&format!("{:?}", statistic.kind)),
                price: price(statistic.price),
                quantity,
                rpt_seq,
                date: (statistic.reference_date != u16::MAX).then_some(statistic.reference_date),
            };
            self.of_instrument(instrument, 0, kind);
        }
    }

    fn on_status(&mut self, instrument: &Instrument, status: &SecurityStatus) {
        if self.wanted.has(Wanted::STATUS) {
            let SecurityStatus { halt_reason, event, .. } = *status;
            let kind = Kind::Status { status: status.status.0, halt_reason, event };
            self.of_instrument(instrument, status.transact_time_ns, kind);
        }
    }

    fn on_gap(&mut self, gap: &Gap) {
        if self.wanted.has(Wanted::RECOVERY) {
            let cause = match gap.cause {
                GapCause::Time => "time",
                GapCause::Count => "count",
                GapCause::Jump => "jump",
                GapCause::Snapshot => "snapshot",
            };
            self.of_channel(Kind::Gap { first: gap.first, last: gap.last, cause });
        }
    }

    fn on_recovery_begin(&mut self, info: &RecoveryInfo) {
        self.recovery("begin", info);
    }

    fn on_recovery_end(&mut self, info: &RecoveryInfo) {
        self.recovery("end", info);
    }

    fn on_reset(&mut self, reset: Reset) {
        if self.wanted.has(Wanted::RECOVERY) {
            let what = match reset {
                Reset::Channel => "channel",
                Reset::Sequence => "sequence",
            };
            self.of_channel(Kind::Reset { what });
        }
    }

    fn on_line_state(&mut self, line: Line, state: LineState) {
        if self.wanted.has(Wanted::LINES) {
            self.of_channel(Kind::Line { line: line.to_string(), state: state_word(state) });
        }
    }
}

/// `LastTrade` as `last_trade`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Kind, head, and what the kind has beside.
pub fn tuple<'py>(py: Python<'py>, item: &Item) -> PyResult<Bound<'py, PyTuple>> {
    let h = &item.head;
    let symbol = h.symbol.as_str();
    let head = (
        h.channel,
        h.seq,
        h.sending_time_ns,
        h.stamp_ns,
        h.stamp_source,
        h.transact_time_ns,
        h.security_id,
        symbol,
    );
    match &item.kind {
        Kind::Book { state, cause, rpt_seq, bids, offers } => {
            ("book", head, (*state, *cause, *rpt_seq, bids.clone(), offers.clone())).into_pyobject(py)
        }
        Kind::Trade { price, quantity, orders, aggressor, action, id } => {
            ("trade", head, (*price, *quantity, *orders, *aggressor, *action, *id)).into_pyobject(py)
        }
        Kind::Statistic { kind, price, quantity, rpt_seq, date } => {
            ("statistic", head, (kind.as_str(), *price, *quantity, *rpt_seq, *date)).into_pyobject(py)
        }
        Kind::Status { status, halt_reason, event } => {
            ("status", head, (*status, *halt_reason, *event)).into_pyobject(py)
        }
        Kind::Gap { first, last, cause } => ("gap", head, (*first, *last, *cause)).into_pyobject(py),
        Kind::Recovery { phase, instruments, unsettled } => {
            ("recovery", head, (*phase, *instruments, *unsettled)).into_pyobject(py)
        }
        Kind::Reset { what } => ("reset", head, (*what,)).into_pyobject(py),
        Kind::Line { line, state } => ("line", head, (line.as_str(), *state)).into_pyobject(py),
    }
}
