//! `barewire rc connect`.

use super::{PeerArgs, failure};
use crate::console::{Console, print};
use crate::failure::Code;
use crate::signals;
use crate::verb::measured::seconds;
use barewire_base::Duration;
use barewire_bench::rc::connect::{self, ConnectConfig};
use barewire_engine::StopFlag;
use serde_json::json;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Without --count and --seconds: 1,000 connections. Exit code 1 when one failed.")]
pub struct Args {
    #[command(flatten)]
    peer: PeerArgs,
    /// How many connections altogether
    #[arg(long, short = 'C', value_name = "N")]
    count: Option<u64>,
    /// Begin none after so many seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// How many are being opened or closed at a time
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    window: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Connections when nothing says how many.
const COUNT_DEFAULT: u64 = 1000;

/// Runs it.
///
/// # Errors
/// What could not be opened; a peer that does not answer at all.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    signals::catch()?;
    let stop = StopFlag::new()?;
    signals::stop_when_interrupted(&stop);
    let limited = args.count.is_some() || args.seconds.is_some();
    let config = ConnectConfig {
        target: args.peer.target(),
        count: if limited { args.count } else { Some(COUNT_DEFAULT) },
        time: args.seconds,
        window: args.window,
    };
    let report = connect::run(&config, &stop).map_err(failure)?;
    let failed: u64 = report.failures.values().sum();
    let rate = report.connections as f64 / report.took.as_secs_f64().max(1e-9);
    let (open, close) = (report.open.summary(), report.close.summary());
    if args.json {
        let object = json!({
            "schema": 1,
            "peer": args.peer.peer.to_string(),
            "service_port": args.peer.service_port,
            "window": args.window,
            "took_ns": report.took.as_nanos(),
            "connections": report.connections,
            "connections_per_s": rate,
            "failed": failed,
            "failures": report.failures,
            "messages_resent": report.resent,
            "open_ns": open,
            "close_ns": close,
        });
        print(&object.to_string())?;
    } else {
        print(&format!(
            "{} connections opened and closed in {}: {rate:.0} connections/s; {failed} failed, {} messages sent again\n\
             open, ns:  {open}\nclose, ns: {close}\n",
            report.connections, report.took, report.resent
        ))?;
        for (why, count) in &report.failures {
            console.tell(&format!("{count} failed: {why}"));
        }
    }
    Ok(match failed {
        0 if report.stopped => Code::Interrupted,
        0 => Code::Done,
        _ => Code::Failed,
    })
}
