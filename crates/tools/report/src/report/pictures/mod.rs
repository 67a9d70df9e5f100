//! Which pictures a table deserves, and what stands in them: here percentile curves, and throughput against latency.

mod opening;
mod stages;
mod sweeps;

pub use opening::Opening;
pub(super) use opening::openings;
pub(super) use stages::{forests, waterfalls};

use super::Ids;
use super::item::Item;
use crate::chart::{Axis, Chart, Kind, Lines, Origin, Point, SERIES_MAX, Scale, Series};
use crate::figure::{Stat, Unit};
use crate::published::{PublishedRow, PublishedTable};
use crate::run::Role;
use barewire_measure::{Histogram, samples_needed};
use sweeps::scaling;

/// Points of a curve that are drawn at most.
const CURVE_POINTS: f64 = 90.0;
/// Percentiles that get a marker.
const MARKED: [(f64, &str); 6] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.99999, "p99.999")];
/// Histograms by the names that experiments give them.
const HISTOGRAMS: [&str; 5] = ["response", "rtt", "latency", "service", "connect"];
/// A span of values from which an axis runs by powers.
const WIDE_SPAN: f64 = 20.0;

pub(super) fn of_published(t: &'static PublishedTable, mine: &[&Item<'_>], ids: &mut Ids) -> Vec<Chart> {
    let mut charts = Vec::new();
    let here = usable(mine);
    let has_percentiles = t.columns.iter().any(|c| c.paths.iter().any(|path| path.contains('.')));
    if t.sweep.is_none() {
        for (case, heading) in t.cases.iter().enumerate() {
            let printed: Vec<Series> =
                t.rows.iter().filter(|r| r.case == case).filter_map(|r| published_curve(t, r)).collect();
            let of_case: Vec<&Item<'_>> =
                here.iter().copied().filter(|i| t.case_of(i.record) == Some(case)).collect();
            let title = if t.cases.len() > 1 {
                format!("{}: {}", t.title, heading.label)
            } else {
                t.title.to_owned()
            };
            let title =
                if has_percentiles { title } else { format!("round trips of the same systems ({title})") };
            charts.extend(curves(&title, t.id, &of_case, printed, ids));
        }
    }
    charts.extend(load(t.title, t.id, &here, published_load(t), ids));
    charts.extend(scaling(t.title, t.id, &here, Some(t), ids));
    charts
}

