//! A switch between two hosts: each system in turn on the same wires, under the same traffic.

use super::bmv2;
use super::figures::{
    RECORDED, RECORDED_TCP_MBPS, RECORDED_UDP_FLOOD_PPS, RECORDED_UDP_PEAK_PPS, RECORDED_UDP_PPS,
};
use super::files::Folder;
use super::load::{self, Ends, Exchanged};
use super::program::{Kind, Source, kind_of};
use super::redirect::{At, Redirect};
use super::row::{Paced, SwitchRow, SwitchRun, Told, finished, so_far};
use super::setup::{Step, apply};
use super::wires::{Bridge, PORTS, Traffic, Way, Wires, router_steps, traffic};
use crate::awake::{hold, stolen};
use crate::error::{BenchError, go_on};
use crate::messages::IdleState;
use crate::rounds::{Made, in_turns};
use barewire_base::{Duration, Instant};
use barewire_engine::{
    Agent, Engine, EngineConfig, EngineHandle, EngineLinks, IdleStrategy, StopFlag, open_port, target_on,
};
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_measure::{Contention, CoreTime};
use barewire_port::{OpenError, Port, PortUri};
use barewire_switch::control::SwitchConfig;
use barewire_switch::datapath::TargetConfig;
use barewire_switch::kernel::HookChoice;
use barewire_switch::prepared::{EngineKind, Prepared};
use barewire_switch::server::{Server, ServerConfig};
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::Arc;

/// Packets per second of the paced runs, at which no system may lose any. CPU time is compared at the last.
pub const PACED_PPS: [u64; 3] = [1_000, 10_000, 30_000];
/// Requests of a latency run.
const ECHOES: u64 = 20_000;
/// The switch engine's thread, and that of the bare loop.
const ENGINE_THREAD: &str = "switch-0";
const LOOP_THREAD: &str = "bare-loop";

/// What forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum System {
    /// Nothing: the hosts' direct wire.
    Direct,
    /// The kernel's bridge.
    Bridge,
    /// The kernel's router.
    Routing,
    /// A bare redirect in the kernel, below which no program in the kernel comes.
    Redirect(At),
    /// Our ports in a loop, without a program.
    BareLoop {
        /// The ports' scheme.
        over: String,
    },
    /// Our switch.
    Barewire {
        /// The ports' scheme.
        over: String,
        /// What runs the program.
        engine: EngineKind,
    },
    /// bmv2's `simple_switch`.
    Bmv2,
}

impl System {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            System::Direct => "direct",
            System::Bridge => "bridge",
            System::Routing => "routing",
            System::Redirect(_) => "bare-redirect",
            System::BareLoop { .. } => "bare-loop",
            System::Barewire { .. } => "barewire",
            System::Bmv2 => "bmv2",
        }
    }

    pub(crate) fn over(&self) -> &str {
        match self {
            System::Redirect(At::Xdp | At::XdpNative) => "xdp",
            System::Redirect(At::Tc) => "tc",
            System::Redirect(At::TcPeer) => "tc-peer",
            System::BareLoop { over } | System::Barewire { over, .. } => over,
            _ => "veth",
        }
    }

    pub(crate) fn way(&self) -> Way {
        match self {
            System::Direct => Way::Direct,
            System::Bridge | System::Redirect(_) | System::BareLoop { .. } => Way::SameNetwork,
            System::Routing => Way::KernelRouter,
            System::Barewire { .. } | System::Bmv2 => Way::P4,
        }
    }
}

/// Which traffic runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tests {
    /// A TCP stream.
    pub tcp: bool,
    /// UDP as fast as it goes.
    pub udp: bool,
    /// A UDP request and its echo.
    pub latency: bool,
    /// Paced UDP.
    pub paced: bool,
    /// `iperf` beside our own TCP.
    pub iperf: bool,
}

