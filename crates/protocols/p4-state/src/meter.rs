//! Meters: token buckets for each rate, as bmv2 computes them, with the colours of RFC 2698.
//!
//! Rates are tested from the highest down; the first bucket without enough tokens gives the colour and ends the test, so
//! for two rates 0 is green, 1 yellow and 2 red. Tokens are what the rate has produced since time 0, in whole tokens.

use crate::error::EntryError;
use crate::slab::Slab;
use crate::{MAX_HANDLES, check_index};
use barewire_p4::ir::{MeterArray, MeterUnit};
use barewire_p4::state::Rate;

/// What a meter array's buckets hold, where somebody else meters packets by the same meters (a kernel).
pub trait Levels: std::fmt::Debug + Send {
    /// Of a meter, for each rate, the highest first: its tokens, and what it had produced when it was used last. False when it cannot
    /// be told.
    fn load(&mut self, index: u32, levels: &mut [[u64; 2]]) -> bool;

    /// What they are now.
    fn store(&mut self, index: u32, levels: &[[u64; 2]]);
}

/// A meter array. Cells that were never configured take no memory and are always green.
#[derive(Debug)]
pub struct MeterState {
    pub(crate) name: String,
    unit: MeterUnit,
    rates: usize,
    size: u32,
    /// For each cell: whether it is configured, then for each rate, the highest first, [`RATE_WORDS`] words.
    cells: Slab,
    elsewhere: Option<Box<dyn Levels>>,
    /// For the levels that lie there.
    levels: Vec<[u64; 2]>,
}

const RATE_WORDS: usize = 4;

impl MeterState {
    pub(crate) fn new(meter: &MeterArray) -> MeterState {
        let rates = meter.rate_count as usize;
        MeterState {
            name: meter.name.clone(),
            unit: meter.unit,
            rates,
            size: if meter.direct.is_some() { MAX_HANDLES } else { meter.size },
            cells: Slab::new(1 + rates * RATE_WORDS, 0),
            elsewhere: None,
            levels: vec![[0; 2]; rates],
        }
    }

    /// Keep what the buckets hold elsewhere from now on. Somebody there who meters packets at the same time may find tokens that were
    /// spent here, and the other way round: as many as packets met in between.
    pub fn keep_levels(&mut self, elsewhere: Box<dyn Levels>) {
        self.elsewhere = Some(elsewhere);
    }

    /// How many rates each meter has.
    pub fn rate_count(&self) -> usize {
        self.rates
    }

    /// Meter a packet: its colour, at least `precolor`; 0 when the meter is not configured or not there.
    pub fn execute(&mut self, index: u64, packet_len: u64, now_us: u64, precolor: u64) -> u64 {
        let Some(index) = u32::try_from(index).ok().filter(|&index| self.cells.exists(index)) else {
            return 0;
        };
        let cell = self.cells.get_mut(index);
        if cell[0] == 0 {
            return 0;
        }
        let input = match self.unit {
            MeterUnit::Packets => 1,
            MeterUnit::Bytes => packet_len,
        };
        let words = &mut cell[1..][..self.rates * RATE_WORDS];
        let Some(elsewhere) = &mut self.elsewhere else { return spend(words, input, now_us, precolor) };
        if elsewhere.load(index, &mut self.levels) {
            for (rate, levels) in words.chunks_exact_mut(RATE_WORDS).zip(&self.levels) {
                rate[2..].copy_from_slice(levels);
            }
        }
        let color = spend(words, input, now_us, precolor);
        for (rate, levels) in words.chunks_exact(RATE_WORDS).zip(&mut self.levels) {
            levels.copy_from_slice(&rate[2..]);
        }
        elsewhere.store(index, &self.levels);
        color
    }

    /// Configure a meter, its buckets full: one rate for each of the array's, from the lowest to the highest.
    pub fn set_rates(&mut self, index: u64, rates: &[Rate]) -> Result<(), EntryError> {
        let index = check_index(index, self.size)?;
        if rates.len() != self.rates {
            return Err(EntryError::RateCount { expected: self.rates, given: rates.len() });
        }
        let mut below = 0.0;
        for (at, rate) in rates.iter().enumerate() {
            if !rate.per_us.is_finite() || rate.per_us < below {
                return Err(EntryError::RateOrder { at });
            }
            below = rate.per_us;
        }
        self.cells.ensure(index);
        let cell = self.cells.get_mut(index);
        cell[0] = 1;
        for (words, rate) in cell[1..].chunks_exact_mut(RATE_WORDS).zip(rates.iter().rev()) {
            words.copy_from_slice(&[rate.per_us.to_bits(), rate.burst, rate.burst, 0]);
        }
        Ok(())
    }

