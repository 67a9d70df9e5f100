//! Expressions: a word of a value at a time, on unbounded integers as the representation defines them.
//!
//! The lowest word of a sum, difference or product needs nothing but lowest words, so wrapping arithmetic of any width up to
//! 64 bits is plain. Comparisons, divisions and shifts to the right want the whole value: [`range`] says whether it fits.
//! Wider values are moved, masked, shifted by constants and compared, word by word.

use crate::Reason;
use crate::r#gen::{Gen, Made, POOL, RECORD, TEMP, VECTOR};
use barewire_ebpf::{Alu, Bits, Cond, Label, Reg, Size};
use barewire_p4::ir::expr::MAX_SHIFT;
use barewire_p4::ir::range::{Range, const_shift, range};
use barewire_p4::ir::{BinaryOp, Expr, FieldId, HeaderId, RegisterId, StackId, UnaryOp, UnionRef};
use barewire_p4::phv::Place;
use num_bigint::{BigInt, Sign};

const WIDE: Reason = Reason::No("arithmetic on more than 64 bits");

/// A word of a number in two's complement.
pub(crate) fn word_of(value: &BigInt, word: u32) -> u64 {
    let shifted: BigInt = value >> (64 * word);
    let digits = shifted.magnitude().iter_u64_digits().next().unwrap_or(0);
    if shifted.sign() == Sign::Minus { digits.wrapping_neg() } else { digits }
}

