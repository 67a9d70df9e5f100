//! Extended transport headers (section 9.3). Each parses from the bytes at its place and emits to them.

use super::MASK_24;
use crate::field::put;
use core::fmt;

fn be32(bytes: &[u8], at: usize) -> u32 {
    crate::field::u32_at(bytes, at)
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(crate::field::array(bytes, at))
}

/// RDMA extended header: where the bytes of a write go, or those of a read come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reth {
    /// The address in the memory region's own space.
    pub addr: u64,
    /// The key of the region.
    pub rkey: u32,
    /// Bytes of the whole operation.
    pub len: u32,
}

impl Reth {
    /// Bytes of the header.
    pub const LEN: usize = 16;

    /// Reads the header; `None` when it is not whole.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Reth> {
        let bytes = bytes.get(..Self::LEN)?;
        Some(Reth { addr: be64(bytes, 0), rkey: be32(bytes, 8), len: be32(bytes, 12) })
    }

    /// Writes the header.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) {
        put(out, 0, self.addr.to_be_bytes());
        put(out, 8, self.rkey.to_be_bytes());
        put(out, 12, self.len.to_be_bytes());
    }
}

/// Atomic extended header: 64 bits at an address and what to do with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Atomic {
    /// The address, a multiple of 8.
    pub addr: u64,
    /// The key of the region.
    pub rkey: u32,
    /// What to swap in, or to add.
    pub swap_add: u64,
    /// What to compare with.
    pub compare: u64,
}

impl Atomic {
    /// Bytes of the header.
    pub const LEN: usize = 28;

    /// Reads the header; `None` when it is not whole.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Atomic> {
        let bytes = bytes.get(..Self::LEN)?;
        Some(Atomic {
            addr: be64(bytes, 0),
            rkey: be32(bytes, 8),
            swap_add: be64(bytes, 12),
            compare: be64(bytes, 20),
        })
    }

    /// Writes the header.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) {
        put(out, 0, self.addr.to_be_bytes());
        put(out, 8, self.rkey.to_be_bytes());
        put(out, 12, self.swap_add.to_be_bytes());
        put(out, 20, self.compare.to_be_bytes());
    }
}

/// The syndrome of an acknowledgement (tables 43 and 44). Any value can be held; [`kind`](Self::kind) says what it means.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Syndrome(pub u8);

/// What a syndrome means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckKind {
    /// Accepted; the credit count code, 31 for none.
    Ack {
        /// The code.
        credits: u8,
    },
    /// The receiver has no receive request; try again after the time of this code.
    ReceiverNotReady {
        /// The code, for [`rnr_timer_ns`](super::rnr_timer_ns).
        timer: u8,
    },
    /// A packet is missing: send again from this sequence number.
    SequenceError,
    /// The request cannot be one of this queue pair's.
    InvalidRequest,
    /// The key, the bounds or the permissions refuse it.
    RemoteAccess,
    /// The responder failed on its own.
    RemoteOperation,
    /// Values without a meaning for this service.
    Reserved,
}

impl Syndrome {
    /// Accepted, without credits.
    pub const ACK: Syndrome = Syndrome(0x1f);
    /// A packet is missing.
    pub const SEQUENCE_ERROR: Syndrome = Syndrome(0x60);
    /// The request cannot be one of this queue pair's.
    pub const INVALID_REQUEST: Syndrome = Syndrome(0x61);
    /// The key, the bounds or the permissions refuse it.
    pub const REMOTE_ACCESS: Syndrome = Syndrome(0x62);
    /// The responder failed on its own.
    pub const REMOTE_OPERATION: Syndrome = Syndrome(0x63);

    /// No receive request; try again after the time of `timer` (5 bits).
    pub const fn receiver_not_ready(timer: u8) -> Syndrome {
        Syndrome(0x20 | (timer & 31))
    }

    /// What it means.
    #[inline]
    pub const fn kind(self) -> AckKind {
        match self.0 >> 5 {
            0 => AckKind::Ack { credits: self.0 & 31 },
            1 => AckKind::ReceiverNotReady { timer: self.0 & 31 },
            3 => match self.0 & 31 {
                0 => AckKind::SequenceError,
                1 => AckKind::InvalidRequest,
                2 => AckKind::RemoteAccess,
                3 => AckKind::RemoteOperation,
                _ => AckKind::Reserved,
            },
            _ => AckKind::Reserved,
        }
    }
}

impl fmt::Debug for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x} {:?}", self.0, self.kind())
    }
}

/// ACK extended header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// Accepted or not.
    pub syndrome: Syndrome,
    /// Messages completed by the responder, 24 bits.
    pub msn: u32,
}

impl Aeth {
    /// Bytes of the header.
    pub const LEN: usize = 4;

    /// Reads the header; `None` when it is not whole.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Aeth> {
        let word = be32(bytes.get(..Self::LEN)?, 0);
        Some(Aeth { syndrome: Syndrome((word >> 24) as u8), msn: word & MASK_24 })
    }

    /// Writes the header.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) {
        put(out, 0, (u32::from(self.syndrome.0) << 24 | self.msn & MASK_24).to_be_bytes());
    }
}

/// Datagram extended header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deth {
    /// The queue key that the receiver must have.
    pub qkey: u32,
    /// Who sends, 24 bits.
    pub src_qpn: u32,
}

impl Deth {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// Reads the header; `None` when it is not whole.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Deth> {
        let bytes = bytes.get(..Self::LEN)?;
        Some(Deth { qkey: be32(bytes, 0), src_qpn: be32(bytes, 4) & MASK_24 })
    }

    /// Writes the header.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) {
        put(out, 0, self.qkey.to_be_bytes());
        put(out, 4, (self.src_qpn & MASK_24).to_be_bytes());
    }
}

/// Writes immediate data, or a key to invalidate: one word.
#[inline]
pub fn emit_word(word: u32, out: &mut [u8]) {
    put(out, 0, word.to_be_bytes());
}

/// Writes the value before an atomic operation.
#[inline]
pub fn emit_atomic_ack(value: u64, out: &mut [u8]) {
    put(out, 0, value.to_be_bytes());
}
