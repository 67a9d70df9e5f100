//! The four tables of the OnixS CME MDP Conflated UDP Handler's benchmark, with what was measured here beside them.

use crate::feed::live::EngineKind;
use crate::feed::plan::Request;
use crate::feed::probe::What;
use crate::feed::render::{micros, notes, ratios};
use crate::feed::traffic::Workload;
use crate::feed::{Base, FeedRow};
use crate::render::cell;
use crate::seeds::published_command;
use barewire_base::Duration;
use std::fmt::Write as _;

/// Which published column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishedEngine {
    /// `SocketFeedEngine`.
    Socket,
    /// `SocketFeedEngine` under OpenOnload.
    SocketOnload,
    /// `SolarflareFeedEngine`: ef_vi.
    Solarflare,
}

impl PublishedEngine {
    /// The column's title.
    pub fn title(self) -> &'static str {
        match self {
            PublishedEngine::Socket => "SocketFeedEngine",
            PublishedEngine::SocketOnload => "SocketFeedEngine + OpenOnload",
            PublishedEngine::Solarflare => "SolarflareFeedEngine",
        }
    }
}

/// A published column: minimum, median, mean, 95 %, 99 %, maximum, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedColumn {
    /// Between which points, in our words.
    pub base: Base,
    /// Time between packets.
    pub gap_us: u64,
    /// Which engine.
    pub engine: PublishedEngine,
    /// The figures.
    pub ns: [u64; 6],
}

const fn column(base: Base, gap_us: u64, engine: PublishedEngine, ns: [u64; 6]) -> PublishedColumn {
    PublishedColumn { base, gap_us, engine, ns }
}

use Base::{App, Stamp};
use PublishedEngine::{Socket, SocketOnload, Solarflare};

/// Every published column, in the order of the page.
pub const PUBLISHED: &[PublishedColumn] = &[
    column(App, 5000, Socket, [993, 1_144, 1_203, 1_493, 2_047, 14_344]),
    column(App, 5000, Solarflare, [856, 1_017, 1_071, 1_383, 1_830, 14_680]),
    column(Stamp, 5000, Socket, [14_007, 52_087, 48_853, 55_894, 60_966, 79_933]),
    column(Stamp, 5000, Solarflare, [2_190, 2_664, 2_709, 3_152, 3_798, 16_385]),
    column(App, 0, Socket, [507, 667, 739, 1_156, 1_564, 14_019]),
    column(App, 0, SocketOnload, [533, 693, 765, 1_113, 1_560, 14_617]),
    column(App, 0, Solarflare, [600, 714, 778, 1_067, 1_490, 14_756]),
    column(Stamp, 0, Socket, [10_786, 12_610, 12_676, 14_238, 15_562, 64_169]),
    column(Stamp, 0, SocketOnload, [3_235, 4_148, 4_267, 5_260, 9_407, 22_261]),
    column(Stamp, 0, Solarflare, [1_925, 2_353, 2_377, 2_853, 3_310, 16_210]),
];

/// The page's four tables.
const TABLES: [(Base, u64, &str); 4] = [
    (App, 5000, "Application level only, 5 ms between packets"),
    (Stamp, 5000, "With network and kernel layer, 5 ms between packets"),
    (App, 0, "Application level only, no delay between packets"),
    (Stamp, 0, "With network and kernel layer, no delay between packets"),
];

/// The statistics, with the share whose samples a percentile needs.
const STATISTICS: [(&str, f64); 7] = [
    ("Minimal", 0.5),
    ("Median", 0.5),
    ("Mean", 0.5),
    ("95 %", 0.95),
    ("99 %", 0.99),
    ("99.9 %", 0.999),
    ("Maximal", 0.5),
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
- Published packets are recorded ones of channel 360 (429 bytes on average); here an emulated channel's, and one-entry updates beside
  them, as no recording of that channel is public.
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
        bases: vec![App, Stamp],
        whats: vec![What::Book],
        gaps: vec![Duration::from_millis(5), Duration::ZERO],
        workloads: vec![Workload::Channel, Workload::OneEntry],
        instruments: 100,
        both_lines: false,
        keep_warm: true,
        packets: if quick { 20_000 } else { 200_000 },
        seconds: Duration::from_secs(if quick { 1 } else { 5 }),
        runs: runs.unwrap_or(if quick { 1 } else { 3 }),
        cores,
        seed: 1,
        command: command.to_owned(),
    }
}

/// Renders the published tables with `rows` beside them as Markdown. `machine` describes where `rows` were measured.
pub fn feed_tables(rows: &[FeedRow], machine: &str) -> String {
    let mut out = String::from("# Feed handler: published and measured here\n\n");
    let _ = writeln!(out, "Measured here on: {machine}. Times in us.\n");
    for (base, gap_us, title) in TABLES {
        let published: Vec<&PublishedColumn> =
            PUBLISHED.iter().filter(|c| (c.base, c.gap_us) == (base, gap_us)).collect();
        let measured: Vec<&FeedRow> =
            rows.iter().filter(|r| (r.base, r.gap_us) == (base, gap_us) && r.what == "book").collect();
        let _ = writeln!(out, "## {title}\n");
        table(&mut out, &published, &measured);
    }
    let compared = ratios(rows);
    if !compared.is_empty() {
        let _ = writeln!(out, "## Ratios\n\n```text\n{}```\n", compared.trim_start());
    }
    let _ = write!(out, "## How to read this\n\n{}{READING}", published_command("onixs.app-0"));
    out
}

