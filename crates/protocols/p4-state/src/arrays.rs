//! Counter and register arrays.

use crate::error::EntryError;
use barewire_p4::ir::{CounterArray, RegisterArray};
use num_bigint::BigUint;

/// A counter array: packets and bytes at each index. The counters of a table's entries are in their records instead.
#[derive(Debug)]
pub struct CounterState {
    pub(crate) name: String,
    cells: Vec<[u64; 2]>,
}

/// A range of indices of an array of `size`.
fn span(size: usize, range: &std::ops::Range<u64>) -> Result<std::ops::Range<usize>, EntryError> {
    if range.end > size as u64 || range.start > range.end {
        let index = if range.end > size as u64 { range.end - 1 } else { range.start };
        return Err(EntryError::Index { index, size: size as u64 });
    }
    Ok(range.start as usize..range.end as usize)
}

impl CounterState {
    pub(crate) fn new(counter: &CounterArray) -> CounterState {
        let size = if counter.direct.is_some() { 0 } else { counter.size as usize };
        CounterState { name: counter.name.clone(), cells: vec![[0; 2]; size] }
    }

    /// How many there are; 0 for the counters of a table.
    pub fn size(&self) -> usize {
        self.cells.len()
    }

    /// Count a packet and its bytes; nothing out of range.
    #[inline]
    pub fn count(&mut self, index: u64, packet_len: u64) {
        if let Some([packets, bytes]) =
            usize::try_from(index).ok().and_then(|index| self.cells.get_mut(index))
        {
            *packets = packets.wrapping_add(1);
            *bytes = bytes.wrapping_add(packet_len);
        }
    }

    /// Packets and bytes.
    pub fn read(&self, index: u64) -> Result<[u64; 2], EntryError> {
        let cell = usize::try_from(index).ok().and_then(|index| self.cells.get(index));
        cell.copied().ok_or(EntryError::Index { index, size: self.cells.len() as u64 })
    }

    /// Packets and bytes of a range of indices.
    pub fn read_range(&self, range: std::ops::Range<u64>) -> Result<&[[u64; 2]], EntryError> {
        Ok(&self.cells[span(self.cells.len(), &range)?])
    }

    /// Set packets and bytes over a range of indices.
    pub fn write(&mut self, range: std::ops::Range<u64>, packets: u64, bytes: u64) -> Result<(), EntryError> {
        let range = span(self.cells.len(), &range)?;
        self.cells[range].fill([packets, bytes]);
        Ok(())
    }

    /// Everything 0.
    pub fn reset(&mut self) {
        self.cells.fill([0; 2]);
    }
}

/// A register array.
#[derive(Debug)]
pub struct RegisterState {
    pub(crate) name: String,
    /// Bits of a register.
    pub width: u32,
    /// Words of a register: `width` over 64, rounded up.
    pub words: usize,
    /// How many registers.
    pub size: u32,
    /// The registers, each `words` words, the least significant first, bits from `width` on zero.
    pub cells: Vec<u64>,
    initial: BigUint,
}

impl RegisterState {
    pub(crate) fn new(register: &RegisterArray) -> RegisterState {
        let words = register.width.div_ceil(64).max(1) as usize;
        let mut state = RegisterState {
            name: register.name.clone(),
            width: register.width,
            words,
            size: register.size,
            cells: vec![0; register.size as usize * words],
            initial: register.initial.clone(),
        };
        state.begin();
        state
    }

    /// Where a register's words start, if it is there.
    #[inline]
    fn place(&self, index: u64) -> Option<usize> {
        (index < u64::from(self.size)).then(|| index as usize * self.words)
    }

    /// The low 64 bits; 0 out of range.
    #[inline]
    pub fn get(&self, index: u64) -> u64 {
        self.place(index).map_or(0, |at| self.cells[at])
    }

    /// Write the low 64 bits, cut to the width, the others 0; nothing out of range.
    #[inline]
    pub fn set(&mut self, index: u64, value: u64) {
        if let Some(at) = self.place(index) {
            let mask = if self.width >= 64 { u64::MAX } else { (1 << self.width) - 1 };
            self.cells[at] = value & mask;
            self.cells[at + 1..at + self.words].fill(0);
        }
    }

