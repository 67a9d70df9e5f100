//! Which pictures a table deserves, and what stands in them.

use super::Ids;
use super::item::Item;
use crate::chart::{
    Axis, Bar, Chart, Forest, ForestRow, Kind, Lines, Origin, Point, SERIES_MAX, Scale, Series, Waterfall,
};
use crate::compare::{Compared, Comparison, Verdict};
use crate::figure::{Better, Stat, Unit};
use crate::published::{PublishedRow, PublishedTable};
use crate::run::Role;
use barewire_measure::{Histogram, samples_needed};
use std::collections::BTreeMap;

/// Points of a curve that are drawn at most.
const CURVE_POINTS: f64 = 90.0;
/// Percentiles that get a marker.
const MARKED: [(f64, &str); 6] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.99999, "p99.999")];
/// Histograms by the names that experiments give them.
const HISTOGRAMS: [&str; 5] = ["response", "rtt", "latency", "service", "connect"];
/// Axes of sweeps, with whether twice as much should give twice the rate.
const SWEEPS: [(&str, bool); 10] = [
    ("threads", true),
    ("machines", true),
    ("clients", true),
    ("nics", true),
    ("peers", false),
    ("entries", false),
    ("masks", false),
    ("size", false),
    ("instruments", false),
    ("connections", false),
];
/// Rows of a forest or waterfall.
const BARS_MAX: usize = 16;
/// A span of values from which an axis runs by powers.
const WIDE_SPAN: f64 = 20.0;

pub(super) fn of_published(t: &'static PublishedTable, mine: &[&Item<'_>], ids: &mut Ids) -> Vec<Chart> {
    let mut charts = Vec::new();
    let here: Vec<&Item<'_>> = mine.iter().copied().filter(|i| i.record.role != Role::Missing).collect();
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
            charts.extend(curves(&title, t.id, &of_case, printed, ids));
        }
    }
    charts.extend(load(t.title, t.id, &here, published_load(t), ids));
    charts.extend(scaling(t.title, t.id, &here, Some(t), ids));
    charts
}

