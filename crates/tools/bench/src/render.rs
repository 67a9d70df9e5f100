//! Rows as text: how times and rates are written, and columns that fit.

use crate::cpu::PER_OP;
use crate::messages::IdleState;
use crate::rounds::{once_each, spread, spread_ns};
use crate::row::{Kind, Measure, NamedStat, Row, Stat, Unit, Value, shown};
use barewire_measure::samples_needed;
use barewire_report::import::by_bench;
use barewire_report::report::{handicap, is_judged, same_load, same_work};
use serde_json::{Map, Value as Json};
use std::fmt::Write as _;

/// How far Little's law may be off before a row says so.
pub use barewire_report::compare::LITTLE_TOLERANCE;

/// A row, and the same as documents have it: by what it says of itself the page judges what may stand beside it, and so do texts.
pub(crate) struct Known<'a> {
    pub(crate) row: &'a Row,
    fields: Map<String, Json>,
}

impl<'a> Known<'a> {
    pub(crate) fn all(rows: &'a [Row]) -> Vec<Known<'a>> {
        let fields = |row: &Row| match serde_json::to_value(row) {
            Ok(Json::Object(mut fields)) => {
                // What was recorded elsewhere had frames of about that size.
                if fields.get("recorded").is_some_and(Json::is_string) {
                    fields.remove("size");
                }
                fields
            }
            _ => Map::new(),
        };
        rows.iter().map(|row| Known { row, fields: fields(row) }).collect()
    }

    /// [`same_load`]
    pub(crate) fn same_load(&self, other: &Known<'_>) -> bool {
        same_load(&self.fields, &other.fields)
    }

    /// [`same_work`]
    pub(crate) fn same_work(&self, other: &Known<'_>) -> bool {
        same_work(&self.fields, &other.fields)
    }

    /// [`is_judged`]
    pub(crate) fn is_judged(&self) -> bool {
        is_judged(&self.fields)
    }

    /// [`handicap`]
    pub(crate) fn handicap(&self, theirs: &Known<'_>) -> String {
        handicap(&self.fields, &theirs.fields)
    }
}

/// A time with a precision that fits it: `812 ns`, `9.3 us`, `18 us`, `1203 us`, `37 ms`, `12 s`.
pub fn latency(ns: u64) -> String {
    let rounded = |unit: u64| ns.saturating_add(unit / 2) / unit;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..9_950 => format!("{}.{} us", rounded(100) / 10, rounded(100) % 10),
        9_950..9_999_500 => format!("{} us", rounded(1_000)),
        9_999_500..9_999_500_000 => format!("{} ms", rounded(1_000_000)),
        _ => format!("{} s", rounded(1_000_000_000)),
    }
}

/// A percentile, or `n<k` where fewer than the `k` samples it needs were taken.
pub fn percentile(value: Option<u64>, q: f64) -> String {
    value.map_or_else(|| format!("n<{}", samples_needed(q)), latency)
}

/// A rate as the published tables write it: `812`, `9.5K`, `54K`, `1043K`, `12.3M`.
pub fn rate(per_s: f64) -> String {
    match per_s {
        r if r < 999.5 => format!("{r:.0}"),
        r if r < 9_950.0 => format!("{:.1}K", r / 1e3),
        r if r < 9_999_500.0 => format!("{:.0}K", r / 1e3),
        r => format!("{:.1}M", r / 1e6),
    }
}

/// Text as one cell of a Markdown table.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// What a table says of a row in one column: the column's head, the row's cell, and between which values its runs were, or nothing.
pub(crate) type Shown = (&'static str, String, String);

/// A cell without runs.
pub(crate) fn plain(head: &'static str, text: impl ToString) -> Shown {
    (head, text.to_string(), String::new())
}

/// A cell of what may not be known.
pub(crate) fn maybe<T>(head: &'static str, value: Option<T>, how: impl Fn(T) -> String) -> Shown {
    (head, or_dash(value, how), String::new())
}

/// A value, or a dash where there is none.
pub(crate) fn or_dash<T>(value: Option<T>, how: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), how)
}

/// A table of rows, `left` columns of it to the left: under each row of several runs between which values they were. Its notes come last.
pub(crate) fn listing<R>(
    rows: &[R],
    left: usize,
    cells: impl Fn(&R) -> Vec<Shown>,
    notes: impl Fn(&R) -> Vec<String>,
    runs: impl Fn(&R) -> usize,
) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let head: Vec<&str> = cells(first).into_iter().map(|(head, ..)| head).collect();
    let lines = rows.iter().flat_map(|row| {
        let (texts, mut least_most): (Vec<String>, Vec<String>) =
            cells(row).into_iter().map(|(_, text, least_most)| (text, least_most)).unzip();
        let of_runs = least_most.iter().any(|cell| !cell.is_empty()).then(|| {
            least_most[0] = "  min..max".to_owned();
            (least_most, format!("of {} runs", runs(row)))
        });
        std::iter::once((texts, notes(row).join("; "))).chain(of_runs)
    });
    columns(&head, lines.collect(), |column| column < left)
}

