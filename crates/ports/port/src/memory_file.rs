//! The file of a memory link between processes: who made it, who has which end, who died, and who removes it.
//!
//! An end is held by a lock on one byte of the file (an open file description lock, `fcntl(2)`), which the kernel gives up
//! when the process dies, however it dies. That tells the living from the dead where a process id could have been reused,
//! or mean another process in another pid namespace. Everything that is not per frame happens under a third lock.

use crate::memory::{END_AT, MemoryConfig, PID};
use crate::{OpenError, PortUri, sys};
use barewire_base::{Counter, Duration, Instant};
use barewire_ring::Region;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How often an end looks whether the other one died.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often to try for the set-up lock, a millisecond apart: who has it needs microseconds.
const TRIES: u32 = 2000;
const TRIES_ON_DROP: u32 = 50;

/// "bw-mem" and the version of the layout.
const MAGIC: u64 = u64::from_be_bytes(*b"bw-mem\0\x02");
const MAGIC_AT: usize = 0;
const SLOTS_AT: usize = 8;
const SLOT_BYTES_AT: usize = 16;
const HEADER_LEN: usize = 24;

/// The bytes that are locked.
const SETUP_LOCK: u64 = 0;
const END_LOCK: [u64; 2] = [1, 2];

/// A link's file, with one end of it held.
pub(crate) struct LinkFile {
    file: File,
    path: PathBuf,
    me: usize,
    /// The attachment number of a peer that died.
    lost: u64,
    next_look: Instant,
}

/// What [`LinkFile::attach`] found or made. The set-up lock is held until [`LinkFile::end_setup`].
pub(crate) struct Attached {
    pub file: LinkFile,
    pub region: Region,
    pub config: MemoryConfig,
    pub me: usize,
}

impl LinkFile {
    /// Takes an end of the link in the file at `path`; makes the file when nobody has the other end.
    pub fn attach(
        uri: &PortUri,
        path: PathBuf,
        wanted: MemoryConfig,
        agrees: &dyn Fn(MemoryConfig) -> bool,
    ) -> Result<Attached, OpenError> {
        let io = |call: &'static str| move |e: io::Error| uri.io(call, e);
        let mut tries = 0;
        let file = loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)
                .map_err(io("open"))?;
            let meta = file.metadata().map_err(io("stat"))?;
            if !meta.is_file() || meta.uid() != sys::effective_uid() || meta.mode() & 0o077 != 0 {
                return Err(uri.bad(format!(
                    "{} must be a file of this user that nobody else may open (mode 0600)",
                    path.display()
                )));
            }
            if sys::lock_byte(&file, SETUP_LOCK).map_err(io("lock"))? && is_at(&file, &path) {
                break file;
            }
            // Somebody is setting up, or removed the file just now.
            tries += 1;
            if tries == TRIES {
                return Err(uri.io("lock", io::ErrorKind::TimedOut.into()));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        };

        let me = if sys::lock_byte(&file, END_LOCK[0]).map_err(io("lock"))? {
            0
        } else if sys::lock_byte(&file, END_LOCK[1]).map_err(io("lock"))? {
            1
        } else {
            let pid = |end: usize| read_word(&file, END_AT[end] + PID).unwrap_or(0);
            let why = format!("both ends are taken, by processes {} and {}", pid(0), pid(1));
            return Err(uri.io("open", io::Error::new(io::ErrorKind::AddrInUse, why)));
        };
        let other_lives = sys::is_locked_by_other(&file, END_LOCK[1 - me]).map_err(io("lock"))?;
        let (config, region) = if other_lives {
            let config = read_config(&file)
                .ok_or_else(|| uri.bad(format!("{} is not a memory link", path.display())))?;
            if !agrees(config) {
                let MemoryConfig { slots, slot_bytes } = config;
                return Err(uri.bad(format!("the other end has slots={slots} and slot_bytes={slot_bytes}")));
            }
            (config, sys::map_shared(&file, config.region_len()).map_err(io("mmap"))?)
        } else {
            // New, or left by the dead: all zeroes is a fresh link.
            let len = wanted.region_len();
            file.set_len(0).map_err(io("truncate"))?;
            sys::reserve(&file, len).map_err(io("fallocate"))?;
            let region = sys::map_shared(&file, len).map_err(io("mmap"))?;
            let header = [
                (SLOTS_AT, u64::from(wanted.slots)),
                (SLOT_BYTES_AT, u64::from(wanted.slot_bytes)),
                (MAGIC_AT, MAGIC),
            ];
            for (at, word) in header {
                let _ = region.store_u64(at, word);
            }
            (wanted, region)
        };
        let file = LinkFile { file, path, me, lost: 0, next_look: Instant::ZERO };
        Ok(Attached { file, region, config, me })
    }

    /// Lets others attach.
    pub fn end_setup(&self) {
        sys::unlock_byte(&self.file, SETUP_LOCK);
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The attachment number of the other end that was found dead; 0: none was.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Looks, at a low rate, whether the other end, `number`, died. The number was read before the lock is: a successor
    /// that came in between has another one.
    #[inline]
    pub fn look_after(&mut self, now: Instant, other: usize, number: u64, syscalls: &Counter) {
        if now >= self.next_look && number != 0 && number != self.lost {
            self.next_look = now + LOOK_EVERY;
            syscalls.add(1);
            if matches!(sys::is_locked_by_other(&self.file, END_LOCK[other]), Ok(false)) {
                self.lost = number;
            }
        }
    }
}

impl Drop for LinkFile {
    fn drop(&mut self) {
        for _ in 0..TRIES_ON_DROP {
            match sys::lock_byte(&self.file, SETUP_LOCK) {
                Ok(true) => break,
                Ok(false) => std::thread::sleep(std::time::Duration::from_millis(1)),
                Err(_) => return,
            }
        }
        // Without the lock the file stays; whoever comes next makes it anew.
        let alone = matches!(sys::is_locked_by_other(&self.file, END_LOCK[1 - self.me]), Ok(false));
        let locked = matches!(sys::lock_byte(&self.file, SETUP_LOCK), Ok(true));
        if alone && locked && is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether `file` is still what stands at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |m: fs::Metadata| (m.dev(), m.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => id(a) == id(b),
        _ => false,
    }
}

fn read_word(file: &File, at: usize) -> Option<u64> {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, at as u64).ok()?;
    Some(u64::from_ne_bytes(word))
}

/// The geometry in the file's header, when it is one and the file has that size.
fn read_config(file: &File) -> Option<MemoryConfig> {
    if file.metadata().ok()?.len() < HEADER_LEN as u64 || read_word(file, MAGIC_AT)? != MAGIC {
        return None;
    }
    let config = MemoryConfig {
        slots: read_word(file, SLOTS_AT)?.try_into().ok()?,
        slot_bytes: read_word(file, SLOT_BYTES_AT)?.try_into().ok()?,
    };
    config.check().ok()?;
    (file.metadata().ok()?.len() == config.region_len() as u64).then_some(config)
}
