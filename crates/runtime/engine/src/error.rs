//! Errors for callers: making and running an engine, and sharing counters.

use crate::{COUNTER_NAME_MAX, SPIN_MAX};
use std::io;
use std::path::PathBuf;

/// Why an engine could not be made, or how it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The core does not exist, or the process may not run there.
    #[error("engine {engine}: core {core} is not among the cores this process may use ({allowed})")]
    CoreNotAllowed {
        /// The engine's name.
        engine: String,
        /// The core that was asked for.
        core: usize,
        /// The cores that may be used, as `0-3,8`.
        allowed: String,
    },
    /// A system call failed.
    #[error("engine: {call}: {source}")]
    Sys {
        /// The call that failed.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// An agent panicked; the engine's stop flag was raised.
    #[error("engine {engine} panicked: {message}")]
    Panicked {
        /// The engine's name.
        engine: String,
        /// The panic's message.
        message: String,
    },
}

/// Why [`Engine::spawn`](crate::Engine::spawn) brought nothing to life. `E` is the caller's own error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError<E> {
    /// The engine or its thread could not be made.
    #[error("{0}")]
    Engine(EngineError),
    /// The agents could not be built.
    #[error("{0}")]
    Build(E),
}

/// Why a text names no idle strategy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseIdleError {
    /// None of the three names.
    #[error("unknown idle strategy; use `spin`, `yield`, `park`, or `park:20us` with the time to spin first")]
    UnknownStrategy,
    /// What follows `park:` is no duration.
    #[error("bad time after `park:`; write a whole number with a unit: `500ns`, `20us`, `1ms`, `1s`")]
    BadSpin,
    /// The time to spin exceeds [`SPIN_MAX`].
    #[error("time after `park:` exceeds {SPIN_MAX}; to never sleep, use `spin`")]
    SpinTooLong,
}

/// Why a counters page could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// A system call failed.
    #[error("counters page {}: {call}: {source}", path.display())]
    Io {
        /// The page's file.
        path: PathBuf,
        /// The call that failed.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The file is something else. It was left as it is.
    #[error("{}: not a counters page", path.display())]
    NotAPage {
        /// The file.
        path: PathBuf,
    },
    /// The page is of a version that this build does not read.
    #[error("counters page {}: version {found}, this build reads version {expected}", path.display())]
    Version {
        /// The page's file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The version of this build.
        expected: u32,
    },
    /// The header's sizes make no sense, or the file is shorter than they say.
    #[error("counters page {}: damaged: {what}", path.display())]
    Damaged {
        /// The page's file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// Another process, alive, owns the page.
    #[error("counters page {}: in use by process {pid}", path.display())]
    InUse {
        /// The page's file.
        path: PathBuf,
        /// The owner.
        pid: u32,
    },
    /// The caller asked for no counter at all or for more than [`CAPACITY_MAX`](crate::CAPACITY_MAX).
    #[error("counters page: capacity {capacity} is not from 1 to {}", crate::CAPACITY_MAX)]
    BadCapacity {
        /// What was asked for.
        capacity: usize,
    },
    /// The page's name is empty, too long, or holds something else than letters, digits, `-`, `_` and `.`.
    #[error(
        "counters page: bad name `{name}`; letters, digits, `-`, `_` and `.`, at most {}",
        crate::PAGE_NAME_MAX
    )]
    BadName {
        /// What was asked for.
        name: String,
    },
}

/// Why a counter was not registered. The program can do without it; nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Every entry of the page is taken.
    #[error("counters page is full")]
    Full,
    /// The name is empty, longer than [`COUNTER_NAME_MAX`], or holds control characters.
    #[error("bad counter name: 1 to {COUNTER_NAME_MAX} bytes, no control characters")]
    BadName,
    /// A live counter has that name.
    #[error("a counter of that name already exists")]
    Duplicate,
    /// Writing the name failed.
    #[error("counters page could not be written")]
    Io,
}
