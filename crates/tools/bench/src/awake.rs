//! Keeping cores awake: what [`IdleState::Warm`](crate::IdleState::Warm) means.

use crate::error::BenchError;
use crate::messages::IdleState;
use barewire_base::Duration;
use barewire_measure::{
    ContentionReport, OVERSUBSCRIBED, STOLEN, Task, TaskTime, WAITED, allowed_cores, pin_to_core,
};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A limit in microseconds written here holds for as long as the file is open: `Documentation/power/pm_qos_interface.rst`.
const LATENCY_FILE: &str = "/dev/cpu_dma_latency";
/// Idle states whose exit the limit governs. Without them the file has no effect.
const IDLE_STATES: &str = "/sys/devices/system/cpu/cpu0/cpuidle/state1";
/// Rounds of a spinner between two offers of its core.
const SPINS_PER_YIELD: u32 = 16;
/// What `nice(2)` is asked for: more than it grants, and it grants the lowest there is.
const LOWEST: i32 = 40;

/// How long the machine is left alone before a cold run.
pub const COLD_PAUSE: Duration = Duration::from_secs(1);

/// Involuntary switches per second of an end above which a run beside spinners counts as contended.
const SWITCHES_PER_S_MAX: f64 = 200.0;

/// How often the thread of an end was switched out against its will, where that is known.
pub(crate) type Switches<'a> = (&'a str, Option<u64>);

/// Threads that keep cores awake, and what those used that ended: no workload is charged for them.
static SPINNERS: Mutex<(Vec<Task>, TaskTime)> =
    Mutex::new((Vec::new(), TaskTime { run_ns: 0, user_ns: 0, system_ns: 0 }));

/// What all of them used so far.
pub(crate) fn spinners_time() -> TaskTime {
    let known = SPINNERS.lock().unwrap_or_else(PoisonError::into_inner);
    known.0.iter().filter_map(|task| task.time().ok()).fold(known.1, |sum, time| sum.plus(&time))
}

/// The calling thread is one of them until this is dropped.
struct Spinner(Option<Task>);

impl Spinner {
    fn new() -> Spinner {
        let task = Task::current().ok();
        SPINNERS.lock().unwrap_or_else(PoisonError::into_inner).0.extend(task.clone());
        Spinner(task)
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let mut known = SPINNERS.lock().unwrap_or_else(PoisonError::into_inner);
        known.0.retain(|task| Some(task) != self.0.as_ref());
        if let Some(Ok(time)) = self.0.as_ref().map(Task::time) {
            known.1 = known.1.plus(&time);
        }
    }
}

/// Cores in the state that a row says, until it is dropped.
pub(crate) struct Settled(Option<KeepAwake>);

/// Wakes cores up or lets them fall asleep, as a row says.
pub(crate) fn settle(state: IdleState, cores: &[usize]) -> Result<Settled, BenchError> {
    match state {
        IdleState::Warm => KeepAwake::start(cores)
            .map(|awake| Settled(Some(awake)))
            .map_err(|source| BenchError::Setup { what: "keeping cores awake", source }),
        IdleState::Cold => {
            std::thread::sleep(COLD_PAUSE.into());
            Ok(Settled(None))
        }
    }
}

