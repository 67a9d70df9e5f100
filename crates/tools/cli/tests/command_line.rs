//! What the binary says: help, slips, exit codes, JSON. Nothing here needs root; with it, baselines have wires.

mod common;
mod patience;

use common::{barewire, run, said};
use patience::{code_of, until_seen};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

const QUICK: &[&str] = &["--warmup", "0.1", "--runs", "1"];
const SHORT: &str = "0.2";

/// Two cores carry one measurement at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn msg(seconds: &str, args: &[&str]) -> common::Said {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Spinning ends on a machine that is busy with other tests would measure its scheduler.
    let idle: &[&str] = if args.contains(&"--idle") { &[] } else { &["--idle", "yield"] };
    run(&[&["bench", "msg", "--seconds", seconds], QUICK, idle, args].concat())
}

/// The document, once its only row has samples and is not void, and what else is wanted is there; and what was said.
fn measured(args: &[&str], has_rest: impl Fn(&Value) -> bool) -> (Value, common::Said) {
    let is_good = |row: &Value| row["samples"].as_u64() > Some(0) && row["void"].is_null();
    let (document, said) = until_seen(
        SHORT,
        |seconds| {
            let said = msg(seconds, args);
            let document: Value = serde_json::from_str(&said.out).expect(&said.err);
            assert_eq!(said.code, code_of(document["rows"].as_array().unwrap()), "{}", said.err);
            (document, said)
        },
        |(document, _)| is_good(&document["rows"][0]) && has_rest(document),
    );
    assert!(is_good(&document["rows"][0]), "{document}");
    (document, said)
}

#[test]
fn help_lists_the_verbs_and_exit_codes() {
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    for word in
        ["bench", "demo", "port", "stat", "doctor", "metrics", "man", "completions", "Exit codes:", "130"]
    {
        assert!(help.out.contains(word), "{word}: {}", help.out);
    }
    let bench = run(&["bench", "--help"]);
    for word in ["msg", "published", "rdma", "floor", "[alias: rc]", "[alias: seeds]", "[alias: control]"] {
        assert!(bench.out.contains(word), "{word}: {}", bench.out);
    }
    for verb in [
        "bench msg",
        "bench seeds",
        "bench published",
        "rc serve",
        "rdma serve",
        "bench rdma",
        "demo",
        "port",
        "stat",
        "doctor",
        "metrics",
        "man",
        "completions",
    ] {
        let mut args: Vec<&str> = verb.split(' ').collect();
        args.push("--help");
        assert_eq!(run(&args).code, Some(0), "{verb}");
    }
}

#[test]
fn version_names_the_commit() {
    let version = run(&["--version"]);
    assert_eq!(version.code, Some(0));
    assert!(version.out.starts_with("barewire 0.") && version.out.contains("commit "), "{}", version.out);
}

#[test]
fn slips_end_with_code_2_and_the_nearest_word() {
    for (args, near) in [
        (&["bnech"][..], "'bench'"),
        (&["rmda"], "'rdma'"),
        (&["bench", "rdam"], "'rdma'"),
        (&["bench", "publishd"], "'published'"),
        (&["bench", "flor"], "'floor'"),
        (&["bench", "published", "--only", "rdm"], "'rdma'"),
        (&["man", "bench", "publishe"], "did you mean `barewire bench published`?"),
        (&["bench", "msg", "--widnow", "3"], "'--window'"),
        (&["bench", "msg", "--over", "xpd"], "did you mean `xdp`?"),
        (&["bench", "msg", "--mode", "deamon"], "did you mean `daemon`?"),
        (&["bench", "msg", "--baseline", "kernel-tpc"], "did you mean `kernel-tcp`?"),
        (&["bench", "msg", "--idle", "sleep"], "`spin`, `yield`, `park`"),
        (&["bench", "msg", "--seconds", "soon"], "number of seconds"),
        (&["bench", "msg", "--arrivals", "poisson"], "--rate"),
        (&["bench", "msg", "--role", "client"], "--server"),
        (&["bench", "msg", "--size", "3"], "must be 8 to"),
        (&["bench", "msg", "--mode", "daemon", "--over", "unix"], "not over `unix`"),
        (&["bench", "msg", "--idle", "park"], "`spin` or `yield`"),
        (
            &["bench", "msg", "--role", "server", "--listen", "pakcet:eth0", "--ip", "10.0.0.2"],
            "did you mean `packet`?",
        ),
        (&["port", "pakcet:eth0"], "did you mean `packet`?"),
        (&["port", "mem:a?slot=3"], "did you mean `slots`?"),
    ] {
        let said = run(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains(near), "{args:?}: {}", said.err);
        assert_eq!(said.out, "", "{args:?}: nothing but data on stdout");
    }
}

