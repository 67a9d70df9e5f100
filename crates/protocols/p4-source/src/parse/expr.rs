//! Expressions (section 8), by precedence.
use num_bigint::BigInt;
use num_traits::Num;

use super::{Parsed, Parser};
use crate::ast::{
    Arg, BinaryOp, Call, Expr, ExprKind, IntLiteral, KeyValue, Keyset, KeysetKind, LiteralWidth, MAX_DEPTH,
    Type, TypeKind, UnaryOp,
};
use crate::diag::Diagnostic;
use crate::lex::{self, LINE, SPACE, Token, TokenKind};
use crate::source::Span;

/// How many characters an integer can have: turning more into a number takes time that grows with their square.
const DIGITS_MAX: usize = 10_000;

/// The operator and how tightly it binds; all are left-associative.
fn binary(kind: TokenKind) -> Option<(BinaryOp, u8)> {
    Some(match kind {
        TokenKind::OrOr => (BinaryOp::Or, 1),
        TokenKind::AndAnd => (BinaryOp::And, 2),
        TokenKind::EqEq => (BinaryOp::Eq, 3),
        TokenKind::Ne => (BinaryOp::Ne, 3),
        TokenKind::LAngle => (BinaryOp::Lt, 4),
        TokenKind::RAngle => (BinaryOp::Gt, 4),
        TokenKind::Le => (BinaryOp::Le, 4),
        TokenKind::Ge => (BinaryOp::Ge, 4),
        TokenKind::Pipe => (BinaryOp::BitOr, 5),
        TokenKind::Caret => (BinaryOp::BitXor, 6),
        TokenKind::Amp => (BinaryOp::BitAnd, 7),
        TokenKind::Shl => (BinaryOp::Shl, SHIFT),
        TokenKind::PlusPlus => (BinaryOp::Concat, 9),
        TokenKind::Plus => (BinaryOp::Add, 9),
        TokenKind::Minus => (BinaryOp::Sub, 9),
        TokenKind::PlusSat => (BinaryOp::AddSat, 9),
        TokenKind::MinusSat => (BinaryOp::SubSat, 9),
        TokenKind::Star => (BinaryOp::Mul, 10),
        TokenKind::Slash => (BinaryOp::Div, 10),
        TokenKind::Percent => (BinaryOp::Mod, 10),
        _ => return None,
    })
}

const SHIFT: u8 = 8;

