//! One run: devices in threads, connections between them, timed.

use super::StepSpans;
use super::client::{Client, Counted, Until};
use super::idle::Idle;
use super::server::Server;
use super::windows::{Window, length};
use super::wires::{self, Hosts, Shape};
use crate::cpu::{CpuMeter, CpuUse, End};
use crate::error::{BenchError, go_on};
use crate::talk::client::OtherEnd;
use barewire_base::{Duration, Instant};
use barewire_engine::{IdleStrategy, open_port, target_on};
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_measure::{Contention, ContentionReport, Histogram, common_windows, pin_to_core, stamp};
use barewire_port::{MemoryConfig, MemoryEnd, MemoryLink, Port, PortUri, SLOTS_DEFAULT};
use barewire_verbs::{Device, DeviceConfig, OpenError};
use std::cell::{Cell, RefCell};
use std::net::Ipv4Addr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Connections that are opened before they are closed again, where closing is not part of it.
const OPEN_MOST: usize = 100_000;
/// Connections in flight while those are opened that stay.
const OPEN_WINDOW: u32 = 64;
/// Time that is not counted, so that memory and caches are warm.
pub(super) const WARMUP: Duration = Duration::from_millis(200);
/// Clients that measured at the same time for less than this share of it cannot be added up.
const COMMON_MIN: f64 = 0.95;
/// Time in which connections are made one by one, each step timed.
const STEPS_TIME: Duration = Duration::from_millis(300);
/// Time between two lines that say how fast it goes.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Queue pairs beyond those that stay: in flight, and on their way out.
const SPARE_QPS: usize = 1 << 18;
/// Bytes of a frame of the connection manager over IPv4, from the Ethernet header to the ICRC.
pub const CM_FRAME_LEN: usize = 322;
/// How long a port's bare rate is measured.
const PORT_TIME: Duration = Duration::from_millis(500);

/// What lies between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Memory links.
    Mem,
    /// AF_XDP on veth.
    Xdp,
    /// AF_PACKET on veth.
    Packet,
    /// DPDK's packet sockets on veth.
    Dpdk,
}

impl Over {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Over::Mem => "mem",
            Over::Xdp => "xdp",
            Over::Packet => "packet",
            Over::Dpdk => "dpdk",
        }
    }
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct LiveRun {
    /// What lies between the ends.
    pub over: Over,
    /// Who is there.
    pub shape: Shape,
    /// Both ends in one thread.
    pub one_thread: bool,
    /// Connections in flight of each client thread.
    pub window: u32,
    /// Each is closed at once.
    pub teardown: bool,
    /// Queue pairs that stay open meanwhile.
    pub live: u64,
    /// Each has its own completion queue.
    pub own_cq: bool,
    /// Time before it.
    pub warmup: Duration,
    /// How long.
    pub duration: Duration,
    /// Cores of client and server.
    pub cores: Option<(usize, usize)>,
    /// What a thread does when nothing comes; `None`: spins on a core of its own, yields without.
    pub idle: Option<IdleStrategy>,
    /// Time the steps, too.
    pub steps: bool,
}

/// What came of it.
#[derive(Default)]
pub struct LiveResult {
    /// Connections that were counted.
    pub connections: u64,
    /// That failed.
    pub failed: u64,
    /// Time in which they were.
    pub seconds: f64,
    /// Connections per second, of all clients together.
    pub per_s: f64,
    /// When all of them counted. `None`: nobody has.
    pub windows: Option<Vec<Window>>,
    /// How long the one counted that did for longest.
    pub longest: Duration,
    /// Time to connect.
    pub latency: Histogram,
    /// Seconds, over all connections in flight, in which the kernel's stood still.
    pub stalled_s: f64,
    /// The steps.
    pub steps: Option<StepSpans>,
    /// Frames of both ends, for each connection.
    pub frames_per_connection: Option<f64>,
    /// Resident bytes of each queue pair that stays, on each side.
    pub bytes_per_live_qp: Option<f64>,
    /// Others on our cores.
    pub contention: Option<ContentionReport>,
    /// CPU of all ends while connections with their closing were counted.
    pub cpu: Option<CpuUse>,
    /// Of a server on another host: how both ends wait, and whether its CPU is known.
    pub other_end: Option<OtherEnd>,
}

