//! What applications are told: events of the endpoint, and completions as far as their rings have room.

use super::{Object, Rdma, Waiting};
use crate::applications::{Application, Applications};
use barewire_channel::Completion;
use barewire_channel::rdma::{self as entry, Staged, event};
use barewire_engine::Rdma as Net;
use barewire_roce::{Endpoint, Event, RejReason, Wc};

/// Completions that one application is handed from one queue before the next of its queues has its turn.
const WCS_PER_TURN: usize = 64;
/// Wishes for connections that may wait for room in one application's ring. Peers make as many as they like, by taking them back
/// and asking again; every other event costs its application an object.
const EVENTS_MAX: usize = 4096;

impl Rdma {
    /// Takes the endpoint's events, and hands over what there is room for. How much was done.
    #[inline]
    pub(crate) fn tell(&mut self, net: &mut Net<'_>, applications: &mut Applications) -> usize {
        let mut work = 0;
        while let Some(event) = net.endpoint.poll_event() {
            work += 1;
            self.hear(net.endpoint, &event);
        }
        if self.undelivered {
            work += self.deliver(net.endpoint, applications);
        }
        work
    }

    #[inline]
    fn hear(&mut self, endpoint: &mut Endpoint, event: &Event) {
        let plain = |kind, object, why| entry::Completion::Event { kind, object, other: 0, why, reason: 0 };
        match *event {
            Event::CqReady(cq) => {
                let Some(&number) = self.by_cq.get(&cq) else {
                    return;
                };
                if let Some((owner, Object::Cq { queued, .. })) = self.objects.find(number)
                    && !std::mem::replace(queued, true)
                {
                    self.app(owner).ready.push_back(number);
                    self.undelivered = true;
                }
            }
            Event::CqOverrun(cq) => {
                if let Some(&number) = self.by_cq.get(&cq) {
                    self.queue_for(number, plain(event::CQ_OVERRUN, number, 0), &[]);
                }
            }
            Event::SrqLow(srq) => {
                if let Some(&number) = self.by_srq.get(&srq) {
                    self.queue_for(number, plain(event::SRQ_LOW, number, 0), &[]);
                }
            }
            Event::QpError(qpn, fault) => {
                if let Some(&number) = self.by_qp.get(&qpn) {
                    self.queue_for(number, plain(event::QP_ERROR, number, fault.code()), &[]);
                }
            }
            Event::Drained(qpn) => {
                if let Some(&number) = self.by_qp.get(&qpn) {
                    self.queue_for(number, plain(event::DRAINED, number, 0), &[]);
                }
            }
            Event::ConnectRequest { conn, listener, service_id } => {
                let private = endpoint.private_data().to_vec();
                let known = self.by_listener.get(&listener).copied();
                let told =
                    known.is_some_and(|listener| self.wish(endpoint, conn, listener, service_id, &private));
                if !told {
                    self.counters.turned_away.add(1);
                    let _ = endpoint.reject(conn, RejReason::NO_RESOURCES, &[]);
                }
            }
            Event::Connected { conn, .. } | Event::Established { conn, .. } => {
                if let Some(&number) = self.by_conn.get(&conn)
                    && let Some((owner, &mut Object::Conn { qp, .. })) = self.objects.find(number)
                {
                    let connected = matches!(event, Event::Connected { .. });
                    let kind = if connected { event::CONNECTED } else { event::ESTABLISHED };
                    let what =
                        entry::Completion::Event { kind, object: number, other: qp, why: 0, reason: 0 };
                    self.queue_event(owner, what, endpoint.private_data());
                }
            }
            Event::ConnectFailed { conn, why, .. } => {
                let (why, reason) = why.code();
                self.conn_ended(conn, event::CONNECT_FAILED, why, reason, endpoint.private_data());
            }
            Event::Disconnected { conn, why, .. } => {
                self.conn_ended(conn, event::DISCONNECTED, why.code(), 0, &[]);
            }
            _ => {}
        }
    }

