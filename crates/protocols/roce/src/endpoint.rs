//! The endpoint: all objects of one RoCE device, and the verbs on them.

use crate::cm::{Cm, REPLIES_MAX};
use crate::core::{Core, Grace, Owner, PRIVATE_MAX, Unsent};
use crate::cq::Cqs;
use crate::ids::Ids;
use crate::memory::{Mr, Regions};
use crate::path::{HEADER_MAX, PathSpec, Paths};
use crate::psn;
use crate::qp::Qp;
use crate::qpn::Numbers;
use crate::queue::{List, Recv, Send, SgeList, Srq};
use crate::quota::{Accounts, Quota};
use crate::slab::{NONE, Slab};
use crate::verbs::*;
use crate::{Config, ConfigError, Counters, Event, VerbError};
use barewire_base::{DropReason, Instant};
use barewire_ring::Region;
use barewire_wheel::Timers;
use barewire_wire::roce::{ICRC_LEN, MASK_24, bth, mad};
use std::collections::VecDeque;

/// What became of a received frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It was for us.
    Consumed,
    /// It went no further, for this reason, which is counted.
    Drop(DropReason),
}

/// Frames that one queue pair sends before the next one has its turn.
const BURST: u8 = 16;
/// Queue pairs that are looked at in one go when a completion queue has overrun.
const FAILED_SCAN: u32 = 1024;
/// UDP source ports of queue pairs lie from here to the end, so that paths of equal cost share the load.
const SRC_PORT_FIRST: u16 = 0xc000;

/// Most packets of one message: a quarter of the circle of sequence numbers. It limits messages to 1 GiB at an MTU of 256.
pub(crate) const PACKETS_MAX: u32 = 1 << 22;

/// A queue pair, looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpView {
    /// Its state.
    pub state: QpState,
    /// Its kind.
    pub kind: QpKind,
    /// The peer's queue pair, once known.
    pub remote_qpn: u32,
    /// The sequence number expected next from the peer.
    pub rq_psn: u32,
    /// The sequence number to be sent next.
    pub sq_psn: u32,
    /// Send requests without a completion.
    pub sends: u32,
    /// Receive requests of its own that wait.
    pub recvs: u32,
    /// Where completions of send requests go.
    pub send_cq: CqId,
    /// Where completions of receive requests go.
    pub recv_cq: CqId,
    /// Its rate in bits per second, while it recovers from congestion.
    pub rate_bps: Option<u64>,
}

/// One RoCE device as a value: frames and time go in, frames, completions, events and deadlines come out.
///
/// After any call, drain [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event) and the completion queues,
/// then ask [`poll_timeout`](Self::poll_timeout).
pub struct Endpoint {
    pub(crate) core: Core,
    pub(crate) qps: Slab<Qp>,
    next_pd: u32,
    pub(crate) ids: Ids,
    pub(crate) cm: Cm,
    /// Private data of the event taken last.
    pub(crate) shown: u32,
    /// Looks at the books so far.
    #[cfg(debug_assertions)]
    pub(crate) audits: u32,
}

impl Endpoint {
    /// An endpoint. `secret` comes from the operating system's random source, or from a seed in a simulation.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn new(config: Config, secret: [u8; 16]) -> Result<Endpoint, ConfigError> {
        config.check()?;
        let mut ids = Ids::new(secret);
        let (qps, connections, requests) = (config.qps_max, config.connections_max, config.requests_max);
        let cm = Cm::new(connections, &mut ids);
        Ok(Endpoint {
            qps: Slab::new(qps),
            next_pd: 0,
            cm,
            shown: NONE,
            #[cfg(debug_assertions)]
            audits: 0,
            core: Core {
                numbers: Numbers::new(ids.draw(), ids.draw() as u32),
                regions: Regions::new(config.regions_max, ids.draw() as u32),
                cqs: Cqs::new(config.cqs_max, requests),
                failed_cqs: VecDeque::new(),
                sends: Slab::new(requests),
                // One more for each queue pair: the request that it is filling counts in no queue.
                recvs: Slab::new(requests.saturating_add(qps)),
                limiters: Slab::new(qps),
                accounts: Accounts::new(
                    Quota {
                        qps: bound(qps),
                        sends: bound(requests),
                        recvs: bound(requests),
                        regions: bound(config.regions_max),
                    },
                    ids.draw(),
                ),
                // As many as all queue pairs can keep: no peer's reads take another's place.
                resources: Slab::new(qps.saturating_mul(usize::from(READS_MAX))),
                srqs: Slab::new(65_536),
                paths: Paths::new(config.paths_max, ids.draw()),
                timers: Timers::new(0),
                unsent: Unsent::default(),
                ready: VecDeque::new(),
                events: VecDeque::new(),
                // For what is sent and what has come, and for refusals that wait.
                private: Slab::new(connections.saturating_mul(2).saturating_add(REPLIES_MAX)),
                counters: Counters::default(),
                config,
            },
            ids,
        })
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// What it counts.
    pub fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// Queue pairs alive.
    pub fn live_qps(&self) -> usize {
        self.qps.len()
    }

