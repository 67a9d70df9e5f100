//! Throughput of a switch: frames offered at a rate, of which one is bad when it does not come out.

use super::messages::{Of, TrialLine, rows_of};
use super::{Goal, Kind, LOAD_MAX, Outcome, Range, run};
use crate::error::{BenchError, go_on};
use crate::messages::driver::LAG_PERCENT_MAX;
use crate::row::{Param, Row, Subject, Unit};
use crate::switch::live::{LiveCell, Program, System, start};
use crate::switch::load::{self, Ends};
use crate::switch::mem::{MemCell, Rig};
use crate::switch::wires::Wires;
use barewire_base::Duration;

/// What to look for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which search.
    pub kind: Kind,
    /// Its goals.
    pub goals: Vec<Goal>,
    /// Between which loads. `None`: up to what a sender without pauses offers, from a thousandth of that.
    pub range: Option<Range>,
    /// The command, for rows.
    pub command: String,
}

/// How long it is looked what the greatest load can be.
const FLOOD: Duration = Duration::from_millis(500);
/// A sender that sent less of what was due did not offer the load.
const SENT_MIN: f64 = 0.99;

impl Request {
    fn range(&self, most_per_s: f64) -> Result<Range, BenchError> {
        if let Some(range) = self.range {
            return Ok(range);
        }
        let max = most_per_s.clamp(1000.0, LOAD_MAX as f64) as u64;
        Range::new((max / 1000).max(1), max).map_err(|e| BenchError::Plan(e.to_string()))
    }

    fn search(
        &self,
        subject: Subject,
        bad: &str,
        range: Range,
        tell: &mut dyn FnMut(&TrialLine),
        mut offer: impl FnMut(u64, Duration) -> Result<Outcome, BenchError>,
    ) -> (Vec<Row>, Option<BenchError>) {
        let mut search = self.kind.search(&self.goals, range);
        let mut log = Vec::new();
        let (found, failed) = run(search.as_mut(), |trial| {
            go_on()?;
            let outcome = offer(trial.load, trial.duration)?;
            log.push(TrialLine::of(trial, outcome));
            log.last().into_iter().for_each(&mut *tell);
            Ok(outcome)
        });
        let trials_max = search.trials_max();
        (rows_of(subject, &Of { kind: self.kind, bad, range, trials_max, log }, found), failed)
    }
}

/// The engine alone: packets fall due on an absolute schedule into a memory ring before the switch; what finds it full is lost.
/// Rows, as far as it came, and why no further.
///
/// # Errors
/// What keeps it from beginning.
pub fn search_mem(
    request: &Request,
    cell: &MemCell,
    tell: &mut dyn FnMut(&TrialLine),
) -> Result<(Vec<Row>, Option<BenchError>), BenchError> {
    let mut rig = Rig::build(cell)?;
    let range = request.range(rig.most_per_s(FLOOD) * 1.2)?;
    let subject = subject("barewire", &cell.engine.to_string(), "mem", cell.spec.size, &request.command);
    let bad = "did not come out, or found the ring before the switch full";
    Ok(request.search(subject, bad, range, tell, |load, duration| Ok(rig.offered(load, duration))))
}

fn subject(system: &str, mode: &str, over: &str, size: u32, command: &str) -> Subject {
    Subject {
        system: system.to_owned(),
        mode: Some(mode.to_owned()),
        over: Some(over.to_owned()),
        params: vec![Param::new("size", Unit::Bytes, size)],
        command: command.to_owned(),
        ..Subject::default()
    }
}

/// Between two hosts: each system of the cell in turn on the same wires. Rows, as far as it came, and why no further.
///
/// # Errors
/// What keeps it from beginning.
pub fn search_live(
    request: &Request,
    cell: &LiveCell,
    tell: &mut dyn FnMut(&System, &TrialLine),
) -> Result<(Vec<Row>, Option<BenchError>), BenchError> {
    let program = Program::load(cell)?;
    let wires = Wires::make(cell.offloads, cell.gro)?;
    let mut rows = Vec::new();
    for system in &cell.systems {
        match one_live(request, system, cell, &program, &wires, tell) {
            Ok((more, failed)) => {
                rows.extend(more);
                if failed.is_some() {
                    return Ok((rows, failed));
                }
            }
            Err(error) => return Ok((rows, Some(error))),
        }
    }
    Ok((rows, None))
}

fn one_live(
    request: &Request,
    system: &System,
    cell: &LiveCell,
    program: &Program,
    wires: &Wires,
    tell: &mut dyn FnMut(&System, &TrialLine),
) -> Result<(Vec<Row>, Option<BenchError>), BenchError> {
    go_on()?;
    let _forwarder = start(system, wires, cell, program)?;
    let ends = Ends::new(wires, system.way());
    load::wait_for_way(ends)?;
    let range = request.range(load::offer(ends, None, FLOOD)?.offered_pps)?;
    let engine = match system {
        System::Barewire { engine, .. } => engine.to_string(),
        _ => "kernel".to_owned(),
    };
    let bad = "did not reach the second host's interface";
    let size = 42 + load::PAYLOAD as u32;
    let subject = subject(system.name(), &engine, system.over(), size, &request.command);
    Ok(request.search(subject, bad, range, &mut |line| tell(system, line), |load, duration| {
        let seen = load::offer(ends, Some(load), duration)?;
        let due = load as f64 * duration.as_secs_f64();
        let late = 100.0 * seen.behind as f64 / (seen.sent as f64).max(1.0);
        Ok(Outcome {
            sent: seen.sent,
            bad: seen.sent.saturating_sub(seen.arrived),
            offered: late <= LAG_PERCENT_MAX && seen.sent as f64 >= due * SENT_MIN,
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::goals;
    use crate::switch::workload::{Masks, Spec};
    use barewire_switch::prepared::EngineKind;

    fn request(kind: Kind, typed: &str) -> Request {
        let goals = goals(kind, &[typed.to_owned()], 0.05).unwrap();
        Request { kind, goals, range: None, command: "barewire bench switch --search".to_owned() }
    }

    #[test]
    fn the_engine_alone_has_a_throughput() {
        let spec = Spec { size: 64, entries: 10, masks: Masks::Some(1), flows: None, seed: 1 };
        let cell = MemCell { source: "simple_router".parse().unwrap(), engine: EngineKind::Native, spec };
        let request = request(Kind::Mlr, "name=half,loss=0.05,exceed=0.5,trial=0.05,sum=0.15,width=0.3");
        let mut told = 0;
        let (rows, failed) = search_mem(&request, &cell, &mut |_| told += 1).unwrap();
        assert!(failed.is_none(), "{failed:?}");
        let row = serde_json::to_value(&rows[0]).unwrap();
        assert_ne!(row["ending"], "unfinished", "{row}");
        let (lower, least) = (row["lower_per_s"].as_f64(), row["range"]["min"].as_f64());
        assert!(lower.is_none() || lower >= least, "{row}");
        assert_eq!(row["log"].as_array().unwrap().len(), told);
    }
}
