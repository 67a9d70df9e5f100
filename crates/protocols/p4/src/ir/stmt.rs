//! Statements of actions and of parser states.

use super::{
    CalculationId, ChecksumUnitId, CounterId, Expr, FieldId, FieldListId, FieldRef, HashAlgorithm, HeaderRef,
    LearnListId, MeterId, RegisterId, StackId, TableId, UnionRef, UnionStackId,
};
use num_bigint::BigUint;

/// One thing a calculation feeds on, in order; bits are concatenated, and the whole is padded with zero bits to bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum CalcInput {
    /// A field's bits (a varbit field's current bits). A field of an invalid header is left out (bmv2's rule).
    Field(FieldRef),
    /// A whole header's bytes, nothing when it is invalid.
    Header(HeaderRef),
    /// A constant of so many bits.
    Const { value: BigUint, width: u32 },
    /// An expression's low bits (PSA hands expressions to hash externs).
    Expr { value: Expr, width: u32 },
    /// What follows the parsed headers.
    Payload,
}

/// What a hash statement computes.
#[derive(Debug, Clone, PartialEq)]
pub enum HashSource {
    /// A named calculation.
    Calculation(CalculationId),
    /// A PSA hash extern with the data handed to it.
    Inline { algorithm: HashAlgorithm, input: Vec<CalcInput> },
}

