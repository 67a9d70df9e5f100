//! `barewire rdma serve`.

use super::{InPlace, PortArgs, baseline, failure};
use crate::console::{Console, print};
use crate::failure::{Code, Failure};
use crate::signals;
use crate::verb::measured::of_bench;
use crate::verb::metrics::Endpoint;
use barewire_bench::ControlAt;
use barewire_bench::rdma::remote;
use barewire_engine::StopFlag;
use barewire_rdma_tools::RPING_PORT;
use barewire_rdma_tools::serve::{self, ServeConfig, ServeEvent, Summary, Totals};
use serde_json::json;
use std::sync::atomic::AtomicBool;

/// Arguments.
#[derive(clap::Args)]
#[command(mut_arg("port", |port| port.required(false).required_unless_present("baseline")))]
#[command(after_help = "\
Prints a line for each connection that has ended, and totals at the end. Exit code 1 when a connection failed.

Linux's rping, on a host at the other end of the port:
    rping -c -a 10.77.0.1 -C 3 -v -V -S 1500")]
pub struct Args {
    #[command(flatten)]
    port: PortArgs,
    /// Ports of the connection manager to listen on (rping's default: 7174); with --accept 0: any free port, which is printed
    #[arg(long, short = 'p', value_name = "PORT", value_delimiter = ',', default_values_t = [RPING_PORT])]
    service_port: Vec<u16>,
    /// Stop after this many connections have ended
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Connection requests that may wait
    #[arg(long, value_name = "N", default_value_t = 4096)]
    backlog: u32,
    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    connections: usize,
    /// Accept at full speed, for clients that only connect (`rdma connect`, with --row or without): single
    /// connections are not reported. With several --nics a thread for each: `%n` in --port stands for its number, --address is one for each
    #[arg(long, conflicts_with_all = ["count", "backlog", "connections", "counters", "metrics"])]
    accept: bool,
    /// Accept: NICs
    #[arg(long, value_name = "N", default_value_t = 1, requires = "accept", value_parser = clap::value_parser!(u32).range(1..=2))]
    nics: u32,
    /// Accept: one completion queue for all connections, instead of one each
    #[arg(long, requires = "accept")]
    shared_cq: bool,
    /// Accept: the kernel's TCP, at --address, for `rdma connect --row --baseline kernel-tcp`; --port is not opened
    #[arg(long, value_enum, value_name = "WHAT", requires = "accept")]
    baseline: Option<InPlace>,
    /// Accept: where the server tells its CPU, over TCP; at both ends, or none [default: the server's address, one port above
    /// --service-port, where the kernel has it]
    #[arg(long, value_name = "HOST[:PORT]", value_parser = super::control, requires = "accept")]
    control: Option<ControlAt>,
    /// Name of the counters page that `barewire stat` reads; `none`: no page
    #[arg(long, value_name = "NAME", default_value = "rc")]
    counters: String,
    #[command(flatten)]
    metrics: Endpoint,
    /// A JSON object for each connection, and one of the sums
    #[arg(long)]
    json: bool,
}

/// Runs it until a signal comes.
///
/// # Errors
/// What could not be opened or listened on.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    if args.accept {
        return accept(args, console);
    }
    signals::catch()?;
    let stop = StopFlag::new()?;
    signals::stop_when_interrupted(&stop);
    let config = ServeConfig {
        device: args.port.device(),
        service_ports: args.service_port.clone(),
        backlog: args.backlog,
        connections_max: args.connections,
        count: args.count,
        counters: (args.counters != "none").then(|| args.counters.clone()),
    };
    if config.counters.is_none() && args.metrics.is_wanted() {
        return Err(
            Failure::new(Code::Usage, "--metrics reads the counters page, and --counters is none").into()
        );
    }
    let mut endpoint = Ok(None);
    let mut printed = Ok(());
    let quiet = console.is_quiet();
    let totals = serve::run(&config, &stop, &mut |event| match event {
        ServeEvent::Ready(port) => {
            console.note(&format!("port: {port}"));
            let ports: Vec<String> = args.service_port.iter().map(u16::to_string).collect();
            console.note(&format!("serving port {}; Ctrl-C stops", ports.join(", ")));
        }
        ServeEvent::Uncounted(why) => {
            console.note(&format!("no counters page: {why} (another name: `--counters NAME`)"));
        }
        ServeEvent::Counted => {
            endpoint = args.metrics.start(&args.counters, console);
            if endpoint.is_err() {
                stop.stop();
            }
        }
        ServeEvent::Refused { peer, why } => console.note(&format!("{peer} was refused: {why}")),
        ServeEvent::Ended(_) if quiet || printed.is_err() => {}
        ServeEvent::Ended(summary) => printed = print(&line(summary, args.json)),
    });
    drop(endpoint?);
    let totals = totals.map_err(failure)?;
    printed?;
    print(&sums(&totals, args.json))?;
    Ok(if totals.failed == 0 { Code::Done } else { Code::Failed })
}

