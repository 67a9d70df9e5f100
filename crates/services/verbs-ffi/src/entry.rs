//! Entries: contexts, addresses, events.

use crate::boundary::{Failure, get, guard, last_text, put, text};
use crate::error::{self, BWV_ERR_INVALID, BWV_ERR_TIMED_OUT, BWV_ERR_TOO_MANY};
use crate::session::{Session, translate};
use crate::table::Table;
use crate::types::{BwvAddr, BwvContext, BwvEvent, BwvLimits};
use barewire_verbs::context::{Context, ContextConfig, ContextError};
use barewire_wire::roce::rdma_cm::{PortSpace, service_id};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

/// Version of this ABI: grows when something is added, and the library's name changes when something is taken away.
pub const BWV_ABI_VERSION: u32 = 1;

static CONTEXTS: Table<Session> = Table::new();

/// Longer than any process runs, and far from the end of the clock.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The context behind a ticket, for one call.
#[inline]
pub(crate) fn with<R>(
    context: *mut BwvContext,
    work: impl FnOnce(&mut Session) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // The pointer's bits are the ticket; it is never followed.
    CONTEXTS.with(context.addr(), false, work)?
}

/// Negative: for ever.
pub(crate) fn timeout(ms: i32) -> Duration {
    u64::try_from(ms).map_or(FOR_EVER, Duration::from_millis)
}

/// Bytes that C points to, few of them.
///
/// # Safety
/// `base` is null, or valid for reads of `len` bytes that do not change while the result lives.
pub(crate) unsafe fn bytes<'a>(base: *const c_void, len: usize, most: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if base.is_null() || len > most {
        return Err(BWV_ERR_INVALID.into());
    }
    // SAFETY: not null, so valid for `len` bytes by this function's contract; `most` is far below `isize::MAX`.
    Ok(unsafe { std::slice::from_raw_parts(base.cast(), len) })
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn bwv_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no zero byte"),
        };
    VERSION.as_ptr()
}

/// The BWV_ABI_VERSION that the library was built with.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_abi_version() -> u32 {
    BWV_ABI_VERSION
}

/// What a code means. Never null; the text is static.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_strerror(code: c_int) -> *const c_char {
    error::text_of(code).as_ptr()
}

/// More about this thread's last failure. Never null; valid until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_last_error() -> *const c_char {
    last_text()
}

/// Opens a device at the daemon.
///
/// @param name     What to call the application in statistics; null: "application".
/// @param socket   The daemon's control socket; null: $BAREWIRE_SOCKET, or else the default.
/// @param context  Receives the context.
/// @return BWV_OK, BWV_ERR_NO_DAEMON, BWV_ERR_NOT_ADMITTED, BWV_ERR_NO_RDMA, BWV_ERR_PROTOCOL, BWV_ERR_TOO_MANY.
///
/// # Safety
/// Strings end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_open(
    name: *const c_char,
    socket: *const c_char,
    context: *mut *mut BwvContext,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let (name, socket) = unsafe { (text(name), text(socket)) };
        // SAFETY: this entry's contract.
        unsafe { put(context, std::ptr::null_mut()) }?;
        let mut config = ContextConfig::new(name.as_deref().unwrap_or("application"));
        if let Some(socket) = socket {
            config.socket = PathBuf::from(socket.as_ref());
        }
        let session = Session::new(Context::open_with(&config)?);
        let ticket = CONTEXTS.insert(session).ok_or(BWV_ERR_TOO_MANY)?;
        // SAFETY: this entry's contract.
        unsafe { put(context, std::ptr::without_provenance_mut(ticket)) }?;
        Ok(0)
    })
}

/// Ends a context with all its objects: connections are closed, and their peers told. Its memory is gone. Null does nothing.
///
/// @return BWV_OK, BWV_ERR_HANDLE, BWV_ERR_BUSY_CONTEXT.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_close(context: *mut BwvContext) -> c_int {
    guard(|| {
        if !context.is_null() {
            drop(CONTEXTS.remove(context.addr())?);
        }
        Ok(0)
    })
}

/// What the daemon lets this application have.
///
/// # Safety
/// `limits` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_query_device(context: *mut BwvContext, limits: *mut BwvLimits) -> c_int {
    guard(|| {
        let l = with(context, |s| Ok(s.context.query_device()))?;
        let all = BwvLimits {
            mtu: l.mtu.bytes(),
            queue_pairs: l.queue_pairs,
            connections: l.connections,
            regions: l.regions,
            completion_queues: l.completion_queues,
            requests: l.requests,
            completions: l.completions,
            reserved: 0,
        };
        // SAFETY: this entry's contract.
        unsafe { put(limits, all) }?;
        Ok(0)
    })
}

