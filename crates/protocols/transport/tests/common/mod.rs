//! Hosts with the message transport in a simulated world.
#![allow(dead_code)]

use barewire_base::{Duration, Instant, Prng};
use barewire_frame::{Frame, Pool};
use barewire_host::{Endpoint as _, Host, HostConfig, Input};
use barewire_sim::{ExactlyOnce, LinkConfig, LinkId, Node, NodeId, Order, World, content_hash};
use barewire_transport::security::{Peer, PrivateKey};
use barewire_transport::*;
use barewire_wire::MacAddr;
use barewire_wire::msg::{Header, Kind};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub mod forge;
pub mod rogue;

/// Message memory that a test can write to and read from.
pub trait TestMemory: Memory + 'static {
    fn reserve(&mut self, owner: u32, len: u32) -> Option<SendBuf>;
    fn send_bytes(&mut self, buf: SendBuf) -> &mut [u8];
    fn release_send(&mut self, buf: SendBuf);
    fn recv_bytes(&self, buf: RecvBuf) -> &[u8];
    /// Bytes free to send from and to receive into.
    fn available(&self) -> (u64, u64);
}

impl TestMemory for HeapMemory {
    fn reserve(&mut self, _owner: u32, len: u32) -> Option<SendBuf> {
        HeapMemory::reserve(self, len)
    }
    fn send_bytes(&mut self, buf: SendBuf) -> &mut [u8] {
        HeapMemory::send_bytes(self, buf)
    }
    fn release_send(&mut self, buf: SendBuf) {
        assert!(HeapMemory::release_send(self, buf), "given back twice");
    }
    fn recv_bytes(&self, buf: RecvBuf) -> &[u8] {
        HeapMemory::recv_bytes(self, buf)
    }
    fn available(&self) -> (u64, u64) {
        HeapMemory::available(self)
    }
}

/// How the peers of a secured world know each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// By address: pattern IK.
    Known,
    /// By key only, wherever it is: pattern XX.
    Anywhere,
}

impl Trust {
    /// Both in turn.
    pub fn of(seed: u64) -> Trust {
        if seed.is_multiple_of(2) { Trust::Known } else { Trust::Anywhere }
    }
}

thread_local! {
    static TRUST: std::cell::Cell<Option<Trust>> = const { std::cell::Cell::new(None) };
}

/// Runs `test` with every station that it makes encrypting, and trusting the others.
pub fn secured<R>(trust: Trust, test: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            TRUST.set(None);
        }
    }
    TRUST.set(Some(trust));
    let _restore = Restore;
    test()
}

/// The private key of station `n`.
pub fn private_key(n: u8) -> PrivateKey {
    let mut bytes = [n; 32];
    bytes[31] = 0x42;
    PrivateKey::from_bytes(bytes)
}

/// Station `n` as others trust it.
pub fn peer(n: u8, trust: Trust) -> Peer {
    let addresses = match trust {
        Trust::Known => vec![ip(n, false).into(), ip(n, true).into()],
        Trust::Anywhere => vec![],
    };
    Peer { name: format!("station {n}"), key: private_key(n).public(), addresses }
}

/// The keys of station `n`, which trusts stations 1 to 3. Keys change as often as they may.
pub fn security(n: u8, trust: Trust) -> Security {
    let mut security = Security::new(private_key(n));
    for other in (1..=3).filter(|other| *other != n) {
        assert!(security.trust(peer(other, trust)));
    }
    security.rekey = barewire_transport::security::REKEY_MIN;
    security
}

pub type OnMessage = Box<dyn FnMut(Instant, FlowId, &[u8])>;

/// A host with an endpoint: what an engine makes of them, without a port.
pub struct Station<M: TestMemory = HeapMemory> {
    pub host: Host,
    pub endpoint: Endpoint<M>,
    /// Memory that was free when there was nothing to keep.
    pub all_free: (u64, u64),
    pub pool: Pool,
    pub events: VecDeque<Event>,
    /// Owners whose received messages stay where they are until `read`.
    pub idle_owners: Vec<u32>,
    pub held: VecDeque<(FlowId, RecvBuf)>,
    /// Every received message is sent back.
    pub echo: bool,
    pub keep: bool,
    pub inbox: Vec<(FlowId, Vec<u8>)>,
    /// Sees each message.
    pub on_message: Option<OnMessage>,
    pub received: u64,
    pub received_bytes: u64,
    pub sent: Vec<(u64, bool)>,
    pub last_sent: Instant,
    pub now: Instant,
}

