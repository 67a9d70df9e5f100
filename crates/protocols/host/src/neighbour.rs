//! Who is on the link: addresses, their MACs, and how sure we are. ARP and neighbour discovery share it.
//!
//! ```text
//!            route                 answer                30 s unconfirmed, in use
//!   (none) --------> Incomplete -----------> Reachable -------------------------> Probing (x3 to the MAC, 1 s apart)
//!      ^                 | 3 s                 ^   | claim of another MAC, or        |            |
//!      |  1 s            v                     |   | no answers from behind it       | answer     | 1 s of asking all
//!      +------------- Failed <-----------------|---|---------------------------------|------------+
//!                                              |   +--> Doubted (x3, 10/50/200 ms) --+
//!                                              +--------------- answer --------------+
//! ```
//! Entries that nothing was ever sent to age out instead of being probed. Templates stay usable while an entry is probed.
//!
//! In a full table, entries that flows use (looked up or confirmed within 30 s) and those being resolved for a flow make room
//! for nobody but another flow's next hop, the longest unused first. Templates of one that is forgotten stay as good as they
//! were: flows go on with them, and ask anew when nothing comes back.

use crate::limit::Bucket;
use crate::{HostCounters, HostEvent};
use barewire_base::{Duration, Instant};
use barewire_wire::MacAddr;
use core::net::IpAddr;
use std::collections::VecDeque;

/// How long a neighbour counts as reachable after it was heard from.
pub const REACHABLE_TIME: Duration = Duration::from_secs(30);
/// How long a resolution is tried before the next hop counts as unreachable.
pub const RESOLVE_TIMEOUT: Duration = Duration::from_secs(3);
/// Waits before the first retries of a question; later ones come after [`PROBE_INTERVAL`].
pub const FAST_RETRIES: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(200)];
/// Wait between questions when there is no hurry.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Questions to the known MAC before one goes to all.
pub const PROBES_UNICAST: u8 = 3;
/// How long an unreachable next hop stays so before it is tried again.
pub const NEGATIVE_TIME: Duration = Duration::from_secs(1);
/// Upper bound of `HostConfig::neighbours_max`: the table is scanned when a deadline passes.
pub const NEIGHBOURS_LIMIT: usize = 4096;

/// A claim of another MAC is looked into at most this often for one neighbour.
const DOUBT_INTERVAL: Duration = Duration::from_secs(1);
/// Entries looked at, oldest first, to find one to evict.
const EVICT_SCAN: usize = 64;
/// Resolutions under way for answers to strangers, at most: whoever can send packets with made-up sources must not be able to
/// fill the table, nor the link with questions.
const COURTESIES_MAX: u32 = 8;
/// Such resolutions begun per second, and at once: they may end early, when their places are needed.
const COURTESY_RATE: u64 = 100;
const COURTESY_BURST: u64 = 16;
/// Marks the end of a chain or list.
const NIL: u32 = u32::MAX;

/// How sure a host is of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourState {
    /// Being resolved for the first time.
    Incomplete,
    /// Heard from within [`REACHABLE_TIME`].
    Reachable,
    /// Not heard from for a while: being asked. Still usable.
    Probing,
    /// Somebody claimed to have its address, or nothing comes back from behind it: being asked, quickly. Still usable.
    Doubted,
    /// Did not answer.
    Failed,
}

/// What `stat` shows of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourView {
    /// Its address.
    pub ip: IpAddr,
    /// Its Ethernet address, where known.
    pub mac: Option<MacAddr>,
    /// How sure we are.
    pub state: NeighbourState,
    /// When it was last heard from; [`Instant::ZERO`] if never.
    pub confirmed: Instant,
}

#[derive(Clone, Copy)]
struct Entry {
    ip: IpAddr,
    mac: MacAddr,
    /// `None`: the slot is free.
    state: Option<NeighbourState>,
    /// Questions asked in this state.
    asked: u8,
    /// Templates with this MAC may be out.
    templated: bool,
    /// Being resolved for an answer to a stranger, and for nobody else.
    courtesy: bool,
    /// Stands in the queue of questions.
    queued: bool,
    deadline: Instant,
    /// When this state was entered.
    since: Instant,
    confirmed: Instant,
    /// When another MAC claimed the address, too soon to look into it.
    claimed: Option<Instant>,
    used: Instant,
    /// Next in the hash chain, or in the free list.
    next: u32,
    /// Neighbours in the list ordered by use.
    older: u32,
    newer: u32,
}

