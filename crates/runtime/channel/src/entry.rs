//! What goes through the rings: requests of the application, completions of the daemon, 64 bytes each. Those about RDMA
//! are in [`rdma`].
//!
//! ```text
//! word 0   bits 0-7 operation, 8 flag, 9-10 local family, 11-12 remote family (0 none, 1 IPv4, 2 IPv6),
//!          16-31 first short, 32-47 second short, the rest zero
//! word 1   flow
//! word 2   token
//! word 3   offset (low half) and length (high half); or the scopes of the local (low) and remote (high) address
//! word 4-5 local address: IPv4 in the low half of word 4; IPv6 the higher 64 bits, then the lower
//! word 6-7 remote address
//! ```
//!
//! Whatever an operation does not use is zero, and decoding checks that: so later versions can give it a meaning, and
//! there is one encoding of each entry. An IPv6 address travels with its scope but without its flow information, which
//! comes out as zero.

use crate::layout::ENTRY_WORDS;
use crate::rdma;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

const FLOW: usize = 1;
const TOKEN: usize = 2;
const BUFFER: usize = 3;
const LOCAL: usize = 4;
const REMOTE: usize = 6;

const FLAG: u64 = 1 << 8;
const LOCAL_FAMILY: u32 = 9;
const REMOTE_FAMILY: u32 = 11;

const CONNECT: u8 = 1;
const LISTEN: u8 = 2;
const UNLISTEN: u8 = 3;
const SEND: u8 = 4;
const RELEASE: u8 = 5;
const CLOSE: u8 = 6;
const RESET: u8 = 7;

const LISTENING: u8 = 0x81;
const LISTEN_FAILED: u8 = 0x82;
const CONNECTING: u8 = 0x83;
const CONNECTED: u8 = 0x84;
const CONNECT_FAILED: u8 = 0x85;
const ACCEPTED: u8 = 0x86;
const RECEIVED: u8 = 0x87;
const SENT: u8 = 0x88;
const SEND_REFUSED: u8 = 0x89;
const CLOSED: u8 = 0x8a;
const PEER: u8 = 0x8b;
/// Bytes that a name has in an entry.
pub const PEER_NAME_MAX: usize = 16;

/// Why the daemon did not take a message: the code of [`Completion::SendRefused`]. A reader takes a code that it does not know for
/// [`INVALID`](send_refusal::INVALID).
pub mod send_refusal {
    /// There is no such flow of this application's, or no longer.
    pub const NO_SUCH_FLOW: u16 = 1;
    /// The flow is closing.
    pub const CLOSING: u16 = 2;
    /// Longer than a message may be, or not in the send memory.
    pub const INVALID: u16 = 3;
}

/// Why nobody listens: the code of [`Completion::ListenFailed`].
pub mod listen_failure {
    /// No port that one can listen on.
    pub const BAD_PORT: u16 = 1;
    /// Somebody listens there already.
    pub const TAKEN: u16 = 2;
    /// The application's, or its user's, number of listeners.
    pub const LIMIT: u16 = 3;
    /// This user may not listen there.
    pub const NOT_PERMITTED: u16 = 4;
    /// The address is none of the daemon's.
    pub const NOT_OURS: u16 = 5;
}

/// An entry that the other side should not have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum BadEntry {
    /// No operation has this number, or none in this direction.
    #[error("entry with the unknown operation {0:#04x}")]
    UnknownOp(u8),
    /// The rest of the entry does not fit its operation.
    #[error("malformed entry of operation {0:#04x}")]
    Malformed(u8),
}

/// What an application asks of the daemon. Tokens are the application's and come back as they are; offsets and lengths
/// are in bytes, within the send memory (`Send`) or the receive memory (`Release`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Open a flow. Answered by `Connecting` and later `Connected`, or by `ConnectFailed`.
    Connect {
        /// Comes back with the answers.
        token: u64,
        /// Our address; `None`: the daemon chooses.
        local: Option<IpAddr>,
        /// Our UDP port; 0: the daemon chooses.
        local_udp_port: u16,
        /// Address and UDP port of the listener; a link-local IPv6 address with its scope, the index of the interface.
        remote: SocketAddr,
        /// Deliver messages in the order in which they were sent.
        ordered: bool,
    },
    /// Accept flows on a UDP port. Answered by `Listening` or `ListenFailed`.
    Listen {
        /// Comes back with the answer and with each `Accepted`.
        token: u64,
        /// The UDP port to listen on; an application listens on each once.
        udp_port: u16,
        /// Which of our addresses; `None`: all. With several ports it says on which.
        local: Option<IpAddr>,
    },
    /// Accept no more flows on a UDP port; those that exist stay.
    Unlisten {
        /// The UDP port of an earlier `Listen`.
        udp_port: u16,
    },
    /// Send a message. Its memory is the daemon's until `Sent` or `SendRefused`.
    Send {
        /// On which flow: the number that `Connecting` or `Accepted` gave.
        flow: u64,
        /// Where the message starts.
        offset: u32,
        /// Its length in bytes; 0 is a message, too.
        len: u32,
        /// Comes back with the answer.
        token: u64,
    },
    /// A received message was used: its memory is the daemon's again.
    Release {
        /// The flow it came on.
        flow: u64,
        /// As `Received` said.
        offset: u32,
        /// As `Received` said.
        len: u32,
    },
    /// Close a flow after everything sent was delivered. Answered by `Closed`.
    Close {
        /// A flow of this application's; another's is left alone, and counted.
        flow: u64,
    },
    /// End a flow at once. Answered by `Closed`.
    Reset {
        /// A flow of this application's; another's is left alone, and counted.
        flow: u64,
    },
    /// Something about RDMA.
    Rdma(rdma::Request),
}

