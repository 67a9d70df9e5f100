//! What a key's parameters stand for: values under masks, each as long as the whole key.

use barewire_p4::ir::{Table, TableActions, TableKind};
use barewire_p4::key::{KeyLayout, MatchParam};
use num_bigint::BigUint;
use num_traits::One as _;
use std::cmp::Reverse;

/// The most values that one entry is made into.
pub const MAX_PIECES: usize = 1024;
/// The most comparisons that stand in code in place of a look-up: these cost no more than what is looked up instead.
const MOST_CONST: usize = 32;
/// The same where one look-up finds any entry.
const MOST_CONST_EXACT: usize = 12;
/// Longer keys are compared in more steps than a look-up takes.
const CONST_KEY: u32 = 32;

/// A whole key and the bits of it that count.
pub type Piece = (Vec<u8>, Vec<u8>);

/// An entry of a table that nobody can change, or a part of it: compared in code, in the order in which they win.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstPiece {
    /// The key under the mask.
    pub value: Vec<u8>,
    /// The bits that count.
    pub mask: Vec<u8>,
    /// Which of the program's entries it is of.
    pub entry: u32,
}

/// A number in the bytes of a key.
pub fn be_bytes(value: &BigUint, bytes: u32) -> Vec<u8> {
    let digits = value.to_bytes_be();
    let bytes = bytes as usize;
    let mut out = vec![0; bytes];
    let take = digits.len().min(bytes);
    out[bytes - take..].copy_from_slice(&digits[digits.len() - take..]);
    out
}

/// So many bits.
pub fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - 1_u8
}

/// A range as values under masks.
fn prefixes(low: &BigUint, high: &BigUint, width: u32) -> Vec<(BigUint, BigUint)> {
    let mut out = Vec::new();
    let mut at = low.clone();
    while at <= *high {
        // The largest block that begins here and does not go beyond.
        let mut bits = at.trailing_zeros().map_or(width, |zeros| (zeros as u32).min(width));
        while bits > 0 && &at + ones(bits) > *high {
            bits -= 1;
        }
        out.push((at.clone(), ones(width) ^ ones(bits)));
        at += BigUint::one() << bits;
    }
    out
}

/// The values and masks of a key; none where there are too many.
pub fn pieces(layout: &KeyLayout, key: &[MatchParam]) -> Option<Vec<Piece>> {
    let mut all: Vec<Piece> = vec![(Vec::new(), Vec::new())];
    for (param, slot) in key.iter().zip(&layout.slots) {
        let full = ones(slot.width);
        let options = match param {
            MatchParam::Exact(value) => vec![(value.clone(), full)],
            MatchParam::Valid(valid) => vec![(BigUint::from(u8::from(*valid)), full)],
            MatchParam::Lpm { value, prefix_len } => {
                let mask = ones(*prefix_len) << (slot.width - prefix_len);
                vec![(value & &mask, mask)]
            }
            MatchParam::Ternary { value, mask } => vec![(value & mask, mask.clone())],
            MatchParam::Range { low, high } => prefixes(low, high, slot.width),
        };
        if all.len() * options.len() > MAX_PIECES {
            return None;
        }
        let mut next = Vec::with_capacity(all.len() * options.len());
        for (value, mask) in &all {
            for (v, m) in &options {
                let (mut value, mut mask) = (value.clone(), mask.clone());
                value.extend(be_bytes(v, slot.bytes));
                mask.extend(be_bytes(m, slot.bytes));
                next.push((value, mask));
            }
        }
        all = next;
    }
    Some(all)
}

/// A masked key field sees only the mask's bits, so its entries keep only them too.
pub fn masked(table: &Table, key: &[MatchParam]) -> Vec<MatchParam> {
    key.iter()
        .zip(&table.key)
        .map(|(param, field)| match (param, &field.mask) {
            (MatchParam::Exact(value), Some(mask)) => MatchParam::Exact(value & mask),
            (param, _) => param.clone(),
        })
        .collect()
}

