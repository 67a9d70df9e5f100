//! Names: what could be written at the cursor, and where the name under it is declared: the innermost declaration of that name around the cursor, else one of the top level,
//! else a member of that name.
use std::collections::BTreeMap;

use barewire_p4_source::Span;
use barewire_p4_source::ast::{Decl, DeclKind, Ident, Param, StmtKind, Type, TypeParam};
use barewire_p4_source::lex::{Piece, TokenKind, piece};
use lsp_types::{
    CompletionItem, CompletionItemKind, GotoDefinitionResponse, Hover, HoverContents, MarkupContent,
    MarkupKind, Position,
};

use crate::documents::Read;
use crate::members;
use crate::places;

/// A declaration that was found.
pub(crate) struct Found<'p> {
    label: String,
    /// What it is of, if it has a type, and the declaration, if it is one of its own.
    pub(crate) ty: Option<&'p Type>,
    pub(crate) decl: Option<&'p Decl>,
    name: Span,
    /// What is shown of it.
    whole: Span,
    /// Where it holds; none: everywhere.
    scope: Option<Span>,
    /// Reached through a dot.
    pub(crate) member: bool,
}

impl Found<'_> {
    /// How far it holds: the smaller, the nearer.
    pub(crate) fn reach(&self) -> u32 {
        self.scope.map_or(u32::MAX, |scope| scope.end - scope.start)
    }
}

pub fn definition(read: &Read, position: Position) -> Option<GotoDefinitionResponse> {
    let found = find(read, position)?;
    // Built-in files are nowhere to go.
    Some(GotoDefinitionResponse::Scalar(read.location(found.name)?))
}

pub fn hover(read: &Read, position: Position) -> Option<Hover> {
    let found = find(read, position)?;
    let text = read.map.text(found.whole);
    // The head of a long declaration.
    let lines: Vec<&str> = text.lines().take(12).collect();
    let mut value = format!("```p4\n{}\n```", lines.join("\n"));
    let file = read.map.file(found.name.file)?;
    if found.name.file != read.root {
        value.push_str(&format!("\nin {}", file.name()));
    }
    Some(Hover {
        contents: HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value }),
        range: None,
    })
}

/// The word under the cursor, and whether a dot is before it.
fn word(text: &str, at: usize) -> Option<(&str, bool)> {
    let (mut here, mut dot) = (0, false);
    while here < text.len() {
        let (kind, end) = piece(text.as_bytes(), here);
        if here <= at && at <= end && kind == Piece::Token(TokenKind::Ident) {
            return Some((&text[here..end], dot));
        }
        if here > at {
            return None;
        }
        match kind {
            Piece::Token(kind) => dot = kind == TokenKind::Dot,
            Piece::Space | Piece::Newline | Piece::Splice => {}
            _ => dot = false,
        }
        here = end;
    }
    None
}

fn find(read: &Read, position: Position) -> Option<Found<'_>> {
    let text = read.map.file(read.root)?.text();
    let at = places::offset(text, position);
    let (name, dot) = word(text, at)?;
    let found = search(read, at, Some(name));
    // Members after a dot, others elsewhere, if there are any; then the smallest scope; of two, the last before the cursor.
    let behind = |f: &Found| f.name.file == read.root && f.name.start as usize > at;
    found.into_iter().min_by_key(|f| (f.member != dot, f.reach(), behind(f)))
}

/// Declarations of a name, or of all, that hold at a byte of the document.
pub(crate) fn search<'p>(read: &'p Read, at: usize, name: Option<&str>) -> Vec<Found<'p>> {
    let mut search = Search { name, found: Vec::new() };
    for decl in &read.program.decls {
        search.decl(decl, None);
    }
    let inside = |scope: Span| scope.start as usize <= at && at <= scope.end as usize;
    let mut found = search.found;
    found.retain(|f| f.scope.is_none_or(|scope| scope.file == read.root && inside(scope)));
    found
}

