//! Files that the controller puts on a host.

use barewire_measure::realtime_ns;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Files that are not whole yet.
#[derive(Debug, Default)]
pub(super) struct Files {
    open: HashMap<String, Open>,
}

#[derive(Debug)]
struct Open {
    part: PathBuf,
    file: File,
    sum: crc32fast::Hasher,
}

impl Drop for Open {
    fn drop(&mut self) {
        // Renamed by then if it was whole.
        let _ = fs::remove_file(&self.part);
    }
}

impl Files {
    /// Takes a piece of the file `path`, relative to `scratch`, or to the user's folder when it begins with `~/`. True when it was the
    /// last: the file is there then, whole.
    pub(super) fn put(
        &mut self,
        scratch: &Path,
        path: &str,
        mode: u32,
        chunk: &str,
        last: Option<u32>,
    ) -> Result<bool, String> {
        let to = match path.strip_prefix("~/") {
            None => scratch.join(path),
            Some(rest) => {
                std::env::home_dir().ok_or_else(|| format!("{path}: the user has no home folder"))?.join(rest)
            }
        };
        let failed = |e: std::io::Error| format!("{}: {e}", to.display());
        let bytes = BASE64_STANDARD.decode(chunk).map_err(|e| format!("{}: {e}", to.display()))?;
        let mut open = match self.open.remove(path) {
            Some(open) => open,
            None => {
                if let Some(folder) = to.parent() {
                    fs::create_dir_all(folder).map_err(failed)?;
                }
                // Others may write where it is to lie, and a name that they could guess may be a link of theirs: ours is new, or none.
                let mut part = to.clone().into_os_string();
                part.push(format!(".{}-{:x}.part", std::process::id(), realtime_ns()));
                let part = PathBuf::from(part);
                let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
                Open { file: file.map_err(failed)?, part, sum: crc32fast::Hasher::new() }
            }
        };
        open.file.write_all(&bytes).map_err(failed)?;
        open.sum.update(&bytes);
        let Some(expected) = last else {
            self.open.insert(path.to_owned(), open);
            return Ok(false);
        };
        if open.sum.clone().finalize() != expected {
            return Err(format!("{}: arrived damaged", to.display()));
        }
        open.file.set_permissions(Permissions::from_mode(mode & 0o777)).map_err(failed)?;
        // At a stroke: a program that runs keeps its old file.
        fs::rename(&open.part, &to).map_err(failed)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_somebody_left_is_not_followed() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("victim"), "as it was").unwrap();
        fs::set_permissions(at("victim"), Permissions::from_mode(0o600)).unwrap();
        // Where files are put anybody may write, and process numbers can be guessed.
        symlink(at("victim"), at(&format!("tool.{}.part", std::process::id()))).unwrap();
        symlink(at("victim"), at("tool")).unwrap();
        let sum = crc32fast::hash(b"new");
        let path = at("tool").display().to_string();
        let put =
            Files::default().put(folder.path(), &path, 0o755, &BASE64_STANDARD.encode(b"new"), Some(sum));
        assert_eq!(put, Ok(true));
        assert_eq!(fs::read(at("victim")).unwrap(), b"as it was");
        assert_eq!(fs::metadata(at("victim")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read(at("tool")).unwrap(), b"new");
        assert!(!fs::symlink_metadata(at("tool")).unwrap().is_symlink());
    }

    #[test]
    fn files_come_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mut files = Files::default();
        let one = BASE64_STANDARD.encode(b"one ");
        let two = BASE64_STANDARD.encode(b"two");
        let sum = crc32fast::hash(b"one two");
        assert_eq!(files.put(folder.path(), "a/b", 0o755, &one, None), Ok(false));
        assert!(!at("a/b").exists());
        assert_eq!(files.put(folder.path(), "a/b", 0o755, &two, Some(sum)), Ok(true));
        assert_eq!(fs::read(at("a/b")).unwrap(), b"one two");
        assert_eq!(fs::metadata(at("a/b")).unwrap().permissions().mode() & 0o777, 0o755);
        let bad = files.put(folder.path(), "c", 0o600, &one, Some(sum)).unwrap_err();
        assert!(bad.contains("damaged"), "{bad}");
        assert!(files.put(folder.path(), "d", 0o600, "no base64!", None).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing of the others is left");
    }
}
