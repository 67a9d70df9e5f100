//! Export: books and trades as Apache Parquet, a listener like any other. The columns are those of the CSV export.
//!
//! - Prices are `DECIMAL(18, 9)` over INT64: the feed's own mantissa of 10^-9, exact.
//! - `sending_time_ns` and `transact_time_ns` are `TIMESTAMP(NANOS)` in UTC. `stamp_ns` is `TIMESTAMP(NANOS)` without a zone, for
//!   the clock is the one that `stamp_source` has, and need not count from 1970.
//! - What is empty in the CSV (levels that are not there, orders of implied levels) is null.
//!
//! Rows are gathered by column and written a row group at a time, compressed by Snappy, so memory is bounded whatever the length of
//! the file. A Parquet file ends with the list of its groups: [`ParquetExport::finish`] writes it, and dropping the export does so
//! where nobody has.

use crate::export::{EXPORT_DEPTH_MAX, PacketRef, action_word, aggressor_word, cause_word};
use barewire_feed::{BookSide, BookView, Instrument, Listener, NULL_I32, NULL_PRICE, PacketInfo, Trade};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows of a row group. Of books with ten levels a side it takes some 12 MB until it is written.
pub const PARQUET_GROUP_ROWS: usize = 16_384;

/// Digits of a price, and those behind the point.
const PRICE_DIGITS: (i32, i32) = (18, 9);
/// The first mantissa with more digits.
const PRICE_END: u64 = 10u64.pow(PRICE_DIGITS.0 as u32);

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    U32,
    I32,
    I64,
    Price,
    /// Nanoseconds; whether since 1970 in UTC.
    Time {
        utc: bool,
    },
    Text,
}

/// A column: name, kind, whether it may be null.
type Field = (String, Kind, bool);

impl Kind {
    fn schema(self, name: &str, optional: bool) -> Result<Type, ParquetError> {
        let (physical, logical) = match self {
            Kind::U32 => (Physical::INT32, Some(LogicalType::integer(32, false))),
            Kind::I32 => (Physical::INT32, None),
            Kind::I64 => (Physical::INT64, None),
            Kind::Price => (Physical::INT64, Some(LogicalType::decimal(PRICE_DIGITS.1, PRICE_DIGITS.0))),
            Kind::Time { utc } => (Physical::INT64, Some(LogicalType::timestamp(utc, TimeUnit::NANOS))),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let column = Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical);
        match self {
            Kind::Price => column.with_precision(PRICE_DIGITS.0).with_scale(PRICE_DIGITS.1).build(),
            _ => column.build(),
        }
    }
}

/// A row group's values of one column.
enum Values {
    I32(Vec<i32>),
    I64(Vec<i64>),
    Text(Vec<ByteArray>),
}

struct Column {
    kind: Kind,
    values: Values,
    /// For each row 1, or 0 for null, in columns that may be null.
    present: Option<Vec<i16>>,
}

impl Column {
    fn new(kind: Kind, optional: bool, rows: usize) -> Column {
        let values = match kind {
            Kind::U32 | Kind::I32 => Values::I32(Vec::with_capacity(rows)),
            Kind::I64 | Kind::Price | Kind::Time { .. } => Values::I64(Vec::with_capacity(rows)),
            Kind::Text => Values::Text(Vec::with_capacity(rows)),
        };
        Column { kind, values, present: optional.then(|| Vec::with_capacity(rows)) }
    }

    fn clear(&mut self) {
        match &mut self.values {
            Values::I32(values) => values.clear(),
            Values::I64(values) => values.clear(),
            Values::Text(values) => values.clear(),
        }
        if let Some(present) = &mut self.present {
            present.clear();
        }
    }

