//! The P4 switch measured: its engine alone, from capture file to capture file, and between two hosts.
//!
//! What flows through: a [`program::Source`] and a [`workload::Spec`] make a [`workload::Workload`], which is table entries
//! ([`setup::Step`]), packets and what must become of each. [`mem`] runs it between memory ports, [`files`] between
//! capture files, [`inside`] in the kernel, [`live`] between hosts on [`wires`] of its own under the traffic of [`load`]; [`bmv2`] runs the same program
//! with the same entries on bmv2, where that is installed. What comes out is [`Row`](crate::row::Row)s. [`plan`] says which rows a command asks for.
pub(crate) mod figures;
pub(crate) mod row;

pub mod bmv2;
pub mod count;
pub mod files;
pub mod inside;
pub mod live;
pub mod load;
pub mod mem;
pub mod plan;
pub mod program;
pub mod redirect;
pub mod setup;
pub mod wires;
pub mod workload;

pub use crate::rounds::median;
pub use row::{Paced, Told};
