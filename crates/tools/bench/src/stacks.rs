//! Libraries that speak over streams of bytes, on flows through the daemons and on the kernel's TCP.
//!
//! What flows through: a [`Stack`] brings both ends of a protocol, HTTP or gRPC, and does not know what carries it. A [`StackWorkload`] puts
//! one at both ends of one wire, each end in a thread of its own, on one core with its daemon; for TCP the wire is the twin of the other's. One
//! request is in flight. [`compare`] puts each row beside TCP's of the same library and the same state of the cores. The libraries are no
//! part of this crate: its example `stacks` has them.

use crate::awake::settle;
use crate::bindings::{Carrier, FLOW_PORT, Settings, Wire, daemons, server_address};
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::messages::daemon::{Folder, next_run};
use crate::row::{Measure, Measured, Param, Row, SPANS, Subject, Unit};
use crate::run::{Both, Stop, Workload, two_ends};
use barewire_base::{Duration, Instant};
use barewire_engine::IdleStrategy;
use barewire_measure::{Contention, Histogram, stamp};
use barewire_netns::TwoHosts;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The name of the rows' table.
pub const BENCH: &str = "stacks";
/// Bytes of a request: what fits into one call of each library.
const SIZES: std::ops::RangeInclusive<u32> = 1..=65_536;
/// What two daemons and two runtimes take to start.
const STARTING: Duration = Duration::from_millis(800);

const MEASURES: &[Measure] = &[
    Measure::spans("rtt_ns", "round trip", SPANS),
    Measure::rate("rate_per_s", "responses/s", "rate"),
    Measure::cost("p50_to_tcp", "p50 to TCP's", "median beside TCP").in_unit(Unit::None, 0.01),
];

/// A protocol's two ends. Each call runs in a thread of its own, in the network of its host, and returns when it is done.
pub trait Stack: Send + Sync {
    /// What rows call it.
    fn name(&self) -> &'static str;

    /// Answers each request with its own bytes until it is [asked](Serving::asked) to stop.
    ///
    /// # Errors
    /// Why it does not serve, in words.
    fn serve(&self, at: &Place<'_>, serving: &Serving<'_>) -> Result<(), BenchError>;

    /// Connects, then sends requests one after the other: each is [recorded](Trips::record), until that says that the time is over.
    ///
    /// # Errors
    /// Why it does not go on, in words; and an answer other than the request.
    fn ask(&self, at: &Place<'_>, server: SocketAddr, trips: &mut Trips<'_>) -> Result<(), BenchError>;
}

/// Where an end is.
pub struct Place<'a> {
    /// The socket of this host's daemon; `None`: the kernel's TCP carries the bytes.
    pub daemon: Option<&'a Path>,
    /// Bytes of a request, and of its response.
    pub size: u32,
}

impl Place<'_> {
    /// The port to serve on; 0: any.
    pub fn port(&self) -> u16 {
        if self.daemon.is_some() { FLOW_PORT } else { 0 }
    }
}

/// What a server says, and hears.
pub struct Serving<'a> {
    stop: Stop<'a>,
    port: &'a OnceLock<u16>,
}

impl Serving<'_> {
    /// It listens on this port: the client may begin.
    pub fn ready(&self, port: u16) {
        let _ = self.port.set(port);
        self.stop.ready();
    }

    /// The client has ended.
    pub fn asked(&self) -> bool {
        self.stop.asked()
    }
}

/// The round trips of a run.
pub struct Trips<'a> {
    cpu: &'a Charge,
    warmup: Duration,
    seconds: Duration,
    /// When the first was sent.
    start: Option<Instant>,
    end: Instant,
    times: Histogram,
    /// Those since the start: what the CPU is divided by.
    charged: u64,
}

impl Trips<'_> {
    fn new(cpu: &Charge, warmup: Duration, seconds: Duration) -> Trips<'_> {
        let times = Histogram::new();
        Trips { cpu, warmup, seconds, start: None, end: Instant::ZERO, times, charged: 0 }
    }

    /// The next request is sent now. The first of a run begins its time, and what its CPU is charged for.
    pub fn send(&mut self) -> Instant {
        if self.start.is_none() {
            self.cpu.begins();
            self.start = Some(stamp());
        }
        stamp()
    }

    /// Its response is there. Whether another one is to be sent.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`].
    pub fn record(&mut self, sent: Instant) -> Result<bool, BenchError> {
        let now = stamp();
        let begin = self.start.unwrap_or(now) + self.warmup;
        self.charged += 1;
        if sent >= begin {
            self.times.record(now.since(sent).as_nanos());
        }
        self.end = now;
        if now.since(begin) < self.seconds || now < begin {
            go_on()?;
            return Ok(true);
        }
        self.cpu.ends();
        Ok(false)
    }

    fn measured(self) -> Measured {
        let samples = self.times.samples();
        let begin = self.start.unwrap_or(self.end) + self.warmup;
        let mut measured = Measured::default().operations(self.charged);
        match samples {
            0 => measured.void = Some("no response arrived in the measured time".to_owned()),
            _ => {
                let rate = samples as f64 / self.end.since(begin).as_secs_f64().max(1e-9);
                measured = measured.number("rate_per_s", rate);
            }
        }
        measured.spans("rtt_ns", self.times)
    }
}

