//! Entries: domains, memory, queues, queue pairs.

use crate::boundary::{guard, put};
use crate::entry::{bytes, need, with};
use crate::error::{BWV_ERR_INVALID, BWV_ERR_UNKNOWN};
use crate::types::{BwvContext, BwvCq, BwvMr, BwvMrId, BwvPd, BwvQp, BwvQpAttr, BwvQpView, BwvSrq};
use barewire_roce::{Access, Modify};
use barewire_verbs::context::{Cq, Pd, Qp, QpAttr, Srq};
use std::ffi::{c_int, c_void};

/// Most bytes that one call of bwv_mr_write or bwv_mr_read copies.
const COPY_MAX: usize = 1 << 30;

fn access(bits: u32) -> Result<Access, c_int> {
    u8::try_from(bits).ok().and_then(Access::from_bits).ok_or(BWV_ERR_INVALID)
}

/// Makes a protection domain: memory and queue pairs of different ones know nothing of each other.
///
/// @return BWV_OK, BWV_ERR_QUOTA, BWV_ERR_DAEMON_GONE.
///
/// # Safety
/// `pd` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_alloc_pd(context: *mut BwvContext, pd: *mut BwvPd) -> c_int {
    guard(|| {
        let made = with(context, |s| Ok(s.context.alloc_pd()?.number()))?;
        // SAFETY: this entry's contract.
        unsafe { put(pd, made) }?;
        Ok(0)
    })
}

/// Ends a domain.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_IN_USE while something is in it.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_dealloc_pd(context: *mut BwvContext, pd: BwvPd) -> c_int {
    guard(|| {
        with(context, |s| Ok(s.context.dealloc_pd(Pd::from_number(&s.context, pd))?))?;
        Ok(0)
    })
}

/// Registers `len` bytes of the channel's memory, zero at first.
///
/// @param access_flags  BWV_ACCESS_...
/// @return BWV_OK, BWV_ERR_NO_MEMORY, BWV_ERR_QUOTA, BWV_ERR_UNKNOWN, BWV_ERR_INVALID.
///
/// # Safety
/// `mr` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_reg_mr(
    context: *mut BwvContext,
    pd: BwvPd,
    len: usize,
    access_flags: u32,
    mr: *mut BwvMr,
) -> c_int {
    guard(|| {
        if mr.is_null() {
            return Err(BWV_ERR_INVALID.into());
        }
        let access = access(access_flags)?;
        let made = with(context, |s| {
            let made = s.context.reg_mr(Pd::from_number(&s.context, pd), len, access)?;
            let all = BwvMr {
                id: made.number(),
                lkey: made.lkey(),
                rkey: made.rkey(),
                reserved: 0,
                addr: made.addr(),
                len: made.len() as u64,
                memory: made.region().as_ptr().as_ptr().cast(),
            };
            s.regions.insert(made.number(), made);
            Ok(all)
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(mr, made) }?;
        Ok(0)
    })
}

/// Takes a region's keys back. Requests that still use them fail; its memory is not to be touched any more.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_dereg_mr(context: *mut BwvContext, mr: BwvMrId) -> c_int {
    guard(|| {
        with(context, |s| {
            let region = s.regions.remove(&mr).ok_or(BWV_ERR_UNKNOWN)?;
            Ok(s.context.dereg_mr(region)?)
        })?;
        Ok(0)
    })
}

/// Writes bytes into registered memory, from `offset` within it.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_INVALID when they do not fit: then nothing is written.
///
/// # Safety
/// `data` is valid for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_mr_write(
    context: *mut BwvContext,
    mr: BwvMrId,
    offset: usize,
    data: *const c_void,
    len: usize,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let data = unsafe { bytes(data, len, COPY_MAX) }?;
        with(context, |s| {
            let region = s.regions.get(&mr).ok_or(BWV_ERR_UNKNOWN)?;
            if region.write(offset, data) { Ok(0) } else { Err(BWV_ERR_INVALID.into()) }
        })
    })
}

/// Copies bytes out of registered memory, from `offset` within it.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_INVALID when they are not all there.
///
/// # Safety
/// `out` is valid for writes of `len` bytes that nobody else touches meanwhile, all initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_mr_read(
    context: *mut BwvContext,
    mr: BwvMrId,
    offset: usize,
    out: *mut c_void,
    len: usize,
) -> c_int {
    guard(|| {
        with(context, |s| {
            let region = s.regions.get(&mr).ok_or(BWV_ERR_UNKNOWN)?;
            if len == 0 {
                return if offset <= region.len() { Ok(0) } else { Err(BWV_ERR_INVALID.into()) };
            }
            if out.is_null() || len > COPY_MAX {
                return Err(BWV_ERR_INVALID.into());
            }
            // C need not have initialised its buffer, and a Rust slice must be: piece by piece through one of ours.
            let mut piece = [0u8; 4096];
            if offset.checked_add(len).is_none_or(|end| end > region.len()) {
                return Err(BWV_ERR_INVALID.into());
            }
            let mut done = 0;
            while done < len {
                let n = (len - done).min(piece.len());
                if !region.read_into(offset + done, &mut piece[..n]) {
                    return Err(BWV_ERR_INVALID.into());
                }
                // SAFETY: `done + n` is at most `len`, for which `out` is valid by this entry's contract.
                unsafe { out.cast::<u8>().add(done).copy_from_nonoverlapping(piece.as_ptr(), n) };
                done += n;
            }
            Ok(0)
        })
    })
}

