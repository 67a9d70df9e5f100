//! A frame: the owned handle to one chunk.

use crate::pool::{Inner, Meta};
use crate::{Stamp, StampSource};
use std::ptr::NonNull;

/// What is known about the checksum of a frame's transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChecksumState {
    /// Nothing: the receiver checks it, the sender has written it.
    #[default]
    Unknown,
    /// Hardware or the kernel has checked it.
    Verified,
    /// Left unfinished by a sender that expects an offload: the checksum over `start..` belongs at `start + offset`,
    /// where the pseudo-header sum stands now.
    Partial {
        /// First byte covered, from the start of the frame.
        start: u16,
        /// Where the 16-bit field is, from `start`.
        offset: u16,
    },
}

/// How a frame that is larger than its medium is to be cut into packets (`gso_type` of `linux/virtio_net.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum GsoKind {
    /// TCP over IPv4.
    Tcp4 = 1,
    /// TCP over IPv6.
    Tcp6 = 2,
    /// UDP over either: each piece becomes a datagram of its own.
    UdpL4 = 3,
}

/// A frame that its sender left whole, to be cut later (generic segmentation offload): its headers stand for those of every piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gso {
    /// How it is cut.
    pub kind: GsoKind,
    /// A TCP segment that carries an ECN mark (CWR), which belongs to the first piece alone.
    pub ecn: bool,
    /// Payload bytes of each piece but the last.
    pub size: u16,
}

/// Bits of [`Meta::offload`]: two for the checksum, two for the kind of [`Gso`], one for its mark.
const CSUM_MASK: u8 = 0b11;
const CSUM_VERIFIED: u8 = 1;
const CSUM_PARTIAL: u8 = 2;
const GSO_SHIFT: u32 = 2;
const GSO_MASK: u8 = 0b11 << GSO_SHIFT;
const GSO_ECN: u8 = 1 << 4;

impl Meta {
    /// Moves the place of an unfinished checksum by `delta` bytes; one that would lie in front of the frame is no more.
    #[inline]
    fn shift_partial(&mut self, delta: i64) {
        if self.offload & CSUM_MASK == CSUM_PARTIAL {
            match i64::from(self.csum_start) + delta {
                // Past the largest number no frame reaches: whoever completes the checksum refuses it.
                start if start >= 0 => self.csum_start = u16::try_from(start).unwrap_or(u16::MAX),
                _ => self.offload &= !CSUM_MASK,
            }
        }
    }
}

/// One frame: a moved, 16-byte handle. Dropping it gives the chunk back to its pool.
///
/// Neither `Send` nor `Sync`: a frame stays on the thread of its pool.
pub struct Frame {
    pool: NonNull<Inner>,
    index: u32,
}

const _: () = assert!(size_of::<Frame>() == 16 && size_of::<Option<Frame>>() == 16);

impl Frame {
    #[inline]
    pub(crate) fn own(pool: NonNull<Inner>, index: u32) -> Frame {
        Frame { pool, index }
    }

    #[inline]
    pub(crate) fn pool_ptr(&self) -> NonNull<Inner> {
        self.pool
    }

    #[inline]
    fn inner(&self) -> &Inner {
        // SAFETY: the pool is freed only when every chunk is back in its free list (invariant 4); ours is not.
        unsafe { self.pool.as_ref() }
    }

    #[inline]
    fn meta(&self) -> Meta {
        self.inner().meta(self.index).get()
    }

    #[inline]
    fn update(&mut self, change: impl FnOnce(&mut Meta)) {
        let cell = self.inner().meta(self.index);
        let mut meta = cell.get();
        change(&mut meta);
        cell.set(meta);
    }

    /// Bytes of data.
    #[inline]
    pub fn len(&self) -> usize {
        self.meta().len as usize
    }

