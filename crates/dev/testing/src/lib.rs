//! What tests of all crates share: they say loudly that they cannot run here, and are patient with a machine that is busy.
//!
//! ```text
//! a test that lacks something -> skip(Needs::Root, why) -> `SKIPPED: test: why`, which `make test` counts
//!                                                       -> a failure where BAREWIRE_REQUIRE names `root`
//! a run that saw too little   -> until_seen, until_well -> `REPEATED: test: why`, and once more
//! what must come true         -> eventually, comes_true -> a minute of patience
//! a process beside the test   -> Running -> killed when it is dropped
//! files of a test's own       -> Folder -> removed when it is dropped
//! nothing may be allocated    -> Counting as the global allocator, allocations() before and after
//! no secret may stay behind   -> Searching as the global allocator, search_freed(the secret's bytes)
//! ```
//! It depends on nothing, and crates name it under `[dev-dependencies]` only.
#![deny(unsafe_code)]

mod folder;
mod needs;
mod patience;
mod process;
mod skip;
#[allow(unsafe_code)]
mod sys;

pub use folder::Folder;
pub use needs::{Needs, REQUIRE, Unknown};
pub use patience::{comes_true, eventually, until_seen, until_well};
pub use process::Running;
pub use skip::{find_shared, have, have_part, is_root, program, root, shared, skip, skip_part};
pub use sys::{Counting, Search, Searching, allocations, search_freed};
