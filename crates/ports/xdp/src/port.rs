//! The port at work: bursts in, bursts out.

use crate::config::XdpConfig;
use crate::hook::Hook;
use crate::open::wait_until_free;
use crate::program::STAMP_LEN;
use crate::sys::{self, Completion, Fill, Rx, Tx};
use barewire_base::{DropReason, Duration, Instant};
use barewire_frame::{Burst, ChecksumState, ClockDomain, Frame, Ledger, Stamp, StampSource};
use barewire_packet::{checksum, outgoing};
use barewire_port::{OpenError, Port, PortCaps, PortCounters, PortError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Chunks that are missing from a fill ring before it is topped up: one index update for many.
const REFILL_BATCH: u32 = 16;
/// Frames in the transmit or completion ring from which a receive, too, looks for completions.
const REAP_EAGER: u32 = 64;
/// The kernel's counters and the sockets' errors are read this often, sooner when the pool ran dry.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_STARVED: Duration = Duration::from_millis(1);
/// Most system calls that one burst makes to get its frames out.
const KICKS_MAX: u32 = 8;
/// While the interface is down the kernel is asked this often whether it still is; frames offered meanwhile are dropped.
const DOWN_RETRY: Duration = Duration::from_millis(20);
/// Drops of one kind that one look counts; a remainder is left for the next look.
const FOLD_MAX: u64 = 1 << 16;

/// Counts that the kernel keeps for the sockets (`struct xdp_statistics`), summed over the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpStatistics {
    /// Frames dropped for want of a free chunk in the fill ring, or because they did not fit into one.
    pub rx_dropped: u64,
    /// Frames dropped because the receive ring was full.
    pub rx_ring_full: u64,
    /// Looks into the fill ring that found it empty. With zero copy these are looks, not frames.
    pub fill_ring_empty: u64,
    /// Addresses in a fill ring that the kernel refused.
    pub rx_invalid: u64,
    /// Descriptors in a transmit ring that the kernel refused.
    pub tx_invalid: u64,
    /// Looks into the transmit ring that found it empty.
    pub tx_ring_empty: u64,
}

/// When an empty receive ring needs a system call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KickRx {
    Never,
    WhenFlagged,
    Always,
}

/// One receive queue: a socket and its rings.
pub(crate) struct Queue {
    pub(crate) number: u32,
    rx: Rx,
    fill: Fill,
    completion: Completion,
    tx: Option<Tx>,
    completion_len: u32,
    /// Chunks that the kernel may hold for receiving, and how many it lacks.
    target: u32,
    missing: u32,
    kick_rx: KickRx,
    /// What was already folded into the port's counters.
    folded: [u64; 3],
    pub(crate) socket: OwnedFd,
}

impl Queue {
    #[expect(clippy::too_many_arguments, reason = "one call, in `open`, with the parts just made")]
    pub(crate) fn new(
        number: u32,
        target: u32,
        rx: Rx,
        fill: Fill,
        completion: Completion,
        tx: Option<Tx>,
        completion_len: u32,
        socket: OwnedFd,
    ) -> Queue {
        Queue {
            number,
            rx,
            fill,
            completion,
            tx,
            completion_len,
            target,
            missing: target,
            kick_rx: KickRx::Never,
            folded: [0; 3],
            socket,
        }
    }

    /// In copy mode the kernel takes from the fill ring by itself; with zero copy it may ask to be woken; busy polling
    /// happens inside the call.
    pub(crate) fn kick_rx_when(&mut self, busy_poll: bool, flagged: bool) {
        self.kick_rx = match (busy_poll, flagged) {
            (true, _) => KickRx::Always,
            (false, true) => KickRx::WhenFlagged,
            (false, false) => KickRx::Never,
        };
    }

