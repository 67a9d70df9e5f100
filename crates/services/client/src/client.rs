//! Through the daemon: the application's side of a channel.

use crate::calls::{Calls, Fate, Verdict};
use crate::error::{ConnectWaitError, SendError, WaitError};
use crate::event::{ConnectId, ConnectOptions, Event, Inbound, PeerIdentity, SendBuf};
use crate::names::candidates;
use crate::reclaim::{Home, Lost};
use crate::share::{Room, Shares};
use crate::view::View;
use barewire_channel::control::ControlConn;
use barewire_channel::{
    AppChannel, AttachError, Attached, Completion, Geometry, Request, Sleeper, Wake, Waker, attach,
};
use barewire_transport::buddy::Buddy;
use barewire_transport::security::PublicKey;
use barewire_transport::{CloseReason, ConnectFailure, FlowId};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

mod ends;
mod own;
pub(crate) mod reattach;
mod wait;

use own::OwnEngine;
use reattach::Steady;

/// How often a client that waits looks whether the ring of requests, found full, has room again: the daemon does not say.
const RING_CHECK: Duration = Duration::from_millis(1);
/// Tokens of messages whose fate nobody asked for have this bit clear; those of `commit` with a token have it set.
const WANTED: u64 = 1 << 63;

/// How to attach.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// What to call this application in statistics.
    pub name: String,
    /// The daemon's control socket. Empty, as from [`new`](ClientConfig::new): the first of
    /// [`socket_paths`](crate::socket_paths) where a daemon answers. With the feature `engine`, `embedded:10.0.0.1/24@xdp:eth0` (or
    /// `embedded:FILE.toml`) in its place, or in `$BAREWIRE_SOCKET`, starts an engine in threads of this process, for this client alone. It
    /// stops with the client, which waits for it.
    pub socket: PathBuf,
    /// The channel to ask for; `None`: the daemon's default.
    pub geometry: Option<Geometry>,
    /// How long [`Client::wait_event`] polls before it sleeps. Polling answers sooner and keeps a core busy; with fewer cores
    /// than busy threads it costs more than it gains. Default: 0.
    pub spin: Duration,
    /// Outlive the daemon: when it goes, say what became of flows and messages, look for it, attach again and listen on the same
    /// ports. [`Event::Detached`] has the order of events. Costs a note for each message sent. An engine of one's own has no successor: it is
    /// off there. Default: off.
    pub reattach: bool,
}

impl ClientConfig {
    /// The default daemon, under this name.
    pub fn new(name: &str) -> ClientConfig {
        ClientConfig {
            name: name.to_owned(),
            socket: PathBuf::new(),
            geometry: None,
            spin: Duration::ZERO,
            reattach: false,
        }
    }
}

/// A channel to the daemon.
///
/// `Send`, so that it can move to the thread that uses it, and not `Sync`: one thread at a time. A program with several threads
/// attaches once for each, or keeps its clients behind its own lock; a [`Waker`] ends a wait from another thread.
///
/// Dropping it ends it at once: its flows are reset, what the peers have not acknowledged is lost, its listeners are gone.
/// [`close_and_wait`](Client::close_and_wait) before lets everything arrive.
///
/// A child made by fork(2) has no use for its parent's clients: there they count as closed
/// ([`SendError::DaemonGone`], [`WaitError::DaemonGone`]). It attaches its own.
pub struct Client {
    channel: AppChannel,
    /// Open for as long as the application lives: its closing is how the daemon knows.
    _control: ControlConn,
    home: Home,
    send_books: Buddy,
    shares: Shares,
    calls: Calls,
    addresses: Vec<IpAddr>,
    mtu: u32,
    number: u32,
    spin: Duration,
    /// Events that came while something else was waited for.
    queued: VecDeque<Event>,
    /// Requests that must not fail and found the ring full: releases, and the ends of what was given up.
    owed: VecDeque<Request>,
    /// Something was refused because the ring was full.
    ring_was_full: bool,
    /// Messages whose flow ended before they had arrived.
    undelivered: u64,
    /// Who is at the other ends of encrypted flows.
    peers: HashMap<FlowId, PeerIdentity>,
    /// Where the client outlives its daemon.
    steady: Option<Box<Steady>>,
    /// Where there is no daemon. Last: the client goes first.
    #[cfg_attr(not(feature = "tokio"), allow(dead_code, reason = "its drop stops it"))]
    engine: Option<OwnEngine>,
}

