//! What queue pairs do with each operation, and with each thing that can go wrong.

mod common;
use barewire_base::{DropReason, Duration, Instant};
use barewire_ring::Region;
use barewire_roce::*;
use barewire_wire::roce::{Opcode, Segment};
use common::*;

fn status(wcs: &[Wc]) -> Vec<(u64, WcStatus)> {
    wcs.iter().map(|w| (w.wr_id, w.status)).collect()
}

fn ok(wcs: &[Wc]) -> Vec<u64> {
    assert!(wcs.iter().all(|w| w.status == WcStatus::Success), "{wcs:?}");
    wcs.iter().map(|w| w.wr_id).collect()
}

#[test]
fn every_operation_does_its_work() {
    for (mtu, v6, tag) in [(Mtu::M256, false, None), (Mtu::M1024, true, None), (Mtu::M4096, false, Some(7))] {
        let make = |n: u8| {
            let mut c = Config { mtu, vlan: tag, ..config(n) };
            if v6 {
                c.addresses = vec![format!("fd00::{n}").parse().unwrap()];
            }
            c
        };
        let mut p = Pair::with(make(1), make(2));
        let [(_, a), (_, b)] = p.connect();
        let rkey = p.ends[1].mr.rkey;
        let data = pattern(10_000, 1);
        p.ends[0].fill(0, &data);
        for (i, len) in [0, 1, 3, 255, 256, 257, 4096, 10_000].into_iter().enumerate() {
            let at = 20_000 + i * 10_000;
            p.recv(1, b, 100, at, 10_000);
            p.post(0, a, 1, SendOp::Send, 0, len);
            p.recv(1, b, 101, at, 10_000);
            p.post(0, a, 2, SendOp::SendImm(0xfeed), 0, len);
            let addr = BASE + 200_000 + at as u64;
            p.post(0, a, 3, SendOp::Write { addr, rkey }, 0, len);
            p.recv(1, b, 102, 0, 0);
            p.post(0, a, 4, SendOp::WriteImm { addr, rkey, imm: 7 }, 0, len);
            p.exchange();
            p.post(0, a, 5, SendOp::Read { addr, rkey }, 500_000 + at, len);
            p.exchange();
            assert_eq!(ok(&p.ends[0].completions()), [1, 2, 3, 4, 5], "{mtu:?} {len}");
            let got = p.ends[1].completions();
            assert_eq!(ok(&got), [100, 101, 102]);
            assert_eq!(got.iter().map(|w| w.len as usize).collect::<Vec<_>>(), [len, len, len]);
            assert_eq!(got.iter().map(|w| w.imm).collect::<Vec<_>>(), [None, Some(0xfeed), Some(7)]);
            assert_eq!(got[2].opcode, WcOpcode::RecvWriteImm);
            assert_eq!(p.ends[1].bytes(at, len), data[..len]);
            assert_eq!(p.ends[1].bytes(200_000 + at, len), data[..len]);
            assert_eq!(p.ends[0].bytes(500_000 + at, len), data[..len]);
        }
        let addr = BASE + 900_000;
        p.post(0, a, 1, SendOp::FetchAdd { addr, rkey, add: 5 }, 100, 8);
        p.post(0, a, 2, SendOp::CompareSwap { addr, rkey, compare: 5, swap: 77 }, 108, 8);
        p.post(0, a, 3, SendOp::CompareSwap { addr, rkey, compare: 5, swap: 88 }, 116, 8);
        p.exchange();
        assert_eq!(ok(&p.ends[0].completions()), [1, 2, 3]);
        assert_eq!(p.ends[1].memory.load_u64(900_000), Some(77));
        let word = |at| u64::from_ne_bytes(p.ends[0].bytes(at, 8).try_into().unwrap());
        assert_eq!((word(100), word(108), word(116)), (0, 5, 77));
        assert_eq!(p.ends[0].ep.counters().drops.total() + p.ends[1].ep.counters().drops.total(), 0);
    }
}

#[test]
fn the_other_direction_works_as_well() {
    let mut p = Pair::new();
    let [(_, a), (_, b)] = p.connect();
    p.ends[1].fill(0, b"from the server");
    p.recv(0, a, 9, 1000, 100);
    p.post(1, b, 1, SendOp::Send, 0, 15);
    p.exchange();
    assert_eq!(ok(&p.ends[1].completions()), [1]);
    assert_eq!(ok(&p.ends[0].completions()), [9]);
    assert_eq!(p.ends[0].bytes(1000, 15), b"from the server");
}

