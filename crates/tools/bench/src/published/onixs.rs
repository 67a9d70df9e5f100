//! The four tables of the OnixS CME MDP Conflated UDP Handler's benchmark, with what was measured here beside them.

use crate::feed::live::EngineKind;
use crate::feed::plan::Request;
use crate::feed::probe::What;
use crate::feed::render::ratios;
use crate::feed::traffic::Workload;
use crate::feed::{Base, is_stamped};
use crate::messages::IdleState;
use crate::published::messages::published_command;
use crate::published::plan::SEED_RUNS;
use crate::render::{cell, notes, rate, span};
use crate::row::Row;
use barewire_base::Duration;
use barewire_report::published::{self, PublishedRow, PublishedTable};
use std::fmt::Write as _;

/// The statistics, and where rows have them, by which published columns are found.
const STATISTICS: [(&str, &str); 7] = [
    ("Minimal", "latency_ns.min"),
    ("Median", "latency_ns.median"),
    ("Mean", "latency_ns.mean"),
    ("95 %", "latency_ns.p95"),
    ("99 %", "latency_ns.p99"),
    ("99.9 %", "latency_ns.p99_9"),
    ("Maximal", "latency_ns.max"),
];

/// What the two sides mean by their words.
const READING: &str = "\
- Published: the time base with the network layer begins at the **network card's** stamp. Here it begins at the **kernel's** stamp
  (row *Stamp*): there is no card, so neither interrupt nor DMA is in it. Such columns are **not comparable** with the published
  ones; they are comparable with each other, as one sender fed all of them in one run.
- The stamps differ among ours: a socket's is taken when the driver hands the packet up, `xdp`'s when its program sees it. What the
  veth pair does before is in none of them.
- Published: neither the number of samples nor which callback of a packet with several is told. Here t5 is the packet's **last** book
  callback, so that everything in it has been delivered; samples are in the table.
- Published: which packets were sent is not told, nor how long they are. Here they are an emulated channel's, and one-entry updates
  beside them.
- Figures measured here are medians of the runs, with the least and the most of them in brackets; *Minimal* and *Maximal* are of all
  runs. Where one run has too few samples for a percentile it is of all runs together, and the notes say so.
- With gaps a core that waits falls asleep and caches are taken by others. *socket* sleeps, as a blocking receiver does; the others poll
  and rehearse an update meanwhile (`--no-keep-warm` shows the difference).
- Onload and ef_vi need a Solarflare card: where `onload` is installed, `barewire bench feed --engine onload` adds its column.
";

/// The published experiment as a request.
pub fn seed_request(
    with_hosts: bool,
    quick: bool,
    runs: Option<u32>,
    cores: Option<(usize, usize)>,
    command: &str,
) -> Request {
    Request {
        engines: match with_hosts {
            true => vec![EngineKind::Socket, EngineKind::SocketSpin, EngineKind::Xdp],
            false => vec![EngineKind::Mem],
        },
        bases: vec![Base::App, Base::Stamp],
        whats: vec![What::Book],
        gaps: vec![Duration::from_millis(5), Duration::ZERO],
        workloads: vec![Workload::Channel, Workload::OneEntry],
        instruments: 100,
        both_lines: false,
        keep_warm: true,
        // A receiver that sleeps at its best; `bench feed` shows it on cores that sleep, too.
        idle_state: Some(IdleState::Warm),
        packets: if quick { 20_000 } else { 200_000 },
        // Of the rows with gaps: five times 2,400 packets carry a 99th percentile. Without gaps the packets end a run much earlier.
        seconds: Duration::from_secs(if quick { 1 } else { 12 }),
        runs: runs.unwrap_or(if quick { 1 } else { SEED_RUNS }),
        cores,
        seed: 1,
        command: command.to_owned(),
    }
}

/// The published tables, in the order of the page.
fn tables() -> impl Iterator<Item = &'static PublishedTable> {
    published::tables().filter(|t| t.id.starts_with("onixs."))
}

/// Whether `row` repeats `table`, by the report's own rule.
fn repeats(row: &Row, table: &PublishedTable) -> bool {
    matches!(serde_json::to_value(row), Ok(serde_json::Value::Object(fields))
        if published::tables_of(&fields).contains(&table.id))
}

/// The figures of the statistic that rows have at `path`, of each published row.
fn printed(table: &PublishedTable, path: &str) -> Vec<Option<&'static str>> {
    let column = table.columns.iter().position(|column| column.paths.contains(&path));
    let text = |row: &PublishedRow| Some(row.values.get(column?).copied().flatten()?.text);
    table.rows.iter().map(text).collect()
}

/// Renders the published tables with `rows` beside them as Markdown. `machine` describes where `rows` were measured.
pub fn feed_tables(rows: &[Row], machine: &str) -> String {
    let mut out = String::from("# Feed handler: published and measured here\n\n");
    let _ = writeln!(out, "Measured here on: {machine}. Times in us.\n");
    for published in tables() {
        let measured: Vec<&Row> = rows.iter().filter(|r| repeats(r, published)).collect();
        let _ = writeln!(out, "## {}\n", published.title);
        table(&mut out, published, &measured);
    }
    let compared = ratios(rows);
    if !compared.is_empty() {
        let _ = writeln!(out, "## Ratios\n\n```text\n{}```\n", compared.trim_start());
    }
    let _ = write!(out, "## How to read this\n\n{}{READING}", published_command("onixs.app-0"));
    out
}

