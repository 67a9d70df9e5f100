//! When a run measured, by the clock on the wall: parts of one sum are measured on several hosts.

use barewire_base::Instant;
use barewire_measure::{realtime_ns, stamp};
use serde::{Deserialize, Serialize};

/// A measured time, in ns since 1970 by this host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallTime {
    /// Its begin.
    pub begin_unix_ns: u64,
    /// Its end.
    pub end_unix_ns: u64,
}

impl WallTime {
    /// From `begin` to `end`, as the wall's clock and ours differ now.
    pub fn of(begin: Instant, end: Instant) -> WallTime {
        let ahead = realtime_ns().saturating_sub(stamp().as_nanos());
        let unix = |at: Instant| at.as_nanos().saturating_add(ahead);
        WallTime { begin_unix_ns: unix(begin), end_unix_ns: unix(end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Duration;

    #[test]
    fn a_time_is_where_it_was_and_as_long_as_it_was() {
        let (before, begin) = (realtime_ns(), stamp());
        let when = WallTime::of(begin, begin + Duration::from_secs(3));
        assert_eq!(when.end_unix_ns - when.begin_unix_ns, 3_000_000_000);
        // Between the two clocks' readings anything may come; an hour does not.
        assert!(when.begin_unix_ns.abs_diff(before) < 3_600_000_000_000, "{when:?} {before}");
    }
}
