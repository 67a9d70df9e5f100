//! Connected stream sockets over one io_uring, as a baseline uses them: multishot receive into buffers that the kernel picks from
//! a ring, sends from memory that is registered once (man 7 io_uring).

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Buffers that received bytes land in: a power of two.
const BUFFERS: u16 = 64;
/// Bytes of each.
const BUFFER_LEN: usize = 32 << 10;
/// Bytes that one send of one socket carries at most; with more than [`FEW`] sockets, [`SEND_LEN_OF_MANY`].
const SEND_LEN: usize = 64 << 10;
const SEND_LEN_OF_MANY: usize = 16 << 10;
const FEW: usize = 8;
/// The ring of free buffers: 16 bytes for each, at the front of the memory.
const FREE_RING_LEN: usize = BUFFERS as usize * size_of::<types::BufRingEntry>();
const PAGE_LEN: usize = 4096;
/// Number of our group of buffers, and of the one registered memory.
const GROUP: u16 = 0;
const REGISTERED: u16 = 0;

/// Anonymous pages, unmapped on drop.
struct Pages {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the pages belong to this value alone; nothing about them depends on the thread.
unsafe impl Send for Pages {}

impl Pages {
    fn new(len: usize) -> io::Result<Pages> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that there was before.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Pages { base: NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len })
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.len);
        // SAFETY: every offset of this module lies within the mapping, whose length it was computed for.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever had pointers into it is gone: the ring is dropped first.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// One of the two areas that a socket sends from: one is filled while the other is on its way.
#[derive(Clone, Copy)]
struct OnItsWay {
    half: usize,
    sent: usize,
    len: usize,
}

struct Socket {
    fd: OwnedFd,
    filling: usize,
    filled: usize,
    /// What found no room in the half that is filled, in order.
    overflow: VecDeque<u8>,
    on_its_way: Option<OnItsWay>,
    is_armed: bool,
    is_closed: bool,
}

/// Bytes that came on a socket. Given back with [`SocketRing::release`].
#[derive(Debug)]
pub struct Received {
    /// Number of the socket.
    pub socket: usize,
    buffer: u16,
    len: usize,
}

/// Sockets on an io_uring. Made and used by one thread: the ring has a single issuer and runs its work in that thread's calls.
pub struct SocketRing {
    // First: its drop ends whatever the kernel still does with the memory.
    ring: IoUring,
    sockets: Vec<Socket>,
    received: VecDeque<Received>,
    pages: Pages,
    send_len: usize,
    /// Tail of the ring of free buffers.
    tail: u16,
}

impl SocketRing {
    /// Puts `sockets` on a ring of their own and begins to receive.
    ///
    /// # Errors
    /// What the kernel says: `ENOSYS` or `EPERM` where there is no io_uring, `ENOMEM` beyond the limit of locked memory,
    /// `EINVAL` before Linux 6.1.
    pub fn new(sockets: Vec<OwnedFd>) -> io::Result<SocketRing> {
        let send_len = if sockets.len() > FEW { SEND_LEN_OF_MANY } else { SEND_LEN };
        let buffers_len = usize::from(BUFFERS) * BUFFER_LEN;
        let pages = Pages::new(PAGE_LEN + buffers_len + sockets.len().max(1) * 2 * send_len)?;
        const { assert!(FREE_RING_LEN <= PAGE_LEN) };
        let entries = (sockets.len() as u32 * 4).next_power_of_two().max(64);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .build(entries)?;
        let sends = libc::iovec {
            iov_base: pages.at(PAGE_LEN + buffers_len).cast(),
            iov_len: sockets.len().max(1) * 2 * send_len,
        };
        // SAFETY: the memory lives until after the ring is gone, and only `put` and `take_overflow` write to a half, while no send has it.
        unsafe { ring.submitter().register_buffers(&[sends])? };
        // SAFETY: the first page is ours, aligned and long enough for the entries; it lives until after the ring is gone.
        unsafe { ring.submitter().register_buf_ring_with_flags(pages.at(0) as u64, BUFFERS, GROUP, 0)? };
        let sockets = sockets
            .into_iter()
            .map(|fd| Socket {
                fd,
                filling: 0,
                filled: 0,
                overflow: VecDeque::new(),
                on_its_way: None,
                is_armed: false,
                is_closed: false,
            })
            .collect();
        let received = VecDeque::with_capacity(usize::from(BUFFERS));
        let mut made = SocketRing { ring, sockets, received, pages, send_len, tail: 0 };
        for buffer in 0..BUFFERS {
            made.offer(buffer);
        }
        made.publish();
        Ok(made)
    }

