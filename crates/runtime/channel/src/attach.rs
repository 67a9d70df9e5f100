//! How an application gets its channel: it says hello, the daemon welcomes it with the channel's descriptors or refuses.

use crate::message::{FromApp, FromDaemon, Hello, Welcome};
use crate::{AppChannel, ChannelError, ChannelFds, ControlConn, ControlError, Geometry, VERSION};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the daemon may take to answer, or to come to our connection.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// What a daemon gave.
#[derive(Debug)]
pub struct Attached {
    /// The channel.
    pub channel: AppChannel,
    /// The control socket, to be kept open: its closing is how the daemon learns of the application's end.
    pub control: ControlConn,
    /// What the daemon said.
    pub welcome: Welcome,
}

/// Why an application could not attach to the daemon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The daemon said no.
    #[error("the daemon refused: {message}")]
    Refused {
        /// One of the constants of [`Refused`](crate::message::Refused).
        code: u16,
        /// The daemon's reason, a sentence for people; `code` is for programs.
        message: String,
        /// What could be done.
        hint: String,
    },
    /// The channel it gave makes no sense.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// It did not answer in time.
    #[error("the daemon does not answer")]
    TimedOut,
    /// It answered something else.
    #[error("the daemon speaks another protocol")]
    Protocol,
    /// An engine in threads of the application was asked for in a way that cannot be.
    #[error("{what}")]
    Place {
        /// What is wrong, and how it is asked for.
        what: String,
    },
    /// An engine in threads of the application did not start.
    #[error("{what}")]
    Engine {
        /// What failed and why, a sentence for people.
        what: String,
    },
    /// Waiting for it was interrupted.
    #[error("waiting for the daemon: {0}")]
    Wait(io::Error),
}

impl AttachError {
    /// What could be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            AttachError::Control(e) => e.hint().map(Into::into),
            AttachError::Refused { hint, .. } if !hint.is_empty() => Some(hint.clone()),
            _ => None,
        }
    }
}

/// Attaches to the daemon that listens on `socket` (empty: on the first of
/// [`socket_paths`](crate::control::socket_paths) where one answers), as the application `name`, with a channel of `geometry` or of the daemon's
/// default.
///
/// # Errors
/// [`AttachError`].
pub fn attach(socket: &Path, name: &str, geometry: Option<Geometry>) -> Result<Attached, AttachError> {
    if socket.as_os_str().is_empty() {
        return attach_any(&crate::control::socket_paths(), name, geometry);
    }
    let control = ControlConn::connect_within(socket, HELLO_TIMEOUT)?;
    control.check_server(socket)?;
    let hello = Hello { version: VERSION, name: name.to_owned(), geometry };
    control.send(&FromApp::Hello(hello), &[])?;
    let (answer, fds) = loop {
        if let Some(answer) = control.recv::<FromDaemon>()? {
            break answer;
        }
        if !control.wait_readable(Some(HELLO_TIMEOUT)).map_err(AttachError::Wait)? {
            return Err(AttachError::TimedOut);
        }
    };
    match answer {
        FromDaemon::Welcome(welcome) => {
            let channel = AppChannel::attach(ChannelFds::try_from(fds)?)?;
            Ok(Attached { channel, control, welcome })
        }
        FromDaemon::Refused(r) => {
            Err(AttachError::Refused { code: r.code, message: r.message, hint: r.hint })
        }
        #[allow(unreachable_patterns)] // what a later daemon may say
        _ => Err(AttachError::Protocol),
    }
}

/// Attaches to the first of several sockets on which a daemon answers; a dead one's socket is passed over.
///
/// # Errors
/// [`AttachError`]: of the only socket, or of the first that somebody serves, or that there is none.
pub fn attach_any(
    sockets: &[PathBuf],
    name: &str,
    geometry: Option<Geometry>,
) -> Result<Attached, AttachError> {
    if let [only] = sockets {
        return attach(only, name, geometry);
    }
    for socket in sockets {
        match attach(socket, name, geometry) {
            Err(AttachError::Control(ControlError::Connect { source, .. }))
                if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {}
            done => return done,
        }
    }
    let others = crate::control::system_sockets(Path::new(crate::control::SYSTEM_DIR));
    Err(ControlError::Nowhere { tried: sockets.to_vec(), others }.into())
}
