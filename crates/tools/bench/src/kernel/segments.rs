//! Many datagrams a call as one: the kernel, or the card, cuts what is sent into segments (`UDP_SEGMENT`) and joins what was received
//! (`UDP_GRO`), man 7 udp. One trip through the stack carries up to [`SEGMENTS_MAX`] datagrams.

use super::client::UDP_RECEIVE_TIMEOUT;
use super::datagrams::passes;
use super::link::{self, ALL};
use super::{UDP_RESEND_AFTER, UDP_SIZE_MAX};
use crate::messages::{RequestResponse, SystemError, Wait};
use barewire_base::Duration;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{UdpGroSegment, UdpGsoSegment};
use nix::sys::socket::{MsgFlags, recv, send, setsockopt};
use rustix::event::PollFlags;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most segments of one call: `UDP_MAX_SEGMENTS` of kernels before 6.9.
const SEGMENTS_MAX: usize = 64;
/// A segment has to fit a packet: an MTU of 1,500 less the headers of IPv6 and UDP.
const SEGMENT_LEN_MAX: usize = 1_500 - 48;

/// How many datagrams of `size` bytes one call carries. One that is larger than a packet goes alone, in fragments.
fn segments(size: usize) -> usize {
    if size > SEGMENT_LEN_MAX { 1 } else { SEGMENTS_MAX.min(UDP_SIZE_MAX as usize / size) }
}

/// Asks for both on a socket that carries datagrams of `size` bytes.
fn set_up(socket: BorrowedFd<'_>, size: usize) -> io::Result<()> {
    if segments(size) > 1 {
        setsockopt(&socket, UdpGsoSegment, &(size as i32))?;
    }
    Ok(setsockopt(&socket, UdpGroSegment, &true)?)
}

/// The client: datagrams gathered until the driver has sent all that it has.
pub(super) struct SegmentClient {
    sockets: Vec<OwnedFd>,
    outgoing: Vec<Vec<u8>>,
    incoming: Box<[u8]>,
    size: usize,
    system: &'static str,
    spins: bool,
}

impl SegmentClient {
    pub(super) fn new(
        sockets: Vec<OwnedFd>,
        system: &'static str,
        spins: bool,
        size: usize,
    ) -> io::Result<SegmentClient> {
        sockets.iter().try_for_each(|socket| set_up(socket.as_fd(), size))?;
        let outgoing = sockets.iter().map(|_| Vec::with_capacity(segments(size) * size)).collect();
        // Longer than any datagram: one of another size must not pass for a good one.
        let incoming = vec![0; 1 << 16].into();
        Ok(SegmentClient { sockets, outgoing, incoming, size, system, spins })
    }

    /// True when nothing is left to send on `connection`.
    fn flush(&mut self, connection: usize) -> Result<bool, SystemError> {
        let (bytes, socket) = (&mut self.outgoing[connection], &self.sockets[connection]);
        if bytes.is_empty() {
            return Ok(true);
        }
        match send(socket.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
            Ok(_) => bytes.clear(),
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => {}
            Err(errno) => {
                return Err(SystemError::Io { system: self.system, call: "send", source: errno.into() });
            }
        }
        Ok(bytes.is_empty())
    }

    fn is_full(&self, connection: usize) -> bool {
        self.outgoing[connection].len() + self.size > segments(self.size) * self.size
    }
}

impl RequestResponse for SegmentClient {
    fn try_send(&mut self, connection: u32, message: &[u8]) -> Result<bool, SystemError> {
        let connection = connection as usize;
        if self.is_full(connection) {
            self.flush(connection)?;
        }
        if self.is_full(connection) {
            return Ok(false);
        }
        self.outgoing[connection].extend_from_slice(message);
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
            match recv(socket.as_raw_fd(), &mut self.incoming, flags) {
                Ok(len) => {
                    for message in self.incoming[..len].chunks(self.size) {
                        on_response(connection, message);
                        received += 1;
                    }
                }
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(Errno::ECONNREFUSED) => return Err(SystemError::Closed { system, connection }),
                Err(errno) => return Err(SystemError::Io { system, call: "recv", source: errno.into() }),
            }
        }
        Ok(received)
    }

    fn resend_after(&self) -> Option<Duration> {
        Some(UDP_RESEND_AFTER)
    }
}

/// Echoes what one receive call brought with one send call, until `stop` is set. `socket` has its time-out, or does not wait.
pub(super) fn serve(socket: &UdpSocket, size: usize, stop: &AtomicBool) -> io::Result<()> {
    set_up(socket.as_fd(), size)?;
    let mut bytes = vec![0; 1 << 16];
    let quiet = |error: &io::Error| {
        use io::ErrorKind::{ConnectionRefused, TimedOut, WouldBlock};
        passes(error) || matches!(error.kind(), WouldBlock | TimedOut | ConnectionRefused)
    };
    let most = segments(size) * size;
    while !stop.load(Ordering::Relaxed) {
        let (len, from): (usize, SocketAddr) = match socket.recv_from(&mut bytes) {
            Ok(received) => received,
            Err(error) if quiet(&error) => continue,
            Err(error) => return Err(error),
        };
        for part in bytes[..len].chunks(most) {
            match socket.send_to(part, from) {
                // No room, or the client has gone: lost datagrams either way, and the client's to notice.
                Ok(_) => {}
                Err(error) if quiet(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_carries_what_fits_a_datagram_and_large_ones_go_alone() {
        assert_eq!((segments(16), segments(1_024), segments(1_452)), (64, 63, 45));
        assert_eq!((segments(1_453), segments(65_507)), (1, 1));
    }

    /// Over loopback what was sent in one call is received in one call, and cut again.
    #[test]
    fn a_burst_comes_back_whole() {
        for size in [16, 1_024, 4_000] {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            server.set_read_timeout(Some(std::time::Duration::from_millis(10))).unwrap();
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.connect(server.local_addr().unwrap()).unwrap();
            client.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let stop = &stop;
                scope.spawn(move || serve(&server, size, stop).unwrap());
                let mut client =
                    SegmentClient::new(vec![client.into()], "kernel-udp-gso", false, size).unwrap();
                // A socket's buffer has room for so many.
                let count = if segments(size) > 1 { 40 } else { 10 };
                for i in 0..count {
                    assert!(client.try_send(0, &vec![i; size]).unwrap());
                }
                let (mut seen, mut calls) = (Vec::new(), 0);
                while seen.len() < usize::from(count) {
                    calls += 1;
                    let wait = Wait::AtMost(Duration::from_secs(1));
                    client.poll(wait, &mut |_, m| seen.push((m.len(), m[0]))).unwrap();
                    assert!(calls < 4_000, "{} of {count} came back", seen.len());
                }
                assert_eq!(seen, (0..count).map(|i| (size, i)).collect::<Vec<_>>());
                stop.store(true, Ordering::Relaxed);
            });
        }
    }
}
