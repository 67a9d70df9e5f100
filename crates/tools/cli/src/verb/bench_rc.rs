//! `barewire bench rc`: how fast RDMA connections are made, and what goes over them.

use super::measured::{self, Cores, Leave, machine, warn_of_debug_build};
use crate::console::Console;
use crate::failure::{Code, Failure};
use crate::signals;
use barewire_base::Duration;
use barewire_bench::rc::rate::live::Over;
use barewire_bench::rc::rate::plan::{Baseline, Request};
use barewire_bench::rc::rate::render::{data_table, text_table};
use barewire_bench::rc::rate::{RateError, RcRow, data};
use barewire_engine::IdleStrategy;
use barewire_report::run::HardwareClass;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
A connection is a new completion queue and queue pair on each side, REQ, REP, RTU; with teardown DREQ, DREP and everything
destroyed, too. Each client thread is an engine with a port of its own, and so is the server, one for each NIC; `mem` needs no
rights, veth hosts are made for the run (root) and removed. All rows take turns, run by run.

  barewire bench rc --over mem --one-thread --window 1,64
  barewire bench rc --over xdp --window 1,64 --baseline kernel-tcp
  barewire bench rc --over mem --threads 1,2,4,8,12 --nics 1,2
  barewire bench rc --over mem --live 1000,1000000 --window 64
  barewire bench rc --over mem --data")]
pub struct Args {
    /// What lies between the ends: mem, xdp, packet; several with commas
    #[arg(long, value_delimiter = ',', default_value = "mem")]
    over: Vec<Over>,
    /// Client threads of each host; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1")]
    threads: Vec<u32>,
    /// Client hosts; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1")]
    hosts: Vec<u32>,
    /// NICs of each machine, which threads use in turns: 1, 2; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1")]
    nics: Vec<u32>,
    /// Connections in flight of each client thread; several with commas
    #[arg(long, value_delimiter = ',', default_value = "1")]
    window: Vec<u32>,
    /// Close each connection, as part of it (the default)
    #[arg(long)]
    teardown: bool,
    /// Only open; closing is not counted. With --teardown: both rows
    #[arg(long)]
    no_teardown: bool,
    /// Queue pairs that stay open meanwhile, on each side; several with commas
    #[arg(long, value_delimiter = ',', default_value = "0")]
    live: Vec<u64>,
    /// Client and server in one thread (mem)
    #[arg(long)]
    one_thread: bool,
    /// One completion queue for all connections of an end, instead of one each
    #[arg(long)]
    shared_cq: bool,
    /// Beside it: kernel-tcp (connect, accept, close on the same wires)
    #[arg(long)]
    baseline: Option<Baseline>,
    /// What goes over a connection, too: 64-byte writes and 1 MB writes
    #[arg(long)]
    data: bool,
    /// Measured time of a run
    #[arg(long, default_value = "3", value_parser = measured::seconds)]
    seconds: Duration,
    /// Runs of each row
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Cores of client and server, as 0,1; or none [default: two that are allowed]
    #[arg(long, value_parser = measured::cores)]
    cores: Option<Cores>,
    /// What a thread does when nothing comes [default: spin on cores of its own, else yield]
    #[arg(long, value_enum)]
    idle: Option<Idle>,
    #[command(flatten)]
    leave: Leave,
}

/// What a thread does when nothing comes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Idle {
    /// Looks again at once
    Spin,
    /// Gives its core away, then looks again
    Yield,
    /// Sleeps until something comes
    Park,
}

impl From<Idle> for IdleStrategy {
    fn from(idle: Idle) -> IdleStrategy {
        match idle {
            Idle::Spin => IdleStrategy::Spin,
            Idle::Yield => IdleStrategy::Yield,
            Idle::Park => IdleStrategy::Park { spin: Duration::ZERO },
        }
    }
}

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    signals::catch()?;
    let mut results = args.leave.begin(console);
    let command = results.fingerprint().run.command_line.clone();
    let cores = measured::pin(args.cores, console)?;
    let teardown = match (args.teardown, args.no_teardown) {
        (true, true) => vec![true, false],
        (false, true) => vec![false],
        _ => vec![true],
    };
    let request = Request {
        overs: args.over.clone(),
        hosts: args.hosts.clone(),
        threads: args.threads.clone(),
        nics: args.nics.clone(),
        windows: args.window.clone(),
        teardown,
        live: args.live.clone(),
        one_thread: args.one_thread,
        own_cq: !args.shared_cq,
        baseline: args.baseline,
        seconds: args.seconds,
        runs: args.runs,
        cores,
        idle: args.idle.map(IdleStrategy::from),
        command: command.clone(),
    };
    request.check().map_err(of_rc)?;
    if args.baseline.is_none() {
        results.caveat(
            "no kernel baseline ran beside it (`--baseline kernel-tcp`): the control rows are the floor",
        );
    }
    let all_data: Vec<data::Request> = args
        .over
        .iter()
        .filter(|_| args.data)
        .map(|&over| data::Request {
            over,
            one_thread: args.one_thread,
            seconds: args.seconds,
            runs: args.runs,
            cores,
            idle: args.idle.map(IdleStrategy::from),
            command: command.clone(),
        })
        .collect();
    let of_data = all_data.iter().map(data::Request::planned_time).fold(Duration::ZERO, |a, b| a + b);
    let mut ticker = console.ticker(request.planned_time() + of_data);
    ticker.part("", request.planned_time());
    let (rows, failed) = request.run(&mut |line| ticker.step(&line));
    let mut failures: Vec<anyhow::Error> = failed.into_iter().map(of_rc).collect();
    let mut over_them = Vec::new();
    for asked in all_data {
        if barewire_bench::interrupted() {
            break;
        }
        ticker.part("data", asked.planned_time());
        match asked.run(&mut |line| ticker.step(&line)) {
            Ok(rows) => over_them.extend(rows),
            Err(error) => failures.push(of_rc(error)),
        }
    }
    drop(ticker);
    results.add("rows", &rows)?;
    results.add("data", &over_them)?;
    args.leave.end(&results, "rc", HardwareClass::OneMachine, &[], console, || {
        let tables = [
            (!rows.is_empty()).then(|| text_table(&rows)),
            (!over_them.is_empty()).then(|| data_table(&over_them)),
        ];
        let tables: Vec<String> = tables.into_iter().flatten().collect();
        format!("{}\nMeasured on: {}", tables.join("\n"), machine(results.fingerprint()))
    })?;
    Ok(conclude(&rows, &failures, console))
}

/// Tells every failure, and says with which code to end.
pub fn conclude(rows: &[RcRow], failures: &[anyhow::Error], console: &Console) -> Code {
    measured::conclude(rows.iter().any(|row| row.void.is_some()), failures, console)
}

/// What an error of this bench means here.
pub fn of_rc(error: RateError) -> anyhow::Error {
    match error {
        RateError::Plan(_) => Failure::new(Code::Usage, error.to_string()).into(),
        RateError::Lab(error) => error.into(),
        RateError::NoServer { .. } => Failure::new(Code::Failed, error.to_string())
            .hint("on the other host: barewire rc serve --accept --baseline kernel-tcp --address ADDRESS")
            .into(),
        RateError::Io { .. } | RateError::Open(_) => Failure::new(Code::Unfit, error.to_string()).into(),
        other => anyhow::Error::new(other),
    }
}
