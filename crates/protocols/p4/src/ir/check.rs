//! Whether a program keeps the rules that engines rely on: every front end's output must pass.
//!
//! After it, an engine needs no check of its own: indices are in range, truth values and numbers are where they
//! belong, jumps stay in their action, constants fit, and pipelines end.

use super::{
    ActionCall, ActionId, CalcInput, Expr, FieldId, FieldRef, HashSource, HeaderId, HeaderRef, KeySource,
    ListItem, MatchKind, NextNode, Node, NodeId, ParserOp, Pipeline, Program, StateId, Stmt, TableActions,
    TransitionMatch, UnaryOp, UnionRef, Width,
};
use super::{BinaryOp, HeaderTypeId};
use crate::key::MatchParam;
use num_bigint::BigUint;

/// A rule that a program breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {rule}")]
pub struct CheckError {
    /// The object: kind and name.
    pub place: String,
    /// The rule.
    pub rule: String,
}

type Check = Result<(), String>;

fn rule(holds: bool, text: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(text()) }
}

fn index<T>(at: usize, list: &[T], what: &str) -> Check {
    rule(at < list.len(), || format!("{what} {at} of {}", list.len()))
}

/// Where an expression stands.
#[derive(Clone, Copy)]
struct Scope {
    params: usize,
    parser: bool,
    /// Tables may be applied.
    tables: bool,
}

const OUTSIDE: Scope = Scope { params: 0, parser: false, tables: false };
const PARSER: Scope = Scope { params: 0, parser: true, tables: false };

impl Program {
    /// Check every rule.
    ///
    /// # Errors
    /// The first rule that is broken, and where.
    pub fn check(&self) -> Result<(), CheckError> {
        let named = |kind: &str, name: &str, result: Check| {
            result.map_err(|rule| CheckError { place: format!("{kind} '{name}'"), rule })
        };
        for ty in &self.header_types {
            let varbits = ty.fields.iter().filter(|f| matches!(f.width, Width::Varbit(_))).count();
            named("header type", &ty.name, rule(varbits <= 1, || "several varbit fields".into()))?;
        }
        for header in &self.headers {
            named("header", &header.name, index(header.ty.at(), &self.header_types, "header type"))?;
        }
        for stack in &self.stacks {
            named("header stack", &stack.name, self.check_elements(&stack.elements, Some(stack.ty)))?;
        }
        for union in &self.unions {
            let same =
                rule(union.members.len() == union.member_names.len(), || "names do not fit members".into());
            named("header union", &union.name, same.and(self.check_elements(&union.members, None)))?;
        }
        for stack in &self.union_stacks {
            named("union stack", &stack.name, self.check_union_stack(&stack.elements))?;
        }
        for header in &self.headers {
            if let Some(length) = &header.length_exp {
                named("header", &header.name, self.int(length, OUTSIDE))?;
            }
        }
        for (name, field) in &self.field_aliases {
            named("alias", name, self.check_field(*field))?;
        }
        for list in &self.field_lists {
            for item in &list.items {
                if let ListItem::Field(field) = item {
                    let fixed = rule(field.fixed().is_some(), || "a field of a stack's element".into());
                    named("field list", &list.name, self.field_ref(field, OUTSIDE).and(fixed))?;
                }
            }
        }
        for list in &self.learn_lists {
            for (input, _) in &list.items {
                // Digests are made where no expression is evaluated.
                let plain = match input {
                    CalcInput::Field(field) => field.fixed().is_some(),
                    CalcInput::Expr { value, .. } => value.fixed_validity().is_some(),
                    CalcInput::Const { .. } => true,
                    CalcInput::Header(_) | CalcInput::Payload => false,
                };
                let plain = rule(plain, || "neither a field nor a constant nor a header's validity".into());
                named("learn list", &list.name, self.input(input, OUTSIDE).and(plain))?;
            }
        }
        for calculation in &self.calculations {
            named("calculation", &calculation.name, self.inputs(&calculation.input, OUTSIDE))?;
        }
        for meter in &self.meters {
            if let Some(field) = &meter.result {
                named("meter", &meter.name, self.field_ref(field, OUTSIDE))?;
            }
        }
        for profile in &self.profiles {
            if let Some(selector) = &profile.selector {
                named("action profile", &profile.name, self.inputs(&selector.input, OUTSIDE))?;
            }
        }
        for parser in &self.parsers {
            named("parser", &parser.name, self.check_parser(parser))?;
        }
        for deparser in &self.deparsers {
            let order = deparser.order.iter().try_for_each(|id| index(id.at(), &self.headers, "header"));
            named("deparser", &deparser.name, order.and_then(|()| self.body(&deparser.stmts, OUTSIDE)))?;
        }
        // An action that a table runs applies none, or it could go on for ever.
        let mut run = vec![false; self.actions.len()];
        for table in &self.tables {
            let called = table.default.iter().chain(table.entries.iter().map(|entry| &entry.call));
            for id in table.actions.iter().copied().chain(called.map(|call| call.action)) {
                if let Some(run) = run.get_mut(id.at()) {
                    *run = true;
                }
            }
        }
        for (action, run) in self.actions.iter().zip(run) {
            let scope = Scope { params: action.params.len(), parser: false, tables: !run };
            named("action", &action.name, self.body(&action.body, scope))?;
        }
        for table in &self.tables {
            named("table", &table.name, self.check_table(table))?;
        }
        for pipeline in &self.pipelines {
            named("pipeline", &pipeline.name, self.check_pipeline(pipeline))?;
        }
        for checksum in &self.checksums {
            let result = self
                .field_ref(&checksum.target, OUTSIDE)
                .and_then(|()| index(checksum.calculation.at(), &self.calculations, "calculation"))
                .and_then(|()| checksum.condition.as_ref().map_or(Ok(()), |c| self.truth(c, OUTSIDE)));
            named("checksum", &checksum.name, result)?;
        }
        Ok(())
    }

