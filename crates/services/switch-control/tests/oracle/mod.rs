//! The pieces of the comparison with a real bmv2.

pub mod bmv2;
pub mod ours;
pub mod scenario;
pub mod wire;
