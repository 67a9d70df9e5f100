//! Errors for callers: making a channel, and talking over the control socket.

use std::io;
use std::path::PathBuf;

/// Why a [`Geometry`](crate::Geometry) is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadGeometry {
    /// A ring's size.
    #[error("{ring} = {entries}: a power of two up to {} is needed", crate::layout::ENTRIES_MAX)]
    Entries {
        /// The field's name.
        ring: &'static str,
        /// What it says.
        entries: u32,
    },
    /// A memory's size.
    #[error(
        "{memory} = {bytes}: a multiple of {} from there up to {} is needed",
        crate::layout::MEMORY_UNIT,
        crate::layout::MEMORY_MAX
    )]
    Bytes {
        /// The field's name.
        memory: &'static str,
        /// What it says.
        bytes: u32,
    },
}

/// Why a channel could not be made or attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The geometry breaks a bound.
    #[error("channel geometry: {0}")]
    Geometry(#[from] BadGeometry),
    /// Other than the three descriptors of a channel came.
    #[error("a channel has {} descriptors, {got} came", crate::ChannelFds::COUNT)]
    Descriptors {
        /// How many came.
        got: usize,
    },
    /// The memory is no memfd, or could still shrink: using it could fault.
    #[error("the channel's memory is not sealed")]
    NotSealed,
    /// The memory does not begin like a channel.
    #[error("the channel's memory does not begin with a channel header")]
    BadMagic,
    /// The channel is of another version.
    #[error("the daemon speaks channel version {theirs}, this library {}", crate::VERSION)]
    Version {
        /// The daemon's.
        theirs: u32,
    },
    /// The memory is not as long as its header says.
    #[error("the channel's memory has {got} bytes and should have {want}")]
    Size {
        /// Bytes it has.
        got: u64,
        /// Bytes its geometry asks for.
        want: u64,
    },
    /// A system call failed.
    #[error("channel: {call}: {source}")]
    Sys {
        /// The call that failed.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl ChannelError {
    /// For `map_err`: a failed `call`.
    pub(crate) fn sys(call: &'static str) -> impl FnOnce(io::Error) -> ChannelError {
        move |source| ChannelError::Sys { call, source }
    }
}

/// Why the control socket did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// No connection to the daemon.
    #[error("cannot reach the daemon at {path}: {source}")]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody serves the socket whom this user has no reason to trust with its messages.
    #[error(
        "{path} is served by user {uid}, who is neither root nor you, and other users could have put it there"
    )]
    Stranger {
        /// The socket's path.
        path: PathBuf,
        /// Whom the process belongs to that listens.
        uid: u32,
    },
    /// No daemon answers at any of the places where one listens by default.
    #[error("no daemon answers at {}", list(.tried))]
    Nowhere {
        /// The sockets' paths.
        tried: Vec<PathBuf>,
        /// Sockets of the system's daemons, of which none is the default.
        others: Vec<PathBuf>,
    },
    /// Another daemon answers on that socket.
    #[error("another daemon listens on {path}")]
    InUse {
        /// The socket's path.
        path: PathBuf,
    },
    /// Something that is no socket stands at the path.
    #[error("{path} exists and is not a socket")]
    NotASocket {
        /// The socket's path.
        path: PathBuf,
    },
    /// The path is empty, has a zero byte, or more than 107 bytes.
    #[error("{path}: a socket's path must have 1 to 107 bytes")]
    BadPath {
        /// The socket's path.
        path: PathBuf,
    },
    /// The socket could not be made.
    #[error("cannot listen on {path}: {call}: {source}")]
    Bind {
        /// The socket's path.
        path: PathBuf,
        /// The call that failed.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The other side closed the connection or died. Final.
    #[error("the other side closed the control connection")]
    Closed,
    /// The other side does not read and the socket is full: the message was not sent.
    #[error("the other side does not read its control messages")]
    Full,
    /// The message was longer than [`MESSAGE_MAX`](crate::control::MESSAGE_MAX) or came with more than
    /// [`FDS_MAX`](crate::control::FDS_MAX) descriptors: not sent.
    #[error("control message of {bytes} bytes and {fds} descriptors is too large")]
    TooLarge {
        /// Bytes of the message.
        bytes: usize,
        /// File descriptors that were to go with it.
        fds: usize,
    },
    /// What came is no message of the expected kind. The connection still works; whether to keep it is the caller's
    /// choice.
    #[error("malformed control message: {why}")]
    Malformed {
        /// What is wrong with it.
        why: String,
    },
    /// A system call failed.
    #[error("control socket: {call}: {source}")]
    Sys {
        /// The call that failed.
        call: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(" or ")
}

impl ControlError {
    /// What the user could do about it.
    pub fn hint(&self) -> Option<&'static str> {
        use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied, WouldBlock};
        match self {
            ControlError::Connect { source, .. } => match source.kind() {
                NotFound | ConnectionRefused => Some(
                    "is the daemon running? start it with `barewire up`, or name its socket in BAREWIRE_SOCKET",
                ),
                PermissionDenied => Some(
                    "this user may not open the socket: join its group, or set daemon.socket_mode to a wider one",
                ),
                WouldBlock => Some("the daemon is busy: try again"),
                _ => None,
            },
            ControlError::Stranger { .. } => {
                Some("if that is your daemon, name its user: BAREWIRE_DAEMON_UID=<uid>, or any")
            }
            ControlError::Nowhere { others, .. } if !others.is_empty() => {
                Some("several daemons listen in /run/barewire: set BAREWIRE_SOCKET to the socket of one")
            }
            ControlError::Nowhere { .. } => Some(
                "is the daemon running? start it with `barewire up`, or name its socket in BAREWIRE_SOCKET",
            ),
            ControlError::InUse { .. } => {
                Some("stop that daemon first, or name another socket in BAREWIRE_SOCKET")
            }
            ControlError::NotASocket { .. } => Some("remove it, or name another socket in BAREWIRE_SOCKET"),
            _ => None,
        }
    }

    /// For `map_err`: a failed `call`.
    pub(crate) fn sys(call: &'static str) -> impl FnOnce(io::Error) -> ControlError {
        move |source| ControlError::Sys { call, source }
    }
}
