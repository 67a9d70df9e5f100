//! Rows as text for a terminal and as Markdown for a report.

use crate::row::{LoopKind, Row};
use crate::seeds::{experiment_of, label};
use barewire_measure::{RttNs, samples_needed};
use std::fmt::Write as _;

/// How far Little's law may be off before a row says so.
pub use barewire_report::compare::LITTLE_TOLERANCE;

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

/// `18 us, 21 us, 22 us`: p50, p99, p99.9.
pub(crate) fn triple(p: &RttNs) -> String {
    format!("{}, {}, {}", percentile(p.p50, 0.5), percentile(p.p99, 0.99), percentile(p.p99_9, 0.999))
}

/// The shortest and the longest of the runs' medians: how far one run is from the next.
fn run_spread(row: &Row) -> Option<String> {
    let medians = || row.runs.iter().filter_map(|r| r.p50_ns);
    match (medians().min(), medians().max()) {
        (Some(low), Some(high)) if row.runs.len() > 1 => {
            Some(format!("run p50 {}..{}", latency(low), latency(high)))
        }
        _ => None,
    }
}

/// What a reader has to know about a row before using it; void first.
pub(crate) fn notes(row: &Row) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &row.void {
        notes.push(format!("VOID: {why}"));
    }
    notes.extend(row.broken_off.clone());
    if row.contended {
        notes.push("contended".to_owned());
    }
    notes.push(row.idle_state.word().to_owned());
    notes.extend(run_spread(row));
    if let Some(little) = row.little.filter(|l| (l - 1.0).abs() > LITTLE_TOLERANCE) {
        notes.push(format!("Little's law off: {little:.2}"));
    }
    if let Some(behind) = row.behind_percent.filter(|&b| b > 0.0) {
        notes.push(format!("{behind:.1} % behind schedule"));
    }
    if let Some(lag) = &row.send_lag_ns {
        notes.push(format!(
            "sends {}, {} late (p50, p99)",
            percentile(lag.p50, 0.5),
            percentile(lag.p99, 0.99)
        ));
    }
    if row.settled == Some(false) {
        notes.push("not settled when it began".to_owned());
    }
    if row.resends > 0 {
        notes.push(format!("{} resends", row.resends));
    }
    if row.verified && row.mismatches == 0 {
        notes.push("verified".to_owned());
    }
    notes
}

/// The table for a terminal. An open-loop row takes two lines: service times, then response times.
pub fn text_table(rows: &[Row]) -> String {
    const HEAD: [&str; 13] = [
        "system", "mode", "over", "size", "window", "conns", "loop", "time", "p50", "p99", "p99.9", "max",
        "rate/s",
    ];
    let mut lines: Vec<(Vec<String>, String)> = vec![(HEAD.map(str::to_owned).to_vec(), "notes".to_owned())];
    let max = |p: &RttNs| p.max.map_or_else(|| "-".to_owned(), latency);
    for row in rows {
        let times = |what: &str, p: &RttNs| {
            [
                what.to_owned(),
                percentile(p.p50, 0.5),
                percentile(p.p99, 0.99),
                percentile(p.p99_9, 0.999),
                max(p),
            ]
        };
        let mut cells = vec![
            row.system.clone(),
            row.mode_shown(),
            row.over.clone(),
            row.size.to_string(),
            row.window.to_string(),
            row.connections.to_string(),
            match (row.loop_kind, row.offered_per_s) {
                (LoopKind::Open, Some(offered)) => format!("open {}", rate(offered)),
                _ => "closed".to_owned(),
            },
        ];
        let first = if row.response_ns.is_some() { "service" } else { "rtt" };
        cells.extend(times(first, &row.rtt_ns));
        cells.push(rate(row.rate_per_s));
        lines.push((cells, notes(row).join("; ")));
        if let Some(response) = &row.response_ns {
            let mut cells = vec![String::new(); 7];
            cells.extend(times("response", response));
            cells.push(String::new());
            lines.push((cells, String::new()));
        }
    }
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|column| lines.iter().map(|(cells, _)| cells[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for (cells, notes) in &lines {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            // Names to the left, numbers to the right.
            let left = column < 3 || column == 6 || column == 7;
            if left {
                let _ = write!(line, "{cell:<width$}  ");
            } else {
                let _ = write!(line, "{cell:>width$}  ");
            }
        }
        line.push_str(notes);
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Text as one cell of a Markdown table.
pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// The published report's label where the row repeats one of its experiments; else which loop it is.
pub(crate) fn experiment(row: &Row) -> &'static str {
    match (experiment_of(row), row.loop_kind) {
        (Some(case), _) => label(case),
        (None, LoopKind::Open) => "open",
        (None, LoopKind::Closed) => "closed",
    }
}

/// What the published report puts into footnotes and we say in every row.
pub(crate) fn workload_notes(row: &Row) -> String {
    let mut text = format!("{} B, window {}", row.size, row.window);
    if row.connections > 1 {
        let _ = write!(text, ", {} connections", row.connections);
    }
    if let Some(offered) = row.offered_per_s {
        let _ = write!(text, ", offered {}/s, times from the intended send", rate(offered));
    }
    text
}

/// The report's table in the shape of the published one. Rows of one system follow each other under its name; an
/// open-loop row shows response times.
pub fn markdown_table(rows: &[Row]) -> String {
    let mut out = String::from(
        "| Server | NIC, DPDK PMD | Round-trip p50 99 99.9 | RPCs/s | Notes |\n| --- | --- | --- | --- | --- |\n",
    );
    let mut previous: Option<&Row> = None;
    for row in rows {
        let same = previous.is_some_and(|p| {
            (&p.system, &p.mode, &p.idle, &p.over) == (&row.system, &row.mode, &row.idle, &row.over)
        });
        if !same && previous.is_some() {
            out.push_str("| | | | | |\n");
        }
        let (server, nic) = if same {
            (String::new(), String::new())
        } else {
            (format!("{} *{}*", cell(&row.system), cell(&row.mode_shown())), cell(&row.over))
        };
        let times = row.response_ns.as_ref().unwrap_or(&row.rtt_ns);
        let _ = writeln!(
            out,
            "| {server} | {nic} | {}: {} | {} | {}; {} |",
            experiment(row),
            triple(times),
            rate(row.rate_per_s),
            workload_notes(row),
            cell(&notes(row).join("; ")),
        );
        previous = Some(row);
    }
    out
}
