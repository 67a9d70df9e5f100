//! The input of a calculation, gathered from the vector by a list of copies made beforehand: no big numbers, no memory
//! per packet.

use barewire_p4::ir::{
    CalcInput, CalculationId, Expr, FieldId, HashAlgorithm, HeaderId, HeaderRef, ProfileId, Program,
};
use barewire_p4::phv::{Layout, Phv, Place};
use num_bigint::BigUint;

/// One copy.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Bits of a header, if it is valid.
    Bits { valid_byte: Option<u32>, bit: u32, width: u32 },
    /// A metadata field's low bits.
    Words { word: u32, width: u32 },
    /// A constant, as 64-bit limbs, least significant first.
    Const { limbs: Vec<u64>, width: u32 },
    /// What follows the headers, from a byte boundary.
    Payload,
}

/// The input of one calculation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatherPlan {
    /// The calculation, if it has a name: its parameters may be set.
    pub calculation: Option<CalculationId>,
    /// The hash.
    pub algorithm: HashAlgorithm,
    steps: Vec<Step>,
}

impl GatherPlan {
    /// The plan of a named calculation; none when its input has something only the interpreter does.
    pub fn of_calculation(program: &Program, layout: &Layout, id: CalculationId) -> Option<GatherPlan> {
        let calculation = &program.calculations[id.at()];
        GatherPlan::of(program, layout, &calculation.input, calculation.algorithm, Some(id))
    }

    /// The plan of a selector.
    pub fn of_selector(program: &Program, layout: &Layout, id: ProfileId) -> Option<GatherPlan> {
        let selector = program.profiles[id.at()].selector.as_ref()?;
        // A selector that is no function of its input: the state keeps the turn, and the hash tells inputs apart.
        let algorithm = match selector.algorithm {
            HashAlgorithm::Random => HashAlgorithm::Xxh64,
            algorithm => algorithm,
        };
        GatherPlan::of(program, layout, &selector.input, algorithm, None)
    }

    /// The plan of any input.
    pub fn of(
        program: &Program,
        layout: &Layout,
        input: &[CalcInput],
        algorithm: HashAlgorithm,
        calculation: Option<CalculationId>,
    ) -> Option<GatherPlan> {
        let mut steps = Vec::new();
        let valid = |header: HeaderId| {
            (!program.headers[header.at()].metadata).then(|| layout.headers[header.at()].valid_byte)
        };
        for item in input {
            match item {
                CalcInput::Field(field) => {
                    let id = field.fixed()?;
                    steps.push(field_step(layout, id, valid(id.header))?);
                }
                CalcInput::Header(HeaderRef::Header(header)) => {
                    for field in 0..program.header_type_of(*header).fields.len() as u32 {
                        steps.push(field_step(layout, FieldId { header: *header, field }, valid(*header))?);
                    }
                }
                CalcInput::Const { value, width } => steps.push(constant(value, *width)),
                CalcInput::Expr { value, width } => match value {
                    Expr::Int(value) if value.sign() != num_bigint::Sign::Minus => {
                        steps.push(constant(value.magnitude(), *width));
                    }
                    Expr::Field(field) => {
                        let id = field.fixed()?;
                        let def = program.field_def(id);
                        if def.signed || def.bits() < *width {
                            return None;
                        }
                        // Its low bits, whether the header is valid or not.
                        steps.push(match field_step(layout, id, None)? {
                            Step::Bits { bit, width: whole, .. } => {
                                Step::Bits { valid_byte: None, bit: bit + whole - *width, width: *width }
                            }
                            Step::Words { word, .. } => Step::Words { word, width: *width },
                            step => step,
                        });
                    }
                    _ => return None,
                },
                CalcInput::Payload => steps.push(Step::Payload),
                CalcInput::Header(_) => return None,
            }
        }
        Some(GatherPlan { calculation, algorithm, steps: merge(steps) })
    }

