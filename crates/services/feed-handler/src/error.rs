//! Errors for callers: configuration, sources of packets, files.

use barewire_text::Place;
use std::io;

/// Why a configuration was refused. Prints the file, the place in it, and the nearest right word.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{path}: {source}")]
    Read {
        /// Which file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// Not XML or TOML at all, an unknown key, or a value of the wrong kind. The message shows the place.
    #[error("{path}: {message}")]
    Syntax {
        /// Which file.
        path: String,
        /// Place and complaint of the parser.
        message: String,
    },
    /// Something that stands in the file and cannot be.
    #[error("{path}:{place}: {what}: {why}")]
    At {
        /// Which file.
        path: String,
        /// Where it stands.
        place: Place,
        /// What it is: a key with its value, an element.
        what: String,
        /// Why it cannot be, with the nearest right word.
        why: String,
    },
    /// Something that should stand in the file and does not, or parts that do not fit together.
    #[error("{path}: {what}: {why}")]
    Whole {
        /// Which file.
        path: String,
        /// The key, the channel, the connection.
        what: String,
        /// What is missing or does not fit.
        why: String,
    },
}

/// Why packets cannot be received, sent or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A system call failed.
    #[error("{what}: {call}: {source}")]
    Sys {
        /// The line, group or interface that it was about.
        what: String,
        /// The call.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// No interface of that name or address here.
    #[error("interface `{name}` not found; {hint}")]
    NoInterface {
        /// What was asked for.
        name: String,
        /// The nearest right word, and what there is.
        hint: String,
    },
    /// The interface has no address of the group's family.
    #[error("interface `{name}` has no {family} address, which joining {group} needs")]
    NoAddress {
        /// The interface.
        name: String,
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// The group.
        group: std::net::IpAddr,
    },
    /// A port could not be opened.
    #[error(transparent)]
    Open(#[from] barewire_port::OpenError),
    /// A port stopped working.
    #[error(transparent)]
    Port(#[from] barewire_port::PortError),
    /// The frame pool could not be made.
    #[error(transparent)]
    Pool(#[from] barewire_frame::PoolError),
    /// A capture is malformed or cannot be read.
    #[error("{path}: {source}")]
    Capture {
        /// Which file.
        path: String,
        /// Where and why.
        source: barewire_port::PcapError,
    },
    /// The capture holds packets that are not Ethernet.
    #[error("{path}: link type {link_type} is not Ethernet (1)")]
    LinkType {
        /// Which file.
        path: String,
        /// LINKTYPE of the first packet that is not.
        link_type: u32,
    },
    /// A file cannot be written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A channel's settings that its core does not take.
    #[error(transparent)]
    Channel(#[from] barewire_feed::ConfigError),
    /// More groups than one port can claim, or another limit that is named.
    #[error("{what}: {value} is more than {limit}")]
    Limit {
        /// What there are too many of.
        what: &'static str,
        /// How many.
        value: usize,
        /// At most.
        limit: usize,
    },
}

impl SourceError {
    /// What a system call said: for `map_err`, with the line, group or interface that it was about and the call's name.
    pub fn sys(what: impl Into<String>, call: &'static str) -> impl FnOnce(io::Error) -> SourceError {
        let what = what.into();
        move |source| SourceError::Sys { what, call, source }
    }
}