#[test]
fn colors_come_when_asked_for_only() {
    let slip = ["bench", "msg", "--size", "3"];
    assert!(!run(&slip).err.contains('\x1b'), "stderr is no terminal");
    assert!(run(&[&slip[..], &["--color", "always"]].concat()).err.contains("\x1b["));
    assert!(!run(&["--color=never", "bnech"]).err.contains('\x1b'));
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn one_json_object_with_its_keys() {
    let out = std::env::temp_dir().join(format!("barewire-words-{}.json", std::process::id()));
    // Without it when two cores of a busy machine did not meet.
    let has_control = |document: &Value| document["control"].is_object();
    let args = ["--over", "mem", "--json", "--verify", "--out", out.to_str().unwrap()];
    let (document, said) = measured(&args, has_control);
    assert_eq!(said.out.lines().count(), 1);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), said.out);
    std::fs::remove_file(&out).unwrap();

    assert_eq!(
        keys(&document),
        BTreeSet::from(["schema", "fingerprint", "hardware", "started_unix_ms", "control", "rows"])
    );
    assert_eq!((&document["schema"], &document["hardware"]), (&Value::from(2), &Value::from("one-machine")));
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    let wanted = [
        "system",
        "mode",
        "over",
        "size",
        "window",
        "connections",
        "samples",
        "rtt_ns",
        "rate_per_s",
        "loop",
        "idle_state",
        "contended",
        "command",
        "seed",
        "void",
        "verified",
        "mismatches",
        "runs",
    ];
    assert!(keys(row).is_superset(&BTreeSet::from(wanted)), "{row}");
    assert_eq!(keys(&row["rtt_ns"]), BTreeSet::from(["min", "p50", "p90", "p99", "p99_9", "max"]));
    assert_eq!(
        (&row["system"], &row["mode"], &row["over"]),
        (&"barewire".into(), &"embedded".into(), &"mem".into())
    );
    assert_eq!((&row["size"], &row["window"]), (&1024.into(), &1.into()));
    assert_eq!((&row["idle_state"], &row["mismatches"]), (&"warm".into(), &0.into()));
    let samples = row["samples"].as_u64().unwrap();
    assert!(samples > 0);
    // Twenty samples carry a median; a machine that is busy with other tests may give fewer.
    assert_eq!(row["rtt_ns"]["p50"].is_u64(), samples >= 20, "{row}");
    let command = row["command"].as_str().unwrap();
    assert!(command.starts_with("barewire bench msg") && command.contains("--verify"), "{command}");
}

