//! Packet formats: what the bytes of a frame mean.
//!
//! Each protocol has a module of its own with the same three layers:
//! - offsets of the fields, private;
//! - `Packet<T>`, a view of bytes: field access without judgement. Accessors are *total*: what lies outside the buffer
//!   reads as zero and is not written, so a view never panics, whether made with `new_checked` (lengths agree with the
//!   buffer) or `new_unchecked` (for a buffer that is about to be written);
//! - `Repr`, a value: only what we accept, checksums included. `parse(emit(r)) == r`.
//!
//! Nothing here allocates, reads a clock or keeps state. Errors are one small enum, [`Error`], which turns into a
//! [`barewire_base::DropReason`].
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod arp;
pub mod checksum;
mod ecn;
mod error;
pub mod eth;
mod field;
#[doc(hidden)]
pub mod fuzz;
pub mod icmpv4;
pub mod icmpv6;
mod ip;
pub mod ipv4;
pub mod ipv6;
mod mac;
pub mod msg;
pub mod ndisc;
pub mod roce;
pub mod tcp;
pub mod udp;
pub mod vlan;

pub use ecn::mark_ce;
pub use error::Error;
pub use eth::EtherType;
pub use ip::{Protocol, is_source_v4, is_source_v6, solicited_node};
pub use mac::{MacAddr, ParseMacError};
