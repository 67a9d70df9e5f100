//! The daemon's side of a channel.

use crate::layout::{APP_PARKED, CLOSED, DAEMON_PARKED, ENTRY_WORDS, ROOM_WANTED};
use crate::sys::{self, Memory};
use crate::{BadEntry, ChannelError, ChannelFds, Completion, Geometry, Request};
use barewire_ring::park::ParkFlag;
use barewire_ring::{Region, spsc};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::{AcqRel, Release};

/// One sleep in so many drains the doorbell though nobody is known to have rung: an application that rings unasked
/// cannot keep the daemon from sleeping for longer.
const DRAIN_EVERY: u32 = 64;

/// The daemon's side of one channel. Nothing in it blocks, panics or reaches beyond the channel's memory, whatever the
/// application writes there.
///
/// Work comes in batches: requests are given back, and completions published, by [`flush`](DaemonChannel::flush), which
/// belongs at the end of each round of work. A channel that [`is_corrupt`](DaemonChannel::is_corrupt) stays so: close
/// it.
#[derive(Debug)]
pub struct DaemonChannel {
    geometry: Geometry,
    sq: spsc::Consumer<ENTRY_WORDS>,
    /// Requests that the SQ is known to hold, and how many of them were taken but not yet given back.
    ready: usize,
    taken: usize,
    cq: spsc::Producer<ENTRY_WORDS>,
    /// Completions written but not yet published.
    pending: usize,
    /// Room that was asked for since the last sleep and was not there: the least of it, 0 when there was enough.
    wanted: usize,
    send_memory: Region,
    recv_memory: Region,
    /// The whole of the memory, for its words.
    memory: Region,
    app_parked: ParkFlag,
    daemon_parked: ParkFlag,
    room_wanted: ParkFlag,
    /// Our flags may be set; the one for requests too.
    armed: bool,
    armed_for_requests: bool,
    /// The application has taken a flag of ours, so it has rung or is about to.
    rung: bool,
    sleeps: u32,
    wake_app: OwnedFd,
    wake_daemon: OwnedFd,
}

impl DaemonChannel {
    /// Makes a channel; the second part is for the application and should be dropped once it was sent.
    ///
    /// # Errors
    /// [`ChannelError::Geometry`], or a failed call: there are too many descriptors, or the kernel is older than Linux
    /// 5.8.
    pub fn create(geometry: Geometry) -> Result<(DaemonChannel, ChannelFds), ChannelError> {
        let layout = geometry.layout()?;
        let file = Memory::create(layout.total)?;
        let memory = file.map().map_err(ChannelError::sys("mmap"))?;
        let slice =
            |span: crate::layout::Span| memory.slice(span.at, span.len).ok_or_else(|| mismatch(&memory));
        let flag = |offset| ParkFlag::new(&memory, offset).ok_or_else(|| mismatch(&memory));
        if !memory.write(0, &geometry.header()) {
            return Err(mismatch(&memory));
        }

        let wake_daemon = sys::eventfd().map_err(ChannelError::sys("eventfd"))?;
        // Finds out here whether the kernel can do it at all, rather than in the middle of the work.
        sys::eventfd_drain(wake_daemon.as_fd())
            .map_err(ChannelError::sys("preadv2(RWF_NOWAIT) of an eventfd"))?;
        let (wake_app, app_end) = UnixStream::pair().map_err(ChannelError::sys("socketpair"))?;
        app_end.set_nonblocking(true).map_err(ChannelError::sys("FIONBIO"))?;
        let daemon_end = wake_daemon.try_clone().map_err(ChannelError::sys("dup"))?;

        let channel = DaemonChannel {
            geometry,
            sq: spsc::consumer(slice(layout.sq)?, geometry.sq_entries).ok_or_else(|| mismatch(&memory))?,
            ready: 0,
            taken: 0,
            cq: spsc::producer(slice(layout.cq)?, geometry.cq_entries).ok_or_else(|| mismatch(&memory))?,
            pending: 0,
            wanted: 0,
            send_memory: slice(layout.send)?,
            recv_memory: slice(layout.recv)?,
            app_parked: flag(APP_PARKED)?,
            daemon_parked: flag(DAEMON_PARKED)?,
            room_wanted: flag(ROOM_WANTED)?,
            memory,
            armed: false,
            armed_for_requests: false,
            rung: false,
            sleeps: 0,
            wake_app: wake_app.into(),
            wake_daemon,
        };
        let fds = ChannelFds { memory: file.into_fd(), wake_app: app_end.into(), wake_daemon: daemon_end };
        Ok((channel, fds))
    }

    /// The sizes that it was made with.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Where the application writes its messages. It may change them at any time.
    #[inline]
    pub fn send_memory(&self) -> &Region {
        &self.send_memory
    }

    /// Where the application reads received messages.
    #[inline]
    pub fn recv_memory(&self) -> &Region {
        &self.recv_memory
    }

    /// The next request, or what stands in its place. `None` when there is none or the channel is corrupt. The
    /// application gets the entry's place back with the next [`flush`](DaemonChannel::flush), or when all are taken.
    #[inline]
    pub fn next_request(&mut self) -> Option<Result<Request, BadEntry>> {
        if self.taken == self.ready {
            self.give_back();
            self.ready = self.sq.available();
            if self.ready == 0 {
                return None;
            }
        }
        let words = self.sq.read(self.taken);
        self.taken += 1;
        Some(Request::decode(words))
    }

