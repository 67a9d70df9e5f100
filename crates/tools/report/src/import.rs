//! Documents that bench verbs print (`--json`), as records: for documents that were recorded before there were run folders.

use crate::figure::{is_baseline, is_simulated};
use crate::published::tables_of;
use crate::run::{AxisValue, HardwareClass, Record, Role, RunError, RunWriter};
use barewire_measure::Histogram;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the documents that bench verbs write: one array, `rows`, and each row says under [`BENCH`] which bench it is of.
pub const SCHEMA: u64 = 2;

/// The array of a document.
const ROWS: &str = "rows";
/// The key under which a row says which bench it is of: `msg`, `switch`, `rc-data`, ...
pub const BENCH: &str = "bench";

/// The arrays of a document of schema 1, with the bench that their rows are of (empty: the row's keys tell).
const ARRAYS: [(&str, &str); 7] = [
    ("rows", ""),
    ("switch_rows", "switch"),
    ("feed_rows", "feed"),
    ("rc_rows", "rc"),
    ("data", "rc-data"),
    ("rates", "feed-rates"),
    ("decoders", "feed-decoders"),
];

/// What a command may sweep: where rows of one array differ in it, it is an axis of the experiment.
const AXES: [&str; 15] = [
    "size",
    "window",
    "connections",
    "offered_per_s",
    "threads",
    "hosts",
    "nics",
    "live_qps",
    "instruments",
    "gap_us",
    "entries",
    "masks",
    "flows",
    "mtu",
    "peers",
];

/// The key of the control rows in a document, and their table in a run folder.
pub const CONTROL: &str = "control";

/// The key under which a document says what lay between its ends, in [`HardwareClass::word`]'s words.
pub const HARDWARE: &str = "hardware";
/// The key under which a document says when it was measured, in ms since 1970.
pub const STARTED: &str = "started_unix_ms";

/// A document's machine and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// What lay between the ends: [`HardwareClass::Unknown`] where the document does not say it.
    pub hardware: HardwareClass,
    /// When it was measured, in ms since 1970, where the document says it.
    pub started_unix_ms: Option<u64>,
    /// The fingerprint, as JSON.
    pub fingerprint: Value,
    /// The rows, each with a table: a published one that it repeats, or one named after the verb.
    pub rows: Vec<Imported>,
}

/// A row of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The row as a record: without its histograms.
    pub record: Record,
    /// The histograms that stood in it, by name: HDR V2, compressed, base64. Each was decoded once.
    pub histograms: Vec<(String, String)>,
}

impl Imported {
    /// Adds it to a run folder.
    ///
    /// # Errors
    /// As [`RunWriter::add`].
    pub fn write(self, writer: &mut RunWriter) -> Result<(), RunError> {
        let histograms: Vec<(&str, Histogram)> = self
            .histograms
            .iter()
            .filter_map(|(name, text)| Some((name.as_str(), Histogram::from_base64(text).ok()?)))
            .collect();
        let named: Vec<(&str, &Histogram)> = histograms.iter().map(|(name, h)| (*name, h)).collect();
        writer.add(self.record, &named)
    }
}

impl Document {
    /// The records without their histograms.
    pub fn records(&self) -> Vec<Record> {
        self.rows.iter().map(|row| row.record.clone()).collect()
    }
}

/// Why a document could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// No JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// Another version.
    #[error("bench document of schema {0}; this build reads schemas 1 and {SCHEMA}")]
    Schema(u64),
    /// Not a document of a bench verb.
    #[error("not a bench document: {0}")]
    Shape(String),
}

