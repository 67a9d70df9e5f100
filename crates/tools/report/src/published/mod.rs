//! Every table of the five published performance reports, as data, and which measured rows repeat which of them.
//!
//! A published figure never stands alone: with it come the hardware class, the published command and what the authors did not run.
//! `None` is a figure that the text prints as `XXX` or not at all.

mod bmv2;
mod comparable;
mod machnet;
mod mitosis;
mod onixs;
mod with_measured;

pub use comparable::comparable;
pub(crate) use comparable::reasons;
pub use with_measured::with_measured;

use crate::figure::{Better, Unit, is_simulated};
use crate::run::{AxisValue, HardwareClass, Record};
use serde_json::{Map, Value};
use std::fmt;

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// As the text prints it, with the unit that the text's own heading gives it: for whoever reads it.
    pub text: &'static str,
    /// In the column's unit: for whoever draws it. Never shown, so that no rounding of ours is taken for the text's.
    pub value: f64,
}

/// A column of a table: which figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// The text's own heading, in our units.
    pub label: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Which way it should go.
    pub better: Better,
    /// Where a measured row has it: the first of these that is there ([`crate::figure::Figure::path`]).
    pub paths: &'static [&'static str],
    /// In what the published and the measured figure of this column differ; empty for most.
    pub note: &'static str,
}

/// What a measured row must say to belong to a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Want {
    /// This number.
    Is(f64),
    /// More than this number.
    Above(f64),
    /// This word.
    Word(&'static str),
    /// A word that begins so.
    Begins(&'static str),
    /// Yes or no.
    Flag(bool),
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Want::Is(n) => write!(f, "{n}"),
            Want::Above(n) => write!(f, "above {n}"),
            Want::Word(word) | Want::Begins(word) => f.write_str(word),
            Want::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

/// A part of a table whose rows may be set against each other: one experiment, or one point of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    /// Its heading.
    pub label: &'static str,
    /// What measured rows of it say, under axes or in the row itself.
    pub wants: &'static [(&'static str, Want)],
}

/// A published row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedRow {
    /// Index of its case.
    pub case: usize,
    /// What measured rows that repeat it say besides what its case wants.
    pub wants: &'static [(&'static str, Want)],
    /// Who or what was measured.
    pub system: &'static str,
    /// On what.
    pub hardware: &'static str,
    /// The class of that.
    pub class: HardwareClass,
    /// Requests in flight, where the table has such a thing: Little's law is checked with it.
    pub window: Option<f64>,
    /// A figure for each column; `None`: not run, or not told.
    pub values: &'static [Option<Printed>],
    /// The text's own remark, and ours.
    pub note: &'static str,
}

impl PublishedRow {
    /// The value in column `index`.
    pub fn value(&self, index: usize) -> Option<f64> {
        self.values.get(index).copied().flatten().map(|p| p.value)
    }

    /// Its hardware and that one's class, its window, its note: what a table says beside its name.
    pub fn details(&self) -> String {
        let mut details = format!("{}; {}", self.hardware, self.class.as_str());
        if let Some(window) = self.window {
            details.push_str(&format!("; window {window}"));
        }
        if !self.note.is_empty() {
            details.push_str(&format!("; {}", self.note));
        }
        details
    }
}

/// The sweep of a scaling table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The axis as records name it.
    pub axis: &'static str,
    /// In words, for a chart.
    pub words: &'static str,
}

/// A published table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedTable {
    /// Its id, and that of the records that repeat it.
    pub id: &'static str,
    /// Whose records are shown in it: its own id, or that of the table whose figures it prints again.
    pub records_of: &'static str,
    /// Which report.
    pub report: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// The published command, and what is wrong with it.
    pub command: &'static str,
    /// How the published figures were taken, as far as it is told.
    pub method: &'static str,
    /// Why its figures are never of the same kind as ours.
    pub apart: &'static str,
    /// Columns.
    pub columns: &'static [Column],
    /// Cases.
    pub cases: &'static [Case],
    /// The axis of a scaling table.
    pub sweep: Option<Sweep>,
    /// Rows.
    pub rows: &'static [PublishedRow],
}

/// All tables of the five reports, in the reports' order.
pub fn tables() -> impl Iterator<Item = &'static PublishedTable> {
    machnet::TABLES.iter().chain(bmv2::TABLES).chain(onixs::TABLES).chain(mitosis::TABLES)
}

/// The table of this id.
pub fn table(id: &str) -> Option<&'static PublishedTable> {
    tables().find(|t| t.id == id)
}

