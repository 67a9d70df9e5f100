//! What is measured: how long the machine looks away, and what cores, calls and clocks cost.

use crate::lists;
use crate::root::Root;
use barewire_base::Duration;
use barewire_measure::{
    allowed_cores, clock_cost, core_to_core_rtt, eventfd_wakeup, hiccup_meter, syscall_cost,
};

/// Cores whose pairs are measured, at most.
const CORES_MAX: usize = 6;
/// Wake-ups measured.
const WAKEUPS: u32 = 200;

/// One look. What could not be measured is `None`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    /// The core that was watched.
    pub core: Option<usize>,
    /// For how long, in ns.
    pub window_ns: u64,
    /// The longest time that the machine looked away, in ns.
    pub hiccup_max_ns: Option<u64>,
    /// The share of the time lost in gaps of more than a microsecond, in percent.
    pub hiccup_lost_percent: f64,
    /// Ticks of all cores together, and of those stolen by a hypervisor, during that time.
    pub ticks: Option<(u64, u64)>,
    /// Median round trips of a cache line between two cores, in ns.
    pub core_pairs: Vec<((usize, usize), u64)>,
    /// Pairs that did not answer: somebody else held a core.
    pub pairs_failed: usize,
    /// Median cost of waking a thread, in ns.
    pub wakeup_ns: Option<u64>,
    /// Cost of a system call, in ns.
    pub syscall_ns: u64,
    /// Cost of reading the clock, in ns.
    pub clock_ns: u64,
}

impl Measured {
    /// Watches one core for `window` (an isolated one, where there are), and takes about half a second more.
    pub fn take(root: &Root, window: Duration) -> Measured {
        let allowed = allowed_cores().unwrap_or_default();
        let isolated = root.read("sys/devices/system/cpu/isolated").and_then(|text| lists::cores(&text));
        let isolated = isolated.unwrap_or_default();
        let set_aside = |core: &&usize| u32::try_from(**core).is_ok_and(|core| isolated.contains(&core));
        let core = allowed.iter().find(set_aside).or(allowed.first()).copied();
        let before = ticks(root);
        let hiccups = hiccup_meter(core, window).ok();
        let ticks = ticks(root)
            .zip(before)
            .map(|(now, then)| (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1)));
        let mut measured = Measured {
            core,
            window_ns: window.as_nanos(),
            hiccup_max_ns: hiccups.as_ref().map(|h| h.max_gap_ns),
            hiccup_lost_percent: hiccups
                .map_or(0.0, |h| h.lost_ns as f64 * 100.0 / h.window_ns.max(1) as f64),
            ticks,
            wakeup_ns: eventfd_wakeup(None, WAKEUPS).ok().map(|w| w.median_ns),
            syscall_ns: syscall_cost().median_ns,
            clock_ns: clock_cost().median_ns,
            ..Measured::default()
        };
        let some: Vec<usize> = allowed.into_iter().take(CORES_MAX).collect();
        for (i, &a) in some.iter().enumerate() {
            for &b in &some[i + 1..] {
                match core_to_core_rtt(a, b) {
                    Ok(pair) => measured.core_pairs.push((pair.cores, pair.median_ns)),
                    Err(_) => measured.pairs_failed += 1,
                }
            }
        }
        measured
    }
}

/// All ticks, and the stolen ones, of the first line of `/proc/stat`.
pub(crate) fn ticks(root: &Root) -> Option<(u64, u64)> {
    let text = root.read("proc/stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).take(8).collect();
    let stolen = *numbers.get(7)?;
    Some((numbers.iter().fold(0, |sum: u64, &n| sum.saturating_add(n)), stolen))
}
