//! Flows and the neighbours that their packets go through: small tables that honest peers share with strangers, next hops that
//! are replaced without a word, hosts that say that nobody serves a port.

mod common;
use barewire_base::{DropReason, Instant};
use barewire_frame::{Frame, Pool};
use barewire_host::{Host, HostConfig, Input, NeighbourState};
use barewire_sim::{Direction, Hub, LinkConfig, Node, NodeId, Star, World};
use barewire_transport::*;
use barewire_wire::msg::{self, Kind};
use barewire_wire::{EtherType, MacAddr, Protocol, arp, eth, icmpv4, ipv4};
use common::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

/// Host `n` with MAC address `at`, which says nothing of itself.
fn host(n: u8, at: u8) -> HostConfig {
    let mut config = HostConfig::new(MacAddr(mac(at)));
    config.ipv4 = vec![([10, 0, 0, n].into(), 16)];
    config
}

fn station(pool: &Pool, n: u8, at: u8, neighbours: usize) -> Box<Station> {
    // Another secret after a restart, as it must be.
    let memory = HeapMemory::new(1 << 20, 1 << 20);
    let mut s = Station::with_secret(n, pool.clone(), Config::default(), memory, [at; 32]);
    s.host = Host::new(HostConfig { neighbours_max: neighbours, ..host(n, at) });
    s.endpoint.listen(PORT, 0, 7).unwrap();
    Box::new(s)
}

/// Stations 1 to `count` around a switch.
fn lan(seed: u64, count: u8, neighbours: usize) -> (World, Vec<NodeId>, Star) {
    let mut world = World::new(seed);
    let pool = world.pool().clone();
    let nodes: Vec<_> = (1..=count).map(|n| world.add_node(station(&pool, n, n, neighbours))).collect();
    let macs: Vec<_> = nodes.iter().zip(1..).map(|(&node, n)| (node, mac(n))).collect();
    let star = world.star(&macs, &LinkConfig::perfect(us(20)));
    (world, nodes, star)
}

fn s(world: &mut World, id: NodeId) -> &mut Station {
    let now = world.local_now(id);
    let station = world.node_mut::<Station>(id);
    station.now = now;
    station
}

/// Asks for a flow, and runs until it is open or has failed; says which, and how long it took.
fn try_connect(world: &mut World, node: NodeId, from: u8, to: u8) -> (Result<FlowId, ConnectFailure>, u64) {
    let start = world.now();
    let id = connect(world, node, from, to, true, false);
    let outcome = |w: &World| {
        w.node::<Station>(node).events.iter().find_map(|e| match e {
            Event::Connected { flow, .. } if *flow == id => Some(Ok(id)),
            Event::ConnectFailed { flow, reason, .. } if *flow == id => Some(Err(*reason)),
            _ => None,
        })
    };
    world.run_while(secs(20), |w| outcome(w).is_none()).unwrap_done();
    (outcome(world).unwrap(), world.now().since(start).as_nanos() / 1_000_000)
}

fn open(world: &mut World, node: NodeId, from: u8, to: u8) -> FlowId {
    try_connect(world, node, from, to).0.unwrap()
}

/// Runs for `seconds`; every 50 ms `spoil` may do as it likes, and each of `flows` sends a message.
fn talk(
    world: &mut World,
    seconds: u64,
    flows: &[(NodeId, FlowId)],
    mut spoil: impl FnMut(&mut World, u64),
) -> u64 {
    for step in 0..seconds * 20 {
        for &(node, _) in flows {
            assert_eq!(s(world, node).closes(), [], "after {step} steps");
        }
        spoil(world, step);
        for &(node, flow) in flows {
            s(world, node).send(flow, &message(step, 3_000), step).unwrap();
        }
        assert_eq!(world.run_for(ms(50)), barewire_sim::Outcome::Done);
    }
    seconds * 20 * flows.len() as u64
}

/// An INIT for a port where nobody listens, from address `from`, whoever that is.
fn spoofed_init(pool: &Pool, from: Ipv4Addr, to: u8, cid: u64) -> Frame {
    let mut body = vec![0; msg::INIT_LEN - msg::COMMON_LEN];
    body[..8].copy_from_slice(&cid.to_be_bytes());
    body[8..10].copy_from_slice(&1400u16.to_be_bytes());
    let packet = forge::packet(forge::header(Kind::Init, 0), &body);
    forge::frame(pool, (mac(99), mac(to)), (from, 7), ([10, 0, 0, to].into(), 999), &packet)
}

