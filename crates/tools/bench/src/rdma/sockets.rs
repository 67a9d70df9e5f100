//! Sockets of the kernel's baseline: those that connect, and those that are connected and wait for the server to close them.
//!
//! Few are looked at with one `poll`, which costs nothing but itself. It looks at all that it is given, so a client with many in
//! flight would pay for those that are not ready, too: many are registered once each with `epoll`, which tells of those that are.

use super::tcp::{HELD_FOR, HELD_LOOK, HELD_MAX, NOW, io};
use crate::error::BenchError;
use barewire_base::Instant;
use barewire_measure::stamp;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::sockopt;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// Most connections in flight that are looked at with `poll`.
pub(super) const POLLED_MAX: u32 = 8;
/// Events taken at once.
const EVENTS: usize = 256;

/// What became of a connection that was begun.
pub(super) struct Done {
    /// When it was begun.
    pub(super) since: Instant,
    /// It is none: the server refused, or is gone.
    pub(super) refused: bool,
}

/// A client's sockets.
pub(super) enum Sockets {
    Polled(Polled),
    Epolled(Epolled),
}

impl Sockets {
    /// For `window` connections in flight.
    pub(super) fn new(window: u32) -> Result<Sockets, BenchError> {
        if window <= POLLED_MAX {
            return Ok(Sockets::Polled(Polled::default()));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io("epoll_create"))?;
        let events = Vec::with_capacity(EVENTS);
        Ok(Sockets::Epolled(Epolled {
            epoll,
            slots: vec![],
            free: vec![],
            held: VecDeque::new(),
            events,
            flying: 0,
            waiting: 0,
        }))
    }

    /// How ready ones are found, for a row's notes.
    pub(super) fn how(window: u32) -> &'static str {
        if window <= POLLED_MAX { "ready ones found by poll" } else { "ready ones found by epoll" }
    }

    /// Connections begun.
    pub(super) fn in_flight(&self) -> usize {
        match self {
            Sockets::Polled(s) => s.flying.len(),
            Sockets::Epolled(s) => s.flying,
        }
    }

    /// Whether one more may be opened without going too far ahead of the server.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Sockets::Polled(s) => s.held.len() < HELD_MAX,
            Sockets::Epolled(s) => s.waiting < HELD_MAX,
        }
    }

    /// Takes a socket in that is connecting.
    pub(super) fn begin(&mut self, fd: OwnedFd, since: Instant) -> Result<(), BenchError> {
        match self {
            Sockets::Polled(s) => {
                s.flying.push((fd, since));
                Ok(())
            }
            Sockets::Epolled(s) => s.begin(fd, since),
        }
    }

    /// Drops what the server has closed, where that takes a look of its own, and what it will never close.
    pub(super) fn look(&mut self, now: Instant) -> Result<(), BenchError> {
        match self {
            Sockets::Polled(s) => s.look(now),
            Sockets::Epolled(s) => {
                s.drop_old(now);
                Ok(())
            }
        }
    }

    /// Waits up to `timeout` for what is in flight, and appends what is decided. When it looked.
    pub(super) fn finish(&mut self, timeout: &Timespec, done: &mut Vec<Done>) -> Result<Instant, BenchError> {
        match self {
            Sockets::Polled(s) => s.finish(timeout, done),
            Sockets::Epolled(s) => s.finish(timeout, done),
        }
    }

    /// Closes the older half of what waits for the server.
    pub(super) fn let_go(&mut self) {
        match self {
            Sockets::Polled(s) => {
                let half = s.held.len().div_ceil(2);
                s.held.drain(..half).for_each(|(fd, _)| reset(fd));
                s.left = s.held.len();
            }
            Sockets::Epolled(s) => {
                for _ in 0..s.waiting.div_ceil(2) {
                    s.drop_oldest();
                }
            }
        }
    }

    /// Closes all; when each of those in flight was begun.
    pub(super) fn close(self) -> Vec<Instant> {
        let (held, flying): (Vec<OwnedFd>, Vec<(OwnedFd, Instant)>) = match self {
            Sockets::Polled(s) => (s.held.into_iter().map(|(fd, _)| fd).collect(), s.flying),
            Sockets::Epolled(s) => {
                let (mut held, mut flying) = (vec![], vec![]);
                for slot in s.slots {
                    match (slot.fd, slot.held) {
                        (Some(fd), true) => held.push(fd),
                        (Some(fd), false) => flying.push((fd, slot.since)),
                        (None, _) => {}
                    }
                }
                (held, flying)
            }
        };
        held.into_iter().for_each(reset);
        flying
            .into_iter()
            .map(|(fd, since)| {
                reset(fd);
                since
            })
            .collect()
    }
}

