//! Opening flows, refusing to, and telling strangers that a flow is gone.

use crate::config::{Config, OWN_SHARE};
use crate::endpoint::Endpoint;
use crate::event::{CloseReason, ConnectFailure, Event};
use crate::flow::{Flow, State};
use crate::memory::Memory;
use crate::mtu::PathMtu;
use crate::peers;
use crate::receiver::Receiver;
use crate::remnants::Known;
use crate::security::guard::Shield;
use crate::sender::stamp_of;
use barewire_base::{DropReason, Duration, Instant};
use barewire_host::{Template, Verdict};
use barewire_wire::msg::{self, Header, Kind, flag, option};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Packets without a flow that wait to be sent.
const STRAYS_MAX: usize = 256;
/// Such packets of a kind in a second, at most: they answer what anybody may send.
const STRAYS_PER_SECOND: u32 = 10_000;
/// Smallest segment that a peer may ask for: with less, a message would cost more headers than bytes.
pub(crate) const MSS_MIN: u16 = 64;

/// Bytes of the longest one: a sealed reset.
const STRAY_LEN: usize = msg::RESET_LEN + msg::TAG_LEN;

/// A packet that belongs to no flow of ours: RETRY, REJECT, RESET.
pub(crate) struct Stray {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub bytes: [u8; STRAY_LEN],
    pub len: usize,
    /// The headers of the flow that it ends, for when the host has no better.
    pub template: Option<Template>,
}

/// Why a packet without a flow is sent. Each kind has its own share of a second, so that none crowds out another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// To anybody: no.
    Refusal,
    /// To anybody: a cookie.
    Cookie,
    /// A cookie to an address at which a trusted peer is expected.
    CookieExpected,
    /// To the peer of a flow that both ends have closed: all of it came.
    Repeat,
}

impl Answer {
    /// How many may leave in a second, and how many packets may wait to leave when one more is added.
    fn limits(self) -> (u32, usize) {
        match self {
            Answer::Refusal => (STRAYS_PER_SECOND / 2, STRAYS_MAX / 2),
            Answer::Repeat => (STRAYS_PER_SECOND, STRAYS_MAX / 2),
            Answer::Cookie => (STRAYS_PER_SECOND, STRAYS_MAX / 4 * 3),
            Answer::CookieExpected => (STRAYS_PER_SECOND, STRAYS_MAX),
        }
    }
}

/// Those of one leg: what strangers ask of it uses up no answers of another.
pub(crate) struct Strays {
    queue: VecDeque<Stray>,
    second: u64,
    this_second: [u32; 4],
}

impl Strays {
    pub(crate) fn new() -> Strays {
        Strays { queue: VecDeque::with_capacity(STRAYS_MAX), second: 0, this_second: [0; 4] }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Stray> {
        self.queue.pop_front()
    }

    /// Whether one more may be answered; counts it.
    fn admit(&mut self, now: Instant, answer: Answer) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            self.second = second;
            self.this_second = [0; 4];
        }
        let waiting = self.queue.len();
        let ((most, waiting_max), had) = (answer.limits(), &mut self.this_second[answer as usize]);
        let admitted = *had < most && waiting < waiting_max;
        *had += u32::from(admitted);
        admitted
    }

    fn push(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        header: Header,
        len: usize,
        body: impl FnOnce(&mut [u8]),
    ) {
        let mut bytes = [0; STRAY_LEN];
        header.emit(&mut bytes);
        body(&mut bytes);
        let crc = crate::crc::of(&bytes[4..len]);
        msg::set_crc(&mut bytes, crc);
        self.queue.push_back(Stray { local, remote, bytes, len, template: None });
    }

    /// As [`push`](Self::push), for the reset of an encrypted flow; `body` seals it, too.
    fn push_sealed(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        header: Header,
        body: impl FnOnce(&mut [u8]),
    ) {
        let mut bytes = [0; STRAY_LEN];
        header.emit(&mut bytes);
        body(&mut bytes);
        self.queue.push_back(Stray { local, remote, bytes, len: STRAY_LEN, template: None });
    }
}

fn bare(kind: Kind, dst_cid: u64) -> Header {
    Header { kind, flags: 0, dst_cid, seq: 0, ack: 0, stamp: 0, echo: 0, echo_delay: 0, credit: 0 }
}

