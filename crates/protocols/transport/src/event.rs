//! What an endpoint tells its applications.

use crate::flow::FlowId;
use crate::memory::{RecvBuf, SendBuf};
use crate::security::PeerNumber;
use std::net::SocketAddr;

/// Why a flow ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u16)]
#[non_exhaustive]
pub enum CloseReason {
    /// This side closed it and everything sent was acknowledged.
    Local = 0,
    /// The peer closed it, after all it had sent.
    Peer = 1,
    /// The peer's application reset it or died.
    Reset = 2,
    /// The peer no longer knows the flow: its host or daemon restarted.
    PeerRestarted = 3,
    /// The peer answered nothing for longer than `dead_after`, or no sign-of-life question.
    TimedOut = 4,
    /// No message either way for longer than `idle_timeout`.
    Idle = 5,
    /// This side reset it.
    LocalReset = 6,
    /// A message was longer than its receiver's memory can ever hold.
    MessageTooLarge = 7,
    /// The peer broke the protocol: it ended its half with messages unfinished.
    PeerFault = 8,
    /// The peer began a message and did not go on with it, while others waited for the memory that it holds.
    Stalled = 9,
    /// The peer does not trust our key.
    NotTrusted = 10,
    /// More packets failed their authentication than the flow's keys bear.
    Forged = 11,
}

impl CloseReason {
    /// The reason with this number.
    pub fn from_code(code: u16) -> Option<CloseReason> {
        use CloseReason::*;
        [
            Local,
            Peer,
            Reset,
            PeerRestarted,
            TimedOut,
            Idle,
            LocalReset,
            MessageTooLarge,
            PeerFault,
            Stalled,
            NotTrusted,
            Forged,
        ]
        .into_iter()
        .find(|r| *r as u16 == code)
    }
}

impl std::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CloseReason::Local => "closed here",
            CloseReason::Peer => "closed by the peer",
            CloseReason::Reset => "reset by the peer",
            CloseReason::PeerRestarted => "the peer restarted",
            CloseReason::TimedOut => "the peer does not answer",
            CloseReason::Idle => "idle for too long",
            CloseReason::LocalReset => "reset here",
            CloseReason::MessageTooLarge => "a message is longer than its receiver's memory",
            CloseReason::PeerFault => "the peer broke the protocol",
            CloseReason::Stalled => "the peer left a message unfinished while others waited for its memory",
            CloseReason::NotTrusted => "the peer does not trust our key",
            CloseReason::Forged => "too many forged packets",
        })
    }
}

/// Why a connection could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u16)]
#[non_exhaustive]
pub enum ConnectFailure {
    /// Nobody listens on that UDP port there, or its host says that nothing serves it.
    Refused = 1,
    /// The other side has no room for another flow.
    TableFull = 2,
    /// No answer within `handshake_timeout`.
    TimedOut = 3,
    /// The next hop does not answer, or there is no route.
    Unreachable = 4,
    /// This side closed or reset the flow before it was open.
    Cancelled = 5,
    /// The other side takes encrypted flows only.
    SecurityRequired = 6,
    /// The other side does not trust our key, or not at our address.
    NotTrusted = 7,
    /// The other side has another key than the one that we trust for its address.
    WrongKey = 8,
    /// The other side does not encrypt, and we want that.
    Insecure = 9,
    /// We do not trust the other side's key, or not at its address.
    PeerNotTrusted = 10,
    /// This user may not connect there.
    NotPermitted = 11,
}

impl ConnectFailure {
    /// The failure with this number.
    pub fn from_code(code: u16) -> Option<ConnectFailure> {
        use ConnectFailure::*;
        [
            Refused,
            TableFull,
            TimedOut,
            Unreachable,
            Cancelled,
            SecurityRequired,
            NotTrusted,
            WrongKey,
            Insecure,
            PeerNotTrusted,
            NotPermitted,
        ]
        .into_iter()
        .find(|r| *r as u16 == code)
    }
}

impl std::fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ConnectFailure::Refused => "refused: nobody listens there",
            ConnectFailure::TableFull => "the other side has no room for another flow",
            ConnectFailure::TimedOut => "no answer",
            ConnectFailure::Unreachable => "the next hop does not answer, or there is no route",
            ConnectFailure::Cancelled => "given up here",
            ConnectFailure::SecurityRequired => "the other side takes encrypted flows only",
            ConnectFailure::NotTrusted => "the other side does not trust our key",
            ConnectFailure::WrongKey => "the other side has another key than the one trusted for its address",
            ConnectFailure::Insecure => "the other side does not encrypt",
            ConnectFailure::PeerNotTrusted => "the other side's key is not trusted here",
            ConnectFailure::NotPermitted => "this user may not connect there",
        })
    }
}

/// Something an application has to know. Every accepted message gets exactly one `Sent`, every flow that was announced
/// exactly one `Closed`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A flow asked for with `connect` is open.
    Connected {
        /// The flow.
        flow: FlowId,
        /// Its application.
        owner: u32,
        /// What `connect` was given.
        token: u64,
        /// Our end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
        /// Who it has proven to be, a number for [`Security::peer`](crate::security::Security::peer); `None`: the flow is plain.
        peer: Option<PeerNumber>,
    },
    /// A flow asked for with `connect` will not open.
    ConnectFailed {
        /// The flow that `connect` named.
        flow: FlowId,
        /// Its application.
        owner: u32,
        /// What `connect` was given.
        token: u64,
        /// Why.
        reason: ConnectFailure,
    },
    /// A client connected to a listener.
    Accepted {
        /// The flow.
        flow: FlowId,
        /// The listener's application.
        owner: u32,
        /// What `listen` was given.
        token: u64,
        /// Our end; its port is the listener's.
        local: SocketAddr,
        /// The client.
        remote: SocketAddr,
        /// Who it has proven to be, a number for [`Security::peer`](crate::security::Security::peer); `None`: the flow is plain.
        peer: Option<PeerNumber>,
    },
    /// A whole message is here. Its memory is the application's until it calls `release`.
    Received {
        /// The flow.
        flow: FlowId,
        /// Its application.
        owner: u32,
        /// Where the message is.
        buf: RecvBuf,
    },
    /// The transport is done with a message's memory.
    Sent {
        /// The flow.
        flow: FlowId,
        /// Its application.
        owner: u32,
        /// What `send` was given.
        buf: SendBuf,
        /// What `send` was given.
        token: u64,
        /// The peer's transport has all of it; false: the flow ended first and its fate is unknown.
        delivered: bool,
    },
    /// The flow has ended: nothing more will be received on it.
    Closed {
        /// The flow.
        flow: FlowId,
        /// Its application.
        owner: u32,
        /// Why.
        reason: CloseReason,
    },
}
