//! What rounds of several systems have in common: whose turn it is, and what the runs of a row are as one figure.
//!
//! A figure of a row is the median of its runs, with the least and the most of them beside it. Samples of all runs together are for
//! curves: in a closed loop a fast run has more samples than a slow one, and would count for more.

use crate::error::{BenchError, go_on};
use crate::render::latency;
pub use barewire_report::compare::median;

/// Whose turn it is in this round: forth in even rounds and back in odd ones, so that what changes steadily favours nobody.
pub(crate) fn turns(round: u32, systems: usize) -> impl Iterator<Item = usize> {
    let back = round % 2 == 1;
    (0..systems).map(move |at| if back { systems - 1 - at } else { at })
}

/// What came of one of those that took turns.
pub(crate) struct Made<T> {
    /// Its runs, each with its round.
    pub(crate) runs: Vec<(u32, T)>,
    /// In which run it failed and why, in words: what its row says. It was left out of later rounds.
    pub(crate) broken_off: Option<String>,
    /// The error.
    pub(crate) failed: Option<BenchError>,
}

impl<T> Made<T> {
    /// Its runs alone.
    pub(crate) fn each(&self) -> impl Iterator<Item = &T> {
        self.runs.iter().map(|(_, run)| run)
    }
}

/// Runs all of `titles` in turns, `rounds` times: whatever is measured goes through here. One that fails takes no other with it. `once` runs
/// the one at this place in this round; nothing comes of one that cannot be run at all. When the process is
/// [interrupted](crate::interrupt()), nothing more is run, and what that ends has not failed. `tell` hears what runs now, `keep` gets what
/// there is after each round but the last: what ends this process then loses one round at most.
pub(crate) fn in_turns<T>(
    titles: &[String],
    rounds: u32,
    tell: &mut dyn FnMut(String),
    once: &mut dyn FnMut(usize, u32) -> Result<Option<T>, BenchError>,
    keep: &mut dyn FnMut(&[Made<T>]),
) -> Vec<Made<T>> {
    let none = |_: &String| Made { runs: Vec::new(), broken_off: None, failed: None };
    let mut all: Vec<Made<T>> = titles.iter().map(none).collect();
    for round in 0..rounds {
        for at in turns(round, titles.len()) {
            let one = &mut all[at];
            if one.broken_off.is_some() {
                continue;
            }
            if go_on().is_err() {
                return all;
            }
            tell(format!("run {} of {rounds}: {}", round + 1, titles[at]));
            match once(at, round) {
                Ok(Some(made)) => one.runs.push((round, made)),
                Ok(None) => {}
                // What an interruption ends has not failed: the rounds before it count.
                Err(_) if go_on().is_err() => {}
                Err(error) => {
                    one.broken_off = Some(format!("run {} of {rounds} failed: {error}", round + 1));
                    one.failed = Some(error);
                }
            }
        }
        if round + 1 < rounds {
            keep(&all);
        }
    }
    all
}

/// Each of these words once, in the order in which they came.
pub(crate) fn once_each<'a>(words: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut once: Vec<String> = Vec::new();
    for word in words {
        if !once.contains(word) {
            once.push(word.clone());
        }
    }
    once
}

/// A percentile over runs: the median of theirs. `None` unless each run has enough samples for it by itself.
pub(crate) fn of_percentiles(runs: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    let all: Vec<f64> = runs.into_iter().map(|ns| ns.map(|ns| ns as f64)).collect::<Option<_>>()?;
    median(all).map(|ns| ns.round() as u64)
}

