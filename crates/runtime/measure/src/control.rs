//! Control rows: what a clock reading, a system call, a cache line and a wake-up cost on this machine, and how long it
//! looks away. They stand under every table, so that a reader sees the floor.

use crate::clock::{ClockCost, clock_cost, stamp};
use crate::{Histogram, sys};
use barewire_base::Duration;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Pins the calling thread to one core.
///
/// # Errors
/// `InvalidInput` or what `sched_setaffinity` says: no such core, or not one of [`allowed_cores`].
pub fn pin_to_core(core: usize) -> io::Result<()> {
    sys::pin_to_core(core)
}

/// Cores that the calling thread may run on, ascending.
///
/// # Errors
/// What `sched_getaffinity` says.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    sys::allowed_cores()
}

/// How long the machine looked away from a thread that never rests.
#[derive(Clone, Debug)]
pub struct Hiccups {
    /// Length of the watch in ns.
    pub window_ns: u64,
    /// Longest gap between two readings of the clock in ns.
    pub max_gap_ns: u64,
    /// Ns of the window that lay in gaps longer than [`Hiccups::GAP_NS`].
    pub lost_ns: u64,
    /// Every gap. Most are one turn of the loop, about a clock reading.
    pub gaps: Histogram,
}

impl Hiccups {
    /// Gaps longer than this are hiccups: no turn of the loop takes so long by itself.
    pub const GAP_NS: u64 = 1_000;
}

/// Reads the clock without rest for `window` on `core` (`None`: wherever the scheduler puts it) and notes every gap. A
/// control in which a long gap is the machine's doing, not the program's.
///
/// # Errors
/// As [`pin_to_core`].
pub fn hiccup_meter(core: Option<usize>, window: Duration) -> io::Result<Hiccups> {
    // A thread of its own, because a pin outlasts the call.
    on_thread(move || {
        if let Some(core) = core {
            sys::pin_to_core(core)?;
        }
        let mut gaps = Histogram::new();
        let (mut max_gap_ns, mut lost_ns) = (0, 0);
        let first = stamp();
        let end = first + window;
        let mut last = first;
        while last < end {
            let now = stamp();
            let gap = now.since(last).as_nanos();
            gaps.record(gap);
            if gap > Hiccups::GAP_NS {
                max_gap_ns = max_gap_ns.max(gap);
                lost_ns += gap;
            }
            last = now;
        }
        // Without a hiccup the longest turn of the loop is the answer.
        let max_gap_ns = max_gap_ns.max(gaps.max().unwrap_or(0));
        Ok(Hiccups { window_ns: last.since(first).as_nanos(), max_gap_ns, lost_ns, gaps })
    })
}

/// What it costs two cores to hand one cache line to and fro.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreToCore {
    /// The cores.
    pub cores: (usize, usize),
    /// Median round trip in ns.
    pub median_ns: u64,
    /// Best round trip in ns: what the hardware does when nothing interferes.
    pub min_ns: u64,
    /// Round trips made.
    pub rounds: u64,
}

/// A word that shares its cache line (and the line that prefetchers fetch with it) with nothing.
#[repr(align(128))]
struct Line(AtomicU64);

/// Tells the other thread to stop, however this one ends.
struct StopAtDrop<'a>(&'a AtomicU64);

const STOP: u64 = u64::MAX;

impl Drop for StopAtDrop<'_> {
    fn drop(&mut self) {
        self.0.store(STOP, Ordering::Release);
    }
}

/// Plays ping-pong over one atomic word between two cores.
///
/// # Errors
/// `InvalidInput` when the cores are the same, [`pin_to_core`]'s errors, `TimedOut` when the other core did not answer
/// for two seconds (somebody else's thread holds it).
pub fn core_to_core_rtt(core_a: usize, core_b: usize) -> io::Result<CoreToCore> {
    // A batch hides the two clock readings around it.
    const BATCHES: usize = 1_000;
    const BATCH: u64 = 16;
    const TURNS_UNTIL_CLOCK: u32 = 1 << 14;
    if core_a == core_b {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a core cannot play with itself"));
    }
    let line = Line(AtomicU64::new(0));
    let line = &line.0;
    thread::scope(|scope| {
        let b = scope.spawn(move || -> io::Result<()> {
            let _stop = StopAtDrop(line);
            sys::pin_to_core(core_b)?;
            // Even numbers are ours to answer, odd ones are our answers.
            let mut answered = 0;
            loop {
                match line.load(Ordering::Acquire) {
                    STOP => return Ok(()),
                    ball if ball == answered + 2 => {
                        answered = ball;
                        // Not a plain store: it would run over a STOP.
                        let _ = line.compare_exchange(ball, ball + 1, Ordering::Release, Ordering::Relaxed);
                    }
                    _ => std::hint::spin_loop(),
                }
            }
        });
        let a = scope.spawn(move || {
            let _stop = StopAtDrop(line);
            sys::pin_to_core(core_a)?;
            let deadline = stamp() + Duration::from_secs(2);
            let mut ball = 0;
            let mut spans = Vec::with_capacity(BATCHES);
            // The first tenth warms up: the other thread starts, frequencies rise.
            for batch in 0..BATCHES + BATCHES / 10 {
                let start = stamp();
                for _ in 0..BATCH {
                    ball += 2;
                    if line
                        .compare_exchange(ball_before(ball), ball, Ordering::Release, Ordering::Relaxed)
                        .is_err()
                    {
                        return Ok(None);
                    }
                    let mut turns = 0u32;
                    loop {
                        match line.load(Ordering::Acquire) {
                            STOP => return Ok(None),
                            answer if answer == ball + 1 => break,
                            _ => std::hint::spin_loop(),
                        }
                        turns = turns.wrapping_add(1);
                        if turns.is_multiple_of(TURNS_UNTIL_CLOCK) && stamp() > deadline {
                            return Err(io::Error::new(
                                io::ErrorKind::TimedOut,
                                "the other core does not answer",
                            ));
                        }
                    }
                }
                if batch >= BATCHES / 10 {
                    spans.push(stamp().since(start).as_nanos());
                }
            }
            Ok(Some(spans))
        });
        let spans = join(a);
        join(b)?;
        let mut spans = spans?.ok_or_else(|| io::Error::other("the other thread stopped"))?;
        spans.sort_unstable();
        let per_round = |span: u64| (span + BATCH / 2) / BATCH;
        Ok(CoreToCore {
            cores: (core_a, core_b),
            median_ns: per_round(spans[spans.len() / 2]),
            min_ns: per_round(spans[0]),
            rounds: spans.len() as u64 * BATCH,
        })
    })
}

