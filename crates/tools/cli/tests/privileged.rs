//! Real packets between hosts that the binary makes itself. These tests need root; without it they say so.

mod common;
mod patience;

use common::{barewire, run, said};
use patience::{all_rows, code_of, until_seen, until_well};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Two cores carry one measurement at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Said where two cores of a busy machine did not meet, and the floor under the figures is missing.
const NO_FLOOR: &str = "no control rows: ";

/// `None`, and loudly so, when this process is not root.
fn root() -> Option<MutexGuard<'static, ()>> {
    barewire_testing::root().then(|| ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Network namespaces with a name that barewire gave, and network namespaces that any live process of barewire is in.
fn namespaces() -> BTreeSet<String> {
    let named = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    named.filter_map(|e| e.file_name().into_string().ok()).filter(|n| n.starts_with("bw-")).collect()
}

/// The network namespaces that threads of a process are in, or that it holds open.
fn namespaces_of(pid: u32) -> BTreeSet<String> {
    let links = |folder: String| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|e| fs::read_link(e.path()).ok())
            .map(|l| l.display().to_string())
            .collect::<Vec<_>>()
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_tasks =
        tasks.filter_map(|t| fs::read_link(t.path().join("ns/net")).ok()).map(|l| l.display().to_string());
    of_tasks.chain(links(format!("/proc/{pid}/fd"))).filter(|l| l.starts_with("net:[")).collect()
}

/// Whether any process or thread of the machine is in `namespace`.
fn is_alive(namespace: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.into_iter().any(|pid| namespaces_of(pid).contains(namespace))
}

/// The rows, once each has samples and is not void.
fn bench(args: &[&str]) -> Vec<Value> {
    let is_good = |row: &Value| row["samples"].as_u64() > Some(0) && row["void"].is_null();
    let once = |seconds: &str| {
        let msg = ["bench", "msg", "--warmup", "0.1", "--runs", "1", "--json", "--seconds", seconds];
        let said = run(&[&msg[..], args].concat());
        let mut document: Value = serde_json::from_str(&said.out).expect(&said.err);
        let Value::Array(rows) = document["rows"].take() else { panic!("{}", said.out) };
        assert_eq!(said.code, code_of(&rows), "{}", said.err);
        assert!(rows.iter().all(|row| row["mismatches"] == 0), "{rows:?}");
        rows
    };
    let rows = until_seen("0.3", once, |rows| rows.iter().all(is_good));
    assert!(rows.iter().all(is_good), "{rows:?}");
    rows
}

#[test]
fn packets_cross_between_hosts_that_leave_no_trace() {
    let Some(_turn) = root() else { return };
    let before = namespaces();
    let rows = bench(&["--over", "xdp,packet", "--baseline", "kernel-tcp-spin", "--verify", "--window", "4"]);
    let names: Vec<_> =
        rows.iter().map(|r| (r["system"].as_str().unwrap(), r["over"].as_str().unwrap())).collect();
    assert_eq!(names, [("barewire", "xdp"), ("barewire", "packet"), ("kernel-tcp-spin", "veth")]);
    assert_eq!(namespaces(), before);
}

