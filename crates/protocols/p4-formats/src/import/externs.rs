//! Counters, meters, registers, calculations, checksums, lists, PSA externs.

use super::constant::{hex_u32, hex_unsigned, low_bits};
use super::error::{Fault, Problem, Result, nearest};
use super::expr::{Context, FieldOrValid};
use super::json::Json;
use super::names::{Extern, Numbers};
use super::{Importer, MAX_ARRAY_SIZE, MAX_FIELD_BITS, MAX_METER_RATES};
use barewire_p4::ir::{
    CalcInput, Calculation, CalculationId, Checksum, ChecksumUnitId, CounterArray, CounterId, CrcParameters,
    Expr, FieldList, FieldListId, FieldRef, HashAlgorithm, HeaderRef, LearnList, LearnListId, ListItem,
    MeterArray, MeterId, MeterUnit, RegisterArray, RegisterId, UnaryOp,
};
use barewire_text::Quote;
use num_bigint::BigUint;

/// bmv2's hash functions.
const ALGORITHMS: [(&str, HashAlgorithm); 20] = [
    ("crc8", HashAlgorithm::Crc8),
    ("crc8_custom", HashAlgorithm::Crc8Custom),
    ("crc16", HashAlgorithm::Crc16),
    ("crc16_custom", HashAlgorithm::Crc16Custom),
    ("crc32", HashAlgorithm::Crc32),
    ("crc32_custom", HashAlgorithm::Crc32Custom),
    ("crc64_custom", HashAlgorithm::Crc64Custom),
    ("crcCCITT", HashAlgorithm::CrcCcitt),
    ("csum16", HashAlgorithm::Csum16),
    ("cksum16", HashAlgorithm::Csum16),
    ("xor16", HashAlgorithm::Xor16),
    ("xor32", HashAlgorithm::Xor32),
    ("identity", HashAlgorithm::Identity),
    ("toeplitz", HashAlgorithm::Toeplitz),
    ("xxh64", HashAlgorithm::Xxh64),
    ("bmv2_hash", HashAlgorithm::Bmv2Hash),
    ("hash_ex", HashAlgorithm::HashEx),
    ("round_robin", HashAlgorithm::RoundRobin),
    ("round_robin_consistent", HashAlgorithm::RoundRobinConsistent),
    ("random", HashAlgorithm::Random),
];

fn algorithm(at: &Json<'_>) -> Result<HashAlgorithm> {
    let name = at.str()?;
    if let Some((_, algorithm)) = ALGORITHMS.iter().find(|(n, _)| *n == name) {
        return Ok(*algorithm);
    }
    match CrcParameters::named(name) {
        Some(crc) => Ok(HashAlgorithm::Crc(crc)),
        None => {
            let nearest = nearest(
                name,
                ALGORITHMS.iter().map(|a| a.0).chain(barewire_p4::hash::crc::NAMED.iter().map(|c| c.0)),
            );
            Err(Fault::new(at, Problem::Unknown { kind: "hash algorithm", name: name.into(), nearest }))
        }
    }
}

impl Importer {
    /// One input of a calculation, a selector or a digest; its width in bits where it is a field.
    fn input(&self, item: &Json<'_>) -> Result<(CalcInput, u32)> {
        let ty = item.need("type")?;
        Ok(match ty.str()? {
            "field" => match self.field_or_valid(item.need("value")?)? {
                FieldOrValid::Field(field) => {
                    let width = self.width_of(&field);
                    (CalcInput::Field(field), width)
                }
                FieldOrValid::Valid(header) => {
                    let value = Expr::Unary(UnaryOp::BoolToInt, Box::new(Expr::Valid(header)));
                    (CalcInput::Expr { value, width: 1 }, 1)
                }
            },
            "hexstr" => {
                let width = item.need("bitwidth")?.count("a constant's width", MAX_FIELD_BITS)?;
                let value = low_bits(&super::constant::hex(item.need("value")?)?, width);
                (CalcInput::Const { value, width }, width)
            }
            "header" => {
                let header = self.names.headers.at(item.need("value")?)?;
                (CalcInput::Header(header.into()), self.program.header_type_of(header).fixed_bits())
            }
            "payload" => (CalcInput::Payload, 0),
            other => {
                let nearest = nearest(other, ["field", "hexstr", "header", "payload"]);
                return Err(Fault::new(
                    ty,
                    Problem::Unknown { kind: "input type", name: other.into(), nearest },
                ));
            }
        })
    }

