//! Clients that take many messages a call, as the driver sees them: over TCP, over UDP, over an io_uring.

use super::batch::{BatchLink, End};
use super::client::{TCP_RECEIVE_TIMEOUT, UDP_RECEIVE_TIMEOUT};
use super::datagrams::{self, Datagrams};
use super::link::{self, ALL, LENGTH_LEN};
use super::{Baseline, Calls, UDP_RESEND_AFTER};
use crate::messages::{RequestResponse, SystemError, Wait};
use barewire_base::Duration;
use barewire_measure::SocketRing;
use nix::sys::socket::MsgFlags;
use rustix::event::{PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Sockets that one `epoll_wait` looks at.
pub(super) struct Epoll {
    fd: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Epoll {
    /// Watches `sockets` for what can be read; a socket's number is its place.
    pub(super) fn new<'fd>(sockets: impl Iterator<Item = std::os::fd::BorrowedFd<'fd>>) -> io::Result<Epoll> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut count = 0;
        for socket in sockets {
            epoll::add(&fd, socket, epoll::EventData::new_u64(count), epoll::EventFlags::IN)?;
            count += 1;
        }
        Ok(Epoll { fd, events: Vec::with_capacity(count as usize) })
    }

    /// Sleeps until any socket can be read, for at most `time`; one bit for each that can.
    pub(super) fn ready(&mut self, time: Duration) -> io::Result<u64> {
        let ns = time.as_nanos();
        let timeout = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
        self.events.clear();
        match epoll::wait(&self.fd, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) => Ok(self.events.iter().fold(0, |bits, event| bits | 1 << event.data.u64())),
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// TCP, reads of 64 KiB, writes gathered until the driver has sent all that it has.
pub(super) struct BatchClient {
    links: Vec<BatchLink>,
    system: &'static str,
    spins: bool,
    epoll: Option<Epoll>,
    refused: bool,
}

impl BatchClient {
    pub(super) fn new(sockets: Vec<OwnedFd>, baseline: Baseline, size: usize) -> io::Result<BatchClient> {
        let polls = baseline.calls == Calls::Epoll;
        let epoll = polls.then(|| Epoll::new(sockets.iter().map(AsFd::as_fd))).transpose()?;
        let link = |socket| match baseline.is_secure() {
            true => BatchLink::encrypted(socket, size, End::Client),
            false => Ok(BatchLink::new(socket, size)),
        };
        let links = sockets.into_iter().map(link).collect::<io::Result<_>>()?;
        let (system, spins) = (baseline.name(), baseline.waiting.spins());
        Ok(BatchClient { links, system, spins, epoll, refused: false })
    }
}

impl RequestResponse for BatchClient {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        let link = &mut self.links[connection as usize];
        let fail = |source| SystemError::Io { system: self.system, call: "send", source };
        let taken = link.put(message) || link.flush().map_err(fail)? && link.put(message);
        self.refused |= !taken;
        Ok(taken)
    }

    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        let system = self.system;
        let fail = |call| move |source| SystemError::Io { system, call, source };
        let mut blocked = false;
        for link in &mut self.links {
            blocked |= !link.flush().map_err(fail("send"))?;
        }
        // Room came with the flush: who was refused may come again at once.
        let refused = std::mem::take(&mut self.refused) && !blocked;
        let (mut flags, mut ready) = (RecvFlags::DONTWAIT, ALL);
        match wait {
            Wait::AtMost(time) if !self.spins && !refused => {
                if let Some(epoll) = self.epoll.as_mut().filter(|_| !blocked) {
                    ready = epoll.ready(time).map_err(fail("epoll_wait"))?;
                } else if self.links.len() == 1 && time >= TCP_RECEIVE_TIMEOUT && !blocked {
                    flags = RecvFlags::empty();
                } else {
                    let links = &self.links;
                    let interest = |i: usize| {
                        let room = if links[i].is_sending() { PollFlags::OUT } else { PollFlags::empty() };
                        (links[i].fd(), PollFlags::IN | room)
                    };
                    ready = link::ready(links.len(), interest, time).map_err(fail("ppoll"))?;
                }
            }
            _ => {}
        }
        let mut received = 0;
        for (connection, link) in (0..).zip(&mut self.links).filter(|(i, _)| ready >> i & 1 == 1) {
            match link.receive(flags).map_err(fail("recv"))? {
                Some(true) => {
                    received += link.take(|m| on_response(connection, m)).map_err(fail("recv"))?;
                }
                Some(false) => {}
                None => return Err(SystemError::Closed { system, connection }),
            }
        }
        Ok(received)
    }
}

