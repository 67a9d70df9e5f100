//! Properties of `handle_frame` on random frames and on valid ones with bytes changed.

mod common;
use common::*;

use barewire_base::Instant;
use barewire_frame::ChecksumState;
use barewire_host::{Host, HostConfig, Input};
use barewire_wire::{EtherType, MacAddr, icmpv4, icmpv6, ipv4};
use proptest::prelude::*;

/// Most frames that a host may send because of one that it got.
const REPLIES_MAX: usize = 2;

fn seeds() -> Vec<Vec<u8>> {
    let echo6 =
        icmp6_packet("fe80::2", "fe80::1", 64, icmpv6::Repr::EchoRequest { ident: 1, seq: 2, data: b"data" });
    let mut echo4 = vec![0; 32];
    ipv4::Repr {
        src: v4("10.0.0.2"),
        dst: v4("10.0.0.1"),
        protocol: barewire_wire::Protocol::ICMP,
        payload_len: 12,
        ttl: 64,
        dscp: 0,
        ecn: 0,
        ident: 0,
        dont_fragment: false,
    }
    .emit(&mut ipv4::Packet::new_unchecked(&mut echo4[..]));
    icmpv4::Repr::EchoRequest { ident: 1, seq: 2, data: b"data" }
        .emit(&mut icmpv4::Packet::new_unchecked(&mut echo4[20..]));
    vec![
        udp_frame("10.0.0.2:5", "10.0.0.1:6", b"payload"),
        udp_frame("[fe80::2]:5", "[fe80::1]:6", b"payload"),
        arp_request(MAC_B, "10.0.0.2", "10.0.0.1"),
        arp_reply(MAC_A, MAC_B, "10.0.0.2", MAC_A, "10.0.0.1"),
        solicit(MAC_B, "fe80::2", "ff02::1:ff00:1", "fe80::1", Some(MAC_B)),
        solicit(MAC_B, "::", "ff02::1:ff00:1", "fe80::1", None),
        advert(MAC_A, MAC_B, "fe80::2", "fe80::1", (true, true)),
        eth_frame(MAC_A, MAC_B, EtherType::IPV6, &echo6),
        eth_frame(MAC_A, MAC_B, EtherType::IPV4, &echo4),
    ]
}

fn state() -> impl Strategy<Value = ChecksumState> {
    prop_oneof![
        Just(ChecksumState::Unknown),
        Just(ChecksumState::Verified),
        (30u16..60, 0u16..20).prop_map(|(start, offset)| ChecksumState::Partial { start, offset }),
    ]
}

/// Gives `frames` to a host that waits for answers, and checks what must hold whatever they are.
fn torture(config: HostConfig, frames: Vec<(Vec<u8>, ChecksumState, u64)>) {
    let pool = pool();
    let mut host = Host::new(config);
    let mut now = at(1_000);
    for peer in ["10.0.0.2:9", "10.0.0.3:9"] {
        host.route(now, sock("10.0.0.1:1"), sock(peer));
    }
    host.route(now, sock("[fe80::1]:1"), sock("[fe80::2]:9"));
    let mut given = 0;
    for (bytes, state, wait_us) in frames {
        let mut sent = 0;
        let mut out = pool.alloc().unwrap();
        while host.poll_transmit(now, &mut out) {
            out = pool.alloc().unwrap();
        }
        let mut frame = pool.alloc_from(&bytes).unwrap();
        frame.set_checksum(state);
        given += 1;
        if let Input::Udp(datagram) = host.handle_frame(now, &frame) {
            assert_eq!(datagram.payload(&frame).len(), usize::from(datagram.payload_len));
            assert!(host.is_local(datagram.dst.ip()) && !host.is_local(datagram.src.ip()));
            host.port_unreachable(&frame, &datagram);
        }
        while host.poll_transmit(now, &mut out) {
            sent += 1;
            assert!(out.len() <= 18 + 1500);
            assert!(out.data()[6..12] == host.config().mac.0);
            out = pool.alloc().unwrap();
        }
        assert!(sent <= REPLIES_MAX, "{sent} frames for one");
        now = Instant::from_nanos(now.as_nanos() + wait_us * 1_000);
        host.handle_timeout(now);
        assert!(host.poll_timeout().is_none_or(|t| t > now));
        assert!(host.neighbours().count() <= host.config().neighbours_max);
        while host.poll_event().is_some() {}
    }
    assert_eq!(host.counters().rx_frames.get(), given);
}

fn hosts() -> impl Strategy<Value = HostConfig> {
    (prop::option::weighted(0.3, Just(7u16)), 3usize..6).prop_map(|(vlan, neighbours_max)| HostConfig {
        vlan,
        neighbours_max,
        ..config(1)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_frames(
        config in hosts(),
        frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..120), state(), 0u64..2_000_000), 1..20),
    ) {
        torture(config, frames);
    }

    #[test]
    fn mutated_frames(
        config in hosts(),
        frames in prop::collection::vec(
            (0usize..9, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), 0usize..40,
             any::<bool>(), state(), 0u64..2_000_000),
            1..40,
        ),
    ) {
        let seeds = seeds();
        let frames = frames.into_iter().map(|(which, changes, cut, tag, state, wait)| {
            let mut bytes = seeds[which].clone();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            // Half the mutated packets get their header checksum mended, so that they get further.
            if bytes[12..14] == [8, 0] && wait % 2 == 0 {
                ipv4::Packet::new_unchecked(&mut bytes[14..]).fill_checksum();
            }
            if cut < 10 {
                bytes.truncate(bytes.len() - cut.min(bytes.len()));
            }
            if tag && bytes.len() > 12 {
                bytes = tagged(7, &bytes);
            }
            (bytes, state, wait)
        });
        torture(config, frames.collect());
    }
}

#[test]
fn the_seeds_themselves_are_valid() {
    for (i, bytes) in seeds().into_iter().enumerate() {
        let mut solo = Solo::new(config(1));
        for dst in ["10.0.0.2:1", "[fe80::2]:1"] {
            let src = if dst.starts_with('[') { "[fe80::1]:1" } else { "10.0.0.1:1" };
            solo.host.route(solo.now, sock(src), sock(dst));
        }
        assert!(!matches!(solo.give(&bytes), Input::Drop(_)), "seed {i}");
        assert!(bytes[..6] == MAC_A.0 || MacAddr(bytes[..6].try_into().unwrap()).is_multicast());
    }
}
