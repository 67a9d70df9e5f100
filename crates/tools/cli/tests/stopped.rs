//! Processes that stand still for a second or ten, are hit by signals while they wait, or see the time of day set, with a standard error
//! that takes nothing: two daemons, an application on each, and traffic between them. The judges are invariants: echoes are what was sent,
//! traffic flows again, and in the end everything is given back.
//!
//! Briefly, unless `BAREWIRE_SOAK_SECONDS` says how long each process shall be tormented.

#![allow(clippy::disallowed_methods, reason = "tests give up by the clock")]

#[path = "stopped/clock.rs"]
mod clock;
#[allow(dead_code, reason = "its processes run beside the test")]
mod common;

use barewire_base::Prng;
use barewire_client::{Client, ClientConfig, ConnectOptions, Event, FlowId};
use barewire_testing::{Running, eventually};
use clock::{STEPS_S, WallClock};
use serde_json::Value;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const WINDOW: usize = 8;
const LEN_MAX: u64 = 20_000;
/// Echoes after which traffic flows.
const ROUNDS: u64 = 30;

fn start(args: &[&str], clock: Option<&WallClock>) -> Running {
    // As when the disk that takes the log is full.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = common::barewire(args);
    if let Some(clock) = clock {
        clock.give_to(&mut command);
    }
    Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(full))
}

/// Who is tormented.
#[derive(Clone, Copy, Debug)]
enum Who {
    /// The daemon of the application that asks.
    NearDaemon,
    /// The daemon of the application that echoes.
    FarDaemon,
    /// The application that echoes.
    Application,
}

struct Rig {
    near: Running,
    far: Running,
    echo: Running,
    label: String,
    stop: Arc<AtomicBool>,
    echoes: Arc<AtomicU64>,
    asker: Option<JoinHandle<()>>,
    dir: PathBuf,
}

