//! P4Runtime 1.4.1 over gRPC.
//!
//! What flows through here: [`service`] takes requests ([`message`], [`entity`], [`data`]) off gRPC; [`arbitration`] says
//! who may write; [`device`] orders writes, reads and changes of the program behind one lock; [`target`] writes
//! entities to the switch and reads them, each kind in its own file, with [`keys`] and [`value`] between messages and the
//! store's form; [`stream`] and `notify` carry packets, digests and notices, which wait in an [`outbox`] for those who read them.
//! `incoming` takes connections, and [`server`] runs it all.

mod acks;
pub mod arbitration;
mod arrays;
pub mod config;
pub mod data;
pub mod device;
mod digests;
pub mod entity;
pub mod error;
mod incoming;
pub mod keys;
pub mod message;
mod notify;
pub mod outbox;
mod profiles;
mod read;
mod reconcile;
mod replication;
pub(crate) mod rpc;
pub mod server;
pub mod service;
pub mod stream;
mod tables;
pub mod target;
#[cfg(test)]
mod tests;
pub mod value;

pub use device::Device;
pub use error::P4Error;
pub use server::{GrpcError, GrpcOptions, GrpcServer, Tls};
