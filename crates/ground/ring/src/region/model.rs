//! A region of loom's atomics: the same interface without pointers, for models only.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// One word, as eight bytes and as two halves. The two views are separate memory: a model uses a word in one way only.
struct Cell {
    word: AtomicU64,
    halves: [AtomicU32; 2],
}

/// A region of memory that somebody else may write at any time: loom's stand-in.
#[derive(Clone)]
pub struct Region {
    cells: Arc<[Cell]>,
    offset: usize,
    len: usize,
}

impl Region {
    /// `len` zeroed bytes. Call it inside `loom::model`.
    pub fn heap(len: usize) -> Region {
        let cell = |_| Cell { word: AtomicU64::new(0), halves: [AtomicU32::new(0), AtomicU32::new(0)] };
        Region { cells: (0..len.div_ceil(8)).map(cell).collect(), offset: 0, len }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes from `offset` as a region of their own, over the same memory. `None` when out of bounds.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Region> {
        self.contains(offset, len).then(|| Region {
            cells: Arc::clone(&self.cells),
            offset: self.offset + offset,
            len,
        })
    }

    fn contains(&self, offset: usize, len: usize) -> bool {
        offset <= self.len && len <= self.len - offset
    }

    /// Copies `out.len()` bytes from `offset` into `out`. False when out of bounds.
    #[must_use]
    pub fn read(&self, offset: usize, out: &mut [u8]) -> bool {
        if !self.contains(offset, out.len()) {
            return false;
        }
        for (k, byte) in out.iter_mut().enumerate() {
            let at = self.offset + offset + k;
            *byte = self.cells[at / 8].word.load(Ordering::Relaxed).to_ne_bytes()[at % 8];
        }
        true
    }

    /// Copies `bytes` to `offset`. False when out of bounds.
    #[must_use]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        if !self.contains(offset, bytes.len()) {
            return false;
        }
        for (k, &byte) in bytes.iter().enumerate() {
            let at = self.offset + offset + k;
            let cell = &self.cells[at / 8].word;
            let mut word = cell.load(Ordering::Relaxed).to_ne_bytes();
            word[at % 8] = byte;
            cell.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        true
    }

    /// Sets `len` bytes from `offset` to `byte`. False when out of bounds.
    #[must_use]
    pub fn fill(&self, offset: usize, len: usize, byte: u8) -> bool {
        self.contains(offset, len) && self.write(offset, &vec![byte; len])
    }

    /// The word at `offset`, relaxed. `None` when out of bounds or unaligned.
    pub fn load_u64(&self, offset: usize) -> Option<u64> {
        Some(self.atomic_u64(offset)?.load(Ordering::Relaxed))
    }

    /// Stores the word at `offset`, relaxed. False when out of bounds or unaligned.
    #[must_use]
    pub fn store_u64(&self, offset: usize, value: u64) -> bool {
        let Some(word) = self.atomic_u64(offset) else { return false };
        word.store(value, Ordering::Relaxed);
        true
    }

    /// The word at `offset` as an atomic. `None` when out of bounds or unaligned.
    pub fn atomic_u64(&self, offset: usize) -> Option<&AtomicU64> {
        (self.contains(offset, 8) && self.is_aligned_at(offset, 8))
            .then(|| &self.cells[(self.offset + offset) / 8].word)
    }

    /// The four bytes at `offset` as an atomic. `None` when out of bounds or unaligned.
    pub fn atomic_u32(&self, offset: usize) -> Option<&AtomicU32> {
        let at = self.offset.wrapping_add(offset);
        (self.contains(offset, 4) && self.is_aligned_at(offset, 4))
            .then(|| &self.cells[at / 8].halves[at / 4 % 2])
    }

    pub(crate) fn is_aligned_at(&self, offset: usize, align: usize) -> bool {
        self.offset.wrapping_add(offset) & (align - 1) == 0
    }

    /// The word at `offset`.
    ///
    /// # Safety
    /// None is needed here; the signature is that of real memory.
    pub(crate) unsafe fn word(&self, offset: usize) -> &AtomicU64 {
        &self.cells[(self.offset + offset) / 8].word
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Region").field("len", &self.len).finish_non_exhaustive()
    }
}
