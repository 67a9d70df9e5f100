//! What is measured: how long the machine looks away, and what cores, calls and clocks cost.

use crate::lists;
use crate::root::Root;
use barewire_base::Duration;
use barewire_measure::{
    allowed_cores, clock_cost, core_to_core_rtt, eventfd_wakeup, hiccup_meter, syscall_cost,
};

/// Cores whose pairs are measured, at most.
const CORES_MAX: usize = 6;
/// How long one look at a core is.
const LOOK: Duration = Duration::from_millis(500);
/// What everything else takes, about.
const REST: Duration = Duration::from_millis(500);
/// Wake-ups measured.
const WAKEUPS: u32 = 200;

/// Told how much is done, how much there is, and what is done now. False ends it.
pub type Progress<'a> = dyn FnMut(u64, u64, &str) -> bool + 'a;

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
    /// Watches one core for `window` (an isolated one, where there are), and takes about half a second more. `progress` is told
    /// milliseconds that are done, those in all, and what is measured now; `None` when it wants no more.
    pub fn take(root: &Root, window: Duration, progress: &mut Progress<'_>) -> Option<Measured> {
        let allowed = allowed_cores().unwrap_or_default();
        let isolated = root.read("sys/devices/system/cpu/isolated").and_then(|text| lists::cores(&text));
        let isolated = isolated.unwrap_or_default();
        let set_aside = |core: &&usize| u32::try_from(**core).is_ok_and(|core| isolated.contains(&core));
        let core = allowed.iter().find(set_aside).or(allowed.first()).copied();
        let ms = |span: Duration| span.as_nanos() / 1_000_000;
        let total = ms(window) + ms(REST);
        let before = ticks(root);
        let mut watched = Watched::default();
        while watched.window < window {
            if !progress(ms(watched.window), total, "how long the machine looks away") {
                return None;
            }
            watched.look(core, LOOK.min(window - watched.window));
        }
        let ticks = ticks(root)
            .zip(before)
            .map(|(now, then)| (now.0.saturating_sub(then.0), now.1.saturating_sub(then.1)));
        if !progress(ms(window), total, "calls and wake-ups") {
            return None;
        }
        let mut measured = Measured {
            core,
            window_ns: window.as_nanos(),
            hiccup_max_ns: watched.max_ns,
            hiccup_lost_percent: watched.lost_percent(),
            ticks,
            wakeup_ns: eventfd_wakeup(None, WAKEUPS).ok().map(|w| w.median_ns),
            syscall_ns: syscall_cost().median_ns,
            clock_ns: clock_cost().median_ns,
            ..Measured::default()
        };
        let some: Vec<usize> = allowed.into_iter().take(CORES_MAX).collect();
        for (i, &a) in some.iter().enumerate() {
            for &b in &some[i + 1..] {
                if !progress(ms(window), total, "core to core") {
                    return None;
                }
                match core_to_core_rtt(a, b) {
                    Ok(pair) => measured.core_pairs.push((pair.cores, pair.median_ns)),
                    Err(_) => measured.pairs_failed += 1,
                }
            }
        }
        Some(measured)
    }
}

/// What was seen of one core, in several looks: somebody may want no more of it in between.
#[derive(Default)]
struct Watched {
    /// How long it was to be.
    window: Duration,
    max_ns: Option<u64>,
    lost_ns: u64,
    /// How long it was.
    watched_ns: u64,
}

impl Watched {
    fn look(&mut self, core: Option<usize>, span: Duration) {
        self.window = self.window + span;
        if let Ok(seen) = hiccup_meter(core, span) {
            self.max_ns = Some(self.max_ns.unwrap_or(0).max(seen.max_gap_ns));
            self.lost_ns += seen.lost_ns;
            self.watched_ns += seen.window_ns;
        }
    }

    fn lost_percent(&self) -> f64 {
        self.lost_ns as f64 * 100.0 / self.watched_ns.max(1) as f64
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_and_ends_it() {
        let root = Root::machine();
        let mut told = Vec::new();
        let window = Duration::from_millis(1_200);
        let measured = Measured::take(&root, window, &mut |done, total, _| {
            told.push((done, total));
            true
        });
        let measured = measured.unwrap();
        assert!(measured.window_ns == window.as_nanos() && measured.syscall_ns > 0, "{measured:?}");
        assert_eq!(told[..4], [(0, 1_700), (500, 1_700), (1_000, 1_700), (1_200, 1_700)]);
        assert_eq!(Measured::take(&root, window, &mut |done, _, _| done < 500), None);
    }
}
