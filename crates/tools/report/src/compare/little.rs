//! Little's law for any row: throughput times latency is what is in flight.

use crate::figure::{Stat, figures};
use barewire_measure::{Histogram, little_law_check};
use serde_json::{Map, Value};

/// How far times and rate may disagree before a row says so. Warm-up, drain and rounding explain a few percent.
pub const LITTLE_TOLERANCE: f64 = 0.1;
/// How far they may disagree before its times are not believed.
pub const LITTLE_BROKEN: f64 = 0.25;

/// Where the mean time came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MeanFrom {
    /// The row's histogram.
    Histogram,
    /// The row itself: its mean, or what the bench verb computed from it.
    Row,
    /// The median, for want of a mean: only a rough check.
    Median,
}

/// The check of one row.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Little {
    /// Requests in flight that rate and mean time imply.
    pub in_flight: f64,
    /// Requests that were kept in flight.
    pub window: f64,
    /// The one over the other: 1 when times and rate agree.
    pub ratio: f64,
    /// Where the mean came from.
    pub from: MeanFrom,
}

impl Little {
    /// Times and rate agree; a median stands for a mean only roughly.
    pub fn agrees(&self) -> bool {
        let tolerance = if self.from == MeanFrom::Median { 2.0 * LITTLE_TOLERANCE } else { LITTLE_TOLERANCE };
        (self.ratio - 1.0).abs() <= tolerance
    }

    /// Times and rate contradict each other.
    pub fn broken(&self) -> bool {
        self.from != MeanFrom::Median && (self.ratio - 1.0).abs() > LITTLE_BROKEN
    }
}

/// Checks a closed-loop row. `None` for an open loop, and where window, rate or time is not told.
pub fn little(row: &Map<String, Value>, histogram: Option<&Histogram>) -> Option<Little> {
    if row.get("loop").and_then(Value::as_str) == Some("open") {
        return None;
    }
    let window = row.get("window").and_then(Value::as_f64).filter(|w| *w >= 1.0)?;
    let of = |mean_ns: f64, rate: f64, from| {
        let ratio = little_law_check(window as u32, rate, mean_ns);
        Little { in_flight: ratio * window, window, ratio, from }
    };
    let all = figures(row);
    let rate = all.iter().find(|f| f.path == "rate_per_s").and_then(|f| f.value);
    let time = |stat: Stat| all.iter().find(|f| f.stat == stat).and_then(|f| f.value);
    if let (Some(mean), Some(rate)) = (histogram.and_then(Histogram::mean), rate) {
        return Some(of(mean, rate, MeanFrom::Histogram));
    }
    if let Some(ratio) = row.get("little").and_then(Value::as_f64) {
        return Some(Little { in_flight: ratio * window, window, ratio, from: MeanFrom::Row });
    }
    if let (Some(mean), Some(rate)) = (time(Stat::Mean), rate) {
        return Some(of(mean, rate, MeanFrom::Row));
    }
    Some(of(time(Stat::Quantile(0.5))?, rate?, MeanFrom::Median))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_best_mean_there_is_decides() {
        let text =
            r#"{"window":32,"samples":100000,"rate_per_s":1000000.0,"rtt_ns":{"p50":30000},"loop":"closed"}"#;
        let from_median = little(&row(text), None).unwrap();
        assert_eq!((from_median.from, from_median.in_flight), (MeanFrom::Median, 30.0));
        assert!(from_median.agrees() && !from_median.broken());
        let mut h = Histogram::new();
        h.record_n(64_000, 100);
        let from_histogram = little(&row(text), Some(&h)).unwrap();
        assert_eq!((from_histogram.from, from_histogram.ratio), (MeanFrom::Histogram, 2.0));
        assert!(from_histogram.broken());
        let told = little(&row(r#"{"window":1,"little":0.98}"#), None).unwrap();
        assert!(told.agrees() && told.from == MeanFrom::Row);
        assert_eq!(little(&row(r#"{"window":1,"little":0.98,"loop":"open"}"#), None), None);
        assert_eq!(little(&row(r#"{"rate_per_s":1.0}"#), None), None);
    }
}
