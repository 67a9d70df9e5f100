//! Fields in the vector: reading and writing words of them, validity, references that only the packet resolves.

use crate::Reason;
use crate::r#gen::{Gen, Made, POOL, TEMP, TEMP2, VECTOR};
use barewire_ebpf::{Alu, Bits, Cond, Reg, Size};
use barewire_p4::ir::{Expr, FieldId, FieldRef, HeaderId, HeaderRef, StackId, Width};
use barewire_p4::phv::Place;

/// A header behind a reference.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    /// This one.
    Fixed(HeaderId),
    /// None, for every packet.
    Nothing,
    /// One of these, by an index.
    Among(Vec<HeaderId>, Index),
}

/// Where the index comes from.
#[derive(Debug, Clone)]
pub(crate) enum Index {
    /// The stack's next index, less 1.
    Last(StackId),
    Computed(Expr),
}

impl Gen<'_> {
    pub fn header(&self, header: &HeaderRef) -> Made<Found> {
        let elements = |stack: &StackId| self.program.stacks[stack.at()].elements.clone();
        let fixed = |header: Option<&HeaderId>| header.map_or(Found::Nothing, |id| Found::Fixed(*id));
        Ok(match header {
            HeaderRef::Header(id) => Found::Fixed(*id),
            HeaderRef::StackNext(stack) => {
                let Some(place) = &self.parser else {
                    return Err(Reason::No("stack.next outside the parser"));
                };
                fixed(elements(stack).get(place.next[stack.at()] as usize))
            }
            HeaderRef::StackLast(stack) => match &self.parser {
                Some(place) => match place.next[stack.at()].checked_sub(1) {
                    Some(last) => fixed(elements(stack).get(last as usize)),
                    None => Found::Nothing,
                },
                None => Found::Among(elements(stack), Index::Last(*stack)),
            },
            HeaderRef::StackElement(stack, index) => match &**index {
                Expr::Int(index) => {
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    fixed(elements(stack).get(index))
                }
                index => Found::Among(elements(stack), Index::Computed(index.clone())),
            },
            _ => return Err(Reason::No("stacks of header unions")),
        })
    }

    pub fn index(&mut self, index: &Index, at: usize) -> Made {
        match index {
            Index::Last(stack) => {
                let next = self.word(self.shape.layout.stack_next[stack.at()]);
                self.asm.load(Size::D, POOL[at], VECTOR, next);
                // Less than none is 2^64 - 1, which no element has.
                self.asm.add_imm(POOL[at], -1);
                Ok(())
            }
            Index::Computed(expr) => self.eval_index(expr, at),
        }
    }

    pub fn is_metadata(&self, header: HeaderId) -> bool {
        self.program.headers[header.at()].metadata
    }

    /// `to = 1` if the header is valid, else 0.
    pub fn load_valid(&mut self, header: HeaderId, to: Reg) {
        if self.is_metadata(header) {
            self.asm.mov_imm(to, 1);
        } else {
            let at = self.valid_byte(header);
            self.asm.load(Size::B, to, VECTOR, at);
        }
    }

    /// The same for any reference.
    pub fn load_valid_ref(&mut self, header: &HeaderRef, at: usize) -> Made {
        match self.header(header)? {
            Found::Fixed(header) => self.load_valid(header, POOL[at]),
            Found::Nothing => self.asm.mov_imm(POOL[at], 0),
            Found::Among(elements, index) => {
                self.index(&index, at)?;
                self.among(&elements, at, &mut |this, element| {
                    this.load_valid(element, POOL[at]);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// `POOL[at]` has an index: do something for the element it names, or make the register 0.
    pub fn among(
        &mut self,
        elements: &[HeaderId],
        at: usize,
        each: &mut dyn FnMut(&mut Self, HeaderId) -> Made,
    ) -> Made {
        let done = self.asm.label();
        for (number, element) in elements.iter().enumerate() {
            let next = self.asm.label();
            self.asm.jump_if_imm(Bits::B64, Cond::Ne, POOL[at], number as i32, next);
            each(self, *element)?;
            self.asm.jump(done);
            self.asm.place(next);
        }
        self.asm.mov_imm(POOL[at], 0);
        self.asm.place(done);
        Ok(())
    }

    /// A word of a field's value (sign-extended when the field is signed), whichever header it turns out to be of.
    pub fn load_ref(&mut self, field: &FieldRef, word: u32, at: usize) -> Made {
        match self.header(&field.header)? {
            Found::Fixed(header) => self.load_field(FieldId { header, field: field.field }, word, POOL[at]),
            Found::Nothing => {
                self.asm.mov_imm(POOL[at], 0);
                Ok(())
            }
            Found::Among(elements, index) => {
                self.index(&index, at)?;
                let number = field.field;
                self.among(&elements, at, &mut |this, header| {
                    this.load_field(FieldId { header, field: number }, word, POOL[at])
                })
            }
        }
    }

    /// Where a field whose value is read or written lies. At tc a transport checksum has none to speak of.
    pub fn field_place(&self, field: FieldId) -> Made<Place> {
        if self.is_tc() && self.is_transport_checksum(field) {
            return Err(Reason::UNFINISHED);
        }
        Ok(self.shape.layout.place(field))
    }

    /// By its place in a header of UDP's or TCP's length: names are the program's own.
    fn is_transport_checksum(&self, field: FieldId) -> bool {
        const TCP: (u32, u32) = (160, 128);
        const UDP: (u32, u32) = (64, 48);
        let ty = self.program.header_type_of(field.header);
        let width = |width: &Width| match width {
            Width::Fixed(bits) => *bits,
            Width::Varbit(_) => 0,
        };
        let Some(own) = ty.fields.get(field.field as usize).map(|own| width(&own.width)) else {
            return false;
        };
        let before: u32 = ty.fields[..field.field as usize].iter().map(|field| width(&field.width)).sum();
        !self.is_metadata(field.header) && own == 16 && [TCP, UDP].contains(&(ty.fixed_bits(), before))
    }

    pub fn load_field(&mut self, field: FieldId, word: u32, to: Reg) -> Made {
        let place = self.field_place(field)?;
        self.load_place(place, word, to, true)
    }

    /// A word of what lies there, sign-extended if asked and signed.
    pub fn load_place(&mut self, place: Place, word: u32, to: Reg, sign: bool) -> Made {
        let (width, signed) = match place {
            Place::Words { width, signed, .. } | Place::Bits { width, signed, .. } => (width, signed && sign),
            Place::Varbit { .. } => return Err(Reason::No("a varbit field's value")),
        };
        let left = width.saturating_sub(64 * word);
        if left == 0 {
            if signed {
                return Err(Reason::No("signed values of more than 64 bits"));
            }
            self.asm.mov_imm(to, 0);
            return Ok(());
        }
        let take = left.min(64);
        match place {
            Place::Words { word: first, .. } => {
                let at = self.word(first + word);
                self.asm.load(Size::D, to, VECTOR, at);
            }
            Place::Bits { bit, .. } => self.load_bits(bit + left - take, take, to),
            Place::Varbit { .. } => {}
        }
        if signed && take < 64 {
            self.asm.alu_imm(Alu::Lsh, to, 64 - take as i32);
            self.asm.alu_imm(Alu::Arsh, to, 64 - take as i32);
        }
        Ok(())
    }

    /// At most 64 bits from bit `bit` of the vector. Loses r5.
    pub fn load_bits(&mut self, bit: u32, width: u32, to: Reg) {
        let (byte, shift) = ((bit / 8) as i16, bit % 8);
        let container = (shift + width).next_power_of_two().max(8);
        if container > 64 {
            let over = shift + width - 64;
            self.asm.load(Size::D, to, VECTOR, byte);
            self.asm.to_be(to, 64);
            self.asm.alu_imm(Alu::Lsh, to, over as i32);
            self.asm.load(Size::B, TEMP, VECTOR, byte + 8);
            self.asm.alu_imm(Alu::Rsh, TEMP, 8 - over as i32);
            self.asm.alu(Alu::Or, to, TEMP);
            if width < 64 {
                self.asm.alu_imm(Alu::Lsh, to, 64 - width as i32);
                self.asm.alu_imm(Alu::Rsh, to, 64 - width as i32);
            }
            return;
        }
        let size = Size::of(container / 8).unwrap_or(Size::D);
        self.asm.load(size, to, VECTOR, byte);
        if container > 8 {
            self.asm.to_be(to, container as i32);
        }
        let right = container - shift - width;
        if shift != 0 {
            self.asm.alu_imm(Alu::Lsh, to, (64 - width - right) as i32);
            self.asm.alu_imm(Alu::Rsh, to, 64 - width as i32);
        } else if right != 0 {
            self.asm.alu_imm(Alu::Rsh, to, right as i32);
        }
    }

    /// Keep a register's low bits.
    pub fn mask(&mut self, reg: Reg, width: u32) {
        match width {
            64.. => {}
            32 => self.asm.alu32(Alu::Mov, reg, reg),
            1..=30 => self.asm.alu32_imm(Alu::And, reg, (1 << width) - 1),
            0 => self.asm.mov_imm(reg, 0),
            _ => {
                self.asm.alu_imm(Alu::Lsh, reg, 64 - width as i32);
                self.asm.alu_imm(Alu::Rsh, reg, 64 - width as i32);
            }
        }
    }

    /// Write a register's low bits to a place of at most 64 bits. Loses the register, r5 and r7.
    pub fn store_place(&mut self, place: Place, from: Reg) -> Made {
        match place {
            Place::Words { word, width, .. } if width <= 64 => {
                self.mask(from, width);
                let at = self.word(word);
                self.asm.store(Size::D, VECTOR, at, from);
                Ok(())
            }
            Place::Bits { bit, width, .. } if width <= 64 => self.store_bits(bit, width, from),
            _ => Err(Reason::No("writing a field of that kind")),
        }
    }

    /// Write a register's low bits from bit `bit` of the vector. Loses the register, r5 and r7.
    pub fn store_bits(&mut self, bit: u32, width: u32, from: Reg) -> Made {
        if width == 0 {
            return Ok(());
        }
        let (byte, shift) = ((bit / 8) as i16, bit % 8);
        let container = (shift + width).next_power_of_two().max(8);
        if container > 64 {
            // In two pieces: what is in the last byte, and what is before it.
            let last = (bit + width) % 8;
            let last = if last == 0 { 8 } else { last };
            let kept = self.spill()?;
            self.asm.store(Size::D, Reg::FP, kept, from);
            self.asm.alu_imm(Alu::Rsh, from, last as i32);
            self.store_bits(bit, width - last, from)?;
            self.asm.load(Size::D, from, Reg::FP, kept);
            self.unspill();
            return self.store_bits(bit + width - last, last, from);
        }
        if shift == 0 && width.is_multiple_of(8) {
            // Whole bytes.
            if let Some(size) = Size::of(width / 8) {
                if width > 8 {
                    self.asm.to_be(from, width as i32);
                }
                self.asm.store(size, VECTOR, byte, from);
                return Ok(());
            }
            self.asm.alu_imm(Alu::Lsh, from, 64 - width as i32);
            self.asm.to_be(from, 64);
            self.store_pieces(byte, width / 8, from);
            return Ok(());
        }
        let size = Size::of(container / 8).unwrap_or(Size::D);
        let right = container - shift - width;
        self.mask(from, width);
        self.asm.alu_imm(Alu::Lsh, from, right as i32);
        self.asm.load(size, TEMP, VECTOR, byte);
        if container > 8 {
            self.asm.to_be(TEMP, container as i32);
        }
        let ones = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        let clear = !(ones << right);
        match i32::try_from(clear as i64) {
            Ok(imm) => self.asm.alu_imm(Alu::And, TEMP, imm),
            Err(_) => {
                self.asm.wide(TEMP2, clear);
                self.asm.alu(Alu::And, TEMP, TEMP2);
            }
        }
        self.asm.alu(Alu::Or, TEMP, from);
        if container > 8 {
            self.asm.to_be(TEMP, container as i32);
        }
        self.asm.store(size, VECTOR, byte, TEMP);
        Ok(())
    }

    /// Store the first `bytes` bytes of a register in memory order, in pieces. Loses the register.
    pub fn store_pieces(&mut self, at: i16, bytes: u32, from: Reg) {
        let (mut at, mut left) = (at, bytes);
        for size in [Size::D, Size::W, Size::H, Size::B] {
            let len = size.bytes();
            if left >= len {
                self.asm.store(size, VECTOR, at, from);
                left -= len;
                at += len as i16;
                if left > 0 {
                    self.asm.alu_imm(Alu::Rsh, from, 8 * len as i32);
                }
            }
        }
    }

    /// Store a register's low bytes, most significant first. Loses the register.
    pub fn store_be(&mut self, at: i16, bytes: u32, from: Reg) {
        match Size::of(bytes) {
            Some(size) => {
                if bytes > 1 {
                    self.asm.to_be(from, 8 * bytes as i32);
                }
                self.asm.store(size, VECTOR, at, from);
            }
            None => {
                self.asm.alu_imm(Alu::Lsh, from, 64 - 8 * bytes as i32);
                self.asm.to_be(from, 64);
                self.store_pieces(at, bytes, from);
            }
        }
    }

    /// How many words a place's value has.
    pub fn words_of(place: Place) -> u32 {
        match place {
            Place::Words { width, .. } | Place::Bits { width, .. } => width.div_ceil(64).max(1),
            Place::Varbit { .. } => 1,
        }
    }

    /// Write a wide field from scratch words, least significant first.
    pub fn store_wide(&mut self, place: Place, scratch: u32) -> Made {
        for word in 0..Self::words_of(place) {
            let from = self.scratch(scratch + word);
            self.asm.load(Size::D, Reg::R0, VECTOR, from);
            match place {
                Place::Words { word: first, width, .. } => {
                    self.mask(Reg::R0, (width - 64 * word).min(64));
                    let at = self.word(first + word);
                    self.asm.store(Size::D, VECTOR, at, Reg::R0);
                }
                Place::Bits { bit, width, .. } => {
                    let left = width - 64 * word;
                    let take = left.min(64);
                    self.store_bits(bit + left - take, take, Reg::R0)?;
                }
                Place::Varbit { .. } => return Err(Reason::No("writing a varbit field")),
            }
        }
        Ok(())
    }
}