    fn check_elements(&self, elements: &[HeaderId], ty: Option<HeaderTypeId>) -> Check {
        rule(!elements.is_empty(), || "no elements".into())?;
        for element in elements {
            index(element.at(), &self.headers, "header")?;
            let header = &self.headers[element.at()];
            rule(ty.is_none_or(|ty| ty == header.ty), || format!("'{}' is of another type", header.name))?;
            rule(!header.metadata, || format!("'{}' is metadata", header.name))?;
        }
        Ok(())
    }

    fn check_union_stack(&self, elements: &[super::UnionId]) -> Check {
        rule(!elements.is_empty(), || "no elements".into())?;
        for element in elements {
            index(element.at(), &self.unions, "union")?;
        }
        let types = |union: super::UnionId| -> Vec<HeaderTypeId> {
            self.unions[union.at()].members.iter().map(|m| self.headers[m.at()].ty).collect()
        };
        let first = types(elements[0]);
        rule(elements.iter().all(|e| types(*e) == first), || "unions of different types".into())
    }

    fn check_field(&self, field: FieldId) -> Check {
        index(field.header.at(), &self.headers, "header")?;
        index(field.field as usize, &self.header_type_of(field.header).fields, "field")
    }

    fn header_ref(&self, header: &HeaderRef, scope: Scope) -> Check {
        let member = |stack: super::UnionStackId, member: u32| {
            index(stack.at(), &self.union_stacks, "union stack")?;
            let first = self.union_stacks[stack.at()].elements[0];
            index(member as usize, &self.unions[first.at()].members, "member")
        };
        match header {
            HeaderRef::Header(id) => index(id.at(), &self.headers, "header"),
            HeaderRef::StackNext(stack) | HeaderRef::StackLast(stack) => {
                index(stack.at(), &self.stacks, "stack")
            }
            HeaderRef::StackElement(stack, at) => {
                index(stack.at(), &self.stacks, "stack")?;
                self.int(at, scope)
            }
            HeaderRef::UnionStackNext(stack, m) | HeaderRef::UnionStackLast(stack, m) => member(*stack, *m),
            HeaderRef::UnionStackElement(stack, at, m) => {
                member(*stack, *m)?;
                self.int(at, scope)
            }
        }
    }

