//! Records of a fixed number of words: growing never moves one.
//!
//! As many as the owner expects, up to [`BASE_WORDS`], lie in one piece, found by a multiplication; the others in
//! segments. Both are the allocator's zeroed pages, so that what is not touched costs nothing but addresses.

/// Words of the first piece at most: 8 MiB.
const BASE_WORDS: usize = 1 << 20;
/// Words of one segment at most: 256 KiB.
const SEGMENT_WORDS: usize = 1 << 15;
/// Words of a cache line.
const LINE: usize = 8;

/// Memory whose words from `skew` on start on a cache line.
#[derive(Debug, Default)]
struct Piece {
    words: Box<[u64]>,
    skew: usize,
}

impl Piece {
    fn new(words: usize) -> Piece {
        let words = vec![0_u64; words + LINE].into_boxed_slice();
        let past = words.as_ptr() as usize / 8 % LINE;
        Piece { words, skew: (LINE - past) % LINE }
    }
}

/// An array of records that grows by segments.
#[derive(Debug)]
pub(crate) struct Slab {
    stride: usize,
    base: Piece,
    /// Records of the base.
    in_base: usize,
    /// Records of a segment, as a power of two.
    shift: u32,
    segments: Vec<Piece>,
}

impl Slab {
    /// An empty slab of records of at least `words` words; those of a line or more start on a cache line.
    pub(crate) fn new(words: usize, expected: usize) -> Slab {
        let stride =
            if words <= LINE { words.max(1).next_power_of_two() } else { words.div_ceil(LINE) * LINE };
        let shift = (SEGMENT_WORDS / stride).max(1).ilog2();
        let in_base = expected.min(BASE_WORDS / stride);
        let base = if in_base > 0 { Piece::new(in_base * stride) } else { Piece::default() };
        Slab { stride, base, in_base, shift, segments: Vec::new() }
    }

    /// An empty slab of the same kind.
    pub(crate) fn renewed(&self) -> Slab {
        Slab::new(self.stride, self.in_base)
    }

    /// Make record `index` exist, all zero if it is new.
    pub(crate) fn ensure(&mut self, index: u32) {
        let Some(beyond) = (index as usize).checked_sub(self.in_base) else { return };
        let segment = beyond >> self.shift;
        if self.segments.len() <= segment {
            self.segments.resize_with(segment + 1, Piece::default);
        }
        if self.segments[segment].words.is_empty() {
            self.segments[segment] = Piece::new(self.stride << self.shift);
        }
    }

    /// Whether record `index` has memory.
    pub(crate) fn exists(&self, index: u32) -> bool {
        let Some(beyond) = (index as usize).checked_sub(self.in_base) else { return true };
        self.segments.get(beyond >> self.shift).is_some_and(|piece| !piece.words.is_empty())
    }

    /// A record that exists.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &[u64] {
        let at = index as usize;
        // Predicted: a table that fits its base never waits for the address of a segment.
        if at < self.in_base {
            let at = self.base.skew + at * self.stride;
            &self.base.words[at..at + self.stride]
        } else {
            self.get_far(at)
        }
    }

    /// A record that exists.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> &mut [u64] {
        let (stride, at) = (self.stride, index as usize);
        if at < self.in_base {
            let at = self.base.skew + at * stride;
            &mut self.base.words[at..at + stride]
        } else {
            self.get_far_mut(at)
        }
    }

    /// One word of a record that exists.
    #[inline]
    pub(crate) fn word(&self, index: u32, word: usize) -> u64 {
        let at = index as usize;
        if at < self.in_base {
            self.base.words[self.base.skew + at * self.stride + word]
        } else {
            self.get_far(at)[word]
        }
    }

    // Apart from the above, which are part of every look-up and should stay small.
    #[inline(never)]
    fn get_far(&self, index: usize) -> &[u64] {
        let (segment, at) = self.far(index);
        let piece = &self.segments[segment];
        &piece.words[piece.skew + at..][..self.stride]
    }

    #[inline(never)]
    fn get_far_mut(&mut self, index: usize) -> &mut [u64] {
        let (stride, (segment, at)) = (self.stride, self.far(index));
        let piece = &mut self.segments[segment];
        &mut piece.words[piece.skew + at..][..stride]
    }

    /// The segment of a record beyond the base, and its first word's position there.
    fn far(&self, index: usize) -> (usize, usize) {
        let beyond = index - self.in_base;
        (beyond >> self.shift, (beyond & ((1 << self.shift) - 1)) * self.stride)
    }

    /// Bytes of address space it takes.
    pub(crate) fn bytes(&self) -> usize {
        (self.base.words.len() + self.segments.iter().map(|piece| piece.words.len()).sum::<usize>()) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stay_where_they_are_and_start_on_lines() {
        for expected in [0, 1, 10, 1 << 30] {
            let mut slab = Slab::new(7, expected);
            slab.ensure(0);
            slab.get_mut(0)[6] = 77;
            let before = slab.get(0).as_ptr();
            assert_eq!(before as usize % 64, 0);
            let far = 400_000;
            slab.ensure(far);
            assert!(slab.exists(far) && !slab.exists(far - 100_000), "gaps have no memory");
            slab.get_mut(far)[0] = 5;
            assert_eq!(slab.get(0).as_ptr(), before);
            assert_eq!((slab.word(0, 6), slab.word(far, 0), slab.get(0).len()), (77, 5, 8));
            slab.ensure(far + 1);
            slab.get_mut(far + 1).fill(9);
            assert_eq!((slab.word(far, 0), slab.word(far, 7)), (5, 0), "neighbours do not overlap");
        }
        assert_eq!(Slab::new(3, 0).stride, 4);
        assert_eq!(Slab::new(9, 0).stride, 16);
    }
}
