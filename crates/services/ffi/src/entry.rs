//! Entries: attaching, listening, connecting, events.

use crate::boundary::{Failure, get, guard, last_text, put, text};
use crate::error::{
    self, BW_ERR_BUSY, BW_ERR_INTERRUPTED, BW_ERR_INVALID, BW_ERR_NO_DAEMON, BW_ERR_PORT_TAKEN,
    BW_ERR_TOO_MANY,
};
use crate::session::{OURS, Session, Step};
use crate::table::Table;
use crate::types::{BwAddr, BwClient, BwConnectOptions, BwEvent, BwFlow, BwIdentity};
use barewire_client::{Client, ClientConfig, ConnectOptions, ConnectWaitError, FlowId};
use std::ffi::{CStr, c_char, c_int};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

/// Version of this ABI: grows when something is added, and the library's name changes when something is taken away.
pub const BW_ABI_VERSION: u32 = 4;
/// Size of a buffer that holds any text of `bw_addr_format` with its final zero.
pub const BW_ADDR_TEXT_MAX: usize = 64;

static CLIENTS: Table<Session> = Table::new();

/// The client behind a ticket, for one call.
#[inline]
pub(crate) fn with<R>(
    client: *mut BwClient,
    work: impl FnOnce(&mut Session) -> Result<R, Failure>,
) -> Result<R, Failure> {
    // The pointer's bits are the ticket; it is never followed.
    CLIENTS.with_patience(client.addr(), |session| {
        let done = work(session);
        session.after_call();
        done
    })?
}

/// As [`with`], for a call that may take its time: others are told so meanwhile, and do not wait for it.
fn with_at_length<R>(
    client: *mut BwClient,
    work: impl FnOnce(&mut Session) -> Result<R, Failure>,
) -> Result<R, Failure> {
    CLIENTS.with_at_length(client.addr(), |session| {
        let done = work(session);
        session.after_call();
        done
    })?
}

/// A thread that waits is no longer waiting beside calls that would take its wake-ups.
fn not_waited_on(session: &Session) -> Result<(), Failure> {
    if session.is_waited_on() { Err(BW_ERR_BUSY.into()) } else { Ok(()) }
}

/// Negative: for ever.
fn timeout(ms: i32) -> Option<Duration> {
    u64::try_from(ms).ok().map(Duration::from_millis)
}

/// The version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn bw_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no zero byte"),
        };
    VERSION.as_ptr()
}

/// The BW_ABI_VERSION that the library was built with.
#[unsafe(no_mangle)]
pub extern "C" fn bw_abi_version() -> u32 {
    BW_ABI_VERSION
}

/// What a code means. Never null; the text is static.
#[unsafe(no_mangle)]
pub extern "C" fn bw_strerror(code: c_int) -> *const c_char {
    error::text_of(code).as_ptr()
}

/// More about this thread's last failure, with a hint where there is one. Never null; valid until the thread's next failure.
#[unsafe(no_mangle)]
pub extern "C" fn bw_last_error() -> *const c_char {
    last_text()
}

/// Attaches to a daemon, or to an engine of its own.
///
/// @param name    What to call the application in statistics; null: "application".
/// @param socket  The daemon's control socket; null: $BAREWIRE_SOCKET, or else the first place where a daemon answers: this
///                user's, then the system's (/run/barewire/barewire.sock, or the only socket in /run/barewire). Without any
///                daemon: "embedded:ADDRESS/PREFIX@PORT", such as "embedded:10.0.0.1/24@xdp:eth0", starts an engine in threads
///                of this process, for this client alone, and ends it with the client. Several addresses with commas. With
///                "embedded:FILE.toml" the engine is as that barewire.toml says: gateways, VLAN, encryption.
/// @param client  Receives the client.
/// @return BW_OK, BW_ERR_NO_DAEMON, BW_ERR_NOT_ADMITTED, BW_ERR_PROTOCOL, BW_ERR_TOO_MANY; embedded also BW_ERR_INVALID for
///         another form or what is wrong in the file, BW_ERR_SYSTEM for a port that does not open.
///
/// # Safety
/// Strings end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_client_attach(
    name: *const c_char,
    socket: *const c_char,
    client: *mut *mut BwClient,
) -> c_int {
    // SAFETY: this entry's contract.
    guard(|| unsafe { attach(name, socket, client, false) })
}

