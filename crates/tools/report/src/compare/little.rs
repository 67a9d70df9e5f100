//! Little's law for any row: throughput times latency is what is in flight.

use crate::figure::{Stat, figures, is_simulated};
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
    /// Requests that were kept in flight, over all threads.
    pub window: f64,
    /// The one over the other: 1 when times and rate agree.
    pub ratio: f64,
    /// Where the mean came from.
    pub from: MeanFrom,
    /// The time is a part of what was in flight: connections that are being closed are, too. Then the ratio may be as small as it likes,
    /// but not above 1.
    pub partial: bool,
}

impl Little {
    /// Times and rate agree; a median stands for a mean only roughly.
    pub fn agrees(&self) -> bool {
        let tolerance = if self.from == MeanFrom::Median { 2.0 * LITTLE_TOLERANCE } else { LITTLE_TOLERANCE };
        self.off() <= tolerance
    }

    /// How far the ratio is from where it may be.
    fn off(&self) -> f64 {
        let over = self.ratio - 1.0;
        if self.partial { over } else { over.abs() }
    }

    /// Times and rate contradict each other.
    pub fn broken(&self) -> bool {
        self.from != MeanFrom::Median && self.off() > LITTLE_BROKEN
    }
}

/// Checks a closed-loop row. `None` for an open loop, and where window, rate or time is not told.
pub fn little(row: &Map<String, Value>, histogram: Option<&Histogram>) -> Option<Little> {
    if row.get("loop").and_then(Value::as_str) == Some("open") {
        return None;
    }
    let count = |key: &str| row.get(key).and_then(Value::as_f64);
    let window = count("window").filter(|w| *w >= 1.0)?;
    // Each thread of each host keeps a window of connections open.
    let connections = row.contains_key("connections_per_s");
    let threads = |key: &str| if connections { count(key).unwrap_or(1.0) } else { 1.0 };
    // Of several hosts' rows in one the rates were added up, and each kept a window of its own.
    let merged = row.get("per_host").and_then(Value::as_array).map_or(1.0, |hosts| hosts.len().max(1) as f64);
    // The rows of connections may say how many hosts there are, each of the same number.
    let hosts = threads("hosts").max(merged);
    let in_flight = match count("clients").filter(|_| is_simulated(row)) {
        // Each client of a lab in virtual time keeps a window of its own; its hosts are servers, too.
        Some(clients) => clients.max(1.0),
        None => threads("threads") * hosts,
    };
    let window = window * in_flight;
    // Nobody, or more than can be counted: no bench verb writes that, and the law says nothing about it.
    let whole = (1.0..=f64::from(u32::MAX)).contains(&window).then_some(window as u32)?;
    let partial = connections && row.get("teardown") == Some(&Value::Bool(true));
    let told = |ratio: f64, from| Little { in_flight: ratio * window, window, ratio, from, partial };
    let of = |mean_ns: f64, rate: f64, from| told(little_law_check(whole, rate, mean_ns), from);
    let all = figures(row);
    let rate = all.iter().find(|f| ["rate_per_s", "connections_per_s"].contains(&f.path.as_str()));
    let rate = rate.and_then(|f| f.value);
    let time = |stat: Stat| all.iter().find(|f| f.stat == stat).and_then(|f| f.value);
    if let (Some(mean), Some(rate)) = (histogram.and_then(Histogram::mean), rate) {
        return Some(of(mean, rate, MeanFrom::Histogram));
    }
    if let Some(ratio) = row.get("little").and_then(Value::as_f64) {
        return Some(told(ratio, MeanFrom::Row));
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
    /// Rows of connections as they stand in `benches/runs`: two threads of two hosts, and a window of 64.
    #[test]
    fn connections_that_are_closed_again_are_in_flight_for_longer_than_their_time() {
        let rc = |teardown: bool, rate: f64, more: &str| {
            row(&format!(
                r#"{{"system":"barewire","mode":"embedded","over":"xdp","threads":2,"hosts":2,"nics":1,"window":64,"teardown":{teardown},
                "live_qps":0,"connections_per_s":{rate:?},"latency_ns":{{"samples":871851,"mean":210543.1,"p50":218879}}{more}}}"#
            ))
        };
        let told = little(&rc(true, 173_961.0, r#","little":0.143"#), None).unwrap();
        assert_eq!((told.from, told.window, told.partial), (MeanFrom::Row, 256.0, true));
        assert!(told.agrees() && !told.broken(), "{told:?}");
        // Of a row without the key: rate times mean time, over all threads.
        let computed = little(&rc(true, 173_961.0, ""), None).unwrap();
        assert!((computed.in_flight - 36.6).abs() < 0.1 && computed.agrees(), "{computed:?}");
        // More in flight than there were contradicts the row, whatever is closed meanwhile.
        let over = little(&rc(true, 1_700_000.0, ""), None).unwrap();
        assert!(over.ratio > 1.25 && !over.agrees() && over.broken(), "{over:?}");
        let slightly = little(&rc(true, 1.0, r#","little":1.15"#), None).unwrap();
        assert!(!slightly.agrees() && !slightly.broken());
        // Three hosts, each with one request in flight: their rates were added up.
        let hosts = row(
            r#"{"rate_per_s":100000.0,"window":1,"loop":"closed","samples":100000,"rtt_ns":{"mean":29000.0},"per_host":[{},{},{}]}"#,
        );
        let told = little(&hosts, None).unwrap();
        assert!(told.window == 3.0 && told.agrees(), "{told:?}");
        // No threads at all: nothing was in flight, and nothing can be said.
        assert_eq!(
            little(
                &row(r#"{"window":1,"threads":0,"connections_per_s":1.0,"latency_ns":{"mean":1.0}}"#),
                None
            ),
            None
        );
        // Without closing the law holds both ways.
        assert!(little(&rc(false, 173_961.0, ""), None).unwrap().broken());
    }
}
