//! From a frame to the UDP payload of a group, and back to a frame for captures.

use barewire_base::DropReason;
use barewire_frame::ChecksumState;
use barewire_wire::{EtherType, MacAddr, Protocol, eth, ipv4, ipv6, udp, vlan};
use std::net::{IpAddr, SocketAddr};

/// A UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    pub src: SocketAddr,
    pub dst: SocketAddr,
    pub payload: &'a [u8],
}

/// Reads a frame. The headers are judged always, the UDP checksum when `verify` is set and nobody has done it.
///
/// # Errors
/// Why it is no datagram to a group.
pub(crate) fn parse(frame: &[u8], state: ChecksumState, verify: bool) -> Result<Datagram<'_>, DropReason> {
    read(frame, verify && state == ChecksumState::Unknown, true)
}

/// The same for a datagram to anybody; its checksum is not judged.
///
/// # Errors
/// Why it is no datagram.
pub(crate) fn parse_any(frame: &[u8]) -> Result<Datagram<'_>, DropReason> {
    read(frame, false, false)
}

fn read(frame: &[u8], verify: bool, groups_only: bool) -> Result<Datagram<'_>, DropReason> {
    let untagged = vlan::untag(frame)?;
    let packet = frame.get(untagged.payload_at..).unwrap_or_default();
    match untagged.ethertype {
        EtherType::IPV4 => {
            let packet = ipv4::Packet::new_checked(packet)?;
            let (src, dst) = (packet.src(), packet.dst());
            if groups_only && !dst.is_multicast() {
                return Err(DropReason::NotOurAddress);
            }
            if packet.is_fragment() {
                return Err(DropReason::Fragment);
            }
            if packet.protocol() != Protocol::UDP {
                return Err(DropReason::UnknownProtocol);
            }
            if verify && !packet.verify_checksum() {
                return Err(DropReason::BadChecksum);
            }
            let segment = udp::Packet::new_checked(packet.payload())?;
            if verify && !segment.verify_v4(src, dst) {
                return Err(DropReason::BadChecksum);
            }
            Ok(datagram(src.into(), dst.into(), &segment))
        }
        EtherType::IPV6 => {
            let packet = ipv6::Packet::new_checked(packet)?;
            let (src, dst) = (packet.src(), packet.dst());
            if groups_only && !dst.is_multicast() {
                return Err(DropReason::NotOurAddress);
            }
            let upper = packet.upper()?;
            if upper.fragment {
                return Err(DropReason::Fragment);
            }
            if upper.protocol != Protocol::UDP {
                return Err(DropReason::UnknownProtocol);
            }
            let segment = udp::Packet::new_checked(packet.upper_payload(&upper))?;
            if verify && !segment.verify_v6(src, dst) {
                return Err(DropReason::BadChecksum);
            }
            Ok(datagram(src.into(), dst.into(), &segment))
        }
        _ => Err(DropReason::UnknownEtherType),
    }
}

fn datagram<'a>(src: IpAddr, dst: IpAddr, segment: &udp::Packet<&'a [u8]>) -> Datagram<'a> {
    Datagram {
        src: SocketAddr::new(src, segment.src_port()),
        dst: SocketAddr::new(dst, segment.dst_port()),
        payload: segment.payload(),
    }
}

/// Who a frame is from that is written without having been on a wire: locally administered, "bw" in it.
const WRITER: MacAddr = MacAddr([0x02, 0x62, 0x77, 0, 0, 0xfd]);
/// Hops that market data may go.
const TTL: u8 = 16;

