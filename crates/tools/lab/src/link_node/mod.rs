//! The link node: a process with two ports that passes frames from one to the other, late, marked, twice, damaged or not
//! at all.
//!
//! What frames suffer is the fault port's model, with faults on what is sent: those of port `b` are what happens forward,
//! from `a` to `b`, those of port `a` what happens in reverse. So a link node is two URIs:
//! `fault+packet:a?dir=tx&seed=7&loss=0.01` and `fault+packet:b?dir=tx&seed=8&delay_us=1000`.
//!
//! What is received is timed by a reading of the clock made after it, not by that of the duty cycle: a frame that came in
//! the middle of one, perhaps a long one on a busy machine, would else leave early. So delays are never shorter than asked
//! for, and longer by what it takes to look and to wake.
//!
//! ```text
//! a.rx -> [trace, faults, queue of b] -> b.tx      b.rx -> [trace, faults, queue of a] -> a.tx
//! ```

mod agent;
mod trace;

pub(crate) use agent::LinkAgent;
pub use agent::{DirectionReport, LinkReport};

use crate::NodePort;
use barewire_engine::{
    CountersPage, Engine, EngineConfig, EngineError, EngineLinks, IdleStrategy, PageError, RegisterError,
    StopFlag, counters_path, open_port,
};
use barewire_frame::{BURST_MAX, HEADROOM_DEFAULT, Pool, PoolConfig, PoolError};
use barewire_port::{Direction, Fault, FaultConfig, FaultSettings, HELD_MAX, OpenError, Port, PortUri};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of an Ethernet header and two VLAN tags, which the MTU does not count.
const LINK_HEADER: u32 = 22;
/// What an XDP program may use in front of a frame.
const XDP_HEADROOM: u32 = 256;
/// Frames of the pool that wait in the rings of an `xdp:` port for reception.
const XDP_FILL_FRAMES: u32 = 1024;
/// Frames that an `xdp:` port may have handed to the kernel.
const XDP_TX_FRAMES: u32 = 2048;
/// Longest configuration that is read.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// How long a node sleeps between two looks for an interface that is not there yet.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// What the process of a link node prints, as a line of its own, when frames pass.
pub const READY_LINE: &str = "barewire link node: ready";

/// What a link node is made of. As JSON it is what the process reads from its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkNodeConfig {
    /// Names the engine's thread and messages.
    pub name: String,
    /// The port at the link's first end, with the faults of the way to it.
    pub a: String,
    /// The port at the link's second end, with the faults of the way to it.
    pub b: String,
    /// Largest IP packet in bytes.
    #[serde(default = "ethernet_mtu")]
    pub mtu_bytes: u32,
    /// Where counters are shown; `None`: nowhere.
    #[serde(default)]
    pub counters: Option<String>,
    /// Two files are written, this with `.forward` and `.reverse` behind it: a line for each frame.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// How long is waited for interfaces that are not there yet.
    #[serde(default)]
    pub wait_ms: u64,
    /// What the engine does when idle, as `park:20us`; `None`: it parks.
    #[serde(default)]
    pub idle: Option<String>,
}

fn ethernet_mtu() -> u32 {
    1500
}

