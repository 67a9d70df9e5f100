//! From words to rows.

use super::idle::Idle;
use super::live::{self, LiveResult, LiveRun, Over};
use super::row::{RcRow, RcRun, Span, little, void};
use super::sockets::Sockets;
use super::wires::{Hosts, Shape};
use super::{STEPS, Steps, tcp};
use crate::awake::hold;
use crate::cpu::{CpuUse, per_op};
use crate::error::{BenchError, go_on};
use crate::histograms::Histograms;
use crate::messages::IdleState;
use crate::rounds::{Made, in_turns, median, once_each};
use barewire_base::Duration;
use barewire_engine::IdleStrategy;
use barewire_measure::{Histogram, allowed_cores};
use std::cell::RefCell;

/// Client hosts, threads of each, NICs: at most.
pub const HOSTS_MAX: u32 = 64;
/// As above.
pub const THREADS_MAX: u32 = 64;
/// As above.
pub const NICS_MAX: u32 = 2;
/// Connections in flight of one client thread, at most.
pub const WINDOW_MAX: u32 = 4096;
/// Queue pairs that stay open, at most.
pub const LIVE_MAX: u64 = 4_000_000;

const OVERS: [(&str, Over); 4] =
    [("mem", Over::Mem), ("xdp", Over::Xdp), ("packet", Over::Packet), ("dpdk", Over::Dpdk)];

barewire_text::named!(Over, OVERS);

/// What else is measured on the same wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The kernel's connect, accept, close.
    KernelTcp,
}

barewire_text::named!(Baseline, BASELINES);

const BASELINES: [(&str, Baseline); 1] = [("kernel-tcp", Baseline::KernelTcp)];

/// Baselines by one word: `kernel-tcp`, or `all` or `none` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baselines(pub Vec<Baseline>);

barewire_text::named!(Baselines some, BASELINES);

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// What lies between the ends.
    pub overs: Vec<Over>,
    /// Client hosts.
    pub hosts: Vec<u32>,
    /// Threads of each.
    pub threads: Vec<u32>,
    /// NICs.
    pub nics: Vec<u32>,
    /// Connections in flight of each thread.
    pub windows: Vec<u32>,
    /// With the closing of each connection, or without.
    pub teardown: Vec<bool>,
    /// Queue pairs that stay open meanwhile.
    pub live: Vec<u64>,
    /// Both ends in one thread, where one client and one NIC are all and the wires are memory.
    pub one_thread: bool,
    /// Each connection has a completion queue of its own.
    pub own_cq: bool,
    /// The kernel beside it.
    pub baseline: Option<Baseline>,
    /// Measured time of a run.
    pub seconds: Duration,
    /// Runs of each row.
    pub runs: u32,
    /// Cores of client and server.
    pub cores: Option<(usize, usize)>,
    /// What a thread does when nothing comes; `None`: spins on a core of its own, yields without.
    pub idle: Option<IdleStrategy>,
    /// Whether the cores are kept awake, where the machine can.
    pub idle_state: IdleState,
    /// The command, for rows.
    pub command: String,
}

/// What one row is about.
#[derive(Clone, Copy, PartialEq)]
struct Cell {
    over: Over,
    shape: Shape,
    window: u32,
    /// `None`: the kernel.
    rdma: Option<Rdma>,
}

#[derive(Clone, Copy, PartialEq)]
struct Rdma {
    teardown: bool,
    live: u64,
}

/// Runs of a cell, put together.
#[derive(Default)]
struct Sum {
    latency: Histogram,
    steps: Option<Steps>,
    frames: Option<f64>,
    bytes: Option<f64>,
    connections: u64,
    failed: u64,
    stalled_s: f64,
    runs: Vec<RcRun>,
    contention: Vec<String>,
    cpu: Vec<Option<CpuUse>>,
    histograms: Histograms,
}

/// Hosts of each shape that cells need; of those that cannot be made it is said why elsewhere.
type AllHosts = Vec<(Shape, Result<Hosts, ()>)>;

/// What is there before anything is measured.
struct Found {
    hosts: AllHosts,
    /// Frames a second that the ports carry by themselves.
    ports: Vec<(Over, f64)>,
}

