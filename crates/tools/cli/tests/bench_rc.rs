//! `barewire bench rdma`, `report`, `bench compare`: slips, rows, documents, pages. Only the last test needs root.

mod common;
mod patience;

use barewire_testing::{Needs, have};
use common::{Said, run};
use patience::{code_of, until_seen};
use serde_json::Value;
use std::fs;

fn rc(args: &[&str]) -> Said {
    rc_for("0.2", args)
}

fn rc_for(seconds: &str, args: &[&str]) -> Said {
    run(&[&["bench", "rc", "--seconds", seconds, "--runs", "1"], args].concat())
}

/// The rows of a document, once each has more than ten connections a second.
fn rows(args: &[&str]) -> Vec<Value> {
    let has_rate = |row: &Value| row["connections_per_s"].as_f64() > Some(10.0);
    let has_times = |row: &Value| row["latency_ns"]["p50"].is_u64() && row["failed"] == 0;
    let has_steps = |row: &Value| row["steps_ns"]["create"]["samples"].as_u64() != Some(0);
    let rows = until_seen(
        "0.2",
        |seconds| {
            let said = rc_for(seconds, args);
            let mut document: Value = serde_json::from_str(&said.out).expect(&said.err);
            let Value::Array(rows) = document["rows"].take() else { panic!("{}", said.out) };
            assert_eq!(said.code, code_of(&rows), "{args:?}: {}", said.err);
            rows
        },
        |rows| {
            rows.iter().all(|row| has_rate(row) && has_times(row) && has_steps(row) && row["void"].is_null())
        },
    );
    assert!(rows.iter().all(|row| has_rate(row) && row["void"].is_null()), "{args:?}: {rows:?}");
    rows
}

#[test]
fn slips_end_with_code_2_and_the_nearest_word() {
    for (args, near) in [
        (&["--over", "men"][..], "did you mean `mem`?"),
        (&["--baseline", "kernel_tcp"], "did you mean `kernel-tcp`?"),
        (&["-c", "10.0.0.1", "--window", "1,2"], "give one `--window`"),
        (&["-s"], "--address"),
        (&["-s", "--over", "mem"], "cannot be used with"),
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
    let rows = rows(&[
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
    assert_eq!(rows.len(), 2);
    for row in &rows {
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
    let out = path("measured.json");
    let measure = ["bench", "rc", "--one-thread", "--runs", "4", "--out", &out, "--seconds"];
    let said =
        until_seen("0.1", |seconds| run(&[&measure[..], &[seconds]].concat()), |said| said.code == Some(0));
    assert_eq!(said.code, Some(0), "{}", said.err);
    let measured: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    // Its rates are those of a machine with other work: what is compared has some that are known.
    let write = |name: &str, rates: [f64; 4]| {
        let mut document = measured.clone();
        let row = &mut document["rows"][0];
        for (run, rate) in row["runs"].as_array_mut().unwrap().iter_mut().zip(rates) {
            run["connections_per_s"] = Value::from(rate);
        }
        row["connections_per_s"] = Value::from(rates[2]);
        fs::write(path(name), document.to_string()).unwrap();
    };
    write("a.json", [50_000.0, 50_100.0, 50_200.0, 50_300.0]);
    write("b.json", [50_050.0, 50_150.0, 50_250.0, 50_350.0]);
    // A tenth less.
    write("worse.json", [45_000.0, 45_090.0, 45_180.0, 45_270.0]);
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

    let compare = |with: &str, more: &[&str]| {
        run(&[&["bench", "compare", &path("a.json"), &path(with), "--fail-on-regression"], more].concat())
    };
    // The same rates but for a thousandth are the same, and so is the document itself.
    for with in ["a.json", "b.json"] {
        let said = compare(with, &[]);
        assert_eq!((said.code, said.err.contains("slower: ")), (Some(0), false), "{}{}", said.out, said.err);
        assert!(said.out.contains("within noise"), "{}", said.out);
    }
    // A run with a lower rate is worse, and the gate says so, unless so much of it is to be taken for noise.
    let said = compare("worse.json", &[]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.err.contains("slower: "), "{}", said.err);
    let said = compare("worse.json", &["--floor", "0.05"]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    let said = compare("worse.json", &["--floor", "0.2"]);
    assert_eq!((said.code, said.err.contains("slower: ")), (Some(0), false), "{}{}", said.out, said.err);
    let said = run(&["report", &path("r.csv")]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("hint: "), "{}", said.err);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn veth_carries_connections_of_several_hosts_and_nics() {
    let Some(()) = have(Needs::Root, barewire_netns::is_root_capable()) else { return };
    for args in [
        &["--over", "xdp", "--baseline", "kernel-tcp", "--json"][..],
        &["--over", "xdp,packet", "--hosts", "2", "--threads", "2", "--nics", "2", "--json"],
    ] {
        assert_eq!(rows(args).len(), 2);
    }
}
