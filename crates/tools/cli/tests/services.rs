//! Switch, RDMA and market data as processes: their standard error is closed, or is a file on a disk that is full, and they stand still for
//! a second or ten under traffic. (`stopped.rs` does the same to daemons.) The judges are invariants: what was sent comes out, operations
//! have done what they were to do, books are the truth.
//!
//! Briefly, unless `BAREWIRE_SOAK_SECONDS` says how long each service shall be tormented.

#![allow(clippy::disallowed_methods, reason = "tests give up by the clock")]

use barewire_base::Prng;
use barewire_testing::{Folder, Running, eventually};
use serde_json::Value;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A standard error that takes nothing.
#[derive(Clone, Copy, Debug)]
enum Stderr {
    Full,
    Closed,
}

const BOTH: [Stderr; 2] = [Stderr::Full, Stderr::Closed];

impl Stderr {
    fn command(self, args: &[&str]) -> Command {
        let to = match self {
            Stderr::Full => "2>/dev/full",
            Stderr::Closed => "2>&-",
        };
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" \"$@\" {to}"), env!("CARGO_BIN_EXE_barewire")]);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    fn start(self, args: &[&str]) -> Running {
        Running::start(&mut self.command(args))
    }

    /// Runs it to its end.
    fn run(self, args: &[&str]) -> (ExitStatus, String) {
        let output = self.command(args).output().expect("it starts");
        (output.status, String::from_utf8(output.stdout).expect("UTF-8"))
    }
}

/// Ends a service as a service manager does; what it printed.
fn end(service: Running) -> String {
    service.signal("-TERM");
    let (status, out) = service.end();
    assert!(status.success(), "{status}: {out}");
    out
}

/// How long a service stands still, in turn: a second, and ten, too, when there is time. Ends when the time is over.
fn stands(what: &str) -> impl Iterator<Item = u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let (soak, seed) = (number("BAREWIRE_SOAK_SECONDS").unwrap_or(0), number("BAREWIRE_SEED").unwrap_or(1));
    println!("{what}: seed {seed}");
    let mut random = Prng::new(seed);
    let end = Instant::now() + Duration::from_secs(soak);
    let first: &[u64] = if soak > 0 { &[1, 10] } else { &[1] };
    let more =
        std::iter::from_fn(move || (Instant::now() < end).then(|| [1, 1, 1, 10][random.below(4) as usize]));
    first.iter().copied().chain(more)
}

fn stand_still(service: &Running, stand: u64) {
    service.signal("-STOP");
    std::thread::sleep(Duration::from_secs(stand));
    service.signal("-CONT");
}

/// A switch of two ports, and the hosts at them.
struct Switch {
    running: Running,
    hosts: [UnixDatagram; 2],
    number: u64,
    folder: Folder,
}

impl Switch {
    fn start(stderr: Stderr) -> Switch {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/programs/stamp_1.json");
        let folder = Folder::new("service-switch");
        let path = |name: String| folder.file(name).display().to_string();
        let ports = [1, 2].map(|n| format!("{n}@unix:{},{}", path(format!("sw{n}")), path(format!("h{n}"))));
        let hosts = [1, 2].map(|n| UnixDatagram::bind(folder.file(format!("h{n}"))).expect("a socket"));
        for host in &hosts {
            host.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
        }
        let program = program.display().to_string();
        let args = ["switch", "run", &program, "-i", &ports[0], "-i", &ports[1], "--thrift-port", "0"];
        let running = stderr.start(&args);
        eventually("its ports are open", || folder.file("sw1").exists() && folder.file("sw2").exists());
        Switch { running, hosts, number: 0, folder }
    }

    fn frame(number: u64) -> [u8; 60] {
        let mut frame = [0x5a; 60];
        // To an address that goes out of port 2, by which it is stamped; an ethertype for experiments.
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
        frame[20..28].copy_from_slice(&number.to_be_bytes());
        frame
    }

