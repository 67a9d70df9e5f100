//! The feed handler measured: from the moment a packet arrives to the callback that it causes.
//!
//! ```text
//! traffic (made beforehand) -> sender thread, paced -> veth -> socket or port -> engine -> t4 -> feed channel -> t5
//!                                                       t3: the kernel's stamp
//! ```
//! [`traffic`] makes the packets, [`live`] sends them between two hosts of its own and runs an engine on the second, [`mem`]
//! hands them to a feed channel in one thread, [`receive`] takes what another host sends. [`probe`] reads the clocks. [`saturate`] looks for the rate at which packets are
//! lost, [`decode`] compares our decoder with what the SBE tool generates. [`plan`] says which rows a command asks for, [`FeedRow`]s
//! come out, and [`render`] makes tables of them.
//!
//! Two bases: application only, t4 to t5; and with the network and kernel layer, t3 to t5. One run gives both.

mod row;

pub mod decode;
pub mod live;
pub mod mem;
pub mod onload;
pub mod plan;
pub mod probe;
pub mod receive;
pub mod render;
pub mod saturate;
pub mod traffic;

pub use row::{Base, FeedLatency, FeedOutput, FeedRow, FeedRun};

use barewire_engine::{EngineError, SpawnError};
use barewire_feed_handler::SourceError;
use barewire_lab::LabError;
use std::io;

/// Why a row of the feed handler could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeedBenchError {
    /// What was asked for cannot be run.
    #[error("{0}")]
    Plan(String),
    /// A source did not open, or failed later.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// The engine did not start, or ended badly.
    #[error("{0}")]
    Engine(#[from] EngineError),
    /// Hosts or links could not be made.
    #[error("{0}")]
    Lab(#[from] LabError),
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// Another program failed.
    #[error("{program}: {why}")]
    Program {
        /// Which.
        program: String,
        /// What it said.
        why: String,
    },
    /// Somebody interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl FeedBenchError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> FeedBenchError {
        let what = what.into();
        move |source| FeedBenchError::Io { what, source }
    }
}

impl From<SpawnError<FeedBenchError>> for FeedBenchError {
    fn from(error: SpawnError<FeedBenchError>) -> FeedBenchError {
        match error {
            SpawnError::Build(error) => error,
            SpawnError::Engine(error) => error.into(),
            other => FeedBenchError::Plan(other.to_string()),
        }
    }
}

/// Nothing more is to be started when somebody interrupted.
pub(crate) fn go_on() -> Result<(), FeedBenchError> {
    if crate::interrupted() { Err(FeedBenchError::Interrupted) } else { Ok(()) }
}
