//! Systems that tests search.

use super::{Found, Outcome, Search, Trial};
use barewire_base::Prng;
use std::ops::Range;

/// Answers trials.
pub(super) trait Answer {
    fn answer(&mut self, trial: Trial) -> Outcome;
}

/// Runs a search on a model; it must end within its own limit.
pub(super) fn drive(search: &mut dyn Search, model: &mut dyn Answer) -> Vec<Found> {
    let most = search.trials_max();
    let mut trials = 0;
    while let Some(trial) = search.next() {
        trials += 1;
        assert!(trials <= most, "more than {most} trials");
        search.result(model.answer(trial));
    }
    search.found()
}

/// A system that carries up to a limit, and of more the limit.
pub(super) struct Model {
    limit: u64,
    /// Loads at which it loses half, whatever the limit.
    holes: Vec<Range<u64>>,
    /// Share of trials that a disturbance spoils.
    disturbed: f64,
    prng: Prng,
}

pub(super) fn cliff(limit: u64) -> Model {
    Model { limit, holes: Vec::new(), disturbed: 0.0, prng: Prng::new(1) }
}

pub(super) fn noisy(limit: u64, disturbed: f64, seed: u64) -> Model {
    Model { disturbed, prng: Prng::new(seed), ..cliff(limit) }
}

pub(super) fn not_monotonic(holes: &[Range<u64>], limit: u64) -> Model {
    Model { holes: holes.to_vec(), ..cliff(limit) }
}

impl Answer for Model {
    fn answer(&mut self, trial: Trial) -> Outcome {
        // A whole number of seconds' worth, so that ratios are exact whatever the duration.
        let sent = trial.load * 1000;
        let mut bad = trial.load.saturating_sub(self.limit) * 1000;
        if self.holes.iter().any(|hole| hole.contains(&trial.load)) || self.prng.unit() < self.disturbed {
            bad = bad.max(sent / 2);
        }
        Outcome { sent, bad, offered: true }
    }
}