pub fn ip(n: u8, v6: bool) -> IpAddr {
    if v6 { format!("fd00::{n:x}").parse().unwrap() } else { IpAddr::from([10, 0, 0, n]) }
}

pub fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

impl Station {
    pub fn new(n: u8, pool: Pool, config: Config) -> Station {
        Station::with_memory(n, pool, config, HeapMemory::new(16 << 20, 16 << 20))
    }
}

impl<M: TestMemory> Station<M> {
    pub fn with_memory(n: u8, pool: Pool, config: Config, memory: M) -> Station<M> {
        let mut secret = [n; 32];
        secret[0] = 0x5e;
        Self::with_secret(n, pool, config, memory, secret)
    }

    pub fn with_secret(n: u8, pool: Pool, config: Config, memory: M, secret: [u8; 32]) -> Station<M> {
        let mut host = HostConfig::new(MacAddr(mac(n)));
        host.ipv4 = vec![([10, 0, 0, n].into(), 16)];
        host.ipv6 = vec![(format!("fd00::{n:x}").parse().unwrap(), 64)];
        let mut config = config;
        if let Some(trust) = TRUST.get() {
            let mut security = security(n, trust);
            // Who is known by address is encrypted with in any case; others may be there, too.
            security.require = trust == Trust::Anywhere;
            config.security = Some(Arc::new(security));
        }
        Station {
            all_free: memory.available(),
            host: Host::new(host),
            endpoint: Endpoint::new(config, memory, secret).unwrap(),
            pool,
            events: VecDeque::new(),
            idle_owners: vec![],
            held: VecDeque::new(),
            echo: false,
            keep: true,
            inbox: vec![],
            on_message: None,
            received: 0,
            received_bytes: 0,
            sent: vec![],
            last_sent: Instant::ZERO,
            now: Instant::ZERO,
        }
    }

    pub fn send(&mut self, flow: FlowId, bytes: &[u8], token: u64) -> Result<(), SendError> {
        self.send_as(0, flow, bytes, token)
    }

    pub fn send_as(&mut self, owner: u32, flow: FlowId, bytes: &[u8], token: u64) -> Result<(), SendError> {
        let memory = self.endpoint.memory_mut();
        let buf = memory.reserve(owner, bytes.len() as u32).ok_or(SendError::WouldBlock)?;
        memory.send_bytes(buf).copy_from_slice(bytes);
        let now = self.now;
        let result = self.endpoint.send(now, flow, buf, token);
        if result.is_err() {
            self.endpoint.memory_mut().release_send(buf);
        }
        result
    }

    fn settle(&mut self, now: Instant) {
        while self.host.poll_event().is_some() {
            self.endpoint.routes_changed(now);
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Received { flow, buf, owner } => {
                    self.held.push_back((flow, buf));
                    if !self.idle_owners.contains(&owner) {
                        self.read_last(now);
                    }
                }
                Event::Sent { buf, token, delivered, .. } => {
                    self.endpoint.memory_mut().release_send(buf);
                    self.sent.push((token, delivered));
                    self.last_sent = now;
                }
                other => self.events.push_back(other),
            }
        }
    }

    fn read_last(&mut self, now: Instant) {
        let (flow, buf) = self.held.pop_back().expect("a message is held");
        self.take(now, flow, buf);
    }

    /// Reads the message that has waited longest.
    pub fn read_one(&mut self, now: Instant) -> bool {
        let Some((flow, buf)) = self.held.pop_front() else { return false };
        self.take(now, flow, buf);
        true
    }

    fn take(&mut self, now: Instant, flow: FlowId, buf: RecvBuf) {
        self.received += 1;
        self.received_bytes += u64::from(buf.len);
        let bytes = self.endpoint.memory().recv_bytes(buf);
        if let Some(on_message) = &mut self.on_message {
            on_message(now, flow, bytes);
        }
        let copy = if self.echo || self.keep { bytes.to_vec() } else { vec![] };
        self.endpoint.release(now, flow, buf);
        if self.echo {
            self.send(flow, &copy, 0).expect("room to send back");
        }
        if self.keep {
            self.inbox.push((flow, copy));
        }
    }

    pub fn flow_from(&self) -> Option<FlowId> {
        self.events.iter().find_map(|e| match e {
            Event::Connected { flow, .. } | Event::Accepted { flow, .. } => Some(*flow),
            _ => None,
        })
    }

    /// Reasons of all `Closed` events so far.
    pub fn closes(&self) -> Vec<CloseReason> {
        self.events
            .iter()
            .filter_map(|e| match e {
                Event::Closed { reason, .. } => Some(*reason),
                _ => None,
            })
            .collect()
    }

    pub fn closed_of(&self, id: FlowId) -> Vec<CloseReason> {
        self.events
            .iter()
            .filter_map(|e| match e {
                Event::Closed { reason, flow, .. } if *flow == id => Some(*reason),
                _ => None,
            })
            .collect()
    }

    pub fn connect_failures(&self) -> Vec<ConnectFailure> {
        self.events
            .iter()
            .filter_map(|e| match e {
                Event::ConnectFailed { reason, .. } => Some(*reason),
                _ => None,
            })
            .collect()
    }

    pub fn count(&self, name: &str) -> u64 {
        self.endpoint.counters().iter().find(|c| c.0 == name).unwrap_or_else(|| panic!("{name}")).1
    }

    pub fn drops(&self, reason: barewire_base::DropReason) -> u64 {
        self.endpoint.counters().drops.get(reason)
    }
}

