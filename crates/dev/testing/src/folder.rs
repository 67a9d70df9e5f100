//! A folder of a test's own.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes, with all that is in it, when the value is dropped. Its path is short enough for the names of sockets.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new, empty folder; `label` stands in its name, for whoever finds one that a killed test has left.
    ///
    /// # Panics
    /// When it cannot be made.
    #[track_caller]
    pub fn new(label: &str) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("bw-{label}-{}-{number}", std::process::id()));
        // Of an earlier process of this number.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Folder(path)
    }

    /// Takes over a folder that is there.
    pub fn take_over(path: PathBuf) -> Folder {
        Folder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_empty_alone_and_goes_with_its_value() {
        let (one, other) = (Folder::new("folder"), Folder::new("folder"));
        assert_ne!(one.path(), other.path());
        std::fs::write(one.file("a"), "text").unwrap();
        assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0);
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }
}
