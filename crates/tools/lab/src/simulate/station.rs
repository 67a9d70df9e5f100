//! A host in virtual time: host, transport, and a client or a server that sends back.

use super::Workload;
use crate::topology::HostPlan;
use barewire_base::{Instant, Prng};
use barewire_frame::{Frame, Pool};
use barewire_host::{Endpoint as _, Host, HostConfig, Input};
use barewire_measure::Histogram;
use barewire_sim::Node;
use barewire_transport::{Config, Endpoint, Event, FlowId, HeapMemory, RecvBuf};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// What every message begins with: when it was sent, by the client's clock.
pub(super) const STAMP_BYTES: usize = 8;
/// Memory of a host beyond what its windows need.
const MEMORY_SLACK: u64 = 256 << 10;

/// Messages that a host with so many flows has under way, in one direction.
fn messages(workload: &Workload, flows: u32) -> u32 {
    flows.saturating_mul(workload.window).saturating_mul(2).max(64)
}

/// Bytes that such a host needs for messages in one direction; `None`: no number.
pub(super) fn memory_bytes(workload: &Workload, flows: u32) -> Option<u64> {
    let message = u64::from(workload.message_bytes).checked_next_power_of_two()?.max(64);
    message.checked_mul(messages(workload, flows).into())?.checked_add(MEMORY_SLACK)
}

/// What a host does.
pub(super) struct Role {
    /// How many clients it serves.
    pub(super) server: u32,
    /// Whom it talks to, from when, until when.
    pub(super) client: Option<(SocketAddr, Instant, Instant)>,
}

pub(super) struct StationConfig<'a> {
    pub(super) host: &'a HostPlan,
    pub(super) mtu: u16,
    /// Hosts in the world.
    pub(super) neighbours: usize,
    /// Clients in the world.
    pub(super) clients: usize,
    pub(super) udp_port: u16,
    pub(super) workload: &'a Workload,
    pub(super) role: Role,
    pub(super) secret_seed: u64,
}

/// The host of the first interface.
pub(super) fn host_config(config: &StationConfig<'_>) -> Result<HostConfig, String> {
    let interface = config.host.interfaces.first().ok_or("has no interface")?;
    let mut settings = HostConfig::new(interface.mac);
    settings.mtu = config.mtu;
    settings.neighbours_max = settings.neighbours_max.max(config.neighbours.next_power_of_two());
    for &(address, prefix) in &interface.addresses {
        match address {
            IpAddr::V4(v4) => settings.ipv4.push((v4, prefix)),
            IpAddr::V6(v6) => settings.ipv6.push((v6, prefix)),
        }
    }
    for route in config.host.routes.iter().filter(|route| route.to.1 == 0) {
        match route.via {
            IpAddr::V4(v4) => settings.gateway4 = Some(v4),
            IpAddr::V6(v6) => settings.gateway6 = Some(v6),
        }
    }
    Ok(settings)
}

/// The node.
pub(super) struct Station {
    host: Host,
    endpoint: Endpoint<HeapMemory>,
    pool: Pool,
    workload: Workload,
    client: Option<(SocketAddr, Instant, Instant)>,
    local: IpAddr,
    flow: Option<FlowId>,
    started: bool,
    opened: u32,
    failed: u32,
    /// Messages that were received and wait for room to be sent back.
    echoes: VecDeque<(FlowId, RecvBuf)>,
    /// Messages that the client may send and has not.
    credit: u32,
    round_trips: Histogram,
    /// Since when it could send.
    began: Option<Instant>,
    /// Messages that came back while it still sent.
    in_time: u64,
}

impl Station {
    pub(super) fn new(config: StationConfig<'_>, pool: Pool) -> Result<Station, String> {
        let StationConfig { host, workload, role, .. } = &config;
        let interface = host.interfaces.first().ok_or("has no interface")?;
        let settings = host_config(&config)?;
        let flows = role.server + u32::from(role.client.is_some());
        let messages = messages(workload, flows);
        let transport = Config {
            flows_max: flows.max(16),
            half_open_max: flows.max(16),
            send_messages_max: messages,
            recv_messages_max: messages,
            mtu: config.mtu,
            ..Config::default()
        };
        let memory = memory_bytes(workload, flows).and_then(|bytes| usize::try_from(bytes).ok());
        let memory = memory.ok_or("its messages need more memory than there can be")?;
        let mut secret = [0; 32];
        Prng::new(config.secret_seed).fill(&mut secret);
        let memory = HeapMemory::new(memory, memory);
        let mut endpoint = Endpoint::new(transport, memory, secret).map_err(|e| e.to_string())?;
        if role.server > 0 {
            endpoint.listen(config.udp_port, 0, 0).map_err(|e| format!("{e:?}"))?;
        }
        let v4 = interface.addresses.iter().find(|(a, _)| a.is_ipv4());
        let local = v4.or(interface.addresses.first()).map(|(a, _)| *a).ok_or("has no address")?;
        Ok(Station {
            host: Host::new(settings),
            endpoint,
            pool,
            workload: **workload,
            client: role.client,
            local,
            flow: None,
            started: false,
            opened: 0,
            failed: 0,
            echoes: VecDeque::new(),
            credit: 0,
            round_trips: Histogram::new(),
            began: None,
            in_time: 0,
        })
    }

