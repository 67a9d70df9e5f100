//! Expressions: from left to right, each operand as it was when its turn came.

use barewire_p4::ir::{BinaryOp as Op, Expr, HeaderRef, ParserOp, StackId, Stmt, UnaryOp as Unary, UnionRef};
use barewire_p4_source::Span;
use barewire_p4_source::ast::{self, BinaryOp, ExprKind, UnaryOp};
use barewire_p4_source::types::ty::{Type, TypeId};
use barewire_p4_source::types::value::Value;
use barewire_p4_source::types::{Callee, MemberRef, SymbolKind};

use super::code::Ins;
use super::ops::{and, binary, int, not, wrap};
use super::{Lower, Mode, Result, Val, refuse};

impl<'a> Lower<'a> {
    /// The value of an expression after what it is converted to without a word; its type.
    pub(crate) fn value(&mut self, expr: &'a ast::Expr) -> Result<(Val, TypeId)> {
        let (val, ty) = self.raw(expr)?;
        match self.t.converted.get(&expr.id) {
            Some(&to) => {
                let to = self.closed(to);
                Ok((self.cast(val, ty, to, expr.span)?, to))
            }
            None => Ok((val, ty)),
        }
    }

    pub(crate) fn constant(&mut self, value: &Value, ty: TypeId, span: Span) -> Result<Val> {
        Ok(match value {
            Value::Bool(value) => Val::Truth(Expr::Bool(*value)),
            Value::Int(value) | Value::Member(_, value) => match self.scalar(ty) {
                Some(shape) => Val::Num(wrap(Expr::Int(value.clone()), shape.width, shape.signed)),
                None => Val::Num(Expr::Int(value.clone())),
            },
            Value::Enum(_, at) | Value::ErrorCode(at) | Value::MatchKind(at) => Val::Num(int(*at)),
            Value::Str(text) => Val::Text(text.clone()),
            Value::Invalid(_) => Val::Invalid,
            Value::List(values) => {
                let header = self.header_fields(ty);
                let is_header = header.is_some();
                let types = match header {
                    Some(fields) => Some(fields),
                    None => self.parts_of(ty),
                };
                let types: Vec<TypeId> = match (types, self.types.parts(ty)) {
                    (Some(types), _) => types.into_iter().map(|(_, ty)| ty).collect(),
                    (None, inner) if inner.len() == 1 => vec![inner[0]; values.len()],
                    _ => return refuse(span, "a constant that is not lowered"),
                };
                let mut out = Vec::new();
                for (value, ty) in values.iter().zip(types) {
                    out.push(self.constant(value, ty, span)?);
                }
                if is_header { Val::HeaderParts(out.into()) } else { Val::Parts(out.into()) }
            }
        })
    }

    fn raw(&mut self, expr: &'a ast::Expr) -> Result<(Val, TypeId)> {
        self.depth += 1;
        let result =
            if self.depth > 600 { refuse(expr.span, "this nests too deeply") } else { self.raw_inner(expr) };
        self.depth -= 1;
        result
    }

