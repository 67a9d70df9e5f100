//! The system calls that std has no safe form of. Everything unsafe of this crate is here.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::Arc;

fn check(rc: libc::c_int) -> io::Result<()> {
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves the calling thread into a new network namespace.
pub(crate) fn unshare_net() -> io::Result<()> {
    // SAFETY: takes no pointer; a network namespace is nothing that memory safety rests on.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

/// Moves the calling thread into a network namespace.
pub(crate) fn set_net(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointer, and the descriptor is open for the call.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
}

/// Makes `target` show what `source` is.
pub(crate) fn bind_mount(source: &CStr, target: &CStr, recursive: bool) -> io::Result<()> {
    let flags = libc::MS_BIND | if recursive { libc::MS_REC } else { 0 };
    // SAFETY: both paths end with a zero and live through the call; a bind mount takes no type and no data.
    check(unsafe { libc::mount(source.as_ptr(), target.as_ptr(), ptr::null(), flags, ptr::null()) })
}

/// Lets mounts below the mount point `target` and their ends reach every copy of it in other mount namespaces. `EINVAL`
/// when `target` is no mount point.
pub(crate) fn make_shared(target: &CStr) -> io::Result<()> {
    let flags = libc::MS_SHARED | libc::MS_REC;
    // SAFETY: both paths end with a zero and live through the call; a change of propagation takes no type and no data.
    check(unsafe { libc::mount(c"none".as_ptr(), target.as_ptr(), ptr::null(), flags, ptr::null()) })
}

/// Takes the topmost mount off `target`, never through a symbolic link. `EINVAL` when there is none.
pub(crate) fn unmount(target: &CStr) -> io::Result<()> {
    // SAFETY: the path ends with a zero and lives through the call.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) })
}

/// Makes the command start in `namespace`.
pub(crate) fn start_in(command: &mut Command, namespace: Arc<OwnedFd>) {
    // SAFETY: between fork and exec the closure makes one system call, allocates nothing and takes no lock. It owns its
    // share of the descriptor, which is therefore open whenever the command is spawned.
    unsafe { command.pre_exec(move || set_net(namespace.as_fd())) };
}

/// Makes the command lead a session of its own: no terminal, and a process group of its own.
pub(crate) fn start_apart(command: &mut Command) {
    // SAFETY: between fork and exec the closure makes one system call, allocates nothing and takes no lock.
    unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from)) };
}

/// Makes the command lead a process group of its own, in the foreground of the terminal at its standard input if that is
/// one, as a shell does with its jobs.
pub(crate) fn start_as_job(command: &mut Command, terminal: bool) {
    let become_job = move || {
        // SAFETY: takes no pointer; a child that has not called exec yet may always lead a group of its own.
        check(unsafe { libc::setpgid(0, 0) })?;
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
    // SAFETY: take no pointer.
    let done = check(unsafe { libc::tcsetpgrp(0, libc::getpgrp()) });
    // SAFETY: puts back what was there.
    unsafe { libc::signal(libc::SIGTTOU, before) };
    done
}

/// Gets or sets one number of an interface by the ioctl `SIOCETHTOOL` (`struct ethtool_value`, linux/ethtool.h), in the
/// network namespace that `socket` was made in. `name` must be shorter than 16 bytes.
pub(crate) fn ethtool_value(socket: BorrowedFd<'_>, name: &str, command: u32, value: u32) -> io::Result<u32> {
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut argument = Value { command, data: value };
    // SAFETY: ifreq is plain bytes, integers and pointers; all zeroes are valid for each member of its union.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero: the kernel reads a string.
    let room = request.ifr_name.len() - 1;
    if name.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut argument).cast();
    // SAFETY: `request` lives through the call and points at `argument`, which does too. The commands used here read
    // and write a `struct ethtool_value` there, as long as `Value`.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) })?;
    Ok(argument.data)
}
