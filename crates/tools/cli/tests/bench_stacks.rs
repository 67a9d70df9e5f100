//! The example `stacks` of `barewire-bench` over real daemons: hyper and tonic answer over flows and over TCP, and each row has its figures.

mod patience;

use barewire_testing::{Folder, until_seen};
use patience::code_of;
use serde_json::Value;
use std::process::Command;

/// Beside the directory that test programs are built in.
fn stacks(folder: &Folder, over: &str, seconds: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let program = program.parent().unwrap().parent().unwrap().join("examples/stacks");
    assert!(program.exists(), "{} is missing: cargo build --workspace --examples", program.display());
    let mut command = Command::new(program);
    command.args(["--binary", env!("CARGO_BIN_EXE_barewire"), "--over", over, "--runs", "1", "--json"]);
    command.args(["--seconds", seconds, "--warmup", "0.05"]).env("TMPDIR", folder.path());
    command
}

/// The rows, once all have samples.
fn rows(over: &str) -> Vec<Value> {
    let once = |seconds: &str| {
        let folder = Folder::new("stacks");
        let done = stacks(&folder, over, seconds).output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        let mut document: Value =
            serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {err}"));
        assert!(
            document["fingerprint"]["machine"].is_object() && document["control"].is_object(),
            "{document}"
        );
        let Value::Array(rows) = document["rows"].take() else { panic!("no rows: {err}") };
        assert_eq!(done.status.code(), code_of(&rows), "{err}");
        rows
    };
    let fine = |row: &Value| row["void"].is_null() && row["samples"].as_u64() > Some(0);
    let rows = until_seen(["0.2", "4", "12"], once, |rows| rows.iter().all(fine));
    assert!(rows.iter().all(fine), "{rows:?}");
    rows
}

fn each_library_stands_beside_tcp(over: &str, kernel: &str) {
    let rows = rows(over);
    let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let seen: Vec<_> = rows
        .iter()
        .map(|row| ["stack", "system", "mode", "over", "idle_state"].map(|key| word(row, key)))
        .collect();
    let mut expected = Vec::new();
    for stack in ["hyper", "tonic"] {
        for (system, mode, over, state) in [
            ("barewire", "daemon-park", over, "warm"),
            ("kernel-tcp", "epoll", kernel, "warm"),
            ("barewire", "daemon-park", over, "cold"),
            ("kernel-tcp", "epoll", kernel, "cold"),
            ("barewire", "daemon", over, "warm"),
        ] {
            expected.push([stack, system, mode, over, state].map(str::to_owned));
        }
    }
    assert_eq!(seen, expected);
    for row in &rows {
        assert!(
            row["rtt_ns"]["p50"].as_u64() > Some(0) && row["cpu_ns_per_op"].as_f64() > Some(0.0),
            "{row}"
        );
        assert_eq!(row["p50_to_tcp"].is_null(), row["system"] == "kernel-tcp", "{row}");
    }
}

#[test]
fn libraries_on_flows_stand_beside_tcp_on_the_loopback_interface() {
    each_library_stands_beside_tcp("mem", "loopback");
}

#[test]
fn libraries_on_flows_stand_beside_tcp_between_hosts() {
    if barewire_testing::root() {
        each_library_stands_beside_tcp("packet", "veth");
    }
}
