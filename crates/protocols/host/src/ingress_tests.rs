//! The fast path against the general one.

use super::*;
use crate::HostConfig;
use barewire_wire::{ipv4, ipv6};
use proptest::prelude::*;

fn host(vlan: Option<u16>) -> Host {
    let mut config = HostConfig::new(MacAddr([2, 0, 0, 0, 0, 1]));
    config.ipv4 = vec![(Ipv4Addr::new(10, 0, 0, 1), 24)];
    config.ipv6 = vec![(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), 64)];
    config.vlan = vlan;
    Host::new(config)
}

/// A frame from host 2, made by the way out.
fn frame(v6: bool, vlan: Option<u16>, sums: bool, payload: &[u8]) -> Vec<u8> {
    let config = HostConfig { vlan, udp_checksum4: sums, ..HostConfig::new(MacAddr([2, 0, 0, 0, 0, 2])) };
    let ends = if v6 { ("[fe80::2]:7", "[fe80::1]:9") } else { ("10.0.0.2:7", "10.0.0.1:9") };
    let (src, dst) = (ends.0.parse().unwrap(), ends.1.parse().unwrap());
    let t = crate::Template::new(&config, MacAddr([2, 0, 0, 0, 0, 1]), src, dst, 64, 0).unwrap();
    let mut bytes = vec![0xa5; t.header_len() + payload.len()];
    bytes[t.header_len()..].copy_from_slice(payload);
    t.seal(&mut bytes, 3);
    bytes
}

fn fast(host: &Host, data: &[u8], state: ChecksumState) -> Option<Datagram> {
    match host.config.vlan {
        None => host.fast::<ETH, false>(data, state),
        Some(vid) if is_tagged(data, vid) => host.fast::<TAGGED, false>(data, state),
        Some(_) => None,
    }
}

#[test]
fn good_frames_take_the_fast_path() {
    for vlan in [None, Some(7)] {
        for (v6, sums) in [(false, false), (false, true), (true, true)] {
            let bytes = frame(v6, vlan, sums, b"payload");
            let datagram = fast(&host(vlan), &bytes, ChecksumState::Unknown).expect("fast");
            assert_eq!((datagram.payload_len, datagram.ecn, datagram.ttl), (7, 3, 64));
            assert_eq!(&bytes[usize::from(datagram.payload_start)..], b"payload");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// What the fast path accepts the general path accepts with the same result, and what is accepted without options is
    /// accepted by the fast path.
    #[test]
    fn both_paths_agree(
        v6: bool, vlan in prop::option::of(Just(7u16)), sums: bool,
        payload in prop::collection::vec(any::<u8>(), 0..24),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in prop_oneof![3 => Just(0usize), 1 => 0usize..60], pad in 0usize..20, mend: bool,
        state in prop_oneof![
            Just(ChecksumState::Unknown), Just(ChecksumState::Verified),
            Just(ChecksumState::Partial { start: 34, offset: 6 }), Just(ChecksumState::Partial { start: 54, offset: 6 }),
        ],
    ) {
        let mut bytes = frame(v6, vlan, sums, &payload);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let l3 = if vlan.is_some() { TAGGED } else { ETH };
        if mend && !v6 {
            ipv4::Packet::new_unchecked(&mut bytes[l3..]).fill_checksum();
        }
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        bytes.extend(vec![0xee; pad]);
        let mut host = host(vlan);
        let quick = fast(&host, &bytes, state);
        let slow = host.general(Instant::from_nanos(1), &bytes, state);
        if let Some(datagram) = quick {
            prop_assert_eq!(slow, Ok(Input::Udp(datagram)));
        } else if let Ok(Input::Udp(datagram)) = slow {
            let header = if v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
            prop_assert_ne!(usize::from(datagram.payload_start), l3 + header + udp::HEADER_LEN, "{:?}", datagram);
        }
    }
}
