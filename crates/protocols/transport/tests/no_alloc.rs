//! After set-up and warm-up the data path allocates nothing.

mod common;
use barewire_base::{Duration, Instant};
use barewire_frame::{Frame, Pool, PoolConfig};
use barewire_host::{Endpoint as _, Host, HostConfig, Input};
use barewire_testing::{Counting, allocations};
use barewire_transport::security::Cipher;
use barewire_transport::*;
use barewire_wire::MacAddr;
use std::net::SocketAddr;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct End {
    host: Host,
    endpoint: Endpoint<HeapMemory>,
    flow: Option<FlowId>,
    echo: bool,
    got: u64,
    sent: u64,
    closed: u64,
}

impl End {
    fn new(n: u8, trust: Option<common::Trust>) -> End {
        let mut config = HostConfig::new(MacAddr(common::mac(n)));
        config.ipv4 = vec![([10, 0, 0, n].into(), 24)];
        let memory = HeapMemory::new(1 << 20, 1 << 20);
        let security = trust.map(|trust| common::security(n, trust).into());
        // Small packets where keys are to change: that takes 8,192 of them.
        let mtu = if security.is_some() { 400 } else { Config::default().mtu };
        let flows = Config { flows_max: 64, security, mtu, ..Config::default() };
        End {
            host: Host::new(config),
            endpoint: Endpoint::new(flows, memory, [n; 32]).unwrap(),
            flow: None,
            echo: n == 2,
            got: 0,
            sent: 0,
            closed: 0,
        }
    }

    fn send(&mut self, now: Instant, len: u32) {
        let Some(flow) = self.flow else { return };
        let buf = self.endpoint.memory_mut().reserve(len).expect("room");
        self.endpoint.memory_mut().send_bytes(buf).fill(7);
        self.endpoint.send(now, flow, buf, 1).expect("sent");
    }

    fn frame(&mut self, now: Instant, frame: &mut Frame) {
        if let Input::Udp(d) = self.host.handle_frame(now, frame) {
            self.endpoint.handle_datagram(now, &d, d.payload_mut(frame));
        }
    }

    fn events(&mut self, now: Instant) {
        while self.host.poll_event().is_some() {
            self.endpoint.routes_changed(now);
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Received { flow, buf, .. } => {
                    self.got += 1;
                    self.endpoint.release(now, flow, buf);
                    if self.echo {
                        self.send(now, buf.len);
                    }
                }
                Event::Sent { buf, delivered, .. } => {
                    self.endpoint.memory_mut().release_send(buf);
                    self.sent += u64::from(delivered);
                }
                Event::Connected { flow, .. } | Event::Accepted { flow, .. } => self.flow = Some(flow),
                Event::Closed { .. } => self.closed += 1,
                _ => {}
            }
        }
    }

    fn transmit(&mut self, now: Instant, frame: &mut Frame) -> bool {
        self.host.poll_transmit(now, frame)
            || self.endpoint.poll_transmit(now, &mut self.host, frame)
            || self.host.poll_transmit(now, frame)
    }
}

/// Moves frames between the two ends, losing every `lose`th, until both are quiet or `time` is over.
fn shuttle(ends: &mut [End; 2], pool: &Pool, now: &mut Instant, time: Duration, lose: u64, n: &mut u64) {
    let end = *now + time;
    while *now < end {
        *now += Duration::from_micros(5);
        for side in 0..2 {
            ends[side].host.handle_timeout(*now);
            ends[side].endpoint.handle_timeout(*now);
            ends[side].events(*now);
            loop {
                let mut frame = pool.alloc().expect("a frame");
                if !ends[side].transmit(*now, &mut frame) {
                    break;
                }
                *n += 1;
                if lose == 0 || !n.is_multiple_of(lose) {
                    ends[1 - side].frame(*now, &mut frame);
                }
            }
            ends[1 - side].events(*now);
        }
    }
}

#[test]
fn request_and_response_allocate_nothing() {
    let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
    let mut ends = [End::new(1, None), End::new(2, None)];
    ends[1].endpoint.listen(888, 0, 0).unwrap();
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut n = 0;
    let mut turn = |ends: &mut [End; 2], now: &mut Instant, lose: u64| {
        let local: SocketAddr = ([10, 0, 0, 1], 0).into();
        ends[0].flow = None;
        ends[0].endpoint.connect(*now, 0, local, ([10, 0, 0, 2], 888).into(), true, 0).unwrap();
        shuttle(ends, &pool, now, Duration::from_millis(30), lose, &mut n);
        for round in 0..100 {
            // One segment, many, none at all; and in the middle a silence in which timers run.
            ends[0].send(*now, [64, 20_000, 0][round % 3]);
            shuttle(ends, &pool, now, Duration::from_micros(300), lose, &mut n);
        }
        shuttle(ends, &pool, now, Duration::from_secs(6), 0, &mut n);
        let flow = ends[0].flow.expect("connected");
        ends[0].endpoint.close(*now, flow);
        shuttle(ends, &pool, now, Duration::from_millis(200), 0, &mut n);
    };
    turn(&mut ends, &mut now, 0);
    let before = allocations();
    for lose in [0, 7, 0, 13] {
        turn(&mut ends, &mut now, lose);
    }
    assert_eq!(allocations() - before, 0);
    // It was no idle run.
    assert_eq!((ends[0].got, ends[1].got, ends[0].sent, ends[1].sent), (500, 500, 500, 500));
    assert_eq!((ends[0].closed, ends[1].closed), (5, 5));
    assert!(ends[0].endpoint.counters().segments_resent.get() > 0);
    let proof = Box::new(5);
    assert_eq!(allocations() - before, u64::from(*proof == 5), "the counter counts");
}

/// With encryption the handshake allocates, and nothing after it: sealing, opening, new keys, losses and acknowledgements.
#[test]
fn encrypted_request_and_response_allocate_nothing() {
    for trust in [common::Trust::Known, common::Trust::Anywhere] {
        let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() }).unwrap();
        let mut ends = [End::new(1, Some(trust)), End::new(2, Some(trust))];
        ends[1].endpoint.listen(888, 0, 0).unwrap();
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut n = 0;
        let local: SocketAddr = ([10, 0, 0, 1], 0).into();
        ends[0].endpoint.connect(now, 0, local, ([10, 0, 0, 2], 888).into(), true, 0).unwrap();
        shuttle(&mut ends, &pool, &mut now, Duration::from_millis(50), 0, &mut n);
        assert!(ends[0].flow.is_some() && ends[1].flow.is_some());
        let mut before = 0;
        for round in 0..400 {
            if round == 50 {
                before = allocations();
            }
            let lose = [0, 7, 0, 13][round % 4];
            ends[0].send(now, [64, 20_000, 0][round % 3]);
            shuttle(&mut ends, &pool, &mut now, Duration::from_micros(300), lose, &mut n);
        }
        shuttle(&mut ends, &pool, &mut now, Duration::from_secs(6), 0, &mut n);
        assert_eq!(allocations() - before, 0, "{trust:?}");
        assert_eq!((ends[0].got, ends[1].got), (400, 400));
        let counters = ends[0].endpoint.counters();
        assert!(counters.segments_resent.get() > 0 && counters.key_updates.get() > 0);
        assert_eq!(ends[0].endpoint.flows().next().unwrap().cipher, Some(Cipher::best_first()[0].as_str()));
    }
}