#[test]
fn tables_take_turns_and_compare() {
    let modes = ["--mode", "embedded-one-thread,embedded"];
    let args =
        [&modes[..], &["--window", "4", "--baseline", "kernel-tcp,kernel-udp-spin", "--quiet"]].concat();
    // Where hosts can be made, baselines have wires and memory has none.
    let ratio = match barewire_netns::is_root_capable().is_ok() {
        true => "Not compared: memory is no wire",
        false => "barewire embedded-one-thread over mem is ",
    };
    let said = until_seen(
        SHORT,
        |seconds| msg(seconds, &args),
        |said| said.code == Some(0) && said.out.contains(ratio),
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(said.err, "", "quiet");
    for word in ["embedded ", "mem", "kernel-tcp ", "kernel-udp-spin", "cold", "warm", ratio] {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
}

#[test]
fn one_thread_and_open_loop_run() {
    let mode = ["--mode", "embedded-one-thread", "--rate", "2000", "--arrivals", "poisson"];
    let said = msg(SHORT, &[&mode[..], &["--window", "8", "--json"]].concat());
    let document: Value = serde_json::from_str(&said.out).unwrap();
    let rows = document["rows"].as_array().unwrap();
    // A busy machine may make the generator late, which voids the row and is told by the code.
    assert_eq!((rows.len(), said.code), (1, code_of(rows)), "{}", said.err);
    let row = &rows[0];
    assert_eq!(
        (&row["mode"], &row["loop"], &row["arrivals"]),
        (&"embedded-one-thread".into(), &"open".into(), &"poisson".into())
    );
    assert_eq!(
        (&row["offered_per_s"], &row["window"], &row["mismatches"]),
        (&2000.0.into(), &8.into(), &0.into())
    );
    // Whatever was answered has both times: from the send call, and from when it was due.
    let of = |key: &str| row[key]["max"].as_u64();
    assert!(of("response_ns") >= of("service_ns"), "{row}");
    assert_eq!(of("service_ns").is_some(), row["samples"].as_u64() > Some(0), "{row}");
}

#[test]
fn daemons_are_started_for_a_run_and_park() {
    let (document, _) = measured(&["--mode", "daemon", "--idle", "park", "--json"], |_| true);
    let row = &document["rows"][0];
    assert_eq!((&row["mode"], &row["idle"], &row["over"]), (&"daemon".into(), &"park".into(), &"mem".into()));
}

#[test]
fn a_core_that_is_not_ours_is_refused() {
    let said = run(&["bench", "msg", "--cores", "0,8000"]);
    assert_eq!(said.code, Some(3));
    assert!(said.err.contains("core 8000") && said.err.contains("hint: it may run on "), "{}", said.err);
}

#[test]
fn a_port_says_what_it_is() {
    let said = run(&["port", "mem:words"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for word in ["mem:words", "mtu", "receive stamps", "engine", "a random one"] {
        assert!(said.out.contains(word), "{word}: {}", said.out);
    }
    let said = run(&["port", "mem:words", "--json"]);
    let object: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&object["schema"], &object["port"], &object["rx_stamp"]),
        (&1.into(), &"mem:words".into(), &"engine".into())
    );
    let said = run(&["port", "packet:nosuch0"]);
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains("hint: "), "{}", said.err);
}

#[test]
fn without_a_page_stat_says_how_to_get_one() {
    let said = run(&["stat", "--name", "no-such-page-of-the-tests"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("error: no counters page `no-such-page-of-the-tests`"), "{}", said.err);
    assert!(said.err.contains("hint: "), "{}", said.err);
    assert_eq!(run(&["stat", "--name", "a/b"]).code, Some(2));
}

/// A folder for pages of this test alone.
struct Pages(std::path::PathBuf);

impl Pages {
    fn new(test: &str) -> Pages {
        let folder = std::env::temp_dir().join(format!("barewire-words-{test}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Pages(folder)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn stat_reads_a_page() {
    use barewire_engine::{CounterKind, CountersPage};
    let folder = Pages::new("stat");
    let mut page = CountersPage::create(folder.0.join("barewire-words.counters"), 8).unwrap();
    let mut counter = |name, kind, value| {
        let slot = page.register(name, kind).unwrap();
        slot.set(value);
        slot
    };
    // A counter is on the page for as long as its slot lives.
    let _slots = [
        counter("port.rx_frames", CounterKind::Counter, 42),
        counter("port.tx_frames", CounterKind::Counter, 0),
        counter("flows", CounterKind::Gauge, 3),
    ];
    let stat = |args: &[&str]| {
        let args = [&["stat", "--name", "words"], args].concat();
        said(barewire(&args).env("XDG_RUNTIME_DIR", &folder.0).output().unwrap())
    };
    let plain = stat(&[]);
    assert_eq!(plain.code, Some(0), "{}", plain.err);
    let lines: Vec<Vec<&str>> = plain.out.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines, [["flows", "3"], ["port.rx_frames", "42"]]);
    assert!(stat(&["--all"]).out.contains("port.tx_frames"));
    let filtered = stat(&["--json", "--filter", "rx"]);
    let object: Value = serde_json::from_str(&filtered.out).unwrap();
    assert_eq!((&object["alive"], &object["pid"]), (&true.into(), &std::process::id().into()));
    assert_eq!(keys(&object["counters"]), BTreeSet::from(["port.rx_frames"]));
    assert_eq!(object["counters"]["port.rx_frames"]["value"], 42);

    let near =
        said(barewire(&["stat", "--name", "wrods"]).env("XDG_RUNTIME_DIR", &folder.0).output().unwrap());
    assert!(near.err.contains("did you mean `words`?"), "{}", near.err);
}

#[test]
fn completions_know_the_words() {
    for shell in ["bash", "zsh", "fish"] {
        let said = run(&["completions", shell]);
        assert_eq!(said.code, Some(0), "{shell}");
        assert!(said.out.contains("published") && said.out.contains("window"), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = barewire(&["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Closed before the first byte.
    drop(child.stdout.take());
    let said = said(child.wait_with_output().unwrap());
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
}

#[test]
fn the_book_shows_the_example_that_is_compiled() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let example = std::fs::read_to_string(root.join("examples/embedded_echo.rs")).unwrap();
    let (_, code) = example.split_once("#![forbid(unsafe_code)]\n\n").unwrap();
    let page = std::fs::read_to_string(root.join("../../../docs/src/guides/messages.md")).unwrap();
    assert!(
        page.contains(&format!("```rust\n{code}```\n")),
        "copy the example into docs/src/guides/messages.md"
    );
}