    fn union_ref(&self, union: &UnionRef, scope: Scope) -> Check {
        match union {
            UnionRef::Union(id) => index(id.at(), &self.unions, "union"),
            UnionRef::Element(stack, at) => {
                index(stack.at(), &self.union_stacks, "union stack")?;
                self.int(at, scope)
            }
        }
    }

    fn members_of(&self, union: &UnionRef) -> usize {
        let id = match union {
            UnionRef::Union(id) => *id,
            UnionRef::Element(stack, _) => self.union_stacks[stack.at()].elements[0],
        };
        self.unions[id.at()].members.len()
    }

    fn field_ref(&self, field: &FieldRef, scope: Scope) -> Check {
        self.header_ref(&field.header, scope)?;
        let ty = self.type_of_ref(&field.header);
        index(field.field as usize, &self.header_types[ty.at()].fields, "field")
    }

    fn int(&self, value: &Expr, scope: Scope) -> Check {
        rule(!self.is_truth(value, scope)?, || "a truth value stands for a number".into())
    }

    fn truth(&self, value: &Expr, scope: Scope) -> Check {
        rule(self.is_truth(value, scope)?, || "a number stands for a truth value".into())
    }

    fn same_fields(&self, left: &HeaderRef, right: &HeaderRef) -> Check {
        let count = |header: &HeaderRef| self.header_types[self.type_of_ref(header).at()].fields.len();
        rule(count(left) == count(right), || "headers of different types".into())
    }

    fn same_depth(&self, left: usize, right: usize) -> Check {
        rule(left == right, || "stacks of different depth".into())
    }

    /// Whether an expression is a truth value; an error if its parts do not fit.
    fn is_truth(&self, value: &Expr, scope: Scope) -> Result<bool, String> {
        Ok(match value {
            Expr::Int(_) => false,
            Expr::Bool(_) => true,
            Expr::Field(field) => {
                self.field_ref(field, scope)?;
                false
            }
            Expr::Param(param) => {
                rule((*param as usize) < scope.params, || format!("parameter {param} of {}", scope.params))?;
                false
            }
            Expr::Unary(op, value) => match op {
                UnaryOp::Neg | UnaryOp::BitNot => self.int(value, scope).map(|()| false)?,
                UnaryOp::Not => self.truth(value, scope).map(|()| true)?,
                UnaryOp::BoolToInt => self.truth(value, scope).map(|()| false)?,
                UnaryOp::IntToBool => self.int(value, scope).map(|()| true)?,
            },
            Expr::Binary(BinaryOp::And | BinaryOp::Or, left, right) => {
                self.truth(left, scope)?;
                self.truth(right, scope)?;
                true
            }
            Expr::Binary(op, left, right) => {
                self.int(left, scope)?;
                self.int(right, scope)?;
                use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
                matches!(op, Eq | Ne | Lt | Le | Gt | Ge)
            }
            Expr::Select(condition, then, otherwise) => {
                self.truth(condition, scope)?;
                let kind = self.is_truth(then, scope)?;
                rule(kind == self.is_truth(otherwise, scope)?, || "branches of different kinds".into())?;
                kind
            }
            Expr::Valid(header) => self.header_ref(header, scope).map(|()| true)?,
            Expr::UnionValid(union) => self.union_ref(union, scope).map(|()| true)?,
            Expr::Wrap { value, width } | Expr::Saturate { value, width, .. } => {
                rule(*width > 0, || "a cast to no bits".into())?;
                self.int(value, scope).map(|()| false)?
            }
            Expr::LastIndex(stack) | Expr::StackSize(stack) => {
                index(stack.at(), &self.stacks, "stack").map(|()| false)?
            }
            Expr::HeadersEqual(left, right) => {
                self.header_ref(left, scope)?;
                self.header_ref(right, scope)?;
                self.same_fields(left, right).map(|()| true)?
            }
            Expr::UnionsEqual(left, right) => {
                self.union_ref(left, scope)?;
                self.union_ref(right, scope)?;
                self.same_depth(self.members_of(left), self.members_of(right)).map(|()| true)?
            }
            Expr::StacksEqual(left, right) => self.stacks(*left, *right).map(|()| true)?,
            Expr::UnionStacksEqual(left, right) => self.union_stack_pair(*left, *right).map(|()| true)?,
            Expr::Register { register, index: at } => {
                index(register.at(), &self.registers, "register")?;
                self.int(at, scope).map(|()| false)?
            }
            Expr::Lookahead { .. } => {
                rule(scope.parser, || "a lookahead outside a parser".into()).map(|()| false)?
            }
        })
    }

