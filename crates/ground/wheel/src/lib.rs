//! A timing wheel with one deadline per item (flow, queue pair, connection): arming, re-arming and firing cost a few
//! instructions and allocate nothing.
//!
//! The wheel has `SLOTS` slots of [`TICK_NS`]; a deadline beyond its horizon waits in a far slot and is armed again
//! when that fires. A deadline never fires early; it fires at most one tick late.
//!
//! ```
//! use barewire_base::{Duration, Instant};
//! use barewire_wheel::{TICK_NS, Timers};
//!
//! let mut timers = Timers::new(8);
//! let deadline = Instant::ZERO + Duration::from_millis(3);
//! timers.arm(5, deadline);
//! assert_eq!(timers.pop_due(Instant::ZERO), None);
//! // At most one tick late, never early.
//! let late = deadline + Duration::from_nanos(TICK_NS);
//! assert_eq!((timers.pop_due(late), timers.pop_due(late)), (Some(5), None));
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use barewire_base::Instant;
use barewire_ring::prefetch;

const TICK_SHIFT: u32 = 14;
/// Nanoseconds of a tick: a quarter of the shortest timer, an acknowledgement's delay.
pub const TICK_NS: u64 = 1 << TICK_SHIFT;
/// Slots of the wheel: a horizon of 67 ms.
const SLOTS: usize = 4096;
/// Ticks between the slots in which deadlines beyond the horizon wait: ten thousand idle ones wake their engine once in
/// 4 ms, not once in every tick.
const FAR_STEP: u64 = 256;
/// The list of nodes whose slot has come.
const FIRING: usize = SLOTS;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Node {
    deadline: Instant,
    slot: u32,
    next: u32,
    prev: u32,
}

/// The deadlines of owners that are numbered from 0.
pub struct Timers {
    /// The first node of each slot, and of the list being fired.
    heads: Box<[u32; SLOTS + 1]>,
    /// One bit for each slot that is not empty.
    occupied: [u64; SLOTS / 64],
    nodes: Vec<Node>,
    /// All ticks before this one have fired.
    cursor: u64,
    armed: usize,
}

impl Timers {
    /// Room for `entries` owners; none has a deadline.
    pub fn new(entries: usize) -> Timers {
        let idle = Node { deadline: Instant::FAR_FUTURE, slot: NONE, next: NONE, prev: NONE };
        Timers {
            heads: Box::new([NONE; SLOTS + 1]),
            occupied: [0; SLOTS / 64],
            nodes: vec![idle; entries],
            cursor: 0,
            armed: 0,
        }
    }

    /// Makes room for `id` and all below it.
    pub fn reserve(&mut self, id: u32) {
        if id as usize >= self.nodes.len() {
            let idle = Node { deadline: Instant::FAR_FUTURE, slot: NONE, next: NONE, prev: NONE };
            self.nodes.resize((id as usize + 1).next_power_of_two().max(256), idle);
        }
    }

    fn unlink(&mut self, id: u32) {
        let Node { slot, next, prev, .. } = self.nodes[id as usize];
        if slot == NONE {
            return;
        }
        if prev == NONE {
            self.heads[slot as usize] = next;
            if next == NONE && slot as usize != FIRING {
                self.occupied[slot as usize / 64] &= !(1 << (slot % 64));
            }
        } else {
            self.nodes[prev as usize].next = next;
        }
        if next != NONE {
            self.nodes[next as usize].prev = prev;
        }
        self.nodes[id as usize].slot = NONE;
        self.armed -= 1;
    }

    fn link(&mut self, id: u32, deadline: Instant) {
        // Rounded up, so that nothing fires early.
        let tick = deadline.as_nanos().saturating_add(TICK_NS - 1) >> TICK_SHIFT;
        let farthest = self.cursor + SLOTS as u64 - 1;
        let tick = if tick > farthest { farthest & !(FAR_STEP - 1) } else { tick.max(self.cursor) };
        let slot = (tick % SLOTS as u64) as u32;
        let head = self.heads[slot as usize];
        self.nodes[id as usize] = Node { deadline, slot, next: head, prev: NONE };
        if head != NONE {
            self.nodes[head as usize].prev = id;
        }
        self.heads[slot as usize] = id;
        self.occupied[slot as usize / 64] |= 1 << (slot % 64);
        self.armed += 1;
    }

