//! Operators (specification, sections 8.1 to 8.10).

use num_traits::{Signed as _, Zero as _};

use super::ty::{Type, TypeId};
use super::value::{MAX_WIDTH, Value};
use super::{Checker, Stage, code, warn};
use crate::ast::{BinaryOp, Expr, UnaryOp};
use crate::diag::Diagnostic;
use crate::source::Span;

impl<'a> Checker<'a> {
    pub(super) fn unary(&mut self, op: UnaryOp, whole: Span, operand: &'a Expr) -> TypeId {
        let ty = self.expr(operand);
        let ty = self.resolve(ty);
        let good = match (op, self.out.types.get(ty)) {
            (_, Type::Error) => return TypeId::ERROR,
            (UnaryOp::Not, Type::Bool) => true,
            (UnaryOp::Minus | UnaryOp::Plus, Type::Int | Type::Bit(_) | Type::Signed(_)) => true,
            (UnaryOp::Complement, Type::Bit(_) | Type::Signed(_)) => true,
            (UnaryOp::Minus | UnaryOp::Plus | UnaryOp::Complement, Type::Enum(id)) => {
                if let Some(repr) = self.out.enums[id.index()].repr {
                    self.out.converted.insert(operand.id, repr);
                    return repr;
                }
                false
            }
            _ => false,
        };
        if good {
            return ty;
        }
        let shown = self.show(ty);
        let early = self.is_early(operand);
        let width = op == UnaryOp::Complement && ty == TypeId::INT;
        let (stage, kind) = match (early, width) {
            (true, true) => (Stage::Names, code::INVALID),
            (true, false) => (Stage::Names, code::EXPECTED),
            (false, _) => (Stage::Types, code::TYPE),
        };
        let mut problem =
            Diagnostic::error(kind, whole, format!("`{}` cannot be applied to `{shown}`", op.text()))
                .label(operand.span, format!("this is `{shown}`"));
        if width {
            problem = problem.help("give the number a width, such as `8w5`");
        }
        self.report_at(stage, problem);
        TypeId::ERROR
    }

    /// Says what is wrong with a constant. Of one that is `early` it is said as such, before types are looked at.
    pub(super) fn constant_error(
        &mut self,
        early: bool,
        kind: &'static str,
        span: Span,
        text: impl Into<String>,
    ) -> TypeId {
        let (stage, kind) = if early { (Stage::Names, kind) } else { (Stage::Types, code::TYPE) };
        self.report_at(stage, Diagnostic::error(kind, span, text));
        TypeId::ERROR
    }

    /// The numbers behind enumerations with representation.
    fn number(&mut self, expr: &'a Expr, ty: TypeId) -> TypeId {
        let ty = self.resolve(ty);
        if let Type::Enum(id) = self.out.types.get(ty)
            && let Some(repr) = self.out.enums[id.index()].repr
        {
            self.out.converted.insert(expr.id, repr);
            return self.resolve(repr);
        }
        ty
    }

