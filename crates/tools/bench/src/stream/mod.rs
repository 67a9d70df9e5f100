//! Streams between two hosts over the kernel's own sockets: what a switch, a bridge or a router between them carries.
//!
//! What flows through: a [`client`] opens a session at a [`server`], sends TCP streams or datagrams, and the server counts what
//! comes between the client's `begin` and `end`, by its own clock (`talk` has what they say). [`Streams`] make a row of it. The loops
//! that move bytes are in `pump`.

pub mod client;
pub(crate) mod pump;
pub mod server;

use crate::cpu::{Charge, CpuUse};
use crate::error::BenchError;
use crate::row::{Measure, Measured, Param, Row, Subject, Unit};
use crate::run::Workload;
use crate::talk::client::OtherEnd;
use crate::talk::{Counted, TalkError};
use barewire_base::Duration;
use barewire_measure::ContentionReport;
use serde::Serialize;
use serde_json::json;
use std::io;
use std::str::FromStr;

/// UDP and TCP port of a server unless told otherwise.
pub const PORT: u16 = 5301;
/// Most streams of a client.
pub const STREAMS_MAX: u32 = 64;

/// What this work is called between the ends.
const WORK: &str = "streams";
/// How both ends wait: asleep in calls of the kernel.
const WAITS: &str = "blocking";

/// Over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Streams of bytes.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Protocol {
    /// What CPU is told for: one write of a stream, or a datagram.
    fn operation(self) -> &'static str {
        match self {
            Protocol::Tcp => "128 KiB",
            Protocol::Udp => "datagram",
        }
    }

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Protocol, String> {
        match text {
            "tcp" => Ok(Protocol::Tcp),
            "udp" => Ok(Protocol::Udp),
            _ => Err(format!("unknown protocol `{text}`; {}", barewire_port::suggest(text, &["tcp", "udp"]))),
        }
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// What was asked for cannot be run.
    #[error("{0}")]
    Plan(String),
    /// The two ends do not understand each other.
    #[error("{0}")]
    Talk(TalkError),
    /// The server cannot go on.
    #[error("a thread of the server ended")]
    Stopped,
    /// A bug here.
    #[error("a thread that sends panicked")]
    Panicked,
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl From<TalkError> for StreamError {
    fn from(error: TalkError) -> StreamError {
        match error {
            TalkError::Interrupted => StreamError::Interrupted,
            error => StreamError::Talk(error),
        }
    }
}

/// A part of a run, as the server counted it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// From so many seconds after the begin.
    pub from_s: f64,
    /// To so many.
    pub to_s: f64,
    /// Payload, in Mbit/s (10^6).
    pub mbps: f64,
    /// Datagrams a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams_per_s: Option<f64>,
}

impl Interval {
    fn of(from_s: f64, counted: &Counted, protocol: Protocol) -> Interval {
        Interval {
            from_s,
            to_s: thousandth(from_s + counted.seconds),
            mbps: mbps(counted.bytes, counted.seconds),
            datagrams_per_s: (protocol == Protocol::Udp)
                .then(|| per_s(counted.datagrams, counted.seconds).round()),
        }
    }
}

/// One run.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Measured time.
    pub seconds: f64,
    /// Bytes of payload that arrived in it.
    pub received_bytes: u64,
    /// Payload, in Mbit/s: goodput.
    pub mbps: f64,
    /// Packets that came in at the receiving host's interfaces, a second: of TCP without acknowledgements.
    pub packets_per_s: f64,
    /// Datagrams that were sent, and that arrived.
    pub datagrams: Option<[u64; 2]>,
    /// Paced datagrams that left more than a millisecond late, in percent.
    pub behind_percent: Option<f64>,
    /// Interval by interval.
    pub intervals: Vec<Interval>,
    /// Others on our cores: only what the hypervisor took counts, as threads that wait for a core are the rule where both ends share few.
    pub contention: Option<ContentionReport>,
    /// CPU of both ends for each operation; none where the server serves others, too, or does not tell.
    pub used: Option<CpuUse>,
    /// How both ends wait, and whether the server's CPU is known.
    pub other_end: Option<OtherEnd>,
    /// Why the run is void, if it is.
    pub void: Option<String>,
}

impl Ran {
    fn of(counted: &Counted, seconds: f64, intervals: Vec<Interval>, protocol: Protocol) -> Ran {
        Ran {
            seconds,
            received_bytes: counted.bytes,
            mbps: mbps(counted.bytes, seconds),
            // Of datagrams the window is a little longer than the sending: what came, came in the sending's time.
            packets_per_s: per_s(
                counted.rx_packets,
                if protocol == Protocol::Udp { seconds } else { counted.seconds },
            ),
            intervals,
            ..Ran::default()
        }
    }

