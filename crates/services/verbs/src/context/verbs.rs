//! Objects, posts, completions.

use super::types::Handle;
use super::{
    Context, ContextError, Cq, CqState, Event, Mr, Pd, Qp, QpAttr, QpState, QpView, Refusal, Srq, Wc,
};
use crate::memory::take_addresses;
use barewire_channel::rdma::{self as entry, SendData, SendOp as Op, Sge as Piece};
use barewire_roce::{self as roce, Access, Data, Modify, SendOp, SendWr, Sge};
use std::collections::VecDeque;
use std::time::Duration;

/// Pieces of memory for an entry, or for the stage in front of it.
fn pieces(
    list: &[Sge],
    stage: &mut [u8; 16 * roce::SGE_MAX],
) -> Result<(Option<u8>, [Piece; entry::SGE_MAX], usize), ContextError> {
    let mut own = [Piece::default(); entry::SGE_MAX];
    let piece = |sge: &Sge| Piece { addr: sge.addr, len: sge.len, lkey: sge.lkey };
    if list.len() <= own.len() {
        own.iter_mut().zip(list).for_each(|(to, sge)| *to = piece(sge));
        return Ok((Some(list.len() as u8), own, 0));
    }
    if list.len() > roce::SGE_MAX {
        return Err(ContextError::Invalid);
    }
    for (to, sge) in stage.as_chunks_mut::<16>().0.iter_mut().zip(list) {
        *to = piece(sge).to_bytes();
    }
    Ok((None, own, list.len() * 16))
}

impl Context {
    fn end(&mut self, handle: Handle) -> Result<(), ContextError> {
        let object = self.own(handle)?;
        self.command(&[], |token| entry::Request::Destroy { token, object })
    }

    /// A protection domain: memory and queue pairs of different ones know nothing of each other.
    ///
    /// # Errors
    /// A quota; see [`ContextError`].
    pub fn alloc_pd(&mut self) -> Result<Pd, ContextError> {
        Ok(Pd(self.make(&[], |token| entry::Request::AllocPd { token })?.0))
    }

    /// Ends a domain.
    ///
    /// # Errors
    /// `Busy` while something is in it.
    pub fn dealloc_pd(&mut self, pd: Pd) -> Result<(), ContextError> {
        self.end(pd.0)
    }

    /// Registers `len` bytes of the channel's memory, zero at first. They start at a page.
    ///
    /// # Errors
    /// [`ContextError::NoMemory`]; a quota.
    pub fn reg_mr(&mut self, pd: Pd, len: usize, access: Access) -> Result<Mr, ContextError> {
        let pd = self.own(pd.0)?;
        let no_memory = ContextError::NoMemory(len);
        let Ok(bytes) = u32::try_from(len) else {
            return Err(no_memory);
        };
        let found = (0..2).find_map(|i| Some((i == 1, self.arenas[i].alloc(bytes)?)));
        let Some((recv_memory, (offset, used))) = found else {
            return Err(no_memory);
        };
        let memory = if recv_memory { self.channel.recv_memory() } else { self.channel.send_memory() };
        let Some(region) = memory.slice(offset as usize, len) else {
            return Err(no_memory);
        };
        // In bounds: it is no longer than the region.
        let _ = region.fill(0, len.min(used as usize), 0);
        let base = take_addresses(len);
        let made = self.make(&[], |token| entry::Request::RegMr {
            token,
            pd,
            recv_memory,
            offset,
            len: bytes,
            base,
            access: access.bits(),
        });
        match made {
            Ok((handle, key)) => Ok(Mr { handle, region, recv_memory, offset, key, base }),
            Err(e) => {
                // After a refusal nobody uses it; without an answer somebody may.
                if matches!(e, ContextError::Refused(_)) {
                    self.arenas[usize::from(recv_memory)].free(offset, bytes);
                }
                Err(e)
            }
        }
    }

    /// Takes a region's keys back. Requests that still use them fail. The memory is free for the next registration, so clones of
    /// its region should be gone.
    ///
    /// # Errors
    /// See [`ContextError`]; the region is gone all the same.
    pub fn dereg_mr(&mut self, mr: Mr) -> Result<(), ContextError> {
        self.end(mr.handle)?;
        self.arenas[usize::from(mr.recv_memory)].free(mr.offset, mr.region.len() as u32);
        Ok(())
    }

