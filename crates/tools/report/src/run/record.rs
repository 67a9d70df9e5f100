//! A record: one row of an experiment, with what places it in a table.

use barewire_text::{Quote, hint, nearest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;

/// Why a row is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// What the experiment is about.
    #[default]
    Measured,
    /// Something known that ran beside it.
    Baseline,
    /// The floor under every figure: clock cost, core to core, hiccups.
    Control,
    /// A row that should be there; `reason` says why it is not.
    Missing,
}

impl Role {
    /// All, as a record spells them.
    pub const WORDS: [&'static str; 4] = ["measured", "baseline", "control", "missing"];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Measured => "measured",
            Role::Baseline => "baseline",
            Role::Control => "control",
            Role::Missing => "missing",
        }
    }
}

/// Where a row stands on an axis of its experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisValue {
    /// A number: threads, machines, bytes, requests in flight.
    Number(f64),
    /// A word.
    Text(String),
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisValue::Number(n) => write!(f, "{n}"),
            AxisValue::Text(t) => f.write_str(t),
        }
    }
}

impl From<f64> for AxisValue {
    fn from(n: f64) -> AxisValue {
        AxisValue::Number(n)
    }
}

impl From<&str> for AxisValue {
    fn from(t: &str) -> AxisValue {
        AxisValue::Text(t.to_owned())
    }
}

/// A histogram of a record: the lines of `histograms.hlog` with this tag, merged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistogramRef {
    /// What was counted: `rtt`, `service`, `response`, `latency`.
    pub name: String,
    /// The lines' tag.
    pub tag: String,
}

/// One line of `rows.jsonl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Which experiment, such as `message-latency`.
    pub experiment: String,
    /// Which table it belongs to: the id of a published one ([`crate::published`]) or one of the experiment's own.
    pub table: String,
    /// Why it is there.
    #[serde(default)]
    pub role: Role,
    /// Values of the axes that the experiment sweeps.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub axes: BTreeMap<String, AxisValue>,
    /// Why it must not be set against published rows, if there is more to say than its hardware class does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_comparable: Option<String>,
    /// Why the row is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its histograms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histograms: Vec<HistogramRef>,
    /// The row as the bench verb prints it.
    #[serde(default)]
    pub row: Map<String, Value>,
}

const KEYS: [&str; 8] =
    ["experiment", "table", "role", "axes", "not_comparable", "reason", "histograms", "row"];

impl Record {
    /// A measured row of a table.
    pub fn new(experiment: &str, table: &str, row: Map<String, Value>) -> Record {
        Record { experiment: experiment.to_owned(), table: table.to_owned(), row, ..Record::default() }
    }

    /// A row that should be there and is not.
    pub fn missing(experiment: &str, table: &str, reason: &str) -> Record {
        let reason = Some(reason.to_owned());
        Record { role: Role::Missing, reason, ..Record::new(experiment, table, Map::new()) }
    }

    /// What cannot be read back as it was.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.experiment.is_empty() || self.table.is_empty() {
            return Err("experiment and table need names".to_owned());
        }
        for (axis, value) in &self.axes {
            if matches!(value, AxisValue::Number(n) if !n.is_finite()) {
                return Err(format!("axis `{axis}` is not a finite number"));
            }
        }
        Ok(())
    }

    /// Reads one line.
    pub(crate) fn from_line(line: &str) -> Result<Record, String> {
        let value: Value =
            serde_json::from_str(line).map_err(|e| format!("not JSON: {}", without_line(&e.to_string())))?;
        known_keys(&value, &KEYS)?;
        if let Some(role) = value.get("role").and_then(Value::as_str) {
            known_word("role", role, &Role::WORDS)?;
        }
        let record: Record = serde_json::from_value(value).map_err(|e| e.to_string())?;
        record.check()?;
        Ok(record)
    }
}

/// An error of serde_json counts lines of its own; the file's is told beside it.
fn without_line(message: &str) -> String {
    message.replace("at line 1 column", "at column")
}

/// Refuses a key that is not known, with the nearest one.
pub(crate) fn known_keys(value: &Value, known: &[&str]) -> Result<(), String> {
    let Value::Object(map) = value else { return Err("expected an object".to_owned()) };
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let near = nearest(key, known.iter().copied());
            Err(format!("unknown key `{key}`{}", hint("; ", near, Quote::Back)))
        }
        None => Ok(()),
    }
}

/// Refuses a word that is not known, with the nearest one.
pub(crate) fn known_word(what: &str, word: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&word) {
        return Ok(());
    }
    let hint = hint("; ", nearest(word, known.iter().copied()), Quote::Back);
    Err(format!("{what} `{word}` is not known{hint} (known: {})", known.join(", ")))
}
