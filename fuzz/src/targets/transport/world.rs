//! Three stations on one wire in virtual time: a victim that listens, an honest peer, a hostile one.

use crate::frames::{mac, v4};
use barewire_base::{Duration, Instant};
use barewire_frame::{Frame, Pool, PoolConfig};
use barewire_host::{Datagram, Endpoint as _, Host, HostConfig, HostEvent, Input, Verdict};
use barewire_transport::{Config, Endpoint, Event, FlowId, HeapMemory, Memory, RecvBuf, SendBuf};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Places of the stations in [`World::stations`]; station `i` is host `i + 1`.
pub const VICTIM: usize = 0;
pub const HONEST: usize = 1;
pub const HOSTILE: usize = 2;
/// Where the victim listens for honest peers, and for everybody else.
pub const PORT_HONEST: u16 = 888;
pub const PORT_HOSTILE: u16 = 889;
/// Owners of flows: messages of one do not use the other's memory.
const OWNER_HONEST: u32 = 0;
const OWNER_HOSTILE: u32 = 1;
/// Most flows of a station.
pub const FLOWS: u32 = 8;
const SEND_MESSAGES: u32 = 64;
/// Every flow may use its whole window of messages, so that a hostile one takes none from the honest one.
const RECV_MESSAGES: u32 = FLOWS * 256;
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

/// Message memory with a part for each owner.
pub struct Parts([HeapMemory; 2]);

impl Parts {
    fn part(&mut self, owner: u32) -> &mut HeapMemory {
        &mut self.0[owner as usize]
    }
}

impl Memory for Parts {
    fn read(&mut self, buf: SendBuf, offset: u32, out: &mut [u8]) -> bool {
        assert!(u64::from(offset) + out.len() as u64 <= u64::from(buf.len), "read beyond the message");
        self.part(buf.owner).read(buf, offset, out)
    }

    fn alloc(&mut self, owner: u32, len: u32) -> Option<RecvBuf> {
        self.part(owner).alloc(owner, len)
    }

    fn write(&mut self, buf: RecvBuf, offset: u32, bytes: &[u8]) {
        assert!(u64::from(offset) + bytes.len() as u64 <= u64::from(buf.len), "written beyond the message");
        self.part(buf.owner).write(buf, offset, bytes);
    }

