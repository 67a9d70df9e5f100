//! The four tables of the RC connection benchmark of MITOSIS (KRdmaKit), with what was measured here beside them.

use crate::rc::rate::RcRow;
use crate::rc::rate::live::Over;
use crate::rc::rate::plan::{Baseline, Request};
use crate::rc::rate::render::{notes, ratios};
use crate::render::{cell, latency, rate};
use barewire_base::Duration;
use barewire_report::published::{self, Want};
use std::fmt::Write as _;

/// Which published table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// One thread, one NIC.
    Latency,
    /// By threads, one NIC.
    Threads,
    /// By client machines of two threads, one NIC.
    Machines,
    /// By threads, two NICs.
    DualNic,
}

impl Table {
    /// All, in the order of the page.
    pub const ALL: [Table; 4] = [Table::Latency, Table::Threads, Table::Machines, Table::DualNic];

    /// Its id among the published tables.
    fn id(self) -> &'static str {
        match self {
            Table::Latency => "rc.latency",
            Table::Threads => "rc.threads",
            Table::Machines => "rc.machines",
            Table::DualNic => "rc.dual-nic",
        }
    }

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Table::Latency => "Latency: one thread, one NIC",
            Table::Threads => "Throughput with threads: one NIC, one client machine",
            Table::Machines => "Throughput with machines: one NIC, two threads on each client machine",
            Table::DualNic => "Throughput with dual NICs: one client machine, threads take the NICs in turns",
        }
    }

    /// What its first column counts.
    fn axis(self) -> &'static str {
        match self {
            Table::Machines => "client machines",
            _ => "threads",
        }
    }

    /// Whether a measured row belongs here, and at which place of the axis.
    fn place(self, row: &RcRow) -> Option<u32> {
        let serde_json::Value::Object(fields) = serde_json::to_value(row).ok()? else { return None };
        let belongs = published::tables_of(&fields).contains(&self.id());
        belongs.then_some(if self == Table::Machines { row.hosts } else { row.threads })
    }
}

/// A published row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Published {
    /// Its table.
    pub table: Table,
    /// Threads, or client machines.
    pub count: u32,
    /// Connections per second.
    pub per_s: f64,
    /// The published mean latency, in ns: of the first table, where it is one second divided by its rate, not a measurement of its own.
    pub latency_ns: Option<f64>,
}

/// Every published figure, in the order of the page.
pub fn published_rows() -> Vec<Published> {
    let mut all = Vec::new();
    for table in Table::ALL {
        let Some(page) = published::table(table.id()) else { continue };
        for row in page.rows {
            let wants = page.cases.get(row.case).and_then(|case| case.wants.first());
            let count = match wants {
                Some((_, Want::Is(count))) => *count as u32,
                _ => 1,
            };
            // The rate is the last column of all four.
            let [latency @ .., Some(per_s)] = row.values else { continue };
            let latency_ns = latency.first().copied().flatten();
            all.push(Published { table, count, per_s: *per_s, latency_ns });
        }
    }
    all
}

/// What the two sides mean by their words.
const READING: &str = "\
- **Published: with NIC firmware. Here: no NIC firmware.** Their connection makes queues and a queue pair on a ConnectX card, through its
  firmware, on both sides, and changes the queue pair's state three times; that is where the milliseconds go. Here queue pairs are
  memory of a process. The same messages cross the wire (REQ, REP, RTU, DREQ, DREP), but no card is set up. **Not comparable**: read
  the columns as what a connection costs when it is not a card's.
