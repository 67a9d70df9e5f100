//! One function that calls every parser and every accessor, for fuzz targets and smoke tests alike.

use crate::*;
use core::hint::black_box;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);
/// Longest input that the writing half works on.
const COPY_MAX: usize = 256;

/// Takes `bytes` for a packet of every kind, checked and unchecked, reads every field and writes every setter. Must
/// return, whatever the bytes.
pub fn fuzz_all(bytes: &[u8]) {
    read_all(bytes);
    let mut copy = [0u8; COPY_MAX];
    let len = bytes.len().min(COPY_MAX);
    copy[..len].copy_from_slice(&bytes[..len]);
    write_all(&mut copy[..len]);
    for skip in [14, 18, 34, 42, 54, 62] {
        if let Some(rest) = bytes.get(skip..) {
            read_all(rest);
        }
    }
}

fn read_all(b: &[u8]) {
    let _ = black_box(vlan::untag(b));
    let _ = black_box(checksum::checksum(b));
    if let Ok(p) = eth::Packet::new_checked(b) {
        let _ = black_box(eth::Repr::parse(&p));
    }
    let p = eth::Packet::new_unchecked(b);
    black_box((p.dst(), p.src(), p.ethertype(), p.payload()));

    let p = vlan::Packet::new_unchecked(b);
    let _ = black_box(vlan::Repr::parse(&p));
    black_box((p.tag(), p.ethertype(), p.payload()));

    let p = arp::Packet::new_unchecked(b);
    let _ = black_box(arp::Repr::parse(&p));
    black_box((p.hardware(), p.protocol(), p.hardware_len(), p.protocol_len(), p.operation()));
    black_box((p.sender_mac(), p.sender_ip(), p.target_mac(), p.target_ip()));

    let p = ipv4::Packet::new_unchecked(b);
    let _ = black_box(ipv4::Repr::parse(&p));
    black_box((p.version(), p.header_len(), p.dscp(), p.ecn(), p.total_len(), p.ident(), p.dont_fragment()));
    black_box((
        p.more_fragments(),
        p.fragment_offset(),
        p.is_fragment(),
        p.ttl(),
        p.protocol(),
        p.checksum(),
    ));
    black_box((p.src(), p.dst(), p.verify_checksum(), p.options(), p.payload()));

    let p = ipv6::Packet::new_unchecked(b);
    let _ = black_box(ipv6::Repr::parse(&p));
    black_box((p.version(), p.dscp(), p.ecn(), p.flow_label(), p.payload_len(), p.total_len()));
    black_box((p.next_header(), p.hop_limit(), p.src(), p.dst(), p.payload()));
    if let Ok(upper) = p.upper() {
        black_box(p.upper_payload(&upper));
    }

    let p = icmpv4::Packet::new_unchecked(b);
    let _ = black_box(icmpv4::Repr::parse(&p));
    let _ = black_box(icmpv4::Repr::parse_unverified(&p));
    black_box((p.kind(), p.code(), p.checksum(), p.ident(), p.seq(), p.payload()));

    let p = icmpv6::Packet::new_unchecked(b);
    let _ = black_box(icmpv6::Repr::parse(&p, Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST));
    let _ = black_box(icmpv6::Repr::parse_unverified(&p));
    black_box((p.kind(), p.code(), p.checksum(), p.ident(), p.seq(), p.body(), p.payload()));
    for kind in 133..138 {
        let _ = black_box(ndisc::Repr::parse(kind, b));
    }
    black_box(ndisc::Options::new(b).count());

    let p = udp::Packet::new_unchecked(b);
    for (src, dst) in [(V4, V4), (V6, V6), (V4, V6)] {
        let _ = black_box(udp::Repr::parse(&p, src, dst));
    }
    black_box((p.src_port(), p.dst_port(), p.len(), p.checksum(), p.payload()));

    let p = tcp::Packet::new_unchecked(b);
    let _ = black_box(tcp::Repr::parse(&p));
    black_box((p.src_port(), p.dst_port(), p.seq(), p.ack(), p.header_len(), p.flags(), p.window()));
    black_box((p.checksum(), p.urgent(), p.verify_checksum(V4, V4), p.verify_checksum(V6, V6), p.payload()));
    black_box((p.options().count(), tcp::Options::new(b).count()));
    read_roce(b);
}

fn read_roce(b: &[u8]) {
    let _ = black_box((roce::icrc::compute(b), roce::icrc::check(b)));
    black_box((roce::icrc::check_known(b, 20, true), roce::icrc::check_known(b, 60, false)));
    if let Ok(s) = roce::Segment::parse(b) {
        black_box((s.reth(), s.aeth(), s.atomic(), s.atomic_ack(), s.immediate(), s.invalidate(), s.deth()));
        let _ = black_box(roce::cm::Mad::parse(s.payload));
        black_box(roce::rdma_cm::IpHeader::parse(s.payload));
    }
    let p = roce::bth::Packet::new_unchecked(b);
    let _ = black_box(roce::bth::Repr::parse(&p));
    black_box((p.opcode().name(), p.opcode().shape().map(roce::Shape::ext_len)));
    let p = roce::mad::Packet::new_unchecked(b);
    black_box((p.base_version(), p.class(), p.class_version(), p.method(), p.status()));
    black_box((p.transaction(), p.attribute(), p.modifier(), p.payload()));
    let _ = black_box(roce::cm::Mad::parse(b));
    // Every kind of message, whatever the bytes say they are.
    if let Some(data) = b.first_chunk::<{ roce::mad::LEN }>() {
        let mut copy = *data;
        copy[..4].copy_from_slice(&[
            1,
            roce::mad::CLASS_CM,
            roce::mad::CLASS_VERSION_CM,
            roce::mad::METHOD_SEND,
        ]);
        for attribute in 0x10..0x1b {
            copy[16..18].copy_from_slice(&[0, attribute]);
            if let Ok(message) = roce::cm::Mad::parse(&copy) {
                let mut again = [0; roce::mad::LEN];
                message.emit(&mut again);
                message.emit(&mut again[..100]);
                black_box(again);
            }
        }
    }
}