/// Accepts until a signal comes.
fn accept(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let nics = args.nics as usize;
    let [service_port] = args.service_port[..] else {
        return Err(Failure::new(Code::Usage, "`--accept` listens on one --service-port").into());
    };
    if args.port.address.len() != nics {
        let why = format!("{nics} NICs and {} addresses: one for each", args.port.address.len());
        return Err(Failure::new(Code::Usage, why).hint("a further --address for each NIC").into());
    }
    signals::catch()?;
    let devices = (0..nics).map(|nic| {
        let mut device = args.port.device();
        let interface = &mut device.interface;
        interface.port = interface.port.replace("%n", &nic.to_string());
        let ip = args.port.address[nic].ip;
        interface.ipv4.retain(|(mine, _)| ip == *mine);
        interface.ipv6.retain(|(mine, _)| ip == *mine);
        device
    });
    let config = remote::ServeConfig {
        devices: devices.collect(),
        service_port,
        own_cq: !args.shared_cq,
        baseline: baseline(args.baseline, &args.port)?,
        control: args.port.control(args.control, args.baseline),
    };
    let mut ready = |ports: &[remote::Listening], control: &str| {
        console.note(control);
        // The same for all, unless the kernel chose one for each.
        let mut numbers: Vec<String> = Vec::new();
        for port in ports {
            console.note(&format!("port: {}", port.description));
            let number = port.service_port.to_string();
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        console.note(&format!("accepting on port {}; Ctrl-C stops", numbers.join(" and ")));
    };
    let served = remote::serve(&config, &mut ready, &AtomicBool::new(false)).map_err(of_bench)?;
    print(&match args.json {
        true => json!({
            "schema": 1,
            "totals": {
                "connections": served.established,
                "not_established": served.failed,
                "frames_sent": served.tx_frames,
            },
        })
        .to_string(),
        false => format!("{} connections, {} not established", served.established, served.failed),
    })?;
    Ok(Code::Done)
}

fn line(s: &Summary, as_json: bool) -> String {
    if as_json {
        return json!({
            "schema": 1,
            "connection": {
                "peer": s.peer.to_string(),
                "service_port": s.service_port,
                "use": s.used_for.word(),
                "lasted_ns": s.lasted.as_nanos(),
                "messages": s.messages,
                "bytes_in": s.bytes_in,
                "bytes_out": s.bytes_out,
                "failed": s.failed,
            },
        })
        .to_string();
    }
    let end = s.failed.as_ref().map_or("closed by the peer".to_owned(), |why| format!("FAILED: {why}"));
    format!(
        "{} port {}: {}, {} messages, {} bytes in, {} out, {}, {end}",
        s.peer,
        s.service_port,
        s.used_for.word(),
        s.messages,
        s.bytes_in,
        s.bytes_out,
        s.lasted
    )
}

fn sums(t: &Totals, as_json: bool) -> String {
    if as_json {
        return json!({
            "schema": 1,
            "totals": {
                "connections": t.connections,
                "failed": t.failed,
                "not_established": t.not_established,
                "messages": t.messages,
                "bytes_in": t.bytes_in,
                "bytes_out": t.bytes_out,
                "packets_resent": t.packets_resent,
                "frames_dropped": t.frames_dropped,
            },
        })
        .to_string();
    }
    format!(
        "{} connections, {} failed, {} not established; {} messages, {} bytes in, {} out; {} packets sent again, {} frames dropped",
        t.connections,
        t.failed,
        t.not_established,
        t.messages,
        t.bytes_in,
        t.bytes_out,
        t.packets_resent,
        t.frames_dropped
    )
}
