//! The histograms behind a row: by name, one for each run, so that runs can be compared and machines merged exactly.

use barewire_measure::{Histogram, HistogramError};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// The histograms of a row. A row is JSON without them; [`Results`](crate::Results) puts them back where they are wanted. Kept as
/// text (HDR V2, compressed, base64): a histogram takes 230 KB, its text some hundred bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histograms(BTreeMap<String, Vec<String>>);

impl Histograms {
    /// One more run of `name`. A run without a sample has no histogram.
    pub fn push(&mut self, name: &str, run: &Histogram) {
        if run.samples() > 0 {
            self.0.entry(name.to_owned()).or_default().push(run.to_base64());
        }
    }

    /// The runs of another, after these.
    pub fn extend(&mut self, other: &Histograms) {
        for (name, runs) in &other.0 {
            self.0.entry(name.clone()).or_default().extend_from_slice(runs);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Name and runs of each.
    ///
    /// # Errors
    /// When text that came from another process is no histogram.
    pub fn runs(&self) -> Result<Vec<(&str, Vec<Histogram>)>, HistogramError> {
        self.0
            .iter()
            .map(|(name, runs)| {
                let runs = runs.iter().map(|text| Histogram::from_base64(text)).collect::<Result<_, _>>()?;
                Ok((name.as_str(), runs))
            })
            .collect()
    }

    /// All runs of each name as one, as text.
    ///
    /// # Errors
    /// As [`runs`](Histograms::runs).
    pub fn merged(&self) -> Result<BTreeMap<&str, String>, HistogramError> {
        let all = self.runs()?.into_iter().map(|(name, runs)| {
            let mut sum = Histogram::new();
            runs.iter().for_each(|run| sum.merge(run));
            (name, sum.to_base64())
        });
        Ok(all.collect())
    }
}

/// From a row that has them: each counts as one run.
impl<'de> Deserialize<'de> for Histograms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Histograms, D::Error> {
        let texts = BTreeMap::<String, String>::deserialize(deserializer)?;
        for text in texts.values() {
            Histogram::from_base64(text).map_err(D::Error::custom)?;
        }
        Ok(Histograms(texts.into_iter().map(|(name, text)| (name, vec![text])).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ns: u64, n: u64) -> Histogram {
        let mut h = Histogram::new();
        h.record_n(ns, n);
        h
    }

    #[test]
    fn runs_stay_apart_and_merge_exactly() {
        let mut all = Histograms::default();
        all.push("rtt", &of(1_000, 5));
        all.push("rtt", &of(2_000, 7));
        all.push("rtt", &Histogram::new());
        all.push("service", &of(3_000, 1));
        let runs = all.runs().unwrap();
        assert_eq!(runs.iter().map(|(n, r)| (*n, r.len())).collect::<Vec<_>>(), [("rtt", 2), ("service", 1)]);
        let merged = all.merged().unwrap();
        let rtt = Histogram::from_base64(&merged["rtt"]).unwrap();
        assert_eq!(rtt.samples(), 12);
        let mut sum = of(1_000, 5);
        sum.merge(&of(2_000, 7));
        assert_eq!(rtt.buckets().collect::<Vec<_>>(), sum.buckets().collect::<Vec<_>>());
    }

    #[test]
    fn only_histograms_are_read() {
        let json = serde_json::json!({ "latency": of(70, 3).to_base64() });
        let read: Histograms = serde_json::from_value(json).unwrap();
        assert_eq!(read.runs().unwrap()[0].1[0].samples(), 3);
        for bad in [r#"{"latency":"HISTFAAA"}"#, r#"{"latency":5}"#, r#"["x"]"#] {
            assert!(serde_json::from_str::<Histograms>(bad).is_err(), "{bad}");
        }
    }
}
