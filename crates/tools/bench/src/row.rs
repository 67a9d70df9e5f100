//! One shape for every measurement.
//!
//! A [`Row`] says *who* was measured ([`Subject`]: `system`, `mode`, `engine`, `over`), doing *what* (its bench and [`Param`]s, each with a
//! unit), and *what came out*: for each [`Measure`] a number or the percentiles of a [`Histogram`], over all runs and of each run; in which
//! state the machine was, and whether the row must not be used and why. What only one program knows is one more measure, never a field.
//!
//! How a figure of several runs comes about is said once, here: a rate, a cost and a percentile are the median of the runs' own, a count is
//! their sum. As JSON a row is flat: each parameter and each measure is a key of the row, and of each run. Two more keys explain the others to
//! whoever reads the document: `params` has the unit of each parameter, `measures` unit, direction and words of each measure.

use crate::histograms::{BenchRow, Histograms};
use crate::messages::IdleState;
use crate::rounds::{Together, median};
use crate::when::When;
use barewire_measure::{ContentionReport, Histogram};
use barewire_report::compare::{Method, Standing, standing};
use barewire_report::figure::Better;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value as Json, json};

/// Units of measures and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unit {
    Ns,
    PerSecond,
    GbitPerSecond,
    MbitPerSecond,
    Bytes,
    Count,
    None,
}

impl Unit {
    /// As documents say it; `barewire_report` reads the words.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::PerSecond => "/s",
            Unit::GbitPerSecond => "Gbit/s",
            Unit::MbitPerSecond => "Mbit/s",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::None => "",
        }
    }
}

/// One setting of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its key in the row.
    pub key: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Text, a number, or yes or no.
    pub value: Json,
}

impl Param {
    /// A setting with a unit.
    pub fn new(key: &'static str, unit: Unit, value: impl Into<Json>) -> Param {
        Param { key, unit, value: value.into() }
    }

    /// One without.
    pub fn word(key: &'static str, value: impl Into<Json>) -> Param {
        Param::new(key, Unit::None, value)
    }

