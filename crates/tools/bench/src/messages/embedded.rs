//! barewire without a daemon: an engine in the client's own thread and one in the server's.

use super::plan::ends_of;
use crate::awake::{Settled, settle};
use crate::cpu::{CpuMeter, End};
use crate::error::BenchError;
use crate::messages::driver::{self, RunResult};
use crate::messages::run::Cell;
use crate::messages::{CellInfo, IdleState};
use crate::messages::{MsgWorkload, RequestResponse, SystemError, SystemName, Wait};
use crate::run::{Both, Stop, one_end, two_ends};
use barewire_base::Duration;
use barewire_client::security::{Peer, PrivateKey, Security};
use barewire_client::{ConnectOptions, Embedded, EmbeddedConfig, Event, FlowId, Inbound};
use barewire_engine::target_on;
use barewire_frame::{Pool, PoolConfig};
use barewire_measure::Contention;
use barewire_netns::TwoHosts;
use barewire_port::{MemoryConfig, MemoryEnd, MemoryLink};
use std::collections::VecDeque;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// UDP port of the echo server.
pub const SERVER_PORT: u16 = 888;
/// How long a connection may take, address resolution included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const CLIENT_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const SERVER_IP: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Any error of a thread, to hand to another.
type AnyError = Box<dyn Error + Send + Sync>;

/// What lies between the two engines.
#[derive(Clone)]
pub enum Wires {
    /// A memory link between two threads.
    Mem,
    /// A memory link, both ends polled by one thread.
    MemOneThread,
    /// A veth pair between two namespaces, opened with this scheme (`xdp`, `packet` or `dpdk`) and options.
    Veth {
        /// The hosts.
        hosts: Arc<TwoHosts>,
        /// `xdp` or `packet`.
        scheme: String,
        /// What follows the `?` of the URI, or nothing.
        options: String,
    },
}

/// What an idle engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Polls on.
    Spin,
    /// Offers its core to others.
    Yield,
}

impl Idle {
    /// As rows name it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Idle::Spin => "spin",
            Idle::Yield => "yield",
        }
    }

    #[inline]
    pub(crate) fn idle(self) {
        match self {
            Idle::Spin => std::hint::spin_loop(),
            Idle::Yield => std::thread::yield_now(),
        }
    }
}

/// barewire, embedded: a [`Cell`] of an interleaved plan.
pub struct EmbeddedCell {
    wires: Wires,
    idle: Idle,
    cores: Option<(usize, usize)>,
    is_encrypted: bool,
    info: CellInfo,
}

/// The private key of a side, 0 or 1. It protects nothing: everybody can read it here.
pub(crate) fn private_key(side: u8) -> [u8; 32] {
    [0x41 + side; 32]
}

/// The keys of a side, 0 or 1, and the trust in the other.
pub(crate) fn keys(side: u8, other: Ipv4Addr) -> Security {
    let key = |side| PrivateKey::from_bytes(private_key(side));
    let mut security = Security::new(key(side));
    let name = format!("side {}", 1 - side);
    security.trust(Peer { name, key: key(1 - side).public(), addresses: vec![IpAddr::V4(other).into()] });
    security
}

impl EmbeddedCell {
    /// `workload` over `wires`. `cores`: client's and server's, to pin them.
    pub fn new(
        wires: Wires,
        idle: Idle,
        cores: Option<(usize, usize)>,
        workload: MsgWorkload,
        idle_state: IdleState,
        command: String,
    ) -> EmbeddedCell {
        let (mode, over) = match &wires {
            Wires::Mem => ("embedded", "mem".to_owned()),
            Wires::MemOneThread => ("embedded-one-thread", "mem".to_owned()),
            Wires::Veth { scheme, .. } => ("embedded", scheme.clone()),
        };
        let name = SystemName { system: "barewire".to_owned(), mode: mode.to_owned(), over, idle: None };
        let info = CellInfo { name, workload, idle_state, command };
        EmbeddedCell { wires, idle, cores, is_encrypted: false, info }
    }

