//! What calculations feed on, and what becomes of it: hashes, selectors, checksums.

use super::trace::Event;
use super::{Context, ParserFault};
use crate::hash;
use crate::ir::{CalcInput, CalculationId, Checksum, FieldId, HashAlgorithm, HeaderId, ProfileId};
use crate::phv::{Phv, slot};
use crate::state::State;
use num_bigint::{BigInt, BigUint};
use num_traits::{One, ToPrimitive};

/// A string of bits that grows at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BitString {
    bytes: Vec<u8>,
    /// Bits of the last byte that are not used yet.
    free: u32,
}

impl BitString {
    /// How many bits.
    pub fn len(&self) -> usize {
        self.bytes.len() * 8 - self.free as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Append the low `width` bits of a number.
    pub fn push(&mut self, value: &BigUint, width: u32) {
        if width == 0 {
            return;
        }
        let bytes = (value & ((BigUint::one() << width) - 1_u8)).to_bytes_be();
        let whole = width.div_ceil(8) as usize;
        let mut left = width;
        for at in 0..whole {
            // Bytes the number does not have are zero.
            let byte = (at + bytes.len()).checked_sub(whole).map_or(0, |at| bytes[at]);
            let bits = if left.is_multiple_of(8) { 8 } else { left % 8 };
            self.push_bits(byte, bits);
            left -= bits;
        }
    }

    fn push_bits(&mut self, byte: u8, bits: u32) {
        let mut left = bits;
        while left > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let take = left.min(self.free);
            let part = (u32::from(byte) >> (left - take)) & ((1 << take) - 1);
            if let Some(last) = self.bytes.last_mut() {
                *last |= (part << (self.free - take)) as u8;
            }
            self.free -= take;
            left -= take;
        }
    }

    /// Append whole bytes, from a byte boundary (bits before it are zero).
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        self.free = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The bits, padded with zero bits to whole bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The bits as a number.
    pub fn into_number(self) -> BigUint {
        BigUint::from_bytes_be(&self.bytes) >> self.free
    }
}

/// Append a header as it goes on the wire.
pub(super) fn push_header(plan: &super::Plan, phv: &Phv, header: HeaderId, bits: &mut BitString) {
    for field in 0..plan.program.header_type_of(header).fields.len() as u32 {
        let id = FieldId { header, field };
        bits.push(&phv.field(&plan.layout, id), current_bits(plan, phv, id));
    }
}

/// How many bits a field has now.
pub(super) fn current_bits(plan: &super::Plan, phv: &Phv, field: FieldId) -> u32 {
    match plan.layout.place(field) {
        crate::phv::Place::Words { width, .. } | crate::phv::Place::Bits { width, .. } => width,
        crate::phv::Place::Varbit { len_word, max_bits, .. } => {
            phv.slot(len_word as usize).min(u64::from(max_bits)) as u32
        }
    }
}

impl<S: State + ?Sized> Context<'_, S> {
    /// Gather the input of a calculation: bits one after another, the payload from a byte boundary.
    pub fn gather(&mut self, input: &[CalcInput]) -> Result<BitString, ParserFault> {
        let plan = self.plan;
        let mut bits = BitString::default();
        for item in input {
            match item {
                CalcInput::Field(field) => {
                    if let Some(field) = self.field(field)?.filter(|field| self.is_valid(field.header)) {
                        bits.push(&self.phv.field(&plan.layout, field), self.field_bits(field));
                    }
                }
                CalcInput::Header(header) => {
                    if let Some(header) = self.header(header)?.filter(|&header| self.is_valid(header)) {
                        push_header(plan, self.phv, header, &mut bits);
                    }
                }
                CalcInput::Const { value, width } => bits.push(value, *width),
                CalcInput::Expr { value, width } => {
                    let value: BigInt = self.eval(value)?.int();
                    bits.push(&super::eval::low_bits(&value, *width), *width);
                }
                CalcInput::Payload => bits.push_bytes(self.payload()),
            }
        }
        Ok(bits)
    }

    /// The result of a named calculation.
    pub fn calculate(&mut self, calculation: CalculationId) -> Result<u64, ParserFault> {
        let ir = &self.plan.program.calculations[calculation.at()];
        if ir.algorithm == HashAlgorithm::Random {
            return Ok(self.state.random(0, u64::MAX));
        }
        let bytes = self.gather(&ir.input)?.into_bytes();
        Ok(hash::hash(ir.algorithm, self.state.hash_parameters(calculation), &bytes))
    }

    /// The hash by which a profile's selector chooses: see [`crate::hash::hash`] for those that are none.
    pub fn selector_hash(&mut self, profile: ProfileId) -> Result<u64, ParserFault> {
        let Some(selector) = &self.plan.program.profiles[profile.at()].selector else { return Ok(0) };
        let algorithm = match selector.algorithm {
            HashAlgorithm::RoundRobin => return Ok(0),
            HashAlgorithm::Random => HashAlgorithm::Xxh64,
            algorithm => algorithm,
        };
        let bytes = self.gather(&selector.input)?.into_bytes();
        Ok(hash::hash(algorithm, None, &bytes))
    }

    /// Whether a checksum is to be computed: its header valid, its condition met.
    fn applies(&mut self, checksum: &Checksum) -> Result<Option<FieldId>, ParserFault> {
        let target = self.field(&checksum.target)?.filter(|field| self.is_valid(field.header));
        let met = match &checksum.condition {
            Some(condition) if target.is_some() => self.eval_bool(condition)?,
            _ => true,
        };
        Ok(target.filter(|_| met))
    }

    /// Verify what is to be verified after parsing.
    pub(super) fn verify_checksums(&mut self) -> Result<(), ParserFault> {
        let plan = self.plan;
        for checksum in plan.program.checksums.iter().filter(|checksum| checksum.verify) {
            let Some(target) = self.applies(checksum)? else { continue };
            let computed = self.calculate(checksum.calculation)?;
            let found = self.phv.field(&plan.layout, target);
            let correct = found.to_u64() == Some(computed);
            if !correct {
                self.phv.set_slot(slot::CHECKSUM_ERROR, 1);
            }
            if self.tracer.wants() {
                self.tracer.record(Event::ChecksumVerified {
                    name: checksum.name.clone(),
                    computed: format!("{computed:#x}"),
                    found: format!("{found:#x}"),
                    correct,
                });
            }
        }
        Ok(())
    }

    /// Write what is to be updated before deparsing.
    pub(super) fn update_checksums(&mut self) -> Result<(), ParserFault> {
        let plan = self.plan;
        for checksum in plan.program.checksums.iter().filter(|checksum| checksum.update) {
            let Some(target) = self.applies(checksum)? else { continue };
            let value = self.calculate(checksum.calculation)?;
            if self.tracer.wants() {
                let event =
                    Event::ChecksumUpdated { name: checksum.name.clone(), value: format!("{value:#x}") };
                self.tracer.record(event);
            }
            self.write(target, &BigInt::from(value));
        }
        Ok(())
    }
}
