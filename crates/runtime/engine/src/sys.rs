//! System calls that the standard library lacks. All unsafe code of the crate is here.
#![allow(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a writable timespec. The call cannot fail: the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The user that this process acts as.
pub fn effective_uid() -> u32 {
    // SAFETY: no memory is passed, and the call cannot fail.
    unsafe { libc::geteuid() }
}

/// A non-blocking eventfd at zero (eventfd(2)).
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    own(fd)
}

/// Waits until a descriptor is readable, or until the time is over, or a signal comes.
pub fn wait_readable(fd: RawFd, limit_ns: u64) {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let limit = libc::timespec {
        tv_sec: (limit_ns / 1_000_000_000) as _,
        tv_nsec: (limit_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `poll` and `limit` live across the call, which is told of one entry. A number that is no descriptor is reported
    // in `revents`, not followed.
    unsafe { libc::ppoll(&mut poll, 1, &limit, ptr::null()) };
}

/// Takes a descriptor that a call has just returned.
fn own(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this open descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Is there a process `pid`, whoever owns it?
pub fn process_exists(pid: i32) -> bool {
    // SAFETY: signal 0 is not delivered, only permission and existence are checked; `pid` is positive by the caller's
    // check, and a wrong one names no memory.
    let answer = unsafe { libc::kill(pid, 0) };
    answer == 0 || io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// What a descriptor in an [`Epoll`] belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Token {
    /// The engine's own waker.
    Waker = 1,
    /// The stop flag.
    Stop = 2,
    /// Any agent.
    Agent = 3,
    /// The engine's alarm.
    Alarm = 4,
}

/// What ended a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Woken {
    /// Something other than time; false also when a signal came.
    pub any: bool,
    /// The waker among them.
    pub waker: bool,
    /// The alarm.
    pub alarm: bool,
}

/// Events fetched per sleep. The engine asks every agent anyway, so one would do; a few let the waker be seen at once.
const EVENTS: usize = 8;

/// An epoll instance (epoll(7)) that watches for readability, level-triggered.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        Ok(Epoll { fd: own(fd)? })
    }

    pub fn add(&self, fd: RawFd, token: Token) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token as u64 };
        // SAFETY: `event` outlives the call, which copies it; a wrong `fd` is an error, not a hazard.
        let answer = unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        match answer {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                // Watched already is watched.
                error if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
                error => Err(error),
            },
        }
    }

    pub fn remove(&self, fd: RawFd) {
        // SAFETY: deletion reads no event; a wrong `fd` is an error, not a hazard.
        unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, ptr::null_mut()) };
    }

    /// Sleeps until a descriptor is readable or a signal comes.
    pub fn wait(&self) -> Woken {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: `events` has room for EVENTS entries.
        let count =
            unsafe { libc::epoll_wait(self.fd.as_raw_fd(), events.as_mut_ptr(), EVENTS as libc::c_int, -1) };
        let got = &events[..usize::try_from(count).unwrap_or(0).min(EVENTS)];
        let is_there = |token: Token| got.iter().any(|event| { event.u64 } == token as u64);
        let alarm = is_there(Token::Alarm);
        Woken { any: got.len() > usize::from(alarm), waker: is_there(Token::Waker), alarm }
    }
}

/// A clock that makes its descriptor readable (timerfd_create(2)), once.
#[derive(Debug)]
pub struct Timer(File);

