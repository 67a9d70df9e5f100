//! The port at work: bursts in, bursts out.

use crate::calls::{Arrival, Inbox, Outbox};
use crate::checksum;
use crate::config::{PacketConfig, StampBy};
use crate::outgoing::{self, ETH_LEN, VLAN_LEN};
use crate::ring::{Header, Ring, TX_DATA_AT};
use crate::sys::{self, Mapping};
use crate::vnet::{self, VNET_LEN};
use barewire_base::{DropReason, Duration, Instant};
use barewire_frame::{Burst, ChecksumState, ClockDomain, Frame, Pool, Stamp, StampSource};
use barewire_port::{OpenError, Port, PortCaps, PortCounters, PortError};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The kernel's drop count and the socket's error are read this often, at once when the kernel says that it dropped.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Most system calls that one burst makes to get its frames out.
const KICKS_MAX: u32 = 8;
/// Drops that one look counts; a remainder is left for the next look.
const FOLD_MAX: u64 = 1 << 16;
/// A frame that the device refuses for longer than this is dropped: frames must not wait in a burst for a link that is away.
const REFUSED_MAX: Duration = Duration::from_millis(5);

/// How frames come in.
pub(crate) enum Receive {
    Ring(Ring),
    Calls(Box<Inbox>),
    /// Not at all: the port is being opened again.
    Closed,
}

/// How frames go out.
pub(crate) enum Transmit {
    Ring(Ring),
    Calls(Box<Outbox>),
    /// Not at all: the port is being opened again.
    Closed,
}

/// A port on a packet socket with mapped rings.
pub struct PacketPort {
    /// What it was opened with, to open it again.
    pub(crate) config: PacketConfig,
    pub(crate) uri: String,
    pub(crate) caps: PortCaps,
    pub(crate) counters: PortCounters,
    pub(crate) pool: Pool,
    pub(crate) rx: Receive,
    pub(crate) tx: Transmit,
    /// Largest received frame without a tag: the MTU's, or the chunk's with `vnet_hdr`.
    pub(crate) rx_max: usize,
    pub(crate) vnet_hdr: bool,
    pub(crate) gso: bool,
    pub(crate) stamp: StampBy,
    /// The kernel cannot leave outgoing frames out, so we do.
    pub(crate) skip_outgoing: bool,
    /// The kernel left slots of the transmit ring and has to be called again.
    pub(crate) tx_pending: bool,
    /// Since when the device has refused every frame.
    pub(crate) refused_since: Option<Instant>,
    /// The slot that it refuses, with a transmit ring.
    pub(crate) refused_slot: u32,
    pub(crate) next_look: Instant,
    /// Drops that the kernel reported and that are not counted yet.
    pub(crate) dropped: u64,
    // Fields drop in this order: the rings' memory goes before the socket, and the rings above it are plain pointers.
    pub(crate) _mapping: Option<Mapping>,
    pub(crate) socket: OwnedFd,
}

impl PacketPort {
    fn down(&self, error: i32) -> PortError {
        PortError::Down { port: self.uri.clone(), source: io::Error::from_raw_os_error(error) }
    }

    fn failed(&self, call: &'static str, error: i32) -> PortError {
        PortError::Io { port: self.uri.clone(), call, source: io::Error::from_raw_os_error(error) }
    }

