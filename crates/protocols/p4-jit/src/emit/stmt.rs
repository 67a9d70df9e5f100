//! Statements and actions.

use super::{ActionFrame, Emit, Gen, Unsupported};
use crate::delegate::Delegate;
use crate::env;
use barewire_p4::interp::MAX_BACKWARD_JUMPS;
use barewire_p4::ir::{
    ActionId, Expr, FieldId, FieldRef, HashSource, HeaderId, HeaderRef, MeterId, RegisterId, Stmt, Width,
};
use barewire_p4::key::arg_words;
use barewire_p4::phv::{Place, slot};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::Variable;

/// An action that is generated once in a function, like a subroutine.
#[derive(Debug, Clone)]
pub struct SharedAction {
    /// Where it begins: a block with the arguments' address, and the number of where to go on.
    entry: Block,
    /// Where to go on.
    returns: Vec<Block>,
}

impl Gen<'_, '_> {
    /// Have these actions generated once: [`Gen::shared_actions`] is to follow when all that use them are.
    pub fn share(&mut self, actions: impl IntoIterator<Item = ActionId>) {
        for action in actions {
            let entry = self.b.create_block();
            self.b.append_block_param(entry, I64);
            self.b.append_block_param(entry, I64);
            self.entries.pin(entry);
            self.shared.insert(action, SharedAction { entry, returns: Vec::new() });
        }
    }

    /// Generate the shared actions.
    pub fn shared_actions(&mut self) {
        for (action, shared) in std::mem::take(&mut self.shared) {
            if shared.returns.is_empty() {
                continue;
            }
            self.enter(shared.entry);
            let (args, number) = (self.b.block_params(shared.entry)[0], self.b.block_params(shared.entry)[1]);
            let done = self.b.create_block();
            self.action(action, args, done);
            if self.entries.reached(done) {
                self.enter(done);
                self.switch(number, &shared.returns, shared.returns[0]);
            }
        }
    }

    /// Run an action with its arguments at `args`, then go to `after`. Ends the current block.
    pub fn action(&mut self, action: ActionId, args: Value, after: Block) {
        if let Some(shared) = self.shared.get_mut(&action) {
            let (entry, number) = (shared.entry, shared.returns.len() as u64);
            shared.returns.push(after);
            // Whoever goes on there comes from the shared code, with nothing known.
            self.entries.pin(after);
            self.entries.arrive(after, &self.known);
            let number = self.int(number);
            self.b.ins().jump(entry, &[args.into(), number.into()]);
            return;
        }
        let unit = self.unit;
        let def = &unit.program.actions[action.at()];
        let (first_word, _) = arg_words(def.params.iter().map(|p| p.width));
        let frame = ActionFrame {
            action: Some(action.at()),
            args,
            widths: def.params.iter().map(|p| p.width).collect(),
            first_word,
        };
        let outer = self.action.replace(frame);
        if def.body.contains(&Stmt::Exit) {
            // `exit` ends the pipeline once the action is done.
            let done = self.b.create_block();
            self.body(&def.body, done);
            if self.entries.reached(done) {
                self.enter(done);
                let exit = self.slot(slot::EXIT);
                let end = self.end;
                self.branch(exit, end, after);
            }
        } else {
            self.body(&def.body, after);
        }
        self.action = outer;
    }

