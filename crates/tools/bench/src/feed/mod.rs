//! The feed handler measured: from the moment a packet arrives to the callback that it causes.
//!
//! ```text
//! traffic (made beforehand) -> sender thread, paced -> veth -> socket or port -> engine -> t4 -> feed channel -> t5
//!                                                       t3: the kernel's stamp
//! ```
//! [`traffic`] makes the packets, [`live`] sends them between two hosts of its own and runs an engine on the second, [`mem`]
//! hands them to a feed channel in one thread, [`receive`] takes what another host sends. [`probe`] reads the clocks. [`saturate`] looks for the rate at which packets are
//! lost, [`decode`] compares our decoder with what the SBE tool generates. [`plan`] says which rows a command asks for, [rows](crate::row::Row)
//! come out, and [`render`] makes tables of them.
//!
//! Two bases: application only, t4 to t5; and with the network and kernel layer, t3 to t5. One run gives both.

mod row;

pub mod decode;
pub mod live;
pub mod mem;
pub mod onload;
pub mod plan;
pub mod probe;
pub mod receive;
pub mod render;
pub mod saturate;
pub mod traffic;

pub use row::{Base, is_stamped};
