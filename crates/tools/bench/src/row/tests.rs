//! Tests of rows.

use super::*;
use serde_json::json;

pub(crate) const MEASURES: &[Measure] = &[
    Measure::rate("rate_pps", "packets/s", "packets"),
    Measure::cost("ns_per_packet", "ns/packet", "time a packet"),
    Measure::spans("latency_ns", "latency", SPANS),
    Measure::count("lost", "lost"),
    Measure::count("mtu", "").neutral(),
];

pub(crate) fn subject(system: &str) -> Subject {
    Subject {
        bench: "test",
        system: system.to_owned(),
        over: Some("mem".to_owned()),
        params: vec![Param::new("size", Unit::Bytes, 64), Param::word("what", "frames")],
        command: "barewire bench test".to_owned(),
        ..Subject::default()
    }
}

pub(crate) fn run(rate: f64, ns: u64, samples: u64) -> Measured {
    let mut spans = Histogram::new();
    spans.record_n(ns, samples);
    let run = Measured::default().number("rate_pps", rate).number("ns_per_packet", 1e9 / rate);
    run.spans("latency_ns", spans).number("lost", 1.0).number("mtu", 1500.0)
}

#[test]
fn a_figure_is_the_median_of_the_runs_and_a_count_their_sum() {
    let row = Row::of(
        subject("barewire"),
        MEASURES,
        &[run(1e6, 100, 9_000), run(4e6, 300, 600), run(2e6, 200, 500)],
    );
    assert_eq!((row.number("rate_pps"), row.number("ns_per_packet")), (Some(2e6), Some(500.0)));
    assert_eq!((row.number("lost"), row.number("mtu")), (Some(3.0), Some(1500.0)));
    assert_eq!(
        row.number("latency_ns"),
        Some(200.0),
        "a fast run with many samples weighs as much as another"
    );
    assert_eq!(row.of_runs("rate_pps"), [1e6, 4e6, 2e6]);
    let even = Row::of(subject("barewire"), MEASURES, &[run(1e6, 100, 30), run(2e6, 200, 30)]);
    assert_eq!((even.number("rate_pps"), even.number("latency_ns")), (Some(1.5e6), Some(150.0)), "one rule");
    // No run carries its 99th percentile, all together do, and that is said.
    assert!(row.notes[0].starts_with("99 %: of all runs together"), "{:?}", row.notes);
}

#[test]
fn a_row_is_flat_and_explains_itself() {
    let mut void = run(1e6, 100, 30);
    void.void = Some("late".to_owned());
    let row = Row::of(subject("barewire"), MEASURES, &[void, run(2e6, 200, 30)]);
    let json = serde_json::to_value(&row).unwrap();
    assert_eq!(
        (&json["system"], &json["over"], &json["size"]),
        (&json!("barewire"), &json!("mem"), &json!(64))
    );
    assert_eq!((&json["rate_pps"], &json["lost"], &json["samples"]), (&json!(1.5e6), &json!(2), &json!(60)));
    assert_eq!(json["latency_ns"]["min"], json!(100));
    assert_eq!(json["latency_ns"]["p99"], Json::Null, "60 samples do not carry it");
    assert_eq!((&json["runs"][1]["rate_pps"], &json["runs"][0]["void"]), (&json!(2e6), &json!("late")));
    assert_eq!((&json["void"], row.of_runs("rate_pps")), (&json!("late"), vec![2e6]));
    assert_eq!(json["params"], json!({"size": "bytes", "what": ""}));
    assert_eq!(json["measures"]["rate_pps"], json!({"unit": "/s", "better": "higher", "words": "packets"}));
    assert_eq!(json["measures"]["lost"]["better"], Json::Null);
    assert_eq!(row.histograms.runs().unwrap()[0].1.len(), 2);
}

#[test]
fn a_row_of_a_document_is_the_row_that_was_written() {
    let mut void = run(1e6, 100, 30);
    void.void = Some("late".to_owned());
    let mut row = Row::of(subject("barewire"), MEASURES, &[void, run(2e6, 200, 30)]);
    row.broken_off = Some("run 3".to_owned());
    let Json::Object(written) = serde_json::to_value(&row).unwrap() else { panic!("no object") };
    let read = Row::read(row.subject.clone(), MEASURES, written.clone()).unwrap();
    // Documents have histograms elsewhere.
    assert_eq!(read, Row { histograms: Histograms::default(), ..row });
    assert_eq!(read.stat("latency_ns", "p50"), Some(150.0));
    assert_eq!(read.stat_of_runs("latency_ns", "p50").collect::<Vec<_>>(), [100.0, 200.0]);
    assert_eq!((read.stat("latency_ns", "p51"), read.stat("lost", "p50")), (None, None));
    let mut wrong = written;
    wrong.insert("runs".to_owned(), json!(3));
    assert!(Row::read(subject("barewire"), MEASURES, wrong).is_err());
}

#[test]
fn what_must_not_be_used_stands_beside_nothing() {
    let runs = |rate: f64| [0.99, 1.0, 1.01, 1.0, 1.0].map(|by| run(rate * by, 100, 30));
    let ours = Row::of(subject("barewire"), MEASURES, &runs(4e6));
    let mut theirs = Row::of(subject("other"), MEASURES, &runs(1e6));
    let words = ours.standing(&theirs, &MEASURES[0]).unwrap().words("other");
    assert!(words.starts_with("4.00 (") && words.ends_with("times faster than other"), "{words}");
    assert_eq!(ours.standing(&theirs, &MEASURES[3]), None, "a count has no better");
    theirs.void = Some("wrong".to_owned());
    assert_eq!(ours.standing(&theirs, &MEASURES[0]), None);
    assert!(!Row::missing(subject("x"), MEASURES, "not here").is_usable());
}
