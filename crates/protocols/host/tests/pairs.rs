//! Hosts wired together: resolution, loss, ageing, gateways, VLANs, both families.

mod common;
use common::*;

use barewire_base::DropReason;
use barewire_host::{HostEvent, Input, NeighbourState, Route};
use barewire_wire::MacAddr;

#[test]
fn ipv4_resolves_and_exchanges() {
    let mut net = Net::pair();
    net.exchange(0, 1, "10.0.0.1:1000", "10.0.0.2:2000", b"ping");
    assert_eq!(net.events, [(0, HostEvent::Resolved("10.0.0.2".parse().unwrap()))]);
    // The request taught the other side: no second resolution.
    let mark = net.wire.len();
    net.exchange(1, 0, "10.0.0.2:2000", "10.0.0.1:1000", b"pong");
    assert!(net.arp_requests(mark).is_empty());
    assert_eq!(net.wire.len(), mark + 1);
    assert_eq!(net.hosts[0].generation(), 0);
}

#[test]
fn ipv6_resolves_and_exchanges() {
    let mut net = Net::pair();
    net.exchange(0, 1, "[2001:db8::1]:1000", "[2001:db8::2]:2000", b"ping");
    net.exchange(1, 0, "[2001:db8::2]:2000", "[2001:db8::1]:1000", b"pong");
    net.exchange(0, 1, "[fe80::1]:1", "[fe80::2]:2", b"");
    assert_eq!(net.hosts[1].counters().drops.total(), 0);
}

#[test]
fn a_vlan_is_tagged_both_ways_and_others_stay_out() {
    let on = |n, vlan| barewire_host::HostConfig { vlan, ..config(n) };
    let mut net = Net::new(vec![on(1, Some(7)), on(2, Some(7)), on(3, Some(8)), on(4, None)]);
    net.exchange(0, 1, "10.0.0.1:1", "10.0.0.2:2", b"x");
    net.exchange(1, 0, "[2001:db8::2]:1", "[2001:db8::1]:2", b"yy");
    assert!(net.wire.iter().all(|(_, b)| b[12..16] == [0x81, 0, 0, 7]));
    for outsider in [2, 3] {
        assert!(net.hosts[outsider].counters().drops.get(DropReason::UnknownEtherType) > 0);
        assert_eq!(net.hosts[outsider].neighbours().count(), 0);
    }
}

#[test]
fn off_link_goes_through_the_gateway() {
    let mut a = config(1);
    a.gateway4 = Some(v4("10.0.0.2"));
    a.gateway6 = Some(v6("fe80::2"));
    let mut b = config(2);
    b.ipv4.push((v4("192.0.2.1"), 32));
    b.ipv6.push((v6("2001:db8:ffff::1"), 128));
    let mut net = Net::new(vec![a, b]);
    net.exchange(0, 1, "10.0.0.1:1", "192.0.2.1:2", b"far");
    assert_eq!(net.events, [(0, HostEvent::Resolved("10.0.0.2".parse().unwrap()))]);
    assert_eq!(net.hosts[0].next_hop("192.0.2.1".parse().unwrap()), Some("10.0.0.2".parse().unwrap()));
    net.exchange(0, 1, "[2001:db8::1]:1", "[2001:db8:ffff::1]:2", b"far");
    // The other has no gateway.
    let route = net.hosts[1].route(net.now, sock("10.0.0.2:1"), sock("198.51.100.1:2"));
    assert!(matches!(route, Route::Unreachable));
    assert_eq!(net.hosts[1].source_for("198.51.100.1".parse().unwrap()), None);
}

#[test]
fn a_lost_request_is_repeated_within_milliseconds() {
    for (src, dst) in [("10.0.0.1:1", "10.0.0.2:2"), ("[2001:db8::1]:1", "[2001:db8::2]:2")] {
        let mut net = Net::pair();
        net.lose = 1;
        assert!(matches!(net.hosts[0].route(net.now, sock(src), sock(dst)), Route::Pending));
        net.settle();
        net.advance(ms(9));
        assert!(net.events.is_empty());
        net.advance(ms(1));
        assert_eq!(net.events, [(0, HostEvent::Resolved(sock(dst).ip()))]);
        net.exchange(0, 1, src, dst, b"late");
    }
}

