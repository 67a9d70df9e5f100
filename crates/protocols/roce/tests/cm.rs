//! How connections open and close, and what happens when somebody or something interferes.

mod common;
use barewire_base::{DropReason, Duration, Instant};
use barewire_roce::*;
use barewire_wire::roce::cm::{Mad, Message};
use barewire_wire::roce::rdma_cm::{self, Addresses, IpHeader, PortSpace};
use barewire_wire::roce::{Opcode, Segment};
use common::*;
use std::cell::RefCell;
use std::rc::Rc;

/// Frames, and which side sent each.
type Frames = Vec<(usize, Vec<u8>)>;

/// Keeps a copy of every frame; passes those that `pass` says.
fn tap(p: &mut Pair, mut pass: impl FnMut(usize, &str) -> bool + 'static) -> Rc<RefCell<Frames>> {
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keep = kept.clone();
    p.filter = Box::new(move |side, frame| {
        keep.borrow_mut().push((side, frame.clone()));
        pass(side, &describe(frame))
    });
    kept
}

fn message<'a>(frame: &'a [u8]) -> Mad<'a> {
    Mad::parse(Segment::parse(datagram(frame)).unwrap().payload).unwrap()
}

fn states(p: &Pair, a: ConnId, b: ConnId) -> (Option<ConnState>, Option<ConnState>) {
    (p.ends[0].ep.conn_info(a).map(|i| i.state), p.ends[1].ep.conn_info(b).map(|i| i.state))
}

#[test]
fn a_connection_takes_five_frames_from_birth_to_death() {
    let mut p = Pair::new();
    let [(a, qa), (b, qb)] = p.connect();
    assert_eq!(states(&p, a, b), (Some(ConnState::Established), Some(ConnState::Established)));
    let now = p.now;
    p.ends[0].ep.disconnect(now, a).unwrap();
    p.exchange();
    let log: Vec<_> = p.log.iter().map(|(side, what)| (*side, what.as_str())).collect();
    assert_eq!(log, [(0, "Req"), (1, "Rep"), (0, "Rtu"), (0, "Dreq"), (1, "Drep")]);
    assert_eq!(p.ends[0].take_events(), [Event::Disconnected { conn: a, qpn: qa, why: Ended::Local }]);
    assert_eq!(p.ends[1].take_events(), [Event::Disconnected { conn: b, qpn: qb, why: Ended::Remote }]);
    assert_eq!(p.ends[1].ep.query_qp(qb).map(|v| v.state), Ok(QpState::Err));
    assert_eq!(states(&p, a, b), (Some(ConnState::TimeWait), Some(ConnState::TimeWait)));
    p.run_for(ms(60));
    assert_eq!((p.ends[0].ep.connections(), p.ends[1].ep.connections()), (0, 0));
    assert_eq!(p.ends[0].ep.poll_timeout(), None);
}

/// The number in a message is for its receiver to send with. Two ends of ours that both had it wrong would understand each
/// other, so the frames themselves are looked at.
#[test]
fn whose_sequence_number_it_is() {
    let mut p = Pair::new();
    let kept = tap(&mut p, |_, _| true);
    let [(_, qa), (_, qb)] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    p.post(0, qa, 1, SendOp::Write { addr: BASE, rkey }, 0, 8);
    p.post(1, qb, 1, SendOp::Write { addr: BASE, rkey: p.ends[0].mr.rkey }, 0, 8);
    p.exchange();
    let kept = kept.borrow();
    let (Message::Req(req), Message::Rep(rep)) = (message(&kept[0].1).message, message(&kept[1].1).message)
    else {
        panic!()
    };
    let first = |side: usize| {
        let of = kept.iter().filter(|k| k.0 == side).map(|k| Segment::parse(datagram(&k.1)).unwrap().bth);
        of.clone().find(|b| b.opcode == Opcode::WRITE_ONLY).unwrap()
    };
    assert_ne!(req.starting_psn, rep.starting_psn);
    assert_eq!((first(0).psn, first(0).dst_qpn), (rep.starting_psn, rep.qpn));
    assert_eq!((first(1).psn, first(1).dst_qpn), (req.starting_psn, req.qpn));
}

