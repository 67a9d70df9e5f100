//! The C ABI of the market-data feed handler: `libbwfeed`, whose header `bindings/c/bwfeed.h` is generated from this source.
//!
//! ```text
//! entry, query    extern "C": null checks, the panic boundary, pointers into values   unsafe
//! callbacks       what C is told: a listener that calls its functions                 unsafe
//! session         a handler, bound to its thread; stopping it from others             unsafe
//! table           handlers by ticket: what C holds is no address
//! types, error    what crosses the border, with numbers that are never given another meaning; `convert` fills it in
//! ```
//! Every entry runs inside the panic boundary that the message service's library has, too. A `bwf_feed *` is a ticket into a
//! table, so that a stale, freed or invented one is an error code and nothing else. While a callback runs, its handler is
//! locked, and calls on it are refused: Rust's exclusive borrow ends where the callback returns. What remains for the caller
//! to get right is what C leaves to callers always: a pointer that is not null has to point to what the header says, and a
//! callback returns the usual way, neither by `longjmp` nor by an exception of C++.
//!
//! A library of its own, beside `libbarewire`: who receives market data runs no daemon, and who sends messages reads no TOML.
#![warn(missing_docs)]

#[path = "../../ffi/src/boundary.rs"]
mod boundary;
pub mod callbacks;
mod convert;
pub mod entry;
pub mod error;
pub mod query;
mod session;
// As in the message service's library. A dependency would export that library's symbols from this one.
#[path = "../../ffi/src/table.rs"]
mod table;
pub mod types;
