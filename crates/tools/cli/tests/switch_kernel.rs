//! The kernel's engine from the command line: packet tests, measurements, and what is said without rights.

mod common;

use barewire_testing::{Needs, have, program, root};
use common::{barewire, run, said};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

#[test]
fn packet_tests_run_in_the_kernel() {
    if !root() {
        return;
    }
    for name in ["choices", "copies"] {
        let [source, test] = ["p4", "stf"].map(|end| repository(&format!("tests/stf/{name}.{end}")));
        let said = run(&["switch", "test", text(&source), text(&test), "--engine", "kernel"]);
        assert_eq!(said.code, Some(0), "{name}: {}{}", said.out, said.err);
        assert!(said.out.contains("kernel") && said.out.contains("PASS"), "{name}: {}", said.out);
    }
}

/// Without its capabilities root is nobody to BPF.
#[test]
fn who_lacks_rights_is_told_which_and_auto_takes_machine_code() {
    if !root() {
        return;
    }
    let Some(_) = have(Needs::Peers, program("setpriv")) else { return };
    let router = repository("programs/simple_router.p4");
    let powerless = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--bounding-set=-all",
            "--inh-caps=-all",
            env!("CARGO_BIN_EXE_barewire"),
            "switch",
            "run",
        ]);
        command.args(args);
        said(command.output().expect("it starts"))
    };
    let wanted = "CAP_BPF and CAP_NET_ADMIN";
    let kernel = powerless(&[text(&router), "-i", "1@lo", "--engine", "kernel", "--thrift-port", "0"]);
    assert_ne!(kernel.code, Some(0));
    assert!(kernel.err.contains(wanted) && kernel.err.contains("hint: --engine native"), "{}", kernel.err);
    // Its port has to be opened without rights, too, which ends it.
    let auto = powerless(&[text(&router), "-i", "1@lo", "--engine", "auto", "--thrift-port", "0"]);
    assert!(auto.err.contains("note: engine native: ") && auto.err.contains(wanted), "{}", auto.err);
}

/// Rows between hosts with offloads off and on, and in the driver where the hosts poll, each beside its floor and the bridge.
#[test]
fn the_kernel_is_measured_beside_the_bridge() {
    if !root() {
        return;
    }
    let rows = |more: &[&str]| {
        let args = ["bench", "switch", "--engine", "kernel", "--over", "xdp", "--baseline", "bridge"];
        let short = ["--seconds", "0.3", "--runs", "1", "--tests", "tcp", "--json"];
        let said = said(barewire(&[&args[..], &short, more].concat()).output().expect("it starts"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        let document: Value = serde_json::from_str(&said.out).expect("JSON");
        document["rows"].as_array().expect("rows").clone()
    };
    let find = |rows: &[Value], system: &str, over: &str, offloads: bool| {
        let is = |row: &&Value| row["system"] == system && row["over"] == over && row["offloads"] == offloads;
        let found = rows.iter().find(is);
        let found = found.unwrap_or_else(|| panic!("no row of {system} over {over}, offloads {offloads}"));
        assert!(found["tcp_mbps"].as_f64().expect("a stream") > 0.0, "{found}");
        found.clone()
    };
    let both = rows(&["--offloads", "off,on"]);
    for (over, offloads) in [("xdp", false), ("tc", true)] {
        assert_eq!(find(&both, "barewire", over, offloads)["engine"], "kernel");
        find(&both, "bare-redirect", over, offloads);
        find(&both, "bridge", "veth", offloads);
    }
    let polling = rows(&["--gro"]);
    for (system, over) in [("barewire", "xdp"), ("bare-redirect", "xdp"), ("bridge", "veth")] {
        assert_eq!(find(&polling, system, over, false)["gro"], true);
    }
}