/// Closes without TIME_WAIT.
fn reset(fd: OwnedFd) {
    let _ = sockopt::set_socket_linger(&fd, Some(std::time::Duration::ZERO));
}

/// Whether a socket that is ready with an error is no connection. A reset comes to who is connected only: the server was faster than
/// this look. Who is not is refused.
fn is_refused(fd: &OwnedFd) -> bool {
    sockopt::socket_error(fd) != Ok(Err(rustix::io::Errno::CONNRESET))
}

/// Polls up to `MOST` sockets, which stand on the stack meanwhile: a client that asks without pause asks for no memory. What is ready is in
/// `ready` then, in their order.
fn look_at<'fd, const MOST: usize>(
    mut sockets: impl Iterator<Item = &'fd OwnedFd>,
    flags: PollFlags,
    timeout: &Timespec,
    ready: &mut Vec<PollFlags>,
) -> Result<(), BenchError> {
    ready.clear();
    let Some(first) = sockets.next() else {
        poll(&mut [], Some(timeout)).map_err(io("poll"))?;
        return Ok(());
    };
    let mut count = 1;
    let mut fds: [PollFd<'_>; MOST] = std::array::from_fn(|at| {
        let next = if at == 0 { None } else { sockets.next() };
        count += usize::from(next.is_some());
        // The places behind the last one are not looked at.
        PollFd::new(next.unwrap_or(first), flags)
    });
    debug_assert!(sockets.next().is_none(), "more than {MOST} sockets");
    poll(&mut fds[..count], Some(timeout)).map_err(io("poll"))?;
    ready.extend(fds[..count].iter().map(PollFd::revents));
    Ok(())
}

/// All are given to `poll`.
#[derive(Default)]
pub(super) struct Polled {
    flying: Vec<(OwnedFd, Instant)>,
    /// Connected, with the time since when, oldest first.
    held: VecDeque<(OwnedFd, Instant)>,
    /// So many were left by the last look.
    left: usize,
    ready: Vec<PollFlags>,
}

impl Polled {
    fn look(&mut self, now: Instant) -> Result<(), BenchError> {
        if self.held.len() < self.left + HELD_LOOK && self.held.len() < HELD_MAX {
            return Ok(());
        }
        look_at::<{ HELD_MAX + POLLED_MAX as usize }>(
            self.held.iter().map(|(fd, _)| fd),
            PollFlags::empty(),
            &NOW,
            &mut self.ready,
        )?;
        let mut ready = self.ready.iter();
        self.held.retain(|_| ready.next().is_none_or(|flags| flags.is_empty()));
        while self.held.front().is_some_and(|(_, since)| now.since(*since) > HELD_FOR) {
            self.held.pop_front().into_iter().for_each(|(fd, _)| reset(fd));
        }
        self.left = self.held.len();
        Ok(())
    }

    fn finish(&mut self, timeout: &Timespec, done: &mut Vec<Done>) -> Result<Instant, BenchError> {
        look_at::<{ POLLED_MAX as usize }>(
            self.flying.iter().map(|(fd, _)| fd),
            PollFlags::OUT,
            timeout,
            &mut self.ready,
        )?;
        let at = stamp();
        for index in (0..self.flying.len()).rev() {
            let ready = self.ready[index];
            if ready.is_empty() {
                continue;
            }
            let (fd, since) = self.flying.swap_remove(index);
            let closed = ready.intersects(PollFlags::ERR | PollFlags::HUP);
            done.push(Done { since, refused: closed && is_refused(&fd) });
            if !closed {
                self.held.push_back((fd, at));
            }
        }
        Ok(at)
    }
}

struct Slot {
    fd: Option<OwnedFd>,
    since: Instant,
    /// Connected; it waits for the server to close it.
    held: bool,
    /// Tells the sockets that have had this place apart.
    generation: u32,
}

