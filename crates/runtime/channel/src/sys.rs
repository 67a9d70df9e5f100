//! The system calls that std does not have. The only unsafe code of this crate; every function here is safe to call
//! with any argument.
#![allow(unsafe_code)]

use crate::ChannelError;
use barewire_ring::Region;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Once};
use std::time::Duration;

/// The answer of a call that returns -1 for an error.
fn check(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// As [`check`], for calls that count bytes.
fn check_len(answer: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// Takes a descriptor that a call has just returned.
fn own(answer: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(answer)?;
    // SAFETY: the kernel has just given us this open descriptor and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The seals without which a mapping could fault under us. GROW costs nothing, and SEAL keeps the set as it is.
const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
/// memfd_create(2), Linux 6.3: never executable. Some machines insist (`vm.memfd_noexec`), older kernels do not know
/// it.
const MFD_NOEXEC_SEAL: libc::c_uint = 8;

/// A memfd that was found sealed against shrinking, and its length, which therefore stays.
pub(crate) struct Memory {
    fd: OwnedFd,
    len: u64,
}

impl Memory {
    /// A new one of `len` zero bytes, sealed.
    pub(crate) fn create(len: usize) -> Result<Memory, ChannelError> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        let make = |flags| {
            // SAFETY: the name is a C string that lives for ever.
            own(unsafe { libc::memfd_create(c"barewire-channel".as_ptr(), flags) })
        };
        let fd = make(flags | MFD_NOEXEC_SEAL).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => make(flags),
            _ => Err(error),
        });
        let file = File::from(fd.map_err(ChannelError::sys("memfd_create"))?);
        file.set_len(len as u64).map_err(ChannelError::sys("ftruncate"))?;
        // SAFETY: the command takes an integer, no memory.
        check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) })
            .map_err(ChannelError::sys("F_ADD_SEALS"))?;
        Memory::adopt(file.into())
    }

    /// One that somebody else made.
    pub(crate) fn adopt(fd: OwnedFd) -> Result<Memory, ChannelError> {
        // SAFETY: the command takes no memory. What is no memfd says EINVAL.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & SEALS != SEALS {
            return Err(ChannelError::NotSealed);
        }
        let file = File::from(fd);
        let len = file.metadata().map_err(ChannelError::sys("fstat"))?.len();
        Ok(Memory { fd: file.into(), len })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// The whole of it, mapped for reading and writing.
    pub(crate) fn map(&self) -> io::Result<Region> {
        let len = usize::try_from(self.len).ok().filter(|&len| len <= isize::MAX as usize);
        let len = len.ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is asked for, so no existing mapping is touched; a zero length is an error.
        let address =
            unsafe { libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, self.fd.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Arc::new(Mapping { base, len });
        // SAFETY: the `len` bytes at `base` are mapped readable and writable until `mapping` is dropped, and the file
        // behind them cannot shrink (the type's meaning). This process reaches them through regions only: the address
        // goes nowhere else. `len` is at most `isize::MAX`.
        Ok(unsafe { Region::from_raw(base, len, mapping) })
    }
}

/// Mapped memory, unmapped when the last region over it goes.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: nobody reaches the memory through `Mapping`; unmapping is allowed on any thread.
unsafe impl Send for Mapping {}
// SAFETY: as above, there is no access through `&Mapping`.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are those of one mmap that is unmapped once, here, when no region over it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A new eventfd at zero (eventfd(2)).
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    own(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
}