    #[inline]
    fn give_back(&mut self) {
        if self.taken != 0 {
            self.sq.release(self.taken);
            self.ready -= self.taken;
            self.taken = 0;
        }
    }

    /// How many completions have room, exactly; zero when corrupt. Looks at the application's cache line: where a
    /// bound is enough, ask [`cq_has_room`](DaemonChannel::cq_has_room).
    pub fn cq_room(&mut self) -> usize {
        self.cq.free_at_least(self.cq.capacity()).saturating_sub(self.pending)
    }

    /// Whether `n` more completions have room. When they have not, the daemon is woken as soon as the application has
    /// made some.
    #[inline]
    pub fn cq_has_room(&mut self, n: usize) -> bool {
        let all = self.pending.saturating_add(n);
        let has_room = self.cq.free_at_least(all) >= all;
        if !has_room {
            self.wanted = if self.wanted == 0 { n } else { self.wanted.min(n) };
        }
        has_room
    }

    /// Writes a completion; [`flush`](DaemonChannel::flush) publishes it. False, and nothing written, when the CQ is
    /// full or the channel corrupt: keep it for later; the daemon is woken as soon as there is room.
    #[inline]
    #[must_use]
    pub fn complete(&mut self, completion: &Completion) -> bool {
        if !self.cq_has_room(1) {
            return false;
        }
        self.cq.write(self.pending, &completion.encode());
        self.pending += 1;
        true
    }

    /// Publishes what was completed, wakes the application if it sleeps, and gives back the requests that were taken.
    /// One system call at most.
    #[inline]
    pub fn flush(&mut self) {
        self.give_back();
        if self.pending != 0 {
            self.cq.commit(self.pending);
            self.pending = 0;
            if self.app_parked.should_wake() {
                sys::socket_ring(self.wake_app.as_fd());
            }
        }
    }

    /// Whether a ring's index was found impossible: nothing more goes through. Final. A client that works does not do
    /// that.
    #[inline]
    pub fn is_corrupt(&self) -> bool {
        self.sq.is_corrupt() || self.cq.is_corrupt()
    }

    /// Call it before a sleep on [`wake_fd`](DaemonChannel::wake_fd): flushes, then asks the application to ring.
    /// False when there is work (a request, room for a completion that found none, a corrupt channel to close): then
    /// do not sleep.
    pub fn prepare_wait(&mut self) -> bool {
        self.prepare(true)
    }

    /// As [`prepare_wait`](DaemonChannel::prepare_wait), for a daemon that can take no request before something else
    /// has happened: requests are no work, and new ones do not ring.
    pub fn prepare_wait_for_room(&mut self) -> bool {
        self.prepare(false)
    }

    fn prepare(&mut self, for_requests: bool) -> bool {
        self.flush();
        self.armed = true;
        self.armed_for_requests = for_requests;
        if for_requests {
            self.daemon_parked.prepare();
        }
        if self.wanted != 0 {
            self.room_wanted.prepare();
        }
        let has_room = self.wanted != 0 && self.cq.free_at_least(self.wanted) >= self.wanted;
        if (for_requests && self.sq.available() != 0) || has_room || self.is_corrupt() {
            self.unpark();
            return false;
        }
        true
    }

    /// Call it after the sleep (or instead of one): asks for no more ringing, and makes
    /// [`wake_fd`](DaemonChannel::wake_fd) unreadable. Then look at the channel.
    pub fn finish_wait(&mut self) {
        self.unpark();
        self.sleeps = self.sleeps.wrapping_add(1);
        // A system call for each channel after each sleep would add up, so the doorbell is drained only when it was
        // rung. Taking the flag comes before ringing: what was rung too late to be found here is drained next time.
        if (self.rung || self.sleeps.is_multiple_of(DRAIN_EVERY))
            && sys::eventfd_drain(self.wake_daemon.as_fd()).unwrap_or(true)
        {
            self.rung = false;
        }
    }

    /// Clears our flags, and notes whether the application had done so before.
    fn unpark(&mut self) {
        if !std::mem::take(&mut self.armed) {
            return;
        }
        if std::mem::take(&mut self.armed_for_requests) {
            self.rung |= self.take_flag(DAEMON_PARKED);
        }
        if std::mem::take(&mut self.wanted) != 0 {
            self.rung |= self.take_flag(ROOM_WANTED);
        }
    }

    /// `ParkFlag::cancel`, and whether the application had taken the flag.
    fn take_flag(&self, offset: usize) -> bool {
        self.memory.atomic_u32(offset).is_none_or(|flag| flag.swap(0, AcqRel) == 0)
    }

    /// Readable when the application has rung. Watch it level-triggered. The daemon must not read it other than by
    /// [`finish_wait`](DaemonChannel::finish_wait): the application can make such a read block.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.wake_daemon.as_fd()
    }

    /// Tells the application that nothing more will come, and wakes it. Dropping the channel does it too.
    pub fn mark_closed(&mut self) {
        self.flush();
        if let Some(closed) = self.memory.atomic_u32(CLOSED) {
            closed.store(1, Release);
        }
        // Whether it sleeps or not: it is the last time.
        sys::socket_ring(self.wake_app.as_fd());
    }
}

impl Drop for DaemonChannel {
    fn drop(&mut self) {
        self.mark_closed();
    }
}

/// Cannot happen: the memory was made as long as the layout says.
#[cold]
fn mismatch(memory: &Region) -> ChannelError {
    ChannelError::Size { got: memory.len() as u64, want: 0 }
}