impl Request {
    /// One connection at a time of one thread over `over`, closed each, one run of a second and nothing beside it.
    pub fn new(over: Over, command: &str) -> Request {
        Request {
            overs: vec![over],
            hosts: vec![1],
            threads: vec![1],
            nics: vec![1],
            windows: vec![1],
            teardown: vec![true],
            live: vec![0],
            one_thread: false,
            own_cq: true,
            baseline: None,
            seconds: Duration::from_secs(1),
            runs: 1,
            cores: None,
            idle: None,
            idle_state: IdleState::Warm,
            command: command.to_owned(),
        }
    }

    /// What cannot be run, before anything is.
    ///
    /// # Errors
    /// [`BenchError::Plan`] in words.
    pub fn check(&self) -> Result<(), BenchError> {
        let refuse = |why: String| Err(BenchError::Plan(why));
        if self.runs == 0 || self.seconds == Duration::ZERO {
            return refuse("a run needs some time, and there must be one".to_owned());
        }
        for (option, values, max) in [
            ("--threads", &self.threads, THREADS_MAX),
            ("--hosts", &self.hosts, HOSTS_MAX),
            ("--nics", &self.nics, NICS_MAX),
            ("--window", &self.windows, WINDOW_MAX),
        ] {
            if let Some(bad) = values.iter().find(|value| !(1..=max).contains(*value)) {
                return refuse(format!("`{option} {bad}` is out of range: 1 to {max}"));
            }
        }
        if self.live.iter().any(|&live| live > LIVE_MAX) {
            return refuse(format!("`--live` is at most {LIVE_MAX}"));
        }
        if self.baseline.is_some() && self.windows.iter().any(|&w| w > tcp::WINDOW_MAX) {
            return refuse(format!("the kernel's baseline has at most {} in flight", tcp::WINDOW_MAX));
        }
        let alone = self.threads == [1] && self.hosts == [1] && self.nics == [1] && self.overs == [Over::Mem];
        if self.one_thread && !alone {
            return refuse(
                "both ends in one thread: `--over mem`, one client thread and one NIC only".to_owned(),
            );
        }
        Ok(())
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &over in &self.overs {
            for &nics in &self.nics {
                for &hosts in &self.hosts {
                    for &threads in &self.threads {
                        let shape = Shape { hosts, threads, nics: nics.min(threads) };
                        for &window in &self.windows {
                            self.add_cells(&mut cells, over, shape, window);
                        }
                    }
                }
            }
        }
        cells
    }

    fn add_cells(&self, cells: &mut Vec<Cell>, over: Over, shape: Shape, window: u32) {
        for &teardown in &self.teardown {
            for &live in &self.live {
                let cell = Cell { over, shape, window, rdma: Some(Rdma { teardown, live }) };
                // Fewer threads than NICs leave NICs idle: such rows are one.
                if !cells.contains(&cell) {
                    cells.push(cell);
                }
            }
        }
        let kernel = Cell { over, shape, window, rdma: None };
        if self.baseline.is_some() && !cells.contains(&kernel) {
            cells.push(kernel);
        }
    }

    /// How long all of it takes, about.
    pub fn planned_time(&self) -> Duration {
        let each = self.seconds + Duration::from_millis(800);
        each.saturating_mul(self.cells().len() as u64 * u64::from(self.runs))
    }

    /// Measures everything, run by run in turns, forth and back: rows, and why cells failed. One that fails is left out of later rounds,
    /// and its row says so. `keep` gets the rows so far after each round.
    pub fn run(
        &self,
        progress: &mut (dyn FnMut(String) + Send),
        keep: &mut dyn FnMut(&[RcRow]),
    ) -> (Vec<RcRow>, Vec<BenchError>) {
        let cells = self.cells();
        let mut failures = Vec::new();
        // Runs tell how fast it goes, too.
        let progress = RefCell::new(progress);
        let (_awake, idle_state) = hold(self.idle_state);
        let found = self.find(&cells, &mut failures);
        let rows = |made: &[Made<LiveResult>]| -> Vec<RcRow> {
            let ports = found.as_ref().map_or(&[][..], |found| &found.ports);
            let of = |(cell, made): (&Cell, &Made<LiveResult>)| {
                let port = ports.iter().find(|(over, _)| *over == cell.over).map(|(_, rate)| *rate);
                RcRow { idle_state: Some(idle_state), ..self.row_of(cell, made, port) }
            };
            cells.iter().zip(made).filter(|(_, made)| !made.runs.is_empty()).map(of).collect()
        };
        let made = match &found {
            Ok(Found { hosts, .. }) => {
                let mut once = |cell: &Cell, round: u32| {
                    let hosts = match hosts.iter().find(|(shape, _)| *shape == cell.shape) {
                        Some((_, Ok(hosts))) if cell.over != Over::Mem => Some(hosts),
                        Some((_, Err(_))) if cell.over != Over::Mem => return Ok(None),
                        _ => None,
                    };
                    self.run_once(cell, round, hosts, &mut **progress.borrow_mut()).map(Some)
                };
                let mut tell = |line| progress.borrow_mut()(line);
                self.rounds(&cells, &mut tell, &mut once, &mut |made| keep(&rows(made)))
            }
            Err(_) => Vec::new(),
        };
        let all = rows(&made);
        failures.extend(made.into_iter().filter_map(|one| one.failed));
        failures.extend(found.err().or_else(|| go_on().err()));
        (all, failures)
    }

