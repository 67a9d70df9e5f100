//! Expressions, literally as [`crate::ir::expr`] says, on unbounded integers.

use super::{Context, ParserFault};
use crate::ir::expr::MAX_SHIFT;
use crate::ir::{
    BinaryOp, Expr, FieldId, FieldRef, HeaderId, HeaderRef, StackId, UnaryOp, UnionId, UnionRef, Width,
};
use crate::phv::Place;
use crate::state::State;
use num_bigint::{BigInt, BigUint, Sign};
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// The value of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// An integer.
    Int(BigInt),
    /// A truth value.
    Bool(bool),
}

impl Value {
    /// The integer; a truth value is 0 or 1.
    pub fn int(self) -> BigInt {
        match self {
            Value::Int(int) => int,
            Value::Bool(truth) => BigInt::from(truth),
        }
    }

    /// The truth value; an integer is true when it is not 0.
    pub fn truth(&self) -> bool {
        match self {
            Value::Int(int) => !int.is_zero(),
            Value::Bool(truth) => *truth,
        }
    }
}

/// The low bits of an integer, negative ones in two's complement.
pub(super) fn low_bits(value: &BigInt, width: u32) -> BigUint {
    match value.sign() {
        Sign::Minus => {
            let (_, bits) = value.mod_floor(&(BigInt::one() << width)).into_parts();
            bits
        }
        _ if value.bits() <= u64::from(width) => value.magnitude().clone(),
        _ => value.magnitude() & ((BigUint::one() << width) - 1_u8),
    }
}

/// The two's complement number of so many bits.
pub(super) fn signed(bits: BigUint, width: u32) -> BigInt {
    let negative = width > 0 && bits.bit(u64::from(width) - 1);
    let value = BigInt::from(bits);
    if negative { value - (BigInt::one() << width) } else { value }
}

