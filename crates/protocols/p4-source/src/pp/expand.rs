//! Uses of macros. A macro is not expanded inside its own expansion.
use std::collections::HashMap;
use std::rc::Rc;

use super::macros::{BodyPart, Definition, Macro, MacroKind};
use super::{Cursor, EXPANDED_MAX, NESTING_MAX, Preprocessor};
use crate::diag::Diagnostic;
use crate::lex::{self, LINE, PAINTED, Piece, SPACE, Sym, Token, TokenKind};
use crate::source::{Expansion, Span};

/// Tokens that are still to be looked at: what macros gave, innermost last, and behind it the file.
pub(super) struct Source<'c> {
    stack: Vec<Pending>,
    file: Option<&'c mut Cursor>,
}

struct Pending {
    tokens: std::vec::IntoIter<Token>,
    /// The macro that gave them: not expanded as long as they last.
    name: Option<Sym>,
}

/// Macros that are being expanded, and how often.
pub(super) type Busy = HashMap<Sym, u32>;

impl Preprocessor<'_> {
    /// A name in a file that is a macro.
    pub(super) fn expand_in_file(&mut self, cursor: &mut Cursor, name: Token) {
        let mut source = Source { stack: Vec::new(), file: Some(cursor) };
        let mut busy = Busy::new();
        if !self.expand_name(&mut source, &mut busy, name, 0) {
            self.emit(name);
        }
        while let Some(token) = from_stack(&mut source, &mut busy) {
            if self.stopped {
                return;
            }
            if let Some(token) = self.expand_token(&mut source, &mut busy, token, 0) {
                self.emit(token);
            }
        }
    }

    /// All tokens of a list, expanded: arguments and conditions.
    pub(super) fn expand_list(&mut self, tokens: Vec<Token>, busy: &mut Busy, depth: usize) -> Vec<Token> {
        let first = Pending { tokens: tokens.into_iter(), name: None };
        let mut source = Source { stack: vec![first], file: None };
        let mut out = Vec::new();
        while let Some(token) = from_stack(&mut source, busy) {
            if self.stopped {
                break;
            }
            out.extend(self.expand_token(&mut source, busy, token, depth));
        }
        // Stopped: what was being expanded is no more.
        for pending in source.stack {
            release(busy, pending.name);
        }
        out
    }

    /// The token itself if it is no macro to expand here.
    fn expand_token(
        &mut self,
        source: &mut Source,
        busy: &mut Busy,
        mut token: Token,
        depth: usize,
    ) -> Option<Token> {
        let is_macro =
            token.kind == TokenKind::Ident && !token.has(PAINTED) && self.macros.get(token.text).is_some();
        if !is_macro {
            return Some(token);
        }
        if busy.contains_key(&token.text) {
            token.flags |= PAINTED;
            return Some(token);
        }
        (!self.expand_name(source, busy, token, depth)).then_some(token)
    }

    /// Expands a macro that is not busy. False: it has parameters, and no arguments follow.
    fn expand_name(&mut self, source: &mut Source, busy: &mut Busy, name: Token, depth: usize) -> bool {
        let Some(Macro { defined, kind }) = self.macros.get(name.text).cloned() else { return false };
        let definition = match kind {
            MacroKind::Text(definition) => definition,
            MacroKind::Line => {
                let line = self.map.place(name.span).map_or(0, |p| p.at.line);
                return self.push_value(source, name, TokenKind::Int, &line.to_string());
            }
            MacroKind::Counter => {
                let count = self.counter;
                self.counter += 1;
                return self.push_value(source, name, TokenKind::Int, &count.to_string());
            }
            MacroKind::File => {
                let file = self.map.place(name.span).map(|p| p.file);
                let file = file.as_deref().unwrap_or("").replace('\\', "\\\\").replace('"', "\\\"");
                return self.push_value(source, name, TokenKind::Str, &format!("\"{file}\""));
            }
        };
        let mut used = name.span;
        let mut args = Vec::new();
        if let Some(params) = &definition.params {
            if !self.has_arguments(source, busy) {
                return false;
            }
            let Some((list, end)) = self.arguments(source, busy, name, &definition) else { return true };
            if end.expansion == used.expansion {
                used = used.to(end);
            }
            args = list;
            // `f()` of a macro with one parameter has one empty argument; of one without any it has none.
            if params.is_empty() && args.len() == 1 && args[0].is_empty() {
                args.clear();
            }
            let wanted = params.len();
            if definition.variadic && args.len() + 1 == wanted {
                args.push(Vec::new());
            }
            if args.len() != wanted {
                let text = self.names.name(name.text).clone();
                let message =
                    format!("the macro `{text}` takes {}, not {}", count(wanted, "argument"), args.len());
                self.diags
                    .push(Diagnostic::error("preprocessor", used, message).label(defined, "defined here"));
                return true;
            }
        }
        let text = self.names.name(name.text).clone();
        let expansion = self.map.expand(Expansion { name: text, used, defined });
        let place = Span { expansion, ..used };
        let tokens = self.substitute(&definition, args, place, name.flags, busy, depth);
        self.push(source, busy, tokens, name);
        true
    }

    fn push(&mut self, source: &mut Source, busy: &mut Busy, tokens: Vec<Token>, name: Token) {
        self.expanded += tokens.len() + 1;
        if self.expanded > EXPANDED_MAX {
            let message = format!("macros make more than {EXPANDED_MAX} tokens of this program");
            let place = Span { expansion: Default::default(), ..name.span };
            let text = self.names.name(name.text).clone();
            let diagnostic = Diagnostic::error("overlimit", place, message);
            return self.stop(diagnostic.here(format!("the limit was reached in the macro `{text}`")));
        }
        *busy.entry(name.text).or_default() += 1;
        source.stack.push(Pending { tokens: tokens.into_iter(), name: Some(name.text) });
    }

    fn push_value(&mut self, source: &mut Source, name: Token, kind: TokenKind, text: &str) -> bool {
        let token = Token { kind, text: self.names.intern(text), ..name };
        source.stack.push(Pending { tokens: vec![token].into_iter(), name: None });
        true
    }

    /// Whether a parenthesis follows; it is taken if so.
    fn has_arguments(&mut self, source: &mut Source, busy: &mut Busy) -> bool {
        while let Some(pending) = source.stack.last_mut() {
            if let Some(next) = pending.tokens.as_slice().first() {
                let open = next.kind == TokenKind::LParen;
                if open {
                    pending.tokens.next();
                }
                return open;
            }
            let name = source.stack.pop().and_then(|p| p.name);
            release(busy, name);
        }
        let Some(cursor) = source.file.as_deref_mut() else { return false };
        let (before, comments) = (cursor.clone(), self.comments.len());
        if self.token(cursor).is_some_and(|t| t.kind == TokenKind::LParen) {
            return true;
        }
        *cursor = before;
        self.comments.truncate(comments);
        false
    }

    /// The arguments of a use, behind its `(`, and where its `)` is.
    fn arguments(
        &mut self,
        source: &mut Source,
        busy: &mut Busy,
        name: Token,
        definition: &Definition,
    ) -> Option<(Vec<Vec<Token>>, Span)> {
        let params = definition.params.as_ref().map_or(0, Vec::len);
        let mut args = vec![Vec::new()];
        let mut depth = 0_usize;
        loop {
            let token = match from_stack(source, busy) {
                Some(token) => Some(token),
                None => match source.file.as_deref_mut() {
                    Some(cursor) => self.token(cursor),
                    None => None,
                },
            };
            let Some(mut token) = token else {
                let text = self.names.name(name.text).clone();
                self.error(name.span, format!("the arguments of the macro `{text}` have no `)`"));
                return None;
            };
            let rest = definition.variadic && args.len() == params;
            match token.kind {
                TokenKind::RParen if depth == 0 => return Some((args, token.span)),
                TokenKind::Comma if depth == 0 && !rest => {
                    args.push(Vec::new());
                    continue;
                }
                TokenKind::LParen => depth += 1,
                TokenKind::RParen => depth -= 1,
                TokenKind::Hash if token.has(LINE) => {
                    self.error(token.span, "a directive cannot stand in the arguments of a macro");
                }
                _ => {}
            }
            if token.has(LINE) {
                token.flags = (token.flags & !LINE) | SPACE;
            }
            if let Some(last) = args.last_mut() {
                last.push(token);
            }
        }
    }

    /// The body with the arguments in it.
    fn substitute(
        &mut self,
        definition: &Definition,
        args: Vec<Vec<Token>>,
        place: Span,
        flags: u8,
        busy: &mut Busy,
        depth: usize,
    ) -> Vec<Token> {
        let body = &definition.body;
        let mut expanded: Vec<Option<Rc<[Token]>>> = vec![None; args.len()];
        let mut out: Vec<Token> = Vec::new();
        // Whether `##` was last, and whether what stands before it is empty.
        let (mut paste, mut left_empty) = (false, true);
        for (i, part) in body.iter().enumerate() {
            if self.expanded + out.len() > EXPANDED_MAX {
                break;
            }
            let mut piece = match *part {
                BodyPart::Paste => {
                    paste = true;
                    continue;
                }
                BodyPart::Token(token) => vec![Token { span: place, ..token }],
                BodyPart::Text(param, token) => {
                    let text = self.spell(args.get(param).map_or(&[], Vec::as_slice));
                    vec![Token { kind: TokenKind::Str, text: self.names.intern(&text), span: place, ..token }]
                }
                BodyPart::Param(param, token) => {
                    let raw = args.get(param).map_or(&[][..], Vec::as_slice);
                    let next_to_paste = paste || matches!(body.get(i + 1), Some(BodyPart::Paste));
                    let mut list = if next_to_paste {
                        raw.to_vec()
                    } else {
                        if expanded[param].is_none() {
                            expanded[param] = Some(self.argument(raw.to_vec(), busy, depth).into());
                        }
                        expanded[param].as_deref().unwrap_or(&[]).to_vec()
                    };
                    if let Some(first) = list.first_mut() {
                        first.flags = (first.flags & !SPACE) | (token.flags & SPACE);
                    }
                    // `, ## rest`: without a rest there is no comma.
                    let last_param = definition.params.as_ref().map_or(0, Vec::len) == param + 1;
                    let after_comma = out.last().is_some_and(|t| t.kind == TokenKind::Comma);
                    if paste && definition.variadic && last_param && after_comma {
                        if list.is_empty() {
                            out.pop();
                        }
                        paste = false;
                    }
                    list
                }
            };
            let empty = piece.is_empty();
            if std::mem::take(&mut paste)
                && !left_empty
                && !empty
                && let Some(left) = out.pop()
            {
                match self.glue(left, piece[0]) {
                    Some(token) => piece[0] = token,
                    None => out.push(left),
                }
                left_empty = false;
            } else {
                left_empty = empty;
            }
            out.append(&mut piece);
        }
        for token in &mut out {
            token.flags &= !LINE;
        }
        if let Some(first) = out.first_mut() {
            first.flags = (first.flags & PAINTED) | flags;
        }
        out
    }

    fn argument(&mut self, tokens: Vec<Token>, busy: &mut Busy, depth: usize) -> Vec<Token> {
        if depth >= NESTING_MAX {
            let span = tokens.first().map_or(Span::NONE, |t| t.span);
            let message = format!("macros stand in the arguments of macros more than {NESTING_MAX} deep");
            self.stop(Diagnostic::error("overlimit", span, message));
            return Vec::new();
        }
        self.expand_list(tokens, busy, depth + 1)
    }

    /// Two tokens as one; none if they do not make one.
    fn glue(&mut self, left: Token, right: Token) -> Option<Token> {
        let text = format!("{}{}", self.text(left), self.text(right));
        let (piece, end) = lex::piece(text.as_bytes(), 0);
        let Piece::Token(kind) = piece else { return None };
        (end == text.len()).then(|| Token {
            kind,
            text: self.names.intern(&text),
            flags: left.flags & !PAINTED,
            ..left
        })
    }

    pub(super) fn text(&self, token: Token) -> &str {
        match token.kind {
            TokenKind::Ident
            | TokenKind::Int
            | TokenKind::BadInt
            | TokenKind::Str
            | TokenKind::OpenStr
            | TokenKind::Unknown => self.names.name(token.text),
            kind => kind.text(),
        }
    }

    /// Tokens as a string, with its quotes.
    fn spell(&self, tokens: &[Token]) -> String {
        let mut out = String::from("\"");
        for (i, token) in tokens.iter().enumerate() {
            if i > 0 && token.has(SPACE) {
                out.push(' ');
            }
            let text = self.text(*token);
            if token.kind == TokenKind::Str {
                out.push_str(&text.replace('\\', "\\\\").replace('"', "\\\""));
            } else {
                out.push_str(text);
            }
        }
        out.push('"');
        out
    }
}

/// `1 argument`, `2 arguments`
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn release(busy: &mut Busy, name: Option<Sym>) {
    let Some(name) = name else { return };
    if let Some(times) = busy.get_mut(&name) {
        *times -= 1;
        if *times == 0 {
            busy.remove(&name);
        }
    }
}

/// The next token that macros gave, if there is one left.
fn from_stack(source: &mut Source, busy: &mut Busy) -> Option<Token> {
    while let Some(pending) = source.stack.last_mut() {
        if let Some(token) = pending.tokens.next() {
            return Some(token);
        }
        let name = source.stack.pop().and_then(|p| p.name);
        release(busy, name);
    }
    None
}
