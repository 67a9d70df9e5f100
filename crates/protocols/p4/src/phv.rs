//! The packet header vector: one flat piece of memory that holds everything a program knows of a packet.
//!
//! Both engines work on the same memory, so a clone is a copy, two engines are compared by comparing bytes, and
//! what the compiler does not do itself the interpreter does on the spot. Layout, in this order:
//!
//! 1. [`slot`]s: 64-bit words at fixed places, which the target reads and writes (errors, clone requests …);
//! 2. one validity byte for each header instance (metadata: always 1), padded to a word;
//! 3. one word for each stack and union stack: its next index;
//! 4. one word for each checksum unit;
//! 5. metadata fields: `ceil(width/64)` words each, least significant first, bits above the width zero (a varbit one
//!    as in a header: length word, then bytes);
//! 6. headers, each from a word boundary: the fixed fields packed as on the wire (first field at the most
//!    significant bits of the first byte), as if a varbit field had no bits; then, if there is a varbit field, a
//!    word with its length in bits and its bytes (left-aligned: first bit first; unused bits zero);
//! 7. eight words of padding, so that eight-byte accesses never leave the vector.

use crate::ir::{FieldId, HeaderId, Program, StackId, UnionStackId, Width};
use num_bigint::BigUint;

/// The words at fixed places. All are zero when a packet arrives, unless its target sets them.
pub mod slot {
    /// Parser error number (0 NoError).
    pub const PARSER_ERROR: usize = 0;
    /// Not 0: a verified checksum was wrong.
    pub const CHECKSUM_ERROR: usize = 1;
    /// Not 0: `exit` was executed; a pipeline run clears it at its start.
    pub const EXIT: usize = 2;
    /// Mirror session plus 1 of a clone request (ingress or egress, whichever pipeline runs), 0 for none.
    pub const CLONE: usize = 3;
    /// Its field list's index in [`crate::ir::Program::field_lists`] plus 1, 0 for none.
    pub const CLONE_FIELDS: usize = 4;
    /// Learn list's index plus 1, 0 for none.
    pub const DIGEST: usize = 5;
    /// 1 for a request without field list, field list's index plus 2 for one with, 0 for none.
    pub const RESUBMIT: usize = 6;
    /// The same for recirculation.
    pub const RECIRCULATE: usize = 7;
    /// Length to truncate to, plus 1; 0 for none.
    pub const TRUNCATE: usize = 8;
    /// The packet's length in bytes, as the target set it (adding or removing headers does not change it).
    pub const PACKET_LEN: usize = 9;
    /// Bytes of the packet the parser has consumed; where the payload begins.
    pub const PARSED: usize = 10;
    /// Engine time in microseconds since the switch started, as the target set it.
    pub const NOW_US: usize = 11;
    /// Not 0: an assertion failed (1) or an assumption (2); the pipeline ended there.
    pub const ASSERT: usize = 12;
    /// Not 0: the parser ended (PSA: rejected) by an error.
    pub const REJECTED: usize = 13;
    /// The port that means drop, as the target set it: what [`crate::ir::Stmt::MarkToDrop`] writes.
    pub const DROP_PORT: usize = 14;
    /// Bytes that [`crate::ir::Stmt::SetValid`] and [`crate::ir::Stmt::SetInvalid`] have added to the packet, less
    /// those they removed (wrapping). Other ways to make headers valid or not leave it alone (bmv2's packet length).
    pub const GROWTH: usize = 15;
    /// How many there are.
    pub const COUNT: usize = 16;
}

/// Words behind the last header, so that eight-byte accesses never leave the vector.
const PADDING: usize = 8;

/// Where a field lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Metadata: `ceil(width/64)` words from this one, least significant first.
    Words { word: u32, width: u32, signed: bool },
    /// A header field: `width` bits from this bit of the vector (bit 0 is the most significant of byte 0).
    Bits { bit: u32, width: u32, signed: bool },
    /// A varbit field: its length in bits is in word `len_word`, its bytes begin at byte `byte`.
    Varbit { len_word: u32, byte: u32, max_bits: u32 },
}

