//! A UDP datagram that may be joined with others, or stands for several.

use super::PACKET_MAX;
use barewire_frame::{Burst, ChecksumState, Frame};
use barewire_wire::{EtherType, Protocol, checksum, eth, ipv4, ipv6, roce, udp, vlan};

/// Where the checksum is in a UDP header.
const UDP_CHECK: u16 = 6;

/// Where the parts of an Ethernet frame lie that is one UDP datagram, whole and without padding: over IPv4 without options, or
/// over IPv6 without extension headers, with at most one VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    l3: usize,
    l4: usize,
    /// Bytes behind the UDP header.
    pub payload: usize,
}

impl Datagram {
    /// The parts of `data`; `None`: it is something else.
    pub fn parse(data: &[u8]) -> Option<Datagram> {
        let (kind, l3) = match eth::Packet::new_checked(data).ok()?.ethertype() {
            tag if tag.is_tag() => {
                let tag = vlan::Packet::new_checked(&data[eth::HEADER_LEN..]).ok()?;
                (tag.ethertype(), eth::HEADER_LEN + vlan::TAG_LEN)
            }
            kind => (kind, eth::HEADER_LEN),
        };
        let packet = &data[l3..];
        let (header, protocol, len) = match kind {
            EtherType::IPV4 => {
                let ip = ipv4::Packet::new_checked(packet).ok()?;
                if ip.is_fragment() || ip.header_len() != ipv4::HEADER_LEN {
                    return None;
                }
                (ipv4::HEADER_LEN, ip.protocol(), ip.total_len())
            }
            EtherType::IPV6 => {
                let ip = ipv6::Packet::new_checked(packet).ok()?;
                (ipv6::HEADER_LEN, ip.next_header(), ip.total_len())
            }
            _ => return None,
        };
        let datagram = udp::Packet::new_checked(packet.get(header..)?).ok()?;
        if protocol != Protocol::UDP || len != packet.len() || datagram.len() != len - header {
            return None;
        }
        Some(Datagram { l3, l4: l3 + header, payload: datagram.payload().len() })
    }

    /// The parts of a frame that may be joined with others: nothing is left to be cut, there is payload, and its checksums hold or
    /// are for others to make. One whose checksum is wrong must arrive so.
    pub fn of(frame: &Frame) -> Option<Datagram> {
        let data = frame.data();
        let found = Datagram::parse(data)?;
        if frame.gso().is_some() || found.payload == 0 || found.has_ident(data) || found.is_sealed(data) {
            return None;
        }
        let (start, offset) = found.checksum_at();
        let ours = ChecksumState::Partial { start, offset };
        let sound = match frame.checksum() {
            ChecksumState::Verified => true,
            state @ ChecksumState::Partial { .. } => state == ours,
            ChecksumState::Unknown => {
                let datagram = udp::Packet::new_unchecked(&data[found.l4..]);
                match found.is_v4() {
                    true => datagram.verify_v4(found.v4(data).src(), found.v4(data).dst()),
                    false => datagram.verify_v6(found.v6(data).src(), found.v6(data).dst()),
                }
            }
        };
        let header = !found.is_v4() || found.v4(data).verify_checksum();
        (sound && header).then_some(found)
    }

    fn v4<'a>(&self, data: &'a [u8]) -> ipv4::Packet<&'a [u8]> {
        ipv4::Packet::new_unchecked(&data[self.l3..])
    }

    fn v6<'a>(&self, data: &'a [u8]) -> ipv6::Packet<&'a [u8]> {
        ipv6::Packet::new_unchecked(&data[self.l3..])
    }

    /// Bytes before the payload.
    pub fn header_len(&self) -> usize {
        self.l4 + udp::HEADER_LEN
    }

    /// Where the UDP header is, and the checksum in it: what [`ChecksumState::Partial`] wants.
    pub fn checksum_at(&self) -> (u16, u16) {
        (self.l4 as u16, UDP_CHECK)
    }

    fn is_v4(&self) -> bool {
        self.l4 - self.l3 == ipv4::HEADER_LEN
    }

    /// Whether this is an IPv4 packet that may be fragmented on its way, so that its identification means something: joining would
    /// lose it.
    pub fn has_ident(&self, data: &[u8]) -> bool {
        self.is_v4() && !self.v4(data).dont_fragment()
    }

    /// Whether this is RoCEv2 over IPv4, whose invariant CRC covers the identification: whoever cuts a frame counts that up.
    fn is_sealed(&self, data: &[u8]) -> bool {
        self.is_v4() && udp::Packet::new_unchecked(&data[self.l4..]).dst_port() == roce::UDP_PORT
    }

    /// Bytes of the VLAN tag.
    pub fn tag_len(&self) -> usize {
        self.l3 - eth::HEADER_LEN
    }

    /// Gives the piece with this number, whose headers are those of the whole, an identification of its own.
    pub fn number(&self, data: &mut [u8], number: usize) {
        let mut ip = ipv4::Packet::new_unchecked(&mut data[self.l3..]);
        ip.set_ident(ip.ident().wrapping_add(number as u16));
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

    /// Writes the headers of `data` for `payload` bytes: lengths, the IPv4 checksum, and for UDP the sum from which its checksum goes on.
    pub fn resize(&self, data: &mut [u8], payload: usize) {
        let len = udp::HEADER_LEN + payload;
        let pseudo = match self.is_v4() {
            true => {
                let mut ip = ipv4::Packet::new_unchecked(&mut data[self.l3..]);
                ip.set_total_len((ipv4::HEADER_LEN + len) as u16);
                ip.fill_checksum();
                checksum::pseudo_v4(ip.src(), ip.dst(), Protocol::UDP.0, len as u16)
            }
            false => {
                let mut ip = ipv6::Packet::new_unchecked(&mut data[self.l3..]);
                ip.set_payload_len(len as u16);
                checksum::pseudo_v6(ip.src(), ip.dst(), Protocol::UDP.0, len as u32)
            }
        };
        let mut datagram = udp::Packet::new_unchecked(&mut data[self.l4..]);
        datagram.set_len(len as u16);
        datagram.set_checksum(checksum::fold(pseudo));
    }
}