pub(super) fn of_own(title: &str, id: &str, mine: &[&Item<'_>], ids: &mut Ids) -> Vec<Chart> {
    let here = usable(mine);
    let mut charts = curves(title, id, &here, Vec::new(), ids);
    charts.extend(offered(title, id, &here, ids));
    charts.extend(load(title, id, &here, Vec::new(), ids));
    charts.extend(scaling(title, id, &here, None, ids));
    charts
}

/// Rows that a picture may show: measured, and not void.
fn usable<'a, 'b>(mine: &[&'a Item<'b>]) -> Vec<&'a Item<'b>> {
    mine.iter().copied().filter(|i| i.record.role != Role::Missing && i.text("void").is_none()).collect()
}

/// Names that tell the items of one chart apart.
fn names(items: &[&Item<'_>]) -> Vec<String> {
    let several_runs = items.iter().any(|i| i.run_index != items[0].run_index);
    let named = |i: &Item<'_>| match several_runs {
        true => format!("{} [{}]", i.identity.name, i.run.manifest.label),
        false => i.identity.name.clone(),
    };
    let plain: Vec<String> = items.iter().map(|i| named(i)).collect();
    let unique = |name: &String| plain.iter().filter(|n| *n == name).count() == 1;
    if plain.iter().all(unique) {
        return plain;
    }
    // Only what not all of them share is worth its place in a legend.
    let parts = |i: &Item<'_>| -> Vec<String> { i.identity.details.split(", ").map(str::to_owned).collect() };
    let all: Vec<Vec<String>> = items.iter().map(|i| parts(i)).collect();
    let shared = |part: &String| all.iter().all(|p| p.contains(part));
    items
        .iter()
        .zip(&all)
        .zip(plain.iter())
        .map(|((_, parts), name)| {
            let own: Vec<&str> = parts.iter().filter(|p| !shared(p)).map(String::as_str).collect();
            if own.is_empty() { name.clone() } else { format!("{name}, {}", own.join(", ")) }
        })
        .collect()
}

// ---- percentile curves

fn curves(title: &str, id: &str, items: &[&Item<'_>], printed: Vec<Series>, ids: &mut Ids) -> Vec<Chart> {
    let with: Vec<(&Item<'_>, Vec<Point>)> =
        items.iter().filter_map(|i| Some((*i, curve(i)?))).filter(|(_, p)| p.len() > 1).collect();
    let mut with = with;
    if with.len() > SERIES_MAX {
        // Several pictures: what belongs together stands together.
        with.sort_by(|(a, _), (b, _)| a.identity.name.cmp(&b.identity.name));
    }
    parts(measured(with, ""))
        .into_iter()
        .map(|(series, of)| {
            Chart {
                id: ids.make(&format!("{id}-latency")),
                title: format!("Latency by percentile: {title}{of}"),
                reading: "Each step to the right is ten times rarer. Dotted: fewer samples than the percentile needs. Grey and dashed: published."
                    .to_owned(),
                kind: Kind::Lines(Lines {
                    x: Axis {
                        title: "percentile (each step ten times rarer)".to_owned(),
                        unit: Unit::Count,
                        scale: Scale::Tail,
                    },
                    y: Axis { title: "time (log scale)".to_owned(), unit: Unit::Ns, scale: Scale::Log },
                    series: series.into_iter().chain(printed.iter().cloned()).collect(),
                }),
            }
        })
        .collect()
}

fn curve(item: &Item<'_>) -> Option<Vec<Point>> {
    for name in HISTOGRAMS {
        if let Some(histogram) = item.run.histogram(item.record, name).filter(|h| h.samples() > 0) {
            return Some(of_histogram(&histogram));
        }
    }
    // Without a histogram the row's percentiles are points of the same curve.
    let of = item.figures.iter().find(|f| f.stat == Stat::Quantile(0.5) && f.path.contains('.'))?;
    let family = of.path.split('.').next()?;
    let mut points: Vec<Point> = Vec::new();
    let samples = item.number("samples");
    for figure in item.figures.iter().filter(|f| f.path.split('.').next() == Some(family)) {
        let Some(value) = figure.value else { continue };
        let last = figure.label.split(' ').next_back().unwrap_or_default().to_owned();
        match figure.stat {
            Stat::Quantile(q) => {
                points.push(Point { x: 1.0 / (1.0 - q), y: value, label: Some(last), ..Point::default() });
            }
            Stat::Extreme if last == "max" && samples.is_some_and(|n| n > 1.0) => {
                points.push(Point {
                    x: samples.unwrap_or(1.0),
                    y: value,
                    label: Some(last),
                    thin: true,
                    ..Point::default()
                });
            }
            Stat::Extreme if last == "min" => {
                points.push(Point { x: 1.0, y: value, label: Some(last), ..Point::default() });
            }
            _ => {}
        }
    }
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Some(points)
}

fn of_histogram(histogram: &Histogram) -> Vec<Point> {
    let n = histogram.samples() as f64;
    let mut points: Vec<Point> = Vec::new();
    let mut push = |x: f64, y: u64, label: Option<&str>, thin| {
        points.push(Point { x, y: y as f64, label: label.map(str::to_owned), thin, ..Point::default() });
    };
    push(1.0, histogram.min().unwrap_or(0), Some("min"), false);
    let mut seen = 0;
    let step = n.ln() / CURVE_POINTS;
    let mut next = step;
    for (ns, count) in histogram.buckets() {
        seen += count;
        let left = n - seen as f64;
        if left < 1.0 {
            break;
        }
        let x = n / left;
        if x.ln() >= next {
            push(x, ns, None, samples_needed(1.0 - 1.0 / x) as f64 > n);
            next = x.ln() + step;
        }
    }
    for (q, label) in MARKED {
        if let Some(ns) = histogram.quantile(q).value() {
            push(1.0 / (1.0 - q), ns, Some(label), false);
        }
    }
    push(n.max(2.0), histogram.max().unwrap_or(0), Some("max"), true);
    points.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)));
    points
}