/// Whatever encrypts says so, beside what does not, through daemons as well; the wrong wires are refused.
#[test]
fn encrypted_messages_are_measured_beside_plain_ones() {
    let Some(_turn) = root() else { return };
    let rows = bench(&[
        "--over",
        "xdp",
        "--mode",
        "embedded,daemon",
        "--secure",
        "--baseline",
        "kernel-tcp-spin,kernel-tls-spin",
        "--verify",
        "--window",
        "4",
    ]);
    let names: Vec<_> = rows
        .iter()
        .map(|r| (r["system"].as_str().unwrap(), r["mode"].as_str().unwrap(), r["secure"].as_bool().unwrap()))
        .collect();
    assert_eq!(
        names[..6],
        [
            ("barewire", "embedded", false),
            ("barewire", "embedded-secure", true),
            ("barewire", "daemon", false),
            ("barewire", "daemon-secure", true),
            ("kernel-tcp-spin", "spin", false),
            ("kernel-tls-spin", "spin", true),
        ]
    );
    assert_eq!((names.len(), names[6].0, names[6].2), (7, "aead", true));
    let said = run(&["bench", "msg", "--over", "fault+mem", "--secure", "--seconds", "0.1", "--runs", "1"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("`embedded-secure`"), "{}", said.err);
}

#[test]
fn two_engines_on_two_queues_are_measured_and_their_rows_say_so() {
    let Some(_turn) = root() else { return };
    let rows = bench(&["--over", "xdp", "--queues", "2", "--engines", "2"]);
    let ours: Vec<_> = rows.iter().filter(|row| row["system"] == "barewire").collect();
    assert_eq!(ours.len(), 1, "{rows:?}");
    let row = ours[0];
    assert_eq!((&row["engines"], &row["queues"]), (&2.into(), &2.into()), "{row}");
    // Each engine has an application with a flow of its own.
    assert_eq!(
        (&row["mode"], &row["over"], &row["connections"]),
        (&"daemon".into(), &"xdp".into(), &2.into())
    );
    assert!(row["rtt_ns"]["p50"].as_u64() > Some(0) && row["rate_per_s"].as_f64() > Some(0.0), "{row}");
    // One engine and queue is what a row without these words is of.
    let rows = bench(&["--over", "xdp", "--mode", "daemon"]);
    assert!(rows[0]["engines"].is_null() && rows[0]["queues"].is_null(), "{}", rows[0]);
}

#[test]
fn a_faulty_link_loses_no_message() {
    let Some(_turn) = root() else { return };
    let options = "loss=0.02&duplicate=0.01&reorder=0.02&seed=7";
    let rows = bench(&["--over", "fault+packet", "--options", options, "--verify", "--window", "8"]);
    assert_eq!(rows[0]["over"], "fault+packet");
}

#[test]
fn wrong_port_options_are_told_with_the_nearest_word() {
    let Some(_turn) = root() else { return };
    let said =
        run(&["bench", "msg", "--over", "xdp", "--options", "mdoe=copy", "--seconds", "0.1", "--runs", "1"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("did you mean `mode`?") && said.err.contains("hint: "), "{}", said.err);
}

/// A document's rows of one bench.
fn rows_of<'a>(document: &'a Value, bench: &str) -> Vec<&'a Value> {
    all_rows(document).into_iter().filter(|row| row["bench"] == bench).collect()
}