    /// A completion queue with room for `entries`.
    ///
    /// # Errors
    /// A quota; `Invalid` for no entries.
    pub fn create_cq(&mut self, entries: u32) -> Result<Cq, ContextError> {
        let (handle, _) = self.make(&[], |token| entry::Request::CreateCq { token, entries })?;
        // Room for what it takes, so that sorting completions allocates nothing; a large one grows as it is used.
        let queue = VecDeque::with_capacity(entries.min(4096) as usize);
        self.cqs.insert(handle.number, CqState { entries: entries as usize, queue, overrun: false });
        Ok(Cq(handle))
    }

    /// Ends a completion queue with what is in it.
    ///
    /// # Errors
    /// `Busy` while queue pairs use it.
    pub fn destroy_cq(&mut self, cq: Cq) -> Result<(), ContextError> {
        self.end(cq.0)?;
        self.cqs.remove(&cq.0.number);
        self.events.retain(|e| *e != Event::CqOverrun(cq));
        Ok(())
    }

    /// A shared receive queue with room for `limit` requests.
    ///
    /// # Errors
    /// A quota.
    pub fn create_srq(&mut self, pd: Pd, limit: u32) -> Result<Srq, ContextError> {
        let pd = self.own(pd.0)?;
        Ok(Srq(self.make(&[], |token| entry::Request::CreateSrq { token, pd, limit })?.0))
    }

    /// Asks for one [`Event::SrqLow`] when fewer than `low` requests are left.
    ///
    /// # Errors
    /// See [`ContextError`].
    pub fn arm_srq(&mut self, srq: Srq, low: u32) -> Result<(), ContextError> {
        let srq = self.own(srq.0)?;
        self.command(&[], |token| entry::Request::ArmSrq { token, srq, low })
    }

    /// Ends a shared receive queue with what waits in it.
    ///
    /// # Errors
    /// `Busy` while queue pairs use it.
    pub fn destroy_srq(&mut self, srq: Srq) -> Result<(), ContextError> {
        self.end(srq.0)?;
        self.events.retain(|e| match e {
            Event::SrqLow(s) | Event::SrqPostRefused { srq: s, .. } => *s != srq,
            _ => true,
        });
        Ok(())
    }

    /// A queue pair for a reliable connection. Receive requests may be posted at once.
    ///
    /// # Errors
    /// A quota; `Unknown` for queues that were ended; `CqError` for a completion queue that has overrun, `CqTooSmall` for one
    /// with fewer entries than the queue pair has receive requests of its own.
    pub fn create_qp(&mut self, attr: &QpAttr) -> Result<Qp, ContextError> {
        let (pd, send_cq, recv_cq) =
            (self.own(attr.pd.0)?, self.own(attr.send_cq.0)?, self.own(attr.recv_cq.0)?);
        let srq = attr.srq.map_or(Ok(0), |srq| self.own(srq.0))?;
        if [send_cq, recv_cq].iter().any(|cq| self.cqs.get(cq).is_some_and(|cq| cq.overrun)) {
            return Err(Refusal::CqError.into());
        }
        let (handle, qpn) = self.make(&[], |token| {
            entry::Request::CreateQp(entry::CreateQp {
                token,
                pd,
                send_cq,
                recv_cq,
                srq,
                send_max: attr.send_max,
                recv_max: attr.recv_max,
                access: attr.access.bits(),
            })
        })?;
        self.qps.insert(handle.number, QpState { send_cq, recv_cq, qpn });
        Ok(Qp(handle))
    }

    /// Ends a queue pair. Nothing posted completes. A connection that it belongs to is closed, and the peer told; no event of it
    /// comes any more.
    ///
    /// # Errors
    /// See [`ContextError`].
    pub fn destroy_qp(&mut self, qp: Qp) -> Result<(), ContextError> {
        self.end(qp.0)?;
        self.qps.remove(&qp.0.number);
        self.events.retain(|e| e.qp() != Some(qp));
        Ok(())
    }

