//! Why a run folder cannot be written or read.

use super::RUN_SCHEMA;
use std::fmt;
use std::path::PathBuf;

/// Why a run folder cannot be written or read. Each says which file, and which line where there is one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The file system said no.
    #[error("{doing} {path}: {source}", path = .path.display())]
    Io {
        /// What was attempted, as a participle.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A run of this name is there already; it is not touched.
    #[error("{path} already exists: a run is never overwritten", path = .path.display())]
    Exists {
        /// The folder or file.
        path: PathBuf,
    },
    /// What was to be written cannot be read back.
    #[error("not a record: {0}")]
    Refused(String),
    /// The folder has no manifest.
    #[error("{path} is not a run folder: no manifest.json in it", path = .path.display())]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// Another version wrote it.
    #[error("{path}: run folder of version {found}; this build reads version {RUN_SCHEMA}", path = .path.display())]
    Version {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// A file is not what it should be.
    #[error("{path}{line}: {what}", path = .path.display(), line = Line(*.line))]
    Shape {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: Option<u64>,
        /// What is wrong with it, with the nearest right word.
        what: String,
    },
    /// A file is not as it was when the run ended.
    #[error("{path}: not as the run left it: {what}", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How it differs.
        what: String,
    },
    /// A file is larger than any run's.
    #[error("{path}: larger than {max} bytes", path = .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        max: u64,
    },
}

struct Line(Option<u64>);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ":{line}"))
    }
}
