//! The proof of the simulator: a small go-back-N protocol survives every seed, and its broken variants do not.

use barewire_base::{Duration, Instant, Prng};
use barewire_frame::{Frame, Pool};
use barewire_sim::{
    Direction, ExactlyOnce, LinkConfig, LinkId, Node, NodeClock, NodeId, Order, Outcome, Violation, World,
    seeds,
};
use std::collections::VecDeque;

const HEADER: usize = 14 + 1 + 4 + 4;
const WINDOW: u32 = 16;
const RTO: Duration = Duration::from_millis(5);
const MESSAGES: u32 = 60;
const SEND: u8 = 1;
const ACK: u8 = 2;

/// What is wrong with the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    /// A lost packet stays lost.
    NoRetransmit,
    /// Damage is not noticed.
    NoChecksum,
    /// What comes again is delivered again, what comes early is delivered early.
    NoSequence,
    /// A frame is never given back.
    LosesFrames,
}

fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |h, b| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193))
}

/// One end: sends `queue` and receives into `inbox`.
struct Peer {
    pool: Pool,
    bug: Bug,
    messages: Vec<Vec<u8>>,
    base: u32,
    next: u32,
    deadline: Option<Instant>,
    expected: u32,
    ack_due: bool,
    inbox: VecDeque<(u32, Vec<u8>)>,
}

impl Peer {
    fn new(pool: &Pool, bug: Bug) -> Peer {
        Peer {
            pool: pool.clone(),
            bug,
            messages: Vec::new(),
            base: 0,
            next: 0,
            deadline: None,
            expected: 0,
            ack_due: false,
            inbox: VecDeque::new(),
        }
    }

    fn build(&self, kind: u8, sequence: u32, body: &[u8]) -> Option<Frame> {
        let mut frame = self.pool.alloc()?;
        assert!(frame.set_len(HEADER + body.len()));
        let data = frame.data_mut();
        data.fill(0xa5);
        data[12..14].copy_from_slice(&[0x88, 0xb5]);
        data[14] = kind;
        data[15..19].copy_from_slice(&sequence.to_be_bytes());
        data[HEADER..].copy_from_slice(body);
        data[19..23].fill(0);
        let sum = checksum(&data[14..]);
        data[19..23].copy_from_slice(&sum.to_be_bytes());
        Some(frame)
    }
}

