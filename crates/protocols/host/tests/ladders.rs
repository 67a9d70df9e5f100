//! Packet ladders: one host, literal bytes in, literal bytes out; and what it refuses.

mod common;
use common::*;

use barewire_base::DropReason;
use barewire_frame::ChecksumState;
use barewire_host::{HostEvent, Input, NeighbourState, Route};
use barewire_wire::{EtherType, MacAddr, Protocol, checksum, icmpv4, icmpv6, ipv4, ndisc};

const A: [u8; 6] = MAC_A.0;
const B: [u8; 6] = MAC_B.0;

fn cat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn arp_by_the_byte() {
    let mut solo = Solo::new(config(1));
    let request = cat(&[
        &[0xff; 6],
        &B,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        &B,
        &[10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1],
        &[0; 18], // padded to 60 bytes
    ]);
    assert_eq!(solo.give(&request), Input::Consumed);
    let reply = cat(&[&B, &A, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &A, &[10, 0, 0, 1], &B, &[10, 0, 0, 2]]);
    assert_eq!(solo.take(), Some(reply));
    assert_eq!(solo.take(), None);
    // And our own question.
    solo.host.route(solo.now, sock("10.0.0.1:1"), sock("10.0.0.77:1"));
    let request = cat(&[
        &[0xff; 6],
        &A,
        &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        &A,
        &[10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 77],
    ]);
    assert_eq!(solo.take(), Some(request));
}

#[test]
fn neighbour_solicitation_by_the_byte() {
    let mut solo = Solo::new(config(1));
    assert!(matches!(solo.host.route(solo.now, sock("[fe80::1]:1"), sock("[fe80::2]:1")), Route::Pending));
    let got = solo.take().unwrap();
    let expected = cat(&[
        &[0x33, 0x33, 0xff, 0, 0, 2],
        &A,
        &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255],
        &v6("fe80::1").octets(),
        &v6("ff02::1:ff00:2").octets(),
        &[135, 0],
    ]);
    assert_eq!(got[..56], expected[..]);
    assert_eq!(got[58..62], [0; 4]);
    assert_eq!(got[62..], cat(&[&v6("fe80::2").octets(), &[1, 1], &A]));
    // The answer, asked from the other side: solicitation in, advertisement out.
    let mut other = Solo::new(config(2));
    assert_eq!(other.give(&got), Input::Consumed);
    let reply = other.take().unwrap();
    assert_eq!(reply[..12], cat(&[&A, &B]));
    assert_eq!(reply[22..54], cat(&[&v6("fe80::2").octets(), &v6("fe80::1").octets()]));
    assert_eq!(reply[54..56], [136, 0]);
    assert_eq!(reply[58..], cat(&[&[0x60, 0, 0, 0], &v6("fe80::2").octets(), &[2, 1], &B]));
    assert_eq!(solo.give(&reply), Input::Consumed);
    assert!(matches!(solo.host.route(solo.now, sock("[fe80::1]:1"), sock("[fe80::2]:1")), Route::Ready(_)));
}

