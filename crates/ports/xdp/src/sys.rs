//! The system calls of a socket of family `AF_XDP` (`linux/if_xdp.h`).

use crate::ring::{Consumer, Producer, Raw};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

const SO_BUSY_POLL: libc::c_int = 46;
const SO_PREFER_BUSY_POLL: libc::c_int = 69;
const SO_BUSY_POLL_BUDGET: libc::c_int = 70;

/// 64 random bits from the system.
pub(crate) fn random() -> u64 {
    let mut bytes = [0u8; 8];
    // SAFETY: writes at most eight bytes into `bytes`. Requests this small are never cut short.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
}

pub(crate) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor, owned here alone.
    unsafe {
        let fd = libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// # Safety
/// `T` is the type of the option, and addresses in it are valid as the option demands.
unsafe fn set_option<T>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the caller's; the kernel reads `len` bytes of `value`.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// `T` is plain old data that is valid as all zeroes.
unsafe fn option<T>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int) -> io::Result<(T, usize)> {
    // SAFETY: the caller's.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    let rc = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, std::ptr::from_mut(&mut value).cast(), &mut len)
    };
    if rc == 0 { Ok((value, len as usize)) } else { Err(io::Error::last_os_error()) }
}

/// Registers a region as the socket's UMEM.
///
/// # Safety
/// The region stays mapped, and each chunk untouched while the kernel has it, until the socket is closed.
pub(crate) unsafe fn register(fd: &OwnedFd, region: (NonNull<u8>, usize), chunk_len: u32) -> io::Result<()> {
    let reg = libc::xdp_umem_reg {
        addr: region.0.as_ptr() as u64,
        len: region.1 as u64,
        chunk_size: chunk_len,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    // SAFETY: the option's own structure; the caller vouches for the region.
    unsafe { set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &reg) }
}

/// Sets one ring's length: `XDP_RX_RING`, `XDP_TX_RING`, `XDP_UMEM_FILL_RING` or `XDP_UMEM_COMPLETION_RING`.
pub(crate) fn set_ring_len(fd: &OwnedFd, ring: libc::c_int, len: u32) -> io::Result<()> {
    // SAFETY: these options take one int.
    unsafe { set_option(fd, libc::SOL_XDP, ring, &len) }
}

/// Where in their mappings the rings' words are.
pub(crate) fn offsets(fd: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: a structure of integers.
    let (offsets, len) = unsafe { option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)? };
    if len < size_of::<libc::xdp_mmap_offsets>() {
        // Kernels before 5.4 have neither the flags word nor need_wakeup.
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    Ok(offsets)
}

pub(crate) fn bind(
    fd: &OwnedFd,
    ifindex: u32,
    queue: u32,
    flags: u16,
    shared: Option<RawFd>,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: shared.unwrap_or(0) as u32,
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `address`.
    match unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel bound the socket with zero copy.
pub(crate) fn is_zero_copy(fd: &OwnedFd) -> io::Result<bool> {
    // SAFETY: a structure of integers.
    let (options, _) = unsafe { option::<libc::xdp_options>(fd, libc::SOL_XDP, libc::XDP_OPTIONS)? };
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

pub(crate) fn statistics(fd: &OwnedFd) -> io::Result<libc::xdp_statistics> {
    // SAFETY: a structure of integers.
    unsafe { option(fd, libc::SOL_XDP, libc::XDP_STATISTICS).map(|(s, _)| s) }
}

/// The socket's pending error, cleared by asking.
pub(crate) fn pending_error(fd: &OwnedFd) -> Option<io::Error> {
    // SAFETY: an int.
    let (error, _) = unsafe { option::<libc::c_int>(fd, libc::SOL_SOCKET, libc::SO_ERROR).ok()? };
    (error != 0).then(|| io::Error::from_raw_os_error(error))
}

/// Prefers busy polling (kernel 5.11, `Documentation/networking/napi.rst`).
pub(crate) fn set_busy_poll(fd: &OwnedFd, timeout_us: u32, budget: u32) -> io::Result<()> {
    // SAFETY: each option takes one int.
    unsafe {
        set_option(fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1i32)?;
        set_option(fd, libc::SOL_SOCKET, SO_BUSY_POLL, &timeout_us)?;
        set_option(fd, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget)
    }
}

/// Makes the kernel look at the transmit ring; returns 0 or the error number.
#[inline]
pub(crate) fn kick_tx(fd: &OwnedFd) -> i32 {
    // SAFETY: an empty message without an address: nothing is read.
    let rc =
        unsafe { libc::sendto(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
    if rc >= 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) }
}

/// Makes the kernel look at the fill ring, and poll the card where busy polling is on.
#[inline]
pub(crate) fn kick_rx(fd: &OwnedFd) {
    // SAFETY: no buffer and no address: nothing is written.
    unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            std::ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
    }
}

/// An epoll descriptor that is readable when one of `fds` is.
pub(crate) fn epoll_of<'a>(fds: impl Iterator<Item = &'a OwnedFd>) -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor, owned here alone.
    let epoll = unsafe {
        let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    for fd in fds {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: both descriptors are open; the kernel reads one event.
        let rc =
            unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &mut event) };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(epoll)
}

