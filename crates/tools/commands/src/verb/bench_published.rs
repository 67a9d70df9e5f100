//! `barewire bench published`: the published tables, of the message service, of bmv2, of a feed handler and of RDMA connections, beside the
//! same experiments run here.

use super::measured::{self, MeasuredOutputArgs, SoFar, machine, pin, warn_of_debug_build};
use super::programs::{Measuring, Programs};
use super::report;
use crate::console::Console;
use crate::failure::{self, Code};
use crate::signals;
use barewire_base::Duration;
use barewire_bench::messages::plan::{Place, cells_for, seed_systems};
use barewire_bench::messages::reading::ratios;
use barewire_bench::published::bmv2::switch_tables;
use barewire_bench::published::messages::message_tables;
use barewire_bench::published::mitosis::rc_tables;
use barewire_bench::published::onixs::feed_tables;
use barewire_bench::published::plan::{Asked, Program, SeedsPlan, missing_cases};
use barewire_bench::{Cell, Results, Ticker, interrupted, time_text};
use barewire_report::published::PublishedTable;
use barewire_report::report::Options;
use barewire_report::run::HardwareClass;
use barewire_report::{import, published};
use serde_json::Value;
use std::path::PathBuf;

/// Which tables.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    /// The message service
    Msg,
    /// bmv2
    Switch,
    /// The feed handler
    Feed,
    /// RDMA connections
    #[value(alias = "rc")]
    Rdma,
}

impl From<Only> for Program {
    fn from(only: Only) -> Program {
        match only {
            Only::Msg => Program::Messages,
            Only::Switch => Program::Switch,
            Only::Feed => Program::Feed,
            Only::Rdma => Program::Connections,
        }
    }
}

/// Arguments.
#[derive(clap::Args)]
#[command(
    next_help_heading = "Workload",
    after_help = "\
In the JSON object, `tables` has each row of each published table: `published` beside `measured`, or `missing` with the reason.

  barewire bench published --quick --json
  barewire bench published --run runs --html published.html"
)]
pub struct Args {
    /// One run of a second for each row instead of five: a quick look without verdicts
    #[arg(long)]
    quick: bool,
    /// Only this report
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// Measured time of a run
    #[arg(long, value_parser = measured::seconds)]
    seconds: Option<Duration>,
    /// Runs of each system
    #[arg(long)]
    runs: Option<u32>,
    /// Write one HTML page that works offline
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    #[command(flatten)]
    output: MeasuredOutputArgs,
}

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    signals::catch()?;
    let cores = pin(None, console)?;
    let mut results = Results::begin();
    let (place, no_hosts) = place(console)?;
    let asked = Asked {
        only: args.only.map(Program::from),
        quick: args.quick,
        seconds: args.seconds,
        runs: args.runs,
        with_hosts: no_hosts.is_none(),
        cores,
        command: results.fingerprint().run.command_line.clone(),
    };
    let plan = asked.plan().map_err(measured::of_bench)?;
    tell_plan(&plan, console);
    args.output.control(&mut results, console);
    if let Some(why) = &no_hosts {
        results.caveat(format!("without packets: memory and loopback only, as no hosts can be made: {why}"));
    }
    let mut ticker = console.ticker(plan.whole_time());
    let class = HardwareClass::OneMachine;
    let so_far = args.output.so_far("seeds", &results, class);
    let (rows, so_far) = measure(&plan, place, &mut ticker, so_far)?;
    drop(ticker);
    rows.add_to(&mut results)?;
    let records = import::document(&results.document(class, false, &[])?)?.records();
    let why = |table: &PublishedTable| reason(&asked, &rows.failures, no_hosts.as_deref(), table);
    // Every row of every table of the five reports, with ours beside it or the reason why there is none.
    let tables = Value::from(published::with_measured(&records, class, &why));
    for case in missing_cases(&records) {
        results.missing(case.table.id, &case.axes, &why(case.table));
    }
    let text = || text(&asked, &rows, &machine(results.fingerprint()));
    let folder = args.output.end(&results, "seeds", class, &[("tables", &tables)], console, text)?;
    so_far.end();
    if let Some(path) = &args.html {
        let options =
            Options { title: "Published tables, and the same measured here".to_owned(), all_published: true };
        report::page_of(&results, folder.as_deref(), &args.output.head("seeds", class), &options, path)?;
        console.tell(&format!("{} is the report", path.display()));
    }
    let ended = rows.ended();
    Ok(ended.conclude(&rows.errors(), console))
}

