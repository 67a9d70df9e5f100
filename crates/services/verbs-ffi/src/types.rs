//! What crosses the border by value.

use crate::boundary::Failure;
use crate::error::BWV_ERR_INVALID;
use std::ffi::{c_int, c_void};
use std::net::IpAddr;

/// An application's device at the daemon. The pointer is a handle, not an address: never dereference it.
pub struct BwvContext {
    _opaque: [u8; 0],
}

/// Number of a protection domain. Numbers of objects are never 0, and mean nothing in another context.
pub type BwvPd = u32;
/// Number of a memory region.
pub type BwvMrId = u32;
/// Number of a completion queue.
pub type BwvCq = u32;
/// Number of a shared receive queue.
pub type BwvSrq = u32;
/// Number of a queue pair at the daemon; its number in packets is another.
pub type BwvQp = u32;
/// Number of a listener.
pub type BwvListener = u32;
/// Number of a connection, or of a wish for one.
pub type BwvConn = u32;

/// Writing by this host: receives, and what reads and atomics bring.
pub const BWV_ACCESS_LOCAL_WRITE: u32 = 1;
/// RDMA writes by the peer.
pub const BWV_ACCESS_REMOTE_WRITE: u32 = 2;
/// RDMA reads by the peer.
pub const BWV_ACCESS_REMOTE_READ: u32 = 4;
/// Atomic operations by the peer.
pub const BWV_ACCESS_REMOTE_ATOMIC: u32 = 8;
/// The peer may take the key back by a send with invalidate.
pub const BWV_ACCESS_REMOTE_INVALIDATE: u32 = 16;

/// An IP address.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BwvAddr {
    /// 4 or 6; 0: none.
    pub family: u32,
    /// Zero.
    pub reserved: u32,
    /// The address as on the wire: 4 bytes of IPv4 and 12 of zero, or 16 of IPv6.
    pub ip: [u8; 16],
}

impl BwvAddr {
    /// The address; `None` when it has no family, an error when the family is unknown.
    pub(crate) fn ip(&self) -> Result<Option<IpAddr>, Failure> {
        let [a, b, c, d, ..] = self.ip;
        match self.family {
            0 => Ok(None),
            4 => Ok(Some([a, b, c, d].into())),
            6 => Ok(Some(self.ip.into())),
            _ => Err(BWV_ERR_INVALID.into()),
        }
    }
}

impl From<IpAddr> for BwvAddr {
    fn from(ip: IpAddr) -> BwvAddr {
        let mut addr = BwvAddr::default();
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

/// What the daemon lets this application have.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BwvLimits {
    /// Largest path MTU, in bytes.
    pub mtu: u32,
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
    /// Zero.
    pub reserved: u32,
}

/// Registered memory. It lies in the channel that application and daemon share.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwvMr {
    /// Its number.
    pub id: BwvMrId,
    /// The key for our own requests.
    pub lkey: u32,
    /// The key to give to the peer.
    pub rkey: u32,
    /// Zero.
    pub reserved: u32,
    /// The address of its first byte, in requests and for peers. It is not an address of this process.
    pub addr: u64,
    /// Its bytes.
    pub len: u64,
    /// The memory itself, until bwv_dereg_mr or bwv_close. The device writes it while you look: what a completion has not told
    /// of may change, as with any RDMA memory.
    pub memory: *mut c_void,
}

/// A piece of registered memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwvSge {
    /// Its address in the region's own space: from the region's `addr` on.
    pub addr: u64,
    /// Its bytes.
    pub len: u32,
    /// The region's local key.
    pub lkey: u32,
}

/// What a queue pair is made with. It is a reliable connection.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwvQpAttr {
    /// Its protection domain.
    pub pd: BwvPd,
    /// Where completions of send requests go.
    pub send_cq: BwvCq,
    /// Where completions of receive requests go.
    pub recv_cq: BwvCq,
    /// Receives from a shared queue; 0: from its own.
    pub srq: BwvSrq,
    /// Most send requests at once.
    pub send_max: u16,
    /// Most receive requests at once.
    pub recv_max: u16,
    /// What the peer may do: BWV_ACCESS_...
    pub access: u32,
}

/// New. (States and what bwv_modify_qp leads to.)
pub const BWV_QP_RESET: u32 = 0;
/// Receives may be posted.
pub const BWV_QP_INIT: u32 = 1;
/// Ready to receive.
pub const BWV_QP_RTR: u32 = 2;
/// Ready to send.
pub const BWV_QP_RTS: u32 = 3;
/// Finishes what it began to send, begins nothing.
pub const BWV_QP_SQD: u32 = 4;
/// Dead: what was posted comes back flushed.
pub const BWV_QP_ERR: u32 = 6;
/// For bwv_modify_qp only: goes on after BWV_QP_SQD.
pub const BWV_QP_RESUME: u32 = 7;