fn arp_question(pool: &Pool, from: Ipv4Addr, to: u8) -> Frame {
    let mut frame = pool.alloc().unwrap();
    assert!(frame.set_len(14 + arp::PACKET_LEN));
    let (src, data) = (MacAddr(mac(99)), frame.data_mut());
    eth::Repr { dst: MacAddr::BROADCAST, src, ethertype: EtherType::ARP }
        .emit(&mut eth::Packet::new_unchecked(&mut data[..]));
    arp::Repr {
        operation: arp::Operation::Request,
        sender_mac: src,
        sender_ip: from,
        target_mac: MacAddr::ZERO,
        target_ip: [10, 0, 0, to].into(),
    }
    .emit(&mut arp::Packet::new_unchecked(&mut data[14..]));
    frame
}

#[test]
fn strangers_neither_evict_who_is_in_use_nor_keep_others_out() {
    let (mut world, nodes, star) = lan(1, 4, 8);
    let pool = world.pool().clone();
    let victim = nodes[0];
    // One flow each way, so that the victim sends on the one and only receives on the other.
    let out = open(&mut world, victim, 1, 2);
    let into = open(&mut world, nodes[2], 3, 1);
    let mut stranger = 0u32;
    let spoil = |world: &mut World, _| {
        for _ in 0..16 {
            stranger += 1;
            let from = Ipv4Addr::from_bits(0x0a00_1000 + stranger % 40_000);
            world.inject(star.links[0], Direction::Reverse, spoofed_init(&pool, from, 1, stranger.into()));
            let from = Ipv4Addr::from_bits(0x0a00_c000 + stranger % 10_000);
            world.inject(star.links[0], Direction::Reverse, arp_question(&pool, from, 1));
        }
    };
    let sent = talk(&mut world, 75, &[(victim, out), (nodes[2], into)], spoil);
    for (node, flow) in [(victim, out), (nodes[2], into)] {
        assert_eq!(s(&mut world, node).closed_of(flow), []);
    }
    let received = s(&mut world, victim).received + s(&mut world, nodes[1]).received;
    assert_eq!(received, sent);
    let host = &s(&mut world, victim).host;
    for peer in [ip(2, false), ip(3, false)] {
        let entry = host.neighbours().find(|n| n.ip == peer);
        assert_eq!(entry.map(|n| n.state), Some(NeighbourState::Reachable), "{peer}");
    }
    let counters = host.counters();
    assert!(counters.neighbours_evicted.get() > 1_000, "the strangers were not felt");
    assert_eq!(host.generation(), 0, "flows had to look for their next hop again");
    assert_eq!(counters.neighbours_full.get(), 0);
    // As many as ICMP errors, and sometimes once more.
    assert!(counters.solicitations_sent.get() < 75 * 200, "{}", counters.solicitations_sent.get());
    // A new connection is made while they go on.
    let (result, took) = try_connect(&mut world, victim, 1, 4);
    assert!(result.is_ok() && took < 100, "{result:?} after {took} ms");
}

#[test]
fn a_table_smaller_than_the_peers_holds_up_none_of_them() {
    let (mut world, nodes, _) = lan(2, 12, 4);
    let server = nodes[0];
    let mut flows = vec![];
    for (n, &node) in (2u8..).zip(&nodes[1..]) {
        // Each takes a place of another, whose flow goes on as it did.
        let flow = open(&mut world, node, n, 1);
        flows.push((node, flow));
    }
    let sent = talk(&mut world, 70, &flows, |_, _| {});
    for &(node, flow) in &flows {
        assert_eq!(s(&mut world, node).closed_of(flow), []);
    }
    assert_eq!(s(&mut world, server).received, sent);
    let host = &s(&mut world, server).host;
    assert!(host.counters().neighbours_evicted.get() >= 7, "the table was not too small");
    assert_eq!((host.generation(), host.counters().neighbours_failed.get()), (0, 0));
    // Nobody displaces anybody but at the start: flows that are open need no look at the table.
    assert!(host.counters().solicitations_sent.get() < 100, "{}", host.counters().solicitations_sent.get());
}

