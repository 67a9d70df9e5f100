//! What all measuring verbs do: seconds and cores from the command line, cells to rows, rows to stdout, files and run folders.

use crate::args;
use crate::console::{Console, print};
use crate::failure::{self, Code, Failure};
use anyhow::Context as _;
use barewire_base::Duration;
use barewire_bench::messages::plan::{core_allowed, default_cores};
use barewire_bench::messages::run::interleave;
use barewire_bench::render::table;
use barewire_bench::row::Row;
use barewire_bench::run::{self, Workload};
use barewire_bench::{BenchError, Cell, Control, Head, IdleState, Results, Ticker, interrupted};
use barewire_measure::{Fingerprint, allowed_cores};
use barewire_report::run::HardwareClass;
use clap::ValueEnum;
use serde_json::Value;
use std::path::PathBuf;

/// Longest time that a command line may name: a year.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;

/// Units of time by their names, in ns; those that end as others do come first.
const UNITS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3_600e9)];

/// A time, as `10s`, `500ms`, `2m` or, in this unit, a number alone.
fn time(text: &str, unit_ns: f64) -> Option<Duration> {
    let of = |(name, ns): &(&str, f64)| text.strip_suffix(name).map(|number| (number, *ns));
    let (number, unit_ns) = UNITS.iter().find_map(of).unwrap_or((text, unit_ns));
    let ns = number.trim_end().parse::<f64>().ok()? * unit_ns;
    (0.0..=SECONDS_MAX * 1e9).contains(&ns).then(|| Duration::from_nanos(ns.round() as u64))
}

/// A time: a number of seconds, as `3` or `0.25`, or one with its unit, as `10s` or `500ms`.
///
/// # Errors
/// In words.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let why =
        "expected a number of seconds, such as 3 or 0.25, or a time with its unit, such as 10s or 500ms";
    time(text, 1e9).ok_or_else(|| why.to_owned())
}

/// The same where a number alone is of milliseconds.
///
/// # Errors
/// In words.
pub fn millis(text: &str) -> Result<Duration, String> {
    let why = "expected a number of milliseconds, such as 50, or a time with its unit, such as 50ms or 1s";
    time(text, 1e6).ok_or_else(|| why.to_owned())
}

/// The same where a number alone is of microseconds.
///
/// # Errors
/// In words.
pub fn micros(text: &str) -> Result<Duration, String> {
    let why = "expected a number of microseconds, such as 5000, or a time with its unit, such as 20us or 5ms";
    time(text, 1e3).ok_or_else(|| why.to_owned())
}

/// Cores for client and server, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores(Option<(usize, usize)>);

/// `0,1` or `none`.
///
/// # Errors
/// In words.
pub fn cores(text: &str) -> Result<Cores, String> {
    if text == "none" {
        return Ok(Cores(None));
    }
    let two = text.split_once(',').and_then(|(a, b)| Some((a.trim().parse().ok()?, b.trim().parse().ok()?)));
    two.map(|two| Cores(Some(two)))
        .ok_or_else(|| "expected two cores, client's and server's, such as 0,1; or `none`".to_owned())
}

/// The cores to pin to: those asked for, else the first two that are allowed, else none, which is said.
///
/// # Errors
/// When this process may not run on a core that was asked for.
pub fn pin(asked: Option<Cores>, console: &Console) -> anyhow::Result<Option<(usize, usize)>> {
    match asked {
        Some(Cores(Some((a, b)))) => {
            if let Some(core) = [a, b].into_iter().find(|&core| !core_allowed(core)) {
                let allowed: Vec<String> =
                    allowed_cores().unwrap_or_default().iter().map(usize::to_string).collect();
                return Err(Failure::new(Code::Unfit, format!("this process may not run on core {core}"))
                    .hint(format!("it may run on {}; or `--cores none`", allowed.join(", ")))
                    .into());
            }
            Ok(Some((a, b)))
        }
        Some(Cores(None)) => Ok(None),
        None => match default_cores() {
            Ok(cores) => Ok(Some(cores)),
            Err(why) => {
                console.note(&format!("not pinned: {why}"));
                Ok(None)
            }
        },
    }
}

/// How long and on which cores is measured: options that measuring verbs have in common. A verb with another usual time says so
/// (`mut_arg`).
#[derive(clap::Args)]
pub struct Timing {
    /// Measured time of a run
    #[arg(long, default_value = "3", value_parser = seconds, help_heading = "Workload")]
    pub seconds: Duration,
    /// Runs of each system
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Workload")]
    pub runs: u32,
    /// Cores of client and server, or sender and receiver, such as 0,1, or `none` [default: the first two]
    #[arg(long, value_parser = cores, help_heading = "Cores")]
    cores: Option<Cores>,
}