/// Each message lost once costs its own timer, which is 20 ms here, and nothing else.
#[test]
fn each_kind_of_message_lost_once_costs_its_timer() {
    for lost in ["Req", "Rep", "Rtu", "Dreq", "Drep"] {
        for times in [1, 2] {
            let mut p = Pair::new();
            let mut left = times;
            tap(&mut p, move |_, what| {
                let lose = what == lost && left > 0;
                left -= usize::from(lose);
                !lose
            });
            p.ends[1].ep.listen(SERVICE, 10).unwrap();
            let start = p.now;
            let (a, _) = p.ask(&[]);
            let mut accepted = None;
            let mut closed = None;
            let mut quiet_at = None;
            while quiet_at.is_none() {
                p.run_for(Duration::from_micros(100));
                assert!(p.now.since(start) < ms(100), "{lost}");
                if accepted.is_none()
                    && p.ends[1].events.iter().any(|e| matches!(e.0, Event::ConnectRequest { .. }))
                {
                    accepted = Some(p.accept());
                    p.exchange();
                }
                let Some((b, _)) = accepted else { continue };
                let state = states(&p, a, b);
                let both = (Some(ConnState::Established), Some(ConnState::Established));
                if closed.is_none() && state == both {
                    let now = p.now;
                    p.ends[0].ep.disconnect(now, a).unwrap();
                    closed = Some(now);
                }
                // The passive side may have forgotten it by then.
                if state.0 == Some(ConnState::TimeWait) && matches!(state.1, None | Some(ConnState::TimeWait))
                {
                    quiet_at = Some(p.now);
                }
            }
            let took = quiet_at.unwrap().since(start);
            // Both sides' timers can bring a lost REP again: the peer repeats its REQ, and we our REP.
            let wait = if times == 1 || lost == "Rep" { ms(20) } else { ms(60) };
            assert!(took >= wait && took < wait + ms(1), "{lost} lost {times} times took {took}");
            let resent = p.ends[0].ep.counters().cm_resent.get() + p.ends[1].ep.counters().cm_resent.get();
            assert!((times..=times + 1).contains(&(resent as usize)), "{lost}: {resent}");
        }
    }
}

#[test]
fn data_is_as_good_as_an_rtu() {
    let mut p = Pair::new();
    tap(&mut p, |_, what| what != "Rtu");
    p.ends[1].ep.listen(SERVICE, 10).unwrap();
    let (a, qa) = p.ask(&[]);
    p.exchange();
    let (b, qb) = p.accept();
    p.recv(1, qb, 1, 0, 100);
    p.exchange();
    assert_eq!(states(&p, a, b), (Some(ConnState::Established), Some(ConnState::RepSent)));
    p.post(0, qa, 1, SendOp::Send, 0, 5);
    p.exchange();
    assert_eq!(p.ends[1].take_events(), [Event::Established { conn: b, qpn: qb }]);
    p.post(1, qb, 2, SendOp::Write { addr: BASE, rkey: p.ends[0].mr.rkey }, 0, 5);
    p.run_for(ms(100));
    assert_eq!(p.ends[1].completions().len(), 2);
    assert_eq!(p.ends[1].ep.counters().cm_resent.get(), 0);
}

