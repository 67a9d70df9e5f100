//! The preprocessor: from files to one list of tokens (section 6.3 of the specification, and what the C preprocessor does beyond).
//!
//! ```text
//! file text -> lex::piece -> lines: directives are done here (this file, `directive`), the rest goes on
//! names     -> expand: macros, with a budget; what comes out bears the place of the macro's use
//! tokens    -> the parser
//! ```
//! Limits, each with its message: [`INCLUDE_DEPTH_MAX`], [`INCLUDES_MAX`], [`BYTES_MAX`], [`EXPANDED_MAX`], [`NESTING_MAX`].
mod condition;
mod directive;
mod expand;
mod macros;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ast::Comment;
use crate::diag::{Diagnostic, Diagnostics};
use crate::lex::{self, Interner, LINE, Piece, SPACE, Sym, Token, TokenKind};
use crate::resolve::Resolver;
use crate::source::{FileId, SourceMap, Span};

use macros::Macros;

/// How deep files can include files.
pub const INCLUDE_DEPTH_MAX: usize = 64;
/// How many files can be included, repetitions counted.
pub const INCLUDES_MAX: usize = 2_000;
/// How many bytes of text can be read, repetitions counted.
pub const BYTES_MAX: usize = 64 << 20;
/// How many tokens macros can make.
pub const EXPANDED_MAX: usize = 1 << 20;
/// How deep macros can stand in the arguments of macros, and parentheses in conditions.
pub const NESTING_MAX: usize = 64;

/// What the command line says (`-I`, `-D`, `-U`).
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directories for `#include`, in order.
    pub include: Vec<String>,
    /// Definitions and their removals, in order.
    pub macros: Vec<MacroOption>,
}

/// `-D` or `-U`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MacroOption {
    /// `NAME`, `NAME=VALUE`, `NAME(A)=VALUE`
    Define(String),
    /// `NAME`
    Undefine(String),
}

/// A program without its directives.
#[derive(Debug)]
pub struct Preprocessed {
    /// Its tokens; the last is [`TokenKind::Eof`].
    pub tokens: Vec<Token>,
    /// Their texts.
    pub names: Interner,
    /// Comments of all files, in order.
    pub comments: Vec<Comment>,
}

/// Preprocesses a file, the text of which is given.
pub fn preprocess(
    map: &mut SourceMap,
    resolver: &dyn Resolver,
    options: &Options,
    root: FileId,
    diags: &mut Diagnostics,
) -> Preprocessed {
    let mut pp = Preprocessor::new(map, resolver, options, diags);
    pp.command_line();
    pp.file(root);
    let end = pp.end_of(root);
    pp.out.push(Token { kind: TokenKind::Eof, flags: LINE, text: Sym(0), span: end });
    Preprocessed { tokens: pp.out, names: pp.names, comments: pp.comments }
}

/// A condition that is open.
struct Condition {
    /// Its `#if`.
    span: Span,
    /// Whether this group is part of the program.
    active: bool,
    /// Whether a group was: the rest is not.
    taken: bool,
    /// Whether what is around it is part of the program.
    outer: bool,
    /// `#else` was there.
    closed: bool,
}

pub(crate) struct Preprocessor<'a> {
    map: &'a mut SourceMap,
    resolver: &'a dyn Resolver,
    options: &'a Options,
    diags: &'a mut Diagnostics,
    names: Interner,
    macros: Macros,
    out: Vec<Token>,
    comments: Vec<Comment>,
    /// Conditions of the file that is being read.
    conditions: Vec<Condition>,
    /// Files that are being read, outermost first.
    open: Vec<FileId>,
    /// Files by path, so that a file that is included again is not read again.
    known: HashMap<String, FileId>,
    /// `#pragma once`
    once: HashSet<FileId>,
    includes: usize,
    bytes: usize,
    /// Tokens that macros made.
    expanded: usize,
    counter: u32,
    /// A limit was reached: nothing more is read.
    stopped: bool,
}

/// Where in which file reading stands.
#[derive(Clone)]
pub(crate) struct Cursor {
    file: FileId,
    text: Arc<str>,
    at: usize,
    /// Flags of the next token.
    flags: u8,
}

