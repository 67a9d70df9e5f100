//! Arithmetic: unbounded integers in registers of 64 or 128 bits.
//!
//! [`Gen::modular`] gives the low bits of an expression's value; what is above them may be anything. Sums, products and
//! bit operations need no more of their operands than that. Where the exact value counts (comparisons, division,
//! shifts to the right), [`range`] says which register holds it exactly, and exact is then the same as modular.

use super::access::mask;
use super::{Emit, Gen, Unsupported};
use crate::delegate::Delegate;
use crate::env;
use barewire_p4::ir::expr::MAX_SHIFT;
use barewire_p4::ir::range::{Range, const_shift, range};
use barewire_p4::ir::{BinaryOp, Expr, FieldRef, HeaderRef, StackId, UnaryOp, UnionRef};
use barewire_p4::phv::Place;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64, I128};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use num_bigint::{BigInt, Sign};
use num_traits::ToPrimitive;

/// An exact value: a register with the whole value in it.
#[derive(Debug, Clone, Copy)]
pub struct Exact {
    /// 64 or 128 bits; two's complement if it may be negative, else unsigned.
    pub value: Value,
    /// Its bounds.
    pub range: Range,
}

/// The low 128 bits of a constant, as two words.
fn words_of(value: &BigInt) -> (u64, u64) {
    let digits = value.magnitude().to_u64_digits();
    let low = digits.first().copied().unwrap_or(0);
    let high = digits.get(1).copied().unwrap_or(0);
    if value.sign() == Sign::Minus {
        let negative = (u128::from(high) << 64 | u128::from(low)).wrapping_neg();
        (negative as u64, (negative >> 64) as u64)
    } else {
        (low, high)
    }
}

impl Gen<'_, '_> {
    /// The range of an expression here.
    pub fn range(&self, expr: &Expr) -> Range {
        let widths = self.action.as_ref().map_or(&[][..], |frame| &frame.widths);
        range(self.unit.program, widths, expr)
    }

    /// A 128-bit constant.
    fn int128(&mut self, low: u64, high: u64) -> Value {
        let low = self.int(low);
        let high = self.int(high);
        self.b.ins().iconcat(low, high)
    }

    /// Zero-extend or cut a value to the register for `bits`.
    fn fit(&mut self, value: Value, bits: u32) -> Value {
        let has = self.b.func.dfg.value_type(value).bits();
        match (has, bits > 64) {
            (128, false) => self.b.ins().ireduce(I64, value),
            (64, true) => self.b.ins().uextend(I128, value),
            (8, false) => self.b.ins().uextend(I64, value),
            (8, true) => self.b.ins().uextend(I128, value),
            _ => value,
        }
    }

    /// `if condition { yes } else { no }` without a branch. Pairs of registers are chosen by halves: the code generator
    /// has no minimum of 128 bits, and makes one of a comparison and a choice.
    fn select(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        if self.b.func.dfg.value_type(yes) != I128 {
            return self.b.ins().select(condition, yes, no);
        }
        let (yes_low, yes_high) = self.b.ins().isplit(yes);
        let (no_low, no_high) = self.b.ins().isplit(no);
        let low = self.b.ins().select(condition, yes_low, no_low);
        let high = self.b.ins().select(condition, yes_high, no_high);
        self.b.ins().iconcat(low, high)
    }

