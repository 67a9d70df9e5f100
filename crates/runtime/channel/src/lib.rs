//! The channel between one application and the daemon: shared memory, two doorbells and a control socket.
//!
//! ```text
//!  application                                                          daemon
//!  AppChannel  submit -> [ SQ ring ] -> next_request                    DaemonChannel
//!              next_completion <- [ CQ ring ] <- complete
//!              writes [ send memory ], reads [ receive memory ]         reads, writes
//!  ControlConn <----------- SOCK_SEQPACKET, JSON, descriptors --------> ControlListener
//! ```
//!
//! The daemon creates a memfd, seals it, and passes it with the application's ends of the doorbells in its
//! [`Welcome`](message::Welcome). From then on the two talk through the rings; the control socket stays open because
//! its closing is how each learns of the other's death. Message bytes live in the two memories of a channel; this
//! crate carries those as [`Region`]s and allocates nothing in them.
//!
//! # Who trusts whom
//! The application may write every byte of the memory at any time, and may do to its descriptors whatever a descriptor
//! allows. The daemon therefore trusts nothing that it reads: ring indices are checked ([`barewire_ring`]), entries are
//! copied once and then decoded by a total function ([`entry`]), and the geometry is the daemon's own copy. Offsets and
//! lengths in requests are the application's claims: the daemon checks them (`applications`) before use. The client side is built
//! alike, so that a daemon gone mad costs the application its channel and nothing else.
//!
//! # Doorbells
//! A side that sleeps says so by a [`ParkFlag`](barewire_ring::park::ParkFlag) in the shared memory; the other side
//! rings only then. Both doorbells are chosen so that the application cannot stop the daemon with them. The flags of
//! an open file description are shared by all who hold it, so an application can make an eventfd that it was given
//! blocking:
//! - The daemon's doorbell is an eventfd. The daemon only ever reads it, with `RWF_NOWAIT` (Linux 5.8), which does not
//!   depend on those flags.
//! - The application's doorbell is a socket pair. A write to an eventfd whose counter the application had filled would
//!   block, and no flag of the call could prevent it; `send(MSG_DONTWAIT)` on the daemon's own end never does. It also
//!   hangs up when the daemon dies, which wakes the application.
//!
//! # Invariants that the unsafe code here rests on
//! All of it is in `sys`. A mapping covers a memfd that was found sealed against shrinking with at least the mapped
//! length, lives as long as any region over it, and is touched through regions only.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod app_side;
mod attach;
pub mod control;
mod daemon_side;
pub mod entry;
mod error;
mod fds;
pub mod layout;
pub mod message;
pub mod rdma;
mod sys;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod wake_tests;

pub use app_side::{AppChannel, Sleeper, Wake, Waker};
pub use attach::{AttachError, Attached, attach, attach_any};
pub use barewire_ring::Region;
pub use control::{ControlConn, ControlListener};
pub use daemon_side::DaemonChannel;
pub use entry::{BadEntry, Completion, PEER_NAME_MAX, Request};
pub use error::{BadGeometry, ChannelError, ControlError};
pub use fds::ChannelFds;
pub use layout::{Geometry, VERSION};
pub use sys::{PeerCred, Process};
