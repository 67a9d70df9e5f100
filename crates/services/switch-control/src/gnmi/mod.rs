//! gNMI: the switch's ports as `openconfig-interfaces`.
//!
//! What flows through here: [`service`] takes Capabilities, Get and Subscribe off gRPC ([`message`]); [`tree`] makes the
//! leaves out of the switch's ports and finds those that a path names. Nothing can be set.

pub mod message;
pub mod service;
pub mod tree;

pub use service::Gnmi;
