//! One histogram for a whole run, and the rule that keeps thin percentiles out of tables.

use crate::histogram_log::Layout;
use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest span that a histogram tells apart, in ns: 100 s. Longer ones count as this long.
pub const MAX_NS: u64 = 100_000_000_000;

/// Most samples that one call or one log may add: nine years at a million a second. Sums of counts then cannot wrap.
pub(crate) const SAMPLES_MAX: u64 = 1 << 48;

/// A histogram of spans in ns: 1 ns to [`MAX_NS`] with three significant digits (each value within 0.1 %).
///
/// All of its memory (about 230 KB) is taken when it is made; recording allocates nothing. Minimum, maximum and mean
/// are kept exactly beside it; a histogram that comes out of a log has them as exactly as the log does.
#[derive(Clone, Debug)]
pub struct Histogram {
    hdr: Hdr<u64>,
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        let hdr = Hdr::new_with_bounds(Layout::LOWEST_NS, MAX_NS, Layout::DIGITS)
            .expect("constant bounds are valid");
        Histogram { hdr, min_ns: u64::MAX, max_ns: 0, sum_ns: 0 }
    }

    /// Counts one span of `ns`.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Counts `n` spans of `ns`; at most 2^48 in one call.
    #[inline]
    pub fn record_n(&mut self, ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        let n = n.min(SAMPLES_MAX);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns = self.sum_ns.saturating_add(u128::from(ns) * u128::from(n));
        self.hdr.saturating_record_n(ns.min(MAX_NS), n);
    }

    /// Counts `n` spans of a bucket of a log: all that is known is that they lie in `low..=high`.
    pub(crate) fn record_bucket(&mut self, low: u64, high: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.min_ns = self.min_ns.min(low);
        self.max_ns = self.max_ns.max(high);
        self.sum_ns = self.sum_ns.saturating_add(u128::from(low.midpoint(high)) * u128::from(n));
        self.hdr.saturating_record_n(low.min(MAX_NS), n);
    }

    /// Adds every sample of `other`: histograms of several threads or machines merge without loss.
    pub fn merge(&mut self, other: &Histogram) {
        self.hdr.add(&other.hdr).expect("all histograms have the same bounds");
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Forgets every sample and keeps the memory.
    pub fn reset(&mut self) {
        self.hdr.reset();
        (self.min_ns, self.max_ns, self.sum_ns) = (u64::MAX, 0, 0);
    }

    /// Samples recorded.
    pub fn samples(&self) -> u64 {
        self.hdr.len()
    }

    /// Shortest span in ns, exact. `None` without samples.
    pub fn min(&self) -> Option<u64> {
        (self.samples() > 0).then_some(self.min_ns)
    }

    /// Longest span in ns, exact even beyond [`MAX_NS`]. `None` without samples.
    pub fn max(&self) -> Option<u64> {
        (self.samples() > 0).then_some(self.max_ns)
    }

    /// Mean span in ns. `None` without samples.
    pub fn mean(&self) -> Option<f64> {
        (self.samples() > 0).then(|| self.sum_ns as f64 / self.samples() as f64)
    }

    /// The span that a share `q` (0 to 1) of the samples does not exceed, if there are [`samples_needed`] for it.
    pub fn quantile(&self, q: f64) -> Quantile {
        let (samples, needed) = (self.samples(), samples_needed(q));
        if samples < needed {
            return Quantile::Insufficient { samples, needed };
        }
        // A bucket ends above its largest sample: no quantile may print larger than the maximum beside it.
        Quantile::Value(self.hdr.value_at_quantile(q).clamp(self.min_ns, self.max_ns))
    }

    /// The figures of a table row.
    pub fn summary(&self) -> Summary {
        let at = |q| self.quantile(q).value();
        Summary {
            samples: self.samples(),
            min: self.min(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.max(),
            mean: self.mean(),
        }
    }

    /// Every bucket that holds samples, as (largest span of the bucket in ns, samples), ascending: what a plot draws.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.hdr.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    pub(crate) fn hdr(&self) -> &Hdr<u64> {
        &self.hdr
    }
}