    /// With what so many operations cost.
    fn charged(self, used: Option<CpuUse>, other: OtherEnd, operations: u64) -> Ran {
        Ran { used: used.map(|used| used.of(operations)), other_end: Some(other), ..self }
    }

    /// Datagrams that did not arrive, of those that were sent.
    fn lost(&self) -> Option<u64> {
        self.datagrams.map(|[sent, received]| sent.saturating_sub(received))
    }

    fn measured(&self) -> Measured {
        let goodput = if self.datagrams.is_some() { "udp_mbps" } else { "tcp_mbps" };
        let mut run = Measured::default()
            .metered(self.used, self.other_end.clone())
            .number(goodput, self.mbps)
            .number("packets_per_s", self.packets_per_s)
            .number("received_bytes", self.received_bytes as f64)
            .number("seconds", self.seconds)
            .word("intervals", json!(self.intervals));
        if let (Some([sent, received]), Some(lost)) = (self.datagrams, self.lost()) {
            let counts = [("sent", sent), ("received", received), ("lost", lost)];
            run = counts.into_iter().fold(run, |run, (key, count)| run.number(key, count as f64));
            run = run.number("udp_pps", received as f64 / self.seconds.max(1e-9));
        }
        run = self.behind_percent.into_iter().fold(run, |run, late| run.number("behind_percent", late));
        run = self.contention.iter().fold(run, Measured::watched);
        run.void.clone_from(&self.void);
        run
    }
}

/// What is measured at the receiver, but for the CPU.
const MEASURES: &[Measure] = &[
    Measure::rate("tcp_mbps", "TCP Mbit/s", "TCP").in_unit(Unit::MbitPerSecond, 0.1),
    Measure::rate("udp_mbps", "UDP Mbit/s", "UDP").in_unit(Unit::MbitPerSecond, 0.1),
    Measure::rate("udp_pps", "datagrams/s", "UDP"),
    Measure::rate("packets_per_s", "packets/s", "packets"),
    // Of the datagrams of all runs.
    Measure::count("lost_percent", "lost %").neutral().in_unit(Unit::None, 0.001),
    Measure::count("sent", ""),
    Measure::count("received", ""),
    Measure::count("lost", ""),
    Measure::count("behind_percent", "").neutral().in_unit(Unit::None, 0.001),
    Measure::count("received_bytes", "").in_unit(Unit::Bytes, 1.0),
    Measure::count("seconds", "").in_unit(Unit::None, 0.001),
    // What the CPU is of: 128 KiB of a stream, or a datagram that arrived.
    Measure::word("operation", "of CPU"),
    Measure::word("intervals", ""),
];

/// Streams to a server.
pub struct Streams<'a> {
    /// What is sent, and to whom.
    pub config: client::ClientConfig,
    /// What is between the hosts: `kernel`, unless its user names it.
    pub system: String,
    /// Whether the hosts' interfaces had their offloads, as it was said on the command line.
    pub offloads: Option<bool>,
    /// The command, for the row.
    pub command: String,
    /// Hears each interval when it has passed.
    pub tell: &'a mut dyn FnMut(&Interval),
}

impl Workload for Streams<'_> {
    fn subjects(&self) -> Vec<Subject> {
        let config = &self.config;
        let mut params = vec![
            Param::word("protocol", config.protocol.as_str()),
            Param::word("server", config.server.to_string()),
            Param::word("streams", config.streams),
        ];
        if config.protocol == Protocol::Udp {
            params.push(Param::new("size", Unit::Bytes, config.size));
        }
        params.extend(self.offloads.map(|on| Param::word("offloads", on)));
        params.extend(config.rate.map(|rate| Param::new("offered_pps", Unit::PerSecond, rate)));
        let (system, command) = (self.system.clone(), self.command.clone());
        vec![Subject { bench: "stream", system, params, command, ..Subject::default() }]
    }

    fn measures(&self) -> &'static [Measure] {
        MEASURES
    }

    fn planned(&self) -> Duration {
        self.config.warmup + self.config.duration
    }

    fn slice(&mut self, _: u32, _: &Charge) -> Result<Vec<Measured>, BenchError> {
        Ok(vec![client::run(&self.config, self.tell)?.measured()])
    }

    fn judge(&self, row: &mut Row) {
        row.set_word("operation", self.config.protocol.operation());
        if let (Some(sent), Some(lost)) = (row.number("sent"), row.number("lost")) {
            row.set("lost_percent", 100.0 * lost / sent.max(1.0));
        }
    }
}

fn mbps(bytes: u64, seconds: f64) -> f64 {
    tenth(per_s(bytes, seconds) * 8.0 / 1e6)
}

fn per_s(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds.max(1e-9)
}

fn tenth(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

fn thousandth(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests;