impl Node for Peer {
    fn handle_frame(&mut self, now: Instant, mut frame: Frame) {
        let data = frame.data_mut();
        if data.len() < HEADER {
            return;
        }
        let sum = u32::from_be_bytes(data[19..23].try_into().unwrap());
        data[19..23].fill(0);
        if checksum(&data[14..]) != sum && self.bug != Bug::NoChecksum {
            return;
        }
        let sequence = u32::from_be_bytes(data[15..19].try_into().unwrap());
        match data[14] {
            SEND => {
                if sequence == self.expected || self.bug == Bug::NoSequence {
                    self.inbox.push_back((sequence, data[HEADER..].to_vec()));
                    self.expected = self.expected.max(sequence.wrapping_add(1));
                }
                self.ack_due = true;
            }
            ACK if sequence > self.base && sequence <= self.next => {
                self.base = sequence;
                self.deadline = (self.base < self.next).then(|| now + RTO);
            }
            _ => {}
        }
        if self.bug == Bug::LosesFrames {
            let _ = frame.into_index();
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline.is_some_and(|at| at <= now) {
            self.deadline = None;
            if self.bug != Bug::NoRetransmit {
                self.next = self.base;
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        if self.ack_due {
            let frame = self.build(ACK, self.expected, &[])?;
            self.ack_due = false;
            return Some(frame);
        }
        if self.next >= self.messages.len() as u32 || self.next - self.base >= WINDOW {
            return None;
        }
        let frame = self.build(SEND, self.next, &self.messages[self.next as usize])?;
        self.next += 1;
        self.deadline.get_or_insert(now + RTO);
        Some(frame)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }
}

struct Net {
    world: World,
    sender: NodeId,
    receiver: NodeId,
    link: LinkId,
    check: ExactlyOnce,
}

impl Net {
    fn new(seed: u64, bug: Bug, config: impl Fn(&mut Prng) -> LinkConfig) -> Net {
        let mut world = World::new(seed);
        let mut prng = world.fork_prng();
        let mut sending = Peer::new(world.pool(), bug);
        let mut check = ExactlyOnce::new(Order::InOrder);
        for id in 0..MESSAGES {
            let mut body = vec![0; prng.below(1200) as usize];
            prng.fill(&mut body);
            check.sent(u64::from(id), &body);
            sending.messages.push(body);
        }
        let receiving = Peer::new(world.pool(), bug);
        let sender = world.add_node(Box::new(sending));
        let receiver = world.add_node(Box::new(receiving));
        world.set_clock(sender, NodeClock::random(&mut prng));
        world.set_clock(receiver, NodeClock::random(&mut prng));
        let link = world.connect_with(sender, receiver, config(&mut prng), config(&mut prng));
        Net { world, sender, receiver, link, check }
    }

    /// Until everything has arrived and has been acknowledged, or an hour has passed.
    fn run(&mut self) -> Outcome {
        let Net { world, sender, receiver, check, .. } = self;
        world.run_while(Duration::from_secs(3600), |world| {
            while let Some((id, body)) = world.node_mut::<Peer>(*receiver).inbox.pop_front() {
                check.received(u64::from(id), &body);
            }
            check.violation().is_none() && world.node::<Peer>(*sender).base < MESSAGES
        })
    }

    fn balanced(&self) {
        let sum = |direction| {
            let s = self.world.link_stats(self.link, direction);
            (s.sent + s.duplicated) as i64 - (s.delivered + s.dropped()) as i64
        };
        assert_eq!(sum(Direction::Forward) + sum(Direction::Reverse), self.world.in_flight() as i64);
    }
}

/// The verdict, the trace and the end of one run.
fn run(seed: u64, bug: Bug) -> (Result<usize, Violation>, u64, Instant, u64) {
    let mut net = Net::new(seed, bug, LinkConfig::rough);
    let outcome = net.run();
    let verdict = net.check.finish();
    net.balanced();
    if bug == Bug::None {
        outcome.unwrap_done();
    }
    let (hash, now, steps) = (net.world.trace_hash(), net.world.now(), net.world.steps());
    net.world.close().unwrap();
    (verdict, hash, now, steps)
}

#[test]
fn every_seed_delivers_everything_once() {
    seeds(200, |seed| {
        let (verdict, ..) = run(seed, Bug::None);
        assert_eq!(verdict, Ok(MESSAGES as usize));
    });
}

#[test]
fn a_seed_replays_to_the_byte_and_seeds_differ() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let first = run(seed, Bug::None);
        assert_eq!(first, run(seed, Bug::None), "seed {seed}");
        hashes.insert(first.1);
    }
    assert_eq!(hashes.len(), 50);
}

#[test]
fn rough_links_have_every_fault() {
    let mut seen = [0u64; 8];
    for seed in 0..100 {
        let mut net = Net::new(seed, Bug::None, LinkConfig::rough);
        net.run().unwrap_done();
        let s = net.world.link_stats(net.link, Direction::Forward);
        let counts = [
            s.lost,
            s.lost_burst,
            s.dropped_queue,
            s.duplicated,
            s.reordered,
            s.corrupted,
            s.delivered,
            s.sent,
        ];
        for (total, count) in seen.iter_mut().zip(counts) {
            *total += count;
        }
    }
    assert!(seen.iter().all(|&n| n > 0), "{seen:?}");
}

/// How many of a hundred seeds each bug escapes is chance; that it is caught, and by its own name, is not.
fn violations(bug: Bug) -> Vec<Violation> {
    (0..100).filter_map(|seed| run(seed, bug).0.err()).collect()
}

#[test]
fn canary_no_retransmission_is_caught() {
    let found = violations(Bug::NoRetransmit);
    assert!(found.len() > 50, "{}", found.len());
    assert!(found.iter().all(|v| matches!(v, Violation::Missing { .. })), "{found:?}");
}

#[test]
fn canary_no_checksum_is_caught() {
    let found = violations(Bug::NoChecksum);
    assert!(found.iter().any(|v| matches!(v, Violation::WrongContent { .. })), "{found:?}");
}

#[test]
fn canary_no_sequence_is_caught() {
    let found = violations(Bug::NoSequence);
    assert!(found.iter().any(|v| matches!(v, Violation::Duplicate { .. })), "{found:?}");
    assert!(found.iter().any(|v| matches!(v, Violation::OutOfOrder { .. })), "{found:?}");
}

#[test]
fn canary_lost_frames_are_caught() {
    let mut net = Net::new(1, Bug::LosesFrames, |_| LinkConfig::default());
    net.run().unwrap_done();
    assert_eq!(net.check.finish(), Ok(MESSAGES as usize));
    let leak = net.world.close().unwrap_err();
    assert!(leak.missing >= 2 * MESSAGES as usize - 1, "{leak}");
}

#[test]
fn it_survives_a_pause_and_an_outage() {
    for seed in 0..20 {
        let mut net = Net::new(seed, Bug::None, |_| LinkConfig {
            rate_bps: Some(10_000_000),
            outages: vec![(Instant::from_nanos(1_010_000_000), Duration::from_millis(300))],
            ..LinkConfig::default()
        });
        let receiver = net.receiver;
        net.world.at(Instant::from_nanos(1_320_000_000), move |world| {
            world.pause_for(receiver, Duration::from_millis(50));
        });
        net.run().unwrap_done();
        assert_eq!(net.check.finish(), Ok(MESSAGES as usize));
        assert!(net.world.now() > Instant::from_nanos(1_370_000_000), "{:?}", net.world);
        assert!(net.world.link_stats(net.link, Direction::Forward).lost_outage > 0);
        net.world.close().unwrap();
    }
}

#[test]
fn an_empty_pool_stops_nobody_for_good() {
    let frames = barewire_frame::PoolConfig { frames: 3, ..Default::default() };
    let mut net = Net::new(5, Bug::None, |_| LinkConfig { duplicate: 1.0, ..LinkConfig::default() });
    let mut world = World::with_pool(5, frames).unwrap();
    let mut sending = Peer::new(world.pool(), Bug::None);
    sending.messages = std::mem::take(&mut net.world.node_mut::<Peer>(net.sender).messages);
    let receiving = Peer::new(world.pool(), Bug::None);
    net.sender = world.add_node(Box::new(sending));
    net.receiver = world.add_node(Box::new(receiving));
    net.link =
        world.connect(net.sender, net.receiver, LinkConfig { duplicate: 1.0, ..LinkConfig::default() });
    net.world = world;
    net.run().unwrap_done();
    assert_eq!(net.check.finish(), Ok(MESSAGES as usize));
    assert!(net.world.link_stats(net.link, Direction::Forward).copies_failed > 0);
    net.world.close().unwrap();
}