#[test]
fn traffic_one_way_confirms_both_ways() {
    let (mut world, nodes, _) = lan(3, 2, 8);
    let flow = open(&mut world, nodes[0], 1, 2);
    let before = [0, 1].map(|i| s(&mut world, nodes[i]).host.counters().solicitations_sent.get());
    talk(&mut world, 100, &[(nodes[0], flow)], |_, _| {});
    for i in [0, 1] {
        let asked = s(&mut world, nodes[i]).host.counters().solicitations_sent.get() - before[i];
        assert_eq!(asked, 0, "station {} asked for what the flow proves", i + 1);
    }
    // Nor are questions needed for a flow on which nothing is said but that it lives.
    assert_eq!(world.run_for(secs(100)), barewire_sim::Outcome::Done);
    for i in [0, 1] {
        let asked = s(&mut world, nodes[i]).host.counters().solicitations_sent.get() - before[i];
        assert!(asked <= 1, "station {} asked {asked} times", i + 1);
        assert_eq!(s(&mut world, nodes[i]).closes(), []);
    }
}

/// Station 2 gets another card: what goes to the old address reaches nobody.
fn swap_card(world: &mut World, star: &Star) {
    world.node_mut::<Hub>(star.hub).attach(mac(22), 1);
}

#[test]
fn a_peer_that_comes_back_elsewhere_without_a_word_is_found() {
    // At whatever age of what is known of it.
    for age in [0, 300, 1_500, 20_000, 29_900, 31_500, 45_000] {
        for v in [false, true] {
            let (mut world, nodes, star) = lan(4 + age, 2, 8);
            let pool = world.pool().clone();
            let flow = open(&mut world, nodes[0], 1, 2);
            assert_eq!(world.run_for(ms(age)), barewire_sim::Outcome::Done);
            swap_card(&mut world, &star);
            world.restart(nodes[1], station(&pool, 2, 22, 8));
            if v {
                // The open flow finds out by itself that its peer is new.
                s(&mut world, nodes[0]).send(flow, b"are you there", 1).unwrap();
                let a = nodes[0];
                let start = world.now();
                world.run_while(secs(6), |w| w.node::<Station>(a).closes().is_empty()).unwrap_done();
                let took = world.now().since(start);
                assert_eq!(s(&mut world, a).closes(), [CloseReason::PeerRestarted], "age {age} ms");
                assert!(took < secs(4), "age {age} ms: {took}");
            }
            let (result, took) = try_connect(&mut world, nodes[0], 1, 2);
            assert!(result.is_ok() && took < 4_000, "age {age} ms: {result:?} after {took} ms");
        }
    }
}

#[test]
fn a_flow_survives_that_its_peer_gets_another_card() {
    for quiet in [false, true] {
        let (mut world, nodes, star) = lan(5, 2, 8);
        let flow = open(&mut world, nodes[0], 1, 2);
        talk(&mut world, 3, &[(nodes[0], flow)], |_, _| {});
        swap_card(&mut world, &star);
        s(&mut world, nodes[1]).host = Host::new(host(2, 22));
        let sent = if quiet {
            // Only the questions for a sign of life tell.
            assert_eq!(world.run_for(secs(20)), barewire_sim::Outcome::Done);
            talk(&mut world, 1, &[(nodes[0], flow)], |_, _| {})
        } else {
            talk(&mut world, 8, &[(nodes[0], flow)], |_, _| {})
        };
        assert_eq!(world.run_for(secs(1)), barewire_sim::Outcome::Done);
        assert_eq!(s(&mut world, nodes[0]).closes(), [], "quiet {quiet}");
        assert_eq!(s(&mut world, nodes[1]).received, sent + 60, "quiet {quiet}");
        let known = s(&mut world, nodes[0]).host.neighbours().next().unwrap();
        assert_eq!(known.mac, Some(MacAddr(mac(22))));
        assert_eq!(s(&mut world, nodes[0]).host.counters().neighbours_moved.get(), 1);
    }
}