/// One end of the wires, on its way into the thread that will use it.
pub(super) enum Side {
    Mem(Box<MemoryEnd>),
    Uri(String),
}

impl Side {
    /// Both ends of a new memory link.
    pub(super) fn memory(config: MemoryConfig) -> Result<(Side, Side), BenchError> {
        let (a, b) = MemoryLink::new(config).map_err(OpenError::from)?;
        Ok((Side::Mem(Box::new(a)), Side::Mem(Box::new(b))))
    }

    /// The two ends of the wire between the first client and the server's first NIC.
    pub(super) fn veth(over: Over, hosts: &Hosts) -> (Side, Side) {
        let uri =
            |interface: &str| Side::Uri(format!("{}:{}", over.as_str(), target_on(over.as_str(), interface)));
        (uri(&hosts.client_interface(0)), uri(&Hosts::server_interface(0)))
    }

    /// Opens it with a pool of its own, in the thread that will use it.
    pub(super) fn open(self, config: PoolConfig) -> Result<(Box<dyn Port>, Pool), BenchError> {
        let pool = Pool::new(config).map_err(OpenError::from)?;
        let port: Box<dyn Port> = match self {
            Side::Mem(end) => Box::new(end.open(pool.clone())),
            Side::Uri(uri) => {
                let uri: PortUri = uri.parse().map_err(OpenError::from)?;
                open_port(&uri, &pool).map_err(OpenError::from)?
            }
        };
        Ok((port, pool))
    }
}

/// What a device at `address` is opened with.
pub(super) fn device_config(address: Ipv4Addr, pool: PoolConfig) -> DeviceConfig {
    let mut config = DeviceConfig::new("", address.into());
    config.interface.ipv4 = vec![(address, wires::PREFIX_LEN)];
    config.interface.mac = Some(wires::mac_of(address));
    config.pool = pool;
    config
}

fn pool_for(over: Over) -> PoolConfig {
    PoolConfig { frames: if over == Over::Mem { 1024 } else { 4096 }, ..PoolConfig::default() }
}

/// Room for as many connections as stay, and for those on their way.
pub(super) fn make_room(config: &mut DeviceConfig, live: u64) {
    config.roce.qps_max = live as usize + SPARE_QPS;
    config.roce.cqs_max = config.roce.qps_max;
    // A queue promises its entries; memory is taken as they are used.
    config.roce.requests_max = config.roce.cqs_max * super::server::CQ_ENTRIES as usize + (1 << 20);
}

fn open(run: &LiveRun, side: Side, address: Ipv4Addr, live: u64) -> Result<Device, BenchError> {
    let mut config = device_config(address, pool_for(run.over));
    make_room(&mut config, live);
    let (port, pool) = side.open(config.pool)?;
    Ok(Device::with_port(port, pool, &config)?)
}

/// Threads that wait for each other, unless one of them has failed.
#[derive(Default)]
pub(super) struct Gate {
    arrived: AtomicU32,
    failed: AtomicBool,
}

impl Gate {
    pub(super) fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn pass(&self, all: u32) -> Result<(), BenchError> {
        while self.arrived.load(Ordering::Acquire) < all {
            self.check()?;
            go_on()?;
            std::thread::yield_now();
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(BenchError::Plan("another thread failed".to_owned()));
        }
        Ok(())
    }
}

/// When clients begin: the first that is ready says so to all.
#[derive(Default)]
pub(super) struct Start(OnceLock<Instant>);

impl Start {
    /// When they count, after a warm-up of that length: the same for all who ask.
    pub(super) fn window(&self, warmup: Duration, duration: Duration) -> Window {
        let from = *self.0.get_or_init(stamp) + warmup;
        (from, from + duration)
    }
}

/// Says that a thread has failed, whatever way it ends.
pub(super) struct FailOnDrop<'a>(pub(super) &'a Gate, pub(super) bool);

impl Drop for FailOnDrop<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.failed.store(true, Ordering::Relaxed);
        }
    }
}

