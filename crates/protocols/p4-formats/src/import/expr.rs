//! Expressions and operands, typed while they are read.
//!
//! The format does not say which values are truth values: p4c writes `d2b` and `b2d` where it converts, but not
//! everywhere. So each sub-expression is read with its type, and conversions are put in where the reader wants the
//! other one.

use super::constant::hex;
use super::error::{Fault, Problem, Result, nearest};
use super::json::{Json, Kind};
use super::{Importer, MAX_EXPRESSION_DEPTH, MAX_FIELD_BITS};
use barewire_p4::ir::{
    BinaryOp, Expr, FieldRef, HeaderId, HeaderRef, RegisterId, StackId, UnaryOp, UnionRef, UnionStackId,
    Width,
};
use num_traits::{ToPrimitive, Zero};

/// Where an expression stands: what it may refer to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Context {
    /// How many parameters the action has.
    pub params: usize,
    /// In a parser: `lookahead` has a meaning.
    pub parser: bool,
    /// In a length expression: the header it is for, and how many of its fields come before the varbit one.
    pub own: Option<(HeaderId, u32)>,
}

/// A value with its type.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Int(Expr),
    Bool(Expr),
    Header(HeaderRef),
    Stack(StackId),
    Union(UnionRef),
    UnionStack(UnionStackId),
}

impl Value {
    fn describe(&self) -> &'static str {
        match self {
            Value::Int(_) => "a number",
            Value::Bool(_) => "a truth value",
            Value::Header(_) => "a header",
            Value::Stack(_) => "a header stack",
            Value::Union(_) => "a header union",
            Value::UnionStack(_) => "a stack of header unions",
        }
    }
}

/// What a `[header, field]` pair names: a field, or the header's validity (`$valid$`).
pub(super) enum FieldOrValid {
    Field(FieldRef),
    Valid(HeaderRef),
}

/// Something that can be written.
pub(super) enum Target {
    Field(FieldRef),
    Register(RegisterId, Expr),
}

const TYPES: [&str; 15] = [
    "expression",
    "header",
    "field",
    "bool",
    "hexstr",
    "local",
    "runtime_data",
    "register",
    "header_stack",
    "stack_field",
    "header_union",
    "header_union_stack",
    "lookahead",
    "union_stack_field",
    "field_list",
];

const OPERATORS: [&str; 40] = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "<<",
    ">>",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "and",
    "or",
    "not",
    "&",
    "|",
    "^",
    "~",
    "?",
    "valid",
    "valid_union",
    "d2b",
    "b2d",
    "two_comp_mod",
    "usat_cast",
    "sat_cast",
    "dereference_stack",
    "dereference_header_stack",
    "dereference_union_stack",
    "last_stack_index",
    "size_stack",
    "access_field",
    "access_union_header",
    "==h",
    "!=h",
    "==u",
    "!=u",
    "==b",
];

/// Operators on two numbers or two truth values.
const BINARY: [(&str, BinaryOp); 16] = [
    ("+", BinaryOp::Add),
    ("-", BinaryOp::Sub),
    ("*", BinaryOp::Mul),
    ("/", BinaryOp::Div),
    ("%", BinaryOp::Rem),
    ("<<", BinaryOp::Shl),
    (">>", BinaryOp::Shr),
    ("&", BinaryOp::BitAnd),
    ("|", BinaryOp::BitOr),
    ("^", BinaryOp::BitXor),
    ("<", BinaryOp::Lt),
    ("<=", BinaryOp::Le),
    (">", BinaryOp::Gt),
    (">=", BinaryOp::Ge),
    ("and", BinaryOp::And),
    ("or", BinaryOp::Or),
];

/// The value as a number.
fn to_int(value: Expr) -> Expr {
    match value {
        Expr::Bool(value) => Expr::Int(u8::from(value).into()),
        value => Expr::Unary(UnaryOp::BoolToInt, Box::new(value)),
    }
}

/// The number as a truth value.
fn to_bool(value: Expr) -> Expr {
    match value {
        Expr::Int(value) => Expr::Bool(!value.is_zero()),
        Expr::Unary(UnaryOp::BoolToInt, inner) => *inner,
        value => Expr::Unary(UnaryOp::IntToBool, Box::new(value)),
    }
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary(op, Box::new(left), Box::new(right))
}

