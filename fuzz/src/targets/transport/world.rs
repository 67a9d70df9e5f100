//! Three stations on one wire in virtual time: a victim that listens, an honest peer, a hostile one. The victim has one
//! application, so that whoever comes shares its memory, its places and its slots.

use crate::frames::{mac, v4};
use barewire_base::{Duration, Instant};
use barewire_frame::{Frame, Pool, PoolConfig};
use barewire_host::{Datagram, Endpoint as _, Host, HostConfig, HostEvent, Input, Verdict};
use barewire_transport::security::{Peer, PrivateKey, Security};
use barewire_transport::{Config, Endpoint, Event, FlowId, HeapMemory, Memory, RecvBuf, SendBuf, Turn};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

/// Places of the stations in [`World::stations`]; station `i` is host `i + 1`.
pub const VICTIM: usize = 0;
pub const HONEST: usize = 1;
pub const HOSTILE: usize = 2;
/// Where the victim listens for honest peers, and for everybody else.
pub const PORT_HONEST: u16 = 888;
pub const PORT_HOSTILE: u16 = 889;
/// The one application of a station, and the tokens of its listeners.
const OWNER: u32 = 0;
const TOKEN_HONEST: u64 = 1;
const TOKEN_HOSTILE: u64 = 2;
/// Bytes that a station has to send from and to receive into.
const SEND_BYTES: usize = 32 << 10;
const RECV_BYTES: usize = 32 << 10;
/// Longest that the honest flow may stand still after the attack: unfinished messages give way after a second or two.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most flows of a station.
pub const FLOWS: u32 = 8;
const SEND_MESSAGES: u32 = 64;
/// Fewer than one flow could have under way.
const RECV_MESSAGES: u32 = 100;
/// The most events that may wait, from the configuration: those of messages, and four for each flow.
pub const EVENTS_MAX: usize = (SEND_MESSAGES + RECV_MESSAGES + FLOWS * 4) as usize;
/// Time between two frames on the wire.
const FRAME_TIME: Duration = Duration::from_micros(5);
/// Frames that the three may exchange in one [`World::pump`]; with more they chatter without end.
const FRAMES_MAX: usize = 20_000;

thread_local! {
    static POOL: Pool =
        Pool::new(PoolConfig { frames: 4096, chunk_len: 2048, ..PoolConfig::default() }).expect("a pool");
}

fn config() -> Config {
    Config {
        flows_max: FLOWS,
        send_messages_max: SEND_MESSAGES,
        recv_messages_max: RECV_MESSAGES,
        mtu: 320,
        recv_window_bytes: 16 << 10,
        half_open_max: 4,
        ..Config::default()
    }
}

fn security(n: u8) -> Security {
    let key = |n| PrivateKey::from_bytes([n ^ 0x5a; 32]);
    let mut security = Security::new(key(n));
    let addresses = vec![std::net::IpAddr::from(v4(3 - n)).into()];
    security.trust(Peer { name: "the other".to_owned(), key: key(3 - n).public(), addresses });
    security.require = false;
    security
}

/// Message memory that looks where it is read and written.
pub struct Watched(HeapMemory);

impl Memory for Watched {
    fn read(&mut self, buf: SendBuf, offset: u32, out: &mut [u8]) -> bool {
        assert!(u64::from(offset) + out.len() as u64 <= u64::from(buf.len), "read beyond the message");
        self.0.read(buf, offset, out)
    }

    fn alloc(&mut self, owner: u32, len: u32, turn: Turn) -> Option<RecvBuf> {
        self.0.alloc(owner, len, turn)
    }

    fn message_max(&self, owner: u32) -> u32 {
        self.0.message_max(owner)
    }

    fn write(&mut self, buf: RecvBuf, offset: u32, bytes: &[u8]) {
        assert!(u64::from(offset) + bytes.len() as u64 <= u64::from(buf.len), "written beyond the message");
        self.0.write(buf, offset, bytes);
    }

    fn free(&mut self, buf: RecvBuf) {
        self.0.free(buf);
    }
}

/// A packet as it arrived somewhere.
#[derive(Clone)]
pub struct Seen {
    pub datagram: Datagram,
    pub bytes: Vec<u8>,
    pub from: usize,
}

/// A host with an endpoint.
pub struct Station {
    pub host: Host,
    pub endpoint: Endpoint<Watched>,
    /// The flow that must live.
    pub honest: Option<FlowId>,
    /// Flows to the hostile station.
    pub hostile: Option<FlowId>,
    /// What arrived on the honest flow.
    pub inbox: Vec<Vec<u8>>,
    /// Messages of the honest flow that were acknowledged.
    pub delivered: usize,
    /// Packets that others sent here, whether or not they arrived.
    pub seen: Vec<Seen>,
}