#[test]
fn ping4_by_the_byte() {
    let mut solo = Solo::new(config(1));
    let request = cat(&[
        &A,
        &B,
        &[8, 0, 0x45, 0, 0, 31, 0, 1, 0, 0, 64, 1, 0x66, 0xdb, 10, 0, 0, 2, 10, 0, 0, 1],
        &[8, 0, 0xd1, 0x1e, 0x12, 0x34, 0, 1, 0x14, 0xab, 0xff],
    ]);
    let mut request = request;
    ipv4::Packet::new_unchecked(&mut request[14..]).fill_checksum();
    icmpv4::Packet::new_unchecked(&mut request[34..]).fill_checksum();
    let check = checksum::checksum(&[0, 0, 0, 0, 0x12, 0x34, 0, 1, 0x14, 0xab, 0xff]).to_be_bytes();
    request.extend([0; 15]); // padding
    assert_eq!(solo.give(&request), Input::Consumed);
    let reply = solo.take().unwrap();
    assert_eq!(reply[..14], cat(&[&B, &A, &[8, 0]]));
    assert_eq!(reply[14..24], [0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 1]);
    assert_eq!(checksum::checksum(&reply[14..34]), 0);
    assert_eq!(reply[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
    assert_eq!(reply[34..], [0, 0, check[0], check[1], 0x12, 0x34, 0, 1, 0x14, 0xab, 0xff]);
    assert_eq!(solo.host.counters().echoes_answered.get(), 1);
}

#[test]
fn ping6_and_its_limits() {
    let mut solo = Solo::new(config(1));
    let ping = |len: usize| {
        let data = vec![0x5a; len];
        let message = icmpv6::Repr::EchoRequest { ident: 9, seq: 8, data: &data };
        eth_frame(MAC_A, MAC_B, EtherType::IPV6, &icmp6_packet("fe80::2", "fe80::1", 64, message))
    };
    assert_eq!(solo.give(&ping(1452)), Input::Consumed);
    let reply = solo.take().unwrap();
    let expected = icmp6_packet(
        "fe80::1",
        "fe80::2",
        64,
        icmpv6::Repr::EchoReply { ident: 9, seq: 8, data: &[0x5a; 1452] },
    );
    assert_eq!(reply, eth_frame(MAC_B, MAC_A, EtherType::IPV6, &expected));
    assert_eq!(solo.give(&ping(1453)), Input::Drop(DropReason::TooLarge));
    // A flood: first the queue is full, then the rate is spent.
    let (mut full, mut limited) = (0, 0);
    for _ in 0..300 {
        match solo.give(&ping(8)) {
            Input::Drop(DropReason::RingFull) => full += 1,
            Input::Drop(DropReason::RateLimited) => limited += 1,
            other => assert_eq!(other, Input::Consumed),
        }
    }
    assert!(full > 0 && limited > 100);
    let replies = std::iter::from_fn(|| solo.take()).count();
    assert_eq!(replies + full + limited, 300);
    solo.now += ms(1);
    assert_eq!(solo.give(&ping(8)), Input::Consumed);
}

#[test]
fn datagrams_come_out_whole() {
    let mut solo = Solo::new(config(1));
    for (src, dst, start) in [("10.0.0.9:5", "10.0.0.1:6", 42), ("[fe80::9]:5", "[fe80::1]:6", 62)] {
        let bytes = udp_frame(src, dst, b"payload");
        let Input::Udp(d) = solo.give(&bytes) else { panic!() };
        assert_eq!((d.src, d.dst), (sock(src), sock(dst)));
        assert_eq!((d.payload_start, d.payload_len, d.ecn, d.ttl), (start, 7, 1, 64));
        // Padding behind a short packet is not payload.
        let mut padded = bytes.clone();
        padded.extend([0xee; 11]);
        assert_eq!(solo.give(&padded), Input::Udp(d));
        // VLAN 0 is priority only.
        let Input::Udp(tagged) = solo.give(&tagged(0, &bytes)) else { panic!() };
        assert_eq!(tagged.payload_start, start + 4);
        assert_eq!(solo.give(&common::tagged(3, &bytes)), Input::Drop(DropReason::UnknownEtherType));
    }
    // IPv4 options go the general way.
    let mut bytes = udp_frame("10.0.0.9:5", "10.0.0.1:6", b"payload");
    bytes.splice(34..34, [1, 1, 1, 0]);
    bytes[14] = 0x46;
    bytes[17] += 4;
    ipv4::Packet::new_unchecked(&mut bytes[14..]).fill_checksum();
    let Input::Udp(d) = solo.give(&bytes) else { panic!() };
    assert_eq!((d.payload_start, d.payload_len), (46, 7));
    // So does IPv6 with destination options.
    let mut bytes = udp_frame("[fe80::9]:5", "[fe80::1]:6", b"payload");
    bytes.splice(54..54, [17, 0, 1, 4, 0, 0, 0, 0]);
    bytes[20] = 60;
    bytes[19] += 8;
    let Input::Udp(d) = solo.give(&bytes) else { panic!() };
    assert_eq!((d.payload_start, d.payload_len), (70, 7));
}

#[test]
fn drops_have_their_reason() {
    let mut solo = Solo::new(config(1));
    let good = udp_frame("10.0.0.9:5", "10.0.0.1:6", b"payload");
    // Changes byte `at`, mends the IPv4 header checksum, leaves the rest.
    let mut with = |change: &dyn Fn(&mut Vec<u8>), mend: bool| {
        let mut bytes = good.clone();
        change(&mut bytes);
        if mend {
            ipv4::Packet::new_unchecked(&mut bytes[14..]).fill_checksum();
        }
        match solo.give(&bytes) {
            Input::Drop(reason) => reason,
            other => panic!("{other:?}"),
        }
    };
    use DropReason::*;
    assert_eq!(with(&|b| b[5] = 0x77, false), NotOurMac);
    assert_eq!(with(&|b| b[..6].fill(0xff), false), NotOurMac);
    assert_eq!(with(&|b| b[12] = 0x88, false), UnknownEtherType);
    assert_eq!(with(&|b| b[25] ^= 1, false), BadChecksum);
    assert_eq!(with(&|b| *b.last_mut().unwrap() ^= 1, false), BadChecksum);
    assert_eq!(with(&|b| b[33] = 77, true), NotOurAddress);
    assert_eq!(with(&|b| b[30..34].copy_from_slice(&[239, 0, 0, 1]), true), NotOurAddress);
    assert_eq!(with(&|b| b[29] = 1, true), Malformed); // from ourselves
    assert_eq!(with(&|b| b[29] = 255, true), Malformed); // from a broadcast address
    assert_eq!(with(&|b| b[26] = 224, true), Malformed);
    assert_eq!(with(&|b| b[26..30].fill(0), true), Malformed);
    assert_eq!(with(&|b| b[26..30].fill(0xff), true), Malformed);
    assert_eq!(with(&|b| b[20] = 0x20, true), Fragment);
    assert_eq!(with(&|b| b[21] = 1, true), Fragment);
    assert_eq!(with(&|b| b[23] = 6, true), UnknownProtocol);
    assert_eq!(with(&|b| b[14] = 0x65, true), Malformed);
    assert_eq!(with(&|b| b.truncate(40), false), Truncated);
    assert_eq!(with(&|b| b.truncate(13), false), Truncated);
    assert_eq!(with(&|b| b[39] += 1, false), Truncated); // UDP longer than the packet
    assert_eq!(with(&|b| b[39] = 7, false), Malformed);
    assert_eq!(
        with(
            &|b| {
                b[36..38].fill(0); // port 0, and no checksum
                b[40..42].fill(0);
            },
            false
        ),
        Malformed
    );
    assert_eq!(solo.host.counters().drops.total(), 21);
    assert_eq!(solo.host.counters().rx_frames.get(), 21);
}

#[test]
fn impossible_ipv6_senders_are_refused() {
    let mut solo = Solo::new(config(1));
    for src in ["::", "::1", "ff02::1", "::ffff:10.0.0.9", "fe80::1", "2001:db8::1"] {
        let bytes = udp_frame(&format!("[{src}]:5"), "[fe80::1]:6", b"payload");
        assert_eq!(solo.give(&bytes), Input::Drop(DropReason::Malformed), "{src}");
    }
    let bytes = udp_frame("[fe80::9]:5", "[fe80::7]:6", b"payload");
    assert_eq!(solo.give(&bytes), Input::Drop(DropReason::NotOurAddress));
}

#[test]
fn checksums_follow_the_state_of_the_frame() {
    let mut solo = Solo::new(config(1));
    for (src, dst, l4) in [("10.0.0.9:5", "10.0.0.1:6", 34u16), ("[fe80::9]:5", "[fe80::1]:6", 54)] {
        let mut give = |field: [u8; 2], state: ChecksumState| {
            let mut frame = solo.pool.alloc_from(&udp_frame(src, dst, b"payload")).unwrap();
            let at = usize::from(l4) + 6;
            frame.data_mut()[at..at + 2].copy_from_slice(&field);
            frame.set_checksum(state);
            solo.host.handle_frame(solo.now, &frame)
        };
        let wrong = [0x12, 0x34];
        let partial = |start, offset| ChecksumState::Partial { start, offset };
        assert_eq!(give(wrong, ChecksumState::Unknown), Input::Drop(DropReason::BadChecksum));
        assert!(matches!(give(wrong, ChecksumState::Verified), Input::Udp(_)));
        assert!(matches!(give(wrong, partial(l4, 6)), Input::Udp(_)));
        assert_eq!(give(wrong, partial(l4, 16)), Input::Drop(DropReason::UnfinishedChecksum));
        assert_eq!(give(wrong, partial(l4 - 1, 6)), Input::Drop(DropReason::UnfinishedChecksum));
        // None at all: the sender's right over IPv4, forbidden over IPv6.
        for state in [ChecksumState::Unknown, ChecksumState::Verified] {
            match l4 {
                34 => assert!(matches!(give([0, 0], state), Input::Udp(_))),
                _ => assert_eq!(give([0, 0], state), Input::Drop(DropReason::BadChecksum)),
            }
        }
    }
}

#[test]
fn strangers_teach_nothing() {
    let mut solo = Solo::new(config(1));
    // Replies that nobody asked for, to us and to all; an announcement; somebody else's question.
    let spoofs = [
        arp_reply(MAC_A, MAC_EVIL, "10.0.0.2", MAC_A, "10.0.0.1"),
        arp_reply(MacAddr::BROADCAST, MAC_EVIL, "10.0.0.2", MacAddr::BROADCAST, "10.0.0.2"),
    ];
    for bytes in &spoofs {
        assert_eq!(solo.give(bytes), Input::Drop(DropReason::BadNeighbour));
    }
    for bytes in
        [arp_request(MAC_EVIL, "10.0.0.2", "10.0.0.2"), arp_request(MAC_EVIL, "10.0.0.2", "10.0.0.3")]
    {
        assert_eq!(solo.give(&bytes), Input::Drop(DropReason::NotOurAddress));
    }
    // A question for us from off the link is answered and not learned.
    assert_eq!(solo.give(&arp_request(MAC_EVIL, "172.16.0.1", "10.0.0.1")), Input::Consumed);
    assert!(solo.take().is_some());
    assert_eq!(solo.host.neighbours().count(), 0);
    // Unasked advertisements.
    assert_eq!(
        solo.give(&advert(MAC_A, MAC_EVIL, "fe80::2", "fe80::1", (true, true))),
        Input::Drop(DropReason::BadNeighbour)
    );
    assert_eq!(solo.host.neighbours().count(), 0);
    // Somebody with our own address.
    assert_eq!(
        solo.give(&arp_request(MAC_EVIL, "10.0.0.1", "10.0.0.1")),
        Input::Drop(DropReason::BadNeighbour)
    );
    assert_eq!(solo.host.counters().address_conflicts.get(), 1);
    // Senders that cannot be.
    for bytes in [
        arp_request(MacAddr::BROADCAST, "10.0.0.2", "10.0.0.1"),
        arp_request(MacAddr::ZERO, "10.0.0.2", "10.0.0.1"),
        arp_request(MAC_A, "10.0.0.2", "10.0.0.1"),
        arp_request(MAC_EVIL, "224.0.0.1", "10.0.0.1"),
        arp_request(MAC_EVIL, "10.0.0.255", "10.0.0.1"),
    ] {
        assert_eq!(solo.give(&bytes), Input::Drop(DropReason::Malformed));
    }
    assert_eq!(solo.take(), None);
}

/// The MAC that a known neighbour has now.
fn mac_of(solo: &mut Solo, dst: &str) -> (MacAddr, NeighbourState) {
    let ip = sock(dst).ip();
    let view = solo.host.neighbours().find(|n| n.ip == ip).unwrap();
    (view.mac.unwrap(), view.state)
}

#[test]
fn theft_takes_silencing_the_owner() {
    let mut solo = Solo::new(config(1));
    let (src, dst) = (sock("10.0.0.1:1"), "10.0.0.2:1");
    solo.host.route(solo.now, src, sock(dst));
    solo.take();
    assert_eq!(solo.give(&arp_reply(MAC_A, MAC_B, "10.0.0.2", MAC_A, "10.0.0.1")), Input::Consumed);
    let Route::Ready(template) = solo.host.route(solo.now, src, sock(dst)) else { panic!() };
    solo.now += ms(2_000);
    // The claim makes us ask the owner, and the owner only.
    let claims = [
        arp_reply(MacAddr::BROADCAST, MAC_EVIL, "10.0.0.2", MacAddr::BROADCAST, "10.0.0.2"),
        arp_reply(MAC_A, MAC_EVIL, "10.0.0.2", MAC_A, "10.0.0.1"),
        arp_request(MAC_EVIL, "10.0.0.2", "10.0.0.2"),
    ];
    for claim in &claims {
        assert!(matches!(solo.give(claim), Input::Drop(_)));
        assert_eq!(mac_of(&mut solo, dst), (MAC_B, NeighbourState::Doubted));
        let question = solo.take().unwrap();
        assert_eq!(question[..6], B);
        assert_eq!(solo.take(), None);
        // The thief's answer to the owner's question does not count.
        let stolen = arp_reply(MAC_A, MAC_EVIL, "10.0.0.2", MAC_A, "10.0.0.1");
        assert_eq!(solo.give(&stolen), Input::Drop(DropReason::BadNeighbour));
        assert_eq!(solo.give(&arp_reply(MAC_A, MAC_B, "10.0.0.2", MAC_A, "10.0.0.1")), Input::Consumed);
        assert_eq!(mac_of(&mut solo, dst), (MAC_B, NeighbourState::Reachable));
        // Asking is limited too: the next claim within a second has to wait.
        assert!(matches!(solo.give(claim), Input::Drop(_)));
        assert_eq!(solo.take(), None);
        solo.now += ms(1_000);
    }
    assert_eq!(solo.host.generation(), template.generation());
    assert_eq!(solo.host.counters().neighbours_doubted.get(), 3);
}

#[test]
fn failover_takes_a_quarter_of_a_second() {
    let mut solo = Solo::new(config(1));
    let (src, dst) = (sock("10.0.0.1:1"), "10.0.0.2:1");
    solo.host.route(solo.now, src, sock(dst));
    solo.give(&arp_reply(MAC_A, MAC_B, "10.0.0.2", MAC_A, "10.0.0.1"));
    let Route::Ready(template) = solo.host.route(solo.now, src, sock(dst)) else { panic!() };
    while solo.take().is_some() {}
    solo.now += ms(5_000);
    solo.host.handle_timeout(solo.now);
    let start = solo.now;
    solo.give(&arp_request(MAC_EVIL, "10.0.0.2", "10.0.0.2"));
    let mut asked = vec![];
    while asked.len() < 4 {
        let question = solo.take().unwrap();
        asked.push((solo.now.since(start).as_nanos() / 1_000_000, question[..6].to_vec()));
        if asked.len() < 4 {
            solo.now = solo.host.poll_timeout().unwrap();
            solo.host.handle_timeout(solo.now);
        }
    }
    assert_eq!(asked, [(0, B.to_vec()), (10, B.to_vec()), (60, B.to_vec()), (260, vec![0xff; 6])]);
    assert_eq!(solo.host.generation(), template.generation());
    assert_eq!(solo.give(&arp_reply(MAC_A, MAC_EVIL, "10.0.0.2", MAC_A, "10.0.0.1")), Input::Consumed);
    assert_ne!(solo.host.generation(), template.generation());
    let Route::Ready(_) = solo.host.route(solo.now, src, sock(dst)) else { panic!() };
    assert_eq!(mac_of(&mut solo, dst), (MAC_EVIL, NeighbourState::Reachable));
}

#[test]
fn a_claim_too_soon_is_looked_into_later_unless_the_owner_was_heard_from() {
    for heard in [false, true] {
        let mut solo = Solo::new(config(1));
        let (src, dst) = (sock("10.0.0.1:1"), "10.0.0.2:1");
        solo.host.route(solo.now, src, sock(dst));
        solo.give(&arp_reply(MAC_A, MAC_B, "10.0.0.2", MAC_A, "10.0.0.1"));
        while solo.take().is_some() {}
        let confirmed = solo.now;
        solo.now += ms(100);
        // Another in its place asks for us, once.
        assert_eq!(solo.give(&arp_request(MAC_EVIL, "10.0.0.2", "10.0.0.1")), Input::Consumed);
        assert!(solo.take().is_some_and(|answer| answer[..6] == MAC_EVIL.0));
        assert_eq!(mac_of(&mut solo, dst), (MAC_B, NeighbourState::Reachable));
        if heard {
            solo.now += ms(100);
            solo.host.confirm(solo.now, sock(dst).ip());
        }
        // What was due of the first question is over.
        solo.host.handle_timeout(solo.now);
        let due = if heard { solo.now + ms(30_000) } else { confirmed + ms(1_000) };
        assert_eq!(solo.host.poll_timeout(), Some(due));
        solo.now = confirmed + ms(1_000);
        solo.host.handle_timeout(solo.now);
        let doubted = u64::from(!heard);
        assert_eq!(solo.host.counters().neighbours_doubted.get(), doubted);
        assert_eq!(solo.take().is_some(), !heard);
        let state = if heard { NeighbourState::Reachable } else { NeighbourState::Doubted };
        assert_eq!(mac_of(&mut solo, dst), (MAC_B, state));
    }
}

#[test]
fn advertisements_obey_the_override_flag() {
    let mut solo = Solo::new(config(1));
    let (src, dst) = (sock("[fe80::1]:1"), "[fe80::2]:1");
    solo.host.route(solo.now, src, sock(dst));
    // An answer to a group is none, whatever its flags say (section 7.1.2).
    let loud = advert(MacAddr([0x33, 0x33, 0, 0, 0, 1]), MAC_EVIL, "fe80::2", "ff02::1", (true, true));
    assert_eq!(solo.give(&loud), Input::Drop(DropReason::BadNeighbour));
    assert!(matches!(solo.host.route(solo.now, src, sock(dst)), Route::Pending));
    // A solicited advertisement without override is enough for a first answer.
    assert_eq!(solo.give(&advert(MAC_A, MAC_B, "fe80::2", "fe80::1", (true, false))), Input::Consumed);
    assert!(matches!(solo.host.route(solo.now, src, sock(dst)), Route::Ready(_)));
    // Silence, until the question goes to all.
    while solo.host.neighbours().next().unwrap().state != NeighbourState::Probing {
        solo.now = solo.host.poll_timeout().unwrap();
        solo.host.handle_timeout(solo.now);
    }
    for _ in 0..3 {
        let evil = advert(MAC_A, MAC_EVIL, "fe80::2", "fe80::1", (true, true));
        assert_eq!(solo.give(&evil), Input::Drop(DropReason::BadNeighbour));
        solo.now = solo.host.poll_timeout().unwrap();
        solo.host.handle_timeout(solo.now);
    }
    let weak = advert(MAC_A, MAC_EVIL, "fe80::2", "fe80::1", (true, false));
    assert_eq!(solo.give(&weak), Input::Drop(DropReason::BadNeighbour));
    assert_eq!(mac_of(&mut solo, dst), (MAC_B, NeighbourState::Probing));
    let strong = advert(MAC_A, MAC_EVIL, "fe80::2", "fe80::1", (true, true));
    assert_eq!(solo.give(&strong), Input::Consumed);
    assert_eq!(mac_of(&mut solo, dst), (MAC_EVIL, NeighbourState::Reachable));
    assert_eq!(solo.host.generation(), 1);
}

#[test]
fn neighbour_discovery_from_afar_is_refused() {
    let mut solo = Solo::new(config(1));
    let message = icmpv6::Repr::Ndisc(ndisc::Repr::NeighbourSolicit {
        target: v6("fe80::1"),
        source_mac: Some(MAC_EVIL),
    });
    let packet = icmp6_packet("fe80::9", "fe80::1", 254, message);
    let far = eth_frame(MAC_A, MAC_EVIL, EtherType::IPV6, &packet);
    assert_eq!(solo.give(&far), Input::Drop(DropReason::BadNeighbour));
    // From nowhere: only duplicate address detection, which has no MAC and goes to the solicited-node group.
    let group = "ff02::1:ff00:1";
    assert_eq!(
        solo.give(&solicit(MAC_EVIL, "::", group, "fe80::1", Some(MAC_EVIL))),
        Input::Drop(DropReason::BadNeighbour)
    );
    assert_eq!(
        solo.give(&solicit(MAC_EVIL, "::", "ff02::1", "fe80::1", None)),
        Input::Drop(DropReason::BadNeighbour)
    );
    assert_eq!(solo.give(&solicit(MAC_EVIL, "fe80::9", group, "fe80::7", Some(MAC_EVIL))), {
        Input::Drop(DropReason::NotOurAddress)
    });
    assert_eq!(solo.take(), None);
    assert_eq!(solo.host.neighbours().count(), 0);
    assert_eq!(solo.give(&solicit(MAC_EVIL, "::", group, "fe80::1", None)), Input::Consumed);
    let defence = solo.take().unwrap();
    assert_eq!(defence[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(defence[38..54], v6("ff02::1").octets());
    assert_eq!(defence[58], 0x20, "override, not solicited");
    // Echo from nowhere, and to a group.
    let echo = icmpv6::Repr::EchoRequest { ident: 1, seq: 1, data: &[] };
    let give = |solo: &mut Solo, src: &str, dst: &str| {
        let mac = if v6(dst).is_multicast() { MacAddr::from_multicast_v6(v6(dst)) } else { MAC_A };
        solo.give(&eth_frame(mac, MAC_B, EtherType::IPV6, &icmp6_packet(src, dst, 64, echo)))
    };
    assert_eq!(give(&mut solo, "::", "fe80::1"), Input::Drop(DropReason::Malformed));
    assert_eq!(give(&mut solo, "fe80::9", "ff02::1"), Input::Drop(DropReason::NotOurAddress));
    // A router's advertisement changes nothing.
    let advert = icmpv6::Repr::Ndisc(ndisc::Repr::RouterAdvert {
        hop_limit: 64,
        managed: false,
        other_config: false,
        lifetime_s: 1800,
        reachable_ms: 0,
        retrans_ms: 0,
        source_mac: Some(MAC_EVIL),
        mtu: Some(1280),
        prefix: None,
    });
    let packet = icmp6_packet("fe80::99", "ff02::1", 255, advert);
    let frame = eth_frame(MacAddr([0x33, 0x33, 0, 0, 0, 1]), MAC_EVIL, EtherType::IPV6, &packet);
    assert_eq!(solo.give(&frame), Input::Consumed);
    assert_eq!(solo.host.counters().router_adverts_ignored.get(), 1);
    assert_eq!(solo.host.neighbours().count(), 0);
}

#[test]
fn a_question_from_the_peer_resolves_what_we_wait_for() {
    let mut solo = Solo::new(config(1));
    assert!(matches!(solo.host.route(solo.now, sock("10.0.0.1:1"), sock("10.0.0.2:1")), Route::Pending));
    assert_eq!(solo.give(&arp_request(MAC_B, "10.0.0.2", "10.0.0.1")), Input::Consumed);
    assert_eq!(solo.host.poll_event(), Some(HostEvent::Resolved("10.0.0.2".parse().unwrap())));
    assert!(matches!(solo.host.route(solo.now, sock("10.0.0.1:1"), sock("10.0.0.2:1")), Route::Ready(_)));
    // Our own question is moot now: only the answer leaves.
    assert_eq!(solo.take().unwrap()[20..22], [0, 2]);
    assert_eq!(solo.take(), None);
}

#[test]
fn port_unreachable_quotes_the_packet() {
    let mut solo = Solo::new(config(1));
    for (src, dst) in [("10.0.0.9:5", "10.0.0.1:6"), ("[fe80::9]:5", "[fe80::1]:6")] {
        let mut bytes = udp_frame(src, dst, &[7; 1400]);
        let packet = bytes[14..].to_vec();
        bytes.extend([0xee; 4]);
        let frame = solo.pool.alloc_from(&bytes).unwrap();
        solo.now += ms(50);
        let Input::Udp(datagram) = solo.host.handle_frame(solo.now, &frame) else { panic!() };
        solo.host.port_unreachable(&frame, &datagram);
        let error = solo.take().unwrap();
        if src.starts_with('1') {
            assert_eq!(error.len(), 14 + 576);
            assert_eq!(error[22..24], [64, Protocol::ICMP.0]);
            assert_eq!(error[34..36], [3, 3]);
            assert_eq!(error[42..], packet[..548]);
            assert_eq!(checksum::checksum(&error[34..]), 0);
        } else {
            assert_eq!(error.len(), 14 + 1280);
            let message = icmpv6::Repr::Unreachable { code: 4, original: &packet[..1232] };
            assert_eq!(error[14..], icmp6_packet("fe80::1", "fe80::9", 64, message));
        }
        for _ in 0..20 {
            solo.host.port_unreachable(&frame, &datagram);
        }
        assert!(solo.host.counters().drops.get(DropReason::RateLimited) > 0);
        while solo.take().is_some() {}
        // The allowance comes back though nothing but plain datagrams arrives.
        solo.now += ms(20);
        assert!(matches!(solo.host.handle_frame(solo.now, &frame), Input::Udp(_)));
        solo.host.port_unreachable(&frame, &datagram);
        assert!(solo.take().is_some());
    }
}

/// An ICMP port unreachable from a host, to us, that quotes `original`.
fn unreachable(family: u8, original: &[u8]) -> Vec<u8> {
    if family == 6 {
        let message = icmpv6::Repr::Unreachable { code: icmpv6::unreachable::PORT, original };
        return eth_frame(MAC_A, MAC_B, EtherType::IPV6, &icmp6_packet("fe80::9", "fe80::1", 64, message));
    }
    let message = icmpv4::Repr::Unreachable { code: icmpv4::unreachable::PORT, mtu: 0, original };
    let mut packet = vec![0xa5; 20 + message.buffer_len()];
    ipv4::Repr {
        src: v4("10.0.0.9"),
        dst: v4("10.0.0.1"),
        protocol: Protocol::ICMP,
        payload_len: message.buffer_len() as u16,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        ident: 0,
        dont_fragment: true,
    }
    .emit(&mut ipv4::Packet::new_unchecked(&mut packet[..]));
    message.emit(&mut icmpv4::Packet::new_unchecked(&mut packet[20..]));
    eth_frame(MAC_A, MAC_B, EtherType::IPV4, &packet)
}

#[test]
fn a_quoted_datagram_of_ours_is_passed_on_as_far_as_it_goes() {
    let mut solo = Solo::new(config(1));
    for (family, src, dst) in [(4, "10.0.0.1:5", "10.0.0.9:6"), (6, "[fe80::1]:5", "[fe80::9]:6")] {
        let original = udp_packet(sock(src), sock(dst), b"who is there");
        let head = original.len() - 12;
        for cut in 0..=original.len() {
            let bytes = unreachable(family, &original[..cut]);
            let frame = solo.pool.alloc_from(&bytes).unwrap();
            match solo.host.handle_frame(solo.now, &frame) {
                Input::PortUnreachable(quoted) => {
                    assert!(cut >= head);
                    assert_eq!((quoted.src, quoted.dst), (sock(src), sock(dst)));
                    assert_eq!(quoted.payload(&frame), &b"who is there"[..cut - head]);
                }
                other => assert!(cut < head && other == Input::Consumed, "{cut}: {other:?}"),
            }
        }
        // What we cannot have sent, and what is no datagram.
        let foreign = udp_packet(sock(dst), sock(src), b"");
        assert_eq!(solo.give(&unreachable(family, &foreign)), Input::Consumed);
        let mut other = original.clone();
        other[if family == 4 { 9 } else { 6 }] = 6;
        assert_eq!(solo.give(&unreachable(family, &other)), Input::Consumed);
        assert_eq!(solo.host.counters().icmp_errors.get(), if family == 4 { 43 } else { 106 });
    }
    // Other errors are counted only: a packet too big for the path, say.
    let before = solo.host.counters().icmp_errors.get();
    let mut bytes = unreachable(4, &udp_packet(sock("10.0.0.1:5"), sock("10.0.0.9:6"), b"who"));
    bytes[35] = 4;
    bytes[36..38].fill(0);
    let sum = checksum::checksum(&bytes[34..]);
    bytes[36..38].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(solo.give(&bytes), Input::Consumed);
    assert_eq!(solo.host.counters().icmp_errors.get(), before + 1);
}

#[test]
fn a_host_says_twice_where_it_is() {
    for vlan in [None, Some(7)] {
        let mut solo = Solo::new(barewire_host::HostConfig { vlan, ..config(1) });
        assert!(!solo.host.has_transmit() && solo.take().is_none(), "only when told to");
        solo.host.announce();
        for round in 0..2 {
            assert!(solo.host.has_transmit());
            let said: Vec<_> = std::iter::from_fn(|| solo.take()).collect();
            let l3 = if vlan.is_some() { 18 } else { 14 };
            assert_eq!(said.len(), 3, "one IPv4 address and two of IPv6");
            assert_eq!(said[0][..6], [0xff; 6]);
            assert_eq!(said[0][l3 + 6..l3 + 8], [0, 1], "an announcement is a request");
            assert_eq!(said[0][l3 + 8..l3 + 18], [&MAC_A.0[..], &[10, 0, 0, 1]].concat());
            assert_eq!(said[0][l3 + 24..l3 + 28], [10, 0, 0, 1]);
            for (frame, ip) in said[1..].iter().zip(["2001:db8::1", "fe80::1"]) {
                assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
                let message = icmpv6::Repr::Ndisc(ndisc::Repr::NeighbourAdvert {
                    router: false,
                    solicited: false,
                    override_known: true,
                    target: v6(ip),
                    target_mac: Some(MAC_A),
                });
                assert_eq!(frame[l3..], icmp6_packet(ip, "ff02::1", 255, message));
            }
            assert!(!solo.host.has_transmit());
            let due = (round == 0).then_some(solo.now + ms(2_000));
            assert_eq!(solo.host.poll_timeout(), due);
            solo.now += ms(2_000);
            solo.host.handle_timeout(solo.now);
        }
        assert_eq!(solo.take(), None);
        assert_eq!(solo.host.counters().adverts_sent.get(), 6);
    }
}

#[test]
fn an_announcement_finds_those_who_remember_another_mac() {
    let mut net = Net::pair();
    for (src, dst) in [("10.0.0.1:1", "10.0.0.2:1"), ("[fe80::1]:1", "[fe80::2]:1")] {
        net.exchange(0, 1, src, dst, b"before");
    }
    net.advance(ms(2_000));
    // The same addresses in another place, which says so.
    net.hosts[1] = barewire_host::Host::new(barewire_host::HostConfig { mac: MAC_EVIL, ..config(2) });
    net.hosts[1].announce();
    net.advance(ms(400));
    for (src, dst) in [("10.0.0.1:1", "10.0.0.2:1"), ("[fe80::1]:1", "[fe80::2]:1")] {
        net.exchange(0, 1, src, dst, b"after");
    }
}

#[test]
fn a_frame_without_room_loses_the_reply_and_nothing_else() {
    let mut solo = Solo::new(config(1));
    solo.give(&arp_request(MAC_B, "10.0.0.2", "10.0.0.1"));
    let mut frame = solo.pool.alloc().unwrap();
    let room = frame.tailroom();
    assert!(frame.set_len(room) && frame.pull_front(room - 20) && frame.set_len(0));
    assert!(!solo.host.poll_transmit(solo.now, &mut frame));
    assert_eq!(solo.host.counters().drops.get(DropReason::TooLarge), 1);
    assert_eq!(solo.take(), None);
}