fn not(value: Expr) -> Expr {
    Expr::Unary(UnaryOp::Not, Box::new(value))
}

impl Importer {
    /// A number.
    pub(super) fn int(&self, at: &Json<'_>, context: &Context) -> Result<Expr> {
        self.value(at, context, 0).and_then(|value| self.as_int(at, value))
    }

    /// A truth value.
    pub(super) fn truth(&self, at: &Json<'_>, context: &Context) -> Result<Expr> {
        self.value(at, context, 0).and_then(|value| self.as_bool(at, value))
    }

    /// A header.
    pub(super) fn header(&self, at: &Json<'_>, context: &Context) -> Result<HeaderRef> {
        match self.value(at, context, 0)? {
            Value::Header(header) => Ok(header),
            other => self.wrong(at, "a header", &other),
        }
    }

    fn wrong<T>(&self, at: &Json<'_>, expected: &'static str, found: &Value) -> Result<T> {
        Err(Fault::new(at, Problem::Type { expected, found: found.describe() }))
    }

    fn as_int(&self, at: &Json<'_>, value: Value) -> Result<Expr> {
        match value {
            Value::Int(value) => Ok(value),
            Value::Bool(value) => Ok(to_int(value)),
            other => self.wrong(at, "a number", &other),
        }
    }

    fn as_bool(&self, at: &Json<'_>, value: Value) -> Result<Expr> {
        match value {
            Value::Bool(value) => Ok(value),
            Value::Int(value) => Ok(to_bool(value)),
            other => self.wrong(at, "a truth value", &other),
        }
    }

    /// A field named by `[header, field]`, by its instance's own name or by an alias.
    pub(super) fn field_or_valid(&self, at: &Json<'_>) -> Result<FieldOrValid> {
        self.field_or_valid_in(at, &Context::default(), 0)
    }

    fn field_or_valid_in(&self, at: &Json<'_>, context: &Context, depth: usize) -> Result<FieldOrValid> {
        let [header, field] = at.tuple::<2>("a field (header, field)")?;
        // p4c writes an element of a stack at a computed index as an operation in the header's place.
        if let Kind::Object(_) = header.kind {
            let value = match header.get("op") {
                Some(op) => self.operator(header, op, context, depth + 1)?,
                None => self.value(header, context, depth + 1)?,
            };
            let Value::Header(header_ref) = value else { return self.wrong(header, "a header", &value) };
            if field.str()? == "$valid$" {
                return Ok(FieldOrValid::Valid(header_ref));
            }
            let field = self.field_index(self.program.type_of_ref(&header_ref), field)?;
            return Ok(FieldOrValid::Field(FieldRef { header: header_ref, field }));
        }
        let (header_name, field_name) = (header.str()?, field.str()?);
        let alias = || self.names.aliases.get(&format!("{header_name}.{field_name}")).copied();
        let Some(id) = self.names.headers.get(header_name) else {
            return match alias() {
                Some(field) => Ok(FieldOrValid::Field(field.into())),
                None => self.names.headers.at(header).and_then(|_| Fault::invalid(header, "no header")),
            };
        };
        let ty = self.program.headers[id.at()].ty;
        if let Some(&field) = self.names.fields[ty.at()].get(field_name) {
            return Ok(FieldOrValid::Field(FieldRef { header: id.into(), field }));
        }
        if field_name == "$valid$" {
            return Ok(FieldOrValid::Valid(id.into()));
        }
        match alias() {
            Some(field) => Ok(FieldOrValid::Field(field.into())),
            None => self
                .field_index(ty, field)
                .map(|index| FieldOrValid::Field(FieldRef { header: id.into(), field: index })),
        }
    }

    /// A field that is not `$valid$`.
    pub(super) fn field(&self, at: &Json<'_>) -> Result<FieldRef> {
        self.field_in(at, &Context::default())
    }

    fn field_in(&self, at: &Json<'_>, context: &Context) -> Result<FieldRef> {
        match self.field_or_valid_in(at, context, 0)? {
            FieldOrValid::Field(field) => Ok(field),
            FieldOrValid::Valid(_) => Fault::unsupported(
                at,
                "a header's validity as a field here",
                "only conditions, keys, expressions and hash inputs can read '$valid$'; nothing can write it",
            ),
        }
    }

