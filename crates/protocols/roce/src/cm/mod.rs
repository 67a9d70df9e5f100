//! The connection manager: three messages open a connection, two close it (chapter 12).
//!
//! ```text
//! connect --REQ-->  ConnectRequest        accept / reject
//! Connected <--REP--                      (or REJ, or MRA: "still working on it")
//!         --RTU-->  Established           or by the first data packet, when the RTU is lost
//! disconnect --DREQ--> Disconnected
//! Disconnected <--DREP--                  both sides remember it for a while (time-wait)
//! ```
//!
//! Whoever waits for an answer repeats itself; whoever has answered answers again. A connection is found by our own
//! communication id, whose low bits are its place; the peer's id and the path it came over must fit too.

mod input;
mod output;
pub(crate) mod template;
mod verbs;

pub use verbs::{ConnInfo, Connect, ConnectError, Terms};

use crate::core::{Core, GRACE_LOOK, Grace, Owner};
use crate::ids::Ids;
use crate::index::Index;
use crate::slab::{NONE, Slab};
use crate::verbs::{Handle, Mtu};
use barewire_base::Instant;
use barewire_ring::prefetch;
use barewire_wire::roce::cm::{RejReason, Rejected};
use std::collections::VecDeque;

/// A connection. The number is our communication id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConnId(pub(crate) u32);

/// A listener.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ListenerId(pub(crate) Handle);

/// The state of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ConnState {
    /// There is none.
    #[default]
    Free,
    /// We asked.
    ReqSent,
    /// The peer asked, and the application has not decided.
    ReqReceived,
    /// We accepted.
    RepSent,
    /// It carries data.
    Established,
    /// We asked to close it.
    DreqSent,
    /// It is closed, and remembered so that late messages are understood.
    TimeWait,
}

/// Bits of a communication id that are its place.
const SLOT_BITS: u32 = 21;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;

/// Messages that a connection has to send.
mod pending {
    pub const REQ: u8 = 1;
    pub const REP: u8 = 2;
    pub const RTU: u8 = 4;
    pub const DREQ: u8 = 8;
    pub const DREP: u8 = 16;
    pub const MRA: u8 = 32;
}

pub(crate) struct Conn {
    pub(crate) state: ConnState,
    local_id: u32,
    remote_id: u32,
    /// Its queue pair's number and place.
    pub(crate) qpn: u32,
    pub(crate) qp: u32,
    remote_qpn: u32,
    path: u32,
    listener: u32,
    service_id: u64,
    /// What the peer sends with first, and what we send with first.
    rq_psn: u32,
    sq_psn: u32,
    transaction: u64,
    /// Transaction of a DREQ of the peer.
    closing: u64,
    remote_guid: u64,
    pub(crate) deadline: Instant,
    /// The number of its last message among the frames that wait for the port.
    last_frame: u32,
    grace: Grace,
    retries: u8,
    pub(crate) pending: u8,
    pub(crate) queued: bool,
    /// Has an entry among the peer's communication ids, and among its queue pairs.
    pub(crate) by_remote: bool,
    pub(crate) by_qpn: bool,
    /// Counts in its listener's backlog.
    pub(crate) in_backlog: bool,
    mtu: Mtu,
    responder_resources: u8,
    initiator_depth: u8,
    retry_count: u8,
    rnr_retry_count: u8,
    ack_timeout: u8,
    srq: bool,
    src_port: u16,
    /// Private data to send with REQ or REP.
    pub(crate) private: u32,
}

impl Conn {
    /// The wait for an answer is over: when it is over instead, where our message waits for room in the port, or has just left.
    fn put_off(&mut self, core: &Core, now: Instant) -> Option<Instant> {
        let wait = core.config.cm.response_timeout;
        if self.pending != 0 {
            // Not even written. Many may be so at once, so they are looked at less often.
            self.grace.put_off(self.deadline, now, wait)
        } else if core.unsent.has(self.last_frame) {
            self.grace.put_off(self.deadline, now, GRACE_LOOK)
        } else {
            std::mem::take(&mut self.grace.is_on).then(|| now + wait)
        }
    }
}

impl Default for Conn {
    fn default() -> Self {
        Conn {
            state: ConnState::Free,
            local_id: 0,
            remote_id: 0,
            qpn: 0,
            qp: NONE,
            remote_qpn: 0,
            path: NONE,
            listener: NONE,
            service_id: 0,
            rq_psn: 0,
            sq_psn: 0,
            transaction: 0,
            closing: 0,
            remote_guid: 0,
            deadline: Instant::FAR_FUTURE,
            last_frame: 0,
            grace: Grace::default(),
            retries: 0,
            pending: 0,
            queued: false,
            by_remote: false,
            by_qpn: false,
            in_backlog: false,
            mtu: Mtu::M1024,
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            ack_timeout: 0,
            srq: false,
            src_port: 0,
            private: NONE,
        }
    }
}

const _: () = assert!(size_of::<Conn>() <= 160);

