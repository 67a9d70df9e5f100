//! What all queue pairs share.

use crate::cq::{Cqs, Pushed};
use crate::memory::Regions;
use crate::path::Paths;
use crate::qpn::Numbers;
use crate::queue::{Recv, Send, Srq};
use crate::quota::Accounts;
use crate::rate::Limiter;
use crate::responder::Resource;
use crate::slab::{NONE, Slab};
use crate::verbs::Wc;
use crate::{Config, Counters, CqId, Event};
use barewire_base::{DropReason, Duration, Instant};
use barewire_wheel::Timers;
use std::collections::VecDeque;

/// Bytes of the longest private data.
pub(crate) const PRIVATE_MAX: usize = 224;

/// Private data that waits for its message, or for its event to be taken.
pub(crate) struct Private {
    pub len: u8,
    pub bytes: [u8; PRIVATE_MAX],
}

impl Default for Private {
    fn default() -> Self {
        Private { len: 0, bytes: [0; PRIVATE_MAX] }
    }
}

/// The frames that wait for room in the port, by the numbers that whoever queues them gives them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Unsent {
    /// The number of the frame that is filled next.
    pub next: u32,
    /// The first that waits, and how many do.
    from: u32,
    count: u32,
}

impl Unsent {
    pub(crate) fn set(&mut self, waiting: (u32, u32)) {
        (self.from, self.count) = waiting;
    }

    pub(crate) fn has(&self, frame: u32) -> bool {
        frame.wrapping_sub(self.from) < self.count
    }
}

/// Time that somebody whose frame waits for room has been granted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Grace {
    /// The time-out is put off until the frame has left.
    pub is_on: bool,
    used: Duration,
}

/// Between two looks at whether a frame has left.
pub(crate) const GRACE_LOOK: Duration = Duration::from_millis(1);
/// By how much a late look counts at most: who stood still for longer has not offered the port anything.
const GRACE_LATE_MAX: Duration = Duration::from_millis(100);
/// All that is granted from one progress to the next. A port that has not taken a frame by then has a fault.
const GRACE_MAX: Duration = Duration::from_secs(10);

impl Grace {
    /// A time-out that was due at `due` is over at `now`, while the frame that it belongs to waits for room: when to look again, `look`
    /// from now. `None`: it has waited for long enough.
    pub(crate) fn put_off(&mut self, due: Instant, now: Instant, look: Duration) -> Option<Instant> {
        if self.is_on {
            let late = now.since(due).min(GRACE_LATE_MAX);
            self.used = self.used + late + look;
        }
        self.is_on = self.used < GRACE_MAX;
        self.is_on.then(|| now + look)
    }
}

/// All places for private data are taken.
#[derive(Debug)]
pub(crate) struct NoRoom;

pub(crate) struct Core {
    pub config: Config,
    pub numbers: Numbers,
    pub regions: Regions,
    pub cqs: Cqs,
    /// Completion queues that have overrun, whose queue pairs are being ended, and the place of the next one to look at.
    pub failed_cqs: VecDeque<(CqId, u32)>,
    pub sends: Slab<Send>,
    pub recvs: Slab<Recv>,
    pub resources: Slab<Resource>,
    /// Rates of the queue pairs that have been told of congestion.
    pub limiters: Slab<Limiter>,
    pub accounts: Accounts,
    pub srqs: Slab<Srq>,
    pub paths: Paths,
    pub timers: Timers,
    /// What was filled and has not left.
    pub unsent: Unsent,
    /// Queue pairs that have something to transmit.
    pub ready: VecDeque<u32>,
    /// What there is to tell, with the private data that belongs to it.
    pub events: VecDeque<(Event, u32)>,
    pub private: Slab<Private>,
    pub counters: Counters,
}

impl Core {
    pub(crate) fn tell(&mut self, event: Event) {
        self.events.push_back((event, NONE));
    }

