//! The master copy's smaller parts: meter rates, value sets, hash parameters; and checks of indices into arrays whose
//! contents only the engines have.

use super::{
    Arc, BigUint, CalculationId, ControlError, ErrorKind, MeterId, MeterRate, Parameters, Program,
    StateWrite, Store, TableId, ValueSetId, Write, no_table,
};
use crate::control::Range;
use barewire_p4::ir::{CounterId, RegisterId};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, ControlError>;

/// Values a set may have when the program declares no size.
pub const MAX_SET_VALUES: usize = 65_536;

/// The rates of one array: those set for all, and those set for some since.
#[derive(Debug, Default)]
pub(super) struct MeterStore {
    pub all: Vec<MeterRate>,
    pub some: BTreeMap<u64, Vec<MeterRate>>,
}

/// From, to (excluded) inside an array of this size.
fn span(name: &str, size: u32, range: Range) -> Result<(u64, u64)> {
    let size = u64::from(size);
    let (from, to) = match range {
        Range::One(index) => (index, index.saturating_add(1)),
        Range::Span(from, to) => (from, to),
        Range::All => return Ok((0, size)),
    };
    if from > to || to > size || matches!(range, Range::One(index) if index >= size) {
        let what = match range {
            Range::One(index) => format!("index {index}"),
            _ => format!("the range {from} to {to}"),
        };
        return Err(ControlError::new(
            ErrorKind::InvalidIndex,
            format!("{what} is outside of '{name}', which has {size} elements"),
        ));
    }
    Ok((from, to))
}

fn of_entries(kind: ErrorKind, name: &str, program: &Program, table: TableId) -> ControlError {
    let table = program.tables.get(table.at()).map_or("", |table| table.name.as_str());
    ControlError::new(
        kind,
        format!("'{name}' belongs to the entries of table '{table}': name an entry by its handle"),
    )
}

impl Store {
    /// The indices of a counter array that a range covers.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidCounterName` (also for a direct counter), `InvalidIndex`.
    pub fn counter_span(&self, id: CounterId, range: Range) -> Result<(u64, u64)> {
        let array = self.program.counters.get(id.at()).ok_or_else(|| {
            ControlError::new(ErrorKind::InvalidCounterName, format!("there is no counter number {}", id.0))
        })?;
        if let Some(table) = array.direct {
            return Err(of_entries(ErrorKind::InvalidCounterName, &array.name, &self.program, table));
        }
        span(&array.name, array.size, range)
    }

    /// The indices of a register array that a range covers.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidRegisterName`, `InvalidIndex`.
    pub fn register_span(&self, id: RegisterId, range: Range) -> Result<(u64, u64)> {
        let array = self.program.registers.get(id.at()).ok_or_else(|| {
            ControlError::new(ErrorKind::InvalidRegisterName, format!("there is no register number {}", id.0))
        })?;
        span(&array.name, array.size, range)
    }

    /// The indices of a meter array that a range covers.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidMeterName`, `InvalidMeterOperation` (a direct meter), `InvalidIndex`.
    pub fn meter_span(&self, id: MeterId, range: Range) -> Result<(u64, u64)> {
        let array = self.program.meters.get(id.at()).ok_or_else(|| no_meter(id))?;
        if let Some(table) = array.direct {
            return Err(of_entries(ErrorKind::InvalidMeterOperation, &array.name, &self.program, table));
        }
        span(&array.name, array.size, range)
    }

    fn check_rates(&self, id: MeterId, rates: &[MeterRate]) -> Result<()> {
        let array = self.program.meters.get(id.at()).ok_or_else(|| no_meter(id))?;
        let bad = |what: String| {
            ControlError::new(ErrorKind::InvalidMeterOperation, format!("meter '{}': {what}", array.name))
        };
        if rates.is_empty() {
            return Ok(());
        }
        if rates.len() != array.rate_count as usize {
            return Err(bad(format!("it has {} rates, {} were given", array.rate_count, rates.len())));
        }
        if let Some(rate) =
            rates.iter().find(|rate| !rate.units_per_us.is_finite() || rate.units_per_us < 0.0)
        {
            return Err(bad(format!("{} is not a rate", rate.units_per_us)));
        }
        if rates.windows(2).any(|two| two[0].units_per_us > two[1].units_per_us) {
            return Err(bad("the rates must ascend: committed before peak".into()));
        }
        Ok(())
    }

