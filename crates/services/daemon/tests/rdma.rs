//! RDMA through daemons: applications that share ports, each with its own objects.

mod common;

use barewire_channel::Geometry;
use barewire_roce::{Access, Data, Modify, QpFault, QpState, RejReason, SendOp, SendWr, WcStatus};
use barewire_verbs::context::{
    AttachError, ConnectTo, Context, ContextConfig, ContextError, Event, Failure, QpAttr, Refusal,
};
use common::rdma::*;
use common::*;
use std::time::Duration;

#[test]
fn every_counter_of_the_daemon_is_in_the_registry() {
    let (daemon, _dir) = rdma_alone();
    let names = counters(&daemon);
    assert!(names.len() > 200 && names.keys().any(|name| name.starts_with("rdma.drop.")), "{}", names.len());
    for name in names.keys() {
        assert!(barewire_engine::place(name).is_some(), "{name} has no help text");
    }
}

#[test]
fn send_write_read_and_atomics_between_two_daemons() {
    let pair = rdma_pair();
    let (mut a, mut b) = joined(&pair, "app", 77, 1 << 20);
    // A send to a posted receive.
    b.context.post_recv(b.qp, 1, &[b.mr.sge(0, 4096)]).unwrap();
    let bytes = pattern(1, 3000);
    a.mr.write(0, &bytes);
    a.context.post_send(a.qp, &SendWr::new(2, SendOp::Send, Data::Sges(&[a.mr.sge(0, 3000)]))).unwrap();
    let wc = b.done();
    assert_eq!((wc.wr_id, wc.len, wc.qpn), (1, 3000, b.context.qpn(b.qp).unwrap()));
    assert_eq!(b.mr.read(0, 3000), bytes);
    assert_eq!(a.done().wr_id, 2);
    // A write of many packets, from four pieces.
    let bytes = pattern(2, 500_000);
    a.mr.write(0, &bytes);
    let to = SendOp::WriteImm { addr: b.mr.addr() + 8, rkey: b.mr.rkey(), imm: 0x1234_5678 };
    let list = [a.mr.sge(0, 1), a.mr.sge(1, 99_999), a.mr.sge(100_000, 0), a.mr.sge(100_000, 400_000)];
    b.context.post_recv(b.qp, 3, &[]).unwrap();
    a.context.post_send(a.qp, &SendWr::new(4, to, Data::Sges(&list))).unwrap();
    let wc = b.done();
    assert_eq!((wc.wr_id, wc.imm, wc.len), (3, Some(0x1234_5678), 500_000));
    assert!(b.mr.read(8, 500_000) == bytes);
    assert_eq!(a.done().wr_id, 4);
    // Inline, as much as fits into an entry, and as much as there may be.
    for (i, len) in [0usize, 1, 32, 33, 64].into_iter().enumerate() {
        let bytes = pattern(len as u64 + 9, len);
        b.context.post_recv(b.qp, 10, &[b.mr.sge(0, 10), b.mr.sge(10, 10), b.mr.sge(20, 100)]).unwrap();
        let wr = SendWr::new(i as u64, SendOp::SendImm(len as u32), Data::Inline(&bytes));
        a.context.post_send(a.qp, &wr).unwrap();
        let wc = b.done();
        assert_eq!((wc.len as usize, wc.imm), (len, Some(len as u32)));
        assert_eq!(b.mr.read(0, len), bytes);
        assert_eq!(a.done().wr_id, i as u64);
    }
    // A read back.
    b.mr.write(0, &pattern(3, 70_000));
    let from = SendOp::Read { addr: b.mr.addr(), rkey: b.mr.rkey() };
    a.context.post_send(a.qp, &SendWr::new(5, from, Data::Sges(&[a.mr.sge(100, 70_000)]))).unwrap();
    assert_eq!(a.done().wr_id, 5);
    assert!(a.mr.read(100, 70_000) == pattern(3, 70_000));
    // Atomics.
    b.mr.write(64, &40u64.to_ne_bytes());
    let (addr, rkey) = (b.mr.addr() + 64, b.mr.rkey());
    let value = [a.mr.sge(0, 8)];
    let before = |a: &mut End| {
        a.done();
        u64::from_ne_bytes(a.mr.read(0, 8).try_into().unwrap())
    };
    let add = SendOp::FetchAdd { addr, rkey, add: 2 };
    a.context.post_send(a.qp, &SendWr::new(6, add, Data::Sges(&value))).unwrap();
    assert_eq!(before(&mut a), 40);
    for (compare, swap, want) in [(41, 1, 42), (42, 7, 42), (7, 9, 7)] {
        let op = SendOp::CompareSwap { addr, rkey, compare, swap };
        a.context.post_send(a.qp, &SendWr::new(7, op, Data::Sges(&value))).unwrap();
        assert_eq!(before(&mut a), want);
    }
    assert_eq!(b.mr.read(64, 8), 9u64.to_ne_bytes());
}