    /// Run statements, then go to `after`. Ends the current block.
    pub fn body(&mut self, body: &[Stmt], after: Block) {
        let mut blocks: Vec<Option<Block>> = vec![None; body.len() + 1];
        let mut turns = None;
        for (at, stmt) in body.iter().enumerate() {
            if let Stmt::Jump(to) | Stmt::JumpUnless { target: to, .. } = stmt {
                let to = (*to).min(body.len());
                let block = *blocks[to].get_or_insert_with(|| self.b.create_block());
                if to <= at {
                    self.entries.pin(block);
                    turns.get_or_insert_with(|| self.b.declare_var(I64));
                }
            }
        }
        if let Some(turns) = turns {
            let zero = self.int(0);
            self.b.def_var(turns, zero);
        }
        let target = |at: usize| blocks[at.min(body.len())].unwrap_or(after);
        // Whether the current block is still open.
        let mut open = true;
        for (at, stmt) in body.iter().enumerate() {
            if let Some(block) = blocks[at] {
                if open {
                    self.jump(block);
                }
                open = self.entries.reached(block) || self.entries.is_pinned(block);
                if open {
                    self.enter(block);
                }
            }
            if !open {
                continue;
            }
            match stmt {
                Stmt::Jump(to) => {
                    self.jump_counted(target(*to), (*to <= at).then_some(turns).flatten(), after);
                    open = false;
                }
                Stmt::JumpUnless { condition, target: to } => {
                    let on = self.b.create_block();
                    if *to <= at {
                        let back = self.b.create_block();
                        self.branch_on(condition, on, back);
                        if self.entries.reached(back) {
                            self.enter(back);
                            self.jump_counted(target(*to), turns, after);
                        }
                    } else {
                        self.branch_on(condition, on, target(*to));
                    }
                    open = self.entries.reached(on);
                    if open {
                        self.enter(on);
                    }
                }
                Stmt::Assert(condition) | Stmt::Assume(condition) => {
                    let (on, failed) = (self.b.create_block(), self.cold_block());
                    self.branch_on(condition, on, failed);
                    if self.entries.reached(failed) {
                        self.enter(failed);
                        // The interpreter finds it false again, and says and records so.
                        let action = self.action.as_ref().and_then(|frame| frame.action);
                        self.delegate(Delegate::Stmt { stmt: stmt.clone(), action }, || {
                            "a failed assertion".into()
                        });
                        let end = self.end;
                        self.jump(end);
                    }
                    open = self.entries.reached(on);
                    if open {
                        self.enter(on);
                    }
                }
                // The interpreter looks it up and runs its action, which may end the pipeline.
                Stmt::Apply { .. } => {
                    let action = self.action.as_ref().and_then(|frame| frame.action);
                    let what = Delegate::Stmt { stmt: stmt.clone(), action };
                    let ended = self.delegate(what, || summary(stmt));
                    let end = self.end;
                    self.leave_if(ended, end);
                }
                _ => self.statement_any(stmt),
            }
        }
        if let Some(block) = blocks[body.len()] {
            if open {
                self.jump(block);
            }
            open = self.entries.reached(block);
            if open {
                self.enter(block);
            }
        }
        if open {
            self.jump(after);
        }
    }

    /// Jump to a statement; one that lies behind is reached only so many times, then the action ends.
    fn jump_counted(&mut self, to: Block, turns: Option<Variable>, after: Block) {
        if let Some(turns) = turns {
            let count = self.b.use_var(turns);
            let count = self.b.ins().iadd_imm(count, 1);
            self.b.def_var(turns, count);
            let enough = self.icmp_imm(IntCC::UnsignedGreaterThan, count, u64::from(MAX_BACKWARD_JUMPS));
            self.leave_if(enough, after);
        }
        self.jump(to);
    }

    /// One statement without control flow, in machine code or by the interpreter.
    pub fn statement_any(&mut self, stmt: &Stmt) {
        if self.statement(stmt).is_err() {
            let action = self.action.as_ref().and_then(|frame| frame.action);
            self.delegate(Delegate::Stmt { stmt: stmt.clone(), action }, || summary(stmt));
        }
    }

