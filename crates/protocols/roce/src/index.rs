//! Open-addressed tables from a number to a slot. No siphash on the path: the keys are numbers that either we hand out
//! one after another, or that a peer hands out, and a peer that makes its own keys collide slows its own look-ups only
//! as far as [`PROBES_MAX`] allows.

use crate::slab::NONE;
use barewire_ring::{huge, prefetch};

/// Entries looked at before an insertion makes the table grow, or at the largest size is refused.
const PROBES_MAX: usize = 64;
const SIZE_MIN: usize = 64;
const SIZE_MAX: usize = 1 << 26;

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    value: u32,
}

const EMPTY: Entry = Entry { key: 0, value: NONE };

pub(crate) struct Index {
    entries: Vec<Entry>,
    len: usize,
    salt: u64,
}

impl Index {
    pub(crate) fn new(salt: u64) -> Self {
        Index { entries: vec![EMPTY; SIZE_MIN], len: 0, salt: salt | 1 }
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        let mask = self.entries.len() - 1;
        // Numbers are mostly counted up: four neighbours share a cache line, which are scattered as wholes.
        let mixed = ((key >> 2) ^ self.salt.rotate_left(32)).wrapping_mul(self.salt);
        let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 32) as usize & !3 | key as usize & 3) & mask
    }

    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<u32> {
        Some(self.entries[self.find(key)?].value)
    }

    /// Asks for the memory in which a key is or will be.
    #[inline]
    pub(crate) fn expect(&self, key: u64) {
        prefetch(&self.entries[self.home(key)]);
    }

    /// Where a key is.
    #[inline]
    fn find(&self, key: u64) -> Option<usize> {
        let mask = self.entries.len() - 1;
        let mut at = self.home(key);
        loop {
            let entry = self.entries[at];
            if entry.value == NONE {
                return None;
            }
            if entry.key == key {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts a key in that is not there. False when there is no place for it.
    pub(crate) fn insert(&mut self, key: u64, value: u32) -> bool {
        debug_assert!(self.get(key).is_none() && value != NONE);
        // At least half of the entries stay empty, so every search ends.
        if (self.len + 1) * 2 > self.entries.len() && !self.grow() {
            return false;
        }
        while !self.place(key, value) {
            if !self.grow() {
                return false;
            }
        }
        self.len += 1;
        true
    }

    fn place(&mut self, key: u64, value: u32) -> bool {
        let mask = self.entries.len() - 1;
        let home = self.home(key);
        for i in 0..PROBES_MAX {
            let at = (home + i) & mask;
            if self.entries[at].value == NONE {
                self.entries[at] = Entry { key, value };
                return true;
            }
        }
        false
    }

    fn grow(&mut self) -> bool {
        let mut size = self.entries.len();
        // A peer that could make the table grow by collisions alone would own our memory.
        if size >= SIZE_MAX || size > 64 * (self.len + SIZE_MIN) {
            return false;
        }
        let old = std::mem::take(&mut self.entries);
        'larger: loop {
            size *= 2;
            if size > SIZE_MAX {
                self.entries = old;
                return false;
            }
            self.entries = huge::filled(EMPTY, size);
            for entry in &old {
                if entry.value != NONE && !self.place(entry.key, entry.value) {
                    continue 'larger;
                }
            }
            return true;
        }
    }

    /// Takes a key out, and closes the gap so that no search ends too early.
    pub(crate) fn remove(&mut self, key: u64) -> Option<u32> {
        let mask = self.entries.len() - 1;
        let at = self.find(key)?;
        let value = self.entries[at].value;
        let mut hole = at;
        let mut next = (at + 1) & mask;
        while self.entries[next].value != NONE {
            let home = self.home(self.entries[next].key);
            // It may move back when its home is not behind the hole.
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.entries[hole] = self.entries[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.entries[hole] = EMPTY;
        self.len -= 1;
        Some(value)
    }

    /// Keys in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;
    use std::collections::HashMap;

    fn model(seed: u64, first: u64) {
        let mut prng = Prng::new(seed);
        let mut index = Index::new(prng.next_u64());
        let mut truth: HashMap<u64, u32> = HashMap::new();
        for i in 0..20_000u32 {
            let key = first + prng.below(3_000);
            if prng.chance(0.5) {
                assert_eq!(index.remove(key), truth.remove(&key));
            } else if let std::collections::hash_map::Entry::Vacant(place) = truth.entry(key) {
                assert!(index.insert(key, i));
                place.insert(i);
            }
            let probe = first + prng.below(3_000);
            assert_eq!(index.get(probe), truth.get(&probe).copied());
        }
        assert_eq!(index.len(), truth.len());
    }

    #[test]
    fn equals_a_map() {
        for seed in 0..4 {
            model(seed, 0);
            model(seed, u64::MAX - 4_000);
        }
    }

    /// Whoever knows the salt can make keys collide: then insertions are refused before the memory is gone.
    #[test]
    fn keys_that_collide_do_not_eat_the_memory() {
        let mut index = Index::new(1);
        let home = index.home(0);
        let colliding = |index: &Index, key: u64| index.home(key) == home;
        let mut taken = 0u32;
        for key in (0..4_000_000u64).step_by(4) {
            if colliding(&index, key) && index.insert(key, 1) {
                taken += 1;
            }
        }
        assert!(
            taken as usize >= PROBES_MAX && index.entries.len() <= 128 * (taken as usize + SIZE_MIN),
            "{taken}"
        );
    }

    /// Many that stay for long and many that come and go, with numbers counted up: no search gets long.
    #[test]
    fn numbers_that_are_counted_up_stay_apart() {
        let mut index = Index::new(0x1234_5678_9abc_def1);
        for key in 0..50_000 {
            assert!(index.insert(key, 1));
        }
        let size = index.entries.len();
        for key in 50_000..1_000_000 {
            assert!(index.insert(key, 2));
            assert_eq!(index.remove(key), Some(2));
        }
        assert_eq!((index.len(), index.entries.len()), (50_000, size));
    }
}
