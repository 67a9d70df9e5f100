//! From what an entry says of each field to words over the whole key: a value, a mask, and ranges.

use crate::error::EntryError;
use crate::range::RangeField;
use barewire_p4::ir::{MatchKind, Table, TableKind};
use barewire_p4::key::{KeyLayout, MatchParam};
use num_bigint::BigUint;

/// Which structure a table's key needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// No key.
    Empty,
    /// Every bit counts.
    Exact,
    /// One prefix, in this slot; every other bit counts.
    Lpm(usize),
    /// Anything else, by priority.
    Ternary,
    /// Several prefixes or too long a one: ternary, the longest first.
    LongPrefix,
}

/// Prefixes of more bits than this go to the ternary structure.
const MAX_TRIE_BITS: u32 = 128;

/// How one table's keys are read.
#[derive(Debug)]
pub(crate) struct KeyPlan {
    pub(crate) layout: KeyLayout,
    pub(crate) words: usize,
    pub(crate) shape: Shape,
    /// The bits of each field that count, over the whole key.
    counting: Vec<u64>,
    /// The bits of the key that belong to fields (not padding).
    pub(crate) full: Vec<u64>,
    pub(crate) ranges: Vec<RangeField>,
}

/// An entry's key in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) value: Vec<u64>,
    pub(crate) mask: Vec<u64>,
    /// For each range field its ends, left-aligned words: low ones, then high ones.
    pub(crate) ends: Vec<u64>,
    /// Whether some range is not said by the mask already.
    pub(crate) filtered: bool,
    /// The sum of prefix lengths.
    pub(crate) prefix_len: u32,
}

/// The top `bits` bits of a word.
#[inline]
pub(crate) fn top_bits(bits: usize) -> u64 {
    if bits == 0 { 0 } else { u64::MAX << (64 - bits.min(64)) }
}

/// `bits` (1 to 64) bits of a key from bit `start`, left-aligned.
#[inline]
pub(crate) fn window(key: &[u64], start: usize, bits: usize) -> u64 {
    let (word, skip) = (start / 64, start % 64);
    let mut window = key[word] << skip;
    if skip + bits > 64 {
        window |= key[word + 1] >> (64 - skip);
    }
    window & top_bits(bits)
}

fn param_name(param: &MatchParam) -> &'static str {
    match param {
        MatchParam::Exact(_) => "an exact value",
        MatchParam::Valid(_) => "a validity",
        MatchParam::Lpm { .. } => "a prefix",
        MatchParam::Ternary { .. } => "a value and a mask",
        MatchParam::Range { .. } => "a range",
    }
}

/// `width` ones.
pub(crate) fn ones(width: u32) -> BigUint {
    (BigUint::from(1_u8) << width) - 1_u8
}

impl KeyPlan {
    pub(crate) fn of(table: &Table) -> KeyPlan {
        let layout = KeyLayout::of(table);
        let words = layout.words as usize;
        let (mut counting, mut full) = (vec![0; words], vec![0; words]);
        for (at, field) in table.key.iter().enumerate() {
            let ones = ones(field.width);
            layout.put(&mut full, at, &ones);
            layout.put(
                &mut counting,
                at,
                &field.mask.as_ref().map_or_else(|| ones.clone(), |mask| mask & &ones),
            );
        }
        let kinds = |kind| layout.slots.iter().filter(move |slot| slot.kind == kind).count();
        let exact = kinds(MatchKind::Exact) + kinds(MatchKind::Valid);
        let prefixes = kinds(MatchKind::Lpm);
        let prioritised = matches!(table.kind, TableKind::Ternary | TableKind::Range);
        let shape = if layout.slots.is_empty() {
            Shape::Empty
        } else if exact == layout.slots.len() && !prioritised {
            Shape::Exact
        } else if exact + prefixes < layout.slots.len() || prioritised {
            Shape::Ternary
        } else {
            let slot = layout.slots.iter().position(|slot| slot.kind == MatchKind::Lpm).unwrap_or_default();
            let width = layout.slots[slot].width;
            let whole = table.key[slot].mask.is_none();
            if prefixes == 1 && (1..=MAX_TRIE_BITS).contains(&width) && whole {
                Shape::Lpm(slot)
            } else {
                Shape::LongPrefix
            }
        };
        let ranges = RangeField::all(&layout);
        KeyPlan { layout, words, shape, counting, full, ranges }
    }

