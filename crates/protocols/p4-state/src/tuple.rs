//! Entries gathered under one mask: a hash index of their values there. (Tuple space search has one of these for each mask.)

use crate::error::EntryError;
use crate::hash::{Index, Seeds};
use crate::slab::Slab;
use std::collections::{BTreeMap, BTreeSet};

/// Entries of one value under a coarse mask at most: each may have to be compared.
const CHAIN: usize = 16;

/// Words of a cache line.
const LINE: usize = 8;

/// Where a ternary record keeps what the structures need of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    /// Priority, then handle: lower wins.
    pub(crate) rank: usize,
    /// The value, `words` words; then the mask, `words` more; then the ranges' ends.
    pub(crate) value: usize,
    pub(crate) words: usize,
    pub(crate) ends: usize,
    pub(crate) end_words: usize,
    /// Which block or tuple it is in, and where.
    pub(crate) home: usize,
    /// Its neighbours in the list it is in: next, then previous.
    pub(crate) links: usize,
    /// The number of the mask it is gathered under, and whether its ranges must be looked at.
    pub(crate) group: usize,
}

impl Tail {
    /// The tail of a record whose first `at` words are taken. What a comparison reads starts a cache line if that costs no
    /// memory.
    pub(crate) fn new(at: usize, words: usize, end_words: usize) -> Tail {
        let (hot, cold) = (1 + 2 * words + end_words, 3);
        let aligned = at.next_multiple_of(LINE);
        let splits = at % LINE + hot > LINE;
        let free = (aligned + hot + cold).div_ceil(LINE) == (at + hot + cold).div_ceil(LINE);
        let at = if splits && free { aligned } else { at };
        let value = at + 1;
        let ends = value + 2 * words;
        let home = ends + end_words;
        Tail { rank: at, value, words, ends, end_words, home, links: home + 1, group: home + 2 }
    }

    /// The first word after it.
    pub(crate) fn end(&self) -> usize {
        self.group + 1
    }

    pub(crate) fn value_of<'a>(&self, slab: &'a Slab, record: u32) -> &'a [u64] {
        &slab.get(record)[self.value..][..self.words]
    }

    pub(crate) fn mask_of<'a>(&self, slab: &'a Slab, record: u32) -> &'a [u64] {
        &slab.get(record)[self.value + self.words..][..self.words]
    }

    pub(crate) fn next(&self, slab: &Slab, record: u32) -> u32 {
        slab.word(record, self.links) as u32
    }

    fn previous(&self, slab: &Slab, record: u32) -> u32 {
        (slab.word(record, self.links) >> 32) as u32
    }

    /// Put a record between two neighbours, 0 for none.
    pub(crate) fn link(&self, slab: &mut Slab, previous: u32, record: u32, next: u32) {
        slab.get_mut(record)[self.links] = u64::from(previous) << 32 | u64::from(next);
        self.join(slab, previous, record);
        self.join(slab, record, next);
    }

    /// Take a record out of its list. Gives its neighbours.
    pub(crate) fn unlink(&self, slab: &mut Slab, record: u32) -> (u32, u32) {
        let (previous, next) = (self.previous(slab, record), self.next(slab, record));
        self.join(slab, previous, next);
        (previous, next)
    }

    fn join(&self, slab: &mut Slab, previous: u32, next: u32) {
        if previous != 0 {
            let links = &mut slab.get_mut(previous)[self.links];
            *links = *links & !0xffff_ffff | u64::from(next);
        }
        if next != 0 {
            let links = &mut slab.get_mut(next)[self.links];
            *links = *links & 0xffff_ffff | u64::from(previous) << 32;
        }
    }
}

/// The entries gathered under one mask.
#[derive(Debug)]
pub(crate) struct Tuple {
    mask: Box<[u64]>,
    /// The mask is that of all its entries: what agrees under it matches.
    pub(crate) exact: bool,
    /// For each value the entry of lowest rank. Under a coarse mask it is the first of a list by rank.
    pub(crate) index: Index,
    /// Under an exact mask: entries that one of lower rank with the same value hides, by hash and rank.
    hidden: BTreeMap<(u64, u64), u32>,
    /// All ranks.
    ranks: BTreeSet<u64>,
    /// The lowest rank.
    pub(crate) best: u64,
}

