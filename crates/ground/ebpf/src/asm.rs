//! The assembler: one method an instruction, jumps to labels.

use crate::{Alu, Atomic, Bits, Cond, Insn, Reg, Size, code};

/// A place to jump to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Label(usize);

/// Why a program could not be finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsmError {
    /// A label was jumped to and never placed.
    Unplaced,
    /// A jump reaches further than sixteen bits, and long ones were not allowed.
    TooFar,
}

impl std::fmt::Display for AsmError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AsmError::Unplaced => "a label was never placed",
            AsmError::TooFar => "a jump reaches further than 32,767 instructions",
        })
    }
}

impl std::error::Error for AsmError {}

/// A program under construction.
#[derive(Default, Clone, Debug)]
pub struct Asm {
    insns: Vec<Insn>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<Option<usize>>,
}

impl Asm {
    /// A new label, to be placed once.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Gives `label` the place of the next instruction.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.insns.len());
    }

    /// Instructions so far.
    pub fn len(&self) -> usize {
        self.insns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.insns.is_empty()
    }

    /// Forget everything after a length that [`Asm::len`] gave; labels placed since are unplaced again.
    pub fn truncate(&mut self, len: usize) {
        self.insns.truncate(len);
        self.jumps.retain(|(at, _)| *at < len);
        for label in &mut self.labels {
            if label.is_some_and(|at| at > len) {
                *label = None;
            }
        }
    }

    /// Any instruction.
    pub fn emit(&mut self, code: u8, dst: Reg, src: Reg, off: i16, imm: i32) {
        self.insns.push(Insn { code, regs: dst.0 | src.0 << 4, off, imm });
    }

    fn emit_jump(&mut self, code: u8, dst: Reg, src: Reg, imm: i32, to: Label) {
        self.jumps.push((self.insns.len(), to));
        self.emit(code, dst, src, 0, imm);
    }

    /// Loads from memory, zero-extended.
    pub fn load(&mut self, size: Size, dst: Reg, base: Reg, off: i16) {
        self.emit(code::LDX | size as u8, dst, base, off, 0);
    }

    /// Stores the low bits of a register.
    pub fn store(&mut self, size: Size, base: Reg, off: i16, src: Reg) {
        self.emit(code::STX | size as u8, base, src, off, 0);
    }

    /// Stores a constant, sign-extended.
    pub fn store_imm(&mut self, size: Size, base: Reg, off: i16, imm: i32) {
        self.emit(code::ST | size as u8, base, Reg(0), off, imm);
    }

    /// An atomic operation on memory of 32 or 64 bits.
    pub fn atomic(&mut self, op: Atomic, size: Size, base: Reg, off: i16, src: Reg) {
        self.emit(code::STX_ATOMIC | size as u8, base, src, off, op as i32);
    }

    /// `dst = dst op src`, 64 bits.
    pub fn alu(&mut self, op: Alu, dst: Reg, src: Reg) {
        self.emit(code::ALU64 | code::X | op as u8, dst, src, 0, 0);
    }

    /// `dst = dst op imm`, 64 bits; the constant is sign-extended.
    pub fn alu_imm(&mut self, op: Alu, dst: Reg, imm: i32) {
        self.emit(code::ALU64 | op as u8, dst, Reg(0), 0, imm);
    }

    /// `dst = dst op src` on the low 32 bits.
    pub fn alu32(&mut self, op: Alu, dst: Reg, src: Reg) {
        self.emit(code::ALU32 | code::X | op as u8, dst, src, 0, 0);
    }

    /// `dst = dst op imm` on the low 32 bits.
    pub fn alu32_imm(&mut self, op: Alu, dst: Reg, imm: i32) {
        self.emit(code::ALU32 | op as u8, dst, Reg(0), 0, imm);
    }

    /// Signed division or remainder (kernel 6.6).
    pub fn signed_alu(&mut self, op: Alu, dst: Reg, src: Reg) {
        self.emit(code::ALU64 | code::X | op as u8, dst, src, 1, 0);
    }

    /// `dst = -dst`.
    pub fn neg(&mut self, dst: Reg) {
        self.emit(code::NEG64, dst, Reg(0), 0, 0);
    }

    /// Between the machine's order and the network's, for the low 16, 32 or 64 bits; higher ones become zero.
    pub fn to_be(&mut self, dst: Reg, bits: i32) {
        self.emit(code::TO_BE, dst, Reg(0), 0, bits);
    }

    /// `dst = src`.
    pub fn mov(&mut self, dst: Reg, src: Reg) {
        self.alu(Alu::Mov, dst, src);
    }

    /// `dst = imm`, sign-extended.
    pub fn mov_imm(&mut self, dst: Reg, imm: i32) {
        self.alu_imm(Alu::Mov, dst, imm);
    }

    /// `dst += imm`.
    pub fn add_imm(&mut self, dst: Reg, imm: i32) {
        self.alu_imm(Alu::Add, dst, imm);
    }

    /// `dst ^= src`.
    pub fn xor(&mut self, dst: Reg, src: Reg) {
        self.alu(Alu::Xor, dst, src);
    }

    /// `dst &= imm`, 32 bits.
    pub fn and32_imm(&mut self, dst: Reg, imm: i32) {
        self.alu32_imm(Alu::And, dst, imm);
    }

    /// Goes there.
    pub fn jump(&mut self, to: Label) {
        self.emit_jump(code::JA, Reg(0), Reg(0), 0, to);
    }

    /// Goes there if `a cond b`.
    pub fn jump_if(&mut self, bits: Bits, cond: Cond, a: Reg, b: Reg, to: Label) {
        let class = if bits == Bits::B64 { code::JMP } else { code::JMP32 };
        self.emit_jump(class | code::X | cond as u8, a, b, 0, to);
    }

    /// Goes there if `a cond imm`; the constant is sign-extended to the width.
    pub fn jump_if_imm(&mut self, bits: Bits, cond: Cond, a: Reg, imm: i32, to: Label) {
        let class = if bits == Bits::B64 { code::JMP } else { code::JMP32 };
        self.emit_jump(class | cond as u8, a, Reg(0), imm, to);
    }

    /// Goes there if `a > b`, unsigned.
    pub fn jump_greater(&mut self, a: Reg, b: Reg, to: Label) {
        self.jump_if(Bits::B64, Cond::Gt, a, b, to);
    }

    /// Goes there unless `a` is zero.
    pub fn jump_nonzero(&mut self, a: Reg, to: Label) {
        self.jump_if_imm(Bits::B64, Cond::Ne, a, 0, to);
    }

    /// Goes there if the low 32 bits are these. A comparison of 64 bits would sign-extend the constant, and a loaded word is
    /// zero-extended.
    pub fn jump_equal32(&mut self, a: Reg, imm: i32, to: Label) {
        self.jump_if_imm(Bits::B32, Cond::Eq, a, imm, to);
    }

    /// Goes there if the low 32 bits are others.
    pub fn jump_unequal32(&mut self, a: Reg, imm: i32, to: Label) {
        self.jump_if_imm(Bits::B32, Cond::Ne, a, imm, to);
    }

    /// Loads 64 bits.
    pub fn wide(&mut self, dst: Reg, value: u64) {
        self.emit(code::LD_IMM64, dst, Reg(0), 0, value as u32 as i32);
        self.emit(0, Reg(0), Reg(0), 0, (value >> 32) as u32 as i32);
    }

    /// Loads a constant the shortest way.
    pub fn constant(&mut self, dst: Reg, value: u64) {
        match i32::try_from(value as i64) {
            Ok(imm) => self.mov_imm(dst, imm),
            Err(_) if value >> 32 == 0 => self.alu32_imm(Alu::Mov, dst, value as u32 as i32),
            Err(_) => self.wide(dst, value),
        }
    }

    /// Loads the map behind a descriptor, or before [`crate::bind_maps`] of this number.
    pub fn map(&mut self, dst: Reg, fd: i32) {
        self.emit(code::LD_IMM64, dst, Reg(code::PSEUDO_MAP_FD), 0, fd);
        self.emit(0, Reg(0), Reg(0), 0, 0);
    }

    /// Loads the address of a byte of an array map's only value.
    pub fn map_value(&mut self, dst: Reg, fd: i32, offset: u32) {
        self.emit(code::LD_IMM64, dst, Reg(code::PSEUDO_MAP_VALUE), 0, fd);
        self.emit(0, Reg(0), Reg(0), 0, offset as i32);
    }

    /// Calls a helper; its number is in [`crate::helper`]. r1 to r5 are lost.
    pub fn call(&mut self, helper: i32) {
        self.emit(code::CALL, Reg(0), Reg(0), 0, helper);
    }

    /// Ends the program with r0.
    pub fn exit(&mut self) {
        self.emit(code::EXIT, Reg(0), Reg(0), 0, 0);
    }

    /// Takes out what no way leads to: the verifier refuses programs that have it.
    fn drop_unreached(&mut self) -> Result<(), AsmError> {
        let jumps: std::collections::BTreeMap<usize, Label> = self.jumps.iter().copied().collect();
        let mut reached = vec![false; self.insns.len()];
        let mut open = vec![0];
        while let Some(mut at) = open.pop() {
            while let Some(insn) = self.insns.get(at).filter(|_| !reached[at]) {
                reached[at] = true;
                if let Some(label) = jumps.get(&at) {
                    open.push(self.labels[label.0].ok_or(AsmError::Unplaced)?);
                }
                match insn.code {
                    code::EXIT | code::JA => break,
                    code::LD_IMM64 => {
                        reached[at + 1] = true;
                        at += 2;
                    }
                    _ => at += 1,
                }
            }
        }
        let mut place = Vec::with_capacity(reached.len() + 1);
        let mut kept = 0;
        for reached in &reached {
            place.push(kept);
            kept += usize::from(*reached);
        }
        place.push(kept);
        let mut at = 0;
        self.insns.retain(|_| {
            at += 1;
            reached[at - 1]
        });
        self.jumps.retain(|(at, _)| reached[*at]);
        self.jumps.iter_mut().for_each(|(at, _)| *at = place[*at]);
        self.labels.iter_mut().flatten().for_each(|at| *at = place[*at]);
        Ok(())
    }

    /// Resolves the jumps, without what is never reached. With `far`, a jump beyond sixteen bits becomes a long one (kernel 6.6), a conditional one three
    /// instructions.
    ///
    /// # Errors
    /// [`AsmError`].
    pub fn finish(mut self, far: bool) -> Result<Vec<Insn>, AsmError> {
        self.drop_unreached()?;
        let mut targets = Vec::with_capacity(self.jumps.len());
        for (at, label) in &self.jumps {
            targets.push((*at, self.labels[label.0].ok_or(AsmError::Unplaced)?));
        }
        // Jumps that have become long only grow in number, so this ends.
        let mut long = vec![false; targets.len()];
        let moved = |long: &[bool]| {
            let mut place: Vec<usize> = Vec::with_capacity(self.insns.len() + 1);
            let (mut more, mut next) = (0, 0);
            for at in 0..=self.insns.len() {
                place.push(at + more);
                if targets.get(next).is_some_and(|(jump, _)| *jump == at) {
                    if long[next] && self.insns[at].code != code::JA {
                        more += 2;
                    }
                    next += 1;
                }
            }
            place
        };
        let place = loop {
            let place = moved(&long);
            let mut changed = false;
            for (index, (at, to)) in targets.iter().enumerate() {
                let distance = place[*to] as i64 - place[*at] as i64 - 1;
                if !long[index] && i16::try_from(distance).is_err() {
                    long[index] = true;
                    changed = true;
                }
            }
            if !changed {
                break place;
            }
            if !far {
                return Err(AsmError::TooFar);
            }
        };
        let mut out = Vec::with_capacity(place[self.insns.len()]);
        let mut next = 0;
        for (at, insn) in self.insns.iter().enumerate() {
            let Some((_, to)) = targets.get(next).filter(|(jump, _)| *jump == at) else {
                out.push(*insn);
                continue;
            };
            let mut insn = *insn;
            let to = place[*to] as i64;
            let distance = |here: usize| to - here as i64 - 1;
            let far_jump = |distance: i64| Insn { code: code::JA_FAR, regs: 0, off: 0, imm: distance as i32 };
            match (long[next], insn.code == code::JA) {
                (false, _) => {
                    insn.off = distance(out.len()) as i16;
                    out.push(insn);
                }
                (true, true) => out.push(far_jump(distance(out.len()))),
                (true, false) => {
                    insn.off = 1;
                    out.push(insn);
                    out.push(Insn { code: code::JA, regs: 0, off: 1, imm: 0 });
                    out.push(far_jump(distance(out.len())));
                }
            }
            next += 1;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_have_their_distance() {
        let mut asm = Asm::default();
        let (end, back) = (asm.label(), asm.label());
        asm.place(back);
        asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R1, 7, end);
        asm.wide(Reg::R2, 0x1122_3344_5566_7788);
        asm.jump(back);
        asm.place(end);
        asm.exit();
        let program = asm.finish(false).expect("placed");
        assert_eq!(program[0], Insn { code: 0x15, regs: 1, off: 3, imm: 7 });
        assert_eq!(program[1], Insn { code: 0x18, regs: 2, off: 0, imm: 0x5566_7788 });
        assert_eq!(program[2].imm, 0x1122_3344);
        assert_eq!(program[3], Insn { code: 0x05, regs: 0, off: -4, imm: 0 });
        assert_eq!(program[4].code, 0x95);
    }

    #[test]
    fn far_jumps_become_long_ones() {
        let mut asm = Asm::default();
        let (near, end) = (asm.label(), asm.label());
        asm.jump_if(Bits::B32, Cond::Ne, Reg::R1, Reg::R2, end);
        asm.jump_nonzero(Reg::R3, near);
        asm.jump(end);
        asm.place(near);
        (0..40_000).for_each(|_| asm.mov_imm(Reg::R0, 0));
        asm.place(end);
        asm.exit();
        assert_eq!(asm.clone().finish(false), Err(AsmError::TooFar));
        let program = asm.finish(true).expect("long ones are allowed");
        assert_eq!((program[0].code, program[0].off), (0x5e, 1));
        assert_eq!((program[1].code, program[1].off), (0x05, 1));
        assert_eq!((program[2].code, program[2].imm), (0x06, 40_002));
        assert_eq!((program[3].code, program[3].off), (0x55, 1));
        assert_eq!((program[4].code, program[4].imm), (0x06, 40_000));
        assert_eq!(program[2 + 1 + 40_002].code, 0x95);
    }

    #[test]
    fn constants_take_the_shortest_way() {
        let mut asm = Asm::default();
        asm.constant(Reg::R1, 5);
        asm.constant(Reg::R1, u64::MAX);
        asm.constant(Reg::R1, 0xffff_ffff);
        asm.constant(Reg::R1, 1 << 40);
        let codes: Vec<u8> = asm.finish(false).expect("no jumps").iter().map(|i| i.code).collect();
        assert_eq!(codes, [0xb7, 0xb7, 0xb4, 0x18, 0]);
    }

    #[test]
    fn a_label_must_be_placed() {
        let mut asm = Asm::default();
        let nowhere = asm.label();
        asm.jump(nowhere);
        assert_eq!(asm.finish(true), Err(AsmError::Unplaced));
    }
}