#[test]
fn lists_and_inline_data() {
    let mut p = Pair::new();
    let [(_, a), (_, b)] = p.connect();
    let data = pattern(3000, 2);
    p.ends[0].fill(0, &data);
    let out = [p.ends[0].sge(0, 1), p.ends[0].sge(1, 0), p.ends[0].sge(1, 1999), p.ends[0].sge(2000, 1000)];
    let into = [p.ends[1].sge(5000, 7), p.ends[1].sge(6000, 2000), p.ends[1].sge(9000, 2000)];
    p.ends[1].ep.post_recv(b, 1, &into).unwrap();
    p.ends[0].ep.post_send(a, &SendWr::new(1, SendOp::Send, Data::Sges(&out))).unwrap();
    p.exchange();
    let got = [p.ends[1].bytes(5000, 7), p.ends[1].bytes(6000, 2000), p.ends[1].bytes(9000, 993)].concat();
    assert_eq!(got, data);
    p.recv(1, b, 2, 0, 100);
    let mut bytes = [7; 64];
    p.ends[0].ep.post_send(a, &SendWr::new(2, SendOp::Send, Data::Inline(&bytes))).unwrap();
    bytes.fill(8); // copied when posted
    p.exchange();
    assert_eq!(p.ends[1].bytes(0, 64), [7; 64]);
    let long = [0; 65];
    assert_eq!(
        p.ends[0].ep.post_send(a, &SendWr::new(3, SendOp::Send, Data::Inline(&long))),
        Err(VerbError::Invalid)
    );
    let five = [p.ends[0].sge(0, 1); 5];
    assert_eq!(
        p.ends[0].ep.post_send(a, &SendWr::new(3, SendOp::Send, Data::Sges(&five))),
        Err(VerbError::Invalid)
    );
}

#[test]
fn unsignaled_requests_complete_in_silence_and_failures_do_not() {
    let mut p = Pair::new();
    let [(_, a), _] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    let sge = [p.ends[0].sge(0, 8)];
    let wr = SendWr::new(1, SendOp::Write { addr: BASE, rkey }, Data::Sges(&sge));
    p.ends[0].ep.post_send(a, &SendWr { signaled: false, ..wr }).unwrap();
    p.exchange();
    assert_eq!(p.ends[0].completions(), []);
    let bad = SendWr { wr_id: 2, op: SendOp::Write { addr: BASE, rkey: rkey ^ 1 }, signaled: false, ..wr };
    p.ends[0].ep.post_send(a, &bad).unwrap();
    p.exchange();
    assert_eq!(status(&p.ends[0].completions()), [(2, WcStatus::RemoteAccess)]);
}

/// What the peer refuses for good, and how both sides learn of it.
#[test]
fn wrong_keys_bounds_and_permissions_are_refused() {
    type Case = fn(&mut Pair, Qpn, u32, Mr);
    let cases: [(&str, Case, WcStatus); 9] = [
        (
            "wrong key",
            |p, a, rkey, _| p.post(0, a, 1, SendOp::Write { addr: BASE, rkey: rkey ^ 1 }, 0, 8),
            WcStatus::RemoteAccess,
        ),
        (
            "before the region",
            |p, a, rkey, _| p.post(0, a, 1, SendOp::Write { addr: BASE - 1, rkey }, 0, 8),
            WcStatus::RemoteAccess,
        ),
        (
            "past the region",
            |p, a, rkey, _| p.post(0, a, 1, SendOp::Read { addr: BASE + MEMORY as u64 - 7, rkey }, 0, 8),
            WcStatus::RemoteAccess,
        ),
        (
            "address overflow",
            |p, a, rkey, _| p.post(0, a, 1, SendOp::Read { addr: u64::MAX - 3, rkey }, 0, 8),
            WcStatus::RemoteAccess,
        ),
        (
            "write to read-only",
            |p, a, _, ro| p.post(0, a, 1, SendOp::Write { addr: 0, rkey: ro.rkey }, 0, 8),
            WcStatus::RemoteAccess,
        ),
        (
            "atomic on read-only",
            |p, a, _, ro| p.post(0, a, 1, SendOp::FetchAdd { addr: 0, rkey: ro.rkey, add: 1 }, 0, 8),
            WcStatus::RemoteAccess,
        ),
        (
            "several packets",
            |p, a, rkey, _| {
                p.post(0, a, 1, SendOp::Write { addr: BASE + MEMORY as u64 - 5000, rkey }, 0, 5001)
            },
            WcStatus::RemoteAccess,
        ),
        (
            "invalidate a key that does not allow it",
            |p, a, _, ro| p.post(0, a, 1, SendOp::SendInvalidate(ro.rkey), 0, 8),
            WcStatus::RemoteAccess,
        ),
        (
            "own wrong key",
            |p, a, _, _| {
                let sge = [Sge { lkey: 0, ..p.ends[0].sge(0, 8) }];
                p.ends[0].ep.post_send(a, &SendWr::new(1, SendOp::Send, Data::Sges(&sge))).unwrap();
            },
            WcStatus::LocalProtection,
        ),
    ];
    for (name, case, want) in cases {
        let mut p = Pair::new();
        let [(_, a), (_, b)] = p.connect();
        let [(_, c), _] = p.connect();
        let pd = p.ends[1].pd;
        let ro = p.ends[1].ep.reg_mr(pd, Region::heap(4096), 0, Access::REMOTE_READ).unwrap();
        let rkey = p.ends[1].mr.rkey;
        p.recv(1, b, 50, 0, 100);
        case(&mut p, a, rkey, ro);
        p.post(0, a, 2, SendOp::Write { addr: BASE, rkey }, 0, 8);
        p.exchange();
        assert_eq!(status(&p.ends[0].completions()), [(1, want), (2, WcStatus::Flushed)], "{name}");
        assert_eq!(p.ends[0].ep.query_qp(a).unwrap().state, QpState::Err);
        assert_eq!(p.ends[0].take_events(), [Event::QpError(a, QpFault::Send)], "{name}");
        if want == WcStatus::RemoteAccess {
            assert_eq!(p.ends[1].ep.query_qp(b).unwrap().state, QpState::Err, "{name}");
            assert_eq!(p.ends[1].ep.counters().nak_access_sent.get(), 1, "{name}");
            assert!(p.ends[1].take_events().contains(&Event::QpError(b, QpFault::Access)), "{name}");
            assert_eq!(p.ends[1].completions().last().map(|w| w.wr_id), Some(50));
        }
        // The neighbour notices nothing.
        p.post(0, c, 3, SendOp::Write { addr: BASE, rkey }, 0, 8);
        p.exchange();
        assert_eq!(ok(&p.ends[0].completions()), [3], "{name}");
    }
}