    /// The same with every flow encrypted.
    pub fn encrypted(mut self) -> EmbeddedCell {
        self.is_encrypted = true;
        self.info.name.mode.push_str("-secure");
        self
    }

    /// What a side encrypts with.
    fn security(&self, side: u8, other: Ipv4Addr) -> Option<Arc<Security>> {
        self.is_encrypted.then(|| Arc::new(keys(side, other)))
    }
}

/// Memory and tables for a workload: every outstanding message and its answer fit.
pub(crate) fn config_for(port: &str, ip: Ipv4Addr, workload: &MsgWorkload) -> EmbeddedConfig {
    let mut config = EmbeddedConfig::new(port, ip);
    let need = u64::from(workload.size.next_power_of_two().max(64)) * u64::from(workload.window + 1) * 2;
    let bytes = need.max(4 << 20).next_power_of_two().min(1 << 30) as u32;
    (config.send_bytes, config.recv_bytes) = (bytes, bytes);
    config.transport.flows_max = workload.connections.max(16) * 2;
    config.transport.send_messages_max = (workload.window * 2).max(1024);
    config.transport.recv_messages_max = (workload.window * 2).max(1024);
    config.transport.recv_window_bytes = config.transport.recv_window_bytes.max(bytes / 2);
    config
}

/// The client of an embedded run.
pub struct EmbeddedClient {
    endpoint: Embedded,
    flows: Vec<FlowId>,
}

impl EmbeddedClient {
    /// Connects `connections` flows to the server. `other` is polled meanwhile, where one thread plays both ends.
    pub fn connect(
        mut endpoint: Embedded,
        server: SocketAddr,
        connections: u32,
        mut other: Option<&mut EchoServer>,
    ) -> Result<EmbeddedClient, AnyError> {
        let mut flows = Vec::with_capacity(connections as usize);
        for token in 0..u64::from(connections) {
            let flow = endpoint.connect(server, &ConnectOptions { token, ..ConnectOptions::default() })?;
            let mut outcome = None;
            let in_time = endpoint.poll_until(CONNECT_TIMEOUT, |e| {
                if let Some(server) = other.as_deref_mut() {
                    let _ = server.poll();
                }
                while let Some(event) = e.next_event() {
                    outcome = Some(event);
                }
                outcome.is_some()
            })?;
            match outcome {
                Some(Event::Connected { .. }) if in_time => flows.push(flow),
                Some(other) => return Err(format!("connecting to {server}: {other:?}").into()),
                None => return Err(format!("connecting to {server}: no answer").into()),
            }
        }
        Ok(EmbeddedClient { endpoint, flows })
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Embedded {
        &self.endpoint
    }
}

impl RequestResponse for EmbeddedClient {
    #[inline]
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        use barewire_client::SendError;
        match self.endpoint.send(self.flows[connection as usize], message) {
            Ok(()) => Ok(true),
            Err(SendError::WouldBlock) => Ok(false),
            Err(_) => Err(SystemError::Closed { system: "barewire", connection }),
        }
    }

    #[inline]
    fn poll(&mut self, _wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        self.endpoint.poll().map_err(|e| SystemError::Other(e.into()))?;
        let mut responses = 0;
        while let Some(event) = self.endpoint.next_event() {
            match event {
                Event::Message(inbound) => {
                    let connection = match self.flows.as_slice() {
                        [_] => 0,
                        flows => flows.iter().position(|f| *f == inbound.flow()).unwrap_or(0) as u32,
                    };
                    on_response(connection, self.endpoint.message(&inbound));
                    self.endpoint.release(inbound);
                    responses += 1;
                }
                Event::Closed { flow, .. } => {
                    let connection = self.flows.iter().position(|f| *f == flow).unwrap_or(0) as u32;
                    return Err(SystemError::Closed { system: "barewire", connection });
                }
                _ => {}
            }
        }
        Ok(responses)
    }
}