/// UDP, many datagrams a call.
pub(super) struct DatagramClient<D> {
    sockets: Vec<OwnedFd>,
    outgoing: Vec<D>,
    incoming: D,
    system: &'static str,
    spins: bool,
}

impl<D: Datagrams> DatagramClient<D> {
    /// `outgoing` and `incoming` make room for what is sent on a socket and for what is received.
    pub(super) fn new(
        sockets: Vec<OwnedFd>,
        system: &'static str,
        spins: bool,
        outgoing: impl Fn() -> D,
        incoming: D,
    ) -> DatagramClient<D> {
        let outgoing = sockets.iter().map(|_| outgoing()).collect();
        DatagramClient { sockets, outgoing, incoming, system, spins }
    }

    /// True when nothing is left to send on `connection`.
    fn flush(&mut self, connection: usize) -> Result<bool, SystemError> {
        let batch = &mut self.outgoing[connection];
        if batch.len() == 0 {
            return Ok(true);
        }
        match batch.send(self.sockets[connection].as_fd(), 0, MsgFlags::MSG_DONTWAIT) {
            Ok(sent) => batch.forget(sent),
            Err(error) if datagrams::passes(&error) => {}
            Err(source) => return Err(SystemError::Io { system: self.system, call: D::CALLS[0], source }),
        }
        Ok(batch.len() == 0)
    }
}

impl<D: Datagrams> RequestResponse for DatagramClient<D> {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        let connection = connection as usize;
        if self.outgoing[connection].is_full() {
            self.flush(connection)?;
        }
        let batch = &mut self.outgoing[connection];
        if batch.is_full() {
            return Ok(false);
        }
        batch.put(message);
        Ok(true)
    }

    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        let system = self.system;
        let mut blocked = 0_u64;
        for connection in 0..self.sockets.len() {
            blocked |= u64::from(!self.flush(connection)?) << connection;
        }
        let (mut flags, mut ready) = (MsgFlags::MSG_DONTWAIT, ALL);
        match wait {
            Wait::AtMost(time) if !self.spins => {
                if self.sockets.len() == 1 && time >= UDP_RECEIVE_TIMEOUT && blocked == 0 {
                    flags = MsgFlags::empty();
                } else {
                    let interest = |i: usize| {
                        let room = if blocked >> i & 1 == 1 { PollFlags::OUT } else { PollFlags::empty() };
                        (self.sockets[i].as_fd(), PollFlags::IN | room)
                    };
                    ready = link::ready(self.sockets.len(), interest, time)
                        .map_err(|source| SystemError::Io { system, call: "ppoll", source })?;
                }
            }
            _ => {}
        }
        let mut received = 0;
        for (connection, socket) in (0..).zip(&self.sockets).filter(|(i, _)| ready >> i & 1 == 1) {
            match self.incoming.receive(socket.as_fd(), flags) {
                Ok(count) => {
                    (0..count).for_each(|i| on_response(connection, self.incoming.datagram(i)));
                    received += count;
                }
                Err(error) if datagrams::passes(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return Err(SystemError::Closed { system, connection });
                }
                Err(source) => return Err(SystemError::Io { system, call: D::CALLS[1], source }),
            }
        }
        Ok(received)
    }

    fn resend_after(&self) -> Option<Duration> {
        Some(UDP_RESEND_AFTER)
    }
}

