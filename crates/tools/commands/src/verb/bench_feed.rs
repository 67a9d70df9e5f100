//! `barewire bench feed`: the feed handler, from a packet's arrival to the callback.

use super::measured::{self, Ended, MeasuredOutputArgs, State, Timing, tables_text, warn_of_debug_build};
use crate::console::Console;
use crate::failure::Code;
use crate::signals;
use barewire_base::Duration;
use barewire_bench::feed::decode::{self, SbeTool};
use barewire_bench::feed::live::{self, EngineKind};
use barewire_bench::feed::plan::Request;
use barewire_bench::feed::probe::What;
use barewire_bench::feed::render::text_table;
use barewire_bench::feed::saturate;
use barewire_bench::feed::traffic::Workload;
use barewire_bench::feed::{Base, onload};
use barewire_bench::render::table;
use barewire_bench::row::Row;
use barewire_bench::{BenchError, Ticker, interrupted};
use barewire_report::run::HardwareClass;
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
#[command(
    next_help_heading = "Workload",
    mut_arg("seconds", |arg| arg.default_value("10").help("Longest time of a run: with gaps fewer packets are sent")),
    after_help = "\
The sender is on one host and the engine on another; both are created for the run and removed, which needs root. `mem` needs no \
privileges: there packets are handed over in one thread. All rows take turns, run by run. A statistic without enough samples prints as n<k.

  t3  the kernel's (or the card's) receive stamp
  t4  the engine hands the packet over
  t5  the callback

  barewire bench feed --engine mem
  barewire bench feed --engine socket,socket-spin,xdp --base app,stamp --gap-us 0,5000
  barewire bench feed --engine socket-spin,xdp --rate --instruments 10000
  barewire bench feed --engine mem --decode --schema templates_FixBinary.xml

On two machines the subscriber measures what an exchange on the other one sends:
  host 2:  barewire feed run --interface eth0 --seconds 8 --measure --warmup 1 --json
  host 1:  barewire feed emulate --interface eth0 --seconds 5 --events-per-s 5000"
)]
pub struct Args {
    /// Receivers: mem, socket, socket-spin, packet, xdp, xdp-park, onload; several with commas
    #[arg(long, value_delimiter = ',', default_value = "socket,socket-spin,xdp")]
    engine: Vec<EngineKind>,
    /// Application only (app: t4 to t5), with the network and kernel layer (stamp: t3 to t5), or both
    #[arg(long, value_delimiter = ',', default_value = "app,stamp")]
    base: Vec<Base>,
    /// Which callback is t5: message (the packet's last, as it is handed over), book (the last book it changed); several with commas
    #[arg(long, value_delimiter = ',', default_value = "book")]
    what: Vec<What>,
    /// Microseconds between packets, or a time with its unit (5ms); 0: as fast as possible; several with commas
    #[arg(long, value_delimiter = ',', default_value = "0,5000", value_name = "US", value_parser = measured::micros)]
    gap_us: Vec<Duration>,
    /// Packets: one-entry (each changes one level of one book), channel (an emulated channel's); several with commas
    #[arg(long, value_delimiter = ',', default_value = "one-entry", value_name = "PACKETS")]
    workload: Vec<Workload>,
    /// Instruments of the channel
    #[arg(long, default_value_t = 100)]
    instruments: u32,
    /// Send every packet on line B as well
    #[arg(long)]
    both_lines: bool,
    /// Do not keep the hot path in cache while idle, to show what a pause costs
    #[arg(long)]
    no_keep_warm: bool,
    /// Packets of a run
    #[arg(long, default_value_t = 200_000)]
    packets: usize,
    /// Also search the rate at which packets are lost
    #[arg(long)]
    rate: bool,
    /// Also time barewire's decoder beside the one that the SBE tool generates (Java, cargo)
    #[arg(long, help_heading = "Baselines")]
    decode: bool,
    /// The exchange's schema, for the SBE tool
    #[arg(long, value_name = "FILE", requires = "decode", help_heading = "Baselines")]
    schema: Option<PathBuf>,
    /// The SBE tool [default: Maven fetches it]
    #[arg(long, value_name = "JAR", requires = "decode", help_heading = "Baselines")]
    sbe_tool: Option<PathBuf>,
    /// State of the cores: warm or cold [default: both for engines that sleep (socket, xdp-park), else warm]
    #[arg(long, value_enum, help_heading = "Cores")]
    idle_state: Option<State>,
    #[command(flatten)]
    timing: Timing,
    /// Seed of the packets
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: MeasuredOutputArgs,
}