#[test]
fn two_applications_of_one_daemon_and_two_of_another() {
    let pair = rdma_pair();
    // A and C at host 1, B and D at host 2; A with B, C with D, and A's second queue pair with C, which never leaves the host.
    let (mut a, mut b) = joined(&pair, "first", 1, 1 << 16);
    let (mut c, mut d) = joined(&pair, "second", 2, 1 << 16);
    let (first_a, first_c) = (a.qp, c.qp);
    a.qp = a.context.create_qp(&QpAttr::new(a.pd, a.cq)).unwrap();
    c.qp = c.context.create_qp(&QpAttr::new(c.pd, c.cq)).unwrap();
    join(&mut a, &mut c, 1, 3);
    let looped = c.qp;
    for i in 0..200u64 {
        let bytes = pattern(i, 10_000);
        for (from, qp, to) in [(&mut a, first_a, &mut b), (&mut c, first_c, &mut d)] {
            from.mr.write(0, &bytes);
            let op = SendOp::Write { addr: to.mr.addr(), rkey: to.mr.rkey() };
            from.context.post_send(qp, &SendWr::new(i, op, Data::Sges(&[from.mr.sge(0, 10_000)]))).unwrap();
            assert_eq!(from.done().wr_id, i);
            assert!(to.mr.read(0, 10_000) == bytes, "{i}");
        }
        let op = SendOp::Write { addr: c.mr.addr() + 20_000, rkey: c.mr.rkey() };
        a.context.post_send(a.qp, &SendWr::new(i, op, Data::Sges(&[a.mr.sge(0, 10_000)]))).unwrap();
        assert_eq!(a.done().wr_id, i);
        assert!(c.mr.read(20_000, 10_000) == bytes, "{i}");
    }
    assert_eq!(c.context.query_qp(looped).unwrap().state, QpState::Rts);
    assert!(counter(&pair.a, "stack.looped") > 400);
    for daemon in [&pair.a, &pair.b] {
        assert_eq!(counter(daemon, "applications.not_theirs"), 0);
        assert_eq!(counter(daemon, "applications.bad_entries"), 0);
        assert_eq!(counter(daemon, "rdma.requests_refused"), 0);
    }
    drop((a, b, c, d));
    eventually("nothing is left", || {
        counter(&pair.a, "rdma.objects") + counter(&pair.b, "rdma.objects") == 0
    });
    eventually("all queue pairs are gone", || counter(&pair.a, "rdma.queue_pairs") == 0);
    is_empty_again(&pair.a);
}

#[test]
fn messages_and_rdma_side_by_side() {
    let pair = rdma_pair();
    let (mut a, b) = joined(&pair, "rdma", 1, 1 << 20);
    let mut server = attach(&pair.b, "server");
    let mut client = attach(&pair.a, "client");
    let (flow, _) = flow(&mut client, &mut server, 2, 888);
    let echo = std::thread::spawn(move || echo(&mut server));
    for i in 0..100u64 {
        // Both under way at once.
        let bytes = pattern(i, 200_000);
        a.mr.write(0, &bytes);
        let op = SendOp::Write { addr: b.mr.addr(), rkey: b.mr.rkey() };
        a.context.post_send(a.qp, &SendWr::new(i, op, Data::Sges(&[a.mr.sge(0, 200_000)]))).unwrap();
        let text = pattern(i + 1000, 100_000);
        client.send(flow, &text).unwrap();
        assert!(message(&mut client) == text);
        assert_eq!(a.done().wr_id, i);
        assert!(b.mr.read(0, 200_000) == bytes, "{i}");
    }
    client.close(flow).unwrap();
    assert!(matches!(next_real(&mut client), barewire_client::Event::Closed { .. }));
    assert_eq!(echo.join().unwrap(), 100);
    // RDMA's port is RDMA's.
    let refused = client.listen_wait(4791, 0, PATIENCE);
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn a_daemon_without_rdma_says_so() {
    let pair = pair();
    let mut config = ContextConfig::new("none");
    config.socket = pair.a.socket().to_owned();
    assert!(matches!(Context::open_with(&config), Err(AttachError::NoRdma)));
    let mut several = common::config(Folder::new("daemon").path(), "packet:lo", 1);
    (several.engines, several.rdma.enabled) = (2, true);
    // Refused before anything is opened that needs rights.
    let refused = barewire_daemon::Daemon::start(&several).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("daemon.engines = 1"), "{refused}");
}

