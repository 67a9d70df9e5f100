//! The four tables of the RC connection benchmark of MITOSIS (KRdmaKit), with what was measured here beside them.

use crate::published::plan::SEED_RUNS;
use crate::rdma::live::Over;
use crate::rdma::plan::{Baseline, Request};
use crate::rdma::render::ratios;
use crate::render::{cell, notes, percentile, rate};
use crate::rounds::spread;
use crate::row::Row;
use barewire_base::Duration;
use barewire_report::figure::Unit;
use barewire_report::published::{self, PublishedRow, PublishedTable};
use barewire_report::run::Record;
use std::fmt::Write as _;

/// The published tables, in the order of the page.
fn tables() -> impl Iterator<Item = &'static PublishedTable> {
    published::tables().filter(|t| t.id.starts_with("rc."))
}

/// Which of the table's cases a measured row repeats, by the report's own rule.
fn case_of(table: &PublishedTable, row: &Row) -> Option<usize> {
    let serde_json::Value::Object(fields) = serde_json::to_value(row).ok()? else { return None };
    let belongs = published::tables_of(&fields).contains(&table.id);
    belongs.then(|| table.case_of(&Record::new("rc", table.id, fields))).flatten()
}

/// What the two sides mean by their words.
const READING: &str = "\
- **Published: with NIC firmware. Here: no NIC firmware.** Their connection makes queues and a queue pair on a ConnectX card, through its
  firmware, on both sides, and changes the queue pair's state three times; that is where the milliseconds go. Here queue pairs are
  memory of a process. The same messages cross the wire (REQ, REP, RTU, DREQ, DREP), but no card is set up. **Not comparable**: read
  the columns as what a connection costs when it is not a card's.
- A connection here is what theirs is: a completion queue and a queue pair of its own on each side, the handshake with the server's
  address and key of memory in its answer, and everything closed and destroyed before the next begins (window 1).
- Figures measured here are medians of the runs, with the least and the most of them in brackets.
- Published latency is 1/197 s: it was not measured. Here it is measured for each connection, from the first call until it can send.
- Published one-thread figures of the same set-up are 197, 172.6 and 173: that is their spread.
- *machines* are network namespaces on this machine, *NICs* are veth interfaces, *threads* share this machine's cores with the server
  and the kernel's bridge: with more threads than cores, what is seen is the scheduler.
- Kernel TCP beside it: connect, accept and close on the same wires, as many in flight, closed without TIME_WAIT.
";

/// The published experiments as requests.
pub fn seed_requests(
    with_hosts: bool,
    quick: bool,
    runs: Option<u32>,
    seconds: Option<Duration>,
    cores: Option<(usize, usize)>,
    command: &str,
) -> Vec<Request> {
    let base = Request {
        baseline: Some(Baseline::KernelTcp),
        seconds: seconds.unwrap_or(Duration::from_secs(if quick { 1 } else { 2 })),
        runs: runs.unwrap_or(if quick { 1 } else { SEED_RUNS }),
        cores,
        ..Request::new(if with_hosts { Over::Xdp } else { Over::Mem }, command)
    };
    let mut requests = vec![
        Request { threads: vec![1, 2, 4, 8, 12], ..base.clone() },
        Request { threads: vec![2], hosts: vec![2, 4, 8], ..base.clone() },
        Request { threads: vec![2, 4, 8, 12], nics: vec![2], ..base.clone() },
    ];
    if with_hosts {
        requests.push(Request { overs: vec![Over::Mem], baseline: None, ..base });
    }
    requests
}

/// Renders the published tables with `rows` beside them as Markdown. `machine` describes where `rows` were measured.
pub fn rc_tables(rows: &[Row], machine: &str) -> String {
    let mut out = String::from("# RDMA connections: published and measured here\n\n");
    let _ = writeln!(out, "Measured here on: {machine}.\n");
    for table in tables() {
        let _ = writeln!(out, "## {}\n", table.title);
        let _ = writeln!(out, "Published command: `{}`\n", table.command);
        let _ = writeln!(
            out,
            "| {} | published, connections/s, with NIC firmware | measured here, no NIC firmware | p50 | 99 % | kernel TCP here | Notes |",
            table.sweep.map_or("threads", |sweep| sweep.words)
        );
        out.push_str("| ---: | ---: | ---: | ---: | ---: | ---: | --- |\n");
        for published in table.rows {
            lines(&mut out, table, published, rows);
        }
        out.push('\n');
    }
    let compared = ratios(rows);
    if !compared.is_empty() {
        let _ = writeln!(out, "## Ratios\n\n```text\n{}```\n", compared.trim_start());
    }
    let _ = write!(out, "## How to read this\n\n{READING}");
    out
}

