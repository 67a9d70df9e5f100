//! Parsers, deparsers, pipelines, tables.

use super::expr::Ahead;
use super::{Export, Result, hex};
use crate::import::OPTIONAL_KEY;
use barewire_p4::ir::{
    ActionCall, Expr, HeaderId, HeaderRef, KeyField, KeySource, MatchKind, NextNode, Node, NodeId, Parser,
    ParserOp, ParserState, Pipeline, StateId, Stmt, Table, TableActions, TableKind, TransitionMatch, UnaryOp,
    UnionRef,
};
use barewire_p4::key::MatchParam;
use num_bigint::BigUint;
use serde_json::{Map, Value, json};
use std::collections::HashSet;

fn op(name: &str, parameters: Vec<Value>) -> Value {
    object! { "op": name, "parameters": parameters }
}

/// Numbers one after another, each in whole bytes.
fn joined(parts: impl Iterator<Item = (BigUint, u32)>) -> String {
    let mut text = String::from("0x");
    for (value, width) in parts {
        let digits = width.div_ceil(8) as usize * 2;
        text += &format!("{:0>digits$}", value.to_str_radix(16));
    }
    text
}

impl Export<'_> {
    pub(super) fn parsers(&mut self) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for (id, parser) in self.program.parsers.iter().enumerate() {
            let names = state_names(parser);
            let mut states = Vec::new();
            for (at, state) in parser.states.iter().enumerate() {
                self.at("parser state", &state.name);
                let mut state = self.state(state, &names)?;
                state["name"] = json!(names[at]);
                state["id"] = json!(at);
                states.push(state);
            }
            // A selection that no case fits ends in an error of its own.
            if parser.states.iter().any(misses) {
                let Some((_, number)) = self.program.errors.iter().find(|(name, _)| name == "NoMatch") else {
                    return self
                        .refuse("a selection that no case fits, in a program without the error NoMatch");
                };
                let never = json!({ "type": "bool", "value": false });
                let error = json!({ "type": "hexstr", "value": hex(&(*number).into()) });
                states.push(json!({
                    "name": NO_MATCH,
                    "id": states.len(),
                    "parser_ops": [op("verify", vec![never, error])],
                    "transition_key": [],
                    "transitions": [always(None)],
                }));
            }
            let start = parser.start.map(|id| names[id.at()].clone());
            out.push(
                object! { "name": &*parser.name, "id": id, "init_state": start, "parse_states": states },
            );
        }
        Ok(out)
    }

    // bmv2 takes conditions as they are: in an `expression` it looks for an operation, and one that holds a literal crashes it.
    fn state(&mut self, state: &ParserState, names: &[String]) -> Result<Value> {
        let mut ops = Vec::new();
        for parser_op in &state.ops {
            let mut ahead = Ahead::new();
            let mut made = Vec::new();
            match parser_op {
                ParserOp::Extract(header) => made.push(op("extract", vec![self.extracted(header)?])),
                ParserOp::ExtractVarbit { header, bits } => {
                    let header = self.extracted(header)?;
                    let bits = self.operand(bits, Some(&mut ahead))?;
                    let bits = object! { "type": "expression", "value": bits };
                    made.push(op("extract_VL", vec![header, bits]));
                }
                ParserOp::Advance { bits } => {
                    let bits = self.param(bits, Some(&mut ahead))?;
                    made.push(op("advance", vec![bits]));
                }
                ParserOp::Verify { condition, error } => {
                    let condition = self.operand(condition, Some(&mut ahead))?;
                    let error = self.param(error, Some(&mut ahead))?;
                    made.push(op("verify", vec![condition, error]));
                }
                ParserOp::Stmt(Stmt::Assign { dst, value: Expr::Lookahead { offset, width } }) => {
                    let dst = self.place(dst, Some(&mut ahead))?;
                    let bits = json!({ "type": "lookahead", "value": [offset, width] });
                    made.push(op("set", vec![dst, bits]));
                }
                ParserOp::Stmt(Stmt::Assign { dst, value }) if dst.fixed().is_some() => {
                    let dst = self.place(dst, Some(&mut ahead))?;
                    made.push(op("set", vec![dst, self.param(value, Some(&mut ahead))?]));
                }
                ParserOp::Stmt(stmt) => {
                    let mut primitives = Vec::new();
                    self.stmt(stmt, Some(&mut ahead), &mut primitives)?;
                    made.extend(primitives.into_iter().map(|p| op("primitive", vec![p])));
                }
            }
            look(ahead, &mut ops);
            ops.append(&mut made);
        }
        let mut key = Vec::new();
        for (value, width) in &state.key {
            key.push(self.key_part(value, *width, &mut ops)?);
        }
        let widths: Vec<u32> = state.key.iter().map(|(_, width)| *width).collect();
        let next = |to: Option<StateId>| to.map(|id| names[id.at()].clone());
        let mut transitions = Vec::new();
        for transition in &state.transitions {
            transitions.push(match &transition.when {
                TransitionMatch::Default => always(next(transition.next)),
                TransitionMatch::Masked(parts) => {
                    let value = joined(parts.iter().map(|(value, _)| value.clone()).zip(widths.iter().copied()));
                    let mask = joined(parts.iter().map(|(_, mask)| mask.clone()).zip(widths.iter().copied()));
                    let all = |width: u32| (BigUint::from(1_u8) << width) - 1_u8;
                    let full = parts.iter().zip(&widths).all(|((_, mask), width)| *mask == all(*width));
                    let mask = if full { Value::Null } else { json!(mask) };
                    json!({ "type": "hexstr", "value": value, "mask": mask, "next_state": next(transition.next) })
                }
                TransitionMatch::ValueSet(set, masks) => {
                    let mask = masks
                        .as_ref()
                        .map(|masks| joined(masks.iter().cloned().zip(widths.iter().copied())));
                    let name = &self.program.value_sets[set.at()].name;
                    json!({
                        "type": "parse_vset", "value": name, "mask": mask, "next_state": next(transition.next),
                    })
                }
            });
            // What stands behind the default is never tried, while the format tries the default last.
            if transition.when == TransitionMatch::Default {
                break;
            }
        }
        if misses(state) {
            transitions.push(always(Some(NO_MATCH.to_owned())));
        }
        Ok(object! { "parser_ops": ops, "transition_key": key, "transitions": transitions })
    }

    /// A part of a key: a field, or bits ahead; what is computed goes to a field first.
    fn key_part(&mut self, value: &Expr, width: u32, ops: &mut Vec<Value>) -> Result<Value> {
        if let Expr::Lookahead { offset, width } = value {
            return Ok(json!({ "type": "lookahead", "value": [offset, width] }));
        }
        if let Expr::Field(field) = value {
            let def = self.program.field_def_of_ref(field);
            if !def.signed && def.bits() == width && !matches!(field.header, HeaderRef::StackElement(..)) {
                let part = self.operand(value, None)?;
                if part["type"] != "expression" {
                    return Ok(part);
                }
            }
        }
        let temp = self.temp(width);
        let mut ahead = Ahead::new();
        let value = self.param(value, Some(&mut ahead))?;
        look(ahead, ops);
        ops.push(op("set", vec![json!({ "type": "field", "value": temp }), value]));
        Ok(json!({ "type": "field", "value": temp }))
    }

    fn extracted(&self, header: &HeaderRef) -> Result<Value> {
        Ok(match header {
            HeaderRef::Header(id) => json!({ "type": "regular", "value": self.header_name(*id) }),
            HeaderRef::StackNext(id) => {
                json!({ "type": "stack", "value": self.program.stacks[id.at()].name })
            }
            HeaderRef::UnionStackNext(id, member) => {
                let stack = &self.program.union_stacks[id.at()].name;
                json!({ "type": "union_stack", "value": [stack, self.member_name(*id, *member)] })
            }
            _ => return self.refuse("an element of a stack is extracted that only the packet chooses"),
        })
    }

    pub(super) fn deparsers(&mut self) -> Result<Vec<Value>> {
        let mut out = Vec::new();
        for (id, deparser) in self.program.deparsers.iter().enumerate() {
            self.at("deparser", &deparser.name);
            let order: Vec<&str> = deparser.order.iter().map(|id| self.header_name(*id)).collect();
            if deparser.stmts.iter().any(|stmt| self.resizes(stmt, &deparser.order)) {
                // It would write beyond that room.
                return self.refuse(
                    "the deparser changes how long the headers are that it emits: bmv2 makes room for them before",
                );
            }
            let primitives = self.body(&deparser.stmts)?;
            out.push(object! { "name": &*deparser.name, "id": id, "order": order, "primitives": primitives });
        }
        Ok(out)
    }

    /// Whether a statement may change how many bytes the headers of `order` have together.
    fn resizes(&self, stmt: &Stmt, order: &[HeaderId]) -> bool {
        let (stacks, unions) = (&self.program.stacks, &self.program.unions);
        let among = |headers: &[HeaderId]| headers.iter().any(|id| order.contains(id));
        match stmt {
            Stmt::CopyHeader { dst, .. } | Stmt::SetValid(dst) | Stmt::SetInvalid(dst) => match dst {
                HeaderRef::Header(id) => among(&[*id]),
                HeaderRef::StackElement(stack, _) => among(&stacks[stack.at()].elements),
                _ => true,
            },
            Stmt::CopyStack { dst: stack, .. } | Stmt::Push { stack, .. } | Stmt::Pop { stack, .. } => {
                among(&stacks[stack.at()].elements)
            }
            Stmt::CopyUnion { dst: UnionRef::Union(id), .. } => among(&unions[id.at()].members),
            Stmt::AssignVarbit { dst, .. } => dst.fixed().is_none_or(|field| among(&[field.header])),
            Stmt::CopyUnion { .. }
            | Stmt::CopyUnionStack { .. }
            | Stmt::PushUnions { .. }
            | Stmt::PopUnions { .. } => true,
            _ => false,
        }
    }

    pub(super) fn pipelines(&mut self) -> Result<Vec<Value>> {
        let mut placed = HashSet::new();
        let mut profiles_placed = HashSet::new();
        let mut out = Vec::new();
        for (id, pipeline) in self.program.pipelines.iter().enumerate() {
            let names = self.node_names(pipeline);
            let name = |node: Option<NodeId>| node.map(|node| names[node.at()].clone());
            let (mut tables, mut conditionals, mut calls) = (Vec::new(), Vec::new(), Vec::new());
            let mut profiles = Vec::new();
            for (at, node) in pipeline.nodes.iter().enumerate() {
                match node {
                    Node::Table { table, next } => {
                        let def = &self.program.tables[table.at()];
                        self.at("table", &def.name);
                        if !placed.insert(*table) {
                            return self.refuse("the table is applied in two places");
                        }
                        if let TableActions::Profile(profile) = def.source
                            && profiles_placed.insert(profile)
                        {
                            profiles.push(profile);
                        }
                        let mut object = self.table(def)?;
                        object["id"] = json!(table.0);
                        match next {
                            NextNode::ByHit { hit, miss } => {
                                object["base_default_next"] = Value::Null;
                                object["next_tables"] =
                                    json!({ "__HIT__": name(*hit), "__MISS__": name(*miss) });
                            }
                            NextNode::ByAction { by_action, default } => {
                                let mut next = Map::new();
                                for action in &def.actions {
                                    let to = by_action.iter().find(|(known, _)| known == action);
                                    let to = to.map_or(*default, |(_, to)| *to);
                                    let action = &self.program.actions[action.at()].name;
                                    if next.insert(action.clone(), json!(name(to))).is_some() {
                                        return self.refuse(format!("two actions with the name '{action}'"));
                                    }
                                }
                                object["base_default_next"] = json!(name(*default));
                                object["next_tables"] = Value::Object(next);
                            }
                        }
                        tables.push(object);
                    }
                    Node::If { condition, then, otherwise, .. } => {
                        self.at("condition", &names[at]);
                        let condition = self.operand(condition, None)?;
                        conditionals.push(object! {
                            "name": &*names[at], "id": conditionals.len(), "expression": condition,
                            "true_next": name(*then), "false_next": name(*otherwise),
                        });
                    }
                    Node::Call { action, next, .. } => calls.push(json!({
                        "name": names[at], "id": calls.len(), "action_id": action.0, "next_node": name(*next),
                    })),
                }
            }
            let mut profile_list = Vec::new();
            for id in profiles {
                let profile = &self.program.profiles[id.at()];
                self.at("action profile", &profile.name);
                let mut object = json!({ "name": profile.name, "id": id.0, "max_size": profile.max_size });
                if let Some(selector) = &profile.selector {
                    let input = self.inputs(&selector.input, None)?;
                    let algo = self.algorithm(selector.algorithm)?;
                    object["selector"] = json!({ "algo": algo, "input": input });
                }
                profile_list.push(object);
            }
            out.push(object! {
                "name": &*pipeline.name,
                "id": id,
                "init_table": name(pipeline.start),
                "tables": tables,
                "action_profiles": profile_list,
                "conditionals": conditionals,
                "action_calls": calls,
            });
        }
        Ok(out)
    }

    /// Tables go by their names; other nodes get one that nothing has.
    fn node_names(&mut self, pipeline: &Pipeline) -> Vec<String> {
        let mut out = Vec::new();
        for node in &pipeline.nodes {
            let wanted = match node {
                Node::Table { table, .. } => {
                    out.push(self.program.tables[table.at()].name.clone());
                    continue;
                }
                Node::If { .. } => String::from("node"),
                Node::Call { name, .. } => name.clone(),
            };
            let mut name = wanted.clone();
            let mut count = 1;
            while !self.nodes.insert(name.clone()) {
                count += 1;
                name = format!("{wanted}_{count}");
            }
            out.push(name);
        }
        out
    }

    fn key_field(&mut self, field: &KeyField) -> Result<Value> {
        let target = match &field.source {
            KeySource::Field(source) => match source.fixed() {
                Some(id) => self.field_id(id),
                None => self.operand(&Expr::Field(source.clone()), None)?,
            },
            KeySource::Valid(HeaderRef::Header(id)) if field.kind == MatchKind::Valid => {
                json!(self.header_name(*id))
            }
            KeySource::Valid(HeaderRef::Header(id)) => json!([self.header_name(*id), "$valid$"]),
            KeySource::Valid(header) => {
                let valid = Box::new(Expr::Valid(header.clone()));
                self.operand(&Expr::Unary(UnaryOp::BoolToInt, valid), None)?
            }
        };
        let mask = field.mask.as_ref().map(hex);
        let mut key = object! {
            "match_type": match_name(field.kind), "name": &*field.name, "target": target, "mask": mask,
        };
        if field.kind == MatchKind::Optional {
            key[OPTIONAL_KEY] = json!(true);
        }
        Ok(key)
    }

    fn call(&self, call: &ActionCall) -> Vec<String> {
        call.args.iter().map(hex).collect()
    }

    fn table(&mut self, table: &Table) -> Result<Value> {
        let mut key = Vec::new();
        for field in &table.key {
            key.push(self.key_field(field)?);
        }
        let kind = match table.kind {
            TableKind::Exact => "exact",
            TableKind::Lpm => "lpm",
            TableKind::Ternary => "ternary",
            TableKind::Range => "range",
        };
        let names: Vec<&str> =
            table.actions.iter().map(|id| self.program.actions[id.at()].name.as_str()).collect();
        let ids: Vec<u32> = table.actions.iter().map(|id| id.0).collect();
        let mut object = object! {
            "name": &*table.name,
            "key": key,
            "match_type": kind,
            "type": "simple",
            "max_size": table.max_size,
            "with_counters": table.counter.is_some(),
            "support_timeout": table.support_timeout,
            "direct_meters": table.meter.map(|id| self.program.meters[id.at()].name.clone()),
            "action_ids": ids,
            "actions": names,
        };
        if let TableActions::Profile(profile) = table.source {
            let profile = &self.program.profiles[profile.at()];
            object["type"] = json!(if profile.selector.is_some() { "indirect_ws" } else { "indirect" });
            object["action_profile"] = json!(profile.name);
        }
        if let Some(default) = &table.default {
            // bmv2 refuses a constant action where the actions are members'.
            let action_const = table.default_action_const && object["type"] == "simple";
            object["default_entry"] = json!({
                "action_id": default.action.0,
                "action_const": action_const,
                "action_data": self.call(default),
                "action_entry_const": table.default_entry_const,
            });
        }
        if !table.entries.is_empty() || table.immutable {
            let mut entries = Vec::new();
            for (at, entry) in table.entries.iter().enumerate() {
                let fields: Vec<Value> =
                    entry.key.iter().zip(&table.key).map(|(param, field)| match_key(param, field)).collect();
                let priority = if entry.priority == 0 { at as u32 + 1 } else { entry.priority };
                entries.push(object! {
                    "match_key": fields,
                    "action_entry": object! {
                        "action_id": entry.call.action.0, "action_data": self.call(&entry.call),
                    },
                    "priority": priority,
                });
            }
            object["entries"] = Value::Array(entries);
        }
        Ok(object)
    }
}

