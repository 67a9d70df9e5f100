//! Lines that begin with `#`.
use std::rc::Rc;

use super::expand::Busy;
use super::macros::{BodyPart, Definition, Macro, MacroKind};
use super::{Condition, Cursor, INCLUDE_DEPTH_MAX, INCLUDES_MAX, Preprocessor, Read};
use crate::builtin;
use crate::diag::{Diagnostic, Severity};
use crate::lex::{self, LINE, Piece, SPACE, Sym, Token, TokenKind};
use crate::resolve::join;
use crate::source::{FileId, LineMark, Span};
use barewire_text::nearest;

const DIRECTIVES: [&str; 14] = [
    "include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error", "warning",
    "line", "pragma", "ident",
];

impl Preprocessor<'_> {
    /// A directive, of which the `#` has been read. Takes its whole line.
    pub(super) fn directive(&mut self, cursor: &mut Cursor, hash: Span) {
        let Some(Read::Token(name)) = self.piece(cursor, false) else {
            cursor.flags = LINE | SPACE;
            return;
        };
        let span = hash.to(name.span);
        if name.kind == TokenKind::Int {
            // `# 7 "x.p4"`, as preprocessors write it.
            if self.active() {
                let tokens = self.rest(cursor);
                self.line(cursor, name, &tokens);
            } else {
                self.raw_rest(cursor);
            }
            return;
        }
        let word = self.text(name).to_owned();
        match word.as_str() {
            "if" | "ifdef" | "ifndef" => return self.open_condition(cursor, span, &word),
            "elif" | "else" | "endif" => return self.next_condition(cursor, span, &word),
            _ if !self.active() => {
                self.raw_rest(cursor);
            }
            "include" => self.include(cursor, span),
            "define" => self.define(cursor, span),
            "undef" => self.undefine(cursor, span),
            "error" | "warning" => {
                let text = self.raw_rest(cursor);
                let severity = if word == "error" { Severity::Error } else { Severity::Warning };
                self.diags.push(Diagnostic::new(
                    severity,
                    "preprocessor",
                    span,
                    format!("#{word} {}", text.trim()),
                ));
            }
            "line" => {
                let tokens = self.rest(cursor);
                let mut tokens = self.expand_list(tokens, &mut Busy::new(), 0).into_iter();
                match tokens.next() {
                    Some(number) if number.kind == TokenKind::Int => {
                        self.line(cursor, number, tokens.as_slice());
                    }
                    other => {
                        let at = other.map_or(span, |t| t.span);
                        self.error(at, "`#line` needs the number of the next line");
                    }
                }
            }
            "pragma" => {
                if self.raw_rest(cursor).trim() == "once" {
                    self.once.insert(cursor.file);
                }
            }
            "ident" | "sccs" | "assert" | "unassert" => {
                self.raw_rest(cursor);
            }
            _ => {
                self.raw_rest(cursor);
                let mut warning = Diagnostic::warning(
                    "preprocessor",
                    span,
                    format!("`#{word}` is no directive and is left out"),
                );
                if let Some(near) = nearest(&word, DIRECTIVES) {
                    warning = warning.help(format!("there is `#{near}`"));
                }
                self.diags.push(warning);
            }
        }
        cursor.flags = LINE | SPACE;
    }

    /// Tokens up to the end of the line.
    fn rest(&mut self, cursor: &mut Cursor) -> Vec<Token> {
        let mut tokens = Vec::new();
        while let Some(Read::Token(token)) = self.piece(cursor, false) {
            if matches!(token.kind, TokenKind::Str | TokenKind::OpenStr)
                && let Some(length) = self.names.name(token.text).replace("\\\n", "  ").find('\n')
            {
                // A string of a directive ends on its line. Reading goes on with the next one.
                let span = Span { end: token.span.start + length as u32, ..token.span };
                self.error(span, "this string has no end on its line");
                cursor.at = span.end as usize;
                continue;
            }
            tokens.push(token);
        }
        cursor.flags = LINE | SPACE;
        tokens
    }

    /// Text up to the end of the line.
    fn raw_rest(&mut self, cursor: &mut Cursor) -> String {
        let text = cursor.text.clone();
        let (start, mut out) = (cursor.at, String::new());
        let mut from = start;
        while cursor.at < text.len() {
            let at = cursor.at;
            if text.as_bytes()[at] == b'"' {
                cursor.at += 1;
                continue;
            }
            let (piece, end) = lex::piece(text.as_bytes(), at);
            match piece {
                Piece::Newline => break,
                Piece::Splice | Piece::LineComment | Piece::BlockComment => {
                    out.push_str(&text[from..at]);
                    out.push(' ');
                    from = end;
                    cursor.at = end;
                }
                Piece::OpenComment => cursor.at = at + 2,
                _ => cursor.at = end,
            }
        }
        out.push_str(&text[from..cursor.at]);
        if cursor.at < text.len() {
            cursor.at += 1;
        }
        cursor.flags = LINE | SPACE;
        out
    }

    fn line(&mut self, cursor: &Cursor, number: Token, rest: &[Token]) {
        let Ok(line) = self.text(number).replace('_', "").parse::<u32>() else {
            return self.error(number.span, "a line number must be a decimal number below 4294967296");
        };
        let name = match rest.first() {
            Some(token) if token.kind == TokenKind::Str => {
                Some(lex::string_value(self.names.name(token.text)).into())
            }
            Some(token) => return self.error(token.span, "expected the name of a file in quotes"),
            None => None,
        };
        // A name holds until another is given.
        let before = self.map.mark_before(cursor.file, cursor.at as u32).and_then(|m| m.name.clone());
        let mark = LineMark { start: cursor.at as u32, line, name: name.or(before) };
        self.map.mark_line(cursor.file, mark);
    }

    fn open_condition(&mut self, cursor: &mut Cursor, span: Span, word: &str) {
        let outer = self.active();
        if !outer {
            self.raw_rest(cursor);
            self.conditions.push(Condition { span, active: false, taken: true, outer, closed: false });
            return;
        }
        let tokens = self.rest(cursor);
        let active = match (word, tokens.first()) {
            ("if", _) => self.condition(span, tokens),
            (_, Some(name)) if name.kind == TokenKind::Ident => {
                self.macros.get(name.text).is_some() == (word == "ifdef")
            }
            _ => {
                self.error(span, format!("`#{word}` needs the name of a macro"));
                false
            }
        };
        self.conditions.push(Condition { span, active, taken: active, outer, closed: false });
    }

    fn next_condition(&mut self, cursor: &mut Cursor, span: Span, word: &str) {
        let Some(open) = self.conditions.last() else {
            self.raw_rest(cursor);
            return self.error(span, format!("`#{word}` without an `#if` before it"));
        };
        let (outer, taken, closed, start) = (open.outer, open.taken, open.closed, open.span);
        if word == "endif" {
            self.raw_rest(cursor);
            self.conditions.pop();
            return;
        }
        if closed {
            self.raw_rest(cursor);
            let error = Diagnostic::error(
                "preprocessor",
                span,
                format!("`#{word}` behind the `#else` of its condition"),
            );
            return self.diags.push(error.label(start, "the condition"));
        }
        let wanted = outer && !taken;
        let active = if word == "else" || !wanted {
            self.raw_rest(cursor);
            wanted && word == "else"
        } else {
            let tokens = self.rest(cursor);
            self.condition(span, tokens)
        };
        if let Some(open) = self.conditions.last_mut() {
            open.active = active;
            open.taken |= active;
            open.closed = word == "else";
        }
    }

    fn macro_name(&mut self, cursor: &mut Cursor, span: Span, word: &str) -> Option<Token> {
        let token = match self.piece(cursor, false) {
            Some(Read::Token(token)) => token,
            Some(Read::Newline) | None => {
                self.error(span, format!("`#{word}` needs the name of a macro"));
                cursor.flags = LINE | SPACE;
                return None;
            }
        };
        let problem = if token.kind != TokenKind::Ident {
            Some("the name of a macro must be a word")
        } else if token.text == self.macros.defined {
            Some("`defined` cannot be the name of a macro")
        } else {
            None
        };
        if let Some(problem) = problem {
            self.error(token.span, problem);
            self.raw_rest(cursor);
            return None;
        }
        Some(token)
    }

    fn undefine(&mut self, cursor: &mut Cursor, span: Span) {
        if let Some(name) = self.macro_name(cursor, span, "undef") {
            self.raw_rest(cursor);
            self.macros.undefine(name.text);
        }
    }

    fn define(&mut self, cursor: &mut Cursor, span: Span) {
        let Some(name) = self.macro_name(cursor, span, "define") else { return };
        // Parameters begin at once, without a blank.
        let has_params = cursor.text[cursor.at..].starts_with('(');
        let mut tokens = self.rest(cursor).into_iter();
        let mut variadic = false;
        let mut params = None;
        if has_params {
            let Some((list, rest)) = self.params(&mut tokens, name) else { return };
            params = Some(list);
            variadic = rest;
        }
        let Some(body) = self.body(tokens.as_slice(), params.as_deref()) else { return };
        let kind = MacroKind::Text(Rc::new(Definition { params, variadic, body }));
        let new = Macro { defined: name.span, kind };
        let same = self.macros.get(name.text).is_none_or(|old| old.same(&new));
        let old = self.macros.define(name.text, new);
        if let Some(old) = old
            && !same
        {
            let text = self.names.name(name.text).clone();
            let warning =
                Diagnostic::warning("redefined", name.span, format!("the macro `{text}` is defined again"));
            self.diags.push(warning.label(old.defined, "defined here").help("`#undef` it first"));
        }
    }

    fn params(&mut self, tokens: &mut std::vec::IntoIter<Token>, name: Token) -> Option<(Vec<Sym>, bool)> {
        tokens.next();
        let mut params: Vec<Sym> = Vec::new();
        let mut at = name.span;
        let wrong = |pp: &mut Self, at: Span| {
            pp.error(at, "expected names of parameters with commas between them, and `)`");
            None
        };
        loop {
            let Some(token) = tokens.next() else { return wrong(self, at) };
            at = token.span;
            match token.kind {
                TokenKind::RParen if params.is_empty() => return Some((params, false)),
                TokenKind::Dots => params.push(self.macros.variadic),
                TokenKind::Ident if params.contains(&token.text) => {
                    let text = self.names.name(token.text).clone();
                    self.error(at, format!("the macro has two parameters `{text}`"));
                    return None;
                }
                TokenKind::Ident => params.push(token.text),
                _ => return wrong(self, at),
            }
            let mut variadic = token.kind == TokenKind::Dots;
            let mut next = tokens.next();
            // `rest...`
            if !variadic && next.is_some_and(|t| t.kind == TokenKind::Dots) {
                variadic = true;
                next = tokens.next();
            }
            match next.map(|t| t.kind) {
                Some(TokenKind::RParen) => return Some((params, variadic)),
                Some(TokenKind::Comma) if !variadic => {}
                _ => return wrong(self, next.map_or(at, |t| t.span)),
            }
        }
    }

    fn body(&mut self, tokens: &[Token], params: Option<&[Sym]>) -> Option<Vec<BodyPart>> {
        let param = |token: &Token| {
            let is_name = token.kind == TokenKind::Ident;
            params.filter(|_| is_name)?.iter().position(|p| *p == token.text)
        };
        let mut body = Vec::with_capacity(tokens.len());
        let mut list = tokens.iter().peekable();
        while let Some(token) = list.next() {
            let mut token = *token;
            if body.is_empty() {
                token.flags &= !SPACE;
            }
            body.push(match token.kind {
                TokenKind::HashHash => BodyPart::Paste,
                TokenKind::Hash if list.peek().is_some_and(|t| param(t).is_some()) => {
                    let number = list.next().and_then(param).unwrap_or(0);
                    BodyPart::Text(number, token)
                }
                _ => match param(&token) {
                    Some(number) => BodyPart::Param(number, token),
                    None => BodyPart::Token(token),
                },
            });
        }
        if matches!(body.first(), Some(BodyPart::Paste)) || matches!(body.last(), Some(BodyPart::Paste)) {
            let at = tokens.iter().find(|t| t.kind == TokenKind::HashHash).map_or(Span::NONE, |t| t.span);
            self.error(at, "`##` needs something on both sides");
            return None;
        }
        Some(body)
    }

    fn include(&mut self, cursor: &mut Cursor, span: Span) {
        let Some((path, angled, at)) = self.include_path(cursor, span) else { return };
        let at = if at.is_none() { span } else { at };
        if self.open.len() > INCLUDE_DEPTH_MAX {
            let message = format!("files include each other more than {INCLUDE_DEPTH_MAX} deep");
            let mut error = Diagnostic::error("overlimit", at, message);
            let names: Vec<String> =
                self.open.iter().filter_map(|id| self.map.file(*id)).map(|f| f.name().to_owned()).collect();
            let last = names.last().cloned().unwrap_or_default();
            if let Some(before) = names[..names.len() - 1].iter().rposition(|n| *n == last) {
                error = error.note(format!("it is a circle: {}", names[before..].join(" includes ")));
                error = error.help("guard the file: `#ifndef NAME`, `#define NAME`, …, `#endif`");
            }
            return self.stop(error);
        }
        self.includes += 1;
        if self.includes > INCLUDES_MAX {
            let message = format!("the program includes more than {INCLUDES_MAX} files");
            return self.stop(Diagnostic::error("overlimit", at, message));
        }
        if let Some(file) = self.find(&path, angled, at, cursor.file)
            && !self.once.contains(&file)
        {
            self.file(file);
        }
    }

    /// Path, whether in `<…>`, and where.
    fn include_path(&mut self, cursor: &mut Cursor, span: Span) -> Option<(String, bool, Span)> {
        let line = &cursor.text[cursor.at..];
        let line = &line[..line.find('\n').unwrap_or(line.len())];
        let blanks = line.len() - line.trim_start().len();
        let start = cursor.at + blanks;
        let close = match line.trim_start().as_bytes().first() {
            Some(b'<') => Some('>'),
            Some(b'"') => Some('"'),
            _ => None,
        };
        if let Some(close) = close {
            let inner = &cursor.text[start + 1..cursor.at + line.len()];
            let length = inner.find(close);
            let end = start + 1 + length.map_or(inner.len(), |l| l + 1);
            let at = Span::new(cursor.file, start as u32, end as u32);
            let path = inner[..length.unwrap_or(0)].to_owned();
            cursor.at = end;
            self.raw_rest(cursor);
            if length.is_none() || path.is_empty() {
                self.error(at, format!("the name of the file has no `{close}`"));
                return None;
            }
            return Some((path, close == '>', at));
        }
        // A macro stands for the name.
        let tokens = self.rest(cursor);
        let tokens = self.expand_list(tokens, &mut Busy::new(), 0);
        match tokens.first() {
            Some(token) if token.kind == TokenKind::Str => {
                let path = lex::string_value(self.names.name(token.text));
                Some((path, false, token.span))
            }
            Some(token) if token.kind == TokenKind::LAngle => {
                let end = tokens.iter().position(|t| t.kind == TokenKind::RAngle)?;
                let path = tokens[1..end].iter().map(|t| self.text(*t)).collect();
                Some((path, true, token.span))
            }
            other => {
                let at = other.map_or(span, |t| t.span);
                self.error(at, "expected the name of a file: `\"name\"` or `<name>`");
                None
            }
        }
    }

    fn find(&mut self, path: &str, angled: bool, at: Span, from: FileId) -> Option<FileId> {
        let mut candidates = Vec::new();
        let (name, ours) = self.map.file(from).map_or(("", false), |f| (f.name(), f.is_builtin()));
        if !angled && !ours {
            candidates.push(join(name, false, path));
        }
        candidates.extend(self.options.include.iter().map(|directory| join(directory, true, path)));
        for candidate in &candidates {
            if let Some(&file) = self.known.get(candidate) {
                return Some(file);
            }
            match self.resolver.read(candidate) {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let file = self.map.add_included(candidate.as_str(), text, at, false);
                    self.known.insert(candidate.clone(), file);
                    return Some(file);
                }
                Err(why) => {
                    self.error(at, format!("cannot read {candidate}: {why}"));
                    return None;
                }
            }
        }
        if let Some((name, text)) = builtin::file(path) {
            let key = format!("<built-in>/{name}");
            if let Some(&file) = self.known.get(&key) {
                return Some(file);
            }
            let file = self.map.add_included(key.as_str(), text, at, true);
            self.known.insert(key, file);
            return Some(file);
        }
        let mut error = Diagnostic::error("not-found", at, format!("there is no file `{path}`"));
        if !candidates.is_empty() {
            error = error.note(format!("looked for {}", candidates.join(", ")));
        }
        error = match nearest(path, builtin::names()) {
            Some(near) => error.help(format!("there is `<{near}>`")),
            None => error.help("name the directory it is in with `-I`"),
        };
        self.diags.push(error);
        None
    }
}
