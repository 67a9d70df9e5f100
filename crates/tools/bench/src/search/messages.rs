//! Throughput of a message system: open-loop trials, of which a request is bad when it was lost, or answered too late.

use super::{Ending, Found, Goal, Kind, Outcome, Range, Trial, run};
use crate::error::BenchError;
use crate::messages::Arrivals;
use crate::messages::driver::{LAG_PERCENT_MAX, RunResult};
use crate::messages::plan::{Place, PlanError, Settings, System, cells_for};
use barewire_base::Duration;
use barewire_measure::Histogram;
use serde::{Deserialize, Serialize};

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

/// What a search found for one goal of one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRow {
    /// The system.
    pub system: String,
    /// How it waits, or what runs the program.
    pub mode: String,
    /// What lies between the two ends.
    pub over: String,
    /// Bytes of a request, or of a frame.
    pub size: u32,
    /// Most requests outstanding. None of frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// How gaps are drawn. None of frames: they are equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// `ndr`, `pdr`, `mlr`.
    pub search: String,
    /// What makes a request or a frame bad, in words.
    pub bad: String,
    /// Between which loads.
    pub range: Range,
    /// What was found.
    #[serde(flatten)]
    pub found: Found,
    /// Trials of the whole search.
    pub trials_of_all_goals: u32,
    /// Most that it could have made.
    pub trials_max: u32,
    /// Every trial, in order; of the first goal's row only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<TrialLine>,
    /// What a reader has to know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Why the row must not be used, if so.
    pub void: Option<String>,
    /// The exact command that produced the row.
    pub command: String,
}

impl crate::BenchRow for SearchRow {
    fn bench(&self) -> &'static str {
        "search"
    }

    fn void(&self) -> Option<&str> {
        self.void.as_deref()
    }
}

impl SearchRow {
    /// The table's lines: one for each row.
    pub fn table(rows: &[SearchRow]) -> String {
        use crate::render::{maybe, plain, rate};
        let cells = |row: &SearchRow| {
            let found = &row.found;
            let load = |head, load: Option<u64>| maybe(head, load.map(|load| load as f64), rate);
            vec![
                plain("system", &row.system),
                plain("mode", &row.mode),
                plain("over", &row.over),
                plain("size", row.size),
                plain("search", &row.search),
                plain("goal", &found.goal.name),
                load("lower", found.lower_per_s),
                load("upper", found.upper_per_s),
                maybe("conditional", found.conditional_throughput_per_s, rate),
                plain("trials", found.trials),
                plain("time", format!("{:.1} s", found.trial_seconds)),
            ]
        };
        let notes = |row: &SearchRow| {
            row.void.iter().map(|why| format!("VOID: {why}")).chain(row.notes.clone()).collect()
        };
        crate::render::listing(rows, 3, cells, notes, |_| 1)
    }
}

/// What all rows of one search have in common.
pub(crate) struct Of<'a> {
    pub row: SearchRowHead<'a>,
    pub kind: Kind,
    pub range: Range,
    pub trials_max: u32,
    pub log: Vec<TrialLine>,
}

/// Names of a row.
pub(crate) struct SearchRowHead<'a> {
    pub system: &'a str,
    pub mode: &'a str,
    pub over: &'a str,
    pub size: u32,
    pub window: Option<u32>,
    pub arrivals: Option<Arrivals>,
    pub bad: String,
    pub command: &'a str,
}

pub(crate) fn rows_of(of: Of<'_>, found: Vec<Found>) -> Vec<SearchRow> {
    let all = of.log.len() as u32;
    let mut log = Some(of.log);
    let one = |found: Found| SearchRow {
        system: of.row.system.to_owned(),
        mode: of.row.mode.to_owned(),
        over: of.row.over.to_owned(),
        size: of.row.size,
        window: of.row.window,
        arrivals: of.row.arrivals,
        search: of.kind.word().to_owned(),
        bad: of.row.bad.clone(),
        range: of.range,
        trials_of_all_goals: all,
        trials_max: of.trials_max,
        log: log.take().unwrap_or_default(),
        notes: found.ending.note().map(str::to_owned).into_iter().collect(),
        void: match found.ending {
            Ending::Trials => Some("the trials contradict each other".to_owned()),
            Ending::Unfinished => Some("the search did not end".to_owned()),
            _ => None,
        },
        command: of.row.command.to_owned(),
        found,
    };
    found.into_iter().map(one).collect()
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
) -> Result<(Vec<SearchRow>, Option<SearchError>), SearchError> {
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
    let of = Of {
        row: SearchRowHead {
            system: &info.name.system,
            mode: &info.name.mode,
            over: &info.name.over,
            size: settings.workload.size,
            window: Some(window),
            arrivals: Some(settings.workload.arrivals),
            bad: format!("lost, or answered more than {} after it was to be sent", request.late),
            command: &settings.command,
        },
        kind: request.kind,
        range,
        trials_max: values.trials_max(),
        log,
    };
    Ok((rows_of(of, found), failed))
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
        let row = &rows[0];
        assert_eq!(
            (row.log.len(), row.trials_of_all_goals as usize, row.window),
            (told, told, Some(WINDOW_MIN))
        );
        assert!(row.found.trials <= row.trials_max, "{row:?}");
        let json = serde_json::to_value(row).unwrap();
        for key in
            ["lower_per_s", "upper_per_s", "conditional_throughput_per_s", "trial_seconds", "goal", "ending"]
        {
            assert!(json.get(key).is_some(), "{key}: {json}");
        }
        assert!(SearchRow::table(&rows).contains("conditional"));
    }
}
