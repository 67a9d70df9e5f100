//! Rows about the feed handler as text.

use super::FeedRow;
use super::row::{Base, FeedLatency, FeedRun};
use crate::render::{columns, rate, spread_line};
use crate::rounds::spread;
use barewire_measure::samples_needed;
use barewire_report::compare::{Method, standing};
use barewire_report::figure::Better;
use std::fmt::Write as _;

/// What a reader has to know about a row before using it; void first.
pub fn notes(row: &FeedRow) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(why) = &row.void {
        notes.push(format!("VOID: {why}"));
    }
    if row.contended {
        notes.push("contended".to_owned());
    }
    if !row.keep_warm {
        notes.push("not kept warm".to_owned());
    }
    notes.extend(row.notes.iter().cloned());
    notes.extend(row.broken_off.clone());
    notes
}

/// A span in us with three decimals, as the published tables have it; `n<k` where fewer than the `k` samples that the share `q`
/// needs were taken.
pub fn micros(ns: Option<u64>, q: f64) -> String {
    match ns {
        Some(ns) => format!("{}.{:03}", ns / 1000, ns % 1000),
        None => format!("n<{}", samples_needed(q)),
    }
}

/// Least and most of one statistic of the runs, in us; nothing where there is no spread.
pub fn micros_spread(row: &FeedRow, of: fn(&FeedLatency) -> Option<u64>) -> String {
    let runs = row.runs.iter().filter_map(|run| of(&run.latency_ns)).map(|ns| ns as f64);
    spread(runs, |ns| micros(Some(ns as u64), 0.5))
}

/// Those of the runs' means.
pub fn mean_spread(row: &FeedRow) -> String {
    spread(row.runs.iter().filter_map(|run| run.latency_ns.mean), |ns| format!("{:.3}", ns / 1e3))
}

/// The table of rows: medians of their runs, and under each row between which values the runs were.
pub fn text_table(rows: &[FeedRow]) -> String {
    let lines = rows.iter().flat_map(|row| {
        let l = &row.latency_ns;
        let cells = vec![
            row.engine.clone(),
            row.points.clone(),
            row.what.clone(),
            row.workload.clone(),
            row.lines.clone(),
            row.stamp_source.clone(),
            row.gap_us.to_string(),
            micros(l.min, 0.5),
            micros(l.median, 0.5),
            l.mean.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ns / 1e3)),
            micros(l.p95, 0.95),
            micros(l.p99, 0.99),
            micros(l.p99_9, 0.999),
            micros(l.max, 0.5),
            row.samples.to_string(),
            rate(row.sent_pps),
        ];
        let mut least_most = vec![String::new(); cells.len()];
        least_most[8] = micros_spread(row, |l| l.median);
        least_most[9] = mean_spread(row);
        least_most[10] = micros_spread(row, |l| l.p95);
        least_most[11] = micros_spread(row, |l| l.p99);
        least_most[12] = micros_spread(row, |l| l.p99_9);
        least_most[15] = spread(row.runs.iter().map(|run| run.sent_pps), rate);
        let of_row = (cells, notes(row).join("; "));
        std::iter::once(of_row).chain(spread_line(least_most, row.runs.len()))
    });
    let head = [
        "engine", "points", "callback", "packets", "lines", "stamp", "gap us", "min us", "median", "mean",
        "95 %", "99 %", "99.9 %", "max", "samples", "sent/s",
    ];
    columns(&head, lines.collect(), 6) + &ratios(rows)
}

