//! Names that tell their owner, and the removal of what dead owners left.

use crate::NetnsError;
use barewire_engine::Owner;
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind_recursive, mount_change, unmount};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Where `ip netns` looks for namespaces: a file for each that has a name.
pub const NETNS_DIR: &str = "/run/netns";

/// Longest label of a namespace.
const LABEL_MAX: usize = 32;

/// Refuses labels that are no part of a file name and of a namespace's name: 1 to 32 of `a-z0-9_-` are.
///
/// # Errors
/// [`NetnsError::BadName`].
pub fn check_label(label: &str) -> Result<(), NetnsError> {
    let bad = |why| Err(NetnsError::BadName { what: "namespace label", name: label.to_string(), why });
    if label.is_empty() || label.len() > LABEL_MAX {
        return bad("must have 1 to 32 characters");
    }
    if !label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_') {
        return bad("may contain a to z, 0 to 9, `-` and `_` only");
    }
    Ok(())
}

/// The name of a namespace: `bw-PID-START-LABEL`.
pub(crate) fn name_of(owner: Owner, label: &str) -> String {
    format!("bw-{}-{}-{label}", owner.pid, owner.start_ticks)
}

/// The owner that a name tells; `None` for every name that [`name_of`] does not make.
fn owner_of(name: &str) -> Option<Owner> {
    let mut parts = name.strip_prefix("bw-")?.splitn(3, '-');
    let owner = Owner { pid: parts.next()?.parse().ok()?, start_ticks: parts.next()?.parse().ok()? };
    let label = parts.next()?;
    // Parsing takes `+7` and `007`, naming does not make them.
    (owner.pid > 0 && check_label(label).is_ok() && name_of(owner, label) == name).then_some(owner)
}

/// Removes the namespaces that dead processes of barewire left behind, and says their names. Nothing else is touched: a
/// name must tell an owner, and the owner must be gone. Processes that still run inside keep their namespace until they
/// end; only its name goes.
///
/// # Errors
/// [`NetnsError::System`] when a leftover cannot be removed; those before it are.
pub fn sweep_stale() -> Result<Vec<String>, NetnsError> {
    let entries = match fs::read_dir(NETNS_DIR) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(NetnsError::system(format!("list {NETNS_DIR}"))(e)),
    };
    let mut removed = Vec::new();
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Some(owner) = owner_of(&name) else { continue };
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) || owner.is_alive() {
            continue;
        }
        remove(&entry.path())?;
        removed.push(name);
    }
    Ok(removed)
}

/// Takes a namespace's name away. That it is gone already is no error.
pub(crate) fn remove(path: &Path) -> Result<(), NetnsError> {
    // The topmost mount, never through a symbolic link.
    match unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // Not a mount: killed between the file and its mount. Not there: somebody swept.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(e) => return Err(NetnsError::system(format!("unmount {}", path.display()))(e.into())),
    }
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(NetnsError::system(format!("remove {}", path.display()))(e))
        }
        _ => Ok(()),
    }
}

/// Makes the folder of names as `ip netns` does: shared, so that a mount namespace copied from ours does not keep a
/// namespace alive that we removed.
pub(crate) fn prepare_dir() -> Result<PathBuf, NetnsError> {
    let dir = Path::new(NETNS_DIR);
    let doing = || NetnsError::system(format!("prepare {NETNS_DIR}"));
    fs::create_dir_all(dir).map_err(doing())?;
    // Two processes at once would both find no mount and stack two; the lock ends with the file.
    let lock = File::open(dir).map_err(doing())?;
    lock.lock().map_err(doing())?;
    // Mounts below it, and their ends, reach every copy of it in other mount namespaces.
    let share = || mount_change(dir, MountPropagationFlags::SHARED | MountPropagationFlags::REC);
    match share() {
        Ok(()) => Ok(dir.to_path_buf()),
        // No mount point yet.
        Err(Errno::INVAL) => mount_bind_recursive(dir, dir)
            .and_then(|()| share())
            .map(|()| dir.to_path_buf())
            .map_err(|e| doing()(e.into())),
        Err(e) => Err(doing()(e.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_owner_and_nothing_else_does() {
        let owner = Owner { pid: 4711, start_ticks: 99 };
        assert_eq!(name_of(owner, "demo-a"), "bw-4711-99-demo-a");
        assert_eq!(owner_of("bw-4711-99-demo-a"), Some(owner));
        for foreign in [
            "bw-4711-99",
            "bw-4711-99-",
            "bw-+4711-99-a",
            "bw-04711-99-a",
            "bw-0-99-a",
            "bw--4711-99-a",
            "bw-4711-x-a",
            "h1",
            "bw-99999999999-1-a",
            "xbw-4711-99-a",
            "bw-4711-99-A",
            "bw-4711-99-a/b",
            "BW-4711-99-a",
            "bw-4711-99-a b",
            "",
        ] {
            assert_eq!(owner_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn labels_are_checked() {
        for label in ["", "A", "a b", "a/b", "..", "ä", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
            assert!(matches!(check_label(label), Err(NetnsError::BadName { .. })), "{label}");
        }
        assert!(check_label("demo-a_1").is_ok());
    }
}
