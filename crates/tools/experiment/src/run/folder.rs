//! The run folder of an experiment: a record for each row of each cell, with all its runs; logs; what was run.

use super::cell::RowPlace;
use super::journal::{Earlier, Journal, PARTIAL, described};
use super::merge::over_runs;
use super::rows::{Row, is_void};
use super::{Controller, Options, RunOutcome, Stop, cell_text};
use crate::file::point_text;
use crate::plan::{Plan, Point, RoleHosts};
use crate::redact::{self, Redactor};
use barewire_measure::{Fingerprint, Histogram, realtime_ns};
use barewire_report::figure::identity;
use barewire_report::import;
use barewire_report::published;
use barewire_report::run::{AxisValue, HardwareClass, Record, RunError, RunStart, RunWriter};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A clock that may be wrong by more than this deserves a word.
const CLOCK_ERROR_TOLD_NS: u64 = 1_000_000;

/// A run of a cell that gave no row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The cell and the run, in words.
    pub of: String,
    /// What happened.
    pub why: String,
}

/// What came of an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The run folder.
    pub folder: PathBuf,
    /// Cells of the plan.
    pub cells: usize,
    /// Cells that gave no row.
    pub cells_without_rows: usize,
    /// Rows that were measured.
    pub rows: usize,
    /// Rows that must not be used.
    pub void: usize,
    /// Runs that gave no row.
    pub failures: Vec<Failure>,
    /// The host that was lost first, if one was, and what happened.
    pub lost: Option<(String, String)>,
    /// Others that were lost after it.
    pub lost_too: Vec<(String, String)>,
    /// Runs that were taken over from a run folder that broke off.
    pub resumed_runs: usize,
    /// The command with `--resume` and the folder measures what is missing.
    pub can_resume: bool,
    /// Somebody pressed Ctrl-C.
    pub interrupted: bool,
    /// What could not be given back.
    pub left_behind: Option<String>,
}

impl Outcome {
    /// Whether something went wrong: a process failed, a cell has no row, a host was lost, something stays behind.
    pub fn failed(&self) -> bool {
        !self.failures.is_empty()
            || self.cells_without_rows > 0
            || self.lost.is_some()
            || self.left_behind.is_some()
    }
}

/// Histograms of each run, by name, as texts.
type Histograms = BTreeMap<String, Vec<String>>;
/// A record, and the point where it was measured.
type OfPoint<'a> = (Record, &'a Point, Histograms);

#[derive(Debug, Default)]
struct Cell {
    /// Rows of each run that gave some, by role and place.
    rows: BTreeMap<RowPlace, Vec<Row>>,
    failures: Vec<(u32, String)>,
    spread_ns: Option<(u64, u64)>,
    runs: u32,
    /// A run of it gave nothing.
    broke_off: bool,
}

pub(super) struct Folder {
    writer: RunWriter,
    cells: Vec<Cell>,
    /// Rows of every run as they come: all there is of an experiment whose controller is killed. It goes when nothing is missing.
    journal: Option<Journal>,
    resumed_runs: usize,
}

fn not_kept(why: &std::io::Error) -> String {
    format!("runs were not saved as they ended: {PARTIAL}: {why}")
}

impl Folder {
    pub(super) fn create(
        controller: &Controller<'_>,
        launcher: &str,
        hardware: HardwareClass,
        options: &Options,
        earlier: Option<Earlier>,
    ) -> Result<Folder, RunError> {
        let plan = controller.plan;
        let collecting = plan.roles.iter().position(|role| role.collect.is_some()).unwrap_or_default();
        let measuring = super::assign(plan, controller.hosts, &plan.points[0])
            .ok()
            .and_then(|assigned| assigned.get(collecting)?.first().copied());
        let fingerprint = measuring
            .and_then(|host| controller.fleet.agents.get(host)?.hello.as_ref()?.fingerprint.clone())
            .unwrap_or_else(|| serde_json::to_value(Fingerprint::collect()).unwrap_or_default());
        let commit = Fingerprint::collect().build.git_commit;
        let start = RunStart {
            label: plan.name.clone(),
            started_unix_ms: realtime_ns() / 1_000_000,
            commit: (!commit.is_empty() && commit != "unknown").then_some(commit),
            command: controller.redactor.words(&options.command).join(" "),
            hardware,
            config: config(controller, launcher, earlier.as_ref()),
            fingerprint,
        };
        let mut writer = RunWriter::create(&options.out, &start)?;
        for agent in &controller.fleet.agents {
            if let Some(clock) = agent.clock.filter(|clock| clock.error_ns > CLOCK_ERROR_TOLD_NS) {
                let error = clock.error_ns as f64 / 1e6;
                writer.caveat(&format!("the clock of {} is known within {error:.1} ms only", agent.name));
            }
        }
        let journal = Journal::create(writer.path(), described(plan, launcher))
            .inspect_err(|e| writer.caveat(&not_kept(e)))
            .ok();
        let cells = plan.points.iter().map(|_| Cell::default()).collect();
        let mut folder = Folder { writer, cells, journal, resumed_runs: 0 };
        if let Some(earlier) = earlier {
            folder.take_over(earlier);
        }
        Ok(folder)
    }

