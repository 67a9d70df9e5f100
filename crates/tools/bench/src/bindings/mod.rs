//! The languages of the bindings: requests and responses through the daemon and over each language's own TCP sockets.
//!
//! What flows through: [`Kit`] makes each language's `bench` program out of the packages that users install, and says why where it cannot.
//! A [`BindingWorkload`] runs one of them at both ends of one wire, each end with its daemon on a host and a core of its own: the server
//! says that it is ready, the client leaves its round trips in a file. Rust's row beside them is made the same way, in threads of
//! `rust`. [`compare`] puts each row beside Rust's and beside the language's own TCP. What else a language's users take for this
//! ([`Carrier::of`]) is measured by the same program where the language finds its packages.

mod kit;
mod program;
mod rust;

pub use kit::{Kit, Language};

use crate::awake::settle;
use crate::cpu::Charge;
use crate::error::BenchError;
use crate::messages::IdleState;
use crate::messages::daemon::{DaemonProcess, Folder, MEM_IPS, next_run};
use crate::row::{Measure, Measured, Param, Row, SPANS, Subject, Unit};
use crate::run::{Both, Workload, two_ends};
use barewire_base::Duration;
use barewire_engine::{IdleStrategy, target_on};
use barewire_measure::{Contention, Histogram};
use barewire_netns::{LinkConfig, Namespace, TwoHosts, TwoHostsConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// The name of the rows' table.
pub const BENCH: &str = "bindings";
/// Bytes of a message.
const SIZES: std::ops::RangeInclusive<u32> = 1..=65_536;
/// Requests in flight.
const WINDOWS: std::ops::RangeInclusive<u32> = 1..=256;
/// Where servers listen for flows.
pub(crate) const FLOW_PORT: u16 = 888;
/// Aeron's server has this UDP port and the next one.
const AERON_PORT: u16 = 20_121;
/// What two daemons and two programs take to start.
const STARTING: Duration = Duration::from_millis(800);

const MEASURES: &[Measure] = &[
    Measure::spans("rtt_ns", "round trip", SPANS),
    Measure::rate("rate_per_s", "responses/s", "rate"),
    Measure::cost("p50_to_rust", "p50 to Rust's", "median beside Rust's").in_unit(Unit::None, 0.01),
    Measure::cost("p50_to_tcp", "p50 to TCP's", "median beside the language's own TCP")
        .in_unit(Unit::None, 0.01),
];

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The binding, through the daemons.
    Barewire,
    /// The language's ordinary TCP sockets.
    Tcp,
    /// ZeroMQ: a pair of sockets over TCP.
    Zmq,
    /// gRPC: a call of bytes for each request.
    Grpc,
    /// Aeron over UDP, its media driver in the program's own thread.
    Aeron,
}

impl Carrier {
    /// Beside barewire.
    pub const OTHERS: [Carrier; 4] = [Carrier::Tcp, Carrier::Zmq, Carrier::Grpc, Carrier::Aeron];

    /// Those that a language's program knows.
    pub fn of(language: Language) -> &'static [Carrier] {
        match language {
            Language::Python => &[Carrier::Barewire, Carrier::Tcp, Carrier::Zmq, Carrier::Grpc],
            Language::Node => &[Carrier::Barewire, Carrier::Tcp, Carrier::Grpc],
            Language::Java => &[Carrier::Barewire, Carrier::Tcp, Carrier::Aeron],
            _ => &[Carrier::Barewire, Carrier::Tcp],
        }
    }

    /// As programs are told.
    pub fn word(self) -> &'static str {
        match self {
            Carrier::Barewire => "barewire",
            Carrier::Tcp => "tcp",
            Carrier::Zmq => "zmq",
            Carrier::Grpc => "grpc",
            Carrier::Aeron => "aeron",
        }
    }

    /// Whether each end's program has it without packages of others.
    fn is_built_in(self) -> bool {
        matches!(self, Carrier::Barewire | Carrier::Tcp)
    }
}

impl FromStr for Carrier {
    type Err = String;