/// The round trip that a header's echo tells of, and how long the peer held it.
pub(crate) fn echoed_rtt(now: Instant, header: &Header) -> Option<Duration> {
    if header.flags & flag::ECHO == 0 {
        return None;
    }
    let elapsed = stamp_of(now).wrapping_sub(header.echo);
    let rtt = elapsed.checked_sub(header.echo_delay)?;
    // A quarter of the stamp's circle: beyond it the echo is older than any flow's patience.
    (rtt < 1 << 30).then(|| Duration::from_nanos(u64::from(rtt.max(1)) * msg::STAMP_UNIT_NS))
}

impl<M: Memory> Endpoint<M> {
    /// INIT: a client wants a flow.
    pub(crate) fn on_init(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: SocketAddr,
        header: &Header,
        packet: &[u8],
    ) -> Verdict {
        let init = match msg::Init::parse(packet) {
            Ok(init) if header.dst_cid == 0 && init.mss >= MSS_MIN => init,
            _ => return Verdict::Drop(DropReason::Malformed),
        };
        let is_secure = init.options & option::SECURE != 0;
        let (known, remnant) = match self.known(remote, init.src_cid) {
            None => (None, None),
            Some(Known::Flow(slot)) => (Some(slot), None),
            Some(Known::Remnant(at)) => (None, Some(at)),
        };
        // A late copy; but a client that asks for encryption never asked in the clear: see `is_forgery`.
        let is_forged =
            is_secure && remnant.and_then(|at| self.remnants.get(at)).is_some_and(|r| r.is_accepted);
        if remnant.is_some() && !is_forged {
            return Verdict::Consumed;
        }
        if let Some(slot) = known
            && !(is_secure && self.is_forgery(slot))
            && !self.is_superseded(now, slot, remote, local, header, &init, packet)
        {
            self.accept_again(now, slot, header);
            return Verdict::Consumed;
        }
        let Some(listener) = self.listeners.at(local) else {
            self.reject(now, local, remote, init.src_cid, ConnectFailure::Refused);
            return Verdict::Drop(DropReason::NoListener);
        };
        let (owner, token) = (listener.owner, listener.token);
        let leg = self.legs.of(local.ip());
        if let Some(refusal) = self.refuse_by_policy(now, local, remote, &init) {
            return refusal;
        }
        let said = match is_secure {
            false => None,
            true => match self.said_in(local, &init, header, packet) {
                Ok(said) => Some(said),
                Err(reason) => return Verdict::Drop(reason),
            },
        };
        // To compute a handshake costs more than to keep a half-open flow: nobody gets that without proof.
        if (said.is_some() || self.wants_proof(leg, local.port(), owner))
            && !self.ids.cookie_is_good(now, remote, local.port(), init.src_cid, &init.cookie)
        {
            return self.ask_for_proof(now, leg, local, remote, &init);
        }
        if !self.admits(now, local, remote, &init, owner) {
            return Verdict::Drop(DropReason::FlowTableFull);
        }
        let mut hands = None;
        if let Some((said, message)) = said {
            match self.shake_hands(now, local, remote, &said, message) {
                Ok((noise, peer)) => hands = Some((said, noise, peer)),
                Err(reason) => {
                    self.memory.forget_flow(owner);
                    return Verdict::Drop(reason);
                }
            }
        }
        if let Some(old) = known {
            // The later of two that proved as much, or one that proved more.
            self.end(old, now, CloseReason::TimedOut);
        }
        if let Some(at) = remnant {
            self.forget_remnant(at);
        }
        let Some(slot) = self.open(now, owner, local, remote, token) else {
            self.memory.forget_flow(owner);
            self.reject(now, local, remote, init.src_cid, ConnectFailure::TableFull);
            return Verdict::Drop(DropReason::FlowTableFull);
        };
        self.note_half_open(leg, local.port(), (remote, init.src_cid), slot);
        self.begin_accepting(slot, local.port(), header, &init);
        let f = &mut self.flows[slot as usize];
        if let Some((said, noise, peer)) = hands {
            f.mss = f.mss.min(self.legs.mss(f.leg, remote.is_ipv6()) - msg::TAG_LEN as u16);
            f.control_due = true;
            if !self.answer_secure(slot, said, noise, peer) {
                self.end(slot, now, CloseReason::TimedOut);
                return Verdict::Drop(DropReason::Malformed);
            }
            self.touch(slot, now);
            return Verdict::Consumed;
        }
        f.rx.heard_stamp = header.stamp;
        f.rx.echo = header.stamp;
        f.rx.echo_at = now;
        f.rx.has_echo = true;
        f.control_due = true;
        self.touch(slot, now);
        Verdict::Consumed
    }