- A connection here is what theirs is: a completion queue and a queue pair of its own on each side, the handshake with the server's
  address and key of memory in its answer, and everything closed and destroyed before the next begins (window 1).
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
        seconds: seconds.unwrap_or(Duration::from_secs(if quick { 1 } else { 3 })),
        runs: runs.unwrap_or(if quick { 1 } else { 3 }),
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
pub fn rc_tables(rows: &[RcRow], machine: &str) -> String {
    let mut out = String::from("# RDMA connections: published and measured here\n\n");
    let _ = writeln!(out, "Measured here on: {machine}.\n");
    for table in Table::ALL {
        let _ = writeln!(out, "## {}\n", table.title());
        if let Some(published) = barewire_report::published::table(table.id()) {
            let _ = writeln!(out, "Published command: `{}`\n", published.command);
        }
        let _ = writeln!(
            out,
            "| {} | published, with NIC firmware | measured here, no NIC firmware | p50 | 99 % | kernel TCP here | Notes |",
            table.axis()
        );
        out.push_str("| ---: | ---: | ---: | ---: | ---: | ---: | --- |\n");
        for published in published_rows().iter().filter(|p| p.table == table) {
            lines(&mut out, published, rows);
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

fn lines(out: &mut String, published: &Published, rows: &[RcRow]) {
    let here = |row: &&RcRow| published.table.place(row) == Some(published.count);
    let theirs = match published.latency_ns {
        Some(ns) => format!("{}/s, {} ms", published.per_s, ns / 1e6),
        None => format!("{}/s", published.per_s),
    };
    let kernel = rows
        .iter()
        .filter(|row| row.system == "kernel-tcp")
        .find(here)
        .map_or_else(|| "-".to_owned(), |row| format!("{}/s", rate(row.connections_per_s)));
    let mut any = false;
    for row in rows.iter().filter(|row| row.system == "barewire").filter(here) {
        any = true;
        let at = |ns: Option<u64>| ns.map_or_else(|| "n<k".to_owned(), latency);
        let _ = writeln!(
            out,
            "| {} | {theirs} | {}/s over {} | {} | {} | {} | {} |",
            published.count,
            rate(row.connections_per_s),
            row.over,
            at(row.latency_ns.p50),
            at(row.latency_ns.p99),
            if row.over == "mem" { "-" } else { &kernel },
            cell(&format!("**not comparable**; {}", notes(row).join("; "))),
        );
    }
    if !any {
        let _ =
            writeln!(out, "| {} | {theirs} | not run | not run | not run | {kernel} | |", published.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_row_is_there_and_waits_for_ours() {
        let text = rc_tables(&[], "a machine");
        assert_eq!(published_rows().len(), 15);
        assert_eq!(text.matches("| not run | not run | not run |").count(), published_rows().len(), "{text}");
        for part in
            ["197/s, 5.07 ms", "| 12 | 400/s |", "| 8 | 391.2/s |", "| 12 | 845/s |", "no NIC firmware"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        // The page: the second NIC doubles the rate, and eight machines are no faster than one.
        let of = |table, count| {
            published_rows().iter().find(|p| (p.table, p.count) == (table, count)).unwrap().per_s
        };
        assert!(of(Table::DualNic, 12) / of(Table::Threads, 12) > 2.0);
        assert!(of(Table::Machines, 8) < of(Table::Machines, 1));
    }

    #[test]
    fn the_requests_cover_every_published_row() {
        let requests = seed_requests(true, true, None, None, None, "barewire bench seeds");
        for request in &requests {
            request.check().unwrap();
        }
        let mut request =
            seed_requests(false, true, None, Some(Duration::from_millis(20)), None, "").remove(1);
        request.hosts = vec![2];
        let (rows, failed) = request.run(&mut |_| {});
        assert!(failed.is_none(), "{failed:?}");
        let text = rc_tables(&rows, "a machine");
        assert!(text.contains("/s over mem"), "{text}");
        assert!(
            text.lines().any(|l| l.starts_with("| 2 | 408.6/s |") && l.contains("not comparable")),
            "{text}"
        );
        for published in published_rows() {
            let covered = requests.iter().any(|r| {
                r.hosts.iter().any(|&hosts| {
                    r.threads.iter().any(|&threads| {
                        r.nics.iter().any(|&nics| {
                            let mut row = rows[0].clone();
                            (row.hosts, row.threads, row.nics) = (hosts, threads, nics.min(threads));
                            published.table.place(&row) == Some(published.count)
                        })
                    })
                })
            });
            assert!(covered, "{published:?}");
        }
    }
}
