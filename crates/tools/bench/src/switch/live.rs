//! A switch between two hosts: each system in turn on the same wires, under the same traffic.

use super::bmv2;
use super::figures::{RECORDED_TCP_MBPS, RECORDED_UDP_FLOOD_PPS, RECORDED_UDP_PEAK_PPS, RECORDED_UDP_PPS};
use super::files::Folder;
use super::load::{self, Ends, Exchanged};
use super::program::{Kind, Source, kind_of};
use super::redirect::{At, Redirect};
use super::row::{HOSTS, Paced, Told, above_floors, interleave, judge_hosts};
use super::setup::{Step, apply};
use super::wires::{Bridge, PORTS, Traffic, Way, Wires, router_steps, traffic};
use crate::awake::{hold, stolen};
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::messages::IdleState;
use crate::row::{Measure, Measured, Param, Row, Subject, Unit};
use crate::run;
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
use serde_json::json;
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

/// A system between the hosts, in turns with others.
struct Between<'a> {
    system: &'a System,
    wires: &'a Wires,
    cell: &'a LiveCell,
    program: &'a Program,
    idle_state: IdleState,
    command: &'a str,
}

impl Between<'_> {
    fn engine(&self) -> Option<EngineKind> {
        match self.system {
            System::Barewire { engine, .. } => Some(*engine),
            _ => None,
        }
    }

    fn run(&self) -> Result<Measured, BenchError> {
        let Between { system, wires, cell, program, .. } = *self;
        let forwarder = start(system, wires, cell, program)?;
        let ends = Ends::new(wires, system.way());
        load::wait_for_way(ends)?;
        // Whose CPU it is, paced runs know.
        let mut run = Measured::default().metered(None, None);
        let mut void = None;
        let part = |parts: u64| part(cell.seconds, parts);
        let watch = Contention::start();
        if cell.tests.latency {
            let seen = load::echoes(ends, part(2), ECHOES)?;
            run = run.number("rtt_samples", seen.rtt.samples() as f64).number("rtt_lost", seen.lost as f64);
            for (key, q) in [("rtt_p50_ns", 0.5), ("rtt_p99_ns", 0.99)] {
                let ns = seen.rtt.quantile(q).value();
                run = ns.into_iter().fold(run, |run, ns| run.number(key, ns as f64));
            }
            void = seen.void();
            run = run.spans("rtt", seen.rtt);
            go_on()?;
        }
        if cell.tests.tcp {
            let stream = load::tcp(ends, cell.seconds)?;
            run = run.number("tcp_mbps", stream.mbps);
            run = run.number("tcp_data_packets_per_s", stream.data_packets_per_s);
        }
        if cell.tests.iperf {
            run = run.number("iperf_mbps", load::iperf_mbps(ends, cell.seconds)?);
        }
        if cell.tests.paced {
            let mut paced = Vec::new();
            for pps in PACED_PPS {
                go_on()?;
                paced.push(one_paced(ends, wires, &forwarder, pps, part(4))?);
            }
            run = run.word("paced", json!(paced));
        }
        if cell.tests.udp {
            let found = load::search(|pps| {
                go_on()?;
                load::offer(ends, pps, udp_trial(cell.seconds))
            })?;
            run = run
                .number("udp_pps", found.carried_pps)
                .number("udp_peak_pps", found.peak_pps)
                .number("udp_flood_offered_pps", found.flood_offered_pps)
                .number("udp_flood_pps", found.flood_pps);
        }
        // Senders, receivers and switch share few cores: being switched out is the rule here, and says nothing. What the
        // hypervisor took does.
        let mut report = watch.finish();
        report.reasons = stolen(report.clone());
        report.contended = !report.reasons.is_empty();
        run = run.watched(&report);
        run.void = void;
        Ok(run)
    }
}

