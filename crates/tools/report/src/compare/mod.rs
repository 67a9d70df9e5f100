//! Two runs, or two sets of repetitions: for every figure that both have, faster, slower, within noise, or unknown and why.
//!
//! The unit of repetition is a run of a row, not a sample: samples within a run follow each other and would make every
//! difference look certain. A verdict needs an interval that leaves 1 out, a difference above the floor, and as many repetitions as
//! the level of confidence takes; what is missing is said, never guessed.

mod bootstrap;
mod little;
mod quantile;
mod standing;

pub use bootstrap::{Interval, repetitions_needed};
pub use little::{LITTLE_BROKEN, LITTLE_TOLERANCE, Little, MeanFrom, little};
pub use quantile::quantile_interval;
pub use standing::{Standing, standing};

use crate::figure::{Better, Figure, Stat, Unit, figures, identity, primary, quantity};
use crate::run::{HardwareClass, Record, Role, Run};
use bootstrap::{ratio_interval, smallest_p};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The middle of some values, the mean of the middle two where their number is even: what every figure over several runs is. What is
/// not finite is left out; `None` of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut finite: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    (!finite.is_empty()).then(|| bootstrap::median(&mut finite))
}

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Method {
    /// Level of the intervals.
    pub confidence: f64,
    /// Resamples of the bootstrap.
    pub resamples: u32,
    /// Seed of the resampling: the same files give the same verdicts.
    pub seed: u64,
    /// A difference below this share is noise however certain it is.
    pub floor: f64,
    /// Compare runs of different machines, too.
    pub across_machines: bool,
}

impl Default for Method {
    fn default() -> Self {
        Method { confidence: 0.95, resamples: 4_000, seed: 1, floor: 0.02, across_machines: false }
    }
}

impl Method {
    /// The method in a sentence, for whoever reads the verdicts.
    pub fn words(&self) -> String {
        format!(
            "Ratio of medians of repetitions (B over A) with a {:.0} % percentile bootstrap interval, {} resamples, seed {}; a verdict \
             needs at least {} repetitions on each side, an interval without 1, and more than {:.1} % difference. A row that repeats \
             several tables is judged once. A gate judges one rate and one median of each row, not the other figures, as among many \
             some differ by chance; no further correction is made for the number of rows.",
            self.confidence * 100.0,
            self.resamples,
            self.seed,
            repetitions_needed(self.confidence),
            self.floor * 100.0,
        )
    }
}

/// What came of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is worse.
    Slower,
    /// B is better.
    Faster,
    /// No difference that this many repetitions show.
    WithinNoise,
    /// It cannot be said; the row tells why.
    Unknown,
}

impl Verdict {
    /// The verdict in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::WithinNoise => "within noise",
            Verdict::Unknown => "unknown",
        }
    }
}

/// One side of a compared figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Median of the repetitions, or the row's value where there are none. `None`: too few samples.
    pub value: Option<f64>,
    /// Repetitions.
    pub repetitions: usize,
    /// Samples of the row, over all repetitions.
    pub samples: Option<u64>,
    /// Interval of the percentile within the histogram, in ns: what counting alone leaves open.
    pub within: Option<(u64, u64)>,
    /// Some repetition was contended.
    pub contended: bool,
    /// Little's law, for closed loops.
    pub little: Option<Little>,
}

/// One figure of one row, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The row's table.
    pub table: String,
    /// Who: `barewire embedded over xdp`.
    pub name: String,
    /// With which settings.
    pub details: String,
    /// The figure's place in the row.
    pub path: String,
    /// The figure in words.
    pub figure: String,
    /// One of the two that a gate judges: the row's rate, and its median.
    pub primary: bool,
    /// Which way it should go.
    pub better: Better,
    /// Its unit.
    #[serde(skip)]
    pub unit: Unit,
    /// First side.
    pub a: Side,
    /// Second side.
    pub b: Side,
    /// B over A, with its interval. Below 1 is better for times.
    pub interval: Option<Interval>,
    /// The verdict.
    pub verdict: Verdict,
    /// What A has and B has lost: the figure, its value, or the use of the whole row. A gate lets none of this pass.
    pub lost: Option<String>,
    /// Why it is unknown, or what a reader has to know besides.
    pub notes: Vec<String>,
}

