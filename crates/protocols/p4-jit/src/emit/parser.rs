//! Parsers: one block a state, one bounds check a header.

use super::{Emit, Gen, Unsupported};
use crate::delegate::{Delegate, FAULT, TRANSITION_FAULT};
use crate::env::{self, Env};
use barewire_p4::interp::{CoreErrors, MAX_PARSER_STATES};
use barewire_p4::ir::{
    Expr, FieldId, FieldRef, HeaderId, HeaderRef, Parser, ParserOp, ParserState, StateId, Stmt, Transition,
    TransitionMatch,
};
use barewire_p4::phv::{Place, slot};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I64};
use cranelift_codegen::ir::{Block, InstBuilder, Value};
use cranelift_frontend::{Switch, Variable};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use std::collections::BTreeMap;
use std::mem::offset_of;

/// What the parser's blocks share.
#[derive(Debug)]
pub struct ParserFrame {
    /// The position in the program's parsers.
    pub index: usize,
    /// Bytes consumed.
    pub at: Variable,
    /// States entered, when the parser can loop.
    pub steps: Option<Variable>,
    /// The block that ends parsing with each error.
    pub failures: BTreeMap<u64, Block>,
    /// Where parsing ends.
    pub done: Block,
    /// The numbers of the core errors.
    pub errors: CoreErrors,
}

/// From so many values on a transition is searched by halves.
const SWITCH_FROM: usize = 5;

impl Gen<'_, '_> {
    /// A whole parser; ends at [`Gen::end`] with PARSED written.
    pub fn parser(&mut self, index: usize, parser: &Parser, errors: CoreErrors) {
        let at = self.b.declare_var(I64);
        let zero = self.int(0);
        self.b.def_var(at, zero);
        let (order, pinned) = in_order(parser);
        let steps = (!pinned.is_empty()).then(|| {
            let steps = self.b.declare_var(I64);
            self.b.def_var(steps, zero);
            steps
        });
        let no_error = self.int(errors.no_error);
        self.set_slot(slot::PARSER_ERROR, no_error);
        self.set_slot(slot::CHECKSUM_ERROR, zero);
        self.set_slot(slot::REJECTED, zero);
        let done = self.b.create_block();
        self.parsing = Some(ParserFrame { index, at, steps, failures: BTreeMap::new(), done, errors });
        let blocks: Vec<Block> = parser.states.iter().map(|_| self.b.create_block()).collect();
        for state in pinned {
            self.entries.pin(blocks[state.at()]);
        }
        self.jump(parser.start.map_or(done, |state| blocks[state.at()]));
        for state in order {
            let block = blocks[state.at()];
            if !self.entries.reached(block) {
                continue;
            }
            self.enter(block);
            self.state(state, &parser.states[state.at()], &blocks, done);
        }
        self.failures(done);
        self.enter(done);
        let at = self.at();
        self.set_slot(slot::PARSED, at);
        self.note_place();
        self.parsing = None;
        self.checksums(false);
        let end = self.end;
        self.jump(end);
    }

    fn frame(&mut self) -> &mut ParserFrame {
        self.parsing.as_mut().expect("only called while a parser is generated")
    }

    /// Bytes consumed so far.
    fn at(&mut self) -> Value {
        let at = self.frame().at;
        self.b.use_var(at)
    }

    /// Write the parser's place where helpers find it.
    pub fn note_place(&mut self) {
        let at = self.at();
        self.b.ins().store(self.flags.record, at, self.env, offset_of!(Env, at) as i32);
    }

    fn set_at(&mut self, value: Value) {
        let at = self.frame().at;
        self.b.def_var(at, value);
    }

    /// The block that ends parsing with an error.
    fn failure(&mut self, code: u64) -> Block {
        if let Some(block) = self.frame().failures.get(&code) {
            return *block;
        }
        let block = self.cold_block();
        self.frame().failures.insert(code, block);
        block
    }