impl<S: State + ?Sized> Context<'_, S> {
    /// The value of an expression. Only a lookahead can fail.
    pub fn eval(&mut self, expr: &Expr) -> Result<Value, ParserFault> {
        Ok(match expr {
            Expr::Int(int) => Value::Int(int.clone()),
            Expr::Bool(truth) => Value::Bool(*truth),
            Expr::Field(field) => Value::Int(self.read(field)?),
            Expr::Param(param) => Value::Int(self.param(*param)),
            Expr::Unary(op, operand) => {
                let operand = self.eval(operand)?;
                match op {
                    UnaryOp::Neg => Value::Int(-operand.int()),
                    UnaryOp::BitNot => Value::Int(-operand.int() - 1),
                    UnaryOp::Not => Value::Bool(!operand.truth()),
                    UnaryOp::BoolToInt => Value::Int(BigInt::from(operand.truth())),
                    UnaryOp::IntToBool => Value::Bool(operand.truth()),
                }
            }
            Expr::Binary(BinaryOp::And, left, right) => {
                Value::Bool(self.eval(left)?.truth() && self.eval(right)?.truth())
            }
            Expr::Binary(BinaryOp::Or, left, right) => {
                Value::Bool(self.eval(left)?.truth() || self.eval(right)?.truth())
            }
            Expr::Binary(op, left, right) => {
                let (left, right) = (self.eval(left)?.int(), self.eval(right)?.int());
                if self.tracer.wants() {
                    self.look_at_operands(*op, &left, &right);
                }
                binary(*op, left, right)
            }
            Expr::Select(condition, then, otherwise) => {
                let branch = if self.eval(condition)?.truth() { then } else { otherwise };
                self.eval(branch)?
            }
            Expr::Valid(header) => {
                let header = self.header(header)?;
                Value::Bool(header.is_some_and(|header| self.is_valid(header)))
            }
            Expr::UnionValid(union) => {
                let union = self.union(union)?;
                Value::Bool(union.is_some_and(|union| self.valid_member(union).is_some()))
            }
            Expr::Wrap { value, width } => {
                let value = self.eval(value)?.int();
                Value::Int(signed(low_bits(&value, *width), *width))
            }
            Expr::Saturate { value, width, signed } => {
                let value = self.eval(value)?.int();
                let half = BigInt::one() << width.saturating_sub(1);
                let (low, high) = match (width, signed) {
                    (0, _) => (BigInt::ZERO, BigInt::ZERO),
                    (_, true) => (-&half, half - 1),
                    (_, false) => (BigInt::ZERO, (half << 1) - 1),
                };
                Value::Int(value.clamp(low, high))
            }
            Expr::LastIndex(stack) => {
                Value::Int(BigInt::from(self.phv.stack_next(&self.plan.layout, *stack).saturating_sub(1)))
            }
            Expr::StackSize(stack) => {
                Value::Int(BigInt::from(self.phv.stack_next(&self.plan.layout, *stack)))
            }
            Expr::HeadersEqual(left, right) => {
                let (left, right) = (self.header(left)?, self.header(right)?);
                Value::Bool(self.headers_equal(left, right))
            }
            Expr::UnionsEqual(left, right) => {
                let (left, right) = (self.union(left)?, self.union(right)?);
                Value::Bool(self.unions_equal(left, right))
            }
            Expr::StacksEqual(left, right) => {
                let (left, right) = (self.elements(*left), self.elements(*right));
                let equal = left.iter().zip(right).all(|(&l, &r)| self.headers_equal(Some(l), Some(r)));
                Value::Bool(equal && left.len() == right.len())
            }
            Expr::UnionStacksEqual(left, right) => {
                let stacks = &self.plan.program.union_stacks;
                let (left, right) = (&stacks[left.at()].elements, &stacks[right.at()].elements);
                let equal = left.iter().zip(right).all(|(&l, &r)| self.unions_equal(Some(l), Some(r)));
                Value::Bool(equal && left.len() == right.len())
            }
            Expr::Register { register, index } => {
                let index = self.eval_u64(index)?;
                if index >= u64::from(self.plan.program.registers[register.at()].size) {
                    self.undefined(|| format!("there is no register {index}"));
                }
                Value::Int(BigInt::from(self.state.register(*register, index)))
            }
            Expr::Lookahead { offset, width } => Value::Int(BigInt::from(self.lookahead(*offset, *width)?)),
        })
    }

    /// The truth value of an expression.
    pub fn eval_bool(&mut self, expr: &Expr) -> Result<bool, ParserFault> {
        Ok(self.eval(expr)?.truth())
    }

    /// The value of an expression as an index or count: a negative or larger one becomes [`u64::MAX`].
    pub fn eval_u64(&mut self, expr: &Expr) -> Result<u64, ParserFault> {
        let value = self.eval(expr)?.int();
        if value.is_negative() {
            self.undefined(|| format!("{value} as an index"));
        }
        Ok(value.to_u64().unwrap_or(u64::MAX))
    }

    /// The low 64 bits of the value of an expression.
    pub(super) fn eval_low(&mut self, expr: &Expr) -> Result<u64, ParserFault> {
        let value = self.eval(expr)?.int();
        Ok(low_bits(&value, 64).to_u64().unwrap_or(0))
    }

    /// Tell of operands that an operator has no meaning for (bmv2 ends there).
    fn look_at_operands(&mut self, op: BinaryOp, left: &BigInt, right: &BigInt) {
        match op {
            BinaryOp::Div | BinaryOp::Rem if left.is_negative() || !right.is_positive() => {
                self.undefined(|| format!("a division of {left} by {right}"));
            }
            BinaryOp::Shl | BinaryOp::Shr if right.is_negative() || right.bits() > 16 => {
                self.undefined(|| format!("a shift by {right}"));
            }
            _ => {}
        }
    }

    fn elements(&self, stack: StackId) -> &'_ [HeaderId] {
        &self.plan.program.stacks[stack.at()].elements
    }

    fn param(&self, param: u32) -> BigInt {
        let param = param as usize;
        let Some(action) = self.action else { return BigInt::ZERO };
        let (Some(&first), Some(ir)) = (
            self.plan.args[action.at()].get(param),
            self.plan.program.actions[action.at()].params.get(param),
        ) else {
            return BigInt::ZERO;
        };
        let count = ir.width.div_ceil(64).max(1) as usize;
        let words = self.args.iter().skip(first as usize).take(count);
        BigInt::from(BigUint::new(words.flat_map(|&word| [word as u32, (word >> 32) as u32]).collect()))
    }

    /// The instance behind a reference, if there is one now.
    pub(super) fn header(&mut self, header: &HeaderRef) -> Result<Option<HeaderId>, ParserFault> {
        let plan = self.plan;
        let (program, layout) = (&plan.program, &plan.layout);
        let position = |index: u64| usize::try_from(index).unwrap_or(usize::MAX);
        let (stack, index) = match header {
            HeaderRef::Header(header) => return Ok(Some(*header)),
            HeaderRef::StackNext(stack) => (stack, Some(self.phv.stack_next(layout, *stack))),
            HeaderRef::StackLast(stack) => (stack, self.phv.stack_next(layout, *stack).checked_sub(1)),
            HeaderRef::StackElement(stack, index) => (stack, Some(self.eval_u64(index)?)),
            HeaderRef::UnionStackNext(stack, member)
            | HeaderRef::UnionStackLast(stack, member)
            | HeaderRef::UnionStackElement(stack, _, member) => {
                let index = match header {
                    HeaderRef::UnionStackNext(..) => Some(self.phv.union_stack_next(layout, *stack)),
                    HeaderRef::UnionStackElement(_, index, _) => Some(self.eval_u64(index)?),
                    _ => self.phv.union_stack_next(layout, *stack).checked_sub(1),
                };
                let union =
                    index.and_then(|index| program.union_stacks[stack.at()].elements.get(position(index)));
                if union.is_none() && !matches!(header, HeaderRef::UnionStackNext(..)) {
                    self.undefined(|| "an index out of a stack's range".to_owned());
                }
                return Ok(union.and_then(|u| program.unions[u.at()].members.get(*member as usize)).copied());
            }
        };
        let element = index.and_then(|index| program.stacks[stack.at()].elements.get(position(index)));
        if element.is_none() && !matches!(header, HeaderRef::StackNext(_)) {
            self.undefined(|| "an index out of a stack's range".to_owned());
        }
        Ok(element.copied())
    }

    /// The union behind a reference, if there is one now.
    pub(super) fn union(&mut self, union: &UnionRef) -> Result<Option<UnionId>, ParserFault> {
        match union {
            UnionRef::Union(union) => Ok(Some(*union)),
            UnionRef::Element(stack, index) => {
                let index = self.eval_u64(index)?;
                let elements = &self.plan.program.union_stacks[stack.at()].elements;
                let union = usize::try_from(index).ok().and_then(|index| elements.get(index)).copied();
                if union.is_none() {
                    self.undefined(|| "an index out of a stack's range".to_owned());
                }
                Ok(union)
            }
        }
    }

    /// The field behind a reference, if there is one now.
    pub(super) fn field(&mut self, field: &FieldRef) -> Result<Option<FieldId>, ParserFault> {
        Ok(self.header(&field.header)?.map(|header| FieldId { header, field: field.field }))
    }

    fn read(&mut self, field: &FieldRef) -> Result<BigInt, ParserFault> {
        Ok(self.field(field)?.map_or(BigInt::ZERO, |field| self.field_value(field)))
    }

    /// A field's value, negative where a signed field says so.
    pub(super) fn field_value(&self, field: FieldId) -> BigInt {
        let bits = self.phv.field(&self.plan.layout, field);
        match self.plan.layout.place(field) {
            Place::Words { width, signed: true, .. } | Place::Bits { width, signed: true, .. } => {
                signed(bits, width)
            }
            _ => BigInt::from(bits),
        }
    }

    /// How many bits a field has now (a varbit field's current ones).
    pub(super) fn field_bits(&self, field: FieldId) -> u32 {
        match self.plan.layout.place(field) {
            Place::Words { width, .. } | Place::Bits { width, .. } => width,
            Place::Varbit { len_word, max_bits, .. } => {
                self.phv.slot(len_word as usize).min(u64::from(max_bits)) as u32
            }
        }
    }

    pub(super) fn is_valid(&self, header: HeaderId) -> bool {
        self.plan.program.headers[header.at()].metadata || self.phv.is_valid(&self.plan.layout, header)
    }

    /// Which member of a union is valid.
    pub(super) fn valid_member(&self, union: UnionId) -> Option<usize> {
        self.plan.program.unions[union.at()].members.iter().position(|&member| self.is_valid(member))
    }

    fn headers_equal(&self, left: Option<HeaderId>, right: Option<HeaderId>) -> bool {
        let valid = |header: Option<HeaderId>| header.filter(|&header| self.is_valid(header));
        let (left, right) = match (valid(left), valid(right)) {
            (None, None) => return true,
            (Some(left), Some(right)) => (left, right),
            _ => return false,
        };
        let fields = self.plan.program.header_type_of(left).fields.len();
        fields == self.plan.program.header_type_of(right).fields.len()
            && (0..fields as u32).all(|field| {
                let (left, right) = (FieldId { header: left, field }, FieldId { header: right, field });
                self.field_bits(left) == self.field_bits(right)
                    && self.phv.field(&self.plan.layout, left) == self.phv.field(&self.plan.layout, right)
            })
    }

    fn unions_equal(&self, left: Option<UnionId>, right: Option<UnionId>) -> bool {
        let members = |union: Option<UnionId>| {
            union.map_or(&[][..], |union| &self.plan.program.unions[union.at()].members)
        };
        let (left, right) = (members(left), members(right));
        let count = left.len().max(right.len());
        (0..count).all(|i| self.headers_equal(left.get(i).copied(), right.get(i).copied()))
    }

    fn lookahead(&self, offset: u32, width: u32) -> Result<BigUint, ParserFault> {
        let begin = self.at as u64 * 8 + u64::from(offset);
        if begin + u64::from(width) > self.packet.len() as u64 * 8 {
            return Err(ParserFault(self.plan.errors.packet_too_short));
        }
        Ok(packet_bits(self.packet, begin, width))
    }
}

