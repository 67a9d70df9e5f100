//! One end here, the other on another host: the same loops as [`live`], on ports that are named, or the kernel's TCP.

mod kernel;

use super::client::Client;
use super::idle::Idle;
use super::live::{self, Done, FailOnDrop, LiveResult, LiveRun, Over, Shared};
use super::plan::Baseline;
use super::row::{self, MEASURES};
use super::server::Server;
use super::tcp;
use super::wires::Shape;
use crate::cpu::{CpuMeter, End};
use crate::error::{BenchError, go_on};
use crate::row::{Row, Subject};
use crate::talk::At;
use crate::talk::client::{Asked, Peer};
use crate::talk::server::{Desk, Door, beside};
use barewire_base::{Duration, Instant};
use barewire_engine::IdleStrategy;
use barewire_measure::{allowed_cores, stamp};
use barewire_rdma_tools::service_id;
use barewire_verbs::{Device, DeviceConfig};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// Stands for the thread's number in a port's URI.
const THREAD: &str = "%t";
/// Stands for its NIC's number.
const NIC: &str = "%n";
/// Cycles between two looks whether to stop.
const LOOK_EVERY: u32 = 256;

/// What accepts.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// A device for each NIC; each has a thread.
    pub devices: Vec<DeviceConfig>,
    /// The port of the connection manager; 0: any.
    pub service_port: u16,
    /// Each connection has its own completion queue.
    pub own_cq: bool,
    /// The kernel accepts at the devices' addresses; their ports are not opened.
    pub baseline: Option<Baseline>,
    /// Where control connections are.
    pub control: At,
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Connections that were established.
    pub established: u64,
    /// That failed before.
    pub failed: u64,
    /// Frames sent; the kernel's are not counted.
    pub tx_frames: Option<u64>,
}

/// Where a device listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Its port, in words.
    pub description: String,
    /// The port of the connection manager, or of the kernel's TCP. Where 0 was asked for, one that is free.
    pub service_port: u16,
    /// Its address.
    pub ip: IpAddr,
}

/// The port of the connection manager that stands for any. A device of ours has all ports to itself.
const ANY_PORT: u16 = 49_152;

/// What this work is called between the ends.
fn work_of(baseline: Option<Baseline>) -> &'static str {
    match baseline {
        None => "RDMA connections",
        Some(Baseline::KernelTcp) => "connections of the kernel's TCP",
    }
}

/// How an end waits that rests so.
fn waits(strategy: IdleStrategy) -> &'static str {
    Idle::from(strategy).kernel_mode()
}

/// Accepts whoever comes until `stop` is set or the process is [interrupted](crate::interrupt()). Calls `ready` with where each device
/// listens when all do, and with what is to be told of the [control connections](At).
///
/// # Errors
/// What did not open, or no longer works.
pub fn serve(
    config: &ServeConfig,
    ready: &mut dyn FnMut(&[Listening], &str),
    stop: &AtomicBool,
) -> Result<Served, BenchError> {
    let idle = config.devices.first().map_or(IdleStrategy::default(), |device| device.idle);
    let desk = Desk::new(work_of(config.baseline), waits(idle)).counting();
    beside(&desk, config.control, stop, |door| serve_with(config, &desk, door, ready, stop))
}

fn serve_with(
    config: &ServeConfig,
    desk: &Desk,
    door: &Door,
    ready: &mut dyn FnMut(&[Listening], &str),
    stop: &AtomicBool,
) -> Result<Served, BenchError> {
    let (tell, told) = std::sync::mpsc::channel();
    let failed = AtomicBool::new(false);
    let going = || !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) && !crate::interrupted();
    std::thread::scope(|scope| {
        let threads: Vec<_> = config
            .devices
            .iter()
            .map(|device| {
                let (tell, failed, going) = (tell.clone(), &failed, &going);
                scope.spawn(move || {
                    let served = accept(device, config, tell, going, desk);
                    failed.fetch_or(served.is_err(), Ordering::Relaxed);
                    served
                })
            })
            .collect();
        drop(tell);
        // One that could not open has hung up: then fewer tell.
        let listening: Vec<Listening> = told.iter().take(threads.len()).collect();
        if let Some(first) = listening.first().filter(|_| listening.len() == threads.len()) {
            let control = door.open(SocketAddr::new(first.ip, first.service_port));
            ready(&listening, &control);
        }
        let mut sum = Served::default();
        let mut error = None;
        for thread in threads {
            match thread.join().unwrap_or_else(|_| Err(panicked())) {
                Ok(one) => {
                    sum.established += one.established;
                    sum.failed += one.failed;
                    sum.tx_frames = sum.tx_frames.into_iter().chain(one.tx_frames).reduce(|a, b| a + b);
                }
                Err(why) => error = error.or(Some(why)),
            }
        }
        error.map_or(Ok(sum), Err)
    })
}

