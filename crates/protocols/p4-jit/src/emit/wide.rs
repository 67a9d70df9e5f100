//! Values wider than a pair of registers, in limbs of 64 bits, least significant first.

use super::expr::has_lookahead;
use super::{Emit, Gen, Unsupported};
use barewire_p4::ir::expr::MAX_SHIFT;
use barewire_p4::ir::range::const_shift;
use barewire_p4::ir::{BinaryOp, Expr, UnaryOp};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};
use num_bigint::Sign;

impl Gen<'_, '_> {
    /// Equality of unsigned values of any width, limb by limb.
    pub fn compare_wide(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Emit<Value> {
        if !matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
            return Err(Unsupported);
        }
        let (l, r) = (self.range(left), self.range(right));
        if l.neg || r.neg {
            return Err(Unsupported);
        }
        let count = l.bits.max(r.bits).div_ceil(64).max(1);
        let left = self.limbs(left, count)?;
        let right = self.limbs(right, count)?;
        let mut differ = self.int(0);
        for (l, r) in left.into_iter().zip(right) {
            let x = self.b.ins().bxor(l, r);
            differ = self.b.ins().bor(differ, x);
        }
        Ok(self.icmp_imm(if op == BinaryOp::Eq { IntCC::Equal } else { IntCC::NotEqual }, differ, 0))
    }

    /// The low `64 * count` bits of an expression, in 64-bit limbs, least significant first: for what is wider than
    /// 128 bits and only moved or combined bit by bit.
    pub fn limbs(&mut self, expr: &Expr, count: u32) -> Emit<Vec<Value>> {
        if count > 64 {
            return Err(Unsupported);
        }
        match expr {
            Expr::Int(value) => {
                let mut digits = value.magnitude().to_u64_digits();
                digits.resize(digits.len().max(count as usize), 0);
                if value.sign() == Sign::Minus {
                    let mut carry = true;
                    for digit in &mut digits {
                        (*digit, carry) = (!*digit).overflowing_add(u64::from(carry));
                    }
                }
                Ok(digits.iter().take(count as usize).map(|digit| self.int(*digit)).collect())
            }
            Expr::Field(field) => {
                let id = field.fixed().ok_or(Unsupported)?;
                let def = self.unit.program.field_def(id);
                let width = def.bits();
                if def.signed && width < count * 64 {
                    return self.small_limbs(expr, count);
                }
                (0..count)
                    .map(|limb| if limb * 64 < width { self.load_limb(id, limb) } else { Ok(self.int(0)) })
                    .collect()
            }
            Expr::Param(index) => {
                let (args, first, width) = self.param(*index)?;
                Ok((0..count)
                    .map(|limb| {
                        if limb < width.div_ceil(64).max(1) {
                            self.b.ins().load(I64, self.flags.record, args, (first + limb) as i32 * 8)
                        } else {
                            self.int(0)
                        }
                    })
                    .collect())
            }
            Expr::Binary(op @ (BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor), left, right) => {
                let left = self.limbs(left, count)?;
                let right = self.limbs(right, count)?;
                Ok(left
                    .into_iter()
                    .zip(right)
                    .map(|(l, r)| match op {
                        BinaryOp::BitAnd => self.b.ins().band(l, r),
                        BinaryOp::BitOr => self.b.ins().bor(l, r),
                        _ => self.b.ins().bxor(l, r),
                    })
                    .collect())
            }
            Expr::Unary(UnaryOp::BitNot, value) => {
                let limbs = self.limbs(value, count)?;
                Ok(limbs.into_iter().map(|limb| self.b.ins().bnot(limb)).collect())
            }
            Expr::Binary(BinaryOp::Shl, left, right) => {
                // By whole words and bits: `x << c` as front ends write concatenations.
                let Some(Some(by)) = const_shift(right) else { return Err(Unsupported) };
                if u64::from(by) > MAX_SHIFT || by >= count * 64 {
                    if has_lookahead(left) {
                        return Err(Unsupported);
                    }
                    return Ok((0..count).map(|_| self.int(0)).collect());
                }
                let (skip, bits) = (by / 64, by % 64);
                let source = self.limbs(left, count.saturating_sub(skip).max(1))?;
                let mut out = Vec::with_capacity(count as usize);
                for i in 0..count {
                    let Some(at) = i.checked_sub(skip) else {
                        out.push(self.int(0));
                        continue;
                    };
                    let mut value = self.shl(source[at as usize], bits);
                    if bits > 0 && at > 0 {
                        let carried = self.shr(source[at as usize - 1], 64 - bits);
                        value = self.b.ins().bor(value, carried);
                    }
                    out.push(value);
                }
                Ok(out)
            }
            _ => self.small_limbs(expr, count),
        }
    }

    fn small_limbs(&mut self, expr: &Expr, count: u32) -> Emit<Vec<Value>> {
        let exact = self.exact(expr)?;
        let wide = self.resize(exact, 128);
        let (low, high) = self.b.ins().isplit(wide);
        let fill = if exact.range.neg { self.b.ins().sshr_imm(high, 63) } else { self.int(0) };
        Ok([low, high].into_iter().chain(std::iter::repeat(fill)).take(count as usize).collect())
    }
}
