//! `barewire rc` and Linux's own soft RoCE, in both directions, on a clean wire and on a bad one.

mod common;
mod patience;
mod rxe_peer;

use barewire_measure::stamp;
use barewire_rdma_tools::{Hello, Mode, Offer, service_id};
use barewire_roce::{Access, Data, QpInit, SendOp, SendWr};
use barewire_testing::Running;
use barewire_verbs::{Device, DeviceConfig, Memory};
use common::{Said, barewire, run, said};
use patience::until_seen;
use rxe_peer::Guest;
use serde_json::Value;
use std::io::Read as _;
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::Duration;

const US: &str = "10.77.0.1";
const GUEST: &str = "10.77.0.2";
/// Where the guest's `rcconn` listens, and its `ops`.
const RCCONN: &str = "7471";
const OPS: &str = "7175";
/// One packet in a hundred is lost, in either direction.
const LOSS: &str = "?loss=0.01&seed=7&dir=both";

fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// `rc serve`, until it is told to stop.
struct Server {
    process: Running,
    /// What it prints, read all the time: a full pipe would stop it.
    out: JoinHandle<String>,
}

impl Server {
    fn start(port: &str) -> Server {
        let args = ["rc", "serve", "--port", port, "--address", "10.77.0.1/24", "--json"];
        let mut command = barewire(&[&args[..], &["--service-port", &format!("7174,{RCCONN}")]].concat());
        let mut process = Running::start_until(&mut command, "serving");
        let mut stdout = process.child.stdout.take().expect("piped");
        let out = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).expect("UTF-8");
            text
        });
        Server { process, out }
    }

    /// Ends it by the signal that a terminal sends: its connections, and its sums.
    fn stop(self) -> (Vec<Value>, Value) {
        self.process.signal("-INT");
        let text = self.out.join().expect("it was read");
        let (status, _) = self.process.end();
        assert!(status.success(), "{status}: {text}");
        let mut lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let totals = lines.pop().expect("sums")["totals"].take();
        (lines.into_iter().map(|mut line| line["connection"].take()).collect(), totals)
    }
}

/// The guest's only processor is a program on a machine that is busy with other tests: it stands still for longer than any card. With
/// these a connection lives through 14 s of it, where the default's 1.8 s are too short.
const PATIENT: [&str; 4] = ["--ack-timeout", "17", "--patience", "30"];

/// A client of ours.
fn rc(verb: &str, port: &str, more: &[&str]) -> Said {
    let args = ["rc", verb, GUEST, "--port", port, "--address", "10.77.0.1/24"];
    said(barewire(&[&args[..], &PATIENT, more].concat()).stdin(Stdio::null()).output().expect("it starts"))
}

fn object(said: &Said) -> Value {
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    serde_json::from_str(&said.out).expect("JSON")
}

/// The guest's clients against our server: rping with these sizes, operations, and at least so many connections that are only
/// opened and closed.
fn clients_of_the_guest(guest: &mut Guest, port: &str, sizes: &[u32], connections: u64) {
    let server = Server::start(port);
    guest.run(&format!("until ping -c1 -W1 {US} > /dev/null; do :; done"), s(20));
    for size in sizes {
        let rping = format!(
            "rping -c -a {US} -C 3 -v -V -S {size} > /tmp/out 2>&1; code=$?; cut -c1-40 /tmp/out; exit $code"
        );
        let lines = guest.run(&rping, s(60));
        let rounds = lines.iter().filter(|line| line.starts_with("ping data: rdma-ping-")).count();
        assert_eq!(rounds, 3, "rping of {size} bytes: {lines:#?}");
    }
    let ops = guest.run(&format!("ops -c {US}"), s(90));
    assert!(ops.iter().any(|line| line == "OPS DONE"), "{ops:#?}");
    let (mut made, mut runs) = (0, 0);
    while made < connections {
        assert!(runs < 10, "{made} connections in 40 s");
        let threads = if runs == 0 { 1 } else { 4 };
        runs += 1;
        let lines = guest.run(&format!("rcconn -s {US} -t {threads} -d 4"), s(60));
        let result = lines.iter().find(|line| line.starts_with("RESULT")).expect("a result");
        let words: Vec<&str> = result.split(' ').collect();
        assert_eq!(&words[5..7], ["err", "0"], "{result}");
        println!("{result}");
        made += words[4].parse::<u64>().expect("a number");
    }
    let (connections, totals) = server.stop();
    println!("serve: {totals}");
    let of = |word: &str| connections.iter().filter(|c| c["use"] == word).collect::<Vec<_>>();
    let pings = of("ping");
    assert_eq!(pings.len(), sizes.len(), "{totals}");
    for (ping, size) in pings.iter().zip(sizes) {
        assert_eq!((&ping["messages"], &ping["bytes_in"]), (&3.into(), &(3 * size).into()), "{ping}");
    }
    assert_eq!((of("perf-memory").len(), of("perf-echo").len()), (1, 1));
    // Those that were just being opened when rcconn's time was over may be more.
    assert!(of("connect").len() as u64 >= made, "{made} connections were made: {totals}");
    for connection in &connections {
        assert!(connection["failed"].is_null() || connection["use"] == "connect", "{connection}");
    }
}

/// Our `perf` against the guest's memory. Its application is slower than its device: with many messages in flight it is not
/// ready at times, and asks for pauses of 0.65 s.
fn operations(port: &str, seconds: &str) {
    for operation in ["send", "write", "read", "fetch-add", "compare-swap"] {
        for (window, size) in [("1", "64"), ("16", "5000")] {
            let perf = |seconds: &str| {
                let args =
                    ["-p", OPS, "-o", operation, "-w", window, "-S", size, "--seconds", seconds, "--json"];
                let report = object(&rc("perf", port, &args));
                assert_eq!(report["wrong"], 0, "{report}");
                report
            };
            let enough = |report: &Value| report["operations"].as_u64() > Some(0);
            let report = until_seen(seconds, perf, enough);
            assert!(enough(&report), "{report}");
            println!("{operation}, {window} in flight: {}/s", report["operations_per_s"]);
        }
    }
}

