//! Private data arrives, or the message that carries it waits, is refused, or is counted: it never vanishes in silence.

mod common;
use barewire_roce::*;
use common::*;

/// Moves frames and looks at the events of side 1 only.
fn shuttle(p: &mut Pair) {
    let mut buf = vec![0; 5000];
    loop {
        let mut quiet = true;
        for side in 0..2 {
            while let Some(len) = p.ends[side].ep.poll_transmit(p.now, &mut buf) {
                quiet = false;
                p.ends[1 - side].ep.handle_frame(p.now, &buf[..len]);
            }
        }
        if quiet {
            return;
        }
    }
}

fn ask(p: &mut Pair, private: &[u8]) -> Result<(ConnId, Qpn), ConnectError> {
    let path = p.path(0);
    let init = p.ends[0].init();
    let qpn = p.ends[0].ep.create_qp(&init).unwrap();
    let asked = p.ends[0].ep.connect(p.now, qpn, &Connect { private, ..Connect::new(path, SERVICE) });
    if asked.is_err() {
        p.ends[0].ep.destroy_qp(p.now, qpn).unwrap();
    }
    asked.map(|conn| (conn, qpn))
}

/// The request that side 1 has, and its private data.
fn request(p: &mut Pair) -> Option<(ConnId, Vec<u8>)> {
    while let Some(event) = p.ends[1].ep.poll_event() {
        if let Event::ConnectRequest { conn, .. } = event {
            return Some((conn, p.ends[1].ep.private_data().to_vec()));
        }
    }
    None
}

/// An asking side that has taken none of its events, and has no room for private data left.
fn full() -> Pair {
    let small = |n| Config { connections_max: 4, ..config(n) };
    let mut p = Pair::with(small(1), small(2));
    p.ends[1].ep.listen(SERVICE, 10).unwrap();
    for n in 0..2000u64 {
        let (_, qpn) = ask(&mut p, b"").unwrap();
        shuttle(&mut p);
        let (conn, _) = request(&mut p).unwrap();
        let before = p.ends[0].ep.counters().private_full.get();
        p.ends[1].ep.reject(conn, RejReason::CONSUMER, &n.to_be_bytes()).unwrap();
        shuttle(&mut p);
        p.ends[0].ep.destroy_qp(p.now, qpn).unwrap();
        if p.ends[0].ep.counters().private_full.get() > before {
            return p;
        }
    }
    panic!("it is never full");
}

/// What waits is taken; how many refusals came with their private data, and how many without.
fn take_all(p: &mut Pair) -> (u64, u64) {
    let (mut with, mut without) = (0u64, 0);
    while let Some(event) = p.ends[0].ep.poll_event() {
        assert!(matches!(event, Event::ConnectFailed { why: ConnectFailure::Rejected(_), .. }), "{event:?}");
        let bytes = p.ends[0].ep.private_data().to_vec();
        if bytes.is_empty() && with > 0 {
            without += 1;
        } else {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(&bytes);
            assert_eq!(u64::from_be_bytes(whole), with);
            with += 1;
        }
    }
    (with, without)
}

#[test]
fn a_refusal_without_room_is_told_and_counted() {
    let mut p = full();
    let (with, without) = take_all(&mut p);
    assert!(with > 8 && without == 1, "{with} {without}");
    assert_eq!(p.ends[0].ep.counters().private_full.get(), 1);
    // Everything is there again.
    let (conn, _) = ask(&mut p, &[7; 92]).unwrap();
    shuttle(&mut p);
    assert_eq!(request(&mut p).unwrap().1, [7; 92]);
    assert!(p.ends[0].ep.conn_info(conn).is_some());
}

#[test]
fn who_asks_is_told_that_there_is_no_room() {
    let mut p = full();
    let before = (p.ends[0].ep.connections(), p.ends[0].ep.live_qps());
    assert_eq!(ask(&mut p, b"hello"), Err(ConnectError::Limit));
    assert_eq!((p.ends[0].ep.connections(), p.ends[0].ep.live_qps()), before);
    // Without private data there is nothing to keep.
    assert!(ask(&mut p, b"").is_ok());
    take_all(&mut p);
    assert!(ask(&mut p, b"hello").is_ok());
}

