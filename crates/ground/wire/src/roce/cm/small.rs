//! RTU, REJ, MRA, DREQ and DREP.

use crate::field::{array, put, u8_at, u16_at, u32_at};

/// The connection is ready to use (section 12.6.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rtu<'a> {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The consumer's own data.
    pub private: &'a [u8; Rtu::PRIVATE_LEN],
}

impl<'a> Rtu<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 224;

    pub(super) fn parse(b: &'a [u8]) -> Option<Rtu<'a>> {
        Some(Rtu { local_id: u32_at(b, 0), remote_id: u32_at(b, 4), private: b.get(8..)?.first_chunk()? })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        put(b, 0, self.local_id.to_be_bytes());
        put(b, 4, self.remote_id.to_be_bytes());
        put(b, 8, *self.private);
    }
}

/// Which message a REJ or an MRA is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Rejected {
    /// A REQ.
    Req = 0,
    /// A REP.
    Rep = 1,
    /// In a REJ none of the others (a time-out, say), in an MRA a LAP.
    Other = 2,
    /// Not defined.
    Reserved = 3,
}

impl Rejected {
    fn from_bits(bits: u8) -> Rejected {
        match bits & 3 {
            0 => Rejected::Req,
            1 => Rejected::Rep,
            2 => Rejected::Other,
            _ => Rejected::Reserved,
        }
    }
}

/// Why a connection was refused (table 108). Any value can be held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct RejReason(pub u16);

impl RejReason {
    /// No queue pair to spare.
    pub const NO_QP: RejReason = RejReason(1);
    /// No memory or no place.
    pub const NO_RESOURCES: RejReason = RejReason(3);
    /// No answer in time.
    pub const TIMEOUT: RejReason = RejReason(4);
    /// A request of a kind that is not supported.
    pub const UNSUPPORTED: RejReason = RejReason(5);
    /// The communication id is not known.
    pub const INVALID_ID: RejReason = RejReason(6);
    /// Nobody listens on the service id.
    pub const INVALID_SERVICE: RejReason = RejReason(8);
    /// The service type is not supported.
    pub const INVALID_TRANSPORT: RejReason = RejReason(9);
    /// The queue pair is still connected as far as the sender knows.
    pub const STALE: RejReason = RejReason(10);
    /// The path MTU is not supported.
    pub const INVALID_MTU: RejReason = RejReason(26);
    /// The consumer said no.
    pub const CONSUMER: RejReason = RejReason(28);

    /// The reason as a sentence without its full stop.
    pub const fn as_str(self) -> &'static str {
        match self.0 {
            1 => "no queue pair to spare",
            3 => "no resources",
            4 => "no answer in time",
            5 => "unsupported request",
            6 => "unknown communication id",
            8 => "nobody listens on that service id",
            9 => "unsupported transport service",
            10 => "stale connection",
            26 => "unsupported path MTU",
            28 => "refused by the consumer",
            _ => "refused for another reason",
        }
    }
}

/// A refusal (section 12.6.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rej<'a> {
    /// The sender's communication id; 0 when it has none.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// What is refused.
    pub rejected: Rejected,
    /// Valid bytes of `info`, 7 bits.
    pub info_len: u8,
    /// Why.
    pub reason: RejReason,
    /// What would have been accepted, for some reasons.
    pub info: [u8; 72],
    /// The consumer's own data.
    pub private: &'a [u8; Rej::PRIVATE_LEN],
}

impl<'a> Rej<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 148;

    pub(super) fn parse(b: &'a [u8]) -> Option<Rej<'a>> {
        Some(Rej {
            local_id: u32_at(b, 0),
            remote_id: u32_at(b, 4),
            rejected: Rejected::from_bits(u8_at(b, 8) >> 6),
            info_len: u8_at(b, 9) >> 1,
            reason: RejReason(u16_at(b, 10)),
            info: array(b, 12),
            private: b.get(84..)?.first_chunk()?,
        })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        put(b, 0, self.local_id.to_be_bytes());
        put(b, 4, self.remote_id.to_be_bytes());
        put(b, 8, [(self.rejected as u8) << 6, self.info_len << 1]);
        put(b, 10, self.reason.0.to_be_bytes());
        put(b, 12, self.info);
        put(b, 84, *self.private);
    }
}

/// The message arrived, the answer will take longer (section 12.6.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mra<'a> {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// What has arrived.
    pub received: Rejected,
    /// How long it will take, code of 5 bits.
    pub service_timeout: u8,
    /// The consumer's own data.
    pub private: &'a [u8; Mra::PRIVATE_LEN],
}

impl<'a> Mra<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 222;

    pub(super) fn parse(b: &'a [u8]) -> Option<Mra<'a>> {
        Some(Mra {
            local_id: u32_at(b, 0),
            remote_id: u32_at(b, 4),
            received: Rejected::from_bits(u8_at(b, 8) >> 6),
            service_timeout: u8_at(b, 9) >> 3,
            private: b.get(10..)?.first_chunk()?,
        })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        put(b, 0, self.local_id.to_be_bytes());
        put(b, 4, self.remote_id.to_be_bytes());
        put(b, 8, [(self.received as u8) << 6, self.service_timeout << 3]);
        put(b, 10, *self.private);
    }
}

/// A request to end a connection (section 12.6.10).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dreq<'a> {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The receiver's queue pair, 24 bits.
    pub remote_qpn: u32,
    /// The consumer's own data.
    pub private: &'a [u8; Dreq::PRIVATE_LEN],
}

impl<'a> Dreq<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 220;

    pub(super) fn parse(b: &'a [u8]) -> Option<Dreq<'a>> {
        Some(Dreq {
            local_id: u32_at(b, 0),
            remote_id: u32_at(b, 4),
            remote_qpn: u32_at(b, 8) >> 8,
            private: b.get(12..)?.first_chunk()?,
        })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        put(b, 0, self.local_id.to_be_bytes());
        put(b, 4, self.remote_id.to_be_bytes());
        put(b, 8, (self.remote_qpn << 8).to_be_bytes());
        put(b, 12, *self.private);
    }
}

/// The answer to a DREQ (section 12.6.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drep<'a> {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// The consumer's own data.
    pub private: &'a [u8; Drep::PRIVATE_LEN],
}

impl<'a> Drep<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 224;

    pub(super) fn parse(b: &'a [u8]) -> Option<Drep<'a>> {
        Some(Drep { local_id: u32_at(b, 0), remote_id: u32_at(b, 4), private: b.get(8..)?.first_chunk()? })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        put(b, 0, self.local_id.to_be_bytes());
        put(b, 4, self.remote_id.to_be_bytes());
        put(b, 8, *self.private);
    }
}
