//! A small eBPF assembler: instructions as values, jumps by label (kernel `Documentation/bpf/standardization`).

/// One instruction, encoded as `struct bpf_insn` of `linux/bpf.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Insn {
    /// Operation.
    pub code: u8,
    /// Destination register in the low four bits, source in the high four (as little-endian machines have them).
    pub regs: u8,
    /// Jump distance or memory offset.
    pub off: i16,
    /// Immediate operand.
    pub imm: i32,
}

const _: () = assert!(size_of::<Insn>() == 8);

/// A register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reg(pub u8);

/// A place to jump to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(usize);

/// Width of a memory access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Size {
    /// 32 bits.
    W = 0x00,
    /// 16 bits.
    H = 0x08,
    /// 8 bits.
    B = 0x10,
    /// 64 bits.
    D = 0x18,
}

pub(crate) const LDX_MEM: u8 = 0x61;
pub(crate) const STX_MEM: u8 = 0x63;
pub(crate) const MOV64_REG: u8 = 0xbf;
pub(crate) const MOV64_IMM: u8 = 0xb7;
pub(crate) const ADD64_IMM: u8 = 0x07;
pub(crate) const XOR64_REG: u8 = 0xaf;
pub(crate) const AND32_IMM: u8 = 0x54;
pub(crate) const JA: u8 = 0x05;
pub(crate) const JGT_REG: u8 = 0x2d;
pub(crate) const JNE_IMM: u8 = 0x55;
/// 32-bit comparisons: a 64-bit one would sign-extend the immediate, and a loaded word is zero-extended.
pub(crate) const JEQ32_IMM: u8 = 0x16;
pub(crate) const JNE32_IMM: u8 = 0x56;
pub(crate) const LD_IMM64: u8 = 0x18;
pub(crate) const CALL: u8 = 0x85;
pub(crate) const EXIT: u8 = 0x95;
/// Source register of [`LD_IMM64`] whose immediate is a map's descriptor.
pub(crate) const PSEUDO_MAP_FD: u8 = 1;

/// A program under construction.
#[derive(Default)]
pub struct Asm {
    insns: Vec<Insn>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<Option<usize>>,
}

impl Asm {
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Gives `label` the place of the next instruction.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.insns.len());
    }

    fn emit(&mut self, code: u8, dst: Reg, src: Reg, off: i16, imm: i32) {
        self.insns.push(Insn { code, regs: dst.0 | src.0 << 4, off, imm });
    }

    fn emit_jump(&mut self, code: u8, dst: Reg, src: Reg, imm: i32, to: Label) {
        self.jumps.push((self.insns.len(), to));
        self.emit(code, dst, src, 0, imm);
    }

    pub fn load(&mut self, size: Size, dst: Reg, base: Reg, off: i16) {
        self.emit(LDX_MEM | size as u8, dst, base, off, 0);
    }

    pub fn store(&mut self, size: Size, base: Reg, off: i16, src: Reg) {
        self.emit(STX_MEM | size as u8, base, src, off, 0);
    }

    pub fn mov(&mut self, dst: Reg, src: Reg) {
        self.emit(MOV64_REG, dst, src, 0, 0);
    }

    pub fn mov_imm(&mut self, dst: Reg, imm: i32) {
        self.emit(MOV64_IMM, dst, Reg(0), 0, imm);
    }

    pub fn add_imm(&mut self, dst: Reg, imm: i32) {
        self.emit(ADD64_IMM, dst, Reg(0), 0, imm);
    }

    pub fn xor(&mut self, dst: Reg, src: Reg) {
        self.emit(XOR64_REG, dst, src, 0, 0);
    }

    pub fn and32_imm(&mut self, dst: Reg, imm: i32) {
        self.emit(AND32_IMM, dst, Reg(0), 0, imm);
    }

    pub fn jump(&mut self, to: Label) {
        self.emit_jump(JA, Reg(0), Reg(0), 0, to);
    }

    pub fn jump_greater(&mut self, a: Reg, b: Reg, to: Label) {
        self.emit_jump(JGT_REG, a, b, 0, to);
    }

    pub fn jump_nonzero(&mut self, a: Reg, to: Label) {
        self.emit_jump(JNE_IMM, a, Reg(0), 0, to);
    }

    pub fn jump_equal32(&mut self, a: Reg, imm: i32, to: Label) {
        self.emit_jump(JEQ32_IMM, a, Reg(0), imm, to);
    }

    pub fn jump_unequal32(&mut self, a: Reg, imm: i32, to: Label) {
        self.emit_jump(JNE32_IMM, a, Reg(0), imm, to);
    }

    /// Loads 64 bits.
    pub fn wide(&mut self, dst: Reg, value: u64) {
        self.emit(LD_IMM64, dst, Reg(0), 0, value as u32 as i32);
        self.emit(0, Reg(0), Reg(0), 0, (value >> 32) as u32 as i32);
    }

    /// Loads the map behind a descriptor.
    pub fn map(&mut self, dst: Reg, fd: i32) {
        self.emit(LD_IMM64, dst, Reg(PSEUDO_MAP_FD), 0, fd);
        self.emit(0, Reg(0), Reg(0), 0, 0);
    }

    /// Calls a helper; its number is in `enum bpf_func_id`. r1 to r5 are lost.
    pub fn call(&mut self, helper: i32) {
        self.emit(CALL, Reg(0), Reg(0), 0, helper);
    }

    pub fn exit(&mut self) {
        self.emit(EXIT, Reg(0), Reg(0), 0, 0);
    }

    /// Resolves the jumps. `None` when a label was never placed or lies further than a jump reaches.
    pub fn finish(mut self) -> Option<Vec<Insn>> {
        for (at, label) in self.jumps {
            let distance = self.labels[label.0]? as i64 - at as i64 - 1;
            self.insns[at].off = i16::try_from(distance).ok()?;
        }
        Some(self.insns)
    }
}