/// Samples without which the percentile `q` (0 to 1) is not told.
///
/// 20 for the median and 200 up to p90 (and as far from the other end); beyond, 100 / (1 - q), so that a hundred
/// samples lie above it: 10,000 for p99, 100,000 for p99.9. A `q` of 0 or 1 or outside is never told
/// ([`u64::MAX`]): ask for the minimum or maximum.
pub fn samples_needed(q: f64) -> u64 {
    if !(q > 0.0 && q < 1.0) {
        return u64::MAX;
    }
    match q.max(1.0 - q) {
        q if q <= 0.5 => 20,
        q if q <= 0.9 => 200,
        // Rounded, because 1 - q is not exact in binary and 100,001 would be a strange rule.
        q => (100.0 / (1.0 - q)).round() as u64,
    }
}

/// A percentile, or why there is none. Prints as the number or as `n<needed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantile {
    /// The span in ns.
    Value(u64),
    /// Too few samples.
    Insufficient {
        /// Samples there are.
        samples: u64,
        /// Samples that [`samples_needed`] asks for.
        needed: u64,
    },
}

impl Quantile {
    /// The span in ns, if there is one.
    pub fn value(self) -> Option<u64> {
        match self {
            Quantile::Value(ns) => Some(ns),
            Quantile::Insufficient { .. } => None,
        }
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantile::Value(ns) => f.pad(&ns.to_string()),
            Quantile::Insufficient { needed, .. } => f.pad(&format!("n<{needed}")),
        }
    }
}

/// The figures of a table row, in ns. A percentile with too few samples is `None`.
///
/// Serialises as its [`RttNs`], to which a report adds `samples` under that name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "RttNs")]
pub struct Summary {
    /// Samples recorded.
    pub samples: u64,
    /// Shortest span.
    pub min: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p99_9: Option<u64>,
    /// Longest span.
    pub max: Option<u64>,
    /// Mean, for Little's law.
    pub mean: Option<f64>,
}

/// The object under `rtt_ns` in every JSON that barewire prints: ns, `null` where samples are too few.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RttNs {
    /// Shortest span.
    pub min: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p99_9: Option<u64>,
    /// Longest span.
    pub max: Option<u64>,
}

impl From<Summary> for RttNs {
    fn from(s: Summary) -> RttNs {
        RttNs { min: s.min, p50: s.p50, p90: s.p90, p99: s.p99, p99_9: s.p99_9, max: s.max }
    }
}

