//! RFC 9971: MLRsearch.

use super::{
    Bisect, Ending, Found, Goal, Outcome, RETRIES, Range, Search, Trial, between, halvings, is_narrow,
};
use barewire_base::Duration;
use std::collections::BTreeMap;

/// Widths of the goal that the first look leaves between its bounds.
const FIRST_LOOK: f64 = 4.0;

/// One trial that was made: how long, and what ratio was lost.
#[derive(Clone, Copy, Debug)]
struct Seen {
    duration_s: f64,
    ratio: f64,
}

/// What a load is for a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Undecided,
}

/// Several goals, one after the other; all use what was seen for any. For each: a look with short trials where to begin, then
/// trials in full from there outwards, each step twice the one before, until both bounds are there, then halving.
#[derive(Clone, Debug)]
pub struct Mlr {
    goals: Vec<Goal>,
    range: Range,
    seen: BTreeMap<u64, Vec<Seen>>,
    /// The least load that the generator could not offer.
    ceiling: Option<u64>,
    failed_offers: u32,
    /// The goal that is searched for.
    at: usize,
    look: Option<Bisect>,
    /// Steps outwards so far for this goal.
    steps: i32,
    /// The load that is being judged.
    judging: Option<u64>,
    asked: Option<Trial>,
    /// It is a trial of the look.
    looking: bool,
    trials: Vec<u32>,
    spent_s: Vec<f64>,
}

impl Mlr {
    /// A search for `goals` within `range`.
    pub fn new(goals: Vec<Goal>, range: Range) -> Mlr {
        let n = goals.len();
        Mlr {
            goals,
            range,
            seen: BTreeMap::new(),
            ceiling: None,
            failed_offers: 0,
            at: 0,
            look: None,
            steps: 0,
            judging: None,
            asked: None,
            looking: false,
            trials: vec![0; n],
            spent_s: vec![0.0; n],
        }
    }

    /// RFC 9971 appendix A.
    fn class(&self, goal: &Goal, load: u64) -> Class {
        if self.ceiling.is_some_and(|ceiling| load >= ceiling) {
            return Class::Upper;
        }
        let [mut good_long, mut bad_long, mut good_short, mut bad_short] = [0.0; 4];
        for trial in self.seen.get(&load).into_iter().flatten() {
            let sum = match (is_long(goal, trial), goal.is_bad(trial.ratio)) {
                (true, false) => &mut good_long,
                (true, true) => &mut bad_long,
                (false, false) => &mut good_short,
                (false, true) => &mut bad_short,
            };
            *sum += trial.duration_s;
        }
        let balancing = good_short * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
        let bad = bad_long + f64::max(0.0, bad_short - balancing);
        let whole = f64::max(good_long + bad, goal.sum_s);
        // Sums of durations differ from their product in the last bits.
        let allowed = whole * goal.exceed_ratio + whole * 1e-9;
        match (bad <= allowed, whole - good_long <= allowed) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    }

    /// Relevant lower and upper bound.
    fn bounds(&self, goal: &Goal) -> (Option<u64>, Option<u64>) {
        let of =
            |class: Class| self.seen.keys().copied().filter(move |&load| self.class(goal, load) == class);
        let upper = of(Class::Upper).min().into_iter().chain(self.ceiling).min();
        let lower = of(Class::Lower).filter(|&load| upper.is_none_or(|upper| load < upper)).max();
        (lower, upper)
    }

    /// RFC 9971 appendix B.
    fn conditional_throughput(&self, goal: &Goal, load: u64) -> f64 {
        let seen = self.seen.get(&load).map_or(&[][..], Vec::as_slice);
        let mut long: Vec<&Seen> = seen.iter().filter(|trial| is_long(goal, trial)).collect();
        long.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let total: f64 = long.iter().map(|trial| trial.duration_s).sum();
        let mut remaining = total.max(goal.sum_s) * (1.0 - goal.exceed_ratio) * (1.0 - 1e-9);
        let mut ratio = 1.0;
        for trial in long {
            ratio = trial.ratio;
            remaining -= trial.duration_s;
            if remaining <= 0.0 {
                break;
            }
        }
        if remaining > 0.0 {
            ratio = 1.0;
        }
        load as f64 * (1.0 - ratio)
    }

