//! RFC 2544 section 26.1: the greatest load at which nothing is lost, or no more than a ratio.

use super::{
    Ending, Found, Goal, Outcome, RETRIES, Range, Search, Trial, between, halvings, is_narrow, seconds,
};
use barewire_base::Duration;

/// One trial for each load, halving what is left. Begins at the greatest load.
#[derive(Clone, Debug)]
pub struct Bisect {
    goal: Goal,
    range: Range,
    duration: Duration,
    lower: Option<(u64, f64)>,
    upper: Option<u64>,
    /// The upper bound is where the generator could not follow.
    by_generator: bool,
    failed_offers: u32,
    trials: u32,
    spent_s: f64,
    asked: Option<Trial>,
}

impl Bisect {
    /// A search for `goal`, of which loss ratio, width and final trial duration count.
    pub fn new(goal: Goal, range: Range) -> Bisect {
        let duration = seconds(goal.trial_s);
        Bisect::with_duration(goal, range, duration)
    }

    pub(super) fn with_duration(goal: Goal, range: Range, duration: Duration) -> Bisect {
        Bisect {
            goal,
            range,
            duration,
            lower: None,
            upper: None,
            by_generator: false,
            failed_offers: 0,
            trials: 0,
            spent_s: 0.0,
            asked: None,
        }
    }

    /// Greatest load that was good and least that was not.
    pub(super) fn bounds(&self) -> (Option<u64>, Option<u64>) {
        (self.lower.map(|(load, _)| load), self.upper)
    }

    fn ending(&self) -> Ending {
        match (self.lower, self.upper) {
            (Some((lower, _)), _) if lower == self.range.max => Ending::AtMax,
            (_, Some(upper)) if upper == self.range.min => Ending::AtMin,
            (Some((lower, _)), Some(upper)) if is_narrow(lower, upper, self.goal.width) => {
                if self.by_generator { Ending::Generator } else { Ending::Width }
            }
            _ if self.trials >= self.trials_max() => Ending::Trials,
            _ => Ending::Unfinished,
        }
    }

    fn load(&self) -> u64 {
        match (self.lower, self.upper) {
            (_, None) => self.range.max,
            (Some((lower, _)), Some(upper)) => between(lower, upper),
            // The least load is offered when nothing else is left.
            (None, Some(upper)) if is_narrow(self.range.min, upper, self.goal.width) => self.range.min,
            (None, Some(upper)) => between(self.range.min, upper),
        }
    }
}

impl Search for Bisect {
    fn next(&mut self) -> Option<Trial> {
        if self.asked.is_none() && self.ending() == Ending::Unfinished {
            self.asked = Some(Trial { load: self.load(), duration: self.duration });
        }
        self.asked
    }

    fn result(&mut self, outcome: Outcome) {
        let Some(Trial { load, duration }) = self.asked.take() else { return };
        self.trials += 1;
        self.spent_s += duration.as_secs_f64();
        if !outcome.offered {
            self.failed_offers += 1;
            if self.failed_offers <= RETRIES {
                self.asked = Some(Trial { load, duration });
                return;
            }
        }
        let beyond = !outcome.offered;
        self.failed_offers = 0;
        let ratio = outcome.loss_ratio();
        if beyond || self.goal.is_bad(ratio) {
            (self.upper, self.by_generator) = (Some(load), beyond);
        } else {
            self.lower = Some((load, ratio));
        }
    }

    fn trials_max(&self) -> u32 {
        (halvings(self.range, self.goal.width) + 2) * (RETRIES + 1)
    }

