//! Requests of applications.

use super::{App, Object, Rdma, RequestContext, RequestRefusal, Resolving};
use crate::agent::Offences;
use crate::applications::Applications;
use barewire_base::{Duration, Instant};
use barewire_channel::Completion;
use barewire_channel::rdma::{self as entry};
use barewire_channel::rdma::{
    CreateQp, Device, PostRecv, PostSend, Request, STAGE_MAX, SendData, SendOp as Op, Sge as Piece, code,
    event, quota,
};
use barewire_engine::{PeerPath, Rdma as Net};
use barewire_roce::{
    self as roce, Access, Connect, Data, Modify, Mtu, PathId, QpInit, QpKind, RejReason, SendOp, SendWr, Sge,
    Terms, VerbError,
};

/// Longest time that a peer's address may take to resolve, whatever the application asks for.
const RESOLVE_MAX: Duration = Duration::from_secs(60);

/// What a request is answered with; posts that are taken and staged bytes are not.
type Answer = Result<Option<entry::Completion>, RequestRefusal>;

fn done(token: u64) -> Answer {
    Ok(Some(entry::Completion::Done { token }))
}

fn over(what: u16, limit: u32) -> RequestRefusal {
    RequestRefusal { code: code::QUOTA, what, limit }
}

/// Takes `n` of a quota.
fn take(used: &mut u32, n: u32, what: u16, limit: u32) -> Result<(), RequestRefusal> {
    match used.checked_add(n).filter(|sum| *sum <= limit) {
        Some(sum) => {
            *used = sum;
            Ok(())
        }
        None => Err(over(what, limit)),
    }
}

/// Pieces of memory, from an entry or from what was staged.
struct Pieces {
    list: [Sge; roce::SGE_MAX],
    n: usize,
}

impl Pieces {
    fn new(pieces: impl Iterator<Item = Piece>) -> Result<Pieces, RequestRefusal> {
        let mut all = Pieces { list: [Sge::default(); roce::SGE_MAX], n: 0 };
        for piece in pieces {
            *all.list.get_mut(all.n).ok_or(code::INVALID)? =
                Sge { addr: piece.addr, len: piece.len, lkey: piece.lkey };
            all.n += 1;
        }
        Ok(all)
    }

    fn staged(bytes: &[u8]) -> Result<Pieces, RequestRefusal> {
        let (pieces, []) = bytes.as_chunks::<16>() else {
            return Err(code::INVALID.into());
        };
        Pieces::new(pieces.iter().map(Piece::from_bytes))
    }

    fn list(&self) -> &[Sge] {
        &self.list[..self.n]
    }
}

