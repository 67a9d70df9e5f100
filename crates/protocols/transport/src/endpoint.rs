//! The endpoint: the table of flows, what applications ask of it, and its timers.

use crate::config::{Config, ConfigError, WINDOW_SEGMENTS};
use crate::congestion::Congestion;
use crate::counters::Counters;
use crate::event::{CloseReason, ConnectFailure, Event};
use crate::flow::{Flow, FlowId, State};
use crate::ids::{self, Ids};
use crate::legs::Legs;
use crate::listeners::Listeners;
use crate::memory::{Memory, RecvBuf, SendBuf};
use crate::mtu::NarrowPaths;
use crate::peers::{self, Idlers, Peers};
use crate::receiver::Receiver;
use crate::remnants::{Known, Remnants};
use crate::rtt::Rtt;
use crate::security::guard::{Guard, Shield};
use crate::security::{HandshakeRng, Handshakes, PeerKey, Ration, Refusal};
use crate::sender::{Fin, OutMessages, Packed, Sender};
use barewire_base::{Duration, Instant};
use barewire_wheel::Timers;
use barewire_wire::msg;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Most events that one flow has waiting besides those of its messages.
const EVENTS_PER_FLOW: usize = 4;
/// First and longest wait between two questions for credit.
const CREDIT_PROBE_FIRST: Duration = Duration::from_millis(5);
const CREDIT_PROBE_SHIFT_MAX: u32 = 6;
/// Ports tried for one that no other flow has.
const PORT_TRIES: u64 = 64;
/// Owner of flows whose application is gone.
const NOBODY: u32 = u32::MAX;

/// Why [`Endpoint::connect`] refused at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// `flows_max` flows exist.
    #[error("the flow table is full")]
    TableFull,
    /// Port zero, an unspecified or multicast address, or the two ends of different IP versions.
    #[error("cannot connect to this address: port 0, unspecified, multicast, or IPv4 mixed with IPv6")]
    BadAddress,
    /// Every ephemeral UDP port is in use.
    #[error("no free udp_port")]
    NoPort,
    /// Another application listens on this UDP port at this address, and would be taken for who opened the flow.
    #[error("another application listens on this udp_port")]
    PortTaken,
}

/// Why [`Endpoint::send`] refused. The message is still the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No such flow, or no longer.
    #[error("no such flow")]
    NoSuchFlow,
    /// The flow is closing.
    #[error("the flow is closing")]
    Closing,
    /// `send_messages_max` messages wait: try again when one is acknowledged.
    #[error("too many messages under way; try again")]
    WouldBlock,
    /// Above 64 MiB.
    #[error("a message holds at most 64 MiB")]
    TooLarge,
}

/// What `stat` shows of a flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowView {
    /// The flow.
    pub id: FlowId,
    /// Its application.
    pub owner: u32,
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// `connecting`, `accepting`, `open`, `closing` or `lingering`.
    pub state: &'static str,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Least round-trip time seen lately.
    pub rtt_floor: Duration,
    /// What encrypts it; `None`: nothing, or nothing yet.
    pub cipher: Option<&'static str>,
    /// Congestion window in segments.
    pub window: f32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Payload bytes of the largest packet that the path is known to carry, or not known not to.
    pub payload_max: u16,
}

/// The address as datagrams show it: which link a link-local address is on, and a flow label, are matters of the socket.
/// An endpoint's leg has one link.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// The engine that owns the flow of this packet, from its connection id; `None` for a handshake (any engine whose
/// listeners include the port may take it) and for what is no packet of ours. Nothing is checked beyond the shape.
pub fn engine_for(packet: &[u8]) -> Option<u8> {
    let header = msg::Header::parse(packet).ok()?;
    (header.dst_cid != 0).then(|| ids::engine_of(header.dst_cid))
}

