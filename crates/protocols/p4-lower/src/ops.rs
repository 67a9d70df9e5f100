//! Operators on numbers: the widths of P4's types made explicit, constants folded.

use barewire_p4::ir::{BinaryOp as Op, Expr, FieldRef, HeaderRef, UnaryOp};
use barewire_p4_source::Span;
use barewire_p4_source::ast::BinaryOp;
use barewire_p4_source::types::ty::{Type, TypeId};
use barewire_p4_source::types::value;
use num_bigint::BigInt;
use num_traits::{One, Signed as _, ToPrimitive as _, Zero as _};

use super::storage::Scalar;
use super::{Lower, Result, Val, refuse};

pub(crate) fn int(value: impl Into<BigInt>) -> Expr {
    Expr::Int(value.into())
}

pub(crate) fn binary(op: Op, left: Expr, right: Expr) -> Expr {
    if let (Expr::Int(a), Expr::Int(b)) = (&left, &right)
        && let Some(folded) = fold(op, a, b)
    {
        return folded;
    }
    Expr::Binary(op, Box::new(left), Box::new(right))
}

fn fold(op: Op, a: &BigInt, b: &BigInt) -> Option<Expr> {
    use num_integer::Integer as _;
    Some(match op {
        Op::Add => int(a + b),
        Op::Sub => int(a - b),
        Op::Mul => int(a * b),
        Op::Div if b.is_positive() && !a.is_negative() => int(a / b),
        Op::Rem if b.is_positive() && !a.is_negative() => int(a.mod_floor(b)),
        Op::Shl => int(a << value::distance(b)?),
        Op::Shr => int(a >> value::distance(b)?),
        Op::BitAnd => int(a & b),
        Op::BitOr => int(a | b),
        Op::BitXor => int(a ^ b),
        Op::Eq => Expr::Bool(a == b),
        Op::Ne => Expr::Bool(a != b),
        Op::Lt => Expr::Bool(a < b),
        Op::Le => Expr::Bool(a <= b),
        Op::Gt => Expr::Bool(a > b),
        Op::Ge => Expr::Bool(a >= b),
        _ => return None,
    })
}

pub(crate) fn not(value: Expr) -> Expr {
    match value {
        Expr::Bool(value) => Expr::Bool(!value),
        Expr::Unary(UnaryOp::Not, inner) => *inner,
        other => Expr::Unary(UnaryOp::Not, Box::new(other)),
    }
}

pub(crate) fn and(left: Expr, right: Expr) -> Expr {
    match (left, right) {
        (Expr::Bool(true), other) | (other, Expr::Bool(true)) => other,
        (Expr::Bool(false), _) => Expr::Bool(false),
        (left, right) => Expr::Binary(Op::And, Box::new(left), Box::new(right)),
    }
}

fn mask(width: u32) -> BigInt {
    (BigInt::one() << width) - 1
}

/// The low bits as an unsigned or signed number.
pub(crate) fn wrap(expr: Expr, width: u32, signed: bool) -> Expr {
    if let Expr::Int(number) = &expr {
        return Expr::Int(value::wrap(number, width, signed));
    }
    match (width, signed) {
        (0, _) => int(0),
        (_, true) => Expr::Wrap { value: Box::new(expr), width },
        (_, false) => binary(Op::BitAnd, expr, Expr::Int(mask(width))),
    }
}

pub(crate) fn to_int(truth: Expr) -> Expr {
    match truth {
        Expr::Bool(value) => int(u8::from(value)),
        Expr::Unary(UnaryOp::IntToBool, inner) if matches!(*inner, Expr::Field(_)) => *inner,
        other => Expr::Unary(UnaryOp::BoolToInt, Box::new(other)),
    }
}

pub(crate) fn to_truth(number: Expr) -> Expr {
    match number {
        Expr::Int(value) => Expr::Bool(!value.is_zero()),
        other => Expr::Unary(UnaryOp::IntToBool, Box::new(other)),
    }
}

