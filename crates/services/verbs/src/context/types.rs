//! What a context's calls take and give.

use super::{Context, ContextError};
use barewire_ring::Region;
use barewire_roce::{Access, ConnectFailure, Ended, Mtu, QpFault, QpState, Sge, WcOpcode, WcStatus};
use std::net::IpAddr;

/// An object of the daemon's: which context it belongs to, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Handle {
    pub context: u32,
    pub number: u32,
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
            pub struct $name(pub(super) Handle);

            impl $name {
                /// Its number at the daemon.
                pub const fn number(self) -> u32 {
                    self.0.number
                }

                /// The object with that number, for bindings that keep numbers: whether there is one is the daemon's to say.
                pub fn from_number(context: &Context, number: u32) -> $name {
                    $name(Handle { context: context.tag, number })
                }
            }
        )+
    };
}

handles! {
    /// A protection domain.
    Pd,
    /// A completion queue.
    Cq,
    /// A shared receive queue.
    Srq,
    /// A queue pair.
    Qp,
    /// A listener.
    Listener,
    /// A connection, or a wish for one.
    Conn,
}

/// Registered memory of the channel that application and daemon share. The device reads and writes it on peers' behalf until
/// [`Context::dereg_mr`](super::Context::dereg_mr). It may be read and written from any thread.
#[derive(Debug)]
pub struct Mr {
    pub(super) handle: Handle,
    pub(super) region: Region,
    pub(super) recv_memory: bool,
    pub(super) offset: u32,
    pub(super) key: u32,
    pub(super) base: u64,
}

impl Mr {
    /// Its number at the daemon.
    pub const fn number(&self) -> u32 {
        self.handle.number
    }

    /// The key for our own requests.
    pub fn lkey(&self) -> u32 {
        self.key
    }

    /// The key to give to the peer.
    pub fn rkey(&self) -> u32 {
        self.key
    }

    /// The address of its first byte, in requests and for peers.
    pub fn addr(&self) -> u64 {
        self.base
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.region.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.region.is_empty()
    }

    /// The memory itself, to share.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// A piece of it for a request.
    pub fn sge(&self, offset: usize, len: usize) -> Sge {
        Sge { addr: self.base + offset as u64, len: len as u32, lkey: self.key }
    }

    /// Writes bytes. False when they do not fit: then nothing is written.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        self.region.write(offset, bytes)
    }

    /// Copies bytes into `out`. False when they are not all there.
    pub fn read_into(&self, offset: usize, out: &mut [u8]) -> bool {
        self.region.read(offset, out)
    }

    /// Copies bytes out. Empty when they are not all there.
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        if self.region.read(offset, &mut out) { out } else { Vec::new() }
    }
}

/// What a queue pair is made with. It is a reliable connection.
#[derive(Clone, Copy, Debug)]
pub struct QpAttr {
    /// Its protection domain.
    pub pd: Pd,
    /// Where completions of send requests go.
    pub send_cq: Cq,
    /// Where completions of receive requests go.
    pub recv_cq: Cq,
    /// Receives from a shared queue instead of its own.
    pub srq: Option<Srq>,
    /// Most send requests at once.
    pub send_max: u16,
    /// Most receive requests at once.
    pub recv_max: u16,
    /// What the peer may do.
    pub access: Access,
}

impl QpAttr {
    /// One completion queue for both directions, room for 128 requests each, everything allowed.
    pub const fn new(pd: Pd, cq: Cq) -> QpAttr {
        QpAttr { pd, send_cq: cq, recv_cq: cq, srq: None, send_max: 128, recv_max: 128, access: Access::ALL }
    }
}

/// Whom to connect with.
#[derive(Clone, Copy, Debug)]
pub struct ConnectTo<'a> {
    /// The peer's address.
    pub remote: IpAddr,
    /// The service there; of a port it is [`service_id`](barewire_wire::roce::rdma_cm::service_id).
    pub service_id: u64,
    /// Our address; `None`: the daemon chooses.
    pub local: Option<IpAddr>,
    /// For a port: the port that we claim to come from.
    pub src_port: u16,
    /// Path MTU; `None`: the device's.
    pub mtu: Option<Mtu>,
    /// Up to 92 bytes for the peer's application, 56 when a port is asked for.
    pub private: &'a [u8],
}

