//! What a lost packet costs: a message of the connection manager its timer, a packet of data at most the ACK time-out.

mod common;
use barewire_base::{Duration, Instant};
use barewire_roce::*;
use barewire_wire::roce::Opcode;
use common::*;

/// The connection manager's first timer, and one tick of the wheel.
const TIMER: Duration = Duration::from_millis(20);
const TICK: Duration = Duration::from_nanos(1 << 14);
/// 4.096 us * 2^13, the default.
const ACK_TIMEOUT: Duration = Duration::from_nanos(4_096 << 13);

fn lose(p: &mut Pair, lost: &'static str, mut times: usize) {
    p.filter = Box::new(move |_, frame| {
        let lose = times > 0 && describe(frame) == lost;
        times -= usize::from(lose);
        !lose
    });
}

/// Runs until `done`, in steps of 10 us. How long it took.
fn until(p: &mut Pair, mut done: impl FnMut(&mut Pair) -> bool) -> Duration {
    let start = p.now;
    p.exchange();
    while !done(p) {
        p.run_for(Duration::from_micros(10));
        assert!(p.now.since(start) < Duration::from_secs(3), "for ever");
    }
    p.now.since(start)
}

fn told(p: &Pair, side: usize, what: impl Fn(&Event) -> bool) -> bool {
    p.ends[side].events.iter().any(|e| what(&e.0))
}

fn close_to(took: Duration, want: Duration) -> bool {
    took >= want && took <= want + TICK + Duration::from_micros(50)
}

#[test]
fn each_message_of_the_connection_manager_costs_its_timer() {
    for lost in ["Req", "Rep", "Rtu", "Dreq", "Drep"] {
        let mut p = Pair::new();
        p.ends[1].ep.listen(SERVICE, 10).unwrap();
        lose(&mut p, lost, 1);
        let start = p.now;
        let (conn, _) = p.ask(&[]);
        until(&mut p, |p| told(p, 1, |e| matches!(e, Event::ConnectRequest { .. })));
        p.accept();
        until(&mut p, |p| {
            told(p, 0, |e| matches!(e, Event::Connected { .. }))
                && told(p, 1, |e| matches!(e, Event::Established { .. }))
        });
        let now = p.now;
        p.ends[0].ep.disconnect(now, conn).unwrap();
        until(&mut p, |p| [0, 1].iter().all(|s| told(p, *s, |e| matches!(e, Event::Disconnected { .. }))));
        let took = p.now.since(start);
        println!("{lost} lost once: {took}");
        assert!(close_to(took, TIMER), "{lost}: {took}");
    }
}

#[test]
fn a_lost_refusal_costs_its_timer() {
    // Nobody listens; somebody listens and declines.
    for listens in [false, true] {
        let mut p = Pair::new();
        if listens {
            p.ends[1].ep.listen(SERVICE, 10).unwrap();
        }
        lose(&mut p, "Rej", 1);
        p.ask(&[]);
        let took = until(&mut p, |p| {
            let asked = p.ends[1].take_events();
            for event in asked {
                let Event::ConnectRequest { conn, .. } = event else { continue };
                p.ends[1].ep.reject(conn, RejReason::CONSUMER, b"no").unwrap();
            }
            told(p, 0, |e| matches!(e, Event::ConnectFailed { why: ConnectFailure::Rejected(_), .. }))
        });
        println!("Rej lost once: {took}");
        assert!(close_to(took, TIMER), "{took}");
        assert_eq!((p.ends[0].ep.connections(), p.ends[1].ep.connections()), (0, 0));
    }
}

/// Who asked has given up, and the message that says so is lost: the next REP is answered.
#[test]
fn a_lost_withdrawal_costs_nothing_when_it_is_found_out() {
    for lost_twice in [false, true] {
        let mut p = Pair::new();
        p.ends[1].ep.listen(SERVICE, 10).unwrap();
        let (_, qpn) = p.ask(&[]);
        p.exchange();
        lose(&mut p, "Rej", 1 + usize::from(lost_twice));
        let now = p.now;
        p.ends[0].ep.destroy_qp(now, qpn).unwrap();
        p.exchange();
        p.accept();
        let took = until(&mut p, |p| told(p, 1, |e| matches!(e, Event::ConnectFailed { .. })));
        println!("withdrawal lost: {took}");
        let want = if lost_twice { TIMER } else { Duration::ZERO };
        assert!(close_to(took, want), "{took}");
        // Who was asked remembers the request, so that a late copy does not ask again.
        assert_eq!((p.ends[0].ep.connections(), p.ends[1].ep.connections()), (0, 1));
        p.run_for(ms(60));
        assert_eq!(p.ends[1].ep.connections(), 0);
    }
}

/// The answer "still working on it" is lost: the request comes once more, and is answered so again.
#[test]
fn a_lost_delay_costs_one_more_request() {
    let mut p = Pair::new();
    p.ends[1].ep.listen(SERVICE, 10).unwrap();
    lose(&mut p, "Mra", 1);
    p.ask(&[]);
    p.exchange();
    p.ends[1].drain_events();
    let Event::ConnectRequest { conn, .. } = p.ends[1].events[0].0 else { panic!() };
    p.ends[1].ep.postpone(conn).unwrap();
    p.run_for(ms(90));
    assert_eq!((p.count("Req"), p.count("Mra")), (2, 1));
    let start = p.now;
    p.accept();
    let took = until(&mut p, |p| told(p, 0, |e| matches!(e, Event::Connected { .. })));
    println!("Mra lost once: {took} after the decision, at {} ms", start.as_nanos() / 1_000_000 - 1000);
    assert_eq!(took, Duration::ZERO);
}

