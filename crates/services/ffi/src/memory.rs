//! Entries: messages out and in.

use crate::boundary::{Failure, get, guard, put};
use crate::entry::with;
use crate::error::{BW_ERR_INVALID, BW_ERR_TOO_LARGE};
use crate::types::{BwBuf, BwClient, BwFlow, BwIovec, BwMessage, NONE};
use barewire_client::FlowId;
use std::ffi::{c_int, c_void};
use std::io::IoSlice;

/// Longest message in bytes.
pub const BW_MESSAGE_MAX: usize = 64 << 20;
/// Most pieces of one message.
pub const BW_IOV_MAX: usize = 1024;
/// Pieces for which no memory is allocated.
const FEW_PIECES: usize = 16;

/// Bytes that C points to.
///
/// # Safety
/// `base` is null, or valid for reads of `len` bytes that do not change while the result lives.
#[inline]
pub(crate) unsafe fn bytes<'a>(base: *const c_void, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if base.is_null() {
        return Err(BW_ERR_INVALID.into());
    }
    if len > BW_MESSAGE_MAX {
        return Err(BW_ERR_TOO_LARGE.into());
    }
    // SAFETY: not null, so valid for `len` bytes by this function's contract; far below `isize::MAX`.
    Ok(unsafe { std::slice::from_raw_parts(base.cast(), len) })
}

/// Sends a copy of a message. BW_OK says that it was queued; whether it arrives, the flow's end tells (or a token, see bw_commit).
///
/// A flow whose peer does not read gets no more memory and messages under way than are free for all others: then its sends get
/// BW_ERR_AGAIN, and those of other flows go on.
///
/// @return BW_OK, BW_ERR_AGAIN (take events, and try again after BW_EVENT_WRITABLE of the flow), BW_ERR_NO_FLOW, BW_ERR_CLOSING,
///         BW_ERR_TOO_LARGE, BW_ERR_DAEMON_GONE.
///
/// # Safety
/// `data` is valid for `len` bytes; may be null when `len` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_send(
    client: *mut BwClient,
    flow: BwFlow,
    data: *const c_void,
    len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let data = unsafe { bytes(data, len) }?;
        with(client, |s| s.client.send(FlowId::from_raw(flow), data).map_err(|e| s.full_or_gone(e)))?;
        Ok(0)
    })
}

/// Sends one message made of pieces, at most BW_IOV_MAX.
///
/// @return As bw_send.
///
/// # Safety
/// `iov` is valid for `count` pieces, and each of them for its bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_sendv(
    client: *mut BwClient,
    flow: BwFlow,
    iov: *const BwIovec,
    count: usize,
) -> c_int {
    guard(|| {
        if count > BW_IOV_MAX || (iov.is_null() && count > 0) {
            return Err(BW_ERR_INVALID.into());
        }
        // Each piece is read once: what another thread of the program changes meanwhile cannot come between check and use.
        let piece = |i: usize| -> Result<&[u8], Failure> {
            // SAFETY: `i` is below `count`, for which `iov` is valid by this entry's contract.
            let piece = unsafe { get(iov.add(i)) }?;
            // SAFETY: this entry's contract.
            unsafe { bytes(piece.base, piece.len) }
        };
        // Most messages have few pieces: no memory is asked for then.
        let (mut few, mut many) = ([IoSlice::new(&[]); FEW_PIECES], Vec::new());
        if count > FEW_PIECES {
            many.resize(count, IoSlice::new(&[]));
        }
        let pieces = if count > FEW_PIECES { &mut many[..] } else { &mut few[..count] };
        for (i, to) in pieces.iter_mut().enumerate() {
            *to = IoSlice::new(piece(i)?);
        }
        let pieces = &*pieces;
        with(client, |s| {
            s.client.send_vectored(FlowId::from_raw(flow), pieces).map_err(|e| s.full_or_gone(e))
        })?;
        Ok(0)
    })
}

/// Room for a message of `len` bytes, to build it in place with bw_write and send it with bw_commit.
///
/// @return BW_OK, BW_ERR_AGAIN (take events, and try again after BW_EVENT_WRITABLE of flow 0), BW_ERR_TOO_LARGE.
///
/// # Safety
/// `buf` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_reserve(client: *mut BwClient, len: usize, buf: *mut BwBuf) -> c_int {
    guard(|| {
        if buf.is_null() {
            return Err(BW_ERR_INVALID.into());
        }
        let got = with(client, |s| s.reserve(len).map_err(|e| s.full_or_gone(e)))?;
        // SAFETY: this entry's contract.
        unsafe { put(buf, got) }?;
        Ok(0)
    })
}

/// Writes bytes of a reserved message, from `at` within it.
///
/// @return BW_OK; BW_ERR_INVALID, and nothing written, when they reach beyond its end or it was used up.
///
/// # Safety
/// Pointers are valid; `data` for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_write(
    client: *mut BwClient,
    buf: *const BwBuf,
    at: usize,
    data: *const c_void,
    len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let (buf, data) = unsafe { (held(buf)?, bytes(data, len)?) };
        with(client, |s| if s.write(buf, at, data) { Ok(0) } else { Err(BW_ERR_INVALID.into()) })
    })
}

/// A buffer that was not given back.
///
/// # Safety
/// `buf` is null or valid for a read.
unsafe fn held(buf: *const BwBuf) -> Result<BwBuf, Failure> {
    // SAFETY: this function's contract.
    let got = unsafe { get(buf) }?;
    if got.offset == NONE { Err(BW_ERR_INVALID.into()) } else { Ok(got) }
}

