//! What rows about the feed handler have.

use crate::row::{Measure, NamedStat, Param, Row, Stat, Subject, Unit};
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

/// The statistics of the published tables.
const STATISTICS: &[NamedStat] = &[
    ("min", "min us", Stat::Min),
    ("median", "median", Stat::Quantile(0.5)),
    ("mean", "mean", Stat::Mean),
    ("p95", "95 %", Stat::Quantile(0.95)),
    ("p99", "99 %", Stat::Quantile(0.99)),
    ("p99_9", "99.9 %", Stat::Quantile(0.999)),
    ("max", "max", Stat::Max),
];

/// From one point to the other.
pub(super) const LATENCY: Measure = Measure::spans("latency_ns", "latency", STATISTICS).shown_in_us();

/// What is measured, the spans first.
pub(crate) const MEASURES: &[Measure] = &[
    LATENCY,
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

/// Whose row it is; points say the base. `values` are those of [`PARAMS`].
pub(crate) fn subject(engine: &str, values: [Json; 8], command: &str) -> Subject {
    let param = |(key, value)| match key {
        "base" => Param::quiet(key, value),
        "lines" => Param::usually(key, value, "a"),
        "keep_warm" => Param::usually(key, value, true),
        _ => Param::word(key, value),
    };
    Subject {
        bench: "feed",
        system: "barewire".to_owned(),
        engine: Some(engine.to_owned()),
        params: PARAMS.into_iter().zip(values).map(param).collect(),
        command: command.to_owned(),
        ..Subject::default()
    }
}

/// Whether the row's spans begin at the receive stamp.
pub fn is_stamped(row: &Row) -> bool {
    row.param("base").as_deref() == Some("stamp")
}