    fn ending(&self, goal: &Goal) -> Ending {
        match self.bounds(goal) {
            (Some(lower), _) if lower == self.range.max => Ending::AtMax,
            (_, Some(upper)) if upper == self.range.min => Ending::AtMin,
            (Some(lower), Some(upper)) if is_narrow(lower, upper, goal.width) => match self.ceiling {
                Some(ceiling) if ceiling == upper => Ending::Generator,
                _ => Ending::Width,
            },
            _ => Ending::Unfinished,
        }
    }

    /// A load to be judged in full for the goal.
    fn load(&mut self, goal: &Goal, look: (Option<u64>, Option<u64>)) -> u64 {
        let Range { min, max } = self.range;
        // A step outwards, in parts of the load: one width, two, four...
        let step = |steps: i32| (goal.width * 2f64.powi(steps.min(30))).min(0.5);
        match self.bounds(goal) {
            (Some(lower), Some(upper)) => between(lower, upper),
            (None, None) => look.0.unwrap_or(min),
            (Some(lower), None) => {
                let near = (lower as f64 / (1.0 - step(self.steps))) as u64;
                let looked = look.1.filter(|&upper| upper > lower && self.steps == 0);
                self.steps += 1;
                looked.unwrap_or(near).clamp(lower + 1, max)
            }
            (None, Some(upper)) => {
                let near = (upper as f64 * (1.0 - step(self.steps))) as u64;
                let looked = look.0.filter(|&lower| lower < upper && self.steps == 0);
                self.steps += 1;
                looked.unwrap_or(near).clamp(min, upper - 1)
            }
        }
    }

    fn ask(&mut self) -> Option<Trial> {
        while let Some(goal) = self.goals.get(self.at).cloned() {
            if self.ending(&goal) != Ending::Unfinished {
                self.leave();
                continue;
            }
            let range = self.range;
            let look = self.look.get_or_insert_with(|| {
                let wide = Goal { width: (goal.width * FIRST_LOOK).min(0.5), ..goal.clone() };
                Bisect::with_duration(wide, range, goal.initial())
            });
            if let Some(trial) = look.next() {
                // What was seen already, for another goal, is not asked again.
                if let Some(known) = self.known(trial.load, trial.duration) {
                    if let Some(look) = &mut self.look {
                        look.result(known);
                    }
                    continue;
                }
                self.looking = true;
                return Some(trial);
            }
            let around = look.bounds();
            let judging = self.judging.filter(|&load| self.class(&goal, load) == Class::Undecided);
            let load = match judging {
                Some(load) => load,
                None => self.load(&goal, around),
            };
            (self.judging, self.looking) = (Some(load), false);
            return Some(Trial { load, duration: goal.trial() });
        }
        None
    }

    /// On to the next goal that is not finished: what was seen for a later one may have taken a bound from an earlier one.
    fn leave(&mut self) {
        let unfinished = |at: &usize| self.ending(&self.goals[*at]) == Ending::Unfinished;
        let goals = self.goals.len();
        self.at = (self.at + 1..goals).chain(0..self.at.min(goals)).find(unfinished).unwrap_or(goals);
        (self.look, self.judging, self.steps, self.failed_offers) = (None, None, 0, 0);
    }

    /// The worst that was seen of a load in trials at least so long.
    fn known(&self, load: u64, duration: Duration) -> Option<Outcome> {
        if self.ceiling.is_some_and(|ceiling| load >= ceiling) {
            return Some(Outcome { sent: 0, bad: 0, offered: false });
        }
        let long = |trial: &&Seen| trial.duration_s >= duration.as_secs_f64() * (1.0 - 1e-9);
        let worst = self.seen.get(&load)?.iter().filter(long).map(|t| t.ratio).max_by(f64::total_cmp)?;
        let sent = 1 << 40;
        Some(Outcome { sent, bad: (worst * sent as f64).round() as u64, offered: true })
    }

