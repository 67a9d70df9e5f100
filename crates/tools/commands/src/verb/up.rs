//! `barewire up`: the daemon.

use crate::console::Console;
use crate::failure::{Code, Failure};
use anyhow::Context as _;
use barewire_daemon::{Config, Daemon};
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Arguments.
#[derive(clap::Args)]
pub struct Args {
    /// Configuration: barewire.toml, or Machnet's JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mac", "ip", "port", "ipv4"])]
    config: Option<PathBuf>,
    /// MAC address of the interface to take, as Machnet's start script has it; needs --ip
    #[arg(long, requires = "ip", conflicts_with_all = ["port", "ipv4"])]
    mac: Option<String>,
    /// IPv4 address for --mac; every destination counts as on-link
    #[arg(long, requires = "mac")]
    ip: Option<Ipv4Addr>,
    /// The port, such as xdp:eth0; needs --ipv4
    #[arg(long, value_name = "URI", requires = "ipv4")]
    port: Option<String>,
    /// IPv4 address and prefix length for --port, such as 10.0.0.1/24
    #[arg(long, value_name = "ADDRESS/BITS", requires = "port")]
    ipv4: Option<String>,
    /// Control socket; default: /run/barewire/barewire.sock for root
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Name of the daemon and of its counters page
    #[arg(long)]
    name: Option<String>,
    /// Idle strategy of the engine: spin, yield, park, park:50us
    #[arg(long)]
    idle: Option<String>,
    /// Pin the engine to this core
    #[arg(long)]
    core: Option<usize>,
    /// Serve RDMA as well; UDP port 4791 then belongs to the daemon
    #[arg(long)]
    rdma: bool,
    #[command(flatten)]
    metrics: super::metrics::Endpoint,
    /// Stop when the process that started this one ends
    #[arg(long, hide = true)]
    with_parent: bool,
    /// Read and check the configuration, then stop
    #[arg(long)]
    check: bool,
}

fn config(args: &Args) -> anyhow::Result<Config> {
    let usage = |e: barewire_daemon::ConfigError| Failure::new(Code::Usage, e.to_string());
    let mut config = if let Some(path) = &args.config {
        Config::read(path).map_err(usage)?
    } else if let (Some(mac), Some(ip)) = (&args.mac, args.ip) {
        Config::for_mac(mac, ip).map_err(usage)?
    } else if let (Some(port), Some(ipv4)) = (&args.port, &args.ipv4) {
        let text = format!("[interface]\nport = {port:?}\nipv4 = [{ipv4:?}]\n");
        Config::parse(&text, "the command line").map_err(usage)?
    } else {
        return Err(Failure::new(Code::Usage, "no port is given")
            .hint("--config barewire.toml, or --port xdp:eth0 --ipv4 10.0.0.1/24, or --mac MAC --ip ADDRESS")
            .into());
    };
    if let Some(socket) = &args.socket {
        config.socket.clone_from(socket);
    }
    if let Some(name) = &args.name {
        config.name.clone_from(name);
    }
    if let Some(idle) = &args.idle {
        config.idle = idle.parse().map_err(|e: barewire_engine::ParseIdleError| {
            Failure::new(Code::Usage, format!("--idle: {e}"))
        })?;
    }
    config.core = args.core.or(config.core);
    config.rdma.enabled |= args.rdma;
    config.check_rdma().map_err(usage)?;
    Ok(config)
}

/// Runs it until a signal comes.
///
/// # Errors
/// What the configuration says wrongly, or what could not be opened.
pub fn run(args: &Args, console: &Console) -> anyhow::Result<Code> {
    let config = config(args)?;
    if args.check {
        let addresses: Vec<String> = config.addresses().iter().map(ToString::to_string).collect();
        let ports: Vec<String> = config.all_ports().map(|port| port.port.clone()).collect();
        console.note(&format!("configuration ok: {} as {}", ports.join(", "), addresses.join(", ")));
        return Ok(Code::Done);
    }
    if args.with_parent {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
            .context("following the parent process")?;
    }
    config.warnings().iter().for_each(|warning| console.note(&format!("warning: {warning}")));
    let daemon = Daemon::start(&config)?;
    let stop = daemon.stop_flag().clone();
    ctrlc::set_handler(move || stop.stop()).context("catching signals")?;
    let addresses: Vec<String> = config.addresses().iter().map(ToString::to_string).collect();
    console.note(&format!("port: {}", daemon.description()));
    console.note(&format!(
        "serving {} at {} (idle: {}); counters in {}; Ctrl-C stops",
        addresses.join(", "),
        daemon.socket().display(),
        config.idle,
        daemon.counters_path().display(),
    ));
    for port in config.all_ports() {
        let Ok(uri) = port.port.parse::<barewire_port::PortUri>() else { continue };
        let Some(interface) = barewire_engine::interface_of(&uri) else { continue };
        let (vlan, ipv6) = (port.vlan.is_some(), !port.ipv6.is_empty());
        for hazard in barewire_doctor::hazards(interface, &uri.scheme, vlan, ipv6) {
            console.note(&format!("warning: {hazard}"));
        }
    }
    let metrics = args.metrics.start(&config.name, console)?;
    daemon.wait()?;
    drop(metrics);
    console.note("stopped");
    Ok(Code::Done)
}
