//! Counters, meters, registers, value sets, hash parameters. What packets change is asked of the engines: counters are
//! summed over them, registers are the first engine's (a program that writes registers runs on one engine).

#[cfg(doc)]
use super::ErrorKind;
use super::switch::{CHUNK, Control, PIECE, Result, Switch};
use super::{CounterValue, MeterRate, Range};
use crate::kernel::Fold;
use crate::store::{StateWrite, read};
use barewire_p4::hash::Parameters;
use barewire_p4::ir::{CalculationId, CounterId, MeterId, RegisterId, TableId, ValueSetId};
use barewire_p4_state::ProgramState;
use num_bigint::BigUint;

/// The pieces of a span.
fn pieces(from: u64, to: u64, piece: u64) -> impl Iterator<Item = (u64, u64)> {
    (from..to).step_by(piece as usize).map(move |at| (at, (at + piece).min(to)))
}

impl Switch {
    /// Packets and bytes of counters, each with its index.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidCounterName` (also for a direct counter), `InvalidIndex`, `Unavailable`.
    pub fn read_counters(&self, c: CounterId, range: Range) -> Result<Vec<(u64, CounterValue)>> {
        let (from, to) = self.read_store(|store| store.counter_span(c, range))?;
        let mut all = Vec::with_capacity((to - from) as usize);
        for (from, to) in pieces(from, to, CHUNK) {
            self.fold(&Fold::Counters(c, from, to));
            let engines = self.ask_state(|control: &Control| {
                control.store(&self.view)?.counter_span(c, Range::Span(from, to))?;
                Ok(move |state: Option<&mut ProgramState>| read::counters(state, c, from, to))
            })?;
            let sum = |at: usize| engines.iter().filter_map(|values| values.get(at)).copied().sum();
            all.extend((from..to).enumerate().map(|(at, index)| (index, sum(at))));
        }
        Ok(all)
    }

    /// Set a counter.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidCounterName` (also for a direct counter), `InvalidIndex`.
    pub fn write_counter(&self, c: CounterId, index: u64, value: CounterValue) -> Result<()> {
        let mut control = self.lock_for_store()?;
        let (from, to) = control.store(&self.view)?.counter_span(c, Range::One(index))?;
        control.send_shares(&self.view, value, |value| StateWrite::Counters { counter: c, from, to, value });
        Ok(())
    }

    /// Set all counters of an array to zero.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidCounterName`] (also for a direct counter).
    pub fn reset_counters(&self, c: CounterId) -> Result<()> {
        let mut control = self.lock_for_store()?;
        let (from, to) = control.store(&self.view)?.counter_span(c, Range::All)?;
        let value = CounterValue::default();
        control.send_in_pieces(
            &self.view,
            pieces(from, to, PIECE).map(|(from, to)| StateWrite::Counters { counter: c, from, to, value }),
        );
        Ok(())
    }

    /// Set the rates of some or all meters of an array, committed before peak; none to unconfigure them (green).
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMeterName`, `InvalidMeterOperation` (a direct meter; rates that do not fit), `InvalidIndex`.
    pub fn set_meter(&self, m: MeterId, range: Range, rates: &[MeterRate]) -> Result<()> {
        let mut control = self.lock_for_store()?;
        let store = control.store_mut(&self.view)?;
        let (from, to) = store.meter_span(m, range)?;
        store.set_meter(m, range, rates)?;
        control.send_in_pieces(
            &self.view,
            pieces(from, to, CHUNK).map(|(from, to)| StateWrite::Meter {
                meter: m,
                from,
                to,
                rates: rates.to_vec(),
            }),
        );
        Ok(())
    }

    /// The rates of a meter; empty when not configured.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMeterName`, `InvalidMeterOperation` (a direct meter), `InvalidIndex`.
    pub fn meter_rates(&self, m: MeterId, index: u64) -> Result<Vec<MeterRate>> {
        self.read_store(|store| store.meter_rates(m, index))
    }