/// What could be written at the cursor: members behind a dot, names that hold there and keywords elsewhere.
pub fn completion(read: &Read, position: Position) -> Vec<CompletionItem> {
    let Some(file) = read.map.file(read.root) else { return Vec::new() };
    let text = file.text();
    let at = places::offset(text, position);
    let before = text[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let dot = before.ends_with('.') && !before.ends_with("..");
    let item = |label: &str, kind| CompletionItem {
        label: label.to_owned(),
        kind: Some(kind),
        ..CompletionItem::default()
    };
    if dot && let Some(known) = members::of(read, before) {
        return known.into_iter().map(|(label, kind)| item(&label, kind)).collect();
    }
    let mut items: BTreeMap<String, CompletionItem> = BTreeMap::new();
    for found in search(read, at, None) {
        if found.member == dot {
            let kind = if dot { CompletionItemKind::FIELD } else { CompletionItemKind::VARIABLE };
            items.entry(found.label.clone()).or_insert_with(|| item(&found.label, kind));
        }
    }
    let words: &[&str] = if dot { &["apply"] } else { WORDS };
    for word in words {
        items.entry((*word).to_owned()).or_insert_with(|| item(word, CompletionItemKind::KEYWORD));
    }
    items.into_values().collect()
}

/// Words that programs are written with.
const WORDS: &[&str] = &[
    "action",
    "actions",
    "apply",
    "bit",
    "bool",
    "break",
    "const",
    "continue",
    "control",
    "default",
    "default_action",
    "else",
    "entries",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "for",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "key",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "size",
    "state",
    "struct",
    "switch",
    "table",
    "transition",
    "true",
    "tuple",
    "type",
    "typedef",
    "value_set",
    "varbit",
    "void",
];

struct Search<'a, 'p> {
    /// None: every name.
    name: Option<&'a str>,
    found: Vec<Found<'p>>,
}

impl<'p> Search<'_, 'p> {
    fn add(&mut self, name: &'p Ident, whole: Span, scope: Option<Span>, member: bool) {
        if self.name.is_none_or(|wanted| &name.name[..] == wanted) {
            let (label, name) = (name.to_string(), name.span);
            self.found.push(Found { label, ty: None, decl: None, name, whole, scope, member });
        }
    }

    /// The same of something with a type.
    fn add_typed(&mut self, name: &'p Ident, ty: &'p Type, whole: Span, scope: Option<Span>, member: bool) {
        let before = self.found.len();
        self.add(name, whole, scope, member);
        self.found[before..].iter_mut().for_each(|found| found.ty = Some(ty));
    }

    fn params(&mut self, types: &'p [TypeParam], params: &'p [Param], scope: Span) {
        for ty in types {
            self.add(&ty.name, ty.name.span, Some(scope), false);
        }
        for param in params {
            self.add_typed(&param.name, &param.ty, param.span, Some(scope), false);
        }
    }

    fn stmts(&mut self, stmts: &'p [barewire_p4_source::ast::Stmt], scope: Span) {
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Decl(decl) => self.decl(decl, Some(scope)),
                StmtKind::Block(block) => self.stmts(&block.stmts, block.span),
                StmtKind::If(chain) => {
                    for arm in &chain.arms {
                        self.stmts(std::slice::from_ref(&arm.body), arm.body.span);
                    }
                    if let Some(otherwise) = &chain.otherwise {
                        self.stmts(std::slice::from_ref(&**otherwise), otherwise.span);
                    }
                }
                StmtKind::Switch(switch) => {
                    for block in switch.cases.iter().filter_map(|c| c.body.as_ref()) {
                        self.stmts(&block.stmts, block.span);
                    }
                }
                StmtKind::For(f) => {
                    self.stmts(&f.init, stmt.span);
                    self.stmts(std::slice::from_ref(&f.body), stmt.span);
                }
                StmtKind::ForIn(f) => {
                    self.decl(&f.variable, Some(stmt.span));
                    self.stmts(std::slice::from_ref(&f.body), stmt.span);
                }
                _ => {}
            }
        }
    }

    fn decl(&mut self, decl: &'p Decl, scope: Option<Span>) {
        let inside = decl.span;
        if let Some(name) = decl.name() {
            let before = self.found.len();
            self.add(name, decl.span, scope, false);
            let ty = match &decl.kind {
                DeclKind::Const(d) => Some(&d.ty),
                DeclKind::Variable(d) => Some(&d.ty),
                DeclKind::Instance(d) => Some(&d.ty),
                _ => None,
            };
            self.found[before..].iter_mut().for_each(|found| (found.ty, found.decl) = (ty, Some(decl)));
        }
        match &decl.kind {
            DeclKind::Instance(d) => {
                for one in d.body.iter().flatten() {
                    self.decl(one, Some(inside));
                }
            }
            DeclKind::Extern(d) => {
                self.params(&d.type_params, &[], inside);
                for method in &d.methods {
                    self.add(&method.proto.name, method.span, None, true);
                    self.params(&method.proto.type_params, &method.proto.params, method.span);
                }
            }
            DeclKind::ExternFunction(d) => self.params(&d.type_params, &d.params, inside),
            DeclKind::Function(d) => {
                self.params(&d.proto.type_params, &d.proto.params, inside);
                self.stmts(&d.body.stmts, d.body.span);
            }
            DeclKind::Action(d) => {
                self.params(&[], &d.params, inside);
                self.stmts(&d.body.stmts, d.body.span);
            }
            DeclKind::Struct(d) => {
                self.params(&d.type_params, &[], inside);
                for field in &d.fields {
                    self.add_typed(&field.name, &field.ty, field.span, None, true);
                }
            }
            DeclKind::Enum(d) => {
                for member in &d.members {
                    self.add(&member.name, member.span, None, true);
                }
            }
            DeclKind::Error(members) => {
                for member in members {
                    self.add(&member.name, member.span, None, true);
                }
            }
            DeclKind::MatchKind(members) => {
                for member in members {
                    self.add(&member.name, member.span, None, false);
                }
            }
            DeclKind::ParserType(d) | DeclKind::ControlType(d) | DeclKind::PackageType(d) => {
                self.params(&d.type_params, &d.params, inside);
            }
            DeclKind::Parser(d) => {
                self.params(&d.head.type_params, &d.head.params, inside);
                self.params(&[], &d.constructor_params, inside);
                for local in &d.locals {
                    self.decl(local, Some(inside));
                }
                for state in &d.states {
                    self.add(&state.name, state.span, Some(inside), false);
                    self.stmts(&state.stmts, state.span);
                }
            }
            DeclKind::Control(d) => {
                self.params(&d.head.type_params, &d.head.params, inside);
                self.params(&[], &d.constructor_params, inside);
                for local in &d.locals {
                    self.decl(local, Some(inside));
                }
                self.stmts(&d.apply.stmts, d.apply.span);
            }
            DeclKind::Const(_)
            | DeclKind::Variable(_)
            | DeclKind::Typedef(_)
            | DeclKind::Table(_)
            | DeclKind::ValueSet(_) => {}
        }
    }
}
