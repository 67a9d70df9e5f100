//! The symbols of Machnet's library.
//!
//! Each function takes the pointers of a C program: null is an error, and another one has to be valid as `bindings/c/machnet.h`
//! says. A channel's pointer is a ticket and no address, so that a stale or invented one is an error too.
#![allow(unsafe_code)]

use crate::channel::{Channel, Errno, Flow, LINGER};
use crate::table::{Miss, Table};
use barewire_client::socket_path_default;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Machnet's `MachnetIovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Iovec {
    /// Bytes of a message, or room for them.
    pub base: *mut c_void,
    /// How many.
    pub len: usize,
}

/// Machnet's `MachnetMsgHdr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MsgHdr {
    /// Bytes of the message.
    pub msg_size: u32,
    /// The flow.
    pub flow_info: Flow,
    /// Its pieces.
    pub msg_iov: *mut Iovec,
    /// How many pieces.
    pub msg_iovlen: usize,
    /// NOTIFY_DELIVERY (0x80) is accepted, and like others of no effect, as in Machnet.
    pub flags: u16,
}

const _: () = {
    assert!(size_of::<Flow>() == 12 && align_of::<Flow>() == 4);
    assert!(size_of::<usize>() != 8 || (size_of::<MsgHdr>() == 40 && size_of::<Iovec>() == 16));
    assert!(size_of::<usize>() != 8 || std::mem::offset_of!(MsgHdr, flags) == 32);
};

/// Most pieces of a message.
const PIECES_MAX: usize = 4096;

static CHANNELS: Table<Channel> = Table::new();
static AT_EXIT: Once = Once::new();
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Machnet's connection to its controller. There is none: it stays -1.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static g_ctrl_socket: AtomicI32 = AtomicI32::new(-1);

/// The panic boundary. Failures are -1, with the reason in `errno`.
#[inline]
fn guard<T: From<i8>>(work: impl FnOnce() -> Result<T, Errno>) -> T {
    // A panic under a channel's lock breaks that channel, so nothing half done is seen afterwards.
    let errno = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return value,
        Ok(Err(errno)) => errno,
        Err(thrown) => {
            // What was thrown may throw again when it is dropped.
            std::mem::forget(thrown);
            libc::EIO
        }
    };
    // SAFETY: libc's pointer to this thread's `errno` is valid for as long as the thread lives.
    unsafe { *libc::__errno_location() = errno };
    T::from(-1)
}

#[inline]
fn with<R>(channel: *const c_void, work: impl FnOnce(&mut Channel) -> Result<R, Errno>) -> Result<R, Errno> {
    // The pointer's bits are the ticket; it is never followed.
    CHANNELS.with(channel.addr(), true, work).map_err(|miss| match miss {
        Miss::Nobody => libc::EINVAL,
        _ => libc::EIO,
    })?
}

/// # Safety
/// `from` is null or valid for a read of a `T`.
#[inline]
unsafe fn get<T: Copy>(from: *const T) -> Result<T, Errno> {
    // SAFETY: not null, and then valid by this function's contract; aligned or not.
    if from.is_null() { Err(libc::EINVAL) } else { Ok(unsafe { from.read_unaligned() }) }
}

/// # Safety
/// `text` is null, or ends with a zero byte.
unsafe fn ipv4(text: *const c_char) -> Option<Ipv4Addr> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, so a C string by this function's contract.
    unsafe { CStr::from_ptr(text) }.to_str().ok()?.parse().ok()
}

/// Somebody was told that the daemon cannot be reached, and it was not reached since.
static LOGGED: AtomicBool = AtomicBool::new(false);

fn log_error(function: &str, what: &dyn std::fmt::Display, hint: Option<String>) {
    // Once, for a program that tries again and again.
    if !LOGGED.swap(true, Ordering::Relaxed) {
        let hint = hint.map_or(String::new(), |h| format!("; {h}"));
        // -1 or null is all that the program gets, so a person is told. Without a standard error nobody is there to read it.
        let _ = writeln!(std::io::stderr(), "{function}: {what}{hint}");
    }
}

/// Waits for what the program has sent.
extern "C" fn at_exit() {
    let _ = guard(|| {
        // A child made by fork() must not speak for its parent.
        if PROCESS.load(Ordering::Relaxed) == std::process::id() as i32 {
            let start = barewire_engine::now();
            for ticket in CHANNELS.tickets() {
                let left = LINGER.saturating_sub(barewire_engine::now().since(start).into());
                let _ = CHANNELS.with(ticket, false, |c| c.linger(left));
            }
        }
        Ok(0)
    });
}

/// Checks that the daemon answers. May be called as often as wanted.
///
/// Returns 0, or -1.
#[unsafe(no_mangle)]
pub extern "C" fn machnet_init() -> c_int {
    guard(|| match barewire_channel::ControlConn::connect(socket_path_default()) {
        Ok(_) => {
            LOGGED.store(false, Ordering::Relaxed);
            Ok(0)
        }
        Err(e) => {
            log_error("machnet_init", &e, e.hint().map(Into::into));
            Err(libc::ECONNREFUSED)
        }
    })
}