/// The published tables that a row of a bench verb repeats, judged by what the row says of itself.
pub fn tables_of(row: &Map<String, Value>) -> Vec<&'static str> {
    // A model repeats no measurement.
    if is_simulated(row) {
        return Vec::new();
    }
    if !row.contains_key("connections_per_s") {
        return table_of(row).into_iter().collect();
    }
    let number = |key: &str| row.get(key).and_then(Value::as_u64);
    let plain = number("window") == Some(1)
        && row.get("teardown") == Some(&Value::Bool(true))
        && number("live_qps").is_none_or(|n| n == 0);
    match (number("hosts"), number("threads"), number("nics")) {
        (Some(hosts), Some(threads), Some(nics)) if plain => {
            mitosis::tables_of(hosts, threads, nics).to_vec()
        }
        _ => Vec::new(),
    }
}

fn table_of(row: &Map<String, Value>) -> Option<&'static str> {
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    let number = |key: &str| row.get(key).and_then(Value::as_f64);
    if row.contains_key("rtt_ns") {
        let same = text("loop") == Some("closed")
            && number("size") == Some(1024.0)
            && number("connections").is_none_or(|n| n == 1.0);
        return same.then_some("machnet");
    }
    if row.contains_key("latency_ns") {
        // One line of a channel, updates of one entry or the channel's own mix, with a book behind them: what the text describes.
        let same = text("what").is_none_or(|w| w == "book")
            && text("lines").is_none_or(|l| l == "a")
            && text("workload").is_none_or(|w| ["channel", "one-entry"].contains(&w));
        return match (text("base"), number("gap_us")) {
            _ if !same => None,
            (Some("app"), Some(5000.0)) => Some("onixs.app-5ms"),
            (Some("stamp"), Some(5000.0)) => Some("onixs.net-5ms"),
            (Some("app"), Some(0.0)) => Some("onixs.app-0"),
            (Some("stamp"), Some(0.0)) => Some("onixs.net-0"),
            _ => None,
        };
    }
    let router = row.contains_key("tcp_mbps") && number("tcp_mbps").is_some();
    (router && row.get("offloads") == Some(&Value::Bool(false))).then_some("bmv2")
}

impl PublishedTable {
    /// The case that `record` belongs to. `None`: it repeats none.
    pub fn case_of(&self, record: &Record) -> Option<usize> {
        self.cases.iter().position(|case| case.wants.iter().all(|(key, want)| has(record, key, *want)))
    }

    /// Whether `record`, which is of the case of `row`, stands in the place of that very row.
    pub fn repeats(&self, row: &PublishedRow, record: &Record) -> bool {
        row.wants.iter().all(|(key, want)| has(record, key, *want))
    }
}