/// A ring's mapping, unmapped on drop. It keeps the kernel's pages by itself, also when the socket is closed first.
pub(crate) struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `map_ring`, unmapped once; the ring that held pointers into it is going away.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Maps one ring of `len` entries of type `T`.
fn map_ring<T>(
    fd: &OwnedFd,
    page_offset: u64,
    at: &libc::xdp_ring_offset,
    len: u32,
) -> io::Result<Raw<T, Mapping>> {
    let bytes = at.desc as usize + len as usize * size_of::<T>();
    // SAFETY: a fresh mapping of the socket's ring; no existing memory is named.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            fd.as_raw_fd(),
            page_offset as libc::off_t,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
    // SAFETY: the kernel's own offsets into the mapping it just made.
    unsafe {
        Ok(Raw {
            producer: base.add(at.producer as usize).cast(),
            consumer: base.add(at.consumer as usize).cast(),
            flags: base.add(at.flags as usize).cast(),
            entries: base.add(at.desc as usize).cast(),
            len,
            memory: Mapping { at: base, len: bytes },
        })
    }
}

pub(crate) type Rx = Consumer<libc::xdp_desc, Mapping>;
pub(crate) type Tx = Producer<libc::xdp_desc, Mapping>;
pub(crate) type Fill = Producer<u64, Mapping>;
pub(crate) type Completion = Consumer<u64, Mapping>;

/// Maps the receive ring, whose length was set before. Each of these four is called once for a socket.
pub(crate) fn map_rx(fd: &OwnedFd, offsets: &libc::xdp_mmap_offsets, len: u32) -> io::Result<Rx> {
    let raw = map_ring(fd, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, len)?;
    // SAFETY: the kernel laid the ring out for `len` entries, a power of two, and keeps to the protocol on its side;
    // our side is made once.
    Ok(unsafe { Consumer::new(raw) })
}

pub(crate) fn map_tx(fd: &OwnedFd, offsets: &libc::xdp_mmap_offsets, len: u32) -> io::Result<Tx> {
    let raw = map_ring(fd, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, len)?;
    // SAFETY: as in `map_rx`.
    Ok(unsafe { Producer::new(raw) })
}

pub(crate) fn map_fill(fd: &OwnedFd, offsets: &libc::xdp_mmap_offsets, len: u32) -> io::Result<Fill> {
    let raw = map_ring(fd, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, len)?;
    // SAFETY: as in `map_rx`.
    Ok(unsafe { Producer::new(raw) })
}

pub(crate) fn map_completion(
    fd: &OwnedFd,
    offsets: &libc::xdp_mmap_offsets,
    len: u32,
) -> io::Result<Completion> {
    let raw = map_ring(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, len)?;
    // SAFETY: as in `map_rx`.
    Ok(unsafe { Consumer::new(raw) })
}