/// What the daemon tells an application. Codes are named here; reasons are the transport's. A flow is known by the number that
/// `Connecting` or `Accepted` gave; `Closed` is the last that is said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Flows are accepted on the port.
    Listening {
        /// The request's.
        token: u64,
        /// The request's UDP port.
        udp_port: u16,
    },
    /// They are not.
    ListenFailed {
        /// The request's.
        token: u64,
        /// The request's UDP port.
        udp_port: u16,
        /// Why: one of [`listen_failure`].
        code: u16,
    },
    /// A connection is being made: the number its flow will have.
    Connecting {
        /// The request's.
        token: u64,
        /// The flow.
        flow: u64,
    },
    /// The flow is open.
    Connected {
        /// The request's.
        token: u64,
        /// The flow.
        flow: u64,
        /// Our end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
    },
    /// Who has proven to be at the other end of an encrypted flow; comes right before `Connected` or `Accepted`.
    Peer {
        /// The flow.
        flow: u64,
        /// What the daemon's configuration calls it, ended by zeros.
        name: [u8; PEER_NAME_MAX],
        /// Its public key.
        key: [u8; 32],
    },
    /// The flow will not open.
    ConnectFailed {
        /// The request's.
        token: u64,
        /// The flow; 0 when it never had a number.
        flow: u64,
        /// Why: the transport's `ConnectFailure` as a number.
        reason: u16,
    },
    /// Somebody connected to a listener.
    Accepted {
        /// The listener's.
        token: u64,
        /// The flow.
        flow: u64,
        /// Our end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
    },
    /// A message is here. Its memory is the application's until it sends `Release`.
    Received {
        /// The flow.
        flow: u64,
        /// Where it starts in the receive memory.
        offset: u32,
        /// Its length in bytes.
        len: u32,
    },
    /// The daemon is done with a message's memory.
    Sent {
        /// The flow.
        flow: u64,
        /// The request's.
        token: u64,
        /// As in `Send`.
        offset: u32,
        /// The peer has all of it; false: the flow ended first and its fate is unknown.
        delivered: bool,
    },
    /// The daemon did not take a message; its memory is the application's again.
    SendRefused {
        /// The flow.
        flow: u64,
        /// The request's.
        token: u64,
        /// As in `Send`.
        offset: u32,
        /// Why: one of [`send_refusal`].
        code: u16,
    },
    /// The flow has ended.
    Closed {
        /// The flow.
        flow: u64,
        /// Why: the transport's `CloseReason` as a number.
        reason: u16,
    },
    /// Something about RDMA.
    Rdma(rdma::Completion),
}

type Words = [u64; ENTRY_WORDS];

#[inline]
fn head(op: u8, flag: bool, first: u16, second: u16) -> u64 {
    u64::from(op) | if flag { FLAG } else { 0 } | u64::from(first) << 16 | u64::from(second) << 32
}

#[inline]
fn buffer(offset: u32, len: u32) -> u64 {
    u64::from(offset) | u64::from(len) << 32
}

fn put_ip(words: &mut Words, at: usize, family: u32, ip: IpAddr) {
    let (number, bits) = match ip {
        IpAddr::V4(ip) => (1, [u64::from(ip.to_bits()), 0]),
        IpAddr::V6(ip) => (2, [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64]),
    };
    words[0] |= number << family;
    words[at..at + 2].copy_from_slice(&bits);
}

fn scope(addr: SocketAddr) -> u32 {
    match addr {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(addr) => addr.scope_id(),
    }
}

fn put_addrs(words: &mut Words, local: SocketAddr, remote: SocketAddr) {
    put_ip(words, LOCAL, LOCAL_FAMILY, local.ip());
    put_ip(words, REMOTE, REMOTE_FAMILY, remote.ip());
    words[BUFFER] = buffer(scope(local), scope(remote));
}

/// Reads fields. It need not check that unused bits are zero: `decode` compares with what `encode` would have written.
struct Fields(Words);

