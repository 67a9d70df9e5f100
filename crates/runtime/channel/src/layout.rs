//! What lies where in a channel's memory.
//!
//! ```text
//! offset    size   what                                                          who writes it
//!      0       8   magic "barewire"                                              daemon, once
//!      8       4   version                                                       daemon, once
//!     12      16   sq_entries, cq_entries, send_bytes, recv_bytes (u32 each)     daemon, once
//!    128       4   application parked: it sleeps, ring its doorbell              application; daemon clears
//!    256       4   daemon parked: it sleeps, ring its doorbell                   daemon; application clears
//!    384       4   room wanted: the daemon found the CQ full                     daemon; application clears
//!    512       4   closed: the daemon has dropped the channel                    daemon, once
//!    640           SQ ring: sq_entries x 64 bytes, application -> daemon
//!      .           CQ ring: cq_entries x 64 bytes, daemon -> application
//!      . (page)    send memory: the application writes messages, the daemon reads them
//!      . (page)    receive memory: the daemon writes messages, the application reads them
//! ```
//!
//! Numbers are in the machine's byte order: a channel never leaves it. Words that different cores write are 128 bytes
//! apart. With the default geometry the CQ starts at 66,432, send memory at 593,920, receive memory at 67,702,784, and
//! the whole has 134,811,648 bytes, which take memory only as they are touched.

use crate::{BadGeometry, ChannelError};
use barewire_ring::spsc;
use serde::{Deserialize, Serialize};

/// Version of the layout, of the entries and of the control messages. Both sides must have the same.
pub const VERSION: u32 = 3;
/// Largest number of entries of a ring.
pub const ENTRIES_MAX: u32 = 1 << 20;
/// Largest send or receive memory, in bytes.
pub const MEMORY_MAX: u32 = 1 << 30;
/// Send and receive memory come in multiples of this, in bytes: a page.
pub const MEMORY_UNIT: u32 = 4096;
/// u64 words of a ring's entry: one 64-byte line.
pub const ENTRY_WORDS: usize = 8;

/// First word of the memory.
pub(crate) const MAGIC: u64 = u64::from_ne_bytes(*b"barewire");
/// Offset of the application's park flag.
pub(crate) const APP_PARKED: usize = 128;
/// Offset of the daemon's park flag.
pub(crate) const DAEMON_PARKED: usize = 256;
/// Offset of the flag that a daemon sets when it sleeps on a full CQ.
pub(crate) const ROOM_WANTED: usize = 384;
/// Offset of the word that says that the daemon is done with the channel.
pub(crate) const CLOSED: usize = 512;
/// Offset of the SQ ring.
const SQ: usize = 640;
/// Bytes of the header's fields.
pub(crate) const HEADER_LEN: usize = 28;

const PAGE: usize = MEMORY_UNIT as usize;

/// The sizes that a channel is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Entries of the ring of requests: a power of two, at most [`ENTRIES_MAX`].
    pub sq_entries: u32,
    /// Entries of the ring of completions: a power of two, at most [`ENTRIES_MAX`].
    pub cq_entries: u32,
    /// Bytes that the application sends from: a multiple of [`MEMORY_UNIT`], at most [`MEMORY_MAX`].
    pub send_bytes: u32,
    /// Bytes that the application receives in: as `send_bytes`.
    pub recv_bytes: u32,
}

impl Geometry {
    /// What an application gets that asks for nothing else: 1024 requests, 8192 completions, 64 MiB each way.
    pub const DEFAULT: Geometry =
        Geometry { sq_entries: 1024, cq_entries: 8192, send_bytes: 64 << 20, recv_bytes: 64 << 20 };

    /// Whether every field is within its bounds.
    ///
    /// # Errors
    /// The first field that is not.
    pub const fn check(&self) -> Result<(), BadGeometry> {
        match self.layout() {
            Ok(_) => Ok(()),
            Err(bad) => Err(bad),
        }
    }

