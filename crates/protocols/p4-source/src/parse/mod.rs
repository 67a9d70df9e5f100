//! From tokens to the syntax tree: recursive descent, one function for each rule of the grammar, appendix "P4 grammar".
//!
//! The grammar tells types from other names, so the parser keeps the names in scope (`scope`). After an error it
//! goes on at the next statement, member or declaration.
//! Nothing is deeper than [`MAX_DEPTH`], which also bounds the parser's own stack.
mod annotation;
mod block;
mod decl;
mod expr;
mod message;
mod recover;
mod scope;
mod stmt;
mod table;
#[cfg(test)]
mod tests;
mod types;

use std::collections::HashSet;

use crate::ast::{Ident, MAX_DEPTH, Name, NodeId, Program};
use crate::diag::{Diagnostic, Diagnostics};
use crate::lex::{Interner, LINE, Sym, Token, TokenKind};
use crate::pp::{self, Options, Preprocessed};
use crate::resolve::Resolver;
use crate::source::{FileId, SourceMap, Span};

use scope::{Scopes, What};

/// Reads a program: finds the file `path`, preprocesses and parses it. What is wrong is in `diags`; the tree is what could be
/// read in spite of it. After an error of the preprocessor those of the parser are left out: they would only follow from it.
pub fn parse(
    map: &mut SourceMap,
    resolver: &dyn Resolver,
    options: &Options,
    path: &str,
    diags: &mut Diagnostics,
) -> Program {
    let bytes = match resolver.read(path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            diags.push(Diagnostic::error("not-found", Span::NONE, format!("there is no file {path}")));
            return Program::default();
        }
        Err(why) => {
            diags.push(Diagnostic::error("not-found", Span::NONE, format!("cannot read {path}: {why}")));
            return Program::default();
        }
    };
    let root = map.add(path, String::from_utf8_lossy(&bytes).into_owned());
    parse_file(map, resolver, options, root, diags)
}

/// Reads a program, the main file of which is in the map already.
pub fn parse_file(
    map: &mut SourceMap,
    resolver: &dyn Resolver,
    options: &Options,
    root: FileId,
    diags: &mut Diagnostics,
) -> Program {
    let before = diags.error_count();
    let preprocessed = pp::preprocess(map, resolver, options, root, diags);
    if diags.error_count() > before {
        return parse_tokens(preprocessed, &mut Diagnostics::new());
    }
    parse_tokens(preprocessed, diags)
}

/// Parses what the preprocessor gave.
pub fn parse_tokens(preprocessed: Preprocessed, diags: &mut Diagnostics) -> Program {
    let Preprocessed { tokens, names, comments } = preprocessed;
    let mut parser = Parser::new(&tokens, &names, diags);
    let decls = parser.program();
    Program { decls, comments, node_count: parser.ids }
}

/// It was reported (or will be, by whoever tries something else).
#[derive(Debug)]
pub(crate) struct Failed;

type Parsed<T> = Result<T, Failed>;

pub(crate) struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    names: &'a Interner,
    scopes: Scopes,
    ids: u32,
    depth: u32,
    diags: &'a mut Diagnostics,
    /// Something is tried: nothing is reported.
    quiet: bool,
    /// Where type arguments were tried in vain.
    no_type_args: HashSet<usize>,
    /// The token at which the last error was.
    last_error: Option<usize>,
    /// What could have stood at the token `expected_at`.
    expected: Vec<TokenKind>,
    expected_at: usize,
    /// In a state of a parser, where some statements cannot be.
    in_state: bool,
    /// Between `<` and `>`, where `>` is no operator.
    in_angles: bool,
    /// The name of a property whose value is read, and what it may have been meant to be.
    meant: Option<(Span, &'static str)>,
}