    /// Flows that this client opened.
    pub(super) fn opened(&self) -> u32 {
        self.opened
    }

    /// Flows of this client that did not open, or ended.
    pub(super) fn failed(&self) -> u32 {
        self.failed
    }

    pub(super) fn round_trips(&self) -> &Histogram {
        &self.round_trips
    }

    /// Messages per second from the time when it could send until it was to end.
    pub(super) fn rate_per_s(&self) -> f64 {
        let end = self.client.map(|(_, _, end)| end);
        match (self.began, end) {
            (Some(began), Some(end)) if began < end => self.in_time as f64 / end.since(began).as_secs_f64(),
            _ => 0.0,
        }
    }

    /// Segments that it sent again.
    pub(super) fn resent(&self) -> u64 {
        self.endpoint.counters().segments_resent.get()
    }

    fn start(&mut self, now: Instant) {
        let Some((server, start, _)) = self.client else { return };
        if self.started || now < start {
            return;
        }
        self.started = true;
        let local = SocketAddr::new(self.local, 0);
        match self.endpoint.connect(now, 0, local, server, true, 0) {
            Ok(flow) => self.flow = Some(flow),
            Err(_) => self.failed += 1,
        }
    }

    fn settle(&mut self, now: Instant) {
        while self.host.poll_event().is_some() {
            self.endpoint.routes_changed(now);
        }
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Connected { .. } => {
                    self.opened += 1;
                    self.began = Some(now);
                    self.credit = self.workload.window;
                }
                Event::ConnectFailed { .. } => self.failed += 1,
                Event::Received { flow, buf, .. } if Some(flow) == self.flow => {
                    self.came_back(now, flow, buf)
                }
                Event::Received { flow, buf, .. } => self.echoes.push_back((flow, buf)),
                Event::Sent { buf, .. } => {
                    self.endpoint.memory_mut().release_send(buf);
                }
                Event::Closed { flow, .. } if Some(flow) == self.flow => {
                    self.flow = None;
                    self.failed += 1;
                }
                _ => {}
            }
        }
        while let Some(&(flow, buf)) = self.echoes.front() {
            if !self.send_back(now, flow, buf) {
                break;
            }
            self.echoes.pop_front();
        }
        while self.credit > 0 && self.send(now) {
            self.credit -= 1;
        }
    }

    /// A message that the server sent back.
    fn came_back(&mut self, now: Instant, flow: FlowId, buf: RecvBuf) {
        let bytes = self.endpoint.memory().recv_bytes(buf);
        let stamp = bytes.first_chunk::<STAMP_BYTES>().map(|stamp| u64::from_be_bytes(*stamp));
        if let Some(sent) = stamp
            && bytes.len() == self.workload.message_bytes as usize
        {
            self.round_trips.record(now.since(Instant::from_nanos(sent)).as_nanos());
            self.in_time += u64::from(self.client.is_some_and(|(_, _, end)| now <= end));
            self.credit += 1;
        }
        self.endpoint.release(now, flow, buf);
    }

    /// False while there is no room.
    fn send_back(&mut self, now: Instant, flow: FlowId, from: RecvBuf) -> bool {
        let memory = self.endpoint.memory_mut();
        let Some(to) = memory.reserve(from.len) else { return false };
        memory.copy_to_send(from, to);
        if let Err(e) = self.endpoint.send(now, flow, to, 0) {
            self.endpoint.memory_mut().release_send(to);
            if e == barewire_transport::SendError::WouldBlock {
                return false;
            }
        }
        // Sent, or its flow has ended: done with either way.
        self.endpoint.release(now, flow, from);
        true
    }

    fn send(&mut self, now: Instant) -> bool {
        let Some((_, _, end)) = self.client else { return false };
        let Some(flow) = self.flow.filter(|_| now < end) else { return false };
        let memory = self.endpoint.memory_mut();
        let Some(buf) = memory.reserve(self.workload.message_bytes) else { return false };
        let bytes = memory.send_bytes(buf);
        bytes.fill(0x5a);
        bytes[..STAMP_BYTES].copy_from_slice(&now.as_nanos().to_be_bytes());
        let sent = self.endpoint.send(now, flow, buf, 0).is_ok();
        if !sent {
            self.endpoint.memory_mut().release_send(buf);
        }
        sent
    }
}

impl Node for Station {
    fn handle_frame(&mut self, now: Instant, mut frame: Frame) {
        if let Input::Udp(datagram) = self.host.handle_frame(now, &frame) {
            self.endpoint.handle_datagram(now, &datagram, datagram.payload_mut(&mut frame));
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.start(now);
        self.host.handle_timeout(now);
        self.endpoint.handle_timeout(now);
        self.settle(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame> {
        self.settle(now);
        let mut frame = self.pool.alloc()?;
        if self.host.poll_transmit(now, &mut frame) {
            return Some(frame);
        }
        let sent = self.endpoint.poll_transmit(now, &mut self.host, &mut frame);
        self.settle(now);
        // Resolving an address may have given the host something to send.
        (sent || self.host.poll_transmit(now, &mut frame)).then_some(frame)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let start = self.client.filter(|_| !self.started).map(|(_, start, _)| start);
        [start, self.host.poll_timeout(), self.endpoint.poll_timeout()].into_iter().flatten().min()
    }
}
