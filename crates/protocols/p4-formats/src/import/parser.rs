//! Parsers, value sets, deparsers.

use super::constant::{hex, hex_bytes};
use super::error::{Fault, Problem, Result, nearest};
use super::expr::{Context, FieldOrValid, Target};
use super::json::{Json, Kind};
use super::names::{Numbers, Scope};
use super::{Importer, MAX_ARRAY_SIZE, MAX_FIELD_BITS, MAX_HEADERS};
use barewire_p4::ir::{
    Deparser, Expr, FieldRef, HeaderRef, Parser, ParserOp, ParserState, StateId, Transition, TransitionMatch,
    UnaryOp, ValueSet, ValueSetId,
};
use num_bigint::{BigInt, BigUint};

const OPERATIONS: [&str; 7] = ["extract", "extract_VL", "set", "verify", "primitive", "shift", "advance"];
const CONTEXT: Context = Context { params: 0, parser: true, own: None };

impl Importer {
    pub(super) fn value_sets(&mut self, root: &Json<'_>) -> Result<()> {
        let mut ids = Numbers::new("value set number");
        for item in root.list("parse_vsets")? {
            let id = ValueSetId::from(self.program.value_sets.len());
            ids.add(item, id)?;
            let name = item.need_str("name")?;
            let bits = item.need("compressed_bitwidth")?.count("a value set's width", 1 << 16)?;
            let max_size = match item.get("max_size") {
                Some(size) => size.count("a value set's size", MAX_ARRAY_SIZE)?,
                None => 0,
            };
            self.names.value_sets.add(item.need("name")?, name, id)?;
            self.names.value_set_bits.push(bits);
            self.program.value_sets.push(ValueSet { name: name.to_owned(), widths: Vec::new(), max_size });
        }
        Ok(())
    }

    pub(super) fn parsers(&mut self, root: &Json<'_>) -> Result<()> {
        let (mut ids, mut names) = (Numbers::new("parser number"), Scope::new("parser"));
        for item in root.list("parsers")? {
            ids.add(item, ())?;
            names.add(item, item.need_str("name")?, ())?;
            let parser = self.parser(item)?;
            self.program.parsers.push(parser);
        }
        for (set, &bits) in self.program.value_sets.iter_mut().zip(&self.names.value_set_bits) {
            if set.widths.is_empty() {
                set.widths.push(bits);
            }
        }
        Ok(())
    }

    fn parser(&mut self, item: &Json<'_>) -> Result<Parser> {
        let list = item.list("parse_states")?;
        let (mut ids, mut names) = (Numbers::new("parse state number"), Scope::new("parse state"));
        for (index, state) in list.iter().enumerate() {
            ids.add(state, ())?;
            names.add(state, state.need_str("name")?, StateId::from(index))?;
        }
        let mut states = Vec::with_capacity(list.len());
        for state in list {
            let mut ops = Vec::new();
            for op in state.list("parser_ops")? {
                self.parser_op(op, &mut ops)?;
            }
            let key: Vec<(Expr, u32)> = state
                .list("transition_key")?
                .iter()
                .map(|part| self.key_part(part))
                .collect::<Result<_>>()?;
            let mut transitions = Vec::new();
            // As in bmv2, the default is tried last wherever it stands, and without one the packet is accepted.
            let mut default = None;
            for item in state.list("transitions")? {
                match self.transition(item, &key, &names)? {
                    Some(Transition { when: TransitionMatch::Default, next }) => default = next,
                    Some(transition) => transitions.push(transition),
                    None => {}
                }
            }
            transitions.push(Transition { when: TransitionMatch::Default, next: default });
            let name = state.need_str("name")?.to_owned();
            states.push(ParserState { name, ops, key, transitions });
        }
        let start = item.get("init_state").map(|start| names.at(start)).transpose()?;
        Ok(Parser { name: item.need_str("name")?.to_owned(), start, states })
    }

