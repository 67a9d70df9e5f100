//! Rows of messages as text for a terminal and as Markdown for a report.

use super::{LoopKind, MsgRow, OfRuns};
use crate::render::{
    LITTLE_TOLERANCE, columns, contended, latency, or_dash, other_unknown, percentile, rate,
};
use barewire_measure::RttNs;
use std::fmt::Write as _;

/// A percentile of a row: over its runs, where every run carries it, else of the samples of all runs together.
fn shown(of_runs: Option<OfRuns>, pooled: Option<u64>) -> Option<u64> {
    of_runs.map_or(pooled, |runs| Some(runs.median))
}

/// The percentiles that a row shows: of service times, or, asked for and of an open loop, of response times.
pub(crate) fn shown_times(row: &MsgRow, response: bool) -> RttNs {
    let (pooled, of_runs) = match (response, &row.response_ns) {
        (true, Some(times)) => (times, row.response_of_runs_ns.unwrap_or_default()),
        _ => (&row.rtt_ns, row.rtt_of_runs_ns),
    };
    RttNs {
        p50: shown(of_runs.p50, pooled.p50),
        p99: shown(of_runs.p99, pooled.p99),
        p99_9: shown(of_runs.p99_9, pooled.p99_9),
        ..*pooled
    }
}

/// `18 us, 21 us, 22 us`: p50, p99, p99.9.
pub(crate) fn triple(p: &RttNs) -> String {
    format!("{}, {}, {}", percentile(p.p50, 0.5), percentile(p.p99, 0.99), percentile(p.p99_9, 0.999))
}

/// The best and the worst of the runs at each percentile, and of their rates: how far one run is from the next.
fn run_spread(row: &MsgRow) -> Option<String> {
    if row.runs.len() < 2 {
        return None;
    }
    let (of, pooled) = match (row.response_of_runs_ns, &row.response_ns) {
        (Some(of), Some(pooled)) => (of, pooled),
        _ => (row.rtt_of_runs_ns, &row.rtt_ns),
    };
    let mut parts: Vec<String> = [("p50", of.p50), ("p99", of.p99), ("p99.9", of.p99_9)]
        .into_iter()
        .filter_map(|(name, runs)| {
            let runs = runs?;
            Some(format!("{name} {}..{}", latency(runs.min), latency(runs.max)))
        })
        .collect();
    let rates = || row.runs.iter().map(|run| run.rate_per_s);
    let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    parts.push(format!("{}..{}/s", rate(low), rate(high)));
    // One run has too few samples for these, all of them have enough.
    let together =
        [("p50", of.p50, pooled.p50), ("p99", of.p99, pooled.p99), ("p99.9", of.p99_9, pooled.p99_9)];
    let together = together.into_iter().filter(|(_, of, pooled)| of.is_none() && pooled.is_some());
    let together: Vec<&str> = together.map(|(name, ..)| name).collect();
    if !together.is_empty() {
        parts.push(format!("{} of all together", together.join(" and ")));
    }
    Some(format!("{} runs: {}", row.runs.len(), parts.join(", ")))
}

/// What an operation cost: `13.2 us` of CPU, both ends together; `-` where that is not known.
fn cost(row: &MsgRow) -> String {
    or_dash(row.cpu_ns_per_op, |ns| latency(ns as u64))
}

/// How many cores it kept busy.
fn cores(row: &MsgRow) -> String {
    or_dash(row.cpu.as_ref(), |cpu| format!("{:.1}", cpu.cores))
}

/// The state of the cores, and whether those that were left to sleep did not.
pub(crate) fn state_shown(row: &MsgRow) -> String {
    let word = row.idle_state.word();
    row.sleepless().map_or_else(
        || word.to_owned(),
        |busy| format!("meant to be {word}, but {busy:.1} cores stayed busy"),
    )
}

/// What a reader has to know about a row before using it; void first.
pub(crate) fn notes(row: &MsgRow) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &row.void {
        notes.push(format!("VOID: {why}"));
    }
    notes.extend(row.overloaded.as_ref().map(|what| format!("overloaded: {what}")));
    notes.extend(row.broken_off.clone());
    if row.contended {
        notes.push(contended(&row.contention));
    }
    notes.push(state_shown(row));
    notes.extend(row.waits.clone());
    notes.extend(row.cpu_unknown.as_ref().map(|why| other_unknown(why)));
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
pub fn text_table(rows: &[MsgRow]) -> String {
    const HEAD: [&str; 15] = [
        "system", "mode", "over", "size", "window", "conns", "loop", "time", "p50", "p99", "p99.9", "max",
        "rate/s", "cpu/op", "cores",
    ];
    let mut lines: Vec<(Vec<String>, String)> = Vec::new();
    for row in rows {
        let times = |what: &str, p: &RttNs| {
            [
                what.to_owned(),
                percentile(p.p50, 0.5),
                percentile(p.p99, 0.99),
                percentile(p.p99_9, 0.999),
                or_dash(p.max, latency),
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
        cells.extend(times(first, &shown_times(row, false)));
        cells.extend([rate(row.rate_per_s), cost(row), cores(row)]);
        lines.push((cells, notes(row).join("; ")));
        if row.response_ns.is_some() {
            let mut cells = vec![String::new(); 7];
            cells.extend(times("response", &shown_times(row, true)));
            cells.extend([const { String::new() }; 3]);
            lines.push((cells, String::new()));
        }
    }
    // Names to the left, numbers to the right.
    columns(&HEAD, lines, |column| matches!(column, 0..3 | 6 | 7))
}

/// What the published report puts into footnotes and we say in every row.
pub(crate) fn workload_notes(row: &MsgRow) -> String {
    let mut text = format!("{} B, window {}", row.size, row.window);
    if row.connections > 1 {
        let _ = write!(text, ", {} connections", row.connections);
    }
    if let Some(engines) = row.engines {
        let _ = write!(text, ", {engines} engines on {} queues", row.queues.unwrap_or(1));
    }
    if let Some(offered) = row.offered_per_s {
        let _ = write!(text, ", offered {}/s, times from the intended send", rate(offered));
    }
    text
}
