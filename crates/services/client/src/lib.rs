//! The message service for Rust applications.
//!
//! Two ways in, one vocabulary:
//! - [`Client`] talks to the daemon over shared memory: many applications share one port, none needs privileges.
//! - [`Embedded`] runs the engine in the application's own thread: the fastest on few cores.
//!
//! Both queue messages without blocking, report by [`Event`]s, and let you build a message in place. A [`Client`] can
//! also wait: with a time-out, or through a descriptor in the application's own epoll.
//!
//! ```no_run
//! use barewire_client::{Client, ConnectOptions, Event};
//! use std::time::Duration;
//!
//! let mut client = Client::attach("hello")?;
//! let flow = client.connect_to_wait("db.example:888", &ConnectOptions::default(), Duration::from_secs(1))?;
//! client.send(flow, b"hello")?;
//! while let Some(event) = client.wait_event(Some(Duration::from_secs(1)))? {
//!     if let Event::Message(message) = event {
//!         println!("{} bytes back", message.len());
//!         client.release(message);
//!         break;
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! On top of both: [requests and responses](requests). The feature `tokio` adds `aio`: the same with futures, as streams and sinks,
//! and as byte streams for what speaks TCP today.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[cfg(feature = "tokio")]
pub mod aio;
mod calls;
mod client;
mod embedded;
mod error;
mod event;
mod names;
mod reclaim;
pub mod requests;
mod share;
mod view;

pub use barewire_channel::AttachError;
pub use barewire_channel::Geometry;
pub use barewire_channel::control::{socket_path_default, socket_paths};
pub use barewire_channel::{Sleeper, Waker};
pub use barewire_engine::PortSettings;
pub use barewire_transport::security;
pub use barewire_transport::{CloseReason, ConnectError, ConnectFailure, FlowId, ListenError};
pub use client::{Client, ClientConfig};
pub use embedded::{Embedded, EmbeddedConfig};
pub use error::{CloseWaitError, ConnectWaitError, OpenError, SendError, WaitError};
pub use event::{ConnectId, ConnectOptions, Event, Inbound, PeerIdentity, SendBuf};
pub use names::look_up;
pub use share::ASIDE_BYTES;
pub use view::View;
