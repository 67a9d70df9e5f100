//! Tables: published rows, measured rows and baselines side by side, each with what a reader has to know about it.

use super::item::Item;
use super::{Ids, pictures};
use crate::chart::Chart;
use crate::compare::{self, LITTLE_TOLERANCE, Method, little};
use crate::figure::{Better, Figure, Stat, Unit, primary, quantity};
use crate::published::{self, Column, Printed, PublishedRow, PublishedTable};
use crate::run::{Record, Role, Run};
use barewire_measure::little_law_check;

/// Columns of a table that no report published: more do not fit beside each other.
const COLUMNS_MAX: usize = 6;

/// What a row's work costs, beside the columns that others published.
const CPU: Column = Column {
    label: "CPU time an operation",
    unit: Unit::Ns,
    better: Better::Lower,
    paths: &["cpu_ns_per_op", "cpu_us_per_packet"],
    note: "",
};

/// Tables that bench verbs name after themselves, as a heading.
const OWN_TITLES: [(&str, &str); 13] = [
    ("msg", "Messages"),
    ("switch", "P4 switch"),
    ("feed", "Market data"),
    ("rc", "RDMA connections"),
    ("rc-data", "Data over RDMA connections"),
    ("feed-rates", "Rates of market data"),
    ("feed-decoders", "Decoders of market data"),
    ("port", "Ports"),
    ("bindings", "Languages"),
    ("stacks", "Libraries on streams of bytes"),
    ("requests", "Requests"),
    ("stream", "Streams over the kernel's sockets"),
    ("search", "Searches for the greatest load"),
];

/// Who a row is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Printed by others.
    Published,
    /// Measured in one of the report's runs.
    Measured,
    /// Of one of the report's runs, in virtual time.
    Simulated,
    /// Measured beside it, for comparison.
    Baseline,
    /// Should be there and is not.
    Missing,
}

impl Source {
    /// The source in a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Published => "published",
            Source::Measured => "measured",
            Source::Simulated => "simulated",
            Source::Baseline => "baseline",
            Source::Missing => "missing",
        }
    }
}

/// How grave a badge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadgeKind {
    /// The row must not be used.
    Bad,
    /// The row must not be used for everything.
    Warn,
    /// Good to know.
    Note,
}

/// A mark on a row, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Badge {
    /// How grave.
    pub kind: BadgeKind,
    /// The mark.
    pub text: String,
    /// Its reason.
    pub why: String,
}

/// A figure in a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// As printed: a number with its unit, `n<k`, `not run`, or a dash.
    pub text: String,
    /// How far repetitions are apart.
    pub spread: Option<String>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Who it is of.
    pub source: Source,
    /// Name.
    pub name: String,
    /// Settings or hardware.
    pub details: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
    /// How it stands to each baseline measured beside it.
    pub beside: Vec<String>,
    /// Marks.
    pub badges: Vec<Badge>,
    /// The exact command, of a measured row.
    pub command: Option<String>,
}

/// Rows that may be looked at together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they share; empty in a table without parts.
    pub label: String,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Unique in its report; letters, digits and dashes.
    pub id: String,
    /// As records name it.
    pub table_id: String,
    /// Which report published it; empty: none did.
    pub report: String,
    /// Heading.
    pub title: String,
    /// The published command.
    pub command: Option<String>,
    /// How the published figures were taken.
    pub method: Option<String>,
    /// What stands between every measured row and the published ones; empty where nothing does.
    pub apart: String,
    /// It prints the figures of another table again.
    pub again: bool,
    /// Headings of the figures.
    pub columns: Vec<String>,
    /// Its parts.
    pub groups: Vec<Group>,
    /// Its pictures.
    pub charts: Vec<Chart>,
}

impl Table {
    /// What it stands under: the report that published it, or that none did.
    pub fn heading(&self) -> &str {
        let mut rows = self.groups.iter().flat_map(|group| &group.rows).peekable();
        match self.report.as_str() {
            "" if rows.peek().is_some() && rows.all(|row| row.source == Source::Simulated) => "Simulated",
            "" => "Measured besides",
            report => report,
        }
    }
}

