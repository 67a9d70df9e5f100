//! Transport checksums that a sender left to its hardware: finding and recognising them.
//!
//! Linux hands such a packet (`CHECKSUM_PARTIAL`) to a virtual peer as it is: the field holds the folded sum of the
//! pseudo-header, not complemented (kernel `Documentation/networking/checksum-offloads.rst`).

use barewire_wire::checksum::{fold, sum};

const ETH_LEN: usize = 14;
const IPV6_LEN: usize = 40;
const PROTO_TCP: u8 = 6;
const PROTO_UDP: u8 = 17;

/// Where a UDP or TCP header and its checksum field lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transport {
    /// First byte of the header, from the start of the frame.
    pub start: u16,
    /// The checksum field, from `start`.
    pub offset: u16,
    /// Folded sum of the pseudo-header.
    pub pseudo: u16,
}

/// Finds the transport header of an Ethernet frame (up to two VLAN tags) that holds UDP or TCP over IPv4, or over IPv6
/// without extension headers. `None` for anything else, for fragments and for a frame that is cut short.
pub fn transport(frame: &[u8]) -> Option<Transport> {
    let (mut kind, mut at) = (u16_at(frame, 12)?, ETH_LEN);
    for _ in 0..2 {
        if matches!(kind, 0x8100 | 0x88a8) {
            kind = u16_at(frame, at + 2)?;
            at += 4;
        }
    }
    let ip = frame.get(at..)?;
    let (header, proto, addresses, payload) = match kind {
        0x0800 => {
            let header = usize::from(*ip.first()? & 0x0f) * 4;
            let total = usize::from(u16_at(ip, 2)?);
            // More fragments, or an offset: the transport header covers more than this packet.
            if ip[0] >> 4 != 4 || header < 20 || u16_at(ip, 6)? & 0x3fff != 0 {
                return None;
            }
            (header, *ip.get(9)?, ip.get(12..20)?, total.checked_sub(header)?)
        }
        0x86dd => {
            if *ip.first()? >> 4 != 6 {
                return None;
            }
            (IPV6_LEN, *ip.get(6)?, ip.get(8..40)?, usize::from(u16_at(ip, 4)?))
        }
        _ => return None,
    };
    let offset = match proto {
        PROTO_UDP => 6,
        PROTO_TCP => 16,
        _ => return None,
    };
    if header + payload > ip.len() || usize::from(offset) + 2 > payload {
        return None;
    }
    Some(Transport {
        start: u16::try_from(at + header).ok()?,
        offset,
        pseudo: fold(sum(addresses) + u32::from(proto) + payload as u32),
    })
}

/// What a switch's program in the kernel puts in front of a packet for a controller: bytes, and the EtherType that they begin with as
/// an Ethernet frame.
pub const TAG_LEN: usize = 32;
/// See [`TAG_LEN`].
pub const TAG_TYPE: [u8; 2] = [0x88, 0xb5];

/// Where in such a tag stands, in two bytes, how much of the switch's own follows it.
pub const TAG_CONTEXT: usize = 14;
/// The most of that.
pub const MAX_CONTEXT: usize = 128;

/// How long the tag at the beginning of these bytes is, with what follows it.
pub fn tag_len(tag: &[u8]) -> Option<usize> {
    let tag = tag.get(..TAG_LEN).filter(|tag| tag[12..14] == TAG_TYPE)?;
    let context = usize::from(u16::from_be_bytes([tag[TAG_CONTEXT], tag[TAG_CONTEXT + 1]]));
    (context <= MAX_CONTEXT).then_some(TAG_LEN + context)
}

/// Finds the transport header of the frame that stands behind such a tag; a VLAN tag that had come beside the frame may be in it.
pub fn behind_tag(frame: &[u8]) -> Option<Transport> {
    let vlan = matches!(frame.get(12..14), Some([0x81, 0x00] | [0x88, 0xa8]));
    let len = match tag_len(frame) {
        Some(len) => len,
        None if vlan => tag_len(frame.get(4..)?)? + 4,
        None => return None,
    };
    let found = transport(frame.get(len..)?)?;
    Some(Transport { start: found.start.checked_add(len as u16)?, ..found })
}

/// Writes the sum of the pseudo-header anew where an unfinished checksum is marked: whoever forwarded the frame may have changed
/// addresses. Left as it is where the mark is not that of the transport header which [`transport`] finds.
#[inline]
pub fn restart(frame: &mut [u8], start: u16, offset: u16) {
    if let Some(found) = transport(frame)
        && (found.start, found.offset) == (start, offset)
    {
        let field = usize::from(start) + usize::from(offset);
        if let Some(field) = frame.get_mut(field..field + 2) {
            field.copy_from_slice(&found.pseudo.to_be_bytes());
        }
    }
}

/// Recognises a checksum that was left unfinished, by its value: the bare sum of the pseudo-header. A finished checksum
/// looks like that once in 65,536 packets; such a packet is then taken for unfinished, which loses its check, no more.
pub fn find_unfinished(frame: &[u8]) -> Option<Transport> {
    let found = transport(frame)?;
    let field = u16_at(frame, usize::from(found.start) + usize::from(found.offset))?;
    (field == found.pseudo).then_some(found)
}

fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    let bytes = data.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use barewire_wire::checksum::complete;
    use proptest::prelude::*;

    /// 10.0.0.1:9 to 10.0.0.2:7, UDP, `hi!`; pseudo-header 0a00+0001+0a00+0002+0011+000b = 0x141f.
    const UDP4: [u8; 45] = [
        0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0x08, 0x00, 0x45, 0x00, 0x00,
        0x1f, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xa5, 0xa5, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x00, 0x02,
        0x00, 0x09, 0x00, 0x07, 0x00, 0x0b, 0x14, 0x1f, b'h', b'i', b'!',
    ];

    #[test]
    fn an_unfinished_datagram_is_found_and_completed() {
        let mut frame = UDP4;
        let found = find_unfinished(&frame).unwrap();
        assert_eq!(found, Transport { start: 34, offset: 6, pseudo: 0x141f });
        assert!(complete(&mut frame, usize::from(found.start), usize::from(found.offset)));
        // 0009+0007+000b+141f+6869+2100 = 9da3, complemented.
        assert_eq!(&frame[40..42], &[0x62, 0x5c]);
        assert_eq!(find_unfinished(&frame), None, "finished now");
        assert_eq!(&frame[..40], &UDP4[..40]);
        assert_eq!(&frame[42..], &UDP4[42..]);
    }

    #[test]
    fn changed_addresses_are_followed() {
        let mut frame = UDP4;
        frame[29] = 9;
        restart(&mut frame, 34, 16);
        assert_eq!(&frame[40..42], &UDP4[40..42], "the mark of something else");
        restart(&mut frame, 34, 6);
        assert_eq!(&frame[40..42], &[0x14, 0x27]);
        restart(&mut frame[..44], 34, 6);
        assert_eq!(&frame[40..42], &[0x14, 0x27], "cut short: left alone");
    }

    #[test]
    fn a_tag_moves_the_header() {
        let mut frame = UDP4[..12].to_vec();
        frame.extend_from_slice(&[0x81, 0x00, 0x00, 0x05]);
        frame.extend_from_slice(&UDP4[12..]);
        assert_eq!(find_unfinished(&frame).unwrap().start, 38);
    }

    #[test]
    fn a_packet_behind_a_controllers_tag_is_found() {
        let mut frame = vec![0; TAG_LEN];
        frame.extend_from_slice(&UDP4);
        assert_eq!(behind_tag(&frame), None, "no tag");
        frame[12..14].copy_from_slice(&TAG_TYPE);
        assert_eq!(behind_tag(&frame), Some(Transport { start: 66, offset: 6, pseudo: 0x141f }));
        assert_eq!((transport(&frame), behind_tag(&frame[..40]), behind_tag(&[])), (None, None, None));
        // With something between them.
        frame[TAG_CONTEXT + 1] = 8;
        frame.splice(TAG_LEN..TAG_LEN, [0xa5; 8]);
        assert_eq!(behind_tag(&frame), Some(Transport { start: 74, offset: 6, pseudo: 0x141f }));
        frame[TAG_CONTEXT] = 1;
        assert_eq!(behind_tag(&frame), None, "more than there may be");
    }

    #[test]
    fn fragments_and_other_protocols_are_left_alone() {
        let mut frame = UDP4;
        frame[20] = 0x20;
        assert_eq!(transport(&frame), None, "more fragments");
        let mut frame = UDP4;
        frame[23] = 1;
        assert_eq!(transport(&frame), None, "ICMP");
        assert_eq!(transport(&UDP4[..44]), None, "cut short");
    }

    #[test]
    fn tcp_over_ipv6_has_its_field_elsewhere() {
        let mut frame = vec![0xa5; 12];
        frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64]);
        frame.extend_from_slice(&[0; 15]);
        frame.push(1);
        frame.extend_from_slice(&[0; 15]);
        frame.push(2);
        frame.extend_from_slice(&[0xa5; 20]);
        assert_eq!(transport(&frame), Some(Transport { start: 54, offset: 16, pseudo: 1 + 2 + 6 + 20 }));
    }

    proptest! {
        #[test]
        fn what_was_completed_is_no_longer_unfinished(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut frame = UDP4[..42].to_vec();
            let len = 8 + payload.len() as u16;
            frame[16..18].copy_from_slice(&(20 + len).to_be_bytes());
            frame[38..40].copy_from_slice(&len.to_be_bytes());
            frame.extend_from_slice(&payload);
            let found = transport(&frame).unwrap();
            frame[40..42].copy_from_slice(&found.pseudo.to_be_bytes());
            prop_assert_eq!(find_unfinished(&frame), Some(found));
            prop_assert!(complete(&mut frame, usize::from(found.start), usize::from(found.offset)));
            // The receiver adds the pseudo-header to everything.
            prop_assert_eq!(fold(sum(&frame[34..]) + u32::from(found.pseudo)), 0xffff);
        }

        #[test]
        fn no_bytes_panic(data in proptest::collection::vec(any::<u8>(), 0..80), kind in 0usize..3) {
            let mut data = data;
            if data.len() > 14 {
                data[12..14].copy_from_slice(&[[8, 0], [0x86, 0xdd], [0x81, 0]][kind]);
            }
            let _ = find_unfinished(&data);
        }
    }
}
