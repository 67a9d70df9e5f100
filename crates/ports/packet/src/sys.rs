//! The system calls of a packet socket (packet(7), `linux/if_packet.h`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// `SIOCSHWTSTAMP` of `linux/sockios.h`.
const SIOCSHWTSTAMP: libc::c_ulong = 0x89b0;
const HWTSTAMP_TX_OFF: i32 = 0;
const HWTSTAMP_FILTER_ALL: i32 = 1;
/// `SOF_TIMESTAMPING_RAW_HARDWARE` of `linux/net_tstamp.h`.
const RAW_HARDWARE: i32 = 1 << 6;

/// A packet socket that receives nothing yet: protocol 0, so that nothing of other interfaces is queued before the bind.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor, owned here alone.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// # Safety
/// `T` is the type of the option.
unsafe fn set<T>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `value`.
    match unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// `T` is plain old data that is valid as all zeroes.
unsafe fn get<T>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    // SAFETY: the caller's.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `value`.
    let rc = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, std::ptr::from_mut(&mut value).cast(), &mut len)
    };
    if rc == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Sets a packet option that takes one int.
pub(crate) fn set_int(fd: &OwnedFd, name: libc::c_int, value: i32) -> io::Result<()> {
    // SAFETY: the options this is called for take one int.
    unsafe { set(fd, libc::SOL_PACKET, name, &value) }
}

/// Asks the card for stamps on every frame, and the socket to use them. `ifindex` must be of the interface `name`.
pub(crate) fn stamp_by_hardware(fd: &OwnedFd, name: &str) -> io::Result<()> {
    // `struct hwtstamp_config`: flags, tx_type, rx_filter.
    let mut wanted = [0i32, HWTSTAMP_TX_OFF, HWTSTAMP_FILTER_ALL];
    // SAFETY: `ifreq` is plain old data for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = wanted.as_mut_ptr().cast();
    // SAFETY: the ioctl reads and writes the request and the three words behind its pointer.
    if unsafe { libc::ioctl(fd.as_raw_fd(), SIOCSHWTSTAMP as _, &mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    set_int(fd, libc::PACKET_TIMESTAMP, RAW_HARDWARE)
}

/// Sizes one ring: `PACKET_RX_RING` or `PACKET_TX_RING`.
pub(crate) fn set_ring(
    fd: &OwnedFd,
    ring: libc::c_int,
    slot_len: u32,
    slots: u32,
    block_len: u32,
) -> io::Result<()> {
    let request = libc::tpacket_req {
        tp_block_size: block_len,
        tp_block_nr: (u64::from(slots) * u64::from(slot_len) / u64::from(block_len)) as u32,
        tp_frame_size: slot_len,
        tp_frame_nr: slots,
    };
    // SAFETY: the options' own structure.
    unsafe { set(fd, libc::SOL_PACKET, ring, &request) }
}

/// A mapping of both rings, unmapped on drop. It keeps the socket alive by itself.
pub(crate) struct Mapping {
    pub at: NonNull<u8>,
    pub len: usize,
}

impl Mapping {
    pub fn new(fd: &OwnedFd, len: usize) -> io::Result<Mapping> {
        // SAFETY: a fresh mapping of the socket's rings; no existing memory is named.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Mapping { at, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once; the rings that point into it are going away with it.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// Lets the socket have as many bytes under way as its transmit ring holds; past the system's limit where permitted.
pub(crate) fn set_send_buffer(fd: &OwnedFd, bytes: u32) {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: both options take one int. What they cannot do only makes bursts smaller.
    unsafe {
        if set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes).is_err() {
            let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
        }
    }
}

/// Lets the kernel keep `bytes` of received frames until they are fetched; past the system's limit where permitted.
pub(crate) fn set_receive_buffer(fd: &OwnedFd, bytes: i32) {
    // SAFETY: both options take one int. What they cannot do only makes bursts smaller.
    unsafe {
        if set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes).is_err() {
            let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes);
        }
    }
}

/// Asks for the kernel's time with each received frame.
pub(crate) fn stamp_messages(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: the option takes one int.
    unsafe { set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32) }
}

