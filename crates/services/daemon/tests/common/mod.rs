//! Two daemons in one process, and what the tests ask of them.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod child_daemon;
pub mod echo;
pub mod rdma;

use barewire_base::Duration as Span;
use barewire_channel::message::{FromApp, FromDaemon, Hello};
use barewire_channel::{AppChannel, ChannelFds, ControlConn, Geometry, VERSION};
use barewire_client::security::{Peer, PrivateKey, Security};
use barewire_client::{Client, ClientConfig, ConnectOptions, Event, FlowId, SendError};
use barewire_daemon::{Config, Daemon};
use barewire_engine::{CountersReader, now};
pub use barewire_testing::{Folder, eventually};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Nothing that works takes so long, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn v4(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

pub fn v6(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host)
}

/// A host of the pair.
pub fn config(dir: &Path, port: &str, host: u8) -> Config {
    let mut config = Config::new(port, v4(host), 24);
    config.interface.ipv6 = vec![(v6(host.into()), 64)];
    config.name = format!("{}-{host}", dir.file_name().unwrap().to_string_lossy());
    config.socket = dir.join(format!("{host}.sock"));
    config
}

/// A host's private key.
pub fn key(host: u8) -> PrivateKey {
    PrivateKey::from_bytes([host; 32])
}

/// The keys of a host that trusts the other one; `known`: at its addresses, else anywhere.
pub fn secure(config: &mut Config, host: u8, known: bool) {
    let other = 3 - host;
    let mut security = Security::new(key(host));
    let addresses = if known {
        vec![IpAddr::from(v4(other)).into(), IpAddr::from(v6(other.into())).into()]
    } else {
        vec![]
    };
    assert!(security.trust(Peer { name: format!("host {other}"), key: key(other).public(), addresses }));
    config.transport.security = Some(Arc::new(security));
}

/// [`secure`] for the host that a configuration of [`config`] is of.
pub fn secure_host(config: &mut Config) {
    let host = config.interface.ipv4[0].0.octets()[3];
    secure(config, host, true);
}

/// Host 1 and host 2, and a cable between them.
pub struct Pair {
    pub a: Daemon,
    pub b: Daemon,
    _dir: Folder,
}

pub fn pair() -> Pair {
    pair_with(|_| {})
}

pub fn pair_with(mut change: impl FnMut(&mut Config)) -> Pair {
    let dir = Folder::new("daemon");
    let port = format!("mem:{}", dir.path().display());
    let mut start = |host| {
        let mut config = config(dir.path(), &port, host);
        change(&mut config);
        Daemon::start(&config).unwrap()
    };
    Pair { a: start(1), b: start(2), _dir: dir }
}

pub fn attach(daemon: &Daemon, name: &str) -> Client {
    attach_with(daemon, name, None)
}

pub fn attach_with(daemon: &Daemon, name: &str, geometry: Option<Geometry>) -> Client {
    attach_to(daemon.socket(), name, geometry).unwrap()
}

pub fn attach_to(
    socket: &Path,
    name: &str,
    geometry: Option<Geometry>,
) -> Result<Client, barewire_client::AttachError> {
    let mut config = ClientConfig::new(name);
    config.socket = socket.to_owned();
    config.geometry = geometry;
    Client::attach_with(&config)
}

/// An application without the library's manners. The connection is its life.
pub fn attach_raw(daemon: &Daemon, geometry: Option<Geometry>) -> (ControlConn, ChannelFds, u32) {
    let control = ControlConn::connect(daemon.socket()).unwrap();
    control.send(&FromApp::Hello(Hello { version: VERSION, name: "raw".into(), geometry }), &[]).unwrap();
    assert!(control.wait_readable(Some(PATIENCE)).unwrap(), "no welcome");
    match control.recv::<FromDaemon>().unwrap().unwrap() {
        (FromDaemon::Welcome(w), fds) => (control, fds.try_into().unwrap(), w.application),
        (other, _) => panic!("{other:?}"),
    }
}

pub fn clone_fds(fds: &ChannelFds) -> ChannelFds {
    let all: Vec<_> = fds.as_fds().iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    all.try_into().unwrap()
}

/// Waits for the next completion of a raw channel.
pub fn completion(channel: &mut AppChannel) -> barewire_channel::Completion {
    channel.flush();
    loop {
        if let Some(completion) = channel.next_completion() {
            return completion.unwrap();
        }
        let woken = channel.wait(Some(PATIENCE)).unwrap();
        assert_eq!(woken, barewire_channel::Wake::Ready, "no completion");
    }
}

/// The next event, which must come.
pub fn next(client: &mut Client) -> Event {
    match client.wait_event(Some(PATIENCE)) {
        Ok(Some(event)) => event,
        other => panic!("instead of an event: {other:?}"),
    }
}

