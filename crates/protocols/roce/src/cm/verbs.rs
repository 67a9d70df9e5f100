//! What applications ask of the connection manager.

use super::{Answer, Closed, Conn, ConnId, ConnState, ListenerId, Reply, Serves, pending};
use crate::core::{Grace, NoRoom, Owner};
use crate::endpoint::Endpoint;
use crate::slab::NONE;
use crate::verbs::{Mtu, PathId, QpInit, QpKind, QpState, Qpn, RtrAttr, WcStatus};
use crate::{Ended, Event, VerbError};
use barewire_base::{Duration, Instant};
use barewire_wire::roce::cm::{Rej, RejReason, Rejected, Rep, Req, SidrRep};
use barewire_wire::roce::rdma_cm::{self, IpHeader};
use std::net::IpAddr;
use thiserror::Error;

/// Why a connection cannot be asked for, accepted or closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The verb on the queue pair or the path was refused.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// The queue pair is of another kind, in another state, or belongs to another connection, which may be closed and only
    /// remembered (time-wait).
    #[error("the queue pair is not a new one for reliable connections")]
    QueuePair,
    /// There is no such connection, or not in this state.
    #[error("there is no such connection, or not in this state")]
    State,
    /// Too many connections, or no room for private data, as too many events wait to be taken.
    #[error("too many connections, or too many events that nobody takes")]
    Limit,
    /// More private data than the message carries.
    #[error("more private data than the message has room for")]
    PrivateData,
    /// Somebody listens on that service id already.
    #[error("another listener has that service id already")]
    InUse,
}

impl From<NoRoom> for ConnectError {
    fn from(NoRoom: NoRoom) -> ConnectError {
        ConnectError::Limit
    }
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect<'a> {
    /// The way to the peer.
    pub path: PathId,
    /// Whom to ask for there: a plain number, or a port by
    /// [`rdma_cm::service_id`](barewire_wire::roce::rdma_cm::service_id).
    pub service_id: u64,
    /// For a port: the port that we claim to come from.
    pub src_port: u16,
    /// Path MTU; `None` for the configuration's.
    pub mtu: Option<Mtu>,
    /// Up to 92 bytes for the peer's application, 56 when a port is asked for.
    pub private: &'a [u8],
}

impl<'a> Connect<'a> {
    /// A connection to a service id, without private data.
    pub const fn new(path: PathId, service_id: u64) -> Connect<'a> {
        Connect { path, service_id, src_port: 0, mtu: None, private: &[] }
    }
}

/// With what a connection is accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms<'a> {
    /// Up to 196 bytes for the peer's application.
    pub private: &'a [u8],
}

/// A connection, looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnInfo {
    /// Its state.
    pub state: ConnState,
    /// The peer's address.
    pub peer: IpAddr,
    /// Our address.
    pub local: IpAddr,
    /// The service id that was asked for.
    pub service_id: u64,
    /// The peer's queue pair, once known.
    pub remote_qpn: u32,
    /// Our queue pair, once there is one.
    pub qpn: Option<Qpn>,
    /// The path MTU agreed on.
    pub mtu: Mtu,
}

impl Endpoint {
    /// Listens on a service id. At most `backlog` connections wait at a time for the application's decision or for the peer's
    /// last message; further requests are refused with "no resources". A request waits for its decision without limit, unless
    /// the peer takes it back.
    ///
    /// # Errors
    /// `InUse`.
    pub fn listen(&mut self, service_id: u64, backlog: u32) -> Result<ListenerId, ConnectError> {
        self.cm.serve(service_id, backlog, Serves::Connections)
    }

    /// Answers whoever asks for the datagram queue pair of a service id (SIDR) with this one, its queue key and `private`, as
    /// long as it can receive. [`unlisten`](Self::unlisten) ends it.
    ///
    /// # Errors
    /// `InUse`; `QueuePair` when it is none for datagrams; `PrivateData` above 136 bytes; `Limit` when there is no room for it.
    pub fn listen_ud(
        &mut self,
        service_id: u64,
        qpn: Qpn,
        private: &[u8],
    ) -> Result<ListenerId, ConnectError> {
        let slot = self.slot_of(qpn)?;
        if self.qps[slot].kind != QpKind::Ud {
            return Err(ConnectError::QueuePair);
        }
        if private.len() > SidrRep::PRIVATE_LEN {
            return Err(ConnectError::PrivateData);
        }
        let private = self.core.keep_private(private)?;
        let made = self.cm.serve(service_id, 0, Serves::Datagrams { qpn: qpn.0, private });
        if made.is_err() {
            self.core.drop_private(private);
        }
        made
    }

