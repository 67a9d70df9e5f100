//! A server that is small in every way, honest clients and a liar that share all of it: memory, places, slots and the
//! wire, which loses, copies and reorders. What is checked is what must hold whatever happens: every honest message comes
//! once, whole and in its place; every honest flow moves on; the books add up; and in the end everything is back.

mod common;
use barewire_base::{Duration, Instant, Prng};
use barewire_sim::{LinkConfig, NodeId, Outcome, Reorder, World, seeds_part};
use barewire_transport::*;
use common::rogue::{Rogue, Whim};
use common::*;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::rc::Rc;

/// A world of these costs five times one of `seeds.rs`.
const SEEDS: u64 = 200;
const PARTS: u64 = 4;
/// Longest that an honest flow may stand still: a stalled message keeps its memory for a second or two, and the liar has many.
const STILL_MAX: Duration = Duration::from_secs(60);

/// What an application promises to its event ring, as the daemon's do: room for each message that it will be told of, and for each flow.
#[derive(Clone, Copy)]
struct Limits {
    messages: u32,
    flows: u32,
}

impl Limits {
    const NONE: Limits = Limits { messages: u32::MAX, flows: u32::MAX };
}

/// Message memory with these limits, which sees what is promised twice or given back twice.
struct Promised {
    heap: HeapMemory,
    limits: Limits,
    messages: HashSet<u32>,
    flows: u32,
}

impl Promised {
    fn new(send: usize, recv: usize, limits: Limits) -> Promised {
        Promised { heap: HeapMemory::new(send, recv), limits, messages: HashSet::new(), flows: 0 }
    }
}

impl Memory for Promised {
    fn read(&mut self, buf: SendBuf, offset: u32, out: &mut [u8]) -> bool {
        self.heap.read(buf, offset, out)
    }
    fn alloc(&mut self, owner: u32, len: u32, turn: Turn) -> Option<RecvBuf> {
        let max = self.limits.messages;
        let left = if matches!(turn, Turn::Later { .. }) { (max / LATER_LEAVES).max(1) } else { 0 };
        if self.messages.len() as u32 >= max - left {
            return None;
        }
        let buf = self.heap.alloc(owner, len, turn)?;
        assert!(self.messages.insert(buf.offset), "two messages in one place");
        Some(buf)
    }
    fn write(&mut self, buf: RecvBuf, offset: u32, bytes: &[u8]) {
        assert!(self.messages.contains(&buf.offset), "a message that nobody promised");
        self.heap.write(buf, offset, bytes);
    }
    fn free(&mut self, buf: RecvBuf) {
        assert!(self.messages.remove(&buf.offset), "given back twice");
        self.heap.free(buf);
    }
    fn message_max(&self, owner: u32) -> u32 {
        self.heap.message_max(owner)
    }
    fn flow_room(&self, _owner: u32) -> u32 {
        self.limits.flows - self.flows
    }
    fn admit_flow(&mut self, _owner: u32) -> bool {
        let fits = self.flows < self.limits.flows;
        self.flows += u32::from(fits);
        fits
    }
    fn forget_flow(&mut self, _owner: u32) {
        self.flows -= 1;
    }
}

impl TestMemory for Promised {
    fn reserve(&mut self, _owner: u32, len: u32) -> Option<SendBuf> {
        self.heap.reserve(len)
    }
    fn send_bytes(&mut self, buf: SendBuf) -> &mut [u8] {
        self.heap.send_bytes(buf)
    }
    fn release_send(&mut self, buf: SendBuf) {
        assert!(self.heap.release_send(buf), "given back twice");
    }
    fn recv_bytes(&self, buf: RecvBuf) -> &[u8] {
        self.heap.recv_bytes(buf)
    }
    fn available(&self) -> (u64, u64) {
        self.heap.available()
    }
}

type Small = Station<Promised>;

/// One flow of an honest client, from its opening to its end.
struct Plan {
    client: usize,
    ordered: bool,
    /// As the client and as the server name it.
    ids: [Option<FlowId>; 2],
    open: bool,
    /// Lengths of messages still to be sent, by the client and by the server.
    todo: [Vec<usize>; 2],
    /// How many were sent and received, by who sent them.
    sent: [u64; 2],
    got: [u64; 2],
    count: [u64; 2],
    closing: bool,
    ended: [bool; 2],
    moved_at: Instant,
    /// It may be opened now or later.
    ask_at: Instant,
}

