//! The deparser: checksums, headers back in front of the payload, the packet cut where the program said.

use crate::Reason;
use crate::r#gen::{CTX, Gen, Made, TEMP, VECTOR};
use crate::maps::drop_reason;
use crate::recirculate::Kind;
use barewire_ebpf::{Alu, Bits, Cond, Reg, Size, helper};
use barewire_p4::ir::{FieldId, HeaderId};
use barewire_p4::phv::{Place, slot};

/// Scratch words: bytes of headers, and how many of them are out.
const HEADERS: u32 = 0;
const OUT: u32 = 1;
/// The most bytes of headers.
const MAX_HEADERS: i32 = 0x3fff;

impl Gen<'_> {
    /// Everything from the end of egress to the packet's departure.
    pub fn deparse(&mut self, index: usize) -> Made {
        self.place = "the deparser".to_owned();
        if let Some(reason) = self.cuts.as_ref().and_then(|cuts| cuts.deparser.clone()) {
            let slow = self.slow(reason);
            self.asm.jump(slow);
            return Ok(());
        }
        self.deparse_code(index)?;
        self.recirculate(Kind::Recirculate)?;
        self.leave_again();
        self.forward();
        Ok(())
    }

    pub fn deparse_code(&mut self, index: usize) -> Made {
        let deparser = &self.program.deparsers[index];
        self.checksums(false)?;
        for stmt in &deparser.stmts {
            if Self::effect(stmt) {
                return Err(Reason::No("counters, meters, registers and digests in the deparser"));
            }
            self.stmt(stmt)?;
        }
        // Bytes of all valid headers. Validity is 0 or 1, so there is no branch.
        let order: Vec<HeaderId> = deparser.order.iter().copied().filter(|h| !self.is_metadata(*h)).collect();
        self.asm.mov_imm(Reg::R0, 0);
        for header in &order {
            self.emitted(*header, Reg::R1);
            self.load_valid(*header, Reg::R2);
            self.asm.alu(Alu::Mul, Reg::R1, Reg::R2);
            self.asm.alu(Alu::Add, Reg::R0, Reg::R1);
        }
        let (headers, out) = (self.scratch(HEADERS), self.scratch(OUT));
        self.asm.store(Size::D, VECTOR, headers, Reg::R0);
        let (same, no_room) = (self.asm.label(), self.dropped(drop_reason::NO_HEADROOM));
        let parsed = self.slot(slot::PARSED);
        self.asm.load(Size::D, Reg::R2, VECTOR, parsed);
        self.asm.alu(Alu::Sub, Reg::R2, Reg::R0);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R2, 0, same);
        if self.is_tc() {
            // Paths on which a packet gets shorter went to user space before.
            self.asm.neg(Reg::R2);
            self.asm.jump_if_imm(Bits::B64, Cond::SignedLt, Reg::R2, 0, no_room);
        }
        self.asm.mov(Reg::R1, CTX);
        match self.is_tc() {
            false => self.asm.call(helper::XDP_ADJUST_HEAD),
            true => {
                self.asm.mov_imm(Reg::R3, 0);
                self.asm.call(helper::SKB_CHANGE_HEAD);
            }
        }
        self.asm.jump_nonzero(Reg::R0, no_room);
        self.asm.place(same);
        if self.clones_of_egress().is_some() {
            // For a clone the payload begins behind these.
            self.asm.load(Size::D, Reg::R0, VECTOR, headers);
            self.asm.store(Size::D, VECTOR, parsed, Reg::R0);
        }
        self.asm.store_imm(Size::D, VECTOR, out, 0);
        for header in order {
            self.emit_header(header, out)?;
        }
        self.truncate();
        Ok(())
    }

    /// Bytes of a header on the wire when it is valid.
    fn emitted(&mut self, header: HeaderId, to: Reg) {
        let ty = self.program.header_type_of(header);
        let (fixed, varbit) = (ty.fixed_bits(), ty.varbit());
        self.asm.mov_imm(to, fixed as i32 + 7);
        if let Some(field) = varbit
            && let Place::Varbit { len_word, .. } =
                self.shape.layout.place(FieldId { header, field: field as u32 })
        {
            let len = self.word(len_word);
            self.asm.load(Size::D, TEMP, VECTOR, len);
            self.asm.alu(Alu::Add, to, TEMP);
        }
        self.asm.alu_imm(Alu::Rsh, to, 3);
    }

    fn emit_header(&mut self, header: HeaderId, out: i16) -> Made {
        let ty = self.program.header_type_of(header);
        let (fixed, varbit) = (ty.fixed_bits(), ty.varbit());
        let place = self.shape.layout.headers[header.at()].clone();
        let bytes = fixed.div_ceil(8);
        let (skip, lost) = (self.asm.label(), self.dropped(drop_reason::NO_HEADROOM));
        self.load_valid(header, Reg::R0);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, skip);
        self.asm.load(Size::D, Reg::R1, VECTOR, out);
        self.asm.jump_if_imm(Bits::B64, Cond::Gt, Reg::R1, MAX_HEADERS, lost);
        let (data, data_end) = self.ends_of_packet();
        self.asm.load(Size::W, Reg::R0, CTX, data);
        self.asm.load(Size::W, Reg::R2, CTX, data_end);
        self.asm.alu(Alu::Add, Reg::R0, Reg::R1);
        self.asm.mov(Reg::R3, Reg::R0);
        self.asm.add_imm(Reg::R3, bytes as i32);
        self.asm.jump_if(Bits::B64, Cond::Gt, Reg::R3, Reg::R2, lost);
        let mut at = 0;
        while at < bytes {
            let left = bytes - at;
            let size = [Size::D, Size::W, Size::H, Size::B].into_iter().find(|s| s.bytes() <= left);
            let size = size.unwrap_or(Size::B);
            self.asm.load(size, TEMP, VECTOR, (place.byte + at) as i16);
            self.asm.store(size, Reg::R0, at as i16, TEMP);
            at += size.bytes();
        }
        self.asm.add_imm(Reg::R1, bytes as i32);
        if let Some(field) = varbit
            && let Place::Varbit { len_word, byte, max_bits } =
                self.shape.layout.place(FieldId { header, field: field as u32 })
        {
            if place.bits_before_varbit != fixed || !fixed.is_multiple_of(8) || max_bits > 2048 {
                return Err(Reason::No("emission of a varbit field that is not last, or a long one"));
            }
            let (len, done) = (self.word(len_word), self.asm.label());
            self.asm.load(Size::D, Reg::R4, VECTOR, len);
            self.asm.alu_imm(Alu::Rsh, Reg::R4, 3);
            for at in 0..max_bits / 8 {
                self.asm.jump_if_imm(Bits::B64, Cond::Le, Reg::R4, at as i32, done);
                self.asm.mov(TEMP, Reg::R0);
                self.asm.add_imm(TEMP, (bytes + at) as i32 + 1);
                self.asm.jump_if(Bits::B64, Cond::Gt, TEMP, Reg::R2, lost);
                self.asm.load(Size::B, TEMP, VECTOR, (byte + at) as i16);
                self.asm.store(Size::B, Reg::R0, (bytes + at) as i16, TEMP);
            }
            self.asm.place(done);
            self.asm.load(Size::D, Reg::R4, VECTOR, len);
            self.asm.alu_imm(Alu::Rsh, Reg::R4, 3);
            self.asm.alu(Alu::Add, Reg::R1, Reg::R4);
        }
        self.asm.store(Size::D, VECTOR, out, Reg::R1);
        self.asm.place(skip);
        Ok(())
    }

    /// Cut the packet.
    fn truncate(&mut self) {
        let truncates = self.program.actions.iter().flat_map(|a| &a.body);
        if self.is_tc()
            || !truncates.into_iter().any(|stmt| matches!(stmt, barewire_p4::ir::Stmt::Truncate { .. }))
        {
            return;
        }
        let (at, done) = (self.slot(slot::TRUNCATE), self.asm.label());
        self.asm.load(Size::D, Reg::R2, VECTOR, at);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R2, 0, done);
        self.asm.add_imm(Reg::R2, -1);
        self.asm.load(Size::W, Reg::R1, CTX, helper::xdp::DATA);
        self.asm.load(Size::W, Reg::R3, CTX, helper::xdp::DATA_END);
        self.asm.alu(Alu::Sub, Reg::R3, Reg::R1);
        self.asm.alu(Alu::Sub, Reg::R2, Reg::R3);
        // The change of length, negative.
        self.asm.jump_if_imm(Bits::B64, Cond::SignedGe, Reg::R2, 0, done);
        self.asm.mov(Reg::R1, CTX);
        self.asm.call(helper::XDP_ADJUST_TAIL);
        self.asm.place(done);
    }
}
