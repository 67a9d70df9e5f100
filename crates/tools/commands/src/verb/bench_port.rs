//! `barewire bench port`: raw frames between two ports.

use super::measured::{self, MeasuredOutputArgs, Timing, warn_of_debug_build};
use crate::console::Console;
use crate::failure::Code;
use crate::signals;
use barewire_bench::feed::live::hosts;
use barewire_bench::messages::plan::Over;
use barewire_bench::port::{PortWorkload, Settings};
use barewire_bench::run::Workload;
use barewire_report::run::HardwareClass;
use clap::ValueEnum;
use std::sync::Arc;

/// Arguments.
#[derive(clap::Args)]
#[command(mut_arg("seconds", |arg| arg.default_value("1")), after_help = "\
Over `packet` and `xdp`, two hosts with a link are created for the run and removed, which needs root. All systems take turns, run by run.

  barewire bench port --over mem,unix --baseline kernel-unix
  barewire bench port --over packet,xdp --size 60,1514
  barewire bench port --from xdp:eth0 --to xdp:eth1")]
pub struct Args {
    /// What lies between the ports: mem, unix, packet, xdp; several with commas
    #[arg(long, value_delimiter = ',', default_value = "mem")]
    over: Vec<Over>,
    /// Two existing ports: the one that sends
    #[arg(long, value_name = "URI", requires = "to", conflicts_with = "over")]
    from: Option<String>,
    /// The one that receives
    #[arg(long, value_name = "URI", requires = "from")]
    to: Option<String>,
    /// Beside it: kernel-unix (a pair of datagram sockets)
    #[arg(long, value_enum, help_heading = "Baselines")]
    baseline: Option<Baseline>,
    /// Bytes of a frame without FCS, 60 to 1514; several with commas
    #[arg(long, value_delimiter = ',', default_value = "64", help_heading = "Workload")]
    size: Vec<u32>,
    /// Frames that are handed over at once, 1 to 32
    #[arg(long, default_value_t = 32, help_heading = "Workload")]
    burst: usize,
    #[command(flatten)]
    timing: Timing,
    #[command(flatten)]
    output: MeasuredOutputArgs,
}

/// Baselines.
#[derive(Clone, Copy, ValueEnum)]
enum Baseline {
    /// The kernel's datagram sockets
    KernelUnix,
}

/// Runs it.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    signals::catch()?;
    let (burst, seconds, cores) = (args.burst, args.timing.seconds, args.timing.pin(console)?);
    let results = args.output.begin(console);
    let command = &results.fingerprint().run.command_line;
    let asked = |&size: &u32| Settings { size, burst, seconds, cores, command: command.clone() };
    let over: &[Over] = if args.from.is_some() { &[] } else { &args.over };
    let hosts =
        over.iter().any(Over::needs_hosts).then(hosts).transpose().map_err(measured::of_bench)?.map(Arc::new);
    let mut workloads: Vec<Box<dyn Workload>> = Vec::new();
    for asked in args.size.iter().map(asked) {
        for over in over {
            let pair = PortWorkload::pair(over, hosts.as_ref(), asked.clone());
            workloads.push(Box::new(pair.map_err(measured::of_bench)?));
        }
        if let (Some(from), Some(to)) = (&args.from, &args.to) {
            workloads.push(Box::new(PortWorkload::between(from, to, asked.clone())));
        }
        if let Some(Baseline::KernelUnix) = args.baseline {
            workloads.push(Box::new(PortWorkload::kernel(asked)));
        }
    }
    drop(hosts);
    measured::run_all(
        workloads,
        args.timing.runs,
        &args.output,
        results,
        "port",
        HardwareClass::OneMachine,
        console,
    )
}
