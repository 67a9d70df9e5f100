//! The base transport header (section 9.2).

use super::{MASK_24, Opcode};
use crate::Error;
use crate::field::{put, u8_at, u16_at, u32_at, view};

/// Where the fields are.
mod at {
    pub const OPCODE: usize = 0;
    pub const FLAGS: usize = 1;
    pub const PKEY: usize = 2;
    pub const DST_QPN: usize = 4;
    pub const PSN: usize = 8;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 12;

const SOLICITED: u8 = 0x80;
const MIGRATED: u8 = 0x40;
const FECN: u32 = 0x8000_0000;
const BECN: u32 = 0x4000_0000;
const ACK_REQUEST: u32 = 0x8000_0000;

view! {
    /// A base transport header and what follows it.
    Packet, min HEADER_LEN
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// `Truncated` when the header is not whole.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        self.check_min()
    }

    /// The opcode.
    #[inline]
    pub fn opcode(&self) -> Opcode {
        Opcode(u8_at(self.data(), at::OPCODE))
    }

    /// The version of the transport header; only 0 is defined.
    #[inline]
    pub fn version(&self) -> u8 {
        u8_at(self.data(), at::FLAGS) & 0x0f
    }

    /// Whether the receiver is to be woken (solicited event).
    #[inline]
    pub fn solicited(&self) -> bool {
        u8_at(self.data(), at::FLAGS) & SOLICITED != 0
    }

    /// The migration state bit. Software sends 0, some hardware 1 and checks it.
    #[inline]
    pub fn migrated(&self) -> bool {
        u8_at(self.data(), at::FLAGS) & MIGRATED != 0
    }

    /// Bytes of padding behind the payload, 0 to 3.
    #[inline]
    pub fn pad(&self) -> u8 {
        (u8_at(self.data(), at::FLAGS) >> 4) & 3
    }

    /// The partition key.
    #[inline]
    pub fn pkey(&self) -> u16 {
        u16_at(self.data(), at::PKEY)
    }

    /// Forward congestion notification.
    #[inline]
    pub fn fecn(&self) -> bool {
        u32_at(self.data(), at::DST_QPN) & FECN != 0
    }

    /// Backward congestion notification.
    #[inline]
    pub fn becn(&self) -> bool {
        u32_at(self.data(), at::DST_QPN) & BECN != 0
    }

    /// The queue pair it is for.
    #[inline]
    pub fn dst_qpn(&self) -> u32 {
        u32_at(self.data(), at::DST_QPN) & MASK_24
    }

    /// Whether the sender asks for an acknowledgement.
    #[inline]
    pub fn ack_request(&self) -> bool {
        u32_at(self.data(), at::PSN) & ACK_REQUEST != 0
    }

    /// The packet sequence number.
    #[inline]
    pub fn psn(&self) -> u32 {
        u32_at(self.data(), at::PSN) & MASK_24
    }
}

/// A base transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// The opcode.
    pub opcode: Opcode,
    /// Whether the receiver is to be woken.
    pub solicited: bool,
    /// The migration state bit.
    pub migrated: bool,
    /// Bytes of padding, 0 to 3.
    pub pad: u8,
    /// The partition key.
    pub pkey: u16,
    /// Forward congestion notification.
    pub fecn: bool,
    /// Backward congestion notification.
    pub becn: bool,
    /// The queue pair it is for, 24 bits.
    pub dst_qpn: u32,
    /// Whether the sender asks for an acknowledgement.
    pub ack_request: bool,
    /// The packet sequence number, 24 bits.
    pub psn: u32,
}

impl Repr {
    /// Reads a header. Reserved bits are ignored.
    ///
    /// # Errors
    /// `Truncated`; `Unsupported` for a version other than 0.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Result<Repr, Error> {
        packet.check()?;
        if packet.version() != 0 {
            return Err(Error::Unsupported);
        }
        Ok(Repr {
            opcode: packet.opcode(),
            solicited: packet.solicited(),
            migrated: packet.migrated(),
            pad: packet.pad(),
            pkey: packet.pkey(),
            fecn: packet.fecn(),
            becn: packet.becn(),
            dst_qpn: packet.dst_qpn(),
            ack_request: packet.ack_request(),
            psn: packet.psn(),
        })
    }

    /// The header in its three words, as they stand in a packet read big-endian.
    #[inline]
    pub const fn to_words(&self) -> [u32; 3] {
        let flags = (self.solicited as u32) << 7 | (self.migrated as u32) << 6 | (self.pad as u32 & 3) << 4;
        [
            (self.opcode.0 as u32) << 24 | flags << 16 | self.pkey as u32,
            (if self.fecn { FECN } else { 0 }) | (if self.becn { BECN } else { 0 }) | self.dst_qpn & MASK_24,
            (if self.ack_request { ACK_REQUEST } else { 0 }) | self.psn & MASK_24,
        ]
    }

    /// Writes the header.
    #[inline]
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, packet: &mut Packet<T>) {
        for (i, word) in self.to_words().into_iter().enumerate() {
            put(packet.data_mut(), 4 * i, word.to_be_bytes());
        }
    }
}
