//! Packets that nobody's endpoint made.

use barewire_frame::{Frame, Pool};
use barewire_wire::msg::{self, Header, Kind};
use barewire_wire::{EtherType, MacAddr, Protocol, eth, ipv4, udp};
use std::net::Ipv4Addr;

/// A header with nothing in it.
pub fn header(kind: Kind, dst_cid: u64) -> Header {
    Header { kind, flags: 0, dst_cid, seq: 0, ack: 0, stamp: 0, echo: 0, echo_delay: 0, credit: 0 }
}

/// A transport packet with a good CRC: header, then `body` from byte 40 on.
pub fn packet(header: Header, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xa5; msg::COMMON_LEN + body.len()];
    header.emit(&mut bytes);
    bytes[msg::COMMON_LEN..].copy_from_slice(body);
    seal(&mut bytes);
    bytes
}

/// Makes the CRC good.
pub fn seal(packet: &mut [u8]) {
    let crc = crc_fast::crc32_iscsi(&packet[4..]);
    msg::set_crc(packet, crc);
}

/// An IPv4 frame around a UDP payload.
pub fn frame(
    pool: &Pool,
    macs: ([u8; 6], [u8; 6]),
    src: (Ipv4Addr, u16),
    dst: (Ipv4Addr, u16),
    payload: &[u8],
) -> Frame {
    let mut frame = pool.alloc().expect("a frame");
    let len = eth::HEADER_LEN + ipv4::HEADER_LEN + udp::HEADER_LEN + payload.len();
    assert!(frame.set_len(len));
    let data = frame.data_mut();
    data[..6].copy_from_slice(&macs.1);
    data[6..12].copy_from_slice(&macs.0);
    data[12..14].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
    ipv4::Repr {
        src: src.0,
        dst: dst.0,
        protocol: Protocol::UDP,
        payload_len: (udp::HEADER_LEN + payload.len()) as u16,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        ident: 0,
        dont_fragment: true,
    }
    .emit(&mut ipv4::Packet::new_unchecked(&mut data[14..]));
    data[34..36].copy_from_slice(&src.1.to_be_bytes());
    data[36..38].copy_from_slice(&dst.1.to_be_bytes());
    data[38..40].copy_from_slice(&((udp::HEADER_LEN + payload.len()) as u16).to_be_bytes());
    data[40..42].fill(0);
    data[42..].copy_from_slice(payload);
    let _ = MacAddr::ZERO;
    frame
}
