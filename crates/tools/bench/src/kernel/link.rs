//! One TCP connection as a carrier of messages: a length of four bytes (little endian) and so many bytes.

use super::CONNECTIONS_MAX;
use barewire_base::Duration;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of the length in front of a message.
pub(super) const LENGTH_LEN: usize = 4;

/// All sockets, for [`ready`]'s answer when nobody asked.
pub(super) const ALL: u64 = u64::MAX;

/// Sleeps until any of `count` sockets (1 to [`CONNECTIONS_MAX`]) has what it waits for, for at most `time`; one bit for each
/// socket that has.
pub(super) fn ready<'fd>(
    count: usize,
    socket: impl Fn(usize) -> (BorrowedFd<'fd>, PollFlags),
    time: Duration,
) -> io::Result<u64> {
    let mut fds: [PollFd<'_>; CONNECTIONS_MAX as usize] = std::array::from_fn(|i| {
        let (fd, events) = socket(i.min(count - 1));
        PollFd::from_borrowed_fd(fd, events)
    });
    let ns = time.as_nanos();
    let timeout = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
    match rustix::event::poll(&mut fds[..count], Some(&timeout)) {
        Ok(_) => {
            // An error or a hang-up counts as ready: the call that follows says which.
            let bits =
                fds[..count].iter().enumerate().map(|(i, fd)| u64::from(!fd.revents().is_empty()) << i);
            Ok(bits.fold(0, |all, bit| all | bit))
        }
        Err(Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// What one receive call brought.
pub(super) enum Received {
    /// A message is whole: [`Link::message`].
    Message,
    /// Part of one: call again.
    Part,
    /// Nothing now.
    Nothing,
    /// The other end closed.
    Closed,
}

/// A connection with room for one message each way. Every message has the same size.
pub(super) struct Link {
    socket: OwnedFd,
    incoming: Box<[u8]>,
    filled: usize,
    outgoing: Box<[u8]>,
    /// Bytes of `outgoing` that the kernel has yet to take begin here; its length when there are none.
    unsent: usize,
    /// A send was refused since the last one that was not.
    pub(super) refused: bool,
}

impl Link {
    pub(super) fn new(socket: OwnedFd, size: usize) -> Link {
        let mut outgoing: Box<[u8]> = vec![0; LENGTH_LEN + size].into();
        outgoing[..LENGTH_LEN].copy_from_slice(&(size as u32).to_le_bytes());
        let unsent = outgoing.len();
        let incoming = vec![0; LENGTH_LEN + size].into();
        Link { socket, incoming, filled: 0, outgoing, unsent, refused: false }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the kernel still has to take bytes of a message that was accepted.
    pub(super) fn is_sending(&self) -> bool {
        self.unsent < self.outgoing.len()
    }

    /// Makes one receive call for the rest of the next message, and for not a byte more.
    #[inline]
    pub(super) fn receive(&mut self, flags: RecvFlags) -> io::Result<Received> {
        match rustix::net::recv(&self.socket, &mut self.incoming[self.filled..], flags) {
            Ok((_, 0)) => Ok(Received::Closed),
            Ok((_, n)) => {
                self.filled += n;
                if self.filled < self.incoming.len() {
                    return Ok(Received::Part);
                }
                self.filled = 0;
                // Both ends send one size only: any other length means that the stream is out of step.
                if self.incoming[..LENGTH_LEN] != self.outgoing[..LENGTH_LEN] {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of another length"));
                }
                Ok(Received::Message)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
            Err(Errno::CONNRESET) => Ok(Received::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// The message that [`receive`](Link::receive) completed.
    pub(super) fn message(&self) -> &[u8] {
        &self.incoming[LENGTH_LEN..]
    }

    /// Accepts a message of the link's size if the kernel takes at least its first byte; the rest follows with
    /// [`flush`](Link::flush).
    #[inline]
    pub(super) fn send(&mut self, message: &[u8]) -> io::Result<bool> {
        if self.is_sending() && !self.flush()? {
            self.refused = true;
            return Ok(false);
        }
        self.outgoing[LENGTH_LEN..].copy_from_slice(message);
        self.unsent = 0;
        self.flush()?;
        self.refused = self.unsent == 0;
        if self.refused {
            self.unsent = self.outgoing.len();
        }
        Ok(!self.refused)
    }

    /// Makes one send call for what is unsent. True when nothing is left.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match rustix::net::send(&self.socket, &self.outgoing[self.unsent..], flags) {
            Ok(n) => self.unsent += n,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(!self.is_sending())
    }

    /// Sends the message just received back, as it is, waiting for room. False when the other end closed or `stop`
    /// said so.
    pub(super) fn echo(&mut self, flags: SendFlags, stop: impl Fn() -> bool) -> io::Result<bool> {
        let mut sent = 0;
        while sent < self.incoming.len() {
            match rustix::net::send(&self.socket, &self.incoming[sent..], flags | SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(Errno::AGAIN | Errno::INTR) if stop() => return Ok(false),
                Err(Errno::AGAIN | Errno::INTR) => std::hint::spin_loop(),
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}
