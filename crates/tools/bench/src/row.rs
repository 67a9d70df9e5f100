//! One shape for every measurement.
//!
//! A [`Row`] says *who* was measured ([`Subject`]: `system`, `mode`, `engine`, `over`), doing *what* (its bench and [`Param`]s, each with a
//! unit), and *what came out*: for each [`Measure`] a number or the percentiles of a [`Histogram`], over all runs and of each run; in which
//! state the machine was, and whether the row must not be used and why. What only one program knows is one more measure, never a field.
//!
//! How a figure of several runs comes about is said once, here: a rate, a cost and a percentile are the median of the runs' own, a count is
//! their sum. Rows of messages have theirs of all runs together, and the runs' own beside them ([`Pooled`]). As JSON a row is flat: each
//! parameter and each measure is a key of the row, and of each run. Two more keys explain the others to whoever reads the document: `params`
//! has the unit of each parameter, `measures` unit, direction and words of each measure.

use crate::cpu::{CpuPerOp, CpuUse, PER_OP, per_op};
use crate::histograms::Histograms;
use crate::messages::IdleState;
use crate::rounds::{Together, median, once_each};
use crate::talk::client::OtherEnd;
use crate::wall_clock::WallTime;
use barewire_measure::{ContentionReport, Histogram};
use barewire_report::compare::{Method, Standing, standing};
use barewire_report::figure::Better;
use serde_json::Value as Json;

mod json;
mod spans;

pub use spans::{OfRuns, Pooled};

/// Units of measures and parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unit {
    Ns,
    Us,
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
            Unit::Us => "us",
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
    /// Text, a number, or yes or no; null of who has none of it.
    pub value: Json,
    /// Its usual value, which goes without saying: titles leave it out, and tables in which all rows have theirs.
    pub is_usual: bool,
    /// Who was measured says it already: it is a key of the row, and none of those that the row explains and is told apart by (`params`).
    pub is_implied: bool,
}

impl Param {
    /// A setting with a unit.
    pub fn new(key: &'static str, unit: Unit, value: impl Into<Json>) -> Param {
        Param { key, unit, value: value.into(), is_usual: false, is_implied: false }
    }

    /// One whose value goes without saying where it is `usual`.
    pub fn usually(key: &'static str, value: impl Into<Json>, usual: impl Into<Json>) -> Param {
        let (value, usual) = (value.into(), usual.into());
        Param { is_usual: value == usual, ..Param::word(key, value) }
    }

    /// One that documents have, and that another one says in tables.
    pub fn quiet(key: &'static str, value: impl Into<Json>) -> Param {
        Param { is_usual: true, ..Param::word(key, value) }
    }

    /// One that documents have, and that who was measured says already.
    pub fn implied(key: &'static str, value: impl Into<Json>) -> Param {
        Param { is_implied: true, ..Param::quiet(key, value) }
    }

    /// One without.
    pub fn word(key: &'static str, value: impl Into<Json>) -> Param {
        Param::new(key, Unit::None, value)
    }

    /// As tables show it.
    pub fn shown(&self) -> String {
        shown(&self.value)
    }
}

