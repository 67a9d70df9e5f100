//! The embedded device: an RDMA device in the application's own thread.

use crate::{OpenError, RdmaError};
use barewire_base::{Duration, Instant};
use barewire_engine::{
    Attached, HostSettings, IdleStrategy, PeerPath, PortSettings, RdmaStack, StopFlag, random,
};
use barewire_frame::{Pool, PoolConfig};
use barewire_host::Host;
use barewire_port::Port;
use barewire_roce::{
    self as roce, ConnId, Connect, ConnectFailure, Ended, Endpoint, Event, ListenerId, Mtu, PathId, QpInit,
    Qpn, Terms, Wc, WcStatus,
};
use barewire_wire::MacAddr;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

/// Bytes of an Ethernet header with a VLAN tag, which come on top of a packet in a frame.
const LINK_HEADER: usize = 18;
/// Longest sleep: a stop from outside is noticed after it.
const SLEEP_MAX: Duration = Duration::from_millis(20);
/// Events that nobody has asked for yet, at most: what is more, of a flood, takes the place of the oldest.
const INBOX_MAX: usize = 1 << 16;

/// Which port, which addresses, how much memory.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// The port, and the host on it.
    pub interface: PortSettings,
    /// The frame pool.
    pub pool: PoolConfig,
    /// Limits and timers. MAC, addresses, VLAN and GUID follow from the interface; the MTU is lowered to what port and
    /// frames carry.
    pub roce: roce::Config,
    /// What waiting calls do while nothing happens.
    pub idle: IdleStrategy,
}

impl DeviceConfig {
    /// A configuration with one address, on a network of 24 bits (IPv4) or 64 (IPv6).
    pub fn new(port: &str, address: IpAddr) -> DeviceConfig {
        // As large as the port carries: the path MTU is a choice of RDMA's own.
        let mut interface = PortSettings { mtu: u16::MAX, ..PortSettings::bare(port) };
        interface.add_address(address, if address.is_ipv4() { 24 } else { 64 });
        DeviceConfig {
            interface,
            pool: PoolConfig::default(),
            roce: roce::Config { mtu: Mtu::M4096, ..roce::Config::new(MacAddr::ZERO, address) },
            idle: IdleStrategy::default(),
        }
    }

    fn settings(&self) -> HostSettings<'_> {
        HostSettings { interface: &self.interface, pool: self.pool, neighbours_max: None }
    }
}

/// A connection that is ready.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The connection.
    pub conn: ConnId,
    /// Its queue pair, which can send.
    pub qpn: Qpn,
    /// What the peer's application said when it agreed, without trailing zeros.
    pub private: Vec<u8>,
}

/// A connection that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// The connection.
    pub conn: ConnId,
    /// Its queue pair: requests to receive may be posted.
    pub qpn: Qpn,
}

/// A peer's wish for a connection.
#[derive(Clone, Debug)]
pub struct ConnectRequest {
    /// The connection, for [`Device::accept`] or [`Endpoint::reject`].
    pub conn: ConnId,
    /// Whom it wants.
    pub listener: ListenerId,
    /// The service id it named.
    pub service_id: u64,
    /// What the peer's application said, without trailing zeros.
    pub private: Vec<u8>,
}

/// An RDMA device in this thread.
///
/// Neither `Send` nor `Sync`: frames and memory belong to the thread that made it. Nothing happens unless one of its calls that
/// polls or waits runs.
pub struct Device {
    stack: RdmaStack,
    now: Instant,
    /// Events that nobody asked for yet, with the private data that came with them.
    inbox: VecDeque<(Event, Vec<u8>)>,
    idle: IdleStrategy,
    stop: Option<StopFlag>,
}

impl Device {
    /// Opens the port and makes the device.
    ///
    /// # Errors
    /// [`OpenError`]: what could not be opened.
    pub fn open(config: &DeviceConfig) -> Result<Device, OpenError> {
        Device::on(config.settings().attach()?, config)
    }