pub(super) fn tables(items: &[Item<'_>], runs: &[&Run], all: bool, ids: &mut Ids) -> Vec<Table> {
    let mut tables = Vec::new();
    for published in published::tables() {
        let mine: Vec<&Item<'_>> = items.iter().filter(|i| i.record.table == published.records_of).collect();
        if all || !mine.is_empty() {
            tables.push(of_published(published, &mine, runs, ids));
        }
    }
    let mut own: Vec<&str> = Vec::new();
    for item in items {
        let id = item.record.table.as_str();
        if published::table(id).is_none() && !own.contains(&id) {
            own.push(id);
        }
    }
    for id in own {
        let mine: Vec<&Item<'_>> = items.iter().filter(|i| i.record.table == id).collect();
        tables.push(of_own(id, &mine, ids));
    }
    tables
}

fn of_published(t: &'static PublishedTable, mine: &[&Item<'_>], runs: &[&Run], ids: &mut Ids) -> Table {
    let mut columns = t.columns.to_vec();
    // What a rate or a time costs stands beside it: nobody published it, and a core that polls is not free.
    if mine.iter().any(|item| item.figure(CPU.paths).is_some()) {
        columns.push(CPU);
    }
    let between = Between::of(t, mine);
    let mut groups: Vec<Group> = Vec::new();
    for (case, heading) in t.cases.iter().enumerate() {
        let printed: Vec<&PublishedRow> = t.rows.iter().filter(|r| r.case == case).collect();
        let here: Vec<&&Item<'_>> = mine
            .iter()
            .filter(|i| t.case_of(i.record) == Some(case) && i.record.role != Role::Missing)
            .collect();
        let mut rows: Vec<Row> = printed
            .iter()
            .map(|r| {
                let mut row = published_row(t, r);
                row.cells.resize(columns.len(), no_cell());
                row
            })
            .collect();
        rows.extend(here.iter().map(|item| {
            let mut row = measured_row(item, mine, &columns, &|i| cells_of(&columns, i));
            between.mark(&mut row, item, t, case);
            row
        }));
        // Neither a baseline nor what was recorded at another time, nor a void row, is the row that is asked for.
        if !here.iter().any(|i| i.record.role == Role::Measured && i.counts()) {
            let void = here.iter().any(|i| i.record.role == Role::Measured && i.text("void").is_some());
            let why = match void {
                true => "measured, and void: no row above stands for ours".to_owned(),
                false => reason(mine, t, case, runs),
            };
            rows.push(missing_row(columns.len(), &why));
        }
        groups.push(Group { label: heading.label.to_owned(), rows });
    }
    let others: Vec<Row> = mine
        .iter()
        .filter(|i| t.case_of(i.record).is_none() && i.record.role != Role::Missing)
        .map(|item| measured_row(item, mine, &columns, &|i| cells_of(&columns, i)))
        .collect();
    if !others.is_empty() {
        groups.push(Group { label: "Rows that repeat no published one".to_owned(), rows: others });
    }
    // Tables that print another one's figures again do not show the same pictures again.
    let charts = if t.id == t.records_of { pictures::of_published(t, mine, ids) } else { Vec::new() };
    Table {
        id: ids.make(t.id),
        table_id: t.id.to_owned(),
        report: t.report.to_owned(),
        title: t.title.to_owned(),
        command: Some(t.command.to_owned()),
        method: Some(with_notes(t)),
        apart: between.sentence(),
        again: t.id != t.records_of,
        columns: columns.iter().map(|c| c.label.to_owned()).collect(),
        groups,
        charts,
    }
}

/// How a table was taken, and in what its columns differ from ours.
fn with_notes(t: &PublishedTable) -> String {
    let notes = t.columns.iter().filter(|c| !c.note.is_empty());
    notes.fold(t.method.to_owned(), |text, c| format!("{text} {}: {}.", c.label, c.note))
}

