//! Several functions of a program in one, with what a target does between them.
//!
//! A target calls parser, ingress, egress and deparser one after the other, and in between moves a few values and looks
//! whether the packet goes the usual way. Said as a list of [`Step`]s, all of it becomes one function: one call a packet,
//! and what is in registers stays there. A packet that goes another way stops the chain, and the target goes on from there
//! by itself.

use barewire_p4::ir::{FieldId, Program};
use barewire_p4::phv::{Layout, Place};

/// A value a step reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operand {
    /// A constant.
    Const(u64),
    /// A slot of the vector ([`barewire_p4::phv::slot`]).
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
    /// End here with this number in [`Stopped::At`] if any of the values is not 0.
    StopIfAny(Vec<Operand>, u8),
    /// The same if two values are equal.
    StopIfEqual(Operand, Operand, u8),
    /// Keep a value of at most 24 bits for the result.
    Keep(Operand),
    /// Prepare a deparser, by its position, and emit its headers if they take exactly the place of those that were parsed and
    /// the packet is not to be cut: the last step.
    Deparse(usize),
}

/// How a chain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// At its end, the headers emitted: what was kept.
    Done { kept: u32 },
    /// At its end: what was kept, and how many bytes of headers the deparser will emit.
    Prepared { kept: u32, headers: usize },
    /// At the step with this number (not 0), with what had been kept by then.
    At { stop: u8, kept: u32 },
}

/// In a result: the headers have been emitted.
pub(crate) const EMITTED: u64 = 1 << 31;
/// Bits of a kept value.
pub const KEPT_BITS: u32 = 24;

impl Stopped {
    /// From what the function returned.
    #[inline]
    pub(crate) fn of(result: u64) -> Stopped {
        let kept = (result >> 32) as u32 & ((1 << KEPT_BITS) - 1);
        match (result >> 56) as u8 {
            0 if result & EMITTED != 0 => Stopped::Done { kept },
            0 => Stopped::Prepared { kept, headers: result as u32 as usize },
            stop => Stopped::At { stop, kept },
        }
    }
}

/// Whether these steps can be made into a function: fields are narrow metadata, positions exist, the order makes sense.
pub(crate) fn is_possible(program: &Program, layout: &Layout, steps: &[Step]) -> bool {
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