impl Compared {
    /// B over A in words: `1.23 (1.20 to 1.27)`; nothing where there is no ratio.
    pub fn ratio(&self) -> Option<String> {
        let r = |value| quantity(value, Unit::Ratio);
        let i = self.interval?;
        Some(format!("{} ({} to {})", r(i.ratio), r(i.low), r(i.high)))
    }

    /// The row: table, who, and with which settings.
    pub fn of(&self) -> String {
        let comma = if self.details.is_empty() { "" } else { ", " };
        format!("{}: {}{comma}{}", self.table, self.name, self.details)
    }
}

/// Two runs, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Names of the first side's folders.
    pub a: Vec<String>,
    /// Names of the second side's folders.
    pub b: Vec<String>,
    /// How it was done.
    pub method: Method,
    /// In what the machines and builds differ, as `field: A -> B`.
    pub differences: Vec<String>,
    /// The figures, in the order of the first side's rows.
    pub rows: Vec<Compared>,
    /// Rows that only A has.
    pub only_a: Vec<String>,
    /// Rows that only B has.
    pub only_b: Vec<String>,
}

/// One cell of a set of runs: the same row in every folder of it.
struct Cell<'a> {
    name: String,
    details: String,
    table: String,
    rows: Vec<(&'a Run, &'a Record)>,
}

fn cells<'a>(runs: &[&'a Run]) -> (Vec<String>, BTreeMap<String, Cell<'a>>) {
    let (mut order, mut cells) = (Vec::new(), BTreeMap::new());
    for run in runs {
        let mut seen: Vec<&Record> = Vec::new();
        for record in run.records.iter().filter(|r| !matches!(r.role, Role::Missing | Role::Control)) {
            // The same row in another table is no second measurement.
            if seen.iter().any(|known| is_again(record, known)) {
                continue;
            }
            seen.push(record);
            let id = identity(record);
            let cell = cells.entry(id.key.clone()).or_insert_with(|| {
                order.push(id.key.clone());
                Cell { name: id.name, details: id.details, table: record.table.clone(), rows: Vec::new() }
            });
            cell.rows.push((*run, record));
        }
    }
    (order, cells)
}

/// One row that an import put into several tables.
fn is_again(record: &Record, known: &Record) -> bool {
    record.table != known.table
        && record.experiment == known.experiment
        && record.axes == known.axes
        && record.row == known.row
}

/// Compares the rows of `a` with the same rows of `b`. Several folders on a side are repetitions of one another.
pub fn compare(a: &[&Run], b: &[&Run], method: Method) -> Comparison {
    let names = |runs: &[&Run]| runs.iter().map(|run| run.name()).collect();
    let (order, left) = cells(a);
    let (order_b, right) = cells(b);
    let (differences, machines) = differences(a, b);
    let mut rows = Vec::new();
    for key in &order {
        if let (Some(a), Some(b)) = (left.get(key), right.get(key)) {
            compare_cells(a, b, method, machines, &mut rows);
        }
    }
    let only = |order: &[String], mine: &BTreeMap<String, Cell<'_>>, other: &BTreeMap<String, Cell<'_>>| {
        let title = |cell: &Cell<'_>| {
            let comma = if cell.details.is_empty() { "" } else { ", " };
            format!("{}: {}{comma}{}", cell.table, cell.name, cell.details)
        };
        order
            .iter()
            .filter(|key| !other.contains_key(*key))
            .filter_map(|key| mine.get(key))
            .map(title)
            .collect()
    };
    Comparison {
        a: names(a),
        b: names(b),
        method,
        differences,
        rows,
        only_a: only(&order, &left, &right),
        only_b: only(&order_b, &right, &left),
    }
}

