//! What goes through the rings about RDMA: verbs as requests, work completions and events, 64 bytes each.
//!
//! ```text
//! word 0   bits 0-7 operation, 8-15 flags, 16-31 short, 32-63 first number
//! word 1   second number (low half), third number (high half)
//! word 2   token, or the number of a work request
//! word 3   a wide number: address, service id, base
//! word 4-7 addresses as in the entries of messages; two pieces of memory; inline bytes; operands of atomics
//! ```
//! As in [`entry`](crate::entry), what an operation does not use is zero, and decoding checks that.
//!
//! A request with a token is answered with the same token, once; posts are answered by a work completion, or by a refusal that
//! names them. Objects are numbers that the daemon gives out, never zero. Numbers of kinds and states are those of
//! `barewire_roce`'s codes.
//!
//! What does not fit into one entry goes before it in [`Staged`] entries: private data, inline bytes above [`INLINE_MAX`],
//! lists of more than [`SGE_MAX`] pieces (16 bytes each: address, length, key, in the machine's byte order). The entry that
//! follows takes them all.

mod decode;

use crate::layout::ENTRY_WORDS;
use std::net::IpAddr;

/// Pieces of memory that fit into an entry.
pub const SGE_MAX: usize = 2;
/// Inline bytes that fit into an entry.
pub const INLINE_MAX: usize = 32;
/// Bytes that one staging entry carries.
pub const STAGED_MAX: usize = 48;
/// Bytes that may be staged for one entry: the longest private data.
pub const STAGE_MAX: usize = 224;

/// Why a request is refused.
pub mod code {
    /// There is no such object of this application's, or no longer.
    pub const UNKNOWN: u16 = 1;
    /// Something still uses it.
    pub const BUSY: u16 = 2;
    /// A limit of the whole device.
    pub const LIMIT: u16 = 3;
    /// A quota of this application: `what` names it, `limit` is its value.
    pub const QUOTA: u16 = 4;
    /// The queue has no room.
    pub const QUEUE_FULL: u16 = 5;
    /// The object is in another state.
    pub const STATE: u16 = 6;
    /// A value is out of range.
    pub const INVALID: u16 = 7;
    /// The daemon does no RDMA.
    pub const NO_RDMA: u16 = 8;
    /// Somebody listens there already.
    pub const IN_USE: u16 = 9;
    /// More private data than the message carries.
    pub const PRIVATE_DATA: u16 = 10;
    /// The queue pair is not a new one for reliable connections.
    pub const QUEUE_PAIR: u16 = 11;
    /// The completion queue has overrun.
    pub const CQ_ERROR: u16 = 12;
    /// The completion queue has fewer entries than the queue pair has receive requests.
    pub const CQ_TOO_SMALL: u16 = 13;
    /// The daemon's configuration does not let this user listen or connect there.
    pub const NOT_PERMITTED: u16 = 14;
}

/// Which quota a refusal is about.
pub mod quota {
    /// Protection domains.
    pub const DOMAINS: u16 = 1;
    /// Memory regions.
    pub const REGIONS: u16 = 2;
    /// Completion queues.
    pub const CQS: u16 = 3;
    /// Entries of all completion queues.
    pub const COMPLETIONS: u16 = 4;
    /// Shared receive queues.
    pub const SRQS: u16 = 5;
    /// Queue pairs.
    pub const QUEUE_PAIRS: u16 = 6;
    /// Requests that all queues have room for, in one direction.
    pub const REQUESTS: u16 = 7;
    /// Listeners.
    pub const LISTENERS: u16 = 8;
    /// Connections, and wishes for some that all listeners let wait.
    pub const CONNECTIONS: u16 = 9;
}