/// What no verb of ours sends: messages and writes with immediate data, of one packet and of several.
fn immediate_data(guest: &mut Guest, port: &str) {
    let timeout = barewire_base::Duration::from_secs(10);
    let mut device = Device::open(&DeviceConfig::new(port, [10, 77, 0, 1].into())).expect("a device");
    let verbs = device.verbs();
    let (pd, cq) = (verbs.alloc_pd(), verbs.create_cq(256).expect("a queue"));
    let memory = Memory::register(verbs, pd, 4000, Access::NONE).expect("memory");
    let hello = Hello { mode: Mode::Sink, size: 4000, window: 8 };
    let (peer, port) = ([10, 77, 0, 2].into(), service_id(OPS.parse().expect("a port")));
    let init = QpInit::rc(pd, cq);
    let pending = device.start_connect(peer, port, &init, &hello.bytes()).expect("asked");
    let connection = device.finish_connect(pending, timeout).expect("agreed");
    let offer = Offer::parse(&connection.private).expect("an offer").memory;
    let (addr, rkey) = (offer.addr + 64, offer.rkey);
    for (op, len) in [
        (SendOp::SendImm(1), 0),
        (SendOp::SendImm(20), 7),
        (SendOp::SendImm(300), 4000),
        (SendOp::WriteImm { addr, rkey, imm: 4000 }, 0),
        (SendOp::WriteImm { addr, rkey, imm: 50_000 }, 9),
        (SendOp::WriteImm { addr, rkey, imm: 0xff60_0000 }, 4000),
    ] {
        let list = [memory.sge(0, len)];
        let wr = SendWr::new(1, op, Data::Sges(&list));
        device.verbs().post_send(connection.qpn, &wr).expect("posted");
        device.wait_cq(cq, timeout).expect("done");
    }
    device.disconnect(connection.conn, connection.qpn, timeout).expect("agreed");
    let sum = 1 + 20 + 300 + 4000 + 50_000 + 0xff60_0000_u64;
    let lines = guest.run("sleep 1; tail -1 /tmp/ops", s(20));
    assert!(lines.iter().any(|l| l.ends_with(&format!("messages 6 immediate {sum}"))), "{lines:#?}");
}

/// Our `ping` against the guest's `rping -s`.
fn pings(port: &str, sizes: &[u32], count: u32) {
    for size in sizes {
        let (size, count) = (size.to_string(), count.to_string());
        let report = object(&rc("ping", port, &["-S", &size, "-C", &count, "--json"]));
        assert_eq!((&report["wrong"], report["samples"].to_string()), (&0.into(), count), "{report}");
        assert_eq!(report["path_mtu_bytes"], 1024);
    }
}

#[test]
fn linux_soft_roce_and_we_understand_each_other() {
    let start = stamp();
    let Some(mut guest) = Guest::boot() else { return };
    println!("the guest is up after {}", stamp().since(start));
    let (clean, bad) = (guest.port("", ""), guest.port("fault+", LOSS));
    let servers = format!(
        "rping -s -a {GUEST} -P -S 65000 > /tmp/rping 2>&1 & rcconn -p {RCCONN} > /tmp/rcconn 2>&1 & ops -s > /tmp/ops 2>&1 & sleep 1"
    );
    guest.run(&servers, s(20));

    // Its clients, our server.
    let sizes = [23, 64, 1024, 1025, 1500, 4000, 64_000];
    clients_of_the_guest(&mut guest, &clean, &sizes, 2000);
    println!("its clients, our server: done after {}", stamp().since(start));

    // Our clients, its servers.
    pings(&clean, &[1, 64, 1024, 1500, 4000, 64_000], 5);
    operations(&clean, "1");
    let report = object(&rc("connect", &clean, &["-p", RCCONN, "-C", "1000", "-w", "16", "--json"]));
    assert_eq!((&report["connections"], &report["failed"]), (&1000.into(), &0.into()), "{report}");
    println!("connect: {}/s", report["connections_per_s"]);

    immediate_data(&mut guest, &clean);

    // What it refuses, in words.
    let said = rc("ping", &clean, &["-S", "65537", "-C", "1"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("hint: `rping -s` needs a buffer as large"), "{}", said.err);
    let said = rc("ping", &clean, &["-p", "99", "-C", "1"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("nobody listens") && said.err.contains("(reason 8)"), "{}", said.err);
    let said = run(&["rc", "ping", "10.77.0.9", "--port", &clean, "--address", "10.77.0.1/24", "-C", "1"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("ARP") && said.err.contains("hint: "), "{}", said.err);
    println!("our clients, its servers: done after {}", stamp().since(start));

    // The same, and every hundredth packet is lost. Its own time-outs are of seconds.
    clients_of_the_guest(&mut guest, &bad, &[64, 1500, 4000, 64_000], 0);
    pings(&bad, &[64, 4000, 64_000], 10);
    operations(&bad, "1");
    let report = object(&rc("connect", &bad, &["-p", RCCONN, "-C", "500", "-w", "16", "--json"]));
    assert_eq!((&report["connections"], &report["failed"]), (&500.into(), &0.into()), "{report}");
    assert!(report["messages_resent"].as_u64().is_some_and(|n| n > 5), "{report}");
    println!("both with loss: done after {}", stamp().since(start));
}