impl Timing {
    /// The cores to pin to.
    ///
    /// # Errors
    /// As [`pin`].
    pub fn pin(&self, console: &Console) -> anyhow::Result<Option<(usize, usize)>> {
        pin(self.cores, console)
    }
}

/// What a verb leaves behind that makes rows.
#[derive(clap::Args)]
pub struct OutputArgs {
    /// Print one JSON object instead of tables
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Write the JSON object to a file, too
    #[arg(long, value_name = "FILE", value_parser = file, help_heading = "Output")]
    out: Option<PathBuf>,
    /// Create a run folder in this folder: manifest, rows, HDR histograms of each run; nothing is overwritten
    #[arg(long = "run", value_name = "FOLDER", help_heading = "Output")]
    folder: Option<PathBuf>,
    /// Name of the run folder [default: the verb]
    #[arg(long, value_name = "NAME", requires = "folder", help_heading = "Output")]
    label: Option<String>,
    /// HDR histograms in the rows of the JSON object, too
    #[arg(long, help_heading = "Output")]
    histograms: bool,
}

/// Where a document may go: said before anything is measured, not after it.
fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() {
        Err("this is a folder; `--run FOLDER` writes a run folder".to_owned())
    } else {
        Ok(path)
    }
}

impl OutputArgs {
    /// Whether anything outlives this command.
    fn outlives(&self) -> bool {
        self.json || self.out.is_some() || self.folder.is_some()
    }

    /// Where the rows so far are kept while a command runs that leaves a file or a folder: beside the file, or in the folder's parent.
    fn partial(&self, verb: &str) -> Option<PathBuf> {
        let beside = |path: &PathBuf| PathBuf::from(format!("{}.partial", path.display()));
        let label = self.label.as_deref().unwrap_or(verb).replace('/', "-");
        let in_folder =
            |parent: &PathBuf| parent.join(format!("{label}-{}.partial.json", std::process::id()));
        self.out.as_ref().map(beside).or_else(|| self.folder.as_ref().map(in_folder))
    }

    /// Keeps the rows so far of `verb` while it runs.
    pub fn so_far(&self, verb: &str, results: &Results, hardware: HardwareClass) -> SoFar {
        SoFar { path: self.partial(verb), results: results.clone(), hardware }
    }

    /// What a run folder of `verb` says of itself.
    pub fn head(&self, verb: &str, hardware: HardwareClass) -> Head {
        Head {
            label: self.label.clone().unwrap_or_else(|| verb.to_owned()),
            config: args::resolved(),
            hardware,
        }
    }

    /// Ends: the document to stdout or `text`, the file, the folder. `verb` names the folder where no label does. `more` are further keys
    /// of the document. The folder that was made.
    ///
    /// # Errors
    /// When something cannot be written. What was asked for before it is there.
    pub fn end(
        &self,
        results: &Results,
        verb: &str,
        hardware: HardwareClass,
        more: &[(&str, &Value)],
        console: &Console,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<Option<PathBuf>> {
        let folder = match &self.folder {
            Some(parent) => {
                let path = results.write(parent, &self.head(verb, hardware))?;
                console.tell(&format!("Run folder: {}", path.display()));
                Some(path)
            }
            None => None,
        };
        if let Some(path) = &self.out {
            std::fs::write(path, results.document(hardware, self.histograms, more)? + "\n")
                .with_context(|| format!("writing {}", path.display()))?;
        }
        if self.json {
            print(&results.document(hardware, self.histograms, more)?)?;
        } else {
            let text = text();
            if !text.is_empty() {
                print(&text)?;
            }
        }
        Ok(folder)
    }
}

/// The rows so far of a command that is to leave a file or a folder, in a file of their own: what ends this process loses one round at most.
pub struct SoFar {
    path: Option<PathBuf>,
    results: Results,
    hardware: HardwareClass,
}

impl SoFar {
    /// These rows are whole, and stay.
    pub fn add(&mut self, rows: &[Row]) {
        // What cannot be kept is no reason to end a measurement: the rows are still to come.
        let _ = self.results.add(rows);
        self.keep(&[]);
    }