#[test]
fn the_published_tables_come_with_ours() {
    let Some(_turn) = root() else { return };
    let said = until_well(
        || run(&["bench", "seeds", "--quick", "--seconds", "0.2", "--json"]),
        |said| !said.err.contains(NO_FLOOR),
    );
    let document: Value = serde_json::from_str(&said.out).expect(&said.err);
    // On a machine with other work rows may be void, which is told.
    assert_eq!(said.code, code_of(all_rows(&document)), "{}", said.err);
    let rows = rows_of(&document, "msg");
    let mut kernels = Vec::new();
    for window in [1, 32] {
        let of = |row: &Value, system: &str| row["window"] == window && row["system"] == system;
        let ours: Vec<&Value> = rows.iter().copied().filter(|row| of(row, "barewire")).collect();
        assert_eq!(ours.len(), 8);
        let over = ours.iter().filter(|row| row["mode"] == "embedded");
        let over: Vec<_> = over.map(|row| row["over"].as_str().unwrap()).collect();
        assert_eq!(over, ["mem", "xdp", "packet"]);
        // The kernel's, by default all of them; which has io_uring, is its own business.
        for system in ["kernel-tcp", "kernel-tcp-spin", "kernel-tcp-batch", "kernel-udp", "kernel-udp-mmsg"] {
            assert!(rows.iter().any(|row| of(row, system)), "{system}, window {window}");
        }
        kernels
            .push(rows.iter().filter(|row| row["window"] == window && row["system"] != "barewire").count());
    }
    assert!(kernels[0] == kernels[1] && kernels[0] + kernels[1] + 16 == rows.len(), "{kernels:?}");
    assert!(said.err.contains("planned: "), "{}", said.err);
    assert!(document["control"]["hiccup_window_ns"].as_u64().unwrap() >= 300_000_000);
    assert!(
        document["tables"][0]["published_method"]
            .as_str()
            .unwrap()
            .contains("--tx_msg_size that msg_gen does not")
    );
    // Every row of every table of the five reports, with ours beside it; but nothing here stands for OpenOnload, or for AWS's window.
    let tables = document["tables"].as_array().unwrap();
    assert_eq!(tables.len(), 52);
    for row in tables {
        assert!(row["published"].is_object(), "{row}");
        let told = row["missing"].is_string();
        let measured = row["measured"].as_array().is_some_and(|rows| !rows.is_empty());
        assert!(told != measured, "{row}");
        let elsewhere = row["system"] == "SocketFeedEngine + OpenOnload" || row["window"] == 8.0;
        let is_void = row["void_rows"].as_array().is_some_and(|rows| !rows.is_empty());
        assert!(!(elsewhere && measured) && (measured || elsewhere || is_void), "{row}");
    }
    let of = |table: &str| tables.iter().filter(|t| t["table"] == table).count();
    assert_eq!(
        [of("rc.latency"), of("rc.threads"), of("rc.machines"), of("rc.dual-nic"), of("bmv2")],
        [1, 5, 4, 5, 1]
    );
}

#[test]
fn the_demonstration_ends_in_a_sentence() {
    let Some(_turn) = root() else { return };
    let before = namespaces();
    let folder = tempfile::tempdir().unwrap();
    let [page, rows] =
        ["report.html", "rows.json"].map(|name| folder.path().join(name).display().to_string());
    let said = until_well(
        || run(&["demo", "--seconds", "0.4", "--hiccup", "0.05", "--report", &page, "--out", &rows]),
        |said| !said.err.contains(NO_FLOOR),
    );
    let document: Value = serde_json::from_str(&fs::read_to_string(rows).expect(&said.err)).unwrap();
    // So short a run on a busy machine may be void, which is told; such rows are in no picture.
    assert_eq!(said.code, code_of(all_rows(&document)), "{}", said.err);
    assert!(said.out.trim_end().ends_with(&page), "{}", said.out);
    let html = fs::read_to_string(&page).unwrap();
    // A part of each program, of the floor, and of what a reader has to know.
    for part in [
        "not comparable",
        "longest hiccup",
        "kernel UDP over loopback",
        "Before believing anything below",
        "One TCP stream through simple_router",
    ] {
        assert!(html.contains(part), "{part}: {}", said.err);
    }
    for (picture, of) in [
        ("By threads: ", "rc"),
        ("Where the time goes: market data", "feed"),
        ("Where the time goes: messages, open loop", "msg"),
        ("Response time by offered load: Messages", "msg"),
    ] {
        let rows = rows_of(&document, of);
        let any_void = rows.iter().any(|row| !row["void"].is_null());
        assert!(!rows.is_empty() && (html.contains(picture) || any_void), "{picture}: {}", said.err);
    }
    for word in ["In short:", "RDMA connections:", "one request in flight", "Removed the hosts"] {
        assert!(said.out.contains(word) || said.err.contains(word), "{word}: {}{}", said.out, said.err);
    }
    assert_eq!(namespaces(), before);
}