    fn stacks(&self, left: super::StackId, right: super::StackId) -> Check {
        index(left.at(), &self.stacks, "stack")?;
        index(right.at(), &self.stacks, "stack")?;
        let (left, right) = (&self.stacks[left.at()], &self.stacks[right.at()]);
        self.same_fields(&left.elements[0].into(), &right.elements[0].into())?;
        self.same_depth(left.elements.len(), right.elements.len())
    }

    fn union_stack_pair(&self, left: super::UnionStackId, right: super::UnionStackId) -> Check {
        index(left.at(), &self.union_stacks, "union stack")?;
        index(right.at(), &self.union_stacks, "union stack")?;
        let (left, right) = (&self.union_stacks[left.at()].elements, &self.union_stacks[right.at()].elements);
        self.same_depth(self.unions[left[0].at()].members.len(), self.unions[right[0].at()].members.len())?;
        self.same_depth(left.len(), right.len())
    }

    fn input(&self, input: &CalcInput, scope: Scope) -> Check {
        match input {
            CalcInput::Field(field) => self.field_ref(field, scope),
            CalcInput::Header(header) => self.header_ref(header, scope),
            CalcInput::Expr { value, .. } => self.int(value, scope),
            CalcInput::Const { value, width } => fits(value, *width),
            CalcInput::Payload => Ok(()),
        }
    }

    fn inputs(&self, list: &[CalcInput], scope: Scope) -> Check {
        list.iter().try_for_each(|input| self.input(input, scope))
    }

    fn body(&self, body: &[Stmt], scope: Scope) -> Check {
        for stmt in body {
            if let Stmt::Jump(target) | Stmt::JumpUnless { target, .. } = stmt {
                rule(!scope.parser, || "a jump in a parser".into())?;
                rule(*target <= body.len(), || format!("a jump to statement {target} of {}", body.len()))?;
            }
            self.stmt(stmt, scope)?;
        }
        Ok(())
    }

