//! Literal words, and the properties of both directions.

use super::*;
use crate::BadEntry;
use barewire_base::Prng;
use proptest::prelude::*;

#[test]
fn literal_words() {
    let sge = Sge { addr: 0x1000, len: 0x40, lkey: 0x77 };
    let post = PostSend {
        qp: 5,
        wr_id: 6,
        op: SendOp::WriteImm {
            addr: 0x2000,
            rkey: 0x88,
            imm: 0x99,
            data: SendData::Sges { n: 1, list: [sge, Sge::default()] },
        },
        signaled: true,
        solicited: false,
        fence: true,
    };
    let words = [0x0000_0099_0001_0555, 0x88_0000_0005, 6, 0x2000, 0x1000, 0x77_0000_0040, 0, 0];
    assert_eq!(Request::PostSend(post).encode(), words);
    let add = SendOp::FetchAdd { addr: 8, rkey: 1, add: 3, result: sge };
    let post = PostSend { op: add, signaled: false, fence: false, ..post };
    assert_eq!(Request::PostSend(post).encode(), [0x58, 0x1_0000_0005, 6, 8, 0x1000, 0x77_0000_0040, 3, 0]);
    let wc = Wc { cq: 9, wr_id: 10, status: 5, opcode: 2, qpn: 11, len: 12, imm: Some(0), invalidated: None };
    assert_eq!(Completion::Wc(wc).encode(), [0x0000_0009_0205_01c7, 12 << 32 | 11, 10, 0, 0, 0, 0, 0]);
    let reg = Request::RegMr { token: 1, pd: 2, recv_memory: true, offset: 3, len: 4, base: 5, access: 0x1f };
    assert_eq!(reg.encode(), [0x0000_0002_0001_1f43, 4 << 32 | 3, 1, 5, 0, 0, 0, 0]);
}

#[test]
fn staged_bytes_come_together_again() {
    let bytes: Vec<u8> = (0..=255).collect();
    for len in [0, 1, 48, 49, 92, 196, 224] {
        let mut stage = Stage::default();
        for piece in Staged::pieces(&bytes[..len]) {
            let Ok(Request::Stage(piece)) = Request::decode(Request::Stage(piece).encode()) else {
                panic!("{len} bytes");
            };
            assert!(stage.add(&piece));
        }
        assert_eq!(stage.data(), &bytes[..len]);
        // Nothing goes above the end, and what is there stays.
        let whole = Staged { len: 48, bytes: [1; 48] };
        while stage.add(&whole) {}
        assert!(stage.data().len() > STAGE_MAX - STAGED_MAX && stage.data()[..len] == bytes[..len]);
        stage.clear();
        assert_eq!(stage.data(), b"");
    }
    // A length beyond the entry.
    let mut words = Request::Stage(Staged { len: 48, bytes: [1; 48] }).encode();
    words[0] = u64::from(STAGE) | 49 << 8;
    assert_eq!(Request::decode(words), Err(BadEntry::Malformed(STAGE)));
    let sge = Sge { addr: 0x0102_0304_0506_0708, len: 9, lkey: 10 };
    assert_eq!(Sge::from_bytes(&sge.to_bytes()), sge);
}

#[test]
fn what_an_operation_does_not_use_must_be_zero() {
    let words = Request::Accept { token: 1, conn: 2, qp: 3 }.encode();
    for bit in 8..512 {
        let mut bent = words;
        bent[bit / 64] ^= 1 << (bit % 64);
        // The connection, the queue pair, the token.
        let used = matches!(bit, 32..=95 | 128..=191);
        assert_eq!(Request::decode(bent).is_ok(), used, "bit {bit}");
    }
    // Each direction refuses the other.
    assert_eq!(Completion::decode(words), Err(BadEntry::UnknownOp(ACCEPT)));
    let words = Completion::Done { token: 1 }.encode();
    assert_eq!(Request::decode(words), Err(BadEntry::UnknownOp(DONE)));
    // An inline read, a list and inline bytes that are too long, an event that there is not.
    for (head, bad) in [(READ, INLINE), (READ, INLINE | STAGED)] {
        assert_eq!(
            Request::decode([u64::from(head) | u64::from(bad) << 8, 0, 0, 0, 0, 0, 0, 0]),
            Err(BadEntry::Malformed(READ))
        );
    }
    for (flags, count, good) in [(0, 2, true), (0, 3, false), (INLINE, 32, true), (INLINE, 33, false)] {
        let head = u64::from(SEND) | u64::from(flags) << 8 | count << 16;
        assert_eq!(Request::decode([head, 0, 0, 0, 0, 0, 0, 0]).is_ok(), good);
    }
    for (kind, good) in [(0, false), (1, true), (event::MAX, true), (event::MAX + 1, false)] {
        let words = [u64::from(EVENT) | u64::from(kind) << 16, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(Completion::decode(words).is_ok(), good);
    }
}

fn ip(prng: &mut Prng) -> IpAddr {
    match prng.below(2) {
        0 => IpAddr::from((prng.next_u64() as u32).to_be_bytes()),
        _ => IpAddr::from((u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64())).to_be_bytes()),
    }
}