/// One endpoint: all flows of one engine.
pub struct Endpoint<M> {
    pub(crate) config: Config,
    pub(crate) memory: M,
    pub(crate) ids: Ids,
    pub(crate) flows: Vec<Flow>,
    free: Vec<u32>,
    pub(crate) segs: Vec<Packed>,
    pub(crate) msgs: Vec<Packed>,
    /// Which pieces of each segment of the window are here, where it came in pieces and not all are, below the row of its message.
    pub(crate) pieces: Vec<u32>,
    pub(crate) narrow_paths: NarrowPaths,
    pub(crate) out: OutMessages,
    pub(crate) events: VecDeque<Event>,
    events_max: usize,
    pub(crate) timers: Timers,
    /// When they ran last, and until when no flow dies of silence.
    pub(crate) ran_at: Instant,
    pub(crate) spares_until: Instant,
    /// Where packets leave, and what waits to.
    pub(crate) legs: Legs,
    /// Flows, and what is left of some, by their peers' ids: see [`Known`].
    pub(crate) by_remote: HashMap<(SocketAddr, u64), u32>,
    pub(crate) remnants: Remnants,
    pub(crate) listeners: Listeners,
    /// Flows, and what is left of some, at each UDP port of ours, whoever opened them.
    pub(crate) udp_ports: Box<[u32]>,
    pub(crate) counters: Counters,
    generation: u64,
    /// Flows that were accepted, by host.
    pub(crate) peers: Peers,
    /// When an application last had to refuse something for want of room.
    pub(crate) pressed: HashMap<u32, Instant>,
    /// Hosts that let memory lie meanwhile.
    pub(crate) idlers: Idlers,
    pub(crate) recv_messages: u32,
    /// Messages, by owner, that applications hold of flows that are gone.
    pub(crate) orphans: HashMap<u32, u32>,
    /// `Sent` events that nobody has taken yet.
    pub(crate) sent_undrained: u32,
    /// Flows waiting for their next hop to be resolved, and some that no longer do; each once.
    pub(crate) unrouted: VecDeque<u32>,
    /// What protects each flow, by slot; empty without [`Config::security`].
    pub(crate) guards: Vec<Option<Box<Guard>>>,
    pub(crate) draw: HandshakeRng,
    pub(crate) handshakes: Handshakes,
    /// Half-open flows whose clients have not proven a key.
    pub(crate) pending: u32,
    pub(crate) refusal_ration: Ration,
    pub(crate) hearsay_ration: Ration,
    pub(crate) refusals: VecDeque<Refusal>,
}

/// One less of what is counted under `port`.
pub(crate) fn count_down(counts: &mut HashMap<u16, u32>, port: u16) {
    if let Some(n) = counts.get_mut(&port) {
        *n -= 1;
        if *n == 0 {
            counts.remove(&port);
        }
    }
}

/// The part of a per-flow table that belongs to `slot`.
pub(crate) fn row(table: &mut [Packed], slot: u32) -> &mut [Packed] {
    &mut table[slot as usize * WINDOW_SEGMENTS..][..WINDOW_SEGMENTS]
}

/// The part of the table of pieces that belongs to `slot`.
pub(crate) fn pieces_row(table: &mut [u32], slot: u32) -> &mut [u32] {
    &mut table[slot as usize * WINDOW_SEGMENTS..][..WINDOW_SEGMENTS]
}