    fn most_for(&self, goal: &Goal) -> u32 {
        let looking = (halvings(self.range, goal.width) + 2) * (RETRIES + 1);
        let each = (goal.sum_s / goal.trial_s).ceil() as u32 + RETRIES;
        // Outwards from where the look began: steps double until they are half of the load, then each is a factor of two.
        let doubling = (0.5 / goal.width).log2().max(0.0).ceil() as u32;
        let factors = (self.range.max as f64 / self.range.min as f64).log2().ceil() as u32;
        let loads = doubling + factors + halvings(self.range, goal.width) + 4;
        looking.saturating_add(loads.saturating_mul(each))
    }
}

fn is_long(goal: &Goal, trial: &Seen) -> bool {
    trial.duration_s >= goal.trial_s * (1.0 - 1e-9)
}

impl Search for Mlr {
    fn next(&mut self) -> Option<Trial> {
        if self.asked.is_none() && self.trials.iter().sum::<u32>() < self.trials_max() {
            self.asked = self.ask();
        }
        self.asked
    }

    fn result(&mut self, outcome: Outcome) {
        let Some(trial @ Trial { load, duration }) = self.asked.take() else { return };
        if let Some(trials) = self.trials.get_mut(self.at) {
            *trials += 1;
            self.spent_s[self.at] += duration.as_secs_f64();
        }
        if !outcome.offered {
            self.failed_offers += 1;
            if self.failed_offers <= RETRIES {
                self.asked = Some(trial);
                return;
            }
            self.ceiling = Some(self.ceiling.map_or(load, |ceiling| ceiling.min(load)));
        } else {
            let seen = Seen { duration_s: duration.as_secs_f64(), ratio: outcome.loss_ratio() };
            self.seen.entry(load).or_default().push(seen);
        }
        if let Some(look) = self.look.as_mut().filter(|_| self.looking) {
            // The look has its own patience, which is spent here already.
            for _ in 0..=if outcome.offered { 0 } else { RETRIES } {
                look.result(outcome);
            }
        }
        self.failed_offers = 0;
    }

    fn trials_max(&self) -> u32 {
        self.goals.iter().map(|goal| self.most_for(goal)).fold(0, u32::saturating_add)
    }

