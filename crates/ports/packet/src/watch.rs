//! Being told when an interface changes, goes away or is there again (rtnetlink(7)).

use crate::interface::Interface;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `RTMGRP_LINK` of `linux/rtnetlink.h`: news of interfaces.
const NEWS_OF_LINKS: u32 = 1;
/// News taken in one look, at most; what is left makes the descriptor readable again.
const NEWS_MAX: usize = 1024;

/// Watches one interface of the caller's network namespace. Its descriptor is readable when something may have changed.
#[derive(Debug)]
pub struct LinkWatch {
    socket: OwnedFd,
    name: String,
    index: u32,
}

impl LinkWatch {
    /// Watches the interface `name`, which need not be there yet.
    ///
    /// # Errors
    /// That of the system, when there is no netlink socket to be had.
    pub fn new(name: &str) -> io::Result<LinkWatch> {
        // SAFETY: creates a descriptor, owned here alone.
        let socket = unsafe {
            let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let fd = libc::socket(libc::AF_NETLINK, flags, libc::NETLINK_ROUTE);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: `sockaddr_nl` is plain old data for which zero is valid.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = NEWS_OF_LINKS;
        let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: the kernel reads `len` bytes of `address`.
        if unsafe { libc::bind(socket.as_raw_fd(), std::ptr::from_ref(&address).cast(), len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(LinkWatch { socket, name: name.to_owned(), index: index_of(name) })
    }

    /// The interface as it is now; `None` when it is away. One that was renamed is the same as before; one that was deleted and
    /// made again under the name has another index. Does not wait.
    pub fn look(&mut self) -> Option<Interface> {
        let mut scratch = [0u8; 4096];
        for _ in 0..NEWS_MAX {
            // What the news are is not read: who asks the kernel afterwards knows at least as much. News that were lost
            // (ENOBUFS) are news as well.
            // SAFETY: the kernel writes at most `scratch.len()` bytes into `scratch`.
            let rc =
                unsafe { libc::recv(self.socket.as_raw_fd(), scratch.as_mut_ptr().cast(), scratch.len(), 0) };
            if rc < 0 && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
                break;
            }
        }
        let name = name_of(self.index).unwrap_or_else(|| self.name.clone());
        let interface = Interface::find("watch", &name).ok()?;
        self.index = interface.index;
        Some(interface)
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// 0 when there is none.
fn index_of(name: &str) -> u32 {
    let Ok(name) = CString::new(name) else { return 0 };
    // SAFETY: a NUL-terminated string that lives across the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

fn name_of(index: u32) -> Option<String> {
    let mut name: [libc::c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
    // SAFETY: the library writes a NUL-terminated name of at most `IFNAMSIZ` bytes.
    let there = unsafe { !libc::if_indextoname(index, name.as_mut_ptr()).is_null() };
    // SAFETY: terminated, as just written.
    (index != 0 && there).then(|| unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}