    /// Gather the input into `out`, which is emptied first; the last byte is padded with zero bits.
    pub fn gather(&self, phv: &Phv, payload: &[u8], out: &mut Vec<u8>) {
        let mut bits = Bits::new(out);
        for step in &self.steps {
            match step {
                Step::Bits { valid_byte, bit, width } => {
                    if valid_byte.is_none_or(|byte| phv.byte(byte as usize) != 0) {
                        let (mut bit, mut left) = (*bit, *width);
                        while left > 0 {
                            let take = left.min(56);
                            bits.push(window(phv, bit, take), take);
                            bit += take;
                            left -= take;
                        }
                    }
                }
                Step::Words { word, width } => {
                    let word = *word as usize;
                    push_limbs(&mut bits, |limb| phv.words()[word + limb], *width);
                }
                Step::Const { limbs, width } => {
                    push_limbs(&mut bits, |limb| limbs.get(limb).copied().unwrap_or(0), *width)
                }
                Step::Payload => bits.push_bytes(payload),
            }
        }
        bits.finish();
    }
}

/// `width <= 56` bits of the vector from bit `bit`.
fn window(phv: &Phv, bit: u32, width: u32) -> u64 {
    let (word, shift) = ((bit / 64) as usize, bit % 64);
    let high = u64::from_be_bytes(phv.words()[word].to_ne_bytes());
    let value = if shift + width <= 64 {
        high << shift
    } else {
        let low = u64::from_be_bytes(phv.words()[word + 1].to_ne_bytes());
        high << shift | low >> (64 - shift)
    };
    value >> (64 - width)
}

fn push_limbs(bits: &mut Bits<'_>, limb: impl Fn(usize) -> u64, width: u32) {
    for at in (0..width.div_ceil(64)).rev() {
        let here = (width - 64 * at).min(64);
        let value = limb(at as usize);
        if here > 32 {
            bits.push(value >> 32, here - 32);
        }
        bits.push(value, here.min(32));
    }
}

fn field_step(layout: &Layout, field: FieldId, valid_byte: Option<u32>) -> Option<Step> {
    match layout.place(field) {
        Place::Words { word, width, .. } => Some(Step::Words { word, width }),
        Place::Bits { bit, width, .. } => Some(Step::Bits { valid_byte, bit, width }),
        Place::Varbit { .. } => None,
    }
}

fn constant(value: &BigUint, width: u32) -> Step {
    Step::Const { limbs: value.to_u64_digits(), width }
}

/// Neighbours in one header become one copy.
fn merge(steps: Vec<Step>) -> Vec<Step> {
    let mut out: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps {
        if let (Some(Step::Bits { valid_byte, bit, width }), Step::Bits { valid_byte: v, bit: b, width: w }) =
            (out.last_mut(), &step)
            && *valid_byte == *v
            && *bit + *width == *b
        {
            *width += w;
            continue;
        }
        out.push(step);
    }
    out
}

/// Bits that go into bytes one after another.
struct Bits<'a> {
    out: &'a mut Vec<u8>,
    /// Bits not written yet, in the low `count` bits.
    held: u64,
    /// Below 8 between calls.
    count: u32,
}

impl Bits<'_> {
    fn new(out: &mut Vec<u8>) -> Bits<'_> {
        out.clear();
        Bits { out, held: 0, count: 0 }
    }

    /// The low `width <= 56` bits.
    fn push(&mut self, value: u64, width: u32) {
        let value = value & (u64::MAX >> (64 - width.max(1)));
        if width == 0 {
            return;
        }
        self.held = self.held << width | value;
        self.count += width;
        let whole = self.count / 8;
        let rest = self.count % 8;
        if whole > 0 {
            let bytes = (self.held >> rest << (64 - 8 * whole)).to_be_bytes();
            self.out.extend_from_slice(&bytes[..whole as usize]);
            self.held &= (1 << rest) - 1;
            self.count = rest;
        }
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        self.finish();
        self.out.extend_from_slice(bytes);
    }

    fn finish(&mut self) {
        if self.count > 0 {
            self.push(0, 8 - self.count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_every_width_follow_each_other() {
        let mut out = vec![0xa5; 3];
        let mut bits = Bits::new(&mut out);
        bits.push(0b101, 3);
        bits.push(u64::MAX, 56);
        bits.push(0, 0);
        bits.push(0, 1);
        bits.push(0x1ff, 9);
        bits.push_bytes(&[7, 8]);
        bits.push(1, 1);
        bits.finish();
        // 101, 56 ones, 0, nine ones: 69 bits, padded to 72; then the bytes; then one bit.
        assert_eq!(out, [0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0xf8, 7, 8, 0x80]);
    }
}