    fn free(&mut self, buf: RecvBuf) {
        self.part(buf.owner).free(buf);
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
    pub endpoint: Endpoint<Parts>,
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
    fn new(n: u8) -> Station {
        let mut host = HostConfig::new(mac(n));
        host.ipv4 = vec![(v4(n), 24)];
        host.neighbours_max = 16;
        let memory = Parts([HeapMemory::new(16 << 10, 32 << 10), HeapMemory::new(16 << 10, 32 << 10)]);
        Station {
            host: Host::new(host),
            endpoint: Endpoint::new(config(), memory, [n; 32]).expect("a sound configuration"),
            honest: None,
            hostile: None,
            inbox: Vec::new(),
            delivered: 0,
            seen: Vec::new(),
        }
    }

    /// Sends a message; false when there is no room or no flow any more.
    pub fn send(&mut self, now: Instant, flow: FlowId, owner: u32, bytes: &[u8]) -> bool {
        let part = self.endpoint.memory_mut().part(owner);
        let Some(mut buf) = part.reserve(bytes.len() as u32) else { return false };
        part.send_bytes(buf).copy_from_slice(bytes);
        buf.owner = owner;
        let sent = self.endpoint.send(now, flow, buf, 0).is_ok();
        if !sent {
            self.endpoint.memory_mut().part(owner).release_send(buf);
        }
        sent
    }

    /// Takes all events; says how many there were.
    fn drain(&mut self, now: Instant) -> usize {
        while let Some(HostEvent::Resolved(_) | HostEvent::Unreachable(_)) = self.host.poll_event() {
            self.endpoint.routes_changed(now);
        }
        let mut events = 0;
        while let Some(event) = self.endpoint.poll_event() {
            events += 1;
            match event {
                Event::Received { flow, buf, owner } => {
                    if Some(flow) == self.honest {
                        let bytes = self.endpoint.memory_mut().part(owner).recv_bytes(buf).to_vec();
                        self.inbox.push(bytes);
                    }
                    self.endpoint.release(now, flow, buf);
                }
                Event::Sent { flow, buf, delivered, .. } => {
                    let lost = Some(flow) == self.honest && !delivered;
                    assert!(!lost, "a message of the honest flow was given up");
                    self.delivered += usize::from(Some(flow) == self.honest);
                    assert!(
                        self.endpoint.memory_mut().part(buf.owner).release_send(buf),
                        "memory given back twice"
                    );
                }
                Event::Accepted { flow, owner: OWNER_HONEST, .. } if self.honest.is_none() => {
                    self.honest = Some(flow)
                }
                Event::Accepted { flow, owner: OWNER_HOSTILE, .. } if self.hostile.is_none() => {
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
    pub fn new() -> World {
        let mut world = World {
            now: Instant::from_nanos(1_000_000_000),
            stations: [Station::new(1), Station::new(2), Station::new(3)],
            pool: POOL.with(Pool::clone),
            wire: VecDeque::with_capacity(64),
        };
        let victim = &mut world.stations[VICTIM].endpoint;
        victim.listen(PORT_HONEST, OWNER_HONEST, 0).expect("a free port");
        victim.listen(PORT_HOSTILE, OWNER_HOSTILE, 0).expect("a free port");
        let honest = world.connect(HONEST, OWNER_HONEST, PORT_HONEST);
        world.stations[HONEST].honest = Some(honest);
        let hostile = world.connect(HOSTILE, OWNER_HOSTILE, PORT_HOSTILE);
        world.stations[HOSTILE].hostile = Some(hostile);
        world.say(0);
        world.pump(Duration::from_millis(5), false);
        world.say(1);
        world.pump(Duration::ZERO, true);
        world.check_open();
        world
    }

    fn connect(&mut self, from: usize, owner: u32, udp_port: u16) -> FlowId {
        let local = SocketAddr::new(v4(from as u8 + 1).into(), 0);
        let remote = SocketAddr::new(v4(VICTIM as u8 + 1).into(), udp_port);
        let endpoint = &mut self.stations[from].endpoint;
        let flow = endpoint.connect(self.now, owner, local, remote, true, 0).expect("room for a flow");
        self.pump(Duration::from_millis(5), false);
        flow
    }

    /// Everybody sends message `n` on every flow there is.
    fn say(&mut self, n: usize) {
        for from in [VICTIM, HONEST] {
            let flow = self.stations[from].honest.expect("an open flow");
            let bytes = message(from, n);
            assert!(
                self.stations[from].send(self.now, flow, OWNER_HONEST, &bytes),
                "the honest flow takes no message"
            );
        }
        for from in [VICTIM, HOSTILE] {
            if let Some(flow) = self.stations[from].hostile {
                let bytes = message(from, n);
                self.stations[from].send(self.now, flow, OWNER_HOSTILE, &bytes);
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
                let bytes = datagram.payload(frame);
                if station.seen.len() < 64 {
                    station.seen.push(Seen { datagram, bytes: bytes.to_vec(), from });
                }
                if !lose {
                    station.endpoint.handle_datagram(self.now, &datagram, bytes);
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
        let verdict = station.endpoint.handle_datagram(self.now, &datagram, bytes);
        let dropped = station.endpoint.counters().drops.total() - before;
        assert_eq!(dropped, u64::from(matches!(verdict, Verdict::Drop(_))), "{verdict:?}");
        assert!(station.endpoint.flows_used() <= FLOWS);
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

    /// What was under way arrives, and so does one message more, in order and whole.
    pub fn finish(&mut self) {
        self.check_open();
        self.say(2);
        for _ in 0..40 {
            self.pump(Duration::from_millis(50), false);
            if [VICTIM, HONEST]
                .iter()
                .all(|s| self.stations[*s].inbox.len() == 3 && self.stations[*s].delivered == 3)
            {
                break;
            }
        }
        self.check_open();
        for (to, from) in [(VICTIM, HONEST), (HONEST, VICTIM)] {
            let inbox = &self.stations[to].inbox;
            assert_eq!(inbox.len(), 3, "messages that arrived at station {to} within two seconds");
            assert!(
                inbox.iter().enumerate().all(|(n, got)| *got == message(from, n)),
                "messages of another content"
            );
            assert_eq!(
                self.stations[from].delivered, 3,
                "messages that station {from} knows to have arrived"
            );
        }
    }
}
