//! What a command asks for, checked before anything is made, and the rows that come of it.

use super::files::FilesCell;
use super::live::{LiveCell, System, Tests};
use super::mem::MemCell;
use super::program::Source;
use super::redirect::At;
use super::row::Told;
use super::workload::{Masks, Spec};
use super::{bmv2, files, inside, live, mem};
use crate::error::{BenchError, go_on};
use crate::messages::IdleState;
use crate::published::plan::SEED_RUNS;
use crate::row::Row;
use crate::run;
use crate::search::frames;
use crate::search::messages::TrialLine;
use barewire_base::Duration;
use barewire_engine::IdleStrategy;
use barewire_measure::pin_to_core;
use barewire_switch::prepared::EngineKind;
use std::fmt;

/// Where the switch is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Between memory ports, in one thread.
    Mem,
    /// From capture file to capture file.
    Pcap,
    /// Between hosts, over AF_XDP.
    Xdp,
    /// Between hosts, over AF_PACKET.
    Packet,
    /// Between hosts, over DPDK's packet sockets.
    Dpdk,
    /// In the kernel, on packets of no interface.
    TestRun,
}

/// What a plan expects: setting up a table, packets per second from file to file, ours and bmv2's.
const MEM_SETUP: Duration = Duration::from_millis(100);
const PCAP_PPS: f64 = 1e6;
const PCAP_BMV2_PPS: f64 = 40_000.0;

impl Over {
    /// Whether it lies between hosts.
    fn needs_hosts(self) -> bool {
        matches!(self, Over::Xdp | Over::Packet | Over::Dpdk)
    }
}

const OVERS: [(&str, Over); 6] = [
    ("mem", Over::Mem),
    ("pcap", Over::Pcap),
    ("xdp", Over::Xdp),
    ("packet", Over::Packet),
    ("dpdk", Over::Dpdk),
    ("test-run", Over::TestRun),
];

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(OVERS.iter().find(|(_, over)| over == self).map_or("", |(name, _)| name))
    }
}

barewire_text::named!(Over, OVERS);

/// What is measured beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The kernel's bridge.
    Bridge,
    /// The kernel's router.
    Routing,
    /// bmv2's `simple_switch`.
    Bmv2,
}

const BASELINES: [(&str, Baseline); 3] =
    [("bridge", Baseline::Bridge), ("routing", Baseline::Routing), ("bmv2", Baseline::Bmv2)];

barewire_text::named!(Baseline, BASELINES);

/// Baselines by one word: `bridge`, `routing` or `bmv2`, or `all` or `none` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baselines(pub Vec<Baseline>);

barewire_text::named!(Baselines some, BASELINES);

/// Traffic between hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// A TCP stream.
    Tcp,
    /// UDP as fast as it goes.
    Udp,
    /// A UDP request and its echo.
    Latency,
    /// Paced UDP.
    Paced,
}

const TESTS: [(&str, Test); 4] =
    [("tcp", Test::Tcp), ("udp", Test::Udp), ("latency", Test::Latency), ("paced", Test::Paced)];

barewire_text::named!(Test, TESTS);

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where.
    pub overs: Vec<Over>,
    /// Which programs.
    pub programs: Vec<Source>,
    /// What runs them.
    pub engines: Vec<EngineKind>,
    /// Sizes of packets.
    pub sizes: Vec<u32>,
    /// Entries of the swept table.
    pub entries: Vec<u32>,
    /// Masks of ternary tables.
    pub masks: Vec<Masks>,
    /// Distinct packets.
    pub flows: Option<u32>,
    /// Measured time of a run.
    pub seconds: Duration,
    /// Runs of each system.
    pub runs: u32,
    /// Packets of a capture file.
    pub packets: u64,
    /// Beside it.
    pub baselines: Vec<Baseline>,
    /// Traffic between hosts; all when empty.
    pub tests: Vec<Test>,
    /// `iperf` beside our own TCP.
    pub iperf: bool,
    /// The hosts' offloads are on.
    pub offloads: bool,
    /// Rows with the hosts' offloads on, besides those with them off.
    pub gso: bool,
    /// The hosts poll, and programs in the kernel stand in the driver.
    pub gro: bool,
    /// What our engine does when nothing comes, between hosts.
    pub idle: IdleStrategy,
    /// Whether the cores are kept awake between hosts, where the machine can.
    pub idle_state: IdleState,
    /// Options of our ports between hosts.
    pub options: String,
    /// The core of the thread that measures memory and files.
    pub core: Option<usize>,
    /// Seed of all choices.
    pub seed: u64,
    /// The command, for rows.
    pub command: String,
}