    /// The width of a field in bits, of a varbit one its maximum.
    pub(super) fn width_of(&self, field: &FieldRef) -> u32 {
        self.program.field_def_of_ref(field).bits()
    }

    pub(super) fn is_varbit(&self, field: &FieldRef) -> bool {
        matches!(self.program.field_def_of_ref(field).width, Width::Varbit(_))
    }

    /// Something to write to: a field or a register's cell.
    pub(super) fn target(&self, at: &Json<'_>, context: &Context) -> Result<Target> {
        let value = match at.need_str("type")? {
            "field" => return self.field_in(at.need("value")?, context).map(Target::Field),
            "runtime_data" | "local" => {
                let reason = "the format lets actions read their parameters only";
                return Fault::unsupported(at, "an action parameter as destination", reason);
            }
            _ => self.value(at, context, 0)?,
        };
        match value {
            Value::Int(Expr::Field(field)) => Ok(Target::Field(field)),
            Value::Int(Expr::Register { register, index }) => Ok(Target::Register(register, *index)),
            other => self.wrong(at, "a field to write to", &other),
        }
    }

    /// A field to write to.
    pub(super) fn target_field(&self, at: &Json<'_>, context: &Context) -> Result<FieldRef> {
        match self.target(at, context)? {
            Target::Field(field) => Ok(field),
            Target::Register(..) => Fault::unsupported(
                at,
                "a register as destination here",
                "only assignments write registers so",
            ),
        }
    }

    /// Any operand. (This and [`Importer::operator`] call each other for every level of an expression: what is rare
    /// stands in functions of its own, so that their frames stay small.)
    pub(super) fn value(&self, at: &Json<'_>, context: &Context, depth: usize) -> Result<Value> {
        if depth > MAX_EXPRESSION_DEPTH {
            let (value, limit) = (depth as u64, MAX_EXPRESSION_DEPTH as u64);
            return Err(Fault::new(at, Problem::Limit { what: "an expression's depth", value, limit }));
        }
        if at.need_str("type")? != "expression" {
            return self.leaf(at, context, depth);
        }
        let value = at.need("value")?;
        match value.get("op") {
            Some(op) => self.operator(value, op, context, depth),
            None => self.value(value, context, depth + 1),
        }
    }

    /// An operand that is no operation.
    #[inline(never)]
    fn leaf(&self, at: &Json<'_>, context: &Context, depth: usize) -> Result<Value> {
        let ty = at.need("type")?;
        let value = at.need("value")?;
        Ok(match ty.str()? {
            "header" => Value::Header(self.names.headers.at(value)?.into()),
            "header_stack" => Value::Stack(self.names.stacks.at(value)?),
            "header_union" => Value::Union(UnionRef::Union(self.names.unions.at(value)?)),
            "header_union_stack" => Value::UnionStack(self.names.union_stacks.at(value)?),
            "field" => match self.field_or_valid_in(value, context, depth)? {
                FieldOrValid::Field(field) => Value::Int(Expr::Field(field)),
                FieldOrValid::Valid(header) => Value::Int(to_int(Expr::Valid(header))),
            },
            "stack_field" => {
                let [stack, field] = value.tuple::<2>("a stack field (stack, field)")?;
                let stack = self.names.stacks.at(stack)?;
                let ty = self.program.stacks[stack.at()].ty;
                let named = |name| self.names.fields[ty.at()].contains_key(name);
                match field.str()? {
                    // p4c writes the whole header `stack.last` in this form too.
                    "last" if !named("last") => Value::Header(HeaderRef::StackLast(stack)),
                    _ => {
                        let field = self.field_index(ty, field)?;
                        Value::Int(Expr::Field(FieldRef { header: HeaderRef::StackLast(stack), field }))
                    }
                }
            }
            "union_stack_field" => Value::Int(Expr::Field(self.union_stack_field(value)?)),
            "hexstr" => Value::Int(Expr::Int(hex(value)?)),
            "bool" => Value::Bool(Expr::Bool(value.bool()?)),
            "local" if context.own.is_some() => {
                // A length expression's `local`s are the fields of the header itself.
                let (header, fields) = context.own.unwrap_or((HeaderId(0), 0));
                let index = value.count("a field's position", u32::MAX)?;
                if index >= fields {
                    return Fault::value(
                        value,
                        "a length can depend only on the fields before the varbit one",
                    );
                }
                Value::Int(Expr::Field(FieldRef { header: header.into(), field: index }))
            }
            "local" | "runtime_data" => {
                let index = value.count("a parameter's position", u32::MAX)?;
                if index as usize >= context.params {
                    let text = format!("parameter {index} of an action with {} parameters", context.params);
                    return Fault::value(value, text);
                }
                Value::Int(Expr::Param(index))
            }
            "register" => {
                let [array, index] = value.tuple::<2>("a register (array, index)")?;
                let register = self.names.registers.at(array)?;
                let index = self.value(index, context, depth + 1).and_then(|v| self.as_int(index, v))?;
                Value::Int(Expr::Register { register, index: Box::new(index) })
            }
            "lookahead" if context.parser => Value::Int(self.lookahead(value)?.0),
            other => {
                let nearest = nearest(other, TYPES);
                return Err(Fault::new(
                    ty,
                    Problem::Unknown { kind: "operand type", name: other.into(), nearest },
                ));
            }
        })
    }