impl Rdma {
    /// Serves one request. False: it has to wait, as the ring has no room for an answer.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        net: &mut Net<'_>,
        applications: &mut Applications,
        offences: &Offences,
        number: u32,
        request: &Request,
        now: Instant,
    ) -> bool {
        // Whatever the answer is, there will be room for it.
        if !applications.get(number).is_none_or(|a| a.promise(1)) {
            return false;
        }
        let mut scene = RequestContext { net, applications, offences, number, now };
        let answer = self.answer(&mut scene, request).unwrap_or_else(|no| {
            self.counters.refused.add(1);
            self.counters.over_quota.add(u64::from(no.code == code::QUOTA));
            request.refusal(no.code, no.what, no.limit)
        });
        if !matches!(request, Request::Stage(_)) {
            self.app(number).stage.clear();
            self.app(number).overflowed = false;
        }
        if let Some(a) = applications.get(number) {
            match answer {
                Some(answer) => a.keep_promise(&Completion::Rdma(answer)),
                None => a.forget_promises(1),
            }
        }
        true
    }

    pub(super) fn app(&mut self, number: u32) -> &mut App {
        // As many as the daemon takes applications.
        &mut self.apps[number as usize]
    }

    fn answer(&mut self, s: &mut RequestContext<'_, '_>, request: &Request) -> Answer {
        if self.app(s.number).overflowed && !matches!(request, Request::Stage(_)) {
            return Err(code::INVALID.into());
        }
        match *request {
            Request::PostSend(ref post) => self.post_send(s, post),
            Request::PostRecv(ref post) => self.post_recv(s, post),
            Request::Stage(ref piece) => {
                if !self.app(s.number).stage.add(piece) {
                    self.app(s.number).overflowed = true;
                    s.offences.bad_entries.add(1);
                }
                Ok(None)
            }
            Request::Query { token } => {
                let q = &self.quotas;
                Ok(Some(entry::Completion::Device(Device {
                    token,
                    mtu: s.net.endpoint.config().mtu as u8,
                    queue_pairs: q.queue_pairs,
                    connections: q.connections,
                    regions: q.regions,
                    cqs: q.completion_queues,
                    requests: q.requests,
                    completions: q.completions,
                })))
            }
            Request::AllocPd { token } => {
                let limit = self.quotas.domains;
                take(&mut self.app(s.number).used.domains, 1, quota::DOMAINS, limit)?;
                let pd = s.net.endpoint.alloc_pd();
                let made = self.insert(s, Object::Pd { pd, users: 0 });
                self.made(s, token, 0, made, |app| app.used.domains -= 1)
            }
            Request::RegMr { token, pd, recv_memory, offset, len, base, access } => {
                self.reg_mr(s, token, pd, (recv_memory, offset, len), base, access)
            }
            Request::CreateCq { token, entries } => self.create_cq(s, token, entries),
            Request::CreateSrq { token, pd, limit } => self.create_srq(s, token, pd, limit),
            Request::ArmSrq { token, srq, low } => match *self.get(s.number, srq, s.offences)? {
                Object::Srq { srq, .. } => {
                    s.net.endpoint.arm_srq(srq, low)?;
                    done(token)
                }
                _ => Err(code::UNKNOWN.into()),
            },
            Request::CreateQp(ref q) => self.create_qp(s, q),
            Request::ModifyQp { token, qp, to } => {
                let to = Modify::from_code(to).ok_or(code::INVALID)?;
                let qpn = self.qpn(s, qp)?;
                s.net.endpoint.modify_qp(qpn, to)?;
                done(token)
            }
            Request::QueryQp { token, qp } => {
                let qpn = self.qpn(s, qp)?;
                let v = s.net.endpoint.query_qp(qpn)?;
                Ok(Some(entry::Completion::Qp {
                    token,
                    state: v.state.code(),
                    remote_qpn: v.remote_qpn,
                    rq_psn: v.rq_psn,
                    sq_psn: v.sq_psn,
                    sends: v.sends,
                    recvs: v.recvs,
                }))
            }
            Request::Destroy { token, object } => {
                let found = *self.get(s.number, object, s.offences)?;
                self.destroy(s.net, s.number, object, found, s.now)?;
                done(token)
            }
            Request::Listen { token, service_id, backlog } => self.listen(s, token, service_id, backlog),
            Request::Connect(ref connect) => self.connect(s, connect),
            Request::Accept { token, conn, qp } => self.accept(s, token, conn, qp),
            Request::Reject { token, conn, reason } => {
                let id = self.decidable(s, conn)?;
                let private = self.apps[s.number as usize].stage.data();
                s.net.endpoint.reject(id, RejReason(reason), private)?;
                self.forget_conn(conn);
                done(token)
            }
            Request::Disconnect { token, conn } => match *self.get(s.number, conn, s.offences)? {
                Object::Conn { conn: Some(conn), .. } => {
                    s.net.endpoint.disconnect(s.now, conn)?;
                    done(token)
                }
                Object::Conn { .. } => Err(code::STATE.into()),
                _ => Err(code::UNKNOWN.into()),
            },
        }
    }

    // ---- Data ----

    #[inline]
    fn qpn(&mut self, s: &RequestContext<'_, '_>, qp: u32) -> Result<roce::Qpn, RequestRefusal> {
        match *self.get(s.number, qp, s.offences)? {
            Object::Qp { qpn, .. } => Ok(qpn),
            _ => Err(code::UNKNOWN.into()),
        }
    }

    #[inline]
    fn post_send(&mut self, s: &mut RequestContext<'_, '_>, post: &PostSend) -> Answer {
        let qpn = self.qpn(s, post.qp)?;
        let stage = self.apps[s.number as usize].stage.data();
        let (op, data) = match post.op {
            Op::Send(data) => (SendOp::Send, data),
            Op::SendImm { imm, data } => (SendOp::SendImm(imm), data),
            Op::SendInvalidate { rkey, data } => (SendOp::SendInvalidate(rkey), data),
            Op::Write { addr, rkey, data } => (SendOp::Write { addr, rkey }, data),
            Op::WriteImm { addr, rkey, imm, data } => (SendOp::WriteImm { addr, rkey, imm }, data),
            Op::Read { addr, rkey, data } => (SendOp::Read { addr, rkey }, data),
            Op::CompareSwap { addr, rkey, compare, swap, result } => {
                (SendOp::CompareSwap { addr, rkey, compare, swap }, one(result))
            }
            Op::FetchAdd { addr, rkey, add, result } => (SendOp::FetchAdd { addr, rkey, add }, one(result)),
        };
        let pieces;
        let data = match &data {
            SendData::Inline { len, bytes } => Data::Inline(&bytes[..usize::from(*len).min(bytes.len())]),
            SendData::StagedInline => Data::Inline(stage),
            SendData::Sges { n, list } => {
                pieces = Pieces::new(list.iter().copied().take(usize::from(*n)))?;
                Data::Sges(pieces.list())
            }
            SendData::StagedSges => {
                pieces = Pieces::staged(stage)?;
                Data::Sges(pieces.list())
            }
        };
        let wr = SendWr {
            wr_id: post.wr_id,
            op,
            data,
            signaled: post.signaled,
            solicited: post.solicited,
            fence: post.fence,
            remote: None,
        };
        s.net.endpoint.post_send(qpn, &wr)?;
        Ok(None)
    }

    #[inline]
    fn post_recv(&mut self, s: &mut RequestContext<'_, '_>, post: &PostRecv) -> Answer {
        let queue = *self.get(s.number, post.queue, s.offences)?;
        let pieces = match post.n {
            Some(n) => Pieces::new(post.list.iter().copied().take(usize::from(n)))?,
            None => Pieces::staged(self.apps[s.number as usize].stage.data())?,
        };
        match queue {
            Object::Qp { qpn, .. } => s.net.endpoint.post_recv(qpn, post.wr_id, pieces.list())?,
            Object::Srq { srq, .. } => s.net.endpoint.post_srq_recv(srq, post.wr_id, pieces.list())?,
            _ => return Err(code::UNKNOWN.into()),
        }
        Ok(None)
    }

    // ---- Making and ending ----

    fn insert(&mut self, s: &RequestContext<'_, '_>, object: Object) -> Result<u32, RequestRefusal> {
        self.objects.insert(s.number, object).ok_or(code::LIMIT.into())
    }

    /// The answer about an object that was to be made; gives its quota back when it was not.
    fn made(
        &mut self,
        s: &RequestContext<'_, '_>,
        token: u64,
        key: u32,
        made: Result<u32, RequestRefusal>,
        give_back: impl FnOnce(&mut App),
    ) -> Answer {
        match made {
            Ok(object) => Ok(Some(entry::Completion::Made { token, object, key })),
            Err(no) => {
                give_back(self.app(s.number));
                Err(no)
            }
        }
    }

    fn pd(&mut self, s: &RequestContext<'_, '_>, pd: u32) -> Result<roce::Pd, RequestRefusal> {
        match *self.get(s.number, pd, s.offences)? {
            Object::Pd { pd, .. } => Ok(pd),
            _ => Err(code::UNKNOWN.into()),
        }
    }

    fn cq(&mut self, s: &RequestContext<'_, '_>, cq: u32) -> Result<roce::CqId, RequestRefusal> {
        match *self.get(s.number, cq, s.offences)? {
            Object::Cq { cq, .. } => Ok(cq),
            _ => Err(code::UNKNOWN.into()),
        }
    }

    /// Notes that something in a domain began or ceased to use it.
    fn use_pd(&mut self, pd: u32, more: bool) {
        if let Some((_, Object::Pd { users, .. })) = self.objects.find(pd) {
            *users = if more { *users + 1 } else { users.saturating_sub(1) };
        }
    }

    fn reg_mr(
        &mut self,
        s: &mut RequestContext<'_, '_>,
        token: u64,
        pd: u32,
        (recv_memory, offset, len): (bool, u32, u32),
        base: u64,
        access: u8,
    ) -> Answer {
        let access = Access::from_bits(access).ok_or(code::INVALID)?;
        let domain = self.pd(s, pd)?;
        let Some(a) = s.applications.get(s.number) else {
            return Err(code::UNKNOWN.into());
        };
        let memory = if recv_memory { a.channel.recv_memory() } else { a.channel.send_memory() };
        let region = memory.slice(offset as usize, len as usize).ok_or(code::INVALID)?;
        let limit = self.quotas.regions;
        take(&mut self.app(s.number).used.regions, 1, quota::REGIONS, limit)?;
        let mut key = 0;
        let made =
            s.net.endpoint.reg_mr(domain, region, base, access).map_err(RequestRefusal::from).and_then(
                |mr| {
                    key = mr.lkey;
                    self.insert(s, Object::Mr { mr, pd }).inspect_err(|_| {
                        let _ = s.net.endpoint.dereg_mr(mr);
                    })
                },
            );
        if made.is_ok() {
            self.use_pd(pd, true);
        }
        self.made(s, token, key, made, |app| app.used.regions -= 1)
    }

    fn create_cq(&mut self, s: &mut RequestContext<'_, '_>, token: u64, entries: u32) -> Answer {
        let (queues, completions) = (self.quotas.completion_queues, self.quotas.completions);
        let used = &mut self.app(s.number).used;
        if used.completion_queues >= queues {
            return Err(over(quota::CQS, queues));
        }
        take(&mut used.completions, entries, quota::COMPLETIONS, completions)?;
        used.completion_queues += 1;
        let made = s.net.endpoint.create_cq(entries).map_err(RequestRefusal::from).and_then(|cq| {
            // Told at the first completion; from then on it is armed whenever it was found empty.
            let armed = s.net.endpoint.arm_cq(cq, false).map_err(RequestRefusal::from);
            let object = Object::Cq { cq, entries, queued: false };
            let number = armed.and_then(|()| self.insert(s, object)).inspect_err(|_| {
                let _ = s.net.endpoint.destroy_cq(cq);
            })?;
            self.by_cq.insert(cq, number);
            Ok(number)
        });
        self.made(s, token, 0, made, |app| {
            app.used.completion_queues -= 1;
            app.used.completions -= entries;
        })
    }

    fn create_srq(&mut self, s: &mut RequestContext<'_, '_>, token: u64, pd: u32, limit: u32) -> Answer {
        let domain = self.pd(s, pd)?;
        let (queues, requests) = (self.quotas.shared_receive_queues, self.quotas.requests);
        let used = &mut self.app(s.number).used;
        if used.shared_receive_queues >= queues {
            return Err(over(quota::SRQS, queues));
        }
        take(&mut used.recvs, limit, quota::REQUESTS, requests)?;
        used.shared_receive_queues += 1;
        let made = s.net.endpoint.create_srq(domain, limit).map_err(RequestRefusal::from).and_then(|srq| {
            let number = self.insert(s, Object::Srq { srq, pd, limit }).inspect_err(|_| {
                let _ = s.net.endpoint.destroy_srq(srq);
            })?;
            self.by_srq.insert(srq, number);
            Ok(number)
        });
        if made.is_ok() {
            self.use_pd(pd, true);
        }
        self.made(s, token, 0, made, |app| {
            app.used.shared_receive_queues -= 1;
            app.used.recvs -= limit;
        })
    }

    fn create_qp(&mut self, s: &mut RequestContext<'_, '_>, q: &CreateQp) -> Answer {
        let pd = self.pd(s, q.pd)?;
        let (send_cq, recv_cq) = (self.cq(s, q.send_cq)?, self.cq(s, q.recv_cq)?);
        let access = Access::from_bits(q.access).ok_or(code::INVALID)?;
        let srq = match q.srq {
            0 => None,
            srq => match *self.get(s.number, srq, s.offences)? {
                Object::Srq { srq, .. } => Some(srq),
                _ => return Err(code::UNKNOWN.into()),
            },
        };
        // Receives of a shared queue count there.
        let recv_max = if srq.is_some() { 0 } else { q.recv_max };
        let (pairs, requests) = (self.quotas.queue_pairs, self.quotas.requests);
        let used = &mut self.app(s.number).used;
        if used.queue_pairs >= pairs {
            return Err(over(quota::QUEUE_PAIRS, pairs));
        }
        take(&mut used.sends, q.send_max.into(), quota::REQUESTS, requests)?;
        if let Err(no) = take(&mut used.recvs, recv_max.into(), quota::REQUESTS, requests) {
            used.sends -= u32::from(q.send_max);
            return Err(no);
        }
        used.queue_pairs += 1;
        let init = QpInit {
            pd,
            kind: QpKind::Rc,
            send_cq,
            recv_cq,
            srq,
            send_max: q.send_max,
            recv_max,
            access,
            qkey: 0,
        };
        let mut key = 0;
        let made = s.net.endpoint.create_qp(&init).map_err(RequestRefusal::from).and_then(|qpn| {
            key = qpn.number();
            let object = Object::Qp { qpn, pd: q.pd, send_max: q.send_max, recv_max, conn: 0 };
            // Receives may be posted from the start, as the peer's first message may come with its agreement.
            let ready = s.net.endpoint.modify_qp(qpn, Modify::Init).map_err(RequestRefusal::from);
            let number = ready.and_then(|()| self.insert(s, object)).inspect_err(|_| {
                let _ = s.net.endpoint.destroy_qp(s.now, qpn);
            })?;
            self.by_qp.insert(qpn, number);
            Ok(number)
        });
        if made.is_ok() {
            self.use_pd(q.pd, true);
        }
        self.made(s, q.token, key, made, |app| {
            app.used.queue_pairs -= 1;
            app.used.sends -= u32::from(q.send_max);
            app.used.recvs -= u32::from(recv_max);
        })
    }

    /// Ends an object of an application's, in the endpoint and here.
    pub(super) fn destroy(
        &mut self,
        net: &mut Net<'_>,
        owner: u32,
        number: u32,
        object: Object,
        now: Instant,
    ) -> Result<(), RequestRefusal> {
        match object {
            Object::Pd { users: 0, .. } => self.app(owner).used.domains -= 1,
            Object::Pd { .. } => return Err(code::BUSY.into()),
            Object::Mr { mr, pd } => {
                // The peer may have taken the key back.
                match net.endpoint.dereg_mr(mr) {
                    Ok(()) | Err(VerbError::Unknown) => {}
                    Err(e) => return Err(e.into()),
                }
                self.use_pd(pd, false);
                self.app(owner).used.regions -= 1;
            }
            Object::Cq { cq, entries, .. } => {
                net.endpoint.destroy_cq(cq)?;
                self.by_cq.remove(&cq);
                let app = self.app(owner);
                app.ready.retain(|ready| *ready != number);
                app.used.completion_queues -= 1;
                app.used.completions -= entries;
            }
            Object::Srq { srq, pd, limit } => {
                net.endpoint.destroy_srq(srq)?;
                self.by_srq.remove(&srq);
                self.use_pd(pd, false);
                let used = &mut self.app(owner).used;
                used.shared_receive_queues -= 1;
                used.recvs -= limit;
            }
            Object::Qp { qpn, pd, send_max, recv_max, conn } => {
                net.endpoint.destroy_qp(now, qpn)?;
                self.by_qp.remove(&qpn);
                self.forget_conn(conn);
                self.use_pd(pd, false);
                let used = &mut self.app(owner).used;
                used.queue_pairs -= 1;
                used.sends -= u32::from(send_max);
                used.recvs -= u32::from(recv_max);
            }
            Object::Listener { listener } => {
                net.endpoint.unlisten(listener)?;
                self.by_listener.remove(&listener);
                self.app(owner).used.listeners -= 1;
            }
            Object::Conn { .. } => return Err(code::INVALID.into()),
        }
        self.objects.remove(number);
        Ok(())
    }

    // ---- Connections ----

    fn listen(
        &mut self,
        s: &mut RequestContext<'_, '_>,
        token: u64,
        service_id: u64,
        backlog: u32,
    ) -> Answer {
        let (listeners, connections) = (self.quotas.listeners, self.quotas.connections);
        take(&mut self.app(s.number).used.listeners, 1, quota::LISTENERS, listeners)?;
        let backlog = backlog.clamp(1, connections);
        let made =
            s.net.endpoint.listen(service_id, backlog).map_err(RequestRefusal::from).and_then(|listener| {
                let number = self.insert(s, Object::Listener { listener }).inspect_err(|_| {
                    let _ = s.net.endpoint.unlisten(listener);
                })?;
                self.by_listener.insert(listener, number);
                Ok(number)
            });
        self.made(s, token, 0, made, |app| app.used.listeners -= 1)
    }

    /// A connection that waits for the application's decision.
    fn decidable(&mut self, s: &RequestContext<'_, '_>, conn: u32) -> Result<roce::ConnId, RequestRefusal> {
        match *self.get(s.number, conn, s.offences)? {
            Object::Conn { conn: Some(conn), qp: 0 } => Ok(conn),
            Object::Conn { .. } => Err(code::STATE.into()),
            _ => Err(code::UNKNOWN.into()),
        }
    }

    fn accept(&mut self, s: &mut RequestContext<'_, '_>, token: u64, conn: u32, qp: u32) -> Answer {
        let id = self.decidable(s, conn)?;
        let qpn = self.qpn(s, qp)?;
        let private = self.apps[s.number as usize].stage.data();
        s.net.endpoint.accept(s.now, id, qpn, &Terms { private })?;
        self.tie(conn, Some(id), qp);
        done(token)
    }

    /// Notes which queue pair and which connection belong together.
    fn tie(&mut self, conn: u32, id: Option<roce::ConnId>, qp: u32) {
        if let Some((_, Object::Conn { conn, qp: of_conn })) = self.objects.find(conn) {
            (*conn, *of_conn) = (id, qp);
        }
        if let Some((_, Object::Qp { conn: of_qp, .. })) = self.objects.find(qp) {
            *of_qp = conn;
        }
        if let Some(id) = id {
            self.by_conn.insert(id, conn);
        }
    }

    fn connect(&mut self, s: &mut RequestContext<'_, '_>, c: &entry::Connect) -> Answer {
        let qpn = self.qpn(s, c.qp)?;
        if let Object::Qp { conn, .. } = *self.get(s.number, c.qp, s.offences)?
            && conn != 0
        {
            return Err(code::QUEUE_PAIR.into());
        }
        if c.mtu != 0 && Mtu::from_code(c.mtu).is_none() {
            return Err(code::INVALID.into());
        }
        let limit = self.quotas.connections;
        take(&mut self.app(s.number).used.connections, 1, quota::CONNECTIONS, limit)?;
        let made = self.start_connect(s, c, qpn);
        self.made(s, c.token, 0, made, |app| app.used.connections -= 1)
    }

    fn start_connect(
        &mut self,
        s: &mut RequestContext<'_, '_>,
        c: &entry::Connect,
        qpn: roce::Qpn,
    ) -> Result<u32, RequestRefusal> {
        let resolving = Resolving {
            conn: 0,
            until: s.now + Duration::from_millis(c.timeout_ms.into()).min(RESOLVE_MAX),
            local: c.local,
            remote: c.remote,
            service_id: c.service_id,
            src_port: c.src_port,
            mtu: c.mtu,
            private: Vec::new(),
        };
        match s.net.peer_path(s.now, c.remote, c.local) {
            // Said by an event, as it is when it is found out later.
            PeerPath::Unreachable => {
                let number = self.insert(s, Object::Conn { conn: None, qp: c.qp })?;
                self.tie(number, None, c.qp);
                self.resolving.push(Resolving { conn: number, until: s.now, ..resolving });
                Ok(number)
            }
            PeerPath::Pending => {
                let number = self.insert(s, Object::Conn { conn: None, qp: c.qp })?;
                self.tie(number, None, c.qp);
                let private = self.app(s.number).stage.data().to_vec();
                self.resolving.push(Resolving { conn: number, private, ..resolving });
                Ok(number)
            }
            PeerPath::Ready(path) => {
                let private = self.apps[s.number as usize].stage.data();
                let id = ask(s.net, s.now, qpn, path, &resolving, private)?;
                let number = self.insert(s, Object::Conn { conn: None, qp: c.qp }).inspect_err(|_| {
                    // Its connection goes with it.
                    let _ = s.net.endpoint.modify_qp(qpn, Modify::Err);
                })?;
                self.tie(number, Some(id), c.qp);
                Ok(number)
            }
        }
    }

    /// Asks again for the ways that were pending.
    pub(crate) fn resolve(&mut self, net: &mut Net<'_>, now: Instant) {
        let mut i = 0;
        while let Some(r) = self.resolving.get(i) {
            let (number, remote, local, until) = (r.conn, r.remote, r.local, r.until);
            let outcome = match net.peer_path(now, remote, local) {
                PeerPath::Pending if now < until => {
                    i += 1;
                    continue;
                }
                PeerPath::Ready(path) => Ok(path),
                _ => Err((event::UNREACHABLE, 0)),
            };
            let r = self.resolving.swap_remove(i);
            let Some((owner, &mut Object::Conn { qp, .. })) = self.objects.find(number) else {
                continue;
            };
            let asked = outcome.and_then(|path| match self.objects.find(qp) {
                Some((_, &mut Object::Qp { qpn, .. })) => {
                    ask(net, now, qpn, path, &r, &r.private).map_err(|no| (event::REFUSED, no.code))
                }
                _ => Err((event::REFUSED, code::QUEUE_PAIR)),
            });
            match asked {
                Ok(id) => self.tie(number, Some(id), qp),
                Err((why, reason)) => {
                    self.forget_conn(number);
                    let kind = event::CONNECT_FAILED;
                    self.queue_event(
                        owner,
                        entry::Completion::Event { kind, object: number, other: qp, why, reason },
                        &[],
                    );
                }
            }
        }
    }
}

/// The only piece of an atomic operation.
fn one(result: Piece) -> SendData {
    SendData::Sges { n: 1, list: [result, Piece::default()] }
}

/// Asks the peer for a connection.
fn ask(
    net: &mut Net<'_>,
    now: Instant,
    qpn: roce::Qpn,
    path: PathId,
    r: &Resolving,
    private: &[u8],
) -> Result<roce::ConnId, RequestRefusal> {
    debug_assert!(private.len() <= STAGE_MAX);
    let to = Connect {
        src_port: r.src_port,
        mtu: Mtu::from_code(r.mtu),
        private,
        ..Connect::new(path, r.service_id)
    };
    let asked = net.endpoint.connect(now, qpn, &to);
    // The connection holds the path for as long as it needs it; what nobody holds may go.
    let _ = net.endpoint.release_path(path);
    Ok(asked?)
}