/// What an event is about.
pub mod event {
    /// A connection that was asked for is ready: connection, queue pair.
    pub const CONNECTED: u8 = 1;
    /// A connection that was accepted is ready: connection, queue pair.
    pub const ESTABLISHED: u8 = 2;
    /// A connection will not be: connection, queue pair (0 when it has none), why, reason of the peer's.
    pub const CONNECT_FAILED: u8 = 3;
    /// A connection has ended: connection, queue pair, why.
    pub const DISCONNECTED: u8 = 4;
    /// A queue pair died: queue pair, 0, what of.
    pub const QP_ERROR: u8 = 5;
    /// A queue pair has finished what it had begun: queue pair.
    pub const DRAINED: u8 = 6;
    /// A shared receive queue has few requests left: queue.
    pub const SRQ_LOW: u8 = 7;
    /// A completion queue had no room for a completion, which is lost: queue.
    pub const CQ_OVERRUN: u8 = 8;
    /// Highest of these numbers.
    pub const MAX: u8 = CQ_OVERRUN;

    /// Why a connection will not be, beside the numbers of `barewire_roce`: there is no way to the peer.
    pub const UNREACHABLE: u8 = 0x80;
    /// Likewise: the device refused to ask; the reason is one of [`code`](super::code).
    pub const REFUSED: u8 = 0x81;
}

/// A piece of registered memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// Its address in the region's own space.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u32,
    /// The region's local key.
    pub lkey: u32,
}

impl Sge {
    /// As staged.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.addr.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.lkey.to_ne_bytes());
        bytes
    }

    /// From what was staged.
    pub fn from_bytes(bytes: &[u8; 16]) -> Sge {
        let [a, b, c, d, e, f, g, h, l0, l1, l2, l3, k0, k1, k2, k3] = *bytes;
        Sge {
            addr: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            len: u32::from_ne_bytes([l0, l1, l2, l3]),
            lkey: u32::from_ne_bytes([k0, k1, k2, k3]),
        }
    }
}

/// Bytes for the entry that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// How many, at most [`STAGED_MAX`].
    pub len: u8,
    /// The bytes, zero behind them.
    pub bytes: [u8; STAGED_MAX],
}

impl Staged {
    /// The pieces that bytes are staged in.
    pub fn pieces(bytes: &[u8]) -> impl Iterator<Item = Staged> {
        bytes.chunks(STAGED_MAX).map(|chunk| {
            let mut piece = Staged { len: chunk.len() as u8, bytes: [0; STAGED_MAX] };
            piece.bytes[..chunk.len()].copy_from_slice(chunk);
            piece
        })
    }

    /// The bytes without what is behind them.
    pub fn data(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

/// Staged bytes until the entry comes that takes them.
#[derive(Clone, Debug)]
pub struct Stage {
    len: usize,
    bytes: [u8; STAGE_MAX],
}

impl Default for Stage {
    fn default() -> Stage {
        Stage { len: 0, bytes: [0; STAGE_MAX] }
    }
}

impl Stage {
    /// Adds a piece. False, and nothing added, above [`STAGE_MAX`] bytes.
    #[must_use]
    pub fn add(&mut self, piece: &Staged) -> bool {
        let data = piece.data();
        match self.bytes.get_mut(self.len..self.len + data.len()) {
            Some(room) => {
                room.copy_from_slice(data);
                self.len += data.len();
                true
            }
            None => false,
        }
    }

    /// What was staged.
    pub fn data(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Forgets it.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

/// The bytes of a send request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendData {
    /// In registered memory.
    Sges {
        /// How many pieces, at most [`SGE_MAX`].
        n: u8,
        /// The pieces, zero behind them.
        list: [Sge; SGE_MAX],
    },
    /// In the entry.
    Inline {
        /// How many, at most [`INLINE_MAX`].
        len: u8,
        /// The bytes, zero behind them.
        bytes: [u8; INLINE_MAX],
    },
    /// In registered memory, the list staged.
    StagedSges,
    /// Staged.
    StagedInline,
}

/// What a send request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are those of the RETH and AtomicETH
pub enum SendOp {
    /// Sends.
    Send(SendData),
    /// Sends with immediate data.
    SendImm { imm: u32, data: SendData },
    /// Sends, and takes a key of the peer's back.
    SendInvalidate { rkey: u32, data: SendData },
    /// Writes.
    Write { addr: u64, rkey: u32, data: SendData },
    /// Writes, and completes a receive request.
    WriteImm { addr: u64, rkey: u32, imm: u32, data: SendData },
    /// Reads. The list is not inline.
    Read { addr: u64, rkey: u32, data: SendData },
    /// Compares and swaps 64 bits.
    CompareSwap { addr: u64, rkey: u32, compare: u64, swap: u64, result: Sge },
    /// Adds to 64 bits.
    FetchAdd { addr: u64, rkey: u32, add: u64, result: Sge },
}

/// A send request, posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostSend {
    /// The queue pair.
    pub qp: u32,
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// Whether success makes a completion.
    pub signaled: bool,
    /// Whether the peer is to be woken.
    pub solicited: bool,
    /// Whether to wait for all reads and atomics posted before.
    pub fence: bool,
}

/// A receive request, posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostRecv {
    /// The queue pair, or the shared receive queue.
    pub queue: u32,
    /// Comes back in the completion.
    pub wr_id: u64,
    /// How many pieces, at most [`SGE_MAX`]; `None`: they are staged.
    pub n: Option<u8>,
    /// The pieces, zero behind them.
    pub list: [Sge; SGE_MAX],
}

/// What a queue pair is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateQp {
    /// The request's.
    pub token: u64,
    /// Its protection domain.
    pub pd: u32,
    /// Where completions of send requests go.
    pub send_cq: u32,
    /// Where completions of receive requests go.
    pub recv_cq: u32,
    /// A shared receive queue, or 0.
    pub srq: u32,
    /// Most send requests at once.
    pub send_max: u16,
    /// Most receive requests at once.
    pub recv_max: u16,
    /// What the peer may do.
    pub access: u8,
}