/// What the table says of a next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lookup {
    Mac(MacAddr),
    /// Being resolved, or no room to do so just now.
    Pending,
    Unreachable,
}

/// A question to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    pub ip: IpAddr,
    /// To one MAC, or to all.
    pub to: Option<MacAddr>,
}

/// The neighbour table.
pub(crate) struct Neighbours {
    entries: Box<[Entry]>,
    /// First entry of each hash chain.
    heads: Box<[u32]>,
    hash_key: u64,
    free: u32,
    oldest: u32,
    newest: u32,
    /// Not later than any entry's deadline.
    deadline: Instant,
    /// Entries with a question to ask, each at most once, so that it cannot overflow.
    questions: VecDeque<u32>,
    events: VecDeque<HostEvent>,
    generation: u32,
    /// Entries with `courtesy`.
    courtesies: u32,
    courtesy_limit: Bucket,
}

impl Neighbours {
    pub(crate) fn new(max: usize, hash_key: u64) -> Self {
        let max = max.clamp(1, NEIGHBOURS_LIMIT);
        let blank = Entry {
            ip: IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
            mac: MacAddr::ZERO,
            state: None,
            asked: 0,
            templated: false,
            courtesy: false,
            queued: false,
            deadline: Instant::FAR_FUTURE,
            since: Instant::ZERO,
            confirmed: Instant::ZERO,
            claimed: None,
            used: Instant::ZERO,
            next: NIL,
            older: NIL,
            newer: NIL,
        };
        let entries =
            (0..max).map(|i| Entry { next: if i + 1 < max { i as u32 + 1 } else { NIL }, ..blank }).collect();
        Neighbours {
            entries,
            heads: vec![NIL; (max * 2).next_power_of_two()].into(),
            hash_key,
            free: 0,
            oldest: NIL,
            newest: NIL,
            deadline: Instant::FAR_FUTURE,
            questions: VecDeque::with_capacity(max),
            events: VecDeque::with_capacity(max + EVICT_SCAN),
            generation: 0,
            courtesies: 0,
            courtesy_limit: Bucket::new(Duration::from_nanos(1_000_000_000 / COURTESY_RATE), COURTESY_BURST),
        }
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        (self.deadline != Instant::FAR_FUTURE).then_some(self.deadline)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = NeighbourView> {
        self.entries.iter().filter_map(|e| {
            let state = e.state?;
            let known = !matches!(state, NeighbourState::Incomplete | NeighbourState::Failed);
            Some(NeighbourView { ip: e.ip, mac: known.then_some(e.mac), state, confirmed: e.confirmed })
        })
    }

    /// The MAC of next hop `ip`, for a template; starts resolving it when unknown.
    pub(crate) fn lookup(&mut self, now: Instant, ip: IpAddr, counters: &HostCounters) -> Lookup {
        if let Some(i) = self.find(ip) {
            self.touch(i, now);
            self.end_courtesy(i);
            let e = &mut self.entries[i as usize];
            return match e.state {
                Some(NeighbourState::Incomplete) => Lookup::Pending,
                Some(NeighbourState::Failed) | None => Lookup::Unreachable,
                Some(_) => {
                    e.templated = true;
                    Lookup::Mac(e.mac)
                }
            };
        }
        let Some(i) = self.insert(now, ip, true, counters) else {
            // Resolutions end: whoever asks again may find room.
            counters.neighbours_full.add(1);
            return Lookup::Pending;
        };
        self.touch(i, now);
        self.ask(i, now, NeighbourState::Incomplete);
        Lookup::Pending
    }

    /// The MAC of next hop `ip`, for one answer to a stranger. Such answers are a courtesy: they keep no entry in its place,
    /// and few unknown neighbours are resolved for them at a time.
    pub(crate) fn lookup_courtesy(&mut self, now: Instant, ip: IpAddr, counters: &HostCounters) -> Lookup {
        if let Some(i) = self.find(ip) {
            return match self.entries[i as usize].state {
                Some(NeighbourState::Incomplete) => Lookup::Pending,
                Some(NeighbourState::Failed) | None => Lookup::Unreachable,
                Some(_) => Lookup::Mac(self.entries[i as usize].mac),
            };
        }
        if self.courtesies >= COURTESIES_MAX || !self.courtesy_limit.take(now) {
            return Lookup::Unreachable;
        }
        let Some(i) = self.insert(now, ip, false, counters) else {
            return Lookup::Unreachable;
        };
        self.entries[i as usize].courtesy = true;
        self.courtesies += 1;
        self.ask(i, now, NeighbourState::Incomplete);
        Lookup::Pending
    }

    /// Entry `i` is no longer being resolved, or not for a stranger only.
    fn end_courtesy(&mut self, i: u32) -> bool {
        let was = std::mem::take(&mut self.entries[i as usize].courtesy);
        self.courtesies -= u32::from(was);
        was
    }

    /// An upper layer heard from next hop `ip`, at `heard` (RFC 4861 section 7.3.1).
    #[inline]
    pub(crate) fn confirm(&mut self, heard: Instant, ip: IpAddr) {
        let Some(i) = self.find(ip) else { return };
        let e = &mut self.entries[i as usize];
        match e.state {
            Some(NeighbourState::Reachable) => e.confirmed = e.confirmed.max(heard),
            // What was heard before the question says nothing to it.
            Some(NeighbourState::Probing | NeighbourState::Doubted) if heard >= e.since => {
                self.reachable(i, heard)
            }
            Some(NeighbourState::Probing | NeighbourState::Doubted) => {}
            _ => return,
        }
        // Reordering the list for each packet would cost more than it tells.
        if heard.since(self.entries[i as usize].used) >= PROBE_INTERVAL {
            self.touch(i, heard);
        }
    }

    /// An upper layer hears nothing from behind next hop `ip` (RFC 4861 section 7.3.3): another may be in its place.
    pub(crate) fn suspect(&mut self, now: Instant, ip: IpAddr, counters: &HostCounters) {
        let Some(i) = self.find(ip) else { return };
        let state = self.entries[i as usize].state;
        // One that is being probed at leisure is asked quickly from now on.
        if let Some(NeighbourState::Reachable | NeighbourState::Probing) = state {
            self.doubt(i, now, counters);
        }
    }

    /// `ip` answered from `mac`. `replace`: the answer may replace a known MAC (in neighbour discovery, the override
    /// flag). False when nobody asked, or when the answer is not from whom we asked.
    pub(crate) fn answered(
        &mut self,
        now: Instant,
        ip: IpAddr,
        mac: MacAddr,
        replace: bool,
        counters: &HostCounters,
    ) -> bool {
        let Some(i) = self.find(ip) else { return false };
        let e = &self.entries[i as usize];
        match e.state {
            Some(NeighbourState::Incomplete) => self.resolve(i, now, mac, counters),
            Some(NeighbourState::Probing | NeighbourState::Doubted) if e.mac == mac => self.reachable(i, now),
            Some(NeighbourState::Probing | NeighbourState::Doubted)
                if replace && e.asked > PROBES_UNICAST =>
            {
                self.replace(i, mac);
                self.reachable(i, now);
                counters.neighbours_moved.add(1);
                self.event(HostEvent::Moved(ip), counters);
            }
            Some(NeighbourState::Reachable) if e.mac != mac => {
                self.doubt(i, now, counters);
                return false;
            }
            _ => return false,
        }
        true
    }

    /// `ip`, known to be on the link, asked for an address of ours from `mac`.
    pub(crate) fn asked_us(&mut self, now: Instant, ip: IpAddr, mac: MacAddr, counters: &HostCounters) {
        let Some(i) = self.find(ip) else {
            if let Some(i) = self.insert(now, ip, false, counters) {
                self.entries[i as usize].mac = mac;
                self.reachable(i, now);
            }
            return;
        };
        let e = &mut self.entries[i as usize];
        match e.state {
            Some(NeighbourState::Incomplete | NeighbourState::Failed) => self.resolve(i, now, mac, counters),
            Some(NeighbourState::Reachable) if e.mac == mac => e.confirmed = now,
            Some(NeighbourState::Probing | NeighbourState::Doubted) if e.mac == mac => self.reachable(i, now),
            Some(NeighbourState::Reachable) => self.doubt(i, now, counters),
            _ => {}
        }
    }

    /// Somebody claimed, unasked, that `ip` is at `mac`.
    pub(crate) fn claimed(&mut self, now: Instant, ip: IpAddr, mac: MacAddr, counters: &HostCounters) {
        if let Some(i) = self.find(ip) {
            let e = &self.entries[i as usize];
            if e.state == Some(NeighbourState::Reachable) && e.mac != mac {
                self.doubt(i, now, counters);
            }
        }
    }

    /// The MAC known for `ip`, whatever the doubts: for an advertisement that names none.
    pub(crate) fn known_mac(&self, ip: IpAddr) -> Option<MacAddr> {
        let e = &self.entries[self.find(ip)? as usize];
        use NeighbourState::{Doubted, Probing, Reachable};
        matches!(e.state, Some(Reachable | Probing | Doubted)).then_some(e.mac)
    }

    /// Whether a question may wait.
    #[inline]
    pub(crate) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// The next question to ask.
    pub(crate) fn next_question(&mut self) -> Option<Question> {
        while let Some(i) = self.questions.pop_front() {
            let e = &mut self.entries[i as usize];
            e.queued = false;
            let to = match e.state {
                Some(NeighbourState::Incomplete) => None,
                Some(NeighbourState::Probing | NeighbourState::Doubted) => {
                    (e.asked <= PROBES_UNICAST).then_some(e.mac)
                }
                // Answered, or gone, while the question waited.
                _ => continue,
            };
            return Some(Question { ip: e.ip, to });
        }
        None
    }

    /// Does what is due: retries, ageing, giving up.
    pub(crate) fn handle_timeout(&mut self, now: Instant, counters: &HostCounters) {
        if now < self.deadline {
            return;
        }
        self.deadline = Instant::FAR_FUTURE;
        for i in 0..self.entries.len() as u32 {
            let e = &mut self.entries[i as usize];
            let Some(state) = e.state else { continue };
            if state == NeighbourState::Reachable {
                e.deadline = e.confirmed + REACHABLE_TIME; // it may have been confirmed since
                // Heard from since, too: then the claim was wrong.
                e.claimed = e.claimed.filter(|&claimed| claimed >= e.confirmed);
                if e.claimed.is_some() {
                    e.deadline = e.confirmed + DOUBT_INTERVAL;
                }
            }
            if e.deadline <= now {
                self.expire(i, now, state, counters);
            }
            // Nothing is due at `FAR_FUTURE`: a freed slot does not count.
            self.deadline = self.deadline.min(self.entries[i as usize].deadline);
        }
    }

    fn expire(&mut self, i: u32, now: Instant, state: NeighbourState, counters: &HostCounters) {
        let e = &self.entries[i as usize];
        match state {
            NeighbourState::Incomplete if now.since(e.since) >= RESOLVE_TIMEOUT => {
                self.fail(i, now, counters)
            }
            NeighbourState::Incomplete => self.ask(i, now, state),
            NeighbourState::Reachable if e.claimed.is_some() => self.doubt(i, now, counters),
            NeighbourState::Reachable if e.templated => self.ask(i, now, NeighbourState::Probing),
            NeighbourState::Reachable => self.remove(i),
            NeighbourState::Probing | NeighbourState::Doubted if e.asked <= PROBES_UNICAST => {
                self.ask(i, now, state)
            }
            NeighbourState::Probing | NeighbourState::Doubted if e.templated => self.fail(i, now, counters),
            NeighbourState::Probing | NeighbourState::Doubted => self.remove(i),
            NeighbourState::Failed => self.remove(i),
        }
    }

    /// Queues a question about entry `i` in `state`, and sets the time for the next.
    fn ask(&mut self, i: u32, now: Instant, state: NeighbourState) {
        let e = &mut self.entries[i as usize];
        if e.state != Some(state) {
            e.state = Some(state);
            e.since = now;
            e.asked = 0;
        }
        let wait = match state {
            NeighbourState::Probing => PROBE_INTERVAL,
            _ => FAST_RETRIES.get(usize::from(e.asked)).copied().unwrap_or(PROBE_INTERVAL),
        };
        e.asked = e.asked.saturating_add(1);
        e.deadline = now + wait;
        if state == NeighbourState::Incomplete {
            e.deadline = e.deadline.min(e.since + RESOLVE_TIMEOUT);
        }
        self.deadline = self.deadline.min(e.deadline);
        if !e.queued {
            e.queued = true;
            self.questions.push_back(i);
        }
    }

    /// Entry `i` is what it says it is.
    fn reachable(&mut self, i: u32, now: Instant) {
        let e = &mut self.entries[i as usize];
        e.state = Some(NeighbourState::Reachable);
        e.since = now;
        e.asked = 0;
        e.confirmed = now;
        e.claimed = None;
        e.deadline = now + REACHABLE_TIME;
        self.deadline = self.deadline.min(e.deadline);
    }

    fn resolve(&mut self, i: u32, now: Instant, mac: MacAddr, counters: &HostCounters) {
        self.entries[i as usize].mac = mac;
        self.reachable(i, now);
        counters.neighbours_resolved.add(1);
        // Nobody waits for the address of a stranger.
        if !self.end_courtesy(i) {
            self.event(HostEvent::Resolved(self.entries[i as usize].ip), counters);
        }
    }

    fn fail(&mut self, i: u32, now: Instant, counters: &HostCounters) {
        self.forget_templates(i);
        let e = &mut self.entries[i as usize];
        e.state = Some(NeighbourState::Failed);
        e.since = now;
        e.asked = 0;
        e.deadline = now + NEGATIVE_TIME;
        let ip = e.ip;
        counters.neighbours_failed.add(1);
        if !self.end_courtesy(i) {
            self.event(HostEvent::Unreachable(ip), counters);
        }
    }

    /// Asks entry `i`, quickly, whether it is still there.
    fn doubt(&mut self, i: u32, now: Instant, counters: &HostCounters) {
        let e = &mut self.entries[i as usize];
        if now.since(e.confirmed) < DOUBT_INTERVAL {
            // Later, unless it is heard from meanwhile: it may just have gone, and another taken its place.
            e.claimed = Some(now);
            self.deadline = self.deadline.min(e.confirmed + DOUBT_INTERVAL);
            return;
        }
        e.claimed = None;
        counters.neighbours_doubted.add(1);
        self.ask(i, now, NeighbourState::Doubted);
    }

    /// Our own MAC is another: templates have the old one, and a question to each neighbour tells it the new one.
    #[cold]
    pub(crate) fn own_mac_changed(&mut self, now: Instant, counters: &HostCounters) {
        self.generation = self.generation.wrapping_add(1);
        for i in 0..self.entries.len() as u32 {
            if self.entries[i as usize].state == Some(NeighbourState::Reachable) {
                counters.neighbours_doubted.add(1);
                self.ask(i, now, NeighbourState::Doubted);
            }
        }
    }

    fn replace(&mut self, i: u32, mac: MacAddr) {
        self.forget_templates(i);
        self.entries[i as usize].mac = mac;
    }

    /// Templates made of entry `i` are stale from now on.
    fn forget_templates(&mut self, i: u32) {
        let e = &mut self.entries[i as usize];
        if e.templated {
            e.templated = false;
            self.generation = self.generation.wrapping_add(1);
        }
    }

    fn event(&mut self, event: HostEvent, counters: &HostCounters) {
        if self.events.len() == self.events.capacity() {
            counters.events_lost.add(1);
            return;
        }
        self.events.push_back(event);
    }

    #[inline]
    fn bucket(&self, ip: IpAddr) -> usize {
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        let mix = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            (product as u64) ^ (product >> 64) as u64
        };
        let hash = match ip {
            IpAddr::V4(ip) => mix(u64::from(ip.to_bits()) ^ self.hash_key, K),
            IpAddr::V6(ip) => {
                let bits = ip.to_bits();
                mix(mix(bits as u64 ^ self.hash_key, K) ^ (bits >> 64) as u64, K ^ self.hash_key)
            }
        };
        hash as usize & (self.heads.len() - 1)
    }

