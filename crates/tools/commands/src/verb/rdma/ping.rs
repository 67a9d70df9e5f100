//! `barewire rdma ping`.

use super::{PeerArgs, failure};
use crate::console::{Console, print};
use crate::failure::Code;
use crate::signals;
use crate::verb::measured::millis;
use barewire_base::Duration;
use barewire_engine::StopFlag;
use barewire_rdma_tools::ping::{self, PingConfig, Round};
use serde_json::json;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Each round the peer reads our data and writes it back; every byte is compared. Exit code 1 when one differs, and when the peer \
refuses or goes away.

Linux's rping, on a host at the other end of the port, with a buffer as large as --size:
    rping -s -a 10.77.0.2 -P -v -S 1500")]
pub struct Args {
    #[command(flatten)]
    peer: PeerArgs,
    /// How many rounds [default: until Ctrl-C]
    #[arg(long, short = 'C', short_alias = 'c', value_name = "N")]
    count: Option<u64>,
    /// Size of each message, in bytes
    #[arg(long, short = 'S', short_alias = 's', value_name = "BYTES", default_value_t = 64)]
    size: u32,
    /// Interval in milliseconds, or with its unit
    #[arg(long, short, value_name = "MS", default_value = "0", value_parser = millis)]
    interval_ms: Duration,
    /// Print the data of each round
    #[arg(long, short)]
    verbose: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// What could not be opened or connected, or broke later.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    signals::catch()?;
    let stop = StopFlag::new()?;
    signals::stop_when_interrupted(&stop);
    let config = PingConfig {
        target: args.peer.target(),
        count: args.count,
        size: args.size,
        interval: args.interval_ms,
    };
    let (peer, quiet) = (args.peer.peer, console.is_quiet());
    let mut printed = Ok(());
    let report = ping::run(&config, &stop, &mut |round: &Round<'_>| {
        if printed.is_err() || args.json || (quiet && round.wrong_at.is_none()) {
            return;
        }
        let verdict = round.wrong_at.map_or(String::new(), |at| format!(", BUT BYTE {at} DIFFERS"));
        let data = if args.verbose {
            format!(" data={}", String::from_utf8_lossy(&round.data[..round.data.len() - 1]))
        } else {
            String::new()
        };
        let (size, seq, time) = (args.size, round.seq, round.time);
        printed = print(&format!("{size} bytes by {peer}: seq={seq} time={time}{verdict}{data}\n"));
    })
    .map_err(failure)?;
    printed?;
    let summary = report.times.summary();
    if args.json {
        let object = json!({
            "schema": 1,
            "peer": peer.to_string(),
            "service_port": args.peer.service_port,
            "size_bytes": args.size,
            "path_mtu_bytes": report.path_mtu,
            "connect_ns": report.connected_in.as_nanos(),
            "samples": summary.samples,
            "mean_ns": summary.mean,
            "round_ns": summary,
            "wrong": report.wrong,
            "packets_resent": report.packets_resent,
        });
        print(&object.to_string())?;
    } else {
        print(&format!(
            "{} rounds, {} wrong; connected in {}; round, ns: {summary}\n",
            summary.samples, report.wrong, report.connected_in
        ))?;
    }
    Ok(match report {
        report if report.wrong > 0 => Code::Failed,
        report if report.stopped && args.count.is_some() => Code::Interrupted,
        _ => Code::Done,
    })
}