#[test]
fn a_peer_that_is_silent_for_a_while_is_not_given_up_for_its_neighbour_entry() {
    // A stopped process answers no ARP either: after that the flow goes on where it was.
    let (mut world, nodes, _) = lan(6, 2, 8);
    let flow = open(&mut world, nodes[0], 1, 2);
    talk(&mut world, 2, &[(nodes[0], flow)], |_, _| {});
    world.pause_for(nodes[1], ms(4_000));
    let sent = talk(&mut world, 8, &[(nodes[0], flow)], |_, _| {});
    assert_eq!(s(&mut world, nodes[0]).closes(), []);
    assert_eq!(world.run_for(secs(1)), barewire_sim::Outcome::Done);
    assert_eq!(s(&mut world, nodes[1]).received, sent + 40);
    assert!(s(&mut world, nodes[0]).host.counters().neighbours_doubted.get() > 0);
}

#[test]
fn flows_wait_together_for_one_next_hop() {
    let (mut world, nodes, star) = lan(7, 3, 8);
    // Nobody hears the first questions; meanwhile some give up waiting, and their places are used again.
    world.set_direction(star.links[0], Direction::Forward, LinkConfig::down());
    let mut ids: Vec<_> = (0..50).map(|_| connect(&mut world, nodes[0], 1, 2, true, false)).collect();
    assert_eq!(world.run_for(ms(100)), barewire_sim::Outcome::Done);
    for id in ids.drain(..25) {
        let now = world.now();
        assert!(s(&mut world, nodes[0]).endpoint.close(now, id));
    }
    ids.extend((0..40).map(|_| connect(&mut world, nodes[0], 1, 3, true, false)));
    assert_eq!(world.run_for(ms(150)), barewire_sim::Outcome::Done);
    world.set_direction(star.links[0], Direction::Forward, LinkConfig::perfect(us(20)));
    assert_eq!(world.run_for(ms(2_000)), barewire_sim::Outcome::Done);
    let events = &s(&mut world, nodes[0]).events;
    for id in &ids {
        let open = |e: &Event| matches!(e, Event::Connected { flow, .. } if flow == id);
        assert_eq!(events.iter().filter(|e| open(e)).count(), 1);
    }
    assert_eq!(s(&mut world, nodes[0]).connect_failures(), [ConnectFailure::Cancelled; 25]);
    // Whoever waits goes on when the answer comes, and not when it would have asked again: at 10 ms, not at 20. Also in the
    // place of one that waited before.
    let (mut world, nodes, star) = lan(7, 3, 8);
    for to in [9, 2, 10, 3] {
        world.set_direction(star.links[0], Direction::Forward, LinkConfig::down());
        let up = world.now() + ms(5);
        let link = star.links[0];
        world.at(up, move |w| w.set_direction(link, Direction::Forward, LinkConfig::perfect(us(20))));
        let (result, took) = try_connect(&mut world, nodes[0], 1, to);
        match to {
            9 | 10 => assert_eq!((result, took), (Err(ConnectFailure::Unreachable), 3_000)),
            _ => assert!(result.is_ok() && took == 10, "{result:?} after {took} ms"),
        }
        if let Ok(flow) = result {
            let now = world.now();
            s(&mut world, nodes[0]).endpoint.reset(now, flow);
        }
    }
}

/// A host without barewire: its kernel answers that nobody serves the port.
struct Kernel {
    host: Host,
    pool: Pool,
}

impl Node for Kernel {
    fn handle_frame(&mut self, now: Instant, frame: Frame) {
        if let Input::Udp(datagram) = self.host.handle_frame(now, &frame) {
            self.host.port_unreachable(&frame, &datagram);
        }
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.host.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        let mut frame = self.pool.alloc()?;
        self.host.poll_transmit(now, &mut frame).then_some(frame)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.host.poll_timeout()
    }
}

#[test]
fn a_host_without_barewire_refuses_soon() {
    let (mut world, nodes, _) = lan(8, 2, 8);
    let kernel = Kernel { host: Host::new(host(2, 2)), pool: world.pool().clone() };
    world.restart(nodes[1], Box::new(kernel));
    let (result, took) = try_connect(&mut world, nodes[0], 1, 2);
    assert_eq!(result, Err(ConnectFailure::Refused));
    assert!(took < 1_000, "after {took} ms");
    assert_idle(s(&mut world, nodes[0]));
}

