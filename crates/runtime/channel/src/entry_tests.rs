//! Literal words, and the properties of both directions.

use super::*;
use proptest::prelude::*;

#[test]
fn literal_words() {
    let send = Request::Send { flow: 0x1122, offset: 0x40, len: 0x80, token: 0x77 };
    assert_eq!(send.encode(), [4, 0x1122, 0x77, 0x80_0000_0040, 0, 0, 0, 0]);
    let connect = Request::Connect {
        token: 9,
        local: Some("10.0.0.1".parse().unwrap()),
        local_udp_port: 0x1234,
        remote: "[fe80::1%7]:888".parse().unwrap(),
        ordered: true,
    };
    let (v4, v6) = (1 << 9, 2 << 11);
    assert_eq!(
        connect.encode(),
        [
            1 | 1 << 8 | v4 | v6 | 0x1234 << 16 | 888 << 32,
            0,
            9,
            7 << 32,
            0x0a00_0001,
            0,
            0xfe80_0000_0000_0000,
            1
        ]
    );
    let sent = Completion::Sent { flow: 5, token: 6, offset: 0xffff_ffc0, delivered: true };
    assert_eq!(sent.encode(), [0x188, 5, 6, 0xffff_ffc0, 0, 0, 0, 0]);
    let failed = Completion::ListenFailed { token: 1, udp_port: 0xabcd, code: 0x22 };
    assert_eq!(failed.encode(), [0x22_abcd_0082, 0, 1, 0, 0, 0, 0, 0]);
}

#[test]
fn what_an_operation_does_not_use_must_be_zero() {
    let words = Request::Close { flow: 5 }.encode();
    for bit in (0..64).chain(128..512) {
        let mut bent = words;
        bent[bit / 64] ^= 1 << (bit % 64);
        match (Request::decode(bent), bit) {
            // These two bits make other operations that have a flow.
            (Ok(Request::Reset { flow: 5 }), 0) | (Ok(Request::Send { flow: 5, .. }), 1) => {}
            // And this one makes it one about RDMA that has a number there.
            (Ok(Request::Rdma(_)), 6) => {}
            (other, _) => assert!(other.is_err(), "bit {bit}: {other:?}"),
        }
    }
}

#[test]
fn each_direction_refuses_the_other_and_the_unknown() {
    let request = Request::Close { flow: 1 }.encode();
    assert_eq!(Completion::decode(request), Err(BadEntry::UnknownOp(6)));
    let completion = Completion::Closed { flow: 1, reason: 2 }.encode();
    assert_eq!(Request::decode(completion), Err(BadEntry::UnknownOp(0x8a)));
    assert_eq!(Request::decode([0; 8]), Err(BadEntry::UnknownOp(0)));
    assert_eq!(Completion::decode([0xa5a5_a5a5_a5a5_a5a5; 8]), Err(BadEntry::UnknownOp(0xa5)));
    // A connection to nowhere, and an address of no known family.
    let mut connect = [0; 8];
    connect[0] = 1;
    assert_eq!(Request::decode(connect), Err(BadEntry::Malformed(1)));
    connect[0] = 1 | 3 << 11;
    assert_eq!(Request::decode(connect), Err(BadEntry::Malformed(1)));
    // An IPv4 address has no scope.
    connect = [1 | 1 << 11, 0, 0, 1 << 32, 0, 0, 0x0a00_0001, 0];
    assert_eq!(Request::decode(connect), Err(BadEntry::Malformed(1)));
}

fn ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    ]
}