    /// Bytes of the whole channel, which take memory only as they are touched.
    ///
    /// # Errors
    /// As for [`check`](Geometry::check).
    pub const fn total_bytes(&self) -> Result<usize, BadGeometry> {
        match self.layout() {
            Ok(layout) => Ok(layout.total),
            Err(bad) => Err(bad),
        }
    }

    /// Messages that an application may have submitted without being told their fate, at most: a quarter of the
    /// completions. The library refuses to submit more, because the daemon would let them wait.
    pub const fn sends_max(&self) -> u32 {
        if self.cq_entries < 4 { 1 } else { self.cq_entries / 4 }
    }

    pub(crate) const fn layout(&self) -> Result<Layout, BadGeometry> {
        let sq = match ring("sq_entries", self.sq_entries) {
            Ok(ring) => ring,
            Err(bad) => return Err(bad),
        };
        let cq = match ring("cq_entries", self.cq_entries) {
            Ok(ring) => ring,
            Err(bad) => return Err(bad),
        };
        if !memory_is_valid(self.send_bytes) {
            return Err(BadGeometry::Bytes { memory: "send_bytes", bytes: self.send_bytes });
        }
        if !memory_is_valid(self.recv_bytes) {
            return Err(BadGeometry::Bytes { memory: "recv_bytes", bytes: self.recv_bytes });
        }
        // Nothing can overflow: two rings of at most 64 MiB and two memories of at most 1 GiB.
        let cq_at = SQ + sq;
        let send = (cq_at + cq).next_multiple_of(PAGE);
        let recv = send + self.send_bytes as usize;
        Ok(Layout {
            geometry: *self,
            sq: Span { at: SQ, len: sq },
            cq: Span { at: cq_at, len: cq },
            send: Span { at: send, len: self.send_bytes as usize },
            recv: Span { at: recv, len: self.recv_bytes as usize },
            total: recv + self.recv_bytes as usize,
        })
    }

    /// The bytes that a channel's memory begins with.
    pub(crate) fn header(&self) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[..8].copy_from_slice(&MAGIC.to_ne_bytes());
        let words = [VERSION, self.sq_entries, self.cq_entries, self.send_bytes, self.recv_bytes];
        for (to, word) in header[8..].as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_ne_bytes();
        }
        header
    }

    /// Reads a header; the geometry is as yet unchecked.
    pub(crate) fn from_header(header: &[u8; HEADER_LEN]) -> Result<Geometry, ChannelError> {
        let (magic, words) = header.split_at(8);
        if magic != MAGIC.to_ne_bytes() {
            return Err(ChannelError::BadMagic);
        }
        let word = |i: usize| u32::from_ne_bytes(words.as_chunks::<4>().0[i]);
        if word(0) != VERSION {
            return Err(ChannelError::Version { theirs: word(0) });
        }
        Ok(Geometry { sq_entries: word(1), cq_entries: word(2), send_bytes: word(3), recv_bytes: word(4) })
    }
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry::DEFAULT
    }
}

/// Bytes of a ring.
const fn ring(ring: &'static str, entries: u32) -> Result<usize, BadGeometry> {
    if entries > ENTRIES_MAX {
        return Err(BadGeometry::Entries { ring, entries });
    }
    match spsc::Layout::new(entries, ENTRY_WORDS as u32) {
        Some(layout) => Ok(layout.size()),
        None => Err(BadGeometry::Entries { ring, entries }),
    }
}

const fn memory_is_valid(bytes: u32) -> bool {
    bytes != 0 && bytes <= MEMORY_MAX && bytes.is_multiple_of(MEMORY_UNIT)
}

/// A piece of the memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub at: usize,
    pub len: usize,
}

/// Where everything is, for one geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub geometry: Geometry,
    pub sq: Span,
    pub cq: Span,
    pub send: Span,
    pub recv: Span,
    pub total: usize,
}