    /// Receives from the ring; whether the kernel is losing frames.
    fn receive_ring(&mut self, now: Instant, burst: &mut Burst) -> bool {
        let Receive::Ring(ring) = &mut self.rx else { return false };
        let incoming = Incoming {
            pool: &self.pool,
            rx_max: self.rx_max,
            vnet_hdr: self.vnet_hdr,
            stamp: (self.stamp == StampBy::Engine).then(|| Stamp::engine(now)),
        };
        let (mut got, mut bytes, mut losing) = (0u64, 0u64, false);
        for _ in 0..burst.room() {
            let at = ring.next();
            let status = ring.status(at);
            if status & libc::TP_STATUS_USER == 0 {
                break;
            }
            losing |= status & libc::TP_STATUS_LOSING != 0;
            if !(self.skip_outgoing && ring.packet_type(at) == libc::PACKET_OUTGOING) {
                match incoming.copy(ring, at, status) {
                    Ok(frame) => {
                        bytes += frame.len() as u64;
                        got += 1;
                        // Never an error: there is room.
                        let _ = burst.push(frame);
                    }
                    Err(reason) => self.counters.drops.count(reason),
                }
            }
            ring.set_status(at, libc::TP_STATUS_KERNEL);
            ring.advance();
        }
        if got > 0 {
            self.counters.rx_frames.add(got);
            self.counters.rx_bytes.add(bytes);
        }
        losing
    }

    /// Receives by a system call into frames of the pool.
    fn receive_calls(&mut self, now: Instant, burst: &mut Burst) -> Result<(), PortError> {
        let Receive::Calls(inbox) = &mut self.rx else { return Ok(()) };
        self.counters.syscalls.add(1);
        if inbox.is_starved(&self.pool) {
            for _ in 0..burst.room() {
                if !sys::discard(&self.socket) {
                    break;
                }
                self.counters.syscalls.add(1);
                self.counters.drops.count(DropReason::PoolEmpty);
            }
            return Ok(());
        }
        let count = match inbox.receive(&self.socket, &self.pool, burst.room()) {
            Ok(count) => count,
            Err(libc::EAGAIN | libc::EINTR) => return Ok(()),
            // One frame whose offloads no virtio header can tell.
            Err(libc::EINVAL) => {
                self.counters.drops.count(DropReason::Malformed);
                return Ok(());
            }
            Err(e @ (libc::ENETDOWN | libc::ENXIO | libc::ENODEV)) => return Err(self.down(e)),
            Err(e) => return Err(self.failed("recvmmsg(AF_PACKET)", e)),
        };
        let incoming = Incoming {
            pool: &self.pool,
            rx_max: self.rx_max,
            vnet_hdr: self.vnet_hdr,
            stamp: (self.stamp == StampBy::Engine).then(|| Stamp::engine(now)),
        };
        let (mut got, mut bytes) = (0u64, 0u64);
        for at in 0..count {
            let Some((frame, arrival)) = inbox.take(at) else { continue };
            match incoming.finish(frame, &arrival, now) {
                Ok(frame) => {
                    bytes += frame.len() as u64;
                    got += 1;
                    // Never an error: there is room.
                    let _ = burst.push(frame);
                }
                Err(reason) => self.counters.drops.count(reason),
            }
        }
        self.counters.rx_frames.add(got);
        self.counters.rx_bytes.add(bytes);
        Ok(())
    }

    /// Puts frames into the transmit ring and calls the kernel once for all: how many were taken.
    fn send_ring(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let Transmit::Ring(ring) = &mut self.tx else { return Ok(0) };
        let outgoing = Outgoing { frame_max: self.caps.frame_max, vnet_hdr: self.vnet_hdr, gso: self.gso };
        let (mut taken, mut queued, mut bytes) = (0usize, 0u64, 0u64);
        while !burst.is_empty() {
            let at = ring.next();
            if ring.status(at) != libc::TP_STATUS_AVAILABLE {
                self.counters.tx_full.add(1);
                break;
            }
            let Some(mut frame) = burst.pop() else { break };
            taken += 1;
            match outgoing.put(ring, at, &mut frame) {
                Ok(()) => {
                    ring.set_status(at, libc::TP_STATUS_SEND_REQUEST);
                    ring.advance();
                    queued += 1;
                    bytes += frame.len() as u64;
                }
                Err(reason) => self.counters.drops.count(reason),
            }
        }
        if queued > 0 {
            self.counters.tx_frames.add(queued);
            self.counters.tx_bytes.add(bytes);
        }
        if (queued > 0 || self.tx_pending)
            && let Err(e) = self.kick(Some(now))
        {
            // Nothing waits for a link that is away: it would be old when the link is back, and nobody could sleep meanwhile.
            self.drop_all(burst);
            return Err(e);
        }
        Ok(taken)
    }

