//! Two hosts with a wire that can be taken away, a daemon on each, two applications with load on each daemon, and RDMA operations where
//! they are wanted.

use super::operations;
use crate::common::{Folder, PATIENCE, attach_to, config, counters, eventually, pattern, v4};
use barewire_base::Prng;
use barewire_channel::Geometry;
use barewire_client::{Client, ConnectOptions, Event, FlowId, SendError, WaitError};
use barewire_daemon::Daemon;
use barewire_netns::{LinkConfig, Namespace, VethPair, is_root_capable};
use barewire_testing::{Needs, have};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Applications on each daemon.
const APPLICATIONS: u16 = 2;
/// Messages of one application under way at once.
const WINDOW: usize = 8;
const LEN_MAX: u64 = 20_000;
/// Rounds after which traffic flows.
const ROUNDS: u64 = 30;
/// Where RDMA connections are asked for.
const SERVICE: u64 = 77;
/// Frames that an engine keeps at hand to receive into or to fill next.
const AT_HAND: u64 = 70;
/// Duty cycles of an engine with nothing to do but timers and attempts, in a second, at most. One that spins has hundreds of
/// thousands.
const CYCLES_MAX: u64 = 60_000;

/// A kind of port, and what is to be done with it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub name: &'static str,
    pub scheme: &'static str,
    pub options: &'static str,
    pub engines: u8,
    /// Of the interface, each way.
    pub queues: u32,
    pub vlan: Option<u16>,
    pub mtu: u32,
    pub chunk_len: u32,
    /// RDMA operations beside the messages.
    pub rdma: bool,
}

pub const PACKET: Kind = Kind {
    name: "packet",
    scheme: "packet",
    options: "",
    engines: 1,
    queues: 1,
    vlan: None,
    mtu: 1500,
    chunk_len: 2048,
    rdma: false,
};

/// Says loudly when the machine cannot.
pub fn is_able() -> bool {
    have(Needs::Root, is_root_capable()).is_some()
}

pub struct Rig {
    pub kind: Kind,
    pub macs: [[u8; 6]; 2],
    daemons: [Option<Daemon>; 2],
    free: [u64; 2],
    stop: Arc<AtomicBool>,
    rounds: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
    namespaces: [Namespace; 2],
    dir: Folder,
}

impl Rig {
    pub fn new(kind: Kind) -> Rig {
        let mut rig = Rig {
            kind,
            macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            daemons: [None, None],
            free: [0; 2],
            stop: Arc::default(),
            rounds: Vec::new(),
            threads: Vec::new(),
            namespaces: [Namespace::anonymous().unwrap(), Namespace::anonymous().unwrap()],
            dir: Folder::new("daemon"),
        };
        rig.make_wire(Some(rig.macs));
        for host in 0..2 {
            rig.start(host);
            eventually("the gauges are there", || rig.sum(host, "pool.frames_free") > 0);
            rig.free[host] = rig.sum(host, "pool.frames_free");
        }
        for n in 0..APPLICATIONS {
            let rounds = Arc::new(AtomicU64::new(0));
            rig.rounds.push(Arc::clone(&rounds));
            let (stop, socket) = (Arc::clone(&rig.stop), rig.socket(1));
            rig.threads.push(std::thread::spawn(move || serve(&socket, 900 + n, &stop)));
            let (stop, socket) = (Arc::clone(&rig.stop), rig.socket(0));
            rig.threads.push(std::thread::spawn(move || ask(&socket, 900 + n, &stop, &rounds)));
        }
        if kind.rdma {
            let rounds = Arc::new(AtomicU64::new(0));
            rig.rounds.push(Arc::clone(&rounds));
            let (stop, socket) = (Arc::clone(&rig.stop), rig.socket(1));
            rig.threads.push(std::thread::spawn(move || operations::serve(&socket, SERVICE, &stop)));
            let (stop, socket) = (Arc::clone(&rig.stop), rig.socket(0));
            rig.threads.push(std::thread::spawn(move || {
                let failed = operations::ask(&socket, SERVICE, &stop, &rounds);
                println!("{}: {failed} RDMA connections failed", kind.name);
            }));
        }
        rig
    }

    fn socket(&self, host: usize) -> PathBuf {
        self.dir.file(format!("{}.sock", host + 1))
    }

