//! `barewire rc` against itself, in two processes. No root, no guest.

mod common;
mod patience;

use barewire_testing::{Folder, Running};
use common::{Said, barewire, run, said};
use patience::until_seen;
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

/// Two cores carry one pair of processes at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A port between two sockets of a folder, as one end has it.
fn unix(folder: &Folder, mine: &str, theirs: &str) -> String {
    let dir = folder.path().display();
    format!("unix:{dir}/{mine},{dir}/{theirs}")
}

/// `rdma serve`, by its old name, that is ready.
struct Server(Running);

impl Server {
    fn start(port: &str, more: &[&str]) -> Server {
        let args = ["rc", "serve", "--port", port, "--address", "10.77.0.1/24", "--json"];
        Server(Running::start_until(&mut barewire(&[&args[..], more].concat()), "serving"))
    }

    fn interrupt(&self) {
        self.0.signal("-TERM");
    }

    /// Its exit code, a value for each connection, its sums.
    fn end(self) -> (Option<i32>, Vec<Value>, Value) {
        let (status, text) = self.0.end();
        let mut lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let totals = lines.pop().expect("sums")["totals"].take();
        (status.code(), lines.into_iter().map(|mut line| line["connection"].take()).collect(), totals)
    }
}

fn client(verb: &str, port: &str, more: &[&str]) -> Said {
    let args = ["rc", verb, "10.77.0.1", "--port", port, "--address", "10.77.0.2/24"];
    said(barewire(&[&args[..], more].concat()).output().expect("it starts"))
}

fn object(said: &Said) -> Value {
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(said.out.lines().count(), 1, "{}", said.out);
    serde_json::from_str(&said.out).expect("JSON")
}

#[test]
fn every_client_over_a_pair_of_sockets() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let wire = Folder::new("all");
    let (ours, theirs) = (unix(&wire, "a", "b"), unix(&wire, "b", "a"));
    let server = Server::start(&ours, &["--service-port", "7174,9"]);
    for (size, count) in [("1", "3"), ("64", "25"), ("100000", "3")] {
        let report = object(&client("ping", &theirs, &["-S", size, "-C", count, "--json"]));
        assert_eq!((&report["wrong"], report["samples"].to_string()), (&0.into(), count.to_owned()));
        assert!(report["round_ns"]["min"].as_u64() <= report["round_ns"]["max"].as_u64(), "{report}");
    }
    let text = client("ping", &theirs, &["-C", "2", "-v"]);
    assert!(text.out.contains("seq=1 time=") && text.out.contains("data=barewire-ping-1: "), "{}", text.out);

    let report = object(&client("connect", &theirs, &["-p", "9", "-C", "300", "-w", "20", "--json"]));
    assert_eq!((&report["connections"], &report["failed"]), (&300.into(), &0.into()), "{report}");
    assert!(report["open_ns"]["p50"].as_u64() > Some(0) && report["close_ns"]["p90"].as_u64() > Some(0));

    let (mut operations, mut connected) = (0, 0);
    for operation in ["send", "write", "read", "fetch-add", "compare-swap"] {
        for (window, size) in [("1", "64"), ("64", "3000")] {
            let args = ["-o", operation, "-w", window, "-S", size, "--warmup", "0.05", "--json"];
            let perf = |seconds: &str| {
                let report = object(&client("perf", &theirs, &[&args[..], &["--seconds", seconds]].concat()));
                assert_eq!(report["wrong"], 0, "{report}");
                connected += 1;
                report
            };
            let enough = |report: &Value| report["operations"].as_u64() > Some(100);
            let report = until_seen("0.2", perf, enough);
            let atomic = operation.contains('-');
            assert_eq!(report["size_bytes"].to_string(), if atomic { "8" } else { size }, "{report}");
            let half = operation == "send" && window == "1";
            let wanted = if half { "half_round_trip" } else { "post_to_completion" };
            assert_eq!(report["latency_is"], wanted);
            assert!(enough(&report), "{report}");
            if operation == "send" {
                operations += report["operations"].as_u64().expect("a number");
            }
        }
    }
    server.interrupt();
    let (code, connections, totals) = server.end();
    assert_eq!(code, Some(0));
    assert_eq!(
        (&totals["connections"], &totals["failed"]),
        (&(4 + 300 + connected).into(), &0.into()),
        "{totals}"
    );
    assert_eq!(connections.iter().filter(|c| c["use"] == "connect" && c["service_port"] == 9).count(), 300);
    // Warm-up is not in the client's sum.
    assert!(totals["messages"].as_u64().is_some_and(|n| n >= operations + 3 + 25 + 3 + 2), "{totals}");
}