    /// Tops the fill ring up to its target. False when the pool had too few.
    pub(crate) fn refill(&mut self, ledger: &mut Ledger) -> bool {
        let before = self.missing;
        while self.missing > 0 && self.fill.has_room() {
            let Some(frame) = ledger.pool().alloc() else { break };
            let address = ledger.give(frame);
            // Never false: there is room.
            let _ = self.fill.push(address);
            self.missing -= 1;
        }
        if self.missing != before {
            self.fill.publish();
        }
        self.missing == 0
    }
}

/// A port on AF_XDP sockets, one for each receive queue it serves. The first of them transmits, so that order is kept.
pub struct XdpPort {
    /// What it was opened with, to open it again.
    pub(crate) config: XdpConfig,
    pub(crate) uri: String,
    pub(crate) caps: PortCaps,
    pub(crate) counters: PortCounters,
    /// Every transmitted burst needs a system call: no wake-up flag, or busy polling.
    pub(crate) always_kick: bool,
    pub(crate) queues: Vec<Queue>,
    pub(crate) ledger: Ledger,
    /// The queue that the next receive looks at first.
    pub(crate) turn: usize,
    /// Frames in transmit and completion ring.
    pub(crate) in_flight: u32,
    /// The kernel left descriptors in the transmit ring and has to be called again.
    pub(crate) tx_pending: bool,
    /// The interface was down when the kernel was last called to send: when to call it again.
    pub(crate) down_until: Option<Instant>,
    pub(crate) stamp_cookie: Option<u64>,
    pub(crate) mark_unfinished: bool,
    pub(crate) next_look: Instant,
    pub(crate) ifindex: u32,
    pub(crate) epoll: Option<OwnedFd>,
    /// The attached program, ours alone or shared.
    pub(crate) hook: Option<Arc<Hook>>,
    /// Queues that were closed, and whose driver may still write into chunks.
    pub(crate) leaving: Vec<u32>,
    /// Whether closing waits for it.
    pub(crate) patient: bool,
}

impl XdpPort {
    /// What the kernel has counted for the sockets since they were opened.
    ///
    /// # Errors
    /// That of getsockopt(2).
    pub fn statistics(&self) -> io::Result<XdpStatistics> {
        let mut sum = XdpStatistics::default();
        for queue in &self.queues {
            let s = sys::statistics(&queue.socket)?;
            sum.rx_dropped += s.rx_dropped;
            sum.rx_ring_full += s.rx_ring_full;
            sum.fill_ring_empty += s.rx_fill_ring_empty_descs;
            sum.rx_invalid += s.rx_invalid_descs;
            sum.tx_invalid += s.tx_invalid_descs;
            sum.tx_ring_empty += s.tx_ring_empty_descs;
        }
        Ok(sum)
    }

    /// Chunks that the kernel holds now: in fill, receive, transmit and completion rings.
    pub fn held_by_kernel(&self) -> u32 {
        self.ledger.outstanding()
    }

    fn down(&self, source: io::Error) -> PortError {
        PortError::Down { port: self.uri.clone(), source }
    }

    /// Receives from one queue into `burst`, which has room for `room` frames.
    #[inline]
    fn receive(&mut self, at: usize, now: Instant, burst: &mut Burst, room: u32) -> usize {
        let queue = &mut self.queues[at];
        let found = queue.rx.available(room);
        let mut got = 0;
        if found > 0 {
            let mut bytes = 0;
            for _ in 0..found {
                let Some(desc) = queue.rx.pop() else { break };
                // SAFETY: the kernel put the chunk into the receive ring, and has done with it.
                let Some(mut frame) = (unsafe { self.ledger.take(desc.addr, desc.len) }) else { continue };
                bytes += u64::from(desc.len);
                let stamp = match self.stamp_cookie {
                    Some(cookie) => read_stamp(&mut frame, cookie).unwrap_or(Stamp::engine(now)),
                    None => Stamp::engine(now),
                };
                frame.set_stamp(stamp);
                if self.mark_unfinished
                    && let Some(found) = checksum::find_unfinished(frame.data())
                {
                    frame.set_checksum(ChecksumState::Partial { start: found.start, offset: found.offset });
                }
                // Never an error: at most `room` are taken.
                let _ = burst.push(frame);
                got += 1;
            }
            queue.rx.release();
            queue.missing += found;
            self.counters.rx_frames.add(got as u64);
            self.counters.rx_bytes.add(bytes);
        }
        if queue.missing >= REFILL_BATCH.min(queue.target) {
            // Without chunks the kernel drops: its count is wanted soon.
            if !queue.refill(&mut self.ledger) {
                self.next_look = self.next_look.min(now + LOOK_STARVED);
            }
        }
        if queue.kick_rx != KickRx::Never
            && (queue.kick_rx == KickRx::Always && found == 0 || queue.fill.needs_wakeup())
        {
            self.counters.syscalls.add(1);
            sys::kick_rx(&queue.socket);
        }
        got
    }