/// A queue pair, looked at.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BwvQpView {
    /// BWV_QP_...
    pub state: u32,
    /// Its number in packets and completions.
    pub qpn: u32,
    /// The peer's, once known.
    pub remote_qpn: u32,
    /// The sequence number expected next from the peer.
    pub rq_psn: u32,
    /// The sequence number to be sent next.
    pub sq_psn: u32,
    /// Send requests without a completion.
    pub sends: u32,
    /// Receive requests of its own that wait.
    pub recvs: u32,
    /// Zero.
    pub reserved: u32,
}

/// Sends.
pub const BWV_OP_SEND: u32 = 1;
/// Sends with immediate data `imm`.
pub const BWV_OP_SEND_IMM: u32 = 2;
/// Sends, and takes the peer's key `rkey` back.
pub const BWV_OP_SEND_INVALIDATE: u32 = 3;
/// Writes to `remote_addr` with `rkey`.
pub const BWV_OP_WRITE: u32 = 4;
/// Writes, and completes a receive request with `imm`.
pub const BWV_OP_WRITE_IMM: u32 = 5;
/// Reads.
pub const BWV_OP_READ: u32 = 6;
/// Swaps 64 bits for `swap` if they equal `compare_add`; the value before comes to the piece of memory.
pub const BWV_OP_COMPARE_SWAP: u32 = 7;
/// Adds `compare_add` to 64 bits; the value before comes to the piece of memory.
pub const BWV_OP_FETCH_ADD: u32 = 8;

/// Success makes a completion; failure always does.
pub const BWV_SEND_SIGNALED: u32 = 1;
/// The peer is to be woken.
pub const BWV_SEND_SOLICITED: u32 = 2;
/// Waits for all reads and atomics posted before.
pub const BWV_SEND_FENCE: u32 = 4;
/// The bytes are `inline_data`, copied by the call, at most BWV_INLINE_MAX.
pub const BWV_SEND_INLINE: u32 = 8;

/// Most pieces of memory of one request.
pub const BWV_SGE_MAX: usize = 4;
/// Most bytes of inline data.
pub const BWV_INLINE_MAX: usize = 64;

/// A send request.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwvSendWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// BWV_OP_...
    pub opcode: u32,
    /// BWV_SEND_...
    pub flags: u32,
    /// Pieces of memory; may be null when there are none.
    pub sges: *const BwvSge,
    /// How many.
    pub sge_count: usize,
    /// Inline data, with BWV_SEND_INLINE.
    pub inline_data: *const c_void,
    /// Its bytes.
    pub inline_len: usize,
    /// The peer's memory.
    pub remote_addr: u64,
    /// The peer's key.
    pub rkey: u32,
    /// Immediate data.
    pub imm: u32,
    /// The first operand of an atomic.
    pub compare_add: u64,
    /// The second operand of a compare-and-swap.
    pub swap: u64,
}

/// Done.
pub const BWV_WC_SUCCESS: u32 = 0;
/// A message longer than the receive request.
pub const BWV_WC_LOCAL_LENGTH: u32 = 1;
/// A key or bounds of our own memory.
pub const BWV_WC_LOCAL_PROTECTION: u32 = 4;
/// The queue pair went to the error state first.
pub const BWV_WC_FLUSHED: u32 = 5;
/// The peer answered with something that fits no request.
pub const BWV_WC_BAD_RESPONSE: u32 = 7;
/// The peer found the request invalid.
pub const BWV_WC_REMOTE_INVALID_REQUEST: u32 = 9;
/// The peer's key, bounds or permissions refuse it.
pub const BWV_WC_REMOTE_ACCESS: u32 = 10;
/// The peer failed.
pub const BWV_WC_REMOTE_OPERATION: u32 = 11;
/// No answer.
pub const BWV_WC_RETRY_EXCEEDED: u32 = 12;
/// The peer never had a receive request.
pub const BWV_WC_RNR_RETRY_EXCEEDED: u32 = 13;
/// It was never begun: the daemon did not take it, and `refusal` says why.
pub const BWV_WC_REFUSED: u32 = 256;

/// A send.
pub const BWV_WC_SEND: u32 = 0;
/// A write.
pub const BWV_WC_WRITE: u32 = 1;
/// A read.
pub const BWV_WC_READ: u32 = 2;
/// A compare-and-swap.
pub const BWV_WC_COMPARE_SWAP: u32 = 3;
/// A fetch-and-add.
pub const BWV_WC_FETCH_ADD: u32 = 4;
/// A receive.
pub const BWV_WC_RECV: u32 = 128;
/// A receive that a write with immediate data completed.
pub const BWV_WC_RECV_WRITE_IMM: u32 = 129;

/// There is immediate data.
pub const BWV_WC_WITH_IMM: u32 = 1;
/// The peer took a key of ours back.
pub const BWV_WC_WITH_INVALIDATE: u32 = 2;

/// A completion.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BwvWc {
    /// The request's own number.
    pub wr_id: u64,
    /// BWV_WC_SUCCESS, or why not.
    pub status: u32,
    /// What it was: BWV_WC_SEND and those after it. Of a refused request only whether it was a send or a receive request.
    pub opcode: u32,
    /// Number of its queue pair in packets.
    pub qpn: u32,
    /// Bytes received, written by the peer, or read.
    pub len: u32,
    /// BWV_WC_WITH_...
    pub flags: u32,
    /// Immediate data.
    pub imm: u32,
    /// The key that was taken back.
    pub invalidated: u32,
    /// With BWV_WC_REFUSED: a BWV_ERR_... code.
    pub refusal: c_int,
}

