//! Packet formats.

use crate::frames;
use barewire_wire::{eth, ipv4, ipv6, msg, udp, vlan};
use std::hint::black_box;

/// `data` as a packet of every kind.
pub fn wire(data: &[u8]) -> u64 {
    barewire_wire::fuzz::fuzz_all(data);
    message(data);
    again(data);
    1
}

/// The message header: what parses is written again to the same bytes.
fn message(data: &[u8]) {
    black_box(msg::crc(data));
    black_box(msg::sack_ranges(data).take(msg::SACK_RANGES_MAX + 1).count());
    assert!(msg::sack_ranges(data).count() <= data.len() / 8);
    let Ok(header) = msg::Header::parse(data) else { return };
    let mut out = [0xa5; 128];
    header.emit(&mut out);
    assert_eq!(out[4..msg::COMMON_LEN], data[4..msg::COMMON_LEN]);
    if let Ok((body, payload)) = msg::Data::parse(data) {
        assert!(u64::from(body.offset) + payload.len() as u64 <= u64::from(msg::MESSAGE_LEN_MAX));
        body.emit(&mut out);
        assert_eq!(out[4..msg::DATA_HEADER_LEN], data[4..msg::DATA_HEADER_LEN]);
    }
    if let Ok(body) = msg::Init::parse(data) {
        body.emit(&mut out);
        assert_eq!(msg::Init::parse(&out[..msg::INIT_LEN]), Ok(body));
    }
    if let Ok(body) = msg::Accept::parse(data) {
        body.emit(&mut out);
        assert_eq!(msg::Accept::parse(&out[..msg::ACCEPT_LEN]), Ok(body));
    }
    if let Ok(body) = msg::Reset::parse(data) {
        body.emit(&mut out);
        assert_eq!(msg::Reset::parse(&out[..msg::RESET_LEN]), Ok(body));
    }
    black_box((msg::parse_retry(data).is_ok(), msg::parse_reject(data).is_ok()));
}

/// What the layers of a frame parse to is written and parsed again to the same.
fn again(data: &[u8]) {
    let mut out = [0xa5; 64];
    let packet = eth::Packet::new_unchecked(data);
    if let Ok(repr) = eth::Repr::parse(&packet) {
        repr.emit(&mut eth::Packet::new_unchecked(&mut out[..14]));
        assert_eq!(eth::Repr::parse(&eth::Packet::new_unchecked(&out[..14])), Ok(repr));
    }
    if let Ok(untagged) = vlan::untag(data) {
        assert!(untagged.payload_at <= data.len());
    }
    for l3 in [14, 18] {
        let Some(packet) = data.get(l3..) else { return };
        if let Ok(repr) = ipv4::Repr::parse(&ipv4::Packet::new_unchecked(packet)) {
            let len = usize::from(repr.payload_len);
            assert!(len <= packet.len());
            let mut copy = vec![0xa5; ipv4::HEADER_LEN + len];
            repr.emit(&mut ipv4::Packet::new_unchecked(&mut copy[..]));
            let reread = ipv4::Repr::parse(&ipv4::Packet::new_unchecked(&copy[..])).expect("what we wrote");
            // Options and reserved bits are not ours to write.
            assert_eq!((reread.src, reread.dst, reread.payload_len), (repr.src, repr.dst, repr.payload_len));
            let view = udp::Packet::new_unchecked(&packet[packet.len() - len..]);
            black_box(udp::Repr::parse(&view, repr.src.into(), repr.dst.into()).is_ok());
        }
        if let Ok(repr) = ipv6::Repr::parse(&ipv6::Packet::new_unchecked(packet)) {
            assert!(usize::from(repr.payload_len) <= packet.len());
        }
    }
}

/// Every kind of frame, and every kind of message packet.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut corpus = frames::all();
    // Packets without the frame around them: the views are tried at offset zero, too.
    let inner: Vec<Vec<u8>> =
        corpus.iter().flat_map(|f| [f[14..].to_vec(), f[34.min(f.len())..].to_vec()]).collect();
    corpus.extend(inner);
    let kinds = [msg::Kind::Init, msg::Kind::Accept, msg::Kind::Retry, msg::Kind::Reject];
    for kind in kinds.into_iter().chain([msg::Kind::Data, msg::Kind::Ack, msg::Kind::Reset]) {
        let mut packet = vec![0x11; 96];
        let (dst_cid, seq, ack, stamp, echo, echo_delay, credit) = (2, 3, 4, 5, 6, 7, 8);
        msg::Header { kind, flags: msg::flag::ECHO, dst_cid, seq, ack, stamp, echo, echo_delay, credit }
            .emit(&mut packet);
        match kind {
            msg::Kind::Init => {
                msg::Init { src_cid: 9, mss: 1400, options: 0, cookie: [0; 16] }.emit(&mut packet);
            }
            msg::Kind::Accept => msg::Accept { src_cid: 9, mss: 1400, options: 0 }.emit(&mut packet),
            msg::Kind::Data => msg::Data { msg_id: 1, msg_len: 100, offset: 20 }.emit(&mut packet),
            msg::Kind::Ack => {
                for i in 0..4 {
                    msg::emit_sack_range(&mut packet, i, 10 * i as u32, 10 * i as u32 + 3);
                }
                packet.truncate(msg::COMMON_LEN + 4 * 8);
            }
            msg::Kind::Reset => msg::Reset { proof: 9, reason: 2 }.emit(&mut packet),
            _ => {}
        }
        let crc = crc32c::crc32c(&packet[4..]);
        msg::set_crc(&mut packet, crc);
        corpus.push(packet);
    }
    corpus
}