/// One step of an action. Jumps name a position in the same action's statements; its end is a legal target.
#[derive(Debug, Clone, PartialEq)]
pub enum Stmt {
    /// The field keeps the low bits of the value.
    Assign { dst: FieldRef, value: Expr },
    /// Copy a varbit field, length and bits.
    AssignVarbit { dst: FieldRef, src: FieldRef },
    /// Copy a header: validity, and its fields if valid.
    CopyHeader { dst: HeaderRef, src: HeaderRef },
    /// Copy a union, member by member.
    CopyUnion { dst: UnionRef, src: UnionRef },
    /// Copy a stack, elements and next index.
    CopyStack { dst: StackId, src: StackId },
    /// Copy a stack of unions.
    CopyUnionStack { dst: UnionStackId, src: UnionStackId },
    /// Make a header valid (its fields 0 if it was not, a varbit one as long as it was); a union's other members
    /// become invalid. The header's bytes count as added in [`crate::phv::slot::GROWTH`], if it was invalid.
    SetValid(HeaderRef),
    /// Make a header invalid. Its bytes count as removed, if it was valid.
    SetInvalid(HeaderRef),
    /// Shift a stack's elements towards higher indices; the first `count` become invalid and zero (bmv2: `push`,
    /// as its default build with P4-16 stacks does it).
    Push { stack: StackId, count: u32 },
    /// Shift a stack's elements towards lower indices; the last `count` become invalid.
    Pop { stack: StackId, count: u32 },
    /// Push on a stack of unions; the new elements are invalid.
    PushUnions { stack: UnionStackId, count: u32 },
    /// Pop from a stack of unions.
    PopUnions { stack: UnionStackId, count: u32 },
    /// Go on there.
    Jump(usize),
    /// Go on there if the condition (a truth value) is false.
    JumpUnless { condition: Expr, target: usize },
    /// End the pipeline when the action ends: its statements that follow are run (bmv2).
    Exit,
    /// Count and log if false, and drop the packet.
    Assert(Expr),
    /// The same as [`Stmt::Assert`], counted apart.
    Assume(Expr),
    /// A message with `{}` for each argument.
    Log { format: String, args: Vec<Expr> },
    /// Count the packet and its bytes at an index; out of range does nothing.
    Count { counter: CounterId, index: Expr },
    /// Meter the packet at an index; the colour (0 green, 1 yellow, 2 red) goes to `dst`. Out of range does
    /// nothing, and `dst` stays.
    Meter { meter: MeterId, index: Expr, precolor: Option<Expr>, dst: Option<FieldRef> },
    /// Read a register; out of range `dst` stays.
    RegisterRead { dst: FieldRef, register: RegisterId, index: Expr },
    /// Write a register; out of range does nothing.
    RegisterWrite { register: RegisterId, index: Expr, value: Expr },
    /// A uniform number of `low..=high`; when the range is empty `dst` stays.
    Random { dst: FieldRef, low: Expr, high: Expr },
    /// `base + hash % max` when max is given (0 counts as 1), else the hash itself.
    Hash { dst: FieldRef, source: HashSource, base: Option<Expr>, max: Option<Expr> },
    /// Send the listed fields to the control plane when ingress (v1model) or the deparser (PSA) ends.
    Digest { list: LearnListId },
    /// Clone what came in, to a mirror session, when ingress ends.
    CloneIngress { session: Expr, fields: Option<FieldListId> },
    /// Clone what leaves egress, to a mirror session.
    CloneEgress { session: Expr, fields: Option<FieldListId> },
    /// Parse and process the packet again from the start when ingress ends.
    Resubmit { fields: Option<FieldListId> },
    /// Process the deparsed packet again when egress ends.
    Recirculate { fields: Option<FieldListId> },
    /// Cut the packet at so many bytes when it leaves; of several lengths the smallest counts.
    Truncate { len: Expr },
    /// Set `egress_spec` to the drop port and the multicast group to 0; the packet may still be revived by a later
    /// assignment (v1model `mark_to_drop`, P4_14 `drop`). The fields need not be those of `standard_metadata`: a
    /// program may mark a copy of it.
    MarkToDrop {
        /// What gets the drop port.
        egress_spec: Option<FieldId>,
        /// What gets 0.
        mcast_grp: Option<FieldId>,
    },
    /// PSA `InternetChecksum.clear`.
    ChecksumClear(ChecksumUnitId),
    /// PSA `InternetChecksum.add`.
    ChecksumAdd { unit: ChecksumUnitId, input: Vec<CalcInput> },
    /// PSA `InternetChecksum.subtract`.
    ChecksumSubtract { unit: ChecksumUnitId, input: Vec<CalcInput> },
    /// PSA `InternetChecksum.get` (the complemented sum).
    ChecksumGet { unit: ChecksumUnitId, dst: FieldRef },
    /// bmv2's `get_verify`: whether the unit's sum equals a value; `dst` gets 1 or 0.
    ChecksumVerify { unit: ChecksumUnitId, dst: FieldRef, equals: Expr },
    /// PSA `InternetChecksum.get_state`.
    ChecksumGetState { unit: ChecksumUnitId, dst: FieldRef },
    /// PSA `InternetChecksum.set_state`.
    ChecksumSetState { unit: ChecksumUnitId, value: Expr },
    /// Apply a table: in a loop of a control whose rounds only the packet tells, which is an action. Of the actions
    /// that tables run none does.
    Apply {
        /// Which one.
        table: TableId,
        /// Gets 1 if an entry matched, else 0.
        hit: Option<FieldRef>,
        /// Gets the position of the action that ran plus 1, or 0.
        ran: Option<FieldRef>,
    },
    /// Nothing.
    NoOp,
}

/// One step of a parser state.
#[derive(Debug, Clone, PartialEq)]
pub enum ParserOp {
    /// Read a header of fixed length and make it valid. (A legacy type has a length expression, `length_exp` of its type.)
    Extract(HeaderRef),
    /// Read a header with a varbit field of so many bits. More than its maximum: HeaderTooShort (bmv2's name for it);
    /// not a multiple of 8: ParserInvalidArgument.
    ExtractVarbit { header: HeaderRef, bits: Expr },
    /// Skip so many bits; not a multiple of 8: ParserInvalidArgument.
    Advance { bits: Expr },
    /// Stop parsing with the error if the condition is false.
    Verify { condition: Expr, error: Expr },
    /// Anything an action can do.
    Stmt(Stmt),
}
