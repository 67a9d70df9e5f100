//! Waiting until what a program may have looked up is not looked at any more.

use crate::Map;
use barewire_ebpf::{MapKind, MapSpec};
use std::io;
use std::os::fd::AsRawFd;

/// `MEMBARRIER_CMD_GLOBAL` (`linux/membarrier.h`): returns when every CPU has passed a point where no program runs.
const GLOBAL: libc::c_int = 1;

/// Returns when all programs that run now have ended, on all CPUs: some milliseconds.
///
/// # Errors
/// The kernel's.
pub fn wait_for_programs() -> io::Result<()> {
    // SAFETY: three numbers; the call takes no address.
    let done = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
    if done == 0 {
        return Ok(());
    }
    // With CPUs that have no clock tick the kernel does not do it so. Whoever puts a map into a map waits as long.
    let spec = |kind, entries, inner| MapSpec {
        name: "wait".to_owned(),
        kind,
        key: 4,
        value: 4,
        entries,
        initial: Vec::new(),
        lock: false,
        inner,
    };
    let inner = spec(MapKind::Array, 1, None);
    let outer = Map::create(&spec(MapKind::HashOfMaps, 1, Some(Box::new(inner.clone()))))?;
    outer.update(&[0; 4], &Map::create(&inner)?.as_raw_fd().to_ne_bytes())
}
