//! Many datagrams a call: `recvmmsg`, `sendmmsg`.

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most datagrams a call.
pub(super) const BATCH: usize = 32;

/// Datagrams that one call receives, or sends.
pub(super) trait Datagrams {
    /// The calls that send and receive them, for errors.
    const CALLS: [&'static str; 2];

    /// How many there are.
    fn len(&self) -> usize;
    /// No more fit.
    fn is_full(&self) -> bool;
    /// Datagram `index`.
    fn datagram(&self, index: usize) -> &[u8];
    /// Puts a datagram behind the others: to be sent to whom the socket is connected to. They are not full.
    fn put(&mut self, datagram: &[u8]);
    /// Makes one receive call in place of what was there, and says how many came. Asleep for the first one at most, if at all.
    fn receive(&mut self, socket: BorrowedFd<'_>, flags: MsgFlags) -> io::Result<usize>;
    /// Makes one send call for all of them, from `first` on; how many the kernel took. `flags` says whether it waits for room.
    fn send(&mut self, socket: BorrowedFd<'_>, first: usize, flags: MsgFlags) -> io::Result<usize>;
    /// Forgets the first `sent`.
    fn forget(&mut self, sent: usize);
}

/// Room for a batch of datagrams of up to `slot_len` bytes: to be received, or to be sent.
pub(super) struct Batch {
    bytes: Box<[u8]>,
    slot_len: usize,
    lens: [usize; BATCH],
    from: [Option<SockaddrStorage>; BATCH],
    /// Two of them: sending leaves addresses in its own that receiving would write to.
    to_receive: MultiHeaders<SockaddrStorage>,
    to_send: MultiHeaders<SockaddrStorage>,
    len: usize,
    /// The socket has one peer, and answers need no address.
    pub(super) is_connected: bool,
}

impl Batch {
    pub(super) fn new(slot_len: usize) -> Batch {
        Batch {
            bytes: vec![0; slot_len * BATCH].into(),
            slot_len,
            lens: [0; BATCH],
            from: [None; BATCH],
            to_receive: MultiHeaders::preallocate(BATCH, None),
            to_send: MultiHeaders::preallocate(BATCH, None),
            len: 0,
            is_connected: false,
        }
    }
}

impl Datagrams for Batch {
    const CALLS: [&'static str; 2] = ["sendmmsg", "recvmmsg"];

    fn len(&self) -> usize {
        self.len
    }

    fn is_full(&self) -> bool {
        self.len == BATCH
    }

    fn datagram(&self, index: usize) -> &[u8] {
        &self.bytes[index * self.slot_len..][..self.lens[index]]
    }

    #[inline]
    fn put(&mut self, datagram: &[u8]) {
        self.bytes[self.len * self.slot_len..][..datagram.len()].copy_from_slice(datagram);
        (self.lens[self.len], self.from[self.len]) = (datagram.len(), None);
        self.len += 1;
    }

    fn receive(&mut self, socket: BorrowedFd<'_>, flags: MsgFlags) -> io::Result<usize> {
        let mut slots = self.bytes.chunks_exact_mut(self.slot_len);
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
            std::array::from_fn(|_| [IoSliceMut::new(slots.next().unwrap_or_default())]);
        self.len = 0;
        let got = recvmmsg(
            socket.as_raw_fd(),
            &mut self.to_receive,
            slices.iter_mut(),
            flags | MsgFlags::MSG_WAITFORONE,
            None,
        )?;
        for (index, message) in got.enumerate() {
            let from = message.address.filter(|_| !self.is_connected);
            (self.lens[index], self.from[index]) = (message.bytes, from);
            self.len = index + 1;
        }
        Ok(self.len)
    }

    /// What was received goes back to where it came from.
    fn send(&mut self, socket: BorrowedFd<'_>, first: usize, flags: MsgFlags) -> io::Result<usize> {
        let slices: [[IoSlice<'_>; 1]; BATCH] = std::array::from_fn(|i| {
            let index = (first + i).min(BATCH - 1);
            [IoSlice::new(&self.bytes[index * self.slot_len..][..self.lens[index]])]
        });
        let flags = flags | MsgFlags::MSG_NOSIGNAL;
        let sent = sendmmsg(
            socket.as_raw_fd(),
            &mut self.to_send,
            &slices[..self.len - first],
            &self.from[first..self.len],
            [],
            flags,
        )?;
        Ok(sent.count())
    }

    fn forget(&mut self, sent: usize) {
        let (from, to) = (sent * self.slot_len, self.len * self.slot_len);
        self.bytes.copy_within(from..to, 0);
        self.lens.copy_within(sent..self.len, 0);
        self.from.copy_within(sent..self.len, 0);
        self.len -= sent;
    }
}

/// Nothing now, or no room now.
pub(super) fn passes(error: &io::Error) -> bool {
    let again = [Errno::EAGAIN, Errno::EINTR, Errno::ENOBUFS].map(|errno| errno as i32);
    error.raw_os_error().is_some_and(|errno| again.contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_batch_comes_and_goes_with_one_call_each() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        let (mut asks, mut answers) = (Batch::new(10), Batch::new(11));
        for i in 0..BATCH as u8 {
            assert!(!asks.is_full());
            asks.put(&vec![i; usize::from(i % 10) + 1]);
        }
        assert!(asks.is_full());
        assert_eq!(asks.send(client.as_fd(), 0, MsgFlags::empty()).unwrap(), BATCH);
        // Loopback hands them over within the call.
        let mut served = Batch::new(11);
        assert_eq!(served.receive(server.as_fd(), MsgFlags::empty()).unwrap(), BATCH);
        assert_eq!(served.send(server.as_fd(), 0, MsgFlags::empty()).unwrap(), BATCH);
        assert_eq!(answers.receive(client.as_fd(), MsgFlags::empty()).unwrap(), BATCH);
        for i in 0..BATCH {
            assert_eq!(answers.datagram(i), asks.datagram(i));
        }
        let again = answers.receive(client.as_fd(), MsgFlags::MSG_DONTWAIT).unwrap_err();
        assert!(passes(&again), "{again}");
        asks.forget(30);
        assert_eq!((asks.len(), asks.datagram(0)[0], asks.datagram(1)[0]), (2, 30, 31));
        assert_eq!(asks.send(client.as_fd(), 1, MsgFlags::empty()).unwrap(), 1);
        assert_eq!(served.receive(server.as_fd(), MsgFlags::empty()).unwrap(), 1);
        assert_eq!(served.datagram(0), [31, 31]);
    }
}
