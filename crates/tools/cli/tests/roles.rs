//! Both ends of a measurement, each a process of its own, as the roles of an experiment start them. No root.

mod common;
mod patience;

use barewire_testing::{Folder, Running, eventually};
use common::{Said, barewire, run, said};
use patience::{code_of, until_seen};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// Two cores carry one pair of processes at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// An end that serves until it is told to end, when it has said `ready`.
fn serving(args: &[&str], ready: &str) -> Running {
    Running::start_until(&mut barewire(args), ready)
}

/// The address that it has said behind `words`: its port is the kernel's choice, as others are on the loopback.
fn address(server: &Running, words: &str) -> SocketAddr {
    let (_, rest) = server.said.split_once(words).expect(&server.said);
    let text = rest.split([',', '\n']).next().unwrap_or_default();
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Whether the row has the CPU of both ends, and says how they wait.
fn has_both_ends(row: &Value) -> bool {
    let is_known = row["cpu_ns_per_op"].as_f64() > Some(0.0) && row["cpu_unknown"].is_null();
    is_known && row["cpu"]["server_ns"].as_f64() > Some(0.0) && row["waits"].is_string()
}

/// Ends it as an experiment does; its exit code and what it printed.
fn stop(server: Running) -> (Option<i32>, String) {
    server.signal("-TERM");
    let (status, text) = server.end();
    (status.code(), text)
}

/// Both ends of a pair of socket files.
fn pair(folder: &Folder) -> [String; 2] {
    let dir = folder.path().display();
    [format!("unix:{dir}/a,{dir}/b"), format!("unix:{dir}/b,{dir}/a")]
}

/// The one row of a document, whose exit code says whether it is void.
fn row(said: &Said) -> Value {
    assert_eq!(said.out.lines().count(), 1, "{}{}", said.out, said.err);
    let mut document: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(document["schema"], 2);
    assert!(document["fingerprint"].is_object());
    let row = document["rows"][0].take();
    // Where other tests keep both ends from their cores, a row may not be fit for use: then it says so.
    assert_eq!(said.code, code_of(std::slice::from_ref(&row)), "{}", said.err);
    row
}

fn histogram_of(row: &Value) -> barewire_measure::Histogram {
    let text = row["histograms"]["latency"].as_str().expect("a histogram");
    barewire_measure::Histogram::from_base64(text).expect("one of ours")
}

#[test]
fn streams_between_two_processes() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let listen = ["bench", "stream", "--role", "server", "--listen", "127.0.0.1:0"];
    let server = serving(&listen, "TCP and UDP");
    let at = address(&server, "receiving on ").to_string();
    let client = |seconds: &str, more: &[&str]| {
        let args = ["bench", "stream", "--role", "client", "--server", &at, "--warmup", "0.1", "--json"];
        let said = run(&[&args[..], &["--seconds", seconds], more].concat());
        (row(&said), said.err)
    };
    // The first interval, which may be longer than it was to be.
    let has_interval = |err: &str| {
        let first = err.lines().find_map(|line| line.split_once("0.0 to ")?.1.split_once(" s: "));
        first.is_some_and(|(to, _)| to.parse::<f64>().is_ok_and(|to| to >= 0.1))
    };
    let options = ["--streams", "2", "--runs", "2", "--interval", "0.1", "--offloads", "on"];
    let (row1, err) = until_seen(
        "0.3",
        |seconds| client(seconds, &options),
        |(row, err)| row["tcp_mbps"].as_f64() > Some(10.0) && has_interval(err),
    );
    assert!(has_interval(&err), "{err}");
    assert!(row1["tcp_mbps"].as_f64() > Some(10.0) && row1["offloads"] == true, "{row1}");
    assert!(row1["void"].is_null(), "{row1}");
    assert_eq!((row1["runs"].as_array().map(Vec::len), row1["protocol"].as_str()), (Some(2), Some("tcp")));
    let has_rate = |row: &Value| row["udp_pps"].as_f64() > Some(100.0);
    let (row2, _) = until_seen(
        "0.3",
        |seconds| client(seconds, &["--protocol", "udp", "--rate", "1000"]),
        |(row, _)| has_rate(row),
    );
    assert!(has_rate(&row2) && row2["lost_percent"].is_number(), "{row2}");
    assert_eq!(stop(server).0, Some(0));
    let nobody = run(&["bench", "stream", "--role", "client", "--server", "127.0.0.1:1"]);
    assert_eq!(nobody.code, Some(1), "{}", nobody.err);
    assert!(nobody.err.contains("hint: on the other host"), "{}", nobody.err);
}

