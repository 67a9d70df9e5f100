//! Values known when the program is compiled (specification, chapter 18).
//!
//! [`Checker::fold`] computes a value, [`Checker::is_known`] only says that there will be one: the parameter of a
//! constructor is known when its instance is made. Both expect that the expression has a type.

use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::{One as _, Signed as _, Zero as _};

use super::ty::{Type, TypeId};
use super::value::{self, Value};
use super::{Callee, Checker, MemberRef, Stage, SymbolKind, code};
use crate::ast::{BinaryOp, Direction, Expr, ExprKind, TypeKind, UnaryOp};
use crate::diag::Diagnostic;

/// Numbers without a width grow up to this many bits.
const MAX_BITS: u64 = 1 << 14;
/// Strings put together grow up to this many bytes.
const MAX_STRING: usize = 1 << 16;

impl<'a> Checker<'a> {
    /// The number of a constant expression; says so if there is none.
    pub(super) fn constant_int(&mut self, expr: &'a Expr, what: &str) -> Option<BigInt> {
        self.constant_int_or(expr, what, (Stage::Types, code::TYPE))
    }

    /// The same, with what it is when there is none.
    pub(super) fn constant_int_or(
        &mut self,
        expr: &'a Expr,
        what: &str,
        (stage, kind): (Stage, &'static str),
    ) -> Option<BigInt> {
        let ty = self.expr(expr);
        let ty = self.resolve(ty);
        let number = match self.out.types.get(ty) {
            Type::Error => return None,
            Type::Int | Type::Bit(_) | Type::Signed(_) => true,
            Type::Enum(id) => self.out.enums[id.index()].repr.is_some(),
            _ => false,
        };
        if !number {
            let shown = self.show(ty);
            let text = format!("{what} is a number, not `{shown}`");
            self.report_at(stage, Diagnostic::error(kind, expr.span, text));
            return None;
        }
        let value = self.fold(expr);
        match value.as_ref().and_then(Value::as_int) {
            Some(number) => Some(number.clone()),
            None => {
                self.report_at(
                    stage,
                    Diagnostic::error(
                        kind,
                        expr.span,
                        format!("{what} is not known when the program is compiled"),
                    )
                    .here("no constant"),
                );
                None
            }
        }
    }

    /// The value, after the conversion that its place asks for.
    pub(super) fn fold(&mut self, expr: &'a Expr) -> Option<Value> {
        let value = self.fold_plain(expr)?;
        match self.out.converted.get(&expr.id) {
            Some(&to) => self.convert_value(value, to),
            None => Some(value),
        }
    }

    /// The value by itself.
    pub(super) fn fold_plain(&mut self, expr: &'a Expr) -> Option<Value> {
        if let Some(value) = self.out.constants.get(&expr.id) {
            return Some(value.clone());
        }
        if !self.folding.insert(expr.id) {
            return None;
        }
        let value = self.fold_kind(expr);
        self.folding.remove(&expr.id);
        let value = value?;
        if let Value::Int(number) = &value
            && number.bits() > MAX_BITS
        {
            self.report_at(
                Stage::Types,
                Diagnostic::error(code::UNSUPPORTED, expr.span, "this number is too large to compute with")
                    .note(format!("{MAX_BITS} bits are the limit")),
            );
            return None;
        }
        self.out.constants.insert(expr.id, value.clone());
        Some(value)
    }

    fn fold_kind(&mut self, expr: &'a Expr) -> Option<Value> {
        let ty = self.out.ty(expr.id)?;
        let ty = self.resolve(ty);
        match &expr.kind {
            ExprKind::Int(literal) => Some(Value::Int(match literal.width {
                Some(width) => value::wrap(&literal.value, width.bits, width.signed),
                None => literal.value.clone(),
            })),
            ExprKind::Bool(value) => Some(Value::Bool(*value)),
            ExprKind::String(text) => Some(Value::Str(Rc::from(&**text))),
            ExprKind::Path { .. } | ExprKind::Type(_) => {
                let symbol = self.out.refers_to(expr.id)?;
                match symbol.kind {
                    SymbolKind::Const => self.out.constants.get(&symbol.node).cloned(),
                    _ => None,
                }
            }
            ExprKind::Member(base, _) => self.fold_member(*self.out.members.get(&expr.id)?, base),
            ExprKind::Index(base, index) => {
                let Value::List(list) = self.fold(base)? else { return None };
                let at = self.fold(index)?.as_u32()?;
                list.get(at as usize).cloned()
            }
            ExprKind::Slice { base, high, low } => {
                let of = self.fold(base)?;
                let (high, low) = (self.fold(high)?.as_u32()?, self.fold(low)?.as_u32()?);
                (low <= high && high < value::MAX_WIDTH)
                    .then(|| of.as_int().map(|number| Value::Int(value::slice(number, high, low))))?
            }
            ExprKind::PlusSlice { base, low, width } => {
                let of = self.fold(base)?;
                let (low, width) = (self.fold(low)?.as_u32()?, self.fold(width)?.as_u32()?);
                if width == 0 || low >= value::MAX_WIDTH || width > value::MAX_WIDTH {
                    return None;
                }
                of.as_int().map(|number| Value::Int(value::slice(number, low + width - 1, low)))
            }
            ExprKind::Unary(op, operand) => {
                let of = self.fold(operand)?;
                match op {
                    UnaryOp::Not => Some(Value::Bool(!of.as_bool()?)),
                    UnaryOp::Plus => Some(Value::Int(of.as_int()?.clone())),
                    UnaryOp::Minus => self.wrapped(-of.as_int()?.clone(), ty),
                    UnaryOp::Complement => self.wrapped(-of.as_int()?.clone() - 1, ty),
                }
            }
            ExprKind::Binary(op, left, right) => {
                // The right side of `&&` and `||` may not be reached.
                let x = self.fold(left);
                match (op, x.as_ref().and_then(Value::as_bool)) {
                    (BinaryOp::And, Some(false)) => return Some(Value::Bool(false)),
                    (BinaryOp::Or, Some(true)) => return Some(Value::Bool(true)),
                    _ => {}
                }
                let (x, y) = (x?, self.fold(right)?);
                self.fold_binary(*op, left, right, &x, &y, ty)
            }
            ExprKind::Conditional(condition, then, otherwise) => {
                if self.fold(condition)?.as_bool()? {
                    self.fold(then)
                } else {
                    self.fold(otherwise)
                }
            }
            ExprKind::Cast(_, operand) => {
                let of = self.fold(operand)?;
                self.convert_value(of, ty)
            }
            ExprKind::List { items, rest: None } => {
                let list: Option<Vec<Value>> = items.iter().map(|item| self.fold(item)).collect();
                Some(Value::List(list?.into()))
            }
            ExprKind::Struct { fields, rest: None } => self.fold_struct(fields, ty),
            ExprKind::Invalid => Some(Value::Invalid(ty)),
            ExprKind::Call(call) => match self.out.calls.get(&expr.id)?.callee {
                Callee::Size => {
                    let ExprKind::Member(base, name) = &call.callee.kind else { return None };
                    let of = self.out.ty(base.id)?;
                    let max = name.as_str().starts_with("max");
                    let bits = self.size_in_bits(of, max)?;
                    Some(Value::int(if name.as_str().ends_with("Bytes") { bits.div_ceil(8) } else { bits }))
                }
                // One that fails is an error.
                Callee::Function(id) if &*self.out.functions[id.index()].name == "static_assert" => {
                    Some(Value::Bool(true))
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn fold_struct(&mut self, fields: &'a [crate::ast::KeyValue], ty: TypeId) -> Option<Value> {
        let order: Vec<crate::ast::Name> = match self.kind(ty).clone() {
            Type::Struct(id, _) => {
                self.out.structs[id.index()].fields.iter().map(|field| field.name.clone()).collect()
            }
            Type::Record(list, _) => list.iter().map(|(name, _)| name.clone()).collect(),
            _ => return None,
        };
        let mut list = Vec::with_capacity(order.len());
        for name in order {
            let field = fields.iter().find(|field| field.key.name == name)?;
            list.push(self.fold(&field.value)?);
        }
        Some(Value::List(list.into()))
    }

    fn fold_member(&mut self, member: MemberRef, base: &'a Expr) -> Option<Value> {
        match member {
            MemberRef::EnumMember(id, at) => {
                let info = &self.out.enums[id.index()];
                match (info.repr, info.members.get(at as usize)) {
                    (None, _) => Some(Value::Enum(id, at)),
                    (Some(_), Some((_, value))) => Some(Value::Member(id, value.as_int()?.clone())),
                    _ => None,
                }
            }
            MemberRef::ErrorCode(at) => Some(Value::ErrorCode(at)),
            MemberRef::Size => {
                let of = self.out.ty(base.id)?;
                match self.kind(of) {
                    Type::Stack(_, size) => Some(Value::int(*size)),
                    _ => None,
                }
            }
            MemberRef::Field(at) => match self.fold(base)? {
                Value::List(list) => list.get(at as usize).cloned(),
                _ => None,
            },
            _ => None,
        }
    }

    fn wrapped(&self, number: BigInt, ty: TypeId) -> Option<Value> {
        Some(Value::Int(match self.kind(ty) {
            Type::Bit(width) => value::wrap(&number, *width, false),
            Type::Signed(width) => value::wrap(&number, *width, true),
            _ => number,
        }))
    }

    fn fold_binary(
        &mut self,
        op: BinaryOp,
        left: &'a Expr,
        right: &'a Expr,
        x: &Value,
        y: &Value,
        ty: TypeId,
    ) -> Option<Value> {
        match op {
            BinaryOp::And => return Some(Value::Bool(x.as_bool()? && y.as_bool()?)),
            BinaryOp::Or => return Some(Value::Bool(x.as_bool()? || y.as_bool()?)),
            BinaryOp::Eq | BinaryOp::Ne => {
                return Some(Value::Bool(value::equal(x, y) == (op == BinaryOp::Eq)));
            }
            _ => {}
        }
        if let (BinaryOp::Concat, Value::Str(a), Value::Str(b)) = (op, x, y) {
            if a.len() + b.len() > MAX_STRING {
                return None;
            }
            return Some(Value::Str(format!("{a}{b}").into()));
        }
        let (a, b) = (x.as_int()?, y.as_int()?);
        let (width, signed) = match self.kind(ty) {
            Type::Bit(width) => (Some(*width), false),
            Type::Signed(width) => (Some(*width), true),
            _ => (None, true),
        };
        let number = match op {
            BinaryOp::AddSat => return Some(Value::Int(value::saturate(a + b, width?, signed))),
            BinaryOp::SubSat => return Some(Value::Int(value::saturate(a - b, width?, signed))),
            BinaryOp::Shl => match value::distance(b) {
                Some(by) => a << by,
                None => BigInt::zero(),
            },
            BinaryOp::Shr => match value::distance(b) {
                Some(by) => a >> by,
                None if a.is_negative() => -BigInt::one(),
                None => BigInt::zero(),
            },
            BinaryOp::Concat => {
                let (m, n) = (self.bits_of(left)?, self.bits_of(right)?);
                return Some(Value::Int(value::concat(a, b, m, n, signed)));
            }
            _ => match value::compute(op, a, b)? {
                Value::Int(number) => number,
                other => return Some(other),
            },
        };
        self.wrapped(number, ty)
    }

    fn bits_of(&self, expr: &Expr) -> Option<u32> {
        let ty = self.out.converted.get(&expr.id).copied().or_else(|| self.out.ty(expr.id))?;
        match self.kind(ty) {
            Type::Bit(width) | Type::Signed(width) => Some(*width),
            _ => None,
        }
    }

    /// What a cast makes of a value.
    pub(super) fn convert_value(&mut self, value: Value, to: TypeId) -> Option<Value> {
        let to = self.resolve(to);
        match (self.out.types.get(to).clone(), &value) {
            (Type::Bool, Value::Int(number)) => Some(Value::Bool(!number.is_zero())),
            (Type::Bit(width), _) => Some(Value::Int(value::wrap(&Self::number_of(&value)?, width, false))),
            (Type::Signed(width), _) => Some(Value::Int(value::wrap(&Self::number_of(&value)?, width, true))),
            (Type::Int, _) => Some(Value::Int(Self::number_of(&value)?)),
            (Type::Enum(id), Value::Int(number)) => {
                let repr = self.out.enums[id.index()].repr?;
                match self.convert_value(Value::Int(number.clone()), repr)? {
                    Value::Int(number) => Some(Value::Member(id, number)),
                    _ => None,
                }
            }
            (Type::Newtype(id), _) => {
                let of = self.out.newtypes[id.index()].of;
                self.convert_value(value, of)
            }
            _ => Some(value),
        }
    }

    fn number_of(value: &Value) -> Option<BigInt> {
        match value {
            Value::Bool(value) => Some(BigInt::from(u8::from(*value))),
            other => other.as_int().cloned(),
        }
    }

    /// Bits of a value of the type: the least or the most.
    pub(super) fn size_in_bits(&mut self, ty: TypeId, max: bool) -> Option<u64> {
        self.size_at(ty, max, 0)
    }

    fn size_at(&mut self, ty: TypeId, max: bool, depth: u32) -> Option<u64> {
        if depth > 64 {
            return None;
        }
        match self.kind(ty).clone() {
            Type::Bool => Some(1),
            Type::Bit(width) | Type::Signed(width) => Some(u64::from(width)),
            Type::Varbit(width) => Some(if max { u64::from(width) } else { 0 }),
            Type::Newtype(id) => {
                let of = self.out.newtypes[id.index()].of;
                self.size_at(of, max, depth + 1)
            }
            Type::Enum(id) => match self.out.enums[id.index()].repr {
                Some(repr) => self.size_at(repr, max, depth + 1),
                None => None,
            },
            Type::Tuple(parts) => {
                let mut sum = 0u64;
                for &part in parts.iter() {
                    sum = sum.saturating_add(self.size_at(part, max, depth + 1)?);
                }
                Some(sum)
            }
            Type::Stack(of, count) => {
                Some(self.size_at(of, max, depth + 1)?.saturating_mul(u64::from(count)))
            }
            Type::Struct(id, args) => {
                let union = self.is_union(ty);
                let mut sum: Option<u64> = None;
                for (_, field) in self.fields_of(id, &args) {
                    let size = self.size_at(field, max, depth + 1)?;
                    sum = Some(match sum {
                        None => size,
                        Some(so_far) if union && max => so_far.max(size),
                        Some(so_far) if union => so_far.min(size),
                        Some(so_far) => so_far.saturating_add(size),
                    });
                }
                Some(sum.unwrap_or(0))
            }
            _ => None,
        }
    }

    /// Is the value known when the program is compiled, or at the latest when its instance is made?
    pub(super) fn is_known(&mut self, expr: &'a Expr) -> bool {
        if self.fold(expr).is_some() {
            return true;
        }
        match &expr.kind {
            ExprKind::Path { .. } | ExprKind::Type(_) => {
                let Some(symbol) = self.out.refers_to(expr.id) else { return true };
                match symbol.kind {
                    SymbolKind::Const
                    | SymbolKind::ConstructorParam
                    | SymbolKind::Instance
                    | SymbolKind::Table(_) => true,
                    SymbolKind::Param(Direction::None) => {
                        self.context.place != super::Place::Action || self.is_object(symbol.ty)
                    }
                    _ => self.out.ty(expr.id) == Some(TypeId::ERROR),
                }
            }
            ExprKind::Member(base, _) => match self.out.members.get(&expr.id) {
                Some(MemberRef::Field(_)) => self.is_known(base),
                Some(MemberRef::EnumMember(..) | MemberRef::ErrorCode(_) | MemberRef::Size) => true,
                None => true,
                _ => false,
            },
            ExprKind::Index(base, index) => self.is_known(base) && self.is_known(index),
            ExprKind::Slice { base, .. } => self.is_known(base),
            ExprKind::PlusSlice { base, low, .. } => self.is_known(base) && self.is_known(low),
            ExprKind::Unary(_, operand) | ExprKind::Cast(_, operand) => self.is_known(operand),
            ExprKind::Binary(_, left, right) => self.is_known(left) && self.is_known(right),
            ExprKind::Conditional(condition, then, otherwise) => {
                self.is_known(condition) && self.is_known(then) && self.is_known(otherwise)
            }
            ExprKind::List { items, .. } => items.iter().all(|item| self.is_known(item)),
            ExprKind::Struct { fields, .. } => fields.iter().all(|field| self.is_known(&field.value)),
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::String(_)
            | ExprKind::Invalid
            | ExprKind::Default
            | ExprKind::This
            | ExprKind::Error => true,
            ExprKind::Call(call) => match self.out.calls.get(&expr.id).map(|info| info.callee) {
                Some(
                    Callee::Constructor(_)
                    | Callee::BlockConstructor(_)
                    | Callee::PackageConstructor(_)
                    | Callee::Size,
                ) => true,
                Some(Callee::Function(id)) => {
                    let makes = self.out.ty(expr.id).is_some_and(|ty| self.is_object(ty));
                    let asserts = &*self.out.functions[id.index()].name == "static_assert";
                    (makes || asserts) && call.args.iter().all(|arg| self.is_known(&arg.value))
                }
                None => self.out.ty(expr.id) == Some(TypeId::ERROR),
                _ => false,
            },
            ExprKind::DontCare => false,
        }
    }

    /// Is the value known from its text and that of constants alone?
    pub(super) fn is_early(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::String(_) => true,
            ExprKind::Unary(_, operand) => self.is_early(operand),
            ExprKind::Binary(_, left, right) => self.is_early(left) && self.is_early(right),
            ExprKind::Cast(ty, operand) => {
                matches!(ty.kind, TypeKind::Bit(_) | TypeKind::Int(_) | TypeKind::Integer | TypeKind::Bool)
                    && self.is_early(operand)
            }
            ExprKind::Path { .. } => self.out.refers_to(expr.id).is_some_and(|symbol| {
                symbol.kind == SymbolKind::Const
                    && matches!(
                        self.kind(symbol.ty),
                        Type::Bit(_) | Type::Signed(_) | Type::Int | Type::Bool | Type::Str
                    )
                    && self.out.constants.contains_key(&symbol.node)
            }),
            _ => false,
        }
    }

    /// A call of a pure function of the target with constants: its target knows the value when the program is compiled.
    pub(super) fn is_pure_call(&mut self, expr: &'a Expr) -> bool {
        let ExprKind::Call(call) = &expr.kind else { return false };
        let Some(Callee::Function(id)) = self.out.calls.get(&expr.id).map(|info| info.callee) else {
            return false;
        };
        let info = &self.out.functions[id.index()];
        info.kind == super::FnKind::ExternFunction
            && crate::ast::annotation(info.annotations, "pure").is_some()
            && call.args.iter().all(|arg| self.is_known(&arg.value))
    }

    /// Something that is made when the program is loaded and not copied: extern, parser, control, package.
    pub(super) fn is_object(&self, ty: TypeId) -> bool {
        matches!(self.kind(ty), Type::Extern(..) | Type::Block(..) | Type::Package(..))
    }
}