impl<M: Memory> Endpoint<M> {
    /// An endpoint with all its tables allocated. `secret` keys connection ids and cookies: 32 bytes from the operating
    /// system, or from a seed in a simulation.
    pub fn new(config: Config, memory: M, secret: [u8; 32]) -> Result<Endpoint<M>, ConfigError> {
        config.check()?;
        let flows = config.flows_max as usize;
        let (ids, draw) = HandshakeRng::split(secret);
        let (ids, guards) = match &config.security {
            // What gives handshakes their randomness must not be found from what is kept.
            Some(_) => (ids, (0..flows).map(|_| None).collect()),
            None => (secret, Vec::new()),
        };
        let ids = Ids::new(ids);
        let remnants = Remnants::new(config.flows_max);
        let events_max =
            config.send_messages_max as usize + config.recv_messages_max as usize + flows * EVENTS_PER_FLOW;
        Ok(Endpoint {
            memory,
            generation: ids.first_generation(),
            ids,
            flows: (0..flows).map(|_| Flow::empty()).collect(),
            free: (0..config.flows_max).rev().collect(),
            segs: vec![[0; 2]; flows * WINDOW_SEGMENTS],
            msgs: vec![[0; 2]; flows * WINDOW_SEGMENTS],
            pieces: vec![0; flows * WINDOW_SEGMENTS],
            narrow_paths: NarrowPaths::new(),
            out: OutMessages::new(config.send_messages_max),
            events: VecDeque::with_capacity(events_max),
            events_max,
            timers: Timers::new(flows + remnants.max()),
            ran_at: Instant::ZERO,
            spares_until: Instant::ZERO,
            legs: Legs::new(flows, config.mtu),
            // Twice as many as there can be, so that deletions never make the map grow.
            by_remote: HashMap::with_capacity((flows + remnants.max()) * 2),
            remnants,
            listeners: Listeners::new(),
            udp_ports: vec![0; 1 << 16].into_boxed_slice(),
            counters: Counters::default(),
            peers: Peers::new(flows),
            pressed: HashMap::with_capacity(64),
            idlers: Idlers::new(),
            recv_messages: 0,
            orphans: HashMap::with_capacity(64),
            sent_undrained: 0,
            unrouted: VecDeque::with_capacity(flows),
            guards,
            draw,
            handshakes: Handshakes::new(),
            pending: 0,
            refusal_ration: Ration::default(),
            hearsay_ration: Ration::default(),
            refusals: VecDeque::new(),
            config,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The message memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The message memory.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// What has been done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Places of flows in use: half-open flows and those that linger with their keys included, [`lingering`](Self::lingering) ones not.
    pub fn flows_used(&self) -> u32 {
        self.config.flows_max - self.flows_free()
    }

    /// Places in the table of flows that nobody has.
    pub(crate) fn flows_free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Messages that applications wait to see acknowledged.
    pub fn messages_under_way(&self) -> u32 {
        self.out.used()
    }

    /// Messages being received, or received and not yet released by their applications.
    pub fn received_messages(&self) -> u32 {
        self.recv_messages
    }

    /// The flows, for people to look at.
    pub fn flows(&self) -> impl Iterator<Item = FlowView> + '_ {
        self.flows.iter().filter(|f| f.state != State::Free).map(|f| FlowView {
            id: f.id,
            owner: f.owner,
            local: f.local,
            remote: f.remote,
            state: match f.state {
                State::Connecting => "connecting",
                State::Accepting => "accepting",
                State::Lingering => "lingering",
                _ if f.closing => "closing",
                _ => "open",
            },
            rtt: f.rtt.smoothed(),
            rtt_floor: f.rtt.floor(),
            cipher: self.cipher_of(f.id),
            window: f.cc.window(),
            in_flight: f.tx.in_flight,
            payload_max: f.mtu.payload_max(),
        })
    }

    fn cipher_of(&self, flow: FlowId) -> Option<&'static str> {
        let guard = self.guards.get(flow.slot() as usize)?.as_ref()?;
        Some(guard.cipher).filter(|c| !c.is_empty())
    }

    /// Whether a UDP datagram to this port may be for us.
    pub fn serves(&self, udp_port: u16) -> bool {
        self.udp_ports[usize::from(udp_port)] != 0 || self.listens(udp_port)
    }

    fn free_udp_port(&mut self) -> Option<u16> {
        let (first, last) = self.config.ephemeral_udp_ports;
        let n = u64::from(last - first) + 1;
        // A random start, so that neither the port nor the order of connections can be guessed from outside.
        let start = self.ids.draw() % n;
        let port = |i| first + ((start + i) % n) as u16;
        // One of its own if it is found soon. Flows are told apart by their ids, so another flow's will do as well; a
        // listener's will not, as its port is what its clients know.
        let unused = (0..n.min(PORT_TRIES)).map(port).find(|&p| !self.serves(p));
        unused.or_else(|| (0..n).map(port).find(|&p| !self.listens(p)))
    }

    /// An ephemeral UDP port that nothing uses, drawn until one is `wanted`: so answers come in where the caller likes them. `None` when
    /// none was found soon.
    pub fn draw_udp_port(&mut self, wanted: impl Fn(u16) -> bool) -> Option<u16> {
        let (first, last) = self.config.ephemeral_udp_ports;
        let n = u64::from(last - first) + 1;
        (0..PORT_TRIES).find_map(|_| {
            let port = first + (self.ids.draw() % n) as u16;
            (!self.serves(port) && wanted(port)).then_some(port)
        })
    }

    /// Opens a flow from `local` (port zero: an ephemeral one) to `remote`. `Connected` or `ConnectFailed` follows;
    /// messages may be queued meanwhile.
    pub fn connect(
        &mut self,
        now: Instant,
        owner: u32,
        local: SocketAddr,
        remote: SocketAddr,
        ordered: bool,
        token: u64,
    ) -> Result<FlowId, ConnectError> {
        let (mut local, remote) = (plain(local), plain(remote));
        let ip = remote.ip();
        if remote.port() == 0
            || ip.is_unspecified()
            || ip.is_multicast()
            || local.is_ipv4() != remote.is_ipv4()
        {
            return Err(ConnectError::BadAddress);
        }
        if self.listeners.at(local).is_some_and(|listener| listener.owner != owner) {
            return Err(ConnectError::PortTaken);
        }
        if self.free.is_empty() || self.events.len() + EVENTS_PER_FLOW > self.events_max {
            return Err(ConnectError::TableFull);
        }
        if local.port() == 0 {
            local.set_port(self.free_udp_port().ok_or(ConnectError::NoPort)?);
        }
        let slot = self.open(now, owner, local, remote, token).ok_or(ConnectError::TableFull)?;
        let f = &mut self.flows[slot as usize];
        f.state = State::Connecting;
        f.ordered = ordered;
        f.control_due = true;
        let id = f.id;
        let way = self.way_to(local, remote);
        if way != PeerKey::Plain {
            self.begin_secure(slot, way);
        }
        self.touch(slot, now);
        Ok(id)
    }

    /// Sets up a slot, in no particular state yet.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        owner: u32,
        local: SocketAddr,
        remote: SocketAddr,
        token: u64,
    ) -> Option<u32> {
        let slot = self.free.pop()?;
        self.generation += 1;
        let config = &self.config;
        let first_seq = self.ids.draw() as u32;
        let leg = self.legs.of(local.ip());
        self.udp_ports[usize::from(local.port())] += 1;
        let f = &mut self.flows[slot as usize];
        *f = Flow {
            // The slot's last flow may have left it in the lists.
            listed: f.listed,
            leg,
            unrouted: f.unrouted,
            id: FlowId::new(slot, self.generation),
            local_cid: self.ids.cid(slot, config.engine),
            local,
            remote,
            owner,
            token,
            mss: self.legs.mss(leg, remote.is_ipv6()),
            first_seq,
            tx: Sender::new(first_seq),
            rx: Receiver::new(0, config.credit_window()),
            rtt: Rtt::new(config.timeout_initial).begins(now),
            cc: Congestion::new(&config.congestion, WINDOW_SEGMENTS as u32),
            handshake_at: now + config.timeout_initial,
            give_up_at: now + config.handshake_timeout,
            heard_at: now,
            used_at: now,
            ..Flow::empty()
        };
        // Freed rows are left zeroed by whoever freed them; only segments need no clearing, numbers guard them.
        Some(slot)
    }