    fn failures(&mut self, done: Block) {
        let failures = std::mem::take(&mut self.frame().failures);
        for (code, block) in failures {
            if self.entries.reached(block) {
                self.enter(block);
                let code = self.int(code);
                self.fail(code, done);
            }
        }
    }

    fn fail(&mut self, code: Value, done: Block) {
        let one = self.int(1);
        self.set_slot(slot::PARSER_ERROR, code);
        self.set_slot(slot::REJECTED, one);
        self.jump(done);
    }

    fn state(&mut self, id: StateId, state: &ParserState, blocks: &[Block], done: Block) {
        if let Some(steps) = self.frame().steps {
            let count = self.b.use_var(steps);
            let count = self.b.ins().iadd_imm(count, 1);
            self.b.def_var(steps, count);
            let too_many = self.icmp_imm(IntCC::UnsignedGreaterThan, count, MAX_PARSER_STATES as u64);
            let code = self.frame().errors.parser_timeout;
            let timeout = self.failure(code);
            self.leave_if(too_many, timeout);
        }
        for (at, op) in state.ops.iter().enumerate() {
            if !self.op_any(op, (id, at), done) {
                return;
            }
        }
        self.transitions(id, state, blocks, done);
    }

    /// One operation, in machine code or by the interpreter. False when parsing ends here in any case.
    fn op_any(&mut self, op: &ParserOp, place: (StateId, usize), done: Block) -> bool {
        if let ParserOp::Verify { condition, error } = op {
            let (on, failed) = (self.b.create_block(), self.cold_block());
            self.branch_on(condition, on, failed);
            if self.entries.reached(failed) {
                self.enter(failed);
                match self.modular(error, 64) {
                    Ok(code) => self.fail(code, done),
                    Err(Unsupported) => {
                        self.delegate_op(op, place);
                        self.jump(done);
                    }
                }
            }
            let reached = self.entries.reached(on);
            if reached {
                self.enter(on);
            }
            return reached;
        }
        if self.op(op).is_err() {
            self.delegate_op(op, place);
        }
        true
    }

    /// Let the interpreter do an operation, and take over its place.
    fn delegate_op(&mut self, op: &ParserOp, (state, at): (StateId, usize)) {
        self.note_place();
        let parser = self.frame().index;
        let what = Delegate::ParserOp { parser, state: state.at(), op: at };
        let result = self.delegate(what, || super::stmt::shorten(format!("{op:?}")));
        let place = self.b.ins().load(I64, self.flags.record, self.env, offset_of!(Env, at) as i32);
        self.set_at(place);
        self.leave_if_fault(result, FAULT);
        if matches!(op, ParserOp::Stmt(Stmt::Assert(_) | Stmt::Assume(_) | Stmt::Exit)) {
            let done = self.frame().done;
            self.leave_if(result, done);
        }
    }

    /// End parsing with an error when a delegate gave one (its number plus `above`).
    pub fn leave_if_fault(&mut self, result: Value, above: u64) {
        let done = self.frame().done;
        let fault = self.icmp_imm(IntCC::UnsignedGreaterThanOrEqual, result, above);
        let (on, failed) = (self.b.create_block(), self.cold_block());
        self.branch(fault, failed, on);
        self.enter(failed);
        let above = self.int(above);
        let code = self.b.ins().isub(result, above);
        self.fail(code, done);
        self.enter(on);
    }