    fn raw_inner(&mut self, expr: &'a ast::Expr) -> Result<(Val, TypeId)> {
        let span = expr.span;
        // `_` has the type of what it stands for, and the checker writes none down.
        if matches!(expr.kind, ExprKind::DontCare) && self.t.ty(expr.id).is_none() {
            return Ok((Val::Nothing, TypeId::VOID));
        }
        let ty = self.ty(expr.id, span)?;
        if let Some(value) = self.t.constants.get(&expr.id) {
            return Ok((self.constant(value, ty, span)?, ty));
        }
        let val = match &expr.kind {
            ExprKind::Int(literal) => match self.scalar(ty) {
                Some(shape) => Val::Num(wrap(Expr::Int(literal.value.clone()), shape.width, shape.signed)),
                None => Val::Num(Expr::Int(literal.value.clone())),
            },
            ExprKind::String(text) => Val::Text((&**text).into()),
            ExprKind::Bool(value) => Val::Truth(Expr::Bool(*value)),
            ExprKind::Path { name, .. } => {
                let Some(&id) = self.t.refers.get(&expr.id) else {
                    return refuse(span, format!("`{name}` is not known"));
                };
                self.path_value(id, span)?
            }
            ExprKind::Member(base, _) => return Ok((self.member(expr, base, ty)?, ty)),
            ExprKind::Index(base, index) => self.element(base, index, span)?,
            ExprKind::Slice { base, high, low } => {
                let (base, base_ty) = self.value(base)?;
                let (high, low) = (self.number(high)?, self.number(low)?);
                self.slice(base, base_ty, high, low)
            }
            ExprKind::PlusSlice { base, low, width } => {
                let (val, base_ty) = self.value(base)?;
                let width = self.number(width)?;
                let (low, low_ty) = self.value(low)?;
                match (Self::known(&low), val) {
                    (Some(low), val) => self.slice(val, base_ty, low + width - 1, low),
                    (None, Val::Num(number)) => {
                        let low = self.num(&low, span)?;
                        Val::Num(wrap(binary(Op::Shr, number, low), width, false))
                    }
                    (None, base) => {
                        let low = Box::new((low, low_ty));
                        Val::Bits { base: Box::new(base), base_ty, low, width }
                    }
                }
            }
            ExprKind::Unary(op, operand) => self.unary(*op, operand, ty, span)?,
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), left, right) => {
                self.short_circuit(*op, left, right, span)?
            }
            ExprKind::Binary(op, left, right) => {
                let values = self.in_order(&[left, right])?;
                let [(left, left_ty), (right, right_ty)] = &values[..] else {
                    return refuse(span, "an operator with two operands");
                };
                self.operate(*op, (left, *left_ty), (right, *right_ty), ty, span)?
            }
            ExprKind::Conditional(condition, then, otherwise) => {
                return self.conditional(condition, then, otherwise, ty, span);
            }
            ExprKind::Cast(_, operand) => {
                let (val, from) = self.value(operand)?;
                self.cast(val, from, ty, span)?
            }
            ExprKind::Call(call) => self.call(expr, call)?,
            ExprKind::List { items, .. } => {
                let items: Vec<&ast::Expr> = items.iter().collect();
                let values = self.in_order(&items)?;
                let parts: Vec<Val> = values.into_iter().map(|(val, _)| val).collect();
                if self.header_fields(ty).is_some() {
                    Val::HeaderParts(parts.into())
                } else {
                    Val::Parts(parts.into())
                }
            }
            ExprKind::Struct { fields, .. } => {
                let named: Vec<(&str, &ast::Expr)> =
                    fields.iter().map(|field| (&*field.key.name, &field.value)).collect();
                self.struct_value(&named, ty, span)?
            }
            ExprKind::Invalid => Val::Invalid,
            ExprKind::DontCare => Val::Nothing,
            // What it comes to depends on the type that it is converted to.
            ExprKind::Default => Val::Nothing,
            ExprKind::This => match self.this.last() {
                Some(this) => this.clone(),
                None => return refuse(span, "`this` outside a method"),
            },
            ExprKind::Type(_) | ExprKind::Error => return refuse(span, "this is no value"),
        };
        Ok((val, ty))
    }

    fn unary(&mut self, op: UnaryOp, operand: &'a ast::Expr, ty: TypeId, span: Span) -> Result<Val> {
        let (val, _) = self.value(operand)?;
        let op = match op {
            UnaryOp::Not => return Ok(Val::Truth(not(self.truth(&val, span)?))),
            UnaryOp::Plus => return Ok(val),
            UnaryOp::Minus => Unary::Neg,
            UnaryOp::Complement => Unary::BitNot,
        };
        let result = match self.num(&val, span)? {
            Expr::Int(value) if op == Unary::Neg => Expr::Int(-value),
            Expr::Int(value) => Expr::Int(-value - 1),
            other => Expr::Unary(op, Box::new(other)),
        };
        Ok(Val::Num(match self.scalar(ty) {
            Some(shape) => wrap(result, shape.width, shape.signed),
            None => result,
        }))
    }

    /// A struct or header from its fields, which are computed in the order in which they are written.
    fn struct_value(&mut self, fields: &[(&str, &'a ast::Expr)], ty: TypeId, span: Span) -> Result<Val> {
        let items: Vec<&ast::Expr> = fields.iter().map(|(_, value)| *value).collect();
        let values = self.in_order(&items)?;
        let header = self.header_fields(ty);
        let is_header = header.is_some();
        let order = match header {
            Some(fields) => Some(fields),
            None => self.parts_of(ty),
        };
        let mut parts = Vec::new();
        for (name, field_ty) in order.unwrap_or_default() {
            let at = fields.iter().position(|(known, _)| *known == &*name);
            let Some((val, from)) = at.and_then(|at| values.get(at).cloned()) else {
                return refuse(span, format!("field `{name}` is left out"));
            };
            parts.push(self.cast(val, from, field_ty, span)?);
        }
        Ok(if is_header { Val::HeaderParts(parts.into()) } else { Val::Parts(parts.into()) })
    }

    fn path_value(&mut self, id: barewire_p4_source::types::SymbolId, span: Span) -> Result<Val> {
        if let Some(val) = self.env.get(&id) {
            return Ok(val.clone());
        }
        let symbol = self.t.symbol(id);
        match symbol.kind {
            SymbolKind::Const => {
                let Some(value) = self.t.constants.get(&symbol.node) else {
                    return refuse(span, format!("the value of `{}` is not known", symbol.name));
                };
                let ty = self.closed(symbol.ty);
                self.constant(value, ty, span)
            }
            SymbolKind::Instance if symbol.global => self.global_instance(id, span),
            _ => refuse(span, format!("`{}` is not lowered here", symbol.name)),
        }
    }

    /// Operands in their order: one that a later one could change is kept.
    pub(crate) fn in_order(&mut self, items: &[&'a ast::Expr]) -> Result<Vec<(Val, TypeId)>> {
        let mut out: Vec<(Val, TypeId)> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if at > 0 && self.acts(item) {
                for (before, span) in out.iter_mut().zip(items.iter().map(|i| i.span)) {
                    before.0 = self.saved(&before.0, before.1, "tmp", span)?;
                }
            }
            out.push(self.value(item)?);
        }
        Ok(out)
    }

    /// Whether an expression does something: calls what may change a variable, or applies a table.
    pub(crate) fn acts(&self, expr: &ast::Expr) -> bool {
        if self.t.constants.contains_key(&expr.id) {
            return false;
        }
        match &expr.kind {
            ExprKind::Call(call) => {
                let quiet = self.t.calls.get(&expr.id).is_some_and(|info| match info.callee {
                    Callee::IsValid | Callee::Size => true,
                    // Of a struct it looks at once whether all of it is there.
                    Callee::Method(id) => {
                        let ty = self.t.ty(expr.id).map(|ty| self.types.get(ty));
                        matches!(&*self.t.functions[id.index()].name, "lookahead")
                            && matches!(ty, Some(Type::Bit(_) | Type::Signed(_) | Type::Bool))
                    }
                    _ => false,
                });
                !quiet || call.args.iter().any(|arg| self.acts(&arg.value))
            }
            // A parser may end at it.
            ExprKind::Member(..) if self.t.members.get(&expr.id) == Some(&MemberRef::Last) => true,
            ExprKind::Member(base, _) | ExprKind::Unary(_, base) | ExprKind::Cast(_, base) => self.acts(base),
            ExprKind::Slice { base, .. } => self.acts(base),
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => self.acts(a) || self.acts(b),
            ExprKind::PlusSlice { base, low, .. } => self.acts(base) || self.acts(low),
            ExprKind::Conditional(a, b, c) => self.acts(a) || self.acts(b) || self.acts(c),
            ExprKind::List { items, .. } => items.iter().any(|item| self.acts(item)),
            ExprKind::Struct { fields, .. } => fields.iter().any(|field| self.acts(&field.value)),
            _ => false,
        }
    }

    /// A number that has to be known.
    pub(crate) fn number(&mut self, expr: &'a ast::Expr) -> Result<u32> {
        let (val, _) = self.value(expr)?;
        match Self::known(&val) {
            Some(number) => Ok(number),
            None => refuse(expr.span, "this has to be known when the program is compiled"),
        }
    }

    fn slice(&mut self, base: Val, base_ty: TypeId, high: u32, low: u32) -> Val {
        match base {
            Val::Num(expr) => Val::Num(wrap(binary(Op::Shr, expr, int(low)), high - low + 1, false)),
            // Bits of bits.
            Val::Slice { base, base_ty, low: first, .. } => {
                Val::Slice { base, base_ty, high: high + first, low: low + first }
            }
            base => Val::Slice { base: Box::new(base), base_ty, high, low },
        }
    }

    fn element(&mut self, base: &'a ast::Expr, index: &'a ast::Expr, span: Span) -> Result<Val> {
        let (base, base_ty) = self.value(base)?;
        let (index, index_ty) = self.value(index)?;
        if let Val::Parts(parts) = &base {
            let bare = self.bare(base_ty);
            return match (Self::known(&index), self.types.get(bare)) {
                (Some(at), _) => match parts.get(at as usize) {
                    Some(part) => Ok(part.clone()),
                    None => refuse(span, "an index past the end of the array"),
                },
                (None, &Type::Stack(of, _)) => {
                    let index = self.saved(&index, index_ty, "index", span)?;
                    let number = self.num(&index, span)?;
                    self.picked(parts, &number, of, span)
                }
                _ => refuse(span, "an index of a list that is not known when the program is compiled"),
            };
        }
        let known = Self::known(&index);
        if known.is_none() {
            // The element is chosen now, whatever becomes of the index.
            let index = self.saved(&index, index_ty, "index", span)?;
            let number = Box::new(self.num(&index, span)?);
            return match base {
                Val::Stack(id) => Ok(Val::Header(HeaderRef::StackElement(id, number))),
                Val::UnionStack(id) => Ok(Val::Union(UnionRef::Element(id, number))),
                _ => refuse(span, "an element of something that is no stack"),
            };
        }
        let at = known.unwrap_or(0) as usize;
        match base {
            Val::Stack(id) => match self.program.stacks[id.at()].elements.get(at) {
                Some(&header) => Ok(Val::Header(header.into())),
                None => refuse(span, "an index past the end of the stack"),
            },
            Val::UnionStack(id) => match self.program.union_stacks[id.at()].elements.get(at) {
                Some(&union) => Ok(Val::Union(UnionRef::Union(union))),
                None => refuse(span, "an index past the end of the stack"),
            },
            _ => refuse(span, "an element of something that is no stack"),
        }
    }

    /// One of several values, by a number that the packet tells; a struct field by field.
    fn picked(&mut self, elements: &[Val], index: &Expr, of: TypeId, span: Span) -> Result<Val> {
        if self.scalar(of).is_some() {
            return Ok(Val::Element { elements: elements.into(), index: Box::new(index.clone()) });
        }
        let Some(types) = self.parts_of(of) else {
            return refuse(
                span,
                "an element of this array whose index is not known when the program is compiled",
            );
        };
        let mut parts = Vec::new();
        for (at, (_, ty)) in types.into_iter().enumerate() {
            let mut column = Vec::new();
            for element in elements {
                match self.parts(element, span)?.get(at) {
                    Some(part) => column.push(part.clone()),
                    None => return refuse(span, "an array of another shape"),
                }
            }
            parts.push(self.picked(&column, index, ty, span)?);
        }
        Ok(Val::Parts(parts.into()))
    }

    fn member(&mut self, expr: &'a ast::Expr, base: &'a ast::Expr, ty: TypeId) -> Result<Val> {
        let span = expr.span;
        let Some(member) = self.t.members.get(&expr.id).copied() else {
            return refuse(span, "this member is not lowered");
        };
        match member {
            MemberRef::EnumMember(id, at) => {
                let Some((_, value)) = self.t.enums[id.index()].members.get(at as usize) else {
                    return refuse(span, "this member is not known");
                };
                match self.t.enums[id.index()].repr {
                    Some(_) => self.constant(&value.clone(), ty, span),
                    None => Ok(Val::Num(int(at))),
                }
            }
            MemberRef::ErrorCode(at) => Ok(Val::Num(int(at))),
            MemberRef::Hit | MemberRef::Miss => {
                let (hit, miss, end) = (self.label(), self.label(), self.label());
                let place = self.temp("hit", 1, false);
                self.apply_hit(base, hit, miss)?;
                for (label, value) in [(hit, member == MemberRef::Hit), (miss, member == MemberRef::Miss)] {
                    self.emit(Ins::Label(label));
                    self.assign(
                        &Val::Field(place.clone()),
                        &Val::Truth(Expr::Bool(value)),
                        TypeId::BOOL,
                        span,
                    )?;
                    self.emit(Ins::Jump(end));
                }
                self.emit(Ins::Label(end));
                Ok(Val::Truth(super::ops::to_truth(Expr::Field(place))))
            }
            MemberRef::ActionRun => refuse(span, "`action_run` outside `switch`"),
            MemberRef::Field(at) => {
                let (val, base_ty) = self.value(base)?;
                self.field(val, base_ty, at as usize, span)
            }
            MemberRef::Next | MemberRef::Last | MemberRef::LastIndex | MemberRef::Size => {
                let (val, base_ty) = self.value(base)?;
                let bare = self.bare(base_ty);
                match (member, val, self.types.get(bare)) {
                    (MemberRef::Size, _, Type::Stack(_, size)) => Ok(Val::Num(int(*size))),
                    (MemberRef::Next, Val::Stack(id), _) => Ok(Val::Header(HeaderRef::StackNext(id))),
                    (MemberRef::Last, Val::Stack(id), _) => {
                        self.has_last(id);
                        Ok(Val::Header(HeaderRef::StackLast(id)))
                    }
                    (MemberRef::LastIndex, Val::Stack(id), _) => Ok(Val::Num(Expr::LastIndex(id))),
                    (MemberRef::Next | MemberRef::Last, Val::UnionStack(id), _) => {
                        // Its members say which header: told apart from an element by its index.
                        let end = if member == MemberRef::Next { -1 } else { -2 };
                        Ok(Val::Union(UnionRef::Element(id, Box::new(int(end)))))
                    }
                    _ => refuse(span, "this member of a stack is not lowered"),
                }
            }
        }
    }

    /// The last element of an empty stack is an error of the parser (section 8.18), unless one was extracted right here.
    fn has_last(&mut self, stack: StackId) {
        let next = HeaderRef::StackNext(stack);
        let mut here = self.code.iter().rev().take_while(|ins| match ins {
            Ins::Op(_) => true,
            Ins::Stmt(stmt, _) => !matches!(stmt, Stmt::Pop { .. } | Stmt::CopyStack { .. }),
            _ => false,
        });
        let extracts = |ins: &Ins| match ins {
            Ins::Op(ParserOp::Extract(header) | ParserOp::ExtractVarbit { header, .. }) => *header == next,
            _ => false,
        };
        let Some(error) = self.t.errors.iter().position(|name| &**name == "StackOutOfBounds") else { return };
        if self.mode == Mode::Parser && !here.any(extracts) {
            let condition = binary(Op::Ne, Expr::StackSize(stack), int(0));
            self.emit(Ins::Op(ParserOp::Verify { condition, error: int(error) }));
        }
    }

    pub(crate) fn field(&mut self, val: Val, base_ty: TypeId, at: usize, span: Span) -> Result<Val> {
        match val {
            Val::Parts(parts) | Val::HeaderParts(parts) => match parts.get(at) {
                Some(part) => Ok(part.clone()),
                None => refuse(span, "this field is not known"),
            },
            Val::Header(header) => {
                let fields = self.header_fields(base_ty).unwrap_or_default();
                let mut next =
                    fields[..at.min(fields.len())].iter().map(|(_, ty)| self.flat_count(*ty)).sum();
                match fields.get(at) {
                    Some((_, ty)) => Ok(self.tree(&header, *ty, &mut next)),
                    None => refuse(span, "this field is not known"),
                }
            }
            Val::Union(UnionRef::Union(id)) => match self.program.unions[id.at()].members.get(at) {
                Some(&member) => Ok(Val::Header(member.into())),
                None => refuse(span, "this member is not known"),
            },
            Val::Union(UnionRef::Element(stack, index)) => {
                let member = at as u32;
                Ok(Val::Header(if *index == int(-1) {
                    HeaderRef::UnionStackNext(stack, member)
                } else if *index == int(-2) {
                    HeaderRef::UnionStackLast(stack, member)
                } else {
                    HeaderRef::UnionStackElement(stack, index, member)
                }))
            }
            _ => refuse(span, "a field of this is not lowered"),
        }
    }

    fn short_circuit(
        &mut self,
        op: BinaryOp,
        left: &'a ast::Expr,
        right: &'a ast::Expr,
        span: Span,
    ) -> Result<Val> {
        let (val, _) = self.value(left)?;
        let first = self.truth(&val, left.span)?;
        if let Expr::Bool(known) = first {
            if known == (op == BinaryOp::Or) {
                return Ok(Val::Truth(Expr::Bool(known)));
            }
            let (val, _) = self.value(right)?;
            return Ok(Val::Truth(self.truth(&val, right.span)?));
        }
        if !self.acts(right) {
            let (val, _) = self.value(right)?;
            let second = self.truth(&val, right.span)?;
            return Ok(Val::Truth(match op {
                BinaryOp::And => and(first, second),
                _ => Expr::Binary(Op::Or, Box::new(first), Box::new(second)),
            }));
        }
        let place = Val::Field(self.temp("tmp", 1, false));
        self.assign(&place, &Val::Truth(first), TypeId::BOOL, span)?;
        let end = self.label();
        let so_far = self.truth(&place, span)?;
        let go_on = if op == BinaryOp::And { so_far } else { not(so_far) };
        self.emit(Ins::Unless(go_on, end));
        let (val, _) = self.value(right)?;
        self.assign(&place, &val, TypeId::BOOL, span)?;
        self.emit(Ins::Label(end));
        Ok(Val::Truth(self.truth(&place, span)?))
    }

    fn conditional(
        &mut self,
        condition: &'a ast::Expr,
        then: &'a ast::Expr,
        otherwise: &'a ast::Expr,
        ty: TypeId,
        span: Span,
    ) -> Result<(Val, TypeId)> {
        let (val, _) = self.value(condition)?;
        let truth = self.truth(&val, condition.span)?;
        if let Expr::Bool(known) = truth {
            return self.value(if known { then } else { otherwise });
        }
        let plain = !self.acts(then) && !self.acts(otherwise);
        if let (true, Some(shape)) = (plain, self.scalar(ty)) {
            let (a, _) = self.value(then)?;
            let (b, _) = self.value(otherwise)?;
            let (a, b) = (self.num(&a, span)?, self.num(&b, span)?);
            let number = Expr::Select(Box::new(truth), Box::new(a), Box::new(b));
            return Ok((
                if shape.truth { Val::Truth(super::ops::to_truth(number)) } else { Val::Num(number) },
                ty,
            ));
        }
        let place = self.storage("tmp", ty, span)?;
        let (no, end) = (self.label(), self.label());
        self.emit(Ins::Unless(truth, no));
        let (val, from) = self.value(then)?;
        let val = self.cast(val, from, ty, span)?;
        self.assign(&place, &val, ty, span)?;
        self.emit(Ins::Jump(end));
        self.emit(Ins::Label(no));
        let (val, from) = self.value(otherwise)?;
        let val = self.cast(val, from, ty, span)?;
        self.assign(&place, &val, ty, span)?;
        self.emit(Ins::Label(end));
        Ok((place, ty))
    }
}
