//! Conditions of `#if` and `#elif`: integer expressions.
use super::expand::Busy;
use super::{NESTING_MAX, Preprocessor};
use crate::diag::Diagnostic;
use crate::lex::{Token, TokenKind};
use crate::source::Span;

impl Preprocessor<'_> {
    /// Whether the condition holds. A malformed one does not.
    pub(super) fn condition(&mut self, span: Span, tokens: Vec<Token>) -> bool {
        let Some(tokens) = self.resolve_defined(tokens) else { return false };
        let tokens = self.expand_list(tokens, &mut Busy::new(), 0);
        let tokens: Vec<(TokenKind, Span, i128)> = tokens
            .into_iter()
            .map(|t| {
                let text = self.text(t);
                // A name that is no macro is 0.
                let value = match t.kind {
                    TokenKind::Int | TokenKind::BadInt => integer(text),
                    TokenKind::Ident if text == "true" => Some(1),
                    TokenKind::Ident => Some(0),
                    _ => None,
                };
                match value {
                    Some(value) => (TokenKind::Int, t.span, value),
                    None => (t.kind, t.span, 0),
                }
            })
            .collect();
        let mut parser = Parser { tokens: &tokens, at: 0, depth: 0, end: span };
        let result = parser.conditional().and_then(|value| match parser.tokens.get(parser.at) {
            Some((kind, at, _)) => Err((*at, format!("`{}` is not expected here", kind.text()))),
            None => Ok(value),
        });
        match result.and_then(|v| v.ok_or((span, "division by zero".to_owned()))) {
            Ok(value) => value != 0,
            Err((at, message)) => {
                self.diags.push(
                    Diagnostic::error("preprocessor", at, message).note("in a condition of the preprocessor"),
                );
                false
            }
        }
    }

    /// `defined X` and `defined(X)`, before macros are expanded.
    fn resolve_defined(&mut self, tokens: Vec<Token>) -> Option<Vec<Token>> {
        let mut out = Vec::with_capacity(tokens.len());
        let mut list = tokens.into_iter();
        while let Some(token) = list.next() {
            if token.kind != TokenKind::Ident || token.text != self.macros.defined {
                out.push(token);
                continue;
            }
            let mut next = list.next();
            let open = next.is_some_and(|t| t.kind == TokenKind::LParen);
            if open {
                next = list.next();
            }
            let closed = !open || list.next().is_some_and(|t| t.kind == TokenKind::RParen);
            let Some(name) = next.filter(|t| t.kind == TokenKind::Ident && closed) else {
                self.error(token.span, "`defined` needs the name of a macro: `defined(NAME)`");
                return None;
            };
            let value = if self.macros.get(name.text).is_some() { "1" } else { "0" };
            out.push(Token { kind: TokenKind::Int, text: self.names.intern(value), ..token });
        }
        Some(out)
    }
}

/// As in C: `0x`, `0b`, octal with a leading 0, and letters for the size at the end.
fn integer(text: &str) -> Option<i128> {
    let text = text.to_ascii_lowercase().replace('_', "");
    let text = text.trim_end_matches(['u', 'l']);
    let (base, digits) = match text.as_bytes() {
        [b'0', b'x', ..] => (16, &text[2..]),
        [b'0', b'b', ..] => (2, &text[2..]),
        [b'0', b'o', ..] => (8, &text[2..]),
        [b'0', b'd', ..] => (10, &text[2..]),
        [b'0', _, ..] => (8, &text[1..]),
        _ => (10, text),
    };
    i128::from_str_radix(digits, base).ok()
}

/// A value; none where it is not needed (`0 && 1/0`) and has none.
type Value = Result<Option<i128>, (Span, String)>;

struct Parser<'a> {
    tokens: &'a [(TokenKind, Span, i128)],
    at: usize,
    depth: usize,
    end: Span,
}

fn binary(kind: TokenKind) -> Option<u8> {
    use TokenKind::*;
    Some(match kind {
        OrOr => 1,
        AndAnd => 2,
        Pipe => 3,
        Caret => 4,
        Amp => 5,
        EqEq | Ne => 6,
        LAngle | RAngle | Le | Ge => 7,
        Shl => 8,
        Plus | Minus => 9,
        Star | Slash | Percent => 10,
        _ => return None,
    })
}