    /// Sends so many, as far as the socket takes them; how many that were.
    fn send(&mut self, count: u64) -> u64 {
        for sent in 0..count {
            let frame = Switch::frame(self.number + 1);
            self.hosts[0].set_nonblocking(true).expect("a socket");
            let taken = self.hosts[0].send_to(&frame, self.folder.file("sw1"));
            self.hosts[0].set_nonblocking(false).expect("a socket");
            if taken.is_err() {
                return sent;
            }
            self.number += 1;
        }
        count
    }

    /// The last `count` that were sent come out of port 2, in order.
    fn passes(&self, count: u64, when: &str) {
        for number in self.number - count + 1..=self.number {
            let mut came = [0; 100];
            let len = self.hosts[1].recv(&mut came).unwrap_or_else(|e| panic!("{when}: frame {number}: {e}"));
            assert!(len == 60 && came[12..60] == Switch::frame(number)[12..], "{when}: frame {number}");
        }
    }

    fn forwards(&mut self, when: &str) {
        for _ in 0..100 {
            let sent = self.send(1);
            self.passes(sent, when);
            assert_eq!(sent, 1, "{when}");
        }
    }
}

#[test]
fn a_switch_forwards_without_standard_error() {
    for stderr in BOTH {
        let mut switch = Switch::start(stderr);
        switch.forwards(&format!("{stderr:?}"));
        end(switch.running);
    }
}

#[test]
fn a_switch_stands_still() {
    let mut switch = Switch::start(Stderr::Full);
    switch.forwards("at first");
    for stand in stands("a switch stands still") {
        switch.running.signal("-STOP");
        // As many as the socket holds wait for it.
        let waiting = switch.send(1000);
        assert!(waiting > 0);
        stand_still(&switch.running, stand);
        switch.passes(waiting, &format!("after {stand} s"));
        switch.forwards(&format!("after {stand} s"));
    }
    end(switch.running);
}

/// `rdma serve`, and how its clients reach it.
struct Server {
    running: Running,
    port: String,
    _folder: Folder,
}

impl Server {
    fn start(stderr: Stderr) -> Server {
        let folder = Folder::new("service-rdma");
        let port = |mine: &str, theirs: &str| {
            format!("unix:{},{}", folder.file(mine).display(), folder.file(theirs).display())
        };
        let (ours, theirs) = (port("a", "b"), port("b", "a"));
        let running =
            stderr.start(&["rdma", "serve", "--port", &ours, "--address", "10.77.0.1/24", "--json"]);
        eventually("its port is open", || folder.file("a").exists());
        Server { running, port: theirs, _folder: folder }
    }

    fn client<'a>(&'a self, verb: &'a str, peer: &'a str) -> Vec<&'a str> {
        vec!["rdma", verb, peer, "--port", &self.port, "--address", "10.77.0.2/24"]
    }

    fn perf<'a>(&'a self, operation: &'a str, seconds: &'a str) -> Vec<&'a str> {
        let more = ["-o", operation, "-w", "8", "-S", "5000", "--seconds", seconds, "--json"];
        [&self.client("perf", "10.77.0.1")[..], &more].concat()
    }
}

fn is_right(report: &str) {
    let report: Value = serde_json::from_str(report).expect("JSON");
    assert!(report["wrong"] == 0 && report["operations"].as_u64() > Some(0), "{report}");
}

#[test]
fn rdma_is_served_without_standard_error() {
    for stderr in BOTH {
        let server = Server::start(stderr);
        let (status, out) = stderr.run(&server.perf("write", "0.5"));
        assert!(status.success(), "{stderr:?}: {status}: {out}");
        is_right(&out);
        // An address that nobody has: it is said nowhere, and by the code.
        let nobody = [&server.client("ping", "10.77.0.9")[..], &["-C", "1"]].concat();
        assert_eq!(stderr.run(&nobody).0.code(), Some(1), "{stderr:?}");
        let sums = end(server.running);
        assert!(sums.contains("\"totals\""), "{sums}");
    }
}

