//! Hashes and checksums: their input a group of fields after the other, so that headers that are not there are left out.

use crate::Reason;
use crate::fields::Found;
use crate::r#gen::{Gen, Made, TEMP, TEMP2, VECTOR};
use crate::maps::fixed;
use barewire_ebpf::{Alu, Bits, Cond, Reg, Size};
use barewire_p4::hash::crc::NAMED;
use barewire_p4::ir::{
    CalcInput, Calculation, CrcParameters, Expr, FieldId, FieldRef, HashAlgorithm, HashSource, HeaderId,
    ProfileId,
};
use barewire_p4::phv::{Place, slot};

/// Scratch words: the running sum, and the words a group is packed into.
const SUM: u32 = 20;
const PACKED: u32 = 21;
/// Bytes a group may have.
const GROUP_MAX: u32 = 8 * 24;

/// One piece of input: so many bits.
enum Item<'a> {
    Place(Place, u32),
    Const(&'a num_bigint::BigUint, u32),
    Expr(&'a Expr, u32),
}

/// Pieces that are there or not together.
struct Group<'a> {
    header: Option<HeaderId>,
    items: Vec<Item<'a>>,
    bits: u32,
}

/// What is computed, as a step for each byte or half-word.
#[derive(Clone, Copy)]
enum Kind {
    Sum16,
    Xor16,
    Identity,
    Crc(CrcParameters),
}

fn kind(algorithm: HashAlgorithm) -> Made<Kind> {
    let named = |name: &str| NAMED.iter().find(|(known, _)| *known == name).map(|(_, spec)| Kind::Crc(*spec));
    let kind = match algorithm {
        HashAlgorithm::Csum16 => Some(Kind::Sum16),
        HashAlgorithm::Xor16 => Some(Kind::Xor16),
        HashAlgorithm::Identity => Some(Kind::Identity),
        HashAlgorithm::Crc16 => named("crc_16"),
        HashAlgorithm::Crc32 => named("crc_32"),
        HashAlgorithm::CrcCcitt => named("crc_ccitt_false"),
        HashAlgorithm::Crc8 => named("crc_8"),
        HashAlgorithm::Crc(spec) if spec.reflect_data == spec.reflect_remainder => Some(Kind::Crc(spec)),
        _ => None,
    };
    kind.ok_or(Reason::No("a hash of this kind"))
}

