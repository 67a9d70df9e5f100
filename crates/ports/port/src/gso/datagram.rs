//! A UDP datagram that may be joined with others, or stands for several.

use barewire_frame::{Burst, ChecksumState, Frame};
use barewire_wire::{Protocol, checksum};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::PACKET_MAX;

pub(super) const ETH_LEN: usize = 14;
/// Bytes of a VLAN tag, which does not count against the MTU.
pub(super) const VLAN_LEN: usize = 4;
const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const UDP_CHECK: usize = 6;
/// "Do not fragment", and what makes a fragment: more of them, or an offset.
const DONT_FRAGMENT: u8 = 0x40;
const FRAGMENT: usize = 0x3fff;

/// Where the parts of an Ethernet frame lie that is one UDP datagram, whole and without padding: over IPv4 without options, or
/// over IPv6 without extension headers, with at most one VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    l3: usize,
    l4: usize,
    /// Bytes behind the UDP header.
    pub payload: usize,
}

fn u16_at(data: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([data[at], data[at + 1]]))
}

impl Datagram {
    /// The parts of `data`; `None`: it is something else.
    pub fn parse(data: &[u8]) -> Option<Datagram> {
        let kind = |at: usize| data.get(at..at + 2);
        let (kind, l3) = match kind(ETH_LEN - 2)? {
            [0x81, 0x00] | [0x88, 0xa8] => (kind(ETH_LEN + VLAN_LEN - 2)?, ETH_LEN + VLAN_LEN),
            other => (other, ETH_LEN),
        };
        let packet = data.get(l3..)?;
        let (len, next) = match kind {
            // Without options.
            [0x08, 0x00] if packet.len() >= IPV4_LEN && packet[0] == 0x45 => {
                let is_fragment = u16_at(packet, 6) & FRAGMENT != 0;
                if packet[9] != Protocol::UDP.0 || u16_at(packet, 2) != packet.len() || is_fragment {
                    return None;
                }
                (IPV4_LEN, packet.len() - IPV4_LEN)
            }
            [0x86, 0xdd] if packet.len() >= IPV6_LEN && packet[0] >> 4 == 6 => {
                if packet[6] != Protocol::UDP.0 || u16_at(packet, 4) != packet.len() - IPV6_LEN {
                    return None;
                }
                (IPV6_LEN, packet.len() - IPV6_LEN)
            }
            _ => return None,
        };
        if next < UDP_LEN || u16_at(packet, len + 4) != next {
            return None;
        }
        Some(Datagram { l3, l4: l3 + len, payload: next - UDP_LEN })
    }

    /// The parts of a frame that may be joined with others: nothing is left to be cut, there is payload, and its checksums hold or
    /// are for others to make. One whose checksum is wrong must arrive so.
    pub fn of(frame: &Frame) -> Option<Datagram> {
        let data = frame.data();
        let found = Datagram::parse(data)?;
        if frame.gso().is_some() || found.payload == 0 || found.has_ident(data) {
            return None;
        }
        let (start, offset) = found.checksum_at();
        let ours = ChecksumState::Partial { start, offset };
        let field = u16_at(data, found.l4 + UDP_CHECK);
        let sound = match frame.checksum() {
            ChecksumState::Verified => true,
            state @ ChecksumState::Partial { .. } => state == ours,
            ChecksumState::Unknown if found.is_v4() && field == 0 => true,
            ChecksumState::Unknown => {
                field != 0
                    && checksum::is_intact(
                        found.pseudo(data, found.payload) + checksum::sum(&data[found.l4..]),
                    )
            }
        };
        let header = !found.is_v4() || checksum::is_intact(checksum::sum(&data[found.l3..found.l4]));
        (sound && header).then_some(found)
    }

    /// Bytes before the payload.
    pub fn header_len(&self) -> usize {
        self.l4 + UDP_LEN
    }

    /// Where the UDP header is, and the checksum in it: what [`ChecksumState::Partial`] wants.
    pub fn checksum_at(&self) -> (u16, u16) {
        (self.l4 as u16, UDP_CHECK as u16)
    }

    fn is_v4(&self) -> bool {
        self.l4 - self.l3 == IPV4_LEN
    }

