//! What may be wrong with a program file, and where it is.

use super::json::{Json, Kind};
use barewire_text::{Place, Quote};
use std::fmt;

/// A value in a program file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPlace {
    /// The way from the root, such as `pipelines[0].tables[3].key[1].target`; empty for the root.
    pub path: String,
    /// The name of the innermost object around the place that has one.
    pub name: Option<String>,
    /// Where the value begins.
    pub at: Place,
}

impl fmt::Display for JsonPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.path.is_empty() { "the file" } else { &self.path })?;
        f.write_str(" (")?;
        if let Some(name) = &self.name {
            write!(f, "in '{name}', ")?;
        }
        write!(f, "line {}, column {})", self.at.line, self.at.column)
    }
}

/// Why a program was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file is not JSON.
    #[error("not JSON: line {}, column {}: {problem}", at.line, at.column)]
    Syntax {
        /// Where.
        at: Place,
        /// What is wrong.
        problem: SyntaxProblem,
    },
    /// The file is JSON, but not a program.
    #[error("{place}: {problem}")]
    Program {
        /// Where.
        place: JsonPlace,
        /// What is wrong.
        problem: Problem,
    },
    /// The program is sound, but asks for something that this switch does not do.
    #[error("{place}: {what} is not supported: {reason}")]
    Unsupported {
        /// Where.
        place: JsonPlace,
        /// What it asks for.
        what: String,
        /// Why it is refused.
        reason: String,
    },
}

impl ImportError {
    /// Where the problem is, if the file could be read as JSON at all.
    pub fn place(&self) -> Option<&JsonPlace> {
        match self {
            ImportError::Syntax { .. } => None,
            ImportError::Program { place, .. } | ImportError::Unsupported { place, .. } => Some(place),
        }
    }
}

/// What may be wrong with JSON text (RFC 8259).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SyntaxProblem {
    /// Something else was expected here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What was expected.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// The text ends too early.
    #[error("the text ends where {expected} is expected")]
    End {
        /// What was expected.
        expected: &'static str,
    },
    /// A string is malformed.
    #[error("bad string: {0}")]
    BadString(&'static str),
    /// A number is malformed.
    #[error("bad number")]
    BadNumber,
    /// An object has two members of one name.
    #[error("the object has two members named '{0}'")]
    DuplicateKey(String),
    /// Nesting beyond the limit.
    #[error("nested deeper than {0} levels")]
    TooDeep(usize),
    /// The file is larger than the limit.
    #[error("the file has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Bytes of the file.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// More values than the limit.
    #[error("more than {0} values")]
    TooMany(usize),
}

/// What may be wrong with a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// An object lacks a member.
    #[error("'{0}' is missing")]
    Missing(&'static str),
    /// A value is of the wrong kind.
    #[error("expected {expected}, found {found}")]
    Kind {
        /// What was expected.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A name or number refers to nothing.
    #[error("unknown {kind} '{name}'{}", hint(.nearest))]
    Unknown {
        /// What it should name.
        kind: &'static str,
        /// The name.
        name: String,
        /// The nearest name there is.
        nearest: Option<String>,
    },
    /// Two objects have one name or number.
    #[error("a second {kind} '{name}'")]
    Duplicate {
        /// What they are.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A number is beyond a limit.
    #[error("{what} is {value}, the limit is {limit}")]
    Limit {
        /// What it counts.
        what: &'static str,
        /// The number.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// A list has the wrong number of elements.
    #[error("{what}: expected {expected}, found {found}")]
    Count {
        /// What is counted.
        what: String,
        /// How many there should be.
        expected: String,
        /// How many there are.
        found: usize,
    },
    /// An expression or operand is of the wrong type.
    #[error("expected {expected}, found {found}")]
    Type {
        /// What was expected.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A value does not fit where it stands.
    #[error("{0}")]
    Value(String),
    /// The format's version is not one this importer reads.
    #[error("format version {major}.{minor}: only major version {} is read", super::MAJOR_VERSION)]
    Version {
        /// Its major version.
        major: i64,
        /// Its minor version.
        minor: i64,
    },
    /// A pipeline's nodes follow each other in a circle.
    #[error("the pipeline returns to '{0}': a control must not loop")]
    Cycle(String),
    /// Part of the program that does not make sense.
    #[error("{0}")]
    Invalid(String),
    /// Something sound that the switch does not do (becomes [`ImportError::Unsupported`]).
    #[error("{what} is not supported: {reason}")]
    Unsupported {
        /// What.
        what: String,
        /// Why.
        reason: String,
    },
}

fn hint(nearest: &Option<String>) -> String {
    barewire_text::hint(", ", nearest.as_deref(), Quote::Single)
}

/// The nearest of some words, to be kept in a [`Problem::Unknown`].
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    barewire_text::nearest(word, candidates).map(str::to_owned)
}

/// A problem at a value of the file, known by its offset; the place is worked out when the import is given up.
#[derive(Debug)]
pub(super) struct Fault {
    pub at: u32,
    pub problem: Box<Problem>,
}

pub(super) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    pub fn new(at: &Json<'_>, problem: Problem) -> Fault {
        Fault { at: at.at, problem: Box::new(problem) }
    }

    pub fn invalid<T>(at: &Json<'_>, text: impl Into<String>) -> Result<T> {
        Err(Fault::new(at, Problem::Invalid(text.into())))
    }

    pub fn value<T>(at: &Json<'_>, text: impl Into<String>) -> Result<T> {
        Err(Fault::new(at, Problem::Value(text.into())))
    }

    pub fn unsupported<T>(at: &Json<'_>, what: impl Into<String>, reason: impl Into<String>) -> Result<T> {
        Err(Fault::new(at, Problem::Unsupported { what: what.into(), reason: reason.into() }))
    }

    pub fn count<T>(
        at: &Json<'_>,
        what: impl Into<String>,
        expected: impl Into<String>,
        found: usize,
    ) -> Result<T> {
        Err(Fault::new(at, Problem::Count { what: what.into(), expected: expected.into(), found }))
    }

    /// The error with its place in the text.
    pub fn into_error(self, source: &str, root: &Json<'_>) -> ImportError {
        let place = place_of(self.at, source, root);
        match *self.problem {
            Problem::Unsupported { what, reason } => ImportError::Unsupported { place, what, reason },
            problem => ImportError::Program { place, problem },
        }
    }
}

/// The place of the value that begins at an offset.
pub(super) fn place_of(at: u32, source: &str, root: &Json<'_>) -> JsonPlace {
    use std::fmt::Write;
    let mut path = String::new();
    let mut name = None;
    let mut json = root;
    loop {
        if let Some(Kind::Str(text)) = json.get("name").map(|n| &n.kind) {
            name = Some(text.to_string());
        }
        if json.at == at {
            break;
        }
        // Values lie in the text in order: the one sought is in the last that begins before it or with it.
        match &json.kind {
            Kind::Array(items) => {
                let index = items.partition_point(|item| item.at <= at);
                let Some(index) = index.checked_sub(1) else { break };
                let _ = write!(path, "[{index}]");
                json = &items[index];
            }
            Kind::Object(members) => {
                let index = members.partition_point(|(_, item)| item.at <= at);
                let Some(index) = index.checked_sub(1) else { break };
                let _ = write!(path, "{}{}", if path.is_empty() { "" } else { "." }, members[index].0);
                json = &members[index].1;
            }
            _ => break,
        }
    }
    JsonPlace { path, name, at: Place::of(source, at as usize) }
}