    /// A meter's rates from the lowest to the highest; none when it is not configured.
    pub fn rates(&self, index: u64) -> Result<Option<Vec<Rate>>, EntryError> {
        let index = check_index(index, self.size)?;
        if !self.cells.exists(index) || self.cells.word(index, 0) == 0 {
            return Ok(None);
        }
        let words = &self.cells.get(index)[1..][..self.rates * RATE_WORDS];
        let rates = words.chunks_exact(RATE_WORDS).rev();
        Ok(Some(rates.map(|rate| Rate { per_us: f64::from_bits(rate[0]), burst: rate[1] }).collect()))
    }

    /// Make a meter as one never configured.
    pub fn reset(&mut self, index: u64) -> Result<(), EntryError> {
        let index = check_index(index, self.size)?;
        if self.cells.exists(index) {
            self.cells.get_mut(index)[0] = 0;
        }
        Ok(())
    }

    pub(crate) fn reset_all(&mut self) {
        self.cells = Slab::new(1 + self.rates * RATE_WORDS, 0);
    }
}

/// Spend tokens of a meter's buckets; the colour.
fn spend(words: &mut [u64], input: u64, now_us: u64, precolor: u64) -> u64 {
    let rates = words.len() / RATE_WORDS;
    for (passed, rate) in words.chunks_exact_mut(RATE_WORDS).enumerate() {
        let [per_us, burst, tokens, last] = rate else { continue };
        let produced = (now_us as f64 * f64::from_bits(*per_us)) as u64;
        let fresh = produced.saturating_sub(*last);
        *last = produced;
        *tokens = tokens.saturating_add(fresh).min(*burst);
        if *tokens < input {
            return precolor.max((rates - passed) as u64);
        }
        *tokens -= input;
    }
    precolor
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(unit: MeterUnit, rate_count: u32) -> MeterState {
        let array =
            MeterArray { name: "m".into(), id: 0, size: 4, unit, rate_count, direct: None, result: None };
        MeterState::new(&array)
    }

    #[test]
    fn two_rates_three_colours() {
        let mut meter = meter(MeterUnit::Packets, 2);
        assert_eq!(meter.execute(1, 100, 0, 2), 0, "not configured: green, whatever it was");
        let rates = [Rate { per_us: 0.001, burst: 2 }, Rate { per_us: 0.002, burst: 4 }];
        meter.set_rates(1, &rates).unwrap();
        let colours: Vec<u64> = (0..6).map(|_| meter.execute(1, 100, 0, 0)).collect();
        assert_eq!(colours, [0, 0, 1, 1, 2, 2]);
        // One millisecond: two tokens at the peak rate, one at the committed.
        let colours: Vec<u64> = (0..3).map(|_| meter.execute(1, 100, 1_000, 0)).collect();
        assert_eq!(colours, [0, 1, 2]);
        assert_eq!(meter.execute(1, 100, 1_000_000, 1), 1, "never better than it was");
        assert_eq!(meter.rates(1).unwrap().unwrap(), rates);
        meter.reset(1).unwrap();
        assert_eq!(meter.execute(1, 100, 2_000_000, 1), 0);
        assert_eq!(meter.rates(1).unwrap(), None);
    }

    #[test]
    fn bytes_are_what_the_packet_has() {
        let mut meter = meter(MeterUnit::Bytes, 1);
        meter.set_rates(0, &[Rate { per_us: 1.0, burst: 150 }]).unwrap();
        assert_eq!(meter.execute(0, 100, 0, 0), 0);
        assert_eq!(meter.execute(0, 100, 0, 0), 1);
        assert_eq!(meter.execute(0, 100, 49, 0), 1);
        assert_eq!(meter.execute(0, 100, 50, 0), 0);
        assert_eq!(meter.execute(0, 100, 49, 0), 1, "time that runs backwards makes no tokens");
        assert_eq!(meter.execute(99, 100, 50, 0), 0);
    }

    #[test]
    fn rates_are_checked() {
        let mut meter = meter(MeterUnit::Bytes, 2);
        let rate = |per_us| Rate { per_us, burst: 1 };
        assert_eq!(meter.set_rates(0, &[rate(1.0)]), Err(EntryError::RateCount { expected: 2, given: 1 }));
        assert_eq!(meter.set_rates(0, &[rate(2.0), rate(1.0)]), Err(EntryError::RateOrder { at: 1 }));
        assert_eq!(meter.set_rates(0, &[rate(f64::NAN), rate(1.0)]), Err(EntryError::RateOrder { at: 0 }));
        assert_eq!(meter.set_rates(4, &[rate(1.0), rate(1.0)]), Err(EntryError::Index { index: 4, size: 4 }));
    }
}