    /// Puts `bytes` behind what `socket` has to send. They leave with the next [`turn`](SocketRing::turn).
    pub fn send(&mut self, socket: usize, bytes: &[u8]) {
        put(&self.pages, self.send_len, &mut self.sockets[socket], socket, bytes);
    }

    /// Sends what was received back on its socket.
    pub fn echo(&mut self, received: Received) {
        let socket = received.socket;
        // SAFETY: the kernel gave us the buffer with so many bytes, and writes to it again only after `release`.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.pages.at(buffer_at(received.buffer)), received.len) };
        put(&self.pages, self.send_len, &mut self.sockets[socket], socket, bytes);
        self.release(received);
    }

    /// Submits sends, takes completions, and sleeps for at most `sleep` until something came (zero: not at all).
    ///
    /// # Errors
    /// What the kernel says to a send or a receive of any socket; not that its other end closed it.
    pub fn turn(&mut self, sleep: Duration) -> io::Result<()> {
        let sends = self.begin()?;
        if sleep.is_zero() {
            let (waits, has_work) = {
                let queue = self.ring.submission();
                (queue.len(), queue.taskrun())
            };
            if waits > 0 || has_work {
                const GETEVENTS: u32 = 1;
                // SAFETY: no argument is passed, and what is submitted points into memory that outlives the ring.
                unsafe { self.ring.submitter().enter::<libc::sigset_t>(waits as u32, 0, GETEVENTS, None)? };
            }
        } else {
            let time = types::Timespec::new().sec(sleep.as_secs()).nsec(sleep.subsec_nanos());
            let args = types::SubmitArgs::new().timespec(&time);
            // A send that finds room completes within the call: that is not what is waited for.
            match self.ring.submitter().submit_with_args(1 + sends, &args) {
                Ok(_) => {}
                Err(e) if matches!(e.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {}
                Err(e) => return Err(e),
            }
        }
        self.complete()
    }

    /// The next bytes that came. What is taken is given back with [`release`](SocketRing::release) or [`echo`](SocketRing::echo).
    pub fn take(&mut self) -> Option<Received> {
        self.received.pop_front()
    }

    /// The bytes of `received`.
    pub fn bytes(&self, received: &Received) -> &[u8] {
        // SAFETY: the kernel gave us the buffer with so many bytes, and writes to it again only after `release`, which takes
        // `received` and cannot run while this borrow lives.
        unsafe { std::slice::from_raw_parts(self.pages.at(buffer_at(received.buffer)), received.len) }
    }

    /// Gives the buffer of `received` back.
    pub fn release(&mut self, received: Received) {
        self.offer(received.buffer);
        self.publish();
    }

    /// Whether the other end of `socket` closed it.
    pub fn is_closed(&self, socket: usize) -> bool {
        self.sockets[socket].is_closed
    }

    /// Whether every socket was closed by its other end.
    pub fn all_closed(&self) -> bool {
        self.sockets.iter().all(|s| s.is_closed)
    }

    /// Whether bytes of any socket wait for the ones before them.
    pub fn is_sending(&self) -> bool {
        self.sockets.iter().any(|s| !s.is_closed && (s.filled > 0 || s.on_its_way.is_some()))
    }

    /// Arms what receives no more, and puts on their way the sends that may go: how many, or 0 while older ones wait for room, which may
    /// not complete soon.
    fn begin(&mut self) -> io::Result<usize> {
        let older = self.sockets.iter().any(|s| s.on_its_way.is_some());
        let mut sends = 0;
        for socket in 0..self.sockets.len() {
            let s = &mut self.sockets[socket];
            if s.is_closed {
                continue;
            }
            if !s.is_armed {
                s.is_armed = true;
                let receive = opcode::RecvMulti::new(types::Fd(s.fd.as_raw_fd()), GROUP).build();
                self.push(receive.user_data(receive_of(socket)))?;
            }
            let s = &mut self.sockets[socket];
            if s.on_its_way.is_none() && s.filled > 0 {
                s.on_its_way = Some(OnItsWay { half: s.filling, sent: 0, len: s.filled });
                (s.filling, s.filled) = (1 - s.filling, 0);
                self.push_send(socket)?;
                self.take_overflow(socket);
                sends += 1;
            }
        }
        Ok(if older { 0 } else { sends })
    }

    /// Moves bytes that found no room into the half that is filled now.
    fn take_overflow(&mut self, socket: usize) {
        let s = &mut self.sockets[socket];
        if s.overflow.is_empty() {
            return;
        }
        let take = s.overflow.len().min(self.send_len - s.filled);
        let at = half_at(socket, s.filling, self.send_len) + s.filled;
        // SAFETY: so many bytes of the half are free, and nobody but us uses it while it is filled.
        let room = unsafe { std::slice::from_raw_parts_mut(self.pages.at(at), take) };
        for (to, byte) in room.iter_mut().zip(s.overflow.drain(..take)) {
            *to = byte;
        }
        s.filled += take;
    }

    fn push_send(&mut self, socket: usize) -> io::Result<()> {
        let s = &self.sockets[socket];
        let Some(way) = s.on_its_way else { return Ok(()) };
        let from = self.pages.at(half_at(socket, way.half, self.send_len) + way.sent);
        let fd = types::Fd(s.fd.as_raw_fd());
        let send = opcode::WriteFixed::new(fd, from, (way.len - way.sent) as u32, REGISTERED).build();
        self.push(send.user_data(send_of(socket)))
    }

    fn push(&mut self, entry: squeue::Entry) -> io::Result<()> {
        // SAFETY: the sockets are open and the memory mapped until after the ring is gone; a half that a send points into is not
        // filled before its completion.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn complete(&mut self) -> io::Result<()> {
        let mut again = Vec::new();
        let mut failed = None;
        for done in self.ring.completion() {
            let (socket, is_send) = (done.user_data() as usize >> 1, done.user_data() & 1 == 1);
            let s = &mut self.sockets[socket];
            let result = done.result();
            if is_send {
                let Some(mut way) = s.on_its_way else { continue };
                match result {
                    n if n >= 0 => way.sent += n as usize,
                    e if e == -libc::EAGAIN || e == -libc::EINTR => {}
                    e if e == -libc::EPIPE || e == -libc::ECONNRESET => s.is_closed = true,
                    e => failed = Some(io::Error::from_raw_os_error(-e)),
                }
                s.on_its_way = (way.sent < way.len && !s.is_closed).then_some(way);
                if s.on_its_way.is_some() {
                    again.push(socket);
                }
                continue;
            }
            s.is_armed = cqueue::more(done.flags());
            match result {
                n if n > 0 => {
                    if let Some(buffer) = cqueue::buffer_select(done.flags()) {
                        self.received.push_back(Received { socket, buffer, len: n as usize });
                    }
                }
                0 => s.is_closed = true,
                // All buffers are taken: armed again when some are back.
                e if e == -libc::ENOBUFS || e == -libc::EINTR => {}
                e if e == -libc::ECONNRESET => s.is_closed = true,
                e => failed = Some(io::Error::from_raw_os_error(-e)),
            }
        }
        for socket in again {
            self.push_send(socket)?;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Puts a buffer into the ring of free ones; [`publish`](SocketRing::publish) shows it to the kernel.
    fn offer(&mut self, buffer: u16) {
        let slot = usize::from(self.tail & (BUFFERS - 1));
        let entry = self.pages.at(slot * size_of::<types::BufRingEntry>()).cast::<types::BufRingEntry>();
        // SAFETY: the entry lies in the first page, is plain integers, and the kernel reads it only once the tail is beyond it. The
        // setters leave the tail's own field in the first entry alone.
        let entry = unsafe { &mut *entry };
        entry.set_addr(self.pages.at(buffer_at(buffer)) as u64);
        entry.set_len(BUFFER_LEN as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&mut self) {
        // SAFETY: the page is the ring that was registered; its first entry holds the tail, which the kernel reads atomically.
        let tail = unsafe { &*types::BufRingEntry::tail(self.pages.at(0).cast()).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for SocketRing {
    fn drop(&mut self) {
        // Whatever is under way ends here, and not some time after the memory is gone.
        let _ = self.ring.submitter().register_sync_cancel(None, types::CancelBuilder::any());
    }
}

/// Copies `bytes`, which lie in none of the halves, into the half that is filled, or behind what found no room there before.
fn put(pages: &Pages, send_len: usize, s: &mut Socket, socket: usize, bytes: &[u8]) {
    if !s.overflow.is_empty() || s.filled + bytes.len() > send_len {
        s.overflow.extend(bytes);
        return;
    }
    let to = pages.at(half_at(socket, s.filling, send_len) + s.filled);
    // SAFETY: the half has room for them, nobody but us uses it while it is filled, and `bytes` cannot lie in it: what this module
    // lends of its pages are buffers, which overlap no half.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    s.filled += bytes.len();
}

fn buffer_at(buffer: u16) -> usize {
    PAGE_LEN + usize::from(buffer) * BUFFER_LEN
}

fn half_at(socket: usize, half: usize, send_len: usize) -> usize {
    PAGE_LEN + usize::from(BUFFERS) * BUFFER_LEN + (socket * 2 + half) * send_len
}

fn receive_of(socket: usize) -> u64 {
    (socket as u64) << 1
}

fn send_of(socket: usize) -> u64 {
    (socket as u64) << 1 | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_testing::{Needs, have};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// `None`, and a word about it, where the kernel or its policy has no io_uring.
    fn ring(sockets: Vec<OwnedFd>) -> Option<SocketRing> {
        have(Needs::Machine, SocketRing::new(sockets).map_err(|why| format!("io_uring: {why}")))
    }

    #[test]
    fn everything_comes_back_in_order_whatever_the_sizes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (other, other_theirs) = UnixStream::pair().unwrap();
        let served = std::thread::spawn(move || {
            let Some(mut ring) = ring(vec![theirs.into(), other_theirs.into()]) else { return false };
            while !ring.all_closed() || ring.is_sending() {
                ring.turn(Duration::from_millis(50)).unwrap();
                while let Some(received) = ring.take() {
                    ring.echo(received);
                }
            }
            true
        });
        let total: usize = 3_000_000;
        let byte = |i: usize| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3];
        for mut ours in [ours, other] {
            let mut writer = ours.try_clone().unwrap();
            let writing = std::thread::spawn(move || {
                let mut at = 0;
                for len in [1, 1000, 70_000, 200_000].into_iter().cycle() {
                    let bytes: Vec<u8> = (at..total.min(at + len)).map(byte).collect();
                    // Where there is no ring the other end is gone.
                    if writer.write_all(&bytes).is_err() {
                        return;
                    }
                    at += bytes.len();
                    if at == total {
                        return;
                    }
                }
            });
            let mut echoed = vec![0; total];
            let result = ours.read_exact(&mut echoed);
            writing.join().unwrap();
            if result.is_ok() {
                assert!((0..total).all(|i| echoed[i] == byte(i)));
            }
            drop(ours);
            if result.is_err() {
                assert!(!served.join().unwrap(), "the ring's thread ended without an answer");
                return;
            }
        }
        assert!(served.join().unwrap());
    }

    #[test]
    fn a_turn_without_a_sleep_returns_and_one_with_a_sleep_ends() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let Some(mut ring) = ring(vec![theirs.into()]) else { return };
        ring.turn(Duration::ZERO).unwrap();
        ring.turn(Duration::from_millis(5)).unwrap();
        assert!(ring.take().is_none());
        (&ours).write_all(b"abc").unwrap();
        let mut received = None;
        while received.is_none() {
            ring.turn(Duration::ZERO).unwrap();
            received = ring.take();
        }
        let received = received.unwrap();
        assert_eq!(ring.bytes(&received), b"abc");
        ring.release(received);
        drop(ours);
        while !ring.is_closed(0) {
            ring.turn(Duration::from_millis(50)).unwrap();
        }
    }

    #[test]
    fn a_ring_that_goes_with_sends_under_way_leaves_nothing_behind() {
        for _ in 0..8 {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let Some(mut ring) = ring(vec![theirs.into()]) else { return };
            // Nobody reads: sends stay on their way.
            for _ in 0..64 {
                ring.send(0, &[7; 16_000]);
                ring.turn(Duration::ZERO).unwrap();
            }
            assert!(ring.is_sending());
            drop(ring);
            drop(ours);
        }
    }
}
