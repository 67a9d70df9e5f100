//! The message service for Rust applications.
//!
//! Two ways in, one vocabulary:
//! - [`Embedded`] runs the engine in the application's own thread: the fastest on few cores.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod embedded;
mod error;
mod event;

pub use barewire_transport::{CloseReason, ConnectError, ConnectFailure, FlowId, ListenError, SendBuf};
pub use embedded::{Embedded, EmbeddedConfig};
pub use error::{OpenError, SendError};
pub use event::{ConnectOptions, Event, Inbound};
