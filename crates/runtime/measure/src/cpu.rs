//! CPU time of threads, processes and cores: what an operation costs besides time.

use crate::{proc_text, sys};
use std::fs;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Ns of a tick of `/proc`: `USER_HZ` is 100 on every architecture that this runs on.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// How long a receive call on `socket` polls its device before it sleeps, in us (man 7 socket, `SO_BUSY_POLL`). The kernel polls where
/// the device's driver can.
///
/// # Errors
/// What the kernel says: more than `net.core.busy_read` needs `CAP_NET_ADMIN`.
pub fn set_busy_poll(socket: BorrowedFd<'_>, us: u32) -> io::Result<()> {
    sys::set_busy_poll(socket, us)
}

/// Who runs: its CPU time can be read while it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// A thread of this process, by the kernel's number.
    Thread(u32),
    /// A process with all of its threads that live.
    Process(u32),
}

/// CPU time in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskTime {
    /// On a core, as the scheduler counts it, to the ns.
    pub run_ns: u64,
    /// The share of it in user space, as ticks say it.
    pub user_ns: u64,
    /// The share of it in the kernel.
    pub system_ns: u64,
}

impl TaskTime {
    /// So much on a core, shared as ticks were.
    fn of_run(run_ns: u64, user_ticks: u64, system_ticks: u64) -> TaskTime {
        let ticks = user_ticks + system_ticks;
        let user_ns = if ticks == 0 { 0 } else { (run_ns as f64 * user_ticks as f64 / ticks as f64) as u64 };
        TaskTime { run_ns, user_ns, system_ns: run_ns - user_ns.min(run_ns) }
    }

    /// What was spent from `earlier` to this reading. Its parts are the whole, always: the shares are those of all ticks so far, so one of
    /// them can be smaller in the later reading.
    pub fn since(&self, earlier: &TaskTime) -> TaskTime {
        let run_ns = self.run_ns.saturating_sub(earlier.run_ns);
        let user_ns = self.user_ns.saturating_sub(earlier.user_ns).min(run_ns);
        TaskTime { run_ns, user_ns, system_ns: run_ns - user_ns }
    }

    /// Both together.
    pub fn plus(&self, other: &TaskTime) -> TaskTime {
        TaskTime {
            run_ns: self.run_ns + other.run_ns,
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
        }
    }
}

impl Task {
    /// The calling thread.
    pub fn current() -> io::Result<Task> {
        let link = fs::read_link("/proc/thread-self")?;
        let number = link.file_name().and_then(|name| name.to_str()?.parse().ok());
        number.map(Task::Thread).ok_or_else(|| io::Error::other("/proc/thread-self names no thread"))
    }

    /// Its time so far.
    ///
    /// # Errors
    /// When it is gone, or `/proc` is not there.
    pub fn time(&self) -> io::Result<TaskTime> {
        match self {
            Task::Thread(id) => thread_time(&PathBuf::from(format!("/proc/self/task/{id}"))),
            Task::Process(id) => {
                let mut sum = TaskTime::default();
                for thread in fs::read_dir(format!("/proc/{id}/task"))? {
                    // One that ended between the listing and the reading has nothing to say.
                    if let Ok(time) = thread_time(&thread?.path()) {
                        sum = sum.plus(&time);
                    }
                }
                Ok(sum)
            }
        }
    }
}

/// The CPU time of this process and of all that it started, threads and processes that ended included (those processes once they were
/// waited for). Good to a few hundredths of a second where a process ended, to the us otherwise.
///
/// # Errors
/// When `/proc` is not there.
pub fn family_time() -> io::Result<TaskTime> {
    let strange = || io::Error::from(io::ErrorKind::InvalidData);
    let stat = fs::read_to_string("/proc/self/stat")?;
    let [user, system, ended_user, ended_system] = proc_text::all_ticks(&stat).ok_or_else(strange)?;
    // The clock has the time of threads that ended, too, to the ns; only the shares are of ticks.
    let own = TaskTime::of_run(sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID), user, system);
    let ended = TaskTime {
        run_ns: (ended_user + ended_system) * TICK_NS,
        user_ns: ended_user * TICK_NS,
        system_ns: ended_system * TICK_NS,
    };
    let mut sum = own.plus(&ended);
    let mut waiting = children(std::process::id())?;
    while let Some(id) = waiting.pop() {
        // One that ended between the listing and the reading is waited for, or its parent's.
        if let Ok(time) = Task::Process(id).time() {
            sum = sum.plus(&time);
            waiting.extend(children(id).unwrap_or_default());
        }
    }
    Ok(sum)
}

