//! One TCP connection as a carrier of many messages a call: reads of [`READ_LEN`] bytes, writes of all that is there.
//!
//! Enciphered, where a [`Tls`] session is on it. The format is that of [`Link`](super::link::Link): a length of four bytes (little endian) and so many bytes.

use super::link::LENGTH_LEN;
use super::tls::Tls;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes that one read asks for, at least.
pub(super) const READ_LEN: usize = 64 << 10;

/// A connection with buffers for many messages each way. Every message has the same size.
pub(super) struct BatchLink {
    socket: OwnedFd,
    /// Length of a message with its length in front.
    unit: usize,
    incoming: Box<[u8]>,
    /// Bytes received and not taken: `incoming[..filled]`, a message's beginning at the front.
    filled: usize,
    outgoing: Vec<u8>,
    /// Bytes of `outgoing` that the kernel has.
    sent: usize,
    /// Most bytes that wait to be sent.
    room: usize,
    tls: Option<Box<Tls>>,
}

/// Makes one receive call behind the first `filled` bytes. `Some(true)`: something came; `None`: the other end closed.
#[inline]
pub(super) fn fill(
    socket: &OwnedFd,
    buffer: &mut [u8],
    filled: &mut usize,
    flags: RecvFlags,
) -> io::Result<Option<bool>> {
    match rustix::net::recv(socket, &mut buffer[*filled..], flags) {
        Ok((_, 0)) => Ok(None),
        Ok((_, n)) => {
            *filled += n;
            Ok(Some(true))
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(Some(false)),
        Err(Errno::CONNRESET) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Makes one send call for what follows the first `sent` bytes. True when nothing is left.
#[inline]
pub(super) fn drain(socket: &OwnedFd, bytes: &[u8], sent: &mut usize) -> io::Result<bool> {
    match rustix::net::send(socket, &bytes[*sent..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(n) => *sent += n,
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(*sent == bytes.len())
}

/// Which end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Client,
    Server,
}

impl BatchLink {
    pub(super) fn new(socket: OwnedFd, size: usize) -> BatchLink {
        let unit = LENGTH_LEN + size;
        let room = READ_LEN.max(2 * unit);
        BatchLink {
            socket,
            unit,
            incoming: vec![0; unit + room].into(),
            filled: 0,
            outgoing: Vec::with_capacity(room),
            sent: 0,
            room,
            tls: None,
        }
    }

    /// The same, with a TLS session on it, which stands when this returns.
    pub(super) fn encrypted(socket: OwnedFd, size: usize, end: End) -> io::Result<BatchLink> {
        let mut link = BatchLink::new(socket, size);
        // One read brings more text than it has room for itself: what was left of a record comes with it.
        let len = link.incoming.len() + READ_LEN;
        link.incoming = vec![0; len].into();
        link.tls = Some(Box::new(match end {
            End::Client => Tls::connect(&link.socket, link.room)?,
            End::Server => Tls::accept(&link.socket, link.room)?,
        }));
        Ok(link)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether bytes wait that the kernel has not taken.
    pub(super) fn is_sending(&self) -> bool {
        self.sent < self.outgoing.len() || self.tls.as_ref().is_some_and(|tls| tls.is_sending())
    }

    /// Puts a message behind those that wait. False when there is no room for it.
    #[inline]
    pub(super) fn put(&mut self, message: &[u8]) -> bool {
        if self.outgoing.len() + self.unit > self.room {
            return false;
        }
        self.outgoing.extend_from_slice(&(message.len() as u32).to_le_bytes());
        self.outgoing.extend_from_slice(message);
        true
    }

    /// Makes one send call for all that waits. True when nothing is left.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        if !self.is_sending() {
            return Ok(true);
        }
        if let Some(tls) = &mut self.tls {
            if !tls.is_sending() {
                tls.seal(&self.outgoing)?;
                self.outgoing.clear();
            }
            return Ok(tls.flush(&self.socket)? && self.outgoing.is_empty());
        }
        if !drain(&self.socket, &self.outgoing, &mut self.sent)? {
            return Ok(false);
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Makes one receive call for as much as there is. `Some(true)`: something came; `None`: the other end closed.
    #[inline]
    pub(super) fn receive(&mut self, flags: RecvFlags) -> io::Result<Option<bool>> {
        if let Some(tls) = &mut self.tls {
            return tls.receive(&self.socket, flags, &mut self.incoming, &mut self.filled);
        }
        fill(&self.socket, &mut self.incoming, &mut self.filled, flags)
    }

    /// Bytes of the whole messages that are here.
    fn whole(&self) -> usize {
        self.filled / self.unit * self.unit
    }

    /// Both ends send one size only: any other length means that the stream is out of step.
    fn check(&self) -> io::Result<()> {
        let length = ((self.unit - LENGTH_LEN) as u32).to_le_bytes();
        let in_step =
            self.incoming[..self.whole()].chunks_exact(self.unit).all(|m| m[..LENGTH_LEN] == length);
        if in_step {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "a message of another length"))
    }

    /// Gives every whole message to `on_message`, and says how many there were.
    pub(super) fn take(&mut self, mut on_message: impl FnMut(&[u8])) -> io::Result<usize> {
        self.check()?;
        let whole = self.whole();
        for message in self.incoming[..whole].chunks_exact(self.unit) {
            on_message(&message[LENGTH_LEN..]);
        }
        self.forget(whole);
        Ok(whole / self.unit)
    }

    /// Sends every whole message back as it is, all in one call where the kernel takes them, waiting for room. False when the other end
    /// closed or `stop` said so.
    pub(super) fn echo(&mut self, flags: SendFlags, stop: impl Fn() -> bool) -> io::Result<bool> {
        self.check()?;
        let whole = self.whole();
        let mut sent = 0;
        if let Some(tls) = &mut self.tls {
            for part in self.incoming[..whole].chunks(self.room) {
                tls.seal(part)?;
                loop {
                    match tls.flush(&self.socket) {
                        Ok(true) => break,
                        Ok(false) if stop() => return Ok(false),
                        Ok(false) => std::hint::spin_loop(),
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
                        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                        Err(error) => return Err(error),
                    }
                }
            }
            sent = whole;
        }
        while sent < whole {
            match rustix::net::send(&self.socket, &self.incoming[sent..whole], flags | SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(Errno::AGAIN | Errno::INTR) if stop() => return Ok(false),
                Err(Errno::AGAIN | Errno::INTR) => std::hint::spin_loop(),
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        self.forget(whole);
        Ok(true)
    }

    /// Moves what follows the first `whole` bytes to the front.
    fn forget(&mut self, whole: usize) {
        self.incoming.copy_within(whole..self.filled, 0);
        self.filled -= whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn message(size: usize, byte: u8) -> Vec<u8> {
        [&(size as u32).to_le_bytes()[..], &vec![byte; size]].concat()
    }

    #[test]
    fn many_messages_come_with_one_call_and_parts_wait_for_the_rest() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let mut link = BatchLink::new(ours.into(), 100);
        let three: Vec<u8> = (1..=3).flat_map(|byte| message(100, byte)).collect();
        theirs.write_all(&three[..250]).unwrap();
        assert_eq!(link.receive(RecvFlags::DONTWAIT).unwrap(), Some(true));
        let mut seen = Vec::new();
        assert_eq!(link.take(|m| seen.push((m.len(), m[0]))).unwrap(), 2);
        assert_eq!(link.receive(RecvFlags::DONTWAIT).unwrap(), Some(false), "nothing more yet");
        theirs.write_all(&three[250..]).unwrap();
        link.receive(RecvFlags::DONTWAIT).unwrap();
        link.take(|m| seen.push((m.len(), m[0]))).unwrap();
        assert_eq!(seen, [(100, 1), (100, 2), (100, 3)]);
        theirs.write_all(&message(99, 4)).unwrap();
        theirs.write_all(&[0; 8]).unwrap();
        link.receive(RecvFlags::DONTWAIT).unwrap();
        assert!(link.take(|_| panic!("out of step")).is_err());
        drop(theirs);
        assert_eq!(link.receive(RecvFlags::DONTWAIT).unwrap(), None);
    }

    /// Bytes in the clear on one end are those on the other, and none of them are on the wire.
    #[test]
    fn a_session_carries_what_the_plain_link_does() {
        for size in [16, 1024, 40_000, 200_000] {
            let (theirs, ours) = UnixStream::pair().unwrap();
            let server = std::thread::spawn(move || {
                let mut link = BatchLink::encrypted(theirs.into(), size, End::Server).unwrap();
                let mut echoed = 0;
                while let Some(some) = link.receive(RecvFlags::empty()).unwrap() {
                    echoed += usize::from(some);
                    if !link.echo(SendFlags::empty(), || false).unwrap() {
                        break;
                    }
                }
                echoed
            });
            let mut link = BatchLink::encrypted(ours.into(), size, End::Client).unwrap();
            let (mut put, mut came) = (0, 0);
            while came < 100 {
                while put < 100 && link.put(&vec![put as u8; size]) {
                    put += 1;
                }
                link.flush().unwrap();
                link.receive(RecvFlags::DONTWAIT).unwrap();
                link.take(|m| {
                    assert!(m.iter().all(|b| *b == came as u8), "message {came} of {size} bytes");
                    came += 1;
                })
                .unwrap();
            }
            drop(link);
            assert!(server.join().unwrap() > 0);
        }
    }

    #[test]
    fn a_session_needs_another_at_the_other_end() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        theirs.write_all(&message(100, 1)).unwrap();
        drop(theirs);
        assert!(BatchLink::encrypted(ours.into(), 100, End::Client).is_err());
    }

    #[test]
    fn what_waits_leaves_in_one_call_and_the_echo_is_what_came() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let mut link = BatchLink::new(ours.into(), 50);
        let mut put = 0;
        while link.put(&[put as u8; 50]) {
            put += 1;
        }
        assert_eq!(put, READ_LEN / 54);
        assert!(link.is_sending() && link.flush().unwrap() && !link.is_sending());
        let mut all = vec![0; put * 54];
        theirs.read_exact(&mut all).unwrap();
        assert!(all.chunks(54).enumerate().all(|(i, m)| *m == message(50, i as u8)));
        theirs.write_all(&all[..100]).unwrap();
        link.receive(RecvFlags::DONTWAIT).unwrap();
        assert!(link.echo(SendFlags::empty(), || false).unwrap());
        theirs.write_all(&all[100..108]).unwrap();
        link.receive(RecvFlags::DONTWAIT).unwrap();
        assert!(link.echo(SendFlags::empty(), || false).unwrap());
        let mut echoed = vec![0; 108];
        theirs.read_exact(&mut echoed).unwrap();
        assert_eq!(echoed, all[..108]);
    }
}
