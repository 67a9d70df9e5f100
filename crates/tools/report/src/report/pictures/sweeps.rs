//! A figure along an axis of a sweep: threads, machines, entries, bytes.

use super::super::Ids;
use super::super::item::Item;
use super::{joined, logged, measured, parts, scale_of};
use crate::chart::{Axis, Chart, Kind, Lines, Origin, Point, Series};
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
    axes.into_iter().flat_map(|(axis, ideal)| one_scaling(title, id, items, t, (&axis, ideal), ids)).collect()
}

fn one_scaling(
    title: &str,
    id: &str,
    items: &[&Item<'_>],
    t: Option<&'static PublishedTable>,
    (axis, ideal): (&str, bool),
    ids: &mut Ids,
) -> Vec<Chart> {
    let sweep = t.and_then(|t| t.sweep).filter(|s| s.axis == axis);
    let mut figure: Option<(String, String, Unit)> = None;
    let best = |item: &Item<'_>| match t.and_then(|t| t.columns.first()).filter(|_| sweep.is_some()) {
        Some(column) => item.figure(column.paths).cloned(),
        None => {
            let rate = item.figures.iter().find(|f| f.better == Better::Higher && f.value.is_some());
            rate.or_else(|| crate::figure::primary(&item.figures)).cloned()
        }
    };
    // One picture is of one figure: that of the first row that has one.
    for item in items.iter().filter(|i| i.number(axis).is_some()) {
        if let Some(f) = best(item).filter(|f| f.value.is_some()) {
            figure = Some((f.path, f.label, f.unit));
            break;
        }
    }
    let mut found = joined(items, axis, &|item| {
        let x = item.number(axis)?;
        let f = best(item).filter(|f| figure.as_ref().is_some_and(|(path, ..)| *path == f.path))?;
        Some(Point { x, y: f.value?, label: Some(format!("{x} {axis}")), ..Point::default() })
    });
    let least = if sweep.is_some() { 1 } else { 3 };
    found.retain_mut(|(_, points)| {
        points.dedup_by(|a, b| a.x == b.x);
        points.len() >= least
    });
    let printed: Option<Series> = sweep.and_then(|_| published_sweep(t?, axis));
    if found.is_empty() && printed.is_none() {
        return Vec::new();
    }
    let mut drawn = parts(measured(found, axis));
    if drawn.is_empty() {
        drawn.push((Vec::new(), String::new()));
    }
    let words = match (sweep, axis) {
        (Some(s), _) => s.words.to_owned(),
        (None, "size") => "bytes".to_owned(),
        (None, axis) => axis.replace('_', " "),
    };
    let (_, label, unit) =
        figure.unwrap_or_else(|| (String::new(), "connections".to_owned(), Unit::PerSecond));
    let y_title = match unit {
        Unit::PerSecond if label.contains("per second") => label,
        Unit::PerSecond | Unit::Mbps => format!("{label}, {}", unit.as_str()),
        _ => label,
    };
    drawn
        .into_iter()
        .map(|(measured, of)| {
            let mut series: Vec<Series> = measured.into_iter().chain(printed.clone()).collect();
            if ideal && let Some(line) = ideal_line(&series) {
                series.push(line);
            }
            let points = || series.iter().flat_map(|s| &s.points);
            let (x_scale, y_scale) = (scale_of(points().map(|p| p.x)), scale_of(points().map(|p| p.y)));
            Chart {
                id: ids.make(&format!("{id}-by-{axis}")),
                title: format!("By {words}: {title}{of}"),
                reading: match ideal {
                    true => {
                        "A line that follows the dotted one scales; one that lies flat does not.".to_owned()
                    }
                    false => format!("How the figure changes with {words}."),
                },
                kind: Kind::Lines(Lines {
                    x: Axis { title: logged(&words, x_scale), unit: Unit::Count, scale: x_scale },
                    y: Axis { title: logged(&y_title, y_scale), unit, scale: y_scale },
                    series,
                }),
            }
        })
        .collect()
}

/// A name of a sweep's line: the value of its own axis says nothing about it.
pub(super) fn without_axis(name: &str, axis: &str) -> String {
    if axis.is_empty() {
        return name.to_owned();
    }
    let says = |part: &str| {
        let mut words = part.split(' ');
        let singular = axis.trim_end_matches('s');
        words.any(|w| w.eq_ignore_ascii_case(axis) || w.eq_ignore_ascii_case(singular))
            || (axis == "offered_per_s" && part.starts_with("offered "))
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
            let label = Some(format!("{x} {axis}"));
            Some(Point { x, y: y.value, label, y_text: Some(y.text), ..Point::default() })
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
    let points =
        of.points.iter().map(|p| Point { x: p.x, y: first.y * p.x / first.x, ..Point::default() }).collect();
    Some(Series { name: "if it scaled".to_owned(), origin: Origin::Ideal, points })
}