#[test]
fn retries_follow_the_schedule_and_end() {
    let mut net = Net::new(vec![config(1)]);
    let start = net.now;
    let (src, dst) = (sock("10.0.0.1:1"), sock("10.0.0.9:2"));
    assert!(matches!(net.hosts[0].route(net.now, src, dst), Route::Pending));
    let mut sent = vec![];
    while net.events.is_empty() {
        let mark = net.wire.len();
        net.settle();
        sent.extend(net.arp_requests(mark).iter().map(|mac| {
            assert!(mac.is_broadcast());
            net.now.since(start).as_nanos() / 1_000_000
        }));
        if net.events.is_empty() {
            net.now = net.hosts[0].poll_timeout().expect("it keeps trying");
            net.hosts[0].handle_timeout(net.now);
            assert!(net.now.since(start) <= barewire_host::RESOLVE_TIMEOUT);
            while let Some(event) = net.hosts[0].poll_event() {
                net.events.push((0, event));
            }
        }
    }
    assert_eq!(sent, [0, 10, 60, 260, 1260, 2260]);
    assert_eq!(net.events, [(0, HostEvent::Unreachable(dst.ip()))]);
    assert_eq!(net.now.since(start), barewire_host::RESOLVE_TIMEOUT);
    // For a second nothing is asked again; then it is.
    let mark = net.wire.len();
    net.advance(ms(999));
    assert!(matches!(net.hosts[0].route(net.now, src, dst), Route::Unreachable));
    net.settle();
    assert_eq!(net.wire.len(), mark);
    net.advance(ms(1));
    assert_eq!(net.hosts[0].neighbours().count(), 0);
    assert_eq!(net.hosts[0].poll_timeout(), None);
    assert!(matches!(net.hosts[0].route(net.now, src, dst), Route::Pending));
}

#[test]
fn neighbours_in_use_are_probed_by_unicast_and_stay_usable() {
    let mut net = Net::pair();
    let template = net.template(0, "10.0.0.1:1", "10.0.0.2:2");
    let mark = net.wire.len();
    net.advance(ms(29_999));
    assert_eq!(net.wire.len(), mark);
    net.advance(ms(1));
    assert_eq!(net.arp_requests(mark), [MAC_B]);
    assert_eq!(net.hosts[0].generation(), template.generation());
    net.send(0, &template, b"still good");
    assert_eq!(net.received.len(), 1);
    // Ten minutes on it is still known, one question per half minute.
    let mark = net.wire.len();
    net.advance(ms(600_000));
    assert_eq!(net.arp_requests(mark).len(), 20);
    assert_eq!(net.hosts[0].generation(), template.generation());
    // The other side never used what it learned: it forgot.
    assert!(net.events.iter().all(|(host, _)| *host == 0));
}

#[test]
fn confirmation_by_upper_layers_saves_the_probes() {
    for (src, dst) in [("10.0.0.1:1", "10.0.0.2:2"), ("[2001:db8::1]:1", "[2001:db8::2]:2")] {
        let mut net = Net::pair();
        net.template(0, src, dst);
        let mark = net.wire.len();
        for _ in 0..20 {
            net.advance(ms(10_000));
            let now = net.now;
            net.hosts[0].confirm(now, sock(dst).ip());
        }
        assert_eq!(net.wire.len(), mark);
    }
}

#[test]
fn a_silent_neighbour_is_given_up_after_three_probes_and_a_broadcast() {
    let mut net = Net::pair();
    let template = net.template(0, "10.0.0.1:1", "10.0.0.2:2");
    net.advance(ms(29_999));
    net.events.clear();
    let mark = net.wire.len();
    net.lose = usize::MAX;
    net.advance(ms(4_000));
    assert_eq!(net.arp_requests(mark), [MAC_B, MAC_B, MAC_B, MacAddr::BROADCAST]);
    assert_eq!(net.hosts[0].generation(), template.generation(), "usable to the end");
    net.advance(ms(1));
    assert_eq!(net.events, [(0, HostEvent::Unreachable("10.0.0.2".parse().unwrap()))]);
    assert_ne!(net.hosts[0].generation(), template.generation());
    // It comes back.
    net.lose = 0;
    net.advance(ms(1_000));
    assert_eq!(net.hosts[0].generation(), template.generation() + 1, "once for each loss");
    net.exchange(0, 1, "10.0.0.1:1", "10.0.0.2:2", b"again");
}

