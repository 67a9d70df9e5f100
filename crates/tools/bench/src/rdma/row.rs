//! Rows about RDMA.

use super::live::LiveResult;
use super::windows::span;
use crate::cpu::{CpuPerOp, per_op};
use crate::histograms::Histograms;
use crate::messages::IdleState;
use crate::render::LITTLE_TOLERANCE;
use crate::rounds::{Together, median};
use crate::wall_clock::WallTime;
use barewire_measure::{Histogram, little_law_check};
use serde::{Deserialize, Serialize};

/// Statistics of spans, in ns. `None`: too few samples for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Span {
    pub samples: u64,
    pub min: Option<u64>,
    pub mean: Option<f64>,
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p99: Option<u64>,
    pub p99_9: Option<u64>,
    pub max: Option<u64>,
}

impl Span {
    /// Of a histogram.
    pub fn of(histogram: &Histogram) -> Span {
        let at = |q| histogram.quantile(q).value();
        Span {
            samples: histogram.samples(),
            min: histogram.min(),
            mean: histogram.mean().map(|ns| (ns * 10.0).round() / 10.0),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: histogram.max(),
        }
    }

    /// Of several runs: the median of theirs, and the least and the longest of all. Where each run is too short for a percentile it is that
    /// of all samples together, `pooled`, which is said: what a reader has to know comes second.
    pub fn of_runs(runs: impl Iterator<Item = Span> + Clone, pooled: &Histogram) -> (Span, Option<String>) {
        let all = Span::of(pooled);
        let mut together = Together::default();
        let mut at = |name, of: fn(&Span) -> Option<u64>| {
            together.percentile(name, runs.clone().map(|run| of(&run)), of(&all))
        };
        let span = Span {
            samples: all.samples,
            min: all.min,
            mean: median(runs.clone().filter_map(|run| run.mean)).or(all.mean),
            p50: at("p50", |s| s.p50),
            p90: at("p90", |s| s.p90),
            p99: at("99 %", |s| s.p99),
            p99_9: at("99.9 %", |s| s.p99_9),
            max: all.max,
        };
        (span, together.note())
    }
}

/// Names of the steps, in their order.
pub const STEPS: [&str; 6] = ["create", "req_to_rep", "rtu", "first_byte", "disconnect", "destroy"];

/// Spans of the steps, in the order of [`STEPS`].
pub type StepSpans = [Histogram; 6];

/// The steps of a connection, one at a time, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// Completion queue, queue pair, and the call that asks for the connection.
    pub create: Span,
    /// From there until the REP was handled: the queue pair can send.
    pub req_to_rep: Span,
    /// Until the RTU has left.
    pub rtu: Span,
    /// From then until one byte was written to the server's memory and acknowledged.
    pub first_byte: Span,
    /// From the call that closes until the DREP was handled.
    pub disconnect: Span,
    /// Queue pair and completion queue destroyed.
    pub destroy: Span,
}

impl Steps {
    /// Of their histograms, in the order of [`STEPS`].
    pub fn of([create, req_to_rep, rtu, first_byte, disconnect, destroy]: &StepSpans) -> Steps {
        Steps {
            create: Span::of(create),
            req_to_rep: Span::of(req_to_rep),
            rtu: Span::of(rtu),
            first_byte: Span::of(first_byte),
            disconnect: Span::of(disconnect),
            destroy: Span::of(destroy),
        }
    }
}

/// One run of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RcRun {
    /// Connections that were counted.
    pub connections: u64,
    /// Time in which they were.
    pub seconds: f64,
    /// Connections per second.
    pub connections_per_s: f64,
    /// Median of the time to connect, in ns.
    pub p50_ns: Option<u64>,
    /// All of its statistics.
    #[serde(default)]
    pub latency_ns: Span,
    /// Connections that failed.
    pub failed: u64,
    /// Another process ran on our cores, or the hypervisor took them.
    pub contended: bool,
    /// CPU of both ends for each connection with its closing, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_op: Option<f64>,
    /// Why the run is void, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
    /// When all client threads counted, from the first of these times to the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<WallTime>,
}