    /// Notes that `owner` had to refuse something for want of room: from now on, peers of its that leave messages unfinished
    /// are in others' way.
    pub fn press(&mut self, now: Instant, owner: u32) {
        self.pressed.insert(owner, now);
    }

    /// Whether one more flow could say all it may have to say.
    pub(crate) fn has_event_room(&self) -> bool {
        self.events.len() + EVENTS_PER_FLOW <= self.events_max
    }

    pub(crate) fn slot_for(&self, flow: FlowId) -> Option<u32> {
        let f = self.flows.get(flow.slot() as usize)?;
        (f.id == flow && f.state != State::Free).then_some(flow.slot())
    }

    /// The application that a flow belongs to; `None`: no such flow.
    #[inline]
    pub fn owner(&self, flow: FlowId) -> Option<u32> {
        self.slot_for(flow).map(|slot| self.flows[slot as usize].owner)
    }

    /// Puts the flow where its state says it belongs: the list of flows with work, and the wheel.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32, now: Instant) {
        let f = &mut self.flows[slot as usize];
        if f.state == State::Open {
            if f.tx.outstanding() == 0 && f.tx.is_blocked_by_credit() {
                if f.credit_probe_at == Instant::FAR_FUTURE {
                    let wait = CREDIT_PROBE_FIRST.as_nanos() << f.credit_probes.min(CREDIT_PROBE_SHIFT_MAX);
                    f.credit_probe_at = now + Duration::from_nanos(wait);
                }
            } else {
                f.credit_probe_at = Instant::FAR_FUTURE;
            }
        }
        if f.listed & f.leg_bit() == 0 && f.has_work(now) {
            f.listed |= f.leg_bit();
            self.legs.get_mut(f.leg).active.push_back(slot);
        }
        let deadline = f.deadline(now);
        self.timers.arm(slot, deadline);
    }

    pub(crate) fn arm(&mut self, slot: u32, deadline: Instant) {
        self.timers.arm(slot, deadline);
    }

    /// Queues a message. Its memory stays untouched until `Sent` gives it back.
    #[inline]
    pub fn send(&mut self, now: Instant, flow: FlowId, buf: SendBuf, token: u64) -> Result<(), SendError> {
        if buf.len > msg::MESSAGE_LEN_MAX {
            return Err(SendError::TooLarge);
        }
        let slot = self.slot_for(flow).ok_or(SendError::NoSuchFlow)?;
        let f = &mut self.flows[slot as usize];
        if !f.takes_messages() {
            return Err(SendError::Closing);
        }
        // Messages whose `Sent` waits to be taken count too, so that the queue of events is bounded.
        if self.out.used() + self.sent_undrained >= self.config.send_messages_max
            || !f.tx.push(&mut self.out, buf, token)
        {
            return Err(SendError::WouldBlock);
        }
        if f.state == State::Open {
            f.used_at = now;
        }
        self.counters.messages_queued.add(1);
        self.touch(slot, now);
        Ok(())
    }

    /// The application is done with a received message: frees its memory and grants its bytes to the sender again. To be
    /// called once for each `Received`, also when the flow is gone; more calls grant nothing.
    #[inline]
    pub fn release(&mut self, now: Instant, flow: FlowId, buf: RecvBuf) {
        self.memory.free(buf);
        let Some(slot) = self.slot_for(flow) else {
            if let Some(held) = self.orphans.get_mut(&buf.owner)
                && *held > 0
            {
                *held -= 1;
                self.recv_messages -= 1;
            }
            return;
        };
        let f = &mut self.flows[slot as usize];
        if f.held == 0 {
            return;
        }
        f.held -= 1;
        self.recv_messages -= 1;
        if f.rx.release(buf.len) {
            f.rx.ack_now = true;
        }
        self.touch(slot, now);
    }

    /// Closes a flow after everything queued has been acknowledged; `Closed` follows. It waits for as long as the peer
    /// answers, even if the peer's application does not read: [`reset`](Self::reset) does not wait. A flow that is not
    /// open yet opens first if messages are queued; with none its `connect` fails as cancelled. False: no such flow.
    pub fn close(&mut self, now: Instant, flow: FlowId) -> bool {
        let Some(slot) = self.slot_for(flow) else {
            return false;
        };
        let f = &mut self.flows[slot as usize];
        match f.state {
            State::Connecting if f.tx.wants_to_open() => {
                f.closing = true;
                f.tx.fin = Fin::Queued;
            }
            State::Connecting | State::Accepting => self.end(slot, now, CloseReason::Local),
            _ => {
                self.begin_close(slot, now);
                self.touch(slot, now);
            }
        }
        true
    }

    pub(crate) fn begin_close(&mut self, slot: u32, now: Instant) {
        let f = &mut self.flows[slot as usize];
        if !f.closing {
            f.closing = true;
            f.tx.fin = Fin::Queued;
            f.give_up_at = now + self.config.dead_after;
        }
    }

    /// Ends a flow at once: what was not acknowledged is lost, and the peer is told. False: no such flow.
    pub fn reset(&mut self, now: Instant, flow: FlowId) -> bool {
        let Some(slot) = self.slot_for(flow) else {
            return false;
        };
        self.queue_reset(slot, CloseReason::Reset);
        self.end(slot, now, CloseReason::LocalReset);
        true
    }

    /// Packets have at most `mtu` bytes from now on, on the first leg: see [`set_mtu_on`](Self::set_mtu_on).
    ///
    /// # Errors
    /// [`ConfigError`]: too few for a packet; nothing was done.
    pub fn set_mtu(&mut self, now: Instant, mtu: u16) -> Result<u32, ConfigError> {
        self.set_mtu_on(now, 0, mtu)
    }

    /// Packets of this leg have at most `mtu` bytes from now on. Segments that were cut for more travel in pieces. Flows whose peers take none are
    /// reset, as their segments would never arrive, and so are flows that are not open yet; says how many.
    ///
    /// # Errors
    /// [`ConfigError`]: too few for a packet; nothing was done.
    pub fn set_mtu_on(&mut self, now: Instant, leg: u8, mtu: u16) -> Result<u32, ConfigError> {
        Config { mtu, ..self.config.clone() }.check()?;
        self.legs.get_mut(leg).mtu = mtu;
        if leg == 0 {
            self.config.mtu = mtu;
        }
        let mut ended = 0;
        for slot in 0..self.config.flows_max {
            let f = &mut self.flows[slot as usize];
            let tag = if f.shield == Shield::Plain { 0 } else { msg::TAG_LEN as u16 };
            if f.leg != leg {
                continue;
            }
            let most = self.legs.mss(leg, f.remote.is_ipv6()) - tag;
            if f.state == State::Open && f.pieces && f.mtu.cap(now, most) {
                continue;
            }
            let is_cut_for_more = f.mss > most;
            if matches!(f.state, State::Connecting | State::Accepting | State::Open) && is_cut_for_more {
                self.queue_last_reset(slot, CloseReason::Reset);
                self.end(slot, now, CloseReason::LocalReset);
                ended += 1;
            }
        }
        Ok(ended)
    }

    /// Ends everything of an application that is gone. No events are left for it. A flow that both ends have closed, and
    /// whose peer has every message, finishes by itself: an application may leave as soon as it heard the end.
    pub fn drop_owner(&mut self, now: Instant, owner: u32) {
        self.listeners.drop_owner(owner);
        for slot in 0..self.config.flows_max {
            let f = &mut self.flows[slot as usize];
            if f.state != State::Free && f.owner == owner {
                // What the application holds it will not release any more.
                self.recv_messages -= std::mem::take(&mut f.held);
                if f.is_done_but_for_fin() {
                    (f.owner, f.closed_told) = (NOBODY, true);
                    continue;
                }
                self.queue_last_reset(slot, CloseReason::Reset);
                self.end(slot, now, CloseReason::LocalReset);
            }
        }
        self.recv_messages -= self.orphans.remove(&owner).unwrap_or(0);
        self.pressed.remove(&owner);
        self.idlers.forget(owner);
        let (memory, undrained) = (&mut self.memory, &mut self.sent_undrained);
        self.events.retain(|e| match e {
            Event::Received { owner: o, buf, .. } if *o == owner => {
                memory.free(*buf);
                false
            }
            Event::Sent { owner: o, .. } if *o == owner => {
                *undrained -= 1;
                false
            }
            Event::Connected { owner: o, .. }
            | Event::ConnectFailed { owner: o, .. }
            | Event::Accepted { owner: o, .. }
            | Event::Sent { owner: o, .. }
            | Event::Closed { owner: o, .. }
            | Event::Received { owner: o, .. } => *o != owner,
        });
    }

    /// Tells the application that the flow is closed, once.
    pub(crate) fn tell_closed(&mut self, slot: u32, reason: CloseReason) {
        let f = &mut self.flows[slot as usize];
        if f.closed_told {
            return;
        }
        f.closed_told = true;
        let (flow, owner, token) = (f.id, f.owner, f.token);
        match f.state {
            // The application has never heard of it.
            State::Accepting => self.memory.forget_flow(owner),
            State::Connecting => {
                let reason = ConnectFailure::Cancelled;
                self.events.push_back(Event::ConnectFailed { flow, owner, token, reason });
            }
            _ => self.events.push_back(Event::Closed { flow, owner, reason }),
        }
    }

    /// Ends a flow at once: messages fail, memory is freed, the application is told, the slot is free.
    pub(crate) fn end(&mut self, slot: u32, _now: Instant, reason: CloseReason) {
        self.abandon(slot);
        self.tell_closed(slot, reason);
        self.retire(slot);
    }

    fn abandon(&mut self, slot: u32) {
        let f = &mut self.flows[slot as usize];
        let (flow, owner) = (f.id, f.owner);
        let (events, undrained) = (&mut self.events, &mut self.sent_undrained);
        f.tx.abandon(row(&mut self.segs, slot), &mut self.out, &mut |m| {
            *undrained += 1;
            events.push_back(Event::Sent { flow, owner, buf: m.buf, token: m.token, delivered: false });
        });
        let freed = f.rx.abandon(row(&mut self.msgs, slot), &mut self.memory, owner);
        self.recv_messages = self.recv_messages.saturating_sub(freed);
    }

    /// A connection attempt failed.
    pub(crate) fn fail_connect(&mut self, slot: u32, _now: Instant, reason: ConnectFailure) {
        self.abandon(slot);
        let f = &mut self.flows[slot as usize];
        f.closed_told = true;
        self.events.push_back(Event::ConnectFailed { flow: f.id, owner: f.owner, token: f.token, reason });
        self.retire(slot);
    }

    /// Frees the slot. It stays in the list of flows with work if it is there: to look for it would take as many steps as
    /// there are flows.
    pub(crate) fn retire(&mut self, slot: u32) {
        self.timers.disarm(slot);
        let f = &mut self.flows[slot as usize];
        if f.state == State::Accepting {
            self.pending -= u32::from(f.shield == Shield::Pending);
            self.legs.get_mut(f.leg).no_longer_half_open(f.listener);
        }
        if std::mem::take(&mut f.is_accepted) {
            self.peers.remove(peers::key(f.remote.ip()));
        }
        // Whichever way a flow ends, nothing of it may be left for the next one in its place.
        debug_assert_eq!(f.rx.open(), 0, "a flow retires with messages in its rows");
        let freed = f.rx.abandon(row(&mut self.msgs, slot), &mut self.memory, f.owner);
        self.recv_messages = self.recv_messages.saturating_sub(freed);
        if std::mem::take(&mut f.rx.came_in_pieces) {
            pieces_row(&mut self.pieces, slot).fill(0);
        }
        f.route_retry_at = Instant::FAR_FUTURE;
        let peer = (f.remote, f.remote_cid);
        if f.remote_cid != 0 && self.by_remote.get(&peer) == Some(&Known::Flow(slot).number()) {
            self.by_remote.remove(&peer);
        }
        self.udp_ports[usize::from(f.local.port())] -= 1;
        if f.held > 0 {
            *self.orphans.entry(f.owner).or_insert(0) += f.held;
        }
        f.state = State::Free;
        f.template = None;
        if f.shield != Shield::Plain {
            self.forget_keys(slot);
        }
        self.counters.flows_closed.add(1);
        self.free.push(slot);
        if cfg!(debug_assertions) {
            self.audit_retired(slot);
        }
    }

    /// Both halves may have ended: tells the application and lets the flow linger.
    pub(crate) fn after_progress(&mut self, slot: u32, now: Instant) {
        let f = &mut self.flows[slot as usize];
        if f.state == State::Lingering && f.rx.ack_now {
            // The peer repeats itself, having missed our last acknowledgement. It may miss this one too, and wait as long as
            // time-outs get before it asks again.
            f.linger(now, self.config.linger.max(self.config.timeout_max));
        }
        if f.state != State::Open {
            return;
        }
        if f.rx.is_finished() && !f.closing {
            self.tell_closed(slot, CloseReason::Peer);
            self.begin_close(slot, now);
        }
        let f = &mut self.flows[slot as usize];
        if f.is_over() {
            self.tell_closed(slot, CloseReason::Local);
            let f = &mut self.flows[slot as usize];
            f.state = State::Lingering;
            f.linger(now, self.config.linger);
            self.settle(slot, now);
        }
    }
}
