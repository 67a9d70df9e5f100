//! Errors for callers.

use barewire_engine::{AttachError, RandomError};
use barewire_transport as transport;

/// Why an endpoint could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The port, its pool, or the system's random source.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The transport's configuration.
    #[error("transport configuration: {0}")]
    Transport(#[from] transport::ConfigError),
}

/// Parts of attaching, for those who do some of it themselves.
macro_rules! attaching {
    ($($error:ty),*) => { $(
        impl From<$error> for OpenError {
            fn from(error: $error) -> Self {
                OpenError::Attach(error.into())
            }
        }
    )* };
}

attaching!(barewire_port::OpenError, barewire_frame::PoolError, RandomError);

/// Why a message was not queued. It is still the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Memory, table or ring is full for now, or the flow has its share of them: take events, and try again after
    /// [`Event::Writable`](crate::Event::Writable).
    #[error("full for now: take events, and retry when one says writable")]
    WouldBlock,
    /// Above 64 MiB, or above the send memory.
    #[error("the message is too large")]
    TooLarge,
    /// No such flow, or no longer.
    #[error("no such flow")]
    NoSuchFlow,
    /// The flow is closing.
    #[error("the flow is closing")]
    Closing,
    /// The reservation is another client's; it is given back there.
    #[error("the reservation is another client's")]
    NotOurs,
    /// The daemon is gone, or the client is that of a parent process.
    #[error("the daemon is gone")]
    DaemonGone,
}

impl From<transport::SendError> for SendError {
    fn from(e: transport::SendError) -> Self {
        match e {
            transport::SendError::WouldBlock => SendError::WouldBlock,
            transport::SendError::TooLarge => SendError::TooLarge,
            transport::SendError::Closing => SendError::Closing,
            _ => SendError::NoSuchFlow,
        }
    }
}

/// Why waiting for an event ended without one and not by its time-out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The daemon is gone, and everything it said before was handed out; or the client is that of a parent process.
    #[error("the daemon is gone")]
    DaemonGone,
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Why [`close_and_wait`](crate::Client::close_and_wait) ended before everything had arrived.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseWaitError {
    /// The time-out came first: peers of so many flows have not acknowledged everything, or have not closed their half.
    #[error("{open} flows were still open when the time was over")]
    TimedOut {
        /// How many.
        open: usize,
    },
    /// Flows ended before so many messages had arrived.
    #[error("{lost} messages did not arrive: their flows ended first")]
    Lost {
        /// How many.
        lost: u64,
    },
    /// Waiting failed.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// Why `connect_wait` or `connect_to_wait` gave no flow, or `connect_to` asked for none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectWaitError {
    /// The name has no address, or the resolver failed.
    #[error("{0}")]
    Name(#[from] std::io::Error),
    /// The connection was refused or not answered.
    #[error("{0}")]
    Failed(transport::ConnectFailure),
    /// The time-out came first.
    #[error("no answer in time")]
    TimedOut,
    /// The request ring is full.
    #[error("full for now: poll and try again")]
    WouldBlock,
    /// Waiting failed.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

impl From<SendError> for ConnectWaitError {
    fn from(e: SendError) -> Self {
        match e {
            SendError::DaemonGone => WaitError::DaemonGone.into(),
            _ => ConnectWaitError::WouldBlock,
        }
    }
}
