//! The Internet checksum over fields, straight from where they lie in the vector.
//!
//! One's complement sums do not care about byte order (RFC 1071): runs of whole fields are added as they lie, little
//! end first, and the sum is swapped once at the end. Other fields are shifted to where they stand in their 16-bit word.

use super::{Emit, Gen, Unsupported};
use crate::delegate::Delegate;
use crate::env;
use barewire_p4::ir::{
    CalcInput, CalculationId, Checksum, Expr, FieldId, HashAlgorithm, HeaderId, HeaderRef,
};
use barewire_p4::phv::{Place, slot};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I16, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use num_traits::ToPrimitive;

/// A longer input is summed by a call.
const MAX_BITS: u32 = 4096;

/// A piece of the input at a fixed place of it.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// Bits of the vector in a header.
    Bits(u32),
    /// A metadata field.
    Metadata(FieldId),
    /// A constant.
    Const(u64),
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    /// The header whose validity it depends on.
    header: Option<HeaderId>,
    source: Source,
    width: u32,
    /// Where it begins in the input, in bits.
    at: u32,
}

/// A calculation's input laid out, and whether the payload follows.
struct Input {
    pieces: Vec<Piece>,
    payload: bool,
    bits: u32,
}

impl Gen<'_, '_> {
    fn checksum_input(&self, calculation: CalculationId) -> Emit<Input> {
        let program = self.unit.program;
        let mut input = Input { pieces: Vec::new(), payload: false, bits: 0 };
        let fixed = |input: &mut Input, id: FieldId| {
            let metadata = program.headers[id.header.at()].metadata;
            let (source, width) = match self.unit.layout.place(id) {
                Place::Words { width, .. } => (Source::Metadata(id), width),
                Place::Bits { bit, width, .. } => (Source::Bits(bit), width),
                Place::Varbit { .. } => return Err(Unsupported),
            };
            input.pieces.push(Piece {
                header: (!metadata).then_some(id.header),
                source,
                width,
                at: input.bits,
            });
            input.bits += width;
            Ok(())
        };
        for item in &program.calculations[calculation.at()].input {
            if input.payload {
                return Err(Unsupported);
            }
            match item {
                CalcInput::Field(field) => fixed(&mut input, field.fixed().ok_or(Unsupported)?)?,
                CalcInput::Header(HeaderRef::Header(id)) => {
                    for field in 0..program.header_type_of(*id).fields.len() as u32 {
                        fixed(&mut input, FieldId { header: *id, field })?;
                    }
                }
                CalcInput::Const { value, width } if *width <= 64 => {
                    let value = value.to_u64().ok_or(Unsupported)?;
                    let source = Source::Const(value);
                    input.pieces.push(Piece { header: None, source, width: *width, at: input.bits });
                    input.bits += width;
                }
                CalcInput::Payload => input.payload = true,
                _ => return Err(Unsupported),
            }
        }
        if input.payload && !input.bits.is_multiple_of(16) {
            return Err(Unsupported);
        }
        Ok(input)
    }

