//! LAP and APR (alternate paths), and the resolution of services to datagram queue pairs.

use super::Path;
use crate::field::{array, put, u8_at, u16_at, u32_at};

/// Offers an alternate path (section 12.8.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lap<'a> {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The receiver's queue pair, 24 bits.
    pub remote_qpn: u32,
    /// How soon the receiver is expected to answer, code of 5 bits.
    pub remote_response_timeout: u8,
    /// The path offered.
    pub alternate: Path,
    /// The consumer's own data.
    pub private: &'a [u8; Lap::PRIVATE_LEN],
}

impl<'a> Lap<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 168;

    pub(super) fn parse(b: &'a [u8]) -> Option<Lap<'a>> {
        let qpn = u32_at(b, 12);
        Some(Lap {
            local_id: u32_at(b, 0),
            remote_id: u32_at(b, 4),
            remote_qpn: qpn >> 8,
            remote_response_timeout: qpn as u8 >> 3,
            alternate: Path::parse_lap(b.get(20..64)?),
            private: b.get(64..)?.first_chunk()?,
        })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        put(b, 0, self.local_id.to_be_bytes());
        put(b, 4, self.remote_id.to_be_bytes());
        put(b, 12, (self.remote_qpn << 8 | u32::from(self.remote_response_timeout << 3)).to_be_bytes());
        if let Some(place) = b.get_mut(20..20 + Path::LEN) {
            self.alternate.emit_lap(place);
        }
        put(b, 64, *self.private);
    }
}

/// Answers a LAP (section 12.8.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Apr<'a> {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// Valid bytes of `info`.
    pub info_len: u8,
    /// 0 for accepted.
    pub status: u8,
    /// What would have been accepted, for some statuses.
    pub info: [u8; 72],
    /// The consumer's own data.
    pub private: &'a [u8; Apr::PRIVATE_LEN],
}

impl<'a> Apr<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 148;

    pub(super) fn parse(b: &'a [u8]) -> Option<Apr<'a>> {
        Some(Apr {
            local_id: u32_at(b, 0),
            remote_id: u32_at(b, 4),
            info_len: u8_at(b, 8),
            status: u8_at(b, 9),
            info: array(b, 12),
            private: b.get(84..)?.first_chunk()?,
        })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        put(b, 0, self.local_id.to_be_bytes());
        put(b, 4, self.remote_id.to_be_bytes());
        put(b, 8, [self.info_len, self.status]);
        put(b, 12, self.info);
        put(b, 84, *self.private);
    }
}

/// Asks for the datagram queue pair of a service (section 12.11.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrReq<'a> {
    /// The sender's number for the request.
    pub request_id: u32,
    /// The partition key.
    pub pkey: u16,
    /// The service.
    pub service_id: u64,
    /// The consumer's own data.
    pub private: &'a [u8; SidrReq::PRIVATE_LEN],
}

impl<'a> SidrReq<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 216;

    pub(super) fn parse(b: &'a [u8]) -> Option<SidrReq<'a>> {
        Some(SidrReq {
            request_id: u32_at(b, 0),
            pkey: u16_at(b, 4),
            service_id: u64::from_be_bytes(array(b, 8)),
            private: b.get(16..)?.first_chunk()?,
        })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        put(b, 0, self.request_id.to_be_bytes());
        put(b, 4, self.pkey.to_be_bytes());
        put(b, 8, self.service_id.to_be_bytes());
        put(b, 16, *self.private);
    }
}

/// Answers with the queue pair, or refuses (section 12.11.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrRep<'a> {
    /// The number of the request.
    pub request_id: u32,
    /// 0 for an answer, 1 for a service that is not known, 2 for refused by the consumer.
    pub status: u8,
    /// Valid bytes of `info`.
    pub info_len: u8,
    /// The queue pair, 24 bits.
    pub qpn: u32,
    /// The service.
    pub service_id: u64,
    /// The queue key to send with.
    pub qkey: u32,
    /// Where to ask instead, for some statuses.
    pub info: [u8; 72],
    /// The consumer's own data.
    pub private: &'a [u8; SidrRep::PRIVATE_LEN],
}

impl<'a> SidrRep<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 136;

    pub(super) fn parse(b: &'a [u8]) -> Option<SidrRep<'a>> {
        Some(SidrRep {
            request_id: u32_at(b, 0),
            status: u8_at(b, 4),
            info_len: u8_at(b, 5),
            qpn: u32_at(b, 8) >> 8,
            service_id: u64::from_be_bytes(array(b, 12)),
            qkey: u32_at(b, 20),
            info: array(b, 24),
            private: b.get(96..)?.first_chunk()?,
        })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        put(b, 0, self.request_id.to_be_bytes());
        put(b, 4, [self.status, self.info_len]);
        put(b, 8, (self.qpn << 8).to_be_bytes());
        put(b, 12, self.service_id.to_be_bytes());
        put(b, 20, self.qkey.to_be_bytes());
        put(b, 24, self.info);
        put(b, 96, *self.private);
    }
}