impl<'a> Preprocessor<'a> {
    fn new(
        map: &'a mut SourceMap,
        resolver: &'a dyn Resolver,
        options: &'a Options,
        diags: &'a mut Diagnostics,
    ) -> Preprocessor<'a> {
        let mut names = Interner::default();
        let macros = Macros::new(&mut names);
        Preprocessor {
            map,
            resolver,
            options,
            diags,
            names,
            macros,
            out: Vec::new(),
            comments: Vec::new(),
            conditions: Vec::new(),
            open: Vec::new(),
            known: HashMap::new(),
            once: HashSet::new(),
            includes: 0,
            bytes: 0,
            expanded: 0,
            counter: 0,
            stopped: false,
        }
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.diags.push(Diagnostic::error("preprocessor", span, message));
    }

    /// A limit: says so once and reads nothing more.
    fn stop(&mut self, diagnostic: Diagnostic) {
        if !self.stopped {
            self.diags.push(diagnostic);
        }
        self.stopped = true;
    }

    /// `-D` and `-U` are directives of a file of their own.
    fn command_line(&mut self) {
        if self.options.macros.is_empty() {
            return;
        }
        let mut text = String::new();
        for option in &self.options.macros {
            let line = match option {
                MacroOption::Define(definition) => match definition.split_once('=') {
                    Some((name, value)) => format!("#define {name} {value}"),
                    None => format!("#define {definition} 1"),
                },
                MacroOption::Undefine(name) => format!("#undef {name}"),
            };
            // One option is one line, whatever is in it.
            text.push_str(&line.replace(['\n', '\r'], " "));
            text.push('\n');
        }
        let id = self.map.add("<command line>", text);
        self.file(id);
    }

    fn end_of(&self, file: FileId) -> Span {
        let length = self.map.file(file).map_or(0, |f| f.text().len()) as u32;
        Span::new(file, length, length)
    }

    fn file(&mut self, file: FileId) {
        let Some(text) = self.map.file(file).map(|f| f.text().clone()) else { return };
        self.bytes += text.len();
        if self.bytes > BYTES_MAX {
            let span = self.map.file(file).map_or(Span::NONE, |f| f.included());
            let text = format!(
                "the program has more than {} MiB of text with all that it includes",
                BYTES_MAX >> 20
            );
            return self.stop(Diagnostic::error("overlimit", span, text));
        }
        self.open.push(file);
        let around = std::mem::take(&mut self.conditions);
        let mut cursor = Cursor { file, text, at: 0, flags: LINE };
        // A mark of the order of bytes is no text.
        if cursor.text.starts_with('\u{feff}') {
            cursor.at = '\u{feff}'.len_utf8();
        }
        while self.item(&mut cursor) {}
        for condition in std::mem::replace(&mut self.conditions, around) {
            let unended = Diagnostic::error("preprocessor", condition.span, "this condition has no `#endif`");
            self.diags
                .push(unended.help("each `#if`, `#ifdef` and `#ifndef` needs an `#endif` in the same file"));
        }
        self.open.pop();
    }

    fn active(&self) -> bool {
        self.conditions.last().is_none_or(|c| c.active)
    }

    /// Reads one token or one directive. False at the end.
    fn item(&mut self, cursor: &mut Cursor) -> bool {
        if self.stopped {
            return false;
        }
        if !self.active() {
            return self.skip_line(cursor);
        }
        let Some(token) = self.token(cursor) else { return false };
        if token.kind == TokenKind::Hash && token.has(LINE) {
            self.directive(cursor, token.span);
            return true;
        }
        if token.kind == TokenKind::Ident && self.macros.get(token.text).is_some() {
            self.expand_in_file(cursor, token);
            return true;
        }
        self.emit(token);
        true
    }

    /// A token for the parser.
    fn emit(&mut self, mut token: Token) {
        if token.kind == TokenKind::Ident {
            token.kind = self.names.word(token.text);
        }
        self.out.push(token);
    }

    /// The next token of a file, over blanks, comments and ends of lines. All words are names here.
    fn token(&mut self, cursor: &mut Cursor) -> Option<Token> {
        loop {
            let token = self.piece(cursor, true)?;
            match token {
                Read::Token(token) => return Some(token),
                Read::Newline => cursor.flags = LINE | SPACE,
            }
        }
    }

    /// The next token, or the end of the line.
    fn piece(&mut self, cursor: &mut Cursor, keep_comments: bool) -> Option<Read> {
        loop {
            if cursor.at >= cursor.text.len() {
                return None;
            }
            let start = cursor.at;
            let (piece, end) = lex::piece(cursor.text.as_bytes(), start);
            cursor.at = end;
            match piece {
                Piece::Space | Piece::Splice => cursor.flags |= SPACE,
                Piece::LineComment | Piece::BlockComment | Piece::OpenComment => {
                    cursor.flags |= SPACE;
                    let span = Span::new(cursor.file, start as u32, end as u32);
                    if piece == Piece::OpenComment {
                        let start = Span { end: span.start + 2, ..span };
                        self.error(start, "this comment has no end: `*/` is missing");
                    }
                    if keep_comments {
                        self.comments.push(Comment { span, block: piece != Piece::LineComment });
                    }
                }
                Piece::Newline => return Some(Read::Newline),
                Piece::Token(kind) => {
                    let text = match kind {
                        TokenKind::Ident
                        | TokenKind::Int
                        | TokenKind::BadInt
                        | TokenKind::Str
                        | TokenKind::OpenStr
                        | TokenKind::Unknown => self.names.intern(&cursor.text[start..end]),
                        _ => Sym(0),
                    };
                    let span = Span::new(cursor.file, start as u32, end as u32);
                    let flags = std::mem::take(&mut cursor.flags);
                    return Some(Read::Token(Token { kind, flags, text, span }));
                }
            }
        }
    }

    /// Skips a line that is not part of the program, unless it is a directive about conditions. Strings are not looked for:
    /// what stands here need not be P4.
    fn skip_line(&mut self, cursor: &mut Cursor) -> bool {
        let text = cursor.text.clone();
        let bytes = text.as_bytes();
        let mut first = true;
        while cursor.at < bytes.len() {
            let start = cursor.at;
            if bytes[start] == b'"' {
                cursor.at += 1;
                first = false;
                continue;
            }
            let (piece, end) = lex::piece(bytes, start);
            cursor.at = end;
            match piece {
                Piece::Token(TokenKind::Hash) if first => {
                    self.directive(cursor, Span::new(cursor.file, start as u32, end as u32));
                    return true;
                }
                Piece::Newline => {
                    cursor.flags = LINE | SPACE;
                    return true;
                }
                Piece::Token(_) => first = false,
                // One without an end is none: it may well be an apostrophe's kind of text.
                Piece::OpenComment => cursor.at = start + 2,
                _ => {}
            }
        }
        false
    }
}

/// What [`Preprocessor::piece`] finds.
pub(crate) enum Read {
    Token(Token),
    Newline,
}
