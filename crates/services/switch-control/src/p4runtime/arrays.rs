//! Counters, meters and registers: arrays of them, and those of table entries.

use super::entity::{
    CounterData, CounterEntry, DirectCounterEntry, DirectMeterEntry, Index as WireIndex, MeterConfig,
    MeterEntry, RegisterEntry, TableEntry,
};
use super::error::{P4Error, Result, invalid, not_found, unimplemented};
use super::keys::key_of;
use super::message::UpdateType;
use super::tables::EntryKey;
use super::target::{Pipeline, Target};
use super::value::{packed_data, packed_number};
use crate::p4info::index::{Catalogue, MeterIndex, TableIndex};
use crate::p4info::message::MeterType;
use barewire_switch::control::{CounterValue, MeterRate, Range};
use std::sync::Arc;
use tonic::Code;

/// Rates are per second on the wire, per microsecond in the switch.
const MICROS: f64 = 1e6;

/// The object with an id.
pub(super) fn known<T>(catalogue: &Catalogue<T>, id: u32) -> Result<&T> {
    catalogue.get(id).ok_or_else(|| not_found(format!("there is no {} {id}", catalogue.what())))
}

/// A counter's value.
pub(super) fn counter_value(data: &CounterData) -> Result<CounterValue> {
    match (u64::try_from(data.packet_count), u64::try_from(data.byte_count)) {
        (Ok(packets), Ok(bytes)) => Ok(CounterValue { packets, bytes }),
        _ => Err(invalid("a counter's values are not below 0")),
    }
}

/// A counter's message.
pub(super) fn counter_data(value: CounterValue) -> CounterData {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    CounterData { packet_count: signed(value.packets), byte_count: signed(value.bytes) }
}

/// The rates of a meter's configuration, as the marker that the program declared.
pub(super) fn rates_of(meter: &MeterIndex, config: &MeterConfig) -> Result<Vec<MeterRate>> {
    let place = |what: String| invalid(format!("meter '{}': {what}", meter.name));
    let MeterConfig { cir, cburst, pir, pburst, eburst } = *config;
    for (name, value) in
        [("cir", cir), ("cburst", cburst), ("pir", pir), ("pburst", pburst), ("eburst", eburst)]
    {
        if value < 0 {
            return Err(place(format!("{name} is {value}")));
        }
    }
    if meter.kind != MeterType::TwoRateThreeColor && (pir != cir || pburst != cburst) {
        return Err(place("it has one rate: pir and pburst must equal cir and cburst".into()));
    }
    match meter.kind {
        MeterType::SingleRateThreeColor if eburst > 0 => {
            return Err(unimplemented(format!(
                "meter '{}': the switch has no excess burst (RFC 2697)",
                meter.name
            )));
        }
        MeterType::TwoRateThreeColor | MeterType::SingleRateTwoColor if eburst > 0 => {
            return Err(place("its marker has no excess burst: eburst must not be set".into()));
        }
        _ => {}
    }
    let rate = |name: &str, rate: i64, burst: i64| -> Result<MeterRate> {
        let burst =
            u32::try_from(burst).map_err(|_| place(format!("{name} {burst} is above {}", u32::MAX)))?;
        Ok(MeterRate { units_per_us: rate as f64 / MICROS, burst })
    };
    if pir < cir {
        return Err(place(format!("pir {pir} is below cir {cir}")));
    }
    Ok(vec![rate("cburst", cir, cburst)?, rate("pburst", pir, pburst)?])
}

/// The message of a meter's rates; none when it is not configured.
pub(super) fn meter_config(rates: &[MeterRate]) -> Option<MeterConfig> {
    let per_second = |rate: &MeterRate| (rate.units_per_us * MICROS).round() as i64;
    let committed = rates.first()?;
    let peak = rates.get(1).unwrap_or(committed);
    Some(MeterConfig {
        cir: per_second(committed),
        cburst: i64::from(committed.burst),
        pir: per_second(peak),
        pburst: i64::from(peak.burst),
        eburst: 0,
    })
}

/// Which elements of an array are meant; none for all.
fn element(index: Option<&WireIndex>, size: u32, place: &str) -> Result<Option<u64>> {
    let Some(WireIndex { index }) = index else { return Ok(None) };
    let at = u64::try_from(*index).map_err(|_| invalid(format!("{place}: index {index} is below 0")))?;
    if at >= u64::from(size) {
        return Err(P4Error::new(
            Code::OutOfRange,
            format!("{place}: index {at} is beyond its {size} elements"),
        ));
    }
    Ok(Some(at))
}

fn range(at: Option<u64>) -> Range {
    at.map_or(Range::All, Range::One)
}

fn wire_index(at: u64) -> Option<WireIndex> {
    Some(WireIndex { index: i64::try_from(at).unwrap_or(i64::MAX) })
}