    /// Hosts of each shape, and what ports carry by themselves.
    fn find(&self, cells: &[Cell], failures: &mut Vec<BenchError>) -> Result<Found, BenchError> {
        self.check()?;
        let mut hosts: AllHosts = Vec::new();
        for cell in cells.iter().filter(|cell| cell.over != Over::Mem) {
            if !hosts.iter().any(|(shape, _)| *shape == cell.shape) {
                go_on()?;
                let made = Hosts::create(cell.shape);
                // Cells of other shapes go on without them.
                hosts.push((cell.shape, made.map_err(|error| failures.push(error))));
            }
        }
        let mut ports = Vec::new();
        for &over in &self.overs {
            go_on()?;
            let single = Shape { hosts: 1, threads: 1, nics: 1 };
            let measured = match over {
                Over::Mem => live::port_frames_per_s(over, None, self.cores_for(single)),
                _ => Hosts::create(single)
                    .and_then(|hosts| live::port_frames_per_s(over, Some(&hosts), self.cores_for(single))),
            };
            match measured {
                Ok(rate) => ports.push((over, rate.round())),
                // Where no hosts can be made it is said above.
                Err(BenchError::Hosts(_)) if hosts.iter().any(|(_, made)| made.is_err()) => {}
                Err(error) => failures.push(error),
            }
        }
        Ok(Found { hosts, ports })
    }

    /// Runs all cells in turns by `once`, which gives nothing where a cell cannot be run at all.
    fn rounds(
        &self,
        cells: &[Cell],
        tell: &mut dyn FnMut(String),
        once: &mut Once<'_>,
        keep: &mut dyn FnMut(&[Made<LiveResult>]),
    ) -> Vec<Made<LiveResult>> {
        let titles: Vec<String> = cells.iter().map(Cell::title).collect();
        in_turns(&titles, self.runs, tell, &mut |at, round| once(&cells[at], round), keep)
    }

    fn run_once(
        &self,
        cell: &Cell,
        round: u32,
        hosts: Option<&Hosts>,
        progress: &mut (dyn FnMut(String) + Send),
    ) -> Result<LiveResult, BenchError> {
        let cores = self.cores_for(cell.shape);
        let Some(rdma) = cell.rdma else {
            let idle = Idle::of(self.idle, cores);
            return tcp::run(cell.shape, cell.window, self.seconds, cores, idle, hosts);
        };
        let run = LiveRun {
            over: cell.over,
            shape: cell.shape,
            one_thread: self.one_thread,
            window: cell.window,
            teardown: rdma.teardown,
            live: rdma.live,
            own_cq: self.own_cq,
            warmup: live::WARMUP,
            duration: self.seconds,
            cores,
            idle: self.idle,
            steps: round == 0 && cell.shape.clients() == 1,
        };
        live::run(&run, hosts, progress)
    }

    /// Cores to pin to: none when there are more threads than cores.
    fn cores_for(&self, shape: Shape) -> Option<(usize, usize)> {
        let threads = (shape.clients() + shape.nics) as usize;
        let cores = allowed_cores().map_or(1, |cores| cores.len());
        self.cores.filter(|_| threads <= cores.max(2) && threads == 2)
    }

    /// The rows of this request with nothing measured: for tests of what is made of rows.
    #[cfg(test)]
    pub(crate) fn unmeasured_rows(&self) -> Vec<RcRow> {
        let none = Made { runs: Vec::new(), broken_off: None, failed: None };
        self.cells().iter().map(|cell| self.row_of(cell, &none, None)).collect()
    }

