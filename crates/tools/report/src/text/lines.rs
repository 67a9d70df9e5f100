//! The figures of some runs, one for each line: what CSV and Parquet write.

use crate::figure::{Unit, figures, identity};
use crate::run::Run;
use serde_json::Value;

/// One figure of one row. A row without figures has one line all the same, with `figure` empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) run: String,
    pub(super) started_unix_ms: u64,
    pub(super) experiment: String,
    pub(super) table: String,
    pub(super) role: &'static str,
    pub(super) system: String,
    pub(super) details: String,
    pub(super) figure: String,
    /// Where in the row it stands.
    pub(super) path: String,
    /// Base units: `ns`, and rates per second or Mbit/s.
    pub(super) unit: &'static str,
    /// `None`: it was not told, and `needs` says how many samples it needs.
    pub(super) value: Option<f64>,
    pub(super) needs: Option<u64>,
    pub(super) samples: Option<u64>,
    pub(super) repetitions: Vec<f64>,
    pub(super) contended: bool,
    /// Why the row must not be used, or is missing.
    pub(super) void: String,
    pub(super) command: String,
}

/// Every figure of `runs`, in the order of their rows.
pub(super) fn lines(runs: &[&Run]) -> Vec<Line> {
    let mut lines = Vec::new();
    for run in runs {
        for record in &run.records {
            let id = identity(record);
            let text = |key: &str| record.row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let row = Line {
                run: run.name(),
                started_unix_ms: run.manifest.started_unix_ms,
                experiment: record.experiment.clone(),
                table: record.table.clone(),
                role: record.role.as_str(),
                system: id.name,
                details: id.details,
                samples: record.row.get("samples").and_then(Value::as_u64),
                contended: record.row.get("contended") == Some(&Value::Bool(true)),
                void: record.reason.clone().unwrap_or_else(|| text("void")),
                command: text("command"),
                ..Line::default()
            };
            let all = figures(&record.row);
            if all.is_empty() {
                lines.push(row.clone());
            }
            lines.extend(all.into_iter().map(|f| Line {
                figure: f.label,
                path: f.path,
                unit: if f.unit == Unit::Ns { "ns" } else { f.unit.as_str() },
                value: f.value,
                needs: f.needs,
                repetitions: f.runs,
                ..row.clone()
            }));
        }
    }
    lines
}