    /// Set the rates of some or all of a meter array; none to unconfigure them. (The writes for the replicas are the
    /// caller's: there may be a million.)
    ///
    /// # Errors
    /// As [`Store::meter_span`]; [`ErrorKind::InvalidMeterOperation`] for rates that do not fit the meter.
    pub fn set_meter(&mut self, id: MeterId, range: Range, rates: &[MeterRate]) -> Result<()> {
        let (from, to) = self.meter_span(id, range)?;
        self.check_rates(id, rates)?;
        let meter = &mut self.meters[id.at()];
        let everything = to - from == u64::from(self.program.meters[id.at()].size);
        if everything {
            meter.some.clear();
            meter.all = rates.to_vec();
        } else {
            meter.some.extend((from..to).map(|index| (index, rates.to_vec())));
        }
        Ok(())
    }

    /// The rates of one meter; empty when not configured.
    ///
    /// # Errors
    /// As [`Store::meter_span`].
    pub fn meter_rates(&self, id: MeterId, index: u64) -> Result<Vec<MeterRate>> {
        self.meter_span(id, Range::One(index))?;
        let meter = &self.meters[id.at()];
        Ok(meter.some.get(&index).unwrap_or(&meter.all).clone())
    }

    fn direct_meter(&self, id: TableId) -> Result<MeterId> {
        let table = self.program.tables.get(id.at()).ok_or_else(|| no_table(id))?;
        table.meter.ok_or_else(|| {
            ControlError::new(
                ErrorKind::MetersDisabled,
                format!("table '{}' has no direct meter", table.name),
            )
        })
    }

    /// Set the rates of an entry's meter; none to unconfigure it.
    ///
    /// # Errors
    /// [`ErrorKind`]: `MetersDisabled`, `InvalidHandle`, `ExpiredHandle`, `InvalidMeterOperation`.
    pub fn set_direct_meter(
        &mut self,
        id: TableId,
        handle: u64,
        rates: &[MeterRate],
        out: &mut Vec<Write>,
    ) -> Result<()> {
        let meter = self.direct_meter(id)?;
        let index = self.index(id, handle)?;
        self.check_rates(meter, rates)?;
        let table = &mut self.tables[id.at()];
        if rates.is_empty() {
            table.direct_rates.remove(&index);
        } else {
            table.direct_rates.insert(index, rates.to_vec());
        }
        let rates = rates.to_vec();
        out.push(Write::State(StateWrite::DirectMeter { table: id, handle: index, rates }));
        Ok(())
    }

    /// The rates of an entry's meter; empty when not configured.
    ///
    /// # Errors
    /// [`ErrorKind`]: `MetersDisabled`, `InvalidHandle`, `ExpiredHandle`.
    pub fn direct_meter_rates(&self, id: TableId, handle: u64) -> Result<Vec<MeterRate>> {
        self.direct_meter(id)?;
        let index = self.index(id, handle)?;
        Ok(self.tables[id.at()].direct_rates.get(&index).cloned().unwrap_or_default())
    }

    /// # Errors
    /// [`ErrorKind::CountersDisabled`].
    pub fn check_direct_counter(&self, id: TableId) -> Result<()> {
        let table = self.program.tables.get(id.at()).ok_or_else(|| no_table(id))?;
        if table.counter.is_some() {
            return Ok(());
        }
        Err(ControlError::new(
            ErrorKind::CountersDisabled,
            format!("table '{}' has no direct counter", table.name),
        ))
    }

    /// # Errors
    /// [`ErrorKind::BadActionData`] when a value has more bits than the register.
    pub fn check_register_value(&self, id: RegisterId, value: &BigUint) -> Result<()> {
        let Some(array) = self.program.registers.get(id.at()) else { return Ok(()) };
        if value.bits() <= u64::from(array.width) {
            return Ok(());
        }
        Err(ControlError::new(
            ErrorKind::BadActionData,
            format!("0x{value:x} is wider than the {} bits of register '{}'", array.width, array.name),
        ))
    }

    fn set_value(&self, id: ValueSetId, value: &[BigUint]) -> Result<()> {
        let set = self.program.value_sets.get(id.at()).ok_or_else(|| no_value_set(id))?;
        let bad = |what: String| {
            ControlError::new(ErrorKind::BadMatchKey, format!("value set '{}': {what}", set.name))
        };
        if value.len() != set.widths.len() {
            return Err(bad(format!("a value has {} parts, {} were given", set.widths.len(), value.len())));
        }
        for (part, width) in value.iter().zip(&set.widths) {
            if part.bits() > u64::from(*width) {
                return Err(bad(format!("0x{part:x} is wider than {width} bits")));
            }
        }
        Ok(())
    }

    /// Whether a set may have one value more than so many.
    fn has_room(&self, id: ValueSetId, values: usize) -> Result<()> {
        let set = self.program.value_sets.get(id.at()).ok_or_else(|| no_value_set(id))?;
        let most = if set.max_size == 0 { MAX_SET_VALUES } else { set.max_size as usize };
        if values < most {
            return Ok(());
        }
        let why = format!("value set '{}' is full: it holds {most} values", set.name);
        Err(ControlError::new(ErrorKind::TableFull, why))
    }