    /// Whether this is an IPv4 packet that may be fragmented on its way, so that its identification means something: joining would
    /// lose it.
    fn has_ident(&self, data: &[u8]) -> bool {
        self.is_v4() && data[self.l3 + 6] & DONT_FRAGMENT == 0
    }

    /// Gives the piece with this number, whose headers are those of the whole, an identification of its own where it needs one.
    pub fn number(&self, data: &mut [u8], number: usize) {
        if self.has_ident(data) {
            let ident = (u16_at(data, self.l3 + 4) as u16).wrapping_add(number as u16);
            data[self.l3 + 4..self.l3 + 6].copy_from_slice(&ident.to_be_bytes());
        }
    }

    /// How many frames from the front of `burst`, whose first is this one, may become one frame.
    pub fn run(&self, burst: &Burst) -> usize {
        let mut frames = burst.iter();
        let Some(first) = frames.next().map(Frame::data) else { return 0 };
        let mut packet = first.len() - self.l3;
        let mut count = 1;
        for frame in frames {
            let Some(next) = Datagram::of(frame) else { break };
            packet += next.payload;
            if next.payload > self.payload || packet > PACKET_MAX || !self.is_like(first, &next, frame.data())
            {
                break;
            }
            count += 1;
            if next.payload < self.payload {
                // A shorter one can only be the last.
                break;
            }
        }
        count
    }

    /// Whether the headers differ in nothing but lengths, checksums and what means nothing.
    fn is_like(&self, a: &[u8], other: &Datagram, b: &[u8]) -> bool {
        let same = |from: usize, to: usize| a[from..to] == b[from..to];
        if (self.l3, self.l4) != (other.l3, other.l4) {
            return false;
        }
        let (l3, l4) = (self.l3, self.l4);
        let network = match self.is_v4() {
            // But total length, identification and checksum.
            true => same(l3, l3 + 2) && same(l3 + 6, l3 + 10) && same(l3 + 12, l4),
            // But the payload length.
            false => same(l3, l3 + 4) && same(l3 + 6, l4),
        };
        network && same(0, l3) && same(l4, l4 + 4)
    }

    fn pseudo(&self, data: &[u8], payload: usize) -> u32 {
        let len = UDP_LEN + payload;
        let addresses = |at: usize, bytes: usize| data.get(self.l3 + at..self.l3 + at + bytes);
        let v4 = |at| {
            addresses(at, 4).and_then(|b| b.first_chunk::<4>()).map_or(Ipv4Addr::UNSPECIFIED, |b| (*b).into())
        };
        let v6 = |at| {
            addresses(at, 16)
                .and_then(|b| b.first_chunk::<16>())
                .map_or(Ipv6Addr::UNSPECIFIED, |b| (*b).into())
        };
        match self.is_v4() {
            true => checksum::pseudo_v4(v4(12), v4(16), Protocol::UDP.0, len as u16),
            false => checksum::pseudo_v6(v6(8), v6(24), Protocol::UDP.0, len as u32),
        }
    }

    /// Writes the headers of `data` for `payload` bytes: lengths, the IPv4 checksum, and for UDP the sum from which its checksum goes on.
    pub fn resize(&self, data: &mut [u8], payload: usize) {
        let pseudo = checksum::fold(self.pseudo(data, payload));
        let udp_len = (UDP_LEN + payload) as u16;
        let (l3, l4) = (self.l3, self.l4);
        if self.is_v4() {
            data[l3 + 2..l3 + 4].copy_from_slice(&(udp_len + IPV4_LEN as u16).to_be_bytes());
            data[l3 + 10..l3 + 12].fill(0);
            let check = checksum::finish(checksum::sum(&data[l3..l4]));
            data[l3 + 10..l3 + 12].copy_from_slice(&check.to_be_bytes());
        } else {
            data[l3 + 4..l3 + 6].copy_from_slice(&udp_len.to_be_bytes());
        }
        data[l4 + 4..l4 + 6].copy_from_slice(&udp_len.to_be_bytes());
        data[l4 + UDP_CHECK..l4 + UDP_LEN].copy_from_slice(&pseudo.to_be_bytes());
    }
}