    /// Counts and drops what cannot be sent.
    #[cold]
    fn drop_all(&self, burst: &mut Burst) {
        for _ in 0..burst.len() {
            self.counters.drops.count(DropReason::PortDown);
        }
        burst.clear();
    }

    /// Hands frames to the kernel where they lie, a burst with one call: how many were taken.
    fn send_calls(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let Transmit::Calls(outbox) = &mut self.tx else { return Ok(0) };
        let outgoing = Outgoing { frame_max: self.caps.frame_max, vnet_hdr: self.vnet_hdr, gso: self.gso };
        let mut taken = 0;
        while !burst.is_empty() {
            let (mut staged, mut refused) = (0, None);
            for frame in burst.iter_mut() {
                match outgoing.prepare(frame) {
                    Ok(header) => outbox.stage(staged, frame, header),
                    Err(reason) => {
                        refused = Some(reason);
                        break;
                    }
                }
                staged += 1;
            }
            let (mut sent, mut error) = (0, 0);
            while sent < staged && error == 0 {
                self.counters.syscalls.add(1);
                // SAFETY: the staged frames are in the burst, which nobody touches until the call returns.
                match unsafe { outbox.send(&self.socket, sent, staged) } {
                    Ok(count) if count > 0 => sent += count,
                    Ok(_) => error = libc::EAGAIN,
                    Err(libc::EINTR) => {}
                    Err(e) => error = e,
                }
            }
            let mut bytes = 0;
            for _ in 0..sent {
                bytes += burst.pop().map_or(0, |f| f.len() as u64);
            }
            taken += sent;
            if sent > 0 {
                self.refused_since = None;
                self.counters.tx_frames.add(sent as u64);
                self.counters.tx_bytes.add(bytes);
            }
            let drop_front = match error {
                0 => refused,
                // Memory is used up, ours or the kernel's.
                libc::EAGAIN | libc::ENOMEM => None,
                // The device's queue or its peer's is full, or the link is away: nothing was sent, so once more.
                libc::ENOBUFS => {
                    let since = *self.refused_since.get_or_insert(now);
                    (now >= since + REFUSED_MAX).then_some(DropReason::PortDown)
                }
                libc::EMSGSIZE => Some(DropReason::TooLarge),
                libc::EINVAL => Some(DropReason::Malformed),
                _ => {
                    self.drop_all(burst);
                    return Err(match error {
                        libc::ENETDOWN | libc::ENXIO | libc::ENODEV => self.down(error),
                        _ => self.failed("sendmmsg(AF_PACKET)", error),
                    });
                }
            };
            match drop_front {
                Some(reason) => {
                    drop(burst.pop());
                    self.counters.drops.count(reason);
                    taken += 1;
                }
                None if error != 0 => {
                    self.counters.tx_full.add(1);
                    break;
                }
                None => {}
            }
        }
        Ok(taken)
    }

    /// Calls the kernel until it has taken the transmit ring, or makes no progress. `now`: what the device refuses for too
    /// long is dropped. After an error nothing is left in the ring.
    fn kick(&mut self, now: Option<Instant>) -> Result<(), PortError> {
        let (mut failure, mut refused) = (None, false);
        for _ in 0..KICKS_MAX {
            self.counters.syscalls.add(1);
            let error = sys::kick(&self.socket);
            match error {
                0 => break,
                libc::EINTR => continue,
                // Memory is used up: the slot stays requested.
                libc::EAGAIN => break,
                // The device's queue is used up, or the link is away.
                libc::ENOBUFS => {
                    refused = true;
                    break;
                }
                libc::ENETDOWN | libc::ENXIO | libc::ENODEV => {
                    failure = Some(self.down(error));
                    break;
                }
                _ if self.remove_refused(error) => continue,
                _ => {
                    failure = Some(self.failed("sendto(AF_PACKET)", error));
                    break;
                }
            }
        }
        let Transmit::Ring(ring) = &self.tx else { return Ok(()) };
        // Slots are sent in order: when the last one was taken, all were.
        self.tx_pending = ring.status(ring.before(ring.next())) == libc::TP_STATUS_SEND_REQUEST;
        if failure.is_some() || (refused && self.tx_pending) {
            self.after_refusal(now, failure)
        } else {
            self.refused_since = None;
            Ok(())
        }
    }

