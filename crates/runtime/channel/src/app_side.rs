//! The application's side of a channel.

use crate::layout::{APP_PARKED, CLOSED, DAEMON_PARKED, ENTRY_WORDS, HEADER_LEN, ROOM_WANTED, Span};
use crate::sys::{self, Memory, Process, TimeLeft};
use crate::{BadEntry, ChannelError, ChannelFds, Completion, Geometry, Request};
use barewire_ring::park::ParkFlag;
use barewire_ring::{Region, spsc};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// Completions taken before their places are given back, if more are ready: the daemon need not wait for the last.
const GIVE_BACK: usize = 64;

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// There is a completion to take.
    Ready,
    /// The time was over first.
    TimedOut,
    /// The daemon died, closed the channel or destroyed it, and every completion before that was taken: nothing more
    /// will come.
    Gone,
    /// A [`Waker`] was rung.
    Woken,
}

/// Ends a wait from another thread. Copies ring the same channel; a ring is not lost when nobody waits yet.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Ends the wait that goes on, or the next one. One system call, and safe in a signal's handler.
    pub fn wake(&self) {
        sys::eventfd_ring(self.0.as_fd());
    }
}

/// What to sleep on while others use the channel: between a true [`AppChannel::arm`] and [`AppChannel::disarm`].
#[derive(Debug)]
pub struct Sleeper {
    doorbell: OwnedFd,
    waker: Waker,
}

impl Sleeper {
    /// Sleeps until the daemon rings or is gone, a [`Waker`] is rung, or the time is over (false).
    ///
    /// # Errors
    /// A signal came (`Interrupted`).
    pub fn sleep(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let fds = [self.doorbell.as_fd(), self.waker.0.as_fd()];
        Ok(sys::poll_two(fds, &mut TimeLeft::new(timeout))?.is_some())
    }
}

/// The application's side of one channel. It may move between threads, but one thread uses it at a time.
///
/// [`submit`](AppChannel::submit) as many requests as there are, then [`flush`](AppChannel::flush).
#[derive(Debug)]
pub struct AppChannel {
    geometry: Geometry,
    sq: spsc::Producer<ENTRY_WORDS>,
    /// Requests written but not yet published.
    pending: usize,
    cq: spsc::Consumer<ENTRY_WORDS>,
    /// Completions that the CQ is known to hold, and how many of them were taken but not yet given back.
    ready: usize,
    taken: usize,
    send_memory: Region,
    recv_memory: Region,
    /// The whole of the memory, for its words.
    memory: Region,
    app_parked: ParkFlag,
    daemon_parked: ParkFlag,
    room_wanted: ParkFlag,
    /// The doorbell was found hung up.
    hung_up: bool,
    wake_app: OwnedFd,
    wake_daemon: OwnedFd,
    /// Made when somebody first asked for it.
    waker: Option<Waker>,
    /// Which process attached: a child of fork(2) that used the channel too would be a second writer of its rings.
    process: Process,
    not_sync: PhantomData<Cell<()>>,
}

impl AppChannel {
    /// Attaches to a new channel. Nothing is believed before it was checked: the memory must be sealed, and its header,
    /// geometry and length must agree.
    ///
    /// # Errors
    /// [`ChannelError`] says which check failed, or which call.
    pub fn attach(fds: ChannelFds) -> Result<AppChannel, ChannelError> {
        let process = Process::this();
        let ChannelFds { memory, wake_app, wake_daemon } = fds;
        let file = Memory::adopt(memory)?;
        let reader = File::from(file.fd().try_clone_to_owned().map_err(ChannelError::sys("dup"))?);
        let mut header = [0; HEADER_LEN];
        // The sealed length cannot change between this check and the next.
        if file.len() < HEADER_LEN as u64 {
            return Err(ChannelError::BadMagic);
        }
        reader.read_exact_at(&mut header, 0).map_err(ChannelError::sys("pread"))?;
        let geometry = Geometry::from_header(&header)?;
        let layout = geometry.layout()?;
        let wrong_size = || ChannelError::Size { got: file.len(), want: layout.total as u64 };
        if file.len() != layout.total as u64 {
            return Err(wrong_size());
        }
        let memory = file.map().map_err(ChannelError::sys("mmap"))?;
        let slice = |span: Span| memory.slice(span.at, span.len).ok_or_else(wrong_size);
        let flag = |offset| ParkFlag::new(&memory, offset).ok_or_else(wrong_size);
        Ok(AppChannel {
            geometry,
            sq: spsc::producer(slice(layout.sq)?, geometry.sq_entries).ok_or_else(wrong_size)?,
            pending: 0,
            cq: spsc::consumer(slice(layout.cq)?, geometry.cq_entries).ok_or_else(wrong_size)?,
            ready: 0,
            taken: 0,
            send_memory: slice(layout.send)?,
            recv_memory: slice(layout.recv)?,
            app_parked: flag(APP_PARKED)?,
            daemon_parked: flag(DAEMON_PARKED)?,
            room_wanted: flag(ROOM_WANTED)?,
            memory,
            hung_up: false,
            wake_app,
            wake_daemon,
            waker: None,
            process,
            not_sync: PhantomData,
        })
    }