#[test]
fn the_same_on_a_bad_wire_and_in_shared_memory() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let wire = Folder::new("bad");
    let memory = format!("mem:rc-test-{}?shared=1&slot_bytes=4160", std::process::id());
    let faults = "?loss=0.02&duplicate=0.01&reorder=0.02&corrupt=0.005&seed=11&dir=both";
    let bad = [unix(&wire, "a", "b"), unix(&wire, "b", "a")].map(|port| format!("fault+{port}{faults}"));
    for [ours, theirs] in [bad, [memory.clone(), memory]] {
        println!("{theirs}");
        let server = Server::start(&ours, &[]);
        let mut connected = 0;
        for operation in ["send", "write", "read", "fetch-add", "compare-swap"] {
            let perf = |seconds: &str| {
                let args = ["-o", operation, "-w", "16", "-S", "5000", "--seconds", seconds, "--json"];
                let report = object(&client("perf", &theirs, &args));
                assert_eq!(report["wrong"], 0, "{report}");
                connected += 1;
                report
            };
            // Memory loses nothing; a timer may still run out there while the machine is elsewhere.
            let is_repaired = |report: &Value| {
                report["packets_resent"].as_u64().expect("a number") > 0 || !theirs.starts_with("fault+")
            };
            let report = until_seen("0.3", perf, is_repaired);
            assert!(is_repaired(&report), "{report}");
        }
        server.interrupt();
        let (code, connections, totals) = server.end();
        assert_eq!((code, &totals["connections"]), (Some(0), &connected.into()), "{totals}");
        assert_eq!(connections.len(), connected);
        // With --count it ends by itself.
        let server = Server::start(&ours, &["--count", "41"]);
        let report = object(&client("ping", &theirs, &["-S", "20000", "-C", "20", "--json"]));
        assert_eq!(report["wrong"], 0, "{report}");
        let report = object(&client("connect", &theirs, &["-C", "40", "-w", "8", "--json"]));
        assert_eq!((&report["connections"], &report["failed"]), (&40.into(), &0.into()), "{report}");
        let (code, connections, totals) = server.end();
        assert_eq!((code, &totals["connections"]), (Some(0), &41.into()), "{totals}");
        assert_eq!(connections.len(), 41);
    }
}

#[test]
fn over_ipv6_in_a_vlan() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let wire = Folder::new("six");
    let server =
        Server::start(&unix(&wire, "a", "b"), &["--address", "fd00::1", "--vlan", "7", "--count", "1"]);
    let port = unix(&wire, "b", "a");
    let args =
        ["rc", "ping", "fd00::1", "--port", &port, "--address", "fd00::2/64", "--vlan", "7", "-C", "3"];
    let said = run(&[&args[..], &["-S", "3000", "--mtu", "256", "--json"]].concat());
    let report = object(&said);
    assert_eq!((&report["wrong"], &report["path_mtu_bytes"]), (&0.into(), &256.into()), "{report}");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn an_interrupted_server_says_good_bye() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let wire = Folder::new("bye");
    let server = Server::start(&unix(&wire, "a", "b"), &[]);
    let args =
        ["rc", "ping", "10.77.0.1", "--port", &unix(&wire, "b", "a"), "--address", "10.77.0.2", "-i", "10"];
    let mut ping = barewire(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut first = String::new();
    let mut stdout = BufReader::new(ping.stdout.take().expect("piped"));
    stdout.read_line(&mut first).expect("UTF-8");
    assert!(first.contains("seq=0"), "{first}");
    server.interrupt();
    let (code, connections, _) = server.end();
    assert_eq!((code, connections.len()), (Some(0), 1));
    assert_eq!(connections[0]["failed"], Value::Null, "{connections:?}");
    drop(stdout);
    let said = said(ping.wait_with_output().expect("it ends"));
    // Or it was just writing to a pipe that nobody reads.
    assert!(
        said.err.contains("the peer closed the connection while pinging") || said.err.is_empty(),
        "{}",
        said.err
    );
}

