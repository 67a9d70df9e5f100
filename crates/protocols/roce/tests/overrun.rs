//! Completion queues that nobody empties: nothing is acknowledged that cannot be told, and nobody goes on as if it had been.

mod common;
use barewire_roce::*;
use common::*;

fn status(wcs: &[Wc]) -> Vec<(u64, WcStatus)> {
    wcs.iter().map(|w| (w.wr_id, w.status)).collect()
}

/// A connection whose second side completes receives in `cq`, from a shared queue with `recvs` requests.
fn connect_into(p: &mut Pair, cq: CqId, recvs: u64) -> (Qpn, Qpn) {
    let _ = p.ends[1].ep.listen(SERVICE, 1000);
    let (_, a) = p.ask(&[]);
    p.exchange();
    let at = p.ends[1].events.iter().position(|(e, _)| matches!(e, Event::ConnectRequest { .. })).unwrap();
    let (Event::ConnectRequest { conn, .. }, _) = p.ends[1].events.remove(at) else { panic!() };
    let pd = p.ends[1].pd;
    let srq = p.ends[1].ep.create_srq(pd, 1000).unwrap();
    for i in 0..recvs {
        let sge = [p.ends[1].sge(0, 100)];
        p.ends[1].ep.post_srq_recv(srq, 100 + i, &sge).unwrap();
    }
    let init = QpInit { recv_cq: cq, srq: Some(srq), ..p.ends[1].init() };
    let b = p.ends[1].ep.create_qp(&init).unwrap();
    let now = p.now;
    p.ends[1].ep.accept(now, conn, b, &Terms::default()).unwrap();
    p.exchange();
    (a, b)
}

/// The completion of a message that arrived is lost: its sender must not believe that it was received.
#[test]
fn what_cannot_be_told_is_not_acknowledged() {
    let ops: [fn(u32) -> SendOp; 3] =
        [|_| SendOp::Send, |_| SendOp::SendImm(1), |rkey| SendOp::WriteImm { addr: BASE, rkey, imm: 1 }];
    for op in ops {
        let mut p = Pair::new();
        let small = p.ends[1].ep.create_cq(1).unwrap();
        let (a, b) = connect_into(&mut p, small, 3);
        let rkey = p.ends[1].mr.rkey;
        for i in 0..3 {
            p.post(0, a, i, op(rkey), 0, 10);
        }
        p.exchange();
        p.run_for(ms(20));
        assert_eq!(
            status(&p.ends[0].completions()),
            [(0, WcStatus::Success), (1, WcStatus::RemoteOperation), (2, WcStatus::Flushed)]
        );
        assert_eq!(p.ends[1].ep.query_qp(b).unwrap().state, QpState::Err);
        let mut told = Vec::new();
        p.ends[1].ep.poll_cq(small, &mut told, 10).unwrap();
        assert_eq!(status(&told), [(100, WcStatus::Success)]);
        assert_eq!(p.ends[1].ep.counters().cq_overruns.get(), 1);
    }
}

/// A queue that has lost a completion is in error: so are all queue pairs that use it, in whichever direction, and no others.
#[test]
fn a_queue_that_overruns_ends_its_queue_pairs() {
    let mut p = Pair::new();
    let small = p.ends[1].ep.create_cq(1).unwrap();
    let (a, b) = connect_into(&mut p, small, 3);
    let (c, d) = connect_into(&mut p, small, 3);
    let [(_, e), (_, f)] = p.connect();
    let end = &mut p.ends[1];
    let new = QpInit { send_cq: small, ..QpInit::rc(end.pd, end.cq) };
    let unused = end.ep.create_qp(&new).unwrap();
    end.take_events();
    for i in 0..2 {
        p.post(0, a, i, SendOp::Send, 0, 10);
    }
    p.exchange();
    let fault = QpFault::CompletionQueue;
    let mut events = p.ends[1].take_events();
    assert_eq!(events[..2], [Event::CqOverrun(small), Event::QpError(b, fault)]);
    events[2..].sort_by_key(|e| format!("{e:?}"));
    let mut others = [Event::QpError(d, fault), Event::QpError(unused, fault)];
    others.sort_by_key(|e| format!("{e:?}"));
    assert_eq!(events[2..], others);
    for (qpn, state) in [(b, QpState::Err), (d, QpState::Err), (unused, QpState::Err), (f, QpState::Rts)] {
        assert_eq!(p.ends[1].ep.query_qp(qpn).unwrap().state, state, "{qpn:?}");
    }
    // The peer of one that had nothing on its way finds out when it wants something.
    p.ends[0].completions();
    p.post(0, c, 7, SendOp::Send, 0, 10);
    p.post(0, e, 8, SendOp::Write { addr: BASE, rkey: p.ends[1].mr.rkey }, 0, 10);
    p.run_for(ms(20_000));
    assert_eq!(status(&p.ends[0].completions()), [(8, WcStatus::Success), (7, WcStatus::RetryExceeded)]);
    // It is in error for good, also when it has room again.
    let end = &mut p.ends[1];
    assert_eq!(end.ep.poll_cq(small, &mut Vec::new(), 10), Ok(1));
    assert_eq!(end.ep.create_qp(&new), Err(VerbError::CqError));
    assert_eq!(end.ep.create_qp(&QpInit { recv_cq: small, ..end.init() }), Err(VerbError::CqError));
    assert_eq!(end.ep.destroy_cq(small), Err(VerbError::Busy));
    for qpn in [b, d, unused] {
        end.ep.destroy_qp(p.now, qpn).unwrap();
    }
    assert_eq!(end.ep.destroy_cq(small), Ok(()));
}

