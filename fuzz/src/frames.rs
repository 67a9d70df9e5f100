//! Valid frames, for corpora and for the world of a target.

use barewire_wire::{
    EtherType, MacAddr, Protocol, arp, eth, icmpv4, icmpv6, ipv4, ipv6, ndisc, tcp, udp, vlan,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The Ethernet address of host `n`.
pub const fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

/// The IPv4 address of host `n`.
pub const fn v4(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n)
}

/// The IPv6 address of host `n`.
pub const fn v6(n: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n as u16)
}

/// An address and port of host `n`.
pub fn at(n: u8, udp_port: u16) -> SocketAddr {
    SocketAddr::new(v4(n).into(), udp_port)
}

/// An Ethernet frame between two hosts.
pub fn ethernet(to: MacAddr, from: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xa5; eth::HEADER_LEN + payload.len()];
    eth::Repr { dst: to, src: from, ethertype }.emit(&mut eth::Packet::new_unchecked(&mut out[..]));
    out[eth::HEADER_LEN..].copy_from_slice(payload);
    out
}

/// The same frame with a VLAN tag.
pub fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    let mut out = frame[..12].to_vec();
    out.extend_from_slice(&[0x81, 0x00, 0xa5, 0xa5, 0xa5, 0xa5]);
    let ethertype = EtherType(u16::from_be_bytes([frame[12], frame[13]]));
    let repr = vlan::Repr { tag: vlan::Tag::from_bits(tag), ethertype };
    repr.emit(&mut vlan::Packet::new_unchecked(&mut out[14..]));
    out.extend_from_slice(&frame[14..]);
    out
}

fn ip4(from: u8, to: u8, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xa5; ipv4::HEADER_LEN + payload.len()];
    let (src, dst, payload_len) = (v4(from), v4(to), payload.len() as u16);
    let repr = ipv4::Repr {
        src,
        dst,
        protocol,
        payload_len,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        ident: 1,
        dont_fragment: true,
    };
    repr.emit(&mut ipv4::Packet::new_unchecked(&mut out[..]));
    out[ipv4::HEADER_LEN..].copy_from_slice(payload);
    ethernet(mac(to), mac(from), EtherType::IPV4, &out)
}

fn ip6(from: u8, dst: Ipv6Addr, hop_limit: u8, next_header: Protocol, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xa5; ipv6::HEADER_LEN + payload.len()];
    let (src, payload_len) = (v6(from), payload.len() as u16);
    let repr = ipv6::Repr { src, dst, next_header, payload_len, hop_limit, dscp: 0, ecn: 0, flow_label: 7 };
    repr.emit(&mut ipv6::Packet::new_unchecked(&mut out[..]));
    out[ipv6::HEADER_LEN..].copy_from_slice(payload);
    ethernet(mac(dst.octets()[15]), mac(from), EtherType::IPV6, &out)
}

/// A UDP datagram in IPv4, or in IPv6.
pub fn udp(from: u8, to: u8, over_v6: bool, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xa5; udp::HEADER_LEN + payload.len()];
    out[udp::HEADER_LEN..].copy_from_slice(payload);
    let repr = udp::Repr { src_port: ports.0, dst_port: ports.1, payload_len: payload.len() as u16 };
    let mut packet = udp::Packet::new_unchecked(&mut out[..]);
    repr.emit(&mut packet);
    if over_v6 {
        packet.fill_checksum(IpAddr::V6(v6(from)), IpAddr::V6(v6(to)));
        ip6(from, v6(to), 64, Protocol::UDP, &out)
    } else {
        packet.fill_checksum(IpAddr::V4(v4(from)), IpAddr::V4(v4(to)));
        ip4(from, to, Protocol::UDP, &out)
    }
}

/// An ARP packet of host `from` to host `to`.
pub fn arp(operation: arp::Operation, from: u8, to: u8) -> Vec<u8> {
    let mut out = vec![0xa5; arp::PACKET_LEN];
    let request = operation == arp::Operation::Request;
    let repr = arp::Repr {
        operation,
        sender_mac: mac(from),
        sender_ip: v4(from),
        target_mac: if request { MacAddr::ZERO } else { mac(to) },
        target_ip: v4(to),
    };
    repr.emit(&mut arp::Packet::new_unchecked(&mut out[..]));
    ethernet(if request { MacAddr::BROADCAST } else { mac(to) }, mac(from), EtherType::ARP, &out)
}