impl Rig {
    fn start(label: &str, clock: Option<&WallClock>) -> Rig {
        let label = format!("{label}-{}", std::process::id());
        let dir = std::env::temp_dir().join(format!("barewire-stopped-{label}"));
        std::fs::create_dir_all(&dir).unwrap();
        let socket = |host| dir.join(format!("{host}.sock"));
        let daemon = |host: u8| {
            let of = |host: u8| dir.join(format!("{host}.port")).display().to_string();
            let port = format!("unix:{},{}", of(host), of(3 - host));
            let (name, address) = (format!("{label}-{host}"), format!("10.0.0.{host}/24"));
            let socket = socket(host).display().to_string();
            start(&["up", "--port", &port, "--ipv4", &address, "--name", &name, "--socket", &socket], clock)
        };
        let (near, far) = (daemon(1), daemon(2));
        eventually("the far daemon serves", || socket(2).exists());
        let socket_of_far = socket(2).display().to_string();
        let echo = start(&["msg", "listen", "888", "--echo", "--socket", &socket_of_far], clock);
        let (stop, echoes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (until, counted, socket) = (Arc::clone(&stop), Arc::clone(&echoes), socket(1));
        let asker = Some(std::thread::spawn(move || ask(&socket, &until, &counted)));
        Rig { near, far, echo, label, stop, echoes, asker, dir }
    }

    fn of(&self, who: Who) -> &Running {
        match who {
            Who::NearDaemon => &self.near,
            Who::FarDaemon => &self.far,
            Who::Application => &self.echo,
        }
    }

    fn flows(&self, when: &str) {
        let before = self.echoes.load(Ordering::Relaxed);
        eventually(&format!("traffic {when}"), || {
            assert!(!self.asker.as_ref().unwrap().is_finished(), "who asks gave up {when}");
            self.echoes.load(Ordering::Relaxed) >= before + ROUNDS
        });
    }

    /// A gauge of a daemon's only engine.
    fn gauge(&self, host: u8, name: &str) -> u64 {
        let said = common::run(&["stat", "--name", &format!("{}-{host}", self.label), "--json", "--all"]);
        let document: serde_json::Value = serde_json::from_str(&said.out).expect(&said.err);
        let counters = document["counters"].as_object().unwrap();
        let counter = counters.get(name).unwrap_or_else(|| panic!("no counter {name}: {}", said.out));
        counter["value"].as_u64().unwrap()
    }

    /// Who asks stops and leaves, the echo is ended: all is given back, and the daemons end when they are told to.
    fn finish(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.asker.take().unwrap().join().expect("every echo is what was sent");
        self.echo.signal("-TERM");
        for host in [1, 2] {
            for name in [
                "applications.count",
                "applications.recv_bytes_used",
                "applications.promised",
                "applications.waiting",
                "transport.messages_under_way",
                "transport.received_messages",
                "transport.flows",
            ] {
                eventually(&format!("{name} is 0 again"), || self.gauge(host, name) == 0);
            }
        }
        for daemon in [&mut self.near, &mut self.far] {
            daemon.signal("-TERM");
            let mut code = None;
            eventually("a daemon ends", || {
                code = daemon.child.try_wait().unwrap();
                code.is_some()
            });
            assert!(code.unwrap().success(), "{code:?}");
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn bytes(random: &mut Prng) -> Vec<u8> {
    let (first, len) = (random.below(256) as u8, random.below(LEN_MAX) as usize);
    (0..len).map(|i| first.wrapping_add((i / 7) as u8)).collect()
}

/// Sends messages and checks their echoes, over ever new flows where one ends, until the end.
fn ask(socket: &Path, stop: &AtomicBool, echoes: &AtomicU64) {
    let remote = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 888));
    let mut random = Prng::new(1);
    let mut config = ClientConfig::new("asker");
    config.socket = socket.to_path_buf();
    let begin = Instant::now();
    let mut client = loop {
        match Client::attach_with(&config) {
            Ok(client) => break client,
            Err(e) => assert!(begin.elapsed() < PATIENCE, "{e}"),
        }
        sleep(Duration::from_millis(20));
    };
    let (mut flow, mut token, mut asked) = (None::<FlowId>, 0, false);
    let mut sent: VecDeque<Vec<u8>> = VecDeque::new();
    let mut over_since = None;
    loop {
        let is_over = stop.load(Ordering::Relaxed);
        if is_over {
            assert!(over_since.get_or_insert_with(Instant::now).elapsed() < PATIENCE, "echoes do not come");
            if flow.is_none() || sent.is_empty() {
                return;
            }
        }
        if flow.is_none() && !asked {
            token += 1;
            let options = ConnectOptions { token, ..ConnectOptions::default() };
            asked = client.connect(remote, &options).is_ok();
        }
        while let Some(flow) = flow
            && sent.len() < WINDOW
            && !is_over
        {
            let message = bytes(&mut random);
            if client.send(flow, &message).is_err() {
                break;
            }
            sent.push_back(message);
        }
        match client.wait_event(Some(Duration::from_millis(50))).expect("the daemon lives") {
            Some(Event::Connected { flow: new, token: of, .. }) if of == token => flow = Some(new),
            Some(Event::ConnectFailed { token: of, .. }) if of == token => {
                asked = false;
                sleep(Duration::from_millis(20));
            }
            Some(Event::Message(message)) => {
                assert_eq!(Some(message.flow()), flow, "a message of a flow that has ended");
                let expected = sent.pop_front().expect("an echo of something");
                assert!(client.to_vec(&message) == expected, "an echo is not what was sent");
                client.release(message);
                echoes.fetch_add(1, Ordering::Relaxed);
            }
            Some(Event::Closed { flow: of, .. }) if Some(of) == flow => {
                (flow, asked) = (None, false);
                sent.clear();
            }
            _ => {}
        }
    }
}

/// How long it is to last beyond one round, and what is random in it.
fn soak(what: &str) -> (Instant, Prng) {
    let seconds = std::env::var("BAREWIRE_SOAK_SECONDS").ok();
    let soak = Duration::from_secs(seconds.map_or(0, |text| text.parse().expect("a number")));
    let seed = std::env::var("BAREWIRE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    println!("{what}: seed {seed}");
    (Instant::now() + soak, Prng::new(seed))
}

fn torment(who: Who, label: &str) {
    let (end, mut random) = soak(&format!("{who:?}"));
    let rig = Rig::start(label, None);
    rig.flows("at first");
    let mut stands = vec![1, 10];
    loop {
        for stand in stands.drain(..) {
            rig.of(who).signal("-STOP");
            sleep(Duration::from_secs(stand));
            rig.of(who).signal("-CONT");
            rig.flows(&format!("after {who:?} stood still for {stand} s"));
        }
        // Whatever waits in the kernel is interrupted, again and again.
        for _ in 0..50 {
            rig.of(who).signal("-STOP");
            sleep(Duration::from_millis(random.below(5)));
            rig.of(who).signal("-CONT");
            sleep(Duration::from_millis(random.below(5)));
        }
        rig.flows(&format!("after {who:?} was interrupted often"));
        if Instant::now() >= end {
            break;
        }
        stands.push([1, 1, 1, 10][random.below(4) as usize]);
    }
    rig.finish();
}

#[test]
fn the_near_daemon_stands_still() {
    torment(Who::NearDaemon, "near");
}

#[test]
fn the_far_daemon_stands_still() {
    torment(Who::FarDaemon, "far");
}

#[test]
fn an_application_stands_still() {
    torment(Who::Application, "application");
}

/// Under traffic, by hours and years, there and back: no flow ends, and nobody on a message's way asks what time of day it is.
#[test]
fn the_time_of_day_is_set() {
    let Some(clock) = WallClock::new() else { return };
    let (end, mut random) = soak("the time of day");
    let rig = Rig::start("clock", Some(&clock));
    rig.flows("at first");
    let closed = || [1, 2].map(|host| rig.gauge(host, "transport.flows_closed"));
    let (closed_before, (wall, others)) = (closed(), clock.readings());
    assert!(others > 0, "the processes go by another clock");
    loop {
        for by_s in STEPS_S {
            clock.set(by_s);
            rig.flows(&format!("after the time of day was set by {by_s} s"));
        }
        for _ in 0..100 {
            clock.set(STEPS_S[random.below(STEPS_S.len() as u64) as usize]);
            sleep(Duration::from_millis(random.below(5)));
        }
        rig.flows("after the time of day was set often");
        if Instant::now() >= end {
            break;
        }
    }
    assert_eq!(clock.readings().0, wall, "the time of day was asked for under way");
    assert_eq!(closed(), closed_before, "flows ended");
    rig.finish();
}

/// Spans of a row, in ns: what a figure may be made of.
fn spans(name: &str, value: &Value, found: &mut Vec<(String, f64)>) {
    match value {
        Value::Object(fields) => {
            let of = |key: &str| if key.ends_with("_ns") { key.to_owned() } else { name.to_owned() };
            fields.iter().for_each(|(key, value)| spans(&of(key), value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| spans(name, item, found)),
        Value::Number(number)
            if name.ends_with("_ns") && !name.contains("unix") && !name.contains("drift") =>
        {
            found.extend(number.as_f64().map(|ns| (name.to_owned(), ns)));
        }
        _ => {}
    }
}

/// Stops a process for `stand` seconds and interrupts it often then. Whoever waits for it has not waited yet, so that the number is its own.
fn disturb(process: u32, stand: u64, random: &mut Prng) {
    let kill = |name: &str, pause: Duration| {
        let _ = std::process::Command::new("kill")
            .args([name, &process.to_string()])
            .stderr(Stdio::null())
            .status();
        sleep(pause);
    };
    sleep(Duration::from_millis(200 + random.below(400)));
    kill("-STOP", Duration::from_secs(stand));
    for _ in 0..20 {
        kill("-CONT", Duration::from_millis(random.below(5)));
        kill("-STOP", Duration::from_millis(random.below(5)));
    }
    kill("-CONT", Duration::ZERO);
}

/// Each service, measured while the time of day is set all the time and all of it stands still for a second, or ten: every row says that it is
/// void, or its spans are such as can be.
#[test]
fn what_is_measured_while_the_time_of_day_is_set() {
    let Some(clock) = WallClock::new() else { return };
    // Of the kernel's stamps, which are readings of the machine's own clock.
    let sockets = if barewire_testing::is_root() { "mem,socket" } else { "mem" };
    let base = if sockets == "mem" { "app" } else { "app,stamp" };
    let services: [&[&str]; 5] = [
        &["msg", "--over", "mem", "--seconds", "0.3"],
        &["rc", "--one-thread", "--seconds", "0.3"],
        &["rdma", "--seconds", "0.2"],
        &["switch", "--over", "mem", "--seconds", "0.2", "--flows", "100"],
        &[
            "feed",
            "--engine",
            sockets,
            "--base",
            base,
            "--packets",
            "2000",
            "--seconds",
            "0.3",
            "--gap-us",
            "500",
        ],
    ];
    let (end, mut random) = soak("what is measured");
    // A run is over by its own clock after a second: one that stands still for ten is for who has the time.
    let stands: &[u64] = if Instant::now() < end { &[1, 10] } else { &[1] };
    for (service, stand) in
        services.iter().flat_map(|service| stands.iter().map(move |stand| (*service, *stand)))
    {
        let args = [&["bench"], service, &["--runs", "1", "--json"]].concat();
        let mut command = common::barewire(&args);
        let measured =
            clock.give_to(&mut command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut measured = Running::start(measured);
        std::thread::scope(|scope| {
            let (process, mut its) = (measured.child.id(), random.fork());
            scope.spawn(move || disturb(process, stand, &mut its));
            for _ in 0..100 {
                clock.set(STEPS_S[random.below(STEPS_S.len() as u64) as usize]);
                sleep(Duration::from_millis(20));
            }
        });
        let mut err = measured.child.stderr.take().unwrap();
        let err = std::thread::spawn(move || std::io::read_to_string(&mut err));
        let (status, out) = measured.end();
        let err = err.join().unwrap().unwrap();
        // 4: there are void rows.
        assert!(matches!(status.code(), Some(0 | 4)), "{service:?}, {stand} s: {status:?} {err}");
        let document: Value = serde_json::from_str(&out).expect(&err);
        let rows = document["rows"].as_array().unwrap();
        assert!(!rows.is_empty(), "{service:?}");
        for row in rows.iter().filter(|row| row["void"].is_null()) {
            let mut found = vec![];
            spans("", row, &mut found);
            for (name, ns) in found {
                assert!((0.0..600e9).contains(&ns), "{service:?}, {stand} s: {name} is {ns}: {row}");
            }
        }
    }
    assert!(clock.readings().0 > 0, "nobody saw it");
}