/// What client threads share.
pub(super) struct Shared {
    pub(super) servers: Gate,
    pub(super) clients: Gate,
    pub(super) opened: Gate,
    pub(super) start: Start,
    /// Parts of a run that only opens: all clients begin each together.
    parts: Gate,
    /// The first client has counted for long enough.
    enough: AtomicBool,
    pub(super) done: AtomicU32,
    pub(super) stop: AtomicBool,
    pub(super) progress: Vec<AtomicU64>,
    /// The first client counts just now.
    pub(super) counting: AtomicBool,
    pub(super) server_frames: AtomicU64,
    pub(super) cpu: CpuMeter,
}

impl Shared {
    pub(super) fn of(clients: u32, cpu: CpuMeter) -> Shared {
        Shared {
            servers: Gate::default(),
            clients: Gate::default(),
            opened: Gate::default(),
            start: Start::default(),
            parts: Gate::default(),
            enough: AtomicBool::new(false),
            done: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            progress: (0..clients).map(|_| AtomicU64::new(0)).collect(),
            counting: AtomicBool::new(false),
            server_frames: AtomicU64::new(0),
            cpu,
        }
    }
}

/// Frames of the server's that fall into the time that is counted.
#[derive(Default)]
struct Sent {
    last: u64,
    counted: u64,
}

impl Sent {
    #[inline]
    fn see(&mut self, sent: u64, shared: &Shared) {
        if shared.counting.load(Ordering::Relaxed) {
            self.counted += sent - self.last;
        }
        self.last = sent;
    }
}

/// Runs it. `report` gets a line a second.
///
/// # Errors
/// [`BenchError`].
pub fn run(
    run: &LiveRun,
    hosts: Option<&Hosts>,
    report: &mut (dyn FnMut(String) + Send),
) -> Result<LiveResult, BenchError> {
    let clients = run.shape.clients();
    let shared = Shared::of(clients, CpuMeter::new(&[]));
    let Sides { mut ours, mut theirs } = sides(run, hosts)?;
    let before = resident();
    if run.one_thread {
        let (Some(ours), Some(Some((theirs, _)))) = (ours.pop(), theirs.pop().map(|mut sides| sides.pop()))
        else {
            return Err(BenchError::Plan("one thread holds one client and one server".to_owned()));
        };
        let core = run.cores.map(|c| c.0);
        let result = std::thread::scope(|scope| {
            let client = scope.spawn(|| one_thread(run, ours, theirs, core, before, &shared));
            watch(run, &shared, report);
            client.join()
        });
        return result
            .unwrap_or_else(|_| Err(BenchError::Plan("the thread that measures panicked".to_owned())));
    }
    let idle = Idle::of(run.idle, run.cores);
    let shared = &shared;
    std::thread::scope(|scope| {
        let mut servers = Vec::new();
        for (nic, sides) in theirs.into_iter().enumerate() {
            let core = run.cores.filter(|_| nic == 0).map(|c| c.1);
            let serving = move || serve(run, sides, core, idle, shared);
            servers.push(scope.spawn(move || match hosts {
                Some(hosts) => hosts.server.enter(serving)?,
                None => serving(),
            }));
        }
        let mut asking = Vec::new();
        for (client, side) in ours.into_iter().enumerate() {
            let client = client as u32;
            let core = run.cores.filter(|_| client == 0).map(|c| c.0);
            let connect = move || ask(run, client, side, core, idle, before, shared);
            asking.push(scope.spawn(move || match hosts {
                Some(hosts) => hosts.client(client).enter(connect)?,
                None => connect(),
            }));
        }
        watch(run, shared, report);
        let panicked = || Err(BenchError::Plan("a thread panicked".to_owned()));
        let asked: Vec<Result<LiveResult, BenchError>> =
            asking.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect();
        shared.stop.store(true, Ordering::Relaxed);
        // The server's error explains the clients', which only saw it fall silent.
        for server in servers {
            server.join().unwrap_or_else(|_| Err(BenchError::Plan("a thread panicked".to_owned())))?;
        }
        let mut sum = LiveResult::default();
        for asked in asked {
            sum.add(asked?);
        }
        sum.divide_frames(shared.server_frames.load(Ordering::Relaxed));
        sum.divide_cpu(&shared.cpu, 0);
        Ok(sum)
    })
}