    /// As tables show it.
    pub fn shown(&self) -> String {
        match &self.value {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// A statistic of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Stat {
    Min,
    Mean,
    Max,
    Quantile(f64),
}

/// A statistic with its key in the row's object, and the head of its column (empty: it has none).
pub type NamedStat = (&'static str, &'static str, Stat);

/// What a figure is of, and how runs become one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A number: the median of the runs.
    Median,
    /// A count: the sum of the runs.
    Sum,
    /// A word, of the row as a whole.
    Word,
    /// Spans in ns: for each statistic the median of the runs; the shortest and the longest of all.
    Spans(&'static [NamedStat]),
}

/// One thing that comes out of a measurement: a key of rows and runs, and a column of tables.
#[derive(Debug, PartialEq)]
pub struct Measure {
    /// Its key.
    pub key: &'static str,
    /// The head of its column; empty: it has none. Of spans its statistics have theirs.
    pub head: &'static str,
    /// What a report calls it.
    pub words: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Which way it should go; `None`: neither, it explains others.
    pub better: Option<Better>,
    /// How runs become one figure.
    pub kind: Kind,
    /// What it is rounded to.
    pub step: f64,
}

impl Measure {
    /// A rate: more is better.
    pub const fn rate(key: &'static str, head: &'static str, words: &'static str) -> Measure {
        let (unit, better) = (Unit::PerSecond, Some(Better::Higher));
        Measure { key, head, words, unit, better, kind: Kind::Median, step: 1.0 }
    }

    /// Time that one of something takes, in ns: less is better.
    pub const fn cost(key: &'static str, head: &'static str, words: &'static str) -> Measure {
        let (unit, better) = (Unit::Ns, Some(Better::Lower));
        Measure { key, head, words, unit, better, kind: Kind::Median, step: 0.1 }
    }

    /// Spans in ns, as these statistics.
    pub const fn spans(key: &'static str, words: &'static str, stats: &'static [NamedStat]) -> Measure {
        let (unit, better) = (Unit::Ns, Some(Better::Lower));
        Measure { key, head: "", words, unit, better, kind: Kind::Spans(stats), step: 1.0 }
    }

    /// A count over all runs that explains others.
    pub const fn count(key: &'static str, head: &'static str) -> Measure {
        Measure { key, head, words: key, unit: Unit::Count, better: None, kind: Kind::Sum, step: 1.0 }
    }

    /// A word that explains others.
    pub const fn word(key: &'static str, head: &'static str) -> Measure {
        Measure { key, head, words: key, unit: Unit::None, better: None, kind: Kind::Word, step: 1.0 }
    }

    /// The same in another unit, rounded to `step`.
    pub const fn in_unit(self, unit: Unit, step: f64) -> Measure {
        Measure { unit, step, ..self }
    }

    /// The same, as the median of runs that explains others.
    pub const fn neutral(self) -> Measure {
        Measure { better: None, kind: Kind::Median, ..self }
    }

    fn rounded(&self, value: f64) -> f64 {
        // A step below one is divided by its inverse, or 0.1 would leave 0.30000000000000004.
        if self.step >= 1.0 {
            (value / self.step).round() * self.step
        } else {
            let inverse = (1.0 / self.step).round();
            (value * inverse).round() / inverse
        }
    }
}

/// The usual statistics of spans.
pub const SPANS: &[NamedStat] = &[
    ("min", "", Stat::Min),
    ("mean", "", Stat::Mean),
    ("p50", "p50", Stat::Quantile(0.5)),
    ("p90", "", Stat::Quantile(0.9)),
    ("p99", "99 %", Stat::Quantile(0.99)),
    ("p99_9", "99.9 %", Stat::Quantile(0.999)),
    ("max", "", Stat::Max),
];

/// What came out for one measure.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Not measured.
    #[default]
    None,
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
    /// The statistics of spans, in the order of the measure's; `None`: too few samples for it.
    Spans(u64, Vec<Option<f64>>),
}

impl Value {
    fn of_spans(stats: &[NamedStat], histogram: &Histogram) -> Value {
        let at = |stat: Stat| match stat {
            Stat::Min => histogram.min().map(|ns| ns as f64),
            Stat::Max => histogram.max().map(|ns| ns as f64),
            Stat::Mean => histogram.mean().map(|ns| (ns * 10.0).round() / 10.0),
            Stat::Quantile(q) => histogram.quantile(q).value().map(|ns| ns as f64),
        };
        Value::Spans(histogram.samples(), stats.iter().map(|(.., stat)| at(*stat)).collect())
    }

    /// The number, or the median of spans.
    pub fn number(&self, measure: &Measure) -> Option<f64> {
        match (self, measure.kind) {
            (Value::Number(n), _) => Some(*n),
            (Value::Spans(_, values), Kind::Spans(stats)) => {
                stats.iter().position(|(.., stat)| *stat == Stat::Quantile(0.5)).and_then(|at| values[at])
            }
            _ => None,
        }
    }
}

/// Who was measured, and doing what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subject {
    /// The bench: `port`, `feed-decoders`, `rc-data`.
    pub bench: &'static str,
    /// `barewire`, or what it is compared with.
    pub system: String,
    /// How it runs, or waits.
    pub mode: Option<String>,
    /// What works in it.
    pub engine: Option<String>,
    /// What lies between the ends.
    pub over: Option<String>,
    /// What it was asked to do.
    pub params: Vec<Param>,
    /// State of the cores.
    pub idle_state: Option<IdleState>,
    /// The exact command that produces the row.
    pub command: String,
}

impl Subject {
    /// Who and what in one line.
    pub fn title(&self) -> String {
        let mut text = self.system.clone();
        for part in [&self.mode, &self.engine].into_iter().flatten() {
            text += &format!(" {part}");
        }
        if let Some(over) = &self.over {
            text += &format!(" over {over}");
        }
        for param in &self.params {
            text += &match (&param.value, param.unit) {
                (Json::String(word), _) => format!(", {word}"),
                (value, Unit::Bytes) => format!(", {value} B"),
                (value, _) => format!(", {} {value}", param.key.replace('_', " ")),
            };
        }
        text
    }
}