impl Tests {
    /// All but `iperf`.
    pub const ALL: Tests = Tests { tcp: true, udp: true, latency: true, paced: true, iperf: false };
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct LiveCell {
    /// The systems, in the order of their turns.
    pub systems: Vec<System>,
    /// The router's program.
    pub source: Source,
    /// The hosts leave checksums and segmentation to their interfaces; our `packet` ports carry such frames whole then.
    pub offloads: bool,
    /// The hosts poll, and programs in the kernel stand in the driver.
    pub gro: bool,
    /// Which traffic.
    pub tests: Tests,
    /// Length of the TCP run; the others follow from it.
    pub seconds: Duration,
    /// What our engine does when nothing comes.
    pub idle: IdleStrategy,
    /// Whether the cores are kept awake, where the machine can.
    pub idle_state: IdleState,
    /// Options of our ports, as behind the `?` of a URI.
    pub options: String,
}

/// A system at work. Dropping it stops it.
#[allow(dead_code, reason = "held for their drop")]
pub(crate) enum Forwarder<'a> {
    Nothing,
    Bridge(Bridge<'a>),
    Redirect(Redirect),
    Loop(Looping),
    Switch(Serving),
    Bmv2(bmv2::Running, Folder),
}

pub(crate) struct Looping(Option<EngineHandle>, StopFlag);

impl Drop for Looping {
    fn drop(&mut self) {
        self.1.stop();
        if let Some(engine) = self.0.take() {
            let _ = engine.join();
        }
    }
}

pub(crate) struct Serving(Option<Server>);

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(server) = self.0.take() {
            let _ = server.stop();
        }
    }
}

/// Frames of any system of ours. Chunks hold a full frame behind the headroom that a program may need; those of offloads hold
/// a frame that the kernel would still cut.
fn pool_config(offloads: bool) -> PoolConfig {
    match offloads {
        false => PoolConfig { frames: 8192, chunk_len: 4096, headroom: 640, huge_pages: false },
        true => PoolConfig { frames: 1024, chunk_len: 131_072, headroom: 640, huge_pages: false },
    }
}

fn uri(over: &str, interface: &str, cell: &LiveCell) -> String {
    let mut options: Vec<&str> = Vec::new();
    if cell.offloads && over == "packet" {
        options.push("gso=1");
    }
    if !cell.options.is_empty() {
        options.push(&cell.options);
    }
    let question = if options.is_empty() { "" } else { "?" };
    format!("{over}:{}{question}{}", target_on(over, interface), options.join("&"))
}

/// The program, made ready once for all runs.
pub(crate) struct Program {
    source: Source,
    steps: Vec<Step>,
    prepared: Vec<(EngineKind, Arc<Prepared>)>,
    load_us: BTreeMap<String, u64>,
}

impl Program {
    pub(crate) fn load(cell: &LiveCell) -> Result<Program, BenchError> {
        let mut program = Program {
            source: cell.source.clone(),
            steps: Vec::new(),
            prepared: Vec::new(),
            load_us: BTreeMap::new(),
        };
        let mut engines: Vec<EngineKind> = Vec::new();
        for system in &cell.systems {
            match system {
                System::Barewire { engine, .. } if !engines.contains(engine) => engines.push(*engine),
                _ => {}
            }
        }
        if engines.is_empty() && cell.systems.contains(&System::Bmv2) {
            // Only asked what its words are.
            engines.push(EngineKind::Interpreter);
        }
        for engine in engines {
            let begin = barewire_measure::stamp();
            let prepared = cell.source.prepare(engine)?;
            let took = barewire_measure::stamp().since(begin);
            let Kind::Router(words) = kind_of(&prepared.program)? else {
                let why =
                    format!("`{}` does not route between two hosts: simple_router does", cell.source.name);
                return Err(BenchError::Plan(why));
            };
            program.steps = router_steps(words);
            program.load_us.insert(engine.to_string(), took.as_nanos() / 1000);
            program.prepared.push((engine, Arc::new(prepared)));
        }
        Ok(program)
    }

    fn prepared(&self, engine: EngineKind) -> Result<Arc<Prepared>, BenchError> {
        let found = self.prepared.iter().find(|(kind, _)| *kind == engine);
        found.map(|(_, p)| Arc::clone(p)).ok_or_else(|| BenchError::Plan(format!("no {engine} program")))
    }
}

