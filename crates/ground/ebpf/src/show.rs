//! Instructions as text, one a line, in the way of the kernel's own listing.

use crate::{Insn, code};
use std::fmt::Write as _;

fn size(code: u8) -> &'static str {
    match code & 0x18 {
        0x00 => "u32",
        0x08 => "u16",
        0x10 => "u8",
        _ => "u64",
    }
}

fn operator(code: u8) -> &'static str {
    match code & 0xf0 {
        0x00 => "+=",
        0x10 => "-=",
        0x20 => "*=",
        0x30 => "/=",
        0x40 => "|=",
        0x50 => "&=",
        0x60 => "<<=",
        0x70 => ">>=",
        0x90 => "%=",
        0xa0 => "^=",
        0xb0 => "=",
        _ => "s>>=",
    }
}

fn comparison(code: u8) -> &'static str {
    match code & 0xf0 {
        0x10 => "==",
        0x20 => ">",
        0x30 => ">=",
        0x40 => "&",
        0x50 => "!=",
        0x60 => "s>",
        0x70 => "s>=",
        0xa0 => "<",
        0xb0 => "<=",
        0xc0 => "s<",
        _ => "s<=",
    }
}

/// A listing.
pub fn show(program: &[Insn]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < program.len() {
        let i = program[at];
        let (dst, src, off, imm) = (i.dst().0, i.src().0, i.off, i.imm);
        let _ = write!(out, "{at:5}: ");
        let here = at as i64;
        let target = |distance: i64| here + 1 + distance;
        let half = if matches!(i.code & 7, 4 | 6) { 'w' } else { 'r' };
        let operand = if i.code & code::X != 0 { format!("{half}{src}") } else { imm.to_string() };
        let text = match (i.code, i.code & 7) {
            (code::LD_IMM64, _) => {
                let high = program.get(at + 1).map_or(0, |next| next.imm);
                at += 1;
                match src {
                    code::PSEUDO_MAP_FD => format!("r{dst} = map {imm}"),
                    code::PSEUDO_MAP_VALUE => format!("r{dst} = map {imm} value + {high}"),
                    _ => format!("r{dst} = {:#x}", u64::from(imm as u32) | u64::from(high as u32) << 32),
                }
            }
            (code::CALL, _) => format!("call {imm}"),
            (code::EXIT, _) => "exit".to_owned(),
            (code::JA, _) => format!("goto {}", target(off.into())),
            (code::JA_FAR, _) => format!("goto {}", target(imm.into())),
            (code::NEG64 | code::NEG32, _) => format!("{half}{dst} = -{half}{dst}"),
            (code::TO_BE, _) => format!("r{dst} = be{imm} r{dst}"),
            (code::TO_LE, _) => format!("r{dst} = le{imm} r{dst}"),
            (c, 1) => format!("r{dst} = *({} *)(r{src} {off:+})", size(c)),
            (c, 2) => format!("*({} *)(r{dst} {off:+}) = {imm}", size(c)),
            (c, 3) if c & 0xe0 == 0xc0 => format!("lock *({} *)(r{dst} {off:+}) op {imm:#x} r{src}", size(c)),
            (c, 3) => format!("*({} *)(r{dst} {off:+}) = r{src}", size(c)),
            (c, 4 | 7) => format!("{half}{dst} {} {operand}", operator(c)),
            (c, _) => format!("if {half}{dst} {} {operand} goto {}", comparison(c), target(off.into())),
        };
        let _ = writeln!(out, "{text}");
        at += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::{Asm, Bits, Cond, Reg, Size};

    #[test]
    fn a_listing_reads_like_the_kernels() {
        let mut asm = Asm::default();
        let end = asm.label();
        asm.load(Size::W, Reg::R1, Reg::R6, 4);
        asm.jump_if_imm(Bits::B32, Cond::Lt, Reg::R1, 3, end);
        asm.map(Reg::R2, 1);
        asm.place(end);
        asm.exit();
        let text = super::show(&asm.finish(false).expect("placed"));
        assert_eq!(
            text,
            "    0: r1 = *(u32 *)(r6 +4)\n    1: if w1 < 3 goto 4\n    2: r2 = map 1\n    4: exit\n"
        );
    }
}