fn panicked() -> BenchError {
    BenchError::Plan("a thread panicked".to_owned())
}

fn open(config: &DeviceConfig) -> Result<Device, BenchError> {
    let mut config = config.clone();
    live::make_room(&mut config, 0);
    Ok(Device::open(&config)?)
}

fn accept(
    device: &DeviceConfig,
    config: &ServeConfig,
    tell: std::sync::mpsc::Sender<Listening>,
    going: &dyn Fn() -> bool,
    desk: &Desk,
) -> Result<Served, BenchError> {
    if config.baseline.is_some() {
        return kernel::accept(device, config.service_port, tell, going, desk);
    }
    let idle = Idle::from(device.idle);
    let ip = device.interface.addresses().first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let device = open(device)?;
    let description = device.stack().port().caps().description.clone();
    let service_port = if config.service_port == 0 { ANY_PORT } else { config.service_port };
    let mut server = Server::of_service(device, config.own_cq, service_id(service_port))?;
    let _ = tell.send(Listening { description, service_port, ip });
    drop(tell);
    let mut counted = 0;
    while going() {
        for _ in 0..LOOK_EVERY {
            let now = stamp();
            if server.cycle(now)? == 0 {
                server.rest(idle, now);
                break;
            }
        }
        let done = server.established + server.failed;
        if done != counted {
            desk.did(done - counted);
            counted = done;
        }
    }
    let tx_frames = Some(server.tx_frames());
    Ok(Served { established: server.established, failed: server.failed, tx_frames })
}

/// What connects.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// Our device: its port may contain `%t`, the thread's number, and `%n`, its NIC's. Addresses are those of `addresses`.
    pub device: DeviceConfig,
    /// Our address on each NIC's network. Threads beyond the first of a NIC have those that follow.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The server's address on each NIC's network: as many as NICs.
    pub servers: Vec<IpAddr>,
    /// The port of the connection manager.
    pub service_port: u16,
    /// Threads, each with an engine and a port of its own.
    pub threads: u32,
    /// Hosts that do the same at the same time, this one included, for the row.
    pub hosts: u32,
    /// Connections in flight of each thread.
    pub window: u32,
    /// Each is closed at once.
    pub teardown: bool,
    /// Each has its own completion queue.
    pub own_cq: bool,
    /// Measured time of a run.
    pub duration: Duration,
    /// Time before it.
    pub warmup: Duration,
    /// Runs.
    pub runs: u32,
    /// Time the steps of a connection, too: with one thread, and a server that says where its memory is.
    pub steps: bool,
    /// The kernel connects, from whatever address it chooses; no port is opened.
    pub baseline: Option<Baseline>,
    /// Where the server's control connections are.
    pub control: At,
    /// The command, for the row.
    pub command: String,
}

