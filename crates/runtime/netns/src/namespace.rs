//! A host: one network namespace, with the sockets that configure it.

use crate::rtnl::Rtnl;
use crate::{NetnsError, stale, sys};
use barewire_engine::Owner;
use rustix::mount::mount_bind;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The namespace of the thread that opens it; `/proc/self` would be that of the first thread.
const THIS_NET: &str = "/proc/thread-self/ns/net";

/// A network namespace. Dropping it removes its name (unless it is one that is kept); the kernel removes the rest (its ends
/// of links, and with them the other ends) once no process or socket inside is left.
///
/// A process that is ended by a signal drops nothing: catch SIGINT and SIGTERM and let `main` return, and call
/// [`sweep_stale`](crate::sweep_stale) at the next start for the case that it was killed.
#[derive(Debug)]
pub struct Namespace {
    /// The file under `/run/netns` of a named one.
    path: Option<PathBuf>,
    /// It outlives this value and this process.
    kept: bool,
    label: String,
    fd: Arc<OwnedFd>,
    rtnl: Mutex<Rtnl>,
    /// Any socket of the namespace: ioctls on it concern the namespace's interfaces.
    control: UdpSocket,
}

/// What a thread brings back out of a namespace that it made.
struct Inside {
    fd: OwnedFd,
    rtnl: Rtnl,
    control: UdpSocket,
}

impl Namespace {
    /// A namespace that `ip netns` lists and `ip netns exec` enters, named `bw-PID-START-LABEL` ([`Namespace::name`]).
    /// Nothing in it is up, not even `lo`.
    ///
    /// # Errors
    /// [`NetnsError::BadName`] for a label that is not 1 to 32 of `a-z0-9_-`; [`NetnsError::System`] when the process may
    /// not, or has one of this label already.
    pub fn create(label: &str) -> Result<Namespace, NetnsError> {
        stale::check_label(label)?;
        let path = stale::prepare_dir()?.join(stale::name_of(Owner::current(), label));
        Self::create_at(path, label, false)
    }

    /// A namespace that stays when this value is dropped and this process ends, until [`Namespace::remove_kept`]. `name` is
    /// its whole name and must be one that [`Namespace::create`] does not give.
    ///
    /// # Errors
    /// [`NetnsError::System`] when the process may not, or the name is taken.
    pub fn create_kept(name: &str) -> Result<Namespace, NetnsError> {
        let path = stale::prepare_dir()?.join(name);
        Self::create_at(path, name, true)
    }

    /// Opens a namespace that has a name. It stays when this value is dropped.
    ///
    /// # Errors
    /// [`NetnsError::System`] when there is none, or the process may not.
    pub fn open_kept(name: &str) -> Result<Namespace, NetnsError> {
        let path = Path::new(stale::NETNS_DIR).join(name);
        let opening = || NetnsError::system(format!("open namespace {}", path.display()));
        let fd: OwnedFd = File::open(&path).map_err(opening())?.into();
        let inside = on_thread(|| {
            sys::set_net(fd.as_fd())?;
            Ok((Rtnl::open()?, UdpSocket::bind("0.0.0.0:0")?))
        });
        let (rtnl, control) = inside.map_err(opening())?;
        let inside = Inside { fd, rtnl, control };
        Ok(Self::from_inside(inside, Some(path), name, true))
    }

    /// Takes the name of a kept namespace away. That it is gone already is no error.
    ///
    /// # Errors
    /// [`NetnsError::System`] when it cannot be removed.
    pub fn remove_kept(name: &str) -> Result<(), NetnsError> {
        stale::remove(&Path::new(stale::NETNS_DIR).join(name))
    }