#[test]
fn rdma_connections_between_two_processes_make_a_row_of_bench_rc() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("rc");
    let [ours, theirs] = pair(&folder);
    let address = ["--address", "10.77.0.1/24"];
    let serve = [&["rc", "serve", "--accept", "--port", &ours, "--json"][..], &address].concat();
    let server = serving(&serve, "accepting on port 7174");
    let client = |more: &[&str]| {
        let args = ["rc", "connect", "10.77.0.1", "--port", &theirs, "--address", "10.77.0.2/24"];
        said(barewire(&[&args[..], more].concat()).output().expect("it starts"))
    };
    let has_line = |err: &str| err.contains("check global reporter states: ");
    let has_rate = |row: &Value| row["connections_per_s"].as_f64() > Some(50.0) && row["void"].is_null();
    let options = ["--row", "--hosts", "8", "--steps", "--histograms", "--json"];
    let (row, err) = until_seen(
        "3",
        |seconds| {
            let said = client(&[&options[..], &["--seconds", seconds]].concat());
            (row(&said), said.err)
        },
        |(row, err)| has_rate(row) && has_line(err),
    );
    assert!(has_line(&err), "a line a second: {err}");
    assert_eq!((&row["hosts"], &row["threads"], &row["nics"]), (&8.into(), &1.into(), &1.into()), "{row}");
    assert!(has_rate(&row) && row["steps_ns"]["req_to_rep"].is_object(), "{row}");
    assert_eq!(row["latency_ns"]["samples"].as_u64(), Some(histogram_of(&row).samples()));
    // Clients that are told nothing of rows find the same server.
    let plain = client(&["--count", "20", "--json"]);
    assert_eq!(plain.code, Some(0), "{}", plain.err);
    let (code, text) = stop(server);
    let sums: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(code, Some(0));
    assert!(sums["totals"]["connections"].as_u64() > row["opened"].as_u64(), "{sums}");
}

#[test]
fn the_kernel_takes_the_place_of_rdma_ports_at_both_ends() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let serve = ["rc", "serve", "--accept", "--address", "127.0.0.1/8", "-p", "0", "--json"];
    let client = |port: &str, baseline: &str| {
        let args = ["rc", "connect", "127.0.0.1", "--row", "-p", port, "--seconds", "1.5"];
        run(&[&args[..], &["--json", "--histograms", "--baseline", baseline]].concat())
    };
    let nobody = client("1", "kernel-tcp");
    assert_eq!(nobody.code, Some(1), "{}", nobody.err);
    assert!(nobody.err.contains("hint: ") && nobody.err.contains("--baseline kernel-tcp"), "{}", nobody.err);
    let neither = client("1", "none");
    assert_eq!(neither.code, Some(2), "{}", neither.err);
    assert!(neither.err.contains("`--port` and `--address` are needed"), "{}", neither.err);

    let server = serving(&[&serve[..], &["--baseline", "kernel-tcp"]].concat(), "accepting on port");
    let port = address(&server, "the kernel's TCP at ").port().to_string();
    let row = until_seen("1", |_| row(&client(&port, "kernel-tcp")), has_both_ends);
    assert!(has_both_ends(&row), "{row}");
    let words = ["system", "mode", "over"].map(|key| row[key].as_str().unwrap_or_default());
    assert_eq!((words, &row["threads"]), (["kernel-tcp", "blocking", "network"], &1.into()), "{row}");
    assert_eq!(row["latency_ns"]["samples"].as_u64(), Some(histogram_of(&row).samples()));
    let (code, text) = stop(server);
    let sums: Value = serde_json::from_str(&text).expect("JSON");
    assert!(sums["totals"]["connections"].as_u64() > row["opened"].as_u64(), "{sums}");
    assert_eq!((code, &sums["totals"]["frames_sent"]), (Some(0), &Value::Null));
}