/// Adds one to an eventfd. For the application's side: the write would block if somebody had filled the counter and
/// made the description blocking.
pub(crate) fn eventfd_ring(fd: BorrowedFd<'_>) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: the eight bytes of `one` are read. A full counter (EAGAIN) means that it is readable already.
    unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// Sets an eventfd to zero; whether it was above. Never blocks, whatever the flags of the open file description, which
/// others may hold and change.
///
/// # Errors
/// `EOPNOTSUPP` before Linux 5.8.
pub(crate) fn eventfd_drain(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut count = [0u8; 8];
    let iov = libc::iovec { iov_base: count.as_mut_ptr().cast(), iov_len: count.len() };
    // SAFETY: one live iovec that names the eight bytes of `count`; an offset of -1 reads as read(2) does.
    let got = unsafe { libc::preadv2(fd.as_raw_fd(), &iov, 1, -1, libc::RWF_NOWAIT) };
    match check_len(got) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sends one byte without waiting and without a signal. A full socket is as good as a sent byte, and a peer that is
/// gone is found out elsewhere.
pub(crate) fn socket_ring(fd: BorrowedFd<'_>) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the one byte of a static is read.
    unsafe { libc::send(fd.as_raw_fd(), [1u8].as_ptr().cast(), 1, flags) };
}

/// Takes what waits in a stream socket; false when the other end is closed.
pub(crate) fn socket_drain(fd: BorrowedFd<'_>) -> bool {
    let mut bytes = [0u8; 512];
    // SAFETY: at most the 512 bytes of `bytes` are written.
    let got = check_len(unsafe {
        libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT)
    });
    match got {
        Ok(got) => got != 0,
        Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    }
}

/// What a wait for one descriptor saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Polled {
    /// There is something to read.
    pub readable: bool,
    /// The other end is gone.
    pub hung_up: bool,
}

/// The time that a wait may still take: the kernel counts it down, so nobody has to read a clock.
pub(crate) struct TimeLeft(Option<libc::timespec>);

impl TimeLeft {
    /// `None`: for ever.
    pub(crate) fn new(timeout: Option<Duration>) -> TimeLeft {
        TimeLeft(timeout.map(|t| libc::timespec {
            tv_sec: t.as_secs().min(i32::MAX as u64) as _,
            tv_nsec: t.subsec_nanos().into(),
        }))
    }
}

/// Waits until `fd` is readable or hung up; `None` when the time is over first (ppoll(2)).
///
/// # Errors
/// A signal came (`Interrupted`), or the descriptor is bad.
pub(crate) fn poll(fd: BorrowedFd<'_>, left: &mut TimeLeft) -> io::Result<Option<Polled>> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let left = left.0.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    let no_mask = ptr::null::<libc::sigset_t>();
    // The call itself, because the C library's function hides how much time is left.
    // SAFETY: one live pollfd with the count 1; `left` is null or a live timespec that the call may write; no signal
    // mask, whose size (8 in the kernel) is then not looked at.
    let n = unsafe { libc::syscall(libc::SYS_ppoll, &raw mut poll, 1usize, left, no_mask, 8usize) };
    match check_len(n as libc::ssize_t)? {
        0 => Ok(None),
        _ if poll.revents & libc::POLLNVAL != 0 => Err(io::Error::from_raw_os_error(libc::EBADF)),
        _ => Ok(Some(Polled {
            readable: poll.revents & libc::POLLIN != 0,
            hung_up: poll.revents & (libc::POLLHUP | libc::POLLERR) != 0,
        })),
    }
}

/// Waits until one of two descriptors is readable or hung up; `None` when the time is over first. What is not looked at says
/// nothing.
///
/// # Errors
/// As [`poll`].
pub(crate) fn poll_two(fds: [BorrowedFd<'_>; 2], left: &mut TimeLeft) -> io::Result<Option<[Polled; 2]>> {
    let mut polls = fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let left = left.0.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
    let no_mask = ptr::null::<libc::sigset_t>();
    // SAFETY: two live pollfds with the count 2; `left` and the mask as in `poll`.
    let n = unsafe { libc::syscall(libc::SYS_ppoll, polls.as_mut_ptr(), polls.len(), left, no_mask, 8usize) };
    if check_len(n as libc::ssize_t)? == 0 {
        return Ok(None);
    }
    if polls.iter().any(|p| p.revents & libc::POLLNVAL != 0) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Ok(Some(polls.map(|p| Polled {
        readable: p.revents & libc::POLLIN != 0,
        hung_up: p.revents & (libc::POLLHUP | libc::POLLERR) != 0,
    })))
}

/// How often this process has become another by fork(2) since the first look; a child differs from its parent.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn forked() {
    // The only thing that a child does here: nothing else is safe in it.
    FORKS.fetch_add(1, Relaxed);
}

