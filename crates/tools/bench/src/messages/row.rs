//! A row of messages: who asked and answered, with how many requests outstanding or on which schedule, and what came of all runs.
//!
//! A row's rate is the median of its runs, as everywhere. Its cost and the percentiles under `rtt_ns` and `response_ns` are of all runs
//! together, as all are of one length; what verdicts are made of, the runs' own percentiles, stands beside them under `rtt_of_runs_ns` and
//! `response_of_runs_ns`.

use crate::cpu::{PER_OP, per_op};
use crate::messages::driver::{Overload, RunCounts, RunResult};
use crate::messages::{MsgWorkload, SystemName};
use crate::row::{Measure, Measured, NamedStat, Param, Pooled, Row, Stat, Subject, Unit, Value};
use crate::wall_clock::WallTime;
use barewire_measure::{Histogram, little_law_check};
use barewire_report::report::SLEEPS_BELOW;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

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

/// The bench that rows of messages are of.
const BENCH: &str = "msg";

/// The statistics of an object such as `rtt_ns`.
const STATS: &[NamedStat] = &[
    ("min", "", Stat::Min),
    ("p50", "p50", Stat::Quantile(0.5)),
    ("p90", "", Stat::Quantile(0.9)),
    ("p99", "p99", Stat::Quantile(0.99)),
    ("p99_9", "p99.9", Stat::Quantile(0.999)),
    ("max", "max", Stat::Max),
];

/// From the send call (t1) to the response in the application (t5): a closed loop's round trip, an open loop's service time.
const SERVICE: Pooled = Pooled {
    of: "service",
    of_runs: "rtt_of_runs_ns",
    in_run: &[("p50", "p50_ns"), ("p99", "p99_ns"), ("p99_9", "p99_9_ns")],
};
/// Open loop: from the intended send (t0) to the response (t5).
const RESPONSE: Pooled = Pooled {
    of: "response_ns",
    of_runs: "response_of_runs_ns",
    in_run: &[("p50", "response.p50"), ("p99", "response.p99"), ("p99_9", "response.p99_9")],
};

/// A figure of all runs that explains others.
const fn ratio(key: &'static str, step: f64) -> Measure {
    Measure::count(key, "").neutral().in_unit(Unit::None, step)
}

/// What is measured.
const MEASURES: &[Measure] = &[
    Measure::spans("rtt_ns", "round trip", STATS).pooled(SERVICE),
    Measure::rate("rate_per_s", "rate/s", "rate").in_unit(Unit::PerSecond, 0.1),
    // An open loop's once more, under a name that is no round trip's.
    Measure::spans("service_ns", "service", STATS).pooled(Pooled {
        of: "service_ns",
        of_runs: "",
        in_run: &[],
    }),
    Measure::spans("response_ns", "response", STATS).pooled(RESPONSE),
    // From the intended send (t0) to the send call (t1), of sends that nothing held back: what the generator itself adds to every response
    // time.
    Measure {
        better: None,
        ..Measure::spans("send_lag_ns", "send lag", STATS).pooled(Pooled {
            of: "send_lag_ns",
            of_runs: "",
            in_run: &[],
        })
    },
    ratio("seconds", 1e-9),
    // Closed loop: rate times mean round trip, divided by the window (Little's law). 1 when times and rate agree.
    ratio("little", 0.001),
    // Open loop: sends more than a millisecond behind schedule, in percent.
    ratio("behind_percent", 0.001),
    Measure::count("mismatches", ""),
    Measure::count("resends", "resends"),
    Measure::count("unanswered", ""),
    // Of a warm-up that waits for the median to stand still: whether it did in every run.
    Measure::word("settled", ""),
    // The offered load was more than the system carries: what of it was not answered, or not sent. A result; `rate_per_s` is what was
    // carried.
    Measure::word("overloaded", ""),
];

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