/// No part of Machnet's public interface: maps its shared memory, of which there is none here. Returns null.
///
/// # Safety
/// `channel_size` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn machnet_bind(_shm_fd: c_int, channel_size: *mut usize) -> *mut c_void {
    if !channel_size.is_null() {
        // SAFETY: not null, so valid by this function's contract; aligned or not.
        unsafe { channel_size.write_unaligned(0) };
    }
    std::ptr::null_mut()
}

/// A new channel to the daemon, or null.
#[unsafe(no_mangle)]
pub extern "C" fn machnet_attach() -> *mut c_void {
    let ticket = guard(|| {
        let channel = Channel::attach().map_err(|e| {
            log_error("machnet_attach", &e, e.hint());
            libc::ECONNREFUSED
        })?;
        AT_EXIT.call_once(|| {
            PROCESS.store(std::process::id() as i32, Ordering::Relaxed);
            // SAFETY: `at_exit` is a function of this library that returns. When it cannot be registered, nothing waits.
            unsafe { libc::atexit(at_exit) };
        });
        let ticket = CHANNELS.insert(channel).ok_or(libc::EMFILE)?;
        Ok(ticket as isize)
    });
    // A ticket is odd and below half of the numbers: -1 is none.
    if ticket == -1 { std::ptr::null_mut() } else { std::ptr::without_provenance_mut(ticket as usize) }
}

/// Ends a channel, after waiting for what was sent on it. Machnet's does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn machnet_detach(channel_ctx: *const c_void) {
    let _: c_int = guard(|| {
        with(channel_ctx, |c| {
            c.linger(LINGER);
            Ok(())
        })?;
        drop(CHANNELS.remove(channel_ctx.addr()));
        Ok(0)
    });
}

/// Listens on a UDP port of one of the daemon's addresses (0.0.0.0: all of them), and waits until it does.
///
/// Returns 0, -1, or -EINVAL when `local_ip` is no IPv4 address.
///
/// # Safety
/// `local_ip` is null, or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn machnet_listen(
    channel_ctx: *mut c_void,
    local_ip: *const c_char,
    port: u16,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let Some(local) = (unsafe { ipv4(local_ip) }) else {
            return Ok(-libc::EINVAL);
        };
        with(channel_ctx, |c| c.listen(local, port))?;
        Ok(0)
    })
}

/// Connects, and waits for it, at most 5 s. `flow` receives the flow as sends on it name it.
///
/// Returns 0, or -1.
///
/// # Safety
/// Strings are null or end with a zero byte; `flow` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn machnet_connect(
    channel_ctx: *mut c_void,
    local_ip: *const c_char,
    remote_ip: *const c_char,
    remote_port: u16,
    flow: *mut Flow,
) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let (local, remote) = unsafe { (ipv4(local_ip), ipv4(remote_ip)) };
        let (Some(local), Some(remote), false) = (local, remote, flow.is_null()) else {
            return Err(libc::EINVAL);
        };
        let opened = with(channel_ctx, |c| c.connect(local, remote, remote_port))?;
        // SAFETY: not null, so valid by this function's contract; aligned or not.
        unsafe { flow.write_unaligned(opened) };
        Ok(0)
    })
}

/// Queues a message of `pieces`.
///
/// # Safety
/// `pieces` are valid for reads of their bytes.
unsafe fn send(c: &mut Channel, header: &MsgHdr) -> Result<(), Errno> {
    let piece = |i: usize| -> Result<Iovec, Errno> {
        // SAFETY: `i` is below `msg_iovlen`, for which `msg_iov` is valid by this function's contract.
        let piece = unsafe { get(header.msg_iov.add(i)) }?;
        if piece.len > 0 && piece.base.is_null() { Err(libc::EINVAL) } else { Ok(piece) }
    };
    if header.msg_iov.is_null() || header.msg_iovlen > PIECES_MAX {
        return Err(libc::EINVAL);
    }
    let mut total = 0_usize;
    for i in 0..header.msg_iovlen {
        total = total.saturating_add(piece(i)?.len);
    }
    if total != header.msg_size as usize {
        return Err(libc::EINVAL);
    }
    c.send(header.flow_info, total, |client, buf| {
        let mut at = 0;
        (0..header.msg_iovlen).all(|i| {
            let Ok(piece) = piece(i) else {
                return false;
            };
            // The lengths are read again here, so they are checked again.
            if piece.len > total - at {
                return false;
            }
            if piece.len == 0 {
                return true;
            }
            // SAFETY: not null, so valid for `len` bytes by this function's contract; at most `total`, which `Channel::send`
            // has found to be 8 MiB at most.
            let bytes = unsafe { std::slice::from_raw_parts(piece.base.cast::<u8>(), piece.len) };
            at += piece.len;
            client.write(buf, at - piece.len, bytes)
        })
    })
}