/// Which process made something. A child of fork(2) finds in its memory all that its parent had, and must not use all of it: rings
/// would have a second writer, keys would seal a second packet with one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// This one. Its children, of later forks, are others.
    pub fn this() -> Process {
        watch_forks();
        Process(FORKS.load(Relaxed))
    }

    /// Whether it is the one that runs. A look is one load.
    #[inline]
    pub fn is_this(self) -> bool {
        self.0 == FORKS.load(Relaxed)
    }
}

fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function that lives for ever and does one atomic store. Without memory for the registration
        // (the only error) children are not told apart.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
}

/// The user that file access is checked against.
pub(crate) fn effective_uid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::geteuid() }
}

/// Who is at the other end of a unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCred {
    /// Process, as of when it connected.
    pub pid: i32,
    /// Effective user, as of when it connected.
    pub uid: u32,
    /// Effective group, as of when it connected.
    pub gid: u32,
}

/// `SO_PEERCRED` (unix(7)).
pub(crate) fn peer_cred(fd: BorrowedFd<'_>) -> io::Result<PeerCred> {
    let mut cred = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `cred` has the `len` bytes that the call may write.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &mut len,
        )
    })?;
    Ok(PeerCred { pid: cred.pid, uid: cred.uid, gid: cred.gid })
}

/// A unix socket address.
pub(crate) struct UnixAddr {
    addr: libc::sockaddr_un,
    len: libc::socklen_t,
}

impl UnixAddr {
    /// `None` when the path is empty, too long for a `sockaddr_un` or holds a zero byte.
    pub(crate) fn new(path: &Path) -> Option<UnixAddr> {
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

const SEQPACKET: libc::c_int = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;

/// A unix socket of whole messages, non-blocking.
pub(crate) fn seqpacket() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    own(unsafe { libc::socket(libc::AF_UNIX, SEQPACKET, 0) })
}

/// Two such sockets, connected.
pub(crate) fn seqpacket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [RawFd; 2] = [-1; 2];
    // SAFETY: the call writes two descriptors.
    check(unsafe { libc::socketpair(libc::AF_UNIX, SEQPACKET, 0, fds.as_mut_ptr()) })?;
    Ok((own(fds[0])?, own(fds[1])?))
}

/// Sets the permissions that the socket's file will get (less the umask): fchmod(2) before bind(2).
pub(crate) fn set_mode(fd: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::fchmod(fd.as_raw_fd(), mode as libc::mode_t) }).map(drop)
}

pub(crate) fn bind(fd: BorrowedFd<'_>, to: &UnixAddr) -> io::Result<()> {
    // SAFETY: `to.len` bytes of the live address are read.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const to.addr).cast(), to.len) }).map(drop)
}

pub(crate) fn listen(fd: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::listen(fd.as_raw_fd(), backlog) }).map(drop)
}

/// Never waits: a full backlog is `WouldBlock`.
pub(crate) fn connect(fd: BorrowedFd<'_>, to: &UnixAddr) -> io::Result<()> {
    // SAFETY: `to.len` bytes of the live address are read.
    check(unsafe { libc::connect(fd.as_raw_fd(), (&raw const to.addr).cast(), to.len) }).map(drop)
}

/// The next connection, non-blocking like its listener.
pub(crate) fn accept(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no address is asked for.
    own(unsafe { libc::accept4(fd.as_raw_fd(), ptr::null_mut(), ptr::null_mut(), flags) })
}

/// Most descriptors in one message.
pub(crate) const FDS_MAX: usize = 8;

/// Room for one control message of [`FDS_MAX`] descriptors, aligned as a `cmsghdr` must be.
#[repr(C)]
union Control {
    _align: libc::cmsghdr,
    bytes: [u8; CONTROL_LEN],
}

// SAFETY: CMSG_SPACE computes with its argument only.
const CONTROL_LEN: usize = unsafe { libc::CMSG_SPACE((FDS_MAX * size_of::<RawFd>()) as u32) } as usize;

