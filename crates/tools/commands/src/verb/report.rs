//! `barewire report`: runs as one HTML page, Markdown, CSV and pictures; `report list`: which runs there are; `barewire bench compare`:
//! whether one run is worse than another.

use crate::console::{Console, harmless, print};
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_bench::{Head, Results};
use barewire_measure::realtime_ns;
use barewire_report::compare::{Compared, Comparison, Gate, Method, compare};
use barewire_report::index::{Entry, Index, IndexError, Query, Rebuilt};
use barewire_report::report::{Options, Report};
use barewire_report::run::{MANIFEST, Run, RunStart, RunWriter};
use barewire_report::{html, import, text, utc_ms_of_day, utc_text};
use barewire_text::{Quote, did_you_mean};
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The index's name in a folder of run folders.
const INDEX: &str = "index.json";

/// Arguments of `report`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
A run is a run folder, or a JSON document that a bench verb wrote with --out (or printed with --json).

  barewire bench published --quick --out published.json
  barewire report published.json --html report.html
  barewire report after.json --against before.json --html report.html
  barewire report list --table machnet --since 2026-11-01"
)]
pub struct Args {
    /// What to do instead of a report.
    #[command(subcommand)]
    what: Option<What>,
    /// Run folders, or documents of bench verbs
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Write one HTML page that works offline
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write every row as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write every row as Parquet: the columns of the CSV, typed
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Write each chart as SVG into this folder
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,
    /// Compare with this run
    #[arg(long, value_name = "RUN")]
    against: Vec<PathBuf>,
    /// Show every published table, even if nothing was measured for it
    #[arg(long)]
    all_published: bool,
    /// Title of the page
    #[arg(long)]
    title: Option<String>,
}

/// What `report` does instead of a report.
#[derive(clap::Subcommand)]
enum What {
    /// List runs: update the index of a folder of run folders, and search it
    List(ListArgs),
}

/// Arguments of `report list`.
#[derive(clap::Args)]
#[command(after_help = "\
The index is FOLDER/index.json. It holds nothing that the run folders do not, and can be deleted.")]
struct ListArgs {
    /// Folder of run folders, as given to --run
    #[arg(default_value = "runs")]
    folder: PathBuf,
    /// Only runs with rows of this table
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    /// Only runs whose label contains this
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    /// Only runs that began on this day (UTC) or later, such as 2026-11-22
    #[arg(long, value_name = "DATE", value_parser = day)]
    since: Option<u64>,
    /// Rebuild the index from scratch
    #[arg(long)]
    rebuild: bool,
    /// Print one JSON object instead of a list
    #[arg(long)]
    json: bool,
}

/// `2026-11-22`, as ms since 1970.
fn day(text: &str) -> Result<u64, String> {
    utc_ms_of_day(text).ok_or_else(|| "expected a day, such as 2026-11-22".to_owned())
}

/// Arguments of `bench compare`.
#[derive(clap::Args)]
pub struct CompareArgs {
    /// The run to compare with: a run folder, or a document of a bench verb
    a: PathBuf,
    /// The run that is judged
    b: PathBuf,
    /// Exit with code 1 when a figure is worse, a row is missing, or nothing could be judged
    #[arg(long)]
    fail_on_regression: bool,
    /// Also compare runs of different machines
    #[arg(long)]
    across_machines: bool,
    /// Differences below this share are noise, whatever the interval says
    #[arg(long, value_name = "SHARE", default_value_t = Method::default().floor)]
    floor: f64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// A folder that is gone when this is.
struct Scratch {
    path: PathBuf,
    /// Folders that were made in it: one document may be named twice.
    made: Cell<usize>,
}

impl Scratch {
    fn new() -> anyhow::Result<Scratch> {
        // Ours alone, and new: whoever may write where it stands could have made one of this name for us.
        let path =
            std::env::temp_dir().join(format!("barewire-report-{}-{:x}", std::process::id(), realtime_ns()));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("making {}", path.display()))?;
        Ok(Scratch { path, made: Cell::new(0) })
    }