/// The same for our own requests: what was answered and cannot be told ends the queue pair.
#[test]
fn a_queue_of_sends_that_overruns() {
    let mut p = Pair::new();
    let small = p.ends[0].ep.create_cq(1).unwrap();
    let path = p.path(0);
    p.ends[1].ep.listen(SERVICE, 1000).unwrap();
    let now = p.now;
    let init = QpInit { send_cq: small, ..p.ends[0].init() };
    let a = p.ends[0].ep.create_qp(&init).unwrap();
    p.ends[0].ep.connect(now, a, &Connect::new(path, SERVICE)).unwrap();
    p.exchange();
    p.accept();
    p.exchange();
    p.ends[0].take_events();
    let rkey = p.ends[1].mr.rkey;
    // A read, a write and an atomic, each answered in another way; the last two are under way when the second completes.
    p.post(0, a, 1, SendOp::Read { addr: BASE, rkey }, 0, 3000);
    p.post(0, a, 2, SendOp::FetchAdd { addr: BASE, rkey, add: 1 }, 0, 8);
    p.post(0, a, 3, SendOp::Write { addr: BASE, rkey }, 0, 3000);
    p.post(0, a, 4, SendOp::Write { addr: BASE, rkey }, 0, 3000);
    p.recv(0, a, 9, 0, 10);
    p.exchange();
    p.run_for(ms(20_000));
    assert_eq!(p.ends[0].ep.query_qp(a).unwrap().state, QpState::Err);
    let mut told = Vec::new();
    p.ends[0].ep.poll_cq(small, &mut told, 10).unwrap();
    assert_eq!(status(&told), [(1, WcStatus::Success)]);
    // Its other queue tells what it always tells.
    assert_eq!(status(&p.ends[0].completions()), [(9, WcStatus::Flushed)]);
    // The second, and the two that were flushed.
    assert_eq!(p.ends[0].ep.counters().cq_overruns.get(), 3);
    let fault = QpFault::CompletionQueue;
    assert_eq!(p.ends[0].take_events(), [Event::CqOverrun(small), Event::QpError(a, fault)]);
}

/// Datagrams promise nothing, but what was taken from the receive queue has to be told all the same.
#[test]
fn a_queue_of_datagrams_that_overruns() {
    let mut p = Pair::new();
    let small = p.ends[1].ep.create_cq(1).unwrap();
    let path = p.path(0);
    let mut qps = Vec::new();
    for side in 0..2 {
        let end = &mut p.ends[side];
        let recv_cq = if side == 1 { small } else { end.cq };
        let srq = end.ep.create_srq(end.pd, 10).unwrap();
        for i in 0..3 {
            let sge = [end.sge(0, 200)];
            end.ep.post_srq_recv(srq, i, &sge).unwrap();
        }
        let init = QpInit { kind: QpKind::Ud, qkey: 5, recv_cq, srq: Some(srq), ..end.init() };
        let qpn = end.ep.create_qp(&init).unwrap();
        for to in [Modify::Init, Modify::RtrDatagram, Modify::RtsDatagram(0)] {
            end.ep.modify_qp(qpn, to).unwrap();
        }
        qps.push(qpn);
    }
    let remote = Some(Remote { path, qpn: qps[1].number(), qkey: 5 });
    for i in 0..3 {
        let wr = SendWr { remote, ..SendWr::new(i, SendOp::Send, Data::Inline(b"hello")) };
        p.ends[0].ep.post_send(qps[0], &wr).unwrap();
    }
    p.exchange();
    assert_eq!(p.ends[1].ep.query_qp(qps[1]).unwrap().state, QpState::Err);
    assert_eq!(p.ends[1].ep.counters().cq_overruns.get(), 1);
    let fault = QpFault::CompletionQueue;
    assert_eq!(p.ends[1].take_events(), [Event::CqOverrun(small), Event::QpError(qps[1], fault)]);
}

