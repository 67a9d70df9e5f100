//! Values of expressions in an instance: what the checker knew, and what the arguments of its constructor decide.

use num_bigint::BigInt;
use num_traits::Zero as _;

use super::{Bound, InstanceId, Instances};
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::types::ty::{Type, TypeId};
use crate::types::value::{Value, compute, distance, equal, slice, wrap};
use crate::types::{MemberRef, SymbolKind};

/// An expression may nest so deep here: as deep as a tree does.
const MAX_DEPTH: u32 = crate::ast::MAX_DEPTH;

impl<'a> Instances<'a, '_> {
    /// The value of an expression inside an instance (`None`: at the top level), if it is known when the program is compiled.
    #[must_use]
    pub fn value(&self, within: Option<InstanceId>, expr: &'a Expr) -> Option<Value> {
        self.value_at(within, expr, 0)
    }

    fn value_at(&self, within: Option<InstanceId>, expr: &'a Expr, depth: u32) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        let typed = self.typed;
        let known = typed.constants.get(&expr.id).cloned();
        let value = known.or_else(|| self.computed(within, expr, depth + 1))?;
        // Without a word: `int` that becomes `bit<W>`.
        Some(match typed.converted.get(&expr.id) {
            Some(&ty) => self.cast(value, ty),
            None => value,
        })
    }

    fn computed(&self, within: Option<InstanceId>, expr: &'a Expr, depth: u32) -> Option<Value> {
        let typed = self.typed;
        let of = |expr: &'a Expr| self.value_at(within, expr, depth);
        let number = |expr: &'a Expr| of(expr).and_then(|value| value.as_int().cloned());
        match &expr.kind {
            ExprKind::Int(literal) => Some(Value::Int(literal.value.clone())),
            ExprKind::Bool(value) => Some(Value::Bool(*value)),
            ExprKind::String(text) => Some(Value::Str(text.as_ref().into())),
            ExprKind::Path { .. } => {
                let symbol = typed.refers_to(expr.id)?;
                match symbol.kind {
                    SymbolKind::Const => typed.constants.get(&symbol.node).cloned(),
                    SymbolKind::ConstructorParam => match self.bound(within?, symbol.node)? {
                        Bound::Value(value) => Some(value.clone()),
                        Bound::Instance(_) => None,
                    },
                    _ => None,
                }
            }
            ExprKind::Member(..) => match typed.members.get(&expr.id)? {
                MemberRef::EnumMember(id, at) => {
                    let info = &typed.enums[id.index()];
                    Some(match info.repr {
                        None => Value::Enum(*id, *at),
                        Some(_) => {
                            let (_, value) = info.members.get(*at as usize)?;
                            Value::Member(*id, value.as_int()?.clone())
                        }
                    })
                }
                MemberRef::ErrorCode(at) => Some(Value::ErrorCode(*at)),
                _ => None,
            },
            ExprKind::Unary(op, operand) => match op {
                UnaryOp::Not => of(operand)?.as_bool().map(|value| Value::Bool(!value)),
                UnaryOp::Plus => of(operand),
                UnaryOp::Minus => Some(self.sized(expr, -number(operand)?)),
                UnaryOp::Complement => Some(self.sized(expr, -number(operand)? - 1)),
            },
            ExprKind::Binary(op, a, b) => self.binary(expr, *op, of(a)?, of(b)?),
            ExprKind::Conditional(condition, a, b) => {
                if of(condition)?.as_bool()? {
                    of(a)
                } else {
                    of(b)
                }
            }
            ExprKind::Cast(_, operand) => Some(self.cast(of(operand)?, typed.ty(expr.id)?)),
            ExprKind::Slice { base, high, low } => {
                let (high, low) = (of(high)?.as_u32()?, of(low)?.as_u32()?);
                let fits = low <= high && high < crate::types::value::MAX_WIDTH;
                fits.then_some(()).and_then(|()| Some(Value::Int(slice(&number(base)?, high, low))))
            }
            ExprKind::List { items, rest: None } => {
                items.iter().map(of).collect::<Option<Vec<Value>>>().map(|list| Value::List(list.into()))
            }
            _ => None,
        }
    }

    fn binary(&self, expr: &'a Expr, op: BinaryOp, a: Value, b: Value) -> Option<Value> {
        match op {
            BinaryOp::Eq => return Some(Value::Bool(equal(&a, &b))),
            BinaryOp::Ne => return Some(Value::Bool(!equal(&a, &b))),
            BinaryOp::And => return Some(Value::Bool(a.as_bool()? && b.as_bool()?)),
            BinaryOp::Or => return Some(Value::Bool(a.as_bool()? || b.as_bool()?)),
            _ => {}
        }
        let (a, b) = (a.as_int()?, b.as_int()?);
        let number = match op {
            BinaryOp::Shl => a << distance(b)?,
            BinaryOp::Shr => a >> distance(b)?,
            _ => match compute(op, a, b)? {
                Value::Int(number) => number,
                other => return Some(other),
            },
        };
        Some(self.sized(expr, number))
    }

    fn sized(&self, expr: &'a Expr, number: BigInt) -> Value {
        match self.typed.ty(expr.id) {
            Some(ty) => self.cast(Value::Int(number), ty),
            None => Value::Int(number),
        }
    }

    /// The value in a type: numbers wrap, what is no number stays.
    #[must_use]
    pub fn cast(&self, value: Value, ty: TypeId) -> Value {
        match (self.typed.types.get(ty), &value) {
            (Type::Bit(width), Value::Bool(bit)) => {
                Value::Int(wrap(&BigInt::from(u8::from(*bit)), *width, false))
            }
            (Type::Bit(width), _) => {
                value.as_int().map(|n| Value::Int(wrap(n, *width, false))).unwrap_or(value)
            }
            (Type::Signed(width), _) => {
                value.as_int().map(|n| Value::Int(wrap(n, *width, true))).unwrap_or(value)
            }
            (Type::Int, Value::Member(_, number)) => Value::Int(number.clone()),
            (Type::Bool, Value::Int(number)) => Value::Bool(!number.is_zero()),
            (Type::Enum(id), Value::Int(number)) if self.typed.enums[id.index()].repr.is_some() => {
                Value::Member(*id, number.clone())
            }
            (Type::Newtype(id), _) => self.cast(value, self.typed.newtypes[id.index()].of),
            _ => value,
        }
    }
}