/// In what the first folders of both sides differ, and why any two folders are not known to be of one machine, if they are not.
fn differences(a: &[&Run], b: &[&Run]) -> (Vec<String>, Option<&'static str>) {
    let machine = |run: &&Run| run.manifest.fingerprint.get("machine").cloned().unwrap_or(Value::Null);
    let class = |run: &&Run| run.manifest.hardware;
    // Documents from before it was written do not say it: that is no difference.
    let classes_differ = |a: HardwareClass, b| a != b && ![a, b].contains(&HardwareClass::Unknown);
    let mut all = a.iter().chain(b);
    let unsaid = a.iter().chain(b).any(|run| machine(run).is_null());
    let differ = all.next().is_some_and(|first| {
        all.any(|other| machine(other) != machine(first) || classes_differ(class(other), class(first)))
    });
    let why = match (differ, unsaid) {
        (true, _) => Some("measured on different machines"),
        // Two that say nothing are not known to be one.
        (false, true) => Some("on what machine it was measured is not told"),
        (false, false) => None,
    };
    let mut found = Vec::new();
    if let (Some(a), Some(b)) = (a.first(), b.first()) {
        if classes_differ(class(a), class(b)) {
            found.push(format!("hardware: {} -> {}", class(a).as_str(), class(b).as_str()));
        }
        match (a.fingerprint(), b.fingerprint()) {
            (Some(left), Some(right)) => {
                let diff = left.diff(&right);
                found.extend(diff.into_iter().map(|d| format!("{}: {} -> {}", d.field, d.left, d.right)));
            }
            _ if machine(a) != machine(b) => found.push("machine: not the same fingerprint".to_owned()),
            _ => {}
        }
    }
    (found, why)
}

fn compare_cells(
    a: &Cell<'_>,
    b: &Cell<'_>,
    method: Method,
    machines: Option<&'static str>,
    out: &mut Vec<Compared>,
) {
    let of = |cell: &Cell<'_>| -> Vec<Vec<Figure>> {
        cell.rows.iter().map(|(_, record)| figures(&record.row)).collect()
    };
    let (left, right) = (of(a), of(b));
    let Some(first) = left.first() else { return };
    for figure in first {
        // Extremes of runs of different lengths are of different things.
        if figure.stat == Stat::Extreme {
            continue;
        }
        let (mine, theirs) = (sided(a, &left, &figure.path), sided(b, &right, &figure.path));
        if theirs.is_empty() && figure.value.is_none() {
            continue;
        }
        let compared = one(a, b, figure, (&mine, &theirs), method, machines);
        out.push(Compared { primary: is_primary(figure, first), ..compared });
    }
}

/// A row's first median and its first rate; where it has neither, the one figure that it is known by.
fn is_primary(figure: &Figure, all: &[Figure]) -> bool {
    let median = all.iter().find(|f| f.stat == Stat::Quantile(0.5));
    let rate = all.iter().find(|f| f.better == Better::Higher);
    let only = if median.is_none() && rate.is_none() { primary(all) } else { None };
    [median, rate, only].into_iter().flatten().any(|f| f.path == figure.path)
}

/// A figure as each folder of a side has it.
struct Sided {
    figure: Figure,
    /// Its repetitions.
    values: Vec<f64>,
}

/// The figure at `path` in each row of `cell`, with its repetitions: those that the row lists, else those of its histograms, one for
/// each repetition; a row with neither counts as one.
fn sided(cell: &Cell<'_>, all: &[Vec<Figure>], path: &str) -> Vec<Sided> {
    cell.rows
        .iter()
        .zip(all)
        .filter_map(|((run, record), figures)| {
            let figure = figures.iter().find(|f| f.path == path)?.clone();
            let mut values = figure.runs.clone();
            if let (true, Stat::Quantile(q)) = (values.is_empty(), figure.stat) {
                let of = |name: &str| -> Vec<f64> {
                    run.repetitions(record, name)
                        .filter_map(|h| Some(h.quantile(q).value()? as f64))
                        .collect()
                };
                values = histograms_of(&figure.path)
                    .into_iter()
                    .map(of)
                    .find(|v| !v.is_empty())
                    .unwrap_or_default();
            }
            if values.is_empty() {
                values.extend(figure.value);
            }
            Some(Sided { figure, values })
        })
        .collect()
}