/// How long each rate is tried.
const RATE_SPAN: Duration = Duration::from_millis(500);

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    signals::catch()?;
    let mut results = args.output.begin(console);
    let command = results.fingerprint().run.command_line.clone();
    // The sender is the first, the engine the second.
    let cores = args.timing.pin(console)?;
    let request = Request {
        engines: args.engine.clone(),
        bases: args.base.clone(),
        whats: args.what.clone(),
        gaps: args.gap_us.clone(),
        workloads: args.workload.clone(),
        instruments: args.instruments,
        both_lines: args.both_lines,
        keep_warm: !args.no_keep_warm,
        idle_state: args.idle_state.map(Into::into),
        packets: args.packets,
        seconds: args.timing.seconds,
        runs: args.timing.runs,
        cores,
        seed: args.seed,
        command: command.clone(),
    };
    request.check().map_err(measured::of_bench)?;
    let mut ticker = console.ticker(request.planned_time());
    ticker.part("", request.planned_time());
    let mut so_far = args.output.so_far("feed", &results, HardwareClass::OneMachine);
    let (mut rows, failed) = request.run(&mut |line| ticker.step(&line), &mut |rows| so_far.keep(rows));
    so_far.add(&rows);
    let mut failures: Vec<anyhow::Error> = failed.into_iter().map(measured::of_bench).collect();
    if args.engine.contains(&EngineKind::Onload) && !interrupted() {
        match onload::rows(&command, std::env::args_os().skip(1)) {
            Ok(more) => rows.extend(more),
            Err(error) => failures.push(measured::of_bench(error)),
        }
    }
    // How fast packets can come, and decoders.
    let mut more = Vec::new();
    if args.rate && !interrupted() {
        failures.extend(rates(args, cores, &command, &mut more, &mut ticker).err().map(measured::of_bench));
    }
    so_far.add(&more);
    if args.decode && !interrupted() {
        let tool = SbeTool { schema: args.schema.clone(), jar: args.sbe_tool.clone() };
        match decode::measure(&tool, args.timing.runs.max(5), &command, &mut |line| ticker.step(&line)) {
            Ok(rows) => more.extend(rows),
            Err(error) => failures.push(measured::of_bench(error)),
        }
    }
    drop(ticker);
    results.add(&rows)?;
    results.add(&more)?;
    let text = || tables_text(&[text_table(&rows), table(&more)], &results);
    args.output.end(&results, "feed", HardwareClass::OneMachine, &[], console, text)?;
    so_far.end();
    Ok(Ended::default().of_cells(&rows, broken_off(&rows)).and(&more).conclude(&failures, console))
}

/// The rate that each engine sustains.
fn rates(
    args: &Args,
    cores: Option<(usize, usize)>,
    command: &str,
    rows: &mut Vec<Row>,
    ticker: &mut Ticker,
) -> Result<(), BenchError> {
    let hosts = args.engine.iter().any(|engine| engine.needs_hosts()).then(live::hosts).transpose()?;
    for &workload in &args.workload {
        for &engine in args.engine.iter().filter(|engine| **engine != EngineKind::Onload) {
            let tell = &mut |line: String| ticker.step(&line);
            let row = saturate::measure(
                engine,
                workload,
                args.instruments,
                RATE_SPAN,
                cores,
                hosts.as_ref(),
                command,
                tell,
            )?;
            rows.push(row);
        }
    }
    Ok(())
}

/// Cells that have some of their runs: each base of a cell has a row of its own; what failed was the cell.
pub fn broken_off(rows: &[Row]) -> usize {
    let cell = |row: &Row| {
        let params = ["what", "gap_us", "workload"].map(|key| row.param(key));
        row.broken_off.is_some().then(|| (row.subject.engine.clone(), row.subject.idle_state, params))
    };
    let mut broken: Vec<_> = rows.iter().filter_map(cell).collect();
    broken.dedup();
    broken.len()
}
