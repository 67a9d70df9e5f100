//! The C ABI of the message service: `libbarewire`, whose header `bindings/c/barewire.h` is generated from this source.
//!
//! ```text
//! entry, memory, request, embedded
//!                 extern "C": null checks, the panic boundary, pointers into values   unsafe
//! session         a client and what C needs beside it
//! asks            requests, of a client and of an endpoint, in numbers
//! table           clients by ticket: what C holds is no address
//! types, error    what crosses the border, with numbers that are never given another meaning
//! boundary        why a call fails, the panic boundary, values by pointer; shared with the feed's library   unsafe
//! ```
//! Every entry runs inside [`boundary::guard`]: no panic leaves it. A `bw_client *` is a ticket into a table, so that a stale,
//! freed or invented one is an error code and nothing else. What remains for the caller to get right is what C leaves to
//! callers always: a pointer that is not null has to point to what the header says, for as long as the call.
#![warn(missing_docs)]

mod boundary;
pub mod embedded;
pub mod entry;
pub mod error;
pub mod memory;
pub mod request;
mod request_state;
mod session;
mod table;
pub mod types;