/// Bytes that say whose message this is, and which.
fn text(plan: usize, from: usize, n: u64, len: usize) -> Vec<u8> {
    let id = (plan as u64) << 40 | (from as u64) << 39 | n;
    let mut bytes = message(id, len.max(8));
    bytes[..8].copy_from_slice(&id.to_be_bytes());
    bytes
}

type Seen = Rc<RefCell<Vec<(FlowId, Vec<u8>)>>>;

struct Cast {
    world: World,
    server: NodeId,
    clients: Vec<NodeId>,
    liar: NodeId,
    seen: Vec<Seen>,
}

fn cast(seed: u64, prng: &mut Prng, config: &Config, memory: usize, limits: Limits) -> Cast {
    let mut world = World::new(seed);
    let pool = world.pool().clone();
    let mut server =
        Station::with_memory(1, pool.clone(), config.clone(), Promised::new(1 << 20, memory, limits));
    server.endpoint.listen(PORT, 0, 7).unwrap();
    let server = world.add_node(Box::new(server));
    let clients: Vec<NodeId> = (0..2)
        .map(|i| {
            let config = Config { flows_max: 64, recv_messages_max: 4096, ..config.clone() };
            let memory = Promised::new(1 << 20, 1 << 20, Limits::NONE);
            world.add_node(Box::new(Station::with_memory(2 + i, pool.clone(), config, memory)))
        })
        .collect();
    let liar = world.add_node(Box::new(Rogue::new(4, pool)));
    let nodes = [(server, mac(1)), (clients[0], mac(2)), (clients[1], mac(3)), (liar, mac(4))];
    let star = world.star(&nodes, &LinkConfig::perfect(us(10)));
    // Addresses are resolved on a good wire: they are not on trial here.
    let addresses = [(server, 2), (server, 3), (clients[0], 1), (clients[1], 1)];
    for (node, to) in addresses {
        let now = world.now();
        let station = world.node_mut::<Small>(node);
        let _ = station.host.route(
            now,
            SocketAddr::new(station.host.config().ipv4[0].0.into(), 1),
            SocketAddr::new(ip(to, false), 1),
        );
    }
    assert_eq!(world.run_for(ms(5)), Outcome::Done);
    let mut weather = LinkConfig::perfect(us(5 + prng.below(50)));
    if prng.chance(0.8) {
        weather.loss = 0.1 * prng.unit();
        weather.duplicate = 0.05 * prng.unit();
        let extra = Duration::from_nanos(1 + prng.below(200_000));
        weather.reorder = Some(Reorder { probability: 0.1 * prng.unit(), extra });
    }
    for link in star.links {
        world.set_link(link, weather.clone());
    }
    let seen: Vec<Seen> = [server, clients[0], clients[1]]
        .into_iter()
        .map(|node| {
            let seen: Seen = Rc::default();
            let station = world.node_mut::<Small>(node);
            (station.keep, station.now) = (false, Instant::ZERO);
            let keep = seen.clone();
            station.on_message =
                Some(Box::new(move |_, flow, bytes| keep.borrow_mut().push((flow, bytes.to_vec()))));
            seen
        })
        .collect();
    Cast { world, server, clients, liar, seen }
}

fn run(seed: u64) {
    run_with(seed, Limits::NONE);
}

