//! Engines that share a host and its interface, each with its own host, flows and queue, against a peer on the same link: whichever
//! queue a frame comes in on, nothing that is said is lost.

use super::*;
use barewire_base::{Counter, Duration, Prng};
use barewire_host::{Host, HostConfig};
use barewire_transport::{Config, ConnectFailure, Endpoint, Event, FlowId, HeapMemory, SendError};
use barewire_wire::MacAddr;
use std::net::Ipv4Addr;

#[path = "scaling_tests.rs"]
mod scaling;

const PORT: u16 = 888;

/// What comes in on which engine's queue.
type Deal = fn(&[u8], engines: usize, turn: usize) -> usize;

struct Engine {
    stack: Stack<HeapMemory>,
    links: Option<Links>,
    events: Vec<Event>,
    received: Vec<Vec<u8>>,
}

impl Engine {
    /// A cycle as the agent's.
    fn cycle(&mut self, now: Instant) {
        if let Some(links) = &mut self.links {
            links.receive(now, &mut self.stack);
        }
        let steering = self.links.as_mut().map(|l| l as &mut (dyn Steering + 'static));
        self.stack.transmit_steered(now, steering).unwrap();
        let steering = self.links.as_mut().map(|l| l as &mut (dyn Steering + 'static));
        self.stack.receive(now, steering).unwrap();
        if let Some(links) = &mut self.links {
            links.flush(now);
        }
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Received { flow, buf, .. } => {
                    self.received.push(self.stack.endpoint().memory().recv_bytes(buf).to_vec());
                    self.stack.endpoint_mut().release(now, flow, buf);
                }
                Event::Sent { buf, .. } => {
                    assert!(self.stack.endpoint_mut().memory_mut().release_send(buf));
                }
                other => self.events.push(other),
            }
        }
    }

    fn send(&mut self, now: Instant, flow: FlowId, bytes: &[u8]) {
        assert!(self.try_send(now, flow, bytes), "no room");
    }

    /// False: there is no room now.
    fn try_send(&mut self, now: Instant, flow: FlowId, bytes: &[u8]) -> bool {
        let endpoint = self.stack.endpoint_mut();
        let Some(buf) = endpoint.memory_mut().reserve(bytes.len() as u32) else { return false };
        endpoint.memory_mut().send_bytes(buf).copy_from_slice(bytes);
        match endpoint.send(now, flow, buf, 0) {
            Ok(()) => true,
            Err(SendError::WouldBlock) => {
                assert!(endpoint.memory_mut().release_send(buf));
                false
            }
            Err(e) => panic!("{e}"),
        }
    }
}

/// Several engines of host 1 and the one of host 2, and the cable.
struct World {
    engines: Vec<Engine>,
    /// The hands in the cable, one for each engine; the peer's is the last.
    hands: Vec<MemoryPort>,
    deal: Deal,
    turn: usize,
    now: Instant,
    pool: Pool,
    peer_mac: MacAddr,
    /// Of a hundred frames the cable loses so many.
    loss: u64,
    chance: Prng,
    /// Whether an engine has no core at this time.
    stands_still: fn(Instant, usize) -> bool,
}

/// A port without queues to choose from.
fn anywhere() -> Vec<PortUri> {
    vec!["mem:anywhere".parse().unwrap()]
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn ip(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

#[derive(Clone, Copy)]
struct Shape {
    engines: u8,
    mtu: u16,
    vlan: Option<u16>,
    deal: Deal,
}

const PLAIN: Shape = Shape { engines: 3, mtu: 1500, vlan: None, deal: |_, _, _| 0 };

fn engine(end: MemoryEnd, shape: &Shape, host: u8, mac: MacAddr, engine: u8, links: Option<Links>) -> Engine {
    let pool = Pool::new(pool_config(shape.mtu)).unwrap();
    let mut config = HostConfig::new(mac);
    config.ipv4 = vec![(ip(host), 24)];
    (config.vlan, config.mtu) = (shape.vlan, shape.mtu);
    let transport = Config { mtu: shape.mtu, engine, ..Config::default() };
    let memory = HeapMemory::new(1 << 20, 1 << 20);
    let endpoint = Endpoint::new(transport, memory, [host * 16 + engine; 32]).unwrap();
    let stack = Stack::new(Box::new(end.open(pool.clone())), pool, Host::new(config), endpoint);
    Engine { stack, links, events: vec![], received: vec![] }
}

impl World {
    fn new(shape: Shape) -> World {
        let pool = Pool::new(pool_config(shape.mtu)).unwrap();
        let cable = || {
            let config = MemoryConfig { slots: 1024, ..link_config(shape.mtu) };
            let (end, hand) = MemoryLink::new(config).unwrap();
            (end, hand.open(pool.clone()))
        };
        let (mut engines, mut hands) = (vec![], vec![]);
        for (links, own) in link_all(shape.engines, shape.mtu).unwrap().into_iter().zip(0..) {
            let (end, hand) = cable();
            engines.push(engine(end, &shape, 1, mac(1), own, Some(links.open(anywhere()).unwrap())));
            hands.push(hand);
        }
        let (end, hand) = cable();
        engines.push(engine(end, &shape, 2, mac(2), 0, None));
        hands.push(hand);
        let now = Instant::from_nanos(1_000_000_000);
        World {
            engines,
            hands,
            deal: shape.deal,
            turn: 0,
            now,
            pool,
            peer_mac: mac(2),
            loss: 0,
            chance: Prng::new(1),
            stands_still: |_, _| false,
        }
    }

    fn peer(&mut self) -> &mut Engine {
        self.engines.last_mut().unwrap()
    }

    fn cycle(&mut self) {
        for (e, engine) in self.engines.iter_mut().enumerate() {
            if !(self.stands_still)(self.now, e) {
                engine.cycle(self.now);
            }
        }
        self.carry();
        self.now += Duration::from_micros(20);
    }

    /// The cable's turn: what was sent is there.
    fn carry(&mut self) {
        let last = self.hands.len() - 1;
        for from in 0..self.hands.len() {
            let mut burst = Burst::new();
            while self.hands[from].rx_burst(self.now, &mut burst).unwrap() > 0 {
                while let Some(frame) = burst.pop() {
                    if self.chance.below(100) < self.loss {
                        continue;
                    }
                    let to = if from < last {
                        last
                    } else {
                        self.turn += 1;
                        (self.deal)(frame.data(), last, self.turn)
                    };
                    let group = frame.data()[0] & 1 == 1;
                    let reached = if to == last { self.peer_mac } else { mac(1) };
                    if !group && frame.data()[..6] != reached.0 {
                        continue;
                    }
                    let mut out = Burst::new();
                    let copy = self.pool.alloc_from(frame.data()).unwrap();
                    out.push(copy).unwrap();
                    self.hands[to].tx_burst(self.now, &mut out).unwrap();
                }
            }
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.cycle();
        }
    }

    fn listen(&mut self) {
        self.peer().stack.endpoint_mut().listen(PORT, 0, 0).unwrap();
    }

    fn connect(&mut self, engine: usize) -> FlowId {
        let now = self.now;
        let endpoint = self.engines[engine].stack.endpoint_mut();
        endpoint.connect(now, 0, (ip(1), 0).into(), (ip(2), PORT).into(), true, 0).unwrap()
    }

    fn is_open(&self, engine: usize, id: FlowId) -> bool {
        self.engines[engine].events.iter().any(|e| matches!(e, Event::Connected { flow, .. } if *flow == id))
    }

    fn count(&self, of: fn(&Stack<HeapMemory>) -> &Counter) -> u64 {
        self.engines.iter().map(|e| of(&e.stack).get()).sum()
    }
}

fn bytes(n: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i * 31 + n) as u8).collect()
}

/// Every engine connects, and says and hears things of all sizes.
fn all_is_said(shape: Shape) {
    let mut world = World::new(shape);
    world.listen();
    let engines = usize::from(shape.engines);
    let flows: Vec<_> = (0..engines).map(|e| world.connect(e)).collect();
    world.run(Duration::from_millis(50));
    for (e, &flow) in flows.iter().enumerate() {
        assert!(world.is_open(e, flow), "engine {e}: {:?}", world.engines[e].events);
    }
    let accepted = world.peer().events.iter().map(|e| match e {
        Event::Accepted { flow, .. } => *flow,
        other => panic!("{other:?}"),
    });
    let accepted: Vec<_> = accepted.collect();
    let lens = [0, 100, 1_400, usize::from(shape.mtu) - 100, 20_000, 60_000];
    for (n, &len) in lens.iter().enumerate() {
        let now = world.now;
        for (e, &flow) in flows.iter().enumerate() {
            world.engines[e].send(now, flow, &bytes(n as u64, len));
        }
        for &flow in &accepted {
            world.peer().send(now, flow, &bytes(n as u64, len));
        }
        world.run(Duration::from_millis(100));
    }
    let expected: Vec<_> = lens.iter().enumerate().map(|(n, &len)| bytes(n as u64, len)).collect();
    for e in 0..engines {
        assert!(
            world.engines[e].received == expected,
            "engine {e} heard {}",
            world.engines[e].received.len()
        );
    }
    assert_eq!(world.peer().received.len(), lens.len() * engines);
    for e in &world.engines {
        assert_eq!(e.stack.counters().drops.total(), 0);
        // Frames that overtake others on their way through the links may be repeated; none is waited for.
        assert_eq!(e.stack.endpoint().counters().timeouts.get(), 0, "something was lost");
    }
    assert!(world.count(|s| &s.counters().forwarded) > 0, "nothing changed hands");
}

const DEALS: [Deal; 3] = [
    // As a fanout by hash may: all on one queue.
    |_, _, _| 0,
    |_, engines, _| engines - 1,
    |_, engines, turn| turn % engines,
];

#[test]
fn frames_of_every_size_and_tag_reach_their_engine() {
    for deal in DEALS {
        for vlan in [None, Some(7)] {
            for mtu in [1500, 4000, 9000] {
                all_is_said(Shape { mtu, vlan, deal, ..PLAIN });
            }
        }
    }
}

#[test]
fn links_hold_what_a_frame_may_be() {
    for mtu in [256, 1500, 1902, 1903, 2048, 9000, 16_384, u16::MAX] {
        let (pool, link) = (Pool::new(pool_config(mtu)).unwrap(), link_config(mtu));
        let longest = (usize::from(mtu) + 18).min(1 << 16);
        assert!(pool.frame_max() >= longest && link.slot_bytes as usize >= longest, "{mtu}");
        link.check().unwrap();
    }
    assert_eq!((link_config(1500).slot_bytes, pool_config(1500).chunk_len), (2048, 2048));
}

#[test]
fn what_cannot_be_handed_on_is_counted_as_what_it_is() {
    let mut ends = link_all(2, 1500).unwrap();
    let mut links = ends.remove(0).open(anywhere()).unwrap();
    let pool = Pool::new(pool_config(9000)).unwrap();
    let frame = pool.alloc_from(&[0xa5; 5000]).unwrap();
    assert_eq!(links.give(1, 0, &frame), Steered::Lost(DropReason::TooLarge));
    // The sender's unfinished checksum is unfinished for the owner, too.
    let mut frame = pool.alloc_from(&[0xa5; 100]).unwrap();
    let partial = barewire_frame::ChecksumState::Partial { start: 34, offset: 6 };
    frame.set_checksum(partial);
    assert_eq!(links.give(1, 0, &frame), Steered::Given);
    links.flush(Instant::ZERO);
    let mut other = ends.remove(0).open(anywhere()).unwrap();
    let mut burst = Burst::new();
    let port = &mut other.links[0].as_mut().unwrap().port;
    assert_eq!(port.rx_burst(Instant::ZERO, &mut burst).unwrap(), 1);
    assert_eq!(burst.pop().unwrap().checksum(), partial);
    // Nor does it forget which port it came in on.
    assert_eq!(links.give(1, 15, &frame), Steered::Given);
    links.flush(Instant::ZERO);
    assert_eq!(port.rx_burst(Instant::ZERO, &mut burst).unwrap(), 1);
    assert_eq!(burst.pop().unwrap().port(), 15);
    let full: Vec<_> = (0..LINK_SLOTS + 100).map(|_| links.give(1, 0, &frame)).collect();
    let lost = full.iter().filter(|s| **s == Steered::Lost(DropReason::RingFull)).count();
    assert!(lost > 0);
    // All the others arrive: what a full link does not take at once it takes later.
    let mut arrived = 0;
    for _ in 0..100 {
        links.flush(Instant::ZERO);
        arrived += port.rx_burst(Instant::ZERO, &mut burst).unwrap();
        burst.clear();
    }
    assert_eq!(arrived + lost, full.len());
    assert!(links.prepare_wait());
}

/// Whatever one engine alone is told of a neighbour, all know.
#[test]
fn all_engines_hear_that_a_peer_has_moved() {
    for vlan in [None, Some(7)] {
        let shape = Shape { vlan, deal: |_, _, _| 1, ..PLAIN };
        let mut world = World::new(shape);
        world.listen();
        for e in 0..3 {
            let flow = world.connect(e);
            world.run(Duration::from_millis(20));
            assert!(world.is_open(e, flow));
        }
        // Known for longer than a claim is put off.
        world.run(Duration::from_millis(1_100));
        let (end, hand) = MemoryLink::new(MemoryConfig { slots: 1024, ..link_config(1500) }).unwrap();
        *world.hands.last_mut().unwrap() = hand.open(world.pool.clone());
        *world.peer() = engine(end, &shape, 2, mac(22), 0, None);
        world.peer_mac = mac(22);
        world.listen();
        // Its announcement alone: less than the silence takes that flows would notice.
        world.run(Duration::from_millis(400));
        for e in 0..3 {
            let known = world.engines[e].stack.host().neighbours().find(|n| n.ip == ip(2));
            assert_eq!(known.and_then(|n| n.mac), Some(mac(22)), "engine {e}, vlan {vlan:?}");
        }
    }
}

/// The UDP port of a flow may be another engine's listener's: one engine's after the flow's own, or one in the ephemeral range.
#[test]
fn a_reset_finds_its_flow_whoever_listens_on_its_port() {
    let mut world = World::new(PLAIN);
    world.listen();
    let flow = world.connect(0);
    world.run(Duration::from_millis(20));
    let port = world.engines[0].events.iter().find_map(|e| match e {
        Event::Connected { local, .. } => Some(local.port()),
        _ => None,
    });
    let links = world.engines[1].links.as_ref().unwrap();
    assert!(links.table().claim(port.unwrap(), links.own()));
    // The peer's daemon restarts.
    let (end, hand) = MemoryLink::new(MemoryConfig { slots: 1024, ..link_config(1500) }).unwrap();
    *world.hands.last_mut().unwrap() = hand.open(world.pool.clone());
    *world.peer() = engine(end, &PLAIN, 2, mac(2), 0, None);
    let now = world.now;
    world.engines[0].send(now, flow, b"anybody there?");
    world.run(Duration::from_millis(100));
    let last = world.engines[0].events.last();
    let reason = barewire_transport::CloseReason::PeerRestarted;
    assert!(matches!(last, Some(Event::Closed { reason: r, .. }) if *r == reason), "{last:?}");
}

#[test]
fn a_refusal_by_the_peers_kernel_reaches_who_asked() {
    for e in 0..3 {
        let mut world = World::new(Shape { deal: |_, _, _| 2, ..PLAIN });
        // The peer's transport is deaf, and its host is as any host without barewire.
        let peer = world.peer();
        let (pool, port) = (peer.stack.pool().clone(), world.hands.len() - 1);
        let flow = world.connect(e);
        let mut kernel = {
            let mut config = HostConfig::new(mac(2));
            config.ipv4 = vec![(ip(2), 24)];
            Host::new(config)
        };
        let end = world.now + Duration::from_millis(1_000);
        while world.now < end {
            let now = world.now;
            for engine in &mut world.engines[..3] {
                engine.cycle(now);
            }
            let mut answers = Burst::new();
            for from in 0..port {
                let mut burst = Burst::new();
                while world.hands[from].rx_burst(now, &mut burst).unwrap() > 0 {
                    while let Some(frame) = burst.pop() {
                        if let barewire_host::Input::Udp(datagram) = kernel.handle_frame(now, &frame) {
                            kernel.port_unreachable(&frame, &datagram);
                        }
                    }
                }
            }
            let mut frame = pool.alloc().unwrap();
            while kernel.poll_transmit(now, &mut frame) {
                answers.push(world.pool.alloc_from(frame.data()).unwrap()).unwrap();
                frame = pool.alloc().unwrap();
            }
            world.hands[2].tx_burst(now, &mut answers).unwrap();
            world.now += Duration::from_micros(200);
        }
        let refused = |event: &Event| matches!(event, Event::ConnectFailed { flow: f, reason: ConnectFailure::Refused, .. } if *f == flow);
        assert!(world.engines[e].events.iter().any(refused), "engine {e}: {:?}", world.engines[e].events);
    }
}

/// The queue that a card would choose: by the UDP port, so that half of the flows come in on the other engine's.
fn by_udp_port(data: &[u8], engines: usize, _: usize) -> usize {
    usize::from(data.get(37).copied().unwrap_or(0)) % engines
}

/// Two engines, two queues, one frame in five lost, and one of the engines without a core for 100 of each 150 ms: every message arrives
/// exactly once and in its turn, in both directions, whichever queue its flow's frames come in on.
#[test]
fn an_engine_that_is_stalled_again_and_again_loses_nothing() {
    const FLOWS: usize = 4;
    const MESSAGES: usize = 300;
    for (seed, deal) in [(1, by_udp_port as Deal), (2, by_udp_port), (3, DEALS[0]), (4, DEALS[2])] {
        let mut world = World::new(Shape { engines: 2, deal, ..PLAIN });
        world.listen();
        let flows: Vec<_> = (0..FLOWS).map(|i| (i % 2, world.connect(i % 2))).collect();
        world.run(Duration::from_millis(50));
        let mut accepted = vec![];
        for event in &world.peer().events {
            match event {
                Event::Accepted { flow, .. } => accepted.push(*flow),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(accepted.len(), FLOWS);
        (world.loss, world.chance) = (20, Prng::new(seed));
        world.stands_still = |now, engine| engine == 0 && now.as_nanos() / 1_000_000 % 150 >= 50;
        // Each message says whose it is and which: client's flow or server's, then its number; the rest follows from both.
        let say = |from: usize, n: usize| {
            let mut message = bytes((from * MESSAGES + n) as u64, 12 + (n * 37) % 4_000);
            message[..4].copy_from_slice(&(from as u32).to_be_bytes());
            message[4..8].copy_from_slice(&(n as u32).to_be_bytes());
            message
        };
        let all = FLOWS * MESSAGES;
        let heard = |world: &World| -> [usize; 2] {
            let (peer, engines) = world.engines.split_last().unwrap();
            [peer.received.len(), engines.iter().map(|e| e.received.len()).sum()]
        };
        // What each flow says next, clients first. Some five minutes of their time at most; seconds are enough.
        let mut said = [0; 2 * FLOWS];
        for _ in 0..150_000 {
            let now = world.now;
            for (from, n) in said.iter_mut().enumerate() {
                let (engine, flow) = match flows.get(from) {
                    Some((engine, flow)) => (&mut world.engines[*engine], *flow),
                    None => (world.engines.last_mut().unwrap(), accepted[from - FLOWS]),
                };
                *n += usize::from(*n < MESSAGES && engine.try_send(now, flow, &say(from, *n)));
            }
            if heard(&world) == [all, all] {
                break;
            }
            world.run(Duration::from_millis(2));
        }
        // Whatever is still under way may not arrive a second time.
        world.run(Duration::from_secs(1));
        assert_eq!(heard(&world), [all, all], "seed {seed}: {:?}", world.peer().events.last());
        let mut next = [0; 2 * FLOWS];
        for message in world.engines.iter().flat_map(|e| &e.received) {
            let word = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().unwrap()) as usize;
            let (from, n) = (word(0), word(4));
            assert_eq!(n, next[from], "seed {seed}: a message of {from} out of its turn");
            assert!(*message == say(from, n), "seed {seed}: message {n} of {from} is another");
            next[from] += 1;
        }
        assert_eq!(next, [MESSAGES; 2 * FLOWS]);
        assert!(world.count(|s| &s.counters().forwarded) > 100, "seed {seed}: nothing changed hands");
    }
}
