//! Applications and daemons that die in the middle of transfers.

mod common;

use barewire_base::Prng;
use barewire_engine::now;
use barewire_roce::{Data, SendOp, SendWr};
use barewire_verbs::context::{ConnectTo, ContextError, Event, QpAttr};
use common::rdma::*;
use common::*;
use std::time::Duration;

fn write(a: &mut End, b: &End, wr_id: u64, len: usize) {
    let op = SendOp::Write { addr: b.mr.addr(), rkey: b.mr.rkey() };
    a.context.post_send(a.qp, &SendWr::new(wr_id, op, Data::Sges(&[a.mr.sge(0, len)]))).unwrap();
}

#[test]
fn an_applications_death_is_its_peers_news_and_nobody_elses() {
    let seed = 3;
    println!("seed {seed}");
    let mut prng = Prng::new(seed);
    let pair = rdma_pair();
    let (mut steady, steady_peer) = joined(&pair, "steady", 1, 1 << 20);
    let objects = |daemon| counter(daemon, "rdma.objects");
    // A domain, a completion queue, a queue pair, memory, a connection.
    let quiet = 5;
    for death in 0..40u64 {
        let (mut a, mut b) = joined(&pair, "mortal", 2, 1 << 20);
        // More than is through when it dies.
        for i in 0..prng.below(8) {
            write(&mut a, &b, i, 1 << 20);
        }
        // Sometimes with a listener, a wish under way, something posted.
        match prng.below(4) {
            0 => {
                a.context.listen(77, 4).unwrap();
            }
            1 => {
                let qp = a.context.create_qp(&QpAttr::new(a.pd, a.cq)).unwrap();
                let host = [2, 99][prng.below(2) as usize];
                let to = ConnectTo { private: b"x", ..ConnectTo::new(v4(host).into(), 1000) };
                a.context.start_connect(qp, &to, PATIENCE).unwrap();
            }
            2 => b.context.post_recv(b.qp, 1, &[b.mr.sge(0, 100)]).unwrap(),
            _ => {}
        }
        std::thread::sleep(Duration::from_micros(prng.below(500)));
        let bytes = pattern(death, 1 << 19);
        steady.mr.write(0, &bytes);
        write(&mut steady, &steady_peer, death, 1 << 19);
        // Either end, each in its turn.
        let (dead, mut left) = if death % 2 == 0 { (a, b) } else { (b, a) };
        drop(dead);
        let end = now() + PATIENCE.into();
        loop {
            match left.context.wait_event(PATIENCE).unwrap() {
                Event::Disconnected { qp, .. } => {
                    assert_eq!(qp, left.qp);
                    break;
                }
                // The second wish, where it had one.
                Event::QpError(..) | Event::ConnectFailed { .. } => {}
                other => panic!("{other:?}"),
            }
            assert!(now() < end);
        }
        drop(left);
        assert_eq!(steady.done().wr_id, death);
        assert!(steady_peer.mr.read(0, 1 << 19) == bytes, "after death {death}");
        for daemon in [&pair.a, &pair.b] {
            eventually("its objects are gone", || objects(daemon) == quiet);
        }
    }
    for daemon in [&pair.a, &pair.b] {
        eventually("one queue pair is left", || counter(daemon, "rdma.queue_pairs") == 1);
        eventually("nothing waits", || counter(daemon, "rdma.waiting") == 0);
    }
}

#[test]
fn a_wish_dies_with_its_listener() {
    let pair = rdma_pair();
    let mut server = open(&pair.b, "server");
    let listener = server.listen(5, 4).unwrap();
    let mut client = End::new(&pair.a, "client", 4096);
    client.context.start_connect(client.qp, &ConnectTo::new(v4(2).into(), 5), PATIENCE).unwrap();
    server.get_request(listener, PATIENCE).unwrap();
    drop(server);
    let event = client.context.wait_event(PATIENCE).unwrap();
    assert!(matches!(event, Event::ConnectFailed { .. }), "{event:?}");
    // And the client that has given up is no application's wish any more.
    let mut server = open(&pair.b, "server");
    let listener = server.listen(5, 4).unwrap();
    client.context.start_connect(client.qp, &ConnectTo::new(v4(2).into(), 5), PATIENCE).unwrap();
    let wish = server.get_request(listener, PATIENCE).unwrap();
    drop(client);
    eventually(
        "the wish is taken back",
        || matches!(server.next_event(), Some(Event::ConnectFailed { conn, qp: None, .. }) if conn == wish.conn),
    );
    assert!(server.reject(&wish, barewire_roce::RejReason::CONSUMER, b"").is_err());
    // Nobody had looked at it: nobody hears of it.
    let mut client = End::new(&pair.a, "client", 4096);
    client.context.start_connect(client.qp, &ConnectTo::new(v4(2).into(), 5), PATIENCE).unwrap();
    eventually("it is here", || counter(&pair.b, "rdma.objects") == 2);
    drop(client);
    eventually("it is gone", || counter(&pair.b, "rdma.objects") == 1);
    assert_eq!(server.next_event(), None);
}

#[test]
fn a_daemon_that_stops_ends_every_call() {
    let pair = rdma_pair();
    let (mut a, mut b) = joined(&pair, "app", 1, 1 << 16);
    let waiter = std::thread::spawn(move || {
        let e = a.context.wait_cq_any(a.cq, PATIENCE).unwrap_err();
        (a, e)
    });
    std::thread::sleep(Duration::from_millis(20));
    let Pair { a: daemon, b: other, .. } = pair;
    daemon.stop().unwrap();
    let (mut a, e) = waiter.join().unwrap();
    assert!(matches!(e, ContextError::DaemonGone), "{e}");
    assert!(a.context.is_closed());
    let gone = |e: Result<(), ContextError>| assert!(matches!(e, Err(ContextError::DaemonGone)), "{e:?}");
    gone(a.context.alloc_pd().map(|_| ()));
    gone(a.context.wait_event(PATIENCE).map(|_| ()));
    gone(a.context.poll_cq_one(a.cq).map(|_| ()));
    let end = now() + PATIENCE.into();
    let wr = SendWr::new(1, SendOp::Send, Data::Inline(b"x"));
    // The ring takes what it has room for.
    let e = loop {
        assert!(now() < end);
        if let Err(e) = a.context.post_send(a.qp, &wr) {
            break e;
        }
    };
    gone(Err(e));
    // The memory is still there; the peer was told.
    assert!(a.mr.write(0, b"still here"));
    let event = b.context.wait_event(PATIENCE).unwrap();
    assert!(matches!(event, Event::Disconnected { .. }), "{event:?}");
    drop((a, b));
    other.stop().unwrap();
}
