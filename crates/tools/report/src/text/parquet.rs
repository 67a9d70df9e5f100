//! Every figure of some runs as Apache Parquet: the lines of the CSV, typed. What is empty there is null here, `repetitions` is a list,
//! and `started` is a `TIMESTAMP(MILLIS)` in UTC.

use super::lines::{Line, lines};
use crate::run::Run;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{PrimitiveTypeBuilder, Type};
use std::sync::Arc;

/// A column: its name, and what it has of a line.
enum Column {
    Text(&'static str, fn(&Line) -> &str),
    /// Null where it is empty.
    Words(&'static str, fn(&Line) -> &str),
    Time(&'static str, fn(&Line) -> u64),
    Count(&'static str, fn(&Line) -> Option<u64>),
    Number(&'static str, fn(&Line) -> Option<f64>),
    Flag(&'static str, fn(&Line) -> bool),
    Numbers(&'static str, fn(&Line) -> &[f64]),
}

const COLUMNS: [Column; 17] = [
    Column::Text("run", |line| &line.run),
    Column::Time("started", |line| line.started_unix_ms),
    Column::Text("experiment", |line| &line.experiment),
    Column::Text("table", |line| &line.table),
    Column::Text("role", |line| line.role),
    Column::Text("system", |line| &line.system),
    Column::Text("details", |line| &line.details),
    Column::Words("figure", |line| &line.figure),
    Column::Words("path", |line| &line.path),
    Column::Words("unit", |line| line.unit),
    Column::Number("value", |line| line.value),
    Column::Count("needs", |line| line.needs),
    Column::Count("samples", |line| line.samples),
    Column::Numbers("repetitions", |line| &line.repetitions),
    Column::Flag("contended", |line| line.contended),
    Column::Words("void", |line| &line.void),
    Column::Words("command", |line| &line.command),
];

impl Column {
    fn schema(&self) -> Result<Type, ParquetError> {
        const OPTIONAL: Repetition = Repetition::OPTIONAL;
        const REPEATED: Repetition = Repetition::REPEATED;
        const REQUIRED: Repetition = Repetition::REQUIRED;
        fn one(name: &str, physical: Physical, repetition: Repetition) -> PrimitiveTypeBuilder<'_> {
            Type::primitive_type_builder(name, physical).with_repetition(repetition)
        }
        let text = Some(LogicalType::String);
        match self {
            Column::Text(name, _) => {
                one(name, Physical::BYTE_ARRAY, REQUIRED).with_logical_type(text).build()
            }
            Column::Words(name, _) => {
                one(name, Physical::BYTE_ARRAY, OPTIONAL).with_logical_type(text).build()
            }
            Column::Time(name, _) => {
                let time = LogicalType::timestamp(true, TimeUnit::MILLIS);
                one(name, Physical::INT64, REQUIRED).with_logical_type(Some(time)).build()
            }
            Column::Count(name, _) => one(name, Physical::INT64, OPTIONAL).build(),
            Column::Number(name, _) => one(name, Physical::DOUBLE, OPTIONAL).build(),
            Column::Flag(name, _) => one(name, Physical::BOOLEAN, REQUIRED).build(),
            Column::Numbers(name, _) => {
                let element = one("element", Physical::DOUBLE, REQUIRED).build()?;
                let list = Type::group_type_builder("list")
                    .with_repetition(REPEATED)
                    .with_fields(vec![Arc::new(element)])
                    .build()?;
                Type::group_type_builder(name)
                    .with_repetition(REQUIRED)
                    .with_logical_type(Some(LogicalType::List))
                    .with_fields(vec![Arc::new(list)])
                    .build()
            }
        }
    }

    fn write(
        &self,
        to: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
        lines: &[Line],
    ) -> Result<(), ParquetError> {
        let bytes = |text: &str| ByteArray::from(text.as_bytes().to_vec());
        match self {
            Column::Text(_, of) => {
                let values: Vec<ByteArray> = lines.iter().map(|line| bytes(of(line))).collect();
                column::<ByteArrayType>(to, &values, None, None)
            }
            Column::Words(_, of) => {
                let all = lines.iter().map(|line| Some(of(line)).filter(|text| !text.is_empty()));
                optional::<ByteArrayType>(to, all.map(|text| text.map(bytes)))
            }
            Column::Time(_, of) => {
                let values: Vec<i64> = lines.iter().map(|line| whole(of(line))).collect();
                column::<Int64Type>(to, &values, None, None)
            }
            Column::Count(_, of) => optional::<Int64Type>(to, lines.iter().map(|line| of(line).map(whole))),
            Column::Number(_, of) => optional::<DoubleType>(to, lines.iter().map(of)),
            Column::Flag(_, of) => {
                let values: Vec<bool> = lines.iter().map(of).collect();
                column::<BoolType>(to, &values, None, None)
            }
            Column::Numbers(_, of) => {
                let (mut values, mut there, mut goes_on) = (Vec::new(), Vec::new(), Vec::new());
                for list in lines.iter().map(of) {
                    values.extend_from_slice(list);
                    // An empty list has one entry, which says that nothing is there.
                    for at in 0..list.len().max(1) {
                        there.push(i16::from(!list.is_empty()));
                        goes_on.push(i16::from(at > 0));
                    }
                }
                column::<DoubleType>(to, &values, Some(&there), Some(&goes_on))
            }
        }
    }
}

/// Times and counts that no such number holds end at its largest.
fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn optional<T: DataType>(
    to: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    all: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let mut there = Vec::new();
    let values: Vec<T::T> = all.inspect(|value| there.push(i16::from(value.is_some()))).flatten().collect();
    column::<T>(to, &values, Some(&there), None)
}

fn column<T: DataType>(
    to: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[T::T],
    there: Option<&[i16]>,
    goes_on: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("fewer columns than the schema has".to_owned());
    let mut column = to.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, there, goes_on)?;
    column.close()
}

/// Every figure of `runs`, as the bytes of a Parquet file (one row group, Snappy). Columns are the CSV's and `started`.
///
/// # Errors
/// [`ParquetError`].
pub fn parquet(runs: &[&Run]) -> Result<Vec<u8>, ParquetError> {
    let lines = lines(runs);
    let fields = COLUMNS.iter().map(|column| column.schema().map(Arc::new)).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("figures").with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for column in &COLUMNS {
        column.write(&mut group, &lines)?;
    }
    group.close()?;
    file.into_inner()
}