    fn row_of(&self, cell: &Cell, made: &Made<LiveResult>, port: Option<f64>) -> RcRow {
        let sum = made.each().fold(Sum::default(), Sum::with);
        let threads = cell.shape.clients() + cell.shape.nics;
        let mut notes = Vec::new();
        let cores = allowed_cores().map_or(1, |cores| cores.len());
        let idle = Idle::of(self.idle, self.cores_for(cell.shape));
        if cell.rdma.is_some() && self.one_thread {
            // It never rests: meanwhile it is the other end.
        } else if threads as usize > cores {
            notes.push(format!("{threads} threads on {cores} cores: {}", idle.phrase()));
        } else if self.idle.is_some() {
            notes.push(idle.phrase().to_owned());
        }
        if sum.failed > 0 {
            notes.push(format!("{} connections failed", sum.failed));
        }
        let rates = sum.runs.iter().map(|run| run.connections_per_s);
        let rate = median(rates).unwrap_or_default();
        let teardown = cell.rdma.is_none_or(|rdma| rdma.teardown);
        let in_flight = cell.shape.clients() * cell.window;
        let (little, off) = little(rate, &sum.latency, in_flight, teardown);
        notes.extend(off);
        if cell.rdma.is_none() {
            notes.push(Sockets::how(cell.window).to_owned());
        }
        let no_baseline = match cell.rdma {
            None => tcp::stood_still(sum.stalled_s, in_flight, &sum.runs),
            Some(_) => None,
        };
        notes.extend(no_baseline.clone());
        let (cpu_ns_per_op, cpu) = per_op(sum.cpu.iter().map(Option::as_ref));
        let (latency_ns, together) = Span::of_runs(sum.runs.iter().map(|run| run.latency_ns), &sum.latency);
        notes.extend(together);
        RcRow {
            system: if cell.rdma.is_some() { "barewire" } else { "kernel-tcp" }.to_owned(),
            mode: match cell.rdma {
                Some(_) if self.one_thread => "embedded-one-thread",
                Some(_) => "embedded",
                None => idle.kernel_mode(),
            }
            .to_owned(),
            over: match (cell.over, cell.rdma) {
                (Over::Mem, None) => "loopback",
                (_, None) => "veth",
                (over, _) => over.as_str(),
            }
            .to_owned(),
            threads: cell.shape.threads,
            hosts: cell.shape.hosts,
            nics: cell.shape.nics,
            window: cell.window,
            teardown: cell.rdma.is_none_or(|rdma| rdma.teardown),
            live_qps: cell.rdma.map_or(0, |rdma| rdma.live),
            own_cq: cell.rdma.is_some() && self.own_cq,
            idle_state: None,
            connections_per_s: rate.round(),
            latency_ns,
            little,
            steps_ns: sum.steps,
            frames_per_connection: sum.frames.map(|f| (f * 100.0).round() / 100.0),
            port_frames_per_s: port.filter(|_| cell.rdma.is_some()),
            bytes_per_live_qp: sum.bytes,
            waits: None,
            cpu_unknown: None,
            opened: sum.connections,
            failed: sum.failed,
            contended: sum.runs.iter().any(|run| run.contended),
            no_baseline,
            void: void(sum.connections, sum.failed, &sum.runs),
            broken_off: made.broken_off.clone(),
            runs: sum.runs,
            contention: once_each(&sum.contention),
            cpu_ns_per_op,
            cpu,
            notes,
            command: self.command.clone(),
            histograms: sum.histograms,
        }
    }
}

/// One run of one cell in one round.
type Once<'a> = dyn FnMut(&Cell, u32) -> Result<Option<LiveResult>, BenchError> + 'a;

impl Cell {
    fn title(&self) -> String {
        let Shape { hosts, threads, nics } = self.shape;
        let what = match self.rdma {
            Some(Rdma { teardown, live }) => {
                let teardown = if teardown { "" } else { ", no teardown" };
                format!("barewire over {}{teardown}, {live} live", self.over.as_str())
            }
            None => "kernel-tcp".to_owned(),
        };
        format!("{what}, {hosts} x {threads} threads, {nics} NICs, window {}", self.window)
    }
}