    /// The value of a calculation with the Internet checksum.
    pub fn internet_checksum(&mut self, calculation: CalculationId) -> Emit<Value> {
        if self.unit.program.calculations[calculation.at()].algorithm != HashAlgorithm::Csum16 {
            return Err(Unsupported);
        }
        let input = self.checksum_input(calculation)?;
        if input.bits > MAX_BITS {
            return Err(Unsupported);
        }
        let groups = self.groups(&input)?;
        // Sums of numbers of at most 48 bits: no overflow within any program's size.
        let zero = self.int(0);
        let (mut little, mut big) = (zero, zero);
        for group in groups {
            let certain = match group[0].header {
                None => true,
                Some(header) => match self.known.valid(header) {
                    Some(false) => continue,
                    known => known == Some(true),
                },
            };
            if certain {
                (little, big) = self.add_group(&group, little, big)?;
                continue;
            }
            let (add, after) = (self.b.create_block(), self.b.create_block());
            let sums = [self.b.append_block_param(after, I64), self.b.append_block_param(after, I64)];
            let header = group[0].header.ok_or(Unsupported)?;
            let valid = self.header_valid(header);
            self.entries.arrive(add, &self.known);
            self.entries.arrive(after, &self.known);
            self.b.ins().brif(valid, add, &[], after, &[little.into(), big.into()]);
            self.enter(add);
            let with = self.add_group(&group, little, big);
            let (l, b) = with.unwrap_or((little, big));
            self.entries.arrive(after, &self.known);
            self.b.ins().jump(after, &[l.into(), b.into()]);
            self.enter(after);
            with?;
            [little, big] = sums;
        }
        if input.payload {
            let env = self.env;
            let sum = self.call_value(env::payload_sum as *const () as usize, &[env], I64);
            big = self.b.ins().iadd(big, sum);
        }
        let sum = if little == zero {
            self.fold(big)
        } else {
            let little = self.fold(little);
            let little = self.b.ins().ireduce(I16, little);
            let swapped = self.b.ins().bswap(little);
            let swapped = self.b.ins().uextend(I64, swapped);
            if big == zero {
                swapped
            } else {
                let sum = self.b.ins().iadd(big, swapped);
                self.fold(sum)
            }
        };
        Ok(self.b.ins().bxor_imm(sum, 0xffff))
    }

    /// Fold a sum to 16 bits: halves are added by adding the number to itself with the halves swapped; what the low
    /// half carries goes where it belongs, and the high half is the sum.
    fn fold(&mut self, sum: Value) -> Value {
        let swapped = self.b.ins().rotl_imm(sum, 32);
        let sum = self.b.ins().iadd(sum, swapped);
        let sum = self.b.ins().ushr_imm(sum, 32);
        let sum = self.b.ins().ireduce(I32, sum);
        let swapped = self.b.ins().rotl_imm(sum, 16);
        let sum = self.b.ins().iadd(sum, swapped);
        let sum = self.b.ins().ushr_imm(sum, 16);
        self.b.ins().uextend(I64, sum)
    }

    /// Pieces that come and go together. One that may be left out must not move what follows within 16-bit words.
    fn groups(&self, input: &Input) -> Emit<Vec<Vec<Piece>>> {
        let mut groups: Vec<Vec<Piece>> = Vec::new();
        for piece in &input.pieces {
            match groups.last_mut() {
                Some(group) if group[0].header == piece.header => group.push(*piece),
                _ => groups.push(vec![*piece]),
            }
        }
        let last = groups.len().saturating_sub(1);
        for (i, group) in groups.iter().enumerate() {
            let known = group[0].header.and_then(|header| self.known.valid(header));
            let bits: u32 = group.iter().map(|piece| piece.width).sum();
            // When it is absent what follows moves up; at the end nothing follows.
            let movable = bits.is_multiple_of(16) || (i == last && !input.payload);
            if group[0].header.is_some() && known != Some(true) && !movable {
                return Err(Unsupported);
            }
        }
        Ok(groups)
    }

    fn add_group(&mut self, group: &[Piece], mut little: Value, mut big: Value) -> Emit<(Value, Value)> {
        let mut i = 0;
        while i < group.len() {
            let first = group[i];
            i += 1;
            match first.source {
                Source::Const(value) => {
                    for (part, width, end) in chunks(first.width, first.at) {
                        let part = if part >= 64 { 0 } else { value >> part & super::access::mask(width) };
                        let part = self.int(part);
                        big = self.add_part(big, part, end);
                    }
                }
                Source::Metadata(id) => {
                    for (part, width, end) in chunks(first.width, first.at) {
                        let limb = self.load_limb(id, part / 64)?;
                        let value = self.shr(limb, part % 64);
                        let value = self.keep(value, width);
                        big = self.add_part(big, value, end);
                    }
                }
                Source::Bits(bit) => {
                    let mut width = first.width;
                    while let Some(next) = group.get(i)
                        && let Source::Bits(next_bit) = next.source
                        && next_bit == bit + width
                    {
                        width += next.width;
                        i += 1;
                    }
                    (little, big) = self.add_run(bit, width, first.at, little, big);
                }
            }
        }
        Ok((little, big))
    }

