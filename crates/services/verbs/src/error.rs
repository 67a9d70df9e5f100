//! Errors for callers.

use barewire_engine::{AttachError, RandomError};
use barewire_roce as roce;

/// Why a device could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The port, its pool, or the system's random source.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The endpoint's configuration.
    #[error("RDMA configuration: {0}")]
    Config(#[from] roce::ConfigError),
    /// No frame of the pool, or no packet of the port, holds the smallest packets.
    #[error(
        "the port carries {port} bytes and the pool's frames {frame}: too few for RDMA, which needs {need}"
    )]
    TooSmall {
        /// MTU of the port, in bytes.
        port: u32,
        /// Bytes of a frame of the pool.
        frame: usize,
        /// Bytes that are needed.
        need: usize,
    },
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

/// Why something that was waited for, or asked of the device, did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdmaError {
    /// The port is down.
    #[error(transparent)]
    Port(#[from] barewire_port::PortError),
    /// A verb was refused.
    #[error(transparent)]
    Verb(#[from] roce::VerbError),
    /// The connection manager refused.
    #[error(transparent)]
    Connect(#[from] roce::ConnectError),
    /// There is no way to the peer, or it does not answer address resolution.
    #[error("no route to {0}, or no answer to ARP or neighbour discovery")]
    Unreachable(std::net::IpAddr),
    /// The peer refused the connection.
    #[error("the peer refused: {}", rej(*.0))]
    Rejected(roce::RejReason),
    /// The peer does not answer the connection manager.
    #[error("the peer does not answer: is something listening there, and does UDP port 4791 get through?")]
    NoAnswer,
    /// The peer's terms cannot be held to.
    #[error("the peer's connection parameters are not supported")]
    BadReply,
    /// The connection has ended.
    #[error("the connection has ended")]
    Disconnected,
    /// A request failed.
    #[error("request {wr_id} failed: {status:?}")]
    Failed {
        /// Its number.
        wr_id: u64,
        /// How.
        status: roce::WcStatus,
    },
    /// The time is over.
    #[error("timed out")]
    TimedOut,
    /// Waiting was ended from outside.
    #[error("stopped")]
    Stopped,
}

/// A reason, in words where it is a usual one (volume 1, section 12.6.7.2).
fn rej(reason: roce::RejReason) -> String {
    let words = match reason.0 {
        1 => "no queue pair left",
        3 => "no resources left",
        4 => "time-out",
        8 => "nobody listens on that service id or port",
        10 => "it still knows an old connection of this queue pair",
        28 => "its application refused the connection",
        _ => return format!("reason {}", reason.0),
    };
    format!("{words} (reason {})", reason.0)
}