#[test]
fn private_data_goes_both_ways() {
    let mut p = Pair::new();
    p.ends[1].ep.listen(SERVICE, 10).unwrap();
    let (want, back) = (pattern(92, 7), pattern(196, 8));
    p.ask(&want);
    p.exchange();
    let (Event::ConnectRequest { conn, service_id: SERVICE, .. }, got) = p.ends[1].events.pop().unwrap()
    else {
        panic!()
    };
    assert_eq!(got, want);
    let init = p.ends[1].init();
    let b = p.ends[1].ep.create_qp(&init).unwrap();
    let now = p.now;
    p.ends[1].ep.accept(now, conn, b, &Terms { private: &back }).unwrap();
    p.exchange();
    assert_eq!(p.ends[0].events.pop().unwrap().1, back);
    // Short ones come back without the zeros that fill the message up.
    p.ask(b"hi");
    p.exchange();
    let (Event::ConnectRequest { conn, .. }, got) = p.ends[1].events.pop().unwrap() else { panic!() };
    assert_eq!(got, b"hi");
    p.ends[1].ep.reject(conn, RejReason::CONSUMER, b"sorry").unwrap();
    p.exchange();
    let (event, got) = p.ends[0].events.pop().unwrap();
    assert!(matches!(event, Event::ConnectFailed { why: ConnectFailure::Rejected(RejReason::CONSUMER), .. }));
    assert_eq!(got, b"sorry");
    let (path, now) = (p.path(0), p.now);
    let init = p.ends[0].init();
    let qpn = p.ends[0].ep.create_qp(&init).unwrap();
    let long = Connect { private: &[1; 93], ..Connect::new(path, SERVICE) };
    assert_eq!(p.ends[0].ep.connect(now, qpn, &long), Err(ConnectError::PrivateData));
}

#[test]
fn ports_are_service_ids_with_addresses_in_front() {
    let mut p = Pair::new();
    let service_id = rdma_cm::service_id(PortSpace::Tcp, 7174);
    p.ends[1].ep.listen(service_id, 10).unwrap();
    let kept = tap(&mut p, |_, _| true);
    let (path, now) = (p.path(0), p.now);
    let init = p.ends[0].init();
    let qpn = p.ends[0].ep.create_qp(&init).unwrap();
    let private = pattern(56, 3);
    let to = Connect { private: &private, src_port: 4000, ..Connect::new(path, service_id) };
    p.ends[0].ep.connect(now, qpn, &to).unwrap();
    p.exchange();
    let first = kept.borrow()[0].1.clone();
    let Message::Req(req) = message(&first).message else { panic!() };
    let want = Addresses::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
    assert_eq!(IpHeader::parse(req.private), Some(IpHeader { src_port: 4000, addresses: want }));
    let (Event::ConnectRequest { conn, .. }, got) = p.ends[1].events.pop().unwrap() else { panic!() };
    assert_eq!(got, private);
    let info = p.ends[1].ep.conn_info(conn).unwrap();
    assert_eq!((info.peer, info.local, info.service_id), (ip(1), ip(2), service_id));
    assert_eq!(info.remote_qpn, qpn.number());
}

