//! The counters page: a file of named 64-bit counters. One process writes it, any may read.
//!
//! The writer maps the file and a count is one store; a name is written once. The reader copies with `pread`, so that no
//! file, however damaged, can make it fault, and the writer never notices it.
//!
//! # Layout (native byte order: a page is read on the machine that wrote it)
//! ```text
//! header, 128 bytes                            entry, 128 bytes, `capacity` times
//!   0  magic        u64  "BWCOUNTS"              0  state       u8   0 free, 1 live
//!   8  version      u32                          1  kind        u8   1 counter, 2 gauge
//!  12  pid          u32  of the owner            2  name length u8   1..=103
//!  16  start_ticks  u64  of the owner            8  value       u64
//!  24  created_ns   u64  CLOCK_MONOTONIC        16  name        103 bytes of UTF-8
//!  32  capacity     u32  entries
//!  36  entry_len    u32  128
//!  40  name length  u8, then the page's name, at most 87 bytes
//! ```
//! Bytes 0 to 24 keep their meaning in every version, so that a build of one version recognises a dead owner of another.
//! The first word of an entry is written in one store when the name is in place. Unknown kinds are skipped by readers.

mod owner;
mod reader;
mod writer;

pub use owner::Owner;
pub use reader::CountersReader;
pub use writer::{CounterSlot, CountersPage, page_of_draft};

use crate::PageError;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Most counters that a page may have.
pub const CAPACITY_MAX: usize = 65_536;
/// Longest name of a counter in bytes.
pub const COUNTER_NAME_MAX: usize = 103;
/// Longest name of a page in bytes.
pub const PAGE_NAME_MAX: usize = 87;

const MAGIC: u64 = u64::from_le_bytes(*b"BWCOUNTS");
const VERSION: u32 = 1;
const HEADER_LEN: usize = 128;
const ENTRY_LEN: usize = 128;
/// Offset of an entry's name.
const NAME_AT: usize = 16;
const STATE_LIVE: u8 = 1;

/// How a counter's value is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum CounterKind {
    /// Only grows; readers show its rate.
    Counter = 1,
    /// Goes up and down, or is a maximum.
    Gauge = 2,
}

impl CounterKind {
    fn from_byte(byte: u8) -> Option<CounterKind> {
        match byte {
            1 => Some(CounterKind::Counter),
            2 => Some(CounterKind::Gauge),
            _ => None,
        }
    }
}

/// Where pages are looked for, in this order: `$XDG_RUNTIME_DIR`, `/run/barewire`, `/dev/shm`. Anybody may write to the last one.
pub fn counters_folders() -> impl Iterator<Item = PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    runtime.into_iter().chain([PathBuf::from(RUN_DIRECTORY), PathBuf::from(SHARED_DIRECTORY)])
}

/// The system's directory for pages; made when it is missing and may be made.
const RUN_DIRECTORY: &str = "/run/barewire";
/// Where anybody may put one.
const SHARED_DIRECTORY: &str = "/dev/shm";

/// Where a page `name` is created by default: `barewire-NAME.counters` in the first of `$XDG_RUNTIME_DIR`, `/run/barewire`
/// and `/dev/shm` that this process may put a file into. [`CountersReader::find`] looks in all three.
///
/// # Errors
/// [`PageError::BadName`].
pub fn counters_path(name: &str) -> Result<PathBuf, PageError> {
    let file = file_name(name)?;
    let usable = |dir: &PathBuf| {
        // `create_dir`, not `create_dir_all`: a machine without /run gets none from us.
        let is_there = dir.is_dir() || (dir == Path::new(RUN_DIRECTORY) && std::fs::create_dir(dir).is_ok());
        is_there && takes_files(dir)
    };
    let dir = counters_folders().find(usable).unwrap_or_else(std::env::temp_dir);
    Ok(dir.join(file))
}

/// Tried with a file that has no name and goes when it is closed.
fn takes_files(dir: &Path) -> bool {
    OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(dir).is_ok()
}

/// Names of the pages where [`counters_path`] may have put them, sorted; dead ones included.
pub fn counters_pages() -> Vec<String> {
    let files = counters_folders().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let name = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().ok()?;
        let name = name.strip_prefix("barewire-")?.strip_suffix(".counters")?;
        file_name(name).is_ok().then(|| name.to_owned())
    };
    let names: std::collections::BTreeSet<String> = files.filter_map(name).collect();
    names.into_iter().collect()
}

fn file_name(name: &str) -> Result<String, PageError> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || name.len() > PAGE_NAME_MAX || !name.bytes().all(good) {
        return Err(PageError::BadName { name: name.into() });
    }
    Ok(format!("barewire-{name}.counters"))
}

/// A page's header, taken from bytes that nobody vouches for.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Header {
    owner: Owner,
    created_ns: u64,
    capacity: usize,
    name: String,
}

fn u32_at(bytes: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8; HEADER_LEN], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]))
}

impl Header {
    fn emit(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..8].copy_from_slice(&MAGIC.to_ne_bytes());
        out[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        out[12..16].copy_from_slice(&self.owner.pid.to_ne_bytes());
        out[16..24].copy_from_slice(&self.owner.start_ticks.to_ne_bytes());
        out[24..32].copy_from_slice(&self.created_ns.to_ne_bytes());
        out[32..36].copy_from_slice(&(self.capacity as u32).to_ne_bytes());
        out[36..40].copy_from_slice(&(ENTRY_LEN as u32).to_ne_bytes());
        let name = truncated(&self.name, PAGE_NAME_MAX).as_bytes();
        out[40] = name.len() as u8;
        out[41..41 + name.len()].copy_from_slice(name);
        out
    }

    /// The owner, in whatever version.
    fn parse_owner(bytes: &[u8; HEADER_LEN], path: &Path) -> Result<Owner, PageError> {
        if u64_at(bytes, 0) != MAGIC {
            return Err(PageError::NotAPage { path: path.into() });
        }
        Ok(Owner { pid: u32_at(bytes, 12), start_ticks: u64_at(bytes, 16) })
    }

    /// The whole header of a file of `file_len` bytes.
    fn parse(bytes: &[u8; HEADER_LEN], file_len: u64, path: &Path) -> Result<Header, PageError> {
        let owner = Self::parse_owner(bytes, path)?;
        let found = u32_at(bytes, 8);
        if found != VERSION {
            return Err(PageError::Version { path: path.into(), found, expected: VERSION });
        }
        let damaged = |what| PageError::Damaged { path: path.into(), what };
        let capacity = u32_at(bytes, 32) as usize;
        if u32_at(bytes, 36) as usize != ENTRY_LEN || !(1..=CAPACITY_MAX).contains(&capacity) {
            return Err(damaged("impossible sizes"));
        }
        if file_len < page_len(capacity) as u64 {
            return Err(damaged("shorter than its header says"));
        }
        let name_len = bytes[40] as usize;
        let name = bytes.get(41..41 + name_len).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.filter(|name| printable(name)).ok_or_else(|| damaged("bad name"))?;
        Ok(Header { owner, created_ns: u64_at(bytes, 24), capacity, name: name.to_owned() })
    }
}

/// Bytes in a page of `capacity` entries.
fn page_len(capacity: usize) -> usize {
    HEADER_LEN + capacity * ENTRY_LEN
}

/// Fit to be shown on a terminal: a name may come from a file that somebody else wrote.
fn printable(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(char::is_control)
}

/// The longest start of `text` that fits `max` bytes.
fn truncated(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
