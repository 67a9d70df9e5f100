//! A path as REQ and LAP describe it.

use crate::field::{array, put, u8_at, u16_at, u32_at};

/// One path between two ports. On RoCE the LIDs are 0xffff (permissive) and the GIDs are IP addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// LID of the message's sender.
    pub local_lid: u16,
    /// LID of its receiver.
    pub remote_lid: u16,
    /// GID of the message's sender.
    pub local_gid: [u8; 16],
    /// GID of its receiver.
    pub remote_gid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Packet rate code, 6 bits.
    pub rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub service_level: u8,
    /// Whether both ends are in one subnet.
    pub subnet_local: bool,
    /// Local ACK time-out, code of 5 bits.
    pub ack_timeout: u8,
}

impl Path {
    pub(super) const LEN: usize = 44;

    pub(super) fn parse(b: &[u8]) -> Path {
        let flow = u32_at(b, 36);
        Path {
            local_lid: u16_at(b, 0),
            remote_lid: u16_at(b, 2),
            local_gid: array(b, 4),
            remote_gid: array(b, 20),
            flow_label: flow >> 12,
            rate: flow as u8 & 0x3f,
            traffic_class: u8_at(b, 40),
            hop_limit: u8_at(b, 41),
            service_level: u8_at(b, 42) >> 4,
            subnet_local: u8_at(b, 42) & 0x08 != 0,
            ack_timeout: u8_at(b, 43) >> 3,
        }
    }

    pub(super) fn emit(&self, b: &mut [u8]) {
        put(b, 0, self.local_lid.to_be_bytes());
        put(b, 2, self.remote_lid.to_be_bytes());
        put(b, 4, self.local_gid);
        put(b, 20, self.remote_gid);
        put(b, 36, (self.flow_label << 12 | u32::from(self.rate & 0x3f)).to_be_bytes());
        put(b, 40, [self.traffic_class, self.hop_limit]);
        put(b, 42, [self.service_level << 4 | u8::from(self.subnet_local) << 3, self.ack_timeout << 3]);
    }

    /// The same in the layout of a LAP, which differs behind the GIDs.
    pub(super) fn parse_lap(b: &[u8]) -> Path {
        let flow = u32_at(b, 36);
        Path {
            local_lid: u16_at(b, 0),
            remote_lid: u16_at(b, 2),
            local_gid: array(b, 4),
            remote_gid: array(b, 20),
            flow_label: flow >> 12,
            traffic_class: flow as u8,
            hop_limit: u8_at(b, 40),
            rate: u8_at(b, 41) & 0x3f,
            service_level: u8_at(b, 42) >> 4,
            subnet_local: u8_at(b, 42) & 0x08 != 0,
            ack_timeout: u8_at(b, 43) >> 3,
        }
    }

    pub(super) fn emit_lap(&self, b: &mut [u8]) {
        self.emit(b);
        put(b, 36, (self.flow_label << 12 | u32::from(self.traffic_class)).to_be_bytes());
        put(b, 40, [self.hop_limit, self.rate & 0x3f]);
    }
}