    fn stmt(&self, stmt: &Stmt, scope: Scope) -> Check {
        let int = |value: &Expr| self.int(value, scope);
        let field = |field: &FieldRef| self.field_ref(field, scope);
        let unit = |unit: super::ChecksumUnitId| index(unit.at(), &self.checksum_units, "checksum unit");
        let list = |list: &Option<super::FieldListId>| {
            list.map_or(Ok(()), |list| index(list.at(), &self.field_lists, "field list"))
        };
        match stmt {
            Stmt::Assign { dst, value } => field(dst).and_then(|()| int(value)),
            Stmt::AssignVarbit { dst, src } => {
                field(dst).and_then(|()| field(src))?;
                let varbit = |f: &FieldRef| matches!(self.field_def_of_ref(f).width, Width::Varbit(_));
                rule(varbit(dst) && varbit(src), || "a varbit copy of a field that is none".into())
            }
            Stmt::CopyHeader { dst, src } => {
                self.header_ref(dst, scope)?;
                self.header_ref(src, scope)?;
                self.same_fields(dst, src)
            }
            Stmt::CopyUnion { dst, src } => {
                self.union_ref(dst, scope)?;
                self.union_ref(src, scope)?;
                self.same_depth(self.members_of(dst), self.members_of(src))
            }
            Stmt::CopyStack { dst, src } => self.stacks(*dst, *src),
            Stmt::CopyUnionStack { dst, src } => self.union_stack_pair(*dst, *src),
            Stmt::SetValid(header) | Stmt::SetInvalid(header) => self.header_ref(header, scope),
            Stmt::Push { stack, .. } | Stmt::Pop { stack, .. } => index(stack.at(), &self.stacks, "stack"),
            Stmt::PushUnions { stack, .. } | Stmt::PopUnions { stack, .. } => {
                index(stack.at(), &self.union_stacks, "union stack")
            }
            Stmt::JumpUnless { condition, .. } | Stmt::Assert(condition) | Stmt::Assume(condition) => {
                self.truth(condition, scope)
            }
            Stmt::Log { args, .. } => args.iter().try_for_each(int),
            Stmt::Count { counter, index: at } => {
                index(counter.at(), &self.counters, "counter").and_then(|()| int(at))
            }
            Stmt::Meter { meter, index: at, precolor, dst } => {
                index(meter.at(), &self.meters, "meter").and_then(|()| int(at))?;
                precolor.as_ref().map_or(Ok(()), int)?;
                dst.as_ref().map_or(Ok(()), field)
            }
            Stmt::RegisterRead { dst, register, index: at } => {
                index(register.at(), &self.registers, "register")?;
                field(dst).and_then(|()| int(at))
            }
            Stmt::RegisterWrite { register, index: at, value } => {
                index(register.at(), &self.registers, "register")?;
                int(at).and_then(|()| int(value))
            }
            Stmt::Random { dst, low, high } => field(dst).and_then(|()| int(low)).and_then(|()| int(high)),
            Stmt::Hash { dst, source, base, max } => {
                field(dst)?;
                match source {
                    HashSource::Calculation(id) => index(id.at(), &self.calculations, "calculation")?,
                    HashSource::Inline { input, .. } => self.inputs(input, scope)?,
                }
                base.as_ref().map_or(Ok(()), int)?;
                max.as_ref().map_or(Ok(()), int)
            }
            Stmt::Digest { list } => index(list.at(), &self.learn_lists, "learn list"),
            Stmt::CloneIngress { session, fields } | Stmt::CloneEgress { session, fields } => {
                int(session).and_then(|()| list(fields))
            }
            Stmt::Resubmit { fields } | Stmt::Recirculate { fields } => list(fields),
            Stmt::Truncate { len } => int(len),
            Stmt::ChecksumClear(id) => unit(*id),
            Stmt::ChecksumAdd { unit: id, input } | Stmt::ChecksumSubtract { unit: id, input } => {
                unit(*id).and_then(|()| self.inputs(input, scope))
            }
            Stmt::ChecksumGet { unit: id, dst } | Stmt::ChecksumGetState { unit: id, dst } => {
                unit(*id).and_then(|()| field(dst))
            }
            Stmt::ChecksumVerify { unit: id, dst, equals } => {
                unit(*id).and_then(|()| field(dst)).and_then(|()| int(equals))
            }
            Stmt::ChecksumSetState { unit: id, value } => unit(*id).and_then(|()| int(value)),
            Stmt::Apply { table, hit, ran } => {
                rule(scope.tables, || "a table is applied here".into())?;
                index(table.at(), &self.tables, "table")?;
                hit.iter().chain(ran).try_for_each(field)
            }
            Stmt::Jump(_) | Stmt::Exit | Stmt::NoOp => Ok(()),
            Stmt::MarkToDrop { egress_spec, mcast_grp } => {
                egress_spec.iter().chain(mcast_grp).try_for_each(|id| field(&(*id).into()))
            }
        }
    }