    #[inline]
    fn find(&self, ip: IpAddr) -> Option<u32> {
        let mut i = self.heads[self.bucket(ip)];
        while i != NIL {
            let e = &self.entries[i as usize];
            if e.ip == ip {
                return Some(i);
            }
            i = e.next;
        }
        None
    }

    /// A slot for `ip`, which is not in the table; when it is full, that of the oldest entry not in use, or `for_flow` of the
    /// oldest one.
    fn insert(&mut self, now: Instant, ip: IpAddr, for_flow: bool, counters: &HostCounters) -> Option<u32> {
        if self.free == NIL {
            let victim = self.victim(now, for_flow)?;
            counters.neighbours_evicted.add(1);
            // Forgotten, not gone: its templates lead where they led.
            self.entries[victim as usize].templated = false;
            self.remove(victim);
        }
        let i = self.free;
        let bucket = self.bucket(ip);
        let e = &mut self.entries[i as usize];
        self.free = e.next;
        *e = Entry {
            ip,
            mac: MacAddr::ZERO,
            state: Some(NeighbourState::Failed), // the caller says which
            asked: 0,
            templated: false,
            courtesy: false,
            queued: e.queued, // a stale place in the queue of questions serves the new tenant
            deadline: Instant::FAR_FUTURE,
            since: now,
            confirmed: Instant::ZERO,
            claimed: None,
            used: Instant::ZERO,
            next: self.heads[bucket],
            older: NIL,
            newer: NIL,
        };
        self.heads[bucket] = i;
        self.link_newest(i);
        Some(i)
    }