    /// The ACCEPT of a flow was lost, or its INIT came twice.
    fn accept_again(&mut self, now: Instant, slot: u32, header: &Header) {
        let f = &mut self.flows[slot as usize];
        if f.state == State::Accepting {
            f.control_due = true;
            f.rx.echo = header.stamp;
            f.rx.echo_at = now;
            self.touch(slot, now);
        }
    }

    fn note_half_open(&mut self, leg: u8, udp_port: u16, peer: (SocketAddr, u64), slot: u32) {
        let counts = self.legs.get_mut(leg);
        counts.half_open += 1;
        *counts.half_open_at.entry(udp_port).or_insert(0) += 1;
        self.peers.add(peers::key(peer.0.ip()));
        self.by_remote.insert(peer, slot);
    }

    /// Whether there is room for a flow more that a peer asks for; its place in the application's quota is taken then. Whoever is refused hears
    /// of it, except for one: who asks for encryption asks again, and by then others have said who they are, or have run out of time.
    fn admits(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        init: &msg::Init,
        owner: u32,
    ) -> bool {
        // Connections from here have a share of the table that nobody else gets.
        let own = self.config.flows_max / OWN_SHARE;
        let free = self.flows_free().saturating_sub(own).min(self.memory.flow_room(owner));
        if !self.peers.admits(peers::key(remote.ip()), free) {
            self.counters.peer_share_refusals.add(1);
            self.reject(now, local, remote, init.src_cid, ConnectFailure::TableFull);
            return false;
        }
        if init.options & option::SECURE != 0 && self.has_too_many_pending(local, remote) {
            return false;
        }
        if free == 0 || !self.has_event_room() || !self.memory.admit_flow(owner) {
            self.press(now, owner);
            self.reject(now, local, remote, init.src_cid, ConnectFailure::TableFull);
            return false;
        }
        true
    }

    /// A new flow is what its client asked for, as far as we agree.
    fn begin_accepting(&mut self, slot: u32, listener: u16, header: &Header, init: &msg::Init) {
        let credit_window = self.config.credit_window();
        let f = &mut self.flows[slot as usize];
        f.state = State::Accepting;
        f.listener = listener;
        f.is_accepted = true;
        f.remote_cid = init.src_cid;
        f.ordered = init.options & option::UNORDERED == 0;
        f.mss = f.mss.min(init.mss);
        f.pieces = self.config.mtu_discovery && init.options & option::PIECES != 0;
        f.tx.credit_limit = header.credit;
        f.rx = Receiver::new(header.seq, credit_window);
    }

    /// Answers an INIT without a good cookie with one, as often as strangers are answered.
    fn ask_for_proof(
        &mut self,
        now: Instant,
        leg: u8,
        local: SocketAddr,
        remote: SocketAddr,
        init: &msg::Init,
    ) -> Verdict {
        let had_one = init.cookie != [0; 16];
        let kind = match self.config.security.as_ref().is_some_and(|s| s.expects(local.ip(), remote.ip())) {
            true => Answer::CookieExpected,
            false => Answer::Cookie,
        };
        let strays = &mut self.legs.get_mut(leg).strays;
        if strays.admit(now, kind) {
            let cookie = self.ids.cookie(now, remote, local.port(), init.src_cid);
            self.counters.retries_tx.add(1);
            strays.push(local, remote, bare(Kind::Retry, init.src_cid), msg::RETRY_LEN, |b| {
                b[msg::COMMON_LEN..msg::RETRY_LEN].copy_from_slice(&cookie);
            });
        }
        if had_one { Verdict::Drop(DropReason::BadCookie) } else { Verdict::Consumed }
    }

