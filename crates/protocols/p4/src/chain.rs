//! What a target does between parser, pipelines and deparser, as a list of steps that compilers make code of.
//!
//! A target calls parser, ingress, egress and deparser one after the other, and in between moves a few values and looks
//! whether the packet goes the usual way. Said as a list of [`Step`]s, all of it can become one function, or one program of
//! the kernel. A packet that goes another way stops the chain, and the target goes on from there by itself.

use crate::ir::{FieldId, Program};
use crate::phv::{Layout, Place};

/// Bits of a kept value.
pub const KEPT_BITS: u32 = 24;

/// A value a step reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A constant.
    Const(u64),
    /// A slot of the vector ([`crate::phv::slot`]).
    Slot(usize),
    /// 1 if a slot is not 0.
    SlotIsSet(usize),
    /// A slot and a constant, added (wrapping).
    SlotPlus(usize, u64),
    /// Two slots, added (wrapping).
    SlotSum(usize, usize),
    /// A metadata field of at most 64 bits.
    Field(FieldId),
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Run a parser, by its position.
    Parse(usize),
    /// Run a pipeline, by its position.
    Run(usize),
    /// Write a metadata field's low bits.
    Set(FieldId, Operand),
    /// End here with this number in the result if any of the values is not 0.
    StopIfAny(Vec<Operand>, u8),
    /// The same if two values are equal.
    StopIfEqual(Operand, Operand, u8),
    /// Keep a value of at most 24 bits for the result.
    Keep(Operand),
    /// Prepare a deparser, by its position, and emit its headers if they take exactly the place of those that were parsed and
    /// the packet is not to be cut: the last step.
    Deparse(usize),
}

/// Whether these steps can be made into a function: fields are narrow metadata, positions exist, the order makes sense.
pub fn is_possible(program: &Program, layout: &Layout, steps: &[Step]) -> bool {
    let field = |field: &FieldId| {
        matches!(layout.place(*field), Place::Words { width, .. } if width <= 64)
            && program.headers[field.header.at()].metadata
    };
    let operand = |operand: &Operand| match operand {
        Operand::Field(id) => field(id),
        _ => true,
    };
    let narrow = |kept: &Operand| match kept {
        Operand::Field(id) => matches!(layout.place(*id), Place::Words { width, .. } if width <= KEPT_BITS),
        _ => false,
    };
    let last = steps.len().saturating_sub(1);
    !steps.is_empty()
        && steps.iter().enumerate().all(|(at, step)| match step {
            Step::Parse(index) => *index < program.parsers.len(),
            Step::Run(index) => *index < program.pipelines.len(),
            Step::Set(to, from) => field(to) && operand(from),
            Step::StopIfAny(values, stop) => *stop != 0 && values.iter().all(operand),
            Step::StopIfEqual(left, right, stop) => *stop != 0 && operand(left) && operand(right),
            Step::Keep(kept) => operand(kept) && narrow(kept),
            Step::Deparse(index) => *index < program.deparsers.len() && at == last,
        })
        && matches!(steps[last], Step::Deparse(_))
}