/// The histogram behind a figure, by the names that experiments give it: `rtt_ns.p50` is of `rtt`, which is the service time.
fn histograms_of(path: &str) -> [&str; 2] {
    match path.split('.').next().unwrap_or_default().trim_end_matches("_ns") {
        "rtt" | "rtt_p50" => ["rtt", "service"],
        name => [name, name],
    }
}

fn side(cell: &Cell<'_>, figure: &Figure, mine: &[Sided], method: Method) -> Side {
    let mut all: Vec<f64> = mine.iter().flat_map(|s| s.values.iter().copied()).collect();
    let repetitions = all.len();
    let told = mine.iter().any(|s| s.figure.value.is_some());
    let histogram = merged(cell, figure);
    let within = match (figure.stat, &histogram) {
        (Stat::Quantile(q), Some(h)) => quantile_interval(h, q, method.confidence),
        _ => None,
    };
    let samples: Vec<u64> =
        cell.rows.iter().filter_map(|(_, r)| r.row.get("samples").and_then(Value::as_u64)).collect();
    Side {
        value: (told && repetitions > 0).then(|| bootstrap::median(&mut all)),
        repetitions,
        samples: (!samples.is_empty()).then(|| samples.iter().fold(0u64, |a, b| a.saturating_add(*b))),
        within,
        contended: cell.rows.iter().any(|(_, r)| r.row.get("contended") == Some(&Value::Bool(true))),
        little: cell.rows.first().and_then(|(run, record)| {
            let histogram = ["rtt", "service"].iter().find_map(|name| run.histogram(record, name));
            little(&record.row, histogram.as_ref())
        }),
    }
}

/// The histogram behind a percentile, over all folders of a side.
fn merged(cell: &Cell<'_>, figure: &Figure) -> Option<barewire_measure::Histogram> {
    let names = histograms_of(&figure.path);
    let of = |(run, record): &(&Run, &Record)| names.iter().find_map(|name| run.histogram(record, name));
    let mut all = cell.rows.iter().filter_map(of);
    let mut merged = all.next()?;
    all.for_each(|more| merged.merge(&more));
    Some(merged)
}