    /// Whether the flow in `slot`, asked for by this client in the clear, is one that it never asked for: it asks for encryption under
    /// the same connection id. Somebody who sees the wire was quicker. What follows needs a cookie, so only he can say otherwise, and he
    /// could end a flow in the clear anyway.
    fn is_forgery(&self, slot: u32) -> bool {
        let f = &self.flows[slot as usize];
        f.is_accepted && f.shield == Shield::Plain
    }

    /// Whether the half-open flow in `slot` gives way to this INIT of the same client.
    #[expect(clippy::too_many_arguments)]
    fn is_superseded(
        &mut self,
        now: Instant,
        slot: u32,
        remote: SocketAddr,
        local: SocketAddr,
        header: &Header,
        init: &msg::Init,
        packet: &[u8],
    ) -> bool {
        let is_secure = init.options & option::SECURE != 0;
        is_secure
            && self.ids.cookie_is_good(now, remote, local.port(), init.src_cid, &init.cookie)
            && self
                .said_in(local, init, header, packet)
                .is_ok_and(|(said, message)| self.supersedes(slot, &said, message))
    }

    /// Whether clients have to prove their address first: who says he is anybody can fill a table, but not the part of it
    /// that is kept for those that can be answered. Each leg has its share, so that strangers on one link ask nothing of those on another.
    fn wants_proof(&self, leg: u8, udp_port: u16, owner: u32) -> bool {
        let (legs, leg) = (self.legs.len(), self.legs.get(leg));
        let in_all = (self.config.half_open_max.min(self.config.flows_max / 4) / legs).max(1);
        let at_port = (self.memory.flow_room(owner) / 4 / legs).max(1);
        leg.half_open >= in_all || leg.half_open_at.get(&udp_port).is_some_and(|n| *n >= at_port)
    }

    pub(crate) fn reject(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        cid: u64,
        why: ConnectFailure,
    ) {
        let strays = &mut self.legs.get_mut(self.legs.of(local.ip())).strays;
        if strays.admit(now, Answer::Refusal) {
            self.counters.rejects_tx.add(1);
            strays.push(local, remote, bare(Kind::Reject, cid), msg::REJECT_LEN, |b| {
                b[msg::COMMON_LEN..msg::REJECT_LEN].copy_from_slice(&(why as u16).to_be_bytes());
            });
        }
    }

    /// ACCEPT: the server agreed.
    pub(crate) fn on_accept(&mut self, now: Instant, slot: u32, header: &Header, packet: &[u8]) -> Verdict {
        let Ok(accept) = msg::Accept::parse(packet) else {
            return Verdict::Drop(DropReason::Malformed);
        };
        let f = &mut self.flows[slot as usize];
        if f.state != State::Connecting {
            // Our acknowledgement of the first one was lost.
            if f.remote_cid == accept.src_cid {
                f.rx.ack_now = true;
                self.touch(slot, now);
                return Verdict::Consumed;
            }
            return Verdict::Drop(DropReason::BadState);
        }
        if f.shield != Shield::Plain {
            return self.on_secure_accept(now, slot, &accept, packet);
        }
        let offered_unordered = !f.ordered;
        let unordered = accept.options & option::UNORDERED != 0;
        let mss_fits = (MSS_MIN..=f.mss).contains(&accept.mss);
        if header.ack != f.first_seq
            || !mss_fits
            || unordered != offered_unordered
            || accept.options & option::SECURE != 0
        {
            return Verdict::Drop(DropReason::Malformed);
        }
        f.pieces = self.config.mtu_discovery && accept.options & option::PIECES != 0;
        self.finish_connect(now, slot, accept.src_cid, accept.mss, header.seq, header.credit);
        let f = &mut self.flows[slot as usize];
        // Echoed, so that the server knows the round trip before its first segment.
        f.rx.heard_stamp = header.stamp;
        f.rx.echo = header.stamp;
        f.rx.echo_at = now;
        f.rx.has_echo = true;
        if let Some(rtt) = echoed_rtt(now, header).filter(|_| f.rtt.may_echo(now, header.echo)) {
            f.rtt.sample(now, rtt, false);
        }
        Verdict::Consumed
    }

