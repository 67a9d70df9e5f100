//! The message transport: reliable messages between two hosts over UDP, as a value.
//!
//! Bytes and time go in, bytes and deadlines come out; there is no socket, thread, clock or file here. What flows
//! through, in order:
//!
//! 1. [`Endpoint::connect`], [`Endpoint::listen`] and [`Endpoint::send`] put flows and messages in.
//! 2. [`Endpoint::poll_transmit`](barewire_host::Endpoint::poll_transmit) cuts messages into numbered segments and copies
//!    each straight from the sender's [`Memory`] into a frame (`sender`).
//! 3. [`Endpoint::handle_datagram`](barewire_host::Endpoint::handle_datagram) checks the CRC32C, finds the flow by its
//!    connection id, and copies the segment straight into the receiver's [`Memory`] (`receiver`).
//! 4. Acknowledgements ride on segments going the other way, or go alone after a short delay; what is missing is found
//!    by RACK and a tail-loss probe, and by a time-out at last (`sender`, `flow`).
//! 5. The window follows the path's delay (`congestion`), and the receiver's application grants credit, so that one that
//!    does not read holds up its own senders and nobody else.
//! 6. Where the peers have keys, a handshake runs inside INIT and ACCEPT, and every packet is sealed in its frame (`security`).
//! 7. [`Event`]s come out: connected, accepted, received, sent, closed.
//!
//! An endpoint whose owner has several ports has a leg for each ([`Endpoint::add_leg`]): what is to be sent waits leg by leg.
//!
//! The wire format is [`barewire_wire::msg`].
//!
//! Times are nanoseconds, lengths bytes; credit is in message bytes. [`ConfigError`] names a field out of range; bad packets are
//! counted by [`DropReason`](barewire_base::DropReason). `Embedded` of `barewire-client` is an endpoint on a port, with an example.
//! Sources: RFC 8985 (RACK), 8899 (path MTU discovery); Swift (Kumar et al., SIGCOMM 2020); the Noise protocol framework.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod audit;
pub mod buddy;
mod config;
mod congestion;
mod counters;
mod crc;
mod endpoint;
mod event;
mod flow;
mod handshake;
mod ids;
mod input;
mod legs;
mod listeners;
mod memory;
mod mtu;
mod output;
mod path;
mod peers;
mod receiver;
mod remnants;
mod rtt;
pub mod security;
mod sender;
mod timers;

pub use config::{
    Config, ConfigError, LATER_LEAVES, STALL_PATIENCE, STALL_RATE, STALL_REMEMBERED, WINDOW_SEGMENTS,
};
pub use congestion::{Congestion, CongestionConfig};
pub use counters::Counters;
pub use endpoint::{ConnectError, Endpoint, FlowView, SendError, engine_for};
pub use event::{CloseReason, ConnectFailure, Event};
pub use flow::FlowId;
pub use legs::LEGS_MAX;
pub use listeners::ListenError;
pub use memory::{HeapMemory, Memory, RecvBuf, SendBuf, Turn};
pub use security::Security;