impl Fields {
    #[inline]
    fn op(&self) -> u8 {
        self.0[0] as u8
    }

    #[inline]
    fn flag(&self) -> bool {
        self.0[0] & FLAG != 0
    }

    #[inline]
    fn first(&self) -> u16 {
        (self.0[0] >> 16) as u16
    }

    #[inline]
    fn second(&self) -> u16 {
        (self.0[0] >> 32) as u16
    }

    #[inline]
    fn flow(&self) -> u64 {
        self.0[FLOW]
    }

    #[inline]
    fn token(&self) -> u64 {
        self.0[TOKEN]
    }

    #[inline]
    fn low(&self) -> u32 {
        self.0[BUFFER] as u32
    }

    #[inline]
    fn high(&self) -> u32 {
        (self.0[BUFFER] >> 32) as u32
    }

    fn ip(&self, at: usize, family: u32) -> Result<Option<IpAddr>, BadEntry> {
        match self.0[0] >> family & 3 {
            0 => Ok(None),
            1 => Ok(Some(Ipv4Addr::from_bits(self.0[at] as u32).into())),
            2 => {
                let bits = u128::from(self.0[at]) << 64 | u128::from(self.0[at + 1]);
                Ok(Some(Ipv6Addr::from_bits(bits).into()))
            }
            _ => Err(BadEntry::Malformed(self.op())),
        }
    }

    fn addr(&self, at: usize, family: u32, udp_port: u16, scope: u32) -> Result<SocketAddr, BadEntry> {
        match self.ip(at, family)? {
            Some(IpAddr::V4(ip)) => Ok((ip, udp_port).into()),
            Some(IpAddr::V6(ip)) => Ok(SocketAddrV6::new(ip, udp_port, 0, scope).into()),
            None => Err(BadEntry::Malformed(self.op())),
        }
    }

    fn local(&self) -> Result<SocketAddr, BadEntry> {
        self.addr(LOCAL, LOCAL_FAMILY, self.first(), self.low())
    }

    fn remote(&self) -> Result<SocketAddr, BadEntry> {
        self.addr(REMOTE, REMOTE_FAMILY, self.second(), self.high())
    }
}

impl Request {
    /// The entry's words.
    #[inline]
    pub fn encode(&self) -> [u64; ENTRY_WORDS] {
        match *self {
            Request::Send { flow, offset, len, token } => {
                [head(SEND, false, 0, 0), flow, token, buffer(offset, len), 0, 0, 0, 0]
            }
            Request::Release { flow, offset, len } => {
                [head(RELEASE, false, 0, 0), flow, 0, buffer(offset, len), 0, 0, 0, 0]
            }
            Request::Rdma(ref request) => request.encode(),
            Request::Close { flow } => [head(CLOSE, false, 0, 0), flow, 0, 0, 0, 0, 0, 0],
            Request::Reset { flow } => [head(RESET, false, 0, 0), flow, 0, 0, 0, 0, 0, 0],
            Request::Unlisten { udp_port } => [head(UNLISTEN, false, udp_port, 0), 0, 0, 0, 0, 0, 0, 0],
            Request::Listen { token, udp_port, local } => {
                let mut words = [head(LISTEN, false, udp_port, 0), 0, token, 0, 0, 0, 0, 0];
                if let Some(ip) = local {
                    put_ip(&mut words, LOCAL, LOCAL_FAMILY, ip);
                }
                words
            }
            Request::Connect { token, local, local_udp_port, remote, ordered } => {
                let first = head(CONNECT, ordered, local_udp_port, remote.port());
                let mut words = [first, 0, token, buffer(0, scope(remote)), 0, 0, 0, 0];
                if let Some(ip) = local {
                    put_ip(&mut words, LOCAL, LOCAL_FAMILY, ip);
                }
                put_ip(&mut words, REMOTE, REMOTE_FAMILY, remote.ip());
                words
            }
        }
    }

    /// Reads an entry's words. Total: whatever they are, it is a request or an error.
    ///
    /// # Errors
    /// [`BadEntry`] when the words are not what [`encode`](Request::encode) writes.
    #[inline]
    pub fn decode(words: [u64; ENTRY_WORDS]) -> Result<Request, BadEntry> {
        let f = Fields(words);
        let (flow, token) = (f.flow(), f.token());
        let request = match f.op() {
            SEND => Request::Send { flow, offset: f.low(), len: f.high(), token },
            RELEASE => Request::Release { flow, offset: f.low(), len: f.high() },
            CLOSE => Request::Close { flow },
            RESET => Request::Reset { flow },
            UNLISTEN => Request::Unlisten { udp_port: f.first() },
            LISTEN => Request::Listen { token, udp_port: f.first(), local: f.ip(LOCAL, LOCAL_FAMILY)? },
            CONNECT => Request::Connect {
                token,
                local: f.ip(LOCAL, LOCAL_FAMILY)?,
                local_udp_port: f.first(),
                remote: f.remote()?,
                ordered: f.flag(),
            },
            rdma::QUERY..=rdma::FETCH_ADD => return rdma::Request::decode(words).map(Request::Rdma),
            op => return Err(BadEntry::UnknownOp(op)),
        };
        if request.encode() == words { Ok(request) } else { Err(BadEntry::Malformed(f.op())) }
    }
}

