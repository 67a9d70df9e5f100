//! Workloads in turns: whatever is measured, kernel baselines included.
//!
//! What flows through: [`Workload`]s are set up, run for one slice and taken down, A B B A, so that what changes on the machine in the
//! meantime meets all of them alike. Out come [`Row`]s. After each round the rows so far are handed to whoever keeps them: what ends
//! this process then loses one round at most.

use crate::awake::Switches;
use crate::cpu::Charge;
use crate::error::{BenchError, go_on};
use crate::rounds::{Made, in_turns};
use crate::row::{Measure, Measured, Row, Subject};
use barewire_base::Duration;
use barewire_measure::pin_to_core;
use barewire_netns::Namespace;
use std::cell::RefCell;
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// One system doing one thing: what a row will be made of.
pub trait Workload {
    /// Whose rows it makes, in the order of what [`slice`](Workload::slice) gives: one, or several that are measured at once.
    fn subjects(&self) -> Vec<Subject>;

    /// What progress says of it.
    fn title(&self) -> String {
        self.subjects().first().map_or_else(String::new, Subject::title)
    }

    /// What is measured.
    fn measures(&self) -> &'static [Measure];

    /// How long one run takes, about.
    fn planned(&self) -> Duration;

    /// What cannot be run, before anything is.
    ///
    /// # Errors
    /// [`BenchError::Plan`] in words.
    fn check(&self) -> Result<(), BenchError> {
        Ok(())
    }

    /// Makes what a run needs. `round` counts from 0.
    ///
    /// # Errors
    /// [`BenchError`]: why there is nothing to measure.
    fn set_up(&mut self, round: u32) -> Result<(), BenchError> {
        let _ = round;
        Ok(())
    }

    /// Measures once. Its CPU is taken without its doing: what all of it uses between [`Charge::begins`] and [`Charge::ends`] is divided by
    /// [`Measured::operations`]. Who says neither is charged for the whole run and its samples, and its row says so.
    ///
    /// # Errors
    /// [`BenchError`]: the workload is left out of later rounds.
    fn slice(&mut self, round: u32, cpu: &Charge) -> Result<Vec<Measured>, BenchError>;

    /// Takes away what [`set_up`](Workload::set_up) made, whatever came of the run.
    fn take_down(&mut self) {}

    /// Whether its rows are there without any run, void, when the first one failed: whoever asked for them sees that it was tried.
    fn shows_that_it_was_tried(&self) -> bool {
        false
    }

    /// What is to be said of a row once its runs are together: notes, and whether it is void.
    fn judge(&self, row: &mut Row) {
        let _ = row;
    }
}

/// How long `runs` rounds take, about.
pub fn planned_time(workloads: &[Box<dyn Workload + '_>], runs: u32) -> Duration {
    let round = workloads.iter().fold(Duration::ZERO, |sum, workload| sum + workload.planned());
    round.saturating_mul(runs.into())
}

/// Rows, and why workloads failed.
pub type Outcome = (Vec<Row>, Vec<BenchError>);

/// Runs all of them `runs` times, round by round. One that fails is left out of later rounds, and its rows say so; one without any run has
/// none. When the process is [interrupted](crate::interrupt()), nothing more is run. `tell` hears what runs now, `keep` gets the rows so
/// far after each round.
pub fn interleave(
    workloads: &mut [Box<dyn Workload + '_>],
    runs: u32,
    tell: &mut dyn FnMut(String),
    keep: &mut dyn FnMut(&[Row]),
) -> Outcome {
    let titles: Vec<String> = workloads.iter().map(|workload| workload.title()).collect();
    let workloads = RefCell::new(workloads);
    let mut once = |at: usize, round: u32| {
        let workload = &mut workloads.borrow_mut()[at];
        let measured = workload.set_up(round).and_then(|()| {
            let cpu = Charge::start();
            let measured = workload.slice(round, &cpu)?;
            Ok(cpu.put_on(measured))
        });
        workload.take_down();
        measured.map(Some)
    };
    let made = in_turns(&titles, runs, tell, &mut once, &mut |all| keep(&rows_of(&workloads.borrow(), all)));
    let rows = rows_of(&workloads.borrow(), &made);
    let failed = made.into_iter().filter_map(|one| one.failed);
    (rows, failed.chain(go_on().err()).collect())
}

fn rows_of(workloads: &[Box<dyn Workload + '_>], made: &[Made<Vec<Measured>>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (workload, made) in workloads.iter().zip(made) {
        let was_tried = made.broken_off.is_some() && workload.shows_that_it_was_tried();
        if made.runs.is_empty() && !was_tried {
            continue;
        }
        for (at, subject) in workload.subjects().into_iter().enumerate() {
            let runs: Vec<Measured> = made.each().filter_map(|run| run.get(at).cloned()).collect();
            let mut row = Row::of(subject, workload.measures(), &runs);
            row.broken_off.clone_from(&made.broken_off);
            if runs.is_empty() {
                row.void.clone_from(&made.broken_off);
            }
            workload.judge(&mut row);
            rows.push(row);
        }
    }
    rows
}

/// Pins this thread, gives it exact timers, runs `body` and tells how often the thread was switched out involuntarily.
pub(crate) fn watched<T>(core: Option<usize>, body: impl FnOnce() -> T) -> io::Result<(T, Option<u64>)> {
    if let Some(core) = core {
        pin_to_core(core)?;
    }
    // An open loop that sleeps until its next send would oversleep by the default slack of 50 us.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let before = involuntary_switches();
    let out = body();
    Ok((out, before.zip(involuntary_switches()).map(|(before, after)| after.saturating_sub(before))))
}

fn involuntary_switches() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok())
}

