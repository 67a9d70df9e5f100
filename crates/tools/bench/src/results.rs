//! What a command that measures leaves: one JSON document, or a run folder, of the rows of any verb.

use crate::control::Control;
use crate::histograms::Histograms;
use crate::row::Row;
use barewire_measure::{Fingerprint, HistogramError, realtime_ns};
use barewire_report::import;
use barewire_report::run::{AxisValue, HardwareClass, Record, RunError, RunStart, RunWriter};
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Why results could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// A row is no JSON object.
    #[error("a row is not a JSON object: {0}")]
    Row(#[from] serde_json::Error),
    /// A histogram of another process is none.
    #[error("a histogram: {0}")]
    Histogram(#[from] HistogramError),
    /// The folder.
    #[error("{0}")]
    Run(#[from] RunError),
}

/// A row as it is printed, and its histograms.
#[derive(Clone, Debug)]
struct Line {
    bench: &'static str,
    text: String,
    histograms: Histograms,
}

/// What a run folder says besides rows.
#[derive(Clone, Debug)]
pub struct Head {
    /// What its user calls it.
    pub label: String,
    /// The resolved configuration.
    pub config: Value,
    /// What lay between the ends.
    pub hardware: HardwareClass,
}

/// The rows of one command, on their way to a document or a folder.
#[derive(Clone, Debug)]
pub struct Results {
    fingerprint: Fingerprint,
    started_unix_ms: u64,
    control: Option<Control>,
    rows: Vec<Line>,
    missing: Vec<Record>,
    caveats: Vec<String>,
}

fn now_ms() -> u64 {
    realtime_ns() / 1_000_000
}

impl Results {
    /// Of a command that begins now.
    pub fn begin() -> Results {
        Results {
            fingerprint: Fingerprint::collect(),
            started_unix_ms: now_ms(),
            control: None,
            rows: Vec::new(),
            missing: Vec::new(),
            caveats: Vec::new(),
        }
    }

    /// The machine.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The control rows.
    pub fn set_control(&mut self, control: Control) {
        self.control = Some(control);
    }

    /// What a reader of a run folder has to know before believing any row.
    pub fn caveat(&mut self, text: impl Into<String>) {
        self.caveats.push(text.into());
    }

    /// A row of `table` at `axes` that should be there and is not. In a run folder it is a record with its reason.
    pub fn missing(&mut self, table: &str, axes: &[(&str, AxisValue)], reason: &str) {
        let axes = axes.iter().map(|(axis, value)| ((*axis).to_owned(), value.clone())).collect();
        self.missing.push(Record { axes, ..Record::missing(table, table, reason) });
    }

    /// Rows, after those that are there. Each says under `bench` which bench it is of.
    ///
    /// # Errors
    /// [`ResultsError::Row`].
    pub fn add(&mut self, rows: &[Row]) -> Result<(), ResultsError> {
        for row in rows {
            let text = serde_json::to_string(row)?;
            // Where it belongs comes first.
            let text =
                format!("{{\"{}\":\"{}\",{}", import::BENCH, row.subject.bench, text.trim_start_matches('{'));
            self.rows.push(Line { bench: row.subject.bench, text, histograms: row.histograms.clone() });
        }
        Ok(())
    }

    /// The document as one line: version, machine, when it began, what lay between the ends, control rows, rows. `histograms`: each row
    /// has them under this key, all runs merged. `more` are further keys with their JSON.
    ///
    /// # Errors
    /// [`ResultsError`].
    pub fn document(
        &self,
        hardware: HardwareClass,
        histograms: bool,
        more: &[(&str, &Value)],
    ) -> Result<String, ResultsError> {
        let fingerprint = serde_json::to_string(&self.fingerprint)?;
        let mut out = format!("{{\"schema\":{},\"fingerprint\":{fingerprint}", import::SCHEMA);
        let _ = write!(
            out,
            ",\"started_unix_ms\":{},\"hardware\":{}",
            self.started_unix_ms,
            serde_json::to_string(&hardware)?
        );
        if let Some(control) = &self.control {
            let _ = write!(out, ",\"{}\":{}", import::CONTROL, serde_json::to_string(control)?);
        }
        out.push_str(",\"rows\":[");
        for (index, line) in self.rows.iter().enumerate() {
            out.push_str(if index == 0 { "" } else { "," });
            match line.text.strip_suffix('}').filter(|_| histograms && !line.histograms.is_empty()) {
                Some(open) => {
                    let merged = serde_json::to_string(&line.histograms.merged()?)?;
                    let _ = write!(out, "{open},\"histograms\":{merged}}}");
                }
                None => out.push_str(&line.text),
            }
        }
        out.push(']');
        for (key, value) in more {
            let _ = write!(out, ",\"{key}\":{value}");
        }
        out.push('}');
        Ok(out)
    }

    /// Makes a run folder in `parent`: manifest, rows with the tables that they repeat and the axes that they differ in, the histograms of
    /// each run. Nothing is overwritten. Its path.
    ///
    /// # Errors
    /// [`ResultsError`].
    pub fn write(&self, parent: &Path, head: &Head) -> Result<PathBuf, ResultsError> {
        let commit = &self.fingerprint.build.git_commit;
        let start = RunStart {
            label: head.label.clone(),
            started_unix_ms: self.started_unix_ms,
            commit: (commit != "unknown").then(|| commit.clone()),
            command: self.fingerprint.run.command_line.clone(),
            hardware: head.hardware,
            config: head.config.clone(),
            fingerprint: serde_json::to_value(&self.fingerprint)?,
        };
        let mut writer = RunWriter::create(parent, &start)?;
        if let Some(control) = &self.control
            && let Value::Object(row) = serde_json::to_value(control)?
        {
            writer.add(import::control(row), &[])?;
        }
        for (bench, lines) in import::by_bench(&self.rows, |line| line.bench) {
            let rows = lines.iter().map(|line| serde_json::from_str(&line.text));
            let rows = rows.collect::<Result<Vec<Map<String, Value>>, _>>()?;
            for (records, line) in import::array(&bench, rows).into_iter().zip(lines) {
                let histograms = line.histograms.runs()?;
                let named: Vec<_> =
                    histograms.iter().flat_map(|(name, runs)| runs.iter().map(|run| (*name, run))).collect();
                for record in records {
                    writer.add(record, &named)?;
                }
            }
        }
        for record in &self.missing {
            writer.add(record.clone(), &[])?;
        }
        self.caveats.iter().for_each(|caveat| writer.caveat(caveat));
        Ok(writer.finish(now_ms())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::driver::RunResult;
    use crate::messages::{CellInfo, IdleState};
    use crate::messages::{MsgWorkload, SystemName};
    use barewire_measure::Histogram;
    use barewire_report::run::{Role, Run};
    use serde_json::json;

    /// Two runs of 30 round trips each.
    fn row(system: &str, window: u32, rate: Option<f64>) -> Row {
        let run = |ns| {
            let run = RunResult::of(ns, 30);
            RunResult { response: rate.is_some().then(|| run.service.clone()), ..run }
        };
        let name = SystemName {
            system: system.to_owned(),
            mode: "m".to_owned(),
            over: "mem".to_owned(),
            idle: None,
        };
        let workload = MsgWorkload { window, rate, ..MsgWorkload::default() };
        let info = CellInfo {
            name,
            workload,
            idle_state: IdleState::Warm,
            command: "barewire bench msg".to_owned(),
        };
        info.row(&[run(1_000), run(2_000)])
    }

    fn results() -> Results {
        let mut results = Results::begin();
        results.add(&[row("barewire", 1, None), row("kernel-tcp", 8, None)]).unwrap();
        results.add(&[row("barewire", 1, Some(30.0))]).unwrap();
        results
    }

    #[test]
    fn a_document_has_histograms_only_when_asked() {
        let class = HardwareClass::BareMetal;
        let plain = results().document(class, false, &[("tables", &json!([1]))]).unwrap();
        assert!(!plain.contains("histograms") && !plain.contains('\n'));
        let value: Value = serde_json::from_str(&plain).unwrap();
        assert_eq!((value["rows"].as_array().unwrap().len(), &value["tables"]), (3, &json!([1])));
        assert_eq!((&value["schema"], &value["rows"][0]["bench"]), (&json!(2), &json!("msg")));
        assert_eq!(value["hardware"], class.word());
        assert!(value["started_unix_ms"].as_u64().unwrap() > 1_700_000_000_000);

        let with: Value = serde_json::from_str(&results().document(class, true, &[]).unwrap()).unwrap();
        let text = with["rows"][2]["histograms"]["response"].as_str().unwrap();
        assert_eq!(Histogram::from_base64(text).unwrap().samples(), 60);
        let read = import::document(&with.to_string()).unwrap();
        assert_eq!(read.rows.iter().map(|r| r.histograms.len()).collect::<Vec<_>>(), [1, 1, 2]);
    }

    #[test]
    fn a_folder_keeps_each_runs_histogram_and_is_never_overwritten() {
        let parent = std::env::temp_dir().join(format!("barewire-results-{}", std::process::id()));
        let head = Head {
            label: "msg".to_owned(),
            config: json!({ "window": 1 }),
            hardware: HardwareClass::OneMachine,
        };
        let mut results = results();
        results.caveat("told");
        results.missing("rc.machines", &[("hosts", 8.0.into())], "no hosts can be made");
        let path = results.write(&parent, &head).unwrap();
        let run = Run::open(&path).unwrap();
        assert!(results.write(&parent, &head).is_err(), "there is one of this time and name");
        std::fs::remove_dir_all(&parent).unwrap();
        assert_eq!(
            (run.manifest.config["window"].as_u64(), run.manifest.caveats[0].as_str()),
            (Some(1), "told")
        );
        assert_eq!(run.records.len(), 4);
        let missing = &run.records[3];
        assert_eq!((missing.table.as_str(), missing.role), ("rc.machines", Role::Missing));
        assert_eq!(missing.reason.as_deref(), Some("no hosts can be made"));
        let page = barewire_report::published::table("rc.machines").unwrap();
        assert_eq!(page.case_of(missing).map(|case| page.cases[case].label), Some("8 client machines"));
        let first = &run.records[0];
        assert_eq!((first.table.as_str(), first.role), ("machnet", Role::Measured));
        assert_eq!(first.axes["window"].to_string(), "1");
        assert_eq!(run.repetitions(first, "service").count(), 2);
        assert_eq!(run.records[1].role, Role::Baseline);
        assert_eq!(run.repetitions(&run.records[2], "response").count(), 2);
    }
}
