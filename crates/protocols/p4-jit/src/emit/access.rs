//! Fields in the vector: loads, stores, copies. Header fields lie packed, most significant bit first.
//!
//! Accesses use windows of 1, 2, 4 or 8 bytes that contain the field. A window may reach beyond the field, up to
//! eight bytes: within the vector that is always memory of the vector (its last eight words are padding); what is
//! written there is what was read. In packets only the exact bytes are touched.

use super::{Emit, Gen, Unsupported};
use crate::env;
use barewire_p4::ir::{FieldId, HeaderId};
use barewire_p4::phv::Place;
use cranelift_codegen::ir::types::{I8, I8X16, I16, I32, I64, I128};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Type, Value};

/// Up to so many bytes are copied by moves, more by a call.
const MAX_MOVES: u32 = 512;

/// The low `width` bits set.
pub const fn mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

impl Gen<'_, '_> {
    /// Keep the low `width` bits of a 64-bit value.
    pub fn keep(&mut self, value: Value, width: u32) -> Value {
        if width >= 64 {
            return value;
        }
        let mask = self.int(mask(width));
        self.b.ins().band(value, mask)
    }

    /// `value << count`, count below 64.
    pub fn shl(&mut self, value: Value, count: u32) -> Value {
        if count == 0 { value } else { self.b.ins().ishl_imm(value, i64::from(count)) }
    }

    /// `value >> count`, zeros coming in, count below 64.
    pub fn shr(&mut self, value: Value, count: u32) -> Value {
        if count == 0 { value } else { self.b.ins().ushr_imm(value, i64::from(count)) }
    }

    /// A big-endian number of 1, 2, 4 or 8 bytes, as 64 bits.
    pub fn load_be(&mut self, flags: MemFlags, base: Value, byte: i32, bytes: u32) -> Value {
        let ty = int_type(bytes);
        let value = self.b.ins().load(ty, flags, base, byte);
        let value = if bytes == 1 { value } else { self.b.ins().bswap(value) };
        self.widen(value)
    }

    /// Zero-extend to 64 bits.
    pub fn widen(&mut self, value: Value) -> Value {
        if self.b.func.dfg.value_type(value) == I64 { value } else { self.b.ins().uextend(I64, value) }
    }

    /// Cut a 64-bit value.
    pub fn narrow(&mut self, ty: Type, value: Value) -> Value {
        if ty == I64 { value } else { self.b.ins().ireduce(ty, value) }
    }

    /// `width <= 64` bits of the memory at `base` from bit `bit`, zero-extended. Windows may read up to 7 bytes beyond.
    pub fn load_bits(&mut self, base: Value, bit: u32, width: u32) -> Value {
        let flags = self.flags.phv;
        let (byte, off) = ((bit / 8) as i32, bit % 8);
        let need = off + width;
        if width == 0 {
            return self.int(0);
        }
        if off == 0 && width == 48 {
            // Two loads that each lie inside what one store of an extracted header wrote: those forward.
            let high = self.load_be(flags, base, byte, 4);
            let low = self.load_be(flags, base, byte + 4, 2);
            let high = self.shl(high, 16);
            return self.b.ins().bor(high, low);
        }
        if need <= 64 {
            let bytes = need.div_ceil(8).next_power_of_two();
            let value = self.load_be(flags, base, byte, bytes);
            let value = self.shr(value, bytes * 8 - need);
            return if off == 0 { value } else { self.keep(value, width) };
        }
        let high = self.load_be(flags, base, byte, 8);
        let low = self.load_be(flags, base, byte + 8, 1);
        let high = self.shl(high, need - 64);
        let low = self.shr(low, 72 - need);
        let value = self.b.ins().bor(high, low);
        self.keep(value, width)
    }

    /// Write the low `width <= 64` bits of a value to the memory at `base` from bit `bit`.
    pub fn store_bits(&mut self, base: Value, bit: u32, width: u32, value: Value) {
        let flags = self.flags.phv;
        let (byte, off) = ((bit / 8) as i32, bit % 8);
        let need = off + width;
        if width == 0 {
            return;
        }
        if off == 0 && width.is_multiple_of(8) {
            self.store_bytes(flags, base, byte, width / 8, value);
            return;
        }
        if need > 64 {
            // The last bits go alone.
            let low = need - 64;
            let high_part = self.shr(value, low);
            self.store_bits(base, bit, width - low, high_part);
            self.store_bits(base, bit + width - low, low, value);
            return;
        }
        let bytes = need.div_ceil(8).next_power_of_two();
        let shift = bytes * 8 - need;
        let old = self.load_be(flags, base, byte, bytes);
        let hole = self.int(!(mask(width) << shift));
        let old = self.b.ins().band(old, hole);
        let value = self.keep(value, width);
        let value = self.shl(value, shift);
        let value = self.b.ins().bor(old, value);
        let value = self.narrow(int_type(bytes), value);
        let value = if bytes == 1 { value } else { self.b.ins().bswap(value) };
        self.b.ins().store(flags, value, base, byte);
    }

