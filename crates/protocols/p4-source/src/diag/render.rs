//! Messages for people: place, line, caret, labels, help.
use std::ops::Range;

use codespan_reporting::diagnostic as cs;
use codespan_reporting::files::{Error, Files};
use codespan_reporting::term;

use super::{Diagnostic, Diagnostics, Label, Severity};
use crate::source::{FileId, SourceFile, SourceMap, Span};

/// How messages look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// With the lines and carets, without colour.
    Plain,
    /// With the lines and carets, with colours of a terminal (ANSI).
    Coloured,
    /// One line a message: `file:line:column: error: …`.
    Short,
}

/// What is shown of a file: lines under the names that `#line` gives them.
struct Shown<'a>(&'a SourceMap);

impl Shown<'_> {
    fn file(&self, id: FileId) -> Result<&SourceFile, Error> {
        self.0.file(id).ok_or(Error::FileMissing)
    }
}

impl<'a> Files<'a> for Shown<'a> {
    type FileId = FileId;
    type Name = &'a str;
    type Source = &'a str;

    fn name(&'a self, id: FileId) -> Result<&'a str, Error> {
        Ok(self.file(id)?.name())
    }

    fn source(&'a self, id: FileId) -> Result<&'a str, Error> {
        Ok(self.file(id)?.text())
    }

    fn line_index(&'a self, id: FileId, at: usize) -> Result<usize, Error> {
        Ok(self.file(id)?.line_index(at as u32))
    }

    fn line_range(&'a self, id: FileId, line: usize) -> Result<Range<usize>, Error> {
        let file = self.file(id)?;
        if line >= file.line_count() {
            return Err(Error::LineTooLarge { given: line, max: file.line_count().saturating_sub(1) });
        }
        Ok(file.line_range(line))
    }
}

/// One message as text that ends with an end of line.
pub fn render(map: &SourceMap, diagnostic: &Diagnostic, style: Style) -> String {
    if style == Style::Short {
        return short(map, diagnostic);
    }
    let message = translate(map, diagnostic);
    let config = term::Config::default();
    let files = Shown(map);
    let mut out = String::new();
    let drawn = match style {
        Style::Coloured => {
            let mut bytes = term::termcolor::Ansi::new(Vec::new());
            let drawn = term::emit_to_write_style(&mut bytes, &config, &files, &message);
            out = String::from_utf8_lossy(&bytes.into_inner()).into_owned();
            drawn
        }
        Style::Plain | Style::Short => term::emit_to_string(&mut out, &config, &files, &message),
    };
    match drawn {
        Ok(()) => out,
        // A place that is not in the map: the message is still worth showing.
        Err(_) => short(map, diagnostic),
    }
}

/// All messages, and how many there were if some are not shown.
pub fn render_all(map: &SourceMap, diagnostics: &Diagnostics, style: Style) -> String {
    let mut out: String = diagnostics.iter().map(|d| render(map, d, style)).collect();
    let shown = diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    if diagnostics.error_count() > shown {
        out.push_str(&format!("{} more errors are not shown\n", diagnostics.error_count() - shown));
    }
    out
}

fn short(map: &SourceMap, diagnostic: &Diagnostic) -> String {
    let mut out = String::new();
    if let Some(place) = map.place(diagnostic.span()) {
        out.push_str(&format!("{place}: "));
    }
    out.push_str(&format!("{}: {} [{}]", diagnostic.severity.text(), diagnostic.message, diagnostic.code));
    for help in &diagnostic.help {
        out.push_str(&format!("; help: {help}"));
    }
    out.push('\n');
    out
}

fn translate(map: &SourceMap, diagnostic: &Diagnostic) -> cs::Diagnostic<FileId> {
    let severity = match diagnostic.severity {
        Severity::Note => cs::Severity::Note,
        Severity::Warning => cs::Severity::Warning,
        Severity::Error => cs::Severity::Error,
    };
    let mut labels: Vec<Label> = diagnostic.labels.clone();
    let mut notes: Vec<String> = diagnostic.notes.iter().map(|n| format!("note: {n}")).collect();
    let main = diagnostic.span();
    let expansion = map.expansion(main);
    if let Some(expansion) = expansion {
        let text = format!("in the macro `{}`", expansion.name);
        labels.push(Label { span: expansion.defined, text, primary: false });
    }
    notes.extend(included(map, main));
    notes.extend(diagnostic.help.iter().map(|h| format!("help: {h}")));
    let labels = labels.into_iter().filter_map(|l| {
        let length = map.file(l.span.file)?.text().len();
        let range = (l.span.start as usize).min(length)..(l.span.end as usize).min(length);
        let style = if l.primary { cs::LabelStyle::Primary } else { cs::LabelStyle::Secondary };
        Some(cs::Label::new(style, l.span.file, range).with_message(l.text))
    });
    cs::Diagnostic::new(severity)
        .with_message(&diagnostic.message)
        .with_code(diagnostic.code)
        .with_labels(labels.collect())
        .with_notes(notes)
}

/// What a reader has to know of the place beside the file: what brought it in, and what `#line` calls it.
fn included(map: &SourceMap, main: Span) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(file) = map.file(main.file) else { return notes };
    if let Some(place) = map.place(main)
        && (place.file.as_ref() != file.name() || place.at.line as usize != file.line_index(main.start) + 1)
    {
        notes.push(format!("note: this line says that it is {}:{}", place.file, place.at.line));
    }
    if !file.is_builtin()
        && let Some(place) = map.place(file.included())
    {
        notes.push(format!("note: {} is included from {}:{}", file.name(), place.file, place.at.line));
    }
    notes
}