    fn create_at(path: PathBuf, label: &str, kept: bool) -> Result<Namespace, NetnsError> {
        let making = || NetnsError::system(format!("make namespace {}", path.display()));
        // Exclusive: an existing file is another namespace of ours, which must not be covered.
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&path)
            .map_err(making())?;
        match Self::new_inside(Some(&path)) {
            Ok(inside) => Ok(Self::from_inside(inside, Some(path), label, kept)),
            Err(e) => {
                // The first error is the one to tell.
                let _ = stale::remove(&path);
                Err(making()(e))
            }
        }
    }

    /// A namespace without a name, which lives as long as this value and its processes. Nothing can be left behind.
    ///
    /// # Errors
    /// [`NetnsError::System`] when the process may not.
    pub fn anonymous() -> Result<Namespace, NetnsError> {
        let inside = Self::new_inside(None).map_err(NetnsError::system("make a namespace"))?;
        Ok(Self::from_inside(inside, None, "anonymous", false))
    }

    fn from_inside(inside: Inside, path: Option<PathBuf>, label: &str, kept: bool) -> Namespace {
        let Inside { fd, rtnl, control } = inside;
        Namespace { path, kept, label: label.to_string(), fd: Arc::new(fd), rtnl: Mutex::new(rtnl), control }
    }

    /// Makes the namespace on a thread that ends inside it, so that no thread of the caller moves.
    fn new_inside(path: Option<&Path>) -> io::Result<Inside> {
        on_thread(|| {
            sys::unshare_net()?;
            if let Some(path) = path {
                mount_bind(THIS_NET, path)?;
            }
            let fd = File::open(THIS_NET)?.into();
            Ok(Inside { fd, rtnl: Rtnl::open()?, control: UdpSocket::bind("0.0.0.0:0")? })
        })
    }

    /// The name for `ip netns exec NAME`; `None` of an anonymous one.
    pub fn name(&self) -> Option<&str> {
        self.path.as_deref()?.file_name()?.to_str()
    }

    /// The label that it was made with, for messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The namespace's descriptor, for `setns`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Runs `f` on a fresh thread inside the namespace and hands back what it returns. Sockets that `f` makes, and threads
    /// that it starts, stay inside wherever they go. A panic of `f` goes on in the caller.
    ///
    /// # Errors
    /// [`NetnsError::System`] when the thread may not enter; `f` has then not run.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        on_thread(|| {
            sys::set_net(self.fd())?;
            Ok(f())
        })
        .map_err(NetnsError::system(format!("enter namespace {}", self.label)))
    }

    /// Starts a program inside the namespace. The command stays bound to it.
    ///
    /// # Errors
    /// As [`Command::spawn`], or what `setns` says.
    pub fn spawn_in(&self, command: &mut Command) -> io::Result<Child> {
        sys::start_in(command, Arc::clone(&self.fd));
        command.spawn()
    }

    /// As [`spawn_in`](Namespace::spawn_in), and the program goes on when we end: it gets a session of its own, so that no
    /// terminal's signals reach it.
    ///
    /// # Errors
    /// As there.
    pub fn spawn_apart(&self, command: &mut Command) -> io::Result<Child> {
        sys::start_apart(command);
        self.spawn_in(command)
    }

    /// Writes a setting below `/proc/sys/net` of this namespace. False when the kernel does not have it.
    ///
    /// # Errors
    /// [`NetnsError::System`] when the kernel does not take the value, or the process may not.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<bool, NetnsError> {
        let path = format!("/proc/sys/net/{name}");
        match self.enter(|| std::fs::write(&path, value))? {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(NetnsError::system(format!("write {value} to {path} in {}", self.label))(e)),
        }
    }

    /// Removes the name, as dropping does, and says whether that went well.
    ///
    /// # Errors
    /// [`NetnsError::System`] when it did not.
    pub fn remove(mut self) -> Result<(), NetnsError> {
        self.path.take().map_or(Ok(()), |path| stale::remove(&path))
    }

    pub(crate) fn rtnl(&self) -> MutexGuard<'_, Rtnl> {
        // A panic in between leaves at most an answer unread, which the next request skips by its sequence number.
        self.rtnl.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Some(path) = self.path.take().filter(|_| !self.kept) {
            // Nobody to tell: the next sweep tries again and has somebody.
            let _ = stale::remove(&path);
        }
    }
}

/// Runs `f` on a thread of its own: which namespace a thread is in outlasts a call.
pub(crate) fn on_thread<T: Send>(f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netns".into()).spawn_scoped(scope, f)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
