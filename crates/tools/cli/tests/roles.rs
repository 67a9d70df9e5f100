//! Both ends of a measurement, each a process of its own, as the roles of an experiment start them. No root.

mod common;

use common::{Said, barewire, run, said};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};

/// Two cores carry one pair of processes at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// An end that serves until it is told to end.
struct Serving(Child);

impl Serving {
    /// Starts it and waits until it has said `ready`.
    fn start(args: &[&str], ready: &str) -> Serving {
        let mut command = barewire(args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut serving = Serving(child);
        let mut seen = String::new();
        let mut stderr = BufReader::with_capacity(1, serving.0.stderr.as_mut().expect("piped"));
        while !seen.contains(ready) {
            assert!(stderr.read_line(&mut seen).is_ok_and(|n| n > 0), "{args:?}: {seen}");
        }
        serving
    }

    /// Ends it as an experiment does; its exit code and what it printed.
    fn end(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).expect("it runs");
        let mut text = String::new();
        self.0.stdout.take().expect("piped").read_to_string(&mut text).expect("UTF-8");
        (self.0.wait().expect("it ends").code(), text)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("barewire-roles-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    /// Both ends of a pair of socket files.
    fn pair(&self) -> [String; 2] {
        let dir = self.0.display();
        [format!("unix:{dir}/a,{dir}/b"), format!("unix:{dir}/b,{dir}/a")]
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The one row of a document.
fn row(said: &Said) -> Value {
    assert_eq!(said.out.lines().count(), 1, "{}{}", said.out, said.err);
    let mut document: Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(document["schema"], 1);
    assert!(document["fingerprint"].is_object());
    document["rows"][0].take()
}

fn histogram_of(row: &Value) -> barewire_measure::Histogram {
    let text = row["histograms"]["latency"].as_str().expect("a histogram");
    barewire_measure::Histogram::from_base64(text).expect("one of ours")
}

#[test]
fn streams_between_two_processes() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // A port that is free now; nobody else takes it so soon.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = format!("127.0.0.1:{port}");
    let server = Serving::start(&["bench", "stream", "--role", "server", "--listen", &at], "receiving on");
    let client = |more: &[&str]| {
        let args =
            ["bench", "stream", "--role", "client", "--server", &at, "--seconds", "0.3", "--warmup", "0.1"];
        said(barewire(&[&args[..], more].concat()).output().expect("it starts"))
    };
    let tcp = client(&["--streams", "2", "--runs", "2", "--interval", "0.1", "--offloads", "on", "--json"]);
    assert_eq!(tcp.code, Some(0), "{}", tcp.err);
    assert!(tcp.err.contains("0.0 to 0.1 s: "), "{}", tcp.err);
    let row1 = row(&tcp);
    assert!(row1["tcp_mbps"].as_f64() > Some(10.0) && row1["offloads"] == true, "{row1}");
    assert_eq!((row1["runs"].as_array().map(Vec::len), row1["protocol"].as_str()), (Some(2), Some("tcp")));
    let udp = client(&["--protocol", "udp", "--rate", "1000", "--json"]);
    // The sender may be late on a busy machine: void, and said.
    assert!(matches!(udp.code, Some(0 | 4)), "{}", udp.err);
    let row2 = row(&udp);
    assert!(row2["udp_pps"].as_f64() > Some(100.0) && row2["lost_percent"].is_number(), "{row2}");
    assert_eq!(row2["void"].is_null(), udp.code == Some(0), "{row2}");
    assert_eq!(server.end().0, Some(0));
    let nobody = run(&["bench", "stream", "--role", "client", "--server", "127.0.0.1:1"]);
    assert_eq!(nobody.code, Some(1), "{}", nobody.err);
    assert!(nobody.err.contains("hint: on the other host"), "{}", nobody.err);
}

#[test]
fn rdma_connections_between_two_processes_make_a_row_of_bench_rc() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("rc");
    let [ours, theirs] = folder.pair();
    let address = ["--address", "10.77.0.1/24"];
    let serve = [&["rc", "serve", "--accept", "--port", &ours, "--json"][..], &address].concat();
    let server = Serving::start(&serve, "accepting on port 7174");
    let client = |more: &[&str]| {
        let args = ["rc", "connect", "10.77.0.1", "--port", &theirs, "--address", "10.77.0.2/24"];
        said(barewire(&[&args[..], more].concat()).output().expect("it starts"))
    };
    let said = client(&["--row", "--seconds", "1.2", "--hosts", "8", "--steps", "--histograms", "--json"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("check global reporter states: "), "a line a second: {}", said.err);
    let row = row(&said);
    assert_eq!((&row["hosts"], &row["threads"], &row["nics"]), (&8.into(), &1.into(), &1.into()), "{row}");
    assert!(
        row["connections_per_s"].as_f64() > Some(50.0) && row["steps_ns"]["req_to_rep"].is_object(),
        "{row}"
    );
    assert_eq!(row["latency_ns"]["samples"].as_u64(), Some(histogram_of(&row).samples()));
    // Clients that are told nothing of rows find the same server.
    let plain = client(&["--count", "20", "--json"]);
    assert_eq!(plain.code, Some(0), "{}", plain.err);
    let (code, text) = server.end();
    let sums: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(code, Some(0));
    assert!(sums["totals"]["connections"].as_u64() > row["opened"].as_u64(), "{sums}");
}

#[test]
fn the_kernel_takes_the_place_of_rdma_ports_at_both_ends() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let serve = ["rc", "serve", "--accept", "--address", "127.0.0.1/8", "-p", &port, "--json"];
    let client = |baseline: &str| {
        let args = ["rc", "connect", "127.0.0.1", "--row", "-p", &port, "--seconds", "1.5"];
        run(&[&args[..], &["--json", "--histograms", "--baseline", baseline]].concat())
    };
    let nobody = client("kernel-tcp");
    assert_eq!(nobody.code, Some(1), "{}", nobody.err);
    assert!(nobody.err.contains("hint: ") && nobody.err.contains("--baseline kernel-tcp"), "{}", nobody.err);
    let neither = client("none");
    assert_eq!(neither.code, Some(2), "{}", neither.err);
    assert!(neither.err.contains("`--port` and `--address` are needed"), "{}", neither.err);

    let server = Serving::start(&[&serve[..], &["--baseline", "kernel-tcp"]].concat(), "accepting on port");
    let said = client("kernel-tcp");
    // Where other tests keep both ends from their cores, a row may count nothing: then it says so.
    let row = row(&said);
    assert_eq!(said.code, Some(if row["void"].is_null() { 0 } else { 4 }), "{}", said.err);
    let words = ["system", "mode", "over"].map(|key| row[key].as_str().unwrap_or_default());
    assert_eq!((words, &row["threads"]), (["kernel-tcp", "blocking", "network"], &1.into()), "{row}");
    assert_eq!(row["latency_ns"]["samples"].as_u64(), Some(histogram_of(&row).samples()));
    let (code, text) = server.end();
    let sums: Value = serde_json::from_str(&text).expect("JSON");
    assert!(sums["totals"]["connections"].as_u64() > row["opened"].as_u64(), "{sums}");
    assert_eq!((code, &sums["totals"]["frames_sent"]), (Some(0), &Value::Null));
}

#[test]
fn messages_between_two_processes() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("msg");
    let [ours, theirs] = folder.pair();
    let end = ["bench", "msg", "--cores", "none", "--role"];
    let serve = [&end[..], &["server", "--listen", &ours, "--ip", "10.0.0.2/24"]].concat();
    let server = Serving::start(&serve, "answering on");
    let client = ["client", "--port", &theirs, "--ip", "10.0.0.1/24", "--server", "10.0.0.2"];
    let client = [&end[..], &client, &["--seconds", "0.2", "--runs", "1", "--json"]].concat();
    let said = run(&client);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let row = row(&said);
    assert!(
        row["rtt_ns"]["p50"].as_u64() > Some(0) && row["runs"].as_array().map(Vec::len) == Some(1),
        "{row}"
    );
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_feed_between_two_processes_is_timed() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new("feed");
    let truth = folder.0.join("truth.jsonl").display().to_string();
    // A channel of this test's own: others may be on the loopback, too.
    let channel = ["--channel", "733", "--udp-port", "21733"];
    let receive = ["feed", "run", "--seconds", "4", "--measure", "--warmup", "0.2", "--histograms", "--json"];
    let receive = [&receive[..], &["--counters", "none"], &channel].concat();
    let mut command = barewire(&receive);
    let receiver = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let send = ["feed", "emulate", "--seconds", "1.5", "--after", "1", "--events-per-s", "1000"];
    let send = [&send[..], &["--conflation-ms", "0", "--loss", "0.05", "--truth", &truth], &channel].concat();
    let sent = run(&send);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    let said = said(receiver.wait_with_output().expect("it ends"));
    assert!(matches!(said.code, Some(0 | 4)), "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).expect("JSON");
    let rows = document["rows"].as_array().expect("rows");
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
        assert!(matches!(said.code, Some(0 | 4)), "{}", said.err);
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
