//! Streams between two hosts over the kernel's own sockets: what a switch, a bridge or a router between them carries.
//!
//! What flows through: a [`client`] opens a session at a [`server`], sends TCP streams or datagrams, and the server counts what
//! comes between the client's `begin` and `end`, by its own clock (`talk` has what they say). A [`StreamRow`] comes out. The
//! loops that move bytes are in `pump`.

pub mod client;
pub(crate) mod pump;
pub mod server;

use crate::cpu::{CpuPerOp, CpuUse, per_op};
use crate::render::{latency, other_unknown};
use crate::talk::client::OtherEnd;
use crate::talk::{Counted, TalkError};
use serde::{Deserialize, Serialize};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// From so many seconds after the begin.
    pub from_s: f64,
    /// To so many.
    pub to_s: f64,
    /// Payload, in Mbit/s (10^6).
    pub mbps: f64,
    /// Datagrams a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamRun {
    /// Measured time.
    pub seconds: f64,
    /// Bytes of payload that arrived in it.
    pub received_bytes: u64,
    /// Payload, in Mbit/s: goodput.
    pub mbps: f64,
    /// Packets that came in at the receiving host's interfaces, a second: of TCP without acknowledgements.
    pub packets_per_s: f64,
    /// Datagrams that were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Datagrams that arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// Datagrams that did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// Paced datagrams that left more than a millisecond late, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_percent: Option<f64>,
    /// Interval by interval.
    pub intervals: Vec<Interval>,
    /// The hypervisor took our cores.
    pub contended: bool,
    /// What else there was to see: threads that waited for a core are the rule where both ends share few.
    #[serde(default)]
    pub contention: Vec<String>,
    /// CPU of both ends for each operation, in ns; `None` where the server serves others, too, or does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_op: Option<f64>,
    /// Its parts, and how many cores were busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuPerOp>,
    /// How both ends wait, and whether the server's CPU is known.
    #[serde(flatten)]
    pub other_end: Option<OtherEnd>,
    /// Why the run is void, if it is.
    pub void: Option<String>,
}

impl StreamRun {
    /// With what so many operations cost.
    fn charged(self, used: Option<CpuUse>, other: OtherEnd, operations: u64) -> StreamRun {
        let (cpu_ns_per_op, cpu) = per_op([used.map(|used| used.of(operations)).as_ref()].into_iter());
        StreamRun { cpu_ns_per_op, cpu, other_end: Some(other), ..self }
    }

    fn of(counted: &Counted, seconds: f64, intervals: Vec<Interval>, protocol: Protocol) -> StreamRun {
        StreamRun {
            seconds: thousandth(seconds),
            received_bytes: counted.bytes,
            mbps: mbps(counted.bytes, seconds),
            // Of datagrams the window is a little longer than the sending: what came, came in the sending's time.
            packets_per_s: per_s(
                counted.rx_packets,
                if protocol == Protocol::Udp { seconds } else { counted.seconds },
            )
            .round(),
            intervals,
            ..StreamRun::default()
        }
    }
}

/// All runs together. `None`: not of this protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamRow {
    /// `kernel`: both ends are sockets of the kernel's.
    pub system: String,
    /// Over what.
    pub protocol: Protocol,
    /// Where the server was.
    pub server: String,
    /// Streams at a time.
    pub streams: u32,
    /// Bytes of a datagram's payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// Whether the hosts' interfaces had their offloads, as it was said on the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offloads: Option<bool>,
    /// Datagrams a second that were asked for; none: as fast as it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_pps: Option<u64>,
    /// Goodput of TCP, in Mbit/s: the median of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_mbps: Option<f64>,
    /// Goodput of UDP, in Mbit/s: the median of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_mbps: Option<f64>,
    /// Datagrams a second that arrived: the median of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_pps: Option<f64>,
    /// Packets a second at the receiving host's interfaces: the median of the runs.
    pub packets_per_s: f64,
    /// Datagrams lost, in percent of those sent in all runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_percent: Option<f64>,
    /// Measured seconds, over all runs.
    pub seconds: f64,
    /// What `cpu_ns_per_op` is of: 128 KiB of a stream, or a datagram that arrived.
    #[serde(default)]
    pub operation: String,
    /// CPU of both ends for each operation, in ns: the median of the runs.
    #[serde(default)]
    pub cpu_ns_per_op: Option<f64>,
    /// Its parts, and how many cores were busy.
    #[serde(default)]
    pub cpu: Option<CpuPerOp>,
    /// How both ends wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Why the other end's CPU is not known, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_unknown: Option<String>,
    /// Each run.
    pub runs: Vec<StreamRun>,
    /// Some run was contended.
    pub contended: bool,
    /// Why.
    #[serde(default)]
    pub contention: Vec<String>,
    /// Why the row must not be used, if so.
    pub void: Option<String>,
    /// The exact command that produced the row.
    pub command: String,
}