    /// Runs of an experiment that broke off count as if they were of this one.
    fn take_over(&mut self, mut earlier: Earlier) {
        let runs = std::mem::take(&mut earlier.runs);
        self.resumed_runs = runs.len();
        for ((cell, number), rows) in runs {
            self.add(cell, number, Ok(rows));
        }
        let shown = earlier.folder.display().to_string();
        self.writer.caveat(&format!("{} runs were measured before, in {shown}", self.resumed_runs));
        if self.journal.is_some()
            && let Err(e) = earlier.is_taken()
        {
            self.writer.caveat(&format!("{shown} does not know that it was resumed: {e}"));
        }
    }

    /// Where it is.
    pub(super) fn path(&self) -> &std::path::Path {
        self.writer.path()
    }

    /// Control rows, or why there are none.
    pub(super) fn controls(
        &mut self,
        rows: Result<Vec<serde_json::Map<String, Value>>, String>,
    ) -> Result<(), RunError> {
        match rows {
            Ok(rows) => rows.into_iter().try_for_each(|row| self.writer.add(import::control(row), &[])),
            Err(why) => {
                self.writer.caveat(&format!("no control rows: {why}"));
                Ok(())
            }
        }
    }

    /// What a run of a cell came to.
    pub(super) fn keep(&mut self, cell: usize, number: u32, mut outcome: RunOutcome, redactor: &Redactor) {
        match &mut outcome {
            Ok(run) => {
                let values = run.rows.iter_mut().flat_map(|(_, row)| row.row.values_mut());
                values.for_each(|value| redact_strings(value, redactor));
                run.failures.iter_mut().for_each(|why| *why = redactor.text(std::mem::take(why)));
            }
            Err(why) => *why = redactor.text(std::mem::take(why)),
        }
        self.add(cell, number, outcome);
    }

    fn add(&mut self, cell: usize, number: u32, outcome: RunOutcome) {
        if let Some(journal) = &mut self.journal
            && let Err(e) = journal.keep(cell, number, &outcome)
        {
            self.journal = None;
            self.writer.caveat(&not_kept(&e));
        }
        let cell = &mut self.cells[cell];
        cell.runs += 1;
        match outcome {
            Ok(run) => {
                cell.spread_ns = cell.spread_ns.max(run.spread_ns);
                cell.failures.extend(run.failures.into_iter().map(|why| (number, why)));
                for (place, row) in run.rows {
                    cell.rows.entry(place).or_default().push(row);
                }
            }
            Err(why) => {
                cell.broke_off = true;
                cell.failures.push((number, why));
            }
        }
    }

    /// Writes everything.
    pub(super) fn finish(
        mut self,
        controller: &mut Controller<'_>,
        ended: Result<(), Stop>,
        late: &[String],
    ) -> Result<Outcome, RunError> {
        let plan = controller.plan;
        let mut outcome = Outcome {
            folder: self.writer.path().to_owned(),
            cells: plan.points.len(),
            cells_without_rows: 0,
            rows: 0,
            void: 0,
            failures: Vec::new(),
            lost: None,
            lost_too: Vec::new(),
            resumed_runs: self.resumed_runs,
            can_resume: false,
            interrupted: matches!(ended, Err(Stop::Interrupted)),
            left_behind: None,
        };
        let mut lost = std::mem::take(&mut controller.gone).into_iter();
        let named = |(host, why): (usize, String)| (controller.hosts[host].name.clone(), why);
        outcome.lost = lost.next().map(named);
        outcome.lost_too = lost.map(named).collect();
        for (host, why) in outcome.lost.iter().chain(&outcome.lost_too) {
            self.writer.caveat(&format!("host {host} was lost: {why}"));
        }
        let early = match ended {
            Ok(()) => None,
            Err(Stop::Interrupted) => Some("interrupted".to_owned()),
            Err(Stop::Here(why)) => Some(why),
            Err(Stop::Lost { host, why }) => {
                Some(format!("host {} was lost: {why}", controller.hosts[host].name))
            }
        };
        if let Some(why) = &early {
            self.writer.caveat(&format!("the run did not come to its end: {why}"));
        }
        let cells = std::mem::take(&mut self.cells);
        let whole = |cell: &Cell| cell.runs == plan.method.runs && !cell.broke_off;
        let complete = cells.iter().all(whole);
        outcome.can_resume = !complete && self.journal.is_some();
        let mut records: Vec<OfPoint> = Vec::new();
        for (cell, point) in cells.into_iter().zip(&plan.points) {
            cell.into_records(plan, point, early.as_deref(), &mut outcome, &mut records);
        }
        tell_apart(&mut records, &plan.systems);
        for (record, _, histograms) in records {
            self.add_record(record, &histograms)?;
        }
        self.attach_logs(controller)?;
        let mut left = controller.unended.clone();
        if !late.is_empty() {
            left.push(format!("agents that did not end in time: {}", late.join(", ")));
        }
        outcome.left_behind = (!left.is_empty()).then(|| left.join("; "));
        let path = self.writer.finish(realtime_ns() / 1_000_000)?;
        if complete {
            // What is left of it would only repeat the records.
            let _ = std::fs::remove_file(path.join(PARTIAL));
        }
        Ok(outcome)
    }

