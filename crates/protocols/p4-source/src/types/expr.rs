//! Expressions (specification, chapter 8): their types, and which of them can be written to.

use num_bigint::BigInt;
use num_traits::{Signed as _, ToPrimitive as _};

use super::ty::{Type, TypeId, TypeList};
use super::value::{self, MAX_WIDTH, Value};
use super::{Checker, Stage, SymbolId, SymbolKind, code, warn};
use crate::ast::{self, Direction, Expr, ExprKind, TypeKind};
use crate::diag::Diagnostic;
use crate::source::Span;

impl<'a> Checker<'a> {
    /// The type of an expression. Each is looked at once.
    pub(super) fn expr(&mut self, expr: &'a Expr) -> TypeId {
        if let Some(ty) = self.out.ty(expr.id) {
            return ty;
        }
        // What an expression says of itself is told at its own place.
        let site = self.facts.site.take();
        let ty = self.expr_kind(expr);
        self.facts.site = site;
        self.set_type(expr.id, ty)
    }

    fn expr_kind(&mut self, expr: &'a Expr) -> TypeId {
        match &expr.kind {
            ExprKind::Int(literal) => self.int_literal(expr, literal),
            ExprKind::String(_) => TypeId::STRING,
            ExprKind::Bool(_) => TypeId::BOOL,
            ExprKind::This => match &self.this {
                Some((id, args)) => {
                    let ty = Type::Extern(*id, args.clone());
                    self.out.types.intern(ty)
                }
                None => {
                    self.report_at(
                        Stage::Shape,
                        Diagnostic::error(
                            code::INVALID,
                            expr.span,
                            "`this` is known only in the method of an instance",
                        ),
                    );
                    TypeId::ERROR
                }
            },
            ExprKind::Path { absolute, name } => match self.lookup(&name.name, *absolute).first().copied() {
                Some(id) => self.symbol_value(expr, id),
                None => self.not_found(name),
            },
            ExprKind::Type(ty) => match self.value_behind(ty) {
                Some(id) => self.symbol_value(expr, id),
                None => {
                    let known = !matches!(ty.kind, TypeKind::Name(_)) || self.type_symbol(ty).is_some();
                    let id = self.type_as(ty, super::resolve::Use::Constructor);
                    if known && id != TypeId::ERROR {
                        self.type_error(expr.span, "a type is no value");
                    }
                    TypeId::ERROR
                }
            },
            ExprKind::Member(base, name) => self.member(expr, base, name),
            ExprKind::Index(base, index) => self.index(expr.span, base, index),
            ExprKind::Slice { base, high, low } => self.slice(base, high, low),
            ExprKind::PlusSlice { base, low, width } => self.plus_slice(base, low, width),
            ExprKind::Unary(op, operand) => self.unary(*op, expr.span, operand),
            ExprKind::Binary(op, left, right) => self.binary(*op, expr.span, left, right),
            ExprKind::Conditional(condition, then, otherwise) => {
                self.conditional(expr.span, condition, then, otherwise)
            }
            ExprKind::Cast(ty, operand) => self.cast(expr.span, ty, operand),
            ExprKind::Call(call) => self.call(expr, call),
            ExprKind::List { items, rest } => {
                self.dots_last(items);
                let parts: TypeList = items.iter().map(|item| self.expr(item)).collect();
                if parts.iter().any(|&part| part == TypeId::VOID || part == TypeId::CALLABLE) {
                    return self.type_error(expr.span, "not everything in `{ … }` is a value");
                }
                self.out.types.intern(Type::Sequence(parts, rest.is_some()))
            }
            ExprKind::Struct { fields, rest } => {
                self.fields_once(fields);
                let mut list: Vec<(ast::Name, TypeId)> = Vec::with_capacity(fields.len());
                for field in fields {
                    let ty = self.expr(&field.value);
                    list.push((field.key.name.clone(), ty));
                }
                self.out.types.intern(Type::Record(list.into(), rest.is_some()))
            }
            ExprKind::Invalid => TypeId::INVALID,
            ExprKind::Default => TypeId::DEFAULT,
            ExprKind::DontCare => self.type_error(expr.span, "`_` is no value"),
            ExprKind::Error => TypeId::ERROR,
        }
    }