impl ConnectConfig {
    /// Checks what can be checked before a port is opened.
    ///
    /// # Errors
    /// [`BenchError::Plan`] in words.
    pub fn check(&self) -> Result<(), BenchError> {
        use super::plan::{HOSTS_MAX, THREADS_MAX, WINDOW_MAX};
        let refuse = |why: String| Err(BenchError::Plan(why));
        for (option, value, max) in [
            ("--threads", self.threads, THREADS_MAX),
            ("--hosts", self.hosts, HOSTS_MAX),
            ("--window", self.window, WINDOW_MAX),
            ("--nics", self.servers.len() as u32, self.threads),
        ] {
            if !(1..=max).contains(&value) {
                return refuse(format!("`{option} {value}` is out of range: 1 to {max}"));
            }
        }
        if self.runs == 0 || self.duration == Duration::ZERO {
            return refuse("a run needs some time, and there must be one".to_owned());
        }
        if self.baseline.is_some() {
            return match self.window {
                _ if self.steps => refuse("the steps of the kernel's connections are not timed".to_owned()),
                _ if !self.teardown => refuse("the kernel's connections are closed at once".to_owned()),
                window if window > tcp::WINDOW_MAX => {
                    refuse(format!("the kernel's baseline has at most {} in flight", tcp::WINDOW_MAX))
                }
                _ => Ok(()),
            };
        }
        if self.addresses.len() != self.servers.len() {
            return refuse(format!(
                "{} addresses of ours and {} of the server's: one of each for each NIC",
                self.addresses.len(),
                self.servers.len()
            ));
        }
        if self.steps && self.threads > 1 {
            return refuse("steps are timed in one thread".to_owned());
        }
        Ok(())
    }

    /// Who tells the server's CPU. Where closing is not counted nobody is asked: parts of a run say nothing of the others.
    fn asked(&self) -> Asked {
        let ip = self.servers.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let why = "closing is not counted, and connections close in between";
        Asked {
            at: self.control,
            measured: SocketAddr::new(ip, self.service_port),
            work: work_of(self.baseline).to_owned(),
            waits: waits(self.device.idle).to_owned(),
            missing: (!self.teardown).then(|| why.to_owned()),
        }
    }

    fn nics(&self) -> u32 {
        self.servers.len() as u32
    }

    /// The device of a thread.
    fn device_of(&self, thread: u32) -> DeviceConfig {
        let nic = thread % self.nics();
        let (first, prefix_len) = self.addresses[nic as usize];
        let address = following(first, thread / self.nics());
        let mut config = self.device.clone();
        let interface = &mut config.interface;
        interface.port = interface.port.replace(THREAD, &thread.to_string()).replace(NIC, &nic.to_string());
        (interface.ipv4, interface.ipv6) = (Vec::new(), Vec::new());
        interface.add_address(address, prefix_len);
        config
    }

    /// Of the row: system, mode, and what lies between the ends.
    fn names(&self) -> (&str, &str, &str) {
        match self.baseline {
            None => {
                ("barewire", "embedded", self.device.interface.port.split(':').next().unwrap_or_default())
            }
            Some(Baseline::KernelTcp) => {
                ("kernel-tcp", Idle::from(self.device.idle).kernel_mode(), "network")
            }
        }
    }
}

/// The address `n` after.
fn following(address: IpAddr, n: u32) -> IpAddr {
    match address {
        IpAddr::V4(ip) => std::net::Ipv4Addr::from(u32::from(ip).wrapping_add(n)).into(),
        IpAddr::V6(ip) => std::net::Ipv6Addr::from(u128::from(ip).wrapping_add(n.into())).into(),
    }
}

/// Connects. `report` gets a line a second.
///
/// # Errors
/// [`BenchError`]: what did not open, a server that does not answer.
pub fn connect(config: &ConnectConfig, report: &mut (dyn FnMut(String) + Send)) -> Result<Row, BenchError> {
    config.check()?;
    if config.baseline.is_some() {
        kernel::probe(config)?;
    }
    let (mut asked, mut runs) = (config.asked(), Vec::new());
    for number in 0..config.runs {
        go_on()?;
        let result = one_run(config, number == 0, &mut asked, report)?;
        asked.remember(result.other_end.as_ref());
        // Both ends' frames are what the table means; ours alone would mislead.
        runs.push(LiveResult { frames_per_connection: None, ..result }.measured());
    }
    let (system, mode, over) = config.names();
    let shape = Shape { hosts: config.hosts, threads: config.threads, nics: config.nics() };
    let own_cq = config.baseline.is_none().then_some(config.own_cq);
    let subject = Subject {
        bench: "rc",
        system: system.to_owned(),
        mode: Some(mode.to_owned()),
        over: Some(over.to_owned()),
        params: row::params(shape, config.window, config.teardown, 0, own_cq),
        // The other host's cores are as its user left them.
        idle_state: None,
        command: config.command.clone(),
        ..Subject::default()
    };
    let mut row = Row::of(subject, MEASURES, &runs);
    row.notes.insert(0, "the server is on another host".to_owned());
    let cores = allowed_cores().map_or(1, |cores| cores.len());
    if config.threads as usize > cores {
        row.notes.push(format!("{} threads on {cores} cores", config.threads));
    }
    let kernel = config.baseline.map(|_| config.window);
    row::judge(&mut row, config.threads * config.window, config.teardown, kernel);
    Ok(row)
}