/// The reason in the REJ that a REQ changed this way gets.
fn refusal(change: impl FnOnce(&mut Message<'_>) + 'static, other: Config) -> Option<RejReason> {
    let mut p = Pair::with(config(1), other);
    p.ends[1].ep.listen(SERVICE, 1).unwrap();
    let mut change = Some(change);
    p.filter = Box::new(move |_, frame| {
        if let Some(change) = change.take() {
            with_message(frame, change);
        }
        true
    });
    let (conn, qpn) = p.ask(&[]);
    p.exchange();
    match p.ends[0].take_events()[..] {
        [Event::ConnectFailed { conn: c, qpn: q, why: ConnectFailure::Rejected(reason) }] => {
            assert_eq!((c, q), (conn, qpn));
            assert_eq!(p.ends[1].ep.counters().rej_sent.get(), 1);
            // The queue pair is as good as new.
            assert_eq!(p.ends[0].ep.query_qp(qpn).map(|v| v.state), Ok(QpState::Init));
            Some(reason)
        }
        [] => None,
        ref events => panic!("{events:?}"),
    }
}

#[test]
fn requests_are_refused_with_their_reason() {
    let req = |change: fn(&mut barewire_wire::roce::cm::Req<'_>)| {
        refusal(
            move |m| match m {
                Message::Req(req) => change(req),
                _ => panic!(),
            },
            config(2),
        )
    };
    assert_eq!(req(|_| ()), None);
    assert_eq!(req(|r| r.service_id += 1), Some(RejReason::INVALID_SERVICE));
    assert_eq!(req(|r| r.transport = 1), Some(RejReason::INVALID_TRANSPORT));
    assert_eq!(req(|r| r.path_mtu = 0), Some(RejReason::INVALID_MTU));
    assert_eq!(req(|r| r.path_mtu = 9), Some(RejReason::INVALID_MTU));
    let small = Config { mtu: Mtu::M512, ..config(2) };
    assert_eq!(refusal(|_| (), small), Some(RejReason::INVALID_MTU));
    let full = Config { connections_max: 1, ..config(2) };
    let mut p = Pair::with(config(1), full);
    p.ends[1].ep.listen(SERVICE, 10).unwrap();
    p.ask(&[]);
    p.ask(&[]);
    p.exchange();
    let why = ConnectFailure::Rejected(RejReason::NO_RESOURCES);
    assert!(matches!(p.ends[0].take_events()[..], [Event::ConnectFailed { why: w, .. }] if w == why));
}

#[test]
fn a_full_backlog_refuses_and_empties() {
    let mut p = Pair::new();
    let listener = p.ends[1].ep.listen(SERVICE, 3).unwrap();
    assert_eq!(p.ends[1].ep.listen(SERVICE, 3), Err(ConnectError::InUse));
    for _ in 0..5 {
        p.ask(&[]);
    }
    p.exchange();
    assert_eq!(p.ends[1].ep.counters().backlog_full.get(), 2);
    assert_eq!(p.ends[0].take_events().len(), 2);
    for _ in 0..3 {
        p.accept();
    }
    p.exchange();
    for _ in 0..3 {
        p.ask(&[]);
    }
    p.exchange();
    assert_eq!(p.ends[1].ep.counters().backlog_full.get(), 2);
    p.ends[1].ep.unlisten(listener).unwrap();
    assert_eq!(p.ends[1].ep.unlisten(listener), Err(ConnectError::State));
    p.ask(&[]);
    p.exchange();
    let events = p.ends[0].take_events();
    let why = ConnectFailure::Rejected(RejReason::INVALID_SERVICE);
    assert!(matches!(events.last(), Some(Event::ConnectFailed { why: w, .. }) if *w == why));
}

#[test]
fn an_application_that_thinks_for_long_holds_repetitions_off() {
    let mut p = Pair::new();
    p.ends[1].ep.listen(SERVICE, 3).unwrap();
    p.ask(&[]);
    p.exchange();
    // The second REQ is answered with an MRA, by which the peer waits 100 ms and more.
    p.run_for(ms(130));
    assert_eq!((p.count("Req"), p.count("Mra")), (2, 1));
    p.accept();
    p.exchange();
    assert!(matches!(p.ends[0].take_events()[..], [Event::Connected { .. }]));
    // And on the application's own word, before there is a repetition.
    p.ask(&[]);
    p.exchange();
    let Some((Event::ConnectRequest { conn, .. }, _)) = p.ends[1].events.pop() else { panic!() };
    p.ends[1].ep.postpone(conn).unwrap();
    p.run_for(ms(110));
    assert_eq!((p.count("Req"), p.count("Mra")), (3, 2));
}

#[test]
fn nobody_waits_for_ever() {
    let quick = CmConfig { retries: 3, ..CmConfig::default() };
    let make = |n| Config { cm: quick.clone(), ..config(n) };
    // The REQ is never answered: 20 + 40 + 80 + 160 ms.
    let mut p = Pair::with(make(1), make(2));
    tap(&mut p, |_, what| what != "Req");
    let (conn, qpn) = p.ask(&[]);
    p.run_for(ms(299));
    assert_eq!(p.ends[0].take_events(), []);
    p.run_for(ms(2));
    let why = ConnectFailure::Timeout;
    assert_eq!(p.ends[0].take_events(), [Event::ConnectFailed { conn, qpn, why }]);
    // The REP is never answered.
    let mut p = Pair::with(make(1), make(2));
    tap(&mut p, |_, what| what != "Rep");
    p.ends[1].ep.listen(SERVICE, 3).unwrap();
    p.ask(&[]);
    p.exchange();
    let (conn, qpn) = p.accept();
    p.run_for(ms(400));
    assert!(matches!(
        p.ends[1].take_events()[..],
        [Event::ConnectFailed { conn: c, qpn: q, why: ConnectFailure::Rejected(RejReason::TIMEOUT) | ConnectFailure::Timeout }]
            if (c, q) == (conn, qpn)
    ));
    // The DREQ is never answered.
    let mut p = Pair::with(make(1), make(2));
    let [(a, qa), _] = p.connect();
    tap(&mut p, |_, what| what != "Dreq");
    let now = p.now;
    p.ends[0].ep.disconnect(now, a).unwrap();
    p.run_for(ms(301));
    assert_eq!(p.ends[0].take_events(), [Event::Disconnected { conn: a, qpn: qa, why: Ended::Timeout }]);
}

#[test]
fn both_may_hang_up_at_once() {
    let mut p = Pair::new();
    let [(a, _), (b, _)] = p.connect();
    let now = p.now;
    p.ends[0].ep.disconnect(now, a).unwrap();
    p.ends[1].ep.disconnect(now, b).unwrap();
    p.run_for(ms(100));
    assert!(matches!(p.ends[0].take_events()[..], [Event::Disconnected { .. }]));
    assert!(matches!(p.ends[1].take_events()[..], [Event::Disconnected { .. }]));
    assert_eq!((p.ends[0].ep.connections(), p.ends[1].ep.connections()), (0, 0));
    assert_eq!(p.ends[0].ep.counters().cm_resent.get(), 0);
}

#[test]
fn a_queue_pair_that_is_destroyed_takes_its_connection_with_it() {
    let mut p = Pair::new();
    let [(_, qa), (b, qb)] = p.connect();
    let now = p.now;
    p.ends[0].ep.destroy_qp(now, qa).unwrap();
    p.exchange();
    assert_eq!(p.ends[0].take_events(), []);
    assert_eq!(p.ends[1].take_events(), [Event::Disconnected { conn: b, qpn: qb, why: Ended::Remote }]);
    // Before it is open, too.
    let (_, qa) = p.ask(&[]);
    p.exchange();
    let (b, qb) = {
        p.filter = Box::new(|side, _| side == 0);
        p.accept()
    };
    p.exchange();
    p.ends[0].ep.destroy_qp(now, qa).unwrap();
    p.exchange();
    let why = ConnectFailure::Rejected(RejReason::TIMEOUT);
    assert_eq!(p.ends[1].take_events(), [Event::ConnectFailed { conn: b, qpn: qb, why }]);
}

/// Every message of a whole life again, at the end of it and in the middle: nothing is opened, closed or told twice.
#[test]
fn old_messages_change_nothing() {
    let mut p = Pair::new();
    let kept = tap(&mut p, |_, _| true);
    let [(a, _), (b, _)] = p.connect();
    let replay = |p: &mut Pair, n: usize| {
        let frames: Vec<_> = kept.borrow()[..n].to_vec();
        for (side, frame) in frames {
            let now = p.now;
            p.ends[1 - side].ep.handle_frame(now, &frame);
            p.exchange();
        }
        assert_eq!((p.ends[0].take_events(), p.ends[1].take_events()), (vec![], vec![]));
    };
    replay(&mut p, 3);
    assert_eq!(states(&p, a, b), (Some(ConnState::Established), Some(ConnState::Established)));
    let now = p.now;
    p.ends[0].ep.disconnect(now, a).unwrap();
    p.exchange();
    p.ends[0].take_events();
    p.ends[1].take_events();
    let n = kept.borrow().len();
    replay(&mut p, n);
    assert_eq!(states(&p, a, b), (Some(ConnState::TimeWait), Some(ConnState::TimeWait)));
    p.run_for(ms(100));
    // A DREQ to somebody who has forgotten is answered all the same.
    p.log.clear();
    let dreq = kept.borrow().iter().find(|k| describe(&k.1) == "Dreq").unwrap().1.clone();
    let now = p.now;
    p.ends[1].ep.handle_frame(now, &dreq);
    p.exchange();
    assert_eq!(p.count("Drep"), 1);
}

/// Messages that do not know our numbers, or come from elsewhere, change nothing either.
#[test]
fn forged_messages_change_nothing() {
    for state in ["connecting", "established"] {
        let mut p = Pair::new();
        let kept = tap(&mut p, |_, _| true);
        let [(a, qa), (b, qb)] = p.connect();
        let now = p.now;
        p.ends[0].ep.disconnect(now, a).unwrap();
        p.exchange();
        let _ = (p.ends[0].take_events(), p.ends[1].take_events(), qa, qb, b);
        let frames = kept.borrow().clone();
        // A second connection, whose numbers the forger does not know.
        let (a, b) = if state == "connecting" {
            p.filter = Box::new(|_, _| false);
            let (a, _) = p.ask(&[]);
            p.exchange();
            (a, None)
        } else {
            let [(a, _), (b, _)] = p.connect();
            (a, Some(b))
        };
        let before = (p.ends[0].ep.conn_info(a), b.map(|b| p.ends[1].ep.conn_info(b)));
        p.filter = Box::new(|_, _| false);
        for (side, frame) in frames {
            if describe(&frame) == "Req" {
                continue;
            }
            for guess in 0..200u32 {
                let mut forged = frame.clone();
                with_message(&mut forged, |m| {
                    let (local, remote) = (guess.wrapping_mul(0x9e37_79b9), guess << 21 | guess & 1);
                    match m {
                        Message::Rep(m) => (m.local_id, m.remote_id) = (local, remote),
                        Message::Rtu(m) => (m.local_id, m.remote_id) = (local, remote),
                        Message::Dreq(m) => (m.local_id, m.remote_id) = (local, remote),
                        Message::Drep(m) => (m.local_id, m.remote_id) = (local, remote),
                        _ => panic!(),
                    }
                });
                p.ends[1 - side].ep.handle_frame(now, &forged);
            }
        }
        p.exchange();
        assert_eq!(before, (p.ends[0].ep.conn_info(a), b.map(|b| p.ends[1].ep.conn_info(b))), "{state}");
        assert_eq!((p.ends[0].take_events(), p.ends[1].take_events()), (vec![], vec![]), "{state}");
        let unknown = |end: &End| end.ep.counters().drops.get(DropReason::UnknownFlow);
        assert!(unknown(&p.ends[0]) + unknown(&p.ends[1]) > 500);
    }
}

#[test]
fn a_flood_of_requests_is_held_to_the_backlog() {
    let mut p = Pair::new();
    p.ends[1].ep.listen(SERVICE, 16).unwrap();
    let [(_, qa), _] = {
        let pair = p.connect();
        p.log.clear();
        pair
    };
    let kept = tap(&mut p, |_, _| false);
    p.ask(&[]);
    p.exchange();
    let req = kept.borrow()[0].1.clone();
    p.filter = Box::new(|_, _| true);
    let now = p.now;
    for i in 0..20_000u32 {
        let mut forged = req.clone();
        forged[28..30].copy_from_slice(&(i as u16).to_be_bytes()); // from everywhere
        barewire_wire::ipv4::Packet::new_unchecked(&mut forged[14..34]).fill_checksum();
        with_message(&mut forged, |m| {
            let Message::Req(r) = m else { panic!() };
            (r.local_id, r.qpn) = (i, i & 0xff_ffff);
        });
        p.ends[1].ep.handle_frame(now, &forged);
    }
    let counters = p.ends[1].ep.counters();
    assert!(p.ends[1].ep.connections() <= 17 + 1000, "{}", p.ends[1].ep.connections());
    assert_eq!(counters.req_received.get(), 20_001);
    assert!(counters.backlog_full.get() + counters.drops.total() + 1100 > 20_000);
    p.exchange();
    // The connection that was there works on.
    let rkey = p.ends[1].mr.rkey;
    p.post(0, qa, 1, SendOp::Write { addr: BASE, rkey }, 0, 8);
    p.exchange();
    assert_eq!(p.ends[0].completions().len(), 1);
}

#[test]
fn a_peer_without_memory_is_told_so_and_its_old_connection_ends() {
    let mut p = Pair::new();
    let kept = tap(&mut p, |_, _| true);
    let [_, (b, qb)] = p.connect();
    let req = kept.borrow()[0].1.clone();
    let again = |p: &mut Pair, id: u32, guid: u64| {
        let mut frame = req.clone();
        with_message(&mut frame, |m| {
            let Message::Req(r) = m else { panic!() };
            r.local_id = id;
            r.guid ^= guid;
        });
        let now = p.now;
        p.ends[1].ep.handle_frame(now, &frame);
        p.exchange();
    };
    // Another adapter that claims the same number: refused, and nothing else.
    again(&mut p, 77, 1);
    assert_eq!(p.ends[1].take_events(), []);
    again(&mut p, 78, 0);
    assert_eq!(p.ends[1].take_events(), [Event::Disconnected { conn: b, qpn: qb, why: Ended::Stale }]);
    assert_eq!(p.ends[1].ep.counters().stale.get(), 2);
    let reasons: Vec<_> = kept
        .borrow()
        .iter()
        .filter(|k| describe(&k.1) == "Rej")
        .map(|k| match message(&k.1).message {
            Message::Rej(rej) => rej.reason,
            _ => panic!(),
        })
        .collect();
    assert_eq!(reasons, [RejReason::STALE; 2]);
}

#[test]
fn one_call_opens_many() {
    let mut p = Pair::new();
    p.ends[1].ep.listen(SERVICE, 1000).unwrap();
    let (path, now, init) = (p.path(0), p.now, p.ends[0].init());
    let mut out = Vec::new();
    let n = p.ends[0].ep.connect_many(now, 500, &init, &Connect::new(path, SERVICE), &mut out).unwrap();
    assert_eq!((n, out.len()), (500, 500));
    p.exchange();
    for _ in 0..500 {
        p.accept();
    }
    p.exchange();
    assert_eq!(p.ends[0].take_events().len(), 500);
    assert_eq!(p.ends[1].take_events().len(), 500);
    assert_eq!(p.log.len(), 1500);
    let few = Config { qps_max: 3, ..config(1) };
    let mut p = Pair::with(few, config(2));
    let (path, init) = (p.path(0), p.ends[0].init());
    let to = Connect::new(path, SERVICE);
    assert_eq!(p.ends[0].ep.connect_many(now, 500, &init, &to, &mut out), Ok(3));
    let full = ConnectError::Verb(VerbError::Limit);
    assert_eq!(p.ends[0].ep.connect_many(now, 500, &init, &to, &mut out), Err(full));
}

#[test]
fn times_of_waiting_grow_and_are_bounded() {
    let mut p = Pair::new();
    let sent = Rc::new(RefCell::new(Vec::<Instant>::new()));
    tap(&mut p, |_, _| false);
    p.ask(&[]);
    for _ in 0..40_000 {
        let before = p.ends[0].ep.counters().cm_resent.get();
        p.run_for(Duration::from_micros(100));
        if p.ends[0].ep.counters().cm_resent.get() > before {
            sent.borrow_mut().push(p.now);
        }
    }
    let sent = sent.borrow();
    let gaps: Vec<u64> = sent.windows(2).map(|w| w[1].since(w[0]).as_nanos() / 1_000_000).collect();
    assert_eq!(gaps, [40, 80, 160, 320, 640, 1000, 1000]);
}