fn table(out: &mut String, published: &PublishedTable, measured: &[&Row]) {
    let mut line = |first: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|text| cell(&text)).collect();
        let _ = writeln!(out, "| {first} | {} |", cells.join(" | "));
    };
    let missing = measured.is_empty();
    let none = || missing.then(|| "not run".to_owned()).into_iter();
    let all = |what: &str| vec![what.to_owned(); published.rows.len()].into_iter();
    line(
        "Statistics",
        &mut published
            .rows
            .iter()
            .map(|row| row.system.to_owned())
            .chain(measured.iter().map(|r| {
                let engine = r.subject.engine.as_deref().unwrap_or_default();
                format!("barewire {engine}, {}", r.param("workload").unwrap_or_default())
            }))
            .chain(missing.then(|| "barewire".to_owned())),
    );
    line("---", &mut (0..published.rows.len() + measured.len().max(1)).map(|_| "---:".to_owned()));
    for (name, path) in STATISTICS {
        let theirs = printed(published, path).into_iter();
        let theirs = theirs.map(|text| text.unwrap_or("-").trim_end_matches(" us").to_owned());
        let stat = path.trim_start_matches("latency_ns.");
        let ours = measured.iter().map(|row| {
            let (figure, runs) = span(row, "latency_ns", stat);
            if runs.is_empty() { figure } else { format!("{figure} ({runs})") }
        });
        line(name, &mut theirs.chain(ours).chain(none()));
    }
    let figure = |row: &Row, key: &str| row.number(key).unwrap_or_default();
    let samples = |row: &&Row| row.samples().unwrap_or_default().to_string();
    line("Samples", &mut all("not told").chain(measured.iter().map(samples)).chain(none()));
    let stamp = |row: &&Row| match is_stamped(row) {
        false => "none: t4 to t5".to_owned(),
        true => row.word("stamp_source").unwrap_or_default().to_owned(),
    };
    let theirs = if published.id.starts_with("onixs.net") { "hardware" } else { "none" };
    line("Stamp", &mut all(theirs).chain(measured.iter().map(stamp)).chain(none()));
    line(
        "Bytes",
        &mut all("not told")
            .chain(measured.iter().map(|r| format!("{:.0}", figure(r, "mean_bytes"))))
            .chain(none()),
    );
    line(
        "Packets/s",
        &mut all("not told").chain(measured.iter().map(|r| rate(figure(r, "sent_pps")))).chain(none()),
    );
    line(
        "Source",
        &mut all("published")
            .chain(
                measured.iter().map(|_| "measured here, **not comparable** (one machine, no NIC)".to_owned()),
            )
            .chain(none()),
    );
    line("Notes", &mut all("").chain(measured.iter().map(|r| notes(r).join("; "))).chain(none()));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every published figure stands in its line; a column that was not found would be a dash.
    #[test]
    fn every_published_figure_is_there() {
        assert_eq!(tables().map(|t| t.rows.len()).collect::<Vec<_>>(), [2, 2, 3, 3]);
        for table in tables() {
            for (name, path) in STATISTICS {
                let found = printed(table, path).iter().all(Option::is_some);
                assert_eq!(found, name != "99.9 %", "{} {name}", table.id);
            }
        }
        let text = feed_tables(&[], "a machine");
        for line in [
            "| Median | 1.144 | 1.017 | not run |",
            "| Maximal | 79.933 | 16.385 | not run |",
            "| 99 % | 1.564 | 1.560 | 1.490 | not run |",
            "| Minimal | 10.786 | 3.235 | 1.925 | not run |",
            "| 99.9 % | - | - | - | not run |",
            "| Bytes | not told | not told | not run |",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn ours_stand_beside_the_published_with_stamp_and_badge() {
        let empty = feed_tables(&[], "a machine");
        assert_eq!(empty.matches("not run").count(), 4 * 13, "{empty}");
        let request = seed_request(true, true, None, None, "barewire bench published");
        assert!(request.check().is_ok());
        assert_eq!((request.engines.len(), request.gaps.len(), request.runs), (3, 2, 1));
        // A 99th percentile takes 10,000 samples, and the rows with gaps must have as many.
        let whole = seed_request(true, false, None, None, "");
        let packets = whole.seconds.as_nanos() / whole.gaps[0].as_nanos() * u64::from(whole.runs);
        assert!(packets >= barewire_measure::samples_needed(0.99) * 11 / 10, "{packets}");
        let row = crate::feed::render::tests::row("xdp", Base::Stamp, 5000, 4_567);
        let (figure, runs) = span(&row, "latency_ns", "median");
        let median = format!("| 52.087 | 2.664 | {figure} ({runs}) |");
        assert!(median.contains("| 4.5") && median.contains("(4.3"), "{median}");
        let text = feed_tables(&[row], "a machine");
        for part in [median.as_str(), "| hardware | hardware | kernel |", "n<10000", "**not comparable**"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
