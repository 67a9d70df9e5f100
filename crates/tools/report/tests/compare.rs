//! Verdicts on runs whose truth is known.

mod sample;

use barewire_report::compare::{Compared, Comparison, MeanFrom, Method, Verdict, compare};
use barewire_report::import;
use barewire_report::run::{HardwareClass, Record, Run, RunWriter};
use sample::{START_MS, full, message, row, start};
use serde_json::json;
use std::path::Path;

#[test]
fn a_recorded_run_beside_itself_is_within_noise() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../benches/runs/2026-11-25-demo");
    let run = Run::open(&folder).unwrap();
    let c = compare(&[&run], &[&run], Method::default());
    assert!(c.count(Verdict::WithinNoise) > 20, "{}", c.count(Verdict::WithinNoise));
    assert_eq!((c.count(Verdict::Slower), c.count(Verdict::Faster)), (0, 0));
    // With enough repetitions on both sides a figure has a verdict, unless its row says what is wrong with it.
    let unknown = c.rows.iter().filter(|r| r.verdict == Verdict::Unknown && r.a.repetitions >= 5);
    for row in unknown {
        assert!(!row.notes.is_empty(), "{row:?}");
    }
}

/// A run of rows, each with its medians.
fn run(parent: &Path, label: &str, rows: &[(&str, &[f64])]) -> Run {
    let mut writer = RunWriter::create(parent, &start(label)).unwrap();
    for (mode, medians) in rows {
        let (record, histograms) = message("barewire", mode, 1, medians, 400);
        let named: Vec<_> = histograms.iter().map(|h| ("rtt", h)).collect();
        writer.add(record, &named).unwrap();
    }
    Run::open(&writer.finish(START_MS).unwrap()).unwrap()
}

fn of<'a>(c: &'a Comparison, mode: &str, path: &str) -> &'a Compared {
    let found = c.rows.iter().find(|r| r.name.contains(mode) && r.path == path);
    found.unwrap_or_else(|| {
        panic!("no {mode} {path} in {:?}", c.rows.iter().map(|r| (&r.name, &r.path)).collect::<Vec<_>>())
    })
}

const BASE: [f64; 5] = [1_000.0, 1_010.0, 990.0, 1_005.0, 995.0];

fn times(factor: f64) -> Vec<f64> {
    BASE.iter().map(|ns| ns * factor).collect()
}

#[test]
fn slower_faster_noise_and_unknown_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let wild = [600.0, 1_500.0, 800.0, 1_300.0, 1_000.0];
    let a = run(
        dir.path(),
        "a",
        &[("slow", &BASE), ("fast", &BASE), ("same", &BASE), ("wild", &wild), ("few", &BASE[..3])],
    );
    let b = run(
        dir.path(),
        "b",
        &[
            ("slow", &times(1.5)),
            ("fast", &times(0.5)),
            ("same", &times(1.005)),
            ("wild", &times(1.1)),
            ("few", &times(3.0)[..3]),
        ],
    );
    let c = compare(&[&a], &[&b], Method::default());
    let slow = of(&c, "slow", "rtt_ns.p50");
    assert_eq!(slow.verdict, Verdict::Slower, "{slow:?}");
    let i = slow.interval.unwrap();
    assert!((1.4..1.6).contains(&i.ratio) && i.low > 1.3 && i.high < 1.7, "{i:?}");
    // Rates go the other way, and mean the same.
    assert_eq!(of(&c, "slow", "rate_per_s").verdict, Verdict::Slower);
    assert!(of(&c, "slow", "rate_per_s").interval.unwrap().ratio < 0.75);
    assert_eq!(of(&c, "fast", "rtt_ns.p50").verdict, Verdict::Faster);
    assert_eq!(of(&c, "same", "rtt_ns.p50").verdict, Verdict::WithinNoise);
    assert_eq!(of(&c, "wild", "rtt_ns.p50").verdict, Verdict::WithinNoise);
    let few = of(&c, "few", "rtt_ns.p50");
    assert_eq!(few.verdict, Verdict::Unknown);
    assert_eq!(few.notes, ["3 and 3 repetitions cannot show a difference at 95 %; 4 each can"]);
    let thin = of(&c, "slow", "rtt_ns.p99");
    assert_eq!(thin.verdict, Verdict::Unknown);
    assert_eq!(thin.notes[..2], ["A: n<10000", "B: n<10000"]);
    assert!(c.rows.iter().all(|r| !r.path.ends_with(".max") && !r.path.ends_with(".min")));

    // A lower level takes fewer repetitions.
    let at_90 = compare(&[&a], &[&b], Method { confidence: 0.9, ..Method::default() });
    assert_eq!(of(&at_90, "few", "rtt_ns.p50").verdict, Verdict::Slower);
    // The same files give the same verdicts.
    assert_eq!(c, compare(&[&a], &[&b], Method::default()));
}