#[test]
fn a_queue_pair_allows_no_more_than_it_says() {
    let mut p = Pair::new();
    p.ends[1].ep.listen(SERVICE, 10).unwrap();
    let (_, a) = p.ask(&[]);
    p.exchange();
    let Some((Event::ConnectRequest { conn, .. }, _)) = p.ends[1].events.pop() else { panic!() };
    let init = QpInit { access: Access::REMOTE_READ, ..p.ends[1].init() };
    let b = p.ends[1].ep.create_qp(&init).unwrap();
    let now = p.now;
    p.ends[1].ep.accept(now, conn, b, &Terms::default()).unwrap();
    p.exchange();
    let rkey = p.ends[1].mr.rkey;
    p.post(0, a, 1, SendOp::Read { addr: BASE, rkey }, 0, 8);
    p.post(0, a, 2, SendOp::Write { addr: BASE, rkey }, 0, 8);
    p.exchange();
    assert_eq!(status(&p.ends[0].completions()), [(1, WcStatus::Success), (2, WcStatus::RemoteAccess)]);
}

#[test]
fn a_message_longer_than_its_receive_request_ends_the_connection() {
    let mut p = Pair::new();
    let [(_, a), (_, b)] = p.connect();
    p.recv(1, b, 50, 0, 1500);
    p.post(0, a, 1, SendOp::Send, 0, 1501);
    p.exchange();
    assert_eq!(status(&p.ends[0].completions()), [(1, WcStatus::RemoteInvalidRequest)]);
    assert_eq!(status(&p.ends[1].completions()), [(50, WcStatus::LocalLength)]);
}

#[test]
fn a_receiver_that_is_not_ready_is_waited_for() {
    let mut p = Pair::new();
    let [(_, a), (_, b)] = p.connect();
    p.post(0, a, 1, SendOp::Send, 0, 3000);
    p.post(0, a, 2, SendOp::Send, 0, 10);
    p.run_for(ms(2));
    assert!(p.ends[1].ep.counters().rnr_sent.get() >= 2);
    assert_eq!(p.ends[0].completions(), []);
    p.recv(1, b, 50, 0, 3000);
    p.recv(1, b, 51, 0, 3000);
    p.run_for(ms(2));
    assert_eq!(ok(&p.ends[0].completions()), [1, 2]);
    assert_eq!(ok(&p.ends[1].completions()), [50, 51]);
    assert_eq!(p.ends[0].ep.counters().timeouts.get(), 0, "a pause is no loss");

    let patient = config(2);
    let impatient = Config { cm: CmConfig { rnr_retry_count: 2, ..CmConfig::default() }, ..patient };
    let mut p = Pair::with(config(1), impatient);
    let [(_, a), _] = p.connect();
    p.post(0, a, 1, SendOp::Send, 0, 10);
    p.run_for(ms(10));
    assert_eq!(status(&p.ends[0].completions()), [(1, WcStatus::RnrRetryExceeded)]);
    assert_eq!(p.ends[1].ep.counters().rnr_sent.get(), 3);
}

#[test]
fn what_comes_behind_an_unready_receiver_may_be_refused_too() {
    // As Linux's soft RoCE does: first "not ready, wait", then "out of sequence" for the packets behind.
    let unready = Config { cm: CmConfig { min_rnr_timer: 0, ..CmConfig::default() }, ..config(2) };
    let mut p = Pair::with(config(1), unready);
    let [(_, a), (_, b)] = p.connect();
    let (tell, told) = std::sync::mpsc::channel();
    p.filter = Box::new(move |side, frame| {
        // The syndrome stands before the ICRC.
        let at = frame.len() - 8;
        if side == 1 && Segment::parse(datagram(frame)).is_ok_and(|s| s.bth.opcode == Opcode::ACKNOWLEDGE) {
            let _ = tell.send((frame[at], frame.clone()));
        }
        true
    });
    for wr_id in 1..4 {
        p.post(0, a, wr_id, SendOp::Send, 0, 10);
    }
    p.exchange();
    let (syndrome, mut frame) = told.try_recv().expect("an answer");
    assert_eq!(syndrome, 0x20, "not ready, 655 ms");
    let at = frame.len() - 8;
    frame[at] = 0x60;
    seal(&mut frame);
    for _ in 0..20 {
        let now = p.now;
        p.ends[0].ep.handle_frame(now, &frame);
        p.run_for(ms(10));
    }
    assert_eq!(p.ends[0].ep.counters().nak_sequence_received.get(), 20);
    assert_eq!(p.ends[0].ep.counters().packets_resent.get(), 0, "the pause stands");
    for wr_id in 50..53 {
        p.recv(1, b, wr_id, 0, 100);
    }
    p.run_for(ms(500));
    assert_eq!(ok(&p.ends[0].completions()), [1, 2, 3]);
    assert_eq!(p.ends[0].ep.counters().timeouts.get(), 0, "a pause is no loss");
}