    /// The server agreed to these terms: the flow is open.
    pub(crate) fn finish_connect(
        &mut self,
        now: Instant,
        slot: u32,
        cid: u64,
        mss: u16,
        seq: u32,
        credit: u32,
    ) {
        let f = &mut self.flows[slot as usize];
        (f.remote_cid, f.mss) = (cid, mss);
        f.tx.credit_limit = credit;
        f.rx = Receiver::new(seq, self.config.credit_window());
        f.rx.ack_now = true;
        self.by_remote.insert((f.remote, f.remote_cid), slot);
        let f = &mut self.flows[slot as usize];
        become_open(f, now, &self.config);
        f.begin_path(now, &self.narrow_paths);
        let peer = self.guards.get(slot as usize).and_then(|g| g.as_ref()?.peer);
        self.events.push_back(Event::Connected {
            flow: f.id,
            owner: f.owner,
            token: f.token,
            local: f.local,
            remote: f.remote,
            peer,
        });
        self.counters.flows_connected.add(1);
        self.touch(slot, now);
    }

    /// Anything from the client on a flow that waits for it proves that our ACCEPT arrived.
    pub(crate) fn confirm(&mut self, now: Instant, slot: u32) {
        let f = &mut self.flows[slot as usize];
        become_open(f, now, &self.config);
        f.begin_path(now, &self.narrow_paths);
        self.legs.get_mut(f.leg).no_longer_half_open(f.listener);
        let peer = self.guards.get(slot as usize).and_then(|g| g.as_ref()?.peer);
        self.events.push_back(Event::Accepted {
            flow: f.id,
            owner: f.owner,
            token: f.token,
            local: f.local,
            remote: f.remote,
            peer,
        });
        self.counters.flows_accepted.add(1);
        if f.shield != Shield::Plain {
            self.counters.flows_encrypted.add(1);
        }
    }

    /// RETRY: the server is under pressure and wants its cookie back.
    pub(crate) fn on_retry(&mut self, now: Instant, slot: u32, packet: &[u8]) -> Verdict {
        let f = &mut self.flows[slot as usize];
        match msg::parse_retry(packet) {
            Err(_) => Verdict::Drop(DropReason::Malformed),
            Ok(_) if f.state != State::Connecting => Verdict::Drop(DropReason::BadState),
            Ok(cookie) => {
                if f.cookie != cookie {
                    f.cookie = cookie;
                    f.control_due = true;
                    if f.shield != Shield::Plain && !self.begin_noise(slot) {
                        self.fail_connect(slot, now, ConnectFailure::WrongKey);
                        return Verdict::Drop(DropReason::WrongKey);
                    }
                    self.touch(slot, now);
                }
                Verdict::Consumed
            }
        }
    }

    /// REJECT: the server will not.
    pub(crate) fn on_reject(&mut self, now: Instant, slot: u32, packet: &[u8]) -> Verdict {
        let Ok(code) = msg::parse_reject(packet) else {
            return Verdict::Drop(DropReason::Malformed);
        };
        if self.flows[slot as usize].state != State::Connecting {
            return Verdict::Drop(DropReason::BadState);
        }
        let reason = ConnectFailure::from_code(code).unwrap_or(ConnectFailure::Refused);
        if self.flows[slot as usize].shield != Shield::Plain {
            self.hint(now, slot, reason);
            return Verdict::Consumed;
        }
        self.fail_connect(slot, now, reason);
        Verdict::Consumed
    }

    /// RESET from a host that knows the flow, or that proves that it saw our packets to a flow it does not know.
    pub(crate) fn on_reset(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local: SocketAddr,
        header: &Header,
        packet: &[u8],
    ) -> Verdict {
        let Ok(reset) = msg::Reset::parse(packet) else {
            return Verdict::Drop(DropReason::Malformed);
        };
        let known = if header.dst_cid != 0 {
            let remnant = || self.remnants.find(header.dst_cid).map(Known::Remnant);
            self.find(header.dst_cid).map(Known::Flow).or_else(remnant)
        } else {
            self.known(remote, reset.proof)
        };
        let slot = match known {
            Some(Known::Remnant(at)) => return self.reset_remnant(at, local, remote),
            Some(Known::Flow(slot)) => Some(slot),
            None => None,
        };
        // What came to another address of ours, perhaps by another link, is not of this flow. On an encrypted flow it proves nothing; but where both ends were done, there is nothing to lose either.
        let is_theirs = |f: &Flow| {
            (f.remote, f.local) == (remote, local) && (f.shield == Shield::Plain || f.is_done_but_for_fin())
        };
        let Some(slot) = slot.filter(|s| is_theirs(&self.flows[*s as usize])) else {
            return Verdict::Drop(DropReason::ForgedReset);
        };
        self.obey_reset(now, slot, &reset, header.dst_cid == 0);
        Verdict::Consumed
    }