    fn cannot(
        &mut self,
        op: BinaryOp,
        whole: Span,
        left: (&'a Expr, TypeId),
        right: (&'a Expr, TypeId),
    ) -> TypeId {
        if self.out.types.has_error(left.1) || self.out.types.has_error(right.1) {
            return TypeId::ERROR;
        }
        let (x, y) = (self.show(left.1), self.show(right.1));
        let mut problem = Diagnostic::error(
            code::TYPE,
            whole,
            format!("`{}` cannot be applied to `{x}` and `{y}`", op.text()),
        )
        .label(left.0.span, format!("this is `{x}`"))
        .label(right.0.span, format!("this is `{y}`"));
        let widths = (self.kind(left.1).clone(), self.kind(right.1).clone());
        if let (Type::Bit(_) | Type::Signed(_), Type::Bit(_) | Type::Signed(_)) = widths {
            problem = problem.help(format!("cast one of them, such as `({x}) …`"));
        } else if op == BinaryOp::Add && left.1 == TypeId::STRING {
            problem = problem.help("`++` puts strings together");
        }
        self.report(problem);
        TypeId::ERROR
    }

    pub(super) fn binary(&mut self, op: BinaryOp, whole: Span, left: &'a Expr, right: &'a Expr) -> TypeId {
        let x = self.expr(left);
        let y = self.expr(right);
        let (x, y) = (self.resolve(x), self.resolve(y));
        self.binary_of(op, whole, (left, x), (right, y))
    }

    /// The type of `left op right`; also of `left op= right`.
    pub(super) fn binary_of(
        &mut self,
        op: BinaryOp,
        whole: Span,
        (left, x): (&'a Expr, TypeId),
        (right, y): (&'a Expr, TypeId),
    ) -> TypeId {
        if x == TypeId::ERROR || y == TypeId::ERROR {
            return match op {
                BinaryOp::Eq
                | BinaryOp::Ne
                | BinaryOp::Lt
                | BinaryOp::Gt
                | BinaryOp::Le
                | BinaryOp::Ge
                | BinaryOp::And
                | BinaryOp::Or => TypeId::BOOL,
                _ => TypeId::ERROR,
            };
        }
        match op {
            BinaryOp::And | BinaryOp::Or => {
                if x == TypeId::BOOL && y == TypeId::BOOL {
                    return TypeId::BOOL;
                }
                self.cannot(op, whole, (left, x), (right, y))
            }
            BinaryOp::Eq | BinaryOp::Ne => self.equality(op, whole, (left, x), (right, y)),
            BinaryOp::Shl | BinaryOp::Shr => self.shift(op, whole, (left, x), (right, y)),
            BinaryOp::Concat => self.concat(op, whole, (left, x), (right, y)),
            _ => self.arithmetic(op, whole, (left, x), (right, y)),
        }
    }

    fn arithmetic(
        &mut self,
        op: BinaryOp,
        whole: Span,
        (left, x0): (&'a Expr, TypeId),
        (right, y0): (&'a Expr, TypeId),
    ) -> TypeId {
        let (x, y) = (self.number(left, x0), self.number(right, y0));
        let kinds = (self.out.types.get(x).clone(), self.out.types.get(y).clone());
        let compares = matches!(op, BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge);
        let ty = match kinds {
            (Type::Int, Type::Int) => TypeId::INT,
            (Type::Int, Type::Bit(_) | Type::Signed(_)) => {
                self.out.converted.insert(left.id, y);
                self.warn_overflow(left, y);
                y
            }
            (Type::Bit(_) | Type::Signed(_), Type::Int) => {
                self.out.converted.insert(right.id, x);
                self.warn_overflow(right, x);
                x
            }
            (Type::Bit(_), Type::Bit(_)) | (Type::Signed(_), Type::Signed(_)) if x == y => x,
            _ => return self.cannot(op, whole, (left, x0), (right, y0)),
        };
        if matches!(op, BinaryOp::AddSat | BinaryOp::SubSat) && ty == TypeId::INT {
            self.report(
                Diagnostic::error(code::TYPE, whole, format!("`{}` needs numbers with a width", op.text()))
                    .help("give one of them a width, such as `8w5`"),
            );
            return TypeId::ERROR;
        }
        if matches!(op, BinaryOp::Div | BinaryOp::Mod) {
            if matches!(self.kind(ty), Type::Signed(_)) {
                return self.type_error(whole, format!("`{}` has no signed operands", op.text()));
            }
            let early = self.is_early(left) && self.is_early(right);
            for (operand, is_divisor) in [(left, false), (right, true)] {
                if let Some(value) = self.fold_as(operand) {
                    let wrong = if is_divisor && value.is_zero() {
                        "division by zero".to_owned()
                    } else if value.is_negative() {
                        format!("`{}` has no negative operands", op.text())
                    } else {
                        continue;
                    };
                    return self.constant_error(early, code::INVALID, operand.span, wrong);
                }
            }
            // Only numbers known beforehand are divided (section 8.8); a power of two says a shift or a mask.
            let shifts = self.fold_as(right).is_some_and(|by| by.magnitude().count_ones() == 1)
                || self.fold_as(left).is_some_and(|of| of.is_zero());
            let unknown = [left, right].into_iter().find(|operand| !self.is_known(operand));
            if let Some(unknown) = unknown.filter(|_| !shifts) {
                self.report_at(
                    Stage::Flow,
                    Diagnostic::error(
                        code::INVALID,
                        whole,
                        format!("`{}` is computed when the program is compiled only", op.text()),
                    )
                    .label(unknown.span, "not known then")
                    .help("divide by a power of two, or let a table say the result"),
                );
            }
        }
        if compares { TypeId::BOOL } else { ty }
    }

    /// The number of a constant, before any conversion.
    fn fold_as(&mut self, expr: &'a Expr) -> Option<num_bigint::BigInt> {
        self.fold_plain(expr).as_ref().and_then(Value::as_int).cloned()
    }

    fn shift(
        &mut self,
        op: BinaryOp,
        whole: Span,
        (left, x): (&'a Expr, TypeId),
        (right, y): (&'a Expr, TypeId),
    ) -> TypeId {
        let x = self.number(left, x);
        if !matches!(self.out.types.get(x), Type::Int | Type::Bit(_) | Type::Signed(_)) {
            let shown = self.show(x);
            return self.type_error(left.span, format!("`{}` shifts numbers, not `{shown}`", op.text()));
        }
        let amount = self.fold_as(right);
        let right_ok = match self.out.types.get(y).clone() {
            Type::Bit(_) | Type::Int => true,
            // What is not known might be negative.
            Type::Signed(_) => self.is_known(right),
            Type::Enum(id) => {
                let repr = self.out.enums[id.index()].repr;
                let signed = repr.is_some_and(|repr| matches!(self.kind(repr), Type::Signed(_)));
                match repr {
                    Some(repr) if !signed || self.is_known(right) => {
                        self.out.converted.insert(right.id, repr);
                        true
                    }
                    _ => false,
                }
            }
            _ => false,
        };
        if !right_ok {
            let shown = self.show(y);
            self.report(
                Diagnostic::error(
                    code::TYPE,
                    right.span,
                    format!("`{}` shifts by a `bit<W>` or by a constant, not by `{shown}`", op.text()),
                )
                .here(format!("this is `{shown}`")),
            );
            return TypeId::ERROR;
        }
        match &amount {
            Some(by) if by.is_negative() => {
                let early = self.is_early(right);
                let text = format!("cannot shift by {by}");
                return self.constant_error(early, code::INVALID, right.span, text);
            }
            Some(by) if x == TypeId::INT && by.bits() > 11 && *by > MAX_WIDTH.into() => {
                self.report(
                    Diagnostic::error(
                        code::UNSUPPORTED,
                        whole,
                        format!("a shift by {by} makes a number that is too wide"),
                    )
                    .note(format!("{MAX_WIDTH} bits are the limit")),
                );
                return TypeId::ERROR;
            }
            Some(by) => {
                if let Type::Bit(width) | Type::Signed(width) = self.out.types.get(x)
                    && *by >= (*width).into()
                    && *width > 0
                {
                    let width = *width;
                    self.warn(Diagnostic::warning(
                        warn::OVERFLOW,
                        whole,
                        format!("a shift of {width} bits by {by} leaves none"),
                    ));
                }
            }
            None if x == TypeId::INT && !self.is_known(right) => {
                self.report(
                    Diagnostic::error(
                        code::TYPE,
                        whole,
                        format!("`{}` of a number without a width needs a constant on its right", op.text()),
                    )
                    .label(left.span, "a number without a width")
                    .help("give it one, such as `8w5`"),
                );
                return TypeId::ERROR;
            }
            None => {
                if y == TypeId::INT && !self.is_known(right) {
                    return self.type_error(right.span, "this is not a constant");
                }
            }
        }
        x
    }

    fn concat(
        &mut self,
        op: BinaryOp,
        whole: Span,
        (left, x0): (&'a Expr, TypeId),
        (right, y0): (&'a Expr, TypeId),
    ) -> TypeId {
        if x0 == TypeId::STRING && y0 == TypeId::STRING {
            if !self.is_known(left) || !self.is_known(right) {
                return self.type_error(whole, "only constant strings can be put together");
            }
            return TypeId::STRING;
        }
        let (x, y) = (self.number(left, x0), self.number(right, y0));
        let (m, n, signed) = match (self.out.types.get(x), self.out.types.get(y)) {
            (Type::Bit(m), Type::Bit(n) | Type::Signed(n)) => (*m, *n, false),
            (Type::Signed(m), Type::Bit(n) | Type::Signed(n)) => (*m, *n, true),
            (Type::Int, Type::Bit(_) | Type::Signed(_) | Type::Int)
            | (Type::Bit(_) | Type::Signed(_), Type::Int) => {
                let at = if x == TypeId::INT { left.span } else { right.span };
                self.report(
                    Diagnostic::error(code::TYPE, at, "`++` needs numbers with a width")
                        .help("write the width, such as `8w5`"),
                );
                return TypeId::ERROR;
            }
            _ => return self.cannot(op, whole, (left, x0), (right, y0)),
        };
        let width = m.saturating_add(n);
        if width > MAX_WIDTH {
            self.report(
                Diagnostic::error(code::UNSUPPORTED, whole, format!("a number of {width} bits is too wide"))
                    .note(format!("{MAX_WIDTH} bits are the limit")),
            );
            return TypeId::ERROR;
        }
        if signed { self.out.types.signed(width) } else { self.out.types.bit(width) }
    }

    fn equality(
        &mut self,
        op: BinaryOp,
        whole: Span,
        (left, x): (&'a Expr, TypeId),
        (right, y): (&'a Expr, TypeId),
    ) -> TypeId {
        let kinds = (self.out.types.get(x).clone(), self.out.types.get(y).clone());
        match kinds {
            (Type::Int, Type::Bit(_) | Type::Signed(_)) => {
                self.out.converted.insert(left.id, y);
                self.warn_overflow(left, y);
                return TypeId::BOOL;
            }
            (Type::Bit(_) | Type::Signed(_), Type::Int) => {
                self.out.converted.insert(right.id, x);
                self.warn_overflow(right, x);
                return TypeId::BOOL;
            }
            (Type::Enum(_), Type::Enum(_)) if x != y => {
                let (p, q) = (self.number(left, x), self.number(right, y));
                if p == q && matches!(self.kind(p), Type::Bit(_) | Type::Signed(_)) {
                    return TypeId::BOOL;
                }
            }
            (Type::Enum(_), Type::Bit(_) | Type::Signed(_) | Type::Int) => {
                let x = self.number(left, x);
                if self.implicit(y, x) {
                    if x != y {
                        self.out.converted.insert(right.id, x);
                    }
                    return TypeId::BOOL;
                }
            }
            (Type::Bit(_) | Type::Signed(_) | Type::Int, Type::Enum(_)) => {
                let y = self.number(right, y);
                if self.implicit(x, y) {
                    if x != y {
                        self.out.converted.insert(left.id, y);
                    }
                    return TypeId::BOOL;
                }
            }
            (a, b) if is_untyped(&a) && !is_untyped(&b) => {
                if self.comparable(y) && self.expect(left, y) {
                    return TypeId::BOOL;
                }
                return TypeId::ERROR;
            }
            (a, b) if is_untyped(&b) && !is_untyped(&a) => {
                if self.comparable(x) && self.expect(right, x) {
                    return TypeId::BOOL;
                }
                return TypeId::ERROR;
            }
            // Neither side says what the other is.
            (Type::Sequence(..) | Type::Record(..), Type::Sequence(..) | Type::Record(..)) => {}
            _ => {
                if self.comparable(x) && self.comparable(y) && self.unify(x, y) {
                    return TypeId::BOOL;
                }
            }
        }
        if self.out.types.has_error(x) || self.out.types.has_error(y) {
            return TypeId::ERROR;
        }
        let (shown, other) = (self.show(x), self.show(y));
        let mut problem = Diagnostic::error(
            code::TYPE,
            whole,
            format!("`{shown}` and `{other}` cannot be compared with `{}`", op.text()),
        )
        .label(left.span, format!("this is `{shown}`"))
        .label(right.span, format!("this is `{other}`"));
        if matches!(self.kind(x), Type::Var(_)) {
            problem = problem.note("nothing is known of the values of a type parameter");
        }
        self.report(problem);
        TypeId::ERROR
    }

    /// Do values of this type have an equality?
    pub(super) fn comparable(&mut self, ty: TypeId) -> bool {
        match self.kind(ty).clone() {
            Type::Error
            | Type::Bool
            | Type::ErrorCode
            | Type::Int
            | Type::Bit(_)
            | Type::Signed(_)
            | Type::Varbit(_)
            | Type::Str
            | Type::MatchKind
            | Type::Enum(_)
            | Type::Infer(_) => true,
            Type::Newtype(id) => {
                let of = self.out.newtypes[id.index()].of;
                self.comparable(of)
            }
            Type::Struct(id, args) => {
                self.fields_of(id, &args).into_iter().all(|(_, ty)| self.comparable(ty))
            }
            Type::Tuple(parts) | Type::Sequence(parts, _) => parts.iter().all(|&part| self.comparable(part)),
            Type::Record(fields, _) => fields.iter().all(|(_, ty)| self.comparable(*ty)),
            Type::Stack(of, _) => self.comparable(of),
            _ => false,
        }
    }
}

/// A list, record, `{#}` or `...`: what it is, the other side of a comparison says.
fn is_untyped(ty: &Type) -> bool {
    matches!(ty, Type::Sequence(..) | Type::Record(..) | Type::Invalid | Type::Default)
}
