//! How sure a ratio is: resampling of repetitions, and what so few of them can show at all.

use barewire_base::Prng;

/// Repetitions of one side: one inner list for each run folder, one value for each repetition in it.
pub(crate) type Groups<'a> = &'a [Vec<f64>];

/// A ratio with the interval that resampling gives it.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Interval {
    /// Of the medians: second side over first.
    pub ratio: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The middle value; the mean of the middle two. `values` is left sorted.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[half],
        _ => (values[half - 1] + values[half]) / 2.0,
    }
}

/// The interval of `median(b) / median(a)` by the percentile bootstrap: folders are drawn with replacement, then repetitions
/// within each, so that what differs from folder to folder widens it. `None` when a side has nothing or a value is not positive.
pub(crate) fn ratio_interval(
    a: Groups<'_>,
    b: Groups<'_>,
    resamples: u32,
    confidence: f64,
    seed: u64,
) -> Option<Interval> {
    let usable = |g: Groups<'_>| {
        g.iter().any(|v| !v.is_empty()) && g.iter().flatten().all(|v| v.is_finite() && *v > 0.0)
    };
    if !usable(a) || !usable(b) {
        return None;
    }
    let whole = |g: Groups<'_>| median(&mut g.iter().flatten().copied().collect::<Vec<f64>>());
    let ratio = whole(b) / whole(a);
    let mut prng = Prng::new(seed);
    let (a, b) = (filled(a), filled(b));
    let mut drawn = Vec::new();
    let mut ratios: Vec<f64> = (0..resamples.max(1))
        .map(|_| {
            let first = draw(&a, &mut prng, &mut drawn);
            let second = draw(&b, &mut prng, &mut drawn);
            second / first
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - confidence.clamp(0.0, 1.0)) / 2.0;
    let at = |share: f64| ratios[((share * ratios.len() as f64) as usize).min(ratios.len() - 1)];
    Some(Interval { ratio, low: at(tail).min(ratio), high: at(1.0 - tail).max(ratio) })
}

fn filled(groups: Groups<'_>) -> Vec<&[f64]> {
    groups.iter().filter(|g| !g.is_empty()).map(Vec::as_slice).collect()
}

fn draw(groups: &[&[f64]], prng: &mut Prng, drawn: &mut Vec<f64>) -> f64 {
    drawn.clear();
    for _ in groups {
        let group = groups[prng.below(groups.len() as u64) as usize];
        drawn.extend((0..group.len()).map(|_| group[prng.below(group.len() as u64) as usize]));
    }
    median(drawn)
}

/// The smallest two-sided p that a rank test can give with `a` and `b` repetitions: 2 / C(a + b, a). With fewer repetitions than
/// its level needs, no arrangement of values shows a difference, whatever an interval says.
pub(crate) fn smallest_p(a: usize, b: usize) -> f64 {
    let (mut choose, few) = (1.0, a.min(b));
    for i in 1..=few {
        choose *= (a + b - few + i) as f64 / i as f64;
    }
    (2.0 / choose).min(1.0)
}

/// Repetitions of each side without which a level of confidence cannot be reached.
pub fn repetitions_needed(confidence: f64) -> usize {
    (1..64).find(|&n| smallest_p(n, n) <= 1.0 - confidence + 1e-12).unwrap_or(64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_repetitions_cannot_show_much() {
        assert_eq!((smallest_p(3, 3), smallest_p(4, 4)), (0.1, 2.0 / 70.0));
        assert_eq!(smallest_p(0, 5), 1.0);
        assert_eq!((repetitions_needed(0.95), repetitions_needed(0.9)), (4, 3));
    }

    #[test]
    fn an_interval_replays_and_holds_its_ratio() {
        let (a, b) = ([vec![10.0, 11.0, 12.0, 10.5]], [vec![20.0, 21.0, 26.0, 19.0]]);
        let once = ratio_interval(&a, &b, 2_000, 0.95, 7).unwrap();
        assert_eq!(once, ratio_interval(&a, &b, 2_000, 0.95, 7).unwrap());
        assert!((1.9..2.0).contains(&once.ratio), "{once:?}");
        assert!(once.low > 1.5 && once.high < 2.7 && once.low < once.high, "{once:?}");
        assert_eq!(ratio_interval(&a, &[vec![]], 10, 0.95, 1), None);
        assert_eq!(ratio_interval(&a, &[vec![0.0]], 10, 0.95, 1), None);
        assert_eq!(ratio_interval(&a, &[vec![f64::NAN]], 10, 0.95, 1), None);
    }

    #[test]
    fn folders_that_differ_widen_the_interval() {
        let tight = [vec![10.0, 10.1, 9.9, 10.0, 10.0, 10.1, 9.9, 10.0]];
        let apart = [vec![10.0, 10.1, 9.9, 10.0], vec![14.0, 14.1, 13.9, 14.0]];
        let flat = [apart.concat()];
        let width = |b: &[Vec<f64>]| {
            let i = ratio_interval(&tight, b, 4_000, 0.95, 3).unwrap();
            i.high - i.low
        };
        assert!(width(&apart) >= width(&flat), "{} {}", width(&apart), width(&flat));
        assert!(width(&flat) > width(&tight));
    }

    /// Equal systems: an interval of 95 % misses 1 now and then, not often. The seed makes the count exact.
    #[test]
    fn equal_systems_are_told_apart_rarely() {
        let mut prng = Prng::new(11);
        let missed = (0..400)
            .filter(|&seed| {
                let mut side = || vec![(0..8).map(|_| 100.0 + 10.0 * prng.unit()).collect::<Vec<f64>>()];
                let (a, b) = (side(), side());
                let i = ratio_interval(&a, &b, 400, 0.95, seed).unwrap();
                !(i.low..=i.high).contains(&1.0)
            })
            .count();
        assert!(missed <= 40, "{missed} of 400");
        assert!(missed >= 1, "an interval that never misses says nothing");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn intervals_hold_and_turn_with_their_sides(
            a in prop::collection::vec(1.0f64..1e6, 1..9), b in prop::collection::vec(1.0f64..1e6, 1..9), seed in any::<u64>(),
        ) {
            let i = ratio_interval(std::slice::from_ref(&a), std::slice::from_ref(&b), 200, 0.95, seed).unwrap();
            prop_assert!(i.low <= i.ratio && i.ratio <= i.high, "{i:?}");
            let least = b.iter().copied().fold(f64::INFINITY, f64::min) / a.iter().copied().fold(0.0, f64::max);
            prop_assert!(i.low >= least * (1.0 - 1e-12), "{i:?} {least}");
            let scaled: Vec<f64> = b.iter().map(|v| v * 3.0).collect();
            let j = ratio_interval(&[a], &[scaled], 200, 0.95, seed).unwrap();
            prop_assert!((j.ratio / i.ratio - 3.0).abs() < 1e-9);
        }
    }
}
