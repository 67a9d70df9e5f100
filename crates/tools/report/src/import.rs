//! Documents that bench verbs print (`--json`), as records: for documents that were recorded before there were run folders.

use crate::published::tables_of;
use crate::run::{Record, Role};
use serde_json::{Map, Value};

/// Version of the bench verbs' documents that is understood.
const DOCUMENT_SCHEMA: u64 = 1;

/// The arrays of a document, with what their rows are of.
const ARRAYS: [(&str, &str); 7] = [
    ("rows", ""),
    ("switch_rows", "switch"),
    ("feed_rows", "feed"),
    ("rc_rows", "rc"),
    ("data", "rc-data"),
    ("rates", "feed-rates"),
    ("decoders", "feed-decoders"),
];

/// Systems that are measured for the sake of comparison.
const BASELINES: [&str; 4] = ["bmv2", "bridge", "direct", "bare-loop"];

/// A document's machine and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The fingerprint, as JSON.
    pub fingerprint: Value,
    /// The rows, each with a table: a published one that it repeats, or one named after the verb.
    pub records: Vec<Record>,
}

/// Why a document could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// No JSON.
    #[error("no JSON: {0}")]
    Json(String),
    /// Another version.
    #[error("bench document of schema {0}; this build reads schema {DOCUMENT_SCHEMA}")]
    Schema(u64),
    /// Not a document of a bench verb.
    #[error("no bench document: {0}")]
    Shape(String),
}

/// Reads a document.
///
/// # Errors
/// [`ImportError`].
pub fn document(text: &str) -> Result<Document, ImportError> {
    let value: Value = serde_json::from_str(text).map_err(|e| ImportError::Json(e.to_string()))?;
    let Value::Object(document) = value else {
        return Err(ImportError::Shape("an object is expected".to_owned()));
    };
    match document.get("schema").and_then(Value::as_u64) {
        Some(DOCUMENT_SCHEMA) => {}
        Some(other) => return Err(ImportError::Schema(other)),
        None => return Err(ImportError::Shape("key `schema` is expected".to_owned())),
    }
    let mut records = Vec::new();
    let mut known = false;
    for (key, family) in ARRAYS {
        let Some(rows) = document.get(key) else { continue };
        known = true;
        let Value::Array(rows) = rows else {
            return Err(ImportError::Shape(format!("`{key}`: an array is expected")));
        };
        for (index, row) in rows.iter().enumerate() {
            let Value::Object(row) = row else {
                return Err(ImportError::Shape(format!("`{key}[{index}]`: an object is expected")));
            };
            let first = record(row.clone(), family);
            for table in tables_of(row).into_iter().skip(1) {
                records.push(Record { table: table.to_owned(), ..first.clone() });
            }
            records.push(first);
        }
    }
    if !known {
        let keys: Vec<&str> = ARRAYS.iter().map(|(key, _)| *key).collect();
        return Err(ImportError::Shape(format!("none of {} is there", keys.join(", "))));
    }
    Ok(Document { fingerprint: document.get("fingerprint").cloned().unwrap_or(Value::Null), records })
}

/// A row as a record, of the first table that it repeats. `family` names its verb; empty: found out from the row.
pub fn record(row: Map<String, Value>, family: &str) -> Record {
    let family = match family {
        "" if row.contains_key("rtt_ns") => "msg",
        "" if row.contains_key("connections_per_s") => "rc",
        "" if row.contains_key("latency_ns") => "feed",
        "" if row.contains_key("program") => "switch",
        "" => "rows",
        family => family,
    };
    let system = row.get("system").and_then(Value::as_str).unwrap_or_default();
    let baseline = system.starts_with("kernel")
        || BASELINES.contains(&system)
        || row.get("decoder").and_then(Value::as_str).is_some_and(|d| d != "barewire");
    let mut record = match tables_of(&row).first() {
        Some(table) => Record::new(family, table, row),
        None => Record::new(family, family, row),
    };
    if let Some(reason) = record.row.get("missing").and_then(Value::as_str) {
        record.reason = Some(reason.to_owned());
        record.role = Role::Missing;
    } else if baseline {
        record.role = Role::Baseline;
    }
    record
}