impl Completion {
    /// The entry's words.
    #[inline]
    pub fn encode(&self) -> [u64; ENTRY_WORDS] {
        match *self {
            Completion::Received { flow, offset, len } => {
                [head(RECEIVED, false, 0, 0), flow, 0, buffer(offset, len), 0, 0, 0, 0]
            }
            Completion::Sent { flow, token, offset, delivered } => {
                [head(SENT, delivered, 0, 0), flow, token, buffer(offset, 0), 0, 0, 0, 0]
            }
            Completion::SendRefused { flow, token, offset, code } => {
                [head(SEND_REFUSED, false, code, 0), flow, token, buffer(offset, 0), 0, 0, 0, 0]
            }
            Completion::Rdma(ref completion) => completion.encode(),
            Completion::Peer { flow, name, key } => {
                let mut words = [head(PEER, false, 0, 0), flow, 0, 0, 0, 0, 0, 0];
                for (word, bytes) in words[2..].iter_mut().zip(name.chunks(8).chain(key.chunks(8))) {
                    *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
                }
                words
            }
            Completion::Closed { flow, reason } => [head(CLOSED, false, reason, 0), flow, 0, 0, 0, 0, 0, 0],
            Completion::Listening { token, udp_port } => {
                [head(LISTENING, false, udp_port, 0), 0, token, 0, 0, 0, 0, 0]
            }
            Completion::ListenFailed { token, udp_port, code } => {
                [head(LISTEN_FAILED, false, udp_port, code), 0, token, 0, 0, 0, 0, 0]
            }
            Completion::Connecting { token, flow } => {
                [head(CONNECTING, false, 0, 0), flow, token, 0, 0, 0, 0, 0]
            }
            Completion::ConnectFailed { token, flow, reason } => {
                [head(CONNECT_FAILED, false, reason, 0), flow, token, 0, 0, 0, 0, 0]
            }
            Completion::Connected { token, flow, local, remote } => {
                let first = head(CONNECTED, false, local.port(), remote.port());
                let mut words = [first, flow, token, 0, 0, 0, 0, 0];
                put_addrs(&mut words, local, remote);
                words
            }
            Completion::Accepted { token, flow, local, remote } => {
                let first = head(ACCEPTED, false, local.port(), remote.port());
                let mut words = [first, flow, token, 0, 0, 0, 0, 0];
                put_addrs(&mut words, local, remote);
                words
            }
        }
    }

    /// Reads an entry's words. Total: whatever they are, it is a completion or an error.
    ///
    /// # Errors
    /// [`BadEntry`] when the words are not what [`encode`](Completion::encode) writes.
    #[inline]
    pub fn decode(words: [u64; ENTRY_WORDS]) -> Result<Completion, BadEntry> {
        let f = Fields(words);
        let (flow, token) = (f.flow(), f.token());
        let completion = match f.op() {
            RECEIVED => Completion::Received { flow, offset: f.low(), len: f.high() },
            SENT => Completion::Sent { flow, token, offset: f.low(), delivered: f.flag() },
            SEND_REFUSED => Completion::SendRefused { flow, token, offset: f.low(), code: f.first() },
            CLOSED => Completion::Closed { flow, reason: f.first() },
            LISTENING => Completion::Listening { token, udp_port: f.first() },
            LISTEN_FAILED => Completion::ListenFailed { token, udp_port: f.first(), code: f.second() },
            PEER => {
                let (mut name, mut key) = ([0; PEER_NAME_MAX], [0; 32]);
                for (bytes, word) in name.chunks_mut(8).chain(key.chunks_mut(8)).zip(&words[2..]) {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
                Completion::Peer { flow, name, key }
            }
            CONNECTING => Completion::Connecting { token, flow },
            CONNECT_FAILED => Completion::ConnectFailed { token, flow, reason: f.first() },
            CONNECTED => Completion::Connected { token, flow, local: f.local()?, remote: f.remote()? },
            ACCEPTED => Completion::Accepted { token, flow, local: f.local()?, remote: f.remote()? },
            rdma::DEVICE..=rdma::EVENT => return rdma::Completion::decode(words).map(Completion::Rdma),
            op => return Err(BadEntry::UnknownOp(op)),
        };
        if completion.encode() == words { Ok(completion) } else { Err(BadEntry::Malformed(f.op())) }
    }
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