    /// Puts a completion into its queue. False when it is lost: then the queue is in error, and so is its queue pair, which is
    /// the caller's to end. The other queue pairs of the queue follow ([`failed_cqs`](Self::failed_cqs)).
    #[inline]
    #[must_use]
    pub(crate) fn complete(&mut self, cq: u32, wc: Wc, solicited: bool) -> bool {
        match self.cqs.push(cq, wc, solicited) {
            Pushed::Kept => true,
            Pushed::Tell(cq) => {
                self.tell(Event::CqReady(cq));
                true
            }
            Pushed::Lost(first) => {
                self.completion_lost(first);
                false
            }
        }
    }

    #[cold]
    fn completion_lost(&mut self, first: Option<CqId>) {
        self.counters.cq_overruns.add(1);
        if let Some(cq) = first {
            self.tell(Event::CqOverrun(cq));
            self.failed_cqs.push_back((cq, 0));
        }
    }

    /// Keeps private data; `NONE` when there is none to keep. An error when there is no room, which there is for two of each
    /// connection's messages: then events wait that nobody takes.
    pub(crate) fn keep_private(&mut self, bytes: &[u8]) -> Result<u32, NoRoom> {
        // Most messages carry none, and all of them have its room: what is not zero is found by words, from the end.
        let (words, rest) = bytes.as_chunks::<8>();
        let last = match rest.iter().rposition(|&b| b != 0) {
            Some(at) => words.len() * 8 + at,
            None => {
                let any = words.iter().fold(0, |any, word| any | u64::from_ne_bytes(*word));
                let Some(at) = words.iter().rposition(|word| any != 0 && *word != [0; 8]) else {
                    return Ok(NONE);
                };
                at * 8 + 7 - u64::from_be_bytes(words[at]).trailing_zeros() as usize / 8
            }
        };
        let id = self.private.take().ok_or(NoRoom)?;
        let kept = &mut self.private[id];
        let len = (last + 1).min(PRIVATE_MAX);
        kept.bytes[..len].copy_from_slice(&bytes[..len]);
        kept.bytes[len..].fill(0);
        kept.len = len as u8;
        Ok(id)
    }

    /// Keeps private data that the peer has sent. Without room the message is dropped: the peer repeats it, and by then events
    /// may have been taken.
    pub(crate) fn receive_private(&mut self, bytes: &[u8]) -> Result<u32, DropReason> {
        self.keep_private(bytes).map_err(|NoRoom| {
            self.counters.private_full.add(1);
            DropReason::NoCredit
        })
    }

    /// Keeps private data that the peer has sent as an answer, if need be in the place of what we had sent: that is not needed any
    /// more once the answer is taken.
    pub(crate) fn swap_private(&mut self, sent: &mut u32, bytes: &[u8]) -> Result<u32, DropReason> {
        if !self.private.has_room() && *sent != NONE {
            self.drop_private(std::mem::replace(sent, NONE));
        }
        self.receive_private(bytes)
    }

    /// Keeps another copy of what is kept.
    pub(crate) fn copy_private(&mut self, id: u32) -> Result<u32, DropReason> {
        match self.private.get(id) {
            Some(kept) if id != NONE => {
                let (len, bytes) = (usize::from(kept.len), kept.bytes);
                self.receive_private(&bytes[..len])
            }
            _ => Ok(NONE),
        }
    }

    pub(crate) fn drop_private(&mut self, id: u32) {
        if id != NONE {
            self.private.give(id);
        }
    }
}

/// A timer's owner, in its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Qp(u32),
    Conn(u32),
}

impl Owner {
    #[inline]
    pub(crate) const fn id(self) -> u32 {
        match self {
            Owner::Qp(slot) => slot << 1,
            Owner::Conn(slot) => slot << 1 | 1,
        }
    }

    #[inline]
    pub(crate) const fn of(id: u32) -> Owner {
        if id & 1 == 0 { Owner::Qp(id >> 1) } else { Owner::Conn(id >> 1) }
    }
}
