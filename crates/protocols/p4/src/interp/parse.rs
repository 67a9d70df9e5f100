//! The parser: states, extractions, transitions.

use super::trace::{Event, KeyPart, number};
use super::{Context, Flow, MAX_PARSER_STATES, ParserFault};
use crate::ir::{HeaderRef, ParserOp, ParserState, StateId, TransitionMatch};
use crate::phv::slot;
use crate::state::State;
use num_bigint::{BigInt, BigUint};
use num_traits::{Signed, ToPrimitive};

impl<S: State + ?Sized> Context<'_, S> {
    /// Run a parser from the packet's beginning, then verify checksums. Sets the slots PARSER_ERROR, REJECTED,
    /// CHECKSUM_ERROR and PARSED.
    pub fn parse(&mut self, parser: usize) {
        self.at = 0;
        self.phv.set_slot(slot::PARSER_ERROR, self.plan.errors.no_error);
        self.phv.set_slot(slot::CHECKSUM_ERROR, 0);
        self.phv.set_slot(slot::REJECTED, 0);
        let name = self.plan.program.parsers.get(parser).map_or("", |parser| &parser.name);
        if self.tracer.wants() {
            self.tracer.record(Event::ParserStart { parser: name.to_owned() });
        }
        if let Err(fault) = self.walk(parser) {
            self.phv.set_slot(slot::PARSER_ERROR, fault.0);
            self.phv.set_slot(slot::REJECTED, 1);
            if self.tracer.wants() {
                let event = Event::ParserError { error: self.error_name(fault) };
                self.tracer.record(event);
            }
        }
        self.phv.set_slot(slot::PARSED, self.at as u64);
        if self.tracer.wants() {
            self.tracer.record(Event::ParserEnd { parser: name.to_owned(), parsed_bytes: self.at });
        }
        // A checksum's inputs hold no lookahead, so nothing fails here.
        let _ = self.verify_checksums();
    }

    fn error_name(&self, fault: ParserFault) -> String {
        let errors = &self.plan.program.errors;
        let known = errors.iter().find(|(_, number)| u64::from(*number) == fault.0);
        known.map_or_else(|| fault.0.to_string(), |(name, _)| name.clone())
    }

    fn walk(&mut self, parser: usize) -> Result<(), ParserFault> {
        let plan = self.plan;
        let Some(parser) = plan.program.parsers.get(parser) else { return Ok(()) };
        let mut next = parser.start;
        let mut entered = 0;
        while let Some(state) = next {
            entered += 1;
            if entered > MAX_PARSER_STATES {
                return Err(ParserFault(plan.errors.parser_timeout));
            }
            let state: &ParserState = &parser.states[state.at()];
            if self.tracer.wants() {
                self.tracer.record(Event::ParserState { state: state.name.clone(), at_byte: self.at });
            }
            for op in &state.ops {
                if self.exec_parser_op(op)? == Flow::End {
                    return Ok(());
                }
            }
            next = self.select(parser, state)?;
        }
        Ok(())
    }

    /// Run one step of a parser state; it moves [`Context::at`].
    pub fn exec_parser_op(&mut self, op: &ParserOp) -> Result<Flow, ParserFault> {
        match op {
            ParserOp::Extract(header) => self.extract_ref(header, None)?,
            ParserOp::ExtractVarbit { header, bits } => {
                let bits = self.eval(bits)?.int();
                self.extract_ref(header, Some(bits))?;
            }
            ParserOp::Advance { bits } => {
                let bits = self.eval(bits)?.int();
                let bytes: BigInt = &bits >> 3;
                if bits.is_negative() || bits != &bytes << 3 {
                    return Err(ParserFault(self.plan.errors.parser_invalid_argument));
                }
                match bytes.to_usize() {
                    Some(bytes) if bytes <= self.packet.len().saturating_sub(self.at) => {
                        self.at += bytes;
                        if self.tracer.wants() {
                            self.tracer.record(Event::Advance { bytes });
                        }
                    }
                    _ => return Err(ParserFault(self.plan.errors.packet_too_short)),
                }
            }
            ParserOp::Verify { condition, error } => {
                if !self.eval_bool(condition)? {
                    let fault = ParserFault(self.eval_low(error)?);
                    if self.tracer.wants() {
                        let event = Event::VerifyFailed { error: self.error_name(fault) };
                        self.tracer.record(event);
                    }
                    return Err(fault);
                }
            }
            ParserOp::Stmt(stmt) => return self.exec_stmts(std::slice::from_ref(stmt)),
        }
        Ok(Flow::Next)
    }

    fn extract_ref(&mut self, header: &HeaderRef, varbit: Option<BigInt>) -> Result<(), ParserFault> {
        let Some(id) = self.header(header)? else {
            return Err(ParserFault(self.plan.errors.stack_out_of_bounds));
        };
        self.extract(id, varbit)?;
        match header {
            HeaderRef::StackNext(stack) => {
                let next = self.phv.stack_next(&self.plan.layout, *stack);
                self.set_stack_next(*stack, next + 1);
            }
            HeaderRef::UnionStackNext(stack, _) => {
                let next = self.phv.union_stack_next(&self.plan.layout, *stack);
                self.set_union_stack_next(*stack, next + 1);
            }
            _ => {}
        }
        Ok(())
    }

    /// The next state.
    fn select(
        &mut self,
        parser: &crate::ir::Parser,
        state: &ParserState,
    ) -> Result<Option<StateId>, ParserFault> {
        let mut key: Vec<BigUint> = Vec::with_capacity(state.key.len());
        for (part, width) in &state.key {
            let value = self.eval(part)?.int();
            key.push(super::eval::low_bits(&value, *width));
        }
        let mut taken = None;
        for (index, transition) in state.transitions.iter().enumerate() {
            let hit = match &transition.when {
                TransitionMatch::Masked(cases) => {
                    cases.iter().zip(&key).all(|((value, mask), part)| part & mask == *value)
                }
                TransitionMatch::ValueSet(set, mask) => {
                    let masked: Vec<BigUint> = match mask {
                        Some(mask) => key.iter().zip(mask).map(|(part, mask)| part & mask).collect(),
                        None => key.clone(),
                    };
                    self.state.value_set_contains(*set, &masked, mask.as_deref())
                }
                TransitionMatch::Default => true,
            };
            if hit {
                taken = Some((index, transition.next));
                break;
            }
        }
        if self.tracer.wants() {
            let part = |(index, value): (usize, &BigUint)| KeyPart {
                name: format!("part {index}"),
                kind: String::new(),
                value: number(value),
            };
            let next = taken.and_then(|(_, next)| next).map(|next| parser.states[next.at()].name.clone());
            let key = key.iter().enumerate().map(part).collect();
            self.tracer.record(Event::Transition { key, taken: taken.map(|(index, _)| index), next });
        }
        match taken {
            Some((_, next)) => Ok(next),
            None => Err(ParserFault(self.plan.errors.no_match)),
        }
    }
}
