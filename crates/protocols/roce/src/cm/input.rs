//! Messages of the peer's connection manager, and timers.

use super::{Answer, ConnId, ConnState, Reply, Serves, key, pending};
use crate::Event;
use crate::core::Owner;
use crate::endpoint::Endpoint;
use crate::event::{ConnectFailure, Ended};
use crate::ingress::Arrived;
use crate::path::PathSpec;
use crate::slab::NONE;
use crate::verbs::{Mtu, QpState, Qpn, RtrAttr, RtsAttr, WcStatus};
use barewire_base::{DropReason, Duration, Instant};
use barewire_wire::roce::cm::{
    Dreq, Lap, Mad, Message, Mra, Rej, RejReason, Rejected, Rep, Req, Rtu, SidrReq,
};
use barewire_wire::roce::rdma_cm::{self, IpHeader};
use barewire_wire::roce::{MASK_24, QKEY_GSI, QPN_GSI, timeout_ns};

/// Status of an APR: alternate paths are not supported (section 12.8.2).
const APR_UNSUPPORTED: u8 = 2;
/// Status of a SIDR_REP (section 12.11.2).
const SIDR_ANSWERED: u8 = 0;
const SIDR_NO_SERVICE: u8 = 1;
const SIDR_REFUSED: u8 = 2;
const SIDR_NO_QP: u8 = 3;
/// Whoever asks for a longer pause than this gets this one.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// What a request for a connection asks for, where it may be had.
struct Terms<'a> {
    listener: u32,
    mtu: Mtu,
    /// The application's own data.
    private: &'a [u8],
}

impl Endpoint {
    /// A datagram for queue pair 1.
    pub(crate) fn management(&mut self, now: Instant, arrived: &Arrived<'_>) -> Result<(), DropReason> {
        let deth = arrived.segment.deth().ok_or(DropReason::Malformed)?;
        if deth.qkey != QKEY_GSI {
            return Err(DropReason::BadKey);
        }
        if deth.src_qpn != QPN_GSI {
            return Err(DropReason::Malformed);
        }
        let mad = Mad::parse(arrived.segment.payload)?;
        let path = self.core.paths.find(arrived.src_mac, arrived.dst, arrived.src);
        match mad.message {
            Message::Req(req) => self.requested(now, arrived, path, mad.transaction, &req),
            Message::Rep(rep) => self.replied(now, path, mad.transaction, &rep),
            Message::Rtu(rtu) => self.ready_to_use(path, &rtu),
            Message::Rej(rej) => self.rejected(now, path, mad.transaction, &rej),
            Message::Mra(mra) => self.postponed(now, path, &mra),
            Message::Dreq(dreq) => self.asked_to_close(now, arrived, path, mad.transaction, &dreq),
            Message::Drep(drep) => {
                let id = self.conn_for(path, drep.remote_id, drep.local_id)?;
                if self.cm.conns[id].state != ConnState::DreqSent {
                    self.core.counters.cm_duplicates.add(1);
                    return Err(DropReason::Duplicate);
                }
                if self.cm.conns[id].transaction != mad.transaction {
                    return Err(DropReason::UnknownFlow);
                }
                self.ended(now, id, Ended::Local);
                Ok(())
            }
            Message::Lap(lap) => self.offered_path(path, mad.transaction, &lap),
            Message::SidrReq(req) => self.asked_for_service(arrived, path, mad.transaction, &req),
            // Answers to what we never ask.
            Message::Apr(_) | Message::SidrRep(_) => Err(DropReason::UnknownProtocol),
        }
    }

    /// Alternate paths are not offered: who asks for one is told so, and uses the one there is.
    fn offered_path(&mut self, path: Option<u32>, transaction: u64, lap: &Lap<'_>) -> Result<(), DropReason> {
        let id = self.conn_for(path, lap.remote_id, lap.local_id)?;
        let conn = &self.cm.conns[id];
        if conn.state != ConnState::Established {
            return Err(DropReason::BadState);
        }
        let (path, local_id, remote_id) = (conn.path, conn.local_id, conn.remote_id);
        let what = Answer::Apr { status: APR_UNSUPPORTED };
        self.cm.reply(&mut self.core, Reply { path, local_id, remote_id, transaction, what, private: NONE });
        Ok(())
    }

