//! What a run costs besides time: CPU of both ends, from just before its first request to just after its last response; of connections,
//! while they are counted.

use crate::messages::driver::{self, DriverError, RunResult};
use crate::messages::{MsgWorkload, RequestResponse};
use barewire_base::Instant;
use barewire_measure::{CoreTime, Task, TaskTime, stamp};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};

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
        CpuMeter { cores: cores.to_vec(), workers: Mutex::default() }
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
    pub(crate) fn look(&self) -> Option<Look> {
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
    pub(crate) fn since(&self, before: Option<Look>, answered: u64) -> Option<CpuUse> {
        before.zip(self.look()).map(|(before, after)| CpuUse {
            client: after.client.since(&before.client),
            server: after.server.zip(before.server).map(|(after, before)| after.since(&before)),
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
        let before = self.look();
        let mut result = driver::run(system, workload)?;
        result.cpu = self.since(before, result.answered);
        Ok(result)
    }
}

/// CPU that a run took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuUse {
    /// By the client's thread, and by its daemon.
    pub client: TaskTime,
    /// By the server's; `None` when it is another machine's.
    pub server: Option<TaskTime>,
    /// By the cores of both, interrupts above all.
    pub cores: CoreTime,
    /// From just before the first request to just after the last response.
    pub wall_ns: u64,
    /// Responses, or whatever operation is counted, in that time.
    pub answered: u64,
}

/// CPU for each request with its response, in ns: both ends, warm-up included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuPerOp {
    /// By the client's thread, and by its daemon.
    pub client_ns: f64,
    /// By the server's; `None` when it is another machine's.
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
    /// All CPU of both ends: threads, the kernel's threads for interrupts, and interrupts that are no thread's time.
    fn total_ns(&self) -> u64 {
        let apart = if self.cores.interrupts_are_apart { self.cores.interrupts_ns } else { 0 };
        let threads = self.client.plus(&self.server.unwrap_or_default());
        threads.run_ns + self.cores.interrupt_threads_ns + apart
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
    let knows_both = runs.iter().all(|run| run.server.is_some());
    let threads =
        |of: fn(&TaskTime) -> u64| each(sum(&|run| of(&run.client) + run.server.as_ref().map_or(0, of)));
    let total = sum(&CpuUse::total_ns);
    let parts = CpuPerOp {
        client_ns: each(sum(&|run| run.client.run_ns)),
        server_ns: knows_both.then(|| each(sum(&|run| run.server.map_or(0, |time| time.run_ns)))),
        user_ns: threads(|time| time.user_ns),
        system_ns: threads(|time| time.system_ns),
        softirq_ns: each(sum(&|run| run.cores.interrupts_ns)),
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
            cores,
            wall_ns: 10_000_000,
            answered: 1_000,
        };
        let (total, parts) = per_op([Some(&one), Some(&one)].into_iter());
        let parts = parts.unwrap();
        assert_eq!(total, Some(13_000.0));
        assert_eq!((parts.client_ns, parts.server_ns), (4_000.0, Some(8_000.0)));
        assert_eq!((parts.user_ns, parts.system_ns, parts.softirq_ns), (3_000.0, 9_000.0, 3_000.0));
        assert_eq!(parts.cores, 1.3);
        let apart = CpuUse { cores: CoreTime { interrupts_are_apart: true, ..cores }, ..one };
        assert_eq!(per_op([Some(&apart)].into_iter()).0, Some(16_000.0));
        let (total, parts) = per_op([Some(&CpuUse { server: None, ..one })].into_iter());
        assert_eq!((total, parts.unwrap().server_ns), (None, None), "half of it is no cost of an operation");
        assert_eq!(per_op([Some(&one), None].into_iter()), (None, None));
        assert_eq!(per_op([Some(&CpuUse { answered: 0, ..one })].into_iter()), (None, None));
    }
}
