//! From words to rows.

use super::idle::Idle;
use super::live::{self, LiveResult, LiveRun, Over};
use super::row::{self, MEASURES};
use super::tcp;
use super::wires::{Hosts, Shape};
use crate::awake::hold;
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::messages::IdleState;
use crate::row::{Measure, Measured, Row, Subject};
use crate::run::{Outcome, Workload, interleave};
use barewire_base::Duration;
use barewire_engine::IdleStrategy;
use barewire_measure::allowed_cores;
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

    fn planned(&self) -> Duration {
        self.seconds + Duration::from_millis(800)
    }

    /// How long all of it takes, about.
    pub fn planned_time(&self) -> Duration {
        self.planned().saturating_mul(self.cells().len() as u64 * u64::from(self.runs))
    }

    /// Measures everything, run by run in turns, forth and back: rows, and why cells failed. One that fails is left out of later rounds,
    /// and its row says so. `keep` gets the rows so far after each round.
    pub fn run(&self, progress: &mut (dyn FnMut(String) + Send), keep: &mut dyn FnMut(&[Row])) -> Outcome {
        let (cells, mut failures) = (self.cells(), Vec::new());
        // Runs tell how fast it goes, too.
        let progress = RefCell::new(progress);
        let (_awake, idle_state) = hold(self.idle_state);
        let Found { hosts, ports } = match self.find(&cells, &mut failures) {
            Ok(found) => found,
            Err(error) => {
                failures.push(error);
                return (Vec::new(), failures);
            }
        };
        let connecting = |cell: &Cell| {
            let hosts = match hosts.iter().find(|(shape, _)| *shape == cell.shape) {
                _ if cell.over == Over::Mem => None,
                Some((_, Ok(hosts))) => Some(hosts),
                // Why there are none is among the failures.
                _ => return None,
            };
            let port = ports.iter().find(|(over, _)| *over == cell.over).map(|(_, rate)| *rate);
            let (cell, progress) = (*cell, &progress);
            Some(Box::new(Connecting { asked: self, cell, hosts, port, idle_state, progress })
                as Box<dyn Workload + '_>)
        };
        let mut all: Vec<_> = cells.iter().filter_map(connecting).collect();
        let (rows, failed) = interleave(&mut all, self.runs, &mut |line| progress.borrow_mut()(line), keep);
        failures.extend(failed);
        (rows, failures)
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

    /// Cores to pin to: none when there are more threads than cores.
    fn cores_for(&self, shape: Shape) -> Option<(usize, usize)> {
        let threads = (shape.clients() + shape.nics) as usize;
        let cores = allowed_cores().map_or(1, |cores| cores.len());
        self.cores.filter(|_| threads <= cores.max(2) && threads == 2)
    }

    /// The rows of this request with nothing measured: for tests of what is made of rows.
    #[cfg(test)]
    pub(crate) fn unmeasured_rows(&self) -> Vec<Row> {
        let mut tell = |_: String| {};
        let progress = RefCell::new(&mut tell as &mut (dyn FnMut(String) + Send));
        let row = |cell| {
            let (hosts, port, idle_state) = (None, None, self.idle_state);
            let one = Connecting { asked: self, cell, hosts, port, idle_state, progress: &progress };
            let mut row = Row::of(one.subjects().remove(0), MEASURES, &[]);
            one.judge(&mut row);
            row
        };
        self.cells().into_iter().map(row).collect()
    }
}

/// Connections of one shape, on their hosts.
struct Connecting<'a, 'p> {
    asked: &'a Request,
    cell: Cell,
    hosts: Option<&'a Hosts>,
    /// Frames a second that the port carries by itself.
    port: Option<f64>,
    idle_state: IdleState,
    progress: &'a RefCell<&'p mut (dyn FnMut(String) + Send)>,
}

impl Connecting<'_, '_> {
    fn run(&self, round: u32) -> Result<LiveResult, BenchError> {
        let (asked, cell) = (self.asked, &self.cell);
        let cores = asked.cores_for(cell.shape);
        let Some(rdma) = cell.rdma else {
            let idle = Idle::of(asked.idle, cores);
            return tcp::run(cell.shape, cell.window, asked.seconds, cores, idle, self.hosts);
        };
        let run = LiveRun {
            over: cell.over,
            shape: cell.shape,
            one_thread: asked.one_thread,
            window: cell.window,
            teardown: rdma.teardown,
            live: rdma.live,
            own_cq: asked.own_cq,
            warmup: live::WARMUP,
            duration: asked.seconds,
            cores,
            idle: asked.idle,
            steps: round == 0 && cell.shape.clients() == 1,
        };
        live::run(&run, self.hosts, &mut **self.progress.borrow_mut())
    }

    fn idle(&self) -> Idle {
        Idle::of(self.asked.idle, self.asked.cores_for(self.cell.shape))
    }

    fn teardown(&self) -> bool {
        self.cell.rdma.is_none_or(|rdma| rdma.teardown)
    }
}

impl Workload for Connecting<'_, '_> {
    fn subjects(&self) -> Vec<Subject> {
        let Cell { over, shape, window, rdma } = self.cell;
        let (system, mode, over) = match rdma {
            Some(_) if self.asked.one_thread => ("barewire", "embedded-one-thread", over.as_str()),
            Some(_) => ("barewire", "embedded", over.as_str()),
            None if over == Over::Mem => ("kernel-tcp", self.idle().kernel_mode(), "loopback"),
            None => ("kernel-tcp", self.idle().kernel_mode(), "veth"),
        };
        let (live, own_cq) = (rdma.map_or(0, |rdma| rdma.live), rdma.map(|_| self.asked.own_cq));
        vec![Subject {
            bench: "rc",
            system: system.to_owned(),
            mode: Some(mode.to_owned()),
            over: Some(over.to_owned()),
            params: row::params(shape, window, self.teardown(), live, own_cq),
            idle_state: Some(self.idle_state),
            command: self.asked.command.clone(),
            ..Subject::default()
        }]
    }

    fn measures(&self) -> &'static [Measure] {
        MEASURES
    }

    fn planned(&self) -> Duration {
        self.asked.planned()
    }

    fn slice(&mut self, round: u32, _: &Charge) -> Result<Vec<Measured>, BenchError> {
        Ok(vec![self.run(round)?.measured()])
    }

    fn judge(&self, row: &mut Row) {
        let Cell { shape, window, rdma, .. } = self.cell;
        let threads = shape.clients() + shape.nics;
        let cores = allowed_cores().map_or(1, |cores| cores.len());
        if rdma.is_some() && self.asked.one_thread {
            // It never rests: meanwhile it is the other end.
        } else if threads as usize > cores {
            row.notes.push(format!("{threads} threads on {cores} cores: {}", self.idle().phrase()));
        } else if self.asked.idle.is_some() {
            row.notes.push(self.idle().phrase().to_owned());
        }
        if let (Some(port), Some(_)) = (self.port, rdma) {
            row.set("port_frames_per_s", port);
        }
        let kernel = rdma.is_none().then_some(window);
        row::judge(row, shape.clients() * window, self.teardown(), kernel);
    }
}