    fn found(&self) -> Vec<Found> {
        let exhausted = self.trials.iter().sum::<u32>() >= self.trials_max();
        let of = |(at, goal): (usize, &Goal)| {
            let (lower, upper) = self.bounds(goal);
            Found {
                goal: goal.clone(),
                lower_per_s: lower,
                upper_per_s: upper,
                conditional_throughput_per_s: lower.map(|load| self.conditional_throughput(goal, load)),
                ending: match self.ending(goal) {
                    Ending::Unfinished if exhausted => Ending::Trials,
                    ending => ending,
                },
                trials: self.trials[at],
                trial_seconds: self.spent_s[at],
            }
        };
        self.goals.iter().enumerate().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::LOAD_MAX;
    use super::super::models::{Answer, cliff, drive, noisy, not_monotonic};
    use super::*;
    use proptest::prelude::*;

    fn range(min: u64, max: u64) -> Range {
        Range::new(min, max).unwrap()
    }

    fn goal(loss: f64, exceed: f64, initial: f64, trial: f64, trials: f64, width: f64) -> Goal {
        Goal {
            name: "test".to_owned(),
            loss_ratio: loss,
            exceed_ratio: exceed,
            initial_s: initial,
            trial_s: trial,
            sum_s: trial * trials,
            width,
        }
    }

    fn with(goal: &Goal, trials: &[(f64, f64)]) -> Mlr {
        let mut mlr = Mlr::new(vec![goal.clone()], range(1, 1000));
        let seen = trials.iter().map(|&(duration_s, ratio)| Seen { duration_s, ratio }).collect();
        mlr.seen.insert(100, seen);
        mlr
    }

    #[test]
    fn loads_are_classified_by_time_good_and_bad() {
        let half = goal(0.0, 0.5, 1.0, 1.0, 5.0, 0.01);
        let class = |trials: &[(f64, f64)]| with(&half, trials).class(&half, 100);
        assert_eq!(class(&[]), Class::Undecided);
        assert_eq!(class(&[(1.0, 0.0), (1.0, 0.0)]), Class::Undecided, "2 of 5 s are good, 2.5 s are needed");
        assert_eq!(class(&[(1.0, 0.0); 3]), Class::Lower, "the other two may be bad");
        assert_eq!(class(&[(1.0, 0.1); 3]), Class::Upper);
        assert_eq!(class(&[(1.0, 0.1), (1.0, 0.1), (1.0, 0.0), (1.0, 0.0)]), Class::Undecided);
        // Short ones: bad ones count as far as good ones do not balance them; good ones alone decide nothing.
        assert_eq!(class(&[(0.5, 0.0); 20]), Class::Undecided);
        assert_eq!(class(&[(0.5, 0.1); 6]), Class::Upper);
        let mixed: Vec<(f64, f64)> = [vec![(0.5, 0.1); 6], vec![(0.5, 0.0); 6]].concat();
        assert_eq!(class(&mixed), Class::Undecided);
        let strict = goal(0.01, 0.0, 1.0, 1.0, 2.0, 0.01);
        let class = |trials: &[(f64, f64)]| with(&strict, trials).class(&strict, 100);
        assert_eq!(class(&[(1.0, 0.01)]), Class::Undecided);
        assert_eq!(class(&[(1.0, 0.01), (1.0, 0.0)]), Class::Lower);
        assert_eq!(class(&[(1.0, 0.011)]), Class::Upper, "one is enough where none may be");
    }

    #[test]
    fn conditional_throughput_is_the_load_without_the_quantile_of_the_loss() {
        let half = goal(0.5, 0.5, 1.0, 1.0, 5.0, 0.01);
        let of = |trials: &[(f64, f64)]| with(&half, trials).conditional_throughput(&half, 100);
        assert_eq!(of(&[(1.0, 0.1); 5]), 90.0);
        // 2.5 of 5 s: the third best trial.
        assert_eq!(of(&[(1.0, 0.4), (1.0, 0.0), (1.0, 0.2), (1.0, 0.0), (1.0, 0.3)]), 80.0);
        assert_eq!(of(&[(1.0, 0.0), (1.0, 0.0)]), 0.0, "what was not measured counts as lost");
        assert_eq!(of(&[(0.5, 0.0); 9]), 0.0, "short ones do not count");
    }

    #[test]
    fn two_goals_share_what_was_seen() {
        let ndr = goal(0.0, 0.0, 1.0, 1.0, 1.0, 0.005);
        let pdr = goal(0.01, 0.0, 1.0, 1.0, 1.0, 0.005);
        let alone = |goal: &Goal| {
            drive(&mut Mlr::new(vec![goal.clone()], range(1, 1_000_000)), &mut cliff(40_000))[0].trials
        };
        let mut both = Mlr::new(vec![ndr.clone(), pdr.clone()], range(1, 1_000_000));
        let found = drive(&mut both, &mut cliff(40_000));
        assert!(found[0].lower_per_s.unwrap() <= 40_000 && found[0].upper_per_s.unwrap() > 40_000);
        let (lower, upper) = (found[1].lower_per_s.unwrap() as f64, found[1].upper_per_s.unwrap() as f64);
        assert!(lower <= 40_404.1 && upper >= 40_404.0, "{found:?}");
        assert!(found[1].trials * 2 < alone(&pdr), "{found:?}, alone {}", alone(&pdr));
        assert!((found[1].conditional_throughput_per_s.unwrap() - 40_000.0).abs() < 250.0);
    }

    #[test]
    fn half_of_the_trials_may_be_disturbed() {
        // Where one trial in four is spoiled, a search that must have no loss finds far less; the median does not mind.
        let (mut near, mut far) = (0, 0);
        for seed in 0..30 {
            let median = Goal { width: 0.02, ..Goal::median("median", 0.0, 1.0) };
            let found =
                drive(&mut Mlr::new(vec![median], range(1, 1_000_000)), &mut noisy(40_000, 0.25, seed));
            let lower = found[0].lower_per_s.unwrap_or(0);
            assert!(lower <= 40_000, "seed {seed}: {found:?}");
            near += u32::from(lower >= 38_000);
            let found =
                drive(&mut Bisect::new(Goal::ndr(1.0), range(1, 1_000_000)), &mut noisy(40_000, 0.25, seed));
            far += u32::from(found[0].lower_per_s.unwrap_or(0) < 38_000);
        }
        assert!(near >= 27, "{near} of 30 within 5 %");
        assert!(far >= 10, "{far} of 30: else the model disturbs nothing");
    }

    #[test]
    fn the_ends_and_the_generator_are_said() {
        let end = |limit: u64| {
            let goals = vec![goal(0.0, 0.5, 0.1, 1.0, 3.0, 0.01)];
            drive(&mut Mlr::new(goals, range(10, 1000)), &mut cliff(limit)).remove(0)
        };
        let all = end(u64::MAX);
        assert_eq!((all.ending, all.lower_per_s, all.upper_per_s), (Ending::AtMax, Some(1000), None));
        let none = end(0);
        assert_eq!((none.ending, none.lower_per_s, none.upper_per_s), (Ending::AtMin, None, Some(10)));
        struct Weak;
        impl Answer for Weak {
            fn answer(&mut self, trial: Trial) -> Outcome {
                Outcome { sent: trial.load, bad: 0, offered: trial.load <= 700 }
            }
        }
        let goals = vec![goal(0.0, 0.5, 0.1, 1.0, 3.0, 0.01)];
        let weak = drive(&mut Mlr::new(goals, range(10, 100_000)), &mut Weak).remove(0);
        assert_eq!(weak.ending, Ending::Generator, "{weak:?}");
        assert!(weak.lower_per_s.unwrap() <= 700 && weak.upper_per_s.unwrap() > 700);
    }

    #[test]
    fn holes_do_not_hide_below_the_lower_bound_that_was_seen() {
        let goals = vec![goal(0.0, 0.0, 1.0, 1.0, 1.0, 0.01), goal(0.1, 0.0, 1.0, 1.0, 1.0, 0.01)];
        for hole in [100..200, 400..500, 590..600] {
            let mut search = Mlr::new(goals.clone(), range(1, 1000));
            for found in drive(&mut search, &mut not_monotonic(std::slice::from_ref(&hole), 600)) {
                let (lower, upper) = (found.lower_per_s.unwrap(), found.upper_per_s.unwrap());
                assert!(lower < upper && !hole.contains(&lower), "{found:?}");
                let below = search.seen.keys().filter(|&&load| load < upper);
                assert!(below.into_iter().all(|&load| search.class(&found.goal, load) != Class::Upper));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn every_cliff_is_between_the_bounds(
            min in 1u64..10_000, more in 0u64..100_000_000, at in 0.0f64..1.2, width in 0.001f64..0.4,
            exceed in 0.0f64..0.9, trials in 1u32..8, initial in 0.1f64..=1.0,
        ) {
            let range = range(min, (min + more).min(LOAD_MAX));
            let limit = (range.max as f64 * at) as u64;
            let goal = goal(0.0, exceed, initial, 1.0, f64::from(trials), width);
            let mut search = Mlr::new(vec![goal], range);
            let found = drive(&mut search, &mut cliff(limit)).remove(0);
            match found.ending {
                Ending::AtMax => prop_assert!(limit >= range.max),
                Ending::AtMin => prop_assert!(limit < range.min),
                Ending::Width => {
                    let (lower, upper) = (found.lower_per_s.unwrap(), found.upper_per_s.unwrap());
                    prop_assert!(lower <= limit && limit < upper, "{limit}: {found:?}");
                    prop_assert!(is_narrow(lower, upper, width));
                    prop_assert_eq!(found.conditional_throughput_per_s, Some(lower as f64));
                }
                other => prop_assert!(false, "{other:?} {found:?}"),
            }
        }

        #[test]
        fn any_system_ends_in_time(seed: u64, disturbed in 0.0f64..1.0, exceed in 0.0f64..0.9, trials in 1u32..6) {
            let goals = vec![
                goal(0.0, exceed, 0.5, 1.0, f64::from(trials), 0.01),
                goal(0.6, exceed, 1.0, 1.0, f64::from(trials), 0.02),
            ];
            let mut search = Mlr::new(goals, range(1, 1_000_000));
            let found = drive(&mut search, &mut noisy(30_000, disturbed, seed));
            for found in found {
                // Where every trial contradicts the one before, the limit may come first.
                prop_assert!(found.ending != Ending::Unfinished, "{found:?}");
            }
        }
    }
}