/// Where one header lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderPlace {
    /// Its validity byte.
    pub valid_byte: u32,
    /// The first byte of its packed fields; for metadata the first byte of its first word.
    pub byte: u32,
    /// Bits of the fixed fields.
    pub fixed_bits: u32,
    /// Words it takes from `byte` on, varbit part included.
    pub words: u32,
    /// For a header with a varbit field: fixed bits before it.
    pub bits_before_varbit: u32,
    /// Each field.
    pub fields: Vec<Place>,
}

/// The layout of a program's vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Each header instance.
    pub headers: Vec<HeaderPlace>,
    /// The word of each stack's next index.
    pub stack_next: Vec<u32>,
    /// The word of each union stack's next index.
    pub union_stack_next: Vec<u32>,
    /// The word of each checksum unit's running sum.
    pub checksum_units: Vec<u32>,
    /// The first word of the metadata fields.
    pub metadata_word: u32,
    /// The first word of the headers.
    pub headers_word: u32,
    /// Words of the whole vector.
    pub words: u32,
    /// What a vector looks like before a packet: zero, but for the validity of metadata.
    blank: Vec<u64>,
}

impl Layout {
    /// Lay a program's vector out.
    pub fn of(program: &Program) -> Layout {
        let valid_byte = slot::COUNT as u32 * 8;
        let mut word = slot::COUNT as u32 + (program.headers.len() as u32).div_ceil(8);
        let mut take = |count: u32| {
            word += count;
            word - count
        };
        let stack_next = program.stacks.iter().map(|_| take(1)).collect();
        let union_stack_next = program.union_stacks.iter().map(|_| take(1)).collect();
        let checksum_units = program.checksum_units.iter().map(|_| take(1)).collect();
        let metadata_word = take(0);
        let mut headers: Vec<Option<HeaderPlace>> = vec![None; program.headers.len()];
        for metadata in [true, false] {
            for (index, _) in program.headers.iter().enumerate().filter(|(_, h)| h.metadata == metadata) {
                let ty = program.header_type_of(HeaderId::from(index));
                let first = take(0);
                let mut fields = Vec::with_capacity(ty.fields.len());
                let fixed_bits = ty.fixed_bits();
                let mut bits_before_varbit = 0;
                if metadata {
                    for field in &ty.fields {
                        fields.push(match field.width {
                            Width::Fixed(width) => {
                                let word = take(width.div_ceil(64).max(1));
                                Place::Words { word, width, signed: field.signed }
                            }
                            Width::Varbit(max_bits) => {
                                let len_word = take(1);
                                Place::Varbit { len_word, byte: take(max_bits.div_ceil(64)) * 8, max_bits }
                            }
                        });
                    }
                } else {
                    let packed = take(fixed_bits.div_ceil(64));
                    let mut bit = packed * 64;
                    for field in &ty.fields {
                        match field.width {
                            Width::Fixed(width) => {
                                fields.push(Place::Bits { bit, width, signed: field.signed });
                                bit += width;
                            }
                            Width::Varbit(max_bits) => {
                                bits_before_varbit = bit - packed * 64;
                                let len_word = take(1);
                                let data = take(max_bits.div_ceil(64));
                                fields.push(Place::Varbit { len_word, byte: data * 8, max_bits });
                            }
                        }
                    }
                }
                let words = take(0) - first;
                headers[index] = Some(HeaderPlace {
                    valid_byte: valid_byte + index as u32,
                    byte: first * 8,
                    fixed_bits,
                    words,
                    bits_before_varbit,
                    fields,
                });
            }
        }
        let headers: Vec<HeaderPlace> =
            headers.into_iter().map(|h| h.expect("each is laid out once")).collect();
        let headers_word = program
            .headers
            .iter()
            .zip(&headers)
            .filter(|(header, _)| !header.metadata)
            .map(|(_, place)| place.byte / 8)
            .min()
            .unwrap_or(take(0));
        let words = take(PADDING as u32) + PADDING as u32;
        let mut blank = Phv { words: vec![0; words as usize].into_boxed_slice() };
        for (header, place) in program.headers.iter().zip(&headers) {
            if header.metadata {
                blank.set_byte(place.valid_byte as usize, 1);
            }
        }
        let blank = blank.words.into_vec();
        Layout {
            headers,
            stack_next,
            union_stack_next,
            checksum_units,
            metadata_word,
            headers_word,
            words,
            blank,
        }
    }

