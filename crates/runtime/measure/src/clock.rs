//! Fresh readings of the system's clocks, and what a reading costs.

use crate::sys;
use barewire_base::Instant;
use serde::{Deserialize, Serialize};

/// A fresh reading of `CLOCK_MONOTONIC`, for the points t1, t4 and t5.
///
/// It drives no protocol: those take the engine's `now`, so that a run can be replayed.
#[inline]
pub fn stamp() -> Instant {
    Instant::from_nanos(sys::clock_ns(libc::CLOCK_MONOTONIC))
}

/// Nanoseconds of `CLOCK_REALTIME` since 1970: what kernel receive stamps and dates in a report are told in.
#[inline]
pub fn realtime_ns() -> u64 {
    sys::clock_ns(libc::CLOCK_REALTIME)
}

/// What [`stamp`] costs and how fine it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockCost {
    /// Median cost of one reading in ns. Each measured span contains about one.
    pub median_ns: u64,
    /// Smallest step seen between two readings in a row, in ns: no shorter span can be told from zero.
    pub resolution_ns: u64,
}

/// Measures [`stamp`] itself. Takes about a millisecond.
pub fn clock_cost() -> ClockCost {
    const BATCHES: usize = 256;
    const READINGS: u64 = 64;
    let mut costs = [0u64; BATCHES];
    let mut resolution_ns = u64::MAX;
    for cost in &mut costs {
        let first = stamp();
        let mut last = first;
        for _ in 0..READINGS {
            let now = stamp();
            let step = now.since(last).as_nanos();
            if step > 0 {
                resolution_ns = resolution_ns.min(step);
            }
            last = now;
        }
        *cost = last.since(first).as_nanos();
    }
    costs.sort_unstable();
    // Divide after the median: a step of the clock larger than one reading would round each of them to nothing.
    ClockCost { median_ns: (costs[BATCHES / 2] + READINGS / 2) / READINGS, resolution_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn stamps_advance_with_the_time_that_passes() {
        let before = stamp();
        std::thread::sleep(std::time::Duration::from_millis(5));
        let passed = stamp().since(before).as_nanos();
        assert!(passed >= 5_000_000, "a sleep of 5 ms took {passed} ns");
    }

    #[test]
    fn realtime_is_the_wall_clock() {
        let ours = realtime_ns();
        let std_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        assert!(std_ns.abs_diff(u128::from(ours)) < 10_000_000_000);
    }

    #[test]
    fn a_reading_costs_something_and_less_than_a_bad_system_call() {
        let cost = clock_cost();
        assert!(cost.median_ns >= 1 && cost.median_ns < 100_000, "{cost:?}");
        assert!(cost.resolution_ns >= 1 && cost.resolution_ns < 100_000_000, "{cost:?}");
    }
}