impl run::Workload for Between<'_> {
    fn subjects(&self) -> Vec<Subject> {
        let runs_program = matches!(self.system, System::Barewire { .. } | System::Bmv2);
        let program = runs_program.then(|| self.program.source.shown.clone());
        let mut params = params(program.as_deref(), self.cell.offloads);
        params.extend(self.cell.gro.then(|| Param::word("gro", true)));
        vec![Subject {
            bench: "switch",
            system: self.system.name().to_owned(),
            engine: self.engine().map(|engine| engine.to_string()),
            over: Some(self.system.over().to_owned()),
            params,
            idle_state: Some(self.idle_state),
            command: self.command.to_owned(),
            ..Subject::default()
        }]
    }

    fn title(&self) -> String {
        format!("{} over {}", self.system.name(), self.system.over())
    }

    fn measures(&self) -> &'static [Measure] {
        HOSTS
    }

    fn planned(&self) -> Duration {
        planned_time(self.cell.tests, self.cell.seconds)
    }

    fn shows_that_it_was_tried(&self) -> bool {
        true
    }

    fn slice(&mut self, _: u32, _: &Charge) -> Result<Vec<Measured>, BenchError> {
        Ok(vec![self.run()?])
    }

    fn judge(&self, row: &mut Row) {
        let Between { system, cell, program, .. } = *self;
        let in_kernel = self.engine() == Some(EngineKind::Kernel);
        let has_ports = matches!(system, System::Barewire { .. } | System::BareLoop { .. });
        if cell.offloads && in_kernel {
            row.notes.push("at tc: frames that are still to be cut pass whole".to_owned());
        } else if cell.gro && (in_kernel || matches!(system, System::Redirect(_))) {
            row.notes.push("XDP in the driver".to_owned());
        } else if cell.offloads && has_ports {
            row.notes.push("gso=1: frames that are still to be cut pass whole".to_owned());
        }
        if !cell.options.is_empty() && has_ports {
            row.notes.push(format!("ports: {}", cell.options));
        }
        judge_hosts(row);
        row.set("seconds", cell.seconds.as_secs_f64());
        if let Some(us) = self.engine().and_then(|engine| program.load_us.get(&engine.to_string())) {
            row.set("load_us", *us as f64);
        }
    }
}

/// What systems between hosts are asked for. Several programs are several rows of ours, and each stands beside systems without any.
fn params(program: Option<&str>, offloads: bool) -> Vec<Param> {
    vec![
        Param::quiet("program", program),
        Param::new("size", Unit::Bytes, 42 + load::PAYLOAD),
        Param::word("offloads", offloads),
    ]
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
) -> Result<run::Outcome, BenchError> {
    let program = &Program::load(cell)?;
    let wires = &Wires::make(cell.offloads, cell.gro)?;
    let (_awake, idle_state) = hold(cell.idle_state);
    let have_bmv2 = bmv2::Installed::find().is_some();
    let measured = cell.systems.iter().filter(|system| have_bmv2 || **system != System::Bmv2);
    let between = |system| Between { system, wires, cell, program, idle_state, command };
    let (mut rows, failed) = interleave(measured.map(between), runs, told);
    above_floors(&mut rows);
    // Where the hosts poll it would stand beside nothing: those of the record did not.
    if cell.systems.contains(&System::Bmv2) && !have_bmv2 && !cell.gro {
        rows.push(recorded());
    }
    Ok((rows, failed))
}

/// bmv2's row where there is no bmv2.
pub fn recorded() -> Row {
    let session = |(tcp, udp): (f64, f64)| {
        Measured::default()
            .number("tcp_mbps", tcp)
            .number("udp_pps", udp)
            .number("udp_peak_pps", RECORDED_UDP_PEAK_PPS)
            .number("udp_flood_pps", RECORDED_UDP_FLOOD_PPS)
    };
    let runs: Vec<Measured> = RECORDED_TCP_MBPS.into_iter().zip(RECORDED_UDP_PPS).map(session).collect();
    let mut row = bmv2::recorded("veth", params(Some("simple_router"), false), HOSTS, &runs);
    row.set("seconds", 30.0);
    row
}

#[cfg(test)]
mod tests;