/// As bw_client_attach, for a client that outlives its daemon. When that is gone, no call but those that send, listen or connect gives
/// BW_ERR_DAEMON_GONE: events say what became of flows and messages (BW_EVENT_DETACHED), bw_next_event and bw_wait_event look for a daemon
/// every 50 ms, and BW_EVENT_REATTACHED says that there is one. Neither waits for one that does not answer: a thread of the library's asks.
/// A daemon must be there at first.
///
/// @return As bw_client_attach.
///
/// # Safety
/// Strings end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_client_attach_steady(
    name: *const c_char,
    socket: *const c_char,
    client: *mut *mut BwClient,
) -> c_int {
    // SAFETY: this entry's contract.
    guard(|| unsafe { attach(name, socket, client, true) })
}

/// # Safety
/// Strings end with a zero byte; `client` is null or valid for a write.
unsafe fn attach(
    name: *const c_char,
    socket: *const c_char,
    client: *mut *mut BwClient,
    reattach: bool,
) -> Result<c_int, Failure> {
    // SAFETY: this function's contract.
    let (name, socket) = unsafe { (text(name), text(socket)) };
    // SAFETY: this function's contract.
    unsafe { put(client, std::ptr::null_mut()) }?;
    let mut config = ClientConfig::new(name.as_deref().unwrap_or("application"));
    if let Some(socket) = &socket {
        if socket.is_empty() {
            return Err(Failure::new(BW_ERR_NO_DAEMON, "a socket's path has 1 to 107 bytes"));
        }
        config.socket = PathBuf::from(socket.as_ref());
    }
    config.reattach = reattach;
    let session = Session::new(Client::attach_with(&config)?, reattach);
    let ticket = CLIENTS.insert(session).ok_or(BW_ERR_TOO_MANY)?;
    // SAFETY: this function's contract.
    unsafe { put(client, std::ptr::without_provenance_mut(ticket)) }?;
    Ok(0)
}

/// Ends a client: its flows are reset, its listeners and messages are gone. To deliver everything sent first, call bw_close_wait
/// before. Null does nothing.
///
/// @return BW_OK, BW_ERR_HANDLE, BW_ERR_BUSY (also while a thread waits in bw_wait_event: bw_wake ends that).
#[unsafe(no_mangle)]
pub extern "C" fn bw_client_free(client: *mut BwClient) -> c_int {
    guard(|| {
        if !client.is_null() {
            // A thread that waits sleeps on what the client owns.
            drop(CLIENTS.remove_unless(client.addr(), Session::is_waited_on)?);
        }
        Ok(0)
    })
}

/// The daemon's addresses. Their ports are 0.
///
/// @param addrs  Receives the first `max` of them; may be null when `max` is 0.
/// @return How many there are.
///
/// # Safety
/// `addrs` has room for `max` addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_addresses(client: *mut BwClient, addrs: *mut BwAddr, max: usize) -> c_int {
    guard(|| {
        with(client, |s| {
            for (i, ip) in s.client.addresses().iter().take(max).enumerate() {
                if addrs.is_null() {
                    return Err(BW_ERR_INVALID.into());
                }
                // SAFETY: `i` is below `max`, for which `addrs` has room by this entry's contract.
                unsafe { put(addrs.add(i), BwAddr::from(*ip)) }?;
            }
            Ok(s.client.addresses().len() as c_int)
        })
    })
}

/// The authenticated peer of a flow.
///
/// @param peer  Receives its name and key.
/// @return 1; 0 when the flow is not encrypted, not open yet, or gone.
///
/// # Safety
/// `peer` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_peer(client: *mut BwClient, flow: BwFlow, peer: *mut BwIdentity) -> c_int {
    guard(|| {
        if peer.is_null() {
            return Err(BW_ERR_INVALID.into());
        }
        with(client, |s| match s.client.peer(FlowId::from_raw(flow)) {
            // SAFETY: this entry's contract.
            Some(found) => unsafe { put(peer, BwIdentity::from(found)) }.map(|()| 1),
            None => Ok(0),
        })
    })
}

/// Largest IP packet on the daemon's port, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn bw_mtu(client: *mut BwClient) -> c_int {
    guard(|| with(client, |s| Ok(s.client.mtu() as c_int)))
}