    fn op(&mut self, op: &ParserOp) -> Emit<()> {
        match op {
            ParserOp::Extract(HeaderRef::Header(header)) => {
                let def = &self.unit.program.headers[header.at()];
                match &def.length_exp {
                    Some(length) if self.unit.program.header_type_of(*header).varbit().is_some() => {
                        self.extract_by_length(*header, length)
                    }
                    _ => self.extract(*header),
                }
            }
            ParserOp::ExtractVarbit { header: HeaderRef::Header(header), bits } => {
                let bits = self.varbit_bits(bits)?;
                self.extract_varbit(*header, bits)
            }
            ParserOp::Extract(header @ HeaderRef::StackNext(_)) => self.extract_next(header),
            ParserOp::Advance { bits } => {
                let bits = self.index(bits)?;
                let ragged = self.b.ins().band_imm(bits, 7);
                let code = self.frame().errors.parser_invalid_argument;
                let invalid = self.failure(code);
                self.leave_if(ragged, invalid);
                let bytes = self.shr(bits, 3);
                self.take(bytes);
                Ok(())
            }
            ParserOp::Stmt(stmt) => match stmt {
                Stmt::Assign { value, .. } if super::expr::has_lookahead(value) => {
                    let Stmt::Assign { dst, value } = stmt else { return Err(Unsupported) };
                    // Kept out of the statement so that an error leaves the field alone.
                    self.assign_lookahead(dst, value)
                }
                Stmt::Assert(_) | Stmt::Assume(_) | Stmt::Exit | Stmt::Jump(_) | Stmt::JumpUnless { .. } => {
                    Err(Unsupported)
                }
                Stmt::Assign { .. }
                | Stmt::SetValid(_)
                | Stmt::SetInvalid(_)
                | Stmt::CopyHeader { .. }
                | Stmt::RegisterRead { .. }
                | Stmt::RegisterWrite { .. }
                | Stmt::Count { .. }
                | Stmt::NoOp => self.statement(stmt),
                _ => Err(Unsupported),
            },
            _ => Err(Unsupported),
        }
    }

    fn assign_lookahead(&mut self, dst: &FieldRef, value: &Expr) -> Emit<()> {
        let field = dst.fixed().ok_or(Unsupported)?;
        let width = match self.unit.layout.place(field) {
            Place::Words { width, .. } | Place::Bits { width, .. } if width <= 128 => width,
            _ => return Err(Unsupported),
        };
        let value = self.modular(value, width.max(1))?;
        self.store_field(field, value)
    }

    /// The length of a varbit field: what is negative or too large for any packet is no multiple of 8.
    fn varbit_bits(&mut self, bits: &Expr) -> Emit<Value> {
        // Beyond 63 bits the interpreter tells multiples of 8 from others.
        if self.range(bits).bits > 63 || super::expr::has_lookahead(bits) {
            return Err(Unsupported);
        }
        self.index(bits)
    }

    /// Extract a header whose varbit field is its last and begins at a whole byte; `bits` is that field's length.
    fn extract_varbit(&mut self, header: HeaderId, bits: Value) -> Emit<()> {
        let (fixed, max_bits, len_word, byte) = self.varbit_shape(header)?;
        let errors = self.frame().errors;
        let ragged = self.b.ins().band_imm(bits, 7);
        let invalid = self.failure(errors.parser_invalid_argument);
        self.leave_if(ragged, invalid);
        let at = self.at();
        let variable = self.shr(bits, 3);
        let bytes = self.b.ins().iadd_imm(variable, i64::from(fixed));
        let left = self.b.ins().isub(self.packet_len, at);
        let short = self.icmp(IntCC::UnsignedGreaterThan, bytes, left);
        let too_short = self.failure(errors.packet_too_short);
        self.leave_if(short, too_short);
        let above = self.icmp_imm(IntCC::UnsignedGreaterThan, bits, u64::from(max_bits));
        let too_long = self.failure(errors.header_too_short);
        self.leave_if(above, too_long);
        let next = self.b.ins().iadd(at, bytes);
        self.set_at(next);
        let from = self.b.ins().iadd(self.packet, at);
        let to = self.unit.layout.headers[header.at()].byte as i32;
        let (phv, flags, packet_flags) = (self.phv, self.flags.phv, self.flags.packet);
        self.copy((phv, flags, to), (from, packet_flags, 0), fixed);
        self.b.ins().store(flags, bits, phv, len_word as i32 * 8);
        let from = self.b.ins().iadd_imm(from, i64::from(fixed));
        let to = self.b.ins().iadd_imm(phv, i64::from(byte));
        let room = self.int(u64::from(max_bits.div_ceil(64) * 8));
        // The bounds were checked: `variable` bytes of the packet, at most as many as the field has room for.
        self.call(env::copy_padded as *const () as usize, &[to, room, from, variable], None);
        self.known.forget_header(header);
        self.make_valid(header);
        Ok(())
    }

