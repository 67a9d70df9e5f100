//! Many datagrams a call as one: the kernel, or the card, cuts what is sent into segments (`UDP_SEGMENT`) and joins what was received
//! (`UDP_GRO`), man 7 udp. One trip through the stack carries up to [`SEGMENTS_MAX`] datagrams.

use super::UDP_SIZE_MAX;
use super::datagrams::Datagrams;
use nix::sys::socket::sockopt::{UdpGroSegment, UdpGsoSegment};
use nix::sys::socket::{MsgFlags, recv, send, setsockopt};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most segments of one call: `UDP_MAX_SEGMENTS` of kernels before 6.9.
const SEGMENTS_MAX: usize = 64;
/// A segment has to fit a packet: an MTU of 1,500 less the headers of IPv6 and UDP.
const SEGMENT_LEN_MAX: usize = 1_500 - 48;
/// What any receive call may bring: longer than any datagram, so that one of another size does not pass for a good one.
pub(super) const ROOM: usize = 1 << 16;

/// How many datagrams of `size` bytes one call carries. One that is larger than a packet goes alone, in fragments.
pub(super) fn segments(size: usize) -> usize {
    if size > SEGMENT_LEN_MAX { 1 } else { SEGMENTS_MAX.min(UDP_SIZE_MAX as usize / size) }
}

/// Asks for both on a socket that carries datagrams of `size` bytes.
pub(super) fn set_up(socket: BorrowedFd<'_>, size: usize) -> io::Result<()> {
    if segments(size) > 1 {
        setsockopt(&socket, UdpGsoSegment, &(size as i32))?;
    }
    Ok(setsockopt(&socket, UdpGroSegment, &true)?)
}

/// Datagrams of one size, end to end.
pub(super) struct Segments {
    bytes: Box<[u8]>,
    filled: usize,
    size: usize,
}

impl Segments {
    pub(super) fn new(size: usize) -> Segments {
        Segments { bytes: vec![0; ROOM].into(), filled: 0, size }
    }
}

impl Datagrams for Segments {
    const CALLS: [&'static str; 2] = ["send", "recv"];

    fn len(&self) -> usize {
        self.filled.div_ceil(self.size)
    }

    fn is_full(&self) -> bool {
        self.len() == segments(self.size)
    }

    fn datagram(&self, index: usize) -> &[u8] {
        let from = index * self.size;
        &self.bytes[from..self.filled.min(from + self.size)]
    }

    #[inline]
    fn put(&mut self, datagram: &[u8]) {
        self.bytes[self.filled..][..datagram.len()].copy_from_slice(datagram);
        self.filled += datagram.len();
    }

    fn receive(&mut self, socket: BorrowedFd<'_>, flags: MsgFlags) -> io::Result<usize> {
        self.filled = 0;
        self.filled = recv(socket.as_raw_fd(), &mut self.bytes, flags)?;
        Ok(self.len())
    }

    /// All or nothing.
    fn send(&mut self, socket: BorrowedFd<'_>, first: usize, flags: MsgFlags) -> io::Result<usize> {
        let bytes = &self.bytes[first * self.size..self.filled];
        send(socket.as_raw_fd(), bytes, flags | MsgFlags::MSG_NOSIGNAL)?;
        Ok(self.len() - first)
    }

    fn forget(&mut self, sent: usize) {
        let from = (sent * self.size).min(self.filled);
        self.bytes.copy_within(from..self.filled, 0);
        self.filled -= from;
    }
}

#[cfg(test)]
mod tests {
    use super::super::many::DatagramClient;
    use super::super::server::serve_datagrams;
    use super::*;
    use crate::messages::{RequestResponse, Wait};
    use barewire_base::Duration;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};

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
                set_up(server.as_fd(), size).unwrap();
                set_up(client.as_fd(), size).unwrap();
                scope.spawn(move || {
                    serve_datagrams(&server, ROOM, segments(size) * size, stop, |_| {}).unwrap()
                });
                let room = || Segments::new(size);
                let sockets = vec![client.into()];
                let mut client = DatagramClient::new(sockets, "kernel-udp-gso", false, room, room());
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