impl Gen<'_> {
    /// The groups of some input; `known` is a header that is valid here.
    fn groups<'a>(&self, input: &'a [CalcInput]) -> Made<Vec<Group<'a>>> {
        let mut groups: Vec<Group> = Vec::new();
        let mut add = |header: Option<HeaderId>, item: Item<'a>, bits: u32| match groups.last_mut() {
            Some(last) if last.header == header => {
                last.items.push(item);
                last.bits += bits;
            }
            _ => groups.push(Group { header, items: vec![item], bits }),
        };
        let place = |header: HeaderId, field: u32| -> Made<(Place, u32)> {
            let place = self.field_place(FieldId { header, field })?;
            match place {
                Place::Words { width, .. } | Place::Bits { width, .. } => Ok((place, width)),
                Place::Varbit { .. } => Err(Reason::No("a hash over varbit fields")),
            }
        };
        for input in input {
            match input {
                CalcInput::Field(field) => match self.header(&field.header)? {
                    Found::Fixed(header) => {
                        let (place, width) = place(header, field.field)?;
                        add(Some(header).filter(|h| !self.is_metadata(*h)), Item::Place(place, width), width);
                    }
                    Found::Nothing => {}
                    Found::Among(..) => {
                        return Err(Reason::No("a hash over an element that the packet names"));
                    }
                },
                CalcInput::Header(header) => match self.header(header)? {
                    Found::Fixed(header) => {
                        for field in 0..self.program.header_type_of(header).fields.len() as u32 {
                            let (place, width) = place(header, field)?;
                            let group = Some(header).filter(|h| !self.is_metadata(*h));
                            add(group, Item::Place(place, width), width);
                        }
                    }
                    Found::Nothing => {}
                    Found::Among(..) => {
                        return Err(Reason::No("a hash over an element that the packet names"));
                    }
                },
                CalcInput::Const { value, width } => add(None, Item::Const(value, *width), *width),
                CalcInput::Expr { value, width } => add(None, Item::Expr(value, *width), *width),
                CalcInput::Payload => return Err(Reason::No("a hash over the payload")),
            }
        }
        Ok(groups)
    }

    /// Pack a group's bits into the scratch words from [`PACKED`] on, the last ones padded with zero bits.
    fn pack(&mut self, group: &Group) -> Made {
        let (mut filled, mut word) = (0, 0);
        let mut pieces: Vec<(usize, u32, u32)> = Vec::new();
        for (index, item) in group.items.iter().enumerate() {
            let (Item::Place(_, width) | Item::Const(_, width) | Item::Expr(_, width)) = item;
            // Each piece lies in one 64-bit word of the value and in one of the packed string.
            let mut left = *width;
            while left > 0 {
                let in_value = if left % 64 == 0 { 64 } else { left % 64 };
                let take = in_value.min(64 - filled % 64);
                pieces.push((index, left, take));
                filled += take;
                left -= take;
            }
        }
        filled = 0;
        for (index, left, take) in pieces {
            // Bits left-take .. left of the value.
            let (low, value_word) = ((left - take) % 64, (left - take) / 64);
            match &group.items[index] {
                Item::Place(place, _) => self.load_place(*place, value_word, Reg::R0, false)?,
                Item::Const(value, _) => {
                    let digit = value.iter_u64_digits().nth(value_word as usize).unwrap_or(0);
                    self.asm.constant(Reg::R0, digit);
                }
                Item::Expr(expr, _) => {
                    // The packed word so far is in a register that an expression may need.
                    let at = self.scratch(SUM + 26);
                    self.asm.store(Size::D, VECTOR, at, TEMP2);
                    self.eval(expr, value_word, 0)?;
                    self.asm.load(Size::D, TEMP2, VECTOR, at);
                }
            }
            if low > 0 {
                self.asm.alu_imm(Alu::Rsh, Reg::R0, low as i32);
            }
            self.mask(Reg::R0, take);
            if filled == 0 {
                self.asm.mov(TEMP2, Reg::R0);
            } else {
                self.asm.alu_imm(Alu::Lsh, TEMP2, take as i32);
                self.asm.alu(Alu::Or, TEMP2, Reg::R0);
            }
            filled += take;
            if filled == 64 {
                self.packed(word, 64);
                (filled, word) = (0, word + 1);
            }
        }
        if filled > 0 {
            self.packed(word, filled);
        }
        Ok(())
    }

    fn packed(&mut self, word: u32, filled: u32) {
        if filled < 64 {
            self.asm.alu_imm(Alu::Lsh, TEMP2, 64 - filled as i32);
        }
        self.asm.to_be(TEMP2, 64);
        let at = self.scratch(PACKED + word);
        self.asm.store(Size::D, VECTOR, at, TEMP2);
    }

    /// `r0` = the result of an algorithm over some input.
    fn compute(&mut self, algorithm: HashAlgorithm, input: &[CalcInput]) -> Made {
        let kind = kind(algorithm)?;
        let groups = self.groups(input)?;
        let sum = self.scratch(SUM);
        let unit = match kind {
            Kind::Sum16 | Kind::Xor16 => 16,
            Kind::Identity | Kind::Crc(_) => 8,
        };
        let conditional = groups.iter().filter(|group| group.header.is_some()).count();
        if matches!(kind, Kind::Identity) && (groups.len() > 1 && conditional > 0) {
            return Err(Reason::No("an identity hash over several headers"));
        }
        let last = groups.len().saturating_sub(1);
        for (at, group) in groups.iter().enumerate() {
            if (at != last && group.bits % unit != 0) || group.bits > GROUP_MAX * 8 {
                return Err(Reason::No("a hash over headers that are not whole bytes, or long ones"));
            }
        }
        let table = match kind {
            Kind::Crc(spec) => Some(self.crc_table(spec)),
            _ => None,
        };
        match kind {
            Kind::Crc(spec) => {
                let up = 64 - u32::from(spec.width);
                let initial =
                    if spec.reflect_data { (spec.initial << up).reverse_bits() } else { spec.initial << up };
                self.asm.constant(Reg::R0, initial);
            }
            _ => self.asm.mov_imm(Reg::R0, 0),
        }
        self.asm.store(Size::D, VECTOR, sum, Reg::R0);
        for group in &groups {
            let skip = self.asm.label();
            if let Some(header) = group.header {
                self.load_valid(header, Reg::R0);
                self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, skip);
            }
            self.pack(group)?;
            self.asm.load(Size::D, Reg::R0, VECTOR, sum);
            self.take_in(kind, group.bits.div_ceil(8), table.unwrap_or(0));
            self.asm.store(Size::D, VECTOR, sum, Reg::R0);
            self.asm.place(skip);
        }
        self.asm.load(Size::D, Reg::R0, VECTOR, sum);
        self.finish(kind);
        Ok(())
    }

    /// Takes the packed bytes of a group into `r0`. `table`: where the constants of a CRC begin.
    fn take_in(&mut self, kind: Kind, bytes: u32, table: u32) {
        match kind {
            Kind::Sum16 | Kind::Xor16 => {
                // What is behind the group's end in its last word is zero.
                let op = if matches!(kind, Kind::Sum16) { Alu::Add } else { Alu::Xor };
                for half in 0..bytes.div_ceil(2) {
                    let at = self.scratch(PACKED) + 2 * half as i16;
                    self.asm.load(Size::H, TEMP, VECTOR, at);
                    self.asm.to_be(TEMP, 16);
                    self.asm.alu(op, Reg::R0, TEMP);
                }
            }
            Kind::Identity => {
                let at = self.scratch(PACKED);
                self.asm.load(Size::D, Reg::R0, VECTOR, at);
                self.asm.to_be(Reg::R0, 64);
                if bytes < 8 {
                    self.asm.alu_imm(Alu::Rsh, Reg::R0, 64 - 8 * bytes as i32);
                }
            }
            Kind::Crc(spec) => {
                for byte in 0..bytes {
                    let at = self.scratch(PACKED) + byte as i16;
                    self.asm.load(Size::B, Reg::R1, VECTOR, at);
                    self.asm.mov(Reg::R2, Reg::R0);
                    if spec.reflect_data {
                        self.asm.alu_imm(Alu::Rsh, Reg::R0, 8);
                    } else {
                        self.asm.alu_imm(Alu::Rsh, Reg::R2, 56);
                        self.asm.alu_imm(Alu::Lsh, Reg::R0, 8);
                    }
                    self.asm.alu(Alu::Xor, Reg::R2, Reg::R1);
                    self.asm.alu_imm(Alu::And, Reg::R2, 0xff);
                    self.asm.alu_imm(Alu::Lsh, Reg::R2, 3);
                    self.asm.map_value(Reg::R3, fixed::CONSTANTS as i32, table);
                    self.asm.alu(Alu::Add, Reg::R3, Reg::R2);
                    self.asm.load(Size::D, Reg::R3, Reg::R3, 0);
                    self.asm.alu(Alu::Xor, Reg::R0, Reg::R3);
                }
            }
        }
    }

    /// Makes the result of what has been taken into `r0`.
    fn finish(&mut self, kind: Kind) {
        match kind {
            Kind::Sum16 => {
                for _ in 0..2 {
                    self.asm.mov(TEMP, Reg::R0);
                    self.asm.alu_imm(Alu::Rsh, TEMP, 16);
                    self.asm.alu_imm(Alu::And, Reg::R0, 0xffff);
                    self.asm.alu(Alu::Add, Reg::R0, TEMP);
                }
                self.asm.alu_imm(Alu::Xor, Reg::R0, 0xffff);
            }
            Kind::Crc(spec) => {
                if !spec.reflect_remainder && spec.width < 64 {
                    self.asm.alu_imm(Alu::Rsh, Reg::R0, 64 - i32::from(spec.width));
                }
                if spec.final_xor != 0 {
                    self.asm.constant(TEMP, spec.final_xor);
                    self.asm.alu(Alu::Xor, Reg::R0, TEMP);
                }
                self.mask(Reg::R0, u32::from(spec.width));
            }
            Kind::Xor16 | Kind::Identity => {}
        }
    }

    /// Adds input to a sum of 16 bits that lies in the vector, or takes it away.
    pub fn add_to_sum(&mut self, sum: i16, input: &[CalcInput], away: bool) -> Made {
        if self.groups(input)?.iter().any(|group| group.bits % 16 != 0) {
            return Err(Reason::No("a checksum over what is not whole half-words"));
        }
        self.compute(HashAlgorithm::Csum16, input)?;
        // It is the sum's complement, which is what is added to take the sum away.
        if !away {
            self.asm.alu_imm(Alu::Xor, Reg::R0, 0xffff);
        }
        self.asm.load(Size::D, Reg::R1, VECTOR, sum);
        self.asm.alu(Alu::Add, Reg::R0, Reg::R1);
        self.asm.mov(Reg::R1, Reg::R0);
        self.asm.alu_imm(Alu::Rsh, Reg::R1, 16);
        self.asm.alu_imm(Alu::And, Reg::R0, 0xffff);
        self.asm.alu(Alu::Add, Reg::R0, Reg::R1);
        self.asm.store(Size::D, VECTOR, sum, Reg::R0);
        Ok(())
    }

    /// Where a CRC's table lies in the constants.
    fn crc_table(&mut self, spec: CrcParameters) -> u32 {
        if let Some((_, at)) = self.shape.crc.iter().find(|(known, _)| *known == spec) {
            return *at;
        }
        let at = 2048 * self.shape.crc.len() as u32;
        let up = 64 - u32::from(spec.width);
        let polynomial = spec.polynomial << up;
        let mut bytes = Vec::with_capacity(2048);
        for byte in 0..256_u64 {
            let remainder = if spec.reflect_data {
                let mirrored = polynomial.reverse_bits();
                (0..8).fold(byte, |r, _| if r & 1 != 0 { r >> 1 ^ mirrored } else { r >> 1 })
            } else {
                (0..8).fold(byte << 56, |r, _| if r >> 63 != 0 { r << 1 ^ polynomial } else { r << 1 })
            };
            bytes.extend_from_slice(&remainder.to_ne_bytes());
        }
        let map = &mut self.shape.maps[fixed::CONSTANTS];
        let mut all = map.initial.pop().unwrap_or_default();
        all.extend_from_slice(&bytes);
        map.value = all.len() as u32;
        map.initial.push(all);
        self.shape.crc.push((spec, at));
        at
    }

    /// `r0` = the hash by which a profile's selector chooses.
    pub fn selector_hash(&mut self, profile: ProfileId) -> Made {
        let program = self.program;
        let Some(selector) = &program.profiles[profile.at()].selector else {
            return Err(Reason::No("groups without a selector"));
        };
        self.compute(selector.algorithm, &selector.input)
    }

    fn calculation(&mut self, calculation: &Calculation) -> Made {
        self.compute(calculation.algorithm, &calculation.input)
    }

    pub fn hash_stmt(
        &mut self,
        dst: &FieldRef,
        source: &HashSource,
        base: Option<&Expr>,
        max: Option<&Expr>,
    ) -> Made {
        // The parts are computed first: the hash takes all registers.
        for (scratch, part) in [(17, base), (18, max)] {
            if let Some(part) = part {
                self.eval_kept(part, scratch)?;
            }
        }
        let program = self.program;
        match source {
            HashSource::Calculation(id) => self.calculation(&program.calculations[id.at()])?,
            HashSource::Inline { algorithm, input } => self.compute(*algorithm, input)?,
        }
        if max.is_some() {
            let (at, one) = (self.scratch(18), self.asm.label());
            self.asm.load(Size::D, Reg::R1, VECTOR, at);
            self.asm.jump_nonzero(Reg::R1, one);
            self.asm.mov_imm(Reg::R1, 1);
            self.asm.place(one);
            self.asm.alu(Alu::Mod, Reg::R0, Reg::R1);
        }
        if base.is_some() {
            let at = self.scratch(17);
            self.asm.load(Size::D, Reg::R1, VECTOR, at);
            self.asm.alu(Alu::Add, Reg::R0, Reg::R1);
        }
        self.assign_register(dst, Reg::R0)
    }

    /// Verify (after parsing) or update (before deparsing) the program's checksums.
    pub fn checksums(&mut self, verify: bool) -> Made {
        let program = self.program;
        for checksum in program.checksums.iter().filter(|c| if verify { c.verify } else { c.update }) {
            let Found::Fixed(header) = self.header(&checksum.target.header)? else {
                return Err(Reason::No("a checksum of an element that the packet names"));
            };
            let place = self.field_place(FieldId { header, field: checksum.target.field })?;
            if !Self::narrow(place) {
                return Err(Reason::No("a checksum of more than 64 bits"));
            }
            let skip = self.asm.label();
            self.load_valid(header, Reg::R0);
            self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, skip);
            if let Some(condition) = &checksum.condition {
                self.branch(condition, skip, false, 0)?;
            }
            self.calculation(&program.calculations[checksum.calculation.at()])?;
            if verify {
                let at = self.slot(slot::CHECKSUM_ERROR);
                self.load_place(place, 0, Reg::R1, false)?;
                self.asm.jump_if(Bits::B64, Cond::Eq, Reg::R0, Reg::R1, skip);
                self.asm.store_imm(Size::D, VECTOR, at, 1);
            } else {
                self.store_place(place, Reg::R0)?;
            }
            self.asm.place(skip);
        }
        Ok(())
    }
}
