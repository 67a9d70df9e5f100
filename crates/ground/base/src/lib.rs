//! The ground everything stands on: time as a number, a seeded random source, counters and the names of drops.
//!
//! Nothing here touches the world. [`Instant`] is a reading that somebody else took; [`Prng`] replays from its seed;
//! a [`Counter`] is one word that its single writer bumps and anybody may read.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod counter;
mod drop_reason;
mod prng;
mod time;

pub use counter::{Counter, DropCounters};
pub use drop_reason::DropReason;
pub use prng::Prng;
pub use time::{Duration, Instant};