// The diagram above, and what the rings ask for.
const _: () = {
    let Ok(l) = Geometry::DEFAULT.layout() else { panic!("the default geometry is valid") };
    assert!(l.sq.at == 640 && l.cq.at == 66_432 && l.send.at == 593_920);
    assert!(l.recv.at == 67_702_784 && l.total == 134_811_648);
    assert!(HEADER_LEN <= APP_PARKED && CLOSED + 4 <= SQ);
    assert!(SQ.is_multiple_of(128) && l.cq.at.is_multiple_of(128) && l.recv.at.is_multiple_of(PAGE));
    let most = Geometry {
        sq_entries: ENTRIES_MAX,
        cq_entries: ENTRIES_MAX,
        send_bytes: MEMORY_MAX,
        recv_bytes: MEMORY_MAX,
    };
    assert!(most.check().is_ok());
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_follow_one_another() {
        let geometry = |sq_entries, cq_entries, send_bytes, recv_bytes| Geometry {
            sq_entries,
            cq_entries,
            send_bytes,
            recv_bytes,
        };
        // A ring of n entries has 256 + 64 n bytes, rounded up to 128.
        for (g, cq, send, recv, total) in [
            (geometry(1, 1, 4096, 4096), 640 + 384, 4096, 8192, 12_288),
            (geometry(8, 16, 8192, 4096), 640 + 768, 4096, 12_288, 16_384),
            (geometry(64, 64, 4096, 1 << 20), 640 + 4352, 12_288, 16_384, 16_384 + (1 << 20)),
            (Geometry::DEFAULT, 66_432, 593_920, 67_702_784, 134_811_648),
            (
                geometry(1 << 20, 1 << 20, 1 << 30, 1 << 30),
                67_109_760,
                134_221_824,
                1_207_963_648,
                2_281_705_472,
            ),
        ] {
            let l = g.layout().unwrap();
            assert_eq!(
                (l.sq.at, l.cq.at, l.send.at, l.recv.at, l.total),
                (640, cq, send, recv, total),
                "{g:?}"
            );
            assert_eq!(l.sq.at + l.sq.len, l.cq.at);
            assert_eq!((l.send.at + l.send.len, l.recv.at + l.recv.len), (l.recv.at, l.total));
            assert!(l.cq.at + l.cq.len <= l.send.at && l.send.at - (l.cq.at + l.cq.len) < 4096);
        }
    }

    #[test]
    fn a_wrong_size_is_named() {
        let d = Geometry::DEFAULT;
        for (g, want) in [
            (Geometry { sq_entries: 0, ..d }, "sq_entries = 0"),
            (Geometry { sq_entries: 3, ..d }, "sq_entries = 3"),
            (Geometry { sq_entries: 1 << 21, ..d }, "sq_entries = 2097152"),
            (Geometry { cq_entries: 8193, ..d }, "cq_entries = 8193"),
            (Geometry { cq_entries: u32::MAX, ..d }, "cq_entries = 4294967295"),
            (Geometry { send_bytes: 0, ..d }, "send_bytes = 0"),
            (Geometry { send_bytes: 5000, ..d }, "send_bytes = 5000"),
            (Geometry { recv_bytes: (1 << 30) + 4096, ..d }, "recv_bytes = 1073745920"),
        ] {
            let text = g.check().unwrap_err().to_string();
            assert!(text.starts_with(want), "{text}");
            assert_eq!(g.total_bytes(), Err(g.check().unwrap_err()));
        }
    }

    #[test]
    fn header_bytes() {
        let g = Geometry { sq_entries: 0x10, cq_entries: 0x20, send_bytes: 0x3000, recv_bytes: 0x4000 };
        let mut header = g.header();
        assert_eq!(&header[..8], b"barewire");
        if cfg!(target_endian = "little") {
            assert_eq!(header[8..], [3, 0, 0, 0, 16, 0, 0, 0, 32, 0, 0, 0, 0, 0x30, 0, 0, 0, 0x40, 0, 0]);
        }
        assert_eq!(Geometry::from_header(&header).unwrap(), g);
        header[8..12].copy_from_slice(&7u32.to_ne_bytes());
        assert!(matches!(Geometry::from_header(&header), Err(ChannelError::Version { theirs: 7 })));
        header[0] ^= 1;
        assert!(matches!(Geometry::from_header(&header), Err(ChannelError::BadMagic)));
    }
}