impl Station {
    fn new(n: u8, secure: bool) -> Station {
        let mut host = HostConfig::new(mac(n));
        host.ipv4 = vec![(v4(n), 24)];
        host.neighbours_max = 16;
        let memory = Watched(HeapMemory::new(SEND_BYTES, RECV_BYTES));
        // The victim and the honest peer have each other's keys; the hostile one has none.
        let security = (secure && n <= 2).then(|| Arc::new(security(n)));
        let config = Config { security, ..config() };
        Station {
            host: Host::new(host),
            endpoint: Endpoint::new(config, memory, [n; 32]).expect("a sound configuration"),
            honest: None,
            hostile: None,
            inbox: Vec::new(),
            delivered: 0,
            seen: Vec::new(),
        }
    }

    /// Sends a message; false when there is no room or no flow any more.
    pub fn send(&mut self, now: Instant, flow: FlowId, bytes: &[u8]) -> bool {
        let memory = &mut self.endpoint.memory_mut().0;
        let Some(buf) = memory.reserve(bytes.len() as u32) else { return false };
        memory.send_bytes(buf).copy_from_slice(bytes);
        let sent = self.endpoint.send(now, flow, buf, 0).is_ok();
        if !sent {
            self.endpoint.memory_mut().0.release_send(buf);
        }
        sent
    }

    /// Takes all events; says how many there were.
    fn drain(&mut self, now: Instant) -> usize {
        while let Some(HostEvent::Resolved(_) | HostEvent::Unreachable(_) | HostEvent::Moved(_)) =
            self.host.poll_event()
        {
            self.endpoint.routes_changed(now);
        }
        let mut events = 0;
        while let Some(event) = self.endpoint.poll_event() {
            events += 1;
            match event {
                Event::Received { flow, buf, .. } => {
                    if Some(flow) == self.honest {
                        let bytes = self.endpoint.memory().0.recv_bytes(buf).to_vec();
                        self.inbox.push(bytes);
                    }
                    self.endpoint.release(now, flow, buf);
                }
                Event::Sent { flow, buf, delivered, .. } => {
                    let lost = Some(flow) == self.honest && !delivered;
                    assert!(!lost, "a message of the honest flow was given up");
                    self.delivered += usize::from(Some(flow) == self.honest);
                    assert!(self.endpoint.memory_mut().0.release_send(buf), "memory given back twice");
                }
                Event::Accepted { flow, token: TOKEN_HONEST, remote, .. }
                    if self.honest.is_none() && remote.ip() == v4(HONEST as u8 + 1) =>
                {
                    self.honest = Some(flow);
                }
                Event::Accepted { flow, token: TOKEN_HOSTILE, .. } if self.hostile.is_none() => {
                    self.hostile = Some(flow);
                }
                Event::Closed { flow, reason, .. } => {
                    assert_ne!(Some(flow), self.honest, "the honest flow was closed: {reason}");
                }
                Event::ConnectFailed { flow, reason, .. } => {
                    assert_ne!(Some(flow), self.honest, "the honest flow did not open: {reason}");
                }
                _ => {}
            }
        }
        events
    }
}

/// The wire and who is on it.
pub struct World {
    pub now: Instant,
    pub stations: [Station; 3],
    pool: Pool,
    wire: VecDeque<(usize, Frame)>,
}

/// The bytes of message `n` of station `from`: of one to five segments.
pub fn message(from: usize, n: usize) -> Vec<u8> {
    let len = 40 + (n * 217 + from * 91) % 1000;
    (0..len).map(|i| (i * 7 + n * 31 + from) as u8).collect()
}

impl World {
    /// The three of them, with two open flows to the victim, which have carried messages both ways, and more messages
    /// under way whose first packets were lost.
    pub fn new(secure: bool) -> World {
        let mut world = World {
            now: Instant::from_nanos(1_000_000_000),
            stations: [1, 2, 3].map(|n| Station::new(n, secure)),
            pool: POOL.with(Pool::clone),
            wire: VecDeque::with_capacity(64),
        };
        let victim = &mut world.stations[VICTIM].endpoint;
        victim.listen(PORT_HONEST, OWNER, TOKEN_HONEST).expect("a free port");
        victim.listen(PORT_HOSTILE, OWNER, TOKEN_HOSTILE).expect("a free port");
        let honest = world.connect(HONEST, PORT_HONEST).expect("room for a flow");
        world.stations[HONEST].honest = Some(honest);
        let hostile = world.connect(HOSTILE, PORT_HOSTILE).expect("room for a flow");
        world.stations[HOSTILE].hostile = Some(hostile);
        world.say(0);
        world.pump(Duration::from_millis(5), false);
        world.say(1);
        world.pump(Duration::ZERO, true);
        world.check_open();
        world
    }