    /// Takes completed frames back to the pool.
    #[inline]
    fn reap(&mut self) {
        let Some(queue) = self.queues.first_mut() else { return };
        let done = queue.completion.available(u32::MAX);
        if done == 0 {
            return;
        }
        for _ in 0..done {
            let Some(address) = queue.completion.pop() else { break };
            // SAFETY: the kernel put the chunk into the completion ring, and has done with it.
            drop(unsafe { self.ledger.take(address, 0) });
        }
        queue.completion.release();
        self.in_flight = self.in_flight.saturating_sub(done);
    }

    /// Calls the kernel until it has taken the transmit ring, or makes no progress. Not while the interface was down a moment
    /// ago, or nobody could sleep until it is up again.
    fn kick(&mut self, now: Instant) -> Result<(), PortError> {
        if self.down_until.is_some_and(|until| now < until) {
            return Ok(());
        }
        self.down_until = None;
        let Some(Queue { tx: Some(tx), socket, .. }) = self.queues.first() else { return Ok(()) };
        let mut left = tx.unread();
        for _ in 0..KICKS_MAX {
            self.counters.syscalls.add(1);
            let error = sys::kick_tx(socket);
            if error == 0 {
                // With zero copy the driver goes on by itself from here.
                self.tx_pending = false;
                return Ok(());
            }
            let before = left;
            left = tx.unread();
            match error {
                // The kernel's budget for one call is used up, or memory, the device's queue or the completion ring is.
                libc::EAGAIN | libc::ENOBUFS => {}
                // Copy mode: the device refused one frame; it was taken and is completed as if sent.
                libc::EBUSY => {
                    if left != before {
                        self.counters.drops.count(DropReason::PortDown);
                    }
                }
                libc::EINTR => {}
                _ => {
                    self.tx_pending = left > 0;
                    self.down_until = Some(now + DOWN_RETRY);
                    return Err(self.down(io::Error::from_raw_os_error(error)));
                }
            }
            if left == 0 || left == before {
                break;
            }
        }
        self.tx_pending = left > 0;
        Ok(())
    }

    /// Reads the kernel's counters and pending errors: system calls, so rarely.
    #[cold]
    fn look(&mut self) -> Result<(), PortError> {
        for queue in &mut self.queues {
            self.counters.syscalls.add(2);
            if let Ok(s) = sys::statistics(&queue.socket) {
                // The kernel counts both kinds as dropped; one that found no chunk is in `empty`, too.
                let empty = s.rx_dropped.min(s.rx_fill_ring_empty_descs);
                let totals = [
                    (empty, DropReason::PoolEmpty),
                    (s.rx_dropped - empty, DropReason::TooLarge),
                    (s.rx_ring_full, DropReason::RingFull),
                ];
                for ((total, reason), folded) in totals.into_iter().zip(&mut queue.folded) {
                    let new = total.saturating_sub(*folded).min(FOLD_MAX);
                    *folded += new;
                    for _ in 0..new {
                        self.counters.drops.count(reason);
                    }
                }
            }
            if let Some(source) = sys::pending_error(&queue.socket) {
                return Err(PortError::Down { port: self.uri.clone(), source });
            }
        }
        Ok(())
    }