    fn push(&mut self, cell: Cell<'_>) -> Result<(), ParquetError> {
        let is_null = matches!(cell, Cell::Null);
        match (&mut self.values, cell) {
            (Values::I32(values), Cell::U32(value)) if self.kind == Kind::U32 => values.push(value as i32),
            (Values::I32(values), Cell::I32(value)) if self.kind == Kind::I32 => values.push(value),
            (Values::I64(values), Cell::I64(value)) if self.kind == Kind::I64 => values.push(value),
            (Values::I64(values), Cell::Price(value)) if self.kind == Kind::Price => values.push(value),
            (Values::I64(values), Cell::Time(ns)) if matches!(self.kind, Kind::Time { .. }) => {
                // Behind the year 2262 there is nothing.
                values.push(i64::try_from(ns).unwrap_or(i64::MAX));
            }
            (Values::Text(values), Cell::Text(text)) => {
                values.push(ByteArray::from(text.as_bytes().to_vec()))
            }
            (_, Cell::Null) if self.present.is_some() => {}
            (_, cell) => {
                let why = format!("{cell:?} in a column of {:?}", self.kind);
                return Err(ParquetError::General(why));
            }
        }
        if let Some(present) = &mut self.present {
            present.push(i16::from(!is_null));
        }
        Ok(())
    }
}

/// One value of a row.
#[derive(Clone, Copy, Debug)]
enum Cell<'a> {
    Null,
    U32(u32),
    I32(i32),
    I64(i64),
    Price(i64),
    Time(u64),
    Text(&'a str),
}

impl<'a> Cell<'a> {
    fn text(text: Option<&'a str>) -> Cell<'a> {
        text.map_or(Cell::Null, Cell::Text)
    }
}

/// A file being written.
struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    group_rows: usize,
    /// Rows of the group that is gathered.
    pending: usize,
    rows: u64,
    finished: bool,
}

impl<W: Write + Send> Table<W> {
    fn new(out: W, name: &str, fields: &[Field], group_rows: usize) -> Result<Table<W>, ParquetError> {
        let columns = fields.iter().map(|(name, kind, optional)| kind.schema(name, *optional).map(Arc::new));
        let schema =
            Type::group_type_builder(name).with_fields(columns.collect::<Result<_, _>>()?).build()?;
        let about = [
            ("barewire.content", name),
            ("barewire.price", "exact: the mantissa of 10^-9 that the exchange sent"),
            ("barewire.stamp_ns", "by the clock that stamp_source has; need not count from 1970"),
        ];
        let properties = WriterProperties::builder()
            .set_created_by(concat!("barewire version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(group_rows))
            .set_key_value_metadata(Some(
                about.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned())).to_vec(),
            ))
            .build();
        Ok(Table {
            writer: SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?,
            columns: fields
                .iter()
                .map(|(_, kind, optional)| Column::new(*kind, *optional, group_rows))
                .collect(),
            group_rows,
            pending: 0,
            rows: 0,
            finished: false,
        })
    }

    /// Adds a row: a cell for each column.
    fn row<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) -> Result<(), ParquetError> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(cell)?;
        }
        self.rows += 1;
        self.pending += 1;
        if self.pending == self.group_rows { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.pending == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let Some(mut out) = group.next_column()? else { break };
            let present = column.present.as_deref();
            match &column.values {
                Values::I32(values) => out.typed::<Int32Type>().write_batch(values, present, None)?,
                Values::I64(values) => out.typed::<Int64Type>().write_batch(values, present, None)?,
                Values::Text(values) => out.typed::<ByteArrayType>().write_batch(values, present, None)?,
            };
            out.close()?;
            column.clear();
        }
        group.close()?;
        self.pending = 0;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ParquetError> {
        if !std::mem::replace(&mut self.finished, true) {
            self.write_group()?;
            self.writer.finish()?;
            self.writer.inner_mut().flush()?;
        }
        Ok(())
    }
}

/// Writes every book and every trade, into two Parquet files.
pub struct ParquetExport<B: Write + Send, T: Write + Send> {
    books: Table<B>,
    trades: Table<T>,
    depth: usize,
    packet: PacketRef,
    failure: Option<io::Error>,
}

