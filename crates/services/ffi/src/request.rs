//! Entries: requests and responses through a daemon.

use crate::boundary::{guard, put, text};
use crate::entry::with;
use crate::error::BW_ERR_INVALID;
use crate::memory::bytes;
use crate::types::{BwClient, BwFlow};
use barewire_client::FlowId;
use barewire_client::requests::{HEAD_BYTES, ReplyTo};
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

/// Where the body begins in the message of a request, a response or a failure, in bytes.
pub const BW_REQUEST_HEAD: usize = 16;
/// Most unanswered requests of a client.
pub const BW_REQUESTS_MAX: u32 = 65536;

const _: () = assert!(BW_REQUEST_HEAD == HEAD_BYTES);

/// Turns requests on, for clients and servers alike: messages that are part of one come as BW_EVENT_REQUEST, _RESPONSE,
/// _FAILURE and _REQUEST_CANCELLED from now on. Other messages come as before.
///
/// @param unanswered_max  How many requests of this client may wait for an answer at a time: 1 to BW_REQUESTS_MAX.
/// @return BW_OK; BW_ERR_INVALID, also when they are on already.
#[unsafe(no_mangle)]
pub extern "C" fn bw_requests(client: *mut BwClient, unanswered_max: u32) -> c_int {
    guard(|| with(client, |s| s.requests.turn_on(unanswered_max).map(|()| 0)))
}

/// Sends a request. One of BW_EVENT_RESPONSE, BW_EVENT_FAILURE and BW_EVENT_UNANSWERED follows, with its number as the token;
/// when the daemon is gone, BW_ERR_DAEMON_GONE says so of all.
///
/// @param timeout_us  Microseconds for the answer, which the server learns. 0: for ever.
/// @param request     Receives its number, which this client gives to no other.
/// @return As bw_send; BW_ERR_TOO_MANY; BW_ERR_INVALID without bw_requests.
///
/// # Safety
/// `data` is valid for `len` bytes; may be null when `len` is 0. `request` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_request(
    client: *mut BwClient,
    flow: BwFlow,
    data: *const c_void,
    len: usize,
    timeout_us: u64,
    request: *mut u64,
) -> c_int {
    guard(|| {
        if request.is_null() {
            return Err(BW_ERR_INVALID.into());
        }
        // SAFETY: this entry's contract.
        let data = unsafe { bytes(data, len) }?;
        let id = with(client, |s| s.request(FlowId::from_raw(flow), data, patience(timeout_us)))?;
        // SAFETY: this entry's contract.
        unsafe { put(request, id.to_raw()) }?;
        Ok(0)
    })
}

/// Longer than any process runs is for ever, and so is 0.
pub(crate) fn patience(timeout_us: u64) -> Option<Duration> {
    Some(timeout_us).filter(|t| (1..1 << 51).contains(t)).map(Duration::from_micros)
}

/// Gives a request up, and tells the server. No event follows.
///
/// @return 1; 0 when it was over already (its event has come, or is the next).
#[unsafe(no_mangle)]
pub extern "C" fn bw_request_cancel(client: *mut BwClient, request: u64) -> c_int {
    guard(|| with(client, |s| s.request_cancel(request).map(c_int::from)))
}

/// Answers a request.
///
/// @param flow     Of BW_EVENT_REQUEST.
/// @param request  Its token.
/// @return As bw_send.
///
/// # Safety
/// `data` is valid for `len` bytes; may be null when `len` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_respond(
    client: *mut BwClient,
    flow: BwFlow,
    request: u64,
    data: *const c_void,
    len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let data = unsafe { bytes(data, len) }?;
        let to = ReplyTo::new(FlowId::from_raw(flow), request);
        with(client, |s| to.respond(&mut s.client, data).map_err(|e| s.full_or_gone(e)))?;
        Ok(0)
    })
}

/// Says that a request has no response.
///
/// @param code  For the caller, with a meaning of your own.
/// @param why   For the caller; null: no text. Bytes beyond 1024 are cut off.
/// @return As bw_send.
///
/// # Safety
/// The string ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_fail(
    client: *mut BwClient,
    flow: BwFlow,
    request: u64,
    code: u16,
    why: *const c_char,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let why = unsafe { text(why) }.unwrap_or_default();
        let to = ReplyTo::new(FlowId::from_raw(flow), request);
        with(client, |s| to.fail(&mut s.client, code, &why).map_err(|e| s.full_or_gone(e)))?;
        Ok(0)
    })
}

/// How long a sleep on bw_event_fd may be at most: until the next deadline of a request, in milliseconds, rounded up. A wait in
/// bw_wait_event knows by itself. Between bw_arm and bw_disarm it also says whether a call of another thread has left an event, or has taken
/// away what would have made the descriptor readable: ask after such calls, and end the sleep.
///
/// @return Milliseconds; 0: do not sleep; INT_MAX when no request has a deadline.
#[unsafe(no_mangle)]
pub extern "C" fn bw_sleep_max_ms(client: *mut BwClient) -> c_int {
    guard(|| {
        with(client, |s| {
            if s.armed && s.client.ends_sleep() {
                return Ok(0);
            }
            let left = s.requests.until_deadline().map(|left| left.as_nanos().div_ceil(1_000_000));
            Ok(left.and_then(|ms| c_int::try_from(ms).ok()).unwrap_or(c_int::MAX))
        })
    })
}