fn tell_plan(plan: &SeedsPlan, console: &Console) {
    let parts: Vec<String> = Program::ALL
        .into_iter()
        .map(|program| (program, plan.planned_time(program)))
        .filter(|(_, time)| *time > Duration::ZERO)
        .map(|(program, time)| format!("{} {}", program.as_str(), time_text(time)))
        .collect();
    let whole = plan.whole_time();
    console.tell(&format!(
        "planned: {:.0} s, which is {} ({})",
        whole.as_secs_f64(),
        time_text(whole),
        parts.join(", ")
    ));
}

/// Runs all of it, program by program.
fn measure(
    plan: &SeedsPlan,
    place: Place,
    ticker: &mut Ticker,
    so_far: SoFar,
) -> anyhow::Result<(Programs, SoFar)> {
    let mut all = Measuring { ticker, so_far, rows: Programs::default() };
    let mut cells: Vec<Box<dyn Cell>> = Vec::new();
    for settings in &plan.messages {
        cells.extend(cells_for(&seed_systems(place.hosts.is_some()), &place, settings)?);
    }
    drop(place);
    let begin = |all: &mut Measuring<'_>, program: Program, planned: Duration| {
        all.ticker.part(program.as_str(), planned);
        !interrupted()
    };
    if let Some(settings) = plan.messages.first()
        && begin(&mut all, Program::Messages, plan.planned_time(Program::Messages))
    {
        all.rows.messages = all.messages(&mut cells, settings.workload.runs);
    }
    drop(cells);
    for request in &plan.switches {
        if begin(&mut all, Program::Switch, request.planned_time()) {
            all.switch(request);
        }
    }
    for request in &plan.feeds {
        if begin(&mut all, Program::Feed, request.planned_time()) {
            all.feed(request);
        }
    }
    for request in &plan.connections {
        if begin(&mut all, Program::Connections, request.planned_time()) {
            all.connections(request);
        }
    }
    Ok((all.rows, all.so_far))
}

fn text(asked: &Asked, rows: &Programs, machine: &str) -> String {
    let wants = |program| asked.only.is_none_or(|only| only == program);
    let mut out = String::new();
    if wants(Program::Messages) {
        out += &message_tables(&rows.messages, machine, HardwareClass::OneMachine);
        out += &format!("\n## Ratios\n\n```text\n{}```\n\n", ratios(&rows.messages));
    }
    if wants(Program::Switch) {
        out += &(switch_tables(&rows.switches, machine) + "\n");
    }
    if wants(Program::Feed) {
        out += &(feed_tables(&rows.feeds, machine) + "\n");
    }
    if wants(Program::Connections) {
        out += &rc_tables(&rows.connections, machine);
    }
    out
}

/// Why `table` has no measured row.
fn reason(
    asked: &Asked,
    failures: &[(Program, anyhow::Error)],
    no_hosts: Option<&str>,
    table: &PublishedTable,
) -> String {
    let program = Program::of_table(table.id);
    if asked.only.is_some_and(|only| only != program) {
        return "left out by --only".to_owned();
    }
    if interrupted() {
        return "interrupted before it was measured".to_owned();
    }
    let failed: Vec<String> =
        failures.iter().filter(|(of, _)| *of == program).map(|(_, error)| failure::text(error)).collect();
    match no_hosts {
        _ if !failed.is_empty() => failed.join("; "),
        Some(why) => format!("needs two hosts with a link between them, which cannot be made here: {why}"),
        None => "no such row could be measured here".to_owned(),
    }
}

/// Hosts where they can be made; else memory and loopback, and a loud note why.
pub fn place(console: &Console) -> anyhow::Result<(Place, Option<String>)> {
    match Place::prepare(&seed_systems(true)) {
        Ok(place) => Ok((place, None)),
        Err(why) => {
            console
                .note(&format!("WITHOUT packets: memory and loopback only, as no hosts can be made: {why}"));
            if let Some(hint) = why.hint() {
                console.hint(hint);
            }
            Ok((Place::nothing(), Some(why.to_string())))
        }
    }
}