impl Settled {
    /// Who else was on the cores, of what a watch saw of a run whose ends were switched out so often: for every system in the same way.
    pub(crate) fn judged(&self, report: ContentionReport, ends: &[Switches<'_>]) -> ContentionReport {
        let spinners = self.0.as_ref().is_some_and(KeepAwake::uses_threads);
        if spinners { beside_spinners(report, ends) } else { report }
    }
}

/// What the hypervisor took, alone: where many share few cores by design, being switched out is the rule and says nothing.
pub(crate) fn stolen(report: ContentionReport) -> Vec<String> {
    report.reasons.into_iter().filter(|reason| reason.starts_with(STOLEN)).collect()
}

/// Spinners that keep cores awake are threads of ours that always wait, by design: whether ours were too many only the threads that are
/// measured tell then.
fn beside_spinners(mut report: ContentionReport, ends: &[Switches<'_>]) -> ContentionReport {
    let seconds = report.window_ns as f64 / 1e9;
    report.reasons.retain(|reason| ![OVERSUBSCRIBED, WAITED].iter().any(|word| reason.starts_with(word)));
    for (who, switches) in ends {
        let per_s = switches.map_or(0.0, |n| n as f64 / seconds);
        if per_s > SWITCHES_PER_S_MAX && report.reasons.is_empty() {
            let told = format!("{who} switched out {per_s:.0}/s (limit {SWITCHES_PER_S_MAX:.0}/s)");
            report.reasons.push(format!("{WAITED}: {told}"));
        }
    }
    report.contended = !report.reasons.is_empty();
    report
}

/// Holds the kernel's idle loop on every core while systems are measured whose threads and traffic use all of them: spinners would take part in
/// their figures. What it returns first ends that when dropped; rows name the state that comes second, which is
/// [`IdleState::Cold`] where the idle loop cannot be held.
pub(crate) fn hold(asked: IdleState) -> (Option<KeepAwake>, IdleState) {
    let held = || KeepAwake::start(&[]).ok().filter(|awake| !awake.uses_threads());
    let awake = if asked == IdleState::Warm { held() } else { None };
    let state = if awake.is_some() { IdleState::Warm } else { IdleState::Cold };
    (awake, state)
}

/// Cores that do not go to sleep when they have nothing to do, so that a thread's wake-up does not include the core's. Undone on
/// drop.
///
/// The kernel's own idle loop spins when `/dev/cpu_dma_latency` is held at 0, which costs the measured threads nothing: that is
/// the first choice, and needs root and idle states. Otherwise threads of the lowest priority spin, one on each core, and
/// offer their core after every few rounds.
pub struct KeepAwake {
    held: Option<File>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl KeepAwake {
    /// Keeps `cores` awake, or every core that this thread may use when `cores` is empty.
    ///
    /// # Errors
    /// What the system says to a spinner, its priority or its pin.
    pub fn start(cores: &[usize]) -> io::Result<KeepAwake> {
        let mut awake = KeepAwake { held: hold_latency(), stop: Arc::default(), threads: Vec::new() };
        if awake.held.is_none() {
            let cores = if cores.is_empty() { allowed_cores()? } else { cores.to_vec() };
            for core in cores {
                awake.spin_on(core)?;
            }
        }
        Ok(awake)
    }

    /// How the cores are kept awake, for a note beside the figures.
    pub fn method(&self) -> &'static str {
        if self.held.is_some() { "idle loop held at 0 us" } else { "lowest-priority spinners" }
    }

    /// Whether threads of this process do it: they are always runnable, and count as company wherever that is watched.
    pub fn uses_threads(&self) -> bool {
        !self.threads.is_empty()
    }

    fn spin_on(&mut self, core: usize) -> io::Result<()> {
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let stop = Arc::clone(&self.stop);
        let spinner = move || {
            let _known = Spinner::new();
            // Lowest first: a spinner must never run on a measured core at ordinary priority.
            let set_up =
                rustix::process::nice(LOWEST).map_err(io::Error::from).and_then(|_| pin_to_core(core));
            let spin = set_up.is_ok();
            let _ = ready.send(set_up);
            while spin && !stop.load(Ordering::Relaxed) {
                for _ in 0..SPINS_PER_YIELD {
                    std::hint::spin_loop();
                }
                std::thread::yield_now();
            }
        };
        self.threads.push(std::thread::Builder::new().name(format!("awake-{core}")).spawn(spinner)?);
        is_ready.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }
}

fn hold_latency() -> Option<File> {
    if !Path::new(IDLE_STATES).exists() {
        return None;
    }
    let mut file = OpenOptions::new().write(true).open(LATENCY_FILE).ok()?;
    file.write_all(&0i32.to_ne_bytes()).ok()?;
    Some(file)
}

impl Drop for KeepAwake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_testing::{Needs, skip};

    /// Times that any core entered an idle state that it has to be woken from.
    fn sleeps() -> u64 {
        let mut sum = 0;
        for core in allowed_cores().unwrap() {
            for state in 1.. {
                let path = format!("/sys/devices/system/cpu/cpu{core}/cpuidle/state{state}/usage");
                let Ok(text) = std::fs::read_to_string(path) else { break };
                sum += text.trim().parse::<u64>().unwrap();
            }
        }
        sum
    }

    #[test]
    fn no_core_sleeps_while_the_idle_loop_is_held() {
        let awake = KeepAwake::start(&[]).unwrap();
        if awake.uses_threads() {
            return skip(Needs::Machine, "holding the idle loop needs root and idle states");
        }
        // Cores that are asleep at this moment leave once more.
        std::thread::sleep(Duration::from_millis(20).into());
        let before = sleeps();
        std::thread::sleep(Duration::from_millis(100).into());
        assert_eq!(sleeps(), before);
        assert_eq!(awake.method(), "idle loop held at 0 us");
    }

    #[test]
    fn spinners_of_ours_are_nobodys_company() {
        let report = |reasons: &[&str]| ContentionReport {
            contended: !reasons.is_empty(),
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
            window_ns: 2_000_000_000,
            involuntary_switches: 0,
            steal_percent: None,
            pressure_percent: None,
            others_percent: None,
        };
        let waited = [format!("{OVERSUBSCRIBED}: x"), format!("{WAITED}: y")];
        let waited = report(&[&waited[0], &waited[1]]);
        let few = [("client", Some(100)), ("server", None)];
        assert!(!beside_spinners(waited.clone(), &few).contended, "{waited:?}");
        let many = beside_spinners(waited.clone(), &[("client", Some(100)), ("server", Some(900))]);
        assert_eq!(many.reasons, [format!("{WAITED}: server switched out 450/s (limit 200/s)")]);
        let stolen = report(&["stolen: z"]);
        assert_eq!(beside_spinners(stolen.clone(), &few), stolen);
        assert_eq!(super::stolen(report(&["waited: y", "stolen: z"])), ["stolen: z"]);
        // Without spinners all of it counts.
        assert_eq!(Settled(None).judged(waited.clone(), &few), waited);
    }

    #[test]
    fn spinners_run_at_the_lowest_priority_and_stop() {
        let core = allowed_cores().unwrap()[0];
        let mut awake = KeepAwake { held: None, stop: Arc::default(), threads: Vec::new() };
        awake.spin_on(core).unwrap();
        assert!(awake.uses_threads());
        let name = format!("awake-{core}");
        let task = std::fs::read_dir("/proc/self/task")
            .unwrap()
            .map(|e| e.unwrap().path())
            .find(|p| std::fs::read_to_string(p.join("comm")).is_ok_and(|c| c.trim() == name))
            .expect("the spinner runs");
        let stat = std::fs::read_to_string(task.join("stat")).unwrap();
        // proc(5): nice is field 19, the 17th after the parenthesised name.
        let nice = stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap();
        assert_eq!(nice, "19");
        drop(awake);
        // The thread is joined when it can do no more; its entry in /proc goes a moment later.
        let gone = (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(1).into());
            !task.exists()
        });
        assert!(gone);
        let mut awake = KeepAwake { held: None, stop: Arc::default(), threads: Vec::new() };
        assert!(awake.spin_on(8_000).is_err());
    }
}