#[test]
fn messages_between_two_processes() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("msg");
    let [ours, theirs] = pair(&folder);
    let end = ["bench", "msg", "--cores", "none", "--role"];
    let serve = [&end[..], &["server", "--listen", &ours, "--ip", "10.0.0.2/24"]].concat();
    // The kernel knows nothing of addresses behind socket files: where control connections are has to be said.
    let server = serving(&[&serve[..], &["--control", "127.0.0.1:0"]].concat(), "answering on");
    let control = address(&server, "control connection at ").to_string();
    let client = ["client", "--port", &theirs, "--ip", "10.0.0.1/24", "--server", "10.0.0.2"];
    let client = [&end[..], &client, &["--runs", "1", "--json"]].concat();
    let measure = |more: &[&str]| row(&run(&[&client[..], more].concat()));
    let has_median = |row: &Value| row["rtt_ns"]["p50"].as_u64() > Some(0) && row["void"].is_null();
    let seen = until_seen(
        "0.2",
        |seconds| measure(&["--seconds", seconds, "--control", &control]),
        |row| has_median(row) && has_both_ends(row),
    );
    assert!(has_median(&seen) && seen["runs"].as_array().map(Vec::len) == Some(1), "{seen}");
    assert!(has_both_ends(&seen) && seen["waits"].as_str() > Some("both "), "{seen}");
    let without = measure(&["--seconds", "0.2"]);
    assert!(without["cpu_ns_per_op"].is_null() && without["cpu"]["client_ns"].is_number(), "{without}");
    let why = without["cpu_unknown"].as_str().unwrap_or_default();
    assert!(why.contains("no control connection"), "{without}");
    assert_eq!(stop(server).0, Some(0));
}

#[test]
fn two_kernels_are_measured_with_two_letters() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let end = ["bench", "msg", "--cores", "none", "--baseline", "kernel-tcp-batch"];
    let server = serving(&[&end[..], &["-s", "--ip", "127.0.0.9"]].concat(), "answering on");
    let client = [&end[..], &["-c", "127.0.0.9", "--runs", "2", "--window", "8", "--json"]].concat();
    let measure = |more: &[&str]| row(&run(&[&client[..], more].concat()));
    let has_median = |row: &Value| row["rtt_ns"]["p50"].as_u64() > Some(0);
    let seen = until_seen(
        "0.2",
        |seconds| measure(&["--seconds", seconds]),
        |row| has_median(row) && has_both_ends(row),
    );
    let words = ["system", "over", "waits"].map(|key| seen[key].as_str().unwrap_or_default());
    assert!(has_median(&seen) && words == ["kernel-tcp-batch", "network", "both blocking"], "{seen}");
    assert!(has_both_ends(&seen), "{seen}");
    // Half of the cost is the other machine's: where it does not tell, this end's part is known.
    let without = measure(&["--seconds", "0.2", "--control", "none"]);
    assert!(without["cpu_ns_per_op"].is_null() && without["cpu"]["server_ns"].is_null(), "{without}");
    assert!(without["cpu"]["client_ns"].as_f64() > Some(0.0), "{without}");
    assert_eq!(without["waits"], "client blocking, server unknown");
    let other = [&["bench", "msg", "--cores", "none", "--baseline", "kernel-tcp"], &client[6..]].concat();
    let other = run(&other);
    assert!(
        other.code != Some(0) && other.err.contains("the same `--baseline` at both ends"),
        "{}",
        other.err
    );
    assert_eq!(stop(server).0, Some(0));
    let nobody = run(&[&end[..], &["-c", "no.such.host.invalid"]].concat());
    assert!(nobody.code == Some(2) && nobody.err.contains("no.such.host.invalid"), "{}", nobody.err);
}

/// The groups of lines that `text` names, as `A 233.252.14.1:21733`.
fn groups_in(text: &str) -> Vec<Ipv4Addr> {
    let words = text.split([' ', ',', '\n']).filter_map(|word| word.parse::<SocketAddr>().ok());
    words.filter_map(|at| at.ip().to_string().parse().ok()).filter(Ipv4Addr::is_multicast).collect()
}

/// Whether somebody of this host is in a multicast group.
fn is_joined(group: Ipv4Addr) -> bool {
    // As the kernel writes it: the address' bytes, read as a number.
    let shown = format!("{:08X}", u32::from_ne_bytes(group.octets()));
    let all = std::fs::read_to_string("/proc/net/igmp").expect("the kernel tells");
    all.lines().any(|line| line.split_whitespace().next() == Some(&shown))
}