/// What one run gave.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    numbers: Vec<(&'static str, f64)>,
    spans: Vec<(&'static str, Histogram)>,
    contended: bool,
    contention: Vec<String>,
    /// Why the run is void, if it is.
    pub void: Option<String>,
    /// When it measured.
    pub when: Option<When>,
}

impl Measured {
    /// With a number for the measure `key`.
    #[must_use]
    pub fn number(mut self, key: &'static str, value: f64) -> Measured {
        self.numbers.push((key, value));
        self
    }

    /// With spans for the measure `key`.
    #[must_use]
    pub fn spans(mut self, key: &'static str, histogram: Histogram) -> Measured {
        self.spans.push((key, histogram));
        self
    }

    /// With what the watch saw of others on our cores.
    #[must_use]
    pub fn watched(mut self, report: &ContentionReport) -> Measured {
        (self.contended, self.contention) = (report.contended, report.reasons.clone());
        self
    }

    fn value(&self, measure: &Measure) -> Value {
        match measure.kind {
            Kind::Spans(stats) => {
                self.histogram(measure.key).map_or(Value::None, |h| Value::of_spans(stats, h))
            }
            _ => {
                let found = self.numbers.iter().find(|(key, _)| *key == measure.key);
                found.map_or(Value::None, |(_, value)| Value::Number(measure.rounded(*value)))
            }
        }
    }

    fn histogram(&self, key: &str) -> Option<&Histogram> {
        self.spans.iter().find(|(known, _)| *known == key).map(|(_, histogram)| histogram)
    }
}

/// One run of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// For each measure.
    pub values: Vec<Value>,
    /// Another process ran on our cores, or the hypervisor took them.
    pub contended: bool,
    /// Why the run is void, if it is.
    pub void: Option<String>,
    /// When it measured.
    pub when: Option<When>,
}

/// Everything that is known about one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Who and what.
    pub subject: Subject,
    /// What is measured.
    pub measures: &'static [Measure],
    /// What came out, for each measure, over all runs.
    pub values: Vec<Value>,
    /// Each run.
    pub runs: Vec<Run>,
    /// Some run was contended.
    pub contended: bool,
    /// Why.
    pub contention: Vec<String>,
    /// What a reader has to know.
    pub notes: Vec<String>,
    /// Why it could not be measured at all, if so.
    pub missing: Option<String>,
    /// Why the row must not be used, if so.
    pub void: Option<String>,
    /// A run failed, and those after it were not made: which, and why. The figures are of the runs before it.
    pub broken_off: Option<String>,
    /// Of each run, by the measure's key without its unit.
    pub histograms: Histograms,
}

impl Row {
    /// The row of some runs.
    pub fn of(subject: Subject, measures: &'static [Measure], runs: &[Measured]) -> Row {
        let mut together = Together::default();
        let mut histograms = Histograms::default();
        let each: Vec<Run> = runs
            .iter()
            .map(|run| Run {
                values: measures.iter().map(|measure| run.value(measure)).collect(),
                contended: run.contended,
                void: run.void.clone(),
                when: run.when,
            })
            .collect();
        let mut values = Vec::with_capacity(measures.len());
        for (at, measure) in measures.iter().enumerate() {
            let numbers = || each.iter().filter_map(|run| run.values[at].number(measure));
            values.push(match measure.kind {
                Kind::Median => median(numbers()).map_or(Value::None, |n| Value::Number(measure.rounded(n))),
                Kind::Word => Value::None,
                Kind::Sum => numbers().reduce(|a, b| a + b).map_or(Value::None, Value::Number),
                Kind::Spans(stats) => {
                    let mut pooled = Histogram::new();
                    for histogram in runs.iter().filter_map(|run| run.histogram(measure.key)) {
                        pooled.merge(histogram);
                        histograms.push(measure.key.trim_end_matches("_ns"), histogram);
                    }
                    over_runs(stats, &pooled, at, &each, &mut together)
                }
            });
        }
        let mut contention: Vec<String> = Vec::new();
        for reason in runs.iter().flat_map(|run| &run.contention) {
            if !contention.contains(reason) {
                contention.push(reason.clone());
            }
        }
        Row {
            subject,
            measures,
            values,
            contended: each.iter().any(|run| run.contended),
            contention,
            notes: together.note().into_iter().collect(),
            missing: None,
            void: each.iter().find_map(|run| run.void.clone()),
            broken_off: None,
            histograms,
            runs: each,
        }
    }