fn sge(prng: &mut Prng) -> Sge {
    Sge { addr: prng.next_u64(), len: prng.next_u64() as u32, lkey: prng.next_u64() as u32 }
}

fn list(prng: &mut Prng) -> (u8, [Sge; SGE_MAX]) {
    let mut list = [Sge::default(); SGE_MAX];
    let n = prng.below(3) as usize;
    list[..n].iter_mut().for_each(|place| *place = sge(prng));
    (n as u8, list)
}

fn data(prng: &mut Prng, may_inline: bool) -> SendData {
    match prng.below(if may_inline { 4 } else { 2 }) {
        0 => SendData::StagedSges,
        1 => {
            let (n, list) = list(prng);
            SendData::Sges { n, list }
        }
        2 => SendData::StagedInline,
        _ => {
            let mut bytes = [0; INLINE_MAX];
            let len = prng.below(33) as usize;
            prng.fill(&mut bytes[..len]);
            SendData::Inline { len: len as u8, bytes }
        }
    }
}

fn request(seed: u64) -> Request {
    let p = &mut Prng::new(seed);
    let token = p.next_u64();
    let mut n = || p.next_u64() as u32;
    let (a, b, c, d) = (n(), n(), n(), n());
    let flag = d & 1 == 1;
    let (byte, short, wide) = (d as u8, d as u16, u64::from(c) << 32 | u64::from(d));
    let post = |op| {
        Request::PostSend(PostSend {
            qp: a,
            wr_id: token,
            op,
            signaled: flag,
            solicited: d & 2 != 0,
            fence: d & 4 != 0,
        })
    };
    match p.below(25) {
        0 => Request::Query { token },
        1 => Request::AllocPd { token },
        2 => Request::RegMr {
            token,
            pd: a,
            recv_memory: flag,
            offset: b,
            len: c,
            base: wide,
            access: (c >> 8) as u8,
        },
        3 => Request::CreateCq { token, entries: a },
        4 => Request::CreateSrq { token, pd: a, limit: b },
        5 => Request::ArmSrq { token, srq: a, low: b },
        6 => Request::CreateQp(CreateQp {
            token,
            pd: a,
            send_cq: b,
            recv_cq: c,
            srq: d,
            send_max: a as u16,
            recv_max: b as u16,
            access: c as u8,
        }),
        7 => Request::ModifyQp { token, qp: a, to: byte },
        8 => Request::QueryQp { token, qp: a },
        9 => Request::Destroy { token, object: a },
        10 => Request::Listen { token, service_id: wide, backlog: a },
        11 => Request::Connect(Connect {
            token,
            qp: a,
            service_id: wide,
            src_port: short,
            mtu: b as u8,
            timeout_ms: c,
            local: flag.then(|| ip(p)),
            remote: ip(p),
        }),
        12 => Request::Accept { token, conn: a, qp: b },
        13 => Request::Reject { token, conn: a, reason: short },
        14 => Request::Disconnect { token, conn: a },
        15 => {
            let (n, list) = list(p);
            Request::PostRecv(PostRecv { queue: a, wr_id: token, n: Some(n), list })
        }
        16 => {
            Request::PostRecv(PostRecv { queue: a, wr_id: token, n: None, list: [Sge::default(); SGE_MAX] })
        }
        17 => post(SendOp::Send(data(p, true))),
        18 => post(SendOp::SendImm { imm: b, data: data(p, true) }),
        19 => post(SendOp::SendInvalidate { rkey: b, data: data(p, true) }),
        20 => post(SendOp::Write { addr: wide, rkey: b, data: data(p, true) }),
        21 => post(SendOp::WriteImm { addr: wide, rkey: b, imm: c, data: data(p, true) }),
        22 => post(SendOp::Read { addr: wide, rkey: b, data: data(p, false) }),
        23 => post(SendOp::CompareSwap { addr: wide, rkey: b, compare: token, swap: wide, result: sge(p) }),
        _ => post(SendOp::FetchAdd { addr: wide, rkey: b, add: token, result: sge(p) }),
    }
}

