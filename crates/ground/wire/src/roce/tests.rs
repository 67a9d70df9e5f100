//! Literal bytes and properties; captured frames are in `tests/roce.rs`.

extern crate std;
use super::cm::{Mad, Message};
use super::*;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::vec::Vec;

#[test]
fn opcodes_say_what_follows() {
    // Table 38 by hand: bytes of extended headers.
    let lens = [
        (0x00, 0),
        (0x03, 4),
        (0x05, 4),
        (0x06, 16),
        (0x09, 4),
        (0x0b, 20),
        (0x0c, 16),
        (0x0d, 4),
        (0x0e, 0),
        (0x11, 4),
        (0x12, 12),
        (0x13, 28),
        (0x16, 4),
        (0x64, 8),
        (0x65, 12),
        (0x81, 16),
    ];
    for (opcode, len) in lens {
        assert_eq!(Opcode(opcode).shape().map(Shape::ext_len), Some(len), "{opcode:#x}");
    }
    for undefined in [0x15, 0x18, 0x20, 0x63, 0x66, 0x80, 0x82, 0xff] {
        assert!(Opcode(undefined).shape().is_none(), "{undefined:#x}");
    }
    let shape = Opcode::WRITE_ONLY_IMM.shape().unwrap();
    assert_eq!(shape.headers.offset_of(Headers::IMM), Some(16));
    assert_eq!(shape.headers.offset_of(Headers::IETH), None);
    assert_eq!(Opcode::ALL.len(), 26);
    for opcode in Opcode::ALL {
        assert!(opcode.shape().is_some() && opcode.name().is_some());
    }
}

#[test]
fn bth_by_the_byte() {
    let repr = bth::Repr {
        opcode: Opcode::SEND_ONLY,
        solicited: true,
        migrated: true,
        pad: 2,
        pkey: 0xffff,
        fecn: false,
        becn: true,
        dst_qpn: 0x12_3456,
        ack_request: true,
        psn: 0xab_cdef,
    };
    let mut bytes = [0xa5; 12];
    repr.emit(&mut bth::Packet::new_unchecked(&mut bytes[..]));
    assert_eq!(bytes, [0x04, 0xe0, 0xff, 0xff, 0x40, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef]);
    assert_eq!(bth::Repr::parse(&bth::Packet::new_unchecked(&bytes[..])), Ok(repr));
    bytes[1] |= 1;
    assert_eq!(bth::Repr::parse(&bth::Packet::new_unchecked(&bytes[..])), Err(Error::Unsupported));
}

#[test]
fn segments_agree_with_their_lengths() {
    // WRITE_ONLY with three bytes of padding, and an ICRC that nobody looks at here.
    let mut bytes = [0u8; 12 + 16 + 4 + 4];
    bytes[0] = 0x0a;
    bytes[1] = 0x30;
    bytes[28] = 7;
    let segment = Segment::parse(&bytes).unwrap();
    assert_eq!(segment.payload, [7]);
    assert_eq!(segment.reth(), Some(ext::Reth { addr: 0, rkey: 0, len: 0 }));
    assert_eq!(segment.aeth(), None);
    assert_eq!(Segment::parse(&bytes[..31]), Err(Error::Truncated));
    assert_eq!(Segment::parse(&bytes[..34]), Err(Error::Malformed));
    assert_eq!(Segment::parse(&bytes[..11]), Err(Error::Truncated));
    bytes[0] = 0x15;
    assert_eq!(Segment::parse(&bytes), Err(Error::Unsupported));
}

#[test]
fn times_are_those_of_the_tables() {
    assert_eq!(rnr_timer_ns(0), 655_360_000);
    assert_eq!(rnr_timer_ns(1), 10_000);
    assert_eq!(rnr_timer_ns(12), 640_000);
    assert_eq!(rnr_timer_ns(31), 491_520_000);
    assert_eq!(rnr_timer_ns(32), rnr_timer_ns(0));
    assert_eq!(timeout_ns(0), None);
    assert_eq!(timeout_ns(14), Some(67_108_864));
    assert_eq!(timeout_code(67_108_864), 14);
    assert_eq!(timeout_code(67_108_865), 15);
    assert_eq!(timeout_code(u64::MAX), 31);
}

#[test]
fn syndromes() {
    use ext::{AckKind, Syndrome};
    assert_eq!(Syndrome(0x05).kind(), AckKind::Ack { credits: 5 });
    assert_eq!(Syndrome::receiver_not_ready(14).kind(), AckKind::ReceiverNotReady { timer: 14 });
    assert_eq!(Syndrome(0x60).kind(), AckKind::SequenceError);
    assert_eq!(Syndrome(0x62).kind(), AckKind::RemoteAccess);
    assert_eq!(Syndrome(0x64).kind(), AckKind::Reserved);
    assert_eq!(Syndrome(0x40).kind(), AckKind::Reserved);
}