impl RcRun {
    pub(super) fn of(result: &LiveResult) -> RcRun {
        let latency_ns = Span::of(&result.latency);
        RcRun {
            connections: result.connections,
            seconds: (result.seconds * 1e3).round() / 1e3,
            connections_per_s: result.per_s.round(),
            p50_ns: latency_ns.p50,
            latency_ns,
            failed: result.failed,
            contended: result.contention.as_ref().is_some_and(|c| c.contended),
            cpu_ns_per_op: per_op([result.cpu.as_ref()].into_iter()).0,
            void: result.void(),
            measured: result.windows.as_deref().and_then(span).map(|(from, to)| WallTime::of(from, to)),
        }
    }
}

/// One row about connections: all runs together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RcRow {
    /// `barewire` or `kernel-tcp`.
    pub system: String,
    /// `embedded`: engines in the threads that connect and accept; `embedded-one-thread`: both ends in one thread; `spin`: of
    /// kernel TCP, whose ends ask without pause; `blocking`: sleep, as there are more threads than cores.
    pub mode: String,
    /// `mem`, `xdp`, `packet`; of kernel TCP `veth` or `loopback`.
    pub over: String,
    /// Client threads of a host.
    pub threads: u32,
    /// Client hosts.
    pub hosts: u32,
    /// NICs of each machine; the server has a thread for each.
    pub nics: u32,
    /// Connections in flight, of each client thread.
    pub window: u32,
    /// Each connection is closed again, which is part of it.
    pub teardown: bool,
    /// Queue pairs that stay open meanwhile, on each side.
    pub live_qps: u64,
    /// Every connection has a completion queue of its own.
    pub own_cq: bool,
    /// State of the cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_state: Option<IdleState>,
    /// Connections per second: the median of the runs.
    pub connections_per_s: f64,
    /// From the first call of a connection until it can send: medians of the runs' statistics, the least and the longest of all.
    pub latency_ns: Span,
    /// Rate times mean time to connect, divided by the connections in flight (Little's law). 1 when times and rate agree; with
    /// teardown less, as those that are being closed are in flight, too, and never more.
    #[serde(default)]
    pub little: Option<f64>,
    /// The steps of a connection; none of kernel TCP.
    pub steps_ns: Option<Steps>,
    /// Frames that left both ends, for each connection.
    pub frames_per_connection: Option<f64>,
    /// Frames of the connection manager's size that the port carries in a second, one way.
    pub port_frames_per_s: Option<f64>,
    /// Resident memory of each queue pair that stayed open, on each side, in bytes.
    pub bytes_per_live_qp: Option<f64>,
    /// CPU of both ends for each connection with its closing, in ns; the same as of messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_op: Option<f64>,
    /// Its parts, and how many cores were busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuPerOp>,
    /// Between two machines: how both ends wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Between two machines: why the other end's CPU is not known, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_unknown: Option<String>,
    /// Connections of all runs.
    pub opened: u64,
    /// Connections that failed.
    pub failed: u64,
    /// Each run.
    pub runs: Vec<RcRun>,
    /// Some run was contended.
    pub contended: bool,
    /// Why.
    #[serde(default)]
    pub contention: Vec<String>,
    /// What a reader has to know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Of a baseline: why nothing may be compared with it, though its figures are what was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_baseline: Option<String>,
    /// Why the row must not be used, if so.
    pub void: Option<String>,
    /// A run failed, and those after it were not made: which, and why. The figures are of the runs before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
    /// The exact command that produced the row.
    pub command: String,
    /// `latency`, and each step by its name.
    #[serde(default, skip_serializing)]
    pub histograms: Histograms,
}

crate::histograms::bench_row!(RcRow, |_| "rc");

/// [`RcRow::little`], and what is to be said of it: nothing while it is what it should be.
pub(super) fn little(
    rate: f64,
    latency: &Histogram,
    in_flight: u32,
    teardown: bool,
) -> (Option<f64>, Option<String>) {
    let Some(mean_ns) = latency.mean().filter(|_| rate > 0.0) else { return (None, None) };
    let little = (little_law_check(in_flight, rate, mean_ns) * 1e3).round() / 1e3;
    let low = if teardown { 0.0 } else { 1.0 - LITTLE_TOLERANCE };
    let off = little < low || little > 1.0 + LITTLE_TOLERANCE;
    (Some(little), off.then(|| format!("Little's law off: {little:.2}")))
}