fn completion(seed: u64) -> Completion {
    let p = &mut Prng::new(seed);
    let token = p.next_u64();
    let mut n = || p.next_u64() as u32;
    let (a, b, c, d) = (n(), n(), n(), n());
    let flag = d & 1 == 1;
    let (byte, short, wide) = (d as u8, d as u16, u64::from(c) << 32 | u64::from(d));
    match p.below(9) {
        0 => Completion::Device(Device {
            token,
            mtu: byte,
            queue_pairs: a,
            connections: b,
            regions: c,
            cqs: d,
            requests: a ^ d,
            completions: b ^ d,
        }),
        1 => Completion::Made { token, object: a, key: b },
        2 => Completion::Done { token },
        3 => Completion::Refused { token, code: short, what: a as u16, limit: b },
        4 => Completion::PostRefused { queue: a, wr_id: token, code: short, recv: b & 1 == 1 },
        5 => {
            Completion::Qp { token, state: byte, remote_qpn: a, rq_psn: b, sq_psn: c, sends: d, recvs: a ^ d }
        }
        6 => Completion::Wc(Wc {
            cq: a,
            wr_id: token,
            status: byte,
            opcode: a as u8,
            qpn: b,
            len: c,
            imm: flag.then_some(a ^ b),
            invalidated: (d & 2 != 0).then_some(a ^ c),
        }),
        7 => Completion::ConnectRequest {
            listener: a,
            conn: b,
            service_id: wide,
            remote_qpn: c,
            local: ip(p),
            remote: ip(p),
        },
        _ => Completion::Event {
            kind: 1 + byte % event::MAX,
            object: a,
            other: b,
            why: c as u8,
            reason: c as u16,
        },
    }
}

/// Random words whose first word is likely to name an operation.
fn words() -> impl Strategy<Value = [u64; 8]> {
    let op = prop_oneof![0x40u64..0x60, 0xc0u64..0xd0, any::<u8>().prop_map(u64::from)];
    let head = (op, any::<u64>(), any::<u8>()).prop_map(|(op, rest, how)| match how % 3 {
        0 => op,
        1 => op | (rest & 0x3) << 16,
        _ => op | rest << 8,
    });
    (head, any::<[u64; 7]>(), any::<u8>()).prop_map(|(head, rest, zero)| {
        std::array::from_fn(|i| match i {
            0 => head,
            _ if zero >> i & 1 == 1 => 0,
            _ => rest[i - 1],
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn requests_come_out_as_they_went_in(seed in any::<u64>()) {
        let r = request(seed);
        prop_assert_eq!(Request::decode(r.encode()), Ok(r));
        prop_assert!(Completion::decode(r.encode()).is_err());
        // As entries of the ring, too.
        prop_assert_eq!(crate::Request::decode(r.encode()), Ok(crate::Request::Rdma(r)));
    }

    #[test]
    fn completions_come_out_as_they_went_in(seed in any::<u64>()) {
        let c = completion(seed);
        prop_assert_eq!(Completion::decode(c.encode()), Ok(c));
        prop_assert!(Request::decode(c.encode()).is_err());
        prop_assert_eq!(crate::Completion::decode(c.encode()), Ok(crate::Completion::Rdma(c)));
    }

    #[test]
    fn any_words_are_one_entry_or_an_error(w in words()) {
        if let Ok(request) = Request::decode(w) {
            prop_assert_eq!(request.encode(), w);
        }
        if let Ok(completion) = Completion::decode(w) {
            prop_assert_eq!(completion.encode(), w);
        }
        prop_assert!(crate::Request::decode(w).is_err() || crate::Completion::decode(w).is_err());
    }
}
