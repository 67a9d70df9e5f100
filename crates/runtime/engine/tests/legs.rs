//! A stack with two ports between two stacks with one: flows choose by route, and no port holds up what is another's.

use barewire_base::{DropReason, Duration, Instant, Prng};
use barewire_engine::Stack;
use barewire_frame::{Burst, Pool, PoolConfig};
use barewire_host::{Host, HostConfig};
use barewire_port::{MemoryConfig, MemoryLink, MemoryPort, Port, PortCaps, PortCounters, PortError};
use barewire_transport::{Config, ConnectFailure, Endpoint, Event, FlowId, HeapMemory, ListenError};
use barewire_wire::MacAddr;
use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

const UDP_PORT: u16 = 888;
const LEN: u32 = 20_000;
/// Slots of the cables: a port is soon full.
const SLOTS: u32 = 64;

/// An address of the left network, which a host on the right one has.
const LIAR: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 9);

/// The address of `host` on a cable's network.
fn ip(cable: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(10, cable, 0, host).into()
}

fn to(cable: u8, host: u8) -> SocketAddr {
    SocketAddr::new(ip(cable, host), UDP_PORT)
}

fn host(cable: u8, host: u8, mtu: u16) -> Host {
    let IpAddr::V4(v4) = ip(cable, host) else { unreachable!() };
    let mut ipv4 = vec![(v4, 24)];
    if (cable, host) == (2, 2) {
        // Whom it may say it is.
        ipv4.push((LIAR, 32));
    }
    Host::new(HostConfig { mtu, ipv4, ..HostConfig::new(MacAddr([2, 0, 0, 0, cable, host])) })
}

fn stack(port: Box<dyn Port>, pool: Pool, host: Host, seed: u8) -> Stack<HeapMemory> {
    let config = Config { flows_max: 256, mtu: host.config().mtu, ..Config::default() };
    let endpoint = Endpoint::new(config, HeapMemory::new(8 << 20, 8 << 20), [seed; 32]).unwrap();
    Stack::new(port, pool, host, endpoint)
}

/// What befalls the middle one's end of a cable.
#[derive(Default)]
struct Fate {
    /// Everything fails, and frames are lost, as by an interface that is set down.
    is_down: Cell<bool>,
    /// The share of frames that are lost each way.
    loss: Cell<f64>,
    /// The longest frame that was sent.
    longest: Cell<usize>,
    /// Who sent the last one.
    source: Cell<[u8; 6]>,
}

struct Cut {
    port: MemoryPort,
    fate: Rc<Fate>,
    random: Prng,
}

impl Cut {
    fn check(&self) -> Result<(), PortError> {
        if !self.fate.is_down.get() {
            return Ok(());
        }
        let source = io::Error::from(io::ErrorKind::NetworkDown);
        Err(PortError::Down { port: "cut".to_owned(), source })
    }
}

impl Cut {
    fn lose(&mut self, burst: &mut Burst) {
        for _ in 0..burst.len() {
            let frame = burst.pop().unwrap();
            if !self.random.chance(self.fate.loss.get()) {
                burst.push(frame).unwrap();
            }
        }
    }
}

impl Port for Cut {
    fn caps(&self) -> &PortCaps {
        self.port.caps()
    }
    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.check()?;
        let received = self.port.rx_burst(now, burst)?;
        self.lose(burst);
        Ok(received)
    }
    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.check()?;
        let longest = burst.iter().map(|frame| frame.len()).max().unwrap_or(0);
        self.fate.longest.set(self.fate.longest.get().max(longest));
        if let Some(source) = burst.iter().last().and_then(|frame| frame.data().get(6..12)) {
            self.fate.source.set(source.try_into().unwrap());
        }
        let before = burst.len();
        self.lose(burst);
        let lost = before - burst.len();
        Ok(lost + self.port.tx_burst(now, burst)?)
    }
    fn counters(&self) -> &PortCounters {
        self.port.counters()
    }
}

/// What came of a stack's flows.
#[derive(Default)]
struct Seen {
    connected: HashMap<u64, (FlowId, SocketAddr)>,
    failed: HashMap<u64, ConnectFailure>,
    /// Messages that came to which address of ours.
    received: HashMap<IpAddr, u64>,
    local_of: HashMap<FlowId, IpAddr>,
    sent: HashMap<FlowId, u64>,
    closed: u64,
}

struct Station {
    stack: Stack<HeapMemory>,
    seen: Seen,
    /// Flows that always have something to send.
    busy: Vec<FlowId>,
}