    /// The low `bits <= 128` bits of an integer expression: in a 64-bit register up to 64, else in a 128-bit one.
    pub fn modular(&mut self, expr: &Expr, bits: u32) -> Emit<Value> {
        if bits > 128 {
            return Err(Unsupported);
        }
        Ok(match expr {
            Expr::Int(value) => {
                let (low, high) = words_of(value);
                if bits > 64 { self.int128(low, high) } else { self.int(low) }
            }
            Expr::Field(field) => return self.modular_field(field, bits),
            Expr::Param(index) => return self.modular_param(*index, bits),
            Expr::Unary(op, value) => match op {
                UnaryOp::Neg => {
                    let value = self.modular(value, bits)?;
                    self.b.ins().ineg(value)
                }
                UnaryOp::BitNot => {
                    let value = self.modular(value, bits)?;
                    self.b.ins().bnot(value)
                }
                UnaryOp::BoolToInt => {
                    let value = self.truth(value)?;
                    self.fit(value, bits)
                }
                UnaryOp::Not | UnaryOp::IntToBool => return Err(Unsupported),
            },
            Expr::Binary(op, left, right) => return self.modular_binary(*op, left, right, bits),
            Expr::Select(condition, yes, no) => {
                if has_lookahead(yes) || has_lookahead(no) {
                    return self.modular_select(condition, yes, no, bits);
                }
                let condition = self.truth(condition)?;
                let yes = self.modular(yes, bits)?;
                let no = self.modular(no, bits)?;
                self.select(condition, yes, no)
            }
            Expr::Wrap { value, width } => {
                let value = self.modular(value, bits.min((*width).max(1)))?;
                let value = self.fit(value, bits);
                if bits > *width { self.sign_extend(value, *width) } else { value }
            }
            Expr::Saturate { value, width, signed } => {
                let value = self.saturate(value, *width, *signed)?;
                return Ok(self.resize(value, bits));
            }
            Expr::StackSize(stack) => {
                let value = self.stack_next(*stack);
                self.fit(value, bits)
            }
            Expr::LastIndex(stack) => {
                let next = self.stack_next(*stack);
                let one = self.int(1);
                let at_least = self.b.ins().umax(next, one);
                let value = self.b.ins().iadd_imm(at_least, -1);
                self.fit(value, bits)
            }
            Expr::Register { register, index } => {
                let width = self.unit.program.registers[register.at()].width;
                if width > 64 {
                    return Err(Unsupported);
                }
                let index = self.index(index)?;
                let number = self.int(u64::from(register.0));
                let env = self.env;
                let value =
                    self.call_value(env::register_get as *const () as usize, &[env, number, index], I64);
                self.fit(value, bits)
            }
            Expr::Lookahead { offset, width } => {
                let value = self.lookahead(*offset, *width)?;
                self.fit(value, bits)
            }
            _ => return Err(Unsupported),
        })
    }

    fn modular_field(&mut self, field: &FieldRef, bits: u32) -> Emit<Value> {
        let Some(id) = field.fixed() else {
            let (value, width, signed) = self.load_dynamic(field)?;
            let value = self.fit(value, bits);
            return Ok(if signed && bits > width { self.sign_extend(value, width) } else { value });
        };
        let (width, signed) = match self.unit.layout.place(id) {
            Place::Words { width, signed, .. } | Place::Bits { width, signed, .. } => (width, signed),
            Place::Varbit { .. } => return Err(Unsupported),
        };
        let value = if width > 128 || (width > 64 && bits <= 64) {
            let low = self.load_limb(id, 0)?;
            if bits > 64 {
                let high = self.load_limb(id, 1)?;
                self.b.ins().iconcat(low, high)
            } else {
                low
            }
        } else {
            self.load_field(id)?
        };
        let value = self.fit(value, bits);
        Ok(if signed && bits > width { self.sign_extend(value, width) } else { value })
    }

    fn modular_param(&mut self, index: u32, bits: u32) -> Emit<Value> {
        let (args, first, width) = self.param(index)?;
        let at = first as i32 * 8;
        let low = self.b.ins().load(I64, self.flags.record, args, at);
        if bits <= 64 {
            return Ok(low);
        }
        if width <= 64 {
            return Ok(self.b.ins().uextend(I128, low));
        }
        let high = self.b.ins().load(I64, self.flags.record, args, at + 8);
        Ok(self.b.ins().iconcat(low, high))
    }

