//! The control socket: how an application finds the daemon, gets its channel, and how each learns of the other's death.
//!
//! A unix socket of type `SOCK_SEQPACKET`: one packet is one message, with its descriptors, and a closed socket is
//! seen at once, also after a crash. Nothing here waits except [`ControlConn::wait_readable`].

use crate::ControlError;
use crate::sys::{self, PeerCred, TimeLeft, UnixAddr};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
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
/// How often a connection that finds the queue full is tried again.
const BACKLOG_PAUSE: Duration = Duration::from_millis(5);
/// Patience with another daemon that is starting in the same directory: so many milliseconds.
const LOCK_TRIES: u32 = 1000;

/// Where the system's daemons have their sockets.
pub(crate) const SYSTEM_DIR: &str = "/run/barewire";
/// Names whom a client trusts to serve its socket, besides those it always does: user ids with commas between, or `any`.
pub const TRUST_VARIABLE: &str = "BAREWIRE_DAEMON_UID";

/// Where the daemon listens: `$BAREWIRE_SOCKET`; else `/run/barewire/barewire.sock` for root,
/// `$XDG_RUNTIME_DIR/barewire/barewire.sock` for others (and `/run/user/UID` where that is not set).
pub fn socket_path_default() -> PathBuf {
    socket_path(sys::effective_uid(), |name| std::env::var_os(name))
}

/// Where an application looks for a daemon, in this order: `$BAREWIRE_SOCKET` and nowhere else, if it is set; else the daemon of
/// this user ([`socket_path_default`]); else the system's, `/run/barewire/barewire.sock`; else the only other socket in
/// `/run/barewire`, if there is just one.
pub fn socket_paths() -> Vec<PathBuf> {
    socket_paths_in(sys::effective_uid(), |name| std::env::var_os(name), Path::new(SYSTEM_DIR))
}

fn socket_paths_in(uid: u32, var: impl Fn(&str) -> Option<OsString>, system: &Path) -> Vec<PathBuf> {
    let named = var("BAREWIRE_SOCKET").is_some_and(|value| !value.is_empty());
    let mut paths = vec![socket_path(uid, var)];
    if !named {
        let default = system.join("barewire.sock");
        if paths[0] != default {
            paths.push(default);
        }
        if let [only] = system_sockets(system).as_slice()
            && !paths.contains(only)
        {
            paths.push(only.clone());
        }
    }
    paths
}

/// The sockets of the system's daemons, by name.
pub(crate) fn system_sockets(system: &Path) -> Vec<PathBuf> {
    let mut sockets: Vec<_> = fs::read_dir(system)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| {
            e.file_type().is_ok_and(|t| t.is_socket()) && e.path().extension() == Some("sock".as_ref())
        })
        .map(|e| e.path())
        .collect();
    sockets.sort();
    sockets
}

/// Whether the user `uid` may serve the socket at `path`: root, this user, whom `trusted` names (as [`TRUST_VARIABLE`] does), or
/// the owner of its directory, when nobody else could have put a socket or that directory there.
fn may_serve(path: &Path, uid: u32, own: u32, trusted: Option<&str>) -> bool {
    let named = trusted
        .is_some_and(|list| list.split(',').any(|one| one.trim() == "any" || one.trim().parse() == Ok(uid)));
    uid == 0 || uid == own || named || owns_directory(path, uid)
}