impl Station {
    fn connect(&mut self, now: Instant, remote: SocketAddr, token: u64) -> IpAddr {
        let source = self.stack.source_for(remote.ip(), None).expect("a way");
        self.connect_from(now, source, remote, token);
        source
    }

    fn connect_from(&mut self, now: Instant, source: IpAddr, remote: SocketAddr, token: u64) {
        let endpoint = self.stack.endpoint_mut();
        endpoint.connect(now, 0, SocketAddr::new(source, 0), remote, true, token).unwrap();
    }

    fn take_events(&mut self, now: Instant) {
        let seen = &mut self.seen;
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Connected { flow, token, local, .. } => {
                    seen.connected.insert(token, (flow, local));
                    seen.local_of.insert(flow, local.ip());
                }
                Event::Accepted { flow, local, .. } => {
                    seen.local_of.insert(flow, local.ip());
                }
                Event::ConnectFailed { token, reason, .. } => {
                    seen.failed.insert(token, reason);
                }
                Event::Received { flow, buf, .. } => {
                    let endpoint = self.stack.endpoint_mut();
                    let bytes = endpoint.memory().recv_bytes(buf);
                    assert!(bytes.len() == LEN as usize && bytes.iter().all(|b| *b == bytes[0]));
                    endpoint.release(now, flow, buf);
                    *seen.received.entry(seen.local_of[&flow]).or_insert(0) += 1;
                }
                Event::Sent { flow, buf, delivered, .. } => {
                    self.stack.endpoint_mut().memory_mut().release_send(buf);
                    *seen.sent.entry(flow).or_insert(0) += u64::from(delivered);
                }
                Event::Closed { .. } => seen.closed += 1,
                _ => {}
            }
        }
    }

    /// Keeps four messages of each busy flow under way.
    fn send(&mut self, now: Instant, sent: &mut HashMap<FlowId, u64>) {
        for &flow in &self.busy {
            let queued = sent.entry(flow).or_insert(0);
            while *queued < self.seen.sent.get(&flow).copied().unwrap_or(0) + 4 {
                let endpoint = self.stack.endpoint_mut();
                let Some(buf) = endpoint.memory_mut().reserve(LEN) else { break };
                endpoint.memory_mut().send_bytes(buf).fill(*queued as u8);
                endpoint.send(now, flow, buf, 0).unwrap();
                *queued += 1;
            }
        }
    }
}

/// The left one and the right one, and between them the one with two ports: on cable 1 and on cable 2.
struct World {
    left: Station,
    middle: Station,
    right: Station,
    now: Instant,
    /// Stations that get their turns.
    runs: [bool; 3],
    fates: [Rc<Fate>; 2],
    queued: HashMap<FlowId, u64>,
}

impl World {
    fn new() -> World {
        World::with([1500, 1500], 1)
    }

    fn with(mtus: [u16; 2], seed: u64) -> World {
        let pool = || Pool::new(PoolConfig::default()).unwrap();
        let station = |stack| Station { stack, seen: Seen::default(), busy: Vec::new() };
        let cable = || MemoryLink::new(MemoryConfig { slots: SLOTS, ..MemoryConfig::default() }).unwrap();
        let ((left, one), (two, right)) = (cable(), cable());
        let fates = [Rc::<Fate>::default(), Rc::default()];
        let mut random = Prng::new(seed);
        let shared = pool();
        let mut cut = |end: barewire_port::MemoryEnd, n: usize| {
            Box::new(Cut {
                port: end.open(shared.clone()),
                fate: Rc::clone(&fates[n]),
                random: random.fork(),
            })
        };
        let middle = stack(cut(one, 0), shared.clone(), host(1, 1, mtus[0]), 2);
        let middle = middle.with_leg(cut(two, 1), host(2, 1, mtus[1])).unwrap();
        let end = |end: barewire_port::MemoryEnd, cable, seed| {
            let pool = pool();
            station(stack(Box::new(end.open(pool.clone())), pool, host(cable, 2, 1500), seed))
        };
        World {
            left: end(left, 1, 1),
            middle: station(middle),
            right: end(right, 2, 3),
            now: Instant::from_nanos(1_000_000_000),
            runs: [true; 3],
            fates,
            queued: HashMap::new(),
        }
    }

    fn stations(&mut self) -> [&mut Station; 3] {
        [&mut self.left, &mut self.middle, &mut self.right]
    }

    fn run(&mut self, time: Duration) {
        self.run_by(Duration::from_micros(20), time);
    }

