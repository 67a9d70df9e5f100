//! Numbers of helper functions (`enum bpf_func_id` of `linux/bpf.h`), and where programs find what in their context.
#![allow(missing_docs)]

pub const MAP_LOOKUP_ELEM: i32 = 1;
pub const MAP_UPDATE_ELEM: i32 = 2;
pub const MAP_DELETE_ELEM: i32 = 3;
pub const KTIME_GET_NS: i32 = 5;
pub const GET_PRANDOM_U32: i32 = 7;
pub const TAIL_CALL: i32 = 12;
pub const CLONE_REDIRECT: i32 = 13;
pub const REDIRECT: i32 = 23;
pub const SKB_CHANGE_TYPE: i32 = 32;
pub const SKB_PULL_DATA: i32 = 39;
pub const SKB_CHANGE_HEAD: i32 = 43;
pub const XDP_ADJUST_HEAD: i32 = 44;
pub const REDIRECT_MAP: i32 = 51;
pub const XDP_ADJUST_META: i32 = 54;
pub const XDP_ADJUST_TAIL: i32 = 65;
pub const SPIN_LOCK: i32 = 93;
pub const SPIN_UNLOCK: i32 = 94;
pub const RINGBUF_OUTPUT: i32 = 130;
pub const REDIRECT_PEER: i32 = 155;

/// Offsets in `struct xdp_md`, 32 bits each.
pub mod xdp {
    pub const DATA: i16 = 0;
    pub const DATA_END: i16 = 4;
    pub const DATA_META: i16 = 8;
    pub const INGRESS_IFINDEX: i16 = 12;
    pub const RX_QUEUE: i16 = 16;
    /// Verdicts.
    pub const ABORTED: i32 = 0;
    pub const DROP: i32 = 1;
    pub const PASS: i32 = 2;
    pub const TX: i32 = 3;
    pub const REDIRECT: i32 = 4;
    /// Flag of [`super::REDIRECT_MAP`]: to all interfaces of the map (kernel 5.13).
    pub const BROADCAST: i32 = 1 << 3;
    /// With it: but not to the one that the packet came in by.
    pub const EXCLUDE_INGRESS: i32 = 1 << 4;
}

/// Offsets in `struct __sk_buff`, 32 bits each.
pub mod skb {
    pub const LEN: i16 = 0;
    pub const PKT_TYPE: i16 = 4;
    pub const MARK: i16 = 8;
    /// The EtherType, as it is on the wire.
    pub const PROTOCOL: i16 = 16;
    pub const VLAN_PRESENT: i16 = 20;
    pub const IFINDEX: i16 = 40;
    /// Twenty bytes that go with a packet from one program to the next.
    pub const CB: i16 = 48;
    pub const DATA: i16 = 76;
    pub const DATA_END: i16 = 80;
    /// Bytes of payload in each packet that is to be cut from this one; 0: it is not to be cut.
    pub const GSO_SIZE: i16 = 176;
    /// Verdicts. `UNSPEC` goes on as if there were no program.
    pub const UNSPEC: i32 = -1;
    pub const SHOT: i32 = 2;
    pub const REDIRECT: i32 = 7;
    /// Flag of [`super::REDIRECT`]: into the interface instead of out of it.
    pub const F_INGRESS: i32 = 1;
    /// [`PKT_TYPE`] of packets that are for this host.
    pub const HOST: i32 = 0;
}