    /// The sizes of the channel.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Where to write messages before sending them.
    #[inline]
    pub fn send_memory(&self) -> &Region {
        &self.send_memory
    }

    /// Where received messages are.
    #[inline]
    pub fn recv_memory(&self) -> &Region {
        &self.recv_memory
    }

    /// Writes a request; [`flush`](AppChannel::flush) publishes it. False, and nothing written, when the SQ is full:
    /// flush, and try again when the daemon has worked.
    #[inline]
    #[must_use]
    pub fn submit(&mut self, request: &Request) -> bool {
        if !self.has_room() {
            return false;
        }
        self.sq.write(self.pending, &request.encode());
        self.pending += 1;
        true
    }

    /// Whether [`submit`](AppChannel::submit) has room for one request.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        !self.is_inherited() && self.sq.free_at_least(self.pending + 1) > self.pending
    }

    /// Whether [`submit`](AppChannel::submit) has room for `n` requests.
    #[inline]
    pub fn has_room_for(&mut self, n: usize) -> bool {
        !self.is_inherited() && self.sq.free_at_least(self.pending + n) >= self.pending + n
    }

    /// Publishes what was submitted, and wakes the daemon if it sleeps. One system call at most.
    #[inline]
    pub fn flush(&mut self) {
        if self.pending != 0 && !self.is_inherited() {
            self.sq.commit(self.pending);
            self.pending = 0;
            if self.daemon_parked.should_wake() {
                sys::eventfd_ring(self.wake_daemon.as_fd());
            }
        }
    }

    /// The next completion, or what stands in its place (only a daemon gone mad writes that). `None` when there is
    /// none. Offsets and lengths are for the caller to check; the memories' own bounds are checked at every access.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Result<Completion, BadEntry>> {
        if (self.taken == self.ready || self.taken == GIVE_BACK) && !self.look() {
            return None;
        }
        let words = self.cq.read(self.taken);
        self.taken += 1;
        Some(Completion::decode(words))
    }

    /// Whether [`next_completion`](AppChannel::next_completion) has one.
    #[inline]
    pub fn has_completion(&mut self) -> bool {
        self.taken != self.ready || self.look()
    }

    #[inline]
    fn give_back(&mut self) {
        if self.taken != 0 {
            self.cq.release(self.taken);
            self.ready -= self.taken;
            self.taken = 0;
        }
    }

    /// Gives back what was taken and looks for more.
    fn look(&mut self) -> bool {
        if self.is_inherited() {
            return false;
        }
        self.give_back();
        if self.ready == 0 {
            self.ready = self.cq.available();
        }
        // No fence between the release and this look at the flag, which may therefore miss a daemon that goes to sleep
        // just now. The next look sees it, and `arm` has the fence.
        if self.memory.atomic_u32(ROOM_WANTED).is_some_and(|flag| flag.load(Relaxed) != 0) {
            self.tell_of_room();
        }
        self.ready != 0
    }

    /// Whether another process attached, whose child this one is. The channel is that one's; here it counts as closed.
    #[inline]
    pub fn is_inherited(&self) -> bool {
        !self.process.is_this()
    }

    /// What ends a wait from other threads. Waits look at it from now on, which costs them a second descriptor.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn waker(&mut self) -> io::Result<Waker> {
        if let Some(waker) = &self.waker {
            return Ok(waker.clone());
        }
        let waker = Waker(Arc::new(sys::eventfd()?));
        self.waker = Some(waker.clone());
        Ok(waker)
    }

    /// Lets the waker of another channel end the waits on this one, too: the one that took its place.
    pub fn adopt_waker(&mut self, old: &AppChannel) -> Option<Waker> {
        self.waker.clone_from(&old.waker);
        self.waker.clone()
    }

    /// What to sleep on while there is no daemon: only a [`Waker`] and the time end it.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn lonely_sleeper(&mut self) -> io::Result<Sleeper> {
        Ok(Sleeper { waker: self.waker()?, doorbell: sys::eventfd()? })
    }

    /// What to sleep on without the channel at hand.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn sleeper(&mut self) -> io::Result<Sleeper> {
        Ok(Sleeper { waker: self.waker()?, doorbell: self.wake_app.try_clone()? })
    }

    /// Whether a [`Waker`] was rung since the last call.
    ///
    /// Not seen between its ring and the end of the sleep that it ends, so it comes after that sleep.
    pub fn take_woken(&mut self) -> bool {
        self.waker.as_ref().is_some_and(|w| sys::eventfd_drain(w.0.as_fd()).unwrap_or(false))
    }

    /// Whether the daemon was asked to ring, and nobody has stopped that since.
    pub fn is_armed(&self) -> bool {
        self.memory.atomic_u32(APP_PARKED).is_some_and(|flag| flag.load(Relaxed) != 0)
    }

    #[cold]
    fn tell_of_room(&mut self) {
        if self.room_wanted.should_wake() {
            sys::eventfd_ring(self.wake_daemon.as_fd());
        }
    }

    /// Waits for a completion; `timeout` `None`: for ever. Flushes first. Does not spin: who wants to spins before.
    ///
    /// # Errors
    /// A signal came (`Interrupted`).
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<Wake> {
        let mut left = TimeLeft::new(timeout);
        loop {
            if !self.arm() {
                return Ok(if self.has_completion() { Wake::Ready } else { Wake::Gone });
            }
            let polled = match &self.waker {
                None => sys::poll(self.wake_app.as_fd(), &mut left),
                Some(waker) => match sys::poll_two([self.wake_app.as_fd(), waker.0.as_fd()], &mut left) {
                    Ok(Some([bell, woken])) if woken.readable && !bell.readable && !bell.hung_up => {
                        self.app_parked.cancel();
                        if sys::eventfd_drain(waker.0.as_fd()).unwrap_or(true) {
                            return Ok(Wake::Woken);
                        }
                        continue;
                    }
                    polled => polled.map(|p| p.map(|[bell, _]| bell)),
                },
            };
            self.app_parked.cancel();
            let polled = polled?;
            if let Some(polled) = polled {
                self.hung_up |=
                    polled.hung_up || (polled.readable && !sys::socket_drain(self.wake_app.as_fd()));
            }
            if self.has_completion() {
                return Ok(Wake::Ready);
            }
            if self.is_closed() {
                return Ok(Wake::Gone);
            }
            if polled.is_none() {
                return Ok(Wake::TimedOut);
            }
            // Rung for completions that were taken before.
        }
    }

    /// Readable when the daemon has rung, and hung up when it has closed the channel or died: for an epoll of the
    /// user's. Between [`arm`](AppChannel::arm) and [`disarm`](AppChannel::disarm) only; the user must not read it.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.wake_app.as_fd()
    }

    /// Call it before a sleep on [`event_fd`](AppChannel::event_fd): flushes, then asks the daemon to ring. False when
    /// there is a completion, or nothing will ever come: then do not sleep.
    #[must_use]
    pub fn arm(&mut self) -> bool {
        self.flush();
        // Before `prepare`'s fence, so that the look after it cannot miss a daemon that waits for just this.
        self.give_back();
        self.app_parked.prepare();
        if self.has_completion() || self.is_closed() {
            self.app_parked.cancel();
            return false;
        }
        true
    }

    /// Call it after the sleep: asks for no more ringing, and makes [`event_fd`](AppChannel::event_fd) unreadable.
    /// Then look for completions.
    pub fn disarm(&mut self) {
        self.app_parked.cancel();
        self.hung_up |= !sys::socket_drain(self.wake_app.as_fd());
    }

    /// For tests: a ring's index was found impossible.
    #[cfg(test)]
    pub(crate) fn sq_or_cq_is_corrupt(&self) -> bool {
        self.sq.is_corrupt() || self.cq.is_corrupt()
    }

    /// Whether the daemon closed the channel, destroyed it, or was found dead by a wait. Completions may still be
    /// there.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.hung_up
            || self.is_inherited()
            || self.sq.is_corrupt()
            || self.cq.is_corrupt()
            || self.memory.atomic_u32(CLOSED).is_none_or(|closed| closed.load(Acquire) != 0)
    }
}