/// Columns that fit, numbers to the right; the last one is text of any length.
pub(crate) fn columns(
    head: &[&str],
    lines: Vec<(Vec<String>, String)>,
    is_left: impl Fn(usize) -> bool,
) -> String {
    let mut all = vec![(head.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>(), "notes".to_owned())];
    all.extend(lines);
    let widths: Vec<usize> = (0..head.len())
        .map(|column| all.iter().map(|(cells, _)| cells[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for (cells, notes) in &all {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let _ = match is_left(column) {
                true => write!(line, "{cell:<width$}  "),
                false => write!(line, "{cell:>width$}  "),
            };
        }
        line.push_str(notes);
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// A figure as tables show it, by its unit.
fn figure(unit: Unit, value: f64) -> String {
    match unit {
        Unit::PerSecond => rate(value),
        // Parts of a ns tell one decoder, or one packet, from another.
        Unit::Ns if value < 1_000.0 => format!("{value:.1}"),
        Unit::Us if value < 100.0 => format!("{value:.2}"),
        Unit::Ns | Unit::Us | Unit::Bytes | Unit::Count | Unit::MbitPerSecond => format!("{value:.0}"),
        Unit::GbitPerSecond | Unit::None => format!("{value:.2}"),
    }
}

/// A figure as tables show those of a measure: whole ns are a time, of whatever length, and what is less than another has a sign.
fn number(measure: &Measure, value: f64) -> String {
    match measure.unit {
        Unit::Ns if measure.step >= 1.0 => {
            format!("{}{}", if value < 0.0 { "-" } else { "" }, latency(value.abs() as u64))
        }
        unit => figure(unit, value),
    }
}

/// That a row has the CPU of one end only, and why.
pub(crate) fn other_unknown(why: &str) -> String {
    format!("the other end's CPU is not known: {why}")
}

/// That runs were contended and by whom, in a word each: `contended (oversubscribed, stolen)`.
pub(crate) fn contended(by: &[String]) -> String {
    let words: Vec<String> =
        by.iter().map(|reason| reason.split(':').next().unwrap_or_default().to_owned()).collect();
    match words.is_empty() {
        true => "contended".to_owned(),
        false => format!("contended ({})", once_each(&words).join(", ")),
    }
}

/// What a reader has to know about a row before using it; void first.
pub fn notes(row: &Row) -> Vec<String> {
    let mut notes: Vec<String> = row.void.iter().map(|why| format!("VOID: {why}")).collect();
    notes.extend(row.missing.clone());
    notes.extend(row.recorded.clone());
    if row.contended {
        notes.push(contended(&row.contention));
    }
    if row.subject.idle_state == Some(IdleState::Cold) {
        notes.push("cores left to sleep".to_owned());
    }
    if let Some(other) = &row.other_end {
        notes.push(other.waits.clone());
        notes.extend(other.cpu_unknown.as_ref().map(|why| other_unknown(why)));
    }
    notes.extend(row.notes.iter().cloned());
    notes.extend(row.no_baseline.clone());
    // A row without any run is void for the same reason.
    notes.extend(row.broken_off.clone().filter(|_| row.void != row.broken_off));
    notes
}

/// A time as tables show those of a measure.
fn time(measure: &Measure, ns: f64) -> String {
    if measure.in_us { format!("{:.3}", ns / 1e3) } else { latency(ns as u64) }
}

/// The statistic at this place of those of spans; `n<k` where fewer than the `k` samples that it needs were taken.
fn statistic(measure: &Measure, value: &Value, stat: usize) -> String {
    match (value, value.stat(stat), measure.kind) {
        (_, Some(ns), _) => time(measure, ns),
        (Value::Spans(..), None, Kind::Spans(stats)) => match stats[stat].2 {
            Stat::Quantile(q) => percentile(None, q),
            _ => "-".to_owned(),
        },
        _ => "-".to_owned(),
    }
}

/// One statistic of the spans `key` as tables show it, and between which values its runs were, or nothing.
pub(crate) fn span(row: &Row, key: &str, stat: &str) -> (String, String) {
    let heads = |(at, measure): (usize, &Measure)| match measure.kind {
        Kind::Spans(stats) if measure.key == key => {
            let head = stats.iter().find(|(name, ..)| *name == stat)?.1;
            cells_of(row, at).into_iter().find(|(known, ..)| *known == head)
        }
        _ => None,
    };
    let found = row.measures.iter().enumerate().find_map(heads);
    found.map_or_else(|| ("-".to_owned(), String::new()), |(_, text, spread)| (text, spread))
}

/// The columns of one measure: head, the row's cell, and least and most of its runs.
fn cells_of(row: &Row, at: usize) -> Vec<Shown> {
    let measure = &row.measures[at];
    match (measure.kind, &row.values[at]) {
        (Kind::Spans(stats), value) => {
            let shown = stats.iter().enumerate().filter(|(_, (_, head, _))| !head.is_empty());
            let cell = |(stat, (_, head, what)): (usize, &NamedStat)| {
                let spread = match what {
                    // Of all runs: no run's is between others.
                    Stat::Min | Stat::Max => String::new(),
                    _ => spread(row.runs.iter().filter_map(|run| run.values[at].stat(stat)), |ns| {
                        time(measure, ns)
                    }),
                };
                (*head, statistic(measure, value, stat), spread)
            };
            shown.map(cell).collect()
        }
        _ if measure.head.is_empty() => Vec::new(),
        (_, value) => {
            let text = match value {
                Value::Word(word) => shown(word),
                value => or_dash(value.number(measure), |n| number(measure, n)),
            };
            let of_runs = || row.runs.iter().filter_map(|run| run.values[at].number(measure));
            let spread = match measure.kind {
                Kind::Median => spread(of_runs(), |n| number(measure, n)),
                // Counts are sums: those of the runs are not what theirs is between.
                _ => String::new(),
            };
            vec![(measure.head, text, spread)]
        }
    }
}

/// What an operation of a row cost, both ends together, and how many cores were busy with it: who polls has them busy whatever comes, and
/// between two packets that are sent at intervals, too, which is no packet's cost.
fn cpu(row: &Row) -> [Shown; 2] {
    let cores = maybe("cores", row.cpu.as_ref(), |cpu| format!("{:.1}", cpu.cores));
    if row.param("gap_us").is_some_and(|us| us != "0") {
        return [plain("cpu/op", "-"), cores];
    }
    let of_runs = spread_ns(row.of_runs(PER_OP).into_iter().map(|ns| Some(ns as u64)));
    [("cpu/op", or_dash(row.number(PER_OP), |ns| latency(ns as u64)), of_runs), cores]
}

/// The tables of rows, one for each bench, or for each list of measures in it: who, what, and every measure with a head; under each row
/// between which values its runs were, and in the end how rows of ours stand beside others of the same work.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    for (_, rows) in by_bench(rows, |row| row.subject.bench) {
        for rows in rows.chunk_by(|a, b| a.measures == b.measures) {
            if !out.is_empty() {
                out.push('\n');
            }
            out += &table_of(rows);
        }
    }
    out + &ratios(rows)
}

fn table_of(rows: &[&Row]) -> String {
    type Who = fn(&Row) -> Option<String>;
    let who: [(&str, Who); 4] = [
        ("system", |row| Some(row.subject.system.clone())),
        ("mode", |row| row.subject.mode.clone()),
        ("engine", |row| row.subject.engine.clone()),
        ("over", |row| row.subject.over.clone()),
    ];
    let who: Vec<_> = who.into_iter().filter(|(_, of)| rows.iter().any(|row| of(row).is_some())).collect();
    let mut params: Vec<&str> = Vec::new();
    for param in rows.iter().flat_map(|row| &row.subject.params) {
        // One column for all, even where it goes without saying of some.
        if !param.is_usual && !params.contains(&param.key) {
            params.push(param.key);
        }
    }
    // Nothing of rows that are older than it, and of those that could not be measured.
    let has_cpu = rows.iter().any(|row| row.cpu.is_some());
    let measures = rows.first().map_or(&[][..], |row| &row.measures[..]);
    let known = |at: &usize| rows.iter().any(|row| row.values[*at] != Value::None);
    // The CPU comes last, as a time with its unit.
    let (own, apart): (Vec<usize>, Vec<usize>) =
        (0..measures.len().saturating_sub(1)).filter(known).partition(|at| measures[*at].object().is_none());
    let has_spans = rows.iter().any(|row| row.samples().is_some());
    let cells = |row: &&Row| -> Vec<Shown> {
        let who = who.iter().map(|(head, of)| maybe(head, of(row), |name| name));
        let params = params.iter().map(|key| maybe(key, row.param(key), |value| value));
        let samples = has_spans.then(|| maybe("samples", row.samples(), |n| n.to_string())).into_iter();
        let cost = has_cpu.then(|| cpu(row)).into_iter().flatten();
        let own = own.iter().flat_map(|at| cells_of(row, *at));
        who.chain(params).chain(own).chain(samples).chain(cost).collect()
    };
    let mut out = listing(rows, who.len() + params.len(), cells, |row| notes(row), |row| row.runs.len());
    for part in apart.chunk_by(|a, b| object_of(measures, *a) == object_of(measures, *b)) {
        let of: Vec<&Row> =
            rows.iter().filter(|row| part.iter().any(|at| row.values[*at] != Value::None)).copied().collect();
        let cells = |row: &&Row| -> Vec<Shown> {
            let whose = plain(object_of(measures, part[0]).trim_end_matches("_ns"), row.subject.title());
            let each = part.iter().map(|at| {
                let measure = &measures[*at];
                maybe(measure.head, row.values[*at].number(measure), |n| match measure.kind {
                    Kind::Spans(_) => time(measure, n),
                    _ => number(measure, n),
                })
            });
            std::iter::once(whose).chain(each).collect()
        };
        out.push('\n');
        out += &listing(&of, 1, cells, |_| Vec::new(), |_| 0);
    }
    out
}

fn object_of(measures: &[Measure], at: usize) -> &'static str {
    measures[at].object().map_or("", |(object, _)| object)
}

/// Whose rows stand beside none of ours: ours, and hosts with nothing between them.
const BESIDE_NONE: [&str; 2] = ["barewire", "direct"];

/// How each row of ours stands beside others of the same work, measure by measure, each in a sentence with its interval, or with what is
/// missing for one. The same work: one bench, the same parameters, and what the page takes for it.
pub fn ratios(rows: &[Row]) -> String {
    let (mut out, rows) = (String::new(), Known::all(rows));
    for ours in rows.iter().filter(|known| known.row.subject.system == "barewire") {
        let same = |other: &&Known<'_>| {
            let (a, b) = (&ours.row.subject, &other.row.subject);
            let is_other = !BESIDE_NONE.contains(&b.system.as_str()) && a.bench == b.bench;
            let same_params = other.row.recorded.is_some() || ours.row.same_params(other.row);
            is_other && same_params && ours.same_work(other)
        };
        for other in rows.iter().filter(same) {
            let subject = &other.row.subject;
            let over = subject.over.as_ref().map_or_else(String::new, |over| format!(" over {over}"));
            let recorded = if other.row.recorded.is_some() { "recorded " } else { "" };
            let name = format!("{recorded}{}{over}{}", subject.system, ours.handicap(other));
            // Of two measures of which one is the other's inverse the first is enough.
            let mut is_first = true;
            for measure in &ours.row.measures {
                let standing = ours.row.standing(other.row, measure).filter(|_| is_first || measure.is_apart);
                if let Some(standing) = standing {
                    let (title, words) = (ours.row.subject.title(), standing.words(&name));
                    let _ = writeln!(out, "{title} is {words} by {}", measure.words);
                    is_first = false;
                }
            }
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::{MEASURES, run, subject};

    #[test]
    fn a_table_is_made_of_the_measures() {
        let runs = |rate: f64| [0.99, 1.0, 1.01, 1.0, 1.0].map(|by| run(rate * by, 100, 30));
        let ours = Row::of(subject("barewire"), MEASURES, &runs(4e6));
        let mut theirs = Row::of(subject("other"), MEASURES, &runs(1e6));
        let text = table(&[ours.clone(), theirs.clone()]);
        for part in [
            "system      over  size  what",
            "packets/s",
            "ns/packet",
            "99.9 %",
            "lost",
            "  min..max",
            "3960K..4040K",
            "n<10000",
            "barewire over mem, 64 B, frames is 4.00 (",
            ") times faster than other over mem by packets\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("mtu"), "no head, no column: {text}");
        theirs.void = Some("wrong".to_owned());
        let text = table(&[ours.clone(), theirs]);
        assert!(text.contains("VOID: wrong") && !text.contains("faster"), "{text}");
        // A wire is no memory, and another state of the cores is another experiment.
        let mut wire = Row::of(subject("other"), MEASURES, &runs(1e6));
        wire.subject.over = Some("xdp".to_owned());
        assert_eq!(ratios(&[ours.clone(), wire]), "");
        let state = |mut row: Row, state| {
            row.subject.idle_state = Some(state);
            row
        };
        let other = Row::of(subject("other"), MEASURES, &runs(1e6));
        let (warm, cold) = (crate::IdleState::Warm, crate::IdleState::Cold);
        assert_eq!(ratios(&[state(ours.clone(), warm), state(other.clone(), cold)]), "");
        assert!(ratios(&[state(ours.clone(), warm), state(other, warm)]).contains("times faster"));
        let few = Row::of(subject("other"), MEASURES, &runs(1e6)[..2]);
        assert!(ratios(&[ours, few]).contains("2 runs, too few for a verdict"));
        assert_eq!(table(&[]), "");
    }
}