    fn from_str(text: &str) -> Result<Carrier, String> {
        Carrier::OTHERS.into_iter().find(|carrier| carrier.word() == text.trim()).ok_or_else(|| {
            format!("unknown system `{text}`; there are {}", Carrier::OTHERS.map(Carrier::word).join(", "))
        })
    }
}

/// What lies between the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Shared memory between the daemons, and loopback for TCP.
    Mem,
    /// A pair of interfaces between two hosts, and its twin for TCP.
    Packet,
    /// The same by AF_XDP.
    Xdp,
}

impl Wire {
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Wire::Mem => "mem",
            Wire::Packet => "packet",
            Wire::Xdp => "xdp",
        }
    }

    /// The two hosts that it needs, if it does.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn hosts(self) -> Result<Option<Arc<TwoHosts>>, BenchError> {
        if self == Wire::Mem {
            return Ok(None);
        }
        let config = TwoHostsConfig {
            label: None,
            // The kernel at its best, on a wire without a program of ours.
            twin: Some(LinkConfig { offloads: true, ..LinkConfig::default() }),
            ..TwoHostsConfig::default()
        };
        Ok(Some(Arc::new(TwoHosts::create(&config)?)))
    }
}

/// What every run of a command has in common.
#[derive(Clone)]
pub struct Settings {
    /// The program whose verb `up` is a daemon.
    pub binary: PathBuf,
    /// Between the ends.
    pub wire: Wire,
    /// Bytes of a request, and of its response.
    pub size: u32,
    /// Before measuring.
    pub warmup: Duration,
    /// Measured time of a run.
    pub seconds: Duration,
    /// What daemons do when nothing comes.
    pub idle: IdleStrategy,
    /// State of the cores.
    pub idle_state: IdleState,
    /// The client's side and the server's: each program on one core with its daemon.
    pub cores: Option<(usize, usize)>,
    /// The command, for rows.
    pub command: String,
}

/// One language over one carrier with one window.
pub struct BindingWorkload {
    language: Language,
    carrier: Carrier,
    window: u32,
    hosts: Option<Arc<TwoHosts>>,
    program: Option<program::Program>,
    asked: Settings,
}

impl BindingWorkload {
    /// With the language's program out of `kit`, between `hosts` where the wire has some.
    ///
    /// # Errors
    /// Why there is no such program here, in words.
    pub fn new(
        kit: &mut Kit,
        language: Language,
        carrier: Carrier,
        window: u32,
        hosts: Option<&Arc<TwoHosts>>,
        asked: Settings,
    ) -> Result<BindingWorkload, String> {
        let program = match language {
            Language::Rust => None,
            language => {
                let program = kit.program(language)?;
                if !carrier.is_built_in() {
                    kit.ask_for(language, carrier)?;
                }
                Some(program)
            }
        };
        Ok(BindingWorkload { language, carrier, window, hosts: hosts.cloned(), program, asked })
    }

    fn run(&self, cpu: &Charge) -> Result<Both<(), Times>, BenchError> {
        let run = next_run();
        let folder = Folder::create(run).map_err(BenchError::io("a folder for sockets"))?;
        let daemons = daemons(&self.asked, self.carrier, self.hosts.as_deref(), &folder.0, run)?;
        let socket = |side: usize| daemons.get(side).map(|daemon: &DaemonProcess| daemon.socket.as_path());
        let job = Job {
            carrier: self.carrier,
            size: self.asked.size,
            window: self.window,
            warmup: self.asked.warmup,
            seconds: self.asked.seconds,
        };
        let hosts = self.hosts.as_ref().map(|hosts| [&hosts.ns_a, &hosts.ns_b]);
        let cores = self.asked.cores;
        let address = server_address(self.carrier, self.hosts.as_deref());
        // Known before the server is ready, and so before the client begins.
        let port = OnceLock::new();
        let where_to = || {
            let port: &u16 =
                port.get().ok_or_else(|| BenchError::Plan("the server has no port".to_owned()))?;
            Ok::<_, BenchError>(SocketAddr::from((address, *port)))
        };
        let tell = |own: u16| {
            let _ = port.set(own);
        };
        match &self.program {
            Some(program) => two_ends(
                hosts,
                cores,
                || program.run(&job, where_to()?, socket(0), &folder.0, cpu),
                |stop| program.serve(&job, socket(1), &folder.0, tell, &stop),
            ),
            None => two_ends(
                hosts,
                cores,
                || rust::run(&job, where_to()?, socket(0), cpu),
                |stop| rust::serve(&job, socket(1), tell, &stop),
            ),
        }
    }
}