/// Whom to connect with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The request's.
    pub token: u64,
    /// A new queue pair.
    pub qp: u32,
    /// The service there.
    pub service_id: u64,
    /// For a port: the port that we claim to come from.
    pub src_port: u16,
    /// Code of the path MTU; 0: the device's.
    pub mtu: u8,
    /// How long the peer's address may take to resolve.
    pub timeout_ms: u32,
    /// Our address; `None`: the daemon chooses.
    pub local: Option<IpAddr>,
    /// The peer's address.
    pub remote: IpAddr,
}

/// What an application asks of the daemon's RDMA device. Private data of `Connect`, `Accept` and `Reject` is staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // tokens and objects; the rest is said
pub enum Request {
    /// What is there? Answered by `Device`.
    Query { token: u64 },
    /// Bytes for the request that follows.
    Stage(Staged),
    /// A protection domain. Answered by `Made`, as all that make objects are, or by `Refused`.
    AllocPd { token: u64 },
    /// Registers memory of the channel: of the receive memory, or else of the send memory; `offset` and `len` in bytes, under the
    /// addresses from `base` on.
    RegMr { token: u64, pd: u32, recv_memory: bool, offset: u32, len: u32, base: u64, access: u8 },
    /// A completion queue with room for `entries`.
    CreateCq { token: u64, entries: u32 },
    /// A shared receive queue with room for `limit` requests.
    CreateSrq { token: u64, pd: u32, limit: u32 },
    /// Asks for one event when fewer than `low` requests are left. Answered by `Done`, as all that follow are that say nothing else.
    ArmSrq { token: u64, srq: u32, low: u32 },
    /// A queue pair.
    CreateQp(CreateQp),
    /// Brings a queue pair into another state, by its code: see `barewire_roce`.
    ModifyQp { token: u64, qp: u32, to: u8 },
    /// What a queue pair does. Answered by `Qp`.
    QueryQp { token: u64, qp: u32 },
    /// Ends any object but a connection: a domain, a region, a queue, a queue pair, a listener.
    Destroy { token: u64, object: u32 },
    /// Listens on a service id.
    Listen { token: u64, service_id: u64, backlog: u32 },
    /// Asks for a connection. Answered by `Made`, and later by an event.
    Connect(Connect),
    /// Accepts a wish for a connection with a new queue pair. An event follows.
    Accept { token: u64, conn: u32, qp: u32 },
    /// Refuses it.
    Reject { token: u64, conn: u32, reason: u16 },
    /// Closes a connection. An event follows.
    Disconnect { token: u64, conn: u32 },
    /// Posts a send request.
    PostSend(PostSend),
    /// Posts a receive request.
    PostRecv(PostRecv),
}

