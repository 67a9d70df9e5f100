//! The system calls that std has no safe form of. Everything unsafe of this crate is here.
#![allow(unsafe_code)]

mod uring;

pub use uring::{Received, SocketRing};

use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, size_of, size_of_val};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

/// Cores that an affinity mask of ours has room for; the largest kernel configuration has 8192.
const MASK_CORES: usize = 8192;
/// An affinity mask, in the words that the kernel uses (`unsigned long`).
type Mask = [libc::c_ulong; MASK_CORES / WORD_BITS];
const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// Reads a clock that always exists (`CLOCK_MONOTONIC`, `CLOCK_REALTIME`), in ns.
#[inline]
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a live timespec and the call writes nothing else. With these clocks it cannot fail.
    unsafe { libc::clock_gettime(clock, &mut ts) };
    (ts.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(ts.tv_nsec as u64)
}

/// Pins the calling thread to one core.
pub(crate) fn pin_to_core(core: usize) -> io::Result<()> {
    let mut mask: Mask = [0; MASK_CORES / WORD_BITS];
    let word = mask.get_mut(core / WORD_BITS).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (core % WORD_BITS);
    // SAFETY: `mask` is readable for the length given, and the kernel reads no more. Pid 0 is the calling thread.
    let rc =
        unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast::<libc::cpu_set_t>()) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Cores that the calling thread may run on, ascending.
pub(crate) fn allowed_cores() -> io::Result<Vec<usize>> {
    let mut mask: Mask = [0; MASK_CORES / WORD_BITS];
    // SAFETY: `mask` is writable for the length given, and the kernel writes no more. Pid 0 is the calling thread.
    let rc = unsafe {
        libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast::<libc::cpu_set_t>())
    };
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..MASK_CORES).filter(|core| mask[core / WORD_BITS] >> (core % WORD_BITS) & 1 == 1).collect())
}

/// Times that a thread of this process, living or gone, was taken off a core that it still wanted.
pub(crate) fn involuntary_switches() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is room for one rusage and the call writes nothing else; it cannot fail with RUSAGE_SELF.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    // SAFETY: rusage is plain integers, for which the zeroes from above are valid even had the call not written.
    let usage = unsafe { usage.assume_init() };
    usage.ru_nivcsw as u64
}

/// CPU time of this process's children that ended and were waited for, in ns.
pub(crate) fn children_ns() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is room for one rusage and the call writes nothing else; it cannot fail with RUSAGE_CHILDREN.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
    // SAFETY: rusage is plain integers, for which the zeroes from above are valid even had the call not written.
    let usage = unsafe { usage.assume_init() };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

/// The cheapest system call that no library caches.
#[inline]
pub(crate) fn getppid() -> libc::pid_t {
    // SAFETY: takes no pointer and cannot fail.
    unsafe { libc::getppid() }
}

/// How long a receive call on `socket` polls its device before it sleeps, in us (man 7 socket, `SO_BUSY_POLL`), and that it prefers to
/// (`SO_PREFER_BUSY_POLL`, from Linux 5.11 on).
pub(crate) fn set_busy_poll(socket: BorrowedFd<'_>, us: u32) -> io::Result<()> {
    // asm-generic/socket.h: the libc crate names neither.
    const SO_BUSY_POLL: libc::c_int = 46;
    const SO_PREFER_BUSY_POLL: libc::c_int = 69;
    for (option, value) in [(SO_BUSY_POLL, us as libc::c_int), (SO_PREFER_BUSY_POLL, 1)] {
        // SAFETY: `value` is readable for the length given, and the kernel reads no more.
        let rc = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// An eventfd with count 0 that blocks its readers.
pub(crate) fn eventfd() -> io::Result<File> {
    // SAFETY: takes no pointer.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made `fd` and nobody else knows it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_out_of_range_is_refused() {
        assert_eq!(pin_to_core(MASK_CORES).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(pin_to_core(MASK_CORES - 1).is_err());
    }

    #[test]
    fn pinning_leaves_one_core() {
        std::thread::spawn(|| {
            let core = *allowed_cores().unwrap().last().unwrap();
            pin_to_core(core).unwrap();
            assert_eq!(allowed_cores().unwrap(), [core]);
        })
        .join()
        .unwrap();
    }
}