impl Parser<'_> {
    fn kind(&self) -> Option<TokenKind> {
        self.tokens.get(self.at).map(|t| t.0)
    }

    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or(self.end, |t| t.1)
    }

    fn take(&mut self, kind: TokenKind) -> Result<(), (Span, String)> {
        if self.kind() != Some(kind) {
            return Err((self.span(), format!("expected `{}`", kind.text())));
        }
        self.at += 1;
        Ok(())
    }

    fn conditional(&mut self) -> Value {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err((self.span(), format!("this condition is nested more than {NESTING_MAX} deep")));
        }
        let condition = self.binary(1)?;
        let value = if self.kind() == Some(TokenKind::Question) {
            self.at += 1;
            let then = self.conditional()?;
            self.take(TokenKind::Colon)?;
            let otherwise = self.conditional()?;
            condition.and_then(|c| if c != 0 { then } else { otherwise })
        } else {
            condition
        };
        self.depth -= 1;
        Ok(value)
    }

    /// `>>` is two tokens.
    fn operator(&self) -> Option<(TokenKind, u8, usize)> {
        let kind = self.kind()?;
        let next = self.tokens.get(self.at + 1);
        if kind == TokenKind::RAngle
            && next.is_some_and(|t| t.0 == TokenKind::RAngle && t.1.start == self.span().end)
        {
            return Some((TokenKind::HashHash, 8, 2));
        }
        Some((kind, binary(kind)?, 1))
    }

    fn binary(&mut self, lowest: u8) -> Value {
        let mut left = self.unary()?;
        while let Some((kind, level, length)) = self.operator()
            && level >= lowest
        {
            self.at += length;
            let right = self.binary(level + 1)?;
            left = match (kind, left, right) {
                (TokenKind::OrOr, Some(a), _) if a != 0 => Some(1),
                (TokenKind::AndAnd, Some(0), _) => Some(0),
                (kind, Some(a), Some(b)) => apply(kind, a, b),
                _ => None,
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Value {
        let mut signs = Vec::new();
        while let Some(kind @ (TokenKind::Not | TokenKind::Tilde | TokenKind::Minus | TokenKind::Plus)) =
            self.kind()
        {
            signs.push(kind);
            self.at += 1;
        }
        let mut value = match self.tokens.get(self.at) {
            Some((TokenKind::Int, _, value)) => {
                self.at += 1;
                Some(*value)
            }
            Some((TokenKind::LParen, ..)) => {
                self.at += 1;
                let value = self.conditional()?;
                self.take(TokenKind::RParen)?;
                value
            }
            Some((kind, at, _)) => return Err((*at, format!("expected a value, found `{}`", kind.text()))),
            None => return Err((self.end, "expected a value at the end of the line".to_owned())),
        };
        for sign in signs.into_iter().rev() {
            value = value.map(|v| match sign {
                TokenKind::Not => i128::from(v == 0),
                TokenKind::Tilde => !v,
                TokenKind::Minus => v.wrapping_neg(),
                _ => v,
            });
        }
        Ok(value)
    }
}

fn apply(kind: TokenKind, a: i128, b: i128) -> Option<i128> {
    let shift = u32::try_from(b.clamp(0, 127)).unwrap_or(0);
    Some(match kind {
        TokenKind::OrOr => i128::from(a != 0 || b != 0),
        TokenKind::AndAnd => i128::from(a != 0 && b != 0),
        TokenKind::Pipe => a | b,
        TokenKind::Caret => a ^ b,
        TokenKind::Amp => a & b,
        TokenKind::EqEq => i128::from(a == b),
        TokenKind::Ne => i128::from(a != b),
        TokenKind::LAngle => i128::from(a < b),
        TokenKind::RAngle => i128::from(a > b),
        TokenKind::Le => i128::from(a <= b),
        TokenKind::Ge => i128::from(a >= b),
        TokenKind::Shl => a.checked_shl(shift).unwrap_or(0),
        TokenKind::HashHash => a >> shift,
        TokenKind::Plus => a.wrapping_add(b),
        TokenKind::Minus => a.wrapping_sub(b),
        TokenKind::Star => a.wrapping_mul(b),
        TokenKind::Slash => a.checked_div(b)?,
        TokenKind::Percent => a.checked_rem(b)?,
        _ => return None,
    })
}