    /// Write the low `bytes <= 8` bytes of a value, most significant first.
    pub fn store_bytes(&mut self, flags: MemFlags, base: Value, byte: i32, bytes: u32, value: Value) {
        match bytes {
            1 => {
                let value = self.narrow(I8, value);
                self.b.ins().store(flags, value, base, byte);
            }
            2 | 4 | 8 => {
                let value = self.narrow(int_type(bytes), value);
                let value = self.b.ins().bswap(value);
                self.b.ins().store(flags, value, base, byte);
            }
            _ => {
                let first = if bytes > 4 { 4 } else { 2 };
                let high = self.shr(value, (bytes - first) * 8);
                self.store_bytes(flags, base, byte, first, high);
                self.store_bytes(flags, base, byte + first as i32, bytes - first, value);
            }
        }
    }

    /// A field's bits as an unsigned number: 64 bits wide up to 64, 128 up to 128.
    pub fn load_field(&mut self, field: FieldId) -> Emit<Value> {
        if let Some(value) = self.known.field(field) {
            return Ok(value);
        }
        let value = match self.unit.layout.place(field) {
            Place::Words { word, width, .. } if width <= 64 => {
                self.b.ins().load(I64, self.flags.phv, self.phv, word as i32 * 8)
            }
            Place::Bits { bit, width, .. } if width <= 64 => self.load_bits(self.phv, bit, width),
            Place::Words { width, .. } | Place::Bits { width, .. } if width <= 128 => {
                let low = self.load_limb(field, 0)?;
                let high = self.load_limb(field, 1)?;
                self.b.ins().iconcat(low, high)
            }
            _ => return Err(Unsupported),
        };
        self.known.set_field(field, value);
        Ok(value)
    }

    /// 64 bits of a field of any width: limb 0 has the least significant ones.
    pub fn load_limb(&mut self, field: FieldId, limb: u32) -> Emit<Value> {
        match self.unit.layout.place(field) {
            Place::Words { word, .. } => {
                Ok(self.b.ins().load(I64, self.flags.phv, self.phv, (word + limb) as i32 * 8))
            }
            Place::Bits { bit, width, .. } => {
                let take = width.saturating_sub(64 * limb).min(64);
                Ok(self.load_bits(self.phv, bit + width - 64 * limb - take, take))
            }
            Place::Varbit { .. } => Err(Unsupported),
        }
    }

    /// Write a field's low bits; bits of the value above its width may be anything. The value is 64 or 128 bits wide;
    /// what it lacks is zero.
    pub fn store_field(&mut self, field: FieldId, value: Value) -> Emit<()> {
        let place = self.unit.layout.place(field);
        let width = match place {
            Place::Words { width, .. } | Place::Bits { width, .. } if width <= 128 => width,
            _ => return Err(Unsupported),
        };
        let wide = self.b.func.dfg.value_type(value) == I128;
        if width > 64 {
            let (low, high) = if wide { self.b.ins().isplit(value) } else { (value, self.int(0)) };
            self.store_limbs(field, &[low, high])?;
            let high = self.keep(high, width - 64);
            let clean = self.b.ins().iconcat(low, high);
            self.known.set_field(field, clean);
            return Ok(());
        }
        let value = if wide { self.b.ins().ireduce(I64, value) } else { value };
        let clean = self.keep(value, width);
        self.store_clean(field, clean)
    }

    /// Write a field of at most 64 bits; bits of the value above its width are zero.
    pub fn store_clean(&mut self, field: FieldId, value: Value) -> Emit<()> {
        if self.is_dead(field) {
            return Ok(());
        }
        match self.unit.layout.place(field) {
            Place::Words { word, .. } => {
                self.b.ins().store(self.flags.phv, value, self.phv, word as i32 * 8);
            }
            Place::Bits { bit, width, .. } => self.store_bits(self.phv, bit, width, value),
            Place::Varbit { .. } => return Err(Unsupported),
        }
        self.known.set_field(field, value);
        Ok(())
    }

