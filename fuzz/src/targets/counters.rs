//! The counters page of another process.

use barewire_engine::{CAPACITY_MAX, COUNTER_NAME_MAX, CounterKind, CountersPage, CountersReader};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bytes of the header and of an entry.
const BLOCK: usize = 128;

/// A file of this thread's, gone with it.
struct Scratch {
    path: PathBuf,
    file: File,
}

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("barewire-fuzz-{}-{}.counters", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = folder.join(name);
        let file = File::create(&path).expect("a scratch file");
        Scratch { path, file }
    }

    fn fill(&self, bytes: &[u8]) {
        self.file.set_len(0).expect("a scratch file can be cut");
        self.file.write_all_at(bytes, 0).expect("a scratch file can be written");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

thread_local! {
    static SCRATCH: Scratch = Scratch::new();
}

/// The first two bytes say where the file is cut after it was opened; the rest is the file.
pub fn counters(data: &[u8]) -> u64 {
    let Some((cut, file)) = data.split_first_chunk() else { return 0 };
    let cut = usize::from(u16::from_be_bytes(*cut));
    SCRATCH.with(|scratch| {
        scratch.fill(file);
        let mut reader = match CountersReader::open(&scratch.path) {
            Ok(reader) => reader,
            Err(error) => {
                let _ = error.to_string();
                return 1;
            }
        };
        assert!((1..=CAPACITY_MAX).contains(&reader.capacity()));
        assert!(BLOCK * (1 + reader.capacity()) <= file.len(), "a capacity beyond the file");
        assert!(!reader.name().chars().any(char::is_control));
        let _ = (reader.pid(), reader.created(), reader.owner_alive());
        let capacity = reader.capacity();
        let mut seen = 0;
        for (name, kind, value) in reader.read().expect("the file is as it was") {
            assert!(
                !name.is_empty() && name.len() <= COUNTER_NAME_MAX && !name.chars().any(char::is_control)
            );
            let _ = (kind, value);
            seen += 1;
        }
        assert!(seen <= capacity);
        if cut < file.len() {
            scratch.file.set_len(cut as u64).expect("a scratch file can be cut");
            let whole = cut >= BLOCK * (1 + capacity);
            assert_eq!(reader.read().is_ok(), whole, "cut to {cut} of {}", file.len());
        }
        1 + seen as u64
    })
}

/// A page as we write it, and one that is cut while it is read.
pub fn corpus() -> Vec<Vec<u8>> {
    let scratch = Scratch::new();
    let path = scratch.path.with_extension("page");
    let mut page = CountersPage::create(&path, 5).expect("a page");
    let slots: Vec<_> = ["rx_frames", "tx_frames", "drops.bad_crc"]
        .iter()
        .map(|name| page.register(name, CounterKind::Counter).expect("a slot"))
        .collect();
    for (i, slot) in slots.iter().enumerate() {
        slot.add(1000 + i as u64);
    }
    let mut bytes = fs::read(&path).expect("the page");
    // The owner is this process, which differs from run to run: an owner that cannot be.
    bytes[12..16].fill(0x7f);
    bytes[16..24].fill(0x11);
    bytes[24..32].fill(0x22);
    let name_len = bytes[40] as usize;
    bytes[40] = 4;
    bytes[41..41 + name_len].fill(0);
    bytes[41..45].copy_from_slice(b"page");
    [[0xff, 0xff], [0, 200]].iter().map(|cut| [&cut[..], &bytes].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_valid_and_the_same_each_time() {
        assert_eq!(corpus(), corpus());
        for entry in corpus() {
            assert_eq!(counters(&entry), 4, "a header and three counters");
        }
    }
}
