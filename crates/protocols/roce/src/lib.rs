//! RoCEv2 reliable connections as a value: verbs, queue pairs and the connection manager of one RDMA device in software.
//!
//! Frames and time go in, frames, completions, events and deadlines come out; there is no socket, thread, clock or file here.
//! What flows through, in order:
//!
//! 1. [`Endpoint::connect`] and [`Endpoint::listen`] make connections (`cm`); [`Endpoint::modify_qp`] does it by hand.
//! 2. [`Endpoint::post_send`] and [`Endpoint::post_recv`] put requests in (`queue`); memory is a [`Region`] behind the keys of
//!    [`Endpoint::reg_mr`] (`memory`), so a peer's writes may land in memory that another process shares.
//! 3. [`Endpoint::poll_transmit`] cuts requests into packets, and answers (`requester`, `responder`); headers and their CRC
//!    come from the path (`path`).
//! 4. [`Endpoint::handle_frame`] checks a frame from outside to inside, its ICRC included (`ingress`), and finds its queue pair
//!    by number.
//! 5. [`Endpoint::poll_cq`] gives completions, [`Endpoint::poll_event`] the rest.
//!
//! Everything that exists by the million lies in blocks by number (`slab`); an idle queue pair owns nothing else, and after
//! warm-up nothing allocates. One timing wheel serves all ([`barewire_wheel`]).
//!
//! The rules are those of the InfiniBand Architecture Specification, volume 1, chapters 9 to 13 and annexes A11 and A17; the wire
//! format is [`barewire_wire::roce`].
//!
//! [`Region`]: barewire_ring::Region
//!
//! Times are nanoseconds, rates bits per second. A verb that cannot be done is a [`VerbError`]; bad packets are counted by
//! [`DropReason`](barewire_base::DropReason). `Device` of `barewire-verbs` is an endpoint on a port, with an example.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod audit;
mod cm;
mod codes;
mod config;
mod core;
mod counters;
mod cq;
mod endpoint;
mod error;
mod event;
mod ids;
mod index;
mod ingress;
mod memory;
mod path;
mod psn;
mod qp;
mod qpn;
mod queue;
mod quota;
mod rate;
mod requester;
mod responder;
mod slab;
mod ud;
mod verbs;

pub use audit::Imbalance;
pub use barewire_wire::roce::cm::RejReason;
pub use cm::{ConnId, ConnInfo, ConnState, Connect, ConnectError, ListenerId, Terms};
pub use config::{ADDRESSES_MAX, CONNECTIONS_MAX, CmConfig, Config, QPS_MAX};
pub use counters::Counters;
pub use endpoint::{Endpoint, QpView, Verdict};
pub use error::{ConfigError, VerbError};
pub use event::{ConnectFailure, Ended, Event, QpFault};
pub use memory::Mr;
pub use path::PathSpec;
pub use quota::Quota;
pub use requester::silence_max;
pub use verbs::{
    Access, CqId, Data, GRH_LEN, INLINE_MAX, Modify, Mtu, PathId, Pd, QpInit, QpKind, QpState, Qpn,
    READS_MAX, Remote, RtrAttr, RtsAttr, SGE_MAX, SendOp, SendWr, Sge, SrqId, Wc, WcOpcode, WcStatus,
};

#[cfg(test)]
mod wrap_tests;