/// Starts a long measurement between hosts and waits until these are there.
fn long_run() -> (Child, BTreeSet<String>) {
    let mut command =
        barewire(&["bench", "msg", "--over", "packet", "--seconds", "60", "--runs", "2", "--warmup", "0"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ours = namespaces_of(std::process::id());
    for _ in 0..6_000 {
        let hosts: BTreeSet<String> = namespaces_of(child.id()).difference(&ours).cloned().collect();
        // Two hosts, and a while later the run itself.
        if hosts.len() == 2 {
            std::thread::sleep(Duration::from_millis(700));
            return (child, hosts);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("no hosts within a minute");
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn interrupted_it_stops_soon_and_leaves_no_host() {
    let Some(_turn) = root() else { return };
    let before = namespaces();
    for name in ["-INT", "-TERM", "-KILL"] {
        let (child, hosts) = long_run();
        assert!(hosts.iter().all(|h| is_alive(h)), "{hosts:?}");
        signal(&child, name);
        let said = said(child.wait_with_output().unwrap());
        let code = (name != "-KILL").then_some(130);
        assert_eq!(said.code, code, "{name}: {}", said.err);
        assert!(!hosts.iter().any(|h| is_alive(h)), "{name}: {hosts:?}");
        assert_eq!(namespaces(), before, "{name}");
    }
}

#[test]
fn two_interrupts_end_it_at_once() {
    let Some(_turn) = root() else { return };
    let (child, hosts) = long_run();
    signal(&child, "-INT");
    signal(&child, "-INT");
    let said = said(child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(130), "{}", said.err);
    assert!(!hosts.iter().any(|h| is_alive(h)));
}

#[test]
fn each_end_runs_on_a_host_of_its_own() {
    let Some(_turn) = root() else { return };
    let config = barewire_netns::TwoHostsConfig { label: None, ..barewire_netns::TwoHostsConfig::default() };
    let hosts = barewire_netns::TwoHosts::create(&config).unwrap();
    let bench = |args: &[&str]| {
        let mut command = barewire(&[&["bench", "msg", "--idle", "yield"], args].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut server = bench(&["--role", "server", "--listen", "packet:eth0", "--ip", "fd77::2/64"]);
    let mut server = hosts.ns_b.spawn_in(&mut server).unwrap();
    // It says on stderr when it answers.
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("answering on fd77::2, UDP port 888")));
    let once = |seconds: &str| {
        let mut client =
            bench(&["--role", "client", "--port", "xdp:eth0", "--ip", "fd77::1", "--server", "fd77::2"]);
        client.args(["--seconds", seconds, "--warmup", "0.1", "--runs", "2", "--verify", "--json"]);
        let client = said(hosts.ns_a.spawn_in(&mut client).unwrap().wait_with_output().unwrap());
        let mut document: Value = serde_json::from_str(&client.out).expect(&client.err);
        let Value::Array(rows) = document["rows"].take() else { panic!("{}", client.out) };
        assert_eq!(client.code, code_of(&rows), "{}", client.err);
        rows
    };
    let is_good = |row: &Value| row["samples"].as_u64() > Some(0) && row["void"].is_null();
    let rows = until_seen("0.3", once, |rows| is_good(&rows[0]));
    signal(&server, "-INT");
    assert_eq!(server.wait().unwrap().code(), Some(0), "a server that is told to end has done its work");
    let row = &rows[0];
    assert_eq!((&row["over"], &row["mismatches"]), (&"xdp:eth0".into(), &0.into()));
    assert!(is_good(row), "{row}");
    assert_eq!(row["runs"].as_array().unwrap().len(), 2, "the server takes one client after the other");
}

/// CPU that a process has used, in ns.
fn used_by(process: &Child) -> u64 {
    barewire_measure::Task::Process(process.id()).time().map_or(0, |time| time.run_ns)
}

/// Between two hosts each row has the CPU of both ends: of messages over the kernel's sockets and over our port, and of connections.
#[test]
fn rows_between_two_hosts_have_the_cpu_of_both_ends() {
    let Some(_turn) = root() else { return };
    let config = barewire_netns::TwoHostsConfig { label: None, ..barewire_netns::TwoHostsConfig::default() };
    let hosts = barewire_netns::TwoHosts::create(&config).unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    let started = |ns: &barewire_netns::Namespace, text: &str| {
        let words = words(text);
        let mut command = barewire(&words.iter().map(String::as_str).collect::<Vec<_>>());
        ns.spawn_in(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap()
    };
    let msg = "bench msg --cores none";
    let client = "--runs 1 --warmup 0.1 --json --seconds";
    // Where a port has an address of its own, the kernel's is the one for talk.
    for (server, client, op, waits) in [
        (
            format!("{msg} -s --baseline kernel-udp-spin"),
            format!("{msg} -c 10.77.0.2 --baseline kernel-udp-spin {client}"),
            "samples",
            "both spin",
        ),
        (
            format!("{msg} -s --baseline kernel-udp"),
            format!("{msg} -c 10.77.0.2 --baseline kernel-udp-spin {client}"),
            "samples",
            "client spin, server blocking (kernel-udp)",
        ),
        (
            format!("{msg} -s --baseline kernel-tcp"),
            format!("{msg} -c 10.77.0.2 --baseline kernel-tcp {client}"),
            "samples",
            "both blocking",
        ),
        (
            format!("{msg} -s --idle spin --port packet:eth0 --ip 10.77.0.12/24 --control 10.77.0.2"),
            format!("{msg} -c 10.77.0.12 --idle yield --port packet:eth0 --ip 10.77.0.11/24 --control 10.77.0.2 {client}"),
            "samples",
            "client yield, server spin",
        ),
        (
            "rdma serve --accept --idle spin --port packet:eth0 --address 10.77.0.12/24 --control 10.77.0.2".to_owned(),
            "rdma connect 10.77.0.12 --row --idle spin --port packet:eth0 --address 10.77.0.11/24 --control 10.77.0.2 --json --seconds"
                .to_owned(),
            "opened",
            "both spin",
        ),
    ] {
        let mut served = started(&hosts.ns_b, &server);
        let mut lines = BufReader::new(served.stderr.take().unwrap()).lines();
        let ready = |line: String| line.contains("answering on") || line.contains("accepting on");
        assert!(lines.any(|line| ready(line.unwrap())), "{server}");
        // What it goes on to say is read.
        let reading = std::thread::spawn(move || lines.for_each(drop));
        let once = |seconds: &str| {
            let before = used_by(&served);
            let said = said(started(&hosts.ns_a, &format!("{client} {seconds}")).wait_with_output().unwrap());
            let document: Value = serde_json::from_str(&said.out).expect(&said.err);
            (document["rows"][0].clone(), used_by(&served) - before)
        };
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let is_good = |(row, _): &(Value, u64)| {
            number(&row[op]) > 50.0 && row["cpu_unknown"].is_null() && row["cpu_ns_per_op"].is_number()
        };
        let (row, used) = until_seen("1", once, is_good);
        assert!(is_good(&(row.clone(), used)), "{server}: {row}");
        assert_eq!(row["waits"], waits, "{row}");
        // What the kernel says of the server's process all the while is more than what the row says of its window, and not much more.
        let cpu = &row["cpu"];
        let told = number(&cpu["server_ns"]) * number(&row[op]);
        let used = used as f64;
        assert!(told > used * 0.1 && told < used * 1.1, "{told} of {used}: {row}");
        let (parts, ends) = (
            number(&cpu["user_ns"]) + number(&cpu["system_ns"]),
            number(&cpu["client_ns"]) + number(&cpu["server_ns"]),
        );
        assert!((parts - ends).abs() < ends * 0.02 + 1.0, "{row}");
        assert!(number(&row["cpu_ns_per_op"]) >= ends * 0.999, "{row}");
        signal(&served, "-INT");
        served.wait().unwrap();
        reading.join().unwrap();
    }
}
