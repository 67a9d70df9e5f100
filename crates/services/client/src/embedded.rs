//! The engine inside the application's own thread: no daemon, no second thread, no copy between processes.
//!
//! The fastest way on few cores. The application calls [`Embedded::poll`] in its loop; everything else only queues.

use crate::error::{OpenError, SendError};
use crate::event::{ConnectOptions, Event, Inbound, PeerIdentity, SendBuf};
use crate::reclaim::{Home, Lost};
use crate::share::{Room, Shares};
use barewire_base::{Duration, Instant};
use barewire_channel::Process;
use barewire_engine::{Attached, HostSettings, PortSettings, Stack, random};
use barewire_frame::{Pool, PoolConfig};
use barewire_host::Host;
use barewire_port::{Port, PortError};
use barewire_transport as transport;
use barewire_transport::{ConnectError, Endpoint, FlowId, HeapMemory, ListenError, RecvBuf};
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Which port, which addresses, how much memory.
#[derive(Clone, Debug)]
pub struct EmbeddedConfig {
    /// The port, and the host on it.
    pub interface: PortSettings,
    /// Neighbours remembered at once; `None`: the host's default.
    pub neighbours_max: Option<usize>,
    /// The frame pool.
    pub pool: PoolConfig,
    /// Bytes of messages waiting to be acknowledged. Default 16 MiB.
    pub send_bytes: u32,
    /// Bytes of messages not yet released. Default 16 MiB.
    pub recv_bytes: u32,
    /// Limits, timers, keys and trust ([`security`](crate::security); a key is read by `barewire_engine::keyfile::read`). Its MTU is
    /// the interface's.
    pub transport: transport::Config,
}

impl EmbeddedConfig {
    /// A configuration with one IPv4 address on a network of 24 bits.
    pub fn new(port: &str, ipv4: Ipv4Addr) -> EmbeddedConfig {
        EmbeddedConfig {
            interface: PortSettings::new(port, ipv4, 24),
            neighbours_max: None,
            pool: PoolConfig::default(),
            send_bytes: 16 << 20,
            recv_bytes: 16 << 20,
            transport: transport::Config { flows_max: 256, ..transport::Config::default() },
        }
    }

    fn settings(&self) -> HostSettings<'_> {
        HostSettings { interface: &self.interface, pool: self.pool, neighbours_max: self.neighbours_max }
    }
}

/// A message endpoint in this thread.
///
/// Neither `Send` nor `Sync`: frames and memory belong to the thread that made it.
///
/// A child made by fork(2) has no use for its parent's endpoints: there they move no frames ([`PortError::Inherited`]), as two processes
/// would write one port's rings and seal packets with the same keys and numbers. It opens its own.
pub struct Embedded {
    stack: Stack<HeapMemory>,
    process: Process,
    home: Home,
    shares: Shares,
    now: Instant,
}

/// The transport's name for a reservation.
fn raw(offset: u32, len: u32) -> transport::SendBuf {
    transport::SendBuf { owner: 0, offset, len }
}

impl Embedded {
    /// Opens the port and builds the endpoint. All memory is allocated here.
    ///
    /// # Errors
    /// [`OpenError`]: what could not be opened, with a hint.
    pub fn open(config: &EmbeddedConfig) -> Result<Embedded, OpenError> {
        Embedded::on(config.settings().attach()?, config)
    }