impl<M: TestMemory> Node for Station<M> {
    fn handle_frame(&mut self, now: Instant, mut frame: Frame) {
        self.now = now;
        match self.host.handle_frame(now, &frame) {
            // As an engine does: what nobody serves goes to the endpoint all the same, for its refusals.
            Input::Udp(datagram) => {
                self.endpoint.handle_datagram(now, &datagram, datagram.payload_mut(&mut frame));
            }
            Input::PortUnreachable(quoted) => {
                self.endpoint.handle_port_unreachable(now, &quoted, quoted.payload(&frame));
            }
            Input::Consumed | Input::Drop(_) => {}
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.host.handle_timeout(now);
        self.endpoint.handle_timeout(now);
        self.settle(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        self.now = now;
        self.settle(now);
        let mut frame = self.pool.alloc()?;
        if self.host.poll_transmit(now, &mut frame) {
            return Some(frame);
        }
        let sent = self.endpoint.poll_transmit(now, &mut self.host, &mut frame);
        self.settle(now);
        if sent {
            return Some(frame);
        }
        // Resolving an address may have given the host something to send.
        self.host.poll_transmit(now, &mut frame).then_some(frame)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        match (self.host.poll_timeout(), self.endpoint.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

pub const PORT: u16 = 888;

/// Two stations on one link; the second listens.
pub struct Pair {
    pub world: World,
    pub a: NodeId,
    pub b: NodeId,
    pub link: LinkId,
}

pub fn pair(seed: u64, link: LinkConfig, config: &Config) -> Pair {
    pair_with(seed, link, config, config)
}

pub fn pair_with(seed: u64, link: LinkConfig, client: &Config, server: &Config) -> Pair {
    pair_of(seed, link, client, server, 16 << 20)
}

/// A pair whose stations have `memory` bytes to send from and as many to receive into.
pub fn pair_of(seed: u64, link: LinkConfig, client: &Config, server: &Config, memory: usize) -> Pair {
    pair_with_memory(seed, link, client, server, || HeapMemory::new(memory, memory))
}

/// A pair whose stations have such memory.
pub fn pair_with_memory(
    seed: u64,
    link: LinkConfig,
    client: &Config,
    server: &Config,
    memory: impl Fn() -> HeapMemory,
) -> Pair {
    let mut world = World::new(seed);
    let pool = world.pool().clone();
    let a = world.add_node(Box::new(Station::with_memory(1, pool.clone(), client.clone(), memory())));
    let mut server = Station::with_memory(2, pool, server.clone(), memory());
    server.endpoint.listen(PORT, 0, 7).unwrap();
    let b = world.add_node(Box::new(server));
    let link = world.connect(a, b, link);
    Pair { world, a, b, link }
}

impl Pair {
    pub fn a(&mut self) -> &mut Station {
        let now = self.world.local_now(self.a);
        let station = self.world.node_mut::<Station>(self.a);
        station.now = now;
        station
    }

    pub fn b(&mut self) -> &mut Station {
        let now = self.world.local_now(self.b);
        let station = self.world.node_mut::<Station>(self.b);
        station.now = now;
        station
    }

    /// Asks for a flow from the first station to the second one.
    pub fn connect(&mut self, ordered: bool, v6: bool) -> FlowId {
        connect(&mut self.world, self.a, 1, 2, ordered, v6)
    }

    /// An open flow, as both ends name it, on whatever link there is.
    pub fn open(&mut self) -> (FlowId, FlowId) {
        let flow = self.connect(true, false);
        let (a, b) = (self.a, self.b);
        let before = self.world.node::<Station>(b).events.len();
        let accepted = |w: &World| {
            w.node::<Station>(b).events.iter().skip(before).find_map(|e| match e {
                Event::Accepted { flow, .. } => Some(*flow),
                _ => None,
            })
        };
        let connected = |w: &World| {
            w.node::<Station>(a)
                .events
                .iter()
                .any(|e| matches!(e, Event::Connected { flow: f, .. } if *f == flow))
        };
        self.world.run_while(secs(5), |w| !connected(w) || accepted(w).is_none()).unwrap_done();
        let peer = accepted(&self.world).unwrap();
        (flow, peer)
    }

    pub fn run(&mut self, time: Duration) {
        assert_eq!(self.world.run_for(time), barewire_sim::Outcome::Done);
    }

    /// Everything is closed, freed and back where it came from.
    pub fn assert_clean(self) {
        for n in [self.a, self.b] {
            assert_idle(self.world.node::<Station>(n));
        }
        self.world.close().unwrap();
    }
}

/// No flow, no message, and all memory free.
pub fn assert_idle<M: TestMemory>(s: &Station<M>) {
    assert_eq!(s.endpoint.flows_used(), 0, "{:?}", s.endpoint.flows().collect::<Vec<_>>());
    assert_eq!(s.endpoint.lingering(), 0);
    assert_eq!(s.endpoint.messages_under_way(), 0);
    assert_eq!(s.endpoint.received_messages(), 0);
    assert_eq!(s.held.len(), 0);
    assert_eq!(s.endpoint.memory().available(), s.all_free);
}

/// Asks for a flow between two stations by their numbers.
pub fn connect(world: &mut World, node: NodeId, from: u8, to: u8, ordered: bool, v6: bool) -> FlowId {
    let now = world.local_now(node);
    let station = world.node_mut::<Station>(node);
    station.now = now;
    let (local, remote) = (SocketAddr::new(ip(from, v6), 0), SocketAddr::new(ip(to, v6), PORT));
    station.endpoint.connect(now, 0, local, remote, ordered, 42).unwrap()
}

pub fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Bytes that no other message has.
pub fn message(id: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xa5; len];
    Prng::new(id).fill(&mut bytes);
    bytes
}

/// What a frame carries, if it is one of the transport's.
pub fn kind_of(frame: &[u8]) -> Option<(Kind, Header)> {
    let packet = packet_of(frame)?;
    let header = Header::parse(packet).ok()?;
    Some((header.kind, header))
}

/// The UDP payload of an untagged frame.
pub fn packet_of(frame: &[u8]) -> Option<&[u8]> {
    match frame.get(12..14)? {
        [0x08, 0x00] if frame.get(23)? == &17 => frame.get(42..),
        [0x86, 0xdd] if frame.get(20)? == &17 => frame.get(62..),
        _ => None,
    }
}

/// Checks one direction of one flow. Ordered flows know a message by its place, others by what it says.
pub struct Ledger {
    pub check: ExactlyOnce,
    ordered: bool,
    by_hash: HashMap<u64, VecDeque<u64>>,
    next_sent: u64,
    next_received: u64,
}

impl Ledger {
    pub fn new(ordered: bool) -> Ledger {
        Ledger {
            check: ExactlyOnce::new(if ordered { Order::InOrder } else { Order::Unordered }),
            ordered,
            by_hash: HashMap::new(),
            next_sent: 0,
            next_received: 0,
        }
    }

    pub fn sent(&mut self, bytes: &[u8]) {
        self.check.sent(self.next_sent, bytes);
        self.by_hash.entry(content_hash(bytes)).or_default().push_back(self.next_sent);
        self.next_sent += 1;
    }

    pub fn received(&mut self, bytes: &[u8]) {
        let id = if self.ordered {
            self.next_received
        } else {
            let known = self.by_hash.get_mut(&content_hash(bytes));
            known.and_then(|ids| ids.pop_front()).unwrap_or(u64::MAX)
        };
        self.next_received += 1;
        self.check.received(id, bytes);
    }
}
