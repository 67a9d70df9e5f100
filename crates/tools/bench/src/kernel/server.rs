//! The echo servers of the kernel baselines: one thread each.

use super::batch::{BatchLink, End};
use super::datagrams::{self, Batch, Datagrams};
use super::link::{self, ALL, Link, Received};
use super::many::Epoll;
use super::{BUSY_POLL_US, Baseline, Calls, SPIN_FIRST, Waiting, segments};
use barewire_base::{Duration, Instant};
use barewire_measure::{SocketRing, set_busy_poll, stamp};
use nix::sys::socket::MsgFlags;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// A sleeping server looks this often whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Echoes messages of `size` bytes on every connection, as `baseline` does it, until all are closed or `stop` is set.
pub(super) fn serve_tcp(
    sockets: Vec<OwnedFd>,
    baseline: Baseline,
    size: usize,
    stop: &AtomicBool,
) -> io::Result<()> {
    if baseline.waiting == Waiting::BusyPoll {
        sockets.iter().try_for_each(|socket| set_busy_poll(socket.as_fd(), BUSY_POLL_US))?;
    }
    let waiting = baseline.waiting;
    let plain = |sockets: Vec<OwnedFd>| sockets.into_iter().map(|s| BatchLink::new(s, size)).collect();
    match baseline.calls {
        Calls::Each => serve_each(sockets, waiting, size, stop),
        // Segments are UDP's.
        Calls::Batch | Calls::Segments => serve_batches(plain(sockets), waiting, None, stop),
        Calls::Epoll => {
            let epoll = Epoll::new(sockets.iter().map(AsFd::as_fd))?;
            serve_batches(plain(sockets), waiting, Some(epoll), stop)
        }
        Calls::Tls => {
            let link = |socket| BatchLink::encrypted(socket, size, End::Server);
            let links = sockets.into_iter().map(link).collect::<io::Result<_>>()?;
            serve_batches(links, waiting, None, stop)
        }
        Calls::Ring => serve_ring(sockets, waiting.spins(), stop),
    }
}

/// Whether a server asks its sockets without waiting now.
struct Patience {
    waiting: Waiting,
    until: Instant,
}

impl Patience {
    fn new(waiting: Waiting) -> Patience {
        Patience { waiting, until: Instant::ZERO }
    }

    #[inline]
    fn polls(&self) -> bool {
        self.waiting.spins() || self.waiting == Waiting::SpinSleep && stamp() < self.until
    }

    /// Something came: what comes next may come soon.
    #[inline]
    fn renew(&mut self) {
        if self.waiting == Waiting::SpinSleep {
            self.until = stamp() + SPIN_FIRST;
        }
    }
}

/// One receive and one send call for each message.
fn serve_each(sockets: Vec<OwnedFd>, waiting: Waiting, size: usize, stop: &AtomicBool) -> io::Result<()> {
    let mut links: Vec<Link> = sockets.into_iter().map(|s| Link::new(s, size)).collect();
    let stopped = || stop.load(Ordering::Relaxed);
    let several = links.len() > 1;
    let mut patience = Patience::new(waiting);
    while !links.is_empty() && !stopped() {
        let polls = patience.polls();
        let (receive, send) = flags(polls, several);
        let mut ready = ALL;
        if several && !polls {
            ready = link::ready(links.len(), |i| (links[i].fd(), PollFlags::IN), STOP_CHECK)?;
        }
        // From the last to the first: one that is taken out is replaced by one that has had its turn.
        for index in (0..links.len()).rev().filter(|i| ready >> i & 1 == 1) {
            let link = &mut links[index];
            let open = match link.receive(receive)? {
                Received::Message => {
                    let open = link.echo(send, stopped)?;
                    patience.renew();
                    open
                }
                Received::Part | Received::Nothing => true,
                Received::Closed => false,
            };
            if !open {
                links.swap_remove(index);
            }
        }
    }
    Ok(())
}

/// How servers receive and send. With one connection `recv` itself sleeps; the client's close ends it.
fn flags(spins: bool, several: bool) -> (RecvFlags, SendFlags) {
    match (spins, several) {
        (true, _) => (RecvFlags::DONTWAIT, SendFlags::DONTWAIT),
        (false, false) => (RecvFlags::empty(), SendFlags::empty()),
        (false, true) => (RecvFlags::DONTWAIT, SendFlags::empty()),
    }
}