impl Tuple {
    pub(crate) fn new(mask: &[u64], exact: bool) -> Tuple {
        Tuple {
            mask: mask.into(),
            exact,
            index: Index::new(),
            hidden: BTreeMap::new(),
            ranks: BTreeSet::new(),
            best: u64::MAX,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranks.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.index.bytes() + self.ranks.len() * 16 + self.hidden.len() * 32
    }

    /// The first record that agrees with the key under the mask.
    #[inline]
    pub(crate) fn find1(&self, slab: &Slab, tail: &Tail, seeds: Seeds, k0: u64) -> Option<u32> {
        let mask = self.mask[0];
        let k0 = k0 & mask;
        self.index.find(seeds.hash1(k0), |record| slab.word(record, tail.value) & mask == k0)
    }

    #[inline]
    pub(crate) fn find2(&self, slab: &Slab, tail: &Tail, seeds: Seeds, k0: u64, k1: u64) -> Option<u32> {
        let [m0, m1] = self.mask[..] else { return None };
        let (k0, k1) = (k0 & m0, k1 & m1);
        self.index.find(seeds.hash2(k0, k1), |record| {
            let value = &slab.get(record)[tail.value..];
            value[0] & m0 == k0 && value[1] & m1 == k1
        })
    }

    #[inline]
    pub(crate) fn find(&self, slab: &Slab, tail: &Tail, seeds: Seeds, key: &[u64]) -> Option<u32> {
        let hash = seeds.hash(key.iter().zip(&self.mask).map(|(key, mask)| key & mask));
        self.index.find(hash, |record| self.agree(tail.value_of(slab, record), key))
    }

    #[inline]
    fn agree(&self, a: &[u64], b: &[u64]) -> bool {
        a.iter().zip(b).zip(&self.mask).all(|((a, b), mask)| (a ^ b) & mask == 0)
    }

    fn hash_of(&self, slab: &Slab, tail: &Tail, seeds: Seeds, record: u32) -> u64 {
        hash_under(&self.mask, slab, tail, seeds, record)
    }

    fn same_value(&self, slab: &Slab, tail: &Tail, hash: u64, record: u32) -> Option<u32> {
        let value = tail.value_of(slab, record);
        self.index.find(hash, |other| self.agree(tail.value_of(slab, other), value))
    }

    /// Whether the tuple takes the record: a list may be full, an index crowded.
    pub(crate) fn insert(&mut self, slab: &mut Slab, tail: &Tail, seeds: Seeds, record: u32) -> bool {
        let hash = self.hash_of(slab, tail, seeds, record);
        let rank = slab.word(record, tail.rank);
        let same = self.same_value(slab, tail, hash, record);
        match same {
            None => {
                let mask = &self.mask;
                let inserted: Result<(), EntryError> =
                    self.index.insert(hash, record, |record| hash_under(mask, slab, tail, seeds, record));
                if inserted.is_err() {
                    return false;
                }
                tail.link(slab, 0, record, 0);
            }
            Some(first) if !self.exact => {
                let (mut previous, mut next, mut len) = (0, first, 0);
                let mut tail_end = first;
                while tail_end != 0 {
                    len += 1;
                    tail_end = tail.next(slab, tail_end);
                }
                if len >= CHAIN {
                    return false;
                }
                while next != 0 && slab.word(next, tail.rank) < rank {
                    (previous, next) = (next, tail.next(slab, next));
                }
                tail.link(slab, previous, record, next);
                if previous == 0 {
                    self.index.replace(hash, first, record);
                }
            }
            Some(other) if rank < slab.word(other, tail.rank) => {
                self.index.replace(hash, other, record);
                self.hidden.insert((hash, slab.word(other, tail.rank)), other);
            }
            Some(_) => {
                self.hidden.insert((hash, rank), record);
            }
        }
        self.ranks.insert(rank);
        self.best = self.best.min(rank);
        true
    }

    pub(crate) fn remove(&mut self, slab: &mut Slab, tail: &Tail, seeds: Seeds, record: u32) {
        let hash = self.hash_of(slab, tail, seeds, record);
        let rank = slab.word(record, tail.rank);
        if !self.exact {
            let (previous, next) = tail.unlink(slab, record);
            if previous == 0 && next == 0 {
                self.index.remove(hash, record);
            } else if previous == 0 {
                self.index.replace(hash, record, next);
            }
        } else if self.same_value(slab, tail, hash, record) == Some(record) {
            let value = tail.value_of(slab, record);
            let mut heirs = self.hidden.range((hash, 0)..=(hash, u64::MAX));
            let heir = heirs.find(|&(_, &heir)| tail.value_of(slab, heir) == value);
            match heir.map(|(&at, &heir)| (at, heir)) {
                Some((at, heir)) => {
                    self.hidden.remove(&at);
                    self.index.replace(hash, record, heir);
                }
                None => {
                    self.index.remove(hash, record);
                }
            }
        } else {
            self.hidden.remove(&(hash, rank));
        }
        self.ranks.remove(&rank);
        self.best = self.ranks.first().copied().unwrap_or(u64::MAX);
    }
}

fn hash_under(mask: &[u64], slab: &Slab, tail: &Tail, seeds: Seeds, record: u32) -> u64 {
    seeds.hash(tail.value_of(slab, record).iter().zip(mask).map(|(value, mask)| value & mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that everybody shares under a coarse mask must not make look-ups compare everybody.
    #[test]
    fn a_list_under_a_coarse_mask_is_bounded_and_in_order() {
        let tail = Tail::new(0, 1, 0);
        let mut slab = Slab::new(tail.end(), 64);
        let seeds = Seeds::new();
        let coarse = 0xffff_0000;
        let mut tuple = Tuple::new(&[coarse], false);
        let most = CHAIN as u32;
        // The best comes neither first nor last; record 0 stands for none.
        let rank_of = |record: u32| u64::from(record * 7 % (most + 1));
        for record in 1..=most + 1 {
            slab.ensure(record);
            let fields = slab.get_mut(record);
            fields[tail.rank] = rank_of(record);
            fields[tail.value] = 0xabcd_0000 | u64::from(record);
            fields[tail.value + 1] = u64::MAX;
            let taken = tuple.insert(&mut slab, &tail, seeds, record);
            assert_eq!(taken, record <= most, "record {record}");
        }
        let list = |tuple: &Tuple, slab: &Slab| {
            let mut next = tuple.find1(slab, &tail, seeds, 0xabcd_1234).unwrap_or(0);
            let mut records = Vec::new();
            while next != 0 {
                records.push(next);
                next = tail.next(slab, next);
            }
            records
        };
        let mut expected: Vec<u32> = (1..=most).collect();
        expected.sort_by_key(|record| rank_of(*record));
        assert_eq!(list(&tuple, &slab), expected);
        assert_eq!(tuple.best, rank_of(expected[0]));
        // The first, the last and one between go; then there is room again, at its place.
        for at in [0, expected.len() - 2, 5] {
            let gone = expected.remove(at);
            tuple.remove(&mut slab, &tail, seeds, gone);
            assert_eq!((list(&tuple, &slab), tuple.best), (expected.clone(), rank_of(expected[0])));
        }
        assert!(tuple.insert(&mut slab, &tail, seeds, most + 1));
        expected.push(most + 1);
        expected.sort_by_key(|record| rank_of(*record));
        assert_eq!(list(&tuple, &slab), expected);
        for record in expected {
            tuple.remove(&mut slab, &tail, seeds, record);
        }
        assert!(tuple.is_empty() && tuple.find1(&slab, &tail, seeds, 0xabcd_0000).is_none());
        assert_eq!(tuple.best, u64::MAX);
    }
}