/// The next event that is no leave to send again.
pub fn next_real(client: &mut Client) -> Event {
    loop {
        let event = next(client);
        if !matches!(event, Event::Writable { .. }) {
            return event;
        }
    }
}

/// Whether nothing comes for a while.
pub fn is_quiet(client: &mut Client) -> bool {
    loop {
        match client.wait_event(Some(Duration::from_millis(50))).unwrap() {
            Some(Event::Writable { .. }) => {}
            event => return event.is_none(),
        }
    }
}

/// Sends, taking what comes meanwhile for `other` while there is no room.
pub fn send(client: &mut Client, flow: FlowId, bytes: &[u8], other: &mut dyn FnMut(&mut Client, Event)) {
    loop {
        match client.send(flow, bytes) {
            Ok(()) => return,
            Err(SendError::WouldBlock) => {
                let event = next(client);
                if !matches!(event, Event::Writable { .. }) {
                    other(client, event);
                }
            }
            Err(e) => panic!("{e}"),
        }
    }
}

pub fn to(host: u8, udp_port: u16) -> SocketAddr {
    (v4(host), udp_port).into()
}

pub fn connect(client: &mut Client, to: SocketAddr) -> FlowId {
    client.connect_wait(to, &ConnectOptions { token: 77, ..ConnectOptions::default() }, PATIENCE).unwrap()
}

/// Waits until a client of a listener has connected.
pub fn accept(client: &mut Client) -> FlowId {
    match next(client) {
        Event::Accepted { flow, .. } => flow,
        other => panic!("instead of a connection: {other:?}"),
    }
}

/// A flow between two clients.
pub fn flow(client: &mut Client, server: &mut Client, host: u8, udp_port: u16) -> (FlowId, FlowId) {
    server.listen_wait(udp_port, 0, PATIENCE).unwrap();
    let ours = connect(client, to(host, udp_port));
    (ours, accept(server))
}

/// Takes the next event, which must be a message, and gives its bytes.
pub fn message(client: &mut Client) -> Vec<u8> {
    match next_real(client) {
        Event::Message(m) => {
            let bytes = client.to_vec(&m);
            client.release(m);
            client.flush();
            bytes
        }
        other => panic!("instead of a message: {other:?}"),
    }
}

/// Bytes that tell which message they are of, anywhere in it.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = vec![0xa5; len];
    for chunk in bytes.chunks_mut(8) {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = x.to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}

/// Bytes of a message with a number.
pub const NUMBERED_LEN: usize = 300;

/// A message with its number in front.
pub fn message_of(number: u64) -> Vec<u8> {
    let mut message = pattern(number, NUMBERED_LEN);
    message[..8].copy_from_slice(&number.to_be_bytes());
    message
}

/// The number of such a message, all of which is as it was made.
pub fn number_of(message: &[u8]) -> u64 {
    let number = u64::from_be_bytes(message[..8].try_into().unwrap());
    assert_eq!(message[8..], pattern(number, NUMBERED_LEN)[8..], "message {number} is another");
    number
}

pub fn counters(daemon: &Daemon) -> HashMap<String, u64> {
    let mut reader = CountersReader::open(daemon.counters_path()).unwrap();
    reader.read().unwrap().map(|(name, _, value)| (name.to_owned(), value)).collect()
}

pub fn counter(daemon: &Daemon, name: &str) -> u64 {
    *counters(daemon).get(name).unwrap_or_else(|| panic!("no counter {name}"))
}

/// What all engines of the daemon counted together.
pub fn sum(daemon: &Daemon, name: &str) -> u64 {
    let is_engines = |text: &str| text.strip_suffix(name)?.strip_suffix('.')?.parse::<u8>().ok();
    let all = counters(daemon);
    let mut found = all.iter().filter(|(text, _)| *text == name || is_engines(text).is_some()).peekable();
    assert!(found.peek().is_some(), "no counter {name}");
    found.map(|(_, value)| value).sum()
}

/// Waits until the daemon's gauges say that nobody is there and nothing is left over.
pub fn is_empty_again(daemon: &Daemon) {
    for gauge in [
        "applications.count",
        "applications.recv_bytes_used",
        "applications.promised",
        "applications.waiting",
        "transport.messages_under_way",
        "transport.received_messages",
        "transport.flows",
    ] {
        let mut last = 0;
        eventually(&format!("{gauge} is 0 again"), || {
            last = sum(daemon, gauge);
            last == 0
        });
    }
}

/// Sends every message back until its flow is closed; says how many.
pub fn echo(client: &mut Client) -> u64 {
    let mut echoed = 0;
    let mut held = std::collections::VecDeque::new();
    loop {
        let event = match held.pop_front() {
            Some(event) => event,
            None => next_real(client),
        };
        match event {
            Event::Message(m) => {
                let (flow, bytes) = (m.flow(), client.to_vec(&m));
                client.release(m);
                send(client, flow, &bytes, &mut |_, e| held.push_back(e));
                echoed += 1;
            }
            Event::Closed { .. } => return echoed,
            _ => {}
        }
    }
}

