//! How one system stands beside another of the same run: the one verdict that terminal, page and README give.

use super::bootstrap::{Interval, ratio_interval, smallest_p};
use super::{Method, Verdict, judge};
use crate::figure::{Better, Unit, quantity};

/// How ours stands beside theirs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// How many times better ours is, with its interval; below 1 it is worse.
    pub gain: Interval,
    /// Ours over theirs.
    pub ratio: f64,
    /// The interval of `ratio`.
    pub range: (f64, f64),
    /// Repetitions of the side that has fewer.
    pub repetitions: usize,
    /// [`Verdict::Unknown`] where there are too few.
    pub verdict: Verdict,
}

/// What is known of a verdict from `repetitions` of both sides and the interval of their ratio.
pub(super) fn verdict(
    interval: Interval,
    repetitions: (usize, usize),
    better: Better,
    method: &Method,
) -> Verdict {
    if smallest_p(repetitions.0, repetitions.1) > 1.0 - method.confidence + 1e-12 {
        return Verdict::Unknown;
    }
    judge(interval, better, method.floor)
}

/// Judges one figure by its repetitions: medians, a bootstrap interval, and as many repetitions as the level of confidence takes.
/// `None` when a side has none, or a value that is not positive.
pub fn standing(ours: &[f64], theirs: &[f64], better: Better, method: &Method) -> Option<Standing> {
    let interval = |over: &[f64], under: &[f64]| {
        ratio_interval(&[under.to_vec()], &[over.to_vec()], method.resamples, method.confidence, method.seed)
    };
    let gain = match better {
        Better::Lower => interval(theirs, ours)?,
        Better::Higher => interval(ours, theirs)?,
    };
    let (ratio, range) = match better {
        Better::Lower => (1.0 / gain.ratio, (1.0 / gain.high, 1.0 / gain.low)),
        Better::Higher => (gain.ratio, (gain.low, gain.high)),
    };
    let repetitions = ours.len().min(theirs.len());
    let verdict = verdict(gain, (ours.len(), theirs.len()), Better::Higher, method);
    Some(Standing { gain, ratio, range, repetitions, verdict })
}

impl Standing {
    /// `3.7 (3.5 to 3.9) times faster than NAME`; what can be said instead where there is no such verdict.
    pub fn words(&self, name: &str) -> String {
        let Interval { ratio, low, high } = self.gain;
        // Close to the floor three digits would show 1.02 of what is more, and of what is not.
        let is_near =
            matches!(self.verdict, Verdict::Faster | Verdict::Slower) && (0.97..1.03).contains(&ratio);
        let r = |value: f64| if is_near { format!("{value:.3}") } else { quantity(value, Unit::Ratio) };
        match self.verdict {
            Verdict::Faster => format!("{} ({} to {}) times faster than {name}", r(ratio), r(low), r(high)),
            Verdict::Slower => {
                format!("{} ({} to {}) times slower than {name}", r(1.0 / ratio), r(1.0 / high), r(1.0 / low))
            }
            Verdict::WithinNoise => format!("within noise of {name} ({} to {})", r(low), r(high)),
            Verdict::Unknown => {
                let few = match self.repetitions {
                    1 => "one run, no verdict".to_owned(),
                    n => format!("{n} runs, too few for a verdict"),
                };
                // One run has no range; more have one, however little it proves.
                let range = match self.repetitions {
                    1 => String::new(),
                    _ => format!(" ({} to {})", r(self.range.0), r(self.range.1)),
                };
                format!("{}{range} times {name} ({few})", r(self.ratio))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(ours: &[f64], theirs: &[f64], better: Better) -> String {
        standing(ours, theirs, better, &Method::default()).unwrap().words("X")
    }

    #[test]
    fn times_and_rates_are_judged_alike() {
        let (small, large) = ([10.0, 10.1, 9.9, 10.0, 10.2], [40.0, 41.0, 39.0, 40.0, 40.5]);
        assert_eq!(words(&small, &large, Better::Lower), "4.00 (3.90 to 4.10) times faster than X");
        assert_eq!(words(&large, &small, Better::Higher), "4.00 (3.90 to 4.10) times faster than X");
        assert_eq!(words(&large, &small, Better::Lower), "4.00 (3.90 to 4.10) times slower than X");
        assert_eq!(words(&small, &large, Better::Higher), "4.00 (3.90 to 4.10) times slower than X");
    }

    #[test]
    fn what_differs_by_chance_is_noise() {
        let runs = [10.0, 12.0, 9.0, 11.0, 10.5];
        assert!(words(&runs, &runs, Better::Lower).starts_with("within noise of X ("));
        let other = [11.0, 10.0, 12.5, 9.5, 10.0];
        assert!(words(&runs, &other, Better::Higher).starts_with("within noise of X ("));
        // Certain, and too small to matter.
        let (a, b) = ([100.0; 6], [101.0; 6]);
        assert!(words(&a, &b, Better::Lower).starts_with("within noise"));
    }

    #[test]
    fn close_to_the_floor_a_ratio_shows_which_side_it_is_on() {
        let near = |by: f64| words(&[10.0 * by; 5], &[10.0; 5], Better::Lower);
        assert_eq!(near(1.021), "1.021 (1.021 to 1.021) times slower than X");
        assert_eq!(near(1.024), "1.024 (1.024 to 1.024) times slower than X");
        assert_eq!(near(1.0196), "within noise of X (0.981 to 0.981)");
    }

    #[test]
    fn few_repetitions_give_a_ratio_and_no_verdict() {
        assert_eq!(words(&[10.0], &[40.0], Better::Lower), "0.250 times X (one run, no verdict)");
        let three = words(&[10.0; 3], &[40.0; 3], Better::Lower);
        assert_eq!(three, "0.250 (0.250 to 0.250) times X (3 runs, too few for a verdict)");
        let apart = words(&[9.0, 10.0, 12.0], &[40.0; 3], Better::Lower);
        assert_eq!(apart, "0.250 (0.225 to 0.300) times X (3 runs, too few for a verdict)");
        let rates = words(&[9.0, 10.0, 12.0], &[40.0; 3], Better::Higher);
        assert_eq!(rates, "0.250 (0.225 to 0.300) times X (3 runs, too few for a verdict)");
        assert_eq!(standing(&[], &[1.0], Better::Lower, &Method::default()), None);
        assert_eq!(standing(&[1.0], &[0.0], Better::Lower, &Method::default()), None);
    }
}
