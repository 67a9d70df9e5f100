//! Frames: where packet bytes live, and the 16-byte handles that move.
//!
//! A [`Pool`] is one region of equal chunks, allocated once. A [`Frame`] is a handle to one chunk: it is moved, never
//! reference-counted, and goes back to its pool when dropped. Length, data offset, receive stamp and port live in the
//! pool's metadata beside the chunk, so a burst of 32 frames is 512 bytes. A [`Burst`] is how frames move: at most
//! [`BURST_MAX`] at a time.
//!
//! # Invariants that the unsafe code here rests on
//! 1. Each chunk index has at most one owner: the free list, one `Frame`, or whoever took it with
//!    [`Frame::into_index`] (a kernel ring). Ownership moves, it is never copied.
//! 2. `offset + len <= chunk_len` holds for every chunk owned by a `Frame`.
//! 3. `Pool` and `Frame` are neither `Send` nor `Sync`: one thread touches metadata and free list, without locks.
//! 4. The region outlives every frame: when the last `Pool` handle goes while frames are out, the region is leaked on
//!    purpose (and [`leaked_pools`] counts it).
#![warn(missing_docs)]

mod burst;
mod frame;
mod pool;
mod stamp;

pub use burst::{BURST_MAX, Burst};
pub use frame::{ChecksumState, Frame, Gso, GsoKind};
pub use pool::{CHUNK_LEN_DEFAULT, HEADROOM_DEFAULT, Pool, PoolConfig, PoolError, leaked_pools};
pub use stamp::{ClockDomain, Stamp, StampSource};
