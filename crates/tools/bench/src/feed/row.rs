//! A row about the feed handler.

use crate::histograms::{BenchRow, Histograms};
use crate::rounds::{Together, median};
use barewire_measure::Histogram;
use serde::{Deserialize, Serialize};

/// Between which two points a span was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// t4 to t5: from the engine that hands a packet over to the callback.
    App,
    /// t3 to t5: from the receive stamp to the callback.
    Stamp,
}

impl Base {
    /// The two points.
    pub fn points(self) -> &'static str {
        match self {
            Base::App => "t4..t5",
            Base::Stamp => "t3..t5",
        }
    }
}

/// The statistics of the published tables, in ns. `None`: too few samples for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct FeedLatency {
    pub min: Option<u64>,
    pub median: Option<u64>,
    pub mean: Option<f64>,
    pub p95: Option<u64>,
    pub p99: Option<u64>,
    pub p99_9: Option<u64>,
    pub max: Option<u64>,
}

impl FeedLatency {
    /// Of a histogram.
    pub fn of(histogram: &Histogram) -> FeedLatency {
        let at = |q| histogram.quantile(q).value();
        FeedLatency {
            min: histogram.min(),
            median: at(0.5),
            mean: histogram.mean().map(|ns| (ns * 10.0).round() / 10.0),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: histogram.max(),
        }
    }

    /// Of several runs: the median of theirs, and the least and the longest of all. Where each run is too short for a percentile it is that
    /// of all samples together, `pooled`, which is said: what a reader has to know comes second.
    pub fn of_runs(runs: &[FeedRun], pooled: &Histogram) -> (FeedLatency, Option<String>) {
        let all = FeedLatency::of(pooled);
        let mut together = Together::default();
        let mut at = |name, of: fn(&FeedLatency) -> Option<u64>| {
            together.percentile(name, runs.iter().map(|run| of(&run.latency_ns)), of(&all))
        };
        let latency = FeedLatency {
            min: all.min,
            median: at("median", |l| l.median),
            mean: median(runs.iter().filter_map(|run| run.latency_ns.mean)).or(all.mean),
            p95: at("95 %", |l| l.p95),
            p99: at("99 %", |l| l.p99),
            p99_9: at("99.9 %", |l| l.p99_9),
            max: all.max,
        };
        (latency, together.note())
    }
}

/// One run of a row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FeedRun {
    /// Samples.
    pub samples: u64,
    /// Median, in ns.
    pub median_ns: Option<u64>,
    /// All of its statistics.
    #[serde(default)]
    pub latency_ns: FeedLatency,
    /// Packets per second that were sent in the measured part.
    pub sent_pps: f64,
    /// Packets that were sent and not handed to the listener.
    pub lost: u64,
    /// Another process ran on our cores, or the hypervisor took them.
    pub contended: bool,
    /// Why the run is void, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
}

/// One row: all runs together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeedRow {
    /// `barewire`.
    pub system: String,
    /// `mem`, `socket`, `socket-spin`, `packet`, `xdp`, `xdp-park`, `onload`.
    pub engine: String,
    /// Between which points.
    pub base: Base,
    /// The same as points: `t4..t5`.
    pub points: String,
    /// `message` or `book`: which callback is t5.
    pub what: String,
    /// Time between two packets, in us; 0: as fast as they are sent.
    pub gap_us: u64,
    /// `one-entry` or `channel`.
    pub workload: String,
    /// Instruments of the channel.
    pub instruments: u32,
    /// Lines that carry each packet: `a` or `ab`.
    pub lines: String,
    /// The channel rehearsed while nothing came.
    pub keep_warm: bool,
    /// Mean UDP payload of a packet, in bytes.
    pub mean_bytes: f64,
    /// Samples.
    pub samples: u64,
    /// The spans: medians of the runs' statistics, the least and the longest of all.
    pub latency_ns: FeedLatency,
    /// Who took t3: `kernel`, `hardware`, `engine`. Of application-only rows `none`: t3 is not part of them.
    pub stamp_source: String,
    /// Packets sent on each line, over all runs.
    pub sent: u64,
    /// Packets that were not handed to the listener.
    pub lost: u64,
    /// Packets per second that were sent: the median of the runs.
    pub sent_pps: f64,
    /// Cost of one reading of the clock, in ns; each span contains about one.
    pub clock_ns: u64,
    /// Each run.
    pub runs: Vec<FeedRun>,
    /// Some run was contended.
    pub contended: bool,
    /// Why.
    #[serde(default)]
    pub contention: Vec<String>,
    /// What a reader has to know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Why the row must not be used, if so.
    pub void: Option<String>,
    /// A run failed, and those after it were not made: which, and why. The figures are of the runs before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
    /// The exact command that produced the row.
    pub command: String,
    /// `latency`.
    #[serde(default, skip_serializing)]
    pub histograms: Histograms,
}

impl BenchRow for FeedRow {
    fn bench(&self) -> &'static str {
        "feed"
    }

    fn histograms(&self) -> &Histograms {
        &self.histograms
    }
}

impl FeedRow {
    /// What the row is about, in one line.
    pub fn title(&self) -> String {
        let pace = match self.gap_us {
            0 => "back to back".to_owned(),
            us => format!("{us} us gaps"),
        };
        format!("{} {}, {}, {pace}, {}", self.engine, self.points, self.what, self.workload)
    }

    /// Whether `other` differs in the engine only.
    pub fn same_but_engine(&self, other: &FeedRow) -> bool {
        let key = |r: &FeedRow| {
            (r.base, r.what.clone(), r.gap_us, r.workload.clone(), r.instruments, r.lines.clone())
        };
        key(self) == key(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thin_percentiles_are_not_told() {
        let mut histogram = Histogram::new();
        for ns in 1..=3_000 {
            histogram.record(ns);
        }
        let latency = FeedLatency::of(&histogram);
        assert_eq!((latency.min, latency.median, latency.max), (Some(1), Some(1500), Some(3000)));
        assert!(latency.p95.is_some(), "2,000 samples carry it");
        assert_eq!((latency.p99, latency.p99_9), (None, None));
        assert_eq!(latency.mean, Some(1500.5));
        let json = serde_json::to_string(&latency).unwrap();
        assert!(json.contains("\"p99_9\":null"), "{json}");
    }

    #[test]
    fn a_slow_run_with_few_samples_weighs_as_much_as_a_fast_one_with_many() {
        let mut pooled = Histogram::new();
        let mut run = |ns: u64, samples: u64| {
            let mut one = Histogram::new();
            one.record_n(ns, samples);
            pooled.merge(&one);
            FeedRun { samples, latency_ns: FeedLatency::of(&one), ..FeedRun::default() }
        };
        let runs = [run(100, 9_000), run(200, 500), run(300, 600)];
        let (latency, note) = FeedLatency::of_runs(&runs, &pooled);
        assert_eq!((latency.median, latency.min, latency.max), (Some(200), Some(100), Some(300)));
        assert_eq!(latency.mean, Some(200.0));
        // No run carries its 99th percentile, all together do, and that is said.
        assert_eq!((latency.p99, latency.p99_9), (FeedLatency::of(&pooled).p99, None));
        assert!(latency.p99.is_some());
        assert!(note.unwrap().contains("99 %: of all runs together"));
    }
}