#[test]
fn a_peer_that_is_silent_is_given_up() {
    let mut p = Pair::new();
    let [(_, a), _] = p.connect();
    p.filter = Box::new(|side, _| side == 0);
    let rkey = p.ends[1].mr.rkey;
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey }, 0, 10);
    // 4.096 us * 2^13, twice as long, and then six times four times as long: 906 ms, and a tick for each.
    p.run_for(ms(905));
    assert_eq!(p.ends[0].completions(), []);
    p.run_for(ms(2));
    assert_eq!(status(&p.ends[0].completions()), [(1, WcStatus::RetryExceeded)]);
    assert_eq!(p.ends[0].ep.counters().timeouts.get(), 8);
}

/// Every single packet of a conversation is lost once, and nothing but time is.
#[test]
fn each_packet_lost_once() {
    let frames = conversation(&mut |_, _| true);
    assert!(frames > 40, "{frames}");
    for lost in 0..frames {
        let mut n = 0;
        conversation(&mut |_, _| {
            n += 1;
            n != lost + 1
        });
        // And twice, and late.
        let mut n = 0;
        conversation_with(&mut |p: &mut Pair, side, frame: &[u8]| {
            n += 1;
            if n == lost + 1 {
                let now = p.now;
                p.ends[1 - side].ep.handle_frame(now, frame);
            }
            true
        });
    }
}

fn conversation(keep: &mut dyn FnMut(usize, &[u8]) -> bool) -> usize {
    conversation_with(&mut |_, side, frame| keep(side, frame))
}

fn conversation_with(keep: &mut dyn FnMut(&mut Pair, usize, &[u8]) -> bool) -> usize {
    let mut p = Pair::new();
    let [(_, a), (_, b)] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    let data = pattern(9_000, 3);
    p.ends[0].fill(0, &data);
    let word = BASE + 800_000;
    for i in 0..3u64 {
        p.recv(1, b, 50 + i, 100_000 + 9_000 * i as usize, 9_000);
        let addr = BASE + 300_000 + 9_000 * i;
        p.post(0, a, 10 * i, SendOp::Send, 0, 9_000);
        p.post(0, a, 10 * i + 1, SendOp::FetchAdd { addr: word, rkey, add: 1 }, 600_000 + 8 * i as usize, 8);
        p.post(0, a, 10 * i + 2, SendOp::Write { addr, rkey }, 0, 5_000);
        p.post(0, a, 10 * i + 3, SendOp::Read { addr, rkey }, 700_000 + 9_000 * i as usize, 5_000);
        p.post(0, a, 10 * i + 4, SendOp::Read { addr: BASE + 300_000, rkey }, 760_000, 1);
    }
    let mut frames = 0;
    let end = p.now + ms(100);
    let mut buf = vec![0xa5; 5000];
    loop {
        let mut quiet = true;
        for side in 0..2 {
            let now = p.now;
            while let Some(len) = p.ends[side].ep.poll_transmit(now, &mut buf) {
                quiet = false;
                frames += 1;
                let frame = buf[..len].to_vec();
                if keep(&mut p, side, &frame) {
                    p.ends[1 - side].ep.handle_frame(now, &frame);
                }
            }
        }
        if !quiet {
            continue;
        }
        let next = p.ends.iter().filter_map(|e| e.ep.poll_timeout()).min();
        match next {
            Some(next) if next < end => p.now = p.now.max(next),
            _ => break,
        }
        for side in 0..2 {
            let now = p.now;
            p.ends[side].ep.handle_timeout(now);
        }
    }
    let want: Vec<u64> = (0..3).flat_map(|i| (0..5).map(move |k| 10 * i + k)).collect();
    assert_eq!(ok(&p.ends[0].completions()), want);
    assert_eq!(ok(&p.ends[1].completions()), [50, 51, 52]);
    assert_eq!(p.ends[1].memory.load_u64(800_000), Some(3));
    for i in 0..3 {
        assert_eq!(p.ends[1].bytes(100_000 + 9_000 * i, 9_000), data);
        assert_eq!(p.ends[0].bytes(700_000 + 9_000 * i, 5_000), data[..5_000]);
        let before = p.ends[0].bytes(600_000 + 8 * i, 8);
        assert_eq!(u64::from_ne_bytes(before.try_into().unwrap()), i as u64);
    }
    frames
}

