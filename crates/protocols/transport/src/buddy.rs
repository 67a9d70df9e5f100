//! A buddy allocator over a region that it never touches: it deals in offsets only.
//!
//! The same code keeps an application's send memory (in the client library), its receive memory (in the daemon, whose
//! books the application cannot reach) and the memory of an embedded endpoint. Blocks are powers of two from
//! [`BLOCK_MIN`] up, so any message is one piece and a reader needs no scatter list. Allocating and freeing take at
//! most as many steps as there are orders, and no memory.

/// Smallest block in bytes.
pub const BLOCK_MIN: u32 = 64;
const NONE: u32 = u32::MAX;
const ORDERS: usize = 26;

/// State of a unit (64 bytes): the first unit of a block holds its order and whether it is free.
const FREE: u8 = 0x80;
const USED: u8 = 0x40;
const INSIDE: u8 = 0;

/// Offsets into a region of at most 2 GiB.
pub struct Buddy {
    state: Vec<u8>,
    /// Free-list links, by unit: next and previous. Meaningful for first units of free blocks only.
    links: Vec<[u32; 2]>,
    heads: [u32; ORDERS],
    /// Bit n: the list of order n is not empty.
    nonempty: u32,
    units: u32,
    free_units: u32,
}

fn order_for(len: u32) -> u32 {
    len.div_ceil(BLOCK_MIN).max(1).next_power_of_two().trailing_zeros()
}

impl Buddy {
    /// Books for a region of `len` bytes (rounded down to whole blocks, at most 2 GiB), all free.
    pub fn new(len: usize) -> Buddy {
        let units = (len / BLOCK_MIN as usize).min(1 << (ORDERS - 1)) as u32;
        let mut b = Buddy {
            state: vec![INSIDE; units as usize],
            links: vec![[0; 2]; units as usize],
            heads: [NONE; ORDERS],
            nonempty: 0,
            units,
            free_units: units,
        };
        // The largest aligned blocks that fit, from the start.
        let mut at = 0;
        while at < units {
            let fit = 31 - (units - at).leading_zeros();
            let order = if at == 0 { fit } else { fit.min(at.trailing_zeros()) };
            b.put(at, order);
            at += 1 << order;
        }
        b
    }

    fn put(&mut self, unit: u32, order: u32) {
        let head = self.heads[order as usize];
        self.links[unit as usize] = [head, NONE];
        if head != NONE {
            self.links[head as usize][1] = unit;
        }
        self.heads[order as usize] = unit;
        self.nonempty |= 1 << order;
        self.state[unit as usize] = FREE | order as u8;
    }

    fn take(&mut self, unit: u32, order: u32) {
        let [next, prev] = self.links[unit as usize];
        if prev == NONE {
            self.heads[order as usize] = next;
            if next == NONE {
                self.nonempty &= !(1 << order);
            }
        } else {
            self.links[prev as usize][0] = next;
        }
        if next != NONE {
            self.links[next as usize][1] = prev;
        }
        self.state[unit as usize] = INSIDE;
    }

    /// The offset of a block of at least `len` bytes (zero-length requests take the smallest block).
    #[inline]
    pub fn alloc(&mut self, len: u32) -> Option<u32> {
        let want = order_for(len);
        if want >= ORDERS as u32 {
            return None;
        }
        let candidates = self.nonempty & (u32::MAX << want);
        if candidates == 0 {
            return None;
        }
        let mut order = candidates.trailing_zeros();
        let unit = self.heads[order as usize];
        self.take(unit, order);
        while order > want {
            order -= 1;
            self.put(unit + (1 << order), order);
        }
        self.state[unit as usize] = USED | order as u8;
        self.free_units -= 1 << order;
        Some(unit * BLOCK_MIN)
    }

    /// As [`alloc`](Self::alloc), if afterwards there is a block of `spare` bytes left; with zero, in any case.
    #[inline]
    pub fn alloc_sparing(&mut self, len: u32, spare: u32) -> Option<u32> {
        let offset = self.alloc(len)?;
        if spare > 0 && !self.has_block(spare) {
            self.free(offset);
            return None;
        }
        Some(offset)
    }

