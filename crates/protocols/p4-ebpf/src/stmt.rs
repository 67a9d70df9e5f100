//! Statements.

use crate::Reason;
use crate::fields::Found;
use crate::r#gen::{Gen, Made, POOL, TEMP, VECTOR};
use crate::recirculate::Kind;
use barewire_ebpf::{Alu, Bits, Cond, Label, Reg, Size, helper};
use barewire_p4::ir::{
    ChecksumUnitId, Expr, FieldId, FieldRef, HeaderId, HeaderRef, RegisterId, StackId, Stmt, UnaryOp,
    UnionRef,
};
use barewire_p4::phv::{Place, slot};
use num_traits::Zero;

/// Whether it is 0, or false.
pub(crate) fn is_nothing(value: &Expr) -> bool {
    match value {
        Expr::Int(value) => value.is_zero(),
        Expr::Bool(truth) => !truth,
        Expr::Unary(UnaryOp::BoolToInt, value) => is_nothing(value),
        Expr::Wrap { value, .. } => is_nothing(value),
        _ => false,
    }
}

impl Gen<'_> {
    /// Where a checksum unit has its sum.
    fn sum_at(&self, unit: ChecksumUnitId) -> i16 {
        self.word(self.shape.layout.checksum_units[unit.at()])
    }

    /// Whether a statement does what stays when the packet is gone.
    pub fn effect(stmt: &Stmt) -> bool {
        matches!(
            stmt,
            Stmt::Count { .. }
                | Stmt::Meter { .. }
                | Stmt::RegisterWrite { .. }
                | Stmt::Digest { .. }
                | Stmt::CloneIngress { .. }
        )
    }

    /// One statement without a jump.
    pub fn stmt(&mut self, stmt: &Stmt) -> Made {
        match stmt {
            Stmt::Assign { dst, value } => self.assign(dst, value),
            Stmt::CopyHeader { dst, src } => self.copy_found(dst, src),
            Stmt::CopyUnion { dst: UnionRef::Union(dst), src: UnionRef::Union(src) } => {
                let members =
                    |union: &barewire_p4::ir::UnionId| self.program.unions[union.at()].members.clone();
                let (dst, src) = (members(dst), members(src));
                for (at, dst) in dst.iter().enumerate() {
                    self.copy_header(*dst, src.get(at).copied())?;
                }
                Ok(())
            }
            Stmt::CopyStack { dst, src } => self.copy_stack(*dst, *src),
            Stmt::SetValid(header) => self.set_validity(header, true),
            Stmt::SetInvalid(header) => self.set_validity(header, false),
            Stmt::Push { stack, count } => self.shift_stack(*stack, *count, true),
            Stmt::Pop { stack, count } => self.shift_stack(*stack, *count, false),
            Stmt::Exit => {
                let at = self.slot(slot::EXIT);
                self.asm.store_imm(Size::D, VECTOR, at, 1);
                Ok(())
            }
            Stmt::Count { counter, index } => {
                let size = self.program.counters[counter.at()].size;
                let none = self.asm.label();
                self.array(self.shape.counters[counter.at()], size, index, none)?;
                self.count();
                self.asm.place(none);
                Ok(())
            }
            Stmt::RegisterRead { dst, register, index } => self.read_register(dst, *register, index),
            Stmt::RegisterWrite { register, index, value } => self.write_register(*register, index, value),
            Stmt::Random { dst, low, high } => self.random(dst, low, high),
            Stmt::Hash { dst, source, base, max } => self.hash_stmt(dst, source, base.as_ref(), max.as_ref()),
            Stmt::Truncate { .. } if self.is_tc() => Err(Reason::No("truncation, at tc")),
            Stmt::Truncate { len } => self.ask_truncation(len),
            Stmt::MarkToDrop { egress_spec, mcast_grp } => {
                if let Some(field) = egress_spec {
                    let at = self.slot(slot::DROP_PORT);
                    self.asm.load(Size::D, Reg::R0, VECTOR, at);
                    self.set_meta(*field, Reg::R0)?;
                }
                if let Some(field) = mcast_grp {
                    self.asm.mov_imm(Reg::R0, 0);
                    self.set_meta(*field, Reg::R0)?;
                }
                Ok(())
            }
            Stmt::NoOp => Ok(()),
            Stmt::Assert(_) | Stmt::Assume(_) | Stmt::Jump(_) | Stmt::JumpUnless { .. } => {
                Err(Reason::No("an assertion or a jump in a parser"))
            }
            Stmt::Meter { meter, index, precolor, dst } => {
                self.meter(*meter, index, precolor.as_ref(), dst.as_ref())
            }
            Stmt::Digest { list } => self.digest(*list),
            Stmt::CloneIngress { session, fields } => self.ask_clone(session, *fields),
            Stmt::CloneEgress { session, fields } => self.ask_clone_of_egress(session, *fields),
            Stmt::Resubmit { fields } => self.ask_again(Kind::Resubmit, *fields),
            Stmt::Recirculate { fields } => self.ask_again(Kind::Recirculate, *fields),
            Stmt::Log { .. } => Err(Reason::No("log messages")),
            Stmt::Apply { .. } => Err(Reason::No("a table in a loop whose rounds the packet tells")),
            Stmt::AssignVarbit { .. } => Err(Reason::No("assignment of varbit fields")),
            Stmt::CopyUnion { .. }
            | Stmt::CopyUnionStack { .. }
            | Stmt::PushUnions { .. }
            | Stmt::PopUnions { .. } => Err(Reason::No("stacks of header unions")),
            Stmt::ChecksumClear(unit) => {
                let at = self.sum_at(*unit);
                self.asm.store_imm(Size::D, VECTOR, at, 0);
                Ok(())
            }
            Stmt::ChecksumAdd { unit, input } => self.add_to_sum(self.sum_at(*unit), input, false),
            Stmt::ChecksumSubtract { unit, input } => self.add_to_sum(self.sum_at(*unit), input, true),
            Stmt::ChecksumGet { unit, dst } => {
                let at = self.sum_at(*unit);
                self.asm.load(Size::D, Reg::R0, VECTOR, at);
                self.asm.alu_imm(Alu::Xor, Reg::R0, 0xffff);
                self.assign_register(dst, Reg::R0)
            }
            Stmt::ChecksumVerify { .. } | Stmt::ChecksumGetState { .. } | Stmt::ChecksumSetState { .. } => {
                Err(Reason::No("a state of PSA checksums"))
            }
        }
    }

    /// Copies a header, either of which may be an element of a stack that the packet names.
    fn copy_found(&mut self, dst: &HeaderRef, src: &HeaderRef) -> Made {
        match (self.header(dst)?, self.header(src)?) {
            (Found::Fixed(dst), Found::Fixed(src)) => self.copy_header(dst, Some(src)),
            (Found::Fixed(dst), Found::Nothing) => self.copy_header(dst, None),
            (Found::Nothing, _) => Ok(()),
            (Found::Fixed(dst), Found::Among(elements, index)) => {
                self.index(&index, 0)?;
                let done = self.asm.label();
                for (number, element) in elements.iter().enumerate() {
                    let next = self.asm.label();
                    self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, number as i32, next);
                    self.copy_header(dst, Some(*element))?;
                    self.asm.jump(done);
                    self.asm.place(next);
                }
                self.copy_header(dst, None)?;
                self.asm.place(done);
                Ok(())
            }
            (Found::Among(elements, index), src) => {
                let src = match src {
                    Found::Fixed(src) => Some(src),
                    Found::Nothing => None,
                    Found::Among(..) => {
                        return Err(Reason::No("copies between elements that the packet names"));
                    }
                };
                self.index(&index, 0)?;
                self.among(&elements, 0, &mut |this, element| this.copy_header(element, src))
            }
        }
    }

    /// Words of a register's cells.
    fn register_words(&self, register: RegisterId) -> Result<u32, Reason> {
        match self.program.registers[register.at()].width.div_ceil(64).max(1) {
            words @ ..=16 => Ok(words),
            _ => Err(Reason::No("registers of more than 1,024 bits")),
        }
    }

    fn read_register(&mut self, dst: &FieldRef, register: RegisterId, index: &Expr) -> Made {
        let none = self.asm.label();
        self.register(register, index, none)?;
        let words = self.register_words(register)?;
        for word in 0..words {
            let to = self.scratch(word);
            self.asm.load(Size::D, Reg::R1, Reg::R0, 8 * word as i16);
            self.asm.store(Size::D, VECTOR, to, Reg::R1);
        }
        self.assign_scratch(dst, words)?;
        self.asm.place(none);
        Ok(())
    }

    fn write_register(&mut self, register: RegisterId, index: &Expr, value: &Expr) -> Made {
        let width = self.program.registers[register.at()].width;
        let words = self.register_words(register)?;
        for word in 0..words {
            self.eval(value, word, 0)?;
            self.mask(Reg::R0, (width - 64 * word).min(64));
            let to = self.scratch(word);
            self.asm.store(Size::D, VECTOR, to, Reg::R0);
        }
        let none = self.asm.label();
        self.register(register, index, none)?;
        for word in 0..words {
            let from = self.scratch(word);
            self.asm.load(Size::D, Reg::R1, VECTOR, from);
            self.asm.store(Size::D, Reg::R0, 8 * word as i16, Reg::R1);
        }
        self.asm.place(none);
        Ok(())
    }

    /// Asks for the packet to be cut, if it has not been asked for a shorter one before.
    fn ask_truncation(&mut self, len: &Expr) -> Made {
        // The kernel cuts no packet shorter than an Ethernet header.
        let len = match len {
            Expr::Int(len) => u32::try_from(len).ok().filter(|len| (14..1 << 24).contains(len)),
            _ => None,
        };
        let len = len.ok_or(Reason::No("truncation to a computed length, or below 14 bytes"))?;
        let (at, shorter) = (self.slot(slot::TRUNCATE), self.asm.label());
        self.asm.load(Size::D, Reg::R1, VECTOR, at);
        self.asm.add_imm(Reg::R1, -1);
        self.asm.jump_if_imm(Bits::B64, Cond::Le, Reg::R1, len as i32, shorter);
        self.asm.store_imm(Size::D, VECTOR, at, len as i32 + 1);
        self.asm.place(shorter);
        Ok(())
    }

    /// What an `assert` or `assume` does: where the condition does not hold, it is noted, and the pipeline is left for `end`.
    pub fn assertion(&mut self, condition: &Expr, assume: bool, end: Label) -> Made {
        let (fine, at) = (self.asm.label(), self.slot(slot::ASSERT));
        self.branch(condition, fine, true, 0)?;
        self.asm.store_imm(Size::D, VECTOR, at, if assume { 2 } else { 1 });
        self.asm.jump(end);
        self.asm.place(fine);
        Ok(())
    }

    fn assign(&mut self, dst: &FieldRef, value: &Expr) -> Made {
        if !is_nothing(value) && !self.unchanged.contains(&(std::ptr::from_ref(value) as usize)) {
            self.may_write(dst)?;
        }
        match self.header(&dst.header)? {
            Found::Nothing => Ok(()),
            Found::Fixed(header) => self.assign_to(FieldId { header, field: dst.field }, value),
            Found::Among(elements, index) => {
                self.index(&index, 0)?;
                let at = self.scratch(47);
                self.asm.store(Size::D, VECTOR, at, Reg::R0);
                let done = self.asm.label();
                for (number, header) in elements.iter().enumerate() {
                    let next = self.asm.label();
                    self.asm.load(Size::D, Reg::R0, VECTOR, at);
                    self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, number as i32, next);
                    self.assign_to(FieldId { header: *header, field: dst.field }, value)?;
                    self.asm.jump(done);
                    self.asm.place(next);
                }
                self.asm.place(done);
                Ok(())
            }
        }
    }

    fn assign_to(&mut self, field: FieldId, value: &Expr) -> Made {
        let place = self.field_place(field)?;
        if Self::narrow(place) {
            self.eval(value, 0, 0)?;
            return self.store_place(place, Reg::R0);
        }
        let words = Self::words_of(place);
        if words > 40 || matches!(place, Place::Varbit { .. }) {
            return Err(Reason::No("assignment of varbit and very wide fields"));
        }
        for word in 0..words {
            self.eval(value, word, 0)?;
            let to = self.scratch(word);
            self.asm.store(Size::D, VECTOR, to, Reg::R0);
        }
        self.store_wide(place, 0)
    }

    /// Assign what lies in scratch words, zero-extended.
    fn assign_scratch(&mut self, dst: &FieldRef, words: u32) -> Made {
        self.may_write(dst)?;
        let Found::Fixed(header) = self.header(&dst.header)? else {
            return Err(Reason::No("a result for an element that the packet names"));
        };
        let place = self.field_place(FieldId { header, field: dst.field })?;
        if Self::narrow(place) {
            let from = self.scratch(0);
            self.asm.load(Size::D, Reg::R0, VECTOR, from);
            return self.store_place(place, Reg::R0);
        }
        for word in words..Self::words_of(place) {
            let to = self.scratch(word);
            self.asm.store_imm(Size::D, VECTOR, to, 0);
        }
        self.store_wide(place, 0)
    }

    /// Assign a register that holds a value of at most 64 bits, unsigned.
    pub fn assign_register(&mut self, dst: &FieldRef, from: Reg) -> Made {
        let to = self.scratch(0);
        self.asm.store(Size::D, VECTOR, to, from);
        self.assign_scratch(dst, 1)
    }

    /// `r0` = an array's element, or on to `none` when the index is out of range.
    pub fn array(&mut self, map: usize, size: u32, index: &Expr, none: Label) -> Made {
        self.eval_index(index, 0)?;
        self.asm.constant(TEMP, u64::from(size));
        self.asm.jump_if(Bits::B64, Cond::Ge, Reg::R0, TEMP, none);
        self.lookup_index(map, Reg::R0);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, none);
        Ok(())
    }

    /// `r0` = a register's words.
    pub fn register(&mut self, register: RegisterId, index: &Expr, none: Label) -> Made {
        if !self.registers {
            return Err(Reason::No("registers, which user space has for other packets of this program"));
        }
        let size = self.program.registers[register.at()].size;
        self.array(self.shape.registers[register.at()], size, index, none)
    }

    fn random(&mut self, dst: &FieldRef, low: &Expr, high: &Expr) -> Made {
        let fits = |this: &Self, expr: &Expr| {
            let bounds = this.range(expr);
            !bounds.neg && bounds.bits <= 32
        };
        if !fits(self, low) || !fits(self, high) {
            return Err(Reason::No("random numbers of more than 32 bits"));
        }
        let (none, all, done) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.eval(low, 0, 0)?;
        let at = self.scratch(1);
        self.asm.store(Size::D, VECTOR, at, Reg::R0);
        self.eval(high, 0, 0)?;
        self.asm.load(Size::D, Reg::R1, VECTOR, at);
        self.asm.jump_if(Bits::B64, Cond::Gt, Reg::R1, Reg::R0, none);
        self.asm.alu(Alu::Sub, Reg::R0, Reg::R1);
        self.asm.add_imm(Reg::R0, 1);
        self.asm.mov(Reg::R7, Reg::R0);
        self.asm.call(helper::GET_PRANDOM_U32);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R7, 0, all);
        self.asm.alu(Alu::Mod, Reg::R0, Reg::R7);
        self.asm.place(all);
        self.asm.load(Size::D, Reg::R1, VECTOR, at);
        self.asm.alu(Alu::Add, Reg::R0, Reg::R1);
        self.assign_register(dst, Reg::R0)?;
        self.asm.jump(done);
        self.asm.place(none);
        self.asm.place(done);
        Ok(())
    }

    fn others_of_union(&mut self, header: HeaderId) {
        if let Some(union) = self.program.headers[header.at()].union {
            let members = self.program.unions[union.at()].members.clone();
            for member in members.into_iter().filter(|member| *member != header) {
                let at = self.valid_byte(member);
                self.asm.store_imm(Size::B, VECTOR, at, 0);
            }
        }
    }

    /// Say that a header is valid, as extraction does.
    pub fn mark_valid(&mut self, header: HeaderId) {
        self.others_of_union(header);
        let at = self.valid_byte(header);
        self.asm.store_imm(Size::B, VECTOR, at, 1);
    }

    /// The words a header takes.
    pub fn storage(&self, header: HeaderId) -> std::ops::Range<u32> {
        let place = &self.shape.layout.headers[header.at()];
        place.byte / 8..place.byte / 8 + place.words
    }

    pub fn clear(&mut self, header: HeaderId) {
        for word in self.storage(header) {
            let at = self.word(word);
            self.asm.store_imm(Size::D, VECTOR, at, 0);
        }
    }

    fn set_validity(&mut self, header: &HeaderRef, valid: bool) -> Made {
        match self.header(header)? {
            Found::Nothing => Ok(()),
            Found::Fixed(header) => self.set_validity_of(header, valid),
            Found::Among(elements, index) => {
                self.index(&index, 0)?;
                self.among(&elements, 0, &mut |this, element| this.set_validity_of(element, valid))
            }
        }
    }

    fn set_validity_of(&mut self, header: HeaderId, valid: bool) -> Made {
        if self.is_metadata(header) {
            return Ok(());
        }
        let ty = self.program.header_type_of(header);
        let (fixed, varbit) = (ty.fixed_bits(), ty.varbit());
        let (same, at, growth) = (self.asm.label(), self.valid_byte(header), self.slot(slot::GROWTH));
        self.asm.load(Size::B, Reg::R0, VECTOR, at);
        if !valid && self.is_tc() {
            return Err(Reason::SHRINKS);
        }
        if valid {
            self.grows = true;
            if self.is_tc() && self.program.headers[header.at()].union.is_some() {
                return Err(Reason::SHRINKS);
            }
            if varbit.is_some() {
                return Err(Reason::No("setValid of headers with varbit fields"));
            }
            self.asm.jump_nonzero(Reg::R0, same);
            self.clear(header);
            self.mark_valid(header);
            self.asm.load(Size::D, Reg::R0, VECTOR, growth);
            self.asm.add_imm(Reg::R0, (fixed / 8) as i32);
        } else {
            self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, same);
            self.asm.store_imm(Size::B, VECTOR, at, 0);
            self.asm.mov_imm(Reg::R1, fixed as i32);
            if let Some(field) = varbit
                && let Place::Varbit { len_word, .. } =
                    self.shape.layout.place(FieldId { header, field: field as u32 })
            {
                let len = self.word(len_word);
                self.asm.load(Size::D, Reg::R0, VECTOR, len);
                self.asm.alu(Alu::Add, Reg::R1, Reg::R0);
            }
            self.asm.alu_imm(Alu::Rsh, Reg::R1, 3);
            self.asm.load(Size::D, Reg::R0, VECTOR, growth);
            self.asm.alu(Alu::Sub, Reg::R0, Reg::R1);
        }
        self.asm.store(Size::D, VECTOR, growth, Reg::R0);
        self.asm.place(same);
        Ok(())
    }

    fn copy_header(&mut self, dst: HeaderId, src: Option<HeaderId>) -> Made {
        if self.is_metadata(dst) || src.is_some_and(|src| self.is_metadata(src)) {
            return Err(Reason::No("copies of metadata as headers"));
        }
        // It may be there before, and not afterwards.
        if self.is_tc() {
            return Err(Reason::SHRINKS);
        }
        let at = self.valid_byte(dst);
        let Some(src) = src else {
            self.asm.store_imm(Size::B, VECTOR, at, 0);
            return Ok(());
        };
        if self.program.headers[dst.at()].ty != self.program.headers[src.at()].ty {
            return Err(Reason::No("copies between headers of different types"));
        }
        let (invalid, done) = (self.asm.label(), self.asm.label());
        self.load_valid(src, Reg::R0);
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, invalid);
        self.mark_valid(dst);
        self.copy_storage(dst, src);
        self.asm.jump(done);
        self.asm.place(invalid);
        self.asm.store_imm(Size::B, VECTOR, at, 0);
        self.asm.place(done);
        Ok(())
    }

    fn copy_storage(&mut self, dst: HeaderId, src: HeaderId) {
        let words: Vec<(u32, u32)> = self.storage(dst).zip(self.storage(src)).collect();
        for (to, from) in words {
            let (to, from) = (self.word(to), self.word(from));
            self.asm.load(Size::D, Reg::R0, VECTOR, from);
            self.asm.store(Size::D, VECTOR, to, Reg::R0);
        }
    }

    fn copy_stack(&mut self, dst: StackId, src: StackId) -> Made {
        if self.parser.is_some() {
            return Err(Reason::No("copies of stacks in the parser"));
        }
        let elements = |stack: StackId| self.program.stacks[stack.at()].elements.clone();
        let (to, from) = (elements(dst), elements(src));
        let next = |stack: StackId| self.word(self.shape.layout.stack_next[stack.at()]);
        let (at, of) = (next(dst), next(src));
        self.asm.load(Size::D, Reg::R0, VECTOR, of);
        self.at_most(to.len());
        self.asm.store(Size::D, VECTOR, at, Reg::R0);
        for (element, header) in to.iter().enumerate() {
            self.copy_header(*header, from.get(element).copied())?;
        }
        Ok(())
    }

    /// `r0 = min(r0, len)`.
    fn at_most(&mut self, len: usize) {
        let fine = self.asm.label();
        self.asm.jump_if_imm(Bits::B64, Cond::Le, Reg::R0, len as i32, fine);
        self.asm.mov_imm(Reg::R0, len as i32);
        self.asm.place(fine);
    }

    fn shift_stack(&mut self, stack: StackId, count: u32, up: bool) -> Made {
        if self.is_tc() {
            return Err(Reason::SHRINKS);
        }
        if self.parser.is_some() {
            return Err(Reason::No("push and pop in the parser"));
        }
        let elements = self.program.stacks[stack.at()].elements.clone();
        let (len, count) = (elements.len(), count as usize);
        let at = self.word(self.shape.layout.stack_next[stack.at()]);
        self.asm.load(Size::D, Reg::R0, VECTOR, at);
        self.at_most(len);
        if up {
            self.asm.add_imm(Reg::R0, count.min(1 << 20) as i32);
            self.at_most(len);
        } else {
            let (some, done) = (self.asm.label(), self.asm.label());
            self.asm.jump_if_imm(Bits::B64, Cond::Ge, Reg::R0, count.min(1 << 20) as i32, some);
            self.asm.mov_imm(Reg::R0, 0);
            self.asm.jump(done);
            self.asm.place(some);
            self.asm.add_imm(Reg::R0, -(count.min(1 << 20) as i32));
            self.asm.place(done);
        }
        self.asm.store(Size::D, VECTOR, at, Reg::R0);
        let order: Vec<usize> = if up { (0..len).rev().collect() } else { (0..len).collect() };
        for to in order {
            let from = if up { to.checked_sub(count) } else { Some(to + count).filter(|from| *from < len) };
            let valid = self.valid_byte(elements[to]);
            match from {
                Some(from) => {
                    self.copy_storage(elements[to], elements[from]);
                    self.load_valid(elements[from], Reg::R0);
                    self.asm.store(Size::B, VECTOR, valid, Reg::R0);
                }
                None => {
                    self.clear(elements[to]);
                    self.asm.store_imm(Size::B, VECTOR, valid, 0);
                }
            }
        }
        Ok(())
    }

    /// Evaluate to a register that a call does not lose: nothing but the pool's first is in use.
    pub fn eval_kept(&mut self, expr: &Expr, scratch: u32) -> Made {
        self.eval(expr, 0, 0)?;
        let at = self.scratch(scratch);
        self.asm.store(Size::D, VECTOR, at, POOL[0]);
        Ok(())
    }
}
