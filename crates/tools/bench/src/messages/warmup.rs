//! When a system is warm: its median no longer moves. A value: times and spans go in.

use barewire_base::{Duration, Instant};
use barewire_measure::{Histogram, samples_needed};

/// Medians in a row that must agree.
pub const AGREEING: usize = 4;
/// How far the greatest of them may be above the least, as a share of the least.
pub const TOLERANCE: f64 = 0.05;
/// Least length of the window that a median is of.
pub const WINDOW: Duration = Duration::from_millis(20);

/// Watches medians of one window after the other.
#[derive(Clone, Debug)]
pub struct Convergence {
    window: Histogram,
    since: Option<Instant>,
    /// The last ones, oldest first.
    medians: [u64; AGREEING],
    seen: usize,
}

impl Default for Convergence {
    fn default() -> Self {
        Convergence { window: Histogram::new(), since: None, medians: [0; AGREEING], seen: 0 }
    }
}

impl Convergence {
    /// One span of `ns` that ended at `now`. Whether the last [`AGREEING`] medians agree. Does not allocate.
    #[inline]
    pub fn record(&mut self, now: Instant, ns: u64) -> bool {
        let since = *self.since.get_or_insert(now);
        self.window.record(ns);
        // A median needs its samples: a slow system gets longer windows.
        if now.since(since) < WINDOW || self.window.samples() < samples_needed(0.5) {
            return false;
        }
        self.since = Some(now);
        if let Some(median) = self.window.quantile(0.5).value() {
            self.medians.rotate_left(1);
            self.medians[AGREEING - 1] = median;
            self.seen += 1;
        }
        self.window.reset();
        self.is_stable()
    }

    /// Whether the last medians agree.
    pub fn is_stable(&self) -> bool {
        let least = self.medians.iter().min().copied().unwrap_or(0);
        let greatest = self.medians.iter().max().copied().unwrap_or(0);
        self.seen >= AGREEING && (greatest - least) as f64 <= TOLERANCE * least as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a span every 100 us, `ns(ms)` long at each millisecond; the millisecond at which it is stable.
    fn stable_at(ns: impl Fn(u64) -> u64) -> Option<u64> {
        let mut convergence = Convergence::default();
        (0..20_000).map(|step| step * 100).find_map(|us| {
            let now = Instant::from_nanos(us * 1000);
            convergence.record(now, ns(us / 1000)).then_some(us / 1000)
        })
    }

    #[test]
    fn a_median_that_stands_still_is_stable_after_four_windows() {
        assert_eq!(stable_at(|_| 10_000), Some(80));
        // Spikes do not move a median.
        assert_eq!(stable_at(|ms| if ms % 10 == 0 { 1_000_000 } else { 10_000 }), Some(80));
    }

    #[test]
    fn a_system_that_gets_faster_is_waited_for() {
        // From 30 us down to 10 us within half a second.
        let at = stable_at(|ms| 10_000 + 20_000_u64.saturating_sub(ms * 40)).unwrap();
        assert!((480..650).contains(&at), "{at}");
        let slower = stable_at(|ms| (1_000.0 * 1.005_f64.powi(ms as i32)) as u64);
        assert_eq!(slower, None, "one that gets ever slower, by a third in four windows, never is");
    }

    #[test]
    fn few_samples_make_no_median() {
        let mut convergence = Convergence::default();
        // One a second: each window takes its 20 samples.
        let stable = (0..200).find(|s| convergence.record(Instant::from_nanos(s * 1_000_000_000), 5));
        assert_eq!(stable, Some(79));
    }
}
