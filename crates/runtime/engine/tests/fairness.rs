//! The host's few frames leave however much the endpoints have to send, and a port that fails one way works the other.

use barewire_base::{Duration, Instant};
use barewire_engine::{RdmaStack, Stack};
use barewire_frame::{Burst, Frame, Pool, PoolConfig};
use barewire_host::{Host, HostConfig};
use barewire_port::{
    MemoryConfig, MemoryEnd, MemoryLink, MemoryPort, Port, PortCaps, PortCounters, PortError,
};
use barewire_roce::{self as roce, Connect, Data, QpInit, SendOp, SendWr, Terms};
use barewire_transport::{self as transport, Endpoint, Event, HeapMemory, SendBuf};
use barewire_wire::{EtherType, MacAddr, arp, eth};
use std::net::Ipv4Addr;

const STRANGER: u8 = 77;
/// Slots of a link: the port is what holds the sender up.
const SLOTS: u32 = 8;

fn ip(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

fn mac(host: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, host])
}

fn host(n: u8) -> Host {
    let mut config = HostConfig::new(mac(n));
    config.ipv4 = vec![(ip(n), 24)];
    Host::new(config)
}

fn messages(port: Box<dyn Port>, pool: Pool, n: u8, flows: u32) -> Stack<HeapMemory> {
    let config = transport::Config { flows_max: flows, ..transport::Config::default() };
    let endpoint = Endpoint::new(config, HeapMemory::new(4 << 20, 4 << 20), [n; 32]).unwrap();
    Stack::new(port, pool, host(n), endpoint)
}

/// An ARP request of the stranger's for the address of host `to`.
fn question(pool: &Pool, to: u8) -> Frame {
    let mut frame = pool.alloc().unwrap();
    assert!(frame.set_len(14 + arp::PACKET_LEN));
    let data = frame.data_mut();
    eth::Repr { dst: MacAddr::BROADCAST, src: mac(STRANGER), ethertype: EtherType::ARP }
        .emit(&mut eth::Packet::new_unchecked(&mut data[..]));
    arp::Repr {
        operation: arp::Operation::Request,
        sender_mac: mac(STRANGER),
        sender_ip: ip(STRANGER),
        target_mac: MacAddr::ZERO,
        target_ip: ip(to),
    }
    .emit(&mut arp::Packet::new_unchecked(&mut data[14..]));
    frame
}

fn is_answer(data: &[u8]) -> bool {
    data[..6] == mac(STRANGER).0 && data[12..14] == [8, 6] && data[20..22] == [0, 2]
}

/// A cable cut in two, with a pair of hands between: they see each frame, and put in their own.
struct Cable {
    ends: [MemoryPort; 2],
    pool: Pool,
    now: Instant,
    /// Frames that passed each way in this cycle.
    passed: [usize; 2],
    answered: bool,
    /// Comes to the first end before anything else.
    urgent: Option<Frame>,
}

impl Cable {
    fn new() -> (Cable, [MemoryEnd; 2]) {
        let config = MemoryConfig { slots: SLOTS, ..MemoryConfig::default() };
        let pool = Pool::new(PoolConfig::default()).unwrap();
        let (left, left_hand) = MemoryLink::new(config).unwrap();
        let (right, right_hand) = MemoryLink::new(MemoryConfig::default()).unwrap();
        let ends = [left_hand.open(pool.clone()), right_hand.open(pool.clone())];
        let now = Instant::from_nanos(1_000_000_000);
        (Cable { ends, pool, now, passed: [0; 2], answered: false, urgent: None }, [left, right])
    }

    fn put(&mut self, to: usize, frame: Frame) {
        let mut burst = Burst::new();
        burst.push(frame).unwrap();
        assert_eq!(self.ends[to].tx_burst(self.now, &mut burst).unwrap(), 1);
    }

    /// Hands on what each end has sent.
    fn carry(&mut self) {
        self.passed = [0; 2];
        if let Some(frame) = self.urgent.take() {
            self.put(0, frame);
        }
        for from in 0..2 {
            let mut burst = Burst::new();
            while self.ends[from].rx_burst(self.now, &mut burst).unwrap() > 0 {
                for frame in burst.iter() {
                    self.answered |= is_answer(frame.data());
                }
                self.passed[from] += burst.len();
                self.ends[1 - from].tx_burst(self.now, &mut burst).unwrap();
                burst.clear();
            }
        }
        self.now += Duration::from_micros(10);
    }
}

/// A client that always has something to send on each of `flows` flows, and a server that reads and acknowledges at once.
struct Busy {
    a: Stack<HeapMemory>,
    b: Stack<HeapMemory>,
    cable: Cable,
}

