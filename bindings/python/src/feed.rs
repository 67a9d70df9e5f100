//! `barewire._native.Capture`: books, trades and statistics of captured market data, as items and as Arrow tables.
//!
//! A thread replays the captures and hands over batches; it waits while nobody takes them, so that memory is bounded by a few batches
//! whatever the captures' size.

use arrow_array::builder::{Decimal128Builder, Int32Builder, Int64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, RecordBatchReader, StringArray,
    TimestampNanosecondArray, UInt16Array, UInt32Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use barewire_feed::{
    BookSide, BookView, Instrument, Level, Listener, NULL_I32, NULL_PRICE, PacketInfo, Statistic, Trade,
};
use barewire_feed_handler::emulator::connections;
use barewire_feed_handler::{
    ChannelPlan, FeedHandler, Input, Plan, Replay, SocketOptions, action_word, aggressor_word, cause_word,
};
use barewire_port::Speed;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

pyo3::create_exception!(
    _native,
    FeedError,
    pyo3::exceptions::PyException,
    "What is wrong with captures or configuration."
);

/// Items of a batch.
const BATCH: usize = 4096;
/// Levels of each side that are kept.
const DEPTH: usize = 10;
/// Digits of a price, and those behind the point.
const PRICE: (u8, i8) = (19, 9);

/// Price, quantity and orders of a level.
type Row = (Option<i64>, i64, Option<i32>);

/// What every item has.
struct Head {
    channel: u32,
    seq: u32,
    sending_time_ns: u64,
    stamp_ns: u64,
    stamp_source: &'static str,
    transact_time_ns: u64,
    security_id: i32,
    symbol: String,
}

enum Kind {
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
}

struct Item {
    head: Head,
    kind: Kind,
}

type Batch = Result<Vec<Item>, String>;

/// What is wanted: books, trades, statistics.
#[derive(Clone, Copy)]
struct Wanted(bool, bool, bool);

struct Collector {
    channel: u32,
    wanted: Wanted,
    packet: (u32, u64, u64, &'static str),
    batch: Arc<Mutex<Vec<Item>>>,
}

fn price(mantissa: i64) -> Option<i64> {
    (mantissa != NULL_PRICE).then_some(mantissa)
}

fn row(level: &Level) -> Row {
    (price(level.price), level.quantity, (level.orders != NULL_I32).then_some(level.orders))
}

impl Collector {
    fn push(&self, instrument: &Instrument, transact_time_ns: u64, kind: Kind) {
        let (seq, sending_time_ns, stamp_ns, stamp_source) = self.packet;
        let (security_id, symbol) = (instrument.security_id, instrument.symbol.as_str().to_owned());
        let channel = self.channel;
        let head = Head {
            channel,
            seq,
            sending_time_ns,
            stamp_ns,
            stamp_source,
            transact_time_ns,
            security_id,
            symbol,
        };
        lock(&self.batch).push(Item { head, kind });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Listener for Collector {
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {
        self.packet = (packet.seq, packet.sending_time_ns, packet.stamp.ns, packet.stamp.source.as_str());
    }

    fn on_book(&mut self, book: &BookView<'_>) {
        if self.wanted.0 {
            let side = |side| book.levels(side).iter().take(DEPTH).map(row).collect();
            let (bids, offers) = (side(BookSide::Bid), side(BookSide::Offer));
            let (state, cause, rpt_seq) = (book.state.as_str(), cause_word(book.cause), book.rpt_seq);
            let kind = Kind::Book { state, cause, rpt_seq, bids, offers };
            self.push(book.instrument, book.transact_time_ns, kind);
        }
    }

    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {
        if self.wanted.1 {
            let (aggressor, action) = (aggressor_word(trade.aggressor), action_word(trade.action));
            let Trade { quantity, orders, trade_id: id, .. } = *trade;
            let kind = Kind::Trade { price: price(trade.price), quantity, orders, aggressor, action, id };
            self.push(instrument, trade.transact_time_ns, kind);
        }
    }

    fn on_statistic(&mut self, instrument: &Instrument, statistic: &Statistic) {
        if self.wanted.2 {
            let Statistic { quantity, rpt_seq, .. } = *statistic;
            let kind = Kind::Statistic {
                kind: snake(&format!("{:?}", statistic.kind)),
                price: price(statistic.price),
                quantity,
                rpt_seq,
                date: (statistic.reference_date != u16::MAX).then_some(statistic.reference_date),
            };
            self.push(instrument, 0, kind);
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

fn plan(config: Option<PathBuf>, channel: u32, udp_port: u16) -> Result<Plan, String> {
    if let Some(path) = config {
        return Plan::read(&path).map_err(|e| e.to_string());
    }
    let id = u16::try_from(channel)
        .map_err(|_| format!("channel {channel}: an emulated channel is below 65536"))?;
    let lines = connections(id, udp_port);
    Ok(Plan {
        name: "python".into(),
        idle: Default::default(),
        core: None,
        input: Input::Sockets(SocketOptions::default()),
        channels: vec![ChannelPlan::new(channel, lines)],
        record: None,
    })
}

fn replay(captures: &[PathBuf], plan: Plan, wanted: Wanted, to: &SyncSender<Batch>) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let mut replay = Replay::open(captures, &plan.channels, true).map_err(|e| text(&e))?;
    let start = replay.next_at().ok_or("the captures have no packets")?;
    let batch = Arc::new(Mutex::new(Vec::new()));
    let mut handler = FeedHandler::builder(plan)
        .sources(vec![])
        .start(start)
        .listen(|_, channel| Collector {
            channel: channel.id,
            wanted,
            packet: (0, 0, 0, ""),
            batch: Arc::clone(&batch),
        })
        .map_err(|e| text(&e))?;
    let mut packets = 0;
    loop {
        // It is asked before each packet.
        let few = || lock(&batch).len() < BATCH;
        packets += handler.replay_while(&mut replay, Speed::Flat, &few).map_err(|e| text(&e))?;
        let items = std::mem::take(&mut *lock(&batch));
        let over = items.len() < BATCH;
        if !items.is_empty() && to.send(Ok(items)).is_err() {
            // Nobody takes them any more.
            return Ok(());
        }
        if over {
            break;
        }
    }
    if packets == 0 {
        return Err(
            "no packet in the captures belongs to these channels: the configuration names groups and UDP ports"
                .into(),
        );
    }
    Ok(())
}

fn start(captures: Vec<PathBuf>, plan: Plan, wanted: Wanted) -> PyResult<Receiver<Batch>> {
    let (to, from) = sync_channel(2);
    let work = move || {
        if let Err(why) = replay(&captures, plan, wanted, &to) {
            let _ = to.send(Err(why));
        }
    };
    std::thread::Builder::new().name("barewire-replay".to_owned()).spawn(work)?;
    Ok(from)
}

fn wanted(names: &[String]) -> PyResult<Wanted> {
    let mut wanted = Wanted(false, false, false);
    for name in names {
        match name.as_str() {
            "books" => wanted.0 = true,
            "trades" => wanted.1 = true,
            "statistics" => wanted.2 = true,
            _ => {
                return Err(FeedError::new_err(format!(
                    "there is no '{name}'; there are books, trades, statistics"
                )));
            }
        }
    }
    Ok(wanted)
}

/// Captures that are being replayed.
#[pyclass(frozen)]
pub struct Capture {
    from: Mutex<Option<Receiver<Batch>>>,
}

#[pymethods]
impl Capture {
    #[new]
    fn new(
        captures: Vec<PathBuf>,
        config: Option<PathBuf>,
        channel: u32,
        udp_port: u16,
        names: Vec<String>,
    ) -> PyResult<Capture> {
        let plan = plan(config, channel, udp_port).map_err(FeedError::new_err)?;
        let from = start(captures, plan, wanted(&names)?)?;
        Ok(Capture { from: Mutex::new(Some(from)) })
    }

    /// The next items; an empty list at the end.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let batch = py.detach(|| lock(&self.from).as_ref().map(|from| from.recv()));
        let items = match batch {
            Some(Ok(batch)) => batch.map_err(FeedError::new_err)?,
            None | Some(Err(_)) => Vec::new(),
        };
        let list = PyList::empty(py);
        for item in items {
            list.append(tuple(py, item)?)?;
        }
        Ok(list)
    }

    /// The replay ends.
    fn close(&self) {
        *lock(&self.from) = None;
    }
}

fn tuple(py: Python<'_>, item: Item) -> PyResult<Bound<'_, PyTuple>> {
    let Head { channel, seq, sending_time_ns, stamp_ns, stamp_source, transact_time_ns, security_id, symbol } =
        item.head;
    let head = (channel, seq, sending_time_ns, stamp_ns, stamp_source, transact_time_ns, security_id, symbol);
    match item.kind {
        Kind::Book { state, cause, rpt_seq, bids, offers } => {
            ("book", head, (state, cause, rpt_seq, bids, offers)).into_pyobject(py)
        }
        Kind::Trade { price, quantity, orders, aggressor, action, id } => {
            ("trade", head, (price, quantity, orders, aggressor, action, id)).into_pyobject(py)
        }
        Kind::Statistic { kind, price, quantity, rpt_seq, date } => {
            ("statistic", head, (kind, price, quantity, rpt_seq, date)).into_pyobject(py)
        }
    }
}

fn time(utc: bool) -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, utc.then(|| "UTC".into()))
}

/// Columns of a table: name, type, whether a row may lack it.
fn schema(table: &str) -> SchemaRef {
    let price = DataType::Decimal128(PRICE.0, PRICE.1);
    let mut fields = vec![
        Field::new("channel", DataType::UInt32, false),
        Field::new("seq_num", DataType::UInt32, false),
        Field::new("sending_time", time(true), false),
        // By the clock that `stamp_source` has.
        Field::new("stamp", time(false), false),
        Field::new("stamp_source", DataType::Utf8, false),
        Field::new("transact_time", time(true), true),
        Field::new("security_id", DataType::Int32, false),
        Field::new("symbol", DataType::Utf8, false),
    ];
    let of = |name: &str, kind: DataType, optional| Field::new(name, kind, optional);
    match table {
        "books" => {
            fields.push(of("state", DataType::Utf8, false));
            fields.push(of("cause", DataType::Utf8, false));
            fields.push(of("rpt_seq", DataType::UInt32, false));
            for side in ["bid", "offer"] {
                for level in 1..=DEPTH {
                    fields.push(of(&format!("{side}{level}_price"), price.clone(), true));
                    fields.push(of(&format!("{side}{level}_quantity"), DataType::Int64, true));
                    fields.push(of(&format!("{side}{level}_orders"), DataType::Int32, true));
                }
            }
        }
        "trades" => {
            fields.push(of("price", price, true));
            fields.push(of("quantity", DataType::Int64, false));
            fields.push(of("orders", DataType::Int32, false));
            fields.push(of("aggressor", DataType::Utf8, true));
            fields.push(of("action", DataType::Utf8, true));
            fields.push(of("trade_id", DataType::UInt32, true));
        }
        _ => {
            fields.push(of("kind", DataType::Utf8, false));
            fields.push(of("price", price, true));
            fields.push(of("quantity", DataType::Int64, true));
            fields.push(of("rpt_seq", DataType::UInt32, false));
            fields.push(of("reference_date", DataType::UInt16, true));
        }
    }
    Arc::new(Schema::new(fields))
}

fn prices(values: impl Iterator<Item = Option<i64>>) -> Result<ArrayRef, ArrowError> {
    let all: Decimal128Array = values.map(|v| v.map(i128::from)).collect();
    Ok(Arc::new(all.with_precision_and_scale(PRICE.0, PRICE.1)?))
}

fn times(values: impl Iterator<Item = u64>, utc: bool) -> ArrayRef {
    // Behind the year 2262 there is nothing; zero is not known.
    let of = |ns: u64| (ns != 0).then(|| i64::try_from(ns).unwrap_or(i64::MAX));
    let all: TimestampNanosecondArray = values.map(of).collect();
    Arc::new(if utc { all.with_timezone("UTC") } else { all })
}

fn side(
    items: &[Item],
    which: impl Fn(&Kind) -> &[Row],
    columns: &mut Vec<ArrayRef>,
) -> Result<(), ArrowError> {
    for level in 0..DEPTH {
        let mut price = Decimal128Builder::with_capacity(items.len());
        let mut quantity = Int64Builder::with_capacity(items.len());
        let mut orders = Int32Builder::with_capacity(items.len());
        for item in items {
            let row = which(&item.kind).get(level);
            price.append_option(row.and_then(|r| r.0).map(i128::from));
            quantity.append_option(row.map(|r| r.1));
            orders.append_option(row.and_then(|r| r.2));
        }
        columns.push(Arc::new(price.finish().with_precision_and_scale(PRICE.0, PRICE.1)?));
        columns.push(Arc::new(quantity.finish()));
        columns.push(Arc::new(orders.finish()));
    }
    Ok(())
}

/// Items of one kind as columns.
fn record_batch(schema: &SchemaRef, items: &[Item]) -> Result<RecordBatch, ArrowError> {
    let heads = || items.iter().map(|i| &i.head);
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from_iter_values(heads().map(|h| h.channel))),
        Arc::new(UInt32Array::from_iter_values(heads().map(|h| h.seq))),
        times(heads().map(|h| h.sending_time_ns.max(1)), true),
        times(heads().map(|h| h.stamp_ns.max(1)), false),
        Arc::new(StringArray::from_iter_values(heads().map(|h| h.stamp_source))),
        times(heads().map(|h| h.transact_time_ns), true),
        Arc::new(Int32Array::from_iter_values(heads().map(|h| h.security_id))),
        Arc::new(StringArray::from_iter_values(heads().map(|h| h.symbol.as_str()))),
    ];
    macro_rules! column {
        ($array:ty, $($pattern:pat => $value:expr),*) => {
            Arc::new(items.iter().map(|i| match &i.kind { $($pattern => $value,)* _ => None }).collect::<$array>()) as ArrayRef
        };
    }
    match items.first().map(|i| &i.kind) {
        Some(Kind::Book { .. }) => {
            columns.push(column!(StringArray, Kind::Book { state, .. } => Some(*state)));
            columns.push(column!(StringArray, Kind::Book { cause, .. } => Some(*cause)));
            columns.push(column!(UInt32Array, Kind::Book { rpt_seq, .. } => Some(*rpt_seq)));
            side(items, |k| if let Kind::Book { bids, .. } = k { bids } else { &[] }, &mut columns)?;
            side(items, |k| if let Kind::Book { offers, .. } = k { offers } else { &[] }, &mut columns)?;
        }
        Some(Kind::Trade { .. }) => {
            let price = |i: &Item| if let Kind::Trade { price, .. } = i.kind { price } else { None };
            columns.push(prices(items.iter().map(price))?);
            columns.push(column!(Int64Array, Kind::Trade { quantity, .. } => Some(*quantity)));
            columns.push(column!(Int32Array, Kind::Trade { orders, .. } => Some(*orders)));
            columns.push(column!(StringArray, Kind::Trade { aggressor, .. } => *aggressor));
            columns.push(column!(StringArray, Kind::Trade { action, .. } => *action));
            columns.push(column!(UInt32Array, Kind::Trade { id, .. } => *id));
        }
        _ => {
            let price = |i: &Item| if let Kind::Statistic { price, .. } = i.kind { price } else { None };
            columns.push(column!(StringArray, Kind::Statistic { kind, .. } => Some(kind.as_str())));
            columns.push(prices(items.iter().map(price))?);
            columns.push(column!(Int64Array, Kind::Statistic { quantity, .. } => *quantity));
            columns.push(column!(UInt32Array, Kind::Statistic { rpt_seq, .. } => Some(*rpt_seq)));
            columns.push(column!(UInt16Array, Kind::Statistic { date, .. } => *date));
        }
    }
    RecordBatch::try_new(Arc::clone(schema), columns)
}

struct Batches {
    schema: SchemaRef,
    from: Receiver<Batch>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.from.recv().ok()? {
            Ok(items) => Some(record_batch(&self.schema, &items)),
            Err(why) => Some(Err(ArrowError::ExternalError(why.into()))),
        }
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A table (books, trades, statistics) as a stream of Arrow's C interface. Its consumer takes it out of the capsule, without a copy.
#[pyfunction]
pub fn capture_stream<'py>(
    py: Python<'py>,
    captures: Vec<PathBuf>,
    config: Option<PathBuf>,
    channel: u32,
    udp_port: u16,
    table: String,
) -> PyResult<Bound<'py, PyCapsule>> {
    let plan = plan(config, channel, udp_port).map_err(FeedError::new_err)?;
    let schema = schema(&table);
    let from = start(captures, plan, wanted(&[table])?)?;
    let stream = FFI_ArrowArrayStream::new(Box::new(Batches { schema, from }));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}
