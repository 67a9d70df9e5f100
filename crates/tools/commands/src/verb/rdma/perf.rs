//! `barewire rdma perf`.

use super::{PeerArgs, failure};
use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use crate::signals;
use crate::verb::measured::seconds;
use barewire_base::Duration;
use barewire_engine::StopFlag;
use barewire_rdma_tools::perf::{self, LatencyIs, Operation, PerfConfig};
use serde_json::json;

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = "\
The latency of `send` with a window of 1 is half of the time until the server's application has sent the message back, as in \
perftest's ib_send_lat. All other latencies are from post to completion: the peer's device has acknowledged, without its \
application. Results are checked: exit code 1 when one is wrong.")]
pub struct Args {
    #[command(flatten)]
    peer: PeerArgs,
    /// send, write, read, fetch-add, compare-swap
    #[arg(long, short = 'o', value_name = "WHAT")]
    operation: Operation,
    /// Size of each, in bytes; atomics have 8
    #[arg(long, short = 'S', short_alias = 's', value_name = "BYTES", default_value_t = 64)]
    size: u32,
    /// Operations in flight: 1 for latency, 64 for bandwidth
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    window: u32,
    /// Measured seconds
    #[arg(long, value_name = "S", default_value = "3", value_parser = seconds)]
    seconds: Duration,
    /// Seconds of warm-up
    #[arg(long, value_name = "S", default_value = "0.2", value_parser = seconds)]
    warmup: Duration,
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
    let config = PerfConfig {
        target: args.peer.target(),
        operation: args.operation,
        size: args.size,
        window: args.window,
        time: args.seconds,
        warmup: args.warmup,
    };
    let report = perf::run(&config, &stop).map_err(failure)?;
    let summary = report.latency.summary();
    let (rate, gbit) = (report.operations_per_s(), report.gbit_per_s());
    if args.json {
        let object = json!({
            "schema": 1,
            "peer": args.peer.peer.to_string(),
            "operation": args.operation.word(),
            "size_bytes": report.size,
            "window": args.window,
            "path_mtu_bytes": report.path_mtu,
            "took_ns": report.took.as_nanos(),
            "operations": report.operations,
            "operations_per_s": rate,
            "goodput_gbit_per_s": gbit,
            "latency_is": report.latency_is.word(),
            "samples": summary.samples,
            "mean_ns": summary.mean,
            "latency_ns": summary,
            "wrong": report.wrong,
            "packets_resent": report.packets_resent,
            "connect_ns": report.connected_in.as_nanos(),
        });
        print(&object.to_string())?;
    } else {
        let what = match report.latency_is {
            LatencyIs::HalfRoundTrip => "half of a round trip",
            LatencyIs::PostToCompletion => "posting to completion",
        };
        print(&format!(
            "{} of {} bytes, {} in flight: {rate:.0} operations/s, {gbit:.3} Gbit/s; {} wrong, {} packets sent again\n\
             {what}, ns: {summary}\n",
            args.operation.word(),
            report.size,
            args.window,
            report.wrong,
            report.packets_resent
        ))?;
    }
    if report.wrong > 0 {
        let text = format!("{} results were wrong", report.wrong);
        return Err(Failure::new(Code::Failed, text).into());
    }
    if report.stopped {
        console.note("stopped before its end");
        return Ok(Code::Interrupted);
    }
    Ok(Code::Done)
}
