//! Links: a program at an interface, for as long as the process that attached it keeps it.

use crate::clsact::Filter;
use crate::{Program, sys};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

const BPF_XDP: u32 = 37;
const BPF_TCX_INGRESS: u32 = 46;

/// Where XDP runs (`linux/if_link.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XdpMode {
    /// `XDP_FLAGS_SKB_MODE`: the kernel's generic hook, after the driver made its buffer.
    Generic,
    /// `XDP_FLAGS_DRV_MODE`: inside the driver.
    Native,
}

impl XdpMode {
    /// The flag of `BPF_LINK_CREATE`.
    pub fn flag(self) -> u32 {
        match self {
            XdpMode::Generic => 1 << 1,
            XdpMode::Native => 1 << 2,
        }
    }
}

/// Where a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// XDP.
    Xdp(XdpMode),
    /// The traffic-control hook for what comes in (`tcx`, kernel 6.6). Others' programs there run before this one.
    TcIngress,
    /// The same without `tcx`: a filter of a `clsact` queueing discipline, behind all programs at `tcx`. If the process is killed it
    /// stays: see [`remove_left`](crate::remove_left).
    Clsact,
}

/// A program at an interface, until this is dropped. By whatever end the process comes to, the kernel detaches it then, but for
/// [`Hook::Clsact`].
#[derive(Debug)]
pub struct Link(Kind);

#[derive(Debug)]
enum Kind {
    Link(Attached),
    Filter(Filter),
}

/// A link of the kernel's, detached when dropped: its descriptor may have copies in children of this process that have not executed
/// another program yet.
#[derive(Debug)]
struct Attached {
    fd: OwnedFd,
    /// The process that attached it. A child that ends leaves the program to its parent.
    by: u32,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.by == std::process::id() {
            let mut attr = sys::LinkDetach { link_fd: self.fd.as_raw_fd() as u32 };
            // SAFETY: the attributes of BPF_LINK_DETACH, without addresses. Where it is refused, closing the descriptor has to do.
            let _ = unsafe { sys::bpf(sys::LINK_DETACH, &mut attr) };
        }
    }
}

impl Link {
    /// Attaches a program.
    ///
    /// # Errors
    /// `EBUSY` when another XDP program is there already, `EOPNOTSUPP` when the driver has no native hook, `EINVAL` on a kernel
    /// without such links; see [`Hook::Clsact`] for `EADDRINUSE` (another process of ours is there).
    pub fn attach(program: &Program, ifindex: u32, hook: Hook) -> io::Result<Link> {
        let (attach_type, flags) = match hook {
            Hook::Xdp(mode) => (BPF_XDP, mode.flag()),
            Hook::TcIngress => (BPF_TCX_INGRESS, 0),
            Hook::Clsact => {
                return Ok(Link(Kind::Filter(Filter::attach(program.as_raw_fd(), ifindex)?)));
            }
        };
        let mut attr = sys::LinkCreate {
            prog_fd: program.as_raw_fd() as u32,
            target_ifindex: ifindex,
            attach_type,
            flags,
        };
        // SAFETY: the attributes of BPF_LINK_CREATE, without addresses.
        let fd = unsafe { sys::bpf_fd(sys::LINK_CREATE, &mut attr)? };
        Ok(Link(Kind::Link(Attached { fd, by: std::process::id() })))
    }

    /// Whether it still is at its interface: one that left the network namespace, or went, has it no more.
    pub fn is_alive(&self) -> bool {
        /// Words of `struct bpf_link_info` up to the interface's number.
        const WORDS: usize = 5;
        let fd = match &self.0 {
            Kind::Link(link) => link.fd.as_raw_fd(),
            Kind::Filter(filter) => return matches!(filter.is_ours_there(), Ok(true)),
        };
        let mut info = [0_u32; WORDS + 1];
        let mut attr = sys::Info {
            bpf_fd: fd as u32,
            info_len: size_of_val(&info) as u32,
            info: info.as_mut_ptr() as u64,
        };
        // SAFETY: the kernel writes at most `info_len` bytes to `info`. That it holds zeros asks for no further arrays.
        unsafe { sys::bpf(sys::OBJ_GET_INFO_BY_FD, &mut attr) }.is_ok() && info[WORDS - 1] != 0
    }

    /// Puts another program in the place of the one there, between two packets.
    ///
    /// # Errors
    /// `EINVAL` for a program of another kind, `ENOLINK` when the interface is gone.
    pub fn replace(&self, program: &Program) -> io::Result<()> {
        let fd = match &self.0 {
            Kind::Link(link) => link.fd.as_raw_fd(),
            Kind::Filter(filter) => return filter.replace(program.as_raw_fd()),
        };
        let mut attr = sys::LinkUpdate {
            link_fd: fd as u32,
            new_prog_fd: program.as_raw_fd() as u32,
            flags: 0,
            old_prog_fd: 0,
        };
        // SAFETY: the attributes of BPF_LINK_UPDATE, without addresses.
        unsafe { sys::bpf(sys::LINK_UPDATE, &mut attr) }.map(drop)
    }
}