    pub fn statement(&mut self, stmt: &Stmt) -> Emit<()> {
        match stmt {
            Stmt::Assign { dst, value } => self.assign(dst, value),
            Stmt::CopyHeader { dst: HeaderRef::Header(dst), src: HeaderRef::Header(src) } => {
                self.copy_header(*dst, *src)
            }
            Stmt::SetValid(HeaderRef::Header(header)) => self.set_valid(*header),
            Stmt::SetInvalid(HeaderRef::Header(header)) => self.set_invalid(*header),
            Stmt::Exit => {
                let one = self.int(1);
                self.set_slot(slot::EXIT, one);
                Ok(())
            }
            Stmt::Count { counter, index } => {
                let index = self.index(index)?;
                let counter = self.int(u64::from(counter.0));
                let len = self.slot(slot::PACKET_LEN);
                let env = self.env;
                self.call(env::count as *const () as usize, &[env, counter, index, len], None);
                Ok(())
            }
            Stmt::Meter { meter, index, precolor, dst } => {
                self.meter(*meter, index, precolor.as_ref(), dst.as_ref())
            }
            Stmt::RegisterRead { dst, register, index } => self.read_register(dst, *register, index),
            Stmt::RegisterWrite { register, index, value } => self.write_register(*register, index, value),
            Stmt::Random { dst, low, high } => self.random(dst, low, high),
            Stmt::Hash { dst, source, base, max } => self.hash(dst, source, base.as_ref(), max.as_ref()),
            Stmt::MarkToDrop { egress_spec, mcast_grp } => {
                if let Some(spec) = egress_spec {
                    let port = self.slot(slot::DROP_PORT);
                    self.store_field(*spec, port)?;
                }
                if let Some(group) = mcast_grp {
                    let zero = self.int(0);
                    self.store_field(*group, zero)?;
                }
                Ok(())
            }
            Stmt::CloneIngress { session, fields } | Stmt::CloneEgress { session, fields } => {
                let session = self.modular(session, 15)?;
                let session = self.keep(session, 15);
                let session = self.b.ins().iadd_imm(session, 1);
                self.set_slot(slot::CLONE, session);
                let fields = self.int(fields.map_or(0, |list| u64::from(list.0) + 1));
                self.set_slot(slot::CLONE_FIELDS, fields);
                Ok(())
            }
            Stmt::Resubmit { fields } | Stmt::Recirculate { fields } => {
                let value = self.int(fields.map_or(1, |list| u64::from(list.0) + 2));
                let again = matches!(stmt, Stmt::Resubmit { .. });
                self.set_slot(if again { slot::RESUBMIT } else { slot::RECIRCULATE }, value);
                Ok(())
            }
            Stmt::Truncate { len } => {
                let len = self.index(len)?;
                let most = self.int(u64::MAX - 1);
                let len = self.b.ins().umin(len, most);
                // The smallest length counts; none yet is 0, less 1 the largest number.
                let already = self.slot(slot::TRUNCATE);
                let already = self.b.ins().iadd_imm(already, -1);
                let len = self.b.ins().umin(len, already);
                let len = self.b.ins().iadd_imm(len, 1);
                self.set_slot(slot::TRUNCATE, len);
                Ok(())
            }
            Stmt::Digest { list } => {
                let number = self.int(u64::from(list.0) + 1);
                self.set_slot(slot::DIGEST, number);
                let list = self.int(u64::from(list.0));
                let env = self.env;
                self.call(env::digest as *const () as usize, &[env, list], None);
                Ok(())
            }
            Stmt::Push { stack, count } => self.shift_stack(*stack, *count, true),
            Stmt::Pop { stack, count } => self.shift_stack(*stack, *count, false),
            Stmt::NoOp => Ok(()),
            _ => Err(Unsupported),
        }
    }

    fn meter(
        &mut self,
        meter: MeterId,
        index: &Expr,
        precolor: Option<&Expr>,
        dst: Option<&FieldRef>,
    ) -> Emit<()> {
        let index = self.index(index)?;
        let precolor = match precolor {
            Some(precolor) => self.index(precolor)?,
            None => self.int(0),
        };
        if dst.is_some_and(|dst| self.small_field(dst).is_none()) {
            return Err(Unsupported);
        }
        let after = self.in_range(index, self.unit.program.meters[meter.at()].size);
        let meter = self.int(u64::from(meter.0));
        let env = self.env;
        let color = self.call_value(env::meter as *const () as usize, &[env, meter, index, precolor], I64);
        if let Some(dst) = dst.and_then(|dst| self.small_field(dst)) {
            self.store_field(dst, color)?;
        }
        self.jump(after);
        self.enter(after);
        Ok(())
    }

    fn read_register(&mut self, dst: &FieldRef, register: RegisterId, index: &Expr) -> Emit<()> {
        let dst = self.small_field(dst).ok_or(Unsupported)?;
        if self.unit.program.registers[register.at()].width > 64 {
            return Err(Unsupported);
        }
        let index = self.index(index)?;
        let after = self.in_range(index, self.unit.program.registers[register.at()].size);
        let register = self.int(u64::from(register.0));
        let env = self.env;
        let value = self.call_value(env::register_get as *const () as usize, &[env, register, index], I64);
        self.store_field(dst, value)?;
        self.jump(after);
        self.enter(after);
        Ok(())
    }