/// Reads a document.
///
/// # Errors
/// [`ImportError`].
pub fn document(text: &str) -> Result<Document, ImportError> {
    let value: Value = serde_json::from_str(text).map_err(|e| ImportError::Json(e.to_string()))?;
    let Value::Object(mut document) = value else {
        return Err(ImportError::Shape("expected an object".to_owned()));
    };
    let mut imported = Vec::new();
    if let Some(Value::Object(row)) = document.get(CONTROL) {
        imported.push(Imported { record: control(row.clone()), histograms: Vec::new() });
    }
    for (bench, rows) in by_bench(raw_rows(&mut document)?, |row| &row.bench) {
        let (plain, histograms): (Vec<_>, Vec<_>) =
            rows.into_iter().map(|row| (row.row, row.histograms)).unzip();
        for (records, histograms) in array(&bench, plain).into_iter().zip(histograms) {
            let with = |record| Imported { record, histograms: histograms.clone() };
            imported.extend(records.into_iter().map(with));
        }
    }
    let hardware = match document.get(HARDWARE) {
        None | Some(Value::Null) => HardwareClass::Unknown,
        Some(word) => serde_json::from_value(word.clone()).map_err(|_| {
            let known = HardwareClass::WORDS.join(", ");
            ImportError::Shape(format!("`{HARDWARE}`: {word} is not known (known: {known})"))
        })?,
    };
    Ok(Document {
        hardware,
        started_unix_ms: document.get(STARTED).and_then(Value::as_u64),
        fingerprint: document.get("fingerprint").cloned().unwrap_or(Value::Null),
        rows: imported,
    })
}

/// A row of a document, its histograms taken out.
struct Raw {
    /// Empty where neither the row nor its array says it.
    bench: String,
    row: Map<String, Value>,
    histograms: Vec<(String, String)>,
}

/// Whether a JSON object is a document of a bench verb: it has a schema, and rows of that schema.
pub fn is_document(object: &Map<String, Value>) -> bool {
    arrays(object)
        .is_ok_and(|arrays| arrays.iter().any(|(key, _)| object.get(*key).is_some_and(Value::is_array)))
}

/// The rows of a document, in its order, each with its bench under [`BENCH`] where that is known.
pub fn rows(document: Map<String, Value>) -> Vec<Map<String, Value>> {
    let (mut document, mut rows) = (document, Vec::new());
    for (key, bench) in arrays(&document).unwrap_or_default() {
        let Some(Value::Array(list)) = document.remove(*key) else { continue };
        for value in list {
            let Value::Object(mut row) = value else { continue };
            if !bench.is_empty() {
                row.entry(BENCH).or_insert_with(|| (*bench).into());
            }
            rows.push(row);
        }
    }
    rows
}

/// The keys under which a document of its schema has rows.
fn arrays(document: &Map<String, Value>) -> Result<&'static [(&'static str, &'static str)], ImportError> {
    match document.get("schema").and_then(Value::as_u64) {
        Some(1) => Ok(&ARRAYS),
        Some(SCHEMA) => Ok(&[(ROWS, "")]),
        Some(other) => Err(ImportError::Schema(other)),
        None => Err(ImportError::Shape("key `schema` is expected".to_owned())),
    }
}

fn raw_rows(document: &mut Map<String, Value>) -> Result<Vec<Raw>, ImportError> {
    let arrays = arrays(document)?;
    let (mut raw, mut known) = (Vec::new(), false);
    for (key, bench) in arrays {
        let Some(rows) = document.remove(*key) else { continue };
        known = true;
        let Value::Array(rows) = rows else {
            return Err(ImportError::Shape(format!("`{key}`: expected an array")));
        };
        for (index, row) in rows.into_iter().enumerate() {
            let Value::Object(mut row) = row else {
                return Err(ImportError::Shape(format!("`{key}[{index}]`: expected an object")));
            };
            let histograms = histograms_of(&mut row)
                .map_err(|why| ImportError::Shape(format!("`{key}[{index}].histograms`: {why}")))?;
            let bench = row.get(BENCH).and_then(Value::as_str).unwrap_or(bench).to_owned();
            raw.push(Raw { bench, row, histograms });
        }
    }
    if !known {
        let keys: Vec<&str> = arrays.iter().map(|(key, _)| *key).collect();
        return Err(ImportError::Shape(match keys[..] {
            [one] => format!("`{one}` is not there"),
            _ => format!("none of {} is there", keys.join(", ")),
        }));
    }
    Ok(raw)
}

