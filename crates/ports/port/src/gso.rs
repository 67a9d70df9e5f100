//! The gso port: datagrams of one burst that differ in nothing but payload leave as one frame, and frames that arrive so are cut.
//!
//! ```text
//! tx burst   [a1 a2 a3][b1][a4 a5] --> [a1+a2+a3 | UdpL4, size][b1][a4+a5 | UdpL4, size] --> inner port
//! rx burst   [a1][a2][a3][b1] ... <-- one frame of up to 64 KiB, copied piece by piece   <-- inner port
//! ```
//! What a frame costs the kernel (a buffer, a walk through the stack, a wake-up) is then paid once for up to 32 datagrams. Each
//! stays a datagram of its own: whoever the kernel cuts the frame for (a card, a link without the offload) receives what was given
//! here, but for the identification of unfragmentable IPv4 packets, which means nothing (RFC 6864), and UDP checksums where there were none.
//! RoCEv2 over IPv4 is the exception: its invariant CRC covers the identification, which whoever cuts counts up. It is never joined.
//!
//! Kernels before 6.2 refuse such frames from a packet socket: the first frame is a trial, and a port whose kernel refuses it joins nothing.
//! Received frames of TCP segments are dropped (`too_large`), and so are those whose headers are not known here (`malformed`): two VLAN
//! tags, IPv4 options, IPv6 extension headers.
//!
//! Nothing waits for company: only what is in one burst goes together. The order of frames stays.
//!
//! Sources: kernel `Documentation/networking/segmentation-offloads.rst`, `struct virtio_net_hdr` of `linux/virtio_net.h`.

mod datagram;

use crate::{OpenError, Port, PortCaps, PortCounters, PortError, PortUri};
use barewire_base::{DropReason, Duration, Instant};
use barewire_frame::{BURST_MAX, Burst, ChecksumState, Frame, Gso, GsoKind, Pool, PoolConfig, PoolError};
use barewire_wire::{eth, vlan};
use datagram::Datagram;
use std::collections::VecDeque;
use std::os::fd::RawFd;

/// Most bytes of an IP packet, and so of what several become.
const PACKET_MAX: usize = 65_535;
/// Most datagrams that one received frame is cut into: what the kernel itself allows a sender (`UDP_MAX_SEGMENTS`).
const PIECES_MAX: usize = 128;
/// Datagrams that are handed on at once, unless asked otherwise: with 32 messages in flight 16 carry the most, since both ends then work at the same
/// time; with more in flight, 32 do.
const PIECES_DEFAULT: usize = 16;
/// A port that takes nothing is offered the same again after so long: nobody says when it has room.
const REFUSED_RETRY: Duration = Duration::from_millis(1);
/// Frames of the pool between this port and the inner one: a burst that waits to be filled, one that is cut, one that waits to be sent.
const FRAMES: u32 = 96;
/// Bytes of their chunks: 64 KiB and headers.
const CHUNK_LEN: u32 = 131_072;

/// How a [`GsoPort`] is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GsoConfig {
    /// Most datagrams that one call of [`rx_burst`](Port::rx_burst) hands on, from 1 to [`BURST_MAX`]. With fewer, whoever answers at once
    /// answers earlier, and both ends work at the same time.
    pub pieces: usize,
}

impl Default for GsoConfig {
    fn default() -> Self {
        GsoConfig { pieces: PIECES_DEFAULT }
    }
}

impl GsoConfig {
    /// Takes this wrapper's option out of `uri`: `pieces`.
    ///
    /// # Errors
    /// [`OpenError::BadUri`] for a value that does not parse or is out of bounds.
    pub fn take(uri: &mut PortUri) -> Result<GsoConfig, OpenError> {
        let config = GsoConfig { pieces: uri.take_or("pieces", GsoConfig::default().pieces)? };
        if !(1..=BURST_MAX).contains(&config.pieces) {
            return Err(uri.bad(format!("option `pieces={}`: from 1 to {BURST_MAX}", config.pieces)));
        }
        Ok(config)
    }
}

/// A port around one that exchanges frames which are to be cut later ([`Frame::gso`]).
pub struct GsoPort<P> {
    inner: P,
    caps: PortCaps,
    config: GsoConfig,
    /// Where received datagrams go.
    pool: Pool,
    /// Where datagrams are put together.
    large: Pool,
    /// Taken from the caller and not yet by the inner port.
    outgoing: Burst,
    /// What each of these is.
    held: VecDeque<Held>,
    joining: Joining,
    /// Bytes of the inner port's longest frame without a VLAN tag: a datagram that is longer could not be sent alone, and goes alone.
    single_max: usize,
    /// Received and not yet handed on.
    incoming: Burst,
    cutting: Option<Cutting>,
    last_now: Instant,
}