    /// Add a value to a set; one that is there already stays once.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidValueSetName`, `BadMatchKey`, `TableFull`.
    pub fn value_set_add(&mut self, id: ValueSetId, value: Vec<BigUint>, out: &mut Vec<Write>) -> Result<()> {
        self.set_value(id, &value)?;
        if self.value_sets[id.at()].contains(&value) {
            return Ok(());
        }
        self.has_room(id, self.value_sets[id.at()].len())?;
        self.value_sets[id.at()].push(value.clone());
        out.push(Write::State(StateWrite::ValueSetAdd { set: id, value }));
        Ok(())
    }

    /// Take a value out of a set; one that is not there is no error, as in bmv2.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidValueSetName`, `BadMatchKey`.
    pub fn value_set_remove(
        &mut self,
        id: ValueSetId,
        value: Vec<BigUint>,
        out: &mut Vec<Write>,
    ) -> Result<()> {
        self.set_value(id, &value)?;
        let values = &mut self.value_sets[id.at()];
        if let Some(at) = values.iter().position(|v| *v == value) {
            values.remove(at);
            out.push(Write::State(StateWrite::ValueSetRemove { set: id, value }));
        }
        Ok(())
    }

    /// Put these values in the place of all of a set; one that is given twice is there once. When one is refused nothing changes.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidValueSetName`, `BadMatchKey`, `TableFull`.
    pub fn value_set_replace(
        &mut self,
        id: ValueSetId,
        values: Vec<Vec<BigUint>>,
        out: &mut Vec<Write>,
    ) -> Result<()> {
        let mut kept: Vec<Vec<BigUint>> = Vec::with_capacity(values.len());
        for value in values {
            self.set_value(id, &value)?;
            if !kept.contains(&value) {
                self.has_room(id, kept.len())?;
                kept.push(value);
            }
        }
        *self.value_sets.get_mut(id.at()).ok_or_else(|| no_value_set(id))? = kept.clone();
        out.push(Write::State(StateWrite::ValueSetReplace { set: id, values: kept }));
        Ok(())
    }

    /// The values of a set, in the order in which they were added.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValueSetName`].
    pub fn value_set(&self, id: ValueSetId) -> Result<&[Vec<BigUint>]> {
        self.value_sets.get(id.at()).map(Vec::as_slice).ok_or_else(|| no_value_set(id))
    }

    /// Set the parameters of a calculation.
    ///
    /// # Errors
    /// [`ErrorKind`]: `InvalidCalculationName`; `Other` when its algorithm takes no such parameters.
    pub fn set_hash_parameters(
        &mut self,
        id: CalculationId,
        parameters: Parameters,
        out: &mut Vec<Write>,
    ) -> Result<()> {
        let calculation = self.program.calculations.get(id.at()).ok_or_else(|| {
            ControlError::new(
                ErrorKind::InvalidCalculationName,
                format!("there is no calculation number {}", id.0),
            )
        })?;
        if !parameters.fits(calculation.algorithm) {
            return Err(ControlError::new(
                ErrorKind::Other,
                format!(
                    "calculation '{}' is {:?}; only crc16_custom, crc32_custom (CRC parameters of their width) and \
                     toeplitz (a key of whole 32-bit words) take parameters",
                    calculation.name, calculation.algorithm
                ),
            ));
        }
        self.hash_parameters.insert(id.0, parameters.clone());
        out.push(Write::State(StateWrite::HashParameters { calculation: id, parameters }));
        Ok(())
    }

    pub(super) fn populate_arrays(&self, out: &mut dyn FnMut(StateWrite)) {
        let program = Arc::clone(&self.program);
        for (at, meter) in self.meters.iter().enumerate() {
            let id = MeterId::from(at);
            if !meter.all.is_empty() {
                let to = u64::from(program.meters[at].size);
                out(StateWrite::Meter { meter: id, from: 0, to, rates: meter.all.clone() });
            }
            for (index, rates) in &meter.some {
                out(StateWrite::Meter { meter: id, from: *index, to: index + 1, rates: rates.clone() });
            }
        }
        for (at, values) in self.value_sets.iter().enumerate() {
            for value in values {
                out(StateWrite::ValueSetAdd { set: ValueSetId::from(at), value: value.clone() });
            }
        }
        for (id, parameters) in &self.hash_parameters {
            out(StateWrite::HashParameters {
                calculation: CalculationId(*id),
                parameters: parameters.clone(),
            });
        }
    }
}

fn no_meter(id: MeterId) -> ControlError {
    ControlError::new(ErrorKind::InvalidMeterName, format!("there is no meter number {}", id.0))
}

fn no_value_set(id: ValueSetId) -> ControlError {
    ControlError::new(ErrorKind::InvalidValueSetName, format!("there is no value set number {}", id.0))
}