    /// Starts the daemon of a host.
    pub fn start(&mut self, host: usize) {
        let kind = self.kind;
        let port = format!("{}:eth0{}", kind.scheme, kind.options);
        let mut config = config(self.dir.path(), &port, host as u8 + 1);
        (config.engines, config.interface.vlan) = (kind.engines, kind.vlan);
        config.interface.mtu = kind.mtu as u16;
        config.pool.chunk_len = kind.chunk_len;
        config.channel = geometry();
        config.idle = "park:5us".parse().unwrap();
        config.rdma.enabled = kind.rdma;
        let started = self.namespaces[host].enter(|| Daemon::start(&config)).unwrap();
        self.daemons[host] = Some(started.unwrap_or_else(|e| panic!("{}: {e}", kind.name)));
    }

    /// Waits until a daemon has ended by itself: why.
    pub fn ends(&mut self, host: usize) -> String {
        eventually("it ends", || self.daemon(host).stop_flag().is_stopped());
        let daemon = self.daemons[host].take().expect("it ran");
        daemon.wait().expect_err("it did not say why").to_string()
    }

    /// The MTU of which a daemon tells applications that attach now.
    pub fn welcomed_mtu(&self, host: usize) -> u32 {
        attach_to(&self.socket(host), "asks for the MTU", Some(geometry())).unwrap().mtu()
    }

    pub fn make_wire(&self, macs: Option<[[u8; 6]; 2]>) {
        let [a, b] = &self.namespaces;
        let config = LinkConfig {
            mtu: self.kind.mtu,
            queues: self.kind.queues,
            mac_a: macs.map(|m| m[0]),
            mac_b: macs.map(|m| m[1]),
            ..LinkConfig::default()
        };
        VethPair::create(a, "eth0", b, "eth0", &config).unwrap();
        a.set_up("eth0").unwrap();
        b.set_up("eth0").unwrap();
    }

    pub fn remove_wire(&self) {
        self.namespaces[0].delete_link("eth0").unwrap();
    }

