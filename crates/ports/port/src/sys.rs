//! The system calls that std does not have. The only unsafe code of this crate; every function here is safe to call with
//! any argument.
#![allow(unsafe_code)]

use barewire_base::Instant;
use barewire_frame::{BURST_MAX, Frame};
use barewire_ring::Region;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

/// `CLOCK_MONOTONIC` now. For the conformance suite, which has no engine to be told the time by.
pub(crate) fn monotonic() -> Instant {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a live timespec that the call fills; CLOCK_MONOTONIC always exists, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut ts) };
    Instant::from_nanos(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// What to add to a `CLOCK_MONOTONIC` reading to get nanoseconds since 1970, as of now: for the stamps of capture files.
/// Read once, when a port is opened; nothing is driven by it.
pub(crate) fn wall_clock_offset() -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a live timespec that the call fills; CLOCK_REALTIME always exists, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut ts) };
    let wall = (ts.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(ts.tv_nsec as u64);
    wall.wrapping_sub(monotonic().as_nanos())
}

/// Waits until `fd` is readable, for at most `timeout`. False when it is not by then.
pub(crate) fn poll_readable(fd: RawFd, timeout: std::time::Duration) -> bool {
    let mut pfd = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one live pollfd is passed, with the count 1. A bad descriptor is reported in `revents`.
    let n = unsafe { libc::poll(&mut pfd, 1, ms) };
    n == 1 && pfd.revents & libc::POLLIN != 0
}

/// An eventfd: a sleeping thread's doorbell.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<EventFd> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just returned to us and nobody else owns it.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: the eight bytes of `one` are read. A full counter (EAGAIN) means that it is readable already.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes the descriptor unreadable again.
    pub(crate) fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: at most the eight bytes of `count` are written. Nothing to read (EAGAIN) is fine.
        unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// A unix socket address, built once.
pub(crate) struct UnixAddr {
    addr: libc::sockaddr_un,
    len: libc::socklen_t,
}

impl UnixAddr {
    /// `None` when the path is empty, too long for a `sockaddr_un` or holds a zero byte.
    pub(crate) fn new(path: &Path) -> Option<UnixAddr> {
        use std::os::unix::ffi::OsStrExt;
        let bytes = path.as_os_str().as_bytes();
        // SAFETY: sockaddr_un is plain integers and arrays of them: all zeroes is a value.
        let mut addr: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
        addr.sun_family = libc::AF_UNIX as libc::sa_family_t;
        if bytes.is_empty() || bytes.len() >= addr.sun_path.len() || bytes.contains(&0) {
            return None;
        }
        for (to, from) in addr.sun_path.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + bytes.len() + 1;
        Some(UnixAddr { addr, len: len as libc::socklen_t })
    }
}

/// What became of one received datagram.
#[derive(Clone, Copy, Default)]
pub(crate) struct Received {
    /// Bytes written to the frame.
    pub len: usize,
    /// The datagram was longer than the frame.
    pub truncated: bool,
}

/// Receives up to `frames.len()` (at most [`BURST_MAX`]) datagrams, each into the whole data of one frame, in one call.
pub(crate) fn recv_frames(
    fd: RawFd,
    frames: &mut [Option<Frame>],
    out: &mut [Received; BURST_MAX],
) -> io::Result<usize> {
    // SAFETY: mmsghdr and iovec are plain integers and pointers: all zeroes is a value.
    let mut headers: [libc::mmsghdr; BURST_MAX] = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: as above.
    let mut iovecs: [libc::iovec; BURST_MAX] = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut n = 0;
    for ((frame, iov), header) in
        frames.iter_mut().map_while(Option::as_mut).zip(&mut iovecs).zip(&mut headers)
    {
        let data = frame.data_mut();
        *iov = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
        header.msg_hdr.msg_iov = iov;
        header.msg_hdr.msg_iovlen = 1;
        n += 1;
    }
    // SAFETY: the first `n` headers each name one iovec of the array above, which names a frame's own bytes; arrays and
    // frames outlive the call, and the frames are borrowed mutably for as long. The kernel writes `iov_len` bytes at most.
    let got =
        unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), n, libc::MSG_DONTWAIT as _, std::ptr::null_mut()) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let got = got as usize;
    for (header, out) in headers.iter().zip(out.iter_mut()).take(got) {
        let truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        *out = Received { len: header.msg_len as usize, truncated };
    }
    Ok(got)
}

