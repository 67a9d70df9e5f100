//! The books of an endpoint: whatever is taken from a store is held by somebody who is alive, and whoever waits for something has a
//! timer or his turn.
//!
//! Debug builds look at the books of small endpoints whenever an object is destroyed, so every test does.

use crate::Endpoint;
use crate::cm::{ConnState, Serves};
use crate::core::Owner;
use crate::qp::Qp;
use crate::queue::{Linked, List};
use crate::slab::{NONE, Slab};
use crate::verbs::{QpKind, QpState};
use barewire_base::Instant;
use thiserror::Error;

/// Two counts that should be the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{what}: {taken} where there should be {held}")]
pub struct Imbalance {
    /// Of what.
    pub what: &'static str,
    /// As its store or its queue counts them.
    pub taken: u64,
    /// As those count them that hold them.
    pub held: u64,
}

/// Objects up to which debug builds look at the books of their own accord.
#[cfg(debug_assertions)]
const SMALL: u32 = 64;
/// Times that they do: somebody may make and destroy millions.
#[cfg(debug_assertions)]
const AUDITS_MAX: u32 = 1000;

fn same(what: &'static str, taken: usize, held: usize) -> Result<(), Imbalance> {
    if taken == held { Ok(()) } else { Err(Imbalance { what, taken: taken as u64, held: held as u64 }) }
}

/// A statement that has to be true of the object with this number.
fn holds(what: &'static str, slot: u32, truth: bool) -> Result<(), Imbalance> {
    if truth { Ok(()) } else { Err(Imbalance { what, taken: slot.into(), held: u64::MAX }) }
}

fn all<T: Default>(store: &Slab<T>) -> impl Iterator<Item = (u32, &T)> {
    (0..store.touched()).map(|slot| (slot, &store[slot]))
}

/// Entries that a list really has, no more than it can have.
fn walk<T: Linked + Default + Copy>(store: &Slab<T>, list: &List) -> usize {
    let (mut id, mut n) = (list.head, 0);
    while id != NONE && n <= store.touched() as usize {
        n += 1;
        let mut entry = store[id];
        id = *entry.next();
    }
    n
}

impl Endpoint {
    /// Compares what its stores say is taken with what its objects hold, and looks for queue pairs and connections that wait for
    /// nothing that will ever come. It looks at everything there is: for tests, and for whoever suspects a leak.
    ///
    /// # Errors
    /// The first thing that does not add up, which is a bug.
    pub fn audit(&self) -> Result<(), Imbalance> {
        self.audit_stores()?;
        self.audit_connections()?;
        all(&self.qps).filter(|(_, qp)| qp.alive).try_for_each(|(slot, qp)| self.audit_qp(slot, qp))
    }

    /// What debug builds do when something was destroyed.
    #[inline]
    pub(crate) fn check_books(&mut self) {
        #[cfg(debug_assertions)]
        if self.qps.touched() <= SMALL && self.cm.conns.touched() <= SMALL && self.audits < AUDITS_MAX {
            self.audits += 1;
            let audit = self.audit();
            assert!(audit.is_ok(), "{audit:?}");
        }
    }

    fn audit_stores(&self) -> Result<(), Imbalance> {
        let core = &self.core;
        let qps = || all(&self.qps).map(|(_, qp)| qp).filter(|qp| qp.alive);
        let sum = |of: fn(&Qp) -> usize| qps().map(of).sum::<usize>();
        let srqs = || all(&core.srqs).map(|(_, srq)| srq).filter(|srq| srq.alive);
        same("queue pairs", self.qps.len(), qps().count())?;
        same("queue pair numbers", core.numbers.len(), qps().count())?;
        same("send requests", core.sends.len(), sum(|qp| qp.sends.len as usize))?;
        let waiting: usize = srqs().map(|srq| srq.list.len as usize).sum();
        let recvs = sum(|qp| qp.recvs.len as usize + usize::from(qp.recv != NONE));
        same("receive requests", core.recvs.len(), recvs + waiting)?;
        same("resources of the responder", core.resources.len(), sum(|qp| qp.resources.len as usize))?;
        same("rates", core.limiters.len(), sum(|qp| usize::from(qp.limiter != NONE)))?;
        same("shared receive queues", core.srqs.len(), srqs().count())?;
        let shares = sum(|qp| usize::from(qp.srq != NONE));
        same("users of shared receive queues", srqs().map(|srq| srq.users as usize).sum(), shares)?;
        let (queues, users, entries, promised) = core.cqs.books();
        same("completion queues", core.cqs.queues(), queues)?;
        same("users of completion queues", users, 2 * qps().count())?;
        same("completions", core.cqs.entries(), entries)?;
        same("promised completions", core.cqs.promised(), promised)?;
        let queued = all(&self.qps).filter(|(_, qp)| qp.queued).count();
        same("turns to transmit", core.ready.len(), queued)
    }

