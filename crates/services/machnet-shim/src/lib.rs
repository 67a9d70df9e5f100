//! Machnet's C ABI over the message service, so that programs written for Machnet run on barewire without being compiled
//! again: `libmachnet_shim.so.0`.
//!
//! ```text
//! sys       the eleven functions and the data symbol of Machnet's library: null checks, panic boundary   unsafe
//! channel   a client of the daemon, and which four-tuple is which flow
//! table     channels by ticket: what the program holds is no address
//! ```
//! Layouts, byte order (the host's) and results are Machnet's. What it gets wrong is not kept:
//! - Nothing aborts the program, and a failed call keeps no memory. `errno` says why a call gave -1: EAGAIN may be tried
//!   again, others not.
//! - A message that does not fit the caller's buffer gives -1 (EMSGSIZE) and **stays**: the next call with a larger buffer gets
//!   it.
//! - A failed `machnet_init` may be repeated, and `machnet_attach` works after the daemon was restarted. A channel of a daemon
//!   that is gone gives -1 (EPIPE) for ever.
//! - A flow that the peer closed is forgotten: sends on it give -1 (ENOTCONN).
//! - Two threads may use one channel; they take turns.
//! - A program may send and exit: what it sent is waited for, at most [`channel::LINGER`].
//!
//! The daemon's socket is `$BAREWIRE_SOCKET` or the default; Machnet's own path is not looked at. `g_ctrl_socket` stays -1, for
//! there is no process-wide connection. `machnet_bind` has no segment of Machnet's layout to map and gives null.
#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod channel;
pub mod sys;
// The same table as in the other C library. A dependency would export that library's symbols from this one.
#[path = "../../ffi/src/table.rs"]
mod table;