#[test]
fn histograms_bring_their_interval_and_their_mean() {
    let dir = tempfile::tempdir().unwrap();
    let a = run(dir.path(), "a", &[("x", &BASE)]);
    let b = run(dir.path(), "b", &[("x", &BASE)]);
    let c = compare(&[&a], &[&b], Method::default());
    let side = &of(&c, "x", "rtt_ns.p50").a;
    let (low, high) = side.within.unwrap();
    let value = side.value.unwrap();
    assert!((low as f64) < value && value < high as f64 && high - low < 100, "{low} {value} {high}");
    let little = side.little.unwrap();
    assert_eq!(little.from, MeanFrom::Histogram);
    assert!((little.ratio - 1.0).abs() < 0.01, "{little:?}");
    assert_eq!((side.repetitions, side.samples), (5, Some(2_000)));
}

#[test]
fn several_folders_are_repetitions() {
    let dir = tempfile::tempdir().unwrap();
    let folders = |side: &str, factor: f64| -> Vec<Run> {
        (0..3).map(|n| run(dir.path(), &format!("{side}{n}"), &[("x", &times(factor)[n..n + 2])])).collect()
    };
    let (a, b) = (folders("a", 1.0), folders("b", 1.3));
    let (a, b): (Vec<&Run>, Vec<&Run>) = (a.iter().collect(), b.iter().collect());
    let c = compare(&a, &b, Method::default());
    let row = of(&c, "x", "rtt_ns.p50");
    assert_eq!((row.verdict, row.a.repetitions, row.b.repetitions), (Verdict::Slower, 6, 6));
    assert_eq!((c.a.len(), c.b.len()), (3, 3));
}

#[test]
fn what_must_not_be_compared_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let a = run(dir.path(), "a", &[("x", &BASE)]);
    let slow = run(dir.path(), "b", &[("x", &times(2.0))]);
    let verdict = |b: &Run, method: Method| {
        let c = compare(&[&a], &[b], method);
        let row = of(&c, "x", "rtt_ns.p50");
        (row.verdict, row.notes.join("; "))
    };
    assert_eq!(verdict(&slow, Method::default()).0, Verdict::Slower);

    let mut void = slow.clone();
    void.records[0].row["void"] = json!("the generator lagged");
    assert_eq!(
        verdict(&void, Method::default()),
        (Verdict::Unknown, "B is void: the generator lagged".to_owned())
    );

    let mut wrong = slow.clone();
    wrong.records[0].row["rate_per_s"] = json!(1e9);
    let (got, why) = verdict(&wrong, Method::default());
    assert!(got == Verdict::Unknown && why.contains("Little's law"), "{why}");

    let mut elsewhere = slow.clone();
    elsewhere.manifest.fingerprint["machine"]["cpu_model"] = json!("another");
    let (got, why) = verdict(&elsewhere, Method::default());
    assert_eq!((got, why.as_str()), (Verdict::Unknown, "measured on different machines"));
    let method = Method { across_machines: true, ..Method::default() };
    assert_eq!(verdict(&elsewhere, method).0, Verdict::Slower);
    let c = compare(&[&a], &[&elsewhere], method);
    assert!(c.differences.iter().any(|d| d.starts_with("machine.cpu_model: ")), "{:?}", c.differences);

    // A document from before it was written does not say on what it was measured.
    let mut unsaid = slow.clone();
    unsaid.manifest.hardware = HardwareClass::Unknown;
    assert_eq!(verdict(&unsaid, Method::default()).0, Verdict::Slower);
    unsaid.manifest.hardware = HardwareClass::BareMetal;
    assert_eq!(verdict(&unsaid, Method::default()).0, Verdict::Unknown);

    let mut contended = slow.clone();
    contended.records[0].row["contended"] = json!(true);
    assert_eq!(verdict(&contended, Method::default()), (Verdict::Slower, "B contended".to_owned()));
}

