//! RoCEv2: InfiniBand transport headers in UDP (InfiniBand Architecture Specification volume 1, chapter 9; RoCEv2 is its
//! annex A17), and the management datagrams of the connection manager (chapters 12 and 13).
//!
//! ```text
//! Ethernet [VLAN] IPv4|IPv6 UDP(4791) | BTH 12 | extended headers | payload | pad 0-3 | ICRC 4
//! ```
//!
//! Which extended headers follow is a property of the [`Opcode`]; [`Segment::parse`] takes a UDP payload apart by it.
//! The [`icrc`] covers IP header to padding, so it has functions of its own.

pub mod bth;
pub mod cm;
pub mod ext;
pub mod icrc;
pub mod mad;
mod opcode;
pub mod rdma_cm;

pub use opcode::{Headers, Opcode, Operation, Position, Shape};

use crate::Error;

/// The UDP destination port of RoCEv2.
pub const UDP_PORT: u16 = 4791;
/// Bytes of the invariant CRC behind every packet.
pub const ICRC_LEN: usize = 4;
/// The default partition key, full member.
pub const PKEY_DEFAULT: u16 = 0xffff;
/// The queue key of queue pair 1.
pub const QKEY_GSI: u32 = 0x8001_0000;
/// The queue pair that management datagrams are for.
pub const QPN_GSI: u32 = 1;
/// Queue pair numbers and packet sequence numbers have 24 bits.
pub const MASK_24: u32 = 0x00ff_ffff;
/// Bytes of the reserved field behind the BTH of a congestion notification.
pub const CNP_RESERVED_LEN: usize = 16;

/// A UDP payload taken apart. Lengths agree; whether the operation makes sense is the queue pair's business.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    /// The base transport header.
    pub bth: bth::Repr,
    /// What its opcode means.
    pub shape: &'static Shape,
    /// The extended headers, of [`Shape::ext_len`] bytes.
    pub ext: &'a [u8],
    /// The payload without its padding.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Takes the payload of a UDP datagram (ICRC included, not checked) apart. An opcode that is not defined is refused
    /// before any length is looked at.
    ///
    /// # Errors
    /// `Truncated`, `Unsupported` (opcode, version), `Malformed` (padding longer than the payload).
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Segment<'a>, Error> {
        let header = bth::Packet::new_checked(datagram)?;
        let bth = bth::Repr::parse(&header)?;
        let shape = bth.opcode.shape().ok_or(Error::Unsupported)?;
        let rest = datagram.get(bth::HEADER_LEN..).unwrap_or(&[]);
        let (ext, rest) = rest.split_at_checked(shape.ext_len()).ok_or(Error::Truncated)?;
        let body = rest.len().checked_sub(ICRC_LEN).ok_or(Error::Truncated)?;
        let payload = body.checked_sub(usize::from(bth.pad)).ok_or(Error::Malformed)?;
        Ok(Segment { bth, shape, ext, payload: rest.get(..payload).unwrap_or(&[]) })
    }

    /// The RDMA extended header, when the opcode has one.
    #[inline]
    pub fn reth(&self) -> Option<ext::Reth> {
        ext::Reth::parse(self.part(Headers::RETH)?)
    }

    /// The ACK extended header, when the opcode has one.
    #[inline]
    pub fn aeth(&self) -> Option<ext::Aeth> {
        ext::Aeth::parse(self.part(Headers::AETH)?)
    }

    /// The atomic extended header, when the opcode has one.
    #[inline]
    pub fn atomic(&self) -> Option<ext::Atomic> {
        ext::Atomic::parse(self.part(Headers::ATOMIC)?)
    }

    /// The value before the atomic operation, when the opcode carries one.
    #[inline]
    pub fn atomic_ack(&self) -> Option<u64> {
        self.part(Headers::ATOMIC_ACK)?.first_chunk().map(|b| u64::from_be_bytes(*b))
    }

    /// The immediate data, when the opcode carries it.
    #[inline]
    pub fn immediate(&self) -> Option<u32> {
        self.part(Headers::IMM)?.first_chunk().map(|b| u32::from_be_bytes(*b))
    }

    /// The key to invalidate, when the opcode carries one.
    #[inline]
    pub fn invalidate(&self) -> Option<u32> {
        self.part(Headers::IETH)?.first_chunk().map(|b| u32::from_be_bytes(*b))
    }

    /// The datagram extended header, when the opcode has one.
    #[inline]
    pub fn deth(&self) -> Option<ext::Deth> {
        ext::Deth::parse(self.part(Headers::DETH)?)
    }

    #[inline]
    fn part(&self, header: Headers) -> Option<&'a [u8]> {
        self.ext.get(self.shape.headers.offset_of(header)?..)
    }
}

/// The duration that the 5-bit code of a receiver-not-ready NAK stands for, in nanoseconds (table 45).
pub const fn rnr_timer_ns(code: u8) -> u64 {
    const HUNDREDTHS_MS: [u32; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536,
        2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    HUNDREDTHS_MS[(code & 31) as usize] as u64 * 10_000
}

/// The duration of a 5-bit time-out code, 4.096 us * 2^code, in nanoseconds; code 0 means none (section 9.7.6.1.3).
pub const fn timeout_ns(code: u8) -> Option<u64> {
    match code & 31 {
        0 => None,
        code => Some(4_096 << code),
    }
}

/// The smallest 5-bit code whose duration is at least `ns`, at most 31.
pub const fn timeout_code(ns: u64) -> u8 {
    let mut code = 0;
    while code < 31 && (4_096u64 << code) < ns {
        code += 1;
    }
    code
}

#[cfg(test)]
mod tests;