impl Request {
    /// The answer that refuses it; `None` for what is not answered.
    pub fn refusal(&self, code: u16, what: u16, limit: u32) -> Option<Completion> {
        let token = match *self {
            Request::Stage(_) => return None,
            Request::PostSend(PostSend { qp: queue, wr_id, .. }) => {
                return Some(Completion::PostRefused { queue, wr_id, code, recv: false });
            }
            Request::PostRecv(PostRecv { queue, wr_id, .. }) => {
                return Some(Completion::PostRefused { queue, wr_id, code, recv: true });
            }
            Request::CreateQp(CreateQp { token, .. })
            | Request::Connect(Connect { token, .. })
            | Request::Query { token }
            | Request::AllocPd { token }
            | Request::RegMr { token, .. }
            | Request::CreateCq { token, .. }
            | Request::CreateSrq { token, .. }
            | Request::ArmSrq { token, .. }
            | Request::ModifyQp { token, .. }
            | Request::QueryQp { token, .. }
            | Request::Destroy { token, .. }
            | Request::Listen { token, .. }
            | Request::Accept { token, .. }
            | Request::Reject { token, .. }
            | Request::Disconnect { token, .. } => token,
        };
        Some(Completion::Refused { token, code, what, limit })
    }
}

/// What the device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The request's.
    pub token: u64,
    /// Code of the largest path MTU.
    pub mtu: u8,
    /// Queue pairs of this application, at most.
    pub queue_pairs: u32,
    /// Connections of this application, at most.
    pub connections: u32,
    /// Regions of this application, at most.
    pub regions: u32,
    /// Completion queues of this application, at most.
    pub cqs: u32,
    /// Requests that its queues have room for in each direction, at most.
    pub requests: u32,
    /// Entries of all its completion queues, at most.
    pub completions: u32,
}

/// A work completion. Numbers are those of `barewire_roce`'s codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    /// The completion queue.
    pub cq: u32,
    /// The request's own number.
    pub wr_id: u64,
    /// How it ended.
    pub status: u8,
    /// What it was.
    pub opcode: u8,
    /// Number of the queue pair, as in packets.
    pub qpn: u32,
    /// Bytes received, written by the peer, or read.
    pub len: u32,
    /// Immediate data received.
    pub imm: Option<u32>,
    /// A key of ours that the peer took back.
    pub invalidated: Option<u32>,
}

/// What the daemon tells an application about RDMA. Private data goes before the event, staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // tokens and objects; the rest is said
pub enum Completion {
    /// The answer to `Query`.
    Device(Device),
    /// Bytes for the completion that follows.
    Stage(Staged),
    /// An object was made: its number, and its key (a region) or its number in packets (a queue pair), or 0.
    Made { token: u64, object: u32, key: u32 },
    /// Done.
    Done { token: u64 },
    /// Not done: one of [`code`]; for a quota, which of [`quota`], and its value.
    Refused { token: u64, code: u16, what: u16, limit: u32 },
    /// A post was refused: on which queue, one of [`code`].
    PostRefused { queue: u32, wr_id: u64, code: u16, recv: bool },
    /// The answer to `QueryQp`.
    Qp { token: u64, state: u8, remote_qpn: u32, rq_psn: u32, sq_psn: u32, sends: u32, recvs: u32 },
    /// A work completion.
    Wc(Wc),
    /// A peer wants a connection.
    ConnectRequest {
        listener: u32,
        conn: u32,
        service_id: u64,
        remote_qpn: u32,
        local: IpAddr,
        remote: IpAddr,
    },
    /// Something happened: one of [`event`] to an object, with another, why, and a reason of the peer's.
    Event { kind: u8, object: u32, other: u32, why: u8, reason: u16 },
}