/// TCP over an io_uring.
pub(super) struct RingClient {
    ring: SocketRing,
    /// For each connection the bytes of a message that is not whole yet.
    parts: Vec<Vec<u8>>,
    length: [u8; LENGTH_LEN],
    system: &'static str,
    spins: bool,
}

impl RingClient {
    pub(super) fn new(
        sockets: Vec<OwnedFd>,
        system: &'static str,
        spins: bool,
        size: usize,
    ) -> io::Result<RingClient> {
        let parts = sockets.iter().map(|_| Vec::with_capacity(LENGTH_LEN + size)).collect();
        let length = (size as u32).to_le_bytes();
        Ok(RingClient { ring: SocketRing::new(sockets)?, parts, length, system, spins })
    }
}

impl RequestResponse for RingClient {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        self.ring.send(connection as usize, &self.length);
        self.ring.send(connection as usize, message);
        Ok(true)
    }

    fn poll(&mut self, wait: Wait, on_response: &mut dyn FnMut(u32, &[u8])) -> Result<usize, SystemError> {
        let system = self.system;
        let sleep = match wait {
            Wait::AtMost(time) if !self.spins => time,
            _ => Duration::ZERO,
        };
        let fail = |source| SystemError::Io { system, call: "io_uring_enter", source };
        self.ring.turn(sleep.into()).map_err(fail)?;
        let mut responses = 0;
        while let Some(received) = self.ring.take() {
            let connection = received.socket;
            let on_message = |message: &[u8]| {
                responses += 1;
                on_response(connection as u32, message);
            };
            let in_step =
                whole(&mut self.parts[connection], self.ring.bytes(&received), self.length, on_message);
            self.ring.release(received);
            if !in_step {
                let source = io::Error::new(io::ErrorKind::InvalidData, "a message of another length");
                return Err(fail(source));
            }
        }
        match (0..self.parts.len()).find(|&socket| self.ring.is_closed(socket)) {
            Some(connection) if responses == 0 => {
                Err(SystemError::Closed { system, connection: connection as u32 })
            }
            _ => Ok(responses),
        }
    }
}

/// Gives whole messages to `on_message` out of what is left of earlier bytes and `bytes`, and keeps the rest. False when a message has
/// another length.
fn whole(
    part: &mut Vec<u8>,
    mut bytes: &[u8],
    length: [u8; LENGTH_LEN],
    mut on_message: impl FnMut(&[u8]),
) -> bool {
    let unit = LENGTH_LEN + u32::from_le_bytes(length) as usize;
    if !part.is_empty() {
        let take = bytes.len().min(unit - part.len());
        part.extend_from_slice(&bytes[..take]);
        bytes = &bytes[take..];
        if part.len() < unit {
            return true;
        }
        if part[..LENGTH_LEN] != length {
            return false;
        }
        on_message(&part[LENGTH_LEN..]);
        part.clear();
    }
    let mut messages = bytes.chunks_exact(unit);
    for message in &mut messages {
        if message[..LENGTH_LEN] != length {
            return false;
        }
        on_message(&message[LENGTH_LEN..]);
    }
    part.extend_from_slice(messages.remainder());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_whole_wherever_the_bytes_are_cut() {
        let message = |byte: u8| [&3_u32.to_le_bytes()[..], &[byte; 3]].concat();
        let all: Vec<u8> = (0..9).flat_map(message).collect();
        for cut in 1..all.len() {
            let (mut part, mut seen) = (Vec::new(), Vec::new());
            for bytes in all.chunks(cut) {
                assert!(whole(&mut part, bytes, 3_u32.to_le_bytes(), |m| seen.push(m.to_vec())));
            }
            assert_eq!(seen, (0..9).map(|byte| vec![byte; 3]).collect::<Vec<_>>(), "{cut}");
            assert!(part.is_empty());
        }
        assert!(!whole(&mut Vec::new(), &[9; 7], 3_u32.to_le_bytes(), |_| ()));
        assert!(!whole(&mut vec![9; 2], &[9; 7], 3_u32.to_le_bytes(), |_| ()));
    }
}