/// What the word holds before the ball `ball` is served: zero at first, then the answer to the ball before.
fn ball_before(ball: u64) -> u64 {
    if ball == 2 { 0 } else { ball - 1 }
}

/// What a system call costs that does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyscallCost {
    /// Median cost of a `getppid` in ns.
    pub median_ns: u64,
}

/// Measures `getppid`, the entry and exit of the kernel. Takes some milliseconds.
pub fn syscall_cost() -> SyscallCost {
    const BATCHES: usize = 201;
    const CALLS: u64 = 64;
    let mut spans = [0u64; BATCHES];
    for span in &mut spans {
        let start = stamp();
        for _ in 0..CALLS {
            std::hint::black_box(sys::getppid());
        }
        *span = stamp().since(start).as_nanos();
    }
    spans.sort_unstable();
    SyscallCost { median_ns: (spans[BATCHES / 2] + CALLS / 2) / CALLS }
}

/// What it costs to wake a thread that sleeps on an eventfd.
#[derive(Clone, Debug)]
pub struct Wakeup {
    /// Median time from before the write to after the sleeper's read, in ns.
    pub median_ns: u64,
    /// Longest, in ns.
    pub max_ns: u64,
    /// All of them.
    pub spans: Histogram,
}

/// Wakes a thread that sleeps on an eventfd, `rounds` times (at least one), a tenth of a millisecond apart so that it is
/// asleep indeed. `cores` pins waker and sleeper.
///
/// # Errors
/// As [`pin_to_core`], and what `eventfd` says.
pub fn eventfd_wakeup(cores: Option<(usize, usize)>, rounds: u32) -> io::Result<Wakeup> {
    let rounds = rounds.max(1);
    let (bell, answer) = (sys::eventfd()?, sys::eventfd()?);
    let rung_ns = AtomicU64::new(0);
    let (bell, answer, rung_ns) = (&bell, &answer, &rung_ns);
    thread::scope(|scope| {
        let sleeper = scope.spawn(move || {
            // Answers even when it could not be pinned, or the waker would wait for ever.
            let pinned = cores.map_or(Ok(()), |(_, core)| sys::pin_to_core(core));
            let mut spans = Histogram::new();
            for _ in 0..rounds {
                wait(bell)?;
                // The write and the read of the eventfd order this load after the store.
                spans.record(stamp().as_nanos().saturating_sub(rung_ns.load(Ordering::Acquire)));
                ring(answer)?;
            }
            pinned.map(|()| spans)
        });
        let waker = scope.spawn(move || {
            let pinned = cores.map_or(Ok(()), |(core, _)| sys::pin_to_core(core));
            for _ in 0..rounds {
                thread::sleep(std::time::Duration::from_micros(100));
                rung_ns.store(stamp().as_nanos(), Ordering::Release);
                ring(bell)?;
                wait(answer)?;
            }
            pinned
        });
        let (waker, spans) = (join(waker), join(sleeper));
        waker?;
        let spans = spans?;
        let median_ns = spans.hdr().value_at_quantile(0.5);
        Ok(Wakeup { median_ns, max_ns: spans.max().unwrap_or(0), spans })
    })
}

fn ring(mut eventfd: &File) -> io::Result<()> {
    eventfd.write_all(&1u64.to_ne_bytes())
}

fn wait(mut eventfd: &File) -> io::Result<()> {
    eventfd.read_exact(&mut [0; 8])
}