    fn audit_connections(&self) -> Result<(), Imbalance> {
        let (core, cm) = (&self.core, &self.cm);
        let conns = || all(&cm.conns).filter(|(_, c)| c.state != ConnState::Free);
        same("connections", cm.conns.len(), conns().count())?;
        same(
            "connections by the peer's id",
            cm.by_remote.len(),
            conns().filter(|(_, c)| c.by_remote).count(),
        )?;
        same("connections by queue pair", cm.by_qpn.len(), conns().filter(|(_, c)| c.by_qpn).count())?;
        let held = conns().filter(|(_, c)| c.qpn != 0).count();
        same("numbers that connections hold", core.numbers.held(), held)?;
        let remembered = conns().filter(|(_, c)| c.state == ConnState::TimeWait).count();
        let rows = || cm.closed.iter().filter(|row| cm.find(row.local_id) == Some(row.slot));
        same("connections that are remembered", rows().count(), remembered)?;
        let sorted = cm.closed.iter().zip(cm.closed.iter().skip(1)).all(|(a, b)| a.until <= b.until);
        holds("the order in which connections are forgotten", 0, sorted)?;
        let waiting = cm.listeners.iter().map(|l| l.waiting as usize).sum();
        same("backlogs", waiting, conns().filter(|(_, c)| c.in_backlog).count())?;
        same("turns to speak", cm.out.len(), all(&cm.conns).filter(|(_, c)| c.queued).count())?;

        let served = cm.listeners.iter().filter(|l| l.alive).map(|l| match l.serves {
            Serves::Datagrams { private, .. } => private,
            Serves::Connections => NONE,
        });
        let private = conns()
            .map(|(_, c)| c.private)
            .chain(cm.replies.iter().map(|r| r.private))
            .chain(core.events.iter().map(|e| e.1))
            .chain(served)
            .chain([self.shown]);
        same("private data", core.private.len(), private.filter(|id| *id != NONE).count())?;
        let with_path = all(&self.qps).filter(|(_, qp)| qp.alive && qp.path != NONE).count();
        same("users of paths", core.paths.refs(), with_path + conns().count() + cm.replies.len())?;

        for (slot, c) in conns() {
            let asks = matches!(c.state, ConnState::ReqSent | ConnState::RepSent | ConnState::DreqSent);
            let fires = core.timers.deadline(Owner::Conn(slot).id());
            let timed = c.deadline != Instant::FAR_FUTURE && fires.is_some_and(|at| at <= c.deadline);
            holds("a connection that waits for an answer has a timer", slot, timed || !asks)?;
            holds("a connection with a message has its turn", slot, c.queued || c.pending == 0)?;
            let mutual = c.qp == NONE || self.qps.get(c.qp).is_some_and(|qp| qp.alive && qp.conn == slot);
            holds("a connection's queue pair knows it", slot, mutual)?;
        }
        Ok(())
    }

    fn audit_qp(&self, slot: u32, qp: &Qp) -> Result<(), Imbalance> {
        let core = &self.core;
        same("the sends of a queue pair", qp.sends.len as usize, walk(&core.sends, &qp.sends))?;
        same("the receives of a queue pair", qp.recvs.len as usize, walk(&core.recvs, &qp.recvs))?;
        same(
            "the resources of a queue pair",
            qp.resources.len as usize,
            walk(&core.resources, &qp.resources),
        )?;
        holds(
            "a queue pair knows its connection",
            slot,
            qp.conn == NONE || self.cm.conns[qp.conn].qp == slot,
        )?;
        if qp.kind == QpKind::Ud {
            return Ok(());
        }
        let (mut id, mut answering) = (qp.resources.head, 0);
        while id != NONE {
            answering += usize::from(core.resources[id].is_owed());
            let mut entry = core.resources[id];
            id = *entry.next();
        }
        same("answers owed", qp.answering.into(), answering)?;
        let (mut id, mut reads) = (qp.sends.head, 0);
        while id != qp.sending && id != NONE {
            reads += usize::from(core.sends[id].is_read());
            id = core.sends[id].next;
        }
        if matches!(qp.state, QpState::Rts | QpState::Sqd) {
            same("reads on their way", qp.reads.into(), reads)?;
        }

        // Whoever has something to do has his turn, or a timer that brings it.
        let fires = core.timers.deadline(Owner::Qp(slot).id());
        let paced = qp.limiter != NONE && fires.is_some();
        holds("a queue pair with answers has its turn", slot, qp.queued || paced || answering == 0)?;
        let told = qp.queued || (paced && answering > 0);
        holds("an acknowledgement that is due has its turn", slot, told || qp.ack.is_none())?;
        let outstanding = qp.una_psn != qp.next_psn;
        if qp.state == QpState::Rts && qp.sends.len > 0 && qp.timeout != 0 {
            holds("a queue pair with requests has its turn or a timer", slot, qp.queued || fires.is_some())?;
            let timed = qp.lost_at != Instant::FAR_FUTURE && fires.is_some_and(|at| at <= qp.lost_at);
            holds("a packet on its way has a time-out", slot, !outstanding || timed)?;
        }
        if matches!(qp.state, QpState::Err | QpState::Reset) {
            holds("a dead queue pair has nothing posted", slot, qp.sends.len == 0 && qp.recvs.len == 0)?;
        }
        Ok(())
    }
}