    /// A path in it that was not given out before.
    fn next(&self) -> PathBuf {
        self.made.set(self.made.get() + 1);
        self.path.join(self.made.get().to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Reads a run folder, or makes one of a document.
fn open(path: &Path, scratch: &Scratch) -> anyhow::Result<Run> {
    if path.is_dir() {
        return Run::open(path).map_err(|e| {
            let failure = Failure::new(Code::Failed, format!("{}: {e}", path.display()));
            if path.join(MANIFEST).exists() {
                failure
            } else {
                failure.hint("a run folder has a manifest.json")
            }
            .into()
        });
    }
    let written = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let document = import::document(&written).map_err(|e| {
        Failure::new(Code::Failed, format!("{}: {e}", path.display()))
            .hint("expected a run folder, or a document that a bench verb wrote with --out")
    })?;
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    // What a document does not say stays unsaid: the file's own time is that of its last copy.
    let started_unix_ms = document.started_unix_ms.unwrap_or(0);
    let start = RunStart {
        label: name,
        started_unix_ms,
        commit: None,
        command: String::new(),
        hardware: document.hardware,
        config: Value::Null,
        fingerprint: document.fingerprint,
    };
    let mut writer = RunWriter::create(&scratch.next(), &start)?;
    for row in document.rows {
        row.write(&mut writer)?;
    }
    let mut run = Run::open(&writer.finish(started_unix_ms)?)?;
    // Its name is the document's: of the folder nobody will see anything.
    path.clone_into(&mut run.path);
    Ok(run)
}

/// Writes the page of what was just measured: of its run folder, or of one that is made for it and goes again.
///
/// # Errors
/// When a file cannot be written.
pub fn page_of(
    results: &Results,
    folder: Option<&Path>,
    head: &Head,
    options: &Options,
    to: &Path,
) -> anyhow::Result<()> {
    let scratch = Scratch::new()?;
    let made = match folder {
        Some(folder) => folder.to_owned(),
        None => results.write(&scratch.next(), head)?,
    };
    let run = Run::open(&made)?;
    if let Some(parent) = to.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    }
    write(to, html::page(&Report::of(&[&run], options)))
}

fn write(path: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(path, contents).with_context(|| format!("writing {}", path.display()))
}

/// Runs `report`.
///
/// # Errors
/// When a run cannot be read, or a file cannot be written.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    if let Some(What::List(args)) = &args.what {
        return list(args, console);
    }
    let scratch = Scratch::new()?;
    let runs = args.runs.iter().map(|path| open(path, &scratch)).collect::<anyhow::Result<Vec<Run>>>()?;
    let against =
        args.against.iter().map(|path| open(path, &scratch)).collect::<anyhow::Result<Vec<Run>>>()?;
    let all: Vec<&Run> = runs.iter().collect();
    let title = args
        .title
        .clone()
        .unwrap_or_else(|| runs.iter().map(|run| run.manifest.label.as_str()).collect::<Vec<_>>().join(", "));
    let mut report = Report::of(&all, &Options { title, all_published: args.all_published });
    if !against.is_empty() {
        let against: Vec<&Run> = against.iter().collect();
        report = report.with_comparison(compare(&against, &all, Method::default()));
    }
    let mut told = false;
    if let Some(path) = &args.html {
        write(path, html::page(&report))?;
        console.tell(&format!("{} is the report", path.display()));
        told = true;
    }
    if let Some(path) = &args.csv {
        write(path, text::csv(&all))?;
        told = true;
    }
    if let Some(path) = &args.parquet {
        write(path, text::parquet(&all)?)?;
        told = true;
    }
    if let Some(folder) = &args.charts {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        for (name, svg) in text::charts(&report) {
            write(&folder.join(name), &svg)?;
        }
        told = true;
    }
    // Only pictures that were written can be shown, and a text names them from where it stands.
    let pictures = args.charts.as_ref().map_or_else(String::new, |charts| {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        // A text on stdout stands nowhere: as they were named.
        let Some(text) = &args.markdown else { return charts.display().to_string() };
        let charts = absolute(charts);
        let beside = absolute(text).parent().map(Path::to_owned);
        let from = beside.and_then(|folder| charts.strip_prefix(folder).ok().map(Path::to_owned));
        from.unwrap_or(charts).display().to_string()
    });
    match &args.markdown {
        Some(path) => write(path, text::markdown(&report, &pictures))?,
        None if !told => print(&text::markdown(&report, &pictures))?,
        None => {}
    }
    Ok(Code::Done)
}

/// Runs `bench compare`.
///
/// # Errors
/// When a run cannot be read.
pub fn run_compare(args: &CompareArgs, console: &Console) -> anyhow::Result<Code> {
    if !(0.0..1.0).contains(&args.floor) {
        return Err(Failure::new(Code::Usage, "`--floor` is a share from 0 to below 1, such as 0.05").into());
    }
    let scratch = Scratch::new()?;
    let (a, b) = (open(&args.a, &scratch)?, open(&args.b, &scratch)?);
    let method = Method { floor: args.floor, across_machines: args.across_machines, ..Method::default() };
    let comparison: Comparison = compare(&[&a], &[&b], method);
    if args.json {
        print(&serde_json::to_string(&comparison)?)?;
    } else {
        print(&text::comparison(&comparison))?;
    }
    if !args.fail_on_regression {
        return Ok(Code::Done);
    }
    let gate = comparison.gate();
    print_gate(&gate, console);
    Ok(if gate.passes() { Code::Done } else { Code::Failed })
}