impl<'a> Parser<'a> {
    fn new(tokens: &'a [Token], names: &'a Interner, diags: &'a mut Diagnostics) -> Parser<'a> {
        Parser {
            tokens,
            at: 0,
            names,
            scopes: Scopes::new(names.count()),
            ids: 0,
            depth: 0,
            diags,
            quiet: false,
            no_type_args: HashSet::new(),
            last_error: None,
            expected: Vec::new(),
            expected_at: 0,
            in_state: false,
            in_angles: false,
            meant: None,
        }
    }

    fn id(&mut self) -> NodeId {
        let id = NodeId(self.ids);
        self.ids += 1;
        id
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn kind(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// The token after so many; the last is the end of the file.
    fn peek(&self, ahead: usize) -> Token {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    /// The token before this one.
    fn previous(&self) -> Span {
        self.at.checked_sub(1).map_or(self.span(), |at| self.tokens[at].span)
    }

    /// Takes the token. The end of the file stays.
    fn advance(&mut self) -> Token {
        let token = self.token();
        if token.kind != TokenKind::Eof {
            self.at += 1;
        }
        token
    }

    fn note_expected(&mut self, kind: TokenKind) {
        if self.expected_at != self.at {
            self.expected.clear();
            self.expected_at = self.at;
        }
        if !self.expected.contains(&kind) {
            self.expected.push(kind);
        }
    }

    /// Whether the token is one of this kind, which could stand here.
    fn is(&mut self, kind: TokenKind) -> bool {
        if self.kind() == kind {
            return true;
        }
        self.note_expected(kind);
        false
    }

    /// Takes a token of this kind if it is there.
    fn accept(&mut self, kind: TokenKind) -> bool {
        let there = self.is(kind);
        if there {
            self.advance();
        }
        there
    }

    fn expect(&mut self, kind: TokenKind) -> Parsed<Span> {
        if self.is(kind) {
            return Ok(self.advance().span);
        }
        Err(self.unexpected(None))
    }

    /// `;` at the end of something. Where it is missing at the end of a line, reading goes on as if it were there.
    fn expect_semi(&mut self) -> Parsed<Span> {
        if self.is(TokenKind::Semi) {
            return Ok(self.advance().span);
        }
        let failed = self.unexpected(None);
        let ends = self.token().has(LINE) || matches!(self.kind(), TokenKind::RBrace | TokenKind::Eof);
        if ends && !self.quiet { Ok(self.previous()) } else { Err(failed) }
    }

    /// One step deeper into the tree.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn too_deep(&mut self) -> Failed {
        let message = format!("this is nested more than {MAX_DEPTH} deep");
        let error = Diagnostic::error("overlimit", self.span(), message);
        // Whatever else is tried would be as deep.
        let quiet = std::mem::replace(&mut self.quiet, false);
        let failed = self.report(error.help("split it: constants, variables and actions can hold its parts"));
        self.quiet = quiet;
        failed
    }

    /// In brackets, where `>` is an operator, or in angles, where it is none.
    fn with_angles<T>(&mut self, in_angles: bool, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let before = std::mem::replace(&mut self.in_angles, in_angles);
        let result = parse(self);
        self.in_angles = before;
        result
    }

    /// Tries something. Where it fails, it is as if nothing had been.
    fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Option<T> {
        let (at, quiet, depth, ids) = (self.at, self.quiet, self.depth, self.ids);
        self.quiet = true;
        let result = parse(self);
        self.quiet = quiet;
        if result.is_err() {
            (self.at, self.depth, self.ids) = (at, depth, ids);
        }
        result.ok()
    }

    fn text(&self, token: Token) -> &'a str {
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

    fn ident(&self, token: Token) -> Ident {
        let name: &Name = self.names.name(token.text);
        Ident { name: name.clone(), span: token.span }
    }

    /// What a name stands for: a type, or something else.
    fn what(&self, token: Token) -> What {
        if token.kind == TokenKind::Ident { self.scopes.what(token.text) } else { What::Value }
    }

    /// The same of a name with a dot before it.
    fn is_global_type_name(&self, token: Token) -> bool {
        token.kind == TokenKind::Ident && self.scopes.what_global(token.text) == What::Type
    }

    fn is_type_name(&self, token: Token) -> bool {
        token.kind == TokenKind::Ident && self.scopes.what(token.text) == What::Type
    }

    /// `nonTypeName`: a name that is no type, or a word that is a keyword in some places only.
    fn is_non_type_name(&self, token: Token) -> bool {
        use TokenKind::{Actions, Apply, Entries, Ident, Key, Priority, State, Type};
        match token.kind {
            Ident => self.what(token) == What::Value,
            kind => matches!(kind, Apply | Key | Actions | State | Entries | Type | Priority),
        }
    }

    /// `name`: any name.
    fn is_name(token: Token) -> bool {
        use TokenKind::{Actions, Apply, Entries, Ident, Key, List, Priority, State, Type};
        matches!(token.kind, Ident | Apply | Key | Actions | State | Entries | Type | Priority | List)
    }

    /// Takes a `name`.
    fn name(&mut self) -> Parsed<Ident> {
        self.name_sym().map(|(ident, _)| ident)
    }

    fn name_sym(&mut self) -> Parsed<(Ident, Sym)> {
        let token = self.token();
        if !Self::is_name(token) {
            return Err(self.unexpected(Some("a name")));
        }
        self.advance();
        Ok((self.ident(token), token.text))
    }

    fn non_type_name(&mut self) -> Parsed<Ident> {
        let token = self.token();
        if !self.is_non_type_name(token) {
            return Err(self.unexpected(Some("a name that is no type")));
        }
        self.advance();
        Ok(self.ident(token))
    }

    /// A name behind the dot of the top level; where it is no type there, it is none.
    fn global_name(&mut self) -> Parsed<Ident> {
        let token = self.token();
        if token.kind == TokenKind::Ident && !self.is_global_type_name(token) {
            self.advance();
            return Ok(self.ident(token));
        }
        self.non_type_name()
    }

    /// Items up to `end`, with recovery after each that fails. `end` is not taken.
    fn items<T>(
        &mut self,
        end: TokenKind,
        recover: fn(&mut Self),
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Vec<T> {
        let mut list = Vec::new();
        while !self.is(end) && self.kind() != TokenKind::Eof && !self.diags.is_full() {
            let (before, scopes, depth) = (self.at, self.scopes.mark(), self.depth);
            match item(self) {
                Ok(one) => list.push(one),
                Err(Failed) if self.quiet => return list,
                Err(Failed) => {
                    self.scopes.back_to(scopes);
                    self.depth = depth;
                    recover(self);
                    // Something is taken in each round.
                    if self.at == before && self.kind() != end {
                        self.advance();
                    }
                }
            }
        }
        list
    }

    /// `a, b, c` up to `end`, which is not taken. With `trailing` a comma may stand at the end.
    fn comma_list<T>(
        &mut self,
        end: TokenKind,
        trailing: bool,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut list = Vec::new();
        if self.is(end) {
            return Ok(list);
        }
        loop {
            list.push(item(self)?);
            if !self.accept(TokenKind::Comma) || (trailing && self.is(end)) {
                return Ok(list);
            }
        }
    }
}