/// What a service id stands for.
#[derive(Clone, Copy)]
pub(crate) enum Serves {
    Connections,
    /// A datagram queue pair, and what else is told to who asks for it.
    Datagrams {
        qpn: u32,
        private: u32,
    },
}

pub(crate) struct Listener {
    generation: u32,
    service_id: u64,
    pub(crate) serves: Serves,
    backlog: u32,
    /// Connections that wait for the application or for the peer's RTU.
    pub(crate) waiting: u32,
    pub(crate) alive: bool,
}

/// An answer to somebody of whom we remember nothing else.
pub(crate) struct Reply {
    path: u32,
    local_id: u32,
    remote_id: u32,
    transaction: u64,
    what: Answer,
    pub(crate) private: u32,
}

#[derive(Clone, Copy)]
enum Answer {
    Drep,
    Rej {
        reason: RejReason,
        rejected: Rejected,
        info: u8,
    },
    /// To the offer of an alternate path.
    Apr {
        status: u8,
    },
    /// To the question for a service; the request's number is `remote_id`.
    Sidr {
        status: u8,
        qpn: u32,
        qkey: u32,
        service_id: u64,
    },
}

/// A closed connection that is remembered, with what it takes to find all that is to be forgotten of it.
#[derive(Clone, Copy)]
pub(crate) struct Closed {
    pub(crate) until: Instant,
    pub(crate) slot: u32,
    pub(crate) local_id: u32,
    path: u32,
    remote_id: u32,
    remote_qpn: u32,
}

/// How many closed connections ahead memory is asked for. Nobody has looked at them for as long as they were remembered.
const FORGET_AHEAD: usize = 4;
/// How many queue pair numbers ahead: peers count theirs up, and four share a line.
const NUMBERS_AHEAD: u64 = 4;

/// Answers to strangers that wait; what is more is lost, as strangers cannot have all our memory.
pub(crate) const REPLIES_MAX: usize = 1024;

pub(crate) struct Cm {
    pub(crate) conns: Slab<Conn>,
    /// By path and the peer's communication id: those that asked us.
    pub(crate) by_remote: Index,
    /// By path and the peer's queue pair: all that are connected.
    pub(crate) by_qpn: Index,
    by_service: Index,
    pub(crate) listeners: Vec<Listener>,
    free_listeners: Vec<u32>,
    /// Connections that have a message to send.
    pub(crate) out: VecDeque<u32>,
    pub(crate) replies: VecDeque<Reply>,
    /// Closed connections, in the order in which they are to be forgotten.
    pub(crate) closed: VecDeque<Closed>,
    /// High word of our transaction ids.
    transaction_high: u32,
}

fn key(path: u32, number: u32) -> u64 {
    u64::from(path) << 32 | u64::from(number)
}

impl Cm {
    pub(crate) fn new(connections: usize, ids: &mut Ids) -> Cm {
        Cm {
            conns: Slab::new(connections),
            by_remote: Index::new(ids.draw()),
            by_qpn: Index::new(ids.draw()),
            by_service: Index::new(ids.draw()),
            listeners: Vec::new(),
            free_listeners: Vec::new(),
            out: VecDeque::new(),
            replies: VecDeque::new(),
            closed: VecDeque::new(),
            transaction_high: ids.draw() as u32,
        }
    }

    /// The living connection of a communication id.
    #[inline]
    pub(crate) fn find(&self, local_id: u32) -> Option<u32> {
        let slot = local_id & SLOT_MASK;
        let conn = self.conns.get(slot)?;
        (conn.state != ConnState::Free && conn.local_id == local_id).then_some(slot)
    }

    /// When the oldest closed connection is to be forgotten.
    pub(crate) fn next_forgotten(&self) -> Option<Instant> {
        self.closed.front().map(|c| c.until)
    }

    /// Whether there are messages to send.
    pub(crate) fn has_output(&self) -> bool {
        !self.out.is_empty() || !self.replies.is_empty()
    }

    /// A fresh connection over a path; `None` when there are too many.
    fn open(&mut self, core: &mut Core, ids: &mut Ids, path: u32, state: ConnState) -> Option<u32> {
        let slot = match self.conns.take() {
            Some(slot) => slot,
            None => {
                // Who has been closed for longest is forgotten early.
                self.forget_oldest(core);
                self.conns.take()?
            }
        };
        core.timers.reserve(crate::core::Owner::Conn(slot).id());
        core.paths.hold(path);
        let random = ids.draw();
        let old = self.conns[slot].local_id;
        // Another id than the last one of this place, from a random start.
        let generation = if old == 0 { random as u32 } else { (old >> SLOT_BITS).wrapping_add(1) };
        let local_id = generation << SLOT_BITS | slot;
        let queued = self.conns[slot].queued;
        self.conns[slot] = Conn {
            state,
            local_id: if local_id == 0 { 1 << SLOT_BITS } else { local_id },
            path,
            queued,
            rq_psn: (random >> 32) as u32 & barewire_wire::roce::MASK_24,
            ..Conn::default()
        };
        Some(slot)
    }

