//! Corruption: bit errors that get past the link's own frame check.

use barewire_base::Prng;

/// How often frames are damaged, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corrupt {
    /// Share of frames that arrive damaged, 0 to 1.
    pub probability: f64,
    /// The kind of damage.
    pub damage: Damage,
    /// Bytes at the start of the frame that stay whole: 14 spares the Ethernet header, so that the damaged frame still
    /// reaches the stack that must refuse it.
    pub skip: usize,
}

/// What happens to a damaged frame. Each kind changes at least one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One to this many single bits, anywhere.
    Bits(u32),
    /// A run of one to this many bits whose ends are flipped and whose inside is random: what line coding makes of one
    /// error, and what CRCs promise to catch.
    Burst(u32),
    /// Two different 16-bit words (at even offsets) change places. No internet checksum sees it; a CRC does.
    SwapWords,
}

/// Attempts to find two words that differ before a frame passes as it is (a frame of zeros has none).
const SWAP_ATTEMPTS: usize = 16;

impl Corrupt {
    /// Damages `frame` by this recipe's kind, always. False when there is nothing that could be damaged.
    pub(crate) fn apply(&self, prng: &mut Prng, frame: &mut [u8]) -> bool {
        let body = match frame.get_mut(self.skip..) {
            Some(body) if !body.is_empty() => body,
            _ => return false,
        };
        let bits = body.len() as u64 * 8;
        match self.damage {
            Damage::Bits(max) => {
                let first = prng.below(bits);
                flip(body, first);
                for _ in 0..prng.below(u64::from(max.max(1))) {
                    // Any bit but the first, so that the damage cannot undo itself.
                    flip(body, (first + 1 + prng.below(bits - 1)) % bits);
                }
                true
            }
            Damage::Burst(max) => {
                let run = 1 + prng.below(u64::from(max.max(1)).min(bits));
                let start = prng.below(bits - run + 1);
                flip(body, start);
                for bit in start + 1..start + run {
                    if bit == start + run - 1 || prng.next_u64() & 1 == 1 {
                        flip(body, bit);
                    }
                }
                true
            }
            Damage::SwapWords => {
                // Even offsets of the frame, not of what is left after `skip`: headers are aligned to the frame.
                let odd = self.skip & 1;
                let words = (body.len().saturating_sub(odd) / 2) as u64;
                (0..SWAP_ATTEMPTS).any(|_| {
                    let a = odd + 2 * prng.below(words) as usize;
                    let b = odd + 2 * prng.below(words) as usize;
                    let differ = words > 0 && body[a..a + 2] != body[b..b + 2];
                    if differ {
                        body.swap(a, b);
                        body.swap(a + 1, b + 1);
                    }
                    differ
                })
            }
        }
    }
}

fn flip(bytes: &mut [u8], bit: u64) {
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn damage_changes_what_it_may_and_only_that(
            seed: u64, len in 1usize..100, skip in 0usize..100, max in 0u32..40, kind in 0u8..3,
        ) {
            let mut prng = Prng::new(seed);
            let mut frame = vec![0xa5u8; len];
            prng.fill(&mut frame);
            let before = frame.clone();
            let damage = match kind {
                0 => Damage::Bits(max),
                1 => Damage::Burst(max),
                _ => Damage::SwapWords,
            };
            let changed = Corrupt { probability: 1.0, damage, skip }.apply(&mut prng, &mut frame);
            prop_assert_eq!(changed, frame != before);
            prop_assert_eq!(&frame[..skip.min(len)], &before[..skip.min(len)]);
            let bits: Vec<usize> =
                (0..len * 8).filter(|b| (frame[b / 8] ^ before[b / 8]) >> (b % 8) & 1 == 1).collect();
            match damage {
                Damage::SwapWords => {
                    let sum = |f: &[u8]| f.chunks_exact(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum::<u32>();
                    prop_assert_eq!(sum(&frame), sum(&before));
                }
                _ if skip >= len => prop_assert!(!changed),
                Damage::Bits(max) => prop_assert!((1..=max.max(1) as usize).contains(&bits.len())),
                Damage::Burst(max) => {
                    let run = bits[bits.len() - 1] - bits[0] + 1;
                    prop_assert!(run <= max.max(1) as usize);
                }
            }
        }
    }
}
