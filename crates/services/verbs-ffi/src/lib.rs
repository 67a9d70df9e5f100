//! The C ABI of RDMA through the daemon: `libbwverbs`, whose header `bindings/c/bwverbs.h` is generated from this source.
//!
//! ```text
//! entry           extern "C": contexts, events, addresses            unsafe
//! object          extern "C": domains, memory, queues, queue pairs   unsafe
//! data            extern "C": posts and completions                  unsafe
//! connect         extern "C": connections                            unsafe
//! session         a context and what C needs beside it
//! types, error    what crosses the border, with numbers that are never given another meaning
//! ```
//! Every entry runs inside the panic boundary that the message service's library has, too. A `bwv_context *` is a ticket into a
//! table, so that a stale, freed or invented one is an error code and nothing else; objects are numbers that the daemon checks
//! against its books. What remains for the caller to get right is what C leaves to callers always: a pointer that is not null has
//! to point to what the header says, for as long as the call.
#![warn(missing_docs)]

#[path = "../../ffi/src/boundary.rs"]
mod boundary;
pub mod connect;
pub mod data;
pub mod entry;
pub mod error;
pub mod object;
mod session;
// As in the message service's library. A dependency would export that library's symbols from this one.
#[path = "../../ffi/src/table.rs"]
mod table;
pub mod types;