    /// Empties the transmit ring when the interface is down, or when the device has refused one slot for too long.
    ///
    /// Whatever is left in the ring, somebody must call the kernel for it again: an error that left slots there and forgot
    /// them would leave a full ring for ever.
    #[cold]
    fn after_refusal(&mut self, now: Option<Instant>, failure: Option<PortError>) -> Result<(), PortError> {
        let Transmit::Ring(ring) = &mut self.tx else { return Ok(()) };
        let (first, waiting) = requested(ring);
        if failure.is_none() {
            let Some(now) = now else { return Ok(()) };
            if self.refused_slot != first || self.refused_since.is_none() {
                self.refused_slot = first;
                // Another slot: the one before was taken, or dropped.
                self.refused_since = Some(now);
            }
            if self.refused_since.is_none_or(|since| now < since + REFUSED_MAX) {
                return Ok(());
            }
        }
        // The kernel stands at the first of them, and looks at the ring in our calls only.
        for i in 0..waiting {
            ring.set_status(first.wrapping_add(i), libc::TP_STATUS_AVAILABLE);
            self.counters.drops.count(DropReason::PortDown);
        }
        ring.rewind(first);
        self.tx_pending = false;
        failure.map_or(Ok(()), Err)
    }

    /// The kernel stops at a slot that it refuses (`TP_STATUS_WRONG_FORMAT`) and waits for a better one there: moves all
    /// later ones forward by one. False when there is no such slot.
    #[cold]
    fn remove_refused(&mut self, error: i32) -> bool {
        let Transmit::Ring(ring) = &mut self.tx else { return false };
        let Some(refused) = (0..ring.count()).find(|&at| ring.status(at) == libc::TP_STATUS_WRONG_FORMAT)
        else {
            return false;
        };
        self.counters.drops.count(match error {
            libc::EMSGSIZE => DropReason::TooLarge,
            _ => DropReason::Malformed,
        });
        let (mut to, end) = (refused, ring.next());
        loop {
            let from = ring.after(to);
            if from == end {
                break;
            }
            ring.copy_slot(from, to);
            ring.set_status(to, libc::TP_STATUS_SEND_REQUEST);
            to = from;
        }
        ring.set_status(to, libc::TP_STATUS_AVAILABLE);
        ring.rewind(to);
        true
    }

    /// Reads the kernel's drop count and the pending error: system calls, so rarely.
    #[cold]
    fn look(&mut self) -> Result<(), PortError> {
        self.counters.syscalls.add(2);
        self.dropped += sys::take_drops(&self.socket).map_or(0, u64::from);
        let new = self.dropped.min(FOLD_MAX);
        self.dropped -= new;
        for _ in 0..new {
            self.counters.drops.count(DropReason::RingFull);
        }
        match sys::pending_error(&self.socket) {
            // What the last recvmmsg had left to say.
            Some(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                self.counters.drops.count(DropReason::Malformed);
                Ok(())
            }
            Some(source) => Err(PortError::Down { port: self.uri.clone(), source }),
            None => Ok(()),
        }
    }
}

/// What turns an arrival into a frame.
struct Incoming<'a> {
    pool: &'a Pool,
    rx_max: usize,
    vnet_hdr: bool,
    /// The stamp of every frame, where the kernel gives none.
    stamp: Option<Stamp>,
}

