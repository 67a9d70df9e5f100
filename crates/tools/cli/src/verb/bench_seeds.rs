//! `barewire bench seeds`: the published tables, of the message service, of bmv2, of a feed handler and of RDMA connections, beside the
//! same experiments run here.

use super::measured::{self, Measured, machine, pin, warn_of_debug_build};
use super::{bench_feed, bench_rc, bench_switch};
use crate::console::{Console, print};
use crate::failure::Code;
use crate::signals;
use anyhow::Context as _;
use barewire_base::Duration;
use barewire_bench::feed::FeedRow;
use barewire_bench::plan::{Place, Settings, cells_for, seed_systems};
use barewire_bench::rc::rate::RcRow;
use barewire_bench::reading::ratios;
use barewire_bench::seeds::message_tables;
use barewire_bench::seeds_bmv2::switch_tables;
use barewire_bench::seeds_data::{HardwareClass, PUBLISHED_SIZE};
use barewire_bench::seeds_mitosis::{self, rc_tables};
use barewire_bench::seeds_onixs::{feed_tables, seed_request};
use barewire_bench::switch::SwitchRow;
use barewire_bench::switch::plan::seed_requests;
use barewire_bench::{Cell, MsgWorkload, interrupted};
use barewire_measure::Fingerprint;
use barewire_report::{import, published};
use std::path::PathBuf;

/// Requests in flight: E1 and E2 of the published tables.
const WINDOWS: [u32; 2] = [1, 32];

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
    Rc,
}

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// One run of a second for each row, instead of three of three seconds (bmv2's: five)
    #[arg(long)]
    quick: bool,
    /// One of the reports only
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// Measured time of a run
    #[arg(long, value_parser = measured::seconds)]
    seconds: Option<Duration>,
    /// Runs of each system
    #[arg(long)]
    runs: Option<u32>,
    /// Print one JSON object instead of tables: under `tables` each published row, `published` beside `measured` (or `missing`)
    #[arg(long)]
    json: bool,
    /// Write the JSON object to a file, too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    signals::catch()?;
    let cores = pin(None, console)?;
    let (seconds, runs) = if args.quick { (1, 1) } else { (3, 3) };
    let runs = args.runs.unwrap_or(runs);
    let (place, with_hosts) = place(console)?;
    let mut cells: Vec<Box<dyn Cell>> = Vec::new();
    for window in WINDOWS.into_iter().filter(|_| args.wants(Only::Msg)) {
        let workload = MsgWorkload {
            size: PUBLISHED_SIZE,
            window,
            duration: args.seconds.unwrap_or(Duration::from_secs(seconds)),
            warmup: Duration::from_millis(200),
            runs,
            ..MsgWorkload::default()
        };
        workload.validate()?;
        let settings = Settings {
            workload,
            idle: None,
            idle_state: None,
            cores,
            options: String::new(),
            command: Fingerprint::collect().run.command_line,
        };
        cells.extend(cells_for(&seed_systems(with_hosts), &place, &settings)?);
    }
    drop(place);
    let measured = Measured::run(&mut cells, runs, console);
    drop(cells);
    let duration = args.seconds.unwrap_or(Duration::from_secs(seconds));
    let (switches, failures) = switches(args, with_hosts, duration, cores.map(|c| c.0), console)?;
    let (feeds, feed_failures) = feeds(args, with_hosts, cores, console);
    let (connections, rc_failures) = connections(args, with_hosts, cores, console);
    let mut document = document(&measured, &switches, &feeds, &connections)?;
    document["tables"] = tables(args, &document)?.into();
    let document = document.to_string();
    if let Some(path) = &args.out {
        std::fs::write(path, format!("{document}\n"))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    if args.json {
        print(&document)?;
    } else {
        let machine = machine(&measured.fingerprint);
        if args.wants(Only::Msg) {
            print(&message_tables(&measured.rows, &machine, HardwareClass::OneMachine))?;
            print(&format!("\n## Ratios\n\n```text\n{}```\n", ratios(&measured.rows)))?;
        }
        if args.wants(Only::Switch) {
            print(&switch_tables(&switches, &machine))?;
        }
        if args.wants(Only::Feed) {
            print(&feed_tables(&feeds, &machine))?;
        }
        if args.wants(Only::Rc) {
            print(&rc_tables(&connections, &machine))?;
        }
    }
    let codes = [
        measured.conclude(console),
        bench_switch::conclude(&switches, &failures, console),
        bench_feed::conclude(&feeds, &feed_failures, console),
        bench_rc::conclude(&connections, &rc_failures, console),
    ];
    Ok(codes.into_iter().find(|code| *code != Code::Done).unwrap_or(Code::Done))
}