pub(crate) fn start<'a>(
    system: &System,
    wires: &'a Wires,
    cell: &LiveCell,
    program: &Program,
) -> Result<Forwarder<'a>, BenchError> {
    Ok(match system {
        System::Direct | System::Routing => Forwarder::Nothing,
        System::Bridge => Forwarder::Bridge(wires.bridge()?),
        System::Redirect(at) => Forwarder::Redirect(wires.switch.enter(|| Redirect::start(*at))??),
        System::BareLoop { over } => {
            let uris = PORTS.map(|interface| uri(over, interface, cell));
            Forwarder::Loop(wires.switch.enter(|| bare_loop(&uris, cell.idle, cell.offloads))??)
        }
        System::Barewire { over, engine } => {
            let port = |name: &str| match engine {
                // The kernel's ports are interfaces.
                EngineKind::Kernel => name.to_owned(),
                _ => uri(over, name, cell),
            };
            let ports = PORTS.iter().zip(1..).map(|(name, number)| (number, port(name))).collect();
            let config = ServerConfig {
                idle: cell.idle,
                pool: pool_config(cell.offloads),
                ports,
                control: SwitchConfig { engine: *engine, ..SwitchConfig::default() },
                target: TargetConfig {
                    pass_offloads: cell.offloads,
                    hook: if cell.gro { HookChoice::Native } else { HookChoice::Auto },
                    ..TargetConfig::default()
                },
                ..ServerConfig::default()
            };
            let prepared = program.prepared(*engine)?;
            // Started inside, so that its threads are inside and open their ports there.
            let server = wires.switch.enter(|| Server::start(config, Some(prepared)))??;
            let serving = Serving(Some(server));
            if let Some(server) = &serving.0 {
                apply(server.switch(), &program.steps, &mut || {})?;
            }
            Forwarder::Switch(serving)
        }
        System::Bmv2 => {
            let installed = bmv2::Installed::find()
                .ok_or_else(|| BenchError::Plan("`simple_switch` is not on the PATH".to_owned()))?;
            let folder = Folder::create("bmv2-live").map_err(BenchError::io("making a folder"))?;
            let mut options = Vec::new();
            for (interface, port) in PORTS.iter().zip(1..) {
                options.extend(["-i".to_owned(), format!("{port}@{interface}")]);
            }
            let running = installed.start(&wires.switch, &folder.0, &program.source, &options)?;
            installed.populate(&wires.switch, &program.steps, "")?;
            Forwarder::Bmv2(running, folder)
        }
    })
}

/// Frames of each port to the other, whatever they are.
struct BareLoop {
    ports: [Box<dyn Port>; 2],
    /// Received at each port and not sent yet.
    waiting: [Burst; 2],
    _pool: Pool,
}

impl Agent for BareLoop {
    fn name(&self) -> &str {
        LOOP_THREAD
    }

    fn do_work(&mut self, now: Instant) -> usize {
        let mut work = 0;
        for from in 0..2 {
            // An error of a port shows in its counters; the other goes on.
            work += self.ports[from].rx_burst(now, &mut self.waiting[from]).unwrap_or(0);
            if !self.waiting[from].is_empty() {
                work += self.ports[1 - from].tx_burst(now, &mut self.waiting[from]).unwrap_or(0);
            }
        }
        work
    }

    fn wait_fds(&self, add: &mut dyn FnMut(RawFd)) {
        self.ports.iter().filter_map(|port| port.wait_fd()).for_each(add);
    }

    fn prepare_wait(&mut self) -> bool {
        let mut may_sleep = self.waiting.iter().all(Burst::is_empty);
        for port in &mut self.ports {
            may_sleep &= port.prepare_wait() && port.wait_fd().is_some();
        }
        may_sleep
    }

    fn finish_wait(&mut self) {
        self.ports.iter_mut().for_each(|port| port.finish_wait());
    }
}

fn bare_loop(uris: &[String; 2], idle: IdleStrategy, offloads: bool) -> Result<Looping, BenchError> {
    let stop = StopFlag::new().map_err(barewire_switch::server::StartError::from)?;
    let uris = uris.clone();
    let build = move || -> Result<Vec<Box<dyn Agent>>, OpenError> {
        let [one, two] = [uris[0].parse::<PortUri>()?, uris[1].parse::<PortUri>()?];
        let pool = Pool::new(pool_config(offloads)).map_err(|e| one.bad(e.to_string()))?;
        let ports = [open_port(&one, &pool)?, open_port(&two, &pool)?];
        Ok(vec![Box::new(BareLoop { ports, waiting: [Burst::new(), Burst::new()], _pool: pool })])
    };
    let config = EngineConfig { name: LOOP_THREAD.to_owned(), core: None, idle };
    let engine = Engine::spawn_with_links(config, EngineLinks::default(), build, &stop);
    let engine = engine.map_err(|error| match error {
        barewire_engine::SpawnError::Build(error) => BenchError::Open(error),
        other => BenchError::Plan(other.to_string()),
    })?;
    Ok(Looping(Some(engine), stop))
}