    /// Those that stay, and these.
    pub fn keep(&self, rows: &[Row]) {
        let Some(path) = &self.path else { return };
        let mut so_far = self.results.clone();
        let document = so_far.add(rows).and_then(|()| so_far.document(self.hardware, false, &[]));
        let Ok(document) = document else { return };
        if let Some(parent) = path.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
        // Whole or not at all: who is killed while it is written leaves the one before.
        let next = path.with_extension("next");
        let _ = std::fs::write(&next, document + "\n").and_then(|()| std::fs::rename(&next, path));
    }

    /// The rows are where they belong.
    pub fn end(self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What a measuring verb leaves behind: options that all of them have.
#[derive(clap::Args)]
pub struct MeasuredOutputArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// How long to measure hiccups of the machine, for the control rows in document and run folder
    #[arg(long, value_name = "SECONDS", default_value = "0.3", value_parser = seconds, help_heading = "Output")]
    pub hiccup: Duration,
}

impl std::ops::Deref for MeasuredOutputArgs {
    type Target = OutputArgs;

    fn deref(&self) -> &OutputArgs {
        &self.output
    }
}

impl MeasuredOutputArgs {
    /// Begins: control rows first, where something is left behind: tables on a terminal need none.
    pub fn begin(&self, console: &Console) -> Results {
        let mut results = Results::begin();
        if self.outlives() {
            self.control(&mut results, console);
        }
        results
    }

    /// Measures the control rows.
    pub fn control(&self, results: &mut Results, console: &Console) {
        match Control::measure(self.hiccup) {
            Ok(control) => {
                console.tell(&control.line());
                for (what, why) in control.missing() {
                    console.note(&format!("no control row of {what}: {why}"));
                }
                results.set_control(control);
            }
            Err(error) => {
                console.note(&format!("no control rows: {error}"));
                results.caveat(format!("no control rows: {error}"));
            }
        }
    }
}

/// Runs workloads in turns and leaves their rows: what a verb does whose rows are [`Row`]s. After each round the rows so far are kept where
/// something is to be left, so that what ends this process loses one round at most.
///
/// # Errors
/// When something cannot be written.
pub fn run_all(
    workloads: Vec<Box<dyn Workload>>,
    runs: u32,
    leave: &MeasuredOutputArgs,
    results: Results,
    verb: &str,
    hardware: HardwareClass,
    console: &Console,
) -> anyhow::Result<Code> {
    run_all_and(workloads, runs, leave, results, verb, hardware, console, |_| {})
}

/// The same, where rows have something to say of each other, or others are to stand beside them, once all have run: `finish` adds it.
///
/// # Errors
/// As [`run_all`].
#[allow(clippy::too_many_arguments)]
pub fn run_all_and(
    mut workloads: Vec<Box<dyn Workload>>,
    runs: u32,
    leave: &MeasuredOutputArgs,
    mut results: Results,
    verb: &str,
    hardware: HardwareClass,
    console: &Console,
    finish: impl FnOnce(&mut Vec<Row>),
) -> anyhow::Result<Code> {
    for workload in &workloads {
        workload.check().map_err(of_bench)?;
    }
    let planned = run::planned_time(&workloads, runs);
    let mut ticker = console.ticker(planned);
    ticker.part("", planned);
    let so_far = leave.so_far(verb, &results, hardware);
    let keep = &mut |rows: &[Row]| so_far.keep(rows);
    let (mut rows, failed) = run::interleave(&mut workloads, runs, &mut |line| ticker.step(&line), keep);
    drop(ticker);
    // Hosts go before anything is printed: a reader that goes away must not keep them.
    drop(workloads);
    finish(&mut rows);
    results.add(&rows)?;
    leave.end(&results, verb, hardware, &[], console, || tables_text(&[table(&rows)], &results))?;
    so_far.end();
    let failures: Vec<anyhow::Error> = failed.into_iter().map(of_bench).collect();
    Ok(Ended::default().and(&rows).conclude(&failures, console))
}

/// Tables, those that are not empty, and what they were measured on.
pub fn tables_text(tables: &[String], results: &Results) -> String {
    let tables: Vec<&str> = tables.iter().map(String::as_str).filter(|table| !table.is_empty()).collect();
    match tables.is_empty() {
        true => String::new(),
        false => format!("{}\nMeasured on: {}", tables.join("\n"), machine(results.fingerprint())),
    }
}

/// What came of a plan of messages.
pub struct Measured {
    /// A row for each cell, in order. Of a cell that never ran to its end it has no samples.
    pub rows: Vec<Row>,
    /// Why cells failed.
    pub failures: Vec<anyhow::Error>,
}

impl Measured {
    /// Runs the cells in turn. Failures are kept; `keep` gets the rows so far after each round.
    pub fn run(
        cells: &mut [Box<dyn Cell>],
        runs: u32,
        ticker: &mut Ticker,
        keep: &mut dyn FnMut(&[Row]),
    ) -> Measured {
        let outcomes = interleave(cells, runs, &mut |line| ticker.step(&line), keep);
        ticker.clear();
        let mut failures = Vec::new();
        let mut rows = Vec::with_capacity(outcomes.len());
        for (outcome, cell) in outcomes.into_iter().zip(cells.iter()) {
            if let Some(error) = outcome.failed {
                failures.push(anyhow::Error::new(error).context(cell.info().to_string()));
            }
            if !outcome.runs.is_empty() {
                rows.push(outcome.row);
            }
        }
        Measured { rows, failures }
    }
}

/// Tells every failure, and says with which code to end: the worst of what happened.
pub fn conclude(void: Void, failures: &[anyhow::Error], console: &Console) -> Code {
    if interrupted() {
        return Code::Interrupted;
    }
    let mut code = Code::Done;
    let mut told: Vec<String> = Vec::new();
    for error in failures {
        // One cause may fail many cells.
        let text = failure::text(error);
        if told.contains(&text) {
            continue;
        }
        told.push(text);
        let of_this = failure::report(error, console);
        if code == Code::Done {
            code = of_this;
        }
    }
    if code == Code::Done && void.rows > 0 {
        console.note(&void.text());
        return Code::Void;
    }
    code
}

/// How many rows must not be used, and of how many.
#[derive(Clone, Copy, Default)]
pub struct Void {
    /// Those that must not.
    pub rows: usize,
    /// All.
    pub of: usize,
}

impl Void {
    /// Of these rows.
    pub fn of(rows: &[Row]) -> Void {
        Void { rows: rows.iter().filter(|row| row.void.is_some()).count(), of: rows.len() }
    }