    fn write_register(&mut self, register: RegisterId, index: &Expr, value: &Expr) -> Emit<()> {
        if self.unit.program.registers[register.at()].width > 64 {
            return Err(Unsupported);
        }
        let index = self.index(index)?;
        let value = self.modular(value, 64)?;
        let register = self.int(u64::from(register.0));
        let env = self.env;
        self.call(env::register_set as *const () as usize, &[env, register, index, value], None);
        Ok(())
    }

    fn random(&mut self, dst: &FieldRef, low: &Expr, high: &Expr) -> Emit<()> {
        let dst = self.small_field(dst).ok_or(Unsupported)?;
        let low = self.modular(low, 64)?;
        let high = self.modular(high, 64)?;
        let env = self.env;
        let (on, after) = (self.b.create_block(), self.b.create_block());
        let some = self.b.ins().icmp(IntCC::UnsignedLessThanOrEqual, low, high);
        self.branch(some, on, after);
        self.enter(on);
        let value = self.call_value(env::random as *const () as usize, &[env, low, high], I64);
        self.store_field(dst, value)?;
        self.jump(after);
        self.enter(after);
        Ok(())
    }

    /// A hash from `base` on, of `max` values.
    fn hash(
        &mut self,
        dst: &FieldRef,
        source: &HashSource,
        base: Option<&Expr>,
        max: Option<&Expr>,
    ) -> Emit<()> {
        let dst = self.small_field(dst).ok_or(Unsupported)?;
        let plan = match source {
            HashSource::Calculation(calculation) => self.delegates.plan(self.unit, *calculation),
            HashSource::Inline { algorithm, input } => {
                self.delegates.inline_plan(self.unit, *algorithm, input)
            }
        };
        let plan = plan.ok_or(Unsupported)?;
        let base = match base {
            Some(base) => self.modular(base, 64)?,
            None => self.int(0),
        };
        let max = max.map(|max| self.modular(max, 64)).transpose()?;
        let plan = self.int(plan as u64);
        let env = self.env;
        let hash = self.call_value(env::calculate as *const () as usize, &[env, plan], I64);
        let hash = match max {
            None => hash,
            Some(max) => {
                let one = self.int(1);
                let max = self.b.ins().umax(max, one);
                self.b.ins().urem(hash, max)
            }
        };
        let value = self.b.ins().iadd(base, hash);
        self.store_field(dst, value)
    }

    /// A fixed field of at most 64 bits that is no varbit one.
    pub fn small_field(&self, field: &FieldRef) -> Option<FieldId> {
        let id = field.fixed()?;
        match self.unit.layout.place(id) {
            Place::Words { width, .. } | Place::Bits { width, .. } if width <= 64 => Some(id),
            _ => None,
        }
    }

    fn assign(&mut self, dst: &FieldRef, value: &Expr) -> Emit<()> {
        let Some(id) = dst.fixed() else {
            let Width::Fixed(width) = self.unit.program.field_def_of_ref(dst).width else {
                return Err(Unsupported);
            };
            if width > 64 {
                return Err(Unsupported);
            }
            let value = self.modular(value, 64)?;
            return self.store_dynamic(dst, value);
        };
        if self.is_dead(id) && !super::expr::has_lookahead(value) {
            return Ok(());
        }
        match self.unit.layout.place(id) {
            Place::Words { width, .. } | Place::Bits { width, .. } if width <= 128 => {
                let clean = self.is_clean(value, width);
                let value = self.modular(value, width.max(1))?;
                if clean { self.store_clean(id, value) } else { self.store_field(id, value) }
            }
            Place::Words { width, .. } | Place::Bits { width, .. } => {
                let limbs = self.limbs(value, width.div_ceil(64))?;
                self.store_limbs(id, &limbs)
            }
            Place::Varbit { .. } => Err(Unsupported),
        }
    }

    /// Whether the register for an expression's value has nothing above `width` bits: it is read as it is stored.
    fn is_clean(&self, value: &Expr, width: u32) -> bool {
        let range = match value {
            Expr::Param(_) | Expr::Int(_) => self.range(value),
            Expr::Field(field) if field.fixed().is_some() => self.range(value),
            _ => return false,
        };
        width <= 64 && !range.neg && range.bits <= width
    }

