//! The system calls that neither std nor rustix has a safe form of. Everything unsafe of this crate is here.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

/// Moves the calling thread into a new network namespace.
pub(crate) fn unshare_net() -> io::Result<()> {
    // SAFETY: takes no pointer; a network namespace is nothing that memory safety rests on.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.map_err(io::Error::from)
}

/// Moves the calling thread into a network namespace.
pub(crate) fn set_net(namespace: BorrowedFd<'_>) -> io::Result<()> {
    let network = rustix::thread::LinkNameSpaceType::Network;
    rustix::thread::move_into_link_name_space(namespace, Some(network)).map_err(io::Error::from)
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
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) };
    if done == 0 { Ok(argument.data) } else { Err(io::Error::last_os_error()) }
}