fn packet_fields() -> Vec<Field> {
    let of = |name: &str, kind| (name.to_owned(), kind, false);
    vec![
        of("seq_num", Kind::U32),
        of("sending_time_ns", Kind::Time { utc: true }),
        of("stamp_ns", Kind::Time { utc: false }),
        of("stamp_source", Kind::Text),
        of("transact_time_ns", Kind::Time { utc: true }),
        of("security_id", Kind::I32),
        of("symbol", Kind::Text),
    ]
}

fn book_fields(depth: usize) -> Vec<Field> {
    let mut fields = packet_fields();
    for (name, kind) in [("state", Kind::Text), ("cause", Kind::Text), ("rpt_seq", Kind::U32)] {
        fields.push((name.to_owned(), kind, false));
    }
    for side in ["bid", "offer"] {
        for level in 1..=depth {
            for (name, kind) in [("price", Kind::Price), ("quantity", Kind::I64), ("orders", Kind::I32)] {
                fields.push((format!("{side}{level}_{name}"), kind, true));
            }
        }
    }
    fields
}

fn trade_fields() -> Vec<Field> {
    let mut fields = packet_fields();
    for (name, kind, optional) in [
        ("price", Kind::Price, true),
        ("quantity", Kind::I64, false),
        ("orders", Kind::I32, false),
        ("aggressor", Kind::Text, true),
        ("action", Kind::Text, true),
        ("trade_id", Kind::U32, true),
    ] {
        fields.push((name.to_owned(), kind, optional));
    }
    fields
}

/// A price, null where there is none.
fn price(mantissa: i64) -> Result<Cell<'static>, ParquetError> {
    match mantissa {
        NULL_PRICE => Ok(Cell::Null),
        _ if mantissa.unsigned_abs() < PRICE_END => Ok(Cell::Price(mantissa)),
        _ => Err(ParquetError::General(format!("a price of {mantissa} x 10^-9 has more than 18 digits"))),
    }
}

impl<B: Write + Send, T: Write + Send> ParquetExport<B, T> {
    /// Begins both files. `depth`: levels of each side in a book's row, 1 to [`EXPORT_DEPTH_MAX`]. The writers need no buffers
    /// of their own.
    ///
    /// # Errors
    /// What the writers say.
    pub fn new(books: B, trades: T, depth: usize) -> io::Result<ParquetExport<B, T>> {
        ParquetExport::with_group_rows(books, trades, depth, PARQUET_GROUP_ROWS)
    }

    /// As [`new`](Self::new), with another size of row groups than [`PARQUET_GROUP_ROWS`] (at least 1).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_group_rows(
        books: B,
        trades: T,
        depth: usize,
        group_rows: usize,
    ) -> io::Result<ParquetExport<B, T>> {
        let depth = depth.clamp(1, EXPORT_DEPTH_MAX);
        let rows = group_rows.max(1);
        Ok(ParquetExport {
            books: Table::new(books, "books", &book_fields(depth), rows).map_err(io::Error::other)?,
            trades: Table::new(trades, "trades", &trade_fields(), rows).map_err(io::Error::other)?,
            depth,
            packet: PacketRef::default(),
            failure: None,
        })
    }

    /// Rows of books and of trades so far.
    pub fn rows(&self) -> (u64, u64) {
        (self.books.rows, self.trades.rows)
    }

    /// Ends both files and hands everything to the system. What comes later is not written.
    ///
    /// # Errors
    /// The first thing that went wrong since the beginning. Nothing was written after it.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(e) = self.failure.take() {
            (self.books.finished, self.trades.finished) = (true, true);
            return Err(e);
        }
        let (books, trades) = (self.books.finish(), self.trades.finish());
        books.and(trades).map_err(io::Error::other)
    }

    fn is_open(&self) -> bool {
        self.failure.is_none() && !self.books.finished
    }

    fn keep(&mut self, result: Result<(), ParquetError>) {
        if let Err(e) = result {
            self.failure.get_or_insert(io::Error::other(e));
        }
    }

    fn book_row(&mut self, book: &BookView<'_>) -> Result<(), ParquetError> {
        let head = head(&self.packet, book.transact_time_ns, book.instrument);
        let state =
            [Cell::Text(book.state.as_str()), Cell::Text(cause_word(book.cause)), Cell::U32(book.rpt_seq)];
        let mut cells = [Cell::Null; EXPORT_DEPTH_MAX * 6];
        let mut at = cells.chunks_exact_mut(3);
        for side in [BookSide::Bid, BookSide::Offer] {
            let levels = book.levels(side);
            for (index, cells) in at.by_ref().take(self.depth).enumerate() {
                if let Some(level) = levels.get(index) {
                    cells[0] = price(level.price)?;
                    cells[1] = Cell::I64(level.quantity);
                    if level.orders != NULL_I32 {
                        cells[2] = Cell::I32(level.orders);
                    }
                }
            }
        }
        self.books.row(head.into_iter().chain(state).chain(cells))
    }

    fn trade_row(&mut self, instrument: &Instrument, trade: &Trade) -> Result<(), ParquetError> {
        let head = head(&self.packet, trade.transact_time_ns, instrument);
        let rest = [
            price(trade.price)?,
            Cell::I64(trade.quantity),
            Cell::I32(trade.orders),
            Cell::text(aggressor_word(trade.aggressor)),
            Cell::text(action_word(trade.action)),
            trade.trade_id.map_or(Cell::Null, Cell::U32),
        ];
        self.trades.row(head.into_iter().chain(rest))
    }
}

