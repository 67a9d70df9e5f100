//! Was the machine ours while we measured? A figure taken in company is branded, not thrown away in silence.

use crate::cpu::{CoreTime, TICK_NS, Task};
use crate::{clock, proc_text, sys};
use serde::{Deserialize, Serialize};
use std::fs;

/// Involuntary switches per second above which threads take turns on a core: two that share one change 250 times or more, and the kernel's
/// own housekeeping on cores that never rest stays below.
const SWITCHES_PER_S_MAX: f64 = 200.0;
/// Share of all cores' time from which on they count as full.
const FULL_PERCENT: f64 = 90.0;
/// Involuntary switches that any run may have: a short one is not judged by a single switch.
const SWITCHES_FREE: u64 = 5;
/// Share of all cores' time that a hypervisor may steal, in percent.
const STEAL_PERCENT_MAX: f64 = 1.0;
/// Share of the run in which a runnable thread may have waited for a core, in percent.
const PRESSURE_PERCENT_MAX: f64 = 5.0;
/// Share of one core that other processes may take, in percent. Ticks say it, so that a short run allows for more.
const OTHERS_PERCENT_MAX: f64 = 5.0;
/// Ticks per second that `/proc/stat` is sampled with, at least.
const SAMPLES_PER_S: f64 = 100.0;

/// First word of the reason where our own threads wanted more cores than there are.
pub const OVERSUBSCRIBED: &str = "oversubscribed";
/// First word of the reason where the hypervisor gave our cores to other machines.
pub const STOLEN: &str = "stolen";
/// First word of the reason where other processes ran on the cores.
pub const OTHERS: &str = "others";
/// First word of the reason where a thread waited for a core and nothing tells for whom: ours have one each, or are not counted, and what
/// others took is less than ticks can tell. The kernel's own threads for soft interrupts are such company.
pub const WAITED: &str = "waited";

/// Watches from [`start`](Contention::start) to [`finish`](Contention::finish) whether anybody wanted our cores.
#[derive(Debug)]
pub struct Contention {
    start: Sample,
    threads: Option<usize>,
}

/// What [`Contention`] saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContentionReport {
    /// True when a limit was exceeded; the row is then marked `contended`.
    pub contended: bool,
    /// Which, with the measured value: one phrase each, for people. Each begins with [`OVERSUBSCRIBED`], [`STOLEN`], [`OTHERS`] or
    /// [`WAITED`] and a colon.
    pub reasons: Vec<String>,
    /// Length of the watch in ns.
    pub window_ns: u64,
    /// Times that a thread of this process was taken off a core that it still wanted.
    pub involuntary_switches: u64,
    /// Share of all cores' time that the hypervisor gave to others, in percent. `None` where it is not told.
    pub steal_percent: Option<f64>,
    /// Share of the window in which a runnable thread of the machine waited for a core (PSI `cpu some`), in percent.
    pub pressure_percent: Option<f64>,
    /// What other processes than this one and its children took, in percent of one core. `None` where it is not told.
    #[serde(default)]
    pub others_percent: Option<f64>,
}

/// One look at the counters.
#[derive(Clone, Debug)]
struct Sample {
    at_ns: u64,
    switches: u64,
    ticks: Option<proc_text::CpuTicks>,
    pressure_us: Option<u64>,
    all: Option<CoreTime>,
    /// CPU time of this process and of its children that ended, in ns.
    ours_ns: u64,
    /// The children that live, theirs, and what each has run.
    children: Vec<(u32, u64)>,
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
            all: CoreTime::of(&[]),
            ours_ns: sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) + sys::children_ns(),
            children: children_of(std::process::id()),
        }
    }
}

fn run_ns(process: u32) -> u64 {
    Task::Process(process).time().map_or(0, |time| time.run_ns)
}

/// The processes that `process` started, and those that they did, as far as they live.
fn children_of(process: u32) -> Vec<(u32, u64)> {
    let (mut found, mut open) = (Vec::new(), vec![process]);
    while let Some(parent) = open.pop() {
        let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else { continue };
        for thread in threads.flatten() {
            let Ok(text) = fs::read_to_string(thread.path().join("children")) else { continue };
            for child in text.split_whitespace().filter_map(|word| word.parse().ok()) {
                found.push((child, run_ns(child)));
                open.push(child);
            }
        }
    }
    found
}