impl Gen<'_> {
    pub fn range(&self, expr: &Expr) -> Range {
        range(self.program, &self.params(), expr)
    }

    /// A constant operand that an instruction can hold.
    fn immediate(expr: &Expr, word: u32) -> Option<i32> {
        match expr {
            Expr::Int(value) => i32::try_from(word_of(value, word) as i64).ok(),
            _ => None,
        }
    }

    /// A word of an expression's value, in `POOL[at]`; the registers after it may be lost, and r5 and r7.
    pub fn eval(&mut self, expr: &Expr, word: u32, at: usize) -> Made {
        let to = POOL[at];
        let bounds = self.range(expr);
        if word > 0 && !bounds.neg && bounds.bits <= 64 * word {
            self.asm.mov_imm(to, 0);
            return Ok(());
        }
        if word > 0 && bounds.fits_i64() {
            self.eval(expr, 0, at)?;
            self.asm.alu_imm(Alu::Arsh, to, 63);
            return Ok(());
        }
        match expr {
            Expr::Int(value) => self.asm.constant(to, word_of(value, word)),
            Expr::Bool(truth) => self.asm.mov_imm(to, i32::from(*truth)),
            Expr::Field(field) => self.load_ref(field, word, at)?,
            Expr::Param(index) => match self.param(*index) {
                Some((first, words)) if word < words => {
                    self.asm.load(Size::D, to, RECORD, first + 8 * word as i16);
                }
                _ => self.asm.mov_imm(to, 0),
            },
            Expr::Unary(UnaryOp::Neg, value) if word == 0 => {
                self.eval(value, 0, at)?;
                self.asm.neg(to);
            }
            Expr::Unary(UnaryOp::Neg, _) => return Err(WIDE),
            Expr::Unary(UnaryOp::BitNot, value) => {
                self.eval(value, word, at)?;
                self.asm.alu_imm(Alu::Xor, to, -1);
            }
            Expr::Unary(UnaryOp::Not | UnaryOp::BoolToInt | UnaryOp::IntToBool, _)
            | Expr::UnionValid(_)
            | Expr::HeadersEqual(..)
            | Expr::StacksEqual(..)
            | Expr::UnionsEqual(..)
            | Expr::UnionStacksEqual(..) => self.truth(expr, at)?,
            Expr::Valid(header) => self.load_valid_ref(header, at)?,
            Expr::Binary(op, left, right) => self.binary(expr, *op, left, right, word, at)?,
            Expr::Select(condition, then, otherwise) => {
                let (no, done) = (self.asm.label(), self.asm.label());
                self.branch(condition, no, false, at)?;
                self.eval(then, word, at)?;
                self.asm.jump(done);
                self.asm.place(no);
                self.eval(otherwise, word, at)?;
                self.asm.place(done);
            }
            Expr::Wrap { value, width } => {
                let width = *width;
                if 64 * (word + 1) <= width {
                    self.eval(value, word, at)?;
                } else if word == 0 {
                    self.eval(value, 0, at)?;
                    self.asm.alu_imm(Alu::Lsh, to, 64 - width as i32);
                    self.asm.alu_imm(Alu::Arsh, to, 64 - width as i32);
                } else {
                    return Err(WIDE);
                }
            }
            Expr::Saturate { value, width, signed } => self.saturate(value, *width, *signed, at)?,
            Expr::LastIndex(stack) => self.last_index(*stack, to),
            Expr::StackSize(stack) => match &self.parser {
                Some(place) => {
                    let next = place.next[stack.at()];
                    self.asm.mov_imm(to, next as i32);
                }
                None => {
                    let next = self.word(self.shape.layout.stack_next[stack.at()]);
                    self.asm.load(Size::D, to, VECTOR, next);
                }
            },
            Expr::Register { register, index } => self.cell(*register, index, word, at)?,
            Expr::Lookahead { offset, width } => self.lookahead(*offset, *width, word, at)?,
        }
        Ok(())
    }

    /// The index of a stack's last element; 0 of an empty one.
    fn last_index(&mut self, stack: StackId, to: Reg) {
        if let Some(place) = &self.parser {
            let last = place.next[stack.at()].saturating_sub(1);
            self.asm.mov_imm(to, last as i32);
            return;
        }
        let (next, empty) = (self.word(self.shape.layout.stack_next[stack.at()]), self.asm.label());
        self.asm.load(Size::D, to, VECTOR, next);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, to, 0, empty);
        self.asm.add_imm(to, -1);
        self.asm.place(empty);
    }

    /// A word of a register's cell, in `POOL[at]`; 0 where there is no such cell.
    fn cell(&mut self, register: RegisterId, index: &Expr, word: u32, at: usize) -> Made {
        // The call loses the pool: what is in use below waits on the stack.
        let mut kept = Vec::new();
        for reg in &POOL[..at] {
            let slot = self.spill()?;
            self.asm.store(Size::D, Reg::FP, slot, *reg);
            kept.push((*reg, slot));
        }
        let (none, done) = (self.asm.label(), self.asm.label());
        self.register(register, index, none)?;
        self.asm.load(Size::D, TEMP, Reg::R0, 8 * word as i16);
        self.asm.jump(done);
        self.asm.place(none);
        self.asm.mov_imm(TEMP, 0);
        self.asm.place(done);
        for (reg, slot) in kept {
            self.asm.load(Size::D, reg, Reg::FP, slot);
            self.unspill();
        }
        self.asm.mov(POOL[at], TEMP);
        Ok(())
    }

    /// An expression as an index: what is negative or too large is an index that nothing has.
    pub fn eval_index(&mut self, expr: &Expr, at: usize) -> Made {
        if !self.range(expr).fits64() {
            return Err(Reason::No("an index of more than 64 bits"));
        }
        // A negative one has its top bit set, and no array is that long.
        self.eval(expr, 0, at)
    }

    /// Both operands of an operator in registers: the left in `POOL[at]`, the right in the register given back.
    fn both(&mut self, left: &Expr, right: &Expr, word: u32, at: usize) -> Made<Reg> {
        self.eval(left, word, at)?;
        if at + 1 < POOL.len() {
            self.eval(right, word, at + 1)?;
            return Ok(POOL[at + 1]);
        }
        let slot = self.spill()?;
        self.asm.store(Size::D, Reg::FP, slot, POOL[at]);
        self.eval(right, word, at)?;
        self.asm.mov(TEMP, POOL[at]);
        self.asm.load(Size::D, POOL[at], Reg::FP, slot);
        self.unspill();
        Ok(TEMP)
    }

    fn arithmetic(&mut self, op: Alu, left: &Expr, right: &Expr, word: u32, at: usize) -> Made {
        if let Some(imm) = Self::immediate(right, word) {
            self.eval(left, word, at)?;
            self.asm.alu_imm(op, POOL[at], imm);
            return Ok(());
        }
        let right = self.both(left, right, word, at)?;
        self.asm.alu(op, POOL[at], right);
        Ok(())
    }

    fn binary(&mut self, expr: &Expr, op: BinaryOp, left: &Expr, right: &Expr, word: u32, at: usize) -> Made {
        let to = POOL[at];
        match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul if word > 0 => Err(WIDE),
            BinaryOp::Add => self.arithmetic(Alu::Add, left, right, 0, at),
            BinaryOp::Sub => self.arithmetic(Alu::Sub, left, right, 0, at),
            BinaryOp::Mul => self.arithmetic(Alu::Mul, left, right, 0, at),
            BinaryOp::BitAnd => {
                for (mask, value) in [(left, right), (right, left)] {
                    let Expr::Int(constant) = mask else { continue };
                    match word_of(constant, word) {
                        0 => {
                            self.asm.mov_imm(to, 0);
                            return Ok(());
                        }
                        u64::MAX => return self.eval(value, word, at),
                        ones if ones.wrapping_add(1).is_power_of_two() => {
                            self.eval(value, word, at)?;
                            self.mask(to, ones.count_ones());
                            return Ok(());
                        }
                        _ => return self.arithmetic(Alu::And, value, mask, word, at),
                    }
                }
                self.arithmetic(Alu::And, left, right, word, at)
            }
            BinaryOp::BitOr => self.arithmetic(Alu::Or, left, right, word, at),
            BinaryOp::BitXor => self.arithmetic(Alu::Xor, left, right, word, at),
            BinaryOp::Div | BinaryOp::Rem => {
                let (l, r) = (self.range(left), self.range(right));
                if l.neg || r.neg || !l.fits64() || !r.fits64() || word > 0 {
                    return Err(Reason::No("division of negative or wide values"));
                }
                let divisor = self.both(left, right, 0, at)?;
                if op == BinaryOp::Div {
                    self.asm.alu(Alu::Div, to, divisor);
                } else {
                    // The instruction leaves the dividend when the divisor is 0.
                    let (zero, done) = (self.asm.label(), self.asm.label());
                    self.asm.jump_if_imm(Bits::B64, Cond::Eq, divisor, 0, zero);
                    self.asm.alu(Alu::Mod, to, divisor);
                    self.asm.jump(done);
                    self.asm.place(zero);
                    self.asm.mov_imm(to, 0);
                    self.asm.place(done);
                }
                Ok(())
            }
            BinaryOp::Shl => self.shift_left(left, right, word, at),
            BinaryOp::Shr => self.shift_right(left, right, word, at),
            _ => self.truth(expr, at),
        }
    }

    fn shift_left(&mut self, left: &Expr, right: &Expr, word: u32, at: usize) -> Made {
        let to = POOL[at];
        match const_shift(right) {
            Some(Some(count)) if u64::from(count) <= MAX_SHIFT => {
                let (words, bits) = (count / 64, count % 64);
                if word < words {
                    self.asm.mov_imm(to, 0);
                    return Ok(());
                }
                self.eval(left, word - words, at)?;
                if bits > 0 {
                    self.asm.alu_imm(Alu::Lsh, to, bits as i32);
                    if word > words {
                        self.or_with(left, word - words - 1, at, Alu::Rsh, 64 - bits)?;
                    }
                }
                Ok(())
            }
            Some(_) => {
                self.asm.mov_imm(to, 0);
                Ok(())
            }
            None => {
                let r = self.range(right);
                if word > 0 || r.neg || !r.fits64() {
                    return Err(Reason::No("a shift of a wide value, or by a count that may be negative"));
                }
                let count = self.both(left, right, 0, at)?;
                let (large, done) = (self.asm.label(), self.asm.label());
                self.asm.jump_if_imm(Bits::B64, Cond::Gt, count, 63, large);
                self.asm.alu(Alu::Lsh, to, count);
                self.asm.jump(done);
                self.asm.place(large);
                self.asm.mov_imm(to, 0);
                self.asm.place(done);
                Ok(())
            }
        }
    }

    /// `POOL[at] |= word of expr, shifted`.
    fn or_with(&mut self, expr: &Expr, word: u32, at: usize, shift: Alu, bits: u32) -> Made {
        let slot = self.spill()?;
        self.asm.store(Size::D, Reg::FP, slot, POOL[at]);
        self.eval(expr, word, at)?;
        self.asm.alu_imm(shift, POOL[at], bits as i32);
        self.asm.load(Size::D, TEMP, Reg::FP, slot);
        self.unspill();
        self.asm.alu(Alu::Or, POOL[at], TEMP);
        Ok(())
    }

    fn shift_right(&mut self, left: &Expr, right: &Expr, word: u32, at: usize) -> Made {
        let (to, l) = (POOL[at], self.range(left));
        let shift = if l.neg { Alu::Arsh } else { Alu::Rsh };
        match const_shift(right) {
            Some(Some(count)) if l.fits64() && word == 0 => {
                self.eval(left, 0, at)?;
                match (count, l.neg) {
                    (0, _) => {}
                    (1..=63, _) => self.asm.alu_imm(shift, to, count as i32),
                    (_, true) => self.asm.alu_imm(Alu::Arsh, to, 63),
                    (_, false) => self.asm.mov_imm(to, 0),
                }
                Ok(())
            }
            Some(Some(count)) if !l.neg => {
                let (words, bits) = (count / 64, count % 64);
                self.eval(left, word + words, at)?;
                if bits > 0 {
                    self.asm.alu_imm(Alu::Rsh, to, bits as i32);
                    if l.bits > 64 * (word + words + 1) {
                        self.or_with(left, word + words + 1, at, Alu::Lsh, 64 - bits)?;
                    }
                }
                Ok(())
            }
            Some(None) => {
                self.asm.mov_imm(to, 0);
                Ok(())
            }
            None => {
                let r = self.range(right);
                if word > 0 || !l.fits64() || r.neg || !r.fits64() {
                    return Err(Reason::No("a shift of a wide value, or by a count that may be negative"));
                }
                let count = self.both(left, right, 0, at)?;
                let (large, done) = (self.asm.label(), self.asm.label());
                self.asm.jump_if_imm(Bits::B64, Cond::Gt, count, 63, large);
                self.asm.alu(shift, to, count);
                self.asm.jump(done);
                self.asm.place(large);
                if l.neg {
                    self.asm.alu_imm(Alu::Arsh, to, 63);
                } else {
                    self.asm.mov_imm(to, 0);
                }
                self.asm.place(done);
                Ok(())
            }
            Some(Some(_)) => Err(Reason::No("a shift of a wide signed value")),
        }
    }

    fn saturate(&mut self, value: &Expr, width: u32, signed: bool, at: usize) -> Made {
        let (to, of) = (POOL[at], self.range(value));
        if width > 64 || !of.fits64() || (signed && !of.fits_i64()) {
            return Err(Reason::No("saturation of a wide value"));
        }
        self.eval(value, 0, at)?;
        if width == 0 {
            self.asm.mov_imm(to, 0);
            return Ok(());
        }
        let (low, high) = if signed {
            ((-1_i64 << (width - 1)) as u64, (1_u64 << (width - 1)) - 1)
        } else {
            (0, if width == 64 { u64::MAX } else { (1 << width) - 1 })
        };
        if of.neg {
            let fine = self.asm.label();
            self.asm.constant(TEMP, low);
            self.asm.jump_if(Bits::B64, Cond::SignedGe, to, TEMP, fine);
            self.asm.mov(to, TEMP);
            self.asm.place(fine);
        }
        if of.bits > if signed { width - 1 } else { width } {
            let (fine, cond) = (self.asm.label(), if of.neg { Cond::SignedLe } else { Cond::Le });
            self.asm.constant(TEMP, high);
            self.asm.jump_if(Bits::B64, cond, to, TEMP, fine);
            self.asm.mov(to, TEMP);
            self.asm.place(fine);
        }
        Ok(())
    }

    /// A truth value as 0 or 1.
    fn truth(&mut self, expr: &Expr, at: usize) -> Made {
        let (no, done) = (self.asm.label(), self.asm.label());
        self.branch(expr, no, false, at)?;
        self.asm.mov_imm(POOL[at], 1);
        self.asm.jump(done);
        self.asm.place(no);
        self.asm.mov_imm(POOL[at], 0);
        self.asm.place(done);
        Ok(())
    }

    /// Go to `to` if the truth of an expression is `when`; registers from `POOL[at]` on are lost.
    pub fn branch(&mut self, expr: &Expr, to: Label, when: bool, at: usize) -> Made {
        match expr {
            Expr::Bool(truth) => {
                if *truth == when {
                    self.asm.jump(to);
                }
                Ok(())
            }
            Expr::Unary(UnaryOp::Not, inner) => self.branch(inner, to, !when, at),
            Expr::Unary(UnaryOp::BoolToInt | UnaryOp::IntToBool, inner) => self.branch(inner, to, when, at),
            Expr::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                // The value that settles it.
                let settles = *op == BinaryOp::Or;
                if settles == when {
                    self.branch(left, to, when, at)?;
                    self.branch(right, to, when, at)
                } else {
                    let over = self.asm.label();
                    self.branch(left, over, settles, at)?;
                    self.branch(right, to, when, at)?;
                    self.asm.place(over);
                    Ok(())
                }
            }
            Expr::Binary(
                op
                @ (BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge),
                left,
                right,
            ) => self.compare(*op, left, right, to, when, at),
            Expr::HeadersEqual(left, right) => {
                let (left, right) = (self.header(left)?, self.header(right)?);
                match (left, right) {
                    (crate::fields::Found::Fixed(left), crate::fields::Found::Fixed(right)) => {
                        self.headers_equal(left, right, to, when, at)
                    }
                    _ => Err(Reason::No("comparison of headers that the packet names")),
                }
            }
            Expr::StacksEqual(left, right) => {
                let elements = |stack: &barewire_p4::ir::StackId| &self.program.stacks[stack.at()].elements;
                let (left, right) = (elements(left).clone(), elements(right).clone());
                if left.len() != right.len() {
                    return self.branch(&Expr::Bool(false), to, when, at);
                }
                let no = self.asm.label();
                for (left, right) in left.iter().zip(&right) {
                    self.headers_equal(*left, *right, no, false, at)?;
                }
                if when {
                    self.asm.jump(to);
                    self.asm.place(no);
                } else {
                    let over = self.asm.label();
                    self.asm.jump(over);
                    self.asm.place(no);
                    self.asm.jump(to);
                    self.asm.place(over);
                }
                Ok(())
            }
            Expr::UnionValid(UnionRef::Union(union)) => {
                let members = self.program.unions[union.at()].members.clone();
                self.asm.mov_imm(POOL[at], 0);
                for member in members {
                    self.load_valid(member, TEMP);
                    self.asm.alu(Alu::Or, POOL[at], TEMP);
                }
                let cond = if when { Cond::Ne } else { Cond::Eq };
                self.asm.jump_if_imm(Bits::B64, cond, POOL[at], 0, to);
                Ok(())
            }
            Expr::UnionValid(_) | Expr::UnionsEqual(..) | Expr::UnionStacksEqual(..) => {
                Err(Reason::No("stacks and comparisons of header unions"))
            }
            _ => {
                let bounds = self.range(expr);
                let words = (bounds.bits + u32::from(bounds.neg)).div_ceil(64).max(1);
                let slot = if words > 1 { Some(self.spill()?) } else { None };
                for word in 0..words {
                    self.eval(expr, word, at)?;
                    if let Some(slot) = slot {
                        if word > 0 {
                            self.asm.load(Size::D, TEMP, Reg::FP, slot);
                            self.asm.alu(Alu::Or, POOL[at], TEMP);
                        }
                        self.asm.store(Size::D, Reg::FP, slot, POOL[at]);
                    }
                }
                if slot.is_some() {
                    self.unspill();
                }
                let cond = if when { Cond::Ne } else { Cond::Eq };
                self.asm.jump_if_imm(Bits::B64, cond, POOL[at], 0, to);
                Ok(())
            }
        }
    }

    fn compare(&mut self, op: BinaryOp, left: &Expr, right: &Expr, to: Label, when: bool, at: usize) -> Made {
        let (l, r) = (self.range(left), self.range(right));
        let op = if when { op } else { opposite(op) };
        let unsigned = !l.neg && !r.neg && l.fits64() && r.fits64();
        let signed = l.fits_i64() && r.fits_i64();
        if unsigned || signed {
            let cond = condition(op, !unsigned);
            if let Some(imm) = Self::immediate(right, 0).filter(|imm| *imm >= 0 || !unsigned) {
                self.eval(left, 0, at)?;
                self.asm.jump_if_imm(Bits::B64, cond, POOL[at], imm, to);
                return Ok(());
            }
            let right = self.both(left, right, 0, at)?;
            self.asm.jump_if(Bits::B64, cond, POOL[at], right, to);
            return Ok(());
        }
        let bits = |r: Range| r.bits + u32::from(r.neg);
        let words = bits(l).max(bits(r)).div_ceil(64);
        match op {
            BinaryOp::Eq => {
                let over = self.asm.label();
                for word in 0..words {
                    let right = self.both(left, right, word, at)?;
                    let (cond, target) = if word + 1 < words { (Cond::Ne, over) } else { (Cond::Eq, to) };
                    self.asm.jump_if(Bits::B64, cond, POOL[at], right, target);
                }
                self.asm.place(over);
                Ok(())
            }
            BinaryOp::Ne => {
                for word in 0..words {
                    let right = self.both(left, right, word, at)?;
                    self.asm.jump_if(Bits::B64, Cond::Ne, POOL[at], right, to);
                }
                Ok(())
            }
            _ if l.neg || r.neg => Err(Reason::No("an order of wide signed values")),
            _ => {
                let over = self.asm.label();
                let strict = if matches!(op, BinaryOp::Lt | BinaryOp::Le) { Cond::Lt } else { Cond::Gt };
                let other = if strict == Cond::Lt { Cond::Gt } else { Cond::Lt };
                for word in (0..words).rev() {
                    let right = self.both(left, right, word, at)?;
                    if word == 0 {
                        self.asm.jump_if(Bits::B64, condition(op, false), POOL[at], right, to);
                    } else {
                        self.asm.jump_if(Bits::B64, strict, POOL[at], right, to);
                        self.asm.jump_if(Bits::B64, other, POOL[at], right, over);
                    }
                }
                self.asm.place(over);
                Ok(())
            }
        }
    }

    fn headers_equal(&mut self, left: HeaderId, right: HeaderId, to: Label, when: bool, at: usize) -> Made {
        let fields = self.program.header_type_of(left).fields.len();
        if fields != self.program.header_type_of(right).fields.len() || at + 1 >= POOL.len() {
            return Err(Reason::No("comparison of headers of different types"));
        }
        let (yes, no) = (self.asm.label(), self.asm.label());
        let (a, b) = (POOL[at], POOL[at + 1]);
        self.load_valid(left, a);
        self.load_valid(right, b);
        self.asm.jump_if(Bits::B64, Cond::Ne, a, b, no);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, a, 0, yes);
        for field in 0..fields as u32 {
            let place = |header| self.field_place(FieldId { header, field });
            let (l, r) = (place(left)?, place(right)?);
            if matches!(l, Place::Varbit { .. }) || matches!(r, Place::Varbit { .. }) {
                return Err(Reason::No("comparison of headers with varbit fields"));
            }
            for word in 0..Self::words_of(l).max(Self::words_of(r)) {
                self.load_place(l, word, a, false)?;
                self.load_place(r, word, b, false)?;
                self.asm.jump_if(Bits::B64, Cond::Ne, a, b, no);
            }
        }
        let (falls, jumps) = if when { (no, yes) } else { (yes, no) };
        // What is left falls through as equal.
        if when {
            self.asm.place(jumps);
            self.asm.jump(to);
            self.asm.place(falls);
        } else {
            self.asm.jump(falls);
            self.asm.place(jumps);
            self.asm.jump(to);
            self.asm.place(falls);
        }
        Ok(())
    }
}

fn opposite(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::Le => BinaryOp::Gt,
        _ => BinaryOp::Le,
    }
}

fn condition(op: BinaryOp, signed: bool) -> Cond {
    match (op, signed) {
        (BinaryOp::Eq, _) => Cond::Eq,
        (BinaryOp::Ne, _) => Cond::Ne,
        (BinaryOp::Lt, false) => Cond::Lt,
        (BinaryOp::Le, false) => Cond::Le,
        (BinaryOp::Gt, false) => Cond::Gt,
        (BinaryOp::Lt, true) => Cond::SignedLt,
        (BinaryOp::Le, true) => Cond::SignedLe,
        (BinaryOp::Gt, true) => Cond::SignedGt,
        (_, false) => Cond::Ge,
        (_, true) => Cond::SignedGe,
    }
}
