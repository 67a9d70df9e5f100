//! `barewire rdma connect`.

use super::{InPlace, PeerArgs, baseline, failure};
use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use crate::signals;
use crate::verb::measured::{self, Ended, machine, seconds, warn_of_debug_build};
use barewire_base::Duration;
use barewire_bench::rdma::remote;
use barewire_bench::render::table;
use barewire_bench::{ControlAt, Results};
use barewire_engine::StopFlag;
use barewire_rdma_tools::connect::{self, ConnectConfig};
use barewire_report::run::HardwareClass;
use serde_json::json;
use std::net::IpAddr;

/// Arguments.
#[derive(clap::Args)]
#[command(mut_arg("port", |port| port.required(false).required_unless_present("baseline")))]
#[command(mut_arg("address", |address| address.required(false).required_unless_present("baseline")))]
#[command(after_help = "\
Without --count and --seconds: 1,000 connections. Exit code 1 when one failed.

With --row it is the client of `bench rdma` (a row of the same shape), and the server is on another host:
  host 1:  barewire rdma serve --accept --port xdp:eth0 --address 10.77.0.1/16
  host 2:  barewire rdma connect 10.77.0.1 --row --port xdp:eth%t --address 10.77.1.1/16
and with `--baseline kernel-tcp` at both ends the kernel's TCP takes their place.
Each thread has an engine and a port: `%t` in --port stands for its number, `%n` for that of its NIC; threads use the NICs in \
turns, and addresses that follow the given one. `packet:` ports of several threads can share an interface, `xdp:` ports cannot.")]
pub struct Args {
    #[command(flatten)]
    peer: PeerArgs,
    /// Total number of connections
    #[arg(long, short = 'C', value_name = "N")]
    count: Option<u64>,
    /// Open no more after this many seconds
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Connections being opened or closed at one time
    #[arg(long, short, value_name = "N", default_value_t = 1)]
    window: u32,
    /// Measure as `bench rdma` does, for --seconds (default 3), and print a row of its shape
    #[arg(long, conflicts_with = "count")]
    row: bool,
    /// Row: threads that connect
    #[arg(long, value_name = "N", default_value_t = 1, requires = "row")]
    threads: u32,
    /// Row: the server's address on a further NIC's network; our own there is a further --address
    #[arg(long, value_name = "HOST", requires = "row", value_parser = crate::address::host)]
    also_peer: Vec<IpAddr>,
    /// Row: NICs [default: one, and one for each --also-peer]
    #[arg(long, value_name = "N", requires = "row")]
    nics: Option<u32>,
    /// Row: client hosts that run this at the same time, this one included
    #[arg(long, value_name = "N", default_value_t = 1, requires = "row")]
    hosts: u32,
    /// Row: time before the measured time
    #[arg(long, value_name = "S", value_parser = seconds, default_value = "0.2", requires = "row")]
    warmup: Duration,
    /// Row: runs
    #[arg(long, value_name = "N", default_value_t = 1, requires = "row")]
    runs: u32,
    /// Row: the kernel's TCP to `rdma serve --accept --baseline kernel-tcp`; --port is not opened, and the address the kernel's choice
    #[arg(long, value_enum, value_name = "WHAT", requires = "row")]
    baseline: Option<InPlace>,
    /// Row: where the server tells its CPU, over TCP; at both ends, or none [default: the server's address, one port above
    /// --service-port, where the kernel has it]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = super::control, requires = "row")]
    control: Option<ControlAt>,
    /// Row: only open; closing is not counted
    #[arg(long, requires = "row")]
    no_teardown: bool,
    /// Row: one completion queue for all connections of a thread, instead of one each
    #[arg(long, requires = "row")]
    shared_cq: bool,
    /// Row: time the steps of a connection, too (one thread, `rdma serve --accept`)
    #[arg(long, requires = "row")]
    steps: bool,
    /// Row: the HDR histogram of the time to connect in the JSON object
    #[arg(long, requires_all = ["row", "json"])]
    histograms: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measured time of a row when nothing says how long.
const ROW_TIME: Duration = Duration::from_secs(3);

/// Connections when nothing says how many.
const COUNT_DEFAULT: u64 = 1000;

/// Runs it.
///
/// # Errors
/// What could not be opened; a peer that does not answer at all.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    if args.row {
        return measure(args, console);
    }
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

/// A row as `bench rdma` makes it, against a server on another host.
fn measure(args: &Args, console: &Console) -> anyhow::Result<Code> {
    warn_of_debug_build(console);
    let servers: Vec<IpAddr> = std::iter::once(args.peer.peer).chain(args.also_peer.clone()).collect();
    if let Some(nics) = args.nics.filter(|&nics| nics as usize != servers.len()) {
        let why = format!("`--nics {nics}`, and {} of the server's addresses", servers.len());
        let hint = "each NIC has an address of the server's (PEER, --also-peer) and one of ours (--address)";
        return Err(Failure::new(Code::Usage, why).hint(hint).into());
    }
    let mut servers = servers;
    if servers.len() > args.threads as usize {
        console.note(&format!("{} threads: as many of {} NICs are used", args.threads, servers.len()));
        servers.truncate(args.threads.max(1) as usize);
    }
    let mut results = Results::begin();
    let port = &args.peer.port;
    let baseline = baseline(args.baseline, port)?;
    let config = remote::ConnectConfig {
        device: port.device(),
        addresses: port.address.iter().take(servers.len()).map(|a| (a.ip, a.prefix_len)).collect(),
        servers,
        service_port: args.peer.service_port,
        threads: args.threads,
        hosts: args.hosts,
        window: args.window,
        teardown: !args.no_teardown,
        own_cq: !args.shared_cq,
        duration: args.seconds.unwrap_or(ROW_TIME),
        warmup: args.warmup,
        runs: args.runs,
        steps: args.steps,
        baseline,
        control: port.control(args.control, args.baseline),
        command: results.fingerprint().run.command_line.clone(),
    };
    config.check().map_err(measured::of_bench)?;
    signals::catch()?;
    let measured = remote::connect(&config, &mut |line| console.tell(&line));
    let (rows, failures) = match measured {
        Ok(row) => (vec![row], Vec::new()),
        Err(error) => (Vec::new(), vec![measured::of_bench(error)]),
    };
    results.add(&rows)?;
    if args.json {
        print(&results.document(HardwareClass::Unknown, args.histograms, &[])?)?;
    } else if !rows.is_empty() {
        print(&format!("{}\nMeasured on: {}", table(&rows), machine(results.fingerprint())))?;
    }
    Ok(Ended::default().and(&rows).conclude(&failures, console))
}