#[test]
fn nobody_there_nobody_listening_and_a_refusal() {
    let pair = rdma_pair();
    let mut a = End::new(&pair.a, "a", 4096);
    let mut b = open(&pair.b, "b");
    let to = |host, service| ConnectTo::new(v4(host).into(), service);
    // An address that does not resolve; the daemon's patience is shorter than the caller's.
    let e = a.context.start_connect(a.qp, &to(77, 1), Duration::from_millis(300)).map(|_| ());
    assert!(e.is_ok(), "{e:?}");
    match a.context.wait_event(PATIENCE).unwrap() {
        Event::ConnectFailed { qp, why, .. } => {
            assert_eq!(qp, Some(a.qp));
            assert!(matches!(ContextError::from(why), ContextError::Unreachable));
        }
        other => panic!("{other:?}"),
    }
    // Another family, to which there is no way.
    let nowhere = ConnectTo::new("fd99::1".parse().unwrap(), 1);
    assert!(matches!(a.context.connect(a.qp, &nowhere, PATIENCE), Err(ContextError::Unreachable)));
    // The queue pair is as good as new: nobody listens.
    let e = a.context.connect(a.qp, &to(2, 1), PATIENCE).unwrap_err();
    assert!(matches!(e, ContextError::Rejected(RejReason::INVALID_SERVICE)), "{e}");
    // A refusal, with what the application said, and then a connection all the same.
    let listener = b.listen(1, 4).unwrap();
    let asked = a.context.start_connect(a.qp, &to(2, 1), PATIENCE).unwrap();
    let wish = b.get_request(listener, PATIENCE).unwrap();
    assert_eq!((wish.remote, wish.remote_qpn), (v4(1).into(), a.context.qpn(a.qp).unwrap()));
    b.reject(&wish, RejReason::CONSUMER, &[5; 148]).unwrap();
    let event = a.context.wait_event(PATIENCE).unwrap();
    assert!(matches!(event, Event::ConnectFailed { conn, .. } if conn == asked), "{event:?}");
    // Too late, and twice.
    assert!(matches!(
        b.reject(&wish, RejReason::CONSUMER, &[]),
        Err(ContextError::Refused(Refusal::Unknown))
    ));
    // More private data than any message carries, or than this one.
    for (len, service) in [(225, 1), (93, 1)] {
        let bytes = vec![1; len];
        let to = ConnectTo { private: &bytes, ..to(2, service) };
        let e = a.context.connect(a.qp, &to, PATIENCE).unwrap_err();
        assert!(matches!(e, ContextError::Refused(Refusal::PrivateData)), "{len}: {e}");
    }
    let mut b = End {
        pd: b.alloc_pd().unwrap(),
        cq: b.create_cq(256).unwrap(),
        qp: a.qp,
        mr: a.context.reg_mr(a.pd, 1, Access::NONE).unwrap(),
        context: b,
    };
    b.qp = b.context.create_qp(&QpAttr::new(b.pd, b.cq)).unwrap();
    b.context.unlisten(listener).unwrap();
    join(&mut a, &mut b, 2, 1);
    assert_eq!(a.context.next_event(), None);
}

#[test]
fn a_post_that_the_daemon_refuses_completes() {
    let pair = rdma_pair();
    let mut a = End::new(&pair.a, "a", 4096);
    // Not connected.
    a.context.post_send(a.qp, &SendWr::new(1, SendOp::Send, Data::Inline(b"x"))).unwrap();
    let wc = a.context.wait_cq_any(a.cq, PATIENCE).unwrap();
    assert_eq!((wc.wr_id, wc.result), (1, Err(Failure::Refused(Refusal::State))));
    // More than the queue takes.
    for i in 0..130 {
        a.context.post_recv(a.qp, i, &[]).unwrap();
    }
    for i in 128..130 {
        let wc = a.context.wait_cq_any(a.cq, PATIENCE).unwrap();
        assert_eq!((wc.wr_id, wc.result), (i, Err(Failure::Refused(Refusal::QueueFull))));
    }
    assert_eq!(a.context.query_qp(a.qp).unwrap().recvs, 128);
    // What no queue pair can have is refused at once.
    let five = [a.mr.sge(0, 1); 5];
    let e = a.context.post_recv(a.qp, 0, &five).unwrap_err();
    assert!(matches!(e, ContextError::Invalid));
    let wr = SendWr::new(0, SendOp::Send, Data::Inline(&[0; 65]));
    assert!(matches!(a.context.post_send(a.qp, &wr), Err(ContextError::Invalid)));
    // Flushed: all of them, in order.
    a.context.modify_qp(a.qp, Modify::Err).unwrap();
    for i in 0..128 {
        let wc = a.context.wait_cq_any(a.cq, PATIENCE).unwrap();
        assert_eq!((wc.wr_id, wc.result), (i, Err(Failure::Failed(WcStatus::Flushed))));
    }
}

