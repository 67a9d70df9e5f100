//! A switch with its control planes, from start to the signal that stops it: what `barewire switch run` and the
//! `simple_switch` form share.

use crate::console::Console;
use crate::failure::{Code, Failure};
use crate::verb::metrics::Endpoint;
use anyhow::Context as _;
use barewire_switch::control::SwitchConfig;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::prepared::Prepared;
use barewire_switch::publish::counters_page;
use barewire_switch::server::{Server, ServerConfig};
use barewire_switch_control::p4runtime::{GrpcOptions, GrpcServer};
use barewire_switch_control::thrift;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Ports that are opened some time after the start.
pub struct Later {
    /// How long after.
    pub seconds: u64,
    /// Which.
    pub ports: Vec<(u32, String)>,
}

/// What to serve.
pub struct Plan {
    /// The files of the program, to be looked at while it runs.
    pub watch: Option<super::watch::Watch>,
    /// Ports that are opened later.
    pub later: Option<Later>,
    /// The program; none waits for one.
    pub prepared: Option<Arc<Prepared>>,
    /// The data path and its ports.
    pub server: ServerConfig,
    /// Where Thrift listens; none for nowhere.
    pub thrift: Option<SocketAddr>,
    /// Where P4Runtime and gNMI listen; none for nowhere.
    pub grpc: Option<SocketAddr>,
    /// Options of those.
    pub grpc_options: GrpcOptions,
    /// A state to restore: what `serialize_state` wrote.
    pub restore: Option<PathBuf>,
    /// The counters page's name.
    pub name: Option<String>,
    /// Where its counters are scraped; needs the page.
    pub metrics: Endpoint,
    /// Say lines of `log_msg` and drops as they come.
    pub follow: bool,
}

/// The configuration both forms begin with.
pub fn base(target: TargetConfig, device_id: u64) -> ServerConfig {
    let control = SwitchConfig {
        device_id,
        drop_port: target.drop_port,
        cpu_port: target.cpu_port,
        replication: target.replication,
        started_unix_us: barewire_measure::realtime_ns() / 1000,
        ..SwitchConfig::default()
    };
    ServerConfig { target, control, ..ServerConfig::default() }
}

/// Serves until a signal comes.
///
/// # Errors
/// What could not be opened.
pub fn serve(mut plan: Plan, console: &Console) -> anyhow::Result<Code> {
    let mut counters = None;
    if let Some(name) = &plan.name {
        let (path, publisher) = counters_page(name)?;
        plan.server.publisher = Some(publisher);
        counters = Some(path);
    }
    plan.server.control.thrift_port = plan.thrift.map(|address| address.port());
    let server =
        Server::start(plan.server, plan.prepared).map_err(|e| Failure::new(Code::Failed, e.to_string()))?;
    let switch = server.switch().clone();
    if let Some(path) = &plan.restore {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        switch
            .restore_state(&text)
            .map_err(|e| Failure::new(Code::Failed, format!("{}: {e}", path.display())))?;
    }
    for port in switch.ports() {
        let hook = if port.note.is_empty() { String::new() } else { format!(", {}", port.note) };
        console.note(&format!("port {}: {}{hook}", port.port, port.uri));
    }
    let grpc = match plan.grpc {
        Some(address) => {
            let started = GrpcServer::start(address, switch.clone(), plan.grpc_options)
                .map_err(|e| Failure::new(Code::Failed, format!("gRPC: {e}")))?;
            console.note(&format!("P4Runtime and gNMI on {}", started.local_addr()));
            Some(started)
        }
        None => None,
    };
    let metrics = plan.name.as_ref().map(|name| plan.metrics.start(name, console)).transpose()?;
    let (stop, stopped) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = stop.send(());
    })
    .context("catching signals")?;
    // Last: Mininet's switch classes take a Thrift port that answers for a switch that forwards.
    let thrift = match plan.thrift {
        Some(address) => {
            let started = thrift::Server::start(address, switch.clone(), thrift::ServerOptions::default())
                .map_err(|e| {
                    Failure::new(Code::Failed, format!("Thrift on {address}: {e}"))
                        .hint("another switch may have the port: --thrift-port N, or 0 for none")
                })?;
            console.note(&format!("Thrift on {}", started.local_addr()));
            Some(started)
        }
        None => None,
    };
    let program = switch.program();
    let what = program.as_ref().map_or("no program yet".to_owned(), |p| {
        if p.name.is_empty() { "a program".to_owned() } else { p.name.clone() }
    });
    let shown = counters.map_or(String::new(), |path| format!("; counters in {}", path.display()));
    console.note(&format!("forwarding ({what}, {}){shown}; Ctrl-C stops", switch.info().engine));
    let mut drops = switch.drops();
    let outcome = loop {
        match stopped.recv_timeout(Duration::from_millis(200)) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break Ok(Code::Done),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(later) = plan.later.take_if(|later| switch.time_us() >= later.seconds * 1_000_000) {
            for (port, uri) in later.ports {
                switch.add_port(port, &uri).map_err(|e| Failure::new(Code::Failed, e.to_string()))?;
            }
        }
        if let Some(watch) = &mut plan.watch {
            watch.look(&switch, console);
        }
        if server.has_failed() {
            break Err(Failure::new(Code::Failed, "an engine has stopped unexpectedly").into());
        }
        if plan.follow {
            let now = switch.drops();
            for (reason, count) in &now {
                let before = drops.iter().find(|(r, _)| r == reason).map_or(0, |(_, n)| *n);
                if *count > before {
                    console.tell(&format!("dropped {}: {reason}", count - before));
                }
            }
            drops = now;
        }
    };
    drop(metrics);
    if let Some(thrift) = thrift {
        thrift.stop();
    }
    if let Some(grpc) = grpc {
        grpc.stop();
    }
    for (reason, count) in switch.drops() {
        console.note(&format!("dropped {count}: {reason}"));
    }
    server.stop()?;
    console.note("stopped");
    outcome
}
