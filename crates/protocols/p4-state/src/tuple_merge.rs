//! Which part of a mask an entry may share with many others.
//!
//! An entry may live in the index of any mask whose bits are all in its own: the index gives those entries that agree with
//! the key on the shared bits, and each is compared in full (the idea of TupleMerge, Daly et al., 2017). So entries with thousands of different masks
//! need few indices, when their masks have leading bits of fields in common. [`candidate_masks`] lists the masks to try, the
//! coarsest first.

use barewire_p4::key::{KeyLayout, KeySlot};

/// Bits that a coarse mask should have: enough to tell tens of thousands of entries apart, then more.
const BITS: [u32; 2] = [16, 32];
/// A coarse mask of fewer bits tells nothing.
const MIN_BITS: u32 = 8;

/// A mask that entries are gathered under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CandidateMask {
    pub(crate) mask: Vec<u64>,
    /// It is the entry's whole mask, and there is nothing else to compare.
    pub(crate) exact: bool,
}

fn bit(words: &[u64], at: usize) -> bool {
    words[at / 64] >> (63 - at % 64) & 1 == 1
}

/// The first bit of a field in the key.
fn start(slot: &KeySlot) -> usize {
    (slot.byte as usize + slot.bytes as usize) * 8 - slot.width as usize
}

/// Leading bits of each field under the mask, rounded down to few different numbers, as many fields as give `bits`.
fn coarse(layout: &KeyLayout, mask: &[u64], bits: u32) -> Option<Vec<u64>> {
    let mut fields: Vec<(u32, &KeySlot)> = layout
        .slots
        .iter()
        .map(|slot| {
            let leading =
                (0..slot.width).take_while(|&at| bit(mask, start(slot) + at as usize)).count() as u32;
            let whole = leading == slot.width;
            (if whole { leading.min(64) } else { leading.min(bits) / 8 * 8 }, slot)
        })
        .collect();
    fields.sort_by_key(|&(leading, _)| std::cmp::Reverse(leading));
    let (mut coarse, mut total) = (vec![0_u64; mask.len()], 0);
    for (leading, slot) in fields {
        if total >= bits || leading == 0 {
            break;
        }
        total += leading;
        // The last bits of a field tell more than its first ones, where all of them count.
        let whole = leading == slot.width.min(64);
        let first = start(slot) + if whole { (slot.width - leading) as usize } else { 0 };
        for at in first..first + leading as usize {
            coarse[at / 64] |= 1 << (63 - at % 64);
        }
    }
    (total >= MIN_BITS).then_some(coarse)
}

/// The masks under which an entry may be gathered. `filtered`: it has ranges that its mask does not say.
pub(crate) fn candidate_masks(layout: &KeyLayout, mask: &[u64], filtered: bool) -> Vec<CandidateMask> {
    let coarse = BITS.iter().filter_map(|&bits| coarse(layout, mask, bits));
    let mut candidate_masks: Vec<CandidateMask> =
        coarse.map(|mask| CandidateMask { mask, exact: false }).collect();
    candidate_masks.dedup();
    if !filtered {
        candidate_masks.push(CandidateMask { mask: mask.to_vec(), exact: true });
    }
    candidate_masks
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;
    use barewire_p4::ir::MatchKind::{Exact, Ternary};

    #[test]
    fn a_coarse_mask_is_part_of_the_mask() {
        let layout =
            KeyLayout::of_fields(&[(Ternary, 32), (Ternary, 13), (Exact, 3), (Ternary, 128), (Ternary, 48)]);
        let mut prng = Prng::new(4);
        for _ in 0..2_000 {
            let mut mask = vec![0_u64; layout.words as usize];
            for (at, slot) in layout.slots.iter().enumerate() {
                let len = prng.below(u64::from(slot.width) + 1) as u32;
                let ones = (num_bigint::BigUint::from(1_u8) << len) - 1_u8;
                layout.put(&mut mask, at, &(ones << (slot.width - len)));
            }
            for candidate in candidate_masks(&layout, &mask, prng.chance(0.5)) {
                assert!(candidate.mask.iter().zip(&mask).all(|(part, whole)| part & !whole == 0));
                assert_eq!(candidate.exact, candidate.exact && candidate.mask == mask);
            }
        }
    }

    #[test]
    fn prefixes_share_coarse_masks() {
        let layout = KeyLayout::of_fields(&[(Ternary, 32), (Ternary, 32)]);
        let mask =
            |a: u32, b: u32| [!(u64::MAX >> a) & !0xffff_ffff | !(u64::from(u32::MAX) >> b) & 0xffff_ffff];
        let first = |a, b| candidate_masks(&layout, &mask(a, b), false)[0].mask[0];
        assert_eq!(first(20, 3), 0xffff_0000_0000_0000);
        assert_eq!(first(16, 7), first(31, 15));
        assert_eq!(first(9, 15), 0xff00_0000_ff00_0000);
        assert_eq!(first(32, 15), 0xffff_ffff_0000_0000);
        assert_eq!(candidate_masks(&layout, &mask(7, 7), false).len(), 1, "only the mask itself");
        assert_eq!(candidate_masks(&layout, &mask(7, 7), true).len(), 0);
    }
}