    fn found(&self) -> Vec<Found> {
        vec![Found {
            goal: self.goal.clone(),
            lower_per_s: self.lower.map(|(load, _)| load),
            upper_per_s: self.upper,
            conditional_throughput_per_s: self.lower.map(|(load, ratio)| load as f64 * (1.0 - ratio)),
            ending: self.ending(),
            trials: self.trials,
            trial_seconds: self.spent_s,
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::super::models::{Answer, cliff, drive, noisy, not_monotonic};
    use super::super::run;
    use super::*;
    use proptest::prelude::*;

    fn range(min: u64, max: u64) -> Range {
        Range::new(min, max).unwrap()
    }

    #[test]
    fn a_cliff_is_found_from_the_top() {
        let mut search = Bisect::new(Goal::ndr(1.0), range(1, 100_000));
        let mut seen = Vec::new();
        let (found, _) = run::<()>(&mut search, |trial| {
            seen.push(trial.load);
            Ok(cliff(30_000).answer(trial))
        });
        assert_eq!((seen[0], seen[1]), (100_000, 316), "the greatest first, then halfway in magnitude");
        let found = &found[0];
        let (lower, upper) = (found.lower_per_s.unwrap(), found.upper_per_s.unwrap());
        assert!(lower <= 30_000 && upper > 30_000 && upper - lower <= upper / 100, "{found:?}");
        assert_eq!((found.ending, found.conditional_throughput_per_s), (Ending::Width, Some(lower as f64)));
        assert_eq!((found.trials as usize, found.trial_seconds), (seen.len(), seen.len() as f64));
    }

    #[test]
    fn the_ends_of_the_range_are_said() {
        let all = |limit: u64| drive(&mut Bisect::new(Goal::ndr(0.5), range(10, 1000)), &mut cliff(limit));
        let found = all(u64::MAX);
        assert_eq!(
            (found[0].ending, found[0].lower_per_s, found[0].upper_per_s),
            (Ending::AtMax, Some(1000), None)
        );
        assert_eq!(found[0].trials, 1);
        let found = all(0);
        assert_eq!(
            (found[0].ending, found[0].lower_per_s, found[0].upper_per_s),
            (Ending::AtMin, None, Some(10))
        );
        assert_eq!(found[0].conditional_throughput_per_s, None);
        let one = drive(&mut Bisect::new(Goal::ndr(0.5), range(7, 7)), &mut cliff(7));
        assert_eq!((one[0].ending, one[0].trials), (Ending::AtMax, 1));
    }

    #[test]
    fn a_loss_ratio_is_allowed_and_taken_off() {
        // Above the limit everything more is lost: at 1 % loss a load is limit / 0.99.
        let goal = Goal { loss_ratio: 0.01, width: 0.001, ..Goal::pdr(10.0) };
        let found = drive(&mut Bisect::new(goal, range(100, 1_000_000)), &mut cliff(50_000));
        let lower = found[0].lower_per_s.unwrap() as f64;
        assert!((lower - 50_505.0).abs() < 60.0, "{found:?}");
        let conditional = found[0].conditional_throughput_per_s.unwrap();
        assert!((conditional - 50_000.0).abs() < 60.0, "{found:?}");
    }

    #[test]
    fn what_the_generator_cannot_offer_is_tried_again_and_then_its_limit() {
        struct Weak {
            limit: u64,
            hiccups: u32,
        }
        impl Answer for Weak {
            fn answer(&mut self, trial: Trial) -> Outcome {
                // Two hiccups at a load that it can offer, and never what is above its limit.
                let hiccup = trial.load < self.limit && self.hiccups > 0;
                self.hiccups -= u32::from(hiccup);
                Outcome { sent: trial.load, bad: 0, offered: trial.load <= self.limit && !hiccup }
            }
        }
        let mut search = Bisect::new(Goal::ndr(1.0), range(1, 1_000_000));
        let found = drive(&mut search, &mut Weak { limit: 5_000, hiccups: 2 });
        let found = &found[0];
        assert_eq!(found.ending, Ending::Generator);
        assert!(found.lower_per_s.unwrap() <= 5_000 && found.upper_per_s.unwrap() > 5_000, "{found:?}");
        assert!(found.trials <= search.trials_max());
    }

    #[test]
    fn noise_and_holes_end_in_time_with_bounds_that_were_seen() {
        for seed in 0..50 {
            let mut search = Bisect::new(Goal::ndr(1.0), range(1, 1_000_000));
            let mut model = noisy(40_000, 0.3, seed);
            let found = drive(&mut search, &mut model);
            let limit = found[0].lower_per_s.unwrap_or(0);
            assert!(limit <= 40_000, "seed {seed}: a lower bound above the cliff");
            assert!(found[0].trials <= search.trials_max());
        }
        let found = drive(
            &mut Bisect::new(Goal::ndr(1.0), range(1, 1000)),
            &mut not_monotonic(std::slice::from_ref(&(100..200)), 600),
        );
        let (lower, upper) = (found[0].lower_per_s.unwrap(), found[0].upper_per_s.unwrap());
        assert!(lower < upper);
        assert!(!(100..200).contains(&lower) && lower <= 600);
    }

    #[test]
    fn results_that_nobody_asked_for_are_ignored() {
        let mut search = Bisect::new(Goal::ndr(1.0), range(1, 10));
        search.result(Outcome { sent: 1, bad: 1, offered: true });
        assert_eq!(search.found()[0].trials, 0);
        assert_eq!(search.next(), search.next());
        assert_eq!(search.found()[0].ending, Ending::Unfinished);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn every_cliff_is_between_the_bounds(
            min in 1u64..10_000, more in 0u64..500_000_000, at in 0.0f64..1.2, width in 0.0005f64..0.5,
        ) {
            let range = range(min, (min + more).min(super::super::LOAD_MAX));
            let limit = (range.max as f64 * at) as u64;
            let mut search = Bisect::new(Goal { width, ..Goal::ndr(1.0) }, range);
            let found = drive(&mut search, &mut cliff(limit)).remove(0);
            prop_assert!(found.trials <= search.trials_max() / (RETRIES + 1), "{found:?}");
            match found.ending {
                Ending::AtMax => prop_assert!(limit >= range.max),
                Ending::AtMin => prop_assert!(limit < range.min),
                Ending::Width => {
                    let (lower, upper) = (found.lower_per_s.unwrap(), found.upper_per_s.unwrap());
                    prop_assert!(lower <= limit && limit < upper, "{limit}: {found:?}");
                    prop_assert!(is_narrow(lower, upper, width));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }
}