    /// `...` stands for the rest, so nothing is behind it.
    pub(super) fn dots_last(&mut self, items: &'a [Expr]) {
        for item in items.iter().filter(|item| matches!(item.kind, ExprKind::Default)) {
            self.report_at(
                Stage::Shape,
                Diagnostic::error(code::INVALID, item.span, "`...` is the last element, or none"),
            );
        }
    }

    /// No field has two values.
    pub(super) fn fields_once(&mut self, fields: &'a [ast::KeyValue]) {
        let mut seen: std::collections::HashMap<&ast::Name, Span> = std::collections::HashMap::new();
        for field in fields {
            if let Some(first) = seen.insert(&field.key.name, field.key.span) {
                self.report_at(
                    Stage::List,
                    Diagnostic::error(
                        code::DUPLICATE,
                        field.key.span,
                        format!("field `{}` has two values", field.key),
                    )
                    .label(first, "here before"),
                );
            }
        }
    }

    fn int_literal(&mut self, expr: &'a Expr, literal: &'a ast::IntLiteral) -> TypeId {
        let Some(width) = literal.width else { return TypeId::INT };
        if width.signed && width.bits == 0 {
            self.report_at(
                Stage::List,
                Diagnostic::error(code::INVALID, expr.span, "a signed number is at least one bit wide"),
            );
            return TypeId::ERROR;
        }
        if width.bits > MAX_WIDTH {
            self.report(
                Diagnostic::error(
                    code::UNSUPPORTED,
                    expr.span,
                    format!("a number of {} bits is too wide", width.bits),
                )
                .note(format!("{MAX_WIDTH} bits are the limit")),
            );
            return TypeId::ERROR;
        }
        if !value::fits(&literal.value, width.bits, width.signed) {
            let kept = value::wrap(&literal.value, width.bits, width.signed);
            self.warn(
                Diagnostic::warning(
                    warn::OVERFLOW,
                    expr.span,
                    format!("{} does not fit in {} bits", literal.value, width.bits),
                )
                .here(format!("becomes {kept}")),
            );
        }
        if width.signed { self.out.types.signed(width.bits) } else { self.out.types.bit(width.bits) }
    }

    /// The symbol behind the name of a type.
    pub(super) fn type_symbol(&self, ty: &ast::Type) -> Option<SymbolId> {
        match &ty.kind {
            TypeKind::Name(name) | TypeKind::Specialized(name, _) => {
                self.lookup(&name.name.name, name.absolute).first().copied()
            }
            _ => None,
        }
    }

    /// A name that the parser took for a type, but that stands for a value here.
    pub(super) fn value_behind(&self, ty: &ast::Type) -> Option<SymbolId> {
        let TypeKind::Name(_) = &ty.kind else { return None };
        self.type_symbol(ty).filter(|&id| !self.is_type(id))
    }

    pub(super) fn is_type(&self, id: SymbolId) -> bool {
        matches!(
            self.symbol(id).kind,
            SymbolKind::Struct(_)
                | SymbolKind::Enum(_)
                | SymbolKind::Newtype(_)
                | SymbolKind::Typedef
                | SymbolKind::TypeParam(_)
                | SymbolKind::Extern(_)
                | SymbolKind::Block(_)
                | SymbolKind::Package(_)
        )
    }

    fn symbol_value(&mut self, expr: &'a Expr, id: SymbolId) -> TypeId {
        self.refer(expr.id, id, expr.span);
        let symbol = self.symbol(id);
        let (kind, ty, span, name) = (symbol.kind, symbol.ty, symbol.span, symbol.name.clone());
        match kind {
            SymbolKind::Table(table) => self.out.types.intern(Type::Table(table)),
            SymbolKind::ValueSet => self.out.types.intern(Type::Set(ty)),
            SymbolKind::Function(_) | SymbolKind::State => TypeId::CALLABLE,
            _ if self.is_type(id) => {
                self.report(
                    Diagnostic::error(code::TYPE, expr.span, format!("`{name}` is a type, no value"))
                        .label(span, "declared here"),
                );
                TypeId::ERROR
            }
            _ => ty,
        }
    }

