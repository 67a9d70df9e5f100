//! Loops. In a parser and in an action code jumps back; a pipeline's graph has no cycle, so there a loop becomes an action.

use std::collections::HashSet;

use barewire_p4::ir::{BinaryOp, Expr, Stmt};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, ForCollection};
use barewire_p4_source::types::ty::TypeId;
use num_bigint::BigInt;

use super::code::{self, Ins, Label};
use super::ops::{binary, int, wrap};
use super::{Lower, Mode, Result, Val, refuse};

/// Rounds of a loop over known numbers that are written out.
const ROUNDS_WRITTEN: u32 = 256;

impl<'a> Lower<'a> {
    /// A loop whose rounds only the packet tells; `rounds` writes them, with a label behind the loop.
    pub(crate) fn looped(
        &mut self,
        span: Span,
        rounds: impl FnOnce(&mut Self, Label) -> Result<()>,
    ) -> Result<()> {
        let leave = self.label();
        if self.mode != Mode::Pipeline {
            rounds(self, leave)?;
            self.emit(Ins::Label(leave));
            return Ok(());
        }
        let outer = std::mem::take(&mut self.code);
        (self.mode, self.looping) = (Mode::Action, true);
        let written = rounds(self, leave);
        (self.mode, self.looping) = (Mode::Pipeline, false);
        written?;
        self.emit(Ins::Label(leave));
        let inner = std::mem::replace(&mut self.code, outer);
        self.as_action(inner, span)
    }

    /// Code with jumps of its own as one action of a pipeline. Jumps out of it are noted in a field, and made behind it.
    fn as_action(&mut self, mut inner: Vec<Ins>, span: Span) -> Result<()> {
        let own: HashSet<Label> = inner
            .iter()
            .filter_map(|ins| match ins {
                Ins::Label(label) => Some(*label),
                _ => None,
            })
            .collect();
        let mut out: Vec<(Label, Label)> = Vec::new();
        for ins in &mut inner {
            let (Ins::Jump(target) | Ins::Unless(_, target)) = ins else { continue };
            if own.contains(target) {
                continue;
            }
            let stub = match out.iter().find(|(to, _)| to == target) {
                Some((_, stub)) => *stub,
                None => {
                    self.labels += 1;
                    let stub = Label(self.labels);
                    out.push((*target, stub));
                    stub
                }
            };
            *target = stub;
        }
        let mut flag = None;
        if !out.is_empty() {
            let field = self.temp("leaves", 8, false);
            let set = |number: usize| Stmt::Assign { dst: field.clone(), value: int(number) };
            inner.insert(0, Ins::Stmt(set(0), span));
            inner.push(Ins::Jump(Label::END));
            for (at, (_, stub)) in out.iter().enumerate() {
                inner.push(Ins::Label(*stub));
                inner.push(Ins::Stmt(set(at + 1), span));
                inner.push(Ins::Jump(Label::END));
            }
            flag = Some(field);
        }
        if out.len() > 255 {
            return refuse(span, "a loop with more than 255 ways out");
        }
        self.check_once(&inner)?;
        let body = code::body(&inner, span)?;
        self.emit(Ins::Action(body, span));
        for (at, (to, _)) in out.iter().enumerate() {
            let Some(field) = &flag else { break };
            let stays = binary(BinaryOp::Ne, Expr::Field(field.clone()), int(at + 1));
            self.emit(Ins::Unless(stays, *to));
        }
        Ok(())
    }

    pub(crate) fn for_rounds(&mut self, repeat: &'a ast::For, leave: Label) -> Result<()> {
        self.block(&repeat.init)?;
        let (again, next) = (self.label(), self.label());
        self.emit(Ins::Label(again));
        if self.condition(&repeat.condition, leave)? == Some(false) {
            self.emit(Ins::Jump(leave));
        }
        self.loops.push((leave, next));
        let done = self.stmt(&repeat.body);
        self.loops.pop();
        done?;
        self.emit(Ins::Label(next));
        self.block(&repeat.update)?;
        self.emit(Ins::Jump(again));
        Ok(())
    }

