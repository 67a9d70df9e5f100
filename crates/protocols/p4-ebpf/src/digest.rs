//! Digests: what a packet is to tell the control plane, as a record of the ring buffer that user space reads.

use crate::Reason;
use crate::r#gen::{Gen, Made, VECTOR};
use crate::maps::{DIGEST_LOST, MAX_DIGEST, RECORD_HEADER};
use barewire_ebpf::{Bits, Cond, Reg, Size, helper};
use barewire_p4::ir::{CalcInput, FieldId, LearnListId, Stmt};
use barewire_p4::phv::{Place, slot};

impl Gen<'_> {
    /// Ask for a digest; it is taken when ingress ends.
    pub fn digest(&mut self, list: LearnListId) -> Made {
        if self.parser.is_some() {
            return Err(Reason::No("a digest in the parser"));
        }
        if let Some(reason) = self.dry(|code| code.sample(list)) {
            return Err(reason);
        }
        let at = self.slot(slot::DIGEST);
        self.asm.store_imm(Size::D, VECTOR, at, list.0 as i32 + 1);
        Ok(())
    }

    /// The digest that was asked for, if any.
    pub fn take_digest(&mut self) -> Made {
        let mut lists: Vec<LearnListId> = Vec::new();
        for stmt in self.program.actions.iter().flat_map(|action| &action.body) {
            if let Stmt::Digest { list } = stmt
                && !lists.contains(list)
            {
                lists.push(*list);
            }
        }
        let (at, done) = (self.slot(slot::DIGEST), self.asm.label());
        for list in lists {
            // One that cannot be made is asked for in user space alone.
            if self.dry(|code| code.sample(list)).is_some() {
                continue;
            }
            let other = self.asm.label();
            self.asm.load(Size::D, Reg::R0, VECTOR, at);
            self.asm.jump_if_imm(Bits::B64, Cond::Ne, Reg::R0, list.0 as i32 + 1, other);
            self.sample(list)?;
            self.asm.jump(done);
            self.asm.place(other);
        }
        self.asm.place(done);
        Ok(())
    }

    /// A sample of a list: its number, then its items, each padded to whole bytes.
    fn sample(&mut self, list: LearnListId) -> Made {
        let Some(ring) = self.shape.ring else { return Err(Reason::No("digests, without a ring buffer")) };
        let program = self.program;
        let Some(items) = program.learn_lists.get(list.at()).map(|list| &list.items) else {
            return Err(Reason::No("a digest of no list"));
        };
        let first = self.shape.key_at as i16;
        self.asm.store_imm(Size::D, VECTOR, first, list.0 as i32);
        let mut at = first + RECORD_HEADER as i16;
        for (item, width) in items {
            let bytes = width.div_ceil(8);
            if (at - first) as u32 + bytes > MAX_DIGEST {
                return Err(Reason::No("a digest of more than 400 bytes"));
            }
            for word in (0..bytes.div_ceil(8)).rev() {
                self.item(item, word)?;
                let here = (bytes - 8 * word).min(8);
                self.store_be(at + (bytes - 8 * word - here) as i16, here, Reg::R0);
            }
            at += bytes as i16;
        }
        self.asm.map(Reg::R1, ring as i32);
        self.asm.mov(Reg::R2, VECTOR);
        self.asm.add_imm(Reg::R2, i32::from(first));
        self.asm.mov_imm(Reg::R3, i32::from(at - first));
        self.asm.mov_imm(Reg::R4, 0);
        self.asm.call(helper::RINGBUF_OUTPUT);
        let sent = self.asm.label();
        self.asm.jump_if_imm(Bits::B64, Cond::Eq, Reg::R0, 0, sent);
        self.account(DIGEST_LOST);
        self.asm.place(sent);
        Ok(())
    }

    /// `r0` = a word of an item, whether its header is valid or not.
    fn item(&mut self, item: &CalcInput, word: u32) -> Made {
        match item {
            CalcInput::Field(field) => match field.fixed() {
                Some(FieldId { header, field }) => {
                    let place = self.field_place(FieldId { header, field })?;
                    if let Place::Varbit { .. } = place {
                        return Err(Reason::No("a digest of a varbit field"));
                    }
                    self.load_place(place, word, Reg::R0, false)?;
                }
                None => self.asm.mov_imm(Reg::R0, 0),
            },
            CalcInput::Const { value, .. } => {
                self.asm.constant(Reg::R0, value.iter_u64_digits().nth(word as usize).unwrap_or(0));
            }
            CalcInput::Expr { value, .. } => match value.fixed_validity().filter(|_| word == 0) {
                Some(header) => self.load_valid(header, Reg::R0),
                None => self.asm.mov_imm(Reg::R0, 0),
            },
            _ => self.asm.mov_imm(Reg::R0, 0),
        }
        Ok(())
    }
}
