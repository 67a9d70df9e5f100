//! Rows about the feed handler as text.

use super::FeedRow;
use super::decode::DecodeRow;
use super::row::Base;
use super::saturate::RateRow;
use crate::render::rate;
use crate::switch::render::columns;
use barewire_measure::samples_needed;
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

/// The table of rows.
pub fn text_table(rows: &[FeedRow]) -> String {
    let lines = rows.iter().map(|row| {
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
        (cells, notes(row).join("; "))
    });
    let head = [
        "engine", "points", "callback", "packets", "lines", "stamp", "gap us", "min us", "median", "mean",
        "95 %", "99 %", "99.9 %", "max", "samples", "sent/s",
    ];
    columns(&head, lines.collect(), 6) + &ratios(rows)
}

/// What one engine is to another, and what gaps cost, in words.
pub fn ratios(rows: &[FeedRow]) -> String {
    let mut out = String::new();
    let usable = |row: &&FeedRow| row.void.is_none();
    let median = |row: &FeedRow| row.latency_ns.median.filter(|ns| *ns > 0).map(|ns| ns as f64);
    let about = |row: &FeedRow| {
        let pace = match row.gap_us {
            0 => "back to back".to_owned(),
            us => format!("{us} us gaps"),
        };
        format!("{} {}, {pace}, {}", row.points, row.what, row.workload)
    };
    for plain in rows.iter().filter(|row| row.engine == "socket" && row.base == Base::Stamp).filter(usable) {
        for other in rows.iter().filter(|r| r.engine != "socket" && r.same_but_engine(plain)).filter(usable) {
            if let (Some(a), Some(b)) = (median(other), median(plain)) {
                let _ =
                    writeln!(out, "{} / socket: {:.2} of its median ({})", other.engine, a / b, about(plain));
            }
        }
    }
    for fast in rows.iter().filter(|row| row.gap_us == 0).filter(usable) {
        for slow in rows.iter().filter(|r| r.gap_us > 0 && r.engine == fast.engine).filter(usable) {
            let mut same = slow.clone();
            same.gap_us = 0;
            if let (true, Some(a), Some(b)) = (same.same_but_engine(fast), median(slow), median(fast)) {
                let _ = writeln!(
                    out,
                    "{} with {} us gaps / back to back: {:.2} ({} {}, {})",
                    fast.engine,
                    slow.gap_us,
                    a / b,
                    fast.points,
                    fast.what,
                    fast.workload
                );
            }
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// How fast packets may come.
pub fn rates_table(rows: &[RateRow]) -> String {
    let lines = rows.iter().map(|row| {
        let shown = |pps: Option<f64>| pps.map_or_else(|| "-".to_owned(), rate);
        let cells = vec![
            row.engine.clone(),
            row.workload.clone(),
            row.limit.clone(),
            row.instruments.to_string(),
            format!("{:.0}", row.mean_bytes),
            shown(row.sustained_pps),
            shown(row.saturated_pps),
        ];
        (cells, row.notes.join("; "))
    });
    let head = ["engine", "packets", "limit", "instruments", "bytes", "sustained/s", "not carried/s"];
    columns(&head, lines.collect(), 3)
}

/// Decoders.
pub fn decode_table(rows: &[DecodeRow]) -> String {
    let lines = rows.iter().map(|row| {
        let cells = vec![
            row.decoder.clone(),
            row.message.clone(),
            row.bytes.to_string(),
            row.ns_per_message.map_or_else(|| "missing".to_owned(), |ns| format!("{ns:.1}")),
            row.ours_is_times_faster.map_or_else(|| "-".to_owned(), |times| format!("{times:.2}")),
        ];
        (cells, row.missing.clone().unwrap_or_default())
    });
    columns(&["decoder", "message", "bytes", "ns/message", "ours is faster by"], lines.collect(), 2)
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
            runs: Vec::new(),
            contended: false,
            contention: Vec::new(),
            notes: Vec::new(),
            void: None,
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
            "xdp / socket: 0.10 of its median (t3..t5 book, 5000 us gaps, one-entry)",
            "xdp with 5000 us gaps / back to back: 1.50",
            "VOID: nothing came",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("packet / socket"), "void rows are compared with nothing: {text}");
        assert_eq!(micros(Some(12_610), 0.5), "12.610");
    }
}