#[test]
fn the_gate_fails_on_regressions_and_on_rows_that_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let a = run(dir.path(), "a", &[("x", &BASE), ("y", &BASE)]);
    let same = compare(&[&a], &[&a], Method::default());
    assert!(same.gate().passes() && same.gate().judged > 0);
    let slower = run(dir.path(), "b", &[("x", &times(1.5)), ("y", &BASE)]);
    let c = compare(&[&a], &[&slower], Method::default());
    let gate = c.gate();
    assert!(!gate.passes());
    assert!(gate.regressions.iter().all(|r| r.name.contains(" x ")), "{:?}", gate.regressions);
    let paths: Vec<&str> = gate.regressions.iter().map(|r| r.path.as_str()).collect();
    // One median and one rate; the row's p90, which the histograms have run by run, got worse with them and is not asked.
    assert_eq!(paths, ["rtt_ns.p50", "rate_per_s"]);
    assert_eq!(of(&c, "x", "rtt_ns.p90").verdict, Verdict::Slower);
    assert!(c.method.words().contains("one rate and one median of each row"));
    let gone = run(dir.path(), "c", &[("x", &BASE)]);
    let c = compare(&[&a], &[&gone], Method::default());
    assert!(!c.gate().passes() && c.gate().regressions.is_empty());
    assert_eq!(c.only_a.len(), 1);
    let c = compare(&[&gone], &[&a], Method::default());
    assert!(c.gate().passes() && c.only_b.len() == 1);
    // Nothing that could be judged is no success.
    let few = run(dir.path(), "d", &[("x", &BASE[..2]), ("y", &BASE[..2])]);
    assert!(!compare(&[&few], &[&few], Method::default()).gate().passes());
}

/// What A has and B has not any more must not pass for good.
#[test]
fn the_gate_fails_on_what_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let a = run(dir.path(), "a", &[("x", &BASE), ("y", &BASE)]);
    let lost = |change: &dyn Fn(&mut Record)| {
        let mut b = a.clone();
        change(&mut b.records[0]);
        let c = compare(&[&a], &[&b], Method::default());
        assert!(c.gate().judged > 0 && c.gate().missing.is_empty() && c.gate().regressions.is_empty());
        let lost: Vec<(String, String)> =
            c.gate().lost.iter().map(|r| (r.path.clone(), r.lost.clone().unwrap())).collect();
        assert_eq!(c.gate().passes(), lost.is_empty(), "{lost:?}");
        lost
    };
    assert!(lost(&|_| {}).is_empty());
    let void = lost(&|r| _ = r.row.insert("void".into(), json!("the generator lagged")));
    assert!(
        !void.is_empty() && void.iter().all(|(_, why)| why == "void in B only: the generator lagged"),
        "{void:?}"
    );
    let gone = lost(&|r| _ = r.row.remove("rate_per_s"));
    assert_eq!(gone, [("rate_per_s".to_owned(), "B has no such figure".to_owned())]);
    let value = lost(&|r| r.row["rtt_ns"]["p50"] = json!(null));
    assert_eq!(value, [("rtt_ns.p50".to_owned(), "B has no value".to_owned())]);
    // Too few samples for a high percentile are no loss, and no verdict.
    assert!(lost(&|r| r.row["rtt_ns"]["p90"] = json!(null)).is_empty());
    // A row that A could not use either is not lost in B.
    let mut void = a.clone();
    void.records[0].row["void"] = json!("lagged");
    let c = compare(&[&void], &[&void], Method::default());
    assert!(c.gate().lost.is_empty() && c.gate().passes(), "{:?}", c.gate().lost);
}

/// What was answered of a load that was too much was answered soon: that is no gain.
#[test]
fn a_row_that_became_overloaded_is_lost_and_not_faster() {
    let dir = tempfile::tempdir().unwrap();
    let a = run(dir.path(), "a", &[("x", &BASE), ("y", &BASE)]);
    let mut b = run(dir.path(), "b", &[("x", &times(0.5)), ("y", &BASE)]);
    b.records[0].row.insert("overloaded".into(), json!("12 % were never sent"));
    let c = compare(&[&a], &[&b], Method::default());
    let median = of(&c, "x", "rtt_ns.p50");
    assert_eq!(median.verdict, Verdict::Unknown, "{median:?}");
    assert!(median.notes[0].starts_with("B is overloaded, and its times leave out"), "{median:?}");
    assert_eq!(median.lost.as_deref(), Some("overloaded in B only: 12 % were never sent"));
    assert!(!c.gate().passes());
    // What both carried of it can be compared.
    let both = compare(&[&b], &[&b], Method::default());
    assert_eq!(of(&both, "x", "rate_per_s").verdict, Verdict::WithinNoise);
    assert!(both.gate().lost.is_empty());
}