/// Writes the frame of a datagram into `frame`, which is emptied first. Addresses of unequal families, and payloads that UDP
/// cannot carry, give false and nothing.
pub(crate) fn emit(src: SocketAddr, dst: SocketAddr, payload: &[u8], frame: &mut Vec<u8>) -> bool {
    frame.clear();
    let Ok(payload_len) = u16::try_from(payload.len()) else { return false };
    let Some(segment_len) = payload_len.checked_add(udp::HEADER_LEN as u16) else { return false };
    let udp = udp::Repr { src_port: src.port(), dst_port: dst.port(), payload_len };
    let header_at = eth::HEADER_LEN;
    let (group_mac, ethertype, header_len) = match dst.ip() {
        IpAddr::V4(group) => (MacAddr::from_multicast_v4(group), EtherType::IPV4, ipv4::HEADER_LEN),
        IpAddr::V6(group) => (MacAddr::from_multicast_v6(group), EtherType::IPV6, ipv6::HEADER_LEN),
    };
    let udp_at = header_at + header_len;
    frame.resize(udp_at + udp::HEADER_LEN, 0);
    eth::Repr { dst: group_mac, src: WRITER, ethertype }
        .emit(&mut eth::Packet::new_unchecked(frame.as_mut_slice()));
    match (src.ip(), dst.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) if usize::from(segment_len) + header_len <= 0xffff => {
            ipv4::Repr {
                src: from,
                dst: to,
                protocol: Protocol::UDP,
                payload_len: segment_len,
                ttl: TTL,
                dscp: 0,
                ecn: 0,
                ident: 0,
                dont_fragment: true,
            }
            .emit(&mut ipv4::Packet::new_unchecked(&mut frame[header_at..]));
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            ipv6::Repr {
                src: from,
                dst: to,
                next_header: Protocol::UDP,
                payload_len: segment_len,
                hop_limit: TTL,
                dscp: 0,
                ecn: 0,
                flow_label: 0,
            }
            .emit(&mut ipv6::Packet::new_unchecked(&mut frame[header_at..]));
        }
        _ => {
            frame.clear();
            return false;
        }
    }
    frame.extend_from_slice(payload);
    let mut segment = udp::Packet::new_unchecked(&mut frame[udp_at..]);
    udp.emit(&mut segment);
    segment.fill_checksum(src.ip(), dst.ip());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_base::Prng;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let mut frame = vec![0xa5; 7];
        for (src, dst) in [("10.0.0.1:5000", "239.1.2.3:14310"), ("[fd77::1]:5000", "[ff15::1:2]:14310")] {
            for len in [0, 1, 17, 1400] {
                let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
                assert!(emit(address(src), address(dst), &payload, &mut frame));
                let read = parse(&frame, ChecksumState::Unknown, true).unwrap();
                assert_eq!(read, Datagram { src: address(src), dst: address(dst), payload: &payload });
                if len > 0 {
                    *frame.last_mut().unwrap() ^= 1;
                    assert_eq!(parse(&frame, ChecksumState::Unknown, true), Err(DropReason::BadChecksum));
                    assert!(parse(&frame, ChecksumState::Verified, true).is_ok());
                    assert!(parse(&frame, ChecksumState::Unknown, false).is_ok());
                }
            }
        }
        assert!(!emit(address("10.0.0.1:1"), address("[ff15::1]:1"), b"x", &mut frame));
        assert!(!emit(address("10.0.0.1:1"), address("239.0.0.1:1"), &[0; 65_536], &mut frame));
        assert!(!emit(address("10.0.0.1:1"), address("239.0.0.1:1"), &[0; 65_520], &mut frame));
    }

    #[test]
    fn a_group_has_its_ethernet_address() {
        let mut frame = Vec::new();
        emit(address("10.0.0.1:5000"), address("239.129.2.3:14310"), b"x", &mut frame);
        assert_eq!(frame[..6], [0x01, 0x00, 0x5e, 0x01, 0x02, 0x03]);
    }

    #[test]
    fn no_bytes_panic() {
        let seed = 0xfeed_0001;
        let mut prng = Prng::new(seed);
        let mut frame = Vec::new();
        emit(address("10.0.0.1:5000"), address("239.1.2.3:14310"), &[7; 40], &mut frame);
        for _ in 0..20_000 {
            let mut damaged = frame.clone();
            for _ in 0..=prng.below(3) {
                let at = prng.below(damaged.len() as u64) as usize;
                damaged[at] = prng.next_u64() as u8;
            }
            damaged.truncate(prng.below(damaged.len() as u64 + 1) as usize);
            if let Ok(read) = parse(&damaged, ChecksumState::Unknown, prng.chance(0.5)) {
                assert!(read.payload.len() <= damaged.len(), "seed {seed}");
            }
        }
    }
}
