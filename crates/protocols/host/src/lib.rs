//! One host on one port: its addresses, its neighbours, and the way of UDP datagrams in and out. Sans-IO: frames and time
//! go in, datagrams, frames and deadlines come out; after construction nothing allocates.
//!
//! ```text
//! frame -> Host::handle_frame -> Consumed            ARP, neighbour discovery, ICMP: answered through poll_transmit
//!                             -> Drop(reason)        already counted in Host::counters
//!                             -> Udp(Datagram)       for the Endpoint on datagram.dst
//! Host::route(src, dst) -> Ready(Template)           headers; seal() puts them in front of a payload
//!                       -> Pending                   being resolved: a HostEvent says when to ask again
//!                       -> Unreachable
//! Host::handle_local(frame) -> Udp(Datagram)         for frames to our own MAC, which no port gets to see
//! ```
//!
//! After any call that takes `&mut Host`, drain [`Host::poll_transmit`], then [`Host::poll_event`], then ask
//! [`Host::poll_timeout`]. A [`Template`] stays right while its generation is [`Host::generation`].
//!
//! # What a stranger on the link can and cannot do
//! - A mapping is learned from a reply only while a request of ours is outstanding, and from a request only when it asks
//!   for an address of ours and its sender is on our link. Gratuitous announcements teach nothing.
//! - A known mapping is never replaced on a claim alone. A claim of another MAC makes us ask the old one, quickly; only
//!   when it stays silent does the question go out to all, and then the first answer wins. Failover takes a quarter of
//!   a second, theft takes silencing the owner.
//! - Nothing grows: the neighbour table, every queue and every rate is bounded, and entries in use are not evicted for
//!   strangers.
//! - Who can *answer* a broadcast first can still lie: ARP and plain neighbour discovery have no authentication.
//!
//! Router advertisements are ignored and counted: addresses come from configuration. Fragments are dropped. Groups (IGMP,
//! MLD) are not joined yet, so datagrams to groups are [`DropReason::NotOurAddress`](barewire_base::DropReason).
//!
//! ```
//! use barewire_base::Instant;
//! use barewire_frame::{Pool, PoolConfig};
//! use barewire_host::{Host, HostConfig};
//! use barewire_wire::MacAddr;
//!
//! let pool = Pool::new(PoolConfig { frames: 8, ..PoolConfig::default() })?;
//! let mut config = HostConfig::new(MacAddr([2, 0, 0, 0, 0, 1]));
//! config.ipv4.push(([10, 0, 0, 1].into(), 24));
//! let mut host = Host::new(config);
//!
//! // Nobody has asked for anything yet, and nothing is due.
//! let mut frame = pool.alloc().expect("a frame");
//! assert!(!host.poll_transmit(Instant::ZERO, &mut frame));
//! // What is no packet is counted, not an error.
//! let garbage = pool.alloc_from(&[0; 10]).expect("a frame");
//! host.handle_frame(Instant::ZERO, &garbage);
//! assert_eq!(host.counters().drops.total(), 1);
//! # Ok::<(), barewire_frame::PoolError>(())
//! ```
//!
//! Times are nanoseconds, lengths bytes. Sources: RFC 826 and 5227 (ARP), 4861 (neighbour discovery), 792 and 4443 (ICMP).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arp;
mod config;
mod counters;
mod endpoint;
mod host;
mod icmp;
mod ingress;
mod limit;
mod nd;
mod neighbour;
mod reply;
mod template;

pub use config::HostConfig;
pub use counters::HostCounters;
pub use endpoint::{Datagram, Endpoint, HostEvent, Input, Route, Verdict};
pub use host::Host;
pub use neighbour::{
    FAST_RETRIES, NEGATIVE_TIME, NEIGHBOURS_LIMIT, NeighbourState, NeighbourView, PROBE_INTERVAL,
    PROBES_UNICAST, REACHABLE_TIME, RESOLVE_TIMEOUT,
};
pub use template::Template;
