//! The folder that everything is read below: `/` on a machine, a made tree in a test.

use rustix::fs::OFlags;
use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Most bytes that are read of a file: `/proc/cpuinfo` of a machine with many hundred cores is shorter.
const READ_MAX: u64 = 4 << 20;
/// Most names that are read of a folder.
const NAMES_MAX: usize = 100_000;

/// A folder with `proc` and `sys` in it.
#[derive(Clone, Debug)]
pub struct Root {
    folder: PathBuf,
}

impl Root {
    /// This machine.
    pub fn machine() -> Root {
        Root::at("/")
    }

    /// The tree at `folder`.
    pub fn at(folder: impl AsRef<Path>) -> Root {
        Root { folder: folder.as_ref().to_owned() }
    }

    fn path(&self, path: &str) -> PathBuf {
        // `join` would let an absolute path leave the tree, and a name from a file may climb.
        let inside = Path::new(path).components().filter(|c| matches!(c, std::path::Component::Normal(_)));
        self.folder.join(inside.collect::<PathBuf>())
    }

    /// A file's text without its end; `None` when there is none, it is empty, or it is no file. What is not UTF-8 is replaced.
    pub fn read(&self, path: &str) -> Option<String> {
        // Not to wait for the other end of a pipe.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.path(path)).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(READ_MAX).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A file that holds one number.
    pub fn number(&self, path: &str) -> Option<i64> {
        self.read(path)?.trim().parse().ok()
    }

    /// Whether there is anything at `path`.
    pub fn exists(&self, path: &str) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    /// Names in a folder, sorted; none when there is no such folder.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).take(NAMES_MAX).collect();
        names.sort();
        names
    }

    /// Entries of a folder that are `prefix` and a number, by number.
    pub fn numbered(&self, path: &str, prefix: &str) -> Vec<(u32, String)> {
        let number = |name: &str| name.strip_prefix(prefix)?.parse::<u32>().ok();
        let mut found: Vec<(u32, String)> = self
            .names(path)
            .into_iter()
            .filter_map(|name| Some((number(&name)?, format!("{path}/{name}"))))
            .collect();
        found.sort();
        found
    }

    /// Where `path` leads when every link on the way is followed, below the tree; `None` when it leads nowhere, or out of it.
    pub fn resolved(&self, path: &str) -> Option<String> {
        let tree = self.folder.canonicalize().ok()?;
        let there = self.path(path).canonicalize().ok()?;
        Some(there.strip_prefix(tree).ok()?.to_str()?.to_owned())
    }

    /// The folder above what `path` leads to: not the one above the link. Below the tree, as [`resolved`](Root::resolved).
    pub fn parent(&self, path: &str) -> Option<String> {
        let there = self.resolved(path)?;
        there.rsplit_once('/').map(|(parent, _)| parent.to_owned())
    }

    /// The last part of where a link leads.
    pub fn link_name(&self, path: &str) -> Option<String> {
        let to = fs::read_link(self.path(path)).ok()?;
        Some(to.file_name()?.to_str()?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_tree_is_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("in")).unwrap();
        fs::write(folder.path().join("secret"), "s").unwrap();
        fs::write(folder.path().join("in/a"), " 7 \n").unwrap();
        let root = Root::at(folder.path().join("in"));
        assert_eq!(root.read("../secret"), None);
        assert_eq!(root.read(&folder.path().join("secret").display().to_string()), None);
        assert_eq!(root.number("a"), Some(7));
        assert_eq!(root.number("/../a"), Some(7));
        assert!(!root.exists("../secret") && root.names("..") == ["a"]);
    }

    #[test]
    fn links_are_followed_and_stay_in_the_tree() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("in");
        fs::create_dir_all(inside.join("devices/pci/virtio2/net/eth0")).unwrap();
        fs::create_dir_all(inside.join("class")).unwrap();
        fs::create_dir_all(folder.path().join("out/deep")).unwrap();
        symlink("../devices/pci/virtio2/net/eth0", inside.join("class/eth0")).unwrap();
        symlink("../../../virtio2", inside.join("devices/pci/virtio2/net/eth0/device")).unwrap();
        symlink("../../out/deep", inside.join("class/away")).unwrap();
        let root = Root::at(&inside);
        assert_eq!(root.resolved("class/eth0/device").as_deref(), Some("devices/pci/virtio2"));
        assert_eq!(root.parent("class/eth0/device").as_deref(), Some("devices/pci"));
        assert_eq!((root.resolved("class/away"), root.parent("class/away")), (None, None));
        assert_eq!((root.parent("class"), root.parent("no/such")), (None, None));
    }

    #[test]
    fn pipes_folders_and_bytes_are_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status();
        assert!(made.is_ok_and(|status| status.success()));
        fs::create_dir(folder.path().join("folder")).unwrap();
        fs::write(folder.path().join("bytes"), [0xff, b'a', 0, b'\n']).unwrap();
        fs::write(folder.path().join("empty"), "\n\n").unwrap();
        assert_eq!((root.read("pipe"), root.read("folder"), root.read("empty")), (None, None, None));
        assert_eq!(root.read("bytes").as_deref(), Some("\u{fffd}a\0"));
        assert_eq!(root.number("bytes"), None);
    }
}
