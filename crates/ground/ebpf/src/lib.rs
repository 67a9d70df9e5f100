//! eBPF programs as values: instructions, an assembler with labels, descriptions of maps. Nothing here asks a kernel.
//!
//! A program is written with [`Asm`] against labels; [`Asm::finish`] gives every jump its distance, and where the target lies
//! further than sixteen bits reach, a long jump. A map is named by its position among a program's [`MapSpec`]s until
//! whoever loads the program knows descriptors ([`bind_maps`]). Source: kernel
//! `Documentation/bpf/standardization/instruction-set.rst`, `linux/bpf.h`.
//!
//! ```
//! use barewire_ebpf::{Asm, Bits, Cond, Reg, show};
//!
//! // Drop (1) what begins with a zero word, pass (2) the rest. A real program compares with the end of the packet first.
//! let mut asm = Asm::default();
//! let drop = asm.label();
//! asm.jump_if_imm(Bits::B32, Cond::Eq, Reg::R2, 0, drop);
//! asm.mov_imm(Reg::R0, 2);
//! asm.exit();
//! asm.place(drop);
//! asm.mov_imm(Reg::R0, 1);
//! asm.exit();
//! let program = asm.finish(false)?;
//! assert_eq!(program.len(), 5);
//! assert!(!show(&program).is_empty());
//! # Ok::<(), barewire_ebpf::AsmError>(())
//! ```
//!
//! Distances are in instructions. [`AsmError`] names a label that was never placed, or a jump that is too far.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod asm;
pub mod helper;
mod maps;
mod show;

pub use asm::{Asm, AsmError, Label};
pub use maps::{MapKind, MapSpec, bind_maps};
pub use show::show;

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

impl Insn {
    /// Its destination register.
    pub const fn dst(self) -> Reg {
        Reg(self.regs & 15)
    }

    /// Its source register.
    pub const fn src(self) -> Reg {
        Reg(self.regs >> 4)
    }
}

/// A register: r0 to r10.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reg(pub u8);

#[allow(missing_docs)]
impl Reg {
    pub const R0: Reg = Reg(0);
    pub const R1: Reg = Reg(1);
    pub const R2: Reg = Reg(2);
    pub const R3: Reg = Reg(3);
    pub const R4: Reg = Reg(4);
    pub const R5: Reg = Reg(5);
    pub const R6: Reg = Reg(6);
    pub const R7: Reg = Reg(7);
    pub const R8: Reg = Reg(8);
    pub const R9: Reg = Reg(9);
    /// The frame pointer; the stack lies below it, 512 bytes.
    pub const FP: Reg = Reg(10);
}

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

impl Size {
    /// Bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Size::B => 1,
            Size::H => 2,
            Size::W => 4,
            Size::D => 8,
        }
    }

    /// The access of exactly so many bytes, if there is one.
    pub const fn of(bytes: u32) -> Option<Size> {
        match bytes {
            1 => Some(Size::B),
            2 => Some(Size::H),
            4 => Some(Size::W),
            8 => Some(Size::D),
            _ => None,
        }
    }
}

/// Whether an operation is on whole registers, or on their low 32 bits (the high ones become zero).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bits {
    /// The low half.
    B32,
    /// All.
    B64,
}

/// Arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    /// Unsigned; by zero gives 0.
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    /// Unsigned; by zero leaves the destination.
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
    Arsh = 0xc0,
}

/// Conditions of jumps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Cond {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    /// Any common bit.
    Set = 0x40,
    Ne = 0x50,
    SignedGt = 0x60,
    SignedGe = 0x70,
    Lt = 0xa0,
    Le = 0xb0,
    SignedLt = 0xc0,
    SignedLe = 0xd0,
}

/// Atomic read-modify-write operations on memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Atomic {
    Add = 0x00,
    Or = 0x40,
    And = 0x50,
    Xor = 0xa0,
    /// The old value comes back in the source register.
    FetchAdd = 0x01,
    /// The same.
    Exchange = 0xe1,
    /// Compares with r0, which gets the old value.
    CompareExchange = 0xf1,
}

/// Operation codes, whole, as they are encoded.
#[allow(missing_docs)]
pub mod code {
    pub const LDX: u8 = 0x61;
    pub const LDX_SIGNED: u8 = 0x81;
    pub const ST: u8 = 0x62;
    pub const STX: u8 = 0x63;
    pub const STX_ATOMIC: u8 = 0xc3;
    pub const ALU32: u8 = 0x04;
    pub const ALU64: u8 = 0x07;
    /// Second operand is a register.
    pub const X: u8 = 0x08;
    pub const NEG64: u8 = 0x87;
    pub const NEG32: u8 = 0x84;
    pub const TO_LE: u8 = 0xd4;
    pub const TO_BE: u8 = 0xdc;
    pub const BSWAP: u8 = 0xd7;
    pub const JMP: u8 = 0x05;
    pub const JMP32: u8 = 0x06;
    /// Jump always, sixteen bits.
    pub const JA: u8 = 0x05;
    /// Jump always, thirty-two bits (kernel 6.6).
    pub const JA_FAR: u8 = 0x06;
    pub const LD_IMM64: u8 = 0x18;
    pub const CALL: u8 = 0x85;
    pub const EXIT: u8 = 0x95;
    /// Source register of [`LD_IMM64`]: the immediate is a map's descriptor.
    pub const PSEUDO_MAP_FD: u8 = 1;
    /// The same, and the second immediate is an offset into its only value.
    pub const PSEUDO_MAP_VALUE: u8 = 2;
    /// Source register of [`CALL`]: a function of the same program.
    pub const PSEUDO_CALL: u8 = 1;
}
