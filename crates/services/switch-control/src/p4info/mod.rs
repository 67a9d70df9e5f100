//! P4Info against the program that runs.
//!
//! What flows through here: a P4Info as `barewire-p4-info` reads it; [`index`] holds it against the program that runs and
//! turns its ids into the program's own, both ways.

pub mod index;
mod shape;

pub use barewire_p4_info::{P4Info, message, text, types};
pub use index::{Index, IndexError};

pub(crate) use barewire_p4_info::nearest_hint;
