//! RDMA through the daemon: several applications share its port, each seeing its own objects only.
//!
//! ```text
//! verbs --> ring of requests --> daemon
//! completion queues, events, answers <-- sorted here <-- ring of completions <-- daemon
//! registered memory: the channel's own, which application and daemon share
//! ```
//! Verbs that make, end or look at objects wait for the daemon's answer, a few microseconds while it polls. Posts do not: what
//! the daemon finds wrong with one is its completion. Polling calls never sleep; waiting calls take a time-out.
//!
//! ```no_run
//! use barewire_roce::{Access, Data, SendOp, SendWr};
//! use barewire_verbs::context::{ConnectTo, Context, QpAttr};
//! use std::time::Duration;
//!
//! let second = Duration::from_secs(1);
//! let mut context = Context::open("hello")?;
//! let (pd, cq) = (context.alloc_pd()?, context.create_cq(256)?);
//! let memory = context.reg_mr(pd, 4096, Access::ALL)?;
//! let qp = context.create_qp(&QpAttr::new(pd, cq))?;
//! context.connect(qp, &ConnectTo::new([10, 0, 0, 2].into(), 50), second)?;
//! memory.write(0, b"hello");
//! context.post_send(qp, &SendWr::new(1, SendOp::Send, Data::Sges(&[memory.sge(0, 5)])))?;
//! assert_eq!(context.wait_cq(cq, second)?.wr_id, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Through the daemon there are reliable connections only, made by the connection manager: no datagrams, and no queue pairs that
//! are connected by hand.

mod arena;
mod connect;
mod types;
mod verbs;

pub use self::types::{
    Conn, ConnRequest, ConnectTo, Connected, Cq, Event, Failure, Limits, Listener, Mr, NotConnected, Pd, Qp,
    QpAttr, QpView, Refusal, Srq, Wc,
};

use self::arena::Arena;
use self::types::Handle;
use barewire_base::Instant;
use barewire_channel::rdma::{self as entry, Stage, event};
use barewire_channel::{AppChannel, Attached, Completion, ControlConn, Geometry, Request, Wake, attach};
use barewire_roce::{ConnectFailure, Ended, Mtu, QpFault, QpState as State, RejReason, WcOpcode, WcStatus};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often a call that found the ring of requests full looks again: the daemon does not say when it has room.
const RING_CHECK: Duration = Duration::from_millis(1);

/// Polls in vain after which the doorbell is looked at: a daemon that was killed says nothing in the shared memory.
const LOOKS: u32 = 256;

/// Tells the contexts of a process apart, so that no object of one is taken for another's.
static NEXT_CONTEXT: AtomicU32 = AtomicU32::new(1);

/// How to open a context.
#[derive(Clone, Debug)]
pub struct ContextConfig {
    /// What to call this application in statistics.
    pub name: String,
    /// The daemon's control socket. Empty, as from [`new`](ContextConfig::new): the first of the default places where a daemon
    /// answers.
    pub socket: PathBuf,
    /// The channel to ask for; `None`: the daemon's default. Both of its memories are for registered regions.
    pub geometry: Option<Geometry>,
    /// How long verbs wait for the daemon's answer.
    pub timeout: Duration,
    /// How long waiting calls poll before they sleep. Polling answers sooner and keeps a core busy. Default: 0.
    pub spin: Duration,
}

impl ContextConfig {
    /// The default daemon, under this name.
    pub fn new(name: &str) -> ContextConfig {
        ContextConfig {
            name: name.to_owned(),
            socket: PathBuf::new(),
            geometry: None,
            timeout: Duration::from_secs(5),
            spin: Duration::ZERO,
        }
    }
}

/// Why a context could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// There is no daemon, or it does not admit this application.
    #[error(transparent)]
    Attach(#[from] barewire_channel::AttachError),
    /// It does no RDMA.
    #[error("the daemon does not serve RDMA: add [rdma] to its configuration")]
    NoRdma,
}

