//! Parser value sets.

use crate::MAX_SET_VALUES;
use crate::error::EntryError;
use barewire_p4::ir::ValueSet;
use num_bigint::BigUint;
use std::collections::BTreeSet;

/// The values of a set: each one number a part.
#[derive(Debug)]
pub struct ValueSetState {
    pub(crate) name: String,
    widths: Vec<u32>,
    values: BTreeSet<Vec<BigUint>>,
    /// The values again, sorted, when they are one part of at most 64 bits.
    words: Vec<u64>,
}

impl ValueSetState {
    pub(crate) fn new(set: &ValueSet) -> ValueSetState {
        ValueSetState {
            name: set.name.clone(),
            widths: set.widths.clone(),
            values: BTreeSet::new(),
            words: Vec::new(),
        }
    }

    fn check(&self, parts: &[BigUint]) -> Result<(), EntryError> {
        if parts.len() != self.widths.len() {
            return Err(EntryError::PartCount { expected: self.widths.len(), given: parts.len() });
        }
        for (field, (part, &width)) in parts.iter().zip(&self.widths).enumerate() {
            if part.bits() > u64::from(width) {
                return Err(EntryError::ValueWidth { field, width, bits: part.bits() });
            }
        }
        Ok(())
    }

    fn refresh(&mut self) {
        self.words.clear();
        if matches!(self.widths[..], [width] if width <= 64) {
            self.words.extend(self.values.iter().filter_map(|parts| u64::try_from(&parts[0]).ok()));
        }
    }

    /// Add a value, one number a part; adding it twice changes nothing.
    pub fn add(&mut self, parts: Vec<BigUint>) -> Result<(), EntryError> {
        self.check(&parts)?;
        if self.values.len() >= MAX_SET_VALUES && !self.values.contains(&parts) {
            return Err(EntryError::SetFull { limit: MAX_SET_VALUES });
        }
        if self.values.insert(parts) {
            self.refresh();
        }
        Ok(())
    }

    /// Remove a value; whether it was there.
    pub fn remove(&mut self, parts: &[BigUint]) -> Result<bool, EntryError> {
        self.check(parts)?;
        let removed = self.values.remove(parts);
        self.refresh();
        Ok(removed)
    }

    /// Put other values in the place of all.
    pub fn replace(&mut self, values: Vec<Vec<BigUint>>) -> Result<(), EntryError> {
        values.iter().try_for_each(|parts| self.check(parts))?;
        if values.len() > MAX_SET_VALUES {
            return Err(EntryError::SetFull { limit: MAX_SET_VALUES });
        }
        self.values = values.into_iter().collect();
        self.refresh();
        Ok(())
    }

    /// Remove all values.
    pub fn clear(&mut self) {
        self.values.clear();
        self.words.clear();
    }

    /// The values in ascending order.
    pub fn values(&self) -> impl Iterator<Item = &[BigUint]> {
        self.values.iter().map(Vec::as_slice)
    }

    /// Whether a value is in the set; under a mask, whether one of the set's is the same there (`parts` are masked already).
    pub fn contains(&self, parts: &[BigUint], mask: Option<&[BigUint]>) -> bool {
        let Some(mask) = mask else { return self.values.contains(parts) };
        let same = |value: &BigUint, part: &BigUint, mask: &BigUint| {
            let digits = |n: &BigUint, at| n.iter_u64_digits().nth(at).unwrap_or(0);
            let len = value.iter_u64_digits().len().max(part.iter_u64_digits().len());
            (0..len).all(|at| digits(value, at) & digits(mask, at) == digits(part, at))
        };
        self.values.iter().any(|value| {
            value.len() == parts.len()
                && value.len() == mask.len()
                && value.iter().zip(parts).zip(mask).all(|((value, part), mask)| same(value, part, mask))
        })
    }

    /// The same for sets whose values are one part of at most 64 bits.
    pub fn contains_word(&self, value: u64, mask: Option<u64>) -> bool {
        match mask {
            None => self.words.binary_search(&value).is_ok(),
            Some(mask) => self.words.iter().any(|word| word & mask == value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(n: u128) -> BigUint {
        n.into()
    }

    fn set(widths: &[u32]) -> ValueSetState {
        ValueSetState::new(&ValueSet { name: "s".into(), widths: widths.to_vec(), max_size: 4 })
    }

    #[test]
    fn one_part() {
        let mut set = set(&[16]);
        set.add(vec![number(0x0800)]).unwrap();
        set.add(vec![number(0x86dd)]).unwrap();
        set.add(vec![number(0x86dd)]).unwrap();
        assert_eq!(set.values().count(), 2);
        for value in [0x0800_u64, 0x86dd, 0, 0x0806] {
            let expected = value == 0x0800 || value == 0x86dd;
            assert_eq!(set.contains_word(value, None), expected);
            assert_eq!(set.contains(&[number(value.into())], None), expected);
        }
        for (value, expected) in [(0, true), (1, true), (2, false), (3, false)] {
            assert_eq!(set.contains_word(value, Some(3)), expected, "two low bits {value}");
            assert_eq!(set.contains(&[number(value.into())], Some(&[number(3)])), expected);
        }
        assert_eq!(
            set.add(vec![number(1 << 16)]),
            Err(EntryError::ValueWidth { field: 0, width: 16, bits: 17 })
        );
        assert_eq!(set.add(vec![]), Err(EntryError::PartCount { expected: 1, given: 0 }));
        assert_eq!(set.remove(&[number(0x0800)]), Ok(true));
        assert_eq!(set.remove(&[number(0x0800)]), Ok(false));
        assert!(!set.contains_word(0x0800, None));
        set.clear();
        assert!(!set.contains_word(0x86dd, None));
    }

    #[test]
    fn several_wide_parts() {
        let mut set = set(&[8, 128]);
        set.add(vec![number(6), number(1 << 100)]).unwrap();
        assert!(set.contains(&[number(6), number(1 << 100)], None));
        assert!(!set.contains(&[number(6), number(1 << 99)], None));
        let mask = [number(0), number(u128::MAX << 64)];
        assert!(set.contains(&[number(0), number(1 << 100)], Some(&mask)));
        assert!(!set.contains(&[number(0), number(0)], Some(&mask)));
        assert!(!set.contains_word(6, None), "not a set of words");
    }
}