    /// Whether a block of `len` bytes is free.
    fn has_block(&self, len: u32) -> bool {
        let want = order_for(len);
        want < ORDERS as u32 && self.nonempty & (u32::MAX << want) != 0
    }

    /// Gives a block back. False, with nothing changed, when `offset` is not the start of a block that is in use: a
    /// caller passes on what an untrusted application said.
    #[inline]
    pub fn free(&mut self, offset: u32) -> bool {
        let Some(order) = self.order_in_use(offset) else {
            return false;
        };
        let (mut unit, mut order) = (offset / BLOCK_MIN, order);
        self.free_units += 1 << order;
        self.state[unit as usize] = INSIDE;
        while order + 1 < ORDERS as u32 {
            let buddy = unit ^ (1 << order);
            if buddy >= self.units || self.state[buddy as usize] != FREE | order as u8 {
                break;
            }
            self.take(buddy, order);
            unit = unit.min(buddy);
            order += 1;
        }
        self.put(unit, order);
        true
    }

    fn order_in_use(&self, offset: u32) -> Option<u32> {
        let unit = offset / BLOCK_MIN;
        let state = *self.state.get(unit as usize)?;
        (offset.is_multiple_of(BLOCK_MIN) && state & USED != 0).then_some(u32::from(state & 0x3f))
    }

    /// Bytes of the block in use at `offset`.
    pub fn block_len(&self, offset: u32) -> Option<u32> {
        self.order_in_use(offset).map(|order| BLOCK_MIN << order)
    }

    /// Bytes of the largest block that there can be, when all is free.
    pub fn largest(&self) -> u32 {
        if self.units == 0 {
            0
        } else {
            BLOCK_MIN << (31 - self.units.leading_zeros()).min(ORDERS as u32 - 1)
        }
    }

    /// Free bytes in all; a single block may be smaller.
    pub fn available(&self) -> u64 {
        u64::from(self.free_units) * u64::from(BLOCK_MIN)
    }

    /// Bytes in all.
    pub fn capacity(&self) -> u64 {
        u64::from(self.units) * u64::from(BLOCK_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;
    use std::collections::BTreeMap;

    #[test]
    fn blocks_never_overlap_and_all_come_back() {
        for len in [64, 4096, 100_000, 1 << 20, (1 << 20) + 4096 + 64] {
            let mut b = Buddy::new(len);
            let mut held: BTreeMap<u32, u32> = BTreeMap::new();
            let mut p = Prng::new(len as u64);
            for _ in 0..20_000 {
                if p.chance(0.55) {
                    let magnitude = p.below(16);
                    let want = p.below(1 << magnitude) as u32;
                    if let Some(at) = b.alloc(want) {
                        let size = b.block_len(at).unwrap();
                        assert!(size >= want && at as usize + size as usize <= len);
                        if let Some((&prev, &l)) = held.range(..=at).next_back() {
                            assert!(prev + l <= at);
                        }
                        if let Some((&next, _)) = held.range(at + 1..).next() {
                            assert!(at + size <= next);
                        }
                        held.insert(at, size);
                    }
                } else if !held.is_empty() {
                    let at = *held.keys().nth(p.below(held.len() as u64) as usize).unwrap();
                    held.remove(&at);
                    assert!(b.free(at));
                    assert!(!b.free(at), "freed twice");
                }
                let used: u64 = held.values().map(|&l| u64::from(l)).sum();
                assert_eq!(b.available() + used, b.capacity());
            }
            for at in held.keys() {
                assert!(b.free(*at));
            }
            let largest = 1u32 << (31 - (b.capacity() as u32).leading_zeros());
            assert_eq!(b.largest(), largest);
            assert!(b.alloc(largest).is_some(), "merged back into the largest block");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let mut b = Buddy::new(4096);
        let at = b.alloc(200).unwrap();
        assert!(!b.free(at + 64) && !b.free(at + 1) && !b.free(1 << 30) && !b.free(u32::MAX));
        assert!(b.alloc(u32::MAX).is_none() && b.alloc(8192).is_none());
        assert!(b.free(at));
    }
}