/// A frame that waits for the inner port.
struct Held {
    /// Bytes of the frame.
    len: u64,
    /// Datagrams in it beyond the first, and the bytes of their headers.
    beyond: u64,
    beyond_bytes: u64,
}

/// Whether the inner port takes joined frames.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joining {
    Untried,
    Taken,
    Refused,
}

/// A received frame that is being cut.
struct Cutting {
    /// Its headers are those of a piece of the full size.
    frame: Frame,
    datagram: Datagram,
    size: usize,
    /// Payload bytes that were handed on.
    done: usize,
}

impl<P: Port> GsoPort<P> {
    /// The pool that the inner port receives into: its chunks hold 64 KiB.
    ///
    /// # Errors
    /// As for [`Pool::new`].
    pub fn large_pool() -> Result<Pool, PoolError> {
        let config = PoolConfig { frames: FRAMES, chunk_len: CHUNK_LEN, ..PoolConfig::default() };
        Pool::new(config)
    }

    /// Wraps `inner`, which was opened with `large`, a pool of [`large_pool`](Self::large_pool); datagrams are handed on in frames of `pool`.
    pub fn new(inner: P, config: GsoConfig, large: Pool, pool: Pool) -> GsoPort<P> {
        let mut port = GsoPort {
            caps: inner.caps().clone(),
            config,
            inner,
            pool,
            large,
            outgoing: Burst::new(),
            held: VecDeque::with_capacity(BURST_MAX),
            joining: Joining::Untried,
            single_max: 0,
            incoming: Burst::new(),
            cutting: None,
            last_now: Instant::ZERO,
        };
        port.take_caps();
        port
    }

    /// Bytes that the caller's frames have to hold for all that the inner port receives: its MTU's, and a VLAN tag.
    pub fn chunk_wanted(inner: &PortCaps) -> usize {
        inner.frame_max as usize + vlan::TAG_LEN
    }

    fn take_caps(&mut self) {
        self.caps = self.inner.caps().clone();
        self.single_max = self.caps.frame_max as usize;
        self.caps.in_place = false;
        self.caps.zero_copy = false;
        self.caps.frame_max = self.caps.frame_max.min(self.pool.frame_max() as u32);
        self.caps.mtu = self.caps.mtu.min(self.caps.frame_max.saturating_sub(eth::HEADER_LEN as u32));
        let how = match self.joining {
            Joining::Refused => "datagrams not joined: the kernel refuses (UDP segmentation needs 6.2)",
            _ => "datagrams of a burst joined (UDP segmentation)",
        };
        self.caps.description = format!("{how}; {}", self.caps.description);
    }