impl Client {
    /// Attaches to the default daemon.
    ///
    /// # Errors
    /// [`AttachError`]; its `hint` says what to do.
    pub fn attach(name: &str) -> Result<Client, AttachError> {
        Client::attach_with(&ClientConfig::new(name))
    }

    /// Attaches.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach_with(config: &ClientConfig) -> Result<Client, AttachError> {
        let engine = own::start(config)?;
        let socket = engine.as_ref().map_or(config.socket.as_path(), OwnEngine::socket);
        let Attached { channel, control, welcome } = attach(socket, &config.name, config.geometry)?;
        Ok(Client {
            send_books: Buddy::new(channel.geometry().send_bytes as usize),
            shares: Shares::new(channel.geometry().sends_max()),
            home: Home::new(),
            calls: Calls::default(),
            channel,
            _control: control,
            addresses: welcome.addresses,
            peers: HashMap::new(),
            mtu: welcome.mtu,
            number: welcome.application,
            spin: config.spin,
            queued: VecDeque::with_capacity(64),
            owed: VecDeque::new(),
            ring_was_full: false,
            undelivered: 0,
            steady: (config.reattach && engine.is_none()).then(|| Box::new(Steady::new(config))),
            engine,
        })
    }

    /// The engine of this client alone, where it has one: for who lets it stop elsewhere.
    #[cfg(feature = "tokio")]
    pub(crate) fn take_engine(&mut self) -> Option<OwnEngine> {
        self.engine.take()
    }

    /// The daemon's addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Who is at the other end of a flow, as the daemon has it proven; `None`: it is not encrypted, or not open yet, or gone.
    pub fn peer(&self, flow: FlowId) -> Option<&PeerIdentity> {
        self.peers.get(&flow)
    }

    /// Largest IP packet on the daemon's port, in bytes.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// This application's number at the daemon.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Messages whose fate the daemon has not told yet.
    pub fn sends_under_way(&self) -> u32 {
        self.shares.messages()
    }

    /// Messages whose flow ended before they had arrived, of all that this client has sent.
    pub fn undelivered(&self) -> u64 {
        self.undelivered
    }

    /// Asks for connections on `udp_port`, at all addresses of the daemon. [`Event::Listening`] or [`Event::ListenFailed`] follows.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when the ring is full.
    pub fn listen(&mut self, udp_port: u16, token: u64) -> Result<(), SendError> {
        self.ask_to_listen(None, udp_port, token, Fate::Told(token))
    }

    /// [`listen`](Self::listen) at one of the daemon's [`addresses`](Self::addresses), and so on the port that has it: who asks for a
    /// connection at another is refused, unless another application listens there. A client listens once on a UDP port.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when the ring is full.
    pub fn listen_on(&mut self, local: IpAddr, udp_port: u16, token: u64) -> Result<(), SendError> {
        self.ask_to_listen(Some(local), udp_port, token, Fate::Told(token))
    }

    fn ask_to_listen(
        &mut self,
        local: Option<IpAddr>,
        udp_port: u16,
        token: u64,
        fate: Fate,
    ) -> Result<(), SendError> {
        self.submit(&Request::Listen { token, udp_port, local })?;
        self.calls.listens(local, udp_port, token, fate);
        self.flush();
        Ok(())
    }

    /// Starts to connect. [`Event::Connected`] or [`Event::ConnectFailed`] follows, with the token of `options`. What it
    /// gives is for [`cancel`](Self::cancel). Never waits, so it takes no name: [`connect_to`](Self::connect_to).
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when the ring is full.
    pub fn connect(&mut self, remote: SocketAddr, options: &ConnectOptions) -> Result<ConnectId, SendError> {
        self.ask_to_connect(&[remote], options, Fate::Told(options.token))
    }

    /// As [`connect`](Self::connect), to the first address of `remote` that answers. A name is looked up as the system does
    /// (`/etc/hosts`, DNS), which waits for the resolver; everything else does not wait. The event is that of the last address tried.
    /// An address that is silent is given up after the daemon's `handshake_timeout` (5 s), and then the next is tried.
    ///
    /// # Errors
    /// [`ConnectWaitError::Name`] for a name without an address, [`ConnectWaitError::WouldBlock`] when the ring is full.
    pub fn connect_to(
        &mut self,
        remote: impl ToSocketAddrs,
        options: &ConnectOptions,
    ) -> Result<ConnectId, ConnectWaitError> {
        let remotes = candidates(remote.to_socket_addrs()?, options.local)?;
        Ok(self.connect_any(&remotes, options)?)
    }

    /// As [`connect_to`](Self::connect_to), once the addresses are known.
    pub(crate) fn connect_any(
        &mut self,
        remotes: &[SocketAddr],
        options: &ConnectOptions,
    ) -> Result<ConnectId, SendError> {
        self.ask_to_connect(remotes, options, Fate::Told(options.token))
    }

    /// Asks for a flow to the first of `remotes`, and to the next one when that fails.
    fn ask_to_connect(
        &mut self,
        remotes: &[SocketAddr],
        options: &ConnectOptions,
        fate: Fate,
    ) -> Result<ConnectId, SendError> {
        let number = self.calls.next();
        let mut requests = remotes.iter().map(|remote| Request::Connect {
            token: number,
            local: options.local,
            local_udp_port: options.local_udp_port,
            remote: *remote,
            ordered: options.ordered,
        });
        if let Some(first) = requests.next() {
            self.submit(&first)?;
        }
        let id = self.calls.connects(number, fate, requests.collect());
        self.flush();
        Ok(id)
    }

    fn submit(&mut self, request: &Request) -> Result<(), SendError> {
        self.submit_for(request, None, 0)
    }

    /// Writes a request; a refusal is remembered as that of `len` bytes on `flow`.
    #[inline]
    fn submit_for(&mut self, request: &Request, flow: Option<FlowId>, len: u32) -> Result<(), SendError> {
        if self.steady.is_some() && self.is_detached() {
            return Err(SendError::DaemonGone);
        }
        // What had to wait for room goes first, or a port would be listened on before the one before let it go.
        if self.owed.is_empty() && self.channel.submit(request) {
            return Ok(());
        }
        // Full: let the daemon see what is there.
        self.submit_owed();
        self.channel.flush();
        self.submit_owed();
        if self.owed.is_empty() && self.channel.submit(request) {
            return Ok(());
        }
        if self.channel.is_closed() {
            return Err(SendError::DaemonGone);
        }
        self.ring_was_full = true;
        self.shares.refuse(flow, len);
        Err(SendError::WouldBlock)
    }

    /// Submits what must not fail, as far as the ring has room.
    fn submit_owed(&mut self) {
        while let Some(request) = self.owed.front() {
            if !self.channel.submit(request) {
                return;
            }
            self.owed.pop_front();
        }
    }

    /// What was dropped instead of being given back.
    #[cold]
    fn take_back(&mut self, lost: Vec<Lost>) {
        for lost in lost {
            match lost {
                Lost::Message { flow, offset, len } => {
                    if let Some(steady) = &mut self.steady {
                        steady.releases(None);
                    }
                    self.release_raw(flow, offset, len);
                }
                Lost::Reservation { offset, .. } => self.give_back(offset),
            }
        }
    }

    /// A reservation is free again.
    fn give_back(&mut self, offset: u32) {
        self.send_books.free(offset);
        self.shares.freed = true;
    }

    fn room(&self) -> Room {
        Room { free: self.send_books.available(), capacity: self.send_books.capacity() }
    }

    /// Whether something that was refused may go now; says so once, if `take`.
    #[cold]
    fn writable(&mut self, take: bool) -> Option<Event> {
        if let Some(flow) = self.shares.next_moot(take) {
            return Some(Event::Writable { flow: Some(flow) });
        }
        if self.ring_was_full {
            if !self.channel.has_room() {
                return None;
            }
            self.ring_was_full = false;
            self.shares.freed = true;
        }
        let room = self.room();
        let books = &mut self.send_books;
        let flow = self.shares.next_writable(room, take, |len| {
            let offset = books.alloc(len)?;
            let block = books.block_len(offset);
            books.free(offset);
            block.map(u64::from)
        })?;
        Some(Event::Writable { flow })
    }

    /// A message is the application's no longer, nor the daemon's.
    #[inline]
    fn end_send(&mut self, flow: FlowId, offset: u32, delivered: bool) {
        if let Some(block) = self.send_books.block_len(offset) {
            self.send_books.free(offset);
            self.shares.end(flow, u64::from(block));
            self.undelivered += u64::from(!delivered);
        }
        if let Some(steady) = &mut self.steady {
            steady.ends(offset);
        }
    }

    /// Longest message that this client can ever send, in bytes, however empty its memory is. Its receiver's memory is another limit.
    pub fn message_max(&self) -> usize {
        self.send_books.largest().min(barewire_wire::msg::MESSAGE_LEN_MAX) as usize
    }

    fn is_too_large(&self, len: usize) -> bool {
        len > self.message_max()
    }

    /// Room for a message on `flow`, with its share taken.
    #[inline]
    fn reserve_on(&mut self, flow: FlowId, len: usize) -> Result<SendBuf, SendError> {
        if self.is_too_large(len) {
            return Err(SendError::TooLarge);
        }
        let len = len as u32;
        let Some(offset) = self.send_books.alloc(len) else {
            // A block as long as the memory says the same as none, and tells what kind of flow it is.
            let all = self.send_books.capacity().max(1);
            let none = Room { free: 0, capacity: all };
            let refused = self.shares.begin(flow, len, all, none, false);
            return Err(self.gone_or(refused.err().unwrap_or(SendError::WouldBlock)));
        };
        self.share(flow, offset, len).inspect_err(|_| {
            self.send_books.free(offset);
        })?;
        Ok(SendBuf { home: self.home.number(), offset, len })
    }

    /// Why a message is refused: with the daemon all flows are gone.
    #[cold]
    fn gone_or(&self, e: SendError) -> SendError {
        if self.channel.is_closed() { SendError::DaemonGone } else { e }
    }

    /// Takes a flow's share for a block that is taken from the memory already.
    #[inline]
    fn share(&mut self, flow: FlowId, offset: u32, len: u32) -> Result<(), SendError> {
        let block = self.send_books.block_len(offset).map_or(0, u64::from);
        let room = self.room();
        self.shares.begin(flow, len, block, room, true).map_err(|e| self.gone_or(e))
    }

    /// Queues a message whose share is taken.
    #[inline]
    fn queue(&mut self, flow: FlowId, buf: SendBuf, token: u64) -> Result<(), SendError> {
        let (offset, len) = buf.into_parts();
        let request = Request::Send { flow: flow.to_raw(), offset, len, token };
        self.submit_for(&request, Some(flow), len).inspect_err(|_| {
            self.end_send(flow, offset, true);
        })?;
        if let Some(steady) = &mut self.steady {
            steady.begins(flow, offset, len, token);
        }
        Ok(())
    }

    /// Sends a copy of `message`. That it was queued says nothing of its arrival: [`Event::Closed`] says how its flow ended,
    /// and a token (see [`commit`](Self::commit)) what became of one message.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when memory or ring is full, or as many messages are under way as the daemon takes
    /// ([`Geometry::sends_max`]), or the flow has its share of these: take events, and try again when one of them is
    /// [`Event::Writable`] for the flow. A flow with nothing under way is refused only when there is no room at all; one that
    /// has something under way gets no more than is free, in messages and in bytes, so that peers that do not read leave room for
    /// the others. [`SendError::NoSuchFlow`] and [`SendError::Closing`] when it has ended or was closed here.
    #[inline]
    pub fn send(&mut self, flow: FlowId, message: &[u8]) -> Result<(), SendError> {
        let buf = self.reserve_on(flow, message.len())?;
        self.write(&buf, 0, message);
        self.queue(flow, buf, 0)?;
        self.flush();
        Ok(())
    }

    /// Sends one message made of `pieces`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_vectored(&mut self, flow: FlowId, pieces: &[IoSlice<'_>]) -> Result<(), SendError> {
        let buf = self.reserve_on(flow, pieces.iter().map(|p| p.len()).sum())?;
        let mut at = 0;
        for piece in pieces {
            self.write(&buf, at, piece);
            at += piece.len();
        }
        self.queue(flow, buf, 0)?;
        self.flush();
        Ok(())
    }

    /// Room for a message of `len` bytes in the shared memory, to build it in place with [`write`](Self::write).
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] while memory is short, [`SendError::TooLarge`] when it never suffices.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<SendBuf, SendError> {
        if self.is_too_large(len) {
            return Err(SendError::TooLarge);
        }
        let len = len as u32;
        match if self.shares.has_place() { self.send_books.alloc(len) } else { None } {
            Some(offset) => Ok(SendBuf { home: self.home.number(), offset, len }),
            None => {
                self.shares.refuse(None, len);
                Err(SendError::WouldBlock)
            }
        }
    }

    /// Writes bytes of a reserved message, from `at` within it. What lies beyond its end is not written; false then, and for
    /// another client's reservation.
    #[inline]
    pub fn write(&mut self, buf: &SendBuf, at: usize, bytes: &[u8]) -> bool {
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= buf.len());
        buf.home == self.home.number()
            && fits
            && self.channel.send_memory().write(buf.offset as usize + at, bytes)
    }

    /// Queues a reserved message; [`flush`](Self::flush) lets the daemon see it. With a token (of up to 63 bits)
    /// [`Event::Delivered`] reports its fate.
    ///
    /// # Errors
    /// As [`send`](Self::send), and [`SendError::NotOurs`] for another client's reservation; the reservation is given back.
    #[inline]
    pub fn commit(&mut self, flow: FlowId, buf: SendBuf, token: Option<u64>) -> Result<(), SendError> {
        if buf.home != self.home.number() {
            return Err(SendError::NotOurs);
        }
        if let Err(e) = self.share(flow, buf.offset, buf.len) {
            self.abandon(buf);
            return Err(e);
        }
        self.queue(flow, buf, token.map_or(0, |t| t | WANTED))
    }

    /// Gives a reservation back unsent. (Dropping it does so, too, a little later.)
    pub fn abandon(&mut self, buf: SendBuf) {
        if buf.home == self.home.number() {
            let (offset, _) = buf.into_parts();
            self.give_back(offset);
        }
    }

    /// Lets the daemon see what was queued, and wakes it if it sleeps. One system call at most.
    #[inline]
    pub fn flush(&mut self) {
        let lost = self.home.take();
        if !lost.is_empty() {
            self.take_back(lost);
        }
        if !self.owed.is_empty() {
            self.submit_owed();
        }
        self.channel.flush();
    }

    /// The next thing that happened; never waits.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        if let Some(event) = self.queued.pop_front() {
            return Some(event);
        }
        let event = self.take_completion();
        if event.is_none() && self.steady.is_some() && self.channel.is_closed() {
            self.mourn();
            if let Some(event) = self.queued.pop_front() {
                return Some(event);
            }
        }
        if event.is_none() && self.shares.has_refusals() && !self.channel.is_inherited() {
            return self.writable(true);
        }
        event
    }

    fn take_completion(&mut self) -> Option<Event> {
        loop {
            // A completion that makes no sense comes from a daemon gone mad; it is passed over.
            let Ok(completion) = self.channel.next_completion()? else {
                continue;
            };
            let flow_of = FlowId::from_raw;
            return Some(match completion {
                Completion::Received { flow, offset, len } => {
                    let flow = flow_of(flow);
                    if self.calls.is_unwanted(flow) {
                        self.release_raw(flow, offset, len);
                        continue;
                    }
                    if let Some(steady) = &mut self.steady {
                        steady.receives();
                    }
                    Event::Message(Inbound { home: self.home.number(), flow, offset, len })
                }
                Completion::Sent { flow, token, offset, delivered } => {
                    let flow = flow_of(flow);
                    self.end_send(flow, offset, delivered);
                    if token & WANTED == 0 {
                        continue;
                    }
                    Event::Delivered { flow, token: token & !WANTED, delivered }
                }
                Completion::SendRefused { flow, token, offset, .. } => {
                    // The flow had ended when the daemon looked, and its `Closed` was said before: later sends are refused.
                    let flow = flow_of(flow);
                    self.end_send(flow, offset, false);
                    if token & WANTED == 0 {
                        continue;
                    }
                    Event::Delivered { flow, token: token & !WANTED, delivered: false }
                }
                Completion::Connecting { token, flow } => {
                    self.calls.connecting(token, flow_of(flow), &mut self.owed);
                    continue;
                }
                Completion::Connected { token, flow, local, remote } => {
                    let verdict = self.calls.connected(token, flow_of(flow), local, remote, &mut self.owed);
                    match self.apply_verdict(verdict) {
                        Some(event) => event,
                        None => continue,
                    }
                }
                Completion::Peer { flow, name, key } => {
                    self.know_peer(flow_of(flow), &name, key);
                    continue;
                }
                Completion::ConnectFailed { token, flow, reason } => {
                    let reason = ConnectFailure::from_code(reason).unwrap_or(ConnectFailure::Refused);
                    let verdict = self.calls.connect_failed(token, flow_of(flow), reason, &mut self.owed);
                    match self.apply_verdict(verdict) {
                        Some(event) => event,
                        None => {
                            // Another address of the name is next.
                            self.submit_owed();
                            self.channel.flush();
                            continue;
                        }
                    }
                }
                Completion::Accepted { token, flow, local, remote } => {
                    let flow = flow_of(flow);
                    self.shares.open(flow);
                    Event::Accepted { flow, token, local, remote }
                }
                Completion::Closed { flow, reason } => {
                    let flow = flow_of(flow);
                    if !self.peers.is_empty() {
                        self.peers.remove(&flow);
                    }
                    if self.calls.ended(flow) {
                        continue;
                    }
                    self.shares.ended(flow);
                    let reason = CloseReason::from_code(reason).unwrap_or(CloseReason::Reset);
                    Event::Closed { flow, reason }
                }
                Completion::Listening { udp_port, .. } | Completion::ListenFailed { udp_port, .. } => {
                    match self.listened(udp_port, matches!(completion, Completion::Listening { .. })) {
                        Some(event) => event,
                        None => continue,
                    }
                }
                // Nobody asked for RDMA here.
                Completion::Rdma(_) => continue,
            });
        }
    }

    /// Notes who is at the other end of an encrypted flow. `name` ends at its first 0.
    #[cold]
    fn know_peer(&mut self, flow: FlowId, name: &[u8], key: [u8; 32]) {
        let len = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        let name = String::from_utf8_lossy(&name[..len]).into_owned();
        self.peers.insert(flow, PeerIdentity { name, key: PublicKey::from_bytes(key) });
    }

    /// The daemon listens at a UDP port, or does not.
    #[cold]
    fn listened(&mut self, udp_port: u16, done: bool) -> Option<Event> {
        if done
            && let Some(steady) = &mut self.steady
            && let Some((local, token)) = self.calls.wish(udp_port)
        {
            steady.listens(local, udp_port, token);
        }
        let verdict = self.calls.listened(udp_port, done, &mut self.owed);
        self.apply_verdict(verdict)
    }

    /// What the application is told of an answer.
    #[cold]
    fn apply_verdict(&mut self, verdict: Verdict) -> Option<Event> {
        match verdict {
            Verdict::Nothing => None,
            Verdict::Tell(event) => Some(event),
            Verdict::Open(flow, event) => {
                self.shares.open(flow);
                event
            }
        }
    }

    /// Readable when there may be an event: for an epoll of the application's own, between [`arm`](Self::arm) and
    /// [`disarm`](Self::disarm). Do not read it.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.channel.event_fd()
    }

    /// Call before sleeping on [`event_fd`](Self::event_fd). False when an event is here already, or when the ring of
    /// requests was found full, whose emptying does not ring: do not sleep.
    pub fn arm(&mut self) -> bool {
        self.prepare_sleep(None) == Some(None)
    }

    /// As [`arm`](Self::arm), before a sleep on a [`Sleeper`]: how long it may be at most when the application allows `left`
    /// (`None`: for ever). `None`: there is an event already, or the daemon is gone; do not sleep.
    pub fn prepare_sleep(&mut self, left: Option<Duration>) -> Option<Option<Duration>> {
        self.flush();
        let has_event =
            !self.queued.is_empty() || (self.shares.has_refusals() && self.writable(false).is_some());
        (!has_event && self.channel.arm()).then(|| self.nap(left))
    }

    /// Whether a sleep that others began should end: something is here for it, or what it waits for was taken away.
    pub fn ends_sleep(&self) -> bool {
        !self.queued.is_empty()
            || self.waits_for_ring()
            || (self.shares.has_refusals() && self.shares.freed)
            || !self.channel.is_armed()
    }

    /// Call after the sleep, then take events.
    pub fn disarm(&mut self) {
        self.channel.disarm();
    }

    /// Whether the daemon is gone.
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// Copies a received message, or its first `out.len()` bytes; says how many.
    #[inline]
    pub fn read(&self, message: &Inbound, out: &mut [u8]) -> usize {
        self.read_at(message, 0, out)
    }

    /// Copies bytes of a received message from `at` within it; says how many. None of another client's.
    #[inline]
    pub fn read_at(&self, message: &Inbound, at: usize, out: &mut [u8]) -> usize {
        if message.home != self.home.number() {
            return self.view(message).map_or(0, |view| view.copy(at, out));
        }
        self.read_raw(message.offset, message.len, at, out)
    }

    /// As [`read_at`](Self::read_at), of the message that [`Inbound::into_raw`] took apart. Other numbers are safe: what is
    /// read stays within the channel's memory.
    #[inline]
    pub fn read_raw(&self, offset: u32, len: u32, at: usize, out: &mut [u8]) -> usize {
        let n = (len as usize).saturating_sub(at).min(out.len());
        if self.channel.recv_memory().read(offset as usize + at, &mut out[..n]) { n } else { 0 }
    }

    /// A received message, to be read where it lies. `None` for another client's. It lies there until it is released.
    pub fn view<'a>(&'a self, message: &'a Inbound) -> Option<View<'a>> {
        let memory = match message.home == self.home.number() {
            true => self.channel.recv_memory(),
            false => self.steady.as_ref()?.memory_of(message)?,
        };
        View::new(memory, message.offset, message.len)
    }

    /// A received message as a vector.
    pub fn to_vec(&self, message: &Inbound) -> Vec<u8> {
        let mut bytes = vec![0; message.len()];
        let n = self.read(message, &mut bytes);
        bytes.truncate(n);
        bytes
    }

    /// Gives a received message back: its memory is free, its sender gets the credit. Seen by the daemon with the next
    /// [`flush`](Self::flush), send or wait. Another client's goes back there.
    #[inline]
    pub fn release(&mut self, message: Inbound) {
        let home = message.home;
        let is_ours = home == self.home.number();
        if let Some(steady) = &mut self.steady {
            steady.releases((!is_ours).then_some(home));
        }
        if is_ours {
            let (flow, offset, len) = message.into_raw();
            self.release_raw(flow, offset, len);
        }
    }

    /// As [`release`](Self::release), of the message that [`Inbound::into_raw`] took apart. Other numbers are safe: the daemon
    /// checks what is released.
    #[inline]
    pub fn release_raw(&mut self, flow: FlowId, offset: u32, len: u32) {
        let request = Request::Release { flow: flow.to_raw(), offset, len };
        if !self.owed.is_empty() {
            self.submit_owed();
        }
        // Not `submit`: it is no refusal, so nobody has to hear of it.
        if !self.owed.is_empty() || !self.channel.submit(&request) {
            // To wait here could be for ever: the daemon may wait for completions to be taken. The room for these is
            // bounded by what the application was handed and has not released.
            self.channel.flush();
            self.owed.push_back(request);
            self.submit_owed();
        }
    }
}
