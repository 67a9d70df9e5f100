//! Making a page and counting on it.

use super::{
    CAPACITY_MAX, COUNTER_NAME_MAX, CounterKind, ENTRY_LEN, HEADER_LEN, Header, NAME_AT, Owner, STATE_LIVE,
};
use super::{page_len, printable};
use crate::sys::Mapping;
use crate::{PageError, RegisterError, now};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

/// How often [`CountersPage::create`] tries again when others create or remove the same page, a millisecond apart.
const CREATE_TRIES: u32 = 200;

/// A page that this process writes. Removed when dropped; slots that outlive it write into the void.
#[derive(Debug)]
pub struct CountersPage {
    path: PathBuf,
    file: File,
    mapping: Arc<Mapping>,
    /// The latest name of each entry. Whether it is still in use is known to the mapping alone: a slot may be dropped on
    /// any thread at any time.
    names: Vec<Box<str>>,
    owner: Owner,
    /// Where to look for a free entry first.
    hint: usize,
}

impl CountersPage {
    /// Creates the page at `path` with room for `capacity` counters (128 bytes each). The page's name is that of the file
    /// without its extension. A page whose owner is dead is replaced; the file appears whole or not at all.
    ///
    /// # Errors
    /// [`PageError::InUse`] when the owner of an existing page lives (it may be this process), [`PageError::NotAPage`] when
    /// something else is at `path`, [`PageError::BadCapacity`], [`PageError::Io`].
    pub fn create(path: impl AsRef<Path>, capacity: usize) -> Result<CountersPage, PageError> {
        let path = path.as_ref();
        if !(1..=CAPACITY_MAX).contains(&capacity) {
            return Err(PageError::BadCapacity { capacity });
        }
        let fail = |call| move |source| PageError::Io { path: path.to_owned(), call, source };
        let name = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
        let name = name.replace(char::is_control, "?");
        let owner = Owner::current();
        let header = Header { owner, created_ns: now().as_nanos(), capacity, name };
        let draft = Draft::new(path).map_err(fail("open"))?;
        // Written, not just extended: the blocks are reserved here, where a full file system is an error and not a fault.
        let mut bytes = vec![0; page_len(capacity)];
        bytes[..HEADER_LEN].copy_from_slice(&header.emit());
        (&draft.file).write_all(&bytes).map_err(fail("write"))?;
        let mapping = Mapping::new(&draft.file, bytes.len() / 8).map_err(fail("mmap"))?;
        let file = draft.file.try_clone().map_err(fail("dup"))?;
        install(&draft, path)?;
        let names = vec![Box::default(); capacity];
        Ok(CountersPage { path: path.into(), file, mapping: Arc::new(mapping), names, owner, hint: 0 })
    }

    /// The page's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many counters have room.
    pub fn capacity(&self) -> usize {
        self.names.len()
    }

    /// Registers a counter at zero. Its entry is free again when the slot is dropped. Looks through the whole page: for
    /// set-up and control planes.
    ///
    /// # Errors
    /// [`RegisterError`]; the page is as it was.
    pub fn register(&mut self, name: &str, kind: CounterKind) -> Result<CounterSlot, RegisterError> {
        if name.len() > COUNTER_NAME_MAX || !printable(name) {
            return Err(RegisterError::BadName);
        }
        let taken = |entry: usize| state_word(&self.mapping, entry).load(Acquire) != 0;
        if self.names.iter().enumerate().any(|(entry, old)| **old == *name && taken(entry)) {
            return Err(RegisterError::Duplicate);
        }
        let mut entries = (self.hint..self.capacity()).chain(0..self.hint);
        let entry = entries.find(|&entry| !taken(entry)).ok_or(RegisterError::Full)?;
        self.hint = (entry + 1) % self.capacity();
        self.names[entry] = name.into();
        let mut field = [0; COUNTER_NAME_MAX];
        field[..name.len()].copy_from_slice(name.as_bytes());
        let at = HEADER_LEN + entry * ENTRY_LEN + NAME_AT;
        self.file.write_all_at(&field, at as u64).map_err(|_| RegisterError::Io)?;
        let slot = CounterSlot { mapping: Arc::clone(&self.mapping), entry };
        slot.set(0);
        let mut state = [0; 8];
        state[..3].copy_from_slice(&[STATE_LIVE, kind as u8, name.len() as u8]);
        state_word(&self.mapping, entry).store(u64::from_ne_bytes(state), Release);
        Ok(slot)
    }
}