    /// Write a field of any width from 64-bit limbs, least significant first.
    pub fn store_limbs(&mut self, field: FieldId, limbs: &[Value]) -> Emit<()> {
        self.known.forget_field(field);
        if self.is_dead(field) {
            return Ok(());
        }
        match self.unit.layout.place(field) {
            Place::Words { word, width, .. } => {
                for (i, limb) in limbs.iter().enumerate().take(width.div_ceil(64).max(1) as usize) {
                    let value = self.keep(*limb, (width - 64 * i as u32).min(64));
                    self.b.ins().store(self.flags.phv, value, self.phv, (word as i32 + i as i32) * 8);
                }
            }
            Place::Bits { bit, width, .. } => {
                for (i, limb) in limbs.iter().enumerate().take(width.div_ceil(64) as usize) {
                    let above = 64 * i as u32;
                    let take = (width - above).min(64);
                    self.store_bits(self.phv, bit + width - above - take, take, *limb);
                }
            }
            Place::Varbit { .. } => return Err(Unsupported),
        }
        Ok(())
    }

    /// Copy exactly `bytes` bytes; neither side is touched beyond them.
    pub fn copy(&mut self, to: (Value, MemFlags, i32), from: (Value, MemFlags, i32), bytes: u32) {
        let (to, to_flags, to_at) = to;
        let (from, from_flags, from_at) = from;
        if bytes > MAX_MOVES {
            let to = self.b.ins().iadd_imm(to, i64::from(to_at));
            let from = self.b.ins().iadd_imm(from, i64::from(from_at));
            let count = self.int(u64::from(bytes));
            self.call(env::copy_padded as *const () as usize, &[to, count, from, count], None);
            return;
        }
        let mut moves: Vec<(Type, u32)> = Vec::new();
        let mut at = 0;
        for (ty, size) in [(I8X16, 16), (I64, 8), (I32, 4), (I16, 2), (I8, 1)] {
            while bytes - at >= size {
                moves.push((ty, at));
                at += size;
            }
            // What is left is done by one move that overlaps the one before, when that is of this size or larger.
            let left = bytes - at;
            if left > size / 2 && at >= size - left && at > 0 {
                moves.push((ty, bytes - size));
                at = bytes;
            }
        }
        // Two at a time: enough to overlap latencies, few enough for the registers.
        for chunk in moves.chunks(4) {
            let values: Vec<Value> = chunk
                .iter()
                .map(|(ty, at)| self.b.ins().load(*ty, from_flags, from, from_at + *at as i32))
                .collect();
            for ((_, at), value) in chunk.iter().zip(values) {
                self.b.ins().store(to_flags, value, to, to_at + *at as i32);
            }
        }
    }

    /// Write zeros over a header's words in the vector.
    pub fn zero_header(&mut self, header: HeaderId) {
        let place = &self.unit.layout.headers[header.at()];
        if place.words * 8 > MAX_MOVES {
            let to = self.b.ins().iadd_imm(self.phv, i64::from(place.byte));
            let (room, zero) = (self.int(u64::from(place.words * 8)), self.int(0));
            // Nothing is copied, so where from does not matter.
            self.call(env::copy_padded as *const () as usize, &[to, room, self.phv, zero], None);
            return;
        }
        let zero = self.int(0);
        for word in 0..place.words {
            self.b.ins().store(self.flags.phv, zero, self.phv, place.byte as i32 + word as i32 * 8);
        }
    }

    /// Sign-extend the low `width` bits of a 64- or 128-bit value.
    pub fn sign_extend(&mut self, value: Value, width: u32) -> Value {
        let bits = self.b.func.dfg.value_type(value).bits();
        if width == 0 {
            let zero = self.int(0);
            return if bits == 128 { self.b.ins().uextend(I128, zero) } else { zero };
        }
        if width >= bits {
            return value;
        }
        let shift = i64::from(bits - width);
        let value = self.b.ins().ishl_imm(value, shift);
        self.b.ins().sshr_imm(value, shift)
    }
}

/// The integer type of so many bytes (1, 2, 4, 8).
pub fn int_type(bytes: u32) -> Type {
    match bytes {
        1 => I8,
        2 => I16,
        4 => I32,
        _ => I64,
    }
}