/// The two ends of `bench rdma`, each by its letter; the server's port is any that is free.
#[test]
fn two_machines_measure_connections_by_their_letters() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let wire = Folder::new("letters");
    for kernel in [false, true] {
        let of = |port: String, address: &str| -> Vec<String> {
            match kernel {
                true => ["--baseline", "kernel-tcp"].map(str::to_owned).to_vec(),
                false => ["--port", &port, "--address", address].map(str::to_owned).to_vec(),
            }
        };
        let at = if kernel { "127.0.0.1" } else { "10.77.0.1" };
        let mut words = vec!["bench", "rdma", "-s", "-p", "0", "--json"];
        let ours = of(unix(&wire, "a", "b"), "10.77.0.1/24");
        words.extend(ours.iter().map(String::as_str));
        words.extend(kernel.then_some(["--address", at]).into_iter().flatten());
        let server = Running::start_until(&mut barewire(&words), "accepting on port ");
        let told = &server.said;
        let (_, after) = told.split_once("accepting on port ").expect("told");
        let port: u16 = after.split(';').next().and_then(|port| port.parse().ok()).expect(told);
        assert_ne!(port, 0, "the real one is told");

        let theirs = of(unix(&wire, "b", "a"), "10.77.0.2/24");
        let port = port.to_string();
        let measure = |seconds: &str| {
            let mut words =
                vec!["bench", "rdma", "-c", at, "-p", &port, "--seconds", seconds, "--runs", "1", "--json"];
            words.extend(theirs.iter().map(String::as_str));
            let said = run(&words);
            let document: Value = serde_json::from_str(&said.out).expect(&said.err);
            document["rows"][0].clone()
        };
        let row = until_seen("0.2", measure, |row| row["opened"].as_u64() > Some(0) && row["void"].is_null());
        assert!(row["opened"].as_u64() > Some(0) && row["void"].is_null(), "{row}");
        assert_eq!(row["system"], if kernel { "kernel-tcp" } else { "barewire" });
        server.signal("-TERM");
        let (status, text) = server.end();
        let totals: Value = serde_json::from_str(&text).expect(&text);
        assert!(totals["totals"]["connections"].as_u64() >= row["opened"].as_u64(), "{totals} {row}");
        assert_eq!(status.code(), Some(0));
    }
}

#[test]
fn slips_and_refusals_are_answered() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let wire = Folder::new("slips");
    let (ours, theirs) = (unix(&wire, "a", "b"), unix(&wire, "b", "a"));
    let own = ["--port", theirs.as_str(), "--address", "10.77.0.2"];
    for (args, code, words) in [
        (&["rc", "serv"][..], 2, &["'serve'"][..]),
        (&["rc", "serve", "--address", "10.0.0.1"], 2, &["--port"]),
        (&["rc", "serve", "--port", "unxi:a,b", "--address", "10.0.0.1"], 2, &["did you mean `unix`?"]),
        (&["rc", "serve", "--port", "mem:x?slto=1", "--address", "10.0.0.1"], 2, &["slots"]),
        (&["rc", "serve", "--port", "mem:x", "--address", "10.0.0.300"], 2, &["expected an address"]),
        (
            &["rc", "serve", "--port", "mem:x", "--address", "10.0.0.1", "--mtu", "1500"],
            2,
            &["256, 512, 1024"],
        ),
        (&["rc", "serve", "--port", "mem:x", "--address", "10.0.0.1", "--vlan", "0"], 2, &["1..=4094"]),
        (&["rc", "serve", "--port", "mem:x", "--address", "10.0.0.1", "--idle", "sleep"], 2, &["park"]),
        (&["rc", "perf", "10.77.0.1", "-o", "raed"], 2, &["did you mean `read`?"]),
        (&["rc", "perf", "10.77.0.1", "-o", "read", "-w", "0"], 2, &["window must be 1 to 4096"]),
        (&["rc", "ping", "10.77.0.1", "-S", "0"], 2, &["size must be 1 to"]),
        (&["rc", "connect", "10.77.0.1", "-w", "0"], 2, &["window must be 1 to"]),
        (&["rc", "ping", "10.77.0.1", "-C", "1"], 1, &["ARP", "hint: is the peer up"]),
        (&["rc", "ping", "192.168.1.1", "-C", "1"], 1, &["no route", "hint: "]),
    ] {
        let is_client = matches!(args[1], "perf" | "ping" | "connect");
        let said = run(&[args, if is_client { &own[..] } else { &[] }].concat());
        assert_eq!(said.code, Some(code), "{args:?}: {}", said.err);
        for word in words {
            assert!(said.err.contains(word), "{args:?}: {}", said.err);
        }
        assert_eq!(said.out, "", "{args:?}");
    }

    let server = Server::start(&ours, &[]);
    let said = client("ping", &theirs, &["-C", "1", "-p", "8"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("nobody listens") && said.err.contains("rdma serve"), "{}", said.err);
    let said = client("connect", &theirs, &["-C", "10", "-p", "8"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("nobody listens"), "{}", said.err);
    let said = client("perf", &theirs, &["-o", "send", "-w", "4096", "-S", "1000000"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("its application refused the connection"), "{}", said.err);
    server.interrupt();
    let (code, connections, totals) = server.end();
    assert_eq!((code, connections.len(), &totals["not_established"]), (Some(0), 0, &1.into()), "{totals}");
}