/// Makes a completion queue with room for `entries`.
///
/// @return BWV_OK, BWV_ERR_QUOTA, BWV_ERR_INVALID.
///
/// # Safety
/// `cq` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_create_cq(context: *mut BwvContext, entries: u32, cq: *mut BwvCq) -> c_int {
    guard(|| {
        let made = with(context, |s| Ok(s.context.create_cq(entries)?.number()))?;
        // SAFETY: this entry's contract.
        unsafe { put(cq, made) }?;
        Ok(0)
    })
}

/// Ends a completion queue with what is in it.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_IN_USE while queue pairs use it.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_destroy_cq(context: *mut BwvContext, cq: BwvCq) -> c_int {
    guard(|| {
        with(context, |s| Ok(s.context.destroy_cq(Cq::from_number(&s.context, cq))?))?;
        Ok(0)
    })
}

/// Makes a shared receive queue with room for `limit` requests.
///
/// @return BWV_OK, BWV_ERR_QUOTA, BWV_ERR_UNKNOWN.
///
/// # Safety
/// `srq` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_create_srq(
    context: *mut BwvContext,
    pd: BwvPd,
    limit: u32,
    srq: *mut BwvSrq,
) -> c_int {
    guard(|| {
        let made =
            with(context, |s| Ok(s.context.create_srq(Pd::from_number(&s.context, pd), limit)?.number()))?;
        // SAFETY: this entry's contract.
        unsafe { put(srq, made) }?;
        Ok(0)
    })
}

/// Asks for one BWV_EVENT_SRQ_LOW when fewer than `low` requests are left.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_arm_srq(context: *mut BwvContext, srq: BwvSrq, low: u32) -> c_int {
    guard(|| {
        with(context, |s| Ok(s.context.arm_srq(Srq::from_number(&s.context, srq), low)?))?;
        Ok(0)
    })
}

/// Ends a shared receive queue with what waits in it.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_IN_USE while queue pairs use it.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_destroy_srq(context: *mut BwvContext, srq: BwvSrq) -> c_int {
    guard(|| {
        with(context, |s| Ok(s.context.destroy_srq(Srq::from_number(&s.context, srq))?))?;
        Ok(0)
    })
}

/// Makes a queue pair for a reliable connection. Receive requests may be posted at once.
///
/// @return BWV_OK, BWV_ERR_QUOTA, BWV_ERR_UNKNOWN, BWV_ERR_INVALID.
///
/// # Safety
/// `attr` is valid for a read, `qp` for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_create_qp(
    context: *mut BwvContext,
    attr: *const BwvQpAttr,
    qp: *mut BwvQp,
) -> c_int {
    guard(|| {
        // SAFETY: this entry's contract.
        let a = unsafe { need(attr) }?;
        if qp.is_null() {
            return Err(BWV_ERR_INVALID.into());
        }
        let access = access(a.access)?;
        let made = with(context, |s| {
            let attr = QpAttr {
                pd: Pd::from_number(&s.context, a.pd),
                send_cq: Cq::from_number(&s.context, a.send_cq),
                recv_cq: Cq::from_number(&s.context, a.recv_cq),
                srq: (a.srq != 0).then(|| Srq::from_number(&s.context, a.srq)),
                send_max: a.send_max,
                recv_max: a.recv_max,
                access,
            };
            Ok(s.context.create_qp(&attr)?.number())
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(qp, made) }?;
        Ok(0)
    })
}

/// Ends a queue pair. Nothing posted completes. A connection that it belongs to is closed without an event.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_destroy_qp(context: *mut BwvContext, qp: BwvQp) -> c_int {
    guard(|| {
        with(context, |s| Ok(s.context.destroy_qp(Qp::from_number(&s.context, qp))?))?;
        Ok(0)
    })
}

/// Brings a queue pair into another state: BWV_QP_RESET, INIT, SQD, RESUME or ERR. The others are a connection's.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN, BWV_ERR_STATE, BWV_ERR_IN_USE, BWV_ERR_INVALID.
#[unsafe(no_mangle)]
pub extern "C" fn bwv_modify_qp(context: *mut BwvContext, qp: BwvQp, to: u32) -> c_int {
    guard(|| {
        let to = u8::try_from(to).ok().and_then(Modify::from_code).ok_or(BWV_ERR_INVALID)?;
        with(context, |s| Ok(s.context.modify_qp(Qp::from_number(&s.context, qp), to)?))?;
        Ok(0)
    })
}

/// What a queue pair is and does.
///
/// @return BWV_OK, BWV_ERR_UNKNOWN.
///
/// # Safety
/// `view` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bwv_query_qp(context: *mut BwvContext, qp: BwvQp, view: *mut BwvQpView) -> c_int {
    guard(|| {
        let all = with(context, |s| {
            let qp = Qp::from_number(&s.context, qp);
            let v = s.context.query_qp(qp)?;
            Ok(BwvQpView {
                state: v.state.code().into(),
                qpn: s.context.qpn(qp)?,
                remote_qpn: v.remote_qpn,
                rq_psn: v.rq_psn,
                sq_psn: v.sq_psn,
                sends: v.sends,
                recvs: v.recvs,
                reserved: 0,
            })
        })?;
        // SAFETY: this entry's contract.
        unsafe { put(view, all) }?;
        Ok(0)
    })
}
