//! `barewire bench feed`: slips, rows, documents. Only the last test needs root.

mod common;
mod patience;

use barewire_testing::{Needs, have};
use common::{Said, run};
use patience::{code_of, until_well};
use serde_json::Value;

fn feed(args: &[&str]) -> Said {
    run(&[&["bench", "feed", "--packets", "3000", "--seconds", "0.3", "--runs", "1"], args].concat())
}

#[test]
fn slips_end_with_code_2_and_the_nearest_word() {
    for (args, near) in [
        (&["--engine", "sokcet"][..], "did you mean `socket`?"),
        (&["--base", "ap"], "did you mean `app`?"),
        (&["--what", "books"], "did you mean `book`?"),
        (&["--workload", "one-entri"], "did you mean `one-entry`?"),
        (&["--engine", "mem", "--base", "stamp"], "nobody stamps"),
        (&["--engine", "mem", "--instruments", "0"], "--instruments"),
        (&["--engine", "mem", "--gap-us", "2000000"], "too long"),
        (&["--schema", "x.xml"], "--decode"),
    ] {
        let said = feed(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(near), "{args:?}: {}", said.err);
        assert_eq!(said.out, "", "{args:?}: nothing but data on stdout");
    }
}

#[test]
fn rows_have_their_keys_and_thin_percentiles_are_null() {
    let said = feed(&["--engine", "mem", "--what", "message,book", "--gap-us", "0,1ms", "--rate", "--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(document["schema"], 2);
    assert!(document["fingerprint"].is_object());
    let of = |bench| document["rows"].as_array().unwrap().iter().filter(move |row| row["bench"] == bench);
    let rows: Vec<&Value> = of("feed").collect();
    let shape: Vec<(&str, u64, u64)> = rows
        .iter()
        .map(|r| (r["what"].as_str().unwrap(), r["gap_us"].as_u64().unwrap(), r["samples"].as_u64().unwrap()))
        .collect();
    assert_eq!(shape, [("message", 0, 3000), ("book", 0, 3000), ("message", 1000, 300), ("book", 1000, 300)]);
    for row in rows {
        let latency = &row["latency_ns"];
        for key in ["min", "median", "mean", "max"] {
            assert!(latency[key].as_f64().is_some(), "{key}: {row}");
        }
        assert!(latency["p99"].is_null() && latency["p99_9"].is_null(), "3,000 samples carry neither: {row}");
        assert_eq!((row["base"].as_str(), row["stamp_source"].as_str()), (Some("app"), Some("none")));
        let run = &row["runs"][0];
        assert_eq!(
            (&run["latency_ns"]["median"], &run["median_ns"]),
            (&latency["median"], &latency["median"])
        );
    }
    assert!(of("feed-rates").next().unwrap()["sustained_pps"].as_f64().unwrap() > 1_000.0);
}

#[test]
fn every_engine_gives_both_bases() {
    let Some(()) = have(Needs::Root, barewire_netns::is_root_capable()) else { return };
    // On a machine that is busy with other tests the sender may be late, which voids a row, and an engine may not have its turn
    // before its run is over, which counts as lost. Nothing else may be wrong.
    let late = |row: &Value| row["void"].as_str().is_none_or(|why| why.contains("sender was late"));
    let measure = || {
        let engines = ["--engine", "socket,socket-spin,xdp", "--base", "app,stamp", "--gap-us", "500"];
        let said = feed(&[&engines[..], &["--json"]].concat());
        let mut document: Value = serde_json::from_str(&said.out).expect(&said.err);
        let Value::Array(rows) = document["rows"].take() else { panic!("{}", said.out) };
        assert_eq!(said.code, code_of(&rows), "{}", said.err);
        rows
    };
    let rows = until_well(measure, |rows| rows.iter().all(|row| late(row) && row["lost"] == 0));
    assert!(rows.iter().all(late), "{rows:?}");
    let shape: Vec<[&str; 4]> = rows
        .iter()
        .map(|r| ["engine", "idle_state", "base", "stamp_source"].map(|key| r[key].as_str().unwrap()))
        .collect();
    // Who sleeps meets cores that sleep, too, and cores that are kept awake.
    let cells = [("socket", "cold"), ("socket", "warm"), ("socket-spin", "warm"), ("xdp", "warm")];
    let expected: Vec<[&str; 4]> = cells
        .into_iter()
        .flat_map(|(engine, state)| [[engine, state, "app", "none"], [engine, state, "stamp", "kernel"]])
        .collect();
    assert_eq!(shape, expected);
    for row in &rows {
        assert_eq!((row["lost"].as_u64(), row["samples"].as_u64()), (Some(0), Some(600)), "{row}");
    }
}