/// Queues a reserved message; bw_flush (or a send, or a wait) lets the daemon see it. `buf` is used up, whatever is returned.
///
/// @param token  Below 2^63. Not 0: BW_EVENT_DELIVERED or BW_EVENT_UNDELIVERED reports the message's fate.
/// @return As bw_send; BW_ERR_INVALID for a buffer that was used up, by whatever copy of it.
///
/// # Safety
/// `buf` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_commit(
    client: *mut BwClient,
    flow: BwFlow,
    buf: *mut BwBuf,
    token: u64,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let got = unsafe { held(buf) }?;
        if token >> 63 != 0 {
            return Err(BW_ERR_INVALID.into());
        }
        let token = Some(token).filter(|t| *t != 0);
        with(client, |s| {
            // SAFETY: this entry's contract.
            unsafe { put(buf, BwBuf { offset: NONE, len: 0 }) }?;
            let got = s.take_reserved(got).ok_or(BW_ERR_INVALID)?;
            s.client.commit(FlowId::from_raw(flow), got, token).map_err(|e| s.full_or_gone(e))
        })?;
        Ok(0)
    })
}

/// Gives a reserved message back unsent. `buf` is used up.
///
/// @return BW_OK, BW_ERR_INVALID.
///
/// # Safety
/// `buf` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_abandon(client: *mut BwClient, buf: *mut BwBuf) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let got = unsafe { held(buf) }?;
        with(client, |s| {
            let got = s.take_reserved(got).ok_or(BW_ERR_INVALID)?;
            s.client.abandon(got);
            Ok(())
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(buf, BwBuf { offset: NONE, len: 0 }) }?;
        Ok(0)
    })
}

/// Lets the daemon see what was queued, and wakes it if it sleeps.
#[unsafe(no_mangle)]
pub extern "C" fn bw_flush(client: *mut BwClient) -> c_int {
    guard(|| {
        with(client, |s| {
            s.client.flush();
            Ok(0)
        })
    })
}

/// Bytes of a received message; 0 for null.
///
/// # Safety
/// `message` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_message_len(message: *const BwMessage) -> usize {
    // SAFETY: this entry's contract.
    unsafe { get(message) }.map_or(0, |m| m.len as usize)
}

/// Copies a received message, or its first `len` bytes.
///
/// @return How many bytes were copied, or a negative code.
///
/// # Safety
/// `out` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_message_read(
    client: *mut BwClient,
    message: *const BwMessage,
    out: *mut c_void,
    len: usize,
) -> c_int {
    // SAFETY: this entry's contract.
    unsafe { bw_message_read_at(client, message, 0, out, len) }
}

/// Copies bytes of a received message, from `at` within it.
///
/// @return How many bytes were copied, or a negative code.
///
/// # Safety
/// `out` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_message_read_at(
    client: *mut BwClient,
    message: *const BwMessage,
    at: usize,
    out: *mut c_void,
    len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let message = unsafe { get(message) }?;
        if message.offset == NONE || at > message.len as usize || message.len as usize > BW_MESSAGE_MAX {
            return Err(BW_ERR_INVALID.into());
        }
        let n = len.min(message.len as usize - at);
        if n == 0 {
            return Ok(0);
        }
        if out.is_null() {
            return Err(BW_ERR_INVALID.into());
        }
        // SAFETY: not null, so there is room for `len` bytes by this entry's contract, and `n` is no more. C sees the bytes
        // only after this call.
        let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), n) };
        let got = with(client, |s| match s.holds(&message) {
            true => Ok(s.client.read_raw(message.offset, message.len, at, out)),
            false => Err(BW_ERR_INVALID.into()),
        })?;
        // Fewer only for a message that this client never got.
        if got == n { Ok(n as c_int) } else { Err(BW_ERR_INVALID.into()) }
    })
}

/// Copies the message that the last event, BW_EVENT_UNCONFIRMED, told of, or its first `len` bytes.
///
/// @return The length of the message, or BW_ERR_INVALID when no such event came last.
///
/// # Safety
/// `out` has room for `len` bytes; it may be null when `len` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_unconfirmed(client: *mut BwClient, out: *mut c_void, len: usize) -> c_int {
    guard(|| {
        let bytes =
            with(client, |s| s.unconfirmed().map(<[u8]>::to_vec).ok_or_else(|| BW_ERR_INVALID.into()))?;
        let n = len.min(bytes.len());
        if n > 0 {
            if out.is_null() {
                return Err(BW_ERR_INVALID.into());
            }
            // SAFETY: not null, so there is room for `len` bytes by this entry's contract, and `n` is no more.
            unsafe { out.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), n) };
        }
        Ok(c_int::try_from(bytes.len()).unwrap_or(c_int::MAX))
    })
}

/// Gives a received message back: its memory is free, its sender may send more. `message` is used up. The daemon sees it with
/// the next bw_flush, send or wait.
///
/// @return BW_OK, BW_ERR_INVALID.
///
/// # Safety
/// `message` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bw_message_release(client: *mut BwClient, message: *mut BwMessage) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let got = unsafe { get(message) }?;
        if got.offset == NONE {
            return Err(BW_ERR_INVALID.into());
        }
        with(client, |s| {
            if !s.holds(&got) {
                return Err(BW_ERR_INVALID.into());
            }
            s.lets_go(&got);
            s.client.release_raw(FlowId::from_raw(got.flow), got.offset, got.len);
            Ok(())
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(message, BwMessage { flow: 0, offset: NONE, len: 0 }) }?;
        Ok(0)
    })
}
