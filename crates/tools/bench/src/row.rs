//! One shape for every measurement.
//!
//! A [`Row`] says *who* was measured ([`Subject`]: `system`, `mode`, `engine`, `over`), doing *what* (its bench and [`Param`]s, each with a
//! unit), and *what came out*: for each [`Measure`] a number or the percentiles of a [`Histogram`], over all runs and of each run; in which
//! state the machine was, and whether the row must not be used and why. What only one program knows is one more measure, never a field.
//!
//! How a figure of several runs comes about is said once, here: a rate, a cost and a percentile are the median of the runs' own, a count is
//! their sum. As JSON a row is flat: each parameter and each measure is a key of the row, and of each run. Two more keys explain the others to
//! whoever reads the document: `params` has the unit of each parameter, `measures` unit, direction and words of each measure.

use crate::cpu::{CpuPerOp, CpuUse, PER_OP, per_op};
use crate::histograms::Histograms;
use crate::messages::IdleState;
use crate::rounds::{Together, median, once_each};
use crate::wall_clock::WallTime;
use barewire_measure::{ContentionReport, Histogram};
use barewire_report::compare::{Method, Standing, standing};
use barewire_report::figure::Better;
use serde::Deserialize;
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
#[derive(Clone, Copy, Debug, PartialEq)]
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

    /// Without parts by what it is: a count, or ns that are rounded to whole ones.
    fn is_whole(&self) -> bool {
        self.unit == Unit::Count || self.unit == Unit::Ns && self.step >= 1.0
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

/// What every row has besides its own measures: nobody has to ask for it.
const CPU: Measure = Measure::cost(PER_OP, "cpu/op", "CPU time an operation");

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

    /// The statistic at this place of those of spans.
    fn stat(&self, at: usize) -> Option<f64> {
        match self {
            Value::Spans(_, values) => values[at],
            _ => None,
        }
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
    pub when: Option<WallTime>,
    /// What its CPU is divided by; `None`: by the samples of its first spans.
    operations: Option<u64>,
    cpu: Option<CpuUse>,
    /// The CPU is of the whole run, set-up and warm-up included.
    cpu_of_all: bool,
}

impl Measured {
    /// With so many operations between [`Charge::begins`](crate::cpu::Charge::begins) and its end: what its CPU is divided by.
    #[must_use]
    pub fn operations(mut self, operations: u64) -> Measured {
        self.operations = Some(operations);
        self
    }

    /// With what it is charged for; `whole`: for setting it up, too.
    pub(crate) fn charged(mut self, used: CpuUse, whole: bool) -> Measured {
        let samples = self.spans.first().map(|(_, histogram)| histogram.samples());
        let used = used.of(self.operations.or(samples).unwrap_or_default());
        if let (Some(ns), _) = per_op([Some(&used)].into_iter()) {
            self.numbers.push((PER_OP, ns));
            (self.cpu, self.cpu_of_all) = (Some(used), whole);
        }
        self
    }

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
    pub when: Option<WallTime>,
}

/// Everything that is known about one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Who and what.
    pub subject: Subject,
    /// What is measured: its own measures, and `PER_OP`.
    pub measures: Vec<Measure>,
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
    /// The parts of its CPU, of all runs together, and how many cores were busy with it.
    pub cpu: Option<CpuPerOp>,
    /// Of each run, by the measure's key without its unit.
    pub histograms: Histograms,
}