/// The packets of all operations. What each costs when it is lost once is printed.
#[test]
fn each_kind_of_data_packet_costs_at_most_the_ack_time_out() {
    let run = |lost: Option<&'static str>| {
        let mut p = Pair::new();
        let [(_, a), (_, b)] = p.connect();
        p.log.clear();
        if let Some(lost) = lost {
            lose(&mut p, lost, 1);
        }
        let rkey = p.ends[1].mr.rkey;
        let data = pattern(3000, 1);
        p.ends[0].fill(0, &data);
        p.ends[1].fill(500_000, &data);
        for i in 0..6 {
            p.recv(1, b, 100 + i, 100_000 + 4000 * i as usize, 4000);
        }
        let (addr, word) = (BASE + 200_000, BASE + 300_000);
        let ops = [
            (SendOp::Send, 3000),
            (SendOp::SendImm(1), 3000),
            (SendOp::Send, 10),
            (SendOp::SendImm(2), 10),
            (SendOp::Write { addr, rkey }, 3000),
            (SendOp::WriteImm { addr, rkey, imm: 3 }, 3000),
            (SendOp::Write { addr, rkey }, 10),
            (SendOp::WriteImm { addr, rkey, imm: 4 }, 10),
            (SendOp::Read { addr: BASE + 500_000, rkey }, 3000),
            (SendOp::Read { addr: BASE + 500_000, rkey }, 10),
            (SendOp::FetchAdd { addr: word, rkey, add: 7 }, 8),
            (SendOp::CompareSwap { addr: word, rkey, compare: 7, swap: 9 }, 8),
        ];
        let mut done = 0;
        let mut cost = Duration::ZERO;
        // One after the other: nothing behind it tells of the loss.
        for (i, (op, len)) in ops.into_iter().enumerate() {
            let at =
                if matches!(op, SendOp::Read { .. } | SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. }) {
                    400_000 + 4000 * i
                } else {
                    0
                };
            p.post(0, a, i as u64, op, at, len);
            let took = until(&mut p, |p| {
                let wcs = p.ends[0].completions();
                assert!(wcs.iter().all(|wc| wc.status == WcStatus::Success));
                done += wcs.len();
                done > i
            });
            cost = cost.max(took);
        }
        assert_eq!(p.ends[1].completions().len(), 6);
        for i in 0..2 {
            assert_eq!(p.ends[1].bytes(100_000 + 4000 * i, 3000), data);
        }
        assert_eq!(p.ends[0].bytes(400_000 + 4000 * 8, 3000), data);
        assert_eq!(p.ends[1].memory.load_u64(300_000), Some(9));
        (cost, p.log)
    };
    let (cost, log) = run(None);
    assert_eq!(cost, Duration::ZERO);
    let kinds: Vec<&'static str> = Opcode::ALL.iter().filter_map(|o| o.name()).collect();
    let mut seen = 0;
    for kind in kinds {
        if !log.iter().any(|l| l.1 == kind) {
            continue;
        }
        seen += 1;
        let (cost, _) = run(Some(kind));
        println!("{kind} lost once: {cost}");
        // What comes in the middle is missed at once, by what follows it.
        if kind.ends_with("_FIRST") || kind.ends_with("_MIDDLE") {
            assert_eq!(cost, Duration::ZERO, "{kind}");
        } else {
            assert!(close_to(cost, ACK_TIMEOUT), "{kind}: {cost}");
        }
    }
    // 3 + 2 imm of SEND in pieces and 2 whole, as many of WRITE, 1 + 4 of READ, 2 atomics and their answer, 1 ACK.
    assert_eq!(seen, 6 + 6 + 5 + 3 + 1);
}

/// Retransmission time-outs back off exponentially: a peer whose machine is busy for a third of a second is not given up.
#[test]
fn a_peer_that_is_silent_for_a_while_is_not_given_up() {
    let mut p = Pair::new();
    let [(_, a), _] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    let back = p.now + ms(300);
    let now = std::rc::Rc::new(std::cell::Cell::new(Instant::ZERO));
    let clock = now.clone();
    p.filter = Box::new(move |_, _| clock.get() >= back);
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey }, 0, 10);
    let took = until(&mut p, |p| {
        now.set(p.now);
        p.ends[0].completions().iter().any(|wc| wc.status == WcStatus::Success)
    });
    assert!(took >= ms(300) && took < ms(600), "{took}");
}

/// A request that cannot be sent ends the connection only after those before it have been answered: each completion is true.
#[test]
fn a_local_mistake_ends_its_own_request() {
    let mut p = Pair::new();
    let [(_, a), _] = p.connect();
    let rkey = p.ends[1].mr.rkey;
    p.post(0, a, 1, SendOp::Write { addr: BASE, rkey }, 0, 5000);
    p.post(0, a, 2, SendOp::Read { addr: BASE, rkey }, 10_000, 5000);
    let bad = [Sge { lkey: !p.ends[0].mr.lkey, ..p.ends[0].sge(0, 5000) }];
    let wr = SendWr::new(3, SendOp::Write { addr: BASE, rkey }, Data::Sges(&bad));
    p.ends[0].ep.post_send(a, &wr).unwrap();
    p.post(0, a, 4, SendOp::Write { addr: BASE, rkey }, 0, 10);
    p.run_for(ms(10));
    let got: Vec<_> = p.ends[0].completions().iter().map(|wc| (wc.wr_id, wc.status)).collect();
    let (ok, bad, flushed) = (WcStatus::Success, WcStatus::LocalProtection, WcStatus::Flushed);
    assert_eq!(got, [(1, ok), (2, ok), (3, bad), (4, flushed)]);
}