/// Connections last as long as their time-outs: whoever waits long enough sees every operation done once; whoever does not is told, and
/// can connect again.
#[test]
fn an_rdma_server_stands_still() {
    let server = Server::start(Stderr::Full);
    for stand in stands("an RDMA server stands still") {
        for operation in ["write", "read", "fetch-add", "send"] {
            let seconds = format!("{}", stand + 1);
            // 2 s for each of eight attempts.
            let patient = ["--ack-timeout", "19", "--patience", "60"];
            let client = Stderr::Full.start(&[&server.perf(operation, &seconds)[..], &patient].concat());
            std::thread::sleep(Duration::from_millis(500));
            stand_still(&server.running, stand);
            let (status, out) = client.end();
            assert!(status.success(), "{operation}, {stand} s: {status}: {out}");
            is_right(&out);
        }
        // 1 ms for the first of eight attempts, and for each twice the one before: a quarter of a second together.
        let hasty = [&server.perf("write", "2")[..], &["--ack-timeout", "8"]].concat();
        let client = Stderr::Full.start(&hasty);
        std::thread::sleep(Duration::from_millis(500));
        stand_still(&server.running, stand);
        // It is told, or its requests waited in a port that was full, which counts no time-outs: then each was done once.
        let (status, out) = client.end();
        match status.code() {
            Some(0) => is_right(&out),
            code => assert_eq!(code, Some(1), "{stand} s: {out}"),
        }
        let (status, out) = Stderr::Full.run(&server.perf("write", "0.3"));
        assert!(status.success(), "after {stand} s: {status}: {out}");
        is_right(&out);
    }
    // It counts the connections that failed, and says so by its code.
    server.running.signal("-TERM");
    let (status, out) = server.running.end();
    assert!(matches!(status.code(), Some(0 | 1)) && out.contains("\"totals\""), "{status}: {out}");
}

/// Whether somebody receives at this UDP port.
fn is_received(udp_port: u16) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/udp").expect("the kernel's table");
    let port = format!(":{udp_port:04X}");
    sockets.lines().filter_map(|line| line.split_whitespace().nth(1)).any(|at| at.ends_with(&port))
}

/// A handler receives the emulated channel on UDP ports and groups of this test's own, and has books that are the truth, whatever is done
/// to it meanwhile.
fn books(stderr: Stderr, number: u16, seconds: u64, meanwhile: impl FnOnce(&Running)) {
    let folder = Folder::new("service-feed");
    let truth = folder.file("truth.jsonl").display().to_string();
    let (first, channel) = (19_300 + 20 * number, (930 + number).to_string());
    let (udp_port, seconds) = (first.to_string(), seconds.to_string());
    let of = ["--interface", "lo", "--channel", &channel, "--udp-port", &udp_port];
    let runs = ["feed", "run", "--counters", "none", "--json", "--truth", &truth];
    let feed = stderr.start(&[&runs[..], &of].concat());
    eventually("it receives", || is_received(first));
    let market = ["feed", "emulate", "--seconds", &seconds, "--events-per-s", "500", "--truth", &truth];
    let market = stderr.start(&[&market[..], &of].concat());
    meanwhile(&feed);
    let (status, _) = market.end();
    assert!(status.success(), "{stderr:?}: {status}");
    std::thread::sleep(Duration::from_millis(500));
    feed.signal("-INT");
    let (status, books) = feed.end();
    // Its code says that each book is the truth.
    assert!(status.success(), "{stderr:?}: {status}: {books}");
    assert_eq!(books.lines().count(), 20, "{stderr:?}");
}

#[test]
fn a_feed_keeps_its_books_without_standard_error() {
    for (number, stderr) in (0..).zip(BOTH) {
        books(stderr, number, 1, |_| {});
    }
}

#[test]
fn a_feed_stands_still() {
    for stand in stands("a feed stands still") {
        books(Stderr::Full, 3, stand + 1, |feed| {
            std::thread::sleep(Duration::from_millis(300));
            stand_still(feed, stand);
        });
    }
}