    /// Fixed bytes, the varbit field's greatest length in bits, its length word, its first byte.
    fn varbit_shape(&self, header: HeaderId) -> Emit<(u32, u32, u32, u32)> {
        let ty = self.unit.program.header_type_of(header);
        let fixed_bits = ty.fixed_bits();
        let last = ty.varbit().filter(|at| at + 1 == ty.fields.len()).ok_or(Unsupported)?;
        match self.unit.layout.headers[header.at()].fields[last] {
            Place::Varbit { len_word, byte, max_bits } if fixed_bits.is_multiple_of(8) => {
                Ok((fixed_bits / 8, max_bits, len_word, byte))
            }
            _ => Err(Unsupported),
        }
    }

    /// Extract a header whose own fields say how long it is: they are read from the packet first.
    fn extract_by_length(&mut self, header: HeaderId, length: &Expr) -> Emit<()> {
        let (fixed, ..) = self.varbit_shape(header)?;
        let mut fields = Vec::new();
        own_fields(length, header, &mut fields)?;
        let at = self.at();
        let left = self.b.ins().isub(self.packet_len, at);
        let short = self.icmp_imm(IntCC::UnsignedLessThan, left, u64::from(fixed));
        let code = self.frame().errors.packet_too_short;
        let too_short = self.failure(code);
        self.leave_if(short, too_short);
        let base = self.b.ins().iadd(self.packet, at);
        let before = self.known.clone();
        // Room for all of them.
        self.known.forget_fields();
        let first = self.unit.layout.headers[header.at()].byte * 8;
        for field in fields {
            let Place::Bits { bit, width, .. } = self.unit.layout.place(field) else {
                return Err(Unsupported);
            };
            if width > 64 {
                self.known = before;
                return Err(Unsupported);
            }
            let value = self.packet_bits(base, bit - first, width);
            self.known.set_field(field, value);
        }
        let bits = self.varbit_bits(length);
        self.known = before;
        self.extract_varbit(header, bits?)
    }

    /// Consume bytes, or end with PacketTooShort.
    fn take(&mut self, bytes: Value) {
        let at = self.at();
        let left = self.b.ins().isub(self.packet_len, at);
        let short = self.icmp(IntCC::UnsignedGreaterThan, bytes, left);
        let code = self.frame().errors.packet_too_short;
        let failure = self.failure(code);
        self.leave_if(short, failure);
        let at = self.b.ins().iadd(at, bytes);
        self.set_at(at);
    }

    /// Bytes of a header that is extracted whole.
    fn whole_bytes(&self, header: HeaderId) -> Emit<u32> {
        let ty = self.unit.program.header_type_of(header);
        let def = &self.unit.program.headers[header.at()];
        let bits = ty.fixed_bits();
        if ty.varbit().is_some() || def.length_exp.is_some() || def.metadata || !bits.is_multiple_of(8) {
            return Err(Unsupported);
        }
        Ok(bits / 8)
    }

    fn extract(&mut self, header: HeaderId) -> Emit<()> {
        let bytes = self.whole_bytes(header)?;
        let at = self.at();
        let count = self.int(u64::from(bytes));
        self.take(count);
        let from = self.b.ins().iadd(self.packet, at);
        let to = self.unit.layout.headers[header.at()].byte as i32;
        let (phv, flags, packet_flags) = (self.phv, self.flags.phv, self.flags.packet);
        self.copy((phv, flags, to), (from, packet_flags, 0), bytes);
        self.known.forget_header(header);
        self.make_valid(header);
        Ok(())
    }

    /// A header is valid from here on, other members of its union are not.
    pub fn make_valid(&mut self, header: HeaderId) {
        if let Some(union) = self.unit.program.headers[header.at()].union {
            for member in &self.unit.program.unions[union.at()].members {
                if *member != header {
                    self.set_header_valid(*member, false);
                }
            }
        }
        self.set_header_valid(header, true);
    }

