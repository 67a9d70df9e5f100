//! `barewire lab simulate`: a file in virtual time.

use super::{going, read};
use crate::console::Console;
use crate::failure::{self, Code, Failure};
use crate::signals;
use crate::verb::measured::{self, OutputArgs, Void};
use barewire_base::Duration;
use barewire_bench::{Results, simulated};
use barewire_lab::{Pattern, Work, Workload, simulate_with};
use barewire_report::run::HardwareClass;
use barewire_text::by_name;
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Runs the protocols and link nodes of `lab up` with a clock that jumps from event to event. Hosts take no time, a wire without \
impairments takes 1 us, and file, options and seed give the same row on every machine. It needs no privileges. Whatever links do not \
slow down runs at wire speed: a virtual second of it may take minutes.

  barewire lab simulate labs/topologies/two-hosts.toml
  barewire lab simulate labs/topologies/four-hosts-bridge.toml --pattern incast --window 8 --seed 3
  barewire lab simulate labs/topologies/rc-machines.toml --what connections --seconds 0.05
With a run folder, for `report` and `bench compare`:
  barewire lab simulate labs/topologies/two-hosts.toml --run runs")]
pub struct Args {
    /// The topology (TOML)
    file: PathBuf,
    /// What to simulate: messages (request and response), connections (RDMA, opened and closed)
    #[arg(long, default_value = "messages", value_parser = work)]
    what: Work,
    /// Who talks to whom: pairs, ring, incast
    #[arg(long, default_value = "pairs", value_parser = pattern)]
    pattern: Pattern,
    /// Bytes of a message [default: 64]
    #[arg(long)]
    size: Option<u32>,
    /// Messages in flight of each client, or connections that it is opening or closing
    #[arg(long, default_value_t = 1)]
    window: u32,
    /// Virtual time
    #[arg(long, default_value = "1", value_parser = measured::seconds)]
    seconds: Duration,
    /// Seed, instead of the file's; links with a seed of their own keep it
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    output: OutputArgs,
}

fn work(text: &str) -> Result<Work, String> {
    by_name(text, Work::WORDS)
}

fn pattern(text: &str) -> Result<Pattern, String> {
    by_name(text, Pattern::WORDS)
}

/// Runs it.
///
/// # Errors
/// What cannot be simulated, or written.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let mut topology = read(&args.file)?;
    if let Some(seed) = args.seed {
        topology = topology.with_seed(seed);
    }
    if args.size.is_some() && args.what == Work::Connections {
        return Err(Failure::new(
            Code::Usage,
            "`--size` is of messages: nothing is sent over the connections",
        )
        .into());
    }
    let workload = Workload {
        work: args.what,
        pattern: args.pattern,
        message_bytes: args.size.unwrap_or(Workload::default().message_bytes),
        window: args.window,
        duration: args.seconds,
    };
    signals::catch()?;
    // No control rows: what this machine adds is in no figure of a model.
    let mut results = Results::begin();
    let done = simulate_with(&topology, &workload, &mut going(console)).map_err(failure::lab)?;
    let row = simulated::row(&done, &results.fingerprint().run.command_line);
    results.add(std::slice::from_ref(&row))?;
    args.output.end(&results, "simulate", HardwareClass::Simulated, &[], console, || done.to_text())?;
    Ok(measured::conclude(Void::of(&[row]), &[], console))
}
