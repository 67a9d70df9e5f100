//! A thousand bad networks: every message exactly once, whole, and in its place.

#![allow(clippy::needless_range_loop)] // A side is a number on purpose: it names one of two in many tables.

mod common;
use barewire_base::{Duration, Instant, Prng};
use barewire_sim::{LinkConfig, NodeClock, NodeId, Reorder, World, seeds_part};
use barewire_transport::*;
use common::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

const SEEDS: u64 = 1_000;
const PARTS: u64 = 4;

/// Who sends: the client of a flow (0) or its server (1).
type Side = usize;

/// One flow, both directions.
struct Plan {
    ordered: bool,
    v6: bool,
    /// The flow as each side names it.
    ids: [Option<FlowId>; 2],
    /// Messages not yet accepted by the transport, last first: id of the content, length.
    todo: [Vec<(u64, usize)>; 2],
    ledgers: [Rc<RefCell<Ledger>>; 2],
    closer: Side,
    closing: bool,
}

/// Which ledger keeps a flow's received messages.
#[derive(Default)]
struct Book {
    ledgers: HashMap<FlowId, Rc<RefCell<Ledger>>>,
    early: Vec<(FlowId, Vec<u8>)>,
}

impl Book {
    fn received(&mut self, flow: FlowId, bytes: &[u8]) {
        match self.ledgers.get(&flow) {
            Some(ledger) => ledger.borrow_mut().received(bytes),
            None => self.early.push((flow, bytes.to_vec())),
        }
    }

    fn name(&mut self, flow: FlowId, ledger: &Rc<RefCell<Ledger>>) {
        self.ledgers.insert(flow, ledger.clone());
        for (early, bytes) in std::mem::take(&mut self.early) {
            self.received(early, &bytes);
        }
    }
}

/// A link direction as `LinkConfig::rough` draws it, in every fourth world rougher: up to 20 % of everything.
fn weather(prng: &mut Prng) -> LinkConfig {
    let mut link = LinkConfig::rough(prng);
    if prng.chance(0.25) {
        link.loss = 0.2 * prng.unit();
        link.duplicate = 0.2 * prng.unit();
        link.reorder = Some(Reorder {
            probability: 0.2 * prng.unit(),
            extra: Duration::from_nanos(1 + prng.below(20 * link.delay.as_nanos())),
        });
        if let Some(corrupt) = &mut link.corrupt {
            corrupt.probability = 0.2 * prng.unit();
        }
    }
    link
}

fn length(prng: &mut Prng, bulky: bool) -> usize {
    (match prng.below(20) {
        0 | 1 => 0,
        2..=9 => prng.below(100),
        10..=14 => prng.below(3_000),
        15..=17 => prng.below(20_000),
        18 => prng.below(200_000),
        _ if bulky => (1 << 20) + prng.below(3 << 20),
        _ => 1_448 * prng.below(4),
    }) as usize
}

