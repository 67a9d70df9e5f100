//! The node's slurmd, looked at from a job step of its own: steps outlive it, and nobody else would say that it is gone.

use super::{AS_STEP, family};
use barewire_base::{Duration, Instant};
use std::{env, fs};

/// A new one may take its place: it is restarted for a new version while steps run on.
const RESTART_MAX: Duration = Duration::from_secs(3);

/// A process, known again although numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    started: u64,
}

impl Process {
    fn lives(self) -> bool {
        family::started_at(self.pid) == Some(self.started)
    }
}

/// The daemon that this process is a step of.
#[derive(Debug)]
pub(super) struct Slurmd {
    node: String,
    process: Process,
    gone_since: Option<Instant>,
}

impl Slurmd {
    /// Finds it. `None`: nobody started us as a step, or its daemon is not to be seen from here.
    pub(super) fn find() -> Option<Slurmd> {
        env::var_os(AS_STEP)?;
        let node = env::var("SLURMD_NODENAME").ok()?;
        let process = of_node(&node)?;
        Some(Slurmd { node, process, gone_since: None })
    }

    /// Why the step cannot go on, if it cannot: the daemon is gone, and none came in its place.
    pub(super) fn lost(&mut self, now: Instant) -> Option<String> {
        if self.process.lives() {
            self.gone_since = None;
            return None;
        }
        if let Some(process) = of_node(&self.node) {
            (self.process, self.gone_since) = (process, None);
            return None;
        }
        let since = *self.gone_since.get_or_insert(now);
        (now.since(since) >= RESTART_MAX).then(|| format!("slurmd of node {} is gone", self.node))
    }
}

/// The slurmd that was started for this node or, where none says for which, that has this host's name.
fn of_node(node: &str) -> Option<Process> {
    let is_slurmd =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "slurmd");
    let known = |pid: u32| Some(Process { pid, started: family::started_at(pid)? });
    let mut all: Vec<Process> = family::pids().filter(is_slurmd).filter_map(known).collect();
    // It is older than what it forks.
    all.sort_by_key(|process| process.started);
    let words = |process: &Process| -> Vec<Vec<u8>> {
        let words = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        words.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    };
    let names = |process: &&Process| {
        words(process).windows(2).any(|pair| pair[0] == b"-N" && pair[1] == node.as_bytes())
    };
    let uts = |process: &Process| fs::read_link(format!("/proc/{}/ns/uts", process.pid)).ok();
    let own = fs::read_link("/proc/self/ns/uts").ok();
    if let Some(named) = all.iter().find(names) {
        return Some(*named);
    }
    if all.iter().all(|process| uts(process).is_none()) {
        // A user may not look at them: of daemons that serve one host there is one.
        return all.first().copied();
    }
    all.iter().find(|process| own.is_some() && uts(process) == own).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_gone_may_come_back_for_a_while() {
        let process =
            Process { pid: std::process::id(), started: family::started_at(std::process::id()).unwrap() };
        let mut slurmd = Slurmd { node: "no-such-node".to_owned(), process, gone_since: None };
        let at = |ms| Instant::from_nanos(1) + Duration::from_millis(ms);
        assert_eq!(slurmd.lost(at(0)), None);
        // Another process of the same number.
        slurmd.process.started += 1;
        assert_eq!(slurmd.lost(at(1000)), None);
        assert_eq!(slurmd.lost(at(3900)), None);
        assert_eq!(slurmd.lost(at(4000)).as_deref(), Some("slurmd of node no-such-node is gone"));
        slurmd.process = process;
        assert_eq!(slurmd.lost(at(5000)), None);
        slurmd.process.started += 1;
        assert_eq!(slurmd.lost(at(6000)), None);
    }
}