/// Each is registered once, for both of its events: that it is connected, and that the server has closed it.
pub(super) struct Epolled {
    epoll: OwnedFd,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Those that were connected, oldest first, by place and generation, with the time since when. Closed ones are passed over.
    held: VecDeque<(usize, u32, Instant)>,
    events: Vec<epoll::Event>,
    flying: usize,
    /// Those of `held` that are not closed.
    waiting: usize,
}

impl Epolled {
    fn begin(&mut self, fd: OwnedFd, since: Instant) -> Result<(), BenchError> {
        let place = self.free.pop().unwrap_or(self.slots.len());
        let data = epoll::EventData::new_u64(place as u64);
        let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &fd, data, flags).map_err(io("epoll_ctl"))?;
        let generation = self.slots.get(place).map_or(0, |slot| slot.generation.wrapping_add(1));
        let slot = Slot { fd: Some(fd), since, held: false, generation };
        match self.slots.get_mut(place) {
            Some(old) => *old = slot,
            None => self.slots.push(slot),
        }
        self.flying += 1;
        Ok(())
    }

    fn finish(&mut self, timeout: &Timespec, done: &mut Vec<Done>) -> Result<Instant, BenchError> {
        self.events.clear();
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(timeout))
            .map_err(io("epoll_wait"))?;
        let at = stamp();
        for index in 0..self.events.len() {
            let (flags, data) = (self.events[index].flags, self.events[index].data);
            let place = data.u64() as usize;
            let closed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            let Some(slot) = self.slots.get_mut(place).filter(|slot| slot.fd.is_some()) else { continue };
            if !slot.held {
                let refused = closed && slot.fd.as_ref().is_some_and(is_refused);
                done.push(Done { since: slot.since, refused });
                self.flying -= 1;
                if !closed {
                    slot.held = true;
                    self.waiting += 1;
                    self.held.push_back((place, slot.generation, at));
                }
            } else if closed {
                self.waiting -= 1;
            }
            if closed {
                // Closing takes it out of the epoll.
                slot.fd = None;
                self.free.push(place);
            }
        }
        Ok(at)
    }

    /// Closes the one that has waited for longest.
    fn drop_oldest(&mut self) {
        while let Some((place, generation, _)) = self.held.pop_front() {
            let slot = &mut self.slots[place];
            if slot.generation == generation
                && let Some(fd) = slot.fd.take()
            {
                reset(fd);
                self.free.push(place);
                self.waiting -= 1;
                return;
            }
        }
    }

    fn drop_old(&mut self, now: Instant) {
        while let Some(&(place, generation, since)) = self.held.front() {
            let slot = &self.slots[place];
            if slot.generation != generation || slot.fd.is_none() {
                self.held.pop_front();
            } else if now.since(since) > HELD_FOR {
                self.drop_oldest();
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tcp::listen_at;
    use super::*;
    use rustix::net::{SocketFlags, SocketType, connect, socket_with};
    use std::net::SocketAddr;

    /// The loop of a client: what it asks for memory is in its time, and not in ours.
    #[test]
    fn connecting_with_poll_asks_for_no_memory() {
        let (_listener, at) = listen_at(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let mut sockets = Sockets::new(POLLED_MAX).unwrap();
        let mut done = Vec::with_capacity(HELD_MAX * 2);
        let connect_some = |sockets: &mut Sockets, done: &mut Vec<Done>| {
            for _ in 0..POLLED_MAX {
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                let fd =
                    socket_with(rustix::net::AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
                let _ = connect(&fd, &at);
                sockets.begin(fd, stamp()).unwrap();
            }
            while sockets.in_flight() > 0 {
                sockets.finish(&Timespec { tv_sec: 1, tv_nsec: 0 }, done).unwrap();
            }
        };
        // Twice, so that what grows has grown.
        for _ in 0..2 {
            for _ in 0..HELD_MAX / POLLED_MAX as usize {
                connect_some(&mut sockets, &mut done);
            }
            done.clear();
            sockets.look(stamp() + HELD_FOR + HELD_FOR).unwrap();
        }
        let asked = allocation_counter::measure(|| {
            connect_some(&mut sockets, &mut done);
            sockets.look(stamp()).unwrap();
        });
        assert_eq!((asked.count_total, done.len()), (0, POLLED_MAX as usize));
    }
}