    /// Makes the device on a port that is open already, with `pool` its pool. `config.interface.port` is not looked at.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn with_port(port: Box<dyn Port>, pool: Pool, config: &DeviceConfig) -> Result<Device, OpenError> {
        Device::on(config.settings().attach_to(port, pool)?, config)
    }

    fn on(attached: Attached, config: &DeviceConfig) -> Result<Device, OpenError> {
        let Attached { port, pool, host } = attached;
        let packet = usize::from(host.mtu);
        let fits = Mtu::for_ethernet(packet.min(pool.frame_max().saturating_sub(LINK_HEADER)));
        let fits = fits.ok_or_else(|| OpenError::TooSmall {
            port: port.caps().mtu,
            frame: pool.frame_max(),
            need: Mtu::PACKET_MIN + LINK_HEADER,
        })?;
        let mac = host.mac;
        let addresses = config.interface.addresses();
        let first = addresses.first().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let roce = roce::Config {
            mac,
            guid: roce::Config::new(mac, first).guid,
            addresses,
            vlan: config.interface.vlan,
            mtu: config.roce.mtu.min(fits),
            ..config.roce.clone()
        };
        let endpoint = Endpoint::new(roce, random()?)?;
        Ok(Device {
            stack: RdmaStack::new(port, pool, Host::new(host), endpoint),
            now: barewire_engine::now(),
            inbox: VecDeque::new(),
            idle: config.idle,
            stop: None,
        })
    }

    /// Ends every wait with [`RdmaError::Stopped`] once `stop` is stopped.
    pub fn stop_with(&mut self, stop: StopFlag) {
        self.stop = Some(stop);
    }

    /// The stack below: counters, host, port.
    pub fn stack(&self) -> &RdmaStack {
        &self.stack
    }

    /// The stack below, for a loop of the application's own: who polls it takes its events there.
    pub fn stack_mut(&mut self) -> &mut RdmaStack {
        &mut self.stack
    }

    /// The verbs.
    #[inline]
    pub fn verbs(&mut self) -> &mut Endpoint {
        self.stack.endpoint_mut()
    }

    /// The time of the last duty cycle.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// One duty cycle: takes in what has arrived, runs the timers, sends what is due. Says how many frames moved.
    ///
    /// # Errors
    /// The port's, when it is down.
    #[inline]
    pub fn poll(&mut self) -> Result<usize, RdmaError> {
        self.now = barewire_engine::now();
        Ok(self.stack.poll(self.now)?)
    }

    /// The next event, in order, with the private data that came with it.
    pub fn next_event(&mut self) -> Option<(Event, Vec<u8>)> {
        self.inbox.pop_front().or_else(|| {
            let event = self.stack.poll_event()?;
            Some((event, self.stack.endpoint().private_data().to_vec()))
        })
    }

    /// Takes the first event out that `wanted` wants, of those that have happened.
    pub fn take_event(&mut self, mut wanted: impl FnMut(&Event) -> bool) -> Option<(Event, Vec<u8>)> {
        while let Some(event) = self.stack.poll_event() {
            if self.inbox.len() == INBOX_MAX {
                self.inbox.pop_front();
            }
            let private = self.stack.endpoint().private_data().to_vec();
            self.inbox.push_back((event, private));
        }
        let at = self.inbox.iter().position(|(event, _)| wanted(event))?;
        self.inbox.remove(at)
    }

    /// Polls until `done` gives something, idling as configured meanwhile.
    ///
    /// # Errors
    /// `TimedOut`; `Stopped`; `Port`; what `done` fails with.
    pub fn wait<T>(
        &mut self,
        timeout: Duration,
        mut done: impl FnMut(&mut Device) -> Result<Option<T>, RdmaError>,
    ) -> Result<T, RdmaError> {
        self.now = barewire_engine::now();
        let end = self.now + timeout;
        let mut worked = self.now;
        loop {
            let moved = self.poll()?;
            if let Some(found) = done(self)? {
                return Ok(found);
            }
            if self.stop.as_ref().is_some_and(StopFlag::is_stopped) {
                return Err(RdmaError::Stopped);
            }
            if self.now >= end {
                return Err(RdmaError::TimedOut);
            }
            if moved > 0 {
                worked = self.now;
                continue;
            }
            match self.idle {
                IdleStrategy::Spin => std::hint::spin_loop(),
                IdleStrategy::Yield => std::thread::yield_now(),
                IdleStrategy::Park { spin } if self.now.since(worked) < spin => std::hint::spin_loop(),
                IdleStrategy::Park { .. } => self.stack.sleep(self.now, end.since(self.now).min(SLEEP_MAX)),
            }
        }
    }

    // ---- Connections ----

    /// The way to a peer, its address resolved.
    ///
    /// # Errors
    /// `Unreachable`; `TimedOut`; see [`wait`](Self::wait).
    pub fn resolve(&mut self, peer: IpAddr, timeout: Duration) -> Result<PathId, RdmaError> {
        self.wait(timeout, |device| match device.stack.peer_path(device.now, peer, None) {
            PeerPath::Ready(path) => Ok(Some(path)),
            PeerPath::Pending => Ok(None),
            PeerPath::Unreachable => Err(RdmaError::Unreachable(peer)),
        })
    }

    /// Listens on a service id; of a port it is [`service_id`](barewire_wire::roce::rdma_cm::service_id). At most `backlog`
    /// requests wait at a time.
    ///
    /// # Errors
    /// When somebody listens there already.
    pub fn listen(&mut self, service_id: u64, backlog: u32) -> Result<ListenerId, RdmaError> {
        Ok(self.verbs().listen(service_id, backlog)?)
    }

    /// Waits for a peer that wants a connection.
    ///
    /// # Errors
    /// See [`wait`](Self::wait).
    pub fn next_request(
        &mut self,
        listener: ListenerId,
        timeout: Duration,
    ) -> Result<ConnectRequest, RdmaError> {
        self.wait(timeout, |device| {
            let wanted = |e: &Event| matches!(e, Event::ConnectRequest { listener: l, .. } if *l == listener);
            Ok(match device.take_event(wanted) {
                Some((Event::ConnectRequest { conn, listener, service_id }, private)) => {
                    Some(ConnectRequest { conn, listener, service_id, private })
                }
                _ => None,
            })
        })
    }

    /// Makes a queue pair and accepts a request with it. Requests to receive may be posted at once, and should be before the
    /// next call that polls. [`Event::Established`] follows.
    ///
    /// # Errors
    /// A limit, or the request was taken back: then there is no queue pair.
    pub fn accept(
        &mut self,
        request: &ConnectRequest,
        init: &QpInit,
        private: &[u8],
    ) -> Result<Qpn, RdmaError> {
        let now = self.now;
        let verbs = self.stack.endpoint_mut();
        let qpn = verbs.create_qp(init)?;
        if let Err(error) = verbs.accept(now, request.conn, qpn, &Terms { private }) {
            verbs.destroy_qp(now, qpn)?;
            return Err(error.into());
        }
        Ok(qpn)
    }

    /// Asks for a connection: resolves the peer's address (waiting for that, a second at most), makes a queue pair, sends the
    /// request.
    ///
    /// # Errors
    /// `Unreachable`, or a verb's.
    pub fn start_connect(
        &mut self,
        peer: IpAddr,
        service_id: u64,
        init: &QpInit,
        private: &[u8],
    ) -> Result<Pending, RdmaError> {
        let path = self.resolve(peer, Duration::from_secs(1)).map_err(|e| match e {
            RdmaError::TimedOut => RdmaError::Unreachable(peer),
            other => other,
        })?;
        let now = self.now;
        let verbs = self.stack.endpoint_mut();
        let qpn = verbs.create_qp(init)?;
        let to = Connect { private, ..Connect::new(path, service_id) };
        match verbs.connect(now, qpn, &to) {
            Ok(conn) => Ok(Pending { conn, qpn }),
            Err(error) => {
                verbs.destroy_qp(now, qpn)?;
                Err(error.into())
            }
        }
    }

    /// Waits until a connection that was asked for is ready. When it is not to be, its queue pair is destroyed.
    ///
    /// # Errors
    /// `Rejected`, `NoAnswer`, `BadReply`; see [`wait`](Self::wait).
    pub fn finish_connect(&mut self, pending: Pending, timeout: Duration) -> Result<Connection, RdmaError> {
        let result = self.wait(timeout, |device| {
            let ours = |e: &Event| match e {
                Event::Connected { conn, .. } | Event::ConnectFailed { conn, .. } => *conn == pending.conn,
                _ => false,
            };
            match device.take_event(ours) {
                Some((Event::Connected { conn, qpn }, private)) => {
                    Ok(Some(Connection { conn, qpn, private }))
                }
                Some((Event::ConnectFailed { why, .. }, _)) => Err(match why {
                    ConnectFailure::Rejected(reason) => RdmaError::Rejected(reason),
                    ConnectFailure::Timeout => RdmaError::NoAnswer,
                    _ => RdmaError::BadReply,
                }),
                _ => Ok(None),
            }
        });
        if result.is_err() {
            let now = self.now;
            let _ = self.verbs().destroy_qp(now, pending.qpn);
        }
        result
    }

    /// Waits until a connection that was accepted is ready.
    ///
    /// # Errors
    /// `NoAnswer`, `Rejected`; see [`wait`](Self::wait).
    pub fn wait_established(&mut self, qpn: Qpn, timeout: Duration) -> Result<(), RdmaError> {
        self.wait(timeout, |device| {
            let ours = |e: &Event| match e {
                Event::Established { qpn: q, .. }
                | Event::ConnectFailed { qpn: q, .. }
                | Event::Disconnected { qpn: q, .. } => *q == qpn,
                _ => false,
            };
            match device.take_event(ours) {
                Some((Event::Established { .. }, _)) => Ok(Some(())),
                Some((Event::ConnectFailed { why: ConnectFailure::Rejected(reason), .. }, _)) => {
                    Err(RdmaError::Rejected(reason))
                }
                Some((Event::ConnectFailed { .. }, _)) => Err(RdmaError::NoAnswer),
                Some(_) => Err(RdmaError::Disconnected),
                None => Ok(None),
            }
        })
    }

    /// Closes a connection, waits until the peer agrees, and destroys its queue pair.
    ///
    /// # Errors
    /// See [`wait`](Self::wait). A connection that the peer has closed already is no error.
    pub fn disconnect(&mut self, conn: ConnId, qpn: Qpn, timeout: Duration) -> Result<(), RdmaError> {
        let now = self.now;
        let result = match self.verbs().disconnect(now, conn) {
            Ok(()) => self.wait(timeout, |device| {
                let ours = |e: &Event| matches!(e, Event::Disconnected { conn: c, .. } if *c == conn);
                Ok(device.take_event(ours).map(|(event, _)| event))
            }),
            Err(_) => Ok(Event::Disconnected { conn, qpn, why: Ended::Remote }),
        };
        let now = self.now;
        let _ = self.verbs().destroy_qp(now, qpn);
        result.map(|_| ())
    }

    /// Waits for the next completion of a queue, whatever its status.
    ///
    /// # Errors
    /// See [`wait`](Self::wait).
    pub fn wait_cq_any(&mut self, cq: roce::CqId, timeout: Duration) -> Result<Wc, RdmaError> {
        if let Some(wc) = self.verbs().poll_cq_one(cq) {
            return Ok(wc);
        }
        self.wait(timeout, |device| Ok(device.verbs().poll_cq_one(cq)))
    }

    /// Waits for the next completion of a queue, which must be a success.
    ///
    /// # Errors
    /// `Failed`; see [`wait`](Self::wait).
    pub fn wait_cq(&mut self, cq: roce::CqId, timeout: Duration) -> Result<Wc, RdmaError> {
        let wc = self.wait_cq_any(cq, timeout)?;
        match wc.status {
            WcStatus::Success => Ok(wc),
            status => Err(RdmaError::Failed { wr_id: wc.wr_id, status }),
        }
    }
}
