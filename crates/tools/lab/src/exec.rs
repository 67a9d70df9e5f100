//! A program in a host, as a job of ours.

use crate::{LabError, sys};
use barewire_netns::Namespace;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};

/// How often a waiting parent looks whether it has a signal to hand on, when none interrupts its sleep.
const LOOK_NS: i64 = 50_000_000;

/// A program that runs in a host, as the leader of a process group of its own, in the foreground of our terminal if our
/// standard input is one and we are in its foreground: a job that a shell started with `&` takes nothing. Dropping it leaves
/// it running.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pid: Pid,
    fd: OwnedFd,
    /// We gave it our terminal.
    terminal: bool,
}

impl Running {
    pub(crate) fn start(namespace: &Namespace, node: &str, argv: &[OsString]) -> Result<Running, LabError> {
        let (program, arguments) = argv.split_first().ok_or_else(|| LabError::Program {
            what: format!("a program in {node}"),
            why: "none was named".into(),
        })?;
        let failed = |e: io::Error| LabError::Program {
            what: format!("{} in {node}", program.display()),
            why: e.to_string(),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        // The group first: what is in the foreground must be it.
        let terminal = sys::foreground() == Some(rustix::process::getpgrp());
        sys::start_as_job(&mut command, terminal);
        let mut start = || {
            let child = namespace.spawn_in(&mut command)?;
            let pid = Pid::from_child(&child);
            // It cannot be another's: nobody has waited for it.
            let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
            Ok(Running { child, pid, fd, terminal })
        };
        start().map_err(|error| {
            // A program that did not start has taken the terminal all the same, before it was found missing.
            if terminal {
                let _ = sys::foreground_us();
            }
            failed(error)
        })
    }

    /// The program's process, which is also the number of its process group.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program and all that it started in its group.
    ///
    /// # Errors
    /// What the system says; an unknown signal is [`io::ErrorKind::InvalidInput`].
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
        rustix::process::kill_process_group(self.pid, signal).map_err(io::Error::from)
    }

    /// Waits until the program ends, and says its exit code; 128 and the signal's number when a signal ended it, as shells
    /// do. `pending` is asked now and then, and whenever a signal interrupts the wait, for signals to hand on to the
    /// program's group, until it has no more.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(mut self, mut pending: impl FnMut() -> Option<i32>) -> io::Result<i32> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK_NS };
        loop {
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            let ended = matches!(rustix::event::poll(&mut fds, Some(&timeout)), Ok(n) if n > 0);
            if ended {
                break;
            }
            while let Some(signal) = pending() {
                match self.signal(signal) {
                    // It ended in between: the next look will see it.
                    Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
                    other => other?,
                }
            }
        }
        let status = self.child.wait()?;
        Ok(status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(1))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Whoever else has it by now, a shell that we were stopped in, say, keeps it.
        if self.terminal && sys::foreground() == Some(self.pid) {
            // The terminal may be gone; nobody to tell.
            let _ = sys::foreground_us();
        }
    }
}
