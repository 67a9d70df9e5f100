//! What a run costs besides time: the CPU of both ends.
//!
//! Two ways to it. A `CpuMeter` knows which thread and which process works for which end: messages and connections, from just before the
//! first request to just after the last response. Where the server is another machine's, it asks that one
//! (`talk`), which looks with a `Family`. A [`Charge`] counts this process with all that it started: every
//! [`Workload`](crate::run::Workload), between the times at which that says that it begins and ends, or else for the whole run with what sets it
//! up. `per_op` makes the same figures of both.

use crate::messages::driver::{self, DriverError, RunResult};
use crate::messages::{MsgWorkload, RequestResponse};
use crate::row::Measured;
use crate::talk::client::{OtherEnd, Peer};
use barewire_base::{Duration, Instant};
use barewire_measure::{CoreTime, Task, TaskTime, family_time, stamp};
use serde::{Deserialize, Serialize};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};

/// One of the two ends of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

/// Who works for a run.
#[derive(Default)]
struct Workers {
    client: Vec<Task>,
    /// `None`: the server is another machine's.
    server: Option<Vec<Task>>,
}

/// Reads the CPU time of all that work for a run.
pub(crate) struct CpuMeter {
    cores: Vec<usize>,
    workers: Mutex<Workers>,
    /// The other end, where it is another process'.
    peer: Mutex<Option<Peer>>,
}

/// What all of them had used at a moment.
pub(crate) struct Look {
    at: Instant,
    client: TaskTime,
    server: Option<TaskTime>,
    cores: Option<CoreTime>,
}

impl CpuMeter {
    /// A meter of a run on `cores`: their interrupts count. All cores where none is named.
    pub(crate) fn new(cores: &[usize]) -> CpuMeter {
        CpuMeter { cores: cores.to_vec(), workers: Mutex::default(), peer: Mutex::default() }
    }

    /// A meter of a run whose server is another process, on another machine most of the time: interrupts of all cores count there, and so
    /// they do here.
    pub(crate) fn with_peer(peer: Peer) -> CpuMeter {
        CpuMeter { peer: Mutex::new(Some(peer)), ..CpuMeter::new(&[]) }
    }

    fn peer(&self) -> std::sync::MutexGuard<'_, Option<Peer>> {
        self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A window begins; `gate`: not before the other end has begun.
    pub(crate) fn begin(&self, gate: bool) -> Option<Look> {
        if let Some(peer) = &mut *self.peer() {
            peer.begin(gate);
        }
        self.look()
    }

    /// It ends: what was used in it.
    pub(crate) fn end(&self, begin: Option<Look>, answered: u64) -> Option<CpuUse> {
        let used = self.since(begin, answered);
        if let Some(peer) = &mut *self.peer() {
            peer.end();
        }
        used
    }

    /// `used` with what the other end told, where there is one: see [`Peer::charge`].
    pub(crate) fn charge(
        &self,
        used: Option<CpuUse>,
        ours: u64,
        on_their_way: u64,
    ) -> (Option<CpuUse>, Option<OtherEnd>) {
        match &*self.peer() {
            Some(peer) => {
                let (used, other) = peer.charge(used, ours, on_their_way);
                (used, Some(other))
            }
            None => (used, None),
        }
    }

    fn add(&self, end: End, task: Option<Task>) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        match end {
            End::Client => workers.client.extend(task),
            End::Server => workers.server.get_or_insert_default().extend(task),
        }
    }

    /// The calling thread works for `end`.
    pub(crate) fn joins(&self, end: End) {
        self.add(end, Task::current().ok());
    }

    /// The calling thread is both ends.
    pub(crate) fn joins_both(&self) {
        self.joins(End::Client);
        self.add(End::Server, None);
    }

    /// A process works for `end`.
    pub(crate) fn process(&self, end: End, id: u32) {
        self.add(end, Some(Task::Process(id)));
    }

    /// `None` where a worker's time cannot be read.
    fn look(&self) -> Option<Look> {
        let sum = |tasks: &[Task]| {
            tasks.iter().try_fold(TaskTime::default(), |sum, task| Some(sum.plus(&task.time().ok()?)))
        };
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Look {
            at: stamp(),
            client: sum(&workers.client)?,
            server: match &workers.server {
                Some(tasks) => Some(sum(tasks)?),
                None => None,
            },
            cores: CoreTime::of(&self.cores),
        })
    }

    /// What they used since `before`, for so many operations.
    fn since(&self, before: Option<Look>, answered: u64) -> Option<CpuUse> {
        before.zip(self.look()).map(|(before, after)| CpuUse {
            client: after.client.since(&before.client),
            server: after.server.zip(before.server).map(|(after, before)| after.since(&before)),
            together: false,
            other_cores: None,
            cores: after
                .cores
                .zip(before.cores)
                .map(|(after, before)| after.since(&before))
                .unwrap_or_default(),
            wall_ns: after.at.since(before.at).as_nanos(),
            answered,
        })
    }

    /// Runs `workload` on `system` in this thread, and notes what it cost.
    pub(crate) fn run<S: RequestResponse + ?Sized>(
        &self,
        system: &mut S,
        workload: &MsgWorkload,
    ) -> Result<RunResult, DriverError> {
        let begin = self.begin(true);
        let mut result = driver::run(system, workload)?;
        let used = self.end(begin, result.answered);
        // Servers of messages count bytes. Of all that was sent, answered or not, warm-up included.
        let size = u64::from(workload.size);
        let unanswered = result.counts.unanswered + result.counts.resends + u64::from(workload.window) + 16;
        (result.cpu, result.other_end) = self.charge(used, result.answered * size, unanswered * size);
        Ok(result)
    }
}

