//! What bench verbs leave behind: run folders, histograms, control rows. No test here needs root.

mod common;
mod patience;

use barewire_measure::Histogram;
use barewire_report::run::{Role, Run};
use barewire_testing::Folder;
use common::run;
use patience::{code_of, until_seen, until_well};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

fn runs(folder: &Folder) -> Vec<Run> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths.iter().filter(|p| p.is_dir()).map(|p| Run::open(p).unwrap()).collect()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn every_verb_leaves_a_run_folder_with_histograms_and_control_rows() {
    for (verb, args, table, histograms) in [
        ("msg", &["--mode", "embedded-one-thread", "--warmup", "0.02"][..], "machnet", &["service"][..]),
        (
            "msg",
            &["--mode", "embedded-one-thread", "--rate", "5000,10000"],
            "msg",
            &["response", "send_lag", "service"],
        ),
        ("switch", &["--over", "mem", "--entries", "10"], "switch", &[]),
        ("port", &["--over", "mem", "--baseline", "kernel-unix"], "port", &[]),
        ("feed", &["--engine", "mem", "--gap-us", "0", "--packets", "3000"], "onixs.app-0", &["latency"]),
        (
            "rc",
            &["--one-thread"],
            "rc.threads",
            &["create", "destroy", "disconnect", "first_byte", "latency", "req_to_rep", "rtu"],
        ),
    ] {
        let samples = |row: &Value, name: &str| {
            let text = row["histograms"][name].as_str();
            text.map_or(0, |text| Histogram::from_base64(text).unwrap().samples())
        };
        let common = ["--runs", "2", "--hiccup", "0.02", "--histograms", "--json"];
        let (folder, said, document) = until_seen(
            "0.1",
            |seconds| {
                let folder = Folder::new(verb);
                let here = ["--seconds", seconds, "--run", &text(folder.path())];
                let said = run(&[&["bench", verb], args, &common, &here].concat());
                let document: Value = serde_json::from_str(&said.out).unwrap();
                // A generator that a busy machine kept from its schedule voids its row, as it should.
                assert_eq!(said.code, code_of(document["rows"].as_array().unwrap()), "{verb}: {}", said.err);
                (folder, said, document)
            },
            |(_, said, document)| {
                let is_lagged = args.contains(&"--rate") && said.code == Some(4);
                let has_all = histograms.iter().all(|name| samples(&document["rows"][0], name) > 0);
                document["control"].is_object() && has_all && (said.code == Some(0) || is_lagged)
            },
        );
        assert!(said.code == Some(0) || args.contains(&"--rate"), "{verb}: {}", said.err);
        assert!(document["control"]["clock"]["median_ns"].as_u64().is_some(), "{verb}");
        let row = &document["rows"][0];
        for name in histograms {
            assert!(samples(row, name) > 0, "{verb} {name}");
        }
        assert_eq!(row.get("histograms").is_some(), !histograms.is_empty(), "{verb}");

        let runs = runs(&folder);
        assert_eq!(runs.len(), 1);
        let run = &runs[0];
        assert!(run.name().ends_with(&format!("-{verb}")), "{}", run.name());
        assert!(said.err.contains(&run.name()), "{verb}: {}", said.err);
        assert!(run.fingerprint().is_some() && run.manifest.ended_unix_ms.is_some());
        // The verb's own name, whichever of its names was typed.
        let own = if verb == "rc" { "rdma" } else { verb };
        assert_eq!(run.manifest.config["verb"], format!("bench {own}"));
        assert_eq!((&run.manifest.config["runs"], &run.manifest.config["seed"]), (&2.into(), seed(verb)));
        assert!(run.manifest.command.contains(&format!("bench {verb}")), "{}", run.manifest.command);
        assert_eq!(run.records.iter().filter(|r| r.role == Role::Control).count(), 1);
        let record =
            run.records.iter().find(|r| r.table == table).unwrap_or_else(|| panic!("{verb} {table}"));
        let names: Vec<&str> = record.histograms.iter().map(|h| h.name.as_str()).collect();
        assert_eq!(names, histograms, "{verb}");
        // One for each run; the steps of a connection are timed once.
        if let Some(name) = histograms.iter().find(|n| ["service", "latency"].contains(n)) {
            assert_eq!(run.repetitions(record, name).count(), 2, "{verb} {name}");
        }
        assert!(!record.row.contains_key("histograms"));
        if args.contains(&"5000,10000") {
            let loads: Vec<String> =
                run.records.iter().filter_map(|r| Some(r.axes.get("offered_per_s")?.to_string())).collect();
            assert_eq!(loads, ["5000", "10000"]);
        }
    }
}

fn seed(verb: &str) -> &'static Value {
    static ONE: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| 1.into());
    static NONE: Value = Value::Null;
    if ["rc", "port"].contains(&verb) { &NONE } else { &ONE }
}

#[test]
fn a_second_run_is_another_folder_and_a_document_with_histograms_is_reported() {
    // On a machine with much else to do a run may be void, or two cores may not meet: then all of it once more.
    let (folder, out, [one, two]) = until_well(
        || {
            let folder = Folder::new("twice");
            let (here, out) = (text(folder.path()), text(&folder.file("m.json")));
            let mode = ["bench", "msg", "--mode", "embedded-one-thread", "--runs", "1", "--seconds", "0.5"];
            let leave = ["--hiccup", "0.02", "--run", &here, "--label", "a b", "--out", &out, "--histograms"];
            let said = [(); 2].map(|()| run(&[&mode[..], &leave].concat()));
            (folder, out, said)
        },
        |(_, _, said)| said.iter().all(|said| said.code == Some(0) && said.err.contains("Control: clock ")),
    );
    for said in [one, two] {
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.err.contains("Control: clock "), "{}", said.err);
    }
    let runs = runs(&folder);
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|r| r.manifest.label == "a b" && r.name().ends_with("-a-b")));
    let page = text(&folder.file("r.html"));
    let said = run(&["report", &out, "--html", &page]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("longest hiccup") && html.contains("Latency by percentile"));

    let said = run(&["bench", "msg", "--label", "x"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
}
