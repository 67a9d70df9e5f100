//! `barewire bench switch`: slips, rows, documents. Nothing here needs root.

mod common;

use common::{Said, run};
use serde_json::Value;

fn switch(args: &[&str]) -> Said {
    run(&[&["bench", "switch", "--seconds", "0.05", "--runs", "1", "--flows", "100"], args].concat())
}

#[test]
fn slips_end_with_code_2_and_the_nearest_word() {
    for (args, near) in [
        (&["--over", "mme"][..], "did you mean `mem`?"),
        (&["--program", "simple_ruoter"], "did you mean `simple_router`?"),
        (&["--program", "/no/such.json"], "/no/such.json"),
        (&["--engine", "nativ"], "native, interpreter or kernel"),
        (&["--baseline", "bmv"], "did you mean `bmv2`?"),
        (&["--baseline", "al"], "did you mean `all`?"),
        (&["--seconds", "5 parsecs"], "10s or 500ms"),
        (&["--tests", "tpc"], "did you mean `tcp`?"),
        (&["--masks", "0"], "`all`"),
        (&["--size", "59"], "60 to 1518"),
        (&["--entries", "0"], "at least one"),
        (&["--runs", "0"], "there must be one"),
        (&["--gso"], "go over packet, or with `--engine kernel`"),
        (&["--over", "xdp", "--offloads", "on"], "goes over packet"),
    ] {
        let said = match args[0] {
            "--runs" | "--seconds" => run(&[&["bench", "switch"], args].concat()),
            _ => switch(args),
        };
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(near), "{args:?}: {}", said.err);
        assert_eq!(said.out, "", "{args:?}: nothing but data on stdout");
    }
}

#[test]
fn memory_rows_have_their_figures() {
    let said = switch(&[
        "--over",
        "mem",
        "--program",
        "simple_router",
        "--size",
        "64",
        "--entries",
        "10,100",
        "--engine",
        "native,interpreter",
        "--json",
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(document["schema"], 2);
    assert!(document["fingerprint"].is_object());
    let rows = document["rows"].as_array().unwrap();
    let shape: Vec<(&str, u64)> =
        rows.iter().map(|r| (r["engine"].as_str().unwrap(), r["entries"].as_u64().unwrap())).collect();
    assert_eq!(shape, [("native", 10), ("interpreter", 10), ("native", 100), ("interpreter", 100)]);
    for row in rows {
        assert!(
            row["rate_pps"].as_f64().unwrap() > 0.0 && row["ns_per_packet"].as_f64().unwrap() > 0.0,
            "{row}"
        );
        assert_eq!((&row["void"], &row["checked"]), (&Value::Null, &200.into()), "{row}");
        assert!(row["command"].as_str().unwrap().contains("bench switch"), "{row}");
        let notes = row["notes"].to_string();
        assert!(notes.contains("in memory, generator's time left out; loop rate "), "{notes}");
    }
}

#[test]
fn files_have_rows_and_bmv2_stands_beside_them() {
    // Without a bmv2 on this PATH its recorded figures do.
    let args =
        ["bench", "switch", "--over", "pcap", "--packets", "2000", "--runs", "1", "--baseline", "bmv2"];
    let said = common::said(common::barewire(&args).env("PATH", "").output().unwrap());
    assert_eq!(said.code, Some(0), "{}", said.err);
    let text = said.out;
    for part in [
        "2000 packets checked",
        "recorded elsewhere, not measured in this run",
        "times recorded bmv2 over pcap (one run, no verdict)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_document_can_be_written_to_a_file() {
    let path = std::env::temp_dir().join(format!("barewire-bench-switch-{}.json", std::process::id()));
    let said = switch(&["--program", "many_tables,deep_headers", "--out", path.to_str().unwrap()]);
    let written = std::fs::read_to_string(&path);
    let _ = std::fs::remove_file(&path);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let document: Value = serde_json::from_str(&written.unwrap()).unwrap();
    let programs: Vec<&str> =
        document["rows"].as_array().unwrap().iter().map(|r| r["program"].as_str().unwrap()).collect();
    assert_eq!(programs, ["many_tables", "deep_headers"]);
    assert!(said.out.contains("packets/s") && said.out.contains("many_tables"), "{}", said.out);
}
