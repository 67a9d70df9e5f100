//! What one application can do to another through the daemon's device: nothing.

mod common;

use barewire_base::Prng;
use barewire_channel::rdma::{self as entry, Completion as Rdma, Request as Verb, SendData, code};
use barewire_channel::{AppChannel, Completion, Geometry, Request};
use barewire_engine::now;
use barewire_roce::{Access, Data, RejReason, SendOp, SendWr, WcStatus};
use barewire_verbs::context::{ConnectTo, ContextError, Event, Failure, QpAttr, Refusal};
use common::rdma::*;
use common::*;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Asks by a raw channel and waits for the answer.
fn ask(channel: &mut AppChannel, verb: Verb) -> Rdma {
    assert!(channel.submit(&Request::Rdma(verb)));
    match completion(channel) {
        Completion::Rdma(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn made(channel: &mut AppChannel, verb: Verb) -> u32 {
    match ask(channel, verb) {
        Rdma::Made { object, .. } => object,
        other => panic!("{other:?}"),
    }
}

/// Writes 64 KiB over a connection and looks at it.
fn works(a: &mut End, b: &mut End, seed: u64) {
    let bytes = pattern(seed, 1 << 16);
    a.mr.write(0, &bytes);
    let op = SendOp::Write { addr: b.mr.addr(), rkey: b.mr.rkey() };
    a.context.post_send(a.qp, &SendWr::new(seed, op, Data::Sges(&[a.mr.sge(0, 1 << 16)]))).unwrap();
    assert_eq!(a.done().wr_id, seed);
    assert!(b.mr.read(0, 1 << 16) == bytes, "{seed}");
}

#[test]
fn anothers_objects_are_refused_as_if_there_were_none() {
    let pair = rdma_pair();
    let (mut a, mut b) = joined(&pair, "victim", 1, 1 << 16);
    let srq = a.context.create_srq(a.pd, 10).unwrap();
    let listener = a.context.listen(50, 4).unwrap();
    // A wish that the victim has not decided.
    let other_qp = b.context.create_qp(&QpAttr::new(b.pd, b.cq)).unwrap();
    b.context.start_connect(other_qp, &ConnectTo::new(v4(1).into(), 50), PATIENCE).unwrap();
    let wish = a.context.get_request(listener, PATIENCE).unwrap();
    let (_control, fds, _) = attach_raw(&pair.a, None);
    let mut raw = AppChannel::attach(fds).unwrap();
    let token = 1;
    let pd = made(&mut raw, Verb::AllocPd { token });
    let cq = made(&mut raw, Verb::CreateCq { token, entries: 10 });
    let create = |pd: u32, send_cq: u32, recv_cq: u32, srq: u32| {
        Verb::CreateQp(entry::CreateQp {
            token,
            pd,
            send_cq,
            recv_cq,
            srq,
            send_max: 1,
            recv_max: 1,
            access: 0,
        })
    };
    let qp = made(&mut raw, create(pd, cq, cq, 0));
    let send = |qp| {
        Verb::PostSend(entry::PostSend {
            qp,
            wr_id: 7,
            op: entry::SendOp::Send(SendData::Inline { len: 0, bytes: [0; 32] }),
            signaled: true,
            solicited: false,
            fence: false,
        })
    };
    let recv =
        |queue| Verb::PostRecv(entry::PostRecv { queue, wr_id: 8, n: Some(0), list: Default::default() });
    let reg = |pd| Verb::RegMr { token, pd, recv_memory: false, offset: 0, len: 64, base: 0, access: 31 };
    let (apd, acq, aqp, asrq) = (a.pd.number(), a.cq.number(), a.qp.number(), srq.number());
    let conn = wish.conn.number();
    let foreign = [
        send(aqp),
        recv(aqp),
        recv(asrq),
        reg(apd),
        create(apd, cq, cq, 0),
        create(pd, acq, cq, 0),
        create(pd, cq, acq, 0),
        create(pd, cq, cq, asrq),
        Verb::CreateSrq { token, pd: apd, limit: 1 },
        Verb::ArmSrq { token, srq: asrq, low: 1 },
        Verb::ModifyQp { token, qp: aqp, to: 6 },
        Verb::QueryQp { token, qp: aqp },
        Verb::Destroy { token, object: aqp },
        Verb::Destroy { token, object: acq },
        Verb::Destroy { token, object: apd },
        Verb::Destroy { token, object: asrq },
        Verb::Destroy { token, object: a.mr.number() },
        Verb::Destroy { token, object: listener.number() },
        Verb::Accept { token, conn, qp },
        Verb::Reject { token, conn, reason: 28 },
        Verb::Disconnect { token, conn },
        Verb::Connect(entry::Connect {
            token,
            qp: aqp,
            service_id: 1,
            src_port: 0,
            mtu: 0,
            timeout_ms: 1,
            local: None,
            remote: v4(2).into(),
        }),
    ];
    for (i, verb) in foreign.iter().enumerate() {
        let answer = ask(&mut raw, *verb);
        assert_eq!(Some(answer), verb.refusal(code::UNKNOWN, 0, 0), "{verb:?}");
        eventually("it is counted", || counter(&pair.a, "applications.not_theirs") == i as u64 + 1);
    }
    // What never was anybody's is refused alike, and is no offence; nor is the wrong kind of what is one's own.
    for object in [0, 1, 0xfff, 0xffff_ffff, pd ^ 1 << 31] {
        assert!(matches!(ask(&mut raw, Verb::QueryQp { token, qp: object }), Rdma::Refused { code: 1, .. }));
    }
    for qp in [pd, cq] {
        assert!(matches!(ask(&mut raw, send(qp)), Rdma::PostRefused { code: 1, .. }));
    }
    assert_eq!(counter(&pair.a, "applications.not_theirs"), foreign.len() as u64);
    // Memory that is not in the channel.
    for (offset, len) in [(u32::MAX, 1), (0, u32::MAX), (64 << 20, 1), ((64 << 20) - 1, 2)] {
        let verb = Verb::RegMr { token, pd, recv_memory: true, offset, len, base: 0, access: 31 };
        assert!(matches!(ask(&mut raw, verb), Rdma::Refused { code: code::INVALID, .. }), "{offset} {len}");
    }
    // The victim has noticed nothing.
    works(&mut a, &mut b, 1);
    a.context.reject(&wish, RejReason::CONSUMER, b"").unwrap();
    assert!(matches!(b.context.wait_event(PATIENCE).unwrap(), Event::ConnectFailed { .. }));
    assert_eq!(a.context.next_event(), None);
}

#[test]
fn anothers_keys_open_nothing() {
    let pair = rdma_pair();
    let (mut a, mut b) = joined(&pair, "victim", 1, 1 << 16);
    // Same daemon as the victim's peer, same port, same device: another protection domain.
    let mut tries = vec![];
    let (addr, rkey) = (b.mr.addr(), b.mr.rkey());
    tries.push(SendOp::Write { addr, rkey });
    tries.push(SendOp::Read { addr, rkey });
    tries.push(SendOp::FetchAdd { addr, rkey, add: 1 });
    b.mr.write(0, &[3; 64]);
    for (i, op) in tries.into_iter().enumerate() {
        let (mut thief, accomplice) = joined(&pair, "thief", 10 + i as u64, 4096);
        let list = [thief.mr.sge(0, 8)];
        thief.context.post_send(thief.qp, &SendWr::new(1, op, Data::Sges(&list))).unwrap();
        let wc = thief.context.wait_cq_any(thief.cq, PATIENCE).unwrap();
        assert_eq!(wc.result, Err(Failure::Failed(WcStatus::RemoteAccess)), "{op:?}");
        drop(accomplice);
    }
    // The key of the victim's own memory, used as if it were the thief's.
    let (mut thief, accomplice) = joined(&pair, "thief", 20, 4096);
    let op = SendOp::Write { addr: accomplice.mr.addr(), rkey: accomplice.mr.rkey() };
    thief.context.post_send(thief.qp, &SendWr::new(1, op, Data::Sges(&[a.mr.sge(0, 8)]))).unwrap();
    let wc = thief.context.wait_cq_any(thief.cq, PATIENCE).unwrap();
    assert_eq!(wc.result, Err(Failure::Failed(WcStatus::LocalProtection)));
    assert_eq!(b.mr.read(0, 64), [3; 64]);
    works(&mut a, &mut b, 1);
}

#[test]
fn contexts_of_one_process_are_told_apart() {
    let pair = rdma_pair();
    let mut a = End::new(&pair.a, "a", 4096);
    let mut b = End::new(&pair.a, "b", 4096);
    let wrong = |e: Result<(), ContextError>| assert!(matches!(e, Err(ContextError::WrongContext)), "{e:?}");
    wrong(a.context.destroy_qp(b.qp));
    wrong(a.context.post_recv(b.qp, 1, &[]));
    wrong(a.context.poll_cq_one(b.cq).map(|_| ()));
    wrong(a.context.create_qp(&QpAttr::new(a.pd, b.cq)).map(|_| ()));
    wrong(a.context.create_qp(&QpAttr::new(b.pd, a.cq)).map(|_| ()));
    wrong(a.context.reg_mr(b.pd, 1, Access::NONE).map(|_| ()));
    wrong(a.context.dealloc_pd(b.pd));
    let listener = b.context.listen(1, 1).unwrap();
    wrong(a.context.unlisten(listener));
    wrong(a.context.get_request(listener, Duration::ZERO).map(|_| ()));
    assert_eq!(counter(&pair.a, "applications.not_theirs"), 0);
}

#[test]
fn quotas_are_said_by_name_and_one_applications_are_not_anothers() {
    let pair = rdma_pair_with(|c| {
        let q = &mut c.rdma.quotas;
        (q.domains, q.regions, q.completion_queues, q.completions) = (2, 3, 2, 100);
        (q.shared_receive_queues, q.queue_pairs, q.requests) = (1, 4, 600);
        (q.listeners, q.connections) = (2, 3);
    });
    let mut a = open(&pair.a, "a");
    let limits = a.query_device();
    assert_eq!((limits.queue_pairs, limits.connections, limits.regions, limits.requests), (4, 3, 3, 600));
    let over = |e: Result<(), ContextError>, key: &str, value: u32| match e {
        Err(ContextError::Refused(Refusal::Quota { what, limit })) => {
            assert_eq!((what, limit), (key, value));
            let text = ContextError::from(Refusal::Quota { what, limit }).to_string();
            assert!(text.contains(&format!("rdma.{key} = {value}")), "{text}");
        }
        other => panic!("{key}: {other:?}"),
    };
    let pd = a.alloc_pd().unwrap();
    let spare = a.alloc_pd().unwrap();
    over(a.alloc_pd().map(|_| ()), "domains", 2);
    a.dealloc_pd(spare).unwrap();
    a.alloc_pd().unwrap();
    over(a.create_cq(101).map(|_| ()), "completions", 100);
    let cq = a.create_cq(60).unwrap();
    over(a.create_cq(41).map(|_| ()), "completions", 100);
    a.create_cq(40).unwrap();
    over(a.create_cq(1).map(|_| ()), "completion_queues", 2);
    for _ in 0..3 {
        a.reg_mr(pd, 100, Access::ALL).unwrap();
    }
    over(a.reg_mr(pd, 100, Access::ALL).map(|_| ()), "regions", 3);
    over(a.create_srq(pd, 601).map(|_| ()), "requests", 600);
    let srq = a.create_srq(pd, 500).unwrap();
    over(a.create_srq(pd, 1).map(|_| ()), "shared_receive_queues", 1);
    // More receives than the queue has entries for their completions.
    let e = a.create_qp(&QpAttr { recv_max: 61, ..QpAttr::new(pd, cq) }).unwrap_err();
    assert!(matches!(e, ContextError::Refused(Refusal::CqTooSmall)), "{e}");
    // 500 receives are taken: one queue pair with 60 fits, the second does not, unless it shares.
    let own = QpAttr { recv_max: 60, ..QpAttr::new(pd, cq) };
    let first = a.create_qp(&own).unwrap();
    over(a.create_qp(&own).map(|_| ()), "requests", 600);
    let sharing = QpAttr { srq: Some(srq), ..QpAttr::new(pd, cq) };
    for _ in 0..3 {
        a.create_qp(&sharing).unwrap();
    }
    over(a.create_qp(&sharing).map(|_| ()), "queue_pairs", 4);
    a.listen(1, 100).unwrap();
    a.listen(2, 100).unwrap();
    over(a.listen(3, 1).map(|_| ()), "listeners", 2);
    eventually("they are counted", || counter(&pair.a, "rdma.over_quota") == 10);
    // Another application has its own.
    let (mut b, mut c) = (open(&pair.a, "b"), open(&pair.b, "c"));
    let (bpd, bcq) = (b.alloc_pd().unwrap(), b.create_cq(100).unwrap());
    // Connections: the fourth is refused here, and by a peer that has three.
    let small = QpAttr { send_max: 1, recv_max: 1, ..QpAttr::new(bpd, bcq) };
    let (cpd, ccq) = (c.alloc_pd().unwrap(), c.create_cq(100).unwrap());
    let c_small = QpAttr { send_max: 1, recv_max: 1, ..QpAttr::new(cpd, ccq) };
    let listener = c.listen(9, 100).unwrap();
    let to = ConnectTo::new(v4(2).into(), 9);
    for _ in 0..3 {
        let (qp, theirs) = (b.create_qp(&small).unwrap(), c.create_qp(&c_small).unwrap());
        b.start_connect(qp, &to, PATIENCE).unwrap();
        let wish = c.get_request(listener, PATIENCE).unwrap();
        c.accept(&wish, theirs, b"").unwrap();
        c.wait_established(theirs, PATIENCE).unwrap();
        assert!(matches!(b.wait_event(PATIENCE).unwrap(), Event::Connected { .. }));
    }
    let fourth = b.create_qp(&small).unwrap();
    over(b.start_connect(fourth, &to, PATIENCE).map(|_| ()), "connections", 3);
    let mut d = open(&pair.a, "d");
    let (dpd, dcq) = (d.alloc_pd().unwrap(), d.create_cq(100).unwrap());
    let qp = d.create_qp(&QpAttr { send_max: 1, recv_max: 1, ..QpAttr::new(dpd, dcq) }).unwrap();
    let e = d.connect(qp, &to, PATIENCE).unwrap_err();
    assert!(matches!(e, ContextError::Rejected(RejReason::NO_RESOURCES)), "{e}");
    eventually("it is counted", || counter(&pair.b, "rdma.turned_away") == 1);
    // Gone, everything is to be had again.
    a.destroy_qp(first).unwrap();
    a.create_qp(&QpAttr { recv_max: 60, send_max: 100, ..QpAttr::new(pd, cq) }).unwrap();
    drop(a);
    eventually("nothing is left of it", || counter(&pair.a, "applications.count") == 2);
    let mut again = open(&pair.a, "again");
    let pd = again.alloc_pd().unwrap();
    for _ in 0..3 {
        again.reg_mr(pd, 1 << 20, Access::ALL).unwrap();
    }
    // The memory has an end, too; the error says so before the daemon is asked.
    assert!(matches!(again.reg_mr(pd, 1 << 30, Access::ALL), Err(ContextError::NoMemory(_))));
}

/// A request about RDMA with numbers that are sometimes somebody's.
fn noise(prng: &mut Prng, known: &[u32]) -> Verb {
    let mut n = || match prng.below(4) {
        0 => prng.next_u64() as u32,
        1 => prng.below(300) as u32,
        _ => known[prng.below(known.len() as u64) as usize],
    };
    let (a, b, c, d) = (n(), n(), n(), n());
    let (token, byte) = (u64::from(a), (b ^ c) as u8);
    let mut bytes = [0; 48];
    let sges = SendData::Sges { n: (a % 3) as u8, list: Default::default() };
    match prng.below(20) {
        0 => Verb::Query { token },
        1 => Verb::AllocPd { token },
        2 => Verb::RegMr {
            token,
            pd: a,
            recv_memory: b & 1 == 1,
            offset: c % (1 << 17),
            len: d % (1 << 17),
            base: u64::from(d) << (c % 40),
            access: byte % 40,
        },
        3 => Verb::CreateCq { token, entries: b % 5000 },
        4 => Verb::CreateSrq { token, pd: a, limit: b % 5000 },
        5 => Verb::ArmSrq { token, srq: a, low: b },
        6 => Verb::CreateQp(entry::CreateQp {
            token,
            pd: a,
            send_cq: b,
            recv_cq: c,
            srq: if d & 1 == 0 { 0 } else { d },
            send_max: c as u16 % 300,
            recv_max: d as u16 % 300,
            access: byte % 32,
        }),
        7 => Verb::ModifyQp { token, qp: a, to: byte % 9 },
        8 => Verb::QueryQp { token, qp: a },
        9 => Verb::Destroy { token, object: a },
        10 => Verb::Listen { token, service_id: u64::from(a % 8), backlog: b },
        11 => Verb::Connect(entry::Connect {
            token,
            qp: a,
            service_id: u64::from(b % 8),
            src_port: c as u16,
            mtu: byte % 7,
            timeout_ms: d % 50,
            local: None,
            remote: v4((c % 4) as u8).into(),
        }),
        12 => Verb::Accept { token, conn: a, qp: b },
        13 => Verb::Reject { token, conn: a, reason: b as u16 },
        14 => Verb::Disconnect { token, conn: a },
        15 => {
            prng.fill(&mut bytes);
            Verb::Stage(entry::Staged { len: 48, bytes })
        }
        16 => Verb::PostRecv(entry::PostRecv { queue: a, wr_id: token, n: None, list: Default::default() }),
        17 => {
            Verb::PostRecv(entry::PostRecv { queue: a, wr_id: token, n: Some(2), list: Default::default() })
        }
        18 => Verb::PostSend(entry::PostSend {
            qp: a,
            wr_id: token,
            op: entry::SendOp::Write { addr: u64::from(b), rkey: c, data: SendData::StagedSges },
            signaled: true,
            solicited: false,
            fence: false,
        }),
        _ => Verb::PostSend(entry::PostSend {
            qp: a,
            wr_id: token,
            op: entry::SendOp::Read { addr: u64::from(b), rkey: c, data: sges },
            signaled: d & 1 == 1,
            solicited: true,
            fence: true,
        }),
    }
}

#[test]
fn noise_in_the_ring_harms_nobody_else() {
    let seed = 5;
    println!("seed {seed}");
    let mut prng = Prng::new(seed);
    let pair = rdma_pair();
    let (mut a, mut b) = joined(&pair, "victim", 100, 1 << 16);
    let geometry = Geometry { sq_entries: 64, cq_entries: 256, send_bytes: 1 << 16, recv_bytes: 1 << 16 };
    let ring = 640 + 256..640 + 256 + 64 * 64;
    let end = now() + Duration::from_millis(1500).into();
    let (mut lives, mut made) = (0u64, 0u64);
    while now() < end || lives < 20 {
        lives += 1;
        let daemon = if lives % 2 == 0 { &pair.a } else { &pair.b };
        let (_control, fds, _) = attach_raw(daemon, Some(geometry));
        let mut raw = AppChannel::attach(clone_fds(&fds)).unwrap();
        // What it may name: the victim's objects and its own, as they are made.
        let mut known = vec![a.qp.number(), a.cq.number(), a.pd.number(), a.mr.number(), b.qp.number()];
        for round in 0..300 {
            let _ = raw.submit(&Request::Rdma(noise(&mut prng, &known)));
            raw.flush();
            while let Some(completion) = raw.next_completion() {
                if let Ok(Completion::Rdma(Rdma::Made { object, .. })) = completion {
                    known.push(object);
                    made += 1;
                }
            }
            if lives % 4 == 0 && round % 10 == 0 {
                // Words that are no entries, and one more of them than were submitted.
                let file = File::from(fds.memory.try_clone().unwrap());
                let mut words = [0; 64];
                prng.fill(&mut words);
                words[0] = 0x40 + (words[0] & 0x1f);
                let at = ring.start + 64 * prng.below(64);
                file.write_all_at(&words, at).unwrap();
                let mut word = [0; 8];
                file.read_exact_at(&mut word, 640).unwrap();
                file.write_all_at(&(u64::from_ne_bytes(word) + 1).to_ne_bytes(), 640).unwrap();
            }
            if round % 50 == 0 {
                works(&mut a, &mut b, round);
            }
        }
    }
    let refused = counter(&pair.a, "rdma.requests_refused") + counter(&pair.b, "rdma.requests_refused");
    let bad = counter(&pair.a, "applications.bad_entries");
    let offences = counter(&pair.a, "applications.not_theirs");
    println!(
        "{lives} lives, {made} objects made, {refused} requests refused, {bad} bad entries, {offences} offences"
    );
    assert!(made > 100 && refused > 1000 && bad > 0 && offences > 100);
    works(&mut a, &mut b, 9999);
    drop((a, b));
    for daemon in [&pair.a, &pair.b] {
        eventually("nothing is left", || counter(daemon, "rdma.objects") == 0);
        eventually("no queue pair is left", || counter(daemon, "rdma.queue_pairs") == 0);
        is_empty_again(daemon);
    }
}