impl Incoming<'_> {
    /// Refuses what is cut short or too long; `more`: there was more of it.
    #[inline]
    fn check(&self, bytes: &[u8], more: bool) -> Result<(), DropReason> {
        if bytes.len() < ETH_LEN as usize {
            return Err(DropReason::Truncated);
        }
        let most = self.rx_max.saturating_add(beyond(bytes));
        if more || bytes.len() > most { Err(DropReason::TooLarge) } else { Ok(()) }
    }

    /// Records what is known of the checksum, and how the frame is to be cut.
    #[inline]
    fn mark(
        &self,
        frame: &mut Frame,
        status: u32,
        vnet: Option<&[u8; VNET_LEN]>,
        tag_len: usize,
    ) -> Result<(), DropReason> {
        match vnet {
            Some(header) => {
                let (state, gso) = vnet::read(header, tag_len as u16)?;
                frame.set_checksum(state);
                if gso.is_some() {
                    frame.set_gso(gso);
                }
            }
            None => {
                let state = checksum_of_status(status, frame.data())?;
                frame.set_checksum(state);
            }
        }
        Ok(())
    }

    /// Copies the frame of receive slot `at`, whose status was `status`, into a frame of the pool.
    #[inline]
    fn copy(&self, ring: &Ring, at: u32, status: u32) -> Result<Frame, DropReason> {
        let header = ring.read_header(at);
        let tag = tag_of(status, header.vlan_tci, header.vlan_tpid);
        let (tag_len, len) = (tag.map_or(0, |t| t.len()), header.snaplen as usize);
        let bytes = ring.bytes(at, usize::from(header.mac), len).ok_or(DropReason::Malformed)?;
        self.check(bytes, header.snaplen < header.len)?;
        let mut frame = self.pool.alloc().ok_or(DropReason::PoolEmpty)?;
        if !frame.set_len(len + tag_len) {
            return Err(DropReason::TooLarge);
        }
        let data = frame.data_mut();
        match tag {
            None => data.copy_from_slice(bytes),
            Some(tag) => {
                data[..12].copy_from_slice(&bytes[..12]);
                data[12..16].copy_from_slice(&tag);
                data[16..].copy_from_slice(&bytes[12..]);
            }
        }
        frame.set_stamp(self.stamp.unwrap_or_else(|| stamp_of(&header, status)));
        let vnet = match self.vnet_hdr {
            true => {
                let from = usize::from(header.mac).checked_sub(VNET_LEN).ok_or(DropReason::Malformed)?;
                let bytes = ring.bytes(at, from, VNET_LEN).and_then(|b| b.first_chunk());
                Some(bytes.ok_or(DropReason::Malformed)?)
            }
            false => None,
        };
        self.mark(&mut frame, status, vnet, tag_len)?;
        Ok(frame)
    }

    /// Completes a frame that the kernel wrote in place.
    #[inline]
    fn finish(&self, mut frame: Frame, arrival: &Arrival, now: Instant) -> Result<Frame, DropReason> {
        self.check(frame.data(), arrival.truncated)?;
        let beside = &arrival.beside;
        let tag = tag_of(beside.status, beside.vlan_tci, beside.vlan_tpid);
        if let Some(tag) = tag {
            let len = frame.len();
            if frame.push_front(tag.len()) {
                frame.data_mut().copy_within(4..16, 0);
            } else if frame.set_len(len + tag.len()) {
                frame.data_mut().copy_within(12..len, 16);
            } else {
                return Err(DropReason::TooLarge);
            }
            frame.data_mut()[12..16].copy_from_slice(&tag);
        }
        let stamp = beside.stamp_ns.map(|ns| Stamp {
            ns,
            error_ns: 0,
            source: StampSource::Kernel,
            clock: ClockDomain::Realtime,
        });
        frame.set_stamp(stamp.unwrap_or(Stamp::engine(now)));
        let vnet = self.vnet_hdr.then_some(&arrival.vnet);
        self.mark(&mut frame, beside.status, vnet, tag.map_or(0, |t| t.len()))?;
        Ok(frame)
    }
}

