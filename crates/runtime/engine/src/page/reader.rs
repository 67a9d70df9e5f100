//! Reading somebody's page.

use super::writer::open_page;
use super::{COUNTER_NAME_MAX, CounterKind, ENTRY_LEN, HEADER_LEN, Header, NAME_AT, STATE_LIVE};
use super::{SHARED_DIRECTORY, counters_folders, file_name, page_len, printable};
use crate::PageError;
use barewire_base::Instant;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A page that another process writes, or this one. Never writes to it.
#[derive(Debug)]
pub struct CountersReader {
    path: PathBuf,
    file: File,
    /// Whose file it is.
    uid: u32,
    header: Header,
    /// The entries as last copied; all of them, from the start.
    copy: Vec<u8>,
}

impl CountersReader {
    /// Opens the page at `path`. A page whose owner is dead opens too: its last values may be of interest
    /// ([`owner_alive`](CountersReader::owner_alive) tells).
    ///
    /// # Errors
    /// [`PageError::Io`], [`PageError::NotAPage`], [`PageError::Version`], [`PageError::Damaged`].
    pub fn open(path: impl AsRef<Path>) -> Result<CountersReader, PageError> {
        let path = path.as_ref();
        let fail = |call| move |source| PageError::Io { path: path.to_owned(), call, source };
        let file = open_page(path).map_err(fail("open"))?;
        let meta = file.metadata().map_err(fail("stat"))?;
        if !meta.is_file() {
            return Err(PageError::NotAPage { path: path.into() });
        }
        let mut bytes = [0; HEADER_LEN];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(PageError::NotAPage { path: path.into() });
            }
            Err(error) => return Err(fail("read")(error)),
        }
        let header = Header::parse(&bytes, meta.len(), path)?;
        let copy = vec![0; page_len(header.capacity) - HEADER_LEN];
        Ok(CountersReader { path: path.into(), file, uid: meta.uid(), header, copy })
    }

    /// Opens the page `name` where [`counters_path`](crate::counters_path) may have put it: the first whose owner lives,
    /// else the first there is.
    ///
    /// # Errors
    /// As [`open`](CountersReader::open), or [`PageError::BadName`].
    pub fn find(name: &str) -> Result<CountersReader, PageError> {
        let file = file_name(name)?;
        let mut found: Option<Result<CountersReader, PageError>> = None;
        for dir in counters_folders() {
            let opened = Self::open(dir.join(&file));
            match &opened {
                Ok(reader) if reader.owner_alive() => return opened,
                // Not there is the least interesting answer, a dead page the most.
                Err(PageError::Io { source, .. })
                    if source.kind() == ErrorKind::NotFound && found.is_some() => {}
                _ if matches!(found, Some(Ok(_))) => {}
                _ => found = Some(opened),
            }
        }
        found.unwrap_or(Err(PageError::BadName { name: name.into() }))
    }

    /// The page's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The page's name.
    pub fn name(&self) -> &str {
        &self.header.name
    }

    /// The owner's process id.
    pub fn pid(&self) -> u32 {
        self.header.owner.pid
    }

    /// The user whose file it is.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Whether it lies where any user may put one of any name.
    pub fn is_in_shared_folder(&self) -> bool {
        self.path.parent() == Some(Path::new(SHARED_DIRECTORY))
    }

    /// When the page was created, by `CLOCK_MONOTONIC`.
    pub fn created(&self) -> Instant {
        Instant::from_nanos(self.header.created_ns)
    }

    /// How many counters have room.
    pub fn capacity(&self) -> usize {
        self.header.capacity
    }

    /// Does the owner still run? Judged by process id and start time, so a reader in another PID namespace judges wrongly.
    pub fn owner_alive(&self) -> bool {
        self.header.owner.is_alive()
    }

    /// Copies the page and walks its live counters: name, kind, value. Each value is whole; together they are not one
    /// instant's. Names hold no control characters; entries that make no sense are skipped.
    ///
    /// # Errors
    /// [`PageError::Damaged`] when the file has become too short, [`PageError::Io`].
    pub fn read(&mut self) -> Result<impl Iterator<Item = (&str, CounterKind, u64)>, PageError> {
        match self.file.read_exact_at(&mut self.copy, HEADER_LEN as u64) {
            Ok(()) => Ok(self.copy.as_chunks().0.iter().filter_map(entry)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(PageError::Damaged { path: self.path.clone(), what: "shorter than its header says" })
            }
            Err(source) => Err(PageError::Io { path: self.path.clone(), call: "read", source }),
        }
    }
}

fn entry(bytes: &[u8; ENTRY_LEN]) -> Option<(&str, CounterKind, u64)> {
    let (kind, name_len) = (CounterKind::from_byte(bytes[1])?, usize::from(bytes[2]));
    if bytes[0] != STATE_LIVE || name_len > COUNTER_NAME_MAX {
        return None;
    }
    let name =
        std::str::from_utf8(&bytes[NAME_AT..NAME_AT + name_len]).ok().filter(|name| printable(name))?;
    Some((name, kind, u64::from_ne_bytes(std::array::from_fn(|i| bytes[8 + i]))))
}