    fn index(&mut self, whole: Span, base: &'a Expr, index: &'a Expr) -> TypeId {
        let of = self.expr(base);
        let at = self.expr(index);
        let at = self.resolve(at);
        let constant = self.fold(index);
        let number = constant.as_ref().and_then(Value::as_int).cloned();
        match self.kind(of).clone() {
            Type::Error => TypeId::ERROR,
            Type::Stack(element, size) => {
                let ok = match self.out.types.get(at) {
                    Type::Int | Type::Bit(_) | Type::Signed(_) | Type::Error => true,
                    Type::Enum(id) => self.out.enums[id.index()].repr.is_some(),
                    _ => false,
                };
                if !ok {
                    let shown = self.show(at);
                    return self.type_error(index.span, format!("an index is a number, not `{shown}`"));
                }
                if let Some(number) = number {
                    if number.is_negative() {
                        self.type_error(index.span, format!("index {number} is negative"));
                    } else if size > 0 && number >= BigInt::from(size) {
                        self.report(
                            Diagnostic::error(
                                code::TYPE,
                                index.span,
                                format!("index {number} is past the end"),
                            )
                            .label(base.span, format!("has {size} elements")),
                        );
                    }
                } else if at == TypeId::INT && !self.is_known(index) {
                    return self.type_error(index.span, "this index has no width");
                }
                element
            }
            Type::Tuple(parts) | Type::Sequence(parts, _) => {
                let Some(number) = number else {
                    return self.type_error(index.span, "the index of a tuple is a constant");
                };
                match number.to_usize().and_then(|at| parts.get(at).copied()) {
                    Some(part) => part,
                    None => self.type_error(
                        index.span,
                        format!("a tuple of {} has no element {number}", parts.len()),
                    ),
                }
            }
            _ => {
                let shown = self.show(of);
                self.type_error(whole, format!("`{shown}` has no elements"))
            }
        }
    }

    /// Width of what is sliced.
    fn sliced(&mut self, base: &'a Expr) -> Option<Option<u32>> {
        let of = self.expr(base);
        match self.kind(of).clone() {
            Type::Error => None,
            Type::Bit(width) | Type::Signed(width) => Some(Some(width)),
            Type::Int => Some(None),
            Type::Enum(id) if self.out.enums[id.index()].repr.is_some() => {
                let repr = self.out.enums[id.index()].repr?;
                self.out.converted.insert(base.id, repr);
                match self.kind(repr) {
                    Type::Bit(width) | Type::Signed(width) => Some(Some(*width)),
                    _ => None,
                }
            }
            _ => {
                let shown = self.show(of);
                self.type_error(base.span, format!("`{shown}` has no bits to take some of"));
                None
            }
        }
    }

    fn slice(&mut self, base: &'a Expr, high: &'a Expr, low: &'a Expr) -> TypeId {
        let of = self.sliced(base);
        let bounds = (self.slice_bound(high, (base, low)), self.slice_bound(low, (base, high)));
        let (Some(width), (Some(high_bit), Some(low_bit))) = (of, bounds) else { return TypeId::ERROR };
        if let Some(width) = width {
            for (at, bit) in [(high, high_bit), (low, low_bit)] {
                if bit >= width {
                    self.report(
                        Diagnostic::error(code::TYPE, at.span, format!("there is no bit {bit}"))
                            .label(base.span, format!("{width} bits wide")),
                    );
                    return TypeId::ERROR;
                }
            }
        }
        if low_bit > high_bit {
            let early = self.is_early(base) && self.is_early(high) && self.is_early(low);
            let text = format!("the high bit stands first: `[{low_bit}:{high_bit}]`");
            return self.constant_error(early, code::EXPECTED, high.span.to(low.span), text);
        }
        self.out.types.bit(high_bit - low_bit + 1)
    }