/// Runs `body` as [`watched`] does, in a thread of its own: pinning it must not pin the caller.
pub(crate) fn one_end<T: Send>(
    core: Option<usize>,
    body: impl FnOnce() -> Result<T, BenchError> + Send,
) -> Result<(T, Switches<'static>), BenchError> {
    let ended = std::thread::scope(|scope| scope.spawn(|| watched(core, body)).join());
    let (made, switches) = ended.map_err(|_| BenchError::Panicked("client"))?.map_err(pinning(core))?;
    Ok((made?, ("client", switches)))
}

fn pinning(core: Option<usize>) -> impl FnOnce(io::Error) -> BenchError {
    BenchError::io(format!("pinning to core {}", core.unwrap_or_default()))
}

/// What a server hears from [`two_ends`], and says to it.
pub struct Stop<'a> {
    asked: &'a AtomicBool,
    ready: mpsc::Sender<()>,
}

impl Stop<'_> {
    /// It serves: the client may begin.
    pub fn ready(&self) {
        let _ = self.ready.send(());
    }

    /// The client has ended.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Set when it has.
    pub(crate) fn flag(&self) -> &AtomicBool {
        self.asked
    }
}

/// What came of both ends.
pub struct Both<S, C> {
    /// Of the server.
    pub server: S,
    /// Of the client.
    pub client: C,
    pub(crate) switches: [Switches<'static>; 2],
}

/// Runs a client and a server, each in a thread of its own with exact timers: pinned where `cores` (client's, server's) says so, in the
/// namespaces of `hosts` where there are some. The client begins when the server is [ready](Stop::ready); the server ends when it is
/// [asked](Stop::asked) to.
///
/// # Errors
/// The server's first, as a client whose server did not start has nothing to say.
pub fn two_ends<C: Send, S: Send>(
    hosts: Option<[&Namespace; 2]>,
    cores: Option<(usize, usize)>,
    client: impl FnOnce() -> Result<C, BenchError> + Send,
    server: impl FnOnce(Stop<'_>) -> Result<S, BenchError> + Send,
) -> Result<Both<S, C>, BenchError> {
    let (asked, (ready, is_ready)) = (AtomicBool::new(false), mpsc::channel());
    let stop = Stop { asked: &asked, ready };
    let serving = move || {
        let core = cores.map(|cores| cores.1);
        let (served, switches) = watched(core, || server(stop)).map_err(pinning(core))?;
        Ok::<_, BenchError>((served?, switches))
    };
    let asking = move || {
        let core = cores.map(|cores| cores.0);
        let asked = || is_ready.recv().ok().map(|()| client()).transpose();
        let (asked, switches) = watched(core, asked).map_err(pinning(core))?;
        Ok::<_, BenchError>((asked?, switches))
    };
    std::thread::scope(|scope| {
        let server = scope.spawn(move || match hosts {
            Some([_, host]) => host.enter(serving)?,
            None => serving(),
        });
        let client = scope.spawn(move || match hosts {
            Some([host, _]) => host.enter(asking)?,
            None => asking(),
        });
        let client = client.join();
        asked.store(true, Ordering::Release);
        let (server, of_server) = server.join().map_err(|_| BenchError::Panicked("server"))??;
        let (client, of_client) = client.map_err(|_| BenchError::Panicked("client"))??;
        let early = || BenchError::Plan("the server ended before it was ready".to_owned());
        let switches = [("client", of_client), ("server", of_server)];
        Ok(Both { server, client: client.ok_or_else(early)?, switches })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::{MEASURES, run, subject};

    struct Fake<'a> {
        name: &'static str,
        fails_in: Option<u32>,
        log: &'a RefCell<Vec<String>>,
    }

    impl Workload for Fake<'_> {
        fn subjects(&self) -> Vec<Subject> {
            vec![subject(self.name), subject("beside")]
        }
        fn measures(&self) -> &'static [Measure] {
            MEASURES
        }
        fn planned(&self) -> Duration {
            Duration::from_secs(2)
        }
        fn set_up(&mut self, round: u32) -> Result<(), BenchError> {
            self.log.borrow_mut().push(format!("+{}{round}", self.name));
            Ok(())
        }
        fn slice(&mut self, round: u32, _: &Charge) -> Result<Vec<Measured>, BenchError> {
            if self.fails_in == Some(round) {
                return Err(BenchError::Panicked("server"));
            }
            Ok(vec![run(1e6, 100, 30), run(2e6, 200, 30)])
        }
        fn take_down(&mut self) {
            self.log.borrow_mut().push(format!("-{}", self.name));
        }
        fn judge(&self, row: &mut Row) {
            row.notes.push("judged".to_owned());
        }
    }

    #[test]
    fn workloads_take_turns_and_one_that_fails_takes_no_other_with_it() {
        let log = RefCell::default();
        let mut all: Vec<Box<dyn Workload + '_>> = vec![
            Box::new(Fake { name: "A", fails_in: None, log: &log }),
            Box::new(Fake { name: "B", fails_in: Some(1), log: &log }),
        ];
        assert_eq!(planned_time(&all, 3), Duration::from_secs(12));
        let (mut told, mut kept) = (Vec::new(), Vec::new());
        let (rows, failures) =
            interleave(&mut all, 3, &mut |line| told.push(line), &mut |rows| kept.push(rows.len()));
        drop(all);
        assert_eq!(log.take(), ["+A0", "-A", "+B0", "-B", "+B1", "-B", "+A1", "-A", "+A2", "-A"]);
        assert_eq!((kept, told.len(), failures.len()), (vec![4, 4], 5, 1), "after each round but the last");
        let of: Vec<(&str, usize, Option<&str>)> = rows
            .iter()
            .map(|row| (row.subject.system.as_str(), row.runs.len(), row.broken_off.as_deref()))
            .collect();
        let why = Some("run 2 of 3 failed: the server thread panicked");
        assert_eq!(of, [("A", 3, None), ("beside", 3, None), ("B", 1, why), ("beside", 1, why)]);
        assert!(rows.iter().all(|row| row.notes == ["CPU with what sets a run up", "judged"]));
        assert!(rows.iter().all(|row| row.number("cpu_ns_per_op").is_some() && row.cpu.is_some()));
        assert_eq!(told[2], "run 2 of 3: B over mem, 64 B, frames");
    }

    #[test]
    fn a_workload_that_never_ran_has_no_row() {
        let log = RefCell::default();
        let mut all: Vec<Box<dyn Workload + '_>> =
            vec![Box::new(Fake { name: "A", fails_in: Some(0), log: &log })];
        let (rows, failures) = interleave(&mut all, 2, &mut |_| {}, &mut |_| {});
        assert_eq!((rows.len(), failures.len()), (0, 1));
    }
}