impl Lower<'_> {
    /// A value as a number; a truth value as 0 or 1.
    pub(crate) fn num(&mut self, val: &Val, span: Span) -> Result<Expr> {
        Ok(match val {
            Val::Num(expr) => expr.clone(),
            Val::Truth(expr) => to_int(expr.clone()),
            Val::Field(field) => Expr::Field(field.clone()),
            Val::Slice { base, base_ty, high, low } => {
                let base = self.num(base, span)?;
                let _ = base_ty;
                wrap(binary(Op::Shr, base, int(*low)), high - low + 1, false)
            }
            Val::Bits { base, low, width, .. } => {
                let (base, low) = (self.num(base, span)?, self.num(&low.0, span)?);
                wrap(binary(Op::Shr, base, low), *width, false)
            }
            Val::Element { elements, index } => self.chosen(elements, 0, index, span)?,
            _ => return refuse(span, "this is not lowered as a number"),
        })
    }

    /// One of several numbers, the last where the index is past the end (which the language leaves open): halved, so that it
    /// nests no deeper than it must.
    fn chosen(&mut self, elements: &[Val], first: usize, index: &Expr, span: Span) -> Result<Expr> {
        match elements {
            [] => refuse(span, "an array without elements"),
            [one] => self.num(one, span),
            _ => {
                let half = elements.len() / 2;
                let below = binary(Op::Lt, index.clone(), int(first + half));
                let low = self.chosen(&elements[..half], first, index, span)?;
                let high = self.chosen(&elements[half..], first + half, index, span)?;
                Ok(Expr::Select(Box::new(below), Box::new(low), Box::new(high)))
            }
        }
    }

    pub(crate) fn truth(&mut self, val: &Val, span: Span) -> Result<Expr> {
        Ok(match val {
            Val::Truth(expr) => expr.clone(),
            other => to_truth(self.num(other, span)?),
        })
    }

    /// A value of one type as a value of another.
    pub(crate) fn cast(&mut self, val: Val, from: TypeId, to: TypeId, span: Span) -> Result<Val> {
        let (from, to) = (self.bare(from), self.bare(to));
        if from == to {
            return Ok(val);
        }
        if matches!(self.types.get(from), Type::Default) {
            return self.default_of(to, span);
        }
        // `...` at the end of a list stands for the rest.
        let open = matches!(self.types.get(from), Type::Sequence(_, true) | Type::Record(_, true));
        if let Some(target) = self.scalar(to) {
            if target.truth {
                return Ok(Val::Truth(self.truth(&val, span)?));
            }
            let number = self.num(&val, span)?;
            let source = self.scalar(from);
            let kept = source.is_some_and(|s| {
                s.signed == target.signed && s.width <= target.width || !s.signed && s.width < target.width
            });
            return Ok(Val::Num(if kept { number } else { wrap(number, target.width, target.signed) }));
        }
        if matches!(val, Val::Invalid | Val::Header(_) | Val::Union(_) | Val::Stack(_) | Val::UnionStack(_)) {
            return Ok(val);
        }
        let header = self.header_fields(to);
        let is_header = header.is_some();
        let target = match header {
            Some(fields) => Some(fields),
            None => self.parts_of(to),
        };
        let Some(target) = target else {
            return match self.types.get(to) {
                Type::Stack(of, size) => {
                    let (of, size) = (*of, *size as usize);
                    let parts = self.parts(&val, span)?;
                    let from = self.types.parts(from);
                    let mut out = Vec::new();
                    for (at, part) in parts.iter().enumerate() {
                        let source = from.get(at).copied().unwrap_or(of);
                        out.push(self.cast(part.clone(), source, of, span)?);
                    }
                    while open && out.len() < size {
                        out.push(self.default_of(of, span)?);
                    }
                    Ok(Val::Parts(out.into()))
                }
                _ => Ok(val),
            };
        };
        let parts = self.parts(&val, span)?;
        let source = match self.header_fields(from) {
            Some(fields) => fields,
            None => match self.parts_of(from) {
                Some(parts) => parts,
                None => return refuse(span, "this is not lowered as a struct"),
            },
        };
        // By name if the source has names, else by place.
        let named = matches!(self.types.get(from), Type::Record(..));
        let mut out = Vec::new();
        for (at, (name, to)) in target.into_iter().enumerate() {
            let at = if named { source.iter().position(|(n, _)| *n == name) } else { Some(at) };
            let Some((part, (_, from))) = at.and_then(|at| Some((parts.get(at)?, source.get(at)?))) else {
                if open {
                    out.push(self.default_of(to, span)?);
                    continue;
                }
                return refuse(span, "a list that leaves out fields");
            };
            out.push(self.cast(part.clone(), *from, to, span)?);
        }
        Ok(if is_header { Val::HeaderParts(out.into()) } else { Val::Parts(out.into()) })
    }

    /// An operator of numbers or truth values; `ty` is the type of the left operand.
    pub(crate) fn operate(
        &mut self,
        op: BinaryOp,
        (left, left_ty): (&Val, TypeId),
        (right, right_ty): (&Val, TypeId),
        result: TypeId,
        span: Span,
    ) -> Result<Val> {
        use BinaryOp as B;
        if matches!(op, B::Eq | B::Ne) {
            let equal = self.equal((left, left_ty), (right, right_ty), span)?;
            return Ok(Val::Truth(if op == B::Eq { equal } else { not(equal) }));
        }
        if matches!(op, B::And | B::Or) {
            let (left, right) = (self.truth(left, span)?, self.truth(right, span)?);
            return Ok(Val::Truth(match (op, left, right) {
                (B::And, left, right) => and(left, right),
                (_, left, right) => not(and(not(left), not(right))),
            }));
        }
        let (a, b) = (self.num(left, span)?, self.num(right, span)?);
        let simple = match op {
            B::Lt => Some(Op::Lt),
            B::Le => Some(Op::Le),
            B::Gt => Some(Op::Gt),
            B::Ge => Some(Op::Ge),
            _ => None,
        };
        if let Some(op) = simple {
            return Ok(Val::Truth(binary(op, a, b)));
        }
        let shape = self.scalar(result);
        let fit = |expr| match shape {
            Some(Scalar { width, signed, .. }) => wrap(expr, width, signed),
            None => expr,
        };
        Ok(Val::Num(match op {
            B::Add => fit(binary(Op::Add, a, b)),
            B::Sub => fit(binary(Op::Sub, a, b)),
            B::Mul => fit(binary(Op::Mul, a, b)),
            B::Div => binary(Op::Div, a, b),
            B::Mod => binary(Op::Rem, a, b),
            B::Shl => fit(binary(Op::Shl, a, b)),
            B::Shr => binary(Op::Shr, a, b),
            B::BitAnd => binary(Op::BitAnd, a, b),
            B::BitOr => binary(Op::BitOr, a, b),
            B::BitXor => binary(Op::BitXor, a, b),
            B::AddSat | B::SubSat => {
                let value = binary(if op == B::AddSat { Op::Add } else { Op::Sub }, a, b);
                match (shape, value) {
                    (Some(s), Expr::Int(value)) => Expr::Int(value::saturate(value, s.width, s.signed)),
                    (Some(s), value) => {
                        Expr::Saturate { value: Box::new(value), width: s.width.max(1), signed: s.signed }
                    }
                    (None, value) => value,
                }
            }
            B::Concat => {
                let Some(r) = self.scalar(right_ty) else {
                    return refuse(span, "`++` of operands without a width");
                };
                let low = if r.signed { wrap(b, r.width, false) } else { b };
                fit(binary(Op::BitOr, binary(Op::Shl, a, int(r.width)), low))
            }
            B::Lt | B::Le | B::Gt | B::Ge | B::Eq | B::Ne | B::And | B::Or => {
                return refuse(span, "an operator that is not lowered");
            }
        }))
    }

    /// `==`
    pub(crate) fn equal(
        &mut self,
        (left, left_ty): (&Val, TypeId),
        (right, right_ty): (&Val, TypeId),
        span: Span,
    ) -> Result<Expr> {
        if self.is_varbit(left_ty) && self.is_varbit(right_ty) {
            let (a, b) = (self.varbit_alone(left, left_ty, span)?, self.varbit_alone(right, right_ty, span)?);
            return Ok(Expr::HeadersEqual(a, b));
        }
        Ok(match (left, right) {
            (Val::Header(a), Val::Header(b)) => Expr::HeadersEqual(a.clone(), b.clone()),
            (Val::Header(a), Val::Invalid) | (Val::Invalid, Val::Header(a)) => not(Expr::Valid(a.clone())),
            (Val::Union(a), Val::Invalid) | (Val::Invalid, Val::Union(a)) => not(Expr::UnionValid(a.clone())),
            (Val::Union(a), Val::Union(b)) => Expr::UnionsEqual(a.clone(), b.clone()),
            (Val::Stack(a), Val::Stack(b)) => Expr::StacksEqual(*a, *b),
            (Val::UnionStack(a), Val::UnionStack(b)) => Expr::UnionStacksEqual(*a, *b),
            (Val::Header(h), parts @ Val::HeaderParts(_)) => {
                let tree = self.header_value(h, left_ty, span)?;
                let same = self.equal_parts((&tree, left_ty), (parts, right_ty), span)?;
                and(Expr::Valid(h.clone()), same)
            }
            (parts @ Val::HeaderParts(_), header @ Val::Header(_)) => {
                self.equal((header, right_ty), (parts, left_ty), span)?
            }
            (Val::Parts(_) | Val::HeaderParts(_), Val::Parts(_) | Val::HeaderParts(_)) => {
                self.equal_parts((left, left_ty), (right, right_ty), span)?
            }
            (Val::Truth(_), _) | (_, Val::Truth(_)) => {
                let (a, b) = (self.num(left, span)?, self.num(right, span)?);
                binary(Op::Eq, a, b)
            }
            _ => {
                let (a, b) = (self.num(left, span)?, self.num(right, span)?);
                binary(Op::Eq, a, b)
            }
        })
    }

    pub(crate) fn is_varbit(&mut self, ty: TypeId) -> bool {
        let ty = self.bare(ty);
        matches!(self.types.get(ty), Type::Varbit(_))
    }

    /// A header with a varbit and nothing else: those are compared with their lengths (section 8.10).
    fn varbit_alone(&mut self, val: &Val, ty: TypeId, span: Span) -> Result<HeaderRef> {
        if let Val::Field(field) = val
            && let HeaderRef::Header(id) = field.header
            && self.program.headers[id.at()].metadata
            && self.program.header_type_of(id).fields.len() == 1
        {
            return Ok(id.into());
        }
        match self.copied(val, ty, "compared", span)? {
            Val::Field(field) => Ok(field.header),
            _ => refuse(span, "this is not lowered as a varbit"),
        }
    }

    fn types_of_parts(&mut self, ty: TypeId, count: usize, span: Span) -> Result<Vec<TypeId>> {
        let parts = match self.header_fields(ty) {
            Some(fields) => Some(fields),
            None => self.parts_of(ty),
        };
        match parts {
            Some(parts) if parts.len() == count => Ok(parts.into_iter().map(|(_, ty)| ty).collect()),
            _ => refuse(span, "a comparison of lists of different length"),
        }
    }

    fn equal_parts(
        &mut self,
        (left, left_ty): (&Val, TypeId),
        (right, right_ty): (&Val, TypeId),
        span: Span,
    ) -> Result<Expr> {
        let (a, b) = (self.parts(left, span)?, self.parts(right, span)?);
        let (a_ty, b_ty) =
            (self.types_of_parts(left_ty, a.len(), span)?, self.types_of_parts(right_ty, b.len(), span)?);
        let mut all = Expr::Bool(true);
        for at in 0..a.len() {
            let (Some(other), Some(other_ty)) = (b.get(at), b_ty.get(at)) else {
                return refuse(span, "a comparison of lists of different length");
            };
            let same = self.equal((&a[at], a_ty[at]), (other, *other_ty), span)?;
            all = and(all, same);
        }
        Ok(all)
    }

    /// The fields of a header as parts.
    pub(crate) fn header_value(
        &mut self,
        header: &barewire_p4::ir::HeaderRef,
        ty: TypeId,
        span: Span,
    ) -> Result<Val> {
        let Some(fields) = self.header_fields(ty) else { return refuse(span, "this is no header") };
        let mut next = 0;
        Ok(Val::Parts(fields.into_iter().map(|(_, ty)| self.tree(header, ty, &mut next)).collect()))
    }

    /// The number, if it is known.
    pub(crate) fn known(val: &Val) -> Option<u32> {
        match val {
            Val::Num(Expr::Int(value)) => value.to_u32(),
            _ => None,
        }
    }

    /// A value that later statements do not change.
    pub(crate) fn is_fixed(val: &Val) -> bool {
        match val {
            Val::Num(Expr::Int(_) | Expr::Param(_)) | Val::Truth(Expr::Bool(_)) => true,
            Val::Truth(Expr::Unary(UnaryOp::IntToBool, inner)) => matches!(**inner, Expr::Param(_)),
            Val::Parts(parts) | Val::HeaderParts(parts) => parts.iter().all(Self::is_fixed),
            Val::Invalid | Val::Text(_) | Val::Nothing | Val::Object(_) => true,
            _ => false,
        }
    }

    /// Whether a value reads from a header, or is in it.
    pub(crate) fn reads(val: &Val, of: &mut dyn FnMut(&FieldRef)) {
        match val {
            Val::Num(expr) | Val::Truth(expr) => expr.fields_read(of),
            Val::Field(field) => of(field),
            Val::Parts(parts) | Val::HeaderParts(parts) => {
                parts.iter().for_each(|part| Self::reads(part, of))
            }
            Val::Slice { base, .. } => Self::reads(base, of),
            Val::Bits { base, low, .. } => {
                Self::reads(base, of);
                Self::reads(&low.0, of);
            }
            Val::Element { elements, index } => {
                elements.iter().for_each(|element| Self::reads(element, of));
                index.fields_read(of);
            }
            _ => {}
        }
    }
}
