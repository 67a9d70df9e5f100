//! Values, headers and places.

use super::{Export, Result, hex_signed};
use barewire_p4::ir::{BinaryOp, Expr, FieldRef, HeaderRef, StackId, UnaryOp, UnionRef, UnionStackId};
use serde_json::{Value, json};

/// What has to be looked ahead before a value is computed: the field, and the bits (offset, width).
pub(super) type Ahead = Vec<(Value, (u32, u32))>;

fn operation(op: &str, left: Value, right: Value) -> Value {
    expression(object! { "op": op, "left": left, "right": right })
}

fn expression(value: Value) -> Value {
    object! { "type": "expression", "value": value }
}

fn number(value: impl Into<num_bigint::BigInt>) -> Value {
    object! { "type": "hexstr", "value": hex_signed(&value.into()) }
}

fn operator(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Rem => "%",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::And => "and",
        BinaryOp::Or => "or",
    }
}

impl Export<'_> {
    fn stack(&self, id: StackId) -> Value {
        json!({ "type": "header_stack", "value": self.program.stacks[id.at()].name })
    }

    fn union_stack(&self, id: UnionStackId) -> Value {
        json!({ "type": "header_union_stack", "value": self.program.union_stacks[id.at()].name })
    }

    /// A value as an operand of an operation.
    pub(super) fn operand(&mut self, value: &Expr, mut ahead: Option<&mut Ahead>) -> Result<Value> {
        Ok(match value {
            Expr::Int(value) => number(value.clone()),
            Expr::Bool(value) => json!({ "type": "bool", "value": value }),
            Expr::Field(field) => self.field(field, ahead)?,
            Expr::Param(at) => json!({ "type": "local", "value": at }),
            Expr::Unary(op, value) => {
                let value = self.operand(value, ahead)?;
                match op {
                    // The behavioral model has no sign for one operand.
                    UnaryOp::Neg => operation("-", number(0), value),
                    UnaryOp::BitNot => operation("~", Value::Null, value),
                    UnaryOp::Not => operation("not", Value::Null, value),
                    UnaryOp::BoolToInt => operation("b2d", Value::Null, value),
                    UnaryOp::IntToBool => operation("d2b", Value::Null, value),
                }
            }
            Expr::Binary(op, left, right) => {
                // There headers that are both invalid differ already: the test in front says nothing more.
                match (op, &**left, &**right) {
                    (BinaryOp::And, Expr::Valid(valid), Expr::HeadersEqual(l, r)) if valid == l => {
                        let (l, r) = (self.header(l, ahead.as_deref_mut())?, self.header(r, ahead)?);
                        return Ok(operation("==", l, r));
                    }
                    (BinaryOp::And, Expr::UnionValid(valid), Expr::UnionsEqual(l, r)) if valid == l => {
                        let (l, r) = (self.union(l, ahead.as_deref_mut())?, self.union(r, ahead)?);
                        return Ok(operation("==", l, r));
                    }
                    _ => {}
                }
                let left = self.operand(left, ahead.as_deref_mut())?;
                operation(operator(*op), left, self.operand(right, ahead)?)
            }
            Expr::Select(condition, then, otherwise) => {
                let condition = self.operand(condition, ahead.as_deref_mut())?;
                let then = self.operand(then, ahead.as_deref_mut())?;
                let otherwise = self.operand(otherwise, ahead)?;
                expression(object! { "op": "?", "left": then, "right": otherwise, "cond": condition })
            }
            Expr::Valid(header) => operation("valid", Value::Null, self.header(header, ahead)?),
            Expr::UnionValid(union) => operation("valid_union", Value::Null, self.union(union, ahead)?),
            Expr::Wrap { value, width } => {
                operation("two_comp_mod", self.operand(value, ahead)?, number(*width))
            }
            Expr::Saturate { value, width, signed } => {
                let op = if *signed { "sat_cast" } else { "usat_cast" };
                operation(op, self.operand(value, ahead)?, number(*width))
            }
            Expr::StackSize(stack) => operation("size_stack", Value::Null, self.stack(*stack)),
            Expr::LastIndex(stack) => {
                // Of an empty stack the representation says 0, the behavioral model -1.
                let size = operation("size_stack", Value::Null, self.stack(*stack));
                let empty = operation("==", size.clone(), number(0));
                expression(object! {
                    "op": "?", "left": number(0), "right": operation("-", size, number(1)), "cond": empty,
                })
            }
            Expr::HeadersEqual(l, r) => {
                let (l, r) = (self.header(l, ahead.as_deref_mut())?, self.header(r, ahead)?);
                self.equal_or_none("valid", l, r)
            }
            Expr::UnionsEqual(l, r) => {
                let (l, r) = (self.union(l, ahead.as_deref_mut())?, self.union(r, ahead)?);
                self.equal_or_none("valid_union", l, r)
            }
            Expr::StacksEqual(l, r) => operation("==", self.stack(*l), self.stack(*r)),
            Expr::UnionStacksEqual(l, r) => operation("==", self.union_stack(*l), self.union_stack(*r)),
            Expr::Register { register, index } => {
                let index = self.operand(index, ahead)?;
                json!({ "type": "register", "value": [self.program.registers[register.at()].name, index] })
            }
            Expr::Lookahead { offset, width } => {
                let Some(ahead) = ahead else { return self.refuse("a lookahead here") };
                let temp = self.temp(*width);
                ahead.push((temp.clone(), (*offset, *width)));
                json!({ "type": "field", "value": temp })
            }
        })
    }

    /// The behavioral model calls two invalid headers different, the language equal.
    fn equal_or_none(&self, valid: &str, left: Value, right: Value) -> Value {
        let invalid =
            |header: &Value| operation("not", Value::Null, operation(valid, Value::Null, header.clone()));
        let none = operation("and", invalid(&left), invalid(&right));
        operation("or", operation("==", left, right), none)
    }

    fn field(&mut self, field: &FieldRef, ahead: Option<&mut Ahead>) -> Result<Value> {
        let name = self.field_name(field);
        Ok(match &field.header {
            HeaderRef::Header(id) => object! { "type": "field", "value": vec![self.header_name(*id), name] },
            HeaderRef::StackLast(id) => {
                json!({ "type": "stack_field", "value": [self.program.stacks[id.at()].name, name] })
            }
            HeaderRef::UnionStackLast(id, member) => {
                let stack = &self.program.union_stacks[id.at()];
                let member = self.member_name(*id, *member);
                json!({ "type": "union_stack_field", "value": [stack.name, member, name] })
            }
            element => {
                let header = self.header(element, ahead)?;
                operation("access_field", header, json!(field.field))
            }
        })
    }

    pub(super) fn member_name(&self, stack: UnionStackId, member: u32) -> &str {
        let first = self.program.union_stacks[stack.at()].elements[0];
        &self.program.unions[first.at()].member_names[member as usize]
    }

    /// A header as an operand.
    pub(super) fn header(&mut self, header: &HeaderRef, ahead: Option<&mut Ahead>) -> Result<Value> {
        Ok(match header {
            HeaderRef::Header(id) => json!({ "type": "header", "value": self.header_name(*id) }),
            HeaderRef::StackElement(stack, index) => {
                let index = self.operand(index, ahead)?;
                operation("dereference_header_stack", self.stack(*stack), index)
            }
            HeaderRef::StackLast(id) => {
                let stack = &self.program.stacks[id.at()];
                if self.program.header_types[stack.ty.at()].fields.iter().any(|field| field.name == "last") {
                    return self.refuse("the last element of a stack whose headers have a field `last`");
                }
                json!({ "type": "stack_field", "value": [stack.name, "last"] })
            }
            HeaderRef::UnionStackElement(stack, index, member) => {
                let index = self.operand(index, ahead)?;
                let union = operation("dereference_union_stack", self.union_stack(*stack), index);
                operation("access_union_header", union, json!(member))
            }
            HeaderRef::StackNext(_) | HeaderRef::UnionStackNext(..) => {
                return self.refuse("the next element of a stack where nothing is extracted");
            }
            HeaderRef::UnionStackLast(..) => {
                return self.refuse("the header extracted last into a stack of unions, as a whole");
            }
        })
    }

    /// A union as an operand.
    pub(super) fn union(&mut self, union: &UnionRef, ahead: Option<&mut Ahead>) -> Result<Value> {
        Ok(match union {
            UnionRef::Union(id) => {
                json!({ "type": "header_union", "value": self.program.unions[id.at()].name })
            }
            UnionRef::Element(stack, index) => {
                let index = self.operand(index, ahead)?;
                operation("dereference_union_stack", self.union_stack(*stack), index)
            }
        })
    }

    /// A value as a parameter of a primitive: what is no plain field or number is wrapped once more.
    pub(super) fn param(&mut self, value: &Expr, ahead: Option<&mut Ahead>) -> Result<Value> {
        if let Expr::Param(at) = value {
            return Ok(json!({ "type": "runtime_data", "value": at }));
        }
        Ok(wrapped(self.operand(value, ahead)?))
    }

    pub(super) fn place(&mut self, field: &FieldRef, ahead: Option<&mut Ahead>) -> Result<Value> {
        Ok(wrapped(self.field(field, ahead)?))
    }

    /// A header, union or stack as a parameter.
    pub(super) fn header_param(&mut self, header: &HeaderRef, ahead: Option<&mut Ahead>) -> Result<Value> {
        Ok(wrapped(self.header(header, ahead)?))
    }

    pub(super) fn union_param(&mut self, union: &UnionRef, ahead: Option<&mut Ahead>) -> Result<Value> {
        Ok(wrapped(self.union(union, ahead)?))
    }

    pub(super) fn stack_param(&self, stack: StackId) -> Value {
        self.stack(stack)
    }

    pub(super) fn union_stack_param(&self, stack: UnionStackId) -> Value {
        self.union_stack(stack)
    }
}

fn wrapped(value: Value) -> Value {
    match value.get("type").and_then(Value::as_str) {
        Some("expression" | "bool" | "stack_field" | "union_stack_field" | "register") => expression(value),
        _ => value,
    }
}
