//! The loop that runs a target without libFuzzer.

use crate::{Mutator, Target};
use barewire_base::Prng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Longest input in bytes.
pub const INPUT_MAX: usize = 2048;
/// Seconds after which one input counts as a hang.
const HANG_SECONDS: u64 = 30;

/// The input on which a target failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which iteration made it.
    pub iteration: u64,
    /// The input.
    pub input: Vec<u8>,
    /// What the panic said.
    pub message: String,
}

/// What a run of a target came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Inputs that were run, the failing one included.
    pub inputs: u64,
    /// Things that they were made of, as the target counts them.
    pub things: u64,
    /// The first failure, where the run stopped.
    pub failure: Option<Failure>,
}

/// The input of one iteration: it depends on nothing else.
pub fn input_of(target: &Target, corpus: &[Vec<u8>], seed: u64, iteration: u64, out: &mut Vec<u8>) {
    // Each target has a sequence of its own, so that adding one does not shift the others.
    let name = target.name.bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let rng = Prng::new(name.wrapping_add(iteration.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    Mutator::new(rng).input(corpus, INPUT_MAX, out);
}

/// Runs `iterations` inputs, first the corpus as it is, and stops at the first panic. An input that takes longer than half
/// a minute is given to `on_hang`, from another thread.
pub fn smoke(target: &Target, seed: u64, iterations: u64, on_hang: fn(&Target, Failure) -> !) -> Outcome {
    let corpus = (target.corpus)();
    let watch = Watch::new(*target, seed, on_hang);
    let mut input = Vec::with_capacity(INPUT_MAX + 16);
    let mut outcome = Outcome { inputs: 0, things: 0, failure: None };
    for iteration in 0..iterations {
        watch.iteration.store(iteration, Relaxed);
        make(target, &corpus, seed, iteration, &mut input);
        outcome.inputs += 1;
        match catch_unwind(AssertUnwindSafe(|| (target.run)(&input))) {
            Ok(things) => outcome.things += things,
            Err(panic) => {
                let message = panic.downcast_ref::<String>().cloned();
                let message = message.or_else(|| panic.downcast_ref::<&str>().map(|m| (*m).to_owned()));
                let message = message.unwrap_or_else(|| "a panic without words".to_owned());
                outcome.failure = Some(Failure { iteration, input, message });
                return outcome;
            }
        }
    }
    outcome
}

fn make(target: &Target, corpus: &[Vec<u8>], seed: u64, iteration: u64, out: &mut Vec<u8>) {
    match corpus.get(iteration as usize) {
        Some(entry) => {
            out.clear();
            out.extend_from_slice(entry);
        }
        None => input_of(target, corpus, seed, iteration, out),
    }
}

/// Looks at the iteration once a second, from a thread that ends with it.
struct Watch {
    iteration: Arc<AtomicU64>,
    _end: Sender<()>,
}

impl Watch {
    fn new(target: Target, seed: u64, on_hang: fn(&Target, Failure) -> !) -> Watch {
        let iteration = Arc::new(AtomicU64::new(0));
        let seen_by_us = iteration.clone();
        let (end, ended) = channel();
        std::thread::spawn(move || {
            let (mut last, mut seconds) = (0, 0);
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                let now = seen_by_us.load(Relaxed);
                seconds = if now == last { seconds + 1 } else { 0 };
                last = now;
                if seconds == HANG_SECONDS {
                    let mut input = Vec::new();
                    make(&target, &(target.corpus)(), seed, now, &mut input);
                    let message = format!("one input takes longer than {HANG_SECONDS} s");
                    on_hang(&target, Failure { iteration: now, input, message });
                }
            }
        });
        Watch { iteration, _end: end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CANARY, TARGETS};

    fn no_hang(_: &Target, failure: Failure) -> ! {
        eprintln!("{}: iteration {}", failure.message, failure.iteration);
        std::process::abort()
    }

    fn passes(name: &str, iterations: u64) {
        let target = TARGETS.iter().find(|t| t.name == name).unwrap();
        let outcome = smoke(target, 1, iterations, no_hang);
        if let Some(failure) = &outcome.failure {
            panic!(
                "{name}, seed 1, iteration {}: {}; replay with xtask fuzz-smoke",
                failure.iteration, failure.message
            );
        }
        assert_eq!(outcome.inputs, iterations);
        assert!(outcome.things > iterations / 2, "{} things", outcome.things);
    }

    #[test]
    fn wire() {
        passes("wire", 20_000);
    }

    #[test]
    fn uri() {
        passes("uri", 20_000);
    }

    #[test]
    fn pcap() {
        passes("pcap", 2_000);
    }

    #[test]
    fn counters() {
        passes("counters", 4_000);
    }

    #[test]
    fn channel_entry() {
        passes("channel_entry", 20_000);
    }

    #[test]
    fn host() {
        passes("host", 5_000);
    }

    #[test]
    fn transport() {
        passes("transport", 1_000);
        passes("transport_secure", 500);
    }

    #[test]
    fn roce() {
        passes("roce", 1_000);
    }

    #[test]
    fn the_canary_is_heard_and_its_input_replays() {
        let outcome = smoke(&CANARY, 1, 100_000, no_hang);
        let failure = outcome.failure.expect("the canary fails");
        assert_eq!(failure.message, "the canary sings");
        assert!(failure.input.starts_with(b"sing"));
        assert!(catch_unwind(|| crate::canary(&failure.input)).is_err());
        assert_eq!(crate::canary(b"silence"), 1);
    }

    #[test]
    fn mutations_reach_the_canary_too() {
        // Without the corpus pass: an entry with one bit wrong has to be mended by a splice, which does happen.
        let mut input = Vec::new();
        let corpus = [b"xing".to_vec(), b"sxng".to_vec(), b"song".to_vec(), b"a sing".to_vec()];
        let sings = |iteration| {
            input_of(&CANARY, &corpus, 7, iteration, &mut input);
            input.starts_with(b"sing")
        };
        assert!((0..200_000).any(sings));
    }

    #[test]
    fn names_are_unique_and_corpora_fit() {
        for (i, target) in TARGETS.iter().enumerate() {
            assert!(TARGETS[..i].iter().all(|t| t.name != target.name));
            let corpus = (target.corpus)();
            assert!(
                !corpus.is_empty() && corpus.iter().all(|entry| entry.len() <= INPUT_MAX),
                "{}",
                target.name
            );
        }
    }
}