    /// With cycles so far apart.
    fn run_by(&mut self, step: Duration, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += step;
            let (now, runs, mut queued) = (self.now, self.runs, std::mem::take(&mut self.queued));
            for (station, runs) in self.stations().into_iter().zip(runs) {
                if runs {
                    station.send(now, &mut queued);
                    station.stack.poll(now).unwrap();
                    station.take_events(now);
                }
            }
            self.queued = queued;
        }
    }

    fn ends_listen(&mut self) {
        for end in [&mut self.left, &mut self.right] {
            let endpoint = end.stack.endpoint_mut();
            if !endpoint.listens(UDP_PORT) {
                endpoint.listen(UDP_PORT, 0, 0).unwrap();
            }
        }
    }

    /// Opens a flow from the middle to each end, and keeps both busy. Flow ids are an endpoint's own: one number for both.
    fn two_busy_flows(&mut self) -> [FlowId; 2] {
        self.ends_listen();
        let now = self.now;
        self.middle.connect(now, to(1, 2), 1);
        self.middle.connect(now, to(2, 2), 2);
        self.run(Duration::from_millis(20));
        let flows = [1, 2].map(|token| self.middle.seen.connected[&token].0);
        self.middle.busy = flows.to_vec();
        self.run(Duration::from_millis(20));
        flows
    }

    /// The longest frame that the middle one sent by each cable.
    fn longest(&self) -> [usize; 2] {
        [0, 1].map(|n| self.fates[n].longest.get())
    }

    /// Messages that the two ends have.
    fn arrived(&self) -> [u64; 2] {
        let of = |station: &Station| station.seen.received.values().sum();
        [of(&self.left), of(&self.right)]
    }
}

#[test]
fn flows_leave_by_the_port_that_leads_there() {
    let mut world = World::new();
    let (now, mut expected) = (world.now, Vec::new());
    for (token, remote) in [(1, to(1, 2)), (2, to(2, 2))] {
        world.middle.stack.endpoint_mut().listen(UDP_PORT + token as u16, 0, 0).unwrap();
        expected.push((token, world.middle.connect(now, remote, token)));
    }
    assert_eq!(expected, [(1, ip(1, 1)), (2, ip(2, 1))]);
    assert_eq!(world.middle.stack.source_for(ip(3, 1), None), None);
    let flows = world.two_busy_flows();
    for (token, source) in expected {
        assert_eq!(world.middle.seen.connected[&token].1.ip(), source);
    }
    world.run(Duration::from_millis(100));
    let [left, right] = world.arrived();
    assert!(left > 10 && right > 10, "{left} and {right} messages");
    for (leg, flow) in world.middle.stack.legs().iter().zip(flows) {
        let frames = leg.port().counters().tx_frames.get();
        assert!(frames > world.middle.seen.sent[&flow] * u64::from(LEN) / 1500, "{frames} frames");
    }
    // The other way: each end finds the listener at the address that it knows.
    world.middle.busy.clear();
    world.middle.stack.endpoint_mut().listen(UDP_PORT, 0, 0).unwrap();
    let now = world.now;
    world.left.connect(now, to(1, 1), 8);
    world.right.connect(now, to(2, 1), 9);
    world.run(Duration::from_millis(20));
    let (left, right) = (world.left.seen.connected[&8].0, world.right.seen.connected[&9].0);
    world.left.busy = vec![left];
    world.run(Duration::from_millis(50));
    world.left.busy.clear();
    world.queued.clear();
    world.right.busy = vec![right];
    world.run(Duration::from_millis(50));
    let received = &world.middle.seen.received;
    assert!(received[&ip(1, 1)] > 10 && received[&ip(2, 1)] > 10, "{received:?}");
    // From one port's address to the other's network there is no way: packets leave with an address of their own port.
    let now = world.now;
    world.middle.connect_from(now, ip(1, 1), to(2, 2), 10);
    world.run(Duration::from_millis(20));
    assert_eq!(world.middle.seen.failed[&10], ConnectFailure::Unreachable);
}

/// Who asks for a flow from an address of the other port's network is not who he says.
#[test]
fn a_stranger_who_is_at_home_on_the_other_port_opens_no_flow() {
    let mut world = World::new();
    world.middle.stack.endpoint_mut().listen(UDP_PORT, 0, 0).unwrap();
    let now = world.now;
    world.right.connect_from(now, LIAR.into(), to(2, 1), 1);
    world.run(Duration::from_millis(20));
    assert!(world.middle.stack.counters().drops.get(DropReason::WrongPeer) > 0);
    assert_eq!(world.middle.stack.endpoint().flows_used(), 0);
    // From its own address it does.
    let now = world.now;
    world.right.connect(now, to(2, 1), 2);
    world.run(Duration::from_millis(20));
    assert!(world.right.seen.connected.contains_key(&2));
    assert!(world.right.stack.endpoint_mut().flows_used() > 1, "the other attempt goes on");
}