    /// RESET that the peer sealed.
    pub(crate) fn on_sealed_reset(&mut self, now: Instant, slot: u32, packet: &[u8]) -> Verdict {
        let Ok(reset) = msg::Reset::parse(packet) else {
            return Verdict::Drop(DropReason::Malformed);
        };
        self.obey_reset(now, slot, &reset, false);
        Verdict::Consumed
    }

    fn obey_reset(&mut self, now: Instant, slot: u32, reset: &msg::Reset, knows_us_not: bool) {
        self.counters.resets_rx.add(1);
        let f = &self.flows[slot as usize];
        let reason = if f.is_done_but_for_fin() {
            // Both ends were done; the peer merely forgot sooner than we had its last acknowledgement.
            CloseReason::Local
        } else if knows_us_not {
            CloseReason::PeerRestarted
        } else if reset.reason == CloseReason::MessageTooLarge as u16 {
            CloseReason::MessageTooLarge
        } else if reset.reason == CloseReason::NotTrusted as u16 {
            CloseReason::NotTrusted
        } else {
            CloseReason::Reset
        };
        if f.state == State::Connecting {
            self.fail_connect(slot, now, ConnectFailure::Refused);
        } else {
            self.end(slot, now, reason);
        }
    }

    /// Tells the peer of `slot` that the flow is gone. Lost on the way, the next packet of the peer brings another.
    pub(crate) fn queue_reset(&mut self, slot: u32, reason: CloseReason) {
        let leg = self.flows[slot as usize].leg;
        if self.legs.get(leg).strays.queue.len() < STRAYS_MAX {
            self.queue_last_reset(slot, reason);
        }
    }

    /// As [`queue_reset`](Self::queue_reset), however many packets wait: an application has died, and all its peers are to
    /// know. They are no more than there are flows.
    pub(crate) fn queue_last_reset(&mut self, slot: u32, reason: CloseReason) {
        let f = &self.flows[slot as usize];
        if f.remote_cid == 0 {
            return;
        }
        let (leg, local, remote, cid) = (f.leg, f.local, f.remote, f.remote_cid);
        let reset = msg::Reset { proof: 0, reason: reason as u16 };
        let strays = &mut self.legs.get_mut(leg).strays;
        match (f.shield, self.guards.get_mut(slot as usize)) {
            (Shield::Plain, _) => {
                strays.push(local, remote, bare(Kind::Reset, cid), msg::RESET_LEN, |b| reset.emit(b));
            }
            (Shield::Sealed | Shield::Unconfirmed, Some(Some(guard))) => {
                strays.push_sealed(local, remote, bare(Kind::SealedReset, cid), |b| {
                    reset.emit(b);
                    guard.tx.seal(b);
                });
            }
            // No keys yet: its handshake will come to nothing by itself.
            _ => return,
        }
        self.counters.resets_tx.add(1);
        if let Some(stray) = strays.queue.back_mut() {
            stray.template.clone_from(&self.flows[slot as usize].template);
        }
    }

    /// Acknowledges what came again of a flow that both ends have closed. False: so many were answered that this one has to ask once more.
    pub(crate) fn answer_repeat(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        ack: Header,
    ) -> bool {
        let strays = &mut self.legs.get_mut(self.legs.of(local.ip())).strays;
        let admitted = strays.admit(now, Answer::Repeat);
        if admitted {
            strays.push(local, remote, ack, msg::COMMON_LEN, |_| {});
        }
        admitted
    }