#[test]
fn a_repeated_atomic_returns_its_saved_result() {
    let mut p = Pair::new();
    let [(_, a), _] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    let kept = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let keep = kept.clone();
    p.filter = Box::new(move |side, frame| {
        if side == 0 {
            keep.borrow_mut().push(frame.clone());
        }
        true
    });
    p.post(0, a, 1, SendOp::FetchAdd { addr: BASE, rkey, add: 1 }, 100, 8);
    p.post(0, a, 2, SendOp::FetchAdd { addr: BASE, rkey, add: 1 }, 108, 8);
    p.exchange();
    p.log.clear();
    let (now, frames) = (p.now, kept.borrow().clone());
    for frame in &frames {
        p.ends[1].ep.handle_frame(now, frame);
    }
    p.exchange();
    assert_eq!(p.count("ATOMIC_ACKNOWLEDGE"), 2);
    assert_eq!(p.ends[1].memory.load_u64(0), Some(2));
    // The requester has long had its answers.
    assert_eq!(p.ends[0].ep.counters().drops.get(DropReason::Duplicate), 2);
    assert_eq!(ok(&p.ends[0].completions()), [1, 2]);
}

#[test]
fn a_gap_makes_one_nak_and_then_silence() {
    let mut p = Pair::new();
    let [(_, a), _] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    let mut n = 0;
    p.filter = Box::new(move |side, _| {
        n += usize::from(side == 0);
        side == 1 || n != 2
    });
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey }, 0, 20 * 1024);
    p.exchange();
    assert_eq!(ok(&p.ends[0].completions()), [1]);
    let counters = p.ends[1].ep.counters();
    assert_eq!(counters.nak_sequence_sent.get(), 1);
    assert_eq!(counters.drops.get(DropReason::OutOfWindow), 18);
    assert_eq!(p.ends[0].ep.counters().packets_resent.get(), 19);
}

#[test]
fn packets_for_queue_pairs_that_are_gone_or_from_elsewhere_are_dropped() {
    let mut p = Pair::new();
    let [(_, a), (_, b)] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    let kept = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let keep = kept.clone();
    p.filter = Box::new(move |_, frame| {
        keep.borrow_mut().push(frame.clone());
        false
    });
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey }, 0, 8);
    p.exchange();
    let frame = kept.borrow()[0].clone();
    let now = p.now;
    let reason = |end: &mut End, frame: &[u8]| match end.ep.handle_frame(now, frame) {
        Verdict::Drop(reason) => Some(reason),
        Verdict::Consumed => None,
    };
    let mut elsewhere = frame.clone();
    elsewhere[29] = 9;
    barewire_wire::ipv4::Packet::new_unchecked(&mut elsewhere[14..34]).fill_checksum();
    seal(&mut elsewhere);
    assert_eq!(reason(&mut p.ends[1], &elsewhere), Some(DropReason::WrongPeer));
    let mut damaged = frame.clone();
    damaged[70] ^= 1;
    assert_eq!(reason(&mut p.ends[1], &damaged), Some(DropReason::BadIcrc));
    let mut other_key = frame.clone();
    other_key[44] ^= 1;
    seal(&mut other_key);
    assert_eq!(reason(&mut p.ends[1], &other_key), Some(DropReason::BadKey));
    let mut other_mac = frame.clone();
    other_mac[5] ^= 1;
    assert_eq!(reason(&mut p.ends[1], &other_mac), Some(DropReason::NotOurMac));
    let mut marked = frame.clone();
    marked[46] |= 0x40; // BECN, which is not covered
    assert_eq!(reason(&mut p.ends[1], &marked), None);
    p.ends[1].ep.destroy_qp(now, b).unwrap();
    assert_eq!(reason(&mut p.ends[1], &frame), Some(DropReason::UnknownQp));
    assert_eq!(p.ends[1].ep.query_qp(b), Err(VerbError::Unknown));
}

#[test]
fn shared_receive_queues_serve_in_turn_and_tell_when_they_run_low() {
    let mut p = Pair::new();
    p.ends[1].ep.listen(SERVICE, 10).unwrap();
    let pd = p.ends[1].pd;
    let srq = p.ends[1].ep.create_srq(pd, 4).unwrap();
    let mut qps = Vec::new();
    for _ in 0..2 {
        let (_, a) = p.ask(&[]);
        p.exchange();
        let Some((Event::ConnectRequest { conn, .. }, _)) = p.ends[1].events.pop() else { panic!() };
        let init = QpInit { srq: Some(srq), ..p.ends[1].init() };
        let b = p.ends[1].ep.create_qp(&init).unwrap();
        let now = p.now;
        p.ends[1].ep.accept(now, conn, b, &Terms::default()).unwrap();
        p.exchange();
        p.ends[1].take_events();
        assert_eq!(p.ends[1].ep.post_recv(b, 1, &[]), Err(VerbError::Invalid));
        qps.push((a, b));
    }
    for i in 0..4 {
        let sge = [p.ends[1].sge(1000 * i, 1000)];
        p.ends[1].ep.post_srq_recv(srq, i as u64, &sge).unwrap();
    }
    assert_eq!(p.ends[1].ep.post_srq_recv(srq, 9, &[]), Err(VerbError::QueueFull));
    p.ends[1].ep.arm_srq(srq, 2).unwrap();
    for (i, (a, _)) in [qps[0], qps[1], qps[0]].into_iter().enumerate() {
        p.post(0, a, i as u64, SendOp::Send, 0, 10);
        p.exchange();
    }
    let got = p.ends[1].completions();
    assert_eq!(ok(&got), [0, 1, 2]);
    assert_eq!(got.iter().map(|w| w.qpn).collect::<Vec<_>>(), [qps[0].1, qps[1].1, qps[0].1]);
    assert_eq!(p.ends[1].take_events(), [Event::SrqLow(srq)]);
    assert_eq!(p.ends[1].ep.destroy_srq(srq), Err(VerbError::Busy));
}

