//! Entries: posts and completions.

use crate::boundary::{Failure, guard, put};
use crate::entry::{bytes, need, timeout, with, zero_when_late};
use crate::error::BWV_ERR_INVALID;
use crate::session::completion;
use crate::types::{
    self, BWV_INLINE_MAX, BWV_SGE_MAX, BwvContext, BwvCq, BwvQp, BwvSendWr, BwvSge, BwvSrq, BwvWc,
};
use barewire_roce::{Data, SendOp, SendWr, Sge};
use barewire_verbs::context::{Cq, Qp, Srq};
use std::ffi::c_int;

const FLAGS: u32 =
    types::BWV_SEND_SIGNALED | types::BWV_SEND_SOLICITED | types::BWV_SEND_FENCE | types::BWV_SEND_INLINE;

/// Pieces of memory, copied in.
///
/// # Safety
/// `sges` is null or valid for `count` pieces.
unsafe fn pieces(sges: *const BwvSge, count: usize) -> Result<([Sge; BWV_SGE_MAX], usize), Failure> {
    let mut list = [Sge::default(); BWV_SGE_MAX];
    if count > BWV_SGE_MAX || (sges.is_null() && count > 0) {
        return Err(BWV_ERR_INVALID.into());
    }
    for (i, piece) in list.iter_mut().take(count).enumerate() {
        // SAFETY: `i` is below `count`, for which `sges` is valid by this function's contract.
        let sge = unsafe { sges.add(i).read_unaligned() };
        *piece = Sge { addr: sge.addr, len: sge.len, lkey: sge.lkey };
    }
    Ok((list, count))
}

/// Posts a send request; never waits. What the daemon finds wrong with it is its completion.
///
/// @return BWV_OK, BWV_ERR_AGAIN (poll, and try again), BWV_ERR_INVALID, BWV_ERR_DAEMON_GONE.
///
/// # Safety
/// `wr` is valid for a read, and what it points to for as long as the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_post_send(context: *mut BwvContext, qp: BwvQp, wr: *const BwvSendWr) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let wr = unsafe { need(wr) }?;
        let (addr, rkey, imm) = (wr.remote_addr, wr.rkey, wr.imm);
        let op = match wr.opcode {
            types::BWV_OP_SEND => SendOp::Send,
            types::BWV_OP_SEND_IMM => SendOp::SendImm(imm),
            types::BWV_OP_SEND_INVALIDATE => SendOp::SendInvalidate(rkey),
            types::BWV_OP_WRITE => SendOp::Write { addr, rkey },
            types::BWV_OP_WRITE_IMM => SendOp::WriteImm { addr, rkey, imm },
            types::BWV_OP_READ => SendOp::Read { addr, rkey },
            types::BWV_OP_COMPARE_SWAP => {
                SendOp::CompareSwap { addr, rkey, compare: wr.compare_add, swap: wr.swap }
            }
            types::BWV_OP_FETCH_ADD => SendOp::FetchAdd { addr, rkey, add: wr.compare_add },
            _ => return Err(BWV_ERR_INVALID.into()),
        };
        if wr.flags & !FLAGS != 0 {
            return Err(BWV_ERR_INVALID.into());
        }
        let list;
        let data = if wr.flags & types::BWV_SEND_INLINE != 0 {
            // SAFETY: this entry's contract.
            Data::Inline(unsafe { bytes(wr.inline_data, wr.inline_len, BWV_INLINE_MAX) }?)
        } else {
            // SAFETY: this entry's contract.
            list = unsafe { pieces(wr.sges, wr.sge_count) }?;
            Data::Sges(&list.0[..list.1])
        };
        let request = SendWr {
            wr_id: wr.wr_id,
            op,
            data,
            signaled: wr.flags & types::BWV_SEND_SIGNALED != 0,
            solicited: wr.flags & types::BWV_SEND_SOLICITED != 0,
            fence: wr.flags & types::BWV_SEND_FENCE != 0,
            remote: None,
        };
        with(context, |s| Ok(s.context.post_send(Qp::from_number(&s.context, qp), &request)?))?;
        Ok(0)
    })
}

