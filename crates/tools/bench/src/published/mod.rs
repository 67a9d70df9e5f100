//! The published tables beside the same experiments measured here.
//!
//! What flows through: [`plan`] says what all of it takes, the workloads' own plans measure it, and [`messages`], [`bmv2`], [`onixs`] and
//! [`mitosis`] put the rows beside what each report printed.

pub mod bmv2;
pub mod messages;
pub mod mitosis;
pub mod onixs;
pub mod plan;