#[test]
fn completion_queues_wake_for_what_was_asked_and_report_overruns() {
    let mut p = Pair::new();
    let [(_, a), (_, b)] = p.connect();
    let cq = p.ends[1].cq;
    p.ends[1].ep.arm_cq(cq, true).unwrap();
    for i in 0..3 {
        p.recv(1, b, i, 0, 100);
    }
    let sge = [p.ends[0].sge(0, 8)];
    let wr = SendWr::new(1, SendOp::Send, Data::Sges(&sge));
    p.ends[0].ep.post_send(a, &wr).unwrap();
    p.exchange();
    assert_eq!(p.ends[1].take_events(), []);
    p.ends[0].ep.post_send(a, &SendWr { solicited: true, ..wr }).unwrap();
    p.ends[0].ep.post_send(a, &wr).unwrap();
    p.exchange();
    assert_eq!(p.ends[1].take_events(), [Event::CqReady(cq)]);
    p.ends[1].ep.arm_cq(cq, false).unwrap();
    p.recv(1, b, 9, 0, 100);
    p.ends[0].ep.post_send(a, &wr).unwrap();
    p.exchange();
    assert_eq!(p.ends[1].take_events(), [Event::CqReady(cq)]);

    let small = p.ends[0].ep.create_cq(1).unwrap();
    let init = QpInit { recv_cq: small, recv_max: 1, ..p.ends[0].init() };
    let qps = [(); 3].map(|()| p.ends[0].ep.create_qp(&init).unwrap());
    assert_eq!(p.ends[0].ep.destroy_cq(small), Err(VerbError::Busy));
    let now = p.now;
    for qpn in qps {
        p.ends[0].ep.modify_qp(qpn, Modify::Init).unwrap();
        p.recv(0, qpn, 1, 0, 1);
        p.ends[0].ep.modify_qp(qpn, Modify::Err).unwrap();
    }
    assert_eq!(p.ends[0].take_events(), [Event::CqOverrun(small)]);
    assert_eq!(p.ends[0].ep.counters().cq_overruns.get(), 2);
    for qpn in qps {
        p.ends[0].ep.destroy_qp(now, qpn).unwrap();
    }
    assert_eq!(p.ends[0].ep.destroy_cq(small), Ok(()));
    assert_eq!(p.ends[0].ep.poll_cq_one(small), None);
}

#[test]
fn a_send_may_take_a_key_back() {
    let mut p = Pair::new();
    let [(_, a), (_, b)] = p.connect();
    let pd = p.ends[1].pd;
    let mr = p.ends[1].ep.reg_mr(pd, Region::heap(64), 0, Access::ALL).unwrap();
    p.recv(1, b, 5, 0, 10);
    p.post(0, a, 1, SendOp::SendInvalidate(mr.rkey), 0, 4);
    p.exchange();
    assert_eq!(p.ends[1].completions()[0].invalidated, Some(mr.rkey));
    p.post(0, a, 2, SendOp::Write { addr: 0, rkey: mr.rkey }, 0, 4);
    p.exchange();
    assert_eq!(status(&p.ends[0].completions()), [(1, WcStatus::Success), (2, WcStatus::RemoteAccess)]);
}

#[test]
fn a_queue_pair_drains_and_goes_on() {
    let mut p = Pair::new();
    let [(_, a), _] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    let now = p.now;
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey }, 0, 5000);
    let mut buf = vec![0; 5000];
    let len = p.ends[0].ep.poll_transmit(now, &mut buf).unwrap();
    p.ends[0].ep.modify_qp(a, Modify::Sqd).unwrap();
    p.post(0, a, 2, SendOp::Write { addr: BASE, rkey }, 0, 10);
    p.ends[1].ep.handle_frame(now, &buf[..len]);
    p.exchange();
    assert_eq!(p.ends[0].take_events(), [Event::Drained(a)]);
    assert_eq!(ok(&p.ends[0].completions()), [1]);
    p.ends[0].ep.modify_qp(a, Modify::Resume).unwrap();
    p.exchange();
    assert_eq!(ok(&p.ends[0].completions()), [2]);
}