impl Timer {
    pub fn new() -> io::Result<Timer> {
        // SAFETY: no memory is passed.
        let fd =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        let timer = Timer(own(fd)?.into());
        // A sandbox may refuse that: better now than by sleeps without end.
        match timer.try_set(u64::MAX) {
            0 => Ok(timer),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Rings when [`monotonic_ns`] says `at_ns`, not before; at no other time.
    pub fn set(&self, at_ns: u64) {
        // It did not fail before.
        self.try_set(at_ns);
    }

    fn try_set(&self, at_ns: u64) -> libc::c_int {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // All zero would mean never.
        let at_ns = at_ns.max(1);
        let at =
            libc::timespec { tv_sec: (at_ns / 1_000_000_000) as _, tv_nsec: (at_ns % 1_000_000_000) as _ };
        let at = libc::itimerspec { it_interval: none, it_value: at };
        // SAFETY: `at` is a valid time that outlives the call; the old one is not asked for.
        unsafe { libc::timerfd_settime(self.0.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &at, ptr::null_mut()) }
    }

    /// Takes away that it has rung; no harm when it has not.
    pub fn drain(&self) {
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// More cores than any kernel can be built for (`NR_CPUS` is at most 8192): a smaller set would be refused.
const CORES_MAX: usize = 8192;
const WORDS: usize = CORES_MAX / 64;

/// A set of cores (`cpu_set_t` at its largest).
#[derive(Clone)]
pub struct CoreSet([u64; WORDS]);

impl CoreSet {
    /// The cores on which the process's main thread may run.
    pub fn of_process() -> io::Result<CoreSet> {
        let mut set = CoreSet([0; WORDS]);
        // SAFETY: `getpid` has no conditions; the pointer is to `size_of_val` writable bytes, aligned for words.
        let answer = unsafe {
            libc::sched_getaffinity(libc::getpid(), size_of_val(&set.0), set.0.as_mut_ptr().cast())
        };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(set) }
    }

    /// One core alone. `core` must be below [`CORES_MAX`], as every core that [`contains`](CoreSet::contains) is.
    pub fn one(core: usize) -> CoreSet {
        let mut set = CoreSet([0; WORDS]);
        set.0[core / 64] = 1 << (core % 64);
        set
    }

    pub fn contains(&self, core: usize) -> bool {
        core < CORES_MAX && self.0[core / 64] >> (core % 64) & 1 == 1
    }

    /// Keeps the calling thread on these cores.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: the pointer is to `size_of_val` readable bytes, aligned for words; thread 0 is the calling one.
        let answer = unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), self.0.as_ptr().cast()) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl fmt::Display for CoreSet {
    /// As the kernel writes it: `0-3,8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut core, mut comma) = (0, "");
        while core < CORES_MAX {
            if !self.contains(core) {
                core += 1;
                continue;
            }
            let first = core;
            while self.contains(core + 1) {
                core += 1;
            }
            write!(f, "{comma}{first}")?;
            if core > first {
                write!(f, "-{core}")?;
            }
            comma = ",";
            core += 1;
        }
        Ok(())
    }
}

/// A file mapped shared and writable, seen as 64-bit words.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping is plain memory, valid from any thread until the drop, and reached only as atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `words` words of `file`, which must have them: touching memory behind the end of a file kills the
    /// process. The file is ours (mode 0644) and nobody shortens it.
    pub fn new(file: &File, words: usize) -> io::Result<Mapping> {
        let len = words.checked_mul(8).filter(|&len| len > 0).ok_or(io::ErrorKind::InvalidInput)?;
        if file.metadata()?.len() < len as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice; no existing memory is named.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Mapping { base, words })
    }

    /// The word at `index`.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words);
        // SAFETY: inside the mapping by the assertion; page-aligned base, so aligned; memory that other processes may
        // change is only ever reached through atomics.
        unsafe { self.base.add(index).as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are those of `new`, and every reference into it borrowed `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * 8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_sets_print_as_ranges() {
        let set = |cores: &[usize]| {
            let mut all = CoreSet([0; WORDS]);
            cores.iter().for_each(|&core| all.0[core / 64] |= 1 << (core % 64));
            all
        };
        assert_eq!(set(&[]).to_string(), "");
        assert_eq!(set(&[0]).to_string(), "0");
        assert_eq!(set(&[0, 1, 2, 8, 63, 64]).to_string(), "0-2,8,63-64");
        assert_eq!(set(&[8190, 8191]).to_string(), "8190-8191");
        assert!(!set(&[8191]).contains(CORES_MAX));
        assert!(!set(&[8191]).contains(usize::MAX));
    }

    #[test]
    fn what_ended_a_sleep_is_said() {
        let (epoll, timer) = (Epoll::new().unwrap(), Timer::new().unwrap());
        let event = eventfd().unwrap();
        epoll.add(timer.as_raw_fd(), Token::Alarm).unwrap();
        epoll.add(event.as_raw_fd(), Token::Waker).unwrap();
        epoll.add(event.as_raw_fd(), Token::Waker).unwrap();
        let at = monotonic_ns() + 1_200_000;
        timer.set(at);
        assert_eq!(epoll.wait(), Woken { any: false, waker: false, alarm: true });
        assert!(monotonic_ns() >= at, "not before the deadline");
        std::io::Write::write_all(&mut File::from(event.try_clone().unwrap()), &1u64.to_ne_bytes()).unwrap();
        assert_eq!(epoll.wait(), Woken { any: true, waker: true, alarm: true });
        timer.drain();
        assert_eq!(epoll.wait(), Woken { any: true, waker: true, alarm: false });
        epoll.remove(event.as_raw_fd());
        timer.set(0);
        assert_eq!(epoll.wait(), Woken { any: false, waker: false, alarm: true });
    }

    #[test]
    fn a_file_too_short_is_not_mapped() {
        let file = File::open("/dev/null").unwrap();
        assert_eq!(Mapping::new(&file, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(Mapping::new(&file, 0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(Mapping::new(&file, usize::MAX).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