/// Posts a receive request; never waits. What the daemon finds wrong with it is its completion.
///
/// @return As bwv_post_send.
///
/// # Safety
/// `sges` is valid for `sge_count` pieces; may be null when there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_post_recv(
    context: *mut BwvContext,
    qp: BwvQp,
    wr_id: u64,
    sges: *const BwvSge,
    sge_count: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let (list, n) = unsafe { pieces(sges, sge_count) }?;
        with(context, |s| Ok(s.context.post_recv(Qp::from_number(&s.context, qp), wr_id, &list[..n])?))?;
        Ok(0)
    })
}

/// Posts a receive request to a shared queue; never waits. What the daemon finds wrong with it is BWV_EVENT_SRQ_POST_REFUSED.
///
/// @return As bwv_post_send.
///
/// # Safety
/// As for bwv_post_recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_post_srq_recv(
    context: *mut BwvContext,
    srq: BwvSrq,
    wr_id: u64,
    sges: *const BwvSge,
    sge_count: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let (list, n) = unsafe { pieces(sges, sge_count) }?;
        with(context, |s| {
            Ok(s.context.post_srq_recv(Srq::from_number(&s.context, srq), wr_id, &list[..n])?)
        })?;
        Ok(0)
    })
}

/// Takes up to `max` completions; never waits.
///
/// @return How many; BWV_ERR_UNKNOWN; BWV_ERR_DAEMON_GONE after the last one of a daemon that is gone.
///
/// # Safety
/// `wcs` has room for `max` completions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_poll_cq(
    context: *mut BwvContext,
    cq: BwvCq,
    max: usize,
    wcs: *mut BwvWc,
) -> c_int {
    guard(|| {
        if wcs.is_null() && max > 0 {
            return Err(BWV_ERR_INVALID.into());
        }
        let max = max.min(c_int::MAX as usize);
        with(context, |s| {
            let cq = Cq::from_number(&s.context, cq);
            for i in 0..max {
                match s.context.poll_cq_one(cq) {
                    // SAFETY: `i` is below `max`, for which `wcs` has room by this entry's contract.
                    Ok(Some(wc)) => unsafe { put(wcs.add(i), completion(&wc)) }?,
                    Ok(None) => return Ok(i as c_int),
                    // What was taken before is not lost.
                    Err(_) if i > 0 => return Ok(i as c_int),
                    Err(e) => return Err(e.into()),
                }
            }
            Ok(max as c_int)
        })
    })
}

/// The next completion of a queue; waits for it for up to `timeout_ms` (negative: for ever).
///
/// @return 1 with `wc` filled in, 0 when the time was over, BWV_ERR_UNKNOWN, BWV_ERR_DAEMON_GONE.
///
/// # Safety
/// `wc` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_wait_cq(
    context: *mut BwvContext,
    cq: BwvCq,
    timeout_ms: i32,
    wc: *mut BwvWc,
) -> c_int {
    guard(|| {
        if wc.is_null() {
            return Err(BWV_ERR_INVALID.into());
        }
        zero_when_late(with(context, |s| {
            let cq = Cq::from_number(&s.context, cq);
            let done = s.context.wait_cq_any(cq, timeout(timeout_ms))?;
            // SAFETY: this entry's contract.
            unsafe { put(wc, completion(&done)) }.map(|()| 1)
        }))
    })
}

/// Waits until one of all completion queues has something, for up to `timeout_ms` (negative: for ever).
///
/// @param cq  Receives which; poll it.
/// @return 1, 0 when the time was over, BWV_ERR_DAEMON_GONE.
///
/// # Safety
/// `cq` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_get_cq_event(
    context: *mut BwvContext,
    timeout_ms: i32,
    cq: *mut BwvCq,
) -> c_int {
    guard(|| {
        zero_when_late(with(context, |s| {
            let ready = s.context.get_cq_event(timeout(timeout_ms))?;
            // SAFETY: this entry's contract.
            unsafe { put(cq, ready.number()) }.map(|()| 1)
        }))
    })
}
