//! What crosses the border by value.

use barewire_client::{CloseReason, ConnectFailure, PeerIdentity};
use std::ffi::c_char;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};

/// A channel to the daemon. The pointer is a handle, not an address: never dereference it.
pub struct BwClient {
    _opaque: [u8; 0],
}

/// An endpoint in the program's own thread, without a daemon. The pointer is a handle, not an address: never dereference it.
pub struct BwEmbedded {
    _opaque: [u8; 0],
}

/// Number of a flow. Unique within a daemon's life; never used for another flow.
pub type BwFlow = u64;

/// An address and a UDP port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BwAddr {
    /// 4 or 6; 0: none.
    pub family: u8,
    /// Zero.
    pub reserved: u8,
    /// UDP port, in the byte order of the host.
    pub port: u16,
    /// Interface of a link-local IPv6 address, or 0.
    pub scope: u32,
    /// The address as on the wire: 4 bytes of IPv4 and 12 of zero, or 16 of IPv6.
    pub ip: [u8; 16],
}

impl BwAddr {
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self.family {
            4 => Some(<[u8; 4]>::try_from(&self.ip[..4]).ok()?.into()),
            6 => Some(self.ip.into()),
            _ => None,
        }
    }

    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        Some(match self.ip()? {
            IpAddr::V4(ip) => (ip, self.port).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, self.port, 0, self.scope).into(),
        })
    }
}

impl From<IpAddr> for BwAddr {
    fn from(ip: IpAddr) -> BwAddr {
        let mut addr = BwAddr::default();
        match ip {
            IpAddr::V4(ip) => {
                addr.family = 4;
                addr.ip[..4].copy_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                addr.family = 6;
                addr.ip = ip.octets();
            }
        }
        addr
    }
}

impl From<SocketAddr> for BwAddr {
    fn from(socket: SocketAddr) -> BwAddr {
        let scope = if let SocketAddr::V6(v6) = socket { v6.scope_id() } else { 0 };
        BwAddr { port: socket.port(), scope, ..socket.ip().into() }
    }
}

/// How to connect. All zero is the default.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BwConnectOptions {
    /// Our address and UDP port. Family 0: the address on the way to the peer. Port 0: an unused one.
    pub local: BwAddr,
    /// Not 0: messages may arrive in another order than sent, and one lost packet holds up one message only.
    pub unordered: u8,
    /// Zero.
    pub reserved: [u8; 7],
}

/// Size of a buffer that holds any peer's name with its final zero.
pub const BW_PEER_NAME_LEN: usize = 17;
/// Bytes of a public key.
pub const BW_KEY_LEN: usize = 32;

/// The authenticated peer of an encrypted flow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwIdentity {
    /// What the configuration calls it, ended by a zero byte; "self": this host.
    pub name: [c_char; BW_PEER_NAME_LEN],
    /// Its public key.
    pub key: [u8; BW_KEY_LEN],
}

impl From<&PeerIdentity> for BwIdentity {
    fn from(peer: &PeerIdentity) -> BwIdentity {
        let mut name = [0; BW_PEER_NAME_LEN];
        for (to, from) in name[..BW_PEER_NAME_LEN - 1].iter_mut().zip(peer.name.bytes()) {
            *to = from as c_char;
        }
        BwIdentity { name, key: *peer.key.as_bytes() }
    }
}

/// A piece of a message, laid out like `struct iovec` of POSIX.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwIovec {
    /// Its bytes; may be null when there are none.
    pub base: *const std::ffi::c_void,
    /// How many, in bytes.
    pub len: usize,
}

/// Offset of a message or buffer that was given back.
pub(crate) const NONE: u32 = u32::MAX;

/// Room for a message in the shared memory: a name for it, good for the client that reserved it and until it is used up.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwBuf {
    /// Where it is; for the library.
    pub offset: u32,
    /// Its length in bytes; not to be changed.
    pub len: u32,
}

/// A received message: a claim to a part of the shared memory. Only for the client that received it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwMessage {
    /// The flow it came on.
    pub flow: BwFlow,
    /// Where it is; for the library.
    pub offset: u32,
    /// Its length in bytes; not to be changed.
    pub len: u32,
}

