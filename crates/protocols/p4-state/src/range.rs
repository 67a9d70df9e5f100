//! Range fields: what of a range a mask can say, what one hexadecimal digit of the key can rule out, and the check
//! that is left for the packet.

use crate::spec::{ones, top_bits, window};
use barewire_p4::ir::MatchKind;
use barewire_p4::key::KeyLayout;
use num_bigint::BigUint;

/// A range field of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeField {
    /// Its position among the key's fields.
    pub(crate) slot: usize,
    /// Its first bit in the key, and its bits.
    start: usize,
    width: usize,
    /// 64-bit words of one end.
    pub(crate) words: usize,
    /// Where its ends lie among the entry's: low words, then high words.
    at: usize,
    /// Its first digit in the key, and its digits, with the padding before its first bit.
    digit: usize,
    digits: usize,
}

impl RangeField {
    /// The range fields of a key.
    pub(crate) fn all(layout: &KeyLayout) -> Vec<RangeField> {
        let mut at = 0;
        let ranges = layout.slots.iter().enumerate().filter(|(_, slot)| slot.kind == MatchKind::Range);
        ranges
            .map(|(index, slot)| {
                let (byte, bytes, width) = (slot.byte as usize, slot.bytes as usize, slot.width as usize);
                let words = width.div_ceil(64);
                let first = at;
                at += 2 * words;
                let start = byte * 8 + bytes * 8 - width;
                RangeField { slot: index, start, width, words, at: first, digit: byte * 2, digits: bytes * 2 }
            })
            .collect()
    }

    /// The value and mask that say the same as a range, when one prefix does.
    pub(crate) fn as_mask(&self, low: &BigUint, high: &BigUint) -> Option<(BigUint, BigUint)> {
        let differ = low ^ high;
        let free = ones(u32::try_from(differ.bits()).unwrap_or(u32::MAX));
        let mask = &ones(self.width as u32) ^ &free;
        let aligned = (low & &free).bits() == 0 && (high & &free) == free;
        aligned.then(|| (low & &mask, mask))
    }

    /// An end as left-aligned words.
    fn put(&self, end: &BigUint, out: &mut [u64]) {
        let digits = (end << (self.words * 64 - self.width)).to_u64_digits();
        for (at, word) in out.iter_mut().rev().enumerate() {
            *word = digits.get(at).copied().unwrap_or(0);
        }
    }

    /// Store a range among an entry's ends.
    pub(crate) fn store(&self, low: &BigUint, high: &BigUint, ends: &mut [u64]) {
        self.put(low, &mut ends[self.at..self.at + self.words]);
        self.put(high, &mut ends[self.at + self.words..self.at + 2 * self.words]);
    }

    /// Store a range that every value is in.
    pub(crate) fn store_all(&self, ends: &mut [u64]) {
        self.store(&BigUint::ZERO, &ones(self.width as u32), ends);
    }

    fn window(&self, key: &[u64], word: usize) -> u64 {
        window(key, self.start + word * 64, (self.width - word * 64).min(64))
    }

    /// Whether the key's field is within the entry's range.
    #[inline]
    pub(crate) fn admits(&self, key: &[u64], ends: &[u64]) -> bool {
        let (low, high) = ends[self.at..self.at + 2 * self.words].split_at(self.words);
        let words = || (0..self.words).map(|word| self.window(key, word));
        if let ([low], [high]) = (low, high) {
            let value = self.window(key, 0);
            return *low <= value && value <= *high;
        }
        words().ge(low.iter().copied()) && words().le(high.iter().copied())
    }

    /// Narrow the sets of digits that an entry admits by one of its ranges: `sets` has one for each digit of the key, bit
    /// `d` meaning that the digit may be `d`.
    pub(crate) fn narrow(&self, ends: &[u64], sets: &mut [u16]) {
        let (low, high) = ends[self.at..self.at + 2 * self.words].split_at(self.words);
        let padding = self.digits * 4 - self.width;
        let digit = |end: &[u64], at: usize| {
            // Digit `at` of the padded field; the padding is less than two digits.
            (0..4).fold(0, |digit, bit| {
                let bit = at * 4 + bit;
                let set = bit >= padding && {
                    let bit = bit - padding;
                    end[bit / 64] << (bit % 64) & top_bits(1) != 0
                };
                digit << 1 | u32::from(set)
            })
        };
        for at in 0..self.digits {
            let (from, to) = (digit(low, at), digit(high, at));
            let up_to = |d: u32| (2_u32 << d) - 1;
            sets[self.digit + at] &= (up_to(to) & !(up_to(from) >> 1)) as u16;
            if from != to {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    fn field(width: u32) -> (KeyLayout, RangeField) {
        let layout = KeyLayout::of_fields(&[(MatchKind::Exact, 8), (MatchKind::Range, width)]);
        let range = RangeField::all(&layout).remove(0);
        (layout, range)
    }

    #[test]
    fn aligned_ranges_are_masks() {
        let (_, range) = field(16);
        let mask = |low: u32, high: u32| range.as_mask(&low.into(), &high.into());
        assert_eq!(mask(0, 0xffff), Some((0_u32.into(), 0_u32.into())));
        assert_eq!(mask(80, 80), Some((80_u32.into(), 0xffff_u32.into())));
        assert_eq!(mask(0, 1023), Some((0_u32.into(), 0xfc00_u32.into())));
        assert_eq!(mask(1024, 65535), None);
        assert_eq!(mask(1, 2), None);
    }

    #[test]
    fn checks_and_digits_agree_with_numbers() {
        let seed = 5;
        let mut prng = Prng::new(seed);
        for round in 0..3_000 {
            let width = [3, 8, 12, 16, 31, 64, 65, 100][prng.below(8) as usize];
            let (layout, range) = field(width);
            let mut number = || {
                let wide = BigUint::from(prng.next_u64()) << 64_u32 | BigUint::from(prng.next_u64());
                wide & ones(1 + prng.below(u64::from(width)) as u32)
            };
            let (a, b, value) = (number(), number(), number());
            let (low, high) = if a <= b { (a, b) } else { (b, a) };
            let mut ends = vec![0; 2 * range.words];
            range.store(&low, &high, &mut ends);
            let mut key = vec![0; layout.words as usize];
            layout.put(&mut key, 1, &value);
            let within = low <= value && value <= high;
            assert_eq!(
                range.admits(&key, &ends),
                within,
                "seed {seed} round {round}: {low}..={high} {value}"
            );
            let mut sets = vec![0xffff_u16; layout.bytes as usize * 2];
            range.narrow(&ends, &mut sets);
            let digits_fit = sets
                .iter()
                .enumerate()
                .all(|(at, set)| set >> (key[at / 16] >> (60 - at % 16 * 4) & 15) & 1 == 1);
            assert!(
                digits_fit || !within,
                "seed {seed} round {round}: a digit rules out {value} of {low}..={high}"
            );
        }
    }
}