/// Bits of a packet as a number; bits behind its end are 0.
pub(super) fn packet_bits(packet: &[u8], begin: u64, width: u32) -> BigUint {
    let end = begin + u64::from(width);
    let clip = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX).min(packet.len());
    let (first, last) = ((begin / 8) as usize, end.div_ceil(8) as usize);
    let have = &packet[clip(first as u64)..clip(last as u64)];
    let missing = (last - first).saturating_sub(have.len());
    let value = BigUint::from_bytes_be(have) << (8 * missing) >> (last as u64 * 8 - end);
    value & ((BigUint::one() << width) - 1_u8)
}

fn binary(op: BinaryOp, left: BigInt, right: BigInt) -> Value {
    Value::Int(match op {
        BinaryOp::Add => left + right,
        BinaryOp::Sub => left - right,
        BinaryOp::Mul => left * right,
        BinaryOp::Div | BinaryOp::Rem if right.is_zero() => BigInt::ZERO,
        BinaryOp::Div => left / right,
        BinaryOp::Rem => left % right,
        BinaryOp::Shl | BinaryOp::Shr if right.is_negative() => BigInt::ZERO,
        BinaryOp::Shl => match right.to_u64() {
            Some(count) if count <= MAX_SHIFT => left << count,
            _ => BigInt::ZERO,
        },
        BinaryOp::Shr => match right.to_u64() {
            Some(count) => left >> count,
            None if left.is_negative() => -BigInt::one(),
            None => BigInt::ZERO,
        },
        BinaryOp::BitAnd => left & right,
        BinaryOp::BitOr => left | right,
        BinaryOp::BitXor => left ^ right,
        BinaryOp::Eq => return Value::Bool(left == right),
        BinaryOp::Ne => return Value::Bool(left != right),
        BinaryOp::Lt => return Value::Bool(left < right),
        BinaryOp::Le => return Value::Bool(left <= right),
        BinaryOp::Gt => return Value::Bool(left > right),
        BinaryOp::Ge => return Value::Bool(left >= right),
        BinaryOp::And => return Value::Bool(!left.is_zero() && !right.is_zero()),
        BinaryOp::Or => return Value::Bool(!left.is_zero() || !right.is_zero()),
    })
}

/// The width of a fixed field's definition, the maximum of a varbit one.
pub(super) fn max_bits(width: Width) -> u32 {
    match width {
        Width::Fixed(bits) | Width::Varbit(bits) => bits,
    }
}
