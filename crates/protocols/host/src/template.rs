//! The headers in front of a payload, made once per flow and finished per packet.

use crate::HostConfig;
use barewire_wire::{EtherType, MacAddr, Protocol, checksum, eth, ipv4, ipv6, udp, vlan};
use core::net::{IpAddr, SocketAddr};

const ETH: usize = eth::HEADER_LEN;
const TAGGED: usize = ETH + vlan::TAG_LEN;
const V4: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;
const V6: usize = ipv6::HEADER_LEN + udp::HEADER_LEN;

/// Ethernet, VLAN, IP and UDP headers towards one destination, ready to be copied in front of a payload.
#[derive(Clone, Debug)]
pub struct Template {
    bytes: [u8; Template::HEADER_MAX],
    kind: Kind,
    /// Over IPv4: whether to compute the UDP checksum.
    udp_checksum: bool,
    generation: u32,
    /// Sum of the IPv4 header without total length, ECN and checksum.
    ip_sum: u32,
    /// Sum of the pseudo-header and the ports, without the lengths.
    udp_sum: u32,
    src: SocketAddr,
    dst: SocketAddr,
}

/// Which headers: each has its length known to the compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    V4,
    V4Tagged,
    V6,
    V6Tagged,
}

impl Template {
    /// Bytes of the longest headers: Ethernet, a VLAN tag, IPv6, UDP.
    pub const HEADER_MAX: usize = TAGGED + V6;

    /// `None` when `src` and `dst` are of different families.
    pub(crate) fn new(
        config: &HostConfig,
        mac: MacAddr,
        src: SocketAddr,
        dst: SocketAddr,
        ttl: u8,
        generation: u32,
    ) -> Option<Template> {
        let mut bytes = [0; Template::HEADER_MAX];
        let v4 = src.is_ipv4();
        let ethertype = if v4 { EtherType::IPV4 } else { EtherType::IPV6 };
        let l3 = emit_link(&mut bytes, config, mac, ethertype);
        let packet = &mut bytes[l3..];
        let (ports_at, ip_sum, mut udp_sum) = match (src.ip(), dst.ip()) {
            (IpAddr::V4(s), IpAddr::V4(d)) => {
                let mut packet = ipv4::Packet::new_unchecked(packet);
                ipv4::Repr {
                    src: s,
                    dst: d,
                    protocol: Protocol::UDP,
                    payload_len: 0,
                    ttl,
                    dscp: 0,
                    ecn: 0,
                    ident: 0,
                    dont_fragment: true,
                }
                .emit(&mut packet);
                packet.set_total_len(0);
                packet.set_checksum(0);
                let sum = checksum::sum(&bytes[l3..l3 + ipv4::HEADER_LEN]);
                (l3 + ipv4::HEADER_LEN, sum, checksum::pseudo_v4(s, d, Protocol::UDP.0, 0))
            }
            (IpAddr::V6(s), IpAddr::V6(d)) => {
                ipv6::Repr {
                    src: s,
                    dst: d,
                    next_header: Protocol::UDP,
                    payload_len: 0,
                    hop_limit: ttl,
                    dscp: 0,
                    ecn: 0,
                    flow_label: 0,
                }
                .emit(&mut ipv6::Packet::new_unchecked(packet));
                (l3 + ipv6::HEADER_LEN, 0, checksum::pseudo_v6(s, d, Protocol::UDP.0, 0))
            }
            _ => return None,
        };
        let mut header = udp::Packet::new_unchecked(&mut bytes[ports_at..]);
        header.set_src_port(src.port());
        header.set_dst_port(dst.port());
        udp_sum += u32::from(src.port()) + u32::from(dst.port());
        let kind = match (v4, config.vlan.is_some()) {
            (true, false) => Kind::V4,
            (true, true) => Kind::V4Tagged,
            (false, false) => Kind::V6,
            (false, true) => Kind::V6Tagged,
        };
        let udp_checksum = config.udp_checksum4;
        Some(Template { bytes, kind, udp_checksum, generation, ip_sum, udp_sum, src, dst })
    }

    /// Bytes that [`seal`](Self::seal) writes in front of the payload.
    #[inline]
    pub fn header_len(&self) -> usize {
        match self.kind {
            Kind::V4 => ETH + V4,
            Kind::V4Tagged => TAGGED + V4,
            Kind::V6 => ETH + V6,
            Kind::V6Tagged => TAGGED + V6,
        }
    }

    /// [`Host::generation`](crate::Host::generation) when it was made; when the host's differs, ask for a new one.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Makes it older than any generation to come: its owner has heard nothing since, and asks for the route again.
    pub fn expire(&mut self) {
        self.generation = self.generation.wrapping_sub(1);
    }

    /// The MAC address that frames go to: the peer's, or that of the router towards it.
    pub fn next_hop(&self) -> MacAddr {
        let mut mac = [0; 6];
        mac.copy_from_slice(&self.bytes[..6]);
        MacAddr(mac)
    }

