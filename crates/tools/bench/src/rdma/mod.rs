//! RDMA measured: how fast reliable connections are made, and what goes over them.
//!
//! ```text
//! client thread: create, connect -> port -> REQ -> server thread: create, accept -> REP -> connected -> RTU -> (disconnect)
//! ```
//! [`wires`] makes what lies between the ends: memory links, or namespaces with veth pairs and bridges. `client` opens and closes
//! connections as fast as its window allows, `server` accepts them, [`live`] runs both in threads and times them. `tcp` is the
//! baseline: the kernel's connect, accept and close on the same wires. [`remote`] has each end alone, the
//! other on another host. [`data`] measures what goes over a connection. [`plan`] says
//! which rows a command asks for, and [`render`] adds to their table what live queue pairs cost.
//!
//! A connection is what it is in the published benchmark: a new completion queue and queue pair on each side, REQ, REP with the
//! address and key of a memory region, RTU; then DREQ, DREP and everything destroyed. Path resolution is outside the loop, as there.

mod client;
mod idle;
mod row;
mod server;
mod sockets;
mod tcp;

pub mod data;
pub mod live;
pub mod plan;
pub mod remote;
pub mod render;
mod windows;
pub mod wires;

pub use row::{FAILED_MAX, StepSpans};

/// The service id of the published benchmark.
pub(crate) const SERVICE_ID: u64 = 50;