pub(super) fn of_own(id: &str, mine: &[&Item<'_>], ids: &mut Ids) -> Vec<Chart> {
    let here: Vec<&Item<'_>> = mine.iter().copied().filter(|i| i.record.role != Role::Missing).collect();
    let mut charts = curves(id, id, &here, Vec::new(), ids);
    charts.extend(load(id, id, &here, Vec::new(), ids));
    charts.extend(scaling(id, id, &here, None, ids));
    charts
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
    let items: Vec<&Item<'_>> = with.iter().map(|(i, _)| *i).collect();
    if items.is_empty() {
        return Vec::new();
    }
    let names = names(&items);
    let measured: Vec<Series> = names
        .into_iter()
        .zip(with)
        .map(|(name, (_, points))| Series { name, origin: Origin::Measured, points })
        .collect();
    let parts = measured.len().div_ceil(SERIES_MAX);
    measured
        .chunks(SERIES_MAX)
        .enumerate()
        .map(|(part, chunk)| {
            let of = if parts > 1 { format!(" ({} of {parts})", part + 1) } else { String::new() };
            Chart {
                id: ids.make(&format!("{id}-latency")),
                title: format!("Latency by percentile: {title}{of}"),
                reading: "To the right ever rarer cases, each step ten times rarer; upwards ever slower. Dotted: fewer samples than \
                    the percentile needs. Grey and dashed: published."
                    .to_owned(),
                kind: Kind::Lines(Lines {
                    x: Axis {
                        title: "percentile, as 1 / (1 - q)".to_owned(),
                        unit: Unit::Count,
                        scale: Scale::Tail,
                    },
                    y: Axis { title: "time (log scale)".to_owned(), unit: Unit::Ns, scale: Scale::Log },
                    series: chunk.iter().cloned().chain(printed.iter().cloned()).collect(),
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
                points.push(Point { x: 1.0 / (1.0 - q), y: value, label: Some(last), thin: false });
            }
            Stat::Extreme if last == "max" && samples.is_some_and(|n| n > 1.0) => {
                points.push(Point { x: samples.unwrap_or(1.0), y: value, label: Some(last), thin: true });
            }
            Stat::Extreme if last == "min" => {
                points.push(Point { x: 1.0, y: value, label: Some(last), thin: false });
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
        points.push(Point { x, y: y as f64, label: label.map(str::to_owned), thin });
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
            Some(Point { x, y, label: Some(column.label.to_owned()), thin: false })
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

fn load(title: &str, id: &str, items: &[&Item<'_>], printed: Vec<Series>, ids: &mut Ids) -> Option<Chart> {
    let mut series: BTreeMap<String, (usize, Vec<Point>)> = BTreeMap::new();
    for (order, item) in items.iter().enumerate() {
        let latency = item.figures.iter().find(|f| f.stat == Stat::Quantile(0.5) && f.path.contains('.'));
        let rate = item.figures.iter().find(|f| f.path == "rate_per_s");
        let (Some(y), Some(x)) = (latency.and_then(|f| f.value), rate.and_then(|f| f.value)) else {
            continue;
        };
        let label = match (item.number("offered_per_s"), item.number("window")) {
            (Some(offered), _) => format!("offered {}", crate::figure::quantity(offered, Unit::PerSecond)),
            (None, Some(window)) => format!("window {window}"),
            _ => item.identity.details.clone(),
        };
        let name = match item.number("connections").filter(|c| *c != 1.0) {
            Some(connections) => format!("{}, {connections} connections", item.identity.name),
            None => item.identity.name.clone(),
        };
        let size = item.number("size").map_or_else(String::new, |s| format!(", {s} B"));
        let entry = series.entry(format!("{name}{size}")).or_insert((order, Vec::new()));
        entry.1.push(Point { x, y, label: Some(label), thin: false });
    }
    // One point for each system is a table, not a picture.
    if !series.values().any(|(_, points)| points.len() > 1) {
        return None;
    }
    let mut measured: Vec<(usize, Series)> = series
        .into_iter()
        .map(|(name, (order, mut points))| {
            points.sort_by(|a, b| a.x.total_cmp(&b.x));
            (order, Series { name, origin: Origin::Measured, points })
        })
        .collect();
    measured.sort_by_key(|(order, s)| (s.points.len() < 2, *order));
    let series: Vec<Series> = measured.into_iter().map(|(_, s)| s).take(SERIES_MAX).chain(printed).collect();
    let scale = scale_of(series.iter().flat_map(|s| &s.points).map(|p| p.x));
    Some(Chart {
        id: ids.make(&format!("{id}-load")),
        title: format!("Throughput against latency: {title}"),
        reading: "To the right more per second, upwards slower: the lower right is better. A line joins one system's loads.".to_owned(),
        kind: Kind::Lines(Lines {
            x: Axis { title: logged("per second", scale), unit: Unit::PerSecond, scale },
            y: Axis { title: "median time (log scale)".to_owned(), unit: Unit::Ns, scale: Scale::Log },
            series,
        }),
    })
}

fn published_load(t: &PublishedTable) -> Vec<Series> {
    let time = t.columns.iter().position(|c| c.label == "p50");
    let rate = t.columns.iter().position(|c| c.unit == Unit::PerSecond);
    let (Some(time), Some(rate)) = (time, rate) else { return Vec::new() };
    let mut series: Vec<Series> = Vec::new();
    for row in t.rows {
        let (Some(Some(y)), Some(Some(x))) = (row.values.get(time), row.values.get(rate)) else { continue };
        let label = Some(row.window.map_or_else(String::new, |w| format!("window {w}")));
        let (name, point) = (published_name(row), Point { x: *x, y: *y, label, thin: false });
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

// ---- scaling

fn scaling(
    title: &str,
    id: &str,
    items: &[&Item<'_>],
    t: Option<&'static PublishedTable>,
    ids: &mut Ids,
) -> Vec<Chart> {
    let mut axes: Vec<(String, bool)> = SWEEPS.iter().map(|(a, ideal)| ((*a).to_owned(), *ideal)).collect();
    for axis in items.iter().flat_map(|i| i.record.axes.keys()) {
        if axis != "window" && axes.iter().all(|(known, _)| known != axis) {
            axes.push((axis.clone(), false));
        }
    }
    axes.into_iter()
        .filter_map(|(axis, ideal)| one_scaling(title, id, items, t, (&axis, ideal), ids))
        .collect()
}

fn one_scaling(
    title: &str,
    id: &str,
    items: &[&Item<'_>],
    t: Option<&'static PublishedTable>,
    (axis, ideal): (&str, bool),
    ids: &mut Ids,
) -> Option<Chart> {
    let sweep = t.and_then(|t| t.sweep).filter(|s| s.axis == axis);
    let mut found: Vec<(String, &Item<'_>, Vec<Point>)> = Vec::new();
    let mut figure = None;
    for item in items {
        let Some(x) = item.number(axis) else { continue };
        let best = match t.and_then(|t| t.columns.first()).filter(|_| sweep.is_some()) {
            Some(column) => item.figure(column.paths),
            None => item
                .figures
                .iter()
                .find(|f| f.better == Better::Higher && f.value.is_some())
                .or_else(|| crate::figure::primary(&item.figures)),
        };
        let Some((f, y)) = best.and_then(|f| Some((f, f.value?))) else { continue };
        let (path, ..) = figure.get_or_insert((f.path.clone(), f.label.clone(), f.unit));
        if *path != f.path {
            continue;
        }
        let key: Vec<&str> = item
            .identity
            .key
            .split('|')
            .filter(|part| !part.starts_with(&format!("{axis}=")) && !part.starts_with(&format!("@{axis}=")))
            .collect();
        let key = format!("{}#{}", item.run_index, key.join("|"));
        let point = Point { x, y, label: Some(format!("{x} {axis}")), thin: false };
        match found.iter_mut().find(|(known, ..)| *known == key) {
            Some((_, _, points)) => points.push(point),
            None => found.push((key, item, vec![point])),
        }
    }
    let least = if sweep.is_some() { 1 } else { 3 };
    found.retain_mut(|(_, _, points)| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points.dedup_by(|a, b| a.x == b.x);
        points.len() >= least
    });
    let printed: Option<Series> = sweep.and_then(|_| published_sweep(t?, axis));
    if found.is_empty() && printed.is_none() {
        return None;
    }
    let members: Vec<&Item<'_>> = found.iter().map(|f| f.1).collect();
    let names = if members.is_empty() { Vec::new() } else { names(&members) };
    let mut series: Vec<Series> = names
        .into_iter()
        .zip(found)
        .map(|(name, (_, _, points))| Series {
            name: without_axis(&name, axis),
            origin: Origin::Measured,
            points,
        })
        .take(SERIES_MAX)
        .chain(printed)
        .collect();
    if ideal && let Some(line) = ideal_line(&series) {
        series.push(line);
    }
    let words = match (sweep, axis) {
        (Some(s), _) => s.words.to_owned(),
        (None, "size") => "bytes".to_owned(),
        (None, axis) => axis.replace('_', " "),
    };
    let (_, label, unit) =
        figure.unwrap_or_else(|| (String::new(), "connections".to_owned(), Unit::PerSecond));
    let points = || series.iter().flat_map(|s| &s.points);
    let (x_scale, y_scale) = (scale_of(points().map(|p| p.x)), scale_of(points().map(|p| p.y)));
    let y_title = match unit {
        Unit::PerSecond if label.contains("per second") => label,
        Unit::PerSecond | Unit::Mbps => format!("{label}, {}", unit.as_str()),
        _ => label,
    };
    Some(Chart {
        id: ids.make(&format!("{id}-by-{axis}")),
        title: format!("By {words}: {title}"),
        reading: match ideal {
            true => "A line that follows the dotted one scales; one that lies flat does not.".to_owned(),
            false => format!("How the figure changes with {words}."),
        },
        kind: Kind::Lines(Lines {
            x: Axis { title: logged(&words, x_scale), unit: Unit::Count, scale: x_scale },
            y: Axis { title: logged(&y_title, y_scale), unit, scale: y_scale },
            series,
        }),
    })
}

/// A name of a sweep's line: the value of its own axis says nothing about it.
fn without_axis(name: &str, axis: &str) -> String {
    let says = |part: &str| {
        let mut words = part.split(' ');
        words.any(|w| w == axis) || (axis == "size" && part.ends_with(" B"))
    };
    let parts: Vec<&str> =
        name.split(", ").enumerate().filter(|(i, p)| *i == 0 || !says(p)).map(|(_, p)| p).collect();
    parts.join(", ")
}

fn published_sweep(t: &PublishedTable, axis: &str) -> Option<Series> {
    let points: Vec<Point> = t
        .rows
        .iter()
        .filter_map(|row| {
            let wants = t.cases.get(row.case)?.wants;
            let x = wants.iter().find_map(|(key, want)| match want {
                crate::published::Want::Is(x) if *key == axis => Some(*x),
                _ => None,
            })?;
            let y = (*row.values.first()?)?;
            Some(Point { x, y, label: Some(format!("{x} {axis}")), thin: false })
        })
        .collect();
    let name = format!("{}, published", t.rows.first()?.system);
    (points.len() > 1).then_some(Series { name, origin: Origin::Published, points })
}

/// What the first point would give if twice as much were twice as fast.
fn ideal_line(series: &[Series]) -> Option<Series> {
    let of = series.first()?;
    let (first, last) = (of.points.first()?, of.points.last()?);
    if first.x <= 0.0 || last.x <= first.x {
        return None;
    }
    let points = of
        .points
        .iter()
        .map(|p| Point { x: p.x, y: first.y * p.x / first.x, label: None, thin: false })
        .collect();
    Some(Series { name: "if it scaled".to_owned(), origin: Origin::Ideal, points })
}

// ---- where the time goes

pub(super) fn waterfalls(items: &[Item<'_>], ids: &mut Ids) -> Vec<Chart> {
    let mut bars: BTreeMap<String, Vec<Bar>> = BTreeMap::new();
    let mut add = |kind: &str, name: String, stages: Vec<(String, f64)>| {
        bars.entry(kind.to_owned()).or_default().push(Bar { name, stages });
    };
    let median = |item: &Item<'_>, family: &str| {
        let of = |f: &&crate::figure::Figure| f.path.starts_with(family) && f.stat == Stat::Quantile(0.5);
        item.figures.iter().find(of).and_then(|f| f.value)
    };
    for item in items {
        let name = || match item.text("workload") {
            Some(workload) => format!("{}, {workload}", item.identity.name),
            None => item.identity.name.clone(),
        };
        if let Some(stages) = item.record.row.get("stages_ns").and_then(serde_json::Value::as_object) {
            let stages: Vec<(String, f64)> = stages
                .iter()
                .filter_map(|(stage, v)| {
                    let ns = v.as_f64().or_else(|| v.get("p50").and_then(serde_json::Value::as_f64))?;
                    Some((stage.clone(), ns))
                })
                .collect();
            if !stages.is_empty() {
                add(&item.record.experiment, name(), stages);
            }
        }
        if let (Some(response), Some(service)) = (median(item, "response_ns."), median(item, "service_ns.")) {
            let waited = (response - service).max(0.0);
            add(
                "messages, open loop",
                format!("{}, {}", name(), item.identity.details),
                vec![("t0..t1".into(), waited), ("t1..t5".into(), service)],
            );
        }
        if item.text("base") == Some("stamp") {
            let partner = items.iter().find(|o| {
                let same = |key: &str| o.record.row.get(key) == item.record.row.get(key);
                o.text("base") == Some("app")
                    && o.run_index == item.run_index
                    && ["engine", "what", "gap_us", "workload", "instruments", "lines"]
                        .iter()
                        .all(|k| same(k))
            });
            let whole = median(item, "latency_ns.");
            let app = partner.and_then(|p| median(p, "latency_ns."));
            if let (Some(whole), Some(app)) = (whole, app) {
                let pace = match item.number("gap_us") {
                    Some(0.0) => "back to back".to_owned(),
                    Some(us) => format!("{us} us between packets"),
                    None => String::new(),
                };
                let before = (whole - app).max(0.0);
                add(
                    &format!("market data, {pace}"),
                    name(),
                    vec![("t3..t4".into(), before), ("t4..t5".into(), app.min(whole))],
                );
            }
        }
    }
    let mut charts = Vec::new();
    for (kind, bars) in bars {
        for part in bars.chunks(BARS_MAX) {
            charts.push(Chart {
                id: ids.make(&format!("waterfall-{kind}")),
                title: format!("Where the time goes: {kind}"),
                reading: "Medians, laid end to end. A stage that was not measured by itself is the difference of two medians, which is \
                    not the median of the differences."
                    .to_owned(),
                kind: Kind::Waterfall(Waterfall { bars: part.to_vec() }),
            });
        }
    }
    charts
}

// ---- two runs

pub(super) fn forests(comparison: &Comparison) -> Vec<Chart> {
    let mut ids = Ids::of("ab");
    let mut tables: Vec<(&str, Vec<&Compared>)> = Vec::new();
    // A single value on each side has no interval to show.
    let shown = |r: &&Compared| r.interval.is_some_and(|i| i.low < i.high || r.verdict != Verdict::Unknown);
    for row in comparison.rows.iter().filter(shown) {
        match tables.iter_mut().find(|(t, _)| *t == row.table) {
            Some((_, rows)) => rows.push(row),
            None => tables.push((&row.table, vec![row])),
        }
    }
    let mut charts = Vec::new();
    for (table, rows) in tables {
        let parts = rows.len().div_ceil(BARS_MAX);
        for (part, chunk) in rows.chunks(BARS_MAX).enumerate() {
            let of = if parts > 1 { format!(" ({} of {parts})", part + 1) } else { String::new() };
            let rows = chunk
                .iter()
                .filter_map(|row| {
                    let comma = if row.details.is_empty() { "" } else { ", " };
                    let name = format!("{}: {}{comma}{}", row.figure, row.name, row.details);
                    Some(ForestRow { name, interval: row.interval?, verdict: row.verdict })
                })
                .collect();
            charts.push(Chart {
                id: ids.make(&format!("compare-{table}")),
                title: format!("B over A: {table}{of}"),
                reading: "A point is the ratio of medians, its line the interval; one that crosses the dashed line is within noise. Left \
                    of it is better for times, right of it for rates."
                    .to_owned(),
                kind: Kind::Forest(Forest { rows }),
            });
        }
    }
    charts
}
