//! What rows about the feed handler have.

use crate::row::{Measure, NamedStat, Param, Row, Stat, Subject, Unit};
use barewire_measure::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

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
}

/// The same as statistics of a row's spans.
const LATENCY: &[NamedStat] = &[
    ("min", "min us", Stat::Min),
    ("median", "median", Stat::Quantile(0.5)),
    ("mean", "mean", Stat::Mean),
    ("p95", "95 %", Stat::Quantile(0.95)),
    ("p99", "99 %", Stat::Quantile(0.99)),
    ("p99_9", "99.9 %", Stat::Quantile(0.999)),
    ("max", "max", Stat::Max),
];

/// What is measured, the spans first.
pub(crate) const MEASURES: &[Measure] = &[
    Measure::spans("latency_ns", "latency", LATENCY),
    Measure::cost("median_ns", "", "median of a run").neutral().in_unit(Unit::Ns, 1.0),
    // Who took t3: `kernel`, `hardware`, `engine`. Of application-only rows `none`: t3 is not part of them.
    Measure::word("stamp_source", "stamp"),
    // On each line.
    Measure::count("sent", ""),
    // Not handed to the listener.
    Measure::count("lost", ""),
    Measure::rate("sent_pps", "sent/s", "sent").neutral(),
    // UDP payload of a packet.
    Measure::count("mean_bytes", "").neutral().in_unit(Unit::Bytes, 0.1),
    // Each span contains about one reading of the clock.
    Measure::cost("clock_ns", "", "a reading of the clock").neutral().in_unit(Unit::Ns, 1.0),
];

/// What a row was asked for, in the order of its keys: between which points and the same as points, which callback is t5, the time between two
/// packets (0: as fast as they are sent), which packets, of how many instruments, on which lines, and whether the channel rehearsed meanwhile.
pub(crate) const PARAMS: [&str; 8] =
    ["base", "points", "what", "gap_us", "workload", "instruments", "lines", "keep_warm"];

/// Whose row it is; `values` are those of [`PARAMS`].
pub(crate) fn subject(engine: &str, values: [Json; 8], command: &str) -> Subject {
    Subject {
        bench: "feed",
        system: "barewire".to_owned(),
        engine: Some(engine.to_owned()),
        params: PARAMS.into_iter().zip(values).map(|(key, value)| Param::word(key, value)).collect(),
        command: command.to_owned(),
        ..Subject::default()
    }
}

/// Whether the row's spans begin at the receive stamp.
pub fn is_stamped(row: &Row) -> bool {
    row.param("base").as_deref() == Some("stamp")
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
}
