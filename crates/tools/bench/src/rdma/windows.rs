//! Times in which clients counted, and what those of several have in common.

use barewire_base::{Duration, Instant};

/// From, to.
pub type Window = (Instant, Instant);

/// How long they are together.
pub(super) fn length(windows: &[Window]) -> Duration {
    windows.iter().fold(Duration::ZERO, |sum, (from, to)| sum + to.since(*from))
}

/// From the begin of the first to the end of the last.
pub(super) fn span(windows: &[Window]) -> Option<Window> {
    Some((windows.first()?.0, windows.last()?.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_measure::common_windows;
    use proptest::prelude::*;

    fn windows(of: &[(u64, u64)]) -> Vec<Window> {
        of.iter().map(|&(from, to)| (Instant::from_nanos(from), Instant::from_nanos(to))).collect()
    }

    #[test]
    fn what_two_have_in_common_is_in_both() {
        let (a, b) = (windows(&[(0, 10), (20, 30), (40, 50)]), windows(&[(5, 25), (28, 29), (50, 60)]));
        assert_eq!(common_windows(&a, &b), windows(&[(5, 10), (20, 25), (28, 29)]));
        assert_eq!(length(&common_windows(&a, &b)), Duration::from_nanos(11));
        assert_eq!(common_windows(&a, &[]), []);
        assert_eq!((span(&a), span(&[])), (windows(&[(0, 50)]).pop(), None));
    }

    proptest! {
        #[test]
        fn every_moment_of_both_is_common_and_no_other(
            a in prop::collection::vec(1u64..9, 0..12), b in prop::collection::vec(1u64..9, 0..12),
        ) {
            // Lengths of gaps and windows in turn.
            let list = |steps: &[u64]| {
                let mut at = 0;
                let ends: Vec<u64> = steps.iter().map(|step| { at += step; at }).collect();
                windows(&ends.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>())
            };
            let (a, b) = (list(&a), list(&b));
            let within = |list: &[Window], ns| {
                list.iter().any(|(from, to)| (from.as_nanos()..to.as_nanos()).contains(&ns))
            };
            let both = common_windows(&a, &b);
            for ns in 0..120 {
                prop_assert_eq!(within(&both, ns), within(&a, ns) && within(&b, ns));
            }
        }
    }
}
