//! Through the daemon: the application's side of a channel.

use crate::error::{ConnectWaitError, SendError, WaitError};
use crate::event::{ConnectOptions, Event, Inbound};
use barewire_channel::control::socket_path_default;
use barewire_channel::{
    AppChannel, AttachError, Attached, Completion, ControlConn, Geometry, Request, Wake, attach,
};
use barewire_transport::buddy::Buddy;
use barewire_transport::{CloseReason, ConnectFailure, FlowId, RecvBuf, SendBuf};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

/// How often a client that waits looks whether the ring of requests, found full, has room again: the daemon does not say.
const RING_CHECK: Duration = Duration::from_millis(1);
/// Tokens of messages whose fate nobody asked for have this bit clear; those of `commit` with a token have it set.
const WANTED: u64 = 1 << 63;

/// How to attach.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// What to call this application in statistics.
    pub name: String,
    /// The daemon's control socket.
    pub socket: PathBuf,
    /// The channel to ask for; `None`: the daemon's default.
    pub geometry: Option<Geometry>,
    /// How long [`Client::wait_event`] polls before it sleeps. Polling answers sooner and keeps a core busy; with fewer cores
    /// than busy threads it costs more than it gains. Default: 0.
    pub spin: Duration,
}

impl ClientConfig {
    /// The default daemon, under this name.
    pub fn new(name: &str) -> ClientConfig {
        ClientConfig {
            name: name.to_owned(),
            socket: socket_path_default(),
            geometry: None,
            spin: Duration::ZERO,
        }
    }
}

/// A channel to the daemon.
///
/// `Send`, so that it can move to the thread that uses it, and not `Sync`: one thread at a time. A program with several threads
/// attaches once for each, or keeps its clients behind its own lock.
pub struct Client {
    channel: AppChannel,
    /// Open for as long as the application lives: its closing is how the daemon knows.
    _control: ControlConn,
    send_books: Buddy,
    addresses: Vec<IpAddr>,
    mtu: u32,
    number: u32,
    spin: Duration,
    /// Events that came while something else was waited for.
    queued: VecDeque<Event>,
    /// Submitted and not yet completed.
    sends_under_way: u32,
    sends_max: u32,
    /// Releases that found the ring full.
    releases: VecDeque<Request>,
    blocked: Blocked,
}

