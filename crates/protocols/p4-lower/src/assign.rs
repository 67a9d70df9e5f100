//! Values into places.

use barewire_p4::ir::{BinaryOp as Op, Expr, FieldRef, HeaderRef, Stmt, UnionRef};
use barewire_p4_source::Span;
use barewire_p4_source::types::ty::{Type, TypeId};
use num_bigint::BigInt;

use super::ops::{binary, int};
use super::{Lower, Result, Val, refuse};

impl Lower<'_> {
    /// `target = value`, both of one type.
    pub(crate) fn assign(&mut self, target: &Val, value: &Val, ty: TypeId, span: Span) -> Result<()> {
        if target == value || *target == Val::Nothing {
            return Ok(());
        }
        match (target, value) {
            (Val::Field(dst), Val::Field(src)) if self.is_varbit(ty) => {
                self.stmt_out(Stmt::AssignVarbit { dst: dst.clone(), src: src.clone() });
            }
            (Val::Field(dst), value) => {
                let value = self.num(value, span)?;
                self.stmt_out(Stmt::Assign { dst: dst.clone(), value });
            }
            (Val::Slice { base, base_ty, high, low }, value) => {
                let value = self.num(value, span)?;
                let old = self.num(base, span)?;
                let Some(shape) = self.scalar(*base_ty) else {
                    return refuse(span, "bits of something without a width");
                };
                let ones = ((BigInt::from(1) << (high - low + 1)) - 1) << *low;
                let all = (BigInt::from(1) << shape.width) - 1;
                let kept = binary(Op::BitAnd, old, Expr::Int(all - &ones));
                let put = binary(Op::BitAnd, binary(Op::Shl, value, int(*low)), Expr::Int(ones));
                let new = super::ops::wrap(binary(Op::BitOr, kept, put), shape.width, shape.signed);
                self.assign(base, &Val::Num(new), *base_ty, span)?;
            }
            (Val::Parts(_), value) => {
                let value = self.detached(target, value.clone(), ty, span)?;
                let (to, from) = (self.parts(target, span)?, self.parts(&value, span)?);
                let Some(types) = self.parts_of(ty) else {
                    return refuse(span, "this is not lowered as a struct");
                };
                for (at, (_, ty)) in types.into_iter().enumerate() {
                    let (Some(to), Some(from)) = (to.get(at), from.get(at)) else {
                        return refuse(span, "a struct of another shape");
                    };
                    self.assign(to, from, ty, span)?;
                }
            }
            (Val::Header(dst), Val::Header(src)) => {
                self.stmt_out(Stmt::CopyHeader { dst: dst.clone(), src: src.clone() });
            }
            (Val::Header(dst), Val::Invalid) => self.stmt_out(Stmt::SetInvalid(dst.clone())),
            (Val::Header(dst), Val::HeaderParts(_) | Val::Parts(_)) => {
                let fields = self.header_value(dst, ty, span)?;
                let value = self.header_detached(&fields, value.clone(), ty, span)?;
                self.stmt_out(Stmt::SetValid(dst.clone()));
                let (to, from) = (self.parts(&fields, span)?, self.parts(&value, span)?);
                let types = self.header_fields(ty).unwrap_or_default();
                for (at, (_, ty)) in types.into_iter().enumerate() {
                    let (Some(to), Some(from)) = (to.get(at), from.get(at)) else {
                        return refuse(span, "a header of another shape");
                    };
                    self.assign(to, from, ty, span)?;
                }
            }
            (Val::Union(dst), Val::Union(src)) => {
                self.stmt_out(Stmt::CopyUnion { dst: dst.clone(), src: src.clone() });
            }
            (Val::Union(dst), Val::Invalid) => {
                for member in self.members(dst, span)? {
                    self.stmt_out(Stmt::SetInvalid(member));
                }
            }
            (Val::Stack(dst), Val::Stack(src)) => self.stmt_out(Stmt::CopyStack { dst: *dst, src: *src }),
            (Val::UnionStack(dst), Val::UnionStack(src)) => {
                self.stmt_out(Stmt::CopyUnionStack { dst: *dst, src: *src });
            }
            (Val::Stack(dst), Val::Parts(parts)) => {
                let bare = self.bare(ty);
                let Type::Stack(of, _) = *self.types.get(bare) else {
                    return refuse(span, "this is no stack");
                };
                let elements = self.program.stacks[dst.at()].elements.clone();
                for (element, part) in elements.into_iter().zip(parts.iter()) {
                    self.assign(&Val::Header(element.into()), part, of, span)?;
                }
            }
            _ => return refuse(span, "an assignment that is not lowered"),
        }
        self.bounded(span)
    }

    /// All members of a union.
    pub(crate) fn members(&mut self, union: &UnionRef, span: Span) -> Result<Vec<HeaderRef>> {
        match union {
            UnionRef::Union(id) => {
                Ok(self.program.unions[id.at()].members.iter().map(|&h| h.into()).collect())
            }
            UnionRef::Element(stack, at) => {
                let first = self.program.union_stacks[stack.at()].elements.first().copied();
                let Some(first) = first else { return refuse(span, "a stack without elements") };
                let count = self.program.unions[first.at()].members.len();
                Ok((0..count).map(|m| HeaderRef::UnionStackElement(*stack, at.clone(), m as u32)).collect())
            }
        }
    }

    fn header_detached(&mut self, target: &Val, value: Val, ty: TypeId, span: Span) -> Result<Val> {
        let fields = self.header_fields(ty).unwrap_or_default();
        self.detach(target, value, fields.into_iter().map(|(_, ty)| ty).collect(), span)
    }

    fn detached(&mut self, target: &Val, value: Val, ty: TypeId, span: Span) -> Result<Val> {
        let fields = self.parts_of(ty).unwrap_or_default();
        self.detach(target, value, fields.into_iter().map(|(_, ty)| ty).collect(), span)
    }

    /// The value with copies of what the target's own fields give to it: it is read as it was before the assignment.
    fn detach(&mut self, target: &Val, value: Val, types: Vec<TypeId>, span: Span) -> Result<Val> {
        let mut written: Vec<FieldRef> = Vec::new();
        Self::reads(target, &mut |field| written.push(field.clone()));
        let mut clash = false;
        Self::reads(&value, &mut |field| clash |= written.iter().any(|w| w == field || w.fixed().is_none()));
        // Truth values that ask whether a header is valid are read before the header is made valid.
        let asks = matches!(target, Val::Parts(_)) && Self::asks_validity(&value);
        if !clash && !asks {
            return Ok(value);
        }
        let parts = self.parts(&value, span)?;
        let mut out = Vec::new();
        for (part, ty) in parts.iter().zip(types) {
            out.push(self.saved(part, ty, "tmp", span)?);
        }
        Ok(match value {
            Val::HeaderParts(_) => Val::HeaderParts(out.into()),
            _ => Val::Parts(out.into()),
        })
    }

    /// Whether a value has a truth value in it that may ask for validity.
    fn asks_validity(val: &Val) -> bool {
        match val {
            Val::Num(expr) | Val::Truth(expr) => format!("{expr:?}").contains("Valid("),
            Val::Parts(parts) | Val::HeaderParts(parts) => parts.iter().any(Self::asks_validity),
            Val::Slice { base, .. } => Self::asks_validity(base),
            _ => false,
        }
    }

    /// A copy that later statements do not change.
    pub(crate) fn saved(&mut self, val: &Val, ty: TypeId, name: &str, span: Span) -> Result<Val> {
        if Self::is_fixed(val) {
            return Ok(val.clone());
        }
        self.copied(val, ty, name, span)
    }

    /// A copy in storage of its own.
    pub(crate) fn copied(&mut self, val: &Val, ty: TypeId, name: &str, span: Span) -> Result<Val> {
        let place = self.storage(name, ty, span)?;
        self.assign(&place, val, ty, span)?;
        Ok(place)
    }

    /// What a variable of a type holds when nothing was written: headers are invalid.
    pub(crate) fn forget(&mut self, place: &Val, ty: TypeId, span: Span) -> Result<()> {
        match place {
            Val::Parts(parts) => {
                let types = self.parts_of(ty).unwrap_or_default();
                for (part, (_, ty)) in parts.iter().zip(types) {
                    self.forget(part, ty, span)?;
                }
                Ok(())
            }
            Val::Header(_) | Val::Union(_) => self.assign(place, &Val::Invalid, ty, span),
            Val::Stack(id) => {
                let count = self.program.stacks[id.at()].elements.len() as u32;
                self.stmt_out(Stmt::Pop { stack: *id, count });
                Ok(())
            }
            Val::UnionStack(id) => {
                let count = self.program.union_stacks[id.at()].elements.len() as u32;
                self.stmt_out(Stmt::PopUnions { stack: *id, count });
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
