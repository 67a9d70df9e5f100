//! Figures of a row: what of a bench verb's JSON is a measured value, in which unit, and whether less of it is better.
//!
//! Units end the names of barewire's keys (`rate_pps`, `load_us`), so figures of verbs that this crate has never seen are
//! understood, too. A percentile that is `null`, or has too few samples, is told as `n<k`.

mod extract;
mod identity;
mod unit;

pub use extract::{Figure, Stat, figures, primary};
pub use identity::{Identity, identity, is_baseline, is_simulated};
pub use unit::{Better, Unit, quantity, tick};