    fn copy_header(&mut self, dst: HeaderId, src: HeaderId) -> Emit<()> {
        let headers = &self.unit.program.headers;
        if dst == src {
            return Ok(());
        }
        if headers[dst.at()].metadata
            || headers[src.at()].metadata
            || headers[dst.at()].ty != headers[src.at()].ty
        {
            return Err(Unsupported);
        }
        let (copy, clear, after) = (self.b.create_block(), self.b.create_block(), self.b.create_block());
        self.branch_on(&Expr::Valid(HeaderRef::Header(src)), copy, clear);
        if self.entries.reached(copy) {
            self.enter(copy);
            let (to, from) = (&self.unit.layout.headers[dst.at()], &self.unit.layout.headers[src.at()]);
            let (phv, flags) = (self.phv, self.flags.phv);
            self.copy((phv, flags, to.byte as i32), (phv, flags, from.byte as i32), to.words * 8);
            self.known.forget_header(dst);
            self.make_valid(dst);
            self.jump(after);
        }
        if self.entries.reached(clear) {
            self.enter(clear);
            self.set_header_valid(dst, false);
            self.jump(after);
        }
        self.enter(after);
        Ok(())
    }

    /// Go on only if there is such an index; where the others go on is given back.
    fn in_range(&mut self, index: Value, size: u32) -> Block {
        let (on, after) = (self.b.create_block(), self.b.create_block());
        let there = self.icmp_imm(IntCC::UnsignedLessThan, index, u64::from(size));
        self.branch(there, on, after);
        self.enter(on);
        after
    }

    /// Bytes of a header whose length never changes.
    fn growth(&self, header: HeaderId) -> Emit<i64> {
        let ty = self.unit.program.header_type_of(header);
        if ty.varbit().is_some() { Err(Unsupported) } else { Ok(i64::from(ty.fixed_bits() / 8)) }
    }

    fn grow(&mut self, bytes: i64) {
        let old = self.slot(slot::GROWTH);
        let new = self.b.ins().iadd_imm(old, bytes);
        self.set_slot(slot::GROWTH, new);
    }

    fn set_invalid(&mut self, header: HeaderId) -> Emit<()> {
        if self.unit.program.headers[header.at()].metadata {
            return Ok(());
        }
        let bytes = self.growth(header)?;
        match self.known.valid(header) {
            Some(false) => {}
            Some(true) => {
                self.set_header_valid(header, false);
                self.grow(-bytes);
            }
            None => {
                let valid = self.header_valid(header);
                let valid = self.widen(valid);
                let bytes = self.b.ins().imul_imm(valid, bytes);
                let old = self.slot(slot::GROWTH);
                let new = self.b.ins().isub(old, bytes);
                self.set_slot(slot::GROWTH, new);
                self.set_header_valid(header, false);
            }
        }
        Ok(())
    }

    fn set_valid(&mut self, header: HeaderId) -> Emit<()> {
        let def = &self.unit.program.headers[header.at()];
        if def.metadata {
            return Ok(());
        }
        let bytes = self.growth(header)?;
        match self.known.valid(header) {
            Some(true) => {}
            Some(false) => {
                self.zero_header(header);
                self.known.forget_header(header);
                self.make_valid(header);
                self.grow(bytes);
            }
            None => {
                let (fresh, after) = (self.b.create_block(), self.b.create_block());
                self.branch_on(&Expr::Valid(HeaderRef::Header(header)), after, fresh);
                self.enter(fresh);
                self.zero_header(header);
                self.known.forget_header(header);
                self.make_valid(header);
                self.grow(bytes);
                self.jump(after);
                self.enter(after);
            }
        }
        Ok(())
    }

    /// Compare a truth value computed at run time with zero and set a slot accordingly.
    pub fn set_slot_if(&mut self, condition: Value, which: usize, value: u64) {
        let old = self.slot(which);
        let new = self.int(value);
        let zero = self.b.ins().icmp_imm(IntCC::NotEqual, condition, 0);
        let value = self.b.ins().select(zero, new, old);
        self.set_slot(which, value);
    }
}

/// A few words on a delegated statement, for the report.
pub fn summary(stmt: &Stmt) -> String {
    shorten(format!("{stmt:?}"))
}

/// Cut a description to a readable length.
pub fn shorten(text: String) -> String {
    match text.char_indices().nth(120) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