/// The ends of all wires.
struct Sides {
    /// One for each client thread.
    ours: Vec<Side>,
    /// Those of each of the server's NICs, with its address.
    theirs: Vec<Vec<(Side, Ipv4Addr)>>,
}

/// A memory link with no more slots than what is in flight needs: they are used in turns, so all of them want to be cached.
fn link_for(window: u32) -> MemoryConfig {
    let slots = window.next_power_of_two().clamp(32, SLOTS_DEFAULT);
    MemoryConfig { slots, ..MemoryConfig::default() }
}

fn sides(run: &LiveRun, hosts: Option<&Hosts>) -> Result<Sides, BenchError> {
    let mut sides = Sides { ours: Vec::new(), theirs: (0..run.shape.nics).map(|_| Vec::new()).collect() };
    for client in 0..run.shape.clients() {
        let nic = run.shape.nic_of(client);
        let address = wires::server_address(nic);
        let theirs = &mut sides.theirs[nic as usize];
        match hosts {
            None => {
                let (a, b) = Side::memory(link_for(run.window))?;
                sides.ours.push(a);
                theirs.push((b, address));
            }
            Some(hosts) => {
                let scheme = run.over.as_str();
                sides.ours.push(Side::Uri(format!(
                    "{scheme}:{}",
                    target_on(scheme, &hosts.client_interface(client))
                )));
                if theirs.is_empty() {
                    let uri = format!("{scheme}:{}", target_on(scheme, &Hosts::server_interface(nic)));
                    theirs.push((Side::Uri(uri), address));
                }
            }
        }
    }
    Ok(sides)
}

impl LiveResult {
    /// The clients' frames with the server's, for each connection.
    fn divide_frames(&mut self, server: u64) {
        let frames = self.frames_per_connection.unwrap_or_default() + server as f64;
        self.frames_per_connection = (self.connections > 0).then(|| frames / self.connections as f64);
    }

    /// The first client looked at the CPU of all; so the connections are those of all, give or take what is in flight.
    pub(super) fn divide_cpu(&mut self, meter: &CpuMeter, in_flight: u32) {
        let all = self.connections + self.failed;
        let used = self.cpu.map(|cpu| cpu.of(all));
        (self.cpu, self.other_end) = meter.charge(used, all, u64::from(in_flight) + 16);
    }

    /// Why it must not be used, if so: rates of different times do not add up.
    pub(super) fn void(&self) -> Option<String> {
        let windows = self.windows.as_ref()?;
        let share = length(windows).as_secs_f64() / self.longest.as_secs_f64().max(1e-9);
        (share < COMMON_MIN).then(|| {
            format!(
                "client threads measured at the same time for {:.0} % of it, less than {:.0} %",
                share * 100.0,
                COMMON_MIN * 100.0
            )
        })
    }

    /// Another client's. Rates add up over the time that both counted in: see [`LiveResult::void`].
    pub(super) fn add(&mut self, other: LiveResult) {
        self.windows = match (self.windows.take(), other.windows) {
            (Some(ours), Some(theirs)) => Some(common_windows(&ours, &theirs)),
            (ours, theirs) => ours.or(theirs),
        };
        self.longest = self.longest.max(other.longest);
        self.connections += other.connections;
        self.failed += other.failed;
        self.seconds = self.seconds.max(other.seconds);
        self.per_s += other.per_s;
        self.latency.merge(&other.latency);
        self.stalled_s += other.stalled_s;
        self.steps = self.steps.take().or(other.steps);
        let frames = [self.frames_per_connection, other.frames_per_connection];
        self.frames_per_connection = frames.into_iter().flatten().reduce(|a, b| a + b);
        self.bytes_per_live_qp = self.bytes_per_live_qp.or(other.bytes_per_live_qp);
        self.contention = self.contention.take().or(other.contention);
        self.cpu = self.cpu.take().or(other.cpu);
        self.other_end = self.other_end.take().or(other.other_end);
    }
}