    /// Bytes that a buffer for [`poll_transmit`](Self::poll_transmit) needs: the longest frame.
    pub fn frame_len_max(&self) -> usize {
        // Extended headers of 28 bytes are the longest; padding comes on top of the payload.
        let payload = (self.core.config.mtu.bytes() as usize).max(mad::LEN);
        HEADER_MAX + bth::HEADER_LEN + 28 + payload + 3 + ICRC_LEN
    }

    // ---- Memory, queues, paths ----

    /// A protection domain. It costs nothing and is never given back: numbers do not run out. What is made with it is limited
    /// by the configuration alone, so where applications share an endpoint each has a [quota](Self::alloc_pd_within).
    pub fn alloc_pd(&mut self) -> Pd {
        self.next_pd += 1;
        Pd(self.next_pd)
    }

    /// A protection domain whose owner may have as much as `quota` says at once. All quotas together stay within the
    /// configuration's limits, and a queue takes from its owner's quota what it has room for: what was promised is there,
    /// whatever neighbours do, as long as they all have quotas.
    ///
    /// # Errors
    /// `Limit` when less than that is left to promise.
    pub fn alloc_pd_within(&mut self, quota: Quota) -> Result<Pd, VerbError> {
        let pd = self.alloc_pd();
        self.core.accounts.open(pd, quota)?;
        Ok(pd)
    }

    /// Gives a quota back.
    ///
    /// # Errors
    /// `Busy` while something made with the domain is there; `Unknown` when it has no quota.
    pub fn dealloc_pd(&mut self, pd: Pd) -> Result<(), VerbError> {
        self.core.accounts.close(pd)
    }

    /// How much of its quota a domain uses; `None` when it has none.
    pub fn quota_used(&self, pd: Pd) -> Option<Quota> {
        self.core.accounts.used(pd)
    }

    /// Registers memory under the addresses from `base` on. The region is shared: who holds a clone of it writes and reads
    /// what the peer reads and writes.
    ///
    /// # Errors
    /// `Limit`; `Invalid` when the addresses would pass 2^64.
    pub fn reg_mr(&mut self, pd: Pd, region: Region, base: u64, access: Access) -> Result<Mr, VerbError> {
        self.core.accounts.charge(pd, Quota::REGION)?;
        let made = self.core.regions.register(pd, region, base, access);
        if made.is_err() {
            self.core.accounts.refund(pd, Quota::REGION);
        }
        made
    }