fn run(seed: u64) {
    let mut prng = Prng::new(seed ^ 0x9e37_79b9);
    // Bursts of loss may be as long as a flow's patience: here flows have more of it.
    let config = Config {
        flows_max: 64,
        mtu: if prng.chance(0.2) { 300 + prng.below(1200) as u16 } else { 1500 },
        dead_after: secs(120),
        keepalive_probes: 100,
        recv_window_bytes: 16_384 << prng.below(8),
        half_open_max: if prng.chance(0.2) { 0 } else { 64 },
        ..Config::default()
    };
    let bulky = seed.is_multiple_of(20);
    let memory = if bulky { 16 << 20 } else { 1 << 20 };
    let mut p = pair_of(seed, LinkConfig::default(), &config, &config, memory);
    // Addresses are resolved on a good wire: nothing guards ARP against corruption, and it is not on trial here.
    for v6 in [false, true] {
        p.connect(true, v6);
    }
    p.run(ms(1));
    let owner_gone = p.world.now();
    for s in [p.a, p.b] {
        p.world.node_mut::<Station>(s).endpoint.drop_owner(owner_gone, 0);
    }
    p.b().endpoint.listen(PORT, 0, 7).unwrap();
    p.run(ms(1));
    let (forward, reverse) = (weather(&mut prng), weather(&mut prng));
    p.world.set_direction(p.link, barewire_sim::Direction::Forward, forward);
    p.world.set_direction(p.link, barewire_sim::Direction::Reverse, reverse);
    for n in [p.a, p.b] {
        if prng.chance(0.5) {
            let mut clock = NodeClock::random(&mut prng);
            // Neighbours stay fresh: see above.
            clock.offset_ns %= 5_000_000_000;
            p.world.set_clock(n, clock);
        }
        let s = p.world.node_mut::<Station>(n);
        s.events.clear();
        s.sent.clear();
    }

    let count = 1 + prng.below(6);
    let mut id = seed << 20;
    let mut plans: Vec<Plan> = (0..count)
        .map(|_| {
            let ordered = prng.chance(0.6);
            let mut todo = || {
                let n = prng.below(60);
                id += n;
                (0..n).map(|i| (id - i, length(&mut prng, bulky))).collect()
            };
            Plan {
                ordered,
                v6: false,
                ids: [None; 2],
                todo: [todo(), todo()],
                ledgers: [0, 1].map(|_| Rc::new(RefCell::new(Ledger::new(ordered)))),
                closer: 0,
                closing: false,
            }
        })
        .collect();
    for plan in &mut plans {
        plan.v6 = prng.chance(0.5);
        plan.closer = prng.below(2) as usize;
    }

    let nodes = [p.a, p.b];
    // Received messages find their ledger by flow. A message may come together with the event that names its flow.
    let books: [Rc<RefCell<Book>>; 2] = Default::default();
    for side in 0..2 {
        let book = books[side].clone();
        let station = p.world.node_mut::<Station>(nodes[side]);
        station.keep = false;
        station.on_message = Some(Box::new(move |_: Instant, flow, bytes| {
            book.borrow_mut().received(flow, bytes);
        }));
    }
    let mut ports: HashMap<u16, usize> = HashMap::new();
    let mut ends = [HashMap::new(), HashMap::new()];
    for (i, plan) in plans.iter_mut().enumerate() {
        ask(&mut p.world, p.a, i, plan);
    }
    let outcome = p.world.run_while(secs(600), |world| {
        for side in 0..2 {
            if world.node::<Station>(nodes[side]).events.is_empty() {
                continue;
            }
            while let Some(event) = world.node_mut::<Station>(nodes[side]).events.pop_front() {
                match event {
                    Event::Connected { flow, token, local, .. } => {
                        let plan = &mut plans[token as usize];
                        assert_eq!(plan.ids[0], Some(flow));
                        ports.insert(local.port(), token as usize);
                        books[0].borrow_mut().name(flow, &plan.ledgers[1]);
                    }
                    Event::Accepted { flow, remote, token, .. } => {
                        assert_eq!(token, 7);
                        let i = *ports.get(&remote.port()).expect("the client was first to know");
                        assert_eq!(plans[i].ids[1].replace(flow), None);
                        books[1].borrow_mut().name(flow, &plans[i].ledgers[0]);
                    }
                    Event::ConnectFailed { token, .. } => {
                        ask(world, nodes[0], token as usize, &mut plans[token as usize]);
                    }
                    Event::Closed { flow, reason, .. } => {
                        assert_eq!(ends[side].insert(flow, reason), None, "closed twice");
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        for plan in &mut plans {
            for side in 0..2 {
                let (Some(flow), false) = (plan.ids[side], plan.closing) else { continue };
                while let Some(&(id, len)) = plan.todo[side].last() {
                    let full = world.node::<Station>(nodes[side]).endpoint.memory().available().0
                        < memory as u64 / 2;
                    if full || (side == 0 && !books[0].borrow().ledgers.contains_key(&flow)) {
                        break;
                    }
                    let now = world.local_now(nodes[side]);
                    let station = world.node_mut::<Station>(nodes[side]);
                    station.now = now;
                    let bytes = message(id, len);
                    match station.send(flow, &bytes, id) {
                        Ok(()) => plan.ledgers[side].borrow_mut().sent(&bytes),
                        Err(SendError::WouldBlock) => break,
                        Err(why) => panic!("{why}: {:?} {:?}", plan.ids, ends),
                    }
                    plan.todo[side].pop();
                }
            }
            // Whoever closes does so when everything is queued, not when it has arrived.
            let queued = plan.todo.iter().all(|t| t.is_empty()) && plan.ids.iter().all(|i| i.is_some());
            let half = plan.ids[plan.closer].filter(|_| queued && !plan.closing);
            if let Some(flow) = half {
                plan.closing = true;
                let now = world.local_now(nodes[plan.closer]);
                assert!(world.node_mut::<Station>(nodes[plan.closer]).endpoint.close(now, flow));
            }
        }
        plans.iter().any(|p| !p.closing)
            || (0..2).any(|side| {
                let s = world.node::<Station>(nodes[side]);
                ends[side].len() < plans.len() || s.endpoint.flows_used() + s.endpoint.lingering() > 0
            })
    });
    let stuck = || format!("{:?}", p.world.node::<Station>(p.a).endpoint.flows().collect::<Vec<_>>());
    assert_eq!(outcome, barewire_sim::Outcome::Done, "{}", stuck());

    for plan in &plans {
        let (here, there) = (plan.closer, 1 - plan.closer);
        assert_eq!(ends[here][&plan.ids[here].unwrap()], CloseReason::Local);
        assert_eq!(ends[there][&plan.ids[there].unwrap()], CloseReason::Peer);
        for side in 0..2 {
            plan.ledgers[side]
                .borrow()
                .check
                .finish()
                .unwrap_or_else(|why| panic!("from side {side}: {why}"));
        }
    }
    for n in nodes {
        let s = p.world.node::<Station>(n);
        assert!(s.sent.iter().all(|s| s.1), "a message that arrived was reported as failed");
    }
    // Frames in flight, copies above all, and half-open flows that damaged addresses left behind.
    for n in nodes {
        p.world.node_mut::<Station>(n).on_message = None;
    }
    p.run(secs(6));
    p.assert_clean();
}

fn ask(world: &mut World, node: NodeId, token: usize, plan: &mut Plan) {
    let now = world.local_now(node);
    let station = world.node_mut::<Station>(node);
    let local = std::net::SocketAddr::new(ip(1, plan.v6), 0);
    let remote = std::net::SocketAddr::new(ip(2, plan.v6), PORT);
    let flow = station.endpoint.connect(now, 0, local, remote, plan.ordered, token as u64).unwrap();
    plan.ids[0] = Some(flow);
}

#[test]
fn every_message_exactly_once_0() {
    seeds_part(SEEDS, 0, PARTS, run);
}

#[test]
fn every_message_exactly_once_1() {
    seeds_part(SEEDS, 1, PARTS, run);
}

#[test]
fn every_message_exactly_once_2() {
    seeds_part(SEEDS, 2, PARTS, run);
}

#[test]
fn every_message_exactly_once_3() {
    seeds_part(SEEDS, 3, PARTS, run);
}

fn run_secured(seed: u64) {
    secured(Trust::of(seed), || run(seed));
}

#[test]
fn every_encrypted_message_exactly_once_0() {
    seeds_part(SEEDS, 0, PARTS, run_secured);
}

#[test]
fn every_encrypted_message_exactly_once_1() {
    seeds_part(SEEDS, 1, PARTS, run_secured);
}

#[test]
fn every_encrypted_message_exactly_once_2() {
    seeds_part(SEEDS, 2, PARTS, run_secured);
}

#[test]
fn every_encrypted_message_exactly_once_3() {
    seeds_part(SEEDS, 3, PARTS, run_secured);
}
