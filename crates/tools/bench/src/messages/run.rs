//! Runs several cells in turn, A B B A, so that what changes on the machine in the meantime meets all of them alike, and what changes
//! steadily favours none.
//!
//! Run one after the other, A A A B B B, two equal systems can differ by a third: another tenant woke up in between.

use crate::awake::COLD_PAUSE;
use crate::error::BenchError;
use crate::messages::MsgWorkload;
use crate::messages::driver::RunResult;
use crate::messages::{CellInfo, IdleState};
use crate::rounds::{Made, in_turns};
use crate::row::Row;
use barewire_base::Duration;

/// One system with one workload: what a row will be made of.
pub trait Cell {
    /// What the row says about it.
    fn info(&self) -> &CellInfo;

    /// Sets the system up, runs the workload once, takes the system down. `round` counts from 0.
    fn run(&mut self, round: u32) -> Result<RunResult, BenchError>;
}

/// What came of one cell.
pub struct CellOutcome {
    /// The row over all runs.
    pub row: Row,
    /// The runs, in order. Fewer than asked for when one failed.
    pub runs: Vec<RunResult>,
    /// Why the cell was not run to its end. The other cells were.
    pub failed: Option<BenchError>,
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
/// process is [interrupted](crate::interrupt()), nothing more is run: outcomes hold the runs that ended before. `tell` hears what runs now,
/// `keep` gets the rows so far after each round.
pub fn interleave(
    cells: &mut [Box<dyn Cell>],
    runs: u32,
    tell: &mut dyn FnMut(String),
    keep: &mut dyn FnMut(&[Row]),
) -> Vec<CellOutcome> {
    let infos: Vec<CellInfo> = cells.iter().map(|cell| cell.info().clone()).collect();
    let titles: Vec<String> = infos.iter().map(CellInfo::to_string).collect();
    let mut once = |at: usize, round: u32| cells[at].run(round).map(Some);
    let mut keep = |all: &[Made<RunResult>]| {
        let begun = infos.iter().zip(all).filter(|(_, made)| !made.runs.is_empty());
        keep(&begun.map(|(info, made)| row_of(info, made)).collect::<Vec<_>>());
    };
    let made = in_turns(&titles, runs, tell, &mut once, &mut keep);
    let outcome = |(info, made): (&CellInfo, Made<RunResult>)| CellOutcome {
        row: row_of(info, &made),
        runs: made.runs.into_iter().map(|(_, run)| run).collect(),
        failed: made.failed,
    };
    infos.iter().zip(made).map(outcome).collect()
}

fn row_of(info: &CellInfo, made: &Made<RunResult>) -> Row {
    Row { broken_off: made.broken_off.clone(), ..info.row(made.each()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::SystemName;
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
        fn run(&mut self, round: u32) -> Result<RunResult, BenchError> {
            self.log.borrow_mut().push(format!("{}{round}", self.info.name.system));
            if self.fails_in == Some(round) {
                return Err(BenchError::Panicked("server"));
            }
            Ok(RunResult::of(self.ns[round as usize], 100))
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
        let outcomes = interleave(&mut cells(&log, None), 3, &mut |_| {}, &mut |_| {});
        assert_eq!(*log.borrow(), ["A0", "B0", "B1", "A1", "A2", "B2"]);
        let a = &outcomes[0].row;
        assert_eq!(a.samples(), Some(300));
        assert_eq!(a.of_runs("rtt_ns"), [100.0, 300.0, 200.0]);
        assert_eq!((a.stat("rtt_ns", "min"), a.stat("rtt_ns", "max")), (Some(100.0), Some(300.0)));
        assert_eq!((a.number("seconds"), a.number("rate_per_s")), (Some(3.0), Some(100.0)));
    }

    #[test]
    fn a_cell_that_fails_does_not_take_the_others_down() {
        let log = Rc::default();
        let (mut told, mut kept) = (Vec::new(), Vec::new());
        let mut keep = |rows: &[Row]| kept.push(rows.iter().map(|row| row.runs.len()).collect::<Vec<_>>());
        let outcomes = interleave(&mut cells(&log, Some(1)), 3, &mut |line| told.push(line), &mut keep);
        assert_eq!((kept, told.len()), (vec![vec![1, 1], vec![2, 1]], 5), "rows are kept after each round");
        assert_eq!(*log.borrow(), ["A0", "B0", "B1", "A1", "A2"]);
        assert_eq!(outcomes[0].runs.len(), 3);
        assert_eq!(outcomes[1].runs.len(), 1);
        assert!(matches!(outcomes[1].failed, Some(BenchError::Panicked("server"))));
        let broken: Vec<_> = outcomes.iter().map(|o| o.row.broken_off.as_deref()).collect();
        assert_eq!(broken, [None, Some("run 2 of 3 failed: the server thread panicked")], "the row says so");
    }

    #[test]
    fn no_run_gives_no_figure() {
        let row = info("A").row(&[]);
        assert_eq!(
            (row.stat("rtt_ns", "p50"), row.number("little"), row.number("rate_per_s")),
            (None, None, None)
        );
    }

    #[test]
    fn a_plan_knows_how_long_it_takes() {
        let log = Rc::default();
        // Cold runs wait for a second first.
        assert_eq!(planned_time(&cells(&log, None), 3), Duration::from_millis(72_900));
    }
}