    fn connect(&mut self, from: usize, udp_port: u16) -> Option<FlowId> {
        let local = SocketAddr::new(v4(from as u8 + 1).into(), 0);
        let remote = SocketAddr::new(v4(VICTIM as u8 + 1).into(), udp_port);
        let endpoint = &mut self.stations[from].endpoint;
        let flow = endpoint.connect(self.now, OWNER, local, remote, true, 0).ok()?;
        self.pump(Duration::from_millis(5), false);
        Some(flow)
    }

    /// Everybody sends message `n` on every flow there is.
    fn say(&mut self, n: usize) {
        for from in [VICTIM, HONEST] {
            let flow = self.stations[from].honest.expect("an open flow");
            let bytes = message(from, n);
            assert!(self.stations[from].send(self.now, flow, &bytes), "the honest flow takes no message");
        }
        for from in [VICTIM, HOSTILE] {
            if let Some(flow) = self.stations[from].hostile {
                let bytes = message(from, n);
                self.stations[from].send(self.now, flow, &bytes);
            }
        }
    }

    /// Collects what the stations send. True: something is on the wire.
    fn transmit(&mut self) -> bool {
        for (i, station) in self.stations.iter_mut().enumerate() {
            // A burst and no more: acknowledgements have to come in between.
            for _ in 0..32 {
                let Some(mut frame) = self.pool.alloc() else { break };
                let sent = station.host.poll_transmit(self.now, &mut frame)
                    || station.endpoint.poll_transmit(self.now, &mut station.host, &mut frame);
                if !sent {
                    break;
                }
                assert!(
                    frame.len() <= 14 + usize::from(config().mtu).max(1280),
                    "a frame of {} bytes",
                    frame.len()
                );
                self.wire.push_back((i, frame));
            }
        }
        !self.wire.is_empty()
    }

    /// Lets the stations talk until they are silent or `time` has passed. With `lose`, packets of the transport are seen
    /// and lost.
    pub fn pump(&mut self, time: Duration, lose: bool) {
        let end = self.now + time;
        let mut frames = 0;
        loop {
            while self.transmit() {
                while let Some((from, frame)) = self.wire.pop_front() {
                    frames += 1;
                    assert!(frames < FRAMES_MAX, "the stations never fall silent");
                    self.now += FRAME_TIME;
                    self.arrive(from, &frame, lose);
                }
            }
            let due =
                |s: &Station| [s.host.poll_timeout(), s.endpoint.poll_timeout()].into_iter().flatten().min();
            let next = self.stations.iter().filter_map(due).min().unwrap_or(Instant::FAR_FUTURE);
            if next > end || self.now >= end {
                break;
            }
            // What is overdue but has nothing to send waits for the clock.
            self.now = next.max(self.now + Duration::from_nanos(1));
            self.tick();
        }
        self.now = self.now.max(end);
        self.tick();
        for (i, station) in self.stations.iter().enumerate() {
            let endpoint = &station.endpoint;
            endpoint.audit_progress(self.now).unwrap_or_else(|wrong| panic!("station {i}: {wrong}"));
        }
    }

    fn tick(&mut self) {
        for station in &mut self.stations {
            station.host.handle_timeout(self.now);
            station.endpoint.handle_timeout(self.now);
            let events = station.drain(self.now);
            assert!(events <= EVENTS_MAX, "{events} events");
        }
    }

    fn arrive(&mut self, from: usize, frame: &Frame, lose: bool) {
        for to in (0..self.stations.len()).filter(|to| *to != from) {
            let station = &mut self.stations[to];
            if let Input::Udp(datagram) = station.host.handle_frame(self.now, frame) {
                let mut bytes = datagram.payload(frame).to_vec();
                if station.seen.len() < 64 {
                    station.seen.push(Seen { datagram, bytes: bytes.clone(), from });
                }
                if !lose {
                    station.endpoint.handle_datagram(self.now, &datagram, &mut bytes);
                    station.drain(self.now);
                }
            }
        }
    }