/// The daemons of a run, client's side first: none where nothing of ours carries it.
pub(crate) fn daemons(
    asked: &Settings,
    carrier: Carrier,
    hosts: Option<&TwoHosts>,
    folder: &Path,
    run: u64,
) -> Result<Vec<DaemonProcess>, BenchError> {
    let sides = if carrier == Carrier::Barewire { 2 } else { 0 };
    (0..sides).map(|side| daemon(asked, hosts, folder, run, side)).collect()
}

fn daemon(
    asked: &Settings,
    hosts: Option<&TwoHosts>,
    folder: &Path,
    run: u64,
    side: usize,
) -> Result<DaemonProcess, BenchError> {
    let scheme = asked.wire.scheme();
    let (port, ips) = match hosts {
        Some(hosts) => {
            let ends = [&hosts.eth_a, &hosts.eth_b];
            let target = target_on(scheme, &ends[side].name);
            (format!("{scheme}:{target}"), ends.map(|end| end.v4))
        }
        None => (format!("{scheme}:bench-{}-{run}?shared=1", std::process::id()), MEM_IPS),
    };
    let command = |socket: &Path| {
        let mut c = Command::new(&asked.binary);
        let name = format!("bench-{}-{run}-{side}", std::process::id());
        c.args(["--quiet", "up", "--with-parent", "--name", &name, "--port", &port]);
        c.args(["--ipv4", &format!("{}/24", ips[side]), "--idle", &asked.idle.to_string()]);
        c.arg("--socket").arg(socket);
        if let Some(core) = asked.cores.map(|cores| [cores.0, cores.1][side]) {
            c.args(["--core", &core.to_string()]);
        }
        c
    };
    let host: Option<&Namespace> = hosts.map(|hosts| [&hosts.ns_a, &hosts.ns_b][side]);
    Ok(DaemonProcess::start(folder, side, host, command)?)
}

/// Where a server is: on the wire of ours, or on its twin, which has none of our programs.
pub(crate) fn server_address(carrier: Carrier, hosts: Option<&TwoHosts>) -> Ipv4Addr {
    match (hosts, carrier) {
        (Some(hosts), Carrier::Barewire) => hosts.eth_b.v4,
        (Some(hosts), _) => hosts.twin.as_ref().map_or(hosts.eth_b.v4, |twin| twin.1.v4),
        (None, Carrier::Barewire) => MEM_IPS[1],
        (None, _) => Ipv4Addr::LOCALHOST,
    }
}

/// What programs are told to do.
pub(crate) struct Job {
    carrier: Carrier,
    size: u32,
    window: u32,
    warmup: Duration,
    seconds: Duration,
}

impl Job {
    fn port(&self) -> u16 {
        match self.carrier {
            Carrier::Barewire => FLOW_PORT,
            Carrier::Aeron => AERON_PORT,
            _ => 0,
        }
    }
}

/// What a client measured.
pub(crate) struct Times {
    round_trips: Histogram,
    seconds: f64,
    /// Responses in the time that is charged.
    charged: u64,
}