    fn victim(&self, now: Instant, for_flow: bool) -> Option<u32> {
        let mut i = self.oldest;
        let mut oldest_in_use = None;
        for _ in 0..EVICT_SCAN {
            if i == NIL {
                break;
            }
            let e = &self.entries[i as usize];
            let resolving = e.state == Some(NeighbourState::Incomplete) && !e.courtesy;
            let in_use = resolving || e.templated && now.since(e.used) < REACHABLE_TIME;
            if !in_use {
                return Some(i);
            }
            if !resolving && oldest_in_use.is_none() {
                oldest_in_use = Some(i);
            }
            i = e.newer;
        }
        oldest_in_use.filter(|_| for_flow)
    }

    fn remove(&mut self, i: u32) {
        self.forget_templates(i);
        self.end_courtesy(i);
        let bucket = self.bucket(self.entries[i as usize].ip);
        let after = self.entries[i as usize].next;
        if self.heads[bucket] == i {
            self.heads[bucket] = after;
        } else {
            let mut at = self.heads[bucket];
            while self.entries[at as usize].next != i {
                at = self.entries[at as usize].next;
            }
            self.entries[at as usize].next = after;
        }
        self.unlink(i);
        let e = &mut self.entries[i as usize];
        e.state = None;
        e.deadline = Instant::FAR_FUTURE;
        e.next = self.free;
        self.free = i;
    }

    /// Entry `i` is used now.
    fn touch(&mut self, i: u32, now: Instant) {
        self.entries[i as usize].used = now;
        if self.newest != i {
            self.unlink(i);
            self.link_newest(i);
        }
    }

    fn link_newest(&mut self, i: u32) {
        let before = self.newest;
        let e = &mut self.entries[i as usize];
        e.older = before;
        e.newer = NIL;
        match before {
            NIL => self.oldest = i,
            _ => self.entries[before as usize].newer = i,
        }
        self.newest = i;
    }

    fn unlink(&mut self, i: u32) {
        let Entry { older, newer, .. } = self.entries[i as usize];
        match older {
            NIL => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
    }
}

#[cfg(test)]
#[path = "neighbour_tests.rs"]
mod tests;