fn one_run(
    config: &ConnectConfig,
    first: bool,
    asked: &mut Asked,
    report: &mut (dyn FnMut(String) + Send),
) -> Result<LiveResult, BenchError> {
    let shared = Shared::of(config.threads, CpuMeter::with_peer(Peer::open(asked).0));
    let run = LiveRun {
        // Only for what is made here: the wires are there.
        over: Over::Packet,
        shape: Shape { hosts: 1, threads: config.threads, nics: config.nics() },
        one_thread: false,
        window: config.window,
        teardown: config.teardown,
        live: 0,
        own_cq: config.own_cq,
        warmup: config.warmup,
        duration: config.duration,
        cores: None,
        idle: Some(config.device.idle),
        steps: config.steps && first,
    };
    let (run, shared) = (&run, &shared);
    std::thread::scope(|scope| {
        let of_number = move |number| match config.baseline {
            None => one_thread(config, run, number, shared),
            Some(Baseline::KernelTcp) => kernel::one_thread(config, number, shared),
        };
        let threads: Vec<_> = (0..config.threads).map(|n| scope.spawn(move || of_number(n))).collect();
        live::watch(run, shared, report);
        let mut sum = LiveResult::default();
        let mut error: Option<BenchError> = None;
        for thread in threads {
            match thread.join().unwrap_or_else(|_| Err(panicked())) {
                Ok(result) => sum.add(result),
                // The one that failed first explains the others, which only heard that one did.
                Err(why) => {
                    let better = !matches!(why, BenchError::Plan(_));
                    if error.is_none() || better {
                        error = Some(why);
                    }
                }
            }
        }
        sum.divide_cpu(&shared.cpu, config.threads * config.window);
        error.map_or(Ok(sum), Err)
    })
}

/// The first client reads the CPU of all at its end: a thread that is gone has none to tell.
fn last_look(config: &ConnectConfig, shared: &Shared) -> Result<(), BenchError> {
    shared.clients.arrive();
    shared.clients.pass(2 * config.threads)
}

