//! Why a measurement could not be made: one type for all benches.

use crate::messages::driver::DriverError;
use barewire_engine::{EngineError, SpawnError};
use barewire_feed_handler::SourceError;
use barewire_netns::NetnsError;
use barewire_port::PortError;
use barewire_roce::{ConnectError, VerbError};
use barewire_switch::control::ControlError;
use barewire_switch::harness::HarnessError;
use barewire_switch::server::StartError;
use barewire_verbs::RdmaError;
use std::io;
use std::net::SocketAddr;

/// Why a row could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// What was asked for cannot be run.
    #[error("{0}")]
    Plan(String),
    /// The system under test could not be set up.
    #[error("{what}: {source}")]
    Setup {
        /// What was attempted.
        what: &'static str,
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
    /// Another program failed.
    #[error("{program}: {why}")]
    Program {
        /// Which.
        program: String,
        /// What it said.
        why: String,
    },
    /// Nobody accepts where the kernel's baseline is to connect to.
    #[error("{server}: {source}")]
    NoServer {
        /// Where.
        server: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Hosts or links could not be made.
    #[error("{0}")]
    Hosts(#[from] NetnsError),
    /// A port did not open.
    #[error("{0}")]
    Open(#[from] barewire_port::OpenError),
    /// An engine did not start, or ended badly.
    #[error("{0}")]
    Engine(#[from] EngineError),
    /// A P4 program or a table entry was refused.
    #[error("{what}: {source}")]
    Control {
        /// What was being done.
        what: String,
        /// Why it was refused.
        source: ControlError,
    },
    /// The switch did not start.
    #[error("starting the switch: {0}")]
    Start(#[from] StartError),
    /// A switch without ports could not be made.
    #[error("{0}")]
    Harness(#[from] HarnessError),
    /// A source of market data did not open, or failed later.
    #[error("{0}")]
    Source(#[from] SourceError),
    /// An RDMA device did not open.
    #[error("{0}")]
    Device(#[from] barewire_verbs::OpenError),
    /// An RDMA device, or the peer, refused.
    #[error("{0}")]
    Rdma(#[from] RdmaError),
    /// A verb was refused.
    #[error("{0}")]
    Verb(#[from] VerbError),
    /// The connection manager refused.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// Streams did not come to an end.
    #[error(transparent)]
    Stream(#[from] crate::stream::StreamError),
    /// The driver of a message system gave up, or the system did.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A thread of the run panicked: a bug here.
    #[error("the {0} thread panicked")]
    Panicked(&'static str),
    /// Anything a workload of another crate has to say.
    #[error("{0}")]
    Other(#[from] Box<dyn std::error::Error + Send + Sync>),
    /// Somebody interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl BenchError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> BenchError {
        let what = what.into();
        move |source| BenchError::Io { what, source }
    }

    pub(crate) fn control(what: impl Into<String>) -> impl FnOnce(ControlError) -> BenchError {
        let what = what.into();
        move |source| BenchError::Control { what, source }
    }
}

impl From<PortError> for BenchError {
    fn from(error: PortError) -> BenchError {
        BenchError::Rdma(error.into())
    }
}

impl From<SpawnError<BenchError>> for BenchError {
    fn from(error: SpawnError<BenchError>) -> BenchError {
        match error {
            SpawnError::Build(error) => error,
            SpawnError::Engine(error) => error.into(),
            other => BenchError::Plan(other.to_string()),
        }
    }
}

/// Nothing more is to be started when somebody interrupted.
pub(crate) fn go_on() -> Result<(), BenchError> {
    if crate::interrupted() { Err(BenchError::Interrupted) } else { Ok(()) }
}
