//! Statements.

use super::trace::{Argument, Event, number};
use super::{Context, Flow, MAX_BACKWARD_JUMPS, ParserFault};
use crate::ir::{
    ActionId, Expr, FieldListId, FieldRef, HashAlgorithm, HashSource, MeterId, RegisterId, Stmt, TableId,
};
use crate::phv::slot;
use crate::state::State;
use num_bigint::{BigInt, BigUint};
use num_traits::ToPrimitive;

/// Mirror sessions have 15 bits (bmv2 keeps the 16th as a mark).
const SESSION_MASK: u64 = 0x7fff;

impl<S: State + ?Sized> Context<'_, S> {
    /// Run an action with its arguments (as [`crate::key::arg_words`] lays them out).
    pub fn run_action(&mut self, action: ActionId, args: &[u64]) -> Result<Flow, ParserFault> {
        let plan = self.plan;
        let mut inner = self.with_action(action, args);
        if inner.tracer.wants() {
            inner.trace_action(action);
        }
        match inner.exec_stmts(&plan.program.actions[action.at()].body)? {
            Flow::Next if inner.phv.slot(slot::EXIT) != 0 => Ok(Flow::End),
            flow => Ok(flow),
        }
    }

    fn trace_action(&mut self, action: ActionId) {
        let ir = &self.plan.program.actions[action.at()];
        let mut arguments = Vec::new();
        for (index, param) in ir.params.iter().enumerate() {
            let value = self.eval(&Expr::Param(index as u32)).map(|value| value.int()).unwrap_or_default();
            arguments.push(Argument { name: param.name.clone(), value: number(value.magnitude()) });
        }
        self.tracer.record(Event::Action { action: ir.name.clone(), arguments });
    }

    /// Run statements to their end or until the pipeline ends. Only a lookahead (in a parser) can fail.
    pub fn exec_stmts(&mut self, stmts: &[Stmt]) -> Result<Flow, ParserFault> {
        let (mut at, mut backward) = (0, 0);
        while let Some(stmt) = stmts.get(at) {
            match self.exec_stmt(stmt)? {
                Flow::Next => at += 1,
                Flow::Jump(target) => {
                    if target <= at {
                        backward += 1;
                        if backward > MAX_BACKWARD_JUMPS {
                            break;
                        }
                    }
                    at = target;
                }
                Flow::End => return Ok(Flow::End),
            }
        }
        Ok(Flow::Next)
    }

    /// Run one statement, and say where to go on.
    pub fn exec_stmt(&mut self, stmt: &Stmt) -> Result<Flow, ParserFault> {
        match stmt {
            Stmt::Assign { dst, value } => {
                let value = self.eval(value)?.int();
                self.assign(dst, &value)?;
            }
            Stmt::AssignVarbit { dst, src } => {
                if let (Some(dst), Some(src)) = (self.field(dst)?, self.field(src)?) {
                    self.copy_varbit(dst, src);
                }
            }
            Stmt::CopyHeader { dst, src } => {
                let (dst, src) = (self.header(dst)?, self.header(src)?);
                self.copy_header(dst, src);
            }
            Stmt::CopyUnion { dst, src } => {
                let (dst, src) = (self.union(dst)?, self.union(src)?);
                self.copy_union(dst, src);
            }
            Stmt::CopyStack { dst, src } => self.copy_stack(*dst, *src),
            Stmt::CopyUnionStack { dst, src } => self.copy_union_stack(*dst, *src),
            Stmt::SetValid(header) => {
                if let Some(header) = self.header(header)? {
                    self.make_valid(header);
                }
            }
            Stmt::SetInvalid(header) => {
                if let Some(header) = self.header(header)? {
                    self.make_invalid(header);
                }
            }
            Stmt::Push { stack, count } => self.shift_stack(*stack, *count, true),
            Stmt::Pop { stack, count } => self.shift_stack(*stack, *count, false),
            Stmt::PushUnions { stack, count } => self.shift_union_stack(*stack, *count, true),
            Stmt::PopUnions { stack, count } => self.shift_union_stack(*stack, *count, false),
            Stmt::Jump(target) => return Ok(Flow::Jump(*target)),
            Stmt::JumpUnless { condition, target } => {
                if !self.eval_bool(condition)? {
                    return Ok(Flow::Jump(*target));
                }
            }
            Stmt::Exit => {
                self.phv.set_slot(slot::EXIT, 1);
                if self.tracer.wants() {
                    self.tracer.record(Event::Exit);
                }
            }
            Stmt::Assert(condition) => return self.assertion(condition, false),
            Stmt::Assume(condition) => return self.assertion(condition, true),
            Stmt::Log { format, args } => self.log(format, args)?,
            Stmt::Count { counter, index } => {
                let index = self.eval_u64(index)?;
                self.state.count(*counter, index, self.phv.slot(slot::PACKET_LEN));
            }
            Stmt::Meter { meter, index, precolor, dst } => {
                self.meter(*meter, index, precolor.as_ref(), dst.as_ref())?;
            }
            Stmt::Apply { table, hit, ran } => {
                return self.apply(*table, hit.as_ref(), ran.as_ref());
            }
            Stmt::RegisterRead { dst, register, index } => {
                self.read_register(dst, *register, index)?;
            }
            Stmt::RegisterWrite { register, index, value } => {
                self.write_register(*register, index, value)?;
            }
            Stmt::Random { dst, low, high } => {
                let (low, high) = (self.eval_low(low)?, self.eval_low(high)?);
                if low <= high {
                    let value = self.state.random(low, high);
                    self.assign(dst, &BigInt::from(value))?;
                } else {
                    self.undefined(|| format!("no number is between {low} and {high}"));
                }
            }
            Stmt::Hash { dst, source, base, max } => {
                let hash = self.hash(source, base.as_ref(), max.as_ref())?;
                self.assign(dst, &BigInt::from(hash))?;
            }
            Stmt::Digest { list } => {
                self.phv.set_slot(slot::DIGEST, u64::from(list.0) + 1);
                self.state.digest(*list);
                self.request(|plan| format!("digest {}", plan.program.learn_lists[list.at()].name));
            }
            Stmt::CloneIngress { session, fields } => self.clone_packet("ingress", session, *fields)?,
            Stmt::CloneEgress { session, fields } => self.clone_packet("egress", session, *fields)?,
            Stmt::Resubmit { fields } => {
                self.phv.set_slot(slot::RESUBMIT, again(*fields));
                self.request(|_| "resubmit".to_owned());
            }
            Stmt::Recirculate { fields } => {
                self.phv.set_slot(slot::RECIRCULATE, again(*fields));
                self.request(|_| "recirculate".to_owned());
            }
            Stmt::Truncate { len } => {
                let len = self.eval_u64(len)?;
                let already = self.phv.slot(slot::TRUNCATE).wrapping_sub(1);
                self.phv.set_slot(slot::TRUNCATE, len.min(already).saturating_add(1));
                self.request(|_| format!("truncate to {len} bytes"));
            }
            Stmt::MarkToDrop { egress_spec, mcast_grp } => {
                let port = self.phv.slot(slot::DROP_PORT);
                self.request(|_| "mark to drop".to_owned());
                if let Some(field) = egress_spec {
                    self.write(*field, &BigInt::from(port));
                }
                if let Some(field) = mcast_grp {
                    self.write(*field, &BigInt::ZERO);
                }
            }
            Stmt::ChecksumClear(unit) => self.set_sum(*unit, 0),
            Stmt::ChecksumAdd { unit, input } => {
                let input = self.gather(input)?.into_number();
                let sum = words16(input).fold(self.sum(*unit), sum16);
                self.set_sum(*unit, sum);
            }
            Stmt::ChecksumSubtract { unit, input } => {
                let input = self.gather(input)?.into_number();
                let sum = words16(input).fold(self.sum(*unit), |sum, word| sum16(sum, !word));
                self.set_sum(*unit, sum);
            }
            Stmt::ChecksumGet { unit, dst } => {
                let sum = !self.sum(*unit);
                self.assign(dst, &BigInt::from(sum))?;
            }
            Stmt::ChecksumVerify { unit, dst, equals } => {
                let equals = self.eval_low(equals)? as u16;
                let equal = equals == !self.sum(*unit);
                self.assign(dst, &BigInt::from(equal))?;
            }
            Stmt::ChecksumGetState { unit, dst } => {
                let sum = self.sum(*unit);
                self.assign(dst, &BigInt::from(sum))?;
            }
            Stmt::ChecksumSetState { unit, value } => {
                let value = self.eval_low(value)? as u16;
                self.set_sum(*unit, value);
            }
            Stmt::NoOp => {}
        }
        Ok(Flow::Next)
    }

    fn log(&mut self, format: &str, args: &[Expr]) -> Result<(), ParserFault> {
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.eval(arg)?.int());
        }
        let message = log_message(format, &values);
        self.state.log(&message);
        if self.tracer.wants() {
            self.tracer.record(Event::Log { message });
        }
        Ok(())
    }

    fn meter(
        &mut self,
        meter: MeterId,
        index: &Expr,
        precolor: Option<&Expr>,
        dst: Option<&FieldRef>,
    ) -> Result<(), ParserFault> {
        let index = self.eval_u64(index)?;
        let precolor = match precolor {
            Some(precolor) => self.eval_u64(precolor)?,
            None => 0,
        };
        if index >= u64::from(self.plan.program.meters[meter.at()].size) {
            self.undefined(|| format!("there is no meter {index}"));
            return Ok(());
        }
        let (len, now_us) = (self.phv.slot(slot::PACKET_LEN), self.phv.slot(slot::NOW_US));
        let color = self.state.meter(meter, index, len, now_us, precolor);
        match dst {
            Some(dst) => self.assign(dst, &BigInt::from(color)),
            None => Ok(()),
        }
    }

    /// Applies a table, and says in fields whether an entry was hit and which action ran.
    fn apply(
        &mut self,
        table: TableId,
        hit: Option<&FieldRef>,
        ran: Option<&FieldRef>,
    ) -> Result<Flow, ParserFault> {
        let outcome = self.apply_table(table)?;
        if let Some(field) = hit {
            self.assign(field, &BigInt::from(u8::from(outcome.hit)))?;
        }
        if let Some(field) = ran {
            let number = outcome.action.map_or(0, |action| u64::from(action.0) + 1);
            self.assign(field, &BigInt::from(number))?;
        }
        Ok(if outcome.flow == Flow::End { Flow::End } else { Flow::Next })
    }

    fn read_register(
        &mut self,
        dst: &FieldRef,
        register: RegisterId,
        index: &Expr,
    ) -> Result<(), ParserFault> {
        let index = self.eval_u64(index)?;
        if index < u64::from(self.plan.program.registers[register.at()].size) {
            let value = self.state.register(register, index);
            return self.assign(dst, &BigInt::from(value));
        }
        self.undefined(|| format!("there is no register {index}"));
        Ok(())
    }

    fn write_register(
        &mut self,
        register: RegisterId,
        index: &Expr,
        value: &Expr,
    ) -> Result<(), ParserFault> {
        let index = self.eval_u64(index)?;
        let width = self.plan.program.registers[register.at()].width;
        let value = super::eval::low_bits(&self.eval(value)?.int(), width);
        self.state.set_register(register, index, &value);
        if self.tracer.wants() {
            let register = self.plan.program.registers[register.at()].name.clone();
            self.tracer.record(Event::Register { register, index, value: number(&value) });
        }
        Ok(())
    }

    /// A hash from `base` on, of `max` values.
    fn hash(
        &mut self,
        source: &HashSource,
        base: Option<&Expr>,
        max: Option<&Expr>,
    ) -> Result<u64, ParserFault> {
        let hash = match source {
            HashSource::Calculation(calculation) => self.calculate(*calculation)?,
            HashSource::Inline { algorithm: HashAlgorithm::Random, .. } => self.state.random(0, u64::MAX),
            HashSource::Inline { algorithm, input } => {
                let bytes = self.gather(input)?.into_bytes();
                crate::hash::hash(*algorithm, None, &bytes)
            }
        };
        let base = match base {
            Some(base) => self.eval_low(base)?,
            None => 0,
        };
        let hash = match max {
            Some(max) => hash % self.eval_low(max)?.max(1),
            None => hash,
        };
        Ok(base.wrapping_add(hash))
    }

    fn assign(&mut self, dst: &FieldRef, value: &BigInt) -> Result<(), ParserFault> {
        if let Some(dst) = self.field(dst)? {
            self.write(dst, value);
        }
        Ok(())
    }

    fn assertion(&mut self, condition: &Expr, assume: bool) -> Result<Flow, ParserFault> {
        if self.eval_bool(condition)? {
            return Ok(Flow::Next);
        }
        self.phv.set_slot(slot::ASSERT, if assume { 2 } else { 1 });
        if self.tracer.wants() {
            self.tracer.record(Event::AssertFailed { assume });
        }
        Ok(Flow::End)
    }

    fn clone_packet(
        &mut self,
        from: &str,
        session: &Expr,
        fields: Option<FieldListId>,
    ) -> Result<(), ParserFault> {
        let session = self.eval_low(session)? & SESSION_MASK;
        self.phv.set_slot(slot::CLONE, session + 1);
        self.phv.set_slot(slot::CLONE_FIELDS, fields.map_or(0, |list| u64::from(list.0) + 1));
        self.request(|_| format!("clone from {from} to session {session}"));
        Ok(())
    }

    /// Say that the program did something that has no meaning.
    pub(super) fn undefined(&mut self, what: impl FnOnce() -> String) {
        if self.tracer.wants() {
            self.tracer.record(Event::Undefined { what: what() });
        }
    }

    fn request(&mut self, what: impl FnOnce(&super::Plan) -> String) {
        if self.tracer.wants() {
            let what = what(self.plan);
            self.tracer.record(Event::Request { what });
        }
    }

    fn sum(&self, unit: crate::ir::ChecksumUnitId) -> u16 {
        self.phv.slot(self.plan.layout.checksum_units[unit.at()] as usize) as u16
    }

    fn set_sum(&mut self, unit: crate::ir::ChecksumUnitId, sum: u16) {
        self.phv.set_slot(self.plan.layout.checksum_units[unit.at()] as usize, u64::from(sum));
    }
}