#[test]
fn states_are_left_only_in_order() {
    let mut p = Pair::new();
    let init = p.ends[0].init();
    let now = p.now;
    let path = p.path(0);
    let ep = &mut p.ends[0].ep;
    let qpn = ep.create_qp(&init).unwrap();
    let rtr =
        RtrAttr { path, remote_qpn: 5, rq_psn: 7, mtu: Mtu::M256, responder_resources: 4, min_rnr_timer: 0 };
    let rts = RtsAttr { sq_psn: 9, timeout: 14, retry_count: 7, rnr_retry_count: 7, initiator_depth: 4 };
    let wr = SendWr::new(1, SendOp::Send, Data::Inline(b""));
    assert_eq!(ep.modify_qp(qpn, Modify::Rtr(rtr)), Err(VerbError::State(QpState::Reset)));
    assert_eq!(ep.post_recv(qpn, 1, &[]), Err(VerbError::State(QpState::Reset)));
    ep.modify_qp(qpn, Modify::Init).unwrap();
    ep.post_recv(qpn, 1, &[]).unwrap();
    assert_eq!(ep.modify_qp(qpn, Modify::Rts(rts)), Err(VerbError::State(QpState::Init)));
    assert_eq!(ep.modify_qp(qpn, Modify::Rtr(RtrAttr { rq_psn: 1 << 24, ..rtr })), Err(VerbError::Invalid));
    ep.modify_qp(qpn, Modify::Rtr(rtr)).unwrap();
    assert_eq!(ep.post_send(qpn, &wr), Err(VerbError::State(QpState::Rtr)));
    ep.modify_qp(qpn, Modify::Rts(rts)).unwrap();
    assert_eq!(ep.query_qp(qpn).map(|v| (v.rq_psn, v.sq_psn, v.remote_qpn)), Ok((7, 9, 5)));
    ep.modify_qp(qpn, Modify::Err).unwrap();
    ep.post_send(qpn, &wr).unwrap();
    assert_eq!(status(&p.ends[0].completions()), [(1, WcStatus::Flushed), (1, WcStatus::Flushed)]);
    let ep = &mut p.ends[0].ep;
    ep.modify_qp(qpn, Modify::Reset).unwrap();
    assert_eq!(ep.query_qp(qpn).map(|v| v.state), Ok(QpState::Reset));
    ep.destroy_qp(now, qpn).unwrap();
    assert_eq!(ep.destroy_qp(now, qpn), Err(VerbError::Unknown));
}

#[test]
fn datagrams_need_the_right_queue_key() {
    let mut p = Pair::new();
    let make = |end: &mut End, qkey| {
        let init = QpInit { kind: QpKind::Ud, qkey, ..end.init() };
        let qpn = end.ep.create_qp(&init).unwrap();
        for to in [Modify::Init, Modify::RtrDatagram, Modify::RtsDatagram(100)] {
            end.ep.modify_qp(qpn, to).unwrap();
        }
        qpn
    };
    let (a, b) = (make(&mut p.ends[0], 1), make(&mut p.ends[1], 0x1234));
    let path = p.path(0);
    p.recv(1, b, 7, 0, 200);
    let send = |p: &mut Pair, qkey, text: &[u8]| {
        let remote = Some(Remote { path, qpn: b.number(), qkey });
        let wr = SendWr { remote, ..SendWr::new(1, SendOp::SendImm(3), Data::Inline(text)) };
        p.ends[0].ep.post_send(a, &wr).unwrap();
        p.exchange();
    };
    send(&mut p, 0x1235, b"no");
    assert_eq!(p.ends[1].ep.counters().drops.get(DropReason::BadKey), 1);
    send(&mut p, 0x1234, b"hello");
    send(&mut p, 0x1234, b"nobody waits");
    assert_eq!(p.ends[1].ep.counters().drops.get(DropReason::NoReceive), 1);
    let got = p.ends[1].completions();
    assert_eq!((got.len(), got[0].len, got[0].imm, got[0].src_qpn), (1, 45, Some(3), a.number()));
    let bytes = p.ends[1].bytes(0, 45);
    assert_eq!((bytes[..20].iter().all(|b| *b == 0), bytes[20], &bytes[40..]), (true, 0x45, &b"hello"[..]));
    assert_eq!(ok(&p.ends[0].completions()), [1, 1, 1]);
    // A local error stops sending, and only that.
    let sge = [Sge { lkey: 1, ..p.ends[0].sge(0, 1) }];
    let remote = Some(Remote { path, qpn: b.number(), qkey: 1 });
    let wr = SendWr { remote, ..SendWr::new(2, SendOp::Send, Data::Sges(&sge)) };
    p.ends[0].ep.post_send(a, &wr).unwrap();
    p.exchange();
    assert_eq!(status(&p.ends[0].completions()), [(2, WcStatus::LocalProtection)]);
    assert_eq!(p.ends[0].ep.query_qp(a).map(|v| v.state), Ok(QpState::Sqe));
    p.ends[0].ep.modify_qp(a, Modify::RtsDatagram(0)).unwrap();
    send(&mut p, 0x1234, b"again");
    assert_eq!(ok(&p.ends[0].completions()), [1]);
}