#[test]
fn learned_but_unused_neighbours_age_out_silently() {
    let mut net = Net::pair();
    net.template(0, "10.0.0.1:1", "10.0.0.2:2");
    let learned: Vec<_> = net.hosts[1].neighbours().collect();
    assert_eq!((learned[0].mac, learned[0].state), (Some(MAC_A), NeighbourState::Reachable));
    net.lose = usize::MAX; // host 0 must not refresh it by its own probes
    let mark = net.wire.len();
    net.advance(ms(30_000));
    assert_eq!(net.hosts[1].neighbours().count(), 0);
    assert!(net.wire[mark..].iter().all(|(from, _)| *from == 0));
}

#[test]
fn groups_and_broadcasts_need_no_resolution() {
    let mut net = Net::new(vec![config(1)]);
    for (src, dst, mac) in [
        ("10.0.0.1:1", "239.1.2.3:9", [0x01, 0, 0x5e, 1, 2, 3]),
        ("10.0.0.1:1", "10.0.0.255:9", [0xff; 6]),
        ("[fe80::1]:1", "[ff02::1:3]:9", [0x33, 0x33, 0, 1, 0, 3]),
    ] {
        let template = net.template(0, src, dst);
        net.send(0, &template, b"all");
        assert_eq!(net.wire.last().unwrap().1[..6], mac, "{dst}");
    }
    assert_eq!(net.wire.len(), 3);
}

#[test]
fn routes_that_cannot_be() {
    let mut net = Net::pair();
    for (src, dst) in [
        ("10.0.0.2:1", "10.0.0.3:1"),       // not our source
        ("10.0.0.1:1", "[fe80::2]:2"),      // mixed
        ("10.0.0.1:1", "0.0.0.0:2"),        // nowhere
        ("[fe80::1]:1", "[2001:db9::1]:2"), // off-link, no gateway
    ] {
        let route = net.hosts[0].route(net.now, sock(src), sock(dst));
        let unreachable =
            matches!(route, Route::Unreachable) || dst == "[fe80::2]:2" && matches!(route, Route::Pending);
        assert!(unreachable, "{src} -> {dst}: {route:?}");
    }
}

#[test]
fn what_goes_to_ourselves_comes_in_by_its_own_door() {
    for vlan in [None, Some(7)] {
        let mut net = Net::new(vec![barewire_host::HostConfig { vlan, ..config(1) }]);
        for (src, dst) in [("10.0.0.1:1", "10.0.0.1:2"), ("[fe80::1]:1", "[2001:db8::1]:2")] {
            let template = net.template(0, src, dst);
            net.send(0, &template, b"to us");
            let bytes = net.wire.pop().unwrap().1;
            assert_eq!(bytes[..6], net.hosts[0].config().mac.0, "{dst}");
            let frame = net.pool.alloc_from(&bytes).unwrap();
            let Input::Udp(datagram) = net.hosts[0].handle_local(net.now, &frame) else { panic!("{dst}") };
            assert_eq!((datagram.src, datagram.dst), (sock(src), sock(dst)));
            assert_eq!(datagram.payload(&frame), b"to us");
            // The same frame from the wire is somebody's lie.
            let from_wire = net.hosts[0].handle_frame(net.now, &frame);
            assert_eq!(from_wire, Input::Drop(DropReason::Malformed), "{dst}");
        }
        // And what is not from us does not come in by that door.
        let template = net.template(0, "10.0.0.1:1", "10.0.0.1:2");
        net.send(0, &template, b"not from us");
        let mut bytes = net.wire.pop().unwrap().1;
        let source_at = if vlan.is_some() { 30 } else { 26 };
        bytes[source_at + 3] ^= 3;
        let frame = net.pool.alloc_from(&bytes).unwrap();
        assert_eq!(net.hosts[0].handle_local(net.now, &frame), Input::Drop(DropReason::Malformed));
    }
}

#[test]
fn udp_checksums_over_ipv4_are_optional_and_checked() {
    let mut net = Net::new(vec![barewire_host::HostConfig { udp_checksum4: true, ..config(1) }, config(2)]);
    net.exchange(0, 1, "10.0.0.1:1", "10.0.0.2:2", b"summed");
    let mut bytes = net.wire.last().unwrap().1.clone();
    assert_ne!(bytes[40..42], [0, 0]);
    *bytes.last_mut().unwrap() ^= 0x20;
    let frame = net.pool.alloc_from(&bytes).unwrap();
    assert_eq!(net.hosts[1].handle_frame(net.now, &frame), Input::Drop(DropReason::BadChecksum));
    net.exchange(1, 0, "10.0.0.2:2", "10.0.0.1:1", b"not summed");
    assert_eq!(net.wire.last().unwrap().1[40..42], [0, 0]);
}
