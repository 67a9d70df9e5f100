//! The control socket: how an application finds the daemon, gets its channel, and how each learns of the other's death.
//!
//! A unix socket of type `SOCK_SEQPACKET`: one packet is one message, with its descriptors, and a closed socket is
//! seen at once, also after a crash. Nothing here waits except [`ControlConn::wait_readable`].

use crate::ControlError;
use crate::sys::{self, PeerCred, TimeLeft, UnixAddr};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest message, in bytes of JSON.
pub const MESSAGE_MAX: usize = 64 << 10;
/// Most descriptors of one message.
pub const FDS_MAX: usize = sys::FDS_MAX;
/// Permissions of the socket's file unless asked otherwise: its owner and its group may connect.
pub const MODE_DEFAULT: u32 = 0o660;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// Patience with another daemon that is starting in the same directory: so many milliseconds.
const LOCK_TRIES: u32 = 1000;

/// Where the daemon listens: `$BAREWIRE_SOCKET`; else `/run/barewire/barewire.sock` for root,
/// `$XDG_RUNTIME_DIR/barewire/barewire.sock` for others (and `/run/user/UID` where that is not set).
pub fn socket_path_default() -> PathBuf {
    socket_path(sys::effective_uid(), |name| std::env::var_os(name))
}

fn socket_path(uid: u32, var: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let var = |name| var(name).filter(|value| !value.is_empty());
    if let Some(path) = var("BAREWIRE_SOCKET") {
        return path.into();
    }
    let run = match uid {
        0 => PathBuf::from("/run"),
        _ => var("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from(format!("/run/user/{uid}")), PathBuf::from),
    };
    run.join("barewire/barewire.sock")
}

/// The daemon's listening socket. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct ControlListener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the file, so that dropping never removes somebody else's.
    file_id: (u64, u64),
}

impl ControlListener {
    /// Listens on `path` with [`MODE_DEFAULT`].
    ///
    /// # Errors
    /// As [`bind_with_mode`](ControlListener::bind_with_mode).
    pub fn bind(path: impl AsRef<Path>) -> Result<ControlListener, ControlError> {
        ControlListener::bind_with_mode(path, MODE_DEFAULT)
    }

    /// Listens on `path`, whose file gets the permissions `mode`. Makes the directory if it is missing, and replaces a
    /// socket file that a dead daemon left behind.
    ///
    /// # Errors
    /// [`ControlError::InUse`] when somebody answers there; [`ControlError::NotASocket`], [`ControlError::BadPath`] and
    /// [`ControlError::Bind`] as they say.
    pub fn bind_with_mode(path: impl AsRef<Path>, mode: u32) -> Result<ControlListener, ControlError> {
        let path = path.as_ref();
        let io = |call| move |source| ControlError::Bind { path: path.to_owned(), call, source };
        let addr = UnixAddr::new(path).ok_or_else(|| ControlError::BadPath { path: path.to_owned() })?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(io("mkdir"))?;
        // Held until we listen: of two daemons that start at once, the second must not take the first's new socket, on
        // which nobody answers yet, for a dead one.
        let _lock = lock(dir).map_err(io("lock its directory"))?;
        clear(path, &addr)?;

        let socket = sys::seqpacket().map_err(io("socket"))?;
        // The mode first, so that the file is never more open than asked; afterwards once more, because the umask was
        // taken off.
        sys::set_mode(socket.as_fd(), mode).map_err(io("fchmod"))?;
        sys::bind(socket.as_fd(), &addr).map_err(io("bind"))?;
        let meta = fs::symlink_metadata(path).map_err(io("stat"))?;
        let listener = ControlListener { socket, path: path.to_owned(), file_id: (meta.dev(), meta.ino()) };
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io("chmod"))?;
        sys::listen(listener.socket.as_fd(), BACKLOG).map_err(io("listen"))?;
        Ok(listener)
    }

    /// The next application that has connected; `None` when nobody has.
    ///
    /// # Errors
    /// [`ControlError::Sys`], for example when the process has no descriptor left: then the application still waits.
    pub fn accept(&self) -> Result<Option<ControlConn>, ControlError> {
        loop {
            match sys::accept(self.socket.as_fd()) {
                Ok(socket) => return Ok(Some(ControlConn { socket })),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(None),
                    // It gave up meanwhile, or a signal came: the next one.
                    ErrorKind::ConnectionAborted | ErrorKind::Interrupted => {}
                    _ => return Err(ControlError::sys("accept")(error)),
                },
            }
        }
    }

    /// The socket's file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Readable when somebody has connected.
impl AsFd for ControlListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.file_id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Locks a directory until the file is dropped.
fn lock(dir: &Path) -> io::Result<File> {
    let file = File::open(dir)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(ErrorKind::TimedOut.into())
}

/// Sees to it that nothing stands at `path`: removes the socket of a daemon that is dead, and refuses anything else.
fn clear(path: &Path, addr: &UnixAddr) -> Result<(), ControlError> {
    let io = |call| move |source| ControlError::Bind { path: path.to_owned(), call, source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io("stat")(error)),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(ControlError::NotASocket { path: path.to_owned() });
        }
        Ok(_) => {}
    }
    let probe = sys::seqpacket().map_err(io("socket"))?;
    let in_use = || ControlError::InUse { path: path.to_owned() };
    match sys::connect(probe.as_fd(), addr) {
        Ok(()) => Err(in_use()),
        Err(error) => match (error.kind(), error.raw_os_error()) {
            (ErrorKind::NotFound, _) => Ok(()),
            (ErrorKind::ConnectionRefused, _) => fs::remove_file(path).map_err(io("remove the stale socket")),
            // Its backlog is full, or it is a socket of another type: somebody lives there.
            (ErrorKind::WouldBlock, _) | (_, Some(libc::EPROTOTYPE)) => Err(in_use()),
            _ => Err(io("connect")(error)),
        },
    }
}