#[test]
fn a_reply_without_room_comes_again() {
    let mut p = full();
    let (_, a) = ask(&mut p, b"").unwrap();
    shuttle(&mut p);
    let (conn, _) = request(&mut p).unwrap();
    let init = p.ends[1].init();
    let b = p.ends[1].ep.create_qp(&init).unwrap();
    p.ends[1].ep.accept(p.now, conn, b, &Terms { private: &[9; 196] }).unwrap();
    shuttle(&mut p);
    assert_eq!(p.ends[0].ep.query_qp(a).unwrap().state, QpState::Init, "not connected without it");
    assert_eq!(p.ends[0].ep.counters().private_full.get(), 2);
    take_all(&mut p);
    p.run_for(ms(50));
    let (event, private) = p.ends[0].events.pop().unwrap();
    assert!(matches!(event, Event::Connected { qpn, .. } if qpn == a), "{event:?}");
    assert_eq!(private, [9; 196]);
}

/// What was sent with the request is not needed any more when its answer is there.
#[test]
fn a_reply_takes_the_place_of_the_request() {
    let mut p = full();
    // One place is free: the request takes it.
    for _ in 0..3 {
        // The first one carries only zeros, which is nothing; the last one's are still shown.
        p.ends[0].ep.poll_event();
    }
    let (_, a) = ask(&mut p, b"hello").unwrap();
    assert_eq!(ask(&mut p, b"hello"), Err(ConnectError::Limit));
    shuttle(&mut p);
    let (conn, private) = request(&mut p).unwrap();
    assert_eq!(private, b"hello");
    let init = p.ends[1].init();
    let b = p.ends[1].ep.create_qp(&init).unwrap();
    p.ends[1].ep.accept(p.now, conn, b, &Terms { private: &[9; 196] }).unwrap();
    shuttle(&mut p);
    assert_eq!(p.ends[0].ep.query_qp(a).unwrap().state, QpState::Rts);
    let last = std::iter::from_fn(|| {
        let event = p.ends[0].ep.poll_event()?;
        Some((event, p.ends[0].ep.private_data().to_vec()))
    });
    let (event, private) = last.last().unwrap();
    assert!(matches!(event, Event::Connected { qpn, .. } if qpn == a), "{event:?}");
    assert_eq!(private, [9; 196]);
}

/// A peer that asks and takes it back, over and over, fills what is kept of it where the application looks at nothing. Then
/// requests wait until it does; none comes without what it carries.
#[test]
fn a_request_without_room_comes_again() {
    let small = |n| Config { connections_max: 4, ..config(n) };
    let mut p = Pair::with(small(1), small(2));
    p.ends[1].ep.listen(SERVICE, 10).unwrap();
    let mut asked = 0;
    let last = loop {
        let (conn, qpn) = ask(&mut p, b"hello").unwrap();
        shuttle(&mut p);
        asked += 1;
        if p.ends[1].ep.counters().private_full.get() > 0 {
            break conn;
        }
        p.ends[0].ep.destroy_qp(p.now, qpn).unwrap();
        shuttle(&mut p);
        assert!(asked < 3000);
    };
    let mut told = 0;
    while let Some((conn, private)) = request(&mut p) {
        assert_eq!(private, b"hello", "{conn:?}");
        told += 1;
    }
    assert_eq!(told, asked - 1);
    p.run_for(ms(50));
    let came: Vec<_> =
        p.ends[1].events.drain(..).filter(|(e, _)| matches!(e, Event::ConnectRequest { .. })).collect();
    assert_eq!(came.len(), 1);
    assert_eq!(came[0].1, b"hello");
    assert_eq!(p.ends[0].ep.conn_info(last).map(|c| c.state), Some(ConnState::ReqSent));
}