    /// The word that holds a stack's next index.
    pub fn stack_next(&mut self, stack: StackId) -> Value {
        let word = self.unit.layout.stack_next[stack.at()];
        self.b.ins().load(I64, self.flags.phv, self.phv, word as i32 * 8)
    }

    /// Where a parameter of the running action lies: base, word, width.
    pub fn param(&self, index: u32) -> Emit<(Value, u32, u32)> {
        let frame = self.action.as_ref().ok_or(Unsupported)?;
        let first = frame.first_word.get(index as usize).ok_or(Unsupported)?;
        let width = frame.widths.get(index as usize).ok_or(Unsupported)?;
        Ok((frame.args, *first, *width))
    }

    fn modular_select(&mut self, condition: &Expr, yes: &Expr, no: &Expr, bits: u32) -> Emit<Value> {
        let (on_yes, on_no, after) = (self.block(), self.block(), self.block());
        let result = self.b.append_block_param(after, if bits > 64 { I128 } else { I64 });
        self.branch_on(condition, on_yes, on_no);
        let mut possible = Ok(());
        for (block, expr) in [(on_yes, yes), (on_no, no)] {
            if !self.entries.reached(block) {
                continue;
            }
            self.enter(block);
            // Even when a branch cannot be done here, the blocks must be closed: the caller delegates the whole.
            let value = match possible.and_then(|()| self.modular(expr, bits)) {
                Ok(value) => value,
                Err(Unsupported) => {
                    possible = Err(Unsupported);
                    if bits > 64 { self.int128(0, 0) } else { self.int(0) }
                }
            };
            self.entries.arrive(after, &self.known);
            self.b.ins().jump(after, &[value.into()]);
        }
        self.enter(after);
        possible.map(|()| result)
    }