/// Why a case has no measured row: what a record says, or that no run has one.
fn reason(mine: &[&Item<'_>], t: &PublishedTable, case: usize, runs: &[&Run]) -> String {
    let missing = |of: &dyn Fn(Option<usize>) -> bool| {
        let found = mine.iter().find(|i| i.record.role == Role::Missing && of(t.case_of(i.record)));
        found.and_then(|i| i.record.reason.clone())
    };
    missing(&|c| c == Some(case)).or_else(|| missing(&|c| c.is_none())).unwrap_or_else(|| match runs.len() {
        1 => "this run has no such row".to_owned(),
        _ => "none of the runs has such a row".to_owned(),
    })
}

fn missing_row(columns: usize, why: &str) -> Row {
    Row {
        source: Source::Missing,
        name: "here".to_owned(),
        details: why.to_owned(),
        cells: vec![Cell { text: "not run".to_owned(), spread: None }; columns],
        beside: Vec::new(),
        badges: Vec::new(),
        command: None,
    }
}

fn published_row(t: &PublishedTable, row: &PublishedRow) -> Row {
    // What the text prints, not what we would make of its value.
    let cell = |printed: &Option<Printed>| Cell {
        text: printed.map_or_else(|| "not run".to_owned(), |p| p.text.to_owned()),
        spread: None,
    };
    let mut details = row.details();
    if let (Some(window), Some(p50), Some(rate)) =
        (row.window, row.value(0), row.value(t.columns.len().saturating_sub(1)))
    {
        details.push_str(&format!("; Little's law {:.2}", little_law_check(window as u32, rate, p50)));
    }
    Row {
        source: Source::Published,
        name: row.system.to_owned(),
        details,
        cells: row.values.iter().map(cell).collect(),
        beside: Vec::new(),
        badges: Vec::new(),
        command: None,
    }
}

fn cells_of(columns: &[Column], item: &Item<'_>) -> Vec<Cell> {
    columns.iter().map(|c| item.figure(c.paths).map_or_else(no_cell, cell)).collect()
}

fn no_cell() -> Cell {
    Cell { text: "-".to_owned(), spread: None }
}

fn cell(figure: &Figure) -> Cell {
    let text = match (figure.value, figure.needs) {
        (Some(value), _) => quantity(value, figure.unit),
        (None, Some(needs)) => format!("n<{needs}"),
        (None, None) => "-".to_owned(),
    };
    Cell { text, spread: spread(figure) }
}

/// The least and the most of some repetitions.
fn spread(figure: &Figure) -> Option<String> {
    let least = figure.runs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figure.runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let told = figure.value.is_some() && figure.runs.len() > 1;
    told.then(|| {
        format!("{}..{} in {}", quantity(least, figure.unit), quantity(most, figure.unit), figure.runs.len())
    })
}

fn measured_row(
    item: &Item<'_>,
    all: &[&Item<'_>],
    columns: &[Column],
    cells: &dyn Fn(&Item<'_>) -> Vec<Cell>,
) -> Row {
    let source = match item.record.role {
        Role::Baseline => Source::Baseline,
        Role::Missing => Source::Missing,
        _ if item.flag("simulated") => Source::Simulated,
        _ => Source::Measured,
    };
    let mut details = item.identity.details.clone();
    let mut also = |text: String| {
        if !details.is_empty() {
            details.push_str("; ");
        }
        details.push_str(&text);
    };
    if item.figures.iter().any(|f| f.path.contains('.'))
        && let Some(samples) = item.number("samples")
    {
        also(format!("{samples} samples"));
    }
    if let Some(why) = &item.record.reason {
        also(why.clone());
    }
    Row {
        source,
        name: item.identity.name.clone(),
        details,
        cells: cells(item),
        beside: if source == Source::Measured { comparisons(item, all, columns) } else { Vec::new() },
        badges: badges(item),
        command: item.text("command").map(str::to_owned),
    }
}

/// How the row stands to each baseline of the same work in the same run: by the first of `columns` that it has a figure of.
fn comparisons(item: &Item<'_>, all: &[&Item<'_>], columns: &[Column]) -> Vec<String> {
    // A row that must not be used claims nothing, one of another time ran beside none of these, and the times of one that was overloaded
    // leave out who was not answered.
    if !item.is_judged() {
        return Vec::new();
    }
    let of_table = columns.iter().find_map(|c| item.figure(c.paths).filter(|f| f.value.is_some()));
    let Some(ours) = of_table.or_else(|| primary(&item.figures)) else { return Vec::new() };
    let candidates = || {
        all.iter().filter(|b| {
            b.record.role == Role::Baseline
                && b.run_index == item.run_index
                && b.is_judged()
                && b.text("no_baseline").is_none()
                && item.same_workload(b)
        })
    };
    // Systems of one command took turns; others of the run did not, and stand in only where there is nothing better.
    let together = |b: &Item<'_>| b.text("command") == item.text("command");
    let any = candidates().any(|b| together(b));
    candidates()
        .filter(|b| !any || together(b))
        .filter_map(|b| {
            let theirs = b.figures.iter().find(|f| f.path == ours.path)?;
            standing(ours, theirs, &item.named(b))
        })
        .collect()
}

/// `3.7 (3.5 to 3.9) times faster than X (TCP)`, or what can be said instead.
fn standing(ours: &Figure, theirs: &Figure, name: &str) -> Option<String> {
    // A row without repetitions of its own is one.
    let runs = |figure: &Figure| -> Option<Vec<f64>> {
        let value = figure.value.filter(|v| *v > 0.0)?;
        Some(if figure.runs.is_empty() { vec![value] } else { figure.runs.clone() })
    };
    let standing = compare::standing(&runs(ours)?, &runs(theirs)?, ours.better, &Method::default())?;
    Some(standing.words(&format!("{name} ({})", ours.label)))
}

/// What stands between the rows measured here and the published ones of a table, whatever these rows say of themselves.
struct Between(Vec<String>);

impl Between {
    fn of(t: &PublishedTable, mine: &[&Item<'_>]) -> Between {
        let mut why: Vec<String> = Vec::new();
        for item in mine.iter().filter(|i| i.record.role != Role::Missing) {
            let Some(case) = t.case_of(item.record) else { continue };
            for reason in reasons_of(item, t, case, None) {
                if !why.contains(&reason) {
                    why.push(reason);
                }
            }
        }
        Between(why)
    }

    /// One sentence over the table, in the place of the same mark on each of its rows.
    fn sentence(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        format!("Rows measured here are not comparable with the published ones: {}.", self.0.join("; "))
    }

    /// Marks a row with what stands between it and the published ones besides.
    fn mark(&self, row: &mut Row, item: &Item<'_>, t: &PublishedTable, case: usize) {
        let mut own = reasons_of(item, t, case, Some(item.record));
        // That it is void, of another time or simulated has a mark of its own.
        let marked = |why: &String| {
            ["void: ", "recorded elsewhere: ", "simulated: "].iter().any(|m| why.starts_with(m))
        };
        own.retain(|why| !self.0.contains(why) && !marked(why));
        if !own.is_empty() {
            let why = own.join("; ");
            row.badges.push(Badge { kind: BadgeKind::Warn, text: "not comparable".to_owned(), why });
        }
    }
}

/// All that stands between a measured row and the published ones of its case, each thing once; with `record` what it says of itself, too.
fn reasons_of(item: &Item<'_>, t: &PublishedTable, case: usize, record: Option<&Record>) -> Vec<String> {
    let printed: Vec<&PublishedRow> = t.rows.iter().filter(|r| r.case == case).collect();
    let mine: Vec<&PublishedRow> = printed.iter().copied().filter(|p| t.repeats(p, item.record)).collect();
    // A row that stands in the place of none of them still stands below them.
    let below = if mine.is_empty() { printed } else { mine };
    let mut why: Vec<String> = Vec::new();
    for other in below {
        for reason in published::reasons(t, other, record, item.run.manifest.hardware) {
            if !why.contains(&reason) {
                why.push(reason);
            }
        }
    }
    why
}

fn badges(item: &Item<'_>) -> Vec<Badge> {
    let mut badges = Vec::new();
    let mut mark = |kind, text: &str, why: String| badges.push(Badge { kind, text: text.to_owned(), why });
    if let Some(why) = item.text("void") {
        mark(BadgeKind::Bad, "void", why.to_owned());
    }
    if let Some(why) = item.text("overloaded") {
        mark(
            BadgeKind::Warn,
            "overloaded",
            format!("{why}: the percentiles are of those that were answered"),
        );
    }
    if let Some(cores) =
        item.record.row.get("cpu").and_then(|cpu| cpu.get("cores")?.as_f64()).filter(|c| *c >= 1.5)
    {
        mark(
            BadgeKind::Note,
            &format!("{cores:.1} cores busy"),
            "on average, both ends together: who polls keeps a core of its own busy".to_owned(),
        );
    }
    if item.flag("contended") {
        let reasons = item.texts("contention");
        let why = if reasons.is_empty() {
            "others ran on our cores, the hypervisor took them, or our own threads were more than they"
                .to_owned()
        } else {
            reasons.join("; ")
        };
        mark(BadgeKind::Warn, "contended", why);
    }
    if let Some(why) = item.text("recorded") {
        mark(BadgeKind::Warn, "recorded elsewhere", why.to_owned());
    }
    let histogram = ["rtt", "service"].iter().find_map(|name| item.run.histogram(item.record, name));
    if let Some(l) = little(&item.record.row, histogram.as_ref()).filter(|l| !l.agrees()) {
        let why = format!(
            "rate times mean time is {:.1} in flight, {} were kept in flight ({} than {:.0} % {})",
            l.in_flight,
            l.window,
            if l.partial { "over by more" } else { "more" },
            LITTLE_TOLERANCE * 100.0,
            if l.partial { "of them" } else { "apart" },
        );
        mark(BadgeKind::Warn, "Little's law off", why);
    }
    let thin: Vec<String> =
        item.figures.iter().filter_map(|f| Some(format!("{} needs {}", f.label, f.needs?))).collect();
    if !thin.is_empty() {
        mark(BadgeKind::Note, "thin", format!("too few samples: {}", thin.join("; ")));
    }
    if item.number("behind_percent").is_some_and(|b| b > 0.0) {
        let behind = item.number("behind_percent").unwrap_or_default();
        mark(BadgeKind::Warn, "behind schedule", format!("{behind:.1} % of sends were late"));
    }
    if item.flag("simulated") {
        mark(BadgeKind::Warn, "simulated", "in virtual time".to_owned());
    }
    let mut notes: Vec<String> = item.texts("notes").into_iter().map(str::to_owned).collect();
    let pooled = pooled(item);
    if !pooled.is_empty() && !notes.iter().any(|note| note.contains(POOLED)) {
        notes.push(format!("{}: {POOLED}, as one run has too few samples", pooled.join(", ")));
    }
    if !notes.is_empty() {
        mark(BadgeKind::Note, "note", notes.join("; "));
    }
    badges
}

/// What rows say of percentiles that are of no run by itself.
const POOLED: &str = "of all runs together";

/// The rare percentiles that a row of several runs has and none of its runs: of all samples, in which fast runs count for more.
fn pooled<'a>(item: &'a Item<'_>) -> Vec<&'a str> {
    let runs = item.record.row.get("runs").and_then(serde_json::Value::as_array).map_or(0, Vec::len);
    let is_rare = |f: &&Figure| matches!(f.stat, Stat::Quantile(q) if q >= 0.99);
    let of_none = item.figures.iter().filter(is_rare).filter(|f| f.value.is_some() && f.runs.is_empty());
    if runs > 1 { of_none.map(|f| f.label.as_str()).collect() } else { Vec::new() }
}

/// Ranks of [`rank`].
const RANKS: u8 = 4;

/// `rtt_ns` of `rtt_ns.p50`.
fn family(figure: &Figure) -> &str {
    figure.path.split('.').next().unwrap_or_default()
}

/// How much a figure says in a table that has no room for all: less is more. `first` is the row's first distribution.
fn rank(figure: &Figure, first: &str) -> u8 {
    let own = family(figure) == first;
    match figure.stat {
        Stat::Quantile(q) if own && [0.5, 0.99].contains(&q) => 0,
        Stat::Single => 1,
        Stat::Quantile(q) if own && q == 0.999 => 2,
        Stat::Quantile(0.5) => 2,
        Stat::Quantile(0.99) => 3,
        _ => RANKS,
    }
}

/// A table that no report published: its columns are the figures that its rows have.
fn of_own(id: &str, mine: &[&Item<'_>], ids: &mut Ids) -> Table {
    let mut found: Vec<(u8, &str, &str)> = Vec::new();
    let told = |f: &&Figure| f.stat != Stat::Extreme && (f.value.is_some() || f.needs.is_some());
    for item in mine {
        let first = item.figures.first().map_or("", |f| family(f));
        for figure in item.figures.iter().filter(told) {
            let rank = rank(figure, first);
            if !found.iter().any(|(_, path, _)| *path == figure.path) {
                found.push((rank, &figure.path, &figure.label));
            }
        }
    }
    // What says most is kept, and stands in the order of the rows.
    let mut ranks: Vec<u8> = found.iter().map(|(rank, ..)| *rank).collect();
    ranks.sort_unstable();
    let last = ranks.get(COLUMNS_MAX - 1).copied().unwrap_or(u8::MAX);
    let mut columns: Vec<(&str, &str)> = Vec::new();
    for wanted in 0..=last.min(RANKS) {
        let of_rank = found.iter().filter(|(rank, ..)| *rank == wanted);
        columns.extend(of_rank.take(COLUMNS_MAX - columns.len()).map(|(_, path, label)| (*path, *label)));
    }
    let at = |path: &str| found.iter().position(|(_, known, _)| *known == path);
    columns.sort_by_key(|(path, _)| at(path));
    let cells = |item: &Item<'_>| -> Vec<Cell> {
        columns.iter().map(|(path, _)| item.figure(&[path]).map_or_else(no_cell, cell)).collect()
    };
    let rows = mine.iter().map(|item| measured_row(item, mine, &[], &cells)).collect();
    let title = OWN_TITLES.iter().find(|(known, _)| *known == id).map_or(id, |(_, title)| title);
    Table {
        id: ids.make(id),
        table_id: id.to_owned(),
        report: String::new(),
        title: title.to_owned(),
        command: None,
        method: None,
        apart: String::new(),
        again: false,
        columns: columns.iter().map(|(_, label)| (*label).to_owned()).collect(),
        groups: vec![Group { label: String::new(), rows }],
        charts: pictures::of_own(title, id, mine, ids),
    }
}
