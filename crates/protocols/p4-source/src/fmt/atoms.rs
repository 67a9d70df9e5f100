//! What a formatter must keep.
use std::borrow::Cow;

use super::FormatError;
use crate::lex::{self, Piece, TokenKind};

/// What an atom is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Token(TokenKind),
    LineComment,
    BlockComment,
    /// A line that begins with `#`, with its continuations.
    Directive,
    /// `@name`, `@name(…)`, `@name[…]`: what is in the brackets stays as it is.
    Annotation,
    /// `@pragma …` to the end of its line.
    Pragma,
}

#[derive(Clone, Debug)]
pub(super) struct Atom<'a> {
    pub kind: Kind,
    pub text: Cow<'a, str>,
    /// Ends of lines before it: 0, 1, or 2 for more.
    pub lines: u8,
    /// White space before it.
    pub space: bool,
}

impl Atom<'_> {
    pub fn token(&self) -> Option<TokenKind> {
        match self.kind {
            Kind::Token(kind) => Some(kind),
            _ => None,
        }
    }

    pub fn is(&self, kind: TokenKind) -> bool {
        self.kind == Kind::Token(kind)
    }

    pub fn is_comment(&self) -> bool {
        matches!(self.kind, Kind::LineComment | Kind::BlockComment)
    }

    /// Whether it must be the last on its line.
    pub fn ends_line(&self) -> bool {
        matches!(self.kind, Kind::LineComment | Kind::Directive | Kind::Pragma)
    }
}

/// Cuts a text into what must be kept.
pub(super) fn cut(text: &str) -> Result<Vec<Atom<'_>>, FormatError> {
    let bytes = text.as_bytes();
    let mut at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut atoms: Vec<Atom> = Vec::new();
    let (mut lines, mut space, mut line_start) = (0_u8, false, true);
    while at < bytes.len() {
        let (piece, mut end) = lex::piece(bytes, at);
        let kind = match piece {
            Piece::Newline => {
                lines = (lines + 1).min(2);
                (space, line_start) = (true, true);
                at = end;
                continue;
            }
            Piece::Space | Piece::Splice => {
                space = true;
                at = end;
                continue;
            }
            Piece::LineComment => Kind::LineComment,
            Piece::BlockComment => Kind::BlockComment,
            Piece::OpenComment | Piece::Token(TokenKind::OpenStr) => return Err(FormatError::NoEnd(at)),
            Piece::Token(TokenKind::Hash) if line_start => {
                end = to_line_end(bytes, end)?;
                Kind::Directive
            }
            Piece::Token(TokenKind::At) => match annotation(text, at)? {
                Some((kind, stop)) => {
                    end = stop;
                    kind
                }
                None => Kind::Token(TokenKind::At),
            },
            Piece::Token(TokenKind::Ident) => {
                Kind::Token(TokenKind::keyword(&text[at..end]).unwrap_or(TokenKind::Ident))
            }
            Piece::Token(kind) => Kind::Token(kind),
        };
        let raw = &text[at..end];
        let line = matches!(kind, Kind::Directive | Kind::Pragma | Kind::LineComment);
        if kind == Kind::Token(TokenKind::Backslash) || (line && raw.trim_end().ends_with('\\')) {
            return Err(FormatError::Stray(at + raw.trim_end().len() - 1));
        }
        let text = match kind {
            Kind::Annotation => tight(raw),
            _ if line => Cow::Borrowed(raw.trim_end()),
            _ => Cow::Borrowed(raw),
        };
        // A comment does not keep a directive from being the first on its line.
        line_start &= kind == Kind::BlockComment;
        atoms.push(Atom { kind, text, lines, space });
        (lines, space) = (0, false);
        at = end;
    }
    Ok(atoms)
}

/// The end of the line on which `at` is, over comments and continuations.
fn to_line_end(bytes: &[u8], mut at: usize) -> Result<usize, FormatError> {
    while at < bytes.len() {
        // Quotes need not be in pairs here.
        if bytes[at] == b'"' {
            at += 1;
            continue;
        }
        let (piece, end) = lex::piece(bytes, at);
        match piece {
            Piece::Newline => break,
            Piece::OpenComment => return Err(FormatError::NoEnd(at)),
            _ => at = end,
        }
    }
    Ok(at)
}

/// The annotation or pragma that starts at `at`, and its end.
fn annotation(text: &str, at: usize) -> Result<Option<(Kind, usize)>, FormatError> {
    let bytes = text.as_bytes();
    let Some((name, mut end)) = next_token(bytes, at + 1) else { return Ok(None) };
    if lex::piece(bytes, name).0 != Piece::Token(TokenKind::Ident) {
        return Ok(None);
    }
    if &text[name..end] == "pragma" {
        // Strings with line breaks in them belong to it.
        while end < bytes.len() {
            let (piece, next) = lex::piece(bytes, end);
            match piece {
                Piece::Newline => break,
                Piece::LineComment | Piece::BlockComment => break,
                Piece::OpenComment | Piece::Token(TokenKind::OpenStr) => return Err(FormatError::NoEnd(end)),
                _ => end = next,
            }
        }
        return Ok(Some((Kind::Pragma, end)));
    }
    let body = match next_token(bytes, end) {
        Some((start, _)) if matches!(bytes[start], b'(' | b'[') => start,
        _ => return Ok(Some((Kind::Annotation, end))),
    };
    let mut depth = 0_usize;
    let mut here = body;
    while here < bytes.len() {
        let (piece, next) = lex::piece(bytes, here);
        match piece {
            Piece::Token(TokenKind::LParen | TokenKind::LBracket) => depth += 1,
            Piece::Token(TokenKind::RParen | TokenKind::RBracket) => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(Some((Kind::Annotation, next)));
                }
            }
            Piece::OpenComment | Piece::Token(TokenKind::OpenStr) => return Err(FormatError::NoEnd(here)),
            _ => {}
        }
        here = next;
    }
    Ok(None)
}

/// The next token, over white space only.
fn next_token(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    while at < bytes.len() {
        let (piece, end) = lex::piece(bytes, at);
        match piece {
            Piece::Space | Piece::Newline | Piece::Splice => at = end,
            Piece::Token(_) => return Some((at, end)),
            _ => return None,
        }
    }
    None
}

/// An annotation without the blanks between `@`, its name and its bracket.
fn tight(raw: &str) -> Cow<'_, str> {
    let blank = |c: char| c.is_ascii_whitespace() || c == '\u{b}' || c == '\\';
    let after = raw[1..].trim_start_matches(blank);
    let word = after.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    let (name, body) = after.split_at(word);
    let body = body.trim_start_matches(blank);
    if raw.len() == 1 + name.len() + body.len() {
        return Cow::Borrowed(raw);
    }
    Cow::Owned(format!("@{name}{body}"))
}