/// What readies a frame to be sent.
struct Outgoing {
    frame_max: u32,
    vnet_hdr: bool,
    gso: bool,
}

impl Outgoing {
    /// Checks a frame; the virtio header that goes before it, or none and the checksum complete.
    #[inline]
    fn prepare(&self, frame: &mut Frame) -> Result<Option<[u8; VNET_LEN]>, DropReason> {
        if frame.gso().is_none() || !self.gso {
            outgoing::check(frame, self.frame_max)?;
        }
        match self.vnet_hdr {
            true => vnet::write(frame).map(Some),
            false => outgoing::complete(frame).map(|()| None),
        }
    }

    /// Writes `frame` into transmit slot `at`, which is ours.
    #[inline]
    fn put(&self, ring: &mut Ring, at: u32, frame: &mut Frame) -> Result<(), DropReason> {
        let header = self.prepare(frame)?;
        let mut from = TX_DATA_AT;
        let mut len = frame.len();
        if let Some(header) = header {
            ring.bytes_mut(at, from, VNET_LEN).ok_or(DropReason::TooLarge)?.copy_from_slice(&header);
            from += VNET_LEN;
            len += VNET_LEN;
        }
        let to = ring.bytes_mut(at, from, frame.len()).ok_or(DropReason::TooLarge)?;
        to.copy_from_slice(frame.data());
        ring.write_len(at, len as u32);
        Ok(())
    }
}

/// The first slot of a transmit ring that the kernel has not taken, and how many it has not.
fn requested(ring: &Ring) -> (u32, u32) {
    let (mut first, mut count) = (ring.next(), 0);
    while count < ring.count() && ring.status(ring.before(first)) == libc::TP_STATUS_SEND_REQUEST {
        first = ring.before(first);
        count += 1;
    }
    (first, count)
}

/// How much longer than the interface's frames a frame may be: for a VLAN tag in it, and for what a switch's program in the kernel put
/// before it.
#[inline]
fn beyond(frame: &[u8]) -> usize {
    let vlan = |frame: &[u8]| match frame.get(12..14) {
        Some([0x81, 0x00] | [0x88, 0xa8]) => VLAN_LEN as usize,
        _ => 0,
    };
    match checksum::tag_len(frame).and_then(|len| Some((len, frame.get(len..)?))) {
        Some((len, inner)) => len + vlan(inner),
        None => vlan(frame),
    }
}

/// The VLAN tag that was cut out of the frame, as it stood there.
#[inline]
fn tag_of(status: u32, tci: u16, tpid: u16) -> Option<[u8; 4]> {
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { tpid } else { 0x8100 };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    Some([a, b, c, d])
}

#[inline]
fn stamp_of(header: &Header, status: u32) -> Stamp {
    let ns = u64::from(header.sec) * 1_000_000_000 + u64::from(header.nsec);
    // Without a flag the kernel read the clock as it filled the slot.
    let (source, clock) = if status & libc::TP_STATUS_TS_RAW_HARDWARE != 0 {
        (StampSource::Hardware, ClockDomain::Nic)
    } else if status & libc::TP_STATUS_TS_SYS_HARDWARE != 0 {
        (StampSource::Hardware, ClockDomain::Realtime)
    } else {
        (StampSource::Kernel, ClockDomain::Realtime)
    };
    Stamp { ns, error_ns: 0, source, clock }
}

/// What the status says of the checksum. It does not say where an unfinished one lies: that is read from the frame, and
/// a frame for which that fails (a tunnel, an IPv6 extension header) is refused.
#[inline]
fn checksum_of_status(status: u32, frame: &[u8]) -> Result<ChecksumState, DropReason> {
    if status & libc::TP_STATUS_CSUMNOTREADY != 0 {
        let found = checksum::transport(frame).or_else(|| checksum::behind_tag(frame));
        let found = found.ok_or(DropReason::UnfinishedChecksum)?;
        return Ok(ChecksumState::Partial { start: found.start, offset: found.offset });
    }
    Ok(if status & libc::TP_STATUS_CSUM_VALID != 0 {
        ChecksumState::Verified
    } else {
        ChecksumState::Unknown
    })
}