impl Target {
    pub(super) fn write_counter(&mut self, kind: UpdateType, entry: &CounterEntry) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let counter = known(&pipeline.index.counters, entry.counter_id)?;
        let place = format!("counter '{}'", counter.name);
        Self::only_modify(kind, &place)?;
        let at = element(entry.index.as_ref(), counter.size, &place)?;
        let Some(data) = &entry.data else { return Ok(()) };
        let value = counter_value(data).map_err(|error| error.at(&place))?;
        let array = counter.array;
        if self.wants_undo() {
            let before = self.switch.read_counters(array, range(at))?;
            self.undo_with(move |target| {
                before
                    .into_iter()
                    .try_for_each(|(at, value)| target.switch.write_counter(array, at, value))?;
                Ok(())
            });
        }
        match at {
            Some(at) => self.switch.write_counter(array, at, value)?,
            None if value == CounterValue::default() => self.switch.reset_counters(array)?,
            None => {
                (0..u64::from(counter.size)).try_for_each(|at| self.switch.write_counter(array, at, value))?
            }
        }
        Ok(())
    }

    pub(super) fn write_meter(&mut self, kind: UpdateType, entry: &MeterEntry) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let meter = known(&pipeline.index.meters, entry.meter_id)?;
        let place = format!("meter '{}'", meter.name);
        Self::only_modify(kind, &place)?;
        if entry.counter_data.is_some() {
            return Err(unimplemented(format!("{place}: it keeps no counters for each colour")));
        }
        let at = element(entry.index.as_ref(), meter.size, &place)?;
        let rates =
            entry.config.as_ref().map(|config| rates_of(meter, config)).transpose()?.unwrap_or_default();
        let array = meter.meter;
        if self.wants_undo() {
            let indices = at.map_or(0..u64::from(meter.size), |at| at..at + 1);
            let before: Vec<(u64, Vec<MeterRate>)> =
                indices.map(|at| Ok((at, self.switch.meter_rates(array, at)?))).collect::<Result<_>>()?;
            self.undo_with(move |target| {
                for (at, rates) in before {
                    target.switch.set_meter(array, Range::One(at), &rates)?;
                }
                Ok(())
            });
        }
        Ok(self.switch.set_meter(array, range(at), &rates)?)
    }

    pub(super) fn write_register(&mut self, kind: UpdateType, entry: &RegisterEntry) -> Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        let register = known(&pipeline.index.registers, entry.register_id)?;
        let place = format!("register '{}'", register.name);
        Self::only_modify(kind, &place)?;
        let at = element(entry.index.as_ref(), register.size, &place)?;
        let data = entry.data.as_ref().ok_or_else(|| invalid(format!("{place}: the data is not set")))?;
        let value = packed_number(data, &register.shape).map_err(|error| error.at(&place))?;
        let array = register.register;
        if self.wants_undo() {
            let before = self.switch.read_registers(array, range(at))?;
            self.undo_with(move |target| {
                for (at, value) in before {
                    target.switch.write_registers(array, Range::One(at), &value)?;
                }
                Ok(())
            });
        }
        Ok(self.switch.write_registers(array, range(at), &value)?)
    }

    /// The table entry that a direct resource belongs to: its table, handle and key.
    fn owner<'a>(
        &self,
        pipeline: &'a Pipeline,
        entry: Option<&TableEntry>,
        what: &str,
    ) -> Result<(&'a TableIndex, u64, EntryKey)> {
        let entry = entry.ok_or_else(|| invalid(format!("{what}: the table entry is not set")))?;
        let table = Self::table(pipeline, entry.table_id)?;
        if entry.is_default_action {
            return Err(unimplemented(format!("table '{}': its default entry has no {what}", table.name)));
        }
        let (key, priority) = key_of(table, entry)?;
        let handle = self.find_entry(table, &key, priority)?.handle;
        Ok((table, handle, EntryKey::new(table, &key, priority)))
    }

    pub(super) fn write_direct_counter(
        &mut self,
        kind: UpdateType,
        entry: &DirectCounterEntry,
    ) -> Result<()> {
        Self::only_modify(kind, "a direct counter")?;
        let pipeline = Arc::clone(&self.pipeline);
        let (table, handle, place) = self.owner(&pipeline, entry.table_entry.as_ref(), "direct counter")?;
        if table.counter.is_none() {
            return Err(invalid(format!("table '{}' has no direct counter", table.name)));
        }
        let Some(data) = &entry.data else { return Ok(()) };
        let value = counter_value(data)?;
        let at = table.table;
        if self.wants_undo() {
            self.undo_counter(at, handle, place)?;
        }
        Ok(self.switch.write_direct_counter(at, handle, value)?)
    }

    pub(super) fn write_direct_meter(&mut self, kind: UpdateType, entry: &DirectMeterEntry) -> Result<()> {
        Self::only_modify(kind, "a direct meter")?;
        let pipeline = Arc::clone(&self.pipeline);
        let (table, handle, place) = self.owner(&pipeline, entry.table_entry.as_ref(), "direct meter")?;
        if entry.counter_data.is_some() {
            return Err(unimplemented(format!(
                "table '{}': meters keep no counters for each colour",
                table.name
            )));
        }
        let meter = table.meter.and_then(|id| pipeline.index.direct_meters.get(id));
        let meter = meter.ok_or_else(|| invalid(format!("table '{}' has no direct meter", table.name)))?;
        let rates =
            entry.config.as_ref().map(|config| rates_of(meter, config)).transpose()?.unwrap_or_default();
        let at = table.table;
        if self.wants_undo() {
            self.undo_meter(at, handle, place)?;
        }
        Ok(self.switch.set_direct_meter(at, handle, &rates)?)
    }

    pub(super) fn read_counters(
        &self,
        wanted: &CounterEntry,
        out: &mut dyn FnMut(CounterEntry),
    ) -> Result<()> {
        let counters = &self.index().counters;
        let one = (wanted.counter_id != 0).then(|| known(counters, wanted.counter_id)).transpose()?;
        for counter in counters.iter().filter(|counter| one.is_none_or(|one| one.id == counter.id)) {
            let at = element(
                wanted.index.as_ref().filter(|_| one.is_some()),
                counter.size,
                &format!("counter '{}'", counter.name),
            )?;
            for (at, value) in self.switch.read_counters(counter.array, range(at))? {
                out(CounterEntry {
                    counter_id: counter.id,
                    index: wire_index(at),
                    data: Some(counter_data(value)),
                });
            }
        }
        Ok(())
    }

    pub(super) fn read_meters(&self, wanted: &MeterEntry, out: &mut dyn FnMut(MeterEntry)) -> Result<()> {
        if wanted.counter_data.is_some() {
            return Err(unimplemented("meters keep no counters for each colour"));
        }
        let meters = &self.index().meters;
        let one = (wanted.meter_id != 0).then(|| known(meters, wanted.meter_id)).transpose()?;
        for meter in meters.iter().filter(|meter| one.is_none_or(|one| one.id == meter.id)) {
            let at = element(
                wanted.index.as_ref().filter(|_| one.is_some()),
                meter.size,
                &format!("meter '{}'", meter.name),
            )?;
            for at in at.map_or(0..u64::from(meter.size), |at| at..at + 1) {
                let config = meter_config(&self.switch.meter_rates(meter.meter, at)?);
                out(MeterEntry { meter_id: meter.id, index: wire_index(at), config, counter_data: None });
            }
        }
        Ok(())
    }

    pub(super) fn read_registers(
        &self,
        wanted: &RegisterEntry,
        out: &mut dyn FnMut(RegisterEntry),
    ) -> Result<()> {
        let registers = &self.index().registers;
        let one = (wanted.register_id != 0).then(|| known(registers, wanted.register_id)).transpose()?;
        for register in registers.iter().filter(|register| one.is_none_or(|one| one.id == register.id)) {
            let place = format!("register '{}'", register.name);
            let at = element(wanted.index.as_ref().filter(|_| one.is_some()), register.size, &place)?;
            for (at, value) in self.switch.read_registers(register.register, range(at))? {
                let data = Some(packed_data(&value, &register.shape));
                out(RegisterEntry { register_id: register.id, index: wire_index(at), data });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_p4::ir::{MeterId, MeterUnit};

    #[test]
    fn meter_rates_come_back_as_they_were_written() {
        let meter = |kind| MeterIndex {
            id: 1,
            name: "m".into(),
            meter: MeterId(0),
            kind,
            unit: MeterUnit::Bytes,
            size: 1,
        };
        let mut random = barewire_base::Prng::new(3);
        for _ in 0..10_000 {
            let cir = random.below(1 << 40) as i64;
            let config = MeterConfig {
                cir,
                cburst: random.below(1 << 32) as i64,
                pir: cir + random.below(1 << 40) as i64,
                pburst: random.below(1 << 32) as i64,
                eburst: 0,
            };
            let rates = rates_of(&meter(MeterType::TwoRateThreeColor), &config).unwrap();
            assert_eq!(meter_config(&rates), Some(config));
        }
        assert_eq!(meter_config(&[]), None);
        let config = MeterConfig { cir: 5, cburst: 1, pir: 6, pburst: 1, eburst: 0 };
        let refused = rates_of(&meter(MeterType::SingleRateTwoColor), &config).unwrap_err();
        assert_eq!(refused.code, Code::InvalidArgument);
        let negative = MeterConfig { cir: -1, ..config };
        assert!(
            rates_of(&meter(MeterType::TwoRateThreeColor), &negative)
                .unwrap_err()
                .message
                .contains("cir is -1")
        );
    }
}
