//! What an endpoint has to tell.

use crate::{ConnId, CqId, ListenerId, Qpn, SrqId};
use barewire_wire::roce::cm::RejReason;

/// Why a queue pair is dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum QpFault {
    /// A send request failed; its completion says how.
    Send,
    /// A receive request failed: too short, or memory of ours that may not be written.
    Receive,
    /// The peer asked for something that makes no sense here.
    InvalidRequest,
    /// The peer's key, bounds or permissions were wrong.
    Access,
    /// One of its completion queues has overrun: what has completed can no longer be told.
    CompletionQueue,
}

/// Why a connection did not come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// The peer refused.
    Rejected(RejReason),
    /// The peer did not answer.
    Timeout,
    /// The peer's terms are none that we can hold to.
    BadReply,
}

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// We asked, and the peer agreed.
    Local,
    /// The peer asked.
    Remote,
    /// We asked, and the peer never answered.
    Timeout,
    /// The peer has forgotten it: its queue pair asked for a new connection.
    Stale,
}

/// What an endpoint has to tell. Private data that came with it is [`Endpoint::private_data`](crate::Endpoint::private_data),
/// until the next event is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A completion queue that was armed has something.
    CqReady(CqId),
    /// A completion was lost, because the queue was full. The queue is in error for good: what it holds can be taken, no
    /// queue pair can be made with it, and all that use it go to the error state, each with its own
    /// [`QpError`](Event::QpError). What is flushed then finds room there as far as it is taken in time.
    CqOverrun(CqId),
    /// A shared receive queue has fewer requests than its limit.
    SrqLow(SrqId),
    /// A queue pair died of something other than the application's own will.
    QpError(Qpn, QpFault),
    /// A queue pair in the state `Sqd` has finished what it had begun.
    Drained(Qpn),
    /// A peer wants a connection: accept or reject it.
    ConnectRequest {
        /// The connection.
        conn: ConnId,
        /// Whom it wants.
        listener: ListenerId,
        /// The service id it named.
        service_id: u64,
    },
    /// A connection that we asked for is ready.
    Connected {
        /// The connection.
        conn: ConnId,
        /// Its queue pair.
        qpn: Qpn,
    },
    /// A connection that we accepted is ready.
    Established {
        /// The connection.
        conn: ConnId,
        /// Its queue pair.
        qpn: Qpn,
    },
    /// A connection that we asked for or accepted will not be. Its queue pair is free again (asked), or dead (accepted).
    ConnectFailed {
        /// The connection, gone.
        conn: ConnId,
        /// Its queue pair.
        qpn: Qpn,
        /// Why.
        why: ConnectFailure,
    },
    /// A connection ended; its queue pair is in the error state.
    Disconnected {
        /// The connection, gone.
        conn: ConnId,
        /// Its queue pair.
        qpn: Qpn,
        /// Why.
        why: Ended,
    },
}