impl<'a> ConnectTo<'a> {
    /// A service at an address, without private data.
    pub const fn new(remote: IpAddr, service_id: u64) -> ConnectTo<'a> {
        ConnectTo { remote, service_id, local: None, src_port: 0, mtu: None, private: &[] }
    }
}

/// What the daemon lets this application have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Largest path MTU.
    pub mtu: Mtu,
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Connections.
    pub connections: u32,
    /// Memory regions.
    pub regions: u32,
    /// Completion queues.
    pub completion_queues: u32,
    /// Requests that all queues have room for in each direction.
    pub requests: u32,
    /// Entries of all completion queues together.
    pub completions: u32,
}

/// A queue pair, looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpView {
    /// Its state.
    pub state: QpState,
    /// The peer's queue pair, once known.
    pub remote_qpn: u32,
    /// The sequence number expected next from the peer.
    pub rq_psn: u32,
    /// The sequence number to be sent next.
    pub sq_psn: u32,
    /// Send requests without a completion.
    pub sends: u32,
    /// Receive requests of its own that wait.
    pub recvs: u32,
}

/// Why a request did not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// It failed on the way, or was flushed.
    #[error("{0:?}")]
    Failed(WcStatus),
    /// It was never begun: the daemon did not take it.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wc {
    /// The request's own number.
    pub wr_id: u64,
    /// How it ended.
    pub result: Result<(), Failure>,
    /// What it was. Of a request that was refused only whether it was a send request (then `Send`) or a receive request.
    pub opcode: WcOpcode,
    /// Number of its queue pair, as in packets ([`Context::qpn`](super::Context::qpn)).
    pub qpn: u32,
    /// Bytes received, written by the peer, or read.
    pub len: u32,
    /// Immediate data received.
    pub imm: Option<u32>,
    /// A key of ours that the peer took back.
    pub invalidated: Option<u32>,
}

/// Why the daemon refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such object of this application's, or no longer.
    #[error("no such object, or it has been destroyed")]
    Unknown,
    /// Something still uses it.
    #[error("it is still in use")]
    Busy,
    /// A limit of the whole device.
    #[error("the daemon's device is full")]
    Limit,
    /// This application has as many as it may.
    #[error(
        "this application has as many as the daemon allows it: rdma.{what} = {limit} in its configuration"
    )]
    Quota {
        /// The key in the daemon's configuration.
        what: &'static str,
        /// Its value.
        limit: u32,
    },
    /// The queue has no room.
    #[error("the queue is full")]
    QueueFull,
    /// The object is in another state.
    #[error("not in this state")]
    State,
    /// A value is out of range.
    #[error("a value is out of range")]
    Invalid,
    /// The daemon does no RDMA.
    #[error("the daemon does not serve RDMA: add [rdma] to its configuration")]
    NoRdma,
    /// Somebody listens there already.
    #[error("another listener has that service id already")]
    InUse,
    /// More private data than the message carries.
    #[error("more private data than the message has room for")]
    PrivateData,
    /// The queue pair is not a new one.
    #[error("the queue pair is not a new one, or belongs to another connection")]
    QueuePair,
    /// The completion queue has overrun.
    #[error("the completion queue has lost completions: make a new one, and take completions in time")]
    CqError,
    /// The completion queue has fewer entries than the queue pair has receive requests, each of which makes a completion.
    #[error("the completion queue has fewer entries than the queue pair has room for receive requests")]
    CqTooSmall,
    /// The daemon's configuration does not let this user listen or connect there.
    #[error(
        "the daemon's configuration does not let this user listen or connect there (`[[security.user]]`)"
    )]
    NotPermitted,
    /// A reason that this library does not know.
    #[error("refused (code {0})")]
    Other(u16),
}

