//! Throughput search as values: which load to offer next, and what the answers so far say. No clock, no port, no thread: whoever
//! drives it asks [`Search::next`] for a [`Trial`], runs it, and tells the [`Outcome`].
//!
//! ```text
//! next() -> Trial { load, duration } -> the driver offers it -> Outcome { sent, bad } -> result() -> next() ... -> found()
//! ```
//! [`Bisect`] is the throughput of RFC 2544 section 26.1 (`ndr`: no loss) and its relative with a loss ratio (`pdr`). [`Mlr`] is
//! RFC 9971's MLRsearch: several [`Goal`]s in one search, short trials first, several trials of one load where they disagree.
//! [`BackToBack`] is the burst of RFC 2544 section 26.4 as RFC 9004 measures it. A load is a number per second: of frames, of
//! requests, of whatever the driver counts: [`messages`] drives a search over requests and responses, [`frames`] over a switch.

mod bisect;
mod burst;
pub mod frames;
pub mod messages;
mod mlr;
#[cfg(test)]
mod models;
mod parse;

pub use bisect::Bisect;
pub use burst::{BackToBack, Burst, Bursts};
pub use mlr::Mlr;
pub use parse::{BadGoal, Kind, goals};

use barewire_base::Duration;
use serde::{Deserialize, Serialize};

/// Trials of one load that the generator may fail to offer before the load counts as beyond it.
pub const RETRIES: u32 = 2;
/// Greatest load that a search may be given: one a nanosecond.
pub const LOAD_MAX: u64 = 1_000_000_000;

/// One load to be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Per second.
    pub load: u64,
    /// For how long.
    pub duration: Duration,
}

/// What came of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What was sent.
    pub sent: u64,
    /// What of it was lost, or late.
    pub bad: u64,
    /// Whether the load was really offered. A generator that lagged says nothing about the system.
    pub offered: bool,
}

impl Outcome {
    /// The trial loss ratio, 0 to 1. Of a trial that sent nothing it is 1.
    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 { 1.0 } else { self.bad.min(self.sent) as f64 / self.sent as f64 }
    }
}

/// What a search is for (RFC 9971 section "Search Goal").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// A word for it: `ndr`, `pdr`, or what it was typed as.
    pub name: String,
    /// Goal loss ratio: a trial above it is bad. 0 to less than 1.
    pub loss_ratio: f64,
    /// Goal exceed ratio: the share of the time at one load that bad trials may have. 0 to less than 1.
    pub exceed_ratio: f64,
    /// Goal initial trial duration, in seconds: of the trials that only look where to begin.
    pub initial_s: f64,
    /// Goal final trial duration, in seconds: of the trials that count in full.
    pub trial_s: f64,
    /// Goal duration sum, in seconds: trials of one load together, before it is judged for good.
    pub sum_s: f64,
    /// Goal width: how far the upper bound may be above the lower, in parts of the upper.
    pub width: f64,
}

impl Goal {
    /// No loss at all, one trial a load: RFC 2544 with trials of `trial_s`.
    pub fn ndr(trial_s: f64) -> Goal {
        Goal {
            name: "ndr".to_owned(),
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            initial_s: trial_s,
            trial_s,
            sum_s: trial_s,
            width: 0.01,
        }
    }

    /// A loss ratio of half a percent, one trial a load.
    pub fn pdr(trial_s: f64) -> Goal {
        Goal { name: "pdr".to_owned(), loss_ratio: 0.005, ..Goal::ndr(trial_s) }
    }

    /// What MLRsearch is mostly used with: many short trials, of which half may be bad, so that single disturbances of a
    /// software system do not decide. `sum_s` is 21 trials.
    pub fn median(name: &str, loss_ratio: f64, trial_s: f64) -> Goal {
        Goal {
            name: name.to_owned(),
            loss_ratio,
            exceed_ratio: 0.5,
            initial_s: trial_s,
            trial_s,
            sum_s: 21.0 * trial_s,
            width: 0.01,
        }
    }

    /// Checks the bounds that the fields name.
    ///
    /// # Errors
    /// Which field, in words.
    pub fn check(&self) -> Result<(), BadGoal> {
        let bad = |what: &str| Err(BadGoal(format!("goal `{}`: {what}", self.name)));
        let time = |s: f64| s.is_finite() && s > 0.0 && s <= 86_400.0;
        if !(0.0..1.0).contains(&self.loss_ratio) {
            return bad("`loss` must be at least 0 and less than 1");
        }
        if !(0.0..1.0).contains(&self.exceed_ratio) {
            return bad("`exceed` must be at least 0 and less than 1");
        }
        if !time(self.trial_s) || !time(self.initial_s) || self.initial_s > self.trial_s {
            return bad("`initial` must be more than 0 s and at most `trial`");
        }
        if !time(self.sum_s) || self.sum_s < self.trial_s || self.sum_s / self.trial_s > 1000.0 {
            return bad("`sum` must be at least `trial`, and at most a thousand of them");
        }
        if !(self.width > 0.0 && self.width < 1.0) {
            return bad("`width` must be more than 0 and less than 1");
        }
        Ok(())
    }