    /// Stops listening. Requests that wait for a decision still may be decided.
    ///
    /// # Errors
    /// `State` when it does not listen.
    pub fn unlisten(&mut self, listener: ListenerId) -> Result<(), ConnectError> {
        let ended = self.cm.unserve(listener)?;
        if let Serves::Datagrams { private, .. } = ended {
            self.core.drop_private(private);
        }
        Ok(())
    }

    /// Asks for a connection with a new queue pair. [`Event::Connected`] or [`Event::ConnectFailed`] follows.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(&mut self, now: Instant, qpn: Qpn, to: &Connect<'_>) -> Result<ConnId, ConnectError> {
        let slot = self.slot_of(qpn)?;
        let qp = &self.qps[slot];
        let new = matches!(qp.state, QpState::Reset | QpState::Init);
        if qp.kind != QpKind::Rc || !new || qp.conn != NONE {
            return Err(ConnectError::QueuePair);
        }
        let path = self.core.paths.slot(to.path).ok_or(VerbError::Unknown)?;
        let mtu = to.mtu.unwrap_or(self.core.config.mtu);
        if mtu > self.core.config.mtu {
            return Err(VerbError::Invalid.into());
        }
        let header = if rdma_cm::port_of(to.service_id).is_some() { IpHeader::LEN } else { 0 };
        if to.private.len() > Req::PRIVATE_LEN - header {
            return Err(ConnectError::PrivateData);
        }
        let srq = qp.srq != NONE;
        let private = self.core.keep_private(to.private)?;
        let Some(id) = self.cm.open(&mut self.core, &mut self.ids, path, ConnState::ReqSent) else {
            self.core.drop_private(private);
            return Err(ConnectError::Limit);
        };
        if !self.core.numbers.hold(qpn.0) {
            self.core.drop_private(private);
            self.cm.forget(&mut self.core, id);
            return Err(ConnectError::QueuePair);
        }
        let transaction_high = self.cm.transaction_high;
        let conn = &mut self.cm.conns[id];
        conn.qp = slot;
        conn.qpn = qpn.0;
        conn.service_id = to.service_id;
        conn.src_port = to.src_port;
        conn.mtu = mtu;
        conn.srq = srq;
        conn.private = private;
        conn.transaction = u64::from(transaction_high) << 32 | u64::from(conn.local_id);
        let local_id = conn.local_id;
        let qp = &mut self.qps[slot];
        qp.state = QpState::Init;
        qp.conn = id;
        self.cm.send(id, pending::REQ);
        self.await_answer(now, id);
        Ok(ConnId(local_id))
    }

    /// Makes up to `n` queue pairs and asks for a connection with each; appends them to `out`. How many; fewer than `n` when
    /// a limit is reached.
    ///
    /// # Errors
    /// When not even one could be asked for.
    pub fn connect_many(
        &mut self,
        now: Instant,
        n: usize,
        init: &QpInit,
        to: &Connect<'_>,
        out: &mut Vec<(ConnId, Qpn)>,
    ) -> Result<usize, ConnectError> {
        for done in 0..n {
            let asked = match self.create_qp(init) {
                Ok(qpn) => match self.connect(now, qpn, to) {
                    Ok(conn) => Ok((conn, qpn)),
                    Err(error) => {
                        self.destroy_qp(now, qpn)?;
                        Err(error)
                    }
                },
                Err(error) => Err(error.into()),
            };
            match asked {
                Ok(pair) => out.push(pair),
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done),
            }
        }
        Ok(n)
    }

    /// Accepts a request with a new queue pair, which can receive at once. [`Event::Established`] or
    /// [`Event::ConnectFailed`] follows.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn accept(
        &mut self,
        now: Instant,
        conn: ConnId,
        qpn: Qpn,
        terms: &Terms<'_>,
    ) -> Result<(), ConnectError> {
        let id = self.cm.find(conn.0).ok_or(ConnectError::State)?;
        if self.cm.conns[id].state != ConnState::ReqReceived {
            return Err(ConnectError::State);
        }
        if terms.private.len() > Rep::PRIVATE_LEN {
            return Err(ConnectError::PrivateData);
        }
        let slot = self.slot_of(qpn)?;
        let qp = &mut self.qps[slot];
        let new = matches!(qp.state, QpState::Reset | QpState::Init);
        if qp.kind != QpKind::Rc || !new || qp.conn != NONE {
            return Err(ConnectError::QueuePair);
        }
        let c = &mut self.cm.conns[id];
        let terms_of_cm = &self.core.config.cm;
        c.responder_resources = c.responder_resources.min(terms_of_cm.responder_resources);
        c.initiator_depth = c.initiator_depth.min(terms_of_cm.initiator_depth);
        let attr = RtrAttr {
            path: self.core.paths.id(c.path),
            remote_qpn: c.remote_qpn,
            rq_psn: c.rq_psn,
            mtu: c.mtu,
            responder_resources: c.responder_resources,
            min_rnr_timer: terms_of_cm.min_rnr_timer,
        };
        let private = self.core.keep_private(terms.private)?;
        if !self.core.numbers.hold(qpn.0) {
            self.core.drop_private(private);
            return Err(ConnectError::QueuePair);
        }
        if let Err(error) = qp.ready_to_receive(&mut self.core, &attr) {
            self.core.numbers.release(qpn.0);
            self.core.drop_private(private);
            return Err(error.into());
        }
        qp.conn = id;
        qp.awaits_peer = true;
        c.srq = qp.srq != NONE;
        (c.qp, c.qpn) = (slot, qpn.0);
        c.state = ConnState::RepSent;
        c.private = private;
        self.cm.send(id, pending::REP);
        self.await_answer(now, id);
        Ok(())
    }

    /// Refuses a request. The connection is gone.
    ///
    /// # Errors
    /// `State` when nothing waits for a decision; `PrivateData` above 148 bytes, `Limit` when there is no room for it.
    pub fn reject(&mut self, conn: ConnId, reason: RejReason, private: &[u8]) -> Result<(), ConnectError> {
        let id = self.cm.find(conn.0).ok_or(ConnectError::State)?;
        let c = &self.cm.conns[id];
        if c.state != ConnState::ReqReceived {
            return Err(ConnectError::State);
        }
        if private.len() > Rej::PRIVATE_LEN {
            return Err(ConnectError::PrivateData);
        }
        let (path, local_id, remote_id, transaction) = (c.path, c.local_id, c.remote_id, c.transaction);
        let private = self.core.keep_private(private)?;
        let what = Answer::Rej { reason, rejected: Rejected::Req, info: 0 };
        let reply = Reply { path, local_id, remote_id, transaction, what, private };
        self.cm.reply(&mut self.core, reply);
        self.cm.forget(&mut self.core, id);
        Ok(())
    }

    /// Tells the peer that the decision will take longer; it stops repeating its request for the configured time.
    ///
    /// # Errors
    /// `State` when nothing waits for a decision.
    pub fn postpone(&mut self, conn: ConnId) -> Result<(), ConnectError> {
        let id = self.cm.find(conn.0).ok_or(ConnectError::State)?;
        if self.cm.conns[id].state != ConnState::ReqReceived {
            return Err(ConnectError::State);
        }
        self.cm.send(id, pending::MRA);
        Ok(())
    }

    /// Closes a connection. Its queue pair goes to the error state now; [`Event::Disconnected`] follows.
    ///
    /// # Errors
    /// `State` when it is not established.
    pub fn disconnect(&mut self, now: Instant, conn: ConnId) -> Result<(), ConnectError> {
        let id = self.cm.find(conn.0).ok_or(ConnectError::State)?;
        if self.cm.conns[id].state != ConnState::Established {
            return Err(ConnectError::State);
        }
        self.qps[self.cm.conns[id].qp].die(&mut self.core, None, WcStatus::Flushed);
        self.close(now, id);
        Ok(())
    }

    /// Sends a DREQ and waits for its answer.
    fn close(&mut self, now: Instant, id: u32) {
        let transaction_high = self.cm.transaction_high;
        let conn = &mut self.cm.conns[id];
        conn.state = ConnState::DreqSent;
        // A new transaction: that of the REQ was ours on one side only.
        conn.transaction = u64::from(!transaction_high) << 32 | u64::from(conn.local_id);
        self.cm.send(id, pending::DREQ);
        self.await_answer(now, id);
    }

    /// A connection, looked at; `None` when there is none.
    pub fn conn_info(&self, conn: ConnId) -> Option<ConnInfo> {
        let c = &self.cm.conns[self.cm.find(conn.0)?];
        let spec = &self.core.paths[c.path].spec;
        Some(ConnInfo {
            state: c.state,
            peer: spec.dst,
            local: spec.src,
            service_id: c.service_id,
            remote_qpn: c.remote_qpn,
            qpn: (c.qp != NONE).then_some(Qpn(c.qpn)),
            mtu: c.mtu,
        })
    }

    /// Connections of any state, those remembered included.
    pub fn connections(&self) -> usize {
        self.cm.conns.len()
    }

    /// Starts the first wait for an answer.
    pub(crate) fn await_answer(&mut self, now: Instant, id: u32) {
        let conn = &mut self.cm.conns[id];
        (conn.retries, conn.grace) = (0, Grace::default());
        conn.deadline = now + self.core.config.cm.response_timeout;
        self.core.timers.arm(Owner::Conn(id).id(), conn.deadline);
    }

    /// How long the wait after `retries` repetitions is.
    pub(crate) fn back_off(&self, retries: u8) -> Duration {
        let cm = &self.core.config.cm;
        cm.response_timeout
            .saturating_mul(1 << retries.min(20))
            .min(cm.response_timeout_max.max(cm.response_timeout))
    }

    /// The application destroys the queue pair of a connection: close it without a word to the application.
    pub(crate) fn abandon(&mut self, now: Instant, id: u32) {
        let conn = &mut self.cm.conns[id];
        let slot = std::mem::replace(&mut conn.qp, NONE);
        if slot != NONE {
            self.qps[slot].conn = NONE;
        }
        match self.cm.conns[id].state {
            ConnState::Established => {
                self.core.counters.disconnections.add(1);
                self.close(now, id);
            }
            ConnState::ReqSent => {
                self.refuse_late(id, RejReason::TIMEOUT);
                self.cm.forget(&mut self.core, id);
            }
            ConnState::RepSent => {
                self.refuse_late(id, RejReason::TIMEOUT);
                self.remember_failed(now, id);
            }
            _ => {}
        }
    }

    /// Tells the peer that we no longer wait for it.
    pub(crate) fn refuse_late(&mut self, id: u32, reason: RejReason) {
        let c = &self.cm.conns[id];
        let rejected = if c.state == ConnState::RepSent { Rejected::Other } else { Rejected::Req };
        // To a REQ without an answer the peer's id is not known: it finds the connection by ours.
        let what = Answer::Rej { reason, rejected, info: 0 };
        let (path, local_id, remote_id, transaction) = (c.path, c.local_id, c.remote_id, c.transaction);
        let reply = Reply { path, local_id, remote_id, transaction, what, private: NONE };
        self.cm.reply(&mut self.core, reply);
    }

    /// A connection has ended: its queue pair dies, and it is remembered for a while.
    pub(crate) fn ended(&mut self, now: Instant, id: u32, why: Ended) {
        let conn = &mut self.cm.conns[id];
        let slot = std::mem::replace(&mut conn.qp, NONE);
        let event = Event::Disconnected { conn: ConnId(conn.local_id), qpn: Qpn(conn.qpn), why };
        if slot != NONE {
            let qp = &mut self.qps[slot];
            qp.conn = NONE;
            qp.awaits_peer = false;
            qp.die(&mut self.core, None, WcStatus::Flushed);
            self.core.counters.disconnections.add(1);
            self.core.tell(event);
        }
        self.remember(now, id);
    }

    /// Time-wait.
    fn remember(&mut self, now: Instant, id: u32) {
        let conn = &mut self.cm.conns[id];
        conn.state = ConnState::TimeWait;
        conn.deadline = Instant::FAR_FUTURE;
        let private = std::mem::replace(&mut conn.private, NONE);
        self.core.drop_private(private);
        let Conn { local_id, path, remote_id, remote_qpn, .. } = *conn;
        let until = now + self.core.config.cm.time_wait();
        self.cm.closed.push_back(Closed { until, slot: id, local_id, path, remote_id, remote_qpn });
        // While it is warm: fired later, it would wait for memory only to find nothing to do.
        self.core.timers.disarm(Owner::Conn(id).id());
        self.cm.leave_backlog(id);
    }

    /// A connection that a peer asked for has not come about. Only its REQ is remembered, so that a late copy does not ask
    /// again: the queue pairs of both sides are free for another attempt.
    pub(crate) fn remember_failed(&mut self, now: Instant, id: u32) {
        self.cm.forget_qpns(&mut self.core, id);
        self.cm.conns[id].pending = 0;
        self.remember(now, id);
    }

    /// Forgets closed connections whose time is over.
    pub(crate) fn forget_closed(&mut self, now: Instant) {
        while self.cm.next_forgotten().is_some_and(|until| until <= now) {
            self.cm.forget_oldest(&mut self.core);
        }
    }
}