impl Refusal {
    pub(super) fn from_code(code: u16, what: u16, limit: u32) -> Refusal {
        use barewire_channel::rdma::{code as c, quota as q};
        match code {
            c::UNKNOWN => Refusal::Unknown,
            c::BUSY => Refusal::Busy,
            c::LIMIT => Refusal::Limit,
            c::QUOTA => {
                let what = match what {
                    q::DOMAINS => "domains",
                    q::REGIONS => "regions",
                    q::CQS => "completion_queues",
                    q::COMPLETIONS => "completions",
                    q::SRQS => "shared_receive_queues",
                    q::QUEUE_PAIRS => "queue_pairs",
                    q::REQUESTS => "requests",
                    q::LISTENERS => "listeners",
                    _ => "connections",
                };
                Refusal::Quota { what, limit }
            }
            c::QUEUE_FULL => Refusal::QueueFull,
            c::STATE => Refusal::State,
            c::INVALID => Refusal::Invalid,
            c::NO_RDMA => Refusal::NoRdma,
            c::IN_USE => Refusal::InUse,
            c::PRIVATE_DATA => Refusal::PrivateData,
            c::QUEUE_PAIR => Refusal::QueuePair,
            c::CQ_ERROR => Refusal::CqError,
            c::CQ_TOO_SMALL => Refusal::CqTooSmall,
            c::NOT_PERMITTED => Refusal::NotPermitted,
            other => Refusal::Other(other),
        }
    }
}

/// Why a connection did not come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotConnected {
    /// The peer refused, did not answer, or answered nonsense.
    Peer(ConnectFailure),
    /// There is no way to the peer, or its address does not resolve.
    Unreachable,
    /// The device refused to ask.
    Refused(Refusal),
}

impl From<NotConnected> for ContextError {
    fn from(why: NotConnected) -> ContextError {
        match why {
            NotConnected::Peer(ConnectFailure::Rejected(reason)) => ContextError::Rejected(reason),
            NotConnected::Peer(ConnectFailure::Timeout) => ContextError::NoAnswer,
            NotConnected::Peer(_) => ContextError::BadReply,
            NotConnected::Unreachable => ContextError::Unreachable,
            NotConnected::Refused(refusal) => refusal.into(),
        }
    }
}

/// A peer's wish for a connection: accept or reject it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnRequest {
    /// The connection.
    pub conn: Conn,
    /// Whom it wants.
    pub listener: Listener,
    /// The service id it named.
    pub service_id: u64,
    /// Our address.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// The peer's queue pair.
    pub remote_qpn: u32,
    /// What the peer's application said, without trailing zeros.
    pub private: Vec<u8>,
}

/// A connection that is ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Connected {
    /// The connection.
    pub conn: Conn,
    /// What the peer's application said when it agreed, without trailing zeros.
    pub private: Vec<u8>,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A peer wants a connection.
    ConnectRequest(ConnRequest),
    /// A connection that was asked for is ready.
    Connected {
        /// The connection.
        conn: Conn,
        /// Its queue pair.
        qp: Qp,
        /// What the peer's application said, without trailing zeros.
        private: Vec<u8>,
    },
    /// A connection that was accepted is ready.
    Established {
        /// The connection.
        conn: Conn,
        /// Its queue pair.
        qp: Qp,
    },
    /// A connection will not be. A queue pair that asked for it may ask again; one that accepted is dead.
    ConnectFailed {
        /// The connection, gone.
        conn: Conn,
        /// Its queue pair; `None` for a wish that was taken back.
        qp: Option<Qp>,
        /// Why.
        why: NotConnected,
    },
    /// A connection ended; its queue pair is dead.
    Disconnected {
        /// The connection, gone.
        conn: Conn,
        /// Its queue pair.
        qp: Qp,
        /// Why.
        why: Ended,
    },
    /// A queue pair died of something other than the application's own will.
    QpError(Qp, QpFault),
    /// A queue pair in the state `Sqd` has finished what it had begun.
    Drained(Qp),
    /// A shared receive queue has fewer requests than its limit.
    SrqLow(Srq),
    /// A completion queue was full and is in error for good: all that use it go to the error state, each with its own
    /// [`QpError`](Event::QpError). What it holds can be taken.
    CqOverrun(Cq),
    /// A receive request for a shared queue was refused.
    SrqPostRefused {
        /// The queue.
        srq: Srq,
        /// The request's own number.
        wr_id: u64,
        /// Why.
        why: Refusal,
    },
}

impl Event {
    /// The queue pair that it is about.
    pub fn qp(&self) -> Option<Qp> {
        match self {
            Event::Connected { qp, .. }
            | Event::Established { qp, .. }
            | Event::Disconnected { qp, .. }
            | Event::QpError(qp, _)
            | Event::Drained(qp) => Some(*qp),
            Event::ConnectFailed { qp, .. } => *qp,
            _ => None,
        }
    }
}