fn write_all(b: &mut [u8]) {
    let (mac, word) = (MacAddr::BROADCAST, 0xa55a);
    eth::Repr { dst: mac, src: mac, ethertype: EtherType::IPV4 }
        .emit(&mut eth::Packet::new_unchecked(&mut *b));
    black_box(eth::Packet::new_unchecked(&mut *b).payload_mut());
    vlan::Repr { tag: vlan::Tag::from_bits(word), ethertype: EtherType::ARP }
        .emit(&mut vlan::Packet::new_unchecked(&mut *b));
    let mut p = arp::Packet::new_unchecked(&mut *b);
    p.set_ipv4_over_ethernet();
    p.set_operation(word);
    p.set_sender(mac, Ipv4Addr::LOCALHOST);
    p.set_target(mac, Ipv4Addr::LOCALHOST);
    let mut p = ipv4::Packet::new_unchecked(&mut *b);
    black_box(p.decrement_ttl());
    p.fill_checksum();
    black_box(p.payload_mut());
    p.set_header_len(60);
    p.set_ds(9, 9);
    p.set_total_len(word);
    p.set_ident(word);
    p.set_flags_offset(word);
    p.set_src(Ipv4Addr::BROADCAST);
    p.set_dst(Ipv4Addr::BROADCAST);
    p.set_protocol(Protocol::UDP);
    p.fill_checksum();
    black_box(p.payload_mut());
    let mut p = ipv6::Packet::new_unchecked(&mut *b);
    black_box(p.payload_mut());
    p.set_class_flow(0xff, 0xff, u32::MAX);
    p.set_payload_len(word);
    p.set_hop_limit(1);
    black_box(p.payload_mut());
    let mut p = udp::Packet::new_unchecked(&mut *b);
    p.fill_checksum(V4, V4);
    p.fill_checksum(V6, V6);
    p.fill_checksum(V4, V6);
    black_box(p.payload_mut());
    let mut p = tcp::Packet::new_unchecked(&mut *b);
    p.set_header_len_flags(60, tcp::Flags(word));
    p.fill_checksum(V4, V4);
    p.fill_checksum(V6, V6);
    let data = [word as u8; 40];
    icmpv4::Repr::EchoReply { ident: 1, seq: 2, data: &data }
        .emit(&mut icmpv4::Packet::new_unchecked(&mut *b));
    let loopback = Ipv6Addr::LOCALHOST;
    icmpv6::Repr::EchoReply { ident: 1, seq: 2, data: &data }.emit(
        &mut icmpv6::Packet::new_unchecked(&mut *b),
        loopback,
        loopback,
    );
    let solicit = ndisc::Repr::NeighbourSolicit { target: loopback, source_mac: Some(mac) };
    icmpv6::Repr::Ndisc(solicit).emit(&mut icmpv6::Packet::new_unchecked(&mut *b), loopback, loopback);
    black_box(checksum::complete(b, 14, 6));
    let bth = roce::bth::Repr {
        opcode: roce::Opcode(word as u8),
        solicited: true,
        migrated: true,
        pad: 3,
        pkey: word,
        fecn: true,
        becn: true,
        dst_qpn: u32::MAX,
        ack_request: true,
        psn: u32::MAX,
    };
    bth.emit(&mut roce::bth::Packet::new_unchecked(&mut *b));
    roce::ext::Reth { addr: 1, rkey: 2, len: 3 }.emit(b);
    roce::ext::Atomic { addr: 1, rkey: 2, swap_add: 3, compare: 4 }.emit(b);
    roce::ext::Aeth { syndrome: roce::ext::Syndrome::ACK, msn: 1 }.emit(b);
    roce::ext::Deth { qkey: 1, src_qpn: 2 }.emit(b);
    let _ = black_box(roce::icrc::fill(b));
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_length_of_nothing() {
        for fill in [0x00, 0xff, 0x45, 0x60, 0xa5] {
            let bytes = [fill; 200];
            for len in 0..bytes.len() {
                fuzz_all(&bytes[..len]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_parser_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            fuzz_all(&bytes);
        }

        /// Small bytes make plausible lengths and types, which random ones rarely are.
        #[test]
        fn no_parser_panics_on_small_numbers(
            mut bytes in prop::collection::vec(0u8..20, 0..200), first in prop::sample::select(&[0x45u8, 0x4f, 0x60][..]),
        ) {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            fuzz_all(&bytes);
        }
    }
}
