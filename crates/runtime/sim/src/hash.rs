//! The hash of traces and contents: 64 bits, the same on every machine, no defence against an adversary.

/// Running hash. For a given state, different words give different states, so one changed word always shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceHash(u64);

impl TraceHash {
    pub(crate) const fn new() -> Self {
        TraceHash(0x243f_6a88_85a3_08d3)
    }

    pub(crate) fn word(&mut self, word: u64) {
        let x = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = x ^ (x >> 32);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // The length goes first: zero padding of the last word must not make two contents one.
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    pub(crate) fn value(self) -> u64 {
        let x = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ (x >> 32)
    }
}

/// The 64-bit hash by which [`ExactlyOnce`](crate::ExactlyOnce) knows a message again.
pub fn content_hash(bytes: &[u8]) -> u64 {
    let mut hash = TraceHash::new();
    hash.bytes(bytes);
    hash.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_the_length_count() {
        let base = [0u8; 20];
        let reference = content_hash(&base);
        for bit in 0..160 {
            let mut changed = base;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(content_hash(&changed), reference, "bit {bit}");
        }
        assert_ne!(content_hash(&base[..19]), reference);
        assert_ne!(content_hash(&[]), content_hash(&[0]));
    }
}