/// The key of a row's figure, and of each run's.
pub(crate) const PER_OP: &str = "cpu_ns_per_op";

/// What this process and all that it started had used at a moment, and its machine's cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    pub(crate) at: Instant,
    pub(crate) time: TaskTime,
    pub(crate) cores: Option<CoreTime>,
}

impl Family {
    /// `None` where it cannot be read.
    pub(crate) fn look() -> Option<Family> {
        // Who keeps cores awake works for nobody.
        let time = family_time().ok()?.since(&crate::awake::spinners_time());
        Some(Family { at: stamp(), time, cores: CoreTime::of(&[]) })
    }

    /// What was used since `before`, for no operation yet.
    pub(crate) fn since(&self, before: &Family) -> CpuUse {
        let cores = self.cores.zip(before.cores).map(|(after, before)| after.since(&before));
        CpuUse {
            client: self.time.since(&before.time),
            server: None,
            together: true,
            cores: cores.unwrap_or_default(),
            other_cores: None,
            wall_ns: self.at.since(before.at).as_nanos(),
            answered: 0,
        }
    }

    /// The same, as one end tells the other.
    pub(crate) fn told_since(&self, before: &Family) -> EndUse {
        let CpuUse { client: time, cores, .. } = self.since(before);
        EndUse {
            machine: machine(),
            process: process(),
            run_ns: time.run_ns,
            user_ns: time.user_ns,
            system_ns: time.system_ns,
            interrupts_ns: cores.interrupts_ns,
            interrupt_threads_ns: cores.interrupt_threads_ns,
            interrupts_are_apart: cores.interrupts_are_apart,
        }
    }
}

/// The CPU of one end as it tells the other, in ns, and which end that is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndUse {
    machine: u64,
    process: u64,
    run_ns: u64,
    user_ns: u64,
    system_ns: u64,
    interrupts_ns: u64,
    interrupt_threads_ns: u64,
    interrupts_are_apart: bool,
}

impl EndUse {
    /// Whether no part of it is more than so many ns, and its parts are no more than the whole: sums of it can be trusted then.
    pub(crate) fn is_at_most(&self, ns: u64) -> bool {
        let all = [self.run_ns, self.user_ns, self.system_ns, self.interrupts_ns, self.interrupt_threads_ns];
        all.iter().all(|&part| part <= ns) && self.user_ns + self.system_ns <= self.run_ns + 2
    }
}

/// The same number in all processes of a machine, until it is started again.
fn machine() -> u64 {
    static KNOWN: OnceLock<u64> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
        hasher.finish()
    })
}

/// This process among all of the machine, containers included.
fn process() -> u64 {
    let mut hasher = DefaultHasher::new();
    (std::fs::read_link("/proc/self/ns/pid").unwrap_or_default(), std::process::id()).hash(&mut hasher);
    hasher.finish()
}

/// What one run of a workload is charged: the CPU of this process and of all that it started, but not of those that keep cores awake.
pub struct Charge {
    from: Option<Family>,
    marks: Mutex<Marks>,
}

#[derive(Default)]
struct Marks {
    begun: Option<Family>,
    /// While somebody else's program measures.
    looks: Vec<Family>,
    used: Option<CpuUse>,
}

impl Charge {
    /// From now on, until the workload says when it begins.
    pub fn start() -> Charge {
        Charge { from: Family::look(), marks: Mutex::default() }
    }

    fn marks(&self) -> std::sync::MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is measured begins now: what came before sets it up.
    pub fn begins(&self) {
        let now = Family::look();
        self.marks().begun = now;
    }