    /// `[offset, width]` in bits from the parser's place.
    pub(super) fn lookahead(&self, at: &Json<'_>) -> Result<(Expr, u32)> {
        let [offset, width] = at.tuple::<2>("a lookahead (offset, width)")?;
        let offset = offset.count("a lookahead's offset", 1 << 20)?;
        let width = width.count("a lookahead's width", MAX_FIELD_BITS)?;
        Ok((Expr::Lookahead { offset, width }, width))
    }

    /// `[union stack, member, field]` of the union extracted last.
    pub(super) fn union_stack_field(&self, at: &Json<'_>) -> Result<FieldRef> {
        let [stack, member, field] = at.tuple::<3>("a union stack field (stack, member, field)")?;
        let stack = self.names.union_stacks.at(stack)?;
        let member = self.union_member(stack, member)?;
        let header = HeaderRef::UnionStackLast(stack, member);
        let field = self.field_index(self.program.type_of_ref(&header), field)?;
        Ok(FieldRef { header, field })
    }

    /// A member of the unions of a stack by its name.
    pub(super) fn union_member(&self, stack: UnionStackId, at: &Json<'_>) -> Result<u32> {
        let name = at.str()?;
        let union = self.program.union_stacks[stack.at()].elements[0];
        let names = &self.program.unions[union.at()].member_names;
        match names.iter().position(|n| n == name) {
            Some(index) => Ok(index as u32),
            None => {
                let nearest = nearest(name, names.iter().map(String::as_str));
                Err(Fault::new(at, Problem::Unknown { kind: "union member", name: name.into(), nearest }))
            }
        }
    }

    /// An operand of an operation.
    #[inline(never)]
    fn operand_int(&self, at: &Json<'_>, key: &'static str, context: &Context, depth: usize) -> Result<Expr> {
        let operand = at.need(key)?;
        let value = self.value(operand, context, depth + 1)?;
        self.as_int(operand, value)
    }

    /// An operand of an operation.
    #[inline(never)]
    fn operand_truth(
        &self,
        at: &Json<'_>,
        key: &'static str,
        context: &Context,
        depth: usize,
    ) -> Result<Expr> {
        let operand = at.need(key)?;
        let value = self.value(operand, context, depth + 1)?;
        self.as_bool(operand, value)
    }