    fn parser_op(&mut self, item: &Json<'_>, ops: &mut Vec<ParserOp>) -> Result<()> {
        let op = item.need("op")?;
        let parameters = item.need("parameters")?;
        match op.str()? {
            "extract" => {
                let [target] = parameters.tuple::<1>("parameters of 'extract'")?;
                let header = self.extracted(target)?;
                let ty = self.program.type_of_ref(&header);
                let has_length = match &header {
                    HeaderRef::Header(id) => self.program.headers[id.at()].length_exp.is_some(),
                    HeaderRef::StackNext(stack) => {
                        let first = self.program.stacks[stack.at()].elements[0];
                        self.program.headers[first.at()].length_exp.is_some()
                    }
                    _ => false,
                };
                if self.program.header_types[ty.at()].varbit().is_some() && !has_length {
                    let text = "'extract' of a header with a varbit field and no length expression: use 'extract_VL'";
                    return Fault::value(target, text);
                }
                ops.push(ParserOp::Extract(header));
            }
            "extract_VL" => {
                let [target, bits] = parameters.tuple::<2>("parameters of 'extract_VL'")?;
                let header = self.extracted(target)?;
                let ty = self.program.type_of_ref(&header);
                if self.program.header_types[ty.at()].varbit().is_none() {
                    return Fault::value(target, "'extract_VL' of a header without a varbit field");
                }
                ops.push(ParserOp::ExtractVarbit { header, bits: self.int(bits, &CONTEXT)? });
            }
            "set" => {
                let [dst_at, src_at] = parameters.tuple::<2>("parameters of 'set'")?;
                let dst = self.target_field(dst_at, &CONTEXT)?;
                let stmt = match self.int(src_at, &CONTEXT)? {
                    Expr::Field(src) if self.is_varbit(&dst) => self.assign_varbit(item, dst, src)?,
                    value => self.assignment(Target::Field(dst), value),
                };
                ops.push(ParserOp::Stmt(stmt));
            }
            "verify" => {
                let [condition, error_at] = parameters.tuple::<2>("parameters of 'verify'")?;
                let condition = self.truth(condition, &CONTEXT)?;
                // Older files have a number instead of an expression.
                let error = match error_at.kind {
                    Kind::Int(code) => {
                        if !self.program.errors.iter().any(|(_, number)| i64::from(*number) == code) {
                            let name = code.to_string();
                            let problem = Problem::Unknown { kind: "error number", name, nearest: None };
                            return Err(Fault::new(error_at, problem));
                        }
                        Expr::Int(code.into())
                    }
                    _ => self.int(error_at, &CONTEXT)?,
                };
                ops.push(ParserOp::Verify { condition, error });
            }
            "primitive" => {
                let [primitive] = parameters.tuple::<1>("parameters of 'primitive'")?;
                if let name @ ("_jump" | "_jump_if_zero") = primitive.need_str("op")? {
                    return Fault::value(primitive, format!("'{name}' in a parser"));
                }
                let mut stmts = Vec::new();
                self.primitive(primitive, &CONTEXT, &mut stmts)?;
                ops.extend(stmts.into_iter().map(ParserOp::Stmt));
            }
            "shift" => {
                let [bytes] = parameters.tuple::<1>("parameters of 'shift'")?;
                let bits = u64::from(bytes.count("a shift in bytes", 1 << 20)?) * 8;
                ops.push(ParserOp::Advance { bits: Expr::Int(bits.into()) });
            }
            "advance" => {
                let [bits] = parameters.tuple::<1>("parameters of 'advance'")?;
                ops.push(ParserOp::Advance { bits: self.int(bits, &CONTEXT)? });
            }
            other => {
                let nearest = nearest(other, OPERATIONS);
                let problem = Problem::Unknown { kind: "parser operation", name: other.into(), nearest };
                return Err(Fault::new(op, problem));
            }
        }
        Ok(())
    }