/// The entries of a table whose entries are the program's for ever, if they are few enough for code; else none.
pub fn constants(table: &Table, layout: &KeyLayout) -> Vec<ConstPiece> {
    let most = if table.kind == TableKind::Exact { MOST_CONST_EXACT } else { MOST_CONST };
    let is_plain = table.source == TableActions::Direct && layout.bytes <= CONST_KEY;
    if !table.immutable || !is_plain || table.key.is_empty() || table.entries.len() > most {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..table.entries.len()).collect();
    // As they win: by the length of the prefix, or by priority and then as they stand.
    order.sort_by_key(|&at| {
        let entry = &table.entries[at];
        let prefix = entry.key.iter().find_map(|param| match param {
            MatchParam::Lpm { prefix_len, .. } if table.kind == TableKind::Lpm => Some(*prefix_len),
            _ => None,
        });
        (Reverse(prefix), if table.kind == TableKind::Lpm { 0 } else { entry.priority })
    });
    let mut out = Vec::new();
    for at in order {
        let Some(pieces) = pieces(layout, &masked(table, &table.entries[at].key)) else { return Vec::new() };
        let entry = at as u32;
        out.extend(pieces.into_iter().map(|(value, mask)| ConstPiece { value, mask, entry }));
        if out.len() > most {
            return Vec::new();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_p4::ir::{
        ActionCall, ActionId, FieldRef, HeaderId, HeaderRef, InitialEntry, KeyField, KeySource, MatchKind,
    };

    #[test]
    fn ranges_are_prefixes_that_cover_each_value_once() {
        for (low, high) in [(0_u32, 0), (0, 255), (1, 254), (3, 17), (255, 255), (128, 200)] {
            let pieces = prefixes(&low.into(), &high.into(), 8);
            for value in 0..256_u32 {
                let hits = pieces.iter().filter(|(v, m)| BigUint::from(value) & m == *v).count();
                assert_eq!(hits, usize::from((low..=high).contains(&value)), "{value} in {low}..={high}");
            }
        }
        assert!(!prefixes(&BigUint::ZERO, &BigUint::ZERO, 1).is_empty());
    }

    /// A table of one byte whose entries are the program's.
    fn table(kind: TableKind, matches: MatchKind, entries: Vec<(MatchParam, u32)>) -> Table {
        let field = FieldRef { header: HeaderRef::Header(HeaderId(0)), field: 0 };
        let key = KeyField {
            name: "k".to_owned(),
            kind: matches,
            width: 8,
            source: KeySource::Field(field),
            mask: None,
        };
        let mut table = Table::new("t", kind, vec![key], vec![ActionId(0)], 64);
        let entry = |(key, priority)| InitialEntry {
            key: vec![key],
            call: ActionCall { action: ActionId(0), args: Vec::new() },
            priority,
        };
        table.entries = entries.into_iter().map(entry).collect();
        table.immutable = true;
        table
    }

    fn order(table: &Table) -> Vec<u32> {
        constants(table, &KeyLayout::of(table)).into_iter().map(|piece| piece.entry).collect()
    }

    #[test]
    fn constants_stand_in_the_order_in_which_they_win() {
        let lpm = |value: u8, prefix_len| (MatchParam::Lpm { value: value.into(), prefix_len }, 0);
        let prefixes =
            table(TableKind::Lpm, MatchKind::Lpm, vec![lpm(0, 0), lpm(0x80, 1), lpm(0xff, 8), lpm(0xf0, 4)]);
        assert_eq!(order(&prefixes), [2, 3, 1, 0]);
        let rule = |value: u8, mask: u8, priority| {
            (MatchParam::Ternary { value: value.into(), mask: mask.into() }, priority)
        };
        let rules = vec![rule(0, 0, 9), rule(1, 1, 2), rule(2, 2, 2), rule(4, 4, 1)];
        let mut rules = table(TableKind::Ternary, MatchKind::Ternary, rules);
        assert_eq!(order(&rules), [3, 1, 2, 0]);
        // Nobody promises that these stay.
        rules.immutable = false;
        assert!(order(&rules).is_empty());
        // 1 to 254 is made of fourteen prefixes; three such rules are too many.
        let range = |low: u8, high: u8| (MatchParam::Range { low: low.into(), high: high.into() }, 1);
        let two = table(TableKind::Range, MatchKind::Range, vec![range(1, 254), range(0, 255)]);
        assert_eq!(order(&two), [[0; 14].as_slice(), &[1]].concat());
        let three = table(TableKind::Range, MatchKind::Range, vec![range(1, 254); 3]);
        assert!(order(&three).is_empty());
        let exact = |count: u8| (0..count).map(|value| (MatchParam::Exact(value.into()), 0)).collect();
        assert_eq!(order(&table(TableKind::Exact, MatchKind::Exact, exact(12))).len(), 12);
        assert!(order(&table(TableKind::Exact, MatchKind::Exact, exact(13))).is_empty());
    }
}
