//! Parsers: a label for each state.

use std::collections::HashMap;

use barewire_p4::ir::{Expr, TransitionMatch, ValueSet, ValueSetId};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, Keyset, KeysetKind, TransitionKind};
use barewire_p4_source::types::SymbolKind;
use barewire_p4_source::types::ty::TypeId;
use num_bigint::BigUint;

use super::code::{Ins, Label};
use super::ops::wrap;
use super::{Lower, Object, Result, Val, refuse};

/// Cases that a range is cut into at the most.
const CASES_MAX: usize = 4096;

type Part = Vec<(BigUint, BigUint)>;

impl<'a> Lower<'a> {
    /// The states of a parser in place; `accept` is where it ends well.
    pub(crate) fn parser_body(&mut self, parser: &'a ast::Parser, accept: Label) -> Result<()> {
        let mut labels: HashMap<&str, Label> = HashMap::from([("accept", accept), ("reject", Label::END)]);
        for state in &parser.states {
            let label = self.label();
            labels.insert(state.name.as_str(), label);
        }
        let go = |name: &ast::Ident| match labels.get(name.as_str()) {
            Some(&label) => Ok(label),
            None => refuse(name.span, format!("there is no state `{name}`")),
        };
        match labels.get("start") {
            Some(&start) => self.emit(Ins::Jump(start)),
            None => return refuse(parser.head.span, "a parser without a state `start`"),
        }
        for state in &parser.states {
            let name = match self.frames.len() {
                0 | 1 => state.name.to_string(),
                _ => self.control_name(&state.name.name, &state.annotations),
            };
            self.emit(Ins::State(labels[state.name.as_str()], name));
            self.block(&state.stmts)?;
            match state.transition.as_ref().map(|t| &t.kind) {
                None => self.emit(Ins::Jump(Label::END)),
                Some(TransitionKind::Direct(name)) => self.emit(Ins::Jump(go(name)?)),
                Some(TransitionKind::Select(select)) => {
                    let subjects: Vec<&ast::Expr> = select.subjects.iter().collect();
                    let values = self.in_order(&subjects)?;
                    let mut key = Vec::new();
                    for (val, ty) in &values {
                        self.key_parts(val, *ty, select.span, &mut key)?;
                    }
                    let mut cases = Vec::new();
                    for case in &select.cases {
                        let next = go(&case.state)?;
                        self.case(&case.keyset, &values, &key, next, &mut cases)?;
                        if cases.len() > CASES_MAX {
                            return refuse(case.span, format!("more than {CASES_MAX} cases"));
                        }
                    }
                    self.emit(Ins::Select { key, cases });
                }
            }
        }
        Ok(())
    }

    /// The numbers a value to select on consists of.
    fn key_parts(&mut self, val: &Val, ty: TypeId, span: Span, out: &mut Vec<(Expr, u32)>) -> Result<()> {
        if let Some(shape) = self.scalar(ty) {
            let number = self.num(val, span)?;
            if shape.width > 0 {
                out.push((if shape.signed { wrap(number, shape.width, false) } else { number }, shape.width));
            }
            return Ok(());
        }
        let Some(types) = self.parts_of(ty) else { return refuse(span, "a selection on this type") };
        for (part, (_, ty)) in self.parts(val, span)?.iter().zip(types) {
            self.key_parts(part, ty, span, out)?;
        }
        Ok(())
    }

    fn case(
        &mut self,
        keyset: &'a Keyset,
        subjects: &[(Val, TypeId)],
        key: &[(Expr, u32)],
        next: Label,
        cases: &mut Vec<(TransitionMatch, Label)>,
    ) -> Result<()> {
        if let KeysetKind::Default | KeysetKind::DontCare = keyset.kind {
            cases.push((TransitionMatch::Default, next));
            return Ok(());
        }
        if let KeysetKind::Value(expr) = &keyset.kind
            && self.t.refers_to(expr.id).is_some_and(|s| s.kind == SymbolKind::ValueSet)
        {
            let Val::Object(Object::ValueSet(set)) = self.value(expr)?.0 else {
                return refuse(expr.span, "this value set is not lowered");
            };
            let widths: Vec<u32> = key.iter().map(|(_, width)| *width).collect();
            let known = &mut self.program.value_sets[set.at()].widths;
            if known.is_empty() {
                known.clone_from(&widths);
            } else if *known != widths {
                return refuse(expr.span, "a value set that is used with keys of different parts");
            }
            cases.push((TransitionMatch::ValueSet(set, None), next));
            return Ok(());
        }
        // One list of alternatives for each part of the key.
        let mut alternatives: Vec<Part> = Vec::new();
        match &keyset.kind {
            KeysetKind::Tuple(sets) if subjects.len() == sets.len() => {
                for (set, (_, ty)) in sets.iter().zip(subjects) {
                    self.alternatives(set, *ty, &mut alternatives)?;
                }
            }
            _ => match subjects {
                [(_, ty)] => self.alternatives(keyset, *ty, &mut alternatives)?,
                _ => return refuse(keyset.span, "a case that does not fit what is selected on"),
            },
        }
        let mut rows: Vec<Vec<(BigUint, BigUint)>> = vec![Vec::new()];
        for part in alternatives {
            let mut longer = Vec::new();
            for row in &rows {
                for choice in &part {
                    let mut row = row.clone();
                    row.push(choice.clone());
                    longer.push(row);
                }
            }
            if longer.len() > CASES_MAX {
                return refuse(keyset.span, format!("more than {CASES_MAX} cases"));
            }
            rows = longer;
        }
        cases.extend(rows.into_iter().map(|row| (TransitionMatch::Masked(row), next)));
        Ok(())
    }