/// Who a row is of.
pub fn subject(language: Language, carrier: Carrier, window: u32, asked: &Settings) -> Subject {
    let kernel = if asked.wire == Wire::Mem { "loopback" } else { "veth" };
    let (system, mode, over) = match carrier {
        Carrier::Barewire => ("barewire", "daemon", asked.wire.scheme()),
        Carrier::Tcp => ("kernel-tcp", "blocking", kernel),
        Carrier::Zmq => ("zeromq", "pair", kernel),
        Carrier::Grpc => ("grpc", "calls", kernel),
        Carrier::Aeron => ("aeron", "spin", kernel),
    };
    let mode = if (language, carrier) == (Language::Node, Carrier::Tcp) { "event-loop" } else { mode };
    Subject {
        bench: BENCH,
        system: system.to_owned(),
        mode: Some(mode.to_owned()),
        over: Some(over.to_owned()),
        params: vec![
            Param::word("language", language.word()),
            Param::new("size", Unit::Bytes, asked.size),
            Param::new("window", Unit::Count, window),
        ],
        idle_state: Some(asked.idle_state),
        command: asked.command.clone(),
        ..Subject::default()
    }
}

/// The row of a language that cannot be measured here.
pub fn missing(language: Language, carrier: Carrier, window: u32, asked: &Settings, why: &str) -> Row {
    Row::missing(subject(language, carrier, window, asked), MEASURES, why)
}

/// Puts each row beside Rust's of the same carrier and window, and all but TCP's beside the language's own TCP: run by run, as those of one
/// round shared a moment of the machine.
pub fn compare(rows: &mut [Row]) {
    let key = |row: &Row| (row.subject.system.clone(), row.param("language"), row.param("window"));
    let medians: Vec<_> =
        rows.iter().filter(|row| row.is_usable()).map(|row| (key(row), row.each_run("rtt_ns"))).collect();
    for row in rows.iter_mut().filter(|row| row.is_usable()) {
        let (system, language, window) = key(row);
        let mut beside = |measure, system: &str, language: Option<&str>| {
            let wanted = (system.to_owned(), language.map(str::to_owned), window.clone());
            if let Some((_, others)) = medians.iter().find(|(key, _)| *key == wanted) {
                row.set_beside(measure, "rtt_ns", others, |own, other| own / other);
            }
        };
        beside("p50_to_rust", &system, Some(Language::Rust.word()));
        if system != "kernel-tcp" {
            beside("p50_to_tcp", "kernel-tcp", language.as_deref());
        }
    }
}

impl Workload for BindingWorkload {
    fn subjects(&self) -> Vec<Subject> {
        vec![subject(self.language, self.carrier, self.window, &self.asked)]
    }

    fn measures(&self) -> &'static [Measure] {
        MEASURES
    }

    fn planned(&self) -> Duration {
        self.asked.warmup + self.asked.seconds + STARTING
    }

    fn check(&self) -> Result<(), BenchError> {
        let (size, window) = (self.asked.size, self.window);
        let refuse = |why: String| Err(BenchError::Plan(why));
        match () {
            () if !SIZES.contains(&size) => {
                refuse(format!("`--size {size}` is out of range: 1 to {}", SIZES.end()))
            }
            () if !WINDOWS.contains(&window) => {
                refuse(format!("`--window {window}` is out of range: 1 to {}", WINDOWS.end()))
            }
            () if self.asked.seconds == Duration::ZERO => refuse("a run needs some time".to_owned()),
            () => Ok(()),
        }
    }

    fn slice(&mut self, _round: u32, cpu: &Charge) -> Result<Vec<Measured>, BenchError> {
        let cores: Vec<usize> = self.asked.cores.map_or(vec![], |(a, b)| vec![a, b]);
        let awake = settle(self.asked.idle_state, &cores)?;
        let watch = Contention::start();
        let Both { client: times, switches, .. } = self.run(cpu)?;
        let samples = times.round_trips.samples();
        let mut measured =
            Measured::default().operations(times.charged).watched(&awake.judged(watch.finish(), &switches));
        if samples == 0 {
            measured.void = Some("no response arrived in the measured time".to_owned());
        } else {
            measured = measured.number("rate_per_s", samples as f64 / times.seconds);
        }
        Ok(vec![measured.spans("rtt_ns", times.round_trips)])
    }
}

#[cfg(test)]
mod tests;
