//! A row: everything that is known about one figure.

use crate::cpu::{CpuPerOp, per_op};
use crate::histograms::Histograms;
use crate::messages::driver::{Overload, RunCounts, RunResult};
use crate::messages::{Arrivals, MsgWorkload, SystemName};
use crate::rounds::{median, once_each};
use crate::talk::client::OtherEnd;
use crate::wall_clock::WallTime;
use barewire_measure::{Histogram, RttNs, little_law_check};
use barewire_report::report::SLEEPS_BELOW;
use serde::{Deserialize, Serialize};

/// In what state the cores were that the run used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdleState {
    /// The machine was left alone for a second before the run and nothing kept its cores from sleeping in it.
    Cold,
    /// Something spun on the cores that had nothing to do, before and during the run, so that none went to sleep:
    /// [`KeepAwake`](crate::KeepAwake).
    Warm,
}

impl IdleState {
    /// `warm` or `cold`, as rows and options say it.
    pub fn word(self) -> &'static str {
        match self {
            IdleState::Cold => "cold",
            IdleState::Warm => "warm",
        }
    }
}

/// Closed or open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoopKind {
    /// A window of requests outstanding: the next one waits for a response.
    Closed,
    /// An absolute schedule of intended send times.
    Open,
}

/// One run of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunLine {
    /// Median of the run: service time, as `rtt_ns`.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the run.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile of the run.
    #[serde(default)]
    pub p99_9_ns: Option<u64>,
    /// Open loop: the same from the intended send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<ResponseNs>,
    /// Responses per second.
    pub rate_per_s: f64,
    /// Responses with a time.
    pub samples: u64,
    /// Others ran on our cores, the hypervisor took them, or our own threads were more than they.
    pub contended: bool,
    /// CPU of both ends for each request with its response, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns_per_op: Option<f64>,
    /// Why the run is void, if it is.
    pub void: Option<String>,
    /// What of the offered load was not carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overloaded: Option<String>,
    /// When the run measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<WallTime>,
}

/// Response times of one run of an open loop, from the intended send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseNs {
    /// Median.
    pub p50: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p99_9: Option<u64>,
}

/// A percentile over the runs of a row, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfRuns {
    /// Median of the runs' own.
    pub median: u64,
    /// Of the best run.
    pub min: u64,
    /// Of the worst run.
    pub max: u64,
}

impl OfRuns {
    /// `None` when any run is too short for it, or there is none.
    fn over(values: impl Iterator<Item = Option<u64>>) -> Option<OfRuns> {
        let values = values.collect::<Option<Vec<u64>>>()?;
        let (min, max) = (*values.iter().min()?, *values.iter().max()?);
        let median = median(values.iter().map(|ns| *ns as f64))?;
        Some(OfRuns { median: median.round() as u64, min, max })
    }
}

/// Percentiles over the runs of a row. What a table shows: a pool of all samples leans to the fast runs, which make more of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsNs {
    /// Medians.
    pub p50: Option<OfRuns>,
    /// 99th percentiles.
    pub p99: Option<OfRuns>,
    /// 99.9th percentiles.
    pub p99_9: Option<OfRuns>,
}