fn table(out: &mut String, published: &[&PublishedColumn], measured: &[&FeedRow]) {
    let mut line = |first: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|text| cell(&text)).collect();
        let _ = writeln!(out, "| {first} | {} |", cells.join(" | "));
    };
    let missing = measured.is_empty();
    let none = || missing.then(|| "not run".to_owned()).into_iter();
    line(
        "Statistics",
        &mut published
            .iter()
            .map(|c| c.engine.title().to_owned())
            .chain(measured.iter().map(|r| format!("barewire {}, {}", r.engine, r.workload)))
            .chain(missing.then(|| "barewire".to_owned())),
    );
    line("---", &mut (0..published.len() + measured.len().max(1)).map(|_| "---:".to_owned()));
    for (index, (name, q)) in STATISTICS.into_iter().enumerate() {
        let theirs = published.iter().map(|c| match index {
            0..=4 => micros(Some(c.ns[index]), q),
            5 => "-".to_owned(),
            _ => micros(Some(c.ns[5]), q),
        });
        let ours = measured.iter().map(|r| {
            let l = &r.latency_ns;
            match index {
                0 => micros(l.min, q),
                1 => micros(l.median, q),
                2 => l.mean.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns / 1e3)),
                3 => micros(l.p95, q),
                4 => micros(l.p99, q),
                5 => micros(l.p99_9, q),
                _ => micros(l.max, q),
            }
        });
        line(name, &mut theirs.chain(ours).chain(none()));
    }
    let unknown = |what: &str| published.iter().map(|_| what.to_owned()).collect::<Vec<_>>().into_iter();
    line(
        "Samples",
        &mut unknown("not told").chain(measured.iter().map(|r| r.samples.to_string())).chain(none()),
    );
    let stamp = |r: &&FeedRow| match r.base {
        App => "none: t4 to t5".to_owned(),
        Stamp => r.stamp_source.clone(),
    };
    let theirs = published.iter().map(|c| match c.base {
        App => "none".to_owned(),
        Stamp => "hardware".to_owned(),
    });
    line("Stamp", &mut theirs.chain(measured.iter().map(stamp)).chain(none()));
    line(
        "Bytes",
        &mut unknown("429 (channel 360)")
            .chain(measured.iter().map(|r| format!("{:.0}", r.mean_bytes)))
            .chain(none()),
    );
    line(
        "Packets/s",
        &mut unknown("not told")
            .chain(measured.iter().map(|r| crate::render::rate(r.sent_pps)))
            .chain(none()),
    );
    line(
        "Source",
        &mut unknown("published")
            .chain(
                measured.iter().map(|_| "measured here, **not comparable** (one machine, no NIC)".to_owned()),
            )
            .chain(none()),
    );
    line("Notes", &mut unknown("").chain(measured.iter().map(|r| notes(r).join("; "))).chain(none()));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::FeedLatency;

    /// The page's lines, as published, in us: one text for each statistic of each table.
    const PAGE: [&str; 24] = [
        "0.993 0.856",
        "1.144 1.017",
        "1.203 1.071",
        "1.493 1.383",
        "2.047 1.830",
        "14.344 14.680",
        "14.007 2.190",
        "52.087 2.664",
        "48.853 2.709",
        "55.894 3.152",
        "60.966 3.798",
        "79.933 16.385",
        "0.507 0.533 0.600",
        "0.667 0.693 0.714",
        "0.739 0.765 0.778",
        "1.156 1.113 1.067",
        "1.564 1.560 1.490",
        "14.019 14.617 14.756",
        "10.786 3.235 1.925",
        "12.610 4.148 2.353",
        "12.676 4.267 2.377",
        "14.238 5.260 2.853",
        "15.562 9.407 3.310",
        "64.169 22.261 16.210",
    ];

    #[test]
    fn figures_are_those_of_the_page() {
        let mut lines = Vec::new();
        for (base, gap_us, _) in TABLES {
            for index in 0..6 {
                let of_table = PUBLISHED.iter().filter(|c| (c.base, c.gap_us) == (base, gap_us));
                let cells: Vec<String> = of_table.map(|c| micros(Some(c.ns[index]), 0.5)).collect();
                lines.push(cells.join(" "));
            }
        }
        assert_eq!(lines, PAGE);
    }

    #[test]
    fn ours_stand_beside_the_published_with_stamp_and_badge() {
        let empty = feed_tables(&[], "a machine");
        assert_eq!(empty.matches("not run").count(), 4 * 13, "{empty}");
        let request = seed_request(true, true, None, None, "barewire bench seeds");
        assert!(request.check().is_ok());
        assert_eq!((request.engines.len(), request.gaps.len(), request.runs), (3, 2, 1));
        let mut row = crate::feed::render::tests::row("xdp", Stamp, 5000, 4_567);
        row.latency_ns = FeedLatency { median: Some(4_567), ..row.latency_ns };
        let text = feed_tables(&[row], "a machine");
        for part in [
            "| 52.087 | 2.664 | 4.567 |",
            "| hardware | hardware | kernel |",
            "n<10000",
            "**not comparable**",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
