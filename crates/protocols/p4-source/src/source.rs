//! Where text came from: files, places in them, and the macros that text passed through.
//!
//! A [`Span`] always lies where the reader has to look: in the file, at the text itself, or at the use of the macro that
//! the text came out of. What the macro's body looks like is one step away ([`SourceMap::expansion`]). So a span of a node
//! that began in one macro and ended in another still is one stretch of one file.
use barewire_text::Place;
use std::fmt;
use std::sync::Arc;

/// One file of a [`SourceMap`]. The text on the command line (`-D`) is a file, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

/// One use of a macro. Zero: none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ExpansionId(pub u32);

/// A stretch of one file, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
    /// The macro that the text came out of.
    pub expansion: ExpansionId,
}

impl Span {
    /// What the compiler made without any text.
    pub const NONE: Span = Span { file: FileId(u32::MAX), start: 0, end: 0, expansion: ExpansionId(0) };

    /// A stretch of text as it stands in the file.
    pub fn new(file: FileId, start: u32, end: u32) -> Span {
        Span { file, start, end, expansion: ExpansionId(0) }
    }

    /// From the start of this one to the end of `other`. Where they lie in different files this one stays as it is.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        if self.is_none() {
            return other;
        }
        if self.file != other.file {
            return self;
        }
        let expansion = if self.expansion == other.expansion { self.expansion } else { ExpansionId(0) };
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end), expansion }
    }

    /// The first bytes of it, no more than there are.
    #[must_use]
    pub fn first(self, bytes: u32) -> Span {
        Span { end: self.end.min(self.start.saturating_add(bytes)), ..self }
    }

    /// The place just after this one.
    #[must_use]
    pub fn after(self) -> Span {
        Span { start: self.end, ..self }
    }

    /// Whether there is no text behind it.
    pub fn is_none(self) -> bool {
        self.file == Span::NONE.file
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("-");
        }
        write!(f, "{}:{}..{}", self.file.0, self.start, self.end)
    }
}

/// One use of a macro.
#[derive(Clone, Debug)]
pub struct Expansion {
    /// The macro.
    pub name: Arc<str>,
    /// Its use, in the file.
    pub used: Span,
    /// Its definition: the name behind `#define`. [`Span::NONE`] for those of the language.
    pub defined: Span,
}

/// What a file says about its own lines (`#line 7 "x.p4"`).
#[derive(Clone, Debug)]
pub(crate) struct LineMark {
    /// From this byte on.
    pub start: u32,
    /// What the line that begins here is called.
    pub line: u32,
    /// In which file, if not in this one.
    pub name: Option<Arc<str>>,
}

/// One file.
#[derive(Debug)]
pub struct SourceFile {
    name: Arc<str>,
    text: Arc<str>,
    lines: Vec<u32>,
    marks: Vec<LineMark>,
    included: Span,
    builtin: bool,
}

impl SourceFile {
    /// The name by which it was found.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The `#include` that brought it in, or [`Span::NONE`].
    pub fn included(&self) -> Span {
        self.included
    }

    /// Whether it is one of ours (`core.p4` and its like).
    pub fn is_builtin(&self) -> bool {
        self.builtin
    }

    /// Number of the line with this byte, from 0.
    pub fn line_index(&self, at: u32) -> usize {
        self.lines.partition_point(|&start| start <= at).saturating_sub(1)
    }

    /// Bytes of a line, from 0, with its end of line.
    pub fn line_range(&self, line: usize) -> std::ops::Range<usize> {
        let end = self.lines.get(line + 1).map_or(self.text.len(), |&e| e as usize);
        self.lines.get(line).map_or(end, |&s| s as usize)..end
    }

    /// How many lines it has.
    pub fn line_count(&self) -> usize {
        self.lines.len()
    }
}

/// A place as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The file, or what `#line` calls it.
    pub file: Arc<str>,
    /// Where in it; the line is the one that `#line` gives.
    pub at: Place,
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.at)
    }
}

/// All files of a program and all uses of macros in them.
#[derive(Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
    expansions: Vec<Expansion>,
}

impl SourceMap {
    /// An empty one.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a file. Of a file beyond 4 GiB only the start is kept.
    pub fn add(&mut self, name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> FileId {
        self.add_included(name, text, Span::NONE, false)
    }

    pub(crate) fn add_included(
        &mut self,
        name: impl Into<Arc<str>>,
        text: impl Into<Arc<str>>,
        included: Span,
        builtin: bool,
    ) -> FileId {
        let mut text: Arc<str> = text.into();
        if u32::try_from(text.len()).is_err() {
            let mut end = u32::MAX as usize - 1;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text = text[..end].into();
        }
        let starts = text.bytes().enumerate().filter(|&(_, b)| b == b'\n').map(|(i, _)| i as u32 + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        let id = FileId(self.files.len() as u32);
        self.files.push(SourceFile { name: name.into(), text, lines, marks: Vec::new(), included, builtin });
        id
    }

    /// All files, in the order in which they were found.
    pub fn files(&self) -> impl Iterator<Item = (FileId, &SourceFile)> {
        self.files.iter().enumerate().map(|(i, f)| (FileId(i as u32), f))
    }

    /// A file of this map. None for [`Span::NONE`]'s.
    pub fn file(&self, id: FileId) -> Option<&SourceFile> {
        self.files.get(id.0 as usize)
    }

    /// The text of a span, as it stands in the file.
    pub fn text(&self, span: Span) -> &str {
        self.file(span.file).and_then(|f| f.text.get(span.start as usize..span.end as usize)).unwrap_or("")
    }

    /// Where a span starts, with `#line` taken into account.
    pub fn place(&self, span: Span) -> Option<FilePlace> {
        let file = self.file(span.file)?;
        let index = file.line_index(span.start);
        let line_start = file.line_range(index).start;
        let before = file.text.get(line_start..span.start as usize).unwrap_or("");
        let (file, line) = self.presumed(file, index);
        Some(FilePlace { file, at: Place { line, column: before.chars().count() as u32 + 1 } })
    }

    /// What a line (from 0) is called: file and line from 1.
    pub(crate) fn presumed(&self, file: &SourceFile, index: usize) -> (Arc<str>, u32) {
        let start = file.line_range(index).start as u32;
        let Some(mark) = file.marks.iter().rev().find(|m| m.start <= start) else {
            return (file.name.clone(), index as u32 + 1);
        };
        let since = (index - file.line_index(mark.start)) as u32;
        (mark.name.clone().unwrap_or_else(|| file.name.clone()), mark.line.saturating_add(since))
    }

    pub(crate) fn mark_line(&mut self, file: FileId, mark: LineMark) {
        if let Some(file) = self.files.get_mut(file.0 as usize) {
            // A file that is read twice says the same twice.
            if file.marks.last().is_none_or(|last| last.start < mark.start) {
                file.marks.push(mark);
            }
        }
    }

    /// What the file said of its lines last, before a byte.
    pub(crate) fn mark_before(&self, file: FileId, at: u32) -> Option<&LineMark> {
        self.file(file)?.marks.iter().rev().find(|m| m.start < at)
    }

    pub(crate) fn expand(&mut self, expansion: Expansion) -> ExpansionId {
        self.expansions.push(expansion);
        ExpansionId(self.expansions.len() as u32)
    }

    /// The macro that a span came out of.
    pub fn expansion(&self, span: Span) -> Option<&Expansion> {
        self.expansions.get((span.expansion.0 as usize).checked_sub(1)?)
    }
}