    /// Writes a record with its histograms.
    fn add_record(&mut self, record: Record, histograms: &Histograms) -> Result<(), RunError> {
        // Each was read once already, when the row came.
        let read: Vec<(&str, Histogram)> = histograms
            .iter()
            .flat_map(|(name, runs)| runs.iter().map(move |text| (name.as_str(), text)))
            .filter_map(|(name, text)| Some((name, Histogram::from_base64(text).ok()?)))
            .collect();
        let named: Vec<(&str, &Histogram)> = read.iter().map(|(name, one)| (*name, one)).collect();
        self.writer.add(record, &named)
    }

    /// Writes what the hosts' processes said: the largest files, and the least of what was measured. Without room for them the rows are
    /// kept all the same.
    fn attach_logs(&mut self, controller: &mut Controller<'_>) -> Result<(), RunError> {
        for (host, log) in controller.hosts.iter().zip(&mut controller.logs) {
            if log.dropped > 0 {
                log.text.push_str(&format!("… {} more lines\n", log.dropped));
                self.writer.caveat(&format!("the log of {} is incomplete", host.name));
            }
            if log.text.is_empty() {
                continue;
            }
            match self.writer.attach(&format!("{}.log", host.name), log.text.as_bytes()) {
                Err(e @ RunError::Io { .. }) => {
                    self.writer.caveat(&format!("the log of {} is not saved: {e}", host.name));
                }
                other => other?,
            }
        }
        Ok(())
    }
}

impl Cell {
    /// A record for each row of the cell, over all runs that gave it. A cell without rows has one that says why, where rows are collected.
    /// `early`: why the experiment did not come to its end.
    fn into_records<'p>(
        self,
        plan: &Plan,
        point: &'p Point,
        early: Option<&str>,
        outcome: &mut Outcome,
        records: &mut Vec<OfPoint<'p>>,
    ) {
        for (run, why) in &self.failures {
            outcome.failures.push(Failure { of: cell_text(plan, point, *run), why: why.clone() });
        }
        if self.rows.is_empty() {
            if plan.roles.iter().any(|role| role.collect.is_some()) {
                outcome.cells_without_rows += 1;
                let first = self.failures.first().map(|(_, why)| why.as_str());
                let table = plan.table.as_deref().unwrap_or(&plan.name);
                let mut record = Record::missing(&plan.name, table, first.or(early).unwrap_or("no row"));
                record.axes = point.iter().map(shown_axis).collect();
                records.push((record, point, Histograms::new()));
            }
            return;
        }
        for rows in self.rows.values() {
            let (mut row, histograms) = over_runs(rows);
            if !self.failures.is_empty() {
                let failed = self.failures.iter().map(|(run, why)| json!({ "run": run, "why": why }));
                row.insert("failed_runs".to_owned(), failed.collect());
            }
            if let Some((spread, error)) = self.spread_ns {
                let told = format!("{:.3} ms ± {:.3} ms", spread as f64 / 1e6, error as f64 / 1e6);
                row.insert("hosts_started_within".to_owned(), told.into());
            }
            if let Some(early) = early.filter(|_| self.runs < plan.method.runs) {
                let missing = format!("{early}; {} of {} runs", self.runs, plan.method.runs);
                row.insert("runs_missing".to_owned(), missing.into());
            }
            outcome.rows += 1;
            outcome.void += usize::from(is_void(&row));
            records.push((record(plan, point, row), point, histograms));
        }
    }
}