/// The value of a RESUBMIT or RECIRCULATE slot.
fn again(fields: Option<FieldListId>) -> u64 {
    fields.map_or(1, |list| u64::from(list.0) + 2)
}

/// 16 bits at a time from the low end, until nothing but zeros is left (bmv2's externs).
fn words16(number: BigUint) -> impl Iterator<Item = u16> {
    let bytes = number.to_bytes_le();
    let len = if number == BigUint::ZERO { 0 } else { bytes.len() };
    (0..len)
        .step_by(2)
        .map(move |at| u16::from(bytes[at]) | bytes.get(at + 1).map_or(0, |&b| u16::from(b) << 8))
}

fn sum16(sum: u16, word: u16) -> u16 {
    let (sum, carry) = sum.overflowing_add(word);
    sum + u16::from(carry)
}

/// A message: each `{…}` stands for the next argument in decimal, `\{` and `\}` for braces. Braces without an argument
/// stay, arguments without braces follow at the end.
pub(super) fn log_message(format: &str, args: &[BigInt]) -> String {
    let mut out = String::with_capacity(format.len());
    let mut args = args.iter();
    let mut rest = format.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if matches!(rest.peek(), Some('{' | '}')) => out.extend(rest.next()),
            '{' => {
                let mut inside = String::new();
                let closed = rest.by_ref().any(|c| {
                    if c != '}' {
                        inside.push(c);
                    }
                    c == '}'
                });
                match (closed, args.next()) {
                    (true, Some(arg)) => out.push_str(&decimal(arg)),
                    (true, None) => out.push_str(&format!("{{{inside}}}")),
                    (false, _) => out.push_str(&format!("{{{inside}")),
                }
            }
            c => out.push(c),
        }
    }
    for arg in args {
        out.push(' ');
        out.push_str(&decimal(arg));
    }
    out
}

fn decimal(value: &BigInt) -> String {
    value.to_i64().map_or_else(|| value.to_string(), |value| value.to_string())
}