    /// The value; 0 out of range.
    pub fn get_wide(&self, index: u64) -> BigUint {
        let Some(at) = self.place(index) else { return BigUint::ZERO };
        let words = &self.cells[at..at + self.words];
        BigUint::new(words.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]).collect())
    }

    /// Write a value's low bits; nothing out of range.
    pub fn set_wide(&mut self, index: u64, value: &BigUint) {
        let Some(at) = self.place(index) else { return };
        let cells = &mut self.cells[at..at + self.words];
        cells.fill(0);
        for (cell, digit) in cells.iter_mut().zip(value.iter_u64_digits()) {
            *cell = digit;
        }
        let top = self.width as usize - (self.words - 1) * 64;
        if top < 64 {
            cells[self.words - 1] &= (1 << top) - 1;
        }
    }

    /// Write one value to a range of indices.
    pub fn fill(&mut self, range: std::ops::Range<u64>, value: &BigUint) -> Result<(), EntryError> {
        span(self.size as usize, &range)?;
        range.for_each(|index| self.set_wide(index, value));
        Ok(())
    }

    /// Everything as it was at first.
    pub fn reset(&mut self) {
        self.cells.fill(0);
        self.begin();
    }

    fn begin(&mut self) {
        if self.initial != BigUint::ZERO {
            let initial = self.initial.clone();
            (0..u64::from(self.size)).for_each(|index| self.set_wide(index, &initial));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(width: u32) -> RegisterState {
        RegisterState::new(&RegisterArray {
            name: "r".into(),
            id: 0,
            size: 3,
            width,
            initial: BigUint::from(5_u8),
        })
    }

    #[test]
    fn registers_keep_their_low_bits() {
        for width in [0, 1, 7, 32, 63, 64, 65, 128, 130] {
            let mut r = register(width);
            let first = BigUint::from(5_u8) & ((BigUint::from(1_u8) << width) - 1_u8);
            assert_eq!(r.get_wide(2), first, "width {width}");
            r.fill(0..3, &BigUint::ZERO).unwrap();
            let all = BigUint::from_bytes_be(&[0xff; 20]);
            r.set_wide(1, &all);
            assert_eq!(r.get_wide(1), (BigUint::from(1_u8) << width) - 1_u8, "width {width}");
            assert_eq!((r.get_wide(0), r.get_wide(2)), (BigUint::ZERO, BigUint::ZERO));
            r.set(2, u64::MAX);
            assert_eq!(r.get(2), if width >= 64 { u64::MAX } else { (1 << width) - 1 });
            r.set(3, 1);
            r.set(u64::MAX, 1);
            assert_eq!((r.get(3), r.get(u64::MAX)), (0, 0));
            r.set(1, 1);
            assert_eq!(r.get_wide(1), BigUint::from(u8::from(width > 0)));
            assert_eq!(r.fill(1..4, &all), Err(EntryError::Index { index: 3, size: 3 }));
            r.fill(0..3, &BigUint::from(1_u8)).unwrap();
            r.reset();
            assert_eq!(r.get_wide(1), first);
        }
    }

    #[test]
    fn counters_count_inside_and_only_there() {
        let array = CounterArray { name: "c".into(), id: 0, size: 2, direct: None };
        let mut counter = CounterState::new(&array);
        counter.count(1, 60);
        counter.count(1, 40);
        counter.count(2, 40);
        counter.count(u64::MAX, 40);
        assert_eq!(counter.read_range(0..2).unwrap(), [[0, 0], [2, 100]]);
        assert_eq!(counter.read(2), Err(EntryError::Index { index: 2, size: 2 }));
        assert_eq!(counter.read(u64::MAX), Err(EntryError::Index { index: u64::MAX, size: 2 }));
        counter.write(0..1, 5, 6).unwrap();
        assert_eq!(counter.read(0), Ok([5, 6]));
        counter.reset();
        assert_eq!(counter.read(0), Ok([0, 0]));
    }
}