impl Port for PacketPort {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        let before = burst.len();
        let losing = match self.rx {
            Receive::Ring(_) => self.receive_ring(now, burst),
            Receive::Calls(_) if burst.room() == 0 => false,
            Receive::Calls(_) => {
                self.receive_calls(now, burst)?;
                false
            }
            Receive::Closed => return Err(self.down(libc::ENODEV)),
        };
        if self.tx_pending {
            self.kick(Some(now))?;
        }
        if losing || now >= self.next_look {
            self.next_look = now + LOOK_EVERY;
            self.look()?;
        }
        Ok(burst.len() - before)
    }

    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        match self.tx {
            Transmit::Ring(_) => self.send_ring(now, burst),
            Transmit::Calls(_) => self.send_calls(now, burst),
            Transmit::Closed => {
                self.drop_all(burst);
                Err(self.down(libc::ENODEV))
            }
        }
    }

    fn tx_waiting(&self) -> usize {
        match &self.tx {
            Transmit::Ring(ring) if self.tx_pending => requested(ring).1 as usize,
            _ => 0,
        }
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.socket.as_raw_fd())
    }

    fn prepare_wait(&mut self) -> bool {
        if self.tx_pending {
            // A port that is down says so at the next burst.
            let _ = self.kick(None);
        }
        let idle = match &self.rx {
            Receive::Ring(ring) => ring.status(ring.next()) & libc::TP_STATUS_USER == 0,
            Receive::Calls(_) => !sys::is_readable(&self.socket),
            Receive::Closed => true,
        };
        idle && !self.tx_pending
    }

    fn take_marked(&mut self, mark: u32) -> bool {
        let done = sys::take_marked(&self.socket, mark).is_ok();
        if done {
            self.config.mark = Some(mark);
        }
        done
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        // The old socket first: a fanout group belongs to one interface, and goes with its last member.
        let unbound = sys::socket();
        self.socket = unbound.map_err(|e| OpenError::Io {
            uri: self.uri.clone(),
            call: "socket(AF_PACKET)",
            source: e,
        })?;
        (self.rx, self.tx, self._mapping) = (Receive::Closed, Transmit::Closed, None);
        self.tx_pending = false;
        let mut port = PacketPort::open(self.config.clone(), self.pool.clone())?;
        port.counters = std::mem::take(&mut self.counters);
        *self = port;
        Ok(())
    }
}

impl std::fmt::Debug for PacketPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.caps.description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{TAG_CONTEXT, TAG_LEN, TAG_TYPE};

    #[test]
    fn tags_make_frames_longer() {
        let frame = |kind: [u8; 2]| [&[0; 12], &kind[..], &[0; 30]].concat();
        let (plain, vlan) = (frame([8, 0]), frame([0x81, 0]));
        let tag = |inner: &[u8]| {
            let mut tag = [0; TAG_LEN];
            tag[12..14].copy_from_slice(&TAG_TYPE);
            [&tag[..], inner].concat()
        };
        assert_eq!([beyond(&plain), beyond(&vlan)], [0, 4]);
        assert_eq!([beyond(&tag(&plain)), beyond(&tag(&vlan)), beyond(&tag(&[]))], [32, 36, 32]);
        let mut with_context = tag(&[&[0; 24], &vlan[..]].concat());
        with_context[TAG_CONTEXT + 1] = 24;
        assert_eq!([beyond(&with_context), beyond(&with_context[..50])], [60, 0]);
        assert_eq!([beyond(&frame(TAG_TYPE)[..20]), beyond(&[0; 14])], [0, 0], "too short for one");
    }
}
