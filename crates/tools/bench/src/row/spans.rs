//! Spans of rows and what they are asked for. Those of all runs together, as rows of messages have them: for each percentile the median, least
//! and most of the runs stand apart, and a run has its own percentiles flat.

use super::{Kind, Measure, NamedStat, Row, Value};
use crate::rounds::median;
use serde_json::{Map, Value as Json, json};

/// How documents have them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pooled {
    /// The spans of a run that they are of, by which the histograms are called, too.
    pub of: &'static str,
    /// The key of the row's percentiles over the runs ([`OfRuns`]); empty: it has none.
    pub of_runs: &'static str,
    /// The percentiles that each run has, and where: under a key, or `OBJECT.KEY`.
    pub in_run: &'static [(&'static str, &'static str)],
}

/// A percentile over the runs of a row, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfRuns {
    /// Median of the runs' own.
    pub median: u64,
    /// Of the best run.
    pub min: u64,
    /// Of the worst run.
    pub max: u64,
}

fn object_and_key(path: &'static str) -> (Option<&'static str>, &'static str) {
    path.split_once('.').map_or((None, path), |(object, key)| (Some(object), key))
}

impl Pooled {
    /// The keys of a run, with its percentiles; null: it is too short for one.
    pub(super) fn in_run(&self, measure: &Measure, value: &Value) -> Vec<(&'static str, Json)> {
        let mut entries: Vec<(&'static str, Json)> = Vec::new();
        let Kind::Spans(stats) = measure.kind else { return entries };
        for (stat, path) in self.in_run {
            let at = stats.iter().position(|(name, ..)| name == stat);
            let ns = json!(at.and_then(|at| value.stat(at)).map(|ns| ns as u64));
            let (object, key) = object_and_key(path);
            match (object, entries.last_mut()) {
                (None, _) => entries.push((key, ns)),
                (Some(object), Some((last, told))) if *last == object => told[key] = ns,
                (Some(object), _) => entries.push((object, json!({ key: ns }))),
            }
        }
        entries
    }

    /// The inverse, of a row or of one of its runs.
    pub(super) fn read(&self, key: &str, stats: &[NamedStat], of: &Map<String, Json>, in_run: bool) -> Value {
        let at = |stat: &str| {
            if !in_run {
                return of.get(key)?.get(stat);
            }
            let (_, path) = self.in_run.iter().find(|(known, _)| *known == stat)?;
            match object_and_key(path) {
                (Some(object), key) => of.get(object)?.get(key),
                (None, key) => of.get(key),
            }
        };
        let known: Vec<Option<&Json>> = stats.iter().map(|(stat, ..)| at(stat)).collect();
        if known.iter().all(Option::is_none) {
            return Value::None;
        }
        let samples = of.get("samples").and_then(Json::as_u64).unwrap_or_default();
        Value::Spans(samples, known.into_iter().map(|ns| ns.and_then(Json::as_f64)).collect())
    }
}

impl Row {
    /// Samples of the spans `key`, where it has them.
    pub fn samples_of(&self, key: &str) -> Option<u64> {
        super::json::samples(std::slice::from_ref(self.value(key)))
    }

    /// One statistic of the spans `key`, of all runs together.
    pub fn stat(&self, key: &str, stat: &str) -> Option<f64> {
        let (at, stat) = self.stat_at(key, stat)?;
        self.values[at].stat(stat)
    }

    /// The same of each run that has it.
    pub fn stat_of_runs(&self, key: &str, stat: &str) -> impl Iterator<Item = f64> {
        let at = self.stat_at(key, stat);
        self.runs.iter().filter_map(move |run| at.and_then(|(at, stat)| run.values[at].stat(stat)))
    }

    /// A percentile of the spans `key` over the runs. `None` when any run is too short for it, or there is none.
    pub fn over_runs(&self, key: &str, stat: &str) -> Option<OfRuns> {
        let (at, stat) = self.stat_at(key, stat)?;
        let each: Vec<f64> = self.runs.iter().map(|run| run.values[at].stat(stat)).collect::<Option<_>>()?;
        let whole = |ns: f64| ns as u64;
        Some(OfRuns {
            median: median(each.iter().copied())?.round() as u64,
            min: whole(each.iter().copied().fold(f64::INFINITY, f64::min)),
            max: whole(each.iter().copied().fold(0.0, f64::max)),
        })
    }

    /// The key of the percentiles over the runs of a measure that has them so, and what stands there.
    pub(super) fn each_of_runs(&self, measure: &Measure) -> Option<(&'static str, Json)> {
        let pooled = measure.pooled.filter(|pooled| !pooled.of_runs.is_empty())?;
        if *self.value(measure.key) == Value::None {
            return None;
        }
        let of = |stat: &str| {
            let OfRuns { median, min, max } = self.over_runs(measure.key, stat)?;
            Some(json!({ "median": median, "min": min, "max": max }))
        };
        let told: Map<_, _> =
            pooled.in_run.iter().map(|(stat, _)| ((*stat).to_owned(), json!(of(stat)))).collect();
        Some((pooled.of_runs, told.into()))
    }
}