/// The processes that the threads of `process` started.
fn children(process: u32) -> io::Result<Vec<u32>> {
    let mut all = Vec::new();
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may end meanwhile, and a kernel without CONFIG_PROC_CHILDREN does not tell.
        let Ok(text) = fs::read_to_string(thread?.path().join("children")) else { continue };
        all.extend(text.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    Ok(all)
}

fn thread_time(folder: &Path) -> io::Result<TaskTime> {
    let strange = || io::Error::from(io::ErrorKind::InvalidData);
    let stat = fs::read_to_string(folder.join("stat"))?;
    let (user, system) = proc_text::user_and_system_ticks(&stat).ok_or_else(strange)?;
    let ticks = (user + system) * TICK_NS;
    let run_ns = match fs::read_to_string(folder.join("schedstat")) {
        Ok(text) => proc_text::run_ns(&text).ok_or_else(strange)?,
        // A kernel without CONFIG_SCHED_INFO.
        Err(_) => ticks,
    };
    Ok(TaskTime::of_run(run_ns, user, system))
}

/// What cores did besides idling, in ns. From ticks: good to a few hundredths of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreTime {
    /// Programs, and the kernel for them.
    pub worked_ns: u64,
    /// Hard and soft interrupts, whoever they came to.
    pub interrupts_ns: u64,
    /// What the kernel's own threads for soft interrupts ran: no task of ours has it. They are not to be seen from within a container.
    pub interrupt_threads_ns: u64,
    /// `interrupts_ns` is not part of any task's time: the kernel takes it out (`CONFIG_IRQ_TIME_ACCOUNTING`).
    pub interrupts_are_apart: bool,
}

impl CoreTime {
    /// The time of `cores` so far; of all where none is named. `None` without `/proc/stat`.
    pub fn of(cores: &[usize]) -> Option<CoreTime> {
        let ticks = proc_text::core_ticks(&fs::read_to_string("/proc/stat").ok()?, cores)?;
        Some(CoreTime {
            worked_ns: ticks.worked * TICK_NS,
            interrupts_ns: ticks.interrupts * TICK_NS,
            interrupt_threads_ns: interrupt_threads_ns(cores),
            interrupts_are_apart: interrupts_are_apart(),
        })
    }

    /// What was spent from `earlier` to this reading.
    pub fn since(&self, earlier: &CoreTime) -> CoreTime {
        CoreTime {
            worked_ns: self.worked_ns.saturating_sub(earlier.worked_ns),
            interrupts_ns: self.interrupts_ns.saturating_sub(earlier.interrupts_ns),
            interrupt_threads_ns: self.interrupt_threads_ns.saturating_sub(earlier.interrupt_threads_ns),
            interrupts_are_apart: self.interrupts_are_apart,
        }
    }
}

/// What `ksoftirqd/N` of `cores` (of all where none is named) ran so far.
fn interrupt_threads_ns(cores: &[usize]) -> u64 {
    /// Core and process number of each.
    static FOUND: OnceLock<Vec<(usize, u32)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
        let ids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let serves = |id: u32| {
            let name = fs::read_to_string(format!("/proc/{id}/comm")).ok()?;
            Some((name.trim().strip_prefix("ksoftirqd/")?.parse().ok()?, id))
        };
        ids.filter_map(serves).collect()
    });
    let wanted = found.iter().filter(|(core, _)| cores.is_empty() || cores.contains(core));
    wanted.map(|(_, id)| Task::Process(*id).time().map_or(0, |time| time.run_ns)).sum()
}