    /// What an extract operation names.
    fn extracted(&self, at: &Json<'_>) -> Result<HeaderRef> {
        let (ty, value) = (at.need("type")?, at.need("value")?);
        match ty.str()? {
            "regular" => {
                let header = self.names.headers.at(value)?;
                if self.program.headers[header.at()].metadata {
                    return Fault::value(value, "metadata is never on the wire");
                }
                Ok(header.into())
            }
            "stack" => Ok(HeaderRef::StackNext(self.names.stacks.at(value)?)),
            "union_stack" => {
                let [stack, member] = value.tuple::<2>("a union stack's member (stack, member)")?;
                let stack = self.names.union_stacks.at(stack)?;
                Ok(HeaderRef::UnionStackNext(stack, self.union_member(stack, member)?))
            }
            other => {
                let nearest = nearest(other, ["regular", "stack", "union_stack"]);
                Err(Fault::new(ty, Problem::Unknown { kind: "extract type", name: other.into(), nearest }))
            }
        }
    }

    /// A part of a transition key, with its width.
    fn key_part(&self, at: &Json<'_>) -> Result<(Expr, u32)> {
        let (ty, value) = (at.need("type")?, at.need("value")?);
        let field = match ty.str()? {
            "field" => match self.field_or_valid(value)? {
                FieldOrValid::Field(field) => field,
                FieldOrValid::Valid(header) => {
                    return Ok((Expr::Unary(UnaryOp::BoolToInt, Box::new(Expr::Valid(header))), 1));
                }
            },
            "stack_field" => {
                let [stack, field] = value.tuple::<2>("a stack field (stack, field)")?;
                let stack = self.names.stacks.at(stack)?;
                let field = self.field_index(self.program.stacks[stack.at()].ty, field)?;
                FieldRef { header: HeaderRef::StackLast(stack), field }
            }
            "union_stack_field" => self.union_stack_field(value)?,
            "lookahead" => return self.lookahead(value),
            other => {
                let nearest = nearest(other, ["field", "stack_field", "union_stack_field", "lookahead"]);
                return Err(Fault::new(
                    ty,
                    Problem::Unknown { kind: "key type", name: other.into(), nearest },
                ));
            }
        };
        if self.is_varbit(&field) {
            return Fault::unsupported(at, "a varbit field in a transition key", "its width is not known");
        }
        let width = self.width_of(&field);
        let value = Expr::Field(field.clone());
        // Keys are compared as bits: a signed field's sign must not reach above them.
        if self.program.field_def_of_ref(&field).signed {
            let mask = (BigInt::from(1) << width) - 1;
            let masked =
                Expr::Binary(barewire_p4::ir::BinaryOp::BitAnd, Box::new(value), Box::new(Expr::Int(mask)));
            return Ok((masked, width));
        }
        Ok((value, width))
    }

    fn transition(
        &mut self,
        item: &Json<'_>,
        key: &[(Expr, u32)],
        names: &Scope<StateId>,
    ) -> Result<Option<Transition>> {
        let next = item.get("next_state").map(|next| names.at(next)).transpose()?;
        let ty = item.get("type").map_or(Ok("hexstr"), Json::str)?;
        let when = match ty {
            "default" => TransitionMatch::Default,
            "hexstr" if item.need_str("value")? == "default" => TransitionMatch::Default,
            "hexstr" => {
                let widths: Vec<u32> = key.iter().map(|(_, width)| *width).collect();
                let at = item.need("value")?;
                let values = self.split_bytes(at, &widths)?;
                let masks = match item.get("mask") {
                    Some(mask) => Some(self.split_bytes(mask, &widths)?),
                    None => None,
                };
                let mut parts = Vec::with_capacity(widths.len());
                for (index, (value, &width)) in values.into_iter().zip(&widths).enumerate() {
                    let all = (BigUint::from(1_u8) << width) - 1_u8;
                    // In bmv2 the padding bits are compared too; they are 0 in the key.
                    let (value, mask) = match &masks {
                        Some(masks) => (value & &masks[index], &masks[index] & &all),
                        None => (value, all),
                    };
                    if value.bits() > u64::from(width) {
                        self.note(at, "a transition that is never taken: its value is wider than the key");
                        return Ok(None);
                    }
                    parts.push((value, mask));
                }
                TransitionMatch::Masked(parts)
            }
            "parse_vset" => self.value_set_transition(item, key)?,
            other => {
                let nearest = nearest(other, ["default", "hexstr", "parse_vset"]);
                let problem = Problem::Unknown { kind: "transition type", name: other.into(), nearest };
                return Err(Fault::new(item.need("type")?, problem));
            }
        };
        Ok(Some(Transition { when, next }))
    }

