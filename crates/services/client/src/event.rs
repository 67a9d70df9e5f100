//! What an application is told, through the daemon or embedded alike.

use barewire_transport::security::PublicKey;
use barewire_transport::{CloseReason, ConnectFailure, FlowId};
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

/// Who is at the other end of an encrypted flow, as it has proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// What the configuration calls it; `self`: this host.
    pub name: String,
    /// Its public key.
    pub key: PublicKey,
}

/// A received message: where it is, and on which flow it came. Given back once: by `release`, or when it is dropped, which its
/// client or endpoint notices with its next flush, wait or poll.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a message that is dropped is gone"]
pub struct Inbound {
    /// Whose it is.
    pub(crate) home: u32,
    pub(crate) flow: FlowId,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

impl Inbound {
    /// The flow it came on; answers go back on the same one.
    pub fn flow(&self) -> FlowId {
        self.flow
    }

    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it is, for foreign interfaces: offset and length in bytes. A name for it, unlike that of any other message of its client or
    /// endpoint at the time.
    pub fn place(&self) -> (u32, u32) {
        (self.offset, self.len)
    }

    /// The message as numbers (flow, offset and length in bytes), for foreign interfaces: it is theirs to give back now.
    pub fn into_raw(self) -> (FlowId, u32, u32) {
        let raw = (self.flow, self.offset, self.len);
        std::mem::forget(self);
        raw
    }
}

/// Room for a message that is being built. Used up by `commit` or `abandon`; one that is dropped is given back, which its client
/// or endpoint notices with its next flush, wait or poll.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is dropped is given back unsent"]
pub struct SendBuf {
    /// Whose it is.
    pub(crate) home: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

impl SendBuf {
    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the message has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it starts in the memory to send from, in bytes: a name for it in foreign interfaces, unlike that of any other
    /// reservation of its client at the time.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// It is used up: where it was, and its length.
    pub(crate) fn into_parts(self) -> (u32, u32) {
        let parts = (self.offset, self.len);
        std::mem::forget(self);
        parts
    }
}

/// Names an attempt to connect, so that it can be cancelled. Never used for another attempt of the same client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectId(pub(crate) u64);

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
    /// There is room for what was refused with [`SendError::WouldBlock`](crate::SendError::WouldBlock), or its flow was closed or has ended,
    /// as the next try says. Once after a refusal, or several in a row, of a flow.
    Writable {
        /// The flow whose message was refused; `None`: what was refused named none (a reservation, a listener, a connection).
        flow: Option<FlowId>,
    },
    /// A [`Waker`](crate::Waker) was rung.
    Woken,
    /// A listener asked for is there.
    Listening {
        /// What the request was given.
        token: u64,
        /// Its UDP port.
        udp_port: u16,
    },
    /// A listener asked for is not: the port is zero or taken, or the user listens on as many as the daemon allows one.
    ListenFailed {
        /// What the request was given.
        token: u64,
        /// Its UDP port.
        udp_port: u16,
    },
    /// The daemon is gone, and the client looks for another ([`ClientConfig::reattach`](crate::ClientConfig::reattach)). All that the daemon
    /// had said came before; what was received can still be read until the daemon after the next is there. Next come
    /// [`Unconfirmed`](Event::Unconfirmed), one for each message of which nobody knows whether it arrived, then
    /// [`ConnectFailed`](Event::ConnectFailed) and [`Closed`](Event::Closed) for attempts and flows, and between them
    /// [`ListenFailed`](Event::ListenFailed) for a second one at a UDP port that was not answered.
    Detached {
        /// Flows that were there.
        flows: usize,
        /// Messages that may have arrived or not.
        unconfirmed: usize,
    },
    /// A message was sent, and the daemon went before it had said what became of it: here it is again. It may have arrived. In the order
    /// in which the messages were sent; there is no [`Delivered`](Event::Delivered) for it.
    Unconfirmed {
        /// The flow that it was sent on, which is no more.
        flow: FlowId,
        /// What it was given.
        token: Option<u64>,
        /// The message.
        bytes: Vec<u8>,
    },
    /// A daemon is there again. Ports that were listened on are asked for anew: [`Listening`](Event::Listening) or
    /// [`ListenFailed`](Event::ListenFailed) follow. Descriptors (`event_fd`), sleepers, reservations and the number are new; wakers stay.
    Reattached,
    /// A flow has ended.
    Closed {
        /// The flow.
        flow: FlowId,
        /// Why.
        reason: CloseReason,
    },
}
