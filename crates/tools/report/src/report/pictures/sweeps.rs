//! A figure along an axis of a sweep: threads, machines, entries, bytes.

use super::super::Ids;
use super::super::item::Item;
use super::{logged, names, scale_of};
use crate::chart::{Axis, Chart, Kind, Lines, Origin, Point, SERIES_MAX, Series};
use crate::figure::{Better, Unit};
use crate::published::PublishedTable;

/// Axes of sweeps, with whether twice as much should give twice the rate.
const SWEEPS: [(&str, bool); 10] = [
    ("threads", true),
    ("hosts", true),
    ("clients", true),
    ("nics", true),
    ("peers", false),
    ("entries", false),
    ("masks", false),
    ("size", false),
    ("instruments", false),
    ("connections", false),
];

/// A chart for each axis that some system was measured along.
pub(super) fn scaling(
    title: &str,
    id: &str,
    items: &[&Item<'_>],
    t: Option<&'static PublishedTable>,
    ids: &mut Ids,
) -> Vec<Chart> {
    let mut axes: Vec<(String, bool)> = SWEEPS.iter().map(|(a, ideal)| ((*a).to_owned(), *ideal)).collect();
    for axis in items.iter().flat_map(|i| i.record.axes.keys()) {
        // Loads have a picture of their own.
        if !["window", "offered_per_s"].contains(&axis.as_str())
            && axes.iter().all(|(known, _)| known != axis)
        {
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
        let singular = axis.trim_end_matches('s');
        words.any(|w| w.eq_ignore_ascii_case(axis) || w.eq_ignore_ascii_case(singular))
            || (axis == "size" && part.ends_with(" B"))
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
