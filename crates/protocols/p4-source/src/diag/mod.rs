//! What is wrong with a program, where, and what would help: collected in [`Diagnostics`], drawn by [`render`] for people and
//! by [`to_json`] for editors.
mod json;
mod render;

pub use json::to_json;
pub use render::{Style, render, render_all};

use crate::source::Span;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// For information.
    Note,
    /// The program is accepted.
    Warning,
    /// The program is refused.
    Error,
}

impl Severity {
    /// As in messages.
    pub fn text(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// A place that has to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is there; may be empty for the main place.
    pub text: String,
    /// Whether this is the place itself, not one that explains.
    pub primary: bool,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// Stable name of the kind, in words with dashes: `syntax`, `not-found`, `type-error`. Warnings are switched off by it
    /// (`@noWarn("unused")`).
    pub code: &'static str,
    /// One sentence, without a full stop.
    pub message: String,
    /// Places; the first primary one is where the message is said to be.
    pub labels: Vec<Label>,
    /// More to know.
    pub notes: Vec<String>,
    /// What would help.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// A message at a place.
    pub fn new(severity: Severity, code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        let main = Label { span, text: String::new(), primary: true };
        let labels = if span.is_none() { Vec::new() } else { vec![main] };
        Diagnostic { severity, code, message: message.into(), labels, notes: Vec::new(), help: Vec::new() }
    }

    /// An error at a place.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Error, code, span, message)
    }

    /// A warning at a place.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Severity::Warning, code, span, message)
    }

    /// What stands beside the caret of the main place.
    #[must_use]
    pub fn here(mut self, text: impl Into<String>) -> Diagnostic {
        if let Some(label) = self.labels.iter_mut().find(|l| l.primary) {
            label.text = text.into();
        }
        self
    }

    /// Another place that explains it.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        if !span.is_none() {
            self.labels.push(Label { span, text: text.into(), primary: false });
        }
        self
    }

    /// More to know.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    /// What would help.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help.push(text.into());
        self
    }

    /// The main place, or [`Span::NONE`].
    pub fn span(&self) -> Span {
        self.labels.iter().find(|l| l.primary).map_or(Span::NONE, |l| l.span)
    }
}

/// How many errors are kept.
pub const ERRORS_MAX: usize = 50;
/// How many warnings and notes are kept.
pub const WARNINGS_MAX: usize = 200;

/// Messages in the order in which they were found, up to a limit.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
    errors_max: usize,
}

impl Default for Diagnostics {
    fn default() -> Diagnostics {
        Diagnostics::with_limit(ERRORS_MAX)
    }
}

impl Diagnostics {
    /// Keeps up to [`ERRORS_MAX`] errors.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Keeps up to so many errors, one at least.
    pub fn with_limit(errors_max: usize) -> Diagnostics {
        Diagnostics { list: Vec::new(), errors: 0, warnings: 0, errors_max: errors_max.max(1) }
    }

    /// Adds a message. One beyond the limit is counted only; one that says the same at the same place is left out.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let (count, max) = match diagnostic.severity {
            Severity::Error => (&mut self.errors, self.errors_max),
            Severity::Warning | Severity::Note => (&mut self.warnings, WARNINGS_MAX),
        };
        if *count < max {
            let span = diagnostic.span();
            let same = |d: &Diagnostic| d.span() == span && d.message == diagnostic.message;
            if self.list.iter().any(same) {
                return;
            }
            self.list.push(diagnostic);
        }
        *count += 1;
    }

    /// All that were kept, in the order in which they were found.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Whether there was an error.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Number of errors, with those that were not kept.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// Number of warnings and notes, with those that were not kept.
    pub fn warning_count(&self) -> usize {
        self.warnings
    }

    /// Whether a further error would not be kept: time to stop.
    pub fn is_full(&self) -> bool {
        self.errors >= self.errors_max
    }

    /// The first error.
    pub fn first_error(&self) -> Option<&Diagnostic> {
        self.list.iter().find(|d| d.severity == Severity::Error)
    }

    /// Leaves out what `keep` says no to (warnings that were switched off).
    pub fn retain(&mut self, mut keep: impl FnMut(&Diagnostic) -> bool) {
        let (mut errors, mut warnings) = (0, 0);
        self.list.retain(|d| {
            let kept = keep(d);
            if !kept && d.severity == Severity::Error {
                errors += 1;
            } else if !kept {
                warnings += 1;
            }
            kept
        });
        self.errors -= errors;
        self.warnings -= warnings;
    }
}
