//! The look-up from a security id to its slot: open addressing, linear probing, no allocation after start.

/// Marks an entry without a key.
const EMPTY: u32 = u32::MAX;

/// A table of at most `capacity` ids, kept at most half full.
#[derive(Debug)]
pub(crate) struct IdTable {
    /// Key and slot side by side, so that a look-up costs one cache line.
    entries: Box<[(i32, u32)]>,
    mask: usize,
    shift: u32,
}

impl IdTable {
    /// A table for `capacity` ids.
    pub(crate) fn new(capacity: usize) -> Self {
        let len = (capacity.max(4) * 2).next_power_of_two();
        IdTable { entries: vec![(0, EMPTY); len].into(), mask: len - 1, shift: 32 - len.trailing_zeros() }
    }

    /// Takes all ids out.
    pub(crate) fn clear(&mut self) {
        self.entries.fill((0, EMPTY));
    }

    /// Takes out the ids whose slot is not to be kept. Costs a walk over the whole table.
    pub(crate) fn retain(&mut self, keep: impl Fn(usize) -> bool) -> usize {
        let mut gone = 0;
        let mut at = 0;
        while at < self.entries.len() {
            let (id, slot) = self.entries[at];
            if slot != EMPTY && !keep(slot as usize) {
                // Another may have moved up to this place.
                self.remove(id);
                gone += 1;
            } else {
                at += 1;
            }
        }
        gone
    }

    /// Ids of one product lie close together; the multiplier (2^32 over the golden ratio) spreads them.
    #[inline]
    fn home(&self, id: i32) -> usize {
        ((id as u32).wrapping_mul(0x9e37_79b1) >> self.shift) as usize & self.mask
    }

    /// The slot of `id`.
    #[inline]
    pub(crate) fn get(&self, id: i32) -> Option<usize> {
        let mut at = self.home(id);
        loop {
            let (key, slot) = self.entries[at & self.mask];
            if slot == EMPTY {
                return None;
            }
            if key == id {
                return Some(slot as usize);
            }
            at += 1;
        }
    }

    /// Puts `id` into the table. The caller bounds the number of ids by the capacity, so that there is always a free entry.
    pub(crate) fn insert(&mut self, id: i32, slot: usize) {
        let mut at = self.home(id);
        loop {
            let entry = &mut self.entries[at & self.mask];
            if entry.1 == EMPTY || entry.0 == id {
                *entry = (id, slot as u32);
                return;
            }
            at += 1;
        }
    }

    /// Takes `id` out. Entries behind it move up, so no tombstones slow later look-ups down.
    pub(crate) fn remove(&mut self, id: i32) -> Option<usize> {
        let mut at = self.home(id);
        let slot = loop {
            let (key, slot) = self.entries[at & self.mask];
            if slot == EMPTY {
                return None;
            }
            if key == id {
                break slot;
            }
            at += 1;
        };
        let (mut hole, mut next) = (at & self.mask, at + 1);
        loop {
            let (key, other) = self.entries[next & self.mask];
            if other == EMPTY {
                break;
            }
            let from_home = (next & self.mask).wrapping_sub(self.home(key)) & self.mask;
            let from_hole = (next & self.mask).wrapping_sub(hole) & self.mask;
            if from_home >= from_hole {
                self.entries[hole] = (key, other);
                hole = next & self.mask;
            }
            next += 1;
        }
        self.entries[hole].1 = EMPTY;
        Some(slot as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;
    use std::collections::HashMap;

    #[test]
    fn agrees_with_a_hash_map_under_inserts_and_removals() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let (mut table, mut model) = (IdTable::new(200), HashMap::new());
            for step in 0..5_000usize {
                let id = prng.below(300) as i32 - 150;
                if prng.chance(0.4) {
                    assert_eq!(table.remove(id), model.remove(&id), "seed {seed} step {step}");
                } else if model.len() < 200 || model.contains_key(&id) {
                    table.insert(id, step);
                    model.insert(id, step);
                }
                for probe in -150..150 {
                    assert_eq!(
                        table.get(probe),
                        model.get(&probe).copied(),
                        "seed {seed} step {step} id {probe}"
                    );
                }
            }
        }
    }
}