/// Why a link node did not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkNodeError {
    /// The configuration is not what it should be.
    #[error("link node's configuration: {0}")]
    Config(String),
    /// A port does not open.
    #[error(transparent)]
    Port(#[from] OpenError),
    /// No memory for frames.
    #[error("frames: {0}")]
    Pool(#[from] PoolError),
    /// No engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Counters cannot be shown.
    #[error(transparent)]
    Page(#[from] PageError),
    /// Counters cannot be shown.
    #[error("counters: {0}")]
    Register(#[from] RegisterError),
    /// The trace cannot be written.
    #[error("trace {path}: {source}")]
    Trace {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl LinkNodeConfig {
    /// The node of two interfaces of one namespace.
    pub fn new(
        name: &str,
        interfaces: [&str; 2],
        port: NodePort,
        faults: &[FaultSettings; 2],
        seeds: [u64; 2],
    ) -> LinkNodeConfig {
        let uri = |interface: &str, settings: &FaultSettings, seed: u64| {
            let uri = PortUri::new(port.scheme(), interface);
            let uri = match port {
                NodePort::Packet => uri.with("promiscuous", 1).with("tx", 0).with("stamp", "engine"),
                NodePort::Xdp => uri.with("fill_frames", XDP_FILL_FRAMES),
            };
            let config = FaultConfig { settings: settings.clone(), seed, direction: Direction::Tx };
            config.wrap(uri).to_string()
        };
        LinkNodeConfig {
            name: name.to_owned(),
            a: uri(interfaces[0], &faults[1], seeds[1]),
            b: uri(interfaces[1], &faults[0], seeds[0]),
            mtu_bytes: ethernet_mtu(),
            counters: None,
            trace: None,
            wait_ms: 0,
            idle: None,
        }
    }

    /// Reads it from JSON.
    ///
    /// # Errors
    /// [`LinkNodeError::Config`] with line and column.
    pub fn from_json(text: &str) -> Result<LinkNodeConfig, LinkNodeError> {
        serde_json::from_str(text).map_err(|e| LinkNodeError::Config(e.to_string()))
    }

    /// Itself as JSON.
    pub fn to_json(&self) -> String {
        // Strings and numbers: nothing that could fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The pool that both ports need.
    fn pool(&self, plans: &[PortPlan; 2]) -> PoolConfig {
        let ways: u32 = plans.iter().map(|plan| plan.faults.settings.flight_limit()).sum();
        // For each direction: copies and frames of a call that goes on, frames held back, refused, just received.
        let slack = 2 * (4 * BURST_MAX as u32 + HELD_MAX as u32);
        let rings: u32 = plans
            .iter()
            .map(|plan| if plan.uri.scheme == "xdp" { XDP_FILL_FRAMES + XDP_TX_FRAMES } else { 0 })
            .sum();
        let longest = self.mtu_bytes + LINK_HEADER + HEADROOM_DEFAULT + XDP_HEADROOM;
        PoolConfig {
            frames: ways.saturating_add(slack).saturating_add(rings),
            chunk_len: longest.next_power_of_two().clamp(2048, 1 << 17),
            headroom: HEADROOM_DEFAULT,
            huge_pages: false,
        }
    }
}

/// A port's URI, taken apart.
struct PortPlan {
    uri: PortUri,
    faults: FaultConfig,
}

impl PortPlan {
    fn parse(text: &str) -> Result<PortPlan, LinkNodeError> {
        let mut uri: PortUri = text.parse()?;
        let faults = match uri.wrappers.first() {
            Some(wrapper) if wrapper.name == "fault" => {
                uri.unwrap_outer();
                FaultConfig::take(&mut uri)?
            }
            _ => FaultConfig::default(),
        };
        if faults.direction != Direction::Tx {
            return Err(uri.bad("a link node's faults act on what is sent: dir=tx").into());
        }
        Ok(PortPlan { uri, faults })
    }

    fn open(&self, pool: &Pool, wait: Duration) -> Result<Fault<Box<dyn Port>>, LinkNodeError> {
        let mut looks = wait.as_nanos() / LOOK_AGAIN.as_nanos();
        let port = loop {
            match open_port(&self.uri, pool) {
                Err(OpenError::NotFound { .. }) if looks > 0 => {
                    looks -= 1;
                    std::thread::sleep(LOOK_AGAIN);
                }
                other => break other?,
            }
        };
        Fault::new(port, &self.faults).map_err(|why| self.uri.bad(why).into())
    }
}

/// Runs a link node on this thread, in the network namespace that the thread is in, until `stop` is raised. `ready` is
/// called once, when frames pass.
///
/// # Errors
/// [`LinkNodeError`], before anything passed.
pub fn run_link_node(
    config: &LinkNodeConfig,
    stop: &StopFlag,
    ready: impl FnOnce(),
) -> Result<LinkReport, LinkNodeError> {
    let plans = [PortPlan::parse(&config.a)?, PortPlan::parse(&config.b)?];
    let idle = match &config.idle {
        None => IdleStrategy::default(),
        Some(word) => word.parse().map_err(|e| LinkNodeError::Config(format!("idle = {word:?}: {e}")))?,
    };
    let pool = Pool::new(config.pool(&plans))?;
    let wait = Duration::from_millis(config.wait_ms);
    let ports = [plans[0].open(&pool, wait)?, plans[1].open(&pool, wait)?];
    let report = Rc::new(Cell::new(LinkReport::default()));
    let mut agent = LinkAgent::new(&config.name, ports, Some(barewire_engine::now), Rc::clone(&report));
    if let Some(prefix) = &config.trace {
        agent.trace_to(prefix)?;
    }
    let mut links = EngineLinks::default();
    if let Some(name) = &config.counters {
        let page = CountersPage::create(counters_path(name)?, agent::COUNTERS_MAX)?;
        links.slots = Some(agent.show_on(page, &config.name)?);
    }
    let name = format!("link-{}", config.name);
    let mut engine = Engine::with_links(EngineConfig { name, core: None, idle }, links)?;
    engine.add(Box::new(agent));
    ready();
    engine.run(stop);
    Ok(report.get())
}

/// The whole of a link node's process: reads its configuration as JSON from `input`, runs it, and prints [`READY_LINE`] to
/// `output` when frames pass. The caller raises `stop` on SIGTERM.
///
/// # Errors
/// As [`run_link_node`], and [`LinkNodeError::Config`] for an input that cannot be read.
pub fn serve_link_node(
    input: impl Read,
    mut output: impl Write,
    stop: &StopFlag,
) -> Result<LinkReport, LinkNodeError> {
    let mut text = String::new();
    let read = input.take(CONFIG_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|e| LinkNodeError::Config(e.to_string()))?;
    run_link_node(&LinkNodeConfig::from_json(&text)?, stop, || {
        // A line of its own, whatever was printed before. Whoever asked may be gone: the link works without.
        let _ = writeln!(output, "\n{READY_LINE}").and_then(|()| output.flush());
    })
}