impl Forwarder<'_> {
    /// CPU time of the system's own threads, in ns; `None` where the kernel forwards on whoever's time.
    fn cpu_ns(&self) -> Option<u64> {
        let ours = |name: &'static str| bmv2::tasks_cpu_ns("/proc/self/task", move |comm| comm == name);
        match self {
            Forwarder::Nothing | Forwarder::Bridge(_) | Forwarder::Redirect(_) => None,
            Forwarder::Loop(_) => ours(LOOP_THREAD),
            Forwarder::Switch(_) => ours(ENGINE_THREAD),
            Forwarder::Bmv2(running, _) => running.cpu_ns(),
        }
    }

    /// CPU time of all who touch a packet, in ns: both hosts and the switch, with the interrupts that they serve, and the kernel's threads
    /// for interrupts. A packet's way through the kernel, a bridge's or a redirect's, is time of the host that sent it. Not from ticks, of
    /// which a paced run has a handful.
    fn all_cpu_ns(&self) -> Option<u64> {
        let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let own = own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64;
        let threads = CoreTime::of(&[])?.interrupt_threads_ns;
        let child = match self {
            Forwarder::Bmv2(running, _) => running.cpu_ns()?,
            _ => 0,
        };
        Some(own + threads + child)
    }

    /// What was dropped where, so far.
    fn drops(&self, wires: &Wires) -> Result<BTreeMap<String, u64>, BenchError> {
        let mut drops = BTreeMap::new();
        let interfaces = [("h1 eth0", &wires.hosts[0], "eth0"), ("h2 eth0", &wires.hosts[1], "eth0")];
        let ports = PORTS.map(|port| (port, &wires.switch, port));
        for (shown, ns, name) in interfaces.into_iter().chain(ports) {
            let Traffic { rx_dropped, tx_dropped, .. } = traffic(ns, name)?;
            drops.insert(format!("{shown} rx_dropped"), rx_dropped);
            drops.insert(format!("{shown} tx_dropped"), tx_dropped);
        }
        if let Forwarder::Switch(Serving(Some(server))) = self {
            drops.extend(server.switch().drops());
            for port in server.switch().ports() {
                drops.insert(format!("port {} rx", port.port), port.rx_dropped);
                drops.insert(format!("port {} tx", port.port), port.tx_dropped);
            }
        }
        Ok(drops)
    }
}

/// What grew between two looks.
fn growth(before: &BTreeMap<String, u64>, after: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = after.into_iter().map(|(name, count)| {
        let was = before.get(&name).copied().unwrap_or(0);
        (name, count.saturating_sub(was))
    });
    grown.filter(|(_, count)| *count > 0).collect()
}

fn one_paced(
    ends: Ends<'_>,
    wires: &Wires,
    forwarder: &Forwarder<'_>,
    pps: u64,
    duration: Duration,
) -> Result<Paced, BenchError> {
    let before = forwarder.drops(wires)?;
    let (cpu, all) = (forwarder.cpu_ns(), forwarder.all_cpu_ns());
    let Exchanged { sent, received, behind } = load::paced(ends, pps, duration)?;
    let each = |(after, before): (u64, u64)| {
        (received > 0).then(|| after.saturating_sub(before) as f64 / 1e3 / received as f64)
    };
    let cpu = forwarder.cpu_ns().zip(cpu).and_then(each);
    let all = forwarder.all_cpu_ns().zip(all).and_then(each);
    let drops = growth(&before, forwarder.drops(wires)?);
    Ok(Paced {
        offered_pps: pps,
        sent,
        received,
        behind,
        cpu_us_per_packet: cpu,
        machine_cpu_us_per_packet: all,
        drops,
    })
}

