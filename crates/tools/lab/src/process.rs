//! Finding and ending the processes of a lab, and nobody else's.

use crate::state::ProcessState;
use barewire_engine::Owner;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// How long processes may take to end when they are asked to.
const ASKED_WAIT: Duration = Duration::from_secs(2);
/// How long the kernel may take to end those that are killed.
const KILLED_WAIT: Duration = Duration::from_secs(5);
/// How often processes are looked for again, since those that are there may start others.
const ROUNDS: usize = 5;

/// A network namespace by the file that it is: device and inode. Unique as long as the namespace lives, so whoever keeps one
/// must keep the namespace too.
pub(crate) type NetId = (u64, u64);

/// The namespace that `path` is a name of, or shows.
pub(crate) fn net_id(path: &Path) -> io::Result<NetId> {
    fs::metadata(path).map(|m| (m.dev(), m.ino()))
}

/// A process that cannot become another: its descriptor names it also when its id is in use again.
struct Held {
    pid: u32,
    fd: OwnedFd,
}

fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn hold(pid: u32) -> Option<Held> {
    let fd = rustix::process::pidfd_open(pid_of(pid)?, PidfdFlags::empty()).ok()?;
    Some(Held { pid, fd })
}

impl Held {
    fn send(&self, signal: Signal) {
        // Gone already is as good.
        let _ = rustix::process::pidfd_send_signal(&self.fd, signal);
    }

    /// Whether the process has ended within `wait`. Its parent may not have asked for it yet.
    fn has_ended(&self, wait: Duration) -> bool {
        let timeout = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(n) if n > 0)
    }
}

/// This process and all from which it comes: they are not ended by the lab that one of them happens to run in.
fn ancestors() -> HashSet<u32> {
    let mut found = HashSet::new();
    let mut pid = std::process::id();
    while pid > 0 && found.insert(pid) {
        let parent = |text: String| text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok();
        pid = fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(parent).unwrap_or(0);
    }
    found
}

/// Every process inside one of these namespaces.
fn inside(namespaces: &HashSet<NetId>) -> Vec<Held> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let net = |pid| net_id(Path::new(&format!("/proc/{pid}/ns/net")));
        // Looked at before, as most are elsewhere, and after: what the descriptor names is then surely inside.
        net(pid).ok().filter(|net| namespaces.contains(net))?;
        let held = hold(pid)?;
        net(pid).ok().filter(|net| namespaces.contains(net))?;
        Some(held)
    })
    .collect()
}

/// Ends the recorded processes, if they are still the same, and every process inside the namespaces: asks first, kills
/// then. Says how many ended, and which are left: ancestors of this process, which are left alone, and what the kernel did
/// not end in time.
pub(crate) fn end_all(recorded: &[ProcessState], namespaces: &HashSet<NetId>) -> (usize, Vec<u32>) {
    let spared = ancestors();
    let mut ended = 0;
    let mut left = Vec::new();
    for round in 0..ROUNDS {
        let mut found = inside(namespaces);
        if round == 0 {
            for process in recorded {
                let owner = process.owner();
                let known = found.iter().any(|held| held.pid == owner.pid);
                // Held first, compared then: the descriptor names the process that was compared.
                if let Some(held) = (!known).then(|| hold(owner.pid)).flatten()
                    && Owner::of(owner.pid) == Some(owner)
                {
                    found.push(held);
                }
            }
        }
        left = found.iter().map(|held| held.pid).filter(|pid| spared.contains(pid)).collect();
        found.retain(|held| !spared.contains(&held.pid));
        if found.is_empty() {
            break;
        }
        found.iter().for_each(|held| held.send(Signal::TERM));
        let slow: Vec<&Held> = wait_all(found.iter().collect(), ASKED_WAIT);
        slow.iter().for_each(|held| held.send(Signal::KILL));
        let stuck = wait_all(slow, KILLED_WAIT);
        ended += found.len() - stuck.len();
        left.extend(stuck.iter().map(|held| held.pid));
        for held in &found {
            // Those that this very process started would stay as zombies.
            if let Some(pid) = pid_of(held.pid) {
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    }
    (ended, left)
}

/// Waits for all of them together; those that are left when the time is up.
fn wait_all(mut held: Vec<&Held>, wait: Duration) -> Vec<&Held> {
    const SLICE: Duration = Duration::from_millis(10);
    let slices = wait.as_millis() / SLICE.as_millis();
    for _ in 0..slices {
        held.retain(|held| !held.has_ended(Duration::ZERO));
        let Some(first) = held.first() else { break };
        first.has_ended(SLICE);
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn state(pid: u32, started: u64) -> ProcessState {
        ProcessState { what: "test".into(), namespace: String::new(), pid, started, log: None }
    }

    #[test]
    fn a_recorded_process_is_ended_and_one_that_only_has_its_id_is_not() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let owner = Owner::of(child.id()).unwrap();
        let nowhere = HashSet::new();
        assert_eq!(end_all(&[state(owner.pid, owner.start_ticks + 1)], &nowhere), (0, vec![]));
        assert!(child.try_wait().unwrap().is_none(), "it has another start time: not ours");
        assert_eq!(end_all(&[state(owner.pid, owner.start_ticks)], &nowhere), (1, vec![]));
        assert_eq!(Owner::of(owner.pid), None);
        // It was waited for already, so that no zombie stays.
        assert!(child.try_wait().is_err());
    }

    #[test]
    fn we_and_our_parents_are_spared() {
        let ours = ancestors();
        assert!(ours.contains(&std::process::id()) && ours.contains(&1));
        let me = Owner::current();
        assert_eq!(end_all(&[state(me.pid, me.start_ticks)], &HashSet::new()), (0, vec![me.pid]));
    }

    #[test]
    fn who_ignores_the_question_is_killed() {
        // The shell tells when it ignores the signal; before that it would simply die of it.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]);
        let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = [0; 6];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        let owner = Owner::of(child.id()).unwrap();
        assert_eq!(end_all(&[state(owner.pid, owner.start_ticks)], &HashSet::new()), (1, vec![]));
        assert!(child.wait().is_err(), "waited for already");
    }
}