/// Whom to connect with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwvConnectTo {
    /// The peer's address.
    pub remote: BwvAddr,
    /// Our address; family 0: the daemon chooses.
    pub local: BwvAddr,
    /// The service there; of a TCP port it is bwv_service_id.
    pub service_id: u64,
    /// Bytes for the peer's application; may be null when there are none.
    pub private_data: *const c_void,
    /// How many: up to 92, 56 when a port is asked for.
    pub private_len: usize,
    /// For a port: the port that we claim to come from.
    pub src_port: u16,
    /// Zero.
    pub reserved: u16,
    /// Path MTU in bytes; 0: the device's.
    pub mtu: u32,
}

/// A peer wants a connection: `conn`, `object` (the listener), `service_id`, `local`, `remote`, `remote_qpn`, private data.
pub const BWV_EVENT_CONNECT_REQUEST: u32 = 1;
/// A connection that was asked for is ready: `conn`, `qp`, private data.
pub const BWV_EVENT_CONNECTED: u32 = 2;
/// A connection that was accepted is ready: `conn`, `qp`.
pub const BWV_EVENT_ESTABLISHED: u32 = 3;
/// A connection will not be: `conn`, `qp` (0 for a wish that was taken back), `why` (BWV_ERR_...), `reason` of the peer's.
pub const BWV_EVENT_CONNECT_FAILED: u32 = 4;
/// A connection ended: `conn`, `qp`, `why` (BWV_ENDED_...).
pub const BWV_EVENT_DISCONNECTED: u32 = 5;
/// A queue pair died: `qp`, `why` (BWV_FAULT_...).
pub const BWV_EVENT_QP_ERROR: u32 = 6;
/// A queue pair in the state BWV_QP_SQD has finished what it had begun: `qp`.
pub const BWV_EVENT_DRAINED: u32 = 7;
/// A shared receive queue has few requests left: `object`.
pub const BWV_EVENT_SRQ_LOW: u32 = 8;
/// A completion queue was full and is in error for good: `object`. Its queue pairs die of it (BWV_FAULT_CQ).
pub const BWV_EVENT_CQ_OVERRUN: u32 = 9;
/// A receive request for a shared queue was refused: `object`, `wr_id`, `why` (BWV_ERR_...).
pub const BWV_EVENT_SRQ_POST_REFUSED: u32 = 10;

/// We asked, and the peer agreed.
pub const BWV_ENDED_LOCAL: c_int = 1;
/// The peer asked.
pub const BWV_ENDED_REMOTE: c_int = 2;
/// We asked, and the peer never answered.
pub const BWV_ENDED_TIMEOUT: c_int = 3;
/// The peer has forgotten it.
pub const BWV_ENDED_STALE: c_int = 4;

/// A send request failed; its completion says how.
pub const BWV_FAULT_SEND: c_int = 1;
/// A receive request failed: too short, or memory that may not be written.
pub const BWV_FAULT_RECEIVE: c_int = 2;
/// The peer asked for something that makes no sense here.
pub const BWV_FAULT_INVALID_REQUEST: c_int = 3;
/// The peer's key, bounds or permissions were wrong.
pub const BWV_FAULT_ACCESS: c_int = 4;
/// One of its completion queues has overrun.
pub const BWV_FAULT_CQ: c_int = 5;

/// Most bytes of private data.
pub const BWV_PRIVATE_MAX: usize = 224;

/// Something that happened. What its kind does not name is zero.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BwvEvent {
    /// BWV_EVENT_...; later releases may add kinds, so pass over those you do not know.
    pub kind: u32,
    /// Why, by kind.
    pub why: c_int,
    /// The peer's reason for a refusal.
    pub reason: u32,
    /// A connection.
    pub conn: BwvConn,
    /// A queue pair.
    pub qp: BwvQp,
    /// A listener, a shared receive queue or a completion queue.
    pub object: u32,
    /// The service id that a peer named.
    pub service_id: u64,
    /// A request's own number.
    pub wr_id: u64,
    /// Our address.
    pub local: BwvAddr,
    /// The peer's address.
    pub remote: BwvAddr,
    /// The peer's queue pair.
    pub remote_qpn: u32,
    /// Bytes of private data, without trailing zeros.
    pub private_len: u32,
    /// What the peer's application said.
    pub private_data: [u8; BWV_PRIVATE_MAX],
}

impl BwvEvent {
    pub(crate) fn new(kind: u32) -> BwvEvent {
        BwvEvent {
            kind,
            why: 0,
            reason: 0,
            conn: 0,
            qp: 0,
            object: 0,
            service_id: 0,
            wr_id: 0,
            local: BwvAddr::default(),
            remote: BwvAddr::default(),
            remote_qpn: 0,
            private_len: 0,
            private_data: [0; BWV_PRIVATE_MAX],
        }
    }
}
