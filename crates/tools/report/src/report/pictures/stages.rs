//! Where the time goes, and two runs side by side.

use super::super::Ids;
use super::super::item::Item;
use crate::chart::{Bar, Chart, Forest, ForestRow, Kind, Waterfall};
use crate::compare::{Compared, Comparison, Verdict};
use crate::figure::{Stat, Unit, quantity};
use std::collections::BTreeMap;

/// Rows of a forest or waterfall.
const BARS_MAX: usize = 16;

/// One chart for each kind of operation.
pub(in super::super) fn waterfalls(items: &[Item<'_>], ids: &mut Ids) -> Vec<Chart> {
    let mut bars: BTreeMap<String, Vec<Bar>> = BTreeMap::new();
    let mut add = |kind: &str, name: String, stages: Vec<(String, f64)>| {
        bars.entry(kind.to_owned()).or_default().push(Bar { name, stages });
    };
    let median = |item: &Item<'_>, family: &str| {
        let of = |f: &&crate::figure::Figure| f.path.starts_with(family) && f.stat == Stat::Quantile(0.5);
        item.figures.iter().find(of).and_then(|f| f.value)
    };
    for item in items.iter().filter(|i| i.text("void").is_none()) {
        let name = || match item.text("workload") {
            Some(workload) => format!("{}, {workload}", item.identity.name),
            None => item.identity.name.clone(),
        };
        let steps = steps(item);
        // A row that stands in several tables is one bar.
        let again = |o: &Item<'_>| o.run_index == item.run_index && o.record.row == item.record.row;
        let first = items.iter().find(|o| again(o)).is_some_and(|o| std::ptr::eq(o, item));
        if !steps.is_empty() && first {
            add("a connection, step by step", format!("{}, {}", name(), item.identity.details), steps);
        }
        if let (Some(response), Some(service)) = (median(item, "response_ns."), median(item, "service_ns.")) {
            let waited = (response - service).max(0.0);
            add(
                "messages, open loop",
                match item.number("offered_per_s") {
                    Some(rate) => format!("{}, offered {}/s", name(), quantity(rate, Unit::PerSecond)),
                    None => format!("{}, {}", name(), item.identity.details),
                },
                vec![("t0..t1".into(), waited), ("t1..t5".into(), service)],
            );
        }
        let stamped =
            |app: &Item<'_>| items.iter().any(|o| o.text("base") == Some("stamp") && of_one_run(app, o));
        if item.text("base") == Some("app")
            && !stamped(item)
            && let Some(app) = median(item, "latency_ns.")
        {
            // In memory nobody stamps packets.
            add(&format!("market data, {}", pace(item)), name(), vec![("t4..t5".into(), app)]);
        }
        if item.text("base") == Some("stamp") {
            let partner = items.iter().find(|o| o.text("base") == Some("app") && of_one_run(item, o));
            let whole = median(item, "latency_ns.");
            let app = partner.and_then(|p| median(p, "latency_ns."));
            if let (Some(whole), Some(app)) = (whole, app) {
                let before = (whole - app).max(0.0);
                add(
                    &format!("market data, {}", pace(item)),
                    name(),
                    vec![("t3..t4".into(), before), ("t4..t5".into(), app.min(whole))],
                );
            }
        }
    }
    let mut charts = Vec::new();
    for (kind, mut bars) in bars {
        // A sweep's bars stand together by system.
        bars.sort_by(|a, b| who(&a.name).cmp(who(&b.name)));
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

/// The medians of a connection's steps, in their order: `create` to `destroy`. Empty for rows that have none.
fn steps(item: &Item<'_>) -> Vec<(String, f64)> {
    const STEPS: [&str; 6] = ["create", "req_to_rep", "rtu", "first_byte", "disconnect", "destroy"];
    let of = |step: &&str| {
        let ns = item.record.row.get("steps_ns")?.get(*step)?.get("p50")?.as_f64()?;
        Some(((*step).to_owned(), ns))
    };
    // With a step left out the others would not lie end to end.
    STEPS.iter().map(of).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// Rows of one run of the feed handler, between different points.
fn of_one_run(a: &Item<'_>, b: &Item<'_>) -> bool {
    const SAME: [&str; 6] = ["engine", "what", "gap_us", "workload", "instruments", "lines"];
    a.run_index == b.run_index && SAME.iter().all(|key| a.record.row.get(*key) == b.record.row.get(*key))
}

fn pace(item: &Item<'_>) -> String {
    match item.number("gap_us") {
        Some(0.0) => "back to back".to_owned(),
        Some(us) => format!("{us} us between packets"),
        None => String::new(),
    }
}

/// A bar's system: what stands before its settings.
fn who(name: &str) -> &str {
    name.split(',').next().unwrap_or(name)
}

/// One chart for each table, and more where it has many figures.
pub(in super::super) fn forests(comparison: &Comparison) -> Vec<Chart> {
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
                kind: Kind::Forest(Forest { rows, axis: "B over A, log scale".to_owned() }),
            });
        }
    }
    charts
}
