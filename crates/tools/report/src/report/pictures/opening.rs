//! What people open a report for: one picture and one sentence for each of the four programs, before everything else.

use super::super::Ids;
use super::super::item::Item;
use super::{curves, usable};
use crate::chart::{Chart, Forest, ForestRow, Kind};
use crate::compare::{self, Method, Standing, Verdict};
use crate::figure::{Better, Figure, Stat, Unit, quantity};
use crate::run::Role;

/// Baselines that stand in one picture of round trips.
const BASELINES_MAX: usize = 4;
/// Verdicts of one sentence.
const SAID_MAX: usize = 3;
/// Rows of a picture of ratios.
const RATIOS_MAX: usize = 8;

/// A picture with what it says in a sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Opening {
    /// The picture.
    pub chart: Chart,
    /// What it says: with a verdict and its interval where there is one, without where there is none.
    pub sentence: String,
}

/// At most one for each program, in the order messages, switch, feed, RDMA.
pub(in super::super) fn openings(items: &[Item<'_>], ids: &mut Ids) -> Vec<Opening> {
    let all: Vec<&Item<'_>> = items.iter().filter(|item| is_first(items, item)).collect();
    let here: Vec<&Item<'_>> =
        usable(&all).into_iter().filter(|i| i.is_judged() && !i.flag("simulated")).collect();
    [messages(&here, ids), switch(&here, ids), feed(&here, ids), rdma(&here, ids)]
        .into_iter()
        .flatten()
        .collect()
}

/// A row that stands in several tables is looked at once.
fn is_first(items: &[Item<'_>], item: &Item<'_>) -> bool {
    let again = |o: &&Item<'_>| o.run_index == item.run_index && o.record.row == item.record.row;
    items.iter().find(again).is_some_and(|first| std::ptr::eq(first, item))
}

fn value(item: &Item<'_>, path: &str) -> Option<f64> {
    item.figure(&[path])?.value.filter(|v| *v > 0.0)
}

fn runs(figure: &Figure) -> Vec<f64> {
    if figure.runs.is_empty() { figure.value.into_iter().collect() } else { figure.runs.clone() }
}

fn stands(ours: &Item<'_>, theirs: &Item<'_>, path: &str, better: Better) -> Option<Standing> {
    let (ours, theirs) = (ours.figure(&[path])?, theirs.figure(&[path])?);
    compare::standing(&runs(ours), &runs(theirs), better, &Method::default())
}

fn of_role<'a, 'b>(here: &[&'a Item<'b>], role: Role) -> Vec<&'a Item<'b>> {
    here.iter().copied().filter(|i| i.record.role == role).collect()
}

/// The other systems that did the same work in the same run.
fn comparable_baselines<'a, 'b>(ours: &Item<'_>, baselines: &[&'a Item<'b>]) -> Vec<&'a Item<'b>> {
    let same = |b: &&Item<'_>| {
        b.run_index == ours.run_index && b.text("no_baseline").is_none() && ours.same_workload(b)
    };
    baselines.iter().copied().filter(same).collect()
}

/// Round trips with one request in flight: our fastest that something stands beside, the kernel as most use it, the kernel at its best.
fn messages(here: &[&Item<'_>], ids: &mut Ids) -> Option<Opening> {
    const MEDIAN: &str = "rtt_ns.p50";
    let of = |i: &&&Item<'_>| i.text("loop") == Some("closed") && value(i, MEDIAN).is_some();
    let rows: Vec<&Item<'_>> = here.iter().filter(of).copied().collect();
    let baselines = of_role(&rows, Role::Baseline);
    let by_median = |a: &&&Item<'_>, b: &&&Item<'_>| {
        value(a, MEDIAN).unwrap_or(f64::MAX).total_cmp(&value(b, MEDIAN).unwrap_or(f64::MAX))
    };
    let all_ours = of_role(&rows, Role::Measured);
    let has_company =
        |i: &&&Item<'_>| i.number("window") == Some(1.0) && !comparable_baselines(i, &baselines).is_empty();
    let ways = all_ours.iter().filter(has_company).count();
    let ours = *all_ours.iter().filter(has_company).min_by(by_median)?;
    let mut others = comparable_baselines(ours, &baselines);
    others.sort_by(|a, b| by_median(&a, &b));
    // The usual one stays, however many are faster.
    let usual = others.iter().position(|b| b.text("system") == Some("kernel-tcp"));
    let kept: Vec<&Item<'_>> = others
        .iter()
        .enumerate()
        .filter(|(at, _)| *at < BASELINES_MAX - 1 || Some(*at) == usual)
        .map(|(_, item)| *item)
        .collect();
    let said: Vec<String> = kept
        .iter()
        .filter_map(|b| Some(stands(ours, b, MEDIAN, Better::Lower)?.words(&ours.named(b))))
        .collect();
    let shown: Vec<&Item<'_>> = std::iter::once(ours).chain(kept).collect();
    let mut chart =
        curves("one request in flight", "open-messages", &shown, Vec::new(), ids).into_iter().next()?;
    chart.title = "Messages: round trips beside the kernel's".to_owned();
    let median = quantity(value(ours, MEDIAN)?, Unit::Ns);
    let chosen = if ways > 1 { format!(" (the fastest of {ways} rows of barewire)") } else { String::new() };
    Some(Opening {
        chart,
        sentence: format!(
            "With one request in flight the median round trip of {}{chosen} is {median}, the median of its runs; by this it is {}. The picture shows \
             the samples of all runs together.{}",
            ours.identity.name,
            said.join(", "),
            not_in_the_picture(&all_ours, &baselines),
        ),
    })
}

/// What the picture of the fastest leaves out, and a reader has to know before choosing: the daemon, which most applications use, beside the
/// kernel as most use it; and many requests in flight, where messages that are sent together gain most.
fn not_in_the_picture(ours: &[&Item<'_>], baselines: &[&Item<'_>]) -> String {
    const RATE: &str = "rate_per_s";
    let mut out = String::new();
    let is_daemon = |i: &&&Item<'_>| {
        i.text("mode") == Some("daemon")
            && i.number("window") == Some(1.0)
            && i.text("idle_state") != Some("cold")
    };
    let usual = |i: &Item<'_>| {
        comparable_baselines(i, baselines).into_iter().find(|b| b.text("system") == Some("kernel-tcp"))
    };
    // As it is by default, which is asleep between messages, where it was measured so.
    let mut daemons: Vec<&&Item<'_>> = ours.iter().filter(is_daemon).collect();
    daemons.sort_by_key(|i| i.text("idle") != Some("park"));
    let daemon = daemons.into_iter().find_map(|i| {
        let theirs = usual(i)?;
        Some((i, stands(i, theirs, "rtt_ns.p50", Better::Lower)?.words(&i.named(theirs))))
    });
    if let Some((item, words)) = daemon {
        out += &format!(" Through the daemon: {} is {words}.", item.identity.name);
    }
    let by_rate = |a: &&Item<'_>, b: &&Item<'_>| {
        value(a, RATE).unwrap_or_default().total_cmp(&value(b, RATE).unwrap_or_default())
    };
    let window = ours.iter().filter_map(|i| i.number("window")).fold(1.0, f64::max);
    let many = ours.iter().copied().filter(|i| window > 1.0 && i.number("window") == Some(window));
    let best = many.filter(|i| !comparable_baselines(i, baselines).is_empty()).max_by(by_rate);
    let beside = best.and_then(|i| {
        let theirs = comparable_baselines(i, baselines).into_iter().max_by(by_rate)?;
        Some((i, stands(i, theirs, RATE, Better::Higher)?.words(&i.named(theirs))))
    });
    if let Some((item, words)) = beside {
        out += &format!(" With {window} in flight, by messages a second, {} is {words}.", item.identity.name);
    }
    out
}

