//! REQ and REP: the two messages that carry a connection's terms.

use super::Path;
use crate::field::{array, put, u8_at, u16_at, u32_at};

fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(b, at))
}

/// A request for a connection (section 12.6.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Req<'a> {
    /// The sender's communication id.
    pub local_id: u32,
    /// What it wants to talk to.
    pub service_id: u64,
    /// GUID of the sender's adapter.
    pub guid: u64,
    /// Queue key of the sender's queue pair; 0 for a reliable connection.
    pub qkey: u32,
    /// The sender's queue pair, 24 bits.
    pub qpn: u32,
    /// Reads and atomics that the sender will answer at once.
    pub responder_resources: u8,
    /// The sender's end-to-end context, 24 bits; 0.
    pub eecn: u32,
    /// Reads and atomics that the sender wants to have outstanding.
    pub initiator_depth: u8,
    /// The receiver's end-to-end context, 24 bits; 0.
    pub remote_eecn: u32,
    /// How soon the receiver is expected to answer, code of 5 bits.
    pub remote_response_timeout: u8,
    /// The service: 0 is a reliable connection.
    pub transport: u8,
    /// Whether the sender's queue pair gives credits.
    pub flow_control: bool,
    /// The sequence number with which the *receiver of this message* starts to send, 24 bits.
    pub starting_psn: u32,
    /// How soon the sender will answer, code of 5 bits.
    pub local_response_timeout: u8,
    /// Retries of a request, 3 bits.
    pub retry_count: u8,
    /// The partition key.
    pub pkey: u16,
    /// Path MTU code: 1 to 5 for 256 to 4096 bytes, 4 bits.
    pub path_mtu: u8,
    /// Whether a reliable-datagram channel exists; unused.
    pub rdc_exists: bool,
    /// Retries after receiver-not-ready, 3 bits; 7 is for ever.
    pub rnr_retry_count: u8,
    /// Retries of messages of the connection manager, 4 bits.
    pub max_cm_retries: u8,
    /// Whether the sender's queue pair uses a shared receive queue.
    pub srq: bool,
    /// Extended transport type, 3 bits.
    pub extended_transport: u8,
    /// The path.
    pub primary: Path,
    /// An alternate path; all zero for none.
    pub alternate: Path,
    /// The consumer's own data.
    pub private: &'a [u8; Req::PRIVATE_LEN],
}

impl<'a> Req<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 92;
    /// Where the private data starts, behind the header of the management datagram.
    pub const PRIVATE_AT: usize = 140;

    pub(super) fn parse(b: &'a [u8]) -> Option<Req<'a>> {
        let at32 = |at| u32_at(b, at);
        let (qpn, eecn, remote, psn) = (at32(32), at32(36), at32(40), at32(44));
        let (mtu, retries) = (u8_at(b, 50), u8_at(b, 51));
        Some(Req {
            local_id: at32(0),
            service_id: u64_at(b, 8),
            guid: u64_at(b, 16),
            qkey: at32(28),
            qpn: qpn >> 8,
            responder_resources: qpn as u8,
            eecn: eecn >> 8,
            initiator_depth: eecn as u8,
            remote_eecn: remote >> 8,
            remote_response_timeout: (remote as u8) >> 3,
            transport: (remote as u8 >> 1) & 3,
            flow_control: remote & 1 != 0,
            starting_psn: psn >> 8,
            local_response_timeout: (psn as u8) >> 3,
            retry_count: psn as u8 & 7,
            pkey: u16_at(b, 48),
            path_mtu: mtu >> 4,
            rdc_exists: mtu & 8 != 0,
            rnr_retry_count: mtu & 7,
            max_cm_retries: retries >> 4,
            srq: retries & 8 != 0,
            extended_transport: retries & 7,
            primary: Path::parse(b.get(52..96)?),
            alternate: Path::parse(b.get(96..140)?),
            private: b.get(Req::PRIVATE_AT..)?.first_chunk()?,
        })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        let mut word = |at: usize, value: u32| put(b, at, value.to_be_bytes());
        let low = |timeout: u8, rest: u8| u32::from(timeout << 3 | rest & 7);
        word(0, self.local_id);
        word(28, self.qkey);
        word(32, self.qpn << 8 | u32::from(self.responder_resources));
        word(36, self.eecn << 8 | u32::from(self.initiator_depth));
        let transport = (self.transport & 3) << 1 | u8::from(self.flow_control);
        word(40, self.remote_eecn << 8 | low(self.remote_response_timeout, transport));
        word(44, self.starting_psn << 8 | low(self.local_response_timeout, self.retry_count));
        put(b, 8, self.service_id.to_be_bytes());
        put(b, 16, self.guid.to_be_bytes());
        put(b, 48, self.pkey.to_be_bytes());
        put(b, 50, [self.path_mtu << 4 | u8::from(self.rdc_exists) << 3 | self.rnr_retry_count & 7]);
        put(b, 51, [self.max_cm_retries << 4 | u8::from(self.srq) << 3 | self.extended_transport & 7]);
        for (at, path) in [(52, &self.primary), (96, &self.alternate)] {
            if let Some(place) = b.get_mut(at..at + Path::LEN) {
                path.emit(place);
            }
        }
        put(b, Req::PRIVATE_AT, *self.private);
    }
}