impl Request {
    fn tests(&self) -> Tests {
        let has = |test| self.tests.is_empty() || self.tests.contains(&test);
        Tests {
            tcp: has(Test::Tcp),
            udp: has(Test::Udp),
            latency: has(Test::Latency),
            paced: has(Test::Paced),
            iperf: self.iperf,
        }
    }

    /// What cannot be run, before anything is.
    ///
    /// # Errors
    /// [`BenchError::Plan`] in words.
    pub fn check(&self) -> Result<(), BenchError> {
        let refuse = |why: &str| Err(BenchError::Plan(why.to_owned()));
        if self.seconds == Duration::ZERO || self.runs == 0 || self.packets == 0 {
            return refuse("a run needs some time, and there must be one");
        }
        let in_kernel = self.engines.contains(&EngineKind::Kernel);
        let takes_none = |over: &Over| *over == Over::Dpdk || (*over == Over::Xdp && !in_kernel);
        if self.offloads && self.overs.iter().any(takes_none) {
            return refuse(
                "xdp ports take no frame that is still to be cut: `--offloads on` goes over packet, or with `--engine kernel`",
            );
        }
        if self.gso && !in_kernel && !self.overs.contains(&Over::Packet) {
            return refuse("`--gso` and `--offloads off,on` go over packet, or with `--engine kernel`");
        }
        if self.gro && (self.offloads || self.gso || !in_kernel || !self.overs.contains(&Over::Xdp)) {
            return refuse(
                "`--gro` is for programs at XDP between hosts without offloads: `--engine kernel --over xdp`",
            );
        }
        let is_kernels = |over: &Over| matches!(over, Over::Xdp | Over::TestRun);
        if in_kernel && !self.overs.iter().any(is_kernels) {
            return refuse(
                "the kernel's engine is at interfaces, or in test runs: add xdp or test-run to `--over`",
            );
        }
        if self.overs.contains(&Over::TestRun) && !in_kernel {
            return refuse("test runs are of the kernel's engine: add `--engine kernel`");
        }
        if self.iperf && bmv2::on_path("iperf").is_none() {
            return refuse("`iperf` is not on the PATH");
        }
        Ok(())
    }

    /// Engines whose packets are in user space.
    fn user_engines(&self) -> impl Iterator<Item = &EngineKind> {
        self.engines.iter().filter(|engine| **engine != EngineKind::Kernel)
    }

    /// The points of the sweep.
    fn points(&self) -> Vec<(&Source, Spec)> {
        let mut points = Vec::new();
        for program in &self.programs {
            // Only rules have masks: other programs would be measured several times.
            let masks =
                if program.name == "acl" { &self.masks[..] } else { &self.masks[..1.min(self.masks.len())] };
            for &size in &self.sizes {
                for &entries in &self.entries {
                    for &masks in masks {
                        points.push((
                            program,
                            Spec { size, entries, masks, flows: self.flows, seed: self.seed },
                        ));
                    }
                }
            }
        }
        points
    }

    /// What is measured in memory, by what takes turns: programs and engines with packets of one size and as many entries. More at once
    /// would fill the memory, and stand beside nothing.
    fn mem_cells(&self) -> Vec<Vec<MemCell>> {
        let mut groups: Vec<Vec<MemCell>> = Vec::new();
        for (source, spec) in self.points() {
            let cells = self.user_engines().map(|&engine| MemCell { source: source.clone(), engine, spec });
            let same = |group: &&mut Vec<MemCell>| {
                group
                    .first()
                    .is_some_and(|cell| (cell.spec.size, cell.spec.entries) == (spec.size, spec.entries))
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.extend(cells),
                None => groups.push(cells.collect()),
            }
        }
        groups
    }