    fn operator(&self, at: &Json<'_>, op: &Json<'_>, context: &Context, depth: usize) -> Result<Value> {
        let name = op.str()?;
        // Unary signs have nothing on the left.
        if matches!(name, "+" | "-") && at.get("left").is_none() {
            return self.unary(at, if name == "-" { Some(UnaryOp::Neg) } else { None }, context, depth);
        }
        if let Some((_, op)) = BINARY.iter().find(|(n, _)| *n == name) {
            return self.binary(at, *op, context, depth);
        }
        match name {
            "~" => self.unary(at, Some(UnaryOp::BitNot), context, depth),
            "not" => self.unary(at, Some(UnaryOp::Not), context, depth),
            "d2b" => self.unary(at, Some(UnaryOp::IntToBool), context, depth),
            "b2d" => self.unary(at, Some(UnaryOp::BoolToInt), context, depth),
            "?" => self.select(at, context, depth),
            "==" | "==h" | "==u" | "==b" => self.equality(at, false, context, depth),
            "!=" | "!=h" | "!=u" | "!=b" => self.equality(at, true, context, depth),
            "two_comp_mod" | "usat_cast" | "sat_cast" => self.cast(at, name, context, depth),
            "valid" | "valid_union" | "last_stack_index" | "size_stack" => {
                self.property(at, name, context, depth)
            }
            "dereference_header_stack" | "dereference_stack" | "dereference_union_stack" => {
                self.dereference(at, context, depth)
            }
            "access_field" => self.access_field(at, context, depth),
            "access_union_header" => self.access_member(at, context, depth),
            other => {
                let nearest = nearest(other, OPERATORS);
                Err(Fault::new(op, Problem::Unknown { kind: "operator", name: other.into(), nearest }))
            }
        }
    }

    #[inline(never)]
    fn binary(&self, at: &Json<'_>, op: BinaryOp, context: &Context, depth: usize) -> Result<Value> {
        if matches!(op, BinaryOp::And | BinaryOp::Or) {
            let left = self.operand_truth(at, "left", context, depth)?;
            return Ok(Value::Bool(binary(op, left, self.operand_truth(at, "right", context, depth)?)));
        }
        let left = self.operand_int(at, "left", context, depth)?;
        let value = binary(op, left, self.operand_int(at, "right", context, depth)?);
        let compares = matches!(op, BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge);
        Ok(if compares { Value::Bool(value) } else { Value::Int(value) })
    }

