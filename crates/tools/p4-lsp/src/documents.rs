//! Texts that are open in the editor, over the file system.
use std::collections::HashMap;

use barewire_p4_source::ast::Program;
use barewire_p4_source::diag::{Diagnostic, Severity};
use barewire_p4_source::{Diagnostics, FileId, Options, Resolver, SourceMap, Span, parse};
use lsp_types::{DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Uri};

use crate::places;

pub struct Documents<'a> {
    files: &'a dyn Resolver,
    options: Options,
    open: HashMap<String, String>,
}

/// A program that was read.
pub struct Read {
    pub map: SourceMap,
    pub program: Program,
    pub diagnostics: Diagnostics,
    /// The document itself.
    pub root: FileId,
}

impl Resolver for Documents<'_> {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        match self.open.get(path) {
            Some(text) => Ok(Some(text.clone().into_bytes())),
            None => self.files.read(path),
        }
    }
}

/// What a URI is called here: its path, or itself (a text that has no file yet).
fn key(uri: &Uri) -> String {
    places::path(uri).unwrap_or_else(|| uri.as_str().to_owned())
}

impl<'a> Documents<'a> {
    pub fn new(files: &'a dyn Resolver, options: Options) -> Documents<'a> {
        Documents { files, options, open: HashMap::new() }
    }

    pub fn put(&mut self, uri: &Uri, text: String) {
        self.open.insert(key(uri), text);
    }

    pub fn remove(&mut self, uri: &Uri) {
        self.open.remove(&key(uri));
    }

    pub fn text(&self, uri: &Uri) -> Option<&str> {
        self.open.get(&key(uri)).map(String::as_str)
    }

    /// Reads a document with all that it includes. None: it is not open.
    pub fn read(&self, uri: &Uri) -> Option<Read> {
        let path = key(uri);
        if !self.open.contains_key(&path) {
            return None;
        }
        let (mut map, mut diagnostics) = (SourceMap::new(), Diagnostics::new());
        let program = parse(&mut map, self, &self.options, &path, &mut diagnostics);
        // What does not parse would only be told of twice.
        if diagnostics.error_count() == 0 {
            barewire_p4_source::types::check(&program, &map, &mut diagnostics);
        }
        let root = map.files().find(|(_, f)| f.name() == path).map(|(id, _)| id)?;
        Some(Read { map, program, diagnostics, root })
    }
}

impl Read {
    /// The messages of the document. Those of a file that it includes stand at the `#include`.
    pub fn messages(&self) -> Vec<lsp_types::Diagnostic> {
        self.diagnostics.iter().map(|d| self.message(d)).collect()
    }

    /// The place in the document: the span itself, or the `#include` that led to it.
    fn shown(&self, mut span: Span) -> Span {
        while span.file != self.root {
            match self.map.file(span.file) {
                Some(file) => span = file.included(),
                None => return Span::new(self.root, 0, 0),
            }
        }
        span
    }

    pub fn location(&self, span: Span) -> Option<Location> {
        let file = self.map.file(span.file)?;
        let uri = places::uri(file.name())?;
        Some(Location { uri, range: places::range(&self.map, span) })
    }

    fn message(&self, diagnostic: &Diagnostic) -> lsp_types::Diagnostic {
        let span = diagnostic.span();
        let severity = match diagnostic.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Note => DiagnosticSeverity::INFORMATION,
        };
        let mut text = diagnostic.message.clone();
        for line in &diagnostic.notes {
            text.push_str(&format!("\nnote: {line}"));
        }
        for line in &diagnostic.help {
            text.push_str(&format!("\nhelp: {line}"));
        }
        let inside = (span.file != self.root).then_some((span, diagnostic.message.clone()));
        let labels = diagnostic.labels.iter().filter(|l| !l.primary).map(|l| (l.span, l.text.clone()));
        let related: Vec<DiagnosticRelatedInformation> = inside
            .into_iter()
            .chain(labels)
            .filter_map(|(span, message)| {
                Some(DiagnosticRelatedInformation { location: self.location(span)?, message })
            })
            .collect();
        lsp_types::Diagnostic {
            range: places::range(&self.map, self.shown(span)),
            severity: Some(severity),
            code: Some(NumberOrString::String(diagnostic.code.to_owned())),
            source: Some("barewire".to_owned()),
            message: text,
            related_information: (!related.is_empty()).then_some(related),
            ..lsp_types::Diagnostic::default()
        }
    }
}