    /// The systems between hosts whose offloads are so.
    fn systems(&self, offloads: bool) -> Vec<System> {
        let mut systems = vec![System::Direct];
        for baseline in &self.baselines {
            match baseline {
                Baseline::Bridge => systems.push(System::Bridge),
                Baseline::Routing => systems.push(System::Routing),
                // Its own benchmark turns offloads off, and its ports take no such frame.
                Baseline::Bmv2 if offloads => {}
                Baseline::Bmv2 => systems.push(System::Bmv2),
            }
        }
        for &over in self.overs.iter().filter(|over| over.needs_hosts()) {
            // Ports in user space.
            let takes = over == Over::Packet || !offloads;
            let text = over.to_string();
            if takes {
                systems.push(System::BareLoop { over: text.clone() });
            }
            for &engine in &self.engines {
                // Programs in the kernel are at the interface, whatever user space's ports are.
                if engine == EngineKind::Kernel && over == Over::Xdp {
                    let floors: &[At] = match (offloads, self.gro) {
                        (true, _) => &[At::Tc, At::TcPeer],
                        (false, true) => &[At::XdpNative],
                        (false, false) => &[At::Xdp],
                    };
                    systems.extend(floors.iter().map(|&at| System::Redirect(at)));
                    let over = if offloads { "tc" } else { "xdp" }.to_owned();
                    systems.push(System::Barewire { over, engine });
                } else if engine != EngineKind::Kernel && takes {
                    systems.push(System::Barewire { over: text.clone(), engine });
                }
            }
        }
        systems
    }

    fn live(&self, offloads: bool, source: &Source) -> LiveCell {
        LiveCell {
            systems: self.systems(offloads),
            source: source.clone(),
            offloads,
            gro: self.gro,
            tests: self.tests(),
            seconds: self.seconds,
            idle: self.idle,
            idle_state: self.idle_state,
            options: self.options.clone(),
        }
    }

    /// How long all of it takes, about.
    pub fn planned_time(&self) -> Duration {
        let seconds = |s: f64| Duration::from_nanos((s * 1e9) as u64);
        let sum = |parts: &mut dyn Iterator<Item = Duration>| parts.fold(Duration::ZERO, |a, b| a + b);
        let (points, engines) = (self.points().len() as u64, self.engines.len() as u64);
        let has = |baseline| self.baselines.contains(&baseline);
        let alone = |over: &Over| match over {
            Over::Mem => (self.seconds + MEM_SETUP).saturating_mul(points * engines),
            Over::TestRun => (self.seconds + MEM_SETUP).saturating_mul(2 * points),
            Over::Pcap => {
                let ours = seconds(self.packets as f64 / PCAP_PPS).saturating_mul(engines);
                let bmv2 = has(Baseline::Bmv2) && bmv2::Installed::find().is_some();
                let theirs = self.packets.min(files::BMV2_PACKETS_MAX) as f64 / PCAP_BMV2_PPS;
                (ours + seconds(if bmv2 { theirs } else { 0.0 })).saturating_mul(points)
            }
            Over::Xdp | Over::Packet | Over::Dpdk => Duration::ZERO,
        };
        let between = |offloads: bool| {
            let wanted = if offloads { self.offloads || self.gso } else { !self.offloads };
            let needs = self.overs.iter().any(|over| over.needs_hosts());
            let systems = self.systems(offloads).len() as u64 * self.programs.len() as u64;
            live::planned_time(self.tests(), self.seconds).saturating_mul(if wanted && needs {
                systems
            } else {
                0
            })
        };
        let round = sum(&mut self.overs.iter().map(alone)) + between(false) + between(true);
        round.saturating_mul(self.runs.into())
    }

    /// Measures everything: rows, and why cells failed. What fails takes nothing else with it; its row says in which run it broke off, if
    /// it came so far.
    pub fn run(&self, told: Told<'_>) -> run::Outcome {
        let (mut rows, mut failures) = (Vec::new(), Vec::new());
        let given_up = self.run_into(&mut rows, &mut failures, told).err();
        failures.extend(given_up);
        (rows, failures)
    }

    /// Searches the throughput of every point and system, one after the other. `tell` hears each trial. Rows that were found
    /// before something failed, or somebody interrupted, are given with it.
    pub fn search(
        &self,
        asked: &frames::Request,
        tell: &mut (dyn FnMut(&str, &TrialLine) + Send),
    ) -> (Vec<Row>, Option<BenchError>) {
        let mut rows = Vec::new();
        let failed = self.search_into(asked, &mut rows, tell).err();
        (rows, failed)
    }