/// Queues a copy of a message; does not wait for the peer.
///
/// Returns 0, or -1 (`errno` EAGAIN: full for now).
///
/// # Safety
/// `buf` is null or valid for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn machnet_send(
    channel_ctx: *const c_void,
    flow: Flow,
    buf: *const c_void,
    len: usize,
) -> c_int {
    let mut piece = Iovec { base: buf.cast_mut(), len };
    let Ok(msg_size) = u32::try_from(len) else {
        return guard(|| Err(libc::EMSGSIZE));
    };
    let header = MsgHdr { msg_size, flow_info: flow, msg_iov: &raw mut piece, msg_iovlen: 1, flags: 0 };
    // SAFETY: one piece, valid by this function's contract.
    unsafe { machnet_sendmsg(channel_ctx, &raw const header) }
}

/// As `machnet_send`, for a message made of pieces. Their lengths must add up to `msg_size`.
///
/// Returns 0, or -1.
///
/// # Safety
/// `msghdr` is null or valid, and its pieces are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn machnet_sendmsg(channel_ctx: *const c_void, msghdr: *const MsgHdr) -> c_int {
    guard(|| {
        // SAFETY: this function's contract.
        let header = unsafe { get(msghdr) }?;
        with(channel_ctx, |c| {
            // SAFETY: this function's contract.
            unsafe { send(c, &header) }?;
            c.flush();
            Ok(0)
        })
    })
}

/// Queues several messages, and shows them to the daemon at once.
///
/// Returns how many were queued; the first that was not ends it. -1 without messages.
///
/// # Safety
/// `msghdr_iovec` is null or valid for `vlen` messages, and their pieces are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn machnet_sendmmsg(
    channel_ctx: *const c_void,
    msghdr_iovec: *const MsgHdr,
    vlen: c_int,
) -> c_int {
    guard(|| {
        let count = usize::try_from(vlen).map_err(|_| libc::EINVAL)?;
        if msghdr_iovec.is_null() {
            return Err(libc::EINVAL);
        }
        with(channel_ctx, |c| {
            let sent = (0..count).take_while(|i| {
                // SAFETY: `i` is below `vlen`, for which the pointer is valid by this function's contract.
                let header = unsafe { get(msghdr_iovec.add(*i)) };
                // SAFETY: this function's contract.
                header.and_then(|header| unsafe { send(c, &header) }).is_ok()
            });
            let sent = sent.count();
            c.flush();
            Ok(sent as c_int)
        })
    })
}

/// Takes the next message; never waits. When there is none it gives the core away: programs written for Machnet call it in a
/// loop, which on few cores keeps the daemon from running.
///
/// Returns its length, 0 when there is none, or -1: EMSGSIZE when `len` is too small, and then the message stays.
///
/// # Safety
/// `buf` has room for `len` bytes; `flow` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn machnet_recv(
    channel_ctx: *const c_void,
    buf: *mut c_void,
    len: usize,
    flow: *mut Flow,
) -> isize {
    let mut piece = Iovec { base: buf, len };
    let mut header =
        MsgHdr { msg_size: 0, flow_info: Flow::default(), msg_iov: &raw mut piece, msg_iovlen: 1, flags: 0 };
    if flow.is_null() {
        return guard(|| Err(libc::EINVAL));
    }
    // SAFETY: one piece, valid by this function's contract.
    match unsafe { machnet_recvmsg(channel_ctx, &raw mut header) } {
        1 => {
            // SAFETY: not null, so valid by this function's contract; aligned or not.
            unsafe { flow.write_unaligned(header.flow_info) };
            header.msg_size as isize
        }
        n => n as isize,
    }
}

/// As `machnet_recv`, into pieces. Sets `msg_size` and `flow_info`.
///
/// Returns 1, 0 when there is no message, or -1.
///
/// # Safety
/// `msghdr` is null or valid for reads and writes, and its pieces are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn machnet_recvmsg(channel_ctx: *const c_void, msghdr: *mut MsgHdr) -> c_int {
    let got = guard(|| {
        // SAFETY: this function's contract.
        let header = unsafe { get(msghdr) }?;
        if header.msg_iov.is_null() || header.msg_iovlen > PIECES_MAX {
            return Err(libc::EINVAL);
        }
        with(channel_ctx, |c| {
            let Some((flow, len)) = c.front()? else {
                return Ok(0);
            };
            let mut at = 0;
            for i in 0..header.msg_iovlen {
                // SAFETY: `i` is below `msg_iovlen`, for which `msg_iov` is valid by this function's contract.
                let piece = unsafe { get(header.msg_iov.add(i)) }?;
                let n = piece.len.min(len - at);
                if n == 0 {
                    continue;
                }
                if piece.base.is_null() {
                    return Err(libc::EINVAL);
                }
                // SAFETY: not null, so there is room for `len` bytes by this function's contract, and `n` is no more.
                let out = unsafe { std::slice::from_raw_parts_mut(piece.base.cast::<u8>(), n) };
                at += c.read_front(at, out);
            }
            if at < len {
                return Err(libc::EMSGSIZE);
            }
            // SAFETY: not null, since it was read, and valid for a write by this function's contract; aligned or not.
            unsafe { msghdr.write_unaligned(MsgHdr { msg_size: len as u32, flow_info: flow, ..header }) };
            c.take();
            Ok(1)
        })
    });
    if got == 0 {
        std::thread::yield_now();
    }
    got
}