    fn extract_next(&mut self, header: &HeaderRef) -> Emit<()> {
        let HeaderRef::StackNext(stack) = header else { return Err(Unsupported) };
        let first = self.unit.program.stacks[stack.at()].elements[0];
        let bytes = self.whole_bytes(first)?;
        let element = self.element(header)?;
        let code = self.frame().errors.stack_out_of_bounds;
        let (on, full) = (self.b.create_block(), self.failure(code));
        self.branch(element.exists, on, full);
        self.enter(on);
        let at = self.at();
        let count = self.int(u64::from(bytes));
        self.take(count);
        let from = self.b.ins().iadd(self.packet, at);
        let to = self.unit.layout.headers[first.at()].byte as i32;
        let (flags, packet_flags) = (self.flags.phv, self.flags.packet);
        self.copy((element.base, flags, to), (from, packet_flags, 0), bytes);
        let valid = self.b.ins().iconst(I8, 1);
        let address = self.valid_address(&element);
        let offset = self.valid_offset(first);
        self.b.ins().store(flags, valid, address, offset);
        let next = self.b.ins().iadd_imm(element.index, 1);
        let word = self.unit.layout.stack_next[stack.at()] as i32 * 8;
        self.b.ins().store(flags, next, self.phv, word);
        self.forget_stack(*stack);
        Ok(())
    }

    /// `width` bits, `offset` bits ahead; ends with PacketTooShort when they are not there.
    pub fn lookahead(&mut self, offset: u32, width: u32) -> Emit<Value> {
        if self.parsing.is_none() || width > 128 || offset > 1 << 20 {
            return Err(Unsupported);
        }
        let at = self.at();
        let need = self.int(u64::from((offset + width).div_ceil(8)));
        let left = self.b.ins().isub(self.packet_len, at);
        let short = self.icmp(IntCC::UnsignedGreaterThan, need, left);
        let code = self.frame().errors.packet_too_short;
        let failure = self.failure(code);
        self.leave_if(short, failure);
        let base = self.b.ins().iadd(self.packet, at);
        if width <= 64 {
            return Ok(self.packet_bits(base, offset, width));
        }
        let high = self.packet_bits(base, offset, width - 64);
        let low = self.packet_bits(base, offset + width - 64, 64);
        Ok(self.b.ins().iconcat(low, high))
    }

    /// `width <= 64` bits from bit `bit` behind `base`; no byte beyond them is touched.
    fn packet_bits(&mut self, base: Value, bit: u32, width: u32) -> Value {
        if width == 0 {
            return self.int(0);
        }
        let (byte, off) = (bit / 8, bit % 8);
        let bytes = (off + width).div_ceil(8);
        if bytes > 8 {
            let high = self.packet_bits(base, bit, width - 8);
            let low = self.packet_bits(base, bit + width - 8, 8);
            let high = self.shl(high, 8);
            return self.b.ins().bor(high, low);
        }
        let flags = self.flags.packet;
        let mut value = None;
        let mut done = 0;
        for size in [8, 4, 2, 1] {
            while bytes - done >= size {
                let part = self.load_be(flags, base, (byte + done) as i32, size);
                value = Some(match value {
                    None => part,
                    Some(before) => {
                        let before = self.shl(before, size * 8);
                        self.b.ins().bor(before, part)
                    }
                });
                done += size;
            }
        }
        let value = value.expect("at least one byte");
        let value = self.shr(value, bytes * 8 - off - width);
        self.keep(value, width)
    }

    /// The values of the key's parts, in limbs, least significant first.
    fn key_parts(&mut self, state: &ParserState) -> Emit<Vec<Vec<Value>>> {
        let mut parts = Vec::with_capacity(state.key.len());
        for (expr, width) in &state.key {
            let width = *width;
            if width <= 64 {
                let value = self.modular(expr, width.max(1))?;
                parts.push(vec![self.keep(value, width)]);
            } else {
                let mut limbs = self.limbs(expr, width.div_ceil(64))?;
                if let Some(last) = limbs.last_mut()
                    && !width.is_multiple_of(64)
                {
                    let value = *last;
                    *last = self.keep(value, width % 64);
                }
                parts.push(limbs);
            }
        }
        Ok(parts)
    }