    /// Moves frames from the front of `burst` to the transmit ring: how many were taken, how many of them are in it.
    fn queue_frames(&mut self, burst: &mut Burst) -> (usize, u32) {
        let Some(Queue { tx: Some(tx), completion_len, .. }) = self.queues.first_mut() else { return (0, 0) };
        let (mut taken, mut queued, mut bytes) = (0, 0u32, 0u64);
        let room = *completion_len - self.in_flight;
        while let Some(front) = burst.front() {
            let own = self.ledger.pool().owns(front);
            let lacks_chunk = !own && self.ledger.pool().available() == 0;
            if !tx.has_room() || queued == room || lacks_chunk {
                self.counters.tx_full.add(1);
                break;
            }
            let Some(mut frame) = burst.pop() else { break };
            taken += 1;
            if let Err(reason) = outgoing::make_sendable(&mut frame, self.caps.frame_max) {
                self.counters.drops.count(reason);
                continue;
            }
            if !own {
                match self.ledger.pool().alloc_from(frame.data()) {
                    Some(copy) => frame = copy,
                    None => {
                        self.counters.drops.count(DropReason::PoolEmpty);
                        continue;
                    }
                }
            }
            let len = frame.len() as u32;
            let offset = frame.headroom() as u64;
            let addr = self.ledger.give(frame) + offset;
            // Never false: there is room.
            let _ = tx.push(libc::xdp_desc { addr, len, options: 0 });
            queued += 1;
            bytes += u64::from(len);
        }
        if queued > 0 {
            tx.publish();
            self.in_flight += queued;
            self.counters.tx_frames.add(u64::from(queued));
            self.counters.tx_bytes.add(bytes);
        }
        (taken, queued)
    }
}

/// Reads the time that the program wrote in front of the frame, and erases its mark, so that it is never read twice.
#[inline]
fn read_stamp(frame: &mut Frame, cookie: u64) -> Option<Stamp> {
    if !frame.push_front(STAMP_LEN) {
        return None;
    }
    let (time, mark) = frame.data_mut()[..STAMP_LEN].split_at_mut(8);
    let ns = u64::from_ne_bytes(time.try_into().ok()?);
    let good = u64::from_ne_bytes((&*mark).try_into().ok()?) == ns ^ cookie;
    mark.fill(0);
    // Never false: the bytes were just put in front.
    let _ = frame.pull_front(STAMP_LEN);
    let stamp = Stamp { ns, error_ns: 0, source: StampSource::Kernel, clock: ClockDomain::Monotonic };
    good.then_some(stamp)
}