    /// A peer wants a connection. False: its application cannot be told, or may have no more.
    fn wish(
        &mut self,
        endpoint: &Endpoint,
        conn: barewire_roce::ConnId,
        listener: u32,
        service_id: u64,
        private: &[u8],
    ) -> bool {
        let (Some((owner, _)), Some(info)) = (self.objects.find(listener), endpoint.conn_info(conn)) else {
            return false;
        };
        let limit = self.quotas.connections;
        let app = self.app(owner);
        if app.used.connections >= limit || app.events.len() >= EVENTS_MAX {
            return false;
        }
        let Some(number) = self.objects.insert(owner, Object::Conn { conn: Some(conn), qp: 0 }) else {
            return false;
        };
        self.app(owner).used.connections += 1;
        self.by_conn.insert(conn, number);
        let what = entry::Completion::ConnectRequest {
            listener,
            conn: number,
            service_id,
            remote_qpn: info.remote_qpn,
            local: info.local,
            remote: info.peer,
        };
        self.queue_event(owner, what, private);
        true
    }

    fn conn_ended(&mut self, conn: barewire_roce::ConnId, kind: u8, why: u8, reason: u16, private: &[u8]) {
        let Some(&number) = self.by_conn.get(&conn) else {
            return;
        };
        let Some((owner, &mut Object::Conn { qp, .. })) = self.objects.find(number) else {
            return;
        };
        self.forget_conn(number);
        self.queue_event(
            owner,
            entry::Completion::Event { kind, object: number, other: qp, why, reason },
            private,
        );
    }

    fn queue_for(&mut self, number: u32, what: entry::Completion, private: &[u8]) {
        if let Some((owner, _)) = self.objects.find(number) {
            self.queue_event(owner, what, private);
        }
    }

    pub(super) fn queue_event(&mut self, owner: u32, what: entry::Completion, private: &[u8]) {
        self.app(owner).events.push_back(Waiting { what, private: private.to_vec() });
        self.undelivered = true;
    }

    fn deliver(&mut self, endpoint: &mut Endpoint, applications: &mut Applications) -> usize {
        let mut work = 0;
        self.undelivered = false;
        for number in 0..self.apps.len() {
            let app = &mut self.apps[number];
            if app.events.is_empty() && app.ready.is_empty() {
                continue;
            }
            let Some(a) = applications.get(number as u32) else {
                continue;
            };
            // Events first, as they are few: of those and the completions, each kind keeps its order.
            while let Some(waiting) = app.events.front() {
                if !write_event(a, waiting) {
                    break;
                }
                app.events.pop_front();
                work += 1;
            }
            for _ in 0..app.ready.len() {
                let Some(&cq) = app.ready.front() else {
                    break;
                };
                let Some((_, Object::Cq { cq: id, queued, .. })) = self.objects.find(cq) else {
                    app.ready.pop_front();
                    continue;
                };
                let (handed, emptied) = hand_completions(endpoint, a, cq, *id);
                work += handed;
                if emptied {
                    *queued = false;
                    app.ready.pop_front();
                } else {
                    app.ready.rotate_left(1);
                }
                if handed == 0 && !emptied {
                    // The ring is full.
                    break;
                }
            }
            self.undelivered |= !app.events.is_empty() || !app.ready.is_empty();
        }
        work
    }
}

/// Writes an event behind its private data. False, and nothing written, when not all of it has room.
fn write_event(a: &mut Application, waiting: &Waiting) -> bool {
    let pieces = waiting.private.len().div_ceil(entry::STAGED_MAX);
    if !a.promise(pieces + 1) {
        return false;
    }
    for piece in Staged::pieces(&waiting.private) {
        a.keep_promise(&Completion::Rdma(entry::Completion::Stage(piece)));
    }
    a.keep_promise(&Completion::Rdma(waiting.what));
    true
}

/// Hands completions of one queue over. How many, and whether the queue is empty, and then armed.
#[inline]
fn hand_completions(
    endpoint: &mut Endpoint,
    a: &mut Application,
    number: u32,
    cq: barewire_roce::CqId,
) -> (usize, bool) {
    for handed in 0..WCS_PER_TURN {
        if !a.promise(1) {
            return (handed, false);
        }
        match endpoint.poll_cq_one(cq) {
            Some(wc) => a.keep_promise(&Completion::Rdma(entry::Completion::Wc(to_entry(number, &wc)))),
            None => {
                a.forget_promises(1);
                let _ = endpoint.arm_cq(cq, false);
                return (handed, true);
            }
        }
    }
    (WCS_PER_TURN, false)
}

#[inline]
fn to_entry(cq: u32, wc: &Wc) -> entry::Wc {
    entry::Wc {
        cq,
        wr_id: wc.wr_id,
        status: wc.status.code(),
        opcode: wc.opcode.code(),
        qpn: wc.qpn.number(),
        len: wc.len,
        imm: wc.imm,
        invalidated: wc.invalidated,
    }
}