fn run_once(
    system: &System,
    wires: &Wires,
    cell: &LiveCell,
    program: &Program,
) -> Result<SwitchRun, BenchError> {
    let forwarder = start(system, wires, cell, program)?;
    let ends = Ends::new(wires, system.way());
    load::wait_for_way(ends)?;
    let mut run = SwitchRun::default();
    let part = |parts: u64| part(cell.seconds, parts);
    let watch = Contention::start();
    if cell.tests.latency {
        let seen = load::echoes(ends, part(2), ECHOES)?;
        run.rtt.push("rtt", &seen.rtt);
        run.rtt_p50_ns = seen.rtt.quantile(0.5).value();
        run.rtt_p99_ns = seen.rtt.quantile(0.99).value();
        run.rtt_samples = Some(seen.rtt.samples());
        run.rtt_lost = Some(seen.lost);
        run.void = seen.void();
        go_on()?;
    }
    if cell.tests.tcp {
        let stream = load::tcp(ends, cell.seconds)?;
        run.tcp_mbps = Some(stream.mbps);
        run.tcp_data_packets_per_s = Some(stream.data_packets_per_s);
    }
    if cell.tests.iperf {
        run.iperf_mbps = Some(load::iperf_mbps(ends, cell.seconds)?);
    }
    if cell.tests.paced {
        for pps in PACED_PPS {
            go_on()?;
            run.paced.push(one_paced(ends, wires, &forwarder, pps, part(4))?);
        }
    }
    if cell.tests.udp {
        let found = load::search(|pps| {
            go_on()?;
            load::offer(ends, pps, udp_trial(cell.seconds))
        })?;
        run.udp_pps = Some(found.carried_pps);
        run.udp_peak_pps = Some(found.peak_pps);
        run.udp_flood_offered_pps = Some(found.flood_offered_pps);
        run.udp_flood_pps = Some(found.flood_pps);
    }
    // Senders, receivers and switch share few cores: being switched out is the rule here, and says nothing. What the
    // hypervisor took does.
    run.contention = stolen(watch.finish());
    run.contended = !run.contention.is_empty();
    Ok(run)
}

/// Starting a system, the way through it, and what ends it: what a plan expects.
const START_TIME: Duration = Duration::from_millis(800);

fn part(seconds: Duration, parts: u64) -> Duration {
    Duration::from_nanos((seconds.as_nanos() / parts).max(150_000_000))
}

/// A rate that is offered for less than this says little of what the switch carries.
const UDP_TRIAL_MIN: Duration = Duration::from_millis(500);

/// How long each rate of the UDP search is offered. A run that is shorter itself has shorter ones.
fn udp_trial(seconds: Duration) -> Duration {
    part(seconds, 10).max(UDP_TRIAL_MIN.min(seconds))
}

/// How long one run of one system takes, about.
pub(super) fn planned_time(tests: Tests, seconds: Duration) -> Duration {
    let of = |wanted: bool, time: Duration| if wanted { time } else { Duration::ZERO };
    START_TIME
        + of(tests.latency, part(seconds, 2))
        + of(tests.tcp, seconds)
        + of(tests.iperf, seconds)
        + of(tests.paced, part(seconds, 4).saturating_mul(PACED_PPS.len() as u64))
        + of(tests.udp, udp_trial(seconds).saturating_mul(u64::from(load::SEARCH_STEPS) + 1))
}

/// Runs all systems of `cell` in turn, forth in even rounds and back in odd ones, `runs` times: a row for each, and why systems failed. One
/// that fails is left out of later rounds, and its row says so; without any run it is void.
///
/// # Errors
/// [`BenchError`] when hosts cannot be made or the program is refused.
pub fn measure(
    cell: &LiveCell,
    runs: u32,
    command: &str,
    told: Told<'_>,
) -> Result<(Vec<SwitchRow>, Vec<BenchError>), BenchError> {
    let program = Program::load(cell)?;
    let wires = Wires::make(cell.offloads, cell.gro)?;
    let (_awake, idle_state) = hold(cell.idle_state);
    let have_bmv2 = bmv2::Installed::find().is_some();
    let measured: Vec<&System> = cell.systems.iter().filter(|s| have_bmv2 || **s != System::Bmv2).collect();
    let row = |system: &&System| SwitchRow {
        idle_state: Some(idle_state),
        ..row_of(system, cell, &program, command)
    };
    let rows: Vec<SwitchRow> = measured.iter().map(row).collect();
    let titles: Vec<String> = rows.iter().map(|row| format!("{} over {}", row.system, row.over)).collect();
    let mut once = |at: usize, _: u32| run_once(measured[at], &wires, cell, &program).map(Some);
    let mut made =
        in_turns(&titles, runs, told.tell, &mut once, &mut |made| (told.keep)(&so_far(&rows, made)));
    above_floors(&measured, &mut made);
    let finished = rows.into_iter().zip(&made).map(|(row, made)| finished(row, made));
    let mut out: Vec<SwitchRow> = finished.filter(|row| row.void.is_some() || !row.runs.is_empty()).collect();
    if cell.systems.contains(&System::Bmv2) && !have_bmv2 {
        out.push(recorded());
    }
    Ok((out, made.into_iter().filter_map(|one| one.failed).collect()))
}

