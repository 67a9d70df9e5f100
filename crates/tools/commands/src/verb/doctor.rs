//! `barewire doctor`: whether this machine is fit.

use super::measured;
use crate::console::{Console, print};
use crate::failure::Code;
use crate::signals;
use barewire_base::Duration;
use barewire_bench::interrupted;
use barewire_doctor::{Facts, Options, Root, examine};
use std::io::IsTerminal as _;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Prints one line for each check: ok, warn (it costs time), fail (barewire cannot work without it) or unknown, then the cost and the command \
that fixes it. Changes nothing. Exit code 3 when a check fails, which only checks of a NIC named with --io can.")]
pub struct Args {
    /// The NIC that will carry frames: anything a port needs and it lacks is a failure [default: every NIC that is up, as warnings]
    #[arg(long, value_name = "IFACE")]
    io: Vec<String>,
    /// Measure hiccups of the machine for this many seconds; 0: skip
    #[arg(long, value_name = "S", default_value = "3", value_parser = measured::seconds)]
    seconds: Duration,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// When stdout does.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let root = Root::machine();
    let options = Options { interfaces: args.io.clone() };
    if args.seconds > Duration::ZERO && !args.json {
        console.note(&format!("measuring for {}; --seconds 0 leaves that out", args.seconds));
    }
    signals::catch()?;
    let mut steps = console.steps();
    let facts = Facts::collect(&root, &options, args.seconds, &mut |done, total, what| {
        steps.tell(done, total, what);
        !interrupted()
    });
    drop(steps);
    if interrupted() {
        return Ok(Code::Interrupted);
    }
    let report = examine(&root, &facts, &options);
    let color = console.has_color() && std::io::stdout().is_terminal();
    print(&if args.json { report.json() } else { report.text(color) })?;
    Ok(if report.fit() { Code::Done } else { Code::Unfit })
}