    fn modular_binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr, bits: u32) -> Emit<Value> {
        match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::BitOr | BinaryOp::BitXor => {
                let left = self.modular(left, bits)?;
                let right = self.modular(right, bits)?;
                Ok(match op {
                    BinaryOp::Add => self.b.ins().iadd(left, right),
                    BinaryOp::Sub => self.b.ins().isub(left, right),
                    BinaryOp::Mul => self.b.ins().imul(left, right),
                    BinaryOp::BitOr => self.b.ins().bor(left, right),
                    _ => self.b.ins().bxor(left, right),
                })
            }
            BinaryOp::BitAnd => {
                // A mask says how much of the other side is wanted.
                let (other, mask_expr) =
                    if matches!(left, Expr::Int(_)) { (right, left) } else { (left, right) };
                if let Expr::Int(m) = mask_expr
                    && m.sign() != Sign::Minus
                    && m.bits() <= 64
                    && m.bits() < u64::from(bits)
                {
                    let wanted = (m.bits() as u32).max(1);
                    let value = self.modular(other, wanted)?;
                    let m = m.to_u64().ok_or(Unsupported)?;
                    let clean = match other {
                        Expr::Field(_) | Expr::Param(_) => self.range(other),
                        _ => Range { neg: true, bits: 0 },
                    };
                    let value = if !clean.neg && m == mask(clean.bits) {
                        value
                    } else {
                        let m = self.int(m);
                        self.b.ins().band(value, m)
                    };
                    return Ok(self.fit(value, bits));
                }
                let left = self.modular(left, bits)?;
                let right = self.modular(right, bits)?;
                Ok(self.b.ins().band(left, right))
            }
            BinaryOp::Shl => match const_shift(right) {
                Some(count) => {
                    let count = count.filter(|count| *count < bits && u64::from(*count) <= MAX_SHIFT);
                    let Some(count) = count else {
                        if has_lookahead(left) {
                            return Err(Unsupported);
                        }
                        let zero = self.int(0);
                        return Ok(self.fit(zero, bits));
                    };
                    let value = self.modular(left, bits - count)?;
                    let value = self.fit(value, bits);
                    Ok(if count == 0 { value } else { self.b.ins().ishl_imm(value, i64::from(count)) })
                }
                None => {
                    let value = self.modular(left, bits)?;
                    let count = self.index(right)?;
                    let register = if bits > 64 { 128 } else { 64 };
                    let fits = self.icmp_imm(IntCC::UnsignedLessThan, count, register);
                    let shifted = self.b.ins().ishl(value, count);
                    let zero = self.int(0);
                    let zero = self.fit(zero, bits);
                    Ok(self.select(fits, shifted, zero))
                }
            },
            BinaryOp::Shr => self.shift_right(left, right, bits),
            BinaryOp::Div | BinaryOp::Rem => {
                let (l, r) = (self.exact(left)?, self.exact(right)?);
                let value = self.divide(op, l, r)?;
                Ok(self.resize(value, bits))
            }
            _ => Err(Unsupported),
        }
    }

    fn shift_right(&mut self, left: &Expr, right: &Expr, bits: u32) -> Emit<Value> {
        match const_shift(right) {
            Some(None) => {
                if has_lookahead(left) {
                    return Err(Unsupported);
                }
                let zero = self.int(0);
                Ok(self.fit(zero, bits))
            }
            Some(Some(count)) => {
                let need = count.saturating_add(bits);
                let range = self.range(left);
                if range.fits64() || range.fits128() {
                    let exact = self.exact(left)?;
                    let register = self.b.func.dfg.value_type(exact.value).bits();
                    let value = if !exact.range.neg && count >= register {
                        let zero = self.int(0);
                        self.fit(zero, register)
                    } else if exact.range.neg {
                        self.b.ins().sshr_imm(exact.value, i64::from(count.min(register - 1)))
                    } else {
                        self.b.ins().ushr_imm(exact.value, i64::from(count))
                    };
                    let range = Range { neg: exact.range.neg, bits: exact.range.bits.saturating_sub(count) };
                    return Ok(self.resize(Exact { value, range }, bits));
                }
                if need > 128 {
                    return Err(Unsupported);
                }
                let value = self.modular(left, need)?;
                let value = self.b.ins().ushr_imm(value, i64::from(count));
                Ok(self.fit(value, bits))
            }
            None => {
                let exact = self.exact(left)?;
                // Evaluated once: nested shifts would double the code at every level.
                let right = self.exact(right)?;
                let negative = self.is_negative(right);
                let count = self.index_of(right);
                let register = self.b.func.dfg.value_type(exact.value).bits();
                let last = self.int(u64::from(register) - 1);
                let beyond = self.icmp(IntCC::UnsignedGreaterThan, count, last);
                let clamped = self.b.ins().umin(count, last);
                let zero = self.int(0);
                let zero = self.fit(zero, register);
                let mut value = if exact.range.neg {
                    self.b.ins().sshr(exact.value, clamped)
                } else {
                    let value = self.b.ins().ushr(exact.value, clamped);
                    self.select(beyond, zero, value)
                };
                if let Some(negative) = negative {
                    value = self.select(negative, zero, value);
                }
                Ok(self.resize(Exact { value, range: exact.range }, bits))
            }
        }
    }

    /// Whether a value is below zero; none when it cannot be.
    fn is_negative(&mut self, exact: Exact) -> Option<Value> {
        if !exact.range.neg {
            return None;
        }
        let value = if self.b.func.dfg.value_type(exact.value) == I128 {
            self.b.ins().isplit(exact.value).1
        } else {
            exact.value
        };
        Some(self.icmp_imm(IntCC::SignedLessThan, value, 0))
    }

    fn divide(&mut self, op: BinaryOp, left: Exact, right: Exact) -> Emit<Exact> {
        // 62 bits: the one overflowing quotient (the least number by -1) cannot come up.
        if !(left.range.fits64() && right.range.fits64()) {
            return Err(Unsupported);
        }
        let signed = left.range.neg || right.range.neg;
        if signed && (left.range.bits > 62 || right.range.bits > 62) {
            return Err(Unsupported);
        }
        let zero = self.int(0);
        let one = self.int(1);
        let by_zero = self.icmp_imm(IntCC::Equal, right.value, 0);
        let divisor = self.select(by_zero, one, right.value);
        let value = match (op, signed) {
            (BinaryOp::Div, false) => self.b.ins().udiv(left.value, divisor),
            (BinaryOp::Div, true) => self.b.ins().sdiv(left.value, divisor),
            (_, false) => self.b.ins().urem(left.value, divisor),
            (_, true) => self.b.ins().srem(left.value, divisor),
        };
        let value = self.select(by_zero, zero, value);
        Ok(Exact { value, range: Range { neg: signed, bits: 63 } })
    }

    fn saturate(&mut self, expr: &Expr, width: u32, signed: bool) -> Emit<Exact> {
        let exact = self.exact(expr)?;
        let range = if signed {
            Range { neg: true, bits: width.saturating_sub(1) }
        } else {
            Range { neg: false, bits: width }
        };
        if exact.range.bits <= range.bits && (range.neg || !exact.range.neg) {
            return Ok(exact);
        }
        if signed && width == 0 {
            return Err(Unsupported);
        }
        // Both bounds must be exact in the same register as the value, read as signed or as unsigned.
        let unsigned = !exact.range.neg;
        let register = self.b.func.dfg.value_type(exact.value).bits();
        let limit = if unsigned { register } else { register - 1 };
        if range.bits > limit {
            return Err(Unsupported);
        }
        let high = self.low_mask(range.bits, register);
        let value = exact.value;
        let above = if unsigned { IntCC::UnsignedGreaterThan } else { IntCC::SignedGreaterThan };
        let too_high = self.b.ins().icmp(above, value, high);
        let mut result = self.select(too_high, high, value);
        if exact.range.neg {
            let low = if signed {
                self.b.ins().bnot(high)
            } else {
                let zero = self.int(0);
                self.fit(zero, register)
            };
            let too_low = self.b.ins().icmp(IntCC::SignedLessThan, value, low);
            result = self.select(too_low, low, result);
        }
        let neg = range.neg && exact.range.neg;
        Ok(Exact { value: result, range: Range { neg, bits: range.bits } })
    }

    /// `2^bits - 1` in a register.
    fn low_mask(&mut self, bits: u32, register: u32) -> Value {
        if register > 64 {
            self.int128(mask(bits.min(64)), mask(bits.saturating_sub(64)) * u64::from(bits > 64))
        } else {
            self.int(mask(bits))
        }
    }

    /// An exact value cut or extended (by its sign) to the register for `bits`.
    pub fn resize(&mut self, exact: Exact, bits: u32) -> Value {
        let has = self.b.func.dfg.value_type(exact.value).bits();
        if has == 64 && bits > 64 && exact.range.neg {
            return self.b.ins().sextend(I128, exact.value);
        }
        self.fit(exact.value, bits)
    }

    /// The exact value of an expression, if a register (pair) holds it.
    pub fn exact(&mut self, expr: &Expr) -> Emit<Exact> {
        let range = self.range(expr);
        let bits = if range.fits64() {
            64
        } else if range.fits128() {
            128
        } else {
            return Err(Unsupported);
        };
        Ok(Exact { value: self.modular(expr, bits)?, range })
    }

    /// A value as an index: what no 64 bits hold, negative numbers too, is the largest number.
    pub fn index(&mut self, expr: &Expr) -> Emit<Value> {
        let exact = self.exact(expr)?;
        Ok(self.index_of(exact))
    }

    fn index_of(&mut self, exact: Exact) -> Value {
        if !exact.range.neg && exact.range.bits <= 64 {
            return exact.value;
        }
        let most = self.int(u64::MAX);
        if self.b.func.dfg.value_type(exact.value) == I128 {
            let (low, high) = self.b.ins().isplit(exact.value);
            let fits = self.icmp_imm(IntCC::Equal, high, 0);
            return self.select(fits, low, most);
        }
        let fits = self.icmp_imm(IntCC::SignedGreaterThanOrEqual, exact.value, 0);
        self.select(fits, exact.value, most)
    }

    /// A comparison of integers.
    fn compare(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Emit<Value> {
        let (l, r) = (self.range(left), self.range(right));
        let (bits, signed) = if !l.neg && !r.neg && l.fits64() && r.fits64() {
            (64, false)
        } else if l.fits_i64() && r.fits_i64() {
            (64, true)
        } else if !l.neg && !r.neg && l.fits128() && r.fits128() {
            (128, false)
        } else if l.fits_i128() && r.fits_i128() {
            (128, true)
        } else {
            return self.compare_wide(op, left, right);
        };
        let left = self.modular(left, bits)?;
        let right = self.modular(right, bits)?;
        let how = match (op, signed) {
            (BinaryOp::Eq, _) => IntCC::Equal,
            (BinaryOp::Ne, _) => IntCC::NotEqual,
            (BinaryOp::Lt, false) => IntCC::UnsignedLessThan,
            (BinaryOp::Le, false) => IntCC::UnsignedLessThanOrEqual,
            (BinaryOp::Gt, false) => IntCC::UnsignedGreaterThan,
            (BinaryOp::Ge, false) => IntCC::UnsignedGreaterThanOrEqual,
            (BinaryOp::Lt, true) => IntCC::SignedLessThan,
            (BinaryOp::Le, true) => IntCC::SignedLessThanOrEqual,
            (BinaryOp::Gt, true) => IntCC::SignedGreaterThan,
            (BinaryOp::Ge, true) => IntCC::SignedGreaterThanOrEqual,
            _ => return Err(Unsupported),
        };
        Ok(self.b.ins().icmp(how, left, right))
    }

    /// A truth value, as 0 or 1 in 8 bits.
    pub fn truth(&mut self, expr: &Expr) -> Emit<Value> {
        Ok(match expr {
            Expr::Bool(value) => self.bool(*value),
            Expr::Valid(header) => match header {
                HeaderRef::Header(id) => self.header_valid(*id),
                _ => self.valid_dynamic(header)?,
            },
            Expr::UnionValid(UnionRef::Union(union)) => {
                let mut any = self.bool(false);
                for member in &self.unit.program.unions[union.at()].members {
                    let valid = self.header_valid(*member);
                    any = self.b.ins().bor(any, valid);
                }
                any
            }
            Expr::Unary(UnaryOp::Not, value) => {
                let value = self.truth(value)?;
                self.b.ins().bxor_imm(value, 1)
            }
            Expr::Unary(UnaryOp::IntToBool, value) => {
                let range = self.range(value);
                let zero = Expr::Int(BigInt::from(0));
                if range.fits128() || !range.neg {
                    return self.compare(BinaryOp::Ne, value, &zero);
                }
                return Err(Unsupported);
            }
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                if has_lookahead(right) {
                    return Err(Unsupported);
                }
                // Expressions have no effects: evaluating the right side in vain is harmless.
                let left = self.truth(left)?;
                let right = self.truth(right)?;
                if *op == BinaryOp::And {
                    self.b.ins().band(left, right)
                } else {
                    self.b.ins().bor(left, right)
                }
            }
            Expr::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), left, right) if is_truth(left) => {
                let left = self.truth(left)?;
                let right = self.truth(right)?;
                let how = if *op == BinaryOp::Eq { IntCC::Equal } else { IntCC::NotEqual };
                self.b.ins().icmp(how, left, right)
            }
            Expr::Binary(op, left, right) => return self.compare(*op, left, right),
            Expr::Select(condition, yes, no) => {
                if has_lookahead(yes) || has_lookahead(no) {
                    return Err(Unsupported);
                }
                let condition = self.truth(condition)?;
                let yes = self.truth(yes)?;
                let no = self.truth(no)?;
                self.select(condition, yes, no)
            }
            _ => return Err(Unsupported),
        })
    }

    /// A truth value that is computed here or by the interpreter.
    pub fn truth_any(&mut self, expr: &Expr) -> Value {
        match self.truth(expr) {
            Ok(value) => value,
            Err(Unsupported) => {
                let frame = self.action.as_ref().and_then(|frame| frame.action);
                let what = Delegate::Truth { expr: expr.clone(), action: frame };
                if self.parsing.is_some() {
                    self.note_place();
                }
                let value = self.delegate(what, || super::stmt::shorten(format!("condition {expr:?}")));
                if self.parsing.is_some() && has_lookahead(expr) {
                    self.leave_if_fault(value, crate::delegate::FAULT);
                }
                self.narrow(I8, value)
            }
        }
    }

    /// Branch on a truth value, short-circuited; ends the current block. A part that cannot be done here is evaluated
    /// by the interpreter.
    pub fn branch_on(&mut self, expr: &Expr, yes: Block, no: Block) {
        match expr {
            Expr::Bool(value) => self.jump(if *value { yes } else { no }),
            Expr::Unary(UnaryOp::Not, value) => self.branch_on(value, no, yes),
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                let middle = self.block();
                if *op == BinaryOp::And {
                    self.branch_on(left, middle, no);
                } else {
                    self.branch_on(left, yes, middle);
                }
                // When the left side is settled, nothing reads the right one.
                if self.entries.reached(middle) {
                    self.enter(middle);
                    self.branch_on(right, yes, no);
                }
            }
            Expr::Valid(HeaderRef::Header(id)) => {
                let id = *id;
                match self.known.valid(id) {
                    Some(true) => self.jump(yes),
                    Some(false) => self.jump(no),
                    None if self.unit.program.headers[id.at()].metadata => self.jump(yes),
                    None => {
                        let value = self.header_valid(id);
                        self.known.set_valid(id, Some(true));
                        self.entries.arrive(yes, &self.known);
                        self.known.set_valid(id, Some(false));
                        self.entries.arrive(no, &self.known);
                        self.b.ins().brif(value, yes, &[], no, &[]);
                    }
                }
            }
            _ => {
                let value = self.truth_any(expr);
                self.branch(value, yes, no);
            }
        }
    }
}