/// What each run is above the direct wire and above the bridge in the same round: the two shared the machine's mood. A void run is no floor,
/// and nothing is above one.
fn above_floors(systems: &[&System], made: &mut [Made<SwitchRun>]) {
    let p50_of = |run: &SwitchRun| run.rtt_p50_ns.filter(|_| run.void.is_none());
    let floor = |of: &System, made: &[Made<SwitchRun>]| -> BTreeMap<u32, u64> {
        let at = systems.iter().position(|system| *system == of);
        let runs = at.map_or(&[][..], |at| &made[at].runs[..]);
        runs.iter().filter_map(|(round, run)| Some((*round, p50_of(run)?))).collect()
    };
    let (direct, bridge) = (floor(&System::Direct, made), floor(&System::Bridge, made));
    for (round, run) in made.iter_mut().flat_map(|one| &mut one.runs) {
        let above =
            |floor: &BTreeMap<u32, u64>| Some(p50_of(run)?.cast_signed() - floor.get(round)?.cast_signed());
        (run.added_latency_ns, run.over_bridge_ns) = (above(&direct), above(&bridge));
    }
}

fn row_of(system: &System, cell: &LiveCell, program: &Program, command: &str) -> SwitchRow {
    let runs_program = matches!(system, System::Barewire { .. } | System::Bmv2);
    let mut notes = Vec::new();
    let in_kernel = matches!(system, System::Barewire { engine: EngineKind::Kernel, .. });
    if cell.offloads && in_kernel {
        notes.push("at tc: frames that are still to be cut pass whole".to_owned());
    } else if cell.gro && (in_kernel || matches!(system, System::Redirect(_))) {
        notes.push("XDP in the driver".to_owned());
    } else if cell.offloads && matches!(system, System::Barewire { .. } | System::BareLoop { .. }) {
        notes.push("gso=1: frames that are still to be cut pass whole".to_owned());
    }
    if !cell.options.is_empty() && matches!(system, System::Barewire { .. } | System::BareLoop { .. }) {
        notes.push(format!("ports: {}", cell.options));
    }
    let engine = match system {
        System::Barewire { engine, .. } => Some(engine.to_string()),
        _ => None,
    };
    SwitchRow {
        system: system.name().to_owned(),
        over: system.over().to_owned(),
        program: runs_program.then(|| program.source.shown.clone()),
        load_us: engine.as_ref().and_then(|engine| program.load_us.get(engine).copied()),
        engine,
        size: 42 + load::PAYLOAD as u32,
        offloads: Some(cell.offloads),
        gro: cell.gro.then_some(true),
        seconds: cell.seconds.as_secs_f64(),
        notes,
        command: command.to_owned(),
        ..SwitchRow::default()
    }
}

/// bmv2's row where there is no bmv2.
pub fn recorded() -> SwitchRow {
    let mut row = SwitchRow {
        system: "bmv2".to_owned(),
        over: "veth".to_owned(),
        program: Some("simple_router".to_owned()),
        size: 60,
        offloads: Some(false),
        seconds: 30.0,
        recorded: Some(RECORDED.to_owned()),
        ..SwitchRow::default()
    };
    let session = |(tcp, udp): (f64, f64)| SwitchRun {
        tcp_mbps: Some(tcp),
        udp_pps: Some(udp),
        udp_peak_pps: Some(RECORDED_UDP_PEAK_PPS),
        udp_flood_pps: Some(RECORDED_UDP_FLOOD_PPS),
        ..SwitchRun::default()
    };
    row.take_runs(RECORDED_TCP_MBPS.into_iter().zip(RECORDED_UDP_PPS).map(session).collect());
    row
}

#[cfg(test)]
mod tests;
