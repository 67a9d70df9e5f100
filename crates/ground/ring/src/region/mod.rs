//! Memory that somebody else may write at any time.

#[cfg(not(loom))]
mod memory;
#[cfg(loom)]
mod model;
#[cfg(all(not(loom), not(miri), target_arch = "x86_64"))]
mod wide;

#[cfg(not(loom))]
pub use memory::Region;
#[cfg(loom)]
pub use model::Region;
