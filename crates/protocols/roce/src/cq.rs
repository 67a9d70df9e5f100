//! Completion queues. Entries of all queues lie in one store, so that a queue that holds nothing costs next to nothing.

use crate::slab::{NONE, Slab};
use crate::verbs::Handle;
use crate::{CqId, VerbError, Wc, WcOpcode, WcStatus};

#[derive(Clone, Copy)]
pub(crate) struct Entry {
    wc: Wc,
    next: u32,
}

impl Default for Entry {
    fn default() -> Self {
        let wc = Wc {
            wr_id: 0,
            status: WcStatus::Success,
            opcode: WcOpcode::Send,
            qpn: crate::Qpn(0),
            len: 0,
            imm: None,
            invalidated: None,
            src_qpn: 0,
        };
        Entry { wc, next: NONE }
    }
}

/// When to tell that a queue has something.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Armed {
    #[default]
    No,
    Solicited,
    Next,
}

#[derive(Default)]
pub(crate) struct Cq {
    alive: bool,
    generation: u32,
    head: u32,
    tail: u32,
    len: u32,
    limit: u32,
    /// Queue pairs that complete here.
    users: u32,
    armed: Armed,
    /// It has lost a completion, and so can no longer be believed: no queue pair may begin to use it.
    overrun: bool,
}

/// What became of a completion.
pub(crate) enum Pushed {
    /// It is in the queue.
    Kept,
    /// It is in the queue, whose owner wants to be told.
    Tell(CqId),
    /// There was no room. With the queue when it is its first loss.
    Lost(Option<CqId>),
}

pub(crate) struct Cqs {
    queues: Slab<Cq>,
    entries: Slab<Entry>,
    /// Entries promised to the queues there are, and most that can be: a queue that is full takes nothing from others.
    promised: usize,
    entries_max: usize,
}

impl Cqs {
    pub(crate) fn new(queues: usize, entries: usize) -> Cqs {
        Cqs { queues: Slab::new(queues), entries: Slab::new(entries), promised: 0, entries_max: entries }
    }

    pub(crate) fn create(&mut self, limit: u32) -> Result<CqId, VerbError> {
        if limit == 0 {
            return Err(VerbError::Invalid);
        }
        if limit as usize > self.entries_max - self.promised {
            return Err(VerbError::Limit);
        }
        let slot = self.queues.take().ok_or(VerbError::Limit)?;
        self.promised += limit as usize;
        let queue = &mut self.queues[slot];
        let generation = queue.generation.wrapping_add(1);
        *queue = Cq { alive: true, generation, head: NONE, tail: NONE, limit, ..Cq::default() };
        Ok(CqId(Handle { slot, generation }))
    }

    fn get(&mut self, cq: CqId) -> Result<&mut Cq, VerbError> {
        let Handle { slot, generation } = cq.0;
        self.queues.get_mut(slot).filter(|q| q.alive && q.generation == generation).ok_or(VerbError::Unknown)
    }

    /// The handle of the queue at a place.
    pub(crate) fn handle(&self, slot: u32) -> CqId {
        CqId(Handle { slot, generation: self.queues[slot].generation })
    }

    pub(crate) fn destroy(&mut self, cq: CqId) -> Result<(), VerbError> {
        let queue = self.get(cq)?;
        if queue.users > 0 {
            return Err(VerbError::Busy);
        }
        queue.alive = false;
        self.promised -= queue.limit as usize;
        while self.pop(cq.0.slot).is_some() {}
        self.queues.give(cq.0.slot);
        Ok(())
    }

    /// One more queue pair completes here, with up to `certain` requests that end with a completion whatever happens.
    pub(crate) fn add_user(&mut self, cq: CqId, certain: u32) -> Result<(), VerbError> {
        let queue = self.get(cq)?;
        if queue.overrun {
            return Err(VerbError::CqError);
        }
        if certain > queue.limit {
            return Err(VerbError::CqTooSmall);
        }
        queue.users += 1;
        Ok(())
    }

    /// Queue pairs that complete in a queue; none when it is gone.
    pub(crate) fn users(&mut self, cq: CqId) -> u32 {
        self.get(cq).map_or(0, |queue| queue.users)
    }

    /// Queues, and what they say in sum: users, completions, completions promised.
    pub(crate) fn books(&self) -> (usize, usize, usize, usize) {
        let alive = || (0..self.queues.touched()).map(|slot| &self.queues[slot]).filter(|queue| queue.alive);
        let sum = |of: fn(&Cq) -> u32| alive().map(|queue| of(queue) as usize).sum();
        (alive().count(), sum(|q| q.users), sum(|q| q.len), sum(|q| q.limit))
    }

    /// Queues, as their store counts them.
    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Completions, as their store counts them.
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Completions promised.
    pub(crate) fn promised(&self) -> usize {
        self.promised
    }

    /// Whether the queue at a place has lost completions.
    pub(crate) fn has_overrun(&self, slot: u32) -> bool {
        self.queues.get(slot).is_some_and(|queue| queue.overrun)
    }

    /// The place of a queue that has users is its own until they are gone.
    pub(crate) fn drop_user(&mut self, slot: u32) {
        if let Some(queue) = self.queues.get_mut(slot) {
            queue.users -= 1;
        }
    }

    pub(crate) fn arm(&mut self, cq: CqId, solicited_only: bool) -> Result<(), VerbError> {
        let queue = self.get(cq)?;
        if queue.armed != Armed::Next {
            queue.armed = if solicited_only { Armed::Solicited } else { Armed::Next };
        }
        Ok(())
    }

    /// Adds a completion.
    #[inline]
    pub(crate) fn push(&mut self, slot: u32, wc: Wc, solicited: bool) -> Pushed {
        let queue = &mut self.queues[slot];
        let cq = CqId(Handle { slot, generation: queue.generation });
        let entry = if queue.len < queue.limit { self.entries.take() } else { None };
        let Some(entry) = entry else {
            let first = !std::mem::replace(&mut queue.overrun, true);
            return Pushed::Lost(first.then_some(cq));
        };
        self.entries[entry] = Entry { wc, next: NONE };
        if queue.tail == NONE {
            queue.head = entry;
        } else {
            self.entries[queue.tail].next = entry;
        }
        queue.tail = entry;
        queue.len += 1;
        let tell = match queue.armed {
            Armed::No => false,
            Armed::Next => true,
            Armed::Solicited => solicited || wc.status != WcStatus::Success,
        };
        if tell {
            queue.armed = Armed::No;
            return Pushed::Tell(cq);
        }
        Pushed::Kept
    }

    fn pop(&mut self, cq: u32) -> Option<Wc> {
        let queue = &mut self.queues[cq];
        let id = queue.head;
        if id == NONE {
            return None;
        }
        let entry = self.entries[id];
        queue.head = entry.next;
        if entry.next == NONE {
            queue.tail = NONE;
        }
        queue.len -= 1;
        self.entries.give(id);
        Some(entry.wc)
    }

    #[inline]
    pub(crate) fn poll(&mut self, cq: CqId, out: &mut Vec<Wc>, most: usize) -> Result<usize, VerbError> {
        self.get(cq)?;
        let mut n = 0;
        while n < most
            && let Some(wc) = self.pop(cq.0.slot)
        {
            out.push(wc);
            n += 1;
        }
        Ok(n)
    }

    pub(crate) fn poll_one(&mut self, cq: CqId) -> Option<Wc> {
        self.get(cq).ok()?;
        self.pop(cq.0.slot)
    }
}