impl Busy {
    fn new(flows: u32) -> Busy {
        let (cable, [left, right]) = Cable::new();
        let stack = |end: MemoryEnd, n| {
            let pool = Pool::new(PoolConfig::default()).unwrap();
            // One host may have half of the table that is not kept for connections from here.
            messages(Box::new(end.open(pool.clone())), pool, n, 3 * flows + 1)
        };
        let (a, mut b) = (stack(left, 1), stack(right, 2));
        b.endpoint_mut().listen(888, 0, 0).unwrap();
        let mut busy = Busy { a, b, cable };
        for _ in 0..flows {
            let now = busy.cable.now;
            let (from, to) = ((ip(1), 0).into(), (ip(2), 888).into());
            busy.a.endpoint_mut().connect(now, 0, from, to, true, 0).unwrap();
        }
        let len = if flows > 1 { 1_000 } else { 100_000 };
        let (mut open, mut queued) = (0, 0);
        for _ in 0..20_000 {
            let now = busy.cable.now;
            busy.cycle(&mut |a, event| match event {
                Event::Connected { flow, .. } => {
                    open += 1;
                    for _ in 0..if flows > 1 { 2 } else { 20 } {
                        let buf = a.endpoint_mut().memory_mut().reserve(len).unwrap();
                        a.endpoint_mut().send(now, flow, buf, 0).unwrap();
                        queued += 1;
                    }
                }
                Event::Sent { flow, buf, .. } => a.endpoint_mut().send(now, flow, buf, 0).unwrap(),
                other => panic!("{other:?}"),
            });
            if open == flows && busy.cable.passed[0] == SLOTS as usize {
                return busy;
            }
        }
        panic!("{open} of {flows} flows are open");
    }

    fn cycle(&mut self, on_event: &mut dyn FnMut(&mut Stack<HeapMemory>, Event)) {
        let now = self.cable.now;
        self.a.poll(now).unwrap();
        for _ in 0..8 {
            self.b.poll(now).unwrap();
        }
        while let Some(event) = self.a.poll_event() {
            on_event(&mut self.a, event);
        }
        while let Some(event) = self.b.poll_event() {
            if let Event::Received { flow, buf, .. } = event {
                self.b.endpoint_mut().release(now, flow, buf);
            }
        }
        self.cable.carry();
    }

    /// A cycle in which what was sent is sent again.
    fn go_on(&mut self) {
        let now = self.cable.now;
        self.cycle(&mut |a, event| match event {
            Event::Sent { flow, buf, .. } => a.endpoint_mut().send(now, flow, buf, 0).unwrap(),
            other => panic!("{other:?}"),
        });
    }

    /// Whether the port was full all the time.
    fn is_saturated(&mut self, cycles: usize) -> bool {
        (0..cycles).all(|_| {
            self.go_on();
            self.cable.passed[0] == SLOTS as usize
        })
    }

    /// Cycles from a question to its answer.
    fn ask(&mut self) -> usize {
        self.cable.urgent = Some(question(&self.cable.pool, 1));
        self.cable.answered = false;
        self.go_on();
        (1..2_000)
            .find(|_| {
                self.go_on();
                self.cable.answered
            })
            .expect("no answer")
    }
}

/// What a burst holds leaves in this many cycles; the question comes in at the end of one, the answer passes at the end of one.
const AT_MOST: usize = 32 / SLOTS as usize + 2;

#[test]
fn a_bulk_sender_answers_arp() {
    let mut busy = Busy::new(1);
    busy.is_saturated(500);
    assert!(busy.is_saturated(500), "the sender pauses");
    let cycles = busy.ask();
    assert!(cycles <= AT_MOST, "{cycles} cycles");
    assert!(busy.is_saturated(500), "the sender pauses");
}

#[test]
fn more_flows_than_the_ring_holds_do_not_keep_the_host_silent() {
    let mut busy = Busy::new(1_000);
    assert!(busy.is_saturated(300), "the senders pause");
    for _ in 0..20 {
        let cycles = busy.ask();
        assert!(cycles <= AT_MOST, "{cycles} cycles");
    }
}

#[test]
fn the_last_frame_of_the_pool_is_the_hosts_if_it_wants_it() {
    let mut busy = Busy::new(1);
    busy.is_saturated(500);
    busy.cable.urgent = Some(question(&busy.cable.pool, 1));
    busy.go_on();
    busy.cable.answered = false;
    // What is in the burst leaves; then one frame at a time can be had.
    for _ in 0..AT_MOST + 2 {
        let now = busy.cable.now;
        let pool = busy.a.pool().clone();
        let mut hoard: Vec<Frame> = std::iter::from_fn(|| pool.alloc()).collect();
        hoard.pop();
        busy.a.transmit(now).unwrap();
        drop(hoard);
        busy.a.receive(now, None).unwrap();
        busy.b.poll(now).unwrap();
        busy.cable.carry();
    }
    assert!(busy.cable.answered);
}