    /// A queue pair's number, as in packets and completions.
    ///
    /// # Errors
    /// `WrongContext`; `Unknown`.
    pub fn qpn(&self, qp: Qp) -> Result<u32, ContextError> {
        let qp = self.own(qp.0)?;
        Ok(self.qps.get(&qp).ok_or(Refusal::Unknown)?.qpn)
    }

    /// Brings a queue pair into another state: `Reset`, `Init`, `Sqd`, `Resume`, `Err`. The others are a connection's.
    ///
    /// # Errors
    /// `State` when it cannot go there from where it is; `Busy` for `Reset` while it belongs to a connection.
    pub fn modify_qp(&mut self, qp: Qp, to: Modify) -> Result<(), ContextError> {
        let qp = self.own(qp.0)?;
        let to = to.code().ok_or(ContextError::Invalid)?;
        self.command(&[], |token| entry::Request::ModifyQp { token, qp, to })
    }

    /// What a queue pair is and does.
    ///
    /// # Errors
    /// See [`ContextError`].
    pub fn query_qp(&mut self, qp: Qp) -> Result<QpView, ContextError> {
        let qp = self.own(qp.0)?;
        match self.ask(&[], |token| entry::Request::QueryQp { token, qp })? {
            entry::Completion::Qp { state, remote_qpn, rq_psn, sq_psn, sends, recvs, .. } => Ok(QpView {
                state: roce::QpState::from_code(state).ok_or(Refusal::Other(0))?,
                remote_qpn,
                rq_psn,
                sq_psn,
                sends,
                recvs,
            }),
            _ => Err(Refusal::Other(0).into()),
        }
    }

    // ---- Posts ----

    /// Posts a send request. What the daemon finds wrong with it is its completion.
    ///
    /// # Errors
    /// [`ContextError::Again`] when the ring is full; `Invalid` for more than four pieces of memory, more than 64 inline bytes,
    /// inline reads, or an address of a datagram; `DaemonGone`.
    #[inline]
    pub fn post_send(&mut self, qp: Qp, wr: &SendWr<'_>) -> Result<(), ContextError> {
        let qp = self.own(qp.0)?;
        let mut staged = [0; 16 * roce::SGE_MAX];
        let mut staged_len = 0;
        let data = match wr.data {
            Data::Sges(list) => {
                let (n, list, len) = pieces(list, &mut staged)?;
                staged_len = len;
                n.map_or(SendData::StagedSges, |n| SendData::Sges { n, list })
            }
            Data::Inline(bytes) if bytes.len() <= entry::INLINE_MAX => {
                let mut own = [0; entry::INLINE_MAX];
                own[..bytes.len()].copy_from_slice(bytes);
                SendData::Inline { len: bytes.len() as u8, bytes: own }
            }
            Data::Inline(bytes) => {
                staged_len = bytes.len();
                staged.get_mut(..staged_len).ok_or(ContextError::Invalid)?.copy_from_slice(bytes);
                SendData::StagedInline
            }
        };
        // An atomic's value comes back to one place, which goes into the entry beside the operands.
        let result = |data: &SendData| match data {
            SendData::Sges { n: 1, list } => Ok(list[0]),
            _ => Err(ContextError::Invalid),
        };
        let op = match wr.op {
            SendOp::Send => Op::Send(data),
            SendOp::SendImm(imm) => Op::SendImm { imm, data },
            SendOp::SendInvalidate(rkey) => Op::SendInvalidate { rkey, data },
            SendOp::Write { addr, rkey } => Op::Write { addr, rkey, data },
            SendOp::WriteImm { addr, rkey, imm } => Op::WriteImm { addr, rkey, imm, data },
            SendOp::Read { addr, rkey } => match data {
                SendData::Inline { .. } | SendData::StagedInline => return Err(ContextError::Invalid),
                data => Op::Read { addr, rkey, data },
            },
            SendOp::CompareSwap { addr, rkey, compare, swap } => {
                Op::CompareSwap { addr, rkey, compare, swap, result: result(&data)? }
            }
            SendOp::FetchAdd { addr, rkey, add } => Op::FetchAdd { addr, rkey, add, result: result(&data)? },
        };
        if wr.remote.is_some() {
            return Err(ContextError::Invalid);
        }
        let post = entry::PostSend {
            qp,
            wr_id: wr.wr_id,
            op,
            signaled: wr.signaled,
            solicited: wr.solicited,
            fence: wr.fence,
        };
        self.post(&staged[..staged_len], entry::Request::PostSend(post))
    }

