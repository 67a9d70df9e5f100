//! What is left of flows that both ends have closed: enough to answer a peer that repeats itself, as it missed our last acknowledgement,
//! and to know a late copy of a client's INIT from a new one.
//!
//! A remnant takes a small part of what a flow does, so flows that lived for a moment do not keep their places in the table of flows for
//! the time they linger. It has no application: that has heard the end, and what it holds of messages is counted by itself. Flows that
//! are encrypted linger in their places, with their keys, and so do all others where there is no place for another remnant. A host has as
//! many as it leaves to others, so one that makes its remnants last by repeating itself takes nobody else's.

use crate::endpoint::Endpoint;
use crate::flow::{Flow, State};
use crate::memory::Memory;
use crate::peers::{self, Peers};
use crate::security::guard::Shield;
use crate::sender::{before, stamp_of};
use barewire_base::{DropReason, Duration, Instant};
use barewire_host::Verdict;
use barewire_wire::msg::{self, Header, Kind, flag};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Remnants for each place in the table of flows, and of an endpoint, at most.
const PER_FLOW: u32 = 8;
const REMNANTS_MAX: u32 = 1 << 16;
/// In the table of flows by their peer's id: the rest of the number is a remnant's place, not a flow's.
const MARK: u32 = 1 << 31;

/// One of them.
#[derive(Clone, Copy)]
pub(crate) struct Remnant {
    pub local_cid: u64,
    pub remote_cid: u64,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// A client opened the flow.
    pub is_accepted: bool,
    /// Our next segment's number, and the peer's: what an acknowledgement says.
    nxt: u32,
    next: u32,
    credit: u32,
    give_up_at: Instant,
    /// How long it stays after an answer: that may be lost, too.
    stays: Duration,
}

/// All of them.
pub(crate) struct Remnants {
    max: u32,
    /// As many as were used at once; memory for all is there.
    places: Vec<Option<Remnant>>,
    free: Vec<u32>,
    by_cid: HashMap<u64, u32>,
    /// How many are each host's.
    hosts: Peers,
}

impl Remnants {
    pub(crate) fn new(flows_max: u32) -> Remnants {
        let max = flows_max.saturating_mul(PER_FLOW).min(REMNANTS_MAX);
        Remnants {
            max,
            places: Vec::with_capacity(max as usize),
            free: Vec::with_capacity(max as usize),
            // Twice, so that deletions never make the map grow.
            by_cid: HashMap::with_capacity(max as usize * 2),
            hosts: Peers::new(max as usize),
        }
    }

    /// How many there may be.
    pub(crate) fn max(&self) -> usize {
        self.max as usize
    }

    /// A place for one more that has to do with `host`.
    fn take_place(&mut self, host: u64) -> Option<u32> {
        let free = self.max - self.used() as u32;
        if free == 0 || !self.hosts.admits(host, free) {
            return None;
        }
        self.hosts.add(host);
        Some(self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        }))
    }

    pub(crate) fn used(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn get(&self, at: u32) -> Option<&Remnant> {
        self.places.get(at as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn find(&self, cid: u64) -> Option<u32> {
        if self.by_cid.is_empty() { None } else { self.by_cid.get(&cid).copied() }
    }

    /// As the counts of hosts have it.
    pub(crate) fn of_hosts(&self) -> u64 {
        self.hosts.total()
    }

    /// Every one, with its place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Remnant)> {
        self.places.iter().enumerate().filter_map(|(at, r)| Some((at as u32, r.as_ref()?)))
    }
}

/// What the table of flows by their peer's id says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// A flow's place.
    Flow(u32),
    /// A remnant's.
    Remnant(u32),
}

impl Known {
    pub(crate) fn of(number: u32) -> Known {
        match number & MARK {
            0 => Known::Flow(number),
            _ => Known::Remnant(number & !MARK),
        }
    }

    /// The number that says so.
    pub(crate) fn number(self) -> u32 {
        match self {
            Known::Flow(slot) => slot,
            Known::Remnant(at) => at | MARK,
        }
    }
}

impl Flow {
    /// Whether all that it may still have to do is to answer repeats.
    fn only_answers(&self) -> bool {
        self.state == State::Lingering
            && self.shield == Shield::Plain
            && !self.rx.ack_now
            && !self.control_due
            && self.rx.ack_at == Instant::FAR_FUTURE
    }
}

impl<M: Memory> Endpoint<M> {
    /// Flows that both ends have closed, and of which a trace is kept for a while to answer repeats. They are not among
    /// [`flows_used`](Self::flows_used).
    pub fn lingering(&self) -> u32 {
        self.remnants.used() as u32
    }

    /// Whose this id of a peer is.
    pub(crate) fn known(&self, remote: SocketAddr, cid: u64) -> Option<Known> {
        self.by_remote.get(&(remote, cid)).copied().map(Known::of)
    }

    /// Gives the place of a flow that only lingers to others.
    #[inline]
    pub(crate) fn settle(&mut self, slot: u32, now: Instant) {
        if self.flows[slot as usize].only_answers() {
            self.leave_remnant(slot, now);
        }
    }

    fn leave_remnant(&mut self, slot: u32, now: Instant) {
        let host = peers::key(self.flows[slot as usize].remote.ip());
        let Some(at) = self.remnants.take_place(host) else { return };
        let f = &mut self.flows[slot as usize];
        let remnant = Remnant {
            local_cid: f.local_cid,
            remote_cid: f.remote_cid,
            local: f.local,
            remote: f.remote,
            is_accepted: f.is_accepted,
            nxt: f.tx.nxt,
            next: f.rx.next,
            credit: f.rx.credit(),
            give_up_at: f.give_up_at,
            stays: f.lingers_for(self.config.linger.max(self.config.timeout_max)),
        };
        let is_known = self.known(remnant.remote, remnant.remote_cid) == Some(Known::Flow(slot));
        self.retire(slot);
        if is_known {
            // Not where a liar has given two flows one id.
            self.by_remote.insert((remnant.remote, remnant.remote_cid), Known::Remnant(at).number());
        }
        self.udp_ports[usize::from(remnant.local.port())] += 1;
        self.remnants.by_cid.insert(remnant.local_cid, at);
        self.remnants.places[at as usize] = Some(remnant);
        self.timers.arm(self.timer_of(at), remnant.give_up_at.max(now));
    }