#[test]
fn service_ids_of_ports() {
    use rdma_cm::*;
    assert_eq!(service_id(PortSpace::Tcp, 0x1c06), 0x0000_0000_0106_1c06);
    assert_eq!(port_of(0x0000_0000_0106_1c06), Some((PortSpace::Tcp, 0x1c06)));
    assert_eq!(port_of(0x0111_0035), Some((PortSpace::Udp, 0x35)));
    for plain in [50, 0x0107_0001, 0x1_0106_1c06] {
        assert_eq!(port_of(plain), None);
    }
    let v4 = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(gid(v4)[10..], [0xff, 0xff, 10, 0, 0, 1]);
    assert_eq!(address_of(gid(v4)), v4);
    let v6 = IpAddr::V6(Ipv6Addr::LOCALHOST);
    assert_eq!(address_of(gid(v6)), v6);
}

/// RoCE in IPv4 or IPv6, with anything behind the BTH.
fn packet(v6: bool, body: &[u8], variant: [u8; 4]) -> Vec<u8> {
    let udp_len = (8 + 12 + body.len() + 4) as u16;
    let mut p = if v6 {
        let mut p = std::vec![0x60 | variant[0] >> 4, variant[0] << 4 | 5, 6, 7];
        p.extend(udp_len.to_be_bytes());
        p.extend([17, variant[1]]);
        p.extend([9; 32]);
        p
    } else {
        let mut p = std::vec![0x45, variant[0]];
        p.extend((20 + udp_len).to_be_bytes());
        p.extend([0, 1, 0x40, 0, variant[1], 17, variant[2], 3, 10, 0, 0, 1, 10, 0, 0, 2]);
        p
    };
    p.extend([0xc0, 0x01, 0x12, 0xb7]);
    p.extend(udp_len.to_be_bytes());
    p.extend([variant[3], 9]);
    p.extend([0x04, 0, 0xff, 0xff, variant[2], 0, 0, 17, 0, 0, 0, 5]);
    p.extend(body);
    p.extend([0xa5; 4]);
    p
}

