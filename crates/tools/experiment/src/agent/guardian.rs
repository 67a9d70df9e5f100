//! The guardian: makes the scratch folder, starts the worker, and cleans up when either it or the controller is gone.

use super::{Family, WORKER, end_family, family, own_command};
use crate::sys;
use barewire_base::Duration;
use barewire_measure::{realtime_ns, stamp};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, io};

/// Between two looks. An agent must not disturb what is measured beside it.
const LOOK: std::time::Duration = std::time::Duration::from_millis(200);
/// How long the worker may take to clean up after itself.
const WORKER_WAIT: Duration = Duration::from_secs(3);
const PREFIX: &str = "barewire-agent-";

pub(super) fn run(stop: &AtomicBool) -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    remove_stale();
    let scratch = make_scratch()?;
    let _held = hold(&scratch);
    let done = guard(&scratch, stop);
    let me = std::process::id();
    end_family(Family::Below(me), &|_| false);
    done.and(give_back(&scratch))
}

/// Runs the cleanup commands that a scratch folder keeps, and removes it, whatever became of them.
pub(super) fn give_back(scratch: &Path) -> io::Result<()> {
    let undone = super::undo::run(scratch).map_err(io::Error::other);
    let removed = match fs::remove_dir_all(scratch) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    };
    undone.and(removed)
}

/// Holds a scratch folder, until what is given back is dropped or the process ends, however it does: nobody takes it for a dead one's.
/// Where the file system has no locks, its owner's life must do.
pub(super) fn hold(scratch: &Path) -> io::Result<File> {
    let folder = File::open(scratch)?;
    folder.lock_shared()?;
    Ok(folder)
}

fn guard(scratch: &Path, stop: &AtomicBool) -> io::Result<()> {
    let (program, arguments) = own_command()?;
    let mut command = Command::new(program);
    command.args(arguments).env(WORKER, scratch);
    // Asked, not killed: it cleans up when we are gone.
    let mut worker = sys::start_tied(&mut command, Signal::TERM)?;
    let pid = Pid::from_child(&worker);
    let mut since = None;
    loop {
        if let Some(status) = worker.try_wait()? {
            return match status.success() {
                true => Ok(()),
                false => Err(io::Error::other(format!("its worker ended: {status}"))),
            };
        }
        if since.is_none() && (stop.load(Ordering::Relaxed) || controller_is_gone()) {
            since = Some(stamp());
            if stop.load(Ordering::Relaxed) {
                let _ = rustix::process::kill_process(pid, Signal::TERM);
            }
            // A stopped worker notices nothing.
            let _ = rustix::process::kill_process(pid, Signal::CONT);
        }
        if since.is_some_and(|since| stamp().since(since) > WORKER_WAIT) {
            worker.kill()?;
            worker.wait()?;
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether nobody holds the other end of our standard input. What comes from it is the worker's to read.
fn controller_is_gone() -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::RDHUP)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL | PollFlags::RDHUP;
    rustix::event::poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(gone)
}

fn make_scratch() -> io::Result<PathBuf> {
    let me = std::process::id();
    let started = family::started_at(me).unwrap_or_default();
    let path = env::temp_dir().join(format!("{}{me}-{started}-{:x}", prefix(), realtime_ns()));
    // Nobody else may look in, and a folder that is there already is somebody else's.
    DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

/// How scratch folders of this machine and this namespace of process numbers begin: the folder for temporary files may be shared
/// with others, whose agents are not seen here.
fn prefix() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace =
        fs::read_link("/proc/self/ns/pid").map(|link| link.display().to_string()).unwrap_or_default();
    format!("{PREFIX}{:08x}-", crc32fast::hash(format!("{boot}{namespace}").as_bytes()))
}

/// Removes scratch folders of agents that were killed before they could.
pub(crate) fn remove_stale() {
    let Ok(entries) = fs::read_dir(env::temp_dir()) else { return };
    let us = rustix::process::geteuid().as_raw();
    let prefix = prefix();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(prefix.as_str())) else { continue };
        let mut numbers = rest.split('-').map(str::parse::<u64>);
        let (Some(Ok(pid)), Some(Ok(started))) = (numbers.next(), numbers.next()) else { continue };
        if u32::try_from(pid).is_ok_and(|pid| family::started_at(pid) == Some(started)) {
            continue;
        }
        let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits() as i32;
        let Ok(folder) = OpenOptions::new().read(true).custom_flags(flags).open(entry.path()) else {
            continue;
        };
        let ours = folder.metadata().is_ok_and(|m| m.is_dir() && m.uid() == us);
        // A worker that outlives its guardian still cleans up, or another agent that starts does already.
        let held = matches!(folder.try_lock(), Err(TryLockError::WouldBlock));
        if ours && !held {
            // Nobody is left to be told.
            let _ = give_back(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_still_cleans_up_is_not_cleaned_up_twice() {
        // As one whose guardian was killed, and whose worker was not.
        let path = env::temp_dir().join(format!("{}{}-1-{:x}", prefix(), u32::MAX, realtime_ns()));
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        let held = hold(&path).unwrap();
        remove_stale();
        assert!(path.exists(), "somebody holds it");
        // The worker holds it as its guardian does.
        let too = hold(&path).unwrap();
        drop(held);
        remove_stale();
        assert!(path.exists(), "another still holds it");
        drop(too);
        remove_stale();
        assert!(!path.exists(), "nobody holds it, and its owner is dead");
    }
}
