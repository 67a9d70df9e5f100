//! Processes and what comes of them, by what the kernel tells under `/proc`: finding all of a tree, and ending it.

use barewire_base::Duration;
use barewire_measure::stamp;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::fd::OwnedFd;

/// How long processes may take to end when they are asked to.
const ASKED_WAIT: Duration = Duration::from_secs(1);
/// How long the kernel may take to end those that are killed.
const KILLED_WAIT: Duration = Duration::from_secs(4);
/// Between two looks.
const LOOK: std::time::Duration = std::time::Duration::from_millis(10);

/// A process, as `/proc/PID/stat` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// In clock ticks since the machine came up: with the id, it names a process for ever.
    started: u64,
    /// It has ended, and its parent has not asked for it yet.
    zombie: bool,
}

fn stat_of(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything, also brackets.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Stat { parent, started, zombie: matches!(state, "Z" | "X") })
}

/// When a process started, in clock ticks; `None` when there is none (or only its remains).
pub(crate) fn started_at(pid: u32) -> Option<u64> {
    stat_of(pid).filter(|stat| !stat.zombie).map(|stat| stat.started)
}

fn all() -> HashMap<u32, Stat> {
    pids().filter_map(|pid| Some((pid, stat_of(pid)?))).collect()
}

/// Every process that can be seen from here.
pub(super) fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Which processes are meant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family<'a> {
    /// Everything below this process.
    Below(u32),
    /// Everything whose first environment has this variable, as `NAME=VALUE`.
    Marked(&'a str),
}

impl Family<'_> {
    fn members(self) -> Vec<(u32, Stat)> {
        let all = all();
        let me = std::process::id();
        match self {
            Family::Below(root) => {
                let mut inside: HashSet<u32> = HashSet::from([root]);
                // As deep as the tree is: children are seldom listed before their parents.
                loop {
                    let more: Vec<u32> = all
                        .iter()
                        .filter(|(pid, stat)| !inside.contains(pid) && inside.contains(&stat.parent))
                        .map(|(pid, _)| *pid)
                        .collect();
                    if more.is_empty() {
                        break;
                    }
                    inside.extend(more);
                }
                inside.remove(&root);
                inside.into_iter().filter_map(|pid| Some((pid, *all.get(&pid)?))).collect()
            }
            Family::Marked(mark) => {
                let marked = |pid: &u32| {
                    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                    environment.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes())
                };
                all.into_iter().filter(|(pid, _)| *pid != me && marked(pid)).collect()
            }
        }
    }
}

fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// A descriptor that names the process also when its id is another's.
fn hold(pid: u32, stat: Stat) -> Option<OwnedFd> {
    let fd = rustix::process::pidfd_open(pid_of(pid)?, PidfdFlags::empty()).ok()?;
    (stat_of(pid)?.started == stat.started).then_some(fd)
}

/// What ending a family came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Processes that were ended.
    pub(crate) ended: u32,
    /// Processes that the kernel did not end in time.
    pub(crate) left: u32,
}

/// Ends all of a family, asks first, kills then, until none is left: also those that its members start meanwhile. Remains of
/// processes that have become ours are collected, but for those in `mine`, which somebody here waits for.
pub(crate) fn end(family: Family<'_>, mine: &dyn Fn(u32) -> bool) -> Ended {
    let began = stamp();
    let mut asked: HashSet<(u32, u64)> = HashSet::new();
    let mut killed = HashSet::new();
    loop {
        let me = std::process::id();
        let members = family.members();
        for (pid, stat) in &members {
            if stat.zombie && stat.parent == me && !mine(*pid) {
                let _ = pid_of(*pid).map(|pid| rustix::process::waitpid(Some(pid), WaitOptions::NOHANG));
            }
        }
        let alive: Vec<&(u32, Stat)> = members.iter().filter(|(_, stat)| !stat.zombie).collect();
        let counts =
            |left: usize| Ended { ended: (asked.len() - left.min(asked.len())) as u32, left: left as u32 };
        if alive.is_empty() {
            return counts(0);
        }
        let waited = stamp().since(began);
        if waited > KILLED_WAIT {
            return counts(alive.len());
        }
        for (pid, stat) in alive {
            let who = (*pid, stat.started);
            let signal = match waited < ASKED_WAIT {
                true if asked.insert(who) => Signal::TERM,
                false if killed.insert(who) => Signal::KILL,
                _ => continue,
            };
            asked.insert(who);
            if let Some(fd) = hold(*pid, *stat) {
                // Gone already is as good. A stopped process must go on in order to end.
                let _ = rustix::process::pidfd_send_signal(&fd, signal);
                let _ = rustix::process::pidfd_send_signal(&fd, Signal::CONT);
            }
        }
        std::thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn who_has_left_the_group_and_ignores_the_question_is_ended_by_its_mark() {
        let mark = format!("BW_TEST_MARK={}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; sleep 50 & wait' & echo $$; wait";
        let mut child =
            Command::new("sh").args(["-c", script]).env(name, value).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let pids: Vec<u32> = (0..2).map(|_| lines.next().unwrap().unwrap().parse().unwrap()).collect();
        assert!(pids.iter().all(|pid| started_at(*pid).is_some()));
        let id = child.id();
        let ended = end(Family::Marked(&mark), &|pid| pid == id);
        assert!(ended.ended >= 3 && ended.left == 0, "{ended:?}");
        assert!(pids.iter().all(|pid| started_at(*pid).is_none()));
        child.wait().unwrap();
        assert_eq!(end(Family::Marked(&mark), &|_| false), Ended::default());
    }

    #[test]
    fn below_a_process_is_its_tree_and_nobody_else() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 40 & sh -c 'sleep 41 & wait' & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        BufReader::new(child.stdout.take().unwrap()).lines().next();
        let mut others = Command::new("sleep").arg("42").spawn().unwrap();
        while Family::Below(child.id()).members().len() < 3 {
            std::thread::sleep(LOOK);
        }
        let ended = end(Family::Below(child.id()), &|_| true);
        assert_eq!(ended.left, 0);
        assert!(started_at(others.id()).is_some());
        others.kill().unwrap();
        others.wait().unwrap();
        child.wait().unwrap();
    }
}
