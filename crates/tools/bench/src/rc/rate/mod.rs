//! RDMA measured: how fast reliable connections are made, and what goes over them.
//!
//! ```text
//! client thread: create, connect -> port -> REQ -> server thread: create, accept -> REP -> connected -> RTU -> (disconnect)
//! ```
//! [`wires`] makes what lies between the ends: memory links, or namespaces with veth pairs and bridges. [`client`] opens and closes
//! connections as fast as its window allows, [`server`] accepts them, [`live`] runs both in threads and times them. [`tcp`] is the
//! baseline: the kernel's connect, accept and close on the same wires. [`remote`] has each end alone, the
//! other on another host. [`data`] measures what goes over a connection. [`plan`] says
//! which rows a command asks for, [`RcRow`]s come out, and [`render`] makes tables of them.
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

pub use row::{DataRow, DataRun, FAILED_MAX, RcOutput, RcRow, RcRun, STEPS, Span, StepSpans, Steps};

use barewire_lab::LabError;
use barewire_verbs::{OpenError, RdmaError};
use std::io;
use std::net::SocketAddr;

/// Why a row could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// What was asked for cannot be run.
    #[error("{0}")]
    Plan(String),
    /// A device did not open.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// A device, or the peer, refused.
    #[error("{0}")]
    Rdma(#[from] RdmaError),
    /// A verb was refused.
    #[error("{0}")]
    Verb(#[from] barewire_roce::VerbError),
    /// The connection manager refused.
    #[error("{0}")]
    Connect(#[from] barewire_roce::ConnectError),
    /// Hosts or links could not be made.
    #[error("{0}")]
    Lab(#[from] LabError),
    /// Nobody accepts where the kernel's baseline is to connect to.
    #[error("{server}: {source}")]
    NoServer {
        /// Where.
        server: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl RateError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> RateError {
        let what = what.into();
        move |source| RateError::Io { what, source }
    }
}

impl From<barewire_port::PortError> for RateError {
    fn from(error: barewire_port::PortError) -> RateError {
        RateError::Rdma(error.into())
    }
}

/// Nothing more is to be started when somebody interrupted.
pub(crate) fn go_on() -> Result<(), RateError> {
    if crate::interrupted() { Err(RateError::Interrupted) } else { Ok(()) }
}

/// The service id of the published benchmark.
pub(crate) const SERVICE_ID: u64 = 50;
