//! Handles that outlive their objects, and what one user of an endpoint can take from the others.

mod common;
use barewire_ring::Region;
use barewire_roce::*;
use common::*;

#[test]
fn a_handle_that_outlives_its_object_meets_nobody() {
    let mut end = End::new(config(1), 1);
    let (pd, ep) = (end.pd, &mut end.ep);
    let old = ep.create_cq(4).unwrap();
    ep.destroy_cq(old).unwrap();
    let new = ep.create_cq(4).unwrap();
    assert_ne!(old, new);
    assert_eq!(ep.poll_cq(old, &mut Vec::new(), 1), Err(VerbError::Unknown));
    assert_eq!(ep.arm_cq(old, false), Err(VerbError::Unknown));
    assert_eq!(ep.destroy_cq(old), Err(VerbError::Unknown));
    assert_eq!(ep.create_qp(&QpInit::rc(pd, old)), Err(VerbError::Unknown));
    assert_eq!(ep.destroy_cq(new), Ok(()));

    let old = ep.create_srq(pd, 4).unwrap();
    ep.destroy_srq(old).unwrap();
    let new = ep.create_srq(pd, 4).unwrap();
    assert_eq!(ep.post_srq_recv(old, 1, &[]), Err(VerbError::Unknown));
    assert_eq!(ep.arm_srq(old, 1), Err(VerbError::Unknown));
    assert_eq!(ep.destroy_srq(old), Err(VerbError::Unknown));
    assert_eq!(ep.post_srq_recv(new, 1, &[]), Ok(()));

    let old = ep.listen(7, 1).unwrap();
    ep.unlisten(old).unwrap();
    let new = ep.listen(8, 1).unwrap();
    assert_eq!(ep.unlisten(old), Err(ConnectError::State));
    assert_eq!(ep.unlisten(new), Ok(()));
}

#[test]
fn a_path_lives_as_long_as_somebody_wants_it() {
    let mut end = End::new(Config { paths_max: 2, ..config(1) }, 1);
    let ep = &mut end.ep;
    let to = |n| PathSpec::new(mac(n), ip(1), ip(n));
    let a = ep.path(to(2)).unwrap();
    // Two users of one path: the first that lets it go takes nothing from the other.
    assert_eq!(ep.path(to(2)), Ok(a));
    let b = ep.path(to(3)).unwrap();
    assert_eq!(ep.path(to(4)), Err(VerbError::Limit));
    ep.release_path(a).unwrap();
    assert_eq!(ep.path(to(4)), Err(VerbError::Limit));
    ep.release_path(a).unwrap();
    let c = ep.path(to(4)).unwrap();
    assert!(c != a && c != b);
    assert_eq!(ep.release_path(a), Err(VerbError::Unknown));
    let init = end.init();
    let qpn = end.ep.create_qp(&init).unwrap();
    let gone = end.ep.connect(barewire_base::Instant::ZERO, qpn, &Connect::new(a, SERVICE));
    assert_eq!(gone, Err(ConnectError::Verb(VerbError::Unknown)));
}

#[test]
fn completion_queues_are_promised_their_entries() {
    let mut config = config(2);
    config.requests_max = 100 + 4096;
    let mut p = Pair::with(common::config(1), config);
    // 4,096 are the test's own queue's.
    let greedy = p.ends[1].ep.create_cq(60).unwrap();
    assert_eq!(p.ends[1].ep.create_cq(41), Err(VerbError::Limit));
    let small = p.ends[1].ep.create_cq(40).unwrap();
    assert_eq!(p.ends[1].ep.create_cq(1), Err(VerbError::Limit));
    // Whoever lets a queue run over loses completions of its own, and nobody else's.
    let pd = p.ends[1].pd;
    let (now, mut posted) = (p.now, 0);
    for (cq, n) in [(greedy, 50), (small, 40), (greedy, 50)] {
        let init = QpInit { recv_max: n, ..QpInit::rc(pd, cq) };
        let qpn = p.ends[1].ep.create_qp(&init).unwrap();
        p.ends[1].ep.modify_qp(qpn, Modify::Init).unwrap();
        for i in 0..n {
            p.ends[1].ep.post_recv(qpn, i.into(), &[]).unwrap();
            posted += 1;
        }
        p.ends[1].ep.modify_qp(qpn, Modify::Err).unwrap();
        p.ends[1].ep.destroy_qp(now, qpn).unwrap();
    }
    assert_eq!(posted, 140);
    let mut got = Vec::new();
    assert_eq!(p.ends[1].ep.poll_cq(small, &mut got, 100), Ok(40));
    assert_eq!(p.ends[1].ep.poll_cq(greedy, &mut got, 100), Ok(60));
    assert_eq!(p.ends[1].take_events(), [Event::CqOverrun(greedy)]);
    // A queue that is gone gives back what it was promised.
    p.ends[1].ep.destroy_cq(greedy).unwrap();
    assert!(p.ends[1].ep.create_cq(60).is_ok());
}