impl CellInfo {
    /// The row of some runs: histograms merged, each run's own figures kept.
    pub fn row<'a>(&self, runs: impl IntoIterator<Item = &'a RunResult>) -> Row {
        let runs: Vec<&RunResult> = runs.into_iter().collect();
        let each: Vec<Measured> = runs.iter().map(|run| measured(run)).collect();
        let mut row = Row::of(self.subject(), MEASURES, &each);
        self.take_all(&mut row, &runs);
        row
    }

    fn subject(&self) -> Subject {
        let (name, w) = (&self.name, &self.workload);
        let open = w.rate.is_some();
        let engines = (w.engines > 1 && name.has_engines()).then_some(w.engines);
        let queues = (w.queues > 1 && name.system == "barewire").then_some(w.queues);
        let mut params: Vec<Param> = Vec::new();
        params.extend(name.idle.as_ref().map(|idle| Param::word("idle", idle.clone())));
        params.push(Param::implied("secure", name.is_secure()));
        params.push(Param::new("size", Unit::Bytes, w.size));
        params.push(Param::word("window", w.window));
        params.push(Param::usually("connections", w.connections, 1));
        params.extend(engines.map(|engines| Param::word("engines", engines)));
        params.extend(queues.map(|queues| Param::word("queues", queues)));
        params.push(Param::usually("loop", if open { "open" } else { "closed" }, "closed"));
        params.push(Param::new("offered_per_s", Unit::PerSecond, w.rate));
        params.push(Param::word("arrivals", json!(open.then_some(w.arrivals))));
        params.push(Param::usually("verified", w.verify, false));
        params.push(Param::quiet("seed", w.seed));
        Subject {
            bench: BENCH,
            system: name.system.clone(),
            mode: Some(name.mode.clone()),
            over: Some(name.over.clone()),
            params,
            idle_state: Some(self.idle_state),
            command: self.command.clone(),
            ..Subject::default()
        }
    }

    /// Takes in what all runs are together and no run is by itself.
    fn take_all(&self, row: &mut Row, runs: &[&RunResult]) {
        let open = self.workload.rate.is_some();
        let (mut service, mut counts, mut seconds) = (Histogram::new(), RunCounts::default(), 0.0);
        for run in runs {
            service.merge(&run.service);
            counts.add(&run.counts);
            seconds += run.measured.as_secs_f64();
        }
        // As the mean of the round trips is: what Little's law compares. The row's rate is the median of the runs.
        let carried = if seconds > 0.0 { counts.completed as f64 / seconds } else { 0.0 };
        row.set("seconds", seconds);
        if open {
            row.put("service_ns", row.value("rtt_ns").clone());
            row.set("behind_percent", counts.behind_percent());
        } else if let Some(mean_ns) = service.mean() {
            row.set("little", little_law_check(self.workload.window, carried, mean_ns));
        }
        if let Some(settled) = runs.iter().filter_map(|run| run.settled).reduce(|a, b| a && b) {
            row.set_word("settled", settled);
        }
        let sum = runs.iter().filter_map(|run| run.overload()).reduce(|sum, run| Overload {
            unanswered: sum.unanswered + run.unanswered,
            unsent: sum.unsent + run.unsent,
            late: sum.late + run.late,
            ..sum
        });
        if let Some(sum) = sum {
            // Of all runs, those that carried everything included.
            let overload = Overload { due: counts.sends + counts.unsent, ..sum };
            row.set_word("overloaded", overload.to_string());
        }
        let (per_op, parts) = per_op(runs.iter().map(|run| run.cpu.as_ref()));
        row.put(PER_OP, per_op.map_or(Value::None, Value::Number));
        row.cpu = parts;
    }
}