/// Whether an expression is a truth value.
pub fn is_truth(expr: &Expr) -> bool {
    match expr {
        Expr::Bool(_)
        | Expr::Valid(_)
        | Expr::UnionValid(_)
        | Expr::HeadersEqual(..)
        | Expr::UnionsEqual(..)
        | Expr::StacksEqual(..)
        | Expr::UnionStacksEqual(..)
        | Expr::Unary(UnaryOp::Not | UnaryOp::IntToBool, _) => true,
        Expr::Binary(op, ..) => matches!(
            op,
            BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Le
                | BinaryOp::Gt
                | BinaryOp::Ge
                | BinaryOp::And
                | BinaryOp::Or
        ),
        Expr::Select(_, yes, _) => is_truth(yes),
        _ => false,
    }
}

/// Whether evaluating an expression can end parsing.
pub fn has_lookahead(expr: &Expr) -> bool {
    match expr {
        Expr::Lookahead { .. } => true,
        Expr::Unary(_, value) | Expr::Wrap { value, .. } | Expr::Saturate { value, .. } => {
            has_lookahead(value)
        }
        Expr::Binary(_, left, right) => has_lookahead(left) || has_lookahead(right),
        Expr::Select(a, b, c) => has_lookahead(a) || has_lookahead(b) || has_lookahead(c),
        _ => false,
    }
}