/// Share of connections that may fail before a row is void: those that failed are in no time and no rate.
pub const FAILED_MAX: f64 = 0.01;

/// Why a row of so many connections in these runs must not be used, if so.
pub(super) fn void(opened: u64, failed: u64, runs: &[RcRun]) -> Option<String> {
    let asked = opened + failed;
    if let Some(why) = runs.iter().find_map(|run| run.void.clone()) {
        Some(why)
    } else if opened == 0 {
        Some("no connection was counted".to_owned())
    } else if failed as f64 > FAILED_MAX * asked as f64 {
        Some(format!("{failed} of {asked} connections failed, more than {:.0} % of them", FAILED_MAX * 100.0))
    } else {
        None
    }
}

impl RcRow {
    /// What the row is about, in one line.
    pub fn title(&self) -> String {
        format!(
            "{} {} over {}, {} x {} threads, {} NIC{}, window {}{}{}",
            self.system,
            self.mode,
            self.over,
            self.hosts,
            self.threads,
            self.nics,
            if self.nics == 1 { "" } else { "s" },
            self.window,
            if self.teardown { "" } else { ", no teardown" },
            if self.live_qps > 0 { format!(", {} live", self.live_qps) } else { String::new() },
        )
    }

    /// Over memory links or the loopback: what two such rows have in common is that there is no wire. One hands frames over without a
    /// system call, the other is three of them.
    pub fn without_wires(&self) -> bool {
        self.over == "mem" || self.over == "loopback"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_connections_are_told_and_too_many_void_the_row() {
        let void = |opened, failed| void(opened, failed, &[]);
        assert_eq!((void(1_000, 0), void(990, 10)), (None, None));
        assert_eq!(void(989, 11).as_deref(), Some("11 of 1000 connections failed, more than 1 % of them"));
        for failed in [0, 5] {
            assert_eq!(void(0, failed).as_deref(), Some("no connection was counted"));
        }
        let apart = RcRun { void: Some("apart".to_owned()), ..RcRun::default() };
        assert_eq!(super::void(5, 0, &[RcRun::default(), apart]).as_deref(), Some("apart"));
    }

    #[test]
    fn a_time_is_the_median_of_the_runs_whatever_their_samples() {
        let (mut all, mut runs) = (Histogram::new(), Vec::new());
        for (ns, samples) in [(1_000, 20_000), (3_000, 100), (4_000, 90)] {
            let mut one = Histogram::new();
            one.record_n(ns, samples);
            all.merge(&one);
            runs.push(Span::of(&one));
        }
        let (span, note) = Span::of_runs(runs.iter().copied(), &all);
        let middle = runs[1].p50;
        assert_eq!((span.p50, span.min, span.samples), (middle, Some(1_000), 20_190));
        assert_eq!((span.p99, note.is_some()), (Span::of(&all).p99, true), "one run alone carries it");
        assert!(note.unwrap().starts_with("p90, 99 %: of all runs together"));
    }

    #[test]
    fn times_and_rates_that_contradict_each_other_are_told() {
        let mut latency = Histogram::new();
        latency.record_n(10_000, 100);
        // 64 in flight, 10 us each: 6.4 M/s.
        assert_eq!(little(6.4e6, &latency, 64, false), (Some(1.0), None));
        assert!(little(3e6, &latency, 64, false).1.is_some(), "half of them stood still");
        assert_eq!(little(3e6, &latency, 64, true), (Some(0.469), None), "the others were being closed");
        assert!(little(8e6, &latency, 64, true).1.is_some_and(|why| why.contains("1.25")));
        assert_eq!(little(0.0, &latency, 64, true), (None, None));
        assert_eq!(little(1.0, &Histogram::new(), 64, true), (None, None));
    }
}