/// Percentiles that no run carries by itself and all of them together do.
#[derive(Default)]
pub(crate) struct Together(Vec<&'static str>);

impl Together {
    /// The median of the runs' percentiles; where they are too short for it, that of all samples together, which is remembered.
    pub(crate) fn percentile(
        &mut self,
        name: &'static str,
        runs: impl IntoIterator<Item = Option<u64>>,
        pooled: Option<u64>,
    ) -> Option<u64> {
        let of_runs = of_percentiles(runs);
        if of_runs.is_none() && pooled.is_some() && !self.0.contains(&name) {
            self.0.push(name);
        }
        of_runs.or(pooled)
    }

    /// What a reader has to know of them.
    pub(crate) fn note(&self) -> Option<String> {
        (!self.0.is_empty())
            .then(|| format!("{}: of all runs together, as one run has too few samples", self.0.join(", ")))
    }
}

/// Least and most of the runs of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of some runs; `None` of fewer than two, which have none.
    pub(crate) fn of(runs: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let (mut spread, mut count) = (Spread { least: f64::INFINITY, most: f64::NEG_INFINITY }, 0);
        for value in runs.into_iter().filter(|v| v.is_finite()) {
            (spread.least, spread.most) = (spread.least.min(value), spread.most.max(value));
            count += 1;
        }
        (count > 1).then_some(spread)
    }

    /// `LEAST..MOST`, each as the figure itself is shown.
    pub(crate) fn shown(self, how: impl Fn(f64) -> String) -> String {
        format!("{}..{}", how(self.least), how(self.most))
    }
}

/// `LEAST..MOST` of some runs; nothing where there is no spread.
pub(crate) fn spread(runs: impl IntoIterator<Item = f64>, how: impl Fn(f64) -> String) -> String {
    Spread::of(runs).map_or_else(String::new, |spread| spread.shown(how))
}

/// The same of times in ns.
pub(crate) fn spread_ns(runs: impl IntoIterator<Item = Option<u64>>) -> String {
    spread(runs.into_iter().flatten().map(|ns| ns as f64), |ns| latency(ns as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_go_forth_and_back() {
        let order = |round| turns(round, 3).collect::<Vec<_>>();
        assert_eq!([order(0), order(1), order(2)], [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
        assert_eq!(turns(1, 0).count(), 0);
    }

    #[test]
    fn all_take_turns_and_one_that_fails_takes_no_other_with_it() {
        let titles = ["A", "B", "C"].map(str::to_owned);
        let (mut order, mut told, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut once = |at: usize, round: u32| {
            order.push((round, at));
            match (round, at) {
                (1, 1) => Err(BenchError::Panicked("server")),
                (_, 2) => Ok(None),
                _ => Ok(Some(10 * round + at as u32)),
            }
        };
        let mut keep =
            |all: &[Made<u32>]| kept.push(all.iter().map(|one| one.runs.len()).collect::<Vec<_>>());
        let all = in_turns(&titles, 3, &mut |line| told.push(line), &mut once, &mut keep);
        let at: Vec<usize> = order.iter().map(|(_, at)| *at).collect();
        assert_eq!(at, [0, 1, 2, 2, 1, 0, 0, 2], "forth, back, and without the one that failed");
        assert_eq!(kept, [[1, 1, 0], [2, 1, 0]], "after each round but the last");
        assert_eq!((told.len(), told[1].as_str()), (8, "run 1 of 3: B"));
        assert_eq!(all[0].runs, [(0, 0), (1, 10), (2, 20)]);
        assert_eq!(all[1].broken_off.as_deref(), Some("run 2 of 3 failed: the server thread panicked"));
        assert!(all[1].failed.is_some() && all[0].failed.is_none() && all[2].each().count() == 0);
    }

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(median([]), None);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0]), Some(2.5));
        assert_eq!(median([f64::NAN, 1.0]), Some(1.0));
    }

    #[test]
    fn a_percentile_is_the_median_of_the_runs_or_of_all_samples_and_then_it_is_said() {
        let mut together = Together::default();
        assert_eq!(together.percentile("p50", [Some(5), Some(7), Some(90)], Some(8)), Some(7));
        assert_eq!(together.note(), None);
        // One run is too short for it: the median of the others would be that of the fast ones.
        assert_eq!(together.percentile("p99", [Some(5), None, Some(90)], Some(70)), Some(70));
        assert_eq!(together.percentile("p99.9", [None, None], None), None);
        assert_eq!(together.note().unwrap(), "p99: of all runs together, as one run has too few samples");
        assert_eq!(of_percentiles([]), None);
    }

    #[test]
    fn a_spread_is_of_several_runs() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { least: 1.0, most: 3.0 }));
        assert_eq!(Spread::of([3.0]), None);
        assert_eq!(spread_ns([Some(1_200), None, Some(900)]), "900 ns..1.2 us");
        assert_eq!(spread([1.0], |x| x.to_string()), "");
    }
}