/// Daemons of this process with nothing to do, which sleep but for their timers.
pub fn idles(daemons: &[&Daemon]) {
    // Named for their daemons, whose names begin alike.
    let engines = threads("bw-daemon");
    assert!(engines.len() >= daemons.len(), "{engines:?}");
    let used = || engines.iter().map(|tid| cpu_ns(*tid)).sum::<u64>();
    let all = || daemons.iter().map(|daemon| counters(daemon)).collect::<Vec<_>>();
    let (before, cpu, start) = (all(), used(), now());
    std::thread::sleep(Duration::from_secs(1));
    let (after, cpu, passed) = (all(), used() - cpu, now().since(start));
    // Told, not asserted: where the hypervisor takes a core away, the scheduler books that time to who had it. Cycles count.
    let share = cpu as f64 * 100.0 / passed.as_nanos() as f64;
    println!("idle for {passed}: the daemons used {share:.3} % of a core");
    for (before, after) in before.iter().zip(&after) {
        let grown = |name: &str| after[name] - before[name];
        let (parks, cycles) = (grown("engine.0.parks"), grown("engine.0.cycles"));
        println!("{parks} parks, {cycles} cycles");
        // A parked engine publishes before it sleeps, so that what is read may be a sleep old.
        assert!(
            parks <= cycles && cycles as f64 <= 500.0 * passed.as_secs_f64(),
            "{parks} parks, {cycles} cycles"
        );
        assert!(after["engine.0.parks"] > 0);
    }
}

/// Keeps this core busy.
pub fn spin_for(time: Span) {
    let end = now() + time;
    while now() < end {
        std::hint::spin_loop();
    }
}

/// Plays rounds with engines that go to sleep between them; `round` says how long its answer took. A lost wake-up makes one wait
/// for the engine's next timer, which an open flow has every 67 ms: one in a thousand of them is a fault. A machine that is taken
/// away for as long looks the same, but then a witness that does nothing but sleep a millisecond is late as well, and the round does
/// not count; nor is it so in five attempts out of five. Says how many attempts it took.
pub fn wakeups_are_kept(rounds: u64, mut round: impl FnMut(u64) -> Span) -> u64 {
    const ATTEMPTS: u64 = 5;
    const LATE: Span = Span::from_millis(20);
    // When the witness woke last, and its longest sleep of late.
    let (beat, longest_sleep) = (AtomicU64::new(now().as_nanos()), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    let mut round = |i| {
        longest_sleep.store(0, Ordering::Relaxed);
        let took = round(i);
        let sleeps = now().as_nanos().saturating_sub(beat.load(Ordering::Relaxed));
        let late = sleeps.max(longest_sleep.load(Ordering::Relaxed)) > LATE.as_nanos();
        if late { Span::ZERO } else { took }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
                let (at, before) = (now().as_nanos(), beat.load(Ordering::Relaxed));
                longest_sleep.fetch_max(at - before, Ordering::Relaxed);
                beat.store(at, Ordering::Relaxed);
            }
        });
        // Also when a round panics: the scope waits for the witness.
        let _ends_witness = OnDrop(|| done.store(true, Ordering::Relaxed));
        attempts_until_kept(rounds, ATTEMPTS, &mut round).unwrap_or_else(|| {
            panic!("in each of {ATTEMPTS} attempts, more than one round in a thousand took above 40 ms: wake-ups are lost")
        })
    })
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

fn attempts_until_kept(rounds: u64, attempts: u64, round: &mut dyn FnMut(u64) -> Span) -> Option<u64> {
    for attempt in 1..=attempts {
        let (mut slow, mut longest) = (0, Span::ZERO);
        for i in 0..rounds {
            let took = round(i);
            longest = longest.max(took);
            slow += u64::from(took > Span::from_millis(40));
        }
        println!("attempt {attempt}: {rounds} rounds with pauses, longest {longest}, {slow} above 40 ms");
        if slow <= rounds / 1000 {
            return Some(attempt);
        }
    }
    None
}

/// The scheduler's account of a thread: nanoseconds on a core so far.
pub fn cpu_ns(tid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap();
    text.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

/// The threads of this process whose name is that one's first 15 bytes.
pub fn threads(name: &str) -> Vec<u32> {
    let name = &name[..name.len().min(15)];
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of = |e: &std::fs::DirEntry| std::fs::read_to_string(e.path().join("comm")).unwrap_or_default();
    tasks
        .filter(|e| of(e).trim_end().starts_with(name))
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect()
}