impl Contention {
    /// Begins to watch. Reads small files of `/proc`; nothing runs in between.
    pub fn start() -> Contention {
        Contention { start: Sample::take(), threads: None }
    }

    /// Says how many threads of ours, those of our children included, may want a core at once. Only with it can the judgement say that
    /// they were more than the cores.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Contention {
        self.threads = Some(threads);
        self
    }

    /// Ends the watch and judges.
    pub fn finish(self) -> ContentionReport {
        let cores = sys::allowed_cores().map_or(1, |cores| cores.len());
        judge(&self.start, &Sample::take(), self.threads.map(|threads| threads > cores))
    }
}

/// What others took of the cores from `start` to `end`, in percent of one core.
fn others_percent(start: &Sample, end: &Sample, window_ns: u64) -> Option<f64> {
    let all = end.all?.since(&start.all?);
    // Where interrupts are part of the time of whom they interrupt, they are part of ours, too; but for those that the kernel's own
    // threads serve.
    let interrupts = all.interrupts_ns.saturating_sub(all.interrupt_threads_ns);
    let busy = all.worked_ns + if all.interrupts_are_apart { 0 } else { interrupts };
    let of_child = |&(id, now): &(u32, u64)| {
        let before = start.children.iter().find(|(before, _)| *before == id).map_or(0, |(_, ns)| *ns);
        now.saturating_sub(before)
    };
    // A child that ended counts among those that did with all it ever ran: what it had run before is taken off again.
    let gone = start.children.iter().filter(|(id, _)| end.children.iter().all(|(left, _)| left != id));
    let ours = end.ours_ns.saturating_sub(start.ours_ns) + end.children.iter().map(of_child).sum::<u64>();
    let ours = ours.saturating_sub(gone.map(|(_, ns)| *ns).sum());
    Some(busy.saturating_sub(ours) as f64 * 100.0 / window_ns as f64)
}

/// How full all cores were from `start` to `end`, in percent.
fn full_percent(start: &Sample, end: &Sample) -> Option<f64> {
    let (before, after) = (start.ticks?, end.ticks?);
    let all = end.all?.since(&start.all?);
    // Ticks of all cores together are as much time as there was.
    let total_ns = after.total.saturating_sub(before.total).max(1) as f64 * TICK_NS as f64;
    Some((all.worked_ns + all.interrupts_ns) as f64 * 100.0 / total_ns)
}

/// What others may take, in percent of one core: ticks are samples, and a share of them has the error of a share of so many.
fn others_limit(window_ns: u64) -> f64 {
    let samples = (window_ns as f64 / 1e9 * SAMPLES_PER_S).max(1.0);
    OTHERS_PERCENT_MAX + 3.0 * 50.0 / samples.sqrt()
}