    /// Our address and port.
    #[inline]
    pub fn src(&self) -> SocketAddr {
        self.src
    }

    /// The peer's address and port.
    #[inline]
    pub fn dst(&self) -> SocketAddr {
        self.dst
    }

    /// Writes the headers into `frame[..header_len()]` for the payload that already stands behind them: `frame` is
    /// exactly headers and payload. Sets lengths, ECN code point (`ecn`, 2 bits), the IPv4 header checksum, and the UDP
    /// checksum where it is computed. A frame shorter than the headers, or a payload beyond 65,507 bytes, is a mistake of
    /// the caller: asserted in debug builds, otherwise nothing is written.
    #[inline]
    pub fn seal(&self, frame: &mut [u8], ecn: u8) {
        match self.kind {
            Kind::V4 => self.seal_v4::<ETH, { ETH + V4 }>(frame, ecn),
            Kind::V4Tagged => self.seal_v4::<TAGGED, { TAGGED + V4 }>(frame, ecn),
            Kind::V6 => self.seal_v6::<ETH, { ETH + V6 }>(frame, ecn),
            Kind::V6Tagged => self.seal_v6::<TAGGED, { TAGGED + V6 }>(frame, ecn),
        }
    }

    /// Copies `LEN` bytes of headers, and says how long UDP header and payload are together.
    #[inline(always)]
    fn split<'f, const LEN: usize>(&self, frame: &'f mut [u8]) -> Option<(&'f mut [u8; LEN], &'f [u8], u16)> {
        let parts = frame.split_first_chunk_mut::<LEN>();
        debug_assert!(parts.is_some(), "frame shorter than its headers");
        let (head, payload) = parts?;
        let udp_len = udp::HEADER_LEN + payload.len();
        debug_assert!(udp_len <= 65_515, "payload too long for UDP");
        if udp_len > 65_515 {
            return None;
        }
        head.copy_from_slice(self.bytes.first_chunk::<LEN>()?);
        Some((head, payload, udp_len as u16))
    }

    #[inline(always)]
    fn seal_v4<const L3: usize, const LEN: usize>(&self, frame: &mut [u8], ecn: u8) {
        let Some((head, payload, udp_len)) = self.split::<LEN>(frame) else { return };
        let total_len = udp_len + ipv4::HEADER_LEN as u16;
        let ecn = ecn & 3;
        let check = checksum::finish(self.ip_sum + u32::from(total_len) + u32::from(ecn));
        head[L3 + 1] = ecn;
        head[L3 + 2..L3 + 4].copy_from_slice(&total_len.to_be_bytes());
        head[L3 + 10..L3 + 12].copy_from_slice(&check.to_be_bytes());
        let l4 = L3 + ipv4::HEADER_LEN;
        head[l4 + 4..l4 + 6].copy_from_slice(&udp_len.to_be_bytes());
        if self.udp_checksum {
            let check = self.udp_check(payload, udp_len);
            head[l4 + 6..l4 + 8].copy_from_slice(&check.to_be_bytes());
        }
    }

    #[inline(always)]
    fn seal_v6<const L3: usize, const LEN: usize>(&self, frame: &mut [u8], ecn: u8) {
        let Some((head, payload, udp_len)) = self.split::<LEN>(frame) else { return };
        head[L3 + 1] = (ecn & 3) << 4;
        head[L3 + 4..L3 + 6].copy_from_slice(&udp_len.to_be_bytes());
        let l4 = L3 + ipv6::HEADER_LEN;
        head[l4 + 4..l4 + 6].copy_from_slice(&udp_len.to_be_bytes());
        let check = self.udp_check(payload, udp_len);
        head[l4 + 6..l4 + 8].copy_from_slice(&check.to_be_bytes());
    }

    /// The length counts twice: in the pseudo-header and in the header.
    #[inline(always)]
    fn udp_check(&self, payload: &[u8], udp_len: u16) -> u16 {
        checksum::finish_udp(self.udp_sum + 2 * u32::from(udp_len) + checksum::sum(payload))
    }
}

/// Writes the Ethernet header of a frame of ours, with the VLAN tag if there is one, and says where the packet starts.
pub(crate) fn emit_link(frame: &mut [u8], config: &HostConfig, dst: MacAddr, ethertype: EtherType) -> usize {
    let outer = if config.vlan.is_some() { EtherType::VLAN } else { ethertype };
    eth::Repr { dst, src: config.mac, ethertype: outer }.emit(&mut eth::Packet::new_unchecked(&mut *frame));
    let Some(vid) = config.vlan else { return ETH };
    if let Some(tag) = frame.get_mut(ETH..) {
        vlan::Repr { tag: vlan::Tag::new(vid), ethertype }.emit(&mut vlan::Packet::new_unchecked(tag));
    }
    TAGGED
}