    /// Words of all ranges' ends.
    pub(crate) fn end_words(&self) -> usize {
        self.ranges.iter().map(|range| 2 * range.words).sum()
    }

    /// An entry's key, checked.
    pub(crate) fn spec(&self, params: &[MatchParam]) -> Result<Spec, EntryError> {
        let slots = &self.layout.slots;
        if slots.is_empty() {
            return Err(EntryError::NoKey);
        }
        if params.len() != slots.len() {
            return Err(EntryError::FieldCount { expected: slots.len(), given: params.len() });
        }
        let mut spec = Spec {
            value: vec![0; self.words],
            mask: vec![0; self.words],
            ends: vec![0; self.end_words()],
            filtered: false,
            prefix_len: 0,
        };
        for (field, (slot, param)) in slots.iter().zip(params).enumerate() {
            let width = slot.width;
            let fits = |value: &BigUint| match value.bits() {
                bits if bits > u64::from(width) => Err(EntryError::ValueWidth { field, width, bits }),
                _ => Ok(()),
            };
            let (value, mask) = match (slot.kind, param) {
                (
                    MatchKind::Exact | MatchKind::Valid | MatchKind::Ternary | MatchKind::Optional,
                    MatchParam::Exact(value),
                ) => {
                    fits(value)?;
                    (value.clone(), ones(width))
                }
                (MatchKind::Valid | MatchKind::Exact, MatchParam::Valid(valid)) => {
                    (BigUint::from(u8::from(*valid)), ones(width))
                }
                (MatchKind::Lpm, MatchParam::Lpm { value, prefix_len }) => {
                    fits(value)?;
                    let prefix_len = *prefix_len;
                    if prefix_len > width {
                        return Err(EntryError::PrefixLength { field, width, prefix_len });
                    }
                    spec.prefix_len += prefix_len;
                    let mask = ones(prefix_len) << (width - prefix_len);
                    (value & &mask, mask)
                }
                (MatchKind::Ternary | MatchKind::Optional, MatchParam::Ternary { value, mask }) => {
                    fits(value)?;
                    fits(mask)?;
                    let partial = mask.bits() != 0 && *mask != ones(width);
                    if slot.kind == MatchKind::Optional && partial {
                        return Err(EntryError::OptionalMask { field });
                    }
                    (value & mask, mask.clone())
                }
                (MatchKind::Range, MatchParam::Range { low, high }) => {
                    fits(low)?;
                    fits(high)?;
                    if low > high {
                        return Err(EntryError::EmptyRange { field });
                    }
                    let range =
                        self.ranges.iter().find(|range| range.slot == field).expect("one for each slot");
                    match range.as_mask(low, high) {
                        Some(masked) => {
                            range.store_all(&mut spec.ends);
                            masked
                        }
                        None => {
                            range.store(low, high, &mut spec.ends);
                            spec.filtered = true;
                            (BigUint::ZERO, BigUint::ZERO)
                        }
                    }
                }
                _ => {
                    return Err(EntryError::MatchKind {
                        field,
                        expected: slot.kind.name(),
                        given: param_name(param),
                    });
                }
            };
            self.layout.put(&mut spec.value, field, &value);
            self.layout.put(&mut spec.mask, field, &mask);
        }
        for (value, counting) in spec.value.iter_mut().zip(&self.counting) {
            *value &= counting;
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cross_words() {
        let key = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
        assert_eq!(window(&key, 0, 64), key[0]);
        assert_eq!(window(&key, 48, 32), 0xcdef_fedc_0000_0000);
        assert_eq!(window(&key, 64, 64), key[1]);
        assert_eq!(window(&key, 4, 4), 0x1000_0000_0000_0000);
        assert_eq!(window(&key, 120, 8), 0x1000_0000_0000_0000);
        assert_eq!(window(&key, 60, 64), 0xffed_cba9_8765_4321);
    }
}
