//! The words of the verbs: what is posted, what comes back, what a queue pair can be told.

use std::ops::BitOr;

/// A protection domain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pd(pub(crate) u32);

/// A place in a store, and which of the objects that have had that place is meant: a handle that outlives its object meets
/// nobody.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Handle {
    pub slot: u32,
    pub generation: u32,
}

/// A completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CqId(pub(crate) Handle);

/// A shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SrqId(pub(crate) Handle);

/// A path to a peer: addresses and headers, shared by all that use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PathId(pub(crate) Handle);

/// A queue pair, by its 24-bit number. Numbers are counted up and come again only after all others: one that is no longer
/// alive is noticed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Qpn(pub(crate) u32);

impl Qpn {
    /// The number as it stands in packets.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// What may be done with memory, or over a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Access(pub(crate) u8);

impl Access {
    /// Reading, by this host only.
    pub const NONE: Access = Access(0);
    /// Writing by this host: receives, and what reads and atomics bring.
    pub const LOCAL_WRITE: Access = Access(1);
    /// RDMA writes by the peer.
    pub const REMOTE_WRITE: Access = Access(2);
    /// RDMA reads by the peer.
    pub const REMOTE_READ: Access = Access(4);
    /// Atomic operations by the peer.
    pub const REMOTE_ATOMIC: Access = Access(8);
    /// The peer may take the key back by a send with invalidate.
    pub const REMOTE_INVALIDATE: Access = Access(16);
    /// All that a peer can be allowed, and local writing.
    pub const ALL: Access = Access(31);

    /// Whether all of `other` is allowed.
    pub const fn has(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Access {
    type Output = Access;
    fn bitor(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }
}

/// Most elements of a scatter/gather list.
pub const SGE_MAX: usize = 4;
/// Most bytes of inline data.
pub const INLINE_MAX: usize = 64;

/// A piece of registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sge {
    /// Its address in the region's own space.
    pub addr: u64,
    /// Its bytes.
    pub len: u32,
    /// The region's local key.
    pub lkey: u32,
}

/// What a send request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the fields are those of the RETH and AtomicETH
pub enum SendOp {
    /// Sends to a receive request.
    Send,
    /// Sends with immediate data.
    SendImm(u32),
    /// Sends, and takes a key of the peer's back.
    SendInvalidate(u32),
    /// Writes to the peer's memory.
    Write { addr: u64, rkey: u32 },
    /// Writes, and completes a receive request with immediate data.
    WriteImm { addr: u64, rkey: u32, imm: u32 },
    /// Reads from the peer's memory.
    Read { addr: u64, rkey: u32 },
    /// Swaps 64 bits if they equal `compare`; the value before comes back.
    CompareSwap { addr: u64, rkey: u32, compare: u64, swap: u64 },
    /// Adds to 64 bits; the value before comes back.
    FetchAdd { addr: u64, rkey: u32, add: u64 },
}

/// The bytes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data<'a> {
    /// In registered memory, in up to [`SGE_MAX`] pieces.
    Sges(&'a [Sge]),
    /// Copied when posted, up to [`INLINE_MAX`] bytes; not for reads and atomics.
    Inline(&'a [u8]),
}

/// Where a datagram goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The way.
    pub path: PathId,
    /// The queue pair there.
    pub qpn: u32,
    /// The queue key it must have.
    pub qkey: u32,
}

/// A send request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// With which bytes.
    pub data: Data<'a>,
    /// Whether success makes a completion; failure always does.
    pub signaled: bool,
    /// Whether the peer is to be woken.
    pub solicited: bool,
    /// Whether to wait for all reads and atomics posted before.
    pub fence: bool,
    /// Where to, for a datagram queue pair.
    pub remote: Option<Remote>,
}

impl<'a> SendWr<'a> {
    /// A signaled request without further wishes.
    pub const fn new(wr_id: u64, op: SendOp, data: Data<'a>) -> SendWr<'a> {
        SendWr { wr_id, op, data, signaled: true, solicited: false, fence: false, remote: None }
    }
}

/// What a completion is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WcOpcode {
    /// A send.
    Send,
    /// A write.
    Write,
    /// A read.
    Read,
    /// A compare-and-swap.
    CompareSwap,
    /// A fetch-and-add.
    FetchAdd,
    /// A receive.
    Recv,
    /// A receive that a write with immediate data completed.
    RecvWriteImm,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WcStatus {
    /// Done.
    Success,
    /// A message longer than the receive request.
    LocalLength,
    /// A key or bounds of our own memory.
    LocalProtection,
    /// The queue pair went to the error state first.
    Flushed,
    /// The peer answered with something that fits no request.
    BadResponse,
    /// The peer found the request invalid.
    RemoteInvalidRequest,
    /// The peer's key, bounds or permissions refuse it.
    RemoteAccess,
    /// The peer failed.
    RemoteOperation,
    /// No answer.
    RetryExceeded,
    /// The peer never had a receive request.
    RnrRetryExceeded,
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wc {
    /// The request's own number.
    pub wr_id: u64,
    /// How it ended.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// Whose it was.
    pub qpn: Qpn,
    /// Bytes received, written by the peer, or read.
    pub len: u32,
    /// Immediate data received.
    pub imm: Option<u32>,
    /// A key of ours that the peer took back.
    pub invalidated: Option<u32>,
    /// Who sent it, for a datagram. The first [`GRH_LEN`] bytes of its buffer are the network header.
    pub src_qpn: u32,
}

/// Bytes in front of a received datagram: the IPv6 header, or 20 zeroes and the IPv4 header.
pub const GRH_LEN: usize = 40;

/// Path MTU: payload bytes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    M256 = 1,
    /// 512 bytes.
    M512 = 2,
    /// 1,024 bytes: the largest for Ethernet's usual 1,500.
    #[default]
    M1024 = 3,
    /// 2,048 bytes.
    M2048 = 4,
    /// 4,096 bytes.
    M4096 = 5,
}

impl Mtu {
    /// Bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u8
    }