/// Reads an address: "10.0.0.2", "10.0.0.2:888", "fd00::2", "[fd00::2]:888". `udp_port` is for a text without one.
///
/// @return BW_OK, BW_ERR_INVALID.
///
/// # Safety
/// The string ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_addr_parse(addr_text: *const c_char, udp_port: u16, addr: *mut BwAddr) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let text = unsafe { text(addr_text) }.ok_or(BW_ERR_INVALID)?;
        let socket = match (text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
            (Ok(socket), _) => socket,
            (_, Ok(ip)) => SocketAddr::new(ip, udp_port),
            _ => {
                return Err(Failure::new(
                    BW_ERR_INVALID,
                    format!("`{text}` is not an address such as 10.0.0.2:888"),
                ));
            }
        };
        // SAFETY: this entry's contract.
        unsafe { put(addr, socket.into()) }?;
        Ok(0)
    })
}

/// Writes an address with its port, and a zero byte. BW_ADDR_TEXT_MAX bytes hold any.
///
/// @return The text's length, or BW_ERR_INVALID when it does not fit.
///
/// # Safety
/// `out` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_addr_format(addr: *const BwAddr, out: *mut c_char, len: usize) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let socket = unsafe { get(addr) }?.socket().ok_or(BW_ERR_INVALID)?;
        let text = socket.to_string();
        if out.is_null() || text.len() >= len {
            return Err(BW_ERR_INVALID.into());
        }
        // SAFETY: the text and a zero byte fit into `len` bytes, for which `out` has room by this entry's contract.
        unsafe {
            out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
            out.add(text.len()).write(0);
        }
        Ok(text.len() as c_int)
    })
}

/// Listens on a UDP port. BW_EVENT_LISTENING or BW_EVENT_LISTEN_FAILED follows, and BW_EVENT_ACCEPTED for each
/// connection; all with `token`.
///
/// @return BW_OK, BW_ERR_INVALID for port 0, BW_ERR_AGAIN, BW_ERR_DAEMON_GONE.
#[unsafe(no_mangle)]
pub extern "C" fn bw_listen(client: *mut BwClient, udp_port: u16, token: u64) -> c_int {
    guard(|| {
        let udp_port = Some(udp_port).filter(|p| *p != 0).ok_or(BW_ERR_INVALID)?;
        with(client, |s| s.client.listen(udp_port, token).map_err(|e| s.full_or_gone(e)))?;
        Ok(0)
    })
}

/// As bw_listen, and waits for the answer. Negative time-outs wait for ever.
///
/// @return BW_OK, BW_ERR_PORT_TAKEN, BW_ERR_TIMED_OUT, BW_ERR_DAEMON_GONE.
#[unsafe(no_mangle)]
pub extern "C" fn bw_listen_wait(client: *mut BwClient, udp_port: u16, token: u64, timeout_ms: i32) -> c_int {
    guard(|| {
        let udp_port = Some(udp_port).filter(|p| *p != 0).ok_or(BW_ERR_INVALID)?;
        let timeout = timeout(timeout_ms).unwrap_or(FOR_EVER);
        with_at_length(client, |s| {
            s.client.listen_wait(udp_port, token, timeout).map_err(|e| match e {
                ConnectWaitError::Failed(_) => BW_ERR_PORT_TAKEN.into(),
                e => e.into(),
            })
        })?;
        Ok(0)
    })
}

/// Stops listening on a UDP port; flows that it accepted stay. A client of bw_client_attach_steady without a daemon does not ask
/// the next one for the port.
///
/// @return BW_OK, BW_ERR_DAEMON_GONE.
#[unsafe(no_mangle)]
pub extern "C" fn bw_unlisten(client: *mut BwClient, udp_port: u16) -> c_int {
    guard(|| {
        with(client, |s| Ok(s.client.unlisten(udp_port)?))?;
        Ok(0)
    })
}

/// Longer than any process runs, and far from the end of the clock.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Where to, and how.
///
/// # Safety
/// Each pointer is null or valid for a read.
pub(crate) unsafe fn connect_arguments(
    remote: *const BwAddr,
    options: *const BwConnectOptions,
) -> Result<(SocketAddr, ConnectOptions), Failure> {
    // SAFETY: this function's contract.
    let remote = unsafe { get(remote) }?.socket().filter(|r| r.port() != 0).ok_or(BW_ERR_INVALID)?;
    let options = match options.is_null() {
        true => BwConnectOptions::default(),
        // SAFETY: this function's contract.
        false => unsafe { get(options) }?,
    };
    if !matches!(options.local.family, 0 | 4 | 6) {
        return Err(BW_ERR_INVALID.into());
    }
    let options = ConnectOptions {
        local: options.local.ip(),
        local_udp_port: options.local.port,
        ordered: options.unordered == 0,
        token: 0,
    };
    Ok((remote, options))
}