    /// Makes `id` fire no later than `deadline`. An earlier deadline that is already armed stays: when it fires, the
    /// owner looks at its own timers and arms again. That spares the re-linking on every packet.
    // Asked after every packet and hardly ever with anything to do: the question is the caller's code, the answer is not.
    #[inline(always)]
    pub fn arm(&mut self, id: u32, deadline: Instant) {
        let node = &self.nodes[id as usize];
        if (node.slot != NONE && node.deadline <= deadline) || deadline == Instant::FAR_FUTURE {
            return;
        }
        self.move_to(id, deadline);
    }

    fn move_to(&mut self, id: u32, deadline: Instant) {
        self.unlink(id);
        self.link(id, deadline);
    }

    /// When `id` is to fire, if it is armed.
    pub fn deadline(&self, id: u32) -> Option<Instant> {
        self.nodes.get(id as usize).filter(|node| node.slot != NONE).map(|node| node.deadline)
    }

    /// Takes back the deadline of `id`, if it has one.
    pub fn disarm(&mut self, id: u32) {
        self.unlink(id);
    }

    /// What [`disarm`](Self::disarm) and [`arm`](Self::arm) of `id` will touch first.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        if let Some(node) = self.nodes.get(id as usize) {
            prefetch(node);
        }
    }

    /// Whether any tick has to be looked at, or has more owners than were taken. Two comparisons on the path of every duty cycle.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        now.as_nanos() >> TICK_SHIFT >= self.cursor || self.heads[FIRING] != NONE
    }

    /// Takes one owner whose deadline has come; call until `None`, or again later: [`next_deadline`](Self::next_deadline) does not
    /// forget the others.
    pub fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let now_tick = now.as_nanos() >> TICK_SHIFT;
        loop {
            let id = self.heads[FIRING];
            if id != NONE {
                self.unlink(id);
                let deadline = self.nodes[id as usize].deadline;
                if deadline <= now {
                    return Some(id);
                }
                // It was beyond the horizon, or less than a tick is missing.
                self.link(id, deadline);
                continue;
            }
            if self.armed == 0 {
                self.cursor = self.cursor.max(now_tick + 1);
            }
            if self.cursor > now_tick {
                return None;
            }
            // After a long pause a single turn of the wheel sees every slot.
            self.cursor = self.cursor.max((now_tick + 1).saturating_sub(SLOTS as u64));
            self.fire_slot((self.cursor % SLOTS as u64) as usize);
            self.cursor += 1;
        }
    }

    /// Moves a slot's nodes to the list being fired, so that one that is armed again meanwhile is not seen twice.
    fn fire_slot(&mut self, slot: usize) {
        let head = self.heads[slot];
        if head == NONE {
            return;
        }
        self.heads[slot] = NONE;
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        self.heads[FIRING] = head;
        let mut id = head;
        while id != NONE {
            self.nodes[id as usize].slot = FIRING as u32;
            id = self.nodes[id as usize].next;
        }
    }

    /// The earliest time at which something may fire.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.armed == 0 {
            return None;
        }
        if self.heads[FIRING] != NONE {
            // The slot that they were in has come.
            return Some(Instant::from_nanos(self.cursor.saturating_sub(1) << TICK_SHIFT));
        }
        let start = (self.cursor % SLOTS as u64) as usize;
        let words = SLOTS / 64;
        for i in 0..=words {
            let word = (start / 64 + i) % words;
            let mut bits = self.occupied[word];
            if i == 0 {
                bits &= u64::MAX << (start % 64);
            } else if i == words {
                bits &= !(u64::MAX << (start % 64));
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + SLOTS - start) % SLOTS;
                return Some(Instant::from_nanos((self.cursor + ahead as u64) << TICK_SHIFT));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::{Duration, Prng};

    #[test]
    fn deadlines_fire_once_never_early_and_at_most_a_tick_late() {
        let mut p = Prng::new(1);
        let mut t = Timers::new(500);
        let mut now = Instant::from_nanos(1_000_000_007);
        while t.pop_due(now).is_some() {}
        let mut due = vec![None; 500];
        for _ in 0..20_000 {
            let id = p.below(500) as u32;
            if due[id as usize].is_none() {
                let at = now + Duration::from_nanos(p.below(300_000_000));
                t.arm(id, at);
                due[id as usize] = Some(at);
            }
            now += Duration::from_nanos(p.below(2 * TICK_NS));
            while let Some(id) = t.pop_due(now) {
                let at = due[id as usize].take().expect("armed");
                assert!(at <= now, "early");
            }
            for at in due.iter().flatten() {
                assert!(now.since(*at).as_nanos() < 2 * TICK_NS, "late by {}", now.since(*at));
            }
            if let Some(next) = t.next_deadline() {
                let earliest = due.iter().flatten().min().unwrap();
                assert!(next.as_nanos() <= earliest.as_nanos() + TICK_NS, "sleeps past a deadline");
            }
        }
    }

    #[test]
    fn an_earlier_deadline_moves_a_later_one_does_not() {
        let mut t = Timers::new(2);
        let ms = |n: u64| Instant::from_nanos(n * 1_000_000);
        t.arm(0, ms(30));
        t.arm(0, ms(50));
        assert!(t.next_deadline().unwrap() <= ms(31));
        t.arm(0, ms(10));
        assert!(t.pop_due(ms(9)).is_none());
        assert_eq!(t.pop_due(ms(11)), Some(0));
        assert_eq!(t.next_deadline(), None);
        t.arm(1, ms(20));
        t.disarm(1);
        assert!(t.pop_due(ms(99)).is_none());
    }

    #[test]
    fn who_shares_a_tick_is_due_until_taken() {
        let mut t = Timers::new(5);
        let at = Instant::from_nanos(40 * TICK_NS - 5);
        for id in 0..4 {
            t.arm(id, at + Duration::from_nanos(u64::from(id)));
        }
        t.arm(4, at + Duration::from_nanos(30 * TICK_NS));
        let now = Instant::from_nanos(40 * TICK_NS);
        let mut fired = Vec::new();
        for left in (0..4).rev() {
            assert!(t.is_due(now));
            fired.extend(t.pop_due(now));
            // Who takes one and goes to sleep is woken at once.
            let next = t.next_deadline().unwrap();
            assert_eq!(next <= now, left > 0, "{left} of the tick are left");
        }
        fired.sort_unstable();
        assert_eq!(fired, [0, 1, 2, 3]);
        assert!(!t.is_due(now));
        // One that is armed anew meanwhile waits for its own tick, and one that is disarmed is not due.
        let later = at + Duration::from_nanos(60 * TICK_NS);
        t.arm(0, later);
        t.arm(1, later);
        let now = later + Duration::from_nanos(TICK_NS);
        assert!(t.pop_due(now).is_some() && t.pop_due(now).is_some());
        t.disarm(0);
        t.disarm(1);
        assert_eq!((t.is_due(now), t.next_deadline()), (false, None));
    }

    #[test]
    fn a_pause_longer_than_the_wheel_loses_nothing() {
        let mut t = Timers::new(3);
        for id in 0..3 {
            t.arm(id, Instant::from_nanos(u64::from(id + 1) * 40_000_000));
        }
        let late = Instant::from_nanos(60_000_000_000);
        let mut fired: Vec<u32> = std::iter::from_fn(|| t.pop_due(late)).collect();
        fired.sort_unstable();
        assert_eq!(fired, [0, 1, 2]);
    }
}
