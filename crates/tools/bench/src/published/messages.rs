//! The published tables with what was measured here beside them: never one without the other's conditions.

use crate::messages::render::{notes, triple, workload_notes};
use crate::messages::row::mode_shown;
use crate::render::{LITTLE_TOLERANCE, cell, latency, rate};
use crate::row::Row;
use barewire_report::figure::Unit;
use barewire_report::published::{self, Case, PublishedRow, PublishedTable};
use barewire_report::run::{HardwareClass, Record};
use std::fmt::Write as _;

/// What the published columns leave out about their clock, and what ours are.
const CLOCK_NOTE: &str = "\
- Published times: `msg_gen` reads the clock around its send and receive calls, truncates to whole microseconds and keeps
  two significant digits; its percentiles are those of one second, not of a run. A printed 9 us is 9.0 to 9.99 us.
- Times measured here: `CLOCK_MONOTONIC` in nanoseconds, read fresh before the send call (t1) and when the response is
  handed to the application (t5); three significant digits; each percentile is the median of the runs' own, or, where no
  run alone carries it, of all runs together. `n<k`: fewer than the k samples that the percentile needs.
- One machine's figures do not carry over to another's. Rows are comparable with rows of the same fingerprint and the same
  *over* only; every other pair is marked `not comparable`.
";

/// Bytes of the published messages ("1KB messages", `msg_size 1024`), which is what is asked for to repeat them.
pub const PUBLISHED_SIZE: u32 = 1024;

/// The id of the message service's table.
const MACHNET: &str = "machnet";

/// Which published experiment a measured row repeats, by the report's own rule.
pub fn experiment_of(row: &Row) -> Option<&'static Case> {
    let serde_json::Value::Object(fields) = serde_json::to_value(row).ok()? else { return None };
    let table = published::table(MACHNET).filter(|t| published::tables_of(&fields).contains(&t.id))?;
    table.cases.get(table.case_of(&Record::new(MACHNET, MACHNET, fields))?)
}

/// The published label of an experiment: `E1`.
pub fn label(case: &Case) -> &'static str {
    case.label.split([',', ':']).next().unwrap_or(case.label)
}

/// The command that a published table prints, and how its figures were taken, as an item of a list. Empty for a table that is not known.
pub fn published_command(table: &str) -> String {
    published::table(table)
        .map_or_else(String::new, |t| format!("- Published command: `{}`. {}\n", t.command, t.method))
}

/// Renders the published message-service tables and `rows` side by side as Markdown: one table for each experiment,
/// a column that says who measured, the notes on clocks, and the exact command of each measured row. `machine` describes
/// where `rows` were measured, in a line or two; `class` is what lay between their ends, which whoever set up the run knows.
pub fn message_tables(rows: &[Row], machine: &str, class: HardwareClass) -> String {
    let mut out = String::from("# Message service: published and measured here\n\n");
    let _ = writeln!(out, "Measured here on: {machine}\n");
    let Some(table) = published::table(MACHNET) else { return out };
    let experiments: Vec<Option<&Case>> = rows.iter().map(experiment_of).collect();
    for (index, case) in table.cases.iter().enumerate() {
        let _ = writeln!(out, "## {}\n", case.label);
        out.push_str("| Server | NIC, DPDK PMD | Round-trip p50 99 99.9 | RPCs/s | Source | Notes |\n");
        out.push_str("| --- | --- | --- | --- | --- | --- |\n");
        for published in table.rows.iter().filter(|p| p.case == index) {
            published_line(&mut out, table, published);
        }
        let mut measured =
            rows.iter().enumerate().filter(|(at, _)| experiments[*at] == Some(case)).peekable();
        if measured.peek().is_none() {
            out.push_str(
                "| this machine | | not run | not run | measured here | no such row was measured |\n",
            );
        }
        for (index, row) in measured {
            measured_line(&mut out, index, row, class);
        }
        out.push('\n');
    }
    let others = experiments.iter().filter(|e| e.is_none()).count();
    if others > 0 {
        let _ = writeln!(
            out,
            "{others} measured rows of other sizes, loops or connection counts repeat no published experiment and are not shown.\n"
        );
    }
    let _ = writeln!(out, "## How to read this\n\n{}{CLOCK_NOTE}", published_command(MACHNET));
    if others < rows.len() {
        out.push_str("## Commands of the measured rows\n\n");
        for (index, row) in rows.iter().enumerate().filter(|(at, _)| experiments[*at].is_some()) {
            // A numbered list of code spans: a command's own backquotes would end the span.
            let _ = writeln!(out, "- [{}] `{}`", index + 1, cell(&row.subject.command).replace('`', "'"));
        }
    }
    out
}

fn published_line(out: &mut String, table: &PublishedTable, p: &PublishedRow) {
    const NOT_RUN: &str = "not run by the authors";
    let of_unit = |unit: Unit| -> Vec<&str> {
        let columns = table.columns.iter().zip(p.values).filter(|(column, _)| column.unit == unit);
        columns.filter_map(|(_, value)| value.map(|printed| printed.text)).collect()
    };
    let times = of_unit(Unit::Ns);
    let times = if times.is_empty() { NOT_RUN.to_owned() } else { times.join(", ") };
    let per_s = of_unit(Unit::PerSecond).first().copied().unwrap_or(NOT_RUN);
    let mut remarks = p.window.map_or_else(String::new, |window| format!("window {window}; "));
    if !p.note.is_empty() {
        let _ = write!(remarks, "{}; ", p.note);
    }
    let _ = writeln!(
        out,
        "| {} | {} | {times} | {per_s} | published | {remarks}{} |",
        cell(p.system),
        cell(p.hardware),
        p.class.as_str()
    );
}

fn measured_line(out: &mut String, index: usize, row: &Row, class: HardwareClass) {
    let mut remarks = format!("[{}] {}; {}", index + 1, workload_notes(row), notes(row).join("; "));
    match row.number("little") {
        Some(little) if (little - 1.0).abs() <= LITTLE_TOLERANCE => {
            let _ = write!(remarks, "; Little's law {little:.2}");
        }
        _ => {}
    }
    if let (Some(min), Some(max)) = (row.stat("rtt_ns", "min"), row.stat("rtt_ns", "max")) {
        let _ = write!(remarks, "; {}..{}", latency(min as u64), latency(max as u64));
    }
    let _ = writeln!(
        out,
        "| {} *{}* | {} | {} | {} | measured here, **not comparable** ({}) | {} |",
        cell(&row.subject.system),
        cell(&mode_shown(row)),
        cell(row.subject.over.as_deref().unwrap_or_default()),
        triple(row),
        rate(row.number("rate_per_s").unwrap_or_default()),
        class.as_str(),
        cell(&remarks),
    );
}
