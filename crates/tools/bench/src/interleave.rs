//! Runs several cells in turn, A B A B, so that what changes on the machine in the meantime meets all of them alike.
//!
//! Run one after the other, A A A B B B, two equal systems can differ by a third: another tenant woke up in between.

use crate::awake::COLD_PAUSE;
use crate::driver::{DriverError, RunResult};
use crate::interrupt::interrupted;
use crate::row::{CellInfo, IdleState, Row};
use crate::switch::median;
use crate::workload::MsgWorkload;
use barewire_base::{Duration, Instant};
use barewire_measure::stamp;

/// Why a run of a cell failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The driver gave up, or the system did.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The system under test could not be set up.
    #[error("{what}: {source}")]
    Setup {
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A thread of the run panicked: a bug here.
    #[error("the {0} thread panicked")]
    Panicked(&'static str),
    /// Anything a cell of another crate has to say.
    #[error("{0}")]
    Other(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// One system with one workload: what a row will be made of.
pub trait Cell {
    /// What the row says about it.
    fn info(&self) -> &CellInfo;

    /// Sets the system up, runs the workload once, takes the system down. `round` counts from 0.
    fn run(&mut self, round: u32) -> Result<RunResult, CellError>;
}

/// What came of one cell.
pub struct CellOutcome {
    /// The row over all runs.
    pub row: Row,
    /// The runs, in order. Fewer than asked for when one failed.
    pub runs: Vec<RunResult>,
    /// Why the cell was not run to its end. The other cells were.
    pub failed: Option<CellError>,
}

/// Told what happens. [`Ticker`](crate::Ticker) is one; a test's list is another.
pub trait Progress {
    /// Run `done` of `total` is about to start: cell `cell` in round `round`.
    fn before(&mut self, now: Instant, done: u32, total: u32, round: u32, cell: &CellInfo);
    /// All is done.
    fn finish(&mut self);
}

/// Says nothing.
pub struct Silent;

impl Progress for Silent {
    fn before(&mut self, _: Instant, _: u32, _: u32, _: u32, _: &CellInfo) {}
    fn finish(&mut self) {}
}

/// Setting a system up and taking it down.
const SETUP_TIME: Duration = Duration::from_millis(150);

/// How long one run takes, about.
pub(crate) fn planned_run(state: IdleState, workload: &MsgWorkload) -> Duration {
    let settle = if state == IdleState::Cold { COLD_PAUSE } else { Duration::ZERO };
    SETUP_TIME + settle + workload.warmup + workload.duration
}

/// How long `runs` rounds of `cells` take, about.
pub fn planned_time(cells: &[Box<dyn Cell>], runs: u32) -> Duration {
    let round = cells
        .iter()
        .map(|c| planned_run(c.info().idle_state, &c.info().workload))
        .fold(Duration::ZERO, |a, b| a + b);
    round.saturating_mul(u64::from(runs))
}

/// Runs all cells `runs` times, round by round. A cell that fails is left out of later rounds; its outcome says why. When the
/// process is [interrupted](crate::interrupt()), nothing more is run: outcomes hold the runs that ended before.
pub fn interleave(cells: &mut [Box<dyn Cell>], runs: u32, progress: &mut dyn Progress) -> Vec<CellOutcome> {
    let total = runs.saturating_mul(cells.len() as u32);
    let mut results: Vec<(Vec<RunResult>, Option<CellError>)> =
        cells.iter().map(|_| (Vec::new(), None)).collect();
    let mut done = 0;
    for round in 0..runs {
        for (cell, (runs, failed)) in cells.iter_mut().zip(&mut results) {
            if failed.is_none() && !interrupted() {
                progress.before(stamp(), done, total, round, cell.info());
                match cell.run(round) {
                    Ok(result) => runs.push(result),
                    // What an interruption ends has not failed: the rounds before it count.
                    Err(_) if interrupted() => {}
                    Err(error) => *failed = Some(error),
                }
            }
            done += 1;
        }
    }
    progress.finish();
    cells
        .iter()
        .zip(results)
        .map(|(cell, (runs, failed))| CellOutcome { row: Row::from_runs(cell.info(), &runs), runs, failed })
        .collect()
}

/// How one row's median compares with another's.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ratio {
    /// Median of the runs' medians of the one, divided by that of the other.
    pub ratio: f64,
    /// Smallest ratio within one round.
    pub min: f64,
    /// Largest ratio within one round.
    pub max: f64,
    /// Rounds that both have.
    pub rounds: usize,
}

/// Rounds without which a ratio has no range, and so no verdict.
pub const ROUNDS_NEEDED: usize = 2;

impl Ratio {
    /// Whether there were rounds enough for a range: with fewer the next round may say the opposite.
    pub fn has_range(&self) -> bool {
        self.rounds >= ROUNDS_NEEDED
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.has_range() {
            return write!(f, "{:.2} (one run, no verdict)", self.ratio);
        }
        write!(f, "{:.2} ({:.2}..{:.2} in {} rounds)", self.ratio, self.min, self.max, self.rounds)
    }
}

/// Median round trip of `a` over that of `b`, both from one [`interleave`]. Compared round by round for the range: the two runs
/// of a round shared the machine's mood. `None` when no round has a median of both, or one of the rows is void.
pub fn ratio_of_medians(a: &Row, b: &Row) -> Option<Ratio> {
    if a.void.is_some() || b.void.is_some() {
        return None;
    }
    let pairs: Vec<(f64, f64)> = a
        .runs
        .iter()
        .zip(&b.runs)
        .filter_map(|(a, b)| Some((a.p50_ns? as f64, b.p50_ns.filter(|&ns| ns > 0)? as f64)))
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let ratios = || pairs.iter().map(|(a, b)| a / b);
    Some(Ratio {
        ratio: median(pairs.iter().map(|p| p.0))? / median(pairs.iter().map(|p| p.1))?,
        min: ratios().fold(f64::INFINITY, f64::min),
        max: ratios().fold(0.0, f64::max),
        rounds: pairs.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::RunCounts;
    use crate::workload::SystemName;
    use barewire_measure::Histogram;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    fn info(system: &str) -> CellInfo {
        CellInfo {
            name: SystemName {
                system: system.to_owned(),
                mode: "spin".to_owned(),
                over: "mem".to_owned(),
                idle: None,
            },
            workload: MsgWorkload::default(),
            idle_state: IdleState::Cold,
            command: "barewire bench".to_owned(),
        }
    }

    fn result(ns: u64) -> RunResult {
        let mut service = Histogram::new();
        service.record_n(ns, 100);
        RunResult {
            service,
            response: None,
            send_lag: None,
            measured: Duration::from_secs(1),
            counts: RunCounts { sends: 100, completed: 100, ..RunCounts::default() },
            settled: None,
            contention: Vec::new(),
        }
    }

    struct Fake {
        info: CellInfo,
        log: Rc<RefCell<Vec<String>>>,
        ns: Vec<u64>,
        fails_in: Option<u32>,
    }

    impl Cell for Fake {
        fn info(&self) -> &CellInfo {
            &self.info
        }
        fn run(&mut self, round: u32) -> Result<RunResult, CellError> {
            self.log.borrow_mut().push(format!("{}{round}", self.info.name.system));
            if self.fails_in == Some(round) {
                return Err(CellError::Panicked("server"));
            }
            Ok(result(self.ns[round as usize]))
        }
    }

    fn cells(log: &Rc<RefCell<Vec<String>>>, fails_in: Option<u32>) -> Vec<Box<dyn Cell>> {
        let make = |name: &str, ns: [u64; 3], fails_in| {
            Box::new(Fake { info: info(name), log: log.clone(), ns: ns.to_vec(), fails_in }) as Box<dyn Cell>
        };
        vec![make("A", [100, 300, 200], None), make("B", [200, 200, 200], fails_in)]
    }

    #[test]
    fn cells_take_turns_and_keep_their_own_figures() {
        let log = Rc::default();
        let outcomes = interleave(&mut cells(&log, None), 3, &mut Silent);
        assert_eq!(*log.borrow(), ["A0", "B0", "A1", "B1", "A2", "B2"]);
        let a = &outcomes[0].row;
        assert_eq!(a.samples, 300);
        assert_eq!(a.runs.iter().map(|r| r.p50_ns).collect::<Vec<_>>(), [Some(100), Some(300), Some(200)]);
        assert_eq!((a.rtt_ns.min, a.rtt_ns.max), (Some(100), Some(300)));
        assert_eq!(a.seconds, 3.0);
        assert_eq!(a.rate_per_s, 100.0);
        let ratio = ratio_of_medians(a, &outcomes[1].row).unwrap();
        assert_eq!(ratio, Ratio { ratio: 1.0, min: 0.5, max: 1.5, rounds: 3 });
        assert_eq!(ratio.to_string(), "1.00 (0.50..1.50 in 3 rounds)");
    }

    #[test]
    fn a_cell_that_fails_does_not_take_the_others_down() {
        let log = Rc::default();
        let outcomes = interleave(&mut cells(&log, Some(1)), 3, &mut Silent);
        assert_eq!(*log.borrow(), ["A0", "B0", "A1", "B1", "A2"]);
        assert_eq!(outcomes[0].runs.len(), 3);
        assert_eq!(outcomes[1].runs.len(), 1);
        assert!(matches!(outcomes[1].failed, Some(CellError::Panicked("server"))));
        let ratio = ratio_of_medians(&outcomes[0].row, &outcomes[1].row).unwrap();
        assert_eq!((ratio.rounds, ratio.to_string().as_str()), (1, "0.50 (one run, no verdict)"));
    }

    #[test]
    fn void_rows_are_compared_with_nothing() {
        let log = Rc::default();
        let outcomes = interleave(&mut cells(&log, None), 2, &mut Silent);
        let (a, b) = (&outcomes[0].row, &outcomes[1].row);
        assert!(ratio_of_medians(a, b).is_some());
        let void = Row { void: Some("wrong".to_owned()), ..a.clone() };
        assert_eq!((ratio_of_medians(&void, b), ratio_of_medians(b, &void)), (None, None));
    }

    #[test]
    fn no_common_round_gives_no_ratio() {
        let row = Row::from_runs(&info("A"), &[]);
        assert_eq!(ratio_of_medians(&row, &row), None);
        assert_eq!(row.rtt_ns.p50, None);
        assert_eq!(row.little, None);
        assert_eq!(row.rate_per_s, 0.0);
    }

    #[test]
    fn a_plan_knows_how_long_it_takes() {
        let log = Rc::default();
        // Cold runs wait for a second first.
        assert_eq!(planned_time(&cells(&log, None), 3), Duration::from_millis(72_900));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_ratio_lies_within_its_range(pairs in prop::collection::vec((1u64..1_000_000, 1u64..1_000_000), 1..9)) {
            let row = |ns: Vec<u64>| Row::from_runs(&info("A"), &ns.into_iter().map(result).collect::<Vec<_>>());
            let (a, b) = pairs.into_iter().unzip();
            let r = ratio_of_medians(&row(a), &row(b)).unwrap();
            prop_assert!(r.min <= r.ratio * (1.0 + 1e-12) && r.ratio <= r.max * (1.0 + 1e-12), "{r:?}");
        }
    }
}