    /// Answers a packet for a flow that is not here, with the proof that only who saw that packet can give.
    pub(crate) fn answer_unknown(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr, cid: u64) {
        let strays = &mut self.legs.get_mut(self.legs.of(local.ip())).strays;
        if strays.admit(now, Answer::Refusal) {
            self.counters.resets_tx.add(1);
            strays.push(local, remote, bare(Kind::Reset, 0), msg::RESET_LEN, |b| {
                msg::Reset { proof: cid, reason: CloseReason::PeerRestarted as u16 }.emit(b);
            });
        }
    }
}

fn become_open(f: &mut Flow, now: Instant, config: &Config) {
    f.state = State::Open;
    f.mtu = match f.pieces {
        true => PathMtu::new(f.mss, f.remote.is_ipv6(), f.shield != Shield::Plain),
        false => PathMtu::off(f.mss),
    };
    f.control_due = false;
    f.handshake_at = Instant::FAR_FUTURE;
    f.give_up_at = if f.closing { now + config.dead_after } else { Instant::FAR_FUTURE };
    f.keepalive_at = now + config.keepalive;
    if let Some(idle) = config.idle_timeout {
        f.keepalive_at = f.keepalive_at.min(now + idle);
    }
    f.used_at = now;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many strangers ask: so many answers leave in a second, and none crowd out those of another kind.
    #[test]
    fn answers_to_strangers_are_bounded_and_leave_room_for_others() {
        let mut strays = Strays::new();
        let now = Instant::from_nanos(5_000_000_000);
        let mut answered = |now, answer| (0..20_000).filter(|_| strays.admit(now, answer)).count() as u32;
        for now in [now, now + Duration::from_secs(1)] {
            assert_eq!(answered(now, Answer::Refusal), STRAYS_PER_SECOND / 2);
            assert_eq!(answered(now, Answer::Cookie), STRAYS_PER_SECOND);
            assert_eq!(answered(now, Answer::CookieExpected), STRAYS_PER_SECOND);
            assert_eq!(answered(now, Answer::Cookie), 0);
        }
        // What waits to leave counts as well.
        let (mut strays, any) = (Strays::new(), SocketAddr::from(([10, 0, 0, 1], 1)));
        for (until, kind, next) in [
            (STRAYS_MAX / 2, Answer::Refusal, Answer::Cookie),
            (STRAYS_MAX / 4 * 3, Answer::Cookie, Answer::CookieExpected),
        ] {
            while strays.queue.len() < until {
                strays.push(any, any, bare(Kind::Reject, 1), msg::REJECT_LEN, |_| {});
            }
            assert!(!strays.admit(now, kind) && strays.admit(now, next));
        }
    }

    /// What strangers do on one link costs nobody on another an answer or a cookie.
    #[test]
    fn strangers_of_one_leg_are_no_matter_of_another() {
        let config = Config { half_open_max: 8, ..Config::default() };
        let memory = crate::HeapMemory::new(1 << 20, 1 << 20);
        let mut e = Endpoint::new(config, memory, [7; 32]).expect("an endpoint");
        let addresses = [1, 2].map(|net| SocketAddr::from(([10, net, 0, 1], 888)));
        e.add_leg(&[addresses[1].ip()], 1500).expect("a leg");
        let now = Instant::from_nanos(5_000_000_000);
        let stranger = SocketAddr::from(([10, 2, 0, 9], 7));
        for cid in 1..2 * u64::from(STRAYS_PER_SECOND) {
            e.answer_unknown(now, addresses[1], stranger, cid);
            while e.legs.get_mut(1).strays.pop().is_some() {}
        }
        let answered = e.counters.resets_tx.get();
        assert_eq!(answered, u64::from(STRAYS_PER_SECOND / 2));
        e.answer_unknown(now, addresses[1], stranger, 1);
        assert_eq!(e.counters.resets_tx.get(), answered);
        e.answer_unknown(now, addresses[0], stranger, 1);
        assert_eq!(e.counters.resets_tx.get(), answered + 1);
        // Half of what may be half open in all.
        for n in 0..4 {
            assert!(!e.wants_proof(1, 888, 0), "{n}");
            e.legs.get_mut(1).half_open += 1;
        }
        assert!(e.wants_proof(1, 888, 0) && !e.wants_proof(0, 888, 0));
    }
}