    /// The remnants' timers come after the flows'.
    fn timer_of(&self, at: u32) -> u32 {
        self.config.flows_max + at
    }

    /// A timer that is no flow's.
    pub(crate) fn on_remnant_timer(&mut self, id: u32, now: Instant) {
        let at = id - self.config.flows_max;
        match self.remnants.get(at) {
            // It has answered since, and stays for that.
            Some(remnant) if now < remnant.give_up_at => self.timers.arm(id, remnant.give_up_at),
            _ => self.forget_remnant(at),
        }
    }

    pub(crate) fn forget_remnant(&mut self, at: u32) {
        let Some(remnant) = self.remnants.places.get_mut(at as usize).and_then(Option::take) else { return };
        self.timers.disarm(self.timer_of(at));
        let peer = (remnant.remote, remnant.remote_cid);
        if self.by_remote.get(&peer) == Some(&Known::Remnant(at).number()) {
            self.by_remote.remove(&peer);
        }
        if self.remnants.by_cid.get(&remnant.local_cid) == Some(&at) {
            self.remnants.by_cid.remove(&remnant.local_cid);
        }
        self.udp_ports[usize::from(remnant.local.port())] -= 1;
        self.remnants.hosts.remove(peers::key(remnant.remote.ip()));
        self.remnants.free.push(at);
    }

    /// A packet for a flow of which only this is left.
    #[cold]
    pub(crate) fn on_remnant(
        &mut self,
        now: Instant,
        at: u32,
        (local, remote): (SocketAddr, SocketAddr),
        header: &Header,
        packet: &[u8],
    ) -> Verdict {
        let Some(remnant) = self.remnants.places.get_mut(at as usize).and_then(Option::as_mut) else {
            return Verdict::Drop(DropReason::UnknownFlow);
        };
        if (remnant.local, remnant.remote) != (local, remote) {
            return Verdict::Drop(DropReason::WrongPeer);
        }
        let verdict = match header.kind {
            // The peer's end came, so all there is are repeats.
            Kind::Data if msg::Data::parse(packet).is_err() => return Verdict::Drop(DropReason::Malformed),
            Kind::Data if before(header.seq, remnant.next) => Verdict::Drop(DropReason::Duplicate),
            Kind::Data => return Verdict::Drop(DropReason::OutOfWindow),
            Kind::Ack => {
                self.counters.acks_rx.add(1);
                if header.flags & flag::ACK_NOW == 0 {
                    return Verdict::Consumed;
                }
                // It asks for a sign of life.
                Verdict::Consumed
            }
            Kind::Accept => match msg::Accept::parse(packet) {
                Ok(accept) if accept.src_cid == remnant.remote_cid => Verdict::Consumed,
                Ok(_) => return Verdict::Drop(DropReason::BadState),
                Err(_) => return Verdict::Drop(DropReason::Malformed),
            },
            _ => return Verdict::Drop(DropReason::BadState),
        };
        remnant.give_up_at = remnant.give_up_at.max(now + remnant.stays);
        let answer = Header {
            kind: Kind::Ack,
            flags: flag::ECHO,
            dst_cid: remnant.remote_cid,
            seq: remnant.nxt,
            ack: remnant.next,
            stamp: stamp_of(now),
            echo: header.stamp,
            echo_delay: 0,
            credit: remnant.credit,
        };
        if self.answer_repeat(now, local, remote, answer) {
            self.counters.acks_tx.add(1);
        }
        verdict
    }

    /// RESET of a flow of which only this is left: there is nothing that it could end.
    pub(crate) fn reset_remnant(&mut self, at: u32, local: SocketAddr, remote: SocketAddr) -> Verdict {
        let is_theirs = |r: &&Remnant| (r.local, r.remote) == (local, remote);
        if self.remnants.get(at).filter(is_theirs).is_none() {
            return Verdict::Drop(DropReason::ForgedReset);
        }
        self.counters.resets_rx.add(1);
        self.forget_remnant(at);
        Verdict::Consumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However long one host makes its own last, others have places; and what is used again takes no more memory.
    #[test]
    fn a_host_has_as_many_as_it_leaves_to_others() {
        let mut remnants = Remnants::new(128);
        let had =
            |remnants: &mut Remnants, host| (0..2_000).filter_map(|_| remnants.take_place(host)).count();
        assert_eq!((remnants.max(), had(&mut remnants, 1)), (1024, 512));
        assert_eq!((had(&mut remnants, 2), had(&mut remnants, 3)), (256, 128));
        assert_eq!((remnants.used(), remnants.of_hosts()), (896, 896));
        let before = remnants.places.capacity();
        for at in 0..256 {
            remnants.hosts.remove(1);
            remnants.free.push(at);
        }
        assert_eq!(had(&mut remnants, 4), 192);
        assert_eq!((remnants.places.len(), remnants.places.capacity()), (896, before));
    }

    #[test]
    fn places_of_flows_and_of_what_is_left_are_told_apart() {
        for known in [Known::Flow(0), Known::Flow(1 << 20), Known::Remnant(0), Known::Remnant(REMNANTS_MAX)] {
            assert_eq!(Known::of(known.number()), known);
        }
    }
}
