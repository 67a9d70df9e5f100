//! The published tables with what was measured here beside them: never one without the other's conditions.

use crate::render::{LITTLE_TOLERANCE, cell, latency, notes, rate, triple, workload_notes};
use crate::row::{LoopKind, Row};
use crate::seeds_data::{Experiment, HardwareClass, PUBLISHED, PUBLISHED_SIZE, Published};
use std::fmt::Write as _;

/// What the published columns leave out about their clock, and what ours are.
const CLOCK_NOTE: &str = "\
- Published times: `msg_gen` reads the clock around its send and receive calls, truncates to whole microseconds and keeps
  two significant digits; its percentiles are those of one second, not of a run. A printed 9 us is 9.0 to 9.99 us.
- Times measured here: `CLOCK_MONOTONIC` in nanoseconds, read fresh before the send call (t1) and when the response is
  handed to the application (t5); three significant digits; percentiles of all runs together. `n<k`: fewer than the k
  samples that the percentile needs.
- One machine's figures do not carry over to another's. Rows are comparable with rows of the same fingerprint and the same
  *over* only; every other pair is marked `not comparable`.
";

/// Which published experiment a measured row repeats: closed loop, 1024 bytes, one connection; E1 with one request in
/// flight, E2 with several.
pub fn experiment_of(row: &Row) -> Option<Experiment> {
    if row.loop_kind != LoopKind::Closed || row.size != PUBLISHED_SIZE || row.connections != 1 {
        return None;
    }
    Some(if row.window == 1 { Experiment::Latency } else { Experiment::MessageRate })
}

/// The command that a published table prints, and how its figures were taken, as an item of a list. Empty for a table that is not known.
pub fn published_command(table: &str) -> String {
    barewire_report::published::table(table)
        .map_or_else(String::new, |t| format!("- Published command: `{}`. {}\n", t.command, t.method))
}

/// Renders the published message-service tables and `rows` side by side as Markdown: one table for each experiment,
/// a column that says who measured, the notes on clocks, and the exact command of each measured row. `machine` describes
/// where `rows` were measured, in a line or two; `class` is what lay between their ends, which whoever set up the run knows.
pub fn message_tables(rows: &[Row], machine: &str, class: HardwareClass) -> String {
    let mut out = String::from("# Message service: published and measured here\n\n");
    let _ = writeln!(out, "Measured here on: {machine}\n");
    for (experiment, title) in [
        (Experiment::Latency, "E1: latency, one 1024-byte request in flight"),
        (Experiment::MessageRate, "E2: message rate, several 1024-byte requests in flight"),
    ] {
        let _ = writeln!(out, "## {title}\n");
        out.push_str("| Server | NIC, DPDK PMD | Round-trip p50 99 99.9 | RPCs/s | Source | Notes |\n");
        out.push_str("| --- | --- | --- | --- | --- | --- |\n");
        for published in PUBLISHED.iter().filter(|p| p.experiment == experiment) {
            published_line(&mut out, published);
        }
        let mut measured =
            rows.iter().enumerate().filter(|(_, r)| experiment_of(r) == Some(experiment)).peekable();
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
    let others = rows.iter().filter(|r| experiment_of(r).is_none()).count();
    if others > 0 {
        let _ = writeln!(
            out,
            "{others} measured rows of other sizes, loops or connection counts repeat no published experiment and are not shown.\n"
        );
    }
    let _ = writeln!(out, "## How to read this\n\n{}{CLOCK_NOTE}", published_command("machnet"));
    if rows.iter().any(|r| experiment_of(r).is_some()) {
        out.push_str("## Commands of the measured rows\n\n");
        for (index, row) in rows.iter().enumerate().filter(|(_, r)| experiment_of(r).is_some()) {
            // A numbered list of code spans: a command's own backquotes would end the span.
            let _ = writeln!(out, "- [{}] `{}`", index + 1, cell(&row.command).replace('`', "'"));
        }
    }
    out
}

fn published_line(out: &mut String, p: &Published) {
    let server = if p.os.is_empty() { p.server.to_owned() } else { format!("{} *{}*", p.server, p.os) };
    let nic = if p.pmd.is_empty() { p.nic.to_owned() } else { format!("{}, {}", p.nic, p.pmd) };
    let (times, per_s) = match p.figures {
        Some(f) => {
            (format!("{} us, {} us, {} us", f.p50_us, f.p99_us, f.p99_9_us), rate(f64::from(f.rate_k) * 1e3))
        }
        None => ("not run by the authors".to_owned(), "not run by the authors".to_owned()),
    };
    let mut remarks = format!("window {}", p.window);
    if !p.note.is_empty() {
        let _ = write!(remarks, "; {}", p.note);
    }
    let _ = writeln!(
        out,
        "| {server} | {nic} | {times} | {per_s} | published | {remarks}; {} |",
        p.class.as_str()
    );
}

fn measured_line(out: &mut String, index: usize, row: &Row, class: HardwareClass) {
    let mut remarks = format!("[{}] {}; {}", index + 1, workload_notes(row), notes(row).join("; "));
    match row.little {
        Some(little) if (little - 1.0).abs() <= LITTLE_TOLERANCE => {
            let _ = write!(remarks, "; Little's law {little:.2}");
        }
        _ => {}
    }
    if let (Some(min), Some(max)) = (row.rtt_ns.min, row.rtt_ns.max) {
        let _ = write!(remarks, "; {}..{}", latency(min), latency(max));
    }
    let _ = writeln!(
        out,
        "| {} *{}* | {} | {} | {} | measured here, **not comparable** ({}) | {} |",
        cell(&row.system),
        cell(&row.mode_shown()),
        cell(&row.over),
        triple(&row.rtt_ns),
        rate(row.rate_per_s),
        class.as_str(),
        cell(&remarks),
    );
}