/// Why a call on a context did not do what it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// The daemon refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The object is another context's.
    #[error("the object belongs to another context")]
    WrongContext,
    /// The channel has no piece of memory left that is large enough.
    #[error("the channel has no {0} bytes of memory left in one piece: open the context with more")]
    NoMemory(usize),
    /// The ring of requests is full: poll, and try again.
    #[error("the ring of requests is full: poll, and try again")]
    Again,
    /// Too many pieces, too much inline data, or a datagram's address.
    #[error("no queue pair can have such a request")]
    Invalid,
    /// There is no way to the peer.
    #[error("no route to the peer, or no answer to ARP or neighbour discovery")]
    Unreachable,
    /// The peer refused the connection.
    #[error("the peer refused (reason {})", .0.0)]
    Rejected(RejReason),
    /// The peer does not answer the connection manager.
    #[error("the peer does not answer: is something listening there, and does UDP port 4791 get through?")]
    NoAnswer,
    /// The peer's terms cannot be held to.
    #[error("the peer's connection parameters are not supported")]
    BadReply,
    /// The connection has ended.
    #[error("the connection has ended")]
    Disconnected,
    /// A request failed.
    #[error("request {wr_id}: {failure}")]
    Failed {
        /// Its number.
        wr_id: u64,
        /// How.
        failure: Failure,
    },
    /// The time is over.
    #[error("timed out")]
    TimedOut,
    /// The daemon is gone: open a new context when it is back.
    #[error("the daemon is gone")]
    DaemonGone,
    /// A signal came, or the doorbell is bad.
    #[error("waiting for the daemon: {0}")]
    Wait(#[from] std::io::Error),
}

struct CqState {
    entries: usize,
    queue: VecDeque<Wc>,
    overrun: bool,
}

struct QpState {
    send_cq: u32,
    recv_cq: u32,
    qpn: u32,
}

/// One application's device at the daemon.
///
/// `Send`, so that it can move to the thread that uses it, and not `Sync`: one thread at a time. Dropping it ends everything made
/// with it: peers are told, and other applications notice nothing.
pub struct Context {
    channel: AppChannel,
    /// Open for as long as the application lives: its closing is how the daemon knows.
    _control: ControlConn,
    tag: u32,
    addresses: Vec<IpAddr>,
    number: u32,
    limits: Limits,
    timeout: Duration,
    spin: Duration,
    token: u64,
    /// The answer that is being waited for.
    answer: Option<entry::Completion>,
    cqs: HashMap<u32, CqState>,
    qps: HashMap<u32, QpState>,
    events: VecDeque<Event>,
    /// Private data of the event that follows.
    stage: Stage,
    /// Books of the send memory and of the receive memory.
    arenas: [Arena; 2],
    /// Polls in vain since the doorbell was looked at.
    looks: u32,
    /// Objects that were made after the call that asked for them had given up: to be ended.
    orphans: Vec<u32>,
    /// Queue pairs whose completion queue was left full: to be brought into the error state.
    dying: Vec<u32>,
}