fn one_thread(
    config: &ConnectConfig,
    run: &LiveRun,
    number: u32,
    shared: &Shared,
) -> Result<LiveResult, BenchError> {
    let _done = Done(&shared.done);
    let mut tells = FailOnDrop(&shared.clients, false);
    let device_config = config.device_of(number);
    let idle = Idle::from(device_config.idle);
    let device = open(&device_config)?;
    let mut other = |_: Instant| shared.clients.check();
    let server = config.servers[(number % config.nics()) as usize];
    let mut client = Client::new(device, server, config.own_cq, idle, &mut other)?
        .of_service(service_id(config.service_port));
    shared.cpu.joins(End::Client);
    shared.clients.arrive();
    shared.clients.pass(config.threads)?;
    let result = live::measure(run, number, &mut client, idle, 0, shared, &mut other)?;
    last_look(config, shared)?;
    tells.1 = true;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patience::until_seen;

    fn device(port: &str, address: [u8; 4]) -> DeviceConfig {
        let mut config = DeviceConfig::new(port, IpAddr::from(address));
        config.interface.ipv4 = vec![(Ipv4Addr::from(address), 24)];
        config.idle = barewire_engine::IdleStrategy::default();
        config
    }

    fn config() -> ConnectConfig {
        ConnectConfig {
            device: device("mem:rate-remote-%n-%t", [0, 0, 0, 0]),
            addresses: vec![(IpAddr::from([10, 9, 0, 1]), 24), (IpAddr::from([10, 9, 1, 1]), 24)],
            servers: vec![IpAddr::from([10, 9, 0, 200]), IpAddr::from([10, 9, 1, 200])],
            service_port: 7174,
            threads: 5,
            hosts: 2,
            window: 4,
            teardown: true,
            own_cq: true,
            duration: Duration::from_millis(200),
            warmup: Duration::from_millis(20),
            runs: 2,
            steps: false,
            baseline: None,
            control: At::Nowhere,
            command: "barewire rdma connect".to_owned(),
        }
    }

    #[test]
    fn threads_have_ports_and_addresses_of_their_own() {
        let config = config();
        let of: Vec<(String, String)> = (0..5)
            .map(|n| {
                let device = config.device_of(n);
                (device.interface.port.clone(), device.interface.ipv4[0].0.to_string())
            })
            .collect();
        let want = [
            ("mem:rate-remote-0-0", "10.9.0.1"),
            ("mem:rate-remote-1-1", "10.9.1.1"),
            ("mem:rate-remote-0-2", "10.9.0.2"),
            ("mem:rate-remote-1-3", "10.9.1.2"),
            ("mem:rate-remote-0-4", "10.9.0.3"),
        ];
        assert_eq!(of, want.map(|(port, ip)| (port.to_owned(), ip.to_owned())));
        let high = following("fd00::ff".parse().unwrap(), 2);
        assert_eq!(high.to_string(), "fd00::101");
    }

    #[test]
    fn what_cannot_be_is_refused_first() {
        let why = |change: fn(&mut ConnectConfig)| {
            let mut config = config();
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert!(why(|c| c.threads = 0).contains("--threads 0"));
        assert!(why(|c| c.threads = 1).contains("--nics 2"));
        assert!(why(|c| c.addresses.truncate(1)).contains("one of each"));
        assert!(why(|c| c.runs = 0).contains("must be one"));
        assert!(why(|c| c.steps = true).contains("one thread"));
        let kernel = |change: fn(&mut ConnectConfig)| {
            let mut config = ConnectConfig {
                baseline: Some(Baseline::KernelTcp),
                addresses: Vec::new(),
                threads: 2,
                ..config()
            };
            change(&mut config);
            config.check().map_err(|e| e.to_string())
        };
        assert_eq!(kernel(|_| {}), Ok(()), "it chooses its address itself");
        assert!(kernel(|c| (c.threads, c.steps, c.servers) = (1, true, vec![c.servers[0]])).is_err());
        assert!(kernel(|c| c.teardown = false).unwrap_err().contains("closed at once"));
        assert!(kernel(|c| c.window = 1000).unwrap_err().contains("at most 256"));
    }

    #[test]
    fn the_kernel_takes_the_place_of_the_ports_at_both_ends() {
        let baseline = Some(Baseline::KernelTcp);
        let config = ConnectConfig {
            baseline,
            addresses: Vec::new(),
            servers: vec![IpAddr::from([127, 0, 0, 1])],
            // Nobody listens there.
            service_port: 1,
            threads: 2,
            ..config()
        };
        let nobody = connect(&config, &mut |_| {}).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(nobody.contains("127.0.0.1:1"), "{nobody}");
        let listening = device("nothing:x", [127, 0, 0, 1]);
        let control = At::Beside;
        let serving =
            ServeConfig { devices: vec![listening], service_port: 0, own_cq: true, baseline, control };
        let stop = AtomicBool::new(false);
        let (tell, told) = std::sync::mpsc::channel();
        let (served, row) = std::thread::scope(|scope| {
            let server =
                scope.spawn(|| serve(&serving, &mut |ports, _| tell.send(ports.to_vec()).unwrap(), &stop));
            let ports = told.recv().unwrap();
            // The kernel's choice: one that was free a moment ago may be another's by now.
            let service_port = ports[0].service_port;
            let at = format!("none: the kernel's TCP at 127.0.0.1:{service_port}");
            assert!(service_port != 0 && ports[0].description == at, "{ports:?}");
            let connected = until_seen(
                config.duration,
                |duration| connect(&ConnectConfig { duration, service_port, ..config.clone() }, &mut |_| {}),
                |row| row.as_ref().map_or(true, |row| row.number("opened") > Some(0.0)),
            );
            stop.store(true, Ordering::Relaxed);
            (server.join().unwrap().unwrap(), connected.unwrap())
        });
        let who = (row.subject.system.as_str(), row.subject.over.as_deref(), row.param("own_cq"));
        assert_eq!(who, ("kernel-tcp", Some("network"), Some("off".to_owned())));
        let opened = row.number("opened").unwrap() as u64;
        assert_eq!(
            (row.number("failed"), row.runs.len(), row.number("frames_per_connection")),
            (Some(0.0), 2, None)
        );
        assert!(opened > 0 && served.established >= opened, "{row:?} {served:?}");
        assert_eq!((row.samples(), served.tx_frames), (Some(opened), None));
    }

    /// Two threads here, a server with two NICs there, between them memory links.
    #[test]
    fn both_ends_meet_over_named_ports() {
        let serving = ServeConfig {
            devices: vec![
                device("mem:rate-remote-0-0", [10, 9, 0, 200]),
                device("mem:rate-remote-1-1", [10, 9, 1, 200]),
            ],
            // Any: both ends learn which.
            service_port: 0,
            own_cq: true,
            baseline: None,
            control: At::Nowhere,
        };
        // Both ends each time: the names are free again when both are closed.
        let meet = |duration| {
            let stop = AtomicBool::new(false);
            let connecting = ConnectConfig { threads: 2, runs: 1, duration, ..config() };
            let (tell, told) = std::sync::mpsc::channel();
            let (served, connected) = std::thread::scope(|scope| {
                let server = scope
                    .spawn(|| serve(&serving, &mut |ports, _| tell.send(ports.to_vec()).unwrap(), &stop));
                let ports = told.recv().unwrap();
                let service_port = ports[0].service_port;
                assert!(
                    service_port != 0 && ports.iter().all(|p| p.service_port == service_port),
                    "{ports:?}"
                );
                assert_eq!(ports.len(), 2);
                let connected = connect(&ConnectConfig { service_port, ..connecting }, &mut |_| {});
                stop.store(true, Ordering::Relaxed);
                (server.join().unwrap(), connected)
            });
            (served.unwrap(), connected.unwrap())
        };
        let went_well = |row: &Row| row.void.is_none() && row.number("failed") == Some(0.0);
        let (served, row) = until_seen(config().duration, meet, |(_, row)| went_well(row));
        assert!(went_well(&row), "{row:?}");
        let shape = ["hosts", "threads", "nics"].map(|key| row.param(key).unwrap());
        assert_eq!(shape, ["2", "2", "2"]);
        let opened = row.number("opened").unwrap() as u64;
        assert!(opened > 0 && served.established >= opened, "{row:?} {served:?}");
        assert!(row.samples() > Some(0), "{row:?}");
        assert!(row.number("connections_per_s") > Some(0.0), "{row:?}");
    }

    #[test]
    fn a_port_that_does_not_open_ends_both_ends() {
        let bad = ServeConfig {
            devices: vec![
                device("mem:rate-remote-good", [10, 9, 0, 200]),
                device("nothing:x", [10, 9, 0, 201]),
            ],
            service_port: 7174,
            own_cq: true,
            baseline: None,
            control: At::Nowhere,
        };
        assert!(serve(&bad, &mut |_, _| panic!("not ready"), &AtomicBool::new(false)).is_err());
        let mut config = ConnectConfig { threads: 2, ..config() };
        config.device.interface.port = "nothing:%t".to_owned();
        assert!(connect(&config, &mut |_| {}).is_err());
    }
}