    fn transitions(&mut self, id: StateId, state: &ParserState, blocks: &[Block], done: Block) {
        let unconditional = state.transitions.first().is_some_and(|t| t.when == TransitionMatch::Default);
        let place = |next: Option<StateId>| next.map_or(done, |state| blocks[state.at()]);
        if unconditional && state.key.iter().all(|(expr, _)| !super::expr::has_lookahead(expr)) {
            self.jump(place(state.transitions[0].next));
            return;
        }
        let parts = match self.key_parts(state) {
            Ok(parts) => parts,
            Err(Unsupported) => return self.delegate_transition(id, state, blocks, done),
        };
        let mut at = 0;
        while at < state.transitions.len() {
            let transition = &state.transitions[at];
            match &transition.when {
                TransitionMatch::Default => {
                    self.jump(place(transition.next));
                    return;
                }
                TransitionMatch::Masked(pairs) => {
                    let run = self.exact_run(state, &state.transitions[at..]);
                    if run.len() >= SWITCH_FROM {
                        at += run.len();
                        let otherwise = self.b.create_block();
                        let mut switch = Switch::new();
                        for (value, next) in run {
                            // The first of equal values wins.
                            if !switch.entries().contains_key(&u128::from(value)) {
                                let block = place(next);
                                self.entries.arrive(block, &self.known);
                                switch.set_entry(u128::from(value), block);
                            }
                        }
                        self.entries.arrive(otherwise, &self.known);
                        switch.emit(&mut self.b, parts[0][0], otherwise);
                        self.enter(otherwise);
                        continue;
                    }
                    let differ = self.differ(&parts, pairs);
                    let on = self.b.create_block();
                    self.branch(differ, on, place(transition.next));
                    self.enter(on);
                }
                TransitionMatch::ValueSet(set, mask) => {
                    let taken = match (state.key.as_slice(), parts.as_slice(), mask) {
                        ([(_, width)], [part], mask) if *width <= 64 => {
                            let full = BigUint::from(super::access::mask(*width));
                            let with = mask.as_ref().and_then(|mask| mask.first()).map(|mask| mask & full);
                            let mask = self.int(with.as_ref().and_then(BigUint::to_u64).unwrap_or(u64::MAX));
                            let masked = self.int(u64::from(with.is_some()));
                            let value = self.b.ins().band(part[0], mask);
                            let (env, set) = (self.env, self.int(u64::from(set.0)));
                            let args = [env, set, value, mask, masked];
                            self.call_value(env::value_set as *const () as usize, &args, I64)
                        }
                        _ => {
                            self.note_place();
                            let parser = self.frame().index;
                            let what = Delegate::Transition { parser, state: id.at(), transition: Some(at) };
                            self.delegate(what, || format!("value set in state {}", state.name))
                        }
                    };
                    let on = self.b.create_block();
                    self.branch(taken, place(transition.next), on);
                    self.enter(on);
                }
            }
            at += 1;
        }
        let code = self.frame().errors.no_match;
        let failure = self.failure(code);
        self.jump(failure);
    }

    /// The transitions at the front that compare one part of at most 64 bits with a whole value.
    fn exact_run(&self, state: &ParserState, transitions: &[Transition]) -> Vec<(u64, Option<StateId>)> {
        let [(_, width)] = state.key.as_slice() else { return Vec::new() };
        if *width > 64 {
            return Vec::new();
        }
        let full = BigUint::from(super::access::mask(*width));
        transitions
            .iter()
            .map_while(|transition| match &transition.when {
                TransitionMatch::Masked(pairs) => match pairs.as_slice() {
                    [(value, mask)] if mask & &full == full => Some((value.to_u64()?, transition.next)),
                    _ => None,
                },
                _ => None,
            })
            .collect()
    }

