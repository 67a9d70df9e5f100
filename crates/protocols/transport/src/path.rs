//! What flows tell the host of the path to their peers, and what the host tells flows: next hops that are proven good, next
//! hops from behind which nothing comes back, and datagrams of ours that nobody serves.

use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::event::ConnectFailure;
use crate::flow::{Flow, State};
use crate::memory::Memory;
use barewire_base::{DropReason, Duration, Instant};
use barewire_host::{Datagram, Host, Verdict};
use barewire_wire::msg::{Header, Init, Kind};

/// A proof that the path is good is passed on at most this often for one flow: the host remembers it for thirty times as long.
const PROOF_INTERVAL: Duration = Duration::from_secs(1);
/// How long an attempt to connect goes on after the peer's host said that nobody serves the port. Where a kernel has the
/// daemon's address, too, both answer, and the daemon's word counts.
const UNSERVED_GRACE: Duration = Duration::from_millis(500);

/// What the host is to be told of a flow's path before its next packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathSign {
    Nothing,
    /// A packet of ours arrived, at `proven_at`.
    Proven,
    /// Time-out after time-out.
    Silent,
}

impl Flow {
    /// The peer answered a packet of ours.
    #[inline]
    pub(crate) fn path_is_proven(&mut self, now: Instant) {
        self.repeats_since = Instant::FAR_FUTURE;
        if now.since(self.proven_at) >= PROOF_INTERVAL || self.path == PathSign::Silent {
            self.path = PathSign::Proven;
            self.proven_at = now;
        }
    }

    /// The peer repeats what it was answered: perhaps our answers do not arrive. Who only answers has no time-outs to tell him.
    #[cold]
    pub(crate) fn peer_repeats(&mut self, now: Instant, patience: Duration) {
        if self.repeats_since == Instant::FAR_FUTURE {
            self.repeats_since = now;
        } else if now.since(self.repeats_since) >= patience {
            self.path = PathSign::Silent;
        }
    }

    /// The peer asks for a sign of life. Again before it is time: it did not hear the last one.
    pub(crate) fn peer_asks(&mut self, now: Instant, config: &Config) {
        let since = now.since(self.asked_at);
        self.asked_at = now;
        // Questions for credit come closer to each other.
        if since >= config.keepalive_interval.div(2) && since < config.keepalive.div(2) {
            self.path = PathSign::Silent;
        }
    }
}

impl<M: Memory> Endpoint<M> {
    /// Passes on what the flow knows of its path: before it asks for a route, so that what is doubtful is not used again.
    #[inline]
    pub(crate) fn tell_host(&mut self, slot: u32, now: Instant, host: &mut Host) {
        let f = &mut self.flows[slot as usize];
        match f.path {
            PathSign::Nothing => return,
            PathSign::Proven => host.confirm(f.proven_at, f.remote.ip()),
            PathSign::Silent => {
                host.suspect(now, f.remote.ip());
                // The host may have forgotten this next hop, and found it again elsewhere since.
                if let Some(template) = &mut f.template {
                    template.expire();
                }
            }
        }
        f.path = PathSign::Nothing;
    }

    /// The host of a peer says that nobody takes datagrams where `quoted` went; `payload` is what it quotes of ours. It ends an
    /// attempt to connect, soon, if it quotes its INIT: nobody who did not see that packet knows its connection id and number.
    /// All else is dropped: a flow that is open has better witnesses.
    pub fn handle_port_unreachable(&mut self, now: Instant, quoted: &Datagram, payload: &[u8]) -> Verdict {
        match self.attempt_quoted(quoted, payload) {
            Ok(slot) => {
                let f = &mut self.flows[slot as usize];
                if f.refused.is_none() {
                    f.refused = Some(ConnectFailure::Refused);
                    f.give_up_at = f.give_up_at.min(now + UNSERVED_GRACE);
                    self.touch(slot, now);
                }
                Verdict::Consumed
            }
            Err(reason) => {
                self.counters.drops.count(reason);
                Verdict::Drop(reason)
            }
        }
    }

    fn attempt_quoted(&self, quoted: &Datagram, payload: &[u8]) -> Result<u32, DropReason> {
        let header = Header::parse(payload)?;
        if header.kind != Kind::Init {
            return Err(DropReason::BadState);
        }
        let init = Init::parse(payload)?;
        let slot = self.find(init.src_cid).ok_or(DropReason::UnknownFlow)?;
        let f = &self.flows[slot as usize];
        if f.state != State::Connecting {
            return Err(DropReason::BadState);
        }
        if f.local != quoted.src || f.remote != quoted.dst || f.first_seq != header.seq {
            return Err(DropReason::WrongPeer);
        }
        Ok(slot)
    }

    /// The host has resolved or lost next hops: flows that waited for one try again. Takes as many steps as flows have begun
    /// to wait since the last call, however many there are.
    pub fn routes_changed(&mut self, now: Instant) {
        for _ in 0..self.unrouted.len() {
            let Some(slot) = self.unrouted.pop_front() else {
                return;
            };
            let f = &mut self.flows[slot as usize];
            f.unrouted = false;
            // Others have asked again by themselves meanwhile, or are gone.
            if f.state != State::Free && f.route_retry_at != Instant::FAR_FUTURE {
                f.route_retry_at = Instant::FAR_FUTURE;
                self.touch(slot, now);
            }
        }
    }

    /// The flow waits for its next hop until `until`.
    pub(crate) fn wait_for_route(&mut self, slot: u32, until: Instant) {
        let f = &mut self.flows[slot as usize];
        f.route_retry_at = until;
        if !std::mem::replace(&mut f.unrouted, true) {
            self.unrouted.push_back(slot);
        }
    }
}