/// Thousands of queue pairs on one queue are ended some at a time; the endpoint says that it has work until all are.
#[test]
fn many_queue_pairs_are_ended_in_turns() {
    const MANY: usize = 3000;
    let mut end = End::new(config(1), 1);
    let small = end.ep.create_cq(1).unwrap();
    let init = QpInit { recv_max: 1, ..QpInit::rc(end.pd, small) };
    let qps: Vec<Qpn> = (0..MANY).map(|_| end.ep.create_qp(&init).unwrap()).collect();
    for &qpn in &qps {
        end.ep.modify_qp(qpn, Modify::Init).unwrap();
        end.ep.post_recv(qpn, 1, &[]).unwrap();
    }
    for &qpn in &qps[..2] {
        end.ep.modify_qp(qpn, Modify::Err).unwrap();
    }
    let mut turns = 0;
    while end.ep.poll_timeout().is_some() {
        turns += 1;
        end.ep.handle_timeout(barewire_base::Instant::ZERO);
        assert!(turns < 10);
    }
    assert!(turns > 1);
    let dead = |qpn: &&Qpn| end.ep.query_qp(**qpn).unwrap().state == QpState::Err;
    assert_eq!(qps.iter().filter(dead).count(), MANY);
    // All but the one that had room are lost, and each is counted.
    assert_eq!(end.ep.counters().cq_overruns.get(), MANY as u64 - 1);
    let events = end.take_events();
    assert_eq!(events.iter().filter(|e| matches!(e, Event::CqOverrun(_))).count(), 1);
    assert_eq!(events.len(), 1 + MANY - 2, "those that were told to die need not be told of it");
}

/// A queue that is ended before all of that was done, and another one in its place.
#[test]
fn a_queue_that_is_ended_while_its_queue_pairs_die() {
    let mut end = End::new(config(1), 1);
    let small = end.ep.create_cq(1).unwrap();
    let init = QpInit { recv_max: 1, ..QpInit::rc(end.pd, small) };
    let qps: Vec<Qpn> = (0..2).map(|_| end.ep.create_qp(&init).unwrap()).collect();
    for &qpn in &qps {
        end.ep.modify_qp(qpn, Modify::Init).unwrap();
        end.ep.post_recv(qpn, 1, &[]).unwrap();
        end.ep.modify_qp(qpn, Modify::Err).unwrap();
        end.ep.destroy_qp(barewire_base::Instant::ZERO, qpn).unwrap();
    }
    end.ep.destroy_cq(small).unwrap();
    let next = end.ep.create_cq(1).unwrap();
    let heir = end.ep.create_qp(&QpInit { send_cq: next, ..end.init() }).unwrap();
    end.take_events();
    assert_eq!(end.ep.query_qp(heir).unwrap().state, QpState::Reset);
    assert_eq!(end.ep.poll_timeout(), None);
}

/// A receive request always makes a completion, so there must be room for as many as a queue pair can have.
#[test]
fn a_queue_is_not_smaller_than_the_receives_of_one_queue_pair() {
    let mut end = End::new(config(1), 1);
    let cq = end.ep.create_cq(16).unwrap();
    let init = QpInit { recv_max: 17, send_max: 200, ..QpInit::rc(end.pd, cq) };
    assert_eq!(end.ep.create_qp(&init), Err(VerbError::CqTooSmall));
    assert!(end.ep.create_qp(&QpInit { recv_max: 16, ..init }).is_ok());
    // Those of a shared queue belong to nobody in particular.
    let srq = end.ep.create_srq(end.pd, 100).unwrap();
    let shares = end.ep.create_qp(&QpInit { srq: Some(srq), ..init }).unwrap();
    // What was refused holds nothing.
    end.ep.destroy_qp(barewire_base::Instant::ZERO, shares).unwrap();
    assert_eq!(end.ep.live_qps(), 1);
}