    /// Consecutive bits of a header.
    fn add_run(
        &mut self,
        bit: u32,
        width: u32,
        at: u32,
        mut little: Value,
        mut big: Value,
    ) -> (Value, Value) {
        let (mut bit, mut width, mut at) = (bit, width, at);
        let flags = self.flags.phv;
        // Up to where 16-bit words of the input begin.
        let ragged = (16 - at % 16) % 16;
        if ragged > 0 {
            let take = ragged.min(width);
            let value = self.load_bits(self.phv, bit, take);
            big = self.add_part(big, value, at + take);
            (bit, width, at) = (bit + take, width - take, at + take);
        }
        if bit.is_multiple_of(8) {
            for (bytes, ty) in [(4, super::access::int_type(4)), (2, super::access::int_type(2))] {
                while width >= bytes * 8 {
                    let value = self.b.ins().load(ty, flags, self.phv, (bit / 8) as i32);
                    let value = self.widen(value);
                    little = self.b.ins().iadd(little, value);
                    (bit, width, at) = (bit + bytes * 8, width - bytes * 8, at + bytes * 8);
                }
            }
        }
        while width > 0 {
            let take = width.min(32);
            let value = self.load_bits(self.phv, bit, take);
            big = self.add_part(big, value, at + take);
            (bit, width, at) = (bit + take, width - take, at + take);
        }
        (little, big)
    }

    /// Add a value of at most 32 bits that ends at bit `end` of the input.
    fn add_part(&mut self, sum: Value, value: Value, end: u32) -> Value {
        let value = self.shl(value, (16 - end % 16) % 16);
        self.b.ins().iadd(sum, value)
    }

    /// Verify or update the program's checksums, in order.
    pub fn checksums(&mut self, update: bool) {
        let unit = self.unit;
        for (index, checksum) in unit.program.checksums.iter().enumerate() {
            if !(if update { checksum.update } else { checksum.verify }) {
                continue;
            }
            let (on, after) = (self.b.create_block(), self.b.create_block());
            self.branch_on(&Expr::Valid(checksum.target.header.clone()), on, after);
            if self.entries.reached(on) {
                self.enter(on);
                let met = match &checksum.condition {
                    Some(condition) => {
                        let met = self.b.create_block();
                        self.branch_on(condition, met, after);
                        met
                    }
                    None => {
                        let met = self.b.create_block();
                        self.jump(met);
                        met
                    }
                };
                if self.entries.reached(met) {
                    self.enter(met);
                    if self.checksum(checksum, update).is_err() {
                        let what = if update { Delegate::Update(index) } else { Delegate::Verify(index) };
                        self.delegate(what, || format!("checksum {}", checksum.name));
                    }
                    self.jump(after);
                }
            }
            self.enter(after);
        }
    }

    /// One checksum that is to be verified or updated.
    fn checksum(&mut self, checksum: &Checksum, update: bool) -> Emit<()> {
        let target = self.small_field(&checksum.target).ok_or(Unsupported)?;
        let value = match self.internet_checksum(checksum.calculation) {
            Ok(value) => value,
            Err(Unsupported) => {
                let plan = self.delegates.plan(self.unit, checksum.calculation).ok_or(Unsupported)?;
                let plan = self.int(plan as u64);
                let env = self.env;
                self.call_value(env::calculate as *const () as usize, &[env, plan], I64)
            }
        };
        if update {
            return self.store_field(target, value);
        }
        let found = self.load_field(target)?;
        let wrong = self.icmp(IntCC::NotEqual, value, found);
        self.set_slot_if(wrong, slot::CHECKSUM_ERROR, 1);
        Ok(())
    }
}

/// A value of `width` bits that begins at bit `at`, in parts of at most 32 bits: each part's lowest bit, its width, and
/// where it ends in the input.
fn chunks(width: u32, at: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    (0..width.div_ceil(32)).map(move |i| {
        let low = i * 32;
        let take = (width - low).min(32);
        (low, take, at + width - low)
    })
}
