//! Messages of the connection manager (chapter 12), each in a management datagram of 256 bytes.
//!
//! **Whose sequence number.** The "starting PSN" of a REQ or REP is the one that the *receiver of the message* must send its
//! first request with: the sender's receive queue expects it.

mod message;
mod path;
mod req;
mod service;
mod small;

pub use message::{Attribute, Mad, Message};
pub use path::Path;
pub use req::{Rep, Req};
pub use service::{Apr, Lap, SidrRep, SidrReq};
pub use small::{Drep, Dreq, Mra, Rej, RejReason, Rejected, Rtu};
