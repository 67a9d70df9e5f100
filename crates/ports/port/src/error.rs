//! Errors for callers: opening a port, and using one.

use std::io;

/// Why a port that was open no longer works.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The interface went down or away.
    #[error("port {port} is down: {source}")]
    Down {
        /// The port's URI.
        port: String,
        /// What the system said.
        source: io::Error,
    },
    /// The peer of a paired port (memory, unix) is gone for good.
    #[error("the other end of port {port} is gone")]
    PeerGone {
        /// The port's URI.
        port: String,
    },
    /// Another process opened it, whose child this one is. Only that one uses it.
    #[error("port {port} belongs to the process that opened it: open another one after fork()")]
    Inherited {
        /// The port's URI.
        port: String,
    },
    /// A system call failed in a way that is no drop.
    #[error("port {port}: {call}: {source}")]
    Io {
        /// The port's URI.
        port: String,
        /// The call that failed.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URI is not of the form `[wrapper+]scheme:target[?key=value&...]`.
    #[error("port `{uri}`: {why}")]
    BadUri {
        /// What was typed.
        uri: String,
        /// What is wrong, with the nearest right word.
        why: String,
    },
    /// No such interface, file or peer.
    #[error("port `{uri}`: {what} not found{hint}")]
    NotFound {
        /// The port's URI.
        uri: String,
        /// What was looked for.
        what: String,
        /// `; did you mean ...`, or empty.
        hint: String,
    },
    /// The process may not.
    #[error("port `{uri}`: {call}: not permitted (needs {needs})")]
    NotPermitted {
        /// The port's URI.
        uri: String,
        /// The call that was refused.
        call: &'static str,
        /// The capability that is missing.
        needs: &'static str,
    },
    /// The kernel or driver cannot.
    #[error("port `{uri}`: not supported here: {what}")]
    Unsupported {
        /// The port's URI.
        uri: String,
        /// What is missing.
        what: String,
    },
    /// Any other failed system call.
    #[error("port `{uri}`: {call}: {source}")]
    Io {
        /// The port's URI.
        uri: String,
        /// The call that failed.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