    /// Posts a receive request. What the daemon finds wrong with it is its completion.
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    #[inline]
    pub fn post_recv(&mut self, qp: Qp, wr_id: u64, list: &[Sge]) -> Result<(), ContextError> {
        let queue = self.own(qp.0)?;
        self.post_receive(queue, wr_id, list)
    }

    /// Posts a receive request to a shared queue. What the daemon finds wrong with it is [`Event::SrqPostRefused`].
    ///
    /// # Errors
    /// As [`post_send`](Self::post_send).
    #[inline]
    pub fn post_srq_recv(&mut self, srq: Srq, wr_id: u64, list: &[Sge]) -> Result<(), ContextError> {
        let queue = self.own(srq.0)?;
        self.post_receive(queue, wr_id, list)
    }

    #[inline]
    fn post_receive(&mut self, queue: u32, wr_id: u64, list: &[Sge]) -> Result<(), ContextError> {
        let mut staged = [0; 16 * roce::SGE_MAX];
        let (n, list, len) = pieces(list, &mut staged)?;
        let post = entry::PostRecv { queue, wr_id, n, list };
        self.post(&staged[..len], entry::Request::PostRecv(post))
    }

    // ---- Completions ----

    /// Takes up to `most` completions, appended to `out`. How many. Never waits.
    ///
    /// # Errors
    /// `Unknown`; `DaemonGone` once everything said before was taken.
    #[inline]
    pub fn poll_cq(&mut self, cq: Cq, out: &mut Vec<Wc>, most: usize) -> Result<usize, ContextError> {
        self.pump();
        let number = self.own(cq.0)?;
        let state = self.cqs.get_mut(&number).ok_or(Refusal::Unknown)?;
        let n = most.min(state.queue.len());
        out.extend(state.queue.drain(..n));
        if n == 0 && most > 0 {
            self.found_nothing()?;
        }
        Ok(n)
    }

    /// Takes one completion. Never waits.
    ///
    /// # Errors
    /// As [`poll_cq`](Self::poll_cq).
    #[inline]
    pub fn poll_cq_one(&mut self, cq: Cq) -> Result<Option<Wc>, ContextError> {
        self.pump();
        let number = self.own(cq.0)?;
        let wc = self.cqs.get_mut(&number).ok_or(Refusal::Unknown)?.queue.pop_front();
        if wc.is_none() {
            self.found_nothing()?;
        }
        Ok(wc)
    }

    /// Waits for the next completion of a queue, whatever its result.
    ///
    /// # Errors
    /// `TimedOut`, `DaemonGone`.
    pub fn wait_cq_any(&mut self, cq: Cq, timeout: Duration) -> Result<Wc, ContextError> {
        let number = self.own(cq.0)?;
        self.wait(timeout, |context| {
            let state = context.cqs.get_mut(&number).ok_or(Refusal::Unknown)?;
            Ok((state.queue.pop_front(), false))
        })
    }

    /// Waits for the next completion of a queue, which must be a success.
    ///
    /// # Errors
    /// `Failed`; `TimedOut`, `DaemonGone`.
    pub fn wait_cq(&mut self, cq: Cq, timeout: Duration) -> Result<Wc, ContextError> {
        let wc = self.wait_cq_any(cq, timeout)?;
        wc.result.map_err(|failure| ContextError::Failed { wr_id: wc.wr_id, failure })?;
        Ok(wc)
    }

    /// Waits until one of all completion queues has something, and says which.
    ///
    /// # Errors
    /// `TimedOut`, `DaemonGone`.
    pub fn get_cq_event(&mut self, timeout: Duration) -> Result<Cq, ContextError> {
        self.wait(timeout, |context| {
            let ready = context.cqs.iter().find(|(_, state)| !state.queue.is_empty());
            Ok((ready.map(|(number, _)| Cq(context.handle(*number))), false))
        })
    }
}