    pub(super) fn inputs(&self, list: &[Json<'_>]) -> Result<Vec<CalcInput>> {
        list.iter().map(|item| self.input(item).map(|(input, _)| input)).collect()
    }

    pub(super) fn hash(&mut self, at: &Json<'_>) -> Result<HashAlgorithm> {
        let algorithm = algorithm(at)?;
        if algorithm == HashAlgorithm::Random {
            self.note(at, "bmv2 does not have the hash 'random'; here it is a random number");
        }
        Ok(algorithm)
    }

    pub(super) fn field_lists(&mut self, root: &Json<'_>) -> Result<()> {
        for item in root.list("field_lists")? {
            let number =
                self.names.field_lists.add(item, FieldListId::from(self.program.field_lists.len()))?;
            let mut items = Vec::new();
            for element in item.list("elements")? {
                let ty = element.need("type")?;
                items.push(match ty.str()? {
                    "field" => ListItem::Field(self.field(element.need("value")?)?),
                    "hexstr" => {
                        let width = element.need("bitwidth")?.count("a constant's width", MAX_FIELD_BITS)?;
                        let value = low_bits(&super::constant::hex(element.need("value")?)?, width);
                        ListItem::Const { value, width }
                    }
                    other => {
                        let nearest = nearest(other, ["field", "hexstr"]);
                        let kind = "field list element";
                        return Err(Fault::new(ty, Problem::Unknown { kind, name: other.into(), nearest }));
                    }
                });
            }
            let name = item.get("name").map_or(Ok(""), Json::str)?.to_owned();
            self.program.field_lists.push(FieldList { id: number, name, items });
        }
        Ok(())
    }

    pub(super) fn learn_lists(&mut self, root: &Json<'_>) -> Result<()> {
        let mut names = super::names::Scope::new("learn list");
        for item in root.list("learn_lists")? {
            let id = self.names.learn_lists.add(item, LearnListId::from(self.program.learn_lists.len()))?;
            let name = item.need_str("name")?;
            names.add(item, name, ())?;
            let mut items = Vec::new();
            for element in item.list("elements")? {
                let input = self.input(element)?;
                if matches!(input.0, CalcInput::Payload | CalcInput::Header(_)) {
                    let reason = "a digest is made of fields";
                    return Fault::unsupported(element, "a header or the payload in a digest", reason);
                }
                items.push(input);
            }
            self.program.learn_lists.push(LearnList { id, name: name.to_owned(), items });
        }
        Ok(())
    }

    pub(super) fn calculations(&mut self, root: &Json<'_>) -> Result<()> {
        let mut ids = Numbers::new("calculation number");
        for item in root.list("calculations")? {
            let id = CalculationId::from(self.program.calculations.len());
            ids.add(item, id)?;
            let name = item.need_str("name")?;
            let algorithm = self.hash(item.need("algo")?)?;
            let input = self.inputs(item.list("input")?)?;
            self.names.calculations.add(item.need("name")?, name, id)?;
            self.program.calculations.push(Calculation { name: name.to_owned(), algorithm, input });
        }
        Ok(())
    }

    /// Counter arrays; the direct ones get their table when it is read.
    pub(super) fn counters(&mut self, root: &Json<'_>) -> Result<()> {
        let mut ids = Numbers::new("counter number");
        for item in root.list("counter_arrays")? {
            let id = CounterId::from(self.program.counters.len());
            let number = ids.add(item, id)?;
            let name = item.need_str("name")?;
            let size = match item.flag("is_direct", false)? {
                true => 0,
                false => item.need("size")?.count("a counter array's size", MAX_ARRAY_SIZE)?,
            };
            self.take_state(item, u64::from(size) * 16)?;
            self.names.counters.add(item.need("name")?, name, id)?;
            self.names.free_counter = self.names.free_counter.max(number.saturating_add(1));
            let counter = CounterArray { name: name.to_owned(), id: number, size, direct: None };
            self.program.counters.push(counter);
        }
        Ok(())
    }

    /// A number for a counter array that the file does not declare.
    pub(super) fn free_counter_number(&mut self) -> u32 {
        let number = self.names.free_counter;
        self.names.free_counter = number.saturating_add(1);
        number
    }

    pub(super) fn meters(&mut self, root: &Json<'_>) -> Result<()> {
        let mut ids = Numbers::new("meter number");
        for item in root.list("meter_arrays")? {
            let id = MeterId::from(self.program.meters.len());
            let number = ids.add(item, id)?;
            let name = item.need_str("name")?;
            let unit = self.meter_unit(item.need("type")?)?;
            let rate_count = item.need("rate_count")?.count("a meter's rates", MAX_METER_RATES)?;
            let direct = item.flag("is_direct", false)?;
            let size = match item.get("size") {
                Some(size) => size.count("a meter array's size", MAX_ARRAY_SIZE)?,
                None if direct => 0,
                None => return Err(Fault::new(item, Problem::Missing("size"))),
            };
            let result = match direct {
                true => Some(self.field(item.need("result_target")?)?),
                false => None,
            };
            self.take_state(item, u64::from(size) * (16 + 32 * u64::from(rate_count)))?;
            self.names.meters.add(item.need("name")?, name, id)?;
            self.names.free_meter = self.names.free_meter.max(number.saturating_add(1));
            let meter = MeterArray {
                name: name.to_owned(),
                id: number,
                size,
                unit,
                rate_count,
                direct: None,
                result,
            };
            self.program.meters.push(meter);
        }
        Ok(())
    }

    fn meter_unit(&self, at: &Json<'_>) -> Result<MeterUnit> {
        match at.str()? {
            "packets" => Ok(MeterUnit::Packets),
            "bytes" => Ok(MeterUnit::Bytes),
            other => {
                let nearest = nearest(other, ["packets", "bytes"]);
                Err(Fault::new(at, Problem::Unknown { kind: "meter type", name: other.into(), nearest }))
            }
        }
    }

    pub(super) fn registers(&mut self, root: &Json<'_>) -> Result<()> {
        let mut ids = Numbers::new("register number");
        for item in root.list("register_arrays")? {
            let id = RegisterId::from(self.program.registers.len());
            let number = ids.add(item, id)?;
            let name = item.need_str("name")?;
            let size = item.need("size")?.count("a register array's size", MAX_ARRAY_SIZE)?;
            let width = item.need("bitwidth")?.count("a register's width", MAX_FIELD_BITS)?;
            self.take_state(item, u64::from(size) * u64::from(width.div_ceil(64)) * 8)?;
            self.names.registers.add(item.need("name")?, name, id)?;
            // Ours: bmv2 begins with 0 and passes this over.
            let initial = match item.get("initial_value") {
                Some(value) => {
                    let number = hex_unsigned(value)?;
                    if number.bits() > u64::from(width) {
                        let text = format!("{} has more than {width} bits", value.describe());
                        return Fault::value(value, text);
                    }
                    number
                }
                None => BigUint::ZERO,
            };
            self.program.registers.push(RegisterArray {
                name: name.to_owned(),
                id: number,
                size,
                width,
                initial,
            });
        }
        Ok(())
    }

    /// PSA extern instances. p4c declares their counters among the counter arrays too.
    pub(super) fn externs(&mut self, root: &Json<'_>) -> Result<()> {
        let mut ids = Numbers::new("extern number");
        for item in root.list("extern_instances")? {
            ids.add(item, ())?;
            let name = item.need_str("name")?;
            let ty = item.need("type")?;
            let attributes = item.list("attribute_values")?;
            let attribute = |wanted: &'static str| -> Result<&Json<'_>> {
                for attribute in attributes {
                    if attribute.need_str("name")? == wanted {
                        return attribute.need("value");
                    }
                }
                Err(Fault::new(item, Problem::Missing(wanted)))
            };
            let value = match ty.str()? {
                "Counter" => {
                    let at = attribute("n_counters")?;
                    let size = self.array_size(at)?;
                    let counter = match self.names.counters.get(name) {
                        Some(counter) => counter,
                        None => {
                            self.take_state(item, u64::from(size) * 16)?;
                            let counter = CounterId::from(self.program.counters.len());
                            let id = self.free_counter_number();
                            self.names.counters.add(item, name, counter)?;
                            let array = CounterArray { name: name.to_owned(), id, size, direct: None };
                            self.program.counters.push(array);
                            counter
                        }
                    };
                    Extern::Counter(counter)
                }
                "Meter" => {
                    let size = self.array_size(attribute("n_meters")?)?;
                    // As in bmv2, what is not 'bytes' is packets.
                    let unit = match attribute("type")?.str()? {
                        "bytes" => MeterUnit::Bytes,
                        _ => MeterUnit::Packets,
                    };
                    let at = attribute("rate_count")?;
                    let rate_count = hex_u32(at, "a meter's rates")?;
                    if rate_count > MAX_METER_RATES {
                        let (value, limit) = (rate_count.into(), MAX_METER_RATES.into());
                        return Err(Fault::new(at, Problem::Limit { what: "a meter's rates", value, limit }));
                    }
                    let meter = match self.names.meters.get(name) {
                        Some(meter) => meter,
                        None => {
                            self.take_state(item, u64::from(size) * (16 + 32 * u64::from(rate_count)))?;
                            let meter = MeterId::from(self.program.meters.len());
                            let id = self.names.free_meter;
                            self.names.free_meter = id.saturating_add(1);
                            self.names.meters.add(item, name, meter)?;
                            let name = name.to_owned();
                            let (direct, result) = (None, None);
                            self.program.meters.push(MeterArray {
                                name,
                                id,
                                size,
                                unit,
                                rate_count,
                                direct,
                                result,
                            });
                            meter
                        }
                    };
                    Extern::Meter(meter)
                }
                "Hash" => Extern::Hash(self.hash(attribute("algo")?)?),
                "InternetChecksum" => {
                    let unit = ChecksumUnitId::from(self.program.checksum_units.len());
                    self.program.checksum_units.push(name.to_owned());
                    Extern::Checksum(unit)
                }
                "Random" => {
                    let (low, high) = (hex_unsigned(attribute("min")?)?, hex_unsigned(attribute("max")?)?);
                    if low > high {
                        return Fault::value(item, format!("a random number from {low} to {high}"));
                    }
                    Extern::Random { low, high }
                }
                other => {
                    let known = ["Counter", "Meter", "Hash", "InternetChecksum", "Random"];
                    let hint = barewire_text::hint(", ", barewire_text::nearest(other, known), Quote::Single);
                    let reason = format!("externs here are {}{hint}", known.join(", "));
                    return Fault::unsupported(ty, format!("extern type '{other}'"), reason);
                }
            };
            self.names.externs.add(item.need("name")?, name, value)?;
        }
        Ok(())
    }

    fn array_size(&self, at: &Json<'_>) -> Result<u32> {
        let size = hex_u32(at, "an array's size")?;
        if size > MAX_ARRAY_SIZE {
            let (value, limit) = (size.into(), MAX_ARRAY_SIZE.into());
            return Err(Fault::new(at, Problem::Limit { what: "an array's size", value, limit }));
        }
        Ok(size)
    }

    pub(super) fn checksums(&mut self, root: &Json<'_>) -> Result<()> {
        let mut ids = Numbers::new("checksum number");
        for item in root.list("checksums")? {
            ids.add(item, ())?;
            let name = item.need_str("name")?;
            let target = self.field(item.need("target")?)?;
            if self.is_varbit(&target) {
                return Fault::value(item.need("target")?, "a varbit field cannot hold a checksum");
            }
            let ty = item.need("type")?;
            let calculation = match ty.str()? {
                "generic" => self.names.calculations.at(item.need("calculation")?)?,
                "ipv4" => self.ipv4_calculation(name, &target),
                other => {
                    let nearest = nearest(other, ["generic", "ipv4"]);
                    let problem = Problem::Unknown { kind: "checksum type", name: other.into(), nearest };
                    return Err(Fault::new(ty, problem));
                }
            };
            let condition = item.get("if_cond").map(|c| self.truth(c, &Context::default())).transpose()?;
            let (verify, update) = (item.flag("verify", true)?, item.flag("update", true)?);
            let name = name.to_owned();
            self.program.checksums.push(Checksum { name, target, calculation, verify, update, condition });
        }
        Ok(())
    }

    /// The internet checksum over a whole header but for the checksum itself.
    fn ipv4_calculation(&mut self, name: &str, target: &FieldRef) -> CalculationId {
        let id = CalculationId::from(self.program.calculations.len());
        let fields = self.program.header_types[self.program.type_of_ref(&target.header).at()].fields.len();
        let header: HeaderRef = target.header.clone();
        let input = (0..fields as u32)
            .filter(|&field| field != target.field)
            .map(|field| CalcInput::Field(FieldRef { header: header.clone(), field }))
            .collect();
        let algorithm = HashAlgorithm::Csum16;
        self.program.calculations.push(Calculation { name: format!("$ipv4:{name}"), algorithm, input });
        id
    }
}
