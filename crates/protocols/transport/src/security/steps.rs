//! What the endpoint does at each packet of an encrypted flow's handshake, and at each sealed packet.
//!
//! ```text
//! client                                  server
//! INIT (asks for a cookie)        ->
//!                                 <-      RETRY (cookie; nothing is kept or computed)
//! INIT (cookie, first message)    ->      checks the key (IK), keeps a half-open flow
//!                                 <-      ACCEPT (second message, Terms)
//! CONFIRM (third message, XX only) ->     checks the key (XX)
//! sealed packets                 <->
//! ```
//!
//! What is repeated is repeated to the letter, so that no nonce of the handshake serves twice. What nobody has authenticated (a
//! refusal, a plain ACCEPT, any stamp) is a hint at most: it ends an attempt a while later, unless the true answer comes.

use super::guard::{Guard, Shield};
use super::noise::{CIPHERS, Noise, Said, is_rekey};
use super::packet::FORGERIES_MAX;
use super::{Cipher, PublicKey, Refusal, Way};
use crate::endpoint::Endpoint;
use crate::event::{CloseReason, ConnectFailure};
use crate::flow::{FlowId, State};
use crate::handshake::MSS_MIN;
use crate::memory::Memory;
use barewire_base::{DropReason, Duration, Instant};
use barewire_host::{Datagram, Verdict};
use barewire_wire::msg::secure::{self, PATTERN_IK, PATTERN_XX, Terms};
use barewire_wire::msg::{self, Header, Kind, TAG_LEN, option};
use std::net::SocketAddr;

/// How long an attempt goes on after somebody said, without proof, that it is in vain.
pub(crate) const HINT_GRACE: Duration = Duration::from_millis(500);
/// Handshake messages that may fail before a client computes no more for an attempt, and a server gives up a half-open flow.
const FAILURES_CLIENT: u8 = 32;
const FAILURES_SERVER: u8 = 8;
/// Refusals that are told in a second, and that wait to be read.
const REFUSALS_PER_SECOND: u32 = 10;
const REFUSALS_MAX: usize = 32;

/// Something that is rationed by the second.
#[derive(Default)]
pub(crate) struct Ration {
    second: u64,
    spent: u32,
}

impl Ration {
    /// Whether one more fits below `max` in this second; counts it.
    pub(crate) fn admit(&mut self, now: Instant, max: u32) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            (self.second, self.spent) = (second, 0);
        }
        let admitted = self.spent < max;
        self.spent += u32::from(admitted);
        admitted
    }
}

impl<M: Memory> Endpoint<M> {
    /// The peer of a flow, as it has proven; `None`: the flow is not encrypted, its handshake is not done, or there is none.
    pub fn peer_of(&self, flow: FlowId) -> Option<&super::Peer> {
        let slot = self.slot_for(flow)?;
        let peer = self.guards.get(slot as usize)?.as_ref()?.peer?;
        self.config().security.as_ref().map(|s| s.peer(peer))
    }

    /// The next refusal that somebody may want to read.
    pub fn poll_refusal(&mut self) -> Option<Refusal> {
        self.refusals.pop_front()
    }

    fn tell_refusal(&mut self, now: Instant, remote: SocketAddr, reason: DropReason, key: Option<PublicKey>) {
        if self.refusals.len() < REFUSALS_MAX && self.refusal_ration.admit(now, REFUSALS_PER_SECOND) {
            self.refusals.push_back(Refusal { remote, reason, key });
        }
    }

    /// The guard of a slot, made when it is first needed.
    pub(crate) fn guard(&mut self, slot: u32) -> &mut Guard {
        self.guards[slot as usize].get_or_insert_with(|| Box::new(Guard::new()))
    }

    /// Nothing of the flow's secrets is left in its slot.
    pub(crate) fn forget_keys(&mut self, slot: u32) {
        if let Some(Some(guard)) = self.guards.get_mut(slot as usize) {
            guard.wipe();
        }
        self.flows[slot as usize].shield = Shield::Plain;
    }

    /// How a flow between these two is to be made.
    pub(crate) fn way_to(&self, local: SocketAddr, remote: SocketAddr) -> Way {
        self.config().security.as_ref().map_or(Way::Plain, |s| s.way_to(local.ip(), remote.ip()))
    }

    /// Client: the flow is to be encrypted.
    pub(crate) fn begin_secure(&mut self, slot: u32, way: Way) {
        let Some(security) = self.config().security.clone() else { return };
        let credit = self.config().credit_window();
        let f = &mut self.flows[slot as usize];
        f.shield = Shield::Pending;
        f.mss -= TAG_LEN as u16;
        let said = Said {
            pattern: if matches!(way, Way::Known(_)) { PATTERN_IK } else { PATTERN_XX },
            ciphers: security.offers(),
            rekey: security.rekey,
            udp_port: f.remote.port(),
            src_cid: f.local_cid,
            mss: f.mss,
            options: option::SECURE | if f.ordered { 0 } else { option::UNORDERED },
            seq: f.first_seq,
            credit,
        };
        let guard = self.guard(slot);
        (guard.said, guard.way) = (Some(said), way);
    }