/// A requested flow is open: `flow`, `token`, `local`, `remote`.
pub const BW_EVENT_CONNECTED: u32 = 1;
/// A requested flow did not open: `token`, `reason` (BW_CONNECT_...).
pub const BW_EVENT_CONNECT_FAILED: u32 = 2;
/// A peer connected to a listener: `flow`, `token` of the listener, `local`, `remote`.
pub const BW_EVENT_ACCEPTED: u32 = 3;
/// A message has arrived: `flow`, `message`. Read it, then release it.
pub const BW_EVENT_MESSAGE: u32 = 4;
/// The peer's transport has all of a message that was committed with a token: `flow`, `token`.
pub const BW_EVENT_DELIVERED: u32 = 5;
/// The flow ended before a message that was committed with a token had arrived: `flow`, `token`.
pub const BW_EVENT_UNDELIVERED: u32 = 6;
/// A listener is ready: `token`, `local.port`.
pub const BW_EVENT_LISTENING: u32 = 7;
/// A listener failed, because the port is taken or the user listens on as many as the daemon allows one: `token`,
/// `local.port`.
pub const BW_EVENT_LISTEN_FAILED: u32 = 8;
/// A flow has ended: `flow`, `reason` (BW_CLOSED_...).
pub const BW_EVENT_CLOSED: u32 = 9;
/// There is room for what was refused with BW_ERR_AGAIN, or its flow was closed or has ended, as the next try says: `flow`, or 0 when
/// what was refused named none (bw_reserve, bw_listen, bw_connect). Once after a refusal, or several in a row, of a flow.
pub const BW_EVENT_WRITABLE: u32 = 10;
/// bw_wake was called.
pub const BW_EVENT_WOKEN: u32 = 11;
/// A request, after bw_requests: `flow`, `token` (its number, for bw_respond and bw_fail), `reason` (microseconds until its
/// deadline when it was sent, 0: none, or later than 71 minutes), `message`, whose body begins at BW_REQUEST_HEAD. Release it.
pub const BW_EVENT_REQUEST: u32 = 12;
/// The response to a request: `flow`, `token` (what bw_request gave), `message`, whose body begins at BW_REQUEST_HEAD. Release it.
pub const BW_EVENT_RESPONSE: u32 = 13;
/// The server failed or refused: `flow`, `token`, `reason` (the server's code), `message`, whose text begins at BW_REQUEST_HEAD
/// and has no zero byte at its end. Release it.
pub const BW_EVENT_FAILURE: u32 = 14;
/// A request ended without an answer: `token`, `reason` (BW_UNANSWERED_...).
pub const BW_EVENT_UNANSWERED: u32 = 15;
/// The caller no longer waits for this request: `flow`, `token` (its number).
pub const BW_EVENT_REQUEST_CANCELLED: u32 = 16;

/// The daemon is gone, and this client, of bw_client_attach_steady, looks for another: `token` (messages of which nobody knows whether
/// they arrived), `reason` (flows that there were). BW_EVENT_UNCONFIRMED follows for each of those messages, then
/// BW_EVENT_CONNECT_FAILED and BW_EVENT_CLOSED for attempts and flows.
pub const BW_EVENT_DETACHED: u32 = 17;
/// The daemon went before it had said what became of a message: `flow`, `token` (what it was committed with, or 0), `reason` (its length in
/// bytes). bw_unconfirmed has the message until the next event. In the order in which messages were sent.
pub const BW_EVENT_UNCONFIRMED: u32 = 18;
/// A daemon is available again. BW_EVENT_LISTENING or BW_EVENT_LISTEN_FAILED follows for each port that was listened on. The descriptor of
/// bw_event_fd is another; earlier messages and buffers are no longer valid (BW_ERR_INVALID).
pub const BW_EVENT_REATTACHED: u32 = 19;

/// The deadline passed. The server was told to stop.
pub const BW_UNANSWERED_DEADLINE: u32 = 1;
/// The flow ended. Whether the server acted on the request is not known.
pub const BW_UNANSWERED_FLOW_ENDED: u32 = 2;

/// This side closed it, and everything sent was acknowledged.
pub const BW_CLOSED_LOCAL: u32 = 0;
/// The peer closed it, after all it had sent.
pub const BW_CLOSED_PEER: u32 = 1;
/// The peer's application reset it or died.
pub const BW_CLOSED_RESET: u32 = 2;
/// The peer's host or daemon restarted.
pub const BW_CLOSED_PEER_RESTARTED: u32 = 3;
/// The peer does not answer.
pub const BW_CLOSED_TIMED_OUT: u32 = 4;
/// Nothing was sent either way for too long.
pub const BW_CLOSED_IDLE: u32 = 5;
/// This side reset it.
pub const BW_CLOSED_LOCAL_RESET: u32 = 6;
/// A message was longer than its receiver's memory.
pub const BW_CLOSED_MESSAGE_TOO_LARGE: u32 = 7;
/// The peer broke the protocol.
pub const BW_CLOSED_PEER_FAULT: u32 = 8;
/// The peer left a message unfinished while others waited for its memory.
pub const BW_CLOSED_STALLED: u32 = 9;
/// The peer does not trust this host's key.
pub const BW_CLOSED_NOT_TRUSTED: u32 = 10;
/// More packets failed their authentication than the flow's keys bear.
pub const BW_CLOSED_FORGED: u32 = 11;