fn one(
    a: &Cell<'_>,
    b: &Cell<'_>,
    figure: &Figure,
    (mine, theirs): (&[Sided], &[Sided]),
    method: Method,
    machines: Option<&'static str>,
) -> Compared {
    let (side_a, side_b) = (side(a, figure, mine, method), side(b, figure, theirs, method));
    let groups = |all: &[Sided]| all.iter().map(|s| s.values.clone()).collect::<Vec<Vec<f64>>>();
    let (left, right) = (groups(mine), groups(theirs));
    let interval = ratio_interval(&left, &right, method.resamples, method.confidence, method.seed);
    let mut unknown = Vec::new();
    let said = |cell: &Cell<'_>, key: &str| {
        cell.rows.iter().find_map(|(_, r)| r.row.get(key).and_then(Value::as_str).map(str::to_owned))
    };
    let void = |cell: &Cell<'_>| said(cell, "void");
    // A time of an overloaded row leaves out who was not answered: that it became shorter is no gain.
    let overloaded = |cell: &Cell<'_>| said(cell, "overloaded").filter(|_| figure.unit == Unit::Ns);
    // A percentile that B has too few samples for was not lost; but then it is not judged either.
    let thin = theirs.iter().any(|s| s.figure.needs.is_some()) && figure.stat != Stat::Quantile(0.5);
    let lost = match (void(a), void(b)) {
        (None, Some(why)) => Some(format!("void in B only: {why}")),
        _ if said(a, "overloaded").is_none() && said(b, "overloaded").is_some() => {
            Some(format!("overloaded in B only: {}", said(b, "overloaded").unwrap_or_default()))
        }
        _ if theirs.is_empty() => Some("B has no such figure".to_owned()),
        _ if side_a.value.is_some() && side_b.value.is_none() && !thin => Some("B has no value".to_owned()),
        _ => None,
    };
    for (name, cell, side, figures) in [("A", a, &side_a, mine), ("B", b, &side_b, theirs)] {
        if let Some(why) = void(cell) {
            unknown.push(format!("{name} is void: {why}"));
        }
        if let Some(why) = overloaded(cell) {
            unknown
                .push(format!("{name} is overloaded, and its times leave out who was not answered: {why}"));
        }
        if side.value.is_none() {
            match figures.iter().find_map(|s| s.figure.needs) {
                Some(needs) => unknown.push(format!("{name}: n<{needs}")),
                None if figures.is_empty() => unknown.push(format!("{name} has no such figure")),
                None => unknown.push(format!("{name} has no value")),
            }
        }
        if side.little.is_some_and(|l| l.broken()) && figure.unit == Unit::Ns {
            unknown.push(format!("{name}: times and rate contradict each other (Little's law)"));
        }
    }
    if let Some(why) = machines.filter(|_| !method.across_machines) {
        unknown.push(why.to_owned());
    }
    let p = smallest_p(side_a.repetitions, side_b.repetitions);
    let told = side_a.value.is_some() && side_b.value.is_some();
    if told && p > 1.0 - method.confidence + 1e-12 {
        unknown.push(format!(
            "{} and {} repetitions cannot show a difference at {:.0} %; {} each can",
            side_a.repetitions,
            side_b.repetitions,
            method.confidence * 100.0,
            repetitions_needed(method.confidence),
        ));
    }
    let repetitions = (side_a.repetitions, side_b.repetitions);
    let verdict = match interval {
        Some(i) if unknown.is_empty() => standing::verdict(i, repetitions, figure.better, &method),
        _ => Verdict::Unknown,
    };
    if interval.is_none() && unknown.is_empty() {
        unknown.push("a value is not positive: there is no ratio".to_owned());
    }
    let mut notes = unknown;
    for (name, side) in [("A", &side_a), ("B", &side_b)] {
        if side.contended {
            notes.push(format!("{name} contended"));
        }
        if let Some(l) = side.little.filter(|l| !l.agrees() && !l.broken()) {
            notes.push(format!("{name}: Little's law off: {:.2}", l.ratio));
        }
    }
    Compared {
        table: a.table.clone(),
        name: a.name.clone(),
        details: a.details.clone(),
        path: figure.path.clone(),
        figure: figure.label.clone(),
        better: figure.better,
        unit: figure.unit,
        a: side_a,
        b: side_b,
        interval,
        verdict,
        primary: false,
        lost,
        notes,
    }
}

fn judge(i: Interval, better: Better, floor: f64) -> Verdict {
    let noise = (i.low..=i.high).contains(&1.0) || (i.ratio - 1.0).abs() < floor;
    match (noise, i.ratio > 1.0, better) {
        (true, ..) => Verdict::WithinNoise,
        (false, true, Better::Lower) | (false, false, Better::Higher) => Verdict::Slower,
        (false, ..) => Verdict::Faster,
    }
}

/// What `--fail-on-regression` has to know: of the figures that are [`primary`](Compared::primary), and of all that was lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate<'a> {
    /// Every figure that got worse: any of these is a failure.
    pub regressions: Vec<&'a Compared>,
    /// Every figure that A has and B has lost.
    pub lost: Vec<&'a Compared>,
    /// Rows that A has and B has not: what is gone cannot have been checked.
    pub missing: &'a [String],
    /// Figures that could not be judged.
    pub unknown: Vec<&'a Compared>,
    /// Figures that were judged.
    pub judged: usize,
}

impl Gate<'_> {
    /// Nothing got worse, nothing is gone, and something was judged at all.
    pub fn passes(&self) -> bool {
        self.regressions.is_empty() && self.lost.is_empty() && self.missing.is_empty() && self.judged > 0
    }
}

impl Comparison {
    /// The gate of `--fail-on-regression`.
    pub fn gate(&self) -> Gate<'_> {
        let primary = || self.rows.iter().filter(|r| r.primary);
        let of = |verdict| primary().filter(|r| r.verdict == verdict).collect::<Vec<&Compared>>();
        let unknown = of(Verdict::Unknown);
        Gate {
            regressions: of(Verdict::Slower),
            lost: self.rows.iter().filter(|r| r.lost.is_some()).collect(),
            missing: &self.only_a,
            judged: primary().count() - unknown.len(),
            unknown,
        }
    }

    /// Rows of this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|r| r.verdict == verdict).count()
    }
}