    /// Takes keys back. Requests that still use them fail.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn dereg_mr(&mut self, mr: Mr) -> Result<(), VerbError> {
        let pd = self.core.regions.deregister(mr.lkey)?;
        self.core.accounts.refund(pd, Quota::REGION);
        Ok(())
    }

    /// A completion queue with room for `entries`, which are its own from now on. Completions that find no room are lost, and
    /// with them the queue and all its queue pairs ([`Event::CqOverrun`]): who shares one among many queue pairs gives it
    /// room for what all of them can have posted, or takes completions in time.
    ///
    /// # Errors
    /// `Limit`, also when the configuration's `requests_max` has not as many left; `Invalid` for no entries.
    pub fn create_cq(&mut self, entries: u32) -> Result<CqId, VerbError> {
        self.core.cqs.create(entries)
    }

    /// Ends a completion queue.
    ///
    /// # Errors
    /// `Unknown`, or `Busy` while queue pairs use it.
    pub fn destroy_cq(&mut self, cq: CqId) -> Result<(), VerbError> {
        self.core.cqs.destroy(cq)?;
        self.check_books();
        Ok(())
    }

    /// Asks for one [`Event::CqReady`] at the next completion, or at the next that is solicited or failed.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn arm_cq(&mut self, cq: CqId, solicited_only: bool) -> Result<(), VerbError> {
        self.core.cqs.arm(cq, solicited_only)
    }

    /// Takes up to `most` completions, appended to `out`. How many.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn poll_cq(&mut self, cq: CqId, out: &mut Vec<Wc>, most: usize) -> Result<usize, VerbError> {
        self.core.cqs.poll(cq, out, most)
    }

    /// Takes one completion.
    pub fn poll_cq_one(&mut self, cq: CqId) -> Option<Wc> {
        self.core.cqs.poll_one(cq)
    }

    /// A shared receive queue with room for `limit` requests.
    ///
    /// # Errors
    /// `Limit`.
    pub fn create_srq(&mut self, pd: Pd, limit: u32) -> Result<SrqId, VerbError> {
        self.core.accounts.charge(pd, Quota::recvs(limit))?;
        let Some(slot) = self.core.srqs.take() else {
            self.core.accounts.refund(pd, Quota::recvs(limit));
            return Err(VerbError::Limit);
        };
        let queue = &mut self.core.srqs[slot];
        let generation = queue.generation.wrapping_add(1);
        *queue = Srq { alive: true, generation, pd: pd.0, list: List::default(), limit, low: 0, users: 0 };
        Ok(SrqId(Handle { slot, generation }))
    }

    /// Asks for one [`Event::SrqLow`] when fewer than `low` requests are left.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn arm_srq(&mut self, srq: SrqId, low: u32) -> Result<(), VerbError> {
        self.srq(srq)?.low = low;
        Ok(())
    }

    /// Ends a shared receive queue with what waits in it.
    ///
    /// # Errors
    /// `Unknown`, or `Busy` while queue pairs use it.
    pub fn destroy_srq(&mut self, srq: SrqId) -> Result<(), VerbError> {
        let queue = self.srq(srq)?;
        if queue.users > 0 {
            return Err(VerbError::Busy);
        }
        queue.alive = false;
        let (pd, limit) = (Pd(queue.pd), queue.limit);
        let mut list = std::mem::take(&mut queue.list);
        self.core.accounts.refund(pd, Quota::recvs(limit));
        while let Some(id) = list.pop(&mut self.core.recvs) {
            self.core.recvs.give(id);
        }
        self.core.srqs.give(srq.0.slot);
        self.check_books();
        Ok(())
    }

    fn srq(&mut self, srq: SrqId) -> Result<&mut Srq, VerbError> {
        known_srq(&mut self.core.srqs, srq)
    }

    /// A path, made or found.
    ///
    /// # Errors
    /// `Invalid` for addresses that are not ours or of two families; `Limit`.
    pub fn path(&mut self, spec: PathSpec) -> Result<PathId, VerbError> {
        let slot = self.core.paths.add(&self.core.config, spec, true)?;
        Ok(self.core.paths.id(slot))
    }

    /// Lets a path go: it is forgotten when its place is wanted and nothing uses it.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn release_path(&mut self, path: PathId) -> Result<(), VerbError> {
        self.core.paths.unpin(path)
    }

    // ---- Queue pairs ----

    #[inline]
    pub(crate) fn slot_of(&self, qpn: Qpn) -> Result<u32, VerbError> {
        self.core.numbers.get(qpn.0).ok_or(VerbError::Unknown)
    }

    /// A queue pair, in the state `Reset`.
    ///
    /// # Errors
    /// `Limit`; `Unknown` for queues that do not exist; `Invalid` for a shared receive queue of another domain; `CqError` for a
    /// completion queue that has overrun, `CqTooSmall` for one with fewer entries than the queue pair has receive requests of
    /// its own.
    pub fn create_qp(&mut self, init: &QpInit) -> Result<Qpn, VerbError> {
        if let Some(srq) = init.srq
            && self.srq(srq)?.pd != init.pd.0
        {
            return Err(VerbError::Invalid);
        }
        let charged = charge_of(init.send_max, init.recv_max, init.srq.is_some());
        // Whether a send request makes a completion is said when it is posted; a receive request always makes one.
        let recvs = if init.srq.is_some() { 0 } else { init.recv_max.into() };
        self.core.cqs.add_user(init.send_cq, 0)?;
        if let Err(error) = self.core.cqs.add_user(init.recv_cq, recvs) {
            self.core.cqs.drop_user(init.send_cq.0.slot);
            return Err(error);
        }
        let taken = self.core.accounts.charge(init.pd, charged).and_then(|()| {
            self.qps.take().ok_or_else(|| {
                self.core.accounts.refund(init.pd, charged);
                VerbError::Limit
            })
        });
        let Ok(slot) = taken else {
            self.core.cqs.drop_user(init.send_cq.0.slot);
            self.core.cqs.drop_user(init.recv_cq.0.slot);
            return Err(VerbError::Limit);
        };
        if let Some(srq) = init.srq {
            self.core.srqs[srq.0.slot].users += 1;
        }
        let qpn = self.core.numbers.take(slot);
        self.core.timers.reserve(Owner::Qp(slot).id());
        // What an earlier user left in the queue of those that transmit finds nothing to do, and stays the only entry.
        let queued = self.qps[slot].queued;
        self.qps[slot] = Qp {
            alive: true,
            queued,
            qpn,
            kind: init.kind,
            pd: init.pd,
            access: init.access,
            send_cq: init.send_cq.0.slot,
            recv_cq: init.recv_cq.0.slot,
            srq: init.srq.map_or(NONE, |s| s.0.slot),
            send_max: init.send_max,
            recv_max: init.recv_max,
            qkey: init.qkey,
            src_port: SRC_PORT_FIRST | (qpn as u16 ^ (qpn >> 14) as u16) & 0x3fff,
            ..Qp::default()
        };
        Ok(Qpn(qpn))
    }

    /// Ends a queue pair. Nothing posted completes. A connection that it belongs to is closed, without an event.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn destroy_qp(&mut self, now: Instant, qpn: Qpn) -> Result<(), VerbError> {
        let slot = self.slot_of(qpn)?;
        let conn = self.qps[slot].conn;
        if conn != NONE {
            self.abandon(now, conn);
        }
        let qp = &mut self.qps[slot];
        qp.clear(&mut self.core);
        qp.alive = false;
        let (send_cq, recv_cq, srq) = (qp.send_cq, qp.recv_cq, qp.srq);
        let charged = charge_of(qp.send_max, qp.recv_max, srq != NONE);
        self.core.accounts.refund(qp.pd, charged);
        self.core.cqs.drop_user(send_cq);
        self.core.cqs.drop_user(recv_cq);
        if let Some(srq) = self.core.srqs.get_mut(srq) {
            srq.users -= 1;
        }
        self.core.numbers.give(qpn.0);
        self.qps.give(slot);
        self.check_books();
        Ok(())
    }

    /// What a queue pair is and does.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn query_qp(&self, qpn: Qpn) -> Result<QpView, VerbError> {
        let qp = &self.qps[self.slot_of(qpn)?];
        Ok(QpView {
            state: qp.state,
            kind: qp.kind,
            remote_qpn: qp.dst_qpn,
            rq_psn: qp.expected_psn,
            sq_psn: qp.next_psn,
            sends: qp.sends.len,
            recvs: qp.recvs.len,
            send_cq: self.core.cqs.handle(qp.send_cq),
            recv_cq: self.core.cqs.handle(qp.recv_cq),
            rate_bps: self.core.limiters.get(qp.limiter).map(|l| l.rate_bps()),
        })
    }

    /// Brings a queue pair into another state.
    ///
    /// # Errors
    /// `State` when it cannot go there from where it is; `Invalid` for values out of range; `Unknown`.
    pub fn modify_qp(&mut self, qpn: Qpn, to: Modify) -> Result<(), VerbError> {
        let slot = self.slot_of(qpn)?;
        let (qp, core) = (&mut self.qps[slot], &mut self.core);
        let bad = Err(VerbError::State(qp.state));
        match (to, qp.state, qp.kind) {
            (Modify::Reset, ..) => {
                if qp.conn != NONE {
                    return Err(VerbError::Busy);
                }
                qp.clear(core);
            }
            (Modify::Init, QpState::Reset | QpState::Init, _) => qp.state = QpState::Init,
            (Modify::Rtr(attr), QpState::Init, QpKind::Rc) => qp.ready_to_receive(core, &attr)?,
            (Modify::Rts(attr), QpState::Rtr, QpKind::Rc) => qp.ready_to_send(&attr)?,
            (Modify::RtrDatagram, QpState::Init, QpKind::Ud) => qp.state = QpState::Rtr,
            (Modify::RtsDatagram(psn), QpState::Rtr | QpState::Sqe, QpKind::Ud) => {
                qp.next_psn = psn & MASK_24;
                qp.state = QpState::Rts;
            }
            (Modify::Sqd, QpState::Rts, _) => {
                qp.state = QpState::Sqd;
                if qp.is_drained(core) || qp.kind == QpKind::Ud {
                    core.tell(Event::Drained(qpn));
                }
            }
            (Modify::Resume, QpState::Sqd, _) => {
                qp.state = QpState::Rts;
                qp.wake(core, slot);
            }
            (Modify::Err, state, _) if state != QpState::Reset => qp.die(core, None, WcStatus::Flushed),
            _ => return bad,
        }
        Ok(())
    }

    /// Posts a send request.
    ///
    /// # Errors
    /// `State` before `Rts`; `QueueFull`; `Invalid` for a request that no queue pair of its kind can have; `Unknown`.
    pub fn post_send(&mut self, qpn: Qpn, wr: &SendWr<'_>) -> Result<(), VerbError> {
        let slot = self.slot_of(qpn)?;
        let (qp, core) = (&mut self.qps[slot], &mut self.core);
        if !matches!(qp.state, QpState::Rts | QpState::Sqd | QpState::Err | QpState::Sqe) {
            return Err(VerbError::State(qp.state));
        }
        if qp.sends.len >= u32::from(qp.send_max) {
            return Err(VerbError::QueueFull);
        }
        let mut send = Send::new(wr)?;
        if qp.kind == QpKind::Ud {
            let remote = send.remote.ok_or(VerbError::Invalid)?;
            let plain = matches!(send.op, SendOp::Send | SendOp::SendImm(_));
            if !plain || send.len > core.config.mtu.bytes() || remote.qpn > MASK_24 {
                return Err(VerbError::Invalid);
            }
            if core.paths.slot(remote.path).is_none() {
                return Err(VerbError::Unknown);
            }
        } else if send.remote.is_some() || (send.is_read() && qp.reads_max == 0) {
            return Err(VerbError::Invalid);
        }
        send.first = qp.posted_psn;
        send.count = if qp.kind == QpKind::Ud { 1 } else { qp.packets(send.len) };
        let count = send.count;
        if count > PACKETS_MAX {
            return Err(VerbError::Invalid);
        }
        let id = qp.sends.push(&mut core.sends, send).ok_or(VerbError::Limit)?;
        if matches!(qp.state, QpState::Err | QpState::Sqe) {
            // It comes back at once.
            qp.flush_sends(core, WcStatus::Flushed);
            return Ok(());
        }
        qp.posted_psn = psn::add(qp.posted_psn, count);
        if qp.sending == NONE {
            qp.sending = id;
        }
        qp.wake(core, slot);
        Ok(())
    }

    /// Posts a receive request.
    ///
    /// # Errors
    /// `State` before `Init`; `QueueFull`; `Invalid` for too many pieces, or when the queue pair uses a shared queue; `Unknown`.
    pub fn post_recv(&mut self, qpn: Qpn, wr_id: u64, list: &[Sge]) -> Result<(), VerbError> {
        let slot = self.slot_of(qpn)?;
        let (qp, core) = (&mut self.qps[slot], &mut self.core);
        if qp.state == QpState::Reset {
            return Err(VerbError::State(qp.state));
        }
        if qp.srq != NONE {
            return Err(VerbError::Invalid);
        }
        if qp.recvs.len >= u32::from(qp.recv_max) {
            return Err(VerbError::QueueFull);
        }
        let list = SgeList::new(list)?;
        if qp.state == QpState::Err {
            let wc = Wc { status: WcStatus::Flushed, ..qp.wc(wr_id, WcOpcode::Recv, 0) };
            let _ = core.complete(qp.recv_cq, wc, false);
            return Ok(());
        }
        qp.recvs.push(&mut core.recvs, Recv { next: NONE, wr_id, list }).ok_or(VerbError::Limit)?;
        Ok(())
    }

    /// Posts a receive request to a shared queue.
    ///
    /// # Errors
    /// `QueueFull`; `Invalid` for too many pieces; `Unknown`.
    pub fn post_srq_recv(&mut self, srq: SrqId, wr_id: u64, list: &[Sge]) -> Result<(), VerbError> {
        let list = SgeList::new(list)?;
        let core = &mut self.core;
        let queue = known_srq(&mut core.srqs, srq)?;
        if queue.list.len >= queue.limit {
            return Err(VerbError::QueueFull);
        }
        queue.list.push(&mut core.recvs, Recv { next: NONE, wr_id, list }).ok_or(VerbError::Limit)?;
        Ok(())
    }

    // ---- Time, frames, events ----

    /// Writes the next frame into `buf`, which must have [`frame_len_max`](Self::frame_len_max) bytes. Its length; `None` when
    /// there is nothing to send now (or the buffer is too short, which is a mistake of the caller).
    pub fn poll_transmit(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        debug_assert!(buf.len() >= self.frame_len_max(), "buffer shorter than the longest frame");
        if buf.len() < self.frame_len_max() {
            return None;
        }
        let sent = self.transmit_management(buf).or_else(|| self.transmit_data(now, buf));
        self.core.counters.tx_frames.add(u64::from(sent.is_some()));
        sent
    }

    fn transmit_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let core = &mut self.core;
        while let Some(&slot) = core.ready.front() {
            let qp = &mut self.qps[slot];
            let sent = match qp.kind {
                _ if !qp.alive => None,
                QpKind::Ud => qp.datagram(core, buf),
                QpKind::Rc => {
                    qp.write_next_answer(core, slot, now, buf).or_else(|| qp.request(core, slot, now, buf))
                }
            };
            let Some(len) = sent else {
                // A NAK may have become due by what was to be sent, unless it waits behind answers that have their rate.
                if !(qp.alive && qp.ack.is_some() && qp.answering == 0) {
                    qp.queued = false;
                    qp.burst = 0;
                    core.ready.pop_front();
                }
                continue;
            };
            qp.burst += 1;
            if qp.burst >= BURST {
                qp.burst = 0;
                core.ready.rotate_left(1);
            }
            return Some(len);
        }
        None
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) may have a frame now.
    pub fn has_transmit(&self) -> bool {
        !self.core.ready.is_empty() || self.cm.has_output()
    }

    /// Numbers the frame that is filled next, for [`handle_timeout_behind`](Self::handle_timeout_behind): among all frames that are queued
    /// before the port, in order, wrapping. Whoever hands on each frame at once need not.
    #[inline]
    pub fn number_frame(&mut self, number: u32) {
        self.core.unsent.next = number;
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout_behind(now, || (0, 0));
    }

    /// Does what is due at `now`, where frames may wait for room in the port: `waiting`, asked when something is due, says the number of
    /// the first that does ([`number_frame`](Self::number_frame)), and how many do. The time of a request whose last packet is among
    /// them has not begun: its time-out neither counts nor repeats anything, which would only wait behind it, and begins anew when the
    /// packet has left. The same holds for the messages that make and end connections. All this for 10 s at most between two answers of
    /// the peer.
    pub fn handle_timeout_behind(&mut self, now: Instant, waiting: impl FnOnce() -> (u32, u32)) {
        let mut waiting = Some(waiting);
        while let Some(id) = self.core.timers.pop_due(now) {
            if let Some(waiting) = waiting.take() {
                self.core.unsent.set(waiting());
            }
            match Owner::of(id) {
                Owner::Qp(slot) => {
                    let qp = &mut self.qps[slot];
                    if qp.alive && qp.kind == QpKind::Rc {
                        qp.timeout(&mut self.core, slot, now);
                    }
                }
                Owner::Conn(slot) => self.connection_timeout(now, slot),
            }
        }
        self.forget_closed(now);
        self.end_users_of_failed();
    }

    /// Ends the queue pairs of completion queues that have overrun, some at a time: an endpoint may have a million queue pairs,
    /// and their neighbours are not to wait while all are looked at.
    fn end_users_of_failed(&mut self) {
        let mut left = FAILED_SCAN;
        while let Some(&(cq, at)) = self.core.failed_cqs.front() {
            let end = self.qps.touched().min(at.saturating_add(left));
            if at == end || self.core.cqs.users(cq) == 0 {
                if left > 0 {
                    self.core.failed_cqs.pop_front();
                    continue;
                }
                return;
            }
            for slot in at..end {
                let qp = &mut self.qps[slot];
                if qp.alive && (qp.send_cq == cq.0.slot || qp.recv_cq == cq.0.slot) {
                    qp.die_of_cq(&mut self.core);
                }
            }
            left -= end - at;
            if let Some(front) = self.core.failed_cqs.front_mut() {
                front.1 = end;
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.core.failed_cqs.is_empty() {
            return Some(Instant::ZERO);
        }
        let wheel = self.core.timers.next_deadline();
        let closed = self.cm.next_forgotten();
        match (wheel, closed) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let shown = std::mem::replace(&mut self.shown, NONE);
        self.core.drop_private(shown);
        if !self.core.failed_cqs.is_empty() {
            self.end_users_of_failed();
        }
        let (event, private) = self.core.events.pop_front()?;
        self.shown = private;
        Some(event)
    }

    /// The private data that came with the event taken last, without trailing zeros (messages do not say how long it is),
    /// and without the RDMA-CM's header. Empty when there was none.
    pub fn private_data(&self) -> &[u8] {
        match self.core.private.get(self.shown) {
            Some(p) if self.shown != NONE => {
                p.bytes.get(..usize::from(p.len).min(PRIVATE_MAX)).unwrap_or(&[])
            }
            _ => &[],
        }
    }
}

/// What a queue pair takes of its owner's quota.
fn charge_of(send_max: u16, recv_max: u16, shares: bool) -> Quota {
    Quota::queue_pair(send_max, if shares { 0 } else { recv_max.into() })
}

fn bound(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}

fn known_srq(srqs: &mut Slab<Srq>, srq: SrqId) -> Result<&mut Srq, VerbError> {
    let Handle { slot, generation } = srq.0;
    srqs.get_mut(slot).filter(|q| q.alive && q.generation == generation).ok_or(VerbError::Unknown)
}

impl Qp {
    /// The state `Rtr`: the peer is known.
    pub(crate) fn ready_to_receive(&mut self, core: &mut Core, attr: &RtrAttr) -> Result<(), VerbError> {
        let limits = attr.responder_resources > READS_MAX || attr.min_rnr_timer > 31;
        if limits || attr.remote_qpn > MASK_24 || attr.rq_psn > MASK_24 || attr.mtu > core.config.mtu {
            return Err(VerbError::Invalid);
        }
        let slot = core.paths.slot(attr.path).ok_or(VerbError::Unknown)?;
        self.crc = core.paths[slot].header_crc(self.src_port, attr.remote_qpn);
        core.paths.hold(slot);
        self.path = slot;
        self.dst_qpn = attr.remote_qpn;
        self.expected_psn = attr.rq_psn;
        self.plain_psn = psn::add(attr.rq_psn, MASK_24);
        self.msn = 0;
        self.mtu = attr.mtu;
        self.resources_max = attr.responder_resources;
        self.min_rnr_timer = attr.min_rnr_timer;
        self.state = QpState::Rtr;
        Ok(())
    }

    /// The state `Rts`.
    pub(crate) fn ready_to_send(&mut self, attr: &RtsAttr) -> Result<(), VerbError> {
        let codes = attr.timeout > 31 || attr.retry_count > 7 || attr.rnr_retry_count > 7;
        if codes || attr.initiator_depth > READS_MAX || attr.sq_psn > MASK_24 {
            return Err(VerbError::Invalid);
        }
        (self.posted_psn, self.next_psn) = (attr.sq_psn, attr.sq_psn);
        (self.una_psn, self.top_psn) = (attr.sq_psn, attr.sq_psn);
        self.timeout = attr.timeout;
        (self.retry_count, self.retries) = (attr.retry_count, attr.retry_count);
        (self.rnr_retry_count, self.rnr_retries) = (attr.rnr_retry_count, attr.rnr_retry_count);
        self.reads_max = attr.initiator_depth;
        self.grace = Grace::default();
        self.state = QpState::Rts;
        Ok(())
    }
}