impl Drop for CountersPage {
    fn drop(&mut self) {
        // A forked child has a copy of this page but does not own the file; and somebody may have put another there.
        if std::process::id() == self.owner.pid && same_file(&self.file, &self.path).unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn state_word(mapping: &Mapping, entry: usize) -> &AtomicU64 {
    mapping.word((HEADER_LEN + entry * ENTRY_LEN) / 8)
}

/// One counter on a page. Has one writer at a time; adding is a load and a store, not a locked instruction.
#[derive(Debug)]
pub struct CounterSlot {
    mapping: Arc<Mapping>,
    entry: usize,
}

impl CounterSlot {
    #[inline]
    fn value(&self) -> &AtomicU64 {
        self.mapping.word((HEADER_LEN + self.entry * ENTRY_LEN) / 8 + 1)
    }

    /// Replaces the value.
    #[inline]
    pub fn set(&self, value: u64) {
        self.value().store(value, Relaxed);
    }

    /// Adds `n`, wrapping. Two writers would lose counts.
    #[inline]
    pub fn add(&self, n: u64) {
        let value = self.value();
        value.store(value.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The value now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.value().load(Relaxed)
    }
}

impl Drop for CounterSlot {
    fn drop(&mut self) {
        // Release: the next user of the entry comes after our last store to its value.
        state_word(&self.mapping, self.entry).store(0, Release);
    }
}

/// The name of a draft: its page's, which it hides, and who makes it.
fn draft_name(page: &str, [pid, sequence, time]: [u64; 3]) -> String {
    format!(".{page}.{pid}.{sequence}.{time}")
}

/// The name of the page that a file of this name was to become, if it is a draft's. Whoever is killed while it makes its page
/// leaves its draft.
#[must_use]
pub fn page_of_draft(name: &str) -> Option<&str> {
    let name = name.strip_prefix('.')?;
    let mut parts = name.rsplitn(4, '.');
    let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u64>().is_ok());
    let made_by = (0..3).all(|_| is_number(parts.next()));
    parts.next().filter(|page| made_by && !page.is_empty())
}

/// The page under a temporary name beside its place; removed whatever happens.
struct Draft {
    path: PathBuf,
    file: File,
}

impl Draft {
    fn new(place: &Path) -> io::Result<Draft> {
        static SEQUENCE: AtomicU64 = AtomicU64::new(0);
        let name = place.file_name().ok_or(ErrorKind::InvalidInput)?.to_string_lossy();
        let (pid, sequence, time) = (std::process::id(), SEQUENCE.fetch_add(1, Relaxed), now().as_nanos());
        let path = place.with_file_name(draft_name(&name, [pid.into(), sequence, time]));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)?;
        Ok(Draft { path, file })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Puts the draft in its place, unless a live page or something else is there.
fn install(draft: &Draft, path: &Path) -> Result<(), PageError> {
    let fail = |call| move |source| PageError::Io { path: path.to_owned(), call, source };
    for _ in 0..CREATE_TRIES {
        // A link, unlike a rename, never replaces what is there.
        match fs::hard_link(&draft.path, path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fail("link")(error)),
        }
        let old = match open_page(path) {
            Ok(old) => old,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(fail("open")(error)),
        };
        let mut bytes = [0; HEADER_LEN];
        if !old.metadata().map_err(fail("stat"))?.is_file() || old.read_exact_at(&mut bytes, 0).is_err() {
            return Err(PageError::NotAPage { path: path.into() });
        }
        let owner = Header::parse_owner(&bytes, path)?;
        if owner.is_alive() {
            return Err(PageError::InUse { path: path.into(), pid: owner.pid });
        }
        // Whoever replaces a page holds the lock of the file it replaces. So of two who find the same dead one, the second
        // sees that the path has moved on, and does not remove the first one's page.
        match old.try_lock() {
            Ok(()) if same_file(&old, path).map_err(fail("stat"))? => {
                return fs::rename(&draft.path, path).map_err(fail("rename"));
            }
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            Err(TryLockError::Error(error)) => return Err(fail("flock")(error)),
        }
    }
    Err(fail("create")(ErrorKind::ResourceBusy.into()))
}

/// Opens for reading, and neither waits for the other end of a pipe nor follows a link.
pub(super) fn open_page(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

/// Is `file` what `path` names?
fn same_file(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_tells_its_page() {
        for page in ["barewire-a.counters", "a.1.2.3", "x"] {
            assert_eq!(page_of_draft(&draft_name(page, [7, 0, u64::MAX])), Some(page));
        }
        for other in [
            "a.counters",
            "a.counters.7.0.9",
            ".a.counters",
            ".a.counters.7.0",
            ".7.0.9",
            "..7.0.9",
            ".a.x.0.9",
            "",
        ] {
            assert_eq!(page_of_draft(other), None, "{other}");
        }
    }
}
