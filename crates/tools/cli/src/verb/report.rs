//! `barewire report`: runs as one HTML page, Markdown, CSV and pictures; `barewire bench compare`: whether one run is worse than another.

use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_bench::{Head, Results};
use barewire_report::compare::{Comparison, Method, compare};
use barewire_report::report::{Options, Report};
use barewire_report::run::{HardwareClass, MANIFEST, Run, RunStart, RunWriter};
use barewire_report::{html, import, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Arguments of `report`.
#[derive(clap::Args)]
#[command(after_help = "\
A run is a run folder, or a JSON document that a bench verb wrote with --out (or printed with --json).

  barewire bench seeds --quick --out seeds.json
  barewire report seeds.json --html report.html
  barewire report after.json --against before.json --html report.html")]
pub struct Args {
    /// Run folders, or documents of bench verbs
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Write one HTML page that works without a network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write every row as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write each picture as SVG into this folder
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,
    /// Compare with this run
    #[arg(long, value_name = "RUN")]
    against: Vec<PathBuf>,
    /// Show every published table, also those that nothing was measured for
    #[arg(long)]
    all_published: bool,
    /// What the page is called
    #[arg(long)]
    title: Option<String>,
}

/// Arguments of `bench compare`.
#[derive(clap::Args)]
pub struct CompareArgs {
    /// The run to compare with: a run folder, or a document of a bench verb
    a: PathBuf,
    /// The run that is judged
    b: PathBuf,
    /// End with code 1 when a figure is worse, a row is gone, or nothing could be judged
    #[arg(long)]
    fail_on_regression: bool,
    /// Judge runs of different machines, too
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
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("barewire-report-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
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
            .hint("what a bench verb writes with --out is expected, or a run folder")
    })?;
    let at = fs::metadata(path).ok().and_then(|m| m.modified().ok());
    let at_ms = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map_or(0, |d| d.as_millis() as u64);
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let start = RunStart {
        label: name,
        started_unix_ms: at_ms,
        commit: None,
        command: String::new(),
        hardware: HardwareClass::OneMachine,
        config: serde_json::Value::Null,
        fingerprint: document.fingerprint,
    };
    let mut writer = RunWriter::create(&scratch.0, &start)?;
    for row in document.rows {
        row.write(&mut writer)?;
    }
    Ok(Run::open(&writer.finish(at_ms)?)?)
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
        None => results.write(&scratch.0, head)?,
    };
    let run = Run::open(&made)?;
    if let Some(parent) = to.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
    }
    write(to, &html::page(&Report::of(&[&run], options)))
}

fn write(path: &Path, contents: &str) -> anyhow::Result<()> {
    fs::write(path, contents).with_context(|| format!("writing {}", path.display()))
}

/// Runs `report`.
///
/// # Errors
/// When a run cannot be read, or a file cannot be written.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
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
        write(path, &html::page(&report))?;
        console.tell(&format!("{} is the report", path.display()));
        told = true;
    }
    if let Some(path) = &args.csv {
        write(path, &text::csv(&all))?;
        told = true;
    }
    if let Some(folder) = &args.charts {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        for (name, svg) in text::charts(&report) {
            write(&folder.join(name), &svg)?;
        }
        told = true;
    }
    let pictures = args.charts.as_ref().map_or_else(|| "charts".to_owned(), |p| p.display().to_string());
    match &args.markdown {
        Some(path) => write(path, &text::markdown(&report, &pictures))?,
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
    let gate = comparison.gate();
    if !args.fail_on_regression || gate.passes() {
        return Ok(Code::Done);
    }
    for row in &gate.regressions {
        console.error(&format!("slower: {}", row.of()));
    }
    for row in gate.missing {
        console.error(&format!("gone: {row}"));
    }
    if gate.judged == 0 {
        console.error("nothing could be judged");
        console.hint("rows need several runs (--runs), of one machine, or --across-machines");
    }
    Ok(Code::Failed)
}