    /// A vector as before a packet.
    pub fn new_phv(&self) -> Phv {
        Phv { words: self.blank.clone().into_boxed_slice() }
    }

    /// Make a vector as before a packet.
    #[inline]
    pub fn reset(&self, phv: &mut Phv) {
        // The padding is for reading beyond the end, and never means anything.
        let used = self.blank.len() - PADDING;
        phv.words[..used].copy_from_slice(&self.blank[..used]);
    }

    /// From now on headers that are not valid begin with these words instead of zeros, each for a position in the vector
    /// (for tests: what depends on them depends on something a program must not read).
    pub fn scramble(&mut self, program: &Program, mut word: impl FnMut(usize) -> u64) {
        for (place, _) in self.headers.iter().zip(&program.headers).filter(|(_, header)| !header.metadata) {
            let first = place.byte as usize / 8;
            let packed = place.fixed_bits.div_ceil(64) as usize;
            for at in first..first + packed {
                self.blank[at] = word(at);
            }
        }
    }

    /// Make all metadata fields zero (what clones and resubmitted packets begin with).
    pub fn reset_metadata(&self, phv: &mut Phv) {
        phv.words[self.metadata_word as usize..self.headers_word as usize].fill(0);
    }

    /// Where a field lies.
    pub fn place(&self, field: FieldId) -> Place {
        self.headers[field.header.at()].fields[field.field as usize]
    }
}

/// A packet header vector. Meaningless without its [`Layout`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phv {
    words: Box<[u64]>,
}

impl Phv {
    /// All words; bytes lie in them in memory order.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// All words, to be written.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// A fixed slot.
    #[inline]
    pub fn slot(&self, slot: usize) -> u64 {
        self.words[slot]
    }

    /// Write a fixed slot.
    #[inline]
    pub fn set_slot(&mut self, slot: usize, value: u64) {
        self.words[slot] = value;
    }

    /// A byte by its place in memory order.
    pub fn byte(&self, at: usize) -> u8 {
        self.words[at / 8].to_ne_bytes()[at % 8]
    }

    /// Write a byte.
    pub fn set_byte(&mut self, at: usize, value: u8) {
        let mut bytes = self.words[at / 8].to_ne_bytes();
        bytes[at % 8] = value;
        self.words[at / 8] = u64::from_ne_bytes(bytes);
    }

    /// Whether a header is valid.
    pub fn is_valid(&self, layout: &Layout, header: HeaderId) -> bool {
        self.byte(layout.headers[header.at()].valid_byte as usize) != 0
    }

    /// Make a header valid or not; nothing else.
    pub fn set_valid(&mut self, layout: &Layout, header: HeaderId, valid: bool) {
        self.set_byte(layout.headers[header.at()].valid_byte as usize, u8::from(valid));
    }

    /// The next index of a stack.
    pub fn stack_next(&self, layout: &Layout, stack: StackId) -> u64 {
        self.words[layout.stack_next[stack.at()] as usize]
    }

    /// The next index of a stack of unions.
    pub fn union_stack_next(&self, layout: &Layout, stack: UnionStackId) -> u64 {
        self.words[layout.union_stack_next[stack.at()] as usize]
    }

    /// `width <= 64` bits from bit `bit` of the vector.
    pub fn bits(&self, bit: u32, width: u32) -> u64 {
        let mut value = 0_u64;
        let (mut bit, mut left) = (bit as usize, width);
        while left > 0 {
            let in_byte = (8 - bit % 8) as u32;
            let take = in_byte.min(left);
            let byte = u64::from(self.byte(bit / 8));
            let part = byte >> (in_byte - take) & ((1 << take) - 1);
            value = value << take | part;
            bit += take as usize;
            left -= take;
        }
        value
    }

