//! Exact keys: one hash index; the key itself is compared in the record, which the look-up needs anyway.

use crate::error::EntryError;
use crate::hash::{Index, Seeds};
use crate::slab::Slab;

/// An exact table's structure. Records keep their keys from word `at`.
#[derive(Debug)]
pub(crate) struct Exact {
    pub(crate) index: Index,
    seeds: Seeds,
    at: usize,
    words: usize,
}

impl Exact {
    pub(crate) fn new(at: usize, words: usize) -> Exact {
        Exact { index: Index::new(), seeds: Seeds::new(), at, words }
    }

    #[inline]
    pub(crate) fn find1(&self, slab: &Slab, k0: u64) -> u32 {
        let at = self.at;
        self.index.find(self.seeds.hash1(k0), |record| slab.word(record, at) == k0).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn find2(&self, slab: &Slab, k0: u64, k1: u64) -> u32 {
        let eq = |record| {
            let key = &slab.get(record)[self.at..];
            key[0] == k0 && key[1] == k1
        };
        self.index.find(self.seeds.hash2(k0, k1), eq).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn find(&self, slab: &Slab, key: &[u64]) -> u32 {
        let hash = self.seeds.hash(key.iter().copied());
        self.index.find(hash, |record| slab.get(record)[self.at..][..self.words] == *key).unwrap_or(0)
    }

    fn hash_of(&self, slab: &Slab, record: u32) -> u64 {
        self.seeds.hash(slab.get(record)[self.at..][..self.words].iter().copied())
    }

    /// Insert a record whose key is in place and not in the table.
    pub(crate) fn insert(&mut self, slab: &Slab, record: u32) -> Result<(), EntryError> {
        let hash = self.hash_of(slab, record);
        let (seeds, at, words) = (self.seeds, self.at, self.words);
        self.index.insert(hash, record, |record| seeds.hash(slab.get(record)[at..][..words].iter().copied()))
    }

    pub(crate) fn remove(&mut self, slab: &Slab, record: u32) {
        let hash = self.hash_of(slab, record);
        self.index.remove(hash, record);
    }
}