/// What waits for a full port is work again after a while, not at once, and what another port may send is work now.
#[test]
fn a_port_that_takes_nothing_lets_its_owner_sleep() {
    let mut world = World::new();
    world.two_busy_flows();
    let now = world.now;
    for token in 100..140 {
        world.middle.connect(now, to(1, 2), token);
    }
    world.run(Duration::from_millis(10));
    let more: Vec<FlowId> = (100..140).map(|token| world.middle.seen.connected[&token].0).collect();
    world.middle.busy.extend(more);
    world.run(Duration::from_millis(10));
    world.runs[0] = false;
    world.run(Duration::from_millis(50));
    world.middle.busy.clear();
    let full = |world: &World| world.middle.stack.legs()[0].port().counters().tx_full.get();
    let was_full = full(&world);
    let mut wakes = 0;
    let end = world.now + Duration::from_millis(50);
    while world.now < end {
        let now = world.now;
        if world.middle.stack.next_deadline().is_some_and(|at| at <= now) {
            wakes += 1;
            world.middle.stack.poll(now).unwrap();
            world.middle.take_events(now);
        }
        world.right.stack.poll(now).unwrap();
        world.now += Duration::from_micros(20);
    }
    let tried = full(&world) - was_full;
    println!("awake {wakes} times, of which {tried} times it was offered");
    // Once a millisecond, and for timers: not in each of 2,500 steps.
    assert!((20..1_000).contains(&wakes) && tried > 20, "awake {wakes} times in 50 ms");
}

#[test]
fn an_address_of_the_other_port_is_reached_without_a_wire() {
    let mut world = World::new();
    world.middle.stack.endpoint_mut().listen(UDP_PORT, 0, 0).unwrap();
    let now = world.now;
    assert_eq!(world.middle.connect(now, to(2, 1), 1), ip(2, 1));
    world.run(Duration::from_millis(5));
    world.middle.busy = vec![world.middle.seen.connected[&1].0];
    world.run(Duration::from_millis(5));
    assert!(world.middle.seen.received[&ip(2, 1)] > 10);
    assert!(world.middle.stack.counters().looped.get() > 100);
}

#[test]
fn a_port_that_is_full_holds_up_its_own_flows_alone() {
    let mut world = World::new();
    let flows = world.two_busy_flows();
    // The left one does not read any more: its cable fills up. More flows there than a burst holds want to send.
    let now = world.now;
    for token in 100..140 {
        world.middle.connect(now, to(1, 2), token);
    }
    world.run(Duration::from_millis(10));
    let more: Vec<FlowId> = (100..140).map(|token| world.middle.seen.connected[&token].0).collect();
    world.middle.busy.extend(more);
    let undisturbed = world.arrived()[1];
    world.run(Duration::from_millis(40));
    let undisturbed = world.arrived()[1] - undisturbed;
    world.runs[0] = false;
    world.run(Duration::from_millis(10));
    let full = |world: &World| world.middle.stack.legs()[0].port().counters().tx_full.get();
    let (before, was_full) = (world.arrived(), full(&world));
    world.run(Duration::from_millis(40));
    let after = world.arrived();
    assert!(full(&world) > was_full + 100, "the left cable is full");
    assert_eq!(after[0], before[0]);
    let alone = after[1] - before[1];
    assert!(alone >= undisturbed, "{alone} messages to the right, {undisturbed} while the left one reads");
    // It reads again, and everything goes on.
    world.runs[0] = true;
    world.run(Duration::from_millis(100));
    assert!(world.arrived()[0] > after[0] + 10);
    assert!(world.middle.seen.sent[&flows[0]] > 0 && world.middle.seen.closed == 0);
}