/// A line a second, as the published benchmark prints it, until all clients are done.
pub(super) fn watch(run: &LiveRun, shared: &Shared, report: &mut (dyn FnMut(String) + Send)) {
    let sum = || shared.progress.iter().map(|c| c.load(Ordering::Relaxed)).sum::<u64>();
    let (mut last, mut at) = (0, stamp());
    let all = if run.one_thread { 1 } else { run.shape.clients() };
    while shared.done.load(Ordering::Acquire) < all {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let now = stamp();
        let passed = now.since(at);
        let count = sum();
        if last == 0 && count == 0 {
            at = now;
        } else if passed >= REPORT_EVERY {
            let us = passed.as_nanos() / 1000;
            let delta = count - last;
            if delta > 0 {
                report(format!(
                    "check global reporter states: {delta}, passed: {us}. thpt : {}",
                    delta * 1_000_000 / us.max(1)
                ));
            }
            (last, at) = (count, now);
        }
    }
}

fn serve(
    run: &LiveRun,
    sides: Vec<(Side, Ipv4Addr)>,
    core: Option<usize>,
    idle: Idle,
    shared: &Shared,
) -> Result<(), BenchError> {
    let mut tells = FailOnDrop(&shared.servers, false);
    pin(core)?;
    shared.cpu.joins(End::Server);
    let mut servers = Vec::new();
    let each = run.live / u64::from(run.shape.nics).max(1);
    for (side, address) in sides {
        servers.push(Server::new(open(run, side, address, each)?, run.own_cq)?);
    }
    shared.servers.arrive();
    let mut frames = Sent::default();
    while !shared.stop.load(Ordering::Relaxed) {
        let now = stamp();
        let mut work = 0;
        for server in &mut servers {
            work += server.cycle(now)?;
        }
        if work == 0 {
            match servers.as_mut_slice() {
                [server] => server.rest(idle, now),
                // It cannot sleep on several ports at once; it has only the core to give away.
                _ => idle.pause(),
            }
        }
        frames.see(servers.iter().map(Server::tx_frames).sum(), shared);
    }
    shared.server_frames.fetch_add(frames.counted, Ordering::Relaxed);
    tells.1 = true;
    Ok(())
}

pub(super) fn pin(core: Option<usize>) -> Result<(), BenchError> {
    match core {
        Some(core) => pin_to_core(core).map_err(BenchError::io(format!("pinning to core {core}"))),
        None => Ok(()),
    }
}

/// Counts a client as done, whatever way it ends.
pub(super) struct Done<'a>(pub(super) &'a AtomicU32);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

fn ask(
    run: &LiveRun,
    client: u32,
    side: Side,
    core: Option<usize>,
    idle: Idle,
    before: u64,
    shared: &Shared,
) -> Result<LiveResult, BenchError> {
    let _done = Done(&shared.done);
    pin(core)?;
    let mut tells = FailOnDrop(&shared.clients, false);
    shared.cpu.joins(End::Client);
    let share = run.live / u64::from(run.shape.clients());
    let device = open(run, side, wires::client_address(run.shape, client), share)?;
    shared.servers.pass(run.shape.nics)?;
    let mut other = |_: Instant| {
        shared.servers.check()?;
        shared.clients.check()
    };
    let server = wires::server_address(run.shape.nic_of(client));
    let mut asking = Client::new(device, server.into(), run.own_cq, idle, &mut other)?;
    shared.clients.arrive();
    shared.clients.pass(run.shape.clients())?;
    let result = measure(run, client, &mut asking, idle, before, shared, &mut other)?;
    // The first client reads the CPU of all at its end: a thread that is gone has none to tell.
    shared.clients.arrive();
    shared.clients.pass(2 * run.shape.clients())?;
    tells.1 = true;
    Ok(result)
}