    /// From the code of a REQ.
    pub const fn from_code(code: u8) -> Option<Mtu> {
        Some(match code {
            1 => Mtu::M256,
            2 => Mtu::M512,
            3 => Mtu::M1024,
            4 => Mtu::M2048,
            5 => Mtu::M4096,
            _ => return None,
        })
    }

    /// Bytes of headers allowed for around a path MTU in a packet: IPv6, UDP, BTH, the longest extended header, padding, ICRC.
    const OVERHEAD: usize = 80;
    /// Bytes of the largest packet with the smallest path MTU: no link that carries less is of use.
    pub const PACKET_MIN: usize = 256 + Mtu::OVERHEAD;

    /// The largest whose packets fit into frames with `eth_mtu` bytes behind the Ethernet header; `None` below
    /// [`PACKET_MIN`](Self::PACKET_MIN).
    pub const fn for_ethernet(eth_mtu: usize) -> Option<Mtu> {
        let mut code = 5;
        while code > 0 {
            if (128 << code) + Mtu::OVERHEAD <= eth_mtu {
                return Mtu::from_code(code);
            }
            code -= 1;
        }
        None
    }
}

/// The kind of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QpKind {
    /// Reliable connection.
    #[default]
    Rc,
    /// Unreliable datagram.
    Ud,
}

/// The state of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum QpState {
    /// New.
    #[default]
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Finishes what it began to send, begins nothing.
    Sqd,
    /// A datagram could not be sent; receives go on.
    Sqe,
    /// Dead: what was posted comes back flushed.
    Err,
}

/// What a queue pair is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpInit {
    /// Its protection domain.
    pub pd: Pd,
    /// Its kind.
    pub kind: QpKind,
    /// Where completions of send requests go.
    pub send_cq: CqId,
    /// Where completions of receive requests go.
    pub recv_cq: CqId,
    /// Receives from a shared queue instead of its own.
    pub srq: Option<SrqId>,
    /// Most send requests at once.
    pub send_max: u16,
    /// Most receive requests at once.
    pub recv_max: u16,
    /// What the peer may do.
    pub access: Access,
    /// The queue key, for datagrams.
    pub qkey: u32,
}

impl QpInit {
    /// A reliable connection with one completion queue for both directions and room for 128 requests each.
    pub const fn rc(pd: Pd, cq: CqId) -> QpInit {
        QpInit {
            pd,
            kind: QpKind::Rc,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            send_max: 128,
            recv_max: 128,
            access: Access::ALL,
            qkey: 0,
        }
    }
}

/// What a queue pair must know to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtrAttr {
    /// The way to the peer.
    pub path: PathId,
    /// The peer's queue pair, 24 bits.
    pub remote_qpn: u32,
    /// The sequence number that the peer starts with, 24 bits.
    pub rq_psn: u32,
    /// Path MTU.
    pub mtu: Mtu,
    /// Reads and atomics that are answered at once, at most [`READS_MAX`].
    pub responder_resources: u8,
    /// Code of the time that a receiver-not-ready NAK asks for, 0 to 31.
    pub min_rnr_timer: u8,
}

/// What a queue pair must know to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtsAttr {
    /// The sequence number that we start with, 24 bits.
    pub sq_psn: u32,
    /// Local ACK time-out T: 4.096 us * 2^code; 0 is never. The first wait for an acknowledgement lasts T, a second one in a
    /// row 2 T, all others 4 T: within the bounds of the specification, which lets each last from T to 4 T. (Unless
    /// [`Config::patience`](crate::Config::patience) lets them grow further.)
    pub timeout: u8,
    /// Retries without an answer, 0 to 7. When the last one is in vain, too, the queue pair is in error: with 7 after 27 T.
    pub retry_count: u8,
    /// Retries after receiver-not-ready, 0 to 7; 7 is for ever.
    pub rnr_retry_count: u8,
    /// Reads and atomics outstanding at once, at most [`READS_MAX`].
    pub initiator_depth: u8,
}

/// Most reads and atomics in flight on one queue pair in one direction.
pub const READS_MAX: u8 = 16;

/// What to make of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Modify {
    /// Back to the beginning; nothing posted completes.
    Reset,
    /// Receives may be posted.
    Init,
    /// Receive.
    Rtr(RtrAttr),
    /// Receive datagrams.
    RtrDatagram,
    /// Send.
    Rts(RtsAttr),
    /// Send datagrams, from this sequence number on; also out of the state `Sqe`.
    RtsDatagram(u32),
    /// Stop sending after what has begun; [`Event::Drained`](crate::Event) follows.
    Sqd,
    /// Go on sending after `Sqd`.
    Resume,
    /// Stop everything.
    Err,
}