/// Every reason for which a gate fails, and what it could not judge.
fn print_gate(gate: &Gate<'_>, console: &Console) {
    let figure = |row: &Compared| format!("{}: {}", row.of(), row.figure);
    for row in &gate.unknown {
        console.note(&format!("unknown: {}: {}", figure(row), row.notes.join("; ")));
    }
    for row in &gate.regressions {
        let ratio = row.ratio().unwrap_or_default();
        console.error(&format!("slower: {}: {ratio} times that of A", figure(row)));
    }
    let mut lost: Vec<String> = Vec::new();
    for row in &gate.lost {
        let why = row.lost.as_deref().unwrap_or_default();
        // A void row is lost with all its figures, and so is an overloaded one: once is enough to say so.
        let whole = ["void", "overloaded"].iter().any(|word| why.starts_with(word));
        let line = if whole { row.of() } else { figure(row) };
        let line = format!("lost: {line}: {why}");
        if !lost.contains(&line) {
            console.error(&line);
            lost.push(line);
        }
    }
    for row in gate.missing {
        console.error(&format!("gone: {row}"));
    }
    if gate.judged == 0 {
        console.error("nothing could be judged");
        console.hint("rows need several runs (--runs), of one machine, or --across-machines");
    }
}

/// Runs `report list`.
fn list(args: &ListArgs, console: &Console) -> anyhow::Result<Code> {
    if !args.folder.is_dir() {
        let failure = Failure::new(Code::Failed, format!("{} is not a folder", args.folder.display()));
        return Err(failure.hint("a bench verb with --run FOLDER leaves its run folder in FOLDER").into());
    }
    let (index, found) = index_of(args, console)?;
    for (folder, why) in &found.refused {
        console.note(&format!("left out: {}: {why}", folder.display()));
    }
    let query = Query {
        label: args.label.clone(),
        table: args.table.clone(),
        from_unix_ms: args.since,
        ..Query::default()
    };
    let entries = index.find(&query);
    if args.json {
        print(&listed(&entries, &args.folder, &found).to_string())?;
        return Ok(Code::Done);
    }
    if entries.is_empty() {
        console.note(&format!("no such run in {}", args.folder.display()));
        let label = args.label.as_deref().map(|asked| ("label", asked, index.nearest_label(asked)));
        let table = args.table.as_deref().map(|asked| ("table", asked, index.nearest_table(asked)));
        for (option, asked, near) in [label, table].into_iter().flatten() {
            if let Some(near) = near.filter(|near| near != asked) {
                console.hint(&did_you_mean(&format!("--{option} {near}"), Quote::Back));
            }
        }
        return Ok(Code::Done);
    }
    let lines: Vec<String> = entries.iter().map(|entry| line(entry, &args.folder)).collect();
    print(&lines.join("\n"))?;
    Ok(Code::Done)
}

/// The index of the folder, up to date.
fn index_of(args: &ListArgs, console: &Console) -> anyhow::Result<(Index, Rebuilt)> {
    let path = args.folder.join(INDEX);
    let kept = if args.rebuild {
        Index::rebuild(&path, &args.folder)
    } else {
        Index::open(&path).and_then(|mut index| {
            let found = index.update(&args.folder)?;
            Ok((index, found))
        })
    };
    match kept {
        Ok(kept) => Ok(kept),
        Err(error @ IndexError::Foreign { .. }) => {
            Err(Failure::new(Code::Failed, error.to_string()).hint("`--rebuild` builds it again").into())
        }
        Err(error @ IndexError::Io { .. }) => {
            // Who may only read the runs can still list them.
            console.note(&format!("no index is kept: {error}"));
            let scratch = Scratch::new()?;
            Ok(Index::rebuild(&scratch.next(), &args.folder)?)
        }
        Err(error) => {
            let hint = format!("{INDEX} is the name of the index; move that file away");
            Err(Failure::new(Code::Failed, error.to_string()).hint(hint).into())
        }
    }
}

/// A run's folder as whoever asked would name it.
fn named(entry: &Entry, folder: &Path) -> PathBuf {
    entry.path.file_name().map_or_else(|| entry.path.clone(), |name| folder.join(name))
}

fn line(entry: &Entry, folder: &Path) -> String {
    let tables: Vec<String> = entry.tables.iter().map(|(table, rows)| format!("{table} {rows}")).collect();
    let ended = if entry.ended_unix_ms.is_some() { "" } else { ", did not end" };
    // Folders come from anywhere, and so do their labels.
    harmless(&format!(
        "{}  {}  {}{ended}  {}  {}",
        utc_text(entry.started_unix_ms),
        if entry.label.is_empty() { "-" } else { &entry.label },
        entry.hardware,
        if tables.is_empty() { "no rows".to_owned() } else { tables.join(", ") },
        named(entry, folder).display()
    ))
}

fn listed(entries: &[Entry], folder: &Path, found: &Rebuilt) -> Value {
    let runs: Vec<Value> = entries
        .iter()
        .map(|e| {
            let tables: Map<String, Value> =
                e.tables.iter().map(|(table, rows)| (table.clone(), Value::from(*rows))).collect();
            json!({
                "path": named(e, folder), "label": e.label, "started_unix_ms": e.started_unix_ms,
                "ended_unix_ms": e.ended_unix_ms, "commit": e.commit, "command": e.command, "hardware": e.hardware,
                "machine": e.machine, "records": e.records, "tables": tables,
            })
        })
        .collect();
    let refused: Vec<Value> =
        found.refused.iter().map(|(path, why)| json!({ "path": path, "why": why.to_string() })).collect();
    json!({ "schema": 1, "runs": runs, "refused": refused })
}