/// One connection between an application and the daemon. Dropping it tells the other side.
#[derive(Debug)]
pub struct ControlConn {
    socket: OwnedFd,
}

impl ControlConn {
    /// Connects to the daemon that listens on `path`.
    ///
    /// # Errors
    /// [`ControlError::Connect`], whose [`hint`](ControlError::hint) says what to do, or [`ControlError::BadPath`].
    pub fn connect(path: impl AsRef<Path>) -> Result<ControlConn, ControlError> {
        let path = path.as_ref();
        let addr = UnixAddr::new(path).ok_or_else(|| ControlError::BadPath { path: path.to_owned() })?;
        let socket = sys::seqpacket().map_err(ControlError::sys("socket"))?;
        sys::connect(socket.as_fd(), &addr)
            .map_err(|source| ControlError::Connect { path: path.to_owned(), source })?;
        Ok(ControlConn { socket })
    }

    /// Two connected ends, for a daemon and an application in one process.
    ///
    /// # Errors
    /// [`ControlError::Sys`].
    pub fn pair() -> Result<(ControlConn, ControlConn), ControlError> {
        let (a, b) = sys::seqpacket_pair().map_err(ControlError::sys("socketpair"))?;
        Ok((ControlConn { socket: a }, ControlConn { socket: b }))
    }

    /// Who connected: the other end of a connection that was accepted. (Of one that was made, the daemon.)
    ///
    /// # Errors
    /// [`ControlError::Sys`].
    pub fn peer(&self) -> Result<PeerCred, ControlError> {
        sys::peer_cred(self.socket.as_fd()).map_err(ControlError::sys("SO_PEERCRED"))
    }

    /// Sends one message and copies of the descriptors. Never waits.
    ///
    /// # Errors
    /// [`ControlError::Closed`], [`ControlError::Full`], [`ControlError::TooLarge`] or [`ControlError::Sys`]; nothing
    /// was sent.
    pub fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> Result<(), ControlError> {
        let bytes = serde_json::to_vec(message)
            .map_err(|error| ControlError::Malformed { why: error.to_string() })?;
        let too_large = ControlError::TooLarge { bytes: bytes.len(), fds: fds.len() };
        if bytes.len() > MESSAGE_MAX || fds.len() > FDS_MAX {
            return Err(too_large);
        }
        sys::send(self.socket.as_fd(), &bytes, fds).map_err(|error| {
            match (error.kind(), error.raw_os_error()) {
                (ErrorKind::WouldBlock, _) => ControlError::Full,
                (ErrorKind::BrokenPipe | ErrorKind::ConnectionReset, _) => ControlError::Closed,
                // The system's limit for a socket's buffer is below ours.
                (_, Some(libc::EMSGSIZE)) => too_large,
                _ => ControlError::sys("sendmsg")(error),
            }
        })
    }

    /// The next message and its descriptors, of which any beyond [`FDS_MAX`] are closed. `None` when there is none;
    /// then it allocates nothing.
    ///
    /// # Errors
    /// [`ControlError::Closed`] when the other side is gone and everything it sent was received (an empty packet,
    /// which no side sends, counts as closing); [`ControlError::Malformed`] when the message is no `T` or too long,
    /// which uses it up and closes its descriptors; [`ControlError::Sys`].
    pub fn recv<T: DeserializeOwned>(&self) -> Result<Option<(T, Vec<OwnedFd>)>, ControlError> {
        let Some(len) = self.peek()? else { return Ok(None) };
        if len == 0 {
            return Err(ControlError::Closed);
        }
        let mut bytes = vec![0; len.min(MESSAGE_MAX)];
        let (got, fds) = sys::recv(self.socket.as_fd(), &mut bytes).map_err(ControlError::sys("recvmsg"))?;
        if len > MESSAGE_MAX {
            return Err(ControlError::Malformed {
                why: format!("{len} bytes, and {MESSAGE_MAX} are allowed"),
            });
        }
        let message = serde_json::from_slice(&bytes[..got])
            .map_err(|error| ControlError::Malformed { why: error.to_string() })?;
        Ok(Some((message, fds)))
    }

    /// Length of the message that waits.
    fn peek(&self) -> Result<Option<usize>, ControlError> {
        let peek = || sys::peek_len(self.socket.as_fd());
        // A peer that died with unread messages makes this error, once, and before what it had sent itself: look again.
        let len = peek().or_else(|error| match error.kind() {
            ErrorKind::ConnectionReset => peek(),
            _ => Err(error),
        });
        match len {
            Ok(len) => Ok(Some(len)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
                ErrorKind::ConnectionReset => Err(ControlError::Closed),
                _ => Err(ControlError::sys("recv")(error)),
            },
        }
    }

    /// Waits until [`recv`](ControlConn::recv) has something to say; `timeout` `None`: for ever. False when the time
    /// was over first.
    ///
    /// # Errors
    /// A signal came (`Interrupted`).
    pub fn wait_readable(&self, timeout: Option<Duration>) -> io::Result<bool> {
        Ok(sys::poll(self.socket.as_fd(), &mut TimeLeft::new(timeout))?.is_some())
    }
}

/// Readable when a message has come or the other side is gone.
impl AsFd for ControlConn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
