//! Items as Arrow tables: books, trades, statistics.

use crate::items::{DEPTH, Item, Kind, Row};
use arrow_array::builder::{Decimal128Builder, Int32Builder, Int64Builder};
use arrow_array::{
    ArrayRef, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
    UInt16Array, UInt32Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// Digits of a price, and those behind the point.
const PRICE: (u8, i8) = (19, 9);

fn time(utc: bool) -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, utc.then(|| "UTC".into()))
}

/// Which table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    Books,
    Trades,
    Statistics,
}

impl Table {
    pub const ALL: [(&'static str, Table); 3] =
        [("books", Table::Books), ("trades", Table::Trades), ("statistics", Table::Statistics)];

    pub fn of(name: &str) -> Result<Table, String> {
        let found = Table::ALL.iter().find(|(word, _)| *word == name);
        let why = || format!("there is no table '{name}'; there are books, trades, statistics");
        found.map(|(_, table)| *table).ok_or_else(why)
    }

    pub fn name(self) -> &'static str {
        Table::ALL[self as usize].0
    }

    /// Its columns: name, type, whether a row may lack it.
    pub fn schema(self) -> SchemaRef {
        schema(self)
    }
}

fn schema(table: Table) -> SchemaRef {
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
        Table::Books => {
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
        Table::Trades => {
            fields.push(of("price", price, true));
            fields.push(of("quantity", DataType::Int64, false));
            fields.push(of("orders", DataType::Int32, false));
            fields.push(of("aggressor", DataType::Utf8, true));
            fields.push(of("action", DataType::Utf8, true));
            fields.push(of("trade_id", DataType::UInt32, true));
        }
        Table::Statistics => {
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
    items: &[&Item],
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

/// Items of a table's kind as columns.
pub fn record_batch(table: Table, schema: &SchemaRef, items: &[&Item]) -> Result<RecordBatch, ArrowError> {
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
    match table {
        Table::Books => {
            columns.push(column!(StringArray, Kind::Book { state, .. } => Some(*state)));
            columns.push(column!(StringArray, Kind::Book { cause, .. } => Some(*cause)));
            columns.push(column!(UInt32Array, Kind::Book { rpt_seq, .. } => Some(*rpt_seq)));
            side(items, |k| if let Kind::Book { bids, .. } = k { bids } else { &[] }, &mut columns)?;
            side(items, |k| if let Kind::Book { offers, .. } = k { offers } else { &[] }, &mut columns)?;
        }
        Table::Trades => {
            let price = |i: &&Item| if let Kind::Trade { price, .. } = i.kind { price } else { None };
            columns.push(prices(items.iter().map(price))?);
            columns.push(column!(Int64Array, Kind::Trade { quantity, .. } => Some(*quantity)));
            columns.push(column!(Int32Array, Kind::Trade { orders, .. } => Some(*orders)));
            columns.push(column!(StringArray, Kind::Trade { aggressor, .. } => *aggressor));
            columns.push(column!(StringArray, Kind::Trade { action, .. } => *action));
            columns.push(column!(UInt32Array, Kind::Trade { id, .. } => *id));
        }
        Table::Statistics => {
            let price = |i: &&Item| if let Kind::Statistic { price, .. } = i.kind { price } else { None };
            columns.push(column!(StringArray, Kind::Statistic { kind, .. } => Some(kind.as_str())));
            columns.push(prices(items.iter().map(price))?);
            columns.push(column!(Int64Array, Kind::Statistic { quantity, .. } => *quantity));
            columns.push(column!(UInt32Array, Kind::Statistic { rpt_seq, .. } => Some(*rpt_seq)));
            columns.push(column!(UInt16Array, Kind::Statistic { date, .. } => *date));
        }
    }
    RecordBatch::try_new(Arc::clone(schema), columns)
}