#[test]
fn shared_receives_invalidation_and_several_queues() {
    let pair = rdma_pair();
    let mut server = open(&pair.b, "server");
    let pd = server.alloc_pd().unwrap();
    let (send_cq, recv_cq) = (server.create_cq(64).unwrap(), server.create_cq(64).unwrap());
    let srq = server.create_srq(pd, 100).unwrap();
    let mr = server.reg_mr(pd, 100 * 64, Access::ALL).unwrap();
    for i in 0..10 {
        server.post_srq_recv(srq, i, &[mr.sge(i as usize * 64, 64)]).unwrap();
    }
    server.arm_srq(srq, 9).unwrap();
    let listener = server.listen(5, 8).unwrap();
    let mut clients = vec![];
    for _ in 0..2 {
        let mut client = End::new(&pair.a, "client", 4096);
        let attr = QpAttr { send_cq, recv_cq, srq: Some(srq), ..QpAttr::new(pd, send_cq) };
        let qp = server.create_qp(&attr).unwrap();
        client.context.start_connect(client.qp, &ConnectTo::new(v4(2).into(), 5), PATIENCE).unwrap();
        let request = server.get_request(listener, PATIENCE).unwrap();
        server.accept(&request, qp, b"").unwrap();
        server.wait_established(qp, PATIENCE).unwrap();
        assert!(matches!(client.context.wait_event(PATIENCE).unwrap(), Event::Connected { .. }));
        clients.push((client, qp));
    }
    let victim = server.reg_mr(pd, 64, Access::ALL).unwrap();
    for (i, (client, qp)) in clients.iter_mut().enumerate() {
        let op = if i == 0 { SendOp::Send } else { SendOp::SendInvalidate(victim.rkey()) };
        client.context.post_send(client.qp, &SendWr::new(1, op, Data::Inline(b"ping"))).unwrap();
        let wc = server.wait_cq(recv_cq, PATIENCE).unwrap();
        assert_eq!((wc.wr_id, wc.len, wc.qpn), (i as u64, 4, server.qpn(*qp).unwrap()));
        assert_eq!(wc.invalidated, (i == 1).then_some(victim.rkey()));
        assert_eq!(mr.read(i * 64, 4), b"ping");
        // The answer completes on the other queue.
        server.post_send(*qp, &SendWr::new(9, SendOp::Send, Data::Inline(b"pong"))).unwrap();
        client.context.post_recv(client.qp, 2, &[client.mr.sge(0, 64)]).unwrap();
        assert_eq!(server.get_cq_event(PATIENCE).unwrap(), send_cq);
        assert_eq!(server.wait_cq(send_cq, PATIENCE).unwrap().wr_id, 9);
        assert_eq!((client.done().wr_id, client.done().wr_id), (1, 2));
    }
    assert_eq!(server.take_event(|e| matches!(e, Event::SrqLow(_))), Some(Event::SrqLow(srq)));
    // The key is gone, the region's place comes back all the same; what is in use stays.
    server.dereg_mr(victim).unwrap();
    for refused in [server.destroy_srq(srq), server.destroy_cq(recv_cq), server.dealloc_pd(pd)] {
        assert!(matches!(refused, Err(ContextError::Refused(Refusal::Busy))), "{refused:?}");
    }
    for (client, qp) in &mut clients {
        server.destroy_qp(*qp).unwrap();
        assert!(matches!(client.context.wait_event(PATIENCE).unwrap(), Event::Disconnected { .. }));
    }
    server.destroy_srq(srq).unwrap();
    server.destroy_cq(recv_cq).unwrap();
    server.destroy_cq(send_cq).unwrap();
    server.dereg_mr(mr).unwrap();
    server.unlisten(listener).unwrap();
    server.dealloc_pd(pd).unwrap();
    eventually("nothing is left", || counter(&pair.b, "rdma.objects") == 0);
}