    /// Client: there is a cookie, so the first message may be computed. False: it cannot be.
    pub(crate) fn begin_noise(&mut self, slot: u32) -> bool {
        let Some(security) = self.config().security.clone() else { return false };
        if self.guard(slot).noise.is_some() {
            return true;
        }
        let ephemeral = self.draw.next();
        let guard = self.guard(slot);
        let Some(said) = guard.said else { return false };
        let peer = match guard.way {
            Way::Known(n) => Some(security.key_of(n)),
            _ => None,
        };
        let made = Noise::new(&security, &said, ephemeral, true, peer)
            .and_then(|mut noise| Some((noise.write(&[])?, noise)));
        let Some((message, noise)) = made else { return false };
        (guard.message, guard.noise) = (message, Some(noise));
        true
    }

    /// Server: whether policy refuses this INIT.
    pub(crate) fn refuse_by_policy(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        init: &msg::Init,
    ) -> Option<Verdict> {
        let secure = init.options & option::SECURE != 0;
        let (why, reason) = match &self.config().security {
            None if secure => (ConnectFailure::Insecure, DropReason::NoKey),
            Some(s) if !secure && s.refuses_plain(local.ip(), remote.ip()) => {
                (ConnectFailure::SecurityRequired, DropReason::Downgrade)
            }
            _ => return None,
        };
        self.reject(now, local, remote, init.src_cid, why);
        self.tell_refusal(now, remote, reason, None);
        Some(Verdict::Drop(reason))
    }