    fn alternatives(&mut self, set: &'a Keyset, ty: TypeId, out: &mut Vec<Part>) -> Result<()> {
        let span = set.span;
        let Some(shape) = self.scalar(ty) else {
            let Some(types) = self.parts_of(ty) else { return refuse(span, "a selection on this type") };
            match &set.kind {
                KeysetKind::Tuple(sets) if sets.len() == types.len() => {
                    for (set, (_, ty)) in sets.iter().zip(types) {
                        self.alternatives(set, ty, out)?;
                    }
                }
                KeysetKind::Default | KeysetKind::DontCare => {
                    for (_, ty) in types {
                        self.alternatives(set, ty, out)?;
                    }
                }
                KeysetKind::Value(expr) => {
                    let (val, from) = self.value(expr)?;
                    let val = self.cast(val, from, ty, span)?;
                    self.known_parts(&val, ty, span, out)?;
                }
                _ => return refuse(span, "a case of this kind for a struct"),
            }
            return Ok(());
        };
        let width = shape.width;
        if width == 0 {
            return Ok(());
        }
        let all = (BigUint::from(1_u8) << width) - 1_u8;
        out.push(match &set.kind {
            KeysetKind::Default | KeysetKind::DontCare => vec![(BigUint::ZERO, BigUint::ZERO)],
            KeysetKind::Value(expr) => {
                let (val, _) = self.value(expr)?;
                vec![(self.bits(&val, ty, span)?, all)]
            }
            KeysetKind::Mask(value, mask) => {
                let ((value, _), (mask, _)) = (self.value(value)?, self.value(mask)?);
                let (value, mask) = (self.bits(&value, ty, span)?, self.bits(&mask, ty, span)?);
                vec![(value & &mask, mask)]
            }
            KeysetKind::Range(low, high) => {
                if shape.signed {
                    return refuse(span, "a range of signed numbers");
                }
                let ((low, _), (high, _)) = (self.value(low)?, self.value(high)?);
                let (low, high) = (self.bits(&low, ty, span)?, self.bits(&high, ty, span)?);
                masks(low, &high, &all)
            }
            KeysetKind::Tuple(sets) => match &sets[..] {
                [one] => return self.alternatives(one, ty, out),
                _ => return refuse(span, "a case that does not fit what is selected on"),
            },
        });
        Ok(())
    }

    fn known_parts(&mut self, val: &Val, ty: TypeId, span: Span, out: &mut Vec<Part>) -> Result<()> {
        if let Some(shape) = self.scalar(ty) {
            let all = (BigUint::from(1_u8) << shape.width) - 1_u8;
            out.push(vec![(self.bits(val, ty, span)?, all)]);
            return Ok(());
        }
        let types = self.parts_of(ty).unwrap_or_default();
        for (part, (_, ty)) in self.parts(val, span)?.iter().zip(types) {
            self.known_parts(part, ty, span, out)?;
        }
        Ok(())
    }

    pub(crate) fn value_set(&mut self, decl: &'a ast::Decl, set: &'a ast::ValueSet) -> Result<()> {
        let symbol = self.symbol_at(decl.id, decl.span)?;
        let key = (self.here, symbol);
        let val = match self.owned.get(&key) {
            Some(val) => val.clone(),
            None => {
                let name = self.control_name(set.name.as_str(), &decl.annotations);
                let max_size = self.number(&set.size)?;
                let id = ValueSetId::from(self.program.value_sets.len());
                self.program.value_sets.push(ValueSet { name, widths: Vec::new(), max_size });
                let val = Val::Object(Object::ValueSet(id));
                self.owned.insert(key, val.clone());
                val
            }
        };
        self.env.insert(symbol, val);
        Ok(())
    }
}

/// A range as values with masks.
fn masks(mut low: BigUint, high: &BigUint, all: &BigUint) -> Part {
    let mut out = Vec::new();
    let one = BigUint::from(1_u8);
    while low <= *high {
        // The largest aligned block that begins here and ends in the range.
        let mut free = BigUint::ZERO;
        loop {
            let wider = (&free << 1_u8) | &one;
            if &low & &wider != BigUint::ZERO || (&low | &wider) > *high || wider > *all {
                break;
            }
            free = wider;
        }
        out.push((low.clone(), all ^ &free));
        low = (&low | &free) + &one;
    }
    out
}