/// Rows of each bench together, benches and their rows in the order in which they came.
pub fn by_bench<R>(rows: impl IntoIterator<Item = R>, bench: impl Fn(&R) -> &str) -> Vec<(String, Vec<R>)> {
    let mut groups: Vec<(String, Vec<R>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(known, _)| known == bench(&row)) {
            Some((_, group)) => group.push(row),
            None => groups.push((bench(&row).to_owned(), vec![row])),
        }
    }
    groups
}

/// Takes the histograms out of a row.
fn histograms_of(row: &mut Map<String, Value>) -> Result<Vec<(String, String)>, String> {
    let Some(found) = row.remove("histograms") else { return Ok(Vec::new()) };
    let Value::Object(found) = found else { return Err("expected an object".to_owned()) };
    let one = |(name, text): (String, Value)| {
        let Value::String(text) = text else { return Err(format!("`{name}`: text is expected")) };
        Histogram::from_base64(&text).map_err(|e| format!("`{name}`: {e}"))?;
        Ok((name, text))
    };
    found.into_iter().map(one).collect()
}

/// Control rows as a record.
pub fn control(row: Map<String, Value>) -> Record {
    Record { role: Role::Control, ..Record::new(CONTROL, CONTROL, row) }
}

/// The rows of one bench: for each its records, one for each table that it repeats, with the axes along which the rows differ.
pub fn array(bench: &str, rows: Vec<Map<String, Value>>) -> Vec<Vec<Record>> {
    // What a command may sweep, and what rows say of themselves that it was asked for.
    let mut axes: BTreeSet<String> = AXES.map(str::to_owned).into();
    for params in rows.iter().filter_map(|row| row.get("params")?.as_object()) {
        axes.extend(params.keys().cloned());
    }
    let swept: Vec<String> = axes.into_iter().filter(|axis| is_swept(axis, &rows)).collect();
    let records = |row: Map<String, Value>| {
        let tables = tables_of(&row);
        let axes: BTreeMap<String, AxisValue> = swept
            .iter()
            .filter_map(|axis| Some((axis.clone(), AxisValue::Number(row.get(axis)?.as_f64()?))))
            .collect();
        let first = Record { axes, ..record(row, bench) };
        let more = tables.into_iter().skip(1);
        let mut all: Vec<Record> =
            more.map(|table| Record { table: table.to_owned(), ..first.clone() }).collect();
        all.push(first);
        all
    };
    rows.into_iter().map(records).collect()
}

/// Every row says a number there, and not all the same. A setting that some systems do not have is no axis: their rows would have
/// no place on it.
fn is_swept(axis: &str, rows: &[Map<String, Value>]) -> bool {
    let values: Option<Vec<f64>> = rows.iter().map(|row| row.get(axis)?.as_f64()).collect();
    values.is_some_and(|values| values.iter().any(|v| *v != values[0]))
}

