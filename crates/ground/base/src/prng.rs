//! The seeded random source of simulations, fault injection and tests.
//!
//! xoshiro256** (Blackman and Vigna, 2018), seeded through SplitMix64. Never a source of secrets: those come from the
//! operating system.

/// A small, fast, replayable generator. The same seed gives the same sequence on every machine.
#[derive(Clone, Debug)]
pub struct Prng {
    state: [u64; 4],
}

impl Prng {
    /// A generator that replays from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Prng { state: [next(), next(), next(), next()] }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// A number in `0..bound`; zero when `bound` is zero. The bias of the multiply-shift is below 2^-32 for any bound
    /// that a simulation uses.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with probability `p`. Draws nothing when `p` is not positive, so switching a fault off leaves the rest of
    /// the sequence as it was.
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// A generator whose sequence is independent of this one's, so that adding a consumer does not shift the others.
    pub fn fork(&mut self) -> Prng {
        Prng::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays() {
        let (mut a, mut b, mut c) = (Prng::new(7), Prng::new(7), Prng::new(8));
        let first = a.next_u64();
        assert_eq!(first, b.next_u64());
        assert_ne!(first, c.next_u64());
    }

    #[test]
    fn known_sequence_of_seed_zero() {
        // SplitMix64(0) expands to these four words; the first output follows from the second word alone.
        let mut p = Prng::new(0);
        assert_eq!(p.state[0], 0xe220_a839_7b1d_cdaf);
        assert_eq!(p.next_u64(), 0x6e78_9e6a_a1b9_65f4_u64.wrapping_mul(5).rotate_left(7).wrapping_mul(9));
    }

    #[test]
    fn bounds_and_rates_hold() {
        let mut p = Prng::new(1);
        assert!((0..10_000).all(|_| p.below(7) < 7));
        assert_eq!(p.below(0), 0);
        let hits = (0..100_000).filter(|_| p.chance(0.2)).count();
        assert!((19_000..21_000).contains(&hits), "{hits}");
        assert!(!p.chance(0.0));
    }

    #[test]
    fn fill_reaches_the_last_byte() {
        let mut p = Prng::new(3);
        let mut buf = [0u8; 13];
        let mut seen_last = false;
        for _ in 0..16 {
            p.fill(&mut buf);
            seen_last |= buf[12] != 0;
        }
        assert!(seen_last);
    }
}