/// Bytes of the link header of our frames.
pub(crate) fn link_len(config: &HostConfig) -> usize {
    if config.vlan.is_some() { TAGGED } else { ETH }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(vlan: Option<u16>, udp_checksum4: bool) -> HostConfig {
        HostConfig { vlan, udp_checksum4, ..HostConfig::new(MacAddr([2, 0, 0, 0, 0, 1])) }
    }

    fn sealed(config: &HostConfig, src: &str, dst: &str, payload: &[u8], ecn: u8) -> Vec<u8> {
        let mac = MacAddr([2, 0, 0, 0, 0, 2]);
        let t = Template::new(config, mac, src.parse().unwrap(), dst.parse().unwrap(), 64, 7).unwrap();
        let mut frame = vec![0xa5; t.header_len() + payload.len()];
        frame[t.header_len()..].copy_from_slice(payload);
        t.seal(&mut frame, ecn);
        frame
    }

    #[test]
    fn ipv4_by_the_byte() {
        let frame = sealed(&config(None, false), "10.0.0.1:1000", "10.0.0.2:2000", b"hi", 2);
        assert_eq!(
            frame,
            [
                2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, // Ethernet
                0x45, 0x02, 0x00, 0x1e, 0, 0, 0x40, 0, 64, 17, 0x26, 0xcb, 10, 0, 0, 1, 10, 0, 0,
                2, // IPv4
                0x03, 0xe8, 0x07, 0xd0, 0x00, 0x0a, 0x00, 0x00, b'h', b'i',
            ]
        );
    }

    #[test]
    fn ipv6_with_a_tag_by_the_byte() {
        let frame = sealed(&config(Some(5), false), "[fe80::1]:1", "[fe80::2]:2", &[0xff, 0xff, 0x01], 1);
        assert_eq!(frame.len(), Template::HEADER_MAX + 3);
        assert_eq!(frame[12..22], [0x81, 0, 0, 5, 0x86, 0xdd, 0x60, 0x10, 0, 0]);
        assert_eq!(frame[22..26], [0, 11, 17, 64]);
        // fe80+1+fe80+2+17+11 + 1+2+11 + ffff+0100 = (2) fe2c -> fe2e -> 01d1
        assert_eq!(frame[58..66], [0, 1, 0, 2, 0, 11, 0x01, 0xd1]);
    }

    #[test]
    fn families_do_not_mix() {
        let mac = MacAddr::ZERO;
        let (v4, v6) = ("10.0.0.1:1".parse().unwrap(), "[fe80::1]:1".parse().unwrap());
        assert!(Template::new(&config(None, false), mac, v4, v6, 64, 0).is_none());
        assert!(Template::new(&config(None, false), mac, v6, v4, 64, 0).is_none());
    }

    proptest! {
        /// What is sealed is what the slow, separate code of `wire` accepts.
        #[test]
        fn sealed_frames_parse(
            src: u128, dst: u128, ports: (u16, u16), v6: bool, vlan in prop::option::of(1u16..4095), sums: bool,
            payload in prop::collection::vec(any::<u8>(), 0..80), ecn in 0u8..4,
        ) {
            let config = config(vlan, sums);
            let ip = |bits: u128| -> IpAddr {
                if v6 { IpAddr::V6(bits.into()) } else { IpAddr::V4((bits as u32).into()) }
            };
            let (src, dst) = (SocketAddr::new(ip(src), ports.0), SocketAddr::new(ip(dst), ports.1 | 1));
            let t = Template::new(&config, MacAddr([2; 6]), src, dst, 64, 0).unwrap();
            let mut frame = vec![0xa5; t.header_len() + payload.len()];
            frame[t.header_len()..].copy_from_slice(&payload);
            t.seal(&mut frame, ecn);
            let link = vlan::untag(&frame).unwrap();
            prop_assert_eq!(link.tags[0], vlan.map(vlan::Tag::new));
            let packet = &frame[link.payload_at..];
            let datagram = if v6 {
                let p = ipv6::Packet::new_checked(packet).unwrap();
                prop_assert_eq!((p.ecn(), p.total_len()), (ecn, packet.len()));
                prop_assert_eq!((IpAddr::V6(p.src()), IpAddr::V6(p.dst())), (src.ip(), dst.ip()));
                p.payload()
            } else {
                let p = ipv4::Packet::new_checked(packet).unwrap();
                let repr = ipv4::Repr::parse(&p).unwrap();
                prop_assert_eq!((repr.ecn, p.total_len(), repr.dont_fragment), (ecn, packet.len(), true));
                prop_assert_eq!((IpAddr::V4(p.src()), IpAddr::V4(p.dst())), (src.ip(), dst.ip()));
                p.payload()
            };
            let p = udp::Packet::new_checked(datagram).unwrap();
            let repr = udp::Repr::parse(&p, src.ip(), dst.ip()).unwrap();
            prop_assert_eq!((repr.src_port, repr.dst_port), (src.port(), dst.port()));
            prop_assert_eq!(p.checksum() != 0, v6 || sums);
            prop_assert_eq!(p.payload(), &payload[..]);
        }
    }
}