    /// Builds the endpoint on a port that is open already, with `pool` its pool. `config.interface.port` is not looked at.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn with_port(
        port: Box<dyn Port>,
        pool: Pool,
        config: &EmbeddedConfig,
    ) -> Result<Embedded, OpenError> {
        Embedded::on(config.settings().attach_to(port, pool)?, config)
    }

    fn on(attached: Attached, config: &EmbeddedConfig) -> Result<Embedded, OpenError> {
        let Attached { port, pool, host } = attached;
        let transport = transport::Config { mtu: host.mtu, ..config.transport.clone() };
        let memory = HeapMemory::new(config.send_bytes as usize, config.recv_bytes as usize);
        let shares = Shares::new(transport.send_messages_max);
        let endpoint = Endpoint::new(transport, memory, random()?)?;
        Ok(Embedded {
            stack: Stack::new(port, pool, Host::new(host), endpoint),
            process: Process::this(),
            home: Home::new(),
            shares,
            now: barewire_engine::now(),
        })
    }

    /// The stack below, to look at counters, flows and the port.
    pub fn stack(&self) -> &Stack<HeapMemory> {
        &self.stack
    }

    /// The time of the last duty cycle.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Takes connections on `udp_port`; `token` comes back with each.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&mut self, udp_port: u16, token: u64) -> Result<(), ListenError> {
        self.stack.endpoint_mut().listen(udp_port, 0, token)
    }

    /// [`listen`](Self::listen) at one of our addresses: who asks for a connection at another is refused.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen_on(&mut self, local: IpAddr, udp_port: u16, token: u64) -> Result<(), ListenError> {
        self.stack.endpoint_mut().listen_on(Some(local), udp_port, 0, token)
    }

    /// Starts to connect. [`Event::Connected`] or [`Event::ConnectFailed`] follows; messages may be queued meanwhile.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(&mut self, remote: SocketAddr, options: &ConnectOptions) -> Result<FlowId, ConnectError> {
        self.now = barewire_engine::now();
        let source = match options.local {
            Some(ip) => ip,
            None => self.stack.host().source_for(remote.ip()).unwrap_or(unspecified(remote.ip())),
        };
        let local = SocketAddr::new(source, options.local_udp_port);
        let endpoint = self.stack.endpoint_mut();
        let flow = endpoint.connect(self.now, 0, local, remote, options.ordered, options.token)?;
        self.shares.open(flow);
        Ok(flow)
    }

    /// Queues a copy of `message`.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when memory or table is full, or the flow has its share of them: poll, and try again when
    /// [`Event::Writable`] names the flow. The shares are those of [`Client::send`](crate::Client::send).
    #[inline]
    pub fn send(&mut self, flow: FlowId, message: &[u8]) -> Result<(), SendError> {
        self.send_reported(flow, message, 0)
    }

    /// Queues a copy of `message`; [`Event::Delivered`] reports its fate with `token`, which is not zero.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_reported(&mut self, flow: FlowId, message: &[u8], token: u64) -> Result<(), SendError> {
        let mut buf = self.reserve_on(flow, message.len())?;
        self.bytes_mut(&mut buf).copy_from_slice(message);
        self.queue(flow, buf, token)
    }

    /// Queues one message made of `pieces`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_vectored(&mut self, flow: FlowId, pieces: &[IoSlice<'_>]) -> Result<(), SendError> {
        let mut buf = self.reserve_on(flow, pieces.iter().map(|p| p.len()).sum())?;
        let mut rest = self.bytes_mut(&mut buf);
        for piece in pieces {
            let (head, tail) = rest.split_at_mut(piece.len());
            head.copy_from_slice(piece);
            rest = tail;
        }
        self.queue(flow, buf, 0)
    }

    fn memory(&mut self) -> &mut HeapMemory {
        self.stack.endpoint_mut().memory_mut()
    }

    fn room(&self) -> Room {
        let memory = self.stack.endpoint().memory();
        Room { free: memory.available().0, capacity: memory.send_capacity() }
    }

    /// Longest message that can ever be sent from here, in bytes, however empty the memory is. Its receiver's memory is another limit.
    pub fn message_max(&self) -> usize {
        let most = self.stack.endpoint().memory().send_max();
        most.min(barewire_wire::msg::MESSAGE_LEN_MAX) as usize
    }

    fn is_too_large(&self, len: usize) -> bool {
        len > self.message_max()
    }

    /// Takes a flow's share for a block that is taken from the memory already.
    #[inline]
    fn share(&mut self, flow: FlowId, offset: u32, len: u32) -> Result<(), SendError> {
        let block = self.memory().send_block_len(offset);
        let room = self.room();
        self.shares.begin(flow, len, block, room, true)
    }

    #[inline]
    fn reserve_on(&mut self, flow: FlowId, len: usize) -> Result<SendBuf, SendError> {
        if self.is_too_large(len) {
            return Err(SendError::TooLarge);
        }
        let len = len as u32;
        let Some(got) = self.memory().reserve(len) else {
            let all = self.room().capacity.max(1);
            let none = Room { free: 0, capacity: all };
            return Err(self
                .shares
                .begin(flow, len, all, none, false)
                .err()
                .unwrap_or(SendError::WouldBlock));
        };
        if let Err(e) = self.share(flow, got.offset, len) {
            self.memory().release_send(got);
            return Err(e);
        }
        Ok(SendBuf { home: self.home.number(), offset: got.offset, len })
    }

    /// Queues a message whose share is taken.
    #[inline]
    fn queue(&mut self, flow: FlowId, buf: SendBuf, token: u64) -> Result<(), SendError> {
        let (offset, len) = buf.into_parts();
        let now = self.now;
        self.stack.endpoint_mut().send(now, flow, raw(offset, len), token).map_err(|e| {
            self.end_send(flow, offset, len);
            let e = e.into();
            if e == SendError::WouldBlock {
                self.shares.refuse(Some(flow), len);
            }
            e
        })
    }

    /// A message is the application's no longer, nor the transport's.
    #[inline]
    fn end_send(&mut self, flow: FlowId, offset: u32, len: u32) {
        let block = self.memory().send_block_len(offset);
        self.memory().release_send(raw(offset, len));
        self.shares.end(flow, block);
    }

    /// Room for a message of `len` bytes, to build it in place. [`commit`](Self::commit) sends it,
    /// [`abandon`](Self::abandon) gives it back.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] while the memory is full, [`SendError::TooLarge`] when it never can.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<SendBuf, SendError> {
        if self.is_too_large(len) {
            return Err(SendError::TooLarge);
        }
        match self.memory().reserve(len as u32) {
            Some(got) => Ok(SendBuf { home: self.home.number(), offset: got.offset, len: got.len }),
            None => {
                self.shares.refuse(None, len as u32);
                Err(SendError::WouldBlock)
            }
        }
    }

    /// The bytes of a reserved message; none of another endpoint's.
    #[inline]
    pub fn bytes_mut(&mut self, buf: &mut SendBuf) -> &mut [u8] {
        if buf.home != self.home.number() {
            return &mut [];
        }
        self.stack.endpoint_mut().memory_mut().send_bytes(raw(buf.offset, buf.len))
    }

    /// Queues a reserved message. With a `token` other than zero, [`Event::Delivered`] reports its fate.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`SendError::NotOurs`] for another endpoint's reservation; the reservation is given back.
    #[inline]
    pub fn commit(&mut self, flow: FlowId, buf: SendBuf, token: u64) -> Result<(), SendError> {
        if buf.home != self.home.number() {
            return Err(SendError::NotOurs);
        }
        if let Err(e) = self.share(flow, buf.offset, buf.len) {
            self.abandon(buf);
            return Err(e);
        }
        self.queue(flow, buf, token)
    }

    /// Sends a received message back on its flow and releases it: what an echo server does.
    ///
    /// # Errors
    /// As [`send`](Self::send), with the message still the caller's.
    #[inline]
    pub fn echo(&mut self, inbound: Inbound) -> Result<(), (SendError, Inbound)> {
        if inbound.home != self.home.number() {
            return Err((SendError::NotOurs, inbound));
        }
        let buf = match self.reserve_on(inbound.flow, inbound.len()) {
            Ok(buf) => buf,
            Err(e) => return Err((e, inbound)),
        };
        let from = RecvBuf { owner: 0, offset: inbound.offset, len: inbound.len };
        self.memory().copy_to_send(from, raw(buf.offset, buf.len));
        match self.queue(inbound.flow, buf, 0) {
            Ok(()) => {
                self.release(inbound);
                Ok(())
            }
            Err(e) => Err((e, inbound)),
        }
    }

    /// Gives a reservation back unsent. (Dropping it does so, too, with the next poll.)
    pub fn abandon(&mut self, buf: SendBuf) {
        if buf.home == self.home.number() {
            let (offset, len) = buf.into_parts();
            self.give_back(offset, len);
        }
    }

    fn give_back(&mut self, offset: u32, len: u32) {
        self.memory().release_send(raw(offset, len));
        self.shares.freed = true;
    }

    /// What was dropped instead of being given back.
    #[inline]
    fn take_back(&mut self) {
        for lost in self.home.take() {
            match lost {
                Lost::Message { flow, offset, len } => self.release_raw(flow, offset, len),
                Lost::Reservation { offset, len } => self.give_back(offset, len),
            }
        }
    }

    /// Whether another process opened it, whose child this one is.
    #[inline]
    pub fn is_inherited(&self) -> bool {
        !self.process.is_this()
    }

    #[inline]
    fn begin_cycle(&mut self) -> Result<(), PortError> {
        if self.is_inherited() {
            return Err(self.inherited());
        }
        self.now = barewire_engine::now();
        self.take_back();
        Ok(())
    }

    #[cold]
    fn inherited(&self) -> PortError {
        PortError::Inherited { port: self.stack.port().caps().description.clone() }
    }

    /// One duty cycle: sends what is queued, takes in what has arrived, runs the timers. Says how many frames moved.
    ///
    /// # Errors
    /// The port's, when it is down, and [`PortError::Inherited`].
    #[inline]
    pub fn poll(&mut self) -> Result<usize, PortError> {
        self.begin_cycle()?;
        self.stack.poll(self.now)
    }

    /// Sends what is queued without looking for what has arrived.
    ///
    /// # Errors
    /// The port's, when it is down.
    #[inline]
    pub fn flush(&mut self) -> Result<usize, PortError> {
        self.begin_cycle()?;
        self.stack.transmit(self.now)
    }

    /// The next thing to know. A received message is read with [`message`](Self::message) and given back with
    /// [`release`](Self::release).
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let Some(event) = self.stack.poll_event() else {
                return if self.shares.has_refusals() { self.take_writable() } else { None };
            };
            return Some(match event {
                transport::Event::Received { flow, buf, .. } => {
                    let RecvBuf { offset, len, .. } = buf;
                    Event::Message(Inbound { home: self.home.number(), flow, offset, len })
                }
                transport::Event::Sent { flow, buf, token, delivered, .. } => {
                    self.end_send(flow, buf.offset, buf.len);
                    if token == 0 {
                        continue;
                    }
                    Event::Delivered { flow, token, delivered }
                }
                transport::Event::Connected { flow, token, local, remote, .. } => {
                    Event::Connected { flow, token, local, remote }
                }
                transport::Event::ConnectFailed { flow, token, reason, .. } => {
                    self.shares.ended(flow);
                    Event::ConnectFailed { flow, token, reason }
                }
                transport::Event::Accepted { flow, token, local, remote, .. } => {
                    self.shares.open(flow);
                    Event::Accepted { flow, token, local, remote }
                }
                transport::Event::Closed { flow, reason, .. } => {
                    self.shares.ended(flow);
                    Event::Closed { flow, reason }
                }
                _ => continue,
            });
        }
    }

    /// Whether something that was refused may go now; says so once.
    #[cold]
    fn take_writable(&mut self) -> Option<Event> {
        let room = self.room();
        let memory = self.stack.endpoint_mut().memory_mut();
        let flow = self.shares.next_writable(room, true, |len| {
            let got = memory.reserve(len)?;
            let block = memory.send_block_len(got.offset);
            memory.release_send(got);
            Some(block)
        })?;
        Some(Event::Writable { flow })
    }

    /// The bytes of a received message; none of another endpoint's.
    #[inline]
    pub fn message(&self, inbound: &Inbound) -> &[u8] {
        if inbound.home != self.home.number() {
            return &[];
        }
        let buf = RecvBuf { owner: 0, offset: inbound.offset, len: inbound.len };
        self.stack.endpoint().memory().recv_bytes(buf)
    }

    /// Gives a received message back: its memory is free, its sender gets the credit. Another endpoint's goes back there.
    #[inline]
    pub fn release(&mut self, inbound: Inbound) {
        if inbound.home == self.home.number() {
            let (flow, offset, len) = inbound.into_raw();
            self.release_raw(flow, offset, len);
        }
    }

    #[inline]
    fn release_raw(&mut self, flow: FlowId, offset: u32, len: u32) {
        self.stack.endpoint_mut().release(self.now, flow, RecvBuf { owner: 0, offset, len });
    }

    /// Who is at the other end of a flow; `None`: it is not encrypted, or not open yet, or gone.
    pub fn peer(&self, flow: FlowId) -> Option<PeerIdentity> {
        let peer = self.stack.endpoint().peer_of(flow)?;
        Some(PeerIdentity { name: peer.name.clone(), key: peer.key })
    }

    /// Closes a flow after everything queued was acknowledged; [`Event::Closed`] follows. False: no such flow.
    pub fn close(&mut self, flow: FlowId) -> bool {
        self.shares.close(flow);
        self.stack.endpoint_mut().close(self.now, flow)
    }

    /// Ends a flow at once. False: no such flow.
    pub fn reset(&mut self, flow: FlowId) -> bool {
        self.shares.close(flow);
        self.stack.endpoint_mut().reset(self.now, flow)
    }

    /// Polls until `done` says so or `timeout` has passed; false: it has passed.
    ///
    /// # Errors
    /// The port's, when it is down.
    pub fn poll_until(
        &mut self,
        timeout: Duration,
        mut done: impl FnMut(&mut Embedded) -> bool,
    ) -> Result<bool, PortError> {
        let end = barewire_engine::now() + timeout;
        loop {
            let moved = self.poll()?;
            if done(self) {
                return Ok(true);
            }
            if self.now >= end {
                return Ok(false);
            }
            if moved == 0 {
                std::thread::yield_now();
            }
        }
    }
}

pub(crate) fn unspecified(like: IpAddr) -> IpAddr {
    if like.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}