impl Context {
    /// Attaches to the default daemon.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn open(name: &str) -> Result<Context, AttachError> {
        Context::open_with(&ContextConfig::new(name))
    }

    /// Attaches to a daemon.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn open_with(config: &ContextConfig) -> Result<Context, AttachError> {
        let Attached { channel, control, welcome } = attach(&config.socket, &config.name, config.geometry)?;
        let geometry = channel.geometry();
        let nothing = Limits {
            mtu: Mtu::M256,
            queue_pairs: 0,
            connections: 0,
            regions: 0,
            completion_queues: 0,
            requests: 0,
            completions: 0,
        };
        let mut context = Context {
            channel,
            _control: control,
            tag: NEXT_CONTEXT.fetch_add(1, Ordering::Relaxed),
            addresses: welcome.addresses,
            number: welcome.application,
            limits: nothing,
            timeout: config.timeout,
            spin: config.spin,
            token: 0,
            answer: None,
            cqs: HashMap::new(),
            qps: HashMap::new(),
            events: VecDeque::new(),
            stage: Stage::default(),
            arenas: [Arena::new(geometry.send_bytes), Arena::new(geometry.recv_bytes)],
            looks: 0,
            orphans: Vec::new(),
            dying: Vec::new(),
        };
        match context.ask(&[], |token| entry::Request::Query { token }) {
            Ok(entry::Completion::Device(d)) => {
                context.limits = Limits {
                    mtu: Mtu::from_code(d.mtu).ok_or(barewire_channel::AttachError::Protocol)?,
                    queue_pairs: d.queue_pairs,
                    connections: d.connections,
                    regions: d.regions,
                    completion_queues: d.cqs,
                    requests: d.requests,
                    completions: d.completions,
                };
                Ok(context)
            }
            Err(ContextError::Refused(Refusal::NoRdma)) => Err(AttachError::NoRdma),
            Err(ContextError::TimedOut) => Err(barewire_channel::AttachError::TimedOut.into()),
            Err(ContextError::Wait(e)) => Err(barewire_channel::AttachError::Wait(e).into()),
            _ => Err(barewire_channel::AttachError::Protocol.into()),
        }
    }

    /// The daemon's addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// This application's number at the daemon.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// What the daemon lets this application have.
    pub fn query_device(&self) -> Limits {
        self.limits
    }

    /// Whether the daemon is gone.
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// Readable when there may be a completion or an event: for an epoll of the application's own, between
    /// [`arm`](Self::arm) and [`disarm`](Self::disarm). Do not read it.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.channel.event_fd()
    }

    /// Call before sleeping on [`event_fd`](Self::event_fd). False when there is something already: do not sleep.
    pub fn arm(&mut self) -> bool {
        self.pump();
        self.events.is_empty() && self.cqs.values().all(|cq| cq.queue.is_empty()) && self.channel.arm()
    }

    /// Call after the sleep, then poll.
    pub fn disarm(&mut self) {
        self.channel.disarm();
    }

    // ---- The rings ----

    /// The number of an object, if it is this context's.
    #[inline]
    fn own(&self, handle: Handle) -> Result<u32, ContextError> {
        if handle.context == self.tag { Ok(handle.number) } else { Err(ContextError::WrongContext) }
    }

    fn handle(&self, number: u32) -> Handle {
        Handle { context: self.tag, number }
    }

    /// Puts a request behind the bytes staged for it. False: there is no room, and nothing was put.
    #[inline]
    fn submit(&mut self, staged: &[u8], request: entry::Request) -> bool {
        let pieces = staged.len().div_ceil(entry::STAGED_MAX);
        if !self.channel.has_room_for(pieces + 1) {
            return false;
        }
        // There is room for all.
        for piece in entry::Staged::pieces(staged) {
            let _ = self.channel.submit(&Request::Rdma(entry::Request::Stage(piece)));
        }
        self.channel.submit(&Request::Rdma(request))
    }

    /// Puts a post, without waiting.
    #[inline]
    fn post(&mut self, staged: &[u8], request: entry::Request) -> Result<(), ContextError> {
        if !self.submit(staged, request) {
            self.channel.flush();
            self.pump();
            if !self.submit(staged, request) {
                return Err(if self.is_closed() { ContextError::DaemonGone } else { ContextError::Again });
            }
        }
        self.channel.flush();
        Ok(())
    }

    /// Asks the daemon and waits for its answer.
    fn ask(
        &mut self,
        staged: &[u8],
        request: impl FnOnce(u64) -> entry::Request,
    ) -> Result<entry::Completion, ContextError> {
        if staged.len() > entry::STAGE_MAX {
            return Err(Refusal::PrivateData.into());
        }
        self.token += 1;
        let request = request(self.token);
        self.answer = None;
        let mut submitted = false;
        let answer = self.wait(self.timeout, |context| {
            if !submitted {
                submitted = context.submit(staged, request);
                context.channel.flush();
                if !submitted {
                    return Ok((None, true));
                }
                context.pump();
            }
            Ok((context.answer.take(), false))
        });
        if answer.is_err() {
            // Whatever comes yet is nobody's.
            self.token += 1;
        }
        match answer? {
            entry::Completion::Refused { code, what, limit, .. } => {
                Err(Refusal::from_code(code, what, limit).into())
            }
            answer => Ok(answer),
        }
    }

    /// As [`ask`](Self::ask), for an object: its number and its key.
    fn make(
        &mut self,
        staged: &[u8],
        request: impl FnOnce(u64) -> entry::Request,
    ) -> Result<(Handle, u32), ContextError> {
        match self.ask(staged, request)? {
            entry::Completion::Made { object, key, .. } => Ok((self.handle(object), key)),
            // A daemon gone mad.
            _ => Err(Refusal::Other(0).into()),
        }
    }

    /// As [`ask`](Self::ask), for what is answered by nothing but its being done.
    fn command(
        &mut self,
        staged: &[u8],
        request: impl FnOnce(u64) -> entry::Request,
    ) -> Result<(), ContextError> {
        self.ask(staged, request).map(|_| ())
    }

    /// Polls until `done` gives something; it also says whether it wants to be asked again soon.
    fn wait<T>(
        &mut self,
        timeout: Duration,
        mut done: impl FnMut(&mut Context) -> Result<(Option<T>, bool), ContextError>,
    ) -> Result<T, ContextError> {
        self.channel.flush();
        let start = barewire_engine::now();
        let end = start + timeout.into();
        let spin_end = start + self.spin.min(timeout).into();
        let mut gone = false;
        loop {
            self.pump();
            let (found, soon) = done(self)?;
            if let Some(found) = found {
                return Ok(found);
            }
            if gone {
                return Err(ContextError::DaemonGone);
            }
            let now = barewire_engine::now();
            if now >= end {
                return Err(ContextError::TimedOut);
            }
            if now < spin_end {
                std::thread::yield_now();
                continue;
            }
            gone = self.sleep(now, end, soon)?;
        }
    }

    /// Sleeps until the daemon rings. True: it is gone.
    fn sleep(&mut self, now: Instant, end: Instant, soon: bool) -> Result<bool, ContextError> {
        let left: Duration = end.since(now).into();
        let left = if soon { left.min(RING_CHECK) } else { left };
        match self.channel.wait(Some(left)) {
            Ok(wake) => Ok(wake == Wake::Gone),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Sorts what the daemon has said.
    #[inline]
    fn pump(&mut self) {
        while let Some(completion) = self.channel.next_completion() {
            // A completion that makes no sense comes from a daemon gone mad; messages nobody asked for.
            if let Ok(Completion::Rdma(completion)) = completion {
                self.record_completion(&completion);
            }
        }
        if !self.orphans.is_empty() {
            self.end_orphans();
        }
        if !self.dying.is_empty() {
            self.end_dying();
        }
    }

    #[cold]
    fn end_orphans(&mut self) {
        while let Some(&object) = self.orphans.last() {
            if !self.submit(&[], entry::Request::Destroy { token: 0, object }) {
                return;
            }
            self.orphans.pop();
        }
        self.channel.flush();
    }

    #[inline]
    fn record_completion(&mut self, completion: &entry::Completion) {
        match *completion {
            entry::Completion::Wc(ref wc) => {
                let result = match WcStatus::from_code(wc.status) {
                    Some(WcStatus::Success) => Ok(()),
                    Some(status) => Err(Failure::Failed(status)),
                    None => Err(Failure::Failed(WcStatus::BadResponse)),
                };
                let opcode = WcOpcode::from_code(wc.opcode).unwrap_or(WcOpcode::Send);
                let (imm, invalidated) = (wc.imm, wc.invalidated);
                let done = Wc { wr_id: wc.wr_id, result, opcode, qpn: wc.qpn, len: wc.len, imm, invalidated };
                self.complete(wc.cq, done);
            }
            entry::Completion::PostRefused { queue, wr_id, code, recv } => {
                let why = Refusal::from_code(code, 0, 0);
                match self.qps.get(&queue) {
                    Some(qp) => {
                        let opcode = if recv { WcOpcode::Recv } else { WcOpcode::Send };
                        let cq = if recv { qp.recv_cq } else { qp.send_cq };
                        let result = Err(Failure::Refused(why));
                        let qpn = qp.qpn;
                        self.complete(
                            cq,
                            Wc { wr_id, result, opcode, qpn, len: 0, imm: None, invalidated: None },
                        );
                    }
                    None if recv => {
                        let srq = Srq(self.handle(queue));
                        self.events.push_back(Event::SrqPostRefused { srq, wr_id, why });
                    }
                    None => {}
                }
            }
            entry::Completion::Stage(ref piece) => {
                let _ = self.stage.add(piece);
            }
            entry::Completion::Device(entry::Device { token, .. })
            | entry::Completion::Made { token, .. }
            | entry::Completion::Done { token }
            | entry::Completion::Refused { token, .. }
            | entry::Completion::Qp { token, .. } => {
                if token == self.token {
                    self.answer = Some(*completion);
                } else if let entry::Completion::Made { object, .. } = *completion {
                    self.orphans.push(object);
                }
            }
            entry::Completion::ConnectRequest { listener, conn, service_id, remote_qpn, local, remote } => {
                let request = ConnRequest {
                    conn: Conn(self.handle(conn)),
                    listener: Listener(self.handle(listener)),
                    service_id,
                    local,
                    remote,
                    remote_qpn,
                    private: self.stage.data().to_vec(),
                };
                self.stage.clear();
                self.events.push_back(Event::ConnectRequest(request));
            }
            entry::Completion::Event { kind, object, other, why, reason } => {
                let private = self.stage.data().to_vec();
                self.stage.clear();
                self.happened(kind, object, other, why, reason, private);
            }
        }
    }

    /// After a poll in vain: whether anything will ever come.
    #[inline]
    fn found_nothing(&mut self) -> Result<(), ContextError> {
        self.looks += 1;
        if self.looks >= LOOKS {
            self.looks = 0;
            self.channel.disarm();
        }
        // What it said before it closed may have come between the two looks: then the next poll finds it.
        if self.is_closed() && !self.channel.has_completion() {
            return Err(ContextError::DaemonGone);
        }
        Ok(())
    }

    #[inline]
    fn complete(&mut self, cq: u32, wc: Wc) {
        // One of a queue that was just ended is nobody's.
        let Some(state) = self.cqs.get_mut(&cq) else {
            return;
        };
        let full = state.queue.len() >= state.entries;
        // Kept all the same: the peer has been told that it arrived.
        state.queue.push_back(wc);
        if full && !std::mem::replace(&mut state.overrun, true) {
            self.overran(cq);
        }
    }

    /// The application took another queue's completions and left those of this one, which the daemon has handed over: the
    /// queue is in error as if it had overrun there, and its queue pairs are ended, so that no more comes than what is on its
    /// way.
    #[cold]
    fn overran(&mut self, cq: u32) {
        self.events.push_back(Event::CqOverrun(Cq(self.handle(cq))));
        let users = self.qps.iter().filter(|(_, qp)| qp.send_cq == cq || qp.recv_cq == cq);
        self.dying.extend(users.map(|(&number, _)| number));
    }

    /// Asks the daemon to end queue pairs whose completion queue was left full here.
    #[cold]
    fn end_dying(&mut self) {
        while let Some(&qp) = self.dying.last() {
            let to = State::Err.code();
            if self.qps.contains_key(&qp) {
                if !self.submit(&[], entry::Request::ModifyQp { token: 0, qp, to }) {
                    return;
                }
                let qp = Qp(self.handle(qp));
                self.events.push_back(Event::QpError(qp, QpFault::CompletionQueue));
            }
            self.dying.pop();
        }
        self.channel.flush();
    }

    fn happened(&mut self, kind: u8, object: u32, other: u32, why: u8, reason: u16, private: Vec<u8>) {
        let (first, second) = (self.handle(object), self.handle(other));
        let (conn, qp) = (Conn(first), Qp(second));
        // What concerns a queue pair that was ended meanwhile is nobody's.
        let about = if matches!(kind, event::QP_ERROR | event::DRAINED) { object } else { other };
        let is_queues = matches!(kind, event::SRQ_LOW | event::CQ_OVERRUN);
        if !is_queues && about != 0 && !self.qps.contains_key(&about) {
            return;
        }
        let event = match kind {
            event::CONNECTED => Event::Connected { conn, qp, private },
            event::ESTABLISHED => Event::Established { conn, qp },
            event::CONNECT_FAILED => {
                if other == 0 {
                    // A wish that was taken back before anybody had looked at it.
                    let before = self.events.len();
                    self.events
                        .retain(|e| !matches!(e, Event::ConnectRequest(request) if request.conn == conn));
                    if self.events.len() != before {
                        return;
                    }
                }
                let why = match why {
                    event::UNREACHABLE => NotConnected::Unreachable,
                    event::REFUSED => NotConnected::Refused(Refusal::from_code(reason, 0, 0)),
                    why => NotConnected::Peer(
                        ConnectFailure::from_code(why, reason).unwrap_or(ConnectFailure::BadReply),
                    ),
                };
                Event::ConnectFailed { conn, qp: (other != 0).then_some(qp), why }
            }
            event::DISCONNECTED => {
                Event::Disconnected { conn, qp, why: Ended::from_code(why).unwrap_or(Ended::Remote) }
            }
            event::QP_ERROR => {
                Event::QpError(Qp(first), QpFault::from_code(why).unwrap_or(QpFault::InvalidRequest))
            }
            event::DRAINED => Event::Drained(Qp(first)),
            event::SRQ_LOW => Event::SrqLow(Srq(first)),
            event::CQ_OVERRUN => Event::CqOverrun(Cq(first)),
            _ => return,
        };
        self.events.push_back(event);
    }
}
