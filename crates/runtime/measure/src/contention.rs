//! Was the machine ours while we measured? A figure taken in company is branded, not thrown away in silence.

use crate::{clock, proc_text, sys};
use serde::{Deserialize, Serialize};
use std::fs;

/// Involuntary switches per second above which a run counts as contended; the kernel's own housekeeping stays below.
const SWITCHES_PER_S_MAX: f64 = 20.0;
/// Involuntary switches that any run may have: a short one is not judged by a single switch.
const SWITCHES_FREE: u64 = 5;
/// Share of all cores' time that a hypervisor may steal, in percent.
const STEAL_PERCENT_MAX: f64 = 1.0;
/// Share of the run in which a runnable thread may have waited for a core, in percent.
const PRESSURE_PERCENT_MAX: f64 = 5.0;

/// Watches from [`start`](Contention::start) to [`finish`](Contention::finish) whether others wanted our cores.
#[derive(Debug)]
pub struct Contention {
    start: Sample,
}

/// What [`Contention`] saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContentionReport {
    /// True when a limit was exceeded; the row is then marked `contended`.
    pub contended: bool,
    /// Which, with the measured value: one phrase each, for people.
    pub reasons: Vec<String>,
    /// Length of the watch in ns.
    pub window_ns: u64,
    /// Times that a thread of this process was taken off a core that it still wanted.
    pub involuntary_switches: u64,
    /// Share of all cores' time that the hypervisor gave to others, in percent. `None` where it is not told.
    pub steal_percent: Option<f64>,
    /// Share of the window in which a runnable thread of the machine waited for a core (PSI `cpu some`), in percent.
    pub pressure_percent: Option<f64>,
}

/// One look at the counters.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_ns: u64,
    switches: u64,
    ticks: Option<proc_text::CpuTicks>,
    pressure_us: Option<u64>,
}

impl Sample {
    fn take() -> Sample {
        let read = |path| fs::read_to_string(path).ok();
        Sample {
            at_ns: clock::stamp().as_nanos(),
            switches: sys::involuntary_switches(),
            ticks: read("/proc/stat").and_then(|text| proc_text::cpu_ticks(&text)),
            pressure_us: read("/proc/pressure/cpu")
                .and_then(|text| Some(proc_text::pressure(&text)?.total_us)),
        }
    }
}

impl Contention {
    /// Begins to watch. Reads three small files; nothing runs in between.
    pub fn start() -> Contention {
        Contention { start: Sample::take() }
    }

    /// Ends the watch and judges.
    pub fn finish(self) -> ContentionReport {
        judge(&self.start, &Sample::take())
    }
}

fn judge(start: &Sample, end: &Sample) -> ContentionReport {
    let window_ns = end.at_ns.saturating_sub(start.at_ns).max(1);
    let involuntary_switches = end.switches.saturating_sub(start.switches);
    let steal_percent = start.ticks.zip(end.ticks).map(|(start, end)| {
        let total = end.total.saturating_sub(start.total).max(1);
        end.steal.saturating_sub(start.steal) as f64 * 100.0 / total as f64
    });
    let pressure_percent = start
        .pressure_us
        .zip(end.pressure_us)
        .map(|(start, end)| end.saturating_sub(start) as f64 * 1e3 * 100.0 / window_ns as f64);

    let mut reasons = Vec::new();
    let per_s = involuntary_switches as f64 * 1e9 / window_ns as f64;
    if involuntary_switches > SWITCHES_FREE && per_s > SWITCHES_PER_S_MAX {
        reasons.push(format!(
            "{involuntary_switches} involuntary switches, {per_s:.0}/s (limit {SWITCHES_PER_S_MAX:.0}/s)"
        ));
    }
    if let Some(steal) = steal_percent.filter(|&steal| steal > STEAL_PERCENT_MAX) {
        reasons.push(format!(
            "{steal:.1} % of core time stolen by the hypervisor (limit {STEAL_PERCENT_MAX:.0} %)"
        ));
    }
    if let Some(waited) = pressure_percent.filter(|&waited| waited > PRESSURE_PERCENT_MAX) {
        reasons.push(format!("a runnable thread waited for a core {waited:.1} % of the time (limit {PRESSURE_PERCENT_MAX:.0} %)"));
    }
    let contended = !reasons.is_empty();
    ContentionReport { contended, reasons, window_ns, involuntary_switches, steal_percent, pressure_percent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_text::CpuTicks;

    const QUIET: Sample = Sample {
        at_ns: 5_000_000_000,
        switches: 100,
        ticks: Some(CpuTicks { total: 1_000, steal: 10 }),
        pressure_us: Some(7_000_000),
    };

    /// Ten seconds after `QUIET`.
    fn later(switches: u64, steal: u64, pressure_us: u64) -> ContentionReport {
        let ticks = Some(CpuTicks { total: 3_000, steal: 10 + steal });
        let end = Sample {
            at_ns: 15_000_000_000,
            switches: 100 + switches,
            ticks,
            pressure_us: Some(7_000_000 + pressure_us),
        };
        judge(&QUIET, &end)
    }

    #[test]
    fn each_limit_has_its_reason() {
        let quiet = later(200, 20, 500_000);
        assert!(!quiet.contended && quiet.reasons.is_empty(), "{quiet:?}");
        assert_eq!((quiet.window_ns, quiet.involuntary_switches), (10_000_000_000, 200));
        assert_eq!((quiet.steal_percent, quiet.pressure_percent), (Some(1.0), Some(5.0)));
        for (report, word) in
            [(later(201, 0, 0), "switches"), (later(0, 21, 0), "stolen"), (later(0, 0, 500_001), "waited")]
        {
            assert!(report.contended);
            assert!(report.reasons.len() == 1 && report.reasons[0].contains(word), "{report:?}");
        }
        assert_eq!(later(1_000, 1_000, 9_000_000).reasons.len(), 3);
    }

    #[test]
    fn short_windows_and_missing_files_do_not_brand() {
        let end = Sample { at_ns: QUIET.at_ns + 1_000, switches: 105, ticks: None, pressure_us: None };
        let report = judge(&QUIET, &end);
        assert_eq!((report.contended, report.steal_percent, report.pressure_percent), (false, None, None));
        assert!(judge(&QUIET, &Sample { switches: 106, ..end }).contended);
    }

    #[test]
    fn threads_that_share_one_core_are_seen() {
        let watch = Contention::start();
        let core = sys::allowed_cores().unwrap()[0];
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(move || {
                    sys::pin_to_core(core).unwrap();
                    let start = clock::stamp();
                    while clock::stamp().since(start).as_nanos() < 300_000_000 {}
                });
            }
        });
        let report = watch.finish();
        assert!(report.window_ns >= 300_000_000, "{report:?}");
        assert!(report.contended, "{report:?}");
        assert!(report.involuntary_switches > 5, "{report:?}");
    }
}