/// The answer that accepts a request (section 12.6.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rep<'a> {
    /// The sender's communication id.
    pub local_id: u32,
    /// The receiver's.
    pub remote_id: u32,
    /// Queue key of the sender's queue pair; 0 for a reliable connection.
    pub qkey: u32,
    /// The sender's queue pair, 24 bits.
    pub qpn: u32,
    /// The sender's end-to-end context, 24 bits; 0.
    pub eecn: u32,
    /// The sequence number with which the *receiver of this message* starts to send, 24 bits.
    pub starting_psn: u32,
    /// Reads and atomics that the sender will answer at once.
    pub responder_resources: u8,
    /// Reads and atomics that the sender wants to have outstanding.
    pub initiator_depth: u8,
    /// How late the sender's acknowledgements may be, code of 5 bits.
    pub ack_delay: u8,
    /// Whether the alternate path was taken, 2 bits.
    pub failover: u8,
    /// Whether the sender's queue pair gives credits.
    pub flow_control: bool,
    /// Retries after receiver-not-ready, 3 bits; 7 is for ever.
    pub rnr_retry_count: u8,
    /// Whether the sender's queue pair uses a shared receive queue.
    pub srq: bool,
    /// GUID of the sender's adapter.
    pub guid: u64,
    /// The consumer's own data.
    pub private: &'a [u8; Rep::PRIVATE_LEN],
}

impl<'a> Rep<'a> {
    /// Bytes of private data.
    pub const PRIVATE_LEN: usize = 196;
    /// Where the private data starts, behind the header of the management datagram.
    pub const PRIVATE_AT: usize = 36;

    pub(super) fn parse(b: &'a [u8]) -> Option<Rep<'a>> {
        let (flags, rnr) = (u8_at(b, 26), u8_at(b, 27));
        Some(Rep {
            local_id: u32_at(b, 0),
            remote_id: u32_at(b, 4),
            qkey: u32_at(b, 8),
            qpn: u32_at(b, 12) >> 8,
            eecn: u32_at(b, 16) >> 8,
            starting_psn: u32_at(b, 20) >> 8,
            responder_resources: u8_at(b, 24),
            initiator_depth: u8_at(b, 25),
            ack_delay: flags >> 3,
            failover: (flags >> 1) & 3,
            flow_control: flags & 1 != 0,
            rnr_retry_count: rnr >> 5,
            srq: rnr & 0x10 != 0,
            guid: u64_at(b, 28),
            private: b.get(Rep::PRIVATE_AT..)?.first_chunk()?,
        })
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        let mut word = |at: usize, value: u32| put(b, at, value.to_be_bytes());
        word(0, self.local_id);
        word(4, self.remote_id);
        word(8, self.qkey);
        word(12, self.qpn << 8);
        word(16, self.eecn << 8);
        word(20, self.starting_psn << 8);
        let flags = self.ack_delay << 3 | (self.failover & 3) << 1 | u8::from(self.flow_control);
        let rnr = self.rnr_retry_count << 5 | u8::from(self.srq) << 4;
        put(b, 24, [self.responder_resources, self.initiator_depth, flags, rnr]);
        put(b, 28, self.guid.to_be_bytes());
        put(b, Rep::PRIVATE_AT, *self.private);
    }
}