fn published_curve(t: &PublishedTable, row: &PublishedRow) -> Option<Series> {
    let tail = |label: &str| match label {
        "min" => Some(1.0),
        "p50" | "median" => Some(2.0),
        "95 %" => Some(20.0),
        "p99" | "99 %" => Some(100.0),
        "p99.9" => Some(1_000.0),
        _ => None,
    };
    let points: Vec<Point> = t
        .columns
        .iter()
        .zip(row.values)
        .filter_map(|(column, value)| {
            let (x, y) = (tail(column.label)?, (*value)?);
            let label = Some(column.label.to_owned());
            Some(Point { x, y: y.value, label, y_text: Some(y.text), ..Point::default() })
        })
        .collect();
    (points.len() > 1).then(|| Series { name: published_name(row), origin: Origin::Published, points })
}

fn published_name(row: &PublishedRow) -> String {
    match row.hardware {
        "not told" => format!("{}, published", row.system),
        hardware => format!("{}, {hardware}, published", row.system.split(',').next().unwrap_or(row.system)),
    }
}

// ---- throughput against latency

fn load(title: &str, id: &str, items: &[&Item<'_>], printed: Vec<Series>, ids: &mut Ids) -> Vec<Chart> {
    // Open loops have a picture of their own, by what was offered.
    let closed: Vec<&Item<'_>> =
        items.iter().copied().filter(|i| i.number("offered_per_s").is_none()).collect();
    let mut found = joined(&closed, "window", &|item| {
        let latency = item.figures.iter().find(|f| f.stat == Stat::Quantile(0.5) && f.path.contains('.'));
        let (y, x) = (latency?.value?, item.figure(&["rate_per_s"])?.value?);
        let label = match item.number("window") {
            Some(window) => format!("window {window}"),
            None => item.identity.details.clone(),
        };
        Some(Point { x, y, label: Some(label), hollow: is_overloaded(item), ..Point::default() })
    });
    // One point for each system is a table, not a picture.
    if !found.iter().any(|(_, points)| points.len() > 1) {
        return Vec::new();
    }
    found.sort_by_key(|(_, points)| points.len() < 2);
    let measured = measured(found, "window");
    let scale = scale_of(measured.iter().chain(&printed).flat_map(|s| &s.points).map(|p| p.x));
    parts(measured)
        .into_iter()
        .map(|(series, of)| Chart {
            id: ids.make(&format!("{id}-load")),
            title: format!("Throughput against latency: {title}{of}"),
            reading: "To the right more per second, upwards slower: the lower right is better. A line joins one system's loads."
                .to_owned(),
            kind: Kind::Lines(Lines {
                x: Axis { title: logged("per second", scale), unit: Unit::PerSecond, scale },
                y: Axis { title: "median time (log scale)".to_owned(), unit: Unit::Ns, scale: Scale::Log },
                series: series.into_iter().chain(printed.iter().cloned()).collect(),
            }),
        })
        .collect()
}

/// The points of each line along `axis`: rows of one run that differ in nothing else, sorted to the right.
fn joined<'a, 'b>(
    items: &[&'a Item<'b>],
    axis: &str,
    point: &dyn Fn(&Item<'_>) -> Option<Point>,
) -> Vec<(&'a Item<'b>, Vec<Point>)> {
    let mut found: Vec<(String, &Item<'_>, Vec<Point>)> = Vec::new();
    for item in items {
        let Some(point) = point(item) else { continue };
        let of_axis = |part: &&str| {
            let key = part.split('=').next().unwrap_or_default();
            key == axis || key.strip_prefix('@') == Some(axis)
        };
        let key: Vec<&str> = item.identity.key.split('|').filter(|part| !of_axis(part)).collect();
        let key = format!("{}#{}", item.run_index, key.join("|"));
        match found.iter_mut().find(|(known, ..)| *known == key) {
            Some((_, _, points)) => points.push(point),
            None => found.push((key, item, vec![point])),
        }
    }
    found
        .into_iter()
        .map(|(_, item, mut points)| {
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            (item, points)
        })
        .collect()
}

/// Lines with names that tell them apart; the value of their own axis says nothing about them.
fn measured(found: Vec<(&Item<'_>, Vec<Point>)>, axis: &str) -> Vec<Series> {
    let members: Vec<&Item<'_>> = found.iter().map(|(item, _)| *item).collect();
    let names = if members.is_empty() { Vec::new() } else { names(&members) };
    let series = |(name, (_, points)): (String, (&Item<'_>, Vec<Point>))| Series {
        name: sweeps::without_axis(&name, axis),
        origin: Origin::Measured,
        points,
    };
    names.into_iter().zip(found).map(series).collect()
}

/// As many series as a picture can tell apart, for each with what its title says of it.
fn parts(series: Vec<Series>) -> Vec<(Vec<Series>, String)> {
    let parts = series.len().div_ceil(SERIES_MAX);
    let of = |part: usize| if parts > 1 { format!(" ({} of {parts})", part + 1) } else { String::new() };
    series.chunks(SERIES_MAX).enumerate().map(|(part, chunk)| (chunk.to_vec(), of(part))).collect()
}

/// More was offered than it carried: the point is a result, and what it took of those that were not answered is not in it.
fn is_overloaded(item: &Item<'_>) -> bool {
    item.text("overloaded").is_some()
}

/// Response times by offered load: the hockey stick of an open loop.
fn offered(title: &str, id: &str, items: &[&Item<'_>], ids: &mut Ids) -> Vec<Chart> {
    let mut series: Vec<Series> = Vec::new();
    for (path, word) in [("response_ns.p50", "p50"), ("response_ns.p99", "p99")] {
        let mut found = joined(items, "offered_per_s", &|item| {
            let x = item.number("offered_per_s")?;
            let y = item.figure(&[path])?.value?;
            let told = item.number("rate_per_s").filter(|got| *got < x * 0.99);
            let label = match told {
                Some(got) => format!("{} answered", crate::figure::quantity(got, Unit::PerSecond)),
                None => "all answered".to_owned(),
            };
            Some(Point { x, y, label: Some(label), hollow: is_overloaded(item), ..Point::default() })
        });
        found.retain(|(_, points)| points.len() > 1);
        let named = |s: Series| Series { name: format!("{}, {word}", s.name), ..s };
        series.extend(measured(found, "offered_per_s").into_iter().map(named));
    }
    // Both percentiles of one system stand in one picture.
    series.sort_by(|a, b| a.name.cmp(&b.name));
    let scale = scale_of(series.iter().flat_map(|s| &s.points).map(|p| p.x));
    parts(series)
        .into_iter()
        .map(|(series, of)| Chart {
            id: ids.make(&format!("{id}-offered")),
            title: format!("Response time by offered load: {title}{of}"),
            reading: "Requests come by a schedule, whatever became of those before; the time runs from the scheduled moment. Where a line \
                turns upwards, the system is full. Void rows are left out."
                .to_owned(),
            kind: Kind::Lines(Lines {
                x: Axis { title: logged("offered per second", scale), unit: Unit::PerSecond, scale },
                y: Axis { title: "response time (log scale)".to_owned(), unit: Unit::Ns, scale: Scale::Log },
                series,
            }),
        })
        .collect()
}

fn published_load(t: &PublishedTable) -> Vec<Series> {
    let time = t.columns.iter().position(|c| c.label == "p50");
    let rate = t.columns.iter().position(|c| c.unit == Unit::PerSecond);
    let (Some(time), Some(rate)) = (time, rate) else { return Vec::new() };
    let mut series: Vec<Series> = Vec::new();
    for row in t.rows {
        let (Some(Some(y)), Some(Some(x))) = (row.values.get(time), row.values.get(rate)) else { continue };
        let label = Some(row.window.map_or_else(String::new, |w| format!("window {w}")));
        let (x_text, y_text) = (Some(x.text), Some(y.text));
        let point = Point { x: x.value, y: y.value, label, x_text, y_text, ..Point::default() };
        let name = published_name(row);
        match series.iter_mut().find(|s| s.name == name) {
            Some(known) => known.points.push(point),
            None => series.push(Series { name, origin: Origin::Published, points: vec![point] }),
        }
    }
    series
}

fn scale_of(values: impl Iterator<Item = f64>) -> Scale {
    let (mut low, mut high) = (f64::INFINITY, 0.0);
    for v in values.filter(|v| *v > 0.0) {
        (low, high) = (v.min(low), v.max(high));
    }
    if high / low > WIDE_SPAN { Scale::Log } else { Scale::Linear }
}

fn logged(title: &str, scale: Scale) -> String {
    if scale == Scale::Log { format!("{title} (log scale)") } else { title.to_owned() }
}