/// The daemon's addresses.
///
/// @param addrs  Receives the first `max` of them; may be null when `max` is 0.
/// @return How many there are.
///
/// # Safety
/// `addrs` has room for `max` addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_addresses(context: *mut BwvContext, addrs: *mut BwvAddr, max: usize) -> c_int {
    guard(|| {
        with(context, |s| {
            for (i, ip) in s.context.addresses().iter().take(max).enumerate() {
                if addrs.is_null() {
                    return Err(BWV_ERR_INVALID.into());
                }
                // SAFETY: `i` is below `max`, for which `addrs` has room by this entry's contract.
                unsafe { put(addrs.add(i), BwvAddr::from(*ip)) }?;
            }
            Ok(s.context.addresses().len() as c_int)
        })
    })
}

/// Reads an address: "10.0.0.2", "fd00::2".
///
/// @return BWV_OK, BWV_ERR_INVALID.
///
/// # Safety
/// The string ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_addr_parse(addr_text: *const c_char, addr: *mut BwvAddr) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let text = unsafe { text(addr_text) }.ok_or(BWV_ERR_INVALID)?;
        let ip: IpAddr = text.parse().map_err(|_| {
            Failure::new(BWV_ERR_INVALID, format!("`{text}` is not an address such as 10.0.0.2"))
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(addr, ip.into()) }?;
        Ok(0)
    })
}

/// The service id of a TCP port, as the RDMA connection manager of other systems knows it.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_service_id(tcp_port: u16) -> u64 {
    service_id(PortSpace::Tcp, tcp_port)
}

/// The next thing that happened; never waits.
///
/// @return 1 with `event` filled in, 0 when there is none.
///
/// # Safety
/// `event` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_next_event(context: *mut BwvContext, event: *mut BwvEvent) -> c_int {
    guard(|| {
        if event.is_null() {
            return Err(BWV_ERR_INVALID.into());
        }
        with(context, |s| {
            while let Some(happened) = s.context.next_event() {
                if let Some(known) = translate(&happened) {
                    // SAFETY: this entry's contract.
                    return unsafe { put(event, known) }.map(|()| 1);
                }
            }
            Ok(0)
        })
    })
}

/// The next thing that happened; waits for it for up to `timeout_ms` (negative: for ever).
///
/// @return 1 with `event` filled in, 0 when the time was over, BWV_ERR_DAEMON_GONE.
///
/// # Safety
/// `event` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_wait_event(
    context: *mut BwvContext,
    timeout_ms: i32,
    event: *mut BwvEvent,
) -> c_int {
    guard(|| {
        if event.is_null() {
            return Err(BWV_ERR_INVALID.into());
        }
        with(context, |s| {
            // What this release has no number for is not in this release's context either: one wait is enough.
            match s.context.wait_event(timeout(timeout_ms)) {
                Ok(happened) => match translate(&happened) {
                    // SAFETY: this entry's contract.
                    Some(known) => unsafe { put(event, known) }.map(|()| 1),
                    None => Ok(0),
                },
                Err(ContextError::TimedOut) => Ok(0),
                Err(e) => Err(e.into()),
            }
        })
    })
}

/// A descriptor for an epoll or poll of your own: readable when there may be a completion or an event. Between bwv_arm and
/// bwv_disarm only; neither read it nor close it. It lives as long as the context.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_event_fd(context: *mut BwvContext) -> c_int {
    guard(|| with(context, |s| Ok(s.context.event_fd().as_raw_fd())))
}

/// Call it before a sleep on bwv_event_fd.
///
/// @return 1: sleep. 0: do not; there is something already, or the daemon is gone.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_arm(context: *mut BwvContext) -> c_int {
    guard(|| with(context, |s| Ok(c_int::from(s.context.arm()))))
}

/// Call it after the sleep, then poll.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_disarm(context: *mut BwvContext) -> c_int {
    guard(|| {
        with(context, |s| {
            s.context.disarm();
            Ok(0)
        })
    })
}

/// Takes a value in, where the pointer must not be null.
///
/// # Safety
/// `from` is null or valid for a read.
pub(crate) unsafe fn need<T: Copy>(from: *const T) -> Result<T, Failure> {
    // SAFETY: this function's contract.
    unsafe { get(from) }
}

/// What a wait that found nothing in time gives.
pub(crate) fn zero_when_late(result: Result<c_int, Failure>) -> Result<c_int, Failure> {
    match result {
        Err(failure) if failure.code == BWV_ERR_TIMED_OUT => Ok(0),
        other => other,
    }
}
