//! Errors of building a lab.

use barewire_netns::NetnsError;
use std::io;

/// Why a lab could not be made, used or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A name that cannot be one.
    #[error("{what} `{name}`: {why}")]
    BadName {
        /// What was to be named.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More, or less, was asked for than there can be.
    #[error("{what}: {why}")]
    Asked {
        /// What was asked for.
        what: String,
        /// What can be.
        why: String,
    },
    /// A host or wire could not be made, changed or removed.
    #[error(transparent)]
    Host(#[from] NetnsError),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A lab of this name is there already.
    #[error("lab {name} already exists{how}")]
    Exists {
        /// Its name.
        name: String,
        /// In which state, or empty.
        how: &'static str,
    },
    /// There is no such lab, host, switch or link.
    #[error("no {what} `{name}`; {near}")]
    NoSuch {
        /// What was looked for.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// The nearest right word, and those that are known.
        near: String,
    },
    /// A file that tells what a lab consists of cannot be used.
    #[error("{path}: {why}")]
    State {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The folder of labs' files is not the caller's alone.
    #[error("{path}: {why}")]
    Folder {
        /// The folder.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file cannot be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Whoever was told of the progress wanted no more of it.
    #[error("interrupted")]
    Interrupted,
    /// A program of the lab did not start, or ended at once.
    #[error("{what}: {why}")]
    Program {
        /// Which.
        what: String,
        /// What it said last.
        why: String,
    },
    /// Frames cannot be captured.
    #[error("capture at {place}: {why}")]
    Capture {
        /// Where.
        place: String,
        /// What went wrong.
        why: String,
    },
}

impl LabError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let what = what.into();
        move |source| LabError::System { what, source }
    }

    /// What the user can do about it, for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            LabError::Exists { .. } => Some("`barewire lab down NAME` removes it, whatever state it is in"),
            LabError::State { .. } => Some("`barewire lab down NAME` removes the lab without that file, too"),
            LabError::Folder { .. } => Some(
                "its files decide what is removed and which processes are ended: it must belong to the user, with mode 0700",
            ),
            LabError::Host(error) => error.hint(),
            LabError::System { source, .. } => match source.raw_os_error()? {
                libc::EPERM | libc::EACCES => Some("run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN"),
                _ => None,
            },
            _ => None,
        }
    }
}
