//! Entries: connections.

use crate::boundary::{Failure, guard, put};
use crate::entry::{bytes, need, timeout, with, zero_when_late};
use crate::error::BWV_ERR_INVALID;
use crate::session::translate;
use crate::types::{self, BWV_PRIVATE_MAX, BwvConn, BwvConnectTo, BwvContext, BwvEvent, BwvListener, BwvQp};
use barewire_roce::{Mtu, RejReason};
use barewire_verbs::context::{Conn, ConnectTo, Event, Listener, Qp};
use std::ffi::{c_int, c_void};

/// Longest time that a peer's address may take to resolve when the caller would wait for ever.
const RESOLVE_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Whom to connect with.
///
/// # Safety
/// `to` is valid for a read, and its private data for as long as the result lives.
unsafe fn target_of<'a>(to: *const BwvConnectTo) -> Result<ConnectTo<'a>, Failure> {
    // SAFETY: this function's contract.
    let to = unsafe { need(to) }?;
    // SAFETY: this function's contract.
    let private = unsafe { bytes(to.private_data, to.private_len, BWV_PRIVATE_MAX) }?;
    let mtu = match to.mtu {
        0 => None,
        bytes => {
            let known = (1..=5).filter_map(Mtu::from_code).find(|m| m.bytes() == bytes);
            Some(known.ok_or(BWV_ERR_INVALID)?)
        }
    };
    Ok(ConnectTo {
        remote: to.remote.ip()?.ok_or(BWV_ERR_INVALID)?,
        service_id: to.service_id,
        local: to.local.ip()?,
        src_port: to.src_port,
        mtu,
        private,
    })
}

/// Listens on a service id. At most `backlog` wishes wait at a time; BWV_EVENT_CONNECT_REQUEST tells of each.
///
/// @return BWV_OK, BWV_ERR_LISTENING, BWV_ERR_QUOTA.
///
/// # Safety
/// `listener` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_listen(
    context: *mut BwvContext,
    service_id: u64,
    backlog: u32,
    listener: *mut BwvListener,
) -> c_int {
    guard(|| {
        let made = with(context, |s| Ok(s.context.listen(service_id, backlog)?.number()))?;
        // SAFETY: this entry's contract.
        unsafe { put(listener, made) }?;
        Ok(0)
    })
}

/// Stops listening. Wishes that are here may still be decided.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_unlisten(context: *mut BwvContext, listener: BwvListener) -> c_int {
    guard(|| {
        with(context, |s| Ok(s.context.unlisten(Listener::from_number(&s.context, listener))?))?;
        Ok(0)
    })
}

/// Waits for a peer that wants a connection, for up to `timeout_ms` (negative: for ever); other events are kept.
///
/// @param event  Receives a BWV_EVENT_CONNECT_REQUEST.
/// @return 1, 0 when the time was over, BWV_ERR_DAEMON_GONE.
///
/// # Safety
/// `event` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_get_request(
    context: *mut BwvContext,
    listener: BwvListener,
    timeout_ms: i32,
    event: *mut BwvEvent,
) -> c_int {
    guard(|| {
        if event.is_null() {
            return Err(BWV_ERR_INVALID.into());
        }
        zero_when_late(with(context, |s| {
            let listener = Listener::from_number(&s.context, listener);
            let request = s.context.get_request(listener, timeout(timeout_ms))?;
            let told = translate(&Event::ConnectRequest(request)).ok_or(BWV_ERR_INVALID)?;
            // SAFETY: this entry's contract.
            unsafe { put(event, told) }.map(|()| 1)
        }))
    })
}

/// Accepts a wish with a new queue pair, which can receive at once. BWV_EVENT_ESTABLISHED or BWV_EVENT_CONNECT_FAILED follows.
///
/// @param private_data  Up to 196 bytes for the peer's application; may be null when `private_len` is 0.
/// @return BWV_OK, BWV_ERR_UNKNOWN when the peer has taken it back, BWV_ERR_QUEUE_PAIR, BWV_ERR_PRIVATE_DATA.
///
/// # Safety
/// `private_data` is valid for `private_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_accept(
    context: *mut BwvContext,
    conn: BwvConn,
    qp: BwvQp,
    private_data: *const c_void,
    private_len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let private = unsafe { bytes(private_data, private_len, BWV_PRIVATE_MAX) }?;
        with(context, |s| {
            let (conn, qp) = (Conn::from_number(&s.context, conn), Qp::from_number(&s.context, qp));
            Ok(s.context.accept_conn(conn, qp, private)?)
        })?;
        Ok(0)
    })
}