    /// Operators with one operand have it on the right; the other side is null.
    fn only(at: &Json<'_>) -> &'static str {
        if at.get("right").is_some() { "right" } else { "left" }
    }

    #[inline(never)]
    fn unary(&self, at: &Json<'_>, op: Option<UnaryOp>, context: &Context, depth: usize) -> Result<Value> {
        let key = Self::only(at);
        match op {
            Some(UnaryOp::Not) => Ok(Value::Bool(not(self.operand_truth(at, key, context, depth)?))),
            Some(UnaryOp::IntToBool) => self.operand_truth(at, key, context, depth).map(Value::Bool),
            Some(UnaryOp::BoolToInt) => Ok(Value::Int(to_int(self.operand_truth(at, key, context, depth)?))),
            Some(op @ (UnaryOp::Neg | UnaryOp::BitNot)) => {
                Ok(Value::Int(Expr::Unary(op, Box::new(self.operand_int(at, key, context, depth)?))))
            }
            None => self.operand_int(at, key, context, depth).map(Value::Int),
        }
    }

    #[inline(never)]
    fn select(&self, at: &Json<'_>, context: &Context, depth: usize) -> Result<Value> {
        let condition = Box::new(self.operand_truth(at, "cond", context, depth)?);
        let (left_at, right_at) = (at.need("left")?, at.need("right")?);
        let left = self.value(left_at, context, depth + 1)?;
        let right = self.value(right_at, context, depth + 1)?;
        if let (Value::Bool(left), Value::Bool(right)) = (&left, &right) {
            let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
            return Ok(Value::Bool(Expr::Select(condition, left, right)));
        }
        let (left, right) = (self.as_int(left_at, left)?, self.as_int(right_at, right)?);
        Ok(Value::Int(Expr::Select(condition, Box::new(left), Box::new(right))))
    }

    #[inline(never)]
    fn equality(&self, at: &Json<'_>, negate: bool, context: &Context, depth: usize) -> Result<Value> {
        let (left_at, right_at) = (at.need("left")?, at.need("right")?);
        let left = self.value(left_at, context, depth + 1)?;
        let right = self.value(right_at, context, depth + 1)?;
        Ok(Value::Bool(match (self.equal(at, (left_at, left), (right_at, right))?, negate) {
            (equal, false) => equal,
            (Expr::Binary(BinaryOp::Eq, left, right), true) => Expr::Binary(BinaryOp::Ne, left, right),
            (equal, true) => not(equal),
        }))
    }

    #[inline(never)]
    fn cast(&self, at: &Json<'_>, name: &str, context: &Context, depth: usize) -> Result<Value> {
        let value = Box::new(self.operand_int(at, "left", context, depth)?);
        let width = self.cast_width(at, context, depth)?;
        Ok(Value::Int(match name {
            "two_comp_mod" => Expr::Wrap { value, width },
            _ => Expr::Saturate { value, width, signed: name == "sat_cast" },
        }))
    }

    /// What is asked of a header, a union or a stack.
    #[inline(never)]
    fn property(&self, at: &Json<'_>, name: &str, context: &Context, depth: usize) -> Result<Value> {
        let operand = at.need(Self::only(at))?;
        match (name, self.value(operand, context, depth + 1)?) {
            ("valid" | "valid_union", Value::Header(header)) => Ok(Value::Bool(Expr::Valid(header))),
            ("valid" | "valid_union", Value::Union(union)) => Ok(Value::Bool(Expr::UnionValid(union))),
            ("valid" | "valid_union", other) => self.wrong(operand, "a header or a header union", &other),
            ("size_stack", Value::Stack(stack)) => Ok(Value::Int(Expr::StackSize(stack))),
            // The next index less 1 in 64 bits: of an empty stack the largest number (bmv2).
            (_, Value::Stack(stack)) => {
                let last = binary(BinaryOp::Sub, Expr::StackSize(stack), Expr::Int(1.into()));
                Ok(Value::Int(binary(BinaryOp::BitAnd, last, Expr::Int(u64::MAX.into()))))
            }
            (_, Value::UnionStack(_)) => {
                Fault::unsupported(operand, "the index of a stack of unions", "p4c does not write it")
            }
            (_, other) => self.wrong(operand, "a header stack", &other),
        }
    }

    /// An element of a stack, or of a stack of unions, by its index.
    #[inline(never)]
    fn dereference(&self, at: &Json<'_>, context: &Context, depth: usize) -> Result<Value> {
        let stack_at = at.need("left")?;
        let stack = self.value(stack_at, context, depth + 1)?;
        let index = self.operand_int(at, "right", context, depth)?;
        let constant = match &index {
            Expr::Int(index) => index.to_usize(),
            _ => None,
        };
        match stack {
            Value::Stack(stack) => {
                let fixed = constant.and_then(|index| self.program.stacks[stack.at()].elements.get(index));
                Ok(Value::Header(match fixed {
                    Some(&element) => element.into(),
                    None => HeaderRef::StackElement(stack, Box::new(index)),
                }))
            }
            Value::UnionStack(stack) => {
                let fixed =
                    constant.and_then(|index| self.program.union_stacks[stack.at()].elements.get(index));
                Ok(Value::Union(match fixed {
                    Some(&element) => UnionRef::Union(element),
                    None => UnionRef::Element(stack, Box::new(index)),
                }))
            }
            other => self.wrong(stack_at, "a stack", &other),
        }
    }

    #[inline(never)]
    fn access_field(&self, at: &Json<'_>, context: &Context, depth: usize) -> Result<Value> {
        let header_at = at.need("left")?;
        let header = match self.value(header_at, context, depth + 1)? {
            Value::Header(header) => header,
            other => return self.wrong(header_at, "a header", &other),
        };
        let at = at.need("right")?;
        let field = at.count("a field's position", u32::MAX)?;
        let fields = self.program.header_types[self.program.type_of_ref(&header).at()].fields.len();
        match (field as usize).cmp(&fields) {
            std::cmp::Ordering::Less => Ok(Value::Int(Expr::Field(FieldRef { header, field }))),
            // bmv2 keeps the validity bit as a hidden field behind the others.
            std::cmp::Ordering::Equal => Ok(Value::Int(to_int(Expr::Valid(header)))),
            std::cmp::Ordering::Greater => {
                Fault::value(at, format!("field {field} of a header with {fields} fields"))
            }
        }
    }

    #[inline(never)]
    fn access_member(&self, at: &Json<'_>, context: &Context, depth: usize) -> Result<Value> {
        let union_at = at.need("left")?;
        let union = match self.value(union_at, context, depth + 1)? {
            Value::Union(union) => union,
            other => return self.wrong(union_at, "a header union", &other),
        };
        let at = at.need("right")?;
        let member = at.count("a member's position", u32::MAX)?;
        let id = match &union {
            UnionRef::Union(id) => *id,
            UnionRef::Element(stack, _) => self.program.union_stacks[stack.at()].elements[0],
        };
        let members = &self.program.unions[id.at()].members;
        let Some(&header) = members.get(member as usize) else {
            return Fault::value(at, format!("member {member} of a union with {} members", members.len()));
        };
        Ok(Value::Header(match union {
            UnionRef::Element(stack, index) => HeaderRef::UnionStackElement(stack, index, member),
            UnionRef::Union(_) => header.into(),
        }))
    }

    /// The width that a cast's right side gives: a constant.
    fn cast_width(&self, at: &Json<'_>, context: &Context, depth: usize) -> Result<u32> {
        let right = at.need("right")?;
        match self.value(right, context, depth + 1)? {
            Value::Int(Expr::Int(width)) => match width.to_u32() {
                Some(width @ 1..=MAX_FIELD_BITS) => Ok(width),
                _ => {
                    Fault::value(right, format!("a cast to {width} bits: 1 to {MAX_FIELD_BITS} are possible"))
                }
            },
            _ => Fault::value(right, "a cast's width must be a constant"),
        }
    }

    fn equal(&self, at: &Json<'_>, left: (&Json<'_>, Value), right: (&Json<'_>, Value)) -> Result<Expr> {
        let same_type = |left: &HeaderRef, right: &HeaderRef| {
            self.same_layout(self.program.type_of_ref(left), self.program.type_of_ref(right))
        };
        let differ = |what| Fault::value(at, format!("{what} of different types compared"));
        Ok(match (left.1, right.1) {
            (Value::Header(left), Value::Header(right)) => {
                if !same_type(&left, &right) {
                    return differ("headers");
                }
                // Two invalid headers are not equal in bmv2, whatever the language says.
                let valid = Expr::Valid(left.clone());
                binary(BinaryOp::And, valid, Expr::HeadersEqual(left, right))
            }
            (Value::Union(left), Value::Union(right)) => {
                if self.union_type(&left) != self.union_type(&right) {
                    return differ("unions");
                }
                let valid = Expr::UnionValid(left.clone());
                binary(BinaryOp::And, valid, Expr::UnionsEqual(left, right))
            }
            (Value::Stack(left), Value::Stack(right)) => {
                if !self.same_stacks(left, right) {
                    return differ("stacks");
                }
                Expr::StacksEqual(left, right)
            }
            (Value::UnionStack(left), Value::UnionStack(right)) => {
                if !self.same_union_stacks(left, right) {
                    return differ("stacks");
                }
                Expr::UnionStacksEqual(left, right)
            }
            (l, r) => {
                let l = self.as_int(left.0, l)?;
                binary(BinaryOp::Eq, l, self.as_int(right.0, r)?)
            }
        })
    }

    /// Whether two header types have the same fields, names aside.
    pub(super) fn same_layout(
        &self,
        left: barewire_p4::ir::HeaderTypeId,
        right: barewire_p4::ir::HeaderTypeId,
    ) -> bool {
        let fields = |ty: barewire_p4::ir::HeaderTypeId| &self.program.header_types[ty.at()].fields;
        left == right
            || fields(left).len() == fields(right).len()
                && fields(left)
                    .iter()
                    .zip(fields(right))
                    .all(|(l, r)| l.width == r.width && l.signed == r.signed)
    }

    /// The union type behind a reference.
    pub(super) fn union_type(&self, union: &UnionRef) -> usize {
        let union = match union {
            UnionRef::Union(union) => *union,
            UnionRef::Element(stack, _) => self.program.union_stacks[stack.at()].elements[0],
        };
        self.names.type_of_union[union.at()]
    }

    pub(super) fn same_stacks(&self, left: StackId, right: StackId) -> bool {
        let (left, right) = (&self.program.stacks[left.at()], &self.program.stacks[right.at()]);
        left.elements.len() == right.elements.len() && self.same_layout(left.ty, right.ty)
    }

    pub(super) fn same_union_stacks(&self, left: UnionStackId, right: UnionStackId) -> bool {
        let stack = |id: UnionStackId| &self.program.union_stacks[id.at()].elements;
        let ty = |id: UnionStackId| self.names.type_of_union[stack(id)[0].at()];
        stack(left).len() == stack(right).len() && ty(left) == ty(right)
    }
}
