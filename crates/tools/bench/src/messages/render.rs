//! Rows of messages as text for a terminal and as Markdown for a report.

use super::row::{is_open, mode_shown, offered, sleepless, state};
use crate::cpu::PER_OP;
use crate::render::{
    LITTLE_TOLERANCE, columns, contended, latency, or_dash, other_unknown, percentile, rate,
};
use crate::row::Row;
use serde_json::Value as Json;
use std::fmt::Write as _;

/// The spans that a row shows: service times, or, asked for and of an open loop, response times.
fn spans(row: &Row, response: bool) -> &'static str {
    if response && row.samples_of("response_ns").is_some() { "response_ns" } else { "rtt_ns" }
}

/// A percentile of a row: over its runs, where every run carries it, else of the samples of all runs together.
fn shown(row: &Row, key: &str, stat: &str) -> Option<u64> {
    let pooled = || row.stat(key, stat).map(|ns| ns as u64);
    row.over_runs(key, stat).map_or_else(pooled, |runs| Some(runs.median))
}

/// The percentiles of a table, with their names.
const PERCENTILES: [(&str, &str, f64); 3] =
    [("p50", "p50", 0.5), ("p99", "p99", 0.99), ("p99_9", "p99.9", 0.999)];

/// p50, p99 and p99.9 of the spans `key`: `18 us`, `21 us`, `22 us`.
fn percentiles(row: &Row, key: &str) -> [String; 3] {
    PERCENTILES.map(|(stat, _, q)| percentile(shown(row, key, stat), q))
}

/// Round trips: `18 us, 21 us, 22 us`.
pub(crate) fn triple(row: &Row) -> String {
    percentiles(row, "rtt_ns").join(", ")
}

/// The best and the worst of the runs at each percentile, and of their rates: how far one run is from the next.
fn run_spread(row: &Row) -> Option<String> {
    if row.runs.len() < 2 {
        return None;
    }
    let key = spans(row, true);
    let of = PERCENTILES.map(|(stat, name, _)| (name, row.over_runs(key, stat), row.stat(key, stat)));
    let mut parts: Vec<String> = of
        .iter()
        .filter_map(|(name, runs, _)| {
            let runs = (*runs)?;
            Some(format!("{name} {}..{}", latency(runs.min), latency(runs.max)))
        })
        .collect();
    let rates = || row.numbers_of_runs("rate_per_s");
    let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    parts.push(format!("{}..{}/s", rate(low), rate(high)));
    // One run has too few samples for these, all of them have enough.
    let together = of.iter().filter(|(_, of, pooled)| of.is_none() && pooled.is_some());
    let together: Vec<&str> = together.map(|(name, ..)| *name).collect();
    if !together.is_empty() {
        parts.push(format!("{} of all together", together.join(" and ")));
    }
    Some(format!("{} runs: {}", row.runs.len(), parts.join(", ")))
}

/// What an operation cost: `13.2 us` of CPU, both ends together; `-` where that is not known.
fn cost(row: &Row) -> String {
    or_dash(row.number(PER_OP), |ns| latency(ns as u64))
}

/// How many cores it kept busy.
fn cores(row: &Row) -> String {
    or_dash(row.cpu.as_ref(), |cpu| format!("{:.1}", cpu.cores))
}

/// The state of the cores, and whether those that were left to sleep did not.
pub(crate) fn state_shown(row: &Row) -> String {
    let word = state(row);
    sleepless(row).map_or_else(
        || word.to_owned(),
        |busy| format!("meant to be {word}, but {busy:.1} cores stayed busy"),
    )
}