/// Sends every message back.
pub struct EchoServer {
    endpoint: Embedded,
    /// Echoes that found no room yet, in order.
    waiting: VecDeque<Inbound>,
    /// Bytes of all messages so far.
    pub(crate) bytes: u64,
}

impl EchoServer {
    /// Listens on [`SERVER_PORT`].
    pub fn new(mut endpoint: Embedded) -> Result<EchoServer, AnyError> {
        endpoint.listen(SERVER_PORT, 0)?;
        Ok(EchoServer { endpoint, waiting: VecDeque::with_capacity(4096), bytes: 0 })
    }

    /// One round: says how many frames moved.
    #[inline]
    pub fn poll(&mut self) -> Result<usize, barewire_port::PortError> {
        let moved = self.endpoint.poll()?;
        while let Some(inbound) = self.waiting.pop_front() {
            if let Some(inbound) = self.echo(inbound) {
                self.waiting.push_front(inbound);
                return Ok(moved);
            }
        }
        let mut echoed = false;
        while let Some(event) = self.endpoint.next_event() {
            if let Event::Message(inbound) = event {
                echoed = true;
                self.bytes += inbound.len() as u64;
                let refused = self.echo(inbound);
                self.waiting.extend(refused);
            }
        }
        if echoed {
            // The answers leave now, not after the next look at the port.
            self.endpoint.flush()?;
        }
        Ok(moved)
    }

    /// Sends a message back; gives it back when there is no room for now. One whose flow is gone has nowhere to go.
    #[inline]
    fn echo(&mut self, inbound: Inbound) -> Option<Inbound> {
        let (error, inbound) = self.endpoint.echo(inbound).err()?;
        if error == barewire_client::SendError::WouldBlock {
            return Some(inbound);
        }
        self.endpoint.release(inbound);
        None
    }
}

/// Both ends in one thread.
struct OneThread {
    client: EmbeddedClient,
    server: EchoServer,
}

impl RequestResponse for OneThread {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        self.client.try_send(connection, message)
    }

    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        self.client.endpoint.flush().map_err(|e| SystemError::Other(e.into()))?;
        self.server.poll().map_err(|e| SystemError::Other(e.into()))?;
        self.client.poll(wait, on_response)
    }
}

/// One side of the wires, in whichever thread will use it.
enum Side {
    Mem(Box<MemoryEnd>),
    Uri(String),
}

fn open(
    side: Side,
    ip: Ipv4Addr,
    security: Option<Arc<Security>>,
    workload: &MsgWorkload,
) -> Result<Embedded, AnyError> {
    let config = |port: &str| {
        let mut config = config_for(port, ip, workload);
        config.transport.security = security.clone();
        config
    };
    match side {
        Side::Uri(uri) => Ok(Embedded::open(&config(&uri))?),
        Side::Mem(end) => {
            let config = config("mem:");
            let pool = Pool::new(PoolConfig { frames: 1024, ..config.pool })?;
            let port = Box::new(end.open(pool.clone()));
            Ok(Embedded::with_port(port, pool, &config)?)
        }
    }
}

impl EmbeddedCell {
    fn run_one_thread(&self, awake: &Settled) -> Result<RunResult, BenchError> {
        let workload = &self.info.workload;
        let (a, b) = MemoryLink::new(MemoryConfig::default()).map_err(other)?;
        let watch = Contention::start().threads(1);
        let core = self.cores.map(|c| c.0);
        let meter = CpuMeter::new(&core.into_iter().collect::<Vec<_>>());
        let both = || -> Result<RunResult, AnyError> {
            meter.joins_both();
            let mut server = EchoServer::new(open(Side::Mem(Box::new(b)), SERVER_IP, None, workload)?)?;
            let client = open(Side::Mem(Box::new(a)), CLIENT_IP, None, workload)?;
            let at = SocketAddr::from((SERVER_IP, SERVER_PORT));
            let client = EmbeddedClient::connect(client, at, workload.connections, Some(&mut server))?;
            Ok(meter.run(&mut OneThread { client, server }, workload)?)
        };
        let (mut result, switches) = one_end(core, || both().map_err(BenchError::Other))?;
        result.contention = awake.judged(watch.finish(), &[switches]).reasons;
        Ok(result)
    }

