//! `@noWarn("NAME")`: no warnings of that name in the declaration behind it.

use crate::ast::{Annotation, Decl, DeclKind, Program};
use crate::diag::{Diagnostic, Severity};
use crate::source::Span;

/// Where which warnings are not wanted.
#[derive(Default)]
pub(super) struct Silence {
    places: Vec<(Span, String)>,
}

impl Silence {
    pub(super) fn of(program: &Program) -> Self {
        let mut silence = Self::default();
        program.decls.iter().for_each(|decl| silence.decl(decl));
        silence
    }

    fn place(&mut self, annotations: &[Annotation], span: Span) {
        for note in annotations.iter().filter(|note| &note.name == "noWarn") {
            if let Some(code) = note.string() {
                self.places.push((span, code));
            }
        }
    }

    fn decl(&mut self, decl: &Decl) {
        self.place(&decl.annotations, decl.span);
        match &decl.kind {
            DeclKind::Control(it) => it.locals.iter().for_each(|local| self.decl(local)),
            DeclKind::Parser(it) => {
                it.locals.iter().for_each(|local| self.decl(local));
                it.states.iter().for_each(|state| self.place(&state.annotations, state.span));
            }
            DeclKind::Instance(it) => it.body.iter().flatten().for_each(|inner| self.decl(inner)),
            _ => {}
        }
    }

    /// Is this a warning that is not wanted at its place?
    pub(super) fn covers(&self, problem: &Diagnostic) -> bool {
        let at = problem.span();
        problem.severity != Severity::Error
            && self.places.iter().any(|(span, code)| {
                span.file == at.file && span.start <= at.start && at.end <= span.end && code == problem.code
            })
    }
}