#[test]
fn a_port_that_is_down_is_a_wire_that_is_cut() {
    let mut world = World::new();
    world.two_busy_flows();
    let mut lost_before = 0;
    for cut in [0, 1] {
        let other = 1 - cut;
        world.fates[cut].is_down.set(true);
        let before = world.arrived();
        world.run(Duration::from_millis(100));
        let after = world.arrived();
        // What was in the cable arrives.
        assert!(after[cut] <= before[cut] + 8, "{before:?} {after:?}");
        assert!(after[other] > before[other] + 10, "{before:?} {after:?}");
        let (number, error) = world.middle.stack.take_port_error().expect("one is down");
        assert!(number == cut && matches!(error, PortError::Down { .. }), "{number}: {error}");
        // It left its frames where they were, and they are lost.
        let lost = world.middle.stack.counters().drops.get(DropReason::PortDown);
        assert!(lost > lost_before && world.middle.stack.legs()[cut].port().counters().drops.total() == 0);
        lost_before = lost;
        world.fates[cut].is_down.set(false);
        world.run(Duration::from_millis(200));
        assert!(world.arrived()[cut] > after[cut] + 10, "{after:?} {:?}", world.arrived());
        while world.middle.stack.take_port_error().is_some() {}
        world.run(Duration::from_millis(1));
        assert!(world.middle.stack.take_port_error().is_none());
    }
    assert_eq!(world.middle.seen.closed, 0, "no flow ended");
}

#[test]
fn each_port_has_packets_of_its_own_size() {
    let mut world = World::with([600, 1500], 1);
    world.two_busy_flows();
    world.run(Duration::from_millis(50));
    assert_eq!(world.longest(), [614, 1514]);
    // Lowered on one, they stay what they are on the other; what was cut for more travels in pieces.
    let now = world.now;
    assert_eq!(world.middle.stack.set_mtu(now, 1, 1000), Ok(0));
    world.run(Duration::from_millis(20));
    world.fates[1].longest.set(0);
    let before = world.arrived();
    world.run(Duration::from_millis(50));
    let [other, own] = world.longest();
    // Pieces are cut at sixteenths.
    assert!(other == 614 && (900..=1014).contains(&own), "{other} and {own} bytes");
    let after = world.arrived();
    assert!(after[0] > before[0] && after[1] > before[1]);
    assert_eq!(world.middle.seen.closed, 0);
}

#[test]
fn a_mac_changes_on_its_port_alone() {
    let mut world = World::new();
    world.two_busy_flows();
    let (now, mac) = (world.now, MacAddr([2, 9, 9, 9, 9, 9]));
    world.middle.stack.set_mac(now, 1, mac);
    world.run(Duration::from_millis(100));
    let before = world.arrived();
    world.run(Duration::from_millis(50));
    let after = world.arrived();
    assert!(after[0] > before[0] + 5 && after[1] > before[1] + 5, "{before:?} {after:?}");
    let macs = [0, 1].map(|n| world.fates[n].source.get());
    assert_eq!(macs, [[2, 0, 0, 0, 1, 1], mac.0]);
}

#[test]
fn a_listener_at_one_address_is_nowhere_else() {
    let mut world = World::new();
    let endpoint = world.middle.stack.endpoint_mut();
    endpoint.listen_on(Some(ip(2, 1)), UDP_PORT, 0, 0).unwrap();
    assert_eq!(endpoint.listen(UDP_PORT, 1, 0), Err(ListenError::PortTaken));
    let now = world.now;
    world.left.connect(now, to(1, 1), 1);
    world.right.connect(now, to(2, 1), 2);
    world.run(Duration::from_millis(20));
    assert_eq!(world.left.seen.failed[&1], ConnectFailure::Refused);
    assert!(world.right.seen.connected.contains_key(&2));
    // Another owner's may be at the other.
    world.middle.stack.endpoint_mut().listen_on(Some(ip(1, 1)), UDP_PORT, 1, 0).unwrap();
    let now = world.now;
    world.left.connect(now, to(1, 1), 3);
    world.run(Duration::from_millis(20));
    assert!(world.left.seen.connected.contains_key(&3));
    let endpoint = world.middle.stack.endpoint_mut();
    assert!(endpoint.unlisten(UDP_PORT, 1) && !endpoint.unlisten(UDP_PORT, 1));
    let now = world.now;
    world.left.connect(now, to(1, 1), 4);
    world.run(Duration::from_millis(20));
    assert_eq!(world.left.seen.failed[&4], ConnectFailure::Refused);
}