    /// A constant that holds one number a part, each padded to whole bytes.
    fn split_bytes(&self, at: &Json<'_>, widths: &[u32]) -> Result<Vec<BigUint>> {
        let bytes = hex_bytes(at)?;
        let expected: usize = widths.iter().map(|width| width.div_ceil(8) as usize).sum();
        if bytes.len() != expected {
            return Fault::count(at, "bytes of a transition's value", expected.to_string(), bytes.len());
        }
        let mut rest = &bytes[..];
        Ok(widths
            .iter()
            .map(|width| {
                let (part, tail) = rest.split_at(width.div_ceil(8) as usize);
                rest = tail;
                BigUint::from_bytes_be(part)
            })
            .collect())
    }

    fn value_set_transition(&mut self, item: &Json<'_>, key: &[(Expr, u32)]) -> Result<TransitionMatch> {
        let at = item.need("value")?;
        let set = self.names.value_sets.at(at)?;
        let widths: Vec<u32> = key.iter().map(|(_, width)| *width).collect();
        let bits = self.names.value_set_bits[set.at()];
        let total: u64 = widths.iter().map(|&w| u64::from(w)).sum();
        if total != u64::from(bits) {
            return Fault::value(at, format!("a value set of {bits} bits tested with a key of {total} bits"));
        }
        let known = &mut self.program.value_sets[set.at()].widths;
        if known.is_empty() {
            known.clone_from(&widths);
        } else if *known != widths {
            let reason = "its values would have to be cut in two ways";
            return Fault::unsupported(at, "a value set tested with keys of different parts", reason);
        }
        let Some(mask) = item.get("mask") else { return Ok(TransitionMatch::ValueSet(set, None)) };
        let padded: usize = widths.iter().map(|width| width.div_ceil(8) as usize).sum();
        let count = hex_bytes(mask)?.len();
        let masks = if count == padded {
            let parts = self.split_bytes(mask, &widths)?;
            parts.into_iter().zip(&widths).map(|(m, &w)| m & ((BigUint::from(1_u8) << w) - 1_u8)).collect()
        } else if count == bits.div_ceil(8) as usize {
            // One number for all parts, without padding between them.
            let mut rest = hex(mask)?.magnitude().clone();
            let mut masks: Vec<BigUint> = widths
                .iter()
                .rev()
                .map(|&width| {
                    let all = (BigUint::from(1_u8) << width) - 1_u8;
                    let part = &rest & &all;
                    rest >>= width;
                    part
                })
                .collect();
            masks.reverse();
            masks
        } else {
            return Fault::count(mask, "bytes of a value set's mask", padded.to_string(), count);
        };
        Ok(TransitionMatch::ValueSet(set, Some(masks)))
    }

    pub(super) fn deparsers(&mut self, root: &Json<'_>) -> Result<()> {
        let (mut ids, mut names) = (Numbers::new("deparser number"), Scope::new("deparser"));
        for item in root.list("deparsers")? {
            ids.add(item, ())?;
            let name = item.need_str("name")?;
            names.add(item, name, ())?;
            let list = item.list("order")?;
            if list.len() > MAX_HEADERS as usize {
                let (value, limit) = (list.len() as u64, MAX_HEADERS.into());
                return Err(Fault::new(item, Problem::Limit { what: "headers to emit", value, limit }));
            }
            let mut order = Vec::new();
            for header in list {
                let id = self.names.headers.at(header)?;
                if self.program.headers[id.at()].metadata {
                    return Fault::value(header, "metadata is never on the wire");
                }
                order.push(id);
            }
            let stmts = self.body(item.list("primitives")?, 0)?;
            self.program.deparsers.push(Deparser { name: name.to_owned(), order, stmts });
        }
        Ok(())
    }
}

/// The widest key part; lookaheads and fields both obey it.
const _: () = assert!(MAX_FIELD_BITS <= 1 << 16);