/// Sends one message with descriptors, of which at most [`FDS_MAX`] go. Never waits.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let fds = &fds[..fds.len().min(FDS_MAX)];
    let mut control = Control { bytes: [0; CONTROL_LEN] };
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: msghdr is plain integers and pointers: all zeroes is a value.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    if !fds.is_empty() {
        let len = size_of_val(fds) as u32;
        header.msg_control = (&raw mut control).cast();
        // SAFETY: as for `CONTROL_LEN`.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(len) } as _;
        // SAFETY: the control buffer is aligned for a `cmsghdr` and has room for one with `FDS_MAX` descriptors, of
        // which there are at most as many; so the first header exists and its data has `len` bytes. A `BorrowedFd` is
        // a descriptor's number (it is repr(transparent)).
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(len) as _;
            ptr::copy_nonoverlapping(fds.as_ptr().cast::<u8>(), libc::CMSG_DATA(first), len as usize);
        }
    }
    // SAFETY: the header names the live iovec, which names `bytes` (only read), and the live control buffer.
    check_len(unsafe {
        libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
    })?;
    Ok(())
}

/// Length of the message that waits; 0 when the other end is closed (or sent nothing). Never waits.
pub(crate) fn peek_len(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let flags = libc::MSG_PEEK | libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: no byte is written, as the buffer has none.
    check_len(unsafe { libc::recv(socket.as_raw_fd(), ptr::null_mut(), 0, flags) })
}

/// Receives one message; its bytes, as far as they fit, and its descriptors, of which at most [`FDS_MAX`] come and the
/// rest are closed. Never waits.
pub(crate) fn recv(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = Control { bytes: [0; CONTROL_LEN] };
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: msghdr is plain integers and pointers: all zeroes is a value.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = CONTROL_LEN as _;
    // SAFETY: the header names the live iovec, which names `bytes`, and the live control buffer with its length.
    let got = check_len(unsafe {
        libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC)
    })?;
    let mut fds = Vec::new();
    // SAFETY: the kernel has filled the control buffer with whole control messages, of `msg_controllen` bytes
    // together; the CMSG functions walk those and end with null.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(&header) };
    while !message.is_null() {
        // SAFETY: not null, so a whole header in the buffer.
        let head = unsafe { *message };
        if (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: computes with its argument only.
            let len = (head.cmsg_len as usize).saturating_sub(unsafe { libc::CMSG_LEN(0) } as usize);
            for i in 0..len / size_of::<RawFd>() {
                // SAFETY: the message's data has `len` bytes, so this descriptor lies within; it need not be aligned.
                let fd = unsafe { libc::CMSG_DATA(message).cast::<RawFd>().add(i).read_unaligned() };
                // SAFETY: the kernel has just installed this descriptor for us.
                fds.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        // SAFETY: as for the first.
        message = unsafe { libc::CMSG_NXTHDR(&header, message) };
    }
    Ok((got, fds))
}

/// As [`recv`], from who may send no descriptors: without a buffer for them the kernel throws them away itself. To receive and
/// close them would be to wait for whatever file system they are of.
pub(crate) fn recv_bytes(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: msghdr is plain integers and pointers: all zeroes is a value.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    // SAFETY: the header names the live iovec, which names `bytes`, and no control buffer.
    check_len(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_DONTWAIT) })
}

/// Makes an open file description blocking, as an application can do with those that it shares with the daemon.
#[cfg(test)]
pub(crate) fn make_blocking(fd: BorrowedFd<'_>) {
    // SAFETY: the command takes an integer, no memory.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, 0) }).unwrap();
}

/// As [`send`], with as many descriptors as one likes: what a hostile peer does.
#[cfg(test)]
pub(crate) fn send_many(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let len = size_of_val(fds) as u32;
    // SAFETY: computes with its argument only.
    let space = unsafe { libc::CMSG_SPACE(len) } as usize;
    let mut control = vec![0u64; space.div_ceil(8)];
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: msghdr is plain integers and pointers: all zeroes is a value.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &mut iov;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = space as _;
    // SAFETY: the buffer has room for one control message of `len` bytes and is aligned for it.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&header);
        (*first).cmsg_level = libc::SOL_SOCKET;
        (*first).cmsg_type = libc::SCM_RIGHTS;
        (*first).cmsg_len = libc::CMSG_LEN(len) as _;
        ptr::copy_nonoverlapping(fds.as_ptr().cast::<u8>(), libc::CMSG_DATA(first), len as usize);
    }
    // SAFETY: the header names live buffers, which are only read.
    check_len(unsafe { libc::sendmsg(socket.as_raw_fd(), &header, 0) }).map(drop)
}