/// An ICMP port unreachable from station 2 to station 1 that quotes `packet`.
fn unreachable(pool: &Pool, packet: &[u8]) -> Frame {
    let message = icmpv4::Repr::Unreachable { code: icmpv4::unreachable::PORT, mtu: 0, original: packet };
    let mut frame = pool.alloc().unwrap();
    assert!(frame.set_len(34 + message.buffer_len()));
    let data = frame.data_mut();
    eth::Repr { dst: MacAddr(mac(1)), src: MacAddr(mac(2)), ethertype: EtherType::IPV4 }
        .emit(&mut eth::Packet::new_unchecked(&mut data[..]));
    ipv4::Repr {
        src: [10, 0, 0, 2].into(),
        dst: [10, 0, 0, 1].into(),
        protocol: Protocol::ICMP,
        payload_len: message.buffer_len() as u16,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        ident: 0,
        dont_fragment: true,
    }
    .emit(&mut ipv4::Packet::new_unchecked(&mut data[14..]));
    message.emit(&mut icmpv4::Packet::new_unchecked(&mut data[34..]));
    frame
}

/// Starts to connect to station 2, which is not heard of, and gives what was sent: the IP packet of an INIT.
fn sent_init(world: &mut World, nodes: &[NodeId], star: &Star) -> (FlowId, Vec<u8>) {
    // So that the neighbour is known.
    open(world, nodes[0], 1, 2);
    world.pause(nodes[1]);
    let sent = Rc::new(RefCell::new(vec![]));
    let note = Rc::clone(&sent);
    let filter = move |_, frame: &mut Frame| {
        if kind_of(frame.data()).is_some_and(|(kind, _)| kind == Kind::Init) {
            note.borrow_mut().push(frame.data()[14..].to_vec());
        }
        true
    };
    world.set_filter(star.links[0], Direction::Forward, Some(Box::new(filter)));
    let flow = connect(world, nodes[0], 1, 2, true, false);
    assert_eq!(world.run_for(us(100)), barewire_sim::Outcome::Done);
    let packet = sent.borrow()[0].clone();
    (flow, packet)
}

#[test]
fn a_kernel_with_the_daemons_address_refuses_nobody() {
    // It answers each datagram, and sooner than the daemon does.
    let (mut world, nodes, star) = lan(9, 2, 8);
    let pool = world.pool().clone();
    let (_, packet) = sent_init(&mut world, &nodes, &star);
    for _ in 0..3 {
        world.inject(star.links[0], Direction::Reverse, unreachable(&pool, &packet));
    }
    world.pause_for(nodes[1], ms(200));
    assert_eq!(world.run_for(ms(1_000)), barewire_sim::Outcome::Done);
    assert_eq!(s(&mut world, nodes[0]).connect_failures(), []);
    assert_eq!(s(&mut world, nodes[0]).endpoint.flows().filter(|f| f.state == "open").count(), 2);
}

#[test]
fn only_who_saw_the_packet_may_say_that_it_was_in_vain() {
    let (mut world, nodes, star) = lan(10, 2, 8);
    let pool = world.pool().clone();
    let (_, packet) = sent_init(&mut world, &nodes, &star);
    world.kill(nodes[1]);
    // The attempt ends by itself where no quotation is right: each byte that says which attempt it is, and then too little.
    let open_flow = s(&mut world, nodes[0]).flow_from().unwrap();
    let (udp, init) = (20, 28);
    let spots = [12, 15, 16, 19, udp, udp + 1, udp + 2, udp + 3, init + 16, init + 19, init + 40, init + 47];
    for spot in spots {
        let mut other = packet.clone();
        other[spot] ^= 1;
        world.inject(star.links[0], Direction::Reverse, unreachable(&pool, &other));
    }
    for len in [0, 1, 19, 20, 27, 28, 68, packet.len() - 1] {
        world.inject(star.links[0], Direction::Reverse, unreachable(&pool, &packet[..len]));
    }
    let mut data = packet.clone();
    data[init + 4] = data[init + 4] & 0xf0 | Kind::Data as u8;
    world.inject(star.links[0], Direction::Reverse, unreachable(&pool, &data));
    let a = nodes[0];
    assert_eq!(world.run_for(ms(4_900)), barewire_sim::Outcome::Done);
    assert_eq!(world.node::<Station>(a).connect_failures(), []);
    let wrong =
        s(&mut world, a).drops(DropReason::WrongPeer) + s(&mut world, a).drops(DropReason::UnknownFlow);
    assert!(wrong >= 8, "{wrong} were looked at");
    assert_eq!(world.run_for(ms(300)), barewire_sim::Outcome::Done);
    assert_eq!(world.node::<Station>(a).connect_failures(), [ConnectFailure::TimedOut]);
    // Late, or of a flow that is open, it changes nothing.
    world.inject(star.links[0], Direction::Reverse, unreachable(&pool, &packet));
    assert_eq!(world.run_for(ms(100)), barewire_sim::Outcome::Done);
    assert_eq!(world.node::<Station>(a).connect_failures().len(), 1);
    assert_eq!(world.node::<Station>(a).closed_of(open_flow), []);
}