type Words = [u64; ENTRY_WORDS];

pub(crate) const QUERY: u8 = 0x40;
pub(crate) const STAGE: u8 = 0x41;
const ALLOC_PD: u8 = 0x42;
const REG_MR: u8 = 0x43;
const CREATE_CQ: u8 = 0x44;
const CREATE_SRQ: u8 = 0x45;
const ARM_SRQ: u8 = 0x46;
const CREATE_QP: u8 = 0x47;
const MODIFY_QP: u8 = 0x48;
const QUERY_QP: u8 = 0x49;
const DESTROY: u8 = 0x4a;
const LISTEN: u8 = 0x4b;
const CONNECT: u8 = 0x4c;
const ACCEPT: u8 = 0x4d;
const REJECT: u8 = 0x4e;
const DISCONNECT: u8 = 0x4f;
const POST_RECV: u8 = 0x50;
const SEND: u8 = 0x51;
const SEND_IMM: u8 = 0x52;
const SEND_INVALIDATE: u8 = 0x53;
const WRITE: u8 = 0x54;
const WRITE_IMM: u8 = 0x55;
const READ: u8 = 0x56;
const COMPARE_SWAP: u8 = 0x57;
pub(crate) const FETCH_ADD: u8 = 0x58;

pub(crate) const DEVICE: u8 = 0xc0;
const STAGE_BACK: u8 = 0xc1;
const MADE: u8 = 0xc2;
const DONE: u8 = 0xc3;
const REFUSED: u8 = 0xc4;
const POST_REFUSED: u8 = 0xc5;
const QP: u8 = 0xc6;
const WC: u8 = 0xc7;
const CONNECT_REQUEST: u8 = 0xc8;
pub(crate) const EVENT: u8 = 0xc9;

// Flags of word 0.
const ONE: u8 = 1;
const TWO: u8 = 2;
const FOUR: u8 = 4;
const INLINE: u8 = 8;
const STAGED: u8 = 16;
/// Families of addresses, two bits each: 0 none, 1 IPv4, 2 IPv6.
const LOCAL_FAMILY: u32 = 4;
const REMOTE_FAMILY: u32 = 6;

#[inline]
fn head(op: u8, flags: u8, short: u16, first: u32) -> u64 {
    u64::from(op) | u64::from(flags) << 8 | u64::from(short) << 16 | u64::from(first) << 32
}

#[inline]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn put_ip(words: &mut Words, at: usize, family: u32, ip: IpAddr) {
    let (number, bits) = match ip {
        IpAddr::V4(ip) => (1, [u64::from(ip.to_bits()), 0]),
        IpAddr::V6(ip) => (2, [(ip.to_bits() >> 64) as u64, ip.to_bits() as u64]),
    };
    words[0] |= number << (8 + family);
    words[at..at + 2].copy_from_slice(&bits);
}

#[inline]
fn sge_words(sge: &Sge) -> [u64; 2] {
    [sge.addr, pair(sge.len, sge.lkey)]
}

