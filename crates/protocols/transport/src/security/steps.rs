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
use super::{Cipher, PeerKey, Refusal};
use crate::endpoint::Endpoint;
use crate::event::{CloseReason, ConnectFailure};
use crate::flow::{FlowId, State};
use crate::handshake::MSS_MIN;
use crate::memory::Memory;
use crate::peers;
use barewire_base::{DropReason, Duration, Instant};
use barewire_host::{Datagram, Verdict};
use barewire_wire::msg::secure::{self, PATTERN_IK, PATTERN_XX, Terms};
use barewire_wire::msg::{self, Header, Kind, TAG_LEN, option};
use std::collections::HashMap;
use std::net::SocketAddr;

/// How long an attempt goes on after somebody said, without proof, that it is in vain.
pub(crate) const HINT_GRACE: Duration = Duration::from_millis(500);
/// Answers that a client computes for one attempt in a second: whoever sees the wire may make up as many as he likes.
const ANSWERS_PER_SECOND: u32 = 32;
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

/// Handshakes that are computed: a bucket that fills at the rate which the configuration allows and holds one second's worth. Whoever
/// asks often finds it closed long before it is empty, so that nobody who proved one address keeps others out.
pub(crate) struct Handshakes {
    /// Billionths of a handshake.
    filled: u64,
    at: Instant,
    second: u64,
    /// What hosts had in this second.
    hosts: HashMap<u64, u32>,
}

/// Hosts that are told apart in a second; more share one count.
const HOSTS_MAX: usize = 1024;
const ONE: u64 = 1_000_000_000;

impl Handshakes {
    pub(crate) fn new() -> Handshakes {
        Handshakes {
            filled: u64::MAX,
            at: Instant::ZERO,
            second: 0,
            hosts: HashMap::with_capacity(HOSTS_MAX * 2),
        }
    }

    /// Whether one more is computed for `host`, of `rate` in a second. Expected hosts may empty the bucket, each up to an eighth of the
    /// rate; what they want beyond that, and strangers, leave half of it, and strangers beyond their eighth three quarters.
    pub(crate) fn admit(&mut self, now: Instant, rate: u32, host: u64, expected: bool) -> bool {
        let size = u64::from(rate) * ONE;
        let grown = now.since(self.at).as_nanos().saturating_mul(u64::from(rate));
        self.filled = self.filled.saturating_add(grown).min(size);
        self.at = now;
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            self.second = second;
            self.hosts.clear();
        }
        let host = if self.hosts.len() < HOSTS_MAX || self.hosts.contains_key(&host) { host } else { 0 };
        let had = self.hosts.entry(host).or_insert(0);
        let modest = *had < (rate / 8).max(1);
        let left = match (expected, modest) {
            (true, true) => 0,
            (true, false) | (false, true) => size / 2,
            (false, false) => size / 4 * 3,
        };
        let admitted = self.filled >= (left + ONE).min(size);
        if admitted {
            self.filled -= ONE;
            *had += 1;
        }
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

    /// `proven`: the address is. Anybody can make the other ones up, so these have their own ration, and half of the room.
    fn tell_refusal(&mut self, now: Instant, refusal: Refusal, proven: bool) {
        let (ration, room) = match proven {
            true => (&mut self.refusal_ration, REFUSALS_MAX),
            false => (&mut self.hearsay_ration, REFUSALS_MAX / 2),
        };
        if self.refusals.len() < room && ration.admit(now, REFUSALS_PER_SECOND) {
            self.refusals.push_back(refusal);
        }
    }