impl Port for XdpPort {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let mut got = 0;
        let count = self.queues.len();
        if count == 1 {
            got = self.receive(0, now, burst, burst.room() as u32);
        } else {
            for i in 0..count {
                let at = self.turn + i;
                let at = if at < count { at } else { at - count };
                got += self.receive(at, now, burst, burst.room() as u32);
            }
            // One further each time, so that a busy queue cannot keep the others waiting.
            self.turn = if self.turn + 1 < count { self.turn + 1 } else { 0 };
        }
        // When another port of the pool has none left, every frame that is back already counts.
        if self.in_flight >= REAP_EAGER || (self.in_flight > 0 && self.ledger.pool().available() == 0) {
            self.reap();
        }
        if self.tx_pending {
            self.kick(now)?;
        }
        if now >= self.next_look {
            self.next_look = now + LOOK_EVERY;
            self.look()?;
        }
        Ok(got)
    }

    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        if self.in_flight > 0 {
            self.reap();
        }
        if self.down_until.is_some_and(|until| now < until) || self.queues.is_empty() {
            return Err(self.drop_all(burst));
        }
        // It was down a moment ago: is it still? Frames that are queued on it would hold chunks that other ports of the pool want.
        if self.down_until.is_some()
            && self.tx_pending
            && let Err(e) = self.kick(now)
        {
            let _ = self.drop_all(burst);
            return Err(e);
        }
        let (taken, queued) = self.queue_frames(burst);
        let flagged = || self.queues.first().and_then(|q| q.tx.as_ref()).is_some_and(Tx::needs_wakeup);
        if queued > 0 && (self.always_kick || flagged()) || self.tx_pending {
            self.kick(now)?;
        }
        Ok(taken)
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn wait_fd(&self) -> Option<RawFd> {
        match &self.epoll {
            Some(epoll) => Some(epoll.as_raw_fd()),
            None => self.queues.first().map(|q| q.socket.as_raw_fd()),
        }
    }

    fn prepare_wait(&mut self) -> bool {
        self.reap();
        // What waits for a link that is down is no reason to stay awake: `next_deadline` says when to try again.
        let mut idle = !self.tx_pending || self.down_until.is_some();
        for queue in &mut self.queues {
            queue.refill(&mut self.ledger);
            idle &= queue.rx.available(1) == 0;
        }
        idle
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.down_until.filter(|_| self.tx_pending)
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        // The old sockets first: the hook, the queues and the frames in their rings are wanted.
        self.close();
        // Something to sleep on, though nothing can come: who has no descriptor is polled.
        self.epoll = sys::epoll_of([].into_iter()).ok();
        // The engine's thread serves other ports as well: what is taken is asked for again, not waited for.
        if !self.take_back(false) {
            let source = io::Error::from_raw_os_error(libc::EBUSY);
            return Err(OpenError::Io { uri: self.uri.clone(), call: "bind(AF_XDP)", source });
        }
        let mut port = XdpPort::open_as(self.config.clone(), self.ledger.pool().clone(), false)?;
        port.counters = std::mem::take(&mut self.counters);
        *self = port;
        Ok(())
    }
}

impl XdpPort {
    /// Counts and drops what cannot be sent.
    #[cold]
    fn drop_all(&self, burst: &mut Burst) -> PortError {
        for _ in 0..burst.len() {
            self.counters.drops.count(DropReason::PortDown);
        }
        burst.clear();
        self.down(io::Error::from_raw_os_error(libc::ENETDOWN))
    }

    /// Closes the sockets. Nothing is received or sent any more.
    fn close(&mut self) {
        // The program first, or our part of a shared one, so that nothing more is redirected; then sockets and mappings,
        // each of which keeps the kernel's side alive.
        if let Some(hook) = self.hook.take() {
            for queue in &self.queues {
                let _ = hook.map.delete(&queue.number.to_ne_bytes());
            }
        }
        self.epoll = None;
        // In copy mode nobody writes chunks after the close.
        let zero_copy = self.caps.zero_copy;
        self.leaving.extend(self.queues.drain(..).map(|q| q.number).filter(|_| zero_copy));
        (self.in_flight, self.tx_pending, self.down_until, self.turn) = (0, false, None, 0);
    }

    /// Takes back what the kernel had, after the close. With zero copy the driver lets go a little later; false, and nothing done, while
    /// it may still write.
    fn take_back(&mut self, patient: bool) -> bool {
        let ifindex = self.ifindex;
        self.leaving.retain(|&q| !wait_until_free(ifindex, q, patient));
        if self.leaving.is_empty() {
            // SAFETY: the sockets are closed, and the driver has let go.
            unsafe { self.ledger.take_all() };
        }
        self.leaving.is_empty()
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        self.close();
        // Chunks that the driver may still write are not given back, and the pool reports itself as leaked.
        let _ = self.take_back(self.patient);
    }
}

impl std::fmt::Debug for XdpPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.caps.description)
    }
}