fn staged_words(op: u8, staged: &Staged) -> Words {
    let mut words = [head(op, staged.len, 0, 0), 0, 0, 0, 0, 0, 0, 0];
    // Behind `len` there are zeros, whatever the caller left there.
    let mut bytes = [0; STAGED_MAX];
    let data = staged.data();
    bytes[..data.len()].copy_from_slice(data);
    for (word, bytes) in words[2..].iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

fn list_words(n: u8, list: &[Sge; SGE_MAX]) -> [u64; 4] {
    let mut words = [0; 4];
    for (words, sge) in words.chunks_mut(2).zip(list).take(n.into()) {
        words.copy_from_slice(&sge_words(sge));
    }
    words
}

impl SendData {
    /// Flags, count, words 4 to 7.
    #[inline]
    fn words(&self) -> (u8, u8, [u64; 4]) {
        match self {
            SendData::Sges { n, list } => (0, *n, list_words(*n, list)),
            SendData::Inline { len, bytes } => {
                let mut whole = [0; INLINE_MAX];
                let n = usize::from(*len).min(INLINE_MAX);
                whole[..n].copy_from_slice(&bytes[..n]);
                let mut words = [0; 4];
                for (word, bytes) in words.iter_mut().zip(whole.as_chunks::<8>().0) {
                    *word = u64::from_ne_bytes(*bytes);
                }
                (INLINE, *len, words)
            }
            SendData::StagedSges => (STAGED, 0, [0; 4]),
            SendData::StagedInline => (STAGED | INLINE, 0, [0; 4]),
        }
    }
}

impl PostSend {
    #[inline]
    fn encode(&self) -> Words {
        let flags = if self.signaled { ONE } else { 0 }
            | if self.solicited { TWO } else { 0 }
            | if self.fence { FOUR } else { 0 };
        let plain = |op, imm, rkey, addr, data: &SendData| {
            let (more, n, [a, b, c, d]) = data.words();
            [head(op, flags | more, n.into(), imm), pair(self.qp, rkey), self.wr_id, addr, a, b, c, d]
        };
        let atomic = |op, rkey, addr, result: &Sge, first, second| {
            let [a, b] = sge_words(result);
            [head(op, flags, 0, 0), pair(self.qp, rkey), self.wr_id, addr, a, b, first, second]
        };
        match &self.op {
            SendOp::Send(data) => plain(SEND, 0, 0, 0, data),
            SendOp::SendImm { imm, data } => plain(SEND_IMM, *imm, 0, 0, data),
            SendOp::SendInvalidate { rkey, data } => plain(SEND_INVALIDATE, 0, *rkey, 0, data),
            SendOp::Write { addr, rkey, data } => plain(WRITE, 0, *rkey, *addr, data),
            SendOp::WriteImm { addr, rkey, imm, data } => plain(WRITE_IMM, *imm, *rkey, *addr, data),
            SendOp::Read { addr, rkey, data } => plain(READ, 0, *rkey, *addr, data),
            SendOp::CompareSwap { addr, rkey, compare, swap, result } => {
                atomic(COMPARE_SWAP, *rkey, *addr, result, *compare, *swap)
            }
            SendOp::FetchAdd { addr, rkey, add, result } => atomic(FETCH_ADD, *rkey, *addr, result, *add, 0),
        }
    }
}

impl Request {
    /// The entry's words.
    #[inline]
    pub fn encode(&self) -> [u64; ENTRY_WORDS] {
        let plain = |op, flags, first, second, third, token, wide| {
            [head(op, flags, 0, first), pair(second, third), token, wide, 0, 0, 0, 0]
        };
        match *self {
            Request::PostSend(ref post) => post.encode(),
            Request::PostRecv(PostRecv { queue, wr_id, n, ref list }) => {
                let (flags, n) = n.map_or((STAGED, 0), |n| (0, n));
                let [a, b, c, d] = list_words(n, list);
                [head(POST_RECV, flags, n.into(), queue), 0, wr_id, 0, a, b, c, d]
            }
            Request::Stage(ref staged) => staged_words(STAGE, staged),
            Request::Query { token } => plain(QUERY, 0, 0, 0, 0, token, 0),
            Request::AllocPd { token } => plain(ALLOC_PD, 0, 0, 0, 0, token, 0),
            Request::RegMr { token, pd, recv_memory, offset, len, base, access } => {
                let mut words = plain(REG_MR, access, pd, offset, len, token, base);
                words[0] |= u64::from(recv_memory) << 16;
                words
            }
            Request::CreateCq { token, entries } => plain(CREATE_CQ, 0, entries, 0, 0, token, 0),
            Request::CreateSrq { token, pd, limit } => plain(CREATE_SRQ, 0, pd, limit, 0, token, 0),
            Request::ArmSrq { token, srq, low } => plain(ARM_SRQ, 0, srq, low, 0, token, 0),
            Request::CreateQp(ref q) => {
                let maxima = pair(u32::from(q.send_max) | u32::from(q.recv_max) << 16, q.srq);
                plain(CREATE_QP, q.access, q.pd, q.send_cq, q.recv_cq, q.token, maxima)
            }
            Request::ModifyQp { token, qp, to } => plain(MODIFY_QP, to, qp, 0, 0, token, 0),
            Request::QueryQp { token, qp } => plain(QUERY_QP, 0, qp, 0, 0, token, 0),
            Request::Destroy { token, object } => plain(DESTROY, 0, object, 0, 0, token, 0),
            Request::Listen { token, service_id, backlog } => {
                plain(LISTEN, 0, backlog, 0, 0, token, service_id)
            }
            Request::Connect(ref c) => {
                let mut words =
                    plain(CONNECT, 0, c.qp, c.timeout_ms, u32::from(c.mtu), c.token, c.service_id);
                words[0] |= u64::from(c.src_port) << 16;
                if let Some(ip) = c.local {
                    put_ip(&mut words, 4, LOCAL_FAMILY, ip);
                }
                put_ip(&mut words, 6, REMOTE_FAMILY, c.remote);
                words
            }
            Request::Accept { token, conn, qp } => plain(ACCEPT, 0, conn, qp, 0, token, 0),
            Request::Reject { token, conn, reason } => plain(REJECT, 0, conn, u32::from(reason), 0, token, 0),
            Request::Disconnect { token, conn } => plain(DISCONNECT, 0, conn, 0, 0, token, 0),
        }
    }
}

impl Completion {
    /// The entry's words.
    #[inline]
    pub fn encode(&self) -> [u64; ENTRY_WORDS] {
        match *self {
            Completion::Wc(ref wc) => {
                let flags =
                    if wc.imm.is_some() { ONE } else { 0 } | if wc.invalidated.is_some() { TWO } else { 0 };
                let kinds = u16::from(wc.status) | u16::from(wc.opcode) << 8;
                let extra = pair(wc.imm.unwrap_or(0), wc.invalidated.unwrap_or(0));
                [head(WC, flags, kinds, wc.cq), pair(wc.qpn, wc.len), wc.wr_id, extra, 0, 0, 0, 0]
            }
            Completion::Stage(ref staged) => staged_words(STAGE_BACK, staged),
            Completion::Device(ref d) => [
                head(DEVICE, d.mtu, 0, d.queue_pairs),
                pair(d.connections, d.regions),
                d.token,
                pair(d.cqs, d.requests),
                u64::from(d.completions),
                0,
                0,
                0,
            ],
            Completion::Made { token, object, key } => {
                [head(MADE, 0, 0, object), u64::from(key), token, 0, 0, 0, 0, 0]
            }
            Completion::Done { token } => [head(DONE, 0, 0, 0), 0, token, 0, 0, 0, 0, 0],
            Completion::Refused { token, code, what, limit } => {
                [head(REFUSED, 0, code, limit), u64::from(what), token, 0, 0, 0, 0, 0]
            }
            Completion::PostRefused { queue, wr_id, code, recv } => {
                [head(POST_REFUSED, u8::from(recv), code, queue), 0, wr_id, 0, 0, 0, 0, 0]
            }
            Completion::Qp { token, state, remote_qpn, rq_psn, sq_psn, sends, recvs } => {
                [head(QP, state, 0, remote_qpn), pair(rq_psn, sq_psn), token, pair(sends, recvs), 0, 0, 0, 0]
            }
            Completion::ConnectRequest { listener, conn, service_id, remote_qpn, local, remote } => {
                let mut words = [
                    head(CONNECT_REQUEST, 0, 0, listener),
                    pair(conn, remote_qpn),
                    0,
                    service_id,
                    0,
                    0,
                    0,
                    0,
                ];
                put_ip(&mut words, 4, LOCAL_FAMILY, local);
                put_ip(&mut words, 6, REMOTE_FAMILY, remote);
                words
            }
            Completion::Event { kind, object, other, why, reason } => {
                let short = u16::from(kind) | u16::from(why) << 8;
                [head(EVENT, 0, short, object), pair(other, u32::from(reason)), 0, 0, 0, 0, 0, 0]
            }
        }
    }
}

#[cfg(test)]
mod tests;
