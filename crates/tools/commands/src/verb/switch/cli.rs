//! `barewire switch cli`: commands to a running switch.

use crate::console::{self, Console};
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_switch_control::cli::interactive::run_interactive;
use barewire_switch_control::cli::{ScriptOptions, Session, run_script};
use std::fs::File;
use std::io::{self, BufReader, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Commands come from FILE, from standard input when it is no terminal, else they are asked for, with completion and help:
  table_add ipv4_lpm set_next_hop 10.0.1.0/24 => 10.0.1.10 2
  table_dump ipv4_lpm
  help table_add")]
pub struct Args {
    /// A file of commands
    file: Option<PathBuf>,
    /// The switch's Thrift port
    #[arg(long, default_value_t = 9090)]
    thrift_port: u16,
    /// The switch's address
    #[arg(long, default_value = "127.0.0.1")]
    thrift_ip: String,
    /// Answers as JSON, one object for each command
    #[arg(long)]
    json: bool,
    /// Stop at the first command that fails
    #[arg(long)]
    stop_at_failure: bool,
}

/// Runs it.
///
/// # Errors
/// When the switch cannot be reached.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let address = (args.thrift_ip.as_str(), args.thrift_port);
    let mut session = Session::connect(address, Duration::from_secs(10)).map_err(|error| {
        Failure::new(Code::Failed, error.to_string())
            .hint("start one with `barewire switch run PROGRAM.json -i 1@veth0 --thrift-port 9090`")
    })?;
    let options = ScriptOptions { json: args.json, prompt: false, stop_at_failure: args.stop_at_failure };
    let (mut out, mut notes) = (console::out(), io::stderr().lock());
    let report = match &args.file {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("reading {}", path.display()))?;
            run_script(&mut session, BufReader::new(file), &mut out, &mut notes, options)?
        }
        None if io::stdin().is_terminal() => {
            drop((out, notes));
            run_interactive(&mut session, args.json)
                .map_err(|e| Failure::new(Code::Failed, e.to_string()))?;
            return Ok(Code::Done);
        }
        None => run_script(&mut session, io::stdin().lock(), &mut out, &mut notes, options)?,
    };
    if report.failed == 0 {
        return Ok(Code::Done);
    }
    drop(notes);
    let first = report.first_failure.unwrap_or_default();
    console.note(&format!(
        "{} of {} commands were refused, the first in line {first}",
        report.failed, report.commands
    ));
    Ok(Code::Failed)
}