    /// Whether one more handshake is computed for who is at `remote`.
    fn admit_handshake(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> bool {
        let Some(security) = &self.config.security else { return false };
        let expected = security.expects(local.ip(), remote.ip());
        let rate = security.handshakes_per_second;
        self.handshakes.admit(now, rate, peers::key(remote.ip()), expected)
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
    pub(crate) fn way_to(&self, local: SocketAddr, remote: SocketAddr) -> PeerKey {
        self.config().security.as_ref().map_or(PeerKey::Plain, |s| s.way_to(local.ip(), remote.ip()))
    }

    /// Client: the flow is to be encrypted.
    pub(crate) fn begin_secure(&mut self, slot: u32, way: PeerKey) {
        let Some(security) = self.config().security.clone() else { return };
        let credit = self.config().credit_window();
        let pieces = if self.config().mtu_discovery { option::PIECES } else { 0 };
        let f = &mut self.flows[slot as usize];
        f.shield = Shield::Pending;
        f.mss -= TAG_LEN as u16;
        let said = Said {
            pattern: if matches!(way, PeerKey::Known(_)) { PATTERN_IK } else { PATTERN_XX },
            ciphers: security.offers(),
            rekey: security.rekey,
            udp_port: f.remote.port(),
            src_cid: f.local_cid,
            mss: f.mss,
            options: option::SECURE | if f.ordered { 0 } else { option::UNORDERED } | pieces,
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
            PeerKey::Known(n) => Some(security.key_of(n)),
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
        self.tell_refusal(now, Refusal { remote, reason, key: None }, false);
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

    /// Server: whether a client of which nothing but the address is proven has to wait until others have said who they are.
    pub(crate) fn has_too_many_pending(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        let expected = self.config.security.as_ref().is_some_and(|s| s.expects(local.ip(), remote.ip()));
        // Strangers get an eighth of the table, and whoever is expected half.
        self.pending >= (self.config.flows_max / if expected { 2 } else { 8 }).max(1)
    }

    /// Server: whether this INIT, with a good cookie, is another than the one that opened `slot`, whose client has not proven its key.
    /// Somebody who sees the wire may have been quicker than the true client: the latest is served.
    pub(crate) fn supersedes(&mut self, slot: u32, said: &Said, message: &[u8]) -> bool {
        let f = &self.flows[slot as usize];
        let is_pending = f.state == State::Accepting && f.shield == Shield::Pending;
        is_pending && {
            let guard = self.guard(slot);
            guard.said != Some(*said) || guard.noise.as_ref().is_some_and(|n| n.first_read() != Some(message))
        }
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
        let refusal = |reason, key| Refusal { remote, reason, key };
        if !self.admit_handshake(now, local, remote) {
            self.tell_refusal(now, refusal(DropReason::RateLimited, None), true);
            return Err(DropReason::RateLimited);
        }
        let ephemeral = self.draw.next();
        let noise = Noise::new(&security, said, ephemeral, false, None);
        let Some(mut noise) = noise else { return Err(DropReason::Malformed) };
        if noise.read(&security, message).is_none() {
            // Made for another key of ours than we have, or altered: the same to us.
            self.reject(now, local, remote, said.src_cid, ConnectFailure::WrongKey);
            self.tell_refusal(now, refusal(DropReason::WrongKey, None), true);
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
                self.tell_refusal(now, refusal(DropReason::NotTrusted, key), true);
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
            options: option::SECURE | f.answer_options(),
            seq: f.first_seq,
            credit,
            cipher: cipher.code(),
            rekey: security.rekey,
        };
        let Some(message) = noise.write(&terms.to_bytes()) else { return false };
        // Pattern IK is done with this message.
        let split = noise.split(cipher, security.rekey, said.rekey);
        f.shield = if split.is_some() { Shield::Sealed } else { Shield::Pending };
        self.pending += u32::from(split.is_none());
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
        let payload = match guard.answers.admit(now, ANSWERS_PER_SECOND) {
            true => noise.read(&security, message),
            false => None,
        };
        let Some(payload) = payload else {
            return Verdict::Drop(DropReason::Altered);
        };
        // From here on it is the server that speaks, or, with pattern XX, somebody with a key.
        let (local, remote) = (self.flows[slot as usize].local, self.flows[slot as usize].remote);
        let key = self.guard(slot).noise.as_ref().and_then(Noise::peer);
        let peer = match way {
            PeerKey::Known(n) => Some(n),
            _ => key.and_then(|key| security.admits(&key, local.ip(), remote.ip())),
        };
        let Some(peer) = peer else {
            // Whoever was quicker than the server: the true answer may be on its way.
            if let Some(noise) = &mut self.guard(slot).noise {
                noise.unread(&security);
            }
            self.tell_refusal(now, Refusal { remote, reason: DropReason::NotTrusted, key }, true);
            self.hint(now, slot, ConnectFailure::PeerNotTrusted);
            return Verdict::Drop(DropReason::NotTrusted);
        };
        let f = &self.flows[slot as usize];
        let terms = Terms::parse(&payload).ok().filter(|t| {
            // A server that knows no pieces says nothing of them.
            (t.options == said.options || t.options == said.options & !option::PIECES)
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
        let pieces = terms.options & option::PIECES != 0;
        let shield = if message.is_empty() { Shield::Sealed } else { Shield::Unconfirmed };
        (guard.message, guard.peer, guard.confirm_at) = (message, Some(peer), Instant::ZERO);
        let f = &mut self.flows[slot as usize];
        (f.shield, f.pieces) = (shield, pieces);
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
        if !self.admit_handshake(now, local, remote) {
            return Verdict::Drop(DropReason::RateLimited);
        }
        let guard = self.guard(slot);
        let (Some(noise), Some(said)) = (guard.noise.as_mut(), guard.said) else {
            return Verdict::Drop(DropReason::BadState);
        };
        if noise.read(&security, message).is_none() {
            // The true one is repeated until it is answered.
            return Verdict::Drop(DropReason::Altered);
        }
        let key = noise.peer();
        let split = security
            .choose(said.ciphers)
            .and_then(|c| Some((noise.split(c, security.rekey, said.rekey)?, c)));
        let Some((split, cipher)) = split else { return Verdict::Drop(DropReason::BadState) };
        guard.arm(split, cipher);
        self.flows[slot as usize].shield = Shield::Sealed;
        self.pending -= 1;
        let Some(peer) = key.and_then(|key| security.admits(&key, local.ip(), remote.ip())) else {
            self.tell_refusal(now, Refusal { remote, reason: DropReason::NotTrusted, key }, true);
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
    pub(crate) fn receive_sealed(
        &mut self,
        now: Instant,
        datagram: &Datagram,
        mut header: Header,
        packet: &mut [u8],
    ) -> Verdict {
        self.counters.packets_rx.add(1);
        let Some(slot) = self.find(header.dst_cid) else {
            if self.remnants.find(header.dst_cid).is_some() {
                // Of a flow in the clear.
                return Verdict::Drop(DropReason::NoKey);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// One host that asks all the time gets what others leave, and leaves what others ask.
    #[test]
    fn nobody_takes_all_handshakes() {
        let (mut hands, rate) = (Handshakes::new(), 1000);
        let mut now = Instant::from_nanos(7_000_000_000);
        let (mut greedy, mut stranger, mut modest, mut refused) = (0, 0, 0, 0);
        for ms in 0..10_000u64 {
            now += Duration::from_millis(1);
            greedy += (0..20).filter(|_| hands.admit(now, rate, 1, true)).count();
            stranger += (0..20).filter(|i| hands.admit(now, rate, 1_000 + i, false)).count();
            if ms % 20 == 0 {
                let admitted = hands.admit(now, rate, 2 + ms / 20 % 3, true);
                modest += usize::from(admitted);
                refused += usize::from(!admitted);
            }
        }
        assert_eq!((modest, refused), (500, 0));
        let all = greedy + stranger + modest;
        assert!((10_000..=11_000).contains(&all), "{all}: the rate, and one second's worth at first");
        // Alone, a host gets all of it.
        let mut hands = Handshakes::new();
        let alone = (0..10_000).filter(|_| {
            now += Duration::from_millis(1);
            hands.admit(now, rate, 1, true)
        });
        assert!(alone.count() >= 9_999);
    }

    #[test]
    fn the_least_rate_still_admits_everybody_in_turn() {
        for expected in [true, false] {
            let (mut hands, mut now) = (Handshakes::new(), Instant::from_nanos(1));
            let mut admitted = 0;
            for _ in 0..50 {
                now += Duration::from_millis(100);
                admitted += usize::from(hands.admit(now, 1, 5, expected));
            }
            assert!((4..=6).contains(&admitted), "{admitted}");
        }
    }
}