/// `too_many`: whether our own threads are more than the cores, as far as they are counted.
fn judge(start: &Sample, end: &Sample, too_many: Option<bool>) -> ContentionReport {
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
    let others_percent = others_percent(start, end, window_ns);

    let per_s = involuntary_switches as f64 * 1e9 / window_ns as f64;
    let in_turns = involuntary_switches > SWITCHES_FREE && per_s > SWITCHES_PER_S_MAX;
    let turns = format!(
        "{involuntary_switches} involuntary switches, {per_s:.0}/s (limit {SWITCHES_PER_S_MAX:.0}/s)"
    );
    let waited = |percent: f64| {
        format!(
            "a runnable thread waited for a core {percent:.1} % of the time (limit {PRESSURE_PERCENT_MAX:.0} %)"
        )
    };
    let limit = others_limit(window_ns);
    let by_others = others_percent.filter(|&share| share > limit);
    // Who was woken waits for its core to wake, too: that is nobody's company. Who waits for others, or beside threads of ours that fill
    // the cores or change on one, has some.
    let waits = match pressure_percent {
        Some(percent) if percent <= PRESSURE_PERCENT_MAX => None,
        Some(percent) if in_turns => Some(format!("{turns}, {}", waited(percent))),
        Some(percent)
            if by_others.is_some() || full_percent(start, end).is_none_or(|p| p >= FULL_PERCENT) =>
        {
            Some(waited(percent))
        }
        Some(_) => None,
        // Without the kernel's word about waiting the switches stand for it.
        None => in_turns.then_some(turns),
    };
    let mut reasons = Vec::new();
    if let Some(waits) = waits {
        let who = match (by_others, too_many) {
            (Some(share), _) => {
                format!("{OTHERS}: other processes took {share:.0} % of a core (limit {limit:.0} %)")
            }
            (None, Some(true)) => {
                format!("{OVERSUBSCRIBED}: our own threads were more than the cores there are")
            }
            (None, Some(false)) => {
                format!("{WAITED}: our own threads had a core each; for whom is not known")
            }
            (None, None) => format!("{WAITED}: for our own threads or for others; nothing tells which"),
        };
        reasons.push(format!("{who}: {waits}"));
    }
    if let Some(steal) = steal_percent.filter(|&steal| steal > STEAL_PERCENT_MAX) {
        reasons.push(format!(
            "{STOLEN}: the hypervisor gave {steal:.1} % of core time to other machines (limit {STEAL_PERCENT_MAX:.0} %)"
        ));
    }
    let contended = !reasons.is_empty();
    ContentionReport {
        contended,
        reasons,
        window_ns,
        involuntary_switches,
        steal_percent,
        pressure_percent,
        others_percent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_text::CpuTicks;

    fn quiet() -> Sample {
        Sample {
            at_ns: 5_000_000_000,
            switches: 100,
            ticks: Some(CpuTicks { total: 1_000, steal: 10 }),
            pressure_us: Some(7_000_000),
            all: Some(CoreTime {
                worked_ns: 50_000_000_000,
                interrupts_ns: 1_000_000_000,
                interrupt_threads_ns: 0,
                interrupts_are_apart: false,
            }),
            ours_ns: 4_000_000_000,
            children: vec![(7, 1_000_000_000), (8, 500_000_000)],
        }
    }

    /// Ten seconds after `quiet`, with two cores full of this process.
    fn later(switches: u64, steal: u64, pressure_us: u64) -> Sample {
        let start = quiet();
        let all = start.all.unwrap();
        Sample {
            at_ns: 15_000_000_000,
            switches: 100 + switches,
            ticks: Some(CpuTicks { total: 3_000, steal: 10 + steal }),
            pressure_us: Some(7_000_000 + pressure_us),
            all: Some(CoreTime { worked_ns: all.worked_ns + 20_000_000_000, ..all }),
            ours_ns: start.ours_ns + 20_000_000_000,
            children: start.children,
        }
    }

    fn words(report: &ContentionReport) -> Vec<&str> {
        report.reasons.iter().map(|reason| reason.split(':').next().unwrap()).collect()
    }

    #[test]
    fn each_limit_has_its_reason() {
        let report = judge(&quiet(), &later(2_000, 20, 500_000), Some(true));
        assert!(!report.contended && report.reasons.is_empty(), "{report:?}");
        assert_eq!((report.window_ns, report.involuntary_switches), (10_000_000_000, 2_000));
        assert_eq!((report.steal_percent, report.pressure_percent), (Some(1.0), Some(5.0)));
        assert_eq!(report.others_percent, Some(0.0));
        for (end, word, detail) in [
            (later(2_001, 0, 500_001), OVERSUBSCRIBED, "switches"),
            (later(0, 21, 0), STOLEN, "1.1 %"),
            (later(0, 0, 500_001), OVERSUBSCRIBED, "waited"),
        ] {
            let report = judge(&quiet(), &end, Some(true));
            assert!(report.contended);
            assert!(words(&report) == [word] && report.reasons[0].contains(detail), "{report:?}");
        }
        assert_eq!(
            words(&judge(&quiet(), &later(9_000, 1_000, 9_000_000), Some(true))),
            [OVERSUBSCRIBED, STOLEN]
        );
    }

    #[test]
    fn who_only_waits_for_a_core_to_wake_has_no_company() {
        // A third of the time somebody was runnable and did not run, on cores that were a quarter full.
        let mut end = later(700, 0, 3_300_000);
        let all = quiet().all.unwrap();
        end.all = Some(CoreTime { worked_ns: all.worked_ns + 5_000_000_000, ..all });
        end.ours_ns = quiet().ours_ns + 5_000_000_000;
        assert!(!judge(&quiet(), &end, Some(true)).contended);
        // The same by threads that change on one core, and beside others.
        let turns = Sample { switches: 100 + 2_500, ..end.clone() };
        assert_eq!(words(&judge(&quiet(), &turns, Some(true))), [OVERSUBSCRIBED]);
        let others = Sample { ours_ns: quiet().ours_ns, ..end };
        assert_eq!(words(&judge(&quiet(), &others, Some(true))), [OTHERS]);
    }

    #[test]
    fn only_threads_that_are_counted_can_be_too_many() {
        let waiting = later(2_001, 0, 500_001);
        for (too_many, word) in [(Some(true), OVERSUBSCRIBED), (Some(false), WAITED), (None, WAITED)] {
            assert_eq!(words(&judge(&quiet(), &waiting, too_many)), [word], "{too_many:?}");
        }
    }

    #[test]
    fn others_are_what_neither_we_nor_our_children_ran() {
        let busy = |end: Sample, ns| {
            let all = end.all.unwrap();
            Sample { all: Some(CoreTime { worked_ns: all.worked_ns + ns, ..all }), ..end }
        };
        // 40 % of a core: more than 5 % and what ticks may be wrong by.
        let report = judge(&quiet(), &busy(later(9_000, 0, 9_000_000), 4_000_000_000), Some(true));
        assert_eq!((words(&report), report.others_percent), (vec![OTHERS], Some(40.0)));
        // Who took nothing away from us is no company, whatever he does on cores of his own.
        assert!(!judge(&quiet(), &busy(later(0, 0, 0), 4_000_000_000), Some(true)).contended);
        // The same by a child that lives, by one that ended, by one that began and lives, and by interrupts of others.
        let children = |ours_ns: u64, children: &[(u32, u64)]| {
            let end = busy(later(9_000, 0, 9_000_000), 4_000_000_000);
            let ours_ns = end.ours_ns + ours_ns;
            judge(&quiet(), &Sample { ours_ns, children: children.to_vec(), ..end }, Some(true))
        };
        let grown = children(0, &[(7, 5_000_000_000), (8, 500_000_000)]);
        assert_eq!((words(&grown), grown.others_percent), (vec![OVERSUBSCRIBED], Some(0.0)));
        let ended = children(5_000_000_000, &[(8, 500_000_000)]);
        assert_eq!(ended.others_percent, Some(0.0));
        let began = children(0, &[(7, 1_000_000_000), (8, 500_000_000), (9, 4_000_000_000)]);
        assert_eq!(began.others_percent, Some(0.0));
        let end = later(9_000, 0, 9_000_000);
        let all = end.all.unwrap();
        let interrupts = |apart| {
            let change = |all: CoreTime, ns| CoreTime {
                interrupts_ns: all.interrupts_ns + ns,
                interrupts_are_apart: apart,
                ..all
            };
            let start = Sample { all: quiet().all.map(|all| change(all, 0)), ..quiet() };
            judge(&start, &Sample { all: Some(change(all, 4_000_000_000)), ..end.clone() }, Some(true))
                .others_percent
        };
        assert_eq!((interrupts(false), interrupts(true)), (Some(40.0), Some(0.0)));
    }

    #[test]
    fn short_windows_and_missing_files_do_not_brand() {
        let end = Sample {
            at_ns: quiet().at_ns + 1_000,
            switches: 105,
            ticks: None,
            pressure_us: None,
            all: None,
            ..quiet()
        };
        let report = judge(&quiet(), &end, None);
        assert_eq!((report.contended, report.steal_percent, report.pressure_percent), (false, None, None));
        assert_eq!(report.others_percent, None);
        let report = judge(&quiet(), &Sample { switches: 106, ..end }, None);
        assert!(report.contended && report.reasons[0].contains("nothing tells which"), "{report:?}");
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

    #[test]
    fn children_and_theirs_are_found() {
        // `true` keeps the shell from becoming the sleeper.
        let mut child = std::process::Command::new("sh").args(["-c", "sleep 60; true"]).spawn().unwrap();
        let ours = || children_of(std::process::id()).into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        let (mut found, began) = (ours(), clock::stamp());
        // The shell's own child takes a moment.
        let theirs = |found: &[u32]| children_of(child.id()).iter().any(|(id, _)| found.contains(id));
        while !theirs(&found) && clock::stamp().since(began).as_nanos() < 20_000_000_000 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            found = ours();
        }
        let sleepers: Vec<u32> = children_of(child.id()).into_iter().map(|(id, _)| id).collect();
        assert!(found.contains(&child.id()) && theirs(&found), "{found:?}");
        for id in sleepers {
            std::process::Command::new("sh").args(["-c", &format!("kill {id}")]).status().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