/// One library over one carrier, with cores in one state.
pub struct StackWorkload {
    stack: Arc<dyn Stack>,
    carrier: Carrier,
    hosts: Option<Arc<TwoHosts>>,
    asked: Settings,
}

impl StackWorkload {
    /// Over flows, or over TCP, between `hosts` where the wire has some. Other carriers are refused by [`check`](Workload::check).
    pub fn new(
        stack: Arc<dyn Stack>,
        carrier: Carrier,
        hosts: Option<&Arc<TwoHosts>>,
        asked: Settings,
    ) -> StackWorkload {
        StackWorkload { stack, carrier, hosts: hosts.cloned(), asked }
    }

    fn run<'a>(&self, cpu: &'a Charge) -> Result<Both<(), Trips<'a>>, BenchError> {
        let (asked, hosts) = (&self.asked, self.hosts.as_deref());
        let run = next_run();
        let folder = Folder::create(run).map_err(BenchError::io("a folder for sockets"))?;
        let daemons = daemons(asked, self.carrier, hosts, &folder.0, run)?;
        let place = |side: usize| Place {
            daemon: daemons.get(side).map(|daemon| daemon.socket.as_path()),
            size: asked.size,
        };
        let address = server_address(self.carrier, hosts);
        // Known before the server is ready, and so before the client begins.
        let port = OnceLock::new();
        let both = hosts.map(|hosts| [&hosts.ns_a, &hosts.ns_b]);
        two_ends(
            both,
            asked.cores,
            || {
                let port = port.get().ok_or_else(|| BenchError::Plan("the server has no port".to_owned()))?;
                let mut trips = Trips::new(cpu, asked.warmup, asked.seconds);
                self.stack.ask(&place(0), SocketAddr::from((address, *port)), &mut trips)?;
                Ok(trips)
            },
            |stop| self.stack.serve(&place(1), &Serving { stop, port: &port }),
        )
    }
}

impl Workload for StackWorkload {
    fn subjects(&self) -> Vec<Subject> {
        let asked = &self.asked;
        let over = match (self.carrier, asked.wire) {
            (Carrier::Barewire, wire) => wire.scheme(),
            (_, Wire::Mem) => "loopback",
            _ => "veth",
        };
        let (system, mode) = match (self.carrier, asked.idle) {
            (Carrier::Barewire, IdleStrategy::Park { .. }) => ("barewire", "daemon-park"),
            (Carrier::Barewire, IdleStrategy::Spin) => ("barewire", "daemon-spin"),
            (Carrier::Barewire, _) => ("barewire", "daemon"),
            _ => ("kernel-tcp", "epoll"),
        };
        vec![Subject {
            bench: BENCH,
            system: system.to_owned(),
            mode: Some(mode.to_owned()),
            over: Some(over.to_owned()),
            params: vec![
                Param::word("stack", self.stack.name()),
                Param::new("size", Unit::Bytes, asked.size),
                Param::usually("window", 1, 1),
            ],
            idle_state: Some(asked.idle_state),
            command: asked.command.clone(),
            ..Subject::default()
        }]
    }

    fn measures(&self) -> &'static [Measure] {
        MEASURES
    }

    fn planned(&self) -> Duration {
        self.asked.warmup + self.asked.seconds + STARTING
    }

    fn check(&self) -> Result<(), BenchError> {
        let refuse = |why: String| Err(BenchError::Plan(why));
        match self.carrier {
            Carrier::Barewire | Carrier::Tcp => {}
            other => {
                return refuse(format!("a library runs over barewire or tcp, not over {}", other.word()));
            }
        }
        if !SIZES.contains(&self.asked.size) {
            return refuse(format!("{} bytes are out of range: 1 to {}", self.asked.size, SIZES.end()));
        }
        if self.asked.seconds == Duration::ZERO {
            return refuse("a run needs some time".to_owned());
        }
        Ok(())
    }

    fn slice(&mut self, _round: u32, cpu: &Charge) -> Result<Vec<Measured>, BenchError> {
        let cores: Vec<usize> = self.asked.cores.map_or(vec![], |(a, b)| vec![a, b]);
        let awake = settle(self.asked.idle_state, &cores)?;
        let watch = Contention::start();
        let Both { client: trips, switches, .. } = self.run(cpu)?;
        Ok(vec![trips.measured().watched(&awake.judged(watch.finish(), &switches))])
    }
}

/// Puts each row beside TCP's of the same library and the same state of the cores, run by run, as those of one round shared a moment of the
/// machine.
pub fn compare(rows: &mut [Row]) {
    let key = |row: &Row| (row.param("stack"), row.param("size"), row.subject.idle_state);
    let is_tcp = |row: &&Row| row.subject.system == "kernel-tcp" && row.is_usable();
    let tcp: Vec<_> = rows.iter().filter(is_tcp).map(|row| (key(row), row.each_run("rtt_ns"))).collect();
    for row in rows.iter_mut().filter(|row| row.subject.system != "kernel-tcp" && row.is_usable()) {
        let Some((_, tcp)) = tcp.iter().find(|(of, _)| *of == key(row)) else { continue };
        row.set_beside("p50_to_tcp", "rtt_ns", tcp, |own, tcp| own / tcp);
    }
}
