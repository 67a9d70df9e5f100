//! Which part of a channel's memory is registered: first fit, in pages.

/// Registrations start at a multiple of this, in bytes, and take a multiple of it.
pub(super) const PAGE: u32 = 4096;

/// The books of one memory.
#[derive(Debug)]
pub(super) struct Arena {
    /// What is free, in order, no two pieces touching: offset and length.
    free: Vec<(u32, u32)>,
    /// Nothing from here on was ever given out.
    untouched: u32,
}

impl Arena {
    pub(super) fn new(len: u32) -> Arena {
        let len = len / PAGE * PAGE;
        Arena { free: if len == 0 { vec![] } else { vec![(0, len)] }, untouched: 0 }
    }

    /// Room for `len` bytes: the offset, and how many bytes from there on may have been used before.
    pub(super) fn alloc(&mut self, len: u32) -> Option<(u32, u32)> {
        let len = len.max(1).checked_next_multiple_of(PAGE)?;
        let at = self.free.iter().position(|(_, room)| *room >= len)?;
        let (offset, room) = self.free[at];
        if room == len {
            self.free.remove(at);
        } else {
            self.free[at] = (offset + len, room - len);
        }
        let used = self.untouched.saturating_sub(offset).min(len);
        self.untouched = self.untouched.max(offset + len);
        Some((offset, used))
    }

    /// Gives back what [`alloc`](Self::alloc) gave.
    pub(super) fn free(&mut self, offset: u32, len: u32) {
        let len = len.max(1).next_multiple_of(PAGE);
        let at = self.free.partition_point(|(o, _)| *o < offset);
        self.free.insert(at, (offset, len));
        // With the next one, then with the one before.
        if let Some(&(next, room)) = self.free.get(at + 1)
            && offset + len == next
        {
            self.free[at].1 += room;
            self.free.remove(at + 1);
        }
        if at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == offset {
            self.free[at - 1].1 += self.free[at].1;
            self.free.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    #[test]
    fn pieces_never_overlap_and_all_comes_back() {
        for seed in 0..50 {
            let mut prng = Prng::new(seed);
            let pages = 1 + prng.below(64) as u32;
            let mut arena = Arena::new(pages * PAGE + 17);
            let mut owner = vec![None; pages as usize];
            let mut touched = vec![false; pages as usize];
            let mut held: Vec<(u32, u32)> = vec![];
            for step in 0..400 {
                if prng.chance(0.6) {
                    let len = prng.below(u64::from(pages) * 2500) as u32;
                    let need = len.max(1).div_ceil(PAGE) as usize;
                    let fits = owner.windows(need).any(|w| w.iter().all(Option::is_none));
                    let got = arena.alloc(len);
                    assert_eq!(got.is_some(), fits, "seed {seed}, step {step}");
                    if let Some((offset, used)) = got {
                        assert!(offset % PAGE == 0 && used % PAGE == 0);
                        for page in offset / PAGE..offset / PAGE + need as u32 {
                            assert!(owner[page as usize].replace(step).is_none(), "seed {seed}, step {step}");
                            let was = std::mem::replace(&mut touched[page as usize], true);
                            assert!(!was || page * PAGE < offset + used, "seed {seed}, step {step}");
                        }
                        held.push((offset, len));
                    }
                } else if !held.is_empty() {
                    let (offset, len) = held.swap_remove(prng.below(held.len() as u64) as usize);
                    arena.free(offset, len);
                    let first = (offset / PAGE) as usize;
                    owner[first..first + len.max(1).div_ceil(PAGE) as usize].fill(None);
                }
            }
            for (offset, len) in held {
                arena.free(offset, len);
            }
            assert_eq!(arena.free, [(0, pages * PAGE)], "seed {seed}");
        }
        assert_eq!(Arena::new(100).alloc(1), None);
        assert_eq!(Arena::new(PAGE).alloc(u32::MAX), None);
    }
}