    /// Rounds from what a counter holds up to the last number; it does not count past it. What the body writes to its
    /// variable does not count.
    fn range_rounds(
        &mut self,
        (counter, variable): (&Val, &Val),
        last: &Val,
        ty: TypeId,
        body: &'a ast::Stmt,
        leave: Label,
        span: Span,
    ) -> Result<()> {
        let Some(shape) = self.scalar(ty) else { return refuse(span, "a loop over what is not a number") };
        let (again, next) = (self.label(), self.label());
        let (at, end) = (self.num(counter, span)?, self.num(last, span)?);
        self.emit(Ins::Unless(binary(BinaryOp::Le, at.clone(), end.clone()), leave));
        self.emit(Ins::Label(again));
        if variable != counter {
            self.assign(variable, counter, ty, span)?;
        }
        self.loops.push((leave, next));
        let done = self.stmt(body);
        self.loops.pop();
        done?;
        self.emit(Ins::Label(next));
        self.emit(Ins::Unless(binary(BinaryOp::Lt, at.clone(), end), leave));
        let more = wrap(binary(BinaryOp::Add, at, int(1)), shape.width, shape.signed);
        self.assign(counter, &Val::Num(more), ty, span)?;
        self.emit(Ins::Jump(again));
        Ok(())
    }

    /// A loop whose rounds are known: written out.
    pub(crate) fn for_in(&mut self, repeat: &'a ast::ForIn, span: Span) -> Result<()> {
        let symbol = self.symbol_at(repeat.variable.id, span)?;
        let ty = self.closed(self.t.symbol(symbol).ty);
        let mut rounds: Vec<Val> = Vec::new();
        match &repeat.collection {
            ForCollection::Range(first, last) => {
                let mut bounds = self.in_order(&[first, last])?.into_iter();
                let (Some((first, _)), Some((last, _))) = (bounds.next(), bounds.next()) else {
                    return refuse(span, "a range has two ends");
                };
                let known = match (&first, &last) {
                    (Val::Num(Expr::Int(first)), Val::Num(Expr::Int(last))) => {
                        Some((first.clone(), last.clone()))
                    }
                    _ => None,
                };
                let Some((mut at, last)) = known.filter(|(first, last)| last - first < ROUNDS_WRITTEN.into())
                else {
                    let counter = self.storage("round", ty, span)?;
                    let written = self.t.written.contains(&symbol);
                    let variable =
                        if written { self.storage("variable", ty, span)? } else { counter.clone() };
                    self.env.insert(symbol, variable.clone());
                    let last = self.saved(&last, ty, "last", span)?;
                    self.assign(&counter, &first, ty, span)?;
                    return self.looped(span, |lower, leave| {
                        lower.range_rounds((&counter, &variable), &last, ty, &repeat.body, leave, span)
                    });
                };
                while at <= last {
                    rounds.push(Val::Num(Expr::Int(at.clone())));
                    at += BigInt::from(1);
                }
            }
            // The list is evaluated once, in front of the first round.
            ForCollection::Value(list) => match self.value(list)? {
                (Val::Parts(parts), _) => {
                    for part in parts.iter() {
                        rounds.push(self.saved(part, ty, "element", span)?);
                    }
                }
                (Val::Stack(id), of) => {
                    let Val::Stack(id) = self.copied(&Val::Stack(id), of, "elements", span)? else {
                        return refuse(span, "a loop over this is not lowered");
                    };
                    let elements = self.program.stacks[id.at()].elements.clone();
                    rounds.extend(elements.into_iter().map(|header| Val::Header(header.into())));
                }
                _ => return refuse(span, "a loop over this is not lowered"),
            },
        }
        let leave = self.label();
        for round in rounds {
            let next = self.label();
            self.loops.push((leave, next));
            let val = if self.t.written.contains(&symbol) {
                let variable = self.storage("round", ty, span)?;
                self.assign(&variable, &round, ty, span)?;
                variable
            } else {
                self.saved(&round, ty, "round", span)?
            };
            self.env.insert(symbol, val);
            self.written_out += 1;
            let done = self.stmt(&repeat.body);
            self.written_out -= 1;
            done?;
            self.loops.pop();
            self.emit(Ins::Label(next));
        }
        self.emit(Ins::Label(leave));
        Ok(())
    }
}