    /// Not 0 when a key part, masked, is not the value.
    fn differ(&mut self, parts: &[Vec<Value>], pairs: &[(BigUint, BigUint)]) -> Value {
        let mut all = None;
        for (limbs, (value, mask)) in parts.iter().zip(pairs) {
            let (values, masks) = (value.to_u64_digits(), mask.to_u64_digits());
            for (i, limb) in limbs.iter().enumerate() {
                let mask = masks.get(i).copied().unwrap_or(0);
                let value = values.get(i).copied().unwrap_or(0);
                let masked = if mask == u64::MAX { *limb } else { self.b.ins().band_imm(*limb, mask as i64) };
                let differ = self.b.ins().bxor_imm(masked, value as i64);
                all = Some(match all {
                    None => differ,
                    Some(before) => self.b.ins().bor(before, differ),
                });
            }
            // What stands above the part's own limbs can only be wanted by a value that never comes.
            if values.len() > limbs.len() {
                all = Some(self.int(1));
            }
        }
        match all {
            Some(all) => self.icmp_imm(IntCC::NotEqual, all, 0),
            None => self.bool(false),
        }
    }

    /// Let the interpreter choose the transition.
    fn delegate_transition(&mut self, id: StateId, state: &ParserState, blocks: &[Block], done: Block) {
        self.note_place();
        let parser = self.frame().index;
        let what = Delegate::Transition { parser, state: id.at(), transition: None };
        let chosen = self.delegate(what, || format!("transition of state {}", state.name));
        self.leave_if_fault(chosen, TRANSITION_FAULT);
        let code = self.frame().errors.no_match;
        let no_match = self.failure(code);
        let mut targets = vec![no_match];
        targets.extend(state.transitions.iter().map(|t| t.next.map_or(done, |state| blocks[state.at()])));
        self.switch(chosen, &targets, no_match);
    }
}

/// The states that can be reached, each after those that lead to it without a loop; and those that a later one leads
/// back to.
fn in_order(parser: &Parser) -> (Vec<StateId>, Vec<StateId>) {
    let mut seen = vec![false; parser.states.len()];
    let mut post = Vec::new();
    let mut stack: Vec<(StateId, usize)> = Vec::new();
    if let Some(start) = parser.start {
        seen[start.at()] = true;
        stack.push((start, 0));
    }
    while let Some((state, at)) = stack.pop() {
        match parser.states[state.at()].transitions.get(at) {
            Some(transition) => {
                stack.push((state, at + 1));
                if let Some(next) = transition.next
                    && !seen[next.at()]
                {
                    seen[next.at()] = true;
                    stack.push((next, 0));
                }
            }
            None => post.push(state),
        }
    }
    post.reverse();
    let mut rank = vec![usize::MAX; parser.states.len()];
    for (i, state) in post.iter().enumerate() {
        rank[state.at()] = i;
    }
    let mut pinned = Vec::new();
    for state in &post {
        for next in parser.states[state.at()].transitions.iter().filter_map(|t| t.next) {
            if rank[next.at()] <= rank[state.at()] && !pinned.contains(&next) {
                pinned.push(next);
            }
        }
    }
    (post, pinned)
}

/// The fields of `header` that an expression reads; `Err` when it looks at anything else of it, or makes calls.
fn own_fields(expr: &Expr, header: HeaderId, fields: &mut Vec<FieldId>) -> Emit<()> {
    match expr {
        Expr::Int(_) | Expr::Bool(_) => Ok(()),
        Expr::Field(field) => {
            let id = field.fixed().ok_or(Unsupported)?;
            if id.header == header && !fields.contains(&id) {
                fields.push(id);
            }
            // More than are held in registers at once would be read from the vector.
            if fields.len() > 8 { Err(Unsupported) } else { Ok(()) }
        }
        Expr::Unary(_, value) | Expr::Wrap { value, .. } | Expr::Saturate { value, .. } => {
            own_fields(value, header, fields)
        }
        Expr::Binary(_, left, right) => {
            own_fields(left, header, fields)?;
            own_fields(right, header, fields)
        }
        _ => Err(Unsupported),
    }
}
