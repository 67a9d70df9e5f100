//! A channel: a client of the daemon, and which four-tuple is which flow.

use barewire_client::{AttachError, Client, ConnectFailure, ConnectOptions, ConnectWaitError, Event};
use barewire_client::{FlowId, Inbound, SendBuf, SendError, WaitError};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Longest message, as in Machnet: 8 MiB.
pub const MESSAGE_MAX: usize = 8 << 20;
/// How long listening and connecting may take.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long a program that exits waits for what it sent.
pub const LINGER: Duration = Duration::from_secs(1);
/// How often a full channel is looked at again before a send gives up. Programs written for Machnet count a send that failed
/// as lost, and there is nothing else that they could do.
const SEND_TRIES: u32 = 64;
/// Looks in vain after which the doorbell is looked at: a daemon that was killed says nothing in the shared memory.
const LOOKS: u32 = 256;
/// While the program exits, how often is looked whether all has arrived.
const LINGER_SLICE: Duration = Duration::from_millis(2);

/// Machnet's `MachnetFlow`: a four-tuple in the byte order of the host.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Sender's IPv4 address.
    pub src_ip: u32,
    /// Receiver's IPv4 address.
    pub dst_ip: u32,
    /// Sender's UDP port.
    pub src_port: u16,
    /// Receiver's UDP port.
    pub dst_port: u16,
}

impl Flow {
    fn new(from: SocketAddr, to: SocketAddr) -> Option<Flow> {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (from.ip(), to.ip()) else {
            return None;
        };
        Some(Flow { src_ip: src.into(), dst_ip: dst.into(), src_port: from.port(), dst_port: to.port() })
    }

    fn swapped(self) -> Flow {
        Flow { src_ip: self.dst_ip, dst_ip: self.src_ip, src_port: self.dst_port, dst_port: self.src_port }
    }
}

/// A value of `errno`.
pub type Errno = i32;

fn send_errno(e: SendError) -> Errno {
    match e {
        SendError::WouldBlock => libc::EAGAIN,
        SendError::TooLarge => libc::EMSGSIZE,
        SendError::DaemonGone => libc::EPIPE,
        _ => libc::ENOTCONN,
    }
}

fn wait_errno(e: &WaitError) -> Errno {
    match e {
        WaitError::Io(e) => e.raw_os_error().unwrap_or(libc::EIO),
        _ => libc::EPIPE,
    }
}

/// One channel of the program.
pub struct Channel {
    client: Client,
    /// Flows by our end and the peer's, as a send names them.
    by_pair: HashMap<Flow, FlowId>,
    /// The reverse, as a received message names them: from the peer to us.
    by_id: HashMap<u64, Flow>,
    /// The flow last found each way: most programs have one.
    last_sent: Option<(Flow, FlowId)>,
    last_received: Option<(u64, Flow)>,
    /// Received, and not yet taken by the program.
    inbox: VecDeque<(Flow, Inbound)>,
    attempts: u64,
    /// What became of the attempt that is waited for.
    answer: Option<Result<Flow, ConnectFailure>>,
    looks: u32,
}