/// Receives up to `count` messages without waiting: how many, or the error number.
///
/// # Safety
/// `messages` points at `count` messages, all that they point to is valid for what the kernel writes there, and nobody
/// else touches it meanwhile.
#[inline]
pub(crate) unsafe fn receive_messages(
    fd: &OwnedFd,
    messages: *mut libc::mmsghdr,
    count: usize,
) -> Result<usize, i32> {
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: the caller's.
    let rc =
        unsafe { libc::recvmmsg(fd.as_raw_fd(), messages, count as _, flags as _, std::ptr::null_mut()) };
    usize::try_from(rc).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// Sends up to `count` messages without waiting: how many, or the error number.
///
/// # Safety
/// `messages` points at `count` messages, and all that they point to is valid to read.
#[inline]
pub(crate) unsafe fn send_messages(
    fd: &OwnedFd,
    messages: *mut libc::mmsghdr,
    count: usize,
) -> Result<usize, i32> {
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: the caller's.
    let rc = unsafe { libc::sendmmsg(fd.as_raw_fd(), messages, count as _, flags as _) };
    usize::try_from(rc).map_err(|_| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// Fetches one frame and forgets it; false when there is none.
pub(crate) fn discard(fd: &OwnedFd) -> bool {
    // Room for a virtio header, without which the kernel refuses to say anything.
    let mut scratch = [0u8; 16];
    // SAFETY: the kernel writes at most `scratch.len()` bytes into `scratch`.
    unsafe { libc::recv(fd.as_raw_fd(), scratch.as_mut_ptr().cast(), scratch.len(), libc::MSG_DONTWAIT) >= 0 }
}

/// Whether a frame waits to be fetched.
pub(crate) fn is_readable(fd: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure; a time-out of zero does not wait.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

/// Joins the interface in promiscuous mode; left when the socket is closed.
pub(crate) fn join_promiscuous(fd: &OwnedFd, ifindex: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: ifindex as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    // SAFETY: the option's own structure.
    unsafe { set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request) }
}

/// Receives only frames with a mark, by a filter of classic BPF (`linux/filter.h`).
pub(crate) fn take_marked(fd: &OwnedFd, mark: u32) -> io::Result<()> {
    /// `SKF_AD_OFF + SKF_AD_MARK`: where a program finds the mark.
    const MARK_AT: u32 = (-0x1000_i32 + 20) as u32;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step((libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, 0, 0, MARK_AT),
        step((libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16, 0, 1, mark),
        step((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, u32::MAX),
        step((libc::BPF_RET | libc::BPF_K) as u16, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the option's own structure; the kernel copies the steps it points to.
    unsafe { set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program) }
}

/// From here on frames of the interface arrive.
pub(crate) fn bind(fd: &OwnedFd, ifindex: u32) -> io::Result<()> {
    // SAFETY: `sockaddr_ll` is plain old data for which zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = ifindex as i32;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of `address`.
    match unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Frames dropped since the last call for want of a free slot.
pub(crate) fn take_drops(fd: &OwnedFd) -> io::Result<u32> {
    // SAFETY: a structure of integers.
    unsafe { get::<libc::tpacket_stats>(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS).map(|s| s.tp_drops) }
}

/// The socket's pending error, cleared by asking.
pub(crate) fn pending_error(fd: &OwnedFd) -> Option<io::Error> {
    // SAFETY: an int.
    let error: i32 = unsafe { get(fd, libc::SOL_SOCKET, libc::SO_ERROR).ok()? };
    (error != 0).then(|| io::Error::from_raw_os_error(error))
}

/// Makes the kernel send what stands in the transmit ring; returns 0 or the error number.
#[inline]
pub(crate) fn kick(fd: &OwnedFd) -> i32 {
    // SAFETY: an empty message without an address: nothing is read.
    let rc =
        unsafe { libc::sendto(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
    if rc >= 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) }
}
