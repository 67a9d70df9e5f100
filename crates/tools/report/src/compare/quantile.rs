//! The interval of a percentile within one histogram, by order statistics.

use barewire_measure::{Histogram, samples_needed};

/// Half-width of a normal interval of the usual levels, in standard deviations.
fn deviations(confidence: f64) -> f64 {
    match confidence {
        c if c >= 0.99 => 2.576,
        c if c >= 0.95 => 1.96,
        c if c >= 0.9 => 1.645,
        _ => 1.0,
    }
}

/// The spans (ns) between which the true percentile `q` lies if samples were independent: those whose ranks are as many standard
/// deviations of the binomial below and above. Samples of one run follow each other, so this interval is too narrow: it bounds what
/// counting alone leaves open. `None` without the samples that `q` needs.
pub fn quantile_interval(histogram: &Histogram, q: f64, confidence: f64) -> Option<(u64, u64)> {
    let n = histogram.samples();
    if n < samples_needed(q) {
        return None;
    }
    let middle = q * n as f64;
    let half = deviations(confidence) * (n as f64 * q * (1.0 - q)).sqrt();
    let low = at_rank(histogram, (middle - half).floor().max(1.0) as u64)?;
    let high = at_rank(histogram, (middle + half).ceil().min(n as f64) as u64)?;
    Some((low, high))
}

/// The span of the sample of this rank, from 1.
fn at_rank(histogram: &Histogram, rank: u64) -> Option<u64> {
    let mut seen = 0;
    for (ns, count) in histogram.buckets() {
        seen += count;
        if seen >= rank {
            return Some(histogram.max().map_or(ns, |max| ns.min(max)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    #[test]
    fn ranks_are_those_of_the_sorted_samples() {
        let mut h = Histogram::new();
        (1..=1_000).for_each(|ns| h.record(ns));
        assert_eq!(at_rank(&h, 1), Some(1));
        assert_eq!(at_rank(&h, 500), Some(500));
        assert_eq!(at_rank(&h, 1_001), None);
        // 500 +- 1.96 * sqrt(250) = 469.01 to 530.99.
        assert_eq!(quantile_interval(&h, 0.5, 0.95), Some((469, 531)));
        assert_eq!(quantile_interval(&h, 0.99, 0.95), None);
    }

    /// The true median of uniform spans is inside about as often as the level says.
    #[test]
    fn the_interval_covers() {
        let mut prng = Prng::new(5);
        let covered = (0..200)
            .filter(|_| {
                let mut h = Histogram::new();
                (0..400).for_each(|_| h.record(1 + prng.below(2_000)));
                let (low, high) = quantile_interval(&h, 0.5, 0.95).unwrap();
                (low..=high).contains(&1_000)
            })
            .count();
        assert!((180..200).contains(&covered), "{covered} of 200");
    }
}