/// What a refused send waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocked {
    No,
    /// Memory, or the number of messages under way: a completion makes room.
    Sends,
    /// Room in the ring.
    Ring,
    /// There may be room now, and the application has not been told.
    Over,
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
        let Attached { channel, control, welcome } = attach(&config.socket, &config.name, config.geometry)?;
        Ok(Client {
            send_books: Buddy::new(channel.geometry().send_bytes as usize),
            sends_max: channel.geometry().sends_max(),
            channel,
            _control: control,
            addresses: welcome.addresses,
            mtu: welcome.mtu,
            number: welcome.application,
            spin: config.spin,
            queued: VecDeque::with_capacity(64),
            sends_under_way: 0,
            releases: VecDeque::new(),
            blocked: Blocked::No,
        })
    }

    /// The daemon's addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
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
        self.sends_under_way
    }

    /// Asks for connections on `udp_port`. [`Event::Listening`] or [`Event::ListenFailed`] follows.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when the ring is full.
    pub fn listen(&mut self, udp_port: u16, token: u64) -> Result<(), SendError> {
        self.submit(&Request::Listen { token, udp_port, local: None })?;
        self.flush();
        Ok(())
    }

    /// Asks for connections and waits for the answer.
    ///
    /// # Errors
    /// [`ConnectWaitError`]: a port that is taken is `Failed(Refused)`.
    pub fn listen_wait(
        &mut self,
        udp_port: u16,
        token: u64,
        timeout: Duration,
    ) -> Result<(), ConnectWaitError> {
        self.listen(udp_port, token).map_err(|_| ConnectWaitError::WouldBlock)?;
        self.wait_for(timeout, |event| match event {
            Event::Listening { udp_port: p, .. } if *p == udp_port => Some(Ok(())),
            Event::ListenFailed { udp_port: p, .. } if *p == udp_port => {
                Some(Err(ConnectWaitError::Failed(ConnectFailure::Refused)))
            }
            _ => None,
        })
    }

    /// Takes no more connections on `udp_port`.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when the ring is full.
    pub fn unlisten(&mut self, udp_port: u16) -> Result<(), SendError> {
        self.submit(&Request::Unlisten { udp_port })?;
        self.flush();
        Ok(())
    }

    /// Starts to connect. [`Event::Connected`] or [`Event::ConnectFailed`] follows, with the token of `options`.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when the ring is full.
    pub fn connect(&mut self, remote: SocketAddr, options: &ConnectOptions) -> Result<(), SendError> {
        self.submit(&Request::Connect {
            token: options.token,
            local: options.local,
            local_udp_port: options.local_udp_port,
            remote,
            ordered: options.ordered,
        })?;
        self.flush();
        Ok(())
    }

    /// Connects and waits for it; other events stay queued. The token of `options` should be unlike that of other attempts under
    /// way.
    ///
    /// # Errors
    /// [`ConnectWaitError`].
    pub fn connect_wait(
        &mut self,
        remote: SocketAddr,
        options: &ConnectOptions,
        timeout: Duration,
    ) -> Result<FlowId, ConnectWaitError> {
        self.connect(remote, options).map_err(|_| ConnectWaitError::WouldBlock)?;
        let token = options.token;
        self.wait_for(timeout, |event| match event {
            Event::Connected { flow, token: t, .. } if *t == token => Some(Ok(*flow)),
            Event::ConnectFailed { reason, token: t, .. } if *t == token => {
                Some(Err(ConnectWaitError::Failed(*reason)))
            }
            _ => None,
        })
    }

    fn wait_for<T>(
        &mut self,
        timeout: Duration,
        pick: impl Fn(&Event) -> Option<Result<T, ConnectWaitError>>,
    ) -> Result<T, ConnectWaitError> {
        let end = barewire_engine::now() + timeout.into();
        loop {
            while let Some(event) = self.take_completion() {
                if let Some(result) = pick(&event) {
                    return result;
                }
                self.queued.push_back(event);
            }
            let now = barewire_engine::now();
            if now >= end {
                return Err(ConnectWaitError::TimedOut);
            }
            match self.channel.wait(self.nap(Some(end.since(now).into()))) {
                Ok(Wake::Gone) => return Err(WaitError::DaemonGone.into()),
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(WaitError::Io(e).into()),
            }
        }
    }

    fn submit(&mut self, request: &Request) -> Result<(), SendError> {
        if self.channel.submit(request) {
            return Ok(());
        }
        // Full: let the daemon see what is there.
        self.channel.flush();
        if self.channel.submit(request) {
            return Ok(());
        }
        if self.channel.is_closed() {
            return Err(SendError::DaemonGone);
        }
        self.blocked = Blocked::Ring;
        Err(SendError::WouldBlock)
    }

    /// Submits the releases that found the ring full, as far as that goes.
    fn submit_releases(&mut self) {
        while let Some(release) = self.releases.front() {
            if !self.channel.submit(release) {
                return;
            }
            self.releases.pop_front();
        }
    }

    /// How long to sleep at most when the application allows `left`.
    fn nap(&self, left: Option<Duration>) -> Option<Duration> {
        if self.releases.is_empty() && self.blocked != Blocked::Ring {
            return left;
        }
        Some(left.map_or(RING_CHECK, |left| left.min(RING_CHECK)))
    }

    /// Whether a send that was refused may go now; says so once.
    fn take_writable(&mut self) -> bool {
        let writable = match self.blocked {
            Blocked::No | Blocked::Sends => false,
            Blocked::Ring => self.channel.has_room(),
            Blocked::Over => true,
        };
        if writable {
            self.blocked = Blocked::No;
        }
        writable
    }

    /// A message is the application's no longer, nor the daemon's.
    #[inline]
    fn end_send(&mut self, offset: u32) {
        self.send_books.free(offset);
        self.sends_under_way = self.sends_under_way.saturating_sub(1);
        if self.blocked == Blocked::Sends {
            self.blocked = Blocked::Over;
        }
    }

    /// Sends a copy of `message`.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when memory or ring is full, or as many messages are under way as the daemon takes
    /// ([`Geometry::sends_max`]): take events, and try again when one of them is [`Event::Writable`].
    #[inline]
    pub fn send(&mut self, flow: FlowId, message: &[u8]) -> Result<(), SendError> {
        let buf = self.reserve(message.len())?;
        self.write(buf, 0, message);
        self.commit(flow, buf, None)?;
        self.flush();
        Ok(())
    }

    /// Sends one message made of `pieces`.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_vectored(&mut self, flow: FlowId, pieces: &[IoSlice<'_>]) -> Result<(), SendError> {
        let buf = self.reserve(pieces.iter().map(|p| p.len()).sum())?;
        let mut at = 0;
        for piece in pieces {
            self.write(buf, at, piece);
            at += piece.len();
        }
        self.commit(flow, buf, None)?;
        self.flush();
        Ok(())
    }

    /// Room for a message of `len` bytes in the shared memory, to build it in place with [`write`](Self::write).
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] while memory is short, [`SendError::TooLarge`] when it never suffices.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<SendBuf, SendError> {
        if len > self.send_books.largest().min(barewire_wire::msg::MESSAGE_LEN_MAX) as usize {
            return Err(SendError::TooLarge);
        }
        let free = self.sends_under_way < self.sends_max;
        match if free { self.send_books.alloc(len as u32) } else { None } {
            Some(offset) => Ok(SendBuf { owner: 0, offset, len: len as u32 }),
            None => {
                self.blocked = Blocked::Sends;
                Err(SendError::WouldBlock)
            }
        }
    }

    /// Writes bytes of a reserved message, from `at` within it. What lies beyond its end is not written; false then.
    #[inline]
    pub fn write(&mut self, buf: SendBuf, at: usize, bytes: &[u8]) -> bool {
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= buf.len as usize);
        fits && self.channel.send_memory().write(buf.offset as usize + at, bytes)
    }

    /// Queues a reserved message; [`flush`](Self::flush) lets the daemon see it. With a token (of up to 63 bits)
    /// [`Event::Delivered`] reports its fate.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when the ring is full, or too many messages are under way; the reservation is given back.
    #[inline]
    pub fn commit(&mut self, flow: FlowId, buf: SendBuf, token: Option<u64>) -> Result<(), SendError> {
        if self.sends_under_way >= self.sends_max {
            self.send_books.free(buf.offset);
            self.blocked = Blocked::Sends;
            return Err(SendError::WouldBlock);
        }
        let token = token.map_or(0, |t| t | WANTED);
        let request = Request::Send { flow: flow.to_raw(), offset: buf.offset, len: buf.len, token };
        self.submit(&request).inspect_err(|_| {
            self.send_books.free(buf.offset);
        })?;
        self.sends_under_way += 1;
        Ok(())
    }

    /// Gives a reservation back unsent.
    pub fn abandon(&mut self, buf: SendBuf) {
        self.send_books.free(buf.offset);
        if self.blocked == Blocked::Sends {
            self.blocked = Blocked::Over;
        }
    }

    /// Lets the daemon see what was queued, and wakes it if it sleeps. One system call at most.
    #[inline]
    pub fn flush(&mut self) {
        if !self.releases.is_empty() {
            self.submit_releases();
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
        if event.is_none() && self.blocked != Blocked::No && self.take_writable() {
            return Some(Event::Writable);
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
                    Event::Message(Inbound { flow: flow_of(flow), buf: RecvBuf { owner: 0, offset, len } })
                }
                Completion::Sent { flow, token, offset, delivered } => {
                    self.end_send(offset);
                    if token & WANTED == 0 {
                        continue;
                    }
                    Event::Delivered { flow: flow_of(flow), token: token & !WANTED, delivered }
                }
                Completion::SendRefused { flow, token, offset, .. } => {
                    // The flow had ended when the daemon looked: its `Closed` is here or on its way.
                    self.end_send(offset);
                    if token & WANTED == 0 {
                        continue;
                    }
                    Event::Delivered { flow: flow_of(flow), token: token & !WANTED, delivered: false }
                }
                Completion::Connected { token, flow, local, remote } => {
                    Event::Connected { flow: flow_of(flow), token, local, remote }
                }
                Completion::ConnectFailed { token, flow, reason } => {
                    let reason = ConnectFailure::from_code(reason).unwrap_or(ConnectFailure::Refused);
                    Event::ConnectFailed { flow: flow_of(flow), token, reason }
                }
                Completion::Accepted { token, flow, local, remote } => {
                    Event::Accepted { flow: flow_of(flow), token, local, remote }
                }
                Completion::Closed { flow, reason } => {
                    let reason = CloseReason::from_code(reason).unwrap_or(CloseReason::Reset);
                    Event::Closed { flow: flow_of(flow), reason }
                }
                Completion::Listening { token, udp_port } => Event::Listening { token, udp_port },
                Completion::ListenFailed { token, udp_port, .. } => Event::ListenFailed { token, udp_port },
                // Nobody asked for RDMA here.
                Completion::Connecting { .. } | Completion::Rdma(_) => continue,
            });
        }
    }

    /// The next thing that happened, waiting for it for up to `timeout` (`None`: for ever). `None` when the time was over.
    ///
    /// # Errors
    /// [`WaitError::DaemonGone`] once everything said before was handed out; a signal.
    pub fn wait_event(&mut self, timeout: Option<Duration>) -> Result<Option<Event>, WaitError> {
        self.flush();
        if let Some(event) = self.next_event() {
            return Ok(Some(event));
        }
        let start = barewire_engine::now();
        if self.spin > Duration::ZERO {
            let spin = self.spin.min(timeout.unwrap_or(Duration::MAX));
            loop {
                if let Some(event) = self.next_event() {
                    return Ok(Some(event));
                }
                if Duration::from(barewire_engine::now().since(start)) >= spin {
                    break;
                }
                std::thread::yield_now();
            }
        }
        loop {
            let left = timeout.map(|t| t.saturating_sub(barewire_engine::now().since(start).into()));
            let nap = self.nap(left);
            match self.channel.wait(nap)? {
                Wake::Gone => return Err(WaitError::DaemonGone),
                Wake::TimedOut if nap == left => return Ok(None),
                _ => {}
            }
            self.flush();
            // What woke us may be of no interest to the application (an acknowledgement).
            if let Some(event) = self.next_event() {
                return Ok(Some(event));
            }
            if left == Some(Duration::ZERO) {
                return Ok(None);
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
        self.flush();
        let ring_is_full = !self.releases.is_empty() || self.blocked == Blocked::Ring;
        self.queued.is_empty() && !ring_is_full && self.blocked != Blocked::Over && self.channel.arm()
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

    /// Copies bytes of a received message from `at` within it; says how many.
    #[inline]
    pub fn read_at(&self, message: &Inbound, at: usize, out: &mut [u8]) -> usize {
        let n = message.len().saturating_sub(at).min(out.len());
        let from = message.buf.offset as usize + at;
        if self.channel.recv_memory().read(from, &mut out[..n]) { n } else { 0 }
    }

    /// A received message as a vector.
    pub fn to_vec(&self, message: &Inbound) -> Vec<u8> {
        let mut bytes = vec![0; message.len()];
        let n = self.read(message, &mut bytes);
        bytes.truncate(n);
        bytes
    }

    /// Gives a received message back: its memory is free, its sender gets the credit. Seen by the daemon with the next
    /// [`flush`](Self::flush), send or wait.
    #[inline]
    pub fn release(&mut self, message: Inbound) {
        let request = Request::Release {
            flow: message.flow.to_raw(),
            offset: message.buf.offset,
            len: message.buf.len,
        };
        if !self.releases.is_empty() {
            self.submit_releases();
        }
        // Not `submit`: it is no refusal, so nobody has to hear of it.
        if !self.releases.is_empty() || !self.channel.submit(&request) {
            // To wait here could be for ever: the daemon may wait for completions to be taken. The room for these is
            // bounded by what the application was handed and has not released.
            self.channel.flush();
            self.releases.push_back(request);
            self.submit_releases();
        }
    }

    /// Closes a flow after everything sent on it was acknowledged; [`Event::Closed`] follows.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when the ring is full.
    pub fn close(&mut self, flow: FlowId) -> Result<(), SendError> {
        self.submit(&Request::Close { flow: flow.to_raw() })?;
        self.flush();
        Ok(())
    }

    /// Ends a flow at once.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] when the ring is full.
    pub fn reset(&mut self, flow: FlowId) -> Result<(), SendError> {
        self.submit(&Request::Reset { flow: flow.to_raw() })?;
        self.flush();
        Ok(())
    }
}
