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
//!
//! Numbers are in the byte order of the host, lengths in bytes.
//!
//! ```
//! use barewire_wire::udp::{HEADER_LEN, Packet, Repr};
//! use core::net::IpAddr;
//!
//! let (from, to) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
//! let repr = Repr { src_port: 4000, dst_port: 888, payload_len: 5 };
//! let mut bytes = [0_u8; HEADER_LEN + 5];
//! bytes[HEADER_LEN..].copy_from_slice(b"hello");
//! let mut packet = Packet::new_unchecked(&mut bytes[..]);
//! repr.emit(&mut packet);
//! packet.fill_checksum(from, to);
//!
//! let packet = Packet::new_checked(&bytes[..])?;
//! assert_eq!(Repr::parse(&packet, from, to)?, repr);
//! # Ok::<(), barewire_wire::Error>(())
//! ```
//!
//! Sources: the RFCs that each module names; the InfiniBand Architecture Specification for [`roce`].
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
mod icmp;
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