impl crate::BenchRow for StreamRow {
    fn bench(&self) -> &'static str {
        "stream"
    }

    fn void(&self) -> Option<&str> {
        self.void.as_deref()
    }
}

impl StreamRow {
    /// The row of some runs.
    pub fn of(
        config: &client::ClientConfig,
        offloads: Option<bool>,
        runs: Vec<StreamRun>,
        command: &str,
    ) -> StreamRow {
        let udp = config.protocol == Protocol::Udp;
        let median =
            |of: &dyn Fn(&StreamRun) -> f64| crate::rounds::median(runs.iter().map(of)).unwrap_or(0.0);
        let goodput = tenth(median(&|run| run.mbps));
        let (sent, lost) = runs
            .iter()
            .fold((0, 0), |(sent, lost), run| (sent + run.sent.unwrap_or(0), lost + run.lost.unwrap_or(0)));
        let other = OtherEnd::of_runs(runs.iter().map(|run| run.other_end.as_ref()));
        let (waits, cpu_unknown) = OtherEnd::keys(other);
        // What one run does not know, all together do not.
        let costs = runs.iter().filter_map(|run| run.cpu_ns_per_op).filter(|_| cpu_unknown.is_none());
        StreamRow {
            system: "kernel".to_owned(),
            protocol: config.protocol,
            server: config.server.to_string(),
            streams: config.streams,
            size: udp.then_some(config.size as u32),
            offloads,
            offered_pps: config.rate,
            tcp_mbps: (!udp).then_some(goodput),
            udp_mbps: udp.then_some(goodput),
            udp_pps: udp
                .then(|| median(&|run| run.received.unwrap_or(0) as f64 / run.seconds.max(1e-9)).round()),
            packets_per_s: median(&|run| run.packets_per_s).round(),
            lost_percent: udp.then(|| thousandth(100.0 * lost as f64 / (sent as f64).max(1.0))),
            seconds: thousandth(runs.iter().map(|run| run.seconds).sum()),
            operation: config.protocol.operation().to_owned(),
            cpu_ns_per_op: crate::rounds::median(costs),
            cpu: CpuPerOp::of_runs(&runs.iter().filter_map(|run| run.cpu.as_ref()).collect::<Vec<_>>()),
            waits,
            cpu_unknown,
            contended: runs.iter().any(|run| run.contended),
            contention: crate::rounds::once_each(runs.iter().flat_map(|run| &run.contention)),
            void: match runs.is_empty() {
                true => Some("no run ended".to_owned()),
                false => runs.iter().find_map(|run| run.void.clone()),
            },
            runs,
            command: command.to_owned(),
        }
    }
}

/// The row in words: one line, and one for each run when there are several.
pub fn text(row: &StreamRow) -> String {
    let (what, many) = match row.protocol {
        Protocol::Tcp => ("TCP stream", row.tcp_mbps),
        Protocol::Udp => ("UDP sender", row.udp_mbps),
    };
    let mut out = format!(
        "{} {what}{} to {}: {} Mbit/s, {} packets/s at the receiver",
        row.streams,
        if row.streams == 1 { "" } else { "s" },
        row.server,
        many.unwrap_or(0.0),
        row.packets_per_s,
    );
    if let (Some(pps), Some(lost)) = (row.udp_pps, row.lost_percent) {
        out.push_str(&format!(", {pps} datagrams/s, {lost} % lost"));
    }
    if let Some(cpu) = &row.cpu {
        let of = row.cpu_ns_per_op.map_or_else(
            || "CPU of this end only".to_owned(),
            |ns| format!("CPU {} for each {}", latency(ns as u64), row.operation),
        );
        out.push_str(&format!(", {of}, {:.1} cores busy", cpu.cores));
    }
    if let Some(waits) = &row.waits {
        out.push_str(&format!("; {waits}"));
    }
    if row.runs.len() > 1 {
        let runs: Vec<String> = row.runs.iter().map(|run| run.mbps.to_string()).collect();
        out.push_str(&format!("; runs: {} Mbit/s", runs.join(", ")));
    }
    for note in row.contention.iter().filter(|_| row.contended).map(|why| format!("contended: {why}")) {
        out.push_str(&format!("\n{note}"));
    }
    if let Some(why) = &row.cpu_unknown {
        out.push_str(&format!("\n{}", other_unknown(why)));
    }
    if let Some(why) = &row.void {
        out.push_str(&format!("\nVOID: {why}"));
    }
    out
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