impl Sum {
    fn with(mut self, result: &LiveResult) -> Sum {
        self.runs.push(RcRun::of(result));
        self.cpu.push(result.cpu);
        self.latency.merge(&result.latency);
        self.histograms.push("latency", &result.latency);
        for (name, spans) in STEPS.iter().zip(result.steps.iter().flatten()) {
            self.histograms.push(name, spans);
        }
        self.steps = self.steps.or(result.steps.as_ref().map(Steps::of));
        self.frames = self.frames.or(result.frames_per_connection);
        self.bytes = self.bytes.or(result.bytes_per_live_qp);
        self.connections += result.connections;
        self.failed += result.failed;
        self.stalled_s += result.stalled_s;
        self.contention.extend(result.contention.iter().flat_map(|c| c.reasons.clone()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::FAILED_MAX;
    use super::*;
    use crate::patience::until_seen;

    fn request() -> Request {
        Request {
            seconds: Duration::from_millis(100),
            runs: 2,
            ..Request::new(Over::Mem, "barewire bench rdma")
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused_first() {
        let why = |change: fn(&mut Request)| {
            let mut request = request();
            change(&mut request);
            request.check().unwrap_err().to_string()
        };
        assert!(why(|r| r.runs = 0).contains("must be one"));
        assert!(why(|r| r.threads = vec![1, 0]).contains("--threads 0"));
        assert!(why(|r| r.nics = vec![3]).contains("1 to 2"));
        assert!(why(|r| r.live = vec![1 << 40]).contains("--live"));
        assert!(why(|r| (r.one_thread, r.threads) = (true, vec![2])).contains("one thread"));
        assert!(why(|r| (r.baseline, r.windows) = (Some(Baseline::KernelTcp), vec![1000])).contains("256"));
        assert!(request().check().is_ok());
        assert!("men".parse::<Over>().unwrap_err().contains("did you mean `mem`?"));
        assert!("kernel_tcp".parse::<Baseline>().unwrap_err().contains("did you mean `kernel-tcp`?"));
        assert_eq!("all".parse::<Baselines>().map(|all| all.0), Ok(vec![Baseline::KernelTcp]));
        assert_eq!("none".parse::<Baselines>().map(|all| all.0), Ok(vec![]));
    }

    #[test]
    fn a_cell_that_fails_takes_no_other_with_it_and_its_row_says_so() {
        let mut request = Request { runs: 3, ..request() };
        request.windows = vec![1, 2, 4];
        let cells = request.cells();
        let mut order = Vec::new();
        let mut once = |cell: &Cell, round: u32| {
            order.push((round, cell.window));
            match (round, cell.window) {
                (1, 2) => Err(BenchError::Plan("the server is gone".to_owned())),
                _ => {
                    Ok(Some(LiveResult { connections: 7, seconds: 1.0, per_s: 7.0, ..LiveResult::default() }))
                }
            }
        };
        let mut kept = Vec::new();
        let mut keep =
            |made: &[Made<LiveResult>]| kept.push(made.iter().map(|one| one.runs.len()).sum::<usize>());
        let made = request.rounds(&cells, &mut |_| {}, &mut once, &mut keep);
        let told: Vec<u32> = order.iter().map(|(_, window)| *window).collect();
        assert_eq!(told, [1, 2, 4, 4, 2, 1, 1, 4], "forth, back, and without the one that failed");
        assert_eq!((made.iter().filter(|one| one.failed.is_some()).count(), kept), (1, vec![3, 5]));
        let rows: Vec<RcRow> =
            cells.iter().zip(&made).map(|(cell, made)| request.row_of(cell, made, None)).collect();
        assert_eq!(rows.iter().map(|row| row.runs.len()).collect::<Vec<_>>(), [3, 1, 3]);
        assert_eq!(rows[1].broken_off.as_deref(), Some("run 2 of 3 failed: the server is gone"));
        let notes = super::super::render::notes;
        assert!(notes(&rows[1]).contains(&"run 2 of 3 failed: the server is gone".to_owned()));
        assert!(rows[0].broken_off.is_none() && rows[0].void.is_none());
    }

    #[test]
    fn rows_say_how_threads_rest_where_it_matters() {
        let rows = |idle, threads, seconds| {
            let mut request = Request { seconds, ..request() };
            (request.idle, request.runs, request.threads) = (idle, 1, vec![threads]);
            request.baseline = Some(Baseline::KernelTcp);
            let (rows, failures) = request.run(&mut |_| {}, &mut |_| {});
            assert!(failures.is_empty(), "{failures:?}");
            rows
        };
        let many = allowed_cores().unwrap().len() as u32;
        for (idle, mode, phrase) in [
            (None, "yield", "they yield when idle"),
            (Some(IdleStrategy::Yield), "yield", "they yield when idle"),
            (Some(IdleStrategy::Park { spin: Duration::ZERO }), "blocking", "they sleep when idle"),
        ] {
            let rows = |seconds| rows(idle, many, seconds);
            let seen = |rows: &Vec<RcRow>| rows.iter().all(|row| row.connections_per_s > 0.0);
            for row in until_seen(request().seconds, rows, seen) {
                assert!(row.connections_per_s > 0.0, "{row:?}");
                assert!(row.notes.iter().any(|note| note.ends_with(phrase)), "{row:?}");
                let wanted = if row.system == "barewire" { "embedded" } else { mode };
                assert_eq!(row.mode, wanted);
            }
        }
        let asked = rows(Some(IdleStrategy::Yield), 1, request().seconds);
        assert!(asked.iter().all(|row| row.notes.iter().any(|note| note.ends_with("yield when idle"))));
    }

    #[test]
    fn rows_that_are_the_same_are_one() {
        let mut request = request();
        request.nics = vec![1, 2];
        request.threads = vec![1, 2];
        request.teardown = vec![true, false];
        request.baseline = Some(Baseline::KernelTcp);
        // One thread uses one NIC: three shapes, each with and without teardown, and the kernel beside it.
        assert_eq!(request.cells().len(), 9);
    }

    #[test]
    fn runs_take_turns_and_make_rows() {
        let mut request = request();
        request.windows = vec![1, 8];
        request.baseline = Some(Baseline::KernelTcp);
        let mut told = 0;
        let (rows, failures) = request.run(&mut |_| told += 1, &mut |_| {});
        assert!(failures.is_empty(), "{failures:?}");
        assert_eq!((rows.len(), told), (4, 8));
        for row in &rows {
            let asked = row.opened + row.failed;
            let unusable = row.opened == 0 || row.failed as f64 > FAILED_MAX * asked as f64;
            assert_eq!((row.runs.len(), row.void.is_some()), (2, unusable), "{row:?}");
            let of_runs = |of: fn(&RcRun) -> u64| row.runs.iter().map(of).sum::<u64>();
            assert_eq!((row.opened, row.failed), (of_runs(|r| r.connections), of_runs(|r| r.failed)));
            assert_eq!(row.system == "barewire", row.steps_ns.is_some());
            assert_eq!(row.system == "barewire", row.port_frames_per_s.is_some());
        }
        let known = crate::render::Known::all(&rows);
        assert!(known[0].same_work(&known[1]) && !known[0].same_work(&known[3]), "windows differ");
        // What a busy machine made of so short runs is no matter of what is said of them.
        let went_well = |mut row: RcRow| {
            (row.void, row.no_baseline, row.connections_per_s) = (None, None, 1_000.0);
            row.runs.iter_mut().for_each(|run| run.connections_per_s = 1_000.0);
            row
        };
        let rows: Vec<RcRow> = rows.into_iter().map(went_well).collect();
        let text = super::super::render::text_table(&rows);
        for part in [
            "loopback",
            "kernel TCP over loopback, in other ways and without wires",
            "found by poll",
            "DREQ to DREP",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let ratios = super::super::render::ratios;
        assert!(ratios(&rows).contains("(2 runs, too few for a verdict)"), "{}", ratios(&rows));
        let mut once = rows.clone();
        once.iter_mut().for_each(|row| row.runs.truncate(1));
        assert!(ratios(&once).contains("(one run, no verdict)"), "{}", ratios(&once));
        let mut still = rows.clone();
        for row in still.iter_mut().filter(|row| row.system == "kernel-tcp") {
            row.no_baseline = tcp::stood_still(1.0, 1, &[]);
        }
        assert!(!ratios(&still).contains("kernel TCP"), "{}", ratios(&still));
        let json = |row: &RcRow| serde_json::to_string(row).unwrap();
        assert!(
            json(&still[1]).contains("\"no_baseline\":\"stood still")
                && !json(&rows[1]).contains("no_baseline")
        );
    }
}