fn measured(run: &RunResult) -> Measured {
    let counts = &run.counts;
    let mut told = Measured::default()
        .metered(run.cpu, run.other_end.clone())
        .contended(&run.contention)
        .spans(SERVICE.of, run.service.clone())
        .number("rate_per_s", run.rate_per_s())
        .number("mismatches", counts.mismatches as f64)
        .number("resends", counts.resends as f64)
        .number("unanswered", counts.unanswered as f64);
    for (key, histogram) in [(RESPONSE.of, &run.response), ("send_lag_ns", &run.send_lag)] {
        if let Some(histogram) = histogram {
            told = told.spans(key, histogram.clone());
        }
    }
    if let Some(settled) = run.settled {
        told = told.word("settled", settled);
    }
    if let Some(overload) = run.overload() {
        told = told.word("overloaded", overload.to_string());
    }
    told.void = run.void().map(|void| void.to_string());
    told.when = run.begun.map(|begin| WallTime::of(begin, begin + run.measured));
    told
}

/// A row of messages as a document has it, of either schema.
///
/// # Errors
/// What cannot be read of it.
pub fn read(row: Map<String, Json>) -> Result<Row, serde_json::Error> {
    let text = |key: &str| row.get(key).and_then(Json::as_str).map(str::to_owned);
    let param = |key: &'static str, unit: Unit| Some(Param::new(key, unit, row.get(key)?.clone()));
    let usually = |key: &'static str, usual: Json| Some(Param::usually(key, row.get(key)?.clone(), usual));
    let params = [
        param("idle", Unit::None),
        row.get("secure").map(|secure| Param::implied("secure", secure.clone())),
        param("size", Unit::Bytes),
        param("window", Unit::None),
        usually("connections", json!(1)),
        param("engines", Unit::None),
        param("queues", Unit::None),
        usually("loop", json!("closed")),
        param("offered_per_s", Unit::PerSecond),
        param("arrivals", Unit::None),
        usually("verified", json!(false)),
        row.get("seed").map(|seed| Param::quiet("seed", seed.clone())),
    ];
    let subject = Subject {
        bench: BENCH,
        system: text("system").unwrap_or_default(),
        mode: text("mode"),
        over: text("over"),
        params: params.into_iter().flatten().collect(),
        idle_state: row.get("idle_state").map(IdleState::deserialize).transpose()?,
        command: text("command").unwrap_or_default(),
        ..Subject::default()
    };
    Row::read(subject, MEASURES, row)
}

/// The words of the parameter `key`; empty: it has none.
pub(crate) fn word<'a>(row: &'a Row, key: &str) -> &'a str {
    row.setting(key).and_then(Json::as_str).unwrap_or_default()
}

/// Requests per second that were offered: an open loop.
pub(crate) fn offered(row: &Row) -> Option<f64> {
    row.setting("offered_per_s").and_then(Json::as_f64)
}

/// Requests outstanding at once (closed loop), or at most (open loop).
pub(crate) fn window(row: &Row) -> u64 {
    row.setting("window").and_then(Json::as_u64).unwrap_or_default()
}

/// Whether it is an open loop's: what a request waited for its turn is a part of its time.
pub(crate) fn is_open(row: &Row) -> bool {
    word(row, "loop") == "open"
}

/// In which state the cores were, in a word.
pub(crate) fn state(row: &Row) -> &'static str {
    row.subject.idle_state.map_or("", IdleState::word)
}

/// The mode as tables show it.
pub(crate) fn mode_shown(row: &Row) -> String {
    let mode = row.subject.mode.as_deref().unwrap_or_default();
    super::mode_shown(mode, row.setting("idle").and_then(Json::as_str))
}

/// Busy cores of a row on cores that were left to sleep, where they were so busy that they did not: an engine that polls for a while
/// before it sleeps never does so in a closed loop that is faster.
pub(crate) fn sleepless(row: &Row) -> Option<f64> {
    let is_cold = row.subject.idle_state == Some(IdleState::Cold);
    let busy = row.cpu.as_ref().filter(|_| is_cold)?.cores;
    (busy > SLEEPS_BELOW).then_some(busy)
}