#[test]
fn a_busy_rdma_device_answers_arp() {
    let (mut cable, ends) = Cable::new();
    let mut stacks: Vec<_> = ends
        .into_iter()
        .zip(1..)
        .map(|(end, n)| {
            let pool = Pool::new(PoolConfig::default()).unwrap();
            let config = roce::Config::new(mac(n), ip(n).into());
            let endpoint = roce::Endpoint::new(config, [n; 16]).unwrap();
            RdmaStack::new(Box::new(end.open(pool.clone())), pool, host(n), endpoint)
        })
        .collect();
    let mut qps = vec![];
    for stack in &mut stacks {
        let endpoint = stack.endpoint_mut();
        let (pd, cq) = (endpoint.alloc_pd(), endpoint.create_cq(1000).unwrap());
        qps.push(endpoint.create_qp(&QpInit::rc(pd, cq)).unwrap());
    }
    stacks[1].endpoint_mut().listen(50, 4).unwrap();
    let (mut asked, mut connected) = (false, false);
    for _ in 0..10_000 {
        let now = cable.now;
        for stack in &mut stacks {
            stack.poll(now).unwrap();
        }
        if !asked && let barewire_engine::PeerPath::Ready(path) = stacks[0].peer_path(now, ip(2).into(), None)
        {
            stacks[0].endpoint_mut().connect(now, qps[0], &Connect::new(path, 50)).unwrap();
            asked = true;
        }
        if let Some(roce::Event::ConnectRequest { conn, .. }) = stacks[1].poll_event() {
            stacks[1].endpoint_mut().accept(now, conn, qps[1], &Terms::default()).unwrap();
        }
        connected |= matches!(stacks[0].poll_event(), Some(roce::Event::Connected { .. }));
        cable.carry();
        if connected {
            break;
        }
    }
    assert!(connected);
    // More to send than leaves while the answer is waited for; the other end keeps silent.
    for i in 0..100 {
        let wr = SendWr::new(i, SendOp::Send, Data::Inline(b"text"));
        stacks[0].endpoint_mut().post_send(qps[0], &wr).unwrap();
    }
    let question = question(&cable.pool, 1);
    cable.put(0, question);
    cable.answered = false;
    let mut cycles = 0;
    while !cable.answered {
        cycles += 1;
        assert!(cycles <= AT_MOST, "no answer after {cycles} cycles");
        stacks[0].poll(cable.now).unwrap();
        cable.carry();
        assert_eq!(cable.passed[0], SLOTS as usize, "the sender pauses");
    }
}

/// A port that works one way only.
struct OneWay {
    inner: MemoryPort,
    sends: bool,
}

impl Port for OneWay {
    fn caps(&self) -> &PortCaps {
        self.inner.caps()
    }
    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        if self.sends {
            Err(PortError::PeerGone { port: "one way".into() })
        } else {
            self.inner.rx_burst(now, burst)
        }
    }
    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        if self.sends {
            self.inner.tx_burst(now, burst)
        } else {
            Err(PortError::PeerGone { port: "one way".into() })
        }
    }
    fn counters(&self) -> &PortCounters {
        self.inner.counters()
    }
}

#[test]
fn a_port_that_fails_one_way_works_the_other() {
    for sends in [false, true] {
        let (mut cable, [left, _]) = Cable::new();
        let pool = Pool::new(PoolConfig::default()).unwrap();
        let port = OneWay { inner: left.open(pool.clone()), sends };
        let mut stack = messages(Box::new(port), pool, 1, 4);
        let question = question(&cable.pool, 1);
        cable.put(0, question);
        let buf = SendBuf { owner: 0, offset: 0, len: 0 };
        assert!(stack.endpoint_mut().send(cable.now, transport::FlowId::from_raw(0), buf, 0).is_err());
        assert!(stack.poll(cable.now).is_err(), "the failure is told");
        cable.carry();
        if sends {
            assert_eq!(cable.passed[0], 1, "its announcement left");
        } else {
            assert_eq!(stack.host().counters().rx_frames.get(), 1, "the question was read");
        }
        // The same of a device of RDMA.
        let (mut cable, [left, _]) = Cable::new();
        let pool = Pool::new(PoolConfig::default()).unwrap();
        let port = OneWay { inner: left.open(pool.clone()), sends };
        let endpoint = roce::Endpoint::new(roce::Config::new(mac(1), ip(1).into()), [1; 16]).unwrap();
        let mut stack = RdmaStack::new(Box::new(port), pool, host(1), endpoint);
        let question = self::question(&cable.pool, 1);
        cable.put(0, question);
        assert!(stack.poll(cable.now).is_err(), "the failure is told");
        cable.carry();
        if sends {
            assert!(cable.passed[0] >= 1, "its announcement left");
        } else {
            assert_eq!(stack.host().counters().rx_frames.get(), 1, "the question was read");
        }
    }
}
