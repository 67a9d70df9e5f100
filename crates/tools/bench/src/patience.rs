//! For tests of what takes time: on a machine with much else to do a short run may see too little.

use barewire_base::Duration;

/// How long a run lasts that is repeated, and how long the one after it.
const LONGER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(8)];

/// Runs for `first`, and for longer as long as there was not enough to see. What came of the last run.
pub(crate) fn until_seen<T>(
    first: Duration,
    mut run: impl FnMut(Duration) -> T,
    enough: impl Fn(&T) -> bool,
) -> T {
    let mut result = run(first);
    for duration in LONGER {
        if enough(&result) {
            break;
        }
        result = run(duration);
    }
    result
}

/// Runs again, up to ten times in all, until one went well. What came of the last.
pub(crate) fn until_well<T>(mut run: impl FnMut() -> T, well: impl Fn(&T) -> bool) -> T {
    let mut result = run();
    for _ in 1..10 {
        if well(&result) {
            break;
        }
        result = run();
    }
    result
}
