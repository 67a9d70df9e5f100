//! Storage by number: entries that never move, in blocks, so that a million of them grow without being copied.

/// "No entry."
pub(crate) const NONE: u32 = u32::MAX;

const SHIFT: u32 = 9;
const BLOCK: usize = 1 << SHIFT;

/// Entries with numbers. Taken ones are the caller's to keep count of; the one given back last is taken first, because it is
/// the warm one.
pub(crate) struct Slab<T> {
    blocks: Vec<Box<[T]>>,
    free: Vec<u32>,
    touched: u32,
    limit: u32,
}

impl<T: Default> Slab<T> {
    pub(crate) fn new(limit: usize) -> Slab<T> {
        let limit = u32::try_from(limit).unwrap_or(NONE).min(NONE - 1);
        Slab { blocks: Vec::new(), free: Vec::new(), touched: 0, limit }
    }

    /// The number of an entry, in the state that its last user left it in; `None` at the limit.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if let Some(id) = self.free.pop() {
            return Some(id);
        }
        if self.touched >= self.limit {
            return None;
        }
        let id = self.touched;
        if id as usize >> SHIFT == self.blocks.len() {
            self.blocks.push((0..BLOCK).map(|_| T::default()).collect());
            // Giving back must not allocate either.
            self.free.reserve(self.blocks.len() * BLOCK - self.free.len());
        }
        self.touched += 1;
        Some(id)
    }

    /// Whether there is an entry to take.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.touched < self.limit
    }

    #[inline]
    pub(crate) fn give(&mut self, id: u32) {
        debug_assert!(self.free.len() > 64 || !self.free.contains(&id), "given back twice");
        self.free.push(id);
    }

    /// One past the highest number that was ever taken.
    #[inline]
    pub(crate) fn touched(&self) -> u32 {
        self.touched
    }

    /// Entries that are taken.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.touched as usize - self.free.len()
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        self.blocks.get(id as usize >> SHIFT)?.get(id as usize & (BLOCK - 1))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.blocks.get_mut(id as usize >> SHIFT)?.get_mut(id as usize & (BLOCK - 1))
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, id: u32) -> &T {
        &self.blocks[id as usize >> SHIFT][id as usize & (BLOCK - 1)]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.blocks[id as usize >> SHIFT][id as usize & (BLOCK - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_taken_to_the_limit_and_reused() {
        let mut slab: Slab<u64> = Slab::new(1000);
        let ids: Vec<u32> = std::iter::from_fn(|| slab.take()).collect();
        assert_eq!((ids.len(), slab.len()), (1000, 1000));
        for &id in &ids {
            slab[id] = u64::from(id) * 3;
        }
        assert!(ids.iter().all(|&id| slab[id] == u64::from(id) * 3));
        slab.give(7);
        assert_eq!(slab.take(), Some(7));
        assert_eq!(slab.take(), None);
        assert!(slab.get(NONE).is_none() && slab.get(1024).is_none());
    }
}