    fn run_two_threads(&self, awake: &Settled) -> Result<RunResult, BenchError> {
        let workload = &self.info.workload;
        let (hosts, [a, b], [client_ip, server_ip]) = match &self.wires {
            Wires::Veth { hosts, scheme, options } => {
                let uri = |interface: &str| {
                    let question = if options.is_empty() { "" } else { "?" };
                    let target = target_on(scheme, interface);
                    Side::Uri(format!("{scheme}:{target}{question}{options}"))
                };
                let ends = ends_of(hosts, scheme);
                let namespaces = [&hosts.ns_a, &hosts.ns_b];
                (Some(namespaces), ends.map(|end| uri(&end.name)), ends.map(|end| end.v4))
            }
            _ => {
                let (a, b) = MemoryLink::new(MemoryConfig::default()).map_err(other)?;
                (None, [a, b].map(|end| Side::Mem(Box::new(end))), [CLIENT_IP, SERVER_IP])
            }
        };
        let (client_keys, server_keys) = (self.security(0, server_ip), self.security(1, client_ip));
        let meter = CpuMeter::new(&self.cores.map_or(vec![], |(a, b)| vec![a, b]));
        let watch = Contention::start().threads(2);
        let (idle, meter) = (self.idle, &meter);
        let serve = |stop: Stop<'_>| -> Result<(), AnyError> {
            meter.joins(End::Server);
            let mut server = EchoServer::new(open(b, server_ip, server_keys, workload)?)?;
            stop.ready();
            while !stop.asked() {
                if server.poll()? == 0 {
                    idle.idle();
                }
            }
            Ok(())
        };
        let ask = || -> Result<RunResult, AnyError> {
            meter.joins(End::Client);
            let client = open(a, client_ip, client_keys, workload)?;
            let at = SocketAddr::from((server_ip, SERVER_PORT));
            let mut client = EmbeddedClient::connect(client, at, workload.connections, None)?;
            Ok(meter.run(&mut Idling { client: &mut client, idle }, workload)?)
        };
        let ask = || ask().map_err(BenchError::Other);
        let Both { client: mut result, switches, .. } =
            two_ends(hosts, self.cores, ask, |stop| serve(stop).map_err(BenchError::Other))?;
        result.contention = awake.judged(watch.finish(), &switches).reasons;
        Ok(result)
    }
}

fn other(error: impl Into<AnyError>) -> BenchError {
    BenchError::Other(error.into())
}

/// A client that idles as it was told when nothing came.
pub(crate) struct Idling<'a> {
    pub(crate) client: &'a mut EmbeddedClient,
    pub(crate) idle: Idle,
}

impl RequestResponse for Idling<'_> {
    #[inline]
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        self.client.try_send(connection, message)
    }

    #[inline]
    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        let responses = self.client.poll(wait, on_response)?;
        if responses == 0 {
            self.idle.idle();
        }
        Ok(responses)
    }
}

impl Cell for EmbeddedCell {
    fn info(&self) -> &CellInfo {
        &self.info
    }

    fn run(&mut self, _round: u32) -> Result<RunResult, BenchError> {
        self.info.workload.validate().map_err(driver::DriverError::from)?;
        let cores: Vec<usize> = self.cores.map_or(vec![], |(a, b)| vec![a, b]);
        let awake = settle(self.info.idle_state, &cores)?;
        match self.wires {
            Wires::MemOneThread => self.run_one_thread(&awake),
            _ => self.run_two_threads(&awake),
        }
    }
}