    fn check_parser(&self, parser: &super::Parser) -> Check {
        let state = |id: Option<StateId>| id.map_or(Ok(()), |id| index(id.at(), &parser.states, "state"));
        state(parser.start)?;
        for parser_state in &parser.states {
            for op in &parser_state.ops {
                match op {
                    ParserOp::Extract(header) => self.header_ref(header, PARSER)?,
                    ParserOp::ExtractVarbit { header, bits } => {
                        self.header_ref(header, PARSER)?;
                        let ty = &self.header_types[self.type_of_ref(header).at()];
                        rule(ty.varbit().is_some(), || format!("'{}' has no varbit field", ty.name))?;
                        self.int(bits, PARSER)?;
                    }
                    ParserOp::Advance { bits } => self.int(bits, PARSER)?,
                    ParserOp::Verify { condition, error } => {
                        self.truth(condition, PARSER).and_then(|()| self.int(error, PARSER))?;
                    }
                    ParserOp::Stmt(stmt) => self.body(std::slice::from_ref(stmt), PARSER)?,
                }
            }
            parser_state.key.iter().try_for_each(|(value, _)| self.int(value, PARSER))?;
            let widths: Vec<u32> = parser_state.key.iter().map(|(_, width)| *width).collect();
            for transition in &parser_state.transitions {
                state(transition.next)?;
                match &transition.when {
                    TransitionMatch::Default | TransitionMatch::ValueSet(_, None) => {}
                    TransitionMatch::Masked(parts) => {
                        rule(parts.len() == widths.len(), || {
                            "a transition's parts do not fit the key".into()
                        })?;
                        for ((value, mask), &width) in parts.iter().zip(&widths) {
                            fits(mask, width)?;
                            rule(&(value & mask) == value, || {
                                "a transition's value has bits not masked".into()
                            })?;
                        }
                    }
                    TransitionMatch::ValueSet(_, Some(masks)) => {
                        rule(masks.len() == widths.len(), || {
                            "a value set's mask does not fit the key".into()
                        })?;
                    }
                }
                if let TransitionMatch::ValueSet(set, _) = &transition.when {
                    index(set.at(), &self.value_sets, "value set")?;
                    let set = &self.value_sets[set.at()];
                    rule(set.widths == widths, || format!("value set '{}' does not fit the key", set.name))?;
                }
            }
        }
        Ok(())
    }

    fn call(&self, call: &ActionCall) -> Check {
        index(call.action.at(), &self.actions, "action")?;
        let action = &self.actions[call.action.at()];
        rule(call.args.len() == action.params.len(), || format!("arguments of '{}'", action.name))?;
        call.args.iter().zip(&action.params).try_for_each(|(arg, param)| fits(arg, param.width))
    }

    fn check_table(&self, table: &super::Table) -> Check {
        for key in &table.key {
            match &key.source {
                KeySource::Field(field) => {
                    self.field_ref(field, OUTSIDE)?;
                    rule(self.field_def_of_ref(field).bits() == key.width, || {
                        format!("width of '{}'", key.name)
                    })?;
                }
                KeySource::Valid(header) => {
                    self.header_ref(header, OUTSIDE)?;
                    rule(key.width == 1, || format!("width of '{}'", key.name))?;
                }
            }
            key.mask.as_ref().map_or(Ok(()), |mask| fits(mask, key.width))?;
        }
        let lpms = table.key.iter().filter(|key| key.kind == MatchKind::Lpm).count();
        rule(lpms <= 1, || "several lpm fields".into())?;
        table.actions.iter().try_for_each(|action| index(action.at(), &self.actions, "action"))?;
        if let TableActions::Profile(profile) = table.source {
            index(profile.at(), &self.profiles, "action profile")?;
        }
        table.counter.map_or(Ok(()), |id| index(id.at(), &self.counters, "counter"))?;
        table.meter.map_or(Ok(()), |id| index(id.at(), &self.meters, "meter"))?;
        table.default.as_ref().map_or(Ok(()), |call| self.call(call))?;
        for entry in &table.entries {
            self.call(&entry.call)?;
            rule(entry.key.len() == table.key.len(), || "an entry does not fit the key".into())?;
            for (param, key) in entry.key.iter().zip(&table.key) {
                let (kind, value) = match param {
                    MatchParam::Exact(value) => (MatchKind::Exact, Some(value)),
                    MatchParam::Valid(_) => (MatchKind::Valid, None),
                    MatchParam::Lpm { value, prefix_len } => {
                        rule(*prefix_len <= key.width, || "a prefix longer than its field".into())?;
                        (MatchKind::Lpm, Some(value))
                    }
                    MatchParam::Ternary { value, mask } => {
                        fits(mask, key.width)?;
                        rule(&(value & mask) == value, || "an entry's value has bits not masked".into())?;
                        let optional = key.kind == MatchKind::Optional;
                        (if optional { MatchKind::Optional } else { MatchKind::Ternary }, Some(value))
                    }
                    MatchParam::Range { low, high } => {
                        rule(low <= high, || "an empty range".into())?;
                        (MatchKind::Range, Some(high))
                    }
                };
                rule(kind == key.kind, || format!("an entry matches '{}' by another kind", key.name))?;
                value.map_or(Ok(()), |value| fits(value, key.width))?;
            }
        }
        Ok(())
    }

