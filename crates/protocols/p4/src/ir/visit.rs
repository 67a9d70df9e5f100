//! Walks over what expressions and statements read, for analyses that ask "does anything look at this field?", and over what statements
//! write, for those that ask "who may change it?".

use super::{
    CalcInput, Expr, FieldId, FieldRef, HashSource, HeaderRef, StackId, Stmt, UnionRef, UnionStackId,
};

/// What a statement may write: a field, or all fields and the validity of a header and of what holds headers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Written<'a> {
    /// This field.
    Field(&'a FieldRef),
    /// This field of metadata, which a request of the target's sets.
    Request(FieldId),
    /// A whole header; a member of a union takes the others' validity with it.
    Header(&'a HeaderRef),
    /// Every member of a union.
    Union(&'a UnionRef),
    /// Every element of a stack.
    Stack(StackId),
    /// Every member of every union of a stack.
    UnionStack(UnionStackId),
}

impl HeaderRef {
    fn fields_read(&self, each: &mut dyn FnMut(&FieldRef)) {
        if let HeaderRef::StackElement(_, index) | HeaderRef::UnionStackElement(_, index, _) = self {
            index.fields_read(each);
        }
    }
}

impl UnionRef {
    fn fields_read(&self, each: &mut dyn FnMut(&FieldRef)) {
        if let UnionRef::Element(_, index) = self {
            index.fields_read(each);
        }
    }
}

impl FieldRef {
    fn index_read(&self, each: &mut dyn FnMut(&FieldRef)) {
        self.header.fields_read(each);
    }
}

impl Expr {
    /// Call `each` with every field the expression reads (fields, not whole headers).
    pub fn fields_read(&self, each: &mut dyn FnMut(&FieldRef)) {
        match self {
            Expr::Field(field) => {
                each(field);
                field.index_read(each);
            }
            Expr::Unary(_, value) | Expr::Wrap { value, .. } | Expr::Saturate { value, .. } => {
                value.fields_read(each)
            }
            Expr::Binary(_, left, right) => {
                left.fields_read(each);
                right.fields_read(each);
            }
            Expr::Select(condition, then, otherwise) => {
                condition.fields_read(each);
                then.fields_read(each);
                otherwise.fields_read(each);
            }
            Expr::Register { index, .. } => index.fields_read(each),
            Expr::Valid(header) => header.fields_read(each),
            Expr::UnionValid(union) => union.fields_read(each),
            Expr::HeadersEqual(left, right) => {
                left.fields_read(each);
                right.fields_read(each);
            }
            Expr::UnionsEqual(left, right) => {
                left.fields_read(each);
                right.fields_read(each);
            }
            Expr::Int(_)
            | Expr::Bool(_)
            | Expr::Param(_)
            | Expr::LastIndex(_)
            | Expr::StackSize(_)
            | Expr::StacksEqual(..)
            | Expr::UnionStacksEqual(..)
            | Expr::Lookahead { .. } => {}
        }
    }
}

impl Expr {
    /// Whether the expression asks of whole headers: for validity, or whether two are equal.
    pub fn asks_headers(&self) -> bool {
        match self {
            Expr::Valid(_)
            | Expr::UnionValid(_)
            | Expr::HeadersEqual(..)
            | Expr::UnionsEqual(..)
            | Expr::StacksEqual(..)
            | Expr::UnionStacksEqual(..) => true,
            Expr::Field(field) => match &field.header {
                HeaderRef::StackElement(_, index) | HeaderRef::UnionStackElement(_, index, _) => {
                    index.asks_headers()
                }
                _ => false,
            },
            Expr::Unary(_, value) | Expr::Wrap { value, .. } | Expr::Saturate { value, .. } => {
                value.asks_headers()
            }
            Expr::Binary(_, left, right) => left.asks_headers() || right.asks_headers(),
            Expr::Select(condition, then, otherwise) => {
                condition.asks_headers() || then.asks_headers() || otherwise.asks_headers()
            }
            Expr::Register { index, .. } => index.asks_headers(),
            Expr::Int(_)
            | Expr::Bool(_)
            | Expr::Param(_)
            | Expr::LastIndex(_)
            | Expr::StackSize(_)
            | Expr::Lookahead { .. } => false,
        }
    }
}

impl CalcInput {
    /// Call `each` with every field the input reads (a whole header's fields are not listed).
    pub fn fields_read(&self, each: &mut dyn FnMut(&FieldRef)) {
        match self {
            CalcInput::Field(field) => {
                each(field);
                field.index_read(each);
            }
            CalcInput::Header(header) => header.fields_read(each),
            CalcInput::Expr { value, .. } => value.fields_read(each),
            CalcInput::Const { .. } | CalcInput::Payload => {}
        }
    }
}

impl Stmt {
    /// Call `each` with every field the statement reads by itself (what tables, digests and field lists read comes
    /// elsewhere; copies of whole headers, which metadata never is, are not listed).
    pub fn fields_read(&self, each: &mut dyn FnMut(&FieldRef)) {
        let inputs = |list: &[CalcInput], each: &mut dyn FnMut(&FieldRef)| {
            list.iter().for_each(|input| input.fields_read(each));
        };
        match self {
            Stmt::Assign { dst, value } => {
                dst.index_read(each);
                value.fields_read(each);
            }
            Stmt::AssignVarbit { dst, src } => {
                dst.index_read(each);
                each(src);
                src.index_read(each);
            }
            Stmt::CopyHeader { dst, src } => {
                dst.fields_read(each);
                src.fields_read(each);
            }
            Stmt::CopyUnion { dst, src } => {
                dst.fields_read(each);
                src.fields_read(each);
            }
            Stmt::SetValid(header) | Stmt::SetInvalid(header) => header.fields_read(each),
            Stmt::JumpUnless { condition: value, .. }
            | Stmt::Assert(value)
            | Stmt::Assume(value)
            | Stmt::Count { index: value, .. }
            | Stmt::CloneIngress { session: value, .. }
            | Stmt::CloneEgress { session: value, .. }
            | Stmt::Truncate { len: value }
            | Stmt::ChecksumSetState { value, .. } => value.fields_read(each),
            Stmt::Log { args, .. } => args.iter().for_each(|arg| arg.fields_read(each)),
            Stmt::Meter { index, precolor, dst, .. } => {
                index.fields_read(each);
                precolor.iter().for_each(|value| value.fields_read(each));
                dst.iter().for_each(|field| field.index_read(each));
            }
            Stmt::RegisterRead { dst, index, .. } => {
                dst.index_read(each);
                index.fields_read(each);
            }
            Stmt::RegisterWrite { index, value, .. } => {
                index.fields_read(each);
                value.fields_read(each);
            }
            Stmt::Random { dst, low, high } => {
                dst.index_read(each);
                low.fields_read(each);
                high.fields_read(each);
            }
            Stmt::Hash { dst, source, base, max } => {
                dst.index_read(each);
                base.iter().chain(max).for_each(|value| value.fields_read(each));
                if let HashSource::Inline { input, .. } = source {
                    inputs(input, each);
                }
            }
            Stmt::ChecksumAdd { input, .. } | Stmt::ChecksumSubtract { input, .. } => inputs(input, each),
            Stmt::ChecksumVerify { dst, equals, .. } => {
                dst.index_read(each);
                equals.fields_read(each);
            }
            Stmt::ChecksumGet { dst, .. } | Stmt::ChecksumGetState { dst, .. } => dst.index_read(each),
            // What the table's key and actions read is theirs.
            Stmt::Apply { hit, ran, .. } => hit.iter().chain(ran).for_each(|field| field.index_read(each)),
            Stmt::CopyStack { .. }
            | Stmt::CopyUnionStack { .. }
            | Stmt::Push { .. }
            | Stmt::Pop { .. }
            | Stmt::PushUnions { .. }
            | Stmt::PopUnions { .. }
            | Stmt::Jump(_)
            | Stmt::Exit
            | Stmt::Digest { .. }
            | Stmt::Resubmit { .. }
            | Stmt::Recirculate { .. }
            | Stmt::MarkToDrop { .. }
            | Stmt::ChecksumClear(_)
            | Stmt::NoOp => {}
        }
    }
    /// Call `each` with all that the statement may write of the packet header vector's headers and metadata (what a table's meter and a
    /// checksum write is theirs).
    pub fn writes(&self, each: &mut dyn FnMut(Written<'_>)) {
        match self {
            Stmt::Assign { dst, .. }
            | Stmt::AssignVarbit { dst, .. }
            | Stmt::RegisterRead { dst, .. }
            | Stmt::Random { dst, .. }
            | Stmt::Hash { dst, .. }
            | Stmt::ChecksumGet { dst, .. }
            | Stmt::ChecksumVerify { dst, .. }
            | Stmt::ChecksumGetState { dst, .. }
            | Stmt::Meter { dst: Some(dst), .. } => each(Written::Field(dst)),
            Stmt::Apply { hit, ran, .. } => {
                hit.iter().chain(ran).for_each(|field| each(Written::Field(field)));
            }
            Stmt::MarkToDrop { egress_spec, mcast_grp } => {
                egress_spec.iter().chain(mcast_grp).for_each(|field| each(Written::Request(*field)));
            }
            Stmt::CopyHeader { dst: header, .. } | Stmt::SetValid(header) | Stmt::SetInvalid(header) => {
                each(Written::Header(header));
            }
            Stmt::CopyUnion { dst, .. } => each(Written::Union(dst)),
            Stmt::CopyStack { dst: stack, .. } | Stmt::Push { stack, .. } | Stmt::Pop { stack, .. } => {
                each(Written::Stack(*stack));
            }
            Stmt::CopyUnionStack { dst: stack, .. }
            | Stmt::PushUnions { stack, .. }
            | Stmt::PopUnions { stack, .. } => each(Written::UnionStack(*stack)),
            Stmt::Jump(_)
            | Stmt::JumpUnless { .. }
            | Stmt::Exit
            | Stmt::Assert(_)
            | Stmt::Assume(_)
            | Stmt::Log { .. }
            | Stmt::Count { .. }
            | Stmt::Meter { dst: None, .. }
            | Stmt::RegisterWrite { .. }
            | Stmt::Digest { .. }
            | Stmt::CloneIngress { .. }
            | Stmt::CloneEgress { .. }
            | Stmt::Resubmit { .. }
            | Stmt::Recirculate { .. }
            | Stmt::Truncate { .. }
            | Stmt::ChecksumClear(_)
            | Stmt::ChecksumAdd { .. }
            | Stmt::ChecksumSubtract { .. }
            | Stmt::ChecksumSetState { .. }
            | Stmt::NoOp => {}
        }
    }
}
