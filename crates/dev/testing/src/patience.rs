//! For tests of what takes time: on a machine with much else to do a short run may see too little, and is repeated, which is told.

use crate::skip::this_test;
use std::fmt::Debug;
use std::time::Duration;

/// Between two looks of [`eventually`].
const LOOK: Duration = Duration::from_millis(2);
/// Looks before it gives up: a minute of them. A second is enough, but on a machine that is busy with something else.
const LOOKS: u32 = 30_000;

/// Whether it comes true within a minute.
pub fn comes_true(mut is_so: impl FnMut() -> bool) -> bool {
    (0..LOOKS).any(|look| {
        if look > 0 {
            std::thread::sleep(LOOK);
        }
        is_so()
    })
}

/// Waits for what must come true.
///
/// # Panics
/// When it has not within a minute.
#[track_caller]
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes_true(is_so), "not within a minute: {what}");
}

/// Runs for the first of `lengths`, and for the next one as long as there was not enough to see. What came of the last run.
///
/// A run is judged for how much it saw alone: what must hold of every run, `run` asserts itself, or a repetition would hide it.
/// Lengths are what `run` understands: durations, or seconds as a command line takes them.
#[track_caller]
pub fn until_seen<D: Debug, T, const N: usize>(
    lengths: [D; N],
    run: impl FnMut(D) -> T,
    enough: impl Fn(&T) -> bool,
) -> T {
    let test = this_test();
    longer(lengths, run, enough, |why| println!("REPEATED: {test}: {why}"))
}

fn longer<D: Debug, T, const N: usize>(
    lengths: [D; N],
    mut run: impl FnMut(D) -> T,
    enough: impl Fn(&T) -> bool,
    mut tell: impl FnMut(String),
) -> T {
    let mut lengths = lengths.into_iter();
    let mut result = run(lengths.next().expect("a length"));
    for length in lengths {
        if enough(&result) {
            break;
        }
        tell(format!("too little was seen; now for {length:?}"));
        result = run(length);
    }
    result
}

/// Runs again, up to so many `times` in all, until one went well. What came of the last.
///
/// As with [`until_seen`], `run` asserts itself what must hold of every run.
#[track_caller]
pub fn until_well<T>(times: u32, run: impl FnMut() -> T, well: impl Fn(&T) -> bool) -> T {
    let test = this_test();
    again(times, run, well, |why| println!("REPEATED: {test}: {why}"))
}

fn again<T>(
    times: u32,
    mut run: impl FnMut() -> T,
    well: impl Fn(&T) -> bool,
    mut tell: impl FnMut(String),
) -> T {
    let mut result = run();
    for time in 2..=times {
        if well(&result) {
            break;
        }
        tell(format!("it did not go well; time {time} of {times}"));
        result = run();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_true_is_waited_for_and_no_longer() {
        let mut looks = 0;
        eventually("the third look", || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
    }

    #[test]
    fn a_run_is_repeated_until_there_was_enough_and_no_longer() {
        let (mut runs, mut told) = (Vec::new(), Vec::new());
        let run = |length| {
            runs.push(length);
            length
        };
        let tell = |why| told.push(why);
        assert_eq!(longer(["0.1", "1", "8"], run, |&length| length != "0.1", tell), "1");
        assert_eq!(
            (&runs[..], &told[..]),
            (&["0.1", "1"][..], &["too little was seen; now for \"1\"".to_owned()][..])
        );
        assert_eq!(longer([1, 2, 3], |length| length, |_| false, drop), 3);
        assert_eq!(until_seen([1, 2, 3], |length| length, |_| true), 1);
    }

    #[test]
    fn a_run_that_never_goes_well_ends() {
        let (mut runs, mut told) = (0, 0);
        let mut run = || {
            runs += 1;
            runs
        };
        assert_eq!(again(5, &mut run, |_| false, |_| told += 1), 5);
        assert_eq!(again(5, &mut run, |&n| n >= 7, |_| told += 1), 7);
        assert_eq!(until_well(1, &mut run, |_| false), 8);
        assert_eq!(told, 4 + 1);
    }
}