/// One line for people, percentiles that are not told as `n<needed`.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "samples {}", self.samples)?;
        for (name, value, q) in [
            ("min", self.min, None),
            ("p50", self.p50, Some(0.5)),
            ("p90", self.p90, Some(0.9)),
            ("p99", self.p99, Some(0.99)),
            ("p99.9", self.p99_9, Some(0.999)),
            ("max", self.max, None),
        ] {
            match (value, q) {
                (Some(ns), _) => write!(f, "  {name} {ns}")?,
                (None, Some(q)) => write!(f, "  {name} n<{}", samples_needed(q))?,
                (None, None) => write!(f, "  {name} -")?,
            }
        }
        f.write_str(" ns")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_want_their_samples() {
        let wanted = [(0.5, 20), (0.75, 200), (0.9, 200), (0.95, 2_000), (0.99, 10_000), (0.999, 100_000)];
        for (q, needed) in wanted {
            assert_eq!(samples_needed(q), needed, "q {q}");
            let mut h = Histogram::new();
            h.record_n(7, needed - 1);
            assert_eq!(h.quantile(q), Quantile::Insufficient { samples: needed - 1, needed });
            h.record(7);
            assert_eq!(h.quantile(q), Quantile::Value(7));
        }
        assert_eq!(samples_needed(0.9999), 1_000_000);
        assert_eq!(samples_needed(0.01), 10_000);
        for q in [0.0, 1.0, -1.0, 1.5, f64::NAN] {
            assert_eq!(samples_needed(q), u64::MAX);
        }
    }

    #[test]
    fn thin_summaries_are_null_and_print_what_is_missing() {
        let mut h = Histogram::new();
        assert_eq!(serde_json::to_string(&h.summary()).unwrap(), EMPTY);
        assert_eq!(
            h.summary().to_string(),
            "samples 0  min -  p50 n<20  p90 n<200  p99 n<10000  p99.9 n<100000  max - ns"
        );
        for ns in 1..=200 {
            h.record(ns);
        }
        assert_eq!(
            serde_json::to_string(&h.summary()).unwrap(),
            r#"{"min":1,"p50":100,"p90":180,"p99":null,"p99_9":null,"max":200}"#
        );
        assert_eq!(h.mean(), Some(100.5));
        assert_eq!(format!("{:>8}", h.quantile(0.99)), " n<10000");
        let read: RttNs = serde_json::from_str(EMPTY).unwrap();
        assert_eq!(read, Histogram::new().summary().into());
    }
    const EMPTY: &str = r#"{"min":null,"p50":null,"p90":null,"p99":null,"p99_9":null,"max":null}"#;

    #[test]
    fn spans_out_of_range_saturate_and_the_extremes_stay_exact() {
        let mut h = Histogram::new();
        h.record_n(0, 100);
        h.record_n(u64::MAX, 100);
        assert_eq!((h.samples(), h.min(), h.max()), (200, Some(0), Some(u64::MAX)));
        let Quantile::Value(p90) = h.quantile(0.9) else { panic!("200 samples are enough for p90") };
        assert!(p90.abs_diff(MAX_NS) <= MAX_NS / 1000, "{p90}");
        h.record_n(5, u64::MAX);
        h.record_n(5, u64::MAX);
        assert_eq!(h.quantile(0.5), Quantile::Value(5));
        h.reset();
        assert_eq!((h.samples(), h.min(), h.max(), h.mean()), (0, None, None, None));
    }

    /// Spans of all magnitudes.
    fn spans() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec((0u32..37, any::<u64>()).prop_map(|(bits, x)| x >> (63 - bits)), 200..600)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn quantiles_are_those_of_the_sorted_samples(spans in spans(), per_mille in 100u32..=900) {
            let mut h = Histogram::new();
            spans.iter().for_each(|&ns| h.record(ns));
            let mut sorted = spans.clone();
            sorted.sort_unstable();
            let q = f64::from(per_mille) / 1000.0;
            let exact = sorted[((q * sorted.len() as f64).ceil() as usize).max(1) - 1].min(MAX_NS);
            let Quantile::Value(told) = h.quantile(q) else { panic!("200 samples are enough") };
            prop_assert!(told >= exact.min(MAX_NS), "told {told}, sorted {exact}");
            prop_assert!(told - exact <= exact / 1000, "told {told}, sorted {exact}");
            prop_assert_eq!(h.min(), sorted.first().copied());
            prop_assert_eq!(h.max(), sorted.last().copied());
            let mean = spans.iter().map(|&ns| ns as f64).sum::<f64>() / spans.len() as f64;
            prop_assert!((h.mean().unwrap() - mean).abs() <= mean * 1e-9 + 1e-9);
        }

        #[test]
        fn merged_halves_are_the_whole(spans in spans(), at in 0usize..200) {
            let (mut whole, mut left, mut right) = (Histogram::new(), Histogram::new(), Histogram::new());
            spans.iter().for_each(|&ns| whole.record(ns));
            spans[..at].iter().for_each(|&ns| left.record(ns));
            spans[at..].iter().for_each(|&ns| right.record(ns));
            left.merge(&right);
            prop_assert_eq!(left.summary(), whole.summary());
            prop_assert!(left.buckets().eq(whole.buckets()));
        }
    }
}
