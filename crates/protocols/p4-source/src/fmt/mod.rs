//! The formatter: the same program, laid out in one way.
//!
//! ```text
//! atoms    text -> tokens, comments, directives, annotations: what must be kept, each with the line breaks before it
//! angles   which `<` opens type arguments, which is "less than"; which `{` opens a block, which a list
//! layout   line breaks, indentation, blanks -> text
//! ```
//! It works on the text as it stands, not on the syntax tree, so that directives and macros stay what they are, and both
//! branches of an `#if` are laid out. Line breaks inside statements are the author's; those between statements, and blanks and
//! indentation, are ours. The result has the same atoms as the source, or [`format()`] fails: it is checked each time.
mod atoms;
mod brackets;
mod layout;
#[cfg(test)]
mod tests;

use std::fmt;

use atoms::{Atom, Kind};

/// Why a text cannot be formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// A string or a comment has no end: which is text is not known. With the offset where it starts.
    NoEnd(usize),
    /// A backslash that continues no line: whether it would after layout is not known. With its offset.
    Stray(usize),
    /// The result would not have been the same program. This is a defect of the formatter.
    Changed(String),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::NoEnd(_) => f.write_str("a string or a comment has no end"),
            FormatError::Stray(_) => f.write_str("a backslash continues no line"),
            FormatError::Changed(what) => {
                write!(f, "formatting would change the program at {what}; the file stays as it is")
            }
        }
    }
}

impl std::error::Error for FormatError {}

/// How often a text is laid out until nothing moves. One whose brackets are in pairs does not move the second time.
const PASSES_MAX: usize = 4;

/// The text laid out. Formatting the result again changes nothing.
///
/// # Errors
/// The text has an open string or comment or a stray backslash, or the check of the result fails.
pub fn format(text: &str) -> Result<String, FormatError> {
    let atoms = atoms::cut(text)?;
    let mut out = layout::lay_out(&atoms);
    for _ in 0..PASSES_MAX {
        let again = atoms::cut(&out).map_err(|_| FormatError::Changed("the end".to_owned()))?;
        if let Some(what) = difference(&atoms, &again) {
            return Err(FormatError::Changed(what));
        }
        let next = layout::lay_out(&again);
        if next == out {
            return Ok(out);
        }
        out = next;
    }
    Err(FormatError::Changed("the layout, which does not come to rest".to_owned()))
}

/// The first atom that is not the same.
fn difference(before: &[Atom], after: &[Atom]) -> Option<String> {
    let different = before.iter().zip(after).find(|(a, b)| !a.same(b));
    match different {
        Some((a, b)) => Some(format!("`{}`, which would become `{}`", a.text, b.text)),
        None if before.len() != after.len() => {
            Some(format!("the end: {} words, {} before", after.len(), before.len()))
        }
        None => None,
    }
}

impl Atom<'_> {
    fn same(&self, other: &Atom) -> bool {
        if self.kind != other.kind {
            return false;
        }
        match self.kind {
            // Lines of comments are moved.
            Kind::LineComment | Kind::BlockComment | Kind::Directive | Kind::Pragma => {
                let lines = |text: &str| text.lines().map(|l| l.trim().to_owned()).collect::<Vec<_>>();
                lines(&self.text) == lines(&other.text)
            }
            _ => self.text == other.text,
        }
    }
}