/// Read once: a kernel does not change its configuration. Where it is not told, interrupts count as part of the tasks' time, as the
/// kernel's own default has it.
fn interrupts_are_apart() -> bool {
    static APART: OnceLock<bool> = OnceLock::new();
    *APART.get_or_init(|| {
        let packed = || -> io::Result<String> {
            let mut text = String::new();
            flate2::read::GzDecoder::new(fs::File::open("/proc/config.gz")?).read_to_string(&mut text)?;
            Ok(text)
        };
        let installed = || -> io::Result<String> {
            let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
            fs::read_to_string(format!("/boot/config-{}", release.trim()))
        };
        packed().or_else(|_| installed()).is_ok_and(|text| proc_text::interrupts_are_apart(&text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::stamp;

    #[test]
    fn parts_of_a_difference_are_the_whole() {
        // Its first ticks were the user's, the others the kernel's: the user's share of all shrinks.
        let [first, later] = [TaskTime::of_run(30_000_000, 3, 0), TaskTime::of_run(32_000_000, 3, 1)];
        assert!(later.user_ns < first.user_ns, "{later:?}");
        assert_eq!(later.since(&first), TaskTime { run_ns: 2_000_000, user_ns: 0, system_ns: 2_000_000 });
        // The other way round, and a thread that has ended in between.
        let [first, later] = [TaskTime::of_run(30_000_000, 0, 3), TaskTime::of_run(32_000_000, 1, 3)];
        assert_eq!(later.since(&first), TaskTime { run_ns: 2_000_000, user_ns: 2_000_000, system_ns: 0 });
        assert_eq!(first.since(&later), TaskTime::default());
    }

    #[test]
    fn a_thread_that_works_is_charged_and_one_that_sleeps_is_not() {
        let (tell, hear) = std::sync::mpsc::channel();
        let (end, until) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(Task::current().unwrap()).unwrap();
            let _ = until.recv();
        });
        let asleep = hear.recv().unwrap();
        let awake = Task::current().unwrap();
        let process = Task::Process(std::process::id());
        let (before, slept) = (awake.time().unwrap(), asleep.time().unwrap());
        // Until it has had so much CPU, whatever the machine gives it.
        let mut spent = TaskTime::default();
        let began = stamp();
        while spent.run_ns < 50_000_000 {
            spent = awake.time().unwrap().since(&before);
        }
        let wall = stamp().since(began).as_nanos();
        assert!(spent.run_ns <= wall + 2 * TICK_NS, "{spent:?} of {wall} ns");
        assert_eq!(spent.user_ns + spent.system_ns, spent.run_ns);
        assert!(asleep.time().unwrap().since(&slept).run_ns < spent.run_ns / 2);
        // A process is the sum of its threads that live: of other tests, too, so it may shrink, but not below one of them.
        let mine = awake.time().unwrap();
        assert!(process.time().unwrap().run_ns >= mine.run_ns);
        drop(end);
        sleeper.join().unwrap();
        assert!(asleep.time().is_err(), "who is gone has no time");
    }

    #[test]
    fn a_family_is_charged_for_threads_and_processes_that_ended() {
        let before = family_time().unwrap();
        let spin = || {
            let (task, mut spent) = (Task::current().unwrap(), 0);
            let before = task.time().unwrap();
            while spent < 30_000_000 {
                spent = task.time().unwrap().since(&before).run_ns;
            }
        };
        std::thread::spawn(spin).join().unwrap();
        let after_thread = family_time().unwrap().since(&before);
        // Other tests run in this process: it has no upper bound.
        assert!(after_thread.run_ns >= 30_000_000, "{after_thread:?}");
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", "read -r line"]).stdin(std::process::Stdio::piped());
        let mut child = shell.spawn().unwrap();
        assert!(children(std::process::id()).unwrap().contains(&child.id()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!children(std::process::id()).unwrap().contains(&child.id()));
        assert_eq!(
            proc_text::all_ticks("7 (a ) b) R 1 2 3 4 5 6 7 8 9 10 31 32 33 34 0"),
            Some([31, 32, 33, 34])
        );
        assert_eq!(proc_text::all_ticks("7 (a) R 1 2"), None);
    }

    #[test]
    fn cores_are_told_apart() {
        let text =
            "cpu  10 0 5 100 0 1 2 0 0 0\ncpu0 6 0 3 50 0 1 0 0 0 0\ncpu1 4 1 2 50 0 0 2 7 0 0\nintr 1\n";
        let of = |cores: &[usize]| proc_text::core_ticks(text, cores).map(|t| (t.worked, t.interrupts));
        assert_eq!(of(&[0]), Some((9, 1)));
        assert_eq!(of(&[1]), Some((7, 2)));
        assert_eq!(of(&[]), Some((16, 3)));
        assert_eq!(of(&[4]), None);
        assert_eq!(
            proc_text::user_and_system_ticks("7 (a ) b) R 1 2 3 4 5 6 7 8 9 10 31 32 0"),
            Some((31, 32))
        );
        assert!(proc_text::interrupts_are_apart("# x\nCONFIG_IRQ_TIME_ACCOUNTING=y\n"));
        assert!(!proc_text::interrupts_are_apart("# CONFIG_IRQ_TIME_ACCOUNTING is not set\n"));
        assert!(CoreTime::of(&[]).is_some());
    }
}