    fn check_pipeline(&self, pipeline: &Pipeline) -> Check {
        let next = |id: Option<NodeId>| id.map_or(Ok(()), |id| index(id.at(), &pipeline.nodes, "node"));
        next(pipeline.start)?;
        for node in &pipeline.nodes {
            for id in node.successors() {
                next(Some(id))?;
            }
            match node {
                Node::Table { table, next } => {
                    index(table.at(), &self.tables, "table")?;
                    if let NextNode::ByAction { by_action, .. } = next {
                        let known = |id: &ActionId| index(id.at(), &self.actions, "action");
                        by_action.iter().try_for_each(|(action, _)| known(action))?;
                    }
                }
                Node::If { condition, .. } => self.truth(condition, OUTSIDE)?,
                Node::Call { action, .. } => {
                    index(action.at(), &self.actions, "action")?;
                    let action = &self.actions[action.at()];
                    rule(action.params.is_empty(), || {
                        format!("'{}' is called without arguments", action.name)
                    })?;
                }
            }
        }
        rule(pipeline.cycle().is_none(), || "the nodes form a circle".into())
    }
}

fn fits(value: &BigUint, width: u32) -> Check {
    rule(value.bits() <= u64::from(width), || format!("{value} in {width} bits"))
}

impl Node {
    /// The nodes that may follow.
    pub fn successors(&self) -> Vec<NodeId> {
        let mut next: Vec<NodeId> = match self {
            Node::Table { next: NextNode::ByHit { hit, miss }, .. } => {
                [*hit, *miss].into_iter().flatten().collect()
            }
            Node::Table { next: NextNode::ByAction { by_action, default }, .. } => {
                by_action.iter().map(|(_, next)| *next).chain([*default]).flatten().collect()
            }
            Node::If { then, otherwise, .. } => [*then, *otherwise].into_iter().flatten().collect(),
            Node::Call { next, .. } => next.iter().copied().collect(),
        };
        next.sort_unstable();
        next.dedup();
        next
    }
}

impl Pipeline {
    /// A node on a cycle of the graph, if there is one. Every successor must exist.
    pub fn cycle(&self) -> Option<NodeId> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.nodes.len()];
        for root in 0..self.nodes.len() {
            if marks[root] != Mark::New {
                continue;
            }
            // Depth first without recursion: each open node with those after it still to be visited.
            marks[root] = Mark::Open;
            let mut open = vec![(root, self.nodes[root].successors())];
            while let Some((node, rest)) = open.last_mut() {
                match rest.pop().map(NodeId::at) {
                    None => {
                        marks[*node] = Mark::Done;
                        open.pop();
                    }
                    Some(next) => match marks[next] {
                        Mark::Open => return Some(NodeId::from(next)),
                        Mark::Done => {}
                        Mark::New => {
                            marks[next] = Mark::Open;
                            open.push((next, self.nodes[next].successors()));
                        }
                    },
                }
            }
        }
        None
    }
}