    /// Write the low `width <= 64` bits of a value from bit `bit` of the vector.
    pub fn set_bits(&mut self, bit: u32, width: u32, value: u64) {
        let (mut bit, mut left) = (bit as usize, width);
        while left > 0 {
            let in_byte = (8 - bit % 8) as u32;
            let take = in_byte.min(left);
            let mask = ((1_u16 << take) - 1) as u8;
            let part = (value >> (left - take)) as u8 & mask;
            let shift = in_byte - take;
            let byte = self.byte(bit / 8);
            self.set_byte(bit / 8, byte & !(mask << shift) | part << shift);
            bit += take as usize;
            left -= take;
        }
    }

    /// A field's bits as an unsigned number, whatever its width (a varbit field's current bits).
    pub fn field(&self, layout: &Layout, field: FieldId) -> BigUint {
        match layout.place(field) {
            Place::Words { word, width, .. } => {
                let count = width.div_ceil(64).max(1);
                let words = &self.words[word as usize..(word + count) as usize];
                let digits: Vec<u32> = words.iter().flat_map(|&w| [w as u32, (w >> 32) as u32]).collect();
                BigUint::new(digits)
            }
            Place::Bits { bit, width, .. } => self.wide_bits(bit, width),
            Place::Varbit { len_word, byte, max_bits } => {
                let len = self.words[len_word as usize].min(u64::from(max_bits)) as u32;
                self.wide_bits(byte * 8, len)
            }
        }
    }

    /// Write a field's low bits. A varbit field keeps its length (bmv2 does not assign numbers to one).
    pub fn set_field(&mut self, layout: &Layout, field: FieldId, value: &BigUint) {
        let digits = value.to_u64_digits();
        match layout.place(field) {
            Place::Words { word, width, .. } => {
                let count = width.div_ceil(64).max(1);
                for i in 0..count {
                    let bits = (width - 64 * i).min(64);
                    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
                    self.words[(word + i) as usize] = digits.get(i as usize).copied().unwrap_or(0) & mask;
                }
            }
            Place::Bits { bit, width, .. } => self.set_wide_bits(bit, width, &digits),
            Place::Varbit { len_word, byte, max_bits } => {
                let len = self.words[len_word as usize].min(u64::from(max_bits)) as u32;
                self.set_wide_bits(byte * 8, len, &digits);
            }
        }
    }

    /// A field of at most 64 bits, unsigned (wider ones: their low 64 bits).
    pub fn get(&self, layout: &Layout, field: FieldId) -> u64 {
        self.get_at(layout.place(field))
    }

    /// The same by its place.
    pub fn get_at(&self, place: Place) -> u64 {
        match place {
            Place::Words { word, .. } => self.words[word as usize],
            Place::Bits { bit, width, .. } if width <= 64 => self.bits(bit, width),
            Place::Bits { bit, width, .. } => self.bits(bit + width - 64, 64),
            Place::Varbit { len_word, byte, max_bits } => {
                let len = self.words[len_word as usize].min(u64::from(max_bits)) as u32;
                if len <= 64 { self.bits(byte * 8, len) } else { self.bits(byte * 8 + len - 64, 64) }
            }
        }
    }

    /// Write a field of at most 64 bits (wider ones: the rest becomes zero).
    pub fn set(&mut self, layout: &Layout, field: FieldId, value: u64) {
        match layout.place(field) {
            Place::Words { word, width, .. } if width <= 64 => {
                self.words[word as usize] = if width == 64 { value } else { value & ((1 << width) - 1) };
            }
            Place::Bits { bit, width, .. } if width <= 64 => self.set_bits(bit, width, value),
            _ => self.set_field(layout, field, &BigUint::from(value)),
        }
    }

    fn wide_bits(&self, bit: u32, width: u32) -> BigUint {
        let mut digits = Vec::with_capacity(width.div_ceil(32) as usize);
        let mut left = width;
        while left > 0 {
            let take = left.min(32);
            digits.push(self.bits(bit + left - take, take) as u32);
            left -= take;
        }
        BigUint::new(digits)
    }

    fn set_wide_bits(&mut self, bit: u32, width: u32, digits: &[u64]) {
        let mut left = width;
        let mut index = 0;
        while left > 0 {
            let take = left.min(64);
            self.set_bits(bit + left - take, take, digits.get(index).copied().unwrap_or(0));
            left -= take;
            index += 1;
        }
    }
}