/// One row of a report. Times are nanoseconds from the send call (t1) to the response in the application (t5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MsgRow {
    /// `barewire`, `kernel-tcp`, ...
    pub system: String,
    /// How it waits.
    pub mode: String,
    /// What lies between the two ends.
    pub over: String,
    /// What each party does when nothing comes, where that is a choice of its own: `yield`, `park`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
    /// Whether the messages are encrypted.
    #[serde(default)]
    pub secure: bool,
    /// Bytes of a request, and of its response.
    pub size: u32,
    /// Requests outstanding at once (closed loop), or at most (open loop).
    pub window: u32,
    /// Connections they are spread over.
    pub connections: u32,
    /// Engines of each daemon, and receive queues of its interface, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engines: Option<u8>,
    /// Receive queues of each interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u32>,
    /// Responses with a time, over all runs.
    pub samples: u64,
    /// Round trip: service time, the samples of all runs together.
    pub rtt_ns: RttNs,
    /// Round trip: each percentile over the runs. Tables and verdicts are made of these.
    #[serde(default)]
    pub rtt_of_runs_ns: RunsNs,
    /// Responses per second of measured time: the median of the runs.
    pub rate_per_s: f64,
    /// Closed or open.
    #[serde(rename = "loop")]
    pub loop_kind: LoopKind,
    /// Open loop: requests per second of the schedule.
    pub offered_per_s: Option<f64>,
    /// Open loop: from the send call (t1) to the response (t5).
    pub service_ns: Option<RttNs>,
    /// Open loop: from the intended send (t0) to the response (t5).
    pub response_ns: Option<RttNs>,
    /// Open loop: `response_ns` over the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_of_runs_ns: Option<RunsNs>,
    /// Open loop: from the intended send (t0) to the send call (t1), of sends that nothing held back: what the generator itself adds to
    /// every response time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_lag_ns: Option<RttNs>,
    /// Measured seconds, over all runs.
    pub seconds: f64,
    /// Each run.
    pub runs: Vec<RunLine>,
    /// State of the cores.
    pub idle_state: IdleState,
    /// Some run was contended.
    pub contended: bool,
    /// Closed loop: rate times mean round trip, divided by the window (Little's law). 1 when times and rate agree.
    pub little: Option<f64>,
    /// The exact command that produced the row.
    pub command: String,
    /// Open loop: how gaps are drawn.
    pub arrivals: Option<Arrivals>,
    /// Open loop: sends more than a millisecond behind schedule, in percent.
    pub behind_percent: Option<f64>,
    /// Every byte of every response was compared.
    pub verified: bool,
    /// Responses that differed from their requests.
    pub mismatches: u64,
    /// Requests sent again.
    pub resends: u64,
    /// Requests never answered.
    pub unanswered: u64,
    /// Of a warm-up that waits for the median to stand still: whether it did in every run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
    /// Seed of payload and gaps.
    pub seed: u64,
    /// Why the machine was not ours alone.
    pub contention: Vec<String>,
    /// Why the row must not be used, if so: the first void run's reason.
    pub void: Option<String>,
    /// The offered load was more than the system carries: what of it was not answered, or not sent. A result; `rate_per_s` is what was
    /// carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overloaded: Option<String>,
    /// CPU time for each request with its response, both ends together, in ns.
    #[serde(default)]
    pub cpu_ns_per_op: Option<f64>,
    /// Whose, and where.
    #[serde(default)]
    pub cpu: Option<CpuPerOp>,
    /// Between two machines: how both ends wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Between two machines: why the other end's CPU is not known, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_unknown: Option<String>,
    /// A run failed, and those after it were not made: which, and why. The figures are of the runs before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
    /// `service`; of an open loop `response` and `send_lag`, too.
    #[serde(default, skip_serializing)]
    pub histograms: Histograms,
}

crate::histograms::bench_row!(MsgRow, |_| "msg");

/// What a row is made from besides its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct CellInfo {
    /// The system.
    pub name: SystemName,
    /// The workload.
    pub workload: MsgWorkload,
    /// State of the cores.
    pub idle_state: IdleState,
    /// The exact command that produces the row.
    pub command: String,
}

impl std::fmt::Display for CellInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let w = &self.workload;
        write!(f, "{}, {} B, ", self.name, w.size)?;
        match w.rate {
            None => write!(f, "window {}", w.window),
            Some(rate) => write!(f, "open loop {rate}/s"),
        }
    }
}

impl MsgRow {
    /// Busy cores of a row on cores that were left to sleep, where they were so busy that they did not: an engine that polls for a while
    /// before it sleeps never does so in a closed loop that is faster.
    pub fn sleepless(&self) -> Option<f64> {
        let busy = self.cpu.as_ref().filter(|_| self.idle_state == IdleState::Cold)?.cores;
        (busy > SLEEPS_BELOW).then_some(busy)
    }

    /// The mode as tables show it.
    pub fn mode_shown(&self) -> String {
        crate::messages::mode_shown(&self.mode, self.idle.as_deref())
    }

    /// Makes the row of some runs of one cell: histograms merged, each run's own figures kept.
    pub fn from_runs(info: &CellInfo, runs: &[RunResult]) -> MsgRow {
        MsgRow::of_runs(info, &runs.iter().collect::<Vec<_>>())
    }

