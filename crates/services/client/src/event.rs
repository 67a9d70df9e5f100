//! What an application is told, through the daemon or embedded alike.

use barewire_transport::{CloseReason, ConnectFailure, FlowId, RecvBuf};
use std::net::{IpAddr, SocketAddr};

/// How to connect.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Our address; default: the one on the way to the peer.
    pub local: Option<IpAddr>,
    /// Our UDP port; zero: an unused one.
    pub local_udp_port: u16,
    /// Messages arrive in the order sent. Without it, one lost packet holds up one message only.
    pub ordered: bool,
    /// Comes back with the events of the connection attempt.
    pub token: u64,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions { local: None, local_udp_port: 0, ordered: true, token: 0 }
    }
}

/// A received message: where it is, and on which flow it came. Not `Copy`: it is given back once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a message that is not released keeps its memory, and its sender without credit"]
pub struct Inbound {
    pub(crate) flow: FlowId,
    pub(crate) buf: RecvBuf,
}

impl Inbound {
    /// The flow it came on; answers go back on the same one.
    pub fn flow(&self) -> FlowId {
        self.flow
    }

    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.buf.len as usize
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.buf.len == 0
    }

    /// The message as numbers (flow, offset and length in bytes), for foreign interfaces.
    pub fn into_raw(self) -> (FlowId, u32, u32) {
        (self.flow, self.buf.offset, self.buf.len)
    }

    /// The message of a [`Client`](crate::Client) that [`into_raw`](Self::into_raw) took apart. Other numbers are safe there:
    /// what is read stays within the channel's memory, and the daemon checks what is released. No use with
    /// [`Embedded`](crate::Embedded).
    pub fn from_raw(flow: FlowId, offset: u32, len: u32) -> Inbound {
        Inbound { flow, buf: RecvBuf { owner: 0, offset, len } }
    }
}

/// Something that happened.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A flow asked for is open.
    Connected {
        /// The flow.
        flow: FlowId,
        /// What the request was given.
        token: u64,
        /// Our end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
    },
    /// A flow asked for will not open.
    ConnectFailed {
        /// The flow.
        flow: FlowId,
        /// What the request was given.
        token: u64,
        /// Why.
        reason: ConnectFailure,
    },
    /// A client connected to a listener of ours.
    Accepted {
        /// The flow.
        flow: FlowId,
        /// What the listener was given.
        token: u64,
        /// Our end.
        local: SocketAddr,
        /// The client.
        remote: SocketAddr,
    },
    /// A message is here.
    Message(Inbound),
    /// The fate of a message that was sent with a token.
    Delivered {
        /// The flow.
        flow: FlowId,
        /// What the message was given.
        token: u64,
        /// The peer's transport has all of it. False: the flow ended first.
        delivered: bool,
    },
    /// There may be room for a send that was refused with
    /// [`SendError::WouldBlock`](crate::SendError::WouldBlock). Once after each refusal.
    Writable,
    /// A listener asked for is there.
    Listening {
        /// What the request was given.
        token: u64,
        /// Its UDP port.
        udp_port: u16,
    },
    /// A listener asked for is not: the port is zero or taken.
    ListenFailed {
        /// What the request was given.
        token: u64,
        /// Its UDP port.
        udp_port: u16,
    },
    /// A flow has ended.
    Closed {
        /// The flow.
        flow: FlowId,
        /// Why.
        reason: CloseReason,
    },
}
