//! Deparsers: checksum updates, the deparser's statements, the length, the copy to the wire.

use super::Gen;
use crate::env;
use barewire_p4::ir::{Deparser, FieldId, HeaderId};
use barewire_p4::phv::Place;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

/// A header that would be copied in more pieces is copied as a whole: waiting once costs less.
const MAX_PIECES: usize = 10;

impl Gen<'_, '_> {
    /// Everything before emission; ends at [`Gen::end`], where [`Gen::emitted_len`] is to follow.
    pub fn prepare(&mut self, deparser: &Deparser) {
        self.checksums(true);
        let end = self.end;
        self.body(&deparser.stmts, end);
    }

    /// Bytes of a header, if it has the same number for every packet.
    fn fixed_bytes(&self, header: HeaderId) -> Option<u32> {
        let ty = self.unit.program.header_type_of(header);
        let bits = ty.fixed_bits();
        let fixed = !self.unit.program.headers[header.at()].metadata && ty.varbit().is_none();
        (fixed && bits.is_multiple_of(8)).then_some(bits / 8)
    }

    /// How many bytes a deparser will emit.
    pub fn emitted_len(&mut self, deparser: &Deparser) -> Value {
        let mut len = self.int(0);
        for header in &deparser.order {
            match self.fixed_bytes(*header) {
                Some(bytes) => {
                    let valid = self.header_valid(*header);
                    let valid = self.widen(valid);
                    let bytes = self.b.ins().imul_imm(valid, i64::from(bytes));
                    len = self.b.ins().iadd(len, bytes);
                }
                None => {
                    let (add, after) = (self.b.create_block(), self.b.create_block());
                    let sum = self.b.append_block_param(after, I64);
                    let valid = self.valid_byte(*header);
                    self.entries.arrive(add, &self.known);
                    self.entries.arrive(after, &self.known);
                    self.b.ins().brif(valid, add, &[], after, &[len.into()]);
                    self.enter(add);
                    let number = self.int(u64::from(header.0));
                    let env = self.env;
                    let bytes = self.call_value(env::header_len as *const () as usize, &[env, number], I64);
                    let longer = self.b.ins().iadd(len, bytes);
                    self.entries.arrive(after, &self.known);
                    self.b.ins().jump(after, &[longer.into()]);
                    self.enter(after);
                    len = sum;
                }
            }
        }
        len
    }

    /// The pieces in which a header is copied: what the program writes apart from the rest, because a load that spans stores
    /// of different sizes has to wait until they have reached the cache.
    fn pieces(&self, header: HeaderId, bytes: u32) -> Vec<(u32, u32)> {
        let place = &self.unit.layout.headers[header.at()];
        let mut pieces = Vec::new();
        let mut done = 0;
        for (index, field) in place.fields.iter().enumerate() {
            let id = FieldId { header, field: index as u32 };
            let Place::Bits { bit, width, .. } = *field else { continue };
            let first = bit - place.byte * 8;
            let whole = first.is_multiple_of(8) && width.is_multiple_of(8) && width <= 64 && width > 0;
            if whole && self.unit.facts.is_written(id) {
                let at = first / 8;
                if at > done {
                    pieces.push((done, at - done));
                }
                pieces.push((at, width / 8));
                done = at + width / 8;
            }
        }
        if done < bytes {
            pieces.push((done, bytes - done));
        }
        if pieces.len() > MAX_PIECES { vec![(0, bytes)] } else { pieces }
    }

    /// The validity byte as it is, for metadata too.
    fn valid_byte(&mut self, header: HeaderId) -> Value {
        let offset = self.valid_offset(header);
        self.b.ins().load(super::access::int_type(1), self.flags.phv, self.phv, offset)
    }

    /// Emit the valid headers into `packet` (here what is written), as many whole ones as `packet_len` holds.
    pub fn emit(&mut self, deparser: &Deparser) {
        let mut at = self.int(0);
        for header in &deparser.order {
            let after = self.b.create_block();
            let next = self.b.append_block_param(after, I64);
            let on = self.b.create_block();
            let valid = self.valid_byte(*header);
            self.entries.arrive(on, &self.known);
            self.entries.arrive(after, &self.known);
            self.b.ins().brif(valid, on, &[], after, &[at.into()]);
            self.enter(on);
            let room = self.b.ins().isub(self.packet_len, at);
            let to = self.b.ins().iadd(self.packet, at);
            match self.fixed_bytes(*header) {
                Some(bytes) => {
                    let fits = self.icmp_imm(IntCC::UnsignedGreaterThanOrEqual, room, u64::from(bytes));
                    let copy = self.b.create_block();
                    self.entries.arrive(copy, &self.known);
                    self.entries.arrive(after, &self.known);
                    self.b.ins().brif(fits, copy, &[], after, &[at.into()]);
                    self.enter(copy);
                    let from = self.unit.layout.headers[header.at()].byte as i32;
                    let (phv, flags, packet_flags) = (self.phv, self.flags.phv, self.flags.packet);
                    for (at, bytes) in self.pieces(*header, bytes) {
                        let at = at as i32;
                        self.copy((to, packet_flags, at), (phv, flags, from + at), bytes);
                    }
                    let further = self.b.ins().iadd_imm(at, i64::from(bytes));
                    self.b.ins().jump(after, &[further.into()]);
                }
                None => {
                    let number = self.int(u64::from(header.0));
                    let env = self.env;
                    let bytes = self.call_value(
                        env::emit_header as *const () as usize,
                        &[env, number, to, room],
                        I64,
                    );
                    let further = self.b.ins().iadd(at, bytes);
                    self.b.ins().jump(after, &[further.into()]);
                }
            }
            self.entries.arrive(after, &self.known);
            self.enter(after);
            at = next;
        }
        let end = self.end;
        self.jump(end);
    }
}
