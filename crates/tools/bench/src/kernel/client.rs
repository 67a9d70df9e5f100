//! The client of a kernel baseline, as the driver sees it: which one, and the one that makes a call for each message.

use super::datagrams::Batch;
use super::link::{self, ALL, Link, Received};
use super::many::{BatchClient, DatagramClient, RingClient};
use super::segments::{self, Segments};
use super::{
    BUSY_POLL_US, Baseline, CONNECTIONS_MAX, Calls, Protocol, SPIN_FIRST, UDP_RESEND_AFTER, Waiting,
};
use crate::messages::{RequestResponse, SystemError, Wait};
use barewire_base::Duration;
use barewire_measure::{set_busy_poll, stamp};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest sleep in a plain `recv`: the socket's time-out. Shorter waits go through `ppoll`, which is exact.
pub(super) const TCP_RECEIVE_TIMEOUT: Duration = Duration::from_millis(100);
/// The same over UDP, where the driver has to come back to send again.
pub(super) const UDP_RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);

/// A client of `baseline` on connected sockets, 1 to [`CONNECTIONS_MAX`] of them, for messages of `size` bytes. Used by the thread that
/// makes it.
///
/// # Errors
/// What the kernel says to a receive time-out, to busy polling, to an io_uring; `InvalidInput` for any other number of sockets.
pub fn kernel_client(
    baseline: Baseline,
    sockets: Vec<OwnedFd>,
    size: u32,
) -> io::Result<Box<dyn RequestResponse>> {
    if sockets.is_empty() || sockets.len() > CONNECTIONS_MAX as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let receive_timeout = match baseline.protocol {
        Protocol::Tcp => TCP_RECEIVE_TIMEOUT,
        Protocol::Udp => UDP_RECEIVE_TIMEOUT,
    };
    for socket in &sockets {
        set_socket_timeout(socket, Timeout::Recv, Some(receive_timeout.into()))?;
        if baseline.waiting == Waiting::BusyPoll {
            set_busy_poll(socket.as_fd(), BUSY_POLL_US)?;
        }
    }
    let client = sleeping_or_not(baseline, sockets, size as usize, receive_timeout)?;
    Ok(if baseline.waiting == Waiting::SpinSleep { Box::new(SpinsFirst(client)) } else { client })
}

fn sleeping_or_not(
    baseline: Baseline,
    sockets: Vec<OwnedFd>,
    size: usize,
    receive_timeout: Duration,
) -> io::Result<Box<dyn RequestResponse>> {
    let (system, spins) = (baseline.name(), baseline.waiting.spins());
    let links = match (baseline.calls, baseline.protocol) {
        (Calls::Ring, _) => return Ok(Box::new(RingClient::new(sockets, system, spins, size)?)),
        (Calls::Batch, Protocol::Udp) => {
            // One byte more than a message: a longer datagram must not pass for a good one.
            let (outgoing, incoming) = (|| Batch::new(size), Batch::new(size + 1));
            return Ok(Box::new(DatagramClient::new(sockets, system, spins, outgoing, incoming)));
        }
        (Calls::Segments, _) => {
            sockets.iter().try_for_each(|socket| segments::set_up(socket.as_fd(), size))?;
            let room = || Segments::new(size);
            return Ok(Box::new(DatagramClient::new(sockets, system, spins, room, room())));
        }
        (Calls::Batch | Calls::Epoll | Calls::Tls, _) => {
            return Ok(Box::new(BatchClient::new(sockets, baseline, size)?));
        }
        (Calls::Each, Protocol::Tcp) => Links::Tcp(sockets.into_iter().map(|s| Link::new(s, size)).collect()),
        // One byte more than a message: a longer datagram must not pass for a good one.
        (Calls::Each, Protocol::Udp) => {
            Links::Udp { sockets, incoming: vec![0; size + 1].into(), refused: false }
        }
    };
    Ok(Box::new(EachClient { links, system, spin: spins, receive_timeout }))
}

/// A client that polls for [`SPIN_FIRST`] before it sleeps.
struct SpinsFirst(Box<dyn RequestResponse>);