    fn search_into(
        &self,
        asked: &frames::Request,
        rows: &mut Vec<Row>,
        tell: &mut (dyn FnMut(&str, &TrialLine) + Send),
    ) -> Result<(), BenchError> {
        self.check()?;
        let mut add = |(more, failed): (Vec<Row>, Option<BenchError>)| {
            rows.extend(more);
            failed.map_or(Ok(()), Err)
        };
        for over in &self.overs {
            match over {
                Over::Mem => {
                    for (source, spec) in self.points() {
                        for &engine in self.user_engines() {
                            go_on()?;
                            let cell = MemCell { source: source.clone(), engine, spec };
                            let name = format!("{} over mem ({engine})", source.name);
                            add(self.pinned(|| {
                                frames::search_mem(asked, &cell, &mut |line| tell(&name, line))
                            })?)?;
                        }
                    }
                }
                Over::Pcap | Over::TestRun => {
                    let why =
                        "a capture is replayed as fast as it goes: `--search` is for mem, xdp and packet";
                    return Err(BenchError::Plan(why.to_owned()));
                }
                Over::Xdp | Over::Packet | Over::Dpdk => {}
            }
        }
        if !self.overs.iter().any(|over| over.needs_hosts()) {
            return Ok(());
        }
        for source in &self.programs {
            let cell = self.live(self.offloads, source);
            let mut tell = |system: &System, line: &TrialLine| {
                tell(&format!("{} over {}", system.name(), system.over()), line);
            };
            add(frames::search_live(asked, &cell, &mut tell)?)?;
        }
        Ok(())
    }

    /// Gives up where nothing more can be run.
    fn run_into(
        &self,
        rows: &mut Vec<Row>,
        failures: &mut Vec<BenchError>,
        told: Told<'_>,
    ) -> Result<(), BenchError> {
        self.check()?;
        let Told { tell, keep } = told;
        let (runs, seconds, command) = (self.runs, self.seconds, self.command.as_str());
        // What one of the parts measures comes behind what is there.
        let mut part = |measure: &mut Part<'_>| {
            go_on()?;
            let before = rows.clone();
            let mut keep = |more: &[Row]| keep(&[before.as_slice(), more].concat());
            match measure(Told { tell: &mut *tell, keep: &mut keep }) {
                Ok((more, failed)) => {
                    rows.extend(more);
                    failures.extend(failed);
                }
                Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
                Err(error) => failures.push(error),
            }
            go_on()
        };
        for over in &self.overs {
            match over {
                Over::Mem => {
                    for cells in self.mem_cells() {
                        part(&mut |told| self.pinned(|| mem::measure(&cells, runs, seconds, command, told)))?;
                    }
                }
                Over::Pcap => {
                    for (source, spec) in self.points() {
                        let cell = FilesCell {
                            source: source.clone(),
                            spec,
                            packets: self.packets,
                            engines: self.user_engines().copied().collect(),
                            bmv2: self.baselines.contains(&Baseline::Bmv2),
                        };
                        part(&mut |told| self.pinned(|| files::measure(&cell, runs, command, told)))?;
                    }
                }
                Over::TestRun => {
                    for (source, spec) in self.points() {
                        let cell = MemCell { source: source.clone(), engine: EngineKind::Kernel, spec };
                        part(&mut |told| {
                            self.pinned(|| inside::measure(&cell, runs, seconds, command, told))
                        })?;
                    }
                }
                Over::Xdp | Over::Packet | Over::Dpdk => {}
            }
        }
        if !self.overs.iter().any(|over| over.needs_hosts()) {
            return Ok(());
        }
        for source in &self.programs {
            for offloads in [false, true] {
                let wanted = if offloads { self.offloads || self.gso } else { !self.offloads };
                if wanted {
                    let cell = self.live(offloads, source);
                    part(&mut |told| live::measure(&cell, runs, command, told))?;
                }
            }
        }
        Ok(())
    }

    /// Runs `body` on a thread of its own, on the core that was asked for: pinning it must not pin the caller, nor what else
    /// the caller starts.
    fn pinned<T: Send>(&self, body: impl FnOnce() -> Result<T, BenchError> + Send) -> Result<T, BenchError> {
        let core = self.core;
        std::thread::scope(|scope| {
            let run = move || {
                if let Some(core) = core {
                    pin_to_core(core).map_err(BenchError::io(format!("pinning to core {core}")))?;
                }
                body()
            };
            scope.spawn(run).join()
        })
        .unwrap_or_else(|_| Err(BenchError::Plan("the thread that measures panicked".to_owned())))
    }
}

/// Measures a part, and tells of it.
type Part<'a> = dyn FnMut(Told<'_>) -> Result<run::Outcome, BenchError> + 'a;