    /// What is measured ends now: what follows takes it down.
    pub fn ends(&self) {
        let now = Family::look();
        let mut marks = self.marks();
        marks.used = now.zip(marks.begun).map(|(now, begun)| now.since(&begun));
    }

    /// Somebody else's program measures, and will say later for how long: to be called again and again.
    pub fn looks(&self) {
        let now = Family::look();
        self.marks().looks.extend(now);
    }

    /// That program has just ended, and measured for `span` before: it is charged for what was used between the looks within, which are so far
    /// apart.
    pub fn ended(&self, span: Duration) -> Duration {
        let (mut marks, now) = (self.marks(), stamp());
        let within = |look: &&Family| now.since(look.at) <= span;
        let first = marks.looks.iter().find(within).copied();
        let last = marks.looks.last().copied();
        marks.used = first
            .zip(last)
            .filter(|(first, last)| last.at > first.at)
            .map(|(first, last)| last.since(&first));
        Duration::from_nanos(marks.used.map_or(0, |used| used.wall_ns))
    }

    /// What was used, and whether that is of the whole run, as the workload marked nothing.
    pub(crate) fn used(&self) -> Option<(CpuUse, bool)> {
        let marks = self.marks();
        if marks.begun.is_some() || !marks.looks.is_empty() {
            return marks.used.map(|used| (used, false));
        }
        Some((Family::look()?.since(&self.from?), true))
    }

    /// Charges what came of the run, each subject with all of it: they are measured at once.
    pub(crate) fn put_on(&self, measured: Vec<Measured>) -> Vec<Measured> {
        match self.used() {
            Some((used, whole)) => measured.into_iter().map(|one| one.charged(used, whole)).collect(),
            None => measured,
        }
    }
}

/// CPU that a run took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuUse {
    /// By the client's thread, and by its daemon.
    pub client: TaskTime,
    /// By the server's; `None` when it is another machine's.
    pub server: Option<TaskTime>,
    /// `client` is both ends' time, which nothing tells apart.
    pub together: bool,
    /// By the cores of both, interrupts above all.
    pub cores: CoreTime,
    /// By those of the server's machine, where that is another one.
    pub other_cores: Option<CoreTime>,
    /// From just before the first request to just after the last response.
    pub wall_ns: u64,
    /// Responses, or whatever operation is counted, in that time.
    pub answered: u64,
}

/// CPU for each request with its response, in ns: both ends, warm-up included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuPerOp {
    /// By the client's thread, and by its daemon; `None` where both ends' time is one sum.
    #[serde(default)]
    pub client_ns: Option<f64>,
    /// By the server's; `None` when it is another machine's, too.
    pub server_ns: Option<f64>,
    /// Of both, in user space.
    pub user_ns: f64,
    /// Of both, in the kernel.
    pub system_ns: f64,
    /// Interrupts of their cores, as the kernel's ticks sample them. Most are part of `system_ns` where the kernel counts them as time of
    /// whom they interrupt, its own default.
    pub softirq_ns: f64,
    /// How many cores were busy with all of it, on average.
    pub cores: f64,
}

impl CpuUse {
    /// The same for so many operations.
    pub(crate) fn of(self, answered: u64) -> CpuUse {
        CpuUse { answered, ..self }
    }

    /// With what the other end told of itself; nothing: it is not known.
    pub(crate) fn with_server(self, told: Option<EndUse>) -> CpuUse {
        let Some(told) = told else { return CpuUse { together: false, ..self } };
        let is_here = told.machine == machine();
        // Both ends in one process: it was counted.
        if is_here && told.process == process() {
            return self;
        }
        let time = TaskTime { run_ns: told.run_ns, user_ns: told.user_ns, system_ns: told.system_ns };
        let cores = CoreTime {
            worked_ns: 0,
            interrupts_ns: told.interrupts_ns,
            interrupt_threads_ns: told.interrupt_threads_ns,
            interrupts_are_apart: told.interrupts_are_apart,
        };
        // The cores of one machine have been counted, too.
        CpuUse { server: Some(time), together: false, other_cores: (!is_here).then_some(cores), ..self }
    }

    /// Whether it is of both ends.
    pub(crate) fn is_whole(&self) -> bool {
        self.together || self.server.is_some()
    }

    /// All CPU of both ends: threads, the kernel's threads for interrupts, and interrupts that are no thread's time.
    fn total_ns(&self) -> u64 {
        let threads = self.client.plus(&self.server.unwrap_or_default());
        let cores = |cores: &CoreTime| {
            let apart = if cores.interrupts_are_apart { cores.interrupts_ns } else { 0 };
            cores.interrupt_threads_ns + apart
        };
        threads.run_ns + cores(&self.cores) + self.other_cores.as_ref().map_or(0, cores)
    }
}

