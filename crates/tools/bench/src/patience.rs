//! For tests of what takes time: how long a run is where a short one sees too little.

use barewire_base::Duration;

/// How long a run lasts that is repeated, and how long the one after it.
const LONGER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(8)];

/// Runs for `first`, and for longer as long as there was not enough to see. What came of the last run.
#[track_caller]
pub(crate) fn until_seen<T>(
    first: Duration,
    run: impl FnMut(Duration) -> T,
    enough: impl Fn(&T) -> bool,
) -> T {
    barewire_testing::until_seen([first, LONGER[0], LONGER[1]], run, enough)
}

/// Runs again, up to ten times in all, until one went well. What came of the last.
#[track_caller]
pub(crate) fn until_well<T>(run: impl FnMut() -> T, well: impl Fn(&T) -> bool) -> T {
    barewire_testing::until_well(10, run, well)
}
