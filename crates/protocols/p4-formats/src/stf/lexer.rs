//! Words of a test: each line is cut into tokens on its own.

use super::{Number, StfError, StfErrorKind};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A name without dots and brackets.
    Name(String),
    Number(Number),
    /// One of `: , . [ ] ( ) / = == != < <= > >= &&& ->`.
    Sign(&'static str),
    End,
}

impl Token {
    pub(super) fn describe(&self) -> String {
        match self {
            Token::Name(name) => format!("'{name}'"),
            Token::Number(number) => format!("'{number}'"),
            Token::Sign(sign) => format!("'{sign}'"),
            Token::End => "the end of the line".to_owned(),
        }
    }
}

/// Longer signs before their beginnings.
const SIGNS: &[&str] =
    &["&&&", "->", "==", "!=", "<=", ">=", ":", ",", ".", "[", "]", "(", ")", "/", "=", "<", ">"];

/// The tokens of a line from a column on, each with its column (from 1); the last one is [`Token::End`].
pub(super) fn tokens(line: &str, number: u32, from: usize) -> Result<Vec<(Token, u32)>, StfError> {
    let chars: Vec<char> = line.chars().collect();
    let mut out = Vec::new();
    let mut at = from;
    let fail = |at: usize, kind| StfError { line: number, column: at as u32 + 1, kind };
    while at < chars.len() {
        let begin = at;
        let c = chars[at];
        let token = if c == '#' {
            break;
        } else if c.is_whitespace() {
            at += 1;
            continue;
        } else if c == '"' {
            let end = chars[at + 1..].iter().position(|&c| c == '"').map(|end| at + 1 + end);
            let end = end.filter(|&end| end > at + 1).ok_or_else(|| fail(begin, StfErrorKind::Quote))?;
            at = end + 1;
            Token::Name(chars[begin + 1..end].iter().collect())
        } else if c.is_ascii_digit() {
            let base = match chars.get(at + 1) {
                Some('x' | 'X') if c == '0' => 16,
                Some('b' | 'B') if c == '0' => 2,
                Some('o' | 'O') if c == '0' => 8,
                _ => 10,
            };
            at += if base == 10 { 0 } else { 2 };
            let first = at;
            let wild = |c: char| c == '*' && base != 10;
            while at < chars.len() && (chars[at].is_digit(base) || wild(chars[at])) {
                at += 1;
            }
            if first == at {
                let found = chars.get(at).map_or("the end of the line".to_owned(), |c| format!("'{c}'"));
                let expected = format!("a digit of base {base}");
                return Err(fail(at, StfErrorKind::Expected { expected, found }));
            }
            Token::Number(Number { base, digits: chars[first..at].iter().collect() })
        } else if c.is_ascii_alphabetic() || c == '_' || c == '$' {
            while at < chars.len() && (chars[at].is_ascii_alphanumeric() || matches!(chars[at], '_' | '$')) {
                at += 1;
            }
            Token::Name(chars[begin..at].iter().collect())
        } else {
            let rest: String = chars[at..].iter().take(3).collect();
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| fail(begin, StfErrorKind::Stray(c)))?;
            at += sign.len();
            Token::Sign(sign)
        };
        out.push((token, begin as u32 + 1));
    }
    out.push((Token::End, at as u32 + 1));
    Ok(out)
}
