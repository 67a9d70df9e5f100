//! The system calls that neither std nor rustix has a safe form of. Everything unsafe of this crate is here.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the command lead a process group of its own, in the foreground of the terminal at its standard input if that is
/// one, as a shell does with its jobs.
pub(crate) fn start_as_job(command: &mut Command, terminal: bool) {
    let become_job = move || {
        rustix::process::setpgid(None, None)?;
        if terminal {
            foreground_us()?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only, allocates nothing and takes no lock.
    unsafe { command.pre_exec(become_job) };
}

/// The process group in the foreground of the terminal at our standard input; `None` when that is no terminal of ours.
pub(crate) fn foreground() -> Option<rustix::process::Pid> {
    rustix::termios::tcgetpgrp(io::stdin()).ok()
}

/// Puts the calling process's group into the foreground of the terminal at its standard input.
pub(crate) fn foreground_us() -> io::Result<()> {
    // The kernel stops a background process that asks for this, unless it ignores that signal.
    // SAFETY: SIG_IGN is no function, so nothing of ours can run on the signal.
    let before = unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
    let done = rustix::termios::tcsetpgrp(io::stdin(), rustix::process::getpgrp());
    // SAFETY: puts back what was there.
    unsafe { libc::signal(libc::SIGTTOU, before) };
    done.map_err(io::Error::from)
}
