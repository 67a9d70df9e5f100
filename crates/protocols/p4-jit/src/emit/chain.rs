//! Chains: the bodies of several functions, one after the other.

use super::Gen;
use crate::chain::{EMITTED, Operand, Step};
use crate::env::{Env, Mode};
use barewire_p4::interp::Plan;
use barewire_p4::phv::slot;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use std::mem::offset_of;

/// Where a chain may stop.
struct Stop {
    block: Block,
    number: u8,
    kept: Option<Value>,
}

impl Gen<'_, '_> {
    /// A whole chain, which ends the function; gives what is delegated in it.
    pub fn chain(mut self, plan: &Plan, steps: &[Step]) -> Vec<String> {
        let program = &*plan.program;
        let mut stops: Vec<Stop> = Vec::new();
        let mut kept = None;
        for step in steps {
            match step {
                Step::Parse(index) => {
                    self.part(Mode::Parse, |g| g.parser(*index, &program.parsers[*index], plan.errors));
                }
                Step::Run(index) => self.part(Mode::Run, |g| g.pipeline(&program.pipelines[*index])),
                Step::Set(field, from) => {
                    let value = self.operand(*from);
                    // Checked before: a field that can be written.
                    let _ = self.store_field(*field, value);
                }
                Step::StopIfAny(values, stop) => {
                    let mut any = self.int(0);
                    for value in values {
                        let value = self.operand(*value);
                        any = self.b.ins().bor(any, value);
                    }
                    let any = self.icmp_imm(IntCC::NotEqual, any, 0);
                    self.stop_if(any, *stop, kept, &mut stops);
                }
                Step::StopIfEqual(left, right, stop) => {
                    let (left, right) = (self.operand(*left), self.operand(*right));
                    let equal = self.icmp(IntCC::Equal, left, right);
                    self.stop_if(equal, *stop, kept, &mut stops);
                }
                Step::Keep(value) => kept = Some(self.operand(*value)),
                Step::Deparse(index) => {
                    let deparser = &program.deparsers[*index];
                    let (packet, parsed) = (self.packet, self.leave_payload());
                    self.part(Mode::Deparse, |g| g.prepare(deparser));
                    let headers = self.emitted_len(deparser);
                    let truncate = self.slot(slot::TRUNCATE);
                    let longer = self.b.ins().isub(headers, parsed);
                    let unusual = self.b.ins().bor(longer, truncate);
                    let (in_place, prepared) = (self.block(), self.cold_block());
                    self.branch(unusual, prepared, in_place);
                    self.enter(prepared);
                    self.return_with(headers, kept);
                    self.enter(in_place);
                    (self.packet, self.packet_len) = (packet, parsed);
                    self.part(Mode::Deparse, |g| g.emit(deparser));
                    let emitted = self.int(EMITTED);
                    self.return_with(emitted, kept);
                }
            }
        }
        for Stop { block, number, kept } in stops {
            self.enter(block);
            let number = self.int(u64::from(number) << 56);
            self.return_with(number, kept);
        }
        self.b.seal_all_blocks();
        self.b.finalize();
        self.notes
    }

    /// The body of a function; goes on where it ends.
    fn part(&mut self, mode: Mode, body: impl FnOnce(&mut Self)) {
        if mode != Mode::Parse {
            // The first part's mode is set by the caller.
            self.set_env(offset_of!(Env, mode), mode as u64);
        }
        self.end = self.b.create_block();
        body(self);
        let end = self.end;
        self.enter(end);
    }

    /// What deparsers get is the packet behind the headers; says where it begins.
    fn leave_payload(&mut self) -> Value {
        let parsed = self.slot(slot::PARSED);
        let parsed = self.b.ins().umin(parsed, self.packet_len);
        self.packet = self.b.ins().iadd(self.packet, parsed);
        self.packet_len = self.b.ins().isub(self.packet_len, parsed);
        let (env, flags) = (self.env, self.flags.record);
        self.b.ins().store(flags, self.packet, env, offset_of!(Env, packet) as i32);
        self.b.ins().store(flags, self.packet_len, env, offset_of!(Env, packet_len) as i32);
        parsed
    }

    fn set_env(&mut self, offset: usize, value: u64) {
        let value = self.int(value);
        self.b.ins().store(self.flags.record, value, self.env, offset as i32);
    }

    fn stop_if(&mut self, condition: Value, number: u8, kept: Option<Value>, stops: &mut Vec<Stop>) {
        let block = self.cold_block();
        stops.push(Stop { block, number, kept });
        self.leave_if(condition, block);
    }

    fn return_with(&mut self, result: Value, kept: Option<Value>) {
        let result = match kept {
            Some(kept) => {
                let kept = self.shl(kept, 32);
                self.b.ins().bor(result, kept)
            }
            None => result,
        };
        self.b.ins().return_(&[result]);
    }

    fn operand(&mut self, operand: Operand) -> Value {
        match operand {
            Operand::Const(value) => self.int(value),
            Operand::Slot(slot) => self.slot(slot),
            Operand::SlotIsSet(slot) => {
                let value = self.slot(slot);
                let set = self.icmp_imm(IntCC::NotEqual, value, 0);
                self.b.ins().uextend(I64, set)
            }
            Operand::SlotPlus(slot, add) => {
                let value = self.slot(slot);
                self.b.ins().iadd_imm(value, add as i64)
            }
            Operand::SlotSum(one, other) => {
                let (one, other) = (self.slot(one), self.slot(other));
                self.b.ins().iadd(one, other)
            }
            // Checked before: a field of one word.
            Operand::Field(field) => self.load_field(field).unwrap_or_else(|_| self.int(0)),
        }
    }
}
