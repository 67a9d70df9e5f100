//! Congestion marking: the two ECN bits of an IP header (RFC 3168).

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;

/// Sets Congestion Experienced on an Ethernet frame that carries an ECN-capable IPv4 or IPv6 packet (behind up to two
/// VLAN tags), and repairs the IPv4 header checksum incrementally (RFC 1624, equation 3). True when the frame was
/// changed: a packet that is not ECN-capable (RFC 3168 section 5), already marked, truncated or not IP is left alone.
pub fn mark_ce(frame: &mut [u8]) -> bool {
    let mut at = 12;
    for _ in 0..3 {
        let Some(&[hi, lo]) = frame.get(at..at + 2) else { return false };
        at += 2;
        match u16::from_be_bytes([hi, lo]) {
            ETHERTYPE_VLAN | ETHERTYPE_QINQ => at += 2,
            ETHERTYPE_IPV4 => return frame.get_mut(at..).is_some_and(mark_ipv4),
            ETHERTYPE_IPV6 => return frame.get_mut(at..).is_some_and(mark_ipv6),
            _ => return false,
        }
    }
    false
}

fn mark_ipv4(packet: &mut [u8]) -> bool {
    let Some(header) = packet.get_mut(..20) else { return false };
    if header[0] >> 4 != 4 || !matches!(header[1] & 3, 1 | 2) {
        return false;
    }
    let old = u16::from_be_bytes([header[0], header[1]]);
    header[1] |= 3;
    let new = u16::from_be_bytes([header[0], header[1]]);
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    true
}

fn mark_ipv6(packet: &mut [u8]) -> bool {
    // Version, traffic class and flow label share the first word; ECN is bits 4 and 5 of the second byte.
    let Some(header) = packet.get_mut(..40) else { return false };
    if header[0] >> 4 != 6 || !matches!((header[1] >> 4) & 3, 1 | 2) {
        return false;
    }
    header[1] |= 0x30;
    true
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn sum(header: &[u8]) -> u16 {
        let mut sum: u32 =
            header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], *w.get(1).unwrap_or(&0)]))).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    // 192.0.2.1 -> 192.0.2.2, UDP, ECT(0); the checksum 0xb6cb was added up by hand.
    const IPV4: [u8; 20] = [
        0x45, 0x02, 0x00, 0x1c, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb6, 0xcb, 0xc0, 0x00, 0x02, 0x01, 0xc0,
        0x00, 0x02, 0x02,
    ];

    fn ethernet(tags: &[u16], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![0xa5; 12];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0xa5, 0xa5]);
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(packet);
        frame
    }

    #[test]
    fn ipv4_is_marked_and_its_checksum_follows() {
        assert_eq!(sum(&IPV4), 0xffff, "the test's own header");
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
            let mut frame = ethernet(tags, 0x0800, &IPV4);
            assert!(mark_ce(&mut frame));
            let at = 14 + 4 * tags.len();
            assert_eq!(frame[at + 1], 0x03);
            assert_eq!(frame[at + 10..at + 12], [0xb6, 0xca]);
            assert_eq!(sum(&frame[at..]), 0xffff);
            assert!(!mark_ce(&mut frame), "already marked");
        }
    }

    #[test]
    fn ipv6_is_marked_and_nothing_else_moves() {
        let mut packet = [0xa5u8; 40];
        packet[..2].copy_from_slice(&[0x6a, 0x9c]); // traffic class 0xa9: ECT(1)
        let mut frame = ethernet(&[], 0x86dd, &packet);
        let mut expected = frame.clone();
        expected[15] = 0xbc; // traffic class 0xab
        assert!(mark_ce(&mut frame));
        assert_eq!(frame, expected);
    }

    #[test]
    fn what_is_not_ecn_capable_stays() {
        let mut not_ect = IPV4;
        not_ect[1] = 0xb8;
        for mut frame in [
            ethernet(&[], 0x0800, &not_ect),
            ethernet(&[], 0x0806, &IPV4),
            ethernet(&[], 0x86dd, &IPV4),
            ethernet(&[], 0x0800, &IPV4[..19]),
            ethernet(&[0x8100, 0x8100, 0x8100], 0x0800, &IPV4),
        ] {
            let before = frame.clone();
            assert!(!mark_ce(&mut frame));
            assert_eq!(frame, before);
        }
    }

    proptest! {
        #[test]
        fn the_checksum_holds_for_any_header(mut header in any::<[u8; 20]>(), ect in 1u8..3) {
            header[0] = 0x45;
            header[1] = header[1] & !3 | ect;
            header[10..12].fill(0);
            let checksum = !sum(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            let mut frame = ethernet(&[], 0x0800, &header);
            prop_assert!(mark_ce(&mut frame));
            prop_assert_eq!(sum(&frame[14..]), 0xffff);
        }

        #[test]
        fn any_bytes_are_survived(mut frame in proptest::collection::vec(any::<u8>(), 0..80)) {
            mark_ce(&mut frame);
        }
    }
}