/// The cost of an operation over some runs: all together, and its parts. The sum is `None` when one end is not known; all is when nothing
/// was answered.
pub(crate) fn per_op<'a>(runs: impl Iterator<Item = Option<&'a CpuUse>>) -> (Option<f64>, Option<CpuPerOp>) {
    let Some(runs) = runs.collect::<Option<Vec<&CpuUse>>>() else { return (None, None) };
    let sum = |of: &dyn Fn(&CpuUse) -> u64| runs.iter().map(|run| of(run)).sum::<u64>() as f64;
    let answered = sum(&|run| run.answered);
    if answered == 0.0 {
        return (None, None);
    }
    let each = |ns: f64| (ns / answered * 10.0).round() / 10.0;
    let knows_both = runs.iter().all(|run| run.is_whole());
    let apart = !runs.iter().any(|run| run.together);
    let threads =
        |of: fn(&TaskTime) -> u64| each(sum(&|run| of(&run.client) + run.server.as_ref().map_or(0, of)));
    let total = sum(&CpuUse::total_ns);
    let parts = CpuPerOp {
        client_ns: apart.then(|| each(sum(&|run| run.client.run_ns))),
        server_ns: (apart && knows_both).then(|| each(sum(&|run| run.server.map_or(0, |time| time.run_ns)))),
        user_ns: threads(|time| time.user_ns),
        system_ns: threads(|time| time.system_ns),
        softirq_ns: each(sum(&|run| {
            run.cores.interrupts_ns + run.other_cores.map_or(0, |c| c.interrupts_ns)
        })),
        cores: (total / sum(&|run| run.wall_ns).max(1.0) * 100.0).round() / 100.0,
    };
    (knows_both.then(|| each(total)), Some(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(run_ns: u64) -> TaskTime {
        TaskTime { run_ns, user_ns: run_ns / 4, system_ns: run_ns - run_ns / 4 }
    }

    #[test]
    fn the_cost_is_of_both_ends_and_of_the_interrupts_that_are_nobodys() {
        let cores = CoreTime {
            worked_ns: 0,
            interrupts_ns: 3_000_000,
            interrupt_threads_ns: 1_000_000,
            interrupts_are_apart: false,
        };
        let one = CpuUse {
            client: time(4_000_000),
            server: Some(time(8_000_000)),
            together: false,
            cores,
            other_cores: None,
            wall_ns: 10_000_000,
            answered: 1_000,
        };
        let (total, parts) = per_op([Some(&one), Some(&one)].into_iter());
        let parts = parts.unwrap();
        assert_eq!(total, Some(13_000.0));
        assert_eq!((parts.client_ns, parts.server_ns), (Some(4_000.0), Some(8_000.0)));
        assert_eq!((parts.user_ns, parts.system_ns, parts.softirq_ns), (3_000.0, 9_000.0, 3_000.0));
        assert_eq!(parts.cores, 1.3);
        let apart = CpuUse { cores: CoreTime { interrupts_are_apart: true, ..cores }, ..one };
        assert_eq!(per_op([Some(&apart)].into_iter()).0, Some(16_000.0));
        let (total, parts) = per_op([Some(&CpuUse { server: None, ..one })].into_iter());
        assert_eq!((total, parts.unwrap().server_ns), (None, None), "half of it is no cost of an operation");
        let (total, parts) = per_op([Some(&CpuUse { server: None, together: true, ..one })].into_iter());
        let parts = parts.unwrap();
        assert_eq!(
            (total, parts.client_ns, parts.server_ns),
            (Some(5_000.0), None, None),
            "one sum is of both"
        );
        // Another machine's end brings its cores, one of this machine does not, and one of this process is in the sum.
        let local = CpuUse { server: None, together: true, ..one };
        let told = EndUse {
            machine: !machine(),
            process: 7,
            run_ns: 8_000_000,
            user_ns: 2_000_000,
            system_ns: 6_000_000,
            interrupts_ns: 1_000_000,
            interrupt_threads_ns: 500_000,
            interrupts_are_apart: false,
        };
        let cost = |told| per_op([Some(&local.with_server(told))].into_iter()).0;
        assert_eq!(cost(Some(told)), Some(13_500.0));
        assert_eq!(cost(Some(EndUse { machine: machine(), ..told })), Some(13_000.0));
        assert_eq!(cost(Some(EndUse { machine: machine(), process: process(), ..told })), Some(5_000.0));
        assert_eq!(cost(None), None);
        assert_eq!(per_op([Some(&one), None].into_iter()), (None, None));
        assert_eq!(per_op([Some(&CpuUse { answered: 0, ..one })].into_iter()), (None, None));
    }
}