impl Row {
    /// The row of some runs.
    pub fn of(subject: Subject, measures: &'static [Measure], runs: &[Measured]) -> Row {
        let measures = with_cpu(measures);
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
        let mut notes: Vec<String> = together.note().into_iter().collect();
        if runs.iter().any(|run| run.cpu_of_all) {
            notes.push("CPU with what sets a run up".to_owned());
        }
        Row {
            subject,
            measures,
            values,
            cpu: per_op(runs.iter().filter_map(|run| run.cpu.as_ref()).map(Some)).1,
            contended: each.iter().any(|run| run.contended),
            contention: once_each(runs.iter().flat_map(|run| &run.contention)),
            notes,
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

    /// The row of `subject` as another process's document has it.
    ///
    /// # Errors
    /// What cannot be read of it.
    pub fn read(
        subject: Subject,
        measures: &'static [Measure],
        row: serde_json::Map<String, Json>,
    ) -> Result<Row, serde_json::Error> {
        let measures = with_cpu(measures);
        let values = |of: &serde_json::Map<String, Json>| -> Vec<Value> {
            measures.iter().map(|m| of.get(m.key).map_or(Value::None, |json| read(m, json))).collect()
        };
        let (all, told) = (values(&row), Told::deserialize(Json::Object(row))?);
        let each = |run: &serde_json::Map<String, Json>| {
            let own = RunTold::deserialize(Json::Object(run.clone()))?;
            Ok(Run { values: values(run), contended: own.contended, void: own.void, when: own.measured })
        };
        let runs = told.runs.iter().map(each).collect::<Result<_, serde_json::Error>>()?;
        Ok(Row {
            subject,
            values: all,
            runs,
            cpu: told.cpu,
            contended: told.contended,
            contention: told.contention,
            notes: told.notes,
            missing: told.missing,
            void: told.void,
            broken_off: told.broken_off,
            histograms: told.histograms,
            measures,
        })
    }

    /// Samples of its first spans.
    pub fn samples(&self) -> Option<u64> {
        samples(&self.values)
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

    fn stat_at(&self, key: &str, stat: &str) -> Option<(usize, usize)> {
        let at = self.at(key)?;
        let Kind::Spans(stats) = self.measures[at].kind else { return None };
        Some((at, stats.iter().position(|(name, ..)| *name == stat)?))
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

    /// Sets the figure of the measure `key` of each run, and with it the row's, their median: what only another row's runs can say.
    pub fn set_runs(&mut self, key: &str, of_runs: &[f64]) {
        let Some(at) = self.at(key) else { return };
        let measure = &self.measures[at];
        for (run, value) in self.runs.iter_mut().zip(of_runs) {
            run.values[at] = Value::Number(measure.rounded(*value));
        }
        if let Some(value) = median(of_runs.iter().copied()) {
            self.set(key, value);
        }
    }

    /// Sets its CPU, which only one run of several says.
    pub(crate) fn set_cpu(&mut self, run: &Measured) {
        let (ns, parts) = per_op([run.cpu.as_ref()].into_iter());
        self.cpu = parts;
        if let Some(ns) = ns {
            self.set(PER_OP, ns);
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

/// The measures of a row: its own, and what every row has.
fn with_cpu(own: &[Measure]) -> Vec<Measure> {
    own.iter().copied().chain([CPU]).collect()
}

fn over_runs(
    stats: &[NamedStat],
    pooled: &Histogram,
    at: usize,
    runs: &[Run],
    together: &mut Together,
) -> Value {
    let Value::Spans(samples, all) = Value::of_spans(stats, pooled) else { return Value::None };
    let of = |run: &Run, stat: usize| run.values[at].stat(stat);
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

/// What a row in a document says besides its measures.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    runs: Vec<serde_json::Map<String, Json>>,
    contended: bool,
    contention: Vec<String>,
    notes: Vec<String>,
    missing: Option<String>,
    void: Option<String>,
    broken_off: Option<String>,
    cpu: Option<CpuPerOp>,
    histograms: Histograms,
}

/// What a run in it says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RunTold {
    contended: bool,
    void: Option<String>,
    measured: Option<WallTime>,
}

/// The inverse of [`json_of`].
fn read(measure: &Measure, json: &Json) -> Value {
    match measure.kind {
        Kind::Word => json.as_str().map_or(Value::None, |word| Value::Word(word.to_owned())),
        Kind::Median | Kind::Sum => json.as_f64().map_or(Value::None, Value::Number),
        Kind::Spans(stats) => json.get("samples").and_then(Json::as_u64).map_or(Value::None, |samples| {
            Value::Spans(
                samples,
                stats.iter().map(|(key, ..)| json.get(key).and_then(Json::as_f64)).collect(),
            )
        }),
    }
}

/// A value as JSON; whole numbers where the measure has no parts.
fn json_of(measure: &Measure, value: &Value) -> Json {
    let whole = |n: f64| json!(n as i64);
    match (value, measure.kind) {
        (Value::None, _) => Json::Null,
        (Value::Word(word), _) => json!(word),
        (Value::Number(n), _) if measure.is_whole() && n.fract() == 0.0 => whole(*n),
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
        map.serialize_entry("cpu", &self.cpu)?;
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

crate::histograms::bench_row!(Row, |row| row.subject.bench);

#[cfg(test)]
pub(crate) mod tests;