    /// Server: what a secure INIT says, without anything computed.
    pub(crate) fn said_in<'a>(
        &self,
        local: SocketAddr,
        init: &msg::Init,
        header: &Header,
        packet: &'a [u8],
    ) -> Result<(Said, &'a [u8]), DropReason> {
        let more = secure::Init::parse(packet)?;
        if more.udp_port != local.port() {
            return Err(DropReason::Altered);
        }
        let knows_one =
            more.ciphers & CIPHERS & self.config().security.as_ref().map_or(0, |s| s.offers()) != 0;
        if !knows_one || !is_rekey(more.rekey) {
            return Err(DropReason::Malformed);
        }
        let said = Said {
            pattern: more.pattern,
            ciphers: more.ciphers,
            rekey: more.rekey,
            udp_port: more.udp_port,
            src_cid: init.src_cid,
            mss: init.mss,
            options: init.options,
            seq: header.seq,
            credit: header.credit,
        };
        Ok((said, more.message))
    }

    /// Server: the client's address is proven, there is room for its flow. Takes in its first message.
    pub(crate) fn shake_hands(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        said: &Said,
        message: &[u8],
    ) -> Result<(Noise, Option<super::PeerNumber>), DropReason> {
        let Some(security) = self.config().security.clone() else { return Err(DropReason::NoKey) };
        let (expected, budget) = (security.expects(local.ip(), remote.ip()), security.handshakes_per_second);
        // Strangers leave half to peers that are known to be there.
        let admitted = if expected {
            self.handshake_ration.admit(now, budget)
        } else {
            self.stranger_ration.admit(now, (budget / 2).max(1)) && self.handshake_ration.admit(now, budget)
        };
        if !admitted {
            self.tell_refusal(now, remote, DropReason::RateLimited, None);
            return Err(DropReason::RateLimited);
        }
        let ephemeral = self.draw.next();
        let noise = Noise::new(&security, said, ephemeral, false, None);
        let Some(mut noise) = noise else { return Err(DropReason::Malformed) };
        if noise.read(message).is_none() {
            // Made for another key of ours than we have, or altered: the same to us.
            self.reject(now, local, remote, said.src_cid, ConnectFailure::WrongKey);
            self.tell_refusal(now, remote, DropReason::WrongKey, None);
            return Err(DropReason::WrongKey);
        }
        if said.pattern == PATTERN_XX {
            return Ok((noise, None));
        }
        let key = noise.peer();
        match key.and_then(|key| security.admits(&key, local.ip(), remote.ip())) {
            Some(peer) => Ok((noise, Some(peer))),
            None => {
                self.reject(now, local, remote, said.src_cid, ConnectFailure::NotTrusted);
                self.tell_refusal(now, remote, DropReason::NotTrusted, key);
                Err(DropReason::NotTrusted)
            }
        }
    }

    /// Server: makes the answer, once; it is repeated as it is. False: it cannot be made.
    pub(crate) fn answer_secure(
        &mut self,
        slot: u32,
        said: Said,
        mut noise: Noise,
        peer: Option<super::PeerNumber>,
    ) -> bool {
        let Some(security) = self.config().security.clone() else { return false };
        let Some(cipher) = security.choose(said.ciphers) else { return false };
        let credit = self.config().credit_window();
        let f = &mut self.flows[slot as usize];
        let terms = Terms {
            src_cid: f.local_cid,
            mss: f.mss,
            options: option::SECURE | if f.ordered { 0 } else { option::UNORDERED },
            seq: f.first_seq,
            credit,
            cipher: cipher.code(),
            rekey: security.rekey,
        };
        let Some(message) = noise.write(&terms.to_bytes()) else { return false };
        // Pattern IK is done with this message.
        let split = noise.split(cipher, security.rekey, said.rekey);
        f.shield = if split.is_some() { Shield::Sealed } else { Shield::Pending };
        let guard = self.guard(slot);
        (guard.message, guard.said, guard.peer) = (message, Some(said), peer);
        match split {
            Some(split) => guard.arm(split, cipher),
            None => guard.noise = Some(noise),
        }
        true
    }

    /// Somebody who has proven nothing says that this attempt is in vain.
    pub(crate) fn hint(&mut self, now: Instant, slot: u32, why: ConnectFailure) {
        let f = &mut self.flows[slot as usize];
        if f.refused.is_none() {
            f.refused = Some(why);
            f.give_up_at = f.give_up_at.min(now + HINT_GRACE);
            self.touch(slot, now);
        }
    }

    /// Client: ACCEPT on a flow that is to be encrypted.
    pub(crate) fn on_secure_accept(
        &mut self,
        now: Instant,
        slot: u32,
        accept: &msg::Accept,
        packet: &[u8],
    ) -> Verdict {
        if accept.options & option::SECURE == 0 {
            self.hint(now, slot, ConnectFailure::Insecure);
            return Verdict::Drop(DropReason::Downgrade);
        }
        let Some(security) = self.config().security.clone() else { return Verdict::Drop(DropReason::NoKey) };
        let message = match secure::parse_accept(packet) {
            Ok(message) => message,
            Err(_) => return Verdict::Drop(DropReason::Malformed),
        };
        let guard = self.guard(slot);
        let (way, said) = (guard.way, guard.said);
        let (Some(noise), Some(said)) = (guard.noise.as_mut(), said) else {
            return Verdict::Drop(DropReason::BadState);
        };
        let payload = if guard.failures < FAILURES_CLIENT { noise.read(message) } else { None };
        let Some(payload) = payload else {
            guard.failures = guard.failures.saturating_add(1);
            return Verdict::Drop(DropReason::Altered);
        };
        // From here on it is the server that speaks, or, with pattern XX, somebody with a key.
        let (local, remote) = (self.flows[slot as usize].local, self.flows[slot as usize].remote);
        let key = self.guard(slot).noise.as_ref().and_then(Noise::peer);
        let peer = match way {
            Way::Known(n) => Some(n),
            _ => key.and_then(|key| security.admits(&key, local.ip(), remote.ip())),
        };
        let Some(peer) = peer else {
            self.tell_refusal(now, remote, DropReason::NotTrusted, key);
            self.fail_connect(slot, now, ConnectFailure::PeerNotTrusted);
            return Verdict::Drop(DropReason::NotTrusted);
        };
        let f = &self.flows[slot as usize];
        let terms = Terms::parse(&payload).ok().filter(|t| {
            let same_options = t.options == said.options;
            same_options
                && (MSS_MIN..=f.mss).contains(&t.mss)
                && is_rekey(t.rekey)
                && t.cipher & said.ciphers != 0
        });
        let cipher = terms.and_then(|t| Cipher::from_code(t.cipher));
        let guard = self.guard(slot);
        let done = guard.noise.as_mut().zip(terms).zip(cipher).and_then(|((noise, terms), cipher)| {
            // Pattern XX: who we are, last.
            let message = if said.pattern == PATTERN_XX { noise.write(&[])? } else { Vec::new() };
            Some((message, noise.split(cipher, said.rekey, terms.rekey)?, terms, cipher))
        });
        let Some((message, split, terms, cipher)) = done else {
            self.fail_connect(slot, now, ConnectFailure::Refused);
            return Verdict::Drop(DropReason::Malformed);
        };
        guard.arm(split, cipher);
        let shield = if message.is_empty() { Shield::Sealed } else { Shield::Unconfirmed };
        (guard.message, guard.peer, guard.confirm_at) = (message, Some(peer), Instant::ZERO);
        self.flows[slot as usize].shield = shield;
        self.counters.flows_encrypted.add(1);
        self.finish_connect(now, slot, terms.src_cid, terms.mss, terms.seq, terms.credit);
        Verdict::Consumed
    }

    /// Server: CONFIRM, the third message of pattern XX.
    pub(crate) fn on_confirm(&mut self, now: Instant, slot: u32, packet: &[u8]) -> Verdict {
        let f = &mut self.flows[slot as usize];
        if f.shield == Shield::Sealed && f.is_accepted && f.state != State::Lingering {
            // It has not heard from us yet, or this is a copy.
            f.rx.ack_now = true;
            self.touch(slot, now);
            return Verdict::Consumed;
        }
        if f.state != State::Accepting || f.shield != Shield::Pending {
            return Verdict::Drop(DropReason::BadState);
        }
        let Some(security) = self.config().security.clone() else { return Verdict::Drop(DropReason::NoKey) };
        let Ok(message) = secure::parse_confirm(packet) else {
            return Verdict::Drop(DropReason::Malformed);
        };
        let f = &self.flows[slot as usize];
        let (local, remote) = (f.local, f.remote);
        let guard = self.guard(slot);
        let (Some(noise), Some(said)) = (guard.noise.as_mut(), guard.said) else {
            return Verdict::Drop(DropReason::BadState);
        };
        if noise.read(message).is_none() {
            guard.failures += 1;
            if guard.failures >= FAILURES_SERVER {
                self.tell_refusal(now, remote, DropReason::Altered, None);
                self.end(slot, now, CloseReason::TimedOut);
            }
            return Verdict::Drop(DropReason::Altered);
        }
        let key = noise.peer();
        let split = security
            .choose(said.ciphers)
            .and_then(|c| Some((noise.split(c, security.rekey, said.rekey)?, c)));
        let Some((split, cipher)) = split else { return Verdict::Drop(DropReason::BadState) };
        guard.arm(split, cipher);
        self.flows[slot as usize].shield = Shield::Sealed;
        let Some(peer) = key.and_then(|key| security.admits(&key, local.ip(), remote.ip())) else {
            self.tell_refusal(now, remote, DropReason::NotTrusted, key);
            self.queue_reset(slot, CloseReason::NotTrusted);
            self.end(slot, now, CloseReason::TimedOut);
            return Verdict::Drop(DropReason::NotTrusted);
        };
        self.guard(slot).peer = Some(peer);
        self.confirm(now, slot);
        let f = &mut self.flows[slot as usize];
        f.heard_at = now;
        f.rx.ack_now = true;
        self.touch(slot, now);
        Verdict::Consumed
    }

    /// A sealed packet.
    pub(crate) fn take_in_sealed(
        &mut self,
        now: Instant,
        datagram: &Datagram,
        mut header: Header,
        packet: &mut [u8],
    ) -> Verdict {
        self.counters.packets_rx.add(1);
        let Some(slot) = self.find(header.dst_cid) else {
            if header.dst_cid != 0 && header.kind != Kind::SealedReset {
                self.answer_unknown(now, datagram.dst, datagram.src, header.dst_cid);
            }
            return Verdict::Drop(DropReason::UnknownFlow);
        };
        let f = &mut self.flows[slot as usize];
        if f.remote != datagram.src || f.local != datagram.dst {
            return Verdict::Drop(DropReason::WrongPeer);
        }
        if matches!(f.shield, Shield::Plain | Shield::Pending) {
            return Verdict::Drop(DropReason::NoKey);
        }
        let Some(Some(guard)) = self.guards.get_mut(slot as usize) else {
            return Verdict::Drop(DropReason::NoKey);
        };
        let (len, kind) = match (guard.rx.open(packet), header.kind.opened()) {
            (Ok(len), Some(kind)) => (len, kind),
            (Ok(_), None) => return Verdict::Drop(DropReason::BadState),
            (Err(reason), _) => {
                if guard.rx.forged >= FORGERIES_MAX {
                    self.queue_reset(slot, CloseReason::Forged);
                    self.end(slot, now, CloseReason::Forged);
                }
                return Verdict::Drop(reason);
            }
        };
        header.kind = kind;
        let silent = now.since(f.heard_at);
        f.heard_at = now;
        f.keepalives = 0;
        if !guard.heard {
            guard.heard = true;
            // Stamps of the handshake are nobody's word.
            f.rx.heard_stamp = header.stamp.wrapping_sub(1);
            if f.shield == Shield::Unconfirmed {
                f.shield = Shield::Sealed;
                guard.message.clear();
            }
        }
        let verdict = match kind {
            Kind::Reset => self.on_sealed_reset(now, slot, &packet[..len]),
            _ => self.on_flow_packet(now, slot, &header, &packet[..len], datagram.ecn, silent),
        };
        match verdict {
            // What is malformed may be quoted to its sender by the host, and this is in the clear by now.
            Verdict::Drop(DropReason::Malformed | DropReason::Truncated) => {
                Verdict::Drop(DropReason::BadState)
            }
            other => other,
        }
    }
}
