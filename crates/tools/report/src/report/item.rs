//! A record with all that tables and pictures ask about it.

use super::in_tables;
use super::work::{handicap, is_judged, same_work};
use crate::figure::{Figure, Identity, figures, identity};
use crate::run::{AxisValue, Record, Run};
use serde_json::Value;

/// A record with all that tables and pictures ask about it.
pub(super) struct Item<'a> {
    pub(super) run: &'a Run,
    /// Which of the report's runs.
    pub(super) run_index: usize,
    pub(super) record: &'a Record,
    pub(super) identity: Identity,
    pub(super) figures: Vec<Figure>,
}

pub(super) fn items<'a>(runs: &[&'a Run]) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    for (run_index, run) in runs.iter().enumerate() {
        for record in run.records.iter().filter(|r| in_tables(r.role)) {
            let (identity, figures) = (identity(record), figures(&record.row));
            items.push(Item { run, run_index, record, identity, figures });
        }
    }
    items
}

impl Item<'_> {
    /// The figure at the first of `paths` that the row has.
    pub(super) fn figure(&self, paths: &[&str]) -> Option<&Figure> {
        paths.iter().find_map(|path| self.figures.iter().find(|f| f.path == *path))
    }

    /// What the row says under `key`, in its axes or itself, as a number.
    pub(super) fn number(&self, key: &str) -> Option<f64> {
        match self.record.axes.get(key) {
            Some(AxisValue::Number(n)) => Some(*n),
            Some(AxisValue::Text(_)) => None,
            None => self.record.row.get(key).and_then(Value::as_f64),
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.record.row.get(key).and_then(Value::as_str).filter(|t| !t.is_empty())
    }

    /// Whether it may stand for its system: not void, and measured in its own run.
    pub(super) fn counts(&self) -> bool {
        self.text("void").is_none() && self.text("recorded").is_none()
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        self.record.row.get(key) == Some(&Value::Bool(true))
    }

    pub(super) fn texts(&self, key: &str) -> Vec<&str> {
        let all = self.record.row.get(key).and_then(Value::as_array);
        all.map(|all| all.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    }

    /// Whether others may be judged by it: it [counts](Item::counts), and was not overloaded.
    pub(super) fn is_judged(&self) -> bool {
        self.counts() && is_judged(&self.record.row)
    }

    /// The same work was asked of both: see [`same_work`].
    pub(super) fn same_workload(&self, other: &Item<'_>) -> bool {
        self.record.axes == other.record.axes && same_work(&self.record.row, &other.record.row)
    }

    /// How another row is named beside this one: with what it had less freedom in.
    pub(super) fn named(&self, other: &Item<'_>) -> String {
        format!("{}{}", other.identity.name, handicap(&self.record.row, &other.record.row))
    }
}