    /// What is told of them.
    pub fn text(self) -> String {
        match self {
            Void { of: 1, .. } => "the row is void: its figures must not be used".to_owned(),
            Void { rows: 1, of } => format!("1 of {of} rows is void: its figures must not be used"),
            Void { rows, of } => format!("{rows} of {of} rows are void: their figures must not be used"),
        }
    }
}

/// How rows ended: how many must not be used, and how many cells have some of their runs.
#[derive(Default)]
pub struct Ended {
    /// Rows that must not be used.
    pub void: Void,
    broken_off: usize,
}

impl Ended {
    /// These rows, too, each of a cell of its own.
    pub fn and(self, rows: &[Row]) -> Ended {
        self.of_cells(rows, rows.iter().filter(|row| row.broken_off.is_some()).count())
    }

    /// These rows, too, of which so many cells broke off.
    pub fn of_cells(self, rows: &[Row], broken_off: usize) -> Ended {
        let these = Void::of(rows);
        let void = Void { rows: self.void.rows + these.rows, of: self.void.of + these.of };
        Ended { void, broken_off: self.broken_off + broken_off }
    }

    /// Tells every failure, and says with which code to end. A row that has some of its runs is there with a mark, and stands for the
    /// failure that it says: it is no failure of the command. A cell that has none is.
    pub fn conclude(self, failures: &[anyhow::Error], console: &Console) -> Code {
        match conclude(self.void, failures, console) {
            Code::Interrupted => Code::Interrupted,
            _ if self.broken_off > 0 && self.broken_off >= failures.len() => Code::Void,
            code => code,
        }
    }
}

/// What an error of a bench means here.
pub fn of_bench(error: BenchError) -> anyhow::Error {
    match error {
        BenchError::Plan(_) => Failure::new(Code::Usage, error.to_string()).into(),
        BenchError::Hosts(error) => error.into(),
        BenchError::Open(error) => error.into(),
        BenchError::Stream(error) => super::bench_stream::of_stream(error),
        BenchError::NoServer { .. } => Failure::new(Code::Failed, error.to_string())
            .hint("on the other host: barewire rdma serve --accept --baseline kernel-tcp --address ADDRESS")
            .into(),
        BenchError::Io { .. } | BenchError::Program { .. } | BenchError::Device(_) => {
            Failure::new(Code::Unfit, error.to_string()).into()
        }
        other => anyhow::Error::new(other),
    }
}

/// The machine in a line.
pub fn machine(f: &Fingerprint) -> String {
    let m = &f.machine;
    format!(
        "{}, {} cores{}, Linux {}; barewire {} ({}, commit {}); machine {}",
        m.cpu_model,
        m.cores_online,
        if m.hypervisor { ", a virtual machine" } else { "" },
        m.kernel_release,
        f.build.version,
        f.build.profile,
        f.build.git_commit,
        f.hash(),
    )
}

/// Says what a debug build's figures are worth.
pub fn warn_of_debug_build(console: &Console) {
    if cfg!(debug_assertions) {
        console.note("this is a debug build: its figures say nothing; build with --release");
    }
}

/// State of the cores, as typed.
#[derive(Clone, Copy, ValueEnum)]
pub enum State {
    /// No core sleeps
    Warm,
    /// Idle for a second before each run
    Cold,
}

impl From<State> for IdleState {
    fn from(state: State) -> IdleState {
        match state {
            State::Warm => IdleState::Warm,
            State::Cold => IdleState::Cold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_bench::row::Subject;

    #[test]
    fn words_of_the_command_line() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("3"), Ok(Duration::from_secs(3)));
        for bad in ["-1", "x", "", "NaN", "inf", "1e99", "s", "5 parsecs", "-1ms", "9e9h"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        for (text, ns) in [("10s", 10_000_000_000), ("500ms", 500_000_000), ("7us", 7_000), ("250 ns", 250)] {
            let wanted = Ok(Duration::from_nanos(ns));
            assert_eq!([seconds(text), millis(text), micros(text)], [wanted.clone(), wanted.clone(), wanted]);
        }
        assert_eq!((seconds("2m"), seconds("1.5h")), (seconds("120"), seconds("5400")));
        assert_eq!((millis("50"), micros("5000")), (seconds("0.05"), seconds("0.005")), "as ever");
        assert_eq!(cores("3,5"), Ok(Cores(Some((3, 5)))));
        assert_eq!(cores("none"), Ok(Cores(None)));
        for bad in ["3", "3,", "a,b", "", "1,2,3"] {
            assert!(cores(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rows_so_far_are_in_a_file_until_they_are_where_they_belong() {
        let folder = std::env::temp_dir().join(format!("barewire-so-far-{}", std::process::id()));
        let mut kept = OutputArgs {
            json: false,
            out: None,
            folder: Some(folder.clone()),
            label: Some("a/b".to_owned()),
            histograms: false,
        };
        let results = Results::begin();
        let there = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
        let rows = |so_far: &SoFar| -> Vec<Value> {
            let text = std::fs::read_to_string(so_far.path.as_ref().unwrap()).unwrap();
            serde_json::from_str::<Value>(&text).unwrap()["rows"].as_array().cloned().unwrap()
        };
        let row = |n: u32| {
            Row::of(Subject { system: n.to_string(), bench: "switch", ..Subject::default() }, &[], &[])
        };
        let mut so_far = kept.so_far("msg", &results, HardwareClass::OneMachine);
        assert_eq!(there(), 0, "not before there is a row");
        so_far.keep(&[row(1)]);
        assert_eq!((there(), rows(&so_far).len()), (1, 1));
        so_far.add(&[row(1), row(2)]);
        so_far.keep(&[row(3)]);
        assert_eq!((there(), rows(&so_far).len()), (1, 3), "whole parts stay, and the rows of this one");
        so_far.end();
        assert_eq!(there(), 0);
        std::fs::remove_dir(&folder).unwrap();
        kept.folder = None;
        let nowhere = kept.so_far("msg", &results, HardwareClass::OneMachine);
        nowhere.keep(&[row(1)]);
        assert!(nowhere.path.is_none(), "what leaves nothing keeps nothing");
    }

    #[test]
    fn a_row_that_broke_off_is_no_figure_and_a_cell_without_one_is_a_failure() {
        let console = Console::new(crate::args::Color::Never, true);
        let failures = || vec![anyhow::anyhow!("gone"), anyhow::anyhow!("gone")];
        let row = |void: bool, broken_off: bool| Row {
            void: void.then(|| "wrong".to_owned()),
            broken_off: broken_off.then(|| "run 2 of 5 failed: gone".to_owned()),
            ..Row::of(Subject::default(), &[], &[])
        };
        let code = |rows: &[Row], failures: &[anyhow::Error]| {
            Ended::default().and(&[]).and(rows).conclude(failures, &console)
        };
        let broken = row(false, true);
        assert_eq!(code(&[broken.clone(), broken.clone()], &failures()), Code::Void);
        assert_eq!(code(&[broken], &failures()), Code::Failed);
        assert_eq!(code(&[row(false, false)], &[]), Code::Done);
        assert_eq!(code(&[row(true, false)], &[]), Code::Void);
    }
}