/// Places in the table of flows are used again, by flows of whichever port; those that ended with something to send leave nothing behind.
#[test]
fn flows_take_each_others_places() {
    let mut world = World::new();
    world.ends_listen();
    for round in 0..100 {
        // In turns, one leg is full or down when its flows end.
        world.runs = [round % 4 != 1, true, round % 4 != 3];
        world.fates[0].is_down.set(round % 8 == 6);
        let now = world.now;
        for n in 0..10 {
            let cable = 1 + u8::from((round + n) % 3 == 0);
            world.middle.connect(now, to(cable, 2), round * 10 + n);
        }
        world.run(Duration::from_millis(2));
        let opened: Vec<FlowId> = world.middle.seen.connected.drain().map(|(_, (flow, _))| flow).collect();
        world.middle.busy = opened.clone();
        world.run(Duration::from_micros(400));
        world.middle.busy.clear();
        let all: Vec<FlowId> = world.middle.stack.endpoint().flows().map(|f| f.id).collect();
        for flow in all {
            world.middle.stack.endpoint_mut().reset(world.now, flow);
        }
        world.middle.take_events(world.now);
        assert_eq!(world.middle.stack.endpoint().audit(), Ok(()));
    }
    world.runs = [true; 3];
    world.fates[0].is_down.set(false);
    world.run_by(Duration::from_micros(500), Duration::from_secs(12));
    for station in world.stations() {
        assert_eq!(station.stack.endpoint().flows_used(), 0);
        assert_eq!(station.stack.endpoint().audit(), Ok(()));
    }
    let before = world.arrived();
    world.two_busy_flows();
    let after = world.arrived();
    assert!(after[0] > before[0] && after[1] > before[1], "{before:?} {after:?}");
}

/// Flows that end while their port is full leave their places in its list. What has such a place next, by the other port, is no matter of
/// the first.
#[test]
fn a_place_in_a_full_ports_list_is_its_next_flows() {
    let mut world = World::new();
    world.ends_listen();
    let now = world.now;
    for token in 0..40 {
        world.middle.connect(now, to(1 + u8::from(token % 2 == 1), 2), token);
    }
    world.run(Duration::from_millis(20));
    world.middle.busy = world.middle.seen.connected.values().map(|(flow, _)| *flow).collect();
    assert_eq!(world.middle.busy.len(), 40);
    world.runs = [false, true, false];
    world.run(Duration::from_millis(10));
    let waits = |world: &World, n: usize| world.middle.stack.legs()[n].port().counters().tx_full.get();
    assert!(waits(&world, 0) > 10 && waits(&world, 1) > 10, "both cables are full");
    let gone = |(_, local): &(FlowId, SocketAddr)| local.ip() == ip(1, 1);
    let gone: Vec<FlowId> = world.middle.seen.connected.values().filter(|c| gone(c)).map(|c| c.0).collect();
    world.middle.busy.retain(|flow| !gone.contains(flow));
    let now = world.now;
    for flow in gone {
        assert!(world.middle.stack.endpoint_mut().reset(now, flow));
    }
    for token in 100..120 {
        world.middle.connect(now, to(2, 2), token);
    }
    // The left one reads again, and its port goes through what waits there; the right one still does not.
    world.runs[0] = true;
    world.run(Duration::from_millis(10));
    assert!(world.middle.seen.failed.is_empty(), "{:?}", world.middle.seen.failed);
    world.runs[2] = true;
    world.run(Duration::from_millis(300));
    let opened = (100..120).filter(|token| world.middle.seen.connected.contains_key(token)).count();
    assert_eq!((opened, world.middle.seen.failed.len()), (20, 0));
}

/// With losses on both cables, and the one or the other cut for a while, every message arrives, once and whole.
#[test]
fn messages_arrive_through_losses_on_both_ports() {
    for seed in 1..=30 {
        let mut world = World::with([1500, 1500], seed);
        world.two_busy_flows();
        let mut random = Prng::new(seed);
        for fate in &world.fates {
            fate.loss.set(random.unit() * 0.1);
        }
        for _ in 0..5 {
            let cut = random.below(2) as usize;
            world.fates[cut].is_down.set(true);
            world.run(Duration::from_millis(random.below(40)));
            world.fates[cut].is_down.set(false);
            world.run(Duration::from_millis(random.below(40)));
        }
        world.middle.busy.clear();
        world.run_by(Duration::from_micros(500), Duration::from_secs(6));
        let queued: Vec<u64> = world.queued.values().copied().collect();
        let (sent, arrived) = (queued.iter().sum::<u64>(), world.arrived().iter().sum::<u64>());
        assert!(sent > 20 && sent == arrived, "seed {seed}: {sent} sent, {arrived} arrived");
        assert_eq!(world.middle.seen.sent.values().sum::<u64>(), sent, "seed {seed}: all are acknowledged");
        assert_eq!(world.middle.seen.closed, 0, "seed {seed}");
    }
}
