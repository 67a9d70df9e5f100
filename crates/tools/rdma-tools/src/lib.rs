//! RDMA connections as tools: a server for many kinds of clients, and the clients.
//!
//! ```text
//! serve    answers librdmacm's `rping -c`, connections that are only opened and closed, and the three below
//! ping     is `rping -c` itself: against `rping -s`, or against serve
//! connect  opens and closes connections, several at a time
//! perf     sends, writes, reads or counts in the server's memory, and times it
//! ```
//! `barewire bench rdma` measures the same for tables.
//!
//! What a client wants of `serve` stands in the private data of its request ([`Hello`]); one that says nothing is taken for an
//! rping, which says its wishes in messages ([`Advert`]), or for one that only connects. A whole session runs in the caller's
//! thread.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client;
pub mod connect;
mod error;
mod handshake;
pub mod perf;
pub mod ping;
mod publish;
pub mod serve;
mod session;

pub use client::Target;
pub use error::RcError;
pub use handshake::{Advert, Hello, Mode, Offer, WINDOW_MAX};

use barewire_verbs::Memory;
use barewire_wire::roce::rdma_cm::{self, PortSpace};

/// The port that librdmacm's `rping` uses.
pub const RPING_PORT: u16 = 7174;

/// The service id of a port in RDMA-CM's TCP space.
pub fn service_id(port: u16) -> u64 {
    rdma_cm::service_id(PortSpace::Tcp, port)
}

/// The byte at `at` of what `perf` reads and writes: no two neighbouring packets are alike, whatever the MTU.
pub(crate) fn pattern(at: usize) -> u8 {
    (at ^ (at >> 8).wrapping_mul(31) ^ (at >> 16).wrapping_mul(101)) as u8
}

/// Writes [`pattern`] into all of it.
pub(crate) fn fill(memory: &Memory) {
    let bytes: Vec<u8> = (0..memory.len()).map(pattern).collect();
    memory.write(0, &bytes);
}