    /// Gives a packet to the endpoint of `to`, and checks that a drop is counted once and nothing else is.
    pub fn inject(&mut self, to: usize, datagram: &Datagram, bytes: &[u8]) -> Verdict {
        let station = &mut self.stations[to];
        let before = station.endpoint.counters().drops.total();
        let datagram = Datagram { payload_len: bytes.len() as u16, ..*datagram };
        let verdict = station.endpoint.handle_datagram(self.now, &datagram, &mut bytes.to_vec());
        let dropped = station.endpoint.counters().drops.total() - before;
        assert_eq!(dropped, u64::from(matches!(verdict, Verdict::Drop(_))), "{verdict:?}");
        assert!(station.endpoint.flows_used() <= FLOWS);
        // What a packet did to the books is seen at once, not when they are needed.
        let progress = || station.endpoint.audit_progress(self.now);
        if let Err(wrong) = station.endpoint.audit().and_then(|()| progress()) {
            panic!("{wrong}");
        }
        verdict
    }

    /// The honest flow is open at both ends.
    pub fn check_open(&self) {
        for (name, station) in [("victim", &self.stations[VICTIM]), ("honest peer", &self.stations[HONEST])] {
            let flow = station.honest.expect("the flow was opened");
            let state = station.endpoint.flows().find(|f| f.id == flow).map(|f| f.state);
            assert_eq!(state, Some("open"), "the honest flow at the {name}");
        }
    }

    /// What was under way arrives, and so does one message more, in order and whole. Then the honest peer has another flow,
    /// in a place that somebody else may have had, and that carries just its own. In the end everything is back.
    pub fn finish(&mut self) {
        self.check_open();
        self.exchange(0..3);
        self.check_open();
        for station in [VICTIM, HONEST] {
            let flow = self.stations[station].honest.take().expect("the flow was opened");
            self.stations[station].endpoint.close(self.now, flow);
        }
        self.pump(Duration::from_millis(200), false);
        // Half-open flows of who never answers may have every place, until they are given up.
        self.stations[HOSTILE].endpoint.drop_owner(self.now, OWNER);
        self.stations[HOSTILE].hostile = None;
        self.pump(Duration::from_secs(6), false);
        let flow = self.connect(HONEST, PORT_HONEST).expect("room for a flow");
        self.stations[HONEST].honest = Some(flow);
        for station in [VICTIM, HONEST] {
            let station = &mut self.stations[station];
            (station.hostile, station.delivered) = (None, 0);
            station.inbox.clear();
        }
        self.pump(Duration::from_millis(50), false);
        self.check_open();
        self.exchange(3..5);
        for station in &mut self.stations {
            station.honest = None;
            station.endpoint.drop_owner(self.now, OWNER);
        }
        self.pump(Duration::from_secs(20), false);
        for (i, station) in self.stations.iter().enumerate() {
            let endpoint = &station.endpoint;
            endpoint.audit().unwrap_or_else(|wrong| panic!("station {i}: {wrong}"));
            assert_eq!((endpoint.flows_used(), endpoint.lingering()), (0, 0), "flows of station {i}");
            assert_eq!((endpoint.received_messages(), endpoint.messages_under_way()), (0, 0), "station {i}");
            assert_eq!(endpoint.memory().0.available().1, RECV_BYTES as u64, "memory of station {i}");
        }
    }

    /// The last of these messages is sent; all of them have to have arrived soon.
    fn exchange(&mut self, numbers: std::ops::Range<usize>) {
        let (first, count) = (numbers.start, numbers.len());
        // Those before the last were sent earlier, in the first exchange.
        let unsent = if first == 0 { numbers.end - 1..numbers.end } else { numbers };
        for n in unsent {
            self.say(n);
        }
        let end = self.now + PATIENCE;
        let has_all = |s: &Station| s.inbox.len() == count && s.delivered == count;
        while self.now < end && ![VICTIM, HONEST].iter().all(|s| has_all(&self.stations[*s])) {
            self.pump(Duration::from_millis(50), false);
        }
        for (to, from) in [(VICTIM, HONEST), (HONEST, VICTIM)] {
            let inbox = &self.stations[to].inbox;
            assert_eq!(inbox.len(), count, "messages that arrived at station {to} within {PATIENCE}");
            assert!(
                inbox.iter().enumerate().all(|(n, got)| *got == message(from, first + n)),
                "messages of another content"
            );
            assert_eq!(
                self.stations[from].delivered, count,
                "messages that station {from} knows to have arrived"
            );
        }
    }
}