/// The state that stands for a selection that no case fits.
const NO_MATCH: &str = "$no_match";

/// A selection that may fit no case.
fn misses(state: &ParserState) -> bool {
    !state.transitions.iter().any(|transition| transition.when == TransitionMatch::Default)
}

fn always(next: Option<String>) -> Value {
    json!({ "type": "default", "value": Value::Null, "mask": Value::Null, "next_state": next })
}

/// Looks ahead before what needs it.
fn look(ahead: Ahead, ops: &mut Vec<Value>) {
    for (temp, (offset, width)) in ahead {
        let bits = json!({ "type": "lookahead", "value": [offset, width] });
        ops.push(op("set", vec![json!({ "type": "field", "value": temp }), bits]));
    }
}

/// States by names that nothing else has.
fn state_names(parser: &Parser) -> Vec<String> {
    let mut seen = HashSet::from([NO_MATCH.to_owned()]);
    let mut out = Vec::new();
    for state in &parser.states {
        let mut name = state.name.clone();
        while !seen.insert(name.clone()) {
            name.push('_');
        }
        out.push(name);
    }
    out
}

fn padded(value: &BigUint, width: u32) -> String {
    joined(std::iter::once((value.clone(), width)))
}

/// bmv2 knows no optional keys; p4c writes them as ternary ones, and so do we.
fn match_name(kind: MatchKind) -> &'static str {
    if kind == MatchKind::Optional { MatchKind::Ternary.name() } else { kind.name() }
}

fn match_key(param: &MatchParam, field: &KeyField) -> Value {
    let (kind, width) = (match_name(field.kind), field.width);
    match param {
        MatchParam::Exact(value) => json!({ "match_type": kind, "key": padded(value, width) }),
        MatchParam::Valid(valid) => json!({ "match_type": kind, "key": valid }),
        MatchParam::Lpm { value, prefix_len } => {
            json!({ "match_type": kind, "key": padded(value, width), "prefix_length": prefix_len })
        }
        MatchParam::Ternary { value, mask } => {
            json!({ "match_type": kind, "key": padded(value, width), "mask": padded(mask, width) })
        }
        MatchParam::Range { low, high } => {
            json!({ "match_type": kind, "start": padded(low, width), "end": padded(high, width) })
        }
    }
}
