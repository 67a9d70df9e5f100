//! Rows about RDMA as text.

use super::{DataRow, RcRow, Span, Steps};
use crate::render::{latency, rate};
use crate::switch::render::columns;
use barewire_measure::samples_needed;
use barewire_report::compare::{Method, standing};
use barewire_report::figure::Better;
use std::fmt::Write as _;

/// What a reader has to know about a row before using it; void first.
pub fn notes(row: &RcRow) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &row.void {
        notes.push(format!("VOID: {why}"));
    }
    if row.contended {
        notes.push("contended".to_owned());
    }
    if !row.teardown {
        notes.push("not closed".to_owned());
    }
    if row.system == "barewire" && !row.own_cq {
        notes.push("one completion queue for all".to_owned());
    }
    notes.extend(row.notes.iter().cloned());
    notes
}

fn at(value: Option<u64>, q: f64) -> String {
    value.map_or_else(|| format!("n<{}", samples_needed(q)), latency)
}

/// The table of rows, with what they say to each other under it.
pub fn text_table(rows: &[RcRow]) -> String {
    let lines = rows.iter().map(|row| {
        let l = &row.latency_ns;
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let cells = vec![
            row.system.clone(),
            row.mode.clone(),
            row.over.clone(),
            format!("{} x {}", row.hosts, row.threads),
            row.nics.to_string(),
            row.window.to_string(),
            row.live_qps.to_string(),
            rate(row.connections_per_s),
            at(l.p50, 0.5),
            at(l.p99, 0.99),
            at(l.p99_9, 0.999),
            or_dash(row.frames_per_connection.map(|f| format!("{f:.2}"))),
            or_dash(row.port_frames_per_s.map(rate)),
            or_dash(row.bytes_per_live_qp.map(|b| format!("{b:.0}"))),
        ];
        (cells, notes(row).join("; "))
    });
    let head = [
        "system", "mode", "over", "clients", "NICs", "window", "live", "conn/s", "p50", "99 %", "99.9 %",
        "frames", "port/s", "B/QP",
    ];
    let mut out = columns(&head, lines.collect(), 3);
    let steps: Vec<&RcRow> = rows.iter().filter(|row| row.steps_ns.is_some()).collect();
    if !steps.is_empty() {
        out += "\nSteps of one connection after the other, medians:\n";
        out += &steps_table(&steps);
    }
    out + &ratios(rows)
}

fn steps_table(rows: &[&RcRow]) -> String {
    let lines = rows.iter().filter_map(|row| {
        let steps: &Steps = row.steps_ns.as_ref()?;
        let median = |span: &Span| at(span.p50, 0.5);
        let cells = vec![
            format!("{} over {}", row.mode, row.over),
            median(&steps.create),
            median(&steps.req_to_rep),
            median(&steps.rtu),
            median(&steps.first_byte),
            median(&steps.disconnect),
            median(&steps.destroy),
            steps.create.samples.to_string(),
        ];
        Some((cells, String::new()))
    });
    let head =
        ["system", "create", "REQ to REP", "RTU", "first byte", "DREQ to DREP", "destroy", "connections"];
    columns(&head, lines.collect(), 1)
}

/// What one system is to another on the same wires, or without any, and what more live queue pairs cost, in words.
pub fn ratios(rows: &[RcRow]) -> String {
    let mut out = String::new();
    let usable = |row: &&RcRow| row.void.is_none() && row.connections_per_s > 0.0;
    let baselines = rows.iter().filter(|row| row.system == "kernel-tcp" && row.no_baseline.is_none());
    for base in baselines.filter(usable) {
        for row in rows.iter().filter(|row| row.same_but_system(base)).filter(usable) {
            let rates = |row: &RcRow| row.runs.iter().map(|run| run.connections_per_s).collect::<Vec<_>>();
            let Some(standing) = standing(&rates(row), &rates(base), Better::Higher, &Method::default())
            else {
                continue;
            };
            let wires = if row.without_wires() {
                " over loopback, in other ways and without wires: no system call against three"
            } else {
                ""
            };
            let _ = writeln!(out, "{} is {}", row.title(), standing.words(&format!("kernel TCP{wires}")),);
        }
    }
    for few in rows.iter().filter(usable) {
        for many in rows.iter().filter(usable) {
            let mut same = many.clone();
            same.live_qps = few.live_qps;
            if many.live_qps > few.live_qps && same.title() == few.title() {
                let _ = writeln!(
                    out,
                    "{}: {:.2} of the rate with {} live",
                    many.title(),
                    many.connections_per_s / few.connections_per_s,
                    few.live_qps
                );
            }
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// The table of rows about data.
pub fn data_table(rows: &[DataRow]) -> String {
    let lines = rows.iter().map(|row| {
        let l = &row.latency_ns;
        let cells = vec![
            row.mode.clone(),
            row.over.clone(),
            row.operation.clone(),
            row.size.to_string(),
            row.window.to_string(),
            row.mtu.to_string(),
            row.points.clone(),
            at(l.p50, 0.5),
            at(l.p99, 0.99),
            at(l.p99_9, 0.999),
            rate(row.messages_per_s),
            format!("{:.2}", row.gbit_per_s),
        ];
        (cells, if row.contended { "contended".to_owned() } else { String::new() })
    });
    let head = [
        "mode",
        "over",
        "operation",
        "bytes",
        "window",
        "MTU",
        "span",
        "p50",
        "99 %",
        "99.9 %",
        "messages/s",
        "Gbit/s",
    ];
    columns(&head, lines.collect(), 3)
}