fn one_thread(
    run: &LiveRun,
    ours: Side,
    theirs: Side,
    core: Option<usize>,
    before: u64,
    shared: &Shared,
) -> Result<LiveResult, BenchError> {
    let _done = Done(&shared.done);
    pin(core)?;
    shared.cpu.joins_both();
    let mut server = Server::new(open(run, theirs, wires::server_address(0), run.live)?, run.own_cq)?;
    let device = open(run, ours, wires::client_address(run.shape, 0), run.live)?;
    let mut frames = Sent::default();
    let mut other = |now: Instant| {
        server.cycle(now)?;
        frames.see(server.tx_frames(), shared);
        Ok(())
    };
    let mut client =
        Client::new(device, wires::server_address(0).into(), run.own_cq, Idle::Spin, &mut other)?;
    shared.clients.arrive();
    let mut result = measure(run, 0, &mut client, Idle::Spin, before, shared, &mut other)?;
    result.divide_frames(frames.counted);
    result.divide_cpu(&shared.cpu, 0);
    Ok(result)
}

#[allow(clippy::too_many_arguments)]
pub(super) fn measure(
    run: &LiveRun,
    number: u32,
    client: &mut Client,
    idle: Idle,
    before: u64,
    shared: &Shared,
    other: super::client::Other<'_>,
) -> Result<LiveResult, BenchError> {
    let unseen = AtomicU64::new(0);
    let mut result = LiveResult::default();
    let clients = run.shape.clients();
    if run.live > 0 {
        let share = (run.live / u64::from(clients)) as usize;
        client.run(OPEN_WINDOW, false, &Until::Open(share), &unseen, idle, other)?;
        // Others still open theirs, and the server must answer them: in one thread there are no others.
        shared.opened.arrive();
        together(&shared.opened, clients, other)?;
        if number == 0 {
            let each = resident().saturating_sub(before) as f64 / run.live as f64 / 2.0;
            result.bytes_per_live_qp = Some(each.round());
        }
    }
    let progress = &shared.progress[number as usize];
    let (watch, cpu) = (RefCell::new(None), Cell::new((None, None)));
    let counting = |on: bool| {
        if number == 0 {
            shared.counting.store(on, Ordering::Relaxed);
            let threads = if run.one_thread { 1 } else { (clients + run.shape.nics) as usize };
            watch.borrow_mut().get_or_insert_with(|| Contention::start().threads(threads));
            if on {
                // Nobody waits for the other end here: the time runs.
                cpu.set((shared.cpu.begin(false), None));
            } else {
                let (before, _) = cpu.take();
                cpu.set((None, shared.cpu.end(before, 0)));
            }
        }
    };
    let (from, to) = shared.start.window(run.warmup, run.duration);
    let mut windows = Vec::new();
    let mut counted = Counted::default();
    if run.teardown {
        let until = Until::Window { from, to, tell: &counting };
        counted = client.run(run.window, true, &until, progress, idle, other)?;
        windows.push((counted.begin, counted.begin + counted.spent));
    } else {
        let warm = Until::Window { from, to: from, tell: &|_| {} };
        client.run(run.window, true, &warm, &unseen, idle, other)?;
        let most = OPEN_MOST / clients as usize + client.open_connections();
        for part in 1.. {
            shared.parts.arrive();
            together(&shared.parts, clients * part, other)?;
            if shared.enough.load(Ordering::Acquire) {
                break;
            }
            counting(true);
            let part = client.run(run.window, false, &Until::Open(most), progress, idle, other)?;
            counting(false);
            windows.push((part.begin, part.begin + part.spent));
            counted.connections += part.connections;
            counted.failed += part.failed;
            counted.latency.merge(&part.latency);
            counted.spent = counted.spent + part.spent;
            counted.tx_frames += part.tx_frames;
            client.run(OPEN_WINDOW, false, &Until::Closed, &unseen, idle, other)?;
            // The others see it when they have passed the gate, which waits for this one.
            if number == 0 && counted.spent >= run.duration {
                shared.enough.store(true, Ordering::Release);
            }
        }
    }
    result.contention = watch.into_inner().map(Contention::finish);
    // Where closing is not counted, each part has its own begin and end, and the CPU of the last one says nothing of the others.
    result.cpu = cpu.into_inner().1.filter(|_| run.teardown);
    result.connections = counted.connections;
    result.failed = counted.failed;
    result.seconds = counted.spent.as_secs_f64();
    result.per_s = counted.connections as f64 / result.seconds.max(1e-9);
    (result.windows, result.longest) = (Some(windows), counted.spent);
    result.latency = counted.latency;
    result.frames_per_connection = Some(counted.tx_frames as f64);
    if run.steps {
        result.steps = Some(client.steps(stamp() + STEPS_TIME, idle, other)?);
    }
    Ok(result)
}

