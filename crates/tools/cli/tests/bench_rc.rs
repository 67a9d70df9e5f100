//! `barewire bench rc`, `report`, `bench compare`: slips, rows, documents, pages. Only the last test needs root.

mod common;

use common::{Said, run};
use serde_json::Value;
use std::fs;

fn rc(args: &[&str]) -> Said {
    run(&[&["bench", "rc", "--seconds", "0.2", "--runs", "1"], args].concat())
}

#[test]
fn slips_end_with_code_2_and_the_nearest_word() {
    for (args, near) in [
        (&["--over", "men"][..], "did you mean `mem`?"),
        (&["--baseline", "kernel_tcp"], "did you mean `kernel-tcp`?"),
        (&["--threads", "0"], "--threads 0"),
        (&["--nics", "3"], "1 to 2"),
        (&["--window", "5000"], "1 to 4096"),
        (&["--one-thread", "--threads", "2"], "one thread"),
    ] {
        let said = rc(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(near), "{args:?}: {}", said.err);
        assert_eq!(said.out, "", "{args:?}: nothing but data on stdout");
    }
}

#[test]
fn rows_have_their_keys() {
    let said = rc(&[
        "--over",
        "mem",
        "--threads",
        "1",
        "--teardown",
        "--baseline",
        "kernel-tcp",
        "--live",
        "500",
        "--json",
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(row["connections_per_s"].as_f64().unwrap() > 10.0, "{row}");
        assert!(row["latency_ns"]["p50"].as_u64().is_some() && row["failed"] == 0, "{row}");
    }
    assert_eq!((&rows[0]["live_qps"], &rows[0]["teardown"]), (&Value::from(500), &Value::from(true)));
    for step in ["create", "req_to_rep", "rtu", "first_byte", "disconnect", "destroy"] {
        assert!(rows[0]["steps_ns"][step]["samples"].as_u64().unwrap() > 0, "{step}");
    }
    assert_eq!(
        (rows[1]["system"].as_str(), rows[1]["over"].as_str()),
        (Some("kernel-tcp"), Some("loopback"))
    );
}

#[test]
fn a_run_becomes_a_page_and_is_compared_with_another() {
    let folder = std::env::temp_dir().join(format!("barewire-cli-report-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    for name in ["a.json", "b.json"] {
        let out = path(name);
        let said = run(&["bench", "rc", "--one-thread", "--runs", "4", "--seconds", "0.1", "--out", &out]);
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
    let said = run(&[
        "report",
        &path("b.json"),
        "--against",
        &path("a.json"),
        "--html",
        &path("r.html"),
        "--csv",
        &path("r.csv"),
    ]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""), "{}", said.err);
    let page = fs::read_to_string(path("r.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"));
    // The published rows of the same benchmark stand beside ours.
    assert!(page.contains("MITOSIS") && page.contains("embedded-one-thread"), "{} bytes", page.len());
    assert!(fs::read_to_string(path("r.csv")).unwrap().lines().count() > 1);
    let said = run(&["report", &path("a.json")]);
    assert!(said.out.contains("| System | Source |"), "{}", said.out);

    let said = run(&[
        "bench",
        "compare",
        &path("a.json"),
        &path("b.json"),
        "--floor",
        "0.99",
        "--fail-on-regression",
    ]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("within noise"), "{}", said.out);
    // A run with half the rate is worse, and the gate says so.
    let mut worse: Value = serde_json::from_str(&fs::read_to_string(path("b.json")).unwrap()).unwrap();
    for run in worse["rows"][0]["runs"].as_array_mut().unwrap() {
        run["connections_per_s"] = Value::from(run["connections_per_s"].as_f64().unwrap() / 50.0);
    }
    let rate = worse["rows"][0]["connections_per_s"].as_f64().unwrap();
    worse["rows"][0]["connections_per_s"] = Value::from(rate / 50.0);
    fs::write(path("worse.json"), worse.to_string()).unwrap();
    let said = run(&["bench", "compare", &path("a.json"), &path("worse.json"), "--fail-on-regression"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.err.contains("slower: "), "{}", said.err);
    let said = run(&["report", &path("r.csv")]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("hint: "), "{}", said.err);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn veth_carries_connections_of_several_hosts_and_nics() {
    if let Err(why) = barewire_lab::is_root_capable() {
        eprintln!("SKIPPED: veth_carries_connections_of_several_hosts_and_nics: {why}; {}", why.hint());
        return;
    }
    for args in [
        &["--over", "xdp", "--baseline", "kernel-tcp", "--json"][..],
        &["--over", "xdp,packet", "--hosts", "2", "--threads", "2", "--nics", "2", "--json"],
    ] {
        let said = rc(args);
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.err);
        let document: Value = serde_json::from_str(&said.out).unwrap();
        let rows = document["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert!(row["connections_per_s"].as_f64().unwrap() > 10.0, "{row}");
        }
    }
}