impl Channel {
    /// Attaches to the daemon.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach() -> Result<Channel, AttachError> {
        let program = std::env::current_exe().ok();
        let name = program.as_ref().and_then(|p| p.file_name()).map(|n| n.to_string_lossy());
        Ok(Channel {
            client: Client::attach(name.as_deref().unwrap_or("machnet"))?,
            by_pair: HashMap::new(),
            by_id: HashMap::new(),
            last_sent: None,
            last_received: None,
            inbox: VecDeque::with_capacity(256),
            attempts: 0,
            answer: None,
            looks: 0,
        })
    }

    /// Listens, and waits until it does.
    ///
    /// # Errors
    /// EADDRNOTAVAIL: not the daemon's address. EADDRINUSE: the port is zero or taken. ETIMEDOUT, EPIPE.
    pub fn listen(&mut self, local: Ipv4Addr, udp_port: u16) -> Result<(), Errno> {
        if !local.is_unspecified() && !self.client.addresses().contains(&local.into()) {
            return Err(libc::EADDRNOTAVAIL);
        }
        let listened = match local.is_unspecified() {
            true => self.client.listen_wait(udp_port, 0, PATIENCE),
            false => self.client.listen_on_wait(local.into(), udp_port, 0, PATIENCE),
        };
        listened.map_err(|e| match e {
            ConnectWaitError::Failed(_) => libc::EADDRINUSE,
            ConnectWaitError::WouldBlock => libc::EAGAIN,
            ConnectWaitError::Wait(e) => wait_errno(&e),
            _ => libc::ETIMEDOUT,
        })
    }

    /// Connects, and waits for it. An unspecified `local` leaves the choice to the daemon.
    ///
    /// # Errors
    /// ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ENOBUFS, EAGAIN, EPIPE.
    pub fn connect(&mut self, local: Ipv4Addr, remote: Ipv4Addr, udp_port: u16) -> Result<Flow, Errno> {
        // An answer to an earlier attempt, given up meanwhile, has another token.
        self.attempts += 1;
        self.answer = None;
        let options = ConnectOptions {
            local: (!local.is_unspecified()).then_some(local.into()),
            token: self.attempts,
            ..ConnectOptions::default()
        };
        self.client.connect((remote, udp_port).into(), &options).map_err(send_errno)?;
        let start = barewire_engine::now();
        let given_up = loop {
            let left = PATIENCE.saturating_sub(barewire_engine::now().since(start).into());
            match self.client.wait_event(Some(left)) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => break libc::ETIMEDOUT,
                Err(WaitError::Io(e)) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => break wait_errno(&e),
            }
            match self.answer.take() {
                Some(Ok(flow)) => return Ok(flow),
                Some(Err(why)) => {
                    break match why {
                        ConnectFailure::Refused => libc::ECONNREFUSED,
                        ConnectFailure::TableFull => libc::ENOBUFS,
                        ConnectFailure::TimedOut => libc::ETIMEDOUT,
                        _ => libc::EHOSTUNREACH,
                    };
                }
                None => {}
            }
        };
        self.attempts += 1;
        Err(given_up)
    }

    /// Takes in what has happened, up to the first message for the program.
    #[inline]
    fn pump(&mut self, to_first_message: bool) {
        while let Some(event) = self.client.next_event() {
            self.handle(event);
            if to_first_message && !self.inbox.is_empty() {
                return;
            }
        }
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Message(message) => {
                let id = message.flow().to_raw();
                let flow = match self.last_received {
                    Some((last, flow)) if last == id => Some(flow),
                    _ => self.by_id.get(&id).copied().inspect(|f| self.last_received = Some((id, *f))),
                };
                match flow {
                    // Machnet knows no empty message: 0 says that there is none.
                    Some(flow) if !message.is_empty() => self.inbox.push_back((flow, message)),
                    _ => self.client.release(message),
                }
            }
            Event::Accepted { flow, local, remote, .. } => self.note(flow, local, remote),
            Event::Connected { flow, token, local, remote } => {
                if token == self.attempts {
                    self.note(flow, local, remote);
                    self.answer = self.by_id.get(&flow.to_raw()).map(|f| Ok(f.swapped()));
                } else {
                    // Nobody waits for it any more.
                    let _ = self.client.reset(flow);
                }
            }
            Event::ConnectFailed { token, reason, .. } if token == self.attempts => {
                self.answer = Some(Err(reason))
            }
            Event::Closed { flow, .. } => {
                self.last_sent = None;
                self.last_received = None;
                if let Some(inward) = self.by_id.remove(&flow.to_raw())
                    // The peer may have connected again from the same port.
                    && self.by_pair.get(&inward.swapped()) == Some(&flow)
                {
                    self.by_pair.remove(&inward.swapped());
                }
            }
            _ => {}
        }
    }

    fn note(&mut self, id: FlowId, local: SocketAddr, remote: SocketAddr) {
        match Flow::new(local, remote) {
            Some(outward) => {
                self.last_sent = None;
                self.by_pair.insert(outward, id);
                self.by_id.insert(id.to_raw(), outward.swapped());
            }
            // Machnet has no name for a flow over IPv6.
            None => drop(self.client.reset(id)),
        }
    }

    /// Queues a message of `len` bytes, which `fill` writes; it may be called again when the channel was full. Not seen by the
    /// daemon before [`flush`](Self::flush).
    ///
    /// # Errors
    /// ENOTCONN: no such flow, or no longer. EAGAIN: full. EMSGSIZE: empty, or above [`MESSAGE_MAX`]. EINVAL: `fill` says no.
    /// EPIPE.
    pub fn send(
        &mut self,
        flow: Flow,
        len: usize,
        mut fill: impl FnMut(&mut Client, &SendBuf) -> bool,
    ) -> Result<(), Errno> {
        if len == 0 || len > MESSAGE_MAX {
            return Err(libc::EMSGSIZE);
        }
        // A program that only sends looks nowhere else: memory comes back, and flows end, here.
        self.pump(false);
        if self.client.is_closed() {
            return Err(libc::EPIPE);
        }
        let id = match self.last_sent {
            Some((last, id)) if last == flow => id,
            _ => {
                let id = *self.by_pair.get(&flow).ok_or(libc::ENOTCONN)?;
                self.last_sent = Some((flow, id));
                id
            }
        };
        let mut tries = 0;
        loop {
            let queued = match self.client.reserve(len) {
                Ok(buf) if fill(&mut self.client, &buf) => self.client.commit(id, buf, None),
                Ok(buf) => {
                    self.client.abandon(buf);
                    return Err(libc::EINVAL);
                }
                Err(e) => Err(e),
            };
            match queued {
                Ok(()) => return Ok(()),
                Err(SendError::WouldBlock) if tries < SEND_TRIES => {
                    tries += 1;
                    self.client.flush();
                    std::thread::yield_now();
                    self.pump(false);
                    if self.by_pair.get(&flow) != Some(&id) {
                        return Err(libc::ENOTCONN);
                    }
                }
                Err(e) => {
                    self.client.disarm();
                    return Err(if self.client.is_closed() { libc::EPIPE } else { send_errno(e) });
                }
            }
        }
    }

    /// Lets the daemon see what was queued.
    #[inline]
    pub fn flush(&mut self) {
        self.client.flush();
    }

    /// The next message for the program, which stays until [`take`](Self::take): its flow, from the peer to us, and its
    /// length in bytes.
    ///
    /// # Errors
    /// EPIPE: the daemon is gone, and all that it had delivered was taken.
    #[inline]
    pub fn front(&mut self) -> Result<Option<(Flow, usize)>, Errno> {
        if self.inbox.is_empty() {
            self.pump(true);
        }
        if let Some((flow, message)) = self.inbox.front() {
            self.looks = 0;
            return Ok(Some((*flow, message.len())));
        }
        // Messages given back must not wait for the next send: their senders may need the room.
        self.client.flush();
        self.looks += 1;
        if self.looks >= LOOKS {
            self.looks = 0;
            self.client.disarm();
        }
        if self.client.is_closed() {
            self.pump(true);
            return self.inbox.front().map(|(f, m)| Some((*f, m.len()))).ok_or(libc::EPIPE);
        }
        Ok(None)
    }

    /// Copies bytes of the front message from `at` within it; says how many.
    #[inline]
    pub fn read_front(&self, at: usize, out: &mut [u8]) -> usize {
        self.inbox.front().map_or(0, |(_, message)| self.client.read_at(message, at, out))
    }

    /// Done with the front message.
    #[inline]
    pub fn take(&mut self) {
        if let Some((_, message)) = self.inbox.pop_front() {
            self.client.release(message);
        }
    }

    /// Waits until the peers have what was sent, for up to `patience`. Messages that come meanwhile are dropped.
    pub fn linger(&mut self, patience: Duration) {
        let start = barewire_engine::now();
        self.client.flush();
        loop {
            self.pump(false);
            while !self.inbox.is_empty() {
                self.take();
            }
            let waited = Duration::from(barewire_engine::now().since(start));
            if self.client.sends_under_way() == 0 || waited >= patience {
                return;
            }
            // In slices: an acknowledgement alone does not end a wait.
            match self.client.wait_event(Some(LINGER_SLICE.min(patience - waited))) {
                Ok(Some(event)) => self.handle(event),
                Ok(None) => {}
                Err(WaitError::Io(e)) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}