    /// Runs `ip` on a host.
    pub fn ip(&self, host: usize, args: &[&str]) {
        let out = self.namespaces[host].enter(|| Command::new("ip").args(args).output().unwrap()).unwrap();
        assert!(out.status.success(), "ip {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }

    fn daemon(&self, host: usize) -> &Daemon {
        self.daemons[host].as_ref().expect("it runs")
    }

    /// A counter of a daemon, over all its engines.
    pub fn sum(&self, host: usize, name: &str) -> u64 {
        let all = counters(self.daemon(host));
        let of = |n: &str| {
            n == name || n.split_once('.').is_some_and(|(engine, rest)| rest == name && engine.len() < 3)
        };
        let values: Vec<u64> = all.iter().filter(|(n, _)| of(n)).map(|(_, value)| *value).collect();
        assert!(!values.is_empty(), "no counter {name}");
        values.iter().sum()
    }

    /// Both daemons' engines sleep most of the time, though applications have something to send and cannot.
    pub fn nobody_spins(&self) {
        let cycles = || {
            let of = |host| counters(self.daemon(host)).into_iter();
            let all = of(0).chain(of(1)).filter(|(name, _)| name.ends_with(".cycles"));
            all.map(|(_, value)| value).sum::<u64>()
        };
        let (before, begin) = (cycles(), Instant::now());
        std::thread::sleep(Duration::from_millis(200));
        let (grown, took) = (cycles() - before, begin.elapsed());
        let most = CYCLES_MAX as f64 * took.as_secs_f64() * f64::from(2 * self.kind.engines);
        assert!((grown as f64) < most, "{grown} duty cycles in {took:?} while nothing could be sent");
    }

    /// Waits until every application has had rounds again; how long that took.
    pub fn flows(&self, when: &str) -> Duration {
        let begin = Instant::now();
        for (n, rounds) in self.rounds.iter().enumerate() {
            let before = rounds.load(Ordering::Relaxed);
            eventually(&format!("{}: traffic of application {n} {when}", self.kind.name), || {
                let broken = self.threads.iter().any(JoinHandle::is_finished);
                assert!(!broken, "{}: an application gave up {when}", self.kind.name);
                rounds.load(Ordering::Relaxed) >= before + ROUNDS
            });
        }
        begin.elapsed()
    }

    /// Ends the applications and looks whether anything is left over; then the daemons.
    pub fn finish(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("an application");
        }
        for host in 0..2 {
            for gauge in [
                "applications.count",
                "applications.recv_bytes_used",
                "applications.promised",
                "applications.waiting",
                "transport.messages_under_way",
                "transport.received_messages",
                "transport.flows",
            ] {
                eventually(&format!("{gauge} is 0 again"), || self.sum(host, gauge) == 0);
            }
            if self.kind.rdma {
                for gauge in ["rdma.objects", "rdma.queue_pairs", "rdma.open_connections", "rdma.waiting"] {
                    eventually(&format!("{gauge} is 0 again"), || self.sum(host, gauge) == 0);
                }
            }
            let least =
                self.free[host] - AT_HAND * u64::from(self.kind.engines) * u64::from(self.kind.queues);
            eventually("all frames are back", || self.sum(host, "pool.frames_free") >= least);
        }
        for daemon in &mut self.daemons {
            daemon.take().expect("it runs").stop().unwrap_or_else(|e| panic!("{}: {e}", self.kind.name));
        }
    }
}

fn geometry() -> Geometry {
    Geometry { send_bytes: 1 << 20, recv_bytes: 1 << 20, sq_entries: 256, cq_entries: 1024 }
}

/// Attaches as soon as there is a daemon; `None` when that is no longer wanted.
fn attach(socket: &Path, name: &str, stop: &AtomicBool) -> Option<Client> {
    while !stop.load(Ordering::Relaxed) {
        if let Ok(client) = attach_to(socket, name, Some(geometry())) {
            return Some(client);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// The next event, or none in a while; `Err`: the daemon is gone.
fn event(client: &mut Client) -> Result<Option<Event>, WaitError> {
    client.wait_event(Some(Duration::from_millis(50)))
}

/// Echoes whatever comes, through the deaths of daemons, until the end.
fn serve(socket: &Path, udp_port: u16, stop: &AtomicBool) {
    while let Some(mut client) = attach(socket, "server", stop) {
        if client.listen_wait(udp_port, 0, PATIENCE).is_err() {
            continue;
        }
        let mut echoes: VecDeque<(FlowId, Vec<u8>)> = VecDeque::new();
        while !stop.load(Ordering::Relaxed) {
            match event(&mut client) {
                Ok(Some(Event::Message(message))) => {
                    echoes.push_back((message.flow(), client.to_vec(&message)));
                    client.release(message);
                }
                Ok(_) => {}
                Err(_) => break,
            }
            while let Some((flow, bytes)) = echoes.front() {
                // What goes to a flow that has ended goes nowhere.
                if client.send(*flow, bytes) == Err(SendError::WouldBlock) {
                    break;
                }
                echoes.pop_front();
            }
        }
    }
}

/// Sends messages and checks their echoes, over ever new flows where one ends, until the end.
fn ask(socket: &Path, udp_port: u16, stop: &AtomicBool, rounds: &AtomicU64) {
    let remote = SocketAddr::from((v4(2), udp_port));
    let mut random = Prng::new(u64::from(udp_port));
    let mut token = 0;
    while let Some(mut client) = attach(socket, "client", stop) {
        let mut flow = None;
        let mut asked = false;
        let mut sent: VecDeque<Vec<u8>> = VecDeque::new();
        loop {
            let is_over = stop.load(Ordering::Relaxed);
            if is_over && (flow.is_none() || sent.is_empty()) {
                return;
            }
            if flow.is_none() && !asked {
                token += 1;
                let options = ConnectOptions { token, ..ConnectOptions::default() };
                asked = client.connect(remote, &options).is_ok();
            }
            if let Some(flow) = flow {
                while sent.len() < WINDOW && !is_over {
                    let message = pattern(random.below(u64::MAX), random.below(LEN_MAX) as usize);
                    if client.send(flow, &message).is_err() {
                        break;
                    }
                    sent.push_back(message);
                }
            }
            match event(&mut client) {
                Ok(Some(Event::Connected { flow: new, token: of, .. })) if of == token => flow = Some(new),
                Ok(Some(Event::ConnectFailed { token: of, .. })) if of == token => asked = false,
                Ok(Some(Event::Message(message))) => {
                    assert_eq!(Some(message.flow()), flow, "a message of a flow that has ended");
                    let expected = sent.pop_front().expect("an echo of something");
                    assert!(client.to_vec(&message) == expected, "an echo is not what was sent");
                    client.release(message);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Some(Event::Closed { flow: of, .. })) if Some(of) == flow => {
                    (flow, asked) = (None, false);
                    sent.clear();
                }
                Ok(_) => {}
                // The daemon is gone; another may come.
                Err(_) => break,
            }
        }
    }
}