#[test]
fn quotas_hold_each_owner_to_its_own() {
    let mut end = End::new(Config { requests_max: 10_000, regions_max: 10, qps_max: 10, ..config(1) }, 1);
    let now = barewire_base::Instant::ZERO;
    let quota = Quota { qps: 2, sends: 100, recvs: 60, regions: 1 };
    let pd = end.ep.alloc_pd_within(quota).unwrap();
    let cq = end.ep.create_cq(100).unwrap();
    let init = QpInit { send_max: 50, recv_max: 20, ..QpInit::rc(pd, cq) };
    assert_eq!(end.ep.create_qp(&QpInit { send_max: 101, ..init }), Err(VerbError::Limit));
    let a = end.ep.create_qp(&init).unwrap();
    assert_eq!(end.ep.create_qp(&QpInit { send_max: 51, ..init }), Err(VerbError::Limit));
    assert_eq!(end.ep.create_srq(pd, 41), Err(VerbError::Limit));
    let srq = end.ep.create_srq(pd, 40).unwrap();
    assert_eq!(end.ep.create_qp(&init), Err(VerbError::Limit), "no room for its receives");
    // With a shared queue it needs none of its own.
    let b = end.ep.create_qp(&QpInit { srq: Some(srq), ..init }).unwrap();
    assert_eq!(end.ep.create_qp(&QpInit { send_max: 0, recv_max: 0, ..init }), Err(VerbError::Limit));
    let mr = end.ep.reg_mr(pd, Region::heap(8), 0, Access::ALL).unwrap();
    assert_eq!(end.ep.reg_mr(pd, Region::heap(8), 0, Access::ALL), Err(VerbError::Limit));
    assert_eq!(end.ep.quota_used(pd), Some(quota));

    // Others are not touched by it.
    let other = end.ep.create_qp(&QpInit { pd: end.pd, ..init }).unwrap();
    assert_eq!(end.ep.quota_used(end.pd), None);
    end.ep.destroy_qp(now, other).unwrap();

    assert_eq!(end.ep.dealloc_pd(pd), Err(VerbError::Busy));
    end.ep.destroy_qp(now, b).unwrap();
    end.ep.destroy_qp(now, a).unwrap();
    end.ep.destroy_srq(srq).unwrap();
    assert_eq!(end.ep.quota_used(pd), Some(Quota { regions: 1, ..Quota::default() }));
    end.ep.dereg_mr(mr).unwrap();
    assert_eq!(end.ep.dealloc_pd(pd), Ok(()));
    assert_eq!(end.ep.dealloc_pd(pd), Err(VerbError::Unknown));
}

#[test]
fn quotas_together_stay_within_the_configuration() {
    let mut end = End::new(Config { requests_max: 10_000, regions_max: 10, qps_max: 10, ..config(1) }, 1);
    let quota = |qps, sends, recvs, regions| Quota { qps, sends, recvs, regions };
    let first = end.ep.alloc_pd_within(quota(4, 6_000, 9_000, 4)).unwrap();
    for more in [quota(7, 0, 0, 0), quota(0, 4_001, 0, 0), quota(0, 0, 1_001, 0), quota(0, 0, 0, 7)] {
        assert_eq!(end.ep.alloc_pd_within(more), Err(VerbError::Limit), "{more:?}");
    }
    assert!(end.ep.alloc_pd_within(quota(6, 4_000, 1_000, 6)).is_ok());
    end.ep.dealloc_pd(first).unwrap();
    assert!(end.ep.alloc_pd_within(quota(4, 6_000, 9_000, 4)).is_ok());
}

/// A key that the peer takes back is given back to its owner's quota.
#[test]
fn a_key_that_was_taken_back_is_no_longer_charged() {
    let mut p = Pair::new();
    let pd = p.ends[1].ep.alloc_pd_within(Quota { qps: 1, sends: 10, recvs: 10, regions: 1 }).unwrap();
    p.ends[1].pd = pd;
    let _ = p.ends[1].ep.listen(SERVICE, 1);
    p.ask(&[]);
    p.exchange();
    p.ends[1].drain_events();
    let Some((Event::ConnectRequest { conn, .. }, _)) = p.ends[1].events.pop() else { panic!() };
    let init = QpInit { send_max: 10, recv_max: 10, ..p.ends[1].init() };
    let b = p.ends[1].ep.create_qp(&init).unwrap();
    let now = p.now;
    p.ends[1].ep.accept(now, conn, b, &Terms::default()).unwrap();
    p.exchange();
    let Some(Event::Connected { qpn: a, .. }) = p.ends[0].take_events().pop() else { panic!() };
    let mr = p.ends[1].ep.reg_mr(pd, Region::heap(8), 0, Access::ALL).unwrap();
    p.ends[1].ep.post_recv(b, 1, &[]).unwrap();
    p.post(0, a, 1, SendOp::SendInvalidate(mr.rkey), 0, 0);
    p.exchange();
    assert_eq!(p.ends[1].completions()[0].invalidated, Some(mr.rkey));
    assert_eq!(p.ends[1].ep.quota_used(pd).map(|q| q.regions), Some(0));
    assert!(p.ends[1].ep.reg_mr(pd, Region::heap(8), 0, Access::ALL).is_ok());
}

/// Opening and closing listeners for ever takes no memory for ever: places come again, also when requests waited there.
#[test]
fn listeners_come_and_go() {
    let mut p = Pair::new();
    for round in 0..100 {
        let listener = p.ends[1].ep.listen(SERVICE, 10).unwrap();
        let (conn, _) = p.ask(&[]);
        p.exchange();
        p.ends[1].ep.unlisten(listener).unwrap();
        let (_, b) = p.accept();
        p.exchange();
        assert!(
            p.ends[1].take_events().iter().any(|e| matches!(e, Event::Established { qpn, .. } if *qpn == b))
        );
        let now = p.now;
        p.ends[0].ep.disconnect(now, conn).unwrap();
        p.run_for(ms(60));
        assert_eq!(p.ends[1].ep.connections(), 0, "{round}");
        let text = format!("{listener:?}");
        assert!(text.contains("slot: 0"), "{text}");
    }
}