fn record(plan: &Plan, point: &Point, row: serde_json::Map<String, Value>) -> Record {
    let mut record = import::record(row, "");
    // A row that says of itself which table it repeats belongs there; else the file says.
    match &plan.table {
        Some(table) => record.table.clone_from(table),
        None if published::table(&record.table).is_some() => {}
        None => record.table.clone_from(&plan.name),
    }
    record.experiment.clone_from(&plan.name);
    record.axes = point.iter().filter(|(axis, _)| !plan.systems.contains(axis)).map(shown_axis).collect();
    record
}

/// Where a row stands on an axis, as it may be shown.
fn shown_axis((axis, value): &(String, AxisValue)) -> (String, AxisValue) {
    let value = if redact::is_secret_name(axis) { redact::HIDDEN.into() } else { value.clone() };
    (axis.clone(), value)
}

/// What makes the systems is an axis after all, where rows of several do not say of themselves whose they are.
fn tell_apart(records: &mut [OfPoint<'_>], systems: &BTreeSet<String>) {
    let mut points: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let keys: Vec<String> = records.iter().map(|(record, ..)| identity(record).key).collect();
    for (key, (_, point, _)) in keys.iter().zip(&*records) {
        points.entry(key.clone()).or_default().insert(point_text(point));
    }
    for (key, (record, point, _)) in keys.iter().zip(records) {
        if points[key].len() > 1 {
            record.axes.extend(point.iter().filter(|(axis, _)| systems.contains(axis)).map(shown_axis));
        }
    }
}

/// Hides in all texts of a value what must not be shown.
pub(super) fn redact_strings(value: &mut Value, redactor: &Redactor) {
    match value {
        Value::String(text) => *text = redactor.text(std::mem::take(text)),
        Value::Array(list) => list.iter_mut().for_each(|value| redact_strings(value, redactor)),
        Value::Object(map) => map.values_mut().for_each(|value| redact_strings(value, redactor)),
        _ => {}
    }
}

/// The resolved configuration: the plan, and the hosts that were obtained for it. What looks secret is hidden.
fn config(controller: &Controller<'_>, launcher: &str, earlier: Option<&Earlier>) -> Value {
    let plan = controller.plan;
    let settings = |of: &BTreeMap<String, String>| -> Value {
        let shown = of.iter().map(|(name, value)| (name.clone(), json!(redact::shown(name, value))));
        shown.collect::<serde_json::Map<_, _>>().into()
    };
    let hosts: Vec<Value> = controller
        .hosts
        .iter()
        .zip(&controller.fleet.agents)
        .map(|(host, agent)| {
            let hello = agent.hello.as_ref();
            let clock = agent.clock.map(|c| json!({ "ahead_ns": c.ahead_ns, "error_ns": c.error_ns }));
            json!({
                "name": host.name, "address": host.address, "settings": settings(&host.settings), "clock": clock,
                "version": hello.map(|h| &h.version), "commit": hello.map(|h| &h.commit),
                "fingerprint": hello.and_then(|h| h.fingerprint.as_ref()),
            })
        })
        .collect();
    let roles: Vec<Value> = plan
        .roles
        .iter()
        .map(|role| {
            let command: Vec<String> = role.command.iter().map(ToString::to_string).collect();
            let hosts = match &role.hosts {
                RoleHosts::Named(names) => json!(names),
                RoleHosts::Free => json!("free"),
                RoleHosts::Rest => json!("rest"),
                RoleHosts::Here => json!("here"),
            };
            json!({
                "name": role.name, "hosts": hosts, "command": controller.redactor.words(&command), "ready": role.ready,
                "environment": settings(&role.environment), "collects": role.collect.is_some(),
            })
        })
        .collect();
    let method = &plan.method;
    json!({
        "experiment": plan.name, "title": plan.title, "about": plan.about, "table": plan.table, "file": plan.file,
        "launcher": launcher, "seed": plan.seed,
        "method": {
            "runs": method.runs, "warmup_s": method.warmup_s, "seconds": method.seconds,
            "timeout_s": method.timeout.map(|t| t.as_secs_f64()), "endless": method.endless, "interleave": method.interleave,
            "cell_pause_s": method.pause.as_secs_f64(), "silence_s": method.silence.as_secs_f64(),
        },
        "cells": plan.points.iter().map(|point| point_text(point)).collect::<Vec<_>>(),
        "roles": roles, "hosts": hosts, "environment": settings(&plan.environment),
        "black": plan.black, "quiet": plan.quiet,
        "resumed": earlier.map(|earlier| earlier.folder.display().to_string()),
    })
}