/// Ratios of ours to the others by `figures`, best first; with a sentence about each.
fn ratios(
    here: &[&Item<'_>],
    figures: &[(&str, &str, Better)],
    id: &str,
    title: &str,
    ids: &mut Ids,
) -> Option<Opening> {
    let (ours, baselines) = (of_role(here, Role::Measured), of_role(here, Role::Baseline));
    // Where there are several of ours, a row has to say which.
    let of_figures = |i: &&&Item<'_>| figures.iter().any(|(path, ..)| value(i, path).is_some());
    let mut names: Vec<&str> = ours.iter().filter(of_figures).map(|i| i.identity.name.as_str()).collect();
    names.dedup();
    let mut found: Vec<(ForestRow, String, String)> = Vec::new();
    for (path, what, better) in figures {
        for item in ours.iter().filter(|i| value(i, path).is_some()) {
            for other in comparable_baselines(item, &baselines) {
                let Some(standing) = stands(item, other, path, *better) else { continue };
                let point = if item.identity.details.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", item.identity.details)
                };
                let of = if names.len() > 1 { format!("{}: ", item.identity.name) } else { String::new() };
                let pair = format!("{of}{what} beside {}", other.identity.name);
                found.push((
                    ForestRow {
                        name: format!("{pair}{point}"),
                        interval: standing.gain,
                        verdict: standing.verdict,
                    },
                    pair,
                    format!(
                        "by {what} {}{point} is {}",
                        item.identity.name,
                        standing.words(&item.named(other))
                    ),
                ));
            }
        }
    }
    // One row for each pair of names: the point with the most certain verdict comes first.
    found.sort_by_key(|(row, ..)| row.verdict == Verdict::Unknown);
    found.truncate(RATIOS_MAX);
    // Of each figure beside each other system the first is said.
    let mut told: Vec<String> = Vec::new();
    let mut said: Vec<String> = Vec::new();
    let mut rows: Vec<ForestRow> = Vec::new();
    for (row, pair, words) in found {
        if !told.contains(&pair) && said.len() < SAID_MAX {
            told.push(pair);
            said.push(words);
        }
        rows.push(row);
    }
    let all = said.join("; ");
    let mut chars = all.chars();
    let sentence: String = chars.next()?.to_uppercase().chain(chars).chain(".".chars()).collect();
    Some(Opening {
        chart: Chart {
            id: ids.make(id),
            title: title.to_owned(),
            reading: "A point is how many times better ours is by the medians of the runs, its line the interval; one that crosses the \
                dashed line is within noise."
                .to_owned(),
            kind: Kind::Forest(Forest { rows, axis: "ours, times better (log scale)".to_owned() }),
        },
        sentence,
    })
}