/// What every row begins with: the packet, then the instrument.
fn head<'a>(packet: &PacketRef, transact_time_ns: u64, instrument: &'a Instrument) -> [Cell<'a>; 7] {
    [
        Cell::U32(packet.seq_num),
        Cell::Time(packet.sending_time_ns),
        Cell::Time(packet.stamp.ns),
        Cell::Text(packet.stamp.source.as_str()),
        Cell::Time(transact_time_ns),
        Cell::I32(instrument.security_id),
        Cell::Text(instrument.symbol.as_str()),
    ]
}

impl<B: Write + Send, T: Write + Send> Listener for ParquetExport<B, T> {
    fn on_packet(&mut self, packet: &PacketInfo<'_>) {
        self.packet = PacketRef::of(packet);
    }

    fn on_book(&mut self, book: &BookView<'_>) {
        if self.is_open() {
            let result = self.book_row(book);
            self.keep(result);
        }
    }

    fn on_trade(&mut self, instrument: &Instrument, trade: &Trade) {
        if self.is_open() {
            let result = self.trade_row(instrument, trade);
            self.keep(result);
        }
    }
}

/// Files without an end are not readable: they get theirs also when the program leaves early.
impl<B: Write + Send, T: Write + Send> Drop for ParquetExport<B, T> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_schema_and_takes_its_cells_only() {
        let cells = [
            (Kind::U32, Cell::U32(u32::MAX)),
            (Kind::I32, Cell::I32(-1)),
            (Kind::I64, Cell::I64(i64::MIN)),
            (Kind::Price, Cell::Price(-1)),
            (Kind::Time { utc: true }, Cell::Time(u64::MAX)),
            (Kind::Text, Cell::Text("a")),
        ];
        for (index, (kind, _)) in cells.iter().enumerate() {
            assert!(kind.schema("x", true).is_ok());
            for (other, (_, cell)) in cells.iter().enumerate() {
                let mut column = Column::new(*kind, false, 1);
                assert_eq!(column.push(*cell).is_ok(), index == other, "{cell:?} in {kind:?}");
                assert!(column.push(Cell::Null).is_err());
            }
        }
        assert_eq!(book_fields(10).len(), 70);
        assert_eq!(trade_fields().len(), 13);
    }

    #[test]
    fn prices_that_do_not_fit_are_errors() {
        for fits in [0, -1, 999_999_999_999_999_999, -999_999_999_999_999_999] {
            assert!(matches!(price(fits), Ok(Cell::Price(p)) if p == fits));
        }
        assert!(matches!(price(NULL_PRICE), Ok(Cell::Null)));
        for wide in [1_000_000_000_000_000_000, i64::MAX - 1, i64::MIN] {
            assert!(price(wide).is_err());
        }
    }
}
