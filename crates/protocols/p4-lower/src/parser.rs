//! Parsers: a label for each state.

use std::collections::HashMap;

use barewire_p4::ir::{BinaryOp as Op, Expr, TransitionMatch, ValueSet, ValueSetId};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, Keyset, KeysetKind, TransitionKind};
use barewire_p4_source::types::SymbolKind;
use barewire_p4_source::types::ty::TypeId;
use num_bigint::BigUint;

use super::code::{Ins, Label};
use super::externs::at_most;
use super::ops::{and, binary, wrap};
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
                    let mut values = self.in_order(&subjects)?;
                    // What a case calls may change what is selected on.
                    if select.cases.iter().any(|case| self.keyset_acts(&case.keyset)) {
                        for (val, ty) in &mut values {
                            *val = self.saved(val, *ty, "select", select.span)?;
                        }
                    }
                    let mut key = Vec::new();
                    for (val, ty) in &values {
                        self.key_parts(val, *ty, select.span, &mut key)?;
                    }
                    let mut cases = Vec::new();
                    for case in &select.cases {
                        let next = go(&case.state)?;
                        if self.keyset_varies(&case.keyset) {
                            // Those in front of it come first; where none of them is taken, it is asked for by itself.
                            let (rest, other) = (self.label(), self.label());
                            if !cases.is_empty() {
                                cases.push((TransitionMatch::Default, rest));
                                let cases = std::mem::take(&mut cases);
                                self.emit(Ins::Select { key: key.clone(), cases });
                            }
                            self.emit(Ins::Label(rest));
                            let taken = self.keyset_holds(&case.keyset, &values)?;
                            self.emit(Ins::Unless(taken, other));
                            self.emit(Ins::Jump(next));
                            self.emit(Ins::Label(other));
                            continue;
                        }
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

    /// Whether a set of keys has something in it that calls what may change a variable.
    fn keyset_acts(&self, set: &Keyset) -> bool {
        match &set.kind {
            KeysetKind::Default | KeysetKind::DontCare => false,
            KeysetKind::Value(a) => !self.is_value_set(a) && self.acts(a),
            KeysetKind::Mask(a, b) | KeysetKind::Range(a, b) => self.acts(a) || self.acts(b),
            KeysetKind::Tuple(sets) => sets.iter().any(|set| self.keyset_acts(set)),
        }
    }

    fn is_value_set(&self, expr: &ast::Expr) -> bool {
        self.t.refers_to(expr.id).is_some_and(|symbol| symbol.kind == SymbolKind::ValueSet)
    }

    /// Whether only the packet tells what is in a set of keys.
    fn keyset_varies(&mut self, set: &'a Keyset) -> bool {
        match &set.kind {
            KeysetKind::Default | KeysetKind::DontCare => false,
            KeysetKind::Value(a) => !self.is_value_set(a) && self.varies(a),
            KeysetKind::Mask(a, b) => self.varies(a) || self.varies(b),
            // A range of signed numbers is none of masks.
            KeysetKind::Range(a, b) => self.varies(a) || self.varies(b) || self.is_signed(a),
            KeysetKind::Tuple(sets) => sets.iter().any(|set| self.keyset_varies(set)),
        }
    }

    fn varies(&mut self, expr: &'a ast::Expr) -> bool {
        if self.acts(expr) {
            return true;
        }
        match self.tried(expr) {
            (Ok((val, _)), takes_code) => takes_code || !Self::is_known(&val),
            (Err(_), _) => false,
        }
    }

    fn is_signed(&mut self, expr: &'a ast::Expr) -> bool {
        let (value, _) = self.tried(expr);
        value.is_ok_and(|(_, ty)| self.scalar(ty).is_some_and(|shape| shape.signed))
    }

    /// What an expression that does nothing comes to, and whether that takes code; the code is taken back.
    pub(crate) fn tried(&mut self, expr: &'a ast::Expr) -> (Result<(Val, TypeId)>, bool) {
        let before = self.code.len();
        let value = self.value(expr);
        let takes_code = self.code.len() != before;
        self.code.truncate(before);
        (value, takes_code)
    }

    fn is_known(val: &Val) -> bool {
        match val {
            Val::Num(Expr::Int(_)) | Val::Truth(Expr::Bool(_)) => true,
            Val::Parts(parts) | Val::HeaderParts(parts) => parts.iter().all(Self::is_known),
            _ => false,
        }
    }

    /// Whether what is selected on is in a set of keys.
    fn keyset_holds(&mut self, set: &'a Keyset, subjects: &[(Val, TypeId)]) -> Result<Expr> {
        match (&set.kind, subjects) {
            (KeysetKind::Default | KeysetKind::DontCare, _) => Ok(Expr::Bool(true)),
            (KeysetKind::Tuple(sets), _) if sets.len() == subjects.len() => {
                let mut all = Expr::Bool(true);
                for (set, subject) in sets.iter().zip(subjects) {
                    let one = self.keyset_holds(set, std::slice::from_ref(subject))?;
                    all = and(all, one);
                }
                Ok(all)
            }
            (KeysetKind::Tuple(sets), [(val, ty)]) => {
                let types = self.parts_of(*ty).unwrap_or_default();
                let parts = self.parts(val, set.span)?;
                if sets.len() != types.len() || sets.len() != parts.len() {
                    return refuse(set.span, "a case that does not fit what is selected on");
                }
                let parts: Vec<_> = parts.iter().cloned().zip(types.into_iter().map(|(_, ty)| ty)).collect();
                self.keyset_holds(set, &parts)
            }
            (KeysetKind::Value(expr), [(subject, ty)]) => {
                let (val, from) = self.value(expr)?;
                let val = self.cast(val, from, *ty, expr.span)?;
                self.equal((subject, *ty), (&val, *ty), expr.span)
            }
            (KeysetKind::Mask(value, mask), [(subject, ty)]) => {
                let [value, mask] = self.both_numbers([value, mask], *ty, set.span)?;
                let subject = self.num(subject, set.span)?;
                let side = |number: Expr| binary(Op::BitAnd, number, mask.clone());
                Ok(binary(Op::Eq, side(subject), side(value)))
            }
            (KeysetKind::Range(low, high), [(subject, ty)]) => {
                let [low, high] = self.both_numbers([low, high], *ty, set.span)?;
                let subject = self.num(subject, set.span)?;
                let above = binary(Op::Le, low, subject.clone());
                Ok(and(above, binary(Op::Le, subject, high)))
            }
            _ => refuse(set.span, "a case that does not fit what is selected on"),
        }
    }

    /// The two parts of a mask or a range, as numbers of the type that is selected on.
    fn both_numbers(&mut self, parts: [&'a ast::Expr; 2], ty: TypeId, span: Span) -> Result<[Expr; 2]> {
        let mut numbers = Vec::new();
        for (val, from) in self.in_order(&parts)? {
            let val = self.cast(val, from, ty, span)?;
            numbers.push(self.num(&val, span)?);
        }
        numbers.try_into().or_else(|_| refuse(span, "a mask or a range of two parts"))
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
                let max_size = match self.value(&set.size)?.0 {
                    Val::Num(Expr::Int(size)) => at_most(&size, "members", set.size.span)?,
                    _ => {
                        return refuse(set.size.span, "this has to be known when the program is compiled");
                    }
                };
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