#[test]
fn congestion_is_told_and_heeded() {
    let mut p = Pair::with(Config { window_packets: 8, ..config(1) }, config(2));
    let [(_, a), _] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    p.filter = Box::new(|side, frame| {
        if side == 0 && frame[15] & 3 == 2 {
            frame[15] |= 3;
            barewire_wire::ipv4::Packet::new_unchecked(&mut frame[14..34]).fill_checksum();
        }
        true
    });
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey }, 0, 100 * 1024);
    let start = p.now;
    while p.ends[0].ep.query_qp(a).unwrap().sends > 0 {
        p.run_for(Duration::from_micros(20));
        assert!(p.now.since(start) < ms(50));
    }
    assert!(p.ends[1].ep.counters().cnp_sent.get() >= 2);
    let heard = p.ends[0].ep.counters().cnp_received.get();
    assert_eq!(heard, p.ends[1].ep.counters().cnp_sent.get());
    assert!(p.now.since(start) > Duration::from_micros(50), "slowed down: {}", p.now.since(start));
    // Without marks it is as fast as before, after a while.
    p.filter = Box::new(|_, _| true);
    p.run_for(ms(30));
    p.post(0, a, 2, SendOp::Write { addr: BASE, rkey }, 0, 100 * 1024);
    p.run_for(ms(30));
    p.post(0, a, 3, SendOp::Write { addr: BASE, rkey }, 0, 100 * 1024);
    p.run_for(Duration::from_micros(400));
    assert_eq!(ok(&p.ends[0].completions()), [1, 2, 3]);
}

#[test]
fn fences_wait_for_reads_and_depths_are_kept() {
    let shallow = Config { cm: CmConfig { responder_resources: 2, ..CmConfig::default() }, ..config(2) };
    let mut p = Pair::with(config(1), shallow);
    let [(_, a), _] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    for i in 0..6 {
        p.post(0, a, i, SendOp::Read { addr: BASE, rkey }, 0, 3000);
    }
    let sge = [p.ends[0].sge(0, 8)];
    let wr = SendWr::new(9, SendOp::Write { addr: BASE, rkey }, Data::Sges(&sge));
    p.ends[0].ep.post_send(a, &SendWr { fence: true, ..wr }).unwrap();
    let (now, mut buf, mut sent) = (p.now, vec![0; 5000], 0);
    while p.ends[0].ep.poll_transmit(now, &mut buf).is_some() {
        sent += 1;
    }
    assert_eq!(sent, 2, "no more reads than the peer answers at once");
    p.run_for(ms(50));
    assert_eq!(ok(&p.ends[0].completions()), [0, 1, 2, 3, 4, 5, 9]);
}

#[test]
fn a_region_that_goes_away_ends_what_uses_it() {
    let mut p = Pair::new();
    let [(_, a), _] = p.connect();
    let pd = p.ends[1].pd;
    let mr = p.ends[1].ep.reg_mr(pd, Region::heap(100_000), 0, Access::ALL).unwrap();
    p.post(0, a, 1, SendOp::Read { addr: 0, rkey: mr.rkey }, 0, 100_000);
    let (now, mut buf) = (p.now, vec![0; 5000]);
    let len = p.ends[0].ep.poll_transmit(now, &mut buf).unwrap();
    p.ends[1].ep.handle_frame(now, &buf[..len]);
    let len = p.ends[1].ep.poll_transmit(now, &mut buf).unwrap();
    p.ends[0].ep.handle_frame(now, &buf[..len]);
    p.ends[1].ep.dereg_mr(mr).unwrap();
    p.exchange();
    assert_eq!(status(&p.ends[0].completions()), [(1, WcStatus::RemoteAccess)]);
}

#[test]
fn queue_pair_numbers_do_not_come_again_soon() {
    let mut p = Pair::new();
    let init = p.ends[0].init();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..200_000 {
        let qpn = p.ends[0].ep.create_qp(&init).unwrap();
        assert!(seen.insert(qpn) && qpn.number() > 1);
        p.ends[0].ep.destroy_qp(Instant::ZERO, qpn).unwrap();
    }
    assert_eq!(p.ends[0].ep.live_qps(), 0);
}

#[test]
fn a_late_copy_of_an_answered_read_does_not_stand_in_the_way() {
    let one = Config { cm: CmConfig { responder_resources: 1, ..CmConfig::default() }, ..config(2) };
    let mut p = Pair::with(config(1), one);
    let [(_, a), _] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    let (now, mut buf) = (p.now, vec![0; 5000]);
    p.post(0, a, 1, SendOp::Read { addr: BASE, rkey }, 0, 3000);
    let len = p.ends[0].ep.poll_transmit(now, &mut buf).unwrap();
    let first = buf[..len].to_vec();
    p.ends[1].ep.handle_frame(now, &first);
    p.exchange();
    p.post(0, a, 2, SendOp::Read { addr: BASE, rkey }, 0, 3000);
    let len = p.ends[0].ep.poll_transmit(now, &mut buf).unwrap();
    p.ends[1].ep.handle_frame(now, &first);
    p.ends[1].ep.handle_frame(now, &buf[..len]);
    p.exchange();
    assert_eq!(ok(&p.ends[0].completions()), [1, 2]);
}
