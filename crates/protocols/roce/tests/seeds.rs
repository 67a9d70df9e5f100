//! Whole conversations over bad networks: every operation exactly once, memory equal to a model's, nothing left over.
//! `BAREWIRE_SEEDS=n` runs another number of them, `BAREWIRE_SEED=n` replays one.

mod common;
use barewire_base::{Duration, Instant, Prng};
use barewire_frame::{Frame, Pool};
use barewire_roce::*;
use barewire_sim::{Corrupt, Damage, LinkConfig, Node, NodeClock, Outcome, Reorder, World, seeds_part};
use common::*;

/// Bytes of each connection's part of the server's memory, and of its largest operation.
const AREA: usize = 48 * 1024;
const LEN_MAX: usize = 6_000;
/// Requests in flight on a connection, each with its own places in the client's memory.
const WINDOW: u64 = 12;
const PLACE: usize = 8_192;
/// Where the server keeps a connection's counter, and where its receives land.
const COUNTER: usize = AREA - 8;
const RECVS: usize = 6;

enum Expect {
    Nothing,
    Bytes(Vec<u8>),
}

/// One connection as its client sees it, and the model of what it does to the server's memory.
struct Client {
    conn: ConnId,
    qpn: Qpn,
    ready: bool,
    posted: u64,
    done: u64,
    goal: u64,
    model: Vec<u8>,
    counter: u64,
    /// Requests that complete a receive of the server's.
    messages: u64,
    expect: Vec<Expect>,
    closed: bool,
}

/// One connection as its server sees it.
struct Served {
    qpn: Option<Qpn>,
    received: u64,
    /// One past the last message's number.
    next: u32,
    closed: bool,
}

struct Host {
    end: End,
    pool: Pool,
    prng: Prng,
    seed: u64,
    serves: bool,
    started: bool,
    clients: Vec<Client>,
    served: Vec<Served>,
    connections: usize,
}

/// The bytes of a message or write, known to both sides.
fn content(seed: u64, index: u64, len: usize) -> Vec<u8> {
    pattern(len, seed.wrapping_mul(1_000_003) ^ index)
}

impl Host {
    fn start(&mut self, now: Instant) {
        self.started = true;
        if self.serves {
            self.end.ep.listen(SERVICE, 64).unwrap();
            return;
        }
        let path = self.end.ep.path(PathSpec::new(mac(2), ip(1), ip(2))).unwrap();
        for i in 0..self.connections {
            let init = self.end.init();
            let qpn = self.end.ep.create_qp(&init).unwrap();
            let to = Connect { private: &[i as u8 + 1], ..Connect::new(path, SERVICE) };
            let conn = self.end.ep.connect(now, qpn, &to).unwrap();
            let goal = 20 + self.prng.below(60);
            self.clients.push(Client {
                conn,
                qpn,
                ready: false,
                posted: 0,
                done: 0,
                goal,
                model: vec![0; AREA],
                counter: 0,
                messages: 0,
                expect: Vec::new(),
                closed: false,
            });
        }
    }

    fn step(&mut self, now: Instant) {
        while let Some(event) = self.end.ep.poll_event() {
            let private = self.end.ep.private_data().to_vec();
            self.event(now, event, &private);
        }
        for wc in self.end.completions() {
            self.completed(wc);
        }
        for i in 0..self.clients.len() {
            self.work(now, i);
        }
    }