    fn initial(&self) -> Duration {
        seconds(self.initial_s)
    }

    fn trial(&self) -> Duration {
        seconds(self.trial_s)
    }

    fn is_bad(&self, ratio: f64) -> bool {
        ratio > self.loss_ratio
    }
}

fn seconds(s: f64) -> Duration {
    Duration::from_nanos((s * 1e9) as u64)
}

/// Between which loads a search looks: both are offered if it comes to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Least load, per second; at least 1.
    pub min: u64,
    /// Most load, per second; at most [`LOAD_MAX`].
    pub max: u64,
}

impl Range {
    /// From `min` to `max`.
    ///
    /// # Errors
    /// When they are no range.
    pub fn new(min: u64, max: u64) -> Result<Range, BadGoal> {
        match 1 <= min && min <= max && max <= LOAD_MAX {
            true => Ok(Range { min, max }),
            false => Err(BadGoal(format!("loads {min} to {max}: 1 to {LOAD_MAX} per second are expected"))),
        }
    }
}

/// How the search for a goal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Both bounds are there, within the goal's width.
    Width,
    /// The greatest load of the range is a lower bound: nothing above was offered.
    AtMax,
    /// The least load of the range is an upper bound: nothing below was offered.
    AtMin,
    /// Both bounds are within the width, but the upper one is the generator's, which could not offer more.
    Generator,
    /// The limit of trials came first.
    Trials,
    /// It is still going on, or somebody ended it.
    Unfinished,
}

impl Ending {
    /// In words, where a reader has to know.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Ending::Width => None,
            Ending::AtMax => Some("no more was offered: the greatest load is carried"),
            Ending::AtMin => Some("even the least load is not carried"),
            Ending::Generator => Some("the generator's limit, not the system's"),
            Ending::Trials => Some("the limit of trials came first"),
            Ending::Unfinished => Some("not searched to its end"),
        }
    }
}

/// What was found for one goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The goal.
    pub goal: Goal,
    /// Relevant lower bound, per second: the greatest load below the upper bound that meets the goal.
    pub lower_per_s: Option<u64>,
    /// Relevant upper bound, per second: the least load that does not meet it.
    pub upper_per_s: Option<u64>,
    /// Conditional throughput, per second: what came back at the lower bound.
    pub conditional_throughput_per_s: Option<f64>,
    /// How it ended.
    pub ending: Ending,
    /// Trials, those shared with other goals included.
    pub trials: u32,
    /// Their durations together, in seconds.
    pub trial_seconds: f64,
}

/// A search.
pub trait Search {
    /// What to offer next. `None`: all is found. Asked again without a result in between it says the same.
    fn next(&mut self) -> Option<Trial>;
    /// What came of the trial that [`next`](Search::next) named. Without one it is ignored.
    fn result(&mut self, outcome: Outcome);
    /// Most trials that it will ask for, whatever comes back.
    fn trials_max(&self) -> u32;
    /// What is known now, for each goal in order.
    fn found(&self) -> Vec<Found>;
}

/// Runs a search to its end; `offer` runs a trial. When it fails, what was found so far is given with its error.
pub fn run<E>(
    search: &mut dyn Search,
    mut offer: impl FnMut(Trial) -> Result<Outcome, E>,
) -> (Vec<Found>, Option<E>) {
    while let Some(trial) = search.next() {
        match offer(trial) {
            Ok(outcome) => search.result(outcome),
            Err(error) => return (search.found(), Some(error)),
        }
    }
    (search.found(), None)
}

/// Whether two bounds are near enough: within `width` parts of the upper, or neighbours.
fn is_narrow(lower: u64, upper: u64, width: f64) -> bool {
    upper.saturating_sub(lower) <= 1 || (upper - lower) as f64 <= width * upper as f64
}

/// A load between two that are at least two apart: halfway in magnitude while they differ by more than a factor of two.
fn between(lower: u64, upper: u64) -> u64 {
    let middle = match upper / 2 > lower {
        true => (lower as f64 * upper as f64).sqrt() as u64,
        false => lower.midpoint(upper),
    };
    middle.clamp(lower + 1, upper - 1)
}

/// Most times that [`between`] is asked until what is left of `range` [is narrow](is_narrow).
fn halvings(range: Range, width: f64) -> u32 {
    // In magnitude first, each time half of the factor's logarithm (rounding to whole loads costs a step at most), then in
    // loads, from half of the upper bound down to the width of it.
    let factor = (range.max as f64 / range.min as f64).log2().max(1.0);
    let narrowing = (0.5 / width).log2().clamp(0.0, 30.0);
    (factor.log2().ceil() + narrowing.ceil()) as u32 + 4
}