/// Waits until so many have arrived. Meanwhile the server, which may share this thread, goes on answering the others.
fn together(gate: &Gate, all: u32, other: super::client::Other<'_>) -> Result<(), BenchError> {
    while gate.arrived.load(Ordering::Acquire) < all {
        other(stamp())?;
        go_on()?;
        std::thread::yield_now();
    }
    Ok(())
}

/// Resident memory of this process in bytes, as the kernel tells; 0 where it does not.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}

/// Frames of the connection manager's size that a port carries in a second, one way: what no protocol on it can pass.
///
/// # Errors
/// [`BenchError`].
pub fn port_frames_per_s(
    over: Over,
    hosts: Option<&Hosts>,
    cores: Option<(usize, usize)>,
) -> Result<f64, BenchError> {
    let (ours, theirs) = match hosts {
        None => Side::memory(MemoryConfig::default())?,
        Some(hosts) => Side::veth(over, hosts),
    };
    let (ready, stop) = (Gate::default(), AtomicBool::new(false));
    let (ready, stop) = (&ready, &stop);
    let open = move |side: Side| -> Result<(Box<dyn Port>, Pool), BenchError> {
        let opened = side.open(pool_for(over))?;
        ready.arrive();
        Ok(opened)
    };
    let idle = if cores.is_some() { Idle::Spin } else { Idle::Yield };
    let receive = move || -> Result<f64, BenchError> {
        pin(cores.map(|c| c.1))?;
        let mut tells = FailOnDrop(ready, false);
        let (mut port, _pool) = open(theirs)?;
        let mut burst = Burst::new();
        let (mut first, mut last, mut frames) = (None, stamp(), 0u64);
        while !stop.load(Ordering::Relaxed) {
            let now = stamp();
            let n = port.rx_burst(now, &mut burst)?;
            burst.clear();
            if n == 0 {
                idle.pause();
            } else if first.is_none() {
                first = Some(now);
            } else {
                frames += n as u64;
                last = now;
            }
        }
        tells.1 = true;
        let spent = first.map_or(0.0, |first| last.since(first).as_secs_f64());
        Ok(if spent > 0.0 { frames as f64 / spent } else { 0.0 })
    };
    let send = move || -> Result<(), BenchError> {
        pin(cores.map(|c| c.0))?;
        let mut tells = FailOnDrop(ready, false);
        let (mut port, pool) = open(ours)?;
        ready.pass(2)?;
        let mut bytes = [0u8; CM_FRAME_LEN];
        bytes[..6].copy_from_slice(&wires::mac_of(wires::server_address(0)).0);
        bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
        let mut burst = Burst::new();
        let end = stamp() + PORT_TIME;
        loop {
            let now = stamp();
            if now >= end {
                break;
            }
            while burst.room() > 0 {
                match pool.alloc_from(&bytes) {
                    Some(frame) => {
                        let _ = burst.push(frame);
                    }
                    None => break,
                }
            }
            if port.tx_burst(now, &mut burst)? == 0 {
                idle.pause();
            }
        }
        tells.1 = true;
        Ok(())
    };
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || match hosts {
            Some(hosts) => hosts.server.enter(receive)?,
            None => receive(),
        });
        let sender = scope.spawn(move || match hosts {
            Some(hosts) => hosts.client(0).enter(send)?,
            None => send(),
        });
        let sent = sender.join();
        stop.store(true, Ordering::Relaxed);
        let received = receiver.join();
        sent.unwrap_or_else(|_| Err(BenchError::Plan("a thread panicked".to_owned())))?;
        received.unwrap_or_else(|_| Err(BenchError::Plan("a thread panicked".to_owned())))
    })
}

#[cfg(test)]
mod tests;