fn run_with(seed: u64, limits: Limits) {
    let mut prng = Prng::new(seed ^ 0x5a5a_1234);
    let pick = |prng: &mut Prng, from: &[u32]| from[prng.below(from.len() as u64) as usize];
    let mtu = if prng.chance(0.5) { 300 + prng.below(1200) as u16 } else { 1500 };
    let config = Config {
        flows_max: pick(&mut prng, &[48, 64, 100]),
        send_messages_max: pick(&mut prng, &[8, 64, 512]),
        recv_messages_max: pick(&mut prng, &[4, 20, 300, 2000]),
        mtu,
        recv_window_bytes: 1 << (8 + prng.below(12)),
        half_open_max: pick(&mut prng, &[0, 4, 64]),
        // A third of all questions and answers may be lost.
        keepalive_probes: 20,
        ..Config::default()
    };
    // A message of more than the window's segments needs no more than its memory: some seeds have hardly that.
    let memory = 8 << 10 << prng.below(6);
    let longest = (memory / 2).min(100_000);
    let Cast { mut world, server, clients, liar, seen } = cast(seed, &mut prng, &config, memory, limits);
    let start = world.now();

    let count = 2 + prng.below(8) as usize;
    let mut plans: Vec<Plan> = (0..count)
        .map(|_| {
            let mut todo = |most: u64| -> Vec<usize> {
                let n = 1 + prng.below(most);
                (0..n)
                    .map(|_| {
                        let magnitude = prng.below(longest as u64) as usize;
                        if prng.chance(0.7) { magnitude % 300 } else { magnitude }
                    })
                    .collect()
            };
            let todo = [todo(60), todo(30)];
            Plan {
                client: 0,
                ordered: true,
                ids: [None; 2],
                open: false,
                count: [todo[0].len() as u64, todo[1].len() as u64],
                todo,
                sent: [0; 2],
                got: [0; 2],
                closing: false,
                ended: [false; 2],
                moved_at: start,
                ask_at: start,
            }
        })
        .collect();
    for plan in &mut plans {
        plan.client = prng.below(2) as usize;
        plan.ordered = prng.chance(0.6);
        plan.ask_at = start + Duration::from_nanos(prng.below(200_000_000));
    }
    let pause = us(20 << prng.below(9));
    let remote = SocketAddr::new(ip(1, false), PORT);
    world.node_mut::<Rogue>(liar).whim = Some(Whim {
        prng: prng.fork(),
        ports: vec![remote, remote, SocketAddr::new(ip(1, false), PORT + 1)],
        pause,
        left: 300,
        next_at: start,
    });

    if std::env::var_os("TRACE").is_some() {
        world.observe(move |d| {
            let k = kind_of(d.bytes);
            println!(
                "{} to {:?} {:?} len {}",
                d.at.since(start),
                d.to,
                k.map(|k| (k.0, k.1.seq, k.1.ack, k.1.flags, k.1.credit, k.1.dst_cid & 0xfffff)),
                d.bytes.len()
            );
        });
    }
    // Plans by the client's port, once it has one; flows at the server that are the liar's.
    let mut by_flow: HashMap<(usize, FlowId), usize> = HashMap::new();
    let mut liars: Vec<FlowId> = vec![];
    let mut strangers: HashSet<FlowId> = HashSet::new();
    let mut out_of_turn: Vec<HashSet<u64>> = vec![HashSet::new(); count * 2];
    let mut look_at = start;
    let mut early: Vec<(FlowId, Vec<u8>)> = vec![];
    let nodes = [server, clients[0], clients[1]];

    let outcome = world.run_while(secs(600), |w| {
        let now = w.now();
        for (who, node) in nodes.into_iter().enumerate() {
            while let Some(event) = w.node_mut::<Small>(node).events.pop_front() {
                match event {
                    Event::Connected { flow, token, .. } => {
                        let plan = &mut plans[token as usize];
                        assert_eq!(plan.ids[0], Some(flow));
                        (plan.open, plan.moved_at) = (true, now);
                        by_flow.insert((who, flow), token as usize);
                    }
                    Event::ConnectFailed { token, .. } => {
                        let plan = &mut plans[token as usize];
                        plan.ids[0] = None;
                        plan.ask_at = now + ms(20);
                    }
                    Event::Accepted { flow, remote, .. } if remote.ip() == ip(4, false) => {
                        liars.push(flow);
                        strangers.insert(flow);
                    }
                    // Which of its client's flows it is, the first message says.
                    Event::Accepted { .. } => {}
                    Event::Closed { flow, reason, .. } => {
                        if who == 0 {
                            w.node_mut::<Small>(node).endpoint.memory_mut().flows -= 1;
                        }
                        if who == 0 && strangers.contains(&flow) {
                            liars.retain(|f| *f != flow);
                            continue;
                        }
                        let Some(&plan) = by_flow.get(&(who, flow)) else {
                            panic!("{who}: a flow that nobody knows ended: {reason}");
                        };
                        let side = usize::from(who == 0);
                        let good = [CloseReason::Local, CloseReason::Peer];
                        let at = now.since(start);
                        assert!(good.contains(&reason), "plan {plan}, side {side}, at {at}: {reason}");
                        assert!(!std::mem::replace(&mut plans[plan].ended[side], true), "closed twice");
                    }
                    _ => {}
                }
            }
            let mut messages = seen[who].take();
            if who == 0 {
                messages.splice(0..0, early.drain(..));
            }
            for (flow, bytes) in messages {
                if who == 0 && strangers.contains(&flow) {
                    continue;
                }
                let id = u64::from_be_bytes(bytes[..8].try_into().unwrap());
                let (i, from, n) = ((id >> 40) as usize, (id >> 39) as usize & 1, id & 0x7f_ffff_ffff);
                let plan = &mut plans[i];
                assert!(bytes == text(i, from, n, bytes.len()), "plan {i}: message {n} is not what was sent");
                assert_eq!(from, usize::from(who != 0), "plan {i}: a message of its own");
                if who == 0 {
                    assert_eq!(*plan.ids[1].get_or_insert(flow), flow, "plan {i} on another flow");
                    by_flow.insert((0, flow), i);
                } else {
                    assert_eq!(plan.ids[0], Some(flow));
                }
                if plan.ordered {
                    assert_eq!(n, plan.got[from], "plan {i}: out of order");
                } else {
                    assert!(out_of_turn[i * 2 + from].insert(n), "plan {i}: message {n} twice");
                }
                plan.got[from] += 1;
                plan.moved_at = now;
            }
        }
        for (i, plan) in plans.iter_mut().enumerate() {
            if plan.ids[0].is_none() && now >= plan.ask_at {
                let station = w.node_mut::<Small>(clients[plan.client]);
                let local = SocketAddr::new(ip(2 + plan.client as u8, false), 0);
                plan.ids[0] = station.endpoint.connect(now, 0, local, remote, plan.ordered, i as u64).ok();
                plan.ask_at = now + ms(20);
            }
            for side in 0..2 {
                let node = if side == 0 { clients[plan.client] } else { server };
                let (Some(flow), true) = (plan.ids[side], plan.open) else { continue };
                while let Some(&len) = plan.todo[side].last() {
                    let n = plan.count[side] - plan.todo[side].len() as u64;
                    // The first message says which flow it is: there is one in any case.
                    let bytes = text(i, side, n, len);
                    let station = w.node_mut::<Small>(node);
                    station.now = now;
                    match station.send(flow, &bytes, n) {
                        Ok(()) => {
                            plan.todo[side].pop();
                            plan.sent[side] += 1;
                        }
                        Err(SendError::WouldBlock) => break,
                        Err(e) => panic!("plan {i}, side {side}: {e}"),
                    }
                }
            }
            if !plan.closing && plan.open && (0..2).all(|s| plan.got[s] == plan.count[s]) {
                plan.closing = true;
                let flow = plan.ids[0].unwrap();
                assert!(w.node_mut::<Small>(clients[plan.client]).endpoint.close(now, flow));
            }
            let waits = plan.open && !plan.ended[0];
            assert!(
                !waits || now.since(plan.moved_at) < STILL_MAX,
                "plan {i} stands still: {:?} of {:?} arrived, {:?} sent; {} under way, {:?} free; {:?}",
                plan.got,
                plan.count,
                plan.sent,
                w.node::<Small>(server).endpoint.messages_under_way(),
                w.node::<Small>(server).endpoint.memory().available(),
                w.node::<Small>(server).endpoint.flows().collect::<Vec<_>>()
            );
        }
        if now >= look_at {
            look_at = now + ms(20);
            // Not each time: it looks at every row of every table.
            if prng.chance(0.05) {
                for node in nodes {
                    let (now, endpoint) = (w.local_now(node), &w.node::<Small>(node).endpoint);
                    let wrong = endpoint.audit().and_then(|()| endpoint.audit_progress(now)).err();
                    assert_eq!(wrong, None, "at {}", now.since(start));
                }
            }
            // The server's application: sometimes it does not read; it answers strangers as well, and now and then has enough
            // of one.
            let station = w.node_mut::<Small>(server);
            station.now = now;
            station.idle_owners = if prng.chance(0.2) { vec![0] } else { vec![] };
            if station.idle_owners.is_empty() {
                while station.read_one(now) {}
            }
            if !liars.is_empty() {
                let flow = liars[prng.below(liars.len() as u64) as usize];
                match prng.below(8) {
                    0 => {
                        station.endpoint.close(now, flow);
                    }
                    1 => {
                        station.endpoint.reset(now, flow);
                    }
                    _ if station.endpoint.messages_under_way() < config.send_messages_max / 2 => {
                        let _ = station.send(flow, &message(1, 3_000), 0);
                    }
                    _ => {}
                }
            }
        }
        let lies_left = w.node::<Rogue>(liar).whim.as_ref().is_some_and(|w| w.left > 0);
        lies_left || plans.iter().any(|p| !p.ended[0])
    });
    let stuck = || world.node::<Small>(server).endpoint.flows().collect::<Vec<_>>();
    assert_eq!(outcome, Outcome::Done, "{:?}", stuck());

    // The liar is heard no more; everything is given up in the end, and comes back.
    world.node_mut::<Rogue>(liar).mute = true;
    let now = world.now();
    let station = world.node_mut::<Small>(server);
    station.idle_owners.clear();
    while station.read_one(now) {}
    assert_eq!(world.run_for(secs(40)), Outcome::Done);
    for node in nodes {
        let station = world.node_mut::<Small>(node);
        station.on_message = None;
        station.endpoint.audit().unwrap();
        assert_idle(station);
        if node == server {
            // Ends that the server heard of after the last client had.
            let ends = station.events.iter().filter(|e| matches!(e, Event::Closed { .. })).count() as u32;
            station.endpoint.memory_mut().flows -= ends;
        }
        let memory = station.endpoint.memory();
        assert_eq!((memory.messages.len(), memory.flows), (0, 0), "promises");
    }
}