    /// A row that should be there, and why it is not.
    pub fn missing(subject: Subject, measures: &'static [Measure], why: impl Into<String>) -> Row {
        Row { missing: Some(why.into()), ..Row::of(subject, measures, &[]) }
    }

    fn at(&self, key: &str) -> Option<usize> {
        self.measures.iter().position(|measure| measure.key == key)
    }

    /// The figure of the measure `key`: a number, or the median of spans.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.at(key).and_then(|at| self.values[at].number(&self.measures[at]))
    }

    /// Sets the figure of the measure `key`, which no run has by itself.
    pub fn set(&mut self, key: &str, value: f64) {
        if let Some(at) = self.at(key) {
            self.values[at] = Value::Number(self.measures[at].rounded(value));
        }
    }

    /// Sets the word of the measure `key`.
    pub fn set_word(&mut self, key: &str, word: impl Into<String>) {
        if let Some(at) = self.at(key) {
            self.values[at] = Value::Word(word.into());
        }
    }

    /// The word of the measure `key`.
    pub fn word(&self, key: &str) -> Option<&str> {
        match &self.values[self.at(key)?] {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    /// The figure of the measure `key` of each run that is not void.
    pub fn of_runs(&self, key: &str) -> Vec<f64> {
        let Some(at) = self.at(key) else { return Vec::new() };
        let usable = self.runs.iter().filter(|run| run.void.is_none());
        usable.filter_map(|run| run.values[at].number(&self.measures[at])).collect()
    }

    /// The parameter `key` as tables show it.
    pub fn param(&self, key: &str) -> Option<String> {
        self.subject.params.iter().find(|param| param.key == key).map(Param::shown)
    }

    /// Whether its figures may be compared with others.
    pub fn is_usable(&self) -> bool {
        self.void.is_none() && self.missing.is_none()
    }

    /// How it stands beside `other` by one measure: `None` when one of them must not be used or has no runs, and of measures that have no
    /// better.
    pub fn standing(&self, other: &Row, measure: &Measure) -> Option<Standing> {
        let better = measure.better.filter(|_| self.is_usable() && other.is_usable())?;
        standing(&self.of_runs(measure.key), &other.of_runs(measure.key), better, &Method::default())
    }
}

fn over_runs(
    stats: &[NamedStat],
    pooled: &Histogram,
    at: usize,
    runs: &[Run],
    together: &mut Together,
) -> Value {
    let Value::Spans(samples, all) = Value::of_spans(stats, pooled) else { return Value::None };
    let of = |run: &Run, stat: usize| match &run.values[at] {
        Value::Spans(_, values) => values[stat],
        _ => None,
    };
    let measured = || runs.iter().filter(|run| matches!(run.values[at], Value::Spans(..)));
    if measured().next().is_none() {
        return Value::None;
    }
    let each = stats.iter().enumerate().map(|(stat, (key, head, what))| match what {
        Stat::Min | Stat::Max => all[stat],
        Stat::Mean => median(measured().filter_map(|run| of(run, stat))).or(all[stat]),
        Stat::Quantile(_) => {
            let name = if head.is_empty() { key } else { head };
            let whole = |ns: Option<f64>| ns.map(|ns| ns as u64);
            let runs = measured().map(|run| whole(of(run, stat)));
            together.percentile(name, runs, whole(all[stat])).map(|ns| ns as f64)
        }
    });
    Value::Spans(samples, each.collect())
}

/// A value as JSON; whole numbers where the measure has no parts.
fn json_of(measure: &Measure, value: &Value) -> Json {
    let whole = |n: f64| json!(n as i64);
    match (value, measure.kind) {
        (Value::None, _) => Json::Null,
        (Value::Word(word), _) => json!(word),
        (Value::Number(n), _) if measure.unit == Unit::Count && n.fract() == 0.0 => whole(*n),
        (Value::Number(n), _) => json!(n),
        (Value::Spans(samples, values), Kind::Spans(stats)) => {
            let mut object = serde_json::Map::new();
            object.insert("samples".to_owned(), json!(samples));
            for ((key, _, stat), value) in stats.iter().zip(values) {
                let told =
                    value.map_or(Json::Null, |ns| if *stat == Stat::Mean { json!(ns) } else { whole(ns) });
                object.insert((*key).to_owned(), told);
            }
            object.into()
        }
        (Value::Spans(..), _) => Json::Null,
    }
}

/// Samples of the first spans, which stand at the row as at the run.
fn samples(values: &[Value]) -> Option<u64> {
    values.iter().find_map(|value| match value {
        Value::Spans(samples, _) => Some(*samples),
        _ => None,
    })
}

struct RunJson<'a>(&'a Row, &'a Run);

impl Serialize for RunJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunJson(row, run) = self;
        let mut map = serializer.serialize_map(None)?;
        if let Some(samples) = samples(&run.values) {
            map.serialize_entry("samples", &samples)?;
        }
        for (measure, value) in
            row.measures.iter().zip(&run.values).filter(|(_, value)| **value != Value::None)
        {
            map.serialize_entry(measure.key, &json_of(measure, value))?;
        }
        map.serialize_entry("contended", &run.contended)?;
        if run.void.is_some() {
            map.serialize_entry("void", &run.void)?;
        }
        if let Some(when) = &run.when {
            map.serialize_entry("measured", when)?;
        }
        map.end()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let who = &self.subject;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("system", &who.system)?;
        for (key, value) in [("mode", &who.mode), ("engine", &who.engine), ("over", &who.over)] {
            if value.is_some() {
                map.serialize_entry(key, value)?;
            }
        }
        for param in &who.params {
            map.serialize_entry(param.key, &param.value)?;
        }
        if let Some(samples) = samples(&self.values) {
            map.serialize_entry("samples", &samples)?;
        }
        for (measure, value) in self.measures.iter().zip(&self.values) {
            map.serialize_entry(measure.key, &json_of(measure, value))?;
        }
        map.serialize_entry("runs", &self.runs.iter().map(|run| RunJson(self, run)).collect::<Vec<_>>())?;
        if let Some(state) = &who.idle_state {
            map.serialize_entry("idle_state", state)?;
        }
        map.serialize_entry("contended", &self.contended)?;
        map.serialize_entry("contention", &self.contention)?;
        map.serialize_entry("notes", &self.notes)?;
        map.serialize_entry("void", &self.void)?;
        for (key, value) in [("missing", &self.missing), ("broken_off", &self.broken_off)] {
            if value.is_some() {
                map.serialize_entry(key, value)?;
            }
        }
        map.serialize_entry("command", &who.command)?;
        let units: serde_json::Map<_, _> =
            who.params.iter().map(|param| (param.key.to_owned(), param.unit.word().into())).collect();
        map.serialize_entry("params", &units)?;
        let explained: serde_json::Map<_, _> = self
            .measures
            .iter()
            .map(|m| (m.key.to_owned(), json!({"unit": m.unit.word(), "better": m.better, "words": m.words})))
            .collect();
        map.serialize_entry("measures", &explained)?;
        map.end()
    }
}