    pub(crate) fn of_runs(info: &CellInfo, runs: &[&RunResult]) -> MsgRow {
        let w = &info.workload;
        let open = w.rate.is_some();
        let mut service = Histogram::new();
        let mut response = Histogram::new();
        let mut send_lag: Option<Histogram> = None;
        let mut counts = RunCounts::default();
        let mut seconds = 0.0;
        let mut histograms = Histograms::default();
        for run in runs {
            service.merge(&run.service);
            histograms.push("service", &run.service);
            if let Some(r) = &run.response {
                response.merge(r);
                histograms.push("response", r);
            }
            if let Some(lag) = &run.send_lag {
                send_lag.get_or_insert_with(Histogram::new).merge(lag);
                histograms.push("send_lag", lag);
            }
            counts.add(&run.counts);
            seconds += run.measured.as_secs_f64();
        }
        // Of all runs together, as the mean of their round trips is: what Little's law compares.
        let carried = if seconds > 0.0 { counts.completed as f64 / seconds } else { 0.0 };
        let rtt_ns = RttNs::from(service.summary());
        let lines: Vec<RunLine> = runs.iter().map(|run| RunLine::of(run)).collect();
        let rate = median(lines.iter().map(|run| run.rate_per_s)).unwrap_or(0.0);
        let (cpu_ns_per_op, cpu) = per_op(runs.iter().map(|run| run.cpu.as_ref()));
        let other = OtherEnd::of_runs(runs.iter().map(|run| run.other_end.as_ref()));
        let (waits, cpu_unknown) = OtherEnd::keys(other);
        let mut overload: Option<Overload> = None;
        for run in runs.iter().filter_map(|run| run.overload()) {
            let sum = overload.get_or_insert(Overload { due: 0, unanswered: 0, unsent: 0, late: 0 });
            sum.unanswered += run.unanswered;
            sum.unsent += run.unsent;
            sum.late += run.late;
        }
        // Of all runs, those that carried everything included.
        let overload = overload.map(|sum| Overload { due: counts.sends + counts.unsent, ..sum });
        MsgRow {
            system: info.name.system.clone(),
            mode: info.name.mode.clone(),
            over: info.name.over.clone(),
            idle: info.name.idle.clone(),
            secure: info.name.is_secure(),
            size: w.size,
            window: w.window,
            connections: w.connections,
            engines: (w.engines > 1 && info.name.has_engines()).then_some(w.engines),
            queues: (w.queues > 1 && info.name.system == "barewire").then_some(w.queues),
            samples: service.samples(),
            rtt_ns,
            rtt_of_runs_ns: RunsNs {
                p50: OfRuns::over(lines.iter().map(|run| run.p50_ns)),
                p99: OfRuns::over(lines.iter().map(|run| run.p99_ns)),
                p99_9: OfRuns::over(lines.iter().map(|run| run.p99_9_ns)),
            },
            rate_per_s: tenth(rate),
            loop_kind: if open { LoopKind::Open } else { LoopKind::Closed },
            offered_per_s: w.rate,
            service_ns: open.then_some(rtt_ns),
            response_ns: open.then(|| RttNs::from(response.summary())),
            response_of_runs_ns: open.then(|| {
                let over = |of: fn(&ResponseNs) -> Option<u64>| {
                    OfRuns::over(lines.iter().map(|run| run.response.as_ref().and_then(of)))
                };
                RunsNs { p50: over(|r| r.p50), p99: over(|r| r.p99), p99_9: over(|r| r.p99_9) }
            }),
            send_lag_ns: send_lag.map(|lag| RttNs::from(lag.summary())),
            seconds,
            runs: lines,
            idle_state: info.idle_state,
            contended: runs.iter().any(|r| !r.contention.is_empty()),
            little: service
                .mean()
                .filter(|_| !open)
                .map(|mean_ns| thousandth(little_law_check(w.window, carried, mean_ns))),
            command: info.command.clone(),
            arrivals: open.then_some(w.arrivals),
            behind_percent: open.then(|| thousandth(counts.behind_percent())),
            verified: w.verify,
            mismatches: counts.mismatches,
            resends: counts.resends,
            unanswered: counts.unanswered,
            settled: runs.iter().filter_map(|run| run.settled).reduce(|a, b| a && b),
            seed: w.seed,
            contention: once_each(runs.iter().flat_map(|run| &run.contention)),
            void: runs.iter().find_map(|run| run.void()).map(|v| v.to_string()),
            overloaded: overload.map(|overload| overload.to_string()),
            cpu_ns_per_op,
            cpu,
            waits,
            cpu_unknown,
            broken_off: None,
            histograms,
        }
    }
}

impl RunLine {
    fn of(run: &RunResult) -> RunLine {
        RunLine {
            p50_ns: run.service.quantile(0.5).value(),
            p99_ns: run.service.quantile(0.99).value(),
            p99_9_ns: run.service.quantile(0.999).value(),
            response: run.response.as_ref().map(|response| ResponseNs {
                p50: response.quantile(0.5).value(),
                p99: response.quantile(0.99).value(),
                p99_9: response.quantile(0.999).value(),
            }),
            rate_per_s: tenth(run.rate_per_s()),
            samples: run.service.samples(),
            contended: !run.contention.is_empty(),
            cpu_ns_per_op: per_op([run.cpu.as_ref()].into_iter()).0,
            void: run.void().map(|v| v.to_string()),
            overloaded: run.overload().map(|o| o.to_string()),
            measured: run.begun.map(|begin| WallTime::of(begin, begin + run.measured)),
        }
    }
}

fn tenth(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

fn thousandth(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}
