//! Table keys: how a table's key fields become one string of words, and what an entry says of each field.
//!
//! A key is the concatenation of its fields, each padded with zero bits on the left to whole bytes, in the order
//! of declaration. The string is read as 64-bit words, most significant byte first, the last word padded with
//! zero bytes on the right. So two keys compare as numbers, and a compiler can build a word with shifts alone.

use crate::ir::{MatchKind, Table};
use num_bigint::BigUint;

/// What an entry says of one key field. Values have the field's width; bits above it are zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MatchParam {
    /// This value.
    Exact(BigUint),
    /// A header valid or not.
    Valid(bool),
    /// The value's first `prefix_len` bits (the others are zero).
    Lpm { value: BigUint, prefix_len: u32 },
    /// The bits under the mask (value bits outside it are zero). An optional field has a full or an empty mask.
    Ternary { value: BigUint, mask: BigUint },
    /// From `low` to `high`, both included.
    Range { low: BigUint, high: BigUint },
}

/// Where one field lies in the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySlot {
    /// How it matches.
    pub kind: MatchKind,
    /// Its first byte in the key.
    pub byte: u32,
    /// How many bytes it has: `width` rounded up.
    pub bytes: u32,
    /// Its width in bits.
    pub width: u32,
}

/// How a table's key lies in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyLayout {
    /// The fields in order.
    pub slots: Vec<KeySlot>,
    /// Bytes of the whole key.
    pub bytes: u32,
    /// 64-bit words of the whole key.
    pub words: u32,
}

impl KeyLayout {
    /// The layout of a table's key.
    pub fn of(table: &Table) -> KeyLayout {
        let fields: Vec<(MatchKind, u32)> = table.key.iter().map(|field| (field.kind, field.width)).collect();
        KeyLayout::of_fields(&fields)
    }

    /// The layout of a key of such fields.
    pub fn of_fields(fields: &[(MatchKind, u32)]) -> KeyLayout {
        let mut byte = 0;
        let slots = fields
            .iter()
            .map(|&(kind, width)| {
                let bytes = width.div_ceil(8).max(1);
                let slot = KeySlot { kind, byte, bytes, width };
                byte += bytes;
                slot
            })
            .collect();
        KeyLayout { slots, bytes: byte, words: byte.div_ceil(8) }
    }

    /// Put a field's value (its low `bytes` bytes) into the key's words.
    pub fn put(&self, words: &mut [u64], slot: usize, value: &BigUint) {
        let slot = &self.slots[slot];
        let bytes = value.to_bytes_le();
        for i in 0..slot.bytes as usize {
            let at = slot.byte as usize + slot.bytes as usize - 1 - i;
            let shift = 56 - 8 * (at % 8);
            let byte = u64::from(bytes.get(i).copied().unwrap_or(0));
            words[at / 8] = words[at / 8] & !(0xff << shift) | byte << shift;
        }
    }

    /// A field's value out of the key's words.
    pub fn get(&self, words: &[u64], slot: usize) -> BigUint {
        let slot = &self.slots[slot];
        let bytes: Vec<u8> = (slot.byte..slot.byte + slot.bytes)
            .map(|at| (words[at as usize / 8] >> (56 - 8 * (at % 8))) as u8)
            .collect();
        BigUint::from_bytes_be(&bytes)
    }
}

/// Where an action's arguments lie when they are stored as words: each takes `ceil(width/64)` words (one at least),
/// least significant word first. Gives each parameter's first word, and the total.
pub fn arg_words(widths: impl IntoIterator<Item = u32>) -> (Vec<u32>, u32) {
    let mut at = 0;
    let first = widths
        .into_iter()
        .map(|width| {
            let first = at;
            at += width.div_ceil(64).max(1);
            first
        })
        .collect();
    (first, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_bytes_in_order_read_as_big_endian_words() {
        let layout =
            KeyLayout::of_fields(&[(MatchKind::Exact, 9), (MatchKind::Lpm, 32), (MatchKind::Ternary, 48)]);
        assert_eq!((layout.bytes, layout.words), (12, 2));
        let mut words = vec![u64::MAX; 2];
        layout.put(&mut words, 0, &BigUint::from(0x1ff_u32));
        layout.put(&mut words, 1, &BigUint::from(0x0a00_0001_u32));
        layout.put(&mut words, 2, &BigUint::from(0x0102_0304_0506_u64));
        words[1] &= 0xffff_ffff_0000_0000;
        assert_eq!(words, [0x01ff_0a00_0001_0102, 0x0304_0506_0000_0000]);
        assert_eq!(layout.get(&words, 2), BigUint::from(0x0102_0304_0506_u64));
    }
}
