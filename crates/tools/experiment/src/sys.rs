//! The system calls that std has no safe form of. Everything unsafe of this crate is here.
#![allow(unsafe_code)]

use rustix::process::Signal;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts the command so that the kernel sends it `signal` when the **thread** that calls this ends, however it does. The program
/// leads a process group of its own.
pub(crate) fn start_tied(command: &mut Command, signal: Signal) -> io::Result<Child> {
    let parent = rustix::process::getpid();
    let tie = move || {
        rustix::process::set_parent_process_death_signal(Some(signal))?;
        // It may have ended before the tie was made.
        match rustix::process::getppid() {
            Some(now) if now == parent => Ok(()),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes two system calls, allocates nothing and takes no lock.
    unsafe { command.pre_exec(tie) };
    command.spawn()
}
