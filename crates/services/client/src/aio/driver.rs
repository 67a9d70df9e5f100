//! The task that sleeps on the channel's descriptor, and the lock that all share.

use super::state::State;
use crate::client::Client;
use crate::client::reattach::RETRY;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Notify;

/// What the handles and the task share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Ends the task's sleep: somebody used the channel in a way that the daemon will not ring for.
    poke: Notify,
}

impl Shared {
    /// For what changes nothing; [`with`](Self::with) for all else.
    pub fn lock(&self) -> Locked<'_> {
        // What a panic interrupts is one event of one flow.
        Locked(Some(self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Does something with the channel, under the lock, and ends the task's sleep where that takes it.
    pub fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let done = act(&mut state);
        state.client.flush();
        if state.is_asleep && state.client.ends_sleep() {
            self.poke.notify_one();
        }
        done
    }

    /// The last handle is gone.
    pub fn end(&self) {
        self.lock().is_ended = true;
        self.poke.notify_one();
    }
}

/// The lock. Whom something is for is woken after its end: whoever that wakes may use the client at once.
pub(crate) struct Locked<'a>(Option<MutexGuard<'a, State>>);

const HELD: &str = "it is held until it is dropped";

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_ref().expect(HELD)
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect(HELD)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let later = self.later.take();
        self.0 = None;
        later.done();
    }
}

/// The channel's descriptor, as tokio has it.
fn bell_of(fd: BorrowedFd<'_>) -> io::Result<UnixStream> {
    let bell = StdUnixStream::from(fd.try_clone_to_owned()?);
    bell.set_nonblocking(true)?;
    UnixStream::from_std(bell)
}

pub(super) fn start(client: Client) -> io::Result<Arc<Shared>> {
    let bell = bell_of(client.event_fd())?;
    let shared = Arc::new(Shared { state: Mutex::new(State::new(client)), poke: Notify::new() });
    tokio::spawn(drive(shared.clone(), bell));
    Ok(shared)
}

/// However the task ends, with its handles, with the runtime or by a panic: nobody is left to wake those who wait.
struct Ends(Arc<Shared>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lock().end();
    }
}

/// Serves the channel for as long as there are handles and a daemon, and finds the next daemon where the client outlives this one.
async fn drive(shared: Arc<Shared>, mut bell: UnixStream) {
    let _ends = Ends(shared.clone());
    loop {
        serve(&shared, &bell).await;
        match find_daemon(&shared).await {
            Some(next) => bell = next,
            None => break,
        }
    }
    // It takes a while to stop, for which no task should be held up. Where the runtime ends first, the drop does it.
    let engine = shared.lock().client.take_engine();
    if engine.is_some() {
        let _ = tokio::task::spawn_blocking(move || drop(engine)).await;
    }
}

/// Looks for a daemon until one is there. `None`: nobody wants one.
async fn find_daemon(shared: &Arc<Shared>) -> Option<UnixStream> {
    loop {
        let attaching = {
            let state = shared.lock();
            if state.is_ended {
                return None;
            }
            state.client.attaching()?
        };
        // Not under the lock: a daemon that starts may take its time to answer, and meanwhile others read what is here.
        let attached = tokio::task::spawn_blocking(move || attaching.attach()).await;
        match attached {
            Ok(Ok(attached)) => {
                if let Ok(bell) = bell_of(attached.channel.event_fd()) {
                    let mut state = shared.lock();
                    state.client.adopt(attached);
                    state.pump();
                    return Some(bell);
                }
            }
            Ok(Err(e)) => shared.lock().not_attached(&e),
            Err(_) => {}
        }
        // Whatever the reason is: a daemon that starts refuses, too.
        tokio::select! {
            () = shared.poke.notified() => {}
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

/// Takes events and wakes whom they are for, for as long as there are handles and this daemon.
async fn serve(shared: &Arc<Shared>, bell: &UnixStream) {
    loop {
        let nap = {
            let mut state = shared.lock();
            state.pump();
            if state.is_ended || state.gone || state.is_detached {
                return;
            }
            let nap = state.client.prepare_sleep(None);
            state.is_asleep = nap.is_some();
            nap
        };
        let Some(nap) = nap else {
            // Something came meanwhile. Others get their turn before the next look.
            tokio::task::yield_now().await;
            continue;
        };
        let is_rung = tokio::select! {
            rung = bell.readable() => rung.is_ok(),
            () = shared.poke.notified() => false,
            // The daemon does not ring when its ring of requests has room again.
            () = async { tokio::time::sleep(nap.unwrap_or_default()).await }, if nap.is_some() => false,
        };
        let mut is_up = false;
        let mut wake_up = || {
            let mut state = shared.lock();
            state.is_asleep = false;
            state.client.disarm();
            is_up = true;
        };
        if is_rung {
            // Tokio forgets the readiness that it knew before the bell was emptied, and none that came after.
            let _: io::Result<()> = bell.try_io(Interest::READABLE, || {
                wake_up();
                Err(io::ErrorKind::WouldBlock.into())
            });
        }
        if !is_up {
            let mut state = shared.lock();
            state.is_asleep = false;
            state.client.disarm();
        }
    }
}
