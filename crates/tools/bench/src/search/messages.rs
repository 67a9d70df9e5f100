//! Throughput of a message system: open-loop trials, of which a request is bad when it was lost, or answered too late.

use super::{Ending, Found, Goal, Kind, Outcome, Range, Trial, run};
use crate::error::BenchError;
use crate::messages::driver::{LAG_PERCENT_MAX, RunResult};
use crate::messages::plan::{Place, PlanError, Settings, System, cells_for};
use crate::row::{Measure, Param, Row, Subject, Unit};
use barewire_base::Duration;
use barewire_measure::Histogram;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What to look for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Which search.
    pub kind: Kind,
    /// Its goals.
    pub goals: Vec<Goal>,
    /// Between which loads. `None`: up to twice what a closed loop reaches, from a thousandth of that.
    pub range: Option<Range>,
    /// A response later than this after its intended send is bad.
    pub late: Duration,
}

/// Requests that may be outstanding in a trial at least: with fewer the client's window would be what is found.
pub const WINDOW_MIN: u32 = 256;

/// One trial, as rows tell it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialLine {
    /// Load, per second.
    pub load_per_s: u64,
    /// Its duration.
    pub seconds: f64,
    /// What was sent.
    pub sent: u64,
    /// What of it was lost or late.
    pub bad: u64,
    /// Whether the generator kept its schedule.
    pub offered: bool,
}

impl TrialLine {
    pub(crate) fn of(trial: Trial, outcome: Outcome) -> TrialLine {
        TrialLine {
            load_per_s: trial.load,
            seconds: trial.duration.as_secs_f64(),
            sent: outcome.sent,
            bad: outcome.bad,
            offered: outcome.offered,
        }
    }
}

/// What a search finds for one goal of one system: the goal and its bounds, the trials for it, how it ended, and of the whole search the
/// trials that it made and could have made, what makes a request or a frame bad, and between which loads. Every trial, in order, stands in
/// the first goal's row.
pub(crate) const MEASURES: &[Measure] = &[
    Measure::word("goal", "goal"),
    Measure::rate("lower_per_s", "lower", "lower"),
    Measure::rate("upper_per_s", "upper", "upper"),
    Measure::rate("conditional_throughput_per_s", "conditional", "conditional throughput")
        .in_unit(Unit::PerSecond, 1e-3),
    Measure::count("trials", "trials"),
    Measure::count("trial_seconds", "seconds").in_unit(Unit::None, 1e-9),
    Measure::word("ending", ""),
    Measure::count("trials_of_all_goals", ""),
    Measure::count("trials_max", ""),
    Measure::word("bad", ""),
    Measure::word("range", ""),
    Measure::word("log", ""),
];

/// What all rows of one search have in common.
pub(crate) struct Of<'a> {
    pub kind: Kind,
    pub bad: &'a str,
    pub range: Range,
    pub trials_max: u32,
    pub log: Vec<TrialLine>,
}

/// The rows of `subject`, one for each goal.
pub(crate) fn rows_of(mut subject: Subject, of: &Of<'_>, found: Vec<Found>) -> Vec<Row> {
    subject.bench = "search";
    subject.params.push(Param::word("search", of.kind.word()));
    let one = |(at, found): (usize, Found)| {
        let mut row = Row::of(subject.clone(), MEASURES, &[]);
        let numbers = [
            ("lower_per_s", found.lower_per_s.map(|load| load as f64)),
            ("upper_per_s", found.upper_per_s.map(|load| load as f64)),
            ("conditional_throughput_per_s", found.conditional_throughput_per_s),
            ("trials", Some(found.trials.into())),
            ("trial_seconds", Some(found.trial_seconds)),
            ("trials_of_all_goals", Some(of.log.len() as f64)),
            ("trials_max", Some(of.trials_max.into())),
        ];
        numbers.into_iter().for_each(|(key, value)| value.into_iter().for_each(|value| row.set(key, value)));
        row.set_word("goal", json!(found.goal));
        row.set_word("ending", json!(found.ending));
        row.set_word("bad", of.bad);
        row.set_word("range", json!(of.range));
        if at == 0 {
            row.set_word("log", json!(of.log));
        }
        row.notes = found.ending.note().map(str::to_owned).into_iter().collect();
        row.void = match found.ending {
            Ending::Trials => Some("the trials contradict each other".to_owned()),
            Ending::Unfinished => Some("the search did not end".to_owned()),
            _ => None,
        };
        row
    };
    found.into_iter().enumerate().map(one).collect()
}

/// Samples above `ns`, to a thousandth of it.
fn above(histogram: &Histogram, ns: u64) -> u64 {
    histogram.buckets().filter(|(largest, _)| *largest > ns).map(|(_, samples)| samples).sum()
}

/// What an open-loop run says as a trial.
pub fn outcome(run: &RunResult, late: Duration) -> Outcome {
    let counts = &run.counts;
    let too_late = run.response.as_ref().map_or(0, |response| above(response, late.as_nanos()));
    let due = counts.sends + counts.unsent;
    let lag =
        if counts.sends == 0 { 0.0 } else { 100.0 * counts.late_by_generator as f64 / counts.sends as f64 };
    Outcome {
        sent: due,
        bad: counts.unanswered + counts.unsent + counts.mismatches + too_late,
        offered: lag <= LAG_PERCENT_MAX && run.sends_lag().is_none(),
    }
}