/// Entries and size of the engine's rows beside it.
const SEED_ENTRIES: u32 = 1_000;
const SEED_SIZE: u32 = 64;

/// The published experiment of bmv2 as requests: the engine without wires, and between hosts where they can be made.
///
/// # Errors
/// [`BenchError::Plan`] when the router's program cannot be had.
pub fn seed_requests(
    with_hosts: bool,
    quick: bool,
    runs: Option<u32>,
    seconds: Duration,
    core: Option<usize>,
    command: &str,
) -> Result<Vec<Request>, BenchError> {
    let router = "simple_router".parse().map_err(BenchError::Plan)?;
    let alone = Request {
        overs: vec![Over::Mem, Over::Pcap],
        programs: vec![router],
        engines: vec![EngineKind::Native],
        sizes: vec![SEED_SIZE],
        entries: vec![SEED_ENTRIES],
        masks: vec![Masks::Some(64)],
        flows: None,
        seconds,
        runs: runs.unwrap_or(if quick { 1 } else { SEED_RUNS }),
        packets: 1_000_000,
        baselines: vec![Baseline::Bridge, Baseline::Bmv2],
        tests: vec![Test::Tcp],
        iperf: false,
        offloads: false,
        gso: false,
        gro: false,
        idle: IdleStrategy::default(),
        idle_state: IdleState::Warm,
        options: String::new(),
        core,
        seed: 1,
        command: command.to_owned(),
    };
    let between = Request { overs: vec![Over::Xdp, Over::Packet], ..alone.clone() };
    Ok(if with_hosts { vec![between, alone] } else { vec![alone] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            overs: vec![Over::Mem],
            programs: vec!["simple_router".parse().unwrap()],
            engines: vec![EngineKind::Interpreter],
            sizes: vec![64],
            entries: vec![10],
            masks: vec![Masks::Some(64)],
            flows: Some(50),
            seconds: Duration::from_millis(10),
            runs: 1,
            packets: 100,
            baselines: Vec::new(),
            tests: Vec::new(),
            iperf: false,
            offloads: false,
            gso: false,
            gro: false,
            idle: IdleStrategy::default(),
            idle_state: IdleState::Warm,
            options: String::new(),
            core: None,
            seed: 1,
            command: "barewire bench switch".to_owned(),
        }
    }

    #[test]
    fn the_kernels_engine_is_measured_at_xdp() {
        let with = |overs: &[Over]| Request {
            overs: overs.to_vec(),
            engines: vec![EngineKind::Native, EngineKind::Kernel],
            ..request()
        };
        let why = |overs: &[Over]| with(overs).check().map_err(|error| error.to_string());
        assert!(why(&[Over::Mem, Over::Packet]).unwrap_err().contains("add xdp"));
        assert_eq!(why(&[Over::Xdp, Over::Packet]), Ok(()));
        assert_eq!(why(&[Over::Mem, Over::TestRun]), Ok(()));
        let systems = with(&[Over::Xdp, Over::Packet]).systems(false);
        let kernel = |system: &&System| matches!(system, System::Barewire { engine: EngineKind::Kernel, .. });
        assert_eq!(systems.iter().filter(kernel).count(), 1, "{systems:?}");
        let on = with(&[Over::Xdp]).systems(true);
        let names: Vec<(&str, &str)> = on.iter().map(|system| (system.name(), system.over())).collect();
        let floors = [("bare-redirect", "tc"), ("bare-redirect", "tc-peer")];
        assert_eq!(names, [("direct", "veth"), floors[0], floors[1], ("barewire", "tc")]);
        // Where the hosts poll, the floor stands in the driver, too.
        let gro = Request { gro: true, ..with(&[Over::Xdp]) };
        assert!(gro.check().is_ok());
        let systems = gro.systems(false);
        assert!(
            systems.iter().any(|system| matches!(system, System::Redirect(At::XdpNative))),
            "{systems:?}"
        );
        for wrong in [
            Request { offloads: true, ..gro.clone() },
            Request { overs: vec![Over::Packet], ..gro.clone() },
            Request { engines: vec![EngineKind::Native], ..gro.clone() },
        ] {
            assert!(wrong.check().unwrap_err().to_string().contains("`--gro`"));
        }
    }

    #[test]
    fn words_are_known_or_near() {
        assert_eq!("xdp".parse(), Ok(Over::Xdp));
        assert!("xpd".parse::<Over>().unwrap_err().contains("did you mean `xdp`?"));
        assert_eq!("bmv2".parse(), Ok(Baseline::Bmv2));
        assert!("brigde".parse::<Baseline>().unwrap_err().contains("did you mean `bridge`?"));
        assert!("ping".parse::<Test>().unwrap_err().contains("tcp, udp, latency, paced"));
        assert_eq!(Over::Packet.to_string(), "packet");
        let baselines = |text: &str| text.parse::<Baselines>().map(|all| all.0);
        assert_eq!(baselines("bmv2"), Ok(vec![Baseline::Bmv2]));
        assert_eq!((baselines("none"), baselines("all").map(|all| all.len())), (Ok(vec![]), Ok(3)));
        assert!(baselines("al").unwrap_err().contains("did you mean `all`?"));
    }

    #[test]
    fn what_cannot_be_run_is_refused_first() {
        let why = |change: fn(&mut Request)| {
            let mut request = request();
            change(&mut request);
            request.check().unwrap_err().to_string()
        };
        assert!(why(|r| r.runs = 0).contains("must be one"));
        assert!(why(|r| (r.overs, r.offloads) = (vec![Over::Xdp], true)).contains("goes over packet"));
        assert!(why(|r| (r.overs, r.gso) = (vec![Over::Xdp], true)).contains("go over packet"));
        assert!(request().check().is_ok());
    }

    #[test]
    fn points_are_every_combination_and_masks_are_for_rules() {
        let mut request = request();
        request.sizes = vec![64, 1518];
        request.entries = vec![1, 10, 100];
        request.masks = vec![Masks::Some(4), Masks::All];
        request.programs.push("acl".parse().unwrap());
        assert_eq!(request.points().len(), 2 * 3 + 2 * 3 * 2);
        // Programs take turns in memory: all of one size and as many entries.
        request.engines = vec![EngineKind::Native, EngineKind::Interpreter, EngineKind::Kernel];
        let groups = request.mem_cells();
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [2 * (1 + 2); 2 * 3]);
        assert!(groups.iter().all(|group| group.iter().any(|cell| cell.source.name == "acl")));
    }

    #[test]
    fn hosts_have_a_direct_wire_and_a_bare_loop_for_each_port() {
        let mut request = request();
        request.overs = vec![Over::Xdp, Over::Packet];
        request.baselines = vec![Baseline::Bridge, Baseline::Bmv2];
        let names = |offloads| -> Vec<String> {
            request.systems(offloads).iter().map(|s| format!("{s:?}")).collect()
        };
        let off = names(false);
        assert_eq!(off.len(), 7, "{off:?}");
        let on = names(true);
        assert!(!on.iter().any(|s| s.contains("xdp") || s.contains("Bmv2")) && on.len() == 4, "{on:?}");
    }

    #[test]
    fn memory_and_files_make_rows() {
        let mut request = request();
        request.overs = vec![Over::Mem, Over::Pcap];
        let (mut told, mut kept) = (0, Vec::new());
        request.runs = 3;
        let told_of = Told { tell: &mut |_| told += 1, keep: &mut |rows| kept.push(rows.len()) };
        let (rows, failures) = request.run(told_of);
        assert_eq!(kept, [1, 1, 2, 2], "after each round but the last, behind what is there");
        assert!(failures.is_empty(), "{failures:?}");
        let overs: Vec<&str> = rows.iter().filter_map(|r| r.subject.over.as_deref()).collect();
        assert_eq!(overs, ["mem", "pcap"]);
        assert!(told >= 2 && rows.iter().all(|r| r.void.is_none()), "{rows:?}");
    }

    #[test]
    fn what_fails_takes_nothing_with_it() {
        let mut request = request();
        request.entries = vec![10, 2_000_000, 20];
        request.programs.push("many_tables".parse().unwrap());
        let (rows, failures) = request.run(Told { tell: &mut |_| {}, keep: &mut |_| {} });
        let ours = rows.iter().filter(|row| row.param("program").as_deref() == Some("simple_router"));
        assert_eq!(ours.filter_map(|row| row.param("entries")).collect::<Vec<_>>(), ["10", "20"]);
        assert!(!failures.is_empty() && rows.len() + failures.len() == 6, "{failures:?}");
        assert!(failures[0].to_string().contains("room for"), "{failures:?}");
    }
}