impl Parser<'_> {
    /// `expression`
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.deeper(|p| {
            let first = p.unary()?;
            p.continue_expr(first)
        })
    }

    /// All that can follow the first operand of an expression.
    fn continue_expr(&mut self, first: Expr) -> Parsed<Expr> {
        let condition = self.binary_from(first, 1)?;
        self.conditional(condition)
    }

    /// `? b : c` behind a condition, or nothing.
    fn conditional(&mut self, condition: Expr) -> Parsed<Expr> {
        if self.kind() != TokenKind::Question {
            return Ok(condition);
        }
        self.advance();
        let then = self.expr()?;
        self.expect(TokenKind::Colon)?;
        let otherwise = self.expr()?;
        let span = condition.span.to(otherwise.span);
        let kind = ExprKind::Conditional(Box::new(condition), Box::new(then), Box::new(otherwise));
        Ok(self.make(span, kind))
    }

    fn make(&mut self, span: Span, kind: ExprKind) -> Expr {
        Expr { id: self.id(), span, kind }
    }

    /// The operator here, how tightly it binds, how many tokens it has: `>>` is two, as it may close two lists of types.
    fn operator(&self) -> Option<(BinaryOp, u8, usize)> {
        let token = self.token();
        if token.kind == TokenKind::RAngle {
            if self.in_angles {
                return None;
            }
            let next = self.peek(1);
            let joined = !next.has(SPACE) && !next.has(LINE);
            match next.kind {
                TokenKind::RAngle if joined => return Some((BinaryOp::Shr, SHIFT, 2)),
                // `>>=`
                TokenKind::Ge if joined => return None,
                _ => {}
            }
        }
        let (op, level) = binary(token.kind)?;
        // `+:` of a slice.
        let ends = op == BinaryOp::Add && self.peek(1).kind == TokenKind::Colon;
        (!ends).then_some((op, level, 1))
    }

    /// `left op … op …` with operators that bind at least as tightly as `lowest`.
    fn binary_from(&mut self, left: Expr, lowest: u8) -> Parsed<Expr> {
        let mut left = left;
        let mut height = 0;
        while let Some((op, level, length)) = self.operator()
            && level >= lowest
        {
            height += 1;
            if self.depth + height > MAX_DEPTH {
                return Err(self.too_deep());
            }
            for _ in 0..length {
                self.advance();
            }
            let right = self.deeper(|p| {
                let first = p.unary()?;
                p.binary_from(first, level + 1)
            })?;
            let span = left.span.to(right.span);
            left = self.make(span, ExprKind::Binary(op, Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let start = self.span();
        let op = match self.kind() {
            TokenKind::Not => UnaryOp::Not,
            TokenKind::Tilde => UnaryOp::Complement,
            TokenKind::Minus => UnaryOp::Minus,
            TokenKind::Plus => UnaryOp::Plus,
            TokenKind::LParen => {
                if let Some(ty) = self.cast() {
                    let operand = self.deeper(Self::unary)?;
                    let span = start.to(operand.span);
                    return Ok(self.make(span, ExprKind::Cast(Box::new(ty), Box::new(operand))));
                }
                let first = self.primary()?;
                return self.postfix(first);
            }
            _ => {
                let first = self.primary()?;
                return self.postfix(first);
            }
        };
        self.advance();
        let operand = self.deeper(Self::unary)?;
        let span = start.to(operand.span);
        Ok(self.make(span, ExprKind::Unary(op, Box::new(operand))))
    }

    /// `(T)` of a cast, if it is one. `(T.a)` and `(T(x))` are expressions in parentheses.
    fn cast(&mut self) -> Option<Type> {
        if !self.starts_type(1) || self.no_type_args.contains(&self.at) {
            return None;
        }
        let at = self.at;
        let ty = self.attempt(|p| {
            p.advance();
            let ty = p.type_ref()?;
            p.expect(TokenKind::RParen)?;
            Ok(ty)
        });
        if ty.is_none() {
            self.no_type_args.insert(at);
        }
        ty
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token();
        let kind = match token.kind {
            TokenKind::Int => {
                self.advance();
                return Ok(self.int(token));
            }
            TokenKind::Str => ExprKind::String(lex::string_value(self.text(token)).into()),
            TokenKind::True => ExprKind::Bool(true),
            TokenKind::False => ExprKind::Bool(false),
            TokenKind::This => ExprKind::This,
            TokenKind::Dots => ExprKind::Default,
            TokenKind::Invalid => ExprKind::Invalid,
            TokenKind::LBrace => return self.with_angles(false, Self::braces),
            TokenKind::LParen => {
                self.advance();
                let mut inner = self.with_angles(false, Self::expr)?;
                let end = self.expect(TokenKind::RParen)?;
                inner.span = token.span.to(end);
                return Ok(inner);
            }
            TokenKind::Error => {
                let ty = self.type_ref()?;
                if self.kind() != TokenKind::Dot {
                    return Err(self.unexpected(Some("`.` and the name of an error")));
                }
                return Ok(self.make(ty.span, ExprKind::Type(Box::new(ty))));
            }
            TokenKind::Dot if self.is_global_type_name(self.peek(1)) => return self.type_in_expr(),
            TokenKind::Dot => {
                self.advance();
                let name = self.global_name()?;
                let span = token.span.to(name.span);
                return Ok(self.make(span, ExprKind::Path { absolute: true, name }));
            }
            _ if self.is_type_name(token) => return self.type_in_expr(),
            _ if self.is_non_type_name(token) => ExprKind::Path { absolute: false, name: self.ident(token) },
            _ => return Err(self.no_expression()),
        };
        self.advance();
        Ok(self.make(token.span, kind))
    }

    fn no_expression(&mut self) -> super::Failed {
        let call_of_type = self.starts_type(0);
        if call_of_type && !self.quiet {
            let found = self.describe(self.token());
            let text = self.text(self.token());
            let error =
                Diagnostic::error("syntax", self.span(), format!("expected an expression, found {found}"));
            return self.report(error.help(format!("a cast has the type in parentheses: `({text}…) value`")));
        }
        self.unexpected(Some("an expression"))
    }

    /// A type where an expression begins: `T.member` or `T<A>(…)`.
    fn type_in_expr(&mut self) -> Parsed<Expr> {
        let ty = self.named_type()?;
        // Ask for both, so that the message names them.
        if !self.is(TokenKind::Dot) && !self.is(TokenKind::LParen) {
            return Err(self.unexpected(None));
        }
        if matches!(ty.kind, TypeKind::Specialized(..)) && self.kind() != TokenKind::LParen {
            return Err(self.unexpected(Some("`(`")));
        }
        Ok(self.make(ty.span, ExprKind::Type(Box::new(ty))))
    }

    /// Members, indices, slices and calls behind an operand.
    fn postfix(&mut self, first: Expr) -> Parsed<Expr> {
        let mut base = first;
        let mut height = 0;
        loop {
            if !matches!(
                self.kind(),
                TokenKind::Dot | TokenKind::LBracket | TokenKind::LParen | TokenKind::LAngle
            ) {
                return Ok(base);
            }
            height += 1;
            if self.depth + height > MAX_DEPTH {
                return Err(self.too_deep());
            }
            base = match self.kind() {
                TokenKind::Dot => self.member(base)?,
                TokenKind::LBracket => self.with_angles(false, |p| p.index(base))?,
                TokenKind::LParen => self.call(base, Vec::new())?,
                _ => match self.call_type_args() {
                    Some(type_args) => self.call(base, type_args)?,
                    None => return Ok(base),
                },
            };
        }
    }

    /// `.name`
    pub(super) fn member(&mut self, base: Expr) -> Parsed<Expr> {
        self.expect(TokenKind::Dot)?;
        let name = self.name()?;
        let span = base.span.to(name.span);
        Ok(self.make(span, ExprKind::Member(Box::new(base), name)))
    }

    /// `[i]`, `[high:low]`, `[low+:width]`
    pub(super) fn index(&mut self, base: Expr) -> Parsed<Expr> {
        self.expect(TokenKind::LBracket)?;
        let (first, plus) = self.index_expr()?;
        let base = Box::new(base);
        let first = Box::new(first);
        let start = base.span;
        let kind = if plus {
            self.expect(TokenKind::Colon)?;
            ExprKind::PlusSlice { base, low: first, width: Box::new(self.expr()?) }
        } else if self.accept(TokenKind::Colon) {
            ExprKind::Slice { base, high: first, low: Box::new(self.expr()?) }
        } else {
            ExprKind::Index(base, first)
        };
        let end = self.expect(TokenKind::RBracket)?;
        Ok(self.make(start.to(end), kind))
    }

    /// An expression, and whether the `+` of `+:` follows, which is taken.
    fn index_expr(&mut self) -> Parsed<(Expr, bool)> {
        self.deeper(|p| {
            let first = p.unary()?;
            // `a + : b` can only be a slice, so the `+` that a `:` follows ends the expression.
            let left = p.binary_from(first, 1)?;
            if p.kind() == TokenKind::Plus && p.peek(1).kind == TokenKind::Colon {
                p.advance();
                return Ok((left, true));
            }
            Ok((p.conditional(left)?, false))
        })
    }

    /// `<A, B>` of a call, if it is one: otherwise `<` is "less than".
    fn call_type_args(&mut self) -> Option<Vec<Type>> {
        let at = self.at;
        if self.no_type_args.contains(&at) {
            return None;
        }
        let args = self.attempt(|p| {
            p.advance();
            let args = p.real_type_args()?;
            if !p.is(TokenKind::LParen) {
                return Err(super::Failed);
            }
            Ok(args)
        });
        if args.is_none() {
            self.no_type_args.insert(at);
        }
        args
    }

    /// `(…)`
    pub(super) fn call(&mut self, callee: Expr, type_args: Vec<Type>) -> Parsed<Expr> {
        let args = self.args()?;
        let span = callee.span.to(self.previous());
        Ok(self.make(span, ExprKind::Call(Box::new(Call { callee, type_args, args }))))
    }

    /// `(a, x = b, _)`
    pub(super) fn args(&mut self) -> Parsed<Vec<Arg>> {
        self.expect(TokenKind::LParen)?;
        let args = self.with_angles(false, |p| p.comma_list(TokenKind::RParen, false, Self::arg))?;
        self.expect(TokenKind::RParen)?;
        Ok(args)
    }

    fn arg(&mut self) -> Parsed<Arg> {
        let start = self.span();
        let named = Self::is_name(self.token()) && self.peek(1).kind == TokenKind::Assign;
        let name = if named {
            let name = self.name()?;
            self.advance();
            Some(name)
        } else {
            None
        };
        let value = if self.kind() == TokenKind::DontCare {
            let span = self.advance().span;
            self.make(span, ExprKind::DontCare)
        } else {
            self.expr()?
        };
        Ok(Arg { id: self.id(), span: start.to(value.span), name, value })
    }

    /// `name = e`
    pub(super) fn key_value(&mut self) -> Parsed<KeyValue> {
        let key = self.name()?;
        self.expect(TokenKind::Assign)?;
        let value = self.expr()?;
        Ok(KeyValue { id: self.id(), span: key.span.to(value.span), key, value })
    }

    /// Whether `name =` begins here.
    pub(super) fn at_key_value(&self) -> bool {
        Self::is_name(self.token()) && self.peek(1).kind == TokenKind::Assign
    }

    /// `{a, b}`, `{a = 1, b = 2}`, each with `...` at its end or not.
    fn braces(&mut self) -> Parsed<Expr> {
        let start = self.expect(TokenKind::LBrace)?;
        if self.at_key_value() {
            let (mut fields, mut rest) = (Vec::new(), None);
            loop {
                if self.is(TokenKind::Dots) {
                    rest = Some(self.advance().span);
                    self.accept(TokenKind::Comma);
                    break;
                }
                fields.push(self.key_value()?);
                if !self.accept(TokenKind::Comma) || self.is(TokenKind::RBrace) {
                    break;
                }
            }
            let end = self.expect(TokenKind::RBrace)?;
            return Ok(self.make(start.to(end), ExprKind::Struct { fields, rest }));
        }
        let mut items = self.comma_list(TokenKind::RBrace, true, Self::expr)?;
        let end = self.expect(TokenKind::RBrace)?;
        let rest = items.pop_if(|last| matches!(last.kind, ExprKind::Default)).map(|last| last.span);
        Ok(self.make(start.to(end), ExprKind::List { items, rest }))
    }

    /// The value of an integer token. None: it was reported.
    pub(super) fn int_literal(&mut self, token: Token) -> Option<IntLiteral> {
        let text = self.text(token);
        let Some(lex::IntegerParts { width, signed, base, digits }) = lex::split_integer(text) else {
            self.report(Diagnostic::error("syntax", token.span, format!("`{text}` is no integer")));
            return None;
        };
        if text.len() > DIGITS_MAX {
            let message = format!("this integer has more than {DIGITS_MAX} characters");
            self.report(Diagnostic::error("overlimit", token.span, message));
            return None;
        }
        let value = BigInt::from_str_radix(&digits.replace('_', ""), u32::from(base)).ok()?;
        let width = match width {
            Some(bits) => match bits.parse::<u32>() {
                Ok(bits) => Some(LiteralWidth { bits, signed }),
                Err(_) => {
                    let message = format!("a width of {bits} bits is too large");
                    self.report(Diagnostic::error("overlimit", token.span, message));
                    return None;
                }
            },
            None => None,
        };
        Some(IntLiteral { value, width, base })
    }

    /// `keysetExpression` (section 8.13).
    pub(super) fn keyset(&mut self) -> Parsed<Keyset> {
        let start = self.span();
        if self.kind() != TokenKind::LParen || (self.starts_type(1) && self.is_cast()) {
            return self.simple_keyset();
        }
        self.advance();
        let first = self.simple_keyset()?;
        if !self.is(TokenKind::Comma) {
            let end = self.expect(TokenKind::RParen)?;
            return match first.kind {
                // An expression in parentheses, which may go on.
                KeysetKind::Value(mut value) => {
                    value.span = start.to(end);
                    let operand = self.postfix(value)?;
                    let value = self.continue_expr(operand)?;
                    self.keyset_from(start, value)
                }
                _ => Ok(self.tuple(start, vec![first])),
            };
        }
        let mut list = vec![first];
        while self.accept(TokenKind::Comma) {
            list.push(self.simple_keyset()?);
        }
        self.expect(TokenKind::RParen)?;
        Ok(self.tuple(start, list))
    }

    fn is_cast(&mut self) -> bool {
        let (at, ids) = (self.at, self.ids);
        let is_cast = self.cast().is_some();
        (self.at, self.ids) = (at, ids);
        is_cast
    }

    fn tuple(&mut self, start: Span, list: Vec<Keyset>) -> Keyset {
        Keyset { id: self.id(), span: start.to(self.previous()), kind: KeysetKind::Tuple(list) }
    }

    fn simple_keyset(&mut self) -> Parsed<Keyset> {
        let start = self.span();
        let kind = match self.kind() {
            TokenKind::Default => KeysetKind::Default,
            TokenKind::DontCare => KeysetKind::DontCare,
            _ => {
                let value = self.expr()?;
                return self.keyset_from(start, value);
            }
        };
        self.advance();
        Ok(Keyset { id: self.id(), span: start, kind })
    }

    /// A value, or the first part of a mask or a range.
    fn keyset_from(&mut self, start: Span, value: Expr) -> Parsed<Keyset> {
        let kind = if self.accept(TokenKind::Mask) {
            KeysetKind::Mask(value, self.expr()?)
        } else if self.accept(TokenKind::Range) {
            KeysetKind::Range(value, self.expr()?)
        } else {
            KeysetKind::Value(value)
        };
        Ok(Keyset { id: self.id(), span: start.to(self.previous()), kind })
    }
}