fn switch(here: &[&Item<'_>], ids: &mut Ids) -> Option<Opening> {
    let figures = [("tcp_mbps", "TCP", Better::Higher), ("rate_pps", "packets", Better::Higher)];
    let rows: Vec<&Item<'_>> = here
        .iter()
        .filter(|i| i.text("program").is_some() || i.text("system") == Some("bridge"))
        .copied()
        .collect();
    ratios(&rows, &figures, "open-switch", "P4 switch: beside the kernel's bridge and bmv2", ids)
}

fn rdma(here: &[&Item<'_>], ids: &mut Ids) -> Option<Opening> {
    let figures = [("connections_per_s", "connections", Better::Higher)];
    ratios(here, &figures, "open-rdma", "RDMA: connections beside the kernel's TCP", ids)
}

/// From the wire (the frame's stamp, or its arrival where nobody stamps) to the callback, at the longest pause between packets.
fn feed(here: &[&Item<'_>], ids: &mut Ids) -> Option<Opening> {
    let quantile = |i: &Item<'_>, q: f64| {
        let of = |f: &&Figure| f.path.starts_with("latency_ns.") && f.stat == Stat::Quantile(q);
        i.figures.iter().find(of)?.value
    };
    let rows: Vec<&Item<'_>> = here
        .iter()
        .filter(|i| i.record.role == Role::Measured && i.text("base").is_some() && quantile(i, 0.5).is_some())
        .copied()
        .collect();
    let stamped: Vec<&Item<'_>> = rows.iter().filter(|i| i.text("base") == Some("stamp")).copied().collect();
    let rows = if stamped.is_empty() { rows } else { stamped };
    let gap = rows.iter().filter_map(|i| i.number("gap_us")).fold(0.0, f64::max);
    let rows: Vec<&Item<'_>> =
        rows.into_iter().filter(|i| i.number("gap_us").unwrap_or(0.0) == gap).take(BASELINES_MAX).collect();
    let best = rows.iter().min_by(|a, b| {
        quantile(a, 0.5).unwrap_or(f64::MAX).total_cmp(&quantile(b, 0.5).unwrap_or(f64::MAX))
    })?;
    let from = if best.text("base") == Some("stamp") { "From the wire" } else { "From the engine" };
    let tail = best.figures.iter().find(|f| f.stat == Stat::Quantile(0.99)).and_then(|f| f.value);
    let tail =
        tail.map_or_else(String::new, |ns| format!(", 99 of a hundred within {}", quantity(ns, Unit::Ns)));
    let sentence = format!(
        "{from} to the callback with its book half of the packets take {} or less with {}{tail}; nothing stands beside it here that does \
         the same work.",
        quantity(quantile(best, 0.5)?, Unit::Ns),
        best.identity.name,
    );
    let mut chart =
        curves("from the wire to the book", "open-feed", &rows, Vec::new(), ids).into_iter().next()?;
    let pace = if gap > 0.0 {
        format!("{} between packets", quantity(gap * 1e3, Unit::Ns))
    } else {
        "back to back".to_owned()
    };
    chart.title = format!("Market data: from the wire to the book, {pace}");
    Some(Opening { chart, sentence })
}
