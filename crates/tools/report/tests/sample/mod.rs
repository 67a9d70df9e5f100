//! A made-up run that has everything: histograms, sweeps, baselines, open loops, thin and void rows, hostile text.
#![allow(dead_code, reason = "each test file uses a part")]

use barewire_base::Prng;
use barewire_measure::{Fingerprint, Histogram};
use barewire_report::run::{HardwareClass, Record, Role, Run, RunStart, RunWriter};
use serde_json::{Map, Value, json};
use std::path::Path;

/// 22 November 2026, 12:03:04.
pub const START_MS: u64 = 1_795_348_984_000;

/// Text that breaks pages, tables and spreadsheets that do not escape.
pub const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&|`*_\u{202e}\u{0}=cmd";

pub fn start(label: &str) -> RunStart {
    RunStart {
        label: label.to_owned(),
        started_unix_ms: START_MS,
        commit: Some("0123456789ab".to_owned()),
        command: "barewire bench run labs/seeds.toml".to_owned(),
        hardware: HardwareClass::OneMachine,
        config: json!({ "runs": 5, "threads": [1, 2, 4] }),
        fingerprint: serde_json::to_value(Fingerprint::collect()).unwrap(),
    }
}

pub fn row(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

/// Times around `ns` with a long tail, from a seed.
pub fn times(seed: u64, ns: f64, samples: u32) -> Histogram {
    let (mut prng, mut histogram) = (Prng::new(seed), Histogram::new());
    for _ in 0..samples {
        let tail = if prng.chance(0.002) { 20.0 * prng.unit() } else { 0.0 };
        histogram.record((ns * (0.85 + 0.3 * prng.unit() + tail)) as u64);
    }
    histogram
}

fn rtt(h: &Histogram) -> Value {
    let s = h.summary();
    json!({ "min": s.min, "p50": s.p50, "p90": s.p90, "p99": s.p99, "p99_9": s.p99_9, "max": s.max })
}

/// A closed-loop row whose medians are `medians`, with a histogram of `samples` for each.
pub fn message(
    system: &str,
    mode: &str,
    window: u32,
    medians: &[f64],
    samples: u32,
) -> (Record, Vec<Histogram>) {
    let each: Vec<Histogram> =
        medians.iter().enumerate().map(|(i, ns)| times(i as u64 + u64::from(window), *ns, samples)).collect();
    let mut all = Histogram::new();
    each.iter().for_each(|h| all.merge(h));
    let rate = |h: &Histogram| f64::from(window) * 1e9 / h.mean().unwrap();
    let runs: Vec<Value> = each
        .iter()
        .map(|h| json!({ "p50_ns": h.summary().p50, "p99_ns": h.summary().p99, "rate_per_s": rate(h), "void": null }))
        .collect();
    let record = Record::new(
        "message-latency",
        "machnet",
        row(json!({
            "system": system, "mode": mode, "over": "xdp", "size": 1024, "window": window, "connections": 1, "loop": "closed",
            "samples": all.samples(), "rtt_ns": rtt(&all), "rate_per_s": rate(&all), "runs": runs, "idle_state": "warm",
            "contended": false, "void": null, "command": "barewire bench msg --over xdp",
        })),
    );
    let role = if system.starts_with("kernel") { Role::Baseline } else { Role::Measured };
    (Record { role, ..record }, each)
}

fn add(writer: &mut RunWriter, (record, histograms): (Record, Vec<Histogram>)) {
    let named: Vec<(&str, &Histogram)> = histograms.iter().map(|h| ("rtt", h)).collect();
    writer.add(record, &named).unwrap();
}

/// Writes the run. `slowdown` makes barewire's messages slower and leaves the rest as it is.
pub fn full(parent: &Path, label: &str, slowdown: f64) -> Run {
    let mut writer = RunWriter::create(parent, &start(label)).unwrap();
    let scaled = |base: &[f64]| base.iter().map(|ns| ns * slowdown).collect::<Vec<f64>>();
    let ours = scaled(&[6_000.0, 6_100.0, 5_950.0, 6_050.0, 6_020.0]);
    let theirs = [8_200.0, 8_300.0, 8_150.0, 8_250.0, 8_190.0];
    add(&mut writer, message("barewire", "embedded", 1, &ours, 24_000));
    add(&mut writer, message("kernel-tcp-spin", "spin", 1, &theirs, 24_000));
    for window in [8, 32, 64] {
        let at = |base: f64| {
            [0.0, 0.01, 0.02, 0.005, 0.015].map(|d| base * f64::from(window).powf(0.6) * (1.0 + d))
        };
        add(&mut writer, message("barewire", "embedded", window, &scaled(&at(6_000.0)), 4_000));
        add(&mut writer, message("kernel-tcp-spin", "spin", window, &at(8_200.0), 4_000));
    }
    let mut contended = message("barewire", "daemon", 1, &[17_500.0, 17_600.0], 30).0;
    contended.row["contended"] = json!(true);
    contended.row.insert("contention".into(), json!(["53 involuntary switches, 44/s (limit 20/s)"]));
    writer.add(contended, &[]).unwrap();
    for threads in [1.0, 2.0, 4.0, 8.0] {
        let mut rc = Record::new(
            "rc-threads",
            "rc.threads",
            row(
                json!({ "system": "barewire", "over": "xdp", "connections_per_s": 90_000.0 * f64::powf(threads, 0.8) }),
            ),
        );
        rc.axes.insert("threads".into(), threads.into());
        writer.add(rc, &[]).unwrap();
    }
    for (base, ns) in [("app", 120), ("stamp", 2_900)] {
        let value = json!({
            "system": "barewire", "engine": "socket-spin", "base": base, "what": "book", "gap_us": 0, "workload": "one-entry",
            "samples": 200_000, "latency_ns": { "min": ns / 2, "median": ns, "mean": ns, "p95": ns * 2, "p99": ns * 3,
            "p99_9": ns * 9, "max": ns * 100 },
        });
        let table = if base == "app" { "onixs.app-0" } else { "onixs.net-0" };
        writer.add(Record::new("feed", table, row(value)), &[]).unwrap();
    }
    let open = json!({
        "system": "barewire", "mode": "embedded", "over": "mem", "loop": "open", "offered_per_s": 100_000.0, "size": 64,
        "samples": 50_000, "service_ns": { "p50": 1_400 }, "response_ns": { "p50": 2_100, "p99": 9_000 },
        "rtt_ns": { "p50": 1_400 }, "behind_percent": 1.5, "window": 64, "rate_per_s": 100_000.0,
    });
    writer.add(Record::new("open", "open-loop", row(open)), &[]).unwrap();
    let void = json!({ "system": "barewire", "mode": HOSTILE, "over": HOSTILE, "samples": 50, "rtt_ns": { "p50": 5, "p99": null },
        "void": HOSTILE, "notes": [HOSTILE], "command": HOSTILE });
    writer.add(Record::new(HOSTILE, HOSTILE, row(void)), &[]).unwrap();
    writer.add(Record::missing("rc-machines", "rc.machines", "one machine only"), &[]).unwrap();
    let control =
        json!({ "clock": { "median_ns": 22 }, "hiccup_max_ns": 51_000, "hiccup_lost_percent": 0.4 });
    writer
        .add(Record { role: Role::Control, ..Record::new("control", "control", row(control)) }, &[])
        .unwrap();
    writer.caveat(HOSTILE);
    Run::open(&writer.finish(START_MS + 95_000).unwrap()).unwrap()
}