impl BenchRow for Row {
    fn bench(&self) -> &'static str {
        self.subject.bench
    }

    fn histograms(&self) -> &Histograms {
        &self.histograms
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const MEASURES: &[Measure] = &[
        Measure::rate("rate_pps", "packets/s", "packets"),
        Measure::cost("ns_per_packet", "ns/packet", "time a packet"),
        Measure::spans("latency_ns", "latency", SPANS),
        Measure::count("lost", "lost"),
        Measure::count("mtu", "").neutral(),
    ];

    pub(crate) fn subject(system: &str) -> Subject {
        Subject {
            bench: "test",
            system: system.to_owned(),
            over: Some("mem".to_owned()),
            params: vec![Param::new("size", Unit::Bytes, 64), Param::word("what", "frames")],
            command: "barewire bench test".to_owned(),
            ..Subject::default()
        }
    }

    pub(crate) fn run(rate: f64, ns: u64, samples: u64) -> Measured {
        let mut spans = Histogram::new();
        spans.record_n(ns, samples);
        let run = Measured::default().number("rate_pps", rate).number("ns_per_packet", 1e9 / rate);
        run.spans("latency_ns", spans).number("lost", 1.0).number("mtu", 1500.0)
    }

    #[test]
    fn a_figure_is_the_median_of_the_runs_and_a_count_their_sum() {
        let row = Row::of(
            subject("barewire"),
            MEASURES,
            &[run(1e6, 100, 9_000), run(4e6, 300, 600), run(2e6, 200, 500)],
        );
        assert_eq!((row.number("rate_pps"), row.number("ns_per_packet")), (Some(2e6), Some(500.0)));
        assert_eq!((row.number("lost"), row.number("mtu")), (Some(3.0), Some(1500.0)));
        assert_eq!(
            row.number("latency_ns"),
            Some(200.0),
            "a fast run with many samples weighs as much as another"
        );
        assert_eq!(row.of_runs("rate_pps"), [1e6, 4e6, 2e6]);
        let even = Row::of(subject("barewire"), MEASURES, &[run(1e6, 100, 30), run(2e6, 200, 30)]);
        assert_eq!(
            (even.number("rate_pps"), even.number("latency_ns")),
            (Some(1.5e6), Some(150.0)),
            "one rule"
        );
        // No run carries its 99th percentile, all together do, and that is said.
        assert!(row.notes[0].starts_with("99 %: of all runs together"), "{:?}", row.notes);
    }

    #[test]
    fn a_row_is_flat_and_explains_itself() {
        let mut void = run(1e6, 100, 30);
        void.void = Some("late".to_owned());
        let row = Row::of(subject("barewire"), MEASURES, &[void, run(2e6, 200, 30)]);
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(
            (&json["system"], &json["over"], &json["size"]),
            (&json!("barewire"), &json!("mem"), &json!(64))
        );
        assert_eq!(
            (&json["rate_pps"], &json["lost"], &json["samples"]),
            (&json!(1.5e6), &json!(2), &json!(60))
        );
        assert_eq!(json["latency_ns"]["min"], json!(100));
        assert_eq!(json["latency_ns"]["p99"], Json::Null, "60 samples do not carry it");
        assert_eq!((&json["runs"][1]["rate_pps"], &json["runs"][0]["void"]), (&json!(2e6), &json!("late")));
        assert_eq!((&json["void"], row.of_runs("rate_pps")), (&json!("late"), vec![2e6]));
        assert_eq!(json["params"], json!({"size": "bytes", "what": ""}));
        assert_eq!(
            json["measures"]["rate_pps"],
            json!({"unit": "/s", "better": "higher", "words": "packets"})
        );
        assert_eq!(json["measures"]["lost"]["better"], Json::Null);
        assert_eq!(row.histograms.runs().unwrap()[0].1.len(), 2);
    }

    #[test]
    fn what_must_not_be_used_stands_beside_nothing() {
        let runs = |rate: f64| [0.99, 1.0, 1.01, 1.0, 1.0].map(|by| run(rate * by, 100, 30));
        let ours = Row::of(subject("barewire"), MEASURES, &runs(4e6));
        let mut theirs = Row::of(subject("other"), MEASURES, &runs(1e6));
        let words = ours.standing(&theirs, &MEASURES[0]).unwrap().words("other");
        assert!(words.starts_with("4.00 (") && words.ends_with("times faster than other"), "{words}");
        assert_eq!(ours.standing(&theirs, &MEASURES[3]), None, "a count has no better");
        theirs.void = Some("wrong".to_owned());
        assert_eq!(ours.standing(&theirs, &MEASURES[0]), None);
        assert!(!Row::missing(subject("x"), MEASURES, "not here").is_usable());
    }
}
