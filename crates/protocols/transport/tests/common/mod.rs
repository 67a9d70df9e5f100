//! Two hosts with the message transport in a simulated world.
#![allow(dead_code)]

use barewire_base::{Duration, Instant};
use barewire_frame::{Frame, Pool};
use barewire_host::{Endpoint as _, Host, HostConfig, HostEvent, Input};
use barewire_sim::{Node, World};
use barewire_transport::*;
use barewire_wire::MacAddr;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// A host with an endpoint: what an engine makes of them, without a port.
pub struct Station {
    pub host: Host,
    pub endpoint: Endpoint<HeapMemory>,
    pub pool: Pool,
    pub events: VecDeque<Event>,
    /// Received messages are copied out and released at once.
    pub reads: bool,
    /// Every received message is sent back.
    pub echo: bool,
    pub inbox: Vec<(FlowId, Vec<u8>)>,
    pub sent: Vec<(u64, bool)>,
    pub now: Instant,
}

pub fn ip(n: u8, v6: bool) -> IpAddr {
    if v6 { format!("fd00::{n}").parse().unwrap() } else { IpAddr::from([10, 0, 0, n]) }
}

impl Station {
    pub fn new(n: u8, pool: Pool, config: Config) -> Station {
        Station::with_memory(n, pool, config, HeapMemory::new(8 << 20, 8 << 20))
    }

    pub fn with_memory(n: u8, pool: Pool, config: Config, memory: HeapMemory) -> Station {
        let mut host = HostConfig::new(MacAddr([2, 0, 0, 0, 0, n]));
        host.ipv4 = vec![([10, 0, 0, n].into(), 24)];
        host.ipv6 = vec![(format!("fd00::{n}").parse().unwrap(), 64)];
        let mut secret = [n; 32];
        secret[0] = 0x5e;
        Station {
            host: Host::new(host),
            endpoint: Endpoint::new(config, memory, secret).unwrap(),
            pool,
            events: VecDeque::new(),
            reads: true,
            echo: false,
            inbox: vec![],
            sent: vec![],
            now: Instant::ZERO,
        }
    }

    pub fn send(&mut self, flow: FlowId, bytes: &[u8], token: u64) -> Result<(), SendError> {
        let buf = self.endpoint.memory_mut().reserve(bytes.len() as u32).ok_or(SendError::WouldBlock)?;
        self.endpoint.memory_mut().send_bytes(buf).copy_from_slice(bytes);
        let now = self.now;
        let result = self.endpoint.send(now, flow, buf, token);
        if result.is_err() {
            self.endpoint.memory_mut().release_send(buf);
        }
        result
    }

    fn settle(&mut self, now: Instant) {
        while let Some(e) = self.host.poll_event() {
            let (HostEvent::Resolved(_) | HostEvent::Unreachable(_)) = e else { continue };
            self.endpoint.routes_changed(now);
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Received { flow, buf, .. } if self.reads => {
                    let bytes = self.endpoint.memory().recv_bytes(buf).to_vec();
                    self.endpoint.release(now, flow, buf);
                    if self.echo {
                        let _ = self.send(flow, &bytes, 0);
                    }
                    self.inbox.push((flow, bytes));
                }
                Event::Sent { buf, token, delivered, .. } => {
                    self.endpoint.memory_mut().release_send(buf);
                    self.sent.push((token, delivered));
                }
                other => self.events.push_back(other),
            }
        }
    }

    pub fn flow_from(&self) -> Option<FlowId> {
        self.events.iter().find_map(|e| match e {
            Event::Connected { flow, .. } | Event::Accepted { flow, .. } => Some(*flow),
            _ => None,
        })
    }

    pub fn closed(&self) -> Option<CloseReason> {
        self.events.iter().find_map(|e| match e {
            Event::Closed { reason, .. } => Some(*reason),
            _ => None,
        })
    }
}

impl Node for Station {
    fn handle_frame(&mut self, now: Instant, frame: Frame) {
        self.now = now;
        if let Input::Udp(datagram) = self.host.handle_frame(now, &frame) {
            self.endpoint.handle_datagram(now, &datagram, datagram.payload(&frame));
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.host.handle_timeout(now);
        self.endpoint.handle_timeout(now);
        self.settle(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        self.now = now;
        self.settle(now);
        let mut frame = self.pool.alloc()?;
        if self.host.poll_transmit(now, &mut frame) {
            return Some(frame);
        }
        let sent = self.endpoint.poll_transmit(now, &mut self.host, &mut frame);
        self.settle(now);
        if sent {
            return Some(frame);
        }
        // Resolving an address may have given the host something to send.
        self.host.poll_transmit(now, &mut frame).then_some(frame)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let (a, b) = (self.host.poll_timeout(), self.endpoint.poll_timeout());
        let at = match (a, b) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        Some(at)
    }
}

pub const PORT: u16 = 888;

/// Two stations on one link; the second listens.
pub fn pair(seed: u64, link: barewire_sim::LinkConfig, config: &Config) -> (World, barewire_sim::NodeId, barewire_sim::NodeId) {
    let mut world = World::new(seed);
    let (pa, pb) = (world.pool().clone(), world.pool().clone());
    let a = world.add_node(Box::new(Station::new(1, pa, config.clone())));
    let mut server = Station::new(2, pb, config.clone());
    server.endpoint.listen(PORT, 0, 7).unwrap();
    let b = world.add_node(Box::new(server));
    world.connect(a, b, link);
    (world, a, b)
}

/// Connects the first station to the second one.
pub fn connect(world: &mut World, a: barewire_sim::NodeId, ordered: bool, v6: bool) -> FlowId {
    let now = world.local_now(a);
    let station = world.node_mut::<Station>(a);
    station.now = now;
    station
        .endpoint
        .connect(now, 0, SocketAddr::new(ip(1, v6), 0), SocketAddr::new(ip(2, v6), PORT), ordered, 42)
        .unwrap()
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
