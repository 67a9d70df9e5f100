//! One flag for the whole process: somebody pressed Ctrl-C.
//!
//! A signal concerns the process, so the flag does, too: runs end early wherever they are, everything that was made for them is
//! dropped on the ordinary way out, and what was measured before is still there to print.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends all runs of this process early, now and later. Safe to call from any thread, any number of times.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Whether [`interrupt`] was called.
#[inline]
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