impl RequestResponse for SpinsFirst {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        self.0.try_send(connection, message)
    }

    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        if wait != Wait::No {
            let until = stamp() + SPIN_FIRST;
            while stamp() < until {
                let received = self.0.poll(Wait::No, on_response)?;
                if received > 0 {
                    return Ok(received);
                }
            }
        }
        // The whole time, not what is left of it: a plain `recv` has a time-out of its own, and the driver stays awake before a send
        // for longer than this polls.
        self.0.poll(wait, on_response)
    }

    fn resend_after(&self) -> Option<Duration> {
        self.0.resend_after()
    }
}

/// A call for each message.
struct EachClient {
    links: Links,
    system: &'static str,
    spin: bool,
    receive_timeout: Duration,
}

enum Links {
    Tcp(Vec<Link>),
    Udp { sockets: Vec<OwnedFd>, incoming: Box<[u8]>, refused: bool },
}

impl Links {
    fn len(&self) -> usize {
        match self {
            Links::Tcp(links) => links.len(),
            Links::Udp { sockets, .. } => sockets.len(),
        }
    }

    fn fd(&self, index: usize) -> BorrowedFd<'_> {
        match self {
            Links::Tcp(links) => links[index].fd(),
            Links::Udp { sockets, .. } => sockets[index].as_fd(),
        }
    }

    /// What has to happen on a socket before anything can go on there.
    fn interest(&self, index: usize) -> PollFlags {
        let waits_for_room = match self {
            Links::Tcp(links) => links[index].is_sending() || links[index].refused,
            Links::Udp { refused, .. } => *refused,
        };
        if waits_for_room { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }
}

impl RequestResponse for EachClient {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        let fail = |source| SystemError::Io { system: self.system, call: "send", source };
        match &mut self.links {
            Links::Tcp(links) => links[connection as usize].send(message).map_err(fail),
            Links::Udp { sockets, refused, .. } => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                *refused = match rustix::net::send(&sockets[connection as usize], message, flags) {
                    Ok(_) => false,
                    Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => true,
                    Err(error) => return Err(fail(error.into())),
                };
                Ok(!*refused)
            }
        }
    }

    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        let system = self.system;
        let fail = |call| move |source| SystemError::Io { system, call, source };
        let (mut flags, mut ready) = (RecvFlags::DONTWAIT, ALL);
        match wait {
            Wait::AtMost(time) if !self.spin => {
                let plain = self.links.len() == 1
                    && time >= self.receive_timeout
                    && self.links.interest(0) == PollFlags::IN;
                if plain {
                    // The ordinary case of a closed loop: one call sleeps and receives.
                    flags = RecvFlags::empty();
                } else {
                    let links = &self.links;
                    ready = link::ready(links.len(), |i| (links.fd(i), links.interest(i)), time)
                        .map_err(fail("ppoll"))?;
                }
            }
            _ => {}
        }
        let mut received = 0;
        match &mut self.links {
            Links::Tcp(links) => {
                for (connection, link) in (0..).zip(links).filter(|(i, _)| ready >> i & 1 == 1) {
                    if link.is_sending() {
                        link.flush().map_err(fail("send"))?;
                    }
                    match link.receive(flags).map_err(fail("recv"))? {
                        Received::Message => {
                            on_response(connection, link.message());
                            received += 1;
                        }
                        Received::Part | Received::Nothing => {}
                        Received::Closed => return Err(SystemError::Closed { system, connection }),
                    }
                }
            }
            Links::Udp { sockets, incoming, .. } => {
                for (connection, socket) in (0..).zip(sockets).filter(|(i, _)| ready >> i & 1 == 1) {
                    match rustix::net::recv(socket, &mut incoming[..], flags) {
                        Ok((_, n)) => {
                            on_response(connection, &incoming[..n]);
                            received += 1;
                        }
                        Err(Errno::AGAIN | Errno::INTR) => {}
                        Err(Errno::CONNREFUSED) => return Err(SystemError::Closed { system, connection }),
                        Err(error) => return Err(fail("recv")(error.into())),
                    }
                }
            }
        }
        Ok(received)
    }

    fn resend_after(&self) -> Option<Duration> {
        match self.links {
            Links::Tcp(_) => None,
            Links::Udp { .. } => Some(UDP_RESEND_AFTER),
        }
    }
}