    fn slice_bound(&mut self, bound: &'a Expr, (base, other): (&'a Expr, &'a Expr)) -> Option<u32> {
        let number = self.constant_int(bound, "a bit of a slice")?;
        if number.is_negative() {
            self.expr(other);
            let early = self.is_early(base) && self.is_early(bound) && self.is_early(other);
            self.constant_error(early, code::EXPECTED, bound.span, format!("there is no bit {number}"));
            return None;
        }
        match number.to_u32().filter(|&bit| bit < MAX_WIDTH) {
            Some(bit) => Some(bit),
            None => {
                self.type_error(bound.span, format!("there is no bit {number}"));
                None
            }
        }
    }

    fn plus_slice(&mut self, base: &'a Expr, low: &'a Expr, width: &'a Expr) -> TypeId {
        let of = self.sliced(base);
        let at = self.expr(low);
        if !matches!(self.kind(at), Type::Int | Type::Bit(_) | Type::Error) {
            let shown = self.show(at);
            self.type_error(low.span, format!("the lowest bit is a `bit<W>` or a constant, not `{shown}`"));
            return TypeId::ERROR;
        }
        let Some(bits) = self.constant_int(width, "the width of a slice") else { return TypeId::ERROR };
        let Some(bits) = bits.to_u32().filter(|&bits| bits > 0 && bits <= MAX_WIDTH) else {
            return self.type_error(width.span, format!("a slice cannot be {bits} bits wide"));
        };
        let Some(of) = of else { return TypeId::ERROR };
        if let (Some(of), Some(start)) = (of, self.fold(low).as_ref().and_then(Value::as_int))
            && (start.is_negative() || start + bits > BigInt::from(of))
        {
            self.report(
                Diagnostic::error(
                    code::TYPE,
                    low.span.to(width.span),
                    format!("{bits} bits from bit {start} are too many"),
                )
                .label(base.span, format!("{of} bits wide")),
            );
            return TypeId::ERROR;
        }
        self.out.types.bit(bits)
    }

    fn conditional(
        &mut self,
        whole: Span,
        condition: &'a Expr,
        then: &'a Expr,
        otherwise: &'a Expr,
    ) -> TypeId {
        self.expect_as(condition, TypeId::BOOL, &|shown, _| {
            format!("a condition is a `bool`, not `{shown}`")
        });
        let x = self.expr(then);
        let y = self.expr(otherwise);
        let (x, y) = (self.resolve(x), self.resolve(y));
        if x == TypeId::ERROR || y == TypeId::ERROR {
            return if x == TypeId::ERROR { y } else { x };
        }
        if x == TypeId::VOID || x == TypeId::CALLABLE {
            return self.type_error(then.span, "this is no value");
        }
        if x == TypeId::INT && y == TypeId::INT {
            if !self.is_known(condition) {
                self.report(
                    Diagnostic::error(code::TYPE, whole, "one of the two numbers needs a width")
                        .help("write it, such as `8w5`"),
                );
            }
            return TypeId::INT;
        }
        if self.unify(x, y) {
            return x;
        }
        // A number without a width becomes the other; an enumeration does not become its number here.
        for (from, to, expr) in [(x, y, then), (y, x, otherwise)] {
            let number = matches!(
                self.kind(from),
                Type::Int | Type::Sequence(..) | Type::Record(..) | Type::Invalid | Type::Default
            );
            if number && self.implicit(from, to) {
                self.out.converted.insert(expr.id, to);
                return to;
            }
        }
        let (shown, other) = (self.show(x), self.show(y));
        self.report(
            Diagnostic::error(
                code::TYPE,
                whole,
                format!("`{shown}` and `{other}` cannot be two sides of a `? :`"),
            )
            .label(then.span, format!("this is `{shown}`"))
            .label(otherwise.span, format!("this is `{other}`")),
        );
        TypeId::ERROR
    }