fn has(record: &Record, key: &str, want: Want) -> bool {
    let number = match (record.axes.get(key), record.row.get(key)) {
        (Some(AxisValue::Number(n)), _) => Some(*n),
        (Some(AxisValue::Text(_)), _) => None,
        (None, value) => value.and_then(Value::as_f64),
    };
    let word = match (record.axes.get(key), record.row.get(key)) {
        (Some(AxisValue::Text(t)), _) => Some(t.as_str()),
        (_, value) => value.and_then(Value::as_str),
    };
    match want {
        Want::Is(n) => number == Some(n),
        Want::Above(n) => number.is_some_and(|got| got > n),
        Want::Word(w) => word == Some(w),
        Want::Begins(w) => word.is_some_and(|got| got.starts_with(w)),
        Want::Flag(f) => record.row.get(key) == Some(&Value::Bool(f)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_measure::little_law_check;

    #[test]
    fn tables_are_whole() {
        let mut ids = std::collections::BTreeSet::new();
        for t in tables() {
            assert!(ids.insert(t.id), "{} twice", t.id);
            assert!(table(t.records_of).is_some(), "{}", t.id);
            for row in t.rows {
                assert_eq!(row.values.len(), t.columns.len(), "{} {}", t.id, row.system);
                assert!(row.case < t.cases.len(), "{} {}", t.id, row.system);
            }
            for case in 0..t.cases.len() {
                assert!(t.rows.iter().any(|r| r.case == case), "{} case {case} has no published row", t.id);
            }
        }
        assert_eq!(ids.len(), 12);
        // A table that promises a column has a place where a measured row would have it.
        assert!(tables().flat_map(|t| t.columns).all(|c| !c.paths.is_empty()));
        assert!(tables().all(|t| !t.apart.is_empty()));
    }

    /// The number that a printed figure begins with, exactly, times the factor of what follows it: in millionths.
    fn millionths(text: &str) -> (u128, &str) {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let number = number.replace(',', "");
        let (whole, part) = number.split_once('.').unwrap_or((&number, ""));
        let digits: u128 = format!("{whole}{part:0<6}").parse().unwrap();
        (digits, rest)
    }

    /// Text and value of a figure are of one number, and times are whole nanoseconds: a product of floating point is not.
    #[test]
    fn printed_texts_and_values_are_the_same() {
        let mut checked = 0;
        for (table, row) in tables().flat_map(|t| t.rows.iter().map(move |r| (t, r))) {
            for (column, printed) in table.columns.iter().zip(row.values) {
                let Some(Printed { text, value }) = *printed else { continue };
                if column.unit == Unit::Ns {
                    assert_eq!(value.fract(), 0.0, "{} {}: {value} ns", table.id, row.system);
                }
                let (number, unit) = millionths(text);
                let factor = match unit {
                    "" | " Mbps" | "pps" | " connection/s" => 1,
                    " us" | "K" => 1_000,
                    "ms" => 1_000_000,
                    other => panic!("{other}"),
                };
                assert_eq!(
                    (value * 1e6).round() as u128,
                    number * factor,
                    "{} {}: {text}",
                    table.id,
                    row.system
                );
                checked += 1;
            }
        }
        assert_eq!(checked, 40 + 40 + 2 + 60 + 16);
    }

    /// A published rate, times and window agree within a sixth: the figures were not mistyped here.
    #[test]
    fn published_rows_obey_littles_law() {
        let mut checked = 0;
        for row in machnet::TABLES.iter().flat_map(|t| t.rows) {
            let (Some(window), Some(p50), Some(rate)) = (row.window, row.value(0), row.value(3)) else {
                continue;
            };
            let little = little_law_check(window as u32, rate, p50);
            assert!((0.84..1.05).contains(&little), "{} {little}", row.system);
            checked += 1;
        }
        assert_eq!(checked, 20);
    }

    #[test]
    fn rows_find_their_table_and_case() {
        let row = |text: &str| -> Map<String, Value> { serde_json::from_str(text).unwrap() };
        let msg = row(r#"{"rtt_ns":{},"loop":"closed","size":1024,"connections":1,"window":8}"#);
        assert_eq!(table_of(&msg), Some("machnet"));
        let t = table("machnet").unwrap();
        let record = Record::new("x", "machnet", msg);
        assert_eq!(t.case_of(&record).map(|c| t.cases[c].wants), Some(&[("window", Want::Above(1.0))][..]));
        assert_eq!(table_of(&row(r#"{"rtt_ns":{},"loop":"closed","size":64}"#)), None);
        assert_eq!(table_of(&row(r#"{"tcp_mbps":5.0,"offloads":false}"#)), Some("bmv2"));
        assert_eq!(table_of(&row(r#"{"tcp_mbps":5.0,"offloads":true}"#)), None);
        assert_eq!(
            table_of(&row(r#"{"latency_ns":{},"base":"stamp","gap_us":0,"what":"book"}"#)),
            Some("onixs.net-0")
        );
        for other in [r#""lines":"ab""#, r#""workload":"snapshots""#, r#""what":"message""#] {
            let text = format!(r#"{{"latency_ns":{{}},"base":"stamp","gap_us":0,{other}}}"#);
            assert_eq!(table_of(&row(&text)), None, "{other}");
        }
        let rc = row(
            r#"{"connections_per_s":1.0,"window":1,"teardown":true,"live_qps":0,"hosts":8,"threads":2,"nics":1}"#,
        );
        assert_eq!(tables_of(&rc), ["rc.machines"]);
        let record = Record::new("rc", "rc.machines", rc);
        assert_eq!(table("rc.machines").unwrap().case_of(&record), Some(3));
        let rc =
            row(r#"{"connections_per_s":1.0,"window":1,"teardown":true,"hosts":1,"threads":1,"nics":1}"#);
        assert_eq!(tables_of(&rc).len(), 3);
        assert!(
            tables_of(&row(
                r#"{"connections_per_s":1.0,"window":64,"teardown":true,"hosts":1,"threads":1,"nics":1}"#
            ))
            .is_empty()
        );
        let mut record = Record::new("rc", "rc.threads", Map::new());
        record.axes.insert("threads".into(), 4.0.into());
        let threads = table("rc.threads").unwrap();
        assert_eq!(threads.case_of(&record), Some(2));
        record.axes.insert("threads".into(), 3.0.into());
        assert_eq!(threads.case_of(&record), None);
    }
}