    /// Puts a message among those to send.
    #[inline]
    fn send(&mut self, slot: u32, what: u8) {
        let conn = &mut self.conns[slot];
        conn.pending |= what;
        if !conn.queued {
            conn.queued = true;
            self.out.push_back(slot);
        }
    }

    /// Lets the queue pairs of both sides be connected again.
    fn forget_qpns(&mut self, core: &mut Core, slot: u32) {
        let conn = &mut self.conns[slot];
        if std::mem::take(&mut conn.by_qpn) {
            self.by_qpn.remove(key(conn.path, conn.remote_qpn));
        }
        // Only one that has a queue pair holds its number: 0 is nobody's.
        let qpn = std::mem::take(&mut conn.qpn);
        if qpn != 0 {
            core.numbers.release(qpn);
        }
    }

    /// Forgets a connection. Its queue pair must not name it any more.
    fn forget(&mut self, core: &mut Core, slot: u32) {
        let conn = &mut self.conns[slot];
        if conn.by_remote {
            self.by_remote.remove(key(conn.path, conn.remote_id));
        }
        core.paths.release(conn.path);
        self.forget_qpns(core, slot);
        let conn = &mut self.conns[slot];
        let private = std::mem::replace(&mut conn.private, NONE);
        (conn.state, conn.pending, conn.by_remote) = (ConnState::Free, 0, false);
        conn.deadline = Instant::FAR_FUTURE;
        core.drop_private(private);
        self.leave_backlog(slot);
        self.conns.give(slot);
    }

    /// Forgets the connection that has been closed for longest, and asks for the memory of one that is forgotten after it.
    #[inline]
    fn forget_oldest(&mut self, core: &mut Core) {
        if let Some(next) = self.closed.get(FORGET_AHEAD) {
            prefetch(&self.conns[next.slot]);
            core.timers.prefetch(Owner::Conn(next.slot).id());
            self.by_remote.expect(key(next.path, next.remote_id));
            self.by_qpn.expect(key(next.path, next.remote_qpn));
        }
        if let Some(Closed { slot, local_id, .. }) = self.closed.pop_front()
            && self.find(local_id) == Some(slot)
        {
            self.forget(core, slot);
        }
    }

    fn leave_backlog(&mut self, slot: u32) {
        let conn = &mut self.conns[slot];
        if std::mem::take(&mut conn.in_backlog)
            && let Some(listener) = self.listeners.get_mut(conn.listener as usize)
        {
            listener.waiting -= 1;
            if listener.waiting == 0 && !listener.alive {
                self.free_listeners.push(conn.listener);
            }
        }
    }

    /// Begins to listen.
    fn serve(&mut self, service_id: u64, backlog: u32, serves: Serves) -> Result<ListenerId, ConnectError> {
        if self.by_service.get(service_id).is_some() {
            return Err(ConnectError::InUse);
        }
        let slot = self.free_listeners.last().copied().unwrap_or(self.listeners.len() as u32);
        if !self.by_service.insert(service_id, slot) {
            return Err(ConnectError::Limit);
        }
        let generation = self.listeners.get(slot as usize).map_or(0, |l| l.generation.wrapping_add(1));
        let listener = Listener { generation, service_id, serves, backlog, waiting: 0, alive: true };
        match self.free_listeners.pop() {
            Some(slot) => self.listeners[slot as usize] = listener,
            None => self.listeners.push(listener),
        }
        Ok(ListenerId(Handle { slot, generation }))
    }

    /// Stops listening. What it was.
    fn unserve(&mut self, id: ListenerId) -> Result<Serves, ConnectError> {
        let Handle { slot, generation } = id.0;
        let listener = self.listeners.get_mut(slot as usize);
        let listener =
            listener.filter(|l| l.alive && l.generation == generation).ok_or(ConnectError::State)?;
        listener.alive = false;
        self.by_service.remove(listener.service_id);
        // The place is free when nobody waits there any more.
        if listener.waiting == 0 {
            self.free_listeners.push(slot);
        }
        Ok(listener.serves)
    }

    /// The name of the listener in a place.
    fn listener_id(&self, slot: u32) -> ListenerId {
        let generation = self.listeners.get(slot as usize).map_or(0, |l| l.generation);
        ListenerId(Handle { slot, generation })
    }

    /// Answers a stranger.
    fn reply(&mut self, core: &mut Core, reply: Reply) {
        if self.replies.len() >= REPLIES_MAX {
            core.counters.replies_lost.add(1);
            core.drop_private(reply.private);
            return;
        }
        if matches!(reply.what, Answer::Rej { .. }) {
            core.counters.rej_sent.add(1);
        }
        core.paths.hold(reply.path);
        self.replies.push_back(reply);
    }

    /// Remembers a peer's queue pair as connected. False when another connection has it.
    fn index_qpn(&mut self, slot: u32) -> bool {
        let conn = &mut self.conns[slot];
        let key = key(conn.path, conn.remote_qpn);
        conn.by_qpn = self.by_qpn.get(key).is_none() && self.by_qpn.insert(key, slot);
        self.by_qpn.expect(key + NUMBERS_AHEAD);
        conn.by_qpn
    }
}
