//! Values into places.

use std::collections::HashSet;

use barewire_p4::ir::{BinaryOp as Op, Expr, FieldRef, HeaderRef, Stmt, UnionRef};
use barewire_p4_source::Span;
use barewire_p4_source::types::ty::{Type, TypeId};
use num_bigint::BigInt;

use super::call::Leaf;
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
            (Val::Bits { base, base_ty, low, width }, value) => {
                let (value, old) = (self.num(value, span)?, self.num(base, span)?);
                let low = self.num(&low.0, span)?;
                let new = self.with_bits(old, *base_ty, low, *width, value, span)?;
                self.assign(base, &Val::Num(new), *base_ty, span)?;
            }
            (Val::Element { elements, index }, value) => {
                let value = self.saved(value, ty, "tmp", span)?;
                let value = self.num(&value, span)?;
                for (at, element) in elements.iter().enumerate() {
                    let this = Box::new(binary(Op::Eq, (**index).clone(), int(at)));
                    let old = self.num(element, span)?;
                    let new = Expr::Select(this, Box::new(value.clone()), Box::new(old));
                    self.assign(element, &Val::Num(new), ty, span)?;
                }
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
            (Val::Stack(dst), value @ Val::Parts(parts)) => {
                let bare = self.bare(ty);
                let Type::Stack(of, _) = *self.types.get(bare) else {
                    return refuse(span, "this is no stack");
                };
                let value = self.detach(target, value.clone(), vec![of; parts.len()], span)?;
                let parts = self.parts(&value, span)?;
                let elements = self.program.stacks[dst.at()].elements.clone();
                for (element, part) in elements.into_iter().zip(parts.iter()) {
                    self.assign(&Val::Header(element.into()), part, of, span)?;
                }
            }
            _ => return refuse(span, "an assignment that is not lowered"),
        }
        self.bounded(span)
    }

    /// `old` with `value` in the `width` bits from `low` on, which depends on the packet.
    fn with_bits(
        &mut self,
        old: Expr,
        ty: TypeId,
        low: Expr,
        width: u32,
        value: Expr,
        span: Span,
    ) -> Result<Expr> {
        let Some(shape) = self.scalar(ty) else {
            return refuse(span, "bits of something without a width");
        };
        let all: BigInt = (BigInt::from(1) << shape.width) - 1;
        let ones: BigInt = (BigInt::from(1) << width) - 1;
        // Bits past the end of the place are none of it.
        let place = binary(Op::BitAnd, binary(Op::Shl, Expr::Int(ones), low.clone()), Expr::Int(all.clone()));
        let kept = binary(Op::BitAnd, old, binary(Op::BitXor, Expr::Int(all), place.clone()));
        let put = binary(Op::BitAnd, binary(Op::Shl, value, low), place);
        Ok(super::ops::wrap(binary(Op::BitOr, kept, put), shape.width, shape.signed))
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
        let same =
            |field: &FieldRef, w: &FieldRef| w == field || w.fixed().is_none() || field.fixed().is_none();
        Self::reads(&value, &mut |field| clash |= written.iter().any(|w| same(field, w)));
        let (mut whole, mut of_value) = (HashSet::new(), HashSet::new());
        self.wholes(target, &mut whole);
        if !whole.is_empty() {
            self.leaves(&value, &mut of_value);
            clash |= !whole.is_disjoint(&of_value);
        }
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
            Val::Num(expr) | Val::Truth(expr) => expr.asks_headers(),
            Val::Parts(parts) | Val::HeaderParts(parts) => parts.iter().any(Self::asks_validity),
            Val::Slice { base, .. } => Self::asks_validity(base),
            Val::Bits { base, low, .. } => Self::asks_validity(base) || Self::asks_validity(&low.0),
            _ => false,
        }
    }

    /// A place whose bits are chosen now, whatever becomes of what chose them.
    pub(crate) fn pinned(&mut self, place: Val, span: Span) -> Result<Val> {
        Ok(match place {
            Val::Bits { base, base_ty, low, width } => {
                let base = Box::new(self.pinned(*base, span)?);
                let low = Box::new((self.saved(&low.0, low.1, "low", span)?, low.1));
                Val::Bits { base, base_ty, low, width }
            }
            Val::Slice { base, base_ty, high, low } => {
                let base = Box::new(self.pinned(*base, span)?);
                Val::Slice { base, base_ty, high, low }
            }
            other => other,
        })
    }

    /// The headers that are in a value as a whole, those of stacks and unions too.
    fn wholes(&self, val: &Val, out: &mut HashSet<Leaf>) {
        match val {
            Val::Parts(parts) | Val::HeaderParts(parts) => {
                parts.iter().for_each(|part| self.wholes(part, out))
            }
            Val::Header(_) | Val::Union(_) | Val::Stack(_) | Val::UnionStack(_) => self.leaves(val, out),
            _ => {}
        }
    }

    /// A copy that later statements do not change.
    pub(crate) fn saved(&mut self, val: &Val, ty: TypeId, name: &str, span: Span) -> Result<Val> {
        if Self::is_fixed(val) {
            return Ok(val.clone());
        }
        // Part by part: numbers that are known have no width of their own, and need none.
        if let Val::Parts(parts) = val
            && let Some(types) = self.parts_of(ty)
            && types.len() == parts.len()
        {
            let mut out = Vec::new();
            for (part, (field, ty)) in parts.iter().zip(types) {
                out.push(self.saved(part, ty, &format!("{name}.{field}"), span)?);
            }
            return Ok(Val::Parts(out.into()));
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