/// What a reader has to know about a row before using it; void first.
pub(crate) fn notes(row: &Row) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &row.void {
        notes.push(format!("VOID: {why}"));
    }
    notes.extend(row.word("overloaded").map(|what| format!("overloaded: {what}")));
    notes.extend(row.broken_off.clone());
    if row.contended {
        notes.push(contended(&row.contention));
    }
    notes.push(state_shown(row));
    if let Some(other) = &row.other_end {
        notes.push(other.waits.clone());
        notes.extend(other.cpu_unknown.as_ref().map(|why| other_unknown(why)));
    }
    notes.extend(run_spread(row));
    if let Some(little) = row.number("little").filter(|l| (l - 1.0).abs() > LITTLE_TOLERANCE) {
        notes.push(format!("Little's law off: {little:.2}"));
    }
    if let Some(behind) = row.number("behind_percent").filter(|&b| b > 0.0) {
        notes.push(format!("{behind:.1} % behind schedule"));
    }
    if row.samples_of("send_lag_ns").is_some() {
        let of = |stat, q| percentile(row.stat("send_lag_ns", stat).map(|ns| ns as u64), q);
        notes.push(format!("sends {}, {} late (p50, p99)", of("p50", 0.5), of("p99", 0.99)));
    }
    if row.told("settled") == Some(&Json::Bool(false)) {
        notes.push("not settled when it began".to_owned());
    }
    if let Some(resends) = row.number("resends").filter(|resends| *resends > 0.0) {
        notes.push(format!("{resends} resends"));
    }
    if row.setting("verified") == Some(&Json::Bool(true)) && row.number("mismatches") == Some(0.0) {
        notes.push("verified".to_owned());
    }
    notes
}

/// The table for a terminal. An open-loop row takes two lines: service times, then response times.
pub fn text_table(rows: &[Row]) -> String {
    const HEAD: [&str; 15] = [
        "system", "mode", "over", "size", "window", "conns", "loop", "time", "p50", "p99", "p99.9", "max",
        "rate/s", "cpu/op", "cores",
    ];
    let mut lines: Vec<(Vec<String>, String)> = Vec::new();
    for row in rows {
        let times = |what: &str, key: &str| {
            let max = or_dash(row.stat(key, "max"), |ns| latency(ns as u64));
            std::iter::once(what.to_owned()).chain(percentiles(row, key)).chain([max])
        };
        let param = |key: &str| row.param(key).unwrap_or_default();
        let mut cells = vec![
            row.subject.system.clone(),
            mode_shown(row),
            row.subject.over.clone().unwrap_or_default(),
            param("size"),
            param("window"),
            param("connections"),
            match offered(row) {
                Some(offered) if is_open(row) => format!("open {}", rate(offered)),
                _ => "closed".to_owned(),
            },
        ];
        let has_response = spans(row, true) == "response_ns";
        cells.extend(times(if has_response { "service" } else { "rtt" }, "rtt_ns"));
        cells.extend([rate(row.number("rate_per_s").unwrap_or_default()), cost(row), cores(row)]);
        lines.push((cells, notes(row).join("; ")));
        if has_response {
            let mut cells = vec![String::new(); 7];
            cells.extend(times("response", "response_ns"));
            cells.extend([const { String::new() }; 3]);
            lines.push((cells, String::new()));
        }
    }
    // Names to the left, numbers to the right.
    columns(&HEAD, lines, |column| matches!(column, 0..3 | 6 | 7))
}

/// What the published report puts into footnotes and we say in every row.
pub(crate) fn workload_notes(row: &Row) -> String {
    let param = |key: &str| row.param(key);
    let or_none = |key: &str| param(key).unwrap_or_default();
    let mut text = format!("{} B, window {}", or_none("size"), or_none("window"));
    if let Some(connections) = param("connections").filter(|connections| connections != "1") {
        let _ = write!(text, ", {connections} connections");
    }
    if let Some(engines) = param("engines") {
        let queues = param("queues").unwrap_or_else(|| "1".to_owned());
        let _ = write!(text, ", {engines} engines on {queues} queues");
    }
    if let Some(offered) = offered(row) {
        let _ = write!(text, ", offered {}/s, times from the intended send", rate(offered));
    }
    text
}
