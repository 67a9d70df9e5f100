//! Random inputs, and valid inputs with something wrong.

use barewire_base::Prng;

/// Numbers at which length fields go wrong.
const EDGES: &[u32] =
    &[0, 1, 7, 8, 20, 40, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff];
/// Most edits of one input.
const EDITS_MAX: u64 = 5;

/// Makes inputs from a corpus. The same generator state makes the same input.
pub struct Mutator {
    rng: Prng,
}

impl Mutator {
    /// A mutator that draws from `rng`.
    pub fn new(rng: Prng) -> Mutator {
        Mutator { rng }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    /// One input of at most `len_max` bytes, in place of what `out` held: random bytes one time in eight, an entry of
    /// the corpus as it is one time in sixty-four, else an entry with a few edits.
    pub fn input(&mut self, corpus: &[Vec<u8>], len_max: usize, out: &mut Vec<u8>) {
        out.clear();
        let kind = self.below(64);
        if corpus.is_empty() || kind < 8 {
            // Short ones mostly: few parsers look far into noise.
            let bound = [17, 65, 257, len_max + 1][self.below(4)].min(len_max + 1);
            let len = self.below(bound);
            out.resize(len, 0);
            self.rng.fill(out);
            return;
        }
        let entry = self.below(corpus.len());
        out.extend_from_slice(&corpus[entry]);
        if kind > 8 {
            for _ in 0..=self.rng.below(EDITS_MAX) {
                self.edit(corpus, out);
            }
        }
        out.truncate(len_max);
    }

    fn edit(&mut self, corpus: &[Vec<u8>], out: &mut Vec<u8>) {
        if out.is_empty() {
            out.push(self.rng.next_u64() as u8);
            return;
        }
        let at = self.below(out.len());
        match self.below(9) {
            0 | 1 => out[at] ^= 1 << self.below(8),
            2 => out[at] = self.rng.next_u64() as u8,
            3 => out.truncate(at),
            4 => self.number(at, out),
            5 => {
                // A piece of another entry over this one.
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len().max(1));
                let piece = &other[from.min(other.len())..];
                let len = self.below(piece.len() + 1).min(out.len() - at);
                out[at..at + len].copy_from_slice(&piece[..len]);
            }
            6 => {
                // The end of another entry behind the start of this one.
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len() + 1);
                out.truncate(at);
                out.extend_from_slice(&other[from..]);
            }
            7 => {
                let len = self.below(16);
                let mut noise = [0; 16];
                self.rng.fill(&mut noise);
                out.splice(at..at, noise[..len].iter().copied());
            }
            _ => {
                let end = (at + 1 + self.below(16)).min(out.len());
                out.drain(at..end);
            }
        }
    }

    /// Edits a number of one, two or four bytes as if it were a length: an edge, a little more or less, the real length.
    fn number(&mut self, at: usize, out: &mut [u8]) {
        let width = [1, 2, 4][self.below(3)].min(out.len() - at);
        let big = self.below(2) == 0;
        let field = &mut out[at..at + width];
        let read = |b: &[u8]| b.iter().fold(0u32, |n, &b| n << 8 | u32::from(b));
        if !big {
            field.reverse();
        }
        let old = read(field);
        let new = match self.rng.below(4) {
            0 => EDGES[self.rng.below(EDGES.len() as u64) as usize],
            1 => old.wrapping_add(self.rng.below(9) as u32),
            2 => old.wrapping_sub(self.rng.below(9) as u32),
            _ => old.swap_bytes(),
        };
        for (i, byte) in field.iter_mut().rev().enumerate() {
            *byte = (new >> (8 * i)) as u8;
        }
        if !big {
            field.reverse();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_state_makes_the_same_input() {
        let corpus = [vec![1; 100], vec![2; 50], vec![]];
        let (mut a, mut b) = (vec![0xa5; 9], vec![]);
        let mut sizes = [0usize; 2];
        for seed in 0..2000 {
            Mutator::new(Prng::new(seed)).input(&corpus, 120, &mut a);
            Mutator::new(Prng::new(seed)).input(&corpus, 120, &mut b);
            assert_eq!(a, b);
            assert!(a.len() <= 120);
            sizes[usize::from(corpus.contains(&a))] += 1;
        }
        assert!(sizes[0] > 1500 && sizes[1] > 10, "{sizes:?}");
        Mutator::new(Prng::new(1)).input(&[], 120, &mut a);
    }

    #[test]
    fn numbers_keep_their_place() {
        let mut rng = Mutator::new(Prng::new(3));
        let mut changed = 0;
        for _ in 0..500 {
            let mut bytes = [0xa5; 10];
            rng.number(4, &mut bytes);
            assert!(bytes[..4] == [0xa5; 4] && bytes[8..] == [0xa5; 2]);
            changed += usize::from(bytes != [0xa5; 10]);
        }
        assert!(changed > 300, "{changed}");
    }
}
