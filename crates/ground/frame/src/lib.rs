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
//!
//! # Example
//!
//! ```
//! use barewire_frame::{Burst, Pool, PoolConfig};
//!
//! let pool = Pool::new(PoolConfig { frames: 64, ..PoolConfig::default() })?;
//! let mut frame = pool.alloc_from(b"payload").expect("a free frame");
//! assert!(frame.push_front(4), "headers grow into the headroom, the payload stays where it is");
//! frame.data_mut()[..4].copy_from_slice(b"head");
//! assert_eq!(frame.data(), b"headpayload");
//!
//! let mut burst = Burst::new();
//! assert!(burst.push(frame).is_ok());
//! assert_eq!((burst.len(), pool.available()), (1, 63));
//! drop(burst);
//! assert_eq!(pool.available(), 64, "dropped frames return to their pool");
//! # Ok::<(), barewire_frame::PoolError>(())
//! ```
//!
//! Lengths are bytes. [`PoolError`] says why memory for a pool is missing; an exhausted pool is `None`, not an error.
#![warn(missing_docs)]

mod burst;
mod frame;
mod ledger;
mod pool;
mod stamp;

pub use burst::{BURST_MAX, Burst};
pub use frame::{ChecksumState, Frame, Gso, GsoKind};
pub use ledger::Ledger;
pub use pool::{CHUNK_LEN_DEFAULT, HEADROOM_DEFAULT, Pool, PoolConfig, PoolError, leaked_pools};
pub use stamp::{ClockDomain, Stamp, StampSource};