#[test]
fn runs_of_machines_that_are_not_told_are_not_known_to_be_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let (mut a, mut b) = (run(dir.path(), "a", &[("x", &BASE)]), run(dir.path(), "b", &[("x", &times(2.0))]));
    a.manifest.fingerprint = json!(null);
    b.manifest.fingerprint = json!(null);
    let c = compare(&[&a], &[&b], Method::default());
    let row = of(&c, "x", "rtt_ns.p50");
    assert_eq!(
        (row.verdict, &row.notes[..]),
        (Verdict::Unknown, &["on what machine it was measured is not told".to_owned()][..])
    );
    let method = Method { across_machines: true, ..Method::default() };
    assert_eq!(of(&compare(&[&a], &[&b], method), "x", "rtt_ns.p50").verdict, Verdict::Slower);
}

/// One row of a connection repeats three published tables, and is one row.
#[test]
fn a_row_in_several_tables_is_judged_once() {
    let dir = tempfile::tempdir().unwrap();
    let with = |label: &str, rate: f64| {
        let runs: Vec<_> = (0..5).map(|n| json!({ "connections_per_s": rate + f64::from(n) })).collect();
        let row = row(
            json!({ "system": "barewire", "connections_per_s": rate, "window": 1, "teardown": true, "hosts": 1, "threads": 1,
            "nics": 1, "runs": runs }),
        );
        let mut writer = RunWriter::create(dir.path(), &start(label)).unwrap();
        for record in import::array("rc", vec![row]).concat() {
            writer.add(record, &[]).unwrap();
        }
        Run::open(&writer.finish(START_MS).unwrap()).unwrap()
    };
    let (a, b) = (with("a", 400.0), with("b", 200.0));
    assert_eq!(a.records.len(), 3);
    let c = compare(&[&a], &[&b], Method::default());
    assert_eq!((c.rows.len(), c.gate().regressions.len()), (1, 1), "{:?}", c.rows);
    assert_eq!(c.gate().regressions[0].ratio().unwrap(), "0.502 (0.498 to 0.507)");
}

#[test]
fn a_full_run_that_got_slower_is_seen_and_its_baselines_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (full(dir.path(), "a", 1.0), full(dir.path(), "b", 1.2));
    let c = compare(&[&a], &[&b], Method::default());
    let p50 = |r: &&Compared| r.path == "rtt_ns.p50" && r.a.repetitions == 5;
    for row in c.rows.iter().filter(p50) {
        let expected = if row.name.starts_with("kernel") { Verdict::WithinNoise } else { Verdict::Slower };
        assert_eq!(row.verdict, expected, "{} {}", row.name, row.details);
    }
    assert_eq!(c.rows.iter().filter(p50).count(), 8);
    let json = serde_json::to_value(&c).unwrap();
    assert_eq!(json["rows"][0]["verdict"], "slower");
    assert_eq!(json["method"]["seed"], 1);
}

#[test]
fn values_without_a_ratio_are_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let with = |label: &str, value: f64| {
        let mut writer = RunWriter::create(dir.path(), &start(label)).unwrap();
        let runs: Vec<_> = (0..5).map(|_| json!({ "added_latency_ns": value })).collect();
        let row = row(json!({ "system": "x", "added_latency_ns": value, "runs": runs }));
        writer.add(Record::new("e", "t", row), &[]).unwrap();
        Run::open(&writer.finish(START_MS).unwrap()).unwrap()
    };
    let c = compare(&[&with("a", 0.0)], &[&with("b", -5.0)], Method::default());
    assert_eq!((c.rows[0].verdict, c.rows[0].interval), (Verdict::Unknown, None));
    assert_eq!(c.rows[0].notes, ["a value is not positive: there is no ratio"]);
}
