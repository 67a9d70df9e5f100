//! The outline of a document.
use barewire_p4_source::Span;
use barewire_p4_source::ast::{Decl, DeclKind, Ident, StructKind};
use lsp_types::{DocumentSymbol, SymbolKind};

use crate::documents::Read;
use crate::places::range;

/// Declarations of the document itself, not of what it includes.
pub fn all(read: &Read) -> Vec<DocumentSymbol> {
    read.program.decls.iter().filter(|d| d.span.file == read.root).filter_map(|d| symbol(read, d)).collect()
}

#[allow(deprecated, reason = "the field is deprecated and has to be set")]
fn make(
    read: &Read,
    name: &Ident,
    span: Span,
    kind: SymbolKind,
    children: Vec<DocumentSymbol>,
) -> DocumentSymbol {
    DocumentSymbol {
        name: name.to_string(),
        detail: None,
        kind,
        tags: None,
        deprecated: None,
        range: range(&read.map, span.to(name.span)),
        selection_range: range(&read.map, name.span),
        children: (!children.is_empty()).then_some(children),
    }
}

fn symbol(read: &Read, decl: &Decl) -> Option<DocumentSymbol> {
    let name = decl.name()?;
    let locals = |list: &[Decl]| list.iter().filter_map(|d| symbol(read, d)).collect::<Vec<_>>();
    let (kind, children) = match &decl.kind {
        DeclKind::Const(_) => (SymbolKind::CONSTANT, Vec::new()),
        DeclKind::Variable(_) => (SymbolKind::VARIABLE, Vec::new()),
        DeclKind::Instance(d) => (SymbolKind::OBJECT, locals(d.body.as_deref().unwrap_or(&[]))),
        DeclKind::Extern(d) => {
            let method = |m: &barewire_p4_source::ast::Method| {
                let kind = if m.is_constructor() { SymbolKind::CONSTRUCTOR } else { SymbolKind::METHOD };
                make(read, &m.proto.name, m.span, kind, Vec::new())
            };
            (SymbolKind::CLASS, d.methods.iter().map(method).collect())
        }
        DeclKind::ExternFunction(_) | DeclKind::Function(_) | DeclKind::Action(_) => {
            (SymbolKind::FUNCTION, Vec::new())
        }
        DeclKind::Struct(d) => {
            let field = |f: &barewire_p4_source::ast::Field| {
                make(read, &f.name, f.span, SymbolKind::FIELD, Vec::new())
            };
            let kind =
                if d.kind == StructKind::HeaderUnion { SymbolKind::INTERFACE } else { SymbolKind::STRUCT };
            (kind, d.fields.iter().map(field).collect())
        }
        DeclKind::Enum(d) => {
            let member = |m: &barewire_p4_source::ast::Member| {
                make(read, &m.name, m.span, SymbolKind::ENUM_MEMBER, Vec::new())
            };
            (SymbolKind::ENUM, d.members.iter().map(member).collect())
        }
        DeclKind::Typedef(_) => (SymbolKind::TYPE_PARAMETER, Vec::new()),
        DeclKind::ParserType(_) | DeclKind::ControlType(_) | DeclKind::PackageType(_) => {
            (SymbolKind::INTERFACE, Vec::new())
        }
        DeclKind::Parser(d) => {
            let state = |s: &barewire_p4_source::ast::State| {
                make(read, &s.name, s.span, SymbolKind::EVENT, Vec::new())
            };
            let mut children = locals(&d.locals);
            children.extend(d.states.iter().map(state));
            (SymbolKind::MODULE, children)
        }
        DeclKind::Control(d) => (SymbolKind::MODULE, locals(&d.locals)),
        DeclKind::Table(_) => (SymbolKind::ARRAY, Vec::new()),
        DeclKind::ValueSet(_) => (SymbolKind::ARRAY, Vec::new()),
        DeclKind::Error(_) | DeclKind::MatchKind(_) => return None,
    };
    Some(make(read, name, decl.span, kind, children))
}