/// One receive call for all that is there, one send call for all answers to it.
fn serve_batches(
    links: Vec<BatchLink>,
    waiting: Waiting,
    mut epoll: Option<Epoll>,
    stop: &AtomicBool,
) -> io::Result<()> {
    // A connection keeps its place: epoll names them by it.
    let mut links: Vec<Option<BatchLink>> = links.into_iter().map(Some).collect();
    let stopped = || stop.load(Ordering::Relaxed);
    let waits = epoll.is_some() || links.len() > 1;
    let mut patience = Patience::new(waiting);
    while links.iter().any(Option::is_some) && !stopped() {
        let polls = patience.polls();
        let (receive, send) = flags(polls, waits);
        let mut ready = ALL;
        if let Some(epoll) = &mut epoll {
            ready = epoll.ready(STOP_CHECK)?;
        } else if waits && !polls {
            let open: Vec<usize> = (0..links.len()).filter(|&i| links[i].is_some()).collect();
            let socket = |i: usize| links[open[i]].as_ref().map(|link| (link.fd(), PollFlags::IN));
            let Some(first) = socket(0) else { break };
            let bits = link::ready(open.len(), |i| socket(i).unwrap_or(first), STOP_CHECK)?;
            ready = open.iter().enumerate().fold(0, |all, (bit, i)| all | (bits >> bit & 1) << i);
        }
        for place in (0..links.len()).filter(|i| ready >> i & 1 == 1) {
            let Some(link) = &mut links[place] else { continue };
            let open = match link.receive(receive)? {
                Some(true) => {
                    let open = link.echo(send, stopped)?;
                    patience.renew();
                    open
                }
                Some(false) => true,
                None => false,
            };
            if !open {
                links[place] = None;
            }
        }
    }
    Ok(())
}

/// Sends bytes back as they come: an echo has no need of whole messages, which favours this one.
fn serve_ring(sockets: Vec<OwnedFd>, spins: bool, stop: &AtomicBool) -> io::Result<()> {
    let mut ring = SocketRing::new(sockets)?;
    let sleep = if spins { Duration::ZERO } else { STOP_CHECK };
    while !ring.all_closed() && !stop.load(Ordering::Relaxed) {
        ring.turn(sleep.into())?;
        while let Some(received) = ring.take() {
            ring.echo(received);
        }
    }
    Ok(())
}

/// Echoes every datagram of up to `size` bytes to whoever sent it, as `baseline` does it, until `stop` is set. `did` hears how many
/// bytes it were.
pub(super) fn serve_udp(
    socket: &UdpSocket,
    baseline: Baseline,
    size: usize,
    stop: &AtomicBool,
    did: impl Fn(u64),
) -> io::Result<()> {
    let spins = baseline.waiting.spins();
    if spins {
        socket.set_nonblocking(true)?;
    } else {
        socket.set_read_timeout(Some(STOP_CHECK.into()))?;
    }
    if baseline.waiting == Waiting::BusyPoll {
        set_busy_poll(socket.as_fd(), BUSY_POLL_US)?;
    }
    match baseline.calls {
        Calls::Each => return serve_datagrams(socket, size, size, stop, did),
        Calls::Segments => {
            segments::set_up(socket.as_fd(), size)?;
            return serve_datagrams(socket, segments::ROOM, segments::segments(size) * size, stop, did);
        }
        _ => {}
    }
    let wait = if spins { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() };
    let mut batch = Batch::new(size);
    batch.is_connected = socket.peer_addr().is_ok();
    while !stop.load(Ordering::Relaxed) {
        match batch.receive(socket.as_fd(), wait) {
            Ok(_) => {}
            Err(error) if datagrams::passes(&error) || passes(&error) => continue,
            Err(error) => return Err(error),
        }
        did((0..batch.len()).map(|i| batch.datagram(i).len() as u64).sum());
        let mut sent = 0;
        while sent < batch.len() {
            match batch.send(socket.as_fd(), sent, wait) {
                Ok(count) => sent += count,
                // No room, or the client has gone: a lost datagram either way, and the client's to notice.
                Err(error) if datagrams::passes(&error) || passes(&error) => sent += 1,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// One receive call of up to `room` bytes, and one send call for each `most` of what it brought. `did` hears how long it was.
pub(super) fn serve_datagrams(
    socket: &UdpSocket,
    room: usize,
    most: usize,
    stop: &AtomicBool,
    did: impl Fn(u64),
) -> io::Result<()> {
    let mut bytes = vec![0; room];
    let is_connected = socket.peer_addr().is_ok();
    while !stop.load(Ordering::Relaxed) {
        let received = match is_connected {
            true => socket.recv(&mut bytes).map(|len| (len, None)),
            false => socket.recv_from(&mut bytes).map(|(len, from)| (len, Some(from))),
        };
        let (len, from) = match received {
            Ok(received) => received,
            Err(error) if passes(&error) => continue,
            Err(error) => return Err(error),
        };
        did(len as u64);
        for part in bytes[..len].chunks(most.max(1)) {
            let sent = match from {
                None => socket.send(part),
                Some(from) => socket.send_to(part, from),
            };
            match sent {
                // No room, or the client has gone: lost either way, and the client's to notice.
                Ok(_) => {}
                Err(error) if passes(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn passes(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionRefused)
        || error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error())
}