#[test]
fn completions_wait_for_an_application_that_does_not_look() {
    let pair = rdma_pair();
    let mut client = End::new(&pair.a, "client", 4096);
    let mut config = ContextConfig::new("slow");
    config.socket = pair.b.socket().to_owned();
    // Room for a handful of completions, and for many requests.
    config.geometry =
        Some(Geometry { sq_entries: 1024, cq_entries: 16, send_bytes: 1 << 16, recv_bytes: 4096 });
    let mut slow = Context::open_with(&config).unwrap();
    let (pd, cq) = (slow.alloc_pd().unwrap(), slow.create_cq(1000).unwrap());
    let attr = QpAttr { recv_max: 1000, ..QpAttr::new(pd, cq) };
    let qp = slow.create_qp(&attr).unwrap();
    let mr = slow.reg_mr(pd, 4096, Access::ALL).unwrap();
    let mut server = End { context: slow, pd, cq, qp, mr };
    join(&mut client, &mut server, 2, 1);
    for i in 0..600 {
        server.context.post_recv(qp, i, &[server.mr.sge(0, 64)]).unwrap();
    }
    // Their neighbours work on.
    let (mut a, b) = joined(&pair, "neighbour", 2, 1 << 16);
    for i in 0..600u64 {
        let wr = SendWr::new(i, SendOp::SendImm(i as u32), Data::Inline(b"text"));
        client.context.post_send(client.qp, &wr).unwrap();
        assert_eq!(client.done().wr_id, i);
    }
    assert!(counter(&pair.b, "rdma.waiting") >= 1);
    let bytes = pattern(1, 60_000);
    a.mr.write(0, &bytes);
    let op = SendOp::Write { addr: b.mr.addr(), rkey: b.mr.rkey() };
    a.context.post_send(a.qp, &SendWr::new(1, op, Data::Sges(&[a.mr.sge(0, 60_000)]))).unwrap();
    a.done();
    assert!(b.mr.read(0, 60_000) == bytes);
    for i in 0..600 {
        let wc = server.done();
        assert_eq!((wc.wr_id, wc.imm), (i, Some(i as u32)));
    }
    assert_eq!(server.context.poll_cq_one(cq).unwrap(), None);
    assert_eq!(server.context.next_event(), None, "nothing was lost");
    eventually("nothing waits", || counter(&pair.b, "rdma.waiting") == 0);
}

/// An application that looks at one queue only has the other's completions sorted into memory of its own. What does not fit there
/// was acknowledged long ago: it is kept, and the queue is in error like one that overruns at the daemon.
#[test]
fn a_queue_that_is_left_full_loses_nothing_and_ends_its_queue_pairs() {
    let pair = rdma_pair();
    let mut client = End::new(&pair.a, "client", 4096);
    let mut context = open(&pair.b, "server");
    let pd = context.alloc_pd().unwrap();
    let (cq, small) = (context.create_cq(64).unwrap(), context.create_cq(4).unwrap());
    let srq = context.create_srq(pd, 64).unwrap();
    let attr = QpAttr { recv_cq: small, srq: Some(srq), ..QpAttr::new(pd, cq) };
    let (qp, other) = (context.create_qp(&attr).unwrap(), context.create_qp(&attr).unwrap());
    let mr = context.reg_mr(pd, 4096, Access::ALL).unwrap();
    for i in 0..16 {
        context.post_srq_recv(srq, i, &[mr.sge(0, 64)]).unwrap();
    }
    let mut server = End { context, pd, cq, qp, mr };
    join(&mut client, &mut server, 2, 3);
    for i in 0..5 {
        client.context.post_send(client.qp, &SendWr::new(i, SendOp::Send, Data::Inline(b"text"))).unwrap();
        assert_eq!(client.done().wr_id, i);
        // The daemon hands it over at once; looking at the other queue takes it out of the ring.
        eventually("it is handed over", || {
            assert_eq!(server.context.poll_cq_one(cq).unwrap(), None);
            counter(&pair.b, "rdma.waiting") == 0
        });
    }
    let mut events = vec![];
    eventually("the application is told", || {
        assert_eq!(server.context.poll_cq_one(cq).unwrap(), None);
        events.extend(std::iter::from_fn(|| server.context.next_event()));
        events.len() == 3
    });
    assert_eq!(events[0], Event::CqOverrun(small));
    for qp in [qp, other] {
        assert!(events.contains(&Event::QpError(qp, QpFault::CompletionQueue)), "{events:?}");
        eventually("it is dead", || server.context.query_qp(qp).unwrap().state == QpState::Err);
    }
    // All that was acknowledged is there.
    for i in 0..5 {
        let wc = server.context.wait_cq(small, PATIENCE).unwrap();
        assert_eq!((wc.wr_id, wc.result), (i, Ok(())));
    }
    assert_eq!(server.context.poll_cq_one(small).unwrap(), None);
    let e = server.context.create_qp(&attr).unwrap_err();
    assert!(matches!(e, ContextError::Refused(Refusal::CqError)), "{e}");
}
