//! What every other crate builds on: time as a number, a seeded random source, counters, drop reasons.
//!
//! Nothing here touches the world. [`Instant`] is a reading that somebody else took; [`Prng`] replays from its seed;
//! a [`Counter`] is one word that its single writer bumps and anybody may read.
//!
//! Units: nanoseconds everywhere. Nothing here fails: arithmetic on time saturates.
//!
//! ```
//! use barewire_base::{Counter, DropCounters, DropReason, Duration, Instant, Prng};
//!
//! let sent = Instant::from_nanos(1_000);
//! let deadline = sent + Duration::from_micros(50);
//! assert_eq!(deadline.since(sent), Duration::from_nanos(50_000));
//! assert_eq!(sent.since(deadline), Duration::from_nanos(0), "never negative");
//!
//! // The same seed gives the same draws.
//! assert_eq!(Prng::new(7).next_u64(), Prng::new(7).next_u64());
//!
//! let (frames, drops) = (Counter::new(), DropCounters::new());
//! frames.add(32);
//! drops.count(DropReason::Malformed);
//! assert_eq!((frames.get(), drops.get(DropReason::Malformed), drops.total()), (32, 1, 1));
//! ```
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