    /// Somebody asks for the datagram queue pair of a service. A repeated question is answered again: nothing is kept of it.
    fn asked_for_service(
        &mut self,
        arrived: &Arrived<'_>,
        path: Option<u32>,
        transaction: u64,
        req: &SidrReq<'_>,
    ) -> Result<(), DropReason> {
        let path = match path {
            Some(path) => path,
            None => self.path_back(arrived)?,
        };
        let listener =
            self.cm.by_service.get(req.service_id).map(|slot| self.cm.listeners[slot as usize].serves);
        let ported = rdma_cm::port_of(req.service_id).is_some();
        let (status, qpn, qkey, private) = match listener {
            Some(Serves::Datagrams { .. }) if ported && IpHeader::parse(&req.private[..]).is_none() => {
                (SIDR_REFUSED, 0, 0, NONE)
            }
            Some(Serves::Datagrams { qpn, private }) => {
                let qp = self.core.numbers.get(qpn).map(|slot| &self.qps[slot]);
                let ready =
                    |state| matches!(state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
                match qp.filter(|qp| ready(qp.state)) {
                    Some(qp) => (SIDR_ANSWERED, qpn, qp.qkey, private),
                    None => (SIDR_NO_QP, 0, 0, NONE),
                }
            }
            _ => (SIDR_NO_SERVICE, 0, 0, NONE),
        };
        let private = self.core.copy_private(private)?;
        let what = Answer::Sidr { status, qpn, qkey, service_id: req.service_id };
        let remote_id = req.request_id;
        self.cm.reply(&mut self.core, Reply { path, local_id: 0, remote_id, transaction, what, private });
        Ok(())
    }

    /// The connection of a message: our id, the peer's id, and the path must all fit.
    fn conn_for(&self, path: Option<u32>, ours: u32, theirs: u32) -> Result<u32, DropReason> {
        let id = self.cm.find(ours).ok_or(DropReason::UnknownFlow)?;
        let conn = &self.cm.conns[id];
        if path != Some(conn.path) {
            return Err(DropReason::WrongPeer);
        }
        if conn.remote_id != theirs {
            return Err(DropReason::UnknownFlow);
        }
        Ok(id)
    }

    fn path_back(&mut self, arrived: &Arrived<'_>) -> Result<u32, DropReason> {
        // Hops are not told how many are enough: the way back gets as many as any of ours.
        let spec = PathSpec::new(arrived.src_mac, arrived.dst, arrived.src);
        self.core.paths.add(&self.core.config, spec, false).map_err(|_| DropReason::FlowTableFull)
    }

    fn refuse_request(&mut self, path: u32, transaction: u64, req: &Req<'_>, reason: RejReason, info: u8) {
        let what = Answer::Rej { reason, rejected: Rejected::Req, info };
        let remote_id = req.local_id;
        self.cm
            .reply(&mut self.core, Reply { path, local_id: 0, remote_id, transaction, what, private: NONE });
    }

    fn requested(
        &mut self,
        now: Instant,
        arrived: &Arrived<'_>,
        path: Option<u32>,
        transaction: u64,
        req: &Req<'_>,
    ) -> Result<(), DropReason> {
        self.core.counters.req_received.add(1);
        let path = match path {
            Some(path) => path,
            None => self.path_back(arrived)?,
        };
        // Seen before?
        if let Some(id) = self.cm.by_remote.get(key(path, req.local_id)) {
            let conn = &self.cm.conns[id];
            if conn.transaction == transaction || conn.state != ConnState::TimeWait {
                self.core.counters.cm_duplicates.add(1);
                match conn.state {
                    ConnState::ReqReceived => self.cm.send(id, pending::MRA),
                    ConnState::RepSent => self.cm.send(id, pending::REP),
                    _ => {}
                }
                return Err(DropReason::Duplicate);
            }
            // The peer uses the id again for something new, and we remember the old one only out of politeness.
            self.cm.forget(&mut self.core, id);
        }
        match self.judge_request(now, path, req) {
            Ok(terms) => self.accept_request(path, transaction, req, terms),
            Err((reason, info)) => {
                self.refuse_request(path, transaction, req, reason, info);
                Ok(())
            }
        }
    }

    /// Whether a request that was not seen before may have a connection: its terms, or why it is refused.
    fn judge_request<'a>(
        &mut self,
        now: Instant,
        path: u32,
        req: &'a Req<'_>,
    ) -> Result<Terms<'a>, (RejReason, u8)> {
        if req.transport != 0 || req.extended_transport != 0 {
            return Err((RejReason::INVALID_TRANSPORT, 0));
        }
        // Its queue pair is still connected, as far as we know: the peer has lost its memory, or is not the peer.
        if let Some(id) = self.cm.by_qpn.get(key(path, req.qpn)) {
            self.core.counters.stale.add(1);
            let conn = &self.cm.conns[id];
            let same = conn.remote_guid == req.guid && conn.state == ConnState::Established;
            if same && self.core.config.cm.stale_closes {
                self.ended(now, id, Ended::Stale);
            }
            return Err((RejReason::STALE, 0));
        }
        // Nobody can send to these.
        if req.qpn <= QPN_GSI || req.qpn >= MASK_24 {
            return Err((RejReason::UNSUPPORTED, 0));
        }
        let listener = self.cm.by_service.get(req.service_id);
        let connects = |slot: &u32| matches!(self.cm.listeners[*slot as usize].serves, Serves::Connections);
        let Some(listener) = listener.filter(connects) else {
            return Err((RejReason::INVALID_SERVICE, 0));
        };
        let mut private = &req.private[..];
        if rdma_cm::port_of(req.service_id).is_some() {
            if IpHeader::parse(private).is_none() {
                return Err((RejReason::UNSUPPORTED, 0));
            }
            private = &private[IpHeader::LEN..];
        }
        let ours = self.core.config.mtu;
        let Some(mtu) = Mtu::from_code(req.path_mtu).filter(|mtu| *mtu <= ours) else {
            return Err((RejReason::INVALID_MTU, ours as u8));
        };
        let entry = &mut self.cm.listeners[listener as usize];
        if entry.waiting >= entry.backlog {
            self.core.counters.backlog_full.add(1);
            return Err((RejReason::NO_RESOURCES, 0));
        }
        Ok(Terms { listener, mtu, private })
    }

    /// Opens the connection that a request asks for, and tells its listener; the request is refused where there is no room.
    fn accept_request(
        &mut self,
        path: u32,
        transaction: u64,
        req: &Req<'_>,
        terms: Terms<'_>,
    ) -> Result<(), DropReason> {
        let Terms { listener, mtu, private } = terms;
        let no_room = |this: &mut Self| {
            this.refuse_request(path, transaction, req, RejReason::NO_RESOURCES, 0);
            Ok(())
        };
        let kept = self.core.receive_private(private)?;
        let Some(id) = self.cm.open(&mut self.core, &mut self.ids, path, ConnState::ReqReceived) else {
            self.core.drop_private(kept);
            return no_room(self);
        };
        if !self.cm.by_remote.insert(key(path, req.local_id), id) {
            self.core.drop_private(kept);
            self.cm.forget(&mut self.core, id);
            return no_room(self);
        }
        self.cm.listeners[listener as usize].waiting += 1;
        let own_timeout = self.core.config.cm.ack_timeout;
        let conn = &mut self.cm.conns[id];
        conn.by_remote = true;
        conn.in_backlog = true;
        conn.listener = listener;
        conn.remote_id = req.local_id;
        conn.remote_qpn = req.qpn;
        conn.remote_guid = req.guid;
        conn.service_id = req.service_id;
        // The peer's starting number is what *we* begin to send with.
        conn.sq_psn = req.starting_psn;
        conn.transaction = transaction;
        conn.mtu = mtu;
        conn.responder_resources = req.initiator_depth;
        conn.initiator_depth = req.responder_resources;
        conn.retry_count = req.retry_count;
        conn.rnr_retry_count = req.rnr_retry_count;
        // "Never" would let a peer that goes away hold our requests for ever.
        conn.ack_timeout = if req.primary.ack_timeout == 0 { own_timeout } else { req.primary.ack_timeout };
        let listener_id = self.cm.listener_id(listener);
        let conn = &self.cm.conns[id];
        let event = Event::ConnectRequest {
            conn: ConnId(conn.local_id),
            listener: listener_id,
            service_id: req.service_id,
        };
        if !self.cm.index_qpn(id) {
            self.core.drop_private(kept);
            self.cm.forget(&mut self.core, id);
            return no_room(self);
        }
        self.core.events.push_back((event, kept));
        Ok(())
    }

    fn replied(
        &mut self,
        now: Instant,
        path: Option<u32>,
        transaction: u64,
        rep: &Rep<'_>,
    ) -> Result<(), DropReason> {
        let Some(id) = self.cm.find(rep.remote_id) else {
            // We have given up, and the message that said so was lost: the peer need not wait any longer.
            if let Some(path) = path {
                let what = Answer::Rej { reason: RejReason::INVALID_ID, rejected: Rejected::Rep, info: 0 };
                let remote_id = rep.local_id;
                let reply = Reply { path, local_id: 0, remote_id, transaction, what, private: NONE };
                self.cm.reply(&mut self.core, reply);
            }
            return Err(DropReason::UnknownFlow);
        };
        let conn = &mut self.cm.conns[id];
        if path != Some(conn.path) {
            return Err(DropReason::WrongPeer);
        }
        if conn.state != ConnState::ReqSent {
            self.core.counters.cm_duplicates.add(1);
            // Our RTU was lost.
            if conn.state == ConnState::Established && conn.remote_id == rep.local_id && conn.listener == NONE
            {
                self.cm.send(id, pending::RTU);
            }
            return Err(DropReason::Duplicate);
        }
        if conn.transaction != transaction {
            return Err(DropReason::UnknownFlow);
        }
        let kept = self.core.swap_private(&mut conn.private, rep.private)?;
        let cm = &self.core.config.cm;
        conn.remote_id = rep.local_id;
        conn.remote_qpn = rep.qpn;
        conn.remote_guid = rep.guid;
        conn.sq_psn = rep.starting_psn;
        let rtr = RtrAttr {
            path: self.core.paths.id(conn.path),
            remote_qpn: rep.qpn,
            rq_psn: conn.rq_psn,
            mtu: conn.mtu,
            responder_resources: cm.responder_resources,
            min_rnr_timer: cm.min_rnr_timer,
        };
        let rts = RtsAttr {
            // The peer's starting number is what *we* begin to send with.
            sq_psn: rep.starting_psn,
            timeout: cm.ack_timeout,
            retry_count: cm.retry_count,
            rnr_retry_count: rep.rnr_retry_count,
            initiator_depth: cm.initiator_depth.min(rep.responder_resources),
        };
        let slot = conn.qp;
        let known = self.cm.index_qpn(id);
        let qp = &mut self.qps[slot];
        let ready = known
            && rep.qpn > QPN_GSI
            && rep.qpn != MASK_24
            && qp.state == QpState::Init
            && qp.ready_to_receive(&mut self.core, &rtr).is_ok()
            && qp.ready_to_send(&rts).is_ok();
        if !ready {
            self.core.drop_private(kept);
            self.refuse_late(id, if known { RejReason::UNSUPPORTED } else { RejReason::STALE });
            self.connect_failed(now, id, ConnectFailure::BadReply, NONE);
            return Err(DropReason::Malformed);
        }
        let conn = &mut self.cm.conns[id];
        conn.state = ConnState::Established;
        conn.deadline = Instant::FAR_FUTURE;
        let event = Event::Connected { conn: ConnId(conn.local_id), qpn: Qpn(conn.qpn) };
        let sent = std::mem::replace(&mut conn.private, NONE);
        self.core.drop_private(sent);
        self.cm.send(id, pending::RTU);
        self.core.counters.connections.add(1);
        self.core.events.push_back((event, kept));
        Ok(())
    }

    fn ready_to_use(&mut self, path: Option<u32>, rtu: &Rtu<'_>) -> Result<(), DropReason> {
        let id = self.conn_for(path, rtu.remote_id, rtu.local_id)?;
        if self.cm.conns[id].state != ConnState::RepSent {
            self.core.counters.cm_duplicates.add(1);
            return Err(DropReason::Duplicate);
        }
        let kept = self.core.swap_private(&mut self.cm.conns[id].private, rtu.private)?;
        self.establish(id);
        match self.core.events.back_mut() {
            Some(last) => last.1 = kept,
            None => self.core.drop_private(kept),
        }
        Ok(())
    }

    /// The peer has shown that it got our REP.
    pub(crate) fn establish(&mut self, id: u32) {
        let conn = &mut self.cm.conns[id];
        let qp = &mut self.qps[conn.qp];
        qp.awaits_peer = false;
        let rts = RtsAttr {
            sq_psn: conn.sq_psn,
            timeout: conn.ack_timeout,
            retry_count: conn.retry_count & 7,
            rnr_retry_count: conn.rnr_retry_count & 7,
            initiator_depth: conn.initiator_depth,
        };
        // The values were held to their ranges when the request came; it can only be a queue pair that died meanwhile.
        if qp.state == QpState::Rtr && qp.ready_to_send(&rts).is_err() {
            qp.die(&mut self.core, None, WcStatus::Flushed);
        }
        conn.state = ConnState::Established;
        conn.deadline = Instant::FAR_FUTURE;
        let event = Event::Established { conn: ConnId(conn.local_id), qpn: Qpn(conn.qpn) };
        let sent = std::mem::replace(&mut conn.private, NONE);
        self.core.drop_private(sent);
        self.cm.leave_backlog(id);
        self.core.counters.connections.add(1);
        self.core.tell(event);
    }

    fn rejected(
        &mut self,
        now: Instant,
        path: Option<u32>,
        transaction: u64,
        rej: &Rej<'_>,
    ) -> Result<(), DropReason> {
        // A peer that gives up on its own request knows only its own id.
        let by_theirs = || self.cm.by_remote.get(key(path?, rej.local_id));
        let id = match rej.remote_id {
            0 => by_theirs().ok_or(DropReason::UnknownFlow)?,
            ours => self.cm.find(ours).ok_or(DropReason::UnknownFlow)?,
        };
        let conn = &mut self.cm.conns[id];
        if path != Some(conn.path) {
            return Err(DropReason::WrongPeer);
        }
        if conn.transaction != transaction {
            return Err(DropReason::UnknownFlow);
        }
        self.core.counters.rej_received.add(1);
        // A refusal does not come again: without room it is told without its private data.
        let mut keep = |sent: &mut u32| self.core.swap_private(sent, rej.private).unwrap_or(NONE);
        match conn.state {
            ConnState::ReqSent => {
                let kept = keep(&mut conn.private);
                self.connect_failed(now, id, ConnectFailure::Rejected(rej.reason), kept);
                Ok(())
            }
            ConnState::RepSent if conn.remote_id == rej.local_id || rej.local_id == 0 => {
                let kept = keep(&mut conn.private);
                self.connect_failed(now, id, ConnectFailure::Rejected(rej.reason), kept);
                Ok(())
            }
            // The application has not decided yet: it finds out when it does.
            ConnState::ReqReceived => {
                let kept = keep(&mut conn.private);
                let event = Event::ConnectFailed {
                    conn: ConnId(conn.local_id),
                    qpn: Qpn(0),
                    why: ConnectFailure::Rejected(rej.reason),
                };
                self.core.events.push_back((event, kept));
                self.remember_failed(now, id);
                Ok(())
            }
            _ => Err(DropReason::BadState),
        }
    }

    /// A connection that was asked for or accepted will not be.
    fn connect_failed(&mut self, now: Instant, id: u32, why: ConnectFailure, private: u32) {
        let conn = &mut self.cm.conns[id];
        let slot = std::mem::replace(&mut conn.qp, NONE);
        let event = Event::ConnectFailed { conn: ConnId(conn.local_id), qpn: Qpn(conn.qpn), why };
        if slot != NONE {
            let qp = &mut self.qps[slot];
            qp.conn = NONE;
            qp.awaits_peer = false;
            if conn.state == ConnState::ReqSent && qp.state == QpState::Init {
                // Nothing has happened to it.
                qp.state = QpState::Init;
            } else {
                qp.die(&mut self.core, None, WcStatus::Flushed);
            }
        }
        if self.cm.conns[id].state == ConnState::ReqSent {
            self.cm.forget(&mut self.core, id);
        } else {
            self.remember_failed(now, id);
        }
        self.core.events.push_back((event, private));
    }

    fn postponed(&mut self, now: Instant, path: Option<u32>, mra: &Mra<'_>) -> Result<(), DropReason> {
        let id = self.cm.find(mra.remote_id).ok_or(DropReason::UnknownFlow)?;
        let conn = &mut self.cm.conns[id];
        if path != Some(conn.path) {
            return Err(DropReason::WrongPeer);
        }
        let fits = match conn.state {
            ConnState::ReqSent => mra.received == Rejected::Req,
            ConnState::RepSent => mra.received == Rejected::Rep && conn.remote_id == mra.local_id,
            _ => false,
        };
        if !fits {
            return Err(DropReason::BadState);
        }
        let pause = Duration::from_nanos(timeout_ns(mra.service_timeout).unwrap_or(4_096)).min(PAUSE_MAX);
        conn.deadline = now + pause + self.core.config.cm.response_timeout;
        self.core.timers.arm(Owner::Conn(id).id(), conn.deadline);
        Ok(())
    }

    fn asked_to_close(
        &mut self,
        now: Instant,
        arrived: &Arrived<'_>,
        path: Option<u32>,
        transaction: u64,
        dreq: &Dreq<'_>,
    ) -> Result<(), DropReason> {
        let id = match self.conn_for(path, dreq.remote_id, dreq.local_id) {
            Ok(id) => id,
            Err(DropReason::UnknownFlow) if self.cm.find(dreq.remote_id).is_none() => {
                // Forgotten: what the peer wants is so already.
                let path = match path {
                    Some(path) => path,
                    None => self.path_back(arrived)?,
                };
                let (local_id, remote_id) = (dreq.remote_id, dreq.local_id);
                let reply =
                    Reply { path, local_id, remote_id, transaction, what: Answer::Drep, private: NONE };
                self.cm.reply(&mut self.core, reply);
                return Err(DropReason::UnknownFlow);
            }
            Err(reason) => return Err(reason),
        };
        let conn = &mut self.cm.conns[id];
        if conn.qpn != dreq.remote_qpn {
            return Err(DropReason::UnknownQp);
        }
        conn.closing = transaction;
        match conn.state {
            ConnState::RepSent => {
                // Its RTU was lost, but it cannot close what was never open.
                self.establish(id);
                self.ended(now, id, Ended::Remote);
            }
            ConnState::Established | ConnState::DreqSent => self.ended(now, id, Ended::Remote),
            ConnState::TimeWait => self.core.counters.cm_duplicates.add(1),
            _ => return Err(DropReason::BadState),
        }
        self.cm.send(id, pending::DREP);
        Ok(())
    }

    /// The timer of a connection fired.
    pub(crate) fn connection_timeout(&mut self, now: Instant, id: u32) {
        let conn = &mut self.cm.conns[id];
        if conn.state == ConnState::Free || conn.deadline == Instant::FAR_FUTURE {
            return;
        }
        if conn.deadline > now {
            // The timer was an earlier connection's, or an answer has put it off.
            self.core.timers.arm(Owner::Conn(id).id(), conn.deadline);
            return;
        }
        if let Some(again) = conn.put_off(&self.core, now) {
            conn.deadline = again;
            self.core.timers.arm(Owner::Conn(id).id(), again);
            return;
        }
        let (state, retries) = (conn.state, conn.retries);
        if retries >= self.core.config.cm.retries {
            self.core.counters.cm_timeouts.add(1);
            match state {
                ConnState::DreqSent => self.ended(now, id, Ended::Timeout),
                _ => {
                    self.refuse_late(id, RejReason::TIMEOUT);
                    self.connect_failed(now, id, ConnectFailure::Timeout, NONE);
                }
            }
            return;
        }
        let what = match state {
            ConnState::ReqSent => pending::REQ,
            ConnState::RepSent => pending::REP,
            ConnState::DreqSent => pending::DREQ,
            _ => return,
        };
        let wait = self.back_off(retries + 1);
        let conn = &mut self.cm.conns[id];
        conn.retries += 1;
        conn.deadline = now + wait;
        let deadline = conn.deadline;
        self.core.timers.arm(Owner::Conn(id).id(), deadline);
        self.core.counters.cm_resent.add(1);
        self.cm.send(id, what);
    }
}