/// Sends the data of each frame as one datagram to `to`, in one call; how many went.
pub(crate) fn send_frames<'a>(
    fd: RawFd,
    to: &UnixAddr,
    frames: impl Iterator<Item = &'a Frame>,
) -> io::Result<usize> {
    // SAFETY: mmsghdr and iovec are plain integers and pointers: all zeroes is a value.
    let mut headers: [libc::mmsghdr; BURST_MAX] = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: as above.
    let mut iovecs: [libc::iovec; BURST_MAX] = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut n = 0;
    for ((frame, iov), header) in frames.zip(&mut iovecs).zip(&mut headers) {
        let data = frame.data();
        // The kernel only reads from it, though the type has no const form.
        *iov = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
        header.msg_hdr.msg_iov = iov;
        header.msg_hdr.msg_iovlen = 1;
        header.msg_hdr.msg_name = (&raw const to.addr).cast_mut().cast();
        header.msg_hdr.msg_namelen = to.len;
        n += 1;
    }
    // SAFETY: the first `n` headers each name one iovec of the array above, which names the bytes of a frame borrowed for
    // 'a, and the address `to`; all outlive the call, and sendmmsg writes only `msg_len` of the headers.
    let sent = unsafe {
        libc::sendmmsg(fd, headers.as_mut_ptr(), n, (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
}

/// The user that file access is checked against.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() }
}

/// One byte of a file, as the argument of a lock call.
fn byte_of_file(kind: libc::c_int, byte: u64) -> libc::flock {
    // SAFETY: `flock` is plain integers: all zeroes is a value.
    let mut lock: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte as libc::off_t;
    lock.l_len = 1;
    lock
}

/// Locks one byte of `file` for this open file description, without waiting; false when somebody else has it. Given up
/// when the last descriptor of the description is closed, by death too (`F_OFD_SETLK`, fcntl(2)).
pub(crate) fn lock_byte(file: &File, byte: u64) -> io::Result<bool> {
    let lock = byte_of_file(libc::F_WRLCK, byte);
    // SAFETY: the descriptor is open while `file` is borrowed, and the call reads the live `lock`.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        e => Err(e),
    }
}

/// Gives the lock of one byte up.
pub(crate) fn unlock_byte(file: &File, byte: u64) {
    let lock = byte_of_file(libc::F_UNLCK, byte);
    // SAFETY: as in `lock_byte`. Unlocking what is not locked does nothing.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) };
}

/// Whether another open file description has the lock of one byte.
pub(crate) fn is_locked_by_other(file: &File, byte: u64) -> io::Result<bool> {
    let mut lock = byte_of_file(libc::F_WRLCK, byte);
    // SAFETY: the descriptor is open while `file` is borrowed, and the call reads and writes the live `lock`.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Makes an empty file `len` bytes of zeroes with the memory behind them, so that touching them later cannot fail.
pub(crate) fn reserve(file: &File, len: usize) -> io::Result<()> {
    // SAFETY: no pointers are passed; the descriptor is open while `file` is borrowed.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len as libc::off_t) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

struct Mapping {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is an address range that any thread may use and unmap; `Mapping` gives no access to its bytes.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` does nothing at all.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map_shared` with this length; regions hold the `Arc` around this value, so none is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Maps the first `len` bytes of `file`, shared with every process that maps it.
pub(crate) fn map_shared(file: &File, len: usize) -> io::Result<Region> {
    // SAFETY: a fresh mapping at an address of the kernel's choice; no existing memory is named.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    let owner = Arc::new(Mapping { at, len });
    // SAFETY: the owner keeps the `len` bytes mapped, readable and writable; this process has no other access to them than
    // regions. `len` was accepted by mmap, so it is below isize::MAX. A file in /dev/shm cannot be sealed: whoever may open
    // it could cut it short, and touching the lost pages would end this process (SIGBUS), which is no memory error. The
    // caller makes sure that only this user may open it, who may end this process anyway.
    Ok(unsafe { Region::from_raw(at, len, owner) })
}