    fn event(&mut self, now: Instant, event: Event, private: &[u8]) {
        match event {
            Event::ConnectRequest { conn, .. } => {
                let number = usize::from(private[0]) - 1;
                let init = self.end.init();
                let qpn = self.end.ep.create_qp(&init).unwrap();
                self.end.ep.accept(now, conn, qpn, &Terms::default()).unwrap();
                while self.served.len() <= number {
                    self.served.push(Served { qpn: None, received: 0, next: 0, closed: false });
                }
                self.served[number].qpn = Some(qpn);
                for k in 0..RECVS {
                    self.post_recv(number, k);
                }
            }
            Event::Connected { qpn, .. } => {
                self.clients.iter_mut().find(|c| c.qpn == qpn).unwrap().ready = true;
            }
            Event::Established { .. } => {}
            Event::Disconnected { qpn, .. } => {
                if let Some(c) = self.clients.iter_mut().find(|c| c.qpn == qpn) {
                    assert!(!c.closed && c.done == c.goal);
                    c.closed = true;
                } else {
                    let s = self.served.iter_mut().find(|s| s.qpn == Some(qpn)).unwrap();
                    assert!(!s.closed);
                    s.closed = true;
                }
                self.end.ep.destroy_qp(now, qpn).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }

    fn post_recv(&mut self, number: usize, k: usize) {
        // Behind all areas.
        let at = 400_000 + (number * RECVS + k) * PLACE;
        let sge = [self.end.sge(at, PLACE)];
        let qpn = self.served[number].qpn.unwrap();
        // Refused once the queue pair is gone.
        let _ = self.end.ep.post_recv(qpn, (number * RECVS + k) as u64, &sge);
    }

    fn completed(&mut self, wc: Wc) {
        if self.serves {
            if wc.status == WcStatus::Flushed {
                return;
            }
            assert_eq!(wc.status, WcStatus::Success, "{wc:?}");
            let (number, k) = (wc.wr_id as usize / RECVS, wc.wr_id as usize % RECVS);
            let index = wc.imm.expect("every message says its number");
            // In order, each once: the numbers only grow, and how many there are is compared at the end.
            assert!(
                index >= self.served[number].next,
                "message {index} of connection {number} came late or twice"
            );
            self.served[number].next = index + 1;
            if wc.opcode == WcOpcode::Recv {
                let got = self.end.bytes(400_000 + wc.wr_id as usize * PLACE, wc.len as usize);
                assert_eq!(got, content(self.seed + number as u64, u64::from(index), wc.len as usize));
            }
            self.served[number].received += 1;
            self.post_recv(number, k);
            return;
        }
        let i = self.clients.iter().position(|c| c.qpn == wc.qpn).unwrap();
        let c = &mut self.clients[i];
        assert_eq!((wc.status, wc.wr_id), (WcStatus::Success, c.done), "connection {i}");
        if let Expect::Bytes(want) = &c.expect[c.done as usize] {
            let at = place(i, c.done) + PLACE;
            assert!(
                &self.end.bytes(at, want.len()) == want,
                "connection {i}, operation {}: other bytes",
                c.done
            );
        }
        c.done += 1;
    }

    fn work(&mut self, now: Instant, i: usize) {
        let rkey = self.end.mr.rkey;
        let seed = self.seed + i as u64;
        let c = &mut self.clients[i];
        if !c.ready {
            return;
        }
        let base = BASE + (i * AREA) as u64;
        while c.posted < c.goal && c.posted - c.done < WINDOW {
            let n = c.posted;
            let len = match self.prng.below(4) {
                0 => self.prng.below(9) as usize,
                1 => 1024 * self.prng.below(4) as usize,
                _ => self.prng.below(LEN_MAX as u64) as usize,
            };
            let at = self.prng.below((COUNTER - len) as u64) as usize;
            let addr = base + at as u64;
            let counter = base + COUNTER as u64;
            let source = place(i, n);
            let data = content(seed, n, len);
            let mut expect = Expect::Nothing;
            let (op, from, len) = match self.prng.below(6) {
                0 => (SendOp::SendImm(n as u32), source, len),
                1 => {
                    c.model[at..at + len].copy_from_slice(&data);
                    (SendOp::Write { addr, rkey }, source, len)
                }
                2 => {
                    c.model[at..at + len].copy_from_slice(&data);
                    (SendOp::WriteImm { addr, rkey, imm: n as u32 }, source, len)
                }
                3 => {
                    expect = Expect::Bytes(c.model[at..at + len].to_vec());
                    (SendOp::Read { addr, rkey }, source + PLACE, len)
                }
                4 => {
                    expect = Expect::Bytes(c.counter.to_ne_bytes().to_vec());
                    c.counter = c.counter.wrapping_add(n + 1);
                    (SendOp::FetchAdd { addr: counter, rkey, add: n + 1 }, source + PLACE, 8)
                }
                _ => {
                    expect = Expect::Bytes(c.counter.to_ne_bytes().to_vec());
                    let hit = self.prng.chance(0.7);
                    let compare = if hit { c.counter } else { !c.counter };
                    if hit {
                        c.counter = n << 32 | 7;
                    }
                    (
                        SendOp::CompareSwap { addr: counter, rkey, compare, swap: n << 32 | 7 },
                        source + PLACE,
                        8,
                    )
                }
            };
            c.messages += u64::from(matches!(op, SendOp::SendImm(_) | SendOp::WriteImm { .. }));
            self.end.fill(source, &data);
            let sge = [self.end.sge(from, len)];
            // What is written while a read is under way, the read may see: the application has to fence (section 9.5).
            let write = matches!(op, SendOp::Write { .. } | SendOp::WriteImm { .. });
            let fence = write || self.prng.chance(0.1);
            let wr = SendWr { fence, ..SendWr::new(n, op, Data::Sges(&sge)) };
            self.end.ep.post_send(c.qpn, &wr).unwrap();
            c.expect.push(expect);
            c.posted += 1;
        }
        if c.done == c.goal && !c.closed {
            let _ = self.end.ep.disconnect(now, c.conn);
        }
    }
}

/// Where an operation's bytes are in the client's memory: its source, and a place further on where reads land.
fn place(connection: usize, n: u64) -> usize {
    (connection * WINDOW as usize + (n % WINDOW) as usize) * 2 * PLACE
}

impl Node for Host {
    fn handle_frame(&mut self, now: Instant, frame: Frame) {
        self.end.ep.handle_frame(now, frame.data());
        self.step(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.end.ep.handle_timeout(now);
        self.step(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        if !self.started {
            self.start(now);
        }
        let mut frame = self.pool.alloc()?;
        assert!(frame.set_len(self.end.ep.frame_len_max()));
        let len = self.end.ep.poll_transmit(now, frame.data_mut())?;
        assert!(frame.set_len(len));
        Some(frame)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.end.ep.poll_timeout()
    }
}

fn host(world: &mut World, seed: u64, n: u8, connections: usize, mtu: Mtu) -> Host {
    let mut config = config(n);
    config.cm.response_timeout = Duration::from_millis(5);
    config.cm.retries = 15;
    let mut prng = world.fork_prng();
    config.ack_every = 1 + prng.below(32) as u16;
    config.window_packets = 1 + prng.below(64) as u32;
    config.cm.responder_resources = 1 + prng.below(4) as u8 * 5;
    config.cm.min_rnr_timer = 1 + prng.below(12) as u8;
    config.migrated = prng.chance(0.5);
    config.mtu = mtu;
    let end = End::new(config, seed as u8 ^ n);
    Host {
        end,
        pool: world.pool().clone(),
        prng,
        seed,
        serves: n == 2,
        started: false,
        clients: Vec::new(),
        served: Vec::new(),
        connections,
    }
}

fn link(prng: &mut Prng) -> LinkConfig {
    let mut on = |p: f64, most: f64| if prng.chance(p) { most * prng.unit() } else { 0.0 };
    let (loss, duplicate, reorder, corrupt) = (on(0.7, 0.06), on(0.5, 0.06), on(0.5, 0.1), on(0.5, 0.03));
    let damage = match prng.below(3) {
        0 => Damage::Bits(4),
        1 => Damage::Burst(32),
        _ => Damage::SwapWords,
    };
    LinkConfig {
        delay: Duration::from_nanos(1_000 << prng.below(8)),
        jitter: Duration::from_micros(prng.below(50)),
        rate_bps: prng.chance(0.5).then(|| 100_000_000 << prng.below(7)),
        ecn_threshold_bytes: prng.chance(0.5).then_some(20_000),
        loss,
        duplicate,
        reorder: (reorder > 0.0)
            .then(|| Reorder { probability: reorder, extra: Duration::from_micros(1 + prng.below(300)) }),
        corrupt: (corrupt > 0.0).then_some(Corrupt { probability: corrupt, damage, skip: 14 }),
        ..LinkConfig::default()
    }
}

/// Packets that were sent again.
fn run(seed: u64) -> u64 {
    let mut world = World::new(seed);
    let mut prng = world.fork_prng();
    let connections = 1 + prng.below(4) as usize;
    let mtu = [Mtu::M256, Mtu::M512, Mtu::M1024][prng.below(3) as usize];
    let mut hosts = [1, 2].map(|n| host(&mut world, seed, n, connections, mtu));
    // The client uses the server's key; it would be told by a message otherwise.
    hosts[0].end.mr = Mr { rkey: hosts[1].end.mr.rkey, ..hosts[0].end.mr };
    let [a, b] = hosts;
    let (a, b) = (world.add_node(Box::new(a)), world.add_node(Box::new(b)));
    let (clock_a, clock_b) = (NodeClock::random(&mut prng), NodeClock::random(&mut prng));
    world.set_clock(a, clock_a);
    world.set_clock(b, clock_b);
    let (forward, reverse) = (link(&mut prng), link(&mut prng));
    world.connect_with(a, b, forward, reverse);
    let outcome = world.run_while(Duration::from_secs(120), |world| {
        let (client, server) = (world.node::<Host>(a), world.node::<Host>(b));
        !client.started
            || client.clients.iter().any(|c| !c.closed)
            || client.end.ep.connections() + server.end.ep.connections() > 0
    });
    if outcome != Outcome::Done {
        let (client, server) = (world.node::<Host>(a), world.node::<Host>(b));
        for c in &client.clients {
            println!(
                "client {}/{}/{} {:?} {:?}",
                c.done,
                c.posted,
                c.goal,
                client.end.ep.conn_info(c.conn),
                client.end.ep.query_qp(c.qpn)
            );
        }
        for s in &server.served {
            println!("server {} {} {:?}", s.received, s.closed, s.qpn.map(|q| server.end.ep.query_qp(q)));
        }
        println!("{:#?}\n{:#?}", client.end.ep.counters(), server.end.ep.counters());
    }
    outcome.unwrap_done();
    let (client, server) = (world.node::<Host>(a), world.node::<Host>(b));
    for (i, c) in client.clients.iter().enumerate() {
        let got = server.end.bytes(i * AREA, AREA);
        assert_eq!(server.served[i].received, c.messages, "connection {i}");
        assert!(got[..COUNTER] == c.model[..COUNTER], "memory of connection {i} differs from the model's");
        assert_eq!(u64::from_ne_bytes(got[COUNTER..].try_into().unwrap()), c.counter, "connection {i}");
    }
    assert_eq!(
        (client.end.ep.live_qps(), client.end.ep.counters().connections.get()),
        (0, connections as u64)
    );
    client.end.ep.counters().packets_resent.get()
}

fn part(part: u64) {
    let (mut seeds, mut resent) = (0, 0);
    seeds_part(1000, part, 2, |seed| {
        seeds += 1;
        resent += run(seed);
    });
    // The networks were bad ones.
    assert!(seeds < 100 || resent > 10 * seeds, "{resent} packets sent again in {seeds} seeds");
}

#[test]
fn exactly_once_part_one() {
    part(0);
}

#[test]
fn exactly_once_part_two() {
    part(1);
}

#[test]
fn a_seed_replays_to_the_byte() {
    let hash = |seed| {
        let mut world = World::new(seed);
        let mut a = host(&mut world, seed, 1, 2, Mtu::M1024);
        let b = host(&mut world, seed, 2, 2, Mtu::M1024);
        a.end.mr.rkey = b.end.mr.rkey;
        let (a, b) = (world.add_node(Box::new(a)), world.add_node(Box::new(b)));
        world.connect(a, b, LinkConfig { loss: 0.05, ..LinkConfig::default() });
        let _ = world.run_for(Duration::from_millis(20));
        world.trace_hash()
    };
    assert_eq!(hash(5), hash(5));
    assert_ne!(hash(5), hash(6));
}