fn addr() -> impl Strategy<Value = SocketAddr> {
    (ip(), any::<u16>(), any::<u32>()).prop_map(|(ip, port, scope)| match ip {
        IpAddr::V4(ip) => (ip, port).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
    })
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (any::<u64>(), proptest::option::of(ip()), any::<u16>(), addr(), any::<bool>()).prop_map(
            |(token, local, local_udp_port, remote, ordered)| Request::Connect {
                token,
                local,
                local_udp_port,
                remote,
                ordered
            }
        ),
        (any::<u64>(), any::<u16>(), proptest::option::of(ip()))
            .prop_map(|(token, udp_port, local)| Request::Listen { token, udp_port, local }),
        any::<u16>().prop_map(|udp_port| Request::Unlisten { udp_port }),
        any::<(u64, u32, u32, u64)>().prop_map(|(flow, offset, len, token)| Request::Send {
            flow,
            offset,
            len,
            token
        }),
        any::<(u64, u32, u32)>().prop_map(|(flow, offset, len)| Request::Release { flow, offset, len }),
        any::<u64>().prop_map(|flow| Request::Close { flow }),
        any::<u64>().prop_map(|flow| Request::Reset { flow }),
    ]
}

fn completion() -> impl Strategy<Value = Completion> {
    let opened = || (any::<u64>(), any::<u64>(), addr(), addr());
    prop_oneof![
        any::<(u64, u16)>().prop_map(|(token, udp_port)| Completion::Listening { token, udp_port }),
        any::<(u64, u16, u16)>().prop_map(|(token, udp_port, code)| Completion::ListenFailed {
            token,
            udp_port,
            code
        }),
        any::<(u64, u64)>().prop_map(|(token, flow)| Completion::Connecting { token, flow }),
        opened().prop_map(|(token, flow, local, remote)| Completion::Connected {
            token,
            flow,
            local,
            remote
        }),
        any::<(u64, u64, u16)>().prop_map(|(token, flow, reason)| Completion::ConnectFailed {
            token,
            flow,
            reason
        }),
        opened().prop_map(|(token, flow, local, remote)| Completion::Accepted { token, flow, local, remote }),
        any::<(u64, u32, u32)>().prop_map(|(flow, offset, len)| Completion::Received { flow, offset, len }),
        any::<(u64, u64, u32, bool)>().prop_map(|(flow, token, offset, delivered)| Completion::Sent {
            flow,
            token,
            offset,
            delivered
        }),
        any::<(u64, u64, u32, u16)>().prop_map(|(flow, token, offset, code)| Completion::SendRefused {
            flow,
            token,
            offset,
            code
        }),
        any::<(u64, u16)>().prop_map(|(flow, reason)| Completion::Closed { flow, reason }),
        any::<(u64, [u8; 16], [u8; 32])>().prop_map(|(flow, name, key)| Completion::Peer { flow, name, key }),
    ]
}

/// Random words whose first word is likely to name an operation.
fn words() -> impl Strategy<Value = [u64; 8]> {
    let op = prop_oneof![0u64..16, 0x80u64..0x90, any::<u8>().prop_map(u64::from)];
    let head =
        (op, any::<u64>(), any::<bool>()).prop_map(|(op, rest, keep)| if keep { op | rest << 8 } else { op });
    (head, any::<[u64; 7]>(), any::<u8>()).prop_map(|(head, rest, zero)| {
        std::array::from_fn(|i| match i {
            0 => head,
            _ if zero >> i & 1 == 1 => 0,
            _ => rest[i - 1],
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn requests_come_out_as_they_went_in(r in request()) {
        prop_assert_eq!(Request::decode(r.encode()), Ok(r));
        prop_assert!(Completion::decode(r.encode()).is_err());
    }

    #[test]
    fn completions_come_out_as_they_went_in(c in completion()) {
        prop_assert_eq!(Completion::decode(c.encode()), Ok(c));
        prop_assert!(Request::decode(c.encode()).is_err());
    }

    #[test]
    fn any_words_are_one_entry_or_an_error(w in words()) {
        if let Ok(request) = Request::decode(w) {
            prop_assert_eq!(request.encode(), w);
        }
        if let Ok(completion) = Completion::decode(w) {
            prop_assert_eq!(completion.encode(), w);
        }
    }
}