/// Two long messages on flows without order, each behind a short one that was lost: neither left room for the short ones, and
/// neither could come whole without them.
#[test]
fn long_messages_leave_room_for_short_ones_that_were_lost() {
    run(1288);
    run(2602);
}

/// In a pause for want of room a sender repeats only what is refused: that nothing else of it comes is our doing, and ends nobody.
#[test]
fn what_is_refused_is_a_sign_of_life() {
    run(4702);
}

/// The same at an application with few promises to give, half of the seeds with encryption.
fn run_promising(seed: u64) {
    let mut prng = Prng::new(seed ^ 0x0dd_5ea1);
    let mut pick = |from: &[u32]| from[prng.below(from.len() as u64) as usize];
    let limits = Limits { messages: pick(&[4, 12, 60, 400]), flows: pick(&[24, 32, 48]) };
    if pick(&[0, 1]) == 0 { run_with(seed, limits) } else { secured(Trust::Known, || run_with(seed, limits)) }
}

#[test]
fn few_promises_beside_liars_0() {
    seeds_part(SEEDS / 2, 0, 2, run_promising);
}

#[test]
fn few_promises_beside_liars_1() {
    seeds_part(SEEDS / 2, 1, 2, run_promising);
}

#[test]
fn honest_flows_beside_liars_0() {
    seeds_part(SEEDS, 0, PARTS, run);
}

#[test]
fn honest_flows_beside_liars_1() {
    seeds_part(SEEDS, 1, PARTS, run);
}

#[test]
fn honest_flows_beside_liars_2() {
    seeds_part(SEEDS, 2, PARTS, run);
}

#[test]
fn honest_flows_beside_liars_3() {
    seeds_part(SEEDS, 3, PARTS, run);
}

/// The same with encryption between the honest ones, at a server that takes liars in the clear.
fn run_secured(seed: u64) {
    secured(Trust::Known, || run(seed));
}

#[test]
fn encrypted_flows_beside_liars_0() {
    seeds_part(SEEDS, 0, PARTS, run_secured);
}

#[test]
fn encrypted_flows_beside_liars_1() {
    seeds_part(SEEDS, 1, PARTS, run_secured);
}

#[test]
fn encrypted_flows_beside_liars_2() {
    seeds_part(SEEDS, 2, PARTS, run_secured);
}

#[test]
fn encrypted_flows_beside_liars_3() {
    seeds_part(SEEDS, 3, PARTS, run_secured);
}