    /// Hands `outgoing` to the inner port.
    fn flush(&mut self, now: Instant) -> Result<(), PortError> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        let before = self.outgoing.len();
        let counters = self.inner.counters();
        let (frames_before, bytes_before) = (counters.tx_frames.get(), counters.tx_bytes.get());
        let result = self.inner.tx_burst(now, &mut self.outgoing);
        let counters = self.inner.counters();
        let mut reason = DropReason::Malformed;
        if result.is_err() {
            // A port that failed holds nothing back: what it would send later would be old.
            reason = DropReason::PortDown;
            (0..self.outgoing.len()).for_each(|_| counters.drops.count(reason));
            self.outgoing.clear();
        }
        let mut taken = before - self.outgoing.len();
        let mut sent = counters.tx_frames.get().wrapping_sub(frames_before) as usize;
        // What was taken beyond that, the inner port has dropped: the last ones when it failed, else those that the bytes tell.
        let all = self.held.iter().take(taken).map(|held| held.len).sum::<u64>();
        let mut lost_bytes = all.saturating_sub(counters.tx_bytes.get().wrapping_sub(bytes_before));
        for held in self.held.drain(..taken) {
            let lost = taken.saturating_sub(sent);
            let is_lost = match lost {
                0 => false,
                _ if sent == 0 => true,
                _ if result.is_err() => false,
                1 => held.len == lost_bytes,
                _ => held.len < lost_bytes,
            };
            taken -= 1;
            if is_lost {
                lost_bytes = lost_bytes.saturating_sub(held.len);
                (0..held.beyond).for_each(|_| counters.drops.count(reason));
            } else {
                sent = sent.saturating_sub(1);
                counters.tx_frames.add(held.beyond);
                counters.tx_bytes.add(held.beyond_bytes);
            }
        }
        result.map(|_| ())
    }

    /// How many frames from the front of `burst` fit together, and what they are.
    fn run(&self, burst: &Burst) -> Option<(Datagram, usize)> {
        let front = burst.front().filter(|_| self.joining != Joining::Refused)?;
        let first = Datagram::of(front)?;
        let fits = front.len() <= self.single_max + first.tag_len();
        let count = if fits { first.run(burst) } else { 1 };
        (count > 1).then_some((first, count))
    }

    /// Makes one of the first `count` frames of `burst`, which fit together and stay there. `None`: no large frame is free.
    fn join(&mut self, burst: &Burst, count: usize, first: &Datagram) -> Option<Frame> {
        let payload = burst.iter().take(count).map(|f| f.len() - first.header_len()).sum::<usize>();
        let mut joined = self.large.alloc()?;
        if !joined.set_len(first.header_len() + payload) {
            return None;
        }
        let data = joined.data_mut();
        let mut at = 0;
        for frame in burst.iter().take(count) {
            let from = if at == 0 { 0 } else { first.header_len() };
            let bytes = &frame.data()[from..];
            data[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        first.resize(data, payload);
        let (start, offset) = first.checksum_at();
        joined.set_checksum(ChecksumState::Partial { start, offset });
        joined.set_gso(Some(Gso { kind: GsoKind::UdpL4, ecn: false, size: first.payload as u16 }));
        Some(joined)
    }

    /// Moves frames of `burst` to `outgoing`, which is empty, those that fit together as one.
    fn gather(&mut self, burst: &mut Burst) {
        while !burst.is_empty() {
            let run = self.run(burst);
            let joined =
                run.and_then(|(first, count)| Some((self.join(burst, count, &first)?, first, count)));
            let Some((frame, first, count)) = joined else {
                // Alone, or no large frame is free: as it is.
                if let Some(frame) = burst.pop() {
                    self.hold(frame, 0, 0);
                }
                continue;
            };
            (0..count).for_each(|_| drop(burst.pop()));
            self.hold(frame, count as u64 - 1, first.header_len() as u64);
        }
    }

    fn hold(&mut self, frame: Frame, beyond: u64, headers: u64) {
        let len = frame.len() as u64;
        self.held.push_back(Held { len, beyond, beyond_bytes: beyond * headers });
        // Never an error: there are at most as many as there were in the caller's burst.
        let _ = self.outgoing.push(frame);
    }

    /// Hands the first frames of `burst` that fit together to the inner port as one, and takes them from there if it sends it: otherwise
    /// they can still go one by one. Whether the port may be asked for more.
    #[cold]
    fn try_joining(&mut self, now: Instant, burst: &mut Burst) -> Result<bool, PortError> {
        let Some((first, count)) = self.run(burst) else { return Ok(true) };
        let Some(frame) = self.join(burst, count, &first) else { return Ok(true) };
        let before = self.inner.counters().tx_frames.get();
        let _ = self.outgoing.push(frame);
        let result = self.inner.tx_burst(now, &mut self.outgoing);
        let is_full = !self.outgoing.is_empty();
        self.outgoing.clear();
        let counters = self.inner.counters();
        let is_sent = counters.tx_frames.get() != before;
        if is_sent {
            self.joining = Joining::Taken;
            let beyond = count as u64 - 1;
            counters.tx_frames.add(beyond);
            counters.tx_bytes.add(beyond * first.header_len() as u64);
            (0..count).for_each(|_| drop(burst.pop()));
        }
        if let Err(failed) = result {
            // As in `flush`. The trial itself is counted already.
            (usize::from(!is_sent)..burst.len()).for_each(|_| counters.drops.count(DropReason::PortDown));
            burst.clear();
            return Err(failed);
        }
        if !is_sent && !is_full {
            self.joining = Joining::Refused;
            self.take_caps();
        }
        Ok(!is_full)
    }

    /// Begins to cut a received frame, or hands on one that is whole.
    fn take(&mut self, mut frame: Frame, burst: &mut Burst) -> Result<(), DropReason> {
        let Some(gso) = frame.gso() else {
            let mut copy = self.pool.alloc().ok_or(DropReason::PoolEmpty)?;
            if !copy.set_len(frame.len()) {
                return Err(DropReason::TooLarge);
            }
            copy.data_mut().copy_from_slice(frame.data());
            copy.set_stamp(frame.stamp());
            copy.set_checksum(frame.checksum());
            // Never an error: the caller has looked for room.
            let _ = burst.push(copy);
            return Ok(());
        };
        if gso.kind != GsoKind::UdpL4 {
            // A stream's segment: who wraps a port in this one wants datagrams.
            return Err(DropReason::TooLarge);
        }
        let datagram = Datagram::parse(frame.data()).ok_or(DropReason::Malformed)?;
        let size = usize::from(gso.size);
        if size == 0 || datagram.payload == 0 || datagram.payload.div_ceil(size) > PIECES_MAX {
            return Err(DropReason::Malformed);
        }
        let beyond = datagram.payload.div_ceil(size) as u64 - 1;
        let counters = self.inner.counters();
        counters.rx_frames.add(beyond);
        counters.rx_bytes.add(beyond * datagram.header_len() as u64);
        // Once for all pieces of the full size.
        datagram.resize(frame.data_mut(), size.min(datagram.payload));
        self.cutting = Some(Cutting { frame, datagram, size, done: 0 });
        Ok(())
    }

    /// Hands on pieces of the frame that is being cut, until `burst` holds `most` frames.
    fn cut(&mut self, burst: &mut Burst, most: usize) {
        let Some(cutting) = &mut self.cutting else { return };
        let Cutting { frame, datagram, size, done } = cutting;
        let headers = datagram.header_len();
        while burst.len() < most && *done < datagram.payload {
            let len = (*size).min(datagram.payload - *done);
            let from = headers + *done;
            *done += len;
            let Some(mut piece) = self.pool.alloc() else {
                self.inner.counters().drops.count(DropReason::PoolEmpty);
                continue;
            };
            if !piece.set_len(headers + len) {
                self.inner.counters().drops.count(DropReason::TooLarge);
                continue;
            }
            let data = piece.data_mut();
            data[..headers].copy_from_slice(&frame.data()[..headers]);
            data[headers..].copy_from_slice(&frame.data()[from..from + len]);
            let has_ident = datagram.has_ident(data);
            if has_ident {
                datagram.number(data, (from - headers) / *size);
            }
            if has_ident || len < *size {
                datagram.resize(data, len);
            }
            let (start, offset) = datagram.checksum_at();
            piece.set_checksum(ChecksumState::Partial { start, offset });
            piece.set_stamp(frame.stamp());
            // Never an error: there is room.
            let _ = burst.push(piece);
        }
        if *done == datagram.payload {
            self.cutting = None;
        }
    }
}

impl<P: Port> Port for GsoPort<P> {
    fn caps(&self) -> &PortCaps {
        &self.caps
    }

    fn rx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.last_now = now;
        self.flush(now)?;
        let before = burst.len();
        let most = before + burst.room().min(self.config.pieces);
        let mut asked = false;
        loop {
            self.cut(burst, most);
            if burst.len() == most {
                break;
            }
            if let Some(frame) = self.incoming.pop() {
                if let Err(reason) = self.take(frame, burst) {
                    self.inner.counters().drops.count(reason);
                }
            } else if asked || self.inner.rx_burst(now, &mut self.incoming)? == 0 {
                break;
            } else {
                asked = true;
            }
        }
        Ok(burst.len() - before)
    }

    fn tx_burst(&mut self, now: Instant, burst: &mut Burst) -> Result<usize, PortError> {
        self.last_now = now;
        self.flush(now)?;
        if !self.outgoing.is_empty() {
            // The inner port pushes back: so do we.
            return Ok(0);
        }
        let before = burst.len();
        if self.joining == Joining::Untried && !self.try_joining(now, burst)? {
            return Ok(0);
        }
        self.gather(burst);
        self.flush(now)?;
        Ok(before - burst.len())
    }

    fn tx_waiting(&self) -> usize {
        self.held.iter().map(|held| held.beyond as usize + 1).sum::<usize>() + self.inner.tx_waiting()
    }

    fn counters(&self) -> &PortCounters {
        self.inner.counters()
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.inner.wait_fd()
    }

    fn prepare_wait(&mut self) -> bool {
        self.cutting.is_none() && self.incoming.is_empty() && self.inner.prepare_wait()
    }

    fn finish_wait(&mut self) {
        self.inner.finish_wait();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let refused = (!self.outgoing.is_empty()).then_some(self.last_now + REFUSED_RETRY);
        refused.into_iter().chain(self.inner.next_deadline()).min()
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished() && self.cutting.is_none() && self.incoming.is_empty()
    }

    fn reopen(&mut self) -> Result<(), OpenError> {
        self.inner.reopen()?;
        self.take_caps();
        Ok(())
    }

    fn take_marked(&mut self, mark: u32) -> bool {
        self.inner.take_marked(mark)
    }
}