/// The published figures of a row, as printed.
fn printed(table: &PublishedTable, row: &PublishedRow) -> String {
    let figure = |unit: Unit| {
        let column = table.columns.iter().position(|column| column.unit == unit)?;
        row.values.get(column).copied().flatten()
    };
    let figures = [figure(Unit::PerSecond), figure(Unit::Ns)];
    let all: Vec<&str> = figures.iter().flatten().map(|printed| printed.text).collect();
    if all.is_empty() { "not told".to_owned() } else { all.join(", ") }
}

/// The rate of a row, with least and most of its runs.
fn per_s(row: &Row) -> String {
    let runs = spread(row.of_runs("connections_per_s"), rate);
    let runs = if runs.is_empty() { runs } else { format!(" ({runs})") };
    format!("{}/s{runs}", rate(row.number("connections_per_s").unwrap_or_default()))
}

fn lines(out: &mut String, table: &PublishedTable, published: &PublishedRow, rows: &[Row]) {
    let place = table.cases.get(published.case).map_or("", |case| case.label);
    let here = |row: &&Row| case_of(table, row) == Some(published.case);
    let theirs = printed(table, published);
    let kernel = rows.iter().filter(|row| row.subject.system == "kernel-tcp").find(here);
    let kernel = kernel.map_or_else(
        || "-".to_owned(),
        |row| match &row.void.as_ref().or(row.no_baseline.as_ref()) {
            Some(why) => format!("no baseline: {}", cell(why)),
            None => per_s(row),
        },
    );
    let mut any = false;
    for row in rows.iter().filter(|row| row.subject.system == "barewire").filter(here) {
        any = true;
        let over = row.subject.over.as_deref().unwrap_or_default();
        let time = |stat, q| percentile(row.stat("latency_ns", stat).map(|ns| ns as u64), q);
        let _ = writeln!(
            out,
            "| {place} | {theirs} | {} over {} | {} | {} | {} | {} |",
            per_s(row),
            over,
            time("p50", 0.5),
            time("p99", 0.99),
            if over == "mem" { "-" } else { &kernel },
            cell(&format!("**not comparable**; {}", notes(row).join("; "))),
        );
    }
    if !any {
        let _ = writeln!(out, "| {place} | {theirs} | not run | not run | not run | {kernel} | |");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_row_is_there_and_waits_for_ours() {
        let text = rc_tables(&[], "a machine");
        let all: usize = tables().map(|t| t.rows.len()).sum();
        assert_eq!((tables().count(), all), (4, 15));
        assert_eq!(text.matches("| not run | not run | not run |").count(), all, "{text}");
        for part in [
            "| One thread | 197 connection/s, 5.07ms |",
            "| 1 thread | 172.6 |",
            "| 12 threads | 400 |",
            "| 8 client machines | 391.2 |",
            "| 12 threads | 845 |",
            "no NIC firmware",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_requests_cover_every_published_row() {
        let requests = seed_requests(true, true, None, None, None, "barewire bench published");
        for request in &requests {
            request.check().unwrap();
        }
        // What a starved machine makes of so short a run is no matter of these tables.
        let mut request = seed_requests(false, true, None, None, None, "").remove(1);
        request.hosts = vec![2];
        let rows = request.unmeasured_rows();
        let text = rc_tables(&rows, "a machine");
        assert!(text.contains("/s over mem"), "{text}");
        assert!(
            text.lines()
                .any(|l| l.starts_with("| 2 client machines | 408.6 |") && l.contains("not comparable")),
            "{text}"
        );
        for (table, published) in tables().flat_map(|t| t.rows.iter().map(move |row| (t, row))) {
            let covered = requests.iter().any(|r| {
                r.hosts.iter().any(|&hosts| {
                    r.threads.iter().any(|&threads| {
                        r.nics.iter().any(|&nics| {
                            let mut row = rows[0].clone();
                            for param in &mut row.subject.params {
                                match param.key {
                                    "hosts" => param.value = hosts.into(),
                                    "threads" => param.value = threads.into(),
                                    "nics" => param.value = nics.min(threads).into(),
                                    _ => {}
                                }
                            }
                            case_of(table, &row) == Some(published.case)
                        })
                    })
                })
            });
            assert!(covered, "{} {published:?}", table.id);
        }
        // A baseline that stood still is none here, either.
        let of = |system: &str| rows.iter().find(|row| row.subject.system == system).unwrap().clone();
        let (mut kernel, mut ours) = (of("kernel-tcp"), of("barewire"));
        ours.subject.over = Some("xdp".to_owned());
        kernel.void = None;
        kernel.set("connections_per_s", 12_345.0);
        let (mut void, mut still) = (kernel.clone(), kernel.clone());
        void.void = Some("half failed".to_owned());
        still.no_baseline = Some("stood still".to_owned());
        let shown = |kernel: Row| rc_tables(&[ours.clone(), kernel], "a machine");
        assert!(shown(kernel).contains("| 12K/s |"));
        assert!(shown(void).contains("| no baseline: half failed |"));
        let text = shown(still);
        assert!(text.contains("| no baseline: stood still |") && !text.contains("12K/s"), "{text}");
    }
}
