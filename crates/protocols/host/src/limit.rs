//! A token bucket.

use barewire_base::{Duration, Instant};

/// Lets through one thing per `interval` on average, `burst` of them at once.
pub(crate) struct Bucket {
    interval: Duration,
    full: Duration,
    credit: Duration,
    last: Instant,
}

impl Bucket {
    /// A full bucket. `interval` is the time that one token takes to come back.
    pub(crate) fn new(interval: Duration, burst: u64) -> Self {
        let full = interval.saturating_mul(burst);
        Bucket { interval, full, credit: full, last: Instant::ZERO }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let credit = (self.credit + now.since(self.last)).min(self.full);
        self.last = self.last.max(now);
        let enough = credit >= self.interval;
        self.credit = if enough { credit - self.interval } else { credit };
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_over_a_second() {
        let mut bucket = Bucket::new(Duration::from_millis(1), 10);
        let start = Instant::from_nanos(5_000_000_000);
        let passed = (0..100_000u64).filter(|i| bucket.take(start + Duration::from_micros(i * 10))).count();
        assert!((1_000..=1_010).contains(&passed), "{passed}");
        // Time that goes back gives nothing.
        assert!(!(0..100).any(|_| bucket.take(Instant::ZERO)));
    }
}