/// JSON as tables show it: an object by its name.
pub(crate) fn shown(json: &Json) -> String {
    match json.get("name").unwrap_or(json) {
        Json::String(text) => text.clone(),
        Json::Bool(on) => if *on { "on" } else { "off" }.to_owned(),
        other => other.to_string(),
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
    /// A word, of the row as a whole or of a run.
    Word,
    /// Spans in ns: for each statistic the median of the runs; the shortest and the longest of all.
    Spans(&'static [NamedStat]),
}

/// One thing that comes out of a measurement: a key of rows and runs, and a column of tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// Its key. `OBJECT.KEY` is a key of an object in the row, and a column of a table of its own, of all that are in it.
    pub key: &'static str,
    /// The head of its column; empty: it has none. Of spans its statistics have theirs, but in a table of an object, which has medians.
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
    /// Tables show its times in us with three decimals, as published ones do.
    pub in_us: bool,
    /// It has a sentence of its own in comparisons, whatever those before it say: none of them is its inverse.
    pub is_apart: bool,
    /// The measure that says at which load it was taken: two rows are compared by it at the same one.
    pub at_load: Option<&'static str>,
    /// Of spans: the row's percentiles are those of all runs together, and what documents have of the runs' own.
    pub pooled: Option<Pooled>,
}

/// What the constructors below begin with.
const PLAIN: Measure = Measure {
    key: "",
    head: "",
    words: "",
    unit: Unit::None,
    better: None,
    kind: Kind::Word,
    step: 1.0,
    in_us: false,
    is_apart: false,
    at_load: None,
    pooled: None,
};

impl Measure {
    /// A rate: more is better.
    pub const fn rate(key: &'static str, head: &'static str, words: &'static str) -> Measure {
        let (unit, better) = (Unit::PerSecond, Some(Better::Higher));
        Measure { key, head, words, unit, better, kind: Kind::Median, ..PLAIN }
    }

    /// Time that one of something takes, in ns: less is better.
    pub const fn cost(key: &'static str, head: &'static str, words: &'static str) -> Measure {
        let (unit, better) = (Unit::Ns, Some(Better::Lower));
        Measure { key, head, words, unit, better, kind: Kind::Median, step: 0.1, ..PLAIN }
    }

    /// Spans in ns, as these statistics.
    pub const fn spans(key: &'static str, words: &'static str, stats: &'static [NamedStat]) -> Measure {
        let (unit, better) = (Unit::Ns, Some(Better::Lower));
        Measure { key, words, unit, better, kind: Kind::Spans(stats), ..PLAIN }
    }

    /// A count over all runs that explains others.
    pub const fn count(key: &'static str, head: &'static str) -> Measure {
        Measure { key, head, words: key, unit: Unit::Count, kind: Kind::Sum, ..PLAIN }
    }

    /// A word that explains others.
    pub const fn word(key: &'static str, head: &'static str) -> Measure {
        Measure { key, head, words: key, ..PLAIN }
    }

    /// The same, shown in us.
    pub const fn shown_in_us(self) -> Measure {
        Measure { in_us: true, ..self }
    }

    /// The same with a sentence of its own.
    pub const fn apart(self) -> Measure {
        Measure { is_apart: true, ..self }
    }

    /// The same, taken at the load that the measure `key` says.
    pub const fn at_load(self, key: &'static str) -> Measure {
        Measure { at_load: Some(key), ..self }
    }

    /// The same of all runs together.
    pub const fn pooled(self, how: Pooled) -> Measure {
        Measure { pooled: Some(how), ..self }
    }

    /// The same with a head.
    pub const fn headed(self, head: &'static str) -> Measure {
        Measure { head, ..self }
    }

    /// The object that it is in, and its key there.
    pub(crate) fn object(&self) -> Option<(&'static str, &'static str)> {
        self.key.split_once('.')
    }

    /// The same in another unit, rounded to `step`.
    pub const fn in_unit(self, unit: Unit, step: f64) -> Measure {
        Measure { unit, step, ..self }
    }

    /// The same, as the median of runs that explains others.
    pub const fn neutral(self) -> Measure {
        Measure { better: None, kind: Kind::Median, ..self }
    }

    /// The spans of a run that it is of.
    fn source(&self) -> &'static str {
        self.pooled.map_or(self.key, |pooled| pooled.of)
    }

    /// Without parts by what it is: a count, or a time that is rounded to a whole one.
    fn is_whole(&self) -> bool {
        self.unit == Unit::Count || [Unit::Ns, Unit::Us].contains(&self.unit) && self.step >= 1.0
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

/// What the histograms of a measure are called: its key without unit and object.
fn name_of(key: &'static str) -> &'static str {
    key.split_once('.').map_or(key, |(_, key)| key).trim_end_matches("_ns")
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
    /// A word, or what else is told of it.
    Word(Json),
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
    pub(crate) fn stat(&self, at: usize) -> Option<f64> {
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
        for param in self.params.iter().filter(|param| !param.is_usual && !param.value.is_null()) {
            text += &match (&param.value, param.unit) {
                (Json::String(word), _) => format!(", {word}"),
                (value, Unit::Bytes) => format!(", {value} B"),
                (value, _) => format!(", {} {}", param.key.replace('_', " "), shown(value)),
            };
        }
        text
    }
}

/// What one run gave.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    numbers: Vec<(&'static str, f64)>,
    words: Vec<(&'static str, Json)>,
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
    /// It says itself what it is charged for, with a meter of its own.
    is_metered: bool,
    other_end: Option<OtherEnd>,
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
        if self.is_metered {
            return self;
        }
        let samples = self.spans.first().map(|(_, histogram)| histogram.samples());
        let used = used.of(self.operations.or(samples).unwrap_or_default());
        if let (Some(ns), _) = per_op([Some(&used)].into_iter()) {
            self.numbers.push((PER_OP, ns));
            (self.cpu, self.cpu_of_all) = (Some(used), whole);
        }
        self
    }

    /// With what a meter of its own saw of its CPU, if anything: of each end where that is known.
    pub(crate) fn metered(mut self, used: Option<CpuUse>, other_end: Option<OtherEnd>) -> Measured {
        self.numbers.extend(per_op([used.as_ref()].into_iter()).0.map(|ns| (PER_OP, ns)));
        (self.cpu, self.other_end, self.is_metered) = (used, other_end, true);
        self
    }

    /// With a number for the measure `key`.
    #[must_use]
    pub fn number(mut self, key: &'static str, value: f64) -> Measured {
        self.numbers.push((key, value));
        self
    }

    /// With a word, or whatever documents are to have of this run, for the measure `key`.
    #[must_use]
    pub fn word(mut self, key: &'static str, word: impl Into<Json>) -> Measured {
        self.words.push((key, word.into()));
        self
    }

    /// With spans for the measure `key`.
    #[must_use]
    pub fn spans(mut self, key: &'static str, histogram: Histogram) -> Measured {
        self.spans.push((key, histogram));
        self
    }

    /// With why the machine was not the run's own, if it was not.
    #[must_use]
    pub(crate) fn contended(mut self, reasons: &[String]) -> Measured {
        (self.contended, self.contention) = (!reasons.is_empty(), reasons.to_vec());
        self
    }

    /// What it has for the measure `key`.
    pub(crate) fn of(&self, key: &str) -> Option<f64> {
        self.numbers.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
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
                self.histogram(measure.source()).map_or(Value::None, |h| Value::of_spans(stats, h))
            }
            Kind::Word => {
                let found = self.words.iter().find(|(key, _)| *key == measure.key);
                found.map_or(Value::None, |(_, word)| Value::Word(word.clone()))
            }
            _ => self.of(measure.key).map_or(Value::None, |value| Value::Number(measure.rounded(value))),
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
    /// The figures were not measured in this run of the command, but come from here.
    pub recorded: Option<String>,
    /// Why the row must not be used, if so.
    pub void: Option<String>,
    /// Of a baseline: why nothing may be compared with it, though its figures are what was seen.
    pub no_baseline: Option<String>,
    /// Between two machines: how both ends wait, and why the other end's CPU is not known, if it is not.
    pub other_end: Option<OtherEnd>,
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
        // Those of no measure, too: they are for curves.
        for (key, histogram) in runs.iter().flat_map(|run| &run.spans) {
            histograms.push(name_of(key), histogram);
        }
        let mut values = Vec::with_capacity(measures.len());
        for (at, measure) in measures.iter().enumerate() {
            let numbers = || each.iter().filter_map(|run| run.values[at].number(measure));
            values.push(match measure.kind {
                Kind::Median => median(numbers()).map_or(Value::None, |n| Value::Number(measure.rounded(n))),
                Kind::Word => Value::None,
                Kind::Sum => numbers().reduce(|a, b| a + b).map_or(Value::None, Value::Number),
                Kind::Spans(stats) => {
                    let mut pooled = Histogram::new();
                    for histogram in runs.iter().filter_map(|run| run.histogram(measure.source())) {
                        pooled.merge(histogram);
                    }
                    match measure.pooled {
                        Some(_) if each.iter().all(|run| run.values[at] == Value::None) => Value::None,
                        Some(_) => Value::of_spans(stats, &pooled),
                        None => over_runs(stats, &pooled, at, &each, &mut together),
                    }
                }
            });
        }
        let other_end = OtherEnd::of_runs(runs.iter().map(|run| run.other_end.as_ref()));
        if other_end.as_ref().is_some_and(|other| other.cpu_unknown.is_some()) {
            // Nor is the sum of some runs that of all.
            values.pop();
            values.push(Value::None);
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
            recorded: None,
            void: each.iter().find_map(|run| run.void.clone()),
            no_baseline: None,
            other_end,
            broken_off: None,
            histograms,
            runs: each,
        }
    }

    /// A row that should be there, and why it is not.
    pub fn missing(subject: Subject, measures: &'static [Measure], why: impl Into<String>) -> Row {
        Row { missing: Some(why.into()), ..Row::of(subject, measures, &[]) }
    }

    /// Samples of its first spans.
    pub fn samples(&self) -> Option<u64> {
        json::samples(&self.values)
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

    /// Sets the figure of the measure `key` of each run that has one, and with it the row's, their median: what only another row's runs can
    /// say, or only all of its own.
    pub fn set_runs(&mut self, key: &str, of_runs: impl IntoIterator<Item: Into<Option<f64>>>) {
        let Some(at) = self.at(key) else { return };
        let measure = &self.measures[at];
        let of_runs: Vec<Option<f64>> = of_runs.into_iter().map(Into::into).collect();
        for (run, value) in self.runs.iter_mut().zip(&of_runs) {
            run.values[at] = value.map_or(Value::None, |value| Value::Number(measure.rounded(value)));
        }
        if let Some(value) = median(of_runs.into_iter().flatten()) {
            self.set(key, value);
        }
    }

    /// Sets the figure of the measure `key` of each run to what `beside` says of its `of` and that of another row's run at the same place
    /// ([`each_run`](Self::each_run)): the two shared a round, and a moment of the machine.
    pub fn set_beside(
        &mut self,
        key: &str,
        of: &str,
        others: &[Option<f64>],
        beside: impl Fn(f64, f64) -> f64,
    ) {
        let own = self.each_run(of).into_iter().zip(others);
        self.set_runs(key, own.map(|(own, other)| Some(beside(own?, (*other)?))).collect::<Vec<_>>());
    }

    /// Sets its CPU, which only one run of several says.
    pub(crate) fn set_cpu(&mut self, run: &Measured) {
        let (ns, parts) = per_op([run.cpu.as_ref()].into_iter());
        self.cpu = parts;
        if let Some(ns) = ns {
            self.set(PER_OP, ns);
        }
    }

    /// Sets what came out for the measure `key` over all runs, or that nothing did.
    pub(crate) fn put(&mut self, key: &str, value: Value) {
        if let Some(at) = self.at(key) {
            self.values[at] = value;
        }
    }

    /// What came out for the measure `key` over all runs.
    pub(crate) fn value(&self, key: &str) -> &Value {
        self.at(key).map_or(&Value::None, |at| &self.values[at])
    }

    /// Sets the word of the measure `key`, or whatever documents are to have there.
    pub fn set_word(&mut self, key: &str, word: impl Into<Json>) {
        if let Some(at) = self.at(key) {
            self.values[at] = Value::Word(word.into());
        }
    }

    /// The word of the measure `key`.
    pub fn word(&self, key: &str) -> Option<&str> {
        self.told(key).and_then(Json::as_str)
    }

    /// What is told for the measure `key`.
    pub fn told(&self, key: &str) -> Option<&Json> {
        match self.value(key) {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    /// The figure of the measure `key` of each run that is not void.
    pub fn of_runs(&self, key: &str) -> Vec<f64> {
        self.each_run(key).into_iter().flatten().collect()
    }

    /// The same, with the place of those runs that have none, or are void.
    pub fn each_run(&self, key: &str) -> Vec<Option<f64>> {
        let Some(at) = self.at(key) else { return Vec::new() };
        let of = |run: &Run| run.values[at].number(&self.measures[at]).filter(|_| run.void.is_none());
        self.runs.iter().map(of).collect()
    }

    /// The figure of the measure `key` of each run that has one, void ones included.
    pub(crate) fn numbers_of_runs(&self, key: &str) -> impl Iterator<Item = f64> {
        let at = self.at(key);
        self.runs.iter().filter_map(move |run| run.values[at?].number(&self.measures[at?]))
    }

    /// What each run told for the measure `key`, void ones included.
    pub(crate) fn words_of_runs(&self, key: &str) -> impl Iterator<Item = Option<&Json>> {
        let at = self.at(key);
        self.runs.iter().map(move |run| match &run.values[at?] {
            Value::Word(word) => Some(word),
            _ => None,
        })
    }

    /// Whether it was asked to do the same: what goes without saying of both is no difference, nor what one of them has none of.
    pub(crate) fn same_params(&self, other: &Row) -> bool {
        let (ours, theirs) = (&self.subject.params, &other.subject.params);
        let alike = |a: &Param, b: &Param| {
            a.value == b.value || a.value.is_null() || b.value.is_null() || a.is_usual && b.is_usual
        };
        let same = |(a, b): (&Param, &Param)| a.key == b.key && alike(a, b);
        ours.len() == theirs.len() && ours.iter().zip(theirs).all(same)
    }

    /// The parameter `key` as tables show it.
    pub fn param(&self, key: &str) -> Option<String> {
        self.setting(key).map(shown)
    }

    /// The parameter `key` as documents have it, where it has one.
    pub fn setting(&self, key: &str) -> Option<&Json> {
        let found = self.subject.params.iter().find(|param| param.key == key);
        found.map(|param| &param.value).filter(|value| !value.is_null())
    }

    /// Whether its figures may be compared with others.
    pub fn is_usable(&self) -> bool {
        self.void.is_none() && self.missing.is_none() && self.no_baseline.is_none()
    }

    /// How it stands beside `other` by one measure: `None` when one of them must not be used or has no runs, and of measures that have no
    /// better.
    pub fn standing(&self, other: &Row, measure: &Measure) -> Option<Standing> {
        let same_load = measure.at_load.is_none_or(|load| self.number(load) == other.number(load));
        let better = measure.better.filter(|_| same_load && self.is_usable() && other.is_usable())?;
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

#[cfg(test)]
pub(crate) mod tests;