/// How one engine stands beside the socket that sleeps, and what gaps cost, each in a sentence with its interval, or with what is missing
/// for one: by the medians of the runs.
pub fn ratios(rows: &[FeedRow]) -> String {
    let mut out = String::new();
    let usable = |row: &&FeedRow| row.void.is_none();
    let words = |ours: &FeedRow, theirs: &FeedRow, name: &str| {
        let medians = |row: &FeedRow| -> Vec<f64> {
            let of = |run: &FeedRun| run.median_ns.filter(|ns| *ns > 0).map(|ns| ns as f64);
            row.runs.iter().filter_map(of).collect()
        };
        standing(&medians(ours), &medians(theirs), Better::Lower, &Method::default())
            .map(|standing| standing.words(name))
    };
    let pace = |row: &FeedRow| match row.gap_us {
        0 => "back to back".to_owned(),
        us => format!("{us} us gaps"),
    };
    let about = |row: &FeedRow| format!("{} {}, {}", row.points, row.what, row.workload);
    for plain in rows.iter().filter(|row| row.engine == "socket" && row.base == Base::Stamp).filter(usable) {
        for other in rows.iter().filter(|r| r.engine != "socket" && r.same_but_engine(plain)).filter(usable) {
            if let Some(words) = words(other, plain, "socket") {
                let _ = writeln!(
                    out,
                    "{} is {words} by the median ({}, {})",
                    other.engine,
                    about(plain),
                    pace(plain)
                );
            }
        }
    }
    for fast in rows.iter().filter(|row| row.gap_us == 0).filter(usable) {
        for slow in rows.iter().filter(|r| r.gap_us > 0 && r.engine == fast.engine).filter(usable) {
            let mut same = slow.clone();
            same.gap_us = 0;
            if let (true, Some(words)) = (same.same_but_engine(fast), words(slow, fast, "back to back")) {
                let _ = writeln!(
                    out,
                    "{} with {} is {words} by the median ({})",
                    fast.engine,
                    pace(slow),
                    about(fast)
                );
            }
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::row::FeedLatency;
    use super::*;

    pub(crate) fn row(engine: &str, base: Base, gap_us: u64, median: u64) -> FeedRow {
        FeedRow {
            system: "barewire".into(),
            engine: engine.into(),
            base,
            points: base.points().into(),
            what: "book".into(),
            gap_us,
            workload: "one-entry".into(),
            instruments: 100,
            lines: "a".into(),
            keep_warm: true,
            mean_bytes: 74.0,
            samples: 2_500,
            latency_ns: FeedLatency {
                min: Some(median / 2),
                median: Some(median),
                mean: Some(median as f64 * 1.1),
                p95: Some(median * 2),
                p99: None,
                p99_9: None,
                max: Some(median * 9),
            },
            stamp_source: "kernel".into(),
            sent: 2_500,
            lost: 0,
            sent_pps: 200.0,
            clock_ns: 20,
            runs: [95, 100, 102, 100, 105]
                .map(|percent| {
                    let median = Some(median * percent / 100);
                    let latency_ns = FeedLatency { median, ..FeedLatency::default() };
                    FeedRun { samples: 500, median_ns: median, latency_ns, ..FeedRun::default() }
                })
                .to_vec(),
            contended: false,
            contention: Vec::new(),
            notes: Vec::new(),
            void: None,
            broken_off: None,
            command: "barewire bench feed".into(),
            histograms: crate::Histograms::default(),
        }
    }

    #[test]
    fn tables_have_the_published_form_and_ratios_follow() {
        let mut void = row("packet", Base::Stamp, 5000, 1);
        void.void = Some("nothing came".into());
        let rows = [
            row("socket", Base::Stamp, 5000, 45_000),
            row("xdp", Base::Stamp, 5000, 4_500),
            row("xdp", Base::Stamp, 0, 3_000),
            void,
        ];
        let text = text_table(&rows);
        for part in [
            "45.000",
            "n<10000",
            "n<100000",
            "42.750..47.250",
            "of 5 runs",
            ") times faster than socket by the median (t3..t5 book, one-entry, 5000 us gaps)",
            "xdp with 5000 us gaps is 1.50 (1.",
            ") times slower than back to back by the median (t3..t5 book, one-entry)",
            "VOID: nothing came",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("packet is "), "void rows are compared with nothing: {text}");
        let few = |mut row: FeedRow| {
            row.runs.truncate(3);
            row
        };
        let text = ratios(&[few(rows[0].clone()), few(rows[1].clone())]);
        assert!(text.contains(") of socket (3 runs, too few for a verdict)"), "{text}");
        assert_eq!(micros(Some(12_610), 0.5), "12.610");
    }
}