/// A router of one interface between the networks of two stations. What is not for itself it sends on to the station that has the
/// address, whose MAC it was told.
struct Router {
    host: Host,
    pool: Pool,
    out: VecDeque<Frame>,
    stations: Vec<([u8; 4], [u8; 6])>,
    /// Whose frames it takes.
    serves: Vec<[u8; 6]>,
    forwarded: u64,
}

impl Router {
    fn new(pool: &Pool, at: u8, announces: bool) -> Router {
        let mut config = HostConfig::new(MacAddr(mac(at)));
        config.ipv4 = vec![([10, 0, 1, 254].into(), 24), ([10, 0, 2, 254].into(), 24)];
        config.ipv6 = vec![("fd01::fe".parse().unwrap(), 64), ("fd02::fe".parse().unwrap(), 64)];
        let mut host = Host::new(config);
        if announces {
            host.announce();
        }
        let stations = vec![([10, 0, 1, 1], mac(1)), ([10, 0, 2, 2], mac(2))];
        let serves = vec![mac(1), mac(2)];
        Router { host, pool: pool.clone(), out: VecDeque::new(), stations, serves, forwarded: 0 }
    }
}

impl Node for Router {
    fn handle_frame(&mut self, now: Instant, mut frame: Frame) {
        let me = self.host.config().mac.0;
        let data = frame.data();
        if !self.serves.iter().any(|mac| data.get(6..12) == Some(&mac[..])) {
            return;
        }
        let is_for_me = data.get(..6) == Some(&me[..]);
        // The last byte of an address tells the station, in both families.
        let to = match (data.get(12..14), is_for_me) {
            (Some([0x08, 0x00]), true) => data.get(30..34).and_then(|ip| ip.last()),
            (Some([0x86, 0xdd]), true) if data.get(20) == Some(&17) => {
                data.get(38..54).and_then(|ip| ip.last())
            }
            _ => None,
        };
        let station = to.and_then(|to| self.stations.iter().find(|(ip, _)| ip[3] == *to)).map(|s| s.1);
        let Some(station) = station else {
            self.host.handle_frame(now, &frame);
            return;
        };
        frame.data_mut()[..6].copy_from_slice(&station);
        frame.data_mut()[6..12].copy_from_slice(&me);
        self.forwarded += 1;
        self.out.push_back(frame);
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.host.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        if let Some(frame) = self.out.pop_front() {
            return Some(frame);
        }
        let mut frame = self.pool.alloc()?;
        self.host.poll_transmit(now, &mut frame).then_some(frame)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        if self.out.is_empty() { self.host.poll_timeout() } else { Some(Instant::ZERO) }
    }
}