    fn cast(&mut self, whole: Span, ty: &'a ast::Type, operand: &'a Expr) -> TypeId {
        let to = self.type_as(ty, super::resolve::Use::Value);
        if to == TypeId::ERROR {
            self.expr(operand);
            return TypeId::ERROR;
        }
        let literal = matches!(
            operand.kind,
            ExprKind::List { .. } | ExprKind::Struct { .. } | ExprKind::Invalid | ExprKind::Default
        );
        if literal {
            self.expect(operand, to);
            return to;
        }
        let from = self.expr(operand);
        if self.out.types.has_error(from) {
            return to;
        }
        if self.can_cast(from, to, Some(operand)) {
            if self.resolve(from) == TypeId::INT {
                self.warn_overflow(operand, to);
            }
            return to;
        }
        let (shown, wanted) = (self.show(from), self.show(to));
        let number = matches!(self.kind(from), Type::Int | Type::Bit(_) | Type::Signed(_));
        let (stage, kind) = if to == TypeId::BOOL && number && self.is_early(operand) {
            (Stage::Names, code::INVALID)
        } else {
            (Stage::Types, code::TYPE)
        };
        let mut problem = Diagnostic::error(kind, whole, format!("`{shown}` cannot be cast to `{wanted}`"))
            .label(operand.span, format!("this is `{shown}`"));
        match (self.kind(from).clone(), self.kind(to).clone()) {
            (Type::Bit(_), Type::Signed(w)) => {
                problem = problem.help(format!("change the width first: `(int<{w}>)(bit<{w}>) …`"));
            }
            (Type::Signed(_), Type::Bit(w)) => {
                problem = problem.help(format!("change the width first: `(bit<{w}>)(int<{w}>) …`"));
            }
            (_, Type::Bool) => problem = problem.help("compare it with something, such as `!= 0`"),
            _ => {}
        }
        self.report_at(stage, problem);
        TypeId::ERROR
    }

    /// Can this be written to? If not, why (section 6.7).
    pub(super) fn lvalue(&mut self, expr: &'a Expr) -> Result<(), Diagnostic> {
        let no = |span: Span, text: String| Err(Diagnostic::error(code::TYPE, span, text));
        match &expr.kind {
            ExprKind::Path { .. } | ExprKind::Type(_) => {
                let Some(symbol) = self.out.refers_to(expr.id) else { return Ok(()) };
                let (name, span) = (symbol.name.clone(), symbol.span);
                let what = match symbol.kind {
                    SymbolKind::LoopVariable => {
                        self.out.written.extend(self.out.refers.get(&expr.id).copied());
                        return Ok(());
                    }
                    SymbolKind::Variable => return Ok(()),
                    SymbolKind::Param(Direction::Out | Direction::InOut) => return Ok(()),
                    SymbolKind::Param(Direction::In) => "is an `in` parameter",
                    SymbolKind::Param(Direction::None) => "is a parameter without direction",
                    SymbolKind::Const => "is a constant",
                    SymbolKind::ConstructorParam => "is a parameter of the constructor",
                    _ => "is no variable",
                };
                let mut problem = Diagnostic::error(
                    code::TYPE,
                    expr.span,
                    format!("`{name}` {what} and cannot be written to"),
                )
                .label(span, "declared here");
                if what.ends_with("`in` parameter") {
                    problem = problem.help("an `inout` parameter can be written to");
                }
                Err(problem)
            }
            ExprKind::Member(base, name) => match self.out.members.get(&expr.id) {
                Some(super::MemberRef::Field(_) | super::MemberRef::Next | super::MemberRef::Last) => {
                    self.lvalue(base)
                }
                Some(_) => no(expr.span, format!("`{name}` cannot be written to")),
                None => Ok(()),
            },
            ExprKind::Index(base, _) | ExprKind::Slice { base, .. } | ExprKind::PlusSlice { base, .. } => {
                self.lvalue(base)
            }
            ExprKind::Error => Ok(()),
            _ => {
                if self.out.ty(expr.id) == Some(TypeId::ERROR) {
                    return Ok(());
                }
                no(expr.span, "this cannot be written to".to_owned())
            }
        }
    }

    /// Reports what cannot be written to.
    pub(super) fn require_lvalue(&mut self, expr: &'a Expr) -> bool {
        match self.lvalue(expr) {
            Ok(()) => true,
            Err(problem) => {
                self.report(problem);
                false
            }
        }
    }
}