#[cfg(test)]
mod tests {
    use super::super::render::{ratios, text_table};
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
            let rate = |row: &Row| row.number("connections_per_s") > Some(0.0);
            let seen = |rows: &Vec<Row>| rows.iter().all(rate);
            for row in until_seen(request().seconds, rows, seen) {
                assert!(rate(&row), "{row:?}");
                assert!(row.notes.iter().any(|note| note.ends_with(phrase)), "{row:?}");
                let wanted = if row.subject.system == "barewire" { "embedded" } else { mode };
                assert_eq!(row.subject.mode.as_deref(), Some(wanted));
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
            let of = |key| row.number(key).unwrap();
            let asked = of("opened") + of("failed");
            let unusable = of("opened") == 0.0 || of("failed") > FAILED_MAX * asked;
            assert_eq!((row.runs.len(), row.void.is_some()), (2, unusable), "{row:?}");
            if !unusable {
                let of_runs = |key| row.of_runs(key).iter().sum::<f64>();
                assert_eq!((of("opened"), of("failed")), (of_runs("opened"), of_runs("failed")));
            }
            let is_ours = row.subject.system == "barewire";
            assert_eq!(is_ours, row.stat("steps_ns.create", "min").is_some());
            assert_eq!(is_ours, row.number("port_frames_per_s").is_some());
        }
        let known = crate::render::Known::all(&rows);
        assert!(known[0].same_work(&known[1]) && !known[0].same_work(&known[3]), "windows differ");
        // What a busy machine made of so short runs is no matter of what is said of them.
        let went_well = |mut row: Row| {
            (row.void, row.no_baseline) = (None, None);
            row.runs.iter_mut().for_each(|run| run.void = None);
            row.set_runs("connections_per_s", [1_000.0; 2]);
            row
        };
        let rows: Vec<Row> = rows.into_iter().map(went_well).collect();
        let text = text_table(&rows);
        for part in ["loopback", "kernel-tcp over loopback (by system calls", "found by poll", "DREQ to DREP"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(ratios(&rows).contains("(2 runs, too few for a verdict)"), "{}", ratios(&rows));
        let mut once = rows.clone();
        once.iter_mut().for_each(|row| row.runs.truncate(1));
        assert!(ratios(&once).contains("(one run, no verdict)"), "{}", ratios(&once));
        let mut still = rows.clone();
        for row in still.iter_mut().filter(|row| row.subject.system == "kernel-tcp") {
            row.no_baseline = tcp::stood_still(1.0, 1.0);
        }
        assert!(!ratios(&still).contains("kernel-tcp"), "{}", ratios(&still));
        let json = |row: &Row| serde_json::to_string(row).unwrap();
        assert!(
            json(&still[1]).contains("\"no_baseline\":\"stood still")
                && !json(&rows[1]).contains("no_baseline")
        );
    }
}