/// Whether nothing waits in this host's sockets of a port or the nine after it.
fn is_read(first_port: u16) -> bool {
    let all = std::fs::read_to_string("/proc/net/udp").expect("the kernel tells");
    all.lines().skip(1).all(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let port = fields[1].split_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        let is_ours = port.is_some_and(|port| (first_port..first_port + 10).contains(&port));
        !is_ours || fields[4].ends_with(":00000000")
    })
}

#[test]
fn a_feed_between_two_processes_is_timed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("feed");
    let truth = folder.file("truth.jsonl").display().to_string();
    // A channel of this process' own: others may be on the loopback, too.
    let number = std::process::id() % 250;
    let (id, port) = (600 + number, 21_000 + 10 * number as u16);
    let channel = ["--channel", &id.to_string(), "--udp-port", &port.to_string()];
    let receive =
        ["feed", "run", "--seconds", "120", "--measure", "--warmup", "0.2", "--histograms", "--json"];
    let receive = [&receive[..], &["--counters", "none"], &channel].concat();
    let receiver = serving(&receive, &format!("feed channel {id}: "));
    let groups = groups_in(&receiver.said);
    assert!(!groups.is_empty(), "{}", receiver.said);
    eventually("the receiver joins", || groups.iter().all(|group| is_joined(*group)));
    let send = ["feed", "emulate", "--seconds", "1.5", "--after", "1", "--events-per-s", "1000"];
    let send = [&send[..], &["--conflation-ms", "0", "--loss", "0.05", "--truth", &truth], &channel].concat();
    let sent = run(&send);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    eventually("the receiver has read all of it", || is_read(port));
    let (code, text) = stop(receiver);
    let document: Value = serde_json::from_str(&text).expect("JSON");
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(code, code_of(rows));
    let shape: Vec<&str> = rows.iter().filter_map(|r| r["points"].as_str()).collect();
    assert_eq!(shape, ["t4..t5", "t3..t5"]);
    for row in rows {
        assert!(row["samples"].as_u64() > Some(200) && row["books"].as_u64() > Some(200), "{row}");
        assert_eq!(Some(histogram_of(row).samples()), row["samples"].as_u64());
        assert!(
            row["latency_ns"]["median"].as_u64() > Some(0) && row["latency_ns"]["p99_9"].is_null(),
            "{row}"
        );
        // 5 % on each line: some packets are lost on both, and made good.
        assert!(row["gaps"].as_u64() > Some(0) && row["recoveries_ended"].as_u64() > Some(0), "{row}");
    }
    assert_eq!(rows[1]["stamp_source"], "kernel");
}

#[test]
fn searches_say_their_bounds() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let goal = "loss=0.2,exceed=0.5,trial=0.03,sum=0.09,width=0.5";
    let msg = ["bench", "msg", "--mode", "embedded-one-thread", "--size", "64", "--warmup", "0.01"];
    let search = ["--search", "mlr", "--goal", goal, "--max-load", "50000", "--late-ms", "100", "--json"];
    let of_messages = run(&[&msg[..], &search].concat());
    let switch = ["bench", "switch", "--flows", "64", "--entries", "10"];
    let of_frames = run(&[&switch[..], &search[..6], &["--json"]].concat());
    for (said, system) in [(of_messages, "barewire"), (of_frames, "barewire")] {
        let row = row(&said);
        assert_eq!((row["system"].as_str(), row["search"].as_str()), (Some(system), Some("mlr")));
        for key in [
            "goal",
            "lower_per_s",
            "upper_per_s",
            "conditional_throughput_per_s",
            "ending",
            "trials",
            "range",
        ] {
            assert!(row.get(key).is_some(), "{key}: {row}");
        }
        let trials = row["log"].as_array().map(Vec::len);
        assert!(
            trials > Some(0) && trials == row["trials_of_all_goals"].as_u64().map(|n| n as usize),
            "{row}"
        );
    }
    for (args, near) in [
        (&["--search", "mrl"][..], "did you mean `mlr`?"),
        (&["--search", "ndr", "--goal", "los=1"], "did you mean `loss`?"),
        (&["--search", "ndr", "--max-load", "0"], "1 to 1000000000"),
        (&["--goal", "loss=0"], "--search"),
    ] {
        for verb in ["msg", "switch"] {
            let said = run(&[&["bench", verb][..], args].concat());
            assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
            assert!(said.err.contains(near), "{args:?}: {}", said.err);
        }
    }
}