    /// Set the rates of an entry's meter; none to unconfigure it.
    ///
    /// # Errors
    /// [`ErrorKind`]: `MetersDisabled`, `InvalidHandle`, `ExpiredHandle`, `InvalidMeterOperation`.
    pub fn set_direct_meter(&self, t: TableId, handle: u64, rates: &[MeterRate]) -> Result<()> {
        self.write_store(|store, out| store.set_direct_meter(t, handle, rates, out))
    }

    /// The rates of an entry's meter; empty when not configured.
    ///
    /// # Errors
    /// [`ErrorKind`]: `MetersDisabled`, `InvalidHandle`, `ExpiredHandle`.
    pub fn direct_meter_rates(&self, t: TableId, handle: u64) -> Result<Vec<MeterRate>> {
        self.read_store(|store| store.direct_meter_rates(t, handle))
    }

    /// The values of registers, each with its index.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidRegisterName`, `InvalidIndex`, `Unavailable`.
    pub fn read_registers(&self, r: RegisterId, range: Range) -> Result<Vec<(u64, BigUint)>> {
        let (from, to) = self.read_store(|store| store.register_span(r, range))?;
        let mut all = Vec::with_capacity((to - from) as usize);
        for (from, to) in pieces(from, to, CHUNK) {
            self.fold(&Fold::Registers(r, from, to));
            let values = self.ask_first_state(|control: &Control| {
                control.store(&self.view)?.register_span(r, Range::Span(from, to))?;
                Ok(move |state: Option<&mut ProgramState>| read::registers(state, r, from, to))
            })?;
            all.extend((from..to).zip(values));
        }
        Ok(all)
    }

    /// Write one value to some or all registers of an array.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidRegisterName`, `InvalidIndex`, `BadActionData` (wider than the register).
    pub fn write_registers(&self, r: RegisterId, range: Range, value: &BigUint) -> Result<()> {
        let mut control = self.lock_for_store()?;
        let store = control.store(&self.view)?;
        let (from, to) = store.register_span(r, range)?;
        store.check_register_value(r, value)?;
        control.send_in_pieces(
            &self.view,
            pieces(from, to, PIECE).map(|(from, to)| StateWrite::Registers {
                register: r,
                from,
                to,
                value: value.clone(),
            }),
        );
        Ok(())
    }

    /// Set all registers of an array to zero.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidRegisterName`].
    pub fn reset_registers(&self, r: RegisterId) -> Result<()> {
        self.write_registers(r, Range::All, &BigUint::ZERO)
    }

    /// Add a value (one number a part) to a parser value set.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidValueSetName`, `BadMatchKey`, `TableFull`.
    pub fn vs_add(&self, v: ValueSetId, value: Vec<BigUint>) -> Result<()> {
        self.write_store(|store, out| store.value_set_add(v, value, out))
    }

    /// Take a value out of a parser value set; one that is not there is no error, as in bmv2.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidValueSetName`, `BadMatchKey`.
    pub fn vs_remove(&self, v: ValueSetId, value: Vec<BigUint>) -> Result<()> {
        self.write_store(|store, out| store.value_set_remove(v, value, out))
    }

    /// Empty a parser value set.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValueSetName`].
    pub fn vs_clear(&self, v: ValueSetId) -> Result<()> {
        self.write_store(|store, out| store.value_set_replace(v, Vec::new(), out))
    }

    /// Put these values in the place of all of a parser value set; when one is refused nothing changes.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidValueSetName`, `BadMatchKey`, `TableFull`.
    pub fn vs_set(&self, v: ValueSetId, values: Vec<Vec<BigUint>>) -> Result<()> {
        self.write_store(|store, out| store.value_set_replace(v, values, out))
    }

    /// The values of a parser value set, in the order in which they were added.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValueSetName`].
    pub fn vs_get(&self, v: ValueSetId) -> Result<Vec<Vec<BigUint>>> {
        self.read_store(|store| store.value_set(v).map(<[_]>::to_vec))
    }

    /// Set the parameters of a custom CRC, or the key of a Toeplitz hash.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidCalculationName`; `Other` when the algorithm takes no such parameters.
    pub fn set_hash_parameters(&self, c: CalculationId, parameters: Parameters) -> Result<()> {
        self.write_store(|store, out| store.set_hash_parameters(c, parameters, out))
    }
}