/// Starts to connect. BW_EVENT_CONNECTED or BW_EVENT_CONNECT_FAILED follows, with `token` (below 2^63).
///
/// @param options  How; null: the default.
/// @return BW_OK, BW_ERR_INVALID, BW_ERR_AGAIN, BW_ERR_DAEMON_GONE.
///
/// # Safety
/// Pointers that are not null are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connect(
    client: *mut BwClient,
    remote: *const BwAddr,
    options: *const BwConnectOptions,
    token: u64,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let (remote, options) = unsafe { connect_arguments(remote, options) }?;
        if token & OURS != 0 {
            return Err(BW_ERR_INVALID.into());
        }
        let options = ConnectOptions { token, ..options };
        with(client, |s| s.client.connect(remote, &options).map_err(|e| s.full_or_gone(e)))?;
        Ok(0)
    })
}

/// Connects, and waits for it; events that arrive in the meantime are kept. An attempt that timed out is given up: a flow that opens
/// later is closed unseen. Negative time-outs wait until the daemon itself gives up.
///
/// @param options  How; null: the default.
/// @param flow     Receives the flow.
/// @return BW_OK, BW_ERR_REFUSED, BW_ERR_NO_ANSWER, BW_ERR_UNREACHABLE, BW_ERR_TABLE_FULL, BW_ERR_SECURITY,
///         BW_ERR_TIMED_OUT, BW_ERR_AGAIN, BW_ERR_DAEMON_GONE, BW_ERR_INVALID.
///
/// # Safety
/// Pointers that are not null are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_connect_wait(
    client: *mut BwClient,
    remote: *const BwAddr,
    options: *const BwConnectOptions,
    timeout_ms: i32,
    flow: *mut BwFlow,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let (remote, options) = unsafe { connect_arguments(remote, options) }?;
        if flow.is_null() {
            return Err(BW_ERR_INVALID.into());
        }
        let timeout = timeout(timeout_ms).unwrap_or(FOR_EVER);
        let id = with_at_length(client, |s| {
            s.client.connect_wait(remote, &options, timeout).map_err(Failure::from)
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(flow, id.to_raw()) }?;
        Ok(0)
    })
}

/// Gives up the attempts of bw_connect with this token. BW_EVENT_CONNECT_FAILED follows for each, with BW_CONNECT_CANCELLED; a
/// flow that opens in the meantime is closed unseen.
///
/// @return How many there were; those whose answer is an event already do not count. BW_ERR_HANDLE, BW_ERR_BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn bw_cancel(client: *mut BwClient, token: u64) -> c_int {
    guard(|| with(client, |s| Ok(c_int::try_from(s.client.cancel_all(token)).unwrap_or(c_int::MAX))))
}

/// Ends everything in good order, before bw_client_free: listens no more, closes every flow, and waits until the peers have
/// acknowledged all that was sent and have closed their halves. Events and messages that arrive in the meantime are discarded. Negative
/// time-outs wait for ever, which a peer that does not read can make of it.
///
/// @return BW_OK, BW_ERR_TIMED_OUT, BW_ERR_LOST (flows ended before all messages had arrived), BW_ERR_DAEMON_GONE, BW_ERR_BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn bw_close_wait(client: *mut BwClient, timeout_ms: i32) -> c_int {
    guard(|| {
        with_at_length(client, |s| {
            not_waited_on(s)?;
            s.client.close_and_wait(timeout(timeout_ms).unwrap_or(FOR_EVER)).map_err(Failure::from)
        })?;
        Ok(0)
    })
}

/// Closes a flow after everything sent on it was acknowledged; BW_EVENT_CLOSED follows.
///
/// @return BW_OK, BW_ERR_DAEMON_GONE. A flow that does not exist is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn bw_close(client: *mut BwClient, flow: BwFlow) -> c_int {
    guard(|| {
        with(client, |s| Ok(s.client.close(FlowId::from_raw(flow))?))?;
        Ok(0)
    })
}

/// Ends a flow at once; BW_EVENT_CLOSED follows.
///
/// @return BW_OK, BW_ERR_DAEMON_GONE. A flow that does not exist is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn bw_reset(client: *mut BwClient, flow: BwFlow) -> c_int {
    guard(|| {
        with(client, |s| Ok(s.client.reset(FlowId::from_raw(flow))?))?;
        Ok(0)
    })
}

