//! A record with all that tables and pictures ask about it.

use super::in_tables;
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

/// Settings that two rows must share for one to be a baseline of the other.
const WORKLOAD: [&str; 17] = [
    "program",
    "message",
    "what",
    "base",
    "workload",
    "loop",
    "size",
    "window",
    "connections",
    "offered_per_s",
    "instruments",
    "lines",
    "entries",
    "masks",
    "offloads",
    "gap_us",
    // A core that sleeps takes tens of microseconds to wake: who is measured so is compared with who is.
    "idle_state",
];

/// More busy cores than this, of those that were left to sleep: they did not.
pub const SLEEPS_BELOW: f64 = 1.0;

/// Baselines that make a receive and a send call for each message.
const CALLS_EACH: [&str; 7] = [
    "kernel-tcp",
    "kernel-tcp-spin",
    "kernel-tcp-spin-sleep",
    "kernel-tcp-busy-poll",
    "kernel-udp",
    "kernel-udp-spin",
    "kernel-udp-busy-poll",
];

/// What the baseline `system` did, with so many messages in flight, with less freedom than who takes as many at once as there are; else nothing.
pub fn handicap(system: &str, window: f64) -> &'static str {
    if window > 1.0 && CALLS_EACH.contains(&system) { " (a call for each message)" } else { "" }
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

    /// [`handicap`] of the row.
    pub(super) fn handicap(&self) -> &'static str {
        handicap(self.text("system").unwrap_or_default(), self.number("window").unwrap_or_default())
    }

    /// Cores that were left to sleep and did not, as an engine that polls before it sleeps kept them busy: what it saved is the wake-up, not
    /// what a wake-up costs.
    fn never_slept(&self) -> bool {
        let row = &self.record.row;
        let busy = row.get("cpu").and_then(|cpu| cpu.get("cores")?.as_f64());
        self.text("idle_state") == Some("cold") && busy.is_some_and(|cores| cores > SLEEPS_BELOW)
    }

    /// The same work was asked of both, in the same state of the cores, encrypted or not. A cipher alone carries nothing, and is nobody's
    /// baseline.
    pub(super) fn same_workload(&self, other: &Item<'_>) -> bool {
        let cipher_alone = |item: &Item<'_>| item.text("system") == Some("aead");
        let value = |item: &Item<'_>, key: &str| item.record.row.get(key).filter(|v| !v.is_null()).cloned();
        self.record.axes == other.record.axes
            && self.flag("secure") == other.flag("secure")
            && self.never_slept() == other.never_slept()
            && !cipher_alone(self)
            && !cipher_alone(other)
            && WORKLOAD.iter().all(|key| match (value(self, key), value(other, key)) {
                // A baseline has no program, or no engine settings, of ours.
                (Some(a), Some(b)) => a == b,
                _ => true,
            })
    }
}