fn owns_directory(path: &Path, uid: u32) -> bool {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(dir) = dir.canonicalize() else { return false };
    let mut all = dir.ancestors().map(fs::metadata);
    let owned = fs::metadata(&dir).is_ok_and(|meta| meta.uid() == uid);
    // Writable by others, as /tmp is: whoever comes first makes the directory.
    owned && all.all(|meta| meta.is_ok_and(|m| (m.uid() == 0 || m.uid() == uid) && m.mode() & 0o002 == 0))
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
        let _lock = Lock::take(path).map_err(io("lock"))?;
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

/// The right to put a socket at a path. A file of its own, which nobody else can open: a lock on the directory could be held by
/// whoever can read that.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn take(socket: &Path) -> io::Result<Lock> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        for _ in 0..LOCK_TRIES {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)?;
            let meta = file.metadata()?;
            if meta.uid() != sys::effective_uid() {
                let why = format!("{} belongs to another user", path.display());
                return Err(io::Error::new(ErrorKind::PermissionDenied, why));
            }
            match file.try_lock() {
                // Who had it before us may have removed it: then it is not the one that others find.
                Ok(()) => {
                    if fs::symlink_metadata(&path)
                        .is_ok_and(|m| (m.dev(), m.ino()) == (meta.dev(), meta.ino()))
                    {
                        return Ok(Lock { path, _file: file });
                    }
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(ErrorKind::TimedOut.into())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before it is unlocked, so that nobody locks a file that is about to go.
        let _ = fs::remove_file(&self.path);
    }
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

    /// As [`connect`](ControlConn::connect), and waits for up to `patience` while the daemon has more connections waiting than
    /// its queue holds.
    ///
    /// # Errors
    /// As for [`connect`](ControlConn::connect).
    pub fn connect_within(path: impl AsRef<Path>, patience: Duration) -> Result<ControlConn, ControlError> {
        let mut waited = Duration::ZERO;
        loop {
            match ControlConn::connect(path.as_ref()) {
                Err(ControlError::Connect { source, .. })
                    if matches!(source.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
                        && waited < patience =>
                {
                    std::thread::sleep(BACKLOG_PAUSE);
                    waited += BACKLOG_PAUSE;
                }
                done => return done,
            }
        }
    }

    /// Checks who serves the socket at `path`, to which this is the connection: root, this user, the owner of the socket's
    /// directory where nobody else can write, or whom [`TRUST_VARIABLE`] names.
    ///
    /// # Errors
    /// [`ControlError::Stranger`] when it is somebody else; [`ControlError::Sys`].
    pub fn check_server(&self, path: &Path) -> Result<(), ControlError> {
        let uid = self.peer()?.uid;
        let trusted = std::env::var(TRUST_VARIABLE).ok();
        match may_serve(path, uid, sys::effective_uid(), trusted.as_deref()) {
            true => Ok(()),
            false => Err(ControlError::Stranger { path: path.to_owned(), uid }),
        }
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
        self.recv_with(|bytes| sys::recv(self.socket.as_fd(), bytes))
    }

    fn recv_with<T: DeserializeOwned, F>(
        &self,
        recv: impl Fn(&mut [u8]) -> io::Result<(usize, F)>,
    ) -> Result<Option<(T, F)>, ControlError> {
        let Some(len) = self.peek()? else { return Ok(None) };
        if len == 0 {
            return Err(ControlError::Closed);
        }
        let mut bytes = vec![0; len.min(MESSAGE_MAX)];
        // As in `peek`: the peer may have died in between, and its message is still there.
        let got = recv(&mut bytes).or_else(|error| match error.kind() {
            ErrorKind::ConnectionReset => recv(&mut bytes),
            _ => Err(error),
        });
        let (got, fds) = got.map_err(ControlError::sys("recvmsg"))?;
        if len > MESSAGE_MAX {
            return Err(ControlError::Malformed {
                why: format!("{len} bytes, and {MESSAGE_MAX} are allowed"),
            });
        }
        let message = serde_json::from_slice(&bytes[..got])
            .map_err(|error| ControlError::Malformed { why: error.to_string() })?;
        Ok(Some((message, fds)))
    }

    /// As [`recv`](ControlConn::recv), from a side that has no descriptors to send: what it sends all the same is thrown away
    /// by the kernel.
    ///
    /// # Errors
    /// As for [`recv`](ControlConn::recv).
    pub fn recv_message<T: DeserializeOwned>(&self) -> Result<Option<T>, ControlError> {
        self.recv_with(|bytes| sys::recv_bytes(self.socket.as_fd(), bytes).map(|got| (got, ())))
            .map(|got| got.map(|(message, ())| message))
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
    /// Signals do not end the wait.
    ///
    /// # Errors
    /// The descriptor is bad.
    pub fn wait_readable(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let mut left = TimeLeft::new(timeout);
        loop {
            match sys::poll(self.socket.as_fd(), &mut left) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                polled => return Ok(polled?.is_some()),
            }
        }
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