/// The next thing that happened; never waits.
///
/// @return 1 with `event` filled in, 0 when there is none, BW_ERR_DAEMON_GONE after the last one of a daemon that is gone.
///
/// # Safety
/// `event` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_next_event(client: *mut BwClient, event: *mut BwEvent) -> c_int {
    guard(|| {
        if event.is_null() {
            return Err(BW_ERR_INVALID.into());
        }
        with(client, |s| match s.next()? {
            // SAFETY: this entry's contract.
            Some(e) => unsafe { put(event, e) }.map(|()| 1),
            None => Ok(0),
        })
    })
}

/// The next thing that happened; waits for it for up to `timeout_ms` (negative: for ever). Lets the daemon see all that was
/// queued before.
///
/// Other threads may call on the client at the same time: all but a second bw_wait_event, bw_arm, bw_disarm, bw_close_wait and
/// bw_client_free, which get BW_ERR_BUSY.
///
/// @return 1 with `event` filled in, 0 when the time was over, BW_ERR_INTERRUPTED when a signal's handler ran (call again, or
///         not), BW_ERR_DAEMON_GONE, BW_ERR_BUSY.
///
/// # Safety
/// `event` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_wait_event(client: *mut BwClient, timeout_ms: i32, event: *mut BwEvent) -> c_int {
    guard(|| {
        if event.is_null() {
            return Err(BW_ERR_INVALID.into());
        }
        match wait(client, timeout(timeout_ms))? {
            // SAFETY: this entry's contract.
            Some(e) => unsafe { put(event, e) }.map(|()| 1),
            None => Ok(0),
        }
    })
}

/// Waits for an event, and lets the client go while it sleeps.
fn wait(client: *mut BwClient, timeout: Option<Duration>) -> Result<Option<BwEvent>, Failure> {
    let start = barewire_engine::now();
    let (mut slept, mut interrupted) = (false, false);
    loop {
        let left = timeout.map(|t| t.saturating_sub(barewire_engine::now().since(start).into()));
        let left = if interrupted { Some(Duration::ZERO) } else { left };
        let step = match slept {
            false => with(client, |s| s.step(false, left)),
            // Whoever is inside will leave; to give up here would leave a sleeper behind that is none.
            true => CLIENTS.with(client.addr(), true, |s| s.step(true, left))?,
        };
        match step? {
            Step::Done(None) if interrupted => return Err(BW_ERR_INTERRUPTED.into()),
            Step::Done(event) => return Ok(event),
            Step::Sleep(sleeper, nap) => {
                slept = true;
                match sleeper.sleep(nap) {
                    Ok(_) => {}
                    // Once more for what has come meanwhile, and to say that nobody sleeps.
                    Err(_) => interrupted = true,
                }
            }
        }
    }
}

/// Ends the wait of a thread that is in bw_wait_event, or the next such wait: it gets BW_EVENT_WOKEN. For another thread, not for
/// a signal's handler (which ends a wait by itself: BW_ERR_INTERRUPTED).
///
/// @return BW_OK, BW_ERR_HANDLE, BW_ERR_BUSY.
#[unsafe(no_mangle)]
pub extern "C" fn bw_wake(client: *mut BwClient) -> c_int {
    guard(|| {
        with(client, |s| {
            s.wake();
            Ok(0)
        })
    })
}

/// A descriptor for an epoll or poll of your own: readable when there may be an event. Between bw_arm and bw_disarm only;
/// neither read it nor close it. It lives as long as the client.
#[unsafe(no_mangle)]
pub extern "C" fn bw_event_fd(client: *mut BwClient) -> c_int {
    guard(|| with(client, |s| Ok(s.client.event_fd().as_raw_fd())))
}

/// Call it before a sleep on bw_event_fd. Lets the daemon see all that was queued.
///
/// @return 1: sleep. 0: do not; there is an event already, or the daemon is gone, or the ring of requests is full, whose emptying makes
/// nothing readable: where bw_next_event then has none, sleep for a millisecond and call it again.
#[unsafe(no_mangle)]
pub extern "C" fn bw_arm(client: *mut BwClient) -> c_int {
    guard(|| {
        with(client, |s| {
            not_waited_on(s)?;
            s.armed = s.client.arm();
            Ok(c_int::from(s.armed))
        })
    })
}

/// Call it after the sleep, then take events with bw_next_event until there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bw_disarm(client: *mut BwClient) -> c_int {
    guard(|| {
        with(client, |s| {
            not_waited_on(s)?;
            s.armed = false;
            s.client.disarm();
            Ok(0)
        })
    })
}