/// Nobody listens on that UDP port there.
pub const BW_CONNECT_REFUSED: u32 = 1;
/// One of the two sides has no room for another flow.
pub const BW_CONNECT_TABLE_FULL: u32 = 2;
/// No answer in time.
pub const BW_CONNECT_TIMED_OUT: u32 = 3;
/// The next hop does not answer, or there is no route.
pub const BW_CONNECT_UNREACHABLE: u32 = 4;
/// Given up by this side.
pub const BW_CONNECT_CANCELLED: u32 = 5;
/// The other side takes encrypted flows only.
pub const BW_CONNECT_SECURITY_REQUIRED: u32 = 6;
/// The other side does not trust this host's key.
pub const BW_CONNECT_NOT_TRUSTED: u32 = 7;
/// The other side has another key than the one that this host trusts for it.
pub const BW_CONNECT_WRONG_KEY: u32 = 8;
/// The other side does not encrypt, and this host wants that.
pub const BW_CONNECT_INSECURE: u32 = 9;
/// This host does not trust the other side's key.
pub const BW_CONNECT_PEER_NOT_TRUSTED: u32 = 10;
/// This user may not connect there.
pub const BW_CONNECT_NOT_PERMITTED: u32 = 11;

/// Something that happened. What its kind does not name is zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwEvent {
    /// BW_EVENT_...; later releases may add kinds, so pass over those you do not know.
    pub kind: u32,
    /// BW_CLOSED_..., BW_CONNECT_... or BW_UNANSWERED_..., by kind.
    pub reason: u32,
    /// The flow.
    pub flow: BwFlow,
    /// What the request was given.
    pub token: u64,
    /// A received message.
    pub message: BwMessage,
    /// Our end.
    pub local: BwAddr,
    /// The other end.
    pub remote: BwAddr,
}

impl BwEvent {
    pub(crate) fn new(kind: u32) -> BwEvent {
        BwEvent {
            kind,
            reason: 0,
            flow: 0,
            token: 0,
            message: BwMessage { flow: 0, offset: 0, len: 0 },
            local: BwAddr::default(),
            remote: BwAddr::default(),
        }
    }
}

/// The numbers are the ABI's own: those of the transport may change without it.
pub(crate) fn closed_code(reason: CloseReason) -> u32 {
    match reason {
        CloseReason::Local => BW_CLOSED_LOCAL,
        CloseReason::Peer => BW_CLOSED_PEER,
        CloseReason::PeerRestarted => BW_CLOSED_PEER_RESTARTED,
        CloseReason::TimedOut => BW_CLOSED_TIMED_OUT,
        CloseReason::Idle => BW_CLOSED_IDLE,
        CloseReason::LocalReset => BW_CLOSED_LOCAL_RESET,
        CloseReason::MessageTooLarge => BW_CLOSED_MESSAGE_TOO_LARGE,
        CloseReason::PeerFault => BW_CLOSED_PEER_FAULT,
        CloseReason::Stalled => BW_CLOSED_STALLED,
        CloseReason::NotTrusted => BW_CLOSED_NOT_TRUSTED,
        CloseReason::Forged => BW_CLOSED_FORGED,
        _ => BW_CLOSED_RESET,
    }
}

pub(crate) fn connect_code(failure: ConnectFailure) -> u32 {
    match failure {
        ConnectFailure::Refused => BW_CONNECT_REFUSED,
        ConnectFailure::TableFull => BW_CONNECT_TABLE_FULL,
        ConnectFailure::TimedOut => BW_CONNECT_TIMED_OUT,
        ConnectFailure::Unreachable => BW_CONNECT_UNREACHABLE,
        ConnectFailure::SecurityRequired => BW_CONNECT_SECURITY_REQUIRED,
        ConnectFailure::NotTrusted => BW_CONNECT_NOT_TRUSTED,
        ConnectFailure::WrongKey => BW_CONNECT_WRONG_KEY,
        ConnectFailure::Insecure => BW_CONNECT_INSECURE,
        ConnectFailure::PeerNotTrusted => BW_CONNECT_PEER_NOT_TRUSTED,
        ConnectFailure::NotPermitted => BW_CONNECT_NOT_PERMITTED,
        _ => BW_CONNECT_CANCELLED,
    }
}