/// Bit by bit, from the text of the specification.
fn slow_icrc(packet: &[u8], v6: bool) -> u32 {
    let mut covered = std::vec![0xff; 8];
    covered.extend(&packet[..packet.len() - 4]);
    let at = 8;
    let ip_len = if v6 { 40 } else { 20 };
    let ones: &[usize] = if v6 { &[1, 2, 3, 7] } else { &[1, 8, 10, 11] };
    for &i in ones {
        covered[at + i] = 0xff;
    }
    if v6 {
        covered[at] |= 0x0f;
    }
    for i in [6, 7, 12] {
        covered[at + ip_len + i] = 0xff;
    }
    let mut crc = u32::MAX;
    for byte in covered {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

proptest! {
    #[test]
    fn bth_parse_emit(
        opcode: u8, bits: u8, pad in 0u8..4, pkey: u16, dst_qpn in 0u32..1 << 24, psn in 0u32..1 << 24,
    ) {
        let bit = |i: u8| bits >> i & 1 == 1;
        let repr = bth::Repr {
            opcode: Opcode(opcode), solicited: bit(0), migrated: bit(1), pad, pkey, fecn: bit(2), becn: bit(3), dst_qpn,
            ack_request: bit(4), psn,
        };
        let mut bytes = [0xa5; 12];
        repr.emit(&mut bth::Packet::new_unchecked(&mut bytes[..]));
        prop_assert_eq!(bth::Repr::parse(&bth::Packet::new_unchecked(&bytes[..])), Ok(repr));
    }

    #[test]
    fn extended_headers_parse_emit(a: u64, b: u64, c: u64, d: u32, e: u32, f in 0u32..1 << 24, g: u8) {
        let mut bytes = [0xa5; 28];
        let reth = ext::Reth { addr: a, rkey: d, len: e };
        reth.emit(&mut bytes);
        prop_assert_eq!(ext::Reth::parse(&bytes), Some(reth));
        let atomic = ext::Atomic { addr: a, rkey: d, swap_add: b, compare: c };
        atomic.emit(&mut bytes);
        prop_assert_eq!(ext::Atomic::parse(&bytes), Some(atomic));
        prop_assert_eq!(ext::Atomic::parse(&bytes[..27]), None);
        let aeth = ext::Aeth { syndrome: ext::Syndrome(g), msn: f };
        aeth.emit(&mut bytes);
        prop_assert_eq!(ext::Aeth::parse(&bytes), Some(aeth));
        let deth = ext::Deth { qkey: d, src_qpn: f };
        deth.emit(&mut bytes);
        prop_assert_eq!(ext::Deth::parse(&bytes), Some(deth));
    }

    /// Whatever bytes are taken for a message, what is understood of them survives being written and read again.
    #[test]
    fn messages_parse_emit(mut bytes in prop::collection::vec(any::<u8>(), 256), attribute in 0x10u8..0x1b) {
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[16..18].copy_from_slice(&[0, attribute]);
        let first = Mad::parse(&bytes).unwrap();
        prop_assert_eq!(first.message.attribute() as u16, u16::from(attribute));
        let mut again = [0xa5; 256];
        first.emit(&mut again);
        prop_assert_eq!(Mad::parse(&again), Ok(first));
        // And byte by byte, but for reserved bits: none of the private data is.
        let private = match first.message {
            Message::Req(m) => m.private.len(),
            Message::Rep(m) => m.private.len(),
            Message::Rtu(m) => m.private.len(),
            Message::Rej(m) => m.private.len(),
            Message::Mra(m) => m.private.len(),
            Message::Dreq(m) => m.private.len(),
            Message::Drep(m) => m.private.len(),
            Message::Lap(m) => m.private.len(),
            Message::Apr(m) => m.private.len(),
            Message::SidrReq(m) => m.private.len(),
            Message::SidrRep(m) => m.private.len(),
        };
        prop_assert_eq!(&again[256 - private..], &bytes[256 - private..]);
        prop_assert_eq!(Mad::parse(&bytes[..255]), Err(Error::Truncated));
    }

    #[test]
    fn icrc_equals_the_slow_one(
        v6: bool, body in prop::collection::vec(any::<u8>(), 0..900), variant: [u8; 4], other: [u8; 4], flip: usize,
    ) {
        let mut p = packet(v6, &body, variant);
        let want = slow_icrc(&p, v6);
        prop_assert_eq!(icrc::compute(&p), Ok(want));
        prop_assert_eq!(icrc::check(&p).is_ok(), u32::from_le_bytes(*p.last_chunk().unwrap()) == want);
        prop_assert_eq!(icrc::fill(&mut p), Ok(()));
        prop_assert_eq!(icrc::check(&p), Ok(()));
        // What routers change is not covered, what they may not is.
        prop_assert_eq!(icrc::compute(&packet(v6, &body, other)), Ok(want));
        let at = flip % p.len();
        p[at] ^= 1 << (flip % 8);
        let ip_len = if v6 { 40 } else { 20 };
        let is_variant = |i: usize| match i {
            1..=3 if v6 => i != 1 || flip % 8 < 8,
            7 => v6,
            1 | 8 | 10 | 11 => !v6,
            _ => [6, 7, 12].contains(&i.wrapping_sub(ip_len)),
        };
        if at > 0 && !is_variant(at) {
            prop_assert!(icrc::check(&p).is_err());
        }
    }

    #[test]
    fn deltas_equal_recomputation(v6: bool, changes in prop::collection::vec((0usize..67, any::<u32>()), 0..20)) {
        let body = [0x5a; 8 + 256];
        let mut p = packet(v6, &body, [0; 4]);
        let mut crc = icrc::compute(&p).unwrap();
        let psn_at = p.len() - 4 - 256 - 8 - 4;
        for (word, xor) in changes {
            crc ^= icrc::MAD_DELTAS.of(word, xor);
            let at = psn_at + 4 * word;
            let old = u32::from_be_bytes(*p[at..].first_chunk().unwrap());
            p[at..at + 4].copy_from_slice(&(old ^ xor).to_be_bytes());
        }
        prop_assert_eq!(icrc::compute(&p), Ok(crc));
        prop_assert_eq!(icrc::MAD_DELTAS.of(67, 1), 0);
    }

    #[test]
    fn header_states_equal_recomputation(
        v6: bool, body in prop::collection::vec(any::<u8>(), 0..300), word: u32, psn: u32,
    ) {
        let header = if v6 { 60 } else { 40 };
        let mut p = packet(v6, &body, [1, 2, 3, 4]);
        let state = icrc::HeaderCrc::new(&p[..header]).unwrap();
        let state = icrc::HeaderCrc::from_crc(state.crc(), !v6);
        prop_assert_eq!(state.finish(&body), icrc::compute(&p).unwrap());
        // First and last word of the BTH.
        let last = header / 4 - 1;
        let halves = state.changed_half(last - 2, 0, (word >> 16) as u16).changed_half(last - 2, 1, word as u16);
        assert_eq!(halves, state.changed(last - 2, word));
        let state = state.changed(last - 2, word).changed(last, psn);
        for (at, xor) in [(header - 12, word), (header - 4, psn)] {
            let old = u32::from_be_bytes(*p[at..].first_chunk().unwrap());
            p[at..at + 4].copy_from_slice(&(old ^ xor).to_be_bytes());
        }
        prop_assert_eq!(state.finish(&body), icrc::compute(&p).unwrap());
        prop_assert!(icrc::HeaderCrc::new(&p[..header - 1]).is_none());
    }

    #[test]
    fn ip_headers_of_rdma_cm(src: u32, dst: u32, wide: (u128, u128), src_port: u16, v6: bool) {
        use rdma_cm::{Addresses, IpHeader};
        let addresses = if v6 {
            Addresses::V6 { src: wide.0.into(), dst: wide.1.into() }
        } else {
            Addresses::V4 { src: src.into(), dst: dst.into() }
        };
        let header = IpHeader { src_port, addresses };
        let mut bytes = [0xa5; 36];
        header.emit(&mut bytes);
        prop_assert_eq!(IpHeader::parse(&bytes), Some(header));
        prop_assert_eq!(IpHeader::parse(&bytes[..35]), None);
    }
}