/// Refuses a wish.
///
/// @param reason        As in the message: 28 means that the application refused.
/// @param private_data  Up to 148 bytes for the peer's application; may be null when `private_len` is 0.
/// @return BWV_OK, BWV_ERR_UNKNOWN when the peer has taken it back, BWV_ERR_PRIVATE_DATA.
///
/// # Safety
/// `private_data` is valid for `private_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_reject(
    context: *mut BwvContext,
    conn: BwvConn,
    reason: u16,
    private_data: *const c_void,
    private_len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let private = unsafe { bytes(private_data, private_len, BWV_PRIVATE_MAX) }?;
        with(context, |s| {
            let conn = Conn::from_number(&s.context, conn);
            Ok(s.context.reject_conn(conn, RejReason(reason), private)?)
        })?;
        Ok(0)
    })
}

/// Waits until a connection that was accepted with this queue pair is ready, for up to `timeout_ms` (negative: for ever).
///
/// @return 1, 0 when the time was over, BWV_ERR_REJECTED, BWV_ERR_NO_ANSWER, BWV_ERR_DISCONNECTED, BWV_ERR_DAEMON_GONE.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_wait_established(context: *mut BwvContext, qp: BwvQp, timeout_ms: i32) -> c_int {
    guard(|| {
        zero_when_late(with(context, |s| {
            s.context.wait_established(Qp::from_number(&s.context, qp), timeout(timeout_ms))?;
            Ok(1)
        }))
    })
}

/// Asks for a connection with a new queue pair. BWV_EVENT_CONNECTED or BWV_EVENT_CONNECT_FAILED follows.
///
/// @param resolve_ms  How long the peer's address may take to resolve.
/// @param conn        Receives the connection.
/// @return BWV_OK, BWV_ERR_QUOTA, BWV_ERR_QUEUE_PAIR, BWV_ERR_PRIVATE_DATA, BWV_ERR_INVALID.
///
/// # Safety
/// `to` is valid for a read with its private data, `conn` for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_start_connect(
    context: *mut BwvContext,
    qp: BwvQp,
    to: *const BwvConnectTo,
    resolve_ms: i32,
    conn: *mut BwvConn,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let to = unsafe { target_of(to) }?;
        if conn.is_null() {
            return Err(BWV_ERR_INVALID.into());
        }
        let made = with(context, |s| {
            let qp = Qp::from_number(&s.context, qp);
            Ok(s.context.start_connect(qp, &to, timeout(resolve_ms).min(RESOLVE_MAX))?.number())
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(conn, made) }?;
        Ok(0)
    })
}

/// Connects, and waits for it for up to `timeout_ms` (negative: for ever); events that arrive in the meantime are kept. After
/// BWV_ERR_TIMED_OUT the queue pair is still asking: destroy it.
///
/// @param event  Receives a BWV_EVENT_CONNECTED, with what the peer's application said.
/// @return BWV_OK, BWV_ERR_UNREACHABLE, BWV_ERR_REJECTED, BWV_ERR_NO_ANSWER, BWV_ERR_TIMED_OUT, BWV_ERR_DAEMON_GONE; as
///         bwv_start_connect.
///
/// # Safety
/// `to` is valid for a read with its private data, `event` for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_connect(
    context: *mut BwvContext,
    qp: BwvQp,
    to: *const BwvConnectTo,
    timeout_ms: i32,
    event: *mut BwvEvent,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let to = unsafe { target_of(to) }?;
        if event.is_null() {
            return Err(BWV_ERR_INVALID.into());
        }
        let told = with(context, |s| {
            let qp = Qp::from_number(&s.context, qp);
            let connected = s.context.connect(qp, &to, timeout(timeout_ms))?;
            let all = Event::Connected { conn: connected.conn, qp, private: connected.private };
            Ok(translate(&all).unwrap_or(BwvEvent::new(types::BWV_EVENT_CONNECTED)))
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(event, told) }?;
        Ok(0)
    })
}

/// Begins to close a connection. Its queue pair is dead now; BWV_EVENT_DISCONNECTED follows.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN when it has ended already, BWV_ERR_STATE before it is ready.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_start_disconnect(context: *mut BwvContext, conn: BwvConn) -> c_int {
    guard(|| {
        with(context, |s| Ok(s.context.start_disconnect(Conn::from_number(&s.context, conn))?))?;
        Ok(0)
    })
}

/// Closes a connection and waits until the peer agrees. It is not an error when the peer has closed it already.
///
/// @return BWV_OK, BWV_ERR_STATE before it is ready, BWV_ERR_TIMED_OUT, BWV_ERR_DAEMON_GONE.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_disconnect(context: *mut BwvContext, conn: BwvConn, timeout_ms: i32) -> c_int {
    guard(|| {
        with(context, |s| {
            Ok(s.context.disconnect(Conn::from_number(&s.context, conn), timeout(timeout_ms))?)
        })?;
        Ok(0)
    })
}