/// A row as a record, of the first table that it repeats. `bench` is the one that it is of; empty: what the row says, and where it
/// says nothing (schema 1), what its keys tell.
pub fn record(row: Map<String, Value>, bench: &str) -> Record {
    let said = row.get(BENCH).and_then(Value::as_str).unwrap_or_default().to_owned();
    let bench = match if bench.is_empty() { said.as_str() } else { bench } {
        "" if is_simulated(&row) => "simulated",
        "" if row.contains_key("rtt_ns") => "msg",
        "" if row.contains_key("connections_per_s") => "rc",
        "" if row.contains_key("latency_ns") => "feed",
        "" if row.contains_key("program") => "switch",
        "" if row.contains_key("search") => "search",
        "" if row.contains_key("streams") => "stream",
        "" => "rows",
        bench => bench,
    };
    let baseline = is_baseline(&row);
    let mut record = match tables_of(&row).first() {
        Some(table) => Record::new(bench, table, row),
        None => Record::new(bench, bench, row),
    };
    if let Some(reason) = record.row.get("missing").and_then(Value::as_str) {
        record.reason = Some(reason.to_owned());
        record.role = Role::Missing;
    } else if baseline {
        record.role = Role::Baseline;
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows(of: &[Value]) -> Vec<Map<String, Value>> {
        of.iter().map(|row| serde_json::from_value(row.clone()).unwrap()).collect()
    }

    #[test]
    fn what_differs_between_rows_is_an_axis() {
        let all = array(
            "",
            rows(&[
                json!({"system": "barewire", "connections_per_s": 5.0, "threads": 1, "window": 64, "entries": 3}),
                json!({"system": "kernel-tcp", "connections_per_s": 4.0, "threads": 2, "window": 64, "entries": null}),
            ]),
        );
        let axes: Vec<_> = all.iter().map(|records| records[0].axes.clone()).collect();
        assert_eq!(axes[0], BTreeMap::from([("threads".to_owned(), AxisValue::Number(1.0))]));
        assert_eq!(axes[1], BTreeMap::from([("threads".to_owned(), AxisValue::Number(2.0))]));
        assert_eq!((all[0][0].experiment.as_str(), all[1][0].role), ("rc", Role::Baseline));
    }

    #[test]
    fn a_document_says_when_and_on_what_or_nothing_is_made_up() {
        let read = |more: Value| {
            let mut text = json!({"schema": 1, "rows": []});
            text.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            document(&text.to_string())
        };
        let old = read(json!({})).unwrap();
        assert_eq!((old.hardware, old.started_unix_ms), (HardwareClass::Unknown, None));
        let told = read(json!({"hardware": "cloud-vms", "started_unix_ms": 1_795_348_984_123_u64})).unwrap();
        assert_eq!((told.hardware, told.started_unix_ms), (HardwareClass::CloudVms, Some(1_795_348_984_123)));
        let error = read(json!({"hardware": "a toaster"})).unwrap_err().to_string();
        assert!(error.contains("`hardware`: \"a toaster\" is not known (known: cloud-vms, "), "{error}");
    }

    #[test]
    fn whatever_is_not_ours_is_a_baseline() {
        let role = |row: Value| record(serde_json::from_value(row).unwrap(), "").role;
        for system in ["kernel-tcp", "bmv2", "bridge", "direct", "bare-loop", "routing"] {
            assert_eq!(role(json!({"system": system, "tcp_mbps": 1.0})), Role::Baseline, "{system}");
        }
        assert_eq!(role(json!({"system": "barewire", "tcp_mbps": 1.0})), Role::Measured);
        assert_eq!(role(json!({"decoder": "sbe-tool"})), Role::Baseline);
        assert_eq!(role(json!({"decoder": "barewire"})), Role::Measured);
        assert_eq!(role(json!({"engine": "mem", "rate_pps": 1.0})), Role::Measured, "rates name no system");
    }

    #[test]
    fn histograms_and_control_rows_come_out_of_a_document() {
        let mut histogram = Histogram::new();
        histogram.record_n(9_000, 30);
        let row = json!({"system": "barewire", "rtt_ns": {"p50": 9_000}, "histograms": {"service": histogram.to_base64()}});
        let text = json!({"schema": 1, "fingerprint": {}, "control": {"clock_ns": 20}, "rows": [row]});
        let read = document(&text.to_string()).unwrap();
        assert_eq!(read.rows.len(), 2);
        assert_eq!(
            (read.rows[0].record.role, read.rows[0].record.row["clock_ns"].as_u64()),
            (Role::Control, Some(20))
        );
        assert!(!read.rows[1].record.row.contains_key("histograms"));
        assert_eq!(read.rows[1].histograms[0].0, "service");

        for (bad, why) in [
            (json!({"service": "HIST"}), "`rows[0].histograms`: `service`"),
            (json!({"service": 5}), "text is expected"),
            (json!(7), "expected an object"),
        ] {
            let text = json!({"schema": 1, "rows": [{"histograms": bad}]});
            let said = document(&text.to_string()).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