/// The control rows of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlRows {
    /// Cost of the clock.
    pub clock: ClockCost,
    /// Cost of a system call.
    pub syscall: SyscallCost,
    /// Round trip of a cache line; `None` on a machine with one core.
    pub core_to_core: Option<CoreToCore>,
    /// Median cost of waking a thread in ns.
    pub wakeup_median_ns: u64,
    /// Longest cost of waking a thread in ns.
    pub wakeup_max_ns: u64,
    /// Longest time that the machine looked away in ns.
    pub hiccup_max_ns: u64,
    /// Share of the watch lost in gaps above a microsecond, in percent.
    pub hiccup_lost_percent: f64,
    /// Length of that watch in ns.
    pub hiccup_window_ns: u64,
}

impl ControlRows {
    /// Measures all of them on the first cores that the calling thread may use; takes `window` and about 0.1 s more.
    ///
    /// # Errors
    /// As the single rows.
    pub fn measure(window: Duration) -> io::Result<ControlRows> {
        const WAKEUPS: u32 = 200;
        let cores = sys::allowed_cores()?;
        let pair = match cores[..] {
            [a, b, ..] => Some((a, b)),
            _ => None,
        };
        let wakeup = eventfd_wakeup(pair, WAKEUPS)?;
        let hiccups = hiccup_meter(cores.first().copied(), window)?;
        Ok(ControlRows {
            clock: clock_cost(),
            syscall: syscall_cost(),
            core_to_core: pair.map(|(a, b)| core_to_core_rtt(a, b)).transpose()?,
            wakeup_median_ns: wakeup.median_ns,
            wakeup_max_ns: wakeup.max_ns,
            hiccup_max_ns: hiccups.max_gap_ns,
            hiccup_lost_percent: hiccups.lost_ns as f64 * 100.0 / hiccups.window_ns.max(1) as f64,
            hiccup_window_ns: hiccups.window_ns,
        })
    }
}

/// Runs `f` on a thread of its own, so that a pin does not outlast it.
fn on_thread<T: Send>(f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| join(scope.spawn(f)))
}

/// The thread's result, or its panic.
fn join<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_testing::{Needs, skip, until_well};

    /// What comes of it. On a machine full of compilers the other core may be held for two seconds, up to five times; any other error is
    /// a failure at once.
    fn unless_held<T>(measure: impl Fn() -> io::Result<T>) -> T {
        let once = || match measure() {
            Err(error) if error.kind() != io::ErrorKind::TimedOut => panic!("{error}"),
            result => result,
        };
        until_well(5, once, Result::is_ok).expect("the other core answers one of five times")
    }

    /// No machine has so many.
    const NO_CORE: usize = 8_000;

    #[test]
    fn the_meter_watches_the_whole_window_and_leaves_the_caller_unpinned() {
        let before = allowed_cores().unwrap();
        let hiccups = hiccup_meter(Some(before[0]), Duration::from_millis(20)).unwrap();
        assert_eq!(allowed_cores().unwrap(), before);
        assert!(hiccups.window_ns >= 20_000_000);
        assert_eq!(Some(hiccups.max_gap_ns), hiccups.gaps.max());
        assert!(
            hiccups.lost_ns <= hiccups.window_ns && hiccups.gaps.samples() > 100,
            "{}",
            hiccups.gaps.summary()
        );
        assert!(hiccup_meter(Some(NO_CORE), Duration::ZERO).is_err());
    }

    #[test]
    fn a_cache_line_takes_its_time() {
        let cores = allowed_cores().unwrap();
        assert_eq!(core_to_core_rtt(cores[0], cores[0]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        // A thread that cannot be pinned ends the other one too.
        assert!(core_to_core_rtt(cores[0], NO_CORE).is_err());
        assert!(core_to_core_rtt(NO_CORE, cores[0]).is_err());
        let &[a, b, ..] = cores.as_slice() else {
            return skip(Needs::Machine, "core_to_core_rtt needs two cores");
        };
        let done = unless_held(|| core_to_core_rtt(a, b));
        assert_eq!((done.cores, done.rounds), ((a, b), 16_000));
        assert!(done.min_ns >= 1 && done.min_ns <= done.median_ns, "{done:?}");
    }

    #[test]
    fn calls_and_wakeups_cost_something() {
        assert!(syscall_cost().median_ns > 0);
        let wakeup = eventfd_wakeup(None, 30).unwrap();
        assert_eq!(wakeup.spans.samples(), 30);
        // A wake-up is at least two system calls.
        assert!(wakeup.median_ns >= 100 && wakeup.median_ns <= wakeup.max_ns * 2, "{wakeup:?}");
        assert!(eventfd_wakeup(Some((NO_CORE, NO_CORE)), 3).is_err());
    }

    #[test]
    fn all_rows_at_once() {
        let rows = unless_held(|| ControlRows::measure(Duration::from_millis(5)));
        assert!(rows.hiccup_window_ns >= 5_000_000 && rows.wakeup_median_ns > 0);
        assert!((0.0..=100.0).contains(&rows.hiccup_lost_percent));
        let back: ControlRows = serde_json::from_str(&serde_json::to_string(&rows).unwrap()).unwrap();
        assert_eq!(back.core_to_core, rows.core_to_core);
    }
}
