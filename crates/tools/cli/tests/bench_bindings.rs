//! `barewire bench bindings`: Rust's rows over real daemons, rows that say why a language has none, refusals.

mod common;
mod patience;

use common::run;
use patience::{code_of, until_seen};
use serde_json::Value;

#[test]
fn rust_is_measured_and_a_language_without_packages_says_so() {
    let empty = tempfile::tempdir().expect("a folder");
    let empty = empty.path().display().to_string();
    let here = ["bench", "bindings", "--over", "mem", "--packages", &empty, "--languages", "python,cpp"];
    let short = ["--warmup", "0.05", "--runs", "1", "--hiccup", "0.02", "--json", "--window", "1,4"];
    let usable = |row: &Value| row["language"] == "rust" && row["rtt_ns"]["samples"].as_u64() > Some(0);
    let (document, said) = until_seen(
        "0.2",
        |seconds| {
            let said = run(&[&here[..], &short, &["--seconds", seconds]].concat());
            let document: Value = serde_json::from_str(&said.out).expect(&said.err);
            assert_eq!(said.code, code_of(document["rows"].as_array().unwrap()), "{}", said.err);
            (document, said)
        },
        |(document, _)| document["rows"].as_array().unwrap().iter().filter(|row| usable(row)).count() == 4,
    );
    let rows = document["rows"].as_array().unwrap();
    // Two windows of Rust's two systems, Python's four, and C++'s two.
    assert_eq!(rows.len(), 16, "{document}");
    for system in ["zeromq", "grpc"] {
        let of_python = |row: &&Value| row["system"] == system && row["language"] == "python";
        assert_eq!(rows.iter().filter(of_python).count(), 2, "{system}: {document}");
    }
    for row in rows {
        assert_eq!((&row["bench"], &row["size"]), (&"bindings".into(), &1024.into()), "{row}");
        if row["language"] == "rust" {
            assert!(usable(row) && row["missing"].is_null(), "{row}");
            let over = if row["system"] == "barewire" { "mem" } else { "loopback" };
            assert_eq!((&row["over"], row["p50_to_rust"].as_f64()), (&over.into(), Some(1.0)), "{row}");
            assert_eq!(row["p50_to_tcp"].is_number(), row["system"] == "barewire", "{row}");
        } else {
            let why = row["missing"].as_str().unwrap();
            assert!(why.contains("no package") || why.contains("is not installed"), "{row}");
            assert!(row["runs"].as_array().unwrap().is_empty(), "{row}");
        }
    }
    assert!(said.err.contains("python is not measured: "), "{}", said.err);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refused = |args: &[&str], words: &str| {
        let said = run(&[&["bench", "bindings", "--over", "mem"], args].concat());
        assert_ne!(said.code, Some(0), "{args:?}");
        assert!(said.err.contains(words), "{args:?}: {}", said.err);
    };
    refused(&["--languages", "perl"], "there are rust, python, go");
    refused(&["--beside", "nanomsg"], "there are tcp, zmq, grpc, aeron");
    refused(&["--packages", "/nowhere"], "`make dist` builds them");
    refused(&["--languages", "rust", "--window", "0"], "1 to 256");
    refused(&["--languages", "rust", "--size", "70000"], "1 to 65536");
}