    /// Whether there is no data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let meta = self.meta();
        // SAFETY: the chunk is ours alone (invariant 1), `offset + len` lies inside it (invariant 2), and the region was
        // zero-filled by the kernel when mapped, so every byte is initialised.
        unsafe {
            std::slice::from_raw_parts(
                self.inner().chunk(self.index).add(meta.offset as usize),
                meta.len as usize,
            )
        }
    }

    /// The data, to change in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let meta = self.meta();
        // SAFETY: as in `data`; `&mut self` makes this the only reference.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.inner().chunk(self.index).add(meta.offset as usize),
                meta.len as usize,
            )
        }
    }

    /// Makes the data `len` bytes long from the same start, growing or cutting at the end. New bytes hold whatever the
    /// chunk held. False, with nothing changed, when the chunk has no room.
    #[inline]
    #[must_use]
    pub fn set_len(&mut self, len: usize) -> bool {
        if len > self.len() + self.tailroom() {
            return false;
        }
        self.update(|m| m.len = len as u32);
        true
    }

    /// Free bytes before the data.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.meta().offset as usize
    }

    /// Free bytes after the data.
    #[inline]
    pub fn tailroom(&self) -> usize {
        let meta = self.meta();
        (self.inner().chunk_len() - meta.offset - meta.len) as usize
    }

    /// Grows the data by `n` bytes at the front (their content is whatever the headroom held). False, with nothing
    /// changed, when there is not that much headroom. The mark of an unfinished checksum goes on naming the same bytes.
    #[inline]
    #[must_use]
    pub fn push_front(&mut self, n: usize) -> bool {
        if n > self.headroom() {
            return false;
        }
        self.update(|m| {
            m.offset -= n as u32;
            m.len += n as u32;
            m.shift_partial(n as i64);
        });
        true
    }

    /// Cuts `n` bytes off the front. False, with nothing changed, when the data is shorter. The mark of an unfinished
    /// checksum goes on naming the same bytes, or vanishes with them.
    #[inline]
    #[must_use]
    pub fn pull_front(&mut self, n: usize) -> bool {
        if n > self.len() {
            return false;
        }
        self.update(|m| {
            m.offset += n as u32;
            m.len -= n as u32;
            m.shift_partial(-(n as i64));
        });
        true
    }

    /// When and by whom the frame was stamped on arrival.
    #[inline]
    pub fn stamp(&self) -> Stamp {
        let m = self.meta();
        Stamp { ns: m.stamp_ns, error_ns: m.stamp_error_ns, source: m.source, clock: m.clock }
    }

    /// Sets the receive stamp.
    #[inline]
    pub fn set_stamp(&mut self, stamp: Stamp) {
        self.update(|m| {
            m.stamp_ns = stamp.ns;
            m.stamp_error_ns = stamp.error_ns;
            m.source = stamp.source;
            m.clock = stamp.clock;
        });
    }

    /// Whether any stamp was set.
    #[inline]
    pub fn is_stamped(&self) -> bool {
        self.meta().source != StampSource::None
    }

    /// The number of the port it came in on, or is to leave by.
    #[inline]
    pub fn port(&self) -> u16 {
        self.meta().port
    }

    /// Sets the port number.
    #[inline]
    pub fn set_port(&mut self, port: u16) {
        self.update(|m| m.port = port);
    }

    /// What is known of the transport checksum.
    #[inline]
    pub fn checksum(&self) -> ChecksumState {
        let m = self.meta();
        match m.offload & CSUM_MASK {
            CSUM_VERIFIED => ChecksumState::Verified,
            CSUM_PARTIAL => ChecksumState::Partial { start: m.csum_start, offset: m.csum_offset },
            _ => ChecksumState::Unknown,
        }
    }

    /// Records what is known of the transport checksum.
    #[inline]
    pub fn set_checksum(&mut self, state: ChecksumState) {
        self.update(|m| {
            m.offload &= !CSUM_MASK;
            match state {
                ChecksumState::Unknown => {}
                ChecksumState::Verified => m.offload |= CSUM_VERIFIED,
                ChecksumState::Partial { start, offset } => {
                    m.offload |= CSUM_PARTIAL;
                    m.csum_start = start;
                    m.csum_offset = offset;
                }
            }
        });
    }

    /// How the frame is to be cut, if its sender left it whole.
    #[inline]
    pub fn gso(&self) -> Option<Gso> {
        let m = self.meta();
        let kind = match (m.offload & GSO_MASK) >> GSO_SHIFT {
            0 => return None,
            1 => GsoKind::Tcp4,
            2 => GsoKind::Tcp6,
            _ => GsoKind::UdpL4,
        };
        Some(Gso { kind, ecn: m.offload & GSO_ECN != 0, size: m.gso_size })
    }

    /// Marks the frame as one to be cut, or takes the mark off.
    #[inline]
    pub fn set_gso(&mut self, gso: Option<Gso>) {
        self.update(|m| {
            m.offload &= !(GSO_MASK | GSO_ECN);
            if let Some(Gso { kind, ecn, size }) = gso {
                m.offload |= (kind as u8) << GSO_SHIFT | if ecn { GSO_ECN } else { 0 };
                m.gso_size = size;
            }
        });
    }

    /// Moves the place of an unfinished checksum by `delta` bytes: for who moved the transport header within the frame. Not
    /// needed after [`push_front`](Self::push_front) and [`pull_front`](Self::pull_front), which leave every byte in place.
    #[inline]
    pub fn shift_offloads(&mut self, delta: i32) {
        self.update(|m| m.shift_partial(i64::from(delta)));
    }

    /// A second frame of the same pool with the same bytes, offset, stamp and port; `None` when the pool is empty.
    pub fn try_clone(&self) -> Option<Frame> {
        let mut copy = self.alloc_sibling()?;
        let meta = self.meta();
        copy.inner().meta(copy.index).set(meta);
        copy.data_mut().copy_from_slice(self.data());
        Some(copy)
    }

    fn alloc_sibling(&self) -> Option<Frame> {
        let index = self.inner().take_index()?;
        Some(Frame::own(self.pool, index))
    }

    /// Gives the chunk away (to a kernel ring) and says which it was. [`crate::Pool::reclaim`] takes it back.
    #[inline]
    pub fn into_index(self) -> u32 {
        let index = self.index;
        std::mem::forget(self);
        index
    }

    /// Where the data starts in the pool's region: the address that AF_XDP descriptors carry.
    #[inline]
    pub fn region_offset(&self) -> u64 {
        let meta = self.meta();
        u64::from(self.index) * u64::from(self.inner().chunk_len()) + u64::from(meta.offset)
    }
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        self.inner().put(self.index);
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frame").field("index", &self.index).field("len", &self.len()).finish()
    }
}