/// Why a search of messages ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The system cannot be run so.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A trial failed.
    #[error(transparent)]
    Cell(#[from] BenchError),
    /// The range is none.
    #[error(transparent)]
    Goal(#[from] super::BadGoal),
    /// Somebody interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Searches one system. Rows, as far as it came, and why no further.
///
/// # Errors
/// What keeps it from beginning.
pub fn search(
    request: &Request,
    system: &System,
    place: &Place,
    settings: &Settings,
    tell: &mut dyn FnMut(&TrialLine),
) -> Result<(Vec<Row>, Option<SearchError>), SearchError> {
    let with = |rate: Option<f64>, duration: Duration, window: u32| -> Result<RunResult, SearchError> {
        if crate::interrupted() {
            return Err(SearchError::Interrupted);
        }
        let mut settings = settings.clone();
        (settings.workload.rate, settings.workload.duration) = (rate, duration);
        settings.workload.window = window;
        let mut cells = cells_for(std::slice::from_ref(system), place, &settings)?;
        let run = cells.iter_mut().next().map(|cell| cell.run(0));
        run.ok_or(SearchError::Interrupted)?
            .map_err(|error| if crate::interrupted() { SearchError::Interrupted } else { error.into() })
    };
    let window = settings.workload.window.max(WINDOW_MIN);
    let shortest = request.goals.iter().map(|g| g.initial_s).fold(f64::INFINITY, f64::min).clamp(0.1, 1.0);
    let range = match request.range {
        Some(range) => range,
        None => {
            let closed = with(None, Duration::from_nanos((shortest * 1e9) as u64), window)?;
            let max = (closed.rate_per_s() * 2.0).clamp(1000.0, super::LOAD_MAX as f64) as u64;
            Range::new((max / 1000).max(1), max)?
        }
    };
    let mut values = request.kind.search(&request.goals, range);
    let mut log = Vec::new();
    let (found, failed) = run(values.as_mut(), |trial| {
        let result = with(Some(trial.load as f64), trial.duration, window)?;
        let outcome = outcome(&result, request.late);
        log.push(TrialLine::of(trial, outcome));
        log.last().into_iter().for_each(&mut *tell);
        Ok(outcome)
    });
    let mut cells = cells_for(std::slice::from_ref(system), place, settings)?;
    let info = cells.remove(0).info().clone();
    let subject = Subject {
        system: info.name.system,
        mode: Some(info.name.mode),
        over: Some(info.name.over),
        params: vec![
            Param::new("size", Unit::Bytes, settings.workload.size),
            Param::word("window", window),
            Param::word("arrivals", json!(settings.workload.arrivals)),
        ],
        command: settings.command.clone(),
        ..Subject::default()
    };
    let bad = format!("lost, or answered more than {} after it was to be sent", request.late);
    let of = Of { kind: request.kind, bad: &bad, range, trials_max: values.trials_max(), log };
    Ok((rows_of(subject, &of, found), failed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::MsgWorkload;
    use crate::messages::driver::RunCounts;
    use crate::messages::plan::Mode;

    #[test]
    fn lost_late_and_unsent_are_bad_and_a_lagging_generator_offers_nothing() {
        let mut response = Histogram::new();
        response.record_n(1_000, 90);
        response.record_n(3_000_000, 5);
        let counts = RunCounts { sends: 97, completed: 95, unanswered: 2, unsent: 3, ..RunCounts::default() };
        let mut run = RunResult {
            response: Some(response),
            measured: Duration::from_secs(1),
            counts,
            ..RunResult::default()
        };
        let late = Duration::from_millis(1);
        assert_eq!(outcome(&run, late), Outcome { sent: 100, bad: 10, offered: true });
        assert_eq!(outcome(&run, Duration::from_millis(10)).bad, 5);
        run.counts.late_by_generator = 50;
        assert!(!outcome(&run, late).offered);
    }

    #[test]
    fn a_system_in_memory_is_searched() {
        let system = System::Barewire { mode: Mode::EmbeddedOneThread, over: "mem".parse().unwrap() };
        let settings = Settings {
            workload: MsgWorkload { size: 64, warmup: Duration::from_millis(1), ..MsgWorkload::default() },
            idle: None,
            idle_state: Some(crate::IdleState::Warm),
            cores: None,
            options: String::new(),
            command: "barewire bench msg --search pdr".to_owned(),
        };
        let goal = Goal { loss_ratio: 0.2, width: 0.5, ..Goal::pdr(0.05) };
        let request = Request {
            kind: Kind::Pdr,
            goals: vec![goal],
            range: Some(Range::new(100, 20_000).unwrap()),
            late: Duration::from_millis(100),
        };
        let mut told = 0;
        let place = Place::nothing();
        let (rows, failed) = search(&request, &system, &place, &settings, &mut |_| told += 1).unwrap();
        assert!(failed.is_none() && rows.len() == 1, "{failed:?}");
        let json = serde_json::to_value(&rows[0]).unwrap();
        assert_eq!(
            (json["log"].as_array().unwrap().len(), &json["trials_of_all_goals"], &json["window"]),
            (told, &told.into(), &WINDOW_MIN.into())
        );
        assert!(json["trials"].as_u64() <= json["trials_max"].as_u64(), "{json}");
        for key in
            ["lower_per_s", "upper_per_s", "conditional_throughput_per_s", "trial_seconds", "goal", "ending"]
        {
            assert!(json.get(key).is_some(), "{key}: {json}");
        }
        assert!(crate::render::table(&rows).contains("search  goal"));
    }
}