/// An ICMPv6 message of host `from` to host `to`.
pub fn icmp6(from: u8, to: u8, hop_limit: u8, repr: &icmpv6::Repr<'_>) -> Vec<u8> {
    let mut out = vec![0xa5; repr.buffer_len()];
    repr.emit(&mut icmpv6::Packet::new_unchecked(&mut out[..]), v6(from), v6(to));
    ip6(from, v6(to), hop_limit, Protocol::ICMPV6, &out)
}

/// A neighbour advertisement of host `from` to host `to`.
pub fn advert(from: u8, to: u8) -> Vec<u8> {
    let repr = ndisc::Repr::NeighbourAdvert {
        target: v6(from),
        router: false,
        solicited: true,
        override_known: true,
        target_mac: Some(mac(from)),
    };
    icmp6(from, to, ndisc::HOP_LIMIT, &icmpv6::Repr::Ndisc(repr))
}

/// Every kind of frame, from host 2 to host 1.
pub fn all() -> Vec<Vec<u8>> {
    let solicit = ndisc::Repr::NeighbourSolicit { target: v6(1), source_mac: Some(mac(2)) };
    let mut ping = vec![0xa5; 16];
    let echo = icmpv4::Repr::EchoRequest { ident: 1, seq: 2, data: b"12345678" };
    echo.emit(&mut icmpv4::Packet::new_unchecked(&mut ping[..]));
    let syn = tcp::Repr {
        src_port: 1,
        dst_port: 2,
        seq: 3,
        ack: 4,
        flags: tcp::Flags(2),
        window: 5,
        urgent: 0,
        max_segment: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((1, 2)),
    };
    let mut segment = vec![0xa5; 60];
    let mut packet = tcp::Packet::new_unchecked(&mut segment[..]);
    syn.emit(&mut packet);
    let header_len = packet.header_len();
    segment.truncate(header_len);
    let mut packet = tcp::Packet::new_unchecked(&mut segment[..]);
    packet.fill_checksum(v4(2).into(), v4(1).into());
    let udp4 = udp(2, 1, false, (5, 6), b"payload");
    vec![
        tagged(&udp4, 0x6005),
        tagged(&tagged(&udp4, 7), 0),
        udp4,
        udp(2, 1, true, (5, 6), b"payload"),
        udp(2, 1, false, (5, 9), &[0x5a; 600]),
        arp(arp::Operation::Request, 2, 1),
        arp(arp::Operation::Reply, 2, 1),
        icmp6(2, 1, ndisc::HOP_LIMIT, &icmpv6::Repr::Ndisc(solicit)),
        advert(2, 1),
        icmp6(2, 1, 64, &icmpv6::Repr::EchoRequest { ident: 1, seq: 2, data: b"data" }),
        ip4(2, 1, Protocol::ICMP, &ping),
        ip4(2, 1, Protocol(6), &segment),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Instant;
    use barewire_frame::{Pool, PoolConfig};
    use barewire_host::{Host, HostConfig, Input};

    /// What is meant to be valid is taken as such by who reads it.
    #[test]
    fn a_host_takes_them_all() {
        let pool = Pool::new(PoolConfig { frames: 4, ..PoolConfig::default() }).unwrap();
        let mut config = HostConfig::new(mac(1));
        config.ipv4 = vec![(v4(1), 24)];
        config.ipv6 = vec![(v6(1), 64)];
        let mut host = Host::new(config);
        let mut datagrams = 0;
        for frame in all().iter().filter(|f| f[12..14] != [0x81, 0]) {
            let input = host.handle_frame(Instant::from_nanos(1), &pool.alloc_from(frame).unwrap());
            datagrams += usize::from(matches!(input, Input::Udp(_)));
        }
        assert_eq!(datagrams, 3);
        let drops: Vec<_> = host.counters().drops.iter().map(|(reason, n)| (reason.as_str(), n)).collect();
        // The ARP reply and the advertisement answer nothing that was asked, TCP is not spoken here.
        assert!(
            drops.iter().all(|(reason, _)| ["bad_neighbour", "unknown_protocol"].contains(reason)),
            "{drops:?}"
        );
    }
}
