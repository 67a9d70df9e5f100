//! Messages of the connection manager that arrive late: a copy of a request opens no second connection, for as long as a packet may
//! be on its way.

mod common;
use barewire_base::Duration;
use barewire_roce::*;
use common::*;
use std::cell::RefCell;
use std::rc::Rc;

/// A pair that remembers closed connections for as long as one does without the tests' haste, and the first REQ of each attempt.
fn pair() -> (Pair, Rc<RefCell<Vec<Vec<u8>>>>) {
    let patient = |n| {
        let lifetime = Config::new(mac(n), ip(n)).cm.packet_lifetime;
        let mut config = config(n);
        config.cm.packet_lifetime = lifetime;
        config
    };
    let mut p = Pair::with(patient(1), patient(2));
    let requests = Rc::new(RefCell::new(Vec::new()));
    let keep = requests.clone();
    p.filter = Box::new(move |_, frame| {
        if describe(frame) == "Req" {
            keep.borrow_mut().push(frame.clone());
        }
        true
    });
    (p, requests)
}

fn requests(p: &mut Pair) -> usize {
    p.ends[1].take_events().iter().filter(|e| matches!(e, Event::ConnectRequest { .. })).count()
}

/// Late copies at many times after the end of a connection.
fn copies(p: &mut Pair, frame: &[u8]) {
    let remembered = p.ends[1].ep.config().cm.time_wait();
    assert!(remembered >= ms(500));
    let end = p.now + remembered;
    let before = (p.ends[1].ep.counters().rej_sent.get(), p.ends[1].ep.connections());
    for _ in 0..10 {
        let now = p.now;
        p.ends[1].ep.handle_frame(now, frame);
        p.exchange();
        assert_eq!(requests(p), 0, "with {} to go", end.since(now));
        assert_eq!((p.ends[1].ep.counters().rej_sent.get(), p.ends[1].ep.connections()), before);
        p.run_for(remembered.div(11));
    }
    // Nobody remembers for ever.
    p.run_for(remembered);
    assert_eq!((p.ends[1].ep.connections(), p.ends[0].ep.connections()), (0, 0));
}

#[test]
fn a_late_request_opens_no_phantom() {
    let (mut p, sent) = pair();
    let [(conn, _), _] = p.connect();
    let now = p.now;
    p.ends[0].ep.disconnect(now, conn).unwrap();
    p.exchange();
    requests(&mut p);
    let frame = sent.borrow()[0].clone();
    copies(&mut p, &frame);
}

/// What was taken back, or given up, before it was a connection.
#[test]
fn a_late_request_of_an_attempt_that_failed() {
    type End = fn(&mut Pair, ConnId, Qpn);
    let ways: [(&str, End); 4] = [
        ("taken back before the decision", |p, _, a| {
            let now = p.now;
            p.ends[0].ep.destroy_qp(now, a).unwrap();
            p.exchange();
        }),
        ("taken back after it", |p, _, a| {
            let now = p.now;
            p.accept();
            p.ends[0].ep.destroy_qp(now, a).unwrap();
            p.exchange();
        }),
        ("given up by who accepted", |p, _, _| {
            let (_, b) = p.accept();
            let now = p.now;
            p.ends[1].ep.destroy_qp(now, b).unwrap();
            p.exchange();
        }),
        ("never heard of again", |p, _, a| {
            p.accept();
            let old = std::mem::replace(&mut p.filter, Box::new(|_, _| false));
            p.run_for(Duration::from_secs(10));
            p.filter = old;
            let now = p.now;
            let _ = p.ends[0].ep.destroy_qp(now, a);
        }),
    ];
    for (name, end) in ways {
        let (mut p, sent) = pair();
        p.ends[1].ep.listen(SERVICE, 1).unwrap();
        let (conn, a) = p.ask(&[]);
        p.exchange();
        end(&mut p, conn, a);
        requests(&mut p);
        let frame = sent.borrow()[0].clone();
        let now = p.now;
        if name != "never heard of again" {
            p.ends[1].ep.handle_frame(now, &frame);
            p.exchange();
            assert_eq!(requests(&mut p), 0, "{name}");
        }
        // The place in the backlog is free, and the peer may ask again.
        p.run_for(Duration::from_secs(1));
        requests(&mut p);
        p.ask(&[]);
        p.exchange();
        assert_eq!(requests(&mut p), 1, "{name}");
    }
}

/// A queue pair whose first attempt failed may be used for another one at once: it was never connected, so it is not stale.
#[test]
fn another_attempt_with_the_same_queue_pair() {
    let (mut p, _) = pair();
    p.ends[1].ep.listen(SERVICE, 1).unwrap();
    let (_, a) = p.ask(&[]);
    p.exchange();
    // Its REPs are lost, and so it gives up.
    let old = std::mem::replace(&mut p.filter, Box::new(|side, _| side == 0));
    let (_, b) = p.accept();
    p.run_for(Duration::from_secs(10));
    p.filter = old;
    assert!(p.ends[0].take_events().iter().any(|e| matches!(e, Event::ConnectFailed { .. })));
    assert!(
        p.ends[1].take_events().iter().any(|e| matches!(e, Event::ConnectFailed { qpn, .. } if *qpn == b))
    );
    let path = p.path(0);
    let now = p.now;
    p.ends[0].ep.connect(now, a, &Connect::new(path, SERVICE)).unwrap();
    p.exchange();
    p.accept();
    p.exchange();
    assert!(p.ends[0].take_events().iter().any(|e| matches!(e, Event::Connected { qpn, .. } if *qpn == a)));
    assert_eq!(p.ends[1].ep.counters().stale.get(), 0);
}