impl Args {
    fn wants(&self, report: Only) -> bool {
        self.only.is_none_or(|only| only == report)
    }
}

/// The feed handler's experiment, run here, and why a part of it was not.
fn feeds(
    args: &Args,
    with_hosts: bool,
    cores: Option<(usize, usize)>,
    console: &Console,
) -> (Vec<FeedRow>, Vec<anyhow::Error>) {
    if !args.wants(Only::Feed) || interrupted() {
        return (Vec::new(), Vec::new());
    }
    let command = Fingerprint::collect().run.command_line;
    let mut request = seed_request(with_hosts, args.quick, args.runs, cores, &command);
    if let Some(seconds) = args.seconds {
        request.seconds = seconds;
    }
    let (rows, failed) = request.run(&mut |line| console.tell(&line));
    (rows, failed.into_iter().map(bench_feed::of_feed).collect())
}

/// The RDMA connection benchmark's experiments, run here, and why a part of them was not.
fn connections(
    args: &Args,
    with_hosts: bool,
    cores: Option<(usize, usize)>,
    console: &Console,
) -> (Vec<RcRow>, Vec<anyhow::Error>) {
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    if !args.wants(Only::Rc) || interrupted() {
        return (rows, failures);
    }
    let command = Fingerprint::collect().run.command_line;
    for request in
        seeds_mitosis::seed_requests(with_hosts, args.quick, args.runs, args.seconds, cores, &command)
    {
        let (more, failed) = request.run(&mut |line| console.tell(&line));
        rows.extend(more);
        failures.extend(failed.map(bench_rc::of_rc));
        if interrupted() {
            break;
        }
    }
    (rows, failures)
}

/// bmv2's experiment, run here, and why a part of it was not.
fn switches(
    args: &Args,
    with_hosts: bool,
    seconds: Duration,
    core: Option<usize>,
    console: &Console,
) -> anyhow::Result<(Vec<SwitchRow>, Vec<anyhow::Error>)> {
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    if !args.wants(Only::Switch) || interrupted() {
        return Ok((rows, failures));
    }
    let command = Fingerprint::collect().run.command_line;
    let requests = seed_requests(with_hosts, args.quick, args.runs, seconds, core, &command);
    for request in requests.map_err(bench_switch::of_switch)? {
        let (more, failed) = request.run(&mut |line| console.tell(&line));
        rows.extend(more);
        failures.extend(failed.map(bench_switch::of_switch));
    }
    Ok((rows, failures))
}

/// The document of the message rows, with those of the other programs beside them under keys of their own.
fn document(
    measured: &Measured,
    switches: &[SwitchRow],
    feeds: &[FeedRow],
    connections: &[RcRow],
) -> anyhow::Result<serde_json::Value> {
    let mut document: serde_json::Value = serde_json::from_str(&measured.document())?;
    document["switch_rows"] = serde_json::to_value(switches)?;
    document["feed_rows"] = serde_json::to_value(feeds)?;
    document["rc_rows"] = serde_json::to_value(connections)?;
    Ok(document)
}

/// Every row of every table of the five reports, with ours beside it or the reason why there is none.
fn tables(args: &Args, document: &serde_json::Value) -> anyhow::Result<Vec<serde_json::Value>> {
    let records = import::document(&document.to_string())?.records;
    Ok(published::beside(&records, &|table| {
        let wanted = match table.id.split_once('.').map_or(table.id, |(report, _)| report) {
            "onixs" => args.wants(Only::Feed),
            "rc" => args.wants(Only::Rc),
            "bmv2" => args.wants(Only::Switch),
            _ => args.wants(Only::Msg),
        };
        match wanted {
            false => "left out by --only".to_owned(),
            true => "no such row could be measured here: see stderr, or run as root with the peer's programs installed".to_owned(),
        }
    }))
}

/// Hosts where they can be made; else memory and loopback, and a loud note why.
pub fn place(console: &Console) -> anyhow::Result<(Place, bool)> {
    match Place::prepare(&seed_systems(true)) {
        Ok(place) => Ok((place, true)),
        Err(why) => {
            console
                .note(&format!("WITHOUT packets: memory and loopback only, as no hosts can be made: {why}"));
            if let Some(hint) = why.hint() {
                console.hint(hint);
            }
            Ok((Place::nothing(), false))
        }
    }
}