/// Stations 1 and 2 in networks of their own, and two routers of which the second is in reserve.
fn behind_a_router(seed: u64) -> (World, Vec<NodeId>, Star) {
    let mut world = World::new(seed);
    let pool = world.pool().clone();
    let mut nodes = vec![];
    for n in [1, 2] {
        let mut station = station(&pool, n, n, 8);
        let mut config = HostConfig::new(MacAddr(mac(n)));
        config.ipv4 = vec![([10, 0, n, n].into(), 24)];
        config.ipv6 = vec![(format!("fd0{n}::{n}").parse().unwrap(), 64)];
        config.gateway4 = Some([10, 0, n, 254].into());
        config.gateway6 = Some(format!("fd0{n}::fe").parse().unwrap());
        station.host = Host::new(config);
        nodes.push(world.add_node(station));
    }
    nodes.push(world.add_node(Box::new(Router::new(&pool, 11, true))));
    nodes.push(world.add_node(Box::new(Router::new(&pool, 12, false))));
    let macs = [mac(1), mac(2), mac(11), mac(12)];
    let macs: Vec<_> = nodes.iter().copied().zip(macs).collect();
    let star = world.star(&macs, &LinkConfig::perfect(us(20)));
    // It says nothing before it takes over, and hears nothing.
    world.set_link(star.links[3], LinkConfig::down());
    (world, nodes, star)
}

/// The first router is gone without a word, for one station or both; the second has its addresses, and its own MAC.
fn takes_over(v6: bool, announces: bool, quiet: bool, one_sided: bool) {
    let (mut world, nodes, star) = behind_a_router(8);
    let pool = world.pool().clone();
    let (a, b) = (nodes[0], nodes[1]);
    let (local, remote): (IpAddr, IpAddr) = match v6 {
        false => ([10, 0, 1, 1].into(), [10, 0, 2, 2].into()),
        true => ("fd01::1".parse().unwrap(), "fd02::2".parse().unwrap()),
    };
    let now = world.now();
    let (local, remote) = (SocketAddr::new(local, 0), SocketAddr::new(remote, PORT));
    let flow = s(&mut world, a).endpoint.connect(now, 0, local, remote, true, 1).unwrap();
    world.run_while(secs(5), |w| w.node::<Station>(a).events.is_empty()).unwrap_done();
    talk(&mut world, 3, &[(a, flow)], |_, _| {});
    let mut second = Router::new(&pool, 12, announces);
    if one_sided {
        // Only the answers of the second station have to find another way.
        second.serves = vec![mac(2)];
        world.node_mut::<Router>(nodes[2]).serves = vec![mac(1)];
    } else {
        world.set_link(star.links[2], LinkConfig::down());
    }
    world.set_link(star.links[3], LinkConfig::perfect(us(20)));
    world.restart(nodes[3], Box::new(second));
    let before = s(&mut world, b).received;
    if quiet {
        // Only the questions for a sign of life tell.
        assert_eq!(world.run_for(secs(20)), barewire_sim::Outcome::Done);
    }
    let start = world.now();
    s(&mut world, a).send(flow, &message(7, 3_000), 7).unwrap();
    let is_there = |w: &World| w.node::<Station>(a).endpoint.messages_under_way() == 0;
    world.run_while(secs(6), |w| !is_there(w)).unwrap_done();
    let took = world.now().since(start);
    println!(
        "v6 {v6}, announced {announces}, quiet {quiet}, one side {one_sided}: acknowledged after {took}"
    );
    assert!(took < secs(3), "{took}");
    let sent = talk(&mut world, 3, &[(a, flow)], |_, _| {});
    assert_eq!(world.run_for(secs(1)), barewire_sim::Outcome::Done);
    assert_eq!(s(&mut world, b).received, before + 1 + sent);
    assert!(world.node::<Router>(nodes[3]).forwarded > 0);
    for (node, moves) in [(a, !one_sided), (b, true)] {
        let host = &s(&mut world, node).host;
        assert_eq!(host.counters().neighbours_moved.get(), u64::from(moves));
        let known = host.neighbours().filter(|n| n.ip.is_ipv6() == v6).find(|n| n.mac.is_some());
        assert_eq!(known.unwrap().mac, Some(MacAddr(mac(if moves { 12 } else { 11 }))));
        assert_eq!(s(&mut world, node).closes(), []);
    }
}

#[test]
fn a_flow_survives_that_its_router_is_another() {
    for v6 in [false, true] {
        for announces in [false, true] {
            for quiet in [false, true] {
                for one_sided in [false, true] {
                    takes_over(v6, announces, quiet, one_sided);
                }
            }
        }
    }
}
